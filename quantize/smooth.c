/* smooth.c - see smooth.h. Which tensors belong together comes from the graph of the model.
 *
 * For each node that norms or multiplies values: what reads its output, then what makes it. Only where all of them can
 * be changed is a fold kept.
 *
 *     up_proj -> Mul -> down_proj     rows of up_proj / s, columns of down_proj * s
 *     gate_proj -> Silu -^            stays: s does not pass through Silu */
#include "quantize/smooth.h"

#include <vcompress/graph.h>

#include "kernels/functions.h"
#include "passes/measure_tile.h"
#include "quantize/activations/activations.h"

#define MOST_STEPS 9 /* s is 2^-9 to 2^9 */
/* Elements of a weight that are read at a time. */
#define AT_ONCE ((uint64_t)1 << 16)

/* Of one tensor: k indices of the axis, from `first` on, are scaled. */
struct vc_smooth_fold {
    size_t tensor, k;
    float *scale; /* s; of all folds of a value the same */
    unsigned axis;
    uint64_t first;
    bool reads;                  /* a weight that is multiplied; else the tensor is divided */
    double plus;                 /* 1: the gain of a norm is 1 + w */
    struct vc_smooth_fold *next; /* of the same tensor */
};

/* While the graph is looked at. */
struct lists {
    const struct vc_quantize_options *options;
    const struct vc_plan *plan;
    struct vc_graph *graph;
    uint32_t *uses; /* by tensor: how often parameters that are made from it are read ... */
    uint32_t *seen; /* ... as weights for one value */
    struct vc_smooth_fold **of_tensor;
    struct vc_smooth_fold *folds[3]; /* of one value: a list by `next` of what reads it; what makes it */
    size_t n_values;
    const char *refused; /* the first norm that stays */
};

/* ---- what belongs together ---- */

/* The node with that operator that makes the value for one reader alone; NULL if there is none. */
static const struct vc_graph_node *maker_of(const struct vc_graph *graph, uint32_t value, const char *op)
{
    const struct vc_graph_value *v = vc_graph_value(graph, value);
    const struct vc_graph_node *node =
        v->kind == VC_VALUE_RESULT && v->n_uses == 1 && v->node != VC_NO_NODE ? vc_graph_node(graph, v->node) : NULL;

    return node != NULL && strcmp(node->op, op) == 0 && node->n_inputs == 2 ? node : NULL;
}

/* The parameter, if it is made from a tensor of floats with so many axes that the pass may change; or NULL. */
static const struct vc_graph_param *plain(const struct lists *l, uint32_t value, unsigned n_dims)
{
    const struct vc_graph_value *v = value != VC_NO_VALUE ? vc_graph_value(l->graph, value) : NULL;
    const struct vc_graph_param *p =
        v != NULL && v->kind == VC_VALUE_PARAMETER ? vc_graph_param(l->graph, v->param) : NULL;
    const struct vc_item *item = p != NULL && p->index < l->plan->n_items ? vc_plan_item(l->plan, p->index) : NULL;

    return item != NULL && item->desc->quant == NULL && p->n_dims == n_dims &&
                   (item->desc->dtype == VC_DTYPE_F32 || item->desc->dtype == VC_DTYPE_F16 ||
                    item->desc->dtype == VC_DTYPE_BF16)
               ? p
               : NULL;
}

/* Puts the fold at the head of list 0 (readers), 1 or 2 (makers). */
static enum vc_status add(struct vc_ctx *ctx, struct lists *l, unsigned list, struct vc_smooth_fold fold)
{
    struct vc_smooth_fold *copy = vc_arena_alloc(ctx, l->plan->arena, sizeof *copy);

    if (copy != NULL) {
        *copy = fold;
        copy->next = l->folds[list];
        l->folds[list] = copy;
    }
    return copy != NULL ? VC_OK : VC_E_NOMEM;
}

/* *good: all that reads the value are products with weights, which read nothing else. A tensor may be read several
 * times by one value, as a second name or in parts; each of its uses has to be of this value, or another layer would
 * get weights that are multiplied for nothing. `seen` is 0 again afterwards. */
static enum vc_status list_readers(struct vc_ctx *ctx, struct lists *l, uint32_t value, size_t k, bool *good)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < vc_graph_node_count(l->graph) && n < vc_graph_value(l->graph, value)->n_uses; i++) {
        const struct vc_graph_node *node = vc_graph_node(l->graph, i);
        bool product = node->n_inputs == 2 && node->inputs[0] == value && strcmp(node->op, "MatMul") == 0;
        const struct vc_graph_param *p = product ? plain(l, node->inputs[1], 2) : NULL;
        unsigned axis = p != NULL && p->transposed ? 1 : 0;

