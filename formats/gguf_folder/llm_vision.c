/* llm_vision.c - the vision tower of a model, as the file that llama.cpp loads beside the model for text ("--mmproj"):
 * sizes, checks and metadata by the rows of arch/arch_vision.c; tensors are planned by llm_tensors.c like any others.
 *
 *     "vision_config": {"num_hidden_layers": 27}           clip.vision.block_count u32 27
 *     preprocessor_config.json: "image_mean": [...]        clip.vision.image_mean f32[3]
 *
 * What llama.cpp's clip.cpp knows by heart, and a configuration may say otherwise, is refused. */
#include <math.h>

#include "formats/gguf_folder/vocab.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/infolder.h"

/* A number of the vision tower; else of its class. */
static uint64_t count(const struct llm_config *vision, const char *names)
{
    return vc_llm_count(vision, names, (uint64_t)vc_llm_usual(vision, names, 0));
}

static double real(const struct llm_config *vision, const char *names)
{
    return vc_llm_real(vision, names, vc_llm_usual(vision, names, 0));
}

static enum vc_status refuse(struct vc_ctx *ctx, const char *key, const char *why)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: \"%s\" %s, which llama.cpp has not in its file for pictures",
                   VC_HF_CONFIG_NAME, key, why);
}

static bool is_llava(const struct llm_config *config)
{
    const char *type = json_string_value(json_object_get(config->root, "model_type"));

    return type != NULL && strcmp(type, "llava") == 0;
}

/* How many patches of a side become one: a key of the vision tower or of the whole model, or what others say. */
static uint64_t merge_of(const struct llm_config *vision, const struct llm_config *config,
                         const struct vc_arch_vision *row, const struct vc_arch_sizes *sizes)
{
    double tokens = sqrt(vc_llm_real(config, "mm_tokens_per_image", 256.0));

    if (strcmp(row->projector, "gemma3") == 0) {
        return tokens >= 1.0 ? (uint64_t)((double)(sizes->image / sizes->patch) / tokens) : 0;
    }
    if (strcmp(row->projector, "llama4") == 0) {
        return (uint64_t)(1.0 / fmax(real(vision, "pixel_shuffle_ratio"), 1e-3));
    }
    if (strcmp(row->projector, "gemma4v") == 0) {
        return count(vision, "pooling_kernel_size");
    }
    if (vc_is_one_of(row->projector, "idefics3|lfm2")) {
        return vc_llm_count(config, "scale_factor|downsample_factor", 2);
    }
    if (strcmp(row->projector, "internvl") == 0) {
        return (uint64_t)(1.0 / fmax(vc_llm_real(config, "downsample_ratio", 0.5), 1e-3));
    }
    return strcmp(row->projector, "pixtral") == 0 ? vc_llm_count(config, "spatial_merge_size", is_llava(config) ? 1 : 2)
                                                  : count(vision, "spatial_merge_size");
}

static enum vc_status read_sizes(struct vc_ctx *ctx, const struct llm_config *vision, const struct llm_config *config,
                                 const struct vc_arch_vision *row, struct vc_arch_sizes *out)
{
    bool qwen2 = strcmp(row->projector, "qwen2vl_merger") == 0; /* its "hidden_size" is that of the text */
    uint64_t side;

    *out = (struct vc_arch_sizes){
        .hidden = count(vision, qwen2 ? "embed_dim" : "hidden_size"),
        .layers = count(vision, "num_hidden_layers|depth"),
        .heads = count(vision, "num_attention_heads|num_heads"),
        .feed_forward = count(vision, "intermediate_size"),
        .image = count(vision, "image_size"),
        .patch = count(vision, "patch_size"),
        .context = count(vision, "num_position_embeddings|num_patches|position_embedding_size"),
        .types = 2,
        .adapter = strcmp(row->projector, "lfm2") == 0 ? vc_llm_count(config, "projector_hidden_size", 2560)
                                                       : count(vision, "vision_output_dim"),
        .text = vc_llm_count(config, "hidden_size", 0),
        .step = 1};
    VC_CALL(vc_llm_config_check(ctx, vision));
    out->feed_forward = qwen2 ? out->hidden * count(vision, "mlp_ratio") : out->feed_forward;
    VC_REFUSE_IF(out->hidden - 1 >= UINT16_MAX || out->layers - 1 >= UINT16_MAX || out->heads - 1 >= UINT16_MAX ||
                     out->patch - 1 >= INT16_MAX || out->image > INT32_MAX || out->context > INT32_MAX ||
                     out->feed_forward - 1 >= INT32_MAX || out->adapter > INT32_MAX || out->text - 1 >= INT32_MAX ||
                     out->hidden % out->heads != 0,
                 ctx, VC_E_FORMAT,
                 "%s: \"vision_config\" has sizes that are none, or heads that do not divide the rest",
                 VC_HF_CONFIG_NAME);
    out->key_heads = out->heads;
    out->head_size = out->hidden / out->heads;
    if (out->context != 0 && strcmp(row->projector, "gemma4v") != 0) { /* Qwen 3 has the table alone */
        side = (uint64_t)sqrt((double)out->context);
        VC_RETURN_IF(side * side != out->context, refuse(ctx, "num_position_embeddings", "is no square"));
        out->image = side * out->patch;
    } else if (out->context == 0) {
        side = out->image / out->patch;
        out->context = side * side + (unsigned)vc_is_one_of(row->projector, "llama4|internvl");
    }
    out->merge = merge_of(vision, config, row, out);
    VC_RETURN_IF(out->merge == 0 || out->merge > out->patch * 64, refuse(ctx, "vision_config", "joins no patches"));
    return VC_OK;
}

