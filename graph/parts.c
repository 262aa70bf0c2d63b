/* parts.c - see parts.h.
 *
 * Recomputation (gradient checkpointing) keeps only the values between parts, and computes the values inside a part
 * once more in the backward pass. With n equal parts of a chain of N layers the peak is about n + N/n values, least
 * at n = sqrt(N) (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). */
#include "graph/parts.h"

#include <math.h>
#include <string.h>

/* Word by word: "encoder", "layer", "3" is the first word of digits alone. */
size_t vc_block_layer(const char *block)
{
    size_t n = 0;

    while (block[n] != '\0') {
        size_t word = strcspn(block + n, ".");

        if (word != 0 && strspn(block + n, "0123456789") == word) {
            return n + word;
        }
        n += word + (block[n + word] == '.');
    }
    return 0;
}

bool vc_node_has_weights(const struct vc_graph *graph, const struct vc_graph_node *node)
{
    for (unsigned k = 0; k < node->n_inputs; k++) {
        const struct vc_graph_value *value =
            node->inputs[k] != VC_NO_VALUE ? vc_graph_value(graph, node->inputs[k]) : NULL;

        if (value != NULL && value->kind == VC_VALUE_PARAMETER && value->n_dims > 1) {
            return true;
        }
    }
    return false;
}

/* Two walks: the first counts nodes with weights to choose `every`, the second numbers. A node with weights starts
 * a new part when the one before is full; nodes without weights stay with the last one, so that an activation is in
 * the part of the product that feeds it. */
void vc_parts_by_weights(const struct vc_graph *graph, uint32_t every, uint32_t *part)
{
    uint32_t n_nodes = vc_graph_node_count(graph);
    uint32_t seen = 0;

    for (uint32_t n = 0; every == 0 && n < n_nodes; n++) {
        seen += vc_node_has_weights(graph, vc_graph_node(graph, n));
    }
    every = every != 0 ? every : seen != 0 ? (uint32_t)ceil(sqrt(seen)) : 1;
    seen = 0;
    for (uint32_t n = 0; n < n_nodes; n++) {
        seen += vc_node_has_weights(graph, vc_graph_node(graph, n));
        part[n] = 1 + (seen == 0 ? 0 : (seen - 1) / every);
    }
}

/* A layer starts where the name of the layer differs from the last one: nodes of one layer stand together in the
 * graph, and nodes outside of layers (embeddings, head) do not end a layer. */
void vc_parts_by_layers(const struct vc_graph *graph, uint32_t *part)
{
    const char *last = "";
    size_t length = 0;
    uint32_t n_parts = 0;

    for (uint32_t n = 0; n < vc_graph_node_count(graph); n++) {
        const char *block = vc_graph_node(graph, n)->block;
        size_t own = vc_block_layer(block);

        if (own != 0 && (own != length || strncmp(block, last, own) != 0)) {
            n_parts++;
            last = block;
            length = own;
        }
        part[n] = own != 0 ? n_parts : 0;
    }
}
