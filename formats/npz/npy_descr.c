/* npy_descr.c - parses 'descr', the type of the elements of an npy array.
 *
 *     '<f4'                                         numbers: byte order, letter, bytes of an element
 *     '<U3'  '|S5'  '<M8[ns]'  '<f16'               text (3 characters of 4 bytes), text, dates, long doubles
 *     '|O'                                          Python objects: the data is one pickle, of any length
 *     [('x', '<f4'), ('y', '<i2', (3,)), ...]       structured: fields with names, a type and perhaps a shape
 *
 * What is no number here becomes no tensor of numbers (vc_npy_header.other), but it is parsed as strictly: its size has
 * to fit the data, too. */
#include "formats/npz/npy_descr.h"

#define VC_NPY_MAX_NESTING 16

/* 'descr' of the types that have a dtype here. */
struct npy_descr {
    char letter;
    uint8_t item_bytes;
    enum vc_dtype dtype;
};

static const struct npy_descr descrs[] = {{'b', 1, VC_DTYPE_BOOL}, {'i', 1, VC_DTYPE_I8},   {'u', 1, VC_DTYPE_U8},
                                          {'i', 2, VC_DTYPE_I16},  {'u', 2, VC_DTYPE_U16},  {'i', 4, VC_DTYPE_I32},
                                          {'u', 4, VC_DTYPE_U32},  {'i', 8, VC_DTYPE_I64},  {'u', 8, VC_DTYPE_U64},
                                          {'f', 2, VC_DTYPE_F16},  {'f', 4, VC_DTYPE_F32},  {'f', 8, VC_DTYPE_F64},
                                          {'c', 8, VC_DTYPE_C64},  {'c', 16, VC_DTYPE_C128}};
static const size_t n_descrs = sizeof descrs / sizeof descrs[0];

/* A string of 'descr', taken apart: "<M8[ns]" is '<', 'M', 8 and "[ns]". */
struct descr_parts {
    char order, letter;
    uint32_t size;
    bool has_size, unit;
};

/* Refuses a 'descr' that NumPy does not write. */
static enum vc_status refuse_descr(struct vc_ctx *ctx, const struct vc_npy_string *s)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, "npy dtype '%.*s' is not a type that is known here",
                   (int)(s->n < 24 ? s->n : 24), (const char *)s->p);
}

/* An optional byte order (< little, > big, | none, = that of the machine), a letter, the bytes of an element (of text:
 * the characters), and a unit in brackets. False: it is nothing like that. */
static bool split_descr(const struct vc_npy_string *s, struct descr_parts *out)
{
    size_t at = 0;

    *out = (struct descr_parts){.order = '|'};
    if (s->n > 0 && s->p[0] != '\0' && strchr("<>|=", (char)s->p[0]) != NULL) {
        out->order = (char)s->p[at++];
    }
    out->letter = at < s->n ? (char)s->p[at++] : '\0';
    while (at < s->n && s->p[at] >= '0' && s->p[at] <= '9') {
        if (out->size > (UINT32_MAX - 9) / 10 || (out->has_size && out->size == 0)) {
            return false;
        }
        out->size = out->size * 10 + (uint32_t)(s->p[at++] - '0');
        out->has_size = true;
    }
    if (at < s->n && s->p[at] == '[') {
        out->unit = s->n - at > 2 && s->p[s->n - 1] == ']';
        return out->unit;
    }
    return at == s->n;
}

/* Types of elements that are no numbers here: sets what they are and how long. False: NumPy has no such type. */
static bool take_other(const struct descr_parts *d, struct vc_npy_header *out)
{
    out->item_bytes = d->size;
    switch (d->letter) {
    case 'O':
        out->other = "objects";
        out->pickled = true;
        return !d->unit;
    case 'S':
    case 'a':
        out->other = "text";
        return d->has_size && !d->unit;
    case 'U':
        out->other = "text";
        out->item_bytes = 4 * d->size;
        return d->has_size && !d->unit && d->size <= UINT32_MAX / 4;
    case 'M':
    case 'm':
        out->other = "dates or times";
        return d->size == 8;
    case 'V': /* of no bytes; others are a dtype */
        out->other = "elements without bytes";
        return d->has_size && d->size == 0 && !d->unit;
    case 'f':
        out->other = "long doubles";
        return (d->size == 12 || d->size == 16) && !d->unit;
    case 'c':
        out->other = "long doubles";
        return (d->size == 24 || d->size == 32) && !d->unit;
    default:
        return false;
    }
}

/* A 'descr' that is a string. */
static enum vc_status parse_descr(struct vc_ctx *ctx, const struct vc_npy_string *s, struct vc_npy_header *out)
{
    struct descr_parts d;

