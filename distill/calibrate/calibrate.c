/* calibrate.c - vc_calibrate: finds the products of a graph with weights of the file, computes the graph
 * for all rows, and writes what the products got.
 *
 *     x --> MatMul q.weight -->          one collector for x, three tensors with the same statistics
 *       --> MatMul k.weight -->
 *       --> MatMul v.weight --> ...
 *
 * The walk over the rows is in batches; the engine hands over each value as soon as it is there:
 *
 *     list_layers     layers and their collectors; what waits for which value
 *     lay_out         the arrays of the file, which point to the collectors' sums
 *     run_batches     every value that something waits for: its range, then its vectors
 *     fill            what is known only at the end: counts, histograms, the other half of symmetric moments
 *     the job         writes the arrays
 *
 * The job is planned before the walk, so that an output that cannot be written is refused before hours of
 * computing. */

#include "core/base/option_struct.h"
#include "core/model/memory_model.h"
#include "distill/calibrate/calibration_report.h"
#include "distill/calibrate/graph_values.h"
#include "distill/calibrate/value_range.h"
#include "distill/data/batch.h"
#include "engine/answers/answers.h"
#include "kernels/kernels.h"
#include "passes/sha256.h"
#include "passes/statistics/calibration.h"

/* A tensor whose inputs are collected. */
struct layer {
    const char *tensor;
    size_t collector;
    /* Of the tensor: the columns. 1: and all axes behind it, as of convolutions; 0: stored as [in, out]. */
    unsigned axis;
    double *counts, *bins; /* arrays of the file, as these: */
    float *width, sample[VC_SAMPLE_ELEMS];
    uint64_t n_sample;
};

static const int64_t first_axis = 0;

/* Arrays of a layer in the file. */
enum { SUM2, COUNTS, SUM, MIN, MAX, AXIS, HIST, HIST_WIDTH, SAMPLE, MOMENTS, N_ARRAYS };

static const char *const tails[N_ARRAYS] = {VC_SUMS_TAIL, ".counts",  ".in_sum",        ".in_min", ".in_max",
                                            ".in_axis",   ".in_hist", ".in_hist_width", VC_SAMPLE, ".in_xtx"};

/* A router. Its experts' inputs are computed before its weights and wait for these; the weights wait for all values
 * that are computed within the experts. */
struct route {
    uint32_t value;              /* the weights */
    size_t n_collectors, n_left; /* of its experts; those that have not got vectors of this batch */
    struct vc_run_value inputs;  /* a copy; data NULL: they do not wait */
    uint32_t inputs_value;
    float *weights; /* a copy; NULL: not computed, or no longer needed */
    size_t n_experts;
};

/* What waits for a value of the graph, as numbers from 1 on; 0: nothing. */
struct waiting {
    uint32_t route, range;
    uint32_t first; /* of its collectors; the next ones are in calibration.next_of */
};

/* The whole work. Numbers "from 1 on" have 0 for nothing, so that tables begin as zeros. */
struct calibration {
    struct vc_ctx *ctx;
    struct vc_calibrate_options options;
    struct vc_graph *graph;
    struct vc_rows rows;
    struct vc_rows_view view;
    uint8_t *tokens; /* [rows][width]: 0 for padding; NULL: the rows have none */
    size_t width;
    struct vc_run_value *inputs; /* by input: its shape; the number of rows is that of each batch */
    uint64_t batch;
    struct vc_collector *collectors; /* as many as there are nodes, at most */
    size_t n_collectors;
    struct waiting *waiting; /* by value */
    uint32_t *next_of;       /* by collector: the next one of its value, a number from 1 on; 0: none */
    struct route *routes;
    size_t n_routes;
    struct vc_value_range **ranges; /* of the collectors' values, one for each */
    size_t n_ranges;
    struct vc_graph_values graph_values; /* those that static quantization needs */
    struct layer *layers;
    size_t n_layers;
    struct vc_name_table listed; /* the tensors of the layers */
    struct vc_thread_pool *pool;
    uint64_t *numbers; /* of rows that count */
    uint64_t n_numbers;
    struct vc_collect_rows now; /* those that are computed */
    int64_t graph_digest[4];
    uint64_t digest[4];    /* of the rows: the sum of the digests of each, so that parts can be added */
    struct vc_arena arena; /* of names, shapes and small arrays in the file */
    struct vc_memory_tensor *arrays;
    size_t n_arrays;
};

/* ---- what is collected ---- */

/* How a node multiplies vectors of a value with a parameter. */
struct product {
    uint32_t x; /* VC_NO_VALUE: it does not */
    const struct vc_graph_param *param;
    unsigned axis; /* of the parameter, as the graph uses it: the columns */
    bool windows;
};

