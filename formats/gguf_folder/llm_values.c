/* llm_values.c - values of a tensor of the GGUF model, from those of the source: rows in another order, pieces one
 * behind the other, another type, numbers changed on the way. Reads what is asked for and no more.
 *
 * vc_llm_values_read, at the end, chooses one of four ways:
 *
 *     part is not LLM_ALL_PARTS   read_part     codes or scales out of blocks: on the way back
 *     blocks made of codes        read_blocks   codes and scales of the source become blocks
 *     values                      the plan has them: divisors, a scale of NVFP4
 *     all others                  read_source   rows of floats, or blocks that stay; turned ones by read_columns
 *
 * All of them answer any range, because a writer asks for tiles and a verifier for single values; none keeps state. */
#include "formats/gguf_folder/llm_parts.h"

#include "core/base/checked.h"
#include "kernels/functions.h"

#define PIECE_ELEMS ((size_t)4096) /* that are converted at a time */

static float float_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of_float(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
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

/* An element of f16, bf16 or f32 as f32; the three convert exactly. */
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

/* The value that llama.cpp has in place of x. exp and log are the program's own (kernels/functions.h), so that libm's
 * version does not change a file. */
static float computed(const struct llm_tensor *t, float x)
{
    switch (t->function) {
    case LLM_LINEAR:
        return (x + t->add) * t->scale;
    case LLM_MINUS_EXP:
        return (float)-vc_exp_f64((double)x);
    default:
        return (float)vc_log_f64(-(double)x);
    }
}

enum vc_status vc_llm_value_read(struct vc_ctx *ctx, const struct vc_model *source, size_t tensor, uint64_t index,
                                 float *out)
{
    const struct vc_tensor *t = &source->tensors[tensor];
    size_t size = vc_dtype_size(t->dtype);
    unsigned char bytes[4];

    VC_REFUSE_IF(index >= t->n_elems || !vc_dtype_is_float(t->dtype) || size > sizeof bytes, ctx, VC_E_UNSUPPORTED,
                 "%s: expected %" PRIu64 " elements of type f32, f16 or bf16", t->name, index + 1);
    VC_CALL(vc_source_read_any(ctx, source, tensor, VC_FORM_VALUES, index * size, bytes, size));
    *out = element(t->dtype, bytes);
    return VC_OK;
}

/* n elements in a row of the source as f32, changed. first: number of the element in the source's tensor. 4 bytes go to
 * `to` for each. */
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

            vc_put_le32(to + 4 * i, bits_of_float(plain ? x : computed(t, x)));
        }
        first += part;
        to += 4 * part;
        n -= part;
    }
    return VC_OK;
}

/* The row of the source that is row r of a piece.
 *
 * Row r = first + i * unit + k, with i = j * groups + g, comes from unit g * each + j. groups 2, each 4, unit 1: row 3
 * is i = 3, j = 1, g = 1, so it is row 1 * 4 + 1 = 5 of the source. */
static uint64_t source_row(const struct llm_order *order, uint64_t r)
{
    if (order->groups == 0 || r < order->first) {
        return r;
    }
    uint64_t turned = order->groups * order->each;
    uint64_t i = (r - order->first) / order->unit % (order->head != 0 ? order->head : turned);
    if (i >= turned) {
        return r;
    }
    return r - i * order->unit + (i % order->groups * order->each + i / order->groups) * order->unit;
}

/* Rows of a tensor that are columns of the source: r and those behind it, `rows` of them, from element `begin` of each
 * up to `end`. What stands side by side in the source is read together.
 *
 *     source, a row is a column of ours       columns = 6
 *         c0  a0 a1 a2 a3 a4 a5               r = 1, rows = 2, step = 2 (every other column):
 *         c1  b0 b1 b2 b3 b4 b5               ours  row 1: a2 b2 c2,  row 2: a4 b4 c4
 *         c2  c0 c1 c2 c3 c4 c5
 *
 * `joined`: even columns are of a piece, odd ones of the piece behind it (gate and up of gpt_oss on the way back);
 * `halves`: the first half of them, and the second (llama4). */
