/* axis_sums.h - the sum of the magnitudes, or of the squares, of all elements that share an index of one axis: of the
 * weight [128, 784] and axis 1 these are 784 sums, one for each column. Tiles may come in any order and from any
 * thread; the result has the same bits.
 *
 * Axis 0 of several is a row of tiles: the sum of a row is that of its chunks (kernels: row_sums), from the left. Any
 * other axis runs along the rows: each tile adds its rows column by column (column_sums), then the columns of an index
 * from the left; tiles are added in pairs, pairs in pairs:
 *
 *     tile 0  tile 1  tile 2  tile 3  tile 4
 *         \  /            \  /          |            the order is that of this tree whoever comes first, and what waits
 *           +--------------+            |            for its neighbour is at most one array for each level and each
 *                  +--------------------+            tile in work */
#pragma once

#include "core/base/ctx.h"
#include "core/values/tile.h"

struct vc_axis_node;

struct vc_axis_sums {
    uint64_t len, inner; /* indices of the axis; elements from one to the next */
    bool by_rows;        /* axis 0 of several */
    unsigned power;      /* 1: magnitudes, 2: squares */
    uint64_t row_len, n_tiles;
    pthread_mutex_t mutex; /* of `waiting` */
    bool ready;            /* between init and release */
    struct vc_axis_node *waiting;
    double *pieces; /* rows longer than a tile: the sum of each piece; else NULL */
    double *sum;    /* [len], complete after vc_axis_sums_end; stays until release */
};

/* VC_E_NOMEM. */
enum vc_status vc_axis_sums_init(struct vc_ctx *ctx, struct vc_axis_sums *sums, const uint64_t *shape, unsigned n_dims,
                                 unsigned axis, unsigned power);

/* Bytes that adding a tile needs as scratch, and about what the sums hold, for the plan of memory. */
size_t vc_axis_sums_scratch(const struct vc_axis_sums *sums);
size_t vc_axis_sums_bytes(const uint64_t *shape, unsigned n_dims, unsigned axis);

/* Adds a tile of f64 (wide) or f32. */
enum vc_status vc_axis_sums_add(struct vc_ctx *ctx, struct vc_axis_sums *sums, const struct vc_tile *tile,
                                const void *values, bool wide, void *scratch);

/* After the last tile. */
void vc_axis_sums_end(struct vc_ctx *ctx, struct vc_axis_sums *sums);
void vc_axis_sums_release(struct vc_ctx *ctx, struct vc_axis_sums *sums); /* also of one that is zeros */
