/* ops_recurrent.c - shapes and multiply-adds of RNN, GRU and LSTM, and how their attributes are read
 * (recurrent.h).
 *
 *     inputs      x [steps, batch, width], w [directions, gates * hidden, width], r [directions, gates * hidden, hidden],
 *                 bias [directions, 2 * gates * hidden], lengths [batch], state [directions, batch, hidden],
 *                 LSTM: cell [directions, batch, hidden], peepholes [directions, 3 * hidden]
 *     outputs     y [steps, directions, batch, hidden], state [directions, batch, hidden], LSTM: cell, as the state
 *     layout 1    x [batch, steps, width], y [batch, steps, directions, hidden], states [batch, directions, hidden]
 *
 *     multiply-adds     steps * batch * directions * gates * hidden * (width + hidden)
 *
 * All but x, w and r may be left out. */

#include "graph/ops/ops.h"
#include "graph/ops/recurrent.h"

/* ---- attributes ---- */

/* Whether a function has such a number (alpha or beta), and what it is where a node does not give it. */
struct number {
    bool there;
    double otherwise; /* where a node does not give it */
};

/* ONNX's words, and which numbers of their own the functions have. */
static const struct activation {
    const char *word;
    struct number a, b;
} activations[] = {
#define NUMBER(otherwise) \
    {                     \
        true, otherwise   \
    }
#define NO_NUMBER \
    {             \
        false, 0  \
    }
#define FUNCTION(KIND, word, alpha, beta, value, slope) [VC_RECURRENT_##KIND] = {word, alpha, beta},
#include "kernels/unary_recurrent.inc"
#undef FUNCTION
#undef NO_NUMBER
#undef NUMBER
};

const struct vc_torch_recurrent *vc_torch_recurrent(const char *op)
{
    /* i, f, g, o are i, o, f, c; r, z, n are z, r, h */
    static const struct vc_torch_recurrent all[] = {{"LSTM", 4, {0, 3, 1, 2}}, {"GRU", 3, {1, 0, 2}}, {"RNN", 1, {0}}};

    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        if (strcmp(op, all[k].op) == 0) {
            return &all[k];
        }
    }
    return NULL;
}

/* Blocks of rows in w and r, and how many functions a direction has: gates share one.
 *
 *     RNN     1 block,  1 function      of the state
 *     GRU     3 blocks, 2 functions     of the gates, of what is new
 *     LSTM    4 blocks, 3 functions     of the gates, of what is new, of the cell
 */
unsigned vc_recurrent_gates(const struct vc_graph_node *node)
{
    return vc_node_is(node, VC_OP_lstm) ? 4 : vc_node_is(node, VC_OP_gru) ? 3 : 1;
}

unsigned vc_recurrent_direction_functions(const struct vc_graph_node *node)
{
    return vc_node_is(node, VC_OP_lstm) ? 3 : vc_node_is(node, VC_OP_gru) ? 2 : 1;
}

/* Two directions have their own weights and functions; their outputs stand next to each other. */
static unsigned directions_of(const struct vc_graph_node *node)
{
    return strcmp(vc_node_string(node, "direction", "forward"), "bidirectional") == 0 ? 2 : 1;
}

/* Equal but for capital letters. */
static bool is_same_word(const char *a, const char *b, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        char x = a[k] >= 'A' && a[k] <= 'Z' ? (char)(a[k] + 32) : a[k];
        char y = b[k] >= 'A' && b[k] <= 'Z' ? (char)(b[k] + 32) : b[k];

        if (x != y) {
            return false;
        }
    }
    return true;
}

/* The function of a word, whatever its case, as ONNX has it; false for a word that is not known. */
static bool find_function(const char *word, size_t n, unsigned *out)
{
    for (unsigned k = 0; k < VC_RECURRENT_KINDS; k++) {
        if (strlen(activations[k].word) == n && is_same_word(activations[k].word, word, n)) {
            *out = k;
            return true;
        }
    }
    return false;
}

/* Numbers of the functions that have some: alphas and betas are taken from their lists in order, as onnxruntime takes
 * them; where a list has ended, the rows' own stand.
 *     activations {"LeakyRelu", "Tanh", "HardSigmoid"}, activation_alpha {0.1, 0.3}, no betas
 *     LeakyRelu a 0.1; Tanh takes none; HardSigmoid a 0.3, b its own
 */
