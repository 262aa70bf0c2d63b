/* fuzz_pipeline.c - any bytes as the model_index.json of a pipeline. The list of its parts is compared with what
 * jansson reads; where one of them is a folder here, the pipeline is opened, verified and converted. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder_builder.h"
#include "formats/huggingface/model_index.h"
#include "fuzz_target.h"

static const char *const parts[] = {"unet", "text_encoder", "scheduler"}; /* two with weights */

static char folder[256], inner[3][300];
static int index_fd;

static void remove_folder(void)
{
    for (size_t k = 0; k < 3; k++) {
        folder_remove(inner[k]);
    }
    folder_remove(folder);
}

static void write_text(const char *path, const char *name, const char *text)
{
    folder_write(path, name, text, strlen(text));
}

static void make_folder(void)
{
    static const char header[] = "{\"l.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]}}";
    static const float values[8] = {1, -2, 3, -4, 5, -6, 7, -8};
    struct bytes b = {NULL, 0, 0};

    fuzz_folder(folder, sizeof folder);
    bytes_u64(&b, strlen(header));
    bytes_add(&b, header, strlen(header));
    bytes_add(&b, values, sizeof values);
    for (size_t k = 0; k < 3; k++) {
        snprintf(inner[k], sizeof inner[k], "%s/%s", folder, parts[k]);
        if (mkdir(inner[k], 0700) != 0) {
            abort();
        }
    }
    folder_write(inner[0], "diffusion_pytorch_model.safetensors", b.p, b.n);
    write_text(inner[0], "config.json", "{\"_class_name\": \"UNet2DConditionModel\"}");
    folder_write(inner[1], "model.safetensors", b.p, b.n);
    write_text(inner[1], "config.json", "{\"model_type\": \"llama\", \"torch_dtype\": \"float32\"}");
    write_text(inner[2], "scheduler_config.json", "{}");
    bytes_release(&b);
    index_fd = fuzz_file_in(folder, VC_MODEL_INDEX_NAME);
    (void)atexit(remove_folder);
}

static bool is_part(const char *key, const json_t *value)
{
    return key[0] != '_' && json_array_size(value) == 2 && json_is_string(json_array_get(value, 0)) &&
           json_is_string(json_array_get(value, 1));
}

/* The list is sorted, and has what the text has. Texts with NaN, which are read as Python does, are none to jansson. */
static void compare(const char *text, size_t n, const struct vc_pipeline_part *list, size_t n_list)
{
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    struct vc_ctx *ctx = fuzz_ctx();
    size_t n_there = 0;
    const char *key;
    json_t *value;

    if (root == NULL) {
        return;
    }
    fuzz_promise(json_is_object(root), "an object", ctx);
    json_object_foreach(root, key, value)
    {
        n_there += is_part(key, value);
    }
    fuzz_promise(n_there == n_list, "each part once", ctx);
    for (size_t i = 0; i < n_list; i++) {
        fuzz_promise(is_part(list[i].name, json_object_get(root, list[i].name)), "a part", ctx);
        fuzz_promise(i == 0 || strcmp(list[i - 1].name, list[i].name) < 0, "by name", ctx);
        fuzz_promise(strchr(list[i].name, '/') == NULL && list[i].name[0] != '.', "a folder beside it", ctx);
    }
    json_decref(root);
}

/* Whether one of them is a folder with weights. */
static bool is_here(const struct vc_pipeline_part *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, parts[0]) == 0 || strcmp(list[i].name, parts[1]) == 0) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_arena arena = {0};
    struct vc_pipeline_part *list = NULL;
    size_t n_list = 0;
    bool here = false;
    enum vc_status status;

    vc_clear_error(ctx);
    status = vc_model_index_parse(ctx, &arena, (const char *)data, n, &list, &n_list);
    fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED, vc_status_name(status), ctx);
    if (status == VC_OK) {
        compare((const char *)data, n, list, n_list);
        here = is_here(list, n_list);
    }
    vc_arena_release(ctx, &arena);
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", ctx);
    if (here || n % 64 == 0) {
        if (folder[0] == '\0') {
            make_folder();
        }
        fuzz_store(index_fd, data, n);
        fuzz_path(folder, VC_DTYPE_RAW);
        fuzz_promise(!here || fuzz_ctx()->status == VC_OK, "a pipeline whose parts are here", ctx);
        fuzz_job(folder, false, n % 2 == 0, n % 4 == 1 ? "plain" : NULL);
    }
    return 0;
}
