/* plan_recurrent.c - RNN, GRU and LSTM: products over all steps at once, and one loop between them that goes from step to
 * step (train_recurrent.h):
 *
 *     forward   gates = x w'       the loop: sums of the state, functions; y, last state, last cell
 *     backward  the loop: ds       dx = ds w    dw = ds' x    dr = ds' before    db = sums of ds    dp, dfirst
 *
 * Saved are the gates, the state before each step, and what `kept` says, in one array, work. */
#include "engine/plan_ops.h"
#include "graph/ops/recurrent.h"

#define RECURRENT_REFS 11 /* of the loops, train_args.h */

/* ---- what a node is ---- */

/* The sizes of a node: all of them are known when the program is made.
 * `directions` is 1 or 2; their weights and states lie one behind the other. */
struct recurrent {
    uint64_t n, steps, rows, width, hidden, directions, wide; /* n = steps * rows; wide = gates * hidden */
    unsigned gates;
    bool rows_first, resets_last;
};

/* Sizes from the shapes of x and r: [steps, rows, width], or with rows first, and [directions, gates *
 * hidden, hidden]. */
static struct recurrent of_node(const struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const struct vc_plan_value *r = vc_plan_in(e, node, 2);
    struct recurrent is = {.rows_first = vc_node_int(n, "layout", 0) != 0,
                           .resets_last = vc_node_int(n, "linear_before_reset", 0) != 0,
                           .gates = vc_recurrent_gates(n),
                           .width = (uint64_t)x->shape[2],
                           .hidden = (uint64_t)r->shape[2],
                           .directions = (uint64_t)r->shape[0]};

    is.steps = (uint64_t)x->shape[is.rows_first ? 1 : 0];
    is.rows = (uint64_t)x->shape[is.rows_first ? 0 : 1];
    is.n = is.steps * is.rows;
    is.wide = is.gates * is.hidden;
    return is;
}

/* A slope is said by what a function made (unary_recurrent.inc), which a falling branch makes ambiguous. */
static bool check_functions(struct vc_engine *e, uint32_t node, const struct vc_recurrent_function *functions,
                            unsigned n)
{
    for (unsigned k = 0; k < n; k++) {
        bool bent = functions[k].kind == VC_RECURRENT_LEAKY_RELU || functions[k].kind == VC_RECURRENT_ELU;

        if (bent && functions[k].a < 0) {
            vc_plan_fail(e, node, "its activation has an alpha below 0, which cannot be trained");
            return false;
        }
    }
    return true;
}

/* `trains`: there is a backward loop, or will be.
 * A tile is as many rows as give each thread one tile of each direction, or nearly so. */
static struct vc_args_recurrent *loop_args(struct vc_engine *e, uint32_t node, const struct recurrent *is, bool trains)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    struct vc_args_recurrent *args = vc_plan_args(e, sizeof *args);
    struct vc_recurrent_function functions[VC_RECURRENT_FUNCTIONS];
    unsigned n_functions = vc_recurrent_direction_functions(n) * (unsigned)is->directions;
    uint64_t threads = vc_plan_blocks(e->n_workers, is->directions); /* 1 on a device */

    (void)vc_recurrent_functions(n, functions);
    if (args == NULL || (trains && !check_functions(e, node, functions, n_functions))) {
        return NULL;
    }
    *args = (struct vc_args_recurrent){.steps = is->steps,
                                       .rows = is->rows,
                                       .directions = is->directions,
                                       .hidden = is->hidden,
                                       .gates = is->gates,
                                       .resets_last = is->resets_last,
                                       .couples = vc_node_int(n, "input_forget", 0) != 0,
                                       .rows_first = is->rows_first,
                                       .keeps = trains,
                                       .clip = vc_node_float(n, "clip", 0),
                                       .kept = is->n * is->directions * is->wide,
                                       .tile = vc_plan_blocks(is->rows, threads)};
    for (unsigned k = 0; k < n_functions; k++) {
        args->functions[k].kind = functions[k].kind;
        args->functions[k].a = functions[k].a;
        args->functions[k].b = functions[k].b;
    }
    for (unsigned d = 0; d < is->directions; d++) {
        args->reverse[d] = vc_recurrent_is_reverse(n, d);
    }
    args->before = args->kept + (is->gates != 1 ? is->n * is->directions * is->hidden : 0);
    args->tiles = vc_plan_blocks(is->rows, args->tile);
    args->scratch = vc_recurrent_scratch(args->tile, is->gates, is->hidden);
    return args;
}

/* The array of the node, which any of its outputs has. */
static struct vc_ref *work_of(const struct vc_engine *e, uint32_t node)
{
    unsigned k = 0;