static void add_numbers(const struct vc_graph_node *node, unsigned n, struct vc_recurrent_function *out)
{
    const struct vc_graph_attr *alphas = vc_node_attr(node, "activation_alpha");
    const struct vc_graph_attr *betas = vc_node_attr(node, "activation_beta");
    size_t at_a = 0;
    size_t at_b = 0;

    for (unsigned k = 0; k < n; k++) {
        const struct activation *row = &activations[out[k].kind];

        out[k].a = row->a.there && alphas != NULL && at_a < alphas->n ? alphas->floats[at_a++] : row->a.otherwise;
        out[k].b = row->b.there && betas != NULL && at_b < betas->n ? betas->floats[at_b++] : row->b.otherwise;
    }
}

/* The functions of all directions, in the order of the attribute. Returns NULL, or what is wrong. Either no
 * word is given, or one for each function. */
const char *vc_recurrent_functions(const struct vc_graph_node *node, struct vc_recurrent_function *out)
{
    unsigned n = vc_recurrent_direction_functions(node);
    unsigned n_all = n * directions_of(node);
    const char *words = vc_node_string(node, "activations", "");
    unsigned at = 0;

    for (unsigned k = 0; k < n_all; k++) { /* without words: a Sigmoid for the gates, Tanh for what is left */
        out[k] = (struct vc_recurrent_function){.kind = k % n == 0 && n > 1 ? VC_RECURRENT_SIGMOID : VC_RECURRENT_TANH};
    }
    while (*words != '\0') {
        size_t length = strcspn(words, ",");

        if (at == n_all || !find_function(words, length, &out[at].kind)) {
            return at == n_all ? "there are more activations than functions" : "an activation is not supported";
        }
        at++;
        words += length + (words[length] == ',');
    }
    add_numbers(node, n_all, out);
    return at == 0 || at == n_all ? NULL : "there are fewer activations than functions";
}

/* Whether direction d goes from the last step to the first: the second of two does always. */
bool vc_recurrent_is_reverse(const struct vc_graph_node *node, unsigned d)
{
    return d == 1 || strcmp(vc_node_string(node, "direction", "forward"), "reverse") == 0;
}

/* ---- shapes ---- */

/* n * size. */
static struct vc_dim times(struct vc_infer *in, int64_t n, struct vc_dim size)
{
    return vc_dim_multiply(vc_infer_dims(in), vc_dim_number(n), size);
}

/* Input k, if it is given, is [directions, width], or [directions, second, width].
 * The rank was tested before; a dimension that depends on inputs is compared again when it has a size
 * (vc_infer_same). */
static void check(struct vc_infer *in, unsigned k, const char *what, struct vc_dim directions, struct vc_dim second,
                  struct vc_dim width)
{
    const struct vc_graph_value *x = vc_infer_in(in, k);

    if (x != NULL) {
        vc_infer_same(in, what, x->shape[0], directions);
        vc_infer_same(in, what, x->shape[x->n_dims - 1], width);
        if (x->n_dims == 3) {
            vc_infer_same(in, what, x->shape[1], second);
        }
    }
}

/* The states of before and behind are [directions, batch, hidden], with layout 1 [batch, directions, hidden]. */
static void check_state(struct vc_infer *in, unsigned k, const char *what, bool rows_first, struct vc_dim directions,
                        struct vc_dim batch, struct vc_dim hidden)
{
    check(in, k, what, rows_first ? batch : directions, rows_first ? directions : batch, hidden);
}

/* All three operators: the number of gates is the difference. The attributes are asked for one by one,
 * since one that nobody asks for makes the node unsupported. */
