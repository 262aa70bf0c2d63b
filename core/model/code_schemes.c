/* code_schemes.c - see code_schemes.h. */
#include "core/model/code_schemes.h"

#include "core/model/dialect.h"

#define LEAST_GROUP 32

static const struct vc_code_scheme rows[] = {
#define BARE(NAME, word, type, top) \
    {.scheme = VC_SCHEME_##NAME,    \
     .name = (word),                \
     .codes = VC_DTYPE_##type,      \
     .array = VC_DTYPE_##type,      \
     .scale = VC_DTYPE_NONE,        \
     .largest = (top)},
    BARE(INT8, "int8", I8, 255.0f) BARE(INT32, "int32", I32, 2147483648.0f)
/* Whole numbers: the largest magnitude is that of a code minus a zero point. */
#define INTS(NAME, word, option, bits, least, most) \
    {.scheme = VC_SCHEME_##NAME,                    \
     .name = (word),                                \
     .codes = VC_DTYPE_I##bits,                     \
     .array = VC_DTYPE_U8,                          \
     .scale = VC_DTYPE_NONE,                        \
     .usual = 128,                                  \
     .low = (least),                                \
     .high = (most),                                \
     .largest = (most) - (least)},
#define FLOATS(NAME, word, type, values, scales, of, top, one) \
    {.scheme = VC_SCHEME_##NAME,                               \
     .name = (word),                                           \
     .codes = VC_DTYPE_##type,                                 \
     .array = VC_DTYPE_U8,                                     \
     .scale = VC_DTYPE_##scales,                               \
     .group = (of),                                            \
     .global = (one),                                          \
     .grid = VC_GRID_##values,                                 \
     .largest = (top)},
#define TABLE(NAME, word)        \
    {.scheme = VC_SCHEME_##NAME, \
     .name = (word),             \
     .codes = VC_DTYPE_U4,       \
     .array = VC_DTYPE_U8,       \
     .scale = VC_DTYPE_NONE,     \
     .usual = 64,                \
     .high_first = true,         \
     .grid = VC_GRID_##NAME,     \
     .largest = 1.0f},
#include "core/model/code_schemes.inc"
};

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

enum vc_scheme vc_code_scheme_of_bits(unsigned bits)
{
    size_t i = 0;

    while (i < n_rows && (rows[i].grid != VC_GRID_NONE || vc_code_bits(&rows[i]) != bits)) {
        i++;
    }
    return i < n_rows ? rows[i].scheme : VC_SCHEME_NONE;
}

uint64_t vc_code_usual_group(const struct vc_code_scheme *row)
{
    return row == NULL ? 0 : row->group != 0 ? row->group : row->usual;
}

uint64_t vc_code_whole_group(uint64_t group, uint64_t row)
{
    uint64_t power = (uint64_t)1 << 20;

    if (group == 0 || row % group == 0) {
        return group;
    }
    while (power >= LEAST_GROUP && (power > group || row % power != 0)) {
        power /= 2;
    }
    return power >= LEAST_GROUP ? power : 0;
}

unsigned vc_code_bits(const struct vc_code_scheme *row)
{
    const struct vc_dtype_info *codes = vc_dtype_facts(row->codes);

    return (unsigned)(8 * codes->block_bytes / codes->block_elems);
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
