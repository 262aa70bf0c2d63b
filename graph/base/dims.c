/* dims.c - polynomials in the sizes of inputs: see dims.h.
 *
 * Every function of the arithmetic works in three steps: it adds terms to a `struct sum` on the stack,
 * which keeps them sorted and joins equal ones; intern() looks the finished sum up in a hash table; a new
 * sum becomes an expression with the next number. So two ways to the same polynomial end in the same
 * number, and nobody has to simplify later.
 *
 *     atoms:         0 batch     1 sequence     2 floor((sequence - 1)/2)
 *     expressions:   2    {1 * batch}
 *                    3    {64 * batch * sequence, 12 * batch}
 *                    4    {1 * floor(...), 1}            the number is the last term: it has no atom
 *
 *     vc_dim_multiply(batch, 64 * sequence + 12)     the sum {64 * batch * sequence, 12 * batch}, which is expression 3
 *
 * A dimension is small and is passed by value: a plain number (expression 0), bad (what overflowed or has
 * no sense, expression 1), or the number of an expression. Equal dimensions have equal members, so that
 * comparing two of them needs no walk over terms.
 *
 * An atom is a symbol or what a sum of products cannot express: a quotient that is rounded down, or max(0,
 * x). It has three facts: `known` and `value` follow the sizes that are bound, and `least` is a lower bound
 * that holds for all sizes, 1 for a symbol. With `least` questions are answered before any size is known:
 * whether a difference is positive (vc_dim_differ, Slice), whether max(0, x) is x, whether a factor may be
 * cancelled.
 *
 * Everything that is bounded (factors of a term, terms of a sum, depth of quotients) ends in a bad
 * dimension and no error. A model that needs one is refused where the dimension is used. */
#include "graph/base/dims.h"

#include "core/base/array.h"

#define NO_ATOM   ((uint32_t)-1)
#define MAX_TERMS 32 /* of one expression; more make it bad */

/* A sum while it is made: terms in the order of compare_atoms, none with coefficient 0. bad: a number
 * overflowed, or there were more than MAX_TERMS terms. It lies on the stack and needs no release; about 1
 * KiB. */
struct sum {
    uint32_t n;
    bool bad;
    struct vc_dim_term terms[MAX_TERMS];
};

/* Numbers 0 and 1 stay empty, see struct vc_dims: n starts at 2. */
enum vc_status vc_dims_init(struct vc_dims *dims, struct vc_ctx *ctx, struct vc_arena *arena)
{
    *dims = (struct vc_dims){.ctx = ctx, .arena = arena, .n = 2};
    return VC_GROW(ctx, VC_TAG_MISC, dims->expressions, dims->capacity, dims->n);
}

/* Expressions' terms and names of symbols lie in the arena and are not released here. */
void vc_dims_release(struct vc_dims *dims)
{
    if (dims->ctx != NULL) {
        vc_free(dims->ctx, dims->expressions);
        vc_hash_release(dims->ctx, &dims->by_terms);
        vc_free(dims->ctx, dims->atoms);
    }
    *dims = (struct vc_dims){0};
}

/* ---- sums ---- */

/* The order of terms in an expression: by their atoms, first atom first. NO_ATOM is the largest number, so that
 * terms with atoms come before the plain number. */
static int compare_atoms(const struct vc_dim_term *a, const struct vc_dim_term *b)
{
    for (unsigned k = 0; k < VC_DIM_FACTORS; k++) {
        if (a->atoms[k] != b->atoms[k]) {
            return a->atoms[k] < b->atoms[k] ? -1 : 1;
        }
    }
    return 0;
}

/* Adds one term by insertion sort. A term with the same atoms takes the coefficient; where the sum is 0 the term
 * goes, so that height - height has no terms and is the number 0. */
static void sum_add(struct sum *sum, const struct vc_dim_term *term)
{
    uint32_t at = 0;

    while (at < sum->n && compare_atoms(&sum->terms[at], term) < 0) {
        at++;
    }
    if (at < sum->n && compare_atoms(&sum->terms[at], term) == 0) {
        sum->bad |= __builtin_add_overflow(sum->terms[at].coefficient, term->coefficient, &sum->terms[at].coefficient);
        if (sum->terms[at].coefficient == 0) {
            memmove(&sum->terms[at], &sum->terms[at + 1], (sum->n - at - 1) * sizeof *sum->terms);
            sum->n--;
        }
    } else if (term->coefficient != 0) {
        if (sum->n == MAX_TERMS) {
            sum->bad = true;
            return;
        }
        memmove(&sum->terms[at + 1], &sum->terms[at], (sum->n - at) * sizeof *sum->terms);
        sum->terms[at] = *term;
        sum->n++;
    }
}

