/* kept_files.h - the files that no output of a context replaces: what it reads, known by device and inode, so that no
 * other name and no link hides one. Inputs are in the list while they are open; a program adds others by
 * vc_ctx_keep_file. Whatever gives a file its name asks vc_is_kept before. */
#pragma once

#include <sys/stat.h>

#include "core/base/ctx.h"

struct vc_kept_file {
    dev_t device;
    ino_t inode;
    const char *path; /* borrowed */
    bool given_up;    /* vc_kept_give_up */
    struct vc_kept_file *next, *previous;
};

/* The caller's `file`, with device, inode and path filled, is in the list until vc_kept_drop. From any thread. */
void vc_kept_add(struct vc_ctx *ctx, struct vc_kept_file *file);
void vc_kept_drop(struct vc_ctx *ctx, struct vc_kept_file *file);
bool vc_is_kept(struct vc_ctx *ctx, const struct stat *st);
/* `test` holds for the path of one of them; it must not add or drop any. */
bool vc_any_kept(struct vc_ctx *ctx, bool (*test)(const char *path, const void *user), const void *user);

/* That file may be replaced after all: a checkpoint by the next one of the same run. */
void vc_kept_give_up(struct vc_ctx *ctx, const char *path);

/* Of vc_ctx_free: the files of vc_ctx_keep_file. */
void vc_kept_free(struct vc_ctx *ctx);
