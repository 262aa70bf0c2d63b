/* packing_padded.c - vc_packing_padded: rows with words behind their last code, which say nothing.
 *
 *     job [out, 3]   z0 z1 z2        file of AWQ's gemv, a word a row: z0 | z1<<4 | z2<<8
 *                    z3 z4 z5                                          z3 | z4<<4 | z5<<8 */
#include "formats/dialects/packing.h"

#include "core/base/checked.h"

#define WORD_BYTES 4

static bool padded_size(const struct vc_packed *p, uint64_t *n_bytes)
{
    return vc_mul_u64(p->n_rows, p->n_words, n_bytes) && vc_mul_u64(*n_bytes, WORD_BYTES, n_bytes);
}

/* The byte of the file that has a code of the job. */
static uint64_t byte_of(const struct vc_packed *p, uint64_t at)
{
    return at / p->row * p->n_words * WORD_BYTES + at % p->row * p->bits / 8;
}

static struct vc_packed_place padded_place(const struct vc_packed *p, uint64_t at, size_t n)
{
    uint64_t first = byte_of(p, at);

    return (struct vc_packed_place){
        .offset = first, .run_bytes = (size_t)(byte_of(p, at + n - 1) - first + 1), .n_runs = 1};
}

static void padded_unpack(const struct vc_packed *p, uint64_t at, size_t n, const void *packed, void *codes)
{
    const unsigned char *from = packed;
    unsigned char *to = codes;

    for (size_t i = 0; i < n; i++) {
        unsigned byte = from[byte_of(p, at + i) - byte_of(p, at)];
        unsigned shift = (unsigned)((at + i) % p->row * p->bits % 8);

        to[i] = (unsigned char)((int)(byte >> shift & ((1u << p->bits) - 1)) + p->add);
    }
}

const struct vc_packing vc_packing_padded = {
    .size = padded_size, .place = padded_place, .unpack = padded_unpack, .gathers = true};
