/* plan_product.c - MatMul and Gemm as products of stacks of matrices, and their gradients, which are
 * products, too:
 *
 *     c = a b      da = dc b'      db = a' dc
 *
 * A product instruction has lists: result s is the sum of products a[i] b[i] for i from first[s] on. So a
 * stack that broadcasts needs no copies, and the gradient of a shared matrix is one sum over all that used
 * it. */

#include "engine/plan_ops.h"

#define TILES_PER_THREAD 2 /* so that threads that finish early have something left to take */
#define LEAST_WORK \
    (UINT64_C(1) << 20) /* multiply-adds of a tile: 10 microseconds; a barrier of the threads takes one */

/* The matrices of one operand, with broadcasting: input k of the node. */
struct stack {
    struct vc_matrix is;
    int64_t base; /* where the first one begins, of a parameter in its tensor */
    unsigned k;   /* which input */
    uint64_t rows, columns;
    const struct vc_plan_value *value; /* its leading dimensions count the matrices */
    unsigned n_lead;
};

/* c[s] = alpha * a[..] b[..] for n_stack matrices [m, k] x [k, n]. */
struct product {
    struct stack a, b;
    unsigned n_lead; /* of the result */
    int64_t lead[VC_GRAPH_MAX_DIMS];
    uint64_t n_stack; /* matrices of the result */
    uint64_t m, n, k;
    double alpha;
};

/* Which matrix of the operand belongs to matrix s of the result: s as coordinates over the leading
 * dimensions, those of size 1 stay 0. */
static uint64_t matrix_of(const struct product *p, const struct stack *x, uint64_t s)
{
    uint64_t step = 1;
    uint64_t at = 0;

    for (unsigned d = p->n_lead; d-- > 0;) {
        uint64_t i = s % (uint64_t)p->lead[d];
        unsigned behind = p->n_lead - d; /* dimensions from here to the end of the leading ones */

        s /= (uint64_t)p->lead[d];
        if (behind <= x->n_lead) {
            uint64_t size = (uint64_t)x->value->shape[x->n_lead - behind];

            at += size == 1 ? 0 : i * step;
            step *= size;
        }
    }
    return at;
}

/* A parameter is multiplied where it lies in its tensor, transposed or as a part: its steps replace a copy. */
static void lie_in_tensor(const struct vc_engine *e, uint32_t node, struct stack *x)
{
    int64_t step[VC_GRAPH_MAX_DIMS];

    if (x->value->n_dims == 2 && vc_plan_tensor_steps(e, node, x->k, step, &x->base)) {
        x->is = (struct vc_matrix){step[0], step[1]};
    }
}

/* The elements of an operand. */
static struct vc_ref operand(struct vc_engine *e, uint32_t node, const struct stack *x)
{
    int64_t step[VC_GRAPH_MAX_DIMS], base;

    return x->value->n_dims == 2 && vc_plan_tensor_steps(e, node, x->k, step, &base) ? vc_plan_tensor(e, node, x->k)
                                                                                     : vc_plan_data(e, node, x->k);
}

/* What MatMul multiplies. A vector on the left is a row, one on the right a column. If b is one matrix, the
 * rows of all matrices of a become the rows of one: [batch, n, 768] x [768, 64] is one product of batch * n
 * rows. */
static struct product of_matmul(const struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *a = vc_plan_in(e, node, 0);
    const struct vc_plan_value *b = vc_plan_in(e, node, 1);
    struct product p = {.a = {.value = a}, .b = {.value = b, .k = 1}, .n_stack = 1, .alpha = 1};

    p.k = (uint64_t)a->shape[a->n_dims - 1];
    p.n = b->n_dims > 1 ? (uint64_t)b->shape[b->n_dims - 1] : 1;
    p.m = a->n_dims > 1 ? (uint64_t)a->shape[a->n_dims - 2] : 1;
    p.a.is = (struct vc_matrix){(int64_t)p.k, 1};
    p.b.is = (struct vc_matrix){(int64_t)p.n, 1};
    p.a.n_lead = a->n_dims > 2 ? a->n_dims - 2 : 0;
    p.b.n_lead = b->n_dims > 2 ? b->n_dims - 2 : 0;
    if (p.b.n_lead == 0) {
        p.m = a->n / p.k;
        p.a.n_lead = 0;
    }
    p.n_lead = p.a.n_lead > p.b.n_lead ? p.a.n_lead : p.b.n_lead;
    lie_in_tensor(e, node, &p.a);
    lie_in_tensor(e, node, &p.b);
    memcpy(p.lead, vc_plan_out(e, node, 0)->shape, p.n_lead * sizeof *p.lead);
    for (unsigned d = 0; d < p.n_lead; d++) {
        p.n_stack *= (uint64_t)p.lead[d];
    }
    return p;
}

