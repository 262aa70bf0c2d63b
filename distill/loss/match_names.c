/* match_names.c - see match_names.h. */
#include "distill/loss/match_names.h"

#include "core/text/text.h"
#include "graph/base/graph_state.h"

#define N_NEAREST  3
#define MOST_CHARS 128 /* of a printed name */

/* Floats that a node computes and that have a name. */
static bool can_match(const struct vc_graph_value *value)
{
    return value->kind == VC_VALUE_RESULT && value->dtype == VC_DTYPE_F32 && value->name[0] != '\0';
}

/* Finds the values whose names are most similar to `name`, the most similar first. Returns their number. */
static size_t find_nearest(const struct vc_graph *graph, const char *name, uint32_t nearest[N_NEAREST])
{
    size_t costs[N_NEAREST];
    size_t n = 0;

    for (uint32_t v = 0; v < vc_graph_value_count(graph); v++) {
        const struct vc_graph_value *value = vc_graph_value(graph, v);
        size_t at;

        if (!can_match(value)) {
            continue;
        }
        size_t cost = vc_text_distance(name, value->name);
        if (n == N_NEAREST && cost >= costs[n - 1]) {
            continue;
        }
        n += n < N_NEAREST;
        for (at = n - 1; at > 0 && costs[at - 1] > cost; at--) {
            costs[at] = costs[at - 1];
            nearest[at] = nearest[at - 1];
        }
        costs[at] = cost;
        nearest[at] = v;
    }
    return n;
}

/* A wrong name is answered with the names most like it. */
enum vc_status vc_match_name(struct vc_ctx *ctx, const struct vc_graph *graph, const char *role, const char *name,
                             uint32_t *value)
{
    uint32_t nearest[N_NEAREST];
    char names[3 * (MOST_CHARS + 4)] = "";

    *value = vc_graph_find(graph, name);
    if (*value != VC_NO_VALUE && can_match(vc_graph_value(graph, *value))) {
        return VC_OK;
    }
    VC_REFUSE_IF(*value != VC_NO_VALUE, ctx, VC_E_ARGUMENT,
                 "%s: %s of the %s cannot be matched: only floats that a node of the graph computes can be",
                 vc_option(ctx, "loss.matches"), name, role);
    size_t n = find_nearest(graph, name, nearest);
    for (size_t k = 0; k < n; k++) {
        size_t at = strlen(names);

        (void)snprintf(names + at, sizeof names - at, "%s%.*s", k != 0 ? ", " : "", MOST_CHARS,
                       vc_graph_value(graph, nearest[k])->name);
    }
    return vc_fail(ctx, VC_E_ARGUMENT, "%s: the %s computes no value '%s'; names like it: %s",
                   vc_option(ctx, "loss.matches"), role, name, names);
}

/* "[batch, 128, 768]", for sentences. */
void vc_match_shape_text(const struct vc_graph *graph, uint32_t value, char *text, size_t n)
{
    const struct vc_graph_value *v = vc_graph_value(graph, value);

    (void)snprintf(text, n, "[");
    for (unsigned k = 0; k < v->n_dims; k++) {
        char dim[32];
        size_t at = strlen(text);

        (void)snprintf(text + at, n - at, "%s%s", k != 0 ? ", " : "",
                       vc_graph_dim_text(graph, v->shape[k], dim, sizeof dim));
    }
    (void)snprintf(text + strlen(text), n - strlen(text), "]");
}
