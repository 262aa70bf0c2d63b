/* states.c - what training keeps for each weight: gradients, states of the optimizer, masters, adapters of low rank;
 * and how copies of a model divide these between them. */

#include "memory/by_layer.h"

/* ---- the optimizer ---- */

/* A weight, or the part of it that this device has. */
struct weight {
    uint64_t n;
    uint64_t rows, columns; /* columns 0: it is no matrix */
};

/* Which parameter of the graph has the state; VC_NO_PARAM: an adapter. */
static void add_state(struct vc_estimate *e, uint32_t param, uint64_t n, unsigned width)
{
    vc_estimate_request(e, VC_MEMORY_OPTIMIZER, vc_estimate_block(e, n, width), param, param == VC_NO_PARAM, "");
}

/* The tensors that the optimizer keeps for it, in the order in which it makes them. */
static void add_optimizer(struct vc_estimate *e, uint32_t param, const struct weight *w, unsigned width)
{
    bool small = w->n < 4096; /* of 8-bit Adam: f32 moments (bitsandbytes) */

    switch (e->options.optimizer) {
    case VC_OPTIMIZER_SGD:
        break;
    case VC_OPTIMIZER_MOMENTUM:
        add_state(e, param, w->n, width);
        break;
    case VC_OPTIMIZER_ADAFACTOR:
        add_state(e, param, w->columns == 0 ? w->n : w->n / w->columns, width);
        if (w->columns != 0) {
            add_state(e, param, w->n / w->rows, width);
        }
        break;
    case VC_OPTIMIZER_ADAM8BIT: /* an f32 for each 256 moments */
        add_state(e, param, w->n, small ? 4 : 1);
        add_state(e, param, w->n, small ? 4 : 1);
        for (unsigned k = 0; !small && k < 2; k++) {
            add_state(e, param, vc_ceil_div_u64(w->n, 256), 4);
        }
        break;
    default:
        add_state(e, param, w->n, width);
        add_state(e, param, w->n, width);
    }
}

/* Rows and columns are the last two axes. */
static struct weight weight_of(const struct vc_graph_param *param, uint64_t n)
{
    struct weight w = {.n = n};

    if (param->n_dims >= 2 && param->shape[param->n_dims - 1] != 0 && param->shape[param->n_dims - 2] != 0) {
        w.columns = param->shape[param->n_dims - 1];
        w.rows = param->shape[param->n_dims - 2];
    }
    return w;
}

/* The value that a transposition reads, or the value itself. */
static uint32_t before_transpose(const struct vc_graph *graph, uint32_t v)
{
    const struct vc_graph_value *value = vc_graph_value(graph, v);

    return value->node != VC_NO_NODE && vc_node_is(vc_graph_node(graph, value->node), VC_OP_transpose)
               ? vc_graph_node(graph, value->node)->inputs[0]
               : v;
}

/* Values that products read: autocast keeps copies of such weights in half precision, of a table of words, too, that is
 * tied to the output layer. Freed with vc_free; NULL: no memory. */
static bool *find_halves(const struct vc_estimate *e)
{
    bool *halves = vc_calloc_array(e->ctx, VC_TAG_MISC, (size_t)e->storages.n_values + 1, sizeof *halves);

    for (uint32_t n = 0; halves != NULL && n < e->storages.n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, n);

        for (unsigned k = 0; (e->storages.eager[n] & VC_EAGER_HALF) != 0 && k < node->n_inputs; k++) {
            if (node->inputs[k] != VC_NO_VALUE) {
                halves[before_transpose(e->graph, node->inputs[k])] = true;
            }
        }
    }
    for (uint32_t k = 0; halves != NULL && k < vc_graph_param_count(e->graph); k++) {
        if (vc_param_is_double(e, k) && halves[vc_graph_param(e->graph, k)->value]) {
            halves[vc_graph_param(e->graph, vc_graph_param(e->graph, k)->tied_to)->value] = true;
        }
    }
    return halves;
}

