/* protobuf_wire.c - fields of protocol buffers, read from a file through a window and written to memory.
 *
 *     08 96 01           tag 08: field 1, type 0 (varint); value 150
 *     12 03 61 62 63     tag 12: field 2, type 2 (bytes); 3 bytes, "abc"
 *     1d 00 00 80 3f     tag 1d: field 3, type 5 (fixed32); 1.0f
 *
 * A span (vc_span) says where in the file a message lies, and shrinks as its fields are taken; bytes of a field are not
 * read until somebody asks. Called by the readers of ONNX and of SentencePiece. Source: the encoding page of Protocol
 * Buffers. */
#include "formats/io/protobuf_wire.h"

#define MAX_FIELD (((uint32_t)1 << 29) - 1)
#define END_GROUP 4

/* ---- varints ---- */

/* 7 bits per byte, lowest first: 96 01 is 150. */
size_t vc_wire_decode(const unsigned char *p, size_t n, uint64_t *value)
{
    uint64_t v = 0;

    for (size_t i = 0; i < n && i < VC_WIRE_VARINT_BYTES; i++) {
        if (i == VC_WIRE_VARINT_BYTES - 1 && p[i] > 1) {
            return 0; /* more than 64 bits */
        }
        v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
        if (p[i] < 0x80) {
            *value = v;
            return i + 1;
        }
    }
    return 0;
}

/* ---- reading ---- */

/* The window lives until vc_wire_close. */
enum vc_status vc_wire_open(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_wire *wire)
{
    *wire = (struct vc_wire){.ctx = ctx, .file = file};
    wire->window = vc_alloc(ctx, VC_TAG_IO, VC_WIRE_WINDOW_BYTES);
    return wire->window != NULL ? VC_OK : VC_E_NOMEM;
}

void vc_wire_close(struct vc_wire *wire)
{
    if (wire->window != NULL) {
        vc_free(wire->ctx, vc_give(&wire->window));
    }
}

/* *p points to up to `want` bytes from `at` on, in the window, fewer at the end of the file. A fill that fails leaves
 * an empty window. */
static enum vc_status look(struct vc_wire *wire, uint64_t at, size_t want, const unsigned char **p, size_t *n)
{
    uint64_t left = at < wire->file->size_bytes ? wire->file->size_bytes - at : 0;

    want = (size_t)vc_min_u64(want, left);
    if (at < wire->window_at || at - wire->window_at > wire->window_n ||
        wire->window_n - (size_t)(at - wire->window_at) < want) {
        size_t fill = (size_t)vc_min_u64(VC_WIRE_WINDOW_BYTES, left);

        wire->window_n = 0;
        VC_CALL(vc_infile_read(wire->ctx, wire->file, at, wire->window, fill));
        wire->window_at = at;
        wire->window_n = fill;
    }
    *p = wire->window + (size_t)(at - wire->window_at);
    *n = want;
    return VC_OK;
}

/* Large reads go past the window, which would only be emptied by them. */
enum vc_status vc_wire_read(struct vc_wire *wire, uint64_t at, void *dst, size_t n)
{
    const unsigned char *p;
    size_t got;

    if (n > VC_WIRE_WINDOW_BYTES / 2) {
        return vc_infile_read(wire->ctx, wire->file, at, dst, n);
    }
    VC_CALL(look(wire, at, n, &p, &got));
    VC_REFUSE_IF(got < n, wire->ctx, VC_E_FORMAT,
                 "%zu bytes are needed at offset %" PRIu64 ", but the file ends before", n, at);
    memcpy(dst, p, n);
    return VC_OK;
}

/* A number of more than 64 bits, or one that the span's end cuts, is refused. */
enum vc_status vc_wire_varint(struct vc_wire *wire, struct vc_span *rest, uint64_t *value)
{
    uint64_t in_window = rest->at - wire->window_at; /* of the bytes in front of the window: a large number */
    const unsigned char *p;
    size_t n;

