/* couple_params.c - the axes of parameters. Parameters of one tensor share its terms, so that tied embeddings are tied
 * and slices of packed weights are parts of one axis:
 *
 *     qkv.weight [1536, 512] in three slices     axis 0 is concat(512, 512, 512), each an axis of one parameter */

#include "core/base/array.h"
#include "core/text/name_table.h"
#include "graph/couple/couple_graph.h"

void vc_couple_tensors_release(struct vc_ctx *ctx, struct vc_couple_tensors *tensors)
{
    VC_FREE_ALL(ctx, tensors->of_param, tensors->param, tensors->first, tensors->axis, tensors->makes);
}

/* Numbers the tensors in the order of their first parameters: several parameters may read one tensor. */
static enum vc_status find_tensors(struct vc_couple *c, struct vc_couple_tensors *t)
{
    struct vc_ctx *ctx = c->ctx;
    const struct vc_graph *graph = c->graph;
    struct vc_name_list names = VC_NAME_LIST(graph->params, sizeof *graph->params);
    VC_SCOPED_NAMES struct vc_name_table table = {0};
    uint32_t n_axes = 0;

    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, t->of_param, graph->n_params + (size_t)1));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, t->param, graph->n_params + (size_t)1));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, t->first, graph->n_params + (size_t)1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, t->makes, graph->n_params + (size_t)1));
    VC_CALL(vc_name_table_make(ctx, graph->n_params, &table));
    for (uint32_t p = 0; p < graph->n_params; p++) {
        size_t before = vc_name_table_add(&table, names, p);

        if (before != SIZE_MAX) {
            t->of_param[p] = t->of_param[before];
            continue;
        }
        t->of_param[p] = t->n;
        t->param[t->n] = p;
        t->first[t->n++] = n_axes;
        n_axes += graph->params[p].n_dims;
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, t->axis, n_axes + (size_t)1));
    return VC_OK;
}

/* ---- slices ---- */

/* A parameter that is a slice [first, end) of a tensor's axis. */
struct slice {
    uint32_t tensor, param;
    unsigned axis;
    uint64_t first, end;
};

static int compare_slices(const void *a, const void *b)
{
    const struct slice *x = a;
    const struct slice *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->tensor, y->tensor), VC_ORDER(x->axis, y->axis), VC_ORDER(x->first, y->first),
                          VC_ORDER(x->param, y->param));
}

static int compare_cuts(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Where in the sorted cuts one is. */
static size_t cut_at(const uint64_t *cuts, size_t n, uint64_t at)
{
    const uint64_t *found = bsearch(&at, cuts, n, sizeof *cuts, compare_cuts);

    return (size_t)(found - cuts);
}

/* Notes the start and end of a Slice of the file, as sizes of the terms before them: when units in front go, both
 * move. A slice that a function of the file makes cannot be edited, and the axis is fixed. */
static void say_bounds(struct vc_couple *c, uint32_t value, uint32_t whole, const uint32_t ends[2])
{
    static const char *const names[2] = {"starts", "ends"};
    const struct vc_value_facts *facts = &c->graph->facts[value];

    if (facts->slice == NULL && c->of_file) {
        vc_axes_fix(&c->axes, whole, "is cut by a function of the file");
    }
    for (unsigned k = 0; k < 2 && facts->slice != NULL; k++) {
        struct vc_size size = {.term = ends[k], .watch = whole}; /* of none: VC_AXIS_ONE, and 0 */

        vc_couple_sizes_add(
            &c->axes, c->sizes,
            &(struct vc_said){.kind = facts->slice_attrs ? VC_GRAPH_EDIT_ATTRIBUTE : VC_GRAPH_EDIT_INPUT,
                              .value = facts->slice,
                              .attribute = facts->slice_attrs ? names[k] : NULL,
                              .input = k + 1,
                              .n = 1,
                              .sizes = &size});
    }
}

/* Cuts one axis at all starts and ends of its n slices; each piece is an atom, the axis is their concatenation, and each slice
 * the concatenation of its pieces.
 *     slices [0, 512) [512, 1024) [512, 1536)   cuts 0 512 1024 1536   pieces a b c   axis abc, slices a, b, bc
 * Pieces that no slice and no whole parameter reads are fixed. */
static enum vc_status cut_axis(struct vc_couple *c, struct vc_couple_tensors *t, const struct slice *slices, size_t n,
                               bool whole)
{
    struct vc_ctx *ctx = c->ctx;
    const struct vc_graph_param *param = &c->graph->params[t->param[slices->tensor]];
    VC_SCOPED uint64_t *cuts = vc_alloc_array(ctx, VC_TAG_MISC, 2 * n + 2, sizeof *cuts);
    VC_SCOPED uint32_t *parts = vc_alloc_array(ctx, VC_TAG_MISC, 2 * n + 2, sizeof *parts);
    uint64_t covered = 0; /* up to there by the slices so far */
    size_t n_cuts = 0;
    size_t at = 0;

    VC_CALL_ALLOC(cuts);
    VC_CALL_ALLOC(parts);
    cuts[n_cuts++] = 0;
    cuts[n_cuts++] = param->shape[slices->axis];
    for (size_t k = 0; k < n; k++) {
        cuts[n_cuts++] = slices[k].first;
        cuts[n_cuts++] = slices[k].end;
    }
    qsort(cuts, n_cuts, sizeof *cuts, compare_cuts);
    for (size_t k = 1; k < n_cuts; k++) {
        if (cuts[k] != cuts[at]) {
            cuts[++at] = cuts[k];
        }
    }
    n_cuts = at + 1;
    for (size_t k = 0; k + 1 < n_cuts; k++) {
        parts[k] = vc_axes_atom(&c->axes, vc_dim_number((int64_t)(cuts[k + 1] - cuts[k])));
    }
    at = 0;
    for (size_t k = 0; k + 1 < n_cuts; k++) {
        for (; at < n && slices[at].first <= cuts[k]; at++) {
            covered = slices[at].end > covered ? slices[at].end : covered;
        }
        if (!whole && covered <= cuts[k]) {
            vc_axes_fix(&c->axes, parts[k], "is used by nothing in the graph");
        }
    }
    t->axis[t->first[slices->tensor] + slices->axis] = vc_axes_concat(&c->axes, parts, n_cuts - 1);
    for (size_t k = 0; k < n; k++) {
        size_t from = cut_at(cuts, n_cuts, slices[k].first);
        size_t to = cut_at(cuts, n_cuts, slices[k].end);
        uint32_t *value = c->axis + c->first[c->graph->params[slices[k].param].value];

        value[slices[k].axis] = vc_axes_concat(&c->axes, parts + from, to - from);
        say_bounds(c, c->graph->params[slices[k].param].value, t->axis[t->first[slices->tensor] + slices->axis],
                   (const uint32_t[]){vc_axes_concat(&c->axes, parts, from), vc_axes_concat(&c->axes, parts, to)});
    }
    return c->axes.status;
}

/* Sorts all slices by tensor and axis and cuts each axis. whole[t]: some parameter is all of tensor t. */
static enum vc_status cut_axes(struct vc_couple *c, struct vc_couple_tensors *t, const bool *whole)
{
    struct vc_ctx *ctx = c->ctx;
    const struct vc_graph *graph = c->graph;
    VC_SCOPED struct slice *slices = vc_alloc_array(ctx, VC_TAG_MISC, graph->n_params + (size_t)1, sizeof *slices);
    size_t n = 0;

    VC_CALL_ALLOC(slices);
    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct vc_graph_param *param = &graph->params[p];

        if (param->sliced) {
            slices[n++] = (struct slice){.tensor = t->of_param[p],
                                         .param = p,
                                         .axis = param->axis,
                                         .first = param->first,
                                         .end = param->first + param->count};
        }
    }
    qsort(slices, n, sizeof *slices, compare_slices);
    for (size_t k = 0; k < n;) {
        size_t end = k;

        while (end < n && slices[end].tensor == slices[k].tensor && slices[end].axis == slices[k].axis) {
            end++;
        }
        VC_CALL(cut_axis(c, t, slices + k, end - k, whole[slices[k].tensor]));
        k = end;
    }
    return VC_OK;
}

