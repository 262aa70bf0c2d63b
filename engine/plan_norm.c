/* plan_norm.c - BatchNormalization. */
#include "engine/plan_ops.h"

/* Scale, bias and statistics have to be parameters or constants: their gradients and updates go straight to them. */
static bool norm_inputs(struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);

    for (unsigned k = 1; k < 5; k++) {
        enum vc_value_kind kind = e->graph->values[n->inputs[k]].kind;

        if (kind != VC_VALUE_PARAMETER && kind != VC_VALUE_CONSTANT) {
            vc_plan_fail(e, node, "input %u, '%s', is computed; a parameter is needed", k,
                         e->graph->values[n->inputs[k]].name);
            return false;
        }
    }
    for (unsigned k = 1; k < n->n_outputs; k++) {
        if (vc_plan_out(e, node, k) != NULL && vc_plan_out(e, node, k)->made) {
            vc_plan_fail(e, node, "its output %u is read, which is not supported", k);
            return false;
        }
    }
    return true;
}

static struct vc_args_norm *norm_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_args_norm *args = vc_plan_args(e, sizeof *args);

    if (args != NULL) {
        args->batch = (uint64_t)x->shape[0];
        args->channels = (uint64_t)x->shape[1];
        args->inner = vc_plan_count(x, 2, x->n_dims);
        args->epsilon = vc_plan_float(n, "epsilon", (double)1e-5f);
        args->momentum = vc_plan_float(n, "momentum", (double)0.9f);
        args->frozen = e->options.frozen_norm;
        args->fixed = e->repeats || /* running statistics move once in a step */
                      e->graph->values[n->inputs[3]].kind != VC_VALUE_PARAMETER ||
                      e->graph->values[n->inputs[4]].kind != VC_VALUE_PARAMETER;
    }
    return args;
}

void vc_train_forward_batch_norm(struct vc_engine *e, uint32_t node)
{
    struct vc_args_norm *args = norm_args(e, node);
    struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_ref refs[7];

    if (args == NULL || !norm_inputs(e, node)) {
        return;
    }
    refs[0] = vc_plan_data(e, node, 0);
    refs[1] = vc_plan_make(e, node, 0, true);
    for (unsigned k = 1; k < 5; k++) {
        refs[1 + k] = vc_plan_data(e, node, k);
    }
    refs[6] = (struct vc_ref){0};
    if (y->trained) {
        y->extra = vc_plan_reals(e, 2 * args->channels);
        refs[6] = y->extra;
    }
    vc_plan_emit(e, node, VC_LOOP_batch_norm, (size_t)args->channels, args, false, refs, 7);
}

void vc_train_backward_batch_norm(struct vc_engine *e, uint32_t node)
{
    struct vc_args_norm *args = norm_args(e, node);
    struct vc_ref refs[7] = {{0}};
    bool add = false;
    bool adds;

    if (args == NULL) {
        return;
    }
    refs[0] = vc_plan_data(e, node, 0);
    refs[1] = vc_plan_grad(e, node, 0);
    refs[3] = vc_plan_data(e, node, 1);
    refs[4] = vc_plan_out(e, node, 0)->extra;
    for (unsigned k = 0; k < 2; k++) {
        if (vc_plan_trained(e, node, 1 + k)) {
            refs[5 + k] = vc_plan_grad_to(e, node, 1 + k, false, &adds);
            if (refs[5 + k].kind != VC_REF_GRAD) {
                vc_plan_fail(e, node, "'%s' is a part of a tensor that does not lie together",
                             e->graph->values[vc_plan_node(e, node)->inputs[1 + k]].name);
                return;
            }
        }
    }
    if (vc_plan_trained(e, node, 0)) {
        refs[2] = vc_plan_grad_to(e, node, 0, true, &add);
    }
    vc_plan_emit(e, node, VC_LOOP_batch_norm_backward, (size_t)args->channels, args, add, refs, 7);
}
