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

#include "passes/decode.h"
#include "passes/statistics/cholesky.h"
#include "passes/statistics/lost_columns.h"
#include "prune/structured/removal.h"

#define SIDES VC_CHOLESKY_SIDES

/* A weight that reads the units. */
struct reader {
    const struct vc_coupling_member *member;
    size_t k, width, n_inner, n_own; /* columns; these and rows; columns of an entry of the axis, of a unit */
    double *table;                   /* [k][width]: M, then W^T */
    double *factor, *y;              /* of a unit: M_uu = L L^T; L^-1 of its rows of the table */
    double total;
};

/* M by its columns, SIDES at a time. factor: of C. Solves C x = e_j for SIDES unit vectors at once. */
static void invert(struct reader *r, const double *factor, double *y)
{
    size_t k = r->k;

    for (size_t j = 0; j < k; j += SIDES) {
        size_t n = k - j < SIDES ? k - j : SIDES;

        memset(y, 0, k * SIDES * sizeof *y);
        for (size_t i = 0; i < n; i++) {
            y[(j + i) * SIDES + i] = 1.0;
        }
        vc_cholesky_solve(factor, k, y);
        for (size_t i = 0; i < k; i++) {
            memcpy(r->table + i * r->width + j, y + i * SIDES, n * sizeof *y);
        }
    }
}

/* The table of a reader: M and the transposed weights side by side, so that removing a unit changes both in one pass.
 * total = tr(W C W^T), the size of what the layer answers. */
static enum vc_status load(struct vc_ctx *ctx, const struct vc_item *item, const struct vc_calibration *calibration,
                           bool centred, struct reader *r)
{
    size_t k = r->k = (size_t)calibration->row;
    size_t n = (size_t)item->first->shape[0];
    VC_SCOPED float *floats = vc_alloc_array(ctx, VC_TAG_TILES, k * (k > n ? k : n) + k, sizeof *floats);
    VC_SCOPED double *c = vc_alloc_array(ctx, VC_TAG_TILES, k * (k + SIDES), sizeof *c);

    r->width = k + n;
    r->n_inner = k / (size_t)item->first->shape[1];
    r->n_own = (size_t)(r->member->block * r->member->repeat) * r->n_inner;
    r->table = vc_alloc_array(ctx, VC_TAG_TILES, k * r->width, sizeof *r->table);
    r->factor = vc_alloc_array(ctx, VC_TAG_MISC, r->n_own * r->n_own, sizeof *r->factor);
    r->y = vc_alloc_array(ctx, VC_TAG_TILES, r->n_own * r->width, sizeof *r->y);
    VC_CALL(floats == NULL || c == NULL || r->table == NULL || r->factor == NULL || r->y == NULL ? VC_E_NOMEM : VC_OK);
    VC_CALL(vc_decode_tensor(ctx, item->set->model, item->source, floats, n * k));
    /* W^T behind M */
    for (size_t i = 0; i < n * k; i++) {
        r->table[i % k * r->width + k + i / k] = (double)floats[i];
    }
    /* C, damped */
    VC_CALL(vc_lost_columns_load(ctx, calibration, centred, floats, floats + k * k));
    for (size_t i = 0; i < k * k; i++) {
        c[i] = (double)floats[i];
        for (size_t j = k; j < r->width; j++) {
            r->total += c[i] * r->table[i / k * r->width + j] * r->table[i % k * r->width + j];
        }
    }
    /* C = L L^T, then M = C^-1 */
    VC_CALL(vc_calibration_factor(ctx, calibration, c, k));
    invert(r, c, c + k * k);
    return VC_OK;
}

/* Column number i of the unit, in the order of the weight: i counts repeats, then the block, then the kernel's
 * elements. */
static size_t column(const struct reader *r, const struct vc_coupling *c, uint64_t unit, size_t i)
{
    size_t of_block = (size_t)r->member->block * r->n_inner;

    return (size_t)vc_unit_place(c, r->member, i / of_block, unit, i % of_block / r->n_inner) * r->n_inner +
           i % r->n_inner;
}

/* to -= by * from */
static void subtract(double *to, double by, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] -= by * from[i];
    }
}

/* L^-1 of the rows of the unit, of the table from that column on. False: M_uu is not positive definite any more, by
 * rounding; the unit then costs infinitely much. */
static bool solve(struct reader *r, const struct vc_coupling *c, uint64_t unit, size_t from)
{
    size_t n = r->n_own;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            r->factor[i * n + j] = r->table[column(r, c, unit, i) * r->width + column(r, c, unit, j)];
        }
    }
    if (!vc_cholesky_factor(r->factor, n)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        double *y = r->y + i * r->width;

        memcpy(y, r->table + column(r, c, unit, i) * r->width, r->width * sizeof *y);
        for (size_t j = 0; j < i; j++) {
            subtract(y + from, r->factor[i * n + j], r->y + j * r->width + from, r->width - from);
        }
        for (size_t j = from; j < r->width; j++) {
            y[j] /= r->factor[i * n + i];
        }
    }
    return true;
}

/* The squares of L^-1 W_u^T, as a share of the total. */
static double loss_of(struct reader *r, const struct vc_coupling *c, uint64_t unit)
{
    double loss = 0.0;

    if (!solve(r, c, unit, r->k)) {
        return (double)INFINITY;
    }
    for (size_t i = 0; i < r->n_own; i++) {
        for (size_t j = r->k; j < r->width; j++) {
            loss += r->y[i * r->width + j] * r->y[i * r->width + j];
        }
    }
    return r->total > 0.0 ? loss / r->total : 0.0;
}

/* All columns of the unit leave M and the weights. */
static void remove_unit(struct reader *r, const struct vc_coupling *c, uint64_t unit)
{
    (void)solve(r, c, unit, 0);
    for (size_t i = 0; i < r->k; i++) {
        for (size_t j = 0; j < r->n_own; j++) {
            subtract(r->table + i * r->width, r->y[j * r->width + i], r->y + j * r->width, r->width);
        }
    }
}

/* Weights that read the group's units, with their statistics and tables; *n counts them, also after a failure. */
static enum vc_status list_readers(struct vc_ctx *ctx, const struct vc_structured *s, const struct vc_plan *plan,
                                   const struct vc_removal_group *group, struct reader *readers, size_t *n)
{
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
        VC_CALL(vc_item_make(ctx, item->set, item->source, &source));
        VC_CALL(vc_removal_reader(ctx, s, &source, &calibration, &bias, &is, &why));
        VC_REFUSE_IF(is && item->chain->pass_first != 0, ctx, VC_E_UNSUPPORTED,
                     "%s: an earlier pass changes it, and scores are those of the source; write a file in between",
                     m->tensor);
        if (is) {
            readers[*n].member = m;
            VC_CALL(load(ctx, item, &calibration, bias != VC_NO_TENSOR, &readers[(*n)++]));
        }
    }
    return VC_OK;
}

/* Greedy: in each step the unit with the least loss goes, and the tables of all readers follow. The step after the last
 * one only scores what stays. Cost: n_go steps of n_units losses. */
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
        VC_FREE_ALL(ctx, readers[i].table, readers[i].factor, readers[i].y);
    }
    VC_FREE_ALL(ctx, readers, gone);
    return status;
}
