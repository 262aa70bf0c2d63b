/* onnx_build.c - names, order, inputs and outputs of a program of nodes, and each node into the graph.
 *
 *     vc_onnx_build_graph    operator set - inline functions - names - checks - [match weights] - inputs - nodes - outputs
 *
 * Calls all other files of the room and is called by none of them (graph/build.c calls it). Problems are
 * collected: a node that cannot be taken has unknown outputs, and nodes behind it say nothing.
 *
 * What happens with one node (take_node):
 *
 *     inputs        each name becomes a value (vc_onnx_make_value): inputs and constants when they are first used
 *     attributes    take_attrs copies them
 *     quantized     vc_onnx_take_qlinear      operators on codes: QLinearConv, MatMulInteger, ...
 *     microsoft     vc_onnx_take_microsoft    operators of onnxruntime
 *     older         vc_onnx_modernize         what older operator sets say otherwise
 *     reworded      vc_onnx_reword            what the graph has under another operator
 *     folded        vc_onnx_fold              many nodes that are one operator; slices of weights
 *     else          vc_graph_add_node         as it stands
 *
 * The first step that takes the node sets its outputs, and the others are not asked. */
#include "graph/onnx/onnx_build.h"

#include "core/base/array.h"
#include "core/text/text.h"

/* ---- names ---- */

/* Adds a name. A name that exists already is a problem, except an input with the name of a constant: in old
 * files an initializer is the default value of an input. The empty name stands for "left out" and is none. */
static void add_name(struct vc_onnx_build *b, struct vc_onnx_name name)
{
    if (*name.name == '\0') {
        return;
    }
    name.program = b->program;
    b->names[b->n_names] = name;
    size_t twice = vc_name_table_add(&b->table, vc_onnx_name_list(b), b->n_names);
    if (twice == SIZE_MAX) {
        b->n_names++;
    } else if (name.maker != VC_ONNX_BY_INPUT || b->names[twice].maker == VC_ONNX_BY_INPUT) {
        vc_graph_complain(b->graph, "the value '%s' is made twice", name.name);
    }
}

/* A Constant node that holds numbers in its one attribute: value, value_int(s), value_float(s). */
static bool is_constant(const struct vc_program_node *node)
{
    return strcmp(node->op, "Constant") == 0 && *node->domain == '\0' && node->n_attrs == 1 && node->n_outputs == 1 &&
           (node->attrs->kind == VC_PROGRAM_TENSOR || node->attrs->kind == VC_PROGRAM_INT ||
            node->attrs->kind == VC_PROGRAM_INTS || node->attrs->kind == VC_PROGRAM_FLOAT ||
            node->attrs->kind == VC_PROGRAM_FLOATS);
}

/* The tensor of a Constant node. Integers and floats that stand in the attribute become a tensor of i64 or
 * f64, little-endian, in the program's arena.
 * One allocation holds the tensor, its one dimension and its elements. */
static const struct vc_program_tensor *constant_of(struct vc_onnx_build *b, const struct vc_program_node *node)
{
    const struct vc_program_attr *attr = node->attrs;
    struct vc_program_tensor *tensor;
    uint64_t *shape;
    size_t n;

    if (attr->kind == VC_PROGRAM_TENSOR) {
        return attr->tensor;
    }
    bool is_float = attr->kind == VC_PROGRAM_FLOAT || attr->kind == VC_PROGRAM_FLOATS;
    n = attr->kind == VC_PROGRAM_INTS || attr->kind == VC_PROGRAM_FLOATS ? attr->n : 1;
    tensor = vc_arena_alloc(b->ctx, b->source->arena, sizeof *tensor + sizeof *shape + 8 * n);
    VC_LEAVE_WITH(tensor == NULL, b->graph->status = VC_E_NOMEM, NULL);
    shape = (uint64_t *)(tensor + 1);
    unsigned char *data = (unsigned char *)(shape + 1);
    shape[0] = n;
    *tensor = (struct vc_program_tensor){.dtype = is_float ? VC_DTYPE_F64 : VC_DTYPE_I64,
                                         .n_dims = attr->kind == VC_PROGRAM_INTS || attr->kind == VC_PROGRAM_FLOATS,
                                         .shape = shape,
                                         .n_bytes = 8 * n,
                                         .data = data};
    for (size_t k = 0; k < n; k++) {
        uint64_t bits;

        if (is_float) {
            memcpy(&bits, attr->kind == VC_PROGRAM_FLOAT ? &attr->f : &attr->floats[k], sizeof bits);
        } else {
            bits = (uint64_t)(attr->kind == VC_PROGRAM_INT ? attr->i : attr->ints[k]);
        }
        vc_put_le64(data + 8 * k, bits);
    }
    return tensor;
}

