/* packing_rows.c - vc_packing_rows: codes side by side along the rows, each row in whole words.
 *
 *     bit of a row   0..b-1   b..2b-1   2b..3b-1   ...   up to a multiple of 32
 *     holds          code 0   code 1    code 2           zeros
 *
 * 8 bits are most of what there is, and have loops of their own: a byte is a code with its top bit turned over (offset
 * 0x80), or a code as it is, or two codes of 4 bits with their top bits turned over (0x88). */
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
    return 4 * (p->row / 32 * p->bits + (p->row % 32 * p->bits + 31) / 32);
}

/* The byte that has the first bit of that column, from the start of its row. */
static uint64_t column_byte(const struct vc_packed *p, uint64_t column)
{
    return column / 8 * p->bits + column % 8 * p->bits / 8;
}

/* The byte behind the one that has the last bit of the code before `column`; at the end of a row that of the padding.
 */
static uint64_t column_end(const struct vc_packed *p, uint64_t column)
{
    return column == p->row ? row_bytes(p) : column / 8 * p->bits + (column % 8 * p->bits + 7) / 8;
}

static bool rows_size(const struct vc_packed *p, uint64_t *n_bytes)
{
    return vc_mul_u64(p->n_rows, row_bytes(p), n_bytes);
}

static size_t rows_bound(const struct vc_packed *p, size_t n)
{
    bool padded = p->row % 32 * p->bits % 32 != 0;

    if (p->bits == 8) {
        return padded ? n + 3 * (n / (size_t)p->row + 1) : n;
    }
    return n / 8 * p->bits + p->bits + (padded ? 4 * (n / (size_t)p->row + 1) : 0);
}

static struct vc_packed_place rows_place(const struct vc_packed *p, uint64_t at, size_t n)
{
    uint64_t last = at + n - 1;
    uint64_t begin = at / p->row * row_bytes(p) + column_byte(p, at % p->row);
    uint64_t end = last / p->row * row_bytes(p) + column_end(p, last % p->row + 1);

    return (struct vc_packed_place){.offset = begin, .run_bytes = (size_t)(end - begin), .n_runs = 1};
}

/* ---- packing ---- */

static void pack_bytes(const unsigned char *from, size_t n, unsigned offset, unsigned char *to)
{
    size_t i;

    for (i = 0; i < n; i++) {
        to[i] = (unsigned char)(from[i] ^ offset);
    }
}

/* n codes into the bytes from a border between bytes on; the rest of the last byte is zero. */
static void pack_bits(const struct vc_packed *p, const unsigned char *from, size_t n, unsigned char *to)
{
    unsigned mask = (1u << p->bits) - 1;
    unsigned waiting = 0; /* bits that fill no byte yet */
    unsigned n_waiting = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        waiting |= ((from[i] + p->offset) & mask) << n_waiting;
        for (n_waiting += p->bits; n_waiting >= 8; n_waiting -= 8) {
            *to++ = (unsigned char)waiting;
            waiting >>= 8;
        }
    }
    if (n_waiting != 0) {
        *to = (unsigned char)waiting;
    }
}

static void rows_pack(const struct vc_packed *p, uint64_t at, const void *codes, size_t n, void *packed)
{
    const unsigned char *from = codes;
    bool padded = p->bits != 8 || p->row % 4 != 0;
    unsigned char *to = packed;

    while (n != 0) {
        uint64_t column = at % p->row;
        size_t run = (size_t)vc_min_u64(padded ? p->row - column : n, n);
        size_t n_used = (size_t)(column_end(p, column + run) - column_byte(p, column));

        if (p->bits == 8 && !padded) {
            n_used = run;
            pack_bytes(from, run, p->offset, to);
        } else if (p->bits == 8) {
            pack_bytes(from, run, p->offset, to);
            memset(to + run, 0, n_used - run);
        } else {
            memset(to, 0, n_used);
            pack_bits(p, from, run, to);
        }
        from += run;
        to += n_used;
        at += run;
        n -= run;
    }
}

/* ---- unpacking ---- */

static void unpack_bytes(const unsigned char *from, size_t n, unsigned offset, unsigned char *to)
{
    size_t i;

    for (i = 0; i < n; i++) {
        to[i] = (unsigned char)(from[i] ^ offset);
    }
}

/* Codes from bit `first` of the first byte on. */
static void unpack_bits(const struct vc_packed *p, const unsigned char *from, unsigned first, size_t n,
                        unsigned char *to)
{
    unsigned mask = (1u << p->bits) - 1;
    unsigned waiting = (unsigned)*from++ >> first;
    unsigned n_waiting = 8 - first;
    size_t i;

    for (i = 0; i < n; i++) {
        if (n_waiting < p->bits) {
            waiting |= (unsigned)*from++ << n_waiting;
            n_waiting += 8;
        }
        to[i] = (unsigned char)((waiting & mask) - p->offset);
        waiting >>= p->bits;
        n_waiting -= p->bits;
    }
}

static void rows_unpack(const struct vc_packed *p, uint64_t at, size_t n, const void *packed, void *codes)
{
    bool padded = p->bits != 8 || p->row % 4 != 0;
    const unsigned char *from = packed;
    unsigned char *to = codes;

    while (n != 0) {
        uint64_t column = at % p->row;
        size_t run = (size_t)vc_min_u64(padded ? p->row - column : n, n);

        if (p->bits == 8) {
            unpack_bytes(from, run, p->offset, to);
        } else {
            unpack_bits(p, from, (unsigned)(column % 8 * p->bits % 8), run, to);
        }
        from += padded ? column_end(p, column + run) - column_byte(p, column) : run;
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
