/* histograms.c - histograms of the values of single tensors, for pages (vcompress/page.h): the values
 * before, the errors, and the distinct values after quantization of the row with the largest error.
 *
 * Two scans, since bins can be laid out only when it is known how far they reach:
 *
 *     1st   before, after --> reach of values, reach of errors, zeros
 *     2nd   before, after --> bins of values, bins of errors, the row with the largest error
 *                                                              --> its distinct values: the grid
 *
 * Both scans stop after MOST_ELEMS elements, so that a page of a large model does not take as long as the
 * work itself. */
#include <math.h>

#include <vcompress/page.h>

#include "core/base/array.h"
#include "passes/values.h"

#define MOST_ELEMS     ((uint64_t)1 << 24) /* of a tensor that are looked at; n_seen says how many it were */
#define SEGMENT_VALUES ((size_t)1 << 16)   /* of a row that are kept for its grid */

/* What the caller gets is the first member; the rest is freed with it. */
struct vc_value_histograms_owned {
    struct vc_value_histograms histograms; /* first: what the caller sees */
    struct vc_ctx *ctx;
    struct vc_arena arena;
    struct vc_value_histogram list[VC_VALUE_HISTOGRAM_MOST];
};

static void end(void *result)
{
    struct vc_value_histograms_owned *owned = result;

    vc_arena_release(owned->ctx, &owned->arena);
}

/* One tensor in one model. */
struct side {
    struct vc_values values;
    struct vc_tile_reader reader;
    struct vc_buffers *buffers;
};

/* The work on one tensor; `histogram` is what it fills in. Buffers and `kept` are used again for the next
 * tensor. */
struct counting {
    struct vc_ctx *ctx;
    const struct vc_model *before, *after; /* after may be NULL */
    size_t a, b;                           /* tensors */
    struct vc_value_histogram *histogram;
    struct vc_buffers buffers[2];
    size_t segment; /* elements that share a scale; 0: those of a row */
    double worst;   /* squared error of the kept segment */
    double *kept;   /* its values afterwards, SEGMENT_VALUES */
    size_t n_kept;
};

