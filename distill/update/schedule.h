/* schedule.h - the learning rate of each step. */
#pragma once

#include <vcompress/distill.h>

struct vc_lr_plan {
    enum vc_schedule schedule;
    double lr;                /* the largest */
    uint64_t n_steps, warmup; /* of the run; of its beginning */
    uint64_t every;           /* VC_SCHEDULE_STEP: so many steps with one rate ... */
    double factor;            /* ... then times this */
};

/* Of step k, from 0 on. The first `warmup` steps rise in equal parts to lr; the others, of which this is number i of n:
 * lr;  lr (1 + cos(pi i / n)) / 2;  lr (1 - i / n);  lr factor^floor(i / every). */
double vc_lr_of(const struct vc_lr_plan *plan, uint64_t k);