/* A term without atoms: all of them are NO_ATOM, whose bytes are 0xff. */
static struct vc_dim_term number_term(int64_t n)
{
    struct vc_dim_term term = {.coefficient = n};

    memset(term.atoms, 0xff, sizeof term.atoms);
    return term;
}

/* Number of terms of a dimension, and the terms: of its expression, or of a number one term that is built in
 * *number (no term for 0). *terms is valid until an expression is added, or as long as *number.
 * The callers treat a number and an expression alike with it. */
static uint32_t terms_of(const struct vc_dims *dims, const struct vc_dim *a, struct vc_dim_term *number,
                         const struct vc_dim_term **terms)
{
    if (a->expression == 0) {
        *number = number_term(a->size);
        *terms = number;
        return a->size != 0;
    }
    *terms = dims->expressions[a->expression].terms;
    return dims->expressions[a->expression].n_terms;
}

/* sum += factor * a.
 * -1 as factor subtracts. */
static void sum_add_dim(const struct vc_dims *dims, struct sum *sum, struct vc_dim a, int64_t factor)
{
    struct vc_dim_term number;
    const struct vc_dim_term *terms;
    uint32_t n = terms_of(dims, &a, &number, &terms);

    sum->bad |= vc_dim_is_bad(a);
    for (uint32_t k = 0; k < n; k++) {
        struct vc_dim_term term = terms[k];

        sum->bad |= __builtin_mul_overflow(term.coefficient, factor, &term.coefficient);
        sum_add(sum, &term);
    }
}

/* The hash table compares terms with memcmp: struct vc_dim_term has no padding (8 + 6 * 4 bytes). */
static uint64_t hash_of_terms(uint32_t n_terms, const struct vc_dim_term *terms)
{
    uint64_t h = n_terms;

    for (uint32_t k = 0; k < n_terms; k++) {
        h = vc_hash_mix(h, (uint64_t)terms[k].coefficient);
        for (unsigned f = 0; f < VC_DIM_FACTORS; f++) {
            h = vc_hash_mix(h, terms[k].atoms[f]);
        }
    }
    return h;
}

static uint64_t hash_of(const void *dims, size_t number)
{
    const struct vc_dim_expression *e = &((const struct vc_dims *)dims)->expressions[number];

    return hash_of_terms(e->n_terms, e->terms);
}

/* What is_same compares with: a finished sum. */
struct key {
    const struct vc_dims *dims;
    const struct sum *sum;
};

static bool is_same(const void *user, size_t number)
{
    const struct key *key = user;
    const struct vc_dim_expression *e = &key->dims->expressions[number];

    return e->n_terms == key->sum->n && memcmp(e->terms, key->sum->terms, e->n_terms * sizeof *e->terms) == 0;
}

/* Room for one more expression and its place in the hash table. */
static bool grow(struct vc_dims *dims)
{
    return VC_GROW(dims->ctx, VC_TAG_MISC, dims->expressions, dims->capacity, dims->n + (size_t)1) == VC_OK &&
           vc_hash_grow(dims->ctx, &dims->by_terms, dims->n, hash_of, dims) == VC_OK;
}

/* The dimension of a finished sum: a plain number where no atoms are left, else the number of the expression, which
 * is added if it is new. Out of memory is remembered in dims->no_memory and returned by whoever ends the building.
 * The size of a dimension that is no number is -1, and is looked at by nobody. */
static struct vc_dim intern(struct vc_dims *dims, const struct sum *sum)
{
    const struct key key = {dims, sum};