/* The input that a note with that prefix is about; NULL if there is none. */
static struct vc_onnx_name *input_of_note(const struct vc_onnx_build *b, const char *key, const char *prefix)
{
    size_t n = strlen(prefix);
    struct vc_onnx_name *name = strncmp(key, prefix, n) == 0 ? vc_onnx_find_name(b, key + n) : NULL;

    return name != NULL && name->maker == VC_ONNX_BY_INPUT ? name : NULL;
}

/* Constants before inputs, so that a constant wins over the input of the same name; then outputs of nodes;
 * then notes, which say that an input is a parameter or may be omitted.
 * The table of names has room for all of them before the first is added, so that the array never moves. */
static enum vc_status collect_names(struct vc_onnx_build *b)
{
    const struct vc_program *p = b->program;
    size_t n = p->n_constants + p->n_inputs + 1;

    for (size_t k = 0; k < p->n_nodes; k++) {
        n += p->nodes[k].n_outputs;
    }
    VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, b->names, n));
    VC_CALL(vc_name_table_make(b->ctx, n, &b->table));
    for (size_t k = 0; k < p->n_constants; k++) {
        add_name(b, (struct vc_onnx_name){.name = p->constants[k].name, .maker = VC_ONNX_BY_CONSTANT, .number = k});
    }
    for (size_t k = 0; k < p->n_inputs; k++) {
        add_name(b, (struct vc_onnx_name){.name = p->inputs[k].name, .maker = VC_ONNX_BY_INPUT, .number = k});
    }
    for (size_t k = 0; k < p->n_nodes; k++) {
        const struct vc_program_tensor *tensor = is_constant(&p->nodes[k]) ? constant_of(b, &p->nodes[k]) : NULL;

        for (size_t i = 0; i < p->nodes[k].n_outputs; i++) {
            add_name(b, (struct vc_onnx_name){.name = p->nodes[k].outputs[i],
                                              .maker = tensor != NULL ? VC_ONNX_BY_TENSOR : VC_ONNX_BY_NODE,
                                              .number = k,
                                              .tensor = tensor});
        }
    }
    for (size_t k = 0; k < p->n_notes; k++) {
        struct vc_onnx_name *parameter = input_of_note(b, p->notes[k].key, VC_ONNX_PARAMETER_NOTE);
        struct vc_onnx_name *optional = input_of_note(b, p->notes[k].key, VC_ONNX_OPTIONAL_NOTE);

        if (parameter != NULL) {
            parameter->parameter = p->notes[k].value;
        }
        if (optional != NULL) {
            optional->otherwise = p->notes[k].value;
        }
    }
    return VC_OK;
}

/* Inputs of an operator, from the first to the last of them. */
struct places {
    const char *op;
    size_t first, last;
};

/* Whether input k of the operator is in the list. */
static bool is_place(const struct places *places, size_t n, const char *op, size_t k)
{
    size_t i = 0;

    while (i < n && (strcmp(places[i].op, op) != 0 || k < places[i].first || k > places[i].last)) {
        i++;
    }
    return i < n;
}

/* Inputs that have to be known when the graph is built. They are constants of the graph and never parameters. */
static bool must_be_known(const char *op, size_t k)
{
    static const struct places places[] = {{"Resize", 1, 3}, {"Upsample", 1, 1}, {"Clip", 1, 2},
                                           {"Pad", 1, 3},    {"Pow", 1, 1},      {"Range", 0, 2}};

    return is_place(places, sizeof places / sizeof *places, op, k);
}

/* Inputs that are codes of weights where the file has their elements.
 * A parameter that is used as such is read as integers. */
static bool is_codes(const char *op, size_t k)
{
    static const struct places places[] = {{"DequantizeLinear", 0, 0},
                                           {"MatMulNBits", 1, 1},
                                           {"MatMulInteger", 1, 1},
                                           {"ConvInteger", 1, 1},
                                           {"QLinearConv", 3, 3},
                                           {"QLinearMatMul", 3, 3},
                                           {"QGemm", 3, 3},
                                           {"DynamicQuantizeLSTM", 1, 2},
                                           {"DynamicQuantizeMatMul", 1, 1},
                                           {"MatMulIntegerToFloat", 1, 1}};

    return is_place(places, sizeof places / sizeof *places, op, k);
}

