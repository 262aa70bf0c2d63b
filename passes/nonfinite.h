/* nonfinite.h - finding NaN, Inf and values too large for a type in a tile of any float type, and telling about them.
 */
#ifndef VC_PASSES_NONFINITE_H
#define VC_PASSES_NONFINITE_H

#include <pthread.h>

#include "core/job/pass.h"

/* What a survey of a tensor found. */
struct vc_finding {
    pthread_mutex_t mutex;
    uint64_t nonfinite; /* how many */
    uint64_t first;     /* flat index of the first; UINT64_MAX when there is none */
    bool first_is_nan;
    uint64_t overflows; /* finite values beyond `limit` */
    uint64_t first_overflow;
    double first_overflow_value;
    double limit; /* largest magnitude that does not overflow; INFINITY: none does */
};

/* The largest f64 that rounds to a finite value of that float type, or that Q8_0 has room for; for F64 INFINITY. */
double vc_largest_fitting(enum vc_dtype target);

enum vc_status vc_finding_init(struct vc_ctx *ctx, struct vc_finding *finding, double limit);
void vc_finding_release(struct vc_finding *finding);

/* Adds the n values at x, the first of which has that flat index. Thread-safe. */
void vc_finding_add(struct vc_finding *finding, enum vc_dtype dtype, const void *x, size_t n, uint64_t first);

/* True when a value of the n is NaN or Inf. */
bool vc_has_nonfinite(enum vc_dtype dtype, const void *x, size_t n);

/* The sentences, VC_E_UNSUPPORTED: "3 of 4096 values are not finite, the first is NaN at [2, 17]; <advice>" and
 * "... are too large for f16, the first is 70000 at ...". `what` is "values", or what else the tensor holds. */
enum vc_status vc_finding_fail_nonfinite(struct vc_ctx *ctx, const struct vc_finding *finding,
                                         const struct vc_tensor *tensor, const char *what, const char *advice);
enum vc_status vc_finding_fail_overflow(struct vc_ctx *ctx, const struct vc_finding *finding,
                                        const struct vc_tensor *tensor, enum vc_dtype target, const char *advice);

/* Advice; {field} becomes what the program calls that option (vc_option). */
#define VC_ADVICE_NONFINITE "{nonfinite}=keep or zero goes on"
#define VC_ADVICE_OVERFLOW  "{overflow}=inf or sat goes on"
#define VC_ADVICE_EXCLUDE   "{include=false} leaves the tensor as it is"

#endif