/* The same for operands of Gemm: steps of the tensor are those before Gemm's own transposition. */
static void turn_in_tensor(const struct vc_engine *e, uint32_t node, struct stack *x, bool swap)
{
    int64_t was = x->is.row;

    if (swap) {
        x->is.row = x->is.column;
        x->is.column = was;
    }
    lie_in_tensor(e, node, x);
    was = x->is.row;
    if (swap) {
        x->is.row = x->is.column;
        x->is.column = was;
    }
}

/* alpha a' b' with one matrix each; transA and transB exchange steps. */
static struct product of_gemm(const struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *a = vc_plan_in(e, node, 0);
    const struct vc_plan_value *b = vc_plan_in(e, node, 1);
    bool swap_a = vc_node_int(n, "transA", 0) != 0;
    bool swap_b = vc_node_int(n, "transB", 0) != 0;
    struct product p = {.a = {.value = a}, .b = {.value = b, .k = 1}, .n_stack = 1};

    p.alpha = vc_node_float(n, "alpha", 1);
    p.m = (uint64_t)a->shape[swap_a];
    p.k = (uint64_t)a->shape[!swap_a];
    p.n = (uint64_t)b->shape[!swap_b];
    p.a.is = swap_a ? (struct vc_matrix){1, (int64_t)p.m} : (struct vc_matrix){(int64_t)p.k, 1};
    p.b.is = swap_b ? (struct vc_matrix){1, (int64_t)p.k} : (struct vc_matrix){(int64_t)p.n, 1};
    turn_in_tensor(e, node, &p.a, swap_a);
    turn_in_tensor(e, node, &p.b, swap_b);
    return p;
}

static struct product of_node(const struct vc_engine *e, uint32_t node)
{
    return vc_node_is(vc_plan_node(e, node), VC_OP_gemm) ? of_gemm(e, node) : of_matmul(e, node);
}

/* Tiles as large as can be, since each packs its rows and columns anew, and so many that each thread has
 * some, if that is worth it. The cut changes no bit: each result is one sum over all of k, in its order,
 * whatever tile it is in. */
static void cut(const struct vc_engine *e, struct vc_args_product *args)
{
    uint64_t worth = args->n_stack * args->m * args->n * args->k / LEAST_WORK;
    uint64_t least = e->n_workers > 1 ? VC_AT_MOST(TILES_PER_THREAD * (uint64_t)e->n_workers, worth) : 1;

    args->tile_m = args->m;
    args->tile_n = args->n;
    while (args->n_stack * vc_plan_blocks(args->m, args->tile_m) * vc_plan_blocks(args->n, args->tile_n) < least) {
        if (args->tile_n >= args->tile_m && args->tile_n > 64) {
            args->tile_n = (args->tile_n / 2 + 31) / 32 * 32;
        } else if (args->tile_m > 48) {
            args->tile_m = (args->tile_m / 2 + 11) / 12 * 12;
        } else {
            break;
        }
    }
}

/* The instruction, once sizes, steps and lists are filled in. refs: a, b, c, scratch, and later perhaps a
 * bias. */
static void emit(struct vc_engine *e, uint32_t node, struct vc_args_product *args, struct vc_ref a, struct vc_ref b,
                 struct vc_ref c, bool add)
{
    struct vc_ref refs[4] = {a, b, c, {0}};

    cut(e, args);
    uint64_t tiles = args->n_stack * vc_plan_blocks(args->m, args->tile_m) * vc_plan_blocks(args->n, args->tile_n);
    args->scratch = vc_product_scratch(args->tile_m, args->tile_n, args->k);
    refs[3] = vc_plan_scratch(e, args->scratch);
    vc_plan_emit(e, node, VC_LOOP_product, (size_t)tiles, args, add, refs, 4);
}

/* The product that made y adds the bias itself, if the bias has one number for each column and nothing is
 * between. */
bool vc_plan_bias_joins(struct vc_engine *e, struct vc_ref y, const struct vc_plan_value *shape, struct vc_ref bias,
                        const int64_t *bias_step)
{
    struct vc_instruction *maker = vc_plan_maker(e, VC_LOOP_product, 2, y);
    const struct vc_args_product *args = maker != NULL ? maker->call.args : NULL;
    bool itself = bias.kind == VC_REF_ARENA && bias.index == y.index;
    bool fits = args != NULL && maker->n_refs == 4 && !itself && shape->n_dims != 0 &&
                args->c_row == shape->shape[shape->n_dims - 1] && args->c_row == (int64_t)args->n;

    for (unsigned d = 0; fits && d < shape->n_dims; d++) {
        fits = bias_step[d] == (d + 1 == shape->n_dims);
    }
    if (fits) {
        vc_plan_add_ref(e, maker, 4, bias);
    }
    return fits;
}

