/* dims.h - dimensions that are numbers or polynomials in the sizes of the inputs.
 *
 * An expression is a sum of terms; a term is a whole number times up to VC_DIM_FACTORS atoms; an atom is a symbol
 * ("batch"), the quotient of two expressions rounded down, or the larger of an expression and 0 (kept as a quotient
 * by 0). Terms are sorted and each expression is kept once, so that equal expressions have the same number:
 *
 *     (height + 2 - 3) / 2 + 1     ->     1 * floor((height - 1)/2) + 1
 *
 *     as terms     {1, [atom 2]}, {1, [none]}           sorted by atoms; the number without atoms is the last term
 *     atom 2       above = height - 1, below = 2        atoms refer only to expressions made before the atom
 *
 * Why polynomials: shape inference has to answer "are these two dimensions equal for every size of the inputs" and
 * "is 12 * head the dimension hidden"; with one number for each expression the first question compares two
 * integers, and reshapes of transformers ([batch, sequence, heads * size]) need products and exact quotients of
 * symbols.
 *
 * A sum or product of numbers that leaves int64_t, and an expression with too many factors or terms, is vc_dim_bad;
 * all that is computed from a bad dimension is bad. Callers therefore check once, at the end (vc_infer_out does). */
#pragma once

#include <vcompress/graph.h>

#include "core/base/arena.h"
#include "core/base/hash_table.h"

#define VC_DIM_FACTORS 6
#define VC_DIM_DEPTH   200 /* quotients within quotients: a deep network has one for each halving of its input */

/* The product of a whole number and atoms: 2*batch*sequence is {2, {batch, sequence, none...}}. The same atom may
 * stand several times: batch squared. */
struct vc_dim_term {
    int64_t coefficient;
    uint32_t atoms[VC_DIM_FACTORS]; /* ascending, VC_DIM_NO_ATOM behind the last */
};

/* The sum of its terms: 2*sequence + 1. A single term without atoms is a plain number, which has no expression. */
struct vc_dim_expression {
    uint32_t n_terms;
    struct vc_dim_term *terms; /* sorted by their atoms; the number without atoms is the last */
};

/* A symbol if `name` is not NULL; else floor(above / below), or max(above, 0) where below is 0. Atoms are numbered
 * in the order of their first use and never removed. */
struct vc_dim_atom {
    const char *name;
    bool known;                 /* a symbol with a bound size, or a quotient whose symbols all have one */
    int64_t value;              /* if known: the size, or the quotient for the bound sizes */
    unsigned depth;             /* of nested quotients: 0 for a symbol, 2 for floor(floor(h/2)/2) */
    int64_t least;              /* lower bound for all sizes of inputs, which are 1 or more; -1: may be negative */
    struct vc_dim above, below; /* dividend and divisor; their atoms have smaller numbers than this one */
};

/* The expressions and atoms of one graph. A struct vc_dim means something only together with the vc_dims that made
 * it: two graphs have different expressions under the same number. */
struct vc_dims {
    struct vc_ctx *ctx;
    struct vc_arena *arena;                /* of the graph */
    struct vc_dim_expression *expressions; /* 0 and 1 are not used: 0 marks a number, 1 is vc_dim_bad */
    uint32_t n;
    size_t capacity;
    struct vc_hash_table by_terms; /* of the expressions */
    struct vc_dim_atom *atoms;
    uint32_t n_atoms;
    size_t atom_capacity;
    bool no_memory; /* an allocation failed: what was returned since is bad */
};

/* The arena has to live as long as the dims; terms and names are allocated there and freed with it. */
enum vc_status vc_dims_init(struct vc_dims *dims, struct vc_ctx *ctx, struct vc_arena *arena);
void vc_dims_release(struct vc_dims *dims);

static inline struct vc_dim vc_dim_number(int64_t n)
{
    return (struct vc_dim){.size = n};
}

/* The result of arithmetic that overflowed or ran out of memory. Equal to no dimension, not even to itself. */
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

/* Both have the same value for all sizes of the inputs. False does not mean that the values differ: vc_dim_differ
 * tells. */
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

/* A lower bound of the dimension, where one is known: sizes of inputs are 1 or more, so 2*batch + 3 is at least 5.
 * False where a term is subtracted or a factor may be negative: nothing is known. */
bool vc_dim_least(const struct vc_dims *dims, struct vc_dim a, int64_t *least);

/* True if the values differ for all sizes of the inputs: batch + 1 and batch. False if they may be equal for some
 * sizes (batch and 8), or if the bound is not good enough to know. */
bool vc_dim_differ(struct vc_dims *dims, struct vc_dim a, struct vc_dim b);

/* Gives a symbol its size; false if there is none of that name.
 * The values of all quotients are computed anew. */
bool vc_dim_bind(struct vc_dims *dims, const char *name, int64_t size);
/* With the bound sizes; -1: a symbol is not bound, or the result is negative or too large. */
int64_t vc_dim_value(const struct vc_dims *dims, struct vc_dim a);
/* Text for sentences and for ONNX: "2*sequence + 1", "floor((height - 1)/2) + 1", "?" for a bad dimension. At most
 * n bytes with the NUL, cut where there is no room. Returns buffer. */
const char *vc_dim_text(const struct vc_dims *dims, struct vc_dim a, char *buffer, size_t n);
