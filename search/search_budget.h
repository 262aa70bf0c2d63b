/* search_budget.h - what the output of a search has to come to, and the one test of it. */
#pragma once

#include <vcompress/fit.h>

/* What the output has to come to. */
struct vc_search_budget {
    uint64_t file_bytes; /* at most; 0: no limit */
    bool device;         /* a device has to have room for it */
};

/* Whether a device has room for what `fit` has decided. */
static inline bool vc_search_has_room(const struct vc_fit *fit)
{
    return fit->verdict == VC_FITS;
}

/* Whether a file of that size is within the budget, whose need on the device `fit` has decided (NULL where there is no
 * device). file_bytes 0: not known, which is within no limit of bytes. */
static inline bool vc_search_within(const struct vc_search_budget *budget, uint64_t file_bytes,
                                    const struct vc_fit *fit)
{
    return (budget->file_bytes == 0 || (file_bytes != 0 && file_bytes <= budget->file_bytes)) &&
           (!budget->device || vc_search_has_room(fit));
}

/* So many bits for each weight, as bytes of a file; at least 1. */
static inline uint64_t vc_search_bytes_of_bits(double bits, uint64_t n_weights)
{
    uint64_t bytes = (uint64_t)(bits * (double)n_weights / 8.0);

    return bytes != 0 ? bytes : 1;
}
