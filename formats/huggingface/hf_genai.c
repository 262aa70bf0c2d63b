/* hf_genai.c - see hf_genai.h.
 *
 *     {"model": {"type": "decoder", "vocab_size": 151936, "context_length": 40960, "eos_token_id": [151645, 151643],
 *                "decoder": {"filename": "model.onnx", "num_hidden_layers": 28, ..., "inputs": {...}, "outputs": {...}}},
 *      "search": {"max_length": 40960, "past_present_share_buffer": false, ...}}
 *
 * The type "decoder" is any model with these inputs and outputs; onnxruntime-genai's names of families add nothing to it. */
#include "formats/huggingface/hf_genai.h"

#include "arch/arch_config.h"
#include "core/text/json_write.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_json.h"

#define USUAL_LENGTH 2048 /* where config.json says none */

/* A number of a token, or a list of such, of the first file that has it; else nothing is written. */
static void put_token(struct vc_json *json, const char *key, const json_t *first, const json_t *second)
{
    const json_t *value = json_object_get(first, key);

    value = value == NULL || json_is_null(value) ? json_object_get(second, key) : value;
    if (json_is_integer(value)) {
        vc_json_int(json, key, json_integer_value(value));
    } else if (json_is_array(value)) {
        vc_json_begin(json, key, '[', true);
        for (size_t k = 0; k < json_array_size(value); k++) {
            vc_json_int(json, NULL, json_integer_value(json_array_get(value, k)));
        }
        vc_json_end(json, ']');
    }
}

static void put_names(struct vc_json *json)
{
    vc_json_begin(json, "inputs", '{', false);
    vc_json_string(json, "input_ids", "input_ids");
    vc_json_string(json, "attention_mask", "attention_mask");
    vc_json_string(json, "position_ids", "position_ids");
    vc_json_string(json, "past_key_names", "past_key_values.%d.key");
    vc_json_string(json, "past_value_names", "past_key_values.%d.value");
    vc_json_end(json, '}');
    vc_json_begin(json, "outputs", '{', false);
    vc_json_string(json, "logits", "logits");
    vc_json_string(json, "present_key_names", "present.%d.key");
    vc_json_string(json, "present_value_names", "present.%d.value");
    vc_json_end(json, '}');
}

/* Keys and values grow by a Concat inside Attention: past and present are buffers of their own. */
static void put_search(struct vc_json *json, uint64_t length)
{
    vc_json_begin(json, "search", '{', false);
    vc_json_bool(json, "do_sample", false);
    vc_json_uint(json, "max_length", length);
    vc_json_uint(json, "min_length", 0);
    vc_json_uint(json, "num_beams", 1);
    vc_json_uint(json, "num_return_sequences", 1);
    vc_json_bool(json, "past_present_share_buffer", false);
    vc_json_real(json, "repetition_penalty", 1);
    vc_json_real(json, "temperature", 1);
    vc_json_uint(json, "top_k", 50);
    vc_json_real(json, "top_p", 1);
    vc_json_end(json, '}');
}

static void put_model(struct vc_json *json, const struct vc_hf_genai *sizes, const json_t *config,
                      const json_t *generation, uint64_t length)
{
    uint64_t hidden = vc_config_number(config, "hidden_size|n_embd");

    vc_json_begin(json, "model", '{', false);
    put_token(json, "bos_token_id", generation, config);
    vc_json_uint(json, "context_length", length);
    vc_json_begin(json, "decoder", '{', false);
    vc_json_begin(json, "session_options", '{', false);
    vc_json_string(json, "log_id", "onnxruntime-genai");
    vc_json_begin(json, "provider_options", '[', true);
    vc_json_end(json, ']');
    vc_json_end(json, '}');
    vc_json_string(json, "filename", sizes->file);
    vc_json_uint(json, "head_size", sizes->head_size);
    vc_json_uint(json, "hidden_size", hidden != 0 ? hidden : sizes->n_heads * sizes->head_size);
    put_names(json);
    vc_json_uint(json, "num_attention_heads", sizes->n_heads);
    vc_json_uint(json, "num_hidden_layers", sizes->n_layers);
    vc_json_uint(json, "num_key_value_heads", sizes->n_kv_heads);
    vc_json_end(json, '}');
    put_token(json, "eos_token_id", generation, config);
    put_token(json, "pad_token_id", generation, config);
    vc_json_string(json, "type", "decoder");
    vc_json_uint(json, "vocab_size", sizes->vocabulary);
    vc_json_end(json, '}');
}

enum vc_status vc_hf_genai_write(struct vc_ctx *ctx, const char *folder, const struct vc_hf_genai *sizes,
                                 struct vc_text *out)
{
    VC_SCOPED_JSON struct hf_json config = {0};
    VC_SCOPED_JSON struct hf_json generation = {0};
    struct vc_json json;

    VC_CALL(vc_hf_json_beside(ctx, folder, VC_HF_CONFIG_NAME, &config));
    VC_CALL(vc_hf_json_beside(ctx, folder, "generation_config.json", &generation));
    uint64_t length = vc_config_number(config.root, "max_position_embeddings|n_positions|n_ctx");
    vc_json_open(&json, out, ctx, '{', NULL);
    length = length != 0 ? length : USUAL_LENGTH;
    put_model(&json, sizes, config.root, generation.root, length);
    put_search(&json, length);
    vc_json_end(&json, '}');
    return out->status;
}