/* Layers with attention to the whole picture come in a period; the others look at squares of 112 pixels. */
static enum vc_status find_period(struct vc_ctx *ctx, const struct llm_config *vision, uint64_t *out)
{
    const json_t *full = vc_llm_find(vision, "fullatt_block_indexes");
    json_int_t first = full != NULL ? json_integer_value(json_array_get(full, 0)) : 7;
    json_int_t period = first >= 0 && first < UINT16_MAX ? first + 1 : 0;

    for (size_t i = 0; i < json_array_size(full); i++) {
        period = json_integer_value(json_array_get(full, i)) == (json_int_t)(i + 1) * period - 1 ? period : 0;
    }
    *out = (uint64_t)period;
    return period <= 0 || count(vision, "window_size") != 112
               ? refuse(ctx, "fullatt_block_indexes", "has no period, or \"window_size\" is not 112")
               : VC_OK;
}

/* llama.cpp takes what the last layer makes, rotates with a base of 10000, and multiplies heads of the usual size. */
static enum vc_status check(struct vc_ctx *ctx, const struct llm_config *vision, const struct llm_config *config,
                            const struct vc_arch_vision *row, const struct vc_arch_sizes *sizes)
{
    const char *activation = vc_llm_word(vision, "hidden_act|hidden_activation", NULL);
    const double theta = strcmp(row->projector, "gemma4v") == 0 ? 100.0 : 10000.0;
    const json_t *feature = vc_llm_find(config, "vision_feature_layer|select_layer");
    bool large = sizes->hidden == 3200 && sizes->layers == 45; /* InternViT-6B, whose norms have no mean */
    const json_t *rope = vc_llm_find(vision, "rope_parameters");

    VC_REFUSE_IF(activation != NULL && !vc_is_one_of(activation, row->family.activation), ctx, VC_E_UNSUPPORTED,
                 "%s: the activation of \"vision_config\" is '%s', expected '%.*s'", VC_HF_CONFIG_NAME, activation,
                 (int)strcspn(row->family.activation, "|"), row->family.activation);
    if (vc_llm_count(vision, "head_dim", sizes->head_size) != sizes->head_size) {
        return refuse(ctx, "head_dim", "times the heads is not the hidden size");
    }
    if ((feature != NULL || is_llava(config)) && json_integer_value(feature) != -1) { /* -2 where LLaVA says none */
        return refuse(ctx, "vision_feature_layer", "is not -1");
    }
    if (vc_llm_real_of(vision, rope, "rope_theta", vc_llm_real(vision, "rope_theta", theta)) != theta) {
        return refuse(ctx, "rope_theta", theta == 100.0 ? "is not 100" : "is not 10000");
    }
    if (strcmp(row->projector, "internvl") == 0 &&
        (strcmp(vc_llm_word(config, "ps_version", "v2"), "v2") != 0 ||
         (strcmp(vc_llm_word(vision, "norm_type", large ? "rms_norm" : "layer_norm"), "rms_norm") == 0) != large)) {
        return refuse(ctx, "norm_type",
                      "is not \"rms_norm\" in the model of 45 layers alone, or \"ps_version\" not \"v2\"");
    }
    if (strcmp(row->projector, "llama4") == 0 && (count(vision, "projector_input_dim") != sizes->adapter ||
                                                  count(vision, "projector_output_dim") != sizes->adapter)) {
        return refuse(ctx, "vision_output_dim", "is not \"projector_input_dim\" and \"projector_output_dim\"");
    }
    return vc_llm_config_check(ctx, vision);
}

