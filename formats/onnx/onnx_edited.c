/* onnx_edited.c - the parts of an ONNX graph that edits change, as pieces of the new file: fields of nodes, declared
 * shapes, new constants. Called by onnx_layout.c, with what onnx_edit.c has resolved. */

#include "formats/onnx/onnx_sink.h"

/* ---- edited nodes ---- */

/* The change of an attribute of that name; NULL if there is none. */
static const struct onnx_change *find_attribute(const struct onnx_change *changes, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (changes[i].edit != NULL && changes[i].edit->kind == VC_GRAPH_EDIT_ATTRIBUTE &&
            strcmp(changes[i].edit->attribute, name) == 0) {
            return &changes[i];
        }
    }
    return NULL;
}

/* The new numbers of an attribute. */
static void put_numbers(struct onnx_layout *l, uint32_t number, const struct vc_graph_edit *edit)
{
    for (size_t i = 0; i < edit->n; i++) {
        vc_wire_put_int(&l->self->literals, number, (uint64_t)edit->numbers[i]);
    }
}

/* Its numbers are where they were, or where their field belongs by its number. */
enum vc_status vc_onnx_add_edited_attribute(struct onnx_layout *l, const struct vc_field *field,
                                            const struct onnx_change *changes, size_t n, bool *done)
{
    bool added = false;
    uint32_t number;
    size_t mark;

    *done = false;
    VC_CALL(vc_onnx_attribute_look(&l->r, field->data, &number));
    const struct onnx_change *change = find_attribute(changes, n, l->r.name);
    if (change == NULL) {
        return VC_OK;
    }
    *done = true;
    VC_CALL(vc_onnx_begin_message(l, &mark));
    VC_EACH_FIELD(f, &l->r.wire, field->data) {
        if (!added && f.number >= number) {
            put_numbers(l, number, change->edit);
            added = true;
        }
        if (f.number != number) {
            VC_CALL(vc_onnx_add_copy(l, f.all));
        }
    }
    if (!added) {
        put_numbers(l, number, change->edit);
    }
    return vc_onnx_end_message(l, mark, ONNX_NODE_ATTRIBUTE);
}

bool vc_onnx_put_edited_input(struct onnx_layout *l, const struct onnx_change *changes, size_t n, unsigned k)
{
    size_t i = 0;

    while (i < n &&
           (changes[i].edit == NULL || changes[i].edit->kind != VC_GRAPH_EDIT_INPUT || changes[i].edit->input != k)) {
        i++;
    }
    if (i < n) {
        vc_wire_put_string(&l->self->literals, ONNX_NODE_INPUT, l->self->edits.constants[changes[i].constant].name);
    }
    return i < n;
}

/* ---- declared shapes ---- */

/* What the dimensions of a value become. */
struct new_shape {
    const struct onnx_named_edit *edits; /* in their order; those of other kinds are passed over */
    size_t n;
    bool is_out; /* or: it is this tensor */
    struct vc_out_tensor out;
    bool dropped; /* it is left out: an output of a graph inside a node, about which edits say nothing */
};

/* Dimension d; -1: it stays. */
static int64_t number_at(const struct new_shape *shape, unsigned d)
{
    if (shape->is_out) {
        return d < shape->out.n_dims ? (int64_t)shape->out.shape[d] : -1;
    }
    for (size_t i = shape->n; i-- > 0;) {
        const struct vc_graph_edit *edit = shape->edits[i].edit;

        if (edit->kind == VC_GRAPH_EDIT_SHAPE && d < edit->n && edit->numbers[d] >= 0) {
            return edit->numbers[d];
        }
    }
    return -1;
}

/* A dimension: its number in place of a number or a name; what else it says is copied. */
static enum vc_status add_dimension(struct onnx_layout *l, const struct vc_field *field, int64_t number)
{
    size_t mark;

    if (number < 0) {
        return vc_onnx_add_rest(l, field, ONNX_KIND_GRAPH);
    }
    VC_CALL(vc_onnx_begin_message(l, &mark));
    vc_wire_put_int(&l->self->literals, ONNX_DIM_VALUE, (uint64_t)number);
    VC_EACH_FIELD(f, &l->r.wire, field->data) {
        if (f.number != ONNX_DIM_VALUE && f.number != ONNX_DIM_PARAM) {
            VC_CALL(vc_onnx_add_copy(l, f.all));
        }
    }
    return vc_onnx_end_message(l, mark, ONNX_SHAPE_DIM);
}

/* The edits speak of as many dimensions as the file declares. */
static enum vc_status check_rank(struct onnx_layout *l, const struct vc_field *shape, const struct new_shape *to)
{
    unsigned n_dims = 0;