/* MatMul, Gemm and Conv whose second input is a parameter of floats; all others multiply with no weights. */
static struct product product_of(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    struct product p = {.x = VC_NO_VALUE};

    if (!vc_node_is(node, VC_OP_matmul) && !vc_node_is(node, VC_OP_gemm) && !vc_node_is(node, VC_OP_conv)) {
        return p;
    }
    const struct vc_graph_value *weights = &graph->values[node->inputs[1]];
    if (weights->param == VC_NO_PARAM || weights->dtype != VC_DTYPE_F32 || weights->n_dims < 2) {
        return p;
    }
    p.param = &graph->params[weights->param];
    p.windows = vc_node_is(node, VC_OP_conv);
    p.axis =
        p.windows || (vc_node_is(node, VC_OP_gemm) && vc_node_int(node, "transB", 0) != 0) ? 1 : weights->n_dims - 2;
    p.x = node->inputs[0];
    return p;
}

/* The axis of the tensor that the parameter's axis is, which is one of the last two or that of a convolution. */
static unsigned tensor_axis(const struct product *p)
{
    unsigned n = p->param->n_dims;

    if (!p->param->transposed || p->windows) {
        return p->axis;
    }
    return p->axis == n - 1 ? n - 2 : n - 1;
}

/* Why there are no statistics of the product; NULL: there are. */
static const char *reason(const struct vc_graph_node *node, const struct product *p)
{
    if (vc_node_is(node, VC_OP_gemm) && vc_node_int(node, "transA", 0) != 0) {
        return "multiplies a transposed matrix";
    }
    if (p->param->sliced && p->param->axis == tensor_axis(p)) {
        return "is used in parts along its input channels";
    }
    if (!p->windows && p->param->n_dims != 2) {
        return "is no matrix";
    }
    return NULL;
}

/* The length of the vectors: input channels, times the elements of the window; of all groups of a
 * convolution. */
static uint64_t columns_of(const struct vc_graph *graph, const struct vc_graph_node *node, const struct product *p)
{
    const struct vc_graph_value *weights = &graph->values[p->param->value];
    uint64_t n = p->windows ? (uint64_t)vc_node_int(node, "group", 1) : 1;

    n *= (uint64_t)weights->shape[p->axis].size;
    for (unsigned d = 2; p->windows && d < weights->n_dims; d++) {
        n *= (uint64_t)weights->shape[d].size;
    }
    return n;
}

/* Both nodes have the same attributes, so they cut the same windows. */
static bool same_lists(const struct vc_graph_node *a, const struct vc_graph_node *b)
{
    for (unsigned k = 0; k < a->n_attrs; k++) {
        const struct vc_graph_attr *x = &a->attrs[k];
        const struct vc_graph_attr *y = k < b->n_attrs ? &b->attrs[k] : NULL;

        if (y == NULL || strcmp(x->name, y->name) != 0 || x->kind != y->kind || x->i != y->i || x->n != y->n ||
            (x->kind == VC_ATTR_INTS && memcmp(x->ints, y->ints, x->n * sizeof *x->ints) != 0) ||
            (x->kind == VC_ATTR_STRING && strcmp(x->s, y->s) != 0)) {
            return false;
        }
    }
    return a->n_attrs == b->n_attrs;
}

/* NULL: the value is no router's. */
static struct route *route_of(const struct calibration *c, uint32_t value)
{
    uint32_t number = value == VC_NO_VALUE ? 0 : c->waiting[value].route;

    return number != 0 ? &c->routes[number - 1] : NULL;
}

/* The collectors of a value, from 1 on, one after the other; 0: there are no more. */
static uint32_t first_collector(const struct calibration *c, uint32_t value)
{
    return c->waiting[value].first;
}

/* The one behind it of the same value. */
static uint32_t next_collector(const struct calibration *c, uint32_t number)
{
    return c->next_of[number - 1];
}

/* The last collector waits for the value, behind those that do. */
static void add_waiting(struct calibration *c, uint32_t value)
{
    uint32_t *to = &c->waiting[value].first;

    while (*to != 0) {
        to = &c->next_of[*to - 1];
    }
    *to = (uint32_t)c->n_collectors;
}

