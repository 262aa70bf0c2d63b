/* onnx_read.c - opens an ONNX file as a model: the initializers of its graphs, in the order of the file. The bytes:
 * onnx.h.
 *
 * Values in raw_data and in external files are read by range; those kept as single numbers (float_data, ...) front to
 * back. No checksum exists. Not shown, but kept by the writer: tensors inside nodes, sparse ones, strings. */
#include <unistd.h>

#include "formats/dialects/dialects.h"
#include "formats/onnx/onnx.h"

/* ---- the outermost message ---- */

/* An OperatorSetIdProto: the version of the default domain is kept, others do not matter here. */
static enum vc_status take_opset(struct onnx_reader *r, const struct vc_field *field)
{
    bool is_default = true;
    uint64_t version = 0;

    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "its opset_import"));
    VC_EACH_FIELD(f, &r->wire, field->data) {
        if (f.number == ONNX_OPSET_DOMAIN) {
            VC_CALL(vc_onnx_string_read(r, &f, "the domain of its opset_import"));
            is_default = r->name[0] == '\0' || strcmp(r->name, "ai.onnx") == 0;
            r->self->has_microsoft |= strcmp(r->name, ONNX_MICROSOFT) == 0;
        } else if (f.number == ONNX_OPSET_VERSION) {
            VC_CALL(vc_wire_expect(&r->wire, &f, VC_WIRE_VARINT, "the version of its opset_import"));
            version = f.value;
        }
    }
    if (is_default) {
        r->self->opset = version;
    }
    return VC_OK;
}

/* A field of ModelProto. The graph is only noted: opsets may come behind it. */
static enum vc_status take_field(struct onnx_reader *r, const struct vc_field *field)
{
    struct onnx *self = r->self;

    switch (field->number) {
    case ONNX_MODEL_IR_VERSION:
        VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_VARINT, "its ir_version"));
        self->ir_version = field->value;
        break;
    case ONNX_MODEL_GRAPH:
        VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "its graph"));
        VC_REFUSE_IF(self->graph_field.n != 0, r->ctx, VC_E_FORMAT, "has two graphs (again at offset %" PRIu64 ")",
                     field->all.at);
        self->graph_field = field->all;
        self->graph = field->data;
        break;
    case ONNX_MODEL_OPSET:
        return take_opset(r, field);
    case ONNX_MODEL_TRAINING:
        self->has_training = true;
        break;
    case ONNX_MODEL_FUNCTION: /* may have nodes of any domain */
        self->n_microsoft++;
        self->has_functions = true;
        break;
    default:
        break;
    }
    return VC_OK;
}

/* After the graph: the functions of the file, whose nodes read what calls give them. */
static enum vc_status read_functions(struct onnx_reader *r)
{
    VC_EACH_FIELD(field, &r->wire, ((struct vc_span){0, r->wire.file->size_bytes})) {
        if (field.number == ONNX_MODEL_FUNCTION) {
            VC_CALL(vc_onnx_function_scan(r, &field));
        }
    }
    return VC_OK;
}

/* Goes over the fields of the file, then reads the graph and the functions that it calls. */
static enum vc_status read_model(struct onnx_reader *r)
{
    VC_EACH_FIELD(field, &r->wire, ((struct vc_span){0, r->wire.file->size_bytes})) {
        VC_CALL(take_field(r, &field));
    }
    VC_REFUSE_IF(r->self->graph_field.n == 0, r->ctx, VC_E_FORMAT, "is taken for an ONNX file, but has no graph");
    VC_CALL(vc_onnx_graph_scan(r));
    return r->self->has_functions ? read_functions(r) : VC_OK;
}

/* ---- reading values ---- */

/* The initializer behind a tensor of the model. */
static const struct onnx_tensor *tensor_of(const struct vc_model *model, size_t tensor)
{
    const struct onnx *self = model->self;

    return &self->tensors[self->links[tensor].tensor];
}

