/* couple_graph.h - the steps by which couplings come from a graph: couple_graph.c calls them. */
#pragma once

#include "graph/couple/couple.h"
#include "graph/couple/couple_rules.h"

/* The tensors behind the parameters, and a term for each of their axes. */
struct vc_couple_tensors {
    uint32_t n;
    uint32_t *of_param; /* each parameter's */
    uint32_t *param;    /* each tensor's first parameter, which has its name and shape */
    uint32_t *first;    /* of each tensor: where its axes begin in `axis` */
    uint32_t *axis;     /* terms */
    uint8_t *makes;     /* of each tensor: bit k: units are computed along axis k (rows of a Linear's weight) */
};

/* couple_params.c: makes the tensors' terms, and with them those of the parameters' values. */
enum vc_status vc_couple_take_params(struct vc_couple *c, struct vc_couple_tensors *tensors);
/* After the rules: what makes units, of the tensors. */
void vc_couple_collect_makes(const struct vc_couple *c, struct vc_couple_tensors *tensors);
void vc_couple_tensors_release(struct vc_ctx *ctx, struct vc_couple_tensors *tensors);

/* couple_work.c: after the rules: the multiply-adds of all nodes, where the sizes that are bound tell them. */
enum vc_status vc_couple_take_work(struct vc_couple *c);

/* couple_groups.c: a group for each atom that lies in a tensor. */
enum vc_status vc_couple_collect(struct vc_couple *c, const struct vc_couple_tensors *tensors,
                                 struct vc_couplings *couplings);
/* couple_experts.c: after that. */
enum vc_status vc_couple_find_experts(struct vc_couple *c, const struct vc_couple_tensors *tensors,
                                      struct vc_couplings *couplings);
