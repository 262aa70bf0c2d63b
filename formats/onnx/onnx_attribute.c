/* onnx_attribute.c - attributes of nodes as records of a program (core/model/program.h).
 *
 *     2a ..    attribute: 0a "strides" 40 02 40 02 a0 01 07        ints (8): 2, 2; type (20): 7, INTS
 *
 * Fields come in any order and lists one number at a time or packed, so each attribute is walked over twice: counted,
 * then filled. What it takes is in proportion to its bytes. */
#include <inttypes.h>
#include <string.h>

#include "core/base/checked.h"
#include "formats/onnx/onnx.h"

/* ---- arena and text ---- */

void *vc_onnx_items(struct onnx_program_reader *r, size_t n, size_t item_bytes)
{
    size_t all;
    void *items = vc_mul_size(n, item_bytes, &all) ? vc_arena_alloc(r->ctx, r->arena, all != 0 ? all : 1) : NULL;

    if (items != NULL) {
        memset(items, 0, all);
    }
    return items;
}

/* n bytes and a NUL. */
static enum vc_status read_bytes(struct onnx_program_reader *r, const struct vc_field *field, const char *what,
                                 const char **bytes)
{
    char *copy;
    enum vc_status status;

    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, what));
    if (field->data.n == 0) {
        *bytes = "";
        return VC_OK;
    }
    copy = vc_onnx_items(r, (size_t)field->data.n + 1, 1);
    VC_TRY_ALLOC(copy);
    VC_TRY(vc_wire_read(&r->wire, field->data.at, copy, (size_t)field->data.n));
    *bytes = copy;
out:
    return status;
}

enum vc_status vc_onnx_text_read(struct onnx_program_reader *r, const struct vc_field *field, const char *what,
                                 const char **text)
{
    enum vc_status status;

    VC_TRY(read_bytes(r, field, what, text));
    if (strlen(*text) != field->data.n) {
        return vc_fail(r->ctx, VC_E_FORMAT, "%s has a NUL in it (at offset %" PRIu64 ")", what, field->all.at);
    }
out:
    return status;
}

/* ---- tensors ---- */

/* What the fields of a TensorProto say. */
struct seen {
    uint64_t dims[VC_MAX_DIMS];
    unsigned n_dims;
    uint32_t type;
    bool has_raw, external;
    struct vc_span raw;
};

static enum vc_status add_dim(const struct onnx_program_reader *r, struct seen *s, uint64_t value)
{
    if (s->n_dims == VC_MAX_DIMS || value > INT64_MAX) {
        return vc_fail(r->ctx, VC_E_FORMAT, "a tensor in a node has more than %d dimensions, or a negative one",
                       VC_MAX_DIMS);
    }
    s->dims[s->n_dims++] = value;
    return VC_OK;
}

static enum vc_status take_tensor_field(struct onnx_program_reader *r, const struct vc_field *f, struct seen *s)
{
    struct vc_span packed = f->data;
    uint64_t value;
    enum vc_status status = VC_OK;

    switch (f->number) {
    case ONNX_TENSOR_DIMS:
        if (f->type == VC_WIRE_VARINT) {
            return add_dim(r, s, f->value);
        }
        VC_TRY(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "the shape of a tensor"));
        while (packed.n != 0) {
            VC_TRY(vc_wire_varint(&r->wire, &packed, &value));
            VC_TRY(add_dim(r, s, value));
        }
        break;
    case ONNX_TENSOR_TYPE:
        s->type = f->type == VC_WIRE_VARINT && f->value < ONNX_N_TYPES ? (uint32_t)f->value : 0;
        break;
    case ONNX_TENSOR_RAW:
        VC_TRY(vc_wire_expect(&r->wire, f, VC_WIRE_BYTES, "the raw_data of a tensor"));
        s->has_raw = true;
        s->raw = f->data;
        break;
    case ONNX_TENSOR_LOCATION:
        s->external |= f->type == VC_WIRE_VARINT && f->value != 0;
        break;
    default:
        break;
    }
out:
    return status;
}

/* The elements, from raw_data or number by number. */
static enum vc_status read_elements(struct onnx_program_reader *r, struct vc_span message, const struct seen *s,
                                    struct vc_program_tensor *tensor)
{
    const struct onnx_tensor as_file = {.message = message, .type = s->type, .n_bytes = tensor->n_bytes};
    struct onnx_numbers numbers = {.n_bytes = 0};
    unsigned char *data;
    enum vc_status status = VC_OK;

    if (s->has_raw ? s->raw.n != tensor->n_bytes : tensor->n_bytes / 8 > message.n) { /* a number is a byte or more */
        return vc_fail(r->ctx, VC_E_FORMAT,
                       "a tensor in a node (at offset %" PRIu64 ") needs %" PRIu64
                       " bytes by its shape and type and has others",
                       message.at, tensor->n_bytes);
    }
    data = vc_onnx_items(r, (size_t)tensor->n_bytes, 1);
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
    return status;
}

