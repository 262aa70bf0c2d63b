/* estimate.c - the memory of a model by component and by moment: states from the list of its tensors, activations from
 * the timeline of its graph. */
#include <string.h>

#include "core/base/checked.h"
#include "core/base/option_struct.h"
#include "memory/timeline.h"

static const struct vc_memory_options memory_defaults = {
    .weights = VC_DTYPE_NONE, .activations = VC_DTYPE_NONE, .cache = VC_DTYPE_NONE, .reuse = true};
static const struct vc_options_kind memory_kind = {"vc_memory_options", "vc_memory_defaults", &memory_defaults,
                                                   sizeof memory_defaults};

void vc_memory_defaults_sized(struct vc_memory_options *options, size_t struct_size)
{
    vc_options_fill(&memory_kind, options, struct_size);
}

const char *vc_memory_kind_name(enum vc_memory_kind component)
{
    static const char *const names[VC_MEMORY_COMPONENTS] = {"parameters",  "gradients", "optimizer", "master",
                                                            "activations", "inputs",    "kv_cache",  "transient"};

    return (unsigned)component < VC_MEMORY_COMPONENTS ? names[component] : "";
}

const char *vc_moment_name(enum vc_moment moment)
{
    static const char *const names[VC_MOMENTS] = {"load", "forward", "peak", "step"};

    return (unsigned)moment < VC_MOMENTS ? names[moment] : "";
}

const char *vc_known_name(enum vc_known known)
{
    static const char *const names[] = {"exact", "modelled", "assumed", "unknown"};

    return (unsigned)known < 4 ? names[known] : "";
}

struct estimate {
    struct vc_ctx *ctx;
    const struct vc_graph *graph; /* NULL: only weights are known */
    const struct vc_model *model;
    struct vc_memory_options options;
    uint64_t align; /* of every block of memory */
    struct vc_storages storages;
    struct vc_timeline timeline;
    struct vc_memory_report *out;
    uint64_t largest; /* tensor as floats, of those that are decoded one at a time */
    bool overflow;
};

static uint64_t sum(struct estimate *e, uint64_t a, uint64_t b)
{
    uint64_t c;

    e->overflow = !vc_add_u64(a, b, &c) || e->overflow;
    return c;
}

static uint64_t product(struct estimate *e, uint64_t a, uint64_t b)
{
    uint64_t c;

    e->overflow = !vc_mul_u64(a, b, &c) || e->overflow;
    return c;
}

/* A block of n elements, as the allocator gives it. */
static uint64_t block(struct estimate *e, uint64_t n, unsigned bytes)
{
    uint64_t rounded = 0;

    e->overflow = !vc_round_up_u64(product(e, n, bytes), e->align, &rounded) || e->overflow;
    return rounded;
}

static void add(struct estimate *e, enum vc_memory_kind component, uint64_t bytes)
{
    e->out->components[component].bytes = sum(e, e->out->components[component].bytes, bytes);
}

static unsigned width_of(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_NONE ? 4 : (unsigned)vc_dtype_size(dtype);
}

/* ---- weights ---- */

/* Elements of a parameter: of the slice, where it is one. */
static uint64_t elems_of(struct estimate *e, const struct vc_graph_param *param)
{
    uint64_t n = 1;

    for (unsigned k = 0; k < param->n_dims; k++) {
        n = product(e, n, param->sliced && k == param->axis ? param->count : param->shape[k]);
    }
    return n;
}

/* Floats as they are loaded. As int8: codes with an f32 for each row; what has one dimension as f16. */
static uint64_t loaded_bytes(struct estimate *e, uint64_t n, unsigned n_dims, const uint64_t *shape)
{
    if (e->options.weights != VC_DTYPE_I8) {
        return block(e, n, width_of(e->options.weights));
    }
    return n_dims < 2 ? block(e, n, 2) : sum(e, block(e, n, 1), block(e, shape[0], 4));
}

static bool is_plain_float(const struct vc_tensor *tensor)
{
    return tensor->quant == NULL && (tensor->dtype == VC_DTYPE_F32 || tensor->dtype == VC_DTYPE_F16 ||
                                     tensor->dtype == VC_DTYPE_BF16 || tensor->dtype == VC_DTYPE_F64);
}

static bool is_coded(const struct vc_tensor *tensor)
{
    return tensor->quant != NULL || vc_dtype_is_quantized(tensor->dtype);
}

