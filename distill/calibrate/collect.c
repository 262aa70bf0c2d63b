/* collect.c - see collect.h. Vectors come in tiles of at most TILE; threads share the columns of a tile.
 *
 *     x of conv [2, 1, 28, 28], window 3 x 3 -> vectors [2 * 784, 9]: tile 0 windows 0 .. 511 of image 0, ... */
#include "distill/calibrate/collect.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/checked.h"
#include "kernels/train_args.h"

#define TILE  512 /* vectors; products within a tile are added in f32, tiles in f64 */
#define BLOCK 32  /* columns that a thread takes at a time */

/* ---- sums of a tile ---- */

struct tile {
    struct vc_collector *c;
    const float *x; /* [n][n_columns] */
    size_t n;
    atomic_size_t next; /* block of columns */
};

static void add_columns(const struct tile *t, size_t first, size_t end)
{
    struct vc_collector *c = t->c;
    size_t k = (size_t)c->n_columns;

    for (size_t v = 0; v < t->n; v++) {
        const float *x = t->x + v * k;

        for (size_t j = first; j < end; j++) {
            c->sum[j] += (double)x[j];
            c->sum2[j] += (double)x[j] * (double)x[j];
            c->min[j] = x[j] < c->min[j] ? x[j] : c->min[j];
            c->max[j] = x[j] > c->max[j] ? x[j] : c->max[j];
        }
    }
}

/* Products of the columns of two blocks, over all vectors of the tile. */
static void add_products(const struct tile *t, size_t first, size_t second)
{
    struct vc_collector *c = t->c;
    size_t k = (size_t)c->n_columns;
    size_t rows = VC_AT_MOST(k - first, BLOCK);
    size_t columns = VC_AT_MOST(k - second, BLOCK);
    float sums[BLOCK][BLOCK] = {{0.0f}};

    for (size_t v = 0; v < t->n; v++) {
        const float *x = t->x + v * k;
        float b[BLOCK] = {0.0f};

        memcpy(b, x + second, columns * sizeof *b);
        for (size_t i = 0; i < rows; i++) {
            float a = x[first + i];

            for (size_t j = 0; j < BLOCK; j++) {
                sums[i][j] += a * b[j];
            }
        }
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            c->moments[(first + i) * k + second + j] += (double)sums[i][j];
        }
    }
}

static void add_blocks(void *user, unsigned worker)
{
    struct tile *t = user;
    size_t k = (size_t)t->c->n_columns;

    (void)worker;
    for (;;) {
        size_t first = atomic_fetch_add(&t->next, 1) * BLOCK;

        if (first >= k) {
            return;
        }
        add_columns(t, first, VC_AT_MOST(first + BLOCK, k));
        for (size_t second = first; t->c->moments != NULL && second < k; second += BLOCK) {
            add_products(t, first, second);
        }
    }
}

static void add_tile(struct vc_collector *c, struct vc_thread_pool *pool, const float *x, size_t n)
{
    struct tile t = {.c = c, .x = x, .n = n};

    atomic_init(&t.next, 0);
    if (c->moments == NULL && c->n_columns * n < ((size_t)1 << 16)) {
        add_blocks(&t, 0); /* waking threads would take longer */
    } else {
        vc_thread_pool_run(pool, add_blocks, &t);
    }
    c->n_vectors += n;
}

/* ---- vectors of a value ---- */

/* Vectors along the last axis. Masked positions are left out, so tiles may be shorter. */
static enum vc_status add_rows(struct vc_ctx *ctx, struct vc_collector *c, struct vc_thread_pool *pool,
                               const struct vc_run_value *value, const struct vc_collect_rows *rows)
{
    size_t k = (size_t)c->n_columns;
    size_t n = value->n / k;
    const float *x = value->data;
    bool masked = rows->mask != NULL && n == rows->n * rows->width;
    float *tile = masked ? vc_alloc_array(ctx, VC_TAG_TILES, TILE * k, sizeof *tile) : NULL;
    size_t filled = 0;
    enum vc_status status = VC_OK;

    VC_TRY(masked && tile == NULL ? VC_E_NOMEM : VC_OK);
    for (size_t v = 0; v < n; v++) {
        if (masked && rows->mask[v] != 0) {
            memcpy(tile + filled++ * k, x + v * k, k * sizeof *tile);
        }
        if (filled == TILE) {
            add_tile(c, pool, tile, filled);
            filled = 0;
        }
    }
    if (filled != 0) {
        add_tile(c, pool, tile, filled);
    }
    for (size_t v = 0; !masked && v < n; v += TILE) {
        add_tile(c, pool, x + v * k, VC_AT_MOST(n - v, TILE));
    }
out:
    vc_free(ctx, tile);
    return status;
}

