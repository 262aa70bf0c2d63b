/* state_bytes.h - how many bytes an optimizer keeps for the entries of the weights: distill/ has the memory, memory/
 * tells it before.
 *
 *     momentum, adam, adamw    m [n], v [n]                       of the type of the weights
 *     adam8bit                 codes of m u8 [n], a f32 for each 256 of them, the same of v (kernels/train_codes.h)
 *
 * Each array begins at a multiple of VC_POOL_ALIGN. */
#pragma once

#include <vcompress/memory.h>

#include "engine/weights.h"

struct vc_state_bytes {
    unsigned n;        /* states: 0 for SGD, 1 for momentum, else 2 */
    uint64_t elements; /* of one of them: its elements, or their codes */
    uint64_t factors;  /* of one of them: what its codes are multiplied by; 0: it has no codes */
};

/* Of entry number `weight`; nothing where it is not trained. */
struct vc_state_bytes vc_weights_state(const struct vc_weights *weights, size_t weight, enum vc_optimizer optimizer);
/* Of all entries. */
uint64_t vc_weights_state_bytes(const struct vc_weights *weights, enum vc_optimizer optimizer);
