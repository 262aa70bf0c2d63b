/* keep_steps.h - steps of distill for the lines of its page: every so many of the run. */
#pragma once

#include <vcompress/distill.h>

#define CURVE_POINTS  256
#define CURVE_MATCHES 16 /* pairs of --match */

struct curve {
    struct vc_distill_step steps[CURVE_POINTS];
    double matches[CURVE_POINTS][CURVE_MATCHES]; /* of the steps, which point to them */
    size_t n;
    uint64_t every, skipped;
};

void curve_begin(struct curve *curve);
/* Takes a step that vc_distill_options.tell is told. Of the control, and evaluations, none are kept. */
void curve_keep(struct curve *curve, const struct vc_distill_step *step);
