/* normalize.c - see normalize.h. */
#include "passes/normalize.h"

#include <math.h>

/* "0.485,0.456": the numbers of it. */
static enum vc_status read_list(struct vc_ctx *ctx, struct vc_arena *arena, const char *option, const char *text,
                                bool positive, double **out, size_t *n)
{
    const char *at = text;
    size_t count = 1;

    for (const char *c = text; *c != '\0'; c++) {
        count += *c == ',';
    }
    VC_CALL_ALLOC(*out = vc_arena_alloc(ctx, arena, count * sizeof **out));
    for (*n = 0; *n < count; (*n)++) {
        char *end = NULL;
        double x = strtod(at, &end);

        VC_REFUSE_IF(end == at || (*end != ',' && *end != '\0') || !isfinite(x) || (positive && x <= 0), ctx,
                     VC_E_ARGUMENT, "%s: '%s' is no list of %snumbers, such as 0.485,0.456,0.406",
                     vc_option(ctx, option), text, positive ? "positive " : "");
        (*out)[*n] = x;
        at = end + 1;
    }
    return VC_OK;
}

/* Reads the options; how many numbers there have to be is not known before an input is
 * (vc_normalize_check). */
enum vc_status vc_normalize_read(struct vc_ctx *ctx, struct vc_arena *arena, double scale, const char *mean,
                                 const char *deviation, struct vc_normalize *out)
{
    *out = (struct vc_normalize){.scale = scale};
    VC_REFUSE_IF(!isfinite(scale) || scale == 0, ctx, VC_E_ARGUMENT, "%s: %g is no scale", vc_option(ctx, "scale"),
                 scale);
    if (mean != NULL) {
        VC_CALL(read_list(ctx, arena, "mean", mean, false, &out->mean, &out->n_mean));
    }
    if (deviation != NULL) {
        VC_CALL(read_list(ctx, arena, "deviation", deviation, true, &out->deviation, &out->n_deviation));
    }
    return VC_OK;
}

/* Refuses scale, mean or deviation for networks that take integers only, where they would do nothing. */
enum vc_status vc_normalize_check_used(struct vc_ctx *ctx, const struct vc_normalize *n,
                                       const struct vc_graph *const *graphs, size_t n_graphs)
{
    bool floats = false;

    for (size_t g = 0; g < n_graphs; g++) {
        for (uint32_t k = 0; graphs[g] != NULL && k < vc_graph_input_count(graphs[g]); k++) {
            floats = floats || vc_graph_value(graphs[g], vc_graph_input(graphs[g], k))->dtype == VC_DTYPE_F32;
        }
    }
    VC_REFUSE_IF(!floats && !vc_normalize_is_none(n), ctx, VC_E_ARGUMENT,
                 "%s, %s and %s belong to inputs of floats, and the network has none", vc_option(ctx, "scale"),
                 vc_option(ctx, "mean"), vc_option(ctx, "deviation"));
    return VC_OK;
}

/* One number serves all channels; several are one for each. */
enum vc_status vc_normalize_check(struct vc_ctx *ctx, const struct vc_normalize *n, size_t channels, const char *input)
{
    VC_REFUSE_IF((n->n_mean > 1 && n->n_mean != channels) || (n->n_deviation > 1 && n->n_deviation != channels), ctx,
                 VC_E_ARGUMENT, "%s and %s have %zu and %zu numbers; the input %s has %zu channels",
                 vc_option(ctx, "mean"), vc_option(ctx, "deviation"), n->n_mean, n->n_deviation, input, channels);
    return VC_OK;
}
