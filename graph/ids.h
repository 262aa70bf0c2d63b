/* ids.h - integers of an input that choose rows of a table, such as tokens of an embedding. A number without a row
 * is refused with the row of the data file and the position in it, before anything is computed:
 *
 *     "data.npz: row 17 of input_ids has 50257 at position 3; the rows of wte.weight are 0 to 50256"
 */
#pragma once

#include "graph/base/graph_state.h"

/* What the elements of an input have to be. */
struct vc_ids {
    const char *table; /* the tensor whose rows the elements choose; NULL: they choose no rows, any number is right */
    int64_t rows;      /* rows of the table: 50257 */
    bool from_0;       /* false: -1 is the last row, as in ONNX's Gather; true: -1 is refused, as in transformers */
};

/* The bounds for an input of the graph. If it chooses from several tables (tokens and types), the one with the
 * fewest rows. */
struct vc_ids vc_graph_ids(const struct vc_graph *graph, uint32_t value);

/* VC_E_ARGUMENT, by row and position: there is no such row of the table. path NULL: there is no file. */
enum vc_status vc_graph_check_id(struct vc_ctx *ctx, const struct vc_ids *ids, const char *path, const char *name,
                                 int64_t id, uint64_t row, uint64_t position);
