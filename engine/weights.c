/* weights.c - see weights.h.
 *
 *     items    one for each tensor that a parameter of the graph reads, in the order of first use, then added ones
 *     blocks   data_block | item 0 | item 1 | ...      grad_block | trained items only |       each aligned to VC_POOL_ALIGN
 *
 * One block each, so that an optimizer on a device and a transfer take one call. */
#include "engine/weights.h"

#include "core/base/checked.h"
#include "graph/ops/ops.h"
#include "kernels/kernels.h"
#include "passes/graph_params.h"
#include "passes/random.h"

#define NO_PARAM    ((uint32_t)-1)
#define INIT_STREAM ((uint64_t)1 << 32) /* streams of random numbers for entries that are in no file */

/* The names of all entries, for the tables. */
static struct vc_name_list names_of(const struct vc_weights *w)
{
    return VC_NAME_LIST(w->items, sizeof *w->items);
}

/* The entry of the tensor in its file (the graph's own, or vc_graph_options.weights). SIZE_MAX: there is
 * none. */
static size_t find_entry(const struct vc_weights *w, bool from_weights, const char *name)
{
    return vc_name_table_find(&w->names[from_weights], names_of(w), name, strlen(name));
}

/* By either file's name; the first parameter counts where both have it. */
const struct vc_weight *vc_weights_find(const struct vc_weights *w, const char *name)
{
    size_t own = find_entry(w, false, name);
    size_t other = find_entry(w, true, name);
    size_t first = own < other ? own : other;

    return first == SIZE_MAX ? NULL : &w->items[first];
}

/* Sizes come from a file: the product is checked.
 * Gradients are of floats: an entry of integers is never trained. */
static enum vc_status add_entry(struct vc_weights *w, uint32_t k, bool train)
{
    const struct vc_graph_param *param = vc_graph_param(w->graph, k);
    struct vc_weight *item = &w->items[w->n];

    *item = (struct vc_weight){.name = param->tensor,
                               .from_weights = param->from_weights,
                               .param = k,
                               .n_dims = param->n_dims,
                               .shape = param->shape,
                               .n = 1};
    for (unsigned d = 0; d < param->n_dims; d++) {
        VC_REFUSE_IF(!vc_mul_u64(item->n, param->shape[d], &item->n), w->ctx, VC_E_FORMAT, "%s: the size overflows",
                     param->tensor);
    }
    item->integers = vc_graph_value(w->graph, param->value)->dtype != VC_DTYPE_F32;
    item->trained = train && !item->integers;
    w->of_param[k] = (uint32_t)w->n;
    (void)vc_name_table_add(&w->names[param->from_weights], names_of(w), w->n++);
    return VC_OK;
}

/* What a batch counts for in the running statistics of a BatchNormalization: 1 - momentum, 0.1 by default.
 * 0: mean or variance are no weights and stay as they are.
 * ONNX's default 0.9 is a float there. */
static double norm_share(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    for (unsigned k = 3; k < 5; k++) {
        if (k >= node->n_inputs || node->inputs[k] == VC_NO_VALUE ||
            vc_graph_value(graph, node->inputs[k])->param == VC_NO_PARAM) {
            return 0;
        }
    }
    return 1 - vc_node_float(node, "momentum", (double)0.9f);
}

/* Marks statistics that are read in another place than inputs 3 and 4 of a BatchNormalization. Those of a new network are
 * 0 and 1, as its scales and shifts are, and exporters that keep equal tensors once write
 *
 *     BatchNormalization (x, 1.weight, 1.bias, 1.bias, 1.weight) */
static void find_mixed(struct vc_weights *w)
{
    for (uint32_t n = 0; n < vc_graph_node_count(w->graph); n++) {
        const struct vc_graph_node *node = vc_graph_node(w->graph, n);
        unsigned end = vc_node_is(node, VC_OP_batch_norm) ? VC_AT_MOST(node->n_inputs, 3u) : node->n_inputs;

        for (unsigned k = 0; k < end; k++) {
            uint32_t v = node->inputs[k];
            uint32_t param = v != VC_NO_VALUE ? vc_graph_value(w->graph, v)->param : VC_NO_PARAM;

            if (param != VC_NO_PARAM) {
                struct vc_weight *item = &w->items[w->of_param[param]];

                item->mixed = item->mixed || item->statistic;
            }
        }
    }
}

