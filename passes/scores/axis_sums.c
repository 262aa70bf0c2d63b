/* axis_sums.c - see axis_sums.h.
 *
 * Tiles come in any order from many threads, and the sums must not depend on it. By rows each sum belongs
 * to one tile, or to the pieces of one row, which are added in their order at the end. By columns every
 * tile has a share in all sums; shares are added in a tree whose shape depends on the number of tiles
 * alone:
 *
 *     tiles    0   1   2   3   4
 *               \ /     \ /    |
 *               0-1     2-3    |         level 1
 *                 \     /      |
 *                  0 - 3       |         level 2
 *                     \       /
 *                      0 - 4             the result
 *
 * A run waits until the one beside it is there; so few wait at a time. */
#include "passes/scores/axis_sums.h"

#include "kernels/kernels.h"

/* The sums of 2^level tiles, the index-th such run, until the run beside it is there. */
struct vc_axis_node {
    struct vc_axis_node *next;
    unsigned level;
    uint64_t index;
    double sum[];
};

/* Length of the axis, and elements behind it. */
static void split(const uint64_t *shape, unsigned n_dims, unsigned axis, uint64_t *len, uint64_t *inner)
{
    *len = shape[axis];
    *inner = 1;
    for (unsigned d = axis + 1; d < n_dims; d++) {
        *inner *= shape[d];
    }
}

/* Sums of |x| to the power for each place along the axis. Where the axis is the rows and a row is longer
 * than a tile, the parts of each tile wait in `pieces`, so that they are added in order. */
enum vc_status vc_axis_sums_init(struct vc_ctx *ctx, struct vc_axis_sums *sums, const uint64_t *shape, unsigned n_dims,
                                 unsigned axis, unsigned power)
{
    enum vc_status status = VC_OK;
    uint64_t n_rows;

    *sums = (struct vc_axis_sums){.by_rows = n_dims >= 2 && axis == 0, .power = power};
    split(shape, n_dims, axis, &sums->len, &sums->inner);
    vc_rows_of(shape, n_dims, &n_rows, &sums->row_len);
    sums->n_tiles = vc_tile_count(n_rows, sums->row_len);
    (void)pthread_mutex_init(&sums->mutex, NULL);
    sums->ready = true;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_SCRATCH, sums->sum, (size_t)sums->len + 1));
    if (sums->by_rows && sums->row_len > VC_TILE_ELEMS) {
        VC_TRY(VC_ZEROS(ctx, VC_TAG_SCRATCH, sums->pieces, (size_t)sums->n_tiles));
    }
out:
    if (status != VC_OK) {
        vc_axis_sums_release(ctx, sums);
    }
    return status;
}

size_t vc_axis_sums_scratch(const struct vc_axis_sums *sums)
{
    size_t columns = (size_t)vc_min_u64(sums->row_len, VC_TILE_ELEMS);
    size_t rows = VC_TILE_ELEMS / (columns == 0 ? 1 : columns);

    return (sums->by_rows ? rows * (columns / VC_CHUNK_ELEMS + 1) : columns) * sizeof(double) + 64;
}

/* The most that is allocated: by columns a run of each level may wait for its neighbour. */
size_t vc_axis_sums_bytes(const uint64_t *shape, unsigned n_dims, unsigned axis)
{
    bool by_rows = n_dims >= 2 && axis == 0;
    uint64_t n_rows, row_len;
    size_t bytes = ((size_t)shape[axis] + 1) * sizeof(double);

    vc_rows_of(shape, n_dims, &n_rows, &row_len);
    uint64_t n_tiles = vc_tile_count(n_rows, row_len);
    if (by_rows) {
        return bytes + (row_len > VC_TILE_ELEMS ? (size_t)n_tiles * sizeof(double) : 0);
    }
    while (n_tiles > 1) { /* what waits for its neighbour */
        bytes += (size_t)shape[axis] * sizeof(double) + sizeof(struct vc_axis_node);
        n_tiles /= 2;
    }
    return bytes + (size_t)shape[axis] * sizeof(double);
}

/* Bytes of a run: its place in the tree, and a sum for each index. */
static size_t run_bytes(const struct vc_axis_sums *sums)
{
    return sizeof(struct vc_axis_node) + (size_t)sums->len * sizeof(double);
}

/* ---- along rows of tiles ---- */

/* The sums of the tile's rows: the kernel sums chunks, which are added from the left. */
static enum vc_status add_rows(struct vc_ctx *ctx, struct vc_axis_sums *sums, const struct vc_tile *tile,
                               const void *values, bool wide, double *scratch)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    size_t per_row = vc_tile_chunks(tile) / tile->n_rows;

    if (wide) {
        VC_KERNEL_CALL(k->row_sums_f64(values, tile->n_rows, tile->row_len, sums->power, scratch));
    } else {
        VC_KERNEL_CALL(k->row_sums_f32(values, tile->n_rows, tile->row_len, sums->power, scratch));
    }
    for (size_t row = 0; row < tile->n_rows; row++) {
        double sum = scratch[row * per_row];

        for (size_t i = 1; i < per_row; i++) {
            sum += scratch[row * per_row + i];
        }
        if (sums->pieces != NULL) {
            sums->pieces[tile->index] = sum;
        } else {
            sums->sum[tile->row0 + row] = sum;
        }
    }
    return VC_OK;
}

