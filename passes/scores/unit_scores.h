/* unit_scores.h - how important each unit of a group of couplings is, from the sums of its members' elements
 * (axis_sums.h), and the order in which units go. Definition: docs/numerics.md, section 9. For prune, which removes
 * them, and for measure, which says what that would cost.
 *
 *     member  fc1.weight:0      sums of 4 rows -> roots 2 4 1 1 -> by their mean 1.0 2.0 0.5 0.5
 *     scores  mean over members -> 1.0 2.0 0.5 0.5 -> order 3 2 0 1 */
#pragma once

#include <vcompress/couplings.h>

/* Starts with n_scored 0 and scores of 0. */
struct vc_unit_scores {
    const struct vc_coupling *coupling;
    unsigned power; /* of the sums: 1, or 2 for squares, of which the root is taken */
    double *scores; /* [n_units] */
    size_t n_scored;
};

/* A tensor that is a unit, or a part of one. */
struct vc_unit_part {
    const char *name;
    const char *rest; /* behind the number in its name: ".up_proj.weight"; parts of units that are the same have it */
    uint64_t unit;
    double sum; /* of all its elements */
};

/* Adds a member that has its units along an axis, with the sum for each index of that. VC_E_UNSUPPORTED: the mean is
 * NaN or infinite; the sentence names the tensor. */
enum vc_status vc_unit_scores_add(struct vc_ctx *ctx, struct vc_unit_scores *to,
                                  const struct vc_coupling_member *member, const double *sum);
/* Adds all members that are tensors of their own; they are put into order. VC_E_UNSUPPORTED: as above, or a part that
 * some of the units do not have. */
enum vc_status vc_unit_scores_add_parts(struct vc_ctx *ctx, struct vc_unit_scores *to, struct vc_unit_part *parts,
                                        size_t n);
/* After the last member. */
void vc_unit_scores_end(struct vc_unit_scores *to);

/* A unit among those of one group or of several. */
struct vc_ranked_unit {
    double score;
    size_t group;
    uint64_t unit;
};

/* Into the order in which they go: the lowest score first, of equal ones the later unit, of the later group. */
void vc_ranked_units_sort(struct vc_ranked_unit *units, size_t n);

/* What the names of a group's units that are tensors begin with, up to their numbers: "layers.0.mlp.experts." */
struct vc_unit_names {
    const char *prefix; /* NULL: no unit is a tensor; not ended by 0 */
    size_t n_prefix;
};

struct vc_unit_names vc_unit_names_of(const struct vc_coupling *coupling);
/* The number of a name, *unit, and what follows it, *rest; false: the name is another one. */
bool vc_unit_names_take(const struct vc_unit_names *names, const char *name, uint64_t *unit, const char **rest);

/* The index of the axis where element j of repeat r of unit u lies. */
static inline uint64_t vc_unit_place(const struct vc_coupling *coupling, const struct vc_coupling_member *member,
                                     uint64_t r, uint64_t u, uint64_t j)
{
    return member->offset + (r * coupling->n_units + u) * member->block + j;
}
