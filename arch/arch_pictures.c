/* arch_pictures.c - see arch_pictures.h. Names from ComfyUI's detection of models (comfy/model_detection.py). */
#include "arch/arch_pictures.h"

#include <stdio.h>
#include <string.h>

#include "core/text/glob.h"

/* In this order: the first row that fits is taken. The layers of diffusers' own files have other names (their Flux has no
 * double_blocks), and ComfyUI takes no codes in these: none of the tensors here is in them. */
static const struct vc_arch_picture rows[] = {
    /* HunyuanVideo, Flux */
    {"txt_in.individual_token_refiner.blocks.0.norm1.weight",
     "img_in* txt_in* time_in* vector_in* guidance_in* byt5_in* vision_in* cond_type_embedding* final_layer*", "hyvid",
     NULL, false},
    {"double_blocks.0.img_attn.proj.weight",
     "img_in* txt_in* time_in* vector_in* guidance_in* distilled_guidance_layer* *_stream_modulation* final_layer*",
     "flux", NULL, false},
    /* Stable Diffusion 3, AuraFlow */
    {"joint_blocks.0.context_block.attn.qkv.weight",
     "x_embedder* context_embedder* t_embedder* y_embedder* pos_embed* final_layer*", "sd3", NULL, false},
    {"double_layers.3.modX.1.weight",
     "t_embedder* init_x_linear* cond_seq_linear* modF* final_linear* positional_encoding* register_tokens*", "aura",
     NULL, false},
    /* Wan, Qwen-Image, LTX-Video */
    {"head.modulation", "*patch_embedding* text_embedding* time_embedding* time_projection* img_emb* ref_conv* head*",
     "wan", "*.modulation img_emb.emb_pos", false},
    {"txt_norm.weight", "img_in* txt_in* txt_norm* time_text_embed* norm_out* proj_out*", "qwen_image", NULL, false},
    {"patchify_proj.weight", "*patchify_proj* *adaln_single* *caption_projection* proj_out* audio_proj_out*", "ltxv",
     "*scale_shift_table", false},
    /* HiDream, Cosmos Predict 2, Lumina 2 */
    {"double_stream_blocks.0.block.ff_i.shared_experts.w3.weight",
     "p_embedder* t_embedder* x_embedder* final_layer* caption_projection* *.ff_i.gate", "hidream",
     "*.ff_i.gate.weight", false},
    {"blocks.0.adaln_modulation_cross_attn.1.weight",
     "p_embedder* t_embedder* t_embedding_norm* x_embedder* pos_embedder* final_layer*", "cosmos", "pos_embedder*",
     false},
    {"context_refiner.0.attention.qkv.weight",
     "t_embedder* x_embedder* final_layer* cap_embedder* context_refiner* noise_refiner*", "lumina2", NULL, false},
    /* Stable Diffusion XL, 1 and 2 */
    {"label_emb.0.0.weight", "time_embed* label_emb* input_blocks.0.* out.*", "sdxl", NULL, true},
    {"input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight", "time_embed* input_blocks.0.* out.*", "sd1", NULL,
     true},
};

/* The last one with letters: what ComfyUI takes where no other is there. */
static const char *const prefixes[] = {"model.diffusion_model.", "diffusion_model.", "net.", "model.", ""};

size_t vc_arch_picture_prefix(const char *name)
{
    size_t p = 0;

    while (strncmp(name, prefixes[p], strlen(prefixes[p])) != 0) {
        p++;
    }
    return strlen(prefixes[p]);
}

const struct vc_arch_picture *vc_arch_picture_find(const struct vc_model *model, const char **prefix)
{
    char name[256];

    for (size_t p = 0; p < sizeof prefixes / sizeof prefixes[0]; p++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            (void)snprintf(name, sizeof name, "%s%s", prefixes[p], rows[i].known_by);
            if (vc_model_find(model, name) != VC_NO_TENSOR) {
                *prefix = prefixes[p];
                return &rows[i];
            }
        }
    }
    return NULL;
}

bool vc_arch_picture_is_f32(const struct vc_arch_picture *row, const char *prefix, const char *tensor, unsigned n_dims,
                            uint64_t n_elems)
{
    size_t n = strlen(prefix);

    return strncmp(tensor, prefix, n) == 0 &&
           (n_dims == 1 || n_elems <= 1024 || (row->f32 != NULL && vc_glob_any(row->f32, tensor + n)));
}

const char *vc_arch_picture_keeps(const struct vc_arch_picture *row, const char *prefix, const char *layer)
{
    size_t n = strlen(prefix);

    if (strncmp(layer, prefix, n) != 0) {
        return "another model of the file";
    }
    return vc_glob_any(row->kept, layer + n) ? "an end of the network, or of its time step" : NULL;
}

const char *vc_arch_picture_reason(const struct vc_model *model, const char *weight, bool *known)
{
    const char *prefix;
    const struct vc_arch_picture *row = vc_arch_picture_find(model, &prefix);
    size_t n = strlen(weight);
    char layer[512];

    *known = row != NULL;
    if (row != NULL && row->f32 != NULL && strncmp(weight, prefix, strlen(prefix)) == 0 &&
        vc_glob_any(row->f32, weight + strlen(prefix))) {
        return "a table of the network, which its readers want exact";
    }
    n -= n > strlen(".weight") && strcmp(weight + n - strlen(".weight"), ".weight") == 0 ? strlen(".weight") : 0;
    (void)snprintf(layer, sizeof layer, "%.*s", (int)(n < sizeof layer ? n : sizeof layer - 1), weight);
    return row != NULL ? vc_arch_picture_keeps(row, prefix, layer) : NULL;
}
