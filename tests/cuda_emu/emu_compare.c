/* emu_compare.c - see emu_compare.h. Each kernel has a function that runs it with one table into one set of output
 * arrays; both sets start with the same poison and are then compared whole, including room that must not be touched.
 * A new kernel needs its function (or line of a macro) and a line in `kernels`. */
#include "emu_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/arith.h"
#include "kernels/cpu/variants.h"

#define N_OUT  4
#define GUARD  64
#define POISON 0xaa

/* The inputs of a shape, made once and read by every kernel: every kind of array that one takes. */
struct inputs {
    const struct emu_shape *shape;
    size_t n, n_groups, n_chunks, n_channels;
    void *blocks[12];
    unsigned n_blocks;
    float *f32, *f32_other, *f32_finite, *importance; /* importance: of columns */
    double *f64, *f64_other;
    uint16_t *halves;
    int8_t *codes, *zeros;
    float *scales;
};

/* One output array: data lies in block, with GUARD bytes on either side. */
struct out {
    const char *what;
    unsigned char *block, *data;
    size_t bytes;
    int doubles; /* aligned, and any NaN equals any other */
};

/* What one run of one kernel wrote. */
struct outputs {
    const struct inputs *in;
    struct out arrays[N_OUT];
    unsigned n;
    struct vc_tile_stats stats;
    struct vc_diff_sums diff;
    struct vc_value_counts values;
};

static uint64_t random_state;

/* xorshift64. */
static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void *aligned_block(size_t bytes)
{
    void *p = NULL;

    if (posix_memalign(&p, 64, bytes) != 0) {
        abort();
    }
    return p;
}

/* An input array of so many bytes, misaligned as the shape says; freed by inputs_free. */
static void *input(struct inputs *in, size_t bytes)
{
    unsigned char *block = aligned_block(bytes + in->shape->misalign + 1);

    in->blocks[in->n_blocks++] = block;
    return block + in->shape->misalign;
}

/* ---- values ---- */

/* Edges of f32, f16 and bf16, NaN, Inf, or any bits. */
static float special_value(uint64_t r)
{
    static const uint32_t bits[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
                                    0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x33000000,
                                    0x33000001, 0x477fefff, 0x477ff000, 0x7f7f7fff, 0x7f7f8000, 0x38800000};

    return vc_bits_f32(r % 3 == 0 ? (uint32_t)(r >> 8) : bits[(r >> 8) % (sizeof bits / sizeof bits[0])]);
}

static float value(enum emu_values kind)
{
    uint64_t r = next_random();
    float u = (float)(int32_t)(r >> 32) * 0x1p-31f;

    switch (kind) {
    case EMU_TIES:
        return (float)((int)(r >> 40 & 511) - 255) * 0.5f;
    case EMU_SPECIAL:
        return special_value(r);
    case EMU_ZERO:
        return r & 1 ? 0.0f : -0.0f;
    default:
        return r % 97 == 0 ? u * 30.0f : u * u * u;
    }
}

/* As `value`, with numbers that f32 does not have. */
static double wide_value(enum emu_values kind)
{
    uint64_t r = next_random();
    double d;

    if (kind == EMU_SPECIAL && r % 4 == 0) { /* f64 that f32 does not have; small enough for products to stay finite */
        r = next_random();
        d = vc_bits_f64((r & 0x800fffffffffffffu) | (0x300ull + (r >> 52 & 0x1ff)) << 52);
        return d;
    }
    if (kind == EMU_SPECIAL && r % 64 == 1) {
        return vc_bits_f64(r >> 13); /* subnormal or tiny */
    }
    return (double)value(kind) * (kind == EMU_NORMAL ? 1.000000123 : 1.0);
}

static void fill(struct inputs *in)
{
    enum emu_values kind = in->shape->values;
    uint16_t half;
    float x;
    double d;

    for (size_t i = 0; i < in->n; i++) {
        x = value(kind);
        memcpy((char *)in->f32 + 4 * i, &x, 4);
        if (next_random() % 4 != 0) { /* most pairs are equal */
            x = value(kind);
        }
        memcpy((char *)in->f32_other + 4 * i, &x, 4);
        do {
            x = value(kind);
        } while (vc_f32_magnitude(x) >= VC_F32_INF_BITS);
        memcpy((char *)in->f32_finite + 4 * i, &x, 4);
        d = wide_value(kind);
        memcpy((char *)in->f64 + 8 * i, &d, 8);
        if (next_random() % 4 != 0) {
            d = wide_value(kind);
        }
        memcpy((char *)in->f64_other + 8 * i, &d, 8);
        half = (uint16_t)next_random();
        memcpy((char *)in->halves + 2 * i, &half, 2);
        in->codes[i] = (int8_t)next_random();
    }
    for (size_t i = 0; i < in->n_groups + in->n_channels; i++) {
        x = 0.25f / (float)(1 + next_random() % 100);
        memcpy((char *)in->scales + 4 * i, &x, 4);
        in->zeros[i] = (int8_t)next_random();
    }
    for (size_t i = 0; i < in->shape->row_len; i++) {
        x = (float)(next_random() % 100) / 64.0f;
        memcpy((char *)in->importance + 4 * i, &x, 4);
    }
}

