/* fetch.h - the tiles of one item, in order, through its stages, on the calling thread: for reading one tensor, and for
 * walking two models side by side. Jobs use the executor. */
#ifndef VC_CORE_FETCH_H
#define VC_CORE_FETCH_H

#include "core/run/stages.h"

struct vc_fetch {
    struct vc_item *item;
    struct vc_buffers *buffers;
    struct vc_source_stream *stream;
    struct vc_check check;
    uint64_t n_rows, row_len, n_tiles, next;
    bool begun;

    /* Sees the bytes of every tile, in order, before its stages. Set after vc_fetch_open; NULL: nobody does. */
    void (*see)(void *user, const void *data, size_t n_bytes);
    void *user;
};

/* Begins the stages, runs their scans, and stands before tile 0. `buffers` has room for the item. */
enum vc_status vc_fetch_open(struct vc_ctx *ctx, struct vc_item *item, struct vc_buffers *buffers,
                             struct vc_fetch *fetch);
/* The next tile; false in *more when there is none. result->data is valid until the next call. */
enum vc_status vc_fetch_next(struct vc_ctx *ctx, struct vc_fetch *fetch, struct vc_tile *tile,
                             struct vc_tile_result *result, bool *more);
/* Also after a failure. */
void vc_fetch_close(struct vc_ctx *ctx, struct vc_fetch *fetch);

/* Values of the tile into dst: from the stream if there is one, else by range. */
enum vc_status vc_fetch_read(struct vc_ctx *ctx, const struct vc_item *item, struct vc_source_stream *stream,
                             struct vc_check *check, const struct vc_tile *tile, void *dst);

#endif
