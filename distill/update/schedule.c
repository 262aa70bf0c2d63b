/* schedule.c - see schedule.h. */
#include "distill/update/schedule.h"

#include "kernels/functions.h"

#define PI 3.14159265358979323846

/* The rate of step k, from 0 on: rises in a line during warm-up, then falls as the schedule says. */
double vc_lr_of(const struct vc_lr_plan *plan, uint64_t k)
{
    double i, n;

    if (k < plan->warmup) {
        return plan->lr * (double)(k + 1) / (double)plan->warmup;
    }
    i = (double)(k - plan->warmup);
    n = plan->n_steps > plan->warmup ? (double)(plan->n_steps - plan->warmup) : 1;
    switch (plan->schedule) {
    case VC_SCHEDULE_COSINE:
        return plan->lr * (1 + vc_cos_f64(PI * i / n)) / 2;
    case VC_SCHEDULE_LINEAR:
        return plan->lr * (1 - i / n);
    case VC_SCHEDULE_STEP:
        return plan->lr * vc_pow_f64(plan->factor, floor(i / (double)plan->every));
    default:
        return plan->lr;
    }
}