/* A graph inside a node of b uses the name: the graphs up to the one that has it need it first. */
static enum vc_status capture(struct vc_onnx_build *b, struct vc_onnx_name *name)
{
    for (; name->program != b->program; b = b->around) {
        VC_CALL(VC_GROW(b->ctx, VC_TAG_NAMES, b->captured, b->captured_capacity, b->n_captured + 1));
        b->captured[b->n_captured++] = name;
    }
    return VC_OK;
}

/* Every name that is used has to be made by something. Counts uses, and notes how operators want the value.
 * Outputs without a use are not asked of a node (vc_onnx_output_is_used). */
static enum vc_status check_uses(struct vc_onnx_build *b)
{
    const struct vc_program *p = b->program;
    char text[400];

    for (size_t k = 0; k < p->n_nodes; k++) {
        const struct vc_program_node *node = &p->nodes[k];

        for (size_t i = 0; i < node->n_inputs; i++) {
            struct vc_onnx_name *name = *node->inputs[i] == '\0' ? NULL : vc_onnx_find_name(b, node->inputs[i]);

            if (name != NULL) {
                name->must_be_known |= must_be_known(node->op, i);
                name->is_codes |= is_codes(node->op, i);
                name->n_uses++;
                VC_CALL(capture(b, name));
            } else if (*node->inputs[i] != '\0') {
                vc_graph_complain(b->graph, "%s uses '%s', which nothing makes",
                                  vc_onnx_node_text(node, text, sizeof text), node->inputs[i]);
            }
        }
    }
    for (size_t k = 0; k < p->n_outputs; k++) {
        struct vc_onnx_name *name = vc_onnx_find_name(b, p->outputs[k].name);

        if (name == NULL) {
            vc_graph_complain(b->graph, "nothing makes the output '%s'", p->outputs[k].name);
        } else {
            name->is_output |= b->around == NULL;
            name->n_uses++;
            VC_CALL(capture(b, name));
        }
    }
    return VC_OK;
}

/* The names of the graphs inside the nodes, and what these use of the graphs around them. */
static enum vc_status collect_inner(struct vc_onnx_build *b)
{
    VC_CALL(VC_ZEROS(b->ctx, VC_TAG_NAMES, b->inner, b->program->n_nodes + 1));
    for (size_t k = 0; k < b->program->n_nodes; k++) {
        const struct vc_program_node *node = &b->program->nodes[k];

        for (size_t i = 0; i < node->n_attrs; i++) {
            struct vc_onnx_build *inner;

            if (node->attrs[i].graph == NULL || node->of_function ||
                (b->inner[k] != NULL && b->inner[k]->next != NULL)) {
                continue;
            }
            VC_CALL_ALLOC(inner = vc_calloc_array(b->ctx, VC_TAG_NAMES, 1, sizeof *inner));
            *inner = (struct vc_onnx_build){.ctx = b->ctx,
                                            .source = b->source,
                                            .program = node->attrs[i].graph,
                                            .graph = b->graph,
                                            .opset = b->opset,
                                            .of_param = b->of_param,
                                            .of_param_capacity = b->of_param_capacity,
                                            .around = b,
                                            .attr = node->attrs[i].name,
                                            .is_loop = b->is_loop || vc_is_one_of(node->op, "Loop Scan"),
                                            .next = b->inner[k],
                                            .add_nodes = b->add_nodes};
            b->inner[k] = inner;
            VC_CALL(collect_names(inner));
            VC_CALL(check_uses(inner));
            VC_CALL(collect_inner(inner));
        }
    }
    return VC_OK;
}

/* ---- a node into the graph ---- */

/* Notes in the value's facts that the file has this operator with sizes as inputs or attributes, for
 * couplings that write new sizes into the file. Only if the node went into the graph as it stands in the
 * file. */
