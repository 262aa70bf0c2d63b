/* fold_norms.c - see fold_norms.h.
 *
 * find_pair says which norms can go; compute makes the factors; join changes the nodes, add_step the values.
 *
 *     Conv(x, w [O, I, kh, kw])            factor of element i: by[i / (I kh kw)]
 *     ConvTranspose(x, w [I, O / g, ..])   by[group of the row * O / g + column]
 *     Gemm(x, w [I, O] or [O, I]) */
#include "quantize/activations/fold_norms.h"

#include <math.h>

#include "core/chain/tile_reader.h"
#include "passes/measure_tile.h"

/* Inputs 1 to 4 of a BatchNormalization, in its order. */
enum { GAIN, BETA, MEAN, VARIANCE, N_VECTORS };

/* The state of a step: of a bias, its new values; of weights, what their output channels are multiplied with. Element i
 * is of channel i / inner % width, and every `group` such rows of the next `width` ones: those of ConvTranspose. */
struct scaled {
    const double *by; /* the arena's */
    bool values;
    uint64_t inner, width, group;
};

/* Products are made in f64 and rounded once. */
static enum vc_status fold_apply(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                 const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch,
                                 struct vc_tile_out *out)
{
    const struct scaled *s = step->state;

    for (size_t i = 0; i < tile->n_elems; i++) {
        float before = vc_load_float(VC_DTYPE_F32, in->data, i);
        uint64_t at = tile->first + i;
        double by = s->by[at / (s->inner * s->width) / s->group * s->width + at / s->inner % s->width];

        (void)vc_store_float(VC_DTYPE_F32, (float)(s->values ? by : (double)before * by), before, out->data, i);
    }
    return VC_OK;
}

static const struct vc_step_ops fold_ops = {.apply = fold_apply};

/* A step that is no quantization: the report calls the tensor "folded". */
static enum vc_status add_step(struct vc_ctx *ctx, struct vc_item *item, struct vc_arena *arena, struct scaled scaled)
{
    struct scaled *state = vc_arena_alloc(ctx, arena, sizeof *state);
    struct vc_step *step = state != NULL ? vc_item_add_step(ctx, item, &fold_ops) : NULL;

    VC_CALL_ALLOC(step);
    *state = scaled;
    step->state = state;
    step->action = VC_ACTION_REFITTED;
    step->scheme = "folded";
    vc_item_replan(item);
    return VC_OK;
}

/* While the nodes are looked at. */
struct folding {
    struct vc_ctx *ctx;
    const struct vc_plan *plan;
    struct act_graph *graph;
    struct vc_arena *arena;
    struct vc_program_node *nodes; /* the graph's own, from the first fold on */
};

/* A BatchNormalization and the product before it. */
struct pair {
    size_t norm, product; /* nodes */
    struct vc_item *weights, *vectors[N_VECTORS], *bias;
    size_t n; /* output channels */
    uint64_t inner, width, group;
};

/* The item of f32 that is input k of a node, with so many dimensions; NULL if it is not one. */
static struct vc_item *constant(const struct folding *f, const struct vc_program_node *node, size_t k)
{
    size_t tensor = vc_act_tensor(f->graph, vc_act_input(f->graph, node, k));
    struct vc_item *item = tensor != VC_NO_TENSOR ? vc_plan_item(f->plan, tensor) : NULL;

    return item != NULL && item->desc->quant == NULL && item->desc->dtype == VC_DTYPE_F32 ? item : NULL;
}

/* One number for each of n channels. */
static bool is_vector(const struct vc_item *item, size_t n)
{
    return item != NULL && item->desc->n_dims == 1 && item->desc->n_elems == n;
}

/* How often the value in that input is read, by all nodes. */
static size_t uses_of(const struct folding *f, const struct vc_program_node *node, size_t k)
{
    return f->graph->values[vc_act_input(f->graph, node, k)].n_uses;
}

/* Where the output channels of the weights are; false: not known. A Gemm with beta would scale the new bias. */
static bool find_channels(const struct vc_program_node *product, struct pair *p)
{
    const struct vc_desc *desc = p->weights->desc;
    bool turned = vc_act_is(product, "ConvTranspose");
    bool gemm = vc_act_is(product, "Gemm");
    bool rows = vc_act_is(product, "Conv") || (gemm && vc_act_number(product, "transB", 0) != 0);
    double groups = turned ? vc_act_number(product, "group", 1) : 1;

    if (desc->n_dims < 2 || desc->n_elems == 0 ||
        (gemm && (desc->n_dims != 2 || vc_act_number(product, "beta", 1) != 1)) || (!rows && !turned && !gemm) ||
        !(groups >= 1) || groups > (double)desc->shape[0]) {
        return false;
    }
    p->width = rows ? desc->shape[0] : desc->shape[1];
    p->inner = rows ? desc->n_elems / desc->shape[0] : desc->n_elems / desc->shape[0] / desc->shape[1];
    p->group = rows ? 1 : desc->shape[0] / (uint64_t)groups;
    p->n = (size_t)(p->width * (uint64_t)groups);
    return rows || desc->shape[0] % (uint64_t)groups == 0;
}

