/* fuzz_onnx.c - any bytes as an ONNX file: read as fuzz_npz.c does for npz; then, where that works, a quantization and
 * a dequantization are planned and run without a file, which takes the graph apart and puts it together again. Inputs
 * that do not begin like one get a version in front. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/vcompress.h>

#include "fuzz_target.h"

#define MAX_BYTES ((size_t)1 << 20)

/* Its context keeps the kernels, so that it cannot be fuzz_ctx, which is checked for being empty. */
static struct vc_ctx *job_ctx(void)
{
    static struct vc_ctx *ctx;

    if (ctx == NULL && (vc_ctx_create(&ctx) != VC_OK || vc_ctx_set_max_memory(ctx, (uint64_t)256 << 20) != VC_OK ||
                        vc_ctx_set_threads(ctx, 1) != VC_OK || vc_ctx_set_device(ctx, "cpu") != VC_OK)) {
        abort();
    }
    return ctx;
}

static enum vc_status add_pass(struct vc_ctx *ctx, struct vc_job *job, bool back, bool groups)
{
    struct vc_quantize_options q;
    struct vc_dequantize_options d;

    vc_quantize_defaults(&q);
    vc_dequantize_defaults(&d);
    q.min_elems = 1;
    q.min_row = 1;
    q.requantize = true;
    q.nonfinite = VC_NONFINITE_ZERO;
    q.granularity = groups ? VC_GRANULARITY_GROUP : VC_GRANULARITY_CHANNEL;
    q.group_size = groups ? 4 : 0;
    d.casts = true;
    return back ? vc_job_add_dequantize(ctx, job, &d) : vc_job_add_quantize(ctx, job, &q);
}

static void run_job(const uint8_t *data, size_t n, bool back, bool groups)
{
    struct vc_write_options write = {.path = NULL};
    struct vc_ctx *ctx = job_ctx();
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;

    if (vc_model_open(ctx, fuzz_file(data, n), NULL, &model) == VC_OK && vc_job_create(ctx, model, &job) == VC_OK &&
        add_pass(ctx, job, back, groups) == VC_OK && vc_job_plan(ctx, job, &write) == VC_OK) {
        (void)vc_job_run(ctx, job);
    }
    fuzz_promise(ctx->status != VC_E_INTERNAL, "no error of our own making", ctx);
    vc_job_free(job);
    vc_model_close(model);
}

static void both(const uint8_t *data, size_t n)
{
    fuzz_one(data, n, VC_DTYPE_RAW);
    if (fuzz_ctx()->status == VC_OK) {
        run_job(data, n, true, false);
        run_job(data, n, false, n % 2 == 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t start[2] = {0x08, 0x08};
    uint8_t *copy;

    if (n >= 2 && data[0] == start[0]) {
        both(data, n);
    } else if (n < MAX_BYTES) {
        copy = malloc(sizeof start + n);
        if (copy == NULL) {
            return 0;
        }
        memcpy(copy, start, sizeof start);
        if (n > 0) {
            memcpy(copy + sizeof start, data, n);
        }
        both(copy, sizeof start + n);
        free(copy);
    }
    return 0;
}
