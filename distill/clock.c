/* clock.c - seconds, for reports and for how long ranks wait. */
#include <time.h>

#include "distill/clock.h"

double vc_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