/* Values are f32 or, of tensors of f64, f64. The two sides may differ in that. */
static double value_at(const struct side *side, const void *data, size_t i)
{
    return side->values.item.desc->dtype == VC_DTYPE_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Opens the tensor as decoded values, tile by tile. close_side also after a failure. */
static enum vc_status open_side(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, struct side *side)
{
    enum vc_status status = vc_values_init(ctx, model, tensor, &side->values);

    return status == VC_OK ? vc_tile_reader_open(ctx, &side->values.item, side->buffers, &side->reader) : status;
}

static void close_side(struct vc_ctx *ctx, struct side *side)
{
    vc_tile_reader_close(ctx, &side->reader);
    vc_values_release(ctx, &side->values);
}

/* ---- the first scan ---- */

/* One tile of the first scan. Values that are not finite are counted and left out of everything else; `y`
 * is NULL where there is no tensor to compare with. */
static void reach_for(struct counting *l, const struct side *a, const void *x, const struct side *b, const void *y,
                      size_t n)
{
    struct vc_value_histogram *h = l->histogram;

    for (size_t i = 0; i < n; i++) {
        double v = value_at(a, x, i);

        if (!isfinite(v)) {
            h->n_nonfinite++;
            continue;
        }
        h->reach = fmax(h->reach, fabs(v));
        h->n_zeros += v == 0.0;
        if (y != NULL) {
            double w = value_at(b, y, i);

            h->n_zeros_after += w == 0.0;
            h->error_reach = isfinite(w) ? fmax(h->error_reach, fabs(w - v)) : h->error_reach;
        }
    }
}

/* ---- the second scan ---- */

/* The bin of a value in n_bins equal ones from -reach to +reach. With a reach of 0 all values are in the
 * middle one; the value +reach itself belongs to the last. */
static size_t bin_of(double v, double reach, size_t n_bins)
{
    double at = reach > 0.0 ? (v / reach + 1.0) / 2.0 * (double)n_bins : (double)n_bins / 2.0;
    size_t bin = at < 0.0 ? 0 : (size_t)at;

    return bin < n_bins ? bin : n_bins - 1;
}

/* One tile of the second scan. An error is counted where both values are finite. */
static void count(struct counting *l, const struct side *a, const void *x, const struct side *b, const void *y,
                  size_t n)
{
    struct vc_value_histogram *h = l->histogram;

    for (size_t i = 0; i < n; i++) {
        double v = value_at(a, x, i);

        if (isfinite(v)) {
            h->bins[bin_of(v, h->reach, VC_VALUE_HISTOGRAM_BINS)]++;
        }
        if (isfinite(v) && y != NULL && isfinite(value_at(b, y, i))) {
            h->error_bins[bin_of(value_at(b, y, i) - v, h->error_reach, VC_VALUE_HISTOGRAM_ERROR_BINS)]++;
        }
    }
}

/* Keeps the segment's values afterwards if its squared error is the largest so far: a segment shares one
 * scale, so its distinct values are the levels of its grid. Segments that are longer than the room for them
 * are passed over. */
static void weigh(struct counting *l, const struct side *a, const void *x, const struct side *b, const void *y,
                  size_t at, size_t n, uint64_t row)
{
    double sum = 0.0;

    for (size_t i = at; i < at + n; i++) {
        double e = value_at(b, y, i) - value_at(a, x, i);

        sum += isfinite(e) ? e * e : 0.0;
    }
    if (!(sum > l->worst) || n > SEGMENT_VALUES) {
        return;
    }
    l->worst = sum;
    l->histogram->level_row = row;
    l->n_kept = n;
    for (size_t i = 0; i < n; i++) {
        l->kept[i] = value_at(b, y, at + i);
    }
}

/* Cuts the rows of a tile into segments: groups that have a scale of their own, or whole rows. The last
 * segment of a row may be shorter. */
static void weigh_rows(struct counting *l, const struct side *a, const void *x, const struct side *b, const void *y,
                       const struct vc_tile *tile)
{
    for (size_t r = 0; r < tile->n_rows; r++) {
        size_t step = l->segment != 0 && l->segment < tile->row_len ? l->segment : tile->row_len;

        for (size_t c = 0; step != 0 && c < tile->row_len; c += step) {
            size_t n = tile->row_len - c < step ? tile->row_len - c : step;

            weigh(l, a, x, b, y, r * tile->row_len + c, n, tile->row0 + r);
        }
    }
}

/* ---- both ---- */

/* One walk over both tensors in step. Tiles of the two sides are the same since their shapes are, which
 * make_histogram has checked. `second` chooses what is done with a tile. */
static enum vc_status scan(struct counting *l, bool second)
{
    struct side a = {.buffers = &l->buffers[0]};
    struct side b = {.buffers = &l->buffers[1]};
    uint64_t seen = 0;
    enum vc_status status = VC_OK;

    VC_TRY(open_side(l->ctx, l->before, l->a, &a));
    if (l->histogram->compared) {
        VC_TRY(open_side(l->ctx, l->after, l->b, &b));
    }
    while (seen < MOST_ELEMS) {
        struct vc_tile_result x;
        struct vc_tile_result y = {NULL};
        struct vc_tile tile;
        bool more = false;

        VC_TRY(vc_tile_reader_next(l->ctx, &a.reader, &tile, &x, &more));
        if (more && l->histogram->compared) {
            VC_TRY(vc_tile_reader_next(l->ctx, &b.reader, &tile, &y, &more));
        }
        if (!more) {
            break;
        }
        (second ? count : reach_for)(l, &a, x.data, &b, y.data, tile.n_elems);
        if (second && y.data != NULL) {
            weigh_rows(l, &a, x.data, &b, y.data, &tile);
        }
        seen += tile.n_elems;
    }
    l->histogram->n_seen = seen;
out:
    close_side(l->ctx, &a);
    close_side(l->ctx, &b);
    return status;
}

/* The different values among those that were kept, in rising order, with how often each occurs:
 *
 *     kept      0.1 -0.2 0.1 0 0.1       levels  -0.2 0 0.1       counts  1 1 3
 *
 * There are none if the segment has a value that is not finite, or more different ones than a page can
 * show: then the tensor has no grid worth drawing. */
static void find_levels(struct counting *l)
{
    struct vc_value_histogram *h = l->histogram;
    size_t n = 0;

    for (size_t i = 0; i < l->n_kept; i++) {
        if (!isfinite(l->kept[i])) {
            return;
        }
    }
    if (l->n_kept != 0) {
        qsort(l->kept, l->n_kept, sizeof *l->kept, vc_order_f64);
    }
    for (size_t i = 0; i < l->n_kept; i++) {
        if (n != 0 && l->kept[i] == h->levels[n - 1]) {
            h->level_counts[n - 1]++;
            continue;
        }
        if (n == VC_VALUE_HISTOGRAM_LEVELS) {
            memset(h->levels, 0, sizeof h->levels);
            memset(h->level_counts, 0, sizeof h->level_counts);
            return;
        }
        h->levels[n] = l->kept[i];
        h->level_counts[n++] = 1;
    }
    h->n_levels = n;
    h->n_level_elems = l->n_kept;
}

/* Its values are codes with scales, not plain floats. */
static bool is_coded(const struct vc_tensor *t)
{
    return t->quant != NULL || vc_dtype_is_quantized(t->dtype);
}

/* Elements that share a scale, where they are fewer than a row: the group size of a scheme, or the elements
 * of a block. 0: a whole row. */
static size_t segment_of(const struct vc_tensor *t)
{
    size_t n_elems = vc_dtype_facts(t->dtype)->block_elems;

    return t->quant != NULL && t->quant->granularity == VC_GRANULARITY_GROUP ? (size_t)t->quant->group_size
           : n_elems > 1                                                     ? n_elems
                                                                             : 0;
}

static bool same_shape(const struct vc_tensor *a, const struct vc_tensor *b)
{
    return a->n_dims == b->n_dims && memcmp(a->shape, b->shape, a->n_dims * sizeof *a->shape) == 0;
}

/* Both scans of one tensor. name_after: its name in the other model. Without a tensor there that has the
 * same shape and holds values, only the values before are counted. Levels are looked for in codes alone, as
 * plain floats have no grid. */
static enum vc_status make_histogram(struct counting *l, const char *name, const char *name_after)
{
    const struct vc_tensor *t = vc_model_tensor(l->before, l->a);

    memset(l->histogram, 0, sizeof *l->histogram);
    l->histogram->name = name;
    l->histogram->scheme = "";
    l->histogram->n_elems = t->n_elems;
    l->b = l->after != NULL ? vc_model_find(l->after, name_after) : VC_NO_TENSOR;
    const struct vc_tensor *u = l->b != VC_NO_TENSOR ? vc_model_tensor(l->after, l->b) : NULL;
    l->histogram->compared = u != NULL && vc_values_numeric(u) && u->part_of == VC_NO_TENSOR && same_shape(t, u);
    l->segment = l->histogram->compared ? segment_of(u) : 0;
    l->worst = 0.0;
    l->n_kept = 0;
    enum vc_status status = scan(l, false);
    status = status == VC_OK ? scan(l, true) : status;
    if (status == VC_OK && l->histogram->compared && is_coded(u)) {
        find_levels(l);
    }
    return status;
}

/* One request: a name before and after, and what its report says. */
struct wanted {
    const char *name, *name_after, *scheme;
    double sqnr_db;
};

/* Histograms of all tensors that are wanted, one behind the other. Those that the model does not have, and
 * those without values, are left out. */
static enum vc_status make_all(struct counting *l, const struct wanted *wanted, size_t n,
                               struct vc_value_histograms_owned *owned)
{
    struct vc_buffer_sizes sizes = {0};
    enum vc_status status = VC_OK;

    vc_values_sizes(l->before, 2, &sizes);
    if (l->after != NULL) {
        vc_values_sizes(l->after, 2, &sizes);
    }
    VC_TRY(vc_buffers_alloc(l->ctx, &sizes, &l->buffers[0]));
    VC_TRY(vc_buffers_alloc(l->ctx, &sizes, &l->buffers[1]));
    l->kept = vc_alloc_array(l->ctx, VC_TAG_SCRATCH, SEGMENT_VALUES, sizeof *l->kept);
    if (l->kept == NULL) {
        VC_TRY(VC_E_NOMEM);
    }
    for (size_t i = 0; i < n && i < VC_VALUE_HISTOGRAM_MOST; i++) {
        l->a = vc_model_find(l->before, wanted[i].name);
        if (l->a == VC_NO_TENSOR || !vc_values_numeric(vc_model_tensor(l->before, l->a))) {
            continue;
        }
        l->histogram = &owned->list[owned->histograms.n];
        VC_TRY(make_histogram(l, vc_model_tensor(l->before, l->a)->name, wanted[i].name_after));
        l->histogram->sqnr_db = wanted[i].sqnr_db;
        l->histogram->scheme = vc_arena_copy(l->ctx, &owned->arena, wanted[i].scheme, strlen(wanted[i].scheme));
        VC_TRY(l->histogram->scheme == NULL ? VC_E_NOMEM : VC_OK);
        owned->histograms.n++;
    }
out:
    vc_free(l->ctx, l->kept);
    vc_buffers_release(l->ctx, &l->buffers[0]);
    vc_buffers_release(l->ctx, &l->buffers[1]);
    return status;
}

/* Makes the result, which owns its names and schemes, and frees it again after a failure. */
static enum vc_status make(struct vc_ctx *ctx, const struct vc_model *before, const struct vc_model *after,
                           const struct wanted *wanted, size_t n, struct vc_value_histograms **out)
{
    struct counting l = {.ctx = ctx, .before = before, .after = after};
    struct vc_value_histograms_owned *owned = vc_result_new(ctx, VC_TAG_REPORT, sizeof *owned, end);

    *out = NULL;
    VC_CALL_ALLOC(owned);
    owned->ctx = ctx;
    owned->histograms.histograms = owned->list;
    enum vc_status status = make_all(&l, wanted, n, owned);
    if (status != VC_OK) {
        vc_result_free(owned);
        return vc_context(ctx, "%s", before->path);
    }
    *out = &owned->histograms;
    return VC_OK;
}

/* Two models and names: as many tensors as a page shows at most. There is no report, so no scheme and no
 * SQNR. */
static enum vc_status of_models(struct vc_ctx *ctx, const struct vc_model *before, const struct vc_model *after,
                                const char *const *names, size_t n, struct vc_value_histograms **out)
{
    struct wanted wanted[VC_VALUE_HISTOGRAM_MOST];

    *out = NULL;
    VC_REFUSE_IF(n > VC_VALUE_HISTOGRAM_MOST, ctx, VC_E_ARGUMENT, "%zu tensors to look at: at most %d", n,
                 VC_VALUE_HISTOGRAM_MOST);
    for (size_t i = 0; i < n; i++) {
        wanted[i] = (struct wanted){names[i], names[i], "", (double)NAN};
    }
    return make(ctx, before, after, wanted, n, out);
}

enum vc_status vc_value_histograms_of_models(struct vc_ctx *ctx, const struct vc_model *before,
                                             const struct vc_model *after, const char *const *names, size_t n,
                                             struct vc_value_histograms **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, of_models(ctx, before, after, names, n, out));
}