        if (p == NULL || (p->sliced && p->axis == axis) || p->shape[axis] != k) {
            continue;
        }
        n++;
        if (l->seen[p->index]++ == 0) {
            VC_CALL(add(ctx, l, 0, (struct vc_smooth_fold){.tensor = p->index, .axis = axis, .reads = true}));
        }
    }
    *good = n != 0 && n == vc_graph_value(l->graph, value)->n_uses;
    for (const struct vc_smooth_fold *f = l->folds[0]; f != NULL; f = f->next) {
        *good = *good && l->seen[f->tensor] == l->uses[f->tensor];
        l->seen[f->tensor] = 0;
    }
    return VC_OK;
}

/* The gain and the bias of a norm. That of gemma is 1 + w, which 16 bits do not keep when it is divided. Both vectors
 * are divided: (x * gain + bias) / s. The 1 of gemma's gain is an Add with a constant in the graph. */
static enum vc_status list_norm(struct vc_ctx *ctx, struct lists *l, const struct vc_graph_node *node, size_t k,
                                bool *good)
{
    for (unsigned i = 1; *good && i < node->n_inputs && node->inputs[i] != VC_NO_VALUE; i++) {
        const struct vc_graph_node *sum = maker_of(l->graph, node->inputs[i], "Add");
        const struct vc_graph_value *one = sum != NULL ? vc_graph_value(l->graph, sum->inputs[1]) : NULL;
        bool plus = one != NULL && one->kind == VC_VALUE_CONSTANT && one->dtype == VC_DTYPE_F32 && one->n_dims == 0 &&
                    *(const double *)one->data == 1.0;
        const struct vc_graph_param *p = plain(l, plus ? sum->inputs[0] : node->inputs[i], 1);

        *good = p != NULL && !p->sliced && l->uses[p->index] == 1 && p->shape[0] == k &&
                (!plus || l->plan->items[p->index].desc->dtype == VC_DTYPE_F32);
        if (*good) {
            VC_CALL(add(ctx, l, i, (struct vc_smooth_fold){.tensor = p->index, .plus = plus ? 1.0 : 0.0}));
        }
    }
    return VC_OK;
}

/* The rows of a weight whose product is one side of the product `node`. In a gated layer either side may be it; the
 * first one that fits is taken. A part of a joined weight (gate and up in one tensor) has its rows from `first` on. */
static enum vc_status list_rows(struct vc_ctx *ctx, struct lists *l, const struct vc_graph_node *node, size_t k,
                                bool *good)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct vc_graph_node *from = maker_of(l->graph, node->inputs[i], "MatMul");
        const struct vc_graph_param *p = from != NULL ? plain(l, from->inputs[1], 2) : NULL;
        unsigned axis = p != NULL && p->transposed ? 0 : 1;

        if (p != NULL && vc_graph_value(l->graph, p->value)->n_uses == 1 &&
            (p->sliced ? p->axis == axis && p->count == k : l->uses[p->index] == 1 && p->shape[axis] == k)) {
            return add(ctx, l, 1,
                       (struct vc_smooth_fold){.tensor = p->index, .axis = axis, .first = p->sliced ? p->first : 0});
        }
    }
    *good = false;
    return VC_OK;
}

/* ---- s ---- */

/* The index on that axis of the element `flat`, for a vector or a matrix. */
static size_t index_of(const struct vc_desc *desc, unsigned axis, uint64_t flat)
{
    return (size_t)(axis + 1 == desc->n_dims ? flat % desc->shape[axis] : flat / desc->shape[desc->n_dims - 1]);
}

/* Raises most[column] to the magnitudes in a weight; NaN is infinite. The values are those of the file, so earlier
 * passes are refused (vc_smooth_begin). */
static enum vc_status find_largest(struct vc_ctx *ctx, const struct vc_plan *plan, const struct vc_smooth_fold *f,
                                   float *most)
{
    const struct vc_desc *desc = plan->items[f->tensor].desc;
    uint64_t size = vc_dtype_size(desc->dtype);
    VC_SCOPED void *values = vc_alloc(ctx, VC_TAG_TILES, (size_t)(AT_ONCE * size));

    VC_CALL_ALLOC(values);
    for (uint64_t at = 0; at < desc->n_elems; at += AT_ONCE) {
        size_t n = (size_t)vc_min_u64(AT_ONCE, desc->n_elems - at);

        VC_CALL(vc_source_read_any(ctx, plan->model, f->tensor, VC_FORM_VALUES, at * size, values, n * (size_t)size));
        for (size_t i = 0; i < n; i++) {
            float x = fabsf(vc_load_float(desc->dtype, values, i));
            float *to = &most[index_of(desc, f->axis, at + i)];

            *to = isnan(x) ? INFINITY : fmaxf(*to, x);
        }
    }
    return VC_OK;
}