/* A TensorProto in an attribute. Without data where it is of no type here, elsewhere, or too large. */
static enum vc_status read_tensor(struct onnx_program_reader *r, const struct vc_field *field,
                                  const struct vc_program_tensor **out)
{
    struct seen s = {.n_dims = 0};
    struct vc_program_tensor *tensor = vc_onnx_items(r, 1, sizeof *tensor);
    struct vc_span rest = field->data;
    uint64_t *shape;
    uint64_t n = 1;
    struct vc_field f;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(tensor);
    VC_TRY(vc_wire_expect(&r->wire, field, VC_WIRE_BYTES, "a tensor in a node"));
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        VC_TRY(take_tensor_field(r, &f, &s));
    }
    shape = vc_onnx_items(r, s.n_dims, sizeof *shape);
    VC_TRY_ALLOC(shape);
    for (unsigned d = 0; d < s.n_dims; d++) {
        shape[d] = s.dims[d];
        if (!vc_mul_u64(n, s.dims[d], &n) || n > INT64_MAX / 16) {
            return vc_fail(r->ctx, VC_E_FORMAT, "the shape of a tensor in a node (at offset %" PRIu64 ") overflows",
                           field->all.at);
        }
    }
    tensor->dtype = vc_onnx_types[s.type].name != NULL ? vc_onnx_types[s.type].dtype : VC_DTYPE_RAW;
    tensor->n_dims = s.n_dims;
    tensor->shape = shape;
    *out = tensor;
    if (tensor->dtype != VC_DTYPE_RAW && !s.external) {
        tensor->n_bytes = vc_dtype_bytes(tensor->dtype, n);
        VC_TRY(tensor->n_bytes <= VC_PROGRAM_MAX_INLINE ? read_elements(r, field->data, &s, tensor) : VC_OK);
    }
out:
    return status;
}

/* ---- attributes ---- */

/* How many numbers a field of a list holds. */
static enum vc_status count_numbers(struct onnx_program_reader *r, const struct vc_field *f, uint64_t *n)
{
    struct vc_span packed = f->data;
    uint64_t value;
    enum vc_status status = VC_OK;

    if (f->type != VC_WIRE_BYTES || f->number == ONNX_ATTRIBUTE_STRINGS) {
        *n += 1;
    } else if (f->number == ONNX_ATTRIBUTE_FLOATS) {
        *n += f->data.n / 4;
    } else {
        while (packed.n != 0) {
            VC_TRY(vc_wire_varint(&r->wire, &packed, &value));
            *n += 1;
        }
    }
out:
    return status;
}

static double float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;

    memcpy(&f, &low, sizeof f);
    return (double)f;
}

/* Lists while they are filled. */
struct lists {
    int64_t *ints;
    double *floats;
    const char **strings;
    size_t n;
};

/* The numbers or strings of one field of the list. */
static enum vc_status take_items(struct onnx_program_reader *r, const struct vc_field *f, struct lists *to)
{
    struct vc_span packed = f->data;
    uint64_t value = f->value;
    unsigned char bytes[8] = {0};
    enum vc_status status = VC_OK;

    if (f->number == ONNX_ATTRIBUTE_STRINGS) {
        return vc_onnx_text_read(r, f, "a string in an attribute", &to->strings[to->n++]);
    }
    if (f->type != VC_WIRE_BYTES) {
        packed.n = 0;
        if (f->number == ONNX_ATTRIBUTE_INTS) {
            to->ints[to->n++] = (int64_t)value;
        } else {
            to->floats[to->n++] = float_of(value);
        }
    }
    while (packed.n >= (f->number == ONNX_ATTRIBUTE_FLOATS ? 4 : 1)) {
        if (f->number == ONNX_ATTRIBUTE_INTS) {
            VC_TRY(vc_wire_varint(&r->wire, &packed, &value));
            to->ints[to->n++] = (int64_t)value;
            continue;
        }
        VC_TRY(vc_wire_read(&r->wire, packed.at, bytes, 4));
        to->floats[to->n++] = float_of(vc_le64(bytes));
        packed.at += 4;
        packed.n -= 4;
    }
out:
    return status;
}

