/* onnx_text.c - ONNX's textual form as a program: what onnx.parser reads, so that a graph can be written by hand.
 *
 *     <ir_version: 10, opset_import: ["" : 23]>
 *     digits (float[batch, 784] x, float[784, 10] w) => (float[batch, 10] y)
 *     <float[10] b = {0, 0.5, ...}> {
 *         product = MatMul (x, w)
 *         [last] y = Add (product, b)
 *     }
 *
 * One pass over the text, token by token; lists grow by doubling in the arena. Without opset_import the operator set is
 * VC_GRAPH_OPSET. Graphs inside attributes are read over, and known as such.
 *
 * Each take_X reads what its comment shows, from t->at on, and moves t->at behind it. A fault ends the
 * parse with the line and the next characters. Inputs with a value ("float[10] b = {...}") are constants as
 * well, as in ONNX's own parser. */

#include "graph/onnx/onnx_text.h"

#define MAX_DEPTH 32 /* brackets inside each other, where a graph is read over */

/* ---- attributes ---- */

/* Reads over a graph in an attribute (of If, Loop): name (..) => (..) <..> { .. }. Only braces and strings
 * count. The attribute is kept as VC_PROGRAM_GRAPH, and its operator is refused later with a sentence. */
static enum vc_status skip_graph(struct vc_onnx_text *t)
{
    unsigned depth = 0;
    const char *s;
    size_t n;

    do {
        char c = vc_onnx_peek_char(t);

        VC_RETURN_IF(c == '\0' || depth > MAX_DEPTH, vc_onnx_fail_at(t, "the end of a graph"));
        if (c == '"') {
            VC_CALL(vc_onnx_take_string(t, &s, &n));
            continue;
        }
        depth += c == '{';
        depth -= c == '}';
        t->at++;
        if (c == '}' && depth == 0) {
            break;
        }
    } while (true);
    return VC_OK;
}

static bool is_float_word(struct vc_onnx_text *t)
{
    return vc_onnx_next_is_word(t, "inf") || vc_onnx_next_is_word(t, "infinity") || vc_onnx_next_is_word(t, "nan") ||
           vc_onnx_next_is_word(t, "NaN");
}

/* 1, 2.5, "text", float[2] {1, 2}, graph (..) => ... */
static enum vc_status take_single(struct vc_onnx_text *t, struct vc_program_attr *attr)
{
    struct vc_program_value type = {.name = ""};
    struct vc_program_tensor *tensor;
    bool is_integer;

    if (vc_onnx_peek_char(t) == '"') {
        attr->kind = VC_PROGRAM_STRING;
        return vc_onnx_take_string(t, &attr->s, &attr->n);
    }
    if (vc_onnx_next_type(t, &type.dtype)) {
        attr->kind = VC_PROGRAM_TENSOR;
        VC_CALL(vc_onnx_take_type(t, &type));
        if (vc_onnx_peek_char(t) == '"' || vc_onnx_word_length(t) != 0) {
            VC_CALL(vc_onnx_take_name(t, "a name", &type.name));
        }
        (void)vc_onnx_take_char(t, '=');
        VC_CALL_ALLOC(tensor = vc_arena_alloc(t->ctx, t->arena, sizeof *tensor));
        attr->tensor = tensor;
        VC_CALL(vc_onnx_take_values(t, &type, tensor));
    } else if (vc_onnx_word_length(t) != 0 && !is_float_word(t)) {
        attr->kind = VC_PROGRAM_GRAPH;
        VC_CALL(skip_graph(t));
    } else if (vc_onnx_take_char(t, '@')) {
        return vc_onnx_fail_at(t, "a value, not the attribute of a function,");
    } else {
        VC_CALL(vc_onnx_take_number(t, &is_integer, &attr->i, &attr->f));
        attr->kind = is_integer ? VC_PROGRAM_INT : VC_PROGRAM_FLOAT;
    }
    return VC_OK;
}

/* [1, 2], of numbers or of strings. Three lists grow side by side, and the kind is decided at the end: one
 * float makes all of them floats. An empty list is of integers unless its type says otherwise. */
