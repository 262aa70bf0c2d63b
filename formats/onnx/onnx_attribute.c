/* onnx_attribute.c - attributes of nodes as records of a program (core/model/program.h).
 *
 *     2a ..    attribute: 0a "strides" 40 02 40 02 a0 01 07        ints (8): 2, 2; type (20): 7, INTS
 *
 * Fields come in any order and lists one number at a time or packed, so each attribute is walked over twice: counted,
 * then filled. What it takes is in proportion to its bytes.
 *
 * Called by onnx_program.c for each attribute of each node. Sizes in the file are believed only up to its bytes: a list
 * is counted before memory is taken, and a tensor needs as many bytes in the message as its shape says. Source:
 * onnx.proto of ONNX. */

#include "formats/onnx/onnx.h"

/* ---- tensors ---- */

/* What the fields of a TensorProto say. */
struct seen {
    uint64_t dims[VC_MAX_DIMS];
    unsigned n_dims;
    uint32_t type;
    bool has_raw, external;
    struct vc_span raw;
};

/* Negative sizes are varints above 2^63 - 1. */
static enum vc_status add_dim(const struct onnx_program_reader *r, struct seen *s, uint64_t value)
{
    VC_REFUSE_IF(s->n_dims == VC_MAX_DIMS || value > INT64_MAX, r->ctx, VC_E_FORMAT,
                 "a tensor in a node has more than %d dimensions, or a negative one", VC_MAX_DIMS);
    s->dims[s->n_dims++] = value;
    return VC_OK;
}

/* vc_onnx_each's function: one field of a TensorProto. Dimensions come one by one or packed. */
static enum vc_status take_tensor(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    struct seen *s = to;
    struct vc_span packed = f->data;
    uint64_t value;

    switch (f->number) {
    case ONNX_TENSOR_DIMS:
        if (f->type == VC_WIRE_VARINT) {
            return add_dim(r, s, f->value);
        }
        VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "the shape of a tensor"));
        while (packed.n != 0) {
            VC_CALL(vc_wire_varint(&r->wire, &packed, &value));
            VC_CALL(add_dim(r, s, value));
        }
        break;
    case ONNX_TENSOR_TYPE:
        VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_VARINT, "the data_type of a tensor"));
        s->type = f->value < ONNX_N_TYPES ? (uint32_t)f->value : 0;
        break;
    case ONNX_TENSOR_RAW:
        VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "the raw_data of a tensor"));
        s->has_raw = true;
        s->raw = f->data;
        break;
    case ONNX_TENSOR_LOCATION:
        VC_CALL(vc_wire_expect(&r->wire, f, VC_WIRE_VARINT, "the data_location of a tensor"));
        s->external = f->value != 0;
        break;
    default:
        break;
    }
    return VC_OK;
}

/* The elements, from raw_data or number by number. Of numbers one by one at least a byte of the message stands for
 * each, whose type has 8 bytes at most: more memory is not taken. */
static enum vc_status read_elements(struct onnx_program_reader *r, struct vc_span message, const struct seen *s,
                                    struct vc_program_tensor *tensor)
{
    const struct onnx_tensor as_file = {.message = message, .type = s->type, .n_bytes = tensor->n_bytes};
    struct onnx_numbers numbers = {.n_bytes = 0};
    enum vc_status status = VC_OK;

    if (s->has_raw ? s->raw.n != tensor->n_bytes : tensor->n_bytes / 8 > message.n) { /* a number is a byte or more */
        return vc_fail(r->ctx, VC_E_FORMAT,
                       "a tensor in a node (at offset %" PRIu64 ") needs %" PRIu64
                       " bytes by its shape and type and has others",
                       message.at, tensor->n_bytes);
    }
    unsigned char *data = vc_onnx_items(r, (size_t)tensor->n_bytes, 1);
    VC_TRY_ALLOC(data);
    if (s->has_raw) {
        VC_TRY(vc_wire_read(&r->wire, s->raw.at, data, (size_t)s->raw.n));
    } else {
        VC_TRY(vc_onnx_numbers_open(r->ctx, r->self->file, &as_file, &numbers));
        VC_TRY(vc_onnx_numbers_read(&numbers, data, tensor->n_bytes));
        VC_TRY(vc_onnx_numbers_end(&numbers));
    }
    tensor->data = data;
out:
    vc_onnx_numbers_close(&numbers);
    return status == VC_E_FORMAT ? vc_context(r->ctx, "a tensor in a node (at offset %" PRIu64 ")", message.at)
                                 : status;
}

