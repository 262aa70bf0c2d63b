/* packing_across.c - vc_packing_across: a word of the file has codes of several rows of the job.
 *
 *     job [out, in], codes (n, k)          file of AWQ, a word a column: [in, out / 8]
 *     (0,0) (0,1) (0,2) ..                 (0,0) (2,0) (4,0) (6,0) (1,0) (3,0) (5,0) (7,0)    from the lowest bits on
 *     (1,0) (1,1) (1,2) ..                 (0,1) (2,1) ..
 *
 * enum vc_across has the others. A range of one row is a byte of each file row; one of several rows is a run of words
 * of each. */
#include "formats/dialects/packing.h"

#include "core/base/checked.h"

#define WORD_BYTES 4

/* The number of the code of row n among those of a row of AWQ. */
static uint64_t awq_at(uint64_t n)
{
    static const unsigned char places[8] = {0, 4, 1, 5, 2, 6, 3, 7};

    return n / 8 * 8 + places[n % 8];
}

static unsigned per_byte(const struct vc_packed *p)
{
    return p->job_bits != 0 ? 8 / p->job_bits : 1;
}

/* What a range spans: rows, and the columns where it is of one row. */
struct span {
    uint64_t row, last;
    uint64_t first, n_columns; /* in codes */
};

static struct span span_of(const struct vc_packed *p, uint64_t at, size_t n)
{
    struct span s = {.row = at / p->row, .last = (at + n - 1) / p->row, .n_columns = p->row * per_byte(p)};

    if (s.row == s.last) {
        s.first = at % p->row * per_byte(p);
        s.n_columns = (uint64_t)n * per_byte(p);
    }
    return s;
}

/* Columns of words: those of the rows lie one behind the other. */
static struct vc_packed_place place_words(const struct vc_packed *p, const struct span *s)
{
    uint64_t first = s->row * p->bits / 32;
    uint64_t n = ((s->last + 1) * p->bits - 1) / 32 - first;

    return (struct vc_packed_place){.offset = (first * p->row + s->first) * WORD_BYTES,
                                    .run_bytes = (size_t)((n * p->row + s->n_columns) * WORD_BYTES),
                                    .n_runs = 1};
}

/* The code at a bit of a column, whose words lie `row` words apart, the first one at `packed`. */
static unsigned word_code(const struct vc_packed *p, const unsigned char *packed, uint64_t bit)
{
    const unsigned char *at = packed + bit / 32 * p->row * WORD_BYTES;
    unsigned shift = (unsigned)(bit % 32);
    uint64_t value = vc_le32(at);

    if (shift + p->bits > 32) {
        value |= (uint64_t)vc_le32(at + p->row * WORD_BYTES) << 32;
    }
    return (unsigned)(value >> shift) & ((1u << p->bits) - 1);
}

static struct vc_packed_place across_place(const struct vc_packed *p, uint64_t at, size_t n)
{
    const struct span s = span_of(p, at, n);
    uint64_t first = s.row * p->bits / 32;
    struct vc_packed_place place = {.stride = vc_ceil_div_u64(p->n_rows * p->bits, 32) * WORD_BYTES,
                                    .n_runs = (size_t)s.n_columns};

    if (p->across == VC_ACROSS_WORDS) {
        return place_words(p, &s);
    }
    place.offset = s.first * place.stride + first * WORD_BYTES;
    place.run_bytes = (size_t)(((s.last + 1) * p->bits - 1) / 32 - first + 1) * WORD_BYTES;
    return place;
}

/* The code of row n and column k, in the runs of the span. */
static unsigned code_at(const struct vc_packed *p, const struct span *s, const struct vc_packed_place *place,
                        const unsigned char *packed, uint64_t n, uint64_t k)
{
    uint64_t bit = (p->across == VC_ACROSS_AWQ ? awq_at(n) : n) * p->bits - s->row * p->bits / 32 * 32;
    const unsigned char *at = packed + (k - s->first) * place->run_bytes + bit / 8;
    unsigned value;

    if (p->across == VC_ACROSS_WORDS) {
        return word_code(p, packed + (k - s->first) * WORD_BYTES, n * p->bits - s->row * p->bits / 32 * 32);
    }
    value = at[0];
    if (bit % 8 + p->bits > 8) {
        value |= (unsigned)at[1] << 8;
    }
    return value >> bit % 8 & ((1u << p->bits) - 1);
}

static void across_unpack(const struct vc_packed *p, uint64_t at, size_t n, const void *packed, void *codes)
{
    const struct span s = span_of(p, at, n);
    const struct vc_packed_place place = across_place(p, at, n);
    unsigned char *to = codes;
    uint64_t row = at / p->row;
    uint64_t column = at % p->row;
    unsigned char masks[8];

    vc_packing_masks(p->turned, masks);
    for (size_t i = 0; i < n; i++) {
        if (p->job_bits != 0) {
            unsigned low = code_at(p, &s, &place, packed, row, 2 * column);

            to[i] = (unsigned char)((low | code_at(p, &s, &place, packed, row, 2 * column + 1) << 4) ^ masks[0]);
        } else {
            to[i] = (unsigned char)((int)code_at(p, &s, &place, packed, row, column) + p->add);
        }
        column++;
        if (column == p->row) {
            column = 0;
            row++;
        }
    }
}

/* Puts the code of row n and column k into the whole array, which began as zeros. */
static void put_code(const struct vc_packed *p, uint64_t n, uint64_t k, unsigned code, unsigned char *packed)
{
    uint64_t bit = (p->across == VC_ACROSS_AWQ ? awq_at(n) : n) * p->bits;
    bool words = p->across == VC_ACROSS_WORDS;
    uint64_t next = words ? p->row : 1; /* words up to the next one of the column */
    uint64_t first = words ? k : k * vc_ceil_div_u64(p->n_rows * p->bits, 32);
    unsigned char *word = packed + (first + bit / 32 * next) * WORD_BYTES;
    unsigned shift = (unsigned)(bit % 32);

    vc_put_le32(word, vc_le32(word) | code << shift);
    if (shift + p->bits > 32) {
        word += next * WORD_BYTES;
        vc_put_le32(word, vc_le32(word) | code >> (32 - shift));
    }
}

static void across_pack(const struct vc_packed *p, uint64_t at, const void *codes, size_t n, void *packed)
{
    const unsigned char *from = codes;
    unsigned mask = (1u << p->bits) - 1;
    uint64_t row = at / p->row;
    uint64_t column = at % p->row;
    unsigned char masks[8];

    vc_packing_masks(p->turned, masks);
    for (size_t i = 0; i < n; i++) {
        if (p->job_bits != 0) {
            unsigned two = from[i] ^ masks[0];

            put_code(p, row, 2 * column, two & mask, packed);
            put_code(p, row, 2 * column + 1, two >> 4, packed);
        } else {
            put_code(p, row, column, (unsigned)((int)(int8_t)from[i] - p->add) & mask, packed);
        }
        column++;
        if (column == p->row) {
            column = 0;
            row++;
        }
    }
}

/* The array has columns of whole words where rows of it are columns of the job. */
static bool across_size(const struct vc_packed *p, uint64_t *n_bytes)
{
    uint64_t bits, columns;

    return vc_mul_u64(p->n_rows, p->bits, &bits) && vc_mul_u64(p->row, per_byte(p), &columns) &&
           vc_mul_u64(vc_ceil_div_u64(bits, 32), columns, &bits) && vc_mul_u64(bits, WORD_BYTES, n_bytes);
}

const struct vc_packing vc_packing_across = {
    .size = across_size, .place = across_place, .pack = across_pack, .unpack = across_unpack, .gathers = true};
