/* by_layer.h - what single layers take, while an estimate counts it: for vc_memory_layers_make. */
#pragma once

#include "core/text/name_table.h"
#include "memory/estimate.h"

enum vc_layer_column { VC_LAYER_PARAMS, VC_LAYER_WEIGHTS, VC_LAYER_ACTIVATIONS, VC_LAYER_OUTPUT };

struct vc_layer_table {
    struct vc_ctx *ctx;
    struct vc_memory_layer *rows;
    size_t n, capacity;
    struct vc_name_table names; /* of the rows */
    struct vc_arena arena;      /* the names themselves */
    uint32_t *param_of;         /* by value of the graph; VC_NO_PARAM if it is not one */
    bool failed;                /* no memory for a name */
};

/* Adds to the row of the module of that tensor, "a.b.weight" being of "a.b". Nothing where e->layers
 * is NULL. */
void vc_layers_add_tensor(struct vc_estimate *e, const char *tensor, enum vc_layer_column column, uint64_t amount);

/* The tensor of a weight; "adapters": it is computed. "" where e->layers is NULL. */
const char *vc_layers_tensor(const struct vc_estimate *e, uint32_t value);

/* Behind vc_storages_make: the rows of the nodes, and what each computes. */
void vc_layers_begin(struct vc_estimate *e);
/* Behind vc_timeline_make: what lives at that step, which is the component VC_MEMORY_ACTIVATIONS, in_flight / of times.
 */
void vc_layers_activations(struct vc_estimate *e, uint64_t step, uint64_t in_flight, uint64_t of);
