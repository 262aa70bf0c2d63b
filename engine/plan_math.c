/* plan_math.c - operators that go element by element, sums along axes, Softmax. Functions of one element
 * are rows of kernels/unary.inc and share two instructions, unary and unary_backward. */

#include "engine/plan_ops.h"

/* ---- one input ---- */

/* Writes over the input where nobody needs it. Relu may join the convolution before it. */
static void unary_forward(struct vc_engine *e, uint32_t node, enum vc_unary kind, double a, double b)
{
    struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_args_unary *args = vc_plan_args(e, sizeof *args);
    struct vc_ref refs[2];

    if (args == NULL) {
        return;
    }
    if (!x->real) {
        vc_plan_fail(e, node, "it is computed from integers, which is not supported");
        return;
    }
    *args = (struct vc_args_unary){.kind = kind, .n = x->n, .a = a, .b = b};
    refs[0] = vc_plan_data(e, node, 0);
    refs[1] = vc_plan_make(e, node, 0, true);
    if (kind == VC_UNARY_RELU && vc_plan_relu_joins(e, refs[0], refs[1])) {
        return;
    }
    vc_plan_emit(e, node, VC_LOOP_unary, vc_plan_blocks(x->n, VC_ELEMENTS_PER_BLOCK), args, false, refs, 2);
}

/* What the gradient is computed from, x or y, stands in graph/ops/ops.inc (vc_plan_saves); some need
 * neither. */
static void unary_backward(struct vc_engine *e, uint32_t node, enum vc_unary kind, double a, double b)
{
    struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_args_unary *args = vc_plan_args(e, sizeof *args);
    unsigned saves = vc_plan_saves(e, node);
    struct vc_ref refs[3];
    bool add;

    if (args == NULL || !x->trained) {
        return;
    }
    *args = (struct vc_args_unary){.kind = kind, .n = x->n, .a = a, .b = b};
    refs[1] = vc_plan_grad(e, node, 0);
    refs[0] = (saves & VC_NEEDS_Y) != 0       ? vc_plan_out(e, node, 0)->data
              : (saves & VC_NEEDS_IN(0)) != 0 ? vc_plan_data(e, node, 0)
                                              : refs[1];
    refs[2] = vc_plan_grad_to(e, node, 0, true, &add);
    vc_plan_emit(e, node, VC_LOOP_unary_backward, vc_plan_blocks(x->n, VC_ELEMENTS_PER_BLOCK), args, add, refs, 3);
}

