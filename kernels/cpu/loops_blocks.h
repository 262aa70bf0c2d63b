/* loops_blocks.h - part of loops.h: GGUF's block types. Q8_0 from weights, block by block with its statistics, and
 * the values of the types that models use most. Layouts and definitions: blocks.h. */
#pragma once

#include "core/base/compiler.h"
#include "kernels/blocks.h"
#include "kernels/cpu/block_loop.h"

/* ---- Q8_0 from weights ---- */

/* 1/2 - 2^-25. The integer part of t + NEARLY_HALF is t rounded half away from zero (vc_q8_0_encode), 0 <= t < 128.
 * With t = k + f, k whole: where f >= 1/2 the sum is at least k + 1 - 2^-25, which is nearer to k + 1 than to the float
 * below (for k = 0 a tie, and k + 1 is even). Where f < 1/2, f is at most 1/2 less one unit u in the last place of t
 * (for k = 0 at most 1/2 - 2^-25), and the sum at most k + 1 - u (for k = 0: 1 - 2^-24), a float. */
#define NEARLY_HALF 0.49999997f

/* Errors of a strip again, in f64, from the blocks that it has written: where some error is inexact in f32, or not
 * finite. The latter makes zeros_after unsure as well, so it is counted anew. */
static void q8_0_errors_wide(const float *x, size_t n, const uint8_t *blocks, struct strip *strip)
{
    strip->zeros_after = 0;
    for (size_t i = 0; i < n; i++) {
        float v = vc_get_f32(x, i);
        float y = vc_q8_0_value(blocks + i / 32 * VC_Q8_0_BYTES, (uint32_t)(i % 32));
        bool ok = vc_f32_magnitude(v) < VC_F32_INF_BITS && vc_f32_magnitude(y) < VC_F32_INF_BITS;

        strip->xw[i] = ok ? (double)v : 0.0;
        strip->ew[i] = ok ? fabs((double)v - (double)y) : 0.0;
        strip->zeros_after += y == 0.0f;
    }
    strip->max_wide = max_f64(strip->ew, n);
}

/* Whether errors of a block with this step may be inexact in f32 (then q8_0_lost looks at each). For all other steps
 * they are exact, and sums of their squares are those of the definition. The proof:
 *
 * The error is d = |x| - q * h, with h the step s rounded to f16. Let q come from t = |x| / s (1 + a), |a| < 2^-22,
 * and h = s (1 + b), |b| <= 2^-11, which f16's normal range grants. (Where h is infinite, d is no number, and the
 * strip is done again.)
 * q = 0: d is |x|.
 * q >= 2, or q = 1 and |x| >= h / 2: q * h is within a factor 2 of |x|, so the difference is exact (Sterbenz).
 * q = 1 and |x| < h / 2: let 2^e <= s <= 2^e (2 - 2^-9). The inverse of s is at most 2^-e and t at least 1/2, so |x|
 * >= 2^(e - 1): |x|, h and d are multiples of 2^(e - 24), and |d| <= s (1/2 + 2^-11 + 2^-23) < 2^e: 24 bits are
 * enough. */
static inline bool q8_0_is_rare(float step)
{
    uint32_t u = vc_f32_bits(step);

    return u < 0x38800000u || (u & 0x007fffffu) > 0x007fc000u; /* no normal f16; near the next power of 2 */
}

#ifdef VC_HAVE_X86
#include "kernels/cpu/loops_q8_0_x86.h"
#define q8_0_blocks q8_0_blocks_x86
#else
/* The 32 codes of a block: vc_q8_0_encode without branches. The clamp makes the conversion defined where the block is
 * not finite. */
static inline void q8_0_codes(const float *restrict x, float inverse, int8_t *restrict q)
{
    int32_t k[32];

    for (size_t i = 0; i < 32; i++) {
        float t = vc_get_f32(x, i) * inverse;
        float a = vc_bits_f32(vc_f32_magnitude(t));
        int32_t whole = (int32_t)((a < 127.0f ? a : 127.0f) + NEARLY_HALF);
        int32_t sign = (int32_t)vc_f32_bits(t) >> 31; /* 0 or -1 */

        k[i] = (whole ^ sign) - sign;
    }
    for (size_t i = 0; i < 32; i++) {
        q[i] = (int8_t)k[i];
    }
}

