/* program_edit.c - the graph of a file as it will be once passes have changed sizes: numbers that nodes state, what is
 * declared for values, and the constants that are weights. What a writer does to the file (formats/onnx/onnx_edit.c),
 * done to the program in memory. Lists that change are copied; the program's own stay as they are. Graphs inside nodes are
 * programs of their own, whose nodes edits find by the names of their values, too. */

#include "core/model/program.h"

struct editing {
    struct vc_ctx *ctx;
    struct vc_arena *arena;
    struct vc_program *program;
    struct vc_program_constant *constants; /* its own, with room for one more per edit */
};

static enum vc_status copy(struct vc_ctx *ctx, struct vc_arena *arena, const void *list, size_t n, size_t room,
                           size_t size, void *out)
{
    void *own = vc_arena_alloc(ctx, arena, (n + room + 1) * size);

    VC_CALL_ALLOC(own);
    if (n != 0) {
        memcpy(own, list, n * size);
    }
    memcpy(out, &own, sizeof own);
    return VC_OK;
}

/* Copies of nodes and constants, those of graphs inside nodes included, with room for more constants. */
static enum vc_status own(struct vc_ctx *ctx, struct vc_arena *arena, struct vc_program *program, size_t room)
{
    struct vc_program_node *nodes;
    struct vc_program_constant *constants;

    VC_CALL(copy(ctx, arena, program->nodes, program->n_nodes, 0, sizeof *nodes, &nodes));
    VC_CALL(copy(ctx, arena, program->constants, program->n_constants, room, sizeof *constants, &constants));
    for (size_t i = 0; i < program->n_nodes; i++) {
        for (size_t k = 0; k < nodes[i].n_attrs; k++) {
            struct vc_program_attr *attrs;
            struct vc_program *inner;

            if (nodes[i].attrs[k].graph == NULL) {
                continue;
            }
            VC_CALL(copy(ctx, arena, nodes[i].attrs, nodes[i].n_attrs, 0, sizeof *attrs, &attrs));
            VC_CALL(copy(ctx, arena, attrs[k].graph, 1, 0, sizeof *inner, &inner));
            VC_CALL(own(ctx, arena, inner, 0));
            attrs[k].graph = inner;
            nodes[i].attrs = attrs;
        }
    }
    program->nodes = nodes;
    program->constants = constants;
    return VC_OK;
}

/* Calls fn for the program, a copy of own(), and for the graphs inside its nodes until it returns a node or a constant. */
typedef const void *finder(const struct vc_program *program, const char *name);

static const void *find(const struct vc_program *program, const char *name, finder *fn)
{
    const void *found = fn(program, name);

    for (size_t i = 0; found == NULL && i < program->n_nodes; i++) {
        for (size_t k = 0; found == NULL && k < program->nodes[i].n_attrs; k++) {
            found = program->nodes[i].attrs[k].graph != NULL ? find(program->nodes[i].attrs[k].graph, name, fn) : NULL;
        }
    }
    return found;
}

static const void *find_maker(const struct vc_program *program, const char *value)
{
    for (size_t i = 0; i < program->n_nodes; i++) {
        for (size_t k = 0; k < program->nodes[i].n_outputs; k++) {
            if (strcmp(program->nodes[i].outputs[k], value) == 0) {
                return &program->nodes[i];
            }
        }
    }
    return NULL;
}

static const void *find_constant(const struct vc_program *program, const char *name)
{
    for (size_t k = 0; k < program->n_constants; k++) {
        if (strcmp(program->constants[k].name, name) == 0) {
            return &program->constants[k];
        }
    }
    return NULL;
}

/* The node that makes the value; NULL: none does. The list is a copy of own(). */
static struct vc_program_node *maker_of(const struct editing *e, const char *value)
{
    return (struct vc_program_node *)(uintptr_t)find(e->program, value, find_maker);
}

/* ---- attributes ---- */

static enum vc_status edit_attribute(struct editing *e, struct vc_program_node *node, const struct vc_graph_edit *edit)
{
    struct vc_program_attr *attrs;
    size_t k = 0;

