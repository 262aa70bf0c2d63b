/* onnx_microsoft.c - operators of the domain com.microsoft, as onnxruntime's and transformers' optimizers
 * write them, as those of ONNX that they stand for. Only where the result is the same; what is not
 * rewritten is a problem.
 *
 *     SkipLayerNormalization (x, skip, scale, bias)     ->     Add (x, skip), LayerNormalization
 *     MatMulNBits (x, codes, scales, zeros)             ->     DequantizeLinear of 4-bit codes, transposed, MatMul
 *
 * The definitions are in onnxruntime's docs/ContribOperators.md. A take_X sets output 0 (vc_onnx_ends_in)
 * and returns false, or refuses. To add an operator: a function and a row in vc_onnx_take_microsoft, and a case
 * in tests/judge/. */

#include "graph/onnx/onnx_build.h"

/* Refuses the node if an output from `first` on is used. */
static bool only_first(struct vc_onnx_build *b, const struct vc_onnx_node *node, size_t first)
{
    for (size_t k = first; k < node->from->n_outputs; k++) {
        VC_RETURN_IF(vc_onnx_output_is_used(b, node->from, k),
                     vc_onnx_refuse(b, node, "an output that is for training, or of no use to others, is used"));
    }
    return true;
}

/* ---- activations and products ---- */

/* Gelu, BiasGelu (exact) and FastGelu (tanh): the second input, if given, is a bias that is added first.
 *     BiasGelu(x, b)     Gelu(Add(x, b))
 *     FastGelu(x, b)     Gelu<approximate = "tanh">(Add(x, b))
 */
static bool take_gelu(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_attr tanh_form = vc_attr_string("approximate", "tanh");
    uint32_t x = node->inputs[0];

    if (vc_onnx_has_input(node, 1)) { /* BiasGelu, FastGelu */
        x = vc_onnx_two_in(b, "Add", x, node->inputs[1]);
    }
    return vc_onnx_ends_in(b, node, "Gelu", &x, 1, &tanh_form, strcmp(node->op, "FastGelu") == 0);
}

/* x * sigmoid(1.702 x), the factor as f32.
 * Mul(x, Sigmoid(Mul(x, 1.702))): three nodes, since ONNX has no operator for it. */
static bool take_quick_gelu(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    uint32_t alpha = vc_graph_add_float(b->graph, vc_onnx_float(node, "alpha", (double)1.702f));
    uint32_t x = node->inputs[0];
    const uint32_t in[2] = {x, vc_onnx_one_in(b, "Sigmoid", vc_onnx_two_in(b, "Mul", x, alpha))};

    return vc_onnx_ends_in(b, node, "Mul", in, 2, NULL, 0);
}

/* The last two dimensions swapped; of a parameter that is a property and no node. */
static uint32_t swapped(struct vc_onnx_build *b, uint32_t x)
{
    unsigned n = b->graph->values[x].n_dims;
    int64_t perm[VC_GRAPH_MAX_DIMS];
    struct vc_graph_attr attr;
    struct vc_onnx_node node = {.op = "Transpose", .n_inputs = 1, .n_attrs = 1, .inputs = &x, .attrs = &attr};

    for (unsigned k = 0; k < n; k++) {
        perm[k] = k + 2 == n ? k + 1 : k + 1 == n && n > 1 ? k - 1 : k;
    }
    attr = vc_attr_ints("perm", perm, n);
    uint32_t folded = vc_onnx_fold(b, &node, NULL); /* of a parameter: its own property */
    return folded != VC_NO_VALUE ? folded : vc_onnx_add_one(b, "Transpose", NULL, &x, 1, &attr, 1);
}

