/* fuzz_masks.c - any bytes as a file with masks for `prune`: a safetensors file as in fuzz_safetensors.c, opened as the
 * masks of a model that is fine. What is taken prunes: where a mask says 0 there is 0, everything else is as it was. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/prune.h>

#include "core/base/checked.h"
#include "core/model/memory_model.h"
#include "fuzz_target.h"
#include "job_apply.h"
#include "support_options.h"

#define MAX_BYTES ((size_t)1 << 16)
#define N         15

static const uint64_t shape[] = {3, 5}, flat[] = {N};
static float weights[N];
static const struct vc_memory_tensor tensors[] = {{"w", VC_DTYPE_F32, 2, shape, weights},
                                                  {"v", VC_DTYPE_F32, 1, flat, weights}};

/* Weights are what they were, or zero. */
static void check_pruned(struct vc_ctx *ctx, struct vc_job *job, size_t tensor)
{
    float out[N];
    size_t i;

    if (job_apply(ctx, job, tensor, VC_PART_CODES, out, sizeof out) != VC_OK) {
        fuzz_promise(ctx->status == VC_E_FORMAT || ctx->status == VC_E_UNSUPPORTED, "masks that cannot be read", ctx);
        return;
    }
    for (i = 0; i < N; i++) {
        fuzz_promise(out[i] == 0.0f || out[i] == weights[i], "a weight stays, or becomes zero", ctx);
    }
}

static void prune(const char *path)
{
    struct vc_write_options write = support_write(NULL);
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_prune_options options;
    struct vc_model *masks = NULL;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status = vc_model_open(ctx, path, NULL, &masks);

    vc_prune_defaults(&options);
    options.pattern = VC_PATTERN_GIVEN;
    options.mask = masks;
    if (status == VC_OK && vc_memory_model_create(ctx, tensors, 2, &model) == VC_OK &&
        vc_job_create(ctx, model, &job) == VC_OK && vc_job_add_prune(ctx, job, &options) == VC_OK &&
        vc_job_plan(ctx, job, &write) == VC_OK) {
        check_pruned(ctx, job, 0);
        check_pruned(ctx, job, 1);
    }
    status = ctx->status;
    fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED || status == VC_E_NOMEM,
                 vc_status_name(status), ctx);
    fuzz_promise((status == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'), "a sentence with every failure", ctx);
    vc_job_free(job);
    vc_model_close(model);
    vc_model_close(masks);
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", ctx);
}

static void each(const uint8_t *data, size_t n)
{
    prune(fuzz_file(data, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t i;

    for (i = 0; i < N; i++) {
        weights[i] = (float)(i + 1);
    }
    fuzz_safetensors(data, n, MAX_BYTES, each);
    return 0;
}
