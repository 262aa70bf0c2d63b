/* onnx_layout.c - puts an ONNX file together from pieces: runs of the source file, messages made here, and the values
 * that the job gives.
 *
 *     fields of the model before the graph            copied
 *     the graph's tag and length
 *       new nodes                                     first: nodes come before those that use them
 *       fields of the graph, in order                 copied; initializers replaced where they are, what is not needed
 *                                                     any more left out
 *       new inputs                                    IR version 3 and before: initializers are inputs, too
 *     fields of the model behind the graph            copied
 *
 * A node with a graph inside that has tensors is put together in the same way: fields copied, the graph anew. */
#include <inttypes.h>
#include <string.h>

#include "core/base/checked.h"
#include "formats/onnx/onnx_sink.h"

#define MAX_MODEL_BYTES ((uint64_t)0x7fffffff) /* of readers made from protocol buffers */

static atomic_uint_fast64_t embed_limit = MAX_MODEL_BYTES;

void vc_onnx_set_embed_limit(uint64_t bytes)
{
    atomic_store(&embed_limit, bytes == 0 ? MAX_MODEL_BYTES : bytes);
}

/* While the pieces are listed. */
struct layout {
    struct vc_ctx *ctx;
    struct onnx_sink *self;
    struct onnx_reader r; /* only its wire and its room for names */
    size_t next_tensor, next_node;
    uint32_t graph; /* the one whose fields are being added */
    size_t sealed;  /* pieces before this one are not made longer */
};

/* ---- pieces ---- */

/* Appends a piece, or makes the last one longer where the bytes follow each other. */
static enum vc_status add_piece(struct layout *l, enum onnx_piece_kind kind, uint64_t from, uint64_t n)
{
    struct onnx_sink *self = l->self;
    struct onnx_piece *last = self->n_pieces > l->sealed ? &self->pieces[self->n_pieces - 1] : NULL;
    enum vc_status status;

    if (n == 0) {
        return VC_OK;
    }
    if (last != NULL && kind == last->kind && kind != ONNX_PIECE_OUT && last->from + last->n == from) {
        last->n += n;
        return VC_OK;
    }
    VC_TRY(vc_onnx_grow(l->ctx, &self->pieces, &self->pieces_capacity, self->n_pieces, sizeof *self->pieces));
    self->pieces[self->n_pieces++] = (struct onnx_piece){.kind = kind, .from = from, .n = n};
out:
    return status;
}

/* Bytes of the source file. */
static enum vc_status add_copy(struct layout *l, struct vc_span span)
{
    return add_piece(l, ONNX_PIECE_COPY, span.at, span.n);
}

/* What was added to the literals since they had `from` bytes. */
static enum vc_status add_literal(struct layout *l, size_t from)
{
    const struct vc_text *text = &l->self->literals;

    return text->status != VC_OK ? text->status : add_piece(l, ONNX_PIECE_LITERAL, from, text->n - from);
}

/* Room for the tag and the length of what is added from here on; *mark is for end_message. */
static enum vc_status begin_message(struct layout *l, size_t *mark)
{
    enum vc_status status;

    l->sealed = l->self->n_pieces;
    VC_TRY(add_piece(l, ONNX_PIECE_LITERAL, 0, 1));
    *mark = l->self->n_pieces;
    l->sealed = *mark;
out:
    return status;
}

/* Tag and length of the message whose pieces are those from `mark` on. */
static enum vc_status end_message(struct layout *l, size_t mark, uint32_t number)
{
    struct onnx_sink *self = l->self;
    uint64_t n = 0;
    size_t from = self->literals.n;
    size_t i;

    for (i = mark; i < self->n_pieces; i++) {
        if (!vc_add_u64(n, self->pieces[i].n, &n) || n > INT64_MAX / 2) {
            return vc_fail(l->ctx, VC_E_UNSUPPORTED, "the output would be larger than 2^62 bytes");
        }
    }
    vc_wire_put_tag(&self->literals, number, VC_WIRE_BYTES);
    vc_wire_put_varint(&self->literals, n);
    self->pieces[mark - 1].from = from;
    self->pieces[mark - 1].n = self->literals.n - from;
    l->sealed = self->n_pieces;
    return self->literals.status;
}

/* ---- initializers ---- */

/* A field of TensorProto that holds values or says where they are. */
static bool is_value_field(uint32_t number)
{
    switch (number) {
    case ONNX_TENSOR_FLOATS:
    case ONNX_TENSOR_INT32S:
    case ONNX_TENSOR_INT64S:
    case ONNX_TENSOR_RAW:
    case ONNX_TENSOR_DOUBLES:
    case ONNX_TENSOR_UINT64S:
    case ONNX_TENSOR_EXTERNAL:
    case ONNX_TENSOR_LOCATION:
        return true;
    default:
        return false;
    }
}