    if (sum->bad) {
        return vc_dim_bad();
    }
    if (sum->n == 0) {
        return vc_dim_number(0);
    }
    if (sum->n == 1 && sum->terms[0].atoms[0] == NO_ATOM) {
        return vc_dim_number(sum->terms[0].coefficient);
    }
    uint64_t hash = hash_of_terms(sum->n, sum->terms);
    size_t at = vc_hash_find(&dims->by_terms, hash, is_same, &key);
    if (at != SIZE_MAX) {
        return (struct vc_dim){.size = -1, .expression = (uint32_t)at};
    }
    if (!grow(dims)) {
        dims->no_memory = true;
        return vc_dim_bad();
    }
    struct vc_dim_expression *e = &dims->expressions[dims->n];
    e->n_terms = sum->n;
    e->terms = vc_arena_alloc(dims->ctx, dims->arena, sum->n * sizeof *sum->terms);
    if (e->terms == NULL) {
        dims->no_memory = true;
        return vc_dim_bad();
    }
    memcpy(e->terms, sum->terms, sum->n * sizeof *sum->terms);
    vc_hash_add(&dims->by_terms, hash, dims->n);
    return (struct vc_dim){.size = -1, .expression = dims->n++};
}

/* The dimension 1 * atom. */
static struct vc_dim dim_of_atom(struct vc_dims *dims, uint32_t atom)
{
    struct sum sum = {.n = 1};

    sum.terms[0] = number_term(1);
    sum.terms[0].atoms[0] = atom;
    return intern(dims, &sum);
}

/* ---- atoms ---- */

/* Rounded to minus infinity as ONNX's shape arithmetic and Python's // do it: -1 // 2 is -1, where C's -1 / 2 is 0. */
static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* Whether two dimensions have the same number or expression; bad ones are equal here, unlike in
 * vc_dim_equal. */
static bool same_dim(struct vc_dim a, struct vc_dim b)
{
    return a.size == b.size && a.expression == b.expression;
}

static bool evaluate(const struct vc_dims *dims, struct vc_dim a, int64_t *out);

/* How deep quotients are nested in an expression: 0 for batch + 1, 1 for floor(height/2). VC_DIM_DEPTH bounds it,
 * because evaluation and text recurse.
 * The depth of an atom is stored when it is made, so that this looks at one level only. */
static unsigned depth_of(const struct vc_dims *dims, struct vc_dim a)
{
    struct vc_dim_term number;
    const struct vc_dim_term *terms;
    uint32_t n = terms_of(dims, &a, &number, &terms);
    unsigned depth = 0;

    for (uint32_t k = 0; k < n; k++) {
        for (unsigned f = 0; f < VC_DIM_FACTORS && terms[k].atoms[f] != NO_ATOM; f++) {
            unsigned inner = dims->atoms[terms[k].atoms[f]].depth;

            depth = inner > depth ? inner : depth;
        }
    }
    return depth;
}

/* Computes `known` and `value` of a quotient from the sizes that are bound. The atoms in it have smaller numbers,
 * so that their values are up to date when atoms are visited in order. A symbol is left as it is.
 * A divisor that is 0 marks max(0, above), see atom_dim and vc_dim_positive. */
static void atom_value(struct vc_dims *dims, struct vc_dim_atom *atom)
{
    int64_t above, below;

    if (atom->name == NULL && vc_dim_is(atom->below, 0)) {
        atom->known = evaluate(dims, atom->above, &above);
        atom->value = atom->known && above > 0 ? above : 0;
    } else if (atom->name == NULL) {
        atom->known = evaluate(dims, atom->above, &above) && evaluate(dims, atom->below, &below) && below > 0;
        atom->value = atom->known ? floor_divide(above, below) : 0;
    }
}

/* Room for one more atom; NULL: no memory. */
static struct vc_dim_atom *new_atom(struct vc_dims *dims)
{
    if (VC_GROW(dims->ctx, VC_TAG_MISC, dims->atoms, dims->atom_capacity, dims->n_atoms + (size_t)1) != VC_OK) {
        dims->no_memory = true;
        return NULL;
    }
    return &dims->atoms[dims->n_atoms];
}

/* The lower bound of floor(above / below), -1 if it may be negative. With a number as divisor the bound is that of
 * the dividend, divided; an expression as divisor may be large, and only 0 is certain. */
static int64_t least_quotient(const struct vc_dims *dims, struct vc_dim above, struct vc_dim below)
{
    int64_t least, divisor;

    if (vc_dim_is(below, 0)) {
        return 0;
    }
    if (!vc_dim_least(dims, above, &least) || !vc_dim_least(dims, below, &divisor) || least < 0 || divisor <= 0) {
        return -1;
    }
    return vc_dim_is_number(below) ? least / below.size : 0;
}

