/* fuzz_index.c - any bytes as the index of a folder of shards, which stay as they are, and behind the first byte 0 its
 * config.json: the folder is read as fuzz_npz.c does with an npz, and jobs without an output are planned and run.
 * config.json is also changed by itself: what comes out is JSON, and says what it said but for the changed members. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "folder_builder.h"
#include "formats/dialects/dialects.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_dtype.h"
#include "fuzz_target.h"

static char folder[256];
static int index_fd, config_fd;

static void remove_folder(void)
{
    folder_remove(folder);
}

static void make_folder(void)
{
    fuzz_folder(folder, sizeof folder);
    folder_write(folder, "other.safetensors", "{}", 2);
    folder_write(folder, "tokenizer.json", "{}", 2);
    index_fd = fuzz_file_in(folder, FOLDER_INDEX);
    config_fd = fuzz_file_in(folder, "config.json");
    (void)atexit(remove_folder);
}

/* ---- config.json by itself ---- */

static const uint64_t shape[] = {64, 64};

/* Codes that a job made, and a weight that it left alone. */
static enum vc_status change_weights(struct vc_ctx *ctx, const char *text, size_t n, const struct vc_dialect *dialect,
                                     struct vc_text *out)
{
    static const bool told[] = {true, false};
    static const struct vc_quant quant = {
        .scheme = VC_SCHEME_INT8, .granularity = VC_GRANULARITY_GROUP, .group_size = 32, .symmetric = true};
    struct vc_tensor tensors[] = {
        {.name = "l.q.weight", .dtype = VC_DTYPE_F32, .n_dims = 2, .shape = shape, .part_of = VC_NO_TENSOR},
        {.name = "lm_head.weight", .dtype = VC_DTYPE_F32, .n_dims = 2, .shape = shape, .part_of = VC_NO_TENSOR}};
    struct vc_out_tensor outs[] = {
        {.name = "l.q.weight", .dtype = VC_DTYPE_I8, .n_dims = 2, .shape = shape, .quant = &quant},
        {.name = "lm_head.weight",
         .dtype = VC_DTYPE_F32,
         .n_dims = 2,
         .shape = shape,
         .form = VC_FORM_RAW,
         .source = 1}};
    struct vc_model model = {.n_tensors = 2, .tensors = tensors};
    struct vc_out_list list = {.n = 2, .tensors = outs};
    struct vc_hf_change change = {.model = &model, .outs = &list, .told = told, .dialect = dialect};

    return vc_hf_quantization_rewrite(ctx, text, n, &change, out);
}

static void forget(json_t *root, bool weights)
{
    static const char *const members[] = {"torch_dtype", "dtype"};
    size_t i;

    for (i = 0; i < 2 && !weights; i++) {
        if (json_is_string(json_object_get(root, members[i]))) {
            (void)json_object_del(root, members[i]);
        }
    }
    if (weights) {
        (void)json_object_del(root, "quantization_config");
    }
}

/* Both are the same JSON but for the members that were to change; what is no JSON object was left alone or refused. */
static void check_config(struct vc_ctx *ctx, const char *text, size_t n, enum vc_status status,
                         const struct vc_text *out, bool weights)
{
    json_t *before = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    json_t *after = json_loadb(out->data, out->n, JSON_REJECT_DUPLICATES, NULL);

    if (status == VC_OK && json_is_object(before)) {
        forget(before, weights);
        forget(after, weights);
        fuzz_promise(json_is_object(after) && json_equal(before, after), "config.json stays what it was", ctx);
    } else if (status == VC_OK) {
        fuzz_promise(!weights && out->n == n && memcmp(out->data, text, n) == 0, "no JSON is left alone", ctx);
    }
    json_decref(before);
    json_decref(after);
}

static void change_config(const char *text, size_t n)
{
    static const struct vc_dialect *const dialects[] = {&vc_dialect_compressed_tensors, &vc_dialect_bitsandbytes};
    struct vc_ctx *ctx = fuzz_ctx();
    size_t i;

    for (i = 0; i < 3; i++) {
        struct vc_text out;
        enum vc_status status;

        vc_clear_error(ctx);
        vc_text_init(&out, ctx);
        status = i < 2 ? change_weights(ctx, text, n, dialects[i], &out)
                       : vc_hf_dtype_rewrite(ctx, text, n, VC_DTYPE_BF16, &out);
        fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED, "config.json", ctx);
        check_config(ctx, text, n, status, &out, i < 2);
        vc_text_release(&out);
    }
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n == 0 ? NULL : memchr(data, 0, n);
    size_t n_index = end != NULL ? (size_t)(end - data) : n;
    const uint8_t *config = end != NULL ? end + 1 : data + n;
    size_t n_config = n - (size_t)(config - data);

    if (folder[0] == '\0') {
        make_folder();
    }
    fuzz_store(index_fd, data, n_index);
    fuzz_store(config_fd, config, n_config);
    fuzz_path(folder, VC_DTYPE_RAW);
    if (fuzz_ctx()->status == VC_OK) { /* one job of several, since scanning the folder takes longest */
        static const char *const layouts[] = {NULL, NULL, NULL, "bitsandbytes", "compressed-tensors"};

        fuzz_job(folder, n % 5 == 0, n % 5 == 1, layouts[n % 5]);
    }
    if (n_config != 0) {
        change_config((const char *)config, n_config);
    }
    return 0;
}
