/* rates.c - see rates.h. */
#include "kernels/rates.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct vc_rate rates[] = {
#define VC_RATE(scheme, cpu, card, from) {scheme, (cpu)*1e6, (card)*1e6},
#include "kernels/rates.inc"
};

static const double machine[VC_MACHINE_COUNT] = {
#define VC_MACHINE(name, value) [name] = (value),
#include "kernels/rates.inc"
};

/* The row of the first n letters; NULL if there is none. */
static const struct vc_rate *row_of(const char *scheme, size_t n)
{
    for (unsigned i = 0; n != 0 && i < sizeof rates / sizeof rates[0]; i++) {
        if (strncmp(rates[i].scheme, scheme, n) == 0 && rates[i].scheme[n] == '\0') {
            return &rates[i];
        }
    }
    return NULL;
}

const struct vc_rate *vc_rate_of(const char *scheme)
{
    const struct vc_rate *own = scheme != NULL ? row_of(scheme, strcspn(scheme, "/")) : NULL;

    return own != NULL || scheme == NULL ? own : row_of(scheme, strcspn(scheme, "/0123456789"));
}

double vc_machine_rate(enum vc_machine_rate what)
{
    const char *said = what == VC_CARD_START ? getenv(VC_CARD_START_VARIABLE) : NULL;
    char *end = NULL;
    double seconds = said != NULL ? strtod(said, &end) : machine[what];

    return said == NULL || (end != said && *end == '\0' && seconds >= 0 && seconds <= 1000) ? seconds : -1;
}
