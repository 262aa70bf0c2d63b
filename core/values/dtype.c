/* dtype.c - the table of element types. */
#include <string.h>

#include <vcompress/dtype.h>

static const struct {
    const char *name;
    unsigned short block_elems;
    unsigned short block_bytes;
    bool decodes; /* blocks that the library can make floats of */
} dtypes[VC_DTYPE_COUNT] = {
    [VC_DTYPE_RAW] = {"raw", 1, 1, false},
    [VC_DTYPE_VOID] = {"void", 1, 0, false},
    [VC_DTYPE_BOOL] = {"bool", 1, 1, false},
    [VC_DTYPE_U8] = {"u8", 1, 1, false},
    [VC_DTYPE_I8] = {"i8", 1, 1, false},
    [VC_DTYPE_U16] = {"u16", 1, 2, false},
    [VC_DTYPE_I16] = {"i16", 1, 2, false},
    [VC_DTYPE_U32] = {"u32", 1, 4, false},
    [VC_DTYPE_I32] = {"i32", 1, 4, false},
    [VC_DTYPE_U64] = {"u64", 1, 8, false},
    [VC_DTYPE_I64] = {"i64", 1, 8, false},
    [VC_DTYPE_F16] = {"f16", 1, 2, false},
    [VC_DTYPE_BF16] = {"bf16", 1, 2, false},
    [VC_DTYPE_F32] = {"f32", 1, 4, false},
    [VC_DTYPE_F64] = {"f64", 1, 8, false},
    [VC_DTYPE_C64] = {"c64", 1, 8, false},
    [VC_DTYPE_C128] = {"c128", 1, 16, false},
    [VC_DTYPE_F8_E4M3] = {"f8_e4m3", 1, 1, false},
    [VC_DTYPE_F8_E5M2] = {"f8_e5m2", 1, 1, false},
    [VC_DTYPE_F8_E4M3FNUZ] = {"f8_e4m3fnuz", 1, 1, false},
    [VC_DTYPE_F8_E5M2FNUZ] = {"f8_e5m2fnuz", 1, 1, false},
    [VC_DTYPE_F8_E8M0] = {"f8_e8m0", 1, 1, false},
    [VC_DTYPE_F6_E2M3] = {"f6_e2m3", 4, 3, false},
    [VC_DTYPE_F6_E3M2] = {"f6_e3m2", 4, 3, false},
    [VC_DTYPE_F4_E2M1] = {"f4_e2m1", 2, 1, false},
    [VC_DTYPE_I4] = {"i4", 2, 1, false},
    [VC_DTYPE_U4] = {"u4", 2, 1, false},
    [VC_DTYPE_Q4_0] = {"q4_0", 32, 18, true},
    [VC_DTYPE_Q4_1] = {"q4_1", 32, 20, true},
    [VC_DTYPE_Q5_0] = {"q5_0", 32, 22, true},
    [VC_DTYPE_Q5_1] = {"q5_1", 32, 24, true},
    [VC_DTYPE_Q8_0] = {"q8_0", 32, 34, true},
    [VC_DTYPE_Q4_K] = {"q4_k", 256, 144, true},
    [VC_DTYPE_Q5_K] = {"q5_k", 256, 176, true},
    [VC_DTYPE_Q6_K] = {"q6_k", 256, 210, true},
    [VC_DTYPE_Q8_1] = {"q8_1", 32, 36, false},
    [VC_DTYPE_Q2_K] = {"q2_k", 256, 84, true},
    [VC_DTYPE_Q3_K] = {"q3_k", 256, 110, true},
    [VC_DTYPE_Q8_K] = {"q8_k", 256, 292, false},
    [VC_DTYPE_IQ1_S] = {"iq1_s", 256, 50, false},
    [VC_DTYPE_IQ1_M] = {"iq1_m", 256, 56, false},
    [VC_DTYPE_IQ2_XXS] = {"iq2_xxs", 256, 66, false},
    [VC_DTYPE_IQ2_XS] = {"iq2_xs", 256, 74, false},
    [VC_DTYPE_IQ2_S] = {"iq2_s", 256, 82, false},
    [VC_DTYPE_IQ3_XXS] = {"iq3_xxs", 256, 98, false},
    [VC_DTYPE_IQ3_S] = {"iq3_s", 256, 110, false},
    [VC_DTYPE_IQ4_NL] = {"iq4_nl", 32, 18, true},
    [VC_DTYPE_IQ4_XS] = {"iq4_xs", 256, 136, true},
    [VC_DTYPE_TQ1_0] = {"tq1_0", 256, 54, true},
    [VC_DTYPE_TQ2_0] = {"tq2_0", 256, 66, true},
    [VC_DTYPE_MXFP4] = {"mxfp4", 32, 17, true},
    [VC_DTYPE_NVFP4] = {"nvfp4", 64, 36, true},
    [VC_DTYPE_Q1_0] = {"q1_0", 128, 18, true},
    [VC_DTYPE_Q2_0] = {"q2_0", 64, 18, true},
    [VC_DTYPE_I2] = {"i2", 4, 1, false},
    [VC_DTYPE_I3] = {"i3", 8, 3, false},
    [VC_DTYPE_I5] = {"i5", 8, 5, false},
    [VC_DTYPE_I6] = {"i6", 4, 3, false},
};

const char *vc_dtype_name(enum vc_dtype dtype)
{
    return (unsigned)dtype < VC_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
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

size_t vc_dtype_size(enum vc_dtype dtype)
{
    return (unsigned)dtype < VC_DTYPE_COUNT && dtypes[dtype].block_elems == 1 ? dtypes[dtype].block_bytes : 0;
}

void vc_dtype_block(enum vc_dtype dtype, size_t *n_elems, size_t *n_bytes)
{
    bool known = (unsigned)dtype < VC_DTYPE_COUNT;

    *n_elems = known ? dtypes[dtype].block_elems : 1;
    *n_bytes = known ? dtypes[dtype].block_bytes : 0;
}

uint64_t vc_dtype_bytes(enum vc_dtype dtype, uint64_t n_elems)
{
    size_t block_elems, block_bytes;

    vc_dtype_block(dtype, &block_elems, &block_bytes);
    uint64_t n_blocks = n_elems / block_elems + (n_elems % block_elems != 0);
    return block_bytes != 0 && n_blocks > UINT64_MAX / block_bytes ? UINT64_MAX : n_blocks * block_bytes;
}

bool vc_dtype_is_float(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16 || dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F64;
}

bool vc_dtype_is_quantized(enum vc_dtype dtype)
{
    return (unsigned)dtype < VC_DTYPE_COUNT && dtypes[dtype].decodes;
}
