/* nonfinite.c - see nonfinite.h. Values are judged by their bits, so no comparison of NaN is involved.
 *
 * A tile without such values, which is the usual one, takes one walk that vectors can do (ANY). Only where that says so,
 * or where values of the type may be too large for the target, each value is looked at. */
#include "passes/nonfinite.h"

#include "core/text/text.h"
#include "kernels/arith.h"

/* The largest magnitude that the type takes without becoming infinite, as f64. */
double vc_largest_fitting(enum vc_dtype target)
{
    switch (target) {
    case VC_DTYPE_F16:
        return 65519.99999999999; /* below the tie at 65520, which goes to Inf */
    case VC_DTYPE_BF16:
        return 3.3961775292304597e38; /* 0x7f7f8000 as f32 is the tie that goes to Inf: the f64 below it */
    case VC_DTYPE_F32:
        return 3.4028235677973362e38; /* below the tie between FLT_MAX and 2^128 */
    case VC_DTYPE_F8_E4M3:
        return 464.0; /* the tie between 448 and NaN, which goes to 448 */
    case VC_DTYPE_F8_E5M2:
        return 61439.998; /* below the tie of f32 that goes to 61440, between 57344 and Inf */
    case VC_DTYPE_Q8_0:
        return 8321039.749999999; /* below the tie of f32 that goes to 8321040, whose step is infinite as f16 */
    case VC_DTYPE_MXFP4:
        return 5.1e38; /* no f32 is beyond 6 * 2^126 */
    case VC_DTYPE_NVFP4:
        return 2688.0; /* 6 * 448, without a number beside the blocks */
    case VC_DTYPE_Q4_0:
    case VC_DTYPE_Q4_1:
    case VC_DTYPE_Q5_0:
    case VC_DTYPE_Q5_1:
    case VC_DTYPE_Q2_K:
    case VC_DTYPE_Q3_K:
    case VC_DTYPE_Q4_K:
    case VC_DTYPE_Q5_K:
    case VC_DTYPE_Q6_K:
    case VC_DTYPE_IQ4_NL:
    case VC_DTYPE_IQ4_XS:
    case VC_DTYPE_Q1_0:
    case VC_DTYPE_Q2_0:
    case VC_DTYPE_TQ1_0:
    case VC_DTYPE_TQ2_0:
        return 65504.0; /* the largest f16: steps and minima of every type have one for such values */
    default:
        return (double)INFINITY;
    }
}

