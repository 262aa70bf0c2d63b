/* onnx_edit.c - numbers of an ONNX graph that passes change beside tensors (struct vc_graph_edit): attributes of nodes,
 * constants that nodes read, declared shapes. Here they are resolved; onnx_edited.c writes what they change.
 *
 *     attribute    5 "group" of the Conv that makes "y": 2a .. 0a "group" 18 08  ->  18 06
 *     input        1 of the Reshape that makes "flat": "shape" -> "flat.input1", a new initializer; "shape" itself
 *                  where no other node reads it: then the old initializer, or the Constant node, goes
 *     shape        of "y": [n, 64, 8, 8] -> [n, 48, 8, 8] wherever the main graph declares it
 *
 * Edits are resolved before the layout (vc_onnx_plan_edits): a walk over the nodes finds those that make the values,
 * and where inputs become constants another one finds the Constant nodes behind them. Nodes of graphs inside nodes are
 * found by the names of their values, too; what is declared there goes, as for values that no edit names. */

#include "formats/onnx/onnx_sink.h"

/* What is known of a value that edits replace, by symbol. */
struct old {
    uint64_t node; /* the Constant node that makes it */
    size_t n_replaced;
    uint32_t type; /* of its elements; 0: it is no constant */
    bool scalar;
};

/* While edits are resolved. */
struct resolving {
    struct vc_ctx *ctx;
    struct onnx_sink *self;
    struct onnx_edits *edits;
    size_t next_node; /* of source->nodes */
    bool *seen;       /* by named edit: a node makes the value */
    struct old *old;  /* by symbol */
};

/* ---- edits by value ---- */

/* By the value, then in the order of the edits. */
static int compare_named(const void *a, const void *b)
{
    const struct onnx_named_edit *x = a;
    const struct onnx_named_edit *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->symbol, y->symbol), VC_ORDER(x->edit, y->edit));
}

/* The list of edits, by the values they name. */
static enum vc_status name_edits(struct resolving *e)
{
    const struct vc_out_list *outs = e->self->outs;

    VC_CALL_ALLOC(e->edits->named = vc_alloc_array(e->ctx, VC_TAG_NAMES, outs->n_graph_edits, sizeof *e->edits->named));
    for (size_t i = 0; i < outs->n_graph_edits; i++) {
        const struct vc_graph_edit *edit = &outs->graph_edits[i];
        size_t symbol = vc_onnx_symbol_named(&e->self->source->symbols, edit->value);

        VC_REFUSE_IF(vc_onnx_symbol_find(&e->self->source->symbols, ONNX_ANY, edit->value) == ONNX_NONE &&
                         symbol == ONNX_NONE,
                     e->ctx, VC_E_INTERNAL, "the graph has no value '%s', which an edit names", edit->value);
        VC_REFUSE_IF(symbol == ONNX_NONE, e->ctx, VC_E_UNSUPPORTED,
                     "graphs inside nodes have several values '%s', one of which would have to change", edit->value);
        e->edits->named[e->edits->n_named++] = (struct onnx_named_edit){symbol, edit};
    }
    qsort(e->edits->named, e->edits->n_named, sizeof *e->edits->named, compare_named);
    return VC_OK;
}

/* ---- nodes ---- */

/* A number of a node; not a declared shape, and not nodes behind it (onnx_codes.c). */
static bool changes_node(const struct vc_graph_edit *edit)
{
    return edit->kind == VC_GRAPH_EDIT_ATTRIBUTE || edit->kind == VC_GRAPH_EDIT_INPUT;
}

/* Both change the same number of one node. */
static bool is_same(const struct vc_graph_edit *a, const struct vc_graph_edit *b)
{
    return a->kind == b->kind &&
           (a->kind == VC_GRAPH_EDIT_INPUT ? a->input == b->input : strcmp(a->attribute, b->attribute) == 0);
}

/* Adds a change of the node, whose own begin at `first`; of two edits of one number the later one holds. */
static enum vc_status add_change(struct resolving *e, size_t first, struct onnx_change change)
{
    struct onnx_edits *edits = e->edits;

    for (size_t i = first; change.edit != NULL && i < edits->n_changes; i++) {
        if (is_same(edits->changes[i].edit, change.edit)) {
            edits->changes[i] = edits->changes[i].edit < change.edit ? change : edits->changes[i];
            return VC_OK;
        }
    }
    VC_CALL(VC_GROW(e->ctx, VC_TAG_NAMES, edits->changes, edits->changes_capacity, edits->n_changes + 1));
    edits->changes[edits->n_changes++] = change;
    return VC_OK;
}