    while (vc_plan_out(e, node, k) == NULL) {
        k++;
    }
    return &vc_plan_out(e, node, k)->extra;
}

static void emit_loop(struct vc_engine *e, uint32_t node, enum vc_train_loop_id loop,
                      const struct vc_args_recurrent *args, const struct vc_ref *refs)
{
    vc_plan_emit(e, node, loop, (size_t)(args->tiles * args->directions), args, false, refs, RECURRENT_REFS);
}

/* ---- lengths ---- */

/* What the check of lengths needs. */
struct lengths {
    struct vc_engine *e;
    uint32_t node;
    uint64_t rows, steps;
};

/* p: the lengths, and one number that nobody reads. A length below 0 or above the number of steps ends the pass; the
 * message names the first row that has one. */
static void check_lengths(const struct vc_train_call *call, const struct vc_engine_pass *pass, unsigned worker,
                          size_t block)
{
    const struct lengths *l = call->args;
    const int64_t *lengths = call->p[0];
    const struct vc_graph_node *n = vc_plan_node(l->e, l->node);

    *(int64_t *)call->p[1] = 0;
    for (uint64_t i = 0; i < l->rows && l->e->define_status == VC_OK; i++) {
        if (lengths[i] < 0 || (uint64_t)lengths[i] > l->steps) {
            l->e->define_status = vc_fail(&l->e->define_ctx, VC_E_FORMAT,
                                          "%s '%s': row %llu of the batch has the length %lld; there are %llu steps",
                                          n->op, n->name[0] != '\0' ? n->name : l->e->graph->values[n->outputs[0]].name,
                                          (unsigned long long)i, (long long)lengths[i], (unsigned long long)l->steps);
        }
    }
}

/* Lengths are data: only a pass can see that one of them is wrong. */
static void add_check(struct vc_engine *e, uint32_t node, const struct recurrent *is, struct vc_ref lengths)
{
    struct lengths *args = vc_plan_args(e, sizeof *args);
    struct vc_ref refs[2] = {lengths, {0}};

    if (args != NULL && lengths.kind != VC_REF_NONE) {
        *args = (struct lengths){e, node, is->rows, is->steps};
        refs[1] = vc_plan_buffer(e, 1, sizeof(int64_t));
        vc_plan_emit_run(e, node, check_lengths, args, refs, 2, 1);
    }
}

/* ---- forward ---- */

/* The product of x with all weights comes first, for all steps at once: [steps * rows, width] x [width,
 * directions * wide]. The loop then adds what each step's state brings, in its place.
 * The work array is as large as a backward pass needs only if there will be one. */
static void forward(struct vc_engine *e, uint32_t node)
{
    struct recurrent is = of_node(e, node);
    bool trains = false;
    struct vc_ref refs[RECURRENT_REFS] = {{0}};
    struct vc_ref *work = work_of(e, node);
    struct vc_plan_product sums = {.m = is.n,
                                   .n = is.directions * is.wide,
                                   .k = is.width,
                                   .n_stack = 1,
                                   .a = {(int64_t)is.width, 1},
                                   .b = {1, (int64_t)is.width},
                                   .c_row = (int64_t)(is.directions * is.wide)};

    for (unsigned k = 0; k < vc_plan_node(e, node)->n_outputs; k++) {
        trains = trains || (vc_plan_out(e, node, k) != NULL && vc_plan_out(e, node, k)->trained);
    }
    struct vc_args_recurrent *args = loop_args(e, node, &is, trains);
    if (args == NULL) {
        return;
    }
    *work = vc_plan_reals(e, trains ? args->before + is.n * is.directions * is.hidden : args->kept);
    {
        struct vc_ref x = vc_plan_data(e, node, 0);

        vc_plan_product(e, node, &sums, x, vc_plan_data(e, node, 1), *work, false);
    }
    refs[0] = *work;
    refs[1] = vc_plan_data(e, node, 2);
    refs[2] = vc_plan_data(e, node, 3);
    refs[3] = vc_plan_data(e, node, 7);
    refs[4] = vc_plan_data(e, node, 4);
    refs[5] = vc_plan_data(e, node, 5);
    refs[6] = vc_plan_data(e, node, 6);
    add_check(e, node, &is, refs[4]);
    for (unsigned k = 0; k < 3; k++) {
        if (vc_plan_out(e, node, k) != NULL && vc_plan_out(e, node, k)->made) {
            refs[7 + k] = vc_plan_make(e, node, k, false);
        }
    }
    refs[10] = vc_plan_scratch(e, args->scratch);
    emit_loop(e, node, VC_LOOP_recurrent, args, refs);
}

/* ---- backward ---- */

/* Columns of an array, or of a gradient: `row` of them belong to a direction; the first is at `at`. */
struct columns {
    struct vc_ref ref;
    uint64_t at, row;
};

