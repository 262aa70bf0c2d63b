/* dtype.h - element types of tensors. */
#ifndef VCOMPRESS_DTYPE_H
#define VCOMPRESS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

#include <vcompress/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* VC_DTYPE_RAW is a run of bytes that is no array (a member of an npz that is not an npy): one element is one byte.
 * VC_DTYPE_VOID is an array of elements whose meaning the file does not tell (NumPy's V1, V2, ...). Both are carried
 * over unchanged and never computed on. */
enum vc_dtype {
    VC_DTYPE_RAW = 0,
    VC_DTYPE_VOID,
    VC_DTYPE_BOOL,
    VC_DTYPE_U8,
    VC_DTYPE_I8,
    VC_DTYPE_U16,
    VC_DTYPE_I16,
    VC_DTYPE_U32,
    VC_DTYPE_I32,
    VC_DTYPE_U64,
    VC_DTYPE_I64,
    VC_DTYPE_F16,
    VC_DTYPE_BF16,
    VC_DTYPE_F32,
    VC_DTYPE_F64,
    VC_DTYPE_C64,
    VC_DTYPE_C128,
    VC_DTYPE_COUNT
};

/* Short name ("f32", "bf16", "i8"); never NULL. */
VC_API const char *vc_dtype_name(enum vc_dtype dtype);

/* The type with that name, or VC_DTYPE_COUNT. */
VC_API enum vc_dtype vc_dtype_from_name(const char *name);

/* Bytes per element; 1 for RAW; 0 for VOID, whose size is a property of the tensor. */
VC_API size_t vc_dtype_size(enum vc_dtype dtype);

/* f16, bf16, f32, f64: the types that passes compute on. */
VC_API bool vc_dtype_is_float(enum vc_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
