/* exact_sum.c - see exact_sum.h. A double is mantissa * 2^(exponent - 1074) with a mantissa of 53 bits; it is cut into
 * three 32-bit digits and added to the limbs. Limbs are signed and 64 bits wide, so 2^31 additions need no carry. */
#include "core/values/exact_sum.h"

#include <math.h>
#include <string.h>

void vc_exact_clear(struct vc_exact_sum *sum)
{
    memset(sum, 0, sizeof *sum);
}

void vc_exact_add(struct vc_exact_sum *sum, double x)
{
    uint64_t bits;
    unsigned exponent, shift, first;

    if (!isfinite(x)) {
        sum->special += x;
        return;
    }
    memcpy(&bits, &x, sizeof bits);
    exponent = (unsigned)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & 0xfffffffffffffULL;
    if (exponent != 0) {
        mantissa |= 1ULL << 52;
        exponent--;
    }
    first = exponent / 32;
    shift = exponent % 32;
    int64_t d0 = (int64_t)(mantissa << shift & 0xffffffffULL);
    int64_t d1 = (int64_t)(mantissa >> (32 - shift) & 0xffffffffULL);
    int64_t d2 = shift == 0 ? 0 : (int64_t)(mantissa >> (64 - shift));
    if (bits >> 63 != 0) {
        d0 = -d0;
        d1 = -d1;
        d2 = -d2;
    }
    sum->limb[first] += d0;
    sum->limb[first + 1] += d1;
    sum->limb[first + 2] += d2;
}

void vc_exact_merge(struct vc_exact_sum *sum, const struct vc_exact_sum *other)
{
    for (unsigned i = 0; i < VC_EXACT_LIMBS; i++) {
        sum->limb[i] += other->limb[i];
    }
    sum->special += other->special;
}

/* Carries upward from `first`, so that digits are in [0, 2^32), except that of `top`, which keeps the sign. */
static void normalize(int64_t *limb, int first, int top)
{
    int64_t carry = 0;

    for (int i = first; i < top; i++) {
        int64_t v = limb[i] + carry;

        limb[i] = v & 0xffffffffLL;
        carry = (v - limb[i]) / 4294967296LL;
    }
    limb[top] += carry;
}

double vc_exact_value(const struct vc_exact_sum *sum)
{
    int64_t limb[VC_EXACT_LIMBS];
    double sign = 1.0;
    uint64_t head;
    int first = 0; /* digit that is not 0 */
    int top = VC_EXACT_LIMBS - 1;
    int zeros;
    int sticky = 0;

    if (sum->special != 0.0) { /* NaN is not equal to 0 either */
        return sum->special;
    }
    while (top >= 0 && sum->limb[top] == 0) {
        top--;
    }
    while (first < top && sum->limb[first] == 0) {
        first++;
    }
    memcpy(limb, sum->limb, sizeof limb);
    top = top < VC_EXACT_LIMBS - 2 ? top + 2 : VC_EXACT_LIMBS - 1; /* for carries: a digit holds less than 2^63 */
    normalize(limb, first, top);
    if (limb[top] < 0) {
        sign = -1.0;
        for (int i = first; i <= top; i++) {
            limb[i] = -limb[i];
        }
        normalize(limb, first, top);
    }
    while (top >= 0 && limb[top] == 0) {
        top--;
    }
    if (top < 0) {
        return 0.0;
    }
    if (top < 2) { /* below 2^64 units of 2^-1074: at most 64 bits, ldexp rounds once */
        head = (uint64_t)limb[0] | (uint64_t)(top == 1 ? limb[1] : 0) << 32;
        return sign * ldexp((double)head, -1074);
    }
    /* The top 64 bits, with everything below folded into the last one, so that the conversion rounds once. */
    head = (uint64_t)limb[top] << 32 | (uint64_t)limb[top - 1];
    for (zeros = 0; (head >> 63) == 0; zeros++) {
        head <<= 1;
    }
    head |= zeros == 0 ? 0 : (uint64_t)limb[top - 2] >> (32 - zeros);
    sticky = ((uint64_t)limb[top - 2] << zeros & 0xffffffffULL) != 0;
    for (int i = first; i < top - 2; i++) {
        sticky |= limb[i] != 0;
    }
    return sign * ldexp((double)(head | (unsigned)sticky), (top - 1) * 32 - zeros - 1074);
}