/* The operators that are rows of unary.inc, and their numbers. */
#define NUMBER(name, otherwise) vc_node_float(vc_plan_node(e, node), name, otherwise)
#define NO_NUMBER               0
#define UNARY_OP(KIND, reads, value, gradient, id, name, types, alpha, beta, eager) \
    VC_TRAIN_OP(id, unary, VC_UNARY_##KIND, alpha, beta)
#include "kernels/unary.inc"
#undef UNARY_OP
VC_TRAIN_OP(neg, unary, VC_UNARY_COPY, -1, 0)

static enum vc_unary gelu_kind(const struct vc_engine *e, uint32_t node)
{
    return strcmp(vc_node_string(vc_plan_node(e, node), "approximate", "none"), "tanh") == 0 ? VC_UNARY_GELU_TANH
                                                                                             : VC_UNARY_GELU;
}

VC_TRAIN_OP(gelu, unary, gelu_kind(e, node), 0, 0)

/* Its exponent has to be one number. */
static double exponent_of(struct vc_engine *e, uint32_t node)
{
    double exponent = 1;

    if (!vc_plan_number(e, node, 1, 1, &exponent) || vc_plan_in(e, node, 0)->n != vc_plan_out(e, node, 0)->n) {
        vc_plan_fail(e, node, "its exponent is not one constant number");
    }
    return exponent;
}

VC_TRAIN_OP(pow, unary, VC_UNARY_POWER, exponent_of(e, node), 0)

/* Its limits are inputs, which have to be constants. */
static bool clip_limits(struct vc_engine *e, uint32_t node, double *least, double *most)
{
    if (!vc_plan_number(e, node, 1, -(double)INFINITY, least) || !vc_plan_number(e, node, 2, (double)INFINITY, most)) {
        vc_plan_fail(e, node, "its limits are computed; constants are needed");
        return false;
    }
    return true;
}

/* A bound that is not given is infinite. */
void vc_train_forward_clip(struct vc_engine *e, uint32_t node)
{
    double least, most;

    if (clip_limits(e, node, &least, &most)) {
        unary_forward(e, node, VC_UNARY_CLIP, least, most);
    }
}

/* The gradient passes where the value was not cut. */
void vc_train_backward_clip(struct vc_engine *e, uint32_t node)
{
    double least, most;

    if (clip_limits(e, node, &least, &most)) {
        unary_backward(e, node, VC_UNARY_CLIP, least, most);
    }
}

/* ---- codes and back: the gradient goes through as if nothing were rounded ---- */

/* Instructions whose scale belongs to `size` elements side by side. */
static void codes(struct vc_engine *e, uint32_t node, struct vc_args_codes of, struct vc_ref *refs)
{
    struct vc_args_codes *args = vc_plan_args(e, sizeof *args);

    of.per_block = of.size >= VC_ELEMENTS_PER_BLOCK ? of.size : VC_ELEMENTS_PER_BLOCK / of.size * of.size;
    if (args != NULL) {
        *args = of;
        vc_plan_emit(e, node, VC_LOOP_codes, vc_plan_blocks(of.n, of.per_block), args, false, refs, 4);
    }
}

/* Rounded to codes and back in one loop, as quantized weights or values are. */
void vc_train_forward_fake_quantize(struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    bool is_f8 = strcmp(vc_node_string(n, "codes", "int8"), "f8_e4m3") == 0;
    int64_t size = vc_node_int(n, "size", 0);
    struct vc_args_codes args = {.n = x->n,
                                 .size = (uint64_t)(size != 0 ? size : x->shape[x->n_dims - 1]),
                                 .least = is_f8 ? -448 : -128,
                                 .most = is_f8 ? 448 : 127,
                                 .is_f8 = is_f8,
                                 .keeps_nan = true};
    struct vc_ref refs[4] = {vc_plan_data(e, node, 0), vc_plan_data(e, node, 1)};

    refs[3] = vc_plan_make(e, node, 0, true);
    codes(e, node, args, refs);
}

/* Straight through. */
void vc_train_backward_fake_quantize(struct vc_engine *e, uint32_t node)
{
    unary_backward(e, node, VC_UNARY_COPY, 1, 0);
}

/* True if the codes of this QuantizeLinear, with one scale, are read only by nodes that decode them as they
 * were made: then the floats are rounded in one step and no codes exist. */
static bool has_no_codes(const struct vc_engine *e, uint32_t q)
{
    const struct vc_plan_value *zero = vc_plan_in(e, q, 2);

    return !e->options.train && !(e->options.answers != NULL && e->options.answers->every) &&
           !vc_plan_asks_definition(e, q) && vc_plan_in(e, q, 1)->n == 1 && (zero == NULL || zero->n == 1) &&
           vc_node_int(vc_plan_node(e, q), "block_size", 0) == 0 && !vc_plan_out(e, q, 0)->fed &&
           !vc_plan_has_other_readers(e, vc_plan_node(e, q)->outputs[0], q);
}

/* QuantizeLinear and DequantizeLinear as one instruction for each decoder, where no codes need to exist.
 * True: the node is planned, or another one has done it. */
bool vc_plan_codes(struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    int64_t type = vc_node_int(n, "output_dtype", 0);
    struct vc_args_codes args = {.size = 256, .least = (double)vc_code_least(type), .most = (double)vc_code_most(type)};
    struct vc_ref refs[4];

    if (vc_node_is(n, VC_OP_dequantize)) {
        const struct vc_graph_value *codes = &e->graph->values[n->inputs[0]];

        return codes->kind == VC_VALUE_RESULT && vc_plan_decodes(e, node, codes->node) && has_no_codes(e, codes->node);
    }
    if (!vc_node_is(n, VC_OP_quantize) || !has_no_codes(e, node)) {
        return false;
    }
    args.n = vc_plan_in(e, node, 0)->n;
    for (unsigned k = 0; k < 3; k++) {
        refs[k] = vc_plan_data(e, node, k);
    }
    for (uint32_t of = node + 1; of <= vc_plan_out(e, node, 0)->last_reader; of++) {
        if (e->needed[of] && vc_plan_decodes(e, of, node)) {
            refs[3] = vc_plan_make(e, of, 0, false);
            codes(e, node, args, refs);
        }
    }
    return true;
}

/* ---- Dropout ---- */

/* The mask is not stored: forward and backward compute the same random numbers from seed, step, row and
 * node. */
static void dropout(struct vc_engine *e, uint32_t node, struct vc_ref from, struct vc_ref to, bool add)
{
    struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_args_dropout *args = vc_plan_args(e, sizeof *args);
    struct vc_ref refs[2] = {from, to};

    if (args == NULL) {
        return;
    }
    *args = (struct vc_args_dropout){
        .n = x->n, .per_row = x->n_dims == 0 ? 1 : x->n / (uint64_t)x->shape[0], .seed = e->options.seed};
    args->node = vc_plan_origin(e, node);
    if (!vc_plan_number(e, node, 1, 0.5, &args->ratio) || !(args->ratio >= 0 && args->ratio < 1)) {
        vc_plan_fail(e, node, "its ratio is no constant from 0 to below 1");
        return;
    }
    args->ratio = e->options.dropout ? args->ratio : 0;
    vc_plan_emit(e, node, VC_LOOP_dropout, vc_plan_blocks(x->n, VC_ELEMENTS_PER_BLOCK), args, add, refs, 2);
}

/* Without training the ratio is 0, and the loop copies. */
void vc_train_forward_dropout(struct vc_engine *e, uint32_t node)
{
    struct vc_ref from = vc_plan_data(e, node, 0);

    if (vc_plan_node(e, node)->n_outputs > 1 && vc_plan_out(e, node, 1) != NULL && vc_plan_out(e, node, 1)->made) {
        vc_plan_fail(e, node, "its mask is read, which is not supported");
        return;
    }
    dropout(e, node, from, vc_plan_make(e, node, 0, true), false);
}

/* The same random numbers say which elements were kept. */
void vc_train_backward_dropout(struct vc_engine *e, uint32_t node)
{
    struct vc_ref from = vc_plan_grad(e, node, 0);
    bool add;

    if (vc_plan_trained(e, node, 0)) {
        struct vc_ref to = vc_plan_grad_to(e, node, 0, true, &add);

        dropout(e, node, from, to, add);
    }
}

/* ---- two inputs that broadcast ---- */

enum pair { PAIR_ADD, PAIR_SUB, PAIR_MUL, PAIR_DIV, PAIR_MAX, PAIR_MIN, PAIR_PRELU };

/* An Add of a bias may join the product before it. */
static void pair_forward(struct vc_engine *e, uint32_t node, enum pair kind)
{
    static const enum vc_sum_kind kinds[] = {VC_SUM_A_PLUS_B, VC_SUM_A_MINUS_B, VC_SUM_A_TIMES_B, VC_SUM_A_OVER_B,
                                             VC_SUM_LARGER,   VC_SUM_SMALLER,   VC_SUM_PRELU};
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_strided s = {.kind = kinds[kind], .scale = 1, .n_dims = y->n_dims};

    if (!y->real) {
        vc_plan_fail(e, node, "it is computed from integers, which is not supported");
        return;
    }
    memcpy(s.shape, y->shape, sizeof s.shape);
    vc_plan_steps(y, y->n_dims, s.step[0]);
    for (unsigned k = 0; k < 2; k++) {
        vc_plan_steps(vc_plan_in(e, node, k), y->n_dims, s.step[1 + k]);
        s.refs[1 + k] = vc_plan_data(e, node, k);
    }
    s.refs[0] = vc_plan_make_pair(e, node);
    for (unsigned k = 0; kind == PAIR_ADD && k < 2; k++) {
        if (vc_plan_bias_joins(e, s.refs[0], y, s.refs[1 + k], s.step[1 + k])) {
            return;
        }
    }
    vc_plan_strided(e, node, &s, false);
}

/* The gradient of input k: a term for each element of the output, summed up where the input was broadcast.
 *     a + b: dy, dy      a - b: dy, -dy      a b: dy b, dy a      a / b: dy / b, -dy a / (b b)
 *     max(a, b): dy where a > b, dy where a < b, each half of it where they are equal, as PyTorch does
 *     PRelu(a, b): dy where a > 0, else dy b; a dy where a <= 0
 * dy may become the gradient of the first input itself, without an instruction. */
static void pair_gradient(struct vc_engine *e, uint32_t node, enum pair kind, unsigned k)
{
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    const struct vc_plan_value *x = vc_plan_in(e, node, k);
    struct vc_strided s = {.kind = VC_SUM_A, .scale = kind == PAIR_SUB && k == 1 ? -1 : 1, .n_dims = y->n_dims};
    bool over = x->n == y->n;
    bool add;

    memcpy(s.shape, y->shape, sizeof s.shape);
    vc_plan_steps(x, y->n_dims, s.step[0]);
    for (unsigned d = 0; d < y->n_dims; d++) {
        s.reduced[d] = y->shape[d] != 1 && s.step[0][d] == 0;
    }
    vc_plan_steps(y, y->n_dims, s.step[1]);
    s.refs[1] = vc_plan_grad(e, node, 0);
    if (kind == PAIR_MUL || (kind == PAIR_DIV && k == 0)) {
        s.kind = kind == PAIR_MUL ? VC_SUM_A_TIMES_B : VC_SUM_A_OVER_B;
        vc_plan_steps(vc_plan_in(e, node, 1 - k), y->n_dims, s.step[2]);
        s.refs[2] = vc_plan_data(e, node, 1 - k);
    } else if (kind != PAIR_ADD && kind != PAIR_SUB) {
        /* a / b by b; the smaller one as the larger of -b and -c; b is x of PRelu */
        static const enum vc_sum_kind kinds[][2] = {[PAIR_DIV] = {VC_SUM_QUOTIENT_D2, VC_SUM_QUOTIENT_D2},
                                                    [PAIR_MAX] = {VC_SUM_SHARE, VC_SUM_SHARE},
                                                    [PAIR_MIN] = {VC_SUM_SHARE, VC_SUM_SHARE},
                                                    [PAIR_PRELU] = {VC_SUM_PRELU_D1, VC_SUM_PRELU_D2}};
        bool same = kind == PAIR_MAX || (kind == PAIR_PRELU && k == 0);
        unsigned b = same ? k : 1 - k;

        s.kind = kinds[kind][k];
        for (unsigned v = 0; v < 2; v++) {
            unsigned of = v == 0 ? b : 1 - b;

            vc_plan_steps(vc_plan_in(e, node, of), y->n_dims, s.step[2 + v]);
            s.refs[2 + v] = vc_plan_data(e, node, of);
        }
    }
    s.refs[0] = vc_plan_grad_to(e, node, k, over && k == 0, &add);
    if (s.refs[0].kind == VC_REF_ARENA && s.refs[0].index == s.refs[1].index && !add && s.kind == VC_SUM_A) {
        return; /* it is the gradient of the output itself */
    }
    vc_plan_strided(e, node, &s, add);
}

/* The second input first: the gradient of the first may take the place of dy, which then is gone. */
static void pair_backward(struct vc_engine *e, uint32_t node, enum pair kind)
{
    for (unsigned k = 2; k-- > 0;) {
        if (vc_plan_trained(e, node, k)) {
            pair_gradient(e, node, kind, k);
        }
    }
}

VC_TRAIN_OP(add, pair, PAIR_ADD)
VC_TRAIN_OP(sub, pair, PAIR_SUB)
VC_TRAIN_OP(div, pair, PAIR_DIV)
VC_TRAIN_OP(max, pair, PAIR_MAX)
VC_TRAIN_OP(min, pair, PAIR_MIN)
VC_TRAIN_OP(prelu, pair, PAIR_PRELU)

/* x times Sigmoid(x) is one operator, Swish, where nobody else reads the Sigmoid. */
void vc_train_forward_mul(struct vc_engine *e, uint32_t node)
{
    if (vc_plan_is_swish(e, node)) {
        unary_forward(e, node, VC_UNARY_SWISH, 0, 0);
    } else {
        pair_forward(e, node, PAIR_MUL);
    }
}

/* The same choice as in the forward pass. */
void vc_train_backward_mul(struct vc_engine *e, uint32_t node)
{
    if (vc_plan_is_swish(e, node)) {
        unary_backward(e, node, VC_UNARY_SWISH, 0, 0);
    } else {
        pair_backward(e, node, PAIR_MUL);
    }
}

/* ---- sums and means along axes ---- */

/* Which dimensions are summed, and the factor of each term: 1 for sums, 1 / number of terms for means.
 * False after a problem. */
static bool reduce_axes(struct vc_engine *e, uint32_t node, bool *reduced, double *scale)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    int64_t axes[VC_GRAPH_MAX_DIMS];
    double terms = 1;
    size_t n_axes;

    if (!x->real || !vc_plan_ints(e, node, 1, axes, VC_GRAPH_MAX_DIMS, &n_axes)) {
        vc_plan_fail(e, node,
                     x->real ? "its axes are computed; constants are needed"
                             : "it is computed from integers, which is not supported");
        return false;
    }
    for (unsigned k = 0; k < x->n_dims; k++) {
        reduced[k] = vc_node_is(n, VC_OP_global_average_pool)
                         ? k >= 2
                         : n_axes == 0 && vc_node_int(n, "noop_with_empty_axes", 0) == 0;
    }
    for (size_t k = 0; k < n_axes; k++) {
        reduced[vc_plan_axis(axes[k], x->n_dims)] = true;
    }
    for (unsigned k = 0; k < x->n_dims; k++) {
        terms *= reduced[k] ? (double)x->shape[k] : 1;
    }
    *scale = vc_node_is(n, VC_OP_reduce_sum) ? 1 : 1 / terms;
    return true;
}