/* ---- all of them ---- */

/* The axis of the tensor behind an axis of the parameter's value: transposed parameters swap the last two. */
static unsigned tensor_axis(const struct vc_graph_param *param, unsigned axis)
{
    bool swapped = param->transposed && axis + 2 >= param->n_dims;

    return swapped ? (axis + 1 == param->n_dims ? axis - 1 : axis + 1) : axis;
}

/* cut_axes leaves the slice's term at value[param->axis], the tensor's axis; the last loop moves it where a
 * transposed value has the axis. */
enum vc_status vc_couple_take_params(struct vc_couple *c, struct vc_couple_tensors *t)
{
    struct vc_ctx *ctx = c->ctx;
    const struct vc_graph *graph = c->graph;
    VC_SCOPED bool *whole = NULL;

    *t = (struct vc_couple_tensors){0};
    VC_CALL(find_tensors(c, t));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, whole, t->n + (size_t)1));
    for (uint32_t k = 0; k < t->n; k++) {
        const struct vc_graph_param *param = &graph->params[t->param[k]];

        for (unsigned i = 0; i < param->n_dims; i++) {
            t->axis[t->first[k] + i] = vc_axes_atom(&c->axes, vc_dim_number((int64_t)param->shape[i]));
        }
    }
    for (uint32_t p = 0; p < graph->n_params; p++) {
        whole[t->of_param[p]] = whole[t->of_param[p]] || !graph->params[p].sliced;
    }
    VC_CALL(cut_axes(c, t, whole));
    for (uint32_t p = 0; p < graph->n_params; p++) {
        const struct vc_graph_param *param = &graph->params[p];
        uint32_t *value = c->axis + c->first[param->value];
        uint32_t part = param->sliced ? value[param->axis] : 0;

        for (unsigned i = 0; i < param->n_dims; i++) {
            unsigned of = tensor_axis(param, i);

            value[i] = param->sliced && of == param->axis ? part : t->axis[t->first[t->of_param[p]] + of];
        }
    }
    return c->axes.status;
}

void vc_couple_collect_makes(const struct vc_couple *c, struct vc_couple_tensors *t)
{
    for (uint32_t p = 0; p < c->graph->n_params; p++) {
        for (unsigned i = 0; i < c->graph->params[p].n_dims; i++) {
            if ((c->makes[p] >> i & 1) != 0) {
                t->makes[t->of_param[p]] |= (uint8_t)(1u << tensor_axis(&c->graph->params[p], i));
            }
        }
    }
}
