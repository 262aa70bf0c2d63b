/* onnx_sequence.c - sequences of values, whose length is known when the graph is built: names for lists of values.
 *
 *     s = SplitToSequence <axis = 1> (x [n, 3, 5], two)        nodes: a [n, 2, 5], b [n, 1, 5] = Split <axis = 1> (x, [2, 1])
 *     y = SequenceAt (s, one)                                  none: y is b
 *     z = ConcatFromSequence <axis = 1> (s)                    z = Concat <axis = 1> (a, b)
 *
 * No value of the graph is a sequence: an unknown value stands for it, whose facts have the list. So a sequence that leaves
 * the graph is refused, and so is one that a branch of an If makes whose condition is not known, and a position or a length that
 * is computed while the model runs. What may be left out (Optional) is there, or is not. */

#include "graph/onnx/onnx_build.h"

#define MAX_ITEMS 4096

/* Input k, where it is a sequence; else NULL. */
static const struct vc_value_list *list_of(const struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k)
{
    return vc_onnx_has_input(node, k) ? b->graph->facts[node->inputs[k]].list : NULL;
}

/* Output 0 is this sequence: the n items, with `more` put in before item `at`, or without item `at` where more is
 * VC_NO_VALUE. */
static bool make_list(struct vc_onnx_build *b, const struct vc_onnx_node *node, const uint32_t *items, size_t n,
                      size_t at, uint32_t more)
{
    struct vc_value_list *list = vc_arena_alloc(b->ctx, b->source->arena, sizeof *list);
    uint32_t *values = vc_arena_alloc(b->ctx, b->source->arena, (n + 1) * sizeof *values);
    uint32_t sequence = vc_graph_unknown(b->graph, NULL);

    VC_RETURN_IF(n >= MAX_ITEMS, vc_onnx_refuse(b, node, "a sequence of 4096 values or more is not supported"));
    if (list == NULL || values == NULL || sequence == VC_NO_VALUE) {
        b->graph->status = VC_E_NOMEM;
        return false;
    }
    *list = (struct vc_value_list){.values = values};
    for (size_t k = 0; k <= n; k++) {
        if (k == at && more != VC_NO_VALUE) {
            values[list->n++] = more;
        }
        if (k < n && (k != at || more != VC_NO_VALUE)) {
            values[list->n++] = items[k];
        }
    }
    b->graph->facts[sequence].list = list;
    vc_onnx_set_output(b, node->from, 0, sequence);
    return false;
}

/* The position that input k says, from the end where it is negative; false: refused. */
static bool position_of(struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k, size_t n,
                        size_t otherwise, size_t *at)
{
    int64_t number = (int64_t)otherwise;

    if (vc_onnx_has_input(node, k)) {
        uint32_t v = vc_onnx_known(b, node->inputs[k]);

        VC_RETURN_IF(!vc_graph_is_single(&b->graph->values[v]) || !vc_onnx_integer_at(b, v, 0, &number),
                     vc_onnx_refuse(b, node, "the position in the sequence is computed while the model runs"));
    }
    number += number < 0 ? (int64_t)n : 0;
    VC_RETURN_IF(number < 0 || number > (int64_t)otherwise,
                 vc_onnx_refuse(b, node, "the sequence has no such position"));
    *at = (size_t)number;
    return true;
}

/* SequenceEmpty, SequenceConstruct. */
static bool take_construct(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    for (unsigned k = 0; k < node->n_inputs; k++) {
        VC_RETURN_IF(node->inputs[k] == VC_NO_VALUE, vc_onnx_refuse(b, node, "an input is left out"));
    }
    return make_list(b, node, node->inputs, node->n_inputs, SIZE_MAX, VC_NO_VALUE);
}

