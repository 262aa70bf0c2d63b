/* parts.h - how the nodes of a graph are divided into parts, each of which recomputation computes again as one: the
 * estimates of memory/ and engine/ divide in the same way. */
#ifndef VC_GRAPH_PARTS_H
#define VC_GRAPH_PARTS_H

#include <vcompress/graph.h>

/* The length of the block's name up to its first number, "encoder.layer.3"; 0: there is none. */
size_t vc_block_layer(const char *block);
/* One of the node's inputs is a parameter of two dimensions or more: a bias does not count. */
bool vc_node_has_weights(const struct vc_graph *graph, const struct vc_graph_node *node);

/* part[node], for all nodes of the graph. By weights: from 1 on, `every` nodes with weights in each; 0: about as many
 * as there are parts. By layers: a part for each layer by the names of blocks; 0: the node is in no layer. */
void vc_parts_by_weights(const struct vc_graph *graph, uint32_t every, uint32_t *part);
void vc_parts_by_layers(const struct vc_graph *graph, uint32_t *part);

#endif