static void note_written(struct vc_onnx_build *b, const struct vc_onnx_node *node, uint32_t value)
{
    struct vc_value_facts *facts = value != VC_NO_VALUE ? &b->graph->facts[value] : NULL;
    bool attrs = false;

    for (size_t k = 0; k < node->from->n_attrs; k++) {
        attrs = attrs || strcmp(node->from->attrs[k].name, "split") == 0 ||
                strcmp(node->from->attrs[k].name, "starts") == 0;
    }
    if (facts == NULL || facts->written == VC_WRITTEN_NOT || *node->from->domain != '\0' ||
        strcmp(node->op, node->from->op) != 0) {
        return;
    }
    if (b->graph->values[value].kind != VC_VALUE_PARAMETER) {
        facts->written = attrs ? VC_WRITTEN_ATTRS : VC_WRITTEN_NODE;
    } else if (strcmp(node->op, "Slice") == 0) {
        facts->slice = b->graph->values[value].name;
        facts->slice_attrs = attrs;
    } else if (strcmp(node->op, "Transpose") == 0) {
        facts->slice = b->graph->facts[node->inputs[0]].slice;
        facts->slice_attrs = b->graph->facts[node->inputs[0]].slice_attrs;
    }
}

/* The words of a list of strings with commas between them: attributes of the graph have one text
 * ("Sigmoid,Tanh").
 * The text lies in the program's arena. */
static const char *join(struct vc_onnx_build *b, const struct vc_program_attr *attr)
{
    size_t n = 1;
    size_t at = 0;

    for (size_t k = 0; k < attr->n; k++) {
        n += strlen(attr->strings[k]) + 1;
    }
    char *text = vc_arena_alloc(b->ctx, b->source->arena, n);
    for (size_t k = 0; text != NULL && k < attr->n; k++) {
        at += (size_t)snprintf(text + at, n - at, "%s%s", k == 0 ? "" : ",", attr->strings[k]);
    }
    if (text != NULL) {
        text[at] = '\0';
    }
    return text;
}

/* Copies attributes of the file's node. Tensors are left out: the operators that have one look for it in
 * `from`. False: an attribute that no operator here has (a graph, for example), after a problem. */
static bool take_attrs(struct vc_onnx_build *b, const struct vc_program_node *from, struct vc_onnx_node *node)
{
    char text[400];

    for (size_t k = 0; k < from->n_attrs; k++) {
        const struct vc_program_attr *a = &from->attrs[k];
        struct vc_graph_attr to = {.name = a->name, .i = a->i, .f = a->f, .s = a->s, .n = a->n};

        to.ints = a->ints;
        to.floats = a->floats;
        switch (a->kind) {
        case VC_PROGRAM_INT:
            to.kind = VC_ATTR_INT;
            break;
        case VC_PROGRAM_FLOAT:
            to.kind = VC_ATTR_FLOAT;
            break;
        case VC_PROGRAM_STRING:
            to.kind = VC_ATTR_STRING;
            break;
        case VC_PROGRAM_INTS:
            to.kind = VC_ATTR_INTS;
            break;
        case VC_PROGRAM_FLOATS:
            to.kind = VC_ATTR_FLOATS;
            break;
        case VC_PROGRAM_STRINGS: /* functions of recurrent layers: one text here, with commas between them */
            to.kind = VC_ATTR_STRING;
            to.s = join(b, a);
            VC_LEAVE_WITH(to.s == NULL, b->graph->status = VC_E_NOMEM, false);
            break;
        case VC_PROGRAM_TENSOR:
            continue; /* asked for where an operator has one */
        case VC_PROGRAM_GRAPH:
            vc_graph_complain(b->graph, "%s has a graph inside (%s); such operators are not supported",
                              vc_onnx_node_text(from, text, sizeof text), a->name);
            return false;
        default:
            vc_graph_complain(b->graph, "%s: the attribute %s is of a kind that no operator here has",
                              vc_onnx_node_text(from, text, sizeof text), a->name);
            return false;
        }
        node->attrs[node->n_attrs++] = to;
    }
    return true;
}

/* All outputs of a node that was not taken. */
static void set_unknown(struct vc_onnx_build *b, const struct vc_program_node *node)
{
    for (size_t k = 0; k < node->n_outputs; k++) {
        vc_onnx_set_output(b, node, k, vc_graph_unknown(b->graph, NULL));
    }
}

/* Adds what the rewrites left, with the names that the file has for its outputs. Trailing outputs that
 * nobody uses and trailing omitted inputs are cut off. Folding is tried only for a node with one output.
 *     outputs  y, mean, inv_std of a LayerNormalization of which y is used: one output is left
 *     inputs   x, min, "" of a Clip: two are left
 */
