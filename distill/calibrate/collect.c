/* collect.c - see collect.h. Threads share the columns of a tile.
 *
 *     x of conv [2, 1, 28, 28], window 3 x 3 -> vectors [2 * 784, 9]: tile 0 windows 0 .. 511 of image 0, ...
 *
 * A tile has at most TILE vectors, and ends where a row of the data ends that has MANY vectors, else with each MANY
 * rows: so what a tile has does not depend on the batches. Its sums are rounded to a multiple of 2^-24 of what one
 * product may be, by the largest elements of its columns. Then f64 adds the sums of tiles exactly, in any order, as
 * long as the total is below 2^29 times the smallest such product of a tile: 2^15 vectors, and inputs of a column that
 * are up to 128 times as large in one tile as in another. */
#include "distill/calibrate/collect.h"

#include <math.h>

#include "kernels/train_args.h"

#define TILE  512 /* vectors; products within a tile are added in f32, tiles in f64 */
#define MANY  64
#define BLOCK 32 /* columns that a thread takes at a time */

/* ---- sums of a tile ---- */

/* Vectors that lie behind each other, or the windows of a band: of a window's element, all channels lie side by side. */
struct tile {
    struct vc_collector *c;
    const float *x; /* [n][n_columns], or the band */
    size_t n;
    const struct vc_window *window; /* of the band; NULL: vectors */
    size_t channels, place;         /* of a band; the first window is number `place` */
    bool products;                  /* after the columns, whose steps they need */
    atomic_size_t next;             /* block of columns */
};

/* ---- bands ---- */

/* Windows `place` to before place + n of an image are read from a band of it: the rows that they lie in, with their padding,
 * and channels side by side.
 *
 *     3 x 3, two channels a and b, windows of row 0        band: row -1 (zeros), 0, 1;  0 0 a0 b0 a1 b1 a2 b2 ... 0 0
 *
 * So a sum over windows reads elements in the band a stride apart, and no window is copied. */
