/* onnx_print.c - a graph in ONNX's textual form, as onnx.parser and vc_onnx_parse read it.
 *
 *     <ir_version: 11, opset_import: ["" : 23], metadata_props: ["vcompress.parameter:w": "fc1.weight"]>
 *     graph (float[batch, 784] x, float[128, 784] w) => (float[batch, 128] y) {
 *         "w^T" = Transpose <perm = [1, 0]> (w)
 *         y = MatMul (x, "w^T")
 *     }
 *
 * Parameters are inputs, and a note for each says so. Where the graph uses a tensor in slices or transposed, the input
 * is the whole tensor, and nodes make of it what the graph uses, under its name. Constants are initializers.
 *
 * Called by `graph --text` and vc_graph_print_text; what is printed is read back as the same graph
 * (tests/graph). The order of parameters and constants is that of their first use, which reading keeps, so
 * that printing again gives the same text. */
#include <ctype.h>
#include <math.h>

#include "core/text/text.h"
#include "graph/onnx/onnx_build.h"

#define IR_VERSION 11 /* the one of VC_GRAPH_OPSET */

/* Tables by number of parameter, found before anything is printed.
 * `whole` and `as_is` answer two questions about tensors that several parameters read, such as one matrix
 * that is used as three slices:
 *
 *     number   parameter       tensor   slice       whole     as_is
 *     0        query.weight    qkv      0 to 64      0        none
 *     1        key.weight      qkv      64 to 128    0
 *     2        head.weight     embed    all          2         2
 */
struct print {
    struct vc_ctx *ctx;
    const struct vc_graph *graph;
    struct vc_text text;
    uint32_t *whole; /* by parameter: the first of the same tensor, for which there is one input */
    uint32_t *as_is; /* by such a first one: a parameter that is the whole tensor, whose name the input has; or none */
    uint32_t *order; /* the first ones in the order in which nodes use them, which reading them again keeps */
    uint32_t n_order;
    uint32_t *constants; /* in that order, too */
    uint32_t n_constants;
};

/* ---- words ---- */

/* A name, in quotes unless it is a plain word; always for what would be read as a type. The grammar knows
 * types by their names alone: a value called bool stands in quotes. In quotes '"' and '\' get a '\'. */
