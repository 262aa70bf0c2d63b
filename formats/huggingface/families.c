/* families.c - see families.h.
 *
 * Most rows are those of arch/arch_loads.inc, what scripts/loading.py has asked transformers: the names of tied weights,
 * the names it changes when it loads, and the weights that it initializes beside their layers. The others were seen with
 * transformers 5.24, compressed-tensors 0.20 and bitsandbytes 0.50 (tests/judge/kinds.py and loads.py try it again with
 * what is there). Types that were asked and are in no other row need nothing beyond the rules for all.
 *
 * A row adds to what other rows of the same type say: add_rows collects all that fit, in the order of the table. */
#include "formats/huggingface/families.h"

#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_json.h"

/* transformers gives the layers of these families first values before it loads them, and finds no weight there where it
 * is packed. As floats they are loaded as ever. */
#define AS_FLOATS \
    [VC_LOADS_COMPRESSED_TENSORS] = {.needs = "quantization_config=CompressedTensorsConfig(dequantize=True)"}

#define OWN_LAYERS "its layers are of a kind of their own, and bitsandbytes takes none of them"
#define CUTS       "transformers 5 cuts layers in pieces as it loads them, which it cannot do with codes"
#define STUCK                                                                                                          \
    "transformers 5 gives its layers first values, for which their weights have to be floats, and cannot decode them " \
    "beside buffers called weight"
#define NEVER(why) [VC_LOADS_COMPRESSED_TENSORS] = {.refused = why}, [VC_LOADS_BITSANDBYTES] = {.refused = why}

#define IN_FP32 "the loader wants f32 here"
/* KEEPS: weights that no loader of codes takes as codes. NEVER: neither loader takes the model. */
#define KEEPS(globs, reason)                                                                                          \
    [VC_LOADS_COMPRESSED_TENSORS] = {.keeps = (globs), .why = (reason)}, [VC_LOADS_BITSANDBYTES] = {.keeps = (globs), \
                                                                                                    .why = (reason)}

/* Facts of arch/arch_loads.inc. */
#define FACT_HEADS(words)   .heads = words
#define FACT_RENAMES(words) .renames = words
#define FACT_TABLES(words)  .tables = words
#define FACT_FIRST(words)   .loads = {AS_FLOATS}
#define FACT_CUTS(words)    .loads = {NEVER(CUTS)}
#define FACT_ALL_OWN(words) .loads = {[VC_LOADS_BITSANDBYTES] = {.refused = OWN_LAYERS}}
#define FACT_OWN(words)     .loads = {[VC_LOADS_BITSANDBYTES] = {.keeps = words, .why = "a layer of its own kind"}}
#define FACT_FP32(words)    .loads = {[VC_LOADS_BITSANDBYTES] = {.keeps = words, .why = IN_FP32}}
#define FACT_CASTS(words)   .loads = {[VC_LOADS_BITSANDBYTES] = {.keeps = words, .why = "the model casts to its type"}}
#define FACT_SHARED(words)  .loads = {KEEPS(words, "several layers have it")}
#define FACT_LOST(words)    .loads = {KEEPS(words, "the loader finds no codes here")}
#define FACT_STUCK(words)   .loads = {[VC_LOADS_COMPRESSED_TENSORS] = {.refused = STUCK}}
#define FACT_ASKED(words)   .asked = true

#define VC_ARCH_LOADS(what, names, words) {.types = names, FACT_##what(words)},

#define NAMES_OF_DETR                                                                                               \
    "backbone.conv_encoder=backbone self_attn.out_proj=self_attn.o_proj encoder_attn.out_proj=encoder_attn.o_proj " \
    "layers.#.fc1=layers.#.mlp.fc1 layers.#.fc2=layers.#.mlp.fc2"