/* What codes become: floats of the type that they were made from, of f16 where the file does not tell. */
static uint64_t decoded_bytes(struct estimate *e, const struct vc_tensor *tensor)
{
    enum vc_dtype dtype = e->options.weights != VC_DTYPE_NONE && e->options.weights != VC_DTYPE_I8 ? e->options.weights
                          : tensor->quant != NULL ? tensor->quant->source_dtype
                                                  : VC_DTYPE_F16;

    return block(e, tensor->n_elems, width_of(dtype));
}

static void add_tensor(struct estimate *e, const struct vc_tensor *tensor)
{
    bool part = tensor->companion_of != VC_NO_TENSOR;

    if (is_coded(tensor) && e->options.runtime == VC_RUNTIME_LAYERWISE) {
        e->largest = vc_max_u64(e->largest, decoded_bytes(e, tensor));
    }
    if (is_coded(tensor) && e->options.runtime == VC_RUNTIME_DEQUANTIZE) {
        add(e, VC_MEMORY_PARAMETERS, decoded_bytes(e, tensor));
    } else if (part && e->options.runtime == VC_RUNTIME_DEQUANTIZE) {
        return; /* of no use any more */
    } else if (e->options.weights != VC_DTYPE_NONE && is_plain_float(tensor) && !part) {
        add(e, VC_MEMORY_PARAMETERS, loaded_bytes(e, tensor->n_elems, tensor->n_dims, tensor->shape));
    } else {
        add(e, VC_MEMORY_PARAMETERS, block(e, tensor->size_bytes, 1));
    }
}

/* All tensors of the file that are weights, whether the graph uses them or not: a loader reads them all. */
static void add_file(struct estimate *e)
{
    for (size_t i = 0; i < vc_model_tensor_count(e->model); i++) {
        const struct vc_tensor *tensor = vc_model_tensor(e->model, i);

        if (tensor->role != VC_ROLE_WEIGHT || tensor->alias_of != VC_NO_TENSOR) {
            continue;
        }
        if (tensor->companion_of == VC_NO_TENSOR && e->graph == NULL) {
            e->out->n_params = sum(e, e->out->n_params, tensor->n_elems);
        }
        add_tensor(e, tensor);
    }
    if (e->options.runtime == VC_RUNTIME_LAYERWISE) {
        add(e, VC_MEMORY_TRANSIENT, e->largest);
    }
}

static void add_params(struct estimate *e)
{
    for (uint32_t k = 0; k < vc_graph_param_count(e->graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(e->graph, k);

        if (param->tied_to == VC_NO_PARAM) {
            add(e, VC_MEMORY_PARAMETERS, loaded_bytes(e, elems_of(e, param), param->n_dims, param->shape));
        }
    }
}

/* ---- training ---- */

static uint64_t adafactor_bytes(struct estimate *e, const struct vc_graph_param *param, uint64_t n)
{
    uint64_t rows;
    uint64_t columns;

    if (param->n_dims < 2) {
        return block(e, n, 4);
    }
    columns = param->shape[param->n_dims - 1];
    rows = columns == 0 ? 0 : n / columns;
    return sum(e, block(e, rows, 4),
               block(e,
                     param->shape[param->n_dims - 2] == 0
                         ? 0
                         : product(e, n / columns / param->shape[param->n_dims - 2], columns),
                     4));
}

/* 8-bit moments have an f32 for each 256 of them; small tensors keep f32 moments (bitsandbytes). */
static uint64_t adam8bit_bytes(struct estimate *e, uint64_t n)
{
    return n < 4096 ? 2 * block(e, n, 4) : sum(e, 2 * block(e, n, 1), 2 * block(e, vc_ceil_div_u64(n, 256), 4));
}

static uint64_t optimizer_bytes(struct estimate *e, const struct vc_graph_param *param, uint64_t n)
{
    unsigned width = e->options.amp == VC_AMP_PURE ? 4 : width_of(e->options.weights);

    switch (e->options.optimizer) {
    case VC_OPTIMIZER_SGD:
        return 0;
    case VC_OPTIMIZER_MOMENTUM:
        return block(e, n, width);
    case VC_OPTIMIZER_ADAFACTOR:
        return adafactor_bytes(e, param, n);
    case VC_OPTIMIZER_ADAM8BIT:
        return adam8bit_bytes(e, n);
    default:
        return 2 * block(e, n, width);
    }
}

/* Whether a product reads it: autocast keeps a copy of it in half precision. */
static bool has_half_copy(const struct estimate *e, uint32_t value)
{
    for (uint32_t n = 0; n < e->storages.n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, n);

        for (unsigned k = 0; e->storages.ops[n]->cast == VC_CAST_HALF && k < node->n_inputs; k++) {
            if (node->inputs[k] == value) {
                return true;
            }
        }
    }
    return false;
}

