/* check.h - compares the kernels of one table with those of another, bit for bit, on inputs chosen to break them.
 *
 * For CPU levels, and for the CUDA plug-in or its emulation: whoever can fill a struct vc_kernels can be checked.
 * Each kernel is called with outputs poisoned and fenced (fence.h), arrays that end at an unmapped page or start one
 * byte off, inputs of 14 patterns (inputs.h) that must come back unchanged, and some 50 shapes. What is undefined by
 * contract is not compared (cases.h). Results are the same for the same seed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kernelcheck_options {
    uint64_t seed;                  /* of the random inputs */
    const char *function;           /* only this kernel; NULL: all */
    const struct vc_kernels *below; /* kernels that this table has too are skipped as inherited; may be NULL */
    size_t max_elems;               /* leaves out shapes with more elements; 0: none. For slow variants (emulation) */
    bool verbose;                   /* one line per kernel */
    bool by_turns;                  /* a shape takes a third of the patterns, by turns. For builds with sanitizers */
    FILE *out;                      /* where failures are described; NULL: nowhere */
};

struct kernelcheck_totals {
    unsigned passed, failed, inherited; /* kernels */
    uint64_t trials;
};

/* Checks every kernel of variant against reference. Adds to *totals (may be NULL); returns how many kernels failed,
 * or -1 where there is no memory. label names the variant ("avx2", "cuda emulated"). A kernel fails at its first
 * trial that differs, which is described in options->out. A crash inside a kernel counts as its failure; so does a
 * kernel that cases.c does not know. */
int kernelcheck_table(const struct vc_kernels *reference, const struct vc_kernels *variant, const char *label,
                      const struct kernelcheck_options *options, struct kernelcheck_totals *totals);

/* Whether there is a kernel of that name; and all names, one per line, to `out`. */
bool kernelcheck_known(const char *function);
void kernelcheck_list(FILE *out);

/* GB/s of every kernel of the tables, side by side, with memcpy in the same run. */
void kernelcheck_bench(const struct vc_kernels *const *tables, const char *const *labels, size_t n_tables,
                       const char *function, FILE *out);

/* Breaks kernels on purpose (broken.c), checks each, prints which were found out, and returns how many were not (0 is
 * good). */
int kernelcheck_self(const struct vc_kernels *reference, uint64_t seed, FILE *out);

/* Every f32 (2^32) through both casts of every table, against a second, independent formula. Minutes. Returns how many
 * tables differ. */
int kernelcheck_exhaustive(const struct vc_kernels *const *tables, const char *const *labels, size_t n_tables,
                           FILE *out);

#ifdef __cplusplus
}
#endif