    VC_RETURN_IF(!split_descr(s, &d), refuse_descr(ctx, s));
    out->item_bytes = d.size;
    out->big_endian = false;
    if (d.letter == 'V' && d.size > 0 && !d.unit) {
        out->dtype = VC_DTYPE_VOID;
        return VC_OK;
    }
    for (size_t i = 0; i < n_descrs; i++) {
        if (descrs[i].letter == d.letter && descrs[i].item_bytes == d.size && !d.unit) {
            out->dtype = descrs[i].dtype;
            out->big_endian = d.order == '>' && d.size > 1;
            VC_REFUSE_IF(d.order == '|' && d.size > 1, ctx, VC_E_FORMAT,
                         "npy dtype '%.*s' does not tell its byte order", (int)s->n, (const char *)s->p);
            return VC_OK;
        }
    }
    return take_other(&d, out) ? VC_OK : refuse_descr(ctx, s);
}

/* ------------------------------------------------------------------------------------------------ fields */

static enum vc_status take_fields(struct vc_npy_text *text, unsigned depth, struct vc_npy_header *out);

/* The name of a field, or a title and a name in parentheses. */
static enum vc_status take_field_name(struct vc_npy_text *text)
{
    struct vc_npy_string name = {NULL, 0};

    if (!vc_npy_take(text, '(')) {
        return vc_npy_take_string(text, "the name of a field", true, &name);
    }
    VC_CALL(vc_npy_take_string(text, "the title of a field", true, &name));
    if (!vc_npy_take(text, ',')) {
        return vc_npy_unexpected(text, "',' after the title of a field");
    }
    VC_CALL(vc_npy_take_string(text, "the name of a field", true, &name));
    if (!vc_npy_take(text, ')')) {
        return vc_npy_unexpected(text, "')' after the name of a field");
    }
    return VC_OK;
}

/* One field, "('y', '<i2', (3,))": adds its bytes to *bytes; *pickled where it holds objects. */
static enum vc_status take_field(struct vc_npy_text *text, unsigned depth, uint64_t *bytes, bool *pickled)
{
    struct vc_npy_header field = {.dtype = VC_DTYPE_VOID};
    struct vc_npy_string s = {NULL, 0};

    if (!vc_npy_take(text, '(')) {
        return vc_npy_unexpected(text, "'(' before a field");
    }
    VC_CALL(take_field_name(text));
    if (!vc_npy_take(text, ',')) {
        return vc_npy_unexpected(text, "',' after the name of a field");
    }
    if (vc_npy_next_is(text, '[')) {
        VC_CALL(take_fields(text, depth + 1, &field));
    } else {
        VC_CALL(vc_npy_take_string(text, "the type of a field", false, &s));
        VC_CALL(parse_descr(text->ctx, &s, &field));
    }
    if (vc_npy_take(text, ',') && vc_npy_next_is(text, '(')) {
        VC_CALL(vc_npy_take_shape(text, field.shape, &field.n_dims));
        (void)vc_npy_take(text, ',');
    }
    if (!vc_npy_take(text, ')')) {
        return vc_npy_unexpected(text, "')' after a field");
    }
    uint64_t size = field.item_bytes;
    for (unsigned i = 0; i < field.n_dims; i++) {
        if (!vc_mul_u64(size, field.shape[i], &size)) {
            size = UINT64_MAX;
        }
    }
    VC_REFUSE_IF(!vc_add_u64(*bytes, size, bytes) || *bytes > INT32_MAX, text->ctx, VC_E_FORMAT,
                 "npy header: fields of more than 2^31 - 1 bytes");
    *pickled = *pickled || field.pickled;
    return VC_OK;
}

/* A list of fields. */
static enum vc_status take_fields(struct vc_npy_text *text, unsigned depth, struct vc_npy_header *out)
{
    uint64_t bytes = 0;
    bool pickled = false;

    VC_REFUSE_IF(depth == VC_NPY_MAX_NESTING, text->ctx, VC_E_FORMAT,
                 "npy header: more than %d structures inside each other", VC_NPY_MAX_NESTING);
    (void)vc_npy_take(text, '[');
    while (!vc_npy_take(text, ']')) {
        VC_CALL(take_field(text, depth, &bytes, &pickled));
        if (!vc_npy_take(text, ',')) {
            if (!vc_npy_take(text, ']')) {
                return vc_npy_unexpected(text, "',' or ']' after a field");
            }
            break;
        }
    }
    out->dtype = VC_DTYPE_VOID;
    out->item_bytes = (uint32_t)bytes;
    out->other = "structured";
    out->pickled = pickled;
    return VC_OK;
}

enum vc_status vc_npy_take_descr(struct vc_npy_text *text, struct vc_npy_header *out)
{
    struct vc_npy_string s = {NULL, 0};

    if (vc_npy_next_is(text, '[')) {
        return take_fields(text, 0, out);
    }
    VC_REFUSE_IF(vc_npy_next_is(text, '('), text->ctx, VC_E_UNSUPPORTED,
                 "npy dtype is a sub-array, not one type of numbers");
    enum vc_status status = vc_npy_take_string(text, "a string for 'descr'", false, &s);
    return status == VC_OK ? parse_descr(text->ctx, &s, out) : status;
}