    VC_EACH_FIELD(f, &l->r.wire, shape->data) {
        n_dims += f.number == ONNX_SHAPE_DIM;
    }
    for (size_t i = 0; i < to->n; i++) {
        const struct vc_graph_edit *edit = to->edits[i].edit;

        VC_REFUSE_IF(edit->kind == VC_GRAPH_EDIT_SHAPE && edit->n != 0 && edit->n != n_dims, l->ctx, VC_E_INTERNAL,
                     "'%s' is declared with %u dimensions, and an edit has %zu", edit->value, n_dims, edit->n);
    }
    return VC_OK;
}

/* The fields of ValueInfoProto, down to its dimensions: type, tensor_type, shape. What stands beside them is copied. */
static enum vc_status add_reshaped(struct onnx_layout *l, const struct vc_field *field, const struct new_shape *to,
                                   size_t depth)
{
    static const uint32_t way[] = {ONNX_INFO_TYPE, ONNX_TYPE_TENSOR, ONNX_TYPE_SHAPE, ONNX_SHAPE_DIM};
    unsigned d = 0;
    size_t mark;

    if (way[depth] == ONNX_SHAPE_DIM && depth == 3) {
        VC_CALL(check_rank(l, field, to));
    }
    VC_CALL(vc_onnx_begin_message(l, &mark));
    VC_EACH_FIELD(f, &l->r.wire, field->data) {
        if (f.number != way[depth] || f.type != VC_WIRE_BYTES) {
            VC_CALL(vc_onnx_add_copy(l, f.all));
        } else if (depth == 2 && to->dropped) {
            continue;
        } else if (depth == 3) {
            VC_CALL(add_dimension(l, &f, number_at(to, d++)));
        } else {
            VC_CALL(add_reshaped(l, &f, to, depth + 1));
        }
    }
    return vc_onnx_end_message(l, mark, field->number);
}

/* The output that is the initializer of that name; ONNX_NONE if no tensor of the model is written to it. */
static size_t out_of(const struct onnx_sink *self, size_t symbol)
{
    size_t tensor = self->source->symbols.list[symbol].tensor;
    size_t index = tensor == ONNX_NONE ? ONNX_NONE : self->source->tensors[tensor].index;

    return index == ONNX_NONE ? ONNX_NONE : self->first_out[index];
}

/* Initializers have the shape that they are written with, other values the one that edits say. A value_info that nobody
 * speaks for is left out where shapes change. */
enum vc_status vc_onnx_add_declared(struct onnx_layout *l, const struct vc_field *field, size_t symbol)
{
    const struct onnx_sink *self = l->self;
    struct new_shape to = {.n = 0};
    size_t first = 0;
    size_t n_shapes = 0;

    if (!self->edits.reshaped) {
        return vc_onnx_add_rest(l, field, ONNX_KIND_GRAPH);
    }
    if (l->graph != ONNX_MAIN) {
        return field->number == ONNX_GRAPH_VALUE_INFO ? VC_OK
                                                      : add_reshaped(l, field, &(struct new_shape){.dropped = true}, 0);
    }
    size_t out = symbol == ONNX_NONE || (self->gone[symbol] & ONNX_REPLACED) != 0 ? ONNX_NONE : out_of(self, symbol);
    to.is_out = out != ONNX_NONE;
    if (to.is_out) {
        to.out = vc_out_at(self->outs, out);
    } else if (symbol != ONNX_NONE) {
        first = vc_onnx_edits_find(&self->edits, symbol, &to.n);
        to.edits = to.n == 0 ? NULL : &self->edits.named[first];
    }
    for (size_t i = 0; i < to.n; i++) {
        n_shapes += to.edits[i].edit->kind == VC_GRAPH_EDIT_SHAPE;
    }
    if (to.is_out || n_shapes != 0) {
        return add_reshaped(l, field, &to, 0);
    }
    return field->number == ONNX_GRAPH_VALUE_INFO ? VC_OK : vc_onnx_add_rest(l, field, ONNX_KIND_GRAPH);
}

/* ---- constants ---- */

/* An old graph lists its initializers as inputs. */
static void put_constants(struct onnx_layout *l, const struct onnx_constant *constants, size_t n)
{
    struct vc_text *text = &l->self->literals;

    for (size_t i = 0; i < n; i++) {
        vc_onnx_put_constant(l->ctx, &constants[i], text);
        if (l->self->source->ir_version < 4) {
            vc_onnx_put_constant_input(l->ctx, &constants[i], text);
        }
    }
}

void vc_onnx_put_constants(struct onnx_layout *l)
{
    const struct onnx_edits *edits = &l->self->edits;

    put_constants(l, edits->constants, edits->n_constants);
    put_constants(l, edits->coded_constants, edits->n_coded_constants);
    put_constants(l, edits->raised_constants, edits->n_raised_constants);
}