/* What a change needs of its node: the input that is replaced, *change->old, or an attribute of such numbers. */
static enum vc_status check_change(struct resolving *e, const struct onnx_walk *w, const struct vc_program_node *node,
                                   struct onnx_change *change)
{
    const struct vc_graph_edit *edit = change->edit;

    if (edit->kind == VC_GRAPH_EDIT_INPUT) {
        VC_REFUSE_IF(edit->input >= node->n_inputs, e->ctx, VC_E_INTERNAL,
                     "the node that makes '%s' has %zu inputs, none of number %u", edit->value, node->n_inputs,
                     edit->input);
        const char *name = node->inputs[edit->input];
        change->old = *name == '\0' ? ONNX_NONE : vc_onnx_symbol_in(&e->self->source->symbols, w->graph, name);
        return VC_OK;
    }
    const struct vc_program_attr *attr = vc_onnx_find_attr(node, edit->attribute);
    VC_REFUSE_IF(attr == NULL, e->ctx, VC_E_INTERNAL, "the node that makes '%s' has no attribute '%s'", edit->value,
                 edit->attribute);
    VC_REFUSE_IF(attr->kind != VC_PROGRAM_INTS && (attr->kind != VC_PROGRAM_INT || edit->n != 1), e->ctx, VC_E_INTERNAL,
                 "attribute '%s' of the node that makes '%s' is no %s", edit->attribute, edit->value,
                 edit->n == 1 ? "integer" : "list of integers");
    return VC_OK;
}

/* The value that the field, an output of a node, names. */
static enum vc_status symbol_of(struct onnx_walk *w, const struct vc_field *field, size_t *symbol)
{
    VC_CALL(vc_onnx_string_read(&w->r, field, "the input or output of a node"));
    *symbol = field->data.n == 0 ? ONNX_NONE : vc_onnx_symbol_in(&w->self->source->symbols, w->graph, w->r.name);
    return VC_OK;
}

/* The edits of what a node makes. */
static enum vc_status take_node(struct resolving *e, struct onnx_walk *w, const struct vc_field *node)
{
    struct onnx_edits *edits = e->edits;
    size_t first = edits->n_changes;
    struct vc_program_node says;
    size_t symbol, at, n, i;

    VC_EACH_FIELD(f, &w->r.wire, node->data) {
        if (f.number != ONNX_NODE_OUTPUT) {
            continue;
        }
        VC_CALL(symbol_of(w, &f, &symbol));
        at = symbol == ONNX_NONE ? 0 : vc_onnx_edits_find(edits, symbol, &n);
        for (i = at; symbol != ONNX_NONE && i < at + n; i++) {
            e->seen[i] = true;
            if (changes_node(edits->named[i].edit)) {
                VC_CALL(add_change(
                    e, first, (struct onnx_change){node->all.at, symbol, edits->named[i].edit, ONNX_NONE, ONNX_NONE}));
            }
        }
    }
    if (edits->n_changes != first) {
        VC_CALL(vc_onnx_program_node(&w->p, node, &says));
    }
    for (i = first; i < edits->n_changes; i++) {
        VC_CALL(check_change(e, w, &says, &edits->changes[i]));
    }
    return VC_OK;
}

/* A node of the source that the new graph has no more: it stood between an initializer and its name. */
static bool is_dropped(struct resolving *e, const struct vc_field *node)
{
    const struct onnx *source = e->self->source;

    while (e->next_node < source->n_nodes && source->nodes[e->next_node].field.at < node->all.at) {
        e->next_node++;
    }
    return e->next_node < source->n_nodes && source->nodes[e->next_node].field.at == node->all.at &&
           e->self->drop[e->next_node];
}

static enum vc_status take_kept(struct onnx_walk *w, const struct vc_field *node)
{
    return is_dropped(w->user, node) ? VC_OK : take_node(w->user, w, node);
}

/* All nodes, and whether each edit of a node has found one. */
static enum vc_status find_nodes(struct resolving *e)
{
    VC_CALL_ALLOC(e->seen = vc_calloc_array(e->ctx, VC_TAG_NAMES, e->edits->n_named, sizeof *e->seen));
    VC_CALL(vc_onnx_each_node(e->ctx, e->self, take_kept, e));
    for (size_t i = 0; i < e->edits->n_named; i++) {
        VC_REFUSE_IF(!e->seen[i] && changes_node(e->edits->named[i].edit), e->ctx, VC_E_INTERNAL,
                     "no node makes '%s', which an edit names", e->edits->named[i].edit->value);
    }
    return VC_OK;
}

