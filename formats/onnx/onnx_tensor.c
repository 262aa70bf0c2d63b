/* onnx_tensor.c - a TensorProto: its header, where its values are, and values that are kept as single numbers.
 *
 *     08 02 08 03 10 01 42 01 77 4a 18 ...     dims 2, 3; FLOAT; name "w"; raw_data, 24 bytes           one run of the file
 *     ... 22 18 00 00 80 3f ...                float_data (4), packed: as good as raw_data              one run of the file
 *     ... 2a 03 ff 01 02                       int32_data (5), packed varints: 255, 2                   number by number
 *     ... 70 01 6a ..                          data_location (14): external, external_data (13)         onnx_external.c
 *
 * Everything that can be wrong with the values is found when the file is opened: their number against the shape, and
 * the range of numbers that are wider than the elements they stand for. Numbers are read again, not kept. */

#include "formats/onnx/onnx.h"

/* By number: the name in onnx.proto, our dtype, the field of numbers, bytes of the elements that one number gives. */
const struct onnx_type vc_onnx_types[ONNX_N_TYPES] = {
    [ONNX_FLOAT] = {"FLOAT", VC_DTYPE_F32, ONNX_TENSOR_FLOATS, 4},
    [2] = {"UINT8", VC_DTYPE_U8, ONNX_TENSOR_INT32S, 1},
    [ONNX_INT8] = {"INT8", VC_DTYPE_I8, ONNX_TENSOR_INT32S, 1},
    [4] = {"UINT16", VC_DTYPE_U16, ONNX_TENSOR_INT32S, 2},
    [5] = {"INT16", VC_DTYPE_I16, ONNX_TENSOR_INT32S, 2},
    [6] = {"INT32", VC_DTYPE_I32, ONNX_TENSOR_INT32S, 4},
    [7] = {"INT64", VC_DTYPE_I64, ONNX_TENSOR_INT64S, 8},
    [ONNX_STRING] = {"STRING", VC_DTYPE_RAW, ONNX_TENSOR_STRINGS, 0},
    [9] = {"BOOL", VC_DTYPE_BOOL, ONNX_TENSOR_INT32S, 1},
    [ONNX_FLOAT16] = {"FLOAT16", VC_DTYPE_F16, ONNX_TENSOR_INT32S, 2},
    [ONNX_DOUBLE] = {"DOUBLE", VC_DTYPE_F64, ONNX_TENSOR_DOUBLES, 8},
    [12] = {"UINT32", VC_DTYPE_U32, ONNX_TENSOR_UINT64S, 4},
    [13] = {"UINT64", VC_DTYPE_U64, ONNX_TENSOR_UINT64S, 8},
    [14] = {"COMPLEX64", VC_DTYPE_C64, ONNX_TENSOR_FLOATS, 4},
    [15] = {"COMPLEX128", VC_DTYPE_C128, ONNX_TENSOR_DOUBLES, 8},
    [ONNX_BFLOAT16] = {"BFLOAT16", VC_DTYPE_BF16, ONNX_TENSOR_INT32S, 2},
    [17] = {"FLOAT8E4M3FN", VC_DTYPE_F8_E4M3, ONNX_TENSOR_INT32S, 1},
    [18] = {"FLOAT8E4M3FNUZ", VC_DTYPE_F8_E4M3FNUZ, ONNX_TENSOR_INT32S, 1},
    [19] = {"FLOAT8E5M2", VC_DTYPE_F8_E5M2, ONNX_TENSOR_INT32S, 1},
    [20] = {"FLOAT8E5M2FNUZ", VC_DTYPE_F8_E5M2FNUZ, ONNX_TENSOR_INT32S, 1},
    [21] = {"UINT4", VC_DTYPE_U4, ONNX_TENSOR_INT32S, 1},
    [22] = {"INT4", VC_DTYPE_I4, ONNX_TENSOR_INT32S, 1},
    [23] = {"FLOAT4E2M1", VC_DTYPE_F4_E2M1, ONNX_TENSOR_INT32S, 1},
    [24] = {"FLOAT8E8M0", VC_DTYPE_F8_E8M0, ONNX_TENSOR_INT32S, 1},
    [25] = {"UINT2", VC_DTYPE_RAW, ONNX_TENSOR_INT32S, 1},
    [26] = {"INT2", VC_DTYPE_RAW, ONNX_TENSOR_INT32S, 1},
};