/* ---- of a report ---- */

#define N_WORST 6

/* The rows of a report with the lowest SQNR, the lowest first, in `wanted`, which has room for N_WORST:
 * each row is moved up to its place, and the last one falls out. Rows without an error (an SQNR of
 * +infinity) are none of them. */
static size_t find_worst(const struct vc_report *report, struct wanted *wanted)
{
    struct vc_report_row row;
    size_t n = 0;

    for (size_t i = 0; vc_report_get_row(report, i, &row); i++) {
        size_t at = n < N_WORST ? n : N_WORST - 1;

        if (!row.measured || isnan(row.sqnr_db) || (isinf(row.sqnr_db) && row.sqnr_db > 0) ||
            (n == N_WORST && !(row.sqnr_db < wanted[at].sqnr_db))) {
            continue;
        }
        while (at > 0 && row.sqnr_db < wanted[at - 1].sqnr_db) {
            wanted[at] = wanted[at - 1];
            at--;
        }
        wanted[at] =
            (struct wanted){row.name, row.name_after != NULL ? row.name_after : row.name, row.scheme, row.sqnr_db};
        n += n < N_WORST;
    }
    return n;
}

/* Of the file that the report is about, if it was written to a file that can be opened; else only values
 * before. */
static enum vc_status of_report(struct vc_ctx *ctx, const struct vc_report *report, const struct vc_model *before,
                                struct vc_value_histograms **out)
{
    struct wanted wanted[N_WORST];
    size_t n = find_worst(report, wanted);
    struct vc_model *after = NULL;

    if (n != 0 && report->written && report->n_outputs != 0 && strcmp(report->outputs[0].path, "-") != 0) {
        (void)vc_model_open(ctx, report->outputs[0].path, NULL, &after); /* else there is no grid to show */
        vc_clear_error(ctx);
    }
    enum vc_status status = make(ctx, before, after, wanted, n, out);
    vc_model_close(after);
    return status;
}

enum vc_status vc_value_histograms_of_report(struct vc_ctx *ctx, const struct vc_report *report,
                                             const struct vc_model *before, struct vc_value_histograms **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, of_report(ctx, report, before, out));
}