static void infer(struct vc_infer *in)
{
    const struct vc_graph_node *node = &in->graph->nodes[in->index];
    struct vc_dims *dims = vc_infer_dims(in);
    bool lstm = vc_node_is(node, VC_OP_lstm);
    int64_t gates = vc_recurrent_gates(node);
    struct vc_dim directions = vc_dim_number(directions_of(node));
    bool rows_first = vc_infer_int(in, "layout", 0) != 0;
    int64_t hidden_size = vc_infer_int(in, "hidden_size", 0);
    const char *direction = vc_infer_string(in, "direction", "forward");
    struct vc_recurrent_function functions[VC_RECURRENT_FUNCTIONS];
    const char *wrong = vc_recurrent_functions(node, functions);
    struct vc_dim steps, batch, hidden, width;
    struct vc_dim shape[4];

    vc_infer_string(in, "activations", "");
    vc_infer_float_list(in, "activation_alpha");
    vc_infer_float_list(in, "activation_beta");
    vc_infer_float(in, "clip", 0);
    if (lstm) {
        vc_infer_int(in, "input_forget", 0);
    } else if (gates == 3) {
        vc_infer_int(in, "linear_before_reset", 0);
    }
    if (!vc_infer_types(in, "ffffifff") || !vc_infer_rank(in, 0, 3, 3) || !vc_infer_rank(in, 1, 3, 3) ||
        !vc_infer_rank(in, 2, 3, 3) || !vc_infer_rank(in, 3, 2, 2) || !vc_infer_rank(in, 4, 1, 1) ||
        !vc_infer_rank(in, 5, 3, 3) || !vc_infer_rank(in, 6, 3, 3) || !vc_infer_rank(in, 7, 2, 2)) {
        return;
    }
    VC_LEAVE_IF(strcmp(direction, "forward") != 0 && strcmp(direction, "reverse") != 0 &&
                    strcmp(direction, "bidirectional") != 0,
                vc_infer_fail(in, "there is no direction '%s'", direction));
    VC_LEAVE_IF(wrong != NULL, vc_infer_fail(in, "%s: %s", wrong, vc_node_string(node, "activations", "")));
    steps = vc_infer_in(in, 0)->shape[rows_first ? 1 : 0];
    batch = vc_infer_in(in, 0)->shape[rows_first ? 0 : 1];
    width = vc_infer_in(in, 0)->shape[2];
    hidden = vc_infer_in(in, 2)->shape[2];
    if (hidden_size != 0) {
        hidden = vc_infer_same(in, "hidden_size and the weights of the state", vc_dim_number(hidden_size), hidden);
    }
    check(in, 1, "the weights of the input", directions, times(in, gates, hidden), width);
    check(in, 2, "the weights of the state", directions, times(in, gates, hidden), hidden);
    check(in, 3, "the bias", directions, hidden, times(in, 2 * gates, hidden));
    check_state(in, 5, "the state of before", rows_first, directions, batch, hidden);
    if (vc_infer_in(in, 4) != NULL) {
        vc_infer_same(in, "the lengths and the rows", vc_infer_in(in, 4)->shape[0], batch);
    }
    if (lstm) {
        check_state(in, 6, "the cell of before", rows_first, directions, batch, hidden);
        check(in, 7, "the peepholes", directions, hidden, times(in, 3, hidden));
    }
    if (in->failed) {
        return;
    }
    vc_infer_macs(in,
                  vc_dim_multiply(dims, vc_dim_multiply(dims, vc_dim_multiply(dims, steps, batch), directions),
                                  vc_dim_multiply(dims, times(in, gates, hidden), vc_dim_add(dims, width, hidden))));
    shape[0] = rows_first ? batch : steps;
    shape[1] = rows_first ? steps : directions;
    shape[2] = rows_first ? directions : batch;
    shape[3] = hidden;
    vc_infer_out(in, 0, VC_DTYPE_F32, shape, 4);
    shape[0] = rows_first ? batch : directions;
    shape[1] = rows_first ? directions : batch;
    shape[2] = hidden;
    vc_infer_out(in, 1, VC_DTYPE_F32, shape, 3);
    if (lstm) {
        vc_infer_out(in, 2, VC_DTYPE_F32, shape, 3);
    }
}

/* The rows of ops.inc. */
void vc_infer_rnn(struct vc_infer *in)
{
    infer(in);
}

void vc_infer_gru(struct vc_infer *in)
{
    infer(in);
}

void vc_infer_lstm(struct vc_infer *in)
{
    infer(in);
}
