/* npy.c - parses the header of an npy array (npy.h has the bytes). Reads no data.
 *
 * The text is a Python dict literal, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }". This accepts the
 * literals that NumPy writes, in any key order and with any white space, and evaluates nothing: a header is no program.
 */
#include "formats/npz/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/checked.h"

#define VC_NPY_MAGIC_BYTES 6

/* The text while it is parsed; `p` is the next character. Positions in sentences count from start. */
struct npy_text {
    struct vc_ctx *ctx;
    const unsigned char *start, *p, *end;
};

/* A string of the text, without its quotes. */
struct npy_string {
    const unsigned char *p;
    size_t n;
};

/* ------------------------------------------------------------------------------------------------ the literal */

/* Fails with "found X at byte N, expected Y". */
static enum vc_status unexpected(const struct npy_text *text, const char *expected)
{
    char found[32];

    if (text->p == text->end) {
        snprintf(found, sizeof found, "its end");
    } else if (*text->p > ' ' && *text->p < 0x7f) {
        snprintf(found, sizeof found, "'%c'", *text->p);
    } else {
        snprintf(found, sizeof found, "byte 0x%02x", *text->p);
    }
    return vc_fail(text->ctx, VC_E_FORMAT, "npy header text: found %s at byte %zu, expected %s", found,
                   (size_t)(text->p - text->start), expected);
}

/* What Python's tokenizer skips: a vertical tab is none of it. */
static void skip_space(struct npy_text *text)
{
    while (text->p < text->end && *text->p != '\v' && (*text->p == ' ' || (*text->p >= '\t' && *text->p <= '\r'))) {
        text->p++;
    }
}

/* Skips white space; true (and past it) when the next character is c. */
static bool take(struct npy_text *text, char c)
{
    skip_space(text);
    if (text->p < text->end && *text->p == (unsigned char)c) {
        text->p++;
        return true;
    }
    return false;
}

/* A string in quotes of either kind. Escapes are refused: none of the three keys and no 'descr' of numbers has any. */
static enum vc_status parse_string(struct npy_text *text, const char *expected, struct npy_string *out)
{
    unsigned char quote;

    skip_space(text);
    if (text->p == text->end || (*text->p != '\'' && *text->p != '"')) {
        return unexpected(text, expected);
    }
    quote = *text->p++;
    out->p = text->p;
    while (text->p < text->end && *text->p != quote) {
        if (*text->p < ' ' || *text->p == '\\') {
            return unexpected(text, "a plain character in the string");
        }
        text->p++;
    }
    if (text->p == text->end) {
        return unexpected(text, "the end of the string");
    }
    out->n = (size_t)(text->p - out->p);
    text->p++;
    return VC_OK;
}

/* The string is that text. */
static bool string_is(const struct npy_string *s, const char *what)
{
    return s->n == strlen(what) && memcmp(s->p, what, s->n) == 0;
}

/* True (and past it) when the text goes on with that word. */
static bool take_word(struct npy_text *text, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(text->end - text->p) >= n && memcmp(text->p, word, n) == 0) {
        text->p += n;
        return true;
    }
    return false;
}

/* True or False, Python's words. */
static enum vc_status parse_bool(struct npy_text *text, bool *out)
{
    skip_space(text);
    *out = take_word(text, "True");
    if (!*out && !take_word(text, "False")) {
        return unexpected(text, "True or False for 'fortran_order'");
    }
    return VC_OK;
}

/* One dimension: digits without a sign. Python 2 wrote an L after long ones. */
static enum vc_status parse_dim(struct npy_text *text, uint64_t *out)
{
    const unsigned char *first;
    uint64_t v = 0;

    skip_space(text);
    first = text->p;
    while (text->p < text->end && *text->p >= '0' && *text->p <= '9') {
        if (!vc_mul_u64(v, 10, &v) || !vc_add_u64(v, (uint64_t)(*text->p - '0'), &v) || v > INT64_MAX) {
            return vc_fail(text->ctx, VC_E_FORMAT, "npy header: a dimension is above 2^63 - 1");
        }
        text->p++;
    }
    if (text->p == first) {
        if (text->p < text->end && *text->p == '-') {
            return vc_fail(text->ctx, VC_E_FORMAT, "npy header: a dimension is negative");
        }
        return unexpected(text, "a dimension (digits)");
    }
    if (*first == '0' && text->p - first > 1) {
        text->p = first;
        return unexpected(text, "a dimension without leading zeros");
    }
    if (text->p < text->end && *text->p == 'L') {
        text->p++;
    }
    *out = v;
    return VC_OK;
}

