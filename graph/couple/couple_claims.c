/* couple_claims.c - axes that two groups of a file claim: two groups must not remove the same elements. See
 * couple_lines.h. Units inside units are no conflict: heads of 64, and a group of the 64 elements of each head. */

#include "core/base/array.h"
#include "graph/couple/couple_lines.h"

/* A member with its group, which has the number of units. */
struct claim {
    const struct vc_group_member *member;
    const struct vc_group *group;
};

static uint64_t end_of(const struct claim *a)
{
    const struct vc_coupling_member *m = &a->member->public;

    return m->whole ? 0 : m->offset + a->group->n_units * m->block * m->repeat;
}

/* By tensor, whole tensors first, axis, offset; of equal offsets the member that reaches farther first, so
 * that what lies in it follows; then by line, for sentences that do not depend on qsort. */
static int compare_claims(const void *a, const void *b)
{
    const struct claim *x = a;
    const struct claim *y = b;
    const struct vc_coupling_member *m = &x->member->public;
    const struct vc_coupling_member *o = &y->member->public;

    /* of two ends the larger one first: what lies in it follows */
    return VC_FIRST_ORDER(VC_ORDER(m->index, o->index), VC_ORDER(o->whole, m->whole), VC_ORDER(m->axis, o->axis),
                          VC_ORDER(m->offset, o->offset), VC_ORDER(end_of(y), end_of(x)),
                          VC_ORDER(x->group->line, y->group->line), VC_ORDER(m->block, o->block));
}

/* True if the units of `inner` divide each unit of `outer` in the same way: the outer block is a multiple of the
 * inner units all together, and both begin at the same place of that pattern. */
static bool is_inside(const struct claim *inner, const struct claim *outer)
{
    const struct vc_coupling_member *i = &inner->member->public;
    const struct vc_coupling_member *o = &outer->member->public;
    uint64_t period = inner->group->n_units * i->block;

    return o->block % period == 0 &&
           (i->offset >= o->offset ? i->offset - o->offset : o->offset - i->offset) % period == 0;
}

static void complain_of(struct vc_couple_reader *r, const struct claim *a, const struct claim *b)
{
    const struct vc_coupling_member *m = &a->member->public;
    size_t first = a->group->line < b->group->line ? a->group->line : b->group->line;
    size_t last = a->group->line < b->group->line ? b->group->line : a->group->line;

    if (m->whole) {
        vc_couple_complain(r, last, "%.200s is claimed by line %zu already", m->tensor, first);
    } else {
        vc_couple_complain(r, last, "%.200s:%u is claimed by line %zu already", m->tensor, m->axis, first);
    }
}

/* Sorted by tensor, axis and offset, each member is compared with the one before it that reaches farthest (`over`):
 * one walk finds an overlap if there is one. */
enum vc_status vc_couple_check_claims(struct vc_couple_reader *r)
{
    const struct vc_couplings *couplings = r->couplings;
    VC_SCOPED struct claim *claims = NULL;
    size_t n = 0;
    size_t at = 0;
    size_t over = 0;

    for (size_t k = 0; k < couplings->public.n; k++) {
        n += couplings->groups[k].n;
    }
    VC_CALL(VC_ARRAY(r->ctx, VC_TAG_MISC, claims, n + 1));
    for (size_t k = 0; k < couplings->public.n; k++) {
        for (size_t i = 0; i < couplings->groups[k].n; i++) {
            claims[at++] = (struct claim){.member = &couplings->groups[k].members[i], .group = &couplings->groups[k]};
        }
    }
    qsort(claims, n, sizeof *claims, compare_claims);
    for (size_t k = 1; k < n; k++) {
        const struct claim *a = &claims[over];
        const struct claim *b = &claims[k];
        bool same = a->member->public.index == b->member->public.index &&
                    a->member->public.whole == b->member->public.whole &&
                    a->member->public.axis == b->member->public.axis;

        if (same && (b->member->public.whole ||
                     (b->member->public.offset < end_of(a) && !is_inside(b, a) && !is_inside(a, b)))) {
            complain_of(r, a, b);
        }
        if (!same || end_of(b) >= end_of(a)) {
            over = k;
        }
    }
    return VC_OK;
}
