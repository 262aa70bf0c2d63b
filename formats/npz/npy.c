/* npy.c - parses the header of an npy array (npy.h has the bytes). Reads no data.
 *
 * The text is a Python dict literal, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }". This accepts the
 * literals that NumPy writes, in any key order and with any white space (npy_text.h); npy_descr.c reads the type.
 */
#include "formats/npz/npy.h"

#include "formats/npz/npy_descr.h"

#define VC_NPY_MAGIC_BYTES 6

enum { KEY_DESCR, KEY_ORDER, KEY_SHAPE, N_KEYS };
static const char *const key_names[N_KEYS] = {"descr", "fortran_order", "shape"};

/* True or False, Python's words. */
static enum vc_status parse_bool(struct vc_npy_text *text, bool *out)
{
    (void)vc_npy_next_is(text, 0); /* skips white space */
    *out = vc_npy_take_word(text, "True");
    if (!*out && !vc_npy_take_word(text, "False")) {
        return vc_npy_unexpected(text, "True or False for 'fortran_order'");
    }
    return VC_OK;
}

/* One key with its value; each of the three keys may come once. */
static enum vc_status parse_entry(struct vc_npy_text *text, bool *seen, struct vc_npy_header *out)
{
    struct vc_npy_string key = {NULL, 0};
    int k = 0;

    VC_CALL(vc_npy_take_string(text, "a key", false, &key));
    while (k < N_KEYS && !vc_npy_string_is(&key, key_names[k])) {
        k++;
    }
    VC_REFUSE_IF(k == N_KEYS, text->ctx, VC_E_FORMAT, "npy header: unknown key '%.*s'", (int)(key.n < 40 ? key.n : 40),
                 (const char *)key.p);
    VC_REFUSE_IF(seen[k], text->ctx, VC_E_FORMAT, "npy header: key '%s' occurs twice", key_names[k]);
    seen[k] = true;
    if (!vc_npy_take(text, ':')) {
        return vc_npy_unexpected(text, "':' after the key");
    }
    switch (k) {
    case KEY_DESCR:
        VC_CALL(vc_npy_take_descr(text, out));
        break;
    case KEY_ORDER:
        VC_CALL(parse_bool(text, &out->fortran_order));
        break;
    default:
        VC_CALL(vc_npy_take_shape(text, out->shape, &out->n_dims));
        break;
    }
    return VC_OK;
}

/* The whole text: all three keys, no other, nothing behind the closing brace. */
static enum vc_status parse_dict(struct vc_npy_text *text, struct vc_npy_header *out)
{
    bool seen[N_KEYS] = {false, false, false};

    if (!vc_npy_take(text, '{')) {
        return vc_npy_unexpected(text, "'{'");
    }
    while (!vc_npy_take(text, '}')) {
        VC_CALL(parse_entry(text, seen, out));
        if (!vc_npy_take(text, ',')) {
            if (!vc_npy_take(text, '}')) {
                return vc_npy_unexpected(text, "',' or '}' after the value");
            }
            break;
        }
    }
    for (int k = 0; k < N_KEYS; k++) {
        VC_REFUSE_IF(!seen[k], text->ctx, VC_E_FORMAT, "npy header: key '%s' is missing", key_names[k]);
    }
    (void)vc_npy_next_is(text, 0); /* skips white space */
    if (text->p != text->end) {
        return vc_npy_unexpected(text, "nothing after the dict");
    }
    return VC_OK;
}

/* "(3, 4)" for sentences, cut after a few dimensions. */
static void shape_text(const struct vc_npy_header *h, char *dst, size_t capacity)
{
    size_t at = 0;
    unsigned i;

    dst[0] = '\0';
    for (i = 0; i < h->n_dims && at + 32 < capacity; i++) {
        at += (size_t)snprintf(dst + at, capacity - at, "%s%" PRIu64, i == 0 ? "" : ", ", h->shape[i]);
    }
    if (i < h->n_dims) {
        snprintf(dst + at, capacity - at, ", ...");
    }
}

/* Sets n_elems and data_bytes. The product is taken over the dimensions that are not 0, so that a 0 cannot hide an
 * overflow; header and data together stay below 2^63. */
