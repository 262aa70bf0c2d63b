/* ids.c - see ids.h. */
#include "graph/ids.h"
#include "graph/ops/ops.h"

/* Looks for Gather nodes along axis 0 (ONNX's default) whose indices are the value itself and whose table is a
 * parameter. Indices that are computed from the input are not followed: their bounds are the node's own check
 * (loops_index.h). */
struct vc_ids vc_graph_ids(const struct vc_graph *graph, uint32_t value)
{
    struct vc_ids ids = {.from_0 = graph->ids_from_0};

    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        const struct vc_graph_node *node = &graph->nodes[k];
        bool first_axis = true;

        if (!vc_node_is(node, VC_OP_gather) || node->n_inputs != 2 || node->inputs[1] != value) {
            continue;
        }
        for (unsigned i = 0; i < node->n_attrs; i++) {
            first_axis = first_axis && (strcmp(node->attrs[i].name, "axis") != 0 || node->attrs[i].i == 0);
        }
        const struct vc_graph_value *table = &graph->values[node->inputs[0]];
        if (first_axis && table->kind == VC_VALUE_PARAMETER && (ids.table == NULL || table->shape[0].size < ids.rows)) {
            ids.table = graph->params[table->param].tensor;
            ids.rows = table->shape[0].size;
        }
    }
    return ids;
}

enum vc_status vc_graph_check_id(struct vc_ctx *ctx, const struct vc_ids *ids, const char *path, const char *name,
                                 int64_t id, uint64_t row, uint64_t position)
{
    int64_t least = ids->from_0 ? 0 : -ids->rows;

    if (ids->table == NULL || (id >= least && id < ids->rows)) {
        return VC_OK;
    }
    return vc_fail(ctx, VC_E_ARGUMENT, "%s%srow %llu of %s has %lld at position %llu; the rows of %s are %lld to %lld",
                   path != NULL ? path : "", path != NULL ? ": " : "", (unsigned long long)row, name, (long long)id,
                   (unsigned long long)position, ids->table, (long long)least, (long long)(ids->rows - 1));
}