/* to = or += the sum of n rows of `from`, for `count` columns of each direction. */
static void sum_columns(struct vc_engine *e, uint32_t node, const struct recurrent *is, struct columns from, uint64_t n,
                        uint64_t count, struct columns to, bool add)
{
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = 3, .reduced = {false, false, true}};

    s.shape[0] = (int64_t)is->directions;
    s.shape[1] = (int64_t)count;
    s.shape[2] = (int64_t)n;
    s.step[0][0] = (int64_t)to.row;
    s.step[1][0] = (int64_t)from.row;
    s.step[0][1] = s.step[1][1] = 1;
    s.step[1][2] = (int64_t)(from.row * is->directions);
    s.base[0] = (int64_t)to.at;
    s.base[1] = (int64_t)from.at;
    s.refs[0] = to.ref;
    s.refs[1] = from.ref;
    vc_plan_strided(e, node, &s, add);
}

/* Input k is written where it is the first of its gradient, so that sums can be added to it. */
static struct vc_ref cleared_grad(struct vc_engine *e, uint32_t node, unsigned k)
{
    bool add;
    struct vc_ref to = vc_plan_grad_to(e, node, k, false, &add);

    if (!add) {
        vc_plan_fill(e, node, to, vc_plan_in(e, node, k)->n, 0);
    }
    return to;
}

/* Sums over the rows of what the loop has summed over their steps, from `by_row` on. ONNX has two biases for each gate,
 * which are only ever added to each other: both have the same sums, which are made once, but for the state's part of the
 * new one with resets_last. */
static void bias_gradient(struct vc_engine *e, uint32_t node, const struct recurrent *is,
                          const struct vc_args_recurrent *args, struct vc_ref by_row)
{
    bool apart = is->gates == 3 && is->resets_last;
    uint64_t wide = is->wide;
    uint64_t all = is->rows * is->directions;
    struct vc_ref to = cleared_grad(e, node, 3);
    struct columns sums = {vc_plan_reals(e, is->directions * wide), 0, wide};

    sum_columns(e, node, is, (struct columns){by_row, args->sums, wide}, is->rows, wide, sums, false);
    sum_columns(e, node, is, sums, 1, wide, (struct columns){to, 0, 2 * wide}, true);
    sum_columns(e, node, is, sums, 1, apart ? wide / 3 * 2 : wide, (struct columns){to, wide, 2 * wide}, true);
    if (apart) {
        sum_columns(e, node, is, (struct columns){by_row, args->sums + all * wide, is->hidden}, is->rows, is->hidden,
                    (struct columns){to, wide + 2 * is->hidden, 2 * wide}, true);
    }
}

/* dr: of `rows` of each direction from `at` on, the gradients `ds` by what they were multiplied with, `by`. */
static void state_gradient(struct vc_engine *e, uint32_t node, const struct recurrent *is, struct vc_ref work,
                           struct vc_ref to, bool add, uint64_t at, uint64_t rows, uint64_t ds, uint64_t ds_row,
                           uint64_t by)
{
    struct vc_plan_product p = {.m = rows,
                                .n = is->hidden,
                                .k = is->n,
                                .n_stack = is->directions,
                                .a = {1, (int64_t)(is->directions * ds_row)},
                                .b = {(int64_t)(is->directions * is->hidden), 1},
                                .c_row = (int64_t)is->hidden,
                                .a_at = ds,
                                .b_at = by,
                                .c_at = at * is->hidden,
                                .a_step = ds_row,
                                .b_step = is->hidden,
                                .c_step = is->wide * is->hidden};

    vc_plan_product(e, node, &p, work, work, to, add);
}

/* Of the weights of the state: for GRU in two products, since the third gate's weights were multiplied with
 * something else. */
static void state_gradients(struct vc_engine *e, uint32_t node, const struct recurrent *is,
                            const struct vc_args_recurrent *args, struct vc_ref work)
{
    uint64_t two = 2 * is->hidden;
    bool add;
    struct vc_ref to = vc_plan_grad_to(e, node, 2, false, &add);

    if (is->gates != 3) {
        state_gradient(e, node, is, work, to, add, 0, is->wide, 0, is->wide, args->before);
        return;
    }
    state_gradient(e, node, is, work, to, add, 0, two, 0, is->wide, args->before);
    if (is->resets_last) {
        state_gradient(e, node, is, work, to, add, two, is->hidden, args->kept, is->hidden, args->before);
    } else {
        state_gradient(e, node, is, work, to, add, two, is->hidden, two, is->wide, args->kept);
    }
}