static size_t band_width(const struct vc_window *w)
{
    return (size_t)((w->out[2] - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1);
}

static size_t band_rows(const struct vc_window *w, size_t place, size_t n)
{
    int64_t rows = (int64_t)(place + n - 1) / w->out[2] - (int64_t)place / w->out[2];

    return (size_t)(rows * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1);
}

static void fill_band(const struct vc_window *w, const float *image, size_t channels, size_t place, size_t n, float *to)
{
    int64_t width = (int64_t)band_width(w);
    int64_t y = (int64_t)place / w->out[2] * w->stride[1] - w->before[1];
    int64_t first = VC_AT_MOST(w->before[2], width);
    int64_t end = VC_AT_MOST(w->in[2] + w->before[2], width);

    for (size_t rows = band_rows(w, place, n); rows > 0; rows--, y++, to += (size_t)width * channels) {
        bool inside = y >= 0 && y < w->in[1];

        if (!inside || first > 0 || end < width) {
            memset(to, 0, (size_t)width * channels * sizeof *to);
        }
        for (size_t c = 0; inside && c < channels; c++) {
            const float *from = image + ((int64_t)c * w->in[1] + y) * w->in[2] - w->before[2];

            for (int64_t x = first; x < end; x++) {
                to[(size_t)x * channels + c] = from[x];
            }
        }
    }
}

/* The multiple of a power of two that is nearest; x is less than 2^51 of them. */
static double round_to(double step, double x)
{
    double large = 0x1.8p52 * step;

    return x + large - large;
}

/* Sums and extremes of up to BLOCK columns. */
struct columns {
    double sum[BLOCK], sum2[BLOCK];
    float min[BLOCK], max[BLOCK];
};

typedef float lanes __attribute__((vector_size(2 * BLOCK))); /* half of a block */

#define ROWS   4 /* of a block of products that registers hold */
#define ALWAYS static inline __attribute__((always_inline))

#define FEW 16 /* columns whose sums registers hold */

/* n columns from x on over these vectors, each in the order of these: any width of registers gives the same bits. */
ALWAYS void walk_few(const float *x, size_t k, size_t n_vectors, size_t n, size_t at, struct columns *columns)
{
    double sum[FEW];
    double sum2[FEW];
    float min[FEW];
    float max[FEW];

    memcpy(sum, columns->sum + at, n * sizeof *sum);
    memcpy(sum2, columns->sum2 + at, n * sizeof *sum2);
    memcpy(min, columns->min + at, n * sizeof *min);
    memcpy(max, columns->max + at, n * sizeof *max);
    for (size_t v = 0; v < n_vectors; v++, x += k) {
        for (size_t j = 0; j < n; j++) {
            sum[j] += (double)x[j];
            sum2[j] += (double)x[j] * (double)x[j];
            min[j] = x[j] < min[j] ? x[j] : min[j];
            max[j] = x[j] > max[j] ? x[j] : max[j];
        }
    }
    memcpy(columns->sum + at, sum, n * sizeof *sum);
    memcpy(columns->sum2 + at, sum2, n * sizeof *sum2);
    memcpy(columns->min + at, min, n * sizeof *min);
    memcpy(columns->max + at, max, n * sizeof *max);
}

ALWAYS void walk_columns(const float *x, size_t k, size_t n_vectors, size_t n, struct columns *s)
{
    for (size_t at = 0; at < n; at += FEW) {
        if (n - at >= FEW) {
            walk_few(x + at, k, n_vectors, FEW, at, s);
        } else {
            walk_few(x + at, k, n_vectors, n - at, at, s);
        }
    }
}

/* Products of up to ROWS columns from a on with `columns` columns from b on; of fewer rows the last one is repeated. */
ALWAYS void walk_products(const float *a, const float *b, size_t k, size_t n_vectors, size_t rows, size_t columns,
                          float (*sums)[BLOCK])
{
    lanes sum[ROWS][2] = {{{0.0f}}};

    for (size_t v = 0; v < n_vectors; v++, a += k, b += k) {
        lanes x[2] = {{0.0f}};

        memcpy(x, b, columns * sizeof *b);
        _Pragma("GCC unroll 4") for (size_t i = 0; i < ROWS; i++)
        {
            float with = a[i < rows ? i : rows - 1];

            sum[i][0] += with * x[0];
            sum[i][1] += with * x[1];
        }
    }
    memcpy(sums, sum, sizeof sum);
}

/* Of two blocks. */
ALWAYS void walk_blocks(const float *x, size_t k, size_t n_vectors, const size_t first[2], float (*sums)[BLOCK])
{
    size_t rows = VC_AT_MOST(k - first[0], BLOCK);
    size_t columns = VC_AT_MOST(k - first[1], BLOCK);

    for (size_t i = 0; i < rows; i += ROWS) {
        if (columns == BLOCK) {
            walk_products(x + first[0] + i, x + first[1], k, n_vectors, VC_AT_MOST(rows - i, ROWS), BLOCK, sums + i);
        } else {
            walk_products(x + first[0] + i, x + first[1], k, n_vectors, VC_AT_MOST(rows - i, ROWS), columns, sums + i);
        }
    }
}

/* Both walks for one level of processors. */
struct walks {
    void (*columns)(const float *x, size_t k, size_t n_vectors, size_t n, struct columns *s);
    void (*blocks)(const float *x, size_t k, size_t n_vectors, const size_t first[2], float (*sums)[BLOCK]);
};

#define WALKS(level, target)                                                                                    \
    target static void columns_##level(const float *x, size_t k, size_t n_vectors, size_t n, struct columns *s) \
    {                                                                                                           \
        walk_columns(x, k, n_vectors, n, s);                                                                    \
    }                                                                                                           \
    target static void blocks_##level(const float *x, size_t k, size_t n_vectors, const size_t first[2],        \
                                      float(*sums)[BLOCK])                                                      \
    {                                                                                                           \
        walk_blocks(x, k, n_vectors, first, sums);                                                              \
    }

WALKS(base, )
#ifdef __x86_64__
WALKS(avx2, VC_TARGET("avx2"))
WALKS(avx512, VC_TARGET("avx512f,avx512vl,avx512bw,avx512dq"))
#endif

