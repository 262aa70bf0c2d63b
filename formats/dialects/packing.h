/* packing.h - codes of a weight as a loader packs them, by ranges.
 *
 * In a job a code is one byte, row by row (of fewer bits, codes lie side by side: bytes count as codes of 8 bits here).
 * In a file several codes may share a word, rows may be padded, and rows may have become columns:
 *
 *     job            row of [out, in]     q0 q1 q2 q3 q4                              a byte each
 *     along rows     compressed-tensors   q0+128 q1+128 q2+128 q3+128 | q4+128 0 0 0  32-bit words, 8 bits a code
 *     columns        GPTQ                 word [k, n] has codes 8k..8k+7 of row n     [in/8, out], 4 bits a code
 *     across         AWQ                  word [k, n] has code k of rows 8n..8n+7     [in, out/8], 4 bits a code
 *     layers         HQQ, quanto          byte i has codes i, i + n, ... of all codes, row by row, n being the bytes
 *     padded         AWQ's gemv           q0 q1 q2 0 0 0 0 0 | q3 ..                  rows of more words than they need
 *     blocked        ComfyUI's scales     blocks of 128 rows and 4 columns           as matrix units of GPUs read them
 *
 * A range of codes then lies in one run of bytes, or in several: a tile of 64 whole rows is a strip of 64 columns.
 * Other parts than codes can be packed, too (scales that lie in columns); positions count bytes of the part then. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vc_packing;

/* Where vc_packing_across finds the code of row n and column k of the job, counted in codes. */
enum vc_across {
    VC_ACROSS_ROWS, /* at k * n_rows + n: zero points of GPTQ */
    VC_ACROSS_AWQ,  /* as before, but rows 0 4 1 5 2 6 3 7 of each eight have changed places */
    VC_ACROSS_WORDS /* bits n * bits ... of column k of words, across words: zero points of compressed-tensors */
};

/* A packed weight. */
struct vc_packed {
    const struct vc_packing *packing; /* NULL: codes lie as they are in the job */
    unsigned bits;                    /* of a code, 1 to 8 */
    /* Bits of the job's codes whose top bits are turned over, since the stored ones have no sign; codes lie side by
     * side in the bytes, whole ones in each row. 0: none. */
    unsigned turned;
    uint64_t n_rows, row; /* shape of the weight, in codes (of vc_packing_rows in bytes); row > 0 */
    unsigned unit; /* of vc_packing_columns: bytes of a row that stay side by side; 0: 1. Of _layers: of a word */
    enum vc_across across;
    /* Of a code in the job, where fewer than 8; bytes of the job count as codes here. Of _across: 4. */
    unsigned job_bits;
    int add;          /* ... else a byte of the job is the code plus this number */
    uint64_t n_words; /* of vc_packing_layers: all of them; of _padded: of 32 bits, in a row */
    bool low_first;   /* of vc_packing_layers: the first layer has the lowest bits of the words */
    bool high_first;  /* of vc_packing_rows: of two codes in a byte the first one has the high bits in the file */
};

/* Where a range of codes lies in the packed array: n_runs runs of run_bytes, each stride bytes behind the one before.
 */
struct vc_packed_place {
    uint64_t offset; /* of the first run */
    uint64_t stride;
    size_t run_bytes, n_runs;
};

/* The operations of one kind of packing. Ranges are `n` codes from number `at` on. What a job writes comes in tiles: a
 * run of whole rows, or a piece of one row that begins at a multiple of VC_TILE_ELEMS. */
struct vc_packing {
    /* Bytes of the whole array; false: more than 2^64. */
    bool (*size)(const struct vc_packed *p, uint64_t *n_bytes);

    /* Bytes of any n codes, at most. Of two packed weights, the one that needs more for many codes needs no less for
     * few, so that the larger one can be asked for both. */
    size_t (*bound)(const struct vc_packed *p, size_t n);

    /* The padding of rows that end within the range belongs to it. n > 0. */
    struct vc_packed_place (*place)(const struct vc_packed *p, uint64_t at, size_t n);

    /* Packs a tile: the runs of place(), one behind the other. `gathers`: any range, into the whole array, which begins
     * as zeros. */
    void (*pack)(const struct vc_packed *p, uint64_t at, const void *codes, size_t n, void *packed);

    /* Takes codes out of the runs of place(), for any range. */
    void (*unpack)(const struct vc_packed *p, uint64_t at, size_t n, const void *packed, void *codes);

    bool gathers;  /* words have codes of several tiles: no tile can be stored by itself, and `bound` is NULL */
    bool in_place; /* `packed` may be `codes` where place() is one run that is no longer than n bytes, of 8 bits a code
                    */
};

/* The bytes of the job along the rows, each row filled up with zeros to whole little-endian words of 32 bits. */
extern const struct vc_packing vc_packing_rows;

/* Codes of 8 bits, in units of p->unit bytes that stay as they are; rows and columns of these change places. */
extern const struct vc_packing vc_packing_columns;

/* The same, of any ranges, as it is written where tiles would make runs of a few bytes. */
extern const struct vc_packing vc_packing_columns_whole;

/* Codes of 1 to 8 bits in words whose codes belong to several rows of the job, as p->across says. */
extern const struct vc_packing vc_packing_across;

/* Words of 1 or 4 bytes with 32 / bits or 8 / bits codes each, layer on layer: those of the first layer are the first
 * n_words codes of the job, and so on; the last layer may be short. Read only. */
extern const struct vc_packing vc_packing_layers;

/* Rows of codes of 4 or 8 bits, each filled up to n_words words; a byte of the job is a code plus p->add. Read only. */
extern const struct vc_packing vc_packing_padded;

/* Bytes in blocks of 128 rows and 4 columns, filled up with zeros (packing_blocked.c has the picture). */
extern const struct vc_packing vc_packing_blocked;

/* What turns over the top bits of codes of `turned` bits (0: none) in the bytes of a row: byte i is that with masks[i %
 * turned]. */
void vc_packing_masks(unsigned turned, unsigned char masks[8]);

/* Whether rows of that length make so many words of packed codes: side by side, or with whole codes in each word, as
 * older tools packed 3, 5, 6 and 7 bits. bits: 1 to 8. */
bool vc_packing_words_fit(uint64_t row, unsigned bits, uint64_t n_words);
