/* families.c - see families.h.
 *
 * What a row says was seen with transformers 5.24, compressed-tensors 0.20 and bitsandbytes 0.50 (tests/judge/kinds.py
 * tries it again with what is there), or follows from how transformers defines the family: the names of tied weights,
 * the names it changes when it loads, and the weights that it initializes beside their layers. Types that are in no row
 * need nothing beyond the rules for all. */
#include "formats/huggingface/families.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_json.h"

/* transformers gives the layers of these families first values before it loads them, and finds no weight there where it
 * is packed. As floats they are loaded as ever. */
#define AS_FLOATS \
    [VC_LOADS_COMPRESSED_TENSORS] = {.needs = "quantization_config=CompressedTensorsConfig(dequantize=True)"}

#define OWN_LAYERS "its layers are of a kind of their own, and bitsandbytes takes none of them"
#define CUTS       "transformers 5 cuts layers in pieces as it loads them, which it cannot do with codes"
#define NEVER(why) [VC_LOADS_COMPRESSED_TENSORS] = {.refused = why}, [VC_LOADS_BITSANDBYTES] = {.refused = why}

#define NAMES_OF_VIT                                                                           \
    "encoder.layer=layers attention.query=q_proj attention.key=k_proj attention.value=v_proj " \
    "attention.output.dense=attention.o_proj intermediate.dense=mlp.fc1 output.dense=mlp.fc2"

#define NAMES_OF_SWIN                                                                                           \
    "attention.self.query=attention.q_proj attention.self.key=attention.k_proj "                                \
    "attention.self.value=attention.v_proj attention.output.dense=attention.o_proj intermediate.dense=mlp.fc1 " \
    "output.dense=mlp.fc2"

#define NAMES_OF_DETR                                                                                               \
    "backbone.conv_encoder=backbone self_attn.out_proj=self_attn.o_proj encoder_attn.out_proj=encoder_attn.o_proj " \
    "layers.#.fc1=layers.#.mlp.fc1 layers.#.fc2=layers.#.mlp.fc2"

