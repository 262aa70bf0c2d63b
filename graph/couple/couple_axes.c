/* couple_axes.c - see couple_axes.h. Unification of terms, with union-find for atoms.
 *
 *     join(a, b)   a or b is an atom            bind: the atom stands for the other term
 *                  one has parts (concat)       join_parts: part by part, the longer part is split where the shorter ends
 *                  both are products            join_factors: factor by factor, the larger is divided by the smaller
 *
 *     join(product(12, 64), product(4, 192))    12 = 4 * 3, then 3 * 64 = 192: atoms 4, 3 and 64
 *
 * Walks use explicit stacks: terms nest as deep as the graph is long, and the C stack would not hold that. */
#include "graph/couple/couple_axes.h"

#include "core/base/array.h"

/* More atoms in one axis than this are not told apart. */
#define MAX_LEAVES 4096

static const char does_not_fit[] = "is divided in ways that do not fit together";

/* ---- memory ---- */

/* Room for `more` elements after the first n of an array; `array` is the address of its pointer. A failure is kept
 * in axes->status, and everything after it does nothing. */
static bool reserve(struct vc_axes *axes, void *array, uint32_t n, uint32_t more, size_t *capacity, size_t size)
{
    if (axes->status == VC_OK && more > UINT32_MAX - n) {
        axes->status = vc_fail(axes->ctx, VC_E_NOMEM, "the axes of the graph have too many parts");
    }
    if (axes->status == VC_OK) {
        axes->status = vc_array_grow(axes->ctx, VC_TAG_MISC, array, capacity, n + (size_t)more, size);
    }
    return axes->status == VC_OK;
}

/* A stack of terms. */
struct list {
    uint32_t *items;
    uint32_t n;
    size_t capacity;
};

/* A failure of memory is in axes->status; the list then stays as it is. */
static void push(struct vc_axes *axes, struct list *list, uint32_t term)
{
    if (reserve(axes, &list->items, list->n, 1, &list->capacity, sizeof *list->items)) {
        list->items[list->n++] = term;
    }
}

/* Appends a term, which stands for itself. Returns VC_AXIS_ONE after a failure, so that callers need no check. */
static uint32_t new_term(struct vc_axes *axes, const struct vc_term *term)
{
    if (!reserve(axes, &axes->terms, axes->n, 1, &axes->capacity, sizeof *axes->terms)) {
        return VC_AXIS_ONE;
    }
    axes->terms[axes->n] = *term;
    axes->terms[axes->n].to = axes->n;
    return axes->n++;
}

/* Term 0 is VC_AXIS_ONE, an axis of one element, which all functions return after a failure. */
enum vc_status vc_axes_init(struct vc_axes *axes, struct vc_ctx *ctx, struct vc_arena *arena)
{
    *axes = (struct vc_axes){.ctx = ctx, .arena = arena};
    (void)new_term(axes, &(struct vc_term){.size = {.size = 1}}); /* VC_AXIS_ONE */
    return axes->status;
}

void vc_axes_release(struct vc_axes *axes)
{
    VC_FREE_ALL(axes->ctx, axes->terms, axes->parts, axes->stack);
}

/* ---- terms ---- */

/* A new axis of that size; all sizes of 1 are the one term VC_AXIS_ONE. */
uint32_t vc_axes_atom(struct vc_axes *axes, struct vc_dim size)
{
    return vc_dim_is_number(size) && size.size == 1 ? VC_AXIS_ONE : new_term(axes, &(struct vc_term){.size = size});
}

/* Path halving: each visited atom is set to its grandparent.
 * A term without a binding stands for itself (to == term). */
uint32_t vc_axes_resolve(struct vc_axes *axes, uint32_t term)
{
    struct vc_term *terms = axes->terms;

    while (terms[term].to != term) {
        terms[term].to = terms[terms[term].to].to;
        term = terms[term].to;
    }
    return term;
}

static bool is_number(const struct vc_axes *axes, uint32_t term)
{
    return vc_dim_is_number(axes->terms[term].size);
}

static int64_t size_of(const struct vc_axes *axes, uint32_t term)
{
    return axes->terms[term].size.size;
}

