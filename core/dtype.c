/* dtype.c - the table of element types. */
#include <string.h>

#include <vcompress/dtype.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[VC_DTYPE_COUNT] = {
    [VC_DTYPE_RAW] = {"raw", 1},   [VC_DTYPE_VOID] = {"void", 0},  [VC_DTYPE_BOOL] = {"bool", 1},
    [VC_DTYPE_U8] = {"u8", 1},     [VC_DTYPE_I8] = {"i8", 1},      [VC_DTYPE_U16] = {"u16", 2},
    [VC_DTYPE_I16] = {"i16", 2},   [VC_DTYPE_U32] = {"u32", 4},    [VC_DTYPE_I32] = {"i32", 4},
    [VC_DTYPE_U64] = {"u64", 8},   [VC_DTYPE_I64] = {"i64", 8},    [VC_DTYPE_F16] = {"f16", 2},
    [VC_DTYPE_BF16] = {"bf16", 2}, [VC_DTYPE_F32] = {"f32", 4},    [VC_DTYPE_F64] = {"f64", 8},
    [VC_DTYPE_C64] = {"c64", 8},   [VC_DTYPE_C128] = {"c128", 16},
};

const char *vc_dtype_name(enum vc_dtype dtype)
{
    return (unsigned)dtype < VC_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

enum vc_dtype vc_dtype_from_name(const char *name)
{
    unsigned i;

    for (i = 0; i < VC_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            return (enum vc_dtype)i;
        }
    }
    return VC_DTYPE_COUNT;
}

size_t vc_dtype_size(enum vc_dtype dtype)
{
    return (unsigned)dtype < VC_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

bool vc_dtype_is_float(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F16 || dtype == VC_DTYPE_BF16 || dtype == VC_DTYPE_F32 || dtype == VC_DTYPE_F64;
}