/* ---- along the rows' elements ---- */

/* The columns of each index, from the left. */
static void fold(const struct vc_axis_sums *sums, const struct vc_tile *tile, const double *columns, double *to)
{
    uint64_t at = tile->col0 / sums->inner % sums->len;
    uint64_t left = sums->inner - tile->col0 % sums->inner; /* columns of that index from here on */

    memset(to, 0, (size_t)sums->len * sizeof *to);
    for (size_t c = 0; c < tile->row_len; c++) {
        to[at] += columns[c];
        if (--left == 0) {
            left = sums->inner;
            at = at + 1 == sums->len ? 0 : at + 1;
        }
    }
}

/* Takes the run beside `node` out of those that wait; NULL: it is not there yet. Under the mutex. */
static struct vc_axis_node *take_neighbour(struct vc_axis_sums *sums, const struct vc_axis_node *node)
{
    struct vc_axis_node **at = &sums->waiting;

    while (*at != NULL && ((*at)->level != node->level || (*at)->index != (node->index ^ 1))) {
        at = &(*at)->next;
    }
    struct vc_axis_node *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    return found;
}

/* Joins a run with those beside it as far as they are there, then leaves it for the next one. The last of an odd number
 * of runs goes up by itself. */
static void join(struct vc_ctx *ctx, struct vc_axis_sums *sums, struct vc_axis_node *node)
{
    uint64_t n = sums->n_tiles; /* runs of this level */
    struct vc_axis_node *other;

    for (;;) {
        (void)pthread_mutex_lock(&sums->mutex);
        bool alone = node->index + 1 == n && n % 2 == 1;
        other = alone ? NULL : take_neighbour(sums, node);
        if (n <= 1 || (!alone && other == NULL)) {
            node->next = sums->waiting;
            sums->waiting = node;
            (void)pthread_mutex_unlock(&sums->mutex);
            return;
        }
        (void)pthread_mutex_unlock(&sums->mutex);
        if (other != NULL) {
            struct vc_axis_node *left = other->index < node->index ? other : node;
            struct vc_axis_node *right = left == node ? other : node;

            for (uint64_t i = 0; i < sums->len; i++) {
                left->sum[i] += right->sum[i];
            }
            vc_free(ctx, right);
            node = left;
        }
        node->level++;
        node->index /= 2;
        n = n / 2 + n % 2;
    }
}

/* The sums of the tile's columns, folded to indices of the axis, as a run of level 0. */
static enum vc_status add_columns(struct vc_ctx *ctx, struct vc_axis_sums *sums, const struct vc_tile *tile,
                                  const void *values, bool wide, double *scratch)
{
    const struct vc_kernels *k = vc_kernels_get(ctx);
    VC_SCOPED struct vc_axis_node *node = vc_alloc(ctx, VC_TAG_SCRATCH, run_bytes(sums));

    VC_CALL_ALLOC(node);
    node->level = 0;
    node->index = tile->index;
    if (wide) {
        VC_KERNEL_CALL(k->column_sums_f64(values, tile->n_rows, tile->row_len, sums->power, scratch));
    } else {
        VC_KERNEL_CALL(k->column_sums_f32(values, tile->n_rows, tile->row_len, sums->power, scratch));
    }
    fold(sums, tile, scratch, node->sum);
    join(ctx, sums, node);
    node = NULL;
    return VC_OK;
}

enum vc_status vc_axis_sums_add(struct vc_ctx *ctx, struct vc_axis_sums *sums, const struct vc_tile *tile,
                                const void *values, bool wide, void *scratch)
{
    return sums->by_rows ? add_rows(ctx, sums, tile, values, wide, scratch)
                         : add_columns(ctx, sums, tile, values, wide, scratch);
}

/* Adds pieces of long rows, or takes what the last run has; frees the rest. */
void vc_axis_sums_end(struct vc_ctx *ctx, struct vc_axis_sums *sums)
{
    if (sums->pieces != NULL) {
        uint64_t per_row = sums->n_tiles / sums->len;

        for (uint64_t i = 0; i < sums->n_tiles; i++) {
            sums->sum[i / per_row] = i % per_row == 0 ? sums->pieces[i] : sums->sum[i / per_row] + sums->pieces[i];
        }
    }
    if (sums->waiting != NULL) {
        memcpy(sums->sum, sums->waiting->sum, (size_t)sums->len * sizeof *sums->sum);
    }
    while (sums->waiting != NULL) {
        struct vc_axis_node *node = sums->waiting;

        sums->waiting = node->next;
        vc_free(ctx, node);
    }
    vc_free(ctx, vc_give(&sums->pieces));
}

void vc_axis_sums_release(struct vc_ctx *ctx, struct vc_axis_sums *sums)
{
    if (!sums->ready) {
        return;
    }
    vc_axis_sums_end(ctx, sums);
    (void)pthread_mutex_destroy(&sums->mutex);
    vc_free(ctx, sums->sum);
    *sums = (struct vc_axis_sums){.len = 0};
}