/* alpha * A' B'. A transposed parameter costs no node. */
static bool take_fused_matmul(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    double alpha = vc_onnx_float(node, "alpha", 1);
    uint32_t in[2] = {node->inputs[0], vc_onnx_number(node, 1)};

    VC_RETURN_IF(vc_onnx_int(node, "transBatchA", 0) != 0 || vc_onnx_int(node, "transBatchB", 0) != 0 ||
                     vc_onnx_input(b, node, 0) == NULL || vc_onnx_input(b, node, 1) == NULL,
                 vc_onnx_refuse(b, node, "with transBatchA or transBatchB it is not supported"));
    in[0] = vc_onnx_int(node, "transA", 0) != 0 ? swapped(b, in[0]) : in[0];
    in[1] = vc_onnx_int(node, "transB", 0) != 0 ? swapped(b, in[1]) : in[1];
    if (alpha == 1) {
        return vc_onnx_ends_in(b, node, "MatMul", in, 2, NULL, 0);
    }
    in[0] = vc_onnx_two_in(b, "MatMul", in[0], in[1]);
    in[1] = vc_graph_add_float(b->graph, alpha);
    return vc_onnx_ends_in(b, node, "Mul", in, 2, NULL, 0);
}

/* ---- weights of four or eight bits ---- */

/* Bytes [rows, columns] as their 4-bit halves [rows, 2 * columns], the low half first: b % 16 and b / 16,
 * stacked along a new last dimension and flattened. */
static uint32_t halves(struct vc_onnx_build *b, uint32_t bytes, int64_t rows, int64_t columns)
{
    const struct vc_graph_attr axis = vc_attr_int("axis", 2);
    const int64_t apart[3] = {rows, columns, 1};
    const int64_t joined[2] = {rows, 2 * columns};
    uint32_t x = vc_onnx_with_ints(b, "Reshape", bytes, apart, 3);
    uint32_t sixteen = vc_graph_add_int(b->graph, 16);
    uint32_t in[2] = {vc_onnx_two_in(b, "Mod", x, sixteen), vc_onnx_two_in(b, "Div", x, sixteen)};

    return vc_onnx_with_ints(b, "Reshape", vc_onnx_add_one(b, "Concat", NULL, in, 2, &axis, 1), joined, 2);
}

/* The first n of all columns: rows of blocks are filled up to whole blocks. */
static uint32_t first_columns(struct vc_onnx_build *b, uint32_t x, int64_t all, int64_t n)
{
    const int64_t zero = 0;
    const int64_t one = 1;

    if (all == n) {
        return x;
    }
    const uint32_t in[4] = {x, vc_graph_add_ints(b->graph, &zero, 1), vc_graph_add_ints(b->graph, &n, 1),
                            vc_graph_add_ints(b->graph, &one, 1)};
    return vc_onnx_add_one(b, "Slice", NULL, in, 4, NULL, 0);
}

/* Whether input k is given and has integers. */
static bool is_integers(const struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k)
{
    const struct vc_graph_value *v = vc_onnx_input(b, node, k);

    return v != NULL && v->dtype == VC_DTYPE_I64;
}

/* Y = X * dequantize(B)^T + bias. K inputs, N outputs, blocks of block_size weights along K:
 *     B       [N, blocks, block_size * bits / 8] bytes     codes, two in a byte with 4 bits
 *     scales  [N * blocks]
 *     zeros   packed as B, or none: 8 with 4 bits, 128 with 8
 * Zero points as floats and g_idx (a permutation of columns) are refused. */
