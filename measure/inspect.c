/* inspect.c - counts what is in a checkpoint, and plans what a plain quantize would write. */
#include <vcompress/inspect.h>

#include <vcompress/quantize.h>

#include "core/base/ctx.h"
#include "core/job/job_bytes.h"
#include "core/model/names.h"
#include "measure/packed_stats.h"

/* What the caller gets is the first member. */
struct owned {
    struct vc_inspection result;
    struct vc_ctx *ctx;
    struct vc_inspect_dtype dtypes[VC_DTYPE_COUNT];
    struct vc_packed_stats *packed;
};

static void end(void *result)
{
    struct owned *owned = result;

    vc_packed_stats_free(owned->ctx, owned->packed);
}

/* Size of the file, from a plan; 0 when it cannot be planned. Nothing is written. Fails only where it is cancelled. */
static enum vc_status plan_bytes(struct vc_ctx *ctx, const struct vc_model *model, enum vc_target target,
                                 uint64_t *bytes)
{
    struct vc_write_options write;
    struct vc_quantize_options quantize;
    struct vc_job *job = NULL;
    enum vc_status status;

    vc_quantize_defaults(&quantize);
    quantize.target = target;
    vc_write_defaults(&write);
    write.dry_run = true;
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(vc_job_add_quantize(ctx, job, &quantize));
    VC_TRY(vc_job_plan_bytes(ctx, job, &write, bytes));
out:
    vc_job_free(job);
    return status == VC_E_CANCELLED ? status : VC_OK;
}

/* Adds one tensor to the totals. Tied tensors share the values of another one, so only the first counts for
 * elements and bytes. Parameters are weights alone: running means of a normalization are none, and neither
 * are parts of a quantized tensor. */
static void count(struct owned *owned, const struct vc_tensor *tensor)
{
    struct vc_inspection *in = &owned->result;
    struct vc_inspect_dtype *of_type = &owned->dtypes[tensor->dtype];
    bool tied = tensor->alias_of != VC_NO_TENSOR;
    bool weight = tensor->role == VC_ROLE_WEIGHT && !tied && tensor->dtype != VC_DTYPE_RAW;

    in->compressed = in->compressed || tensor->compressed;
    in->n_tied += tied;
    of_type->n_tensors++;
    of_type->n_elems += tied ? 0 : tensor->n_elems;
    of_type->size_bytes += tied ? 0 : tensor->size_bytes;
    in->value_bytes += tied ? 0 : tensor->size_bytes;
    if (tensor->part_of == VC_NO_TENSOR) {
        in->n_own++;
        in->n_quantized += tensor->quant != NULL || vc_dtype_is_quantized(tensor->dtype);
        in->n_params += weight && !vc_name_is_statistic(tensor->name) ? tensor->n_elems : 0;
    }
}

/* Those that occur move to the front. */
static void list_dtypes(struct owned *owned)
{
    for (size_t i = 0; i < VC_DTYPE_COUNT; i++) {
        owned->dtypes[i].dtype = (enum vc_dtype)i;
        if (owned->dtypes[i].n_tensors != 0) {
            owned->dtypes[owned->result.n_dtypes++] = owned->dtypes[i];
        }
    }
    owned->result.dtypes = owned->dtypes;
}

/* Counts all tensors, plans two sizes for models that are not quantized yet, and reads the values if that
 * was asked for. Sizes that cannot be planned are 0 and leave no error behind. */
static enum vc_status inspect(struct vc_ctx *ctx, const struct vc_model *model, bool stats, struct vc_inspection **out)
{
    VC_SCOPED_RESULT struct owned *owned = NULL;

    *out = NULL;
    VC_CALL(VC_RESULT(ctx, VC_TAG_REPORT, owned, end));
    owned->ctx = ctx;
    owned->result.model = model;
    owned->result.n_tensors = vc_model_facts(model)->n_tensors;
    for (size_t i = 0; i < owned->result.n_tensors; i++) {
        count(owned, vc_model_tensor(model, i));
    }
    list_dtypes(owned);
    if (owned->result.n_quantized == 0) {
        VC_CALL(plan_bytes(ctx, model, VC_TARGET_INT8, &owned->result.int8_bytes));
        VC_CALL(plan_bytes(ctx, model, VC_TARGET_F16, &owned->result.fp16_bytes));
        vc_clear_error(ctx);
    }
    owned->result.has_stats = stats;
    if (stats) {
        VC_CALL(vc_packed_stats_make(ctx, model, &owned->packed));
    }
    *out = vc_give(&owned);
    return VC_OK;
}

enum vc_status vc_inspect(struct vc_ctx *ctx, const struct vc_model *model, bool stats, struct vc_inspection **out)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, inspect(ctx, model, stats, out));
}

bool vc_inspect_get_stats(const struct vc_inspection *inspection, size_t index, struct vc_value_stats *stats)
{
    const struct owned *owned = (const struct owned *)(const void *)inspection;

    if (!inspection->has_stats || index >= inspection->n_tensors) {
        return false;
    }
    vc_packed_stats_get(owned->packed, index, stats);
    return true;
}
