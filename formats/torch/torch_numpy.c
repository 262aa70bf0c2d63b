/* torch_numpy.c - NumPy's numbers in a pickle as Python's: a loss, a best score. Restricted loaders take no NumPy
 * objects, and a checkpoint should not lose its numbers for that.
 *
 *     scalar(dtype, bytes), dtype: numpy.dtype("f8", ...) with the state (3, "<", ...) */

#include "formats/torch/torch_choose.h"

/* A call of one of NumPy's own functions for pickles, under its old or its new module. */
static bool is_multiarray(const struct vc_pickle_node *node)
{
    return node->kind == VC_PICKLE_CALL && node->u.call.function->kind == VC_PICKLE_GLOBAL &&
           (vc_pickle_bytes_are(&node->u.call.function->u.global.module, "numpy.core.multiarray") ||
            vc_pickle_bytes_are(&node->u.call.function->u.global.module, "numpy._core.multiarray"));
}

/* A call of that function of NumPy's. */
static bool is_call_of(const struct vc_pickle_node *node, const char *name)
{
    return is_multiarray(node) && vc_pickle_bytes_are(&node->u.call.function->u.global.name, name);
}

bool vc_torch_is_numpy_array(const struct vc_pickle_node *node)
{
    return is_call_of(node, "_reconstruct");
}

const char *vc_torch_numpy_kind(const struct vc_pickle_node *node)
{
    return vc_torch_is_numpy_array(node) ? "NumPy array" : is_call_of(node, "scalar") ? "NumPy number" : NULL;
}

/* n characters below 256, which stand for bytes, out of a text in UTF-8. */
static bool take_latin1(const struct vc_pickle_bytes *text, unsigned char *out, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned c;

        if (at == text->n) {
            return false;
        }
        c = (unsigned char)text->p[at++];
        if (c >= 0x80) {
            if ((c != 0xc2 && c != 0xc3) || at == text->n) {
                return false;
            }
            c = (c & 3) << 6 | ((unsigned char)text->p[at++] & 0x3f);
        }
        out[i] = (unsigned char)c;
    }
    return at == text->n;
}

/* Exactly n bytes; protocol 2 has them as encode("text", "latin1"). */
static bool take_bytes(const struct vc_pickle_node *node, unsigned char *out, size_t n)
{
    if (node != NULL && node->kind == VC_PICKLE_BYTES && node->u.text.n == n) {
        memcpy(out, node->u.text.p, n);
        return true;
    }
    if (!vc_pickle_is_call(node, "_codecs", "encode")) {
        return false;
    }
    node = vc_pickle_item(node->u.call.args, 0);
    return node != NULL && node->kind == VC_PICKLE_STRING && take_latin1(&node->u.text, out, n);
}

/* "f8" and the like: its letter, bytes, and whether they are big-endian. */
static bool take_dtype(const struct vc_pickle_node *dtype, char *letter, size_t *n, bool *big)
{
    if (!vc_pickle_is_call(dtype, "numpy", "dtype")) {
        return false;
    }
    const struct vc_pickle_node *name = vc_pickle_item(dtype->u.call.args, 0);
    const struct vc_pickle_node *state = vc_pickle_state(dtype);
    if (name == NULL || name->kind != VC_PICKLE_STRING || name->u.text.n != 2 || state == NULL ||
        state->kind != VC_PICKLE_TUPLE) {
        return false;
    }
    *letter = name->u.text.p[0];
    *n = (size_t)(unsigned char)name->u.text.p[1] - '0';
    *big = vc_pickle_is_string(vc_pickle_item(state, 1), ">");
    return *n == 1 || *n == 2 || *n == 4 || *n == 8;
}

/* n bytes as a number. */
static uint64_t join(const unsigned char *bytes, size_t n, bool big)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | bytes[big ? i : n - 1 - i];
    }
    return bits;
}

/* The bits as a number of Python's; false where it has none like it. */
static bool make_number(char letter, size_t n, uint64_t bits, struct vc_pickle_node *number)
{
    uint32_t low = (uint32_t)bits;
    float single;

    if (letter == 'f' && n == 8) {
        number->kind = VC_PICKLE_FLOAT;
        memcpy(&number->u.real, &bits, sizeof bits);
    } else if (letter == 'f' && n == 4) {
        memcpy(&single, &low, sizeof low);
        number->kind = VC_PICKLE_FLOAT;
        number->u.real = (double)single;
    } else if (letter == 'i' || (letter == 'u' && bits <= INT64_MAX)) {
        unsigned unused = 64 - 8 * (unsigned)n;
        uint64_t sign = letter == 'i' ? (uint64_t)1 << (63 - unused) : 0;

        number->kind = VC_PICKLE_INT;
        number->u.integer = (int64_t)((bits ^ sign) - sign);
    } else if (letter == 'b' && n == 1) {
        number->kind = VC_PICKLE_BOOL;
        number->u.integer = bits != 0;
    } else {
        return false;
    }
    return true;
}

/* scalar(dtype, bytes). */
bool vc_torch_numpy_number(const struct vc_pickle_node *node, struct vc_pickle_node *number)
{
    unsigned char bytes[8];
    char letter = '\0';
    size_t n = 0;
    bool big = false;

    if (!is_multiarray(node) || !vc_pickle_bytes_are(&node->u.call.function->u.global.name, "scalar") ||
        !take_dtype(vc_pickle_item(node->u.call.args, 0), &letter, &n, &big) ||
        !take_bytes(vc_pickle_item(node->u.call.args, 1), bytes, n)) {
        return false;
    }
    memset(number, 0, sizeof *number);
    return make_number(letter, n, join(bytes, n, big), number);
}
