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

/* ---- tensors ---- */

bool vc_onnx_is_weight(const struct vc_tensor *t)
{
    return vc_onnx_is_real(t) && t->part_of == VC_NO_TENSOR && t->n_elems != 0;
}

bool vc_onnx_is_variance(const char *name)
{
    static const char *const ends[] = {"running_var", "moving_variance", "moving_variance:0", "/var", ".var"};
    size_t n = strlen(name);

    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        if (n >= strlen(ends[k]) && strcmp(name + n - strlen(ends[k]), ends[k]) == 0) {
            return true;
        }
    }
    return false;
}

unsigned vc_onnx_long_axes(const struct vc_tensor *t, uint64_t *sizes)
{
    unsigned n = 0;

    for (unsigned d = 0; d < t->n_dims && n < VC_GRAPH_MAX_DIMS; d++) {
        sizes[n] = t->shape[d];
        n += t->shape[d] != 1;
    }
    return n;
}

uint64_t vc_onnx_fits(const struct vc_tensor *t, const struct vc_tensor *other, bool transposed, bool part)
{
    uint64_t a[VC_GRAPH_MAX_DIMS + 1] = {0};
    uint64_t b[VC_GRAPH_MAX_DIMS + 1] = {0};
    unsigned n = vc_onnx_long_axes(t, a);

    if (t->n_dims > VC_GRAPH_MAX_DIMS || other->n_dims > VC_GRAPH_MAX_DIMS || n != vc_onnx_long_axes(other, b) ||
        (part && (n == 0 || other->n_dims != n)) || (transposed && (n < 2 || t->n_dims != n || other->n_dims != n))) {
        return 0;
    }
    a[0] = n == 0 ? 1 : a[0];
    if (transposed) {
        a[VC_GRAPH_MAX_DIMS] = a[n - 1];
        a[n - 1] = a[n - 2];
        a[n - 2] = a[VC_GRAPH_MAX_DIMS];
    }
    return n == 0 || (memcmp(a + 1, b + 1, (n - 1) * sizeof *a) == 0 && (part ? a[0] < b[0] : a[0] == b[0])) ? a[0] : 0;
}
