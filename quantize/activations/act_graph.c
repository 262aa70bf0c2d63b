/* act_graph.c - see act_graph.h.
 *
 * A value is found by its name: nodes of ONNX refer to each other in no other way. "" stands for an input that is left
 * out. */
#include "quantize/activations/act_graph.h"

#include "core/text/text.h"

/* What is looked for in the hash table. */
struct name_key {
    const struct act_graph *graph;
    const char *name;
};

/* vc_hash_same_fn */
static bool is_same(const void *key, size_t number)
{
    const struct name_key *k = key;

    return strcmp(k->graph->values[number].name, k->name) == 0;
}

/* The number of the value with that name; ACT_NONE: none, or no name. */
static size_t find(const struct act_graph *graph, const char *name)
{
    const struct name_key key = {graph, name};

    return *name == '\0' ? ACT_NONE : vc_hash_find(&graph->by_name, vc_hash_text(name), is_same, &key);
}

/* vc_hash_of_fn */
static uint64_t hash_of(const void *items, size_t number)
{
    return vc_hash_text(((const struct act_graph *)items)->values[number].name);
}

/* The number of the value with that name, which becomes a new one where there is none. The array has room for all. */
static enum vc_status add(struct vc_ctx *ctx, struct act_graph *graph, const char *name, size_t *out)
{
    *out = find(graph, name);
    if (*out != ACT_NONE || *name == '\0') {
        return VC_OK;
    }
    VC_CALL(vc_hash_grow(ctx, &graph->by_name, graph->n_values, hash_of, graph));
    *out = graph->n_values++;
    graph->values[*out] =
        (struct act_value){.name = name, .maker = ACT_NONE, .reader = ACT_NONE, .constant = ACT_NONE, .root = ACT_NONE};
    vc_hash_add(&graph->by_name, vc_hash_text(name), *out);
    return VC_OK;
}

/* A node that reads a value twice counts as two uses, so that it is no only reader of one. */
static enum vc_status add_node(struct vc_ctx *ctx, struct act_graph *graph, const struct vc_program_node *node,
                               size_t number)
{
    size_t v;

    for (size_t k = 0; k < node->n_inputs; k++) {
        VC_CALL(add(ctx, graph, node->inputs[k], &v));
        if (v != ACT_NONE) {
            graph->values[v].reader = number;
            graph->values[v].n_uses++;
        }
    }
    for (size_t k = 0; k < node->n_outputs; k++) {
        VC_CALL(add(ctx, graph, node->outputs[k], &v));
        if (v != ACT_NONE) {
            graph->values[v].maker = number;
        }
    }
    return VC_OK;
}

/* ---- branches: their nodes are nodes of the graph ---- */

/* All nodes, constants and names of the program and of the graphs inside its nodes. */
static void count(const struct vc_program *p, size_t *n_nodes, size_t *n_constants, size_t *n_names)
{
    *n_nodes += p->n_nodes;
    *n_constants += p->n_constants;
    *n_names += p->n_inputs + p->n_outputs + p->n_constants;
    for (size_t k = 0; k < p->n_nodes; k++) {
        *n_names += p->nodes[k].n_inputs + p->nodes[k].n_outputs;
        for (size_t i = 0; i < p->nodes[k].n_attrs; i++) {
            if (p->nodes[k].attrs[i].graph != NULL) {
                count(p->nodes[k].attrs[i].graph, n_nodes, n_constants, n_names);
            }
        }
    }
}

/* Something in the graph has a name that the branch gives to a value of its own: both branches of an If may. */
static bool collides(const struct act_graph *graph, const struct vc_program *p)
{
    bool twice = false;

    for (size_t k = 0; k < p->n_constants && !twice; k++) {
        twice = find(graph, p->constants[k].name) != ACT_NONE;
    }
    for (size_t k = 0; k < p->n_nodes && !twice; k++) {
        for (size_t i = 0; i < p->nodes[k].n_outputs && !twice; i++) {
            twice = find(graph, p->nodes[k].outputs[i]) != ACT_NONE;
        }
    }
    return twice;
}

/* Bodies of loops, and branches that collide, stay floats; they are further readers of what they read. */
static void read_by(struct act_graph *graph, const struct vc_program *p)
{
    for (size_t k = 0; k < p->n_nodes; k++) {
        for (size_t i = 0; i < p->nodes[k].n_inputs; i++) {
            size_t v = find(graph, p->nodes[k].inputs[i]);

            if (v != ACT_NONE) {
                graph->values[v].reader = ACT_NONE;
                graph->values[v].n_uses += 2; /* by more than one, and by none that is known */
            }
        }
        for (size_t i = 0; i < p->nodes[k].n_attrs; i++) {
            if (p->nodes[k].attrs[i].graph != NULL) {
                read_by(graph, p->nodes[k].attrs[i].graph);
            }
        }
    }
}

/* Constants, then nodes in their order, each behind those of the branches inside it; lists have room. */
static enum vc_status take(struct vc_ctx *ctx, struct act_graph *graph, const struct vc_program *p,
                           struct vc_program_node *nodes, struct vc_program_constant *constants)
{
    struct vc_program *all = &graph->program;
    size_t v;