/* A field of TensorProto that onnx_messages.c makes anew for changed tensors. */
static bool is_header_field(uint32_t number)
{
    return number == ONNX_TENSOR_DIMS || number == ONNX_TENSOR_TYPE || number == ONNX_TENSOR_NAME;
}

/* Fields of the source's TensorProto that stay: notes and what is not known here; the header where it holds. With
 * `add`, as pieces; *n_bytes counts them. */
static enum vc_status carry_fields(struct layout *l, struct vc_span message, bool header, bool add, uint64_t *n_bytes)
{
    struct vc_field f;
    enum vc_status status = VC_OK;

    *n_bytes = 0;
    while (message.n != 0) {
        VC_TRY(vc_wire_field(&l->r.wire, &message, &f));
        if (is_value_field(f.number) || (is_header_field(f.number) && !header)) {
            continue;
        }
        *n_bytes += f.all.n;
        if (add) {
            VC_TRY(add_copy(l, f.all));
        }
    }
out:
    return status;
}

/* Moves the values of an output to the data file. */
static enum vc_status place_external(struct layout *l, size_t out, uint64_t skip, uint64_t n)
{
    struct onnx_sink *self = l->self;
    struct onnx_out *o = &self->out[out];

    o->external = true;
    o->skip = skip;
    o->n = n;
    if (!vc_round_up_u64(self->data_bytes, ONNX_EXTERNAL_ALIGN, &o->at) || !vc_add_u64(o->at, n, &self->data_bytes) ||
        self->data_bytes > INT64_MAX) {
        return vc_fail(l->ctx, VC_E_UNSUPPORTED, "%s: the output would be larger than 2^63 bytes",
                       self->outs->tensors[out].name);
    }
    return VC_OK;
}

/* A TensorProto of ours: `header` bytes in front, fields of the source, then the values or where they are. */
static enum vc_status add_tensor(struct layout *l, size_t out, struct vc_span source, bool own_header, uint64_t n)
{
    struct onnx_sink *self = l->self;
    const struct onnx_out *o = &self->out[out];
    struct vc_text *text = &self->literals;
    struct vc_text head;
    struct vc_text tail;
    uint64_t carried;
    size_t from = text->n;
    enum vc_status status;

    vc_text_init(&head, l->ctx);
    vc_text_init(&tail, l->ctx);
    if (own_header) {
        vc_onnx_put_header(self, out, &head);
    }
    if (o->external) {
        vc_onnx_put_place(l->ctx, self->location, o->at, n, &tail);
    } else {
        vc_wire_put_tag(&tail, ONNX_TENSOR_RAW, VC_WIRE_BYTES);
        vc_wire_put_varint(&tail, n);
    }
    VC_TRY(head.status);
    VC_TRY(tail.status);
    VC_TRY(carry_fields(l, source, !own_header, false, &carried));
    vc_wire_put_tag(text, ONNX_GRAPH_INITIALIZER, VC_WIRE_BYTES);
    vc_wire_put_varint(text, head.n + carried + tail.n + (o->external ? 0 : n));
    vc_text_add_bytes(text, head.n == 0 ? "" : head.data, head.n);
    VC_TRY(add_literal(l, from));
    VC_TRY(carry_fields(l, source, !own_header, true, &carried));
    from = text->n;
    vc_text_add_bytes(text, tail.data, tail.n);
    VC_TRY(add_literal(l, from));
    if (!o->external) {
        VC_TRY(add_piece(l, ONNX_PIECE_OUT, out, n));
    }
out:
    vc_text_release(&head);
    vc_text_release(&tail);
    return status;
}

/* A new output: the changed tensor, or one of its scales. */
static enum vc_status add_new(struct layout *l, size_t out, struct vc_span source)
{
    struct onnx_sink *self = l->self;
    uint64_t n = self->outs->tensors[out].size_bytes;
    enum vc_status status = VC_OK;

    self->out[out].n = n;
    if (self->moves != ONNX_MOVES_NOTHING && n >= ONNX_EXTERNAL_MIN) {
        VC_TRY(place_external(l, out, 0, n));
    }
    VC_TRY(add_tensor(l, out, source, true, n));
out:
    return status;
}

/* A kept one: as it is, but for the place of values in another file. Where its message does not come along with the
 * values, because another output wants them without, or has a node around it, it is copied from the source. */
