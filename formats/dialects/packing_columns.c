/* packing_columns.c - vc_packing_columns: the columns of the job are the rows of the file, in units of one byte or
 * more.
 *
 *     job  [in, out]   a b c        file  [out, in]   a d
 *                      d e f                          b e
 *                                                     c f
 *
 * With units of one byte, a tile of 85 whole rows is a run of 85 bytes in each row of the file, and a piece of one row
 * is a byte in each. Units of 4 bytes are the words of GPTQ. */
#include "formats/dialects/packing.h"

#include "core/base/checked.h"

static unsigned unit_of(const struct vc_packed *p)
{
    return p->unit != 0 ? p->unit : 1;
}

static unsigned char mask_at(const struct vc_packed *p, const unsigned char *masks, uint64_t column)
{
    return p->turned != 0 ? masks[column % p->turned] : 0;
}

static bool columns_size(const struct vc_packed *p, uint64_t *n_bytes)
{
    return vc_mul_u64(p->n_rows, p->row, n_bytes);
}

/* Tiles are whole units. */
static size_t columns_bound(const struct vc_packed *p, size_t n)
{
    return n;
}

/* A range that is no tile has whole units and whole runs, too, with bytes before and behind it. */
static struct vc_packed_place columns_place(const struct vc_packed *p, uint64_t at, size_t n)
{
    unsigned unit = unit_of(p);
    uint64_t row = at / p->row;
    uint64_t last = (at + n - 1) / p->row;
    uint64_t first_unit = at % p->row / unit;
    struct vc_packed_place place = {.stride = p->n_rows * unit};

    if (row == last) {
        place.offset = (first_unit * p->n_rows + row) * unit;
        place.run_bytes = unit;
        place.n_runs = (size_t)((at + n - 1) % p->row / unit - first_unit + 1);
    } else {
        place.offset = row * unit;
        place.run_bytes = (size_t)(last - row + 1) * unit;
        place.n_runs = (size_t)(p->row / unit);
    }
    return place;
}

static void columns_pack(const struct vc_packed *p, uint64_t at, const void *codes, size_t n, void *packed)
{
    const unsigned char *from = codes;
    unsigned char *to = packed;
    unsigned unit = unit_of(p);
    size_t n_runs = columns_place(p, at, n).n_runs;
    size_t n_rows = n / (n_runs * unit);
    unsigned char masks[8];
    size_t column, row, i;

    vc_packing_masks(p->turned, masks);
    for (column = 0; column < n_runs; column++) {
        for (row = 0; row < n_rows; row++) {
            for (i = 0; i < unit; i++) {
                *to++ = from[(row * n_runs + column) * unit + i] ^ mask_at(p, masks, column * unit + i);
            }
        }
    }
}

/* Any range, into the whole array. */
static void columns_gather(const struct vc_packed *p, uint64_t at, const void *codes, size_t n, void *packed)
{
    const unsigned char *from = codes;
    unsigned char *to = packed;
    unsigned unit = unit_of(p);
    uint64_t row = at / p->row;
    uint64_t column = at % p->row;
    unsigned char masks[8];

    vc_packing_masks(p->turned, masks);
    for (size_t i = 0; i < n; i++) {
        to[(column / unit * p->n_rows + row) * unit + column % unit] = from[i] ^ mask_at(p, masks, column);
        column++;
        if (column == p->row) {
            column = 0;
            row++;
        }
    }
}

static void columns_unpack(const struct vc_packed *p, uint64_t at, size_t n, const void *packed, void *codes)
{
    const struct vc_packed_place place = columns_place(p, at, n);
    const unsigned char *from = packed;
    unsigned char *to = codes;
    unsigned unit = unit_of(p);
    bool one_row = at / p->row == (at + n - 1) / p->row;
    uint64_t column = at % p->row;
    uint64_t first = one_row ? column / unit : 0; /* unit, of the first run */
    unsigned char masks[8];
    size_t row = 0;

    vc_packing_masks(p->turned, masks);
    for (size_t i = 0; i < n; i++) {
        to[i] = from[(size_t)(column / unit - first) * place.run_bytes + row * unit + column % unit] ^
                mask_at(p, masks, column);
        column++;
        if (column == p->row) {
            column = 0;
            row++;
        }
    }
}

const struct vc_packing vc_packing_columns = {.size = columns_size,
                                              .bound = columns_bound,
                                              .place = columns_place,
                                              .pack = columns_pack,
                                              .unpack = columns_unpack,
                                              .in_place = true};

const struct vc_packing vc_packing_columns_whole = {
    .size = columns_size, .place = columns_place, .pack = columns_gather, .unpack = columns_unpack, .gathers = true};