/* True if both sizes are known and equal. */
static bool same_size(const struct vc_axes *axes, uint32_t a, uint32_t b)
{
    return vc_dim_equal(axes->terms[a].size, axes->terms[b].size);
}

/* A product or concatenation of `list` without the terms of neutral size (1, 0). An overflowing or unknown size
 * becomes bad. An axis of more than MAX_LEAVES atoms is replaced by one fixed atom: the work of a join grows with
 * the leaves.
 * A list with one term left is that term, and with none VC_AXIS_ONE.
 *
 *     product(12, 1, 64)     product(12, 64) of size 768
 *     concat(64, 0, 128)     concat(64, 128) of size 192
 *     product(12)            12 itself
 */
static uint32_t composite(struct vc_axes *axes, enum vc_term_kind kind, const uint32_t *list, size_t n)
{
    int64_t neutral = kind == VC_TERM_PRODUCT ? 1 : 0;
    struct vc_term term = {.kind = kind, .size = vc_dim_number(neutral), .first = axes->n_parts};
    uint32_t last = VC_AXIS_ONE;

    if (n >= UINT32_MAX ||
        !reserve(axes, &axes->parts, axes->n_parts, (uint32_t)n, &axes->part_capacity, sizeof *axes->parts)) {
        return VC_AXIS_ONE;
    }
    for (size_t k = 0; k < n; k++) {
        uint32_t part = vc_axes_resolve(axes, list[k]);
        const struct vc_term *of = &axes->terms[part];

        if (vc_dim_is_number(of->size) && of->size.size == neutral) {
            continue;
        }
        bool fits = vc_dim_is_number(of->size) && vc_dim_is_number(term.size) &&
                    !(kind == VC_TERM_PRODUCT ? __builtin_mul_overflow(term.size.size, of->size.size, &term.size.size)
                                              : __builtin_add_overflow(term.size.size, of->size.size, &term.size.size));
        term.size = fits ? term.size : vc_dim_bad();
        term.leaves += of->kind == VC_TERM_ATOM ? 1 : of->leaves;
        axes->parts[term.first + term.n++] = last = part;
    }
    if (term.n < 2) {
        return last;
    }
    axes->n_parts += term.n;
    if (term.leaves > MAX_LEAVES) {
        for (uint32_t k = 0; k < term.n; k++) {
            vc_axes_fix(axes, axes->parts[term.first + k], "is in an axis of too many parts");
        }
        last = vc_axes_atom(axes, term.size);
        vc_axes_fix(axes, last, "is in an axis of too many parts");
        return last;
    }
    return new_term(axes, &term);
}

uint32_t vc_axes_product(struct vc_axes *axes, const uint32_t *list, size_t n)
{
    return composite(axes, VC_TERM_PRODUCT, list, n);
}

uint32_t vc_axes_concat(struct vc_axes *axes, const uint32_t *list, size_t n)
{
    return composite(axes, VC_TERM_CONCAT, list, n);
}

/* ---- all atoms of a term ---- */

/* Calls `act` once for each atom in the term, in no particular order; stops and returns true when `act` does.
 * Terms that occur several times are visited once: `seen` holds the number of the walk. */
static bool each_atom(struct vc_axes *axes, uint32_t term, bool (*act)(struct vc_axes *, uint32_t atom, const void *),
                      const void *with)
{
    uint32_t n = 0;

    axes->walk++;
    if (!reserve(axes, &axes->stack, 0, 1, &axes->stack_capacity, sizeof *axes->stack)) {
        return false;
    }
    axes->stack[n++] = vc_axes_resolve(axes, term);
    while (n != 0) {
        uint32_t at = axes->stack[--n];
        struct vc_term *t = &axes->terms[at];

        if (t->seen == axes->walk) {
            continue;
        }
        t->seen = axes->walk;
        if (t->kind == VC_TERM_ATOM) {
            if (at != VC_AXIS_ONE && act(axes, at, with)) {
                return true;
            }
            continue;
        }
        if (!reserve(axes, &axes->stack, n, t->n, &axes->stack_capacity, sizeof *axes->stack)) {
            return false;
        }
        for (uint32_t k = 0; k < t->n; k++) {
            axes->stack[n++] = vc_axes_resolve(axes, axes->parts[t->first + k]);
        }
    }
    return false;
}

