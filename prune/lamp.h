/* lamp.h - one threshold over many tensors by layer-adaptive scores (LAMP, docs/numerics.md), found by counting.
 *
 * The weights of a tensor in the order in which they go, the smallest magnitude first, of equal ones the first:
 * w1, w2, ... wn. The score of wi is wi^2 / (wi^2 + ... + wn^2), so it never falls along that order: whatever the
 * threshold is, what goes of a tensor is a beginning of it, and keys.h can say it.
 *
 * Bins of a round bound the scores of what they hold, and so which of them the threshold may cut. The next round counts
 * these in smaller bins, and adds the squares of everything above them:
 *
 *     round 1   bins of 32,768 keys     go | go | ? | ? | stay ...
 *     round 2   bins of 4 keys                go ... | ? | stay ...    + the sum of the squares above, exact
 *     round 3   bins of one key                        ?               scores are known, rounded once
 */
#pragma once

#include "core/values/exact_sum.h"
#include "passes/scores/keys.h"

/* What is known of a tensor's squares. */
struct vc_lamp {
    enum vc_key_type type;
    enum vc_cpu_level level;   /* of the loops that add them up: the sums are exact at each */
    enum vc_dtype dtype;       /* VC_KEY_U16: f16 or bf16 */
    uint64_t end;              /* the first key above those that the round counts; 0: it counts all */
    struct vc_exact_sum above; /* squares of the keys from there on */
    bool waits;                /* its bins are kept until those of the other tensors are small enough */
};

/* A tensor in the search. */
struct vc_lamp_keys {
    const char *name;
    struct vc_keys *keys;
    struct vc_lamp *lamp;
};

/* Before a round. */
void vc_lamp_begin(struct vc_lamp *lamp);

/* During it, from any thread: n values, f32 or f64 as the type says; of VC_KEY_U16 nothing is needed. `mutex` guards
 * lamp->above. */
void vc_lamp_add(struct vc_lamp *lamp, pthread_mutex_t *mutex, const void *values, size_t n);

/* After it, for the tensors with a common threshold, in the order in which equal scores go: *k of their weights go
 * together, as far as the limits allow. As vc_keys_narrow_together; a tensor that `waits` is not looked at again.
 * VC_E_UNSUPPORTED for weights whose squares are too large for f64. */
enum vc_status vc_lamp_narrow(struct vc_ctx *ctx, const struct vc_lamp_keys *tensors, size_t n, uint64_t *k);
