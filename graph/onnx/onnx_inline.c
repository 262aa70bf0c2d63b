/* onnx_inline.c - nodes that call a function of the file become the nodes of that function.
 *
 *     y = model.Scale<by = 2.0>(x)                      c = Constant<value_float = 2.0>()       named "y/c"
 *     Scale(a) => (b) { c = Constant<value_float =      y = Mul(x, c)
 *                       @by>(); b = Mul(a, c) }
 *
 * Names inside get the name of the call's first output in front. The result is a program without functions,
 * in the program's arena. */

#include "core/base/array.h"
#include "graph/onnx/onnx_build.h"

#define MAX_DEPTH 100 /* functions that call functions */

struct inliner {
    struct vc_onnx_build *b;
    struct vc_program_node *nodes; /* the pool's */
    size_t n, capacity;
    size_t n_calls;
};

/* Which call the nodes of a function are for. */
struct call {
    const struct vc_program_function *fn;
    const struct vc_program_node *node; /* as it stands in the program: names are those outside */
    const char *prefix;
    const struct call *from; /* the call that this one is a part of; NULL: of the model */
    unsigned depth;
};

/* The function that the node calls, by domain, name and overload; NULL: an operator. */
static const struct vc_program_function *function_of(const struct vc_program *p, const struct vc_program_node *node)
{
    const char *overload = node->overload != NULL ? node->overload : "";

    for (size_t k = 0; k < p->n_functions; k++) {
        const struct vc_program_function *fn = &p->functions[k];

        if (strcmp(fn->name, node->op) == 0 && strcmp(fn->overload, overload) == 0 &&
            strcmp(strcmp(fn->domain, "ai.onnx") == 0 ? "" : fn->domain, node->domain) == 0) {
            return fn;
        }
    }
    return NULL;
}

/* Operators of the function have to mean what they mean in the model. */
static bool same_opset(const struct vc_onnx_build *b, const struct vc_program_function *fn)
{
    for (size_t k = 0; k < fn->n_opsets; k++) {
        if (*fn->opsets[k].domain == '\0' && fn->opsets[k].version != b->opset) {
            return false;
        }
    }
    return true;
}

static enum vc_status add_node(struct inliner *in, const struct vc_program_node *node)
{
    VC_CALL(VC_GROW(in->b->ctx, VC_TAG_NAMES, in->nodes, in->capacity, in->n + 1));
    in->nodes[in->n++] = *node;
    return VC_OK;
}

/* ---- names and attributes of a call ---- */

/* What a name inside the function is called outside: inputs and outputs are the call's, everything else
 * gets a prefix. An input that the call omits is "", an omitted one outside, too. NULL if memory is short. */
static const char *outside(struct inliner *in, const struct call *c, const char *name)
{
    if (*name == '\0') {
        return name;
    }
    for (size_t k = 0; k < c->fn->n_inputs; k++) {
        if (strcmp(c->fn->inputs[k], name) == 0) {
            return k < c->node->n_inputs ? c->node->inputs[k] : "";
        }
    }
    for (size_t k = 0; k < c->fn->n_outputs && k < c->node->n_outputs; k++) {
        if (strcmp(c->fn->outputs[k], name) == 0 && *c->node->outputs[k] != '\0') {
            return c->node->outputs[k];
        }
    }
    return vc_arena_printf(in->b->ctx, in->b->source->arena, "%s/%s", c->prefix, name);
}

static const struct vc_program_attr *attr_named(const struct vc_program_attr *attrs, size_t n, const char *name)
{
    for (size_t k = 0; k < n; k++) {
        if (strcmp(attrs[k].name, name) == 0) {
            return &attrs[k];
        }
    }
    return NULL;
}

/* Attributes that refer to attributes of the function (@by) get the call's value, or the function's
 * default; without both they are left out. */
static enum vc_status take_attrs(struct inliner *in, const struct call *c, const struct vc_program_node *inner,
                                 struct vc_program_node *to)
{
    struct vc_program_attr *attrs =
        vc_arena_alloc(in->b->ctx, in->b->source->arena, (inner->n_attrs + 1) * sizeof *attrs);

    VC_CALL_ALLOC(attrs);
    to->attrs = attrs;
    to->n_attrs = 0;
    for (size_t k = 0; k < inner->n_attrs; k++) {
        const struct vc_program_attr *given = &inner->attrs[k];

        if (given->reference != NULL && *given->reference != '\0') {
            const char *name = given->reference;

            given = attr_named(c->node->attrs, c->node->n_attrs, name);
            given = given == NULL ? attr_named(c->fn->defaults, c->fn->n_defaults, name) : given;
        }
        if (given != NULL) {
            attrs[to->n_attrs] = *given;
            attrs[to->n_attrs].reference = NULL;
            attrs[to->n_attrs++].name = inner->attrs[k].name;
        }
    }
    return VC_OK;
}