static enum vc_status take_list(struct vc_onnx_text *t, bool is_float, bool is_strings, struct vc_program_attr *attr)
{
    int64_t *ints = NULL;
    double *floats = NULL;
    const char **strings = NULL;
    size_t n[3] = {0, 0, 0};
    size_t capacity[3] = {0, 0, 0};

    while (vc_onnx_peek_char(t) != ']') {
        struct vc_program_attr one = {.kind = VC_PROGRAM_INT};
        int64_t *i = VC_ONNX_ADD(t, ints, n[0], capacity[0]);
        double *f = VC_ONNX_ADD(t, floats, n[1], capacity[1]);
        const char **s = VC_ONNX_ADD(t, strings, n[2], capacity[2]);

        VC_CALL(i != NULL && f != NULL && s != NULL ? VC_OK : VC_E_NOMEM);
        VC_CALL(take_single(t, &one));
        VC_RETURN_IF(one.kind != VC_PROGRAM_INT && one.kind != VC_PROGRAM_FLOAT && one.kind != VC_PROGRAM_STRING,
                     vc_onnx_fail_at(t, "a list of numbers or strings before"));
        is_float |= one.kind == VC_PROGRAM_FLOAT;
        is_strings |= one.kind == VC_PROGRAM_STRING;
        *i = one.i;
        *f = one.f;
        *s = one.s != NULL ? one.s : "";
        if (!vc_onnx_take_char(t, ',')) {
            break;
        }
    }
    VC_CALL(vc_onnx_expect_char(t, ']'));
    attr->kind = is_strings ? VC_PROGRAM_STRINGS : is_float ? VC_PROGRAM_FLOATS : VC_PROGRAM_INTS;
    attr->n = n[0];
    attr->ints = ints;
    attr->floats = floats;
    attr->strings = strings;
    return VC_OK;
}

/* name = value, or name: type = value. */
static enum vc_status take_attribute(struct vc_onnx_text *t, struct vc_program_attr *attr)
{
    const char *type = "";

    VC_CALL(vc_onnx_take_word(t, "the name of an attribute", &attr->name));
    if (vc_onnx_take_char(t, ':')) {
        VC_CALL(vc_onnx_take_word(t, "the type of an attribute", &type));
    }
    VC_CALL(vc_onnx_expect_char(t, '='));
    if (vc_onnx_take_char(t, '[')) {
        VC_CALL(take_list(t, strcmp(type, "floats") == 0, strcmp(type, "strings") == 0, attr));
    } else {
        VC_CALL(take_single(t, attr));
        if (strcmp(type, "float") == 0 && attr->kind == VC_PROGRAM_INT) {
            attr->kind = VC_PROGRAM_FLOAT;
        }
    }
    return VC_OK;
}

/* ---- nodes ---- */

/* Names between commas up to the character `until`; an empty place is an omitted input. */
static enum vc_status take_names(struct vc_onnx_text *t, char until, const char *const **names, size_t *n)
{
    const char **list = NULL;
    size_t capacity = 0;

    *n = 0;
    while (vc_onnx_peek_char(t) != until) {
        const char **name = VC_ONNX_ADD(t, list, *n, capacity);

        VC_CALL_ALLOC(name);
        *name = "";
        if (vc_onnx_peek_char(t) != ',') {
            VC_CALL(vc_onnx_take_name(t, "a name", name));
        }
        if (!vc_onnx_take_char(t, ',')) {
            break;
        }
    }
    *names = list;
    return VC_OK;
}

/* Attributes stand before or behind the inputs; take_node asks at both places. */
static enum vc_status take_attributes(struct vc_onnx_text *t, struct vc_program_node *node)
{
    struct vc_program_attr *attrs = NULL;
    size_t capacity = 0;

    if (node->n_attrs != 0 || !vc_onnx_take_char(t, '<')) {
        return VC_OK;
    }
    do {
        struct vc_program_attr *attr = VC_ONNX_ADD(t, attrs, node->n_attrs, capacity);

        VC_CALL_ALLOC(attr);
        VC_CALL(take_attribute(t, attr));
    } while (vc_onnx_take_char(t, ','));
    node->attrs = attrs;
    return vc_onnx_expect_char(t, '>');
}

