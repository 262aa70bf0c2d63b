/* fuzz_removals.c - any bytes as the file of `prune --remove`: lines that name a group and numbers of its units. What
 * is refused is refused with one line; what is taken is planned against a small model with groups of several kinds,
 * which takes it or refuses it in one sentence. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/memory_model.h"
#include "fuzz_target.h"
#include "tools/commands/commands.h"
#include "tools/commands/prune_structured.h"

#define MAX_BYTES ((size_t)1 << 16)

/* What main.c has for the command. */
const struct command *const commands[] = {&command_prune};
const size_t n_commands = sizeof(commands) / sizeof(commands[0]);

static const char couplings_text[] = "a.weight:0 = a.bias:0 = b:1\n"
                                     "heads: b:0*4 = c:1*4\n"
                                     "experts: router:0 = experts.0.w@0 = experts.1.w@1 = experts.2.w@2\n";

static struct vc_model *make_model(void)
{
    static const float nothing[256];
    static const uint64_t shapes[][2] = {{12, 8}, {12, 0}, {16, 12}, {3, 16}, {3, 4}, {4, 4}};
    static const struct vc_memory_tensor tensors[] = {
        {"a.weight", VC_DTYPE_F32, 2, shapes[0], nothing},    {"a.bias", VC_DTYPE_F32, 1, shapes[1], nothing},
        {"b", VC_DTYPE_F32, 2, shapes[2], nothing},           {"c", VC_DTYPE_F32, 2, shapes[3], nothing},
        {"router", VC_DTYPE_F32, 2, shapes[4], nothing},      {"experts.0.w", VC_DTYPE_F32, 2, shapes[5], nothing},
        {"experts.1.w", VC_DTYPE_F32, 2, shapes[5], nothing}, {"experts.2.w", VC_DTYPE_F32, 2, shapes[5], nothing}};
    struct vc_model *model = NULL;

    (void)vc_memory_model_create(fuzz_ctx(), tensors, sizeof tensors / sizeof *tensors, &model);
    return model;
}

static void plan(const struct structured_cli *cli)
{
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_model *model = make_model();
    struct vc_couplings *couplings = NULL;
    struct vc_structured_options options;
    struct vc_write_options write;
    struct vc_job *job = NULL;
    enum vc_status status;

    vc_structured_defaults(&options);
    vc_write_defaults(&write);
    write.path = "none.npz";
    write.dry_run = true;
    status = model == NULL ? VC_E_NOMEM : VC_OK;
    if (status == VC_OK) {
        status = vc_couplings_read(ctx, fuzz_file((const uint8_t *)couplings_text, sizeof couplings_text - 1), model,
                                   &couplings);
    }
    fuzz_promise(status == VC_OK, "the groups are read", ctx);
    options.couplings = couplings;
    options.remove = cli->units;
    options.n_remove = cli->n_units;
    status = vc_job_create(ctx, model, &job);
    status = status == VC_OK ? vc_job_add_structured(ctx, job, &options) : status;
    status = status == VC_OK ? vc_job_plan(ctx, job, &write) : status;
    fuzz_promise(status == VC_OK || status == VC_E_ARGUMENT || status == VC_E_UNSUPPORTED, vc_status_name(status), ctx);
    vc_job_free(job);
    vc_result_free(couplings);
    vc_model_close(model);
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static FILE *own;
    struct structured_cli cli = {.remove = "r.txt"};
    struct app app = {.command = &command_prune};
    FILE *saved = stderr;
    FILE *from;
    int rc;

    if (n == 0 || n > MAX_BYTES) {
        return 0;
    }
    own = own != NULL ? own : fopen("/dev/null", "w");
    from = fopen(fuzz_file(data, n), "r");
    if (own == NULL || from == NULL) {
        abort();
    }
    app_report_to(&app, own);
    stderr = own; /* where the command's one line goes */
    rc = structured_read(&app, &cli, from);
    stderr = saved;
    (void)fclose(from);
    fuzz_promise(rc == GO_ON || rc == EXIT_USAGE, "a wrong file is wrong use", fuzz_ctx());
    fuzz_promise((rc == GO_ON) == !app.said, "one line with every failure, and only then", fuzz_ctx());
    for (size_t i = 0; i < cli.n_units; i++) {
        fuzz_promise(cli.units[i].n != 0 && cli.units[i].tensor[0] != '\0', "a line has a name and numbers",
                     fuzz_ctx());
    }
    if (rc == GO_ON) {
        fuzz_promise(cli.n_units != 0, "a file has a line", fuzz_ctx());
        plan(&cli);
    }
    out_end(&app.out);
    structured_end(&cli);
    return 0;
}