/* Whether these are three numbers; of deviations, which are divided by, above 0. */
static bool are_colours(const json_t *list, bool deviations)
{
    bool good = json_array_size(list) == 3;

    for (size_t k = 0; good && k < 3; k++) {
        const json_t *number = json_array_get(list, k);

        good = json_is_number(number) && (!deviations || json_number_value(number) > 0);
    }
    return good;
}

/* What pictures are made of: each colour minus its mean, over its deviation. processor_config.json has it under
 * "image_processor". */
static enum vc_status put_colours(struct vc_ctx *ctx, const char *folder, const struct vc_arch_vision *row,
                                  uint64_t image, struct llm_pairs *pairs)
{
    static const char *const names[] = {"image_mean", "image_std"};
    struct hf_json files[2] = {{.root = NULL}, {.root = NULL}};
    enum vc_status status;

    VC_TRY(vc_hf_json_beside(ctx, folder, "processor_config.json", &files[0]));
    VC_TRY(vc_hf_json_beside(ctx, folder, "preprocessor_config.json", &files[1]));
    const json_t *inner = json_object_get(files[0].root, "image_processor");
    const json_t *from = json_object_get(inner, "image_mean") != NULL ? inner : files[1].root;
    for (size_t i = 0; i < 2; i++) {
        const json_t *list = json_object_get(from, names[i]);

        if (!are_colours(list, i == 1)) {
            VC_TRY(vc_fail(ctx, VC_E_UNSUPPORTED,
                           "preprocessor_config.json: there is no \"%s\" with three numbers%s, which llama.cpp needs",
                           names[i], i == 1 ? " above 0" : ""));
        }
        vc_llm_put_array(pairs, i == 0 ? ".vision.image_mean" : ".vision.image_std", GGUF_F32, 3);
        for (size_t k = 0; k < 3; k++) {
            vc_llm_element_f32(pairs, (float)json_number_value(json_array_get(list, k)));
        }
    }
    /* Pictures are cut into squares, after they were brought to this size. */
    if (strcmp(row->projector, "idefics3") == 0) {
        const json_t *edge = json_object_get(json_object_get(from, "size"), "longest_edge");

        vc_llm_put_u32(pairs, ".vision.preproc_image_size",
                       json_integer_value(edge) > 0 ? (uint64_t)json_integer_value(edge) : image);
    }
out:
    vc_hf_json_free(&files[0]);
    vc_hf_json_free(&files[1]);
    return status;
}

static enum vc_status put_keys(struct vc_ctx *ctx, const struct llm_config *vision, const struct llm_config *config,
                               const struct vc_arch_vision *row, const struct vc_arch_sizes *sizes, const char *folder,
                               struct llm_pairs *pairs)
{
    const char *activation = vc_llm_word(vision, "hidden_act|hidden_activation", row->family.activation);
    const json_t *seen = vc_llm_find(vision, "deepstack_visual_indexes");
    uint64_t period;