static struct walks walks_of(enum vc_cpu_level level)
{
#ifdef __x86_64__
    if (level == VC_CPU_AVX512) {
        return (struct walks){columns_avx512, blocks_avx512};
    }
    if (level == VC_CPU_AVX2) {
        return (struct walks){columns_avx2, blocks_avx2};
    }
#endif
    return (struct walks){columns_base, blocks_base};
}

/* The vectors of a band are walked row of windows after row. `from`: the columns of the first vector. */
static void walk_tile(const struct tile *t, const float *from, size_t n, struct columns *s)
{
    const struct vc_window *w = t->window;
    size_t wide = w != NULL ? (size_t)w->out[2] : t->n;
    size_t step = w != NULL ? (size_t)w->stride[2] * t->channels : (size_t)t->c->n_columns;
    size_t down = w != NULL ? (size_t)w->stride[1] * band_width(w) * t->channels : 0;
    size_t column = t->place % wide;

    memcpy(s->min, from + column * step, n * sizeof *from);
    memcpy(s->max, from + column * step, n * sizeof *from);
    for (size_t v = 0, more; v < t->n; v += more, from += down, column = 0) {
        more = VC_AT_MOST(wide - column, t->n - v);
        walks_of(t->c->level).columns(from + column * step, step, more, n, s);
    }
}

/* Sums and extremes of n columns of the tile, of a band those of channels from `first` on for element `at` of the window. Also
 * sets the steps that sums are rounded to, from the largest element of each column. */
static void add_columns(const struct tile *t, size_t at, size_t first, size_t n)
{
    struct vc_collector *c = t->c;
    const struct vc_window *w = t->window;
    size_t each = w != NULL ? (size_t)c->n_columns / t->channels : 1;
    const float *from = t->x + first;
    struct columns s = {.sum = {0.0}};

    if (w != NULL) {
        from += ((int64_t)at / w->kernel[2] * w->dilation[1] * (int64_t)band_width(w) +
                 (int64_t)at % w->kernel[2] * w->dilation[2]) *
                (int64_t)t->channels;
    }
    walk_tile(t, from, n, &s);
    for (size_t j = 0; j < n; j++) {
        size_t to = (first + j) * each + at;
        int exponent; /* all elements are below 2^exponent */

        (void)frexpf(fmaxf(-s.min[j], s.max[j]), &exponent);
        c->steps[to] = ldexp(1.0, exponent - 12);
        c->sum[to] += round_to(c->steps[to] * 0x1p-12, s.sum[j]);
        c->sum2[to] += round_to(c->steps[to] * c->steps[to], s.sum2[j]);
        c->min[to] = fminf(c->min[to], s.min[j]);
        c->max[to] = fmaxf(c->max[to], s.max[j]);
    }
}

/* Products of the columns of two blocks, over all vectors of the tile. */
static void add_products(const struct tile *t, size_t first, size_t second)
{
    struct vc_collector *c = t->c;
    size_t k = (size_t)c->n_columns;
    size_t rows = VC_AT_MOST(k - first, BLOCK);
    size_t columns = VC_AT_MOST(k - second, BLOCK);
    float sums[BLOCK][BLOCK];

    walks_of(c->level).blocks(t->x, k, t->n, (const size_t[2]){first, second}, sums);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            c->moments[(first + i) * k + second + j] +=
                round_to(c->steps[first + i] * c->steps[second + j], (double)sums[i][j]);
        }
    }
}

/* A thread: takes blocks of columns until there are none. For products a block is combined with itself and
 * those behind it, since the matrix is symmetric; the first blocks have the most work, and threads take
 * them first. */
static void add_blocks(void *user, unsigned worker)
{
    struct tile *t = user;
    size_t k = (size_t)t->c->n_columns;
    size_t beside = t->window != NULL ? t->channels : k; /* columns that lie side by side */
    size_t blocks = (beside + BLOCK - 1) / BLOCK;

    for (;;) {
        size_t number = atomic_fetch_add(&t->next, 1);
        size_t at = number / blocks, first = number % blocks * BLOCK;

        if (at * beside >= k) {
            return;
        }
        if (!t->products) {
            add_columns(t, at, first, VC_AT_MOST(beside - first, BLOCK));
        }
        for (size_t second = first; t->products && second < k; second += BLOCK) {
            add_products(t, first, second);
        }
    }
}