static const struct vc_family_row rows[] = {
    /* ---- tied heads ---- */
    {.types = "bert big_bird deberta deberta-v2 ernie fnet layoutlm lxmert megatron-bert mobilebert mra nystromformer "
              "roc_bert roformer squeezebert tapas visual_bert yoso",
     .heads = "cls.predictions.decoder"},
    {.types = "roberta xlm-roberta xlm-roberta-xl camembert data2vec-text esm ibert longformer mpnet "
              "roberta-prelayernorm xmod bert-generation",
     .heads = "lm_head.decoder"},
    {.types = "whisper moonshine moonshine_streaming", .heads = "proj_out"},
    {.types = "distilbert", .heads = "vocab_projector"},
    {.types = "electra convbert", .heads = "generator_lm_head"},
    {.types = "albert", .heads = "predictions.decoder"},
    {.types = "modernbert modernbert-decoder", .heads = "decoder", .loads = {AS_FLOATS}},
    {.types = "xlm flaubert", .heads = "pred_layer.proj"},
    {.types = "xlnet", .heads = "lm_loss"},
    {.types = "blip", .heads = "text_decoder.cls.predictions.decoder"},
    {.types = "bridgetower vilt", .heads = "mlm_score.decoder"},
    {.types = "biogpt trocr", .heads = "output_projection"},
    {.types = "git", .heads = "output"},
    {.types = "bit resnet", .heads = "classifier.1"},
    {.types = "t5gemma t5gemma2", .heads = "lm_head.out_proj"},
    {.types = "luke mluke", .heads = "lm_head.decoder entity_predictions.decoder"},
    {.types = "gpt_neox_japanese", .heads = "embed_out"},
    {.types = "fsmt", .heads = "decoder.output_projection model.decoder.output_projection"},
    {.types = "encoder-decoder speech-encoder-decoder vision-encoder-decoder",
     .heads = "decoder.cls.predictions.decoder decoder.lm_head decoder.lm_head.decoder decoder.output_projection"},
    {.types = "ultrabert ultravbert", .heads = "cls", .renames = "cls=head.decoder ultrabert=model"},
    {.types = "kosmos-2.5", .heads = "text_model.lm_head"},
    {.types = "d_fine deimv2 rt_detr_v2 deformable_detr grounding-dino mm-grounding-dino",
     .heads = "re:.*bbox_embed.* re:.*class_embed.*",
     .renames = NAMES_OF_DETR,
     .loads = {AS_FLOATS}},

    /* ---- other names in memory ---- */
    {.types = "vit deit beit audio-spectrogram-transformer ijepa vit_mae vit_msn vivit", .renames = NAMES_OF_VIT},
    {.types = "swin", .renames = NAMES_OF_SWIN},
    {.types = "segformer",
     .renames = "encoder.patch_embeddings.#=stages.#.patch_embeddings encoder.block.#=stages.#.blocks "
                "attention.self.sr=attention.sequence_reduction.sequence_reduction mlp.dense1=mlp.fc1 "
                "mlp.dense2=mlp.fc2 decode_head.linear_c=decode_head.linear_projections " NAMES_OF_SWIN},
    {.types = "detr conditional_detr dab-detr table-transformer", .renames = NAMES_OF_DETR},
    {.types = "clip_vision_model chinese_clip_vision_model siglip_vision_model", .renames = "vision_model="},
    {.types = "clip_text_model siglip_text_model", .renames = "text_model="},
    {.types = "phimoe", .renames = "block_sparse_moe.gate=mlp.router block_sparse_moe=mlp"},
    {.types = "mixtral minimax minimax_m2", .renames = "block_sparse_moe=mlp"},
    {.types = "granitemoe granitemoeshared granitemoehybrid",
     .renames = "block_sparse_moe.router.layer=block_sparse_moe.router"},
    {.types = "gpt_neox", .renames = "embed_out=lm_head"},
    {.types = "nemotron_h", .renames = "backbone=model"},

    /* ---- weights of two dimensions that are in no linear layer ---- */
    {.types = "ctrl", .tables = "w.weight *.w.weight"},
    {.types = "eomt eomt_dinov3 videomt", .tables = "query.weight"},
    {.types = "lw_detr rf_detr", .tables = "*query_feat.weight"},
    {.types = "mask2former", .tables = "*queries_features.weight"},
    {.types = "qwen2_5_omni qwen2_5_omni_thinker qwen2_5_omni_audio_encoder", .tables = "*audio_bos_eos_token.weight"},
    {.types = "clvp clvp_decoder", .tables = "*.mlp.c_fc.weight *.mlp.c_proj.weight"},

    /* ---- first values beside the layers ---- */
    {.types = "t5 mt5 umt5 udop pop2piano",
     .loads = {AS_FLOATS, [VC_LOADS_BITSANDBYTES] = {.keeps = "*.wo.weight", .why = "the loader wants f32 here"}}},
    {.types = "longt5 switch_transformers pix2struct", .loads = {AS_FLOATS}},
    {.types = "mamba mamba2 falcon_mamba recurrent_gemma gpt_bigcode nanochat cvt hiera ijepa pvt pvt_v2 swiftformer "
              "timesformer mgp-str",
     .loads = {AS_FLOATS}},
    {.types = "rwkv", .heads = "head", .loads = {AS_FLOATS}},
    {.types = "wav2vec2 wav2vec2-conformer wav2vec2-bert unispeech unispeech-sat sew sew-d speecht5 seamless_m4t "
              "seamless_m4t_v2 data2vec-audio",
     .loads = {AS_FLOATS}},
    {.types = "wavlm",
     .loads = {AS_FLOATS, [VC_LOADS_BITSANDBYTES] = {.keeps = "*.attention.*_proj.weight",
                                                     .why = "attention of PyTorch"}}},
    {.types = "siglip siglip_vision_model siglip2 siglip2_vision_model dinov3_vit", .loads = {AS_FLOATS}},
    {.types = "altclip chinese_clip clap clap_text_model clap_audio_model clipseg groupvit kosmos-2 mlcd owlvit owlv2 "
              "xclip phi4_multimodal "
              "xlstm zamba2",
     .loads = {AS_FLOATS}},
    {.types = "mask2former maskformer oneformer omdet-turbo lw_detr", .loads = {AS_FLOATS}},

    /* ---- layers that a loader leaves alone ---- */
    {.types = "blip-2 instructblip instructblipvideo",
     .loads = {AS_FLOATS, [VC_LOADS_BITSANDBYTES] = {.keeps = "qformer.*", .why = "the loader wants f32 here"}}},
    {.types = "glm_moe_dsa deepseek_v32",
     .loads = {[VC_LOADS_BITSANDBYTES] = {.keeps = "*.indexer.weights_proj.weight",
                                          .why = "the loader wants f32 here"}}},

    /* ---- models that a loader cannot load ---- */
    {.types = "ibert", .loads = {AS_FLOATS, [VC_LOADS_BITSANDBYTES] = {.refused = OWN_LAYERS}}},
    {.types = "lfm3", .loads = {NEVER("transformers 5 calls its layers otherwise than the file")}},
    {.types = "olmo_hybrid bailing_hybrid glm5_next glm5_next_text kimi_linear",
     .loads = {[VC_LOADS_COMPRESSED_TENSORS] = {.refused = "transformers 5 joins convolutions as it loads them, which "
                                                           "it does not do beside packed weights"}}},
    {.types = "deepseek_v4",
     .loads = {AS_FLOATS, [VC_LOADS_BITSANDBYTES] = {.refused =
                                                         "transformers 5 calls its layers otherwise than the file"}}},
    {.types = "falcon", .loads = {AS_FLOATS, [VC_LOADS_BITSANDBYTES] = {.refused = OWN_LAYERS}}},
    {.types = "llama4 llama4_text",
     .loads = {NEVER("transformers wants a layer for each expert there, and the file has all experts in one tensor")}},
    {.types = "dinov2 dinov2_with_registers",
     .renames = "attention.attention.query=attention.q_proj attention.attention.key=attention.k_proj "
                "attention.attention.value=attention.v_proj attention.output.dense=attention.o_proj",
     .loads = {[VC_LOADS_COMPRESSED_TENSORS] = {.refused = CUTS}}},
    {.types = "rt_detr", .loads = {[VC_LOADS_COMPRESSED_TENSORS] = {.refused = CUTS}}},
    {.types = "inkling_mm_model", .loads = {[VC_LOADS_COMPRESSED_TENSORS] = {.refused = CUTS}}},
    {.types = "nomic_bert gte jina_embeddings_v3",
     .heads = "cls.predictions.decoder lm_head.decoder",
     .loads = {NEVER(CUTS)}},
    {.types = "gradium_phonon_tts hrm_text kimi_k25 kimi_k25_vision molmo2 molmo2_text "
              "nemo_speechlm nemotron3_5_transcribe_audio qianfan_ocr qianfan_ocr_vision radio sapiens2 tipsv2 "
              "tipsv2_text_model tipsv2_vision_model unlimited_ocr unlimited_ocr_vision unlimited_ocr_vision_encoder",
     .loads = {NEVER(CUTS)}},
    {.types = "ernie4_5_vl_moe ernie4_5_vl_moe_text minimax_m3_vl minimax_m3_vl_text mistral_large4 "
              "mistral_large4_text",
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
            family->rows[family->n++] = row;
        }
    }
}

void vc_family_find(const json_t *root, struct vc_family *out)
{
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const char *class = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    const char *key;
    json_t *value;

    *out = (struct vc_family){.n = 0};
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
}

enum vc_status vc_family_find_beside(struct vc_ctx *ctx, const char *path, struct vc_family *out)
{
    struct hf_json json = {NULL, 0};
    char *text = NULL;
    size_t n = 0;
    enum vc_status status;

    *out = (struct vc_family){.n = 0};
    VC_TRY(vc_hf_config_read_beside(ctx, path, &text, &n));
    if (text != NULL) {
        VC_TRY(vc_hf_json_look(ctx, text, n, &json));
        vc_family_find(json.root, out);
    }
out:
    vc_hf_json_free(ctx, &json);
    vc_free(ctx, text);
    return status;
}