/* ---- what new constants stand for ---- */

/* Type and shape of a Constant node's value: a tensor, a number or a list. */
static void look_at_constant(const struct vc_program_node *node, struct old *old)
{
    for (size_t k = 0; k < node->n_attrs; k++) {
        const struct vc_program_attr *a = &node->attrs[k];

        if (a->kind == VC_PROGRAM_TENSOR) {
            old->type = vc_onnx_type_of(a->tensor->dtype);
            old->scalar = a->tensor->n_dims == 0;
        } else if (a->kind == VC_PROGRAM_INT || a->kind == VC_PROGRAM_INTS) {
            old->type = ONNX_INT64;
            old->scalar = a->kind == VC_PROGRAM_INT;
        }
    }
}

/* A node: if it is a Constant whose value edits replace, that is remembered. */
static enum vc_status take_constant(struct onnx_walk *w, const struct vc_field *node)
{
    struct resolving *e = w->user;
    size_t symbol = ONNX_NONE;
    struct vc_program_node says;

    VC_EACH_FIELD(f, &w->r.wire, node->data) {
        if (f.number == ONNX_NODE_OUTPUT && symbol == ONNX_NONE) {
            VC_CALL(symbol_of(w, &f, &symbol));
        }
    }
    if (symbol == ONNX_NONE || e->old[symbol].n_replaced == 0) {
        return VC_OK;
    }
    VC_CALL(vc_onnx_program_node(&w->p, node, &says));
    if (strcmp(says.op, "Constant") == 0) {
        e->old[symbol].node = node->all.at;
        look_at_constant(&says, &e->old[symbol]);
    }
    return VC_OK;
}

/* Fills `old` for the inputs that become constants. */
static enum vc_status find_constants(struct resolving *e)
{
    const struct onnx *source = e->self->source;
    bool nodes = false;

    VC_CALL_ALLOC(e->old = vc_calloc_array(e->ctx, VC_TAG_NAMES, source->symbols.n, sizeof *e->old));
    for (size_t i = 0; i < e->edits->n_changes; i++) {
        size_t symbol = e->edits->changes[i].old;
        size_t tensor = symbol == ONNX_NONE ? ONNX_NONE : source->symbols.list[symbol].tensor;

        if (symbol == ONNX_NONE) {
            continue;
        }
        e->old[symbol].n_replaced++;
        if (tensor == ONNX_NONE) {
            nodes = true;
        } else {
            e->old[symbol].type = source->tensors[tensor].type;
            e->old[symbol].scalar = source->tensors[tensor].n_dims == 0;
        }
    }
    return nodes ? vc_onnx_each_node(e->ctx, e->self, take_constant, e) : VC_OK;
}

/* ---- new constants ---- */

/* All that read the old value read a new one. What programs may give as an input stays. */
static bool is_replaced(const struct resolving *e, size_t symbol)
{
    const struct onnx *source = e->self->source;

    if (symbol == ONNX_NONE) {
        return false;
    }
    const struct onnx_symbol *s = &source->symbols.list[symbol];
    return s->graph == ONNX_MAIN && e->old[symbol].type != 0 && e->old[symbol].n_replaced == s->n_uses && !s->pinned &&
           (!s->graph_input || source->ir_version < 4);
}

/* The old value goes, and its name is the constant's. */
static enum vc_status replace(struct resolving *e, size_t symbol)
{
    struct onnx_sink *self = e->self;

    self->gone[symbol] |= ONNX_INPUT_GONE | ONNX_REPLACED;
    if (self->source->symbols.list[symbol].tensor == ONNX_NONE) {
        VC_CALL(add_change(e, e->edits->n_changes,
                           (struct onnx_change){e->old[symbol].node, symbol, NULL, ONNX_NONE, ONNX_NONE}));
    }
    return VC_OK;
}

/* The constant that the change's node will read: one for all nodes that read the same numbers in place of one value. */
static enum vc_status make_constant(struct resolving *e, size_t change)
{
    struct onnx_edits *edits = e->edits;
    const struct vc_graph_edit *edit = edits->changes[change].edit;
    size_t symbol = edits->changes[change].old;
    const struct old *old = symbol == ONNX_NONE ? NULL : &e->old[symbol];
    struct onnx_constant *constant = &edits->constants[edits->n_constants];
    char suffix[32];