/* The dimension that is the symbol `name`, or with name NULL the quotient; made at its first use. The search is
 * linear in the number of atoms: a symbol for each open size, and a quotient for each time a convolution network
 * halves it.
 * New quotients get their value at once, since sizes may be bound already while a graph is still built. */
static struct vc_dim atom_dim(struct vc_dims *dims, const char *name, struct vc_dim above, struct vc_dim below)
{
    struct vc_dim_atom *atom;
    unsigned depth = depth_of(dims, above);

    for (uint32_t k = 0; k < dims->n_atoms; k++) {
        atom = &dims->atoms[k];
        if (name != NULL ? atom->name != NULL && strcmp(atom->name, name) == 0
                         : atom->name == NULL && same_dim(atom->above, above) && same_dim(atom->below, below)) {
            return dim_of_atom(dims, k);
        }
    }
    if (vc_dim_is_bad(above) || vc_dim_is_bad(below) || depth + depth_of(dims, below) >= VC_DIM_DEPTH) {
        return vc_dim_bad();
    }
    atom = new_atom(dims);
    if (atom == NULL) {
        return vc_dim_bad();
    }
    *atom = (struct vc_dim_atom){.above = above, .below = below};
    if (name != NULL) {
        atom->name = vc_arena_copy(dims->ctx, dims->arena, name, strlen(name));
        if (atom->name == NULL) {
            dims->no_memory = true;
            return vc_dim_bad();
        }
    } else {
        atom->depth = 1 + depth + depth_of(dims, below);
    }
    atom_value(dims, atom);
    atom->least = name != NULL ? 1 : least_quotient(dims, above, below);
    return dim_of_atom(dims, dims->n_atoms++);
}

/* The same name is the same symbol: "batch" of two inputs is one size. */
struct vc_dim vc_dim_symbol(struct vc_dims *dims, const char *name)
{
    return atom_dim(dims, name, vc_dim_number(0), vc_dim_number(1));
}

/* ---- arithmetic ---- */

/* a + b and a - b. Terms that cancel are gone: (sequence + 1) - sequence is the number 1. */
struct vc_dim vc_dim_add(struct vc_dims *dims, struct vc_dim a, struct vc_dim b)
{
    struct sum sum = {0};

    sum_add_dim(dims, &sum, a, 1);
    sum_add_dim(dims, &sum, b, 1);
    return intern(dims, &sum);
}

struct vc_dim vc_dim_subtract(struct vc_dims *dims, struct vc_dim a, struct vc_dim b)
{
    struct sum sum = {0};

    sum_add_dim(dims, &sum, a, 1);
    sum_add_dim(dims, &sum, b, -1);
    return intern(dims, &sum);
}

/* The product of two terms: coefficients multiplied, atoms merged in ascending order.
 *     2*batch * 3*batch*heads = 6*batch*batch*heads
 * False where the number overflows or there are more than VC_DIM_FACTORS atoms. */
static bool multiply_terms(const struct vc_dim_term *a, const struct vc_dim_term *b, struct vc_dim_term *out)
{
    unsigned i = 0;
    unsigned j = 0;

    *out = number_term(0);
    if (__builtin_mul_overflow(a->coefficient, b->coefficient, &out->coefficient)) {
        return false;
    }
    for (unsigned k = 0;; k++) {
        uint32_t x = i < VC_DIM_FACTORS ? a->atoms[i] : NO_ATOM;
        uint32_t y = j < VC_DIM_FACTORS ? b->atoms[j] : NO_ATOM;

        if (x == NO_ATOM && y == NO_ATOM) {
            return true;
        }
        if (k == VC_DIM_FACTORS) {
            return false;
        }
        out->atoms[k] = x <= y ? x : y;
        i += x <= y;
        j += x > y;
    }
}

/* Each term of a times each term of b: (batch + 1) * (heads + 2) has four.
 * A pair that overflows or has too many factors makes the product bad. */
struct vc_dim vc_dim_multiply(struct vc_dims *dims, struct vc_dim a, struct vc_dim b)
{
    struct sum sum = {.bad = vc_dim_is_bad(a) || vc_dim_is_bad(b)};
    struct vc_dim_term number_a;
    struct vc_dim_term number_b;
    const struct vc_dim_term *terms_a;
    const struct vc_dim_term *terms_b;
    uint32_t n_a = terms_of(dims, &a, &number_a, &terms_a);
    uint32_t n_b = terms_of(dims, &b, &number_b, &terms_b);