/* A TensorProto in an attribute. Without data where it is of no type here, elsewhere, or too large. Elements of more
 * than VC_PROGRAM_MAX_INLINE bytes stay in the file: graphs need shapes, indices and small tables. */
static enum vc_status read_tensor(struct onnx_program_reader *r, const struct vc_field *field,
                                  const struct vc_program_tensor **out)
{
    struct seen s = {.n_dims = 0};
    struct vc_program_tensor *tensor = vc_onnx_items(r, 1, sizeof *tensor);
    uint64_t *shape;
    uint64_t n = 1;

    VC_CALL_ALLOC(tensor);
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a tensor in a node"));
    VC_CALL(vc_onnx_each(r, field->data, take_tensor, &s));
    VC_CALL_ALLOC(shape = vc_onnx_items(r, s.n_dims, sizeof *shape));
    for (unsigned d = 0; d < s.n_dims; d++) {
        shape[d] = s.dims[d];
        VC_REFUSE_IF(!vc_mul_u64(n, s.dims[d], &n) || n > INT64_MAX / 16, r->ctx, VC_E_FORMAT,
                     "the shape of a tensor in a node (at offset %" PRIu64 ") overflows", field->all.at);
    }
    tensor->dtype = vc_onnx_dtype(s.type);
    tensor->n_dims = s.n_dims;
    tensor->shape = shape;
    *out = tensor;
    if (tensor->dtype != VC_DTYPE_RAW && !s.external) {
        tensor->n_bytes = vc_dtype_bytes(tensor->dtype, n);
        if (tensor->n_bytes <= VC_PROGRAM_MAX_INLINE) {
            VC_CALL(read_elements(r, field->data, &s, tensor));
        }
    }
    return VC_OK;
}

/* ---- lists ---- */

/* The fields of one number, one item each or packed, as a list. */
struct items {
    uint32_t number;
    size_t n; /* taken so far */
    int64_t *ints;
    double *floats;
    const char **strings;
};

/* How many items a field holds: packed varints end in a byte below 128. Strings have a field each. */
static enum vc_status count_items(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    struct items *items = to;
    struct vc_span packed = f->data;
    uint64_t value;

    if (f->number != items->number) {
        return VC_OK;
    }
    if (f->type != VC_WIRE_BYTES || f->number == ONNX_ATTRIBUTE_STRINGS) {
        items->n++;
        return VC_OK;
    }
    if (f->number == ONNX_ATTRIBUTE_FLOATS) {
        items->n += (size_t)f->data.n / 4;
        return f->data.n % 4 == 0 ? VC_OK
                                  : vc_fail(r->ctx, VC_E_FORMAT,
                                            "the floats of an attribute (at offset %" PRIu64 ") have %" PRIu64
                                            " bytes, no multiple of 4",
                                            f->all.at, f->data.n);
    }
    while (packed.n != 0) {
        VC_CALL(vc_wire_varint(&r->wire, &packed, &value));
        items->n++;
    }
    return VC_OK;
}

/* A fixed32 field as the float that it is. */
static double float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;

    memcpy(&f, &low, sizeof f);
    return (double)f;
}

/* There is room: count_items has counted by the same rules. */
static enum vc_status take_ints(struct onnx_program_reader *r, const struct vc_field *f, struct items *items)
{
    struct vc_span packed = f->data;
    uint64_t value;

