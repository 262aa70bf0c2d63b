/* npy_text.c - reads the literals of an npy header: strings, tuples of dimensions. See npy_text.h.
 *
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * A cursor (struct vc_npy_text) moves over the text; nothing is evaluated. Called by npy_header.c and npy_descr.c. */
#include "formats/npz/npy_text.h"

#include <vcompress/model.h>

/* Says what stands at the cursor. */
enum vc_status vc_npy_unexpected(const struct vc_npy_text *text, const char *expected)
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

/* What Python's tokenizer skips: a vertical tab does not count. */
static void skip_space(struct vc_npy_text *text)
{
    while (text->p < text->end && *text->p != '\v' && (*text->p == ' ' || (*text->p >= '\t' && *text->p <= '\r'))) {
        text->p++;
    }
}

/* The cursor stays before c. */
bool vc_npy_next_is(struct vc_npy_text *text, char c)
{
    skip_space(text);
    return text->p < text->end && *text->p == (unsigned char)c;
}

bool vc_npy_take(struct vc_npy_text *text, char c)
{
    bool is = vc_npy_next_is(text, c);

    text->p += is;
    return is;
}

/* out points into the text; escapes: they are allowed, and not decoded. */
enum vc_status vc_npy_take_string(struct vc_npy_text *text, const char *expected, bool escapes,
                                  struct vc_npy_string *out)
{
    skip_space(text);
    if (text->p == text->end || (*text->p != '\'' && *text->p != '"')) {
        return vc_npy_unexpected(text, expected);
    }
    unsigned char quote = *text->p++;
    out->p = text->p;
    while (text->p < text->end && *text->p != quote) {
        if (*text->p < ' ' || (*text->p == '\\' && !escapes)) {
            return vc_npy_unexpected(text, "a plain character in the string");
        }
        text->p += *text->p == '\\' && text->end - text->p > 1 ? 2 : 1; /* an escaped quote does not end it */
    }
    if (text->p == text->end) {
        return vc_npy_unexpected(text, "the end of the string");
    }
    out->n = (size_t)(text->p - out->p);
    text->p++;
    return VC_OK;
}

bool vc_npy_string_is(const struct vc_npy_string *s, const char *what)
{
    return s->n == strlen(what) && memcmp(s->p, what, s->n) == 0;
}

bool vc_npy_take_word(struct vc_npy_text *text, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(text->end - text->p) >= n && memcmp(text->p, word, n) == 0) {
        text->p += n;
        return true;
    }
    return false;
}

/* One dimension: digits without a sign. Python 2 wrote an L after long ones. */
static enum vc_status parse_dim(struct vc_npy_text *text, uint64_t *out)
{
    uint64_t v = 0;

    skip_space(text);
    const unsigned char *first = text->p;
    while (text->p < text->end && *text->p >= '0' && *text->p <= '9') {
        VC_REFUSE_IF(!vc_mul_u64(v, 10, &v) || !vc_add_u64(v, (uint64_t)(*text->p - '0'), &v) || v > INT64_MAX,
                     text->ctx, VC_E_FORMAT, "npy header: a dimension is above 2^63 - 1");
        text->p++;
    }
    if (text->p == first) {
        VC_REFUSE_IF(text->p < text->end && *text->p == '-', text->ctx, VC_E_FORMAT,
                     "npy header: a dimension is negative");
        return vc_npy_unexpected(text, "a dimension (digits)");
    }
    if (*first == '0' && text->p - first > 1) {
        text->p = first;
        return vc_npy_unexpected(text, "a dimension without leading zeros");
    }
    if (text->p < text->end && *text->p == 'L') {
        text->p++;
    }
    *out = v;
    return VC_OK;
}

/* (), (3,), (3, 4), (3, 4,): one dimension needs its comma, as in Python. */
enum vc_status vc_npy_take_shape(struct vc_npy_text *text, uint64_t *shape, unsigned *n_dims)
{
    if (!vc_npy_take(text, '(')) {
        return vc_npy_unexpected(text, "a tuple of dimensions for 'shape'");
    }
    *n_dims = 0;
    while (!vc_npy_take(text, ')')) {
        VC_REFUSE_IF(*n_dims == VC_MAX_DIMS, text->ctx, VC_E_FORMAT, "npy header: more than %d dimensions",
                     VC_MAX_DIMS);
        VC_CALL(parse_dim(text, &shape[*n_dims]));
        ++*n_dims;
        if (!vc_npy_take(text, ',')) {
            if (*n_dims == 1 || !vc_npy_take(text, ')')) {
                return vc_npy_unexpected(text,
                                         *n_dims == 1 ? "',' after the first dimension" : "',' or ')' in 'shape'");
            }
            break;
        }
    }
    return VC_OK;
}