/* The list in the fields of that number. */
static enum vc_status read_list(struct onnx_program_reader *r, struct vc_span message, uint32_t number,
                                struct vc_program_attr *attr)
{
    struct vc_span rest = message;
    struct lists to = {.n = 0};
    uint64_t n = 0;
    struct vc_field f;
    enum vc_status status = VC_OK;

    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        VC_TRY(f.number == number ? count_numbers(r, &f, &n) : VC_OK);
    }
    to.ints = number == ONNX_ATTRIBUTE_INTS ? vc_onnx_items(r, (size_t)n, sizeof *to.ints) : NULL;
    to.floats = number == ONNX_ATTRIBUTE_FLOATS ? vc_onnx_items(r, (size_t)n, sizeof *to.floats) : NULL;
    to.strings = number == ONNX_ATTRIBUTE_STRINGS ? vc_onnx_items(r, (size_t)n, sizeof *to.strings) : NULL;
    if (to.ints == NULL && to.floats == NULL && to.strings == NULL) {
        return VC_E_NOMEM;
    }
    for (rest = message; rest.n != 0;) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        VC_TRY(f.number == number ? take_items(r, &f, &to) : VC_OK);
    }
    attr->n = to.n;
    attr->ints = to.ints;
    attr->floats = to.floats;
    attr->strings = to.strings;
out:
    return status;
}

/* What the attribute is: its type says it; in the first files, which had none, the field that is there. */
static enum vc_program_attr_kind kind_of(uint64_t type, uint32_t number)
{
    static const struct {
        uint64_t type;
        uint32_t number;
        enum vc_program_attr_kind kind;
    } kinds[] = {{1, ONNX_ATTRIBUTE_F, VC_PROGRAM_FLOAT},      {2, ONNX_ATTRIBUTE_I, VC_PROGRAM_INT},
                 {3, ONNX_ATTRIBUTE_S, VC_PROGRAM_STRING},     {4, ONNX_ATTRIBUTE_T, VC_PROGRAM_TENSOR},
                 {5, ONNX_ATTRIBUTE_G, VC_PROGRAM_GRAPH},      {6, ONNX_ATTRIBUTE_FLOATS, VC_PROGRAM_FLOATS},
                 {7, ONNX_ATTRIBUTE_INTS, VC_PROGRAM_INTS},    {8, ONNX_ATTRIBUTE_STRINGS, VC_PROGRAM_STRINGS},
                 {10, ONNX_ATTRIBUTE_GRAPHS, VC_PROGRAM_GRAPH}};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (type != 0 ? kinds[k].type == type : kinds[k].number == number) {
            return kinds[k].kind;
        }
    }
    return VC_PROGRAM_OTHER;
}

enum vc_status vc_onnx_attribute_read(struct onnx_program_reader *r, struct vc_span message,
                                      struct vc_program_attr *attr)
{
    struct vc_span rest = message;
    uint64_t type = 0;
    uint32_t number = 0;
    struct vc_field tensor = {.number = 0};
    struct vc_field f;
    enum vc_status status = VC_OK;

    *attr = (struct vc_program_attr){.name = "", .s = ""};
    while (rest.n != 0) {
        VC_TRY(vc_wire_field(&r->wire, &rest, &f));
        number = f.number > ONNX_ATTRIBUTE_NAME && f.number <= ONNX_ATTRIBUTE_GRAPHS ? f.number : number;
        if (f.number == ONNX_ATTRIBUTE_NAME) {
            VC_TRY(vc_onnx_text_read(r, &f, "the name of an attribute", &attr->name));
        } else if (f.number == ONNX_ATTRIBUTE_TYPE) {
            type = f.value;
        } else if (f.number == ONNX_ATTRIBUTE_REFERENCE) {
            VC_TRY(vc_onnx_text_read(r, &f, "the attribute of a function", &attr->reference));
        } else if (f.number == ONNX_ATTRIBUTE_F) {
            VC_TRY(vc_wire_expect(&r->wire, &f, VC_WIRE_FIXED32, "a float in an attribute"));
            attr->f = float_of(f.value);
        } else if (f.number == ONNX_ATTRIBUTE_I) {
            attr->i = (int64_t)f.value;
        } else if (f.number == ONNX_ATTRIBUTE_S) {
            VC_TRY(read_bytes(r, &f, "a string in an attribute", &attr->s));
            attr->n = (size_t)f.data.n;
        } else if (f.number == ONNX_ATTRIBUTE_T) {
            tensor = f;
        }
    }
    attr->kind = kind_of(type, number);
    if (attr->kind == VC_PROGRAM_TENSOR && tensor.number == 0) {
        attr->kind = VC_PROGRAM_OTHER;
    }
    VC_TRY(attr->kind == VC_PROGRAM_TENSOR    ? read_tensor(r, &tensor, &attr->tensor)
           : attr->kind == VC_PROGRAM_INTS    ? read_list(r, message, ONNX_ATTRIBUTE_INTS, attr)
           : attr->kind == VC_PROGRAM_FLOATS  ? read_list(r, message, ONNX_ATTRIBUTE_FLOATS, attr)
           : attr->kind == VC_PROGRAM_STRINGS ? read_list(r, message, ONNX_ATTRIBUTE_STRINGS, attr)
                                              : VC_OK);
out:
    return status;
}