/* Marks running means and variances: not trained by gradients. A statistic that two norms share has
 * norm_share -1. Scales of FakeQuantize are not trained, either. */
static void find_statistics(struct vc_weights *w)
{
    for (uint32_t n = 0; n < vc_graph_node_count(w->graph); n++) {
        const struct vc_graph_node *node = vc_graph_node(w->graph, n);

        if (vc_node_is(node, VC_OP_fake_quantize) && node->n_inputs > 1 && node->inputs[1] != VC_NO_VALUE &&
            vc_graph_value(w->graph, node->inputs[1])->param != VC_NO_PARAM) {
            w->items[w->of_param[vc_graph_value(w->graph, node->inputs[1])->param]].trained = false;
        }
        for (unsigned k = 3; vc_node_is(node, VC_OP_batch_norm) && k < node->n_inputs; k++) {
            uint32_t v = node->inputs[k];
            uint32_t param = v != VC_NO_VALUE ? vc_graph_value(w->graph, v)->param : VC_NO_PARAM;

            if (param != VC_NO_PARAM) {
                struct vc_weight *item = &w->items[w->of_param[param]];

                item->norm_share = item->statistic ? -1 : norm_share(w->graph, node);
                item->statistic = true;
                item->trained = false;
            }
        }
    }
    find_mixed(w);
}

/* Adds what the entry takes to the block of values. */
static enum vc_status add_bytes(struct vc_weights *w, const struct vc_weight *item)
{
    uint64_t bytes;

    VC_REFUSE_IF(!vc_mul_u64(item->n, item->integers ? sizeof(int64_t) : vc_real_bytes(w->precision), &bytes) ||
                     !vc_round_up_u64(bytes, VC_POOL_ALIGN, &bytes) ||
                     !vc_add_u64(w->data_bytes, bytes, &w->data_bytes),
                 w->ctx, VC_E_FORMAT, "%s: the size overflows", item->name);
    return VC_OK;
}

/* What an entry takes; add_bytes has checked that it does not overflow. */
static uint64_t bytes_of(const struct vc_weights *w, const struct vc_weight *item)
{
    uint64_t bytes = item->n * (item->integers ? sizeof(int64_t) : vc_real_bytes(w->precision));

    return VC_POOL_ALIGNED(bytes);
}

/* The block of gradients has the trained entries alone, so it is counted anew whenever one more or fewer is
 * trained. */
static void count_gradients(struct vc_weights *w)
{
    w->grad_bytes = 0;
    for (size_t i = 0; i < w->n; i++) {
        w->grad_bytes += w->items[i].trained ? bytes_of(w, &w->items[i]) : 0;
    }
}

/* A table of names for each file; entries have numbers up to that of all parameters in both. */
static enum vc_status make_tables(struct vc_weights *w)
{
    uint32_t n = vc_graph_param_count(w->graph);
    bool others = false;

    for (uint32_t k = 0; k < n; k++) {
        others = others || vc_graph_param(w->graph, k)->from_weights;
    }
    VC_CALL(vc_name_table_make(w->ctx, n, &w->names[false]));
    return others ? vc_name_table_make(w->ctx, n, &w->names[true]) : VC_OK;
}

/* One entry for each tensor, at its first parameter. Where one parameter of a tensor is frozen, the tensor
 * is. */
enum vc_status vc_weights_make(struct vc_ctx *ctx, const struct vc_graph *graph, enum vc_graph_precision precision,
                               bool train, const bool *frozen, struct vc_weights **out)
{
    uint32_t n = vc_graph_param_count(graph);
    struct vc_weights *w = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *w);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(w);
    w->ctx = ctx;
    w->graph = graph;
    w->precision = precision;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, w->items, n + (size_t)1));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, w->of_param, n + (size_t)1));
    VC_TRY(make_tables(w));
    for (uint32_t k = 0; k < n; k++) {
        const struct vc_graph_param *param = vc_graph_param(graph, k);
        size_t known = find_entry(w, param->from_weights, param->tensor);

        w->of_param[k] = (uint32_t)known;
        if (known == SIZE_MAX) {
            VC_TRY(add_entry(w, k, train));
        }
    }
    for (uint32_t k = 0; frozen != NULL && k < n; k++) {
        w->items[w->of_param[k]].trained = w->items[w->of_param[k]].trained && !frozen[k];
    }
    find_statistics(w);
    for (size_t i = 0; i < w->n; i++) {
        VC_TRY(add_bytes(w, &w->items[i]));
    }
    count_gradients(w);
    *out = w;
    w = NULL;
