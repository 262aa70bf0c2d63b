/* couple_axes.h - what an axis is made of, and which axes are the same.
 *
 * Every axis of every value is a term: an atom, whose units nothing inside the graph tells apart, a product of terms
 * (outer to inner), or terms one behind the other:
 *
 *     [batch, 768]                 768 is an atom
 *     ... as [batch, 12, 64]       what was the atom 768 is product(12, 64)
 *     three of them concatenated   concat(768, 768, 768)
 *
 * Where an operator uses two axes with one number, they are joined, and then they are the same: an atom takes what the
 * other one is, a product meets a product factor by factor, a concatenation meets another one part by part. What is too
 * coarse is divided on the way, for all that have it.
 *
 * Sizes that do not fit are no failure: every atom in both terms is fixed, with a reason. Nothing has to be checked by
 * who calls; when memory is out, `status` says so and terms are number 0.
 *
 * Example, attention: the rows of q.weight (768) are an atom. Reshape [batch, n, 768] -> [batch, n, 12, 64] binds
 * the atom to product(12, 64). The heads of q and k are joined by the product of scores. In the end the atom 12
 * lies in q.weight, k.weight and v.weight along axis 0 and in o.weight along axis 1, in blocks of 64: the group of
 * 12 heads (couple_groups.c). */
#pragma once

#include <vcompress/couplings.h>

#include "graph/base/dims.h"

/* The term of every axis of size 1: it broadcasts, so it is never joined with another one. */
#define VC_AXIS_ONE 0

enum vc_term_kind { VC_TERM_ATOM, VC_TERM_PRODUCT, VC_TERM_CONCAT };

struct vc_term {
    enum vc_term_kind kind;
    enum vc_unit unit;  /* of an atom: what its units are */
    struct vc_dim size; /* bad: not known, of a product with sizes of inputs */
    uint32_t to; /* of an atom: the term that it turned out to be (union-find); its own number while it is an atom */
    uint32_t first, n; /* of the others: in axes->parts */
    uint32_t leaves;   /* of the others: number of atoms in it when it was made; bounded by MAX_LEAVES */
    uint32_t seen;     /* number of the last walk (vc_axes.walk) that visited it: a visit in each walk is enough */
    const char *fixed; /* of an atom: why its units stay; NULL: they do not have to */
};

struct vc_axes {
    struct vc_ctx *ctx;
    struct vc_arena *arena; /* of the reasons */
    struct vc_term *terms;
    uint32_t n;
    size_t capacity;
    uint32_t *parts;
    uint32_t n_parts;
    size_t part_capacity;
    uint32_t *stack; /* of walks */
    size_t stack_capacity;
    uint32_t walk;
    enum vc_status status;
};

enum vc_status vc_axes_init(struct vc_axes *axes, struct vc_ctx *ctx, struct vc_arena *arena);
void vc_axes_release(struct vc_axes *axes);

uint32_t vc_axes_atom(struct vc_axes *axes, struct vc_dim size);
/* A product of terms, outer to inner: terms of size 1 are left out; a list of one term is that term. */
uint32_t vc_axes_product(struct vc_axes *axes, const uint32_t *list, size_t n);
/* The same for terms one behind the other: terms of size 0 are left out. */
uint32_t vc_axes_concat(struct vc_axes *axes, const uint32_t *list, size_t n);

/* a and b are the same axis from now on. Refines both, or fixes both if they do not fit. */
void vc_axes_join(struct vc_axes *axes, uint32_t a, uint32_t b);

/* The units of all atoms in the term have to stay. reason: static, or the arena's. */
void vc_axes_fix(struct vc_axes *axes, uint32_t term, const char *reason);
/* What the units of all atoms in the term are; hidden counts more than heads, and heads more than neurons. */
void vc_axes_set_unit(struct vc_axes *axes, uint32_t term, enum vc_unit unit);

/* What the term turned out to be: never an atom that stands for another term. Shortens the path to it. */
uint32_t vc_axes_resolve(struct vc_axes *axes, uint32_t term);

static inline const struct vc_term *vc_axes_term(const struct vc_axes *axes, uint32_t term)
{
    return &axes->terms[term];
}
