/* dtype.h - element types of tensors. */
#ifndef VCOMPRESS_DTYPE_H
#define VCOMPRESS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/status.h>

VC_BEGIN_C

/* VC_DTYPE_RAW is bytes without a shape (a member of an npz that is not an npy): one element is one byte. VC_DTYPE_VOID
 * is an array whose element type the file does not state (NumPy's V1, V2, ...). Tensors of these two types, and of the
 * types called opaque below, are copied unchanged and never computed on.
 *
 * Numbers are stable. A new type gets the next number, so VC_DTYPE_COUNT grows: use VC_DTYPE_COUNT for the size of
 * arrays only; no function returns VC_DTYPE_COUNT. VC_DTYPE_NONE means "no type".
 *
 * A block type stores a fixed number of consecutive elements of a row in a fixed number of bytes (vc_dtype_facts).
 * Example: a block of Q8_0 is 32 elements in 34 bytes. */
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

    /* One byte or less, in safetensors and ONNX; opaque. */
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

    /* GGUF's blocks with their scales inside (ggml-common.h). */
    VC_DTYPE_Q4_0 = 27,
    VC_DTYPE_Q4_1 = 28,
    VC_DTYPE_Q5_0 = 29,
    VC_DTYPE_Q5_1 = 30,
    VC_DTYPE_Q8_0 = 31,
    VC_DTYPE_Q4_K = 32,
    VC_DTYPE_Q5_K = 33,
    VC_DTYPE_Q6_K = 34,
    /* More of them; vc_dtype_facts.is_quantized says which the library decodes: all but Q8_1, Q8_K, IQ1, IQ2 and IQ3. */
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

    /* Codes of vcompress itself, side by side from the lowest bit on, across bytes: 8 codes of I3 in 3 bytes. */
    VC_DTYPE_I2 = 54,
    VC_DTYPE_I3 = 55,
    VC_DTYPE_I5 = 56,
    VC_DTYPE_I6 = 57,
    VC_DTYPE_COUNT,
    VC_DTYPE_NONE = 255
};

/* What is known of a type. Later versions may add members at the end. */
struct vc_dtype_info {
    const char *name; /* "f32", "bf16", "i8"; "unknown" if the number is no type */
    /* Bytes per element; 1 for RAW; 0 for VOID, whose size is a property of the tensor, and for block types. */
    size_t size;
    size_t block_elems, block_bytes; /* of one block; 1 and `size` for types without blocks */
    bool is_float;                   /* f16, bf16, f32 and f64, the types that passes compute on */
    bool is_quantized;               /* a block type that the library can decode to floats: Q8_0 and others */
};

/* The facts of a type, static; never NULL. */
VC_API const struct vc_dtype_info *vc_dtype_facts(enum vc_dtype dtype);

static inline const char *vc_dtype_name(enum vc_dtype dtype)
{
    return vc_dtype_facts(dtype)->name;
}
static inline size_t vc_dtype_size(enum vc_dtype dtype)
{
    return vc_dtype_facts(dtype)->size;
}
static inline bool vc_dtype_is_float(enum vc_dtype dtype)
{
    return vc_dtype_facts(dtype)->is_float;
}
static inline bool vc_dtype_is_quantized(enum vc_dtype dtype)
{
    return vc_dtype_facts(dtype)->is_quantized;
}

/* The type with this short name. Returns VC_DTYPE_NONE if the name is unknown. */
VC_API enum vc_dtype vc_dtype_from_name(const char *name);

/* Bytes of n elements; the last block counts whole. 0 for VOID. Returns UINT64_MAX on overflow. */
static inline uint64_t vc_dtype_bytes(enum vc_dtype dtype, uint64_t n_elems)
{
    const struct vc_dtype_info *facts = vc_dtype_facts(dtype);
    uint64_t n_blocks = n_elems / facts->block_elems + (n_elems % facts->block_elems != 0);

    return facts->block_bytes != 0 && n_blocks > UINT64_MAX / facts->block_bytes ? UINT64_MAX
                                                                                 : n_blocks * facts->block_bytes;
}

VC_END_C
#endif
