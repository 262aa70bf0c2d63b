/* tile.h - how a tensor is cut into tiles: a pure function of its shape, so that nothing about the output depends on
 * memory limits or threads.
 *
 * A tensor is seen as rows: row = one index of axis 0, everything else flattened (tensors with fewer than two
 * dimensions are one row). A tile is either a run of whole rows with at most VC_TILE_ELEMS elements together, or, where
 * one row is longer than that, a piece of one row that starts at a multiple of VC_TILE_ELEMS.
 *
 * Error sums are taken over chunks: up to VC_CHUNK_ELEMS consecutive elements of one row. Pieces start at multiples of
 * the chunk, so chunks never cross tiles. */
#pragma once

#include <vcompress/dtype.h>

struct vc_tensor;

#define VC_TILE_ELEMS  ((size_t)1 << 18)
#define VC_CHUNK_ELEMS ((size_t)4096)

struct vc_tile {
    uint64_t index;  /* of the tile in its tensor */
    uint64_t first;  /* flat index of its first element */
    uint64_t row0;   /* first row */
    uint64_t col0;   /* first column; not 0 only in pieces of long rows */
    size_t n_rows;   /* 1 for a piece */
    size_t row_len;  /* elements of each row inside the tile */
    size_t n_elems;  /* n_rows * row_len */
    bool whole_rows; /* row_len is the tensor's row length */
};

/* Rows and row length of a tensor; a tensor without elements has 0 tiles. */
void vc_rows_of(const uint64_t *shape, unsigned n_dims, uint64_t *n_rows, uint64_t *row_len);
/* The same as tiles are cut: a tensor whose rows end inside a block (opaque types of less than a byte) is one row. */
void vc_tile_rows_of(const struct vc_tensor *tensor, uint64_t *n_rows, uint64_t *row_len);
uint64_t vc_tile_count(uint64_t n_rows, uint64_t row_len);
void vc_tile_get(uint64_t n_rows, uint64_t row_len, uint64_t index, struct vc_tile *tile);

/* Element i of an integer type. Truth values are 0 and 1; of two numbers of 4 bits the first is in the low bits. */
int64_t vc_integer_at(enum vc_dtype dtype, const void *data, size_t i);

static inline size_t vc_tile_chunks(const struct vc_tile *tile)
{
    return tile->n_rows * (tile->row_len / VC_CHUNK_ELEMS + (tile->row_len % VC_CHUNK_ELEMS != 0));
}

/* What a kernel reports about one tile. chunk_sums holds, per chunk in order, sum x^2 then sum e^2 (numerics 2.5). */
struct vc_tile_stats {
    double *chunk_sums; /* room for 2 * vc_tile_chunks(tile) */
    double max_abs_error;
    uint64_t zeros_before;
    uint64_t zeros_after;
    uint64_t clipped;
};
