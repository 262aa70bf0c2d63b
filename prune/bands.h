/* bands.h - groups of rows that have to be seen together, of a tensor that arrives in tiles.
 *
 * A band is a run of elements: M rows of a matrix whose weights are pruned N of M along the first axis, the rows of a
 * row of blocks. Bands that lie in one tile are handed on where they are. Those that do not are put together from their
 * tiles first, in whatever order these come:
 *
 *     tile 0: | band 0 | band 1 | ba        tile 1: nd 2 | band 3 | ...
 */
#pragma once

#include "core/base/ctx.h"
#include "core/values/tile.h"

/* Where bands lie: blocks of `block` elements, each cut into bands of `band`, the last one of a block short. */
struct vc_band_grid {
    uint64_t n_elems, block, band;
};

struct vc_open_band;

struct vc_bands {
    struct vc_band_grid grid;
    size_t elem_size;
    pthread_mutex_t mutex; /* of the list */
    bool ready;
    struct vc_open_band *open;
};

/* Gets n elements from flat index `first`, whole bands that follow each other inside one block. Called on the thread
 * that brought the last of them. */
typedef enum vc_status vc_band_fn(struct vc_ctx *ctx, void *user, uint64_t first, const void *values, size_t n);

enum vc_status vc_bands_init(struct vc_ctx *ctx, struct vc_bands *bands, const struct vc_band_grid *grid,
                             size_t elem_size);
void vc_bands_release(struct vc_ctx *ctx, struct vc_bands *bands); /* accepts zeros; also after a failure */

/* Adds a tile, whose elements are at `values`. Thread-safe. */
enum vc_status vc_bands_add(struct vc_ctx *ctx, struct vc_bands *bands, const struct vc_tile *tile, const void *values,
                            vc_band_fn *fn, void *user);

/* Whether every tile of a tensor holds whole bands only. */
bool vc_bands_fit_tiles(const struct vc_band_grid *grid, uint64_t n_rows, uint64_t row_len);

/* Bytes that open bands take at most while so many tiles are in work. */
size_t vc_bands_bytes(const struct vc_band_grid *grid, size_t elem_size, uint64_t n_tiles);