/* Errors x - y of the 32 elements of a block in f32, with the counters; step: as stored, widened from f16. */
static inline void q8_0_errors(const float *restrict x, const int8_t *restrict q, float step, float *restrict e,
                               struct strip *restrict strip)
{
    uint32_t top = strip->max_bits;
    uint32_t before = 0;
    uint32_t after = 0;

    for (size_t i = 0; i < 32; i++) {
        float v = vc_get_f32(x, i);
        float y = (float)q[i] * step; /* exact: 8 bits times 11 */

        e[i] = v - y;
        top = larger(top, vc_f32_magnitude(e[i]));
        before += v == 0.0f;
        after += y == 0.0f;
    }
    strip->max_bits = top;
    strip->zeros_before += before;
    strip->zeros_after += after;
}

/* What rounding took away from those errors: Knuth's two-sum gives the exact difference as e + rest. 0 where all are
 * exact; otherwise the strip is done again in f64. */
static inline uint32_t q8_0_lost(const float *restrict x, const int8_t *restrict q, float step, const float *restrict e)
{
    uint32_t lost = 0;

    for (size_t i = 0; i < 32; i++) {
        float v = vc_get_f32(x, i);
        float t = v - e[i];
        float rest = (v - (e[i] + t)) + (t - (float)q[i] * step);

        lost |= vc_f32_magnitude(rest);
    }
    return lost;
}

/* One block: magnitude, step, codes, and with `measure` the errors of its 32 elements in e. *lost becomes nonzero
 * where one of them is inexact. */
static void q8_0_block(const float *x, uint32_t *bits, uint8_t *block, bool measure, float *e, uint32_t *lost,
                       struct strip *strip)
{
    uint32_t most = absmax_run(x, 32);
    float step = vc_q8_0_step(most);
    uint16_t stored = vc_f32_to_f16(step);
    int8_t q[32];

    vc_put_u32(bits, 0, most);
    block[0] = (uint8_t)stored;
    block[1] = (uint8_t)(stored >> 8);
    q8_0_codes(x, vc_q8_0_inverse(step), q);
    memcpy(block + 2, q, sizeof q);
    if (measure) {
        q8_0_errors(x, q, vc_f16_to_f32(stored), e, strip);
    }
    if (measure && q8_0_is_rare(step)) {
        *lost |= q8_0_lost(x, q, vc_f16_to_f32(stored), e);
    }
}

/* The blocks of n elements; returns what is not 0 where an error is not exact in f32. */
static inline uint32_t q8_0_blocks(const float *x, size_t n, uint32_t *bits, uint8_t *blocks, bool measure,
                                   struct strip *strip)
{
    uint32_t lost = 0;

    for (size_t i = 0; i < n; i += 32) {
        q8_0_block(x + i, bits + i / 32, blocks + i / 32 * VC_Q8_0_BYTES, measure, strip->e + i, &lost, strip);
    }
    return lost;
}
#endif

/* The strip function of q8_0_rows. Strips are whole blocks: rows, chunks and STRIP are multiples of 32. */
static void strip_q8_0(struct op *op, size_t first, size_t n, struct strip *strip)
{
    const float *x = (const float *)op->x + first;
    uint8_t *blocks = (uint8_t *)op->out + first / 32 * VC_Q8_0_BYTES;

    (void)strip_start(strip, x);
    uint32_t lost = q8_0_blocks(x, n, op->bits + first / 32, blocks, op->measure, strip);
    strip->wide = lost != 0 || strip->max_bits >= VC_F32_INF_BITS;
    if (strip->wide) {
        q8_0_errors_wide(x, n, blocks, strip);
    }
}

