/* bands.c - see bands.h. Tiles come from several threads in any order; a band is handed on by the thread that brings
 * its last piece, outside of the lock. Only bands that tiles share are copied. */
#include "prune/bands.h"

/* A band of which some tiles are still to come. */
struct vc_open_band {
    struct vc_open_band *next;
    uint64_t first;
    size_t n, filled; /* elements, and how many have come */
    char *values;     /* behind the structure */
};

/* The band that holds element `at`: its first element and its length. The last band of a block is short. */
static void band_of(const struct vc_band_grid *grid, uint64_t at, uint64_t *first, size_t *n)
{
    uint64_t block = at - at % grid->block;
    uint64_t begin = block + at % grid->block / grid->band * grid->band;
    uint64_t end = vc_min_u64(vc_min_u64(begin + grid->band, block + grid->block), grid->n_elems);

    *first = begin;
    *n = (size_t)(end - begin);
}

/* Of one tensor's scan; released by vc_bands_release also after a failure. */
enum vc_status vc_bands_init(struct vc_ctx *ctx, struct vc_bands *bands, const struct vc_band_grid *grid,
                             size_t elem_size)
{
    *bands = (struct vc_bands){.grid = *grid, .elem_size = elem_size};
    VC_REFUSE_IF(pthread_mutex_init(&bands->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    bands->ready = true;
    return VC_OK;
}

/* Bands that are still open are those of a scan that has failed. */
void vc_bands_release(struct vc_ctx *ctx, struct vc_bands *bands)
{
    while (bands->open != NULL) {
        struct vc_open_band *band = bands->open;

        bands->open = band->next;
        vc_free(ctx, band);
    }
    if (bands->ready) {
        (void)pthread_mutex_destroy(&bands->mutex);
        bands->ready = false;
    }
}

/* Room for the band of n elements from `first`, found or made. The mutex is held. NULL: no memory. */
static struct vc_open_band *open_band(struct vc_ctx *ctx, struct vc_bands *bands, uint64_t first, size_t n)
{
    struct vc_open_band *band = bands->open;
    size_t bytes;

    while (band != NULL && band->first != first) {
        band = band->next;
    }
    if (band != NULL) {
        return band;
    }
    if (!vc_mul_size(n, bands->elem_size, &bytes) || !vc_add_size(bytes, sizeof *band, &bytes)) {
        (void)vc_fail(ctx, VC_E_NOMEM, "a band of %zu elements is too large", n);
        return NULL;
    }
    band = vc_alloc(ctx, VC_TAG_SCRATCH, bytes);
    if (band != NULL) {
        *band = (struct vc_open_band){.next = bands->open, .first = first, .n = n};
        band->values = (char *)(band + 1);
        bands->open = band;
    }
    return band;
}

/* It is complete. */
static void unlink_band(struct vc_bands *bands, struct vc_open_band *band)
{
    struct vc_open_band **at = &bands->open;

    while (*at != band) {
        at = &(*at)->next;
    }
    *at = band->next;
}

/* Puts n elements from flat index `at` into their band; hands it on when that was the last of them. */
static enum vc_status add_piece(struct vc_ctx *ctx, struct vc_bands *bands, uint64_t at, const char *values, size_t n,
                                vc_band_fn *fn, void *user)
{
    enum vc_status status = VC_OK;
    bool complete = false;
    uint64_t first;
    size_t n_band;

    band_of(&bands->grid, at, &first, &n_band);
    (void)pthread_mutex_lock(&bands->mutex);
    /* copied under the lock, handed on outside of it */
    struct vc_open_band *band = open_band(ctx, bands, first, n_band);
    if (band != NULL) {
        memcpy(band->values + (size_t)(at - first) * bands->elem_size, values, n * bands->elem_size);
        band->filled += n;
        complete = band->filled == band->n;
        if (complete) {
            unlink_band(bands, band);
        }
    }
    (void)pthread_mutex_unlock(&bands->mutex);
    VC_CALL_ALLOC(band);
    if (complete) {
        status = fn(ctx, user, band->first, band->values, band->n);
        vc_free(ctx, band);
    }
    return status;
}

/* Whole bands of the tile are handed on as they lie, as many as follow each other within a block. */
enum vc_status vc_bands_add(struct vc_ctx *ctx, struct vc_bands *bands, const struct vc_tile *tile, const void *values,
                            vc_band_fn *fn, void *user)
{
    uint64_t end = tile->first + tile->n_elems;
    uint64_t at = tile->first;

    while (at < end) {
        const char *here = (const char *)values + (size_t)(at - tile->first) * bands->elem_size;
        uint64_t block_end = vc_min_u64(at - at % bands->grid.block + bands->grid.block, bands->grid.n_elems);
        uint64_t first;
        size_t n;

        band_of(&bands->grid, at, &first, &n);
        if (first != at || first + n > end) { /* a band that this tile has a part of */
            n = (size_t)(vc_min_u64(first + n, end) - at);
            VC_CALL(add_piece(ctx, bands, at, here, n, fn, user));
            at += n;
            continue;
        }
        uint64_t whole = block_end <= end ? block_end : at + (end - at) / bands->grid.band * bands->grid.band;
        VC_CALL(fn(ctx, user, at, here, (size_t)(whole - at)));
        at = whole;
    }
    return VC_OK;
}

/* Where bands end with tiles none has to be copied. */
bool vc_bands_fit_tiles(const struct vc_band_grid *grid, uint64_t n_rows, uint64_t row_len)
{
    struct vc_tile tile;
    uint64_t first;
    size_t n;

    if (vc_tile_count(n_rows, row_len) < 2) {
        return true;
    }
    vc_tile_get(n_rows, row_len, 0, &tile);
    band_of(grid, tile.n_elems, &first, &n);
    if (first != tile.n_elems || !tile.whole_rows) {
        return false;
    }
    /* Every tile begins at a multiple of the first one's length: that is where bands begin, too, if it is a multiple of
     * the block, or of the band in a single block. */
    return tile.n_elems % grid->block == 0 || (grid->block >= grid->n_elems && tile.n_elems % grid->band == 0);
}

/* At most 8 tiles are in work, each with one band at its end. */
size_t vc_bands_bytes(const struct vc_band_grid *grid, size_t elem_size, uint64_t n_tiles)
{
    uint64_t band = vc_min_u64(vc_min_u64(grid->band, grid->block), grid->n_elems);
    uint64_t bytes;

    if (!vc_mul_u64(band, elem_size, &bytes) || !vc_mul_u64(bytes + 64, vc_min_u64(n_tiles, 8), &bytes) ||
        bytes > SIZE_MAX / 2) {
        return SIZE_MAX / 2;
    }
    return (size_t)bytes;
}