/* SequenceInsert (s, x, at), SequenceErase (s, at), SequenceAt (s, at). */
static bool take_edit(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_value_list *s = list_of(b, node, 0);
    bool inserts = strcmp(node->op, "SequenceInsert") == 0;
    size_t at = 0;

    VC_RETURN_IF(inserts && !vc_onnx_has_input(node, 1), vc_onnx_refuse(b, node, "an input is left out"));
    if (!position_of(b, node, inserts ? 2 : 1, s->n, s->n - (inserts || s->n == 0 ? 0 : 1), &at)) {
        return false;
    }
    VC_RETURN_IF(!inserts && s->n == 0, vc_onnx_refuse(b, node, "the sequence is empty"));
    if (strcmp(node->op, "SequenceAt") == 0) {
        vc_onnx_set_output(b, node->from, 0, s->values[at]);
        return false;
    }
    return make_list(b, node, s->values, s->n, at, inserts ? vc_onnx_number(node, 1) : VC_NO_VALUE);
}

static bool take_length(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    vc_onnx_set_output(b, node->from, 0, vc_graph_add_int(b->graph, (int64_t)list_of(b, node, 0)->n));
    return false;
}

/* The parts of a SplitToSequence: sizes that are listed, or one size of all but the last; without any, 1. Returns how many;
 * 0: refused. */
static size_t sizes_of(struct vc_onnx_build *b, const struct vc_onnx_node *node, struct vc_dim dim, int64_t *sizes)
{
    uint32_t split = vc_onnx_has_input(node, 1) ? vc_onnx_known(b, node->inputs[1]) : VC_NO_VALUE;
    const struct vc_graph_value *v = split == VC_NO_VALUE ? NULL : &b->graph->values[split];
    bool listed = v != NULL && v->n_dims == 1 && vc_dim_is_number(v->shape[0]);
    int64_t each = 1;
    size_t n = 0;

    VC_RETURN_IF(v != NULL && ((!listed && v->n_dims != 0) || b->graph->facts[split].unknown),
                 vc_onnx_refuse(b, node, "the sizes of the parts are neither a list nor a number"));
    for (int64_t k = 0; v != NULL && k < (listed ? v->shape[0].size : 1) && n < MAX_ITEMS; k++) {
        VC_RETURN_IF(!vc_onnx_integer_at(b, split, (size_t)k, &sizes[n++]),
                     vc_onnx_refuse(b, node, "the sizes of the parts are computed while the model runs"));
        each = sizes[0];
    }
    if (!listed) {
        VC_RETURN_IF(!vc_dim_is_number(dim) || each < 1,
                     vc_onnx_refuse(b, node, "how many parts it makes depends on a size of the inputs"));
        n = 0;
        for (int64_t left = dim.size; left > 0 && n < MAX_ITEMS; left -= each) {
            sizes[n++] = left < each ? left : each;
        }
    }
    VC_RETURN_IF(n == 0 || n >= MAX_ITEMS, vc_onnx_refuse(b, node, "it makes no parts, or 4096 or more"));
    return n;
}

/* The parts are those of a Split without sizes: a list of sizes ends at VC_MAX_ELEMS. */
static bool are_chunks(struct vc_dim dim, const int64_t *sizes, size_t n)
{
    int64_t left = vc_dim_is_number(dim) ? dim.size : -1;
    int64_t chunk = left < 0 ? 0 : left / (int64_t)n + (left % (int64_t)n != 0);

    for (size_t k = 0; k < n && left >= 0; k++) {
        left = sizes[k] == (k + 1 < n ? chunk : left) ? left - sizes[k] : -1;
    }
    return left == 0;
}

