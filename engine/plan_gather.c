/* plan_gather.c - Gather, of embeddings and of hidden states, and Where.
 *
 * Both ways of Gather, of a table [size, inner] and indices i:
 *
 *     forward     y[k] = table[i[k]]                blocks of indices
 *     backward    dtable[r] = sum of dy[k] where i[k] = r
 *
 * The backward loop is cut by rows of the table, not by indices: each part walks over all indices and adds
 * up those of its rows, in their order. So no two threads write to one row, and the sum has the same order
 * for every number of threads. */

#include "engine/plan_ops.h"

#define GRADIENT_PARTS 16 /* of a table, each of which looks for its own rows among all indices */

/* The sizes of both loops. An index out of range is noted in e->fault, and the pass ends with it. */
static struct vc_args_gather *gather_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const struct vc_plan_value *indices = vc_plan_in(e, node, 1);
    unsigned axis = vc_plan_axis(vc_node_int(vc_plan_node(e, node), "axis", 0), x->n_dims);
    struct vc_args_gather *args = vc_plan_args(e, sizeof *args);

    if (args != NULL) {
        args->outer = vc_plan_count(x, 0, axis);
        args->size = (uint64_t)x->shape[axis];
        args->inner = vc_plan_count(x, axis + 1, x->n_dims);
        args->n = indices->n;
        args->per_block = args->inner >= VC_ELEMENTS_PER_BLOCK ? 1 : VC_ELEMENTS_PER_BLOCK / args->inner;
        args->rows_per_block = vc_plan_blocks(args->size, GRADIENT_PARTS);
        args->node = node;
        args->fault = &e->fault;
    }
    return args;
}

/* Indices may have any shape; they count as n in a row. */
void vc_train_forward_gather(struct vc_engine *e, uint32_t node)
{
    struct vc_args_gather *args = gather_args(e, node);
    struct vc_ref refs[3];

    if (args != NULL) {
        refs[0] = vc_plan_data(e, node, 0);
        refs[1] = vc_plan_data(e, node, 1);
        refs[2] = vc_plan_make(e, node, 0, false);
        vc_plan_emit(e, node, VC_LOOP_gather, (size_t)args->outer * vc_plan_blocks(args->n, args->per_block), args,
                     false, refs, 3);
    }
}

/* A table that is not trained has no gradient, as with hidden states that are only picked from. */
void vc_train_backward_gather(struct vc_engine *e, uint32_t node)
{
    struct vc_args_gather *args = gather_args(e, node);
    struct vc_ref refs[3];
    bool add;

    if (args != NULL && vc_plan_trained(e, node, 0)) {
        refs[0] = vc_plan_grad(e, node, 0);
        refs[1] = vc_plan_data(e, node, 1);
        refs[2] = vc_plan_grad_to(e, node, 0, false, &add);
        vc_plan_emit(e, node, VC_LOOP_gather_backward,
                     (size_t)args->outer * vc_plan_blocks(args->size, args->rows_per_block), args, add, refs, 3);
    }
}

/* ---- Where ---- */

/* Sizes of the output, and steps of all three inputs in it: 0 along dimensions that they do not have. */
static struct vc_args_where *where_args(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_args_where *args = vc_plan_args(e, sizeof *args);

    if (args != NULL) {
        args->n = y->n;
        args->n_dims = y->n_dims;
        memcpy(args->shape, y->shape, sizeof args->shape);
        for (unsigned k = 0; k < 3; k++) {
            vc_plan_steps(vc_plan_in(e, node, k), y->n_dims, args->step[k]);
        }
    }
    return args;
}

/* Condition, both inputs, output. */
void vc_train_forward_where(struct vc_engine *e, uint32_t node)
{
    struct vc_args_where *args = where_args(e, node);
    struct vc_ref refs[4];

    if (args != NULL) {
        for (unsigned k = 0; k < 3; k++) {
            refs[k] = vc_plan_data(e, node, k);
        }
        refs[3] = vc_plan_make(e, node, 0, false);
        vc_plan_emit(e, node, VC_LOOP_where, vc_plan_blocks(args->n, VC_ELEMENTS_PER_BLOCK), args, false, refs, 4);
    }
}

/* The gradient of the whole output where input k was chosen, else 0; where the input is smaller, it is summed up. */
static void where_gradient(struct vc_engine *e, uint32_t node, unsigned k)
{
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    const struct vc_plan_value *x = vc_plan_in(e, node, k);
    struct vc_args_where *args = where_args(e, node);
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = y->n_dims};
    struct vc_ref refs[3];
    bool whole = x->n == y->n;
    bool add;

    if (args == NULL) {
        return;
    }
    args->which = k == 1;
    refs[0] = vc_plan_data(e, node, 0);
    refs[1] = vc_plan_grad(e, node, 0);
    s.refs[0] = vc_plan_grad_to(e, node, k, false, &add);
    refs[2] = whole ? s.refs[0] : vc_plan_reals(e, y->n);
    vc_plan_emit(e, node, VC_LOOP_where_backward, vc_plan_blocks(args->n, VC_ELEMENTS_PER_BLOCK), args, whole && add,
                 refs, 3);
    if (!whole) {
        memcpy(s.shape, y->shape, sizeof s.shape);
        vc_plan_steps(x, y->n_dims, s.step[0]);
        vc_plan_steps(y, y->n_dims, s.step[1]);
        for (unsigned d = 0; d < y->n_dims; d++) {
            s.reduced[d] = y->shape[d] != 1 && s.step[0][d] == 0;
        }
        s.refs[1] = refs[2];
        vc_plan_strided(e, node, &s, add);
    }
}

/* Only the two inputs have gradients; the condition has none. */
void vc_train_backward_where(struct vc_engine *e, uint32_t node)
{
    for (unsigned k = 1; k < 3; k++) {
        if (vc_plan_trained(e, node, k)) {
            where_gradient(e, node, k);
        }
    }
}
