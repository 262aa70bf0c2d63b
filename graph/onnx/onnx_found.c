/* onnx_found.c - what the file has under a name, and what the outputs of its nodes become. All files that
 * rewrite nodes call this one, and it calls none of them. */

#include "graph/onnx/onnx_build.h"

struct vc_name_list vc_onnx_name_list(const struct vc_onnx_build *b)
{
    return VC_NAME_LIST(b->names, sizeof *b->names);
}

struct vc_onnx_name *vc_onnx_find_name(const struct vc_onnx_build *b, const char *name)
{
    for (; b != NULL; b = b->around) {
        size_t at = vc_name_table_find(&b->table, vc_onnx_name_list(b), name, strlen(name));

        if (at != SIZE_MAX) {
            return &b->names[at];
        }
    }
    return NULL;
}

struct vc_onnx_build *vc_onnx_inner_of(const struct vc_onnx_build *b, const struct vc_program_node *node)
{
    return b->inner[node - b->program->nodes];
}

const char *vc_onnx_node_text(const struct vc_program_node *node, char *text, size_t n)
{
    const char *name = *node->name != '\0' ? node->name : node->n_outputs != 0 ? node->outputs[0] : "";

    (void)snprintf(text, n, "%.100s '%.200s'", node->op, name);
    return text;
}

/* The comparison of nodes keeps a rewrite from setting an output that another node makes under the same
 * name (a problem that add_name noted). The value counts as written in the file if it kept the file's name. */
void vc_onnx_set_output(struct vc_onnx_build *b, const struct vc_program_node *node, size_t k, uint32_t value)
{
    struct vc_onnx_name *name = k < node->n_outputs ? vc_onnx_find_name(b, node->outputs[k]) : NULL;

    if (name != NULL && name->maker == VC_ONNX_BY_NODE && &b->program->nodes[name->number] == node) {
        name->is_made = true;
        name->value = value;
        if (value < b->graph->n_values && !node->of_function && !b->is_loop &&
            strcmp(b->graph->values[value].name, node->outputs[k]) == 0) {
            b->graph->facts[value].written = VC_WRITTEN_NAME;
        }
    }
}

const char *vc_onnx_output_name(const struct vc_onnx_build *b, const struct vc_program_node *node, size_t k)
{
    const char *name = k < node->n_outputs && *node->outputs[k] != '\0' ? node->outputs[k] : NULL;

    return name != NULL && vc_graph_find(b->graph, name) == VC_NO_VALUE ? name : NULL;
}
