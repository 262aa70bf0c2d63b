/* onnx_raise.c - a graph of an older operator set as one of VC_GRAPH_CODES_OPSET, where codes of values need that: the
 * nodes whose operators changed in between are written in another way that computes the same.
 *
 *     Squeeze<axes = [2, 3]>(x)         Squeeze(x, axes.0), a new initializer of the main graph
 *     Dropout<ratio = 0.5>(x)           Dropout(x): a ratio is for training alone
 *     Softmax<axis = 2>(x) -> y         Softmax<axis = -1>(x), where x is known to have three dimensions; else
 *                                       Reshape(Softmax<axis = -1>(Flatten<axis = 2>(x)), Shape(x)) -> y: all
 *                                       dimensions from the axis on were one
 *
 * An operator without a row is refused by its name: Upsample, Resize of set 10, Scatter, those that were experiments.
 * The rows are made from onnx.defs of onnx 1.23: signatures and documents of sets 7 to 13. Not done here: functions of
 * the file, which import operator sets of their own. */

#include "formats/onnx/onnx_sink.h"

#define OLDEST   7
#define MAX_NAME 64 /* longer than any operator of ONNX */

/* Operators whose form has changed in the same way, or in none. */
struct onnx_raise {
    uint64_t since; /* nothing else has changed from this set on */
    uint64_t until; /* the last set with the old form; 0: the form never changed */
    const char *ops;
    const char *move; /* attributes that are inputs 1, 2, ... now */
    const char *drop; /* an attribute that means nothing where it is not 0 */
    bool flat;        /* the dimensions from `axis` (1) on were one */
};

static const struct onnx_raise rows[] = {
    {OLDEST, 12, "Squeeze Unsqueeze ReduceSum", "axes", "", false},
    {OLDEST, 12, "Split", "split", "", false},
    {OLDEST, 9, "Slice", "starts ends axes", "", false},
    {OLDEST, 9, "TopK", "k", "", false},
    {OLDEST, 10, "Clip", "min max", "", false},
    {OLDEST, 10, "Pad", "pads value", "", false},
    {OLDEST, 11, "Dropout", "", "ratio", false},
    {OLDEST, 8, "BatchNormalization", "", "spatial", false},
    {OLDEST, 12, "Softmax LogSoftmax Hardmax", "", "", true},
    {9, 0, "Scan", "", "", false},
    {11, 0, "OneHot Resize", "", "", false},
    {OLDEST, 0,
     "Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BitShift Cast Ceil Celu Compress "
     "Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum "
     "DepthToSpace DequantizeLinear Det Div DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten "
     "Floor GRU Gather GatherElements GatherND Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater "
     "GreaterOrEqual HardSigmoid Identity If InstanceNormalization IsInf IsNaN LRN LSTM LeakyRelu Less "
     "LessOrEqual Log Loop LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean "
     "MeanVarianceNormalization Min Mod Mul Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero "
     "Not Or PRelu Pow QuantizeLinear QLinearConv QLinearMatMul RNN RandomNormal RandomNormalLike RandomUniform "
     "RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
     "ReduceMin ReduceProd ReduceSumSquare Relu Reshape ReverseSequence RoiAlign Round ScatterElements ScatterND "
     "Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Shrink "
     "Sigmoid Sign Sin Sinh Size SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth SplitToSequence Sqrt "
     "StringNormalizer Sub Sum Tan Tanh TfIdfVectorizer ThresholdedRelu Tile Transpose Unique Where Xor",
     "", "", false}};

/* While the nodes are looked at. */
struct raising {
    struct vc_ctx *ctx;
    struct onnx_sink *self;
    struct onnx_edits *edits;
    uint64_t from; /* the source's operator set */
    size_t capacity, constants_capacity;
};

/* ---- what a node says ---- */

