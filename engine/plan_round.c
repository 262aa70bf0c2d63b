/* plan_round.c - training with values of 16 bits. Arrays stay floats; what they hold is what 16 bits can say:
 *
 *     inputs      rounded before the first node
 *     weights     the program reads rounded copies, which lie in the arena; the weights stay as they are
 *     results     rounded behind the node that makes them, also where it is computed again
 *     gradients   of results: rounded behind each node that adds to them; of weights: not, their sums are floats
 *
 * Within a node arithmetic is that of floats: sums of products, statistics of norms, the parts of an attention. What no
 * gradient goes through (masks, positions, constants) and what the loss computes is not rounded. */
#include "engine/train_program.h"

static bool rounds(const struct vc_engine *e)
{
    return e->options.rounding == VC_UNARY_ROUND_BF16 || e->options.rounding == VC_UNARY_ROUND_F16;
}

static void add_rounding(struct vc_engine *e, uint32_t node, struct vc_ref from, struct vc_ref to, uint64_t n)
{
    const struct vc_ref refs[] = {from, to};
    struct vc_args_unary *args = vc_plan_args(e, sizeof *args);

    if (args != NULL) {
        *args = (struct vc_args_unary){.kind = e->options.rounding, .n = n};
        vc_plan_emit(e, node, VC_LOOP_unary, vc_plan_blocks(n, VC_ELEMENTS_PER_BLOCK), args, false, refs, 2);
    }
}

/* What lies in the arena, which alone is the program's to change. */
static void round_there(struct vc_engine *e, uint32_t node, struct vc_ref ref, uint64_t n)
{
    if (ref.kind == VC_REF_ARENA) {
        add_rounding(e, node, ref, ref, n);
    }
}

struct vc_ref vc_plan_working(struct vc_engine *e, uint32_t node, uint32_t weight)
{
    const struct vc_weight *item = &e->weights->items[weight];
    const struct vc_ref whole = {.kind = VC_REF_WEIGHT, .index = weight};

    if (!rounds(e) || item->integers || item->statistic) {
        return whole;
    }
    if (e->working[weight].kind == VC_REF_NONE) {
        e->working[weight] = vc_plan_reals(e, item->n);
        add_rounding(e, node, whole, e->working[weight], item->n);
    }
    return e->working[weight];
}

void vc_plan_round_inputs(struct vc_engine *e)
{
    for (size_t k = 0; rounds(e) && k < e->n_inputs; k++) {
        const struct vc_plan_value *x = &e->values[e->inputs[k].value];

        if (x->made && x->real) {
            round_there(e, 0, x->data, x->n);
        }
    }
}

void vc_plan_round_results(struct vc_engine *e, uint32_t node)
{
    for (unsigned k = 0; rounds(e) && k < vc_plan_node(e, node)->n_outputs; k++) {
        const struct vc_plan_value *y = vc_plan_out(e, node, k);
        const struct vc_plan_value *root = y != NULL ? &e->values[y->root] : NULL;

        if (root != NULL && root->made && root->real) {
            round_there(e, node, root->data, root->n);
        }
    }
}

void vc_plan_round_gradients(struct vc_engine *e, uint32_t node)
{
    for (unsigned k = 0; rounds(e) && k < vc_plan_node(e, node)->n_inputs; k++) {
        const struct vc_plan_value *x = vc_plan_in(e, node, k);
        const struct vc_plan_value *root = x != NULL ? &e->values[x->root] : NULL;

        if (root != NULL && root->has_grad && e->graph->values[x->root].kind != VC_VALUE_PARAMETER) {
            round_there(e, node, root->grad, root->n);
        }
    }
}

void vc_plan_round_output_gradients(struct vc_engine *e)
{
    for (size_t k = 0; rounds(e) && k < e->n_outputs; k++) {
        round_there(e, e->graph->values[e->outputs[k].value].node, e->output_refs[2 * k + 1], e->outputs[k].n);
    }
}