/* Memory for the lists: first (n_stack + 1), c_at (n_stack), a_at and b_at (n_pairs). */
static bool make_lists(struct vc_engine *e, struct vc_args_product *args, uint64_t n_stack, uint64_t n_pairs,
                       uint64_t **lists)
{
    uint64_t *all = vc_plan_args(e, (size_t)(2 * n_stack + 1 + 2 * n_pairs) * sizeof *all);

    if (all == NULL) {
        return false;
    }
    lists[0] = all;
    lists[1] = all + n_stack + 1;
    lists[2] = lists[1] + n_stack;
    lists[3] = lists[2] + n_pairs;
    args->n_stack = n_stack;
    args->first = lists[0];
    args->c_at = lists[1];
    args->a_at = lists[2];
    args->b_at = lists[3];
    return true;
}

/* For operators that are made of products: matrices at equal distances, one pair for each result. */
void vc_plan_product(struct vc_engine *e, uint32_t node, const struct vc_plan_product *p, struct vc_ref a,
                     struct vc_ref b, struct vc_ref c, bool add)
{
    struct vc_args_product *args = vc_plan_args(e, sizeof *args);
    uint64_t *lists[4];

    if (args == NULL || !make_lists(e, args, p->n_stack, p->n_stack, lists)) {
        return;
    }
    for (uint64_t s = 0; s < p->n_stack; s++) {
        lists[0][s] = s;
        lists[1][s] = p->c_at + s * p->c_step;
        lists[2][s] = p->a_at + s * p->a_step;
        lists[3][s] = p->b_at + s * p->b_step;
    }
    lists[0][p->n_stack] = p->n_stack;
    args->m = p->m;
    args->n = p->n;
    args->k = p->k;
    args->a = p->a;
    args->b = p->b;
    args->c_row = p->c_row;
    args->alpha = 1;
    emit(e, node, args, a, b, c, add);
}

/* One pair for each result. */
static void forward(struct vc_engine *e, uint32_t node, struct vc_ref c)
{
    struct product p = of_node(e, node);
    struct vc_args_product *args = vc_plan_args(e, sizeof *args);
    uint64_t *lists[4];

    if (args == NULL || !make_lists(e, args, p.n_stack, p.n_stack, lists)) {
        return;
    }
    for (uint64_t s = 0; s < p.n_stack; s++) {
        lists[0][s] = s;
        lists[1][s] = s * p.m * p.n;
        lists[2][s] = (uint64_t)p.a.base + matrix_of(&p, &p.a, s) * p.m * p.k;
        lists[3][s] = (uint64_t)p.b.base + matrix_of(&p, &p.b, s) * p.k * p.n;
    }
    lists[0][p.n_stack] = p.n_stack;
    args->m = p.m;
    args->n = p.n;
    args->k = p.k;
    args->a = p.a.is;
    args->b = p.b.is;
    args->c_row = (int64_t)p.n;
    args->alpha = p.alpha;
    {
        struct vc_ref a = operand(e, node, &p.a);

        emit(e, node, args, a, operand(e, node, &p.b), c, false);
    }
}

/* The gradient of operand 0 or 1: for each of its matrices the sum over the results that used it. It is
 * laid out as the operand is; if the operand lies transposed in its tensor, the transposed product is
 * computed: db' = dc' a, da' = b dc'. */
