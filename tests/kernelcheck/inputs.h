/* inputs.h - values for the kernels: ordinary ones, and the ones that break kernels. Everything is a function of
 * *state, a seed that is moved on. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum pattern {
    PATTERN_NORMAL,
    PATTERN_ZERO_RUNS, /* runs of +0 and -0 between normal values */
    PATTERN_EXTREMES,  /* +-FLT_MAX and neighbours */
    PATTERN_SUBNORMAL,
    PATTERN_ALTERNATING,
    PATTERN_OUTLIER,
    PATTERN_EQUAL,
    PATTERN_TIES,      /* exactly between two results */
    PATTERN_NEAR_TIES, /* one step beside */
    PATTERN_GRID,      /* within three steps of the ties of an int8 grid with largest value GRID_ABSMAX */
    PATTERN_STEPS,     /* blocks of 32 whose int8 step is near a power of 2, values near half of it */
    PATTERN_WIDE,      /* every magnitude, finite */
    PATTERN_NONFINITE, /* normal values with a few NaN and Inf */
    PATTERN_BITS,      /* any bits at all */
    PATTERN_COUNT
};

#define GRID_ABSMAX 0.7310585f /* its 127th is no power of 2: ties of the grid are inexact */

extern const char *const pattern_names[PATTERN_COUNT];

/* The next 64 random bits. */
uint64_t random_next(uint64_t *state);

/* Fill n elements, which may be unaligned, by a pattern; fill_bytes: any bits. */
void fill_f32(float *x, size_t n, enum pattern pattern, uint64_t *state);
void fill_f64(double *x, size_t n, enum pattern pattern, uint64_t *state);
void fill_bytes(void *p, size_t n_bytes, uint64_t *state);
