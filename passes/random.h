/* random.h - random numbers by counter: number n of a stream is a function of (seed, stream, n) and of nothing else, so
 * a run that is resumed, or divided, draws the same ones. Philox4x32-10 (Salmon et al., SC 2011, as in Random123). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Ten rounds over a counter of 128 bits with a key of 64: the definition. */
void vc_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Number `n` of stream `stream`: 64 random bits. */
uint64_t vc_random_bits(uint64_t seed, uint64_t stream, uint64_t n);

/* The numbers 0 .. n - 1 in the order of that stream, every order about equally likely. */
void vc_random_order(uint64_t seed, uint64_t stream, uint64_t *order, size_t n);