/* The sentence names the operator and what it would take. */
static enum vc_status refuse(struct raising *e, const char *op, const char *why)
{
    return vc_fail(e->ctx, VC_E_UNSUPPORTED,
                   "codes of activations need opset %d, and this model has %" PRIu64 ", where %s %s: a converter of "
                   "ONNX versions may raise it",
                   VC_GRAPH_CODES_OPSET, e->from, op, why);
}

/* The row of a node; NULL: it is of another domain, and stays. */
static enum vc_status find_row(struct raising *e, struct onnx_reader *r, struct vc_span node,
                               const struct onnx_raise **row)
{
    char op[MAX_NAME] = "";
    bool own = true;

    VC_EACH_FIELD(f, &r->wire, node) {
        if (f.number == ONNX_NODE_OP && f.data.n < MAX_NAME) {
            VC_CALL(vc_wire_read(&r->wire, f.data.at, op, (size_t)f.data.n));
            op[f.data.n] = '\0';
        } else if (f.number == ONNX_NODE_DOMAIN) {
            VC_CALL(vc_onnx_string_read(r, &f, "the domain of a node"));
            own = *vc_onnx_domain(r->name) == '\0';
        }
    }
    *row = NULL;
    for (size_t k = 0; own && k < sizeof rows / sizeof *rows; k++) {
        if (vc_is_one_of(op, rows[k].ops) && e->from >= rows[k].since) {
            *row = &rows[k];
            return VC_OK;
        }
    }
    return own ? refuse(e, *op != '\0' ? op : "an operator", "cannot be written in another way here") : VC_OK;
}

/* ---- attributes that become inputs ---- */

/* An initializer of these numbers: one for all nodes that read the same. */
static enum vc_status add_constant(struct raising *e, struct onnx_constant constant, const char *word,
                                   const char **name)
{
    struct onnx_edits *edits = e->edits;

    for (size_t i = 0; i < edits->n_raised_constants; i++) {
        const struct onnx_constant *c = &edits->raised_constants[i];

        if (c->type == constant.type && c->scalar == constant.scalar && c->n == constant.n &&
            (c->n == 0 || memcmp(c->numbers, constant.numbers, c->n * sizeof *c->numbers) == 0)) {
            *name = c->name;
            return VC_OK;
        }
    }
    const char *base = vc_arena_printf(e->ctx, &e->self->arena, "%s.%zu", word, edits->n_raised_constants);
    VC_CALL_ALLOC(base);
    VC_CALL(vc_onnx_choose_name(e->ctx, e->self, base, "", &constant.name));
    VC_CALL(
        VC_GROW(e->ctx, VC_TAG_NAMES, edits->raised_constants, e->constants_capacity, edits->n_raised_constants + 1));
    edits->raised_constants[edits->n_raised_constants++] = constant;
    *name = constant.name;
    return VC_OK;
}

/* The numbers that the attribute has, or that a pass gives it. */
static enum vc_status move(struct raising *e, const struct onnx_raised *node, const struct vc_program_attr *attr,
                           const char **name)
{
    const struct vc_graph_edit *edit = vc_onnx_attribute_edit(e->edits, node->at, attr->name);
    struct onnx_constant constant = {.old = ONNX_NONE, .type = ONNX_INT64, .n = attr->n, .numbers = attr->ints};
    int64_t *number;
    float f = (float)attr->f;
    uint32_t bits;

    if (edit != NULL) {
        constant.n = edit->n;
        constant.numbers = edit->numbers;
    } else if (attr->kind != VC_PROGRAM_INTS) {
        VC_CALL_ALLOC(number = vc_arena_alloc(e->ctx, &e->self->arena, sizeof *number));
        memcpy(&bits, &f, sizeof bits);
        constant.scalar = attr->kind == VC_PROGRAM_FLOAT;
        constant.type = constant.scalar ? ONNX_FLOAT : ONNX_INT64;
        *number = constant.scalar ? (int64_t)bits : attr->i;
        constant.n = 1;
        constant.numbers = number;
    }
    return add_constant(e, constant, attr->name, name);
}