/* The first reason stays. */
static bool fix_atom(struct vc_axes *axes, uint32_t atom, const void *reason)
{
    if (axes->terms[atom].fixed == NULL) {
        axes->terms[atom].fixed = reason;
    }
    return false;
}

void vc_axes_fix(struct vc_axes *axes, uint32_t term, const char *reason)
{
    (void)each_atom(axes, term, fix_atom, reason);
}

/* Which of two names says more about the units: an axis that is normalized (hidden) stays hidden even if heads
 * divide it. */
static enum vc_unit stronger(enum vc_unit a, enum vc_unit b)
{
    static const int rank[] = {[VC_UNIT_NEURONS] = 0, [VC_UNIT_HEADS] = 1, [VC_UNIT_EXPERTS] = 2, [VC_UNIT_HIDDEN] = 3};

    return rank[a] > rank[b] ? a : b;
}

/* An atom has one name; the stronger one stays. */
static bool set_unit(struct vc_axes *axes, uint32_t atom, const void *unit)
{
    axes->terms[atom].unit = stronger(axes->terms[atom].unit, *(const enum vc_unit *)unit);
    return false;
}

void vc_axes_set_unit(struct vc_axes *axes, uint32_t term, enum vc_unit unit)
{
    (void)each_atom(axes, term, set_unit, &unit);
}

/* Whether the atom is a certain one: the search for an axis within itself. */
static bool is_it(struct vc_axes *axes, uint32_t atom, const void *other)
{
    return atom == *(const uint32_t *)other;
}

/* ---- joining ---- */

/* The atom a stands for b from now on; reasons and unit of a are passed on to all atoms in b. If b contains a, the
 * equation has no solution (an axis that is a part of itself), and all is fixed.
 * An atom whose size is unknown takes that of the other one. */
static void bind(struct vc_axes *axes, uint32_t a, uint32_t b)
{
    struct vc_term was = axes->terms[a];

    if (axes->terms[b].kind != VC_TERM_ATOM && each_atom(axes, b, is_it, &a)) {
        vc_axes_fix(axes, b, "is a part of itself");
        return;
    }
    axes->terms[a].to = b;
    if (axes->terms[b].kind == VC_TERM_ATOM && !is_number(axes, b)) {
        axes->terms[b].size = was.size;
    }
    if (was.fixed != NULL) {
        vc_axes_fix(axes, b, was.fixed);
    }
    if (was.unit != VC_UNIT_NEURONS) {
        vc_axes_set_unit(axes, b, was.unit);
    }
}

/* Takes the next factor off the stack; products inside are opened, so that only atoms and concatenations come out.
 * The last factor is pushed first, so that the first one is on top. */
static uint32_t next_factor(struct vc_axes *axes, struct list *list)
{
    for (;;) {
        uint32_t at = vc_axes_resolve(axes, list->items[--list->n]);
        struct vc_term t = axes->terms[at];

        if (t.kind != VC_TERM_PRODUCT) {
            return at;
        }
        for (uint32_t k = t.n; k-- > 0;) {
            push(axes, list, axes->parts[t.first + k]);
        }
        if (axes->status != VC_OK) {
            return VC_AXIS_ONE;
        }
    }
}

/* All factors of a term in order, nested products opened. */
static void factors_of(struct vc_axes *axes, uint32_t term, struct list *factors)
{
    struct list rest = {0};

    push(axes, &rest, term);
    while (rest.n != 0 && axes->status == VC_OK) {
        push(axes, factors, next_factor(axes, &rest));
    }
    vc_free(axes->ctx, rest.items);
}

/* Pushes what lies one behind the other in the term, last part first: parts of a concatenation, or of a product
 * whose outermost factor is one, since concat(a, b) x c = concat(a x c, b x c). False: the term is one part.
 *     concat(a, b)                    a, b
 *     product(concat(q, k, v), 64)    product(q, 64), product(k, 64), product(v, 64)
 *     product(12, concat(a, b))       one part: the outermost factor is an atom
 */
