/* windows.h - bytes of remote files that are kept in memory, so that few requests are made: the beginning of each file,
 * and a few windows that grow while a file is read on. */
#pragma once

#include "formats/remote/fetch.h"

#define VC_REMOTE_HEAD    ((size_t)128 << 10) /* of each file, once it is read at all */
#define VC_REMOTE_HEADS   ((size_t)16 << 20)  /* of all files together at most; beyond that heads are windows */
#define VC_REMOTE_WINDOW  ((size_t)4 << 20)   /* the largest */
#define VC_REMOTE_LEAST   ((size_t)64 << 10)  /* and with little memory */
#define VC_REMOTE_WINDOWS 4

struct vc_remote_file {
    struct vc_fetched at;
    unsigned char *head;
    size_t n_head;
    uint64_t next; /* where the last window of it ended */
    size_t step;   /* and how long it was */
};

struct vc_remote_window {
    const struct vc_remote_file *file; /* NULL: empty */
    uint64_t begin, used;
    size_t n;
    unsigned char *bytes;
};

/* One thread at a time, by the mutex. */
struct vc_remote_windows {
    pthread_mutex_t mutex;
    struct vc_fetcher *fetcher;
    size_t n_heads, most_heads; /* bytes */
    size_t capacity;            /* of each window */
    uint64_t clock;
    struct vc_remote_window windows[VC_REMOTE_WINDOWS];
};

/* Takes all memory that windows ever need, a sixteenth of the limit and 16 MiB at most, so that a job that is planned
 * later counts without it. Release in any case. */
enum vc_status vc_remote_windows_make(struct vc_ctx *ctx, struct vc_fetcher *fetcher, struct vc_remote_windows *w);

/* n bytes from `offset` on, inside of the file. */
enum vc_status vc_remote_read(struct vc_ctx *ctx, struct vc_remote_windows *w, struct vc_remote_file *file,
                              uint64_t offset, void *dst, size_t n);

void vc_remote_windows_release(struct vc_ctx *ctx, struct vc_remote_windows *w);