/* The words of `move`, one after the other. */
static enum vc_status move_all(struct raising *e, struct onnx_raised *node)
{
    char word[MAX_NAME];
    const char *words = node->row->move;
    size_t k = 0;

    for (size_t n; (n = strcspn(words, " ")) != 0; words += n + (words[n] != '\0'), k++) {
        memcpy(word, words, n);
        word[n] = '\0';
        const struct vc_program_attr *attr = vc_onnx_find_attr(&node->node, word);
        node->inputs[k] = "";
        if (attr != NULL) {
            VC_CALL(move(e, node, attr, &node->inputs[k]));
            node->n_inputs = k + 1;
        }
    }
    return node->n_inputs != 0 && node->node.n_inputs != 1 ? refuse(e, node->node.op, "has inputs of a newer set")
                                                           : VC_OK;
}

/* ---- Softmax ---- */

/* The value is declared by the main graph with so many dimensions; 0: nothing is known. */
static enum vc_status rank_of(struct onnx_walk *w, const char *name, unsigned *rank)
{
    struct vc_program_value value;

    *rank = 0;
    VC_EACH_FIELD(f, &w->r.wire, w->self->source->graph) {
        if (f.number == ONNX_GRAPH_INPUT || f.number == ONNX_GRAPH_OUTPUT || f.number == ONNX_GRAPH_VALUE_INFO) {
            VC_CALL(vc_onnx_program_value(&w->p, &f, &value));
            *rank = value.has_shape && strcmp(value.name, name) == 0 ? value.n_dims : 0;
        }
        if (*rank != 0) {
            break;
        }
    }
    return VC_OK;
}

/* Over its last dimension it computes the same. */
static enum vc_status flatten(struct raising *e, struct onnx_raised *node, struct onnx_walk *w)
{
    bool main = w->graph == ONNX_MAIN;
    const struct vc_program_attr *attr = vc_onnx_find_attr(&node->node, "axis");
    unsigned rank = 0;

    node->axis = attr != NULL ? attr->i : 1;
    VC_RETURN_IF(node->node.n_inputs == 0 || node->node.n_outputs == 0,
                 refuse(e, node->node.op, "has no input or output"));
    const char *y = node->node.outputs[0];
    if (main) {
        VC_CALL(rank_of(w, node->node.inputs[0], &rank));
    }
    if (main && rank == 0) {
        VC_CALL(rank_of(w, y, &rank));
    }
    if (node->axis == -1 || (rank != 0 && node->axis == (int64_t)rank - 1)) {
        node->last = true;
        return VC_OK;
    }
    VC_CALL(vc_onnx_choose_name(e->ctx, e->self, y, ".shape", &node->shape));
    VC_CALL(vc_onnx_choose_name(e->ctx, e->self, y, ".flat", &node->flat));
    return vc_onnx_choose_name(e->ctx, e->self, y, ".rows", &node->rows);
}

/* ---- the nodes of all graphs ---- */

/* A node in its old form. */
static enum vc_status take_old(struct raising *e, struct onnx_walk *w, const struct vc_field *field,
                               const struct onnx_raise *row)
{
    struct onnx_raised node = {.at = field->all.at, .row = row};

    VC_CALL(vc_onnx_program_node(&w->p, field, &node.node));
    const struct vc_program_attr *dropped = vc_onnx_find_attr(&node.node, row->drop);
    VC_RETURN_IF(dropped != NULL && dropped->kind == VC_PROGRAM_INT && dropped->i == 0,
                 refuse(e, node.node.op, "has statistics for each pixel (spatial=0)"));
    VC_RETURN_IF(strcmp(node.node.op, "Dropout") == 0 && e->from < 10 && node.node.n_outputs > 1 &&
                     *node.node.outputs[1] != '\0',
                 refuse(e, node.node.op, "gives a mask of floats"));
    VC_CALL(move_all(e, &node));
    if (row->flat) {
        VC_CALL(flatten(e, &node, w));
    }
    VC_CALL(VC_GROW(e->ctx, VC_TAG_NAMES, e->edits->raised, e->capacity, e->edits->n_raised + 1));
    e->edits->raised[e->edits->n_raised++] = node;
    return VC_OK;
}