/* The number of data_type; 0: ONNX has none for it. */
uint32_t vc_onnx_type_of(enum vc_dtype dtype)
{
    for (uint32_t i = 0; i < ONNX_N_TYPES; i++) {
        if (vc_onnx_types[i].name != NULL && vc_onnx_types[i].dtype == dtype && dtype != VC_DTYPE_RAW) {
            return i;
        }
    }
    return 0;
}

/* VC_DTYPE_RAW for types that are not taken apart. */
enum vc_dtype vc_onnx_dtype(uint64_t type)
{
    return type < ONNX_N_TYPES && vc_onnx_types[type].name != NULL ? vc_onnx_types[type].dtype : VC_DTYPE_RAW;
}

/* ---- the header ---- */

/* What a walk over the fields of a TensorProto has seen. */
struct seen {
    struct onnx_tensor *tensor;
    uint64_t dims[VC_MAX_DIMS];
    bool type, name, raw, external, location;
    uint32_t numbers;      /* the field that holds numbers; 0: none */
    uint64_t n_chunks;     /* fields of that number */
    struct vc_span packed; /* the last packed one */
    struct onnx_external where;
};

/* A field that holds values as numbers. */
static bool is_numbers(uint32_t number)
{
    return number == ONNX_TENSOR_FLOATS || number == ONNX_TENSOR_INT32S || number == ONNX_TENSOR_INT64S ||
           number == ONNX_TENSOR_DOUBLES || number == ONNX_TENSOR_UINT64S;
}

/* How one number of that field is written. */
static enum vc_wire_type wire_of(uint32_t number)
{
    return number == ONNX_TENSOR_FLOATS    ? VC_WIRE_FIXED32
           : number == ONNX_TENSOR_DOUBLES ? VC_WIRE_FIXED64
                                           : VC_WIRE_VARINT;
}

/* A field that may come once. protobuf takes the last of several; two readers that differ in that would see two models.
 */
static enum vc_status once(const struct onnx_reader *r, const struct vc_field *field, bool *seen, const char *what)
{
    VC_REFUSE_IF(*seen, r->ctx, VC_E_FORMAT, "has %s twice (again at offset %" PRIu64 ")", what, field->all.at);
    *seen = true;
    return VC_OK;
}

/* One dimension, below 2^63. */
static enum vc_status add_dim(const struct onnx_reader *r, struct seen *s, uint64_t value)
{
    VC_REFUSE_IF(s->tensor->n_dims == VC_MAX_DIMS, r->ctx, VC_E_UNSUPPORTED, "has more than %d dimensions",
                 VC_MAX_DIMS);
    VC_REFUSE_IF(value > INT64_MAX, r->ctx, VC_E_FORMAT, "dimension %u is %" PRId64 ", expected a number from 0 on",
                 s->tensor->n_dims, (int64_t)value);
    s->dims[s->tensor->n_dims++] = value;
    return VC_OK;
}

/* dims come one at a time, as proto2 writes them, or packed. */
static enum vc_status take_dims(struct onnx_reader *r, struct seen *s, const struct vc_field *field)
{
    struct vc_span rest = field->data;
    uint64_t value;

    if (field->type == VC_WIRE_VARINT) {
        return add_dim(r, s, field->value);
    }
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "its dims"));
    while (rest.n != 0) {
        VC_CALL(vc_wire_varint(&r->wire, &rest, &value));
        VC_CALL(add_dim(r, s, value));
    }
    return VC_OK;
}

/* Unknown numbers are refused: without the size of an element nothing behind it can be checked. */
static enum vc_status take_type(struct onnx_reader *r, struct seen *s, const struct vc_field *field)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_VARINT, "its data_type"));
    VC_CALL(once(r, field, &s->type, "data_type"));
    VC_REFUSE_IF(field->value >= ONNX_N_TYPES || vc_onnx_types[field->value].name == NULL, r->ctx,
                 field->value == 0 ? VC_E_FORMAT : VC_E_UNSUPPORTED, "has data_type %" PRIu64 ", which is not known",
                 field->value);
    s->tensor->type = (uint32_t)field->value;
    return VC_OK;
}

