/* llm_values.c - values of a tensor of the GGUF model, from those of the source: rows in another order, pieces one
 * behind the other, another type, numbers changed on the way. Reads what is asked for and no more. */
#include "formats/gguf_folder/llm_parts.h"

#include <string.h>

#include "core/base/checked.h"
#include "kernels/functions.h"

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
    bool plain = t->scale == 1.0F && t->add == 0.0F && t->function == LLM_LINEAR;

    while (n != 0) {
        size_t part = (size_t)vc_min_u64(n, PIECE_ELEMS);

        VC_CALL(vc_source_read_any(ctx, source, tensor, VC_FORM_VALUES, first * size, buffer, part * size));
        for (size_t i = 0; i < part; i++) {
            float x = element(t->from, buffer + i * size);
            uint32_t bits;

            x = plain                          ? x
                : t->function == LLM_LINEAR    ? (x + t->add) * t->scale
                : t->function == LLM_MINUS_EXP ? (float)-vc_exp_f64((double)x)
                                               : (float)vc_log_f64(-(double)x);
            memcpy(&bits, &x, sizeof bits);
            vc_put_le32(to + 4 * i, bits);
        }
        first += part;
        to += 4 * part;
        n -= part;
    }
    return VC_OK;
}

/* The row of the source that is row r of a piece. */
static uint64_t source_row(const struct llm_order *order, uint64_t r)
{
    uint64_t i;

    if (order->groups == 0 || r < order->first) {
        return r;
    }
    i = (r - order->first) / order->unit % (order->groups * order->each);
    return r - i * order->unit + (i % order->groups * order->each + i / order->groups) * order->unit;
}

/* Rows of a tensor that are columns of the source: r and those behind it, `rows` of them, from element `begin` of each
 * up to `end`. What stands side by side in the source is read together. */
static enum vc_status read_turned(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                  const struct llm_piece *piece, uint64_t r, size_t rows, uint64_t begin, uint64_t end,
                                  unsigned char *to)
{
    unsigned char buffer[PIECE_ELEMS * 4];
    size_t from_size = vc_dtype_size(t->from);
    size_t size = vc_dtype_size(t->dtype);

    for (uint64_t column = begin; column < end; column++) {
        const struct llm_piece *of = piece + (t->joined ? column % 2 : 0);
        uint64_t first = (of->first + column / (t->joined ? 2 : 1)) * t->columns + t->column + r * t->step;
        size_t n = (rows - 1) * (size_t)t->step + 1;

        VC_CALL(vc_source_read_any(ctx, source, of->source, VC_FORM_VALUES, first * from_size, buffer, n * from_size));
        for (size_t i = 0; i < rows; i++) {
            unsigned char *at = to + (i * (size_t)(end - begin) + (size_t)(column - begin)) * size;
            const unsigned char *p = buffer + i * (size_t)t->step * from_size;

            if (t->dtype == t->from) {
                memcpy(at, p, size);
            } else {
                float x = element(t->from, p);
                uint32_t bits;

                memcpy(&bits, &x, sizeof bits);
                vc_put_le32(at, bits);
            }
        }
    }
    return VC_OK;
}

/* Elements of such a tensor: whole rows together, parts of a row alone. *n: how many were read. */
static enum vc_status read_columns(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                   const struct llm_piece *piece, uint64_t in_piece, unsigned char *to, uint64_t *n)
{
    uint64_t r = in_piece / t->row_elems;
    uint64_t begin = in_piece % t->row_elems;
    uint64_t rows = 1;
    uint64_t end = vc_min_u64(t->row_elems, begin + *n);

    if (begin == 0 && *n >= t->row_elems) {
        rows = vc_min_u64(vc_min_u64(*n / t->row_elems, t->piece_rows - r), PIECE_ELEMS / t->step);
    }
    *n = rows * (end - begin);
    return read_turned(ctx, source, t, piece, r, (size_t)rows, begin, end, to);
}

#define MXFP4_ELEMS ((size_t)32)
#define MXFP4_BYTES ((size_t)17)  /* the scale, then 16 bytes */
#define ROW_BLOCKS  ((size_t)128) /* that are read at a time */

/* A block of the source has element 2j in the low half of byte j and 2j + 1 in the high one; GGUF has j and j + 16. */
static void pack_block(unsigned char scale, const unsigned char *from, unsigned char *to)
{
    to[0] = scale;
    for (size_t j = 0; j < 16; j++) {
        unsigned low = (unsigned)from[j / 2] >> (j % 2 * 4) & 15U;
        unsigned high = (unsigned)from[(j + 16) / 2] >> (j % 2 * 4) & 15U;

        to[1 + j] = (unsigned char)(low | high << 4);
    }
}

/* Bytes of blocks from number `at` on: a writer copies parts of blocks, too. */
static enum vc_status read_blocks(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                  uint64_t at, unsigned char *to, uint64_t n)
{
    uint64_t in_row = t->row_elems / MXFP4_ELEMS;
    unsigned char codes[ROW_BLOCKS * 16];
    unsigned char scales[ROW_BLOCKS];
    unsigned char blocks[ROW_BLOCKS * MXFP4_BYTES];

