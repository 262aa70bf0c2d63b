/* onnx_nodes.c - what the nodes of an ONNX graph say about the tensors they use: how often each is used and for what
 * (onnx_uses.c sums that up), which axis its output channels are, and which nodes only turn an initializer into another
 * type.
 *
 *     0a 01 78 0a 01 77 12 01 79 22 06 "MatMul"       input "x", input "w", output "y", op_type: w has its channels last
 *
 * Called by onnx_graph.c for each node, also of graphs inside nodes. */

#include "formats/onnx/onnx.h"

#define MAX_WORD      ((size_t)32) /* operators and attributes that matter here are shorter */
#define MAX_EQUATION  ((size_t)96)
#define MAX_PERM      ((size_t)8)
#define MAX_OPERATORS 300 /* that are looked for: a file could have as many as nodes */

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
    size_t n_perm;                   /* of Transpose; MAX_PERM + 1: more */
    uint64_t perm[MAX_PERM];
    uint64_t callee; /* the hash of domain and operator, if they name a function */
    size_t graphs;   /* the last graph inside it, of r->all.bodies, or ONNX_NONE */
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
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {{"axis", offsetof(struct node, axis)},
                {"to", offsetof(struct node, to)},
                {"transA", offsetof(struct node, trans_a)},
                {"transB", offsetof(struct node, trans_b)},
                {"group", offsetof(struct node, group)},
                {"block_size", offsetof(struct node, block_size)},
                {"output_dtype", offsetof(struct node, output_dtype)},
                {"K", offsetof(struct node, k)},
                {"N", offsetof(struct node, n)},
                {"bits", offsetof(struct node, bits)}};
    const size_t n = sizeof rows / sizeof *rows;
    size_t k = 0;

    while (k < n && strcmp(rows[k].name, name) != 0) {
        k++;
    }
    if (k < n) {
        memcpy((unsigned char *)node + rows[k].offset, &value, sizeof value);
        node->odd |= strcmp(name, "group") == 0;
    } else if (vc_is_one_of(name, "alpha beta")) {
        node->odd |= value != 1;
    } else { /* neither how inputs may be rounded, where the codes mean the same, nor what is about float8 */
        node->odd |= !vc_is_one_of(name, "accuracy_level saturate");
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
    VC_CALL(vc_onnx_subgraph_scan(r, f->data, &scope));
    r->all.bodies[r->all.n_bodies - 1].next = node->graphs;
    node->graphs = r->all.n_bodies - 1;
    return VC_OK;
}

/* Integers of a list, packed or one by one. */
static enum vc_status take_ints(struct onnx_reader *r, struct node *node, const struct vc_field *f)
{
    struct vc_span rest = f->data;

    if (f->type == VC_WIRE_VARINT && node->n_perm < MAX_PERM) {
        node->perm[node->n_perm] = f->value;
    }
    node->n_perm += f->type == VC_WIRE_VARINT && node->n_perm <= MAX_PERM;
    while (f->type == VC_WIRE_BYTES && rest.n != 0 && node->n_perm < MAX_PERM) {
        VC_CALL(vc_wire_varint(&r->wire, &rest, &node->perm[node->n_perm]));
        node->n_perm++;
    }
    node->n_perm += f->type == VC_WIRE_BYTES && rest.n != 0;
    return VC_OK;
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

