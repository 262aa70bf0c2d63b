/* torch_types.c - the element types of PyTorch, by the class of their storage and by their own name. */
#include "formats/torch/torch.h"

/* Storage class, name, our dtype, bytes of an element, bytes that are swapped together in a big-endian file, quantized.
 * Several names may mean one dtype; vc_torch_dtype_of takes the first that is not quantized. */
static const struct torch_dtype dtypes[] = {
    {"FloatStorage", "float32", VC_DTYPE_F32, 4, 4, false},
    {"HalfStorage", "float16", VC_DTYPE_F16, 2, 2, false},
    {"BFloat16Storage", "bfloat16", VC_DTYPE_BF16, 2, 2, false},
    {"DoubleStorage", "float64", VC_DTYPE_F64, 8, 8, false},
    {"LongStorage", "int64", VC_DTYPE_I64, 8, 8, false},
    {"IntStorage", "int32", VC_DTYPE_I32, 4, 4, false},
    {"ShortStorage", "int16", VC_DTYPE_I16, 2, 2, false},
    {"CharStorage", "int8", VC_DTYPE_I8, 1, 0, false},
    {"ByteStorage", "uint8", VC_DTYPE_U8, 1, 0, false},
    {"BoolStorage", "bool", VC_DTYPE_BOOL, 1, 0, false},
    {"ComplexFloatStorage", "complex64", VC_DTYPE_C64, 8, 4, false},
    {"ComplexDoubleStorage", "complex128", VC_DTYPE_C128, 16, 8, false},
    {"QInt8Storage", "qint8", VC_DTYPE_I8, 1, 0, true},
    {"QUInt8Storage", "quint8", VC_DTYPE_U8, 1, 0, true},
    {"QInt32Storage", "qint32", VC_DTYPE_I32, 4, 4, true},
    {"QUInt4x2Storage", "quint4x2", VC_DTYPE_U8, 1, 0, true},
    {"QUInt2x4Storage", "quint2x4", VC_DTYPE_U8, 1, 0, true},
    {NULL, "uint16", VC_DTYPE_U16, 2, 2, false},
    {NULL, "uint32", VC_DTYPE_U32, 4, 4, false},
    {NULL, "uint64", VC_DTYPE_U64, 8, 8, false},
    {NULL, "float8_e4m3fn", VC_DTYPE_F8_E4M3, 1, 0, false},
    {NULL, "float8_e5m2", VC_DTYPE_F8_E5M2, 1, 0, false},
    {NULL, "float8_e4m3fnuz", VC_DTYPE_F8_E4M3FNUZ, 1, 0, false},
    {NULL, "float8_e5m2fnuz", VC_DTYPE_F8_E5M2FNUZ, 1, 0, false},
    {NULL, "float8_e8m0fnu", VC_DTYPE_F8_E8M0, 1, 0, false},
    /* Two elements in one byte, and halves in pairs: carried as they are. */
    {NULL, "float4_e2m1fn_x2", VC_DTYPE_VOID, 1, 0, false},
    {"ComplexHalfStorage", "complex32", VC_DTYPE_VOID, 4, 2, false},
};

#define N_DTYPES (sizeof dtypes / sizeof dtypes[0])

const struct torch_dtype *vc_torch_dtype_by_storage(const struct vc_pickle_bytes *name)
{
    for (size_t i = 0; i < N_DTYPES; i++) {
        if (dtypes[i].storage != NULL && vc_pickle_bytes_are(name, dtypes[i].storage)) {
            return &dtypes[i];
        }
    }
    return NULL;
}

const struct torch_dtype *vc_torch_dtype_by_name(const struct vc_pickle_bytes *name)
{
    for (size_t i = 0; i < N_DTYPES; i++) {
        if (vc_pickle_bytes_are(name, dtypes[i].name)) {
            return &dtypes[i];
        }
    }
    return NULL;
}

/* VOID has no type of its own, and quantized types need a scale. */
const struct torch_dtype *vc_torch_dtype_of(enum vc_dtype dtype)
{
    for (size_t i = 0; i < N_DTYPES; i++) {
        if (dtypes[i].dtype == dtype && dtype != VC_DTYPE_VOID && !dtypes[i].quantized) {
            return &dtypes[i];
        }
    }
    return NULL;
}

size_t vc_torch_dtype_number(const struct torch_dtype *dtype)
{
    return (size_t)(dtype - dtypes);
}

bool vc_torch_is_untyped(const struct torch_dtype *dtype)
{
    return dtype->storage == NULL || dtype->dtype == VC_DTYPE_VOID;
}