out:
    vc_weights_free(w);
    return status;
}

/* Walks backwards from the values: weights that none of them needs (a head that the loss does not read) are
 * not trained. */
enum vc_status vc_weights_leave_unread(struct vc_weights *w, const uint32_t *values, size_t n)
{
    const struct vc_graph *graph = w->graph;
    VC_SCOPED bool *read = vc_calloc_array(w->ctx, VC_TAG_MISC, vc_graph_value_count(graph) + (size_t)1, sizeof *read);

    VC_CALL_ALLOC(read);
    for (size_t k = 0; k < n; k++) {
        read[values[k]] = true;
    }
    for (uint32_t k = vc_graph_node_count(graph); k-- > 0;) {
        const struct vc_graph_node *node = vc_graph_node(graph, k);
        bool needed = false;

        for (unsigned i = 0; i < node->n_outputs; i++) {
            needed = needed || (node->outputs[i] != VC_NO_VALUE && read[node->outputs[i]]);
        }
        for (unsigned i = 0; needed && i < node->n_inputs; i++) {
            if (node->inputs[i] != VC_NO_VALUE) {
                read[node->inputs[i]] = true;
            }
        }
    }
    for (size_t i = 0; i < w->n; i++) {
        w->items[i].unread = true;
    }
    for (uint32_t k = 0; k < vc_graph_param_count(graph); k++) {
        struct vc_weight *item = &w->items[w->of_param[k]];

        item->unread = item->unread && !read[vc_graph_param(graph, k)->value];
    }
    for (size_t i = 0; i < w->n; i++) {
        w->items[i].trained = w->items[i].trained && !w->items[i].unread;
    }
    count_gradients(w);
    return VC_OK;
}

/* Adds an entry that is in no file, filled with random numbers within `bound` of its middle. */
static enum vc_status add_initialized(struct vc_weights *w, const char *name, unsigned n_dims, const uint64_t *shape,
                                      double bound)
{
    uint64_t *own = vc_arena_alloc(w->ctx, &w->added, n_dims * sizeof *own);
    struct vc_weight *item = &w->items[w->n];

    VC_CALL_ALLOC(name);
    VC_CALL_ALLOC(own);
    memcpy(own, shape, n_dims * sizeof *own);
    *item = (struct vc_weight){.name = name,
                               .param = NO_PARAM,
                               .n_dims = n_dims,
                               .shape = own,
                               .n = shape[0],
                               .trained = true,
                               .initialized = true,
                               .bound = bound};
    VC_REFUSE_IF(n_dims == 2 && !vc_mul_u64(item->n, shape[1], &item->n), w->ctx, VC_E_ARGUMENT,
                 "%s: the size overflows", name);
    VC_CALL(add_bytes(w, item));
    w->n++;
    return VC_OK;
}

/* For n more entries. */
static enum vc_status make_room(struct vc_weights *w, size_t n)
{
    struct vc_weight *items = vc_calloc_array(w->ctx, VC_TAG_MISC, w->n + n + 1, sizeof *items);

    VC_CALL_ALLOC(items);
    memcpy(items, w->items, w->n * sizeof *items);
    vc_free(w->ctx, w->items);
    w->items = items;
    return VC_OK;
}

/* Begins as 1 everywhere: bound 0 makes the random numbers the middle. */
enum vc_status vc_weights_add_shares(struct vc_weights *w, const char *name, uint64_t n, size_t *entry)
{
    VC_CALL(make_room(w, 1));
    *entry = w->n;
    VC_CALL(add_initialized(w, vc_arena_printf(w->ctx, &w->added, "grid.%s", name), 1, &n, 0));
    w->items[*entry].middle = 1;
    w->items[*entry].shares = true;
    count_gradients(w);
    return VC_OK;
}