/* The collector of the product's vectors, which may be there already. */
static enum vc_status find_collector(struct calibration *c, const struct vc_graph_node *node, const struct product *p,
                                     size_t *out)
{
    const struct vc_graph_node *conv = p->windows ? node : NULL;
    uint32_t routes = node->expert ? node->routes : VC_NO_VALUE;
    uint64_t columns = columns_of(c->graph, node, p);

    for (uint32_t k = first_collector(c, p->x); k != 0; k = next_collector(c, k)) {
        const struct vc_collector *other = &c->collectors[k - 1];

        *out = k - 1;
        if (other->routes == routes && (!node->expert || other->expert == node->expert_number) &&
            other->n_columns == columns && (other->conv == NULL) == (conv == NULL) &&
            (conv == NULL || same_lists(conv, other->conv))) {
            return VC_OK;
        }
    }
    if (node->expert) {
        struct route *route = route_of(c, routes);
        if (route == NULL) {
            route = &c->routes[c->n_routes++];
            route->value = routes;
            c->waiting[routes].route = (uint32_t)c->n_routes;
        }
        route->n_left = ++route->n_collectors;
    }
    *out = c->n_collectors++;
    c->collectors[*out] = (struct vc_collector){
        .value = p->x, .conv = conv, .n_columns = columns, .routes = routes, .expert = node->expert_number};
    add_waiting(c, p->x);
    return vc_collector_begin(c->ctx, &c->collectors[*out], p->param->tensor,
                              c->options.second_moments && vc_node_int(node, "group", 1) == 1);
}

/* NULL: nobody needs the value's range. */
static struct vc_value_range *range_of(const struct calibration *c, uint32_t value)
{
    uint32_t number = c->waiting[value].range;

    return number != 0 ? c->ranges[number - 1] : NULL;
}

/* A range for the value, if it has none. Its own allocation, since pointers to it stay. */
static enum vc_status need_range(struct calibration *c, uint32_t value)
{
    struct vc_value_range *range = range_of(c, value);

    if (range == NULL) {
        VC_CALL(VC_ARRAY(c->ctx, VC_TAG_MISC, range, 1));
        vc_value_range_begin(range, value);
        c->ranges[c->n_ranges++] = range;
        c->waiting[value].range = (uint32_t)c->n_ranges;
    }
    return VC_OK;
}

/* The tensor has a layer already: as another slice, or since two nodes use it. */
static bool is_listed(const struct calibration *c, const char *tensor)
{
    const struct vc_name_list names = VC_NAME_LIST(c->layers, sizeof *c->layers);

    return vc_name_table_find(&c->listed, names, tensor, strlen(tensor)) != SIZE_MAX;
}

/* Notes a product without statistics; the report names the first. */
static enum vc_status leave_out(struct vc_calibration_owned *owned, const char *tensor, const char *why)
{
    if (owned->report.n_left_out++ == 0) {
        owned->report.left_out = vc_arena_printf(owned->ctx, &owned->arena, "%s %s", tensor, why);
        return owned->report.left_out != NULL ? VC_OK : VC_E_NOMEM;
    }
    return VC_OK;
}

/* Walks over all nodes. The first product with a tensor makes its layer; further ones with the same tensor
 * are passed over. */
static enum vc_status list_layers(struct calibration *c, struct vc_calibration_owned *owned)
{
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->collectors, c->graph->n_nodes + (size_t)1));
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->routes, c->graph->n_nodes + (size_t)1));
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->ranges, c->graph->n_nodes + (size_t)1));
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->layers, c->graph->n_nodes + (size_t)1));
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->next_of, c->graph->n_nodes + (size_t)1));
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->waiting, c->graph->n_values + (size_t)1));
    VC_CALL(vc_name_table_make(c->ctx, c->graph->n_nodes + (size_t)1, &c->listed));
    for (uint32_t i = 0; i < c->graph->n_nodes; i++) {
        const struct vc_graph_node *node = &c->graph->nodes[i];
        const struct product p = product_of(c->graph, node);
        const char *why = p.x != VC_NO_VALUE ? reason(node, &p) : NULL;
        struct layer *layer = &c->layers[c->n_layers];

        VC_CALL(vc_check_cancelled(c->ctx));
        if (p.x == VC_NO_VALUE || is_listed(c, p.param->tensor)) {
            continue;
        }
        if (why != NULL) {
            VC_CALL(leave_out(owned, p.param->tensor, why));
            continue;
        }
        *layer = (struct layer){.tensor = p.param->tensor, .axis = tensor_axis(&p)};
        VC_CALL(find_collector(c, node, &p, &layer->collector));
        VC_CALL(need_range(c, p.x));
        (void)vc_name_table_add(&c->listed, VC_NAME_LIST(c->layers, sizeof *c->layers), c->n_layers++);
    }
    VC_REFUSE_IF(c->n_layers == 0, c->ctx, VC_E_UNSUPPORTED, "%s: the graph has no product with weights of this file",
                 c->options.network.weights->path);
    return VC_OK;
}

/* ---- the walk ---- */

/* vc_run_calls.param: from the file of weights, or the one beside it. */
static enum vc_status bring_param(struct vc_ctx *ctx, void *user, const struct vc_graph_param *param, void *elements)
{
    const struct calibration *c = user;
    const struct vc_model *model = param->from_weights || c->options.network.beside == NULL ? c->options.network.weights
                                                                                            : c->options.network.beside;

    return vc_param_read(ctx, model, param, c->graph->values[param->value].dtype == VC_DTYPE_I64, false, elements);
}

