/* loops_recurrent.h - part of op_loops.h: RNN, GRU and LSTM, a row and a step behind the other.
 *
 * Sizes: `width` numbers of input for each step, `hidden` numbers of state, `gates` 1, 3 or 4. Weights are
 * as ONNX has them, for each direction:
 *
 *     w           [gates * hidden, width]      of the input
 *     r           [gates * hidden, hidden]     of the state
 *     bias        [2 * gates * hidden]         those of w, then those of r
 *     peepholes   [3 * hidden]                 i, o, f; LSTM only
 *
 *     rows of w and r, `hidden` each:   RNN  h        GRU  z, r, n        LSTM  i, o, f, c
 *
 * One row (sequence of a batch) is computed from its first to its last step before the next one begins; its
 * state and cell lie in `room`. A backward direction reads the steps of the row from its own end: a row
 * that is shorter than the others is reversed within its length.
 *
 *     length 3 of 5 steps, backward: step 2, 1, 0; steps 3 and 4 of the output are 0
 *
 * These loops are plain and slow; the engine has faster ones. */

/* What a step needs. The pointers to weights are those of one direction, and `sums` has gates * hidden
 * elements. */
struct recurrent {
    const REAL *w, *r, *bias, *peepholes; /* of one direction; NULL if there are none of the last two */
    int64_t width, hidden;
    unsigned gates;
    const struct vc_recurrent_function *functions; /* of the direction */
    REAL clip;                                     /* 0: none */
    bool couples;                                  /* LSTM: the forget gate is 1 - the input gate */
    bool resets_last;   /* GRU: the reset gate is for the product with the state, bias and all */
    REAL *sums, *h, *c; /* of one row: before the functions; state; cell */
};

/* A function by its kind. The values are one table for these loops and for the kernels
 * (unary_recurrent.inc), whose rows read x, a and b. */
static REAL recurrent_function(const struct vc_recurrent_function *function, REAL x)
{
    REAL a = (REAL)function->a;
    REAL b = (REAL)function->b;

    switch (function->kind) {
#define FUNCTION(KIND, word, alpha, beta, value, slope) \
    case VC_RECURRENT_##KIND:                           \
        return value;
#include "kernels/unary_recurrent.inc"
#undef FUNCTION
    default:
        return x;
    }
}

/* Number k of the functions, of x within the clip.
 * The clip is applied to what goes into a function, at every function but that of the cell. */
static REAL recurrent_gate(const struct recurrent *n, unsigned k, REAL x)
{
    if (n->clip != 0) {
        x = x < -n->clip ? -n->clip : x > n->clip ? n->clip : x;
    }
    return recurrent_function(&n->functions[k], x);
}

/* A sum from front to back. */
static REAL recurrent_dot(const REAL *a, const REAL *b, int64_t n)
{
    REAL sum = 0;

    for (int64_t k = 0; k < n; k++) {
        sum += a[k] * b[k];
    }
    return sum;
}

/* Row j of a product with the state, and its bias.
 * The second half of the bias belongs to the state. */
static REAL recurrent_of_state(const struct recurrent *n, const REAL *h, int64_t j)
{
    int64_t rows = n->gates * n->hidden;

    return recurrent_dot(h, n->r + j * n->hidden, n->hidden) + (n->bias != NULL ? n->bias[rows + j] : 0);
}

/* Row j of the product with the input, and its bias. */
static REAL recurrent_of_input(const struct recurrent *n, const REAL *x, int64_t j)
{
    return recurrent_dot(x, n->w + j * n->width, n->width) + (n->bias != NULL ? n->bias[j] : 0);
}

/* Rows first to end - 1 of both products together: what goes into the functions. */
static void recurrent_sums(const struct recurrent *n, const REAL *x, int64_t first, int64_t end)
{
    for (int64_t j = first; j < end; j++) {
        n->sums[j] = recurrent_of_input(n, x, j) + recurrent_of_state(n, n->h, j);
    }
}

/* H = f(x W + h R + b)
 * All sums are made before the first number of the state changes. */
static void rnn_step(const struct recurrent *n, const REAL *x)
{
    recurrent_sums(n, x, 0, n->hidden);
    for (int64_t j = 0; j < n->hidden; j++) {
        n->h[j] = recurrent_gate(n, 0, n->sums[j]);
    }
}

/* z, r: gates;  n = g(x W + (r h) R + b), or g(x W + b + r (h R + b));  H = (1 - z) n + z h
 * `c` has no meaning in a GRU and holds r * h here. */
