/* couple_rules.h - what each operator says about the axes of its values: the column `axes` of graph/ops/ops.inc names
 * it.
 *
 * A rule is called once for its node, after those of the nodes before it. It gives each axis of the outputs a term and
 * joins or fixes axes of the inputs. Axes of outputs that it gives nothing are atoms of their own. */
#pragma once

#include "graph/couple/couple_sizes.h"
#include "graph/ops/ops.h"

struct vc_couple {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    struct vc_arena *arena;
    struct vc_axes axes;
    uint32_t *first; /* of each value: where its axes begin in `axis` */
    uint32_t *axis;  /* terms: axis k of value v is axis[first[v] + k] */
    bool *depends;   /* values that inputs of the graph change */
    uint8_t *makes;  /* of each parameter: a bit for each axis of its value that units are made along */
    struct vc_couple_sizes *sizes;
    bool of_file;  /* some values are from a file, which may state sizes */
    uint32_t node; /* the node whose rule is running */
};

typedef void vc_couple_rule(struct vc_couple *c);
/* NULL: the operator is not known. */
vc_couple_rule *vc_couple_rule_of(const struct vc_graph_node *node);

/* ---- for rules ---- */

const struct vc_graph_node *vc_couple_node(const struct vc_couple *c);
/* Input number k; NULL: it is not given. */
const struct vc_graph_value *vc_couple_in(const struct vc_couple *c, unsigned k);
const struct vc_graph_value *vc_couple_out(const struct vc_couple *c, unsigned k);
/* The term of an axis of input k. */
uint32_t vc_couple_axis(const struct vc_couple *c, unsigned k, unsigned axis);
uint32_t vc_couple_out_axis(const struct vc_couple *c, unsigned axis); /* of output 0 */
/* Gives axis `axis` of output k its term. Outputs that nobody uses are left out. */
void vc_couple_set(struct vc_couple *c, unsigned k, unsigned axis, uint32_t term);
/* Output 0 has the axes of input 0. */
void vc_couple_pass(struct vc_couple *c);
/* Joins the axes of input k with those of output 0, aligned at their last ones. */
void vc_couple_broadcast(struct vc_couple *c, unsigned k);

/* The units of the term have to stay, because its node does something with the whole axis: "goes through Softmax,
 * which `what`". The first reason of an atom is kept. The line stands in printed couplings as a comment. */
void vc_couple_fix(struct vc_couple *c, uint32_t term, const char *what);
/* A new axis of output k that stays as it is. */
void vc_couple_set_fixed(struct vc_couple *c, unsigned k, unsigned axis, const char *what);
void vc_couple_fix_input(struct vc_couple *c, unsigned k, const char *what);
/* Units are computed along that axis of input k, if that is a parameter. */
void vc_couple_makes(struct vc_couple *c, unsigned k, unsigned axis);
bool vc_couple_depends(const struct vc_couple *c, unsigned k);
/* The attribute is the number of units of the term. Where a file states it in other words, it cannot change. */
void vc_couple_state(struct vc_couple *c, const char *attribute, uint32_t term);
/* Input number `input` says these sizes; where the file has a list of integers for it in an attribute, that has the
 * name `attribute` (NULL if there is none). In graphs of a file, what it has in other words cannot change. */
void vc_couple_say(struct vc_couple *c, unsigned input, const char *attribute, const struct vc_size *sizes, size_t n);
/* The same of an input without an attribute, where all of its numbers are known; otherwise axes of the terms cannot
 * change. */
void vc_couple_say_or_fix(struct vc_couple *c, unsigned input, const struct vc_size *sizes, size_t n, bool known);
extern const char vc_couple_unsayable[];

const struct vc_graph_attr *vc_couple_attr(const struct vc_couple *c, const char *name);
int64_t vc_couple_int(const struct vc_couple *c, const char *name, int64_t otherwise);
/* The axis that the attribute says, of a value with n_dims. */
unsigned vc_couple_int_axis(const struct vc_couple *c, const char *name, int64_t otherwise, unsigned n_dims);
/* The integers that input k is known to be; NULL: it is not given, or they are not known. */
const struct vc_dim *vc_couple_elems(const struct vc_couple *c, unsigned k, size_t *n);

static inline unsigned vc_couple_place(int64_t axis, unsigned n_dims)
{
    return (unsigned)(axis < 0 ? axis + n_dims : axis);
}

/* ---- the rules ---- */

/* couple_compute.c */
vc_couple_rule vc_couple_each, vc_couple_first, vc_couple_mixes, vc_couple_new, vc_couple_matmul, vc_couple_gemm,
    vc_couple_conv, vc_couple_conv_transpose, vc_couple_pool, vc_couple_batch_norm, vc_couple_group_norm,
    vc_couple_layer_norm, vc_couple_softmax, vc_couple_reduce, vc_couple_arg, vc_couple_along, vc_couple_quantize;
/* couple_move.c */
vc_couple_rule vc_couple_reshape, vc_couple_transpose, vc_couple_concat, vc_couple_slice, vc_couple_split,
    vc_couple_expand, vc_couple_constant, vc_couple_tile, vc_couple_pad, vc_couple_gather, vc_couple_resize;
/* After all rules, for each Split. */
void vc_couple_check_split(struct vc_couple *c);
/* couple_attention.c */
vc_couple_rule vc_couple_attention, vc_couple_rotary;
/* couple_einsum.c */
vc_couple_rule vc_couple_einsum;
/* couple_recurrent.c */
vc_couple_rule vc_couple_recurrent;
