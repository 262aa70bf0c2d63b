/* code_schemes.c - see code_schemes.h. */
#include "core/model/code_schemes.h"

#include <string.h>

#include "core/model/dialect.h"

/* Whole numbers; the largest magnitude is that of a code minus a zero point. */
#define INT_ROW(NAME, word, type, least, most)                                                                 \
    {                                                                                                          \
        .scheme = VC_SCHEME_##NAME, .name = word, .codes = type, .array = VC_DTYPE_U8, .scale = VC_DTYPE_NONE, \
        .low = least, .high = most, .largest = (most) - (least), .usual = 128                                  \
    }

static const struct vc_code_scheme rows[] = {{.scheme = VC_SCHEME_INT8,
                                              .name = "int8",
                                              .codes = VC_DTYPE_I8,
                                              .array = VC_DTYPE_I8,
                                              .scale = VC_DTYPE_NONE,
                                              .largest = 255.0f},
                                             {.scheme = VC_SCHEME_INT32,
                                              .name = "int32",
                                              .codes = VC_DTYPE_I32,
                                              .array = VC_DTYPE_I32,
                                              .scale = VC_DTYPE_NONE,
                                              .largest = 2147483648.0f},
                                             INT_ROW(INT2, "int2", VC_DTYPE_I2, -2, 1),
                                             INT_ROW(INT3, "int3", VC_DTYPE_I3, -4, 3),
                                             INT_ROW(INT4, "int4", VC_DTYPE_I4, -8, 7),
                                             INT_ROW(INT5, "int5", VC_DTYPE_I5, -16, 15),
                                             INT_ROW(INT6, "int6", VC_DTYPE_I6, -32, 31),
                                             INT_ROW(TERNARY, "ternary", VC_DTYPE_I2, -1, 1),
                                             {.scheme = VC_SCHEME_FP8,
                                              .grid = VC_GRID_E4M3,
                                              .name = "fp8",
                                              .codes = VC_DTYPE_F8_E4M3,
                                              .array = VC_DTYPE_U8,
                                              .scale = VC_DTYPE_NONE,
                                              .largest = 448.0f},
                                             {.scheme = VC_SCHEME_MXFP8,
                                              .grid = VC_GRID_E4M3,
                                              .name = "mxfp8",
                                              .codes = VC_DTYPE_F8_E4M3,
                                              .array = VC_DTYPE_U8,
                                              .scale = VC_DTYPE_F8_E8M0,
                                              .group = 32,
                                              .largest = 448.0f},
                                             {.scheme = VC_SCHEME_MXFP4,
                                              .grid = VC_GRID_E2M1,
                                              .name = "mxfp4",
                                              .codes = VC_DTYPE_F4_E2M1,
                                              .array = VC_DTYPE_U8,
                                              .scale = VC_DTYPE_F8_E8M0,
                                              .group = 32,
                                              .largest = 6.0f},
                                             {.scheme = VC_SCHEME_NVFP4,
                                              .grid = VC_GRID_E2M1,
                                              .name = "nvfp4",
                                              .codes = VC_DTYPE_F4_E2M1,
                                              .array = VC_DTYPE_U8,
                                              .scale = VC_DTYPE_F8_E4M3,
                                              .group = 16,
                                              .global = true,
                                              .largest = 6.0f},
                                             {.scheme = VC_SCHEME_NF4,
                                              .grid = VC_GRID_NF4,
                                              .name = "nf4",
                                              .codes = VC_DTYPE_U4,
                                              .array = VC_DTYPE_U8,
                                              .usual = 64,
                                              .scale = VC_DTYPE_NONE,
                                              .high_first = true,
                                              .largest = 1.0f},
                                             {.scheme = VC_SCHEME_FP4,
                                              .grid = VC_GRID_FP4,
                                              .name = "fp4",
                                              .codes = VC_DTYPE_U4,
                                              .array = VC_DTYPE_U8,
                                              .usual = 64,
                                              .scale = VC_DTYPE_NONE,
                                              .high_first = true,
                                              .largest = 1.0f}};

static const size_t n_rows = sizeof rows / sizeof rows[0];

const struct vc_code_scheme *vc_code_scheme_at(size_t index)
{
    return index < n_rows ? &rows[index] : NULL;
}

const struct vc_code_scheme *vc_code_scheme(enum vc_scheme scheme)
{
    size_t i = 0;

    while (i < n_rows && rows[i].scheme != scheme) {
        i++;
    }
    return vc_code_scheme_at(i);
}

const struct vc_code_scheme *vc_code_scheme_named(const char *name)
{
    size_t i = 0;

    while (i < n_rows && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    return vc_code_scheme_at(i);
}

uint64_t vc_code_usual_group(const struct vc_code_scheme *row)
{
    return row == NULL ? 0 : row->group != 0 ? row->group : row->usual;
}

unsigned vc_code_bits(const struct vc_code_scheme *row)
{
    size_t n_elems;
    size_t n_bytes;

    vc_dtype_block(row->codes, &n_elems, &n_bytes);
    return (unsigned)(8 * n_bytes / n_elems);
}

struct vc_group_codes vc_code_groups(const struct vc_code_scheme *row, enum vc_dtype scales,
                                     const struct vc_dialect *dialect)
{
    return (struct vc_group_codes){.grid = row->grid,
                                   .bytes = row->scale,
                                   .type = scales,
                                   .low = row->low,
                                   .high = row->high,
                                   .both_signs =
                                       row->low != -row->high && (dialect == NULL || !dialect->positive_scales),
                                   .global = 1.0f};
}

const char *vc_granularity_name(enum vc_granularity granularity)
{
    static const char *const names[] = {[VC_GRANULARITY_TENSOR] = "tensor",
                                        [VC_GRANULARITY_CHANNEL] = "channel",
                                        [VC_GRANULARITY_GROUP] = "group",
                                        [VC_GRANULARITY_BLOCK] = "block"};

    return names[granularity];
}

bool vc_code_scheme_takes_scale(const struct vc_code_scheme *row, enum vc_dtype dtype)
{
    return row->scale == VC_DTYPE_NONE ? dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16
                                       : dtype == VC_DTYPE_U8 || dtype == row->scale;
}