/* Adds the digest of one row to that of all. Sums do not depend on the order, so two files of statistics
 * can be added. */
static void add_digest(uint64_t digest[4], const void *data, size_t n)
{
    struct vc_sha256 sha;
    char hex[VC_SHA256_HEX_BYTES];
    int64_t numbers[4];

    vc_sha256_begin(&sha);
    vc_sha256_add(&sha, data, n);
    vc_sha256_end(&sha, hex);
    vc_calibration_numbers_of(hex, numbers);
    for (int i = 0; i < 4; i++) {
        digest[i] += (uint64_t)numbers[i];
    }
}

/* vc_run_calls.input: the rows of this batch, and their digests. */
static enum vc_status bring_input(struct vc_ctx *ctx, void *user, uint32_t k, struct vc_run_value *value)
{
    struct calibration *c = user;
    const struct vc_rows_input *input = &c->view.inputs[k];

    *value = c->inputs[k];
    value->n = c->now.n * input->n_elems;
    value->shape[input->axis] = (int64_t)c->now.n;
    VC_CALL_ALLOC(value->data = vc_alloc_array(ctx, VC_TAG_TILES, value->n + 1, sizeof(int64_t)));
    VC_CALL(vc_rows_read(&c->view, k, c->numbers + c->now.first, c->now.n, false, value->data));
    for (size_t i = 0; vc_sha256_built_in() && i < c->now.n; i++) {
        size_t n = (size_t)input->n_elems * (input->integers ? sizeof(int64_t) : sizeof(float));

        add_digest(c->digest, (const char *)value->data + i * n, n);
    }
    return vc_rows_turn(&c->view, k, c->now.n, false, value->data);
}

/* Values live until the next one is computed; what has to wait is copied. */
static enum vc_status copy_elements(struct vc_ctx *ctx, const struct vc_run_value *from, void **to)
{
    size_t n_bytes = (size_t)from->n * sizeof(float);

    VC_CALL_ALLOC(*to = vc_alloc(ctx, VC_TAG_TILES, n_bytes + 1));
    memcpy(*to, from->data, n_bytes);
    return VC_OK;
}

/* Vectors of an expert, whose weights are there. The last collector of the router frees them. */
static enum vc_status add_of_expert(struct calibration *c, struct vc_collector *to, struct route *route,
                                    const struct vc_run_value *elements)
{
    to->weights = route->weights;
    to->n_experts = route->n_experts;
    enum vc_status status = vc_collector_add(c->ctx, to, c->pool, c->graph, elements, &c->now);
    to->weights = NULL;
    if (--route->n_left == 0) {
        route->n_left = route->n_collectors;
        vc_free(c->ctx, vc_give(&route->weights));
    }
    return status;
}

/* A router's weights have come: its experts' inputs may wait for them. */
static enum vc_status take_weights(struct calibration *c, struct route *route, const struct vc_run_value *weights)
{
    struct vc_run_value inputs = route->inputs;
    enum vc_status status;

    route->inputs.data = NULL;
    route->n_experts = (size_t)weights->shape[weights->n_dims - 1];
    VC_TRY(copy_elements(c->ctx, weights, (void **)&route->weights));
    for (uint32_t k = inputs.data != NULL ? first_collector(c, route->inputs_value) : 0; k != 0;
         k = next_collector(c, k)) {
        if (c->collectors[k - 1].routes == route->value) {
            VC_TRY(add_of_expert(c, &c->collectors[k - 1], route, &inputs));
        }
    }
out:
    vc_free(c->ctx, inputs.data);
    return status;
}

/* A value has come that a collector waits for. Vectors of an expert need its router's weights: if these are
 * not there yet, the vectors are kept until they are. */
static enum vc_status take_vectors(struct calibration *c, struct vc_collector *to, const struct vc_run_value *elements)
{
    struct route *route = route_of(c, to->routes);

    if (route == NULL) {
        return vc_collector_add(c->ctx, to, c->pool, c->graph, elements, &c->now);
    }
    if (route->weights != NULL) {
        return add_of_expert(c, to, route, elements);
    }
    if (route->inputs.data != NULL) { /* another expert's collector has kept them */
        return VC_OK;
    }
    route->inputs = *elements;
    route->inputs_value = to->value;
    return copy_elements(c->ctx, elements, &route->inputs.data);
}

/* vc_run_calls.take, in the order of need: the range, the collectors, what waited for a router's weights,
 * and at last what static quantization asks for. A value that is not finite is refused with the name of a
 * layer that reads it. */
static enum vc_status take(struct vc_ctx *ctx, void *user, uint32_t value, const struct vc_run_value *elements)
{
    struct calibration *c = user;
    struct vc_value_range *range = range_of(c, value);
    enum vc_status status = range == NULL ? VC_OK : vc_value_range_add(ctx, range, c->pool, elements, &c->now);