int VC_VARIANT(q8_0_rows)(const float *x, size_t n_rows, size_t row_len, uint32_t *bits, uint8_t *blocks,
                          struct vc_tile_stats *stats)
{
    struct op op = {
        .strip = strip_q8_0, .x = x, .out = blocks, .row_len = row_len, .bits = bits, .measure = stats != NULL};

    run_tile(&op, n_rows, row_len, stats);
    return 0;
}

/* ---- values from blocks ---- */

/* Whether the f16 at p is a number: its exponent is not all ones. */
static inline bool finite_f16(const uint8_t *p)
{
    return (p[1] & 0x7c) != 0x7c;
}

/* Codes are unpacked to bytes first, eight at a time in an ordinary integer (EVERY(b) is the byte b eight times);
 * then bytes become values in a loop that compilers make vectors of. (Left to themselves they unpack with shuffles:
 * seven times slower.) */
#define EVERY(byte) ((byte)*0x0101010101010101u)

#define NO_LEAST (-0.0f) /* x + -0 is x, zeros of both signs included */

/* Eight bytes as an integer, byte 0 lowest, and back. */
static inline uint64_t get_8(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline void put_8(int8_t *q, uint64_t v)
{
    memcpy(q, &v, sizeof v);
}

#ifndef VC_HAVE_X86
/* The step (or minimum) at p, which is finite: F16C needs no care for NaN then (loops_x86.h). */
static inline float finite_step(const uint8_t *p)
{
    return vc_block_f16(p);
}

/* y = (code - offset) * step + least; least NO_LEAST where the type has none. */
static inline void values(const int8_t *restrict q, size_t n, int32_t offset, float step, float least,
                          float *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        vc_put_f32(y, i, (float)(q[i] - offset) * step + least);
    }
}
#endif

/* n bytes become 2 n codes of four bits: first those of the low halves, then those of the high halves, as in the
 * blocks. */
static inline void nibbles(const uint8_t *codes, size_t n, int8_t *q)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = get_8(codes + i);

        put_8(q + i, v & EVERY(0x0f));
        put_8(q + n + i, v >> 4 & EVERY(0x0f));
    }
}

/* The fifth bits of 32 codes: adds 16 to code i where bit i of the four bytes is set. A byte is spread over eight
 * bytes; each keeps its own bit (the lowest byte bit 0: little-endian, as everything here), and adding 0x7f carries
 * it to the top. */
static inline void fifth_bits(const uint8_t *high, int8_t *q)
{
    for (size_t k = 0; k < 4; k++) {
        uint64_t v = EVERY(high[k]) & 0x8040201008040201u;

        v = (v + EVERY(0x7f)) >> 3 & EVERY(0x10);
        put_8(q + 8 * k, get_8((const uint8_t *)q + 8 * k) | v);
    }
}

/* block_<type>: the values of one block at b whose steps and minima are finite. */
static inline void block_q4_0(const uint8_t *b, float *y)
{
    int8_t q[32];

    nibbles(b + 2, 16, q);
    values(q, 32, 8, finite_step(b), NO_LEAST, y);
}

static inline void block_q4_1(const uint8_t *b, float *y)
{
    int8_t q[32];

    nibbles(b + 4, 16, q);
    values(q, 32, 0, finite_step(b), finite_step(b + 2), y);
}

static inline void block_q5_0(const uint8_t *b, float *y)
{
    int8_t q[32];

    nibbles(b + 6, 16, q);
    fifth_bits(b + 2, q);
    values(q, 32, 16, finite_step(b), NO_LEAST, y);
}

static inline void block_q5_1(const uint8_t *b, float *y)
{
    int8_t q[32];

    nibbles(b + 8, 16, q);
    fifth_bits(b + 4, q);
    values(q, 32, 0, finite_step(b), finite_step(b + 2), y);
}

static inline void block_q8_0(const uint8_t *b, float *y)
{
    values((const int8_t *)b + 2, 32, 0, finite_step(b), NO_LEAST, y);
}