/* The steps of the result along the dimensions of x. */
static void reduced_steps(const struct vc_plan_value *x, const bool *reduced, int64_t *step)
{
    int64_t all = 1;

    for (unsigned k = x->n_dims; k-- > 0;) {
        step[k] = reduced[k] ? 0 : all;
        all *= reduced[k] ? 1 : x->shape[k];
    }
}

/* A strided sum: the result has a step of 0 along what is summed. */
void vc_train_forward_reduce_sum(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_strided s = {.kind = VC_SUM_A, .n_dims = x->n_dims};

    if (!reduce_axes(e, node, s.reduced, &s.scale)) {
        return;
    }
    memcpy(s.shape, x->shape, sizeof s.shape);
    reduced_steps(x, s.reduced, s.step[0]);
    vc_plan_steps(x, x->n_dims, s.step[1]);
    s.refs[1] = vc_plan_data(e, node, 0);
    s.refs[0] = vc_plan_make(e, node, 0, false);
    vc_plan_strided(e, node, &s, false);
}

/* Each element gets the gradient of the sum that it is in. */
void vc_train_backward_reduce_sum(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_strided s = {.kind = VC_SUM_A, .n_dims = x->n_dims};
    bool reduced[VC_GRAPH_MAX_DIMS], add;

    if (!x->trained || !reduce_axes(e, node, reduced, &s.scale)) {
        return;
    }
    memcpy(s.shape, x->shape, sizeof s.shape);
    vc_plan_steps(x, x->n_dims, s.step[0]);
    reduced_steps(x, reduced, s.step[1]);
    s.refs[1] = vc_plan_grad(e, node, 0);
    s.refs[0] = vc_plan_grad_to(e, node, 0, false, &add);
    vc_plan_strided(e, node, &s, add);
}

