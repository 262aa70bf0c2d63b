/* strided.c - see strided.h.
 *
 * A range in C order is cut into boxes: whole sub-arrays of some dimension, with the indices before it fixed. The
 * dimensions of a box are walked in the order of their strides, the smallest innermost, so that the file is read front
 * to back through a window as far as the box allows; elements go to their places in the destination from there.
 *
 *     shape [4, 6], strides [1, 4] (transposed), elements 3 to 14 in C order:
 *
 *         . . . a a a       row 0 from column 3: a box of 1 x 3
 *         b b b b b b       row 1: a box of 1 x 6 (whole rows together: n x 6)
 *         c c c . . .       row 2 up to column 2: a box of 1 x 3
 *
 * Called by readers of arrays that are not in C order: npy with fortran_order, PyTorch's views. */
#include "formats/io/strided.h"

#include <vcompress/model.h>

/* One system call costs about as much as reading this many cached bytes. */
#define FAR_BYTES ((uint64_t)4096)

/* A dimension of a box. */
struct dim {
    uint64_t n;
    uint64_t step;  /* bytes in the file */
    size_t to_step; /* bytes in the destination */
};

/* One read. */
struct gather {
    struct vc_ctx *ctx;
    const struct vc_strided *array;
    unsigned char *window;
    uint64_t window_start; /* in the storage */
    size_t window_bytes;
    bool near; /* pieces of a box lie so near each other that reading what is between them pays */
};

/* *out points to `need` bytes of the storage from pos on, at most a window, valid until the next call. need is at most
 * VC_STRIDED_WINDOW_BYTES. Steps are not negative, so the window moves forward within a run. */
static enum vc_status fetch(struct gather *g, uint64_t pos, size_t need, const unsigned char **out)
{
    if (pos < g->window_start || pos + need > g->window_start + g->window_bytes) {
        size_t n = g->near ? (size_t)vc_min_u64(VC_STRIDED_WINDOW_BYTES, g->array->n_bytes - pos) : need;

        g->window_bytes = 0;
        VC_CALL(vc_infile_read(g->ctx, g->array->file, g->array->offset + pos, g->window, n));
        g->window_start = pos;
        g->window_bytes = n;
    }
    *out = g->window + (pos - g->window_start);
    return VC_OK;
}

/* n elements, `step` bytes apart in src and `to_step` apart in dst. Constant sizes let memcpy become one move. */
static void scatter(unsigned char *dst, size_t to_step, const unsigned char *src, size_t step, size_t n, size_t item)
{
    if (step == item && to_step == item) {
        memcpy(dst, src, n * item);
        return;
    }
    switch (item) {
    case 2:
        for (size_t i = 0; i < n; i++) {
            memcpy(dst + i * to_step, src + i * step, 2);
        }
        break;
    case 4:
        for (size_t i = 0; i < n; i++) {
            memcpy(dst + i * to_step, src + i * step, 4);
        }
        break;
    case 8:
        for (size_t i = 0; i < n; i++) {
            memcpy(dst + i * to_step, src + i * step, 8);
        }
        break;
    default:
        for (size_t i = 0; i < n; i++) {
            memcpy(dst + i * to_step, src + i * step, item);
        }
        break;
    }
}

/* A run along the innermost dimension, in as few reads as the window allows. A step of 0 repeats one element (expand of
 * PyTorch). Beyond FAR_BYTES each element is read alone. */
static enum vc_status gather_run(struct gather *g, const struct dim *dim, uint64_t pos, unsigned char *dst)
{
    size_t item = g->array->item_bytes;
    uint64_t at_once = dim->step > FAR_BYTES ? 1
                       : dim->step == 0      ? dim->n
                                             : (VC_STRIDED_WINDOW_BYTES - item) / dim->step + 1;
    uint64_t done = 0;

    while (done < dim->n) {
        size_t n = (size_t)vc_min_u64(dim->n - done, at_once);
        const unsigned char *src = NULL;

        VC_CALL(fetch(g, pos + done * dim->step, (n - 1) * (size_t)dim->step + item, &src));
        scatter(dst + (size_t)done * dim->to_step, dim->to_step, src, (size_t)dim->step, n, item);
        done += n;
    }
    return VC_OK;
}