static bool push_parts(struct vc_axes *axes, uint32_t term, struct list *list)
{
    struct vc_term t = axes->terms[term];
    struct list factors = {0};
    bool several = false;

    if (t.kind == VC_TERM_CONCAT) {
        for (uint32_t k = t.n; k-- > 0;) {
            push(axes, list, axes->parts[t.first + k]);
        }
        return true;
    }
    if (t.kind == VC_TERM_ATOM) {
        return false;
    }
    factors_of(axes, term, &factors);
    if (axes->status == VC_OK) {
        struct vc_term outer = axes->terms[factors.items[0]];
        several = outer.kind == VC_TERM_CONCAT;
        for (uint32_t k = several ? outer.n : 0; k-- > 0 && axes->status == VC_OK;) {
            factors.items[0] = axes->parts[outer.first + k];
            push(axes, list, vc_axes_product(axes, factors.items, factors.n));
        }
    }
    vc_free(axes->ctx, factors.items);
    return several;
}

/* Takes the next part off the stack; what has parts itself is opened until one comes out that has none. */
static uint32_t next_part(struct vc_axes *axes, struct list *list)
{
    for (;;) {
        uint32_t at = vc_axes_resolve(axes, list->items[--list->n]);

        if (!push_parts(axes, at, list)) {
            return at;
        }
        if (axes->status != VC_OK) {
            return VC_AXIS_ONE;
        }
    }
}

/* Divides a term of one part into its first n units and the others: an atom becomes concat(n, size - n); of a
 * product the outermost factor is divided. False: the cut is inside a unit of the inner factors, 100 of product(12,
 * 64).
 *     768 at 256                concat(256, 512)
 *     product(12, 64) at 256    256 = 4 * 64: product(concat(4, 8), 64)
 *     product(12, 64) at 100    no
 */
static bool split(struct vc_axes *axes, uint32_t term, int64_t n, uint32_t parts[2])
{
    struct vc_term t = axes->terms[term];
    struct list factors = {0};
    uint32_t outer[2];
    bool done = false;

    if (t.kind == VC_TERM_ATOM) {
        parts[0] = vc_axes_atom(axes, vc_dim_number(n));
        parts[1] = vc_axes_atom(axes, vc_dim_number(t.size.size - n));
        bind(axes, term, vc_axes_concat(axes, parts, 2));
        return axes->status == VC_OK;
    }
    factors_of(axes, term, &factors);
    if (axes->status == VC_OK) {
        int64_t inner = t.size.size / size_of(axes, factors.items[0]);

        done = n % inner == 0 && split(axes, factors.items[0], n / inner, outer);
        for (int k = 0; k < 2 && done; k++) {
            factors.items[0] = outer[k];
            parts[k] = vc_axes_product(axes, factors.items, factors.n);
        }
    }
    vc_free(axes->ctx, factors.items);
    return done;
}

static void fix_both(struct vc_axes *axes, uint32_t a, uint32_t b)
{
    vc_axes_fix(axes, a, does_not_fit);
    vc_axes_fix(axes, b, does_not_fit);
}

/* Two terms of which at least one has parts: like merging two rulers. Whole parts of equal size are joined; else
 * the longer one is split at the end of the shorter. Sizes that are unknown fit only where both are the last part. */
static void join_parts(struct vc_axes *axes, uint32_t a, uint32_t b)
{
    struct list left = {0};
    struct list right = {0};

    push(axes, &left, a);
    push(axes, &right, b);
    while (left.n != 0 && right.n != 0 && axes->status == VC_OK) {
        uint32_t x = next_part(axes, &left);
        uint32_t y = next_part(axes, &right);
        bool numbers = is_number(axes, x) && is_number(axes, y);
        bool whole = left.n == 0 && right.n == 0;
        uint32_t parts[2];

        if (axes->status != VC_OK) {
            break;
        }
        if (same_size(axes, x, y) || (whole && !numbers)) {
            vc_axes_join(axes, x, y);
            continue;
        }
        if (numbers && size_of(axes, x) > size_of(axes, y) && split(axes, x, size_of(axes, y), parts)) {
            push(axes, &left, parts[1]);
            vc_axes_join(axes, parts[0], y);
        } else if (numbers && size_of(axes, x) < size_of(axes, y) && split(axes, y, size_of(axes, x), parts)) {
            push(axes, &right, parts[1]);
            vc_axes_join(axes, x, parts[0]);
        } else {
            fix_both(axes, a, b);
            break;
        }
    }
    VC_FREE_ALL(axes->ctx, left.items, right.items);
}

