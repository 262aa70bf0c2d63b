/* dtype.h - element types of tensors. */
#ifndef VCOMPRESS_DTYPE_H
#define VCOMPRESS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* VC_DTYPE_RAW is a run of bytes that is no array (a member of an npz that is not an npy): one element is one byte.
 * VC_DTYPE_VOID is an array of elements whose meaning the file does not tell (NumPy's V1, V2, ...). Both are carried
 * over unchanged and never computed on, and so are the types that the comments below call opaque.
 *
 * Numbers are stable, and a new type gets the next one, so VC_DTYPE_COUNT grows: it is for arrays of a program's own,
 * and nothing returns it. VC_DTYPE_NONE is what is returned where there is no type.
 *
 * Block types store a number of consecutive elements (of a row, in GGUF) in a number of bytes: vc_dtype_block. */
enum vc_dtype {
    VC_DTYPE_RAW = 0,
    VC_DTYPE_VOID = 1,
    VC_DTYPE_BOOL = 2,
    VC_DTYPE_U8 = 3,
    VC_DTYPE_I8 = 4,
    VC_DTYPE_U16 = 5,
    VC_DTYPE_I16 = 6,
    VC_DTYPE_U32 = 7,
    VC_DTYPE_I32 = 8,
    VC_DTYPE_U64 = 9,
    VC_DTYPE_I64 = 10,
    VC_DTYPE_F16 = 11,
    VC_DTYPE_BF16 = 12,
    VC_DTYPE_F32 = 13,
    VC_DTYPE_F64 = 14,
    VC_DTYPE_C64 = 15,
    VC_DTYPE_C128 = 16,

    /* One byte or less, as safetensors and ONNX have them; opaque. */
    VC_DTYPE_F8_E4M3 = 17,
    VC_DTYPE_F8_E5M2 = 18,
    VC_DTYPE_F8_E4M3FNUZ = 19,
    VC_DTYPE_F8_E5M2FNUZ = 20,
    VC_DTYPE_F8_E8M0 = 21,
    VC_DTYPE_F6_E2M3 = 22,
    VC_DTYPE_F6_E3M2 = 23,
    VC_DTYPE_F4_E2M1 = 24,
    VC_DTYPE_I4 = 25,
    VC_DTYPE_U4 = 26,

    /* GGUF's blocks with their scales inside (ggml-common.h): these become floats by themselves ... */
    VC_DTYPE_Q4_0 = 27,
    VC_DTYPE_Q4_1 = 28,
    VC_DTYPE_Q5_0 = 29,
    VC_DTYPE_Q5_1 = 30,
    VC_DTYPE_Q8_0 = 31,
    VC_DTYPE_Q4_K = 32,
    VC_DTYPE_Q5_K = 33,
    VC_DTYPE_Q6_K = 34,
    /* ... and these are opaque. */
    VC_DTYPE_Q8_1 = 35,
    VC_DTYPE_Q2_K = 36,
    VC_DTYPE_Q3_K = 37,
    VC_DTYPE_Q8_K = 38,
    VC_DTYPE_IQ1_S = 39,
    VC_DTYPE_IQ1_M = 40,
    VC_DTYPE_IQ2_XXS = 41,
    VC_DTYPE_IQ2_XS = 42,
    VC_DTYPE_IQ2_S = 43,
    VC_DTYPE_IQ3_XXS = 44,
    VC_DTYPE_IQ3_S = 45,
    VC_DTYPE_IQ4_NL = 46,
    VC_DTYPE_IQ4_XS = 47,
    VC_DTYPE_TQ1_0 = 48,
    VC_DTYPE_TQ2_0 = 49,
    VC_DTYPE_MXFP4 = 50,
    VC_DTYPE_NVFP4 = 51,
    VC_DTYPE_Q1_0 = 52,
    VC_DTYPE_Q2_0 = 53,
    VC_DTYPE_COUNT,
    VC_DTYPE_NONE = 255
};

/* Short name ("f32", "bf16", "i8"), a static string; "unknown" for what is no type, never NULL. */
VC_API const char *vc_dtype_name(enum vc_dtype dtype);

/* The type with that name, or VC_DTYPE_NONE. */
VC_API enum vc_dtype vc_dtype_from_name(const char *name);

/* Bytes per element; 1 for RAW; 0 for VOID, whose size is a property of the tensor, and for block types. */
VC_API size_t vc_dtype_size(enum vc_dtype dtype);

/* Elements of one block in *n_elems and its bytes in *n_bytes: (1, vc_dtype_size) for types without blocks. */
VC_API void vc_dtype_block(enum vc_dtype dtype, size_t *n_elems, size_t *n_bytes);

/* Bytes of n elements, the last block rounded up; UINT64_MAX when that is too many. 0 for VOID. */
VC_API uint64_t vc_dtype_bytes(enum vc_dtype dtype, uint64_t n_elems);

/* f16, bf16, f32, f64: the types that passes compute on. */
VC_API bool vc_dtype_is_float(enum vc_dtype dtype);

/* Blocks that hold floats with their own scales, and that can be turned into them: Q8_0 and its kind. */
VC_API bool vc_dtype_is_quantized(enum vc_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