    if (rest->n != 0 && in_window < wire->window_n && wire->window[in_window] < 0x80) { /* most have one byte */
        *value = wire->window[in_window];
        rest->at++;
        rest->n--;
        return VC_OK;
    }
    VC_CALL(look(wire, rest->at, (size_t)vc_min_u64(VC_WIRE_VARINT_BYTES, rest->n), &p, &n));
    n = vc_wire_decode(p, n, value);
    VC_REFUSE_IF(n == 0, wire->ctx, VC_E_FORMAT, "at offset %" PRIu64 " stands no number that ends in time", rest->at);
    rest->at += n;
    rest->n -= n;
    return VC_OK;
}

/* The next n bytes of *rest, as a span; nothing is read. */
static enum vc_status take(struct vc_wire *wire, struct vc_span *rest, uint64_t n, struct vc_span *data)
{
    VC_REFUSE_IF(n > rest->n, wire->ctx, VC_E_FORMAT,
                 "at offset %" PRIu64 " a field of %" PRIu64 " bytes starts where only %" PRIu64 " are left", rest->at,
                 n, rest->n);
    *data = (struct vc_span){rest->at, n};
    rest->at += n;
    rest->n -= n;
    return VC_OK;
}

/* A number of 4 or 8 bytes. Four bytes are in the low half of field->value. */
static enum vc_status take_fixed(struct vc_wire *wire, struct vc_span *rest, size_t n, struct vc_field *field)
{
    unsigned char bytes[8] = {0};

    VC_CALL(take(wire, rest, n, &field->data));
    VC_CALL(vc_wire_read(wire, field->data.at, bytes, n));
    field->value = vc_le64(bytes);
    return VC_OK;
}

/* Number and wire type of the next field; type 4 (the end of a group) only where group_end allows it. Field numbers are
 * 1 to 2^29 - 1. */
static enum vc_status take_tag(struct vc_wire *wire, struct vc_span *rest, bool group_end, uint32_t *number,
                               unsigned *type)
{
    uint64_t at = rest->at;
    uint64_t tag;

    VC_CALL(vc_wire_varint(wire, rest, &tag));
    *type = (unsigned)(tag & 7);
    VC_REFUSE_IF(tag >> 3 == 0 || tag >> 3 > MAX_FIELD, wire->ctx, VC_E_FORMAT,
                 "at offset %" PRIu64 " starts no field: its number would be %" PRIu64, at, tag >> 3);
    *number = (uint32_t)(tag >> 3);
    VC_REFUSE_IF(*type > VC_WIRE_FIXED32 || (*type == END_GROUP && !group_end), wire->ctx, VC_E_FORMAT,
                 "at offset %" PRIu64 " the field %" PRIu32 " has wire type %u, which there is not", at, *number,
                 *type);
    return VC_OK;
}

/* What follows the tag of a field that is no group. */
static enum vc_status take_simple(struct vc_wire *wire, struct vc_span *rest, struct vc_field *field)
{
    uint64_t n;

    switch (field->type) {
    case VC_WIRE_VARINT:
        VC_CALL(vc_wire_varint(wire, rest, &field->value));
        break;
    case VC_WIRE_FIXED64:
        VC_CALL(take_fixed(wire, rest, 8, field));
        break;
    case VC_WIRE_FIXED32:
        VC_CALL(take_fixed(wire, rest, 4, field));
        break;
    default:
        VC_CALL(vc_wire_varint(wire, rest, &n));
        VC_CALL(take(wire, rest, n, &field->data));
        break;
    }
    return VC_OK;
}

/* Everything up to the end of the group, which may hold groups; a stack of their numbers says which one ends.
 * field->data becomes what is between the two tags. No recursion, because a file may nest as deep as it likes. */
static enum vc_status skip_group(struct vc_wire *wire, struct vc_span *rest, struct vc_field *field)
{
    uint32_t open[VC_WIRE_MAX_GROUPS];
    unsigned n_open = 1;

