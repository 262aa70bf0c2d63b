/* print_graph.h - what a model computes as tables. */
#pragma once

#include "tools/app.h"

/* The blocks, repeated ones folded, with their sums. False: no memory. */
bool print_graph_blocks(struct app *app, const struct vc_graph *graph, const struct vc_graph_blocks *blocks);
/* Every node with its values. False: no memory. */
bool print_graph_nodes(struct app *app, const struct vc_graph *graph);
/* What it computes otherwise than its file says. */
void print_graph_notes(const struct out *out, const struct vc_graph *graph);
