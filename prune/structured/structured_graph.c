/* structured_graph.c - couplings that were given, of a file that has a graph of its own: an ONNX file states sizes that
 * follow what goes (Reshape's shape, Conv's group), and which these are is known of the groups of its graph. So each
 * group that is cut has to be one of those.
 *
 *     given   fc1.weight:0 = fc1.bias:0 = fc2.weight:1       group 0 of the file of couplings
 *     graph   fc1.weight:0 = fc1.bias:0 = fc2.weight:1       group 4 of the graph: what it states is edited */

#include "core/job/scoped.h"
#include "graph/build.h"
#include "prune/structured/removal.h"

/* Two members of different lists are the same place of the same tensor. */
static bool same_place(const struct vc_coupling_member *a, const struct vc_coupling_member *b)
{
    return a->index == b->index && a->whole == b->whole && a->axis == b->axis && a->offset == b->offset &&
           a->block == b->block && a->repeat == b->repeat && a->unit == b->unit;
}

static bool has_member(const struct vc_coupling *c, const struct vc_coupling_member *m)
{
    size_t i = 0;

    while (i < c->n_members && !same_place(&c->members[i], m)) {
        i++;
    }
    return i < c->n_members;
}

/* The same units in the same places. */
static bool same_group(const struct vc_coupling *a, const struct vc_coupling *b)
{
    size_t i = 0;

    if (a->n_units != b->n_units || a->n_members != b->n_members) {
        return false;
    }
    while (i < a->n_members && has_member(b, &a->members[i])) {
        i++;
    }
    return i == a->n_members;
}

/* Sets s->stated[k], the number of the group in the file's own graph. */
static enum vc_status match_group(struct vc_ctx *ctx, struct vc_structured *s, size_t k)
{
    const struct vc_coupling *c = s->groups[k].coupling;
    size_t n = vc_couplings_count(s->stating);
    size_t i = 0;

    while (i < n && !same_group(c, vc_coupling(s->stating, i))) {
        i++;
    }
    VC_REFUSE_IF(i == n, ctx, VC_E_UNSUPPORTED,
                 "%s: the graph of the file has no such group, so it is not known which of the sizes that it "
                 "states would follow; without %s they are those of that graph",
                 c->name, vc_option(ctx, "couplings"));
    s->stated[k] = i;
    return VC_OK;
}

enum vc_status vc_structured_match_graph(struct vc_ctx *ctx, struct vc_structured *s, const struct vc_plan *plan)
{
    VC_SCOPED_GRAPH struct vc_graph *graph = NULL;

    s->stating = s->couplings;
    VC_CALL_ALLOC(s->stated = vc_arena_alloc(ctx, plan->arena, (s->n_groups + 1) * sizeof *s->stated));
    for (size_t i = 0; i < s->n_groups; i++) {
        s->stated[i] = i;
    }
    if (s->options.couplings == NULL || s->program.kind != VC_PROGRAM_NODES) {
        return VC_OK;
    }
    VC_CALL(vc_graph_build_program(ctx, plan->model, &s->program, &graph));
    VC_CALL(vc_graph_bind_usual(ctx, graph));
    VC_CALL(vc_couplings_of_graph(ctx, graph, &s->built));
    s->stating = s->built;
    for (size_t i = 0; i < s->n_groups; i++) {
        if (s->groups[i].reason == NULL) {
            VC_CALL(match_group(ctx, s, i));
        }
    }
    return VC_OK;
}

/* s->stated[i] is i where no other couplings were needed. */
enum vc_status vc_structured_kept(struct vc_ctx *ctx, const struct vc_structured *s, uint64_t **kept)
{
    size_t n = vc_couplings_count(s->stating);

    VC_CALL(VC_ARRAY(ctx, VC_TAG_SCRATCH, *kept, n + 1));
    for (size_t i = 0; i < n; i++) {
        (*kept)[i] = vc_coupling(s->stating, i)->n_units;
    }
    for (size_t i = 0; i < s->n_groups; i++) {
        if (s->groups[i].reason == NULL) {
            (*kept)[s->stated[i]] -= s->groups[i].n_go;
        }
    }
    return VC_OK;
}
