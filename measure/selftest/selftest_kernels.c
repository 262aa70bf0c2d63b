/* selftest_kernels.c - runs each kernel of a table on one fixed input and keeps all it wrote; two tables are equal when
 * the bytes are. Small on purpose: tests/kernelcheck looks for the hard cases. */

#include "core/base/cpu.h"
#include "kernels/kernels.h"
#include "measure/selftest/selftest.h"

#define ROWS    3
#define ROW_LEN 1500
#define ELEMS   ((size_t)ROWS * ROW_LEN)
#define GROUP   100
#define GROUPS  ((size_t)ROWS * (ROW_LEN / GROUP))

/* What one kernel wrote. A kernel uses the members that it needs; the others stay zero in all tables.
 * Slots are compared as bytes, which works because every member is written in full or stays zero. */
struct slot {
    double sums[4 * ROWS];
    uint64_t numbers[262];
    uint32_t groups[3][GROUPS];
    unsigned char data[4 * ELEMS];
};

/* What all kernels read, in each type that one of them takes. */
struct inputs {
    float x[ELEMS], y[ELEMS], scale[ROW_LEN];
    double x64[ELEMS], y64[ELEMS];
    uint16_t half[ELEMS];
    int8_t zero[ROW_LEN], codes[ELEMS];
};

/* A fixed sequence; weights between -0.05 and 0.05, some zeros, some subnormals.
 * The same on every machine: an own generator, and arithmetic that IEEE 754 fixes. */
static void fill_inputs(struct inputs *in)
{
    uint32_t r = 12345;

    for (size_t i = 0; i < ELEMS; i++) {
        r = r * 1664525u + 1013904223u;
        in->x64[i] = i % 50 == 7 ? 0.0 : ((double)(r >> 8) / (1 << 24) - 0.5) * 0.1;
        in->x64[i] = i % 97 == 5 ? in->x64[i] * 1e-38 : in->x64[i];
        in->y64[i] = in->x64[i] * (i % 3 == 0 ? 1.0 : 1.001);
        in->x[i] = (float)in->x64[i];
        in->y[i] = (float)in->y64[i];
        in->half[i] = (uint16_t)(r >> 16);
        in->codes[i] = (int8_t)(r >> 20);
    }
    for (size_t i = 0; i < ROW_LEN; i++) {
        in->scale[i] = 0.0003f + 0.000001f * (float)(i % 17);
        in->zero[i] = (int8_t)((int)(i % 200) - 100);
    }
}

/* Figures of a kernel as numbers, with a double as its bits. Members are copied one by one, as a struct may
 * have padding. */
static void keep_tile(struct slot *slot, const struct vc_tile_stats *stats)
{
    memcpy(&slot->numbers[0], &stats->max_abs_error, sizeof(double));
    slot->numbers[1] = stats->zeros_before;
    slot->numbers[2] = stats->zeros_after;
    slot->numbers[3] = stats->clipped;
}

/* Kernels of 8-bit codes: largest magnitudes and ranges by row and by axis, codes with found and with given
 * scales, and decoding.
 * The axis map is one that begins in the middle of a channel. */
static int run_int8(const struct vc_kernels *k, const struct inputs *in, struct slot *slots)
{
    const struct vc_axis_map map = {1000, 7, 50};
    struct slot *own = &slots[VC_KERNEL_ID_int8_rows];
    struct slot *rows = &slots[VC_KERNEL_ID_int8_rows_given];
    struct slot *axis = &slots[VC_KERNEL_ID_int8_axis_given];
    struct vc_tile_stats stats[3] = {{.chunk_sums = own->sums}, {.chunk_sums = rows->sums}, {.chunk_sums = axis->sums}};
    int failed = k->absmax_rows(in->x, ROWS, ROW_LEN, GROUP, slots[VC_KERNEL_ID_absmax_rows].groups[0]);

    failed |= k->absmax_axis(in->x, ELEMS, &map, slots[VC_KERNEL_ID_absmax_axis].groups[0]);
    failed |= k->range_rows(in->x, ROWS, ROW_LEN, GROUP, slots[VC_KERNEL_ID_range_rows].groups[0],
                            slots[VC_KERNEL_ID_range_rows].groups[1]);
    failed |= k->range_axis(in->x, ELEMS, &(struct vc_axis_map){0, 1, GROUPS}, slots[VC_KERNEL_ID_range_axis].groups[0],
                            slots[VC_KERNEL_ID_range_axis].groups[1]);
    failed |= k->int8_rows(in->x, ROWS, ROW_LEN, GROUP, own->groups[0], (float *)(void *)own->groups[1],
                           (int8_t *)own->data, &stats[0]);
    failed |= k->int8_rows_given(in->x, ROWS, ROW_LEN, GROUP, in->scale, in->zero, (int8_t *)rows->data, &stats[1]);
    failed |= k->int8_axis_given(in->x, ROWS, ROW_LEN, &map, in->scale, NULL, (int8_t *)axis->data, &stats[2]);
    failed |= k->int8_decode_rows(in->codes, ROWS, ROW_LEN, GROUP, in->scale, in->zero,
                                  (float *)(void *)slots[VC_KERNEL_ID_int8_decode_rows].data);
    failed |= k->int8_decode_axis(in->codes, ELEMS, &map, in->scale, NULL,
                                  (float *)(void *)slots[VC_KERNEL_ID_int8_decode_axis].data);
    keep_tile(own, &stats[0]);
    keep_tile(rows, &stats[1]);
    keep_tile(axis, &stats[2]);
    return failed;
}