static enum vc_status count_elems(struct vc_ctx *ctx, struct vc_npy_header *h)
{
    char shape[160];
    uint64_t n = 1;
    uint64_t bytes = 0;
    uint64_t end;
    bool fits = true;
    bool zero = false;

    for (unsigned i = 0; i < h->n_dims; i++) {
        if (h->shape[i] == 0) {
            zero = true;
        } else {
            fits = fits && vc_mul_u64(n, h->shape[i], &n);
        }
    }
    fits = fits && vc_mul_u64(n, h->item_bytes, &bytes) && vc_add_u64(bytes, h->header_bytes, &end) && end <= INT64_MAX;
    if (!fits) {
        shape_text(h, shape, sizeof shape);
        return vc_fail(ctx, VC_E_FORMAT, "npy header: shape (%s) of %" PRIu32 " byte elements overflows", shape,
                       h->item_bytes);
    }
    h->n_elems = zero ? 0 : n;
    h->data_bytes = zero || h->pickled ? 0 : bytes;
    return VC_OK;
}

/* Callers read the first 12 bytes, ask this, and then read the rest of the header. */
enum vc_status vc_npy_header_bytes(struct vc_ctx *ctx, const unsigned char *data, size_t n, size_t *header_bytes)
{
    static const unsigned char magic[VC_NPY_MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

    VC_REFUSE_IF(n < VC_NPY_MAGIC_BYTES || memcmp(data, magic, VC_NPY_MAGIC_BYTES) != 0, ctx, VC_E_FORMAT,
                 "is no npy array: it does not start with \\x93NUMPY");
    VC_REFUSE_IF(n < VC_NPY_MAGIC_BYTES + 2, ctx, VC_E_FORMAT, "ends inside the npy header");
    VC_REFUSE_IF(data[6] < 1 || data[6] > 3 || data[7] != 0, ctx, VC_E_UNSUPPORTED,
                 "npy version %d.%d is not known (1.0, 2.0 and 3.0 are)", data[6], data[7]);
    size_t prefix = data[6] == 1 ? 10 : 12;
    VC_REFUSE_IF(n < prefix, ctx, VC_E_FORMAT, "ends inside the npy header");
    uint32_t text_bytes = data[6] == 1 ? vc_le16(data + 8) : vc_le32(data + 8);
    VC_REFUSE_IF(text_bytes > VC_NPY_MAX_HEADER, ctx, VC_E_FORMAT,
                 "npy header of %" PRIu32 " bytes, more than the %zu that are allowed", text_bytes, VC_NPY_MAX_HEADER);
    *header_bytes = prefix + text_bytes;
    return VC_OK;
}

/* The whole header, magic included. */
enum vc_status vc_npy_parse(struct vc_ctx *ctx, const unsigned char *data, size_t n, struct vc_npy_header *out)
{
    struct vc_npy_text text = {.ctx = ctx};

    memset(out, 0, sizeof *out);
    VC_CALL(vc_npy_header_bytes(ctx, data, n, &out->header_bytes));
    VC_REFUSE_IF(n < out->header_bytes, ctx, VC_E_FORMAT, "ends inside the npy header: %zu bytes of %zu", n,
                 out->header_bytes);
    text.start = data + (data[6] == 1 ? 10 : 12);
    text.p = text.start;
    text.end = data + out->header_bytes;
    VC_CALL(parse_dict(&text, out));
    return count_elems(ctx, out);
}

enum vc_status vc_npy_refuse_other(struct vc_ctx *ctx, const struct vc_npy_header *header)
{
    return header->pickled ? vc_fail(ctx, VC_E_UNSUPPORTED, "holds pickled Python objects, which are never loaded")
                           : vc_fail(ctx, VC_E_UNSUPPORTED, "is an array of %s%s, not of numbers that are known here",
                                     header->other, strcmp(header->other, "structured") == 0 ? " elements" : "");
}

enum vc_status vc_npy_has_type(struct vc_ctx *ctx, const char *name, enum vc_dtype dtype, size_t header_bytes)
{
    VC_REFUSE_IF(header_bytes == 0, ctx, VC_E_UNSUPPORTED,
                 "%s: npy cannot hold elements of type %s; safetensors can: %s safetensors", name, vc_dtype_name(dtype),
                 vc_option(ctx, "format"));
    return VC_OK;
}