    for (uint32_t i = 0; i < n_a && !sum.bad; i++) {
        for (uint32_t j = 0; j < n_b; j++) {
            struct vc_dim_term term;

            if (!multiply_terms(&terms_a[i], &terms_b[j], &term)) {
                sum.bad = true;
                break;
            }
            sum_add(&sum, &term);
        }
    }
    return intern(dims, &sum);
}

/* The exact quotient of two terms: false where the number or the atoms of b do not divide those of a. Both lists of
 * atoms are ascending, so one walk over a finds all atoms of b. INT64_MIN / -1 would trap. */
static bool divide_terms(const struct vc_dim_term *a, const struct vc_dim_term *b, struct vc_dim_term *out)
{
    unsigned j = 0;
    unsigned n = 0;

    *out = number_term(0);
    if (b->coefficient == 0 || (a->coefficient == INT64_MIN && b->coefficient == -1) ||
        a->coefficient % b->coefficient != 0) {
        return false;
    }
    out->coefficient = a->coefficient / b->coefficient;
    for (unsigned i = 0; i < VC_DIM_FACTORS && a->atoms[i] != NO_ATOM; i++) {
        if (j < VC_DIM_FACTORS && a->atoms[i] == b->atoms[j]) {
            j++;
        } else {
            out->atoms[n++] = a->atoms[i];
        }
    }
    return j == VC_DIM_FACTORS || b->atoms[j] == NO_ATOM;
}

/* True, with *out, where a is exactly *out * b for one term *out. This is the question of Reshape: [2*batch, 12*64]
 * to [-1, 64] asks for 24*batch. The leading terms give the only candidate; multiplying back proves it for all
 * terms.
 * No for [batch, 10] to [-1, 4]: 10*batch is no multiple of 4 for every batch, and a quotient is kept. */
static bool is_multiple(struct vc_dims *dims, struct vc_dim a, struct vc_dim b, struct vc_dim *out)
{
    struct vc_dim_term number_a;
    struct vc_dim_term number_b;
    const struct vc_dim_term *terms_a;
    const struct vc_dim_term *terms_b;
    struct sum sum = {.n = 1};

    if (terms_of(dims, &a, &number_a, &terms_a) == 0 || terms_of(dims, &b, &number_b, &terms_b) == 0 ||
        !divide_terms(&terms_a[0], &terms_b[0], &sum.terms[0])) {
        return false;
    }
    *out = intern(dims, &sum);
    return vc_dim_equal(vc_dim_multiply(dims, *out, b), a);
}

/* The dimension without that atom, which all its terms have.
 * The caller asked all_terms_have; a term without the atom would make the result bad. */
static struct vc_dim without_atom(struct vc_dims *dims, struct vc_dim a, uint32_t atom)
{
    struct vc_dim_term number;
    const struct vc_dim_term *terms;
    uint32_t n = terms_of(dims, &a, &number, &terms);
    struct vc_dim_term divisor = number_term(1);
    struct sum sum = {0};

    divisor.atoms[0] = atom;
    for (uint32_t k = 0; k < n; k++) {
        struct vc_dim_term term;

        sum.bad |= !divide_terms(&terms[k], &divisor, &term);
        sum_add(&sum, &term);
    }
    return intern(dims, &sum);
}

/* True if each term of a contains the atom, so that a can be divided by it. False for 0, which has no
 * terms. */
static bool all_terms_have(const struct vc_dims *dims, struct vc_dim a, uint32_t atom)
{
    struct vc_dim_term number;
    const struct vc_dim_term *terms;
    uint32_t n = terms_of(dims, &a, &number, &terms);

    for (uint32_t k = 0; k < n; k++) {
        unsigned f = 0;

        while (f < VC_DIM_FACTORS && terms[k].atoms[f] != atom) {
            f++;
        }
        if (f == VC_DIM_FACTORS) {
            return false;
        }
    }
    return n != 0;
}

/* Divides both by one atom that all terms of both contain: floor((5*batch)/(40*batch)) becomes floor(5/40). The
 * atom has to be 1 or more, or the quotient could be one by 0. True: something was cancelled; the caller tries
 * again.
 * Atoms of the first term of b are candidates, since a common factor is in every term. */
