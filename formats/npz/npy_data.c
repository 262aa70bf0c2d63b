/* npy_data.c - reads array data by range: plain, or gathered from Fortran order with bounded memory.
 *
 *     shape (2, 3)   C order  a00 a01 a02 a10 a11 a12       Fortran order in the file  a00 a10 a01 a11 a02 a12
 *                                                                                      column  column  column
 *
 * An array of shape (d0, d1, ...) in Fortran order is a sequence of columns: the d0 elements that share their other
 * indices. A range in C order is cut into rectangles (rows ra..rb, columns ja..jb), and each rectangle is collected
 * column piece by column piece. Short columns are read many at a time through a window. */
#include "formats/npz/npy_data.h"

#include <string.h>

#include "core/base/checked.h"

/* One system call costs about as much as reading this many cached bytes. */
#define VC_WINDOW_STRIDE 4096

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
    if (data->gather && data->item_bytes > VC_NPY_WINDOW_BYTES) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "Fortran order of elements with %zu bytes each",
                       (size_t)data->item_bytes);
    }
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ Fortran order */

/* One read of a Fortran array. Rows are dimension 0; `inner` columns stand for all other dimensions together. */
struct gather {
    struct vc_ctx *ctx;
    const struct vc_npy_data *data;
    uint64_t inner; /* product of shape[1..] */
    bool wide;      /* columns are so short that a window over several of them pays */
    uint64_t window_start;
    size_t window_bytes;
    unsigned char *window;
    uint64_t index[VC_MAX_DIMS]; /* the odometer, dimensions 1.. */
};

/* *out points to `need` bytes of the data from `pos` on, at most a window; they stay there until the next call. Columns
 * that are short (`wide`) are read ahead, since the next ones are wanted at once. */
static enum vc_status fetch(struct gather *g, uint64_t pos, size_t need, const unsigned char **out)
{
    enum vc_status status = VC_OK;

    if (pos < g->window_start || pos + need > g->window_start + g->window_bytes) {
        size_t n = need;

        if (g->wide) {
            n = (size_t)vc_min_u64(VC_NPY_WINDOW_BYTES, g->data->size_bytes - pos);
        }
        g->window_bytes = 0;
        VC_TRY(vc_infile_read(g->ctx, g->data->file, g->data->offset + pos, g->window, n));
        g->window_start = pos;
        g->window_bytes = n;
    }
    *out = g->window + (pos - g->window_start);
out:
    return status;
}

/* Puts n elements that are neighbours in src to places `stride` bytes apart in dst. Constant sizes let memcpy become
 * one move. */
static void scatter(unsigned char *dst, size_t stride, const unsigned char *src, size_t n, size_t item)
{
    switch (item) {
    case 2:
        for (size_t i = 0; i < n; i++) {
            memcpy(dst + i * stride, src + i * 2, 2);
        }
        break;
    case 4:
        for (size_t i = 0; i < n; i++) {
            memcpy(dst + i * stride, src + i * 4, 4);
        }
        break;
    case 8:
        for (size_t i = 0; i < n; i++) {
            memcpy(dst + i * stride, src + i * 8, 8);
        }
        break;
    default:
        for (size_t i = 0; i < n; i++) {
            memcpy(dst + i * stride, src + i * item, item);
        }
        break;
    }
}

/* n_rows whole rows from ra on: goes through the columns in the order of the file and puts a piece of each into dst. */
static enum vc_status gather_rows(struct gather *g, uint64_t ra, uint64_t n_rows, unsigned char *dst)
{
    const struct vc_npy_data *data = g->data;
    size_t item = data->item_bytes;
    size_t stride = (size_t)g->inner * item; /* of dst, which holds n_rows of them */
    uint64_t j = 0;                          /* the column's place in a row of C order */
    enum vc_status status = VC_OK;

