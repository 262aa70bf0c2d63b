/* fuzz_torch.c - any bytes as a PyTorch file: as they are where they begin like one (an archive, a legacy file), and
 * any pickle as the data.pkl of an archive with a few storages. Opened, read, and planned as a job for a PyTorch
 * output, which writes the tree again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/job.h>

#include "fuzz_target.h"
#include "support_options.h"
#include "torch_builder.h"

#define MAX_BYTES ((size_t)1 << 16)

/* A plan to write it as it is: everything but the values passes through the writer. */
static void plan_copy(const struct bytes *b)
{
    struct vc_write_options write = support_write("x.pt");
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    const char *path = fuzz_file(b->p, b->n);

    write.dry_run = true;
    if (vc_model_open(ctx, path, NULL, &model) == VC_OK && vc_job_create(ctx, model, &job) == VC_OK) {
        enum vc_status status = vc_job_plan(ctx, job, &write);

        if (status == VC_E_INTERNAL || (status == VC_OK) != (vc_ctx_message(ctx)[0] == '\0')) {
            fprintf(stderr, "broken promise: %s\n", vc_ctx_message(ctx));
            abort();
        }
    }
    vc_job_free(job);
    vc_model_close(model);
    if (fuzz_in_use() != 0) {
        fprintf(stderr, "broken promise: all memory is given back\n");
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const size_t sizes[] = {48, 24, 5, 0, 2048};

    if (n >= 4 && (memcmp(data, "PK", 2) == 0 || memcmp(data, "\x80\x02\x8a\x0a", 4) == 0)) {
        fuzz_one(data, n, VC_DTYPE_RAW);
    } else if (n > 2 && data[0] == 0x80 && n < MAX_BYTES) {
        struct bytes pickle = {NULL, 0, 0};
        struct bytes b;

        bytes_add(&pickle, data, n);
        b = torch_archive(&pickle, "little", sizes, sizeof sizes / sizeof sizes[0], NULL);
        fuzz_one(b.p, b.n, VC_DTYPE_RAW);
        plan_copy(&b);
        bytes_release(&b);
        bytes_release(&pickle);
    }
    return 0;
}