static bool take_matmul_nbits(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    int64_t k = vc_onnx_int(node, "K", 0);
    int64_t n = vc_onnx_int(node, "N", 0);
    int64_t bits = vc_onnx_int(node, "bits", 4);
    int64_t block = vc_onnx_int(node, "block_size", 0);
    int64_t blocks = block > 0 && k > 0 ? (k - 1) / block + 1 : 0;
    const int64_t of_scales[2] = {n, blocks};
    const struct vc_graph_attr attrs[2] = {vc_attr_int("axis", 1), vc_attr_int("block_size", block)};
    uint32_t in[3];

    VC_RETURN_IF(
        k < 1 || n < 1 || k > INT32_MAX || n > INT32_MAX || block < 16 || (bits != 4 && bits != 8) ||
            !is_integers(b, node, 1) || vc_onnx_has_input(node, 4) ||
            (vc_onnx_has_input(node, 3) && !is_integers(b, node, 3)),
        vc_onnx_refuse(b, node, "only codes of 4 and 8 bits, zero points of integers, and no g_idx are supported"));
    if (bits == 4) {
        in[0] = halves(b, node->inputs[1], n, blocks * block / 2);
    } else {
        const int64_t flat[2] = {n, blocks * block};

        in[0] = vc_onnx_with_ints(b, "Reshape", node->inputs[1], flat, 2);
    }
    in[0] = first_columns(b, in[0], blocks * block, k);
    in[1] = vc_onnx_with_ints(b, "Reshape", node->inputs[2], of_scales, 2);
    if (vc_onnx_has_input(node, 3)) {
        in[2] = bits == 4
                    ? first_columns(b, halves(b, node->inputs[3], n, (blocks + 1) / 2), (blocks + 1) / 2 * 2, blocks)
                    : vc_onnx_with_ints(b, "Reshape", node->inputs[3], of_scales, 2);
    } else {
        in[2] = vc_onnx_two_in(b, "Expand", vc_graph_add_int(b->graph, bits == 4 ? 8 : 128),
                               vc_graph_add_ints(b->graph, of_scales, 2));
    }
    in[1] = swapped(b, vc_onnx_add_one(b, "DequantizeLinear", NULL, in, 3, attrs, 2));
    in[0] = node->inputs[0];
    if (!vc_onnx_has_input(node, 5)) {
        return vc_onnx_ends_in(b, node, "MatMul", in, 2, NULL, 0);
    }
    in[0] = vc_onnx_two_in(b, "MatMul", in[0], in[1]);
    in[1] = node->inputs[5];
    return vc_onnx_ends_in(b, node, "Add", in, 2, NULL, 0);
}

/* DynamicQuantizeMatMul (x, codes, scale, zero, bias), MatMulIntegerToFloat (a, codes, scale of a, scale, zero of a, zero, bias): an exact
 * product of codes, times both scales. */
static bool take_product_of_codes(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    static const char *const names[3] = {NULL, NULL, NULL};
    unsigned dynamic = strcmp(node->op, "DynamicQuantizeMatMul") == 0;
    uint32_t scale = vc_onnx_number(node, dynamic ? 2 : 3);
    uint32_t bias = vc_onnx_number(node, dynamic ? 4 : 6);
    uint32_t a[3] = {node->inputs[0], vc_onnx_number(node, 2), vc_onnx_number(node, 4)};

    VC_RETURN_IF(!is_integers(b, node, 1) || scale == VC_NO_VALUE || vc_onnx_input(b, node, 0) == NULL ||
                     (!dynamic && (!is_integers(b, node, 0) || a[1] == VC_NO_VALUE)),
                 vc_onnx_refuse(b, node, "only 8-bit codes with scales are supported"));
    if (dynamic) {
        vc_onnx_dynamic_codes(b, a[0], names, a);
    }
    uint32_t in[4] = {a[0], node->inputs[1], a[2], vc_onnx_number(node, dynamic ? 3 : 5)};
    const struct vc_onnx_node product = {.from = node->from, .n_inputs = 4, .inputs = in};
    uint32_t pair[2] = {vc_onnx_centred(b, &product, 0), vc_onnx_centred(b, &product, 1)};
    pair[0] = vc_onnx_cast(b, vc_onnx_two_in(b, "MatMul", pair[0], pair[1]), VC_ONNX_FLOAT);
    pair[1] = vc_onnx_two_in(b, "Mul", a[1], scale);
    if (bias == VC_NO_VALUE) {
        return vc_onnx_ends_in(b, node, "Mul", pair, 2, NULL, 0);
    }
    pair[0] = vc_onnx_two_in(b, "Mul", pair[0], pair[1]);
    pair[1] = bias;
    return vc_onnx_ends_in(b, node, "Add", pair, 2, NULL, 0);
}

/* ---- recurrent layers ---- */

/* Number k, [directions] or [directions, columns], as it meets weights [directions, rows, columns]. */
static uint32_t beside_rows(struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, k);
    const int64_t axes[2] = {1, 2};

    return x == NULL ? VC_NO_VALUE : vc_onnx_with_ints(b, "Unsqueeze", node->inputs[k], axes, x->n_dims > 1 ? 1 : 2);
}

