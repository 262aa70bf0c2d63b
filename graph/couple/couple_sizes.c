/* couple_sizes.c - see couple_sizes.h. Sizes after removal are computed from the terms: an atom with a
 * group has kept[group] units, a product or concatenation is computed from its parts; each term once
 * (after[]).
 *
 *     group 1: 12 heads, of which 9 are kept
 *     product(12, 64)                       768 becomes 576
 *     concat(product(12, 64), 768)         1536 becomes 1344
 *
 * With these sizes two questions are answered: what has to be rewritten in the file (vc_couplings_edits),
 * and how many multiply-adds are left (vc_couplings_work). */
#include "graph/couple/couple_sizes.h"

#include "core/base/array.h"
#include "graph/couple/couple.h"

/* The statements' lists and names lie in the arena of the couplings. */
void vc_couple_sizes_free(struct vc_ctx *ctx, struct vc_couple_sizes *sizes)
{
    if (sizes != NULL) {
        vc_axes_release(&sizes->axes);
        VC_FREE_ALL(ctx, sizes->group_of, sizes->said, sizes);
    }
}

/* Copies the statement into the arena of the couplings. The name of an attribute is static and not copied. */
void vc_couple_sizes_add(struct vc_axes *axes, struct vc_couple_sizes *sizes, const struct vc_said *said)
{
    struct vc_ctx *ctx = axes->ctx;
    struct vc_said own = *said;
    struct vc_size *list = vc_arena_alloc(ctx, sizes->arena, (said->n + 1) * sizeof *list);

    own.value = vc_arena_copy(ctx, sizes->arena, said->value, strlen(said->value));
    VC_LEAVE_IF(list == NULL || own.value == NULL ||
                    VC_GROW(ctx, VC_TAG_MISC, sizes->said, sizes->capacity, sizes->n + 1) != VC_OK,
                axes->status = VC_E_NOMEM);
    if (said->n != 0) {
        memcpy(list, said->sizes, said->n * sizeof *list);
    }
    own.sizes = list;
    sizes->said[sizes->n++] = own;
}

/* ---- sizes after units are removed ---- */

#define UNKNOWN   (-1) /* depends on sizes of inputs */
#define CHANGED   (-2) /* depends on sizes of inputs and on the removed units */
#define UNVISITED (-3)

/* One question with its numbers of kept units. `after` has an element for each term, UNVISITED at first. */
struct sizing {
    const struct vc_couple_sizes *sizes;
    const uint64_t *kept;
    int64_t *after; /* of terms */
};

/* vc_axes_resolve without shortening the path: the terms are const here. */
static uint32_t resolved(const struct sizing *s, uint32_t term)
{
    while (s->sizes->axes.terms[term].to != term) {
        term = s->sizes->axes.terms[term].to;
    }
    return term;
}

/* The size in the graph as it was built, UNKNOWN if it depends on inputs. */
static int64_t size_before(const struct sizing *s, uint32_t term)
{
    struct vc_dim size = s->sizes->axes.terms[resolved(s, term)].size;

    return vc_dim_is_number(size) ? size.size : UNKNOWN;
}

/* The size of a term once units are removed, or UNKNOWN or CHANGED. Parts come before the term in number or depth;
 * the size before was a number, so the smaller one cannot overflow. */
static int64_t size_after(struct sizing *s, uint32_t term)
{
    const struct vc_axes *axes = &s->sizes->axes;
    uint32_t at = resolved(s, term);
    const struct vc_term *t = &axes->terms[at];
    int64_t all = t->kind == VC_TERM_PRODUCT ? 1 : 0;
    bool known = true;
    bool changed = false;

    if (s->after[at] != UNVISITED) {
        return s->after[at];
    }
    if (t->kind == VC_TERM_ATOM) {
        uint32_t group = s->sizes->group_of[at];

        s->after[at] = group != 0 ? (int64_t)s->kept[group - 1] : size_before(s, at);
        return s->after[at];
    }
    for (uint32_t k = 0; k < t->n; k++) {
        int64_t part = size_after(s, axes->parts[t->first + k]);

        changed = changed || part != size_before(s, axes->parts[t->first + k]);
        known = known && part >= 0;
        if (known) { /* at most the size before, which was a number */
            all = t->kind == VC_TERM_PRODUCT ? all * part : all + part;
        }
    }
    s->after[at] = known ? all : changed ? CHANGED : UNKNOWN;
    return s->after[at];
}

/* Whether a term keeps its size. A term that depends on inputs is the same if no part of it changed. */
static bool is_same(struct sizing *s, uint32_t term)
{
    return term == VC_AXIS_ONE || size_after(s, term) == size_before(s, term);
}

/* The edit of one statement: false if it stays true. A declared shape always gives an edit (n is 0 if it stays
 * true), unless it depends on both inputs and removed units: such a declaration cannot be written. */