static bool cancel(struct vc_dims *dims, struct vc_dim *a, struct vc_dim *b)
{
    struct vc_dim_term number;
    const struct vc_dim_term *terms;

    if (terms_of(dims, b, &number, &terms) == 0) {
        return false;
    }
    struct vc_dim_term first = terms[0];
    for (unsigned f = 0; f < VC_DIM_FACTORS && first.atoms[f] != NO_ATOM; f++) {
        uint32_t atom = first.atoms[f];

        if (dims->atoms[atom].least >= 1 && all_terms_have(dims, *a, atom) && all_terms_have(dims, *b, atom)) {
            *a = without_atom(dims, *a, atom);
            *b = without_atom(dims, *b, atom);
            return true;
        }
    }
    return false;
}

/* From the exact to the general case, so that a quotient atom is the last resort:
 *     1. numbers                        7 / 2 = 3
 *     2. a whole multiple               12*batch / batch = 12
 *     3. a common factor                (5*batch) / (40*batch) = 5 / 40
 *     4. a part that comes out even     (2*height + 3) / 2 = height + 1 + floor(1/2) = height + 1
 *     5. an atom for what remains       (height - 1) / 2 = floor((height - 1)/2)
 * Step 4 is exact because floor((b*q + r)/b) = q + floor(r/b) for whole q, also of negative r. */
struct vc_dim vc_dim_divide(struct vc_dims *dims, struct vc_dim a, struct vc_dim b)
{
    struct sum whole = {0};
    struct sum rest = {0};
    struct vc_dim_term number_a;
    struct vc_dim_term number_b;
    const struct vc_dim_term *terms_a;
    const struct vc_dim_term *terms_b;
    uint32_t n_a = terms_of(dims, &a, &number_a, &terms_a);
    uint32_t n_b = terms_of(dims, &b, &number_b, &terms_b);
    struct vc_dim multiple;

    if (vc_dim_is_bad(a) || vc_dim_is_bad(b) || (vc_dim_is_number(b) && b.size <= 0)) {
        return vc_dim_bad();
    }
    if (vc_dim_is_number(a) && vc_dim_is_number(b)) {
        return vc_dim_number(floor_divide(a.size, b.size));
    }
    if (is_multiple(dims, a, b, &multiple)) {
        return multiple;
    }
    if (cancel(dims, &a, &b)) {
        return vc_dim_divide(dims, a, b);
    }
    for (uint32_t k = 0; k < n_a; k++) { /* floor((b*q + r)/b) = q + floor(r/b) */
        struct vc_dim_term term;

        if (n_b == 1 && divide_terms(&terms_a[k], &terms_b[0], &term)) {
            sum_add(&whole, &term);
        } else if (n_b == 1 && terms_a[k].atoms[0] == NO_ATOM && vc_dim_is_number(b)) {
            int64_t q = floor_divide(terms_a[k].coefficient, b.size);

            term = number_term(q);
            sum_add(&whole, &term);
            term = number_term(terms_a[k].coefficient - q * b.size);
            sum_add(&rest, &term);
        } else {
            sum_add(&rest, &terms_a[k]);
        }
    }
    a = intern(dims, &rest);
    a = vc_dim_is_number(a) && vc_dim_is_number(b) ? vc_dim_number(floor_divide(a.size, b.size))
                                                   : atom_dim(dims, NULL, a, b);
    return vc_dim_add(dims, intern(dims, &whole), a);
}

/* max(a, 0). Where the sign is known for all sizes there is no atom: batch stays batch, and -batch becomes 0. Max
 * and Min of known elements are made of it (ops_math.c): max(a, b) = a + max(b - a, 0). */
struct vc_dim vc_dim_positive(struct vc_dims *dims, struct vc_dim a)
{
    int64_t least;

    if (vc_dim_is_number(a)) {
        return vc_dim_number(a.size > 0 ? a.size : 0);
    }
    if (vc_dim_least(dims, a, &least) && least >= 0) {
        return a;
    }
    return vc_dim_least(dims, vc_dim_subtract(dims, vc_dim_number(0), a), &least) && least >= 0
               ? vc_dim_number(0)
               : atom_dim(dims, NULL, a, vc_dim_number(0));
}

