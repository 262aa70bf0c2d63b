/* hf_adapter.c - see hf_adapter.h. Keys are those of peft's LoraConfig (0.21). */
#include "formats/huggingface/hf_adapter.h"

#include <string.h>

#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/infolder.h"
#include "formats/io/infile.h"
#include "formats/io/side_file.h"

/* ---- what cannot be merged ---- */

/* Keys that, where they are set, make something else of the weights than a sum of two factors. */
static const struct {
    const char *key, *refusal;
} others[] = {
    {"target_parameters", "has factors of single parameters (target_parameters), which are not merged here"},
    {"layer_replication", "was made for a model with replicated layers (layer_replication)"},
    {"trainable_token_indices", "has rows of single tokens (trainable_token_indices), which are not merged here"},
    {"use_qalora", "is one of QA-LoRA, whose factors are pooled (use_qalora)"},
    {"use_bdlora", "has factors in blocks (use_bdlora), which are not merged here"},
    {"alora_invocation_tokens", "works from a token on (alora_invocation_tokens), so it is no change of the weights"},
};

/* An empty list, false and null ask for nothing. */
static bool is_set(const json_t *value)
{
    return value != NULL && !json_is_null(value) && !json_is_false(value) &&
           !(json_is_array(value) && json_array_size(value) == 0) &&
           !(json_is_object(value) && json_object_size(value) == 0);
}

/* Kinds of beginnings that leave the base model as it is. The others (pissa, olora, loftq, corda, lora_ga) take a part
 * out of the base's weights, and peft takes it out again when it loads the adapter: the file's base is another one. */
static bool begins_plainly(const json_t *init)
{
    static const char *const plain[] = {"gaussian", "eva", "orthogonal"};
    const char *word = json_string_value(init);

    if (word == NULL) {
        return true;
    }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(word, plain[i]) == 0) {
            return true;
        }
    }
    return false;
}

static enum vc_status find_refusal(struct vc_ctx *ctx, const json_t *root, struct vc_arena *arena,
                                   struct vc_adapter *out)
{
    const char *kind = json_string_value(json_object_get(root, "peft_type"));
    const json_t *init = json_object_get(root, "init_lora_weights");

    if (kind == NULL || strcmp(kind, "LORA") != 0) {
        out->refusal = vc_arena_printf(ctx, arena, "is an adapter of the kind %.60s, and only LORA is merged",
                                       kind != NULL ? kind : "that its " VC_HF_ADAPTER_NAME " does not name");
        return out->refusal != NULL ? VC_OK : VC_E_NOMEM;
    }
    if (!begins_plainly(init)) {
        out->refusal =
            vc_arena_printf(ctx, arena,
                            "was begun by %.60s, which takes a part out of the base's weights; save it with peft's "
                            "path_initial_model_for_weight_conversion, as an adapter of the model itself",
                            json_string_value(init));
        return out->refusal != NULL ? VC_OK : VC_E_NOMEM;
    }
    for (size_t i = 0; out->refusal == NULL && i < sizeof others / sizeof others[0]; i++) {
        out->refusal = is_set(json_object_get(root, others[i].key)) ? others[i].refusal : NULL;
    }
    return VC_OK;
}

/* ---- what it says ---- */

static enum vc_status take_patterns(struct vc_ctx *ctx, json_t *object, struct vc_arena *arena, struct vc_adapter *out)
{
    size_t n = json_object_size(object);
    struct vc_adapter_pattern *patterns = vc_arena_alloc(ctx, arena, (n + 1) * sizeof *patterns);
    const char *key;
    json_t *value;

    VC_CALL_ALLOC(patterns);
    out->patterns = patterns;
    json_object_foreach(object, key, value)
    {
        patterns->pattern = vc_arena_copy(ctx, arena, key, strlen(key));
        patterns->alpha = json_number_value(value);
        VC_CALL_ALLOC(patterns->pattern);
        VC_REFUSE_IF(!json_is_number(value), ctx, VC_E_FORMAT,
                     VC_HF_ADAPTER_NAME ": alpha_pattern: %.60s has no number", key);
        patterns++;
        out->n_patterns++;
    }
    return VC_OK;
}

