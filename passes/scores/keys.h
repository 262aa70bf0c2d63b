/* keys.h - finds the k-th smallest key of a tensor, or of many tensors together, by counting.
 *
 * A key is the bits of a magnitude, or of a score (kernels.h, "Pruning"). A round of calibration counts how many keys
 * fall into each bin of a range; the bin that holds the k-th one is the range of the next round, until a bin is a
 * single key:
 *
 *     f32, k = 700     round 1: 65,536 bins of 32,768 keys     ... | 600 | 250 | ...   the k-th is in the second one
 *                      round 2: 32,768 bins of one key         threshold 0x3c23d70a, and 3 of the 5 that equal it go
 *
 * Ties are exact: of the keys equal to the threshold the first ones go. Memory: a table of bins while a tensor is
 * looked at, then a list of the bins that are not empty. */
#pragma once

#include "core/base/ctx.h"
#include "kernels/kernels.h"

/* Most bins of a round. */
#define VC_KEY_BINS ((size_t)1 << 16)

/* So many keys are sorted sooner than so many bins are walked over. */
#define VC_KEY_FEW 1024

/* What the keys of a tensor are made of. */
enum vc_key_type {
    VC_KEY_U16, /* the bits of 16-bit floats: all tensors of one order have the same type */
    VC_KEY_F32,
    VC_KEY_F64
};

/* The order of one tensor's keys. */
struct vc_keys {
    unsigned bits;             /* of a key: 15, 31 or 63 */
    uint64_t n;                /* elements */
    struct vc_bin_range range; /* that the next round counts */
    uint64_t below;            /* keys below the range: all of them go */
    uint64_t limit;            /* most keys that may go */
    bool own;                  /* the limit alone decides, not a threshold shared with other tensors */
    bool shared;               /* narrowed together with others (the caller's) */
    bool done;                 /* cut is known */
    bool few;                  /* at most VC_KEY_FEW keys, which rounds keep and sort: the caller's, before a round */
    struct vc_mask_cut cut;
    uint64_t n_equal; /* keys equal to the threshold */

    /* Of the round. */
    pthread_mutex_t mutex;
    bool has_mutex;
    uint64_t *bins; /* between begin and end, of range.n_bins; of few keys the bin of each, n_list so far */
    uint64_t *list; /* count << 16 | bin, of the bins that hold a key, ascending; from end to the next begin */
    size_t n_list;
    bool failed; /* the list could not be made: no memory */
};

/* The key of value i of an array, at any address, of floats that have so many bits beside their sign: 15, 31 or 63. */
uint64_t vc_key_at(unsigned bits, const void *values, size_t i);
void vc_keys_sort(uint64_t *keys, size_t n); /* ascending */

/* Before the first round at n keys, of which `limit` may go. */
void vc_keys_init(struct vc_keys *keys, unsigned bits, uint64_t n, uint64_t limit);

/* Around a round over all keys of the tensor: end turns the bins into the list. Tiles are added from any thread;
 * `counts` are range.n_bins bins as magnitude_bins_* count them. */
enum vc_status vc_keys_begin(struct vc_ctx *ctx, struct vc_keys *keys);
void vc_keys_add(struct vc_keys *keys, const uint32_t *counts);
/* Few keys: the values themselves, of any address. */
void vc_keys_add_few(struct vc_keys *keys, const void *values, size_t n);
enum vc_status vc_keys_end(struct vc_ctx *ctx, struct vc_keys *keys);

/* Bytes that begin allocates. */
size_t vc_keys_bytes(const struct vc_keys *keys);

/* After a round, for one tensor by itself: the range becomes that of the next round, or `done`. */
void vc_keys_narrow(struct vc_ctx *ctx, struct vc_keys *keys);

/* After a round at tensors that share a threshold, in the order in which their ties go: *k of their keys go together,
 * as far as their limits allow. Those that reach their limits become `own`. *k is what is left to find in the next
 * round. VC_E_NOMEM. */
enum vc_status vc_keys_narrow_together(struct vc_ctx *ctx, struct vc_keys *const *keys, size_t n, uint64_t *k);

/* Entries of keys->list: number of the bin, and its keys. */
static inline size_t vc_keys_bin(uint64_t entry)
{
    return (size_t)(entry & (VC_KEY_BINS - 1));
}

static inline uint64_t vc_keys_count(uint64_t entry)
{
    return entry >> 16;
}

/* The range of the next round: n_keys from the first one of the bin of list entry `first` on, in bins of 2^shift. */
void vc_keys_enter(struct vc_ctx *ctx, struct vc_keys *keys, size_t first, uint64_t n_keys, unsigned shift);

/* Frees everything. */
void vc_keys_release(struct vc_ctx *ctx, struct vc_keys *keys);