static enum vc_status add_kept(struct layout *l, size_t out, const struct onnx_tensor *tensor)
{
    struct onnx_sink *self = l->self;
    bool raw = self->outs->tensors[out].form == VC_FORM_RAW;
    bool was_external = tensor->place == ONNX_PLACE_EXTERNAL;
    bool moves = self->moves == ONNX_MOVES_ALL && !tensor->constant && tensor->place == ONNX_PLACE_SPAN &&
                 tensor->n_bytes >= ONNX_EXTERNAL_MIN;
    struct vc_text *text = &self->literals;
    size_t from = text->n;
    enum vc_status status;

    if (was_external) {
        self->out[out].n = tensor->n_bytes;
        if (tensor->n_bytes != 0) {
            VC_TRY(place_external(l, out, 0, tensor->n_bytes));
        }
        return add_tensor(l, out, tensor->message, false, tensor->n_bytes);
    }
    if (moves) {
        VC_TRY(place_external(l, out, raw ? tensor->values.at - tensor->message.at : 0, tensor->n_bytes));
        return add_tensor(l, out, tensor->message, false, tensor->n_bytes);
    }
    if (!raw || tensor->constant) {
        self->out[out].n = 0;
        return add_copy(l, tensor->field);
    }
    self->out[out].n = tensor->message.n;
    vc_wire_put_tag(text, ONNX_GRAPH_INITIALIZER, VC_WIRE_BYTES);
    vc_wire_put_varint(text, tensor->message.n);
    VC_TRY(add_literal(l, from));
    VC_TRY(add_piece(l, ONNX_PIECE_OUT, out, tensor->message.n));
out:
    return status;
}

/* The next tensor, which the field holds, as an initializer or in a Constant node. */
static enum vc_status add_next_tensor(struct layout *l, const struct vc_field *field)
{
    struct onnx_sink *self = l->self;
    const struct onnx_tensor *tensor = &self->source->tensors[l->next_tensor++];
    size_t out = tensor->index == ONNX_NONE ? ONNX_NONE : self->first_out[tensor->index];
    enum vc_status status;

    if (tensor->index == ONNX_NONE) {
        return add_copy(l, field->all);
    }
    if (out == ONNX_NONE) {
        return VC_OK;
    }
    if (!vc_onnx_is_changed(self, out)) {
        return add_kept(l, out, tensor);
    }
    VC_TRY(add_new(l, out, tensor->message));
    for (out++; out < self->outs->n && self->outs->tensors[out].role != VC_PART_CODES; out++) {
        VC_TRY(add_new(l, out, (struct vc_span){0, 0}));
    }
out:
    return status;
}

/* ---- the other fields of the graph ---- */

/* Shapes of values inside the graph are calculated by those who made the file, and would be wrong where a pass changed
 * a size of the model. */
static enum vc_status refuse_old_shapes(const struct layout *l)
{
    const struct vc_edit *edit = l->self->outs->edits;

    return l->self->outs->n_edits == 0
               ? VC_OK
               : vc_fail(l->ctx, VC_E_UNSUPPORTED,
                         "the graph states shapes of its values (value_info), and the %s changes; remove them first",
                         vc_edit_name(edit->key));
}

/* Inputs and value infos of names that there are not any more go. */
static enum vc_status add_info(struct layout *l, const struct vc_field *field)
{
    unsigned char gone = field->number == ONNX_GRAPH_INPUT ? ONNX_NAME_GONE | ONNX_INPUT_GONE : ONNX_NAME_GONE;
    struct vc_span rest = field->data;
    bool stays = true;
    struct vc_field f;
    enum vc_status status = VC_OK;

    VC_TRY(field->number == ONNX_GRAPH_VALUE_INFO ? refuse_old_shapes(l) : VC_OK);
    while (field->type == VC_WIRE_BYTES && rest.n != 0) {
        VC_TRY(vc_wire_field(&l->r.wire, &rest, &f));
        if (f.number == ONNX_INFO_NAME) {
            size_t symbol;

            VC_TRY(vc_onnx_string_read(&l->r, &f, "the name of an input or value"));
            symbol = vc_onnx_symbol_find(&l->self->source->symbols, l->graph, l->r.name);
            stays = symbol == ONNX_NONE || (l->self->gone[symbol] & gone) == 0;
        }
    }
    if (stays) {
        VC_TRY(add_copy(l, field->all));
    }
out:
    return status;
}