/* "()", "(3,)", "(3, 4)", "(3, 4,)". "(3)" is a number in Python and no tuple, so it is refused. */
static enum vc_status parse_shape(struct npy_text *text, struct vc_npy_header *out)
{
    enum vc_status status = VC_OK;

    if (!take(text, '(')) {
        return unexpected(text, "a tuple of dimensions for 'shape'");
    }
    out->n_dims = 0;
    while (!take(text, ')')) {
        if (out->n_dims == VC_MAX_DIMS) {
            return vc_fail(text->ctx, VC_E_FORMAT, "npy header: more than %d dimensions", VC_MAX_DIMS);
        }
        VC_TRY(parse_dim(text, &out->shape[out->n_dims]));
        out->n_dims++;
        if (!take(text, ',')) {
            if (out->n_dims == 1 || !take(text, ')')) {
                return unexpected(text, out->n_dims == 1 ? "',' after the first dimension" : "',' or ')' in 'shape'");
            }
            break;
        }
    }
out:
    return status;
}

/* ------------------------------------------------------------------------------------------------ descr */

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

/* The end of a sentence that refuses a dtype by its letter. */
static const char *why_no_weights(char letter)
{
    switch (letter) {
    case 'O':
        return "holds pickled Python objects, which are never loaded";
    case 'S':
    case 'a':
    case 'U':
        return "is text, not numbers";
    case 'M':
    case 'm':
        return "is dates or times, not weights";
    default:
        return "is not a type of numbers that is known here";
    }
}

/* Refuses a 'descr', with the reason that its letter tells. */
static enum vc_status refuse_descr(struct vc_ctx *ctx, const struct npy_string *s, char letter)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, "npy dtype '%.*s' %s", (int)(s->n < 24 ? s->n : 24), (const char *)s->p,
                   why_no_weights(letter));
}

/* 'descr' is an optional byte order (< little, > big, | none, = that of the machine), a letter and the bytes of an
 * element: "<f4", ">i2", "|u1", "V2". */
static enum vc_status parse_descr(struct vc_ctx *ctx, const struct npy_string *s, struct vc_npy_header *out)
{
    static const size_t n_descrs = sizeof descrs / sizeof descrs[0];
    uint32_t size = 0;
    size_t at = 0;
    char order = '|';
    char letter;
    size_t i;

    if (s->n > 0 && strchr("<>|=", (char)s->p[0]) != NULL) {
        order = (char)s->p[0];
        at = 1;
    }
    letter = at < s->n ? (char)s->p[at] : '\0';
    for (i = at + 1; i < s->n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9' || size > (UINT32_MAX - 9) / 10 || (size == 0 && s->p[i] == '0')) {
            return refuse_descr(ctx, s, letter);
        }
        size = size * 10 + (uint32_t)(s->p[i] - '0');
    }
    out->item_bytes = size;
    out->big_endian = false;
    if (letter == 'V' && size > 0) {
        out->dtype = VC_DTYPE_VOID;
        return VC_OK;
    }
    for (i = 0; i < n_descrs; i++) {
        if (descrs[i].letter == letter && descrs[i].item_bytes == size) {
            out->dtype = descrs[i].dtype;
            out->big_endian = order == '>' && size > 1;
            if (order == '|' && size > 1) {
                return vc_fail(ctx, VC_E_FORMAT, "npy dtype '%.*s' does not tell its byte order", (int)s->n,
                               (const char *)s->p);
            }
            return VC_OK;
        }
    }
    return refuse_descr(ctx, s, letter);
}

/* The value of 'descr'. Lists are structured dtypes and tuples are sub-arrays; both are several kinds of numbers in one
 * array. */
static enum vc_status parse_descr_value(struct npy_text *text, struct vc_npy_header *out)
{
    struct npy_string s = {NULL, 0};
    enum vc_status status;

    skip_space(text);
    if (text->p < text->end && *text->p == '[') {
        return vc_fail(text->ctx, VC_E_UNSUPPORTED,
                       "npy dtype is structured (a list of fields), not one type of numbers");
    }
    if (text->p < text->end && *text->p == '(') {
        return vc_fail(text->ctx, VC_E_UNSUPPORTED, "npy dtype is a sub-array, not one type of numbers");
    }
    status = parse_string(text, "a string for 'descr'", &s);
    return status == VC_OK ? parse_descr(text->ctx, &s, out) : status;
}

/* ------------------------------------------------------------------------------------------------ header */

enum { KEY_DESCR, KEY_ORDER, KEY_SHAPE, N_KEYS };
static const char *const key_names[N_KEYS] = {"descr", "fortran_order", "shape"};