/* One window as a vector: channel after channel, in each the elements of the window. */
static void copy_window(const struct vc_window *w, const float *image, size_t channels, const int64_t *o, float *to)
{
    size_t plane = (size_t)(w->in[0] * w->in[1] * w->in[2]);

    for (size_t c = 0; c < channels; c++, image += plane) {
        for (int64_t d = 0; d < w->kernel[0]; d++) {
            int64_t z = vc_window_place(w, 0, o[0], d);

            for (int64_t h = 0; h < w->kernel[1]; h++) {
                int64_t y = vc_window_place(w, 1, o[1], h);
                const float *row = image + (z * w->in[1] + y) * w->in[2];

                for (int64_t v = 0; v < w->kernel[2]; v++) {
                    int64_t at = vc_window_place(w, 2, o[2], v);

                    *to++ = z < 0 || y < 0 || at < 0 ? 0.0f : row[at];
                }
            }
        }
    }
}

static enum vc_status find_window(struct vc_ctx *ctx, const struct vc_collector *c, const struct vc_graph *graph,
                                  const struct vc_run_value *value, struct vc_window *w)
{
    const struct vc_graph_value *weights = &graph->values[c->conv->inputs[1]];
    struct vc_run_value kernel = {.n_dims = weights->n_dims};
    const struct vc_run_value *in[2] = {value, &kernel};
    struct vc_run run = {.ctx = ctx, .graph = graph, .node = c->conv, .n_in = 2, .in = in};

    for (unsigned d = 0; d < weights->n_dims; d++) {
        kernel.shape[d] = weights->shape[d].size;
    }
    return vc_run_window(&run, kernel.shape + 2, false, w) ? VC_OK : run.status;
}

static enum vc_status add_windows(struct vc_ctx *ctx, struct vc_collector *c, struct vc_thread_pool *pool,
                                  const struct vc_graph *graph, const struct vc_run_value *value)
{
    size_t k = (size_t)c->n_columns;
    size_t images = (size_t)value->shape[0];
    size_t image = value->n / images;
    float *tile = vc_alloc_array(ctx, VC_TAG_TILES, TILE * k, sizeof *tile);
    struct vc_window w;
    size_t filled = 0;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(tile);
    VC_TRY(find_window(ctx, c, graph, value, &w));
    for (size_t i = 0; i < images; i++) {
        const float *x = (const float *)value->data + i * image;
        int64_t n = w.out[0] * w.out[1] * w.out[2];

        for (int64_t p = 0; p < n; p++) {
            const int64_t o[3] = {p / (w.out[1] * w.out[2]), p / w.out[2] % w.out[1], p % w.out[2]};

            copy_window(&w, x, (size_t)value->shape[1], o, tile + filled++ * k);
            if (filled == TILE || p + 1 == n) { /* tiles end with the image */
                add_tile(c, pool, tile, filled);
                filled = 0;
            }
        }
    }
out:
    vc_free(ctx, tile);
    return status;
}

enum vc_status vc_collector_add(struct vc_ctx *ctx, struct vc_collector *c, struct vc_thread_pool *pool,
                                const struct vc_graph *graph, const struct vc_run_value *value,
                                const struct vc_collect_rows *rows)
{
    if (value->n == 0) {
        return VC_OK;
    }
    return c->conv != NULL ? add_windows(ctx, c, pool, graph, value) : add_rows(ctx, c, pool, value, rows);
}

/* ---- memory ---- */

enum vc_status vc_collector_begin(struct vc_ctx *ctx, struct vc_collector *c, const char *tensor, bool moments)
{
    size_t k = (size_t)c->n_columns;
    size_t square;
    enum vc_status status = VC_OK;

    c->sum = vc_calloc_array(ctx, VC_TAG_TILES, k, sizeof *c->sum);
    VC_TRY_ALLOC(c->sum);
    c->sum2 = vc_calloc_array(ctx, VC_TAG_TILES, k, sizeof *c->sum2);
    VC_TRY_ALLOC(c->sum2);
    c->min = vc_alloc_array(ctx, VC_TAG_TILES, k, sizeof *c->min);
    VC_TRY_ALLOC(c->min);
    c->max = vc_alloc_array(ctx, VC_TAG_TILES, k, sizeof *c->max);
    VC_TRY_ALLOC(c->max);
    for (size_t j = 0; j < k; j++) {
        c->min[j] = INFINITY;
        c->max[j] = -INFINITY;
    }
    if (moments) {
        VC_TRY(vc_mul_size(k, k, &square) ? VC_OK : VC_E_NOMEM);
        c->moments = vc_calloc_array(ctx, VC_TAG_TILES, square, sizeof *c->moments);
        if (c->moments == NULL) {
            return vc_context(ctx, "the second moments of '%s', %zu x %zu numbers (%s leaves them out)", tensor, k, k,
                              vc_option(ctx, "second_moments"));
        }
    }
out:
    return status;
}

void vc_collector_end(struct vc_ctx *ctx, struct vc_collector *c)
{
    vc_free(ctx, c->sum);
    vc_free(ctx, c->sum2);
    vc_free(ctx, c->min);
    vc_free(ctx, c->max);
    vc_free(ctx, c->moments);
}
