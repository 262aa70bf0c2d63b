/* graph_run.c - vc_graph_run: the reference forward pass of graph/ with the parameters of a model and the arrays of a
 * program. Parameters are decoded tile by tile, and each element goes to the place that it has in the sliced and
 * transposed parameter, so that beside the parameter there is one tile. */
#include <string.h>

#include <vcompress/graph.h>

#include "core/base/checked.h"
#include "core/base/option_struct.h"
#include "core/model/memory_model.h"
#include "core/model/source.h"
#include "graph/ops/run.h"
#include "kernels/kernels.h"
#include "measure/values.h"

static const struct vc_graph_run_options run_defaults = {.precision = VC_GRAPH_F32};
static const struct vc_options_kind run_kind = {"vc_graph_run_options", "vc_graph_run_defaults", &run_defaults,
                                                sizeof run_defaults};

struct graph_run {
    struct vc_graph *graph;
    const struct vc_model *model;
    const struct vc_graph_array *inputs;
    size_t n_inputs;
    struct vc_graph_run_options options;
};

void vc_graph_run_defaults_sized(struct vc_graph_run_options *options, size_t struct_size)
{
    vc_options_fill(&run_kind, options, struct_size);
}

/* ---- values of a tensor as floats of the run ---- */

/* Where the elements of a tensor go: those of the slice, with the last two axes swapped. */
struct place {
    uint64_t inner, length; /* elements behind the sliced axis, and its length in the tensor */
    uint64_t first, count;  /* of it */
    uint64_t rows, columns; /* of what is sliced, before they are swapped; 0: not swapped */
};

/* False: the element is outside of the slice. */
static bool place_of(const struct place *p, uint64_t element, uint64_t *to)
{
    uint64_t before = element / (p->inner * p->length);
    uint64_t at = element / p->inner % p->length;
    uint64_t e;

    if (at < p->first || at - p->first >= p->count) {
        return false;
    }
    e = (before * p->count + (at - p->first)) * p->inner + element % p->inner;
    if (p->rows != 0) {
        uint64_t matrix = e / (p->rows * p->columns);
        uint64_t row = e / p->columns % p->rows;

        e = (matrix * p->columns + e % p->columns) * p->rows + row;
    }
    *to = e;
    return true;
}

static struct place whole_place(void)
{
    return (struct place){.inner = 1, .length = UINT64_MAX, .count = UINT64_MAX};
}

static struct place param_place(const struct vc_graph_param *param)
{
    struct place p = whole_place();

    if (param->sliced) {
        p.length = param->shape[param->axis];
        p.first = param->first;
        p.count = param->count;
        for (unsigned k = param->axis + 1; k < param->n_dims; k++) {
            p.inner *= param->shape[k];
        }
    }
    if (param->transposed) {
        p.rows = param->shape[param->n_dims - 2];
        p.columns = param->shape[param->n_dims - 1];
        p.rows = param->sliced && param->axis == param->n_dims - 2 ? param->count : p.rows;
        p.columns = param->sliced && param->axis == param->n_dims - 1 ? param->count : p.columns;
    }
    return p;
}

static void put_tile(const struct place *place, const struct vc_tile *tile, const void *data, bool from_f64,
                     bool to_f64, void *elements)
{
    for (size_t i = 0; i < tile->n_elems; i++) {
        double x = from_f64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
        uint64_t to;

        if (!place_of(place, tile->first + i, &to)) {
            continue;
        }
        if (to_f64) {
            ((double *)elements)[to] = x;
        } else {
            ((float *)elements)[to] = (float)x;
        }
    }
}