/* The name as a symbol of the graph; tensors inside nodes may have none. */
static enum vc_status take_name(struct onnx_reader *r, struct seen *s, const struct vc_field *field)
{
    VC_CALL(once(r, field, &s->name, "name"));
    VC_CALL(vc_onnx_symbol_read(r, field, "its name", &s->tensor->symbol));
    if (s->tensor->symbol != ONNX_NONE) {
        s->tensor->name = r->self->symbols.list[s->tensor->symbol].name;
    }
    VC_REFUSE_IF(!vc_utf8_valid(r->name, (size_t)field->data.n), r->ctx, VC_E_FORMAT, "its name is no UTF-8");
    return VC_OK;
}

/* Only where the bytes are; their number is compared with the shape later. */
static enum vc_status take_raw(struct onnx_reader *r, struct seen *s, const struct vc_field *field)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "its raw_data"));
    VC_CALL(once(r, field, &s->raw, "raw_data"));
    s->tensor->values = field->data;
    return VC_OK;
}

/* A field of numbers: counted here, read in check_numbers. */
static enum vc_status take_numbers(struct onnx_reader *r, struct seen *s, const struct vc_field *field)
{
    if (field->type == VC_WIRE_BYTES && field->data.n == 0) {
        return VC_OK; /* no numbers */
    }
    if (field->type != VC_WIRE_BYTES) {
        VC_CALL(vc_wire_expect(&r->wire, field, wire_of(field->number), "its values"));
    }
    VC_REFUSE_IF(s->numbers != 0 && s->numbers != field->number, r->ctx, VC_E_FORMAT,
                 "has values in two fields, %" PRIu32 " and %" PRIu32, s->numbers, field->number);
    s->numbers = field->number;
    s->n_chunks++;
    s->packed = field->type == VC_WIRE_BYTES ? field->data : (struct vc_span){0, 0};
    return VC_OK;
}

/* 0: in this file; 1: in another one. */
static enum vc_status take_location(struct onnx_reader *r, struct seen *s, const struct vc_field *field)
{
    VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_VARINT, "its data_location"));
    VC_CALL(once(r, field, &s->location, "data_location"));
    VC_REFUSE_IF(field->value > 1, r->ctx, VC_E_UNSUPPORTED, "has data_location %" PRIu64 ", which is not known",
                 field->value);
    s->external = field->value == 1;
    return VC_OK;
}

/* A field of a TensorProto. Unknown ones are skipped; the writer copies them. */
static enum vc_status take_field(struct onnx_reader *r, struct seen *s, const struct vc_field *field)
{
    switch (field->number) {
    case ONNX_TENSOR_DIMS:
        return take_dims(r, s, field);
    case ONNX_TENSOR_TYPE:
        return take_type(r, s, field);
    case ONNX_TENSOR_NAME:
        return take_name(r, s, field);
    case ONNX_TENSOR_RAW:
        return take_raw(r, s, field);
    case ONNX_TENSOR_LOCATION:
        return take_location(r, s, field);
    case ONNX_TENSOR_EXTERNAL:
        VC_CALL(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "its external_data"));
        return vc_onnx_external_entry(r, field->data, &s->where);
    case ONNX_TENSOR_SEGMENT:
        return vc_fail(r->ctx, VC_E_UNSUPPORTED, "is a segment of a tensor; only whole ones can be read");
    default:
        return is_numbers(field->number) ? take_numbers(r, s, field) : VC_OK;
    }
    return VC_OK;
}

/* ---- values ---- */

/* Elements and bytes, from shape and type. Dimensions of 0 are left out of the product, so that they cannot hide an
 * overflow. */
static enum vc_status measure(struct onnx_reader *r, struct seen *s)
{
    struct onnx_tensor *t = s->tensor;
    uint64_t n = 1;
    bool empty = false;
    uint64_t *dims;

    for (unsigned d = 0; d < t->n_dims; d++) {
        empty |= s->dims[d] == 0;
        VC_REFUSE_IF(!vc_mul_u64(n, s->dims[d] == 0 ? 1 : s->dims[d], &n), r->ctx, VC_E_FORMAT,
                     "its shape has more than 2^64 elements");
    }
    t->n_elems = empty ? 0 : n;
    t->n_bytes = vc_dtype_bytes(vc_onnx_types[t->type].dtype, n);
    VC_REFUSE_IF(t->n_bytes > INT64_MAX, r->ctx, VC_E_FORMAT, "its shape needs more than 2^63 bytes");
    t->n_bytes = empty ? 0 : t->n_bytes;
    VC_CALL_ALLOC(dims = vc_arena_alloc(r->ctx, &r->self->arena, t->n_dims * sizeof *dims));
    memcpy(dims, s->dims, t->n_dims * sizeof *dims);
    t->dims = dims;
    return VC_OK;
}