VC_TRAIN_SAME(reduce_mean, reduce_sum)
VC_TRAIN_SAME(global_average_pool, reduce_sum)

/* ---- the largest and the smallest along axes ---- */

/* refs[1] = the largest of n elements that are `inner` apart, of each of `planes` times `inner`: a pool. */
static void largest(struct vc_engine *e, uint32_t node, uint64_t planes, int64_t n, int64_t inner,
                    const struct vc_ref refs[3])
{
    struct vc_args_window *args = vc_plan_args(e, sizeof *args);

    if (n > UINT32_MAX) {
        vc_plan_fail(e, node, "its window is too large");
    }
    if (args != NULL) {
        *args = (struct vc_args_window){.planes = planes,
                                        .in = {1, n, inner},
                                        .out = {1, 1, inner},
                                        .kernel = {1, n, 1},
                                        .stride = {1, 1, 1},
                                        .dilation = {1, 1, 1}};
        vc_plan_emit(e, node, VC_LOOP_max_pool, (size_t)planes, args, false, refs, 3);
    }
}

/* y = f x, n elements. */
static void times(struct vc_engine *e, uint32_t node, double f, struct vc_ref x, struct vc_ref y, uint64_t n)
{
    struct vc_strided s = {
        .kind = VC_SUM_A, .scale = f, .n_dims = 1, .shape = {(int64_t)n}, .step = {{1}, {1}}, .refs = {y, x}};

    vc_plan_strided(e, node, &s, false);
}

