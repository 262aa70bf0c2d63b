/* shrink.c - the library in one page: quantizes a checkpoint to int8 and says what that cost.
 *
 *     shrink IN.npz OUT.npz
 *
 * The same as `vcompress quantize --int8 --force IN.npz -o OUT.npz`, with one line for a report. Of digits/digits.npz:
 *
 *     small.npz: 646918 -> 176646 bytes, 42.6 dB
 *
 * Compiles as C11 and as C++17. */
#include <inttypes.h>
#include <stdio.h>

#include <vcompress/vcompress.h>

static enum vc_status shrink(struct vc_ctx *ctx, const char *in, const char *out)
{
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    struct vc_quantize_options quantize;
    struct vc_write_options write;
    enum vc_status status = vc_model_open(ctx, in, NULL, &model); /* headers only */

    vc_quantize_defaults(&quantize); /* int8, one scale per output channel */
    vc_write_defaults(&write);
    write.path = out;
    write.force = true;
    if (status == VC_OK) {
        status = vc_job_create(ctx, model, &job);
    }
    if (status == VC_OK) {
        status = vc_job_add_quantize(ctx, job, &quantize);
    }
    if (status == VC_OK) {
        status = vc_job_plan(ctx, job, &write); /* from here on all sizes are known */
    }
    if (status == VC_OK) {
        status = vc_job_run(ctx, job); /* OUT appears whole, or not at all */
    }
    if (status == VC_OK) {
        const struct vc_report_totals *t = &vc_job_report(job)->totals;

        printf("%s: %" PRIu64 " -> %" PRIu64 " bytes, %.1f dB\n", out, t->file_before, t->file_after, t->sqnr_db);
    }
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

int main(int argc, char **argv)
{
    struct vc_ctx *ctx = NULL;

    if (argc != 3) {
        fprintf(stderr, "usage: shrink IN.npz OUT.npz\n");
        return 2;
    }
    enum vc_status status = vc_ctx_create(&ctx);
    if (status == VC_OK) {
        status = shrink(ctx, argv[1], argv[2]);
    }
    if (status != VC_OK) {
        /* The context holds the sentence of the last failure; a context that could not be made has none. */
        fprintf(stderr, "shrink: %s\n", ctx == NULL ? "no memory" : vc_ctx_message(ctx));
    }
    vc_ctx_free(ctx);
    return status == VC_OK ? 0 : 1;
}
