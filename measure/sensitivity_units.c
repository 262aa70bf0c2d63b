/* sensitivity_units.c - see sensitivity_units.h. */
#include "measure/sensitivity_units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "measure/sensitivity_changes.h"
#include "passes/graph_params.h"

enum vc_status vc_units_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, float **values)
{
    struct vc_place place = vc_place_whole();
    enum vc_status status = VC_OK;

    *values = vc_alloc_array(ctx, VC_TAG_TILES, (size_t)model->tensors[tensor].n_elems + 1, sizeof **values);
    VC_TRY_ALLOC(*values);
    VC_TRY(vc_place_values(ctx, model, tensor, &place, false, *values));
out:
    return status;
}

enum vc_status vc_units_norms(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_coupling *group,
                              double *norms)
{
    enum vc_status status = VC_OK;

    memset(norms, 0, (size_t)group->n_units * sizeof *norms);
    for (size_t k = 0; k < group->n_members && status == VC_OK; k++) {
        size_t tensor = vc_model_find(model, group->members[k].tensor);
        float *values = NULL;

        if (group->members[k].makes) {
            status = vc_units_read(ctx, model, tensor, &values);
        }
        if (values != NULL && status == VC_OK) {
            vc_change_add_norms(group, &group->members[k], &model->tensors[tensor], values, norms);
        }
        vc_free(ctx, values);
    }
    return status;
}

struct scored {
    double norm;
    uint64_t unit;
};

static int smaller_first(const void *a, const void *b)
{
    const struct scored *x = a;
    const struct scored *y = b;

    return x->norm != y->norm ? (x->norm < y->norm ? -1 : 1) : x->unit < y->unit ? -1 : x->unit > y->unit;
}

enum vc_status vc_units_smallest(struct vc_ctx *ctx, const struct vc_coupling *group, const double *norms, uint64_t n,
                                 bool *goes)
{
    struct scored *units = vc_alloc_array(ctx, VC_TAG_MISC, (size_t)group->n_units, sizeof *units);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(units);
    memset(goes, 0, (size_t)group->n_units * sizeof *goes);
    for (uint64_t u = 0; u < group->n_units; u++) {
        units[u] = (struct scored){norms[u], u};
    }
    qsort(units, (size_t)group->n_units, sizeof *units, smaller_first);
    for (uint64_t u = 0; u < n; u++) {
        goes[units[u].unit] = true;
    }
out:
    vc_free(ctx, units);
    return status;
}

double vc_units_share(const struct vc_coupling *group, const double *norms, const bool *goes)
{
    double all = 0.0;
    double gone = 0.0;

    for (uint64_t u = 0; u < group->n_units; u++) {
        all += norms[u];
        gone += goes[u] ? norms[u] : 0.0;
    }
    return all == 0.0 ? 0.0 : sqrt(gone / all);
}
