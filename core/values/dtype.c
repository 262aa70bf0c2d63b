/* dtype.c - the table of element types. */
#include <string.h>

#include <vcompress/dtype.h>

/* A type whose elements have `size` bytes each; VOID has none of its own. */
#define PLAIN(name, size)                 \
    {                                     \
        name, size, 1, size, false, false \
    }
#define FLOAT(name, size)                \
    {                                    \
        name, size, 1, size, true, false \
    }
/* Blocks of n elements in `bytes` bytes; decoded: the library makes floats of them. */
#define BLOCKS(name, n, bytes, decoded)   \
    {                                     \
        name, 0, n, bytes, false, decoded \
    }

static const struct vc_dtype_info dtypes[VC_DTYPE_COUNT] = {
    [VC_DTYPE_RAW] = PLAIN("raw", 1),
    [VC_DTYPE_VOID] = PLAIN("void", 0),
    [VC_DTYPE_BOOL] = PLAIN("bool", 1),
    [VC_DTYPE_U8] = PLAIN("u8", 1),
    [VC_DTYPE_I8] = PLAIN("i8", 1),
    [VC_DTYPE_U16] = PLAIN("u16", 2),
    [VC_DTYPE_I16] = PLAIN("i16", 2),
    [VC_DTYPE_U32] = PLAIN("u32", 4),
    [VC_DTYPE_I32] = PLAIN("i32", 4),
    [VC_DTYPE_U64] = PLAIN("u64", 8),
    [VC_DTYPE_I64] = PLAIN("i64", 8),
    [VC_DTYPE_F16] = FLOAT("f16", 2),
    [VC_DTYPE_BF16] = FLOAT("bf16", 2),
    [VC_DTYPE_F32] = FLOAT("f32", 4),
    [VC_DTYPE_F64] = FLOAT("f64", 8),
    [VC_DTYPE_C64] = PLAIN("c64", 8),
    [VC_DTYPE_C128] = PLAIN("c128", 16),
    [VC_DTYPE_F8_E4M3] = PLAIN("f8_e4m3", 1),
    [VC_DTYPE_F8_E5M2] = PLAIN("f8_e5m2", 1),
    [VC_DTYPE_F8_E4M3FNUZ] = PLAIN("f8_e4m3fnuz", 1),
    [VC_DTYPE_F8_E5M2FNUZ] = PLAIN("f8_e5m2fnuz", 1),
    [VC_DTYPE_F8_E8M0] = PLAIN("f8_e8m0", 1),
    [VC_DTYPE_F6_E2M3] = BLOCKS("f6_e2m3", 4, 3, false),
    [VC_DTYPE_F6_E3M2] = BLOCKS("f6_e3m2", 4, 3, false),
    [VC_DTYPE_F4_E2M1] = BLOCKS("f4_e2m1", 2, 1, false),
    [VC_DTYPE_I4] = BLOCKS("i4", 2, 1, false),
    [VC_DTYPE_U4] = BLOCKS("u4", 2, 1, false),
    [VC_DTYPE_Q4_0] = BLOCKS("q4_0", 32, 18, true),
    [VC_DTYPE_Q4_1] = BLOCKS("q4_1", 32, 20, true),
    [VC_DTYPE_Q5_0] = BLOCKS("q5_0", 32, 22, true),
    [VC_DTYPE_Q5_1] = BLOCKS("q5_1", 32, 24, true),
    [VC_DTYPE_Q8_0] = BLOCKS("q8_0", 32, 34, true),
    [VC_DTYPE_Q4_K] = BLOCKS("q4_k", 256, 144, true),
    [VC_DTYPE_Q5_K] = BLOCKS("q5_k", 256, 176, true),
    [VC_DTYPE_Q6_K] = BLOCKS("q6_k", 256, 210, true),
    [VC_DTYPE_Q8_1] = BLOCKS("q8_1", 32, 36, false),
    [VC_DTYPE_Q2_K] = BLOCKS("q2_k", 256, 84, true),
    [VC_DTYPE_Q3_K] = BLOCKS("q3_k", 256, 110, true),
    [VC_DTYPE_Q8_K] = BLOCKS("q8_k", 256, 292, false),
    [VC_DTYPE_IQ1_S] = BLOCKS("iq1_s", 256, 50, false),
    [VC_DTYPE_IQ1_M] = BLOCKS("iq1_m", 256, 56, false),
    [VC_DTYPE_IQ2_XXS] = BLOCKS("iq2_xxs", 256, 66, false),
    [VC_DTYPE_IQ2_XS] = BLOCKS("iq2_xs", 256, 74, false),
    [VC_DTYPE_IQ2_S] = BLOCKS("iq2_s", 256, 82, false),
    [VC_DTYPE_IQ3_XXS] = BLOCKS("iq3_xxs", 256, 98, false),
    [VC_DTYPE_IQ3_S] = BLOCKS("iq3_s", 256, 110, false),
    [VC_DTYPE_IQ4_NL] = BLOCKS("iq4_nl", 32, 18, true),
    [VC_DTYPE_IQ4_XS] = BLOCKS("iq4_xs", 256, 136, true),
    [VC_DTYPE_TQ1_0] = BLOCKS("tq1_0", 256, 54, true),
    [VC_DTYPE_TQ2_0] = BLOCKS("tq2_0", 256, 66, true),
    [VC_DTYPE_MXFP4] = BLOCKS("mxfp4", 32, 17, true),
    [VC_DTYPE_NVFP4] = BLOCKS("nvfp4", 64, 36, true),
    [VC_DTYPE_Q1_0] = BLOCKS("q1_0", 128, 18, true),
    [VC_DTYPE_Q2_0] = BLOCKS("q2_0", 64, 18, true),
    [VC_DTYPE_I2] = BLOCKS("i2", 4, 1, false),
    [VC_DTYPE_I3] = BLOCKS("i3", 8, 3, false),
    [VC_DTYPE_I5] = BLOCKS("i5", 8, 5, false),
    [VC_DTYPE_I6] = BLOCKS("i6", 4, 3, false),
};

const struct vc_dtype_info *vc_dtype_facts(enum vc_dtype dtype)
{
    static const struct vc_dtype_info unknown = PLAIN("unknown", 0);

    return (unsigned)dtype < VC_DTYPE_COUNT ? &dtypes[dtype] : &unknown;
}

enum vc_dtype vc_dtype_from_name(const char *name)
{
    for (unsigned i = 0; i < VC_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            return (enum vc_dtype)i;
        }
    }
    return VC_DTYPE_NONE;
}
