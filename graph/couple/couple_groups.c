/* couple_groups.c - from terms to groups: every atom that lies in an axis of a tensor is a group, and each place
 * where it lies is a member.
 *
 *     o.weight axis 1 is product(12, 64)     group of 12: offset 0, block 64, repeat 1
 *                                            group of 64: offset 0, block 1, repeat 12 (fixed: "has heads of that size")
 *     qkv.weight axis 0 is concat(q, k, v)   three members of one tensor, at offsets 0, 512, 1024
 */
#include "graph/couple/couple_graph.h"

/* Pieces of one axis that have no common step are members of their own; more than these are no group. */
#define MAX_PIECES 4096

/* Where a term lies in an axis: from element `offset` on, `repeat` times, each time `period` elements further; each
 * of its units is `block` elements long. */
struct place {
    uint64_t offset, block, repeat, period;
};

struct walk {
    struct vc_couple *c;
    struct vc_couplings *couplings;
    uint32_t *group_of; /* of each term: the number of its group + 1; 0: none yet */
    struct vc_group_member member;
    size_t n_pieces; /* of the axis that is being walked */
};

static uint64_t units_of(const struct walk *w, uint32_t term)
{
    return (uint64_t)vc_axes_term(&w->c->axes, term)->size.size;
}

static enum vc_status walk_term(struct walk *w, uint32_t term, struct place at);

/* Members have no field for a period: places that do not follow each other directly become members of their own. */
static enum vc_status walk_each(struct walk *w, uint32_t term, struct place at)
{
    for (uint64_t r = 0; r < at.repeat && w->n_pieces < MAX_PIECES; r++) {
        struct place one = {.offset = at.offset + r * at.period, .block = at.block, .repeat = 1};

        VC_CALL(walk_term(w, term, one));
    }
    if (w->n_pieces >= MAX_PIECES) {
        vc_axes_fix(&w->c->axes, term, "lies in too many places of an axis");
    }
    return VC_OK;
}

/* Adds a member to the atom's group, which is made at its first place. Atoms of one unit are no group. */
static enum vc_status add_atom(struct walk *w, uint32_t atom, struct place at)
{
    struct vc_group *group;
    uint64_t n = units_of(w, atom);

    if (n <= 1) {
        return VC_OK;
    }
    if (w->group_of[atom] == 0) {
        VC_CALL_ALLOC(group = vc_couplings_add(w->couplings, vc_axes_term(&w->c->axes, atom)->unit, n));
        w->group_of[atom] = (uint32_t)w->couplings->public.n;
    }
    group = &w->couplings->groups[w->group_of[atom] - 1];
    w->member.public.offset = at.offset;
    w->member.public.block = at.block;
    w->member.public.repeat = at.repeat;
    w->n_pieces++;
    return vc_couplings_add_member(w->couplings, group, &w->member);
}

/* The factors of a product, outer to inner: a factor's block is the product of the factors inside, and it repeats
 * as often as the product of those outside. */
static enum vc_status walk_product(struct walk *w, const struct vc_term *term, struct place at)
{
    uint64_t inner = at.block;
    uint64_t outer = 1;

    for (uint32_t k = 0; k < term->n; k++) {
        uint32_t factor = vc_axes_resolve(&w->c->axes, w->c->axes.parts[term->first + k]);

        if (!vc_dim_is_number(vc_axes_term(&w->c->axes, factor)->size)) {
            return VC_OK; /* as below */
        }
        inner *= units_of(w, factor);
    }
    for (uint32_t k = 0; k < term->n; k++) {
        uint32_t factor = vc_axes_resolve(&w->c->axes, w->c->axes.parts[term->first + k]);
        uint64_t period = inner; /* of this factor's units all together */

        inner /= units_of(w, factor);
        VC_CALL(walk_term(
            w, factor,
            (struct place){.offset = at.offset, .block = inner, .repeat = at.repeat * outer, .period = period}));
        outer *= units_of(w, factor);
    }
    return VC_OK;
}

/* Concatenated parts follow each other: each moves the offset by its elements. */
static enum vc_status walk_term(struct walk *w, uint32_t term, struct place at)
{
    const struct vc_axes *axes = &w->c->axes;

    term = vc_axes_resolve(&w->c->axes, term);
    struct vc_term t = *vc_axes_term(axes, term);
    if (!vc_dim_is_number(t.size)) { /* of no tensor's axis, but for shapes that are taken to fit */
        return VC_OK;
    }
    if (at.repeat > 1 && at.period != units_of(w, term) * at.block) {
        return walk_each(w, term, at);
    }
    if (t.kind == VC_TERM_ATOM) {
        return add_atom(w, term, at);
    }
    if (t.kind == VC_TERM_PRODUCT) {
        return walk_product(w, &t, at);
    }
    for (uint32_t k = 0; k < t.n; k++) {
        uint32_t part = vc_axes_resolve(&w->c->axes, axes->parts[t.first + k]);

        VC_CALL(walk_term(w, part, at));
        at.offset += units_of(w, part) * at.block;
    }
    return VC_OK;
}

/* Whether units are made along the axis, and where: all of its groups. */
static enum vc_status walk_axis(struct walk *w, const struct vc_graph_param *param, unsigned axis, uint32_t term,
                                bool makes)
{
    w->member = (struct vc_group_member){
        .public = {.tensor = param->tensor, .index = param->index, .axis = axis, .makes = makes},
        .n_dims = param->n_dims,
        .size = param->shape[axis]};
    w->n_pieces = 0;
    if (w->member.size <= 1) {
        return VC_OK;
    }
    return walk_term(w, term, (struct place){.offset = 0, .block = 1, .repeat = 1});
}

/* Reasons are taken after all walks, since a walk can add one; group_of moves to couplings->sizes. */
enum vc_status vc_couple_collect(struct vc_couple *c, const struct vc_couple_tensors *tensors,
                                 struct vc_couplings *couplings)
{
    struct walk w = {.c = c, .couplings = couplings};
    enum vc_status status = VC_OK;

    VC_TRY(VC_ZEROS(c->ctx, VC_TAG_MISC, w.group_of, c->axes.n));
    for (uint32_t k = 0; k < tensors->n; k++) {
        const struct vc_graph_param *param = &c->graph->params[tensors->param[k]];

        VC_TRY(vc_check_cancelled(c->ctx));
        for (unsigned i = 0; i < param->n_dims; i++) {
            VC_TRY(walk_axis(&w, param, i, tensors->axis[tensors->first[k] + i], (tensors->makes[k] >> i & 1) != 0));
        }
    }
    for (uint32_t k = 0; k < c->axes.n; k++) { /* after all walks, which may find reasons */
        (void)vc_axes_resolve(&c->axes, k);
        if (w.group_of[k] != 0) {
            couplings->groups[w.group_of[k] - 1].fixed = vc_axes_term(&c->axes, k)->fixed;
        }
    }
    VC_TRY(c->axes.status);
    couplings->sizes->group_of = vc_give(&w.group_of);
out:
    vc_free(c->ctx, w.group_of);
    return status;
}