enum vc_status vc_specials_init(struct vc_ctx *ctx, struct vc_specials *specials, double limit)
{
    *specials = (struct vc_specials){.first = UINT64_MAX, .first_overflow = UINT64_MAX, .limit = limit};
    VC_REFUSE_IF(pthread_mutex_init(&specials->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
    return VC_OK;
}

void vc_specials_release(struct vc_specials *specials)
{
    (void)pthread_mutex_destroy(&specials->mutex);
}

/* Loads go through memcpy: tiles of stored members may be unaligned for their type. */
static uint16_t load16(const unsigned char *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Value i as f64, which holds all of these types exactly. */
static double load_value(enum vc_dtype dtype, const void *x, size_t i)
{
    const unsigned char *p = x;
    float f;
    double d;

    switch (dtype) {
    case VC_DTYPE_F16:
        return (double)vc_f16_to_f32(load16(p + 2 * i));
    case VC_DTYPE_BF16:
        return (double)vc_bf16_to_f32(load16(p + 2 * i));
    case VC_DTYPE_F32:
        memcpy(&f, p + 4 * i, sizeof f);
        return (double)f;
    default:
        memcpy(&d, p + 8 * i, sizeof d);
        return d;
    }
}

/* Exponent bits that are all ones carry into the sign bit, once one is added to the lowest of them; no other magnitude
 * does. So three operations an element, which the plainest vectors have. */
#define ANY(name, word, abs_mask, one)                                  \
    static bool name(const unsigned char *p, size_t n)                  \
    {                                                                   \
        word any = 0;                                                   \
                                                                        \
        for (size_t i = 0; i < n; i++) {                                \
            word m;                                                     \
                                                                        \
            memcpy(&m, p + i * sizeof m, sizeof m);                     \
            any = (word)(any | ((word)(m & (abs_mask)) + (word)(one))); \
        }                                                               \
        return any > (abs_mask);                                        \
    }

ANY(any_f16, uint16_t, 0x7fffu, 0x400u)
ANY(any_bf16, uint16_t, 0x7fffu, 0x80u)
ANY(any_f32, uint32_t, 0x7fffffffu, 0x800000u)
ANY(any_f64, uint64_t, 0x7fffffffffffffffu, 0x10000000000000u)

/* The walk for the type. */
bool vc_has_nonfinite(enum vc_dtype dtype, const void *x, size_t n)
{
    switch (dtype) {
    case VC_DTYPE_F16:
        return any_f16(x, n);
    case VC_DTYPE_BF16:
        return any_bf16(x, n);
    case VC_DTYPE_F32:
        return any_f32(x, n);
    default:
        return any_f64(x, n);
    }
}

/* Found in the tile first, without the lock. "The first" is the one with the least index, whatever the
 * order of tiles. */
void vc_specials_add(struct vc_specials *specials, enum vc_dtype dtype, const void *x, size_t n, uint64_t first)
{
    struct vc_specials found = {.first = UINT64_MAX, .first_overflow = UINT64_MAX};

    if (specials->limit >= vc_largest_fitting(dtype) && !vc_has_nonfinite(dtype, x, n)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        double v = load_value(dtype, x, i);

        if (!isfinite(v)) {
            if (found.nonfinite++ == 0) {
                found.first = first + i;
                found.first_is_nan = isnan(v);
            }
        } else if (fabs(v) > specials->limit && found.overflows++ == 0) {
            found.first_overflow = first + i;
            found.first_overflow_value = v;
        }
    }
    (void)pthread_mutex_lock(&specials->mutex);
    specials->nonfinite += found.nonfinite;
    specials->overflows += found.overflows;
    if (found.first < specials->first) {
        specials->first = found.first;
        specials->first_is_nan = found.first_is_nan;
    }
    if (found.first_overflow < specials->first_overflow) {
        specials->first_overflow = found.first_overflow;
        specials->first_overflow_value = found.first_overflow_value;
    }
    (void)pthread_mutex_unlock(&specials->mutex);
}

/* "[2, 17]" for a flat index. */
static void format_index(const struct vc_desc *tensor, uint64_t flat, char *text, size_t capacity)
{
    uint64_t index[VC_MAX_DIMS];
    char inner[240];

    for (unsigned d = tensor->n_dims; d-- > 0;) {
        index[d] = flat % tensor->shape[d];
        flat /= tensor->shape[d];
    }
    (void)snprintf(text, capacity, "[%s]", vc_shape_text(index, tensor->n_dims, inner, sizeof inner));
}

#define ADVICE_BYTES 128

/* "{nonfinite}=keep or zero goes on" as "--nonfinite=keep or zero goes on" where the program is the command. */
static const char *format_advice(const struct vc_ctx *ctx, const char *advice, char text[ADVICE_BYTES])
{
    const char *open = strchr(advice, '{');
    const char *close = open != NULL ? strchr(open, '}') : NULL;
    char field[32];

    if (close == NULL) {
        return advice;
    }
    (void)snprintf(field, sizeof field, "%.*s", (int)(close - open - 1), open + 1);
    (void)snprintf(text, ADVICE_BYTES, "%.*s%s%s", (int)(open - advice), advice, vc_option(ctx, field), close + 1);
    return text;
}

/* "3 of 4096 values are not finite, the first is NaN at [2, 17]; --nonfinite=keep or zero goes on". */
enum vc_status vc_specials_fail_nonfinite(struct vc_ctx *ctx, const struct vc_specials *specials,
                                          const struct vc_desc *tensor, const char *what, const char *advice)
{
    char where[256], text[ADVICE_BYTES];

    format_index(tensor, specials->first, where, sizeof where);
    return vc_fail(ctx, VC_E_UNSUPPORTED, "%llu of %llu %s are not finite, the first is %s at %s; %s",
                   (unsigned long long)specials->nonfinite, (unsigned long long)tensor->n_elems, what,
                   specials->first_is_nan ? "NaN" : "Inf", where, format_advice(ctx, advice, text));
}

enum vc_status vc_specials_fail_overflow(struct vc_ctx *ctx, const struct vc_specials *specials,
                                         const struct vc_desc *tensor, enum vc_dtype target, const char *advice)
{
    char where[256], text[ADVICE_BYTES];

    format_index(tensor, specials->first_overflow, where, sizeof where);
    return vc_fail(ctx, VC_E_UNSUPPORTED, "%llu of %llu values are too large for %s, the first is %g at %s; %s",
                   (unsigned long long)specials->overflows, (unsigned long long)tensor->n_elems, vc_dtype_name(target),
                   specials->first_overflow_value, where, format_advice(ctx, advice, text));
}

/* ---- policies ---- */

/* Only the policy "keep" needs to know about all values before anything is written, which a walk over the
 * tensor costs; under the others each tile deals with its own. */
enum vc_status vc_policy_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_step_ops *ops,
                                  struct vc_policy *policy, struct vc_step **out)
{
    if (vc_specials_init(ctx, &policy->specials, vc_largest_fitting(policy->room)) != VC_OK) {
        vc_free(ctx, policy);
        return ctx->status;
    }
    struct vc_step *step = vc_item_add_step(ctx, item, ops);
    if (step == NULL) {
        vc_specials_release(&policy->specials);
        vc_free(ctx, policy);
        return ctx->status;
    }
    step->state = policy;
    step->calibrate = policy->nonfinite == VC_NONFINITE_KEEP;
    *out = step;
    return VC_OK;
}

void vc_policy_forget(struct vc_ctx *ctx, struct vc_step *step)
{
    vc_specials_release(&((struct vc_policy *)step->state)->specials);
    vc_free(ctx, vc_give(&step->state));
}

/* Called for each tile of that walk, from any thread. */
enum vc_status vc_policy_calibrate(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                                   const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch)
{
    struct vc_policy *policy = step->state;

    vc_specials_add(&policy->specials, step->in.dtype, in->data, tile->n_elems, tile->first);
    return VC_OK;
}

/* The sentence for what was found, by the policy; VC_OK: it says to go on. */
enum vc_status vc_policy_explain(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item)
{
    const struct vc_policy *policy = step->state;
    const struct vc_specials *specials = &policy->specials;
    bool stops = policy->nonfinite == VC_NONFINITE_ERROR;

    if (stops && specials->nonfinite != 0) {
        return vc_specials_fail_nonfinite(ctx, specials, &step->in, "values", policy->advice);
    }
    if (policy->codes) {
        return specials->overflows != 0 && (stops || policy->strict)
                   ? vc_specials_fail_overflow(ctx, specials, &step->in, policy->room,
                                               policy->strict ? VC_ADVICE_EXCLUDE
                                                              : "int8 codes are made from f32: " VC_ADVICE_NONFINITE)
                   : VC_OK;
    }
    return specials->overflows != 0 && policy->overflow == VC_OVERFLOW_ERROR
               ? vc_specials_fail_overflow(ctx, specials, &step->in, policy->room,
                                           policy->room == VC_DTYPE_F8_E4M3 ? "{overflow}=sat goes on"
                                                                            : VC_ADVICE_OVERFLOW)
               : VC_OK;
}

/* Called when all tiles were counted: does the tensor stay as it is (values that are not finite or too
 * large for the type), or are steps added as planned? */
enum vc_status vc_policy_decide(struct vc_ctx *ctx, struct vc_step *step, struct vc_item *item)
{
    const struct vc_policy *policy = step->state;
    uint64_t nonfinite = policy->specials.nonfinite;
    uint64_t beyond = policy->codes || policy->keeps_large ? policy->specials.overflows : 0;
    bool keeps = policy->nonfinite == VC_NONFINITE_KEEP;
    enum vc_status status = VC_OK;

    step->calibrate = false;
    if (!(keeps && nonfinite != 0) &&
        !(beyond != 0 &&
          (keeps || (policy->keeps_large && (nonfinite == 0 || policy->nonfinite == VC_NONFINITE_ZERO))))) {
        return vc_policy_explain(ctx, step, item);
    }
    if (keeps && nonfinite != 0) {
        status = vc_item_keep(ctx, item, "%llu values not finite", (unsigned long long)nonfinite);
    } else {
        status = vc_item_keep(ctx, item, "%llu values too large for %s", (unsigned long long)beyond,
                              vc_dtype_name(policy->room));
    }
    vc_item_undo(ctx, item); /* frees the policy, too */
    return status;
}
