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

#include "formats/onnx/onnx_sink.h"

#define MAX_MODEL_BYTES ((uint64_t)0x7fffffff) /* of readers made from protocol buffers */

static atomic_uint_fast64_t embed_limit = MAX_MODEL_BYTES;

/* For tests: a model with more bytes of weights than this gets them in a file beside it. 0: the limit of protobuf
 * again. */
void vc_onnx_set_embed_limit(uint64_t bytes)
{
    atomic_store(&embed_limit, bytes == 0 ? MAX_MODEL_BYTES : bytes);
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

/* Fields of the source's TensorProto that stay: notes and what is not known here; the header where it holds. */
static enum vc_status carry_fields(struct onnx_layout *l, struct vc_span message, bool header)
{
    VC_EACH_FIELD(f, &l->r.wire, message) {
        if (!is_value_field(f.number) && (!is_header_field(f.number) || header) &&
            !(l->self->strip && (f.number == ONNX_TENSOR_DOC || f.number == ONNX_TENSOR_METADATA))) {
            VC_CALL(vc_onnx_add_copy(l, f.all));
        }
    }
    return VC_OK;
}

/* Moves the values of an output to the data file. */
static enum vc_status place_external(struct onnx_layout *l, size_t out, uint64_t skip, uint64_t n)
{
    struct onnx_sink *self = l->self;
    struct onnx_out *o = &self->out[out];

    o->external = true;
    o->skip = skip;
    o->n = n;
    VC_REFUSE_IF(!vc_round_up_u64(self->data_bytes, ONNX_EXTERNAL_ALIGN, &o->at) ||
                     !vc_add_u64(o->at, n, &self->data_bytes) || self->data_bytes > INT64_MAX,
                 l->ctx, VC_E_UNSUPPORTED, "%s: the output would be larger than 2^63 bytes",
                 vc_out_at(self->outs, out).name);
    return VC_OK;
}

/* A TensorProto of ours: a header in front, fields of the source, then n bytes of values or where they are. */
static enum vc_status add_tensor(struct onnx_layout *l, size_t out, struct vc_span source, bool own_header, uint64_t n)
{
    struct onnx_sink *self = l->self;
    const struct onnx_out *o = &self->out[out];
    size_t mark;

    VC_CALL(vc_onnx_begin_message(l, &mark));
    if (own_header) {
        vc_onnx_put_header(self, out, &self->literals);
    }
    VC_CALL(carry_fields(l, source, !own_header));
    if (o->external) {
        vc_onnx_put_place(l->ctx, self->location, o->at, n, &self->literals);
    } else {
        vc_wire_put_tag(&self->literals, ONNX_TENSOR_RAW, VC_WIRE_BYTES);
        vc_wire_put_varint(&self->literals, n);
        VC_CALL(vc_onnx_add_piece(l, ONNX_PIECE_OUT, out, n));
    }
    return vc_onnx_end_message(l, mark, ONNX_GRAPH_INITIALIZER);
}

/* A new output: the changed tensor, or one of its scales. */
static enum vc_status add_new(struct onnx_layout *l, size_t out, struct vc_span source)
{
    struct onnx_sink *self = l->self;
    uint64_t n = vc_onnx_out_bytes(self, out);

    self->out[out].n = n;
    if (self->moves != ONNX_MOVES_NOTHING && n >= ONNX_EXTERNAL_MIN) {
        VC_CALL(place_external(l, out, 0, n));
    }
    return add_tensor(l, out, source, true, n);
}

/* A kept one: as it is, but for the place of values in another file. Where its message does not come along with the
 * values, because another output wants them without, or has a node around it, it is copied from the source. */
static enum vc_status add_kept(struct onnx_layout *l, size_t out, const struct onnx_tensor *tensor,
                               const struct vc_field *field)
{
    struct onnx_sink *self = l->self;
    bool raw = vc_out_at(self->outs, out).form == VC_FORM_RAW;
    bool was_external = tensor->place == ONNX_PLACE_EXTERNAL;
    bool moves = self->moves == ONNX_MOVES_ALL && !tensor->constant && tensor->place == ONNX_PLACE_SPAN &&
                 tensor->n_bytes >= ONNX_EXTERNAL_MIN;

    if (was_external) {
        self->out[out].n = tensor->n_bytes;
        if (tensor->n_bytes != 0) {
            VC_CALL(place_external(l, out, 0, tensor->n_bytes));
        }
        return add_tensor(l, out, tensor->message, false, tensor->n_bytes);
    }
    if (moves) {
        VC_CALL(place_external(l, out, raw ? tensor->values.at - tensor->message.at : 0, tensor->n_bytes));
        return add_tensor(l, out, tensor->message, false, tensor->n_bytes);
    }
    if (!raw || tensor->constant) {
        self->out[out].n = 0;
        return vc_onnx_add_rest(l, field, ONNX_KIND_GRAPH);
    }
    self->out[out].n = tensor->message.n;
    vc_wire_put_tag(&self->literals, ONNX_GRAPH_INITIALIZER, VC_WIRE_BYTES);
    vc_wire_put_varint(&self->literals, tensor->message.n);
    return vc_onnx_add_piece(l, ONNX_PIECE_OUT, out, tensor->message.n);
}

/* The next tensor, which the field holds, as an initializer or in a Constant node. */
static enum vc_status add_next_tensor(struct onnx_layout *l, const struct vc_field *field)
{
    struct onnx_sink *self = l->self;
    const struct onnx_tensor *tensor = &self->source->tensors[l->next_tensor++];
    size_t out = tensor->index == ONNX_NONE ? ONNX_NONE : self->first_out[tensor->index];

    if ((self->gone[tensor->symbol] & ONNX_REPLACED) != 0) {
        if (out != ONNX_NONE) {
            self->out[out].n = 0; /* the job's bytes go nowhere */
        }
        return VC_OK;
    }
    if (tensor->index == ONNX_NONE) {
        return vc_onnx_add_rest(l, field, ONNX_KIND_GRAPH);
    }
    if (out == ONNX_NONE) {
        return VC_OK;
    }
    if (!vc_onnx_is_changed(self, out)) {
        return add_kept(l, out, tensor, field);
    }
    VC_CALL(add_new(l, out, tensor->message));
    for (out++; out < self->outs->n && vc_out_at(self->outs, out).role != VC_PART_CODES; out++) {
        VC_CALL(add_new(l, out, (struct vc_span){0, 0}));
    }
    return VC_OK;
}

/* ---- the other fields of the graph ---- */

/* An input, output or value_info. Those of names that there are not any more go; others may have another shape. */
static enum vc_status add_info(struct onnx_layout *l, const struct vc_field *field)
{
    size_t symbol = ONNX_NONE;
    unsigned char gone = ONNX_NAME_GONE | (field->number == ONNX_GRAPH_INPUT        ? ONNX_INPUT_GONE
                                           : field->number == ONNX_GRAPH_VALUE_INFO ? ONNX_INFO_GONE
                                                                                    : 0);
    struct vc_span rest = field->data;
    bool stays = true;
    struct vc_field f;

    while (field->type == VC_WIRE_BYTES && rest.n != 0) {
        VC_CALL(vc_wire_field(&l->r.wire, &rest, &f));
        if (f.number == ONNX_INFO_NAME) {
            VC_CALL(vc_onnx_string_read(&l->r, &f, "the name of an input or value"));
            symbol = vc_onnx_symbol_find(&l->self->source->symbols, l->graph, l->r.name);
            stays = symbol == ONNX_NONE || (l->self->gone[symbol] & gone) == 0;
        }
    }
    return stays ? vc_onnx_add_declared(l, field, symbol) : VC_OK;
}

/* The first graph inside a node at that place of the file or behind it; NULL if there is none. */
static const struct onnx_graph *graph_at(const struct onnx *source, uint64_t at)
{
    size_t low;

    VC_BISECT(low, source->n_graphs, k, source->graphs[k].at < at);
    return low < source->n_graphs ? &source->graphs[low] : NULL;
}

/* The span has graphs in it that are put together anew: those with tensors, or all where shapes or operators change. */
static bool has_graphs(const struct onnx_layout *l, struct vc_span span)
{
    const struct onnx *source = l->self->source;
    const struct onnx_graph *graph = graph_at(source, span.at);
    const struct onnx_graph *end = graph == NULL ? NULL : source->graphs + source->n_graphs;

    while (graph != NULL && graph < end && graph->at < span.at + span.n) {
        if (graph->has_tensors || l->self->edits.reshaped || l->self->edits.n_raised != 0 ||
            l->self->edits.n_coded != 0) {
            return true;
        }
        graph++;
    }
    return false;
}

static enum vc_status add_graph(struct onnx_layout *l, struct vc_span message, uint32_t number);

/* The attribute of a node: its graphs are put together anew, everything else is copied. */
static enum vc_status add_attribute(struct onnx_layout *l, const struct vc_field *field)
{
    size_t mark;

    VC_CALL(vc_onnx_begin_message(l, &mark));
    VC_EACH_FIELD(f, &l->r.wire, field->data) {
        if ((f.number == ONNX_ATTRIBUTE_G || f.number == ONNX_ATTRIBUTE_GRAPHS) && has_graphs(l, f.data)) {
            const struct onnx_graph *graph = graph_at(l->self->source, f.data.at);
            uint32_t around = l->graph;
            size_t inner;

            VC_CALL(vc_onnx_begin_message(l, &inner));
            VC_CALL(add_graph(l, f.data, graph->number));
            VC_CALL(vc_onnx_end_message(l, inner, f.number));
            l->graph = around;
        } else {
            VC_CALL(vc_onnx_add_rest(l, &f, ONNX_KIND_ATTRIBUTE));
        }
    }
    return vc_onnx_end_message(l, mark, ONNX_NODE_ATTRIBUTE);
}

/* Nodes may make values that become codes. */
static bool has_codes(const struct onnx_layout *l)
{
    return l->self->edits.n_coded != 0;
}

/* A node that changes: n changes of edits, a newer form (NULL: it has none), or graphs inside it. */
static enum vc_status add_new_node(struct onnx_layout *l, const struct vc_field *field,
                                   const struct onnx_change *changes, size_t n, const struct onnx_raised *raised)
{
    const struct onnx_folded *folded = vc_onnx_folded_at(l->self, field->all.at, true);
    unsigned n_inputs = 0;
    size_t mark;

    VC_CALL(vc_onnx_begin_message(l, &mark));
    VC_EACH_FIELD(f, &l->r.wire, field->data) {
        bool done = false;
        if (f.number == ONNX_NODE_ATTRIBUTE && raised != NULL) {
            VC_CALL(vc_onnx_raised_attribute(l, raised, &f, &done));
        }
        if (f.number == ONNX_NODE_ATTRIBUTE && !done && has_graphs(l, f.all)) {
            VC_CALL(add_attribute(l, &f));
            done = true;
        } else if (f.number == ONNX_NODE_ATTRIBUTE && !done && n != 0) {
            VC_CALL(vc_onnx_add_edited_attribute(l, &f, changes, n, &done));
        } else if (folded != NULL && (f.number == ONNX_NODE_OUTPUT || f.number == ONNX_NODE_INPUT)) {
            done = vc_onnx_put_folded(l, folded, f.number, n_inputs);
            n_inputs += f.number == ONNX_NODE_INPUT;
        } else if (f.number == ONNX_NODE_INPUT) {
            done = vc_onnx_put_edited_input(l, changes, n, n_inputs++);
        }
        if (has_codes(l)) {
            VC_CALL(vc_onnx_add_coded_name(l, &f, &done));
        }
        if (!done) {
            VC_CALL(vc_onnx_add_rest(l, &f, ONNX_KIND_NODE));
        }
    }
    if (folded != NULL) {
        vc_onnx_put_folded_bias(l, folded);
    }
    if (raised != NULL) {
        vc_onnx_put_raised(l, raised);
    }
    return vc_onnx_end_message(l, mark, ONNX_GRAPH_NODE);
}

/* The changes of the node, n of them, which follow those of the nodes before it. */
static const struct onnx_change *next_changes(struct onnx_layout *l, const struct vc_field *node, size_t *n)
{
    const struct onnx_edits *edits = &l->self->edits;
    size_t first = l->next_change;

    *n = 0;
    while (first + *n < edits->n_changes && edits->changes[first + *n].node == node->all.at) {
        *n += 1;
    }
    l->next_change += *n;
    return *n == 0 ? NULL : &edits->changes[first];
}

/* Nodes that were kept of graphs inside the node are not looked for any more. */
static void pass_inner(struct onnx_layout *l, const struct vc_field *field)
{
    const struct onnx *source = l->self->source;

    while (l->next_node < source->n_nodes && source->nodes[l->next_node].field.at < field->all.at + field->all.n) {
        l->next_node++;
    }
}

/* A node of the source: it may be a Constant that is a tensor, one that goes, one that changes, or one that is copied.
 */
static enum vc_status add_node(struct onnx_layout *l, const struct vc_field *field)
{
    const struct onnx *source = l->self->source;
    const struct onnx_raised *raised = vc_onnx_raised_at(l->self, field->all.at);
    size_t node = l->next_node;
    size_t n;

    if (l->next_tensor < source->n_tensors && source->tensors[l->next_tensor].field.at == field->all.at) {
        return add_next_tensor(l, field);
    }
    if (node < source->n_nodes && source->nodes[node].field.at == field->all.at) {
        l->next_node++;
        if (l->self->drop[node]) {
            return VC_OK;
        }
        if (l->self->products[node] != ONNX_NONE) {
            return vc_onnx_add_product(l, field, node);
        }
    }
    const struct onnx_change *changes = next_changes(l, field, &n);
    if ((n != 0 && changes->edit == NULL) || vc_onnx_folded_at(l->self, field->all.at, false) != NULL) {
        return VC_OK;
    }
    if (raised != NULL && raised->flat != NULL) {
        vc_onnx_put_flattened(l, raised);
    } else if (n != 0 || raised != NULL || has_codes(l) || has_graphs(l, field->all) ||
               vc_onnx_folded_at(l->self, field->all.at, true) != NULL) {
        VC_CALL(add_new_node(l, field, changes, n, raised));
    } else {
        VC_CALL(vc_onnx_add_rest(l, field, ONNX_KIND_GRAPH));
    }
    pass_inner(l, field);
    return has_codes(l) ? vc_onnx_add_coded_outputs(l, field) : VC_OK;
}

/* A field of a graph of the source. */
static enum vc_status add_field(struct onnx_layout *l, const struct vc_field *field)
{
    switch (field->number) {
    case ONNX_GRAPH_INITIALIZER: /* one that is no tensor is in a graph inside a node of an old file */
        return l->graph == ONNX_MAIN || vc_onnx_has_inner_tensors(l->self->source)
                   ? add_next_tensor(l, field)
                   : vc_onnx_add_rest(l, field, ONNX_KIND_GRAPH);
    case ONNX_GRAPH_NODE:
        return add_node(l, field);
    case ONNX_GRAPH_INPUT:
    case ONNX_GRAPH_OUTPUT:
    case ONNX_GRAPH_VALUE_INFO:
        return add_info(l, field);
    default:
        return vc_onnx_add_rest(l, field, ONNX_KIND_GRAPH);
    }
}

/* The nodes that make floats of changed tensors of this graph, of the outputs from *next to `end`, which *next becomes.
 */
static void put_new_nodes(struct onnx_layout *l, size_t *next, size_t end)
{
    struct onnx_sink *self = l->self;

    for (; *next < end; ++*next) {
        if (vc_onnx_is_changed(self, *next) && !vc_onnx_is_part(self, *next) &&
            self->source->tensors[vc_onnx_link_of(self, *next)->tensor].graph == l->graph) {
            vc_onnx_put_nodes(l->ctx, self, *next, &self->literals);
        }
    }
}

/* Whether a field of the graph is a node that makes the name of a tensor; *out: its output, or ONNX_NONE where the node
 * goes. */
static bool names_tensor(const struct onnx_layout *l, const struct vc_field *field, size_t *out)
{
    const struct onnx_sink *self = l->self;
    size_t node = l->next_node;

    if (field->number != ONNX_GRAPH_NODE || node >= self->source->n_nodes ||
        self->source->nodes[node].field.at != field->all.at || !self->source->nodes[node].taken) {
        return false;
    }
    *out = self->drop[node] ? ONNX_NONE : self->node_out[node];
    return self->drop[node] || *out != ONNX_NONE;
}

/* An initializer under its old name keeps the input it has. Old files have tensors in the main graph only. */
static void put_new_inputs(struct onnx_layout *l)
{
    struct onnx_sink *self = l->self;
    const struct onnx *source = self->source;

    for (size_t i = 0; source->ir_version < 4 && i < self->outs->n; i++) {
        size_t symbol =
            vc_onnx_symbol_find(&source->symbols, ONNX_MAIN, self->out[i].name == NULL ? "" : self->out[i].name);

        if (vc_onnx_is_changed(self, i) &&
            (symbol == ONNX_NONE || self->gone[symbol] != 0 || !source->symbols.list[symbol].graph_input)) {
            vc_onnx_put_input(l->ctx, self, i, &self->literals);
        }
    }
}

/* All fields of a new graph. New nodes go to its front, where those of an earlier run stand already: among these in the
 * order of the tensors, so that passes one after the other write what one run of all writes. */
static enum vc_status add_graph(struct onnx_layout *l, struct vc_span message, uint32_t number)
{
    bool front = true;
    bool begun = number != ONNX_MAIN; /* what stands behind the nodes in front */
    size_t next = 0;

    l->graph = number;
    VC_EACH_FIELD(field, &l->r.wire, message) {
        size_t out = ONNX_NONE;

        front = front && names_tensor(l, &field, &out);
        if (!front || out != ONNX_NONE) {
            put_new_nodes(l, &next, front ? out : l->self->outs->n);
        }
        if (!front && !begun) {
            vc_onnx_put_coded_inputs(l);
        }
        begun = begun || !front;
        VC_CALL(add_field(l, &field));
    }
    put_new_nodes(l, &next, l->self->outs->n);
    if (!begun) {
        vc_onnx_put_coded_inputs(l);
    }
    if (number == ONNX_MAIN) {
        vc_onnx_put_constants(l);
        put_new_inputs(l);
    }
    return l->self->literals.status;
}

/* ---- the whole ---- */

/* Each piece behind the one before it; outputs learn where their bytes go. */
static void place_pieces(struct onnx_sink *self)
{
    self->model_bytes = 0;
    for (size_t i = 0; i < self->n_pieces; i++) {
        struct onnx_piece *piece = &self->pieces[i];

        piece->at = self->model_bytes;
        if (piece->kind == ONNX_PIECE_OUT) {
            self->out[piece->from].at = piece->at;
        }
        self->model_bytes += piece->n; /* far below 2^64: end_message has added most of it up */
    }
}

/* A function of the model: its value_info goes where shapes change. */
static enum vc_status add_function(struct onnx_layout *l, const struct vc_field *field)
{
    size_t mark;

    if (!l->self->edits.reshaped) {
        return vc_onnx_add_rest(l, field, ONNX_KIND_MODEL);
    }
    VC_CALL(vc_onnx_begin_message(l, &mark));
    VC_EACH_FIELD(f, &l->r.wire, field->data) {
        if (f.number != ONNX_FUNCTION_VALUE_INFO) {
            VC_CALL(vc_onnx_add_rest(l, &f, ONNX_KIND_FUNCTION));
        }
    }
    return vc_onnx_end_message(l, mark, ONNX_MODEL_FUNCTION);
}

/* An entry of the file's metadata: what it says of an earlier training goes, where there is a new one; and what is not
 * vcompress's own counts as what computes nothing. */
static enum vc_status add_entry(struct onnx_layout *l, const struct vc_field *field)
{
    bool own = false;

    VC_EACH_FIELD(f, &l->r.wire, field->data) {
        if (f.number == ONNX_ENTRY_KEY) {
            VC_CALL(vc_onnx_string_read(&l->r, &f, "a key of its metadata_props"));
            own = strncmp(l->r.name, "vcompress", strlen("vcompress")) == 0;
            if ((l->self->outs->lineage != NULL && strcmp(l->r.name, l->self->outs->lineage->key) == 0) ||
                vc_outs_metadata(l->self->outs, l->r.name) != NULL) {
                return VC_OK;
            }
        }
    }
    l->n_strippable += own ? 0 : field->all.n;
    return own || !l->self->strip ? vc_onnx_add_copy(l, field->all) : VC_OK;
}

/* An entry of the model's metadata that the source does not have. */
static enum vc_status add_new_entry(struct onnx_layout *l, const char *key, const char *value)
{
    struct vc_text *text = &l->self->literals;
    size_t mark;

    VC_CALL(vc_onnx_begin_message(l, &mark));
    vc_wire_put_string(text, ONNX_ENTRY_KEY, key);
    vc_wire_put_string(text, ONNX_ENTRY_VALUE, value);
    return vc_onnx_end_message(l, mark, ONNX_MODEL_METADATA);
}

/* The caller's entries, and what was trained, as the last ones. */
static enum vc_status add_new_entries(struct onnx_layout *l)
{
    const struct vc_out_list *outs = l->self->outs;

    for (size_t i = 0; i < outs->n_metadata; i++) {
        VC_CALL(add_new_entry(l, outs->metadata[i].key, outs->metadata[i].value));
    }
    return outs->lineage != NULL ? add_new_entry(l, outs->lineage->key, outs->lineage->value) : VC_OK;
}

/* The whole file. The length of a graph is known only when all of its pieces are, so the piece before them is filled
 * last. */
static enum vc_status add_model(struct onnx_layout *l)
{
    struct onnx_sink *self = l->self;
    size_t mark;

    VC_EACH_FIELD(f, &l->r.wire, ((struct vc_span){0, self->source->file->size_bytes})) {
        if (f.all.at == self->source->graph_field.at) {
            VC_CALL(vc_onnx_begin_message(l, &mark));
            VC_CALL(add_graph(l, self->source->graph, ONNX_MAIN));
            VC_CALL(vc_onnx_end_message(l, mark, ONNX_MODEL_GRAPH));
        } else if (f.number == ONNX_MODEL_FUNCTION) {
            VC_CALL(add_function(l, &f));
        } else if (f.number == ONNX_MODEL_OPSET) {
            VC_CALL(vc_onnx_add_opset(l, &f));
        } else if (f.number == ONNX_MODEL_METADATA) {
            VC_CALL(add_entry(l, &f));
        } else {
            VC_CALL(vc_onnx_add_rest(l, &f, ONNX_KIND_MODEL));
        }
    }
    VC_CALL(add_new_entries(l));
    VC_CALL(vc_onnx_add_literals(l));
    place_pieces(self);
    return VC_OK;
}

/* Lays the file out with the present choice of what moves to external data. */
static enum vc_status lay_out_once(struct onnx_layout *l)
{
    struct onnx_sink *self = l->self;

    self->n_pieces = 0;
    self->literals.n = 0;
    self->data_bytes = 0;
    l->n_strippable = 0;
    l->next_tensor = 0;
    l->next_node = 0;
    l->next_change = 0;
    l->sealed = 0;
    l->n_placed = 0;
    l->opset_added = false;
    for (size_t i = 0; i < self->outs->n; i++) {
        self->out[i].external = false;
        self->out[i].skip = 0;
    }
    return add_model(l);
}

/* First with everything inside; a file that readers could not take is laid out again with its weights in a second one.
 */
enum vc_status vc_onnx_lay_out(struct vc_ctx *ctx, struct onnx_sink *self)
{
    struct onnx_layout l = {.ctx = ctx, .self = self, .r = {.ctx = ctx}};
    uint64_t limit = atomic_load(&embed_limit);
    enum vc_status status;

    VC_TRY_ALLOC(l.r.name = vc_alloc(ctx, VC_TAG_NAMES, ONNX_MAX_NAME + 1));
    VC_TRY(vc_wire_open(ctx, self->source->file, &l.r.wire));
    self->moves = self->source->n_externals != 0 ? ONNX_MOVES_NEW : ONNX_MOVES_NOTHING;
    VC_TRY(lay_out_once(&l));
    if (self->model_bytes > limit) {
        self->moves = ONNX_MOVES_ALL;
        VC_TRY(lay_out_once(&l));
    }
    self->strippable = l.n_strippable;
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
