/* sizes.h - a graph with numbers in place of its symbols: what was inferred for all sizes of inputs is inferred once
 * more for those that a run has.
 *
 * While a graph is built, a symbol that meets a number is taken to be that number, a slice to lie within its dimension,
 * a reshape to come out even. Exporters write such numbers into files that are called free in their batch. So before
 * anything is planned for real sizes, or an element is read, every node is asked again, and with numbers alone it knows
 * all the answers: a reshape has as many elements as its source, or it is refused. */
#pragma once

#include <vcompress/graph.h>

/* With the sizes that are bound: nodes that the wanted values need (NULL: the outputs of the graph), except those
 * behind an input whose size is not known. VC_E_FORMAT: "Reshape 'r': 35 elements cannot have a shape of 5 (batch is
 * 7)". */
enum vc_status vc_graph_check_sizes(struct vc_ctx *ctx, const struct vc_graph *graph, const uint32_t *wanted, size_t n);

/* The size that is bound to a symbol of the graph; -1: the symbol is open; 0: there is no such symbol, or no graph. */
int64_t vc_graph_size(const struct vc_graph *graph, const char *symbol);
/* The sizes that are bound in another graph (NULL: none), as far as this one has symbols of the same names. */
enum vc_status vc_graph_bind_as(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_graph *other);

/* The output v of a node has other sizes than those that the graph states for it, with the sizes that are bound. */
enum vc_status vc_graph_refuse_sizes(struct vc_ctx *ctx, const struct vc_graph *graph, uint32_t v,
                                     const int64_t *sizes);