    VC_EACH_FIELD(f, &r->wire, message) {
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
            if (strcmp(name, "equation") == 0) {
                VC_CALL(take_text(r, node, &f));
            }
            break;
        case ONNX_ATTRIBUTE_INTS:
            if (strcmp(name, "perm") == 0) {
                VC_CALL(take_ints(r, node, &f));
            }
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
        VC_CALL(read_word(r, f, "the operator of a node", node->op));
        node->callee ^= vc_onnx_function_hash(r->name, false);
        break;
    case ONNX_NODE_DOMAIN:
        VC_CALL(read_word(r, f, "the domain of a node", domain));
        node->callee ^= vc_onnx_function_hash(r->name, true);
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

/* The operator is one of ONNX's words, or of onnxruntime's. */
static bool is_op(const struct node *node, const char *own, const char *microsoft)
{
    return (node->default_domain && vc_is_one_of(node->op, own)) ||
           (node->microsoft && vc_is_one_of(node->op, microsoft));
}

/* Matrices, which MatMul never turns. */
static bool is_matrix_product(const struct node *node)
{
    return is_op(node, "MatMul Gemm", "FusedMatMul FusedGemm TransposeMatMul");
}

/* Those whose weights have output channels on axis 0. */
static bool is_convolution(const struct node *node)
{
    return is_op(node, "Conv", "FusedConv");
}

/* Their weights are stacks of gates. */
static bool is_recurrent(const struct node *node)
{
    return is_op(node, "LSTM GRU RNN", "");
}

/* Which axis of input k holds the output channels of the operator; 0: it does not say. */
static unsigned axis_of(const struct node *node, size_t k)
{
    const char *op = node->op;

    if (is_matrix_product(node) && k < 2) {
        return (k == 0) == (k == 0 ? node->trans_a == 0 : node->trans_b == 0) ? ONNX_AXIS_LAST_BUT_ONE : ONNX_AXIS_LAST;
    }
    if (is_convolution(node) && k == 1) {
        return ONNX_AXIS_0;
    }
    if (is_recurrent(node) && (k == 1 || k == 2)) {
        return ONNX_AXIS_LAST_BUT_ONE; /* of three */
    }
    if (!node->default_domain) {
        return node->microsoft && k == 1 && strcmp(op, "Attention") == 0 ? ONNX_AXIS_LAST : 0;
    }
    if (strcmp(op, "ConvTranspose") == 0 && k == 1) {
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

/* A letter of operand k is summed; an equation that is not known is taken for such a sum. */
static bool einsum_sums(const struct node *node, size_t k)
{
    const char *output;
    size_t n;
    const char *letters = operand_of(node->equation, k, &n, &output);
    bool sums = output == NULL || n == 0;

    for (size_t i = 0; i < n && !sums; i++) {
        sums = letters[i] != '.' && strchr(output, letters[i]) == NULL;
    }
    return sums;
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

            if (twice) {
                return ONNX_AXIS_OTHER;
            }
            if (n - 1 - i < 2) {
                return back[n - 1 - i];
            }
            if (i < 2 && !dots) {
                return front[i];
            }
            return ONNX_AXIS_OTHER;
        }
    }
    return ONNX_AXIS_OTHER;
}

/* Which axis of input k the operator sums over; 0: it does not say. Of a transposed convolution in groups an output
 * reads only a part of the axis. */
static unsigned inputs_of(const struct node *node, size_t k)
{
    const char *op = node->op;

    if (is_matrix_product(node) && k < 2) {
        return axis_of(node, k) == ONNX_AXIS_LAST ? ONNX_AXIS_LAST_BUT_ONE : ONNX_AXIS_LAST;
    }
    if (is_convolution(node) && k == 1) {
        return ONNX_AXIS_1;
    }
    if (is_recurrent(node) && (k == 1 || k == 2)) {
        return ONNX_AXIS_LAST;
    }
    if (!node->default_domain) {
        return node->microsoft && k == 1 && strcmp(op, "Attention") == 0 ? ONNX_AXIS_LAST_BUT_ONE : 0;
    }
    if (strcmp(op, "ConvTranspose") == 0 && k == 1) {
        return node->group > 1 ? ONNX_AXIS_OTHER : ONNX_AXIS_0;
    }
    return strcmp(op, "Einsum") == 0 ? einsum_inputs(node, k) : 0;
}

/* What a node that only moves elements does with the axes. Those of MatMul and LSTM are counted from the end, those of
 * Conv from the front, so that one more axis, at the other end, leaves them alone. */
static enum onnx_turn turn_of(const struct node *node)
{
    size_t n = node->n_perm;

    if (vc_is_one_of(node->op, "Identity Cast CastLike Dropout Unsqueeze Squeeze Expand Slice Split QuantizeLinear "
                               "DequantizeLinear")) {
        return ONNX_TURN_NONE;
    }
    if (strcmp(node->op, "Transpose") != 0 || n < 2 || n > MAX_PERM) {
        return ONNX_TURN_OTHER;
    }
    for (size_t i = 0; i < n - 2; i++) {
        if (node->perm[i] != i) {
            return ONNX_TURN_OTHER;
        }
    }
    return node->perm[n - 2] == n - 2 && node->perm[n - 1] == n - 1   ? ONNX_TURN_NONE
           : node->perm[n - 2] == n - 1 && node->perm[n - 1] == n - 2 ? ONNX_TURN_LAST_TWO
                                                                      : ONNX_TURN_OTHER;
}

/* Inputs and outputs of a node that is complete go behind those of all other nodes. */
static enum vc_status list_reads(struct onnx_reader *r, const struct node *node, const char *letters)
{
    struct onnx_uses *all = &r->all;
    bool einsum = node->default_domain && strcmp(node->op, "Einsum") == 0;
    size_t last = strlen(letters) - 1;

    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, all->reads, all->reads_capacity, all->n_reads + node->n_in + node->n_out));
    for (size_t pass = 0; pass < 2; pass++) {
        size_t k = 0;

        for (size_t i = node->first; i < r->n_uses; i++) {
            struct onnx_read read = {.symbol = r->uses[i].symbol};

            if (r->uses[i].output != (pass == 1)) {
                continue;
            }
            if (pass == 0) {
                read.axes = (uint16_t)axis_of(node, k);
                read.inputs = (uint16_t)inputs_of(node, k);
                read.letter = einsum && !einsum_sums(node, k) ? '.' : letters[k < last ? k : last];
                k++;
            }
            all->reads[all->n_reads++] = read;
        }
    }
    return VC_OK;
}