static void inputs_create(const struct emu_shape *shape, struct inputs *in)
{
    size_t scales;

    memset(in, 0, sizeof *in);
    random_state = 0x9e3779b97f4a7c15u ^ shape->n_rows << 40 ^ shape->row_len << 8 ^ shape->values;
    in->shape = shape;
    in->n = shape->n_rows * shape->row_len;
    in->n_groups = shape->n_rows * (shape->row_len / shape->group + (shape->row_len % shape->group != 0));
    in->n_chunks = shape->n_rows * (shape->row_len / VC_CHUNK_ELEMS + (shape->row_len % VC_CHUNK_ELEMS != 0));
    in->n_channels = (size_t)shape->axis.n_channels;
    scales = in->n_groups + in->n_channels;
    in->f32 = input(in, 4 * in->n);
    in->f32_other = input(in, 4 * in->n);
    in->f32_finite = input(in, 4 * in->n);
    in->f64 = input(in, 8 * in->n);
    in->f64_other = input(in, 8 * in->n);
    in->halves = input(in, 2 * in->n);
    in->codes = input(in, in->n);
    in->zeros = input(in, scales);
    in->scales = input(in, 4 * scales);
    in->importance = input(in, 4 * shape->row_len);
    fill(in);
}

static void inputs_free(struct inputs *in)
{
    while (in->n_blocks > 0) {
        free(in->blocks[--in->n_blocks]);
    }
}

/* ---- outputs ---- */

/* A poisoned output array; `what` names it in reports. */
static void *output(struct outputs *out, const char *what, size_t bytes, int doubles)
{
    struct out *array = &out->arrays[out->n++];
    size_t misalign = doubles ? 0 : out->in->shape->misalign;

    array->what = what;
    array->bytes = bytes;
    array->doubles = doubles;
    array->block = aligned_block(bytes + 2 * GUARD + misalign);
    array->data = array->block + GUARD + misalign;
    memset(array->block, POISON, bytes + 2 * GUARD + misalign);
    return array->data;
}

static struct vc_tile_stats *stats_output(struct outputs *out)
{
    memset(&out->stats, POISON, sizeof out->stats);
    out->stats.chunk_sums = output(out, "chunk sums", 16 * out->in->n_chunks, 1);
    return &out->stats;
}

static void outputs_free(struct outputs *out)
{
    for (unsigned i = 0; i < out->n; i++) {
        free(out->arrays[i].block);
    }
    out->n = 0;
}

/* ---- kernels ---- */

typedef int run_fn(const struct vc_kernels *table, const struct inputs *in, struct outputs *out);

static int run_absmax_rows(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    return t->absmax_rows(in->f32, in->shape->n_rows, in->shape->row_len, in->shape->group,
                          output(out, "bits", 4 * in->n_groups, 0));
}

/* axis kernels accumulate: the caller clears. */
static void *cleared(void *p, size_t bytes)
{
    return memset(p, 0, bytes);
}

static int run_absmax_axis(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    uint32_t *bits = cleared(output(out, "bits", 4 * in->n_channels, 0), 4 * in->n_channels);

    return t->absmax_axis(in->f32, in->n, &in->shape->axis, bits);
}

static int run_range_rows(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    uint32_t *pos = output(out, "pos", 4 * in->n_groups, 0);
    uint32_t *neg = output(out, "neg", 4 * in->n_groups, 0);

    return t->range_rows(in->f32, in->shape->n_rows, in->shape->row_len, in->shape->group, pos, neg);
}

static int run_range_axis(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    uint32_t *pos = cleared(output(out, "pos", 4 * in->n_channels, 0), 4 * in->n_channels);
    uint32_t *neg = cleared(output(out, "neg", 4 * in->n_channels, 0), 4 * in->n_channels);

    return t->range_axis(in->f32, in->n, &in->shape->axis, pos, neg);
}

