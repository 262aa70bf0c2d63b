/* fraction.h - a share given as a decimal, "0.35", and counts made of it without rounding errors. */
#pragma once

#include <stdbool.h>

#include <vcompress/context.h>

/* n / d with d a power of ten: 35 / 100. At most 9 digits behind the point, so that counts stay below 2^64. */
struct vc_fraction {
    uint64_t n, d;
};

/* "0", "1", ".5", "0.35", "35%": from 0 to 1. False for anything else. */
bool vc_fraction_parse(const char *text, struct vc_fraction *out);

/* The same, of the option `option`: VC_E_ARGUMENT with a message if the text is no share. */
enum vc_status vc_share_read(struct vc_ctx *ctx, const char *option, const char *text, struct vc_fraction *out);

/* floor(count * fraction) and ceil(count * fraction), exactly. */
uint64_t vc_fraction_floor(struct vc_fraction fraction, uint64_t count);
uint64_t vc_fraction_ceil(struct vc_fraction fraction, uint64_t count);