/* LSTM with weights as codes, turned: (codes - zero) scale, transposed. onnxruntime also rounds inputs and states to 8 bits,
 * by the range of all rows that one thread has: its answer for a row depends on the rows beside it and on the number of threads, which
 * ours may not. Here inputs and states stay what they are. */
static bool take_dynamic_lstm(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    static const int64_t turned[3] = {0, 2, 1};
    const struct vc_graph_attr perm = vc_attr_ints("perm", turned, 3);
    uint32_t in[8];

    for (unsigned k = 0; k < 8; k++) {
        in[k] = vc_onnx_has_input(node, k) ? node->inputs[k] : VC_NO_VALUE;
    }
    for (unsigned k = 1; k < 3; k++) { /* inputs 8 to 11: scale and zero point of each */
        uint32_t scale = beside_rows(b, node, 6 + 2 * k);
        uint32_t zero = beside_rows(b, node, 7 + 2 * k);

        VC_RETURN_IF(!is_integers(b, node, k) || scale == VC_NO_VALUE || zero == VC_NO_VALUE,
                     vc_onnx_refuse(b, node, "only weights of 8-bit codes with scales and zero points are supported"));
        in[k] = vc_onnx_two_in(b, "Sub", vc_onnx_cast(b, in[k], VC_ONNX_FLOAT), vc_onnx_cast(b, zero, VC_ONNX_FLOAT));
        in[k] = vc_onnx_two_in(b, "Mul", in[k], scale);
        in[k] = vc_onnx_add_one(b, "Transpose", NULL, &in[k], 1, &perm, 1);
    }
    node->op = "LSTM";
    for (unsigned k = 0; k < 8; k++) {
        node->inputs[k] = in[k];
    }
    node->n_inputs = 8;
    return true;
}

/* ---- normalizations ---- */

/* x + skip (+ bias), normalized over the last dimension; the sum itself is output 3.
 *     input, skip, scale, shift, bias     LayerNormalization(input + skip + bias, scale, shift)
 *     simplified                          RMSNormalization(input + skip + bias, scale); bias is input 3
 */
static bool take_skip_norm(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    bool simplified = strcmp(node->op, "SkipSimplifiedLayerNormalization") == 0;
    unsigned bias = simplified ? 3 : 4;
    const struct vc_graph_attr attrs[2] = {vc_attr_int("axis", -1),
                                           vc_attr_float("epsilon", vc_onnx_float(node, "epsilon", (double)1e-12f))};
    uint32_t in[3] = {VC_NO_VALUE, vc_onnx_number(node, 2), simplified ? VC_NO_VALUE : vc_onnx_number(node, 3)};

    if (vc_onnx_output_is_used(b, node->from, 1) || vc_onnx_output_is_used(b, node->from, 2)) {
        return only_first(b, node, 1);
    }
    in[0] = vc_onnx_two_in(b, "Add", node->inputs[0], vc_onnx_number(node, 1));
    if (vc_onnx_has_input(node, bias)) {
        in[0] = vc_onnx_two_in(b, "Add", in[0], node->inputs[bias]);
    }
    vc_onnx_set_output(b, node->from, 3, in[0]);
    return vc_onnx_ends_in(b, node, simplified ? "RMSNormalization" : "LayerNormalization", in,
                           in[2] == VC_NO_VALUE ? 2 : 3, attrs, 2);
}

/* Rows for words, positions and segment types, added and normalized. Without position ids they are 0, 1,
 * ... along the length.
 * Output 2 is the sum before the norm. */