/* Values as numbers: packed floats are one run of bytes; others are read through once, to see that they are right. */
static enum vc_status check_numbers(struct onnx_reader *r, struct seen *s)
{
    struct onnx_tensor *t = s->tensor;
    const struct onnx_type *type = &vc_onnx_types[t->type];
    struct onnx_numbers numbers = {.n_bytes = 0};
    bool fixed = wire_of(s->numbers) != VC_WIRE_VARINT;
    enum vc_status status;

    VC_REFUSE_IF(s->numbers != type->field, r->ctx, VC_E_FORMAT,
                 "is %s, but has its values in field %" PRIu32 ", expected %" PRIu32, type->name, s->numbers,
                 type->field);
    if (fixed && s->n_chunks == 1 && s->packed.n == t->n_bytes) {
        t->place = ONNX_PLACE_SPAN;
        t->values = s->packed;
        return VC_OK;
    }
    t->place = ONNX_PLACE_NUMBERS;
    VC_TRY(vc_onnx_numbers_open(r->ctx, r->wire.file, t, &numbers));
    VC_TRY(vc_onnx_numbers_read(&numbers, NULL, t->n_bytes));
    VC_TRY(vc_onnx_numbers_end(&numbers));
out:
    vc_onnx_numbers_close(&numbers);
    return status;
}

/* Decides where the values are; they have to be in exactly one place. */
static enum vc_status find_values(struct onnx_reader *r, struct seen *s)
{
    struct onnx_tensor *t = s->tensor;

    VC_REFUSE_IF(s->external && (t->values.n != 0 || s->numbers != 0), r->ctx, VC_E_FORMAT,
                 "has values here and in another file");
    if (s->external) {
        return vc_onnx_external_find(r, &s->where, t);
    }
    VC_REFUSE_IF(t->values.n != 0 && s->numbers != 0, r->ctx, VC_E_FORMAT,
                 "has values in raw_data and in field %" PRIu32, s->numbers);
    if (s->numbers != 0) {
        return check_numbers(r, s);
    }
    t->place = ONNX_PLACE_SPAN;
    VC_REFUSE_IF(t->values.n != t->n_bytes, r->ctx, VC_E_FORMAT,
                 "has %" PRIu64 " bytes of values, but its shape and type need %" PRIu64, t->values.n, t->n_bytes);
    return VC_OK;
}

/* Two steps: all fields, in any order; then shape and values, which need type and dims. */
enum vc_status vc_onnx_tensor_parse(struct onnx_reader *r, struct vc_span message, struct onnx_tensor *tensor)
{
    struct seen s = {.tensor = tensor};
    struct vc_span rest = message;
    struct vc_field field;
    enum vc_status status = VC_OK;

    *tensor = (struct onnx_tensor){.message = message, .symbol = ONNX_NONE, .index = ONNX_NONE};
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &field));
        VC_TRY(take_field(r, &s, &field));
    }
    if (!s.type) {
        VC_TRY(vc_fail(r->ctx, VC_E_FORMAT, "has no data_type"));
    }
    if (vc_onnx_types[tensor->type].dtype != VC_DTYPE_RAW) {
        VC_TRY(measure(r, &s));
        VC_TRY(find_values(r, &s));
    } else if (s.external) {
        r->self->n_inner_external++;
    }
out:
    vc_free(r->ctx, s.where.location);
    return status;
}

/* ---- numbers ---- */

/* A walk of its own over the message, with its own window. */
enum vc_status vc_onnx_numbers_open(struct vc_ctx *ctx, const struct vc_infile *file, const struct onnx_tensor *tensor,
                                    struct onnx_numbers *numbers)
{
    *numbers = (struct onnx_numbers){.tensor = tensor, .rest = tensor->message};
    return vc_wire_open(ctx, file, &numbers->wire);
}

void vc_onnx_numbers_close(struct onnx_numbers *numbers)
{
    vc_wire_close(&numbers->wire);
}

