/* arch_rope.h - how rotary positions are stretched to longer texts: the numbers of transformers' kinds "yarn", "llama3" and
 * "longrope", which llama.cpp computes alike. Frequency i of a head of `dim` rotated elements is theta ^ (-2 i / dim);
 * scaling divides it by a divisor, and multiplies cosines and sines by a scale.
 *
 *     graph/families       divides frequencies, scales cosines
 *     formats/gguf_folder  writes the divisors as rope_freqs.weight and the scale as .rope.scaling.attn_factor, and finds
 *                          the settings that give such divisors
 *
 * Formulas: docs/graph.md. In double, and no function of the C library whose bits may differ between machines. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

double vc_rope_frequency(double theta, double dim, uint64_t i);

/* llama3: frequencies that turn at most `low` times within the `original` length are divided by `factor`, those that turn
 * `high` times and more stay, and in between the divisor falls from one to the other. */
double vc_rope_llama3_divisor(double theta, double dim, double factor, double low, double high, double original,
                              uint64_t i);

/* yarn: pairs of a head from `first` on begin to be stretched, those behind `last` are divided by all of the factor. */
struct vc_rope_ramp {
    double first, last;
};

/* fast, slow: how often the pairs at both ends turn within `original`; truncate: the ends are whole pairs. */
struct vc_rope_ramp vc_rope_yarn_ramp(double theta, double dim, double original, double fast, double slow,
                                      bool truncate);
double vc_rope_yarn_divisor(const struct vc_rope_ramp *ramp, double factor, uint64_t i);
/* Of cosines and sines; m: a share of the growth, 1 where nothing is said. 1 where nothing is stretched. */
double vc_rope_yarn_scale(double factor, double m);

/* longrope: of cosines and sines. stretched: by how much the context is longer than `original`. */
double vc_rope_longrope_scale(double stretched, double original);