    while (n != 0) {
        uint64_t block = at / MXFP4_BYTES;
        size_t skipped = (size_t)(at % MXFP4_BYTES);
        uint64_t row = block / in_row;
        const struct llm_piece *piece = &t->pieces[row / t->piece_rows];
        uint64_t first = (piece->first + row % t->piece_rows * t->step) * in_row + block % in_row;
        size_t part = (size_t)vc_min_u64(in_row - block % in_row, ROW_BLOCKS);
        size_t taken = (size_t)vc_min_u64(n, part * MXFP4_BYTES - skipped);

        part = (skipped + taken + MXFP4_BYTES - 1) / MXFP4_BYTES;
        VC_CALL(vc_source_read_any(ctx, source, piece->source, VC_FORM_VALUES, first * 16, codes, part * 16));
        VC_CALL(vc_source_read_any(ctx, source, t->scales, VC_FORM_VALUES, first, scales, part));
        for (size_t i = 0; i < part; i++) {
            pack_block(scales[i], codes + i * 16, blocks + i * MXFP4_BYTES);
        }
        memcpy(to, blocks + skipped, taken);
        at += taken;
        to += taken;
        n -= taken;
    }
    return VC_OK;
}

/* On the way back: bytes from number `at` on of the codes of blocks, 16 each, or of their scales. */
static enum vc_status read_codes(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                 uint64_t at, unsigned char *to, uint64_t n)
{
    size_t each = t->n_dims == 4 ? 16 : 1;
    size_t turns = t->joined ? 2 : 1;
    unsigned char blocks[ROW_BLOCKS * MXFP4_BYTES];

    while (n != 0) {
        uint64_t block = at / each;
        uint64_t row = block / t->row_elems;
        const struct llm_piece *piece = &t->pieces[row / t->piece_rows * turns + row % turns];
        uint64_t first = (piece->first + row % t->piece_rows / turns) * t->row_elems + block % t->row_elems;
        size_t part = (size_t)vc_min_u64(t->row_elems - block % t->row_elems, ROW_BLOCKS);
        uint64_t end = vc_min_u64(n, (uint64_t)part * each - at % each);

        part = (size_t)((at % each + end + each - 1) / each);
        VC_CALL(vc_source_read_any(ctx, source, piece->source, VC_FORM_VALUES, first * MXFP4_BYTES, blocks,
                                   part * MXFP4_BYTES));
        for (uint64_t i = at % each; i < at % each + end; i++) {
            const unsigned char *codes = blocks + i / each * MXFP4_BYTES + 1;
            unsigned j = (unsigned)(i % 8) * 2; /* elements 2i and 2i + 1 of the block are in one half of two bytes */

            *to++ = (unsigned char)(each == 1      ? codes[-1]
                                    : i % each < 8 ? (codes[j] & 15U) | (codes[j + 1] & 15U) << 4
                                                   : codes[j] >> 4 | (codes[j + 1] & 0xf0U));
        }
        at += end;
        n -= end;
    }
    return VC_OK;
}

/* size: of an element, or of a block that stays as it is. */
static enum vc_status read_source(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                  size_t size, uint64_t at, unsigned char *to, uint64_t n)
{
    uint64_t piece_elems = t->piece_rows * t->row_elems;
    bool as_is = t->dtype == t->from && t->scale == 1.0F && t->add == 0.0F && t->function == LLM_LINEAR;

    while (n != 0) {
        const struct llm_piece *piece = &t->pieces[at / piece_elems * (t->joined ? 2 : 1)];
        uint64_t in_piece = at % piece_elems;
        uint64_t column = in_piece % t->row_elems;
        uint64_t row = piece->first + source_row(&t->order, in_piece / t->row_elems);
        uint64_t part = vc_min_u64(n, t->order.groups != 0 ? t->row_elems - column : piece_elems - in_piece);
        uint64_t first = row * t->row_elems + column;

        VC_CALL(t->columns != 0 ? read_columns(ctx, source, t, piece, in_piece, to, &part)
                : as_is         ? vc_source_read_any(ctx, source, piece->source, VC_FORM_VALUES, first * size, to,
                                                     (size_t)part * size)
                                : convert(ctx, source, t, piece->source, first, to, part));
        at += part;
        to += part * size;
        n -= part;
    }
    return VC_OK;
}

enum vc_status vc_llm_values_read(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *tensor,
                                  uint64_t offset, void *dst, size_t n_bytes)
{
    size_t block;
    size_t size;
    unsigned char *to = dst;

    if (tensor->dtype == VC_DTYPE_MXFP4 && tensor->from != tensor->dtype) {
        return read_blocks(ctx, source, tensor, offset, to, n_bytes);
    }
    vc_dtype_block(tensor->dtype, &block, &size);
    if (offset % size != 0 || n_bytes % size != 0) {
        return vc_fail(ctx, VC_E_INTERNAL, "%s: a read of parts of elements", tensor->name);
    }
    if (tensor->dtype == VC_DTYPE_U8 && tensor->from == VC_DTYPE_MXFP4) {
        return read_codes(ctx, source, tensor, offset, to, n_bytes);
    }
    if (tensor->values == NULL) {
        return read_source(ctx, source, tensor, size, offset / size, to, n_bytes / size);
    }
    for (size_t i = 0; i < n_bytes / size; i++) {
        uint32_t bits;

        memcpy(&bits, tensor->values + offset / size + i, sizeof bits);
        vc_put_le32(to + 4 * i, bits);
    }
    return VC_OK;
}