/* The operator of the node, mostly once for all nodes that have it. */
static enum vc_status find_operator(struct onnx_reader *r, const struct node *node, const struct onnx_operator **out)
{
    struct onnx_uses *all = &r->all;
    bool known = node->default_domain || node->microsoft;

    for (size_t i = 0; i < all->n_operators && i < MAX_OPERATORS; i++) {
        *out = &all->operators[i];
        if ((*out)->known == known && (*out)->microsoft == node->microsoft && strcmp((*out)->name, node->op) == 0) {
            return VC_OK;
        }
    }
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, all->operators, all->operators_capacity, all->n_operators + 1));
    struct onnx_operator *own = &all->operators[all->n_operators];
    *own = (struct onnx_operator){.name = vc_arena_printf(r->ctx, &r->self->arena, "%s", node->op),
                                  .letters = known ? vc_onnx_operator_letters(node->op, node->microsoft) : ".",
                                  .known = known,
                                  .microsoft = node->microsoft};
    VC_CALL_ALLOC(own->name);
    all->n_operators++;
    *out = own;
    return VC_OK;
}

/* The node is complete: what it says about its inputs and outputs is noted, for onnx_uses.c and here. */
static enum vc_status count_uses(struct onnx_reader *r, const struct node *node)
{
    struct onnx_uses *all = &r->all;
    const struct onnx_operator *op;

    VC_CALL(find_operator(r, node, &op));
    const struct onnx_reading reading = {.op = op->name,
                                         .first = all->n_reads,
                                         .n_in = node->n_in,
                                         .n_out = node->n_out,
                                         .callee = op->known ? 0 : node->callee,
                                         .has_graph = node->has_graph,
                                         .turn = turn_of(node)};
    VC_CALL(list_reads(r, node, op->letters));
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, all->nodes, all->nodes_capacity, all->n_nodes + 1));
    all->nodes[all->n_nodes++] = reading;
    for (size_t i = node->first; i < r->n_uses; i++) {
        struct onnx_symbol *symbol = r->uses[i].symbol != ONNX_NONE ? &r->self->symbols.list[r->uses[i].symbol] : NULL;

        if (symbol != NULL && r->uses[i].output) {
            symbol->n_made++;
            symbol->defined = true;
        } else if (symbol != NULL) {
            symbol->n_uses++;
        }
    }
    return vc_onnx_bind_graphs(r, &reading, node->graphs);
}

/* Names that are none would be no names in a document. */
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
                 [ONNX_OP_TURN] = {"Transpose", 1, 1},
                 [ONNX_OP_MATMUL] = {"MatMul", 2, 2},
                 [ONNX_OP_GEMM] = {"Gemm", 2, 3},
                 [ONNX_OP_NBITS] = {"MatMulNBits", 3, ONNX_NODE_INPUTS}};

    for (size_t i = 0; node->n_out == 1 && i < sizeof steps / sizeof steps[0]; i++) {
        if (strcmp(node->op, steps[i].name) == 0 && (i == ONNX_OP_NBITS ? node->microsoft : node->default_domain)) {
            *op = (enum onnx_op)i;
            return node->n_in >= steps[i].min_in && node->n_in <= steps[i].max_in &&
                   (i != ONNX_OP_TURN || (node->n_perm == 2 && turn_of(node) == ONNX_TURN_LAST_TWO));
        }
    }
    return false;
}

/* Keeps the node if it could be what stands between an initializer and the graph. */
static enum vc_status keep(struct onnx_reader *r, const struct node *node, const struct vc_field *field)
{
    struct onnx *self = r->self;
    enum onnx_op op;
    size_t k = 0;

    if (!is_step(node, &op)) {
        return VC_OK;
    }
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, self->nodes, self->nodes_capacity, self->n_nodes + 1));
    struct onnx_node *kept = &self->nodes[self->n_nodes];
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
                               .turn = ONNX_NONE,
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
    struct node node = {.default_domain = true, .first = r->n_uses, .axis = 1, .bits = 4, .graphs = ONNX_NONE};
    struct vc_span rest = field->data;
    struct vc_field f;
    enum vc_status status;

    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a node"));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        VC_TRY(take_field(r, &node, &f));
    }
    VC_TRY(count_uses(r, &node));
    if (node.has_graph || r->in_function || (r->scope->around != NULL && !vc_onnx_has_inner_tensors(r->self))) {
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