    if (f->type != VC_WIRE_BYTES) {
        items->ints[items->n++] = (int64_t)f->value;
        return vc_wire_expect(&r->wire, f, VC_WIRE_VARINT, "an integer in an attribute");
    }
    while (packed.n != 0) {
        VC_CALL(vc_wire_varint(&r->wire, &packed, &value));
        items->ints[items->n++] = (int64_t)value;
    }
    return VC_OK;
}

static enum vc_status take_floats(struct onnx_program_reader *r, const struct vc_field *f, struct items *items)
{
    unsigned char bytes[8] = {0};

    if (f->type != VC_WIRE_BYTES) {
        items->floats[items->n++] = float_of(f->value);
        return vc_wire_expect(&r->wire, f, VC_WIRE_FIXED32, "a float in an attribute");
    }
    for (uint64_t at = 0; at < f->data.n; at += 4) {
        VC_CALL(vc_wire_read(&r->wire, f->data.at + at, bytes, 4));
        items->floats[items->n++] = float_of(vc_le64(bytes));
    }
    return VC_OK;
}

/* By the one list of `items` that is not NULL. */
static enum vc_status take_items(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    struct items *items = to;

    if (f->number != items->number) {
        return VC_OK;
    }
    if (items->ints != NULL) {
        return take_ints(r, f, items);
    }
    if (items->floats != NULL) {
        return take_floats(r, f, items);
    }
    return vc_onnx_text_read(r, f, "a string in an attribute", &items->strings[items->n++]);
}

/* The list in the fields of that number. */
static enum vc_status read_list(struct onnx_program_reader *r, struct vc_span message, uint32_t number,
                                struct vc_program_attr *attr)
{
    struct items items = {.number = number};

    VC_CALL(vc_onnx_each(r, message, count_items, &items));
    void *room = vc_onnx_items(r, items.n, sizeof(int64_t)); /* as large as a double, and not smaller than a pointer */
    VC_CALL_ALLOC(room);
    items = (struct items){.number = number};
    switch (number) {
    case ONNX_ATTRIBUTE_INTS:
        items.ints = room;
        break;
    case ONNX_ATTRIBUTE_FLOATS:
        items.floats = room;
        break;
    case ONNX_ATTRIBUTE_STRINGS:
        items.strings = room;
        break;
    default:
        break;
    }
    VC_CALL(vc_onnx_each(r, message, take_items, &items));
    attr->n = items.n;
    attr->ints = items.ints;
    attr->floats = items.floats;
    attr->strings = items.strings;
    return VC_OK;
}

/* ---- attributes ---- */

/* By number of AttributeProto.type: its kind, and the field that holds it. */
static const struct {
    uint32_t type, number;
    enum vc_program_attr_kind kind;
} kinds[] = {{1, ONNX_ATTRIBUTE_F, VC_PROGRAM_FLOAT},      {2, ONNX_ATTRIBUTE_I, VC_PROGRAM_INT},
             {3, ONNX_ATTRIBUTE_S, VC_PROGRAM_STRING},     {4, ONNX_ATTRIBUTE_T, VC_PROGRAM_TENSOR},
             {5, ONNX_ATTRIBUTE_G, VC_PROGRAM_GRAPH},      {6, ONNX_ATTRIBUTE_FLOATS, VC_PROGRAM_FLOATS},
             {7, ONNX_ATTRIBUTE_INTS, VC_PROGRAM_INTS},    {8, ONNX_ATTRIBUTE_STRINGS, VC_PROGRAM_STRINGS},
             {10, ONNX_ATTRIBUTE_GRAPHS, VC_PROGRAM_GRAPH}};

/* An attribute while it is read. */
struct attribute_reader {
    struct vc_program_attr *attr;
    uint64_t type;          /* 0: it says none, as in the first files: the last field that holds something counts */
    uint32_t number;        /* of that field */
    struct vc_field tensor; /* number 0 if there is none */
    struct vc_field graph;  /* the same */
};

