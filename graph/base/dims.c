/* dims.c - polynomials in the sizes of inputs: see dims.h. */
#include "graph/base/dims.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"

#define NO_ATOM   ((uint32_t)-1)
#define MAX_TERMS 32

/* A sum while it is made. */
struct sum {
    uint32_t n;
    bool bad;
    struct vc_dim_term terms[MAX_TERMS];
};

enum vc_status vc_dims_init(struct vc_dims *dims, struct vc_ctx *ctx, struct vc_arena *arena)
{
    *dims = (struct vc_dims){.ctx = ctx, .arena = arena, .n = 2};
    return VC_GROW(ctx, VC_TAG_MISC, dims->expressions, dims->capacity, dims->n);
}

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

/* Terms with atoms come before the number, others by their atoms. */
static int compare_atoms(const struct vc_dim_term *a, const struct vc_dim_term *b)
{
    for (unsigned k = 0; k < VC_DIM_FACTORS; k++) {
        if (a->atoms[k] != b->atoms[k]) {
            return a->atoms[k] < b->atoms[k] ? -1 : 1;
        }
    }
    return 0;
}

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

static struct vc_dim_term number_term(int64_t n)
{
    struct vc_dim_term term = {.coefficient = n};

    memset(term.atoms, 0xff, sizeof term.atoms);
    return term;
}

/* The terms of a dimension: those of its expression, or one. */
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

static bool grow(struct vc_dims *dims)
{
    return VC_GROW(dims->ctx, VC_TAG_MISC, dims->expressions, dims->capacity, dims->n + (size_t)1) == VC_OK &&
           vc_hash_grow(dims->ctx, &dims->by_terms, dims->n, hash_of, dims) == VC_OK;
}

/* The number of the expression, which is made where there is none. */
static struct vc_dim intern(struct vc_dims *dims, const struct sum *sum)
{
    const struct key key = {dims, sum};
    struct vc_dim_expression *e;
    uint64_t hash;
    size_t at;

    if (sum->bad) {
        return vc_dim_bad();
    }
    if (sum->n == 0) {
        return vc_dim_number(0);
    }
    if (sum->n == 1 && sum->terms[0].atoms[0] == NO_ATOM) {
        return vc_dim_number(sum->terms[0].coefficient);
    }
    hash = hash_of_terms(sum->n, sum->terms);
    at = vc_hash_find(&dims->by_terms, hash, is_same, &key);
    if (at != SIZE_MAX) {
        return (struct vc_dim){.size = -1, .expression = (uint32_t)at};
    }
    if (!grow(dims)) {
        dims->no_memory = true;
        return vc_dim_bad();
    }
    e = &dims->expressions[dims->n];
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

static struct vc_dim dim_of_atom(struct vc_dims *dims, uint32_t atom)
{
    struct sum sum = {.n = 1};

    sum.terms[0] = number_term(1);
    sum.terms[0].atoms[0] = atom;
    return intern(dims, &sum);
}

/* ---- atoms ---- */

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static bool same_dim(struct vc_dim a, struct vc_dim b)
{
    return a.size == b.size && a.expression == b.expression;
}

static bool evaluate(const struct vc_dims *dims, struct vc_dim a, int64_t *out);

/* Quotients that an expression has inside each other. */
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

/* What it is with the sizes that are bound; the atoms in it are known already. */
static void atom_value(struct vc_dims *dims, struct vc_dim_atom *atom)
{
    int64_t above;
    int64_t below;

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

/* -1: it may be negative. */
static int64_t least_quotient(const struct vc_dims *dims, struct vc_dim above, struct vc_dim below)
{
    int64_t least;
    int64_t divisor;

    if (vc_dim_is(below, 0)) {
        return 0;
    }
    if (!vc_dim_least(dims, above, &least) || !vc_dim_least(dims, below, &divisor) || least < 0 || divisor <= 0) {
        return -1;
    }
    return vc_dim_is_number(below) ? least / below.size : 0;
}

/* The atom that is a symbol of that name, or where name is NULL that quotient; made where there is none. */
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

struct vc_dim vc_dim_symbol(struct vc_dims *dims, const char *name)
{
    return atom_dim(dims, name, vc_dim_number(0), vc_dim_number(1));
}

/* ---- arithmetic ---- */

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

/* Joins the atoms of two terms, in order. */
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

/* a = b * *out for two terms. */
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

/* a is q * b for a single term q: what reshapes ask for. */
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

/* The dimension without that atom, which all its terms have. */
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

/* floor((5*batch)/(40*batch)) is floor(5/40): what all terms of both have, and is 1 or more, goes. */
static bool cancel(struct vc_dims *dims, struct vc_dim *a, struct vc_dim *b)
{
    struct vc_dim_term number;
    const struct vc_dim_term *terms;
    struct vc_dim_term first;

    if (terms_of(dims, b, &number, &terms) == 0) {
        return false;
    }
    first = terms[0];
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

struct vc_dim vc_dim_product(struct vc_dims *dims, const struct vc_dim *shape, unsigned n)
{
    struct vc_dim product = vc_dim_number(1);

    for (unsigned k = 0; k < n; k++) {
        product = vc_dim_multiply(dims, product, shape[k]);
    }
    return product;
}

/* Terms that are added and not subtracted, of symbols and quotients that are not negative. */
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

bool vc_dim_differ(struct vc_dims *dims, struct vc_dim a, struct vc_dim b)
{
    struct vc_dim above = vc_dim_subtract(dims, a, b);
    struct vc_dim below = vc_dim_subtract(dims, b, a);
    int64_t least;

    return (vc_dim_least(dims, above, &least) && least > 0) || (vc_dim_least(dims, below, &least) && least > 0);
}

/* ---- values and text ---- */

/* False: a symbol is not bound, or the value leaves int64_t. */
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

int64_t vc_dim_value(const struct vc_dims *dims, struct vc_dim a)
{
    int64_t value;

    return evaluate(dims, a, &value) && value >= 0 ? value : -1;
}

static void add_text(const struct vc_dims *dims, struct vc_dim a, char *buffer, size_t n, size_t *at);

VC_PRINTF(4, 5) static void add(char *buffer, size_t n, size_t *at, const char *format, ...)
{
    va_list args;
    int more;

    va_start(args, format);
    more = vsnprintf(buffer + *at, n - *at, format, args);
    va_end(args);
    if (more > 0) {
        *at += (size_t)more < n - *at ? (size_t)more : n - *at - 1;
    }
}

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

const char *vc_dim_text(const struct vc_dims *dims, struct vc_dim a, char *buffer, size_t n)
{
    size_t at = 0;

    buffer[0] = '\0';
    add_text(dims, a, buffer, n, &at);
    return buffer;
}