static int run_int8_rows(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    uint32_t *bits = output(out, "bits", 4 * in->n_groups, 0);
    float *scale = output(out, "scales", 4 * in->n_groups, 0);
    int8_t *q = output(out, "codes", in->n, 0);

    return t->int8_rows(in->f32_finite, in->shape->n_rows, in->shape->row_len, in->shape->group, bits, scale, q,
                        stats_output(out));
}

static int run_int8_rows_plain(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    uint32_t *bits = output(out, "bits", 4 * in->n_groups, 0);
    float *scale = output(out, "scales", 4 * in->n_groups, 0);
    int8_t *q = output(out, "codes", in->n, 0);

    return t->int8_rows(in->f32_finite, in->shape->n_rows, in->shape->row_len, in->shape->group, bits, scale, q, NULL);
}

static int run_int8_rows_given(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    int8_t *q = output(out, "codes", in->n, 0);

    return t->int8_rows_given(in->f32_finite, in->shape->n_rows, in->shape->row_len, in->shape->group, in->scales, NULL,
                              q, stats_output(out));
}

static int run_int8_rows_given_asym(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    int8_t *q = output(out, "codes", in->n, 0);

    return t->int8_rows_given(in->f32_finite, in->shape->n_rows, in->shape->row_len, in->shape->group, in->scales,
                              in->zeros, q, stats_output(out));
}

static int run_int8_axis_given(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    int8_t *q = output(out, "codes", in->n, 0);

    return t->int8_axis_given(in->f32_finite, in->shape->n_rows, in->shape->row_len, &in->shape->axis, in->scales, NULL,
                              q, stats_output(out));
}

static int run_int8_axis_given_asym(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    int8_t *q = output(out, "codes", in->n, 0);

    return t->int8_axis_given(in->f32_finite, in->shape->n_rows, in->shape->row_len, &in->shape->axis, in->scales,
                              in->zeros, q, stats_output(out));
}

static int run_decode_rows(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    return t->int8_decode_rows(in->codes, in->shape->n_rows, in->shape->row_len, in->shape->group, in->scales,
                               in->zeros, output(out, "values", 4 * in->n, 0));
}

static int run_decode_axis(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    return t->int8_decode_axis(in->codes, in->n, &in->shape->axis, in->scales, NULL,
                               output(out, "values", 4 * in->n, 0));
}

#define RUN_CAST(name, source, bytes)                                                               \
    static int run_##name(const struct vc_kernels *t, const struct inputs *in, struct outputs *out) \
    {                                                                                               \
        void *h = output(out, "values", bytes * in->n, 0);                                          \
                                                                                                    \
        return t->name(in->source, in->shape->n_rows, in->shape->row_len, h, stats_output(out));    \
    }
RUN_CAST(cast_f32_f16, f32, 2)
RUN_CAST(cast_f32_bf16, f32, 2)
RUN_CAST(cast_f64_f16, f64, 2)
RUN_CAST(cast_f64_bf16, f64, 2)
RUN_CAST(cast_f64_f32, f64, 4)

#define RUN_CONVERSION(name, source)                                                                \
    static int run_##name(const struct vc_kernels *t, const struct inputs *in, struct outputs *out) \
    {                                                                                               \
        return t->name(in->source, in->n, output(out, "values", 4 * in->n, 0));                     \
    }
RUN_CONVERSION(f16_to_f32, halves)
RUN_CONVERSION(bf16_to_f32, halves)
RUN_CONVERSION(f64_to_f32, f64)

/* Rows of whole blocks, as many as there are elements for. */
static int run_q8_0_rows(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    size_t row_len = in->shape->row_len / 32 * 32;
    size_t n_blocks = in->shape->n_rows * row_len / 32;
    uint32_t *bits = output(out, "bits", 4 * n_blocks, 0);
    uint8_t *blocks = output(out, "blocks", 34 * n_blocks, 0);

    return t->q8_0_rows(in->f32_finite, in->shape->n_rows, row_len, bits, blocks, stats_output(out));
}

#define RUN_BLOCKS(name, elems)                                                                     \
    static int run_##name(const struct vc_kernels *t, const struct inputs *in, struct outputs *out) \
    {                                                                                               \
        size_t n = in->n / (elems) * (elems);                                                       \
                                                                                                    \
        return t->name((const uint8_t *)in->halves, n, output(out, "values", 4 * n, 0));            \
    }