/* A tensor whose field is missing is of no known kind. */
static enum vc_program_attr_kind kind_of(const struct attribute_reader *reader)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (reader->type != 0 ? kinds[k].type == reader->type : kinds[k].number == reader->number) {
            return kinds[k].kind == VC_PROGRAM_TENSOR && reader->tensor.number == 0 ? VC_PROGRAM_OTHER : kinds[k].kind;
        }
    }
    return VC_PROGRAM_OTHER;
}

/* One field of an AttributeProto; lists are read later, when the kind is known. */
static enum vc_status take_attribute(struct onnx_program_reader *r, const struct vc_field *f, void *to)
{
    struct attribute_reader *reader = to;
    struct vc_program_attr *attr = reader->attr;

    if (f->number > ONNX_ATTRIBUTE_NAME && f->number <= ONNX_ATTRIBUTE_GRAPHS) {
        reader->number = f->number;
    }
    switch (f->number) {
    case ONNX_ATTRIBUTE_NAME:
        return vc_onnx_text_read(r, f, "the name of an attribute", &attr->name);
    case ONNX_ATTRIBUTE_TYPE:
        reader->type = f->value;
        return vc_wire_expect(&r->wire, f, VC_WIRE_VARINT, "the type of an attribute");
    case ONNX_ATTRIBUTE_REFERENCE:
        return vc_onnx_text_read(r, f, "the attribute of a function", &attr->reference);
    case ONNX_ATTRIBUTE_F:
        attr->f = float_of(f->value);
        return vc_wire_expect(&r->wire, f, VC_WIRE_FIXED32, "a float in an attribute");
    case ONNX_ATTRIBUTE_I:
        attr->i = (int64_t)f->value;
        return vc_wire_expect(&r->wire, f, VC_WIRE_VARINT, "an integer in an attribute");
    case ONNX_ATTRIBUTE_S:
        attr->n = (size_t)f->data.n;
        return vc_onnx_bytes_read(r, f, "a string in an attribute", &attr->s);
    case ONNX_ATTRIBUTE_T:
        reader->tensor = *f;
        return VC_OK;
    case ONNX_ATTRIBUTE_G:
        reader->graph = *f;
        return VC_OK;
    default:
        return VC_OK;
    }
}

/* A graph inside a node is a program of its own; recursion is as deep as vc_onnx_graph_scan allowed. */
static enum vc_status read_graph(struct onnx_program_reader *r, const struct vc_field *field,
                                 const struct vc_program **out)
{
    struct vc_program *graph = vc_onnx_items(r, 1, sizeof *graph);

    VC_CALL_ALLOC(graph);
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a graph inside a node"));
    graph->kind = VC_PROGRAM_NODES;
    *out = graph;
    return r->graph(r, field->data, graph);
}

/* to: the struct vc_program_attr. */
enum vc_status vc_onnx_attribute_read(struct onnx_program_reader *r, const struct vc_field *field, void *to)
{
    struct vc_program_attr *attr = to;
    struct attribute_reader reader = {.attr = attr};

    *attr = (struct vc_program_attr){.name = "", .s = ""};
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "an attribute"));
    VC_CALL(vc_onnx_each(r, field->data, take_attribute, &reader));
    attr->kind = kind_of(&reader);
    if (attr->kind == VC_PROGRAM_TENSOR) {
        return read_tensor(r, &reader.tensor, &attr->tensor);
    }
    if (attr->kind == VC_PROGRAM_GRAPH && reader.graph.number != 0 && r->graph != NULL) {
        return read_graph(r, &reader.graph, &attr->graph);
    }
    if (attr->kind == VC_PROGRAM_INTS) {
        return read_list(r, field->data, ONNX_ATTRIBUTE_INTS, attr);
    }
    if (attr->kind == VC_PROGRAM_FLOATS) {
        return read_list(r, field->data, ONNX_ATTRIBUTE_FLOATS, attr);
    }
    if (attr->kind == VC_PROGRAM_STRINGS) {
        return read_list(r, field->data, ONNX_ATTRIBUTE_STRINGS, attr);
    }
    return VC_OK;
}
