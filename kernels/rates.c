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

const struct vc_rate *vc_rate_at(unsigned index)
{
    return index < sizeof rates / sizeof rates[0] ? &rates[index] : NULL;
}

const struct vc_rate *vc_rate_of(const char *scheme)
{
    size_t n = scheme != NULL ? strcspn(scheme, "/") : 0;

    for (unsigned i = 0; n != 0 && i < sizeof rates / sizeof rates[0]; i++) {
        if (strncmp(rates[i].scheme, scheme, n) == 0 && rates[i].scheme[n] == '\0') {
            return &rates[i];
        }
    }
    return NULL;
}

double vc_machine_rate(enum vc_machine_rate what)
{
    const char *said = what == VC_CARD_START ? getenv("VCOMPRESS_CARD_START") : NULL;
    char *end = NULL;
    double seconds = said != NULL ? strtod(said, &end) : -1;

    return said != NULL && end != said && *end == '\0' && seconds >= 0 && seconds <= 1000 ? seconds : machine[what];
}