static enum vc_status read_turned(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                  const struct llm_piece *piece, uint64_t r, size_t rows, uint64_t begin, uint64_t end,
                                  unsigned char *to)
{
    unsigned char buffer[PIECE_ELEMS * 4];
    size_t from_size = vc_dtype_size(t->from);
    size_t size = vc_dtype_size(t->dtype);

    for (uint64_t column = begin; column < end; column++) {
        uint64_t each = t->halves ? t->row_elems / 2 : 1; /* columns of a piece, before those of the other */
        uint64_t turns = t->joined || t->halves ? 2 : 1;
        const struct llm_piece *of = piece + column / each % turns;
        uint64_t row = column / (each * turns) * each + column % each;
        uint64_t first = (of->first + row) * t->columns + t->column + r * t->step;
        size_t n = (rows - 1) * (size_t)t->step + 1;

        VC_CALL(vc_source_read_any(ctx, source, of->source, VC_FORM_VALUES, first * from_size, buffer, n * from_size));
        for (size_t i = 0; i < rows; i++) {
            unsigned char *at = to + (i * (size_t)(end - begin) + (size_t)(column - begin)) * size;
            const unsigned char *p = buffer + i * (size_t)t->step * from_size;

            if (t->dtype == t->from) {
                memcpy(at, p, size);
            } else {
                vc_put_le32(at, bits_of_float(element(t->from, p)));
            }
        }
    }
    return VC_OK;
}

/* Elements of such a tensor: whole rows together, parts of a row alone. *n: how many were read. *n comes in as what is
 * wanted. Whole rows are read as many at a time as the buffer of read_turned holds. */
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

#define MOST_BYTES ((size_t)36)  /* of a block */
#define ROW_BLOCKS ((size_t)128) /* that are read at a time */

/* Blocks whose codes other layouts have, too: elements, bytes of scales in front of the codes, and how many bytes of
 * codes have an element of each half. NVFP4 has 4 scales, and 8 bytes for 16 elements each; Q8_0 a byte for each
 * element. */
static const struct block_kind {
    enum vc_dtype dtype;
    enum vc_scheme scheme;
    size_t elems, n_scales, n_codes, half;
} block_kinds[] = {{VC_DTYPE_MXFP4, VC_SCHEME_MXFP4, 32, 1, 16, 16},
                   {VC_DTYPE_NVFP4, VC_SCHEME_NVFP4, 64, 4, 32, 8},
                   {VC_DTYPE_Q4_0, VC_SCHEME_INT4, 32, 2, 16, 16},
                   {VC_DTYPE_Q8_0, VC_SCHEME_INT8, 32, 2, 32, 0}};
static const size_t n_block_kinds = sizeof block_kinds / sizeof block_kinds[0];

/* By the type or, where that is NONE, by the scheme; NULL if there is none. VC_SCHEME_NONE is the scheme of no row, so
 * that a search by type finds no other row by it. */
static const struct block_kind *find_kind(enum vc_dtype dtype, enum vc_scheme scheme)
{
    size_t i = 0;

    while (i < n_block_kinds && block_kinds[i].dtype != dtype && block_kinds[i].scheme != scheme) {
        i++;
    }
    return i < n_block_kinds ? &block_kinds[i] : NULL;
}

enum vc_scheme vc_llm_scheme_of(enum vc_dtype blocks)
{
    const struct block_kind *kind = find_kind(blocks, VC_SCHEME_NONE);

    return kind != NULL ? kind->scheme : VC_SCHEME_NONE;
}

/* Kinds with byte scales have one scale for each block, as the source has. int4 and int8 share a scale among the blocks
 * of a group or row, so a group has to be a whole number of blocks of 32. */