/* The bytes of a form, where they are one run; of numbers only the raw form is. */
static struct vc_span span_of(const struct onnx_tensor *tensor, enum vc_form form)
{
    return form == VC_FORM_RAW && tensor->place != ONNX_PLACE_EXTERNAL ? tensor->message : tensor->values;
}

/* vc_source_ops.read, for tensors whose bytes are one run: in the model file or in an external one. */
static enum vc_status onnx_read(struct vc_ctx *ctx, const struct vc_model *model, size_t index, enum vc_form form,
                                uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct onnx *self = model->self;
    const struct onnx_tensor *tensor = tensor_of(model, index);
    struct vc_span span = span_of(tensor, form);
    bool external = tensor->place == ONNX_PLACE_EXTERNAL;
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(offset > span.n || n_bytes > span.n - offset, ctx, VC_E_INTERNAL, "%s: a read beyond the tensor",
                 model->tensors[index].name);
    if (external && self->made != NULL) {
        return self->made->read(ctx, self->made, span.at + offset, dst, n_bytes);
    }
    VC_TRY(
        vc_infile_read(ctx, external ? self->externals[tensor->external] : self->file, span.at + offset, dst, n_bytes));
out:
    if (status == VC_OK) {
        return VC_OK;
    }
    if (external) {
        (void)vc_context(ctx, "%s", self->locations[tensor->external]);
    }
    return vc_context(ctx, "%s", model->tensors[index].name);
}

/* A tensor that is being read front to back: one that is kept as single numbers. */
struct vc_source_stream {
    const struct vc_model *model;
    size_t tensor;
    enum vc_form form;
    struct onnx_numbers numbers; /* VALUES */
    unsigned char *shown;        /* VALUES of a tensor with a view: all of them */
    uint64_t offset;             /* RAW, and with a view */
};

/* Reads a tensor that the model has in another form, whole. */
static enum vc_status read_shown(struct vc_ctx *ctx, struct vc_source_stream *stream)
{
    const struct onnx *self = stream->model->self;
    const struct onnx_tensor *tensor = tensor_of(stream->model, stream->tensor);
    VC_SCOPED unsigned char *stored = vc_alloc(ctx, VC_TAG_IO, (size_t)tensor->n_bytes);

    VC_CALL_ALLOC(stored);
    VC_CALL_ALLOC(stream->shown = vc_alloc(ctx, VC_TAG_IO, (size_t)vc_onnx_view_shown_bytes(&tensor->view)));
    if (tensor->place == ONNX_PLACE_NUMBERS) {
        VC_CALL(vc_onnx_numbers_open(ctx, self->file, tensor, &stream->numbers));
        enum vc_status status = vc_onnx_numbers_read(&stream->numbers, stored, tensor->n_bytes);
        status = status == VC_OK ? vc_onnx_numbers_end(&stream->numbers) : status;
        vc_onnx_numbers_close(&stream->numbers);
        VC_CALL(status);
    } else {
        VC_CALL(
            onnx_read(ctx, stream->model, stream->tensor, VC_FORM_VALUES, 0, stored, (size_t)tensor->n_bytes, NULL));
    }
    vc_onnx_view_convert(&tensor->view, false, stored, stream->shown, 0, tensor->view.n_rows * tensor->view.row);
    return VC_OK;
}

/* Values that are numbers are read front to back; a view of codes is made at once, since its bytes lie in another
 * order. */
static enum vc_status onnx_stream_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                       enum vc_form form, struct vc_source_stream **out)
{
    const struct onnx *self = model->self;
    struct vc_source_stream *stream = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *stream);

    *out = NULL;
    VC_CALL_ALLOC(stream);
    *stream = (struct vc_source_stream){.model = model, .tensor = tensor, .form = form};
    if (form == VC_FORM_VALUES &&
        (tensor_of(model, tensor)->view.bits != 0
             ? read_shown(ctx, stream)
             : vc_onnx_numbers_open(ctx, self->file, tensor_of(model, tensor), &stream->numbers)) != VC_OK) {
        VC_FREE_ALL(ctx, stream->shown, stream);
        return ctx->status;
    }
    *out = stream;
    return VC_OK;
}

