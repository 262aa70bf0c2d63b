/* fuzz_folder.c - any bytes as a file of a folder that becomes a GGUF model: the first byte tells which, config.json,
 * tokenizer.json, tokenizer_config.json, tokenizer.model or vocab.txt. The folder is opened, and every tensor is read.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "folder_builder.h"
#include "fuzz_target.h"
#include "llm_builder.h"

static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model",
                                    "vocab.txt"};
#define N_NAMES (sizeof names / sizeof names[0])

static char folder[256];

static void remove_folder(void)
{
    folder_remove(folder);
}

/* A file of the folder goes, if it is there. */
static void drop(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
}

static void make_folder(void)
{
    fuzz_folder(folder, sizeof folder);
    drop("a.safetensors");
    drop("b.safetensors");
    llm_fill(folder);
    (void)atexit(remove_folder);
}

static void read_all(struct vc_ctx *ctx, const struct vc_model *model)
{
    float values[64];

    for (size_t i = 0; i < vc_model_facts(model)->n_tensors; i++) {
        uint64_t n = vc_model_tensor(model, i)->n_elems;

        fuzz_promise(n <= 64 && vc_model_read(ctx, model, i, 0, n, values, sizeof values) == VC_OK, "values", ctx);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_model *model = NULL;
    struct vc_open_options options;
    size_t which = n == 0 ? 0 : data[0] % N_NAMES;
    enum vc_status status;

    if (folder[0] == '\0') {
        make_folder();
    }
    folder_write(folder, names[0], LLM_CONFIG, strlen(LLM_CONFIG));
    if (which == 2) {
        folder_write(folder, names[1], LLM_TOKENIZER, strlen(LLM_TOKENIZER));
    }
    if (n > 1) {
        folder_write(folder, names[which], data + 1, n - 1);
    }
    vc_open_defaults(&options);
    options.as_gguf = true;
    options.gguf_no_vocab = which == 0;
    status = vc_model_open(ctx, folder, &options, &model);
    fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED, vc_status_name(status), ctx);
    if (status == VC_OK) {
        read_all(ctx, model);
    }
    vc_model_close(model);
    for (size_t i = 1; i < N_NAMES; i++) {
        drop(names[i]);
    }
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", ctx);
    return 0;
}
