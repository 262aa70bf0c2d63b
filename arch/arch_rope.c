/* arch_rope.c - see arch_rope.h. */
#include "arch/arch_rope.h"

#include "kernels/functions.h"

#define PI 3.14159265358979323846

double vc_rope_frequency(double theta, double dim, uint64_t i)
{
    return 1.0 / vc_pow_f64(theta, (double)(2 * i) / dim);
}

/* Turns that are short against the original length stay; long ones are stretched by the factor; between them by a
 * share. */
double vc_rope_llama3_divisor(double theta, double dim, double factor, double low, double high, double original,
                              uint64_t i)
{
    double wave = 2 * PI * vc_pow_f64(theta, 2.0 * (double)i / dim); /* positions of a turn */
    double share = (original / wave - low) / (high - low);

    if (wave < original / high) {
        return 1.0;
    }
    return wave > original / low ? factor : 1.0 / ((1.0 - share) / factor + share);
}

/* The pair that turns so often within the original length. */
static double pair_of(double theta, double dim, double original, double turns)
{
    return dim * vc_log_f64(original / (turns * 2 * PI)) / (2 * vc_log_f64(theta));
}

/* Pairs before the ramp turn often and stay; those behind it are stretched. */
struct vc_rope_ramp vc_rope_yarn_ramp(double theta, double dim, double original, double fast, double slow,
                                      bool truncate)
{
    struct vc_rope_ramp ramp = {pair_of(theta, dim, original, fast), pair_of(theta, dim, original, slow)};

    if (truncate) {
        ramp.first = floor(ramp.first);
        ramp.last = ceil(ramp.last);
    }
    ramp.first = fmax(ramp.first, 0);
    ramp.last = fmin(ramp.last, dim - 1);
    ramp.last += ramp.first == ramp.last ? 0.001 : 0; /* no division by 0 */
    return ramp;
}

double vc_rope_yarn_divisor(const struct vc_rope_ramp *ramp, double factor, uint64_t i)
{
    double share = fmin(fmax(((double)i - ramp->first) / (ramp->last - ramp->first), 0.0), 1.0);

    return 1.0 / (1.0 - share + share / factor);
}

double vc_rope_yarn_scale(double factor, double m)
{
    return factor <= 1 ? 1.0 : 0.1 * m * vc_log_f64(factor) + 1.0;
}

double vc_rope_longrope_scale(double stretched, double original)
{
    return stretched <= 1 ? 1.0 : sqrt(1.0 + vc_log_f64(stretched) / vc_log_f64(original));
}
