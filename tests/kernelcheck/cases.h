/* cases.h - how each kernel is called: its arguments, which inputs its contract covers, which shapes it takes. A new
 * kernel needs a call function and a line in cases.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "inputs.h"
#include "kernels/kernels.h"

#define MAX_ARGS 6

enum arg_kind {
    ARG_NONE = 0,
    ARG_F32,    /* input, by pattern */
    ARG_F64,    /* input, by pattern */
    ARG_HALF,   /* input, every 16-bit value */
    ARG_CODES,  /* input, every 8-bit value */
    ARG_BYTES,  /* input, any bits */
    ARG_SCALES, /* input, positive */
    ARG_ZEROS,  /* input, NULL in every other trial */
    ARG_MAXIMA, /* accumulated: input and output */
    ARG_BINS,   /* the same, counters */
    ARG_OUT,
    ARG_SUMS /* output of doubles, aligned */
};

/* How many elements an argument has. */
enum arg_count {
    COUNT_ELEMS,
    COUNT_GROUPS,
    COUNT_CHANNELS,
    COUNT_2_CHUNKS,
    COUNT_4_CHUNKS,
    COUNT_BLOCKS,
    COUNT_BINS,    /* of trial_range */
    COUNT_KEYS,    /* of 16-bit floats: 32,768 */
    COUNT_MASK,    /* bytes: a bit per element */
    COUNT_MASK_AT, /* ... from bit trial_first_bit on */
    COUNT_SQUARES, /* blocks of trial_block_rows x trial_block_cols */
    COUNT_CHUNKS,
    COUNT_COLUMNS /* none without rows */
};

/* One array of a call, in the order of the kernel's parameters. */
struct arg {
    enum arg_kind kind;
    size_t elem_bytes;
    enum arg_count count;
};

/* Which of a shape's numbers the kernel takes: rows; rows and groups; elements along an axis; rows along an axis;
 * elements; rows of whole blocks. */
enum shape_kind { SHAPE_ROWS, SHAPE_GROUPS, SHAPE_AXIS, SHAPE_AXIS_ROWS, SHAPE_FLAT, SHAPE_BLOCKS };

/* Which member of struct results the kernel fills. */
enum result_kind { RESULT_NONE, RESULT_TILE, RESULT_DIFF, RESULT_VALUES };

/* The numbers that a kernel returns beside arrays. */
struct results {
    struct vc_tile_stats tile;
    struct vc_diff_sums diff;
    struct vc_value_counts values;
};

/* One call: shape, axis, values, and which optional arguments are given. */
struct trial {
    size_t n_rows, row_len, group; /* SHAPE_BLOCKS: group is the elements of a block */
    struct vc_axis_map map;
    enum pattern pattern;
    bool with_zeros, with_stats;
};

/* A kernel as the checker sees it. call passes the arguments p, and where to put numbers, to that kernel of a table. */
struct kernel_case {
    const char *name;
    size_t offset; /* of the pointer in struct vc_kernels */
    enum shape_kind shape;
    enum result_kind result;
    bool finite_only;    /* the contract wants finite x */
    unsigned bits_first; /* where a group is not finite only that many outputs are defined, the bits before all */
    bool choices;        /* with_zeros and with_stats choose something else: a range, a threshold, a group */
    bool slow;           /* a search for each block: fewer shapes and placements */
    size_t block;        /* SHAPE_BLOCKS */
    struct arg args[MAX_ARGS];
    int (*call)(const struct vc_kernels *k, const struct trial *t, void *const *p, struct results *r);
};

extern const struct kernel_case kernel_cases[];
extern const size_t n_kernel_cases;

/* What pruning takes beside arrays, made from the numbers of a trial: all keys in wide bins or a few in narrow ones,
 * for keys of that many bits; which bit of a mask is the first; blocks. */
struct vc_bin_range trial_range(const struct trial *t, unsigned key_bits);
uint64_t trial_first_bit(const struct trial *t);
size_t trial_block_rows(const struct trial *t);
size_t trial_block_cols(const struct trial *t);

/* Sizes of a trial; arg_bytes: of that array in it. */
size_t trial_elems(const struct trial *t);
size_t trial_groups(const struct trial *t);
size_t arg_bytes(const struct arg *arg, const struct trial *t);