static void add_states(struct estimate *e)
{
    unsigned width = e->options.amp == VC_AMP_PURE ? 2 : width_of(e->options.weights);

    for (uint32_t k = 0; k < vc_graph_param_count(e->graph); k++) {
        const struct vc_graph_param *param = vc_graph_param(e->graph, k);
        uint64_t n = elems_of(e, param);

        if (param->tied_to != VC_NO_PARAM) {
            continue;
        }
        e->out->n_params = sum(e, e->out->n_params, n);
        if (e->options.mode != VC_MEMORY_TRAIN || !e->storages.trained[param->value]) {
            continue;
        }
        e->out->n_trained = sum(e, e->out->n_trained, n);
        add(e, VC_MEMORY_GRADIENTS, block(e, n, width));
        add(e, VC_MEMORY_OPTIMIZER, optimizer_bytes(e, param, n));
        if (e->options.amp == VC_AMP_PURE) {
            add(e, VC_MEMORY_MASTER, block(e, n, 4));
        } else if (e->options.amp == VC_AMP_AUTOCAST && has_half_copy(e, param->value)) {
            add(e, VC_MEMORY_MASTER, block(e, n, 2));
        }
    }
}

/* ---- what the graph computes with ---- */

static void add_inputs(struct estimate *e)
{
    for (uint32_t k = 0; k < vc_graph_input_count(e->graph); k++) {
        uint32_t v = vc_graph_input(e->graph, k);

        add(e, VC_MEMORY_INPUTS, block(e, e->storages.bytes[v], 1));
    }
}

/* Keys and values of one position of all sequences. */
static uint64_t cache_width(struct estimate *e, uint32_t v)
{
    const struct vc_graph_value *value = vc_graph_value(e->graph, v);
    uint64_t n = 1;

    for (unsigned k = 0; k < value->n_dims; k++) {
        if (k + 2 != value->n_dims) { /* the axis before the last is that of positions */
            int64_t size = vc_graph_dim_value(e->graph, value->shape[k]);

            n = product(e, n, size < 0 ? 0 : (uint64_t)size);
        }
    }
    return n;
}

static void add_cache(struct estimate *e)
{
    unsigned width = e->options.cache != VC_DTYPE_NONE ? width_of(e->options.cache) : e->storages.float_bytes;

    for (uint32_t n = 0; n < e->storages.n_nodes; n++) {
        const struct vc_graph_node *node = vc_graph_node(e->graph, n);

        if (strcmp(node->op, "Attention") == 0) {
            uint64_t elems = sum(e, cache_width(e, node->inputs[1]), cache_width(e, node->inputs[2]));

            add(e, VC_MEMORY_KV_CACHE, block(e, product(e, elems, e->options.context_tokens), width));
        }
    }
}

static const char *name_of_step(const struct estimate *e, uint64_t step)
{
    uint32_t n = step < e->timeline.n_steps ? e->timeline.node_of[step] : VC_NO_NODE;
    const struct vc_graph_node *node = n != VC_NO_NODE ? vc_graph_node(e->graph, n) : NULL;

    return node == NULL ? "" : *node->name != '\0' ? node->name : *node->block != '\0' ? node->block : node->op;
}

static void set_moment(struct estimate *e, enum vc_moment moment, uint64_t states, uint64_t more, enum vc_known known)
{
    e->out->moments[moment] = (struct vc_memory_part){sum(e, states, more), known};
}

static enum vc_status add_activations(struct estimate *e)
{
    struct vc_memory_part *c = e->out->components;
    bool trains = e->options.mode == VC_MEMORY_TRAIN;
    enum vc_known known = VC_KNOWN_MODELLED;
    struct vc_buffer_plan packing = {0};
    uint64_t states;
    uint64_t kept;
    enum vc_status status;

