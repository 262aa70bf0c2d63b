/* couple.h - inside of couplings, for those who make them: of a graph (couple_graph.c), of a file (couple_read.c). */
#pragma once

#include <vcompress/couplings.h>

#include "core/base/arena.h"
#include "core/model/edit.h"
#include "core/text/text.h"

/* A member, and of its tensor what the file of couplings leaves out where it is the usual. */
struct vc_group_member {
    struct vc_coupling_member public;
    unsigned n_dims; /* of the tensor */
    uint64_t size;   /* of its axis */
};

/* A group while members are added. */
struct vc_group {
    enum vc_unit unit;
    uint64_t n_units;
    const char *fixed;
    struct vc_group_member *members;
    size_t n, capacity;
    uint64_t repeats;   /* of each unit in an axis that has all of them: a multiple of each member's */
    size_t line;        /* of the file that has it */
    bool states_units;  /* a file of couplings has to say how many there are */
    bool states_repeat; /* and how often each lies in an axis */
    bool states_makes;  /* which members make the units is not what a file without a word means */
};

struct vc_couplings {
    struct vc_coupling_list public; /* first: what programs read; its groups once they are finished */
    struct vc_ctx *ctx;
    struct vc_arena arena;
    struct vc_group *groups;
    size_t capacity;
    struct vc_couple_sizes *sizes; /* of a graph; else NULL */
};

/* What an ONNX file states beside its tensors and has to state otherwise once units are gone: of group number k,
 * kept[k] units stay. None for couplings from a file, and of graphs that are not from an ONNX file. Everything is the
 * arena's. */
enum vc_status vc_couplings_edits(struct vc_ctx *ctx, const struct vc_couplings *couplings, const uint64_t *kept,
                                  struct vc_arena *arena, const struct vc_graph_edit **edits, size_t *n);

/* The multiply-adds of all nodes, those of experts for the share of the tokens that they get, before and once of group
 * number k kept[k] units stay. *at: the sizes of inputs that this is for, which were bound when the couplings were
 * made: "batch 1, sequence 128"; NULL: it is not known. */
enum vc_status vc_couplings_work(struct vc_ctx *ctx, const struct vc_couplings *couplings, const uint64_t *kept,
                                 uint64_t *before, uint64_t *after, const char **at);

enum vc_status vc_couplings_create(struct vc_ctx *ctx, struct vc_couplings **out);
/* A new group at the end; valid until the next one is added. NULL: no memory. */
struct vc_group *vc_couplings_add(struct vc_couplings *couplings, enum vc_unit unit, uint64_t n_units);
/* The name of the tensor has to live as long as the couplings, or until names are kept. */
enum vc_status vc_couplings_add_member(struct vc_couplings *couplings, struct vc_group *group,
                                       const struct vc_group_member *member);
/* Copies the names of all tensors. */
enum vc_status vc_couplings_keep_names(struct vc_couplings *couplings);
/* The last step: members in their order, names, the public list. Groups without members go. */
enum vc_status vc_couplings_finish(struct vc_couplings *couplings);

/* "fc1.weight:0*49+512!", as a file has it. */
void vc_couple_add_member(struct vc_text *text, const struct vc_group *group, const struct vc_group_member *member);

/* "neurons", as files call them; NULL: no unit. */
const char *vc_couple_unit_name(enum vc_unit unit);

/* The greatest common one. */
static inline uint64_t vc_couple_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The units of the member lie in all of its axis. */
static inline bool vc_couple_is_all(const struct vc_group *group, const struct vc_group_member *member)
{
    const struct vc_coupling_member *m = &member->public;

    return !m->whole && m->offset == 0 && group->n_units * m->block * m->repeat == member->size;
}

/* What a file takes for a member that makes units where it says nothing: rows of a tensor that has columns. */
static inline bool vc_couple_usually_makes(const struct vc_group_member *member)
{
    return member->public.whole || (member->public.axis == 0 && member->n_dims >= 2);
}
