/* protobuf_wire.h - the wire format of protocol buffers, as much of it as an ONNX file needs.
 *
 *     message   fields back to back, in any order, known and unknown ones
 *     field     varint (number << 3 | wire type), then
 *                 0  a varint: 7 bits per byte, lowest first, bit 7 set on all but the last, at most 10 bytes
 *                 1  8 bytes    5  4 bytes, little-endian
 *                 2  varint n, then n bytes: a string, a message, or numbers packed back to back
 *                 3  a group up to the field of type 4 with the same number (not written any more, skipped here)
 *
 * The reader walks over fields of a file through a small window, so that what it skips is never read: a file of 2 GiB
 * costs a few reads per tensor. What the fields mean is the caller's business. Every length is checked against the
 * message it lies in. Sentences do not name the file. */
#pragma once

#include "core/text/text.h"
#include "formats/io/infile.h"

#define VC_WIRE_WINDOW_BYTES ((size_t)16 << 10)
#define VC_WIRE_VARINT_BYTES 10 /* at most */
#define VC_WIRE_MAX_GROUPS   32 /* groups within groups */

/* The lowest three bits of a tag. */
enum vc_wire_type {
    VC_WIRE_VARINT = 0,
    VC_WIRE_FIXED64 = 1,
    VC_WIRE_BYTES = 2,
    VC_WIRE_GROUP = 3,
    VC_WIRE_FIXED32 = 5
};

/* A reader of one file. One thread at a time; for another thread another reader of the same file. */
struct vc_wire {
    struct vc_ctx *ctx;
    const struct vc_infile *file;
    unsigned char *window; /* the pool's */
    uint64_t window_at;
    size_t window_n;
};

/* A run of bytes of the file. */
struct vc_span {
    uint64_t at, n;
};

/* A field that was found; its bytes are still in the file. */
struct vc_field {
    uint32_t number; /* 1 to 2^29 - 1 */
    enum vc_wire_type type;
    struct vc_span all;  /* with its tag: what is copied when a field is carried over */
    struct vc_span data; /* VC_WIRE_BYTES: the bytes; GROUP: all between its tags; fixed: the 4 or 8 bytes */
    uint64_t value;      /* of a varint; of fixed types too */
    struct vc_span rest; /* VC_EACH_FIELD: the message behind the field */
};

enum vc_status vc_wire_open(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_wire *wire);
void vc_wire_close(struct vc_wire *wire); /* also of one that is all zeros */

/* The field at the start of *rest, which moves behind it. Not to be called when rest->n is 0. VC_E_FORMAT for what is
 * no field, or none that ends within *rest. */
enum vc_status vc_wire_field(struct vc_wire *wire, struct vc_span *rest, struct vc_field *field);

/* Each field of the message in that span, in a function that returns a status; what is no field ends it.
 *
 *     VC_EACH_FIELD(f, &r->wire, message) {
 *         if (f.number == 7) { ... }
 *     } */
#define VC_EACH_FIELD(field, wire, span)                               \
    for (struct vc_field field = {.rest = (span)}; field.rest.n != 0;) \
        if (vc_wire_next((wire), &field) != VC_OK) {                   \
            return (wire)->ctx->status;                                \
        } else
/* The field at the start of field->rest. */
enum vc_status vc_wire_next(struct vc_wire *wire, struct vc_field *field);

/* The varint at the start of *rest. */
enum vc_status vc_wire_varint(struct vc_wire *wire, struct vc_span *rest, uint64_t *value);

/* Bytes of the file, through the window where they are few. */
enum vc_status vc_wire_read(struct vc_wire *wire, uint64_t at, void *dst, size_t n);

/* VC_E_FORMAT unless the field has that type; `what` names it in the sentence. */
enum vc_status vc_wire_expect(const struct vc_wire *wire, const struct vc_field *field, enum vc_wire_type type,
                              const char *what);

/* The same without a file: the varint at the start of n bytes. Returns its length, 0 when there is none. */
size_t vc_wire_decode(const unsigned char *p, size_t n, uint64_t *value);

/* Writing, to the end of `text`; failures stay in text->status. */
void vc_wire_put_varint(struct vc_text *text, uint64_t value);
/* Number and type, as a varint: field 7 of type 2 is 3a. */
void vc_wire_put_tag(struct vc_text *text, uint32_t number, enum vc_wire_type type);
void vc_wire_put_int(struct vc_text *text, uint32_t number, uint64_t value);
void vc_wire_put_bytes(struct vc_text *text, uint32_t number, const void *data, size_t n);
void vc_wire_put_string(struct vc_text *text, uint32_t number, const char *s);
