/* mounts.h - where files are read from that are not on this machine's disk.
 *
 * A mount gives a name a folder: "hf:owner/net" stands for a folder of this process, in which each file of the model
 * has its name and its length, and no bytes (a hole). So whoever looks through the model finds what would be there, and
 * sentences keep the name that the user gave. A virtual file says where the bytes come from: an input that is opened
 * and turns out to be one of these (device and inode) reads there (infile.h). Formats know neither.
 *
 * Lists of the process, behind a mutex. What is added stays until it is dropped; nothing is copied. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "core/base/ctx.h"

struct vc_mount {
    const char *name;   /* "hf:owner/net" */
    const char *folder; /* an absolute path */
    struct vc_mount *next;
};

void vc_mount_add(struct vc_mount *mount);
void vc_mount_drop(struct vc_mount *mount);

/* What a path that begins with the name of a mount stands for, in `buffer`; `path` itself where it begins with none, or
 * is too long. */
const char *vc_mount_path(const char *path, char buffer[PATH_MAX]);

struct vc_virtual_file {
    dev_t device;
    ino_t inode;
    /* n bytes from `offset` on, which are inside of the file. Any thread, with its context, whose sentence names no
     * file. */
    enum vc_status (*read)(struct vc_ctx *ctx, const struct vc_virtual_file *file, uint64_t offset, void *dst,
                           size_t n);
    struct vc_virtual_file *next;
};

void vc_virtual_add(struct vc_virtual_file *file);
void vc_virtual_drop(struct vc_virtual_file *file);
/* The file that has that device and inode; NULL: it is one of the disk's. */
const struct vc_virtual_file *vc_virtual_find(const struct stat *st);