static void gradient(struct vc_engine *e, uint32_t node, unsigned which)
{
    struct product p = of_node(e, node);
    const struct stack *mine = which == 0 ? &p.a : &p.b;
    const struct stack *other = which == 0 ? &p.b : &p.a;
    uint64_t rows = which == 0 ? p.m : p.k;    /* of the operand's matrix ... */
    uint64_t columns = which == 0 ? p.k : p.n; /* ... as it is multiplied */
    uint64_t n_mine = mine->value->n / (rows * columns);
    struct vc_args_product *args = vc_plan_args(e, sizeof *args);
    struct vc_matrix dc = {(int64_t)p.n, 1};
    struct vc_matrix dc_turned = {1, (int64_t)p.n};
    struct vc_matrix turned = {other->is.column, other->is.row};
    bool swapped = mine->is.column != 1 || (mine->is.row == 1 && columns != 1);
    bool dc_left = (which == 0) != swapped;
    uint64_t *lists[4];
    uint64_t n = 0;

    if (args == NULL || !make_lists(e, args, n_mine, p.n_stack, lists)) {
        return;
    }
    for (uint64_t i = 0; i < n_mine; i++) {
        lists[0][i] = n;
        lists[1][i] = (uint64_t)mine->base + i * rows * columns;
        for (uint64_t s = 0; s < p.n_stack; s++) {
            if (matrix_of(&p, mine, s) == i) {
                lists[dc_left ? 2 : 3][n] = s * p.m * p.n;
                lists[dc_left ? 3 : 2][n] =
                    (uint64_t)other->base + matrix_of(&p, other, s) * (which == 0 ? p.k * p.n : p.m * p.k);
                n++;
            }
        }
    }
    lists[0][n_mine] = n;
    args->m = swapped ? columns : rows;
    args->n = swapped ? rows : columns;
    args->k = which == 0 ? p.n : p.m;
    /* da = dc b', or da' = b dc';  db = a' dc, or db' = dc' a */
    if (which == 0) {
        args->a = swapped ? other->is : dc;
        args->b = swapped ? dc_turned : turned;
    } else {
        args->a = swapped ? dc_turned : turned;
        args->b = swapped ? other->is : dc;
    }
    args->c_row = mine->value->n_dims < 2 ? (int64_t)args->n : swapped ? mine->is.column : mine->is.row;
    args->alpha = p.alpha;
    {
        struct vc_ref dy = vc_plan_grad(e, node, 0);
        struct vc_ref data = operand(e, node, other);
        struct vc_ref to = vc_plan_tensor_grad(e, node, which);
        bool add = true;

        if (mine->value->n_dims != 2 || to.kind == VC_REF_NONE) {
            to = vc_plan_grad_to(e, node, which, false, &add);
        }

        emit(e, node, args, dc_left ? dy : data, dc_left ? data : dy, to, add);
    }
}

/* Products of integers are computed by the definition, not here. */
static bool product_reals(struct vc_engine *e, uint32_t node)
{
    if (!vc_plan_out(e, node, 0)->real) {
        vc_plan_fail(e, node, "it is computed from integers, which is not supported");
        return false;
    }
    return true;
}

static bool is_param(const struct vc_engine *e, uint32_t node, unsigned k)
{
    return e->graph->values[vc_plan_node(e, node)->inputs[k]].kind == VC_VALUE_PARAMETER;
}

/* The gradient of a weight first: it needs no room, and the other operand is read no more when the gradient of that is
 * made. */
static void product_backward(struct vc_engine *e, uint32_t node)
{
    unsigned first = !is_param(e, node, 0) && is_param(e, node, 1);

    for (unsigned k = 0; k < 2; k++) {
        if (vc_plan_trained(e, node, k ^ first)) {
            gradient(e, node, k ^ first);
        }
    }
}

void vc_train_forward_matmul(struct vc_engine *e, uint32_t node)
{
    if (product_reals(e, node)) {
        forward(e, node, vc_plan_make(e, node, 0, false));
    }
}

void vc_train_backward_matmul(struct vc_engine *e, uint32_t node)
{
    product_backward(e, node);
}

/* ---- Gemm: also beta * C, which broadcasts ---- */

/* y += beta C, or backward dC += beta dy, summed over what C was broadcast along. */
static void add_c(struct vc_engine *e, uint32_t node, bool backward)
{
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    const struct vc_plan_value *c = vc_plan_in(e, node, 2);
    struct vc_strided s = {
        .kind = VC_SUM_A, .scale = vc_node_float(vc_plan_node(e, node), "beta", 1), .n_dims = y->n_dims};
    bool add = true;

    if (c == NULL || (backward && !c->trained)) {
        return;
    }
    memcpy(s.shape, y->shape, sizeof s.shape);
    vc_plan_steps(y, y->n_dims, s.step[backward ? 1 : 0]);
    vc_plan_steps(c, y->n_dims, s.step[backward ? 0 : 1]);
    for (unsigned d = 0; backward && d < y->n_dims; d++) {
        s.reduced[d] = y->shape[d] != 1 && s.step[0][d] == 0;
    }
    s.refs[backward ? 1 : 0] = backward ? vc_plan_grad(e, node, 0) : y->data;
    if (backward) {
        s.refs[0] = vc_plan_grad_to(e, node, 2, false, &add);
    } else {
        s.refs[1] = vc_plan_data(e, node, 2);
        if (s.scale == 1 && vc_plan_bias_joins(e, y->data, y, s.refs[1], s.step[1])) {
            return;
        }
    }
    vc_plan_strided(e, node, &s, add);
}

void vc_train_forward_gemm(struct vc_engine *e, uint32_t node)
{
    if (product_reals(e, node)) {
        forward(e, node, vc_plan_make(e, node, 0, false));
        add_c(e, node, false);
    }
}

void vc_train_backward_gemm(struct vc_engine *e, uint32_t node)
{
    product_backward(e, node);
    add_c(e, node, true);
}
