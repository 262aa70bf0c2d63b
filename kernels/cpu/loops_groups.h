/* loops_groups.h - part of loops.h: codes with a scale per group. */
#pragma once

#include "kernels/cpu/group_loop.h"

#ifdef VC_HAVE_X86
#include "kernels/cpu/loops_groups_x86.h"
#endif

int VC_VARIANT(group_codes_rows)(const float *x, size_t n_rows, size_t row_len, size_t group,
                                 const struct vc_group_codes *how, const uint32_t *bits, struct vc_float_scale *scale,
                                 uint8_t *q, float *y)
{
#ifdef VC_HAVE_X86
    return vc_groups_walk(x, n_rows, row_len, group, how, bits, scale, q, y, group_x86);
#else
    return vc_group_codes_rows_ref(x, n_rows, row_len, group, how, bits, scale, q, y);
#endif
}