/* One key with its value; each of the three keys may come once. */
static enum vc_status parse_entry(struct npy_text *text, bool *seen, struct vc_npy_header *out)
{
    struct npy_string key = {NULL, 0};
    enum vc_status status = VC_OK;
    int k = 0;

    VC_TRY(parse_string(text, "a key", &key));
    while (k < N_KEYS && !string_is(&key, key_names[k])) {
        k++;
    }
    if (k == N_KEYS) {
        return vc_fail(text->ctx, VC_E_FORMAT, "npy header: unknown key '%.*s'", (int)(key.n < 40 ? key.n : 40),
                       (const char *)key.p);
    }
    if (seen[k]) {
        return vc_fail(text->ctx, VC_E_FORMAT, "npy header: key '%s' occurs twice", key_names[k]);
    }
    seen[k] = true;
    if (!take(text, ':')) {
        return unexpected(text, "':' after the key");
    }
    switch (k) {
    case KEY_DESCR:
        VC_TRY(parse_descr_value(text, out));
        break;
    case KEY_ORDER:
        VC_TRY(parse_bool(text, &out->fortran_order));
        break;
    default:
        VC_TRY(parse_shape(text, out));
        break;
    }
out:
    return status;
}

/* The whole text: all three keys, no other, nothing behind the closing brace. */
static enum vc_status parse_dict(struct npy_text *text, struct vc_npy_header *out)
{
    bool seen[N_KEYS] = {false, false, false};
    enum vc_status status = VC_OK;
    int k;

    if (!take(text, '{')) {
        return unexpected(text, "'{'");
    }
    while (!take(text, '}')) {
        VC_TRY(parse_entry(text, seen, out));
        if (!take(text, ',')) {
            if (!take(text, '}')) {
                return unexpected(text, "',' or '}' after the value");
            }
            break;
        }
    }
    for (k = 0; k < N_KEYS; k++) {
        if (!seen[k]) {
            return vc_fail(text->ctx, VC_E_FORMAT, "npy header: key '%s' is missing", key_names[k]);
        }
    }
    skip_space(text);
    if (text->p != text->end) {
        return unexpected(text, "nothing after the dict");
    }
out:
    return status;
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
    unsigned i;

    for (i = 0; i < h->n_dims; i++) {
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
    h->data_bytes = zero ? 0 : bytes;
    return VC_OK;
}

/* Callers read the first 12 bytes, ask this, and then read the rest of the header. */
enum vc_status vc_npy_header_bytes(struct vc_ctx *ctx, const unsigned char *data, size_t n, size_t *header_bytes)
{
    static const unsigned char magic[VC_NPY_MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    uint32_t text_bytes;
    size_t prefix;

    if (n < VC_NPY_MAGIC_BYTES || memcmp(data, magic, VC_NPY_MAGIC_BYTES) != 0) {
        return vc_fail(ctx, VC_E_FORMAT, "is no npy array: it does not start with \\x93NUMPY");
    }
    if (n < VC_NPY_MAGIC_BYTES + 2) {
        return vc_fail(ctx, VC_E_FORMAT, "ends inside the npy header");
    }
    if (data[6] < 1 || data[6] > 3 || data[7] != 0) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "npy version %d.%d is not known (1.0, 2.0 and 3.0 are)", data[6],
                       data[7]);
    }
    prefix = data[6] == 1 ? 10 : 12;
    if (n < prefix) {
        return vc_fail(ctx, VC_E_FORMAT, "ends inside the npy header");
    }
    text_bytes = data[6] == 1 ? vc_le16(data + 8) : vc_le32(data + 8);
    if (text_bytes > VC_NPY_MAX_HEADER) {
        return vc_fail(ctx, VC_E_FORMAT, "npy header of %" PRIu32 " bytes, more than the %zu that are allowed",
                       text_bytes, VC_NPY_MAX_HEADER);
    }
    *header_bytes = prefix + text_bytes;
    return VC_OK;
}

/* The whole header, magic included. */
enum vc_status vc_npy_parse(struct vc_ctx *ctx, const unsigned char *data, size_t n, struct vc_npy_header *out)
{
    struct npy_text text = {.ctx = ctx};
    enum vc_status status = VC_OK;

    memset(out, 0, sizeof *out);
    VC_TRY(vc_npy_header_bytes(ctx, data, n, &out->header_bytes));
    if (n < out->header_bytes) {
        return vc_fail(ctx, VC_E_FORMAT, "ends inside the npy header: %zu bytes of %zu", n, out->header_bytes);
    }
    text.start = data + (data[6] == 1 ? 10 : 12);
    text.p = text.start;
    text.end = data + out->header_bytes;
    VC_TRY(parse_dict(&text, out));
    VC_TRY(count_elems(ctx, out));
out:
    return status;
}