    vc_llm_put_bool(pairs, ".has_vision_encoder", true);
    vc_llm_put_text(pairs, strcmp(row->projector, "gemma4v") == 0 ? ".vision.projector_type" : ".projector_type",
                    row->projector);
    vc_llm_put_u32(pairs, ".vision.projection_dim", sizes->text);
    vc_llm_put_u32(pairs, ".vision.image_size", sizes->image);
    vc_llm_put_u32(pairs, ".vision.patch_size", sizes->patch);
    vc_llm_put_u32(pairs, ".vision.embedding_length", sizes->hidden);
    vc_llm_put_u32(pairs, ".vision.feed_forward_length", sizes->feed_forward);
    vc_llm_put_u32(pairs, ".vision.block_count", sizes->layers);
    vc_llm_put_u32(pairs, ".vision.attention.head_count", sizes->heads);
    VC_CALL(vc_llm_epsilon_check(ctx, vision, "layer_norm_eps|rms_norm_eps"));
    vc_llm_put_f32(pairs, ".vision.attention.layer_norm_epsilon", real(vision, "layer_norm_eps|rms_norm_eps"));
    if (sizes->merge != row->merge) {
        vc_llm_put_u32(pairs, row->merge_key, sizes->merge);
    }
    if (strncmp(activation, "gelu", 4) == 0 || strncmp(activation, "silu", 4) == 0) { /* else "quick_gelu" */
        vc_llm_put_bool(pairs, activation[0] == 'g' ? ".use_gelu" : ".use_silu", true);
    }
    for (size_t i = 0; i < 2 && strcmp(row->projector, "internvl") == 0; i++) { /* parts that a picture is cut into */
        static const char *const names[][2] = {{"min_dynamic_patch", ".vision.preproc_min_tiles"},
                                               {"max_dynamic_patch", ".vision.preproc_max_tiles"}};
        uint64_t n = vc_llm_count(config, names[i][0], 0);

        if (n != 0) {
            vc_llm_put_u32(pairs, names[i][1], n);
        }
    }
    if (strcmp(row->projector, "qwen2.5vl_merger") == 0) {
        VC_CALL(find_period(ctx, vision, &period));
        vc_llm_put_u32(pairs, ".vision.n_wa_pattern", period);
    }
    if (strcmp(row->projector, "qwen3vl_merger") == 0) {
        vc_llm_put_array(pairs, ".vision.is_deepstack_layers", GGUF_BOOL, sizes->layers);
        for (uint64_t i = 0; i < sizes->layers; i++) {
            size_t k = 0;

            while (k < json_array_size(seen) && vc_llm_deepstack(vision, k) != (int64_t)i) {
                k++;
            }
            vc_llm_element_u8(pairs, k < json_array_size(seen));
        }
    }
    return put_colours(ctx, folder, row, sizes->image, pairs);
}

/* Tensors that only some models have: those of Qwen 3's layers in between, and of Mistral's joined patches. */
static enum vc_status check_there(struct vc_ctx *ctx, const struct llm_config *vision, const struct vc_arch_vision *row,
                                  const struct vc_arch_sizes *sizes, const struct llm_plan *plan)
{
    size_t layers = json_array_size(vc_llm_find(vision, "deepstack_visual_indexes"));
    uint64_t bounds = vc_llm_flag(vision, "use_clipped_linears", false) ? 28 * sizes->layers : 0;
    size_t deep = 0;
    size_t joined = 0;
    size_t bounded = 0;
    bool large = sizes->hidden == 3200; /* InternViT-6B: llama.cpp norms queries there as transformers does */

    for (size_t i = 0; i < plan->n; i++) {
        deep += strncmp(plan->tensors[i].name, "v.deepstack.", 12) == 0;
        VC_REFUSE_IF(!large && strcmp(row->projector, "internvl") == 0 &&
                         vc_ends_in(plan->tensors[i].name, "attn_q_norm.weight"),
                     ctx, VC_E_UNSUPPORTED, "'%s': llama.cpp takes the mean from queries in such a model",
                     plan->tensors[i].name);
        bounded += vc_ends_in(plan->tensors[i].name, "put_max") || vc_ends_in(plan->tensors[i].name, "put_min");
        joined += vc_is_one_of(plan->tensors[i].name, "mm.input_norm.weight|mm.patch_merger.weight");
    }
    VC_REFUSE_IF(deep != 6 * layers, ctx, VC_E_UNSUPPORTED,
                 "%zu tensors are of the layers of \"deepstack_visual_indexes\", expected %zu", deep, 6 * layers);
    VC_REFUSE_IF(bounded != bounds, ctx, VC_E_UNSUPPORTED,
                 "%zu tensors are bounds of inputs and outputs, expected %llu by \"use_clipped_linears\"", bounded,
                 (unsigned long long)bounds);
    VC_REFUSE_IF(strcmp(row->projector, "pixtral") == 0 && joined != (sizes->merge > 1 ? 2U : 0U), ctx,
                 VC_E_UNSUPPORTED, "%zu tensors join patches, expected %d by \"spatial_merge_size\"", joined,
                 sizes->merge > 1 ? 2 : 0);
    return VC_OK;
}

