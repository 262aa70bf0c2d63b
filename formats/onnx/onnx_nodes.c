/* onnx_nodes.c - what the nodes of an ONNX graph say about the tensors they use: how often each is used, which axis its
 * output channels are, and which nodes only turn an initializer into another type.
 *
 *     0a 01 78 0a 01 77 12 01 79 22 06 "MatMul"       input "x", input "w", output "y", op_type: w has its channels last
 *
 * Called by onnx_graph.c for each node, also of graphs inside nodes. */
#include <string.h>

#include "formats/onnx/onnx.h"

#define MAX_WORD     ((size_t)32) /* operators and attributes that matter here are shorter */
#define MAX_EQUATION ((size_t)96)

/* A node while it is read. */
struct node {
    char op[MAX_WORD + 1]; /* "" when it is longer */
    bool default_domain, microsoft;
    size_t first; /* of r->uses */
    size_t n_in, n_out;
    bool odd;
    bool has_graph;
    struct vc_span name;   /* of the file */
    struct vc_field value; /* its attribute of that name, if it is a tensor */
    int64_t axis, to, trans_a, trans_b, block_size, output_dtype, group, k, n, bits;
    char equation[MAX_EQUATION + 1]; /* of Einsum, without spaces; "" when it is longer */
};

/* ---- fields ---- */

/* A short word into word[MAX_WORD + 1]; longer ones become "", which is none that matters. */
static enum vc_status read_word(struct onnx_reader *r, const struct vc_field *field, const char *what, char *word)
{
    enum vc_status status = vc_onnx_string_read(r, field, what);

    if (status == VC_OK) {
        word[0] = '\0';
        if (field->data.n <= MAX_WORD) {
            memcpy(word, r->name, (size_t)field->data.n + 1);
        }
    }
    return status;
}

/* An input or output goes onto the stack r->uses until the whole node is known. */
static enum vc_status add_use(struct onnx_reader *r, const struct vc_field *field, bool output)
{
    size_t symbol;

    VC_CALL(vc_onnx_symbol_read(r, field, output ? "the output of a node" : "the input of a node", &symbol));
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, r->uses, r->uses_capacity, r->n_uses + 1));
    r->uses[r->n_uses++] = (struct onnx_use){symbol, output};
    return VC_OK;
}

/* An attribute that is a number. One that is not known makes the node `odd`: it may mean more than its operator says.
 */
static void take_value(struct node *node, const char *name, int64_t value)
{
    if (strcmp(name, "axis") == 0) {
        node->axis = value;
    } else if (strcmp(name, "to") == 0) {
        node->to = value;
    } else if (strcmp(name, "transA") == 0) {
        node->trans_a = value;
    } else if (strcmp(name, "transB") == 0) {
        node->trans_b = value;
    } else if (strcmp(name, "block_size") == 0) {
        node->block_size = value;
    } else if (strcmp(name, "group") == 0) {
        node->group = value;
        node->odd = true;
    } else if (strcmp(name, "output_dtype") == 0) {
        node->output_dtype = value;
    } else if (strcmp(name, "K") == 0) {
        node->k = value;
    } else if (strcmp(name, "N") == 0) {
        node->n = value;
    } else if (strcmp(name, "bits") == 0) {
        node->bits = value;
    } else if (strcmp(name, "alpha") == 0 || strcmp(name, "beta") == 0) {
        node->odd |= value != 1;
    } else if (strcmp(name, "accuracy_level") == 0) { /* how inputs may be rounded: the codes mean the same */
        return;
    } else if (strcmp(name, "saturate") != 0) { /* that is about float8 */
        node->odd = true;
    }
}

/* A graph in an attribute. Name and outputs of the node, and the name of the attribute, come before it. */
static enum vc_status take_graph(struct onnx_reader *r, struct node *node, const struct vc_field *f,
                                 struct vc_span attribute)
{
    struct onnx_scope scope = {.node = node->name, .attribute = attribute, .output = ONNX_NONE};

    for (size_t i = node->first; i < r->n_uses && scope.output == ONNX_NONE; i++) {
        scope.output = r->uses[i].output ? r->uses[i].symbol : ONNX_NONE;
    }
    node->has_graph = true;
    VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "a graph inside a node"));
    return vc_onnx_subgraph_scan(r, f->data, &scope);
}

/* The text of an attribute without spaces, if it is short enough. */
static enum vc_status take_text(struct onnx_reader *r, struct node *node, const struct vc_field *f)
{
    enum vc_status status = vc_onnx_string_read(r, f, "the text of an attribute");
    const char *at = r->name;
    size_t n = 0;

    for (; status == VC_OK && f->data.n <= MAX_EQUATION && *at != '\0'; at++) {
        if (*at != ' ') {
            node->equation[n++] = *at;
        }
    }
    node->equation[n] = '\0';
    return status;
}

