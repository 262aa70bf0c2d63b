/* loaded.c - what weights take as they are loaded: from a file, or as the parameters of a graph.
 *
 *     model given      each of its tensors as a loader has it; codes by the runtime: kept, decoded, or layer by layer
 *     graph alone      its parameters, in the type or the scheme that was asked for */

#include "core/model/names.h"
#include "core/model/source.h"
#include "memory/by_layer.h"

/* Elements of the parameter; with tensor parallelism those of one device, or all (`whole`). */
uint64_t vc_param_elems(struct vc_estimate *e, const struct vc_graph_param *param, bool whole)
{
    uint64_t n = 1;

    for (unsigned k = 0; k < param->n_dims; k++) {
        n = vc_estimate_product(e, n, param->sliced && k == param->axis ? param->count : param->shape[k]);
    }
    return whole ? n : vc_ceil_div_u64(n, e->storages.shard[param->value]);
}

unsigned vc_param_width(const struct vc_estimate *e, const struct vc_graph_param *param)
{
    enum vc_dtype type = e->options.weights;
    bool stored = e->model != NULL && !param->from_weights && param->index < e->model->n_tensors;

    if (type == VC_DTYPE_NONE && stored && vc_is_plain_float(&e->model->tensors[param->index])) {
        type = vc_wider_type(e->graph, e->model->tensors[param->index].dtype);
    }
    return e->options.amp == VC_AMP_PURE ? 2 : vc_float_bytes(e, type);
}

/* A second parameter of a tensor that is there already. */
bool vc_param_is_double(const struct vc_estimate *e, uint32_t index)
{
    const struct vc_graph_param *param = vc_graph_param(e->graph, index);

    return param->tied_to != VC_NO_PARAM && e->storages.used[vc_graph_param(e->graph, param->tied_to)->value];
}

/* n * part / whole, rounded up, without overflow. part <= whole. */
static uint64_t share(uint64_t n, uint64_t part, uint64_t whole)
{
    if (part >= whole) {
        return n;
    }
    double rest = (double)(n % whole) * (double)part / (double)whole;
    return n / whole * part + (uint64_t)rest + 1;
}

/* ---- schemes ---- */

/* Loaders leave the tables of words and the output layer as they are. */
static bool stays(const struct vc_estimate *e, const struct vc_graph_param *param)
{
    const struct vc_graph *graph = e->graph;
    uint32_t table = e->storages.vocabulary;
    const struct vc_graph_value *value = vc_graph_value(graph, param->value);

    if (vc_name_is_embedding(param->tensor) || vc_name_is_head(param->tensor)) {
        return true;
    }
    return table != VC_NO_VALUE && value->n_dims == 2 &&
           (param->value == table || value->shape[1].size == vc_graph_value(graph, table)->shape[0].size);
}

/* Sets what names tell: one more than the highest number of a layer, and whether there is an output layer of its own. */
static void look_at_names(struct vc_estimate *e)
{
    size_t n = e->model != NULL   ? vc_model_facts(e->model)->n_tensors
               : e->graph != NULL ? vc_graph_param_count(e->graph)
                                  : 0;

    e->n_layers = 0;
    e->has_head = false;
    for (size_t k = 0; k < n; k++) {
        const struct vc_graph_param *param = e->model == NULL ? vc_graph_param(e->graph, (uint32_t)k) : NULL;
        const char *name = param == NULL ? vc_model_tensor(e->model, k)->name : param->tensor;
        bool tied =
            param == NULL ? vc_model_tensor(e->model, k)->alias_of != VC_NO_TENSOR : param->tied_to != VC_NO_PARAM;
        uint32_t layer = vc_scheme_layer(name);

        e->has_head = e->has_head || (vc_name_is_head(name) && !tied);
        e->n_layers = layer != UINT32_MAX && layer >= e->n_layers ? layer + 1 : e->n_layers;
    }
}

/* Bytes of a float beside codes: `usual`, or as the graph's values are. */
static unsigned float_bytes(const struct vc_estimate *e, unsigned usual)
{
    return e->keeps_values ? vc_float_bytes(e, VC_DTYPE_NONE) : usual;
}

/* Bytes of n weights of that name and shape as codes; of what stays, as floats. *floats: what codes become while a node
 * reads them, where they do. */