/* The product that the node `number` can go into. The product has no other reader, and its weights no other product, or
 * the other one would get what was folded. Norms of training have more outputs. The new bias takes the place of beta,
 * so nothing else may read that. */
static bool find_pair(const struct folding *f, size_t number, struct pair *p)
{
    const struct vc_program_node *norm = &f->graph->program.nodes[number];
    size_t x = vc_act_is(norm, "BatchNormalization") ? vc_act_input(f->graph, norm, 0) : ACT_NONE;
    const struct act_value *v = x != ACT_NONE ? &f->graph->values[x] : NULL;

    if (v == NULL || v->maker == ACT_NONE || v->n_uses != 1 || norm->n_inputs != 5 || norm->n_outputs == 0 ||
        vc_act_output(f->graph, norm, 1) != ACT_NONE || vc_act_number(norm, "training_mode", 0) != 0 ||
        vc_act_number(norm, "spatial", 1) == 0) {
        return false;
    }
    const struct vc_program_node *product = &f->graph->program.nodes[v->maker];
    *p = (struct pair){.norm = number, .product = v->maker, .weights = constant(f, product, 1)};
    if (p->weights == NULL || uses_of(f, product, 1) != 1 || !find_channels(product, p)) {
        return false;
    }
    for (size_t k = 0; k < N_VECTORS; k++) {
        p->vectors[k] = constant(f, norm, k + 1);
        if (!is_vector(p->vectors[k], p->n)) {
            return false;
        }
    }
    p->bias = constant(f, product, 2);
    return uses_of(f, norm, BETA + 1) == 1 &&
           (vc_act_input(f->graph, product, 2) == ACT_NONE || is_vector(p->bias, p->n));
}

/* The factors of the channels and the new bias; *finite false: some are not. The vectors are read as the passes before
 * leave them. A product without a bias counts as one of zeros: x is zeroed. */
static enum vc_status compute(const struct folding *f, const struct pair *p, double *by, double *bias, bool *finite)
{
    double epsilon = vc_act_number(&f->graph->program.nodes[p->norm], "epsilon", (double)1e-5f);
    struct vc_item *const items[] = {p->vectors[GAIN], p->vectors[BETA], p->vectors[MEAN], p->vectors[VARIANCE],
                                     p->bias};
    VC_SCOPED float *x = vc_calloc_array(f->ctx, VC_TAG_SCALES, (N_VECTORS + 1) * p->n, sizeof *x);

    VC_CALL_ALLOC(x);
    for (size_t k = 0; k <= N_VECTORS; k++) {
        if (items[k] != NULL) {
            VC_CALL(vc_tile_reader_all(f->ctx, items[k], VC_PART_CODES, x + k * p->n, p->n * sizeof *x));
        }
    }
    *finite = true;
    for (size_t i = 0; i < p->n; i++) {
        by[i] = (double)x[i] / sqrt((double)x[VARIANCE * p->n + i] + epsilon);
        bias[i] = ((double)x[N_VECTORS * p->n + i] - (double)x[MEAN * p->n + i]) * by[i] + (double)x[BETA * p->n + i];
        *finite = *finite && fabs(by[i]) < INFINITY && fabs((float)bias[i]) < INFINITY;
    }
    return VC_OK;
}

/* The nodes as they are now: the product makes what the norm made, which is empty. The graph of the model is not
 * changed: a copy of its nodes is made with the first fold. Tensors that nobody reads any more leave the file. */
static enum vc_status join(struct folding *f, const struct pair *p, struct vc_folded_norm *out)
{
    struct act_graph *graph = f->graph;
    size_t n_bytes = graph->program.n_nodes * sizeof *f->nodes;
    const struct vc_program_node *norm = &graph->program.nodes[p->norm];
    const char **inputs = vc_arena_alloc(f->ctx, f->arena, 3 * sizeof *inputs);
    struct vc_program_node *product;

