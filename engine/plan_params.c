/* plan_params.c - parameters while a program is made: which elements of a checkpoint's tensor an input of a node is, and where
 * its gradient goes. A parameter that lies in its tensor in another order is copied first, and its gradient behind all
 * others. Stands on plan_values.c, plan_round.c (rounded copies) and plan_answers.c (parameters that come in). */
#include "engine/train_program.h"
#include "graph/lazy.h"

/* True if the elements of the parameter lie together in the tensor in its own order: a whole tensor or a
 * slice of rows. */
static bool lies_as_it_is(const struct vc_graph_param *param)
{
    return !param->transposed && (!param->sliced || param->axis == 0);
}

/* Elements before the slice of rows. */
static uint64_t slice_offset(const struct vc_graph_param *param)
{
    uint64_t n = param->sliced ? param->first : 0;

    for (unsigned k = 1; param->sliced && k < param->n_dims; k++) {
        n *= param->shape[k];
    }
    return n;
}

/* Steps in the tensor along the dimensions of the parameter; returns where it begins. Transposed: the last
 * two are exchanged. */
static int64_t param_steps(const struct vc_graph_param *param, int64_t *step)
{
    int64_t all = 1;

    for (unsigned k = param->n_dims; k-- > 0;) {
        step[k] = all;
        all *= (int64_t)param->shape[k];
    }
    int64_t base = param->sliced ? (int64_t)param->first * step[param->axis] : 0;
    if (param->transposed) {
        int64_t last = step[param->n_dims - 1];

        step[param->n_dims - 1] = step[param->n_dims - 2];
        step[param->n_dims - 2] = last;
    }
    return base;
}

/* The parameter that input k is. NULL: no parameter, one of integers, or a program that gets parameters as
 * the graph uses them. */
static const struct vc_graph_param *param_of(const struct vc_engine *e, uint32_t node, unsigned k)
{
    const struct vc_graph_value *value = &e->graph->values[vc_plan_node(e, node)->inputs[k]];

    return e->options.answers == NULL && value->kind == VC_VALUE_PARAMETER && value->dtype == VC_DTYPE_F32
               ? &e->graph->params[value->param]
               : NULL;
}

/* So a product can multiply a parameter where it lies. */
bool vc_plan_tensor_steps(const struct vc_engine *e, uint32_t node, unsigned k, int64_t *step, int64_t *base)
{
    const struct vc_graph_param *param = param_of(e, node, k);

    if (param != NULL) {
        *base = param_steps(param, step);
    }
    return param != NULL;
}

struct vc_ref vc_plan_tensor(struct vc_engine *e, uint32_t node, unsigned k)
{
    const struct vc_graph_param *param = param_of(e, node, k);

    return vc_plan_working(e, node, e->weights->of_param[param - e->graph->params]);
}

/* Of the whole tensor; steps and begin are those of vc_plan_tensor_steps. */
struct vc_ref vc_plan_tensor_grad(struct vc_engine *e, uint32_t node, unsigned k)
{
    const struct vc_graph_param *param = param_of(e, node, k);

    if (param == NULL) {
        return (struct vc_ref){0};
    }
    return (struct vc_ref){.kind = VC_REF_GRAD, .index = e->weights->of_param[param - e->graph->params]};
}

/* to = from, or to += from, one of them with the steps of the parameter in its tensor. */
static void copy_param(struct vc_engine *e, uint32_t node, const struct vc_graph_param *param, bool to_tensor,
                       struct vc_ref to, struct vc_ref from)
{
    const struct vc_plan_value *x = &e->values[param->value];
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = x->n_dims};
    int64_t step = 1;

    s.base[to_tensor ? 0 : 1] = param_steps(param, s.step[to_tensor ? 0 : 1]);
    for (unsigned k = x->n_dims; k-- > 0;) {
        s.shape[k] = x->shape[k];
        s.step[to_tensor ? 1 : 0][k] = step;
        step *= x->shape[k];
    }
    s.refs[0] = to;
    s.refs[1] = from;
    vc_plan_strided(e, node, &s, to_tensor);
}

