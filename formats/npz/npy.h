/* npy.h - the header of an npy array: parse (npy.c) and write (npy_write.c). Used for members of an npz and for .npy
 * files.
 *
 *     offset  bytes  what                     an f4 array of shape (2, 3), as NumPy writes it
 *          0      6  magic                    93 4e 55 4d 50 59           "\x93NUMPY"
 *          6      2  version                  01 00                       1.0
 *          8      2  length of the text       76 00                       118 (u16; u32 in versions 2.0 and 3.0)
 *         10    118  text                     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   ... \n
 *        128     24  data                     00 00 80 3f ...
 *
 * The text is padded with spaces so that the data begins at a multiple of 64. */
#pragma once

#include <vcompress/model.h>

#include "core/base/ctx.h"

#define VC_NPY_PREFIX_BYTES 12 /* enough to learn the header's length */
#define VC_NPY_MAX_HEADER   ((size_t)64 << 10)

/* What a header says. The first five come from 'descr'. */
struct vc_npy_header {
    enum vc_dtype dtype; /* VOID for V<n> */
    const char *other;   /* what the elements are that have no dtype here, "text", "objects"; NULL: dtype says it */
    bool pickled;        /* they are Python objects: the data is a pickle, and data_bytes is not known (0) */
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

/* Refuses an array of elements that have no dtype (header->other). */
enum vc_status vc_npy_refuse_other(struct vc_ctx *ctx, const struct vc_npy_header *header);

/* NumPy has elements of that type (bf16 as u2). */
bool vc_npy_has(enum vc_dtype dtype);

/* Writes a version 1.0 header (2.0 where it is too long), C order, little-endian, padded so that data starts at a
 * multiple of 64. Returns its bytes; with dst NULL or too small only that. dtype BF16 is written as u2. */
size_t vc_npy_write(unsigned char *dst, size_t capacity, enum vc_dtype dtype, unsigned n_dims, const uint64_t *shape);
/* Refuses a tensor of a type that npy does not have, for which vc_npy_write makes no header (0 bytes). */
enum vc_status vc_npy_has_type(struct vc_ctx *ctx, const char *name, enum vc_dtype dtype, size_t header_bytes);