static const struct vc_family_row rows[] = {
#include "arch/arch_loads.inc"

    /* Of types that scripts/loading.py does not make, or of checkpoints with older names. */
    {.types = "esm", .heads = "lm_head.decoder"},
    {.types = "moonshine_streaming", .heads = "proj_out"},
    {.types = "bridgetower vilt", .heads = "mlm_score.decoder"},
    {.types = "bit resnet", .heads = "classifier.1"},
    {.types = "luke mluke", .heads = "lm_head.decoder entity_predictions.decoder"},
    {.types = "encoder-decoder speech-encoder-decoder vision-encoder-decoder",
     .heads = "decoder.lm_head decoder.lm_head.decoder decoder.output_projection"},
    {.types = "deformable_detr",
     .heads = "re:.*bbox_embed.* re:.*class_embed.*",
     .renames = NAMES_OF_DETR,
     .loads = {[VC_LOADS_COMPRESSED_TENSORS] = {.refused = STUCK}}},
    {.types = "detr conditional_detr dab-detr table-transformer", .renames = NAMES_OF_DETR},
    {.types = "clip_vision_model chinese_clip_vision_model siglip_vision_model", .renames = "vision_model="},
    {.types = "clip_text_model siglip_text_model", .renames = "text_model="},
    {.types = "mixtral minimax minimax_m2", .renames = "block_sparse_moe=mlp"},
    {.types = "granitemoe granitemoeshared granitemoehybrid",
     .renames = "block_sparse_moe.router.layer=block_sparse_moe.router"},
    {.types = "gpt_neox", .renames = "embed_out=lm_head"},
    {.types = "eomt eomt_dinov3 videomt", .tables = "query.weight"},
    {.types = "qwen2_5_omni qwen2_5_omni_audio_encoder", .tables = "*audio_bos_eos_token.weight"},
    {.types = "clvp clvp_decoder", .tables = "*.mlp.c_fc.weight *.mlp.c_proj.weight"},
    {.types = "clap_text_model clap_audio_model mlcd maskformer omdet-turbo", .loads = {AS_FLOATS}},
    {.types = "instructblip instructblipvideo",
     .loads = {AS_FLOATS, [VC_LOADS_BITSANDBYTES] = {.keeps = "qformer.*", .why = IN_FP32}}},

    /* What a loader does where it runs the model, or where conversions join what are no linear layers. */
    {.types = "zamba2", .loads = {AS_FLOATS}}, /* layers that several blocks share have no weight beside packed ones */
    {.types = "ctrl", .loads = {AS_FLOATS}},   /* sets a buffer as it runs, which stays f32 beside codes: no bf16 */
    {.types = "wavlm",
     .loads = {[VC_LOADS_BITSANDBYTES] = {.keeps = "*.attention.*_proj.weight", .why = "attention of PyTorch"}}},
    {.types = "olmo_hybrid bailing_hybrid glm5_next glm5_next_text kimi_linear",
     .loads = {[VC_LOADS_COMPRESSED_TENSORS] = {.refused = "transformers 5 joins convolutions as it loads them, which "
                                                           "it does not do beside packed weights"}}},
    {.types = "deepseek_v4",
     .loads = {AS_FLOATS, [VC_LOADS_BITSANDBYTES] = {.refused =
                                                         "transformers 5 calls its layers otherwise than the file"}}},
    {.types = "llama4 llama4_text",
     .loads = {NEVER("transformers wants a layer for each expert there, and the file has all experts in one tensor")}},
    {.types = "inkling2 inkling2_loop inkling2_loop_text inkling2_text",
     .loads = {NEVER(
         "transformers 5 cuts the padding of the output off as it loads it, which it cannot do with codes")}},
    {.types = "dinov2 dinov2_with_registers", .loads = {[VC_LOADS_COMPRESSED_TENSORS] = {.refused = CUTS}}},
    {.types = "inkling_mm_model kimi_k25_vision nemotron3_5_transcribe_audio qianfan_ocr_vision unlimited_ocr_vision "
              "unlimited_ocr_vision_encoder",
     .loads = {NEVER(CUTS)}},
    {.types = "ernie4_5_vl_moe ernie4_5_vl_moe_text minimax_m3_vl_text mistral_large4 mistral_large4_text",
     .loads = {NEVER("transformers 5 joins or turns layers as it loads them, which it cannot do with codes")}},
};

const struct vc_family_row *vc_family_row(size_t index)
{
    return index < sizeof rows / sizeof rows[0] ? &rows[index] : NULL;
}

/* Adds the rows of a model_type, in the order of the table. */
static void add_rows(struct vc_family *family, const char *type)
{
    const struct vc_family_row *row;

    for (size_t i = 0; (row = vc_family_row(i)) != NULL; i++) {
        bool there = false;

        for (size_t k = 0; k < family->n; k++) {
            there = there || family->rows[k] == row;
        }
        if (!there && family->n < VC_FAMILY_MAX_ROWS && vc_family_lists(row->types, type, false)) {
            family->rows[family->n] = row;
            family->n += !row->asked;
            family->asked = family->asked || row->asked;
        }
    }
}

/* root NULL, or no object: an empty family. Parts of a model that also sees or hears have a "model_type" of their own,
 * whose rows count, too. `speaks`: the class has a head of language. `class` is read only. */
void vc_family_find(const json_t *root, struct vc_family *out)
{
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const char *class = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    const char *key;
    json_t *value;

    *out = (struct vc_family){.n = 0};
    out->diffusers = json_object_get(root, "_class_name") != NULL;
    if (type != NULL) {
        (void)snprintf(out->type, sizeof out->type, "%s", type);
        add_rows(out, type);
    }
    out->speaks =
        class != NULL && vc_family_lists("*ForCausalLM *LMHead* *ForMaskedLM *ForConditionalGeneration", class, true);
    json_object_foreach((json_t *)(uintptr_t)root, key, value) /* changes nothing */
    {
        const char *part = json_string_value(json_object_get(value, "model_type"));

        out->nested =
            out->nested || part != NULL || strcmp(key, "text_config") == 0 || strcmp(key, "vision_config") == 0;
        if (part != NULL) {
            add_rows(out, part);
        }
    }
    vc_dialect_list_loading(out);
}

enum vc_status vc_family_find_beside(struct vc_ctx *ctx, const char *path, struct vc_family *out)
{
    VC_SCOPED_JSON struct hf_json json = {0};
    VC_SCOPED char *text = NULL;
    size_t n = 0;

    *out = (struct vc_family){.n = 0};
    VC_CALL(vc_hf_config_read_beside(ctx, path, &text, &n));
    if (text != NULL) {
        VC_CALL(vc_hf_json_look(ctx, text, n, &json));
        vc_family_find(json.root, out);
    }
    return VC_OK;
}
