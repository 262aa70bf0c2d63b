/* exact_sum.h - a sum of doubles that does not depend on their order.
 *
 * A fixed-point number wide enough for every finite double (2,098 bits and 32 bits of headroom for carries), so adding
 * is exact and only the final value is rounded, once, to nearest even. Tiles of a tensor finish in any order; this is
 * what keeps the reported errors the same for any number of threads. Up to 2^31 additions. */
#pragma once

#include <stdint.h>

#define VC_EXACT_LIMBS 68

struct vc_exact_sum {
    int64_t limb[VC_EXACT_LIMBS]; /* digits of 32 bits, least significant first; limb 0 starts at 2^-1074 */
    double special;               /* sum of what was not finite: decides the value unless it is 0 */
};

void vc_exact_clear(struct vc_exact_sum *sum);
void vc_exact_add(struct vc_exact_sum *sum, double x); /* Inf and NaN give what IEEE addition gives */
void vc_exact_merge(struct vc_exact_sum *sum, const struct vc_exact_sum *other);
double vc_exact_value(const struct vc_exact_sum *sum);