/* Its number; graphs and tensors in it are looked at on the way. */
static enum vc_status take_attribute(struct onnx_reader *r, struct node *node, struct vc_span message)
{
    struct vc_field tensor = {.number = 0};
    struct vc_span name_span = {0, 0};
    char name[MAX_WORD + 1] = "";
    int64_t value = 0;
    struct vc_field f;

    while (message.n != 0) {
        VC_CALL(vc_wire_field(&r->wire, &message, &f));
        switch (f.number) {
        case ONNX_ATTRIBUTE_NAME:
            VC_CALL(read_word(r, &f, "the name of an attribute", name));
            name_span = f.data;
            break;
        case ONNX_ATTRIBUTE_I:
            value = (int64_t)f.value;
            break;
        case ONNX_ATTRIBUTE_F: /* alpha and beta are asked whether they are 1 */
            value = f.value == 0x3f800000U ? 1 : 0;
            break;
        case ONNX_ATTRIBUTE_S:
            VC_CALL(strcmp(name, "equation") == 0 ? take_text(r, node, &f) : VC_OK);
            break;
        case ONNX_ATTRIBUTE_G:
        case ONNX_ATTRIBUTE_GRAPHS:
            VC_CALL(take_graph(r, node, &f, name_span));
            break;
        case ONNX_ATTRIBUTE_T:
        case ONNX_ATTRIBUTE_TENSORS:
            VC_CALL(vc_onnx_inner_tensor(r, &f, false));
            tensor = f;
            break;
        case ONNX_ATTRIBUTE_SPARSE:
        case ONNX_ATTRIBUTE_SPARSES:
            VC_CALL(vc_onnx_inner_sparse(r, &f, false));
            break;
        default:
            break;
        }
    }
    take_value(node, name, value);
    if (strcmp(name, "value") == 0) {
        node->value = tensor;
    }
    return VC_OK;
}

/* A field of a NodeProto. */
static enum vc_status take_field(struct onnx_reader *r, struct node *node, const struct vc_field *f)
{
    char domain[MAX_WORD + 1];

    switch (f->number) {
    case ONNX_NODE_INPUT:
        node->n_in++;
        return add_use(r, f, false);
    case ONNX_NODE_OUTPUT:
        node->n_out++;
        return add_use(r, f, true);
    case ONNX_NODE_NAME:
        node->name = f->type == VC_WIRE_BYTES ? f->data : node->name;
        break;
    case ONNX_NODE_OP:
        return read_word(r, f, "the operator of a node", node->op);
    case ONNX_NODE_DOMAIN:
        VC_CALL(read_word(r, f, "the domain of a node", domain));
        node->default_domain = f->data.n == 0 || strcmp(domain, "ai.onnx") == 0;
        node->microsoft = strcmp(domain, ONNX_MICROSOFT) == 0;
        r->self->n_microsoft += node->microsoft;
        break;
    case ONNX_NODE_ATTRIBUTE:
        VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "the attribute of a node"));
        return take_attribute(r, node, f->data);
    default:
        break;
    }
    return VC_OK;
}

/* ---- what it means for its inputs ---- */

/* Which axis of input k holds the output channels of the operator; 0: it does not say. */
static unsigned axis_of(const struct node *node, size_t k)
{
    const char *op = node->op;

    if (!node->default_domain) {
        return 0;
    }
    if (strcmp(op, "MatMul") == 0) {
        return k == 0 ? ONNX_AXIS_LAST_BUT_ONE : ONNX_AXIS_LAST;
    }
    if (strcmp(op, "Gemm") == 0 && k < 2) {
        return (k == 0) == (k == 0 ? node->trans_a == 0 : node->trans_b == 0) ? ONNX_AXIS_LAST_BUT_ONE : ONNX_AXIS_LAST;
    }
    if (strcmp(op, "Conv") == 0 && k == 1) {
        return ONNX_AXIS_0;
    }
    if ((strcmp(op, "ConvTranspose") == 0 && k == 1) ||
        ((strcmp(op, "LSTM") == 0 || strcmp(op, "GRU") == 0 || strcmp(op, "RNN") == 0) && (k == 1 || k == 2))) {
        return ONNX_AXIS_1;
    }
    return strcmp(op, "Gather") == 0 && k == 0 ? ONNX_AXIS_0 : 0;
}

/* The letters of operand k of an equation; *output: those behind the arrow, NULL where it has none. */
static const char *operand_of(const char *equation, size_t k, size_t *n, const char **output)
{
    const char *arrow = strstr(equation, "->");
    const char *end = arrow != NULL ? arrow : equation + strlen(equation);

    *output = arrow != NULL ? arrow + 2 : NULL;
    for (; k > 0 && equation < end; k--) {
        equation += strcspn(equation, ",");
        equation += equation < end;
    }
    *n = equation < end ? strcspn(equation, ",-") : 0;
    return equation;
}

