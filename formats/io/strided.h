/* strided.h - elements of an array with any strides, read by range in C order and with bounded memory: views of
 * PyTorch, and Fortran order of npy.
 *
 *     shape (2, 3), strides (1, 2), a transposed matrix:   storage  a b c d e f   ->   a c e b d f */
#pragma once

#include "formats/io/infile.h"

/* Memory that a read takes. */
#define VC_STRIDED_WINDOW_BYTES ((size_t)64 << 10)

/* Where an array lies in a file. */
struct vc_strided {
    const struct vc_infile *file;
    uint64_t offset;   /* of the storage in the file */
    uint64_t n_bytes;  /* of the storage: nothing beyond it is read */
    uint64_t first;    /* elements from there to the array's first */
    size_t item_bytes; /* 1 to VC_STRIDED_WINDOW_BYTES */
    unsigned n_dims;
    const uint64_t *shape, *strides; /* strides in elements; every element lies inside the storage */
};

/* Elements first..first + n of the array, in the byte order of the file. */
enum vc_status vc_strided_read(struct vc_ctx *ctx, const struct vc_strided *array, uint64_t first, uint64_t n,
                               void *dst);
