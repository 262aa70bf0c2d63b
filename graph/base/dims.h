/* dims.h - dimensions that are numbers or polynomials in the sizes of the inputs.
 *
 * An expression is a sum of terms, a term a whole number times up to VC_DIM_FACTORS atoms, an atom a symbol ("batch")
 * or the quotient of two expressions rounded down, or the larger of an expression and 0 (a quotient by 0). Terms are sorted and expressions kept once, so that equal
 * expressions have the same number:
 *
 *     (height + 2 - 3) / 2 + 1     ->     1 * floor((height - 1)/2) + 1
 *
 * Sums and products of numbers that leave int64_t, and expressions of too many factors, make vc_dim_bad; it stays bad
 * in whatever is made from it. */
#ifndef VC_GRAPH_DIMS_H
#define VC_GRAPH_DIMS_H

#include <vcompress/graph.h>

#include "core/base/arena.h"
#include "core/base/ctx.h"
#include "core/base/hash_table.h"

#define VC_DIM_FACTORS 6
#define VC_DIM_DEPTH   200 /* quotients within quotients: a deep network has one for each halving of its input */

struct vc_dim_term {
    int64_t coefficient;
    uint32_t atoms[VC_DIM_FACTORS]; /* ascending, VC_DIM_NO_ATOM behind the last */
};

struct vc_dim_expression {
    uint32_t n_terms;
    struct vc_dim_term *terms; /* sorted by their atoms; the number without atoms is the last */
};

/* A symbol if `name` is not NULL, else floor(above / below), or max(above, 0) where below is 0. */
struct vc_dim_atom {
    const char *name;
    bool known;                 /* a bound symbol, or a quotient of such */
    int64_t value;              /* then */
    unsigned depth;             /* quotients of quotients of ... */
    int64_t least;              /* that it is with any sizes of inputs; -1: it may be negative */
    struct vc_dim above, below; /* made of atoms before this one */
};

struct vc_dims {
    struct vc_ctx *ctx;
    struct vc_arena *arena;                /* of the graph */
    struct vc_dim_expression *expressions; /* number 0 is what a number has; bad is number 1 */
    uint32_t n;
    size_t capacity;
    struct vc_hash_table by_terms; /* of the expressions */
    struct vc_dim_atom *atoms;
    uint32_t n_atoms;
    size_t atom_capacity;
    bool no_memory; /* an allocation failed: what was returned since is bad */
};

enum vc_status vc_dims_init(struct vc_dims *dims, struct vc_ctx *ctx, struct vc_arena *arena);
void vc_dims_release(struct vc_dims *dims);

static inline struct vc_dim vc_dim_number(int64_t n)
{
    return (struct vc_dim){.size = n};
}

/* What no dimension is. */
static inline struct vc_dim vc_dim_bad(void)
{
    return (struct vc_dim){.size = -1, .expression = 1};
}

static inline bool vc_dim_is_bad(struct vc_dim a)
{
    return a.size < 0 && a.expression == 1;
}

static inline bool vc_dim_is_number(struct vc_dim a)
{
    return a.expression == 0;
}

static inline bool vc_dim_is(struct vc_dim a, int64_t n)
{
    return vc_dim_is_number(a) && a.size == n;
}

/* Both are the same whatever the sizes of the inputs are. */
static inline bool vc_dim_equal(struct vc_dim a, struct vc_dim b)
{
    return a.expression == b.expression && (a.expression != 0 || a.size == b.size) && !vc_dim_is_bad(a);
}

/* The symbol of that name, made at its first use. */
struct vc_dim vc_dim_symbol(struct vc_dims *dims, const char *name);
/* The symbol that a dimension is; NULL: the dimension is a number, or computed. */
const struct vc_dim_atom *vc_dim_symbol_of(const struct vc_dims *dims, struct vc_dim a);

struct vc_dim vc_dim_add(struct vc_dims *dims, struct vc_dim a, struct vc_dim b);
struct vc_dim vc_dim_subtract(struct vc_dims *dims, struct vc_dim a, struct vc_dim b);
struct vc_dim vc_dim_multiply(struct vc_dims *dims, struct vc_dim a, struct vc_dim b);
/* a / b rounded down (to minus infinity). b is a number above 0 or an expression. */
struct vc_dim vc_dim_divide(struct vc_dims *dims, struct vc_dim a, struct vc_dim b);
/* The dimension, or 0 where it is negative. */
struct vc_dim vc_dim_positive(struct vc_dims *dims, struct vc_dim a);
/* The product of n dimensions; 1 of none. */
struct vc_dim vc_dim_product(struct vc_dims *dims, const struct vc_dim *shape, unsigned n);

/* A number that the dimension is never below, where that can be told: sizes of inputs are 1 or more. False: it cannot.
 */
bool vc_dim_least(const struct vc_dims *dims, struct vc_dim a, int64_t *least);

/* They are never the same, whatever the sizes of the inputs are; false: they may be, or it cannot be told. */
bool vc_dim_differ(struct vc_dims *dims, struct vc_dim a, struct vc_dim b);

/* Gives a symbol its size; false: there is none of that name. */
bool vc_dim_bind(struct vc_dims *dims, const char *name, int64_t size);
/* With the bound sizes; -1: a symbol is not bound, or the result is negative or too large. */
int64_t vc_dim_value(const struct vc_dims *dims, struct vc_dim a);
const char *vc_dim_text(const struct vc_dims *dims, struct vc_dim a, char *buffer, size_t n);

#endif