/* param: of the graph; VC_NO_PARAM: it is an adapter. */
static void add_states(struct vc_estimate *e, uint32_t param, const struct weight *w, unsigned width, bool pure)
{
    unsigned gradient = e->options.gradients != VC_DTYPE_NONE ? vc_float_bytes(e, e->options.gradients) : width;

    e->out->n_trained = vc_estimate_sum(e, e->out->n_trained, w->n);
    vc_estimate_request(e, VC_MEMORY_GRADIENTS, vc_estimate_block(e, w->n, gradient), param, param == VC_NO_PARAM, "");
    if (pure) {
        vc_estimate_request(e, VC_MEMORY_MASTER, vc_estimate_block(e, w->n, 4), param, false, "");
    }
    add_optimizer(e, param, w, pure ? 4 : width);
}

/* ---- adapters ---- */

/* Two matrices of f32 beside each product, as peft has them: in * r and r * out. */
static void add_adapters(struct vc_estimate *e)
{
    uint64_t r = e->options.lora_rank;

    for (uint32_t k = 0; k < e->storages.n_nodes; k++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, k);
        const struct vc_storages *s = &e->storages;
        struct weight sides[2];

        if (!s->adapted[k] || s->idle[k]) {
            continue;
        }
        const struct vc_graph_value *weight = vc_graph_value(e->graph, node->inputs[1]);
        const char *tensor = vc_layers_tensor(e, node->inputs[1]);
        for (unsigned side = 0; side < 2; side++) {
            uint64_t size = (uint64_t)vc_graph_dim_value(e->graph, weight->shape[side]);
            uint32_t shard = s->shard[side == 0 ? node->inputs[0] : node->outputs[0]];

            size = vc_ceil_div_u64(size, shard);
            sides[side] = (struct weight){vc_estimate_product(e, size, r), r, size};
            vc_estimate_request(e, VC_MEMORY_PARAMETERS, vc_estimate_block(e, sides[side].n, 4), VC_NO_PARAM, true,
                                tensor);
            e->out->n_params = vc_estimate_sum(e, e->out->n_params, sides[side].n);
            vc_layers_add_tensor(e, tensor, VC_LAYER_PARAMS, sides[side].n);
            add_states(e, VC_NO_PARAM, &sides[side], 4, false);
            if (e->options.amp == VC_AMP_AUTOCAST) {
                vc_estimate_add(e, VC_MEMORY_MASTER, vc_estimate_block(e, sides[side].n, 2));
            }
        }
    }
}

/* ---- all ---- */

/* The largest sum of the weights of one module: "encoder.layer.3.output.dense". Its parameters stand together. */
struct module {
    const char *name;
    size_t length;
    uint64_t bytes;
};

/* Tensors of a module follow each other; the largest module is what ZeRO 3 gathers at a time. */
static void add_to_module(struct vc_estimate *e, struct module *m, const char *tensor, uint64_t bytes)
{
    const char *dot = strrchr(tensor, '.');
    size_t length = dot == NULL ? strlen(tensor) : (size_t)(dot - tensor);

    if (length != m->length || strncmp(tensor, m->name, length) != 0) {
        *m = (struct module){tensor, length, 0};
    }
    m->bytes = vc_estimate_sum(e, m->bytes, bytes);
    e->layer_largest = vc_max_u64(e->layer_largest, m->bytes);
}

/* A weight with two names counts once. Autocast keeps a half of each weight that a product reads. */
enum vc_status vc_estimate_states(struct vc_estimate *e)
{
    bool pure = e->options.amp == VC_AMP_PURE;
    bool autocast = e->options.amp == VC_AMP_AUTOCAST && vc_estimate_trains(e);
    bool *halves = autocast ? find_halves(e) : NULL;
    struct module module = {"", 0, 0};

