/* nonfinite.h - finds NaN, Inf and values too large for a type in tiles of any float type, makes the sentences about
 * them, and has the policies (error, keep, zero, inf, sat) that schemes share. Replacing such values is the schemes'
 * own work. */
#pragma once

#include <vcompress/quantize.h>

#include "core/chain/pass.h"

/* What calibration found in a tensor so far. Tiles are added from any thread; the mutex is the structure's own. */
struct vc_specials {
    pthread_mutex_t mutex;
    uint64_t nonfinite; /* how many */
    uint64_t first;     /* flat index of the first; UINT64_MAX when there is none */
    bool first_is_nan;
    uint64_t overflows; /* finite values beyond `limit` */
    uint64_t first_overflow;
    double first_overflow_value;
    double limit; /* largest magnitude that does not overflow; INFINITY: none does */
};

/* The largest f64 that rounds to a finite value of that float type, or that a block type has room for in any block; for
 * F64 INFINITY. */
double vc_largest_fitting(enum vc_dtype target);

enum vc_status vc_specials_init(struct vc_ctx *ctx, struct vc_specials *specials, double limit);
void vc_specials_release(struct vc_specials *specials);

/* Adds the n values at x, the first of which has that flat index. Thread-safe. */
void vc_specials_add(struct vc_specials *specials, enum vc_dtype dtype, const void *x, size_t n, uint64_t first);

/* True when a value of the n is NaN or Inf. */
bool vc_has_nonfinite(enum vc_dtype dtype, const void *x, size_t n);

/* The sentences, VC_E_UNSUPPORTED: "3 of 4096 values are not finite, the first is NaN at [2, 17]; <advice>" and
 * "... are too large for f16, the first is 70000 at ...". `what` is "values", or what else the tensor holds. */
enum vc_status vc_specials_fail_nonfinite(struct vc_ctx *ctx, const struct vc_specials *specials,
                                          const struct vc_desc *tensor, const char *what, const char *advice);
enum vc_status vc_specials_fail_overflow(struct vc_ctx *ctx, const struct vc_specials *specials,
                                         const struct vc_desc *tensor, enum vc_dtype target, const char *advice);

/* What a step does with such values. The state of a step that has a policy begins with it, so that vc_policy_calibrate,
 * vc_policy_explain and vc_policy_forget can be the step's functions. */
struct vc_policy {
    struct vc_specials specials; /* its limit is that of `room` */
    enum vc_nonfinite nonfinite; /* NaN and Inf */
    enum vc_overflow overflow;   /* finite values beyond `room`, for casts */
    enum vc_dtype room;          /* the type whose largest value is meant */
    bool codes;                  /* codes are made: values beyond `room` are treated as Inf is ... */
    bool keeps_large; /* a cast: a tensor with finite values beyond `room` stays as it is, if step->calibrate is set */
    bool strict;      /* ... but refused where that is not "keep": there is no place for them */
    const char *advice; /* on NaN and Inf */
};

/* Adds a step whose state begins with `policy`, which the caller has filled but for `specials`. The state came from
 * vc_calloc_array; the step owns it then, and forgets it with vc_policy_forget. Freed here on failure. step->calibrate
 * is set under the policy "keep". */
enum vc_status vc_policy_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_step_ops *ops,
                                  struct vc_policy *policy, struct vc_step **out);

/* A vc_step_ops.calibrate and .explain. */
enum vc_status vc_policy_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch);
enum vc_status vc_policy_explain(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item);

/* For vc_pass_ops.decide, after calibration under the policy "keep": an item with such values loses the steps of the
 * pass (`step` is freed then) and gets the reason. Other items keep them; step->calibrate is cleared. */
enum vc_status vc_policy_decide(struct vc_ctx *ctx, struct vc_step *step, struct vc_item *item);

/* A vc_step_ops.forget: frees a state that begins with a policy and came from vc_calloc_array. */
void vc_policy_forget(struct vc_ctx *ctx, struct vc_step *step);

/* Ends of sentences: what the user can do. {field} becomes what the program calls that option (vc_option). */
#define VC_ADVICE_NONFINITE "{nonfinite}=keep or zero goes on"
#define VC_ADVICE_OVERFLOW  "{overflow}=inf or sat goes on"
#define VC_ADVICE_EXCLUDE   "{include=false} leaves the tensor as it is"
