/* keep_steps.c - see keep_steps.h.
 *
 * When the room is full, every second point goes and the distance doubles: at most CURVE_POINTS points at equal
 * distances, without knowing beforehand how long the run is. */
#include "tools/convert/keep_steps.h"

#include <string.h>

/* No step yet. */
void curve_begin(struct curve *curve)
{
    curve->n = 0;
    curve->skipped = 0;
    curve->every = 1;
}

/* What a step points to lives only as long as the library tells of it. */
static void put(struct curve *curve, size_t at, const struct vc_distill_step *step)
{
    size_t n = step->n_matches < CURVE_MATCHES ? step->n_matches : CURVE_MATCHES;

    if (n != 0) {
        memmove(curve->matches[at], step->matches, n * sizeof(double));
    }
    curve->steps[at] = *step;
    curve->steps[at].matches = curve->matches[at];
    curve->steps[at].n_matches = n;
}

/* Keeps every step, every second, every fourth, ... so that they fit. */
void curve_keep(struct curve *curve, const struct vc_distill_step *step)
{
    if (step->control || step->eval != NULL || curve->skipped++ % curve->every != 0) {
        return;
    }
    if (curve->n == CURVE_POINTS) {
        for (size_t i = 0; i < CURVE_POINTS / 2; i++) {
            put(curve, i, &curve->steps[2 * i]);
        }
        curve->n = CURVE_POINTS / 2;
        curve->every *= 2;
    }
    put(curve, curve->n++, step);
}