/* vc_source_ops.stream_read. The stream may be used by another worker than the one that opened it, one at a time. */
static enum vc_status onnx_stream_read(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n_bytes)
{
    if (stream->form == VC_FORM_RAW) {
        VC_CALL(onnx_read(ctx, stream->model, stream->tensor, VC_FORM_RAW, stream->offset, dst, n_bytes, NULL));
        stream->offset += n_bytes;
        return VC_OK;
    }
    if (stream->shown != NULL) {
        memcpy(dst, stream->shown + stream->offset, n_bytes);
        stream->offset += n_bytes;
        return VC_OK;
    }
    stream->numbers.wire.ctx = ctx; /* of this worker */
    enum vc_status status = vc_onnx_numbers_read(&stream->numbers, dst, n_bytes);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", stream->model->tensors[stream->tensor].name);
}

/* vc_source_ops.stream_close. */
static enum vc_status onnx_stream_close(struct vc_ctx *ctx, struct vc_source_stream *stream, bool finished)
{
    enum vc_status status = VC_OK;

    if (stream->form == VC_FORM_VALUES && stream->shown == NULL) {
        stream->numbers.wire.ctx = ctx;
        if (finished && vc_onnx_numbers_end(&stream->numbers) != VC_OK) {
            status = vc_context(ctx, "%s", stream->model->tensors[stream->tensor].name);
        }
        vc_onnx_numbers_close(&stream->numbers);
    }
    VC_FREE_ALL(ctx, stream->shown, stream);
    return status;
}

/* 0 for values that are read by range. */
static size_t onnx_stream_bytes(const struct vc_model *model, size_t tensor)
{
    const struct onnx_tensor *t = tensor_of(model, tensor);
    size_t whole = t->view.bits == 0 ? 0 : (size_t)(t->n_bytes + vc_onnx_view_shown_bytes(&t->view));

    return model->io[tensor].sequential ? sizeof(struct vc_source_stream) + VC_WIRE_WINDOW_BYTES + whole : 0;
}

/* ---- open, close ---- */

/* vc_source_ops.close. */
static void onnx_close(struct vc_model *model)
{
    struct vc_ctx *ctx = model->ctx;
    struct onnx *self = model->self;

    for (size_t i = 0; i < self->n_externals; i++) {
        vc_infile_close(ctx, self->externals[i]);
        vc_free(ctx, self->locations[i]);
    }
    vc_infile_close(ctx, self->file);
    if (self->made != NULL) {
        vc_model_close(self->made->source);
        vc_free(ctx, self->made);
    }
    VC_FREE_ALL(ctx, self->externals, model->inputs, self->locations, self->tensors, self->nodes, self->symbols.list);
    vc_hash_release(ctx, &self->symbols.by_name);
    VC_FREE_ALL(ctx, self->links, self->graphs);
    vc_arena_release(ctx, &self->arena);
    VC_FREE_ALL(ctx, self, model->tensors, model->io);
}

static const struct vc_source_ops onnx_ops = {.read = onnx_read,
                                              .stream_open = onnx_stream_open,
                                              .stream_read = onnx_stream_read,
                                              .stream_close = onnx_stream_close,
                                              .stream_bytes = onnx_stream_bytes,
                                              .close = onnx_close,
                                              .program = vc_onnx_program,
                                              .code_places = vc_onnx_code_places};

/* What `inspect` shows of the file. */
static enum vc_status add_facts(struct vc_ctx *ctx, struct vc_model *model)
{
    const struct onnx *self = model->self;

    VC_CALL(vc_model_add_fact(ctx, model, "ir version", "%" PRIu64, self->ir_version));
    VC_CALL(vc_model_add_fact(ctx, model, "opset", "%" PRIu64, self->opset));
    for (size_t i = 0; i < self->n_externals && i < 4 && self->made == NULL; i++) {
        VC_CALL(vc_model_add_fact(ctx, model, "external data", "%s", self->locations[i]));
    }
    if (self->inner_bytes > model->file_bytes / 100) {
        VC_CALL(vc_model_add_fact(
            ctx, model, VC_FACT_NOTE,
            "large tensors inside nodes or inner graphs, or sparse, are carried over as they are: %" PRIu64
            " with %" PRIu64 " bytes",
            self->n_inner, self->inner_bytes));
    }
    return VC_OK;
}