/* The graph inside a node that has tensors in it, by the place of its message; NULL: there is none. */
static const struct onnx_graph *graph_at(const struct onnx *source, uint64_t at)
{
    size_t low = 0;
    size_t high = source->n_graphs;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (source->graphs[middle].at < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < source->n_graphs && source->graphs[low].at >= at ? &source->graphs[low] : NULL;
}

/* The span has such a graph in it. */
static bool has_graphs(const struct layout *l, struct vc_span span)
{
    const struct onnx_graph *graph = graph_at(l->self->source, span.at);

    return graph != NULL && graph->at < span.at + span.n;
}

static enum vc_status add_graph(struct layout *l, struct vc_span message, uint32_t number);

/* The attribute of a node: its graphs are put together anew, everything else is copied. */
static enum vc_status add_attribute(struct layout *l, const struct vc_field *field)
{
    struct vc_span rest = field->data;
    struct vc_field f;
    size_t mark;
    enum vc_status status;

    VC_TRY(begin_message(l, &mark));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&l->r.wire, &rest, &f));
        if ((f.number == ONNX_ATTRIBUTE_G || f.number == ONNX_ATTRIBUTE_GRAPHS) && has_graphs(l, f.data)) {
            const struct onnx_graph *graph = graph_at(l->self->source, f.data.at);
            uint32_t around = l->graph;
            size_t inner;

            VC_TRY(begin_message(l, &inner));
            VC_TRY(add_graph(l, f.data, graph->number));
            VC_TRY(end_message(l, inner, f.number));
            l->graph = around;
        } else {
            VC_TRY(add_copy(l, f.all));
        }
    }
    VC_TRY(end_message(l, mark, ONNX_NODE_ATTRIBUTE));
out:
    return status;
}

/* A node with graphs inside that have tensors. */
static enum vc_status add_outer_node(struct layout *l, const struct vc_field *field)
{
    struct vc_span rest = field->data;
    struct vc_field f;
    size_t mark;
    enum vc_status status;

    VC_TRY(begin_message(l, &mark));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&l->r.wire, &rest, &f));
        VC_TRY(f.number == ONNX_NODE_ATTRIBUTE && has_graphs(l, f.all) ? add_attribute(l, &f) : add_copy(l, f.all));
    }
    VC_TRY(end_message(l, mark, ONNX_GRAPH_NODE));
out:
    return status;
}

/* A node that is copied with all that is in it: nodes that were kept of graphs inside it are not looked for any more.
 */
static enum vc_status copy_node(struct layout *l, const struct vc_field *field)
{
    const struct onnx *source = l->self->source;

    while (l->next_node < source->n_nodes && source->nodes[l->next_node].field.at < field->all.at + field->all.n) {
        l->next_node++;
    }
    return add_copy(l, field->all);
}

/* A node of the source: it may be a Constant that is a tensor, one that goes, one with graphs, or one that is copied.
 */
static enum vc_status add_node(struct layout *l, const struct vc_field *field)
{
    const struct onnx *source = l->self->source;
    size_t node = l->next_node;

    if (l->next_tensor < source->n_tensors && source->tensors[l->next_tensor].field.at == field->all.at) {
        return add_next_tensor(l, field);
    }
    if (node < source->n_nodes && source->nodes[node].field.at == field->all.at) {
        l->next_node++;
        if (l->self->drop[node]) {
            return VC_OK;
        }
    }
    return has_graphs(l, field->all) ? add_outer_node(l, field) : copy_node(l, field);
}

/* A field of a graph of the source. */
static enum vc_status add_field(struct layout *l, const struct vc_field *field)
{
    switch (field->number) {
    case ONNX_GRAPH_INITIALIZER: /* one that is no tensor is in a graph inside a node of an old file */
        return add_next_tensor(l, field);
    case ONNX_GRAPH_NODE:
        return add_node(l, field);
    case ONNX_GRAPH_INPUT:
    case ONNX_GRAPH_VALUE_INFO:
        return add_info(l, field);
    default:
        return add_copy(l, field->all);
    }
}

/* The nodes that make floats of changed tensors of this graph. */
static enum vc_status add_new_nodes(struct layout *l)
{
    struct onnx_sink *self = l->self;
    size_t from = self->literals.n;
    size_t i;

    for (i = 0; i < self->outs->n; i++) {
        if (self->outs->tensors[i].role == VC_PART_CODES && vc_onnx_is_changed(self, i) &&
            self->source->tensors[vc_onnx_link_of(self, i)->tensor].graph == l->graph) {
            vc_onnx_put_nodes(l->ctx, self, i, &self->literals);
        }
    }
    return add_literal(l, from);
}

