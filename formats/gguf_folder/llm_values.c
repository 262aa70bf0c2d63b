/* llm_values.c - values of a tensor of the GGUF model, from those of the source: rows in another order, pieces one
 * behind the other, another type, numbers changed on the way. Reads what is asked for and no more. */
#include "formats/gguf_folder/llm_parts.h"

#include <string.h>

#include "core/base/checked.h"

#define PIECE_ELEMS ((size_t)4096) /* that are converted at a time */

static float float_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Exact: every f16 is an f32. */
static float float_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t rest = h & 0x7fff;

    if (rest >= 0x7c00) { /* Inf and NaN */
        return float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    }
    if (rest < 0x400) { /* below the smallest normal number: a multiple of 2^-24 */
        float x = (float)rest * 0x1p-24f;

        return sign != 0 ? -x : x;
    }
    return float_of_bits(sign | ((rest << 13) + ((uint32_t)112 << 23)));
}

static float element(enum vc_dtype from, const unsigned char *p)
{
    switch (from) {
    case VC_DTYPE_F16:
        return float_of_f16(vc_le16(p));
    case VC_DTYPE_BF16:
        return float_of_bits((uint32_t)vc_le16(p) << 16);
    default:
        return float_of_bits(vc_le32(p));
    }
}

/* n elements in a row of the source as f32, changed. */
static enum vc_status convert(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                              size_t tensor, uint64_t first, unsigned char *to, uint64_t n)
{
    unsigned char buffer[PIECE_ELEMS * 4];
    size_t size = vc_dtype_size(t->from);
    enum vc_status status = VC_OK;
    bool plain = t->scale == 1.0F && t->add == 0.0F;

    while (n != 0) {
        size_t part = (size_t)vc_min_u64(n, PIECE_ELEMS);

        VC_TRY(vc_source_read_any(ctx, source, tensor, VC_FORM_VALUES, first * size, buffer, part * size));
        for (size_t i = 0; i < part; i++) {
            float x = element(t->from, buffer + i * size);
            uint32_t bits;

            x = plain ? x : (x + t->add) * t->scale;
            memcpy(&bits, &x, sizeof bits);
            vc_put_le32(to + 4 * i, bits);
        }
        first += part;
        to += 4 * part;
        n -= part;
    }
out:
    return status;
}

/* The row of the source that is row r of a piece: of a head, rows 0, d/2, 1, d/2 + 1, ... */
static uint64_t source_row(const struct llm_tensor *t, uint64_t r)
{
    uint64_t j;

    if (t->head_rows == 0) {
        return r;
    }
    j = r % t->head_rows;
    return r - j + (j % 2) * (t->head_rows / 2) + j / 2;
}

static enum vc_status read_source(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                  uint64_t at, unsigned char *to, uint64_t n)
{
    uint64_t piece_elems = t->piece_rows * t->row_elems;
    size_t size = vc_dtype_size(t->dtype);
    bool as_is = t->dtype == t->from && t->scale == 1.0F && t->add == 0.0F;
    enum vc_status status = VC_OK;

    while (n != 0) {
        const struct llm_piece *piece = &t->pieces[at / piece_elems];
        uint64_t in_piece = at % piece_elems;
        uint64_t column = in_piece % t->row_elems;
        uint64_t row = piece->first + source_row(t, in_piece / t->row_elems);
        uint64_t part = vc_min_u64(n, t->head_rows != 0 ? t->row_elems - column : piece_elems - in_piece);
        uint64_t first = row * t->row_elems + column;

        VC_TRY(as_is ? vc_source_read_any(ctx, source, piece->source, VC_FORM_VALUES, first * size, to,
                                          (size_t)part * size)
                     : convert(ctx, source, t, piece->source, first, to, part));
        at += part;
        to += part * size;
        n -= part;
    }
out:
    return status;
}

enum vc_status vc_llm_values_read(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *tensor,
                                  uint64_t offset, void *dst, size_t n_bytes)
{
    size_t size = vc_dtype_size(tensor->dtype);
    unsigned char *to = dst;

    if (offset % size != 0 || n_bytes % size != 0) {
        return vc_fail(ctx, VC_E_INTERNAL, "%s: a read of parts of elements", tensor->name);
    }
    if (tensor->values == NULL) {
        return read_source(ctx, source, tensor, offset / size, to, n_bytes / size);
    }
    for (size_t i = 0; i < n_bytes / size; i++) {
        uint32_t bits;

        memcpy(&bits, tensor->values + offset / size + i, sizeof bits);
        vc_put_le32(to + 4 * i, bits);
    }
    return VC_OK;
}
