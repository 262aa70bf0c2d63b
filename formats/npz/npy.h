/* npy.h - the header of an npy array: parse and write. Also the format for single .npy files.
 *
 *     93 'N' 'U' 'M' 'P' 'Y' | major | minor | header length (u16 LE in 1.0, u32 LE in 2.0 and 3.0) | text | data
 *     text: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } padded with spaces, ends in \n */
#ifndef VC_FORMATS_NPY_H
#define VC_FORMATS_NPY_H

#include <vcompress/model.h>

#include "core/base/ctx.h"

#define VC_NPY_PREFIX_BYTES 12 /* enough to learn the header's length */
#define VC_NPY_MAX_HEADER   ((size_t)64 << 10)

struct vc_npy_header {
    enum vc_dtype dtype; /* VOID for V<n> */
    uint32_t item_bytes;
    bool big_endian, fortran_order;
    unsigned n_dims;
    uint64_t shape[VC_MAX_DIMS];
    uint64_t n_elems, data_bytes;
    size_t header_bytes; /* where the data starts */
};

/* Total header bytes (data offset) from the first VC_NPY_PREFIX_BYTES (10 suffice for version 1); VC_E_FORMAT when
 * these are not the start of an npy, VC_E_UNSUPPORTED for another version. */
enum vc_status vc_npy_header_bytes(struct vc_ctx *ctx, const unsigned char *data, size_t n, size_t *header_bytes);

/* Parses a whole header of n bytes: a strict literal grammar, no expressions. */
enum vc_status vc_npy_parse(struct vc_ctx *ctx, const unsigned char *data, size_t n, struct vc_npy_header *out);

/* NumPy has elements of that type (bf16 as u2). */
bool vc_npy_has(enum vc_dtype dtype);

/* Writes a version 1.0 header (2.0 where it is too long), C order, little-endian, padded so that data starts at a
 * multiple of 64. Returns its bytes; with dst NULL or too small only that. dtype BF16 is written as u2. */
size_t vc_npy_write(unsigned char *dst, size_t capacity, enum vc_dtype dtype, unsigned n_dims, const uint64_t *shape);

#endif