/* Columns in the first pass, products in the second, which needs the steps of all columns. */
static void add_tile(struct tile *t, struct vc_thread_pool *pool)
{
    struct vc_collector *c = t->c;

    for (int pass = 0; pass < (c->moments != NULL ? 2 : 1); pass++) {
        atomic_init(&t->next, 0);
        t->products = pass == 1;
        if (!t->products && c->n_columns * t->n < ((size_t)1 << 16)) {
            add_blocks(t, 0); /* waking threads would take longer */
        } else {
            vc_thread_pool_run(pool, add_blocks, t);
        }
    }
    c->n_vectors += t->n;
}

/* ---- vectors of a value ---- */

/* How many vectors there are from vector v of the value on to the end of a tile's rows. */
static size_t until_end(const struct vc_collect_rows *rows, size_t n, size_t v)
{
    uint64_t each = vc_max_u64(n / rows->n, 1);
    uint64_t unit = each >= MANY ? each : each * MANY;

    return (size_t)(unit - (rows->first * each + v) % unit);
}

/* Adds the tile that is not full. */
void vc_collector_finish(struct vc_collector *c, struct vc_thread_pool *pool)
{
    if (c->filled != 0) {
        add_tile(&(struct tile){.c = c, .x = c->tile, .n = c->filled}, pool);
        c->filled = 0;
    }
}

/* n more vectors are in the tile; last: of its rows. */
static void count_in(struct vc_collector *c, struct vc_thread_pool *pool, size_t n, bool last)
{
    c->filled += n;
    if (c->filled == TILE || last) {
        vc_collector_finish(c, pool);
    }
}

/* Vectors along the last axis, those of masked positions left out. Whole tiles are not copied. */
static void add_rows(struct vc_collector *c, struct vc_thread_pool *pool, const struct vc_run_value *value,
                     const struct vc_collect_rows *rows)
{
    size_t k = (size_t)c->n_columns;
    size_t n = value->n / k;
    const float *x = value->data;
    bool masked = rows->mask != NULL && n == rows->n * rows->width;
    bool chosen = c->weights != NULL; /* not every token reaches the expert */

    for (size_t v = 0, more; v < n; v += more) {
        size_t left = until_end(rows, n, v);
        bool whole = !masked && !chosen && c->filled == 0 && VC_AT_MOST(left, TILE) <= n - v;

        more = whole ? VC_AT_MOST(left, TILE) : 1;
        if (whole) {
            add_tile(&(struct tile){.c = c, .x = x + v * k, .n = more}, pool);
        } else if ((!masked || rows->mask[v] != 0) && (!chosen || c->weights[v * c->n_experts + c->expert] != 0.0f)) {
            memcpy(c->tile + c->filled * k, x + v * k, k * sizeof *x);
            count_in(c, pool, 1, left == 1);
        } else if (left == 1) {
            vc_collector_finish(c, pool);
        }
    }
}

/* n windows that follow each other in a row of the output, from o on, as vectors: channel after channel, in each the
 * elements of the window. Of each element all windows are copied together, since in the input they follow each other, too:
 * from `first` to `end` they lie in it, the others in its padding. */