    VC_TRY(vc_timeline_make(e->ctx, &e->storages, &e->timeline));
    VC_TRY(vc_buffers_pack(e->ctx, e->timeline.buffers, e->timeline.n, e->align, &packing));
    e->out->arena_bytes = packing.arena_bytes;
    e->out->arena_least = packing.live_bytes;
    e->out->peak_at = name_of_step(e, packing.peak_step);
    if (trains) {
        add_inputs(e);
        kept = vc_timeline_live(&e->timeline, e->timeline.loss_step, VC_MEMORY_ACTIVATIONS);
    } else {
        add(e, VC_MEMORY_INPUTS, vc_timeline_live(&e->timeline, packing.peak_step, VC_MEMORY_INPUTS));
        kept = packing.live_bytes - vc_min_u64(packing.live_bytes, c[VC_MEMORY_INPUTS].bytes);
    }
    add(e, VC_MEMORY_ACTIVATIONS, kept);
    add(e, VC_MEMORY_TRANSIENT, trains ? packing.live_bytes - vc_min_u64(packing.live_bytes, kept) : 0);
    states = sum(e, sum(e, c[VC_MEMORY_PARAMETERS].bytes, c[VC_MEMORY_GRADIENTS].bytes),
                 sum(e, c[VC_MEMORY_OPTIMIZER].bytes, c[VC_MEMORY_KV_CACHE].bytes));
    states = sum(e, states, e->options.amp == VC_AMP_PURE ? c[VC_MEMORY_MASTER].bytes : 0);
    states = sum(e, states, c[VC_MEMORY_INPUTS].bytes);
    set_moment(e, VC_MOMENT_STEP, states, 0, VC_KNOWN_EXACT);
    states = sum(e, states, e->options.amp == VC_AMP_AUTOCAST ? c[VC_MEMORY_MASTER].bytes : 0);
    set_moment(e, VC_MOMENT_FORWARD, states, kept, known);
    set_moment(e, VC_MOMENT_PEAK, states, sum(e, kept, c[VC_MEMORY_TRANSIENT].bytes), known);
    c[VC_MEMORY_ACTIVATIONS].known = c[VC_MEMORY_TRANSIENT].known = known;
out:
    return status;
}

static void set_unknown(struct estimate *e, const char *why, const char *name)
{
    struct vc_memory_part *c = e->out->components;

    e->out->unknown = why;
    e->out->unknown_name = name;
    c[VC_MEMORY_ACTIVATIONS].known = c[VC_MEMORY_INPUTS].known = c[VC_MEMORY_TRANSIENT].known = VC_KNOWN_NOT;
    for (enum vc_moment m = VC_MOMENT_FORWARD; m < VC_MOMENTS; m++) {
        e->out->moments[m].known = VC_KNOWN_NOT;
    }
}

static enum vc_status run(struct estimate *e)
{
    enum vc_status status = VC_OK;

    if (e->graph != NULL) {
        VC_TRY(vc_storages_make(e->ctx, e->graph, &e->options, &e->storages));
        add_states(e);
    }
    if (e->model != NULL) {
        add_file(e);
    } else if (e->graph != NULL) {
        add_params(e);
    }
    set_moment(e, VC_MOMENT_LOAD, e->out->components[VC_MEMORY_PARAMETERS].bytes, 0, VC_KNOWN_EXACT);
    if (e->graph == NULL) {
        set_unknown(e, "the file does not say what its model computes", NULL);
    } else if (e->storages.unknown != NULL) {
        set_unknown(e, "the size of a value depends on a size of the inputs that is not given", e->storages.unknown);
    } else if (e->storages.unknown_op != NULL) {
        set_unknown(e, "what the backward step of an operator needs is not known", e->storages.unknown_op);
    } else {
        if (e->options.context_tokens != 0) {
            add_cache(e);
        }
        VC_TRY(add_activations(e));
    }
    if (e->overflow || e->storages.overflow) {
        status = vc_fail(e->ctx, VC_E_ARGUMENT, "sizes overflow 64 bits");
    }
out:
    return status;
}

enum vc_status vc_memory_estimate(struct vc_ctx *ctx, const struct vc_graph *graph, const struct vc_model *model,
                                  const struct vc_memory_options *options, struct vc_memory_report *out)
{
    static const uint64_t aligns[] = {1, 256, 512};
    struct estimate e = {.ctx = ctx, .graph = graph, .model = model, .out = out};
    enum vc_status status;

    vc_clear_error(ctx);
    *out = (struct vc_memory_report){.peak_at = ""};
    VC_TRY(vc_options_read(ctx, &memory_kind, options, &e.options));
    if ((unsigned)e.options.allocator > VC_ALLOCATOR_PYTORCH) {
        return vc_fail(ctx, VC_E_ARGUMENT, "allocator %d is none", (int)e.options.allocator);
    }
    e.align = aligns[e.options.allocator];
    if (e.options.mode == VC_MEMORY_TRAIN && (graph == NULL || e.options.weights == VC_DTYPE_I8)) {
        return vc_fail(ctx, VC_E_ARGUMENT,
                       graph == NULL ? "training needs a graph: what the model computes"
                                     : "training needs float weights");
    }
    status = run(&e);
out:
    if (e.storages.ctx != NULL) {
        vc_storages_release(&e.storages);
    }
    vc_timeline_release(ctx, &e.timeline);
    return status;
}
