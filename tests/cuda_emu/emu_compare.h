/* emu_compare.h - one kernel table against another on small tiles, for builds that hold nothing but kernels
 * (test_cuda_emu, also under sanitizers, without the library), and for test_cuda_load. tests/kernelcheck is the
 * thorough one. */
#pragma once

#include "kernels/kernels.h"

/* What arrays are filled with: weights; halves of integers; special bits, NaN and Inf included; +0 and -0. */
enum emu_values { EMU_NORMAL, EMU_TIES, EMU_SPECIAL, EMU_ZERO, EMU_VALUES_COUNT };

/* A tile, and how its arrays lie. */
struct emu_shape {
    size_t n_rows, row_len;
    size_t group;            /* for the *_rows kernels; at least 1 */
    struct vc_axis_map axis; /* for the *_axis kernels */
    enum emu_values values;
    unsigned misalign; /* bytes that input and output arrays are moved by; not chunk sums */
};

/* Runs every kernel of both on that shape. Returns NULL, or which kernel and array differ ("int8_rows: codes at 12"),
 * or "NAME: error N" when the variant returned one. Borrowed until the next call. */
const char *emu_compare(const struct vc_kernels *reference, const struct vc_kernels *variant,
                        const struct emu_shape *shape);

/* All reference loops. */
void emu_reference(struct vc_kernels *table);
