/* hf_adapter.c - see hf_adapter.h. Keys are those of peft's LoraConfig (0.21).
 *
 *     {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": false, "alpha_pattern": {"q_proj": 32}}
 *
 * A delta is B x A x alpha / r, with rslora alpha / sqrt(r); r is the rows of A, which the tensors have. So of this
 * file alpha, its patterns, rslora, fan_in_fan_out, target_parameters and trainable_token_indices count (struct
 * vc_adapter). */
#include "formats/huggingface/hf_adapter.h"

#include "core/base/array.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/infolder.h"

/* ---- what cannot be merged ---- */

/* Keys that, where they are set, make something else of the weights than a sum of two factors. */
static const struct {
    const char *key, *refusal;
} others[] = {
    {"layer_replication", "was made for a model with replicated layers (layer_replication)"},
    {"kasa_config", "is one of KaSA, which takes singular values out of the model's weights (kasa_config)"},
    {"arrow_config", "is a router between adapters (arrow_config), so it is no change of the weights"},
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
 * out of the base's weights, and peft takes it out again when it loads the adapter: the file's base is another one.
 * true and false, and null, are no words: they begin plainly, too. */
static bool begins_plainly(const json_t *init)
{
    static const char *const plain[] = {"gaussian", "eva", "orthogonal", "mica"};
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

/* Sets out->refusal, the sentence why the adapter cannot be merged, once: of several configurations the first reason
 * stays. A part of a pipeline need not say its peft_type. */
static enum vc_status find_refusal(struct vc_ctx *ctx, const json_t *root, const char *part, struct vc_arena *arena,
                                   struct vc_adapter *out)
{
    const char *kind = json_string_value(json_object_get(root, "peft_type"));
    const json_t *init = json_object_get(root, "init_lora_weights");

    if (out->refusal != NULL) {
        return VC_OK;
    }
    if (kind == NULL ? part == NULL : strcmp(kind, "LORA") != 0) {
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

/* Appends a pattern for modules that have an alpha of their own. `pattern` NULL: memory was short when it was made. */
static enum vc_status add_pattern(struct vc_ctx *ctx, struct vc_arena *arena, const char *pattern, double alpha,
                                  bool root, size_t *capacity, struct vc_adapter_pattern **list, struct vc_adapter *out)
{
    VC_CALL_ALLOC(pattern);
    VC_CALL(VC_ARENA_GROW(ctx, arena, *list, *capacity, out->n_patterns + 1));
    (*list)[out->n_patterns++] = (struct vc_adapter_pattern){pattern, alpha, root};
    out->patterns = *list;
    return VC_OK;
}

/* ["mlp.experts.down_proj"] */
static enum vc_status take_parameters(struct vc_ctx *ctx, const json_t *list, struct vc_arena *arena,
                                      struct vc_adapter *out)
{
    size_t n = json_array_size(list);

    VC_CALL_ALLOC(out->parameters = vc_arena_alloc(ctx, arena, (n + 1) * sizeof(char *)));
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(list, i));

        VC_REFUSE_IF(name == NULL, ctx, VC_E_FORMAT, "target_parameters: %zu is no name", i);
        VC_CALL_ALLOC(out->parameters[out->n_parameters++] = vc_arena_copy(ctx, arena, name, strlen(name)));
    }
    return VC_OK;
}

/* [3, 90], or {"embed_tokens": [3, 90]}. */
static enum vc_status take_tokens(struct vc_ctx *ctx, json_t *said, struct vc_arena *arena, struct vc_adapter *out)
{
    json_t *all = json_is_array(said) ? json_pack("{sO}", "", said) : json_incref(said);
    const char *key;
    json_t *list;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(out->tokens = vc_arena_alloc(ctx, arena, (json_object_size(all) + 1) * sizeof *out->tokens));
    json_object_foreach(all, key, list)
    {
        struct vc_adapter_rows *to = &out->tokens[out->n_tokens++];
        uint64_t *rows = vc_arena_alloc(ctx, arena, (json_array_size(list) + 1) * sizeof *rows);

        *to = (struct vc_adapter_rows){NULL, json_array_size(list), rows};
        VC_TRY_ALLOC(rows);
        if (key[0] != '\0') {
            VC_TRY_ALLOC(to->module = vc_arena_copy(ctx, arena, key, strlen(key)));
        }
        for (size_t i = 0; i < to->n; i++) {
            json_int_t row = json_integer_value(json_array_get(list, i));

            if (!json_is_integer(json_array_get(list, i)) || row < 0) {
                VC_TRY(vc_fail(ctx, VC_E_FORMAT, "trainable_token_indices: %zu is no row", i));
            }
            rows[i] = (uint64_t)row;
        }
    }
out:
    json_decref(all);
    return status;
}

/* One configuration. part: that of a model of a pipeline ("unet"), whose modules' names begin so; NULL: of all. What it
 * says of all its modules is then a pattern, too, behind its own. A module takes the first pattern that fits, so the
 * pattern for all modules of the part comes last. */
static enum vc_status take(struct vc_ctx *ctx, const json_t *config, const char *part, struct vc_arena *arena,
                           size_t *capacity, struct vc_adapter_pattern **list, struct vc_adapter *out)
{
    const json_t *alpha = json_object_get(config, "lora_alpha");
    bool root = json_is_true(json_object_get(config, "use_rslora"));
    const char *key;
    json_t *value;

    VC_CALL(find_refusal(ctx, config, part, arena, out));
    VC_REFUSE_IF(out->refusal == NULL && !json_is_number(alpha), ctx, VC_E_FORMAT, "lora_alpha is no number");
    json_object_foreach(json_object_get(config, "alpha_pattern"), key, value)
    {
        VC_REFUSE_IF(!json_is_number(value), ctx, VC_E_FORMAT, "alpha_pattern: %.60s has no number", key);
        VC_CALL(add_pattern(ctx, arena,
                            part != NULL ? vc_arena_printf(ctx, arena, "%s\\.(.*\\.)?(%s)", part, key)
                                         : vc_arena_copy(ctx, arena, key, strlen(key)),
                            json_number_value(value), root, capacity, list, out));
    }
    if (part != NULL) {
        return add_pattern(ctx, arena, vc_arena_printf(ctx, arena, "%s\\..*", part), json_number_value(alpha), root,
                           capacity, list, out);
    }
    out->there = true;
    out->alpha = json_number_value(alpha);
    out->root = root;
    out->transposed = json_is_true(json_object_get(config, "fan_in_fan_out"));
    VC_CALL(take_parameters(ctx, json_object_get(config, "target_parameters"), arena, out));
    return take_tokens(ctx, json_object_get(config, "trainable_token_indices"), arena, out);
}

/* The model that the adapter was trained on, for a report; NULL where the file does not say it. */
static enum vc_status take_base(struct vc_ctx *ctx, const json_t *config, struct vc_arena *arena,
                                struct vc_adapter *out)
{
    const char *base = json_string_value(json_object_get(config, "base_model_name_or_path"));

    out->base = base != NULL && base[0] != '\0' ? vc_arena_copy(ctx, arena, base, strlen(base)) : NULL;
    return base == NULL || base[0] == '\0' || out->base != NULL ? VC_OK : VC_E_NOMEM;
}

/* {"unet.lora_alpha": 8, "unet.r": 4, ...}: a configuration for each first word. A key without a point is of no part,
 * and is left out (part ""). */
static enum vc_status take_parts(struct vc_ctx *ctx, json_t *root, struct vc_arena *arena, struct vc_adapter *out)
{
    json_t *parts = json_object();
    struct vc_adapter_pattern *list = NULL;
    size_t capacity = 0;
    const char *key;
    json_t *value;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(parts);
    json_object_foreach(root, key, value)
    {
        const char *dot = strchr(key, '.');
        const char *part = dot != NULL ? vc_arena_copy(ctx, arena, key, (size_t)(dot - key)) : "";

        VC_TRY_ALLOC(part);
        json_t *config = json_object_get(parts, part);
        if (config == NULL) {
            config = json_object();
            if (json_object_set_new(parts, part, config) != 0) {
                status = VC_E_NOMEM;
                goto out;
            }
        }
        if (json_object_set(config, dot != NULL ? dot + 1 : key, value) != 0) {
            status = VC_E_NOMEM;
            goto out;
        }
    }
    json_object_foreach(parts, key, value)
    {
        if (key[0] != '\0') {
            VC_TRY(take(ctx, value, vc_arena_copy(ctx, arena, key, strlen(key)), arena, &capacity, &list, out));
        }
    }
out:
    json_decref(parts);
    return status;
}

/* A folder, or a file with PEFT's name: single files of other trainers may lie beside somebody's configuration. A file
 * of another trainer has its alphas as tensors. */
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
    const char *note = model->adapter_note;
    VC_SCOPED char *folder = NULL;
    VC_SCOPED_JSON struct hf_json json = {0};
    struct vc_adapter_pattern *list = NULL;
    size_t capacity = 0;
    enum vc_status status = VC_OK;

    *out = (struct vc_adapter){0};
    if (note != NULL) { /* diffusers' */
        VC_TRY(vc_hf_json_load(ctx, note, strlen(note), true, &json));
    } else if (!vc_is_stream(place) && is_of_peft(model, place)) {
        VC_CALL_ALLOC(folder = vc_hf_path_beside(ctx, place, "."));
        VC_CALL(vc_hf_json_beside(ctx, folder, VC_HF_ADAPTER_NAME, &json));
    }
    if (json.root != NULL && !json_is_object(json.root)) {
        VC_TRY(vc_fail(ctx, VC_E_FORMAT, "is no JSON object"));
    }
    if (note != NULL) {
        VC_TRY(take_parts(ctx, json.root, arena, out));
    } else if (json.root != NULL) {
        VC_TRY(take(ctx, json.root, NULL, arena, &capacity, &list, out));
        VC_TRY(take_base(ctx, json.root, arena, out));
    }
out:
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", note != NULL ? VC_HF_ADAPTER_NOTE : VC_HF_ADAPTER_NAME);
}