static void gru_step(const struct recurrent *n, const REAL *x)
{
    int64_t size = n->hidden;
    REAL *z = n->sums;
    REAL *r = n->sums + size;
    REAL *news = n->sums + 2 * size;

    recurrent_sums(n, x, 0, 2 * size);
    for (int64_t j = 0; j < 2 * size; j++) {
        n->sums[j] = recurrent_gate(n, 0, n->sums[j]);
    }
    for (int64_t j = 0; j < size; j++) {
        n->c[j] = r[j] * n->h[j];
    }
    for (int64_t j = 0; j < size; j++) {
        REAL of_state = n->resets_last ? r[j] * recurrent_of_state(n, n->h, 2 * size + j)
                                       : recurrent_of_state(n, n->c, 2 * size + j);

        news[j] = recurrent_gate(n, 1, recurrent_of_input(n, x, 2 * size + j) + of_state);
    }
    for (int64_t j = 0; j < size; j++) {
        n->h[j] = (1 - z[j]) * news[j] + z[j] * n->h[j];
    }
}

/* i, o, f: gates, with peepholes at the cell;  C = f c + i g(x W + h R + b);  H = o h(C)
 * The output gate sees the new cell, i and f the old one. Elements of the cell are independent of each
 * other, so that one loop can do all. */
static void lstm_step(const struct recurrent *n, const REAL *x)
{
    int64_t size = n->hidden;
    const REAL *p = n->peepholes;

    recurrent_sums(n, x, 0, 4 * size);
    for (int64_t j = 0; j < size; j++) {
        REAL i = recurrent_gate(n, 0, n->sums[j] + (p != NULL ? p[j] * n->c[j] : 0));
        REAL f = n->couples ? 1 - i
                            : recurrent_gate(n, 0, n->sums[2 * size + j] + (p != NULL ? p[2 * size + j] * n->c[j] : 0));

        n->c[j] = f * n->c[j] + i * recurrent_gate(n, 1, n->sums[3 * size + j]);
        n->h[j] = recurrent_gate(n, 0, n->sums[size + j] + (p != NULL ? p[size + j] * n->c[j] : 0)) *
                  recurrent_function(&n->functions[2], n->c[j]);
    }
}

/* One step by the number of gates. */
static void recurrent_step(const struct recurrent *n, const REAL *x)
{
    switch (n->gates) {
    case 4:
        lstm_step(n, x);
        break;
    case 3:
        gru_step(n, x);
        break;
    default:
        rnn_step(n, x);
        break;
    }
}

/* The elements of an input, NULL where it is left out. */
static const REAL *recurrent_input(const struct vc_run *run, unsigned k)
{
    return k < run->n_in && run->in[k] != NULL ? run->in[k]->data : NULL;
}

/* How many steps the row has: all of them, or by input 4 (sequence_lens). -1: the number is not possible,
 * and the run has failed. */
static int64_t recurrent_length(struct vc_run *run, int64_t row, int64_t steps)
{
    const int64_t *lengths = run->n_in > 4 && run->in[4] != NULL ? run->in[4]->data : NULL;

    if (lengths != NULL && (lengths[row] < 0 || lengths[row] > steps)) {
        vc_run_fail(run, "row %lld has the length %lld; there are %lld steps", (long long)row, (long long)lengths[row],
                    (long long)steps);
        return -1;
    }
    return lengths != NULL ? lengths[row] : steps;
}

/* Where things are: y is [steps, directions, rows, hidden], states [directions, rows, hidden]; rows first with layout 1. */
struct recurrent_places {
    int64_t steps, rows, directions;
    bool rows_first;
};

/* Number of a row of `width` or `hidden` elements in x, in a state, in y. */
static int64_t recurrent_x_at(const struct recurrent_places *p, int64_t step, int64_t row)
{
    return p->rows_first ? row * p->steps + step : step * p->rows + row;
}

static int64_t recurrent_state_at(const struct recurrent_places *p, int64_t direction, int64_t row)
{
    return p->rows_first ? row * p->directions + direction : direction * p->rows + row;
}

static int64_t recurrent_y_at(const struct recurrent_places *p, int64_t step, int64_t direction, int64_t row)
{
    return p->rows_first ? (row * p->steps + step) * p->directions + direction
                         : (step * p->directions + direction) * p->rows + row;
}

/* The state before the first step: from input 5 or 6, or 0. A row without steps ends with 0, as in onnxruntime. */
static void recurrent_begin(const struct recurrent *n, REAL *state, const REAL *first, int64_t at, int64_t length)
{
    for (int64_t j = 0; j < n->hidden; j++) {
        state[j] = first != NULL && length != 0 ? first[at * n->hidden + j] : 0;
    }
}

/* One direction of one row. Steps beyond its length are 0.
 * Outputs 1 and 2 are the state and the cell after the last step of the row, which for a backward direction
 * is step 0. */