static void add_name(struct print *p, const char *name)
{
    static const char *const types[] = {"float",     "double",     "float16",      "bfloat16", "int64",    "int32",
                                        "int16",     "int8",       "uint64",       "uint32",   "uint16",   "uint8",
                                        "bool",      "string",     "seq",          "map",      "optional", "opaque",
                                        "complex64", "complex128", "sparse_tensor"};
    bool plain = isalpha((unsigned char)*name) || *name == '_';

    for (const char *c = name; *c != '\0'; c++) {
        plain = plain && (isalnum((unsigned char)*c) || *c == '_');
    }
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        plain = plain && strcmp(types[k], name) != 0;
    }
    if (plain) {
        vc_text_add(&p->text, "%s", name);
        return;
    }
    vc_text_add(&p->text, "\"");
    for (const char *c = name; *c != '\0'; c++) {
        vc_text_add(&p->text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    vc_text_add(&p->text, "\"");
}

/* A prefix and a text as one string in quotes: "vcompress.parameter:w". */
static void add_string(struct print *p, const char *prefix, const char *s)
{
    vc_text_add(&p->text, "\"");
    for (unsigned k = 0; k < 2; k++) {
        for (const char *c = k == 0 ? prefix : s; *c != '\0'; c++) {
            vc_text_add(&p->text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        }
    }
    vc_text_add(&p->text, "\"");
}

/* The fewest digits that read back as the same double, with a point or exponent so that it is a float for
 * the reader.
 *     0.1       "0.1"
 *     1         "1.0"
 *     1e-05     "1e-05"
 *     1/3       "0.3333333333333333"
 */
static void add_float(struct print *p, double x)
{
    char digits[64];

    if (isnan(x) || isinf(x)) {
        vc_text_add(&p->text, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    for (int n = 6; n <= 17; n++) {
        (void)snprintf(digits, sizeof digits, "%.*g", n, x);
        if (strtod(digits, NULL) == x) {
            break;
        }
    }
    vc_text_add(&p->text, "%s%s", digits, strpbrk(digits, ".e") == NULL ? ".0" : "");
}

/* A value is F32, BOOL or I64; others do not occur in a graph. */
static const char *type_name(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F32 ? "float" : dtype == VC_DTYPE_BOOL ? "bool" : "int64";
}

/* A type with the name of the value behind it: "float[batch, 784] x". An open size is a name, and a
 * computed one a name in quotes: "floor((height - 1)/2)" comes back as a symbol of that name. */
static void add_type(struct print *p, const struct vc_graph_value *value)
{
    vc_text_add(&p->text, "%s", type_name(value->dtype));
    for (unsigned d = 0; d < value->n_dims; d++) {
        char text[512];

        vc_text_add(&p->text, d == 0 ? "[" : ", ");
        (void)vc_dim_text(&p->graph->dims, value->shape[d], text, sizeof text);
        if (vc_dim_is_number(value->shape[d])) {
            vc_text_add(&p->text, "%s", text);
        } else {
            add_name(p, text);
        }
    }
    vc_text_add(&p->text, value->n_dims == 0 ? " " : "] ");
    add_name(p, value->name);
}

/* ---- parameters ---- */

/* True if the parameter is the tensor as it lies in the checkpoint. */
static bool is_whole(const struct vc_graph_param *param)
{
    return !param->sliced && !param->transposed;
}

/* Several parameters of one tensor are one input.
 * Tables have one element more than needed, so that an empty graph allocates something. */
static enum vc_status find_wholes(struct print *p)
{
    const struct vc_graph *graph = p->graph;
    VC_SCOPED_NAMES struct vc_name_table table = {{.slots = NULL}};
    struct vc_name_list list = VC_NAME_LIST(graph->params, sizeof *graph->params); /* their tensors' names */

    VC_CALL(VC_ZEROS(p->ctx, VC_TAG_NAMES, p->whole, graph->n_params + (size_t)1));
    VC_CALL(VC_ZEROS(p->ctx, VC_TAG_NAMES, p->as_is, graph->n_params + (size_t)1));
    VC_CALL(vc_name_table_make(p->ctx, graph->n_params + (size_t)1, &table));
    for (uint32_t k = 0; k < graph->n_params; k++) {
        size_t first = vc_name_table_add(&table, list, k);

        p->whole[k] = first == SIZE_MAX ? k : (uint32_t)first;
        p->as_is[k] = VC_NO_PARAM;
        if (is_whole(&graph->params[k]) && p->as_is[p->whole[k]] == VC_NO_PARAM) {
            p->as_is[p->whole[k]] = k;
        }
    }
    return VC_OK;
}

/* Notes a used value at its first use: of a parameter the first parameter of its tensor.
 * Inputs and results are marked seen, too, and are in no list. */
static void order_value(struct print *p, bool *seen, uint32_t v)
{
    uint32_t param = v == VC_NO_VALUE ? VC_NO_PARAM : p->graph->values[v].param;

    if (param != VC_NO_PARAM) {
        v = p->graph->params[p->whole[param]].value;
    }
    if (v == VC_NO_VALUE || seen[v]) {
        return;
    }
    seen[v] = true;
    if (param != VC_NO_PARAM) {
        p->order[p->n_order++] = p->whole[param];
    } else if (p->graph->values[v].kind == VC_VALUE_CONSTANT) {
        p->constants[p->n_constants++] = v;
    }
}

/* The order of parameters and constants.
 * Outputs come last: a constant or parameter that is an output itself is read by no node. */
static enum vc_status find_order(struct print *p)
{
    const struct vc_graph *graph = p->graph;
    VC_SCOPED bool *seen = vc_calloc_array(p->ctx, VC_TAG_NAMES, graph->n_values + (size_t)1, sizeof *seen);

    VC_CALL_ALLOC(seen);
    VC_CALL(VC_ZEROS(p->ctx, VC_TAG_NAMES, p->order, graph->n_params + (size_t)1));
    VC_CALL(VC_ZEROS(p->ctx, VC_TAG_NAMES, p->constants, graph->n_values + (size_t)1));
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        for (unsigned i = 0; i < graph->nodes[k].n_inputs; i++) {
            order_value(p, seen, graph->nodes[k].inputs[i]);
        }
    }
    for (uint32_t k = 0; k < graph->n_outputs; k++) {
        order_value(p, seen, graph->outputs[k]);
    }
    return VC_OK;
}

/* The name of the input that is the whole tensor k: the name of the value that is just this tensor, else
 * the tensor's own name, with ":1", ":2" if another value has it.
 * Names are cut to 1000 bytes; the loop finds a free one. */
static const char *whole_name(const struct print *p, uint32_t k, char *name, size_t n)
{
    const struct vc_graph *graph = p->graph;
    uint32_t same = p->as_is[p->whole[k]];
    const char *tensor = graph->params[k].tensor;

    if (same != VC_NO_PARAM) {
        return graph->values[graph->params[same].value].name;
    }
    (void)snprintf(name, n, "%.1000s", tensor);
    for (unsigned i = 1; vc_graph_find(graph, name) != VC_NO_VALUE; i++) {
        (void)snprintf(name, n, "%.1000s:%u", tensor, i);
    }
    return name;
}

#define MAX_WHOLE_NAME 1100

static void add_whole_name(struct print *p, uint32_t k)
{
    char name[MAX_WHOLE_NAME];

    add_name(p, whole_name(p, k, name, sizeof name));
}

/* A name that begins as the value's: "key.weight:first".
 * The colon keeps such names apart from those of most files; a file that has one of them is not looked for
 * here. */
static void add_part_name(struct print *p, const struct vc_graph_param *param, const char *what)
{
    char name[MAX_WHOLE_NAME + 16];

    (void)snprintf(name, sizeof name, "%.1000s:%s", p->graph->values[param->value].name, what);
    add_name(p, name);
}

/* Where a slice begins and ends, as initializers.
 * Slice takes them as lists of one number. `any`: a line was printed already, and a comma comes first. */
static void add_slice_numbers(struct print *p, const struct vc_graph_param *param, bool *any)
{
    static const char *const names[] = {"first", "end", "axis"};
    const uint64_t numbers[] = {param->first, param->first + param->count, param->axis};

    for (unsigned k = 0; param->sliced && k < 3; k++) {
        vc_text_add(&p->text, "%s", *any ? ",\n " : "\n<");
        *any = true;
        vc_text_add(&p->text, "int64[1] ");
        add_part_name(p, param, names[k]);
        vc_text_add(&p->text, " = {%" PRIu64 "}", numbers[k]);
    }
}

/* The nodes that make of the whole tensor what the graph uses: Slice, then Transpose, or Identity for a second name.
 *     "key.weight:part" = Slice (qkv, "key.weight:first", "key.weight:end", "key.weight:axis")
 *     "key.weight" = Transpose <perm = [1, 0]> ("key.weight:part")
 */
static void add_param_nodes(struct print *p, uint32_t k)
{
    const struct vc_graph_param *param = &p->graph->params[k];
    const char *name = p->graph->values[param->value].name;

    if (is_whole(param)) {
        if (p->as_is[p->whole[k]] != k) {
            vc_text_add(&p->text, "    ");
            add_name(p, name);
            vc_text_add(&p->text, " = Identity (");
            add_whole_name(p, k);
            vc_text_add(&p->text, ")\n");
        }
        return;
    }
    if (param->sliced) {
        vc_text_add(&p->text, "    ");
        if (param->transposed) {
            add_part_name(p, param, "part");
        } else {
            add_name(p, name);
        }
        vc_text_add(&p->text, " = Slice (");
        add_whole_name(p, k);
        for (unsigned i = 0; i < 3; i++) {
            static const char *const names[] = {"first", "end", "axis"};

            vc_text_add(&p->text, ", ");
            add_part_name(p, param, names[i]);
        }
        vc_text_add(&p->text, ")\n");
    }
    if (param->transposed) {
        vc_text_add(&p->text, "    ");
        add_name(p, name);
        vc_text_add(&p->text, " = Transpose <perm = [");
        for (unsigned d = 0; d < param->n_dims; d++) {
            unsigned to = d + 2 == param->n_dims ? d + 1 : d + 1 == param->n_dims ? d - 1 : d;

            vc_text_add(&p->text, "%s%u", d == 0 ? "" : ", ", to);
        }
        vc_text_add(&p->text, "]> (");
        if (param->sliced) {
            add_part_name(p, param, "part");
        } else {
            add_whole_name(p, k);
        }
        vc_text_add(&p->text, ")\n");
    }
}

/* ---- the head ---- */

/* Version and operator set, a note for each parameter with its tensor's name, a note for each optional
 * input.
 *     <ir_version: 11, opset_import: ["" : 23],
 *      metadata_props: ["vcompress.parameter:fc1.weight" : "fc1.weight",
 *      "vcompress.optional:attention_mask" : "1"]>
 */
static void add_head(struct print *p)
{
    const struct vc_graph *graph = p->graph;
    bool any = false;

    vc_text_add(&p->text, "<ir_version: %d, opset_import: [\"\" : %d]", IR_VERSION, VC_GRAPH_OPSET);
    for (uint32_t i = 0; i < p->n_order; i++) {
        char name[MAX_WHOLE_NAME];

        vc_text_add(&p->text, "%s", any ? ",\n " : ",\n metadata_props: [");
        add_string(p, VC_ONNX_PARAMETER_NOTE, whole_name(p, p->order[i], name, sizeof name));
        vc_text_add(&p->text, " : ");
        add_string(p, "", graph->params[p->order[i]].tensor);
        any = true;
    }
    for (uint32_t k = 0; k < graph->n_inputs; k++) {
        const struct vc_graph_value *value = &graph->values[graph->inputs[k]];

        if (value->optional) {
            vc_text_add(&p->text, "%s", any ? ",\n " : ",\n metadata_props: [");
            add_string(p, VC_ONNX_OPTIONAL_NOTE, value->name);
            vc_text_add(&p->text, " : \"%" PRId64 "\"", value->otherwise);
            any = true;
        }
    }
    vc_text_add(&p->text, "%s>\n", any ? "]" : "");
}

/* Inputs: those of the graph, then one for each tensor.
 * A parameter is an input with its whole shape, which is that of the tensor in the checkpoint. */
static void add_signature(struct print *p)
{
    const struct vc_graph *graph = p->graph;
    bool any = false;

    vc_text_add(&p->text, "graph (");
    for (uint32_t k = 0; k < graph->n_inputs; k++) {
        vc_text_add(&p->text, "%s", any ? ",\n    " : "");
        any = true;
        add_type(p, &graph->values[graph->inputs[k]]);
    }
    for (uint32_t i = 0; i < p->n_order; i++) {
        uint32_t k = p->order[i];

        vc_text_add(&p->text, "%s%s", any ? ",\n    " : "",
                    graph->values[graph->params[k].value].dtype == VC_DTYPE_I64 ? "int64" : "float");
        any = true;
        for (unsigned d = 0; d < graph->params[k].n_dims; d++) {
            vc_text_add(&p->text, "%s%" PRIu64, d == 0 ? "[" : ", ", graph->params[k].shape[d]);
        }
        vc_text_add(&p->text, graph->params[k].n_dims == 0 ? " " : "] ");
        add_whole_name(p, k);
    }
    vc_text_add(&p->text, ") => (");
    for (uint32_t k = 0; k < graph->n_outputs; k++) {
        vc_text_add(&p->text, "%s", k == 0 ? "" : ",\n    ");
        add_type(p, &graph->values[graph->outputs[k]]);
    }
    vc_text_add(&p->text, ")");
}

/* Constants, with their elements.
 * Truth values are 0 and 1. The sizes of a constant are numbers always. */
static void add_initializers(struct print *p)
{
    const struct vc_graph *graph = p->graph;
    bool any = false;

    for (uint32_t i = 0; i < p->n_constants; i++) {
        const struct vc_graph_value *value = &graph->values[p->constants[i]];
        int64_t n = 1;

        vc_text_add(&p->text, "%s", any ? ",\n " : "\n<");
        any = true;
        add_type(p, value);
        vc_text_add(&p->text, " = {");
        for (unsigned d = 0; d < value->n_dims; d++) {
            n *= value->shape[d].size;
        }
        for (int64_t k = 0; k < n; k++) {
            vc_text_add(&p->text, "%s", k == 0 ? "" : ", ");
            if (value->dtype == VC_DTYPE_F32) {
                add_float(p, ((const double *)value->data)[k]);
            } else {
                vc_text_add(&p->text, "%" PRId64, ((const int64_t *)value->data)[k]);
            }
        }
        vc_text_add(&p->text, "}");
    }
    for (uint32_t k = 0; k < graph->n_params; k++) {
        add_slice_numbers(p, &graph->params[k], &any);
    }
    vc_text_add(&p->text, "%s {\n", any ? ">" : "");
}

/* ---- nodes ---- */

/* "Sigmoid,Tanh" as ["Sigmoid", "Tanh"]. */
static void add_words(struct print *p, const char *words)
{
    const char *before = "[";

    while (*words != '\0') {
        size_t n = strcspn(words, ",");

        vc_text_add(&p->text, "%s\"%.*s\"", before, (int)n, words);
        words += n + (words[n] == ',');
        before = ", ";
    }
    vc_text_add(&p->text, "]");
}

/* An empty list needs its type in front, since [] alone is of integers.
 * The activations of a recurrent operator are one text in a graph and a list in ONNX. ConstantOfShape has
 * its number itself, and ONNX a tensor with one element. */
static void add_attribute(struct print *p, const struct vc_graph_node *node, const struct vc_graph_attr *attr)
{
    if (strcmp(node->op, "ConstantOfShape") == 0) { /* the graph has the number itself */
        vc_text_add(&p->text, "%s = %s {", attr->name, attr->kind == VC_ATTR_INT ? "int64[1]" : "float[1]");
    } else if (attr->n == 0 && (attr->kind == VC_ATTR_INTS || attr->kind == VC_ATTR_FLOATS)) {
        vc_text_add(&p->text, "%s: %s = ", attr->name, attr->kind == VC_ATTR_INTS ? "ints" : "floats");
    } else {
        vc_text_add(&p->text, "%s = ", attr->name);
    }
    switch (attr->kind) {
    case VC_ATTR_INT:
        vc_text_add(&p->text, "%" PRId64, attr->i);
        break;
    case VC_ATTR_FLOAT:
        add_float(p, attr->f);
        break;
    case VC_ATTR_STRING:
        if (strcmp(attr->name, "activations") == 0) {
            add_words(p, attr->s);
        } else {
            add_string(p, "", attr->s);
        }
        break;
    case VC_ATTR_INTS:
    case VC_ATTR_FLOATS:
        vc_text_add(&p->text, "[");
        for (size_t k = 0; k < attr->n; k++) {
            vc_text_add(&p->text, "%s", k == 0 ? "" : ", ");
            if (attr->kind == VC_ATTR_INTS) {
                vc_text_add(&p->text, "%" PRId64, attr->ints[k]);
            } else {
                add_float(p, attr->floats[k]);
            }
        }
        vc_text_add(&p->text, "]");
        break;
    }
    vc_text_add(&p->text, "%s", strcmp(node->op, "ConstantOfShape") == 0 ? "}" : "");
}

/* The names of inputs or outputs; "" stands for one that is left out. */
static void add_values(struct print *p, const uint32_t *values, unsigned n)
{
    for (unsigned k = 0; k < n; k++) {
        vc_text_add(&p->text, "%s", k == 0 ? "" : ", ");
        if (values[k] == VC_NO_VALUE) {
            vc_text_add(&p->text, "\"\"");
        } else {
            add_name(p, p->graph->values[values[k]].name);
        }
    }
}

/* [name] y, z = Op <attributes> (a, "", b)
 * The name of the node is left out where there is none. */
static void add_node(struct print *p, const struct vc_graph_node *node)
{
    vc_text_add(&p->text, "    ");
    if (*node->name != '\0') {
        vc_text_add(&p->text, "[");
        add_name(p, node->name);
        vc_text_add(&p->text, "] ");
    }
    add_values(p, node->outputs, node->n_outputs);
    vc_text_add(&p->text, " = %s", node->op);
    for (unsigned k = 0; k < node->n_attrs; k++) {
        vc_text_add(&p->text, k == 0 ? " <" : ", ");
        add_attribute(p, node, &node->attrs[k]);
    }
    vc_text_add(&p->text, "%s (", node->n_attrs != 0 ? ">" : "");
    add_values(p, node->inputs, node->n_inputs);
    vc_text_add(&p->text, ")\n");
}

/* The whole text in memory; the caller frees it. Nodes that make parts of tensors come first, since the
 * nodes of the graph use them. */
enum vc_status vc_graph_print_text(struct vc_ctx *ctx, const struct vc_graph *graph, char **text)
{
    struct print p = {.ctx = ctx, .graph = graph};
    enum vc_status status;

    *text = NULL;
    vc_clear_error(ctx);
    vc_text_init(&p.text, ctx);
    VC_TRY(find_wholes(&p));
    VC_TRY(find_order(&p));
    add_head(&p);
    add_signature(&p);
    add_initializers(&p);
    for (uint32_t k = 0; k < graph->n_params; k++) {
        add_param_nodes(&p, k);
    }
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        add_node(&p, &graph->nodes[k]);
    }
    vc_text_add(&p.text, "}\n");
    *text = vc_text_detach(&p.text);
    status = p.text.status;
out:
    vc_text_release(&p.text);
    VC_FREE_ALL(ctx, p.whole, p.as_is, p.order, p.constants);
    return status;
}