/* The number of elements of a shape, 1 of a shape without dimensions. */
struct vc_dim vc_dim_product(struct vc_dims *dims, const struct vc_dim *shape, unsigned n)
{
    struct vc_dim product = vc_dim_number(1);

    for (unsigned k = 0; k < n; k++) {
        product = vc_dim_multiply(dims, product, shape[k]);
    }
    return product;
}

/* The sum of the lower bounds of the terms. A term counts if its coefficient is positive and no factor can be
 * negative; the product of lower bounds is then a lower bound of the product.
 *     batch * sequence + 3     1 * 1 + 3 = 4
 *     batch - 1                1 - 1 = 0: the number counts with its sign
 *     1 - batch                not known: the coefficient of batch is negative
 */
bool vc_dim_least(const struct vc_dims *dims, struct vc_dim a, int64_t *least)
{
    struct vc_dim_term number;
    const struct vc_dim_term *terms;
    uint32_t n = terms_of(dims, &a, &number, &terms);

    *least = 0;
    for (uint32_t k = 0; k < n; k++) {
        int64_t product = terms[k].coefficient;

        for (unsigned f = 0; f < VC_DIM_FACTORS && terms[k].atoms[f] != NO_ATOM; f++) {
            int64_t factor = dims->atoms[terms[k].atoms[f]].least;

            if (factor < 0 || terms[k].coefficient < 0 || __builtin_mul_overflow(product, factor, &product)) {
                return false;
            }
        }
        if (__builtin_add_overflow(*least, product, least)) {
            return false;
        }
    }
    return !vc_dim_is_bad(a);
}

/* a - b or b - a is at least 1 for all sizes. The symbols cancel in the difference, so batch + 1 and batch are told
 * apart.
 * False where neither is certain: batch and sequence may be equal. */
bool vc_dim_differ(struct vc_dims *dims, struct vc_dim a, struct vc_dim b)
{
    struct vc_dim above = vc_dim_subtract(dims, a, b);
    struct vc_dim below = vc_dim_subtract(dims, b, a);
    int64_t least;

    return (vc_dim_least(dims, above, &least) && least > 0) || (vc_dim_least(dims, below, &least) && least > 0);
}

/* ---- values and text ---- */

/* The value with the bound sizes, of a number too. False: a symbol is not bound, or the value leaves int64_t. Atoms
 * have their values already (vc_dim_bind), so nothing recurses.
 * vc_dim_least walks the same terms with lower bounds. */
static bool evaluate(const struct vc_dims *dims, struct vc_dim a, int64_t *out)
{
    struct vc_dim_term number;
    const struct vc_dim_term *terms;
    uint32_t n = terms_of(dims, &a, &number, &terms);

    *out = 0;
    for (uint32_t k = 0; k < n; k++) {
        int64_t product = terms[k].coefficient;

        for (unsigned f = 0; f < VC_DIM_FACTORS && terms[k].atoms[f] != NO_ATOM; f++) {
            const struct vc_dim_atom *atom = &dims->atoms[terms[k].atoms[f]];

            if (!atom->known || __builtin_mul_overflow(product, atom->value, &product)) {
                return false;
            }
        }
        if (__builtin_add_overflow(*out, product, out)) {
            return false;
        }
    }
    return !vc_dim_is_bad(a);
}

/* One term with coefficient 1 and one atom that has a name.
 * 2*batch and batch + 1 are no symbols: a size of theirs would not tell that of batch in general. */
const struct vc_dim_atom *vc_dim_symbol_of(const struct vc_dims *dims, struct vc_dim a)
{
    const struct vc_dim_expression *e = &dims->expressions[a.expression];

    if (vc_dim_is_number(a) || vc_dim_is_bad(a) || e->n_terms != 1 || e->terms[0].coefficient != 1 ||
        e->terms[0].atoms[0] == NO_ATOM || e->terms[0].atoms[1] != NO_ATOM ||
        dims->atoms[e->terms[0].atoms[0]].name == NULL) {
        return NULL;
    }
    return &dims->atoms[e->terms[0].atoms[0]];
}

/* One pass in ascending order is enough: a quotient is made of atoms with smaller numbers.
 * False: there is no symbol of that name. */