/* Smallest step first; equal ones as they are in the array, from the last. Insertion sort: at most VC_MAX_DIMS. */
static void sort_dims(struct dim *dims, unsigned n)
{
    for (unsigned i = 1; i < n; i++) {
        struct dim moved = dims[i];
        unsigned k = i;

        while (k > 0 && dims[k - 1].step > moved.step) {
            dims[k] = dims[k - 1];
            k--;
        }
        dims[k] = moved;
    }
}

/* The box of `rows` indices of dimension d from pos on, with all of the dimensions after it. An odometer over the
 * dimensions but the innermost: index[i] counts, pos and dst go along and back. */
static enum vc_status gather_box(struct gather *g, unsigned d, uint64_t rows, uint64_t pos, unsigned char *dst)
{
    const struct vc_strided *array = g->array;
    struct dim dims[VC_MAX_DIMS];
    uint64_t index[VC_MAX_DIMS] = {0};
    size_t to_step = array->item_bytes;
    unsigned n = 0;
    unsigned i;

    for (i = array->n_dims; i-- > d;) {
        uint64_t extent = i == d ? rows : array->shape[i];

        if (extent > 1) {
            dims[n++] = (struct dim){extent, array->strides[i] * array->item_bytes, to_step};
        }
        to_step *= (size_t)extent;
    }
    if (n == 0) {
        dims[n++] = (struct dim){1, 0, 0};
    }
    sort_dims(dims, n);
    g->near = n > 1 && dims[1].step <= FAR_BYTES;
    for (;;) {
        VC_CALL(gather_run(g, &dims[0], pos, dst));
        for (i = 1; i < n; i++) {
            pos += dims[i].step;
            dst += dims[i].to_step;
            if (++index[i] < dims[i].n) {
                break;
            }
            pos -= dims[i].step * dims[i].n;
            dst -= dims[i].to_step * (size_t)dims[i].n;
            index[i] = 0;
        }
        if (i == n) {
            break;
        }
    }
    return VC_OK;
}

/* Elements first..first + n of what remains of the array from dimension d on, which starts at pos. inner elements
 * belong to one index of d. A part of an index goes one dimension deeper, whole indices are a box. Depth: n_dims. */
static enum vc_status gather_range(struct gather *g, unsigned d, uint64_t pos, uint64_t first, uint64_t n,
                                   unsigned char *dst)
{
    const struct vc_strided *array = g->array;
    uint64_t inner = 1; /* elements per index of d */

    if (d == array->n_dims) {
        return gather_box(g, d, 1, pos, dst);
    }
    for (unsigned i = d + 1; i < array->n_dims; i++) {
        inner *= array->shape[i];
    }
    while (n > 0) {
        uint64_t row = first / inner;
        uint64_t skip = first % inner;
        uint64_t at = pos + row * array->strides[d] * array->item_bytes;
        uint64_t part;

        if (skip != 0 || n < inner) {
            part = vc_min_u64(inner - skip, n);
            VC_CALL(gather_range(g, d + 1, at, skip, part, dst));
        } else {
            part = n / inner * inner;
            VC_CALL(gather_box(g, d, n / inner, at, dst));
        }
        first += part;
        n -= part;
        dst += part * array->item_bytes;
    }
    return VC_OK;
}

enum vc_status vc_strided_read(struct vc_ctx *ctx, const struct vc_strided *array, uint64_t first, uint64_t n,
                               void *dst)
{
    VC_SCOPED unsigned char *window = NULL;
    struct gather g = {.ctx = ctx, .array = array};

    if (n == 0) {
        return VC_OK;
    }
    VC_CALL_ALLOC(window = vc_alloc(ctx, VC_TAG_IO, VC_STRIDED_WINDOW_BYTES));
    g.window = window;
    return gather_range(&g, 0, array->first * array->item_bytes, first, n, dst);
}
