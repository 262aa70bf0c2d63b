/* random.c - see random.h. */
#include "passes/random.h"

#include "kernels/philox.h"

void vc_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    vc_philox_numbers(counter, key, out);
}

uint64_t vc_random_bits(uint64_t seed, uint64_t stream, uint64_t n)
{
    const uint32_t counter[4] = {(uint32_t)n, (uint32_t)(n >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];

    vc_philox(counter, key, out);
    return (uint64_t)out[1] << 32 | out[0];
}

/* Fisher and Yates, from the end. The remainder of 64 bits by a number of rows is even to n / 2^64. */
void vc_random_order(uint64_t seed, uint64_t stream, uint64_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)(vc_random_bits(seed, stream, n - i) % i);
        uint64_t t = order[i - 1];

        order[i - 1] = order[k];
        order[k] = t;
    }
}
