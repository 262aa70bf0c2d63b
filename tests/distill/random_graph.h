/* random_graph.h - random graphs as exporters write them that were shown a batch of one size: its number stands where
 * the size of the batch belongs, in shapes of reshapes and of expansions, in constants that are added, in bounds of
 * slices. Some numbers are wrong for that size, too; some inputs and branches are read by nothing, some outputs are
 * constants.
 *
 * Parameters are w1, w2, ... of [n, 3]. Inputs are x [b, 6], and at times z [b, 6] and t [b, 3], integers from 0 to 4.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANDOM_WIDEST  40 /* rows of the largest parameter */
#define RANDOM_CLASSES 3

struct random_graph {
    char text[32768];
    bool uses[RANDOM_WIDEST + 1]; /* parameters */
    int64_t batch;                /* what it was written for */
};

/* The same graph for the same seed, on every machine. */
void random_graph_make(uint64_t seed, struct random_graph *out);
