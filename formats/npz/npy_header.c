/* npy_header.c - writes the header of an array, of a .npy file and of a member of an npz: npy.h. */

#include "formats/npz/npy.h"
#include "formats/npz/npy_write.h"

#define VC_NPY_ALIGN ((size_t)64)

/* NumPy's name of a type, "<f4"; NULL for what NumPy has none of. bf16 is written as u2, and the manifest says what it
 * is. */
static const char *descr_of(enum vc_dtype dtype)
{
    static const char *const descr[VC_DTYPE_COUNT] = {
        [VC_DTYPE_BOOL] = "|b1", [VC_DTYPE_U8] = "|u1",  [VC_DTYPE_I8] = "|i1",   [VC_DTYPE_U16] = "<u2",
        [VC_DTYPE_I16] = "<i2",  [VC_DTYPE_U32] = "<u4", [VC_DTYPE_I32] = "<i4",  [VC_DTYPE_U64] = "<u8",
        [VC_DTYPE_I64] = "<i8",  [VC_DTYPE_F16] = "<f2", [VC_DTYPE_BF16] = "<u2", [VC_DTYPE_F32] = "<f4",
        [VC_DTYPE_F64] = "<f8",  [VC_DTYPE_C64] = "<c8", [VC_DTYPE_C128] = "<c16"};

    return (unsigned)dtype < VC_DTYPE_COUNT ? descr[dtype] : NULL;
}

/* The literal without padding into dst; tells its length. 64 dimensions of 20 digits are far below version 1.0's limit
 * of 65,535. */
static size_t header_text(char *dst, size_t capacity, const char *descr, unsigned n_dims, const uint64_t *shape)
{
    size_t n = (size_t)snprintf(dst, capacity, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);

    for (unsigned i = 0; i < n_dims; i++) {
        n += (size_t)snprintf(dst + n, capacity - n, "%s%" PRIu64, i == 0 ? "" : ", ", shape[i]);
    }
    return n + (size_t)snprintf(dst + n, capacity - n, "%s), }", n_dims == 1 ? "," : "");
}

bool vc_npy_has(enum vc_dtype dtype)
{
    return descr_of(dtype) != NULL;
}

/* Version 1.0. The text ends in a newline, and is padded with spaces before it to a multiple of 64 bytes. */
size_t vc_npy_write(unsigned char *dst, size_t capacity, enum vc_dtype dtype, unsigned n_dims, const uint64_t *shape)
{
    static const unsigned char magic[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    char text[VC_NPY_WRITE_MAX];

    if (descr_of(dtype) == NULL || n_dims > VC_MAX_DIMS) {
        return 0;
    }
    size_t n = header_text(text, sizeof text, descr_of(dtype), n_dims, shape);
    size_t total = (sizeof magic + 2 + n + 1 + VC_NPY_ALIGN - 1) & ~(VC_NPY_ALIGN - 1);
    if (dst != NULL && total <= capacity) {
        memcpy(dst, magic, sizeof magic);
        vc_put_le16(dst + 8, (uint16_t)(total - 10));
        memcpy(dst + 10, text, n);
        memset(dst + 10 + n, ' ', total - 10 - n);
        dst[total - 1] = '\n';
    }
    return total;
}