static uint64_t coded_bytes(struct vc_estimate *e, const char *name, uint64_t n, unsigned n_dims, const uint64_t *shape,
                            bool stay, uint64_t *floats)
{
    struct vc_scheme_layout scheme = vc_scheme_of_tensor(&e->scheme, name, n_dims, shape, e->n_layers, !e->has_head);
    uint64_t whole = 1;
    uint64_t rows = 1;

    if ((n_dims < 2 && !e->scheme.vectors) || (stay && !e->scheme.all)) {
        return vc_estimate_block(e, n, float_bytes(e, vc_scheme_vector_bytes(&e->scheme)));
    }
    if (e->options.runtime == VC_RUNTIME_DEQUANTIZE) {
        return vc_estimate_block(e, n, 2);
    }
    for (unsigned k = 0; k < n_dims; k++) {
        whole = vc_estimate_product(e, whole, shape[k]);
        rows = k == 0 || (k == 1 && n_dims == 3) ? vc_estimate_product(e, rows, shape[k]) : rows;
    }
    rows = n_dims < 2 || rows == 0 ? 1 : rows;
    if (e->whole_groups && n_dims == 2) {
        bool none;

        scheme = vc_scheme_in_folder(&scheme, shape[1], &none);
        if (none) {
            return vc_estimate_block(e, n, vc_scheme_vector_bytes(&e->scheme));
        }
    }
    if (vc_estimate_trains(e) || e->options.runtime == VC_RUNTIME_LAYERWISE ||
        (e->options.program == VC_RUN_BY_BITSANDBYTES && vc_scheme_bytes(&scheme, rows, whole / rows) < whole)) {
        *floats = vc_estimate_block(e, n, float_bytes(e, 2)); /* each product has its weight as floats */
    }
    uint64_t bytes = vc_scheme_bytes(&scheme, rows, whole / rows);
    e->overflow = e->overflow || bytes == UINT64_MAX;
    return whole == 0 ? 0 : vc_estimate_block(e, share(bytes, n, whole), 1);
}

/* ---- without a file ---- */