/* The files with its values are the model's, too: they count, and no output replaces them. */
static enum vc_status list_inputs(struct vc_ctx *ctx, struct vc_model *model)
{
    const struct onnx *self = model->self;

    if (self->made != NULL) {
        return vc_model_take_inputs(ctx, self->made->source, model);
    }
    VC_CALL_ALLOC(model->inputs = vc_calloc_array(ctx, VC_TAG_NAMES, self->n_externals, sizeof *model->inputs));
    for (size_t i = 0; i < self->n_externals; i++) {
        model->inputs[i] = self->externals[i];
        model->file_bytes += self->externals[i]->size_bytes;
    }
    model->n_inputs = self->n_externals;
    return VC_OK;
}

/* Operator set 1 is that of a file which says none. */
void vc_onnx_own(struct onnx *self, struct vc_model *model)
{
    self->opset = 1;
    model->self = self;
    model->ops = &onnx_ops; /* from here on vc_model_close frees everything */
}

/* All stages of opening. What only they need is freed here, also after a failure. */
enum vc_status vc_onnx_read_model(struct vc_ctx *ctx, struct onnx *self, struct vc_infile *file, struct vc_model *model)
{
    struct onnx_reader r = {.ctx = ctx, .self = self, .path = file->path, .folder = -1};
    enum vc_status status;

    self->file = file;
    VC_TRY_ALLOC(r.name = vc_alloc(ctx, VC_TAG_NAMES, ONNX_MAX_NAME + 1));
    VC_TRY(vc_wire_open(ctx, file, &r.wire));
    VC_TRY(read_model(&r));
    VC_TRY(vc_onnx_make_tensors(&r, model));
    VC_TRY(list_inputs(ctx, model));
    model->unlisted_bytes = self->inner_bytes;
    model->unlisted = self->has_sparse              ? "a sparse tensor"
                      : self->n_inner_external != 0 ? "a tensor inside a node, with its values in another file"
                                                    : NULL;
    VC_TRY(add_facts(ctx, model));
out:
    vc_wire_close(&r.wire);
    VC_FREE_ALL(ctx, r.name, r.uses);
    vc_onnx_uses_release(&r);
    if (r.folder >= 0) {
        (void)close(r.folder);
    }
    return status;
}

/* vc_format.open. */
static enum vc_status onnx_open(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                                struct vc_model *model)
{
    struct onnx *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);

    /* whatever the options: the format itself says what its elements mean */
    if (self == NULL) {
        vc_infile_close(ctx, file);
        return VC_E_NOMEM;
    }
    vc_onnx_own(self, model);
    return vc_onnx_read_model(ctx, self, file, model);
}

/* ---- probing ---- */

/* ModelProto has no magic, but its fields have numbers and types. Unknown numbers are fine once something known came
 * before them. */
static bool is_model_field(uint64_t number, unsigned type, bool known_before)
{
    switch (number) {
    case ONNX_MODEL_IR_VERSION:
    case 5: /* model_version */
        return type == VC_WIRE_VARINT;
    case ONNX_MODEL_PRODUCER:
    case 3: /* producer_version, domain */
    case 4:
    case 6: /* doc_string */
    case ONNX_MODEL_GRAPH:
    case ONNX_MODEL_OPSET:
    case 14: /* metadata_props */
    case ONNX_MODEL_TRAINING:
    case 25: /* functions, configuration */
    case 26:
        return type == VC_WIRE_BYTES;
    default:
        return known_before && number != 0 && type <= VC_WIRE_FIXED32;
    }
}

/* vc_format.probe. Goes field by field through what is there of the file: all of them have to make sense, and a version
 * or a graph has to be among them. That is weaker than a magic, so the confidence is low. */