/* A Linear layer as torch initializes it: uniform within 1 / sqrt(inputs), weight and bias. */
enum vc_status vc_weights_add_map(struct vc_weights *w, const char *name, uint64_t inputs, uint64_t outputs,
                                  uint64_t seed, size_t *first)
{
    double bound = 1 / sqrt((double)inputs);
    const uint64_t shape[2] = {outputs, inputs};

    VC_CALL(make_room(w, 2));
    w->seed = seed;
    *first = w->n;
    VC_CALL(add_initialized(w, vc_arena_printf(w->ctx, &w->added, "%s.weight", name), 2, shape, bound));
    VC_CALL(add_initialized(w, vc_arena_printf(w->ctx, &w->added, "%s.bias", name), 1, shape, bound));
    count_gradients(w);
    return VC_OK;
}

/* Uniform in [middle - bound, middle + bound). The stream is a function of seed and entry, so that adding
 * another entry changes no number of this one. */
static void init_entry(const struct vc_weights *w, size_t entry)
{
    const struct vc_weight *item = &w->items[entry];

    for (uint64_t i = 0; i < item->n; i++) { /* 53 bits: a number of [0, 1) */
        double u = (double)(vc_random_bits(w->seed, INIT_STREAM + entry, i) >> 11) * 0x1p-53;
        double x = item->middle + item->bound * (2 * u - 1);

        if (w->precision == VC_GRAPH_F64) {
            ((double *)item->data)[i] = x;
        } else {
            ((float *)item->data)[i] = (float)x;
        }
    }
}

/* Places all entries in the two blocks, in the order of the list. */
enum vc_status vc_weights_allocate(struct vc_weights *w)
{
    uint64_t data = 0;
    uint64_t grad = 0;

    VC_CALL_ALLOC(w->data_block = vc_alloc(w->ctx, VC_TAG_TILES, (size_t)w->data_bytes));
    VC_CALL_ALLOC(w->grad_block = vc_alloc(w->ctx, VC_TAG_TILES, (size_t)w->grad_bytes));
    for (size_t i = 0; i < w->n; i++) {
        struct vc_weight *item = &w->items[i];
        uint64_t bytes = bytes_of(w, item);

        item->data = (char *)w->data_block + data;
        data += bytes;
        if (item->trained) {
            item->grad = (char *)w->grad_block + grad;
            grad += bytes;
        }
    }
    return vc_weights_clear(w);
}

/* The source must not have changed while it was read (vc_model_unchanged), also if reading failed: then
 * that is the reason. */
enum vc_status vc_weights_load(struct vc_weights *w, const struct vc_model *model, const struct vc_model *other)
{
    struct vc_place place = vc_place_whole();
    enum vc_status status = VC_OK;

    if (vc_kernels_get(w->ctx) == NULL) {
        return w->ctx->status;
    }
    for (size_t i = 0; i < w->n; i++) {
        struct vc_weight *item = &w->items[i];
        const struct vc_model *from = item->from_weights ? other : model;
        size_t tensor = VC_NO_TENSOR;

        if (item->initialized) {
            init_entry(w, i);
            continue;
        }
        VC_TRY(vc_param_find(w->ctx, from, vc_graph_param(w->graph, item->param), &tensor));
        status = item->integers
                     ? vc_place_integers(w->ctx, from, tensor, &place, item->data)
                     : vc_place_values(w->ctx, from, tensor, &place, w->precision == VC_GRAPH_F64, item->data);
        if (status != VC_OK) {
            status = vc_context(w->ctx, "%s", from->path);
            goto out;
        }
    }
    if (model != NULL) {
        status = vc_model_unchanged(w->ctx, model, status);
    }
    if (other != NULL && status == VC_OK) {
        status = vc_model_unchanged(w->ctx, other, status);
    }
out:
    vc_weights_changed(w);
    return status;
}

/* Gradients on both sides. */
enum vc_status vc_weights_clear(struct vc_weights *w)
{
    if (w->grad_block != NULL && w->grad_bytes != 0) {
        memset(w->grad_block, 0, (size_t)w->grad_bytes);
    }
    w->grads_on_device = false;
    return w->device_grad != NULL ? vc_train_clear(w->device, w->device_grad, w->grad_bytes) : VC_OK;
}

/* ---- copies on a device ---- */

