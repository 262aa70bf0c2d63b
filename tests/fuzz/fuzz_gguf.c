/* fuzz_gguf.c - any bytes as a GGUF file, as fuzz_npz.c does for npz. Inputs that do not begin like one get the first
 * eight bytes in front. What says that it is one of several is also read as the first of two, and copied. What has an
 * architecture is also read as the folder that transformers loads. */
#define _GNU_SOURCE /* memmem */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder_builder.h"
#include "fuzz_target.h"
#include "gguf_builder.h"

#define MAX_BYTES ((size_t)1 << 20)
#define FIRST     "m-00001-of-00002.gguf"
#define SECOND    "m-00002-of-00002.gguf"

static char folder[256];

static void remove_folder(void)
{
    folder_remove(folder);
}

/* A folder with the second file; the result is the first. */
static int make_folder(void)
{
    static const uint64_t dims[] = {32, 2};
    struct gguf_builder g = {0};
    struct bytes b;

    gguf_pair(&g, "split.no", 2, "\1", 2);
    gguf_pair(&g, "split.count", 2, "\2", 2);
    gguf_tensor(&g, "second", 0, 2, dims, 256);
    b = gguf_finish(&g);
    fuzz_folder(folder, sizeof folder);
    folder_write(folder, SECOND, b.p, b.n);
    bytes_release(&b);
    (void)atexit(remove_folder);
    return fuzz_file_in(folder, FIRST);
}

/* Every tensor of the folder can be read in full, but for scales that no other layout has. */
static void go_back(const char *path)
{
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_model *model = NULL;
    struct vc_open_options options;
    enum vc_status status;
    static unsigned char values[1 << 16];

    vc_open_defaults(&options);
    options.as_folder = true;
    status = vc_model_open(ctx, path, &options, &model);
    fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED, vc_status_name(status), ctx);
    for (size_t i = 0; status == VC_OK && i < vc_model_facts(model)->n_tensors; i++) {
        const struct vc_tensor *t = vc_model_tensor(model, i);

        enum vc_status read =
            t->size_bytes > sizeof values ? VC_OK : vc_model_read(ctx, model, i, 0, t->n_elems, values, sizeof values);

        fuzz_promise(read == VC_OK || (read == VC_E_UNSUPPORTED && t->part_of != VC_NO_TENSOR), "values", ctx);
    }
    vc_model_close(model);
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", ctx);
}

static void both(const uint8_t *data, size_t n)
{
    static char paths[2][300];
    static int fd = -1;

    fuzz_one(data, n, VC_DTYPE_RAW);
    if (memmem(data, n, "general.architecture", strlen("general.architecture")) != NULL) {
        go_back(fuzz_file(data, n));
    }
    if (memmem(data, n, "split.count", strlen("split.count")) == NULL) {
        return;
    }
    if (fd < 0) {
        fd = make_folder();
        snprintf(paths[0], sizeof paths[0], "%s/" FIRST, folder);
        snprintf(paths[1], sizeof paths[1], "%s/" SECOND, folder);
    }
    fuzz_store(fd, data, n);
    fuzz_path(paths[n % 2], VC_DTYPE_RAW);
    if (fuzz_ctx()->status == VC_OK) {
        fuzz_job(paths[n % 2], false, false, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char start[8] = {'G', 'G', 'U', 'F', 3};

    fuzz_begin_with(start, sizeof start, 4, data, n, MAX_BYTES, both);
    return 0;
}