bool vc_dim_bind(struct vc_dims *dims, const char *name, int64_t size)
{
    bool found = false;

    for (uint32_t k = 0; k < dims->n_atoms; k++) { /* quotients come after what they are made of */
        struct vc_dim_atom *atom = &dims->atoms[k];

        if (atom->name != NULL && strcmp(atom->name, name) == 0) {
            atom->known = found = true;
            atom->value = size;
        }
        atom_value(dims, atom);
    }
    return found;
}

/* Sizes and counts are never negative: a negative value is an error of the model, and returned like an unbound one. */
int64_t vc_dim_value(const struct vc_dims *dims, struct vc_dim a)
{
    int64_t value;

    return evaluate(dims, a, &value) && value >= 0 ? value : -1;
}

static void add_text(const struct vc_dims *dims, struct vc_dim a, char *buffer, size_t n, size_t *at);

/* snprintf at *at of the buffer; *at then stays below n, whatever was cut. */
VC_PRINTF(4, 5) static void add(char *buffer, size_t n, size_t *at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int more = vsnprintf(buffer + *at, n - *at, format, args);
    va_end(args);
    if (more > 0) {
        *at += (size_t)more < n - *at ? (size_t)more : n - *at - 1;
    }
}

/* One term with its sign: "2*batch*sequence", " - 1". The coefficient 1 is not written before atoms. |INT64_MIN|
 * does not fit into int64_t, so the size is taken as unsigned.
 *     first  -1 * batch                    "-batch"
 *     then   3 * batch * sequence          " + 3*batch*sequence"
 *     then   1 * floor((sequence - 1)/2)   " + floor((sequence - 1)/2)"
 */
static void add_term(const struct vc_dims *dims, const struct vc_dim_term *term, bool first, char *buffer, size_t n,
                     size_t *at)
{
    bool negative = term->coefficient < 0;
    uint64_t size = negative ? 0 - (uint64_t)term->coefficient : (uint64_t)term->coefficient;

    if (first) {
        add(buffer, n, at, "%s", negative ? "-" : "");
    } else {
        add(buffer, n, at, "%s", negative ? " - " : " + ");
    }
    if (size != 1 || term->atoms[0] == NO_ATOM) {
        add(buffer, n, at, "%" PRIu64 "%s", size, term->atoms[0] == NO_ATOM ? "" : "*");
    }
    for (unsigned k = 0; k < VC_DIM_FACTORS && term->atoms[k] != NO_ATOM; k++) {
        const struct vc_dim_atom *atom = &dims->atoms[term->atoms[k]];

        add(buffer, n, at, "%s", k == 0 ? "" : "*");
        if (atom->name != NULL) {
            add(buffer, n, at, "%s", atom->name);
            continue;
        }
        add(buffer, n, at, vc_dim_is(atom->below, 0) ? "max(0, " : "floor((");
        add_text(dims, atom->above, buffer, n, at);
        if (vc_dim_is(atom->below, 0)) {
            add(buffer, n, at, ")");
            continue;
        }
        add(buffer, n, at, vc_dim_is_number(atom->below) ? ")/" : ")/(");
        add_text(dims, atom->below, buffer, n, at);
        add(buffer, n, at, vc_dim_is_number(atom->below) ? ")" : "))");
    }
}

/* The text of a dimension at *at. Recurses into quotients; once the buffer is full nothing more is added,
 * which bounds the work. */
static void add_text(const struct vc_dims *dims, struct vc_dim a, char *buffer, size_t n, size_t *at)
{
    if (*at + 1 >= n) {
        return; /* full: quotients may repeat what is inside them */
    }
    if (vc_dim_is_bad(a)) {
        add(buffer, n, at, "?");
    } else if (vc_dim_is_number(a)) {
        add(buffer, n, at, "%" PRId64, a.size);
    } else {
        const struct vc_dim_expression *e = &dims->expressions[a.expression];

        for (uint32_t k = 0; k < e->n_terms; k++) {
            add_term(dims, &e->terms[k], k == 0, buffer, n, at);
        }
    }
}

/* The dimension as a text of at most n - 1 characters; returns buffer. */
const char *vc_dim_text(const struct vc_dims *dims, struct vc_dim a, char *buffer, size_t n)
{
    size_t at = 0;

    buffer[0] = '\0';
    add_text(dims, a, buffer, n, &at);
    return buffer;
}