    for (size_t i = 0; status == VC_E_FORMAT && i < c->n_layers; i++) {
        if (c->collectors[c->layers[i].collector].value == value) {
            return vc_context(ctx, "%s", c->layers[i].tensor);
        }
    }
    for (uint32_t k = first_collector(c, value); k != 0 && status == VC_OK; k = next_collector(c, k)) {
        status = take_vectors(c, &c->collectors[k - 1], elements);
    }
    status = status == VC_OK ? vc_check_cancelled(ctx) : status;
    if (status == VC_OK && route_of(c, value) != NULL) {
        status = take_weights(c, route_of(c, value), elements);
    }
    return status != VC_OK ? status : vc_graph_values_take(ctx, &c->graph_values, c->graph, value, elements, &c->now);
}

/* A value of the graph is NaN or infinite: if an input has such a number already, the sentence names the input. */
static enum vc_status blame_rows(const struct calibration *c)
{
    const char *array = NULL;
    char before[VC_MESSAGE_BYTES];

    (void)snprintf(before, sizeof before, "%s", vc_ctx_message(c->ctx));
    size_t bad = vc_batch_bad_row(c->ctx, &c->view, c->numbers + c->now.first, c->now.n, &array);
    return bad == c->now.n ? vc_fail(c->ctx, VC_E_FORMAT, "%s", before)
                           : vc_fail(c->ctx, VC_E_FORMAT, "%s: row %llu of %s has a NaN or infinite value",
                                     c->rows.model->path, (unsigned long long)c->now.numbers[bad], array);
}

/* All rows that count, a batch at a time, in one series. Values are asked for twice where two things wait
 * for them, which the series takes. */
static enum vc_status run_batches(struct calibration *c)
{
    const struct vc_run_calls calls = {.user = c, .param = bring_param, .input = bring_input, .take = take};
    size_t n_wanted = c->n_routes + c->n_ranges + c->graph_values.n_ranges; /* some twice */
    uint32_t *wanted = vc_alloc_array(c->ctx, VC_TAG_MISC, n_wanted + 1, sizeof *wanted);
    uint8_t *mask = vc_alloc_array(c->ctx, VC_TAG_MISC, (size_t)c->batch * c->width + 1, sizeof *mask);
    VC_SCOPED uint64_t *in_file = vc_alloc_array(c->ctx, VC_TAG_MISC, (size_t)c->batch + 1, sizeof *in_file);
    struct vc_answers_series *series = NULL;
    enum vc_status status = VC_OK;

    VC_TRY(wanted == NULL || mask == NULL || in_file == NULL ? VC_E_NOMEM : VC_OK);
    for (size_t k = 0; k < c->n_ranges; k++) {
        wanted[k] = c->ranges[k]->value;
    }
    for (size_t k = 0; k < c->graph_values.n_ranges; k++) {
        wanted[c->n_ranges + k] = c->graph_values.ranges[k].value;
    }
    for (size_t k = 0; k < c->n_routes; k++) {
        wanted[n_wanted - 1 - k] = c->routes[k].value;
    }
    VC_TRY(vc_answers_series_make(c->ctx, c->graph, wanted, n_wanted, true, &series));
    for (uint64_t first = 0; first < c->n_numbers; first += c->now.n) {
        c->now = (struct vc_collect_rows){.first = first,
                                          .numbers = in_file,
                                          .n = (size_t)vc_min_u64(c->batch, c->n_numbers - first),
                                          .width = c->width};
        for (size_t i = 0; i < c->now.n; i++) {
            in_file[i] = vc_rows_in_file(&c->rows, c->numbers[first + i]);
        }
        for (size_t i = 0; c->tokens != NULL && i < c->now.n; i++) {
            memcpy(mask + i * c->width, c->tokens + c->numbers[first + i] * c->width, c->width);
            c->now.mask = mask;
        }
        status = vc_answers_series_run(series, &calls);
        if (status == VC_E_FORMAT) {
            status = blame_rows(c);
        }
        VC_TRY(status);
        VC_TRY(vc_check_cancelled(c->ctx));
        vc_rows_tell(&c->view, "calibrate", first + c->now.n, c->n_numbers);
    }
out:
    vc_answers_series_free(series);
    VC_FREE_ALL(c->ctx, wanted, mask);
    return status;
}

/* ---- rows ---- */