    VC_CALL_ALLOC(inputs);
    if (f->nodes == NULL) {
        VC_CALL_ALLOC(f->nodes = vc_arena_alloc(f->ctx, f->arena, n_bytes));
        memcpy(f->nodes, graph->program.nodes, n_bytes);
        graph->program.nodes = f->nodes;
        norm = &f->nodes[p->norm];
    }
    product = &f->nodes[p->product];
    out->value = norm->inputs[0];
    for (size_t k = 0; k <= N_VECTORS; k++) {
        const struct vc_program_node *reader = k < N_VECTORS ? norm : product;
        size_t v = k != BETA ? vc_act_input(graph, reader, k < N_VECTORS ? k + 1 : 2) : ACT_NONE;

        if (v != ACT_NONE && --graph->values[v].n_uses == 0) {
            out->unread[out->n_unread++] = vc_act_tensor(graph, v);
        }
    }
    inputs[0] = product->inputs[0];
    inputs[1] = product->inputs[1];
    inputs[2] = norm->inputs[BETA + 1];
    graph->values[vc_act_input(graph, norm, 0)].n_uses = 0;
    graph->values[vc_act_input(graph, norm, BETA + 1)].reader = p->product;
    graph->values[vc_act_output(graph, norm, 0)].maker = p->product;
    product->inputs = inputs;
    product->n_inputs = 3;
    product->outputs = norm->outputs;
    f->nodes[p->norm] = (struct vc_program_node){.op = "", .domain = "", .name = ""};
    return VC_OK;
}

/* A norm whose factors are not finite stays, as a variance of 0 without epsilon gives. */
static enum vc_status fold(struct folding *f, const struct pair *p, struct vc_folded_norm **out)
{
    double *by = vc_arena_alloc(f->ctx, f->arena, 2 * p->n * sizeof *by);
    struct vc_folded_norm *folded = vc_arena_alloc(f->ctx, f->arena, sizeof *folded);
    bool finite;

    VC_CALL_ALLOC(by);
    VC_CALL_ALLOC(folded);
    double *bias = by + p->n;
    VC_CALL(compute(f, p, by, bias, &finite));
    if (!finite) {
        return VC_OK;
    }
    *folded = (struct vc_folded_norm){.next = *out};
    VC_CALL(join(f, p, folded));
    *out = folded;
    VC_CALL(add_step(f->ctx, p->weights, f->arena, (struct scaled){by, false, p->inner, p->width, p->group}));
    return add_step(f->ctx, p->vectors[BETA], f->arena, (struct scaled){bias, true, 1, p->n, 1});
}

/* Graphs inside of nodes (If, Loop) may read values of this one by name, which uses do not count; nothing is folded
 * there. */
enum vc_status vc_fold_norms(struct vc_ctx *ctx, const struct vc_plan *plan, struct act_graph *graph,
                             struct vc_arena *arena, vc_fold_takes *takes, void *self, struct vc_folded_norm **out)
{
    struct folding f = {.ctx = ctx, .plan = plan, .graph = graph, .arena = arena};
    struct pair p;
    bool taken;

    *out = NULL;
    for (size_t k = 0; k < graph->program.n_nodes; k++) { /* which may read values that are not listed as theirs */
        for (size_t i = 0; i < graph->program.nodes[k].n_attrs; i++) {
            if (graph->program.nodes[k].attrs[i].kind == VC_PROGRAM_GRAPH) {
                return VC_OK;
            }
        }
    }
    for (size_t k = 0; k < graph->program.n_nodes; k++) {
        if (find_pair(&f, k, &p)) {
            VC_CALL(takes(ctx, self, p.weights, &taken));
            VC_CALL(vc_check_cancelled(ctx));
            if (taken) {
                VC_CALL(fold(&f, &p, out));
            }
        }
    }
    return VC_OK;
}

enum vc_status vc_fold_norms_finish(struct vc_ctx *ctx, const struct vc_folded_norm *folded, struct vc_plan *plan,
                                    struct vc_arena *arena, const char **note)
{
    size_t n = 0;

    *note = NULL;
    for (const struct vc_folded_norm *f = folded; f != NULL; f = f->next, n++) {
        const struct vc_graph_edit edit = {.kind = VC_GRAPH_EDIT_FOLD, .value = f->value};

        VC_CALL(vc_plan_edit_graph(ctx, plan, &edit, 1));
        for (size_t k = 0; k < f->n_unread; k++) {
            VC_CALL(vc_plan_drop(ctx, plan, f->unread[k], "folded into the product before it"));
        }
    }
    if (n != 0) {
        *note = vc_arena_printf(ctx, arena, "%zu BatchNormalization folded into the products before them", n);
        VC_CALL_ALLOC(*note);
    }
    return VC_OK;
}
