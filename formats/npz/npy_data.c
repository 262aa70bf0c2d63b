/* npy_data.c - reads array data by range: plain, or gathered from Fortran order with bounded memory.
 *
 *     shape (2, 3)   C order  a00 a01 a02 a10 a11 a12       Fortran order in the file  a00 a10 a01 a11 a02 a12
 *                                                                                      column  column  column
 *
 * Fortran order is an order of strides, so formats/io/strided.h gathers a range of it. */
#include "formats/npz/npy_data.h"

#include "formats/io/strided.h"

/* NumPy has no bf16 and no float8: such arrays come as "V2" and "V1", and the user says what they are (void_as). */
enum vc_dtype vc_npy_meaning(const struct vc_npy_header *header, enum vc_dtype void_as)
{
    if (header->dtype == VC_DTYPE_VOID && void_as != 0 && vc_dtype_size(void_as) == header->item_bytes) {
        return void_as;
    }
    return header->dtype;
}

/* Fortran order matters only where two dimensions are longer than 1. A complex number is two numbers, each swapped by
 * itself. */
enum vc_status vc_npy_data_init(struct vc_ctx *ctx, struct vc_npy_data *data, const struct vc_npy_header *header)
{
    unsigned n_long = 0;

    for (unsigned i = 0; i < header->n_dims; i++) {
        n_long += header->shape[i] > 1;
    }
    data->size_bytes = header->data_bytes;
    data->item_bytes = header->item_bytes;
    data->n_dims = header->n_dims;
    data->gather = header->fortran_order && n_long > 1 && header->n_elems > 0;
    data->swap_bytes = 0;
    if (header->big_endian) {
        bool is_complex = header->dtype == VC_DTYPE_C64 || header->dtype == VC_DTYPE_C128;

        data->swap_bytes = is_complex ? header->item_bytes / 2 : header->item_bytes;
    }
    VC_REFUSE_IF(data->gather && data->item_bytes > VC_NPY_WINDOW_BYTES, ctx, VC_E_UNSUPPORTED,
                 "Fortran order of elements with %zu bytes each", (size_t)data->item_bytes);
    return VC_OK;
}

/* Elements of Fortran order: dimension 0 runs fastest in the file, and each other one in steps of all before it. */
static enum vc_status read_fortran(struct vc_ctx *ctx, const struct vc_npy_data *data, uint64_t first, uint64_t n,
                                   void *dst)
{
    uint64_t strides[VC_MAX_DIMS];
    uint64_t stride = 1;

    for (unsigned i = 0; i < data->n_dims; i++) {
        strides[i] = stride;
        stride *= data->shape[i];
    }
    return vc_strided_read(ctx,
                           &(struct vc_strided){.file = data->file,
                                                .offset = data->offset,
                                                .n_bytes = data->size_bytes,
                                                .item_bytes = data->item_bytes,
                                                .n_dims = data->n_dims,
                                                .shape = data->shape,
                                                .strides = strides},
                           first, n, dst);
}

/* Plain order is one read; Fortran order is gathered, in whole elements. */
enum vc_status vc_npy_data_read(struct vc_ctx *ctx, const struct vc_npy_data *data, uint64_t offset, void *dst,
                                size_t n)
{
    if (!data->gather) {
        return vc_infile_read(ctx, data->file, data->offset + offset, dst, n);
    }
    VC_REFUSE_IF(offset % data->item_bytes != 0 || n % data->item_bytes != 0, ctx, VC_E_INTERNAL,
                 "a part of an element was asked for");
    return read_fortran(ctx, data, offset / data->item_bytes, n / data->item_bytes, dst);
}
