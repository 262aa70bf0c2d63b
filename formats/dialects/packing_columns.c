/* packing_columns.c - vc_packing_columns: the columns of the job are the rows of the file, a byte a code.
 *
 *     job  [in, out]   a b c        file  [out, in]   a d
 *                      d e f                          b e
 *                                                     c f
 *
 * A tile of 85 whole rows is a run of 85 bytes in each row of the file; a piece of one row is a byte in each. */
#include "formats/dialects/packing.h"

#include <string.h>

#include "core/base/checked.h"

static bool columns_size(const struct vc_packed *p, uint64_t *n_bytes)
{
    return vc_mul_u64(p->n_rows, p->row, n_bytes);
}

static size_t columns_bound(const struct vc_packed *p, size_t n)
{
    (void)p;
    return n;
}

/* A range that is no tile has whole runs, too, with bytes before and behind it. */
static struct vc_packed_place columns_place(const struct vc_packed *p, uint64_t at, size_t n)
{
    uint64_t row = at / p->row;
    uint64_t last = (at + n - 1) / p->row;

    if (row == last) {
        return (struct vc_packed_place){
            .offset = at % p->row * p->n_rows + row, .stride = p->n_rows, .run_bytes = 1, .n_runs = n};
    }
    return (struct vc_packed_place){
        .offset = row, .stride = p->n_rows, .run_bytes = (size_t)(last - row + 1), .n_runs = (size_t)p->row};
}

static void columns_pack(const struct vc_packed *p, uint64_t at, const void *codes, size_t n, void *packed)
{
    const unsigned char *from = codes;
    unsigned char *to = packed;
    size_t n_runs = columns_place(p, at, n).n_runs;
    size_t n_rows = n / n_runs;
    size_t column;
    size_t row;

    for (column = 0; column < n_runs; column++) {
        for (row = 0; row < n_rows; row++) {
            *to++ = from[row * n_runs + column];
        }
    }
}

static void columns_unpack(const struct vc_packed *p, uint64_t at, size_t n, const void *packed, void *codes)
{
    const struct vc_packed_place place = columns_place(p, at, n);
    const unsigned char *from = packed;
    unsigned char *to = codes;
    size_t column = place.run_bytes == 1 ? 0 : (size_t)(at % p->row);
    size_t row = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        to[i] = from[column * place.run_bytes + row];
        column++;
        if (column == place.n_runs) {
            column = 0;
            row++;
        }
    }
}

const struct vc_packing vc_packing_columns = {.size = columns_size,
                                              .bound = columns_bound,
                                              .place = columns_place,
                                              .pack = columns_pack,
                                              .unpack = columns_unpack};