/* s_j = 2^rint(log2(inputs_j^alpha / weights_j^(1 - alpha))). It is 1 for columns that are always 0, and for all
 * columns if a weight is NaN or infinite, since its tensor may stay as it is. f16 keeps room. alpha 0.5 shares the
 * difficulty evenly; with 1 inputs of all columns become about equal. Scales stay within 2^-9 and 2^9, and a weight
 * that f16 could not hold limits its column. */
static enum vc_status find_scales(struct vc_ctx *ctx, const struct lists *l, size_t k, float *scale)
{
    double alpha = l->options->smooth;
    VC_SCOPED float *inputs = vc_calloc_array(ctx, VC_TAG_SCALES, 2 * k, sizeof *inputs);
    bool finite = true;

    VC_CALL_ALLOC(inputs);
    float *weights = inputs + k;
    for (const struct vc_smooth_fold *f = l->folds[0]; f != NULL; f = f->next) {
        VC_CALL(vc_act_largest(ctx, l->options->calibration, l->plan->model->tensors[f->tensor].name, k, inputs));
        VC_CALL(find_largest(ctx, l->plan, f, weights));
    }
    for (size_t j = 0; j < k; j++) {
        finite = finite && isfinite(weights[j]);
    }
    for (size_t j = 0; j < k; j++) {
        double x = (double)inputs[j];
        double w = (double)weights[j];
        double e = finite && x > 0.0 && w > 0.0 ? rint(alpha * vc_log2_f64(x) - (1.0 - alpha) * vc_log2_f64(w)) : 0.0;

        e = fmin(fmax(e, (double)-MOST_STEPS), (double)MOST_STEPS);
        while (e > 0.0 && ldexp(w, (int)e) > 32768.0) {
            e -= 1.0;
        }
        scale[j] = (float)ldexp(1.0, (int)e);
    }
    return VC_OK;
}

/* ---- planning ---- */

/* Gives the folds of one value their s, and each to its tensor. A tensor may be in folds of two values: the rows of
 * up_proj for down_proj, its columns for the norm. */
static enum vc_status keep(struct vc_ctx *ctx, struct lists *l, size_t k)
{
    float *scale = vc_arena_alloc(ctx, l->plan->arena, k * sizeof *scale);

    VC_CALL_ALLOC(scale);
    VC_CALL(find_scales(ctx, l, k, scale));
    for (size_t i = 0; i < 3; i++) {
        for (struct vc_smooth_fold *f = l->folds[i], *next; f != NULL; f = next) {
            next = f->next;
            f->scale = scale;
            f->k = k;
            f->next = l->of_tensor[f->tensor];
            l->of_tensor[f->tensor] = f;
        }
    }
    l->n_values++;
    return VC_OK;
}

/* Counts the uses of every tensor in the graph first, so that list_readers can tell whether it has found all of
 * them. */
static enum vc_status list_all(struct vc_ctx *ctx, struct lists *l)
{
    for (uint32_t i = 0; i < vc_graph_param_count(l->graph); i++) {
        const struct vc_graph_param *p = vc_graph_param(l->graph, i);

        if (p->index < l->plan->n_items) {
            l->uses[p->index] += vc_graph_value(l->graph, p->value)->n_uses;
        }
    }
    for (size_t i = 0; i < l->plan->n_items; i++) { /* second names */
        size_t first = l->plan->model->tensors[i].alias_of;

        if (first < l->plan->n_items) {
            l->uses[first] += l->uses[i];
        }
    }
    for (uint32_t i = 0; i < vc_graph_node_count(l->graph); i++) {
        const struct vc_graph_node *node = vc_graph_node(l->graph, i);
        bool norm = strcmp(node->op, "RMSNormalization") == 0 || strcmp(node->op, "LayerNormalization") == 0;
        const struct vc_graph_value *v =
            node->outputs[0] != VC_NO_VALUE ? vc_graph_value(l->graph, node->outputs[0]) : NULL;
        int64_t k = v != NULL && v->n_dims != 0 ? v->shape[v->n_dims - 1].size : 0;
        bool good = false;

        if ((!norm && strcmp(node->op, "Mul") != 0) || node->n_inputs < 2 || k <= 0) {
            continue;
        }
        /* Folds of a value that is refused stay in the arena, unused. */
        memset(l->folds, 0, sizeof l->folds);
        VC_CALL(list_readers(ctx, l, node->outputs[0], (size_t)k, &good));
        if (good) {
            if (norm) {
                VC_CALL(list_norm(ctx, l, node, (size_t)k, &good));
            } else {
                VC_CALL(list_rows(ctx, l, node, (size_t)k, &good));
            }
        }
        if (good) {
            VC_CALL(keep(ctx, l, (size_t)k));
        }
        l->refused = !good && norm && l->refused == NULL ? v->name : l->refused;
    }
    return VC_OK;
}