static void copy_windows(const struct vc_window *w, const float *image, size_t channels, const int64_t *o, int64_t n,
                         float *to)
{
    size_t plane = (size_t)(w->in[0] * w->in[1] * w->in[2]);
    size_t each = (size_t)(w->kernel[0] * w->kernel[1] * w->kernel[2]);
    int64_t apart = w->stride[2];

    for (size_t at = 0; at < each; at++) {
        int64_t z = vc_window_place(w, 0, o[0], (int64_t)at / (w->kernel[1] * w->kernel[2]));
        int64_t y = vc_window_place(w, 1, o[1], (int64_t)at / w->kernel[2] % w->kernel[1]);
        int64_t x = o[2] * apart - w->before[2] + (int64_t)at % w->kernel[2] * w->dilation[2];
        bool outside = z < 0 || y < 0 || x >= w->in[2];
        int64_t first = outside || x >= 0 ? 0 : VC_AT_MOST((apart - 1 - x) / apart, n);
        int64_t end = outside ? 0 : VC_AT_MOST((w->in[2] - x + apart - 1) / apart, n);

        for (size_t c = 0; c < channels; c++) {
            const float *from = outside ? image : image + c * plane + (z * w->in[1] + y) * w->in[2];
            float *column = to + c * each + at;
            int64_t i = 0;

            for (; i < first; i++, column += channels * each) {
                *column = 0.0f;
            }
            for (; i < end; i++, column += channels * each) {
                *column = from[x + i * apart];
            }
            for (; i < n; i++, column += channels * each) {
                *column = 0.0f;
            }
        }
    }
}

/* The window of the convolution for a value of these sizes, as the loops of the graph cut it. */
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

/* The three coordinates of window `number`: depth, height, width. */
static void place_of_window(const struct vc_window *w, size_t number, int64_t o[3])
{
    int64_t p = (int64_t)number;

    o[0] = p / (w->out[1] * w->out[2]);
    o[1] = p / w->out[2] % w->out[1];
    o[2] = p % w->out[2];
}

/* Places are spread over the row: one in each n-th part, at a place within it that changes from row to row. */
enum vc_status vc_collector_look(struct vc_ctx *ctx, const struct vc_collector *c, const struct vc_graph *graph,
                                 const struct vc_run_value *value, const struct vc_collect_rows *rows, size_t row,
                                 size_t n, float *to)
{
    size_t k = (size_t)c->n_columns;
    size_t images = c->conv != NULL ? (size_t)value->shape[0] : 1;
    size_t each = c->conv == NULL ? value->n / k / rows->n : 0; /* vectors of a row */
    struct vc_window w;
    int64_t o[3];

    if (c->conv != NULL) {
        VC_CALL(find_window(ctx, c, graph, value, &w));
        each = (size_t)(w.out[0] * w.out[1] * w.out[2]);
    }
    for (size_t j = 0; each != 0 && j < n; j++, to += k) {
        size_t part = each / n;
        size_t place = j * each / n + (part > 1 ? (size_t)((rows->first + row) * 7919 % part) : 0);
        size_t v = row * each + place;

        if (c->conv != NULL) {
            place_of_window(&w, place, o);
            copy_windows(&w, (const float *)value->data + row * images / rows->n * (value->n / images),
                         (size_t)value->shape[1], o, 1, to);
        } else if (rows->mask == NULL || each != rows->width || rows->mask[v] != 0) {
            memcpy(to, (const float *)value->data + v * k, k * sizeof *to);
        }
    }
    return VC_OK;
}

#define SIDE_BY_SIDE 8 /* channels that are worth a band */

/* Tiles end with each image, and their bands are no larger than their vectors would be; products need vectors. */
static bool reads_bands(const struct vc_collector *c, const struct vc_window *w, const struct vc_collect_rows *rows,
                        size_t images, size_t channels)
{
    size_t n = (size_t)(w->out[1] * w->out[2]);
    size_t most = n != 0 ? band_rows(w, VC_AT_MOST((size_t)w->out[2], n) - 1, VC_AT_MOST(n, TILE)) * band_width(w) : 0;

    return c->moments == NULL && w->before[2] >= 0 && w->out[0] == 1 && w->kernel[0] == 1 && w->in[0] == 1 &&
           images == rows->n && n >= MANY && channels >= SIDE_BY_SIDE &&
           most <= TILE * (size_t)(w->kernel[1] * w->kernel[2]);
}

