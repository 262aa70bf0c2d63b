/* onnx_block.c - the block that a node of an ONNX file belongs to, as its name or its parameters' names
 * tell. Blocks give `inspect` its tree and recomputation its layers.
 *
 *     name "/layer1/layer1.0/conv1/Conv"        block "layer1.0.conv1"       PyTorch's exporter
 *     parameter "encoder.fc1.weight"            block "encoder.fc1"          files without paths as names
 */

#include "graph/onnx/onnx_build.h"

#define BLOCK_BYTES 512

/* "/layer1/layer1.0/conv1/Conv" is in "layer1.0.conv1": exporters of torch repeat the name of a list in those of its
 * elements. False: the name is no path. */
static bool block_of_path(const char *name, char *block)
{
    size_t n = 0;
    size_t last = 0; /* where the last part begins */

    if (*name != '/') {
        return false;
    }
    for (;;) {
        const char *end = strchr(++name, '/');
        size_t length = end == NULL ? 0 : (size_t)(end - name);

        if (end == NULL || n + length + 2 > BLOCK_BYTES) {
            break; /* the last part is the node's own */
        }
        if (n > last && length > n - last && memcmp(block + last, name, n - last) == 0 && name[n - last] == '.') {
            n = last;
        } else if (n != 0) {
            block[n++] = '.';
            last = n;
        }
        memcpy(block + n, name, length);
        n += length;
        name = end;
    }
    block[n] = '\0';
    return true;
}

/* "layer1.0.bn1.weight" is in "layer1.0.bn1". Exporters write equal tensors of several blocks once, under
 * the name of the first block; so a parameter that other nodes read as well tells no block. */
static bool block_of_params(const struct vc_onnx_build *b, const struct vc_program_node *node, char *block)
{
    for (size_t k = 0; k < node->n_inputs; k++) {
        const char *dot = strrchr(node->inputs[k], '.');
        size_t n = dot == NULL ? 0 : (size_t)(dot - node->inputs[k]);
        const struct vc_onnx_name *name = n == 0 || n >= BLOCK_BYTES ? NULL : vc_onnx_find_name(b, node->inputs[k]);

        if (name != NULL && name->n_uses == 1 && name->maker != VC_ONNX_BY_NODE && name->maker != VC_ONNX_BY_INPUT &&
            strchr(node->inputs[k], ':') == NULL) {
            memcpy(block, node->inputs[k], n);
            block[n] = '\0';
            return true;
        }
    }
    return false;
}

/* Without a hint the node stays in the block of the node before it. */
void vc_onnx_set_block(struct vc_onnx_build *b, const struct vc_program_node *node)
{
    char block[BLOCK_BYTES];

    if (block_of_path(node->name, block) || block_of_params(b, node, block)) {
        vc_graph_set_block(b->graph, "%s", block);
    }
}
