/* packing_blocked.c - vc_packing_blocked: bytes of a matrix in blocks of 128 rows and 4 columns, as the matrix units of
 * NVIDIA's GPUs read the scales of blocks (cuBLAS, "block scaling factors layout"; comfy-kitchen's to_blocked).
 *
 *     job [rows, columns]           file: block after block along the rows, 512 bytes each; rows and columns are
 *                                   filled up with zeros to multiples of 128 and 4
 *
 *     byte (r, c) of a block lies at   r % 32 * 16 + r / 32 * 4 + c
 *
 *     row of a block      0     32    64    96    1     33   ...
 *     bytes of the file   0-3   4-7   8-11  12-15 16-19 20-23 */
#include "formats/dialects/packing.h"

#include "core/base/checked.h"

#define ROWS    128
#define COLUMNS 4
#define BLOCK   (ROWS * COLUMNS)

/* Blocks along a row. */
static uint64_t n_across(const struct vc_packed *p)
{
    return vc_ceil_div_u64(p->row, COLUMNS);
}

static uint64_t byte_of(const struct vc_packed *p, uint64_t at)
{
    uint64_t row = at / p->row;
    uint64_t column = at % p->row;

    return (row / ROWS * n_across(p) + column / COLUMNS) * BLOCK + row % 32 * 16 + row % ROWS / 32 * COLUMNS +
           column % COLUMNS;
}

static bool blocked_size(const struct vc_packed *p, uint64_t *n_bytes)
{
    return vc_mul_u64(vc_ceil_div_u64(p->n_rows, ROWS), n_across(p), n_bytes) && vc_mul_u64(*n_bytes, BLOCK, n_bytes);
}

/* Of one row the four bytes of each block; of several rows whole blocks. */
static struct vc_packed_place blocked_place(const struct vc_packed *p, uint64_t at, size_t n)
{
    uint64_t last = at + n - 1;

    if (at / p->row == last / p->row) {
        return (struct vc_packed_place){.offset = byte_of(p, at - at % p->row % COLUMNS),
                                        .stride = BLOCK,
                                        .run_bytes = COLUMNS,
                                        .n_runs = (size_t)(last % p->row / COLUMNS - at % p->row / COLUMNS + 1)};
    }
    return (struct vc_packed_place){.offset = at / p->row / ROWS * n_across(p) * BLOCK,
                                    .stride = BLOCK,
                                    .run_bytes = BLOCK,
                                    .n_runs = (size_t)((last / p->row / ROWS - at / p->row / ROWS + 1) * n_across(p))};
}

/* The runs lie one behind the other: the byte at `offset` of the file is that at its run's place and its place there. */
static void blocked_unpack(const struct vc_packed *p, uint64_t at, size_t n, const void *packed, void *codes)
{
    const struct vc_packed_place place = blocked_place(p, at, n);
    const unsigned char *from = packed;
    unsigned char *to = codes;

    for (size_t i = 0; i < n; i++) {
        uint64_t offset = byte_of(p, at + i) - place.offset;

        to[i] = from[offset / BLOCK * place.run_bytes + offset % BLOCK];
    }
}

static void blocked_pack(const struct vc_packed *p, uint64_t at, const void *codes, size_t n, void *packed)
{
    const unsigned char *from = codes;
    unsigned char *to = packed;

    for (size_t i = 0; i < n; i++) {
        to[byte_of(p, at + i)] = from[i];
    }
}

const struct vc_packing vc_packing_blocked = {
    .size = blocked_size, .place = blocked_place, .pack = blocked_pack, .unpack = blocked_unpack, .gathers = true};