enum vc_dtype vc_llm_blocks_of(const struct vc_model *source, const struct vc_tensor *t)
{
    const struct vc_quant *q = t->quant;
    const struct vc_tensor *scale = q != NULL ? &source->tensors[vc_quant_scale(q)] : NULL;
    const struct block_kind *kind = q != NULL ? find_kind(VC_DTYPE_NONE, q->scheme) : NULL;

    if (kind == NULL || vc_quant_is_special(q) || t->n_dims != 2 || t->n_elems == 0 || t->shape[1] % kind->elems != 0) {
        return VC_DTYPE_NONE;
    }
    if (kind->n_scales != 2) {
        return kind->dtype;
    }
    uint64_t in_row = scale->n_elems / t->shape[0]; /* scales */
    if (!q->symmetric || q->axis != 0 ||
        (q->granularity != VC_GRANULARITY_GROUP && q->granularity != VC_GRANULARITY_CHANNEL) ||
        (scale->dtype != VC_DTYPE_F16 && scale->dtype != VC_DTYPE_BF16) || in_row == 0 ||
        scale->n_elems % t->shape[0] != 0 || t->shape[1] / 32 % in_row != 0) {
        return VC_DTYPE_NONE;
    }
    return kind->dtype;
}

/* A scale as f16; false: f16 has no such number.
 *
 * bf16 has 8 bits of exponent and 7 of mantissa. Exponents -14 to 15 are normal numbers of f16, whose mantissa has room
 * for the 7 bits. -15 to -17 are subnormal: 0x80 | mantissa are 128 to 255 units of 2^(e - 7), an f16 counts in units
 * of 2^-24, so the shift e + 17 loses no bit. Zero, infinities and NaN answer false. */
static bool half_of(enum vc_dtype from, unsigned bits, unsigned *half)
{
    int e = (int)(bits >> 7 & 0xffU) - 127;

    if (from == VC_DTYPE_F16) {
        *half = bits;
        return true;
    }
    *half = bits & 0x8000U;
    if (e >= -17 && e <= 15) {
        *half |= e >= -14 ? (unsigned)(e + 15) << 10 | (bits & 0x7fU) << 3 : (0x80U | (bits & 0x7fU)) << (e + 17);
    }
    return e >= -17 && e <= 15;
}

/* The scales of n blocks of 32 from number `first` on, as f16: blocks of a group share one. Blocks of zeros need none.
 * Group of block b: b / each. The scales of groups first / each up to (first + n - 1) / each are read at once. */
static enum vc_status read_halves(struct vc_ctx *ctx, const struct vc_model *source, size_t index, uint64_t first,
                                  size_t n, const unsigned char *codes, size_t n_codes, unsigned char *to)
{
    static const unsigned char zeros[32];
    const struct vc_tensor *t = &source->tensors[vc_quant_scale(source->tensors[index].quant)];
    uint64_t each = source->tensors[index].n_elems / 32 / t->n_elems; /* blocks of a group */
    unsigned char from[ROW_BLOCKS * 2];
    unsigned half;

    VC_CALL(vc_source_read_any(ctx, source, vc_quant_scale(source->tensors[index].quant), VC_FORM_VALUES,
                               first / each * 2, from, ((first + n - 1) / each - first / each + 1) * 2));
    for (size_t i = 0; i < n; i++) {
        VC_REFUSE_IF(!half_of(t->dtype, vc_le16(from + ((first + i) / each - first / each) * 2), &half) &&
                         memcmp(codes + i * n_codes, zeros, n_codes) != 0,
                     ctx, VC_E_UNSUPPORTED,
                     "%s: a scale is no f16 number, which GGUF's blocks have; dequantize the folder first", t->name);
        vc_put_le16(to + i * 2, (uint16_t)half);
    }
    return VC_OK;
}