static void add_node(struct vc_onnx_build *b, const struct vc_onnx_node *node)
{
    const struct vc_program_node *from = node->from;
    struct vc_node_spec spec = {.op = node->op,
                                .name = from->name,
                                .n_inputs = node->n_inputs,
                                .n_attrs = node->n_attrs,
                                .inputs = node->inputs,
                                .attrs = node->attrs};
    const char **names = vc_calloc_array(b->ctx, VC_TAG_NAMES, from->n_outputs + (size_t)1, sizeof *names);

    VC_LEAVE_IF(names == NULL, b->graph->status = VC_E_NOMEM);
    spec.n_outputs = (unsigned)from->n_outputs;
    /* optional ones; those of Split say how many parts there are */
    while (spec.n_outputs > 1 && strcmp(node->op, "Split") != 0 &&
           !vc_onnx_output_is_used(b, from, spec.n_outputs - 1)) {
        spec.n_outputs--;
    }
    for (unsigned k = 0; k < spec.n_outputs; k++) {
        names[k] = vc_onnx_output_name(b, from, k);
    }
    while (spec.n_inputs > 0 && spec.inputs[spec.n_inputs - 1] == VC_NO_VALUE) {
        spec.n_inputs--;
    }
    spec.output_names = names;
    uint32_t first = spec.n_outputs == 1 ? vc_onnx_fold(b, node, names[0]) : VC_NO_VALUE;
    if (vc_onnx_fold_split(b, node)) {
        /* its outputs are set */
    } else if (first != VC_NO_VALUE) {
        vc_onnx_set_output(b, from, 0, first);
        if (b->graph->values[first].kind == VC_VALUE_PARAMETER) {
            note_written(b, node, first);
        }
    } else {
        first = vc_graph_add_node(b->graph, &spec);
        for (unsigned k = 0; first != VC_NO_VALUE && k < spec.n_outputs; k++) {
            uint32_t v = vc_graph_output_of(b->graph, first, k);

            vc_onnx_set_output(b, from, k, v != VC_NO_VALUE ? v : first);
        }
        for (unsigned k = 0; first != VC_NO_VALUE && k < spec.n_outputs; k++) { /* one of them may have no name */
            note_written(b, node, vc_graph_output_of(b->graph, first, k));
        }
    }
    vc_free(b->ctx, names);
}

/* Operators of com.microsoft that are ONNX's, with more types of codes than these had at their time. */
static bool is_of_both(const char *op)
{
    return strcmp(op, "QuantizeLinear") == 0 || strcmp(op, "DequantizeLinear") == 0;
}

/* What the node needs: its inputs, then what the graphs inside it use of this one and those around it. */
static size_t count_needed(const struct vc_onnx_build *b, const struct vc_program_node *node)
{
    size_t n = node->n_inputs;

    for (const struct vc_onnx_build *inner = vc_onnx_inner_of(b, node); inner != NULL; inner = inner->next) {
        n += inner->n_captured;
    }
    return n;
}

/* Number k of them; NULL: it is left out, or nothing makes it. */
static struct vc_onnx_name *needed_by(const struct vc_onnx_build *b, const struct vc_program_node *node, size_t k)
{
    if (k < node->n_inputs) {
        return *node->inputs[k] == '\0' ? NULL : vc_onnx_find_name(b, node->inputs[k]);
    }
    k -= node->n_inputs;
    for (const struct vc_onnx_build *inner = vc_onnx_inner_of(b, node); inner != NULL; inner = inner->next) {
        if (k < inner->n_captured) {
            return inner->captured[k];
        }
        k -= inner->n_captured;
    }
    return NULL;
}

/* One node, whose inputs are made: the way that onnx_build.h describes. Afterwards each output has a value:
 * what no rewrite set is unknown, and a problem if something uses it.
 * The arrays have VC_ONNX_SPARE more elements than the file says: rewrites add inputs and attributes in
 * place. */
static enum vc_status take_node(struct vc_onnx_build *b, const struct vc_program_node *from)
{
    struct vc_onnx_node node = {.from = from, .op = from->op};
    bool microsoft = strcmp(from->domain, "com.microsoft") == 0;
    char text[400];
    enum vc_status status = VC_OK;

