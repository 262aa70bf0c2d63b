/* act_inputs.c - one scale for all inputs of a layer, which its loader takes in place of a scale for each row: layouts
 * of folders (vc_dialect.input_scales).
 *
 *     fc1.weight.in_min, .in_max of the statistics     -3.2 ... 1.5 over all columns
 *     fc1.input_scale                                  3.2 / 127.5 (int8), 3.2 / 448 (fp8) */
#include <math.h>

#include "passes/statistics/calibration.h"
#include "quantize/activations/activations.h"

/* Raises the magnitudes in `out` to those of an array of the statistics. */
static enum vc_status raise(struct vc_ctx *ctx, const struct vc_model *file, const char *name, uint64_t n_columns,
                            const char *tail, float *out)
{
    VC_SCOPED float *values = NULL;
    size_t array;
    size_t n_bytes = (size_t)vc_dtype_bytes(VC_DTYPE_F32, n_columns);

    VC_CALL(vc_calibration_array(ctx, file, name, tail, &array));
    VC_REFUSE_IF(array == VC_NO_TENSOR || file->tensors[array].dtype != VC_DTYPE_F32, ctx, VC_E_UNSUPPORTED,
                 "%s: has no range of the inputs of '%s'", file->path, name);
    VC_REFUSE_IF(file->tensors[array].n_elems != n_columns, ctx, VC_E_UNSUPPORTED,
                 "%s: has ranges of %llu inputs of '%s', whose weights have %llu columns: measure what is quantized",
                 file->path, (unsigned long long)file->tensors[array].n_elems, name, (unsigned long long)n_columns);
    VC_CALL_ALLOC(values = vc_alloc(ctx, VC_TAG_SCALES, n_bytes));
    VC_CALL(vc_source_read_any(ctx, file, array, VC_FORM_VALUES, 0, values, n_bytes));
    for (size_t i = 0; i < n_columns; i++) {
        VC_REFUSE_IF(!isfinite(values[i]), ctx, VC_E_UNSUPPORTED, "%s: some inputs of '%s' are NaN or infinite",
                     file->path, name);
        out[i] = fmaxf(out[i], fabsf(values[i]));
    }
    return VC_OK;
}

enum vc_status vc_act_largest(struct vc_ctx *ctx, const struct vc_model *statistics, const char *name,
                              uint64_t n_columns, float *out)
{
    enum vc_status status = raise(ctx, statistics, name, n_columns, ".in_min", out);

    return status == VC_OK ? raise(ctx, statistics, name, n_columns, ".in_max", out) : status;
}

/* 127.5 codes of int8 reach from the middle to either end, -128 and 127; 448 is the largest number of E4M3. */
enum vc_status vc_act_set_input_scale(struct vc_ctx *ctx, const struct vc_model *statistics, struct vc_item *item,
                                      const float *divided)
{
    const char *name = item->set->model->tensors[item->source].name;
    struct vc_step *last = item->chain->steps[item->chain->n_steps - 1];
    struct vc_quant *quant = vc_arena_alloc(ctx, item->set->arena, sizeof *quant);
    uint64_t n_columns = item->desc->shape[1]; /* the layouts take matrices [out, in] only */
    VC_SCOPED float *columns = vc_calloc_array(ctx, VC_TAG_SCALES, (size_t)n_columns + 1, sizeof *columns);
    float most = 0.0f;

    VC_CALL(quant == NULL || columns == NULL ? VC_E_NOMEM : VC_OK);
    VC_CALL(vc_act_largest(ctx, statistics, name, n_columns, columns));
    for (size_t j = 0; j < n_columns; j++) {
        most = fmaxf(most, divided != NULL ? columns[j] / divided[j] : columns[j]);
    }
    *quant = *last->out.quant;
    most = most > 0.0f ? most : 1.0f; /* inputs that were always 0 */
    quant->input_scale = most / (quant->scheme == VC_SCHEME_INT8 ? 127.5f : 448.0f);
    last->out.quant = quant;
    vc_item_replan(item);
    return VC_OK;
}