/* An atom whose size depends on an input, against all remaining factors: it is their product ([batch * 12] as
 * [batch, 12]). */
static bool take_rest(struct vc_axes *axes, uint32_t atom, uint32_t first, struct list *others)
{
    struct list all = {0};

    if (axes->terms[atom].kind != VC_TERM_ATOM || is_number(axes, atom)) {
        return false;
    }
    push(axes, &all, first);
    while (others->n != 0 && axes->status == VC_OK) {
        push(axes, &all, others->items[--others->n]);
    }
    if (axes->status == VC_OK) {
        vc_axes_join(axes, atom, vc_axes_product(axes, all.items, all.n));
    }
    vc_free(axes->ctx, all.items);
    return true;
}

/* The larger factor is the smaller one times something: the atom for that is pushed and meets the next factor. */
static bool divide_factor(struct vc_axes *axes, uint32_t large, uint32_t small, struct list *rest)
{
    uint32_t pair[2] = {small, VC_AXIS_ONE};

    if (size_of(axes, small) == 0 || size_of(axes, large) % size_of(axes, small) != 0) {
        return false;
    }
    pair[1] = vc_axes_atom(axes, vc_dim_number(size_of(axes, large) / size_of(axes, small)));
    vc_axes_join(axes, large, vc_axes_product(axes, pair, 2));
    push(axes, rest, pair[1]);
    return true;
}

/* Two products, from the outermost factor on. */
static void join_factors(struct vc_axes *axes, uint32_t a, uint32_t b)
{
    struct list left = {0};
    struct list right = {0};

    push(axes, &left, a);
    push(axes, &right, b);
    while (left.n != 0 && right.n != 0 && axes->status == VC_OK) {
        uint32_t x = next_factor(axes, &left);
        uint32_t y = next_factor(axes, &right);
        bool numbers = is_number(axes, x) && is_number(axes, y);
        bool done;

        if (axes->status != VC_OK) {
            break;
        }
        if (same_size(axes, x, y) || (!numbers && left.n == 0 && right.n == 0)) {
            vc_axes_join(axes, x, y);
            continue;
        }
        if (numbers) {
            done = size_of(axes, x) > size_of(axes, y) ? divide_factor(axes, x, y, &left)
                                                       : divide_factor(axes, y, x, &right);
        } else {
            done = left.n == 0 ? take_rest(axes, x, y, &right) : right.n == 0 && take_rest(axes, y, x, &left);
        }
        if (!done) {
            fix_both(axes, a, b);
            break;
        }
    }
    VC_FREE_ALL(axes->ctx, left.items, right.items);
}

/* True if the term is a concatenation, or a product whose outermost factor is one. */
static bool has_parts(struct vc_axes *axes, uint32_t term)
{
    struct vc_term t = axes->terms[term];

    while (t.kind == VC_TERM_PRODUCT) {
        t = axes->terms[vc_axes_resolve(axes, axes->parts[t.first])];
    }
    return t.kind == VC_TERM_CONCAT;
}

static bool is_one(const struct vc_axes *axes, uint32_t term)
{
    return is_number(axes, term) && size_of(axes, term) == 1;
}

/* Axes of size 1 broadcast and are never joined. Two known sizes that differ do not fit: shapes that were
 * taken to fit while the graph was built. */
void vc_axes_join(struct vc_axes *axes, uint32_t a, uint32_t b)
{
    if (axes->status != VC_OK) {
        return;
    }
    a = vc_axes_resolve(axes, a);
    b = vc_axes_resolve(axes, b);
    if (a == b || is_one(axes, a) || is_one(axes, b)) {
        return;
    }
    if (is_number(axes, a) && is_number(axes, b) && !same_size(axes, a, b)) {
        fix_both(axes, a, b);
    } else if (axes->terms[a].kind == VC_TERM_ATOM) {
        bind(axes, a, b);
    } else if (axes->terms[b].kind == VC_TERM_ATOM) {
        bind(axes, b, a);
    } else if (has_parts(axes, a) || has_parts(axes, b)) {
        join_parts(axes, a, b);
    } else {
        join_factors(axes, a, b);
    }
}