/* Goes to the next number's field where the chunk is used up; *more false if there is none. */
static enum vc_status next_chunk(struct onnx_numbers *numbers, struct vc_field *field, bool *more)
{
    uint32_t number = vc_onnx_types[numbers->tensor->type].field;

    *more = true;
    while (numbers->chunk.n == 0) {
        if (numbers->rest.n == 0) {
            *more = false;
            return VC_OK;
        }
        VC_CALL(vc_wire_field(&numbers->wire, &numbers->rest, field));
        if (field->number == number && field->type != VC_WIRE_BYTES) {
            return VC_OK; /* one number by itself */
        }
        numbers->chunk = field->number == number ? field->data : (struct vc_span){0, 0};
    }
    return VC_OK;
}

/* One number, as it stands in the file. */
static enum vc_status next_number(struct onnx_numbers *numbers, uint64_t *value, bool *more)
{
    enum vc_wire_type type = wire_of(vc_onnx_types[numbers->tensor->type].field);
    struct vc_field field = {.number = 0};
    unsigned char bytes[8] = {0};
    size_t n = type == VC_WIRE_FIXED32 ? 4 : 8;

    VC_CALL(next_chunk(numbers, &field, more));
    if (!*more) {
        return VC_OK;
    }
    if (numbers->chunk.n == 0) {
        *value = field.value;
    } else if (type == VC_WIRE_VARINT) {
        VC_CALL(vc_wire_varint(&numbers->wire, &numbers->chunk, value));
    } else if (numbers->chunk.n < n) {
        return vc_fail(numbers->wire.ctx, VC_E_FORMAT, "its values end inside a number (at offset %" PRIu64 ")",
                       numbers->chunk.at);
    } else {
        VC_CALL(vc_wire_read(&numbers->wire, numbers->chunk.at, bytes, n));
        *value = vc_le64(bytes);
        numbers->chunk.at += n;
        numbers->chunk.n -= n;
    }
    return VC_OK;
}

/* The number is one of its type. int32_data holds everything that is narrower; negative numbers come with all 64 bits
 * set, or as 32. */
static bool fits(const struct onnx_type *type, uint64_t value)
{
    int64_t v = (int64_t)value;

    switch (type->dtype) {
    case VC_DTYPE_I32:
        return v >= INT32_MIN && v <= (int64_t)UINT32_MAX;
    case VC_DTYPE_I8:
        return v >= INT8_MIN && v <= INT8_MAX;
    case VC_DTYPE_I16:
        return v >= INT16_MIN && v <= INT16_MAX;
    case VC_DTYPE_BOOL:
        return v == 0 || v == 1;
    case VC_DTYPE_U32:
        return value <= UINT32_MAX;
    default:
        return type->entry_bytes >= 4 || value >> (8 * type->entry_bytes) == 0;
    }
}

/* Number by number; each gives entry_bytes of its lowest bytes. */
enum vc_status vc_onnx_numbers_read(struct onnx_numbers *numbers, void *dst, uint64_t n)
{
    const struct onnx_type *type = &vc_onnx_types[numbers->tensor->type];
    unsigned char *to = dst;

    for (uint64_t done = 0; done < n; done += type->entry_bytes) {
        unsigned char bytes[8];
        uint64_t value = 0;
        bool more = false;

        VC_CALL(next_number(numbers, &value, &more));
        VC_REFUSE_IF(!more, numbers->wire.ctx, VC_E_FORMAT,
                     "has values for %" PRIu64 " bytes, but its shape and type need %" PRIu64, numbers->n_bytes + done,
                     numbers->tensor->n_bytes);
        VC_REFUSE_IF(!fits(type, value), numbers->wire.ctx, VC_E_FORMAT, "is %s, which cannot be the value %" PRId64,
                     type->name, (int64_t)value);
        if (to != NULL) {
            vc_put_le64(bytes, value);
            memcpy(to + done, bytes, type->entry_bytes);
        }
    }
    numbers->n_bytes += n;
    return VC_OK;
}

/* After the last number that the shape needs: there may be no more. */
enum vc_status vc_onnx_numbers_end(struct onnx_numbers *numbers)
{
    uint64_t value;
    bool more;

    VC_CALL(next_number(numbers, &value, &more));
    VC_REFUSE_IF(more, numbers->wire.ctx, VC_E_FORMAT,
                 "has more values than the %" PRIu64 " bytes that its shape and type need", numbers->tensor->n_bytes);
    return VC_OK;
}