#define CAST(name, from, to)                                                      \
    do {                                                                          \
        struct slot *slot = &slots[VC_KERNEL_ID_##name];                          \
        struct vc_tile_stats stats = {.chunk_sums = slot->sums};                  \
                                                                                  \
        failed |= k->name(from, ROWS, ROW_LEN, (to *)(void *)slot->data, &stats); \
        keep_tile(slot, &stats);                                                  \
    } while (0)

/* Kernels from one float type to another, both ways. */
static int run_casts(const struct vc_kernels *k, const struct inputs *in, struct slot *slots)
{
    int failed = 0;

    CAST(cast_f32_f16, in->x, uint16_t);
    CAST(cast_f32_bf16, in->x, uint16_t);
    CAST(cast_f64_f16, in->x64, uint16_t);
    CAST(cast_f64_bf16, in->x64, uint16_t);
    CAST(cast_f64_f32, in->x64, float);
    failed |= k->f16_to_f32(in->half, ELEMS, (float *)(void *)slots[VC_KERNEL_ID_f16_to_f32].data);
    failed |= k->bf16_to_f32(in->half, ELEMS, (float *)(void *)slots[VC_KERNEL_ID_bf16_to_f32].data);
    failed |= k->f64_to_f32(in->x64, ELEMS, (float *)(void *)slots[VC_KERNEL_ID_f64_to_f32].data);
    return failed;
}

#define BLOCK_ROW 512 /* elements of whole blocks of every type */

/* Kernels of GGUF blocks: any bytes can be decoded, so codes serve as blocks. */
static int run_blocks(const struct vc_kernels *k, const struct inputs *in, struct slot *slots)
{
    struct slot *slot = &slots[VC_KERNEL_ID_q8_0_rows];
    struct vc_tile_stats stats = {.chunk_sums = slot->sums};
    const uint8_t *bytes_of_blocks = (const uint8_t *)in->codes;
    const struct vc_block_how how = {.best = true};
    int failed = k->q8_0_rows(in->x, ROWS - 1, BLOCK_ROW, slot->groups[0], slot->data, &stats);

    keep_tile(slot, &stats);
#define VC_BLOCK_TYPE(type, TYPE, elems, bytes, decoding, encoding)                                                    \
    failed |= k->type##_to_f32(bytes_of_blocks, BLOCK_ROW, (float *)(void *)slots[VC_KERNEL_ID_##type##_to_f32].data); \
    failed |= k->type##_blocks(in->x, 1, BLOCK_ROW, &how, slots[VC_KERNEL_ID_##type##_blocks].data);
#include "kernels/block_types.inc"
#undef VC_BLOCK_TYPE
    return failed;
}

/* The figures of a comparison. */
static void keep_diff(struct slot *slot, const struct vc_diff_sums *sums)
{
    memcpy(&slot->numbers[0], &sums->max_abs_error, sizeof(double));
    slot->numbers[1] = sums->different;
    slot->numbers[2] = sums->nonfinite_pairs;
}

/* Numbers 6 and on are the histogram. */
static void keep_values(struct slot *slot, const struct vc_value_counts *counts)
{
    memcpy(&slot->numbers[0], &counts->min, sizeof(double));
    memcpy(&slot->numbers[1], &counts->max, sizeof(double));
    slot->numbers[2] = counts->nans;
    slot->numbers[3] = counts->infs;
    slot->numbers[4] = counts->zeros;
    slot->numbers[5] = counts->subnormals;
    memcpy(&slot->numbers[6], counts->histogram, sizeof counts->histogram);
}

/* Kernels of sums and counts. */
static int run_sums(const struct vc_kernels *k, const struct inputs *in, struct slot *slots)
{
    struct vc_diff_sums d32 = {.chunk_sums = slots[VC_KERNEL_ID_diff_f32].sums};
    struct vc_diff_sums d64 = {.chunk_sums = slots[VC_KERNEL_ID_diff_f64].sums};
    struct vc_value_counts v32 = {.chunk_sums = slots[VC_KERNEL_ID_values_f32].sums};
    struct vc_value_counts v64 = {.chunk_sums = slots[VC_KERNEL_ID_values_f64].sums};
    int failed = k->diff_f32(in->x, in->y, ROWS, ROW_LEN, &d32);

    failed |= k->diff_f64(in->x64, in->y64, ROWS, ROW_LEN, &d64);
    failed |= k->values_f32(in->x, ROWS, ROW_LEN, &v32);
    failed |= k->values_f64(in->x64, ROWS, ROW_LEN, &v64);
    keep_diff(&slots[VC_KERNEL_ID_diff_f32], &d32);
    keep_diff(&slots[VC_KERNEL_ID_diff_f64], &d64);
    keep_values(&slots[VC_KERNEL_ID_values_f32], &v32);
    keep_values(&slots[VC_KERNEL_ID_values_f64], &v64);
    return failed;
}

/* Runs all kernels of a table. Returns 0, or what one of them returned: a device has failed.
 * A kernel fails only where a device does: those of processors return 0. */
static int run_table(const struct vc_kernels *k, const struct inputs *in, struct slot *slots)
{
    memset(slots, 0, VC_KERNEL_ID_COUNT * sizeof *slots);
    int failed = run_int8(k, in, slots);
    failed |= run_casts(k, in, slots);
    failed |= run_blocks(k, in, slots);
    return failed | run_sums(k, in, slots);
}

/* Runs one table and compares with what the reference wrote.
 * The first kernel that differs is named. */
static enum vc_status compare_table(struct vc_ctx *ctx, const struct vc_kernels *table, const char *label,
                                    const struct inputs *in, const struct slot *expected, struct slot *actual,
                                    struct vc_text *summary)
{
    VC_KERNEL_CALL(run_table(table, in, actual));
    for (size_t i = 0; i < VC_KERNEL_ID_COUNT; i++) {
        VC_REFUSE_IF(memcmp(&expected[i], &actual[i], sizeof actual[i]) != 0, ctx, VC_E_INTERNAL,
                     "kernel %s of %s gives other results than the reference", vc_kernel_name((enum vc_kernel_id)i),
                     label);
    }
    vc_text_add(summary, "kernels %s: all %d equal the reference\n", label, (int)VC_KERNEL_ID_COUNT);
    return VC_OK;
}

/* The reference first, then every level of this CPU up to the one that is in use, then the device's. */
enum vc_status vc_selftest_kernels(struct vc_ctx *ctx, struct vc_text *summary)
{
    const struct vc_kernels *in_use = vc_kernels_get(ctx);
    VC_SCOPED struct inputs *in = vc_alloc(ctx, VC_TAG_SCRATCH, sizeof *in);
    VC_SCOPED struct slot *expected = vc_alloc_array(ctx, VC_TAG_SCRATCH, VC_KERNEL_ID_COUNT, sizeof *expected);
    VC_SCOPED struct slot *actual = vc_alloc_array(ctx, VC_TAG_SCRATCH, VC_KERNEL_ID_COUNT, sizeof *actual);
    struct vc_kernels table;

    if (in_use == NULL || in == NULL || expected == NULL || actual == NULL) {
        return ctx->status;
    }
    fill_inputs(in);
    vc_kernels_fill(&table, VC_CPU_REF);
    VC_KERNEL_CALL(run_table(&table, in, expected));
    for (int level = VC_CPU_BASE; level < VC_CPU_COUNT; level++) {
        if (vc_cpu_has((enum vc_cpu_level)level) && level <= (int)ctx->shared->cpu_level) {
            vc_kernels_fill(&table, level);
            VC_CALL(
                compare_table(ctx, &table, vc_cpu_level_name((enum vc_cpu_level)level), in, expected, actual, summary));
        }
    }
    if (strcmp(in_use->device, "cpu") != 0) {
        VC_CALL(compare_table(ctx, in_use, in_use->device, in, expected, actual, summary));
    }
    return VC_OK;
}
