/* onnx_node.c - a node on its way into the graph: its attributes and inputs, and nodes that take its place.
 * Attributes of the wrong kind count as missing here; the operator's vc_infer_X refuses them later. */

#include "graph/onnx/onnx_build.h"

struct vc_graph_attr *vc_onnx_attr(const struct vc_onnx_node *node, const char *name)
{
    for (unsigned k = 0; k < node->n_attrs; k++) {
        if (strcmp(node->attrs[k].name, name) == 0) {
            return &node->attrs[k];
        }
    }
    return NULL;
}

void vc_onnx_drop_attr(struct vc_onnx_node *node, const char *name)
{
    struct vc_graph_attr *attr = vc_onnx_attr(node, name);

    if (attr != NULL) {
        memmove(attr, attr + 1, (size_t)(node->attrs + node->n_attrs - attr - 1) * sizeof *attr);
        node->n_attrs--;
    }
}

int64_t vc_onnx_int(const struct vc_onnx_node *node, const char *name, int64_t otherwise)
{
    const struct vc_graph_attr *attr = vc_onnx_attr(node, name);

    return attr != NULL && attr->kind == VC_ATTR_INT ? attr->i : otherwise;
}

double vc_onnx_float(const struct vc_onnx_node *node, const char *name, double otherwise)
{
    const struct vc_graph_attr *attr = vc_onnx_attr(node, name);

    return attr != NULL && attr->kind == VC_ATTR_FLOAT ? attr->f : otherwise;
}

uint32_t vc_onnx_number(const struct vc_onnx_node *node, unsigned k)
{
    return k < node->n_inputs ? node->inputs[k] : VC_NO_VALUE;
}

const struct vc_graph_value *vc_onnx_input(const struct vc_onnx_build *b, const struct vc_onnx_node *node, unsigned k)
{
    uint32_t v = vc_onnx_number(node, k);

    return v == VC_NO_VALUE || b->graph->facts[v].unknown ? NULL : &b->graph->values[v];
}

void vc_onnx_set_input(struct vc_onnx_node *node, unsigned k, uint32_t value)
{
    while (node->n_inputs <= k) {
        node->inputs[node->n_inputs++] = VC_NO_VALUE;
    }
    node->inputs[k] = value;
}

bool vc_onnx_has_input(const struct vc_onnx_node *node, unsigned k)
{
    return k < node->n_inputs && node->inputs[k] != VC_NO_VALUE;
}

/* Squeeze-11's attribute axes = [0] becomes Squeeze-13's input 1. Nothing happens if the input is there
 * already. */
void vc_onnx_ints_to_input(struct vc_onnx_build *b, struct vc_onnx_node *node, const char *name, unsigned k)
{
    const struct vc_graph_attr *attr = vc_onnx_attr(node, name);

    if (attr != NULL && attr->kind == VC_ATTR_INTS && !vc_onnx_has_input(node, k) && node->n_inputs <= k) {
        vc_onnx_set_input(node, k, vc_graph_add_ints(b->graph, attr->ints, attr->n));
        vc_onnx_drop_attr(node, name);
    }
}

bool vc_onnx_refuse(struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *why)
{
    char text[400];

    vc_graph_complain(b->graph, "%s: %s", vc_onnx_node_text(node->from, text, sizeof text), why);
    return false;
}

/* The node has no name of its own: sentences name its output. */
uint32_t vc_onnx_add_one(struct vc_onnx_build *b, const char *op, const char *name, const uint32_t *inputs, unsigned n,
                         const struct vc_graph_attr *attrs, unsigned n_attrs)
{
    return vc_graph_add_node(b->graph, &(struct vc_node_spec){.op = op,
                                                              .n_inputs = n,
                                                              .inputs = inputs,
                                                              .n_outputs = 1,
                                                              .output_names = &name,
                                                              .n_attrs = n_attrs,
                                                              .attrs = attrs});
}

bool vc_onnx_output_is_used(const struct vc_onnx_build *b, const struct vc_program_node *node, size_t k)
{
    const struct vc_onnx_name *name =
        k < node->n_outputs && *node->outputs[k] != '\0' ? vc_onnx_find_name(b, node->outputs[k]) : NULL;

    return name != NULL && name->n_uses != 0;
}
