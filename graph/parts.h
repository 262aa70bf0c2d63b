/* parts.h - how the nodes of a graph are divided into parts, each of which recomputation computes again as one: the
 * estimates of memory/ and engine/ divide in the same way. */
#pragma once

#include <vcompress/graph.h>

/* The length of the block's name up to its first number: 15 for "encoder.layer.3.attention", whose layer is
 * "encoder.layer.3". 0 if no word of the name is a number. */
size_t vc_block_layer(const char *block);
/* True if an input of the node is a parameter with two dimensions or more. A bias or a scale has one and does not
 * count. */
bool vc_node_has_weights(const struct vc_graph *graph, const struct vc_graph_node *node);

/* Fills part[node] for all nodes of the graph.
 * vc_parts_by_weights: parts are numbered from 1; each has `every` nodes with weights and the nodes between them; every 0
 * means the square root of the number of such nodes, which balances the values kept at borders against those inside
 * a part.
 * vc_parts_by_layers: one part for each layer by the names of blocks; 0: the node belongs to no layer. */
void vc_parts_by_weights(const struct vc_graph *graph, uint32_t every, uint32_t *part);
void vc_parts_by_layers(const struct vc_graph *graph, uint32_t *part);