    if (from->n_inputs > UINT32_MAX / 2 || from->n_outputs > UINT32_MAX / 2 || is_constant(from)) {
        return VC_OK;
    }
    VC_TRY(VC_ZEROS(b->ctx, VC_TAG_NAMES, node.inputs, from->n_inputs + VC_ONNX_SPARE));
    VC_TRY(VC_ZEROS(b->ctx, VC_TAG_NAMES, node.attrs, from->n_attrs + VC_ONNX_SPARE));
    vc_onnx_set_block(b, from);
    for (size_t k = 0; k < from->n_inputs; k++) {
        struct vc_onnx_name *name = *from->inputs[k] == '\0' ? NULL : vc_onnx_find_name(b, from->inputs[k]);

        node.inputs[k] = *from->inputs[k] == '\0' ? VC_NO_VALUE
                         : name == NULL           ? vc_graph_unknown(b->graph, NULL)
                                                  : vc_onnx_make_value(b, name);
    }
    node.n_inputs = (unsigned)from->n_inputs;
    for (size_t k = from->n_inputs; k < count_needed(b, from);
         k++) { /* of the graphs inside: made by their own graph */
        struct vc_onnx_name *name = needed_by(b, from, k);

        if (name != NULL && name->program == b->program) {
            (void)vc_onnx_make_value(b, name);
        }
    }
    if (*from->domain == '\0' && vc_onnx_take_control(b, &node)) {
        /* its outputs are set, or unknown below */
    } else if (!take_attrs(b, from, &node)) {
        set_unknown(b, from);
    } else if (*from->domain == '\0' && vc_onnx_take_sequence(b, &node)) {
        /* its output is set */
    } else if ((microsoft || *from->domain == '\0') && vc_onnx_take_qlinear(b, &node)) {
        /* its output is set */
    } else if (microsoft && !is_of_both(from->op)) {
        if (vc_onnx_take_microsoft(b, &node)) {
            add_node(b, &node);
        }
    } else if (!microsoft && *from->domain != '\0') {
        vc_graph_complain(b->graph, "%s is of the domain '%s', whose operators are not supported",
                          vc_onnx_node_text(from, text, sizeof text), from->domain);
        set_unknown(b, from);
    } else if (vc_onnx_modernize(b, &node) && vc_onnx_reword(b, &node)) {
        add_node(b, &node);
    }
    for (size_t k = 0; k < from->n_outputs; k++) { /* an output that nobody asks for, or a problem */
        struct vc_onnx_name *name = vc_onnx_find_name(b, from->outputs[k]);

        if (name != NULL && !name->is_made && name->maker == VC_ONNX_BY_NODE &&
            &b->program->nodes[name->number] == from) {
            if (b->graph->n_problems == 0 && vc_onnx_output_is_used(b, from, k)) {
                vc_graph_complain(b->graph, "%s: its output %zu ('%s') is used, but the operator has none there",
                                  vc_onnx_node_text(from, text, sizeof text), k, from->outputs[k]);
            }
            vc_onnx_set_output(b, from, k, vc_graph_unknown(b->graph, NULL));
        }
    }
    status = b->graph->status;
out:
    VC_FREE_ALL(b->ctx, node.inputs, node.attrs);
    return status;
}

/* ---- order ---- */

/* A depth-first walk over the nodes with a stack of its own: each node comes behind those that it needs,
 * else in the order of the file. Files should be in topological order; hand-written ones are often not. A
 * node is on the stack once at most, so that the stack has room for n_nodes. */
struct order {
    unsigned char *state; /* 0 not seen, 1 waits for those above it on the stack, 2 added */
    struct step {
        size_t node, input; /* the next input to look at */
    } * stack;
    size_t n;
};

/* The nodes from `node` to the end of the stack need each other.
 * Up to four of them are named. */
static void complain_cycle(struct vc_onnx_build *b, const struct order *o, size_t node)
{
    char names[600] = "";
    size_t n = 0;
    size_t first = o->n - 1;

    while (first > 0 && o->stack[first].node != node) {
        first--;
    }
    for (size_t k = first; k < o->n && k < first + 4; k++) {
        char text[120];

        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", k > first ? ", " : "",
                              vc_onnx_node_text(&b->program->nodes[o->stack[k].node], text, sizeof text));
        n = n < sizeof names ? n : sizeof names - 1;
    }
    vc_graph_complain(b->graph, "nodes need each other in a cycle: %s%s", names, o->n > first + 4 ? ", ..." : "");
}