    VC_CALL(copy(e->ctx, e->arena, node->attrs, node->n_attrs, 0, sizeof *attrs, &attrs));
    while (k < node->n_attrs && strcmp(attrs[k].name, edit->attribute) != 0) {
        k++;
    }
    VC_REFUSE_IF(
        k == node->n_attrs || (attrs[k].kind != VC_PROGRAM_INTS && (attrs[k].kind != VC_PROGRAM_INT || edit->n != 1)),
        e->ctx, VC_E_INTERNAL, "the node that makes '%s' has no such attribute '%s'", edit->value, edit->attribute);
    attrs[k].i = edit->n != 0 ? edit->numbers[0] : 0;
    attrs[k].ints = edit->numbers;
    attrs[k].n = attrs[k].kind == VC_PROGRAM_INTS ? edit->n : attrs[k].n;
    node->attrs = attrs;
    return VC_OK;
}

/* ---- inputs ---- */

/* What the input is until now is a single number without dimensions. */
static bool is_scalar(const struct editing *e, const char *name)
{
    const struct vc_program_node *node = maker_of(e, name);
    const struct vc_program_constant *constant = find(e->program, name, find_constant);

    if (constant != NULL) {
        return constant->tensor != NULL && constant->tensor->n_dims == 0;
    }
    for (size_t k = 0; node != NULL && strcmp(node->op, "Constant") == 0 && k < node->n_attrs; k++) {
        const struct vc_program_attr *attr = &node->attrs[k];

        if (attr->kind == VC_PROGRAM_INT || (attr->kind == VC_PROGRAM_TENSOR && attr->tensor->n_dims == 0)) {
            return true;
        }
    }
    return false;
}

/* The input becomes a constant of its own. */
static enum vc_status edit_input(struct editing *e, struct vc_program_node *node, const struct vc_graph_edit *edit)
{
    struct vc_program_tensor *tensor = vc_arena_alloc(e->ctx, e->arena, sizeof *tensor);
    uint64_t *shape = vc_arena_alloc(e->ctx, e->arena, sizeof *shape);
    const char **inputs;

    VC_CALL_ALLOC(tensor);
    VC_CALL_ALLOC(shape);
    VC_REFUSE_IF(edit->input >= node->n_inputs, e->ctx, VC_E_INTERNAL,
                 "the node that makes '%s' has no input number %u", edit->value, edit->input);
    VC_CALL(copy(e->ctx, e->arena, node->inputs, node->n_inputs, 0, sizeof *inputs, &inputs));
    const char *name = vc_arena_printf(e->ctx, e->arena, "%s, input %u", edit->value, edit->input);
    VC_CALL_ALLOC(name);
    *shape = edit->n;
    *tensor = (struct vc_program_tensor){.dtype = VC_DTYPE_I64,
                                         .n_dims = edit->n == 1 && is_scalar(e, inputs[edit->input]) ? 0 : 1,
                                         .shape = shape,
                                         .n_bytes = edit->n * sizeof *edit->numbers,
                                         .data = edit->numbers};
    inputs[edit->input] = name;
    node->inputs = inputs;
    for (size_t k = 0; k < e->program->n_constants; k++) { /* an earlier edit of the same number */
        if (strcmp(e->constants[k].name, name) == 0) {
            e->constants[k].tensor = tensor;
            return VC_OK;
        }
    }
    e->constants[e->program->n_constants++] = (struct vc_program_constant){name, VC_NO_TENSOR, tensor};
    return VC_OK;
}

/* ---- declared shapes ---- */

/* The shape that is declared for the value once the edits are made; false: none may be. */
static enum vc_status edit_shape(struct editing *e, const struct vc_graph_edit *edits, size_t n,
                                 struct vc_program_value *value, bool *named)
{
    *named = false;
    for (size_t i = 0; i < n; i++) {
        struct vc_program_dim *dims;

        if (edits[i].kind != VC_GRAPH_EDIT_SHAPE || strcmp(edits[i].value, value->name) != 0) {
            continue;
        }
        *named = true;
        VC_CALL(copy(e->ctx, e->arena, value->shape, value->n_dims, 0, sizeof *dims, &dims));
        for (size_t d = 0; d < edits[i].n && d < value->n_dims; d++) {
            if (edits[i].numbers[d] >= 0) {
                dims[d] = (struct vc_program_dim){.size = edits[i].numbers[d]};
            }
        }
        value->shape = dims;
    }
    return VC_OK;
}

static enum vc_status edit_declared(struct editing *e, const struct vc_graph_edit *edits, size_t n)
{
    struct vc_program_value *declared;
    struct vc_program_value *outputs;
    size_t kept = 0;
    bool named;

