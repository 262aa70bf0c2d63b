/* fuzz_recipe.c - any bytes as a recipe of `vcompress run`: lines are cut into words, words are parsed as the options
 * of their passes, and what fits together becomes a chain of passes, which is added to a job. A recipe that is refused
 * is refused with one line; one that is taken has passes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/model/memory_model.h"
#include "fuzz_target.h"
#include "tools/commands/commands.h"
#include "tools/convert/recipe.h"

/* What main.c has for the command. */
const struct command *const commands[] = {&command_quantize, &command_prune, &command_dequantize, &command_run};
const size_t n_commands = sizeof(commands) / sizeof(commands[0]);

/* The passes of the chain in a job of a small model. Files that recipes name are not looked for. */
static void add_passes(const struct chain *chain)
{
    static const uint64_t shape[] = {4, 8};
    static const float weights[32] = {1.0f, -2.0f};
    static const struct vc_memory_tensor tensor = {"w", VC_DTYPE_F32, 2, shape, weights};
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    vc_clear_error(ctx);
    status = vc_memory_model_create(ctx, &tensor, 1, &model);
    status = status == VC_OK ? vc_job_create(ctx, model, &job) : status;
    for (size_t i = 0; status == VC_OK && i < chain->n; i++) {
        if (strcmp(chain->pass[i].row->command->name, "prune") != 0) { /* whose mask would be opened */
            status = chain->pass[i].what.add(ctx, job, model, chain->pass[i].what.user);
        }
    }
    fuzz_promise(status == VC_OK || status == VC_E_ARGUMENT || status == VC_E_UNSUPPORTED, vc_status_name(status), ctx);
    vc_job_free(job);
    vc_model_close(model);
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static FILE *own;
    struct chain *chain = calloc(1, sizeof *chain);
    struct app app = {.command = &command_run};
    FILE *saved = stderr;
    int rc;

    own = own != NULL ? own : fopen("/dev/null", "w");
    if (chain == NULL || own == NULL) {
        abort();
    }
    app_report_to(&app, own);
    stderr = own; /* where the command's one line goes */
    rc = recipe_add_text(&app, chain, "recipe.txt", (const char *)data, n);
    stderr = saved;
    /* a file of units (prune --remove FILE) is read at once, and may be missing or another kind of file */
    fuzz_promise(rc == GO_ON || rc == EXIT_USAGE || rc == EXIT_SYSTEM || rc == EXIT_INPUT,
                 "a wrong recipe is wrong use", fuzz_ctx());
    fuzz_promise((rc == GO_ON) == !app.said, "one line with every failure, and only then", fuzz_ctx());
    fuzz_promise(rc != GO_ON || chain->n != 0, "a recipe has a pass", fuzz_ctx());
    if (rc == GO_ON) {
        add_passes(chain);
    }
    out_end(&app.out);
    files_free(&app.files);
    chain_free(chain);
    return 0;
}