/* Axis by axis. The smallest is the largest of -x, turned again. sign: 1, or -1 for the smallest. */
static void along_forward(struct vc_engine *e, uint32_t node, double sign)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    struct vc_ref refs[3] = {vc_plan_data(e, node, 0)};
    bool reduced[VC_GRAPH_MAX_DIMS];
    uint64_t planes = 1;
    double scale;

    if (!reduce_axes(e, node, reduced, &scale)) {
        return;
    }
    if (sign < 0) {
        refs[1] = vc_plan_reals(e, x->n);
        times(e, node, sign, refs[0], refs[1], x->n);
        refs[0] = refs[1];
    }
    for (unsigned k = 0; k < x->n_dims; k++) {
        uint64_t inner = vc_plan_count(x, k + 1, x->n_dims);

        if (reduced[k]) {
            refs[1] = vc_plan_reals(e, planes * inner);
            largest(e, node, planes, x->shape[k], (int64_t)inner, refs);
            refs[0] = refs[1];
        } else {
            planes *= (uint64_t)x->shape[k];
        }
    }
    times(e, node, sign, refs[0], vc_plan_make(e, node, 0, false), planes);
}

/* All that are as large as the largest share its gradient, as in PyTorch's amax. VC_SUM_SHARE gives each of them a half:
 *
 *     half = sum of (1 where x is y) / 2      dx = (dy / half where x is y) / 2 */
