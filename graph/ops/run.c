/* run.c - what a vc_run_X calls: attributes, outputs, failures, walks. See run.h. Compiled once; what depends on
 * the type REAL is in loops/. */
#include "graph/ops/run.h"

/* Only the first failure counts: later ones follow from it. */
void vc_run_fail(struct vc_run *run, const char *format, ...)
{
    const struct vc_graph_node *node = run->node;
    char text[VC_MESSAGE_BYTES];
    va_list args;
    unsigned k = 0; /* the first output that anybody uses; there is one, or the node would not run */

    if (run->status != VC_OK) {
        return;
    }
    while (k + 1 < node->n_outputs && node->outputs[k] == VC_NO_VALUE) {
        k++;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    run->status =
        vc_fail(run->ctx, VC_E_FORMAT, "%s '%s': %s", node->op, run->graph->values[node->outputs[k]].name, text);
}

/* Refuses an output that the memory limit could never hold with its shape in the sentence: the model or its inputs
 * ask for it, and "out of memory" would not tell which value. Without a limit everything fits here and the
 * allocation decides. */
static bool fits_memory(struct vc_run *run, const int64_t *shape, unsigned n_dims, size_t n, size_t bytes)
{
    uint64_t limit = vc_pool_limit(run->ctx->shared->pool);
    char text[200];

    if (limit == 0 || n <= limit / bytes) {
        return true;
    }
    vc_run_fail(run, "the output %s has %zu elements of %zu bytes, which is more than %s, %llu bytes",
                vc_graph_shape_text(shape, n_dims, text, sizeof text), n, bytes, vc_option(run->ctx, "max_memory"),
                (unsigned long long)limit);
    return false;
}

/* With a place of the caller the number of elements has to be what was planned: the loop would write behind it. */
void *vc_run_out(struct vc_run *run, unsigned k, bool is_real, const int64_t *shape, unsigned n_dims)
{
    size_t bytes = is_real ? run->real_bytes : sizeof(int64_t);
    struct vc_run_value *out;
    char text[200];
    size_t n = 1;

    if (k >= run->node->n_outputs || run->status != VC_OK) {
        return NULL;
    }
    out = &run->out[k];
    for (unsigned i = 0; i < n_dims; i++) {
        VC_LEAVE_WITH(shape[i] < 0 || !vc_mul_size(n, (size_t)shape[i], &n),
                      vc_run_fail(run, "the output's size overflows"), NULL);
        out->shape[i] = shape[i];
    }
    out->n_dims = n_dims;
    out->is_real = is_real;
    if (run->places != NULL && run->places[k] != NULL) {
        VC_LEAVE_WITH(n != out->n,
                      vc_run_fail(run, "the output %s has %zu elements, and there is room for %zu",
                                  vc_graph_shape_text(shape, n_dims, text, sizeof text), n, out->n),
                      NULL);
        out->data = run->places[k];
        return out->data;
    }
    out->n = n;
    if (!fits_memory(run, shape, n_dims, n, bytes)) {
        return NULL;
    }
    out->data = vc_alloc_array(run->ctx, VC_TAG_TILES, n != 0 ? n : 1, bytes);
    if (out->data == NULL) {
        run->status = VC_E_NOMEM;
    }
    return out->data;
}

const int64_t *vc_run_ints(const struct vc_run *run, const char *name, size_t *n)
{
    const struct vc_graph_attr *attr = vc_node_attr(run->node, name);

    *n = attr == NULL ? 0 : attr->n;
    return attr == NULL ? NULL : attr->ints;
}

/* Shapes are aligned at their last dimension. A dimension of size 1 gets step 0, so that its element is read again. */
bool vc_run_walk_begin(struct vc_run *run, struct vc_run_walk *walk, const struct vc_run_value *const *values,
                       unsigned n_values)
{
    *walk = (struct vc_run_walk){0};
    for (unsigned v = 0; v < n_values; v++) {
        walk->n_dims = values[v]->n_dims > walk->n_dims ? values[v]->n_dims : walk->n_dims;
    }
    for (unsigned k = 0; k < walk->n_dims; k++) {
        walk->shape[k] = 1;
    }
    for (unsigned v = 0; v < n_values; v++) {
        size_t step = 1;

        for (unsigned k = values[v]->n_dims; k-- > 0;) {
            unsigned at = walk->n_dims - values[v]->n_dims + k;
            int64_t size = values[v]->shape[k];

            VC_LEAVE_WITH(
                size != 1 && walk->shape[at] != 1 && walk->shape[at] != size,
                vc_run_fail(run, "sizes %lld and %lld do not broadcast", (long long)walk->shape[at], (long long)size),
                false);
            walk->shape[at] = size != 1 ? size : walk->shape[at];
            walk->step[v][at] = size != 1 ? step : 0;
            step *= (size_t)size;
        }
    }
    return true;
}
