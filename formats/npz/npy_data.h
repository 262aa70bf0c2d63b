/* npy_data.h - the data of an npy array by range, given out in C order and little-endian whatever the file has. */
#pragma once

#include "formats/io/infile.h"
#include "formats/npz/npy.h"

/* Memory that a gathering read takes. */
#define VC_NPY_WINDOW_BYTES ((size_t)64 << 10)

/* Where and how the data of one array lies; made from its header by vc_npy_data_init, then file, offset and shape are
 * set. */
struct vc_npy_data {
    const struct vc_infile *file;
    uint64_t offset; /* of the first element in the file */
    uint64_t size_bytes;
    uint32_t item_bytes;
    unsigned swap_bytes; /* bytes of each number to reverse; 0: none */
    bool gather;         /* Fortran order that differs from C order */
    unsigned n_dims;
    const uint64_t *shape; /* borrowed */
};

/* The dtype of the tensor: void elements of the size of `void_as` are those (0: nothing is said about them). */
enum vc_dtype vc_npy_meaning(const struct vc_npy_header *header, enum vc_dtype void_as);

/* Reversal unit and order of a parsed header. VC_E_UNSUPPORTED for Fortran order of giant void elements. */
enum vc_status vc_npy_data_init(struct vc_ctx *ctx, struct vc_npy_data *data, const struct vc_npy_header *header);

/* n bytes of the values from `offset` on, still in the file's byte order. With `gather` both must be whole elements;
 * memory stays bounded (64 KiB). */
enum vc_status vc_npy_data_read(struct vc_ctx *ctx, const struct vc_npy_data *data, uint64_t offset, void *dst,
                                size_t n);