/* The values of a tensor, each at its place. */
static enum vc_status read_values(struct vc_ctx *ctx, const struct graph_run *run, const struct vc_model *model,
                                  size_t tensor, const struct place *place, void *elements)
{
    struct vc_values values = {0};
    struct vc_room room = {0};
    struct vc_buffers buffers = {0};
    struct vc_fetch fetch = {0};
    enum vc_status status = VC_OK;

    if (!vc_values_numeric(&model->tensors[tensor])) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: elements of type %s are no floats", model->tensors[tensor].name,
                       vc_dtype_name(model->tensors[tensor].dtype));
    }
    VC_TRY(vc_values_init(ctx, model, tensor, &values));
    vc_room_add(&room, &values.item);
    VC_TRY(vc_buffers_alloc(ctx, &room, &buffers));
    VC_TRY(vc_fetch_open(ctx, &values.item, &buffers, &fetch));
    for (;;) {
        struct vc_tile_result result;
        struct vc_tile tile;
        bool more;

        VC_TRY(vc_fetch_next(ctx, &fetch, &tile, &result, &more));
        if (!more) {
            break;
        }
        put_tile(place, &tile, result.data, values.item.desc.dtype == VC_DTYPE_F64,
                 run->options.precision == VC_GRAPH_F64, elements);
    }
out:
    vc_fetch_close(ctx, &fetch);
    vc_buffers_release(ctx, &buffers);
    vc_values_release(ctx, &values);
    return status;
}

/* ---- integers ---- */

static bool is_integer(enum vc_dtype dtype)
{
    return dtype >= VC_DTYPE_BOOL && dtype <= VC_DTYPE_I64;
}

/* Elements of an integer type as int64_t. Truth values are 0 and 1. */
static int64_t integer_at(enum vc_dtype dtype, const void *data, size_t i)
{
    switch (dtype) {
    case VC_DTYPE_U4: /* in pairs, the first one in the low bits */
        return ((const uint8_t *)data)[i / 2] >> (i % 2 * 4) & 15;
    case VC_DTYPE_I4:
        return ((((const uint8_t *)data)[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;
    case VC_DTYPE_BOOL:
        return ((const uint8_t *)data)[i] != 0;
    case VC_DTYPE_U8:
        return ((const uint8_t *)data)[i];
    case VC_DTYPE_I8:
        return ((const int8_t *)data)[i];
    case VC_DTYPE_U16:
        return ((const uint16_t *)data)[i];
    case VC_DTYPE_I16:
        return ((const int16_t *)data)[i];
    case VC_DTYPE_U32:
        return ((const uint32_t *)data)[i];
    case VC_DTYPE_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const int64_t *)data)[i];
    }
}

/* The integers of a tensor, each at its place. */
static enum vc_status read_integers(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                    const struct place *place, int64_t *elements)
{
    const struct vc_tensor *t = &model->tensors[tensor];
    void *data = NULL;
    enum vc_status status = VC_OK;

    if (!is_integer(t->dtype) && t->dtype != VC_DTYPE_U4 && t->dtype != VC_DTYPE_I4) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: elements of type %s are no integers", t->name,
                       vc_dtype_name(t->dtype));
    }
    data = vc_alloc_array(ctx, VC_TAG_TILES, (size_t)t->size_bytes + 1, 1);
    VC_TRY_ALLOC(data);
    VC_TRY(vc_source_read_any(ctx, model, tensor, VC_FORM_VALUES, 0, data, (size_t)t->size_bytes));
    for (size_t i = 0; i < (size_t)t->n_elems; i++) {
        uint64_t to;

        if (place_of(place, i, &to)) {
            elements[to] = integer_at(t->dtype, data, i);
        }
    }
out:
    vc_free(ctx, data);
    return status;
}

/* ---- what the forward pass asks for ---- */

/* The model's tensor of a parameter: the one with its number where that has its name, else the one of its name. */
static enum vc_status find_tensor(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_graph_param *param,
                                  size_t *out)
{
    const struct vc_tensor *t;

    if (model == NULL) {
        return vc_fail(ctx, VC_E_ARGUMENT, "%s: there are no weights to run the graph with", param->tensor);
    }
    *out = param->index < model->n_tensors && strcmp(model->tensors[param->index].name, param->tensor) == 0
               ? param->index
               : vc_model_find(model, param->tensor);
    if (*out == VC_NO_TENSOR) {
        return vc_fail(ctx, VC_E_FORMAT, "%s: there is no tensor '%s'", model->path, param->tensor);
    }
    t = &model->tensors[*out];
    if (t->n_dims != param->n_dims ||
        (t->n_dims != 0 && memcmp(t->shape, param->shape, t->n_dims * sizeof *t->shape) != 0)) {
        return vc_fail(ctx, VC_E_FORMAT, "%s: %s has another shape than in the graph", model->path, param->tensor);
    }
    return VC_OK;
}