/* A block of the source has element 2j in the low half of byte j and 2j + 1 in the high one; GGUF has j and j + half,
 * in each `2 * half` elements; half 0: a byte for each element. n: bytes of codes, n_scales of scales.
 *
 *     source  byte  0     1     2          15        half = 16: MXFP4, Q4_0
 *                   1 0   3 2   5 4  ...   31 30     nibbles: high, low
 *     GGUF          16 0  17 1  18 2 ...   31 15 */
static void pack_block(const unsigned char *scales, size_t n_scales, const unsigned char *from, size_t n, size_t half,
                       unsigned char *to)
{
    memcpy(to, scales, n_scales);
    if (half == 0) {
        memcpy(to + n_scales, from, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const unsigned char *at = from + i / half * half + i % half / 2;

        unsigned low = at[0];
        unsigned high = at[half / 2];

        to[n_scales + i] = (unsigned char)((low >> (i % 2 * 4) & 15U) | (high >> (i % 2 * 4) & 15U) << 4);
    }
}

/* Scales that are bytes: those of NVFP4 have no sign in GGUF, and neither kind has a NaN there. MXFP4: E8M0 0xff is
 * NaN. NVFP4: E4M3 0x7f is NaN, and from 0x80 on the sign is set. Halves are checked by read_halves. */
static enum vc_status check_scales(struct vc_ctx *ctx, const struct block_kind *kind, const unsigned char *scales,
                                   size_t n, const char *name)
{
    unsigned least = kind->scheme == VC_SCHEME_NVFP4 ? 0x7f : 0xff; /* of those that GGUF takes for other numbers */
    size_t i = 0;

    while (i < n && (kind->n_scales == 2 || scales[i] < least)) {
        i++;
    }
    return i == n ? VC_OK
                  : vc_fail(ctx, VC_E_UNSUPPORTED, "%s: a scale is negative or NaN, which GGUF has no place for", name);
}

/* Bytes of blocks from number `at` on: a writer copies parts of blocks, too. Codes of Q4_0 are 8 more than the
 * source's, which are two's complement.
 *
 * Each turn reads blocks of one row, at most ROW_BLOCKS, makes whole blocks, and gives out the bytes that are asked
 * for: `skipped` bytes in front of them belong to the range before. x ^ 0x88 adds 8 to both nibbles: two's complement
 * -8 to 7 becomes 0 to 15. */
static enum vc_status read_blocks(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                  uint64_t at, unsigned char *to, uint64_t n)
{
    const struct block_kind *kind = find_kind(t->dtype, VC_SCHEME_NONE);
    unsigned char codes[ROW_BLOCKS * 32];
    unsigned char scales[ROW_BLOCKS * 4];
    unsigned char blocks[ROW_BLOCKS * MOST_BYTES];
    uint64_t in_row = t->row_elems / kind->elems;
    size_t bytes = kind->n_scales + kind->n_codes;

    while (n != 0) {
        uint64_t block = at / bytes;
        size_t skipped = (size_t)(at % bytes);
        uint64_t row = block / in_row;
        const struct llm_piece *piece = &t->pieces[row / t->piece_rows];
        uint64_t in_piece = source_row(&t->order, row % t->piece_rows) * t->step;
        uint64_t first = (piece->first + in_piece) * in_row + block % in_row;
        size_t part = (size_t)vc_min_u64(in_row - block % in_row, ROW_BLOCKS);
        size_t taken = (size_t)vc_min_u64(n, part * bytes - skipped);
        const struct vc_quant *quant = source->tensors[piece->source].quant;
        size_t beside = quant != NULL ? vc_quant_scale(quant) : t->scales;

        part = (skipped + taken + bytes - 1) / bytes;
        VC_CALL(vc_source_read_any(ctx, source, piece->source, VC_FORM_VALUES, first * kind->n_codes, codes,
                                   part * kind->n_codes));
        if (kind->n_scales == 2) {
            VC_CALL(read_halves(ctx, source, piece->source, first, part, codes, kind->n_codes, scales));
        } else {
            VC_CALL(vc_source_read_any(ctx, source, beside, VC_FORM_VALUES, first * kind->n_scales, scales,
                                       part * kind->n_scales));
            if (quant != NULL) {
                VC_CALL(check_scales(ctx, kind, scales, part * kind->n_scales, source->tensors[beside].name));
            }
        }
        for (size_t i = 0; i < part; i++) {
            pack_block(scales + i * kind->n_scales, kind->n_scales, codes + i * kind->n_codes, kind->n_codes,
                       kind->half, blocks + i * bytes);
            for (size_t k = 2; kind->dtype == VC_DTYPE_Q4_0 && k < bytes; k++) {
                blocks[i * bytes + k] ^= 0x88U;
            }
        }
        memcpy(to, blocks + skipped, taken);
        at += taken;
        to += taken;
        n -= taken;
    }
    return VC_OK;
}

/* The codes of a block, the other way: pack_block has the picture. */
static void unpack_codes(const struct block_kind *kind, const unsigned char *from, unsigned char *to)
{
    size_t half = kind->half;

    for (size_t i = 0; i < kind->n_codes; i++) {
        const unsigned char *at = half != 0 ? from + i / half * half + 2 * i % half : from + i;
        unsigned shift = half != 0 && i % half >= half / 2 ? 4 : 0; /* elements of the second half */
        unsigned low = at[0];
        unsigned high = half != 0 ? at[1] : 0;
        unsigned code = half == 0 ? low : (low >> shift & 15U) | (high >> shift & 15U) << 4;

        to[i] = (unsigned char)(code ^ (kind->scheme == VC_SCHEME_INT4 ? 0x88U : 0U));
    }
}

/* On the way back: bytes from number `at` on of the codes of blocks, or of their scales. `each`: bytes of the part in a
 * block. `turns` 2: rows of two pieces take turns. */
static enum vc_status read_part(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                uint64_t at, unsigned char *to, uint64_t n)
{
    const struct block_kind *kind = find_kind(t->from, VC_SCHEME_NONE);
    size_t bytes = kind->n_scales + kind->n_codes;
    size_t each = t->part == LLM_CODES ? kind->n_codes : kind->n_scales;
    size_t turns = t->joined ? 2 : 1;
    unsigned char blocks[ROW_BLOCKS * MOST_BYTES];
    unsigned char parts[ROW_BLOCKS * MOST_BYTES];

    while (n != 0) {
        uint64_t block = at / each;
        size_t skipped = (size_t)(at % each);
        uint64_t row = block / t->row_elems;
        const struct llm_piece *piece = &t->pieces[row / t->piece_rows * turns + row % turns];
        uint64_t in_piece = source_row(&t->order, row % t->piece_rows / turns);
        uint64_t first = (piece->first + in_piece) * t->row_elems + block % t->row_elems;
        size_t part = (size_t)vc_min_u64(t->row_elems - block % t->row_elems, ROW_BLOCKS);
        size_t taken = (size_t)vc_min_u64(n, part * each - skipped);

        part = (skipped + taken + each - 1) / each;
        VC_CALL(vc_source_read_any(ctx, source, piece->source, VC_FORM_VALUES, first * bytes, blocks, part * bytes));
        for (size_t i = 0; i < part; i++) {
            if (t->part == LLM_CODES) {
                unpack_codes(kind, blocks + i * bytes + kind->n_scales, parts + i * each);
            } else {
                memcpy(parts + i * each, blocks + i * bytes, each);
            }
        }
        if (t->part == LLM_SCALES && t->n_dims == 2) { /* the scales of gpt_oss, of three dimensions, keep their bits */
            VC_CALL(check_scales(ctx, kind, parts, part * each, source->tensors[piece->source].name));
        }
        memcpy(to, parts + skipped, taken);
        at += taken;
        to += taken;
        n -= taken;
    }
    return VC_OK;
}

/* Rows of keys, which lie on their side in the file, and rows of values, head by head (kv_b_proj on the way back).
 *
 *     row 0 .. first_rows - 1           columns of the head's matrix of keys, [r, n]
 *     row first_rows .. piece_rows - 1  rows of its matrix of values, [W, r] */
static enum vc_status read_pair(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                size_t size, uint64_t at, unsigned char *to, uint64_t *n)
{
    uint64_t piece_elems = t->piece_rows * t->row_elems;
    const struct llm_piece *piece = &t->pieces[at / piece_elems * 2];
    uint64_t in_piece = at % piece_elems;
    uint64_t keys = t->first_rows * t->row_elems;
    struct llm_tensor own = *t;

    if (in_piece < keys) {
        own.piece_rows = t->first_rows;
        *n = vc_min_u64(*n, keys - in_piece);
        return read_columns(ctx, source, &own, piece, in_piece, to, n);
    }
    *n = vc_min_u64(*n, piece_elems - in_piece);
    return vc_source_read_any(ctx, source, piece[1].source, VC_FORM_VALUES,
                              (piece[1].first * t->row_elems + in_piece - keys) * size, to, (size_t)*n * size);
}

/* n elements from number `at` of the GGUF tensor. size: of an element, or of a block that stays as it is. Without an
 * order a piece is read in one go; with an order, row by row. */
static enum vc_status read_source(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *t,
                                  size_t size, uint64_t at, unsigned char *to, uint64_t n)
{
    uint64_t piece_elems = t->piece_rows * t->row_elems;
    bool as_is =
        t->dtype == t->from && t->row_scales == NULL && t->scale == 1.0F && t->add == 0.0F && t->function == LLM_LINEAR;

    while (n != 0) {
        const struct llm_piece *piece =
            &t->pieces[at / piece_elems * (t->joined || t->halves || t->first_rows != 0 ? 2 : 1)];
        uint64_t in_piece = at % piece_elems;
        uint64_t column = in_piece % t->row_elems;
        uint64_t row = piece->first + source_row(&t->order, in_piece / t->row_elems) * t->step;
        struct llm_tensor row_of = *t; /* with the factor of the row */
        bool alone = t->order.groups != 0 || t->row_scales != NULL ||
                     (t->step != 1 && t->columns == 0); /* rows do not follow one another */
        uint64_t part = vc_min_u64(n, alone ? t->row_elems - column : piece_elems - in_piece);
        uint64_t first = row * t->row_elems + column;
        uint64_t there = t->rows_there * t->row_elems;

        if (there != 0 && first >= there) {
            first = column;
            part = vc_min_u64(n, t->row_elems - column);
        } else if (there != 0) {
            part = vc_min_u64(part, there - first);
        }
        if (t->first_rows != 0) {
            part = n;
            VC_CALL(read_pair(ctx, source, t, size, at, to, &part));
        } else if (t->columns != 0) {
            VC_CALL(read_columns(ctx, source, t, piece, in_piece, to, &part));
        } else if (as_is) {
            VC_CALL(
                vc_source_read_any(ctx, source, piece->source, VC_FORM_VALUES, first * size, to, (size_t)part * size));
        } else {
            row_of.scale *= t->row_scales != NULL ? t->row_scales[in_piece / t->row_elems] : 1.0F;
            VC_CALL(convert(ctx, source, &row_of, piece->source, first, to, part));
        }
        at += part;
        to += part * size;
        n -= part;
    }
    return VC_OK;
}

/* Ranges of blocks that are made, or taken apart, may begin and end anywhere; other ranges are whole elements. */
enum vc_status vc_llm_values_read(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_tensor *tensor,
                                  uint64_t offset, void *dst, size_t n_bytes)
{
    size_t size = vc_dtype_facts(tensor->dtype)->block_bytes;
    unsigned char *to = dst;

    if (tensor->part != LLM_ALL_PARTS) {
        return read_part(ctx, source, tensor, offset, to, n_bytes);
    }
    if (tensor->from != tensor->dtype && vc_dtype_is_quantized(tensor->dtype)) {
        return read_blocks(ctx, source, tensor, offset, to, n_bytes);
    }
    VC_REFUSE_IF(offset % size != 0 || n_bytes % size != 0, ctx, VC_E_INTERNAL, "%s: a read of parts of elements",
                 tensor->name);
    if (tensor->values == NULL) {
        return read_source(ctx, source, tensor, size, offset / size, to, n_bytes / size);
    }
    for (size_t i = 0; i < n_bytes / size; i++) {
        vc_put_le32(to + 4 * i, bits_of_float(tensor->values[offset / size + i]));
    }
    return VC_OK;
}

/* compressed-tensors divides by its global scale, ModelOpt multiplies (global_multiplies); GGUF multiplies. The number
 * is stored, not put into the blocks' E4M3 scales, which would round. */
enum vc_status vc_llm_plan_add_scale(struct vc_ctx *ctx, const struct vc_model *source, struct llm_plan *plan,
                                     const struct llm_tensor *t)
{
    const char *name =
        vc_arena_printf(ctx, plan->arena, "%.*sscale", (int)(strlen(t->name) - strlen("weight")), t->name);
    float *values = vc_arena_alloc(ctx, plan->arena, t->n_pieces * sizeof *values);

    VC_CALL_ALLOC(name);
    VC_CALL_ALLOC(values);
    VC_REFUSE_IF(t->scale != 1.0F || t->add != 0.0F, ctx, VC_E_UNSUPPORTED,
                 "%s: its values change, and are codes; dequantize the folder first",
                 source->tensors[t->pieces[0].source].name);
    if (t->dtype != VC_DTYPE_NVFP4) {
        return VC_OK;
    }
    for (size_t i = 0; i < t->n_pieces; i++) {
        const struct vc_tensor *codes = &source->tensors[t->pieces[i].source];
        size_t global = vc_quant_find(codes->quant, VC_PART_GLOBAL_SCALE);

        VC_CALL(vc_llm_value_read(ctx, source, global, 0, &values[i]));
        values[i] = codes->quant->global_multiplies ? values[i] : 1.0F / values[i];
        VC_REFUSE_IF(!(values[i] > 0.0F && values[i] < INFINITY), ctx, VC_E_UNSUPPORTED,
                     "%s: its scale for all of it is not above 0 and finite", codes->name);
    }
    VC_CALL(vc_llm_plan_add_values(ctx, plan, name, values, t->n_pieces));
    plan->tensors[plan->n - 1].layer = t->layer;
    return VC_OK;
}

/* The reasons in the order of vc_llm_blocks_of; the last one is what is left when no other fits. */
const char *vc_llm_why_no_blocks(const struct vc_model *source, const struct vc_tensor *t)
{
    const struct vc_quant *q = t->quant;
    enum vc_dtype scale = q != NULL ? source->tensors[vc_quant_scale(q)].dtype : VC_DTYPE_NONE;

    if (q == NULL || vc_llm_blocks_of(source, t) != VC_DTYPE_NONE) {
        return "columns or values of the matrix change";
    }
    if (t->n_dims != 2 || t->shape[1] % 32 != 0) {
        return "its rows are no multiple of 32";
    }
    if (!q->symmetric) {
        return "they have zero points";
    }
    if (vc_quant_is_special(q)) {
        return "no block has their groups, or the numbers beside their scales";
    }
    if (q->scheme != VC_SCHEME_INT4 && q->scheme != VC_SCHEME_INT8) {
        return "no type of blocks has such codes";
    }
    if (scale != VC_DTYPE_F16 && scale != VC_DTYPE_BF16) {
        return "their scales are neither f16 nor bf16";
    }
    return "groups are no whole blocks of 32 in a row";
}
