/* structured_obs.c - scores by statistics: what the layers that read the units would lose although the others make up
 * for it, unit by unit (the Optimal Brain Surgeon for whole units; E. Kurtic et al., ZipLM, arXiv 2302.04089). With C
 * the damped second moments of the inputs of a layer (passes/statistics/lost_columns.h), M its inverse, u the columns
 * of a unit:
 *
 *     loss of u = tr(W_u (M_uu)^-1 W_u^T) / tr(W C W^T), summed over the layers
 *     the least goes:  W -= W_u (M_uu)^-1 M_u:     M -= M_:u (M_uu)^-1 M_u:
 *
 * The score of a unit that went is the root of what all up to it lost; of one that is left, the same with its own. */
#include <math.h>
#include <string.h>

#include "core/base/checked.h"
#include "passes/decode.h"
#include "passes/statistics/cholesky.h"
#include "passes/statistics/lost_columns.h"
#include "prune/structured/removal.h"

/* A weight that reads the units. */
struct reader {
    const struct vc_coupling_member *member;
    size_t n_rows, k, n_inner, n_own; /* columns; of an entry of the axis, of a unit */
    double *weights, *inverse;
    double total;
    size_t *columns; /* of one unit */
    double *factor;  /* of M_uu */
    double *work;    /* k numbers for each column of a unit, and for each of a row */
};

static void forget(struct vc_ctx *ctx, struct reader *r)
{
    vc_free(ctx, r->weights);
    vc_free(ctx, r->inverse);
    vc_free(ctx, r->columns);
    vc_free(ctx, r->factor);
    vc_free(ctx, r->work);
}

/* M = C^-1 = L^-T L^-1 in its place; the total on the way. */
static bool invert(struct reader *r, double *row)
{
    size_t k = r->k;
    double *m = r->inverse;

    for (size_t i = 0; i < r->n_rows; i++) {
        const double *w = r->weights + i * k;

        for (size_t a = 0; a < k; a++) {
            double sum = 0.0;

            for (size_t b = 0; b < k; b++) {
                sum += m[a * k + b] * w[b];
            }
            r->total += w[a] * sum;
        }
    }
    if (!vc_cholesky_factor(m, k)) {
        return false;
    }
    vc_cholesky_invert(m, k, row);
    for (size_t i = 0; i < k; i++) { /* row i of the product needs rows from i on: row i is free then */
        memset(row, 0, k * sizeof *row);
        for (size_t j = i; j < k; j++) {
            for (size_t l = 0; l <= i; l++) {
                row[l] += m[j * k + i] * m[j * k + l];
            }
        }
        memcpy(m + i * k, row, (i + 1) * sizeof *row);
    }
    for (size_t i = 0; i < k; i++) {
        for (size_t j = i + 1; j < k; j++) {
            m[i * k + j] = m[j * k + i];
        }
    }
    return true;
}

static enum vc_status load(struct vc_ctx *ctx, const struct vc_item *item, const struct vc_calibration *calibration,
                           bool centred, struct reader *r)
{
    size_t k = r->k = (size_t)calibration->row;
    size_t n = (size_t)item->first->shape[0];
    size_t most = k > n ? k : n;
    float *floats = vc_alloc_array(ctx, VC_TAG_TILES, k * most + k, sizeof *floats);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(floats);
    r->n_rows = n;
    r->n_inner = k / (size_t)item->first->shape[1];
    r->n_own = (size_t)(r->member->block * r->member->repeat) * r->n_inner;
    r->weights = vc_alloc_array(ctx, VC_TAG_TILES, n * k, sizeof *r->weights);
    r->inverse = vc_alloc_array(ctx, VC_TAG_TILES, k * k, sizeof *r->inverse);
    r->columns = vc_alloc_array(ctx, VC_TAG_MISC, r->n_own, sizeof *r->columns);
    r->factor = vc_alloc_array(ctx, VC_TAG_MISC, r->n_own * r->n_own, sizeof *r->factor);
    r->work = vc_alloc_array(ctx, VC_TAG_TILES, (r->n_own + 1) * k, sizeof *r->work);
    VC_TRY(r->weights == NULL || r->inverse == NULL || r->columns == NULL || r->factor == NULL || r->work == NULL
               ? VC_E_NOMEM
               : VC_OK);
    VC_TRY(vc_decode_tensor(ctx, item->set->model, item->source, floats, n * k));
    for (size_t i = 0; i < n * k; i++) {
        r->weights[i] = (double)floats[i];
    }
    VC_TRY(vc_lost_columns_load(ctx, calibration, centred, floats, floats + k * k));
    for (size_t i = 0; i < k * k; i++) {
        r->inverse[i] = (double)floats[i];
    }
    if (!invert(r, r->work)) {
        status = vc_fail(ctx, VC_E_FORMAT, "%s: '%s': they are no sums of products of inputs", calibration->file->path,
                         calibration->file->tensors[calibration->moments].name);
    }
out:
    vc_free(ctx, floats);
    return status;
}