static enum vc_status take_names(struct inliner *in, const struct call *c, const char *const *names, size_t n,
                                 const char *const **to)
{
    const char **list = vc_arena_alloc(in->b->ctx, in->b->source->arena, (n + 1) * sizeof *list);

    VC_CALL_ALLOC(list);
    for (size_t k = 0; k < n; k++) {
        VC_CALL_ALLOC(list[k] = outside(in, c, names[k]));
    }
    *to = list;
    return VC_OK;
}

/* ---- the program ---- */

static enum vc_status add_call(struct inliner *in, const struct vc_program_function *fn,
                               const struct vc_program_node *node, const struct call *from);

/* A node as it stands in the program: itself, or what it calls. */
static enum vc_status add(struct inliner *in, const struct vc_program_node *node, const struct call *from)
{
    const struct vc_program_function *fn = function_of(in->b->program, node);

    return fn != NULL ? add_call(in, fn, node, from) : add_node(in, node);
}

/* Why the call cannot be taken apart; NULL: it can. Bounds recursion, depth and the number of nodes: a file
 * of 1 KiB could otherwise ask for 2^100 nodes. */
static const char *why_not(struct inliner *in, const struct call *c)
{
    for (const struct call *outer = c->from; outer != NULL; outer = outer->from) {
        if (outer->fn == c->fn) {
            return "calls itself";
        }
    }
    if (c->depth == MAX_DEPTH) {
        return "is called by 100 functions, one inside the other; more are not supported";
    }
    if (!same_opset(in->b, c->fn)) {
        return "is of another operator set than the model";
    }
    if (in->n + in->n_calls++ > VC_PROGRAM_MAX_NODES) {
        return "makes more nodes than are supported";
    }
    return NULL;
}

static void refuse(struct inliner *in, const struct call *c, const char *why)
{
    char text[400];

    vc_graph_complain(in->b->graph, "%s: the function '%.100s' %s", vc_onnx_node_text(c->node, text, sizeof text),
                      c->fn->name, why);
}

/* A node inside may call a function again: add() takes that apart, too, before it adds anything. */
static enum vc_status add_call(struct inliner *in, const struct vc_program_function *fn,
                               const struct vc_program_node *node, const struct call *from)
{
    struct call c = {.fn = fn, .node = node, .prefix = "", .from = from, .depth = from == NULL ? 0 : from->depth + 1};
    const char *why = why_not(in, &c);

    for (size_t k = node->n_outputs; k-- > 0;) {
        c.prefix = *node->outputs[k] != '\0' ? node->outputs[k] : c.prefix;
    }
    VC_LEAVE_WITH(why != NULL, refuse(in, &c, why), VC_OK);
    for (size_t k = 0; k < fn->n_nodes && in->b->graph->n_problems < VC_GRAPH_MAX_PROBLEMS; k++) {
        const struct vc_program_node *inner = &fn->nodes[k];
        struct vc_program_node to = *inner;

        to.of_function = true;
        if (*node->name != '\0') {
            to.name = vc_arena_printf(in->b->ctx, in->b->source->arena, "%s/%s", node->name,
                                      *inner->name != '\0' ? inner->name : inner->op);
            VC_CALL_ALLOC(to.name);
        }
        VC_CALL(take_names(in, &c, inner->inputs, inner->n_inputs, &to.inputs));
        VC_CALL(take_names(in, &c, inner->outputs, inner->n_outputs, &to.outputs));
        VC_CALL(take_attrs(in, &c, inner, &to));
        VC_CALL(add(in, &to, &c));
    }
    return VC_OK;
}

/* A file without functions keeps its own list of nodes. */
enum vc_status vc_onnx_inline(struct vc_onnx_build *b, struct vc_program *own)
{
    struct inliner in = {.b = b};
    struct vc_program_node *nodes;
    enum vc_status status = VC_OK;

    *own = *b->program;
    if (own->n_functions == 0) {
        return VC_OK;
    }
    for (size_t k = 0; k < b->program->n_nodes; k++) {
        VC_TRY(add(&in, &b->program->nodes[k], NULL));
    }
    VC_TRY_ALLOC(nodes = vc_arena_alloc(b->ctx, b->source->arena, (in.n + 1) * sizeof *nodes));
    if (in.n != 0) {
        memcpy(nodes, in.nodes, in.n * sizeof *nodes);
    }
    own->nodes = nodes;
    own->n_nodes = in.n;
out:
    vc_free(b->ctx, in.nodes);
    return status;
}
