/* search_points.h - what candidates take and what they harm, and which of them are worth a look: the rule that all searches
 * share.
 *
 *     bytes  error          plan      of one need of a device, and its place in the order of harm
 *     100    0              shrink    of a file, and what it loses
 *      50    0.01           aims      of a tensor, and its squared error
 *      60    0.02   x
 *      25    0.1            x: a smaller one harms less */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct vc_search_point {
    uint32_t number; /* of the candidate, by the caller */
    uint64_t bytes;
    double error;
    double sqnr_db; /* for the caller */
};

/* Sorts the points, the smallest first, and leaves those than which none is both at most as large and at most as harmful: of
 * equal ones the first number. Each has less error than the one before it, the last the least. Returns how many. */
size_t vc_search_front(struct vc_search_point *points, size_t n);