static bool take_embed_norm(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *ids = vc_onnx_input(b, node, 0);
    const struct vc_graph_attr attrs[2] = {vc_attr_int("axis", -1),
                                           vc_attr_float("epsilon", vc_onnx_float(node, "epsilon", (double)1e-12f))};
    const struct vc_graph_attr second[2] = {vc_attr_int("start", 1), vc_attr_int("end", 2)};
    uint32_t in[3];
    uint32_t at = vc_onnx_number(node, 8);

    VC_RETURN_IF(ids == NULL || node->n_inputs < 7 || vc_onnx_output_is_used(b, node->from, 1),
                 vc_onnx_refuse(b, node, "its inputs are missing, or the output mask_index is used"));
    if (at == VC_NO_VALUE) { /* 0, 1, ... */
        const int64_t none = 0;

        in[0] = vc_graph_add_int(b->graph, 0);
        in[1] = vc_onnx_two_in(b, "Squeeze", vc_onnx_add_one(b, "Shape", NULL, node->inputs, 1, second, 2),
                               vc_graph_add_ints(b->graph, &none, 1));
        in[2] = vc_graph_add_int(b->graph, 1);
        at = vc_onnx_add_one(b, "Range", NULL, in, 3, NULL, 0);
    }
    in[0] = vc_onnx_two_in(b, "Gather", node->inputs[2], node->inputs[0]);
    in[0] = vc_onnx_two_in(b, "Add", in[0], vc_onnx_two_in(b, "Gather", node->inputs[3], at));
    if (vc_onnx_has_input(node, 4) && vc_onnx_has_input(node, 1)) {
        in[0] = vc_onnx_two_in(b, "Add", in[0], vc_onnx_two_in(b, "Gather", node->inputs[4], node->inputs[1]));
    }
    vc_onnx_set_output(b, node->from, 2, in[0]);
    in[1] = node->inputs[5];
    in[2] = node->inputs[6];
    return vc_onnx_ends_in(b, node, "LayerNormalization", in, 3, attrs, 2);
}

/* ---- attention ---- */

/* A mask of 0 and 1 [batch, keys] as what is added to the scores, [batch, 1, 1, keys]: (1 - mask) * filter,
 * -10000 by default. */
static uint32_t added_mask(struct vc_onnx_build *b, uint32_t mask, double filter)
{
    const int64_t axes[2] = {1, 2};
    uint32_t off = vc_onnx_two_in(b, "Sub", vc_graph_add_float(b->graph, 1), vc_onnx_cast(b, mask, VC_ONNX_FLOAT));

    return vc_onnx_with_ints(b, "Unsqueeze", vc_onnx_two_in(b, "Mul", off, vc_graph_add_float(b->graph, filter)), axes,
                             2);
}

/* What is added to the scores: the mask if it is [batch, keys], and a bias. *sum VC_NO_VALUE: nothing.
 * False: refused. */
static bool take_masks(struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned mask, unsigned bias,
                       uint32_t *sum)
{
    const struct vc_graph_value *m = vc_onnx_input(b, node, mask);

    *sum = vc_onnx_number(node, bias);
    if (!vc_onnx_has_input(node, mask)) {
        return true;
    }
    VC_RETURN_IF(m == NULL || m->n_dims != 2,
                 vc_onnx_refuse(b, node, "only masks of the form [batch, keys] are supported"));
    mask = added_mask(b, node->inputs[mask], vc_onnx_float(node, "mask_filter_value", -10000));
    *sum = *sum == VC_NO_VALUE ? mask : vc_onnx_two_in(b, "Add", *sum, mask);
    return true;
}

/* Ends a node as ONNX's Attention.
 * in: queries, keys, values (three dimensions), mask, past keys, past values; outputs 1 and 2 are present keys and values.
 * A past without a mask has an input left out in its place. */
static bool end_attention(struct vc_onnx_build *b, const struct vc_onnx_node *node, const uint32_t *in)
{
    struct vc_graph_attr attrs[4] = {vc_attr_int("q_num_heads", vc_onnx_int(node, "num_heads", 0)),
                                     vc_attr_int("kv_num_heads", vc_onnx_int(node, "num_heads", 0)),
                                     vc_attr_int("is_causal", vc_onnx_int(node, "unidirectional", 0))};
    const char *names[3] = {vc_onnx_output_name(b, node->from, 0), vc_onnx_output_name(b, node->from, 1),
                            vc_onnx_output_name(b, node->from, 2)};
    bool present =
        vc_onnx_output_is_used(b, node->from, 1) || vc_onnx_output_is_used(b, node->from, 2) || in[4] != VC_NO_VALUE;
    unsigned n_without_past = in[3] != VC_NO_VALUE ? 4 : 3;
    struct vc_node_spec spec = {.op = "Attention",
                                .name = node->from->name,
                                .n_inputs = in[4] != VC_NO_VALUE ? 6 : n_without_past,
                                .n_outputs = present ? 3 : 1,
                                .n_attrs = 3,
                                .inputs = in,
                                .output_names = names,
                                .attrs = attrs};
    double scale = vc_onnx_float(node, "scale", 0);

    if (scale != 0) {
        attrs[spec.n_attrs++] = vc_attr_float("scale", scale);
    }
    uint32_t first = vc_graph_add_node(b->graph, &spec);
    for (unsigned k = 0; first != VC_NO_VALUE && k < spec.n_outputs; k++) {
        vc_onnx_set_output(b, node->from, k, vc_graph_output_of(b->graph, first, k));
    }
    return false;
}