/* Pixtral ends each row of a picture with the embedding of a token, which llama.cpp has as a tensor of its own. */
static enum vc_status add_break(struct vc_ctx *ctx, const struct vc_model *source, const char *folder,
                                const struct vc_arch_sizes *sizes, struct llm_plan *plan)
{
    VC_SCOPED_JSON struct hf_json tokenizer = {0};
    struct llm_piece *piece = vc_arena_alloc(ctx, plan->arena, sizeof *piece);
    struct llm_tensor t = {.name = "v.token_embd.img_break",
                           .layer = -1,
                           .dtype = VC_DTYPE_F32,
                           .n_dims = 1,
                           .shape = {sizes->text},
                           .row_elems = 1,
                           .piece_rows = sizes->text,
                           .step = 1,
                           .scale = 1.0F,
                           .n_pieces = 1,
                           .pieces = piece};
    json_int_t id = -1;

    VC_CALL(vc_hf_json_beside(ctx, folder, "tokenizer.json", &tokenizer));
    VC_CALL_ALLOC(piece);
    const json_t *list = json_object_get(tokenizer.root, "added_tokens");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_object_get(json_array_get(list, i), "content"));

        if (text != NULL && strcmp(text, "[IMG_BREAK]") == 0) {
            id = json_integer_value(json_object_get(json_array_get(list, i), "id"));
        }
    }
    piece->source = VC_NO_TENSOR;
    for (size_t i = 0; i < source->n_tensors; i++) {
        const struct vc_tensor *embedding = &source->tensors[i];

        if (vc_ends_in(embedding->name, "embed_tokens.weight") && embedding->n_dims == 2 && id >= 0 &&
            (uint64_t)id < embedding->shape[0] && embedding->shape[1] == sizes->text && embedding->quant == NULL &&
            (embedding->dtype == VC_DTYPE_F32 || embedding->dtype == VC_DTYPE_F16 ||
             embedding->dtype == VC_DTYPE_BF16)) {
            t.from = embedding->dtype;
            *piece = (struct llm_piece){.source = i, .first = (uint64_t)id * sizes->text};
        }
    }
    VC_REFUSE_IF(piece->source == VC_NO_TENSOR || plan->n == plan->capacity, ctx, VC_E_UNSUPPORTED,
                 "tokenizer.json: there is no added token \"[IMG_BREAK]\" with a row of floats in "
                 "'embed_tokens.weight', which ends each row of a picture");
    plan->tensors[plan->n++] = t;
    return VC_OK;
}

enum vc_status vc_llm_vision_make(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_model *source,
                                  struct vc_model *model, struct llm_plan *plan, struct llm_pairs *pairs)
{
    const char *folder = vc_infolder_path(source->folder);
    const char *type = json_string_value(json_object_get(config->root, "model_type"));
    json_t *part = json_object_get(config->root, "vision_config");
    const char *tower = json_string_value(json_object_get(part, "model_type"));
    const struct vc_arch_vision *row = vc_arch_vision(type, tower);
    struct vc_arch_sizes sizes;
    VC_SCOPED_TEXT struct vc_text known = {.ctx = ctx};

    if (row == NULL || !json_is_object(part)) {
        for (size_t i = 0; vc_arch_vision_at(i) != NULL; i++) {
            vc_text_add(&known, "%s%s", i == 0 ? "" : ", ", vc_arch_vision_at(i)->family.types);
        }
        VC_CALL(known.status);
        VC_CALL(vc_fail(ctx, VC_E_UNSUPPORTED, "%s: of a '%s'%s%s no file for pictures is made (there is one of %s)",
                        VC_HF_CONFIG_NAME, type != NULL ? type : "",
                        tower != NULL ? " with a vision tower " : " without \"vision_config\"",
                        tower != NULL ? tower : "", known.data));
    }
    const struct llm_config vision = {
        .root = part, .part = part, .model_type = row->defaults.type, .arch = &row->defaults, .wrong = config->wrong};
    pairs->architecture = row->family.gguf;
    VC_CALL(read_sizes(ctx, &vision, config, row, &sizes));
    VC_CALL(check(ctx, &vision, config, row, &sizes));
    VC_CALL(vc_llm_tensors_plan(ctx, source, &vision, &row->family, &sizes, false, model, plan));
    VC_CALL(check_there(ctx, &vision, row, &sizes, plan));
    if (strcmp(row->projector, "pixtral") == 0) {
        VC_CALL(add_break(ctx, source, folder, &sizes, plan));
    }
    vc_llm_general_put(config, row->family.gguf, "mmproj", plan, pairs);
    VC_CALL(put_keys(ctx, &vision, config, row, &sizes, folder, pairs));
    return vc_llm_config_check(ctx, &vision); /* of what keys are made of, too */
}