/* The operator with its domain in front: com.microsoft.Gelu. "ai.onnx" is the default domain, "". */
static enum vc_status take_operator(struct vc_onnx_text *t, struct vc_program_node *node)
{
    node->domain = "";
    VC_CALL(vc_onnx_take_word(t, "an operator", &node->op));
    while (vc_onnx_take_char(t, '.')) {
        node->domain =
            *node->domain == '\0' ? node->op : vc_arena_printf(t->ctx, t->arena, "%s.%s", node->domain, node->op);
        VC_CALL_ALLOC(node->domain);
        VC_CALL(vc_onnx_take_word(t, "an operator", &node->op));
    }
    node->domain = strcmp(node->domain, "ai.onnx") == 0 ? "" : node->domain;
    if (vc_onnx_take_char(t, ':')) { /* an overload, of functions only */
        const char *word;

        VC_CALL(vc_onnx_take_word(t, "an overload", &word));
    }
    return VC_OK;
}

/* [name] y, z = Operator <attributes> (a, b) */
static enum vc_status take_node(struct vc_onnx_text *t)
{
    struct vc_program_node *node = VC_ONNX_ADD(t, t->nodes, t->out->n_nodes, t->node_capacity);

    VC_CALL_ALLOC(node);
    VC_REFUSE_IF(t->out->n_nodes > VC_PROGRAM_MAX_NODES, t->ctx, VC_E_UNSUPPORTED, "there are more than %zu nodes",
                 VC_PROGRAM_MAX_NODES);
    node->name = "";
    if (vc_onnx_take_char(t, '[')) {
        if (vc_onnx_peek_char(t) != ']') {
            VC_CALL(vc_onnx_take_name(t, "the name of a node", &node->name));
        }
        VC_CALL(vc_onnx_expect_char(t, ']'));
    }
    VC_CALL(take_names(t, '=', &node->outputs, &node->n_outputs));
    VC_CALL(vc_onnx_expect_char(t, '='));
    VC_CALL(take_operator(t, node));
    VC_CALL(take_attributes(t, node));
    VC_CALL(vc_onnx_expect_char(t, '('));
    VC_CALL(take_names(t, ')', &node->inputs, &node->n_inputs));
    VC_CALL(vc_onnx_expect_char(t, ')'));
    return take_attributes(t, node);
}

/* ---- the graph ---- */

/* A value of a list: what it is, its name, and what it is equal to. */
static enum vc_status take_value(struct vc_onnx_text *t, struct vc_program_value *value)
{
    const char *name = NULL;

    *value = (struct vc_program_value){.dtype = VC_DTYPE_RAW};
    bool has_tensor = vc_onnx_next_type(t, &value->dtype);
    if (has_tensor) {
        VC_CALL(vc_onnx_take_type(t, value));
    }
    VC_CALL(vc_onnx_take_name(t, "the name of a value", &name));
    value->name = name;
    if (vc_onnx_take_char(t, '=')) {
        struct vc_program_constant *c = VC_ONNX_ADD(t, t->constants, t->out->n_constants, t->constant_capacity);
        struct vc_program_tensor *tensor = vc_arena_alloc(t->ctx, t->arena, sizeof *tensor);

        VC_CALL(c != NULL && tensor != NULL ? VC_OK : VC_E_NOMEM);
        *c = (struct vc_program_constant){.name = name, .index = VC_NO_TENSOR, .tensor = tensor};
        VC_CALL(vc_onnx_take_values(t, value, tensor));
    }
    return VC_OK;
}

/* (type name, ...) as inputs or outputs; those with a value are constants as well. */
static enum vc_status take_list_of_values(struct vc_onnx_text *t, char open, char close,
                                          const struct vc_program_value **list, size_t *n)
{
    struct vc_program_value *values = NULL;
    size_t capacity = 0;

    VC_CALL(vc_onnx_expect_char(t, open));
    while (vc_onnx_peek_char(t) != close) {
        struct vc_program_value *value = VC_ONNX_ADD(t, values, *n, capacity);

        VC_CALL_ALLOC(value);
        VC_CALL(take_value(t, value));
        if (!vc_onnx_take_char(t, ',')) {
            break;
        }
    }
    *list = values;
    return vc_onnx_expect_char(t, close);
}

/* name (inputs) => (outputs) <declared values and initializers> { nodes } */
static enum vc_status take_graph(struct vc_onnx_text *t)
{
    const char *name;

