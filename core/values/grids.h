/* grids.h - the grids of floats that codes are numbers of, and the values of those that no formula gives. The kernels
 * (kernels/grid_codes.h) and the formats that store such values read it. */
#pragma once

#include <vcompress/dtype.h>

enum vc_grid {
    VC_GRID_NONE = 0, /* codes are whole numbers */
    VC_GRID_E4M3 = 1, /* floats of 8 bits */
    VC_GRID_E2M1 = 2, /* floats of 4 bits */
    VC_GRID_NF4 = 3,
    VC_GRID_FP4 = 4
};

/* How the elements of a group become codes with a scale. */
struct vc_group_codes {
    enum vc_grid grid;
    enum vc_dtype bytes;  /* the type of scales that are bytes, F8_E8M0 or F8_E4M3; NONE: scales are floats ... */
    enum vc_dtype type;   /* ... of this type */
    int low, high;        /* grid NONE: the codes ... */
    bool zero_points;     /* ... minus a zero point of the group */
    bool both_signs;      /* scales may be negative; else they are above 0 */
    float global;         /* what E4M3 scales of E2M1 are divided by */
    const float *weights; /* how much the error of each element of the group counts; NULL: all alike */
};

/* A scale as it is stored, and what it multiplies codes with. */
struct vc_float_scale {
    float value;
    uint8_t byte;      /* of mxfp8, mxfp4 and nvfp4 */
    uint8_t zero;      /* all codes are meant to be 0: no scale of the type is small enough */
    int8_t zero_point; /* of codes that have such */
    uint8_t unused;    /* 0: every byte of a scale is defined */
};

/* STEP(a value, the next one by size, the code of that). NF4 (QLoRA, bitsandbytes) begins with code 0, which is -1; FP4
 * (bitsandbytes) with code 0, which is 0, and its codes 8 to 15 are the negative values of 0 to 7. */
/* clang-format off */
#define VC_NF4_STEPS(STEP)                                            \
    STEP(-1.0f, -0.6961928009986877f, 1)                              \
    STEP(-0.6961928009986877f, -0.5250730514526367f, 2)               \
    STEP(-0.5250730514526367f, -0.39491748809814453f, 3)              \
    STEP(-0.39491748809814453f, -0.28444138169288635f, 4)             \
    STEP(-0.28444138169288635f, -0.18477343022823334f, 5)             \
    STEP(-0.18477343022823334f, -0.09105003625154495f, 6)             \
    STEP(-0.09105003625154495f, 0.0f, 7)                              \
    STEP(0.0f, 0.07958029955625534f, 8)                               \
    STEP(0.07958029955625534f, 0.16093020141124725f, 9)               \
    STEP(0.16093020141124725f, 0.24611230194568634f, 10)              \
    STEP(0.24611230194568634f, 0.33791524171829224f, 11)              \
    STEP(0.33791524171829224f, 0.44070982933044434f, 12)              \
    STEP(0.44070982933044434f, 0.5626170039176941f, 13)               \
    STEP(0.5626170039176941f, 0.7229568362236023f, 14)                \
    STEP(0.7229568362236023f, 1.0f, 15)

#define VC_FP4_STEPS(STEP)                                            \
    STEP(0.0f, 0.005208333333f, 1)                                    \
    STEP(0.005208333333f, 0.16666667f, 6)                             \
    STEP(0.16666667f, 0.25f, 7)                                       \
    STEP(0.25f, 0.33333333f, 4)                                       \
    STEP(0.33333333f, 0.5f, 5)                                        \
    STEP(0.5f, 0.66666667f, 2)                                        \
    STEP(0.66666667f, 1.0f, 3)
/* clang-format on */