/* Q4_K and Q5_K: eight runs of 32 elements, each with a scale and a minimum; 32 bytes of codes serve two runs. high:
 * the fifth bits of Q5_K, bit j of byte i for element i of run j; NULL if there are none. */
static inline void block_k(const uint8_t *b, const uint8_t *codes, const uint8_t *high, float *y)
{
    float d = finite_step(b);
    float m = finite_step(b + 2);
    int8_t q[64];

    for (uint32_t j = 0; j < 8; j++) {
        if (j % 2 == 0) {
            nibbles(codes + 16 * j, 32, q);
        }
        for (size_t i = 0; high != NULL && i < 32; i += 8) {
            int8_t *to = q + 32 * (j % 2) + i;

            put_8(to, get_8((const uint8_t *)to) | (get_8(high + i) >> j & EVERY(0x01)) << 4);
        }
        values(q + 32 * (j % 2), 32, 0, d * (float)vc_k_scale(b + 4, j), -(m * (float)vc_k_min(b + 4, j)), y + 32 * j);
    }
}

static inline void block_q4_k(const uint8_t *b, float *y)
{
    block_k(b, b + 16, NULL, y);
}

static inline void block_q5_k(const uint8_t *b, float *y)
{
    block_k(b, b + 48, b + 16, y);
}

/* Q6_K: 128 codes from 64 bytes of lower bits and 32 bytes of upper ones. This and times_16 stay functions: inlined,
 * gcc 12 mixes the two into something seven times slower. */
static VC_NOINLINE void codes_q6(const uint8_t *low, const uint8_t *high, int8_t *q)
{
    for (size_t i = 0; i < 32; i += 8) {
        uint64_t a = get_8(low + i);
        uint64_t b = get_8(low + 32 + i);
        uint64_t h = get_8(high + i);

        put_8(q + i, (a & EVERY(0x0f)) | (h & EVERY(0x03)) << 4);
        put_8(q + 32 + i, (b & EVERY(0x0f)) | (h >> 2 & EVERY(0x03)) << 4);
        put_8(q + 64 + i, (a >> 4 & EVERY(0x0f)) | (h >> 4 & EVERY(0x03)) << 4);
        put_8(q + 96 + i, (b >> 4 & EVERY(0x0f)) | (h >> 6 & EVERY(0x03)) << 4);
    }
}

/* The values of 16 codes, which share a scale. */
static VC_NOINLINE void times_16(const int8_t *restrict q, float step, float *restrict y)
{
    values(q, 16, 32, step, NO_LEAST, y);
}

static inline void block_q6_k(const uint8_t *b, float *y)
{
    float d = finite_step(b + 208);
    int8_t q[128];

    for (size_t half = 0; half < 2; half++) {
        codes_q6(b + 64 * half, b + 128 + 32 * half, q);
        for (size_t j = 0; j < 8; j++) {
            times_16(q + 16 * j, d * (float)(int8_t)b[192 + 8 * half + j], y + 128 * half + 16 * j);
        }
    }
}

/* Q2_K and Q3_K: 32 codes of two bits, number `run` of four that 32 bytes hold side by side. */
static inline void pairs(const uint8_t *codes, uint32_t run, int8_t *q)
{
    for (size_t i = 0; i < 32; i += 8) {
        put_8(q + i, get_8(codes + i) >> 2 * run & EVERY(0x03));
    }
}

static inline void block_q2_k(const uint8_t *b, float *y)
{
    float d = finite_step(b + 80);
    float m = finite_step(b + 82);
    int8_t q[32];

    for (uint32_t j = 0; j < 16; j++) {
        if (j % 2 == 0) {
            pairs(b + 16 + j / 8 * 32, j % 8 / 2, q);
        }
        values(q + 16 * (j % 2), 16, 0, d * (float)(b[j] & 15), -(m * (float)(b[j] >> 4)), y + 16 * j);
    }
}