static void along_backward(struct vc_engine *e, uint32_t node, double sign)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_strided s = {.kind = VC_SUM_SHARE, .n_dims = x->n_dims};
    unsigned of_x = sign < 0 ? 3 : 2;
    bool add;

    if (!x->trained || !reduce_axes(e, node, s.reduced, &s.scale)) {
        return;
    }
    struct vc_ref half = vc_plan_reals(e, y->n);
    struct vc_strided share = {.kind = VC_SUM_A_OVER_B,
                               .scale = 1,
                               .n_dims = 1,
                               .shape = {(int64_t)y->n},
                               .step = {{1}, {1}, {1}},
                               .refs = {half, vc_plan_grad(e, node, 0), half}};
    s.scale = 1;
    memcpy(s.shape, x->shape, sizeof s.shape);
    vc_plan_steps(x, x->n_dims, s.step[of_x]);
    reduced_steps(x, s.reduced, s.step[5 - of_x]);
    reduced_steps(x, s.reduced, s.step[0]);
    s.refs[0] = half;
    s.refs[1] = vc_plan_reals(e, 1);
    s.refs[of_x] = vc_plan_data(e, node, 0);
    s.refs[5 - of_x] = y->data;
    vc_plan_fill(e, node, s.refs[1], 1, 1);
    vc_plan_strided(e, node, &s, false);
    vc_plan_strided(e, node, &share, false);
    memcpy(s.step[1], s.step[0], sizeof s.step[1]);
    memset(s.reduced, 0, sizeof s.reduced);
    vc_plan_steps(x, x->n_dims, s.step[0]);
    s.refs[1] = half;
    s.refs[0] = vc_plan_grad_to(e, node, 0, false, &add);
    vc_plan_strided(e, node, &s, add);
}