    VC_CALL(vc_onnx_take_name(t, "the name of the graph", &name));
    VC_CALL(take_list_of_values(t, '(', ')', &t->out->inputs, &t->out->n_inputs));
    VC_CALL(vc_onnx_expect_char(t, '='));
    VC_CALL(vc_onnx_expect_char(t, '>'));
    VC_CALL(take_list_of_values(t, '(', ')', &t->out->outputs, &t->out->n_outputs));
    if (vc_onnx_peek_char(t) == '<') {
        VC_CALL(take_list_of_values(t, '<', '>', &t->out->declared, &t->out->n_declared));
    }
    VC_CALL(vc_onnx_expect_char(t, '{'));
    while (!vc_onnx_take_char(t, '}')) {
        VC_CALL(take_node(t));
    }
    return VC_OK;
}

/* ---- the model ---- */

/* ["" : 23, ...] or ["key": "value", ...] */
static enum vc_status take_pairs(struct vc_onnx_text *t, bool opsets)
{
    VC_CALL(vc_onnx_expect_char(t, '['));
    while (vc_onnx_peek_char(t) != ']') {
        const char *key;
        const char *value;
        size_t n;

        VC_CALL(vc_onnx_take_string(t, &key, &n));
        VC_CALL(vc_onnx_expect_char(t, ':'));
        if (opsets) {
            struct vc_program_opset *opset = VC_ONNX_ADD(t, t->opsets, t->out->n_opsets, t->opset_capacity);

            VC_CALL_ALLOC(opset);
            opset->domain = strcmp(key, "ai.onnx") == 0 ? "" : key;
            VC_CALL(vc_onnx_take_integer(t, &opset->version));
        } else {
            struct vc_program_note *note = VC_ONNX_ADD(t, t->notes, t->out->n_notes, t->note_capacity);

            VC_CALL_ALLOC(note);
            VC_CALL(vc_onnx_take_string(t, &value, &n));
            *note = (struct vc_program_note){.key = key, .value = value};
        }
        if (!vc_onnx_take_char(t, ',')) {
            break;
        }
    }
    return vc_onnx_expect_char(t, ']');
}

/* <ir_version: 10, ...> */
static enum vc_status take_head(struct vc_onnx_text *t)
{
    if (!vc_onnx_take_char(t, '<')) {
        return VC_OK;
    }
    do {
        const char *word = "";
        const char *s;
        size_t n;
        int64_t i;

        VC_CALL(vc_onnx_take_word(t, "ir_version, opset_import or the like", &word));
        VC_CALL(vc_onnx_expect_char(t, ':'));
        if (strcmp(word, "opset_import") == 0 || strcmp(word, "metadata_props") == 0) {
            VC_CALL(take_pairs(t, strcmp(word, "opset_import") == 0));
        } else {
            if (vc_onnx_peek_char(t) == '"') {
                VC_CALL(vc_onnx_take_string(t, &s, &n));
            } else {
                VC_CALL(vc_onnx_take_integer(t, &i));
            }
        }
    } while (vc_onnx_take_char(t, ','));
    return vc_onnx_expect_char(t, '>');
}

/* Functions behind the graph are not read: they would have to be inlined with their own syntax. */
enum vc_status vc_onnx_parse(struct vc_ctx *ctx, struct vc_arena *arena, const char *text, size_t n,
                             struct vc_program *out)
{
    static const struct vc_program_opset newest = {.domain = "", .version = VC_GRAPH_OPSET};
    struct vc_onnx_text t = {.ctx = ctx, .arena = arena, .start = text, .at = text, .end = text + n, .out = out};

    *out = (struct vc_program){.kind = VC_PROGRAM_NODES};
    VC_CALL(take_head(&t));
    VC_CALL(take_graph(&t));
    out->nodes = t.nodes;
    out->constants = t.constants;
    out->opsets = t.opsets;
    out->notes = t.notes;
    if (vc_onnx_peek_char(&t) != '\0') {
        VC_CALL(vc_onnx_fail_at(&t, "the end of the text (functions are not read)"));
    }
    if (out->n_opsets == 0) {
        out->opsets = &newest;
        out->n_opsets = 1;
    }
    return VC_OK;
}