/* Of an Einsum: the axis of input k that is summed, the last one of several. Letters before the dots are counted from
 * the front, those behind them from the end. */
static unsigned einsum_inputs(const struct node *node, size_t k)
{
    static const unsigned front[] = {ONNX_AXIS_0, ONNX_AXIS_1};
    static const unsigned back[] = {ONNX_AXIS_LAST, ONNX_AXIS_LAST_BUT_ONE};
    const char *output;
    size_t n;
    const char *letters = operand_of(node->equation, k, &n, &output);
    bool dots = memchr(letters, '.', n) != NULL;
    size_t i = n;

    while (output != NULL && i-- > 0 && letters[i] != '.') {
        if (strchr(output, letters[i]) == NULL) {
            bool twice = memchr(letters, letters[i], i) != NULL; /* behind it are none that are summed */

            return twice            ? ONNX_AXIS_OTHER
                   : n - 1 - i < 2  ? back[n - 1 - i]
                   : i < 2 && !dots ? front[i]
                                    : ONNX_AXIS_OTHER;
        }
    }
    return ONNX_AXIS_OTHER;
}

/* Which axis of input k the operator sums over; 0: it does not say. Of a transposed convolution in groups an output
 * reads only a part of the axis. */
static unsigned inputs_of(const struct node *node, size_t k)
{
    const char *op = node->op;
    bool recurrent = strcmp(op, "LSTM") == 0 || strcmp(op, "GRU") == 0 || strcmp(op, "RNN") == 0;

    if (!node->default_domain) {
        return 0;
    }
    if (strcmp(op, "MatMul") == 0) {
        return k == 0 ? ONNX_AXIS_LAST : ONNX_AXIS_LAST_BUT_ONE;
    }
    if (strcmp(op, "Gemm") == 0 && k < 2) {
        return axis_of(node, k) == ONNX_AXIS_LAST ? ONNX_AXIS_LAST_BUT_ONE : ONNX_AXIS_LAST;
    }
    if (strcmp(op, "ConvTranspose") == 0 && k == 1) {
        return node->group > 1 ? ONNX_AXIS_OTHER : ONNX_AXIS_0;
    }
    return strcmp(op, "Einsum") == 0           ? einsum_inputs(node, k)
           : strcmp(op, "Conv") == 0 && k == 1 ? ONNX_AXIS_1
           : recurrent && (k == 1 || k == 2)   ? ONNX_AXIS_LAST
                                               : 0;
}

/* What input k is, if it is no matrix of weights ("bias"): an error in it is not spread over a sum, so it stays as it
 * is. */
static const char *beside_weights(const struct node *node, size_t k)
{
    bool recurrent = strcmp(node->op, "LSTM") == 0 || strcmp(node->op, "GRU") == 0 || strcmp(node->op, "RNN") == 0;

    if (node->microsoft && strcmp(node->op, "MatMulNBits") == 0) {
        return k == ONNX_NODE_INPUTS - 1 ? "bias" : NULL;
    }
    if (!node->default_domain || (!recurrent && strcmp(node->op, "Gemm") != 0)) {
        return NULL;
    }
    return k == (recurrent ? 3 : 2) ? "bias"
           : recurrent && k == 7    ? "peephole weights"
           : k > 4                  ? "initial state"
                                    : NULL;
}

