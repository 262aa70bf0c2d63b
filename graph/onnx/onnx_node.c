/* onnx_node.c - a node on its way into the graph: its attributes and inputs, and nodes that take its place.
 * Attributes of the wrong kind count as missing here; the operator's vc_infer_X refuses them later. */

#include "graph/onnx/onnx_build.h"

#include "core/text/text.h"

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
    return vc_graph_add_one(b->graph, op, name, inputs, n, attrs, n_attrs);
}

uint32_t vc_onnx_one_in(struct vc_onnx_build *b, const char *op, uint32_t x)
{
    return vc_onnx_add_one(b, op, NULL, &x, 1, NULL, 0);
}

uint32_t vc_onnx_two_in(struct vc_onnx_build *b, const char *op, uint32_t x, uint32_t y)
{
    return vc_onnx_add_one(b, op, NULL, (const uint32_t[]){x, y}, 2, NULL, 0);
}

uint32_t vc_onnx_with_ints(struct vc_onnx_build *b, const char *op, uint32_t x, const int64_t *ints, size_t n)
{
    return vc_onnx_two_in(b, op, x, vc_graph_add_ints(b->graph, ints, n));
}

uint32_t vc_onnx_cast(struct vc_onnx_build *b, uint32_t x, int64_t type)
{
    return vc_onnx_add_one(b, "Cast", NULL, &x, 1, (const struct vc_graph_attr[]){vc_attr_int("to", type)}, 1);
}

bool vc_onnx_ends_in(struct vc_onnx_build *b, const struct vc_onnx_node *node, const char *op, const uint32_t *inputs,
                     unsigned n, const struct vc_graph_attr *attrs, unsigned n_attrs)
{
    vc_onnx_set_output(b, node->from, 0,
                       vc_onnx_add_one(b, op, vc_onnx_output_name(b, node->from, 0), inputs, n, attrs, n_attrs));
    return false;
}

bool vc_onnx_ends_in_cast(struct vc_onnx_build *b, const struct vc_onnx_node *node, uint32_t x, int64_t type)
{
    return vc_onnx_ends_in(b, node, "Cast", &x, 1, (const struct vc_graph_attr[]){vc_attr_int("to", type)}, 1);
}

vc_onnx_taker *vc_onnx_find_taker(const struct vc_onnx_rewrite *rows, size_t n, const char *op)
{
    size_t k = 0;

    while (k < n && !vc_is_one_of(op, rows[k].ops)) {
        k++;
    }
    return k < n ? rows[k].take : NULL;
}

bool vc_onnx_output_is_used(const struct vc_onnx_build *b, const struct vc_program_node *node, size_t k)
{
    const struct vc_onnx_name *name =
        k < node->n_outputs && *node->outputs[k] != '\0' ? vc_onnx_find_name(b, node->outputs[k]) : NULL;

    return name != NULL && name->n_uses != 0;
}