static enum vc_status take(struct vc_ctx *ctx, const json_t *root, struct vc_arena *arena, struct vc_adapter *out)
{
    const json_t *alpha = json_object_get(root, "lora_alpha");
    const char *base = json_string_value(json_object_get(root, "base_model_name_or_path"));

    out->there = true;
    VC_CALL(find_refusal(ctx, root, arena, out));
    VC_REFUSE_IF(out->refusal == NULL && !json_is_number(alpha), ctx, VC_E_FORMAT,
                 VC_HF_ADAPTER_NAME ": lora_alpha is no number");
    out->alpha = json_number_value(alpha);
    out->root = json_is_true(json_object_get(root, "use_rslora"));
    out->transposed = json_is_true(json_object_get(root, "fan_in_fan_out"));
    if (base != NULL && base[0] != '\0') {
        out->base = vc_arena_copy(ctx, arena, base, strlen(base));
        VC_CALL_ALLOC(out->base);
    }
    return take_patterns(ctx, json_object_get(root, "alpha_pattern"), arena, out);
}

/* A folder, or a file with PEFT's name: single files of other trainers may lie beside somebody's configuration. */
static bool is_of_peft(const struct vc_model *model, const char *place)
{
    const char *slash = strrchr(place, '/');

    return model->folder != NULL ||
           strncmp(slash != NULL ? slash + 1 : place, "adapter_model.", strlen("adapter_model.")) == 0;
}

enum vc_status vc_hf_adapter_beside(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                    struct vc_adapter *out)
{
    const char *place = model->folder != NULL ? vc_infolder_path(model->folder) : model->path;
    struct vc_infile *file = NULL;
    struct hf_json json = {0};
    char *folder = NULL;
    char *path = NULL;
    char *text = NULL;
    size_t n = 0;
    bool there = false;
    enum vc_status status = VC_OK;

    *out = (struct vc_adapter){0};
    if (vc_is_stream(place) || !is_of_peft(model, place)) {
        return VC_OK;
    }
    folder = vc_hf_path_beside(ctx, place, ".");
    path = vc_hf_path_beside(ctx, place, VC_HF_ADAPTER_NAME);
    VC_TRY_ALLOC(path);
    VC_TRY_ALLOC(folder);
    VC_TRY(vc_side_check(ctx, folder, VC_HF_ADAPTER_NAME, &there));
    if (!there) {
        goto out;
    }
    VC_TRY(vc_infile_open(ctx, path, &file));
    if (file->size_bytes > VC_HF_CONFIG_MAX_BYTES) {
        VC_TRY(vc_fail(ctx, VC_E_FORMAT, VC_HF_ADAPTER_NAME ": is too large: %llu bytes",
                       (unsigned long long)file->size_bytes));
    }
    n = (size_t)file->size_bytes;
    text = vc_alloc(ctx, VC_TAG_IO, n + 1);
    VC_TRY_ALLOC(text);
    VC_TRY(vc_infile_read(ctx, file, 0, text, n));
    status = vc_hf_json_load(ctx, text, n, true, &json);
    if (status != VC_OK) {
        status = vc_context(ctx, VC_HF_ADAPTER_NAME);
        goto out;
    }
    if (!json_is_object(json.root)) {
        VC_TRY(vc_fail(ctx, VC_E_FORMAT, VC_HF_ADAPTER_NAME ": is no JSON object"));
    }
    VC_TRY(take(ctx, json.root, arena, out));
out:
    vc_hf_json_free(ctx, &json);
    vc_infile_close(ctx, file);
    vc_free(ctx, text);
    vc_free(ctx, path);
    vc_free(ctx, folder);
    return status;
}
