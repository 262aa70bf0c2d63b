/* couple_sizes.h - where a file that a graph was made from states sizes, and what it has to say once units are gone.
 *
 *     Reshape "heads" input 1 [0, -1, 12, 64]     12 heads, of which 9 stay: [0, -1, 9, 64]
 *
 * Rules note what their nodes say, in terms; the sizes of terms follow from how many units of each group stay. */
#pragma once

#include "core/model/edit.h"
#include "graph/couple/couple_axes.h"

/* A number that is written down: the size of a term or, if term is VC_AXIS_ONE, `number`. It has to be written anew
 * when the size of the term or of `watch` changes: a slice that begins 12 before the end of an axis watches the
 * axis. */
struct vc_size {
    uint32_t term, watch; /* VC_AXIS_ONE: none */
    int64_t number;
};

/* One statement of the file: a declared shape, an input with numbers, an attribute. value: the output of its node. */
struct vc_said {
    enum vc_graph_edit_kind kind;
    const char *value, *attribute;
    unsigned input;
    size_t n;
    const struct vc_size *sizes;
};

/* The multiply-adds of a node, of all tokens: a product in which the sizes of these terms are factors. */
struct vc_work {
    uint64_t macs;
    bool expert; /* of an expert, which gets its share of the tokens */
    size_t n;
    const uint32_t *terms;
};

struct vc_couple_sizes {
    struct vc_arena *arena; /* of the couplings */
    struct vc_axes axes;    /* after the rules: those that the terms are of */
    uint32_t *group_of;     /* of each term: the number of its group + 1; 0: none */
    struct vc_said *said;
    size_t n, capacity;
    size_t n_work;
    const struct vc_work *work; /* NULL: they are not known */
    const char *work_at;        /* sizes of inputs that they are for: "batch 1, sequence 128" */
    uint32_t n_experts, experts_per_token;
};

/* Everything is copied. No memory is remembered by axes->status. */
void vc_couple_sizes_add(struct vc_axes *axes, struct vc_couple_sizes *sizes, const struct vc_said *said);
void vc_couple_sizes_free(struct vc_ctx *ctx, struct vc_couple_sizes *sizes); /* accepts NULL */