/* Without a file: what the parameters of the graph take as floats or as codes. */
static void add_params(struct vc_estimate *e)
{
    for (uint32_t k = 0; k < vc_graph_param_count(e->graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(e->graph, k);

        if (vc_param_is_double(e, k) || !e->storages.used[param->value]) {
            continue;
        }
        uint64_t n = vc_param_elems(e, param, false);
        vc_estimate_request(e, VC_MEMORY_PARAMETERS,
                            e->coded ? coded_bytes(e, param->tensor, n, param->n_dims, param->shape, stays(e, param),
                                                   &e->storages.decoded[param->value])
                                     : vc_estimate_block(e, n, vc_float_bytes(e, e->options.weights)),
                            k, false, param->tensor);
        e->decodes = e->decodes || e->storages.decoded[param->value] != 0;
    }
}

/* What a graph that stands in for another has no nodes for. */
static void add_others(struct vc_estimate *e)
{
    const struct vc_net_others *others = &e->graph->others;
    uint64_t known = vc_estimate_sum(e, e->out->n_params, others->params + others->coded);
    uint64_t all =
        vc_estimate_product(e, known, vc_max_u64(others->weights, 100)) / 100; /* as was measured of its type */
    const uint64_t shape[] = {1, others->coded + all - known};
    unsigned floats = e->coded ? 2 : vc_float_bytes(e, e->options.weights);
    uint64_t unread = 0;

    e->out->n_params = all;
    if (others->masks != 0) {
        vc_estimate_request(e, VC_MEMORY_PARAMETERS, vc_estimate_block(e, others->masks, 1), VC_NO_PARAM, false,
                            "(masks)");
    }
    if (others->params != 0) {
        vc_estimate_request(e, VC_MEMORY_PARAMETERS, vc_estimate_block(e, others->params, floats), VC_NO_PARAM, false,
                            "(towers)");
    }
    if (shape[1] != 0) {
        vc_estimate_request(e, VC_MEMORY_PARAMETERS,
                            e->coded ? coded_bytes(e, "(layers)", shape[1], 2, shape, false, &unread)
                                     : vc_estimate_block(e, shape[1], floats),
                            VC_NO_PARAM, false, "(layers)");
    }
}

/* ---- from a file ---- */

/* What codes become: floats of the type that the other weights have, as transformers makes them; without any, and one at a
 * time, of the type that they were made from; of f16 where the file does not tell. bitsandbytes makes what its file says,
 * whatever the model is loaded as, and a copy for the product where values have another type. */
static uint64_t decoded_bytes(struct vc_estimate *e, const struct vc_tensor *tensor)
{
    enum vc_dtype dtype = e->options.weights != VC_DTYPE_I8 ? e->options.weights : VC_DTYPE_NONE;

    if (e->options.program == VC_RUN_BY_BITSANDBYTES && tensor->quant != NULL) {
        unsigned width = vc_float_bytes(e, tensor->quant->source_dtype);
        unsigned values = vc_float_bytes(e, e->options.activations != VC_DTYPE_NONE ? e->options.activations : dtype);

        return vc_estimate_block(e, tensor->n_elems, width + (values != width ? values : 0));
    }
    if (dtype == VC_DTYPE_NONE && tensor->quant == NULL) {
        dtype = VC_DTYPE_F16;
    } else if (dtype == VC_DTYPE_NONE) {
        dtype = e->floats != VC_DTYPE_NONE ? e->floats : tensor->quant->source_dtype;
    }

    return vc_estimate_block(e, tensor->n_elems, vc_float_bytes(e, dtype));
}

/* Of four bits, whose products bitsandbytes computes with the weight as floats, unless they are of one row. */
static bool is_four_bits(const struct vc_tensor *tensor)
{
    return tensor->size_bytes < tensor->n_elems;
}

/* *floats: as of coded_bytes. */
static uint64_t tensor_bytes(struct vc_estimate *e, const struct vc_tensor *tensor, uint64_t *floats)
{
    bool part = tensor->part_of != VC_NO_TENSOR;

    if (vc_is_coded(tensor) && (vc_estimate_trains(e) || e->options.runtime == VC_RUNTIME_LAYERWISE ||
                                (e->options.program == VC_RUN_BY_BITSANDBYTES && is_four_bits(tensor)))) {
        *floats = decoded_bytes(e, tensor);
    }
    if (vc_is_coded(tensor) && e->options.runtime == VC_RUNTIME_DEQUANTIZE) {
        return decoded_bytes(e, tensor);
    }
    if (part && e->options.runtime == VC_RUNTIME_DEQUANTIZE) {
        return 0; /* of no use any more */
    }
    if (e->coded && vc_is_plain_float(tensor)) {
        bool stay = vc_name_is_embedding(tensor->name) || vc_name_is_head(tensor->name) || tensor->kept_as != NULL;

        return coded_bytes(e, tensor->name, tensor->n_elems, tensor->n_dims, tensor->shape, stay, floats);
    }
    if (vc_is_plain_float(tensor)) {
        bool stays = tensor->n_dims < 2 &&
                     strcmp(vc_model_facts(e->model)->format, "gguf") == 0; /* f32 there, whatever is cast */
        enum vc_dtype type =
            e->options.weights != VC_DTYPE_NONE && !stays ? e->options.weights : vc_wider_type(e->graph, tensor->dtype);

        return vc_estimate_block(e, tensor->n_elems, vc_float_bytes(e, type));
    }
    return vc_estimate_block(e, tensor->size_bytes, 1);
}

/* The tensors of the weights: those of the file, or of the one that is going to be written. */
static const struct vc_tensor *list_tensors(const struct vc_estimate *e, size_t *n)
{
    *n = e->written != NULL ? e->written->n : vc_model_facts(e->model)->n_tensors;
    return e->written != NULL ? e->written->tensors : e->model->tensors;
}

/* Elements of each tensor that this device has; those that the graph does not know are everywhere. NULL: no memory. */
static uint64_t *count_held(struct vc_estimate *e, size_t n_tensors)
{
    uint64_t *held = vc_alloc_array(e->ctx, VC_TAG_MISC, n_tensors, sizeof *held);

    for (size_t i = 0; held != NULL && i < n_tensors; i++) {
        held[i] = UINT64_MAX;
    }
    for (uint32_t k = 0; held != NULL && k < vc_graph_param_count(e->graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(e->graph, k);

        if (!param->from_weights && param->index < n_tensors) {
            held[param->index] = held[param->index] == UINT64_MAX ? 0 : held[param->index];
            held[param->index] +=
                vc_param_is_double(e, k) || !e->storages.used[param->value] ? 0 : vc_param_elems(e, param, false);
        }
    }
    return held;
}

/* What parameters become while a node reads them: `floats` of their tensors. Where it is not known which tensor that
 * is, as much as any tensor becomes, and no more than f32 of their own. */
static void set_decoded(struct vc_estimate *e, const uint64_t *floats, size_t n_tensors, uint64_t largest)
{
    for (uint32_t k = 0; e->graph != NULL && k < vc_graph_param_count(e->graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(e->graph, k);
        uint64_t most = vc_min_u64(largest, vc_estimate_block(e, vc_param_elems(e, param, true), 4));

        e->storages.decoded[param->value] =
            !param->from_weights && param->index < n_tensors ? floats[param->index] : most;
    }
}

/* A list of tensors as it is being loaded. */
struct loading {
    const struct vc_tensor *tensors;
    size_t n;
    uint64_t *held;   /* NULL: this device has all of everything */
    uint64_t *floats; /* by tensor: what it becomes while a node reads it */
    uint64_t largest; /* of these */
    size_t *part;     /* by tensor: its first part, and behind these the next part of the same tensor */
};

/* Parts of codes belong to their tensor; second names take nothing. */
static void load_tensor(struct vc_estimate *e, struct loading *l, size_t i)
{
    const struct vc_tensor *tensor = &l->tensors[i];
    size_t owner = tensor->part_of != VC_NO_TENSOR ? tensor->part_of : i;

    if (tensor->role != VC_ROLE_WEIGHT || tensor->alias_of != VC_NO_TENSOR) {
        return;
    }
    if (tensor->part_of == VC_NO_TENSOR && e->graph == NULL && !vc_name_is_statistic(tensor->name)) {
        e->out->n_params = vc_estimate_sum(e, e->out->n_params, tensor->n_elems);
        vc_layers_add_tensor(e, tensor->name, VC_LAYER_PARAMS, tensor->n_elems);
    }
    uint64_t bytes = tensor_bytes(e, tensor, &l->floats[i]);
    l->largest = vc_max_u64(l->largest, l->floats[i]);
    e->decodes = e->decodes || l->floats[i] != 0;
    bytes = l->held != NULL ? vc_estimate_block(e, share(bytes, l->held[owner], l->tensors[owner].n_elems), 1) : bytes;
    vc_estimate_request(e, VC_MEMORY_PARAMETERS, bytes, VC_NO_PARAM, false, l->tensors[owner].name);
}

/* Parts in their order. */
static void chain_parts(struct loading *l)
{
    for (size_t i = 0; i < 2 * l->n; i++) {
        l->part[i] = VC_NO_TENSOR;
    }
    for (size_t i = l->n; i-- > 0;) {
        size_t owner = l->tensors[i].part_of;

        if (owner != VC_NO_TENSOR) {
            l->part[l->n + i] = l->part[owner];
            l->part[owner] = i;
        }
    }
}

/* All tensors of the file that are weights, whether the graph uses them or not: a loader reads them all, each with its
 * parts, wherever the file has these. */
static enum vc_status add_file(struct vc_estimate *e)
{
    bool divided = e->graph != NULL && (e->options.tp > 1 || e->options.pp > 1);
    struct loading l = {.largest = 0};
    enum vc_status status = VC_OK;

    l.tensors = list_tensors(e, &l.n);
    l.held = divided ? count_held(e, l.n) : NULL;
    l.floats = vc_calloc_array(e->ctx, VC_TAG_MISC, l.n + 1, sizeof *l.floats);
    l.part = vc_alloc_array(e->ctx, VC_TAG_MISC, 2 * l.n + 1, sizeof *l.part);
    if ((divided && l.held == NULL) || l.floats == NULL || l.part == NULL) {
        status = VC_E_NOMEM;
        goto out;
    }
    chain_parts(&l);
    for (size_t i = 0; i < l.n; i++) {
        if (l.tensors[i].part_of != VC_NO_TENSOR) {
            continue;
        }
        load_tensor(e, &l, i);
        for (size_t k = l.part[i]; k != VC_NO_TENSOR; k = l.part[l.n + k]) {
            load_tensor(e, &l, k);
        }
    }
    set_decoded(e, l.floats, l.n, l.largest);
out:
    vc_free(e->ctx, l.part);
    vc_free(e->ctx, l.floats);
    vc_free(e->ctx, l.held);
    return status;
}

/* What is in the file and in no list: its bytes, where they are known; else nobody knows what the weights take. */
static void add_unlisted(struct vc_estimate *e)
{
    const struct vc_model *model = e->model;

    if (model->unlisted_bytes != 0) {
        vc_estimate_add(e, VC_MEMORY_PARAMETERS, vc_estimate_block(e, model->unlisted_bytes, 1));
        e->out->components[VC_MEMORY_PARAMETERS].known = VC_KNOWN_ASSUMED;
    }
    e->unread = model->unlisted;
    for (size_t k = 0; k < model->n_refused && e->unread == NULL; k++) {
        e->unread = model->refused[k].role == VC_ROLE_WEIGHT ? model->refused[k].name : NULL;
    }
}

/* ---- all ---- */

/* The names come first: schemes ask for layers and heads. */
enum vc_status vc_estimate_weights(struct vc_estimate *e)
{
    enum vc_status status = VC_OK;

    look_at_names(e);
    if (e->model != NULL) {
        status = add_file(e);
    } else if (e->graph != NULL) {
        add_params(e);
        add_others(e);
    }
    status = status == VC_OK ? vc_estimate_allocate(e) : status;
    for (size_t k = 0; e->layers != NULL && k < e->requests.n; k++) {
        if (e->requests.list[k].kind == VC_MEMORY_PARAMETERS) {
            vc_layers_add_tensor(e, e->requests.list[k].tensor, VC_LAYER_WEIGHTS, e->requests.list[k].block);
        }
    }
    if (e->model != NULL) {
        add_unlisted(e);
    }
    return status;
}
