/* packing_layers.c - vc_packing_layers: the codes of a weight, row by row, in as many layers as a word has codes.
 *
 *     12 codes of 4 bits    HQQ     bytes q0<<4|q6  q1<<4|q7 .. q5<<4|q11      the first layer in the highest bits
 *                           quanto  bytes q0|q6<<4  q1|q7<<4 .. q5|q11<<4      (low_first) in the lowest bits
 *     3 bits                HQQ     words of 32 bits, ten layers
 *
 * A range that lies in one layer is a run of words. One across the end of a layer needs words of both ends of the array,
 * where it is two runs of one length; a range of a layer and more is the whole array. */
#include "formats/dialects/packing.h"

#include <string.h>

#include "core/base/checked.h"

/* The codes of a range of the job's bytes, and where they lie: words from `first` on, or where there are two runs the
 * first n and the last n words. */
struct span {
    uint64_t code, last; /* the first and the last code */
    uint64_t first, n;
    bool split;
};

static struct span span_of(const struct vc_packed *p, uint64_t at, size_t n)
{
    struct span s = {.code = at * 8 / p->job_bits, .last = ((at + n) * 8 - 1) / p->job_bits};
    uint64_t a = s.code % p->n_words;
    uint64_t b = s.last % p->n_words;

    if (s.last - s.code + 1 >= p->n_words) {
        s.n = p->n_words;
    } else if (a <= b) {
        s.first = a;
        s.n = b - a + 1;
    } else {
        s.n = vc_max_u64(p->n_words - a, b + 1);
        s.split = true;
    }
    return s;
}

static bool layers_size(const struct vc_packed *p, uint64_t *n_bytes)
{
    return vc_mul_u64(p->n_words, p->unit, n_bytes);
}

static struct vc_packed_place layers_place(const struct vc_packed *p, uint64_t at, size_t n)
{
    const struct span s = span_of(p, at, n);

    return (struct vc_packed_place){.offset = s.first * p->unit,
                                    .stride = s.split ? (p->n_words - s.n) * p->unit : 0,
                                    .run_bytes = (size_t)(s.n * p->unit),
                                    .n_runs = s.split ? 2 : 1};
}

/* Code number c, in the runs of the span. */
static unsigned code_at(const struct vc_packed *p, const struct span *s, const unsigned char *packed, uint64_t c)
{
    unsigned n_layers = p->unit * 8 / p->bits;
    unsigned layer = (unsigned)(c / p->n_words);
    uint64_t word = c % p->n_words;
    uint64_t place = word - s->first;

    if (s->split && word >= s->n) {
        place = s->n + word - (p->n_words - s->n);
    }
    const unsigned char *at = packed + place * p->unit;
    layer = p->low_first ? layer : n_layers - 1 - layer;
    return (p->unit == 4 ? vc_le32(at) : at[0]) >> layer * p->bits & ((1u << p->bits) - 1);
}

static void layers_unpack(const struct vc_packed *p, uint64_t at, size_t n, const void *packed, void *codes)
{
    const struct span s = span_of(p, at, n);
    unsigned char *to = codes;

    memset(to, 0, n);
    for (uint64_t c = s.code; c <= s.last; c++) {
        unsigned code = code_at(p, &s, packed, c) ^ 1u << (p->job_bits - 1);
        uint64_t bit = c * p->job_bits;
        size_t byte = bit < at * 8 ? 0 : (size_t)(bit / 8 - at);

        if (bit < at * 8) { /* the first code began in the byte before */
            to[0] = (unsigned char)(code >> (at * 8 - bit));
            continue;
        }
        to[byte] = (unsigned char)(to[byte] | code << bit % 8);
        if (bit % 8 + p->job_bits > 8 && byte + 1 < n) {
            to[byte + 1] = (unsigned char)(code >> (8 - bit % 8));
        }
    }
}

const struct vc_packing vc_packing_layers = {
    .size = layers_size, .place = layers_place, .unpack = layers_unpack, .gathers = true};