/* Input k of an operator that computes on codes: its scales would not survive being quantized themselves. */
static bool is_for_codes(const struct node *node, size_t k)
{
    static const char *const ops[] = {"MatMulBnb4", "GatherBlockQuantized", "QMoE"};
    static const char *const starts[] = {"QLinear",         "MatMulInteger", "ConvInteger",
                                         "DynamicQuantize", "QGemm",         "QAttention"};

    if (strcmp(node->op, "DequantizeLinear") == 0 || strcmp(node->op, "QuantizeLinear") == 0) {
        return k > 0;
    }
    if (strcmp(node->op, "MatMulNBits") == 0) { /* the last input is a bias */
        return k > 0 && k < ONNX_NODE_INPUTS - 1;
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (strcmp(node->op, ops[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (strncmp(node->op, starts[i], strlen(starts[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The node is complete: what it says about its inputs and outputs goes to their symbols. */
static void count_uses(struct onnx_reader *r, const struct node *node)
{
    size_t k = 0;

    for (size_t i = node->first; i < r->n_uses; i++) {
        const struct onnx_use *use = &r->uses[i];
        struct onnx_symbol *symbol = use->symbol != ONNX_NONE ? &r->self->symbols.list[use->symbol] : NULL;

        if (symbol != NULL && use->output) {
            symbol->n_made++;
            symbol->defined = true;
        } else if (symbol != NULL) {
            symbol->n_uses++;
            symbol->axes |= axis_of(node, k);
            symbol->inputs |= inputs_of(node, k);
            symbol->for_codes |= is_for_codes(node, k);
            symbol->n_beside += beside_weights(node, k) != NULL;
            symbol->beside = beside_weights(node, k) != NULL ? beside_weights(node, k) : symbol->beside;
        }
        k += !use->output;
    }
}

static bool is_utf8(const char *name)
{
    return vc_utf8_valid(name, strlen(name));
}

/* An operator that can stand between an initializer and the graph or be a product, with as many inputs as it takes. */
static bool is_step(const struct node *node, enum onnx_op *op)
{
    static const struct {
        const char *name;
        size_t min_in, max_in;
    } steps[] = {[ONNX_OP_DEQUANTIZE] = {"DequantizeLinear", 2, 3},
                 [ONNX_OP_CAST] = {"Cast", 1, 1},
                 [ONNX_OP_SUB] = {"Sub", 2, 2},
                 [ONNX_OP_MUL] = {"Mul", 2, 2},
                 [ONNX_OP_MATMUL] = {"MatMul", 2, 2},
                 [ONNX_OP_GEMM] = {"Gemm", 2, 3},
                 [ONNX_OP_NBITS] = {"MatMulNBits", 3, ONNX_NODE_INPUTS}};

    for (size_t i = 0; node->n_out == 1 && i < sizeof steps / sizeof steps[0]; i++) {
        if (strcmp(node->op, steps[i].name) == 0 && (i == ONNX_OP_NBITS ? node->microsoft : node->default_domain)) {
            *op = (enum onnx_op)i;
            return node->n_in >= steps[i].min_in && node->n_in <= steps[i].max_in;
        }
    }
    return false;
}

/* Keeps the node if it could be what stands between an initializer and the graph. */
static enum vc_status keep(struct onnx_reader *r, const struct node *node, const struct vc_field *field)
{
    struct onnx *self = r->self;
    struct onnx_node *kept;
    enum onnx_op op;
    size_t k = 0;

    if (!is_step(node, &op)) {
        return VC_OK;
    }
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, self->nodes, self->nodes_capacity, self->n_nodes + 1));
    kept = &self->nodes[self->n_nodes];
    *kept = (struct onnx_node){.field = field->all,
                               .graph = r->scope->number,
                               .op = op,
                               .odd = node->odd || (op == ONNX_OP_GEMM && node->trans_a != 0),
                               .in = {ONNX_NONE, ONNX_NONE, ONNX_NONE, ONNX_NONE, ONNX_NONE, ONNX_NONE},
                               .out = ONNX_NONE,
                               .k = node->k,
                               .n = node->n,
                               .bits = node->bits,
                               .weights = ONNX_NONE,
                               .axis = node->axis,
                               .block_size = node->block_size,
                               .to = op == ONNX_OP_DEQUANTIZE ? node->output_dtype : node->to};
    for (size_t i = node->first; i < r->n_uses; i++) {
        if (r->uses[i].output) {
            kept->out = r->uses[i].symbol;
        } else {
            kept->in[k++] = r->uses[i].symbol;
        }
    }
    if (kept->out == ONNX_NONE || kept->in[0] == ONNX_NONE || !is_utf8(self->symbols.list[kept->out].name)) {
        return VC_OK;
    }
    if (op == ONNX_OP_CAST) {
        self->symbols.list[kept->in[0]].cast = self->n_nodes;
    }
    self->symbols.list[kept->out].maker = self->n_nodes++;
    return VC_OK;
}

/* A Constant node that holds a tensor. */
static bool is_constant(const struct node *node)
{
    return node->default_domain && strcmp(node->op, "Constant") == 0 && node->n_in == 0 && node->n_out == 1 &&
           node->value.number == ONNX_ATTRIBUTE_T;
}

/* Reads the whole node before anything is decided, since its fields come in any order. Nodes inside its graphs use the
 * same stack of uses above its own. */
enum vc_status vc_onnx_node_scan(struct onnx_reader *r, const struct vc_field *field)
{
    struct node node = {.default_domain = true, .first = r->n_uses, .axis = 1, .bits = 4};
    struct vc_span rest = field->data;
    struct vc_field f;
    enum vc_status status;

    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a node"));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        VC_TRY(take_field(r, &node, &f));
    }
    count_uses(r, &node);
    if (node.has_graph || (r->scope->around != NULL && !vc_onnx_has_inner_tensors(r->self))) {
        goto out; /* nothing of it is changed but what is inside */
    }
    if (is_constant(&node)) {
        VC_TRY(vc_onnx_constant_scan(r, field, &node.value, r->uses[node.first].symbol));
    } else {
        VC_TRY(keep(r, &node, field));
    }
out:
    r->n_uses = node.first;
    return status;
}