/* The sizes that the view gave the graph, before runs give it theirs. */
static enum vc_status note_shapes(struct calibration *c)
{
    c->inputs = vc_calloc_array(c->ctx, VC_TAG_MISC, c->view.n + 1, sizeof *c->inputs);
    for (size_t k = 0; c->inputs != NULL && k < c->view.n; k++) {
        const struct vc_graph_value *of = &c->graph->values[c->view.inputs[k].value];

        c->inputs[k] = (struct vc_run_value){.n_dims = of->n_dims, .is_real = !c->view.inputs[k].integers};
        for (unsigned d = 0; d < of->n_dims; d++) { /* but for the rows */
            c->inputs[k].shape[d] = vc_graph_dim_value(c->graph, of->shape[d]);
        }
    }
    return c->inputs != NULL ? VC_OK : VC_E_NOMEM;
}

/* Opens the rows and lists those that count. A graph that takes a fixed number of rows needs a multiple of
 * it. */
static enum vc_status open_rows(struct calibration *c)
{
    const struct vc_graph *graphs[1] = {c->graph};
    const char *symbol;
    int64_t fixed;

    VC_CALL(vc_rows_open(c->ctx, c->options.data, graphs, &c->options.network.weights, 1, &c->rows));
    VC_CALL(vc_rows_view_make(&c->rows, c->graph, &c->view, &symbol, &fixed));
    VC_CALL(note_shapes(c));
    VC_CALL(vc_rows_read_tokens(&c->view, &c->tokens, &c->width));
    c->batch = symbol == NULL && fixed > 0 ? (uint64_t)fixed : vc_min_u64(c->options.batch, c->rows.n);
    VC_CALL(VC_ARRAY(c->ctx, VC_TAG_MISC, c->numbers, (size_t)c->rows.n + 1));
    for (uint64_t i = 0; i < c->rows.n; i++) {
        /* A mask of positions says which answers count: all are inputs of layers. */
        if (c->rows.mask == NULL || c->rows.mask_width != 1 || c->rows.mask[i] != 0) {
            c->numbers[c->n_numbers++] = i;
        }
    }
    VC_REFUSE_IF(symbol == NULL && fixed > 0 && c->n_numbers % (uint64_t)fixed != 0, c->ctx, VC_E_ARGUMENT,
                 "%s: %llu rows; the graph takes %lld at a time", c->rows.model->path, (unsigned long long)c->n_numbers,
                 (long long)fixed);
    VC_REFUSE_IF(c->n_numbers == 0, c->ctx, VC_E_ARGUMENT, "%s: no row counts", c->rows.model->path);
    return VC_OK;
}

/* ---- the file ---- */

/* An array of the file. data NULL: memory for it, which *made gets. */
static enum vc_status add_array(struct calibration *c, const char *name, const char *tail, enum vc_dtype dtype,
                                uint64_t size, const void *data, void **made)
{
    uint64_t *shape = vc_arena_alloc(c->ctx, &c->arena, 2 * sizeof *shape);
    struct vc_memory_tensor *array = &c->arrays[c->n_arrays++];

    VC_CALL_ALLOC(shape);
    if (data == NULL) {
        data = *made = vc_arena_alloc(c->ctx, &c->arena, (size_t)size * sizeof(double));
    }
    shape[0] = shape[1] = size;
    *array = (struct vc_memory_tensor){.name = vc_arena_printf(c->ctx, &c->arena, "%s%s", name, tail),
                                       .dtype = dtype,
                                       .n_dims = 1,
                                       .shape = shape,
                                       .data = data};
    return array->name != NULL && data != NULL ? VC_OK : VC_E_NOMEM;
}

/* The arrays of one layer; those of size 0 are left out. Moments are a matrix. */
static enum vc_status lay_out_layer(struct calibration *c, struct layer *layer)
{
    const struct vc_collector *from = &c->collectors[layer->collector];
    uint64_t k = from->n_columns;
    const struct {
        enum vc_dtype dtype;
        uint64_t size;
        const void *data;
        void **made;
    } arrays[N_ARRAYS] = {[SUM2] = {VC_DTYPE_F64, k, from->sum2, NULL},
                          [COUNTS] = {VC_DTYPE_F64, 1, NULL, (void **)&layer->counts},
                          [SUM] = {VC_DTYPE_F64, k, from->sum, NULL},
                          [MIN] = {VC_DTYPE_F32, k, from->min, NULL},
                          [MAX] = {VC_DTYPE_F32, k, from->max, NULL},
                          [AXIS] = {VC_DTYPE_I64, layer->axis == 0, &first_axis, NULL},
                          [HIST] = {VC_DTYPE_F64, VC_RANGE_BINS, NULL, (void **)&layer->bins},
                          [HIST_WIDTH] = {VC_DTYPE_F32, 1, NULL, (void **)&layer->width},
                          [SAMPLE] = {VC_DTYPE_F32, layer->n_sample, layer->sample, NULL},
                          [MOMENTS] = {VC_DTYPE_F64, from->moments != NULL ? k : 0, from->moments, NULL}};

