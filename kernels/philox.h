/* philox.h - random numbers by counter, Philox4x32-10 (Salmon et al., SC 2011, as in Random123): written once, for C,
 * C++ and CUDA, since what drops out has to be the same on every device. */
#pragma once

#include "kernels/arith.h"

#define VC_PHILOX_ROUNDS 10

/* Ten rounds over a counter of 128 bits with a key of 64: the definition. */
VC_HD void vc_philox_numbers(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t k[2] = {key[0], key[1]};

    for (unsigned i = 0; i < 4; i++) {
        out[i] = counter[i];
    }
    for (unsigned i = 0; i < VC_PHILOX_ROUNDS; i++) {
        if (i != 0) {
            k[0] += 0x9E3779B9u;
            k[1] += 0xBB67AE85u;
        }
        uint64_t a = (uint64_t)0xD2511F53u * out[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * out[2];
        out[0] = (uint32_t)(b >> 32) ^ out[1] ^ k[0];
        out[1] = (uint32_t)b;
        out[2] = (uint32_t)(a >> 32) ^ out[3] ^ k[1];
        out[3] = (uint32_t)a;
    }
}
