/* graph_state.c - problems of a graph, copies in its arena, and shapes in sentences. */
#include "graph/base/graph_state.h"

void *vc_graph_copy(struct vc_graph *graph, const void *bytes, size_t n, size_t size)
{
    size_t all;
    void *to = NULL;

    if (graph->status == VC_OK && vc_mul_size(n, size, &all)) {
        to = vc_arena_alloc(graph->ctx, &graph->arena, all != 0 ? all : 1);
    }
    if (to == NULL) {
        graph->status = VC_E_NOMEM;
    } else if (n != 0) {
        memcpy(to, bytes, n * size);
    }
    return to;
}

const char *vc_graph_copy_text(struct vc_graph *graph, const char *s)
{
    const char *to = vc_graph_copy(graph, s, strlen(s) + 1, 1);

    return to != NULL ? to : "";
}

/* The last place of the list is written anew with each further problem: "and 37 more problems". */
void vc_graph_complain(struct vc_graph *graph, const char *format, ...)
{
    char text[VC_MESSAGE_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (graph->n_problems < VC_GRAPH_MAX_PROBLEMS) {
        graph->kept_problems[graph->n_problems] = vc_graph_copy_text(graph, text);
    }
    graph->problems = graph->kept_problems;
    graph->n_problems++;
    if (graph->n_problems > VC_GRAPH_MAX_PROBLEMS) {
        snprintf(text, sizeof text, "and %u more problems", (unsigned)(graph->n_problems - VC_GRAPH_MAX_PROBLEMS + 1));
        graph->kept_problems[VC_GRAPH_MAX_PROBLEMS - 1] = vc_graph_copy_text(graph, text);
    }
}

/* Values are found by name in a hash table of their numbers. */
struct key {
    const struct vc_graph *graph;
    const char *name;
};

static bool is_same(const void *user, size_t number)
{
    const struct key *key = user;

    return strcmp(key->graph->values[number].name, key->name) == 0;
}

/* The value with that name, or VC_NO_VALUE. In constant time on average: readers of ONNX files call it for
 * each input of each node. */
uint32_t vc_graph_find(const struct vc_graph *graph, const char *name)
{
    const struct key key = {graph, name};
    size_t at = vc_hash_find(&graph->by_name, vc_hash_text(name), is_same, &key);

    return at != SIZE_MAX ? (uint32_t)at : VC_NO_VALUE;
}

bool vc_graph_same_kind(const struct vc_graph_value *a, const struct vc_graph_value *b)
{
    bool same = a->n_dims == b->n_dims && a->dtype == b->dtype;

    for (unsigned d = 0; same && d < a->n_dims; d++) {
        same = vc_dim_equal(a->shape[d], b->shape[d]);
    }
    return same;
}

bool vc_graph_is_single(const struct vc_graph_value *value)
{
    unsigned d = 0;

    while (d < value->n_dims && vc_dim_is(value->shape[d], 1)) {
        d++;
    }
    return d == value->n_dims;
}

/* snprintf returns what it would have written; once that passes n nothing more is added. */
const char *vc_graph_shape_text(const int64_t *sizes, unsigned n_dims, char *text, size_t n)
{
    size_t at = (size_t)snprintf(text, n, "[");

    for (unsigned k = 0; k < n_dims && at < n; k++) {
        at += (size_t)snprintf(text + at, n - at, "%s%lld", k != 0 ? ", " : "", (long long)sizes[k]);
    }
    if (at < n) {
        (void)snprintf(text + at, n - at, "]");
    }
    return text;
}

int64_t vc_graph_elements(const struct vc_graph *graph, uint32_t v)
{
    const struct vc_graph_value *value = &graph->values[v];
    int64_t n = 1;

    for (unsigned k = 0; k < value->n_dims; k++) {
        int64_t size = vc_dim_value(&graph->dims, value->shape[k]);

        if (size < 0 || __builtin_mul_overflow(n, size, &n)) {
            return -1;
        }
    }
    return n;
}

/* Constants, or elements that are known as dimensions. */
bool vc_graph_ints(const struct vc_graph *graph, uint32_t v, int64_t *ints, size_t capacity, size_t *n)
{
    const struct vc_graph_value *value = &graph->values[v];
    const struct vc_dim *elems = graph->facts[v].elems;
    int64_t count = vc_graph_elements(graph, v);

    if (count < 0 || (uint64_t)count > capacity || value->dtype == VC_DTYPE_F32 ||
        (value->kind != VC_VALUE_CONSTANT && elems == NULL)) {
        return false;
    }
    *n = (size_t)count;
    for (size_t i = 0; i < *n; i++) {
        ints[i] =
            value->kind == VC_VALUE_CONSTANT ? ((const int64_t *)value->data)[i] : vc_dim_value(&graph->dims, elems[i]);
    }
    return true;
}

/* ---- attributes ---- */

const struct vc_graph_attr *vc_node_attr(const struct vc_graph_node *node, const char *name)
{
    for (unsigned k = 0; k < node->n_attrs; k++) {
        if (strcmp(node->attrs[k].name, name) == 0) {
            return &node->attrs[k];
        }
    }
    return NULL;
}

int64_t vc_node_int(const struct vc_graph_node *node, const char *name, int64_t otherwise)
{
    const struct vc_graph_attr *attr = vc_node_attr(node, name);

    return attr == NULL ? otherwise : attr->i;
}

double vc_node_float(const struct vc_graph_node *node, const char *name, double otherwise)
{
    const struct vc_graph_attr *attr = vc_node_attr(node, name);

    return attr == NULL ? otherwise : attr->f;
}

const char *vc_node_string(const struct vc_graph_node *node, const char *name, const char *otherwise)
{
    const struct vc_graph_attr *attr = vc_node_attr(node, name);

    return attr == NULL ? otherwise : attr->s;
}