    for (unsigned which = 0; which < N_ARRAYS; which++) {
        if (arrays[which].size != 0) {
            VC_CALL(add_array(c, layer->tensor, tails[which], arrays[which].dtype, arrays[which].size,
                              arrays[which].data, arrays[which].made));
            c->arrays[c->n_arrays - 1].n_dims += which == MOMENTS;
        }
    }
    return VC_OK;
}

/* Samples and ranges for static quantization, which only graphs with names in a file have. */
static enum vc_status lay_out_graph(struct calibration *c)
{
    const struct vc_graph_values *v = &c->graph_values;

    for (size_t k = 0; k < v->n_samples; k++) {
        const struct vc_graph_sample *s = &v->samples[k];

        VC_CALL(add_array(c, s->tensor, ".in_sample", VC_DTYPE_F32, s->of->n_columns, s->vectors, NULL));
        *(uint64_t *)(uintptr_t)c->arrays[c->n_arrays - 1].shape = s->n;
        c->arrays[c->n_arrays - 1].n_dims = 2;
    }
    for (size_t k = 0; k < v->n_ranges; k++) {
        VC_CALL(add_array(c, c->graph->values[v->ranges[k].value].name, ".range", VC_DTYPE_F32, 2, v->ranges[k].ends,
                          NULL));
    }
    return VC_OK;
}

/* What tells this network from others: of the graph's text, before its sizes are known, and of its tensors. */
static enum vc_status note_graph(struct calibration *c)
{
    char *text = NULL;

    VC_CALL(vc_graph_print_text(c->ctx, c->graph, &text));
    vc_calibration_graph_digest(text, c->graph_digest);
    vc_text_free(text);
    return VC_OK;
}

/* Digests of the graph and of each tensor that it uses, once. `listed` is by tensor, as several parameters
 * may be slices of one. */
static enum vc_status lay_out_digests(struct calibration *c)
{
    const struct vc_model *model = c->options.network.weights;
    bool *listed = vc_arena_alloc(c->ctx, &c->arena, model->n_tensors + 1); /* a tensor may have several slices */

    VC_CALL_ALLOC(listed);
    memset(listed, 0, model->n_tensors + 1);
    VC_CALL(add_array(c, VC_STATISTICS_GRAPH, "", VC_DTYPE_I64, 4, c->graph_digest, NULL));
    for (uint32_t k = 0; k < c->graph->n_params; k++) {
        const char *name = c->graph->params[k].tensor;
        size_t tensor = vc_model_find(model, name);
        int64_t *digest;

        if (tensor != VC_NO_TENSOR && !listed[tensor]) {
            listed[tensor] = true;
            VC_CALL(add_array(c, name, VC_WEIGHT_DIGEST, VC_DTYPE_I64, VC_WEIGHT_DIGEST_ELEMS, NULL, (void **)&digest));
            VC_CALL(vc_calibration_digest(c->ctx, model, tensor, digest));
        }
    }
    return VC_OK;
}

/* The arrays of the file, whose numbers come when all rows are seen. Samples of weights are taken here,
 * while they are the ones that are measured. */
static enum vc_status lay_out(struct calibration *c)
{
    int64_t *rows;

    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->arrays,
                     c->n_layers * (N_ARRAYS + 1) + c->graph_values.n_ranges + c->graph->n_params + 3));
    for (size_t k = 0; k < c->n_layers; k++) {
        struct layer *layer = &c->layers[k];

        VC_CALL(vc_check_cancelled(c->ctx));
        VC_CALL(
            vc_calibration_sample(c->ctx, c->options.network.weights, layer->tensor, layer->sample, &layer->n_sample));
        VC_CALL(lay_out_layer(c, layer));
    }
    VC_CALL(lay_out_graph(c));
    if (vc_sha256_built_in()) {
        VC_CALL(lay_out_digests(c));
    }
    VC_CALL(add_array(c, VC_STATISTICS_ROWS, "", VC_DTYPE_I64, 1, NULL, (void **)&rows));
    *rows = (int64_t)c->n_numbers;
    return add_array(c, VC_STATISTICS_DATA, "", VC_DTYPE_I64, 4, c->digest, NULL);
}

/* Sums of x_i x_j were added for i <= j; the others are their mirror. */
static void fill(struct calibration *c)
{
    for (size_t k = 0; k < c->n_collectors; k++) {
        const struct vc_collector *of = &c->collectors[k];
        size_t n = of->moments != NULL ? (size_t)of->n_columns : 0;

        for (size_t i = 0; i < n * n; i++) {
            of->moments[i] = of->moments[i / n <= i % n ? i : i % n * n + i / n];
        }
    }
    for (size_t k = 0; k < c->n_layers; k++) {
        const struct layer *layer = &c->layers[k];
        const struct vc_collector *from = &c->collectors[layer->collector];
        const struct vc_value_range *range = range_of(c, from->value);

        for (uint64_t i = 0; from->n_vectors == 0 && i < from->n_columns; i++) { /* no token reached the expert */
            from->min[i] = from->max[i] = 0.0f;
        }
        *layer->counts = (double)from->n_vectors;
        *layer->width = ldexpf(1.0f, range->exponent);
        for (size_t b = 0; b < VC_RANGE_BINS; b++) {
            layer->bins[b] = (double)range->bins[b];
        }
    }
}