VC_TRAIN_OP(reduce_max, along, 1)
VC_TRAIN_OP(reduce_min, along, -1)

/* ---- Softmax ---- */

/* Rows along the axis, whose elements are `inner` apart. */
static struct vc_args_softmax *softmax_args(struct vc_engine *e, uint32_t node, bool logarithm)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    unsigned axis = vc_plan_axis(vc_node_int(vc_plan_node(e, node), "axis", -1), x->n_dims);
    struct vc_args_softmax *args = vc_plan_args(e, sizeof *args);

    if (args != NULL) {
        args->size = (uint64_t)x->shape[axis];
        args->inner = vc_plan_count(x, axis + 1, x->n_dims);
        args->rows = x->n / args->size;
        args->rows_per_block = args->size >= VC_ELEMENTS_PER_BLOCK ? 1 : VC_ELEMENTS_PER_BLOCK / args->size;
        args->logarithm = logarithm;
    }
    return args;
}

/* May write over its input, as each row is read before it is written. */
static void softmax_forward(struct vc_engine *e, uint32_t node, bool logarithm)
{
    struct vc_args_softmax *args = softmax_args(e, node, logarithm);
    struct vc_ref refs[2];

    if (args != NULL) {
        refs[0] = vc_plan_data(e, node, 0);
        refs[1] = vc_plan_make(e, node, 0, true);
        vc_plan_emit(e, node, VC_LOOP_softmax, vc_plan_blocks(args->rows, args->rows_per_block), args, false, refs, 2);
    }
}

/* From the result alone: the input is not needed. */
static void softmax_backward(struct vc_engine *e, uint32_t node, bool logarithm)
{
    struct vc_args_softmax *args = softmax_args(e, node, logarithm);
    struct vc_ref refs[3];
    bool add;

    if (args != NULL && vc_plan_trained(e, node, 0)) {
        refs[0] = vc_plan_out(e, node, 0)->data;
        refs[1] = vc_plan_grad(e, node, 0);
        refs[2] = vc_plan_grad_to(e, node, 0, true, &add);
        vc_plan_emit(e, node, VC_LOOP_softmax_backward, vc_plan_blocks(args->rows, args->rows_per_block), args, add,
                     refs, 3);
    }
}

VC_TRAIN_OP(softmax, softmax, false)
VC_TRAIN_OP(log_softmax, softmax, true)