static bool take_split(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    int64_t axis = vc_onnx_int(node, "axis", 0);
    int64_t sizes[MAX_ITEMS];
    uint32_t items[MAX_ITEMS];

    if (x == NULL) {
        return false;
    }
    VC_RETURN_IF(axis < -(int64_t)x->n_dims || axis >= (int64_t)x->n_dims,
                 vc_onnx_refuse(b, node, "there is no such axis"));
    struct vc_dim dim = x->shape[axis < 0 ? axis + (int64_t)x->n_dims : axis];
    size_t n = sizes_of(b, node, dim, sizes);
    if (n == 0) {
        return false;
    }
    bool listed = !are_chunks(dim, sizes, n);
    VC_RETURN_IF(listed && n > VC_MAX_ELEMS, vc_onnx_refuse(b, node, "more than 64 parts of different sizes"));
    const uint32_t in[2] = {node->inputs[0], listed ? vc_graph_add_ints(b->graph, sizes, n) : VC_NO_VALUE};
    const struct vc_graph_attr attrs[2] = {vc_attr_int("axis", axis), vc_attr_int("num_outputs", (int64_t)n)};
    uint32_t first = vc_graph_add_node(b->graph, &(struct vc_node_spec){.op = "Split",
                                                                        .n_inputs = listed ? 2 : 1,
                                                                        .n_outputs = (unsigned)n,
                                                                        .n_attrs = listed ? 1 : 2,
                                                                        .inputs = in,
                                                                        .attrs = attrs});
    for (size_t k = 0; k < n; k++) {
        items[k] = vc_graph_output_of(b->graph, first, (unsigned)k);
        if (!vc_onnx_has_input(node, 1) && vc_onnx_int(node, "keepdims", 1) == 0) {
            items[k] = vc_onnx_with_ints(b, "Squeeze", items[k], &axis, 1);
        }
    }
    return make_list(b, node, items, n, SIZE_MAX, VC_NO_VALUE);
}

static bool take_concat(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_value_list *s = list_of(b, node, 0);
    int64_t axis = vc_onnx_int(node, "axis", 0);
    struct vc_graph_attr attr = vc_attr_int("axis", axis);
    uint32_t items[MAX_ITEMS];

    VC_RETURN_IF(s->n == 0, vc_onnx_refuse(b, node, "the sequence is empty"));
    for (size_t k = 0; k < s->n; k++) {
        items[k] = vc_onnx_int(node, "new_axis", 0) != 0 ? vc_onnx_with_ints(b, "Unsqueeze", s->values[k], &axis, 1)
                                                         : s->values[k];
    }
    return vc_onnx_ends_in(b, node, "Concat", items, (unsigned)s->n, &attr, 1);
}

/* Optional, OptionalGetElement, and Identity of a sequence: what is there, a value or a sequence. */
static bool take_element(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    VC_RETURN_IF(!vc_onnx_has_input(node, 0), vc_onnx_refuse(b, node, "nothing is there"));
    vc_onnx_set_output(b, node->from, 0, node->inputs[0]);
    return false;
}

static bool take_has(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const int64_t yes = vc_onnx_has_input(node, 0);

    vc_onnx_set_output(b, node->from, 0, vc_graph_add_constant(b->graph, NULL, VC_DTYPE_BOOL, NULL, 0, &yes));
    return false;
}

bool vc_onnx_take_sequence(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    static const struct vc_onnx_rewrite of_lists[] = {{"SequenceInsert SequenceErase SequenceAt", take_edit},
                                                      {"SequenceLength", take_length},
                                                      {"ConcatFromSequence", take_concat}};
    static const struct vc_onnx_rewrite of_values[] = {{"SequenceEmpty SequenceConstruct", take_construct},
                                                       {"SplitToSequence", take_split},
                                                       {"Optional OptionalGetElement", take_element},
                                                       {"OptionalHasElement", take_has}};
    vc_onnx_taker *of_list = vc_onnx_find_taker(of_lists, sizeof of_lists / sizeof *of_lists, node->op);
    vc_onnx_taker *of_value = vc_onnx_find_taker(of_values, sizeof of_values / sizeof *of_values, node->op);
    bool is_list = false;

    for (unsigned k = 0; k < node->n_inputs; k++) {
        is_list = is_list || list_of(b, node, k) != NULL;
    }
    of_value = is_list && strcmp(node->op, "Identity") == 0 ? take_element : of_value;
    if (of_list != NULL && list_of(b, node, 0) != NULL) {
        (void)of_list(b, node);
    } else if (of_value != NULL && (!is_list || of_value == take_element || of_value == take_has)) {
        (void)of_value(b, node);
    } else if (of_list != NULL || is_list) {
        (void)vc_onnx_refuse(b, node,
                             of_list != NULL ? "its sequence is not known when the graph is built"
                                             : "it takes a sequence of values");
    } else {
        return false;
    }
    return true;
}