    open[0] = field->number;
    field->data = *rest;
    while (n_open != 0) {
        struct vc_field inner = {.number = 0};
        unsigned type = 0;

        field->data.n = rest->at - field->data.at;
        VC_REFUSE_IF(rest->n == 0, wire->ctx, VC_E_FORMAT, "the group at offset %" PRIu64 " has no end", field->all.at);
        VC_CALL(take_tag(wire, rest, true, &inner.number, &type));
        if (type == END_GROUP) {
            VC_REFUSE_IF(inner.number != open[--n_open], wire->ctx, VC_E_FORMAT,
                         "the group at offset %" PRIu64 " ends as another one", field->all.at);
        } else if (type == VC_WIRE_GROUP) {
            VC_REFUSE_IF(n_open == VC_WIRE_MAX_GROUPS, wire->ctx, VC_E_FORMAT,
                         "the group at offset %" PRIu64 " holds more than %d levels", field->all.at,
                         VC_WIRE_MAX_GROUPS);
            open[n_open++] = inner.number;
        } else {
            inner.type = (enum vc_wire_type)type;
            VC_CALL(take_simple(wire, rest, &inner));
        }
    }
    return VC_OK;
}

/* Reads the tag and, of a field with bytes, only its length. */
enum vc_status vc_wire_field(struct vc_wire *wire, struct vc_span *rest, struct vc_field *field)
{
    unsigned type = 0;

    *field = (struct vc_field){.all = {rest->at, 0}};
    VC_CALL(take_tag(wire, rest, false, &field->number, &type));
    field->type = (enum vc_wire_type)type;
    if (field->type == VC_WIRE_GROUP) {
        VC_CALL(skip_group(wire, rest, field));
    } else {
        VC_CALL(take_simple(wire, rest, field));
    }
    field->all.n = rest->at - field->all.at;
    return VC_OK;
}

enum vc_status vc_wire_next(struct vc_wire *wire, struct vc_field *field)
{
    struct vc_span rest = field->rest;

    VC_CALL(vc_wire_field(wire, &rest, field));
    field->rest = rest;
    return VC_OK;
}

enum vc_status vc_wire_expect(const struct vc_wire *wire, const struct vc_field *field, enum vc_wire_type type,
                              const char *what)
{
    if (field->type == type) {
        return VC_OK;
    }
    return vc_fail(wire->ctx, VC_E_FORMAT, "%s (at offset %" PRIu64 ") has wire type %d, expected %d", what,
                   field->all.at, (int)field->type, (int)type);
}

/* ---- writing ---- */

/* 150 becomes 96 01. */
void vc_wire_put_varint(struct vc_text *text, uint64_t value)
{
    char bytes[VC_WIRE_VARINT_BYTES];
    size_t n = 0;

    while (value >= 0x80) {
        bytes[n++] = (char)(unsigned char)(0x80 | (value & 0x7f));
        value >>= 7;
    }
    bytes[n++] = (char)value;
    vc_text_add_bytes(text, bytes, n);
}

void vc_wire_put_tag(struct vc_text *text, uint32_t number, enum vc_wire_type type)
{
    vc_wire_put_varint(text, (uint64_t)number << 3 | (uint64_t)type);
}

void vc_wire_put_int(struct vc_text *text, uint32_t number, uint64_t value)
{
    vc_wire_put_tag(text, number, VC_WIRE_VARINT);
    vc_wire_put_varint(text, value);
}

void vc_wire_put_bytes(struct vc_text *text, uint32_t number, const void *data, size_t n)
{
    vc_wire_put_tag(text, number, VC_WIRE_BYTES);
    vc_wire_put_varint(text, n);
    vc_text_add_bytes(text, data, n);
}

void vc_wire_put_string(struct vc_text *text, uint32_t number, const char *s)
{
    vc_wire_put_bytes(text, number, s, strlen(s));
}