/* From now on there are two copies; newer_on_host and newer_on_device say which one counts. */
enum vc_status vc_weights_use(struct vc_weights *w, struct vc_train_device *device)
{
    if (w->device != NULL) {
        return VC_OK;
    }
    w->device = device;
    VC_CALL(vc_train_alloc(device, w->data_bytes, &w->device_data));
    VC_CALL(vc_train_alloc(device, w->grad_bytes, &w->device_grad));
    VC_CALL(vc_train_clear(device, w->device_grad, w->grad_bytes));
    w->newer_on_host = true;
    return VC_OK;
}

/* The device's copies go; values that are newer there are lost. */
void vc_weights_leave(struct vc_weights *w)
{
    if (w->device != NULL) {
        vc_train_free(w->device, w->device_data, w->data_bytes);
        vc_train_free(w->device, w->device_grad, w->grad_bytes);
    }
    w->device = NULL;
    w->device_data = NULL;
    w->device_grad = NULL;
    w->newer_on_device = false;
    w->grads_on_device = false;
}

void vc_weights_changed(struct vc_weights *w)
{
    w->newer_on_host = true;
    w->newer_on_device = false;
}

/* Only if the device's are newer. */
enum vc_status vc_weights_to_host(struct vc_weights *w)
{
    if (w->device != NULL && w->newer_on_device) {
        VC_CALL(vc_train_to_host(w->device, w->data_block, w->device_data, w->data_bytes));
        w->newer_on_device = false;
    }
    return VC_OK;
}

enum vc_status vc_weights_grads_to_host(struct vc_weights *w)
{
    return w->device != NULL && w->grads_on_device
               ? vc_train_to_host(w->device, w->grad_block, w->device_grad, w->grad_bytes)
               : VC_OK;
}

enum vc_status vc_weights_grads_to_device(struct vc_weights *w)
{
    return w->device != NULL ? vc_train_to_device(w->device, w->device_grad, w->grad_block, w->grad_bytes) : VC_OK;
}

/* An entry lies at the same place in both blocks. */
enum vc_status vc_weights_entry_to_host(struct vc_weights *w, size_t entry)
{
    const struct vc_weight *item = &w->items[entry];
    ptrdiff_t at = (char *)item->data - (char *)w->data_block;

    return w->device != NULL && w->newer_on_device
               ? vc_train_to_host(w->device, item->data, (char *)w->device_data + at,
                                  item->n * vc_real_bytes(w->precision))
               : VC_OK;
}

/* The values of one entry were made on the host. */
enum vc_status vc_weights_entry_to_device(struct vc_weights *w, size_t entry)
{
    const struct vc_weight *item = &w->items[entry];
    ptrdiff_t at = (char *)item->data - (char *)w->data_block;

    return w->device != NULL ? vc_train_to_device(w->device, (char *)w->device_data + at, item->data,
                                                  item->n * vc_real_bytes(w->precision))
                             : VC_OK;
}

/* The gradient of one entry was made on the host. */
enum vc_status vc_weights_gradient_to_device(struct vc_weights *w, size_t entry)
{
    const struct vc_weight *item = &w->items[entry];
    ptrdiff_t at = (char *)item->grad - (char *)w->grad_block;

    return w->device != NULL ? vc_train_to_device(w->device, (char *)w->device_grad + at, item->grad,
                                                  item->n * vc_real_bytes(w->precision))
                             : VC_OK;
}

/* Only if the host's are newer. */
enum vc_status vc_weights_to_device(struct vc_weights *w)
{
    if (w->device != NULL && w->newer_on_host) {
        VC_CALL(vc_train_to_device(w->device, w->device_data, w->data_block, w->data_bytes));
        w->newer_on_host = false;
    }
    return VC_OK;
}

/* The device's memory first. */
void vc_weights_free(struct vc_weights *w)
{
    if (w == NULL) {
        return;
    }
    vc_weights_leave(w);
    vc_free(w->ctx, w->data_block);
    vc_free(w->ctx, w->grad_block);
    vc_free(w->ctx, w->items);
    vc_free(w->ctx, w->of_param);
    vc_name_table_release(w->ctx, &w->names[false]);
    vc_name_table_release(w->ctx, &w->names[true]);
    vc_arena_release(w->ctx, &w->added);
    vc_free(w->ctx, w);
}