/* The elements of a parameter that nothing has read yet. */
static struct vc_ref parameter_data(struct vc_engine *e, uint32_t node, uint32_t v)
{
    struct vc_plan_value *x = &e->values[v];
    const struct vc_graph_value *value = &e->graph->values[v];
    const struct vc_graph_param *param = &e->graph->params[value->param];

    if (e->options.answers != NULL) {
        return vc_plan_param(e, node, v);
    }
    struct vc_ref whole = vc_plan_working(e, node, e->weights->of_param[value->param]);
    if (lies_as_it_is(param)) {
        whole.offset = slice_offset(param) * (x->real ? vc_real_bytes(e->weights->precision) : sizeof(int64_t));
        x->data = whole;
    } else if (!x->real) {
        vc_plan_fail(e, node, "the integers of '%s' are transposed, which cannot be computed with", value->name);
    } else {
        x->data = vc_plan_reals(e, x->n);
        copy_param(e, node, param, false, x->data, whole);
    }
    return x->data;
}

/* The first reader makes the copy of a parameter that lies otherwise; later ones use it, in whichever branch they are. */
struct vc_ref vc_plan_data(struct vc_engine *e, uint32_t node, unsigned k)
{
    struct vc_plan_value *x = vc_plan_in(e, node, k);
    uint32_t v = x != NULL ? vc_plan_node(e, node)->inputs[k] : VC_NO_VALUE;
    uint32_t guard = e->guard;

    if (x == NULL) {
        return (struct vc_ref){0};
    }
    if (e->graph->values[v].kind != VC_VALUE_PARAMETER || x->data.kind != VC_REF_NONE) {
        return e->values[x->root].data;
    }
    e->guard = 0;
    struct vc_ref data = parameter_data(e, node, v);
    e->guard = guard;
    return data;
}

/* ---- gradients ---- */

/* The guard of the node that makes the value; 0 of an input or a parameter. */
static uint32_t value_guard(const struct vc_engine *e, const struct vc_plan_value *x)
{
    uint32_t maker = e->graph->values[x - e->values].node;

    return maker != VC_NO_NODE ? e->guards[maker] : 0;
}

/* Parameters that lie as they are get their gradient in the tensor's own, always added to. Other values:
 * the first gradient is written, further ones are added. */
struct vc_ref vc_plan_grad_to(struct vc_engine *e, uint32_t node, unsigned k, bool over, bool *add)
{
    const struct vc_graph_value *value = &e->graph->values[vc_plan_node(e, node)->inputs[k]];
    struct vc_plan_value *root = &e->values[vc_plan_in(e, node, k)->root];
    struct vc_ref from = vc_plan_grad(e, node, 0);

    *add = true;
    if (value->kind == VC_VALUE_PARAMETER && lies_as_it_is(&e->graph->params[value->param])) {
        const struct vc_graph_param *param = &e->graph->params[value->param];

        return (struct vc_ref){.kind = VC_REF_GRAD,
                               .index = e->weights->of_param[value->param],
                               .offset = slice_offset(param) * vc_real_bytes(e->weights->precision)};
    }
    if (root->has_grad) {
        return root->grad;
    }
    uint32_t made_in = value_guard(e, root);
    uint32_t guard = e->guard;
    *add = guard != made_in && vc_guard_common(e->guards, guard, made_in) == made_in;
    root->has_grad = true;
    root->grad = over && !*add && from.kind == VC_REF_ARENA ? from : vc_plan_reals(e, root->n);
    if (*add) { /* by a branch that may be left out */
        e->guard = made_in;
        vc_plan_fill(e, node, root->grad, root->n, 0);
        e->guard = guard;
    }
    return root->grad;
}

/* Gradients that were collected in the parameter's order are added to the tensor's gradient. */
void vc_plan_give_grads(struct vc_engine *e)
{
    for (uint32_t p = 0; p < e->graph->n_params; p++) {
        const struct vc_graph_param *param = &e->graph->params[p];
        const struct vc_plan_value *x = &e->values[param->value];
        uint32_t weight = e->weights->of_param[p];

        if (x->has_grad) {
            copy_param(e, 0, param, true, (struct vc_ref){.kind = VC_REF_GRAD, .index = weight}, x->grad);
        }
    }
}