    memset(g->index, 0, sizeof g->index);
    for (uint64_t column = 0; column < g->inner; column++) {
        uint64_t pos = (ra + data->shape[0] * column) * item;
        uint64_t r = 0;
        uint64_t step;

        while (r < n_rows) {
            size_t n = (size_t)vc_min_u64(n_rows - r, VC_NPY_WINDOW_BYTES / item);
            const unsigned char *src = NULL;

            VC_TRY(fetch(g, pos + r * item, n * item, &src));
            scatter(dst + (size_t)r * stride + (size_t)j * item, stride, src, n, item);
            r += n;
        }
        /* Next column: dimension 1 runs fastest in the file, slowest in a row of C order. */
        step = g->inner;
        for (unsigned i = 1; i < data->n_dims; i++) {
            step /= data->shape[i];
            j += step;
            if (++g->index[i] < data->shape[i]) {
                break;
            }
            j -= step * data->shape[i];
            g->index[i] = 0;
        }
    }
out:
    return status;
}

/* n elements of one row from column ja on, in C order: one element per column, found with an odometer over the indices.
 */
static enum vc_status gather_piece(struct gather *g, uint64_t row, uint64_t ja, uint64_t n, unsigned char *dst)
{
    const struct vc_npy_data *data = g->data;
    size_t item = data->item_bytes;
    uint64_t left = ja;
    enum vc_status status = VC_OK;

    for (unsigned i = data->n_dims; i-- > 1;) {
        g->index[i] = left % data->shape[i];
        left /= data->shape[i];
    }
    for (uint64_t k = 0; k < n; k++) {
        const unsigned char *src = NULL;
        uint64_t at = 0;

        for (unsigned i = data->n_dims; i-- > 1;) {
            at = at * data->shape[i] + g->index[i];
        }
        VC_TRY(fetch(g, (row + data->shape[0] * at) * item, item, &src));
        memcpy(dst + (size_t)k * item, src, item);
        for (unsigned i = data->n_dims; i-- > 1;) {
            if (++g->index[i] < data->shape[i]) {
                break;
            }
            g->index[i] = 0;
        }
    }
out:
    return status;
}

/* n elements from `first` on: the rest of a row, whole rows, the beginning of a row. */
static enum vc_status gather_range(struct vc_ctx *ctx, const struct vc_npy_data *data, uint64_t first, uint64_t n,
                                   unsigned char *dst)
{
    struct gather g = {.ctx = ctx, .data = data, .inner = 1};
    enum vc_status status = VC_OK;

    for (unsigned i = 1; i < data->n_dims; i++) {
        g.inner *= data->shape[i];
    }
    g.wide = data->shape[0] * data->item_bytes <= VC_WINDOW_STRIDE;
    g.window = vc_alloc(ctx, VC_TAG_IO, VC_NPY_WINDOW_BYTES);
    VC_TRY_ALLOC(g.window);
    while (n > 0) {
        uint64_t row = first / g.inner;
        uint64_t j = first % g.inner;
        uint64_t part;

        if (j != 0 || n < g.inner) {
            part = vc_min_u64(g.inner - j, n);
            VC_TRY(gather_piece(&g, row, j, part, dst));
        } else {
            part = n / g.inner * g.inner;
            VC_TRY(gather_rows(&g, row, n / g.inner, dst));
        }
        first += part;
        n -= part;
        dst += part * data->item_bytes;
    }
out:
    vc_free(ctx, g.window);
    return status;
}

/* Plain order is one read; Fortran order is gathered, in whole elements. */
enum vc_status vc_npy_data_read(struct vc_ctx *ctx, const struct vc_npy_data *data, uint64_t offset, void *dst,
                                size_t n)
{
    if (!data->gather) {
        return vc_infile_read(ctx, data->file, data->offset + offset, dst, n);
    }
    if (offset % data->item_bytes != 0 || n % data->item_bytes != 0) {
        return vc_fail(ctx, VC_E_INTERNAL, "a part of an element was asked for");
    }
    return gather_range(ctx, data, offset / data->item_bytes, n / data->item_bytes, dst);
}