/* What the products over all steps make of the gradients of the sums. */
static void input_gradients(struct vc_engine *e, uint32_t node, const struct recurrent *is, struct vc_ref work)
{
    uint64_t all = is->directions * is->wide;
    struct vc_plan_product dw = {.m = all,
                                 .n = is->width,
                                 .k = is->n,
                                 .n_stack = 1,
                                 .a = {1, (int64_t)all},
                                 .b = {(int64_t)is->width, 1},
                                 .c_row = (int64_t)is->width};
    struct vc_plan_product dx = {.m = is->n,
                                 .n = is->width,
                                 .k = all,
                                 .n_stack = 1,
                                 .a = {(int64_t)all, 1},
                                 .b = {(int64_t)is->width, 1},
                                 .c_row = (int64_t)is->width};
    struct vc_ref data;
    struct vc_ref to;
    bool add;

    if (vc_plan_trained(e, node, 1)) {
        data = vc_plan_data(e, node, 0);
        to = vc_plan_grad_to(e, node, 1, false, &add);
        vc_plan_product(e, node, &dw, work, data, to, add);
    }
    if (vc_plan_trained(e, node, 0)) {
        data = vc_plan_data(e, node, 1);
        to = vc_plan_grad_to(e, node, 0, false, &add);
        vc_plan_product(e, node, &dx, work, data, to, add);
    }
}

/* Input k += n elements of `from`, from `at` on: `parts` of them, one behind the other, are summed up. */
static void add_to_input(struct vc_engine *e, uint32_t node, unsigned k, struct vc_ref from, uint64_t at,
                         uint64_t parts)
{
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = 2, .reduced = {false, true}};
    uint64_t n;
    bool add;

    if (vc_plan_trained(e, node, k)) {
        n = vc_plan_in(e, node, k)->n;
        s.shape[0] = (int64_t)n;
        s.shape[1] = (int64_t)parts;
        s.step[0][0] = s.step[1][0] = 1;
        s.step[1][1] = (int64_t)n;
        s.base[1] = (int64_t)at;
        s.refs[0] = vc_plan_grad_to(e, node, k, false, &add);
        s.refs[1] = from;
        vc_plan_strided(e, node, &s, add);
    }
}

/* The loop leaves the gradients of the sums in the place of the gates; everything else is products and sums
 * of these over all steps at once.
 * refs[9]: the gradients of peepholes and biases of each row, which are summed up. */
static void backward(struct vc_engine *e, uint32_t node)
{
    struct recurrent is = of_node(e, node);
    struct vc_args_recurrent *args = loop_args(e, node, &is, true);
    uint64_t states = is.directions * is.rows * is.hidden;
    struct vc_ref work = *work_of(e, node);
    struct vc_ref refs[RECURRENT_REFS] = {{0}};

    if (args == NULL) {
        return;
    }
    refs[0] = work;
    refs[1] = vc_plan_data(e, node, 2);
    refs[2] = vc_plan_data(e, node, 7);
    refs[3] = vc_plan_data(e, node, 4);
    refs[4] = vc_plan_data(e, node, 6);
    for (unsigned k = 0; k < 3; k++) {
        refs[5 + k] = vc_plan_grad(e, node, k);
    }
    if (vc_plan_trained(e, node, 5) || vc_plan_trained(e, node, 6)) {
        refs[8] = vc_plan_reals(e, 2 * states);
    }
    args->biases = vc_plan_trained(e, node, 3);
    args->sums = vc_plan_trained(e, node, 7) ? is.rows * is.directions * 3 * is.hidden : 0;
    if (args->biases || args->sums != 0) {
        uint64_t each = is.wide + (is.gates == 3 && is.resets_last ? is.hidden : 0); /* no more than the loop writes */

        refs[9] = vc_plan_reals(e, args->sums + (args->biases ? is.rows * is.directions * each : 0));
    }
    refs[10] = vc_plan_scratch(e, args->scratch);
    emit_loop(e, node, VC_LOOP_recurrent_backward, args, refs);
    if (vc_plan_trained(e, node, 2)) {
        state_gradients(e, node, &is, args, work);
    }
    if (vc_plan_trained(e, node, 3)) {
        bias_gradient(e, node, &is, args, refs[9]);
    }
    add_to_input(e, node, 5, refs[8], 0, 1);
    add_to_input(e, node, 6, refs[8], states, 1);
    add_to_input(e, node, 7, refs[9], 0, is.rows);
    input_gradients(e, node, &is, work);
}

#define RECURRENT(id)                                               \
    void vc_train_forward_##id(struct vc_engine *e, uint32_t node)  \
    {                                                               \
        forward(e, node);                                           \
    }                                                               \
    void vc_train_backward_##id(struct vc_engine *e, uint32_t node) \
    {                                                               \
        backward(e, node);                                          \
    }
RECURRENT(rnn)
RECURRENT(gru)
RECURRENT(lstm)
