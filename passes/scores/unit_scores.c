/* unit_scores.c - see unit_scores.h. */
#include "passes/scores/unit_scores.h"

#include <math.h>

#include "core/base/ctx.h"

#define MOST_DIGITS 9

/* ---- scores ---- */

/* Squares become a norm. */
static double score_of(const struct vc_unit_scores *to, double sum)
{
    return to->power == 2 ? sqrt(sum) : sum;
}

/* The sums over a unit's places, in the order of repeats. */
static double unit_score(const struct vc_unit_scores *to, const struct vc_coupling_member *member, const double *sum,
                         uint64_t u)
{
    double total = 0;

    for (uint64_t r = 0; r < member->repeat; r++) {
        for (uint64_t j = 0; j < member->block; j++) {
            total += sum[vc_unit_place(to->coupling, member, r, u, j)];
        }
    }
    return score_of(to, total);
}

/* The member's scores, divided by their mean. A member of zeros tells nothing apart. */
enum vc_status vc_unit_scores_add(struct vc_ctx *ctx, struct vc_unit_scores *to,
                                  const struct vc_coupling_member *member, const double *sum)
{
    uint64_t n = to->coupling->n_units;
    double mean = 0;

    for (uint64_t u = 0; u < n; u++) {
        mean += unit_score(to, member, sum, u);
    }
    mean /= (double)n;
    VC_REFUSE_IF(!isfinite(mean), ctx, VC_E_UNSUPPORTED,
                 "%s: has NaN or infinite values, or values whose sum is infinite, so its rows and columns cannot "
                 "be compared (%s keeps its group)",
                 member->tensor, vc_option(ctx, "include=false"));
    for (uint64_t u = 0; mean > 0 && u < n; u++) {
        to->scores[u] += unit_score(to, member, sum, u) / mean;
    }
    to->n_scored++;
    return VC_OK;
}

/* By the part of the unit that a tensor is, then by unit. */
static int by_rest(const void *a, const void *b)
{
    const struct vc_unit_part *x = a;
    const struct vc_unit_part *y = b;
    int order = strcmp(x->rest, y->rest);

    return order != 0 ? order : (x->unit > y->unit) - (x->unit < y->unit);
}

/* Tensors that are the same part of all units: like one member with an entry for each. */
static enum vc_status add_part(struct vc_ctx *ctx, struct vc_unit_scores *to, const struct vc_unit_part *parts,
                               size_t n)
{
    double mean = 0;

    for (size_t i = 0; i < n; i++) {
        mean += score_of(to, parts[i].sum);
    }
    mean /= (double)n;
    VC_REFUSE_IF(!isfinite(mean), ctx, VC_E_UNSUPPORTED,
                 "%s and the tensors beside it: have NaN or infinite values, or values whose sum is infinite, so "
                 "they cannot be compared (%s keeps their group)",
                 parts[0].name, vc_option(ctx, "include=false"));
    VC_REFUSE_IF(n != to->coupling->n_units, ctx, VC_E_UNSUPPORTED,
                 "%s: %zu of the %llu units of %s have such a tensor, so they cannot be compared; name those that "
                 "go (%s)",
                 parts[0].name, n, (unsigned long long)to->coupling->n_units, to->coupling->name,
                 vc_option(ctx, "remove"));
    for (size_t i = 0; mean > 0 && i < n; i++) {
        to->scores[parts[i].unit] += score_of(to, parts[i].sum) / mean;
    }
    to->n_scored++;
    return VC_OK;
}

/* Each run of equal parts is like one member. */
enum vc_status vc_unit_scores_add_parts(struct vc_ctx *ctx, struct vc_unit_scores *to, struct vc_unit_part *parts,
                                        size_t n)
{
    size_t end;

    if (n != 0) {
        qsort(parts, n, sizeof *parts, by_rest);
    }
    for (size_t i = 0; i < n; i = end) {
        for (end = i; end < n && strcmp(parts[i].rest, parts[end].rest) == 0;) {
            end++;
        }
        VC_CALL(add_part(ctx, to, parts + i, end - i));
    }
    return VC_OK;
}

void vc_unit_scores_end(struct vc_unit_scores *to)
{
    for (uint64_t u = 0; to->n_scored > 1 && u < to->coupling->n_units; u++) {
        to->scores[u] /= (double)to->n_scored;
    }
}

/* ---- the order ---- */

/* The order in which units go, as unit_scores.h has it. */
static int by_score(const void *a, const void *b)
{
    const struct vc_ranked_unit *x = a;
    const struct vc_ranked_unit *y = b;

    if (x->score != y->score) {
        return x->score < y->score ? -1 : 1;
    }
    if (x->group != y->group) {
        return x->group > y->group ? -1 : 1;
    }
    return x->unit > y->unit ? -1 : x->unit < y->unit;
}

void vc_ranked_units_sort(struct vc_ranked_unit *units, size_t n)
{
    if (n != 0) {
        qsort(units, n, sizeof *units, by_score);
    }
}

/* ---- names of units that are tensors ---- */

/* The longest beginning that all names share, without digits at its end: of experts.10 and experts.12 the
 * shared part is "experts.1", and the number begins before the 1. */
struct vc_unit_names vc_unit_names_of(const struct vc_coupling *coupling)
{
    struct vc_unit_names names = {.prefix = NULL};

    for (size_t i = 0; i < coupling->n_members; i++) {
        const char *name = coupling->members[i].tensor;
        size_t k = 0;

        if (!coupling->members[i].whole) {
            continue;
        }
        if (names.prefix == NULL) {
            names = (struct vc_unit_names){name, strlen(name)};
        }
        while (k < names.n_prefix && name[k] == names.prefix[k]) {
            k++;
        }
        names.n_prefix = k;
    }
    while (names.prefix != NULL && names.n_prefix > 0 && names.prefix[names.n_prefix - 1] >= '0' &&
           names.prefix[names.n_prefix - 1] <= '9') {
        names.n_prefix--;
    }
    return names;
}

/* Reads the number behind the prefix. Numbers with a 0 in front are none, and neither is one that a name
 * goes on after. */
bool vc_unit_names_take(const struct vc_unit_names *names, const char *name, uint64_t *unit, const char **rest)
{
    size_t n;

    if (names->prefix == NULL || strncmp(name, names->prefix, names->n_prefix) != 0) {
        return false;
    }
    const char *digits = name + names->n_prefix;
    for (n = 0, *unit = 0; digits[n] >= '0' && digits[n] <= '9' && n < MOST_DIGITS; n++) {
        *unit = 10 * *unit + (uint64_t)(digits[n] - '0');
    }
    *rest = digits + n;
    return n != 0 && !(digits[0] == '0' && n > 1) && (**rest == '.' || **rest == '/' || **rest == '\0');
}