/* Lists the columns of the unit, and factors M_uu. */
static bool prepare(struct reader *r, const struct vc_coupling *c, uint64_t unit)
{
    const struct vc_coupling_member *m = r->member;
    size_t n = 0;

    for (uint64_t repeat = 0; repeat < m->repeat; repeat++) {
        for (uint64_t j = 0; j < m->block; j++) {
            for (size_t i = 0; i < r->n_inner; i++) {
                r->columns[n++] = (size_t)vc_unit_place(c, m, repeat, unit, j) * r->n_inner + i;
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            r->factor[i * n + j] = r->inverse[r->columns[i] * r->k + r->columns[j]];
        }
    }
    return vc_cholesky_factor(r->factor, n);
}

/* y = L^-1 w_u of row i, its squared norm. */
static double solve(const struct reader *r, size_t i, double *y)
{
    double norm = 0.0;

    for (size_t a = 0; a < r->n_own; a++) {
        y[a] = r->weights[i * r->k + r->columns[a]];
        for (size_t b = 0; b < a; b++) {
            y[a] -= r->factor[a * r->n_own + b] * y[b];
        }
        y[a] /= r->factor[a * r->n_own + a];
        norm += y[a] * y[a];
    }
    return norm;
}

static double loss_of(struct reader *r, const struct vc_coupling *c, uint64_t unit)
{
    double loss = 0.0;

    if (!prepare(r, c, unit)) {
        return (double)INFINITY;
    }
    for (size_t i = 0; i < r->n_rows; i++) {
        loss += solve(r, i, r->work);
    }
    return r->total > 0.0 ? loss / r->total : 0.0;
}

/* to -= by * from */
static void subtract(double *to, double by, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] -= by * from[i];
    }
}

static void remove_unit(struct reader *r, const struct vc_coupling *c, uint64_t unit)
{
    size_t n = r->n_own;
    size_t k = r->k;
    double *y = r->work + n * k;

    (void)prepare(r, c, unit);
    for (size_t a = 0; a < n; a++) { /* L^-1 M_u: */
        double *row = r->work + a * k;

        memcpy(row, r->inverse + r->columns[a] * k, k * sizeof *row);
        for (size_t b = 0; b < a; b++) {
            subtract(row, r->factor[a * n + b], r->work + b * k, k);
        }
        for (size_t j = 0; j < k; j++) {
            row[j] /= r->factor[a * n + a];
        }
    }
    for (size_t i = 0; i < r->n_rows; i++) {
        (void)solve(r, i, y);
        for (size_t a = 0; a < n; a++) {
            subtract(r->weights + i * k, y[a], r->work + a * k, k);
        }
    }
    for (size_t i = 0; i < k; i++) {
        for (size_t a = 0; a < n; a++) {
            subtract(r->inverse + i * k, r->work[a * k + i], r->work + a * k, k);
        }
    }
}

static enum vc_status list_readers(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                   const struct vc_removal_group *group, struct reader *readers, size_t *n)
{
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < s->n_members; i++) {
        const struct vc_coupling_member *m = s->members[i].member;
        const struct vc_item *item = &plan->items[s->members[i].tensor];
        struct vc_calibration calibration;
        struct vc_item source;
        const char *why = NULL;
        size_t bias;
        bool is;

        if (&s->groups[s->members[i].group] != group || !vc_structured_counts(s, m, 2)) {
            continue;
        }
        VC_TRY(vc_item_make(ctx, item->set, item->source, &source));
        VC_TRY(vc_removal_reader(ctx, s, &source, &calibration, &bias, &is, &why));
        if (is && item->chain->pass_first != 0) {
            return vc_fail(ctx, VC_E_UNSUPPORTED,
                           "%s: an earlier pass changes it, and scores are those of the source; "
                           "write a file in between",
                           m->tensor);
        }
        if (is) {
            readers[*n].member = m;
            VC_TRY(load(ctx, item, &calibration, bias != VC_NO_TENSOR, &readers[(*n)++]));
        }
    }
out:
    return status;
}

enum vc_status vc_structured_obs(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                 struct vc_removal_group *group)
{
    const struct vc_coupling *c = group->coupling;
    bool all = s->options.scope == VC_PRUNE_GLOBAL && !group->own;
    uint64_t n_go = all ? c->n_units - 1 : group->n_go;
    struct reader *readers = vc_calloc_array(ctx, VC_TAG_MISC, s->n_members + 1, sizeof *readers);
    bool *gone = vc_calloc_array(ctx, VC_TAG_SCRATCH, (size_t)c->n_units, sizeof *gone);
    enum vc_status status = VC_OK;
    double lost = 0.0;
    size_t n = 0;

    VC_TRY(readers == NULL || gone == NULL ? VC_E_NOMEM : VC_OK);
    VC_TRY(list_readers(ctx, s, plan, group, readers, &n));
    if (n == 0) {
        status = vc_fail(ctx, VC_E_UNSUPPORTED, "%s: has no second moments of what reads the units of %s",
                         s->options.calibration->path, c->name);
        goto out;
    }
    for (uint64_t t = 0; t <= n_go; t++) {
        uint64_t least = 0;
        double its = (double)INFINITY;

        VC_TRY(vc_check_cancelled(ctx));
        for (uint64_t u = 0; u < c->n_units; u++) {
            double loss = 0.0;

            for (size_t i = 0; i < n && !gone[u]; i++) {
                loss += loss_of(&readers[i], c, u);
            }
            if (!gone[u]) {
                group->scores[u] = sqrt(lost + loss);
                least = loss <= its ? u : least; /* of equal ones the later goes */
                its = loss <= its ? loss : its;
            }
        }
        for (size_t i = 0; i < n && t < n_go; i++) {
            remove_unit(&readers[i], c, least);
        }
        gone[least] = t < n_go;
        lost += its;
    }
    group->n_scored = n;
out:
    for (size_t i = 0; i < n; i++) {
        forget(ctx, &readers[i]);
    }
    vc_free(ctx, readers);
    vc_free(ctx, gone);
    return status;
}