/* com.microsoft's Attention has one product for queries, keys and values: input [batch, length, size],
 * weights [size, q + k + v]; a Split takes the result apart. */
static bool take_attention(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_attr *sizes = vc_onnx_attr(node, "qkv_hidden_sizes");
    const struct vc_graph_value *w = vc_onnx_input(b, node, 1);
    const struct vc_graph_attr axis = vc_attr_int("axis", -1);
    int64_t parts[3];
    uint32_t in[6] = {VC_NO_VALUE, VC_NO_VALUE, VC_NO_VALUE, VC_NO_VALUE, VC_NO_VALUE, VC_NO_VALUE};
    uint32_t two[2];

    VC_RETURN_IF(w == NULL || w->n_dims != 2 || !vc_dim_is_number(w->shape[1]) || vc_onnx_has_input(node, 4) ||
                     vc_onnx_has_input(node, 6) || vc_onnx_int(node, "do_rotary", 0) != 0 ||
                     vc_onnx_input(b, node, 0) == NULL,
                 vc_onnx_refuse(b, node, "with keys and values of before, or rotary positions, it is not supported"));
    int64_t columns = w->shape[1].size;
    if (!only_first(b, node, 1) || !take_masks(b, node, 3, 5, &in[3])) {
        return false;
    }
    for (unsigned k = 0; k < 3; k++) {
        parts[k] = sizes != NULL && sizes->kind == VC_ATTR_INTS && sizes->n == 3 ? sizes->ints[k] : columns / 3;
    }
    two[0] = vc_onnx_two_in(b, "MatMul", node->inputs[0], node->inputs[1]);
    if (vc_onnx_has_input(node, 2)) {
        two[0] = vc_onnx_two_in(b, "Add", two[0], node->inputs[2]);
    }
    two[1] = vc_graph_add_ints(b->graph, parts, 3);
    uint32_t split = vc_graph_add_node(
        b->graph, &(struct vc_node_spec){
                      .op = "Split", .n_inputs = 2, .n_outputs = 3, .n_attrs = 1, .inputs = two, .attrs = &axis});
    for (unsigned k = 0; k < 3; k++) {
        in[k] = vc_graph_output_of(b->graph, split, k);
    }
    return end_attention(b, node, in);
}

/* Elements first to first + n - 1 of a vector: the biases of q, k and v lie one behind the other. */
static uint32_t part_of(struct vc_onnx_build *b, uint32_t x, int64_t first, int64_t n)
{
    const int64_t end = first + n;
    const int64_t axis = 0;
    uint32_t in[4] = {x, vc_graph_add_ints(b->graph, &first, 1), vc_graph_add_ints(b->graph, &end, 1),
                      vc_graph_add_ints(b->graph, &axis, 1)};
    struct vc_onnx_node node = {.op = "Slice", .n_inputs = 4, .inputs = in};
    uint32_t folded = vc_onnx_fold(b, &node, NULL);

    return folded != VC_NO_VALUE ? folded : vc_onnx_add_one(b, "Slice", NULL, in, 4, NULL, 0);
}

