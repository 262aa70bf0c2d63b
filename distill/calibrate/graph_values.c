/* graph_values.c - see graph_values.h. */
#include "distill/calibrate/graph_values.h"

#include <math.h>

#define ROWS 64

/* A value counts if the file of the graph has it, so that a quantizer can put codes there. A graph that was
 * built here has no such values, and then nothing is listed. */
enum vc_status vc_graph_values_begin(struct vc_ctx *ctx, struct vc_graph_values *v, const struct vc_graph *graph,
                                     uint64_t n_rows, size_t n_layers)
{
    bool written = false;

    v->n_rows = n_rows;
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, v->ranges, graph->n_values + (size_t)1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, v->samples, n_layers + 1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, v->first, graph->n_values + (size_t)1));
    for (uint32_t k = 0; k < graph->n_values; k++) {
        written = written || graph->facts[k].written != VC_WRITTEN_NOT;
    }
    for (uint32_t k = 0; written && k < graph->n_values; k++) {
        const struct vc_graph_value *value = &graph->values[k];

        if (value->dtype == VC_DTYPE_F32 && value->n_dims != 0 && value->name[0] != '\0' &&
            (value->kind == VC_VALUE_INPUT ||
             (value->kind == VC_VALUE_RESULT && graph->facts[k].written != VC_WRITTEN_NOT))) {
            v->ranges[v->n_ranges++] = (struct vc_graph_range){k, {INFINITY, -INFINITY}};
        }
    }
    return VC_OK;
}

void vc_graph_values_end(struct vc_ctx *ctx, struct vc_graph_values *v)
{
    for (size_t k = 0; k < v->n_samples; k++) {
        vc_free(ctx, v->samples[k].vectors);
    }
    VC_FREE_ALL(ctx, v->samples, v->first, v->ranges);
}

/* Up to 64 rows, with one vector of each where a row is a vector, else four. */
enum vc_status vc_graph_values_sample(struct vc_ctx *ctx, struct vc_graph_values *v, const struct vc_graph *graph,
                                      const char *tensor, const struct vc_collector *of)
{
    struct vc_graph_sample *s = &v->samples[v->n_samples];
    size_t n;

    if (v->n_ranges == 0) {
        return VC_OK;
    }
    *s = (struct vc_graph_sample){.tensor = tensor, .of = of, .next = v->first[of->value]};
    s->per_row = of->conv == NULL && graph->values[of->value].n_dims == 2 ? 1 : 4;
    s->n = vc_min_u64(v->n_rows, ROWS) * s->per_row;
    VC_CALL(vc_mul_size((size_t)s->n, (size_t)of->n_columns, &n) ? VC_OK : VC_E_NOMEM);
    VC_CALL(VC_ZEROS(ctx, VC_TAG_TILES, s->vectors, n));
    v->first[of->value] = (uint32_t)++v->n_samples;
    return VC_OK;
}

#define LANES 16

/* The new end of a range, where `found` is that of n more elements. Of zeros of both signs the first one stays. */
static float new_end(float end, float found, const float *x, size_t n)
{
    if (found != 0.0f || end == 0.0f) {
        return found == 0.0f ? end : found;
    }
    for (size_t i = 0; i < n; i++) {
        if (x[i] == 0.0f) {
            return x[i];
        }
    }
    return found;
}

/* The range grows by n elements. NaN changes nothing: it is refused where a layer reads it. */
static void widen(struct vc_graph_range *range, const float *x, size_t n)
{
    float least[LANES];
    float most[LANES];
    float ends[2] = {range->ends[0], range->ends[1]};

    for (size_t l = 0; l < LANES; l++) {
        least[l] = ends[0];
        most[l] = ends[1];
    }
    for (size_t i = 0; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            least[l] = x[i + l] < least[l] ? x[i + l] : least[l];
            most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
        }
    }
    for (size_t l = 0; l < LANES; l++) {
        ends[0] = least[l] < ends[0] ? least[l] : ends[0];
        ends[1] = most[l] > ends[1] ? most[l] : ends[1];
    }
    for (size_t i = n - n % LANES; i < n; i++) {
        ends[0] = x[i] < ends[0] ? x[i] : ends[0];
        ends[1] = x[i] > ends[1] ? x[i] : ends[1];
    }
    range->ends[0] = new_end(range->ends[0], ends[0], x, n);
    range->ends[1] = new_end(range->ends[1], ends[1], x, n);
}

/* Rows of a batch that are in the sample, which are as far from each other as can be. */
static enum vc_status take_sample(struct vc_ctx *ctx, const struct vc_graph_values *v, struct vc_graph_sample *s,
                                  const struct vc_graph *graph, const struct vc_run_value *elements,
                                  const struct vc_collect_rows *rows)
{
    uint64_t n = vc_min_u64(v->n_rows, ROWS);

    for (size_t i = 0; i < rows->n; i++) {
        uint64_t row = rows->first + i;
        uint64_t number = row * n / v->n_rows;

        if (row == 0 || number != (row - 1) * n / v->n_rows) {
            VC_CALL(vc_collector_look(ctx, s->of, graph, elements, rows, i, s->per_row,
                                      s->vectors + (size_t)number * s->per_row * (size_t)s->of->n_columns));
        }
    }
    return VC_OK;
}

/* For bsearch: a number of a value, and its range. */
static int compare_value(const void *key, const void *range)
{
    uint32_t value = *(const uint32_t *)key;
    uint32_t other = ((const struct vc_graph_range *)range)->value;

    return (value > other) - (value < other);
}

/* Widens the value's range and takes the samples of the layers that read it. */
enum vc_status vc_graph_values_take(struct vc_ctx *ctx, struct vc_graph_values *v, const struct vc_graph *graph,
                                    uint32_t value, const struct vc_run_value *elements,
                                    const struct vc_collect_rows *rows)
{
    struct vc_graph_range *range = bsearch(&value, v->ranges, v->n_ranges, sizeof *v->ranges, compare_value);

    if (range != NULL) {
        widen(range, elements->data, elements->n);
    }
    for (uint32_t k = elements->n != 0 ? v->first[value] : 0; k != 0; k = v->samples[k - 1].next) {
        VC_CALL(take_sample(ctx, v, &v->samples[k - 1], graph, elements, rows));
    }
    return VC_OK;
}
