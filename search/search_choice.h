/* search_choice.h - the budget of a search, the one test of it, and which candidate of a list is taken. What a candidate costs
 * only the caller knows: outputs on rows of data, the measured error of the weights, or the usual one.
 *
 *     candidate      file    device   cost   harm              BEST       int4, mixed: the least cost
 *     fp16           9 MB    12 MB    0.01   0.0002   too large GENTLEST   int4: the least harm that is within
 *     int4           3 MB     6 MB    0.2    0.097    within    NEAREST    int2
 *     int4, mixed    3 MB     6 MB    0.1             within
 *     int2           1 MB     4 MB    0.9    0.36     within */
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
bool vc_search_within(const struct vc_search_budget *budget, uint64_t file_bytes, const struct vc_fit *fit);
/* So many bits for each weight, as bytes of a file; at least 1. */
uint64_t vc_search_bytes_of_bits(double bits, uint64_t n_weights);

/* A candidate as a choice sees it. */
struct vc_search_candidate {
    uint64_t file_bytes, need_bytes; /* of the file, of the device; 0: not known */
    double cost;                     /* NaN: not measured */
    double harm;                     /* vc_search_harm; 0: none is usual */
    bool possible;                   /* no pass refuses it */
    bool within;                     /* the budget */
    bool holds;                      /* it loses no more than is allowed */
    bool trained;
    bool skipped; /* not asked about */
};

/* Each of candidates that are possible; of equal ones the first. */
enum vc_search_rule {
    VC_SEARCH_BEST,           /* measured, within: the least cost, then the smallest file */
    VC_SEARCH_SMALLEST,       /* the same where the loss alone is limited: of those that hold the smallest file */
    VC_SEARCH_GENTLEST,       /* within: the least harm */
    VC_SEARCH_FIRST,          /* within, of a known size, untrained: the first of a list in the order of harm */
    VC_SEARCH_NEAREST_FILE,   /* the smallest file */
    VC_SEARCH_NEAREST_DEVICE, /* the least need on the device */
    VC_SEARCH_NEXT_BETTER,    /* not within, with a usual harm: the most harm */
    VC_SEARCH_CHEAPEST,       /* measured: the least cost, within or not */
};
#define VC_SEARCH_NONE ((size_t)-1)

/* The number of the candidate that is taken of the list; VC_SEARCH_NONE: none is. */
size_t vc_search_pick(const struct vc_search_candidate *list, size_t n, enum vc_search_rule rule);