/* An initializer under its old name keeps the input it has. Old files have tensors in the main graph only. */
static enum vc_status add_new_inputs(struct layout *l)
{
    struct onnx_sink *self = l->self;
    const struct onnx *source = self->source;
    size_t from = self->literals.n;
    size_t i;

    for (i = 0; source->ir_version < 4 && i < self->outs->n; i++) {
        size_t symbol =
            vc_onnx_symbol_find(&source->symbols, ONNX_MAIN, self->out[i].name == NULL ? "" : self->out[i].name);

        if (vc_onnx_is_changed(self, i) &&
            (symbol == ONNX_NONE || self->gone[symbol] != 0 || !source->symbols.list[symbol].graph_input)) {
            vc_onnx_put_input(l->ctx, self, i, &self->literals);
        }
    }
    return add_literal(l, from);
}

/* All fields of a new graph. */
static enum vc_status add_graph(struct layout *l, struct vc_span message, uint32_t number)
{
    struct vc_field field;
    enum vc_status status;

    l->graph = number;
    VC_TRY(add_new_nodes(l));
    while (message.n != 0) {
        VC_TRY(vc_wire_field(&l->r.wire, &message, &field));
        VC_TRY(add_field(l, &field));
    }
    VC_TRY(number == ONNX_MAIN ? add_new_inputs(l) : VC_OK);
out:
    return status;
}

/* ---- the whole ---- */

/* Each piece behind the one before it; outputs learn where their bytes go. */
static void place_pieces(struct onnx_sink *self)
{
    size_t i;

    self->model_bytes = 0;
    for (i = 0; i < self->n_pieces; i++) {
        struct onnx_piece *piece = &self->pieces[i];

        piece->at = self->model_bytes;
        if (piece->kind == ONNX_PIECE_OUT) {
            self->out[piece->from].at = piece->at;
        }
        self->model_bytes += piece->n; /* far below 2^64: end_message has added most of it up */
    }
}

/* The whole file. The length of a graph is known only when all of its pieces are, so the piece before them is filled
 * last. */
static enum vc_status add_model(struct layout *l)
{
    struct onnx_sink *self = l->self;
    const struct vc_span graph = self->source->graph_field;
    uint64_t behind = graph.at + graph.n;
    size_t mark;
    enum vc_status status;

    VC_TRY(add_copy(l, (struct vc_span){0, graph.at}));
    VC_TRY(begin_message(l, &mark));
    VC_TRY(add_graph(l, self->source->graph, ONNX_MAIN));
    VC_TRY(end_message(l, mark, ONNX_MODEL_GRAPH));
    VC_TRY(add_copy(l, (struct vc_span){behind, self->source->file->size_bytes - behind}));
    place_pieces(self);
out:
    return status;
}

/* Lays the file out with the present choice of what moves to external data. */
static enum vc_status lay_out_once(struct layout *l)
{
    struct onnx_sink *self = l->self;
    size_t i;

    self->n_pieces = 0;
    self->literals.n = 0;
    self->data_bytes = 0;
    l->next_tensor = 0;
    l->next_node = 0;
    l->sealed = 0;
    for (i = 0; i < self->outs->n; i++) {
        self->out[i].external = false;
        self->out[i].skip = 0;
    }
    return add_model(l);
}

/* First with everything inside; a file that readers could not take is laid out again with its weights in a second one.
 */
enum vc_status vc_onnx_lay_out(struct vc_ctx *ctx, struct onnx_sink *self)
{
    struct layout l = {.ctx = ctx, .self = self, .r = {.ctx = ctx}};
    uint64_t limit = atomic_load(&embed_limit);
    enum vc_status status;

    l.r.name = vc_alloc(ctx, VC_TAG_NAMES, ONNX_MAX_NAME + 1);
    VC_TRY_ALLOC(l.r.name);
    VC_TRY(vc_wire_open(ctx, self->source->file, &l.r.wire));
    self->moves = self->source->n_externals != 0 ? ONNX_MOVES_NEW : ONNX_MOVES_NOTHING;
    VC_TRY(lay_out_once(&l));
    if (self->model_bytes > limit) {
        self->moves = ONNX_MOVES_ALL;
        VC_TRY(lay_out_once(&l));
    }
    if (self->model_bytes > limit) {
        status = vc_fail(ctx, VC_E_UNSUPPORTED,
                         "the model file would have %" PRIu64 " bytes without its weights; readers allow %" PRIu64,
                         self->model_bytes, limit);
    }
out:
    vc_wire_close(&l.r.wire);
    vc_free(ctx, l.r.name);
    return status;
}
