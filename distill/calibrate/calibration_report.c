/* calibration_report.c - see calibration_report.h; and vc_statistics_read. */
#include "distill/calibrate/calibration_report.h"

#include <math.h>

#include "kernels/kernels.h"
#include "passes/graph_params.h"
#include "passes/statistics/calibration.h"
#include "passes/values.h"

static const char sums[] = VC_SUMS_TAIL;

/* The array of that name as doubles, n of them; *out NULL if there is none of floats. */
static enum vc_status read_array(struct vc_calibration_owned *owned, const struct vc_model *file, const char *layer,
                                 const char *tail, double **out, size_t *n)
{
    const struct vc_place whole = vc_place_whole();
    const char *name = vc_arena_printf(owned->ctx, &owned->arena, "%s%s", layer, tail);
    size_t at = name == NULL ? VC_NO_TENSOR : vc_model_find(file, name);

    if (at == VC_NO_TENSOR || !vc_values_numeric(&file->tensors[at])) {
        return name == NULL ? VC_E_NOMEM : VC_OK;
    }
    *n = (size_t)file->tensors[at].n_elems;
    *out = vc_alloc_array(owned->ctx, VC_TAG_MISC, *n + 1, sizeof **out);
    return *out == NULL ? VC_E_NOMEM : vc_place_values(owned->ctx, file, at, &whole, true, *out);
}

/* Figures of one layer from its arrays: columns that no input reached, the range, and the root of the mean
 * square. Statistics of several matrices have several counts; their mean is what one vector has. */
static enum vc_status read_layer(struct vc_calibration_owned *owned, const struct vc_model *file,
                                 struct vc_calibrated_layer *layer)
{
    static const char *const tails[] = {sums, ".counts", ".in_min", ".in_max"};
    double *arrays[4] = {NULL};
    size_t n[4] = {0};
    double count = 0.0;
    double sum = 0.0;
    enum vc_status status = VC_OK;

    for (int k = 0; k < 4; k++) {
        VC_TRY(read_array(owned, file, layer->tensor, tails[k], &arrays[k], &n[k]));
    }
    layer->n_columns = n[0];
    for (size_t j = 0; j < n[0]; j++) {
        layer->n_dead += arrays[0][j] == 0.0;
        sum += arrays[0][j];
        layer->min = n[2] != n[0] ? NAN : j == 0 ? arrays[2][j] : fmin(layer->min, arrays[2][j]);
        layer->max = n[3] != n[0] ? NAN : j == 0 ? arrays[3][j] : fmax(layer->max, arrays[3][j]);
    }
    for (size_t i = 0; i < n[1]; i++) {
        count += arrays[1][i];
    }
    layer->n_vectors = count >= 1.0 && count < 0x1p63 ? (uint64_t)count : 0;
    layer->rms = layer->n_vectors == 0 ? 0.0 : sqrt(sum / ((double)n[0] / (double)n[1]) / count);
out:
    for (int k = 0; k < 4; k++) {
        vc_free(owned->ctx, arrays[k]);
    }
    return status;
}

/* A layer for each array of sums of squares; the part of its name before the end is the tensor. */
enum vc_status vc_calibration_report_fill(struct vc_ctx *ctx, const struct vc_model *file,
                                          struct vc_calibration_owned *owned)
{
    const struct vc_place whole = vc_place_whole();
    size_t at = vc_model_find(file, VC_STATISTICS_ROWS);
    int64_t rows = 0;
    struct vc_calibrated_layer *layers =
        vc_arena_alloc(ctx, &owned->arena, (file->n_tensors + (size_t)1) * sizeof *layers);

    VC_CALL_ALLOC(layers);
    owned->report.layers = layers;
    if (at != VC_NO_TENSOR && file->tensors[at].dtype == VC_DTYPE_I64 && file->tensors[at].n_elems == 1) {
        VC_CALL(vc_place_integers(ctx, file, at, &whole, &rows));
        owned->report.n_rows = rows > 0 ? (uint64_t)rows : 0;
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        const char *name = file->tensors[i].name;
        size_t n = strlen(name);

        if (n > strlen(sums) && strcmp(name + n - strlen(sums), sums) == 0) {
            struct vc_calibrated_layer *layer = &layers[owned->report.n_layers++];

            memset(layer, 0, sizeof *layer);
            VC_CALL_ALLOC(layer->tensor = vc_arena_copy(ctx, &owned->arena, name, n - strlen(sums)));
            VC_CALL(read_layer(owned, file, layer));
        }
    }
    VC_REFUSE_IF(owned->report.n_layers == 0, ctx, VC_E_UNSUPPORTED,
                 "%s: has no statistics (those of a tensor NAME are called NAME%s)", file->path, sums);
    return VC_OK;
}

static void end(void *result)
{
    struct vc_calibration_owned *owned = result;

    vc_arena_release(owned->ctx, &owned->arena);
}

enum vc_status vc_calibration_report_new(struct vc_ctx *ctx, struct vc_calibration_owned **out)
{
    VC_CALL(VC_RESULT(ctx, VC_TAG_MISC, *out, end));
    (*out)->ctx = ctx;
    return VC_OK;
}

/* The same from a file that was written before. */
enum vc_status vc_statistics_read(struct vc_ctx *ctx, const struct vc_model *file, struct vc_calibration_report **out)
{
    struct vc_calibration_owned *owned;
    enum vc_status status = VC_OK;

    vc_call_begin(ctx);
    *out = NULL;
    VC_TRY(vc_calibration_report_new(ctx, &owned));
    VC_TRY(vc_kernels_get(ctx) != NULL ? VC_OK : ctx->status);
    VC_TRY(vc_calibration_report_fill(ctx, file, owned));
    *out = &owned->report;
out:
    if (status != VC_OK) {
        vc_result_free(owned);
    }
    return vc_call_end(ctx, status);
}