static int onnx_probe(const unsigned char *head, size_t n, uint64_t file_bytes)
{
    bool version = false;
    bool graph = false;
    size_t at = 0;

    while (at < n) {
        uint64_t value = 0;
        uint64_t tag = 0;
        size_t k = vc_wire_decode(head + at, n - at, &tag);
        size_t m = k == 0 ? 0 : vc_wire_decode(head + at + k, n - at - k, &value);

        if (k == 0 || m == 0) {
            return n - at < 20 && n == VC_PROBE_BYTES && version ? 40 : 0; /* cut by the end of the head */
        }
        if (!is_model_field(tag >> 3, (unsigned)(tag & 7), version || graph)) {
            return 0;
        }
        version |= tag >> 3 == ONNX_MODEL_IR_VERSION && value > 0 && value < 1000;
        graph |= tag >> 3 == ONNX_MODEL_GRAPH;
        if ((tag & 7) == VC_WIRE_VARINT) {
            at += k + m;
        } else if ((tag & 7) != VC_WIRE_BYTES) {
            return version && graph ? 50 : 0; /* an unknown field: not looked behind */
        } else if (value > n - (at + k + m)) {
            /* Beyond the head; also where the file is cut off: the reader says where. */
            return version || (graph && value <= file_bytes - (at + k + m)) ? 40 : 0;
        } else {
            at += k + m + (size_t)value;
        }
    }
    if (graph) {
        return version ? 60 : 40;
    }
    return version && n < file_bytes ? 40 : 0;
}

/* Bytes of the field at the start of n bytes, of which there are as many as a tag and a length can have; 0: it is no
 * field of a model; UINT64_MAX: it does not tell (a group). */
static uint64_t field_bytes(const unsigned char *p, size_t n)
{
    uint64_t value = 0;
    uint64_t tag = 0;
    size_t k = vc_wire_decode(p, n, &tag);
    size_t m;

    if (k == 0 || !is_model_field(tag >> 3, (unsigned)(tag & 7), true)) {
        return 0;
    }
    switch (tag & 7) {
    case VC_WIRE_FIXED64:
        return k + 8;
    case VC_WIRE_FIXED32:
        return k + 4;
    case VC_WIRE_GROUP:
        return UINT64_MAX;
    case VC_WIRE_VARINT:
    case VC_WIRE_BYTES:
        m = vc_wire_decode(p + k, n - k, &value);
        value = (tag & 7) == VC_WIRE_BYTES ? value : 0;
        return m == 0 ? 0 : value > INT64_MAX ? UINT64_MAX : k + m + value;
    default:
        return 0;
    }
}

/* vc_format.stream_end: goes from field to field of the model; what is no field lies behind its end. */
static enum vc_status onnx_stream_end(struct vc_ctx *ctx, const struct vc_infile *so_far, struct vc_stream_end *end)
{
    unsigned char head[2 * VC_WIRE_VARINT_BYTES];

    end->need = end->at + sizeof head;
    while (end->end == 0 && so_far->size_bytes >= end->need) {
        VC_CALL(vc_infile_read(ctx, so_far, end->at, head, sizeof head));
        uint64_t n = field_bytes(head, sizeof head);
        end->end = n == 0 ? end->at : 0;
        end->need =
            vc_add_u64(end->at, n, &end->at) && vc_add_u64(end->at, sizeof head, &end->need) ? end->need : UINT64_MAX;
    }
    return VC_OK;
}

const struct vc_format vc_format_onnx = {.name = VC_FORMAT_ONNX,
                                         .title = "ONNX",
                                         .extensions = (const char *const[]){".onnx", NULL},
                                         .probe = onnx_probe,
                                         .open = onnx_open,
                                         .stream_end = onnx_stream_end,
                                         .create_sink = vc_onnx_sink_create,
                                         .tells_axes = true,
                                         .strips = true,
                                         .own_metadata = "vcompress*",
                                         .dialect = &vc_dialect_onnx};