/* Bit run of byte i of the first 32 is the third bit of element i of each run. */
static inline void block_q3_k(const uint8_t *b, float *y)
{
    float d = finite_step(b + 108);
    int8_t q[32];

    for (uint32_t j = 0; j < 16; j++) {
        if (j % 2 == 0) {
            pairs(b + 32 + j / 8 * 32, j % 8 / 2, q);
            for (size_t i = 0; i < 32; i += 8) {
                put_8(q + i, get_8((const uint8_t *)q + i) | (get_8(b + i) >> j / 2 & EVERY(0x01)) << 2);
            }
        }
        values(q + 16 * (j % 2), 16, 4, d * (float)vc_q3_k_scale(b + 96, j), NO_LEAST, y + 16 * j);
    }
}

/* The kernel of a type: n elements, whole blocks. With finite steps no value is NaN, so block_<type> needs no test
 * per element; other blocks go element by element through blocks.h. steps: what has to be finite. */
#define DECODE(type, elems, bytes, steps)                                        \
    int VC_VARIANT(type##_to_f32)(const uint8_t *blocks, size_t n, float *y)     \
    {                                                                            \
        for (const uint8_t *b = blocks; n != 0; n -= (elems), b += (bytes)) {    \
            if (steps) {                                                         \
                block_##type(b, y);                                              \
            } else {                                                             \
                for (uint32_t i = 0; i < (elems); i++) {                         \
                    vc_put_f32(y, i, vc_##type##_value(b, i));                   \
                }                                                                \
            }                                                                    \
            y += (elems); /* never dereferenced as it is: it may be unaligned */ \
        }                                                                        \
        return 0;                                                                \
    }

DECODE(q4_0, 32, VC_Q4_0_BYTES, finite_f16(b))
DECODE(q4_1, 32, VC_Q4_1_BYTES, finite_f16(b) && finite_f16(b + 2))
DECODE(q5_0, 32, VC_Q5_0_BYTES, finite_f16(b))
DECODE(q5_1, 32, VC_Q5_1_BYTES, finite_f16(b) && finite_f16(b + 2))
DECODE(q8_0, 32, VC_Q8_0_BYTES, finite_f16(b))
DECODE(q2_k, 256, VC_Q2_K_BYTES, finite_f16(b + 80) && finite_f16(b + 82))
DECODE(q3_k, 256, VC_Q3_K_BYTES, finite_f16(b + 108))
DECODE(q4_k, 256, VC_Q4_K_BYTES, finite_f16(b) && finite_f16(b + 2))
DECODE(q5_k, 256, VC_Q5_K_BYTES, finite_f16(b) && finite_f16(b + 2))
DECODE(q6_k, 256, VC_Q6_K_BYTES, finite_f16(b + 208))
#undef DECODE

#undef NO_LEAST

/* ---- blocks from weights ---- */

#ifdef VC_HAVE_X86
#include "kernels/cpu/loops_lanes_x86.h"
#else
VC_BLOCKS_LOOP(VC_VARIANT(iq4_nl_blocks), iq4_nl, 32, VC_Q4_0_BYTES)
VC_BLOCKS_LOOP(VC_VARIANT(iq4_xs_blocks), iq4_xs, 256, 136)

#define FORWARD(type)                                                                                            \
    int VC_VARIANT(type##_blocks)(const float *x, size_t n_rows, size_t row_len, const struct vc_block_how *how, \
                                  uint8_t *blocks)                                                               \
    {                                                                                                            \
        return vc_##type##_blocks_ref(x, n_rows, row_len, how, blocks);                                          \
    }
FORWARD(q2_0)
FORWARD(q2_k)
FORWARD(q3_k)
FORWARD(q4_k)
FORWARD(q5_k)
FORWARD(q6_k)
FORWARD(mxfp4)
FORWARD(nvfp4)
FORWARD(q4_0)
FORWARD(q4_1)
FORWARD(q5_0)
FORWARD(q5_1)
FORWARD(q8_0)
FORWARD(tq1_0)
FORWARD(tq2_0)
#undef FORWARD
#endif

#undef EVERY