/* ---- the call ---- */

/* The whole, in the order of the list at the top of this file. */
static enum vc_status work(struct calibration *c, struct vc_calibration_owned *owned)
{
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    VC_TRY(note_graph(c));
    VC_TRY(open_rows(c));
    VC_TRY(vc_graph_values_begin(c->ctx, &c->graph_values, c->graph, c->n_numbers, c->graph->n_nodes));
    VC_TRY(list_layers(c, owned));
    for (size_t k = 0; k < c->n_layers; k++) {
        VC_TRY(vc_graph_values_sample(c->ctx, &c->graph_values, c->graph, c->layers[k].tensor,
                                      &c->collectors[c->layers[k].collector]));
    }
    VC_TRY(lay_out(c));
    VC_TRY(vc_memory_model_create(c->ctx, c->arrays, c->n_arrays, &model));
    VC_TRY(vc_job_create(c->ctx, model, &job));
    VC_TRY(vc_job_plan(c->ctx, job, c->options.write)); /* what can be refused about the output */
    VC_TRY(vc_thread_pool_create(c->ctx, vc_ctx_threads(c->ctx), &c->pool));
    status = run_batches(c);
    for (size_t k = 0; k < c->n_collectors; k++) {
        vc_collector_finish(&c->collectors[k], c->pool);
    }
    status = vc_model_unchanged(c->ctx, c->rows.model, status);
    VC_TRY(vc_model_unchanged(c->ctx, c->options.network.weights, status));
    fill(c);
    VC_TRY(vc_calibration_report_fill(c->ctx, model, owned));
    VC_TRY(vc_job_run(c->ctx, job));
out:
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

/* Options that nothing has to be read for. */
static enum vc_status check(struct vc_ctx *ctx, const struct vc_calibrate_options *o)
{
    VC_REFUSE_IF(o->batch == 0 || o->batch > (uint64_t)1 << 32, ctx, VC_E_ARGUMENT, "%s is out of range",
                 vc_option(ctx, "batch"));
    VC_REFUSE_IF(o->network.graph == NULL || o->network.weights == NULL || o->data == NULL, ctx, VC_E_ARGUMENT,
                 "vc_calibrate_options: there is no network, or there are no rows");
    VC_CALL_FOUND(ctx, vc_kernels_get(ctx));
    return o->write != NULL && o->write->path != NULL ? VC_OK
                                                      : vc_fail(ctx, VC_E_ARGUMENT, "there is no output to write to");
}

/* Frees everything, also after a failure at any place. */
static void release(struct calibration *c)
{
    vc_thread_pool_free(c->pool);
    for (size_t k = 0; k < c->n_collectors; k++) {
        vc_collector_end(c->ctx, &c->collectors[k]);
    }
    for (size_t k = 0; k < c->n_ranges; k++) {
        vc_free(c->ctx, c->ranges[k]);
    }
    for (size_t k = 0; k < c->n_routes; k++) {
        VC_FREE_ALL(c->ctx, c->routes[k].inputs.data, c->routes[k].weights);
    }
    vc_name_table_release(c->ctx, &c->listed);
    VC_FREE_ALL(c->ctx, c->next_of, c->waiting, c->routes, c->arrays, c->ranges, c->collectors, c->layers);
    vc_graph_values_end(c->ctx, &c->graph_values);
    VC_FREE_ALL(c->ctx, c->numbers, c->inputs, c->tokens);
    vc_rows_view_release(&c->view);
    vc_rows_close(&c->rows);
    vc_arena_release(c->ctx, &c->arena);
}

/* A failure leaves no report. */
enum vc_status vc_calibrate(struct vc_ctx *ctx, const struct vc_calibrate_options *options,
                            struct vc_calibration_report **out)
{
    struct calibration c = {.ctx = ctx, .rows = {.ctx = ctx}, .width = 1};
    struct vc_calibration_owned *owned;
    enum vc_status status = VC_OK;

    vc_call_begin(ctx);
    *out = NULL;
    VC_TRY(vc_calibration_report_new(ctx, &owned));
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(calibrate), options, &c.options));
    VC_TRY(check(ctx, &c.options));
    c.graph = c.options.network.graph;
    VC_TRY(work(&c, owned));
    *out = &owned->report;
out:
    if (status != VC_OK) {
        vc_result_free(owned);
    }
    release(&c);
    return vc_call_end(ctx, status);
}