/* The windows of one image. */
static void add_bands(struct vc_collector *c, struct vc_thread_pool *pool, const struct vc_window *w,
                      const float *image, size_t channels)
{
    size_t n = (size_t)(w->out[1] * w->out[2]);

    for (size_t p = 0, more; p < n; p += more) {
        more = VC_AT_MOST(n - p, TILE);
        fill_band(w, image, channels, p, more, c->tile);
        add_tile(&(struct tile){.c = c, .x = c->tile, .n = more, .window = w, .channels = channels, .place = p}, pool);
    }
}

/* All windows of all images, one after the other. */
static enum vc_status add_windows(struct vc_ctx *ctx, struct vc_collector *c, struct vc_thread_pool *pool,
                                  const struct vc_graph *graph, const struct vc_run_value *value,
                                  const struct vc_collect_rows *rows)
{
    size_t k = (size_t)c->n_columns;
    size_t images = (size_t)value->shape[0];
    size_t image = value->n / images;
    struct vc_window w;

    VC_CALL(find_window(ctx, c, graph, value, &w));
    bool bands = reads_bands(c, &w, rows, images, (size_t)value->shape[1]);
    for (size_t i = 0; bands && i < images; i++) {
        add_bands(c, pool, &w, (const float *)value->data + i * image, (size_t)value->shape[1]);
    }
    for (size_t i = 0; !bands && i < images; i++) {
        size_t n = (size_t)(w.out[0] * w.out[1] * w.out[2]);

        for (size_t p = 0, more; p < n; p += more) { /* up to the end of a row of windows, of the tile, of its rows */
            size_t left = until_end(rows, images * n, i * n + p);
            int64_t o[3];

            place_of_window(&w, p, o);
            more = VC_AT_MOST((size_t)(w.out[2] - o[2]), VC_AT_MOST(TILE - c->filled, left));
            copy_windows(&w, (const float *)value->data + i * image, (size_t)value->shape[1], o, (int64_t)more,
                         c->tile + c->filled * k);
            count_in(c, pool, more, more == left);
        }
    }
    return VC_OK;
}

/* The tile is kept between batches only while it has vectors. */
enum vc_status vc_collector_add(struct vc_ctx *ctx, struct vc_collector *c, struct vc_thread_pool *pool,
                                const struct vc_graph *graph, const struct vc_run_value *value,
                                const struct vc_collect_rows *rows)
{
    if (value->n == 0) {
        return VC_OK;
    }
    if (c->tile == NULL) {
        VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, c->tile, TILE * (size_t)c->n_columns));
    }
    if (c->conv != NULL) {
        VC_CALL(add_windows(ctx, c, pool, graph, value, rows));
    } else {
        add_rows(c, pool, value, rows);
    }
    if (c->filled == 0) {
        vc_free(ctx, vc_give(&c->tile));
    }
    return VC_OK;
}

/* ---- memory ---- */

/* Second moments take k * k doubles; the sentence of a failure says how to leave them out. */
enum vc_status vc_collector_begin(struct vc_ctx *ctx, struct vc_collector *c, const char *tensor, bool moments)
{
    size_t k = (size_t)c->n_columns;
    size_t square;

    c->level = ctx->shared->cpu_level;
    VC_CALL(VC_ZEROS(ctx, VC_TAG_TILES, c->sum, k));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_TILES, c->sum2, k));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, c->steps, k));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, c->min, k));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, c->max, k));
    for (size_t j = 0; j < k; j++) {
        c->min[j] = INFINITY;
        c->max[j] = -INFINITY;
    }
    if (moments) {
        VC_CALL(vc_mul_size(k, k, &square) ? VC_OK : VC_E_NOMEM);
        c->moments = vc_calloc_array(ctx, VC_TAG_TILES, square, sizeof *c->moments);
        if (c->moments == NULL) {
            return vc_context(ctx, "the second moments of '%s', %zu x %zu numbers (%s leaves them out)", tensor, k, k,
                              vc_option(ctx, "second_moments"));
        }
    }
    return VC_OK;
}

/* Accepts one that was never begun, as zeros. */
void vc_collector_end(struct vc_ctx *ctx, struct vc_collector *c)
{
    VC_FREE_ALL(ctx, c->sum, c->sum2, c->min, c->max, c->steps, c->moments, c->tile);
}