/* vc_run_feed.param */
static enum vc_status feed_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    const struct graph_run *run = user;
    const struct vc_model *model = param->from_weights ? run->options.weights : run->model;
    struct place place = param_place(param);
    size_t tensor = VC_NO_TENSOR;
    enum vc_status status = VC_OK;

    VC_TRY(find_tensor(ctx, model, param, &tensor));
    status = run->graph->values[param->value].dtype == VC_DTYPE_I64
                 ? read_integers(ctx, model, tensor, &place, elements)
                 : read_values(ctx, run, model, tensor, &place, elements);
    if (status != VC_OK) {
        status = vc_context(ctx, "%s", model->path);
    }
out:
    return status;
}

/* An array of floats, read as a tensor of a model is. */
static enum vc_status read_float_input(struct vc_ctx *ctx, const struct graph_run *run,
                                       const struct vc_graph_array *given, void *elements)
{
    struct vc_memory_tensor tensor = {.name = given->name,
                                      .dtype = given->dtype,
                                      .n_dims = given->n_dims,
                                      .shape = given->shape,
                                      .data = given->data};
    struct place place = whole_place();
    struct vc_model *model = NULL;
    enum vc_status status = VC_OK;

    VC_TRY(vc_memory_model_create(ctx, &tensor, 1, &model));
    VC_TRY(read_values(ctx, run, model, 0, &place, elements));
out:
    vc_model_close(model);
    return status;
}

static enum vc_status copy_input(struct vc_ctx *ctx, const struct graph_run *run, const struct vc_graph_array *given,
                                 struct vc_run_value *to)
{
    enum vc_status status = VC_OK;

    to->n_dims = given->n_dims;
    to->n = 1;
    for (unsigned k = 0; k < given->n_dims; k++) {
        if (given->shape[k] > INT64_MAX || !vc_mul_size(to->n, (size_t)given->shape[k], &to->n)) {
            return vc_fail(ctx, VC_E_ARGUMENT, "the input '%s' is too large", given->name);
        }
        to->shape[k] = (int64_t)given->shape[k];
    }
    to->data = vc_alloc_array(ctx, VC_TAG_TILES, to->n != 0 ? to->n : 1,
                              to->is_real && run->options.precision == VC_GRAPH_F32 ? sizeof(float) : 8);
    VC_TRY_ALLOC(to->data);
    if (to->is_real && to->n != 0) {
        VC_TRY(read_float_input(ctx, run, given, to->data));
    }
    for (size_t i = 0; !to->is_real && i < to->n; i++) {
        ((int64_t *)to->data)[i] = integer_at(given->dtype, given->data, i);
    }
out:
    return status;
}

/* vc_run_feed.input */
static enum vc_status feed_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    const struct graph_run *run = user;
    const struct vc_graph_value *input = vc_graph_value(run->graph, vc_graph_input(run->graph, k));
    const struct vc_graph_array *given = NULL;

    for (size_t i = 0; i < run->n_inputs; i++) {
        given = strcmp(run->inputs[i].name, input->name) == 0 ? &run->inputs[i] : given;
    }
    if (given == NULL && input->optional) {
        return VC_OK;
    }
    if (given == NULL) {
        return vc_fail(ctx, VC_E_ARGUMENT, "the input '%s' is missing", input->name);
    }
    value->is_real = input->dtype == VC_DTYPE_F32;
    if (given->n_dims > VC_GRAPH_MAX_DIMS ||
        (value->is_real ? given->dtype < VC_DTYPE_F16 || given->dtype > VC_DTYPE_F64 : !is_integer(given->dtype))) {
        return vc_fail(ctx, VC_E_ARGUMENT, "the input '%s' is of type %s and has %u dimensions; the model takes %s",
                       given->name, vc_dtype_name(given->dtype), given->n_dims, value->is_real ? "floats" : "integers");
    }
    return copy_input(ctx, run, given, value);
}