/* A node comes before those of the graphs inside it, so the list is in the order of places. */
static enum vc_status take_node(struct onnx_walk *w, const struct vc_field *field)
{
    struct raising *e = w->user;
    const struct onnx_raise *row;

    VC_CALL(find_row(e, &w->r, field->data, &row));
    return row != NULL && e->from <= row->until ? take_old(e, w, field, row) : VC_OK;
}

/* Nothing where the set of operators stays. Sets before broadcasting are refused: nearly every node would differ. */
enum vc_status vc_onnx_plan_raise(struct vc_ctx *ctx, struct onnx_sink *self)
{
    const struct onnx *source = self->source;
    struct raising e = {.ctx = ctx, .self = self, .edits = &self->edits, .from = source->opset};

    if (self->opset == source->opset) {
        return VC_OK;
    }
    VC_RETURN_IF(source->opset < OLDEST, refuse(&e, "operators", "do not broadcast as they do now"));
    VC_RETURN_IF(source->has_functions, refuse(&e, "a function", "has operator sets of its own"));
    return vc_onnx_each_node(ctx, self, take_node, &e);
}

/* ---- the new nodes ---- */

/* By the place of the node in the file; NULL: it stays. */
const struct onnx_raised *vc_onnx_raised_at(const struct onnx_sink *self, uint64_t at)
{
    const struct onnx_edits *edits = &self->edits;
    size_t low;

    VC_BISECT(low, edits->n_raised, k, edits->raised[k].at < at);
    return low < edits->n_raised && edits->raised[low].at == at ? &edits->raised[low] : NULL;
}

/* *goes: the attribute is an input now, means nothing any more, or is written anew. */
enum vc_status vc_onnx_raised_attribute(struct onnx_layout *l, const struct onnx_raised *node,
                                        const struct vc_field *field, bool *goes)
{
    uint32_t number;

    VC_CALL(vc_onnx_attribute_look(&l->r, field->data, &number));
    *goes = vc_is_one_of(l->r.name, node->row->move) || vc_is_one_of(l->r.name, node->row->drop) ||
            (node->row->flat && strcmp(l->r.name, "axis") == 0);
    return VC_OK;
}

/* What the node has besides: new inputs behind its own, and the axis from the end. */
void vc_onnx_put_raised(struct onnx_layout *l, const struct onnx_raised *node)
{
    for (size_t k = 0; k < node->n_inputs; k++) {
        vc_wire_put_string(&l->self->literals, ONNX_NODE_INPUT, node->inputs[k]);
    }
    if (node->row->flat) {
        vc_onnx_put_attribute(l->ctx, &l->self->literals, "axis", (uint64_t)-1);
    }
}

/* Four nodes in place of one, as the head of this file has them. */
void vc_onnx_put_flattened(struct onnx_layout *l, const struct onnx_raised *node)
{
    const char *x = vc_onnx_coded_name(l, node->node.inputs[0], true);
    const char *y = vc_onnx_coded_name(l, node->node.outputs[0], false);
    const struct onnx_new_node nodes[] = {
        {.op = "Shape", .output = node->shape, .inputs = {x}},
        {.op = "Flatten", .output = node->flat, .inputs = {x}, .attrs = {{"axis", node->axis}}},
        {.op = node->node.op, .output = node->rows, .inputs = {node->flat}, .attrs = {{"axis", -1}}},
        {.op = "Reshape", .output = y, .inputs = {node->rows, node->shape}}};

    for (size_t k = 0; k < sizeof nodes / sizeof *nodes; k++) {
        vc_onnx_put_node(l->ctx, &nodes[k], &l->self->literals);
    }
}