/* The node that makes input k and is still to be added; SIZE_MAX if there is none. A node that waits itself
 * (state 1) closes a cycle, which is a problem. */
static size_t waits_for(struct vc_onnx_build *b, struct order *o, const struct vc_program_node *node, size_t k)
{
    const struct vc_onnx_name *name = needed_by(b, node, k);

    if (name == NULL || name->program != b->program || name->maker != VC_ONNX_BY_NODE || o->state[name->number] == 2) {
        return SIZE_MAX;
    }
    if (o->state[name->number] == 1) {
        complain_cycle(b, o, name->number);
        return SIZE_MAX; /* make_value gives a value of which nothing is known */
    }
    return name->number;
}

/* For each node of the file: push it; while the top of the stack has an input whose maker is not added,
 * push the maker; else add the top.
 *     file: c = f(b), b = g(a), a = h(x)      stack: c; c b; c b a; add a, b, c
 */
static enum vc_status add_nodes(struct vc_onnx_build *b)
{
    const struct vc_program *p = b->program;
    struct order o = {.n = 0};
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(o.state = vc_calloc_array(b->ctx, VC_TAG_NAMES, p->n_nodes + 1, 1));
    VC_TRY(VC_ZEROS(b->ctx, VC_TAG_NAMES, o.stack, p->n_nodes + 1));
    for (size_t k = 0; k < p->n_nodes; k++) {
        size_t next = k;

        VC_TRY(vc_check_cancelled(b->ctx));
        while (o.state[k] != 2) {
            if (next != SIZE_MAX) {
                o.state[next] = 1;
                o.stack[o.n++] = (struct step){next, 0};
            }
            struct step *top = &o.stack[o.n - 1];
            next = SIZE_MAX;
            while (next == SIZE_MAX && top->input < count_needed(b, &p->nodes[top->node])) {
                next = waits_for(b, &o, &p->nodes[top->node], top->input++);
            }
            if (next == SIZE_MAX) {
                VC_TRY(take_node(b, &p->nodes[top->node]));
                o.state[top->node] = 2;
                o.n--;
            }
        }
    }
out:
    VC_FREE_ALL(b->ctx, o.state, o.stack);
    return status;
}

/* ---- the graph ---- */

/* The default domain's version; without any import it is 1, as ONNX says, which is too old.
 * Of several entries for the default domain the last one counts. */
static void find_opset(struct vc_onnx_build *b)
{
    const struct vc_program *p = b->program;

    b->opset = 1;
    for (size_t k = 0; k < p->n_opsets; k++) {
        b->opset = *p->opsets[k].domain == '\0' ? p->opsets[k].version : b->opset;
    }
    if (b->opset < VC_ONNX_OLDEST || b->opset > VC_ONNX_NEWEST) {
        vc_graph_complain(b->graph, "its operator set is %" PRId64 "; %d to %d are supported", b->opset, VC_ONNX_OLDEST,
                          VC_ONNX_NEWEST);
    }
}

/* Inputs of the graph come in the file's order, whichever node uses them first.
 * An input that a constant of the same name replaces is left out. */
static void add_inputs(struct vc_onnx_build *b)
{
    for (size_t k = 0; k < b->program->n_inputs; k++) {
        struct vc_onnx_name *name = vc_onnx_find_name(b, b->program->inputs[k].name);

        if (name != NULL && name->maker == VC_ONNX_BY_INPUT && name->number == k) {
            (void)vc_onnx_make_value(b, name);
        }
    }
}

/* An output whose value has another name (an Identity was taken out) gets an Identity node, so that callers
 * find it under the file's name.
 * If the name is taken by another value the Identity gets a name from the graph. */
static void add_outputs(struct vc_onnx_build *b)
{
    for (size_t k = 0; k < b->program->n_outputs; k++) {
        struct vc_onnx_name *name = vc_onnx_find_name(b, b->program->outputs[k].name);
        uint32_t value = name == NULL ? VC_NO_VALUE : vc_onnx_make_value(b, name);

        if (value != VC_NO_VALUE) {
            if (!b->graph->facts[value].unknown && strcmp(b->graph->values[value].name, name->name) != 0) {
                value = vc_graph_add(b->graph, "Identity",
                                     vc_graph_find(b->graph, name->name) == VC_NO_VALUE ? name->name : NULL, &value, 1);
            }
            vc_graph_add_output(b->graph, value);
        }
    }
}