    if (autocast && halves == NULL) {
        return VC_E_NOMEM;
    }
    for (uint32_t k = 0; k < vc_graph_param_count(e->graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(e->graph, k);
        unsigned width;

        if (param->tied_to == VC_NO_PARAM && !e->storages.statistic[param->value]) {
            e->out->n_params = vc_estimate_sum(e, e->out->n_params, vc_param_elems(e, param, true));
            vc_layers_add_tensor(e, param->tensor, VC_LAYER_PARAMS, vc_param_elems(e, param, true));
        }
        if (!vc_estimate_trains(e) || vc_param_is_double(e, k) || !e->storages.used[param->value]) {
            continue;
        }
        struct weight w = weight_of(param, vc_param_elems(e, param, false));
        width = vc_param_width(e, param);
        add_to_module(e, &module, param->tensor, vc_estimate_product(e, w.n, width));
        if (e->storages.trained[param->value]) {
            add_states(e, k, &w, width, pure);
        }
        if (halves != NULL && width > 2 && halves[param->value]) {
            vc_estimate_add(e, VC_MEMORY_MASTER, vc_estimate_block(e, w.n, 2));
        }
    }
    if (vc_estimate_trains(e) && e->options.lora_rank != 0) {
        add_adapters(e);
    }
    vc_free(e->ctx, halves);
    return VC_OK;
}

/* ---- copies of the model ---- */

/* Copies of the model share the component between them, rounded up. */
static void divide(struct vc_estimate *e, enum vc_memory_kind component, bool divided)
{
    struct vc_memory_part *part = &e->out->components[component];

    if (divided) {
        part->bytes = vc_ceil_div_u64(part->bytes, e->options.dp);
    }
}

/* Offloaded: it takes nothing of the device. */
static void put_on_host(struct vc_estimate *e, enum vc_memory_kind component)
{
    struct vc_memory_part *part = &e->out->components[component];

    e->out->host_bytes = vc_estimate_sum(e, e->out->host_bytes, part->bytes);
    part->bytes = 0;
}

/* Gradients are collected in buffers of so many elements, two of them; weights that were changed as well. A copy that
 * divides nothing has buffers for all of its gradients (DistributedDataParallel). */
static void add_buckets(struct vc_estimate *e, uint64_t gradients)
{
    unsigned width = e->options.amp == VC_AMP_PURE ? 2 : vc_float_bytes(e, e->options.weights);
    uint64_t elems = vc_min_u64(e->options.bucket_elems, e->out->n_trained);

    if (e->options.zero == 0) {
        vc_estimate_add(e, VC_MEMORY_COMMUNICATION, e->options.bucket_elems == 0 ? 0 : gradients);
        return;
    }
    vc_estimate_add(e, VC_MEMORY_COMMUNICATION, vc_estimate_product(e, 4 * (uint64_t)width, elems));
}

/* ZeRO 1 divides the optimizer's states, 2 also gradients, 3 also weights, which are gathered module by module. */
void vc_estimate_divide(struct vc_estimate *e)
{
    const struct vc_memory_options *o = &e->options;
    bool pure = o->amp == VC_AMP_PURE; /* autocast's copies are whole, and of one step */

    if (vc_estimate_trains(e) && o->dp > 1) {
        add_buckets(e, e->out->components[VC_MEMORY_GRADIENTS].bytes);
        divide(e, VC_MEMORY_OPTIMIZER, o->zero >= 1);
        divide(e, VC_MEMORY_MASTER, o->zero >= 1 && pure);
        divide(e, VC_MEMORY_GRADIENTS, o->zero >= 2);
        divide(e, VC_MEMORY_PARAMETERS, o->zero >= 3);
        if (o->zero >= 3) { /* the module that is computed, and the next one */
            vc_estimate_add(e, VC_MEMORY_COMMUNICATION, vc_estimate_product(e, 2, e->layer_largest));
        }
    }
    if (vc_estimate_trains(e) && o->offload != VC_OFFLOAD_NONE) {
        put_on_host(e, VC_MEMORY_GRADIENTS);
        put_on_host(e, VC_MEMORY_OPTIMIZER);
        put_on_host(e, VC_MEMORY_MASTER);
        if (o->offload == VC_OFFLOAD_ALL) {
            put_on_host(e, VC_MEMORY_PARAMETERS);
        }
    }
}