    for (size_t k = 0; k < p->n_constants; k++) {
        VC_CALL(add(ctx, graph, p->constants[k].name, &v));
        graph->values[v].constant = all->n_constants;
        graph->values[v].is_input = false;
        constants[all->n_constants++] = p->constants[k];
    }
    for (size_t k = 0; k < p->n_nodes; k++) {
        const struct vc_program_node *node = &p->nodes[k];

        for (size_t i = 0; i < node->n_attrs; i++) {
            const struct vc_program *inner = node->attrs[i].graph;

            graph->has_branches = graph->has_branches || inner != NULL;
            if (inner != NULL && strcmp(node->op, "If") == 0 && !collides(graph, inner)) {
                VC_CALL(take(ctx, graph, inner, nodes, constants));
            } else if (inner != NULL) {
                read_by(graph, inner);
            }
        }
        nodes[all->n_nodes] = *node;
        VC_CALL(add_node(ctx, graph, node, all->n_nodes++));
    }
    for (size_t k = 0; k < p->n_outputs; k++) {
        VC_CALL(add(ctx, graph, p->outputs[k].name, &v));
        graph->values[v].n_uses++;
    }
    return VC_OK;
}

/* Constants may be listed as inputs too, as in files of old versions; they are no inputs here. */
enum vc_status vc_act_graph_read(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                 struct act_graph *graph)
{
    struct vc_program *p = &graph->program;
    struct vc_program_node *nodes;
    struct vc_program_constant *constants;
    size_t n_nodes = 0;
    size_t n_constants = 0;
    size_t n = 1;
    size_t v;

    VC_CALL(vc_model_program(ctx, model, arena, p));
    VC_REFUSE_IF(p->kind != VC_PROGRAM_NODES, ctx, VC_E_UNSUPPORTED,
                 "the file has no graph, and codes of activations are nodes of one: only ONNX files have "
                 "them (%s)",
                 vc_option(ctx, "activations"));
    struct vc_program file = *p;
    count(p, &n_nodes, &n_constants, &n);
    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, graph->values, n));
    VC_CALL_ALLOC(nodes = vc_arena_alloc(ctx, arena, (n_nodes + 1) * sizeof *nodes));
    VC_CALL_ALLOC(constants = vc_arena_alloc(ctx, arena, (n_constants + 1) * sizeof *constants));
    p->nodes = nodes;
    p->constants = constants;
    p->n_nodes = p->n_constants = 0;
    for (size_t k = 0; k < p->n_inputs; k++) {
        VC_CALL(add(ctx, graph, p->inputs[k].name, &v));
        graph->values[v].is_input = p->inputs[k].dtype == VC_DTYPE_F32;
    }
    return take(ctx, graph, &file, nodes, constants);
}

void vc_act_graph_release(struct vc_ctx *ctx, struct act_graph *graph)
{
    vc_free(ctx, graph->values);
    vc_hash_release(ctx, &graph->by_name);
}

/* ---- nodes ---- */

size_t vc_act_input(const struct act_graph *graph, const struct vc_program_node *node, size_t k)
{
    return k < node->n_inputs ? find(graph, node->inputs[k]) : ACT_NONE;
}

size_t vc_act_output(const struct act_graph *graph, const struct vc_program_node *node, size_t k)
{
    return k < node->n_outputs ? find(graph, node->outputs[k]) : ACT_NONE;
}

bool vc_act_is(const struct vc_program_node *node, const char *op)
{
    return *node->domain == '\0' && strcmp(node->op, op) == 0;
}

/* Operators of other domains (com.microsoft) are not known here, whatever their names. */
enum act_kind vc_act_kind(const struct vc_program_node *node)
{
    static const struct {
        enum act_kind kind;
        const char *ops;
    } rows[] = {{ACT_LAYER, "Conv Gemm MatMul"},
                {ACT_CLAMP, "Relu Clip"},
                {ACT_BOTH, "Add Mul Concat"},
                {ACT_SINGLE, "AveragePool GlobalAveragePool Sigmoid LeakyRelu Softmax"},
                {ACT_PASS, "MaxPool Reshape Flatten Transpose Squeeze Unsqueeze Slice Expand Tile Gather Split "
                           "DepthToSpace Identity Dropout"}};

    for (size_t k = 0; *node->domain == '\0' && k < sizeof rows / sizeof *rows; k++) {
        if (vc_is_one_of(node->op, rows[k].ops)) {
            return rows[k].kind;
        }
    }
    return ACT_OTHER;
}

double vc_act_number(const struct vc_program_node *node, const char *name, double otherwise)
{
    for (size_t k = 0; k < node->n_attrs; k++) {
        if (strcmp(node->attrs[k].name, name) == 0) {
            return node->attrs[k].kind == VC_PROGRAM_FLOAT ? node->attrs[k].f : (double)node->attrs[k].i;
        }
    }
    return otherwise;
}

size_t vc_act_tensor(const struct act_graph *graph, size_t value)
{
    size_t constant = value == ACT_NONE ? ACT_NONE : graph->values[value].constant;

    return constant == ACT_NONE ? VC_NO_TENSOR : graph->program.constants[constant].index;
}

/* A file without a version has that of the first operators, 1. */
int64_t vc_act_opset(const struct act_graph *graph)
{
    int64_t version = 1;

    for (size_t k = 0; k < graph->program.n_opsets; k++) {
        version = *graph->program.opsets[k].domain == '\0' ? graph->program.opsets[k].version : version;
    }
    return version;
}