    for (size_t i = 0; old != NULL && i < edits->n_constants; i++) {
        if (edits->constants[i].old == symbol && edits->constants[i].n == edit->n &&
            memcmp(edits->constants[i].numbers, edit->numbers, edit->n * sizeof *edit->numbers) == 0) {
            edits->changes[change].constant = i;
            return VC_OK;
        }
    }
    *constant = (struct onnx_constant){.old = symbol, .type = ONNX_INT64, .n = edit->n, .numbers = edit->numbers};
    if (old != NULL && old->type != 0) {
        constant->type = old->type;
        constant->scalar = old->scalar && edit->n == 1;
    }
    VC_REFUSE_IF(constant->type != ONNX_INT64 && constant->type != ONNX_INT32, e->ctx, VC_E_INTERNAL,
                 "input %u of the node that makes '%s' is no constant of integers", edit->input, edit->value);
    if (is_replaced(e, symbol) && (e->self->gone[symbol] & ONNX_REPLACED) == 0) {
        constant->name = e->self->source->symbols.list[symbol].name;
        VC_CALL(replace(e, symbol));
    } else {
        (void)snprintf(suffix, sizeof suffix, ".input%u", edit->input);
        VC_CALL(vc_onnx_choose_name(e->ctx, e->self, edit->value, suffix, &constant->name));
    }
    edits->changes[change].constant = edits->n_constants++;
    return VC_OK;
}

/* By the place of the node in the file. */
static int compare_changes(const void *a, const void *b)
{
    uint64_t x = ((const struct onnx_change *)a)->node;
    uint64_t y = ((const struct onnx_change *)b)->node;

    return x < y ? -1 : x > y;
}

/* The constants; Constant nodes that they replace become changes, too. */
static enum vc_status make_constants(struct resolving *e)
{
    struct onnx_edits *edits = e->edits;
    size_t n_nodes = edits->n_changes;

    VC_CALL_ALLOC(edits->constants = vc_alloc_array(e->ctx, VC_TAG_NAMES, n_nodes, sizeof *edits->constants));
    for (size_t i = 0; i < n_nodes; i++) {
        if (edits->changes[i].edit->kind == VC_GRAPH_EDIT_INPUT) {
            VC_CALL(make_constant(e, i));
        }
    }
    qsort(edits->changes, edits->n_changes, sizeof *edits->changes, compare_changes);
    return VC_OK;
}

/* ---- planning ---- */

/* A pass removes something: declared shapes that nobody speaks for may be wrong. */
static bool is_reshaped(const struct onnx_sink *self)
{
    const struct vc_out_list *outs = self->outs;

    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);
        const struct vc_tensor *t = &self->model->tensors[out.source];

        if (out.role == VC_PART_CODES && !out.kept &&
            (out.n_dims != t->n_dims ||
             (t->n_dims != 0 && memcmp(out.shape, t->shape, t->n_dims * sizeof *t->shape) != 0))) {
            return true;
        }
    }
    for (size_t i = 0; i < outs->n_graph_edits; i++) {
        if (outs->graph_edits[i].kind != VC_GRAPH_EDIT_CODES && outs->graph_edits[i].kind != VC_GRAPH_EDIT_FOLD) {
            return true;
        }
    }
    return outs->n_edits != 0;
}

/* Layers that go would leave nodes without weights; that is for the exporter. */
enum vc_status vc_onnx_plan_edits(struct vc_ctx *ctx, struct onnx_sink *self)
{
    struct resolving e = {.ctx = ctx, .self = self, .edits = &self->edits};
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(vc_edit_find(self->outs->edits, self->outs->n_edits, VC_EDIT_LAYERS) != NULL, ctx, VC_E_UNSUPPORTED,
                 "layers are left out, and the nodes that compute them would have to leave the graph, too: export "
                 "the model without them, or write another format, such as .safetensors");
    self->edits.reshaped = is_reshaped(self);
    if (self->outs->n_graph_edits == 0) {
        return VC_OK;
    }
    VC_TRY(vc_onnx_plan_codes(ctx, self));
    VC_TRY(name_edits(&e));
    VC_TRY(find_nodes(&e));
    if (self->edits.n_changes != 0) {
        VC_TRY(find_constants(&e));
        VC_TRY(make_constants(&e));
    }
    VC_TRY(vc_onnx_plan_raise(ctx, self));
out:
    VC_FREE_ALL(ctx, e.seen, e.old);
    return status;
}

void vc_onnx_edits_release(struct vc_ctx *ctx, struct onnx_edits *edits)
{
    VC_FREE_ALL(ctx, edits->named, edits->changes, edits->constants, edits->coded, edits->coded_of,
                edits->coded_constants, edits->folded, edits->unread, edits->raised, edits->raised_constants);
}
