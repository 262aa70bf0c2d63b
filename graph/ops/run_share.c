/* run_share.c - what the definitions share and what has nothing to do with the type of floats: counts, lists of
 * axes, views, the number of elements of Range (also for inference). */
#include <math.h>

#include "graph/ops/ops.h"
#include "graph/ops/run.h"

size_t vc_run_count(const struct vc_run_value *x, unsigned first, unsigned end)
{
    size_t n = 1;

    if (x->n == 0) { /* the product of the others may overflow */
        return 0;
    }
    for (unsigned k = first; k < end; k++) {
        n *= (size_t)x->shape[k];
    }
    return n;
}

bool vc_run_expect(struct vc_run *run, unsigned k, const char *what, size_t n)
{
    if (k < run->n_in && run->in[k] != NULL && run->in[k]->n != n) {
        vc_run_fail(run, "the %s has %zu elements; %zu are needed", what, run->in[k]->n, n);
        return false;
    }
    return run->status == VC_OK;
}

size_t vc_run_axes(const struct vc_run *run, unsigned k, unsigned n_dims, bool *marked)
{
    const struct vc_run_value *list = k < run->n_in ? run->in[k] : NULL;

    memset(marked, 0, VC_GRAPH_MAX_DIMS * sizeof *marked);
    for (size_t i = 0; list != NULL && i < list->n; i++) {
        marked[vc_run_axis(((const int64_t *)list->data)[i], n_dims)] = true;
    }
    return list != NULL ? list->n : 0;
}

/* Steps of a value in C order: [2, 3, 4] has 12, 4, 1. For a value without elements the steps mean nothing, and
 * their product could overflow: they stay 1. */
struct vc_run_view vc_run_view_of(const struct vc_run_value *x)
{
    struct vc_run_view view = {.n_dims = x->n_dims};
    int64_t step = 1;

    for (unsigned k = x->n_dims; k-- > 0;) {
        view.shape[k] = x->shape[k];
        view.step[k] = step;
        step *= x->n == 0 ? 1 : x->shape[k];
    }
    return view;
}

/* Comparisons are false for NaN, which so becomes -1; 9e15 is below 2^53, up to where double counts exactly. */
double vc_range_count(double start, double limit, double step)
{
    double count = ceil((limit - start) / step);

    return count <= 0 ? 0 : count < 9e15 ? count : -1; /* not a number: -1, too */
}
