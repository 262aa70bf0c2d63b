/* exhaustive.c - every f32 there is through the two casts (kernelcheck --exhaustive), against a formula that shares
 * nothing with kernels/arith.h: the value is scaled to its grid, rounded with rint() in f64, and the code put
 * together from exponent and integer. And every f32 up to 127 through Q8_0 with a step of 1, against floor() of the
 * f64 half a step up. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define BLOCK ((size_t)1 << 16)

/* Code of a format with `mantissa` stored bits and exponent range [e_min, e_max] (of normal numbers). */
static uint16_t second_formula(float x, int mantissa, int e_min, int e_max, uint16_t nan)
{
    uint16_t sign = signbit(x) ? 0x8000u : 0;
    double v = fabs((double)x);
    int e;
    double grid;

    if (isnan(x)) {
        return (uint16_t)(sign | nan);
    }
    if (isinf(x)) {
        return (uint16_t)(sign | (unsigned)(e_max - e_min + 2) << mantissa);
    }
    frexp(v, &e);
    e = v == 0 || e - 1 < e_min ? e_min : e - 1;
    grid = rint(ldexp(v, mantissa - e)); /* up to 2^(mantissa + 1) */
    if (grid >= ldexp(1, mantissa + 1)) {
        grid /= 2;
        e++;
    }
    if (e > e_max) {
        return (uint16_t)(sign | (unsigned)(e_max - e_min + 2) << mantissa);
    }
    if (grid < ldexp(1, mantissa)) {
        return (uint16_t)(sign | (unsigned)grid); /* subnormal or zero */
    }
    return (uint16_t)(sign | ((unsigned)(e - e_min + 1) << mantissa) | ((unsigned)grid - (1u << mantissa)));
}

/* One run of consecutive floats (by bits), what they should become, and what a table made of them. */
struct blocks {
    float x[BLOCK];
    uint16_t f16[BLOCK], bf16[BLOCK], got[BLOCK];
    float with_max[BLOCK];
    uint32_t bits[BLOCK / 32];
    uint8_t q8_0[BLOCK / 32 * 34];
};

/* Whether Q8_0 rounds the floats of b->x otherwise. One element of each 32 has to be 127 for the step to be 1; in a
 * second round it is another one. */
static bool q8_0_differs(const struct vc_kernels *table, struct blocks *b)
{
    bool differs = false;

    for (size_t round = 0; round < 2 && fabsf(b->x[BLOCK - 1]) < 127; round++) {
        for (size_t i = 0; i < BLOCK; i++) {
            b->with_max[i] = i % 32 == round ? 127.0f : b->x[i];
        }
        table->q8_0_rows(b->with_max, 1, BLOCK, b->bits, b->q8_0, NULL);
        for (size_t i = 0; i < BLOCK; i++) {
            double x = (double)b->with_max[i];
            int code = (int)floor(fabs(x) + 0.5);

            differs |= (int8_t)b->q8_0[i / 32 * 34 + 2 + i % 32] != (x < 0 ? -code : code);
        }
    }
    return differs;
}

int kernelcheck_exhaustive(const struct vc_kernels *const *tables, const char *const *labels, size_t n_tables,
                           FILE *out)
{
    struct blocks *b = malloc(sizeof *b);
    uint64_t *different = calloc(n_tables, sizeof *different);
    int failed = 0;

    for (uint64_t first = 0; b != NULL && different != NULL && first < (uint64_t)1 << 32; first += BLOCK) {
        for (size_t i = 0; i < BLOCK; i++) {
            uint32_t u = (uint32_t)(first + i);

            memcpy(&b->x[i], &u, sizeof u);
            b->f16[i] = second_formula(b->x[i], 10, -14, 15, 0x7e00);
            b->bf16[i] = second_formula(b->x[i], 7, -126, 127, 0x7fc0);
        }
        for (size_t k = 0; k < n_tables; k++) {
            tables[k]->cast_f32_f16(b->x, 1, BLOCK, b->got, NULL);
            different[k] += memcmp(b->got, b->f16, sizeof b->got) != 0;
            tables[k]->cast_f32_bf16(b->x, 1, BLOCK, b->got, NULL);
            different[k] += memcmp(b->got, b->bf16, sizeof b->got) != 0;
            different[k] += q8_0_differs(tables[k], b);
        }
    }
    for (size_t k = 0; b != NULL && different != NULL && k < n_tables; k++) {
        failed += different[k] != 0;
        fprintf(out, "%s: 4294967296 floats through f16 and bf16, those up to 127 through Q8_0: %s\n", labels[k],
                different[k] == 0 ? "all as the second formula says" : "DIFFERENT");
    }
    if (b == NULL || different == NULL) {
        failed = (int)n_tables;
    }
    free(different);
    free(b);
    return failed;
}
