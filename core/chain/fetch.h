/* fetch.h - the tiles of one item, in order, through its steps, on the calling thread: for reading one tensor, and for
 * walking two models side by side. Jobs use the executor. */
#ifndef VC_CORE_FETCH_H
#define VC_CORE_FETCH_H

#include "core/chain/head.h"

struct vc_fetch {
    struct vc_item *item;
    struct vc_buffers *buffers;
    struct vc_walk walk;                     /* without a head */
    struct vc_head head;                     /* of a chain that changes the shape */
    uint64_t n_rows, row_len, n_tiles, next; /* of the result */
    bool begun;

    /* Sees the bytes of every tile of the source, in order, before its steps; not of a chain that changes the shape.
     * Set after vc_fetch_open; NULL: nobody does. */
    void (*see)(void *user, const void *data, size_t n_bytes);
    void *user;
};

/* Begins the steps, runs their scans, and stands before tile 0. `buffers` has room for the item. */
enum vc_status vc_fetch_open(struct vc_ctx *ctx, struct vc_item *item, struct vc_buffers *buffers,
                             struct vc_fetch *fetch);
/* The next tile; false in *more when there is none. result->data is valid until the next call. */
enum vc_status vc_fetch_next(struct vc_ctx *ctx, struct vc_fetch *fetch, struct vc_tile *tile,
                             struct vc_tile_result *result, bool *more);
/* After vc_fetch_next: the view of part number `part` of the result. */
struct vc_part_view vc_fetch_view(const struct vc_fetch *fetch, size_t part);
/* Also after a failure. */
void vc_fetch_close(struct vc_ctx *ctx, struct vc_fetch *fetch);

#endif
