/* onnx_view.c - tensors that the model has in another form than the file: codes of MatMulNBits, codes without a sign,
 * zero points of four bits.
 *
 *     MatMulNBits, K 3, N 2, blocks of 16    stored  row n: nibbles k0 k1 k2 8 8 ...     16 of them for 3
 *                                            shown   row k: nibbles n0 n1, each less 8
 *
 * A run of shown elements at a time; the caller has room for all of the stored form. */

#include "formats/onnx/onnx.h"

uint64_t vc_onnx_view_stored_bytes(const struct onnx_view *v)
{
    return ((v->turned ? v->row : v->n_rows) * v->stored_row * v->bits + 7) / 8;
}

uint64_t vc_onnx_view_shown_bytes(const struct onnx_view *v)
{
    return (v->n_rows * v->row * v->shown + 7) / 8;
}

static unsigned nibble_at(const unsigned char *from, uint64_t i)
{
    return (unsigned)from[i / 2] >> 4 * (i % 2) & 0xfu;
}

static void put_nibble(unsigned char *to, uint64_t i, unsigned code)
{
    unsigned keep = i % 2 == 0 ? 0xf0u : 0x0fu;

    to[i / 2] = (unsigned char)((to[i / 2] & keep) | code << 4 * (i % 2));
}

void vc_onnx_view_convert(const struct onnx_view *v, bool to_file, unsigned char *stored, unsigned char *shown,
                          uint64_t first, uint64_t n_elems)
{
    size_t n = v->bits / 8; /* 0: nibbles */

    for (uint64_t i = 0; i < n_elems; i++) {
        uint64_t e = first + i;
        uint64_t there = v->turned ? e % v->row * v->stored_row + e / v->row : e / v->row * v->stored_row + e % v->row;

        if (n != 0) {
            memcpy(to_file ? stored + there * n : shown + i * n, to_file ? shown + i * n : stored + there * n, n);
        } else if (to_file) {
            put_nibble(stored, there, (v->shown == 4 ? nibble_at(shown, i) : shown[i] & 0xfu) ^ v->flip);
        } else if (v->shown == 4) {
            put_nibble(shown, i, nibble_at(stored, there) ^ v->flip);
        } else {
            shown[i] = (unsigned char)((nibble_at(stored, there) ^ v->flip ^ 8u) - 8u);
        }
    }
}
