/* sensitivity_advice.c - which tensors stand out, from the figures of all of them: those whose error is far above the
 * median. What is far is a matter of taste and is written down in sensitivity.h; the rest is counting. */
#include <math.h>

#include "core/base/array.h"
#include "measure/sensitivity/sensitivity_parts.h"

#define PRUNE_FACTOR    1.25
#define QUANTIZE_FACTOR 2.0
#define MEASURED_FACTOR 2.0 /* of what outputs lose, which differs more from tensor to tensor */

/* The number of the candidate with this name; VC_NO_TENSOR if there is no such candidate. */
static size_t find_candidate(const struct vc_sensitivity *s, const char *name)
{
    size_t i = 0;

    while (i < s->n_candidates && strcmp(s->candidates[i].name, name) != 0) {
        i++;
    }
    return i < s->n_candidates ? i : VC_NO_TENSOR;
}

/* With data: what the outputs lose if the row is changed by the candidate, NaN where it was not measured.
 * Candidates of a measurement with data are some of all; m->candidates has their numbers. */
static double change_of(const struct vc_sensitivity *s, const struct vc_sensitivity_row *row, size_t candidate)
{
    const struct vc_measured *m = s->measured;

    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct vc_measured_tensor *tensor = &m->tensors[i];

        for (size_t k = 0; &s->rows[tensor->row] == row && tensor->changes != NULL && k < m->n_candidates; k++) {
            if (m->candidates[k] == candidate) {
                return tensor->changes[k].reason != NULL ? (double)NAN : tensor->changes[k].relative;
            }
        }
    }
    return (double)NAN;
}

/* The figure that rows are compared by, or NaN: it has none, or the command would leave the tensor alone by
 * itself. With data it is what the outputs lose, else the error of the weights. */
static double error_of(const struct vc_sensitivity *s, const struct vc_sensitivity_row *row, size_t candidate)
{
    bool kept = s->candidates[candidate].kind == VC_SENSITIVITY_SCHEME ? row->n_elems < VC_DEFAULT_MIN_ELEMS
                                                                       : row->prune_keeps != NULL;

    if (row->errors == NULL || row->errors[candidate].reason != NULL || kept) {
        return (double)NAN;
    }
    return s->measured != NULL ? change_of(s, row, candidate) : row->errors[candidate].relative;
}

/* The highest sparsity up to which the row's error is within the limit; with data, of those that were
 * measured. 0: none is. */
static unsigned percent_within(const struct vc_sensitivity *s, const struct vc_sensitivity_row *row, double limit)
{
    unsigned percent = 0;

    for (size_t i = 0; i < s->n_candidates && s->candidates[i].kind == VC_SENSITIVITY_MAGNITUDE; i++) {
        double error = error_of(s, row, i);

        if (error > limit) {
            break; /* what is fine again beyond it is luck */
        }
        percent = error <= limit ? s->candidates[i].percent : percent; /* NaN: not measured */
    }
    return percent;
}

/* Equal ones in the order of the rows, so that the result does not depend on the sort. */
static int worst_first(const void *a, const void *b)
{
    const struct vc_sensitivity_pick *x = a;
    const struct vc_sensitivity_pick *y = b;

    if (x->relative != y->relative) {
        return x->relative > y->relative ? -1 : 1;
    }
    return x->row < y->row ? -1 : x->row > y->row;
}

/* The rows whose error with the candidate is above the limit: a factor times the median of all rows. The
 * median does not move when one tensor is far off, as a mean would.
 *
 *     errors 0.02 0.03 0.03 0.04 0.21      median 0.03     limit 0.06 with a factor of 2     picked: the last one
 *
 * `errors` and `picks` have room for all rows. */
static void advise(const struct vc_sensitivity *s, const char *candidate, double factor, double *errors,
                   struct vc_sensitivity_pick *picks, struct vc_sensitivity_advice *advice)
{
    size_t number = find_candidate(s, candidate);
    size_t n = 0;

    *advice = (struct vc_sensitivity_advice){.candidate = VC_NO_TENSOR, .picks = picks};
    for (size_t i = 0; number != VC_NO_TENSOR && i < s->n_rows; i++) {
        errors[n] = error_of(s, &s->rows[i], number);
        n += isfinite(errors[n]) ? 1 : 0;
    }
    if (n == 0) {
        return;
    }
    qsort(errors, n, sizeof *errors, vc_order_f64);
    advice->candidate = number;
    advice->median = n % 2 != 0 ? errors[n / 2] : (errors[n / 2 - 1] + errors[n / 2]) / 2.0;
    advice->limit = (s->measured != NULL ? MEASURED_FACTOR : factor) * advice->median;
    for (size_t i = 0; i < s->n_rows; i++) {
        double error = error_of(s, &s->rows[i], number);

        if (error > advice->limit) { /* never of NaN; infinite: outputs that are no numbers */
            picks[advice->n_picks++] =
                (struct vc_sensitivity_pick){.row = i,
                                             .relative = error,
                                             .percent = s->candidates[number].kind == VC_SENSITIVITY_MAGNITUDE
                                                            ? percent_within(s, &s->rows[i], advice->limit)
                                                            : 0};
        }
    }
    if (advice->n_picks != 0) {
        qsort(picks, advice->n_picks, sizeof *picks, worst_first);
    }
}

/* Two advices: what pruning half of the values, and 8-bit codes with a scale by channel, do to each tensor.
 * Called again when there are measurements with data; the picks of before are replaced. */
enum vc_status vc_sensitivity_advise(struct vc_ctx *ctx, struct vc_sensitivity_owned *owned)
{
    struct vc_sensitivity *s = &owned->result;
    VC_SCOPED double *errors = vc_alloc_array(ctx, VC_TAG_MISC, s->n_rows + 1, sizeof *errors);

    VC_CALL_ALLOC(errors);
    vc_free(ctx, owned->picks);
    VC_CALL(VC_ZEROS(ctx, VC_TAG_REPORT, owned->picks, 2 * s->n_rows + 1));
    advise(s, "50%", PRUNE_FACTOR, errors, owned->picks, &s->prune);
    advise(s, "int8/channel", QUANTIZE_FACTOR, errors, owned->picks + s->n_rows, &s->quantize);
    return VC_OK;
}