/* Whether a Cast makes half precision of something. */
static bool makes_halves(const struct vc_program *program)
{
    bool found = false;

    for (size_t k = 0; k < program->n_nodes && !found; k++) {
        const struct vc_program_node *node = &program->nodes[k];

        found = strcmp(node->op, "Cast") == 0 && node->n_attrs != 0 &&
                (node->attrs[0].i == VC_ONNX_FLOAT16 || node->attrs[0].i == VC_ONNX_BFLOAT16);
    }
    return found;
}

static bool has_f32(const struct vc_program_value *values, size_t n)
{
    size_t k = 0;

    while (k < n && values[k].dtype != VC_DTYPE_F32) {
        k++;
    }
    return k < n;
}

/* The type of the values between products. f32 goes in or out, and nothing makes less of it: that, whatever the file has
 * for weights, which are cast then. Else that of most of the file's floats. */
static enum vc_dtype type_of_values(const struct vc_onnx_build *b)
{
    static const enum vc_dtype types[] = {VC_DTYPE_F32, VC_DTYPE_BF16, VC_DTYPE_F16, VC_DTYPE_F64};
    const struct vc_program *p = b->program;
    uint64_t bytes[4] = {0};
    size_t most = 0;

    if (!makes_halves(p) && (has_f32(p->inputs, p->n_inputs) || has_f32(p->outputs, p->n_outputs))) {
        return VC_DTYPE_F32;
    }
    for (size_t k = 0; b->source->model != NULL && k < b->program->n_constants; k++) {
        size_t index = b->program->constants[k].index;
        const struct vc_tensor *t = index != VC_NO_TENSOR ? vc_model_tensor(b->source->model, index) : NULL;

        for (size_t i = 0; t != NULL && i < 4; i++) {
            bytes[i] += t->dtype == types[i] ? t->size_bytes : 0;
        }
    }
    for (size_t i = 1; i < 4; i++) {
        most = bytes[i] > bytes[most] ? i : most;
    }
    return bytes[most] == 0 ? VC_DTYPE_NONE : types[most];
}

/* Of this graph and those inside its nodes. */
static void release_names(struct vc_onnx_build *b)
{
    for (size_t k = 0; b->inner != NULL && k < b->program->n_nodes; k++) {
        for (struct vc_onnx_build *inner = b->inner[k]; inner != NULL; inner = b->inner[k]) {
            b->inner[k] = inner->next;
            release_names(inner);
            vc_free(b->ctx, inner);
        }
    }
    vc_free(b->ctx, b->inner);
    vc_name_table_release(b->ctx, &b->table);
    VC_FREE_ALL(b->ctx, b->names, b->captured);
}

/* b.program is the file's program with functions taken apart; numbers of constants and inputs are the same
 * in both. */
enum vc_status vc_onnx_build_graph(const struct vc_graph_source *source, struct vc_graph *graph)
{
    struct vc_onnx_build b = {.ctx = source->ctx, .source = source, .program = source->program, .graph = graph};
    struct vc_program own;
    enum vc_status status;

    b.add_nodes = add_nodes;
    find_opset(&b);
    VC_TRY(vc_onnx_inline(&b, &own));
    b.program = &own;
    b.of_param_capacity = (source->model != NULL ? source->model->n_tensors : source->program->n_constants) +
                          source->program->n_inputs + 1;
    VC_TRY(VC_ZEROS(b.ctx, VC_TAG_NAMES, b.of_param, b.of_param_capacity));
    VC_TRY(collect_names(&b));
    VC_TRY(check_uses(&b));
    VC_TRY(collect_inner(&b));
    if (source->weights != NULL) {
        VC_TRY(vc_onnx_match_weights(&b));
    }
    add_inputs(&b);
    VC_TRY(add_nodes(&b));
    add_outputs(&b);
    graph->of_file = true;
    vc_onnx_spread_elsewhere(graph);
    graph->float_type = type_of_values(&b);
    vc_onnx_count_names(&b);
    vc_onnx_check_declared(&b);
out:
    release_names(&b);
    VC_FREE_ALL(b.ctx, b.of_param, b.matches);
    return status;
}
