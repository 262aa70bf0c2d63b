/* tile.c - see tile.h. */
#include "core/values/tile.h"

#include <vcompress/model.h>

#include "core/base/checked.h"

void vc_rows_of(const uint64_t *shape, unsigned n_dims, uint64_t *n_rows, uint64_t *row_len)
{
    *n_rows = n_dims < 2 ? 1 : shape[0];
    *row_len = n_dims == 1 ? shape[0] : 1;
    for (unsigned i = 1; i < n_dims; i++) {
        *row_len *= shape[i]; /* the product of all dimensions was checked when the model was opened */
    }
}

void vc_tile_rows_of(const struct vc_tensor *tensor, uint64_t *n_rows, uint64_t *row_len)
{
    vc_rows_of(tensor->shape, tensor->n_dims, n_rows, row_len);
    if (*row_len % vc_dtype_facts(tensor->dtype)->block_elems != 0) {
        *row_len *= *n_rows;
        *n_rows = 1;
    }
}

static uint64_t rows_per_tile(uint64_t row_len)
{
    return vc_max_u64(1, VC_TILE_ELEMS / row_len);
}

uint64_t vc_tile_count(uint64_t n_rows, uint64_t row_len)
{
    if (n_rows == 0 || row_len == 0) {
        return 0;
    }
    if (row_len > VC_TILE_ELEMS) {
        return n_rows * vc_ceil_div_u64(row_len, VC_TILE_ELEMS);
    }
    return vc_ceil_div_u64(n_rows, rows_per_tile(row_len));
}

void vc_tile_get(uint64_t n_rows, uint64_t row_len, uint64_t index, struct vc_tile *tile)
{
    tile->index = index;
    if (row_len > VC_TILE_ELEMS) {
        uint64_t pieces = vc_ceil_div_u64(row_len, VC_TILE_ELEMS);

        tile->row0 = index / pieces;
        tile->col0 = index % pieces * VC_TILE_ELEMS;
        tile->n_rows = 1;
        tile->row_len = (size_t)vc_min_u64(VC_TILE_ELEMS, row_len - tile->col0);
        tile->whole_rows = false;
    } else {
        uint64_t rows = rows_per_tile(row_len);

        tile->row0 = index * rows;
        tile->col0 = 0;
        tile->n_rows = (size_t)vc_min_u64(rows, n_rows - tile->row0);
        tile->row_len = (size_t)row_len;
        tile->whole_rows = true;
    }
    tile->first = tile->row0 * row_len + tile->col0;
    tile->n_elems = tile->n_rows * tile->row_len;
}

int64_t vc_integer_at(enum vc_dtype dtype, const void *data, size_t i)
{
    const unsigned char *p = data;

    switch (dtype) {
    case VC_DTYPE_U4:
        return p[i / 2] >> (i % 2 * 4) & 15;
    case VC_DTYPE_I4:
        return ((p[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;
    case VC_DTYPE_BOOL:
        return p[i] != 0;
    case VC_DTYPE_U8:
        return p[i];
    case VC_DTYPE_I8:
        return (int8_t)p[i];
    case VC_DTYPE_U16:
        return vc_le16(p + 2 * i);
    case VC_DTYPE_I16:
        return (int16_t)vc_le16(p + 2 * i);
    case VC_DTYPE_U32:
        return vc_le32(p + 4 * i);
    case VC_DTYPE_I32:
        return (int32_t)vc_le32(p + 4 * i);
    default:
        return (int64_t)vc_le64(p + 8 * i);
    }
}