/* vc_run_feed.take */
static enum vc_status feed_take(struct vc_ctx *ctx, void *user, uint32_t value, const struct vc_run_value *elements)
{
    const struct graph_run *run = user;
    const struct vc_graph_value *v = vc_graph_value(run->graph, value);
    uint64_t shape[VC_GRAPH_MAX_DIMS];
    struct vc_graph_array array = {.name = v->name,
                                   .dtype = elements->is_real && run->options.precision == VC_GRAPH_F64 ? VC_DTYPE_F64
                                                                                                        : v->dtype,
                                   .n_dims = elements->n_dims,
                                   .shape = shape,
                                   .n_elems = elements->n,
                                   .data = elements->data};
    uint8_t *truths = NULL;
    enum vc_status status = VC_OK;

    for (unsigned k = 0; k < elements->n_dims; k++) {
        shape[k] = (uint64_t)elements->shape[k];
    }
    if (v->dtype == VC_DTYPE_BOOL) {
        truths = vc_alloc(ctx, VC_TAG_TILES, elements->n + 1);
        VC_TRY_ALLOC(truths);
        for (size_t i = 0; i < elements->n; i++) {
            truths[i] = ((const int64_t *)elements->data)[i] != 0;
        }
        array.data = truths;
    }
    status = run->options.take(run->options.user, &array);
    if (status != VC_OK) {
        status = vc_fail(ctx, status, "the value '%s' was not taken", v->name);
    }
out:
    vc_free(ctx, truths);
    return status;
}

/* ---- the call ---- */

static enum vc_status find_values(struct vc_ctx *ctx, const struct graph_run *run, uint32_t *wanted, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        wanted[k] = run->options.n_values == 0 ? vc_graph_output(run->graph, (uint32_t)k)
                                               : vc_graph_find(run->graph, run->options.values[k]);
        if (wanted[k] == VC_NO_VALUE) {
            return vc_fail(ctx, VC_E_ARGUMENT, "the graph has no value '%s'", run->options.values[k]);
        }
    }
    return VC_OK;
}

static enum vc_status run_graph(struct vc_ctx *ctx, struct graph_run *run)
{
    size_t n = run->options.n_values == 0 ? vc_graph_output_count(run->graph) : run->options.n_values;
    uint32_t *wanted = vc_alloc_array(ctx, VC_TAG_MISC, n + 1, sizeof *wanted);
    struct vc_run_feed feed = {.user = run, .param = feed_param, .input = feed_input, .take = feed_take};
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(wanted);
    if (vc_kernels_get(ctx) == NULL) {
        VC_TRY(ctx->status);
    }
    VC_TRY(find_values(ctx, run, wanted, n));
    status =
        vc_graph_forward(ctx, run->graph, run->options.precision == VC_GRAPH_F64 ? VC_PRECISION_F64 : VC_PRECISION_F32,
                         &feed, wanted, n);
    if (run->model != NULL) {
        status = vc_model_unchanged(ctx, run->model, status);
    }
out:
    vc_free(ctx, wanted);
    return status;
}

enum vc_status vc_graph_run(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                            const struct vc_graph_array *inputs, size_t n_inputs,
                            const struct vc_graph_run_options *options)
{
    struct graph_run run = {.graph = graph, .model = model, .inputs = inputs, .n_inputs = n_inputs};
    enum vc_status status = VC_OK;

    vc_call_begin(ctx);
    VC_TRY(vc_options_read(ctx, &run_kind, options, &run.options));
    if (run.options.take == NULL || run.options.precision > VC_GRAPH_F64) {
        status = vc_fail(ctx, VC_E_ARGUMENT,
                         run.options.take == NULL ? "there is no function that takes the values"
                                                  : "there is no such precision");
        goto out;
    }
    VC_TRY(run_graph(ctx, &run));
out:
    return vc_call_end(ctx, status);
}