    VC_CALL(copy(e->ctx, e->arena, e->program->declared, e->program->n_declared, 0, sizeof *declared, &declared));
    VC_CALL(copy(e->ctx, e->arena, e->program->outputs, e->program->n_outputs, 0, sizeof *outputs, &outputs));
    for (size_t k = 0; k < e->program->n_declared; k++) {
        struct vc_program_value value = declared[k];

        VC_CALL(edit_shape(e, edits, n, &value, &named));
        declared[kept] = value;
        kept += named;
    }
    for (size_t k = 0; k < e->program->n_outputs; k++) {
        VC_CALL(edit_shape(e, edits, n, &outputs[k], &named));
        if (!named) {
            outputs[k].has_shape = false;
            outputs[k].n_dims = 0;
        }
    }
    e->program->n_declared = kept;
    e->program->declared = declared;
    e->program->outputs = outputs;
    return VC_OK;
}

enum vc_status vc_program_edit_graph(struct vc_ctx *ctx, const struct vc_graph_edit *edits, size_t n,
                                     struct vc_arena *arena, struct vc_program *program)
{
    struct editing e = {.ctx = ctx, .arena = arena, .program = program};

    if (program->kind != VC_PROGRAM_NODES) {
        return VC_OK;
    }
    for (size_t i = 0; i < n; i++) {
        VC_REFUSE_IF(edits[i].kind == VC_GRAPH_EDIT_CODES, ctx, VC_E_UNSUPPORTED,
                     "values of the graph become codes: what comes behind that needs a run of its own");
    }
    VC_CALL(own(ctx, arena, program, n));
    e.constants = (struct vc_program_constant *)(uintptr_t)program->constants;
    for (size_t i = 0; i < n; i++) {
        struct vc_program_node *node = edits[i].kind != VC_GRAPH_EDIT_SHAPE ? maker_of(&e, edits[i].value) : NULL;

        if (edits[i].kind == VC_GRAPH_EDIT_SHAPE) {
            continue;
        }
        VC_REFUSE_IF(node == NULL, ctx, VC_E_INTERNAL, "no node makes '%s', which an edit names", edits[i].value);
        if (edits[i].kind == VC_GRAPH_EDIT_INPUT) {
            VC_CALL(edit_input(&e, node, &edits[i]));
        } else {
            VC_CALL(edit_attribute(&e, node, &edits[i]));
        }
    }
    return edit_declared(&e, edits, n);
}

/* ---- weights ---- */

static enum vc_status take_shape(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                 struct vc_program_constant *constant)
{
    const struct vc_tensor *t = &model->tensors[constant->index];
    struct vc_program_tensor *tensor = vc_arena_alloc(ctx, arena, sizeof *tensor);
    void *data = NULL;

    VC_CALL_ALLOC(tensor);
    if (constant->tensor->data != NULL && t->quant == NULL && t->size_bytes <= VC_PROGRAM_MAX_INLINE) {
        VC_CALL_ALLOC(data = vc_arena_alloc(ctx, arena, (size_t)t->size_bytes + 1));
        VC_CALL(vc_source_read_any(ctx, model, constant->index, VC_FORM_VALUES, 0, data, (size_t)t->size_bytes));
    }
    *tensor = (struct vc_program_tensor){
        .dtype = t->dtype, .n_dims = t->n_dims, .shape = t->shape, .n_bytes = t->size_bytes, .data = data};
    constant->tensor = tensor;
    return VC_OK;
}

static enum vc_status take_shapes(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                  const struct vc_program *program)
{
    for (size_t k = 0; k < program->n_constants; k++) { /* copies of own() */
        struct vc_program_constant *constant = (struct vc_program_constant *)(uintptr_t)&program->constants[k];

        if (constant->index != VC_NO_TENSOR && constant->tensor != NULL) {
            VC_CALL(take_shape(ctx, model, arena, constant));
        }
    }
    for (size_t i = 0; i < program->n_nodes; i++) {
        for (size_t k = 0; k < program->nodes[i].n_attrs; k++) {
            if (program->nodes[i].attrs[k].graph != NULL) {
                VC_CALL(take_shapes(ctx, model, arena, program->nodes[i].attrs[k].graph));
            }
        }
    }
    return VC_OK;
}

enum vc_status vc_program_take_shapes(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                      struct vc_program *program)
{
    if (program->kind != VC_PROGRAM_NODES) {
        return VC_OK;
    }
    VC_CALL(own(ctx, arena, program, 0));
    return take_shapes(ctx, model, arena, program);
}