static bool edit_of(struct sizing *s, const struct vc_said *said, int64_t *numbers, struct vc_graph_edit *edit)
{
    bool changed = false;

    for (size_t k = 0; k < said->n; k++) {
        const struct vc_size *size = &said->sizes[k];
        int64_t after = size->term == VC_AXIS_ONE ? size->number : size_after(s, size->term);
        bool same = is_same(s, size->term);

        if (after == CHANGED) {
            return false;
        }
        changed = changed || !same || !is_same(s, size->watch);
        numbers[k] = same && said->kind == VC_GRAPH_EDIT_SHAPE ? -1 : after;
    }
    *edit = (struct vc_graph_edit){.kind = said->kind,
                                   .value = said->value,
                                   .attribute = said->attribute,
                                   .input = said->input,
                                   .n = changed ? said->n : 0,
                                   .numbers = numbers};
    return changed || said->kind == VC_GRAPH_EDIT_SHAPE;
}

/* Nothing is visited. The caller frees s->after. */
static enum vc_status begin_sizing(struct vc_ctx *ctx, const struct vc_couplings *couplings, const uint64_t *kept,
                                   struct sizing *s)
{
    *s = (struct sizing){.sizes = couplings->sizes, .kept = kept};
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, s->after, s->sizes->axes.n));
    for (uint32_t k = 0; k < s->sizes->axes.n; k++) {
        s->after[k] = UNVISITED;
    }
    return VC_OK;
}

/* One edit at most for each statement. Couplings of a config or GGUF have no statements. */
enum vc_status vc_couplings_edits(struct vc_ctx *ctx, const struct vc_couplings *couplings, const uint64_t *kept,
                                  struct vc_arena *arena, const struct vc_graph_edit **edits, size_t *n)
{
    struct sizing s = {.sizes = couplings->sizes};
    struct vc_graph_edit *list;
    enum vc_status status = VC_OK;

    *edits = NULL;
    *n = 0;
    if (s.sizes == NULL) {
        return VC_OK;
    }
    VC_TRY(begin_sizing(ctx, couplings, kept, &s));
    VC_TRY_ALLOC(list = vc_arena_alloc(ctx, arena, (s.sizes->n + 1) * sizeof *list));
    for (size_t k = 0; k < s.sizes->n; k++) {
        int64_t *numbers = vc_arena_alloc(ctx, arena, (s.sizes->said[k].n + 1) * sizeof *numbers);

        VC_TRY_ALLOC(numbers);
        *n += edit_of(&s, &s.sizes->said[k], numbers, &list[*n]) ? 1 : 0;
    }
    *edits = list;
out:
    vc_free(ctx, s.after);
    return status;
}

/* ---- multiply-adds ---- */

/* Multiply-adds of a node with the sizes after removal: macs / before * after for each term that changed, reduced
 * by the common divisor first, so that the division is exact and nothing overflows. False if a size is not known.
 *     macs 768 * 3072, a term of 768 that becomes 576     common 192: macs / 4 * 3
 */
static bool work_after(struct sizing *s, const struct vc_work *work, uint64_t *macs)
{
    *macs = work->macs;
    for (size_t k = 0; k < work->n; k++) {
        uint64_t before, after, common;

        if (work->terms[k] == VC_AXIS_ONE || is_same(s, work->terms[k])) {
            continue;
        }
        if (size_after(s, work->terms[k]) < 0 || size_before(s, work->terms[k]) <= 0) {
            return false;
        }
        before = (uint64_t)size_before(s, work->terms[k]);
        after = (uint64_t)size_after(s, work->terms[k]);
        common = vc_couple_divisor(before, after);
        if (*macs % (before / common) != 0) {
            return false;
        }
        *macs = *macs / (before / common) * (after / common);
    }
    return true;
}

/* Experts are summed apart: a token uses experts_per_token of n_experts of them. */
enum vc_status vc_couplings_work(struct vc_ctx *ctx, const struct vc_couplings *couplings, const uint64_t *kept,
                                 uint64_t *before, uint64_t *after, const char **at)
{
    const struct vc_couple_sizes *sizes = couplings->sizes;
    struct sizing s = {.sizes = sizes};
    uint64_t shared[2] = {0, 0}; /* multiply-adds of experts */
    enum vc_status status = VC_OK;

    *at = NULL;
    *before = *after = 0;
    if (sizes == NULL || sizes->work == NULL) {
        return VC_OK;
    }
    VC_TRY(begin_sizing(ctx, couplings, kept, &s));
    for (size_t k = 0; k < sizes->n_work; k++) {
        bool expert = sizes->work[k].expert && sizes->n_experts != 0;
        uint64_t macs;

        if (!work_after(&s, &sizes->work[k], &macs) ||
            !vc_add_u64(expert ? shared[0] : *before, sizes->work[k].macs, expert ? &shared[0] : before)) {
            goto out;
        }
        *(expert ? &shared[1] : after) += macs; /* at most the number before */
    }
    for (size_t k = 0; k < 2; k++) {
        uint64_t *sum = k == 0 ? before : after;
        uint64_t used;

        if (!vc_mul_u64(shared[k], sizes->experts_per_token, &used) ||
            !vc_add_u64(*sum, sizes->n_experts == 0 ? 0 : used / sizes->n_experts, sum)) {
            goto out;
        }
    }
    *at = sizes->work_at;
out:
    vc_free(ctx, s.after);
    return status;
}
