/* code_schemes.h - the schemes of codes with scales beside them, a row each: what a code is, what a scale is, and how
 * many elements share one. Passes, dialects and decoders ask the row; a scheme is added in
 * code_schemes.inc, once.
 *
 *     value = grid[code] * scale           the grid of int2 to int8 is the code itself (minus a zero point)
 *
 * The arithmetic of the grids is in kernels/grid_codes.h; docs/numerics.md has the formulas. */
#pragma once

#include <vcompress/model.h>

#include "core/values/grids.h"

struct vc_dialect;

struct vc_code_scheme {
    enum vc_scheme scheme;
    const char *name;    /* "int8": in reports, recipes and manifests; codes of a weight `w` are "w.int8" where formats
                            name them by their scheme */
    enum vc_dtype codes; /* the type of the codes in a model */
    enum vc_dtype array; /* the type of the array that formats without that type store them in: I8, or U8 for bytes */
    enum vc_dtype scale; /* NONE: scales are f32, f16 or bf16; else a byte each, which is of this type (F8_E8M0, ...) */
    uint64_t group;      /* elements that share a scale, always; 0: as the quantization says ... */
    uint64_t usual;      /* ... and usually so many; 0: a row or a tensor shares one */
    bool global;         /* scales are divided by one number of the tensor, the part VC_PART_GLOBAL_SCALE */
    bool high_first;     /* of two codes in a byte the first has the high four bits */
    enum vc_grid grid;
    int low, high; /* codes that have no grid: from low to high */
    float largest; /* magnitude of a code, or of a value on the grid */
};

/* The row of the scheme; NULL for NONE and numbers that are no scheme. */
const struct vc_code_scheme *vc_code_scheme(enum vc_scheme scheme);

/* The row with that name; NULL: none has. */
const struct vc_code_scheme *vc_code_scheme_named(const char *name);

/* The scheme whose codes are all whole numbers of so many bits, INT4 of 4; NONE if there is none. */
enum vc_scheme vc_code_scheme_of_bits(unsigned bits);

/* Row number `index`; NULL behind the last. */
const struct vc_code_scheme *vc_code_scheme_at(size_t index);

/* Elements that share a scale where nobody says a number; 0: a row or a tensor shares one. row may be NULL: 0. */
uint64_t vc_code_usual_group(const struct vc_code_scheme *row);

/* Elements that share a scale in rows of that length, for loaders that take whole groups alone: `group`, where it divides
 * the row; else the largest power of two below it that does, 32 at least, as kernels have it; 0: none does. quantize asks
 * where a dialect has `whole_groups`, estimates of weights in types ask, too. */
uint64_t vc_code_whole_group(uint64_t group, uint64_t row);

/* Bits of a code. */
unsigned vc_code_bits(const struct vc_code_scheme *row);

/* How a group becomes codes of the scheme in an output of that dialect (NULL: any), with scales of that type, where
 * they are floats. */
struct vc_group_codes vc_code_groups(const struct vc_code_scheme *row, enum vc_dtype scales,
                                     const struct vc_dialect *dialect);

/* Whether a scale of codes of that scheme may have that type in a model. */
bool vc_code_scheme_takes_scale(const struct vc_code_scheme *row, enum vc_dtype dtype);

/* "tensor", "channel", "group" or "block". */
const char *vc_granularity_name(enum vc_granularity granularity);