/* Queries, keys and values come as three inputs; the bias is added to each by its part. */
static bool take_multi_head(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    uint32_t in[6] = {
        VC_NO_VALUE, VC_NO_VALUE, VC_NO_VALUE, VC_NO_VALUE, vc_onnx_number(node, 6), vc_onnx_number(node, 7)};
    int64_t first = 0;

    for (unsigned k = 0; k < 3; k++) {
        const struct vc_graph_value *x = vc_onnx_input(b, node, k);

        VC_RETURN_IF(x == NULL || x->n_dims != 3 || vc_onnx_has_input(node, 8) || vc_onnx_has_input(node, 9),
                     vc_onnx_refuse(
                         b, node, "only queries, keys and values of three dimensions, each by itself, are supported"));
    }
    if (vc_onnx_output_is_used(b, node->from, 3) || !take_masks(b, node, 4, 5, &in[3])) {
        return vc_onnx_output_is_used(b, node->from, 3) && only_first(b, node, 3);
    }
    for (unsigned k = 0; k < 3; k++) {
        struct vc_dim size = vc_onnx_input(b, node, k)->shape[2];

        in[k] = node->inputs[k];
        if (!vc_onnx_has_input(node, 3)) {
            continue;
        }
        VC_RETURN_IF(!vc_dim_is_number(size),
                     vc_onnx_refuse(b, node, "its bias cannot be divided: a size depends on an input"));
        in[k] = vc_onnx_two_in(b, "Add", in[k], part_of(b, node->inputs[3], first, size.size));
        first += size.size;
    }
    return end_attention(b, node, in);
}

/* Positions [1] say where the first token stands, [batch, length] give all. Without num_heads it follows
 * from the tables' width. */
static bool take_rotary(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    const struct vc_graph_value *at = vc_onnx_input(b, node, 1);
    const struct vc_graph_value *table = vc_onnx_input(b, node, 2);
    int64_t part = vc_onnx_int(node, "rotary_embedding_dim", 0);
    int64_t heads = vc_onnx_int(node, "num_heads", 0);
    struct vc_graph_attr attrs[3] = {vc_attr_int("interleaved", vc_onnx_int(node, "interleaved", 0)),
                                     vc_attr_int("rotary_embedding_dim", part)};
    uint32_t in[4];

    VC_RETURN_IF(node->n_inputs != 4 || x == NULL || at == NULL || table == NULL || at->n_dims != 2 ||
                     table->n_dims != 2 || vc_onnx_int(node, "is_packed_batching", 0) != 0 ||
                     vc_onnx_float(node, "scale", 1) != 1,
                 vc_onnx_refuse(b, node, "only positions of the form [batch, length], and no scale, are supported"));
    if (heads == 0 && x->n_dims == 3 && vc_dim_is_number(x->shape[2]) && vc_dim_is_number(table->shape[1]) &&
        table->shape[1].size > 0) {
        heads = x->shape[2].size / (2 * table->shape[1].size);
    }
    attrs[2] = vc_attr_int("num_heads", heads);
    in[0] = node->inputs[0];
    in[1] = node->inputs[2];
    in[2] = node->inputs[3];
    in[3] = node->inputs[1];
    return vc_onnx_ends_in(b, node, "RotaryEmbedding", in, 4, attrs, x->n_dims == 3 ? 3 : 2);
}

bool vc_onnx_take_microsoft(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    static const struct vc_onnx_rewrite rows[] = {
        {"Gelu BiasGelu FastGelu", take_gelu},
        {"QuickGelu", take_quick_gelu},
        {"FusedMatMul", take_fused_matmul},
        {"MatMulNBits", take_matmul_nbits},
        {"DynamicQuantizeMatMul MatMulIntegerToFloat", take_product_of_codes},
        {"DynamicQuantizeLSTM", take_dynamic_lstm},
        {"SkipLayerNormalization SkipSimplifiedLayerNormalization", take_skip_norm},
        {"EmbedLayerNormalization", take_embed_norm},
        {"Attention", take_attention},
        {"MultiHeadAttention", take_multi_head},
        {"RotaryEmbedding", take_rotary}};
    vc_onnx_taker *take = vc_onnx_find_taker(rows, sizeof rows / sizeof *rows, node->op);

    VC_RETURN_IF(take == NULL, vc_onnx_refuse(b, node, "this operator of com.microsoft is not supported"));
    VC_RETURN_IF(!vc_onnx_has_input(node, 0), vc_onnx_refuse(b, node, "has no inputs"));
    return take(b, node);
}