static void recurrent_row(struct vc_run *run, const struct recurrent *n, const struct recurrent_places *p,
                          int64_t direction, bool backward, int64_t row, int64_t length)
{
    const REAL *x = run->in[0]->data;
    int64_t at = recurrent_state_at(p, direction, row);
    size_t bytes = (size_t)n->hidden * sizeof(REAL);

    recurrent_begin(n, n->h, recurrent_input(run, 5), at, length);
    recurrent_begin(n, n->c, n->gates == 4 ? recurrent_input(run, 6) : NULL, at, length);
    for (int64_t k = 0; k < p->steps; k++) {
        int64_t step = backward && k < length ? length - 1 - k : k;
        REAL *y = (REAL *)run->out[0].data + recurrent_y_at(p, step, direction, row) * n->hidden;

        if (k < length) {
            recurrent_step(n, x + recurrent_x_at(p, step, row) * n->width);
            memcpy(y, n->h, bytes);
        } else {
            memset(y, 0, bytes);
        }
    }
    for (unsigned k = 1; k < run->node->n_outputs; k++) {
        memcpy((REAL *)run->out[k].data + at * n->hidden, k == 1 ? n->h : n->c, bytes);
    }
}

/* Room for the outputs.
 * y, and the states where the node has them; layout 1 has rows first in all of them. */
static bool recurrent_outputs(struct vc_run *run, const struct recurrent_places *p, int64_t hidden)
{
    int64_t y[4] = {p->steps, p->directions, p->rows, hidden};
    int64_t state[3] = {p->directions, p->rows, hidden};
    bool there = true;

    if (p->rows_first) {
        y[0] = p->rows;
        y[1] = p->steps;
        y[2] = state[1] = p->directions;
        state[0] = p->rows;
    }
    there = vc_run_out(run, 0, true, y, 4) != NULL;
    for (unsigned k = 1; there && k < run->node->n_outputs; k++) {
        there = vc_run_out(run, k, true, state, 3) != NULL;
    }
    return there;
}

/* The sizes of inputs are compared before anything is read: weights come from a file, and shapes may be
 * known at run time only. */
static void recurrent(struct vc_run *run)
{
    const struct vc_run_value *x = run->in[0];
    struct vc_recurrent_function functions[VC_RECURRENT_FUNCTIONS];
    struct recurrent_places p = {.rows_first = vc_node_int(run->node, "layout", 0) != 0,
                                 .directions = run->in[1]->shape[0]};
    struct recurrent n = {.width = x->shape[2],
                          .hidden = run->in[2]->shape[2],
                          .gates = vc_recurrent_gates(run->node),
                          .clip = (REAL)vc_node_float(run->node, "clip", 0),
                          .couples = vc_node_int(run->node, "input_forget", 0) != 0,
                          .resets_last = vc_node_int(run->node, "linear_before_reset", 0) != 0};
    int64_t rows = n.gates * n.hidden;
    REAL *room;

    p.steps = x->shape[p.rows_first ? 1 : 0];
    p.rows = x->shape[p.rows_first ? 0 : 1];
    (void)vc_recurrent_functions(run->node, functions);
    if (!vc_run_expect(run, 1, "the weights of the input", (size_t)(p.directions * rows * n.width)) ||
        !vc_run_expect(run, 2, "the weights of the state", (size_t)(p.directions * rows * n.hidden)) ||
        !vc_run_expect(run, 3, "the bias", (size_t)(p.directions * 2 * rows)) ||
        !vc_run_expect(run, 4, "the list of lengths", (size_t)p.rows) ||
        !vc_run_expect(run, 5, "the state of before", (size_t)(p.directions * p.rows * n.hidden)) ||
        !vc_run_expect(run, 6, "the cell of before", (size_t)(p.directions * p.rows * n.hidden)) ||
        !vc_run_expect(run, 7, "the peepholes", (size_t)(p.directions * 3 * n.hidden)) ||
        !recurrent_outputs(run, &p, n.hidden)) {
        return;
    }
    room = vc_alloc_array(run->ctx, VC_TAG_TILES, (size_t)(rows + 2 * n.hidden) + 1, sizeof *room);
    VC_LEAVE_IF(room == NULL, run->status = VC_E_NOMEM);
    n.sums = room;
    n.h = room + rows;
    n.c = n.h + n.hidden;
    for (int64_t d = 0; d < p.directions && run->status == VC_OK; d++) {
        const REAL *bias = recurrent_input(run, 3);
        const REAL *peepholes = recurrent_input(run, 7);

        n.w = (const REAL *)run->in[1]->data + d * rows * n.width;
        n.r = (const REAL *)run->in[2]->data + d * rows * n.hidden;
        n.bias = bias != NULL ? bias + d * 2 * rows : NULL;
        n.peepholes = peepholes != NULL ? peepholes + d * 3 * n.hidden : NULL;
        n.functions = functions + vc_recurrent_direction_functions(run->node) * d;
        for (int64_t row = 0; row < p.rows && run->status == VC_OK; row++) {
            int64_t length = recurrent_length(run, row, p.steps);

            if (length >= 0) {
                recurrent_row(run, &n, &p, d, vc_recurrent_is_reverse(run->node, (unsigned)d), row, length);
            }
        }
    }
    vc_free(run->ctx, room);
}

/* The number of gates tells them apart (vc_recurrent_gates). */
RUN(rnn)
{
    recurrent(run);
}

RUN(gru)
{
    recurrent(run);
}

RUN(lstm)
{
    recurrent(run);
}