/* Elements that become blocks, at most: more than a unit of these builds, for searches by 32 fibers take long. */
#define MOST_MADE ((size_t)9216)

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

#define RUN_MAKE(name, elems, bytes, is_best)                                                                   \
    static int run_##name##_##is_best(const struct vc_kernels *t, const struct inputs *in, struct outputs *out) \
    {                                                                                                           \
        const bool weighed = (is_best) && in->shape->values == EMU_SPECIAL;                                     \
        const struct vc_block_how how = {.best = is_best, .importance = weighed ? in->importance : NULL};       \
        size_t row_len = at_most(in->shape->row_len, MOST_MADE) / (elems) * (elems);                            \
        size_t n_rows = row_len == 0 ? 0 : at_most(in->shape->n_rows, MOST_MADE / row_len);                     \
                                                                                                                \
        return t->name(in->f32_finite, n_rows, row_len, &how,                                                   \
                       output(out, "blocks", n_rows * row_len / (elems) * (bytes), 0));                         \
    }
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding) \
    RUN_BLOCKS(type##_to_f32, elems)                                \
    RUN_MAKE(type##_blocks, elems, bytes, false)                    \
    RUN_MAKE(type##_blocks, elems, bytes, true)
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE

#define RUN_SUMS(suffix, source)                                                                                    \
    static int run_diff_##suffix(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)          \
    {                                                                                                               \
        memset(&out->diff, POISON, sizeof out->diff);                                                               \
        out->diff.chunk_sums = output(out, "chunk sums", 32 * in->n_chunks, 1);                                     \
        return t->diff_##suffix(in->source, in->source##_other, in->shape->n_rows, in->shape->row_len, &out->diff); \
    }                                                                                                               \
                                                                                                                    \
    static int run_values_##suffix(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)        \
    {                                                                                                               \
        memset(&out->values, POISON, sizeof out->values);                                                           \
        out->values.chunk_sums = output(out, "chunk sums", 16 * in->n_chunks, 1);                                   \
        return t->values_##suffix(in->source, in->shape->n_rows, in->shape->row_len, &out->values);                 \
    }
RUN_SUMS(f32, f32)
RUN_SUMS(f64, f64)

/* Codes with a scale per group: mxfp8, which searches nothing. kernelcheck has the other schemes. */
static int run_group_codes_rows(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    const struct vc_group_codes how = {.grid = VC_GRID_E4M3, .bytes = VC_DTYPE_F8_E8M0};
    const struct emu_shape *s = in->shape;
    uint32_t *bits = output(out, "bits", 4 * in->n_groups, 0);
    struct vc_float_scale *scale = output(out, "scales", sizeof *scale * in->n_groups, 0);
    uint8_t *q = output(out, "codes", in->n, 0);
    float *y = output(out, "values", 4 * in->n, 0);

    (void)vc_absmax_rows_ref(in->f32_finite, s->n_rows, s->row_len, s->group, bits);
    return t->group_codes_rows(in->f32_finite, s->n_rows, s->row_len, s->group, &how, bits, scale, q, y);
}

static int run_grid_decode_rows(const struct vc_kernels *t, const struct inputs *in, struct outputs *out)
{
    return t->grid_decode_rows((const uint8_t *)in->codes, in->shape->n_rows, in->shape->row_len, in->shape->group,
                               VC_GRID_E4M3, in->scales, output(out, "values", 4 * in->n, 0));
}

static const struct {
    const char *name;
    run_fn *run;
} kernels[] = {
    {"absmax_rows", run_absmax_rows},
    {"absmax_axis", run_absmax_axis},
    {"range_rows", run_range_rows},
    {"range_axis", run_range_axis},
    {"int8_rows", run_int8_rows},
    {"int8_rows without statistics", run_int8_rows_plain},
    {"int8_rows_given", run_int8_rows_given},
    {"int8_rows_given with zero points", run_int8_rows_given_asym},
    {"int8_axis_given", run_int8_axis_given},
    {"int8_axis_given with zero points", run_int8_axis_given_asym},
    {"int8_decode_rows", run_decode_rows},
    {"int8_decode_axis", run_decode_axis},
    {"cast_f32_f16", run_cast_f32_f16},
    {"cast_f32_bf16", run_cast_f32_bf16},
    {"cast_f64_f16", run_cast_f64_f16},
    {"cast_f64_bf16", run_cast_f64_bf16},
    {"cast_f64_f32", run_cast_f64_f32},
    {"f16_to_f32", run_f16_to_f32},
    {"bf16_to_f32", run_bf16_to_f32},
    {"f64_to_f32", run_f64_to_f32},
    {"q8_0_rows", run_q8_0_rows},
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding)                       \
    {#type "_to_f32", run_##type##_to_f32}, {#type "_blocks", run_##type##_blocks_false}, \
        {#type "_blocks, best", run_##type##_blocks_true},
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
    {"diff_f32", run_diff_f32},
    {"diff_f64", run_diff_f64},
    {"values_f32", run_values_f32},
    {"values_f64", run_values_f64},
    {"group_codes_rows", run_group_codes_rows},
    {"grid_decode_rows", run_grid_decode_rows},
};

/* ---- comparing ---- */

static int same_doubles(const unsigned char *a, const unsigned char *b)
{
    double x;
    double y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return memcmp(a, b, sizeof x) == 0 || (x != x && y != y);
}

/* Whether two runs left the same bytes, guards included; *at: the first that differs, from the beginning of the data.
 */
static int same_array(const struct out *a, const struct out *b, size_t *at)
{
    size_t total = a->bytes + 2 * GUARD + (size_t)(a->data - a->block - GUARD);
    size_t first = (size_t)(a->data - a->block);
    size_t i;

    for (i = 0; i < total; i++) {
        int inside = i >= first && i < first + a->bytes;

        if (a->block[i] == b->block[i]) {
            continue;
        }
        if (!inside || !a->doubles || !same_doubles(a->data + (i - first) / 8 * 8, b->data + (i - first) / 8 * 8)) {
            *at = i - first;
            return 0;
        }
    }
    return 1;
}

/* The pointers inside differ, everything else is numbers. */
static int same_numbers(const struct outputs *a, const struct outputs *b)
{
    struct outputs x = *a;
    struct outputs y = *b;

    x.stats.chunk_sums = y.stats.chunk_sums = NULL;
    x.diff.chunk_sums = y.diff.chunk_sums = NULL;
    x.values.chunk_sums = y.values.chunk_sums = NULL;
    return memcmp(&x.stats, &y.stats, sizeof x.stats) == 0 && memcmp(&x.diff, &y.diff, sizeof x.diff) == 0 &&
           memcmp(&x.values, &y.values, sizeof x.values) == 0;
}

/* One kernel of both tables on the same inputs; 0 with the reason in `why`. */
static int compare_kernel(const struct vc_kernels *reference, const struct vc_kernels *variant, const struct inputs *in,
                          unsigned k, char *why, size_t why_bytes)
{
    struct outputs a;
    struct outputs b;
    size_t at = 0;
    int result;

    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.in = b.in = in;
    (void)kernels[k].run(reference, in, &a);
    result = kernels[k].run(variant, in, &b);
    why[0] = '\0';
    if (result != 0) {
        (void)snprintf(why, why_bytes, "%s: error %d", kernels[k].name, result);
    } else if (!same_numbers(&a, &b)) {
        (void)snprintf(why, why_bytes, "%s: counts", kernels[k].name);
    }
    for (unsigned i = 0; i < a.n && why[0] == '\0'; i++) {
        if (!same_array(&a.arrays[i], &b.arrays[i], &at)) {
            (void)snprintf(why, why_bytes, "%s: %s at byte %zu", kernels[k].name, a.arrays[i].what, at);
        }
    }
    outputs_free(&a);
    outputs_free(&b);
    return why[0] == '\0';
}

const char *emu_compare(const struct vc_kernels *reference, const struct vc_kernels *variant,
                        const struct emu_shape *shape)
{
    static char why[256];
    char one[128];
    struct inputs in;

    inputs_create(shape, &in);
    why[0] = '\0';
    for (unsigned k = 0; k < sizeof kernels / sizeof kernels[0] && why[0] == '\0'; k++) {
        if (!compare_kernel(reference, variant, &in, k, one, sizeof one)) {
            (void)snprintf(why, sizeof why, "%s (%zu x %zu, group %zu, axis %llu of %llu, values %d)", one,
                           shape->n_rows, shape->row_len, shape->group, (unsigned long long)shape->axis.inner,
                           (unsigned long long)shape->axis.n_channels, (int)shape->values);
        }
    }
    inputs_free(&in);
    return why[0] == '\0' ? NULL : why;
}

void emu_reference(struct vc_kernels *table)
{
    table->device = "reference";
#define VC_KERNEL(name, result, params) table->name = vc_##name##_ref;
#include "kernels/kernels.inc"
#undef VC_KERNEL
}
