/* packing_rows.c - vc_packing_rows: bytes side by side along the rows, each row in whole words.
 *
 *     a job's row     byte 0       byte 1  ...                     int3, 8 codes in 3 bytes from the lowest bit on
 *     in the file     the same, the top bit of each code turned    up to a multiple of 4 bytes: zeros */
#include "formats/dialects/packing.h"

#include <string.h>

#include "core/base/checked.h"

bool vc_packing_words_fit(uint64_t row, unsigned bits, uint64_t n_words)
{
    uint64_t dense = row / 32 * bits + (row % 32 * bits + 31) / 32;

    return n_words == dense || n_words == vc_ceil_div_u64(row, 32 / bits);
}

/* Bytes of a packed row. */
static uint64_t row_bytes(const struct vc_packed *p)
{
    return p->row / 4 * 4 + (p->row % 4 != 0 ? 4 : 0);
}

/* The bytes of a row before `column`; at the end of the row those of the padding, too. */
static uint64_t column_end(const struct vc_packed *p, uint64_t column)
{
    return column == p->row ? row_bytes(p) : column;
}

static bool rows_size(const struct vc_packed *p, uint64_t *n_bytes)
{
    return vc_mul_u64(p->n_rows, row_bytes(p), n_bytes);
}

static size_t rows_bound(const struct vc_packed *p, size_t n)
{
    return p->row % 4 != 0 ? n + 3 * (n / (size_t)p->row + 1) : n;
}

static struct vc_packed_place rows_place(const struct vc_packed *p, uint64_t at, size_t n)
{
    uint64_t last = at + n - 1;
    uint64_t begin = at / p->row * row_bytes(p) + at % p->row;
    uint64_t end = last / p->row * row_bytes(p) + column_end(p, last % p->row + 1);

    return (struct vc_packed_place){.offset = begin, .run_bytes = (size_t)(end - begin), .n_runs = 1};
}

void vc_packing_masks(unsigned turned, unsigned char masks[8])
{
    memset(masks, 0, 8);
    for (unsigned k = turned; k != 0 && k <= 8 * turned; k += turned) {
        masks[(k - 1) / 8] = (unsigned char)(masks[(k - 1) / 8] | 1u << (k - 1) % 8);
    }
}

/* Turns over the top bit of each code in n bytes, of which the first is number `at` of the array: codes begin anew
 * after p->turned bytes. */
static void turn(const struct vc_packed *p, uint64_t at, const unsigned char *from, size_t n, unsigned char *to)
{
    unsigned char masks[8];
    unsigned k;
    size_t i;

    vc_packing_masks(p->turned, masks);
    for (i = 0; p->high_first && i < n; i++) {
        to[i] = (unsigned char)(from[i] << 4 | from[i] >> 4);
    }
    if (p->high_first) {
        return;
    }
    if (8 % vc_max_u64(p->turned, 1) == 0) { /* all bytes are alike */
        for (i = 0; i < n; i++) {
            to[i] = from[i] ^ masks[0];
        }
        return;
    }
    for (i = 0, k = (unsigned)(at % p->turned); i < n; i++) {
        to[i] = from[i] ^ masks[k];
        k = k + 1 == p->turned ? 0 : k + 1;
    }
}

static void rows_pack(const struct vc_packed *p, uint64_t at, const void *codes, size_t n, void *packed)
{
    const unsigned char *from = codes;
    bool padded = p->row % 4 != 0;
    unsigned char *to = packed;

    while (n != 0) {
        uint64_t column = at % p->row;
        size_t run = (size_t)vc_min_u64(padded ? p->row - column : n, n);
        size_t n_used = padded ? (size_t)(column_end(p, column + run) - column) : run;

        turn(p, at, from, run, to);
        memset(to + run, 0, n_used - run);
        from += run;
        to += n_used;
        at += run;
        n -= run;
    }
}

static void rows_unpack(const struct vc_packed *p, uint64_t at, size_t n, const void *packed, void *codes)
{
    bool padded = p->row % 4 != 0;
    const unsigned char *from = packed;
    unsigned char *to = codes;

    while (n != 0) {
        uint64_t column = at % p->row;
        size_t run = (size_t)vc_min_u64(padded ? p->row - column : n, n);

        turn(p, at, from, run, to);
        from += padded ? column_end(p, column + run) - column : run;
        to += run;
        at += run;
        n -= run;
    }
}

const struct vc_packing vc_packing_rows = {.size = rows_size,
                                           .bound = rows_bound,
                                           .place = rows_place,
                                           .pack = rows_pack,
                                           .unpack = rows_unpack,
                                           .in_place = true};