/* Refused where the layout has no place for one scale of the inputs: s is chosen for that one. */
enum vc_status vc_smooth_begin(struct vc_ctx *ctx, const struct vc_plan *plan,
                               const struct vc_quantize_options *options, struct vc_smooth_fold ***out,
                               const char **note)
{
    const char *scheme = plan->dialect != NULL ? plan->dialect->input_scales : NULL;
    size_t n = plan->n_items + 1;
    struct lists l = {.options = options, .plan = plan};
    enum vc_status status = VC_OK;

    *out = NULL;
    *note = NULL;
    if (options->smooth == 0.0) {
        return VC_OK;
    }
    VC_REFUSE_IF(scheme == NULL || strcmp(scheme, "int8") != 0, ctx, VC_E_UNSUPPORTED,
                 "%s is for folders with the layout w8a8", vc_option(ctx, "smooth"));
    for (size_t i = 0; i < plan->n_items; i++) {
        VC_REFUSE_IF(plan->items[i].chain->n_steps != 0, ctx, VC_E_UNSUPPORTED,
                     "%s: an earlier pass changes it, and %s looks at the source; write a file in between",
                     plan->model->tensors[i].name, vc_option(ctx, "smooth"));
    }
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, l.uses, 2 * n));
    l.seen = l.uses + n;
    VC_TRY_ALLOC(l.of_tensor = vc_arena_alloc(ctx, plan->arena, n * sizeof(struct vc_smooth_fold *)));
    memset((void *)l.of_tensor, 0, n * sizeof(struct vc_smooth_fold *));
    VC_TRY(vc_graph_build(ctx, plan->model, NULL, &l.graph));
    VC_TRY(list_all(ctx, &l));
    if (l.n_values == 0) {
        status =
            vc_fail(ctx, VC_E_UNSUPPORTED,
                    "nothing can be smoothed (%s): other nodes than products with weights read what norms make, or "
                    "norms have no gain%s%s",
                    vc_option(ctx, "smooth"), l.refused != NULL ? ": see " : "", l.refused != NULL ? l.refused : "");
        goto out;
    }
    VC_TRY_ALLOC(*note = vc_arena_printf(ctx, plan->arena, "smoothed: %zu values between layers", l.n_values));
    *out = l.of_tensor;
out:
    vc_graph_close(l.graph);
    vc_free(ctx, l.uses);
    return status;
}

/* ---- the step ---- */

/* In f64, and rounded once. With s a power of two the result is exact, but for gains of 1 + w and numbers too small for
 * the type. */
static enum vc_status smooth_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                   struct vc_tile_out *out)
{
    for (size_t i = 0; i < tile->n_elems; i++) {
        float before = vc_load_float(step->in.dtype, in->data, i);
        double x = (double)before;

        for (const struct vc_smooth_fold *f = step->state; f != NULL; f = f->next) {
            uint64_t j = index_of(&step->in, f->axis, tile->first + i) - f->first;
            double s = j < f->k ? (double)f->scale[j] : 1.0;

            x = f->reads ? x * s : s != 1.0 ? (x + f->plus) / s - f->plus : x;
        }
        (void)vc_store_float(step->in.dtype, (float)x, before, out->data, i);
    }
    return VC_OK;
}

static const struct vc_step_ops smooth_ops = {.apply = smooth_apply};

enum vc_status vc_smooth_add(struct vc_ctx *ctx, struct vc_smooth_fold *fold, struct vc_item *item)
{
    struct vc_step *step = fold != NULL ? vc_item_add_step(ctx, item, &smooth_ops) : NULL;

    if (step != NULL) {
        step->state = fold;
        step->action = VC_ACTION_REFITTED;
        step->scheme = "smoothed";
        vc_item_replan(item);
    }
    return fold != NULL && step == NULL ? VC_E_NOMEM : VC_OK;
}

const float *vc_smooth_inputs(const struct vc_smooth_fold *fold)
{
    while (fold != NULL && !fold->reads) {
        fold = fold->next;
    }
    return fold != NULL ? fold->scale : NULL;
}
