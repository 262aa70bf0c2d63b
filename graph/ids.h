/* ids.h - numbers that choose rows of a table, such as tokens, as a file has them: refused where there is no such row,
 * by the row of the file and the position in it. */
#ifndef VC_GRAPH_IDS_H
#define VC_GRAPH_IDS_H

#include "graph/base/graph_state.h"

/* What the elements of an input have to be. */
struct vc_ids {
    const char *table; /* the tensor whose rows they choose; NULL: they choose none, and are anything */
    int64_t rows;
    bool from_0; /* else negative numbers count from the end, as ONNX has it */
};

/* Of a value that is an input of the graph: of the tables that it chooses from the one with the fewest rows. */
struct vc_ids vc_graph_ids(const struct vc_graph *graph, uint32_t value);

/* VC_E_ARGUMENT, by row and position: there is no such row of the table. path NULL: there is no file. */
enum vc_status vc_graph_check_id(struct vc_ctx *ctx, const struct vc_ids *ids, const char *path, const char *name,
                                 int64_t id, uint64_t row, uint64_t position);

#endif
