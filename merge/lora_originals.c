/* lora_originals.c - names of modules in the two layouts that models of pictures and videos have: diffusers', and the
 * original files', which stable-diffusion, Black Forest Labs and others wrote and which ComfyUI reads. Both with '_' for '.', as
 * kohya writes them. A module of one layout may be some rows of a tensor of the other:
 *
 *     diffusers                                        original                              rows of the original
 *     transformer_blocks_3_attn_to_k                   double_blocks_3_img_attn_qkv          the second third
 *     single_transformer_blocks_7_proj_mlp             single_blocks_7_linear1               behind three thirds
 *     norm_out_linear                                  final_layer_adaLN_modulation_1        both halves, turned over
 *     down_blocks_1_attentions_0_proj_in               input_blocks_4_1_proj_in              all; 4 = 3 * 1 + 0 + 1
 *
 * The rows are those of diffusers' functions convert_..._checkpoint_to_diffusers, which tests/judge/test_merge.py asks. */
#include <ctype.h>

#include "merge/lora_originals.h"

/* '#' is a number, '@' one of q, k and v, '*' what is left, of which `ends` has other words. In an original name the second '#'
 * of diffusers' is added to the first one: times * first + second + plus. Original names without '@' beside diffusers' with it
 * have all three. */
struct row {
    const char *diffusers, *original;
    enum vc_lora_part part;
    unsigned char times, plus;
};

#define ROW(diffusers, original)               \
    {                                          \
        diffusers, original, VC_LORA_ALL, 1, 0 \
    }
#define PART(diffusers, original, part) \
    {                                   \
        diffusers, original, part, 1, 0 \
    }
#define UNET(diffusers, original, times, plus)        \
    {                                                 \
        diffusers, original, VC_LORA_ALL, times, plus \
    }
#define REFINER "context_embedder_token_refiner_refiner_blocks_#_"
#define TXT_IN  "txt_in_individual_token_refiner_blocks_#_"

static const struct row rows[] = {
    /* UNets of Stable Diffusion: a block of three (two layers and what changes the size) is one list. The last row is of
     * blocks with attentions, the one before of others. */
    ROW("conv_in", "input_blocks_0_0"),
    ROW("conv_out", "out_2"),
    ROW("time_embedding_linear_1", "time_embed_0"),
    ROW("time_embedding_linear_2", "time_embed_2"),
    ROW("add_embedding_linear_1", "label_emb_0_0"),
    ROW("add_embedding_linear_2", "label_emb_0_2"),
    UNET("down_blocks_#_attentions_#_*", "input_blocks_#_1_*", 3, 1),
    UNET("down_blocks_#_resnets_#_*", "input_blocks_#_0_*", 3, 1),
    UNET("down_blocks_#_downsamplers_0_conv", "input_blocks_#_0_op", 3, 3),
    UNET("mid_block_attentions_#_*", "middle_block_#_*", 2, 1),
    UNET("mid_block_resnets_#_*", "middle_block_#_*", 2, 0),
    UNET("up_blocks_#_attentions_#_*", "output_blocks_#_1_*", 3, 0),
    UNET("up_blocks_#_resnets_#_*", "output_blocks_#_0_*", 3, 0),
    UNET("up_blocks_#_upsamplers_0_conv", "output_blocks_#_1_conv", 3, 2),
    UNET("up_blocks_#_upsamplers_0_conv", "output_blocks_#_2_conv", 3, 2),
    /* OpenCLIP. */
    ROW("encoder_layers_#_self_attn_@_proj", "transformer_resblocks_#_attn_in_proj"),
    ROW("encoder_layers_#_*", "transformer_resblocks_#_*"),
    /* Flux, Chroma, HunyuanVideo. */
    ROW("transformer_blocks_#_attn_to_@", "double_blocks_#_img_attn_qkv"),
    ROW("transformer_blocks_#_attn_add_@_proj", "double_blocks_#_txt_attn_qkv"),
    ROW("transformer_blocks_#_attn_to_out_0", "double_blocks_#_img_attn_proj"),
    ROW("transformer_blocks_#_attn_to_add_out", "double_blocks_#_txt_attn_proj"),
    ROW("transformer_blocks_#_norm1_*", "double_blocks_#_img_mod_*"),
    ROW("transformer_blocks_#_norm1_context_*", "double_blocks_#_txt_mod_*"),
    ROW("transformer_blocks_#_ff_*", "double_blocks_#_img_mlp_*"),
    ROW("transformer_blocks_#_ff_context_*", "double_blocks_#_txt_mlp_*"),
    ROW("single_transformer_blocks_#_attn_to_@", "single_blocks_#_linear1"),
    PART("single_transformer_blocks_#_proj_mlp", "single_blocks_#_linear1", VC_LORA_REST),
    ROW("single_transformer_blocks_#_proj_out", "single_blocks_#_linear2"),
    ROW("single_transformer_blocks_#_norm_*", "single_blocks_#_modulation_*"),
    ROW("time_text_embed_timestep_embedder_*", "time_in_*"),
    ROW("time_text_embed_guidance_embedder_*", "guidance_in_*"),
    ROW("time_text_embed_text_embedder_*", "vector_in_*"),
    ROW("context_embedder", "txt_in"),
    ROW("x_embedder", "img_in"),
    ROW("proj_out", "final_layer_linear"),
    PART("norm_out_linear", "final_layer_adaLN_modulation_1", VC_LORA_HALVES),
    ROW("distilled_guidance_layer_layers_#_*", "distilled_guidance_layer_layers_#_*"),
    ROW("x_embedder_proj", "img_in_proj"),
    ROW("context_embedder_proj_in", "txt_in_input_embedder"),
    ROW("context_embedder_time_text_embed_timestep_embedder_*", "txt_in_t_embedder_*"),
    ROW("context_embedder_time_text_embed_text_embedder_*", "txt_in_c_embedder_*"),
    ROW(REFINER "attn_to_@", TXT_IN "self_attn_qkv"),
    ROW(REFINER "attn_to_out_0", TXT_IN "self_attn_proj"),
    ROW(REFINER "ff_*", TXT_IN "mlp_*"),
    ROW(REFINER "norm_out_linear", TXT_IN "adaLN_modulation_1"),
    /* Flux 2. */
    ROW("single_transformer_blocks_#_attn_to_qkv_mlp_proj", "single_blocks_#_linear1"),
    ROW("single_transformer_blocks_#_attn_to_out", "single_blocks_#_linear2"),
    ROW("double_stream_modulation_img_*", "double_stream_modulation_img_*"),
    ROW("double_stream_modulation_txt_*", "double_stream_modulation_txt_*"),
    ROW("single_stream_modulation_*", "single_stream_modulation_*"),
    ROW("time_guidance_embed_timestep_embedder_*", "time_in_*"),
    ROW("time_guidance_embed_guidance_embedder_*", "guidance_in_*"),
    /* Stable Diffusion 3: in its last block the text has a scale and a shift alone. */
    ROW("transformer_blocks_#_attn_to_@", "joint_blocks_#_x_block_attn_qkv"),
    ROW("transformer_blocks_#_attn2_to_@", "joint_blocks_#_x_block_attn2_qkv"),
    ROW("transformer_blocks_#_attn_add_@_proj", "joint_blocks_#_context_block_attn_qkv"),
    ROW("transformer_blocks_#_attn_to_out_0", "joint_blocks_#_x_block_attn_proj"),
    ROW("transformer_blocks_#_attn2_to_out_0", "joint_blocks_#_x_block_attn2_proj"),
    ROW("transformer_blocks_#_attn_to_add_out", "joint_blocks_#_context_block_attn_proj"),
    ROW("transformer_blocks_#_norm1_linear", "joint_blocks_#_x_block_adaLN_modulation_1"),
    PART("transformer_blocks_#_norm1_context_linear", "joint_blocks_#_context_block_adaLN_modulation_1",
         VC_LORA_HALVES),
    ROW("transformer_blocks_#_ff_*", "joint_blocks_#_x_block_mlp_*"),
    ROW("transformer_blocks_#_ff_context_*", "joint_blocks_#_context_block_mlp_*"),
    ROW("time_text_embed_timestep_embedder_*", "t_embedder_*"),
    ROW("time_text_embed_text_embedder_*", "y_embedder_*"),
    ROW("pos_embed_proj", "x_embedder_proj"),
    /* Wan. */
    ROW("blocks_#_attn1_to_@", "blocks_#_self_attn_@"),
    ROW("blocks_#_attn2_to_@", "blocks_#_cross_attn_@"),
    ROW("blocks_#_attn1_to_out_0", "blocks_#_self_attn_o"),
    ROW("blocks_#_attn2_to_out_0", "blocks_#_cross_attn_o"),
    ROW("blocks_#_attn2_add_@_proj", "blocks_#_cross_attn_@_img"),
    ROW("blocks_#_attn1_norm_@", "blocks_#_self_attn_norm_@"),
    ROW("blocks_#_attn2_norm_@", "blocks_#_cross_attn_norm_@"),
    ROW("blocks_#_attn2_norm_added_@", "blocks_#_cross_attn_norm_@_img"),
    ROW("blocks_#_norm2", "blocks_#_norm3"),
    ROW("blocks_#_ffn_*", "blocks_#_ffn_*"),
    ROW("condition_embedder_time_embedder_*", "time_embedding_*"),
    ROW("condition_embedder_text_embedder_*", "text_embedding_*"),
    ROW("condition_embedder_time_proj", "time_projection_1"),
    ROW("condition_embedder_image_embedder_norm1", "img_emb_proj_0"),
    ROW("condition_embedder_image_embedder_norm2", "img_emb_proj_4"),
    ROW("condition_embedder_image_embedder_ff_net_0_proj", "img_emb_proj_1"),
    ROW("condition_embedder_image_embedder_ff_net_2", "img_emb_proj_3"),
    ROW("proj_out", "head_head"),
    /* LTX. */
    ROW("proj_in", "patchify_proj"),
    ROW("time_embed_*", "adaln_single_*"),
    /* Z-Image. */
    ROW("layers_#_attention_to_@", "layers_#_attention_qkv"),
    ROW("layers_#_attention_to_out_0", "layers_#_attention_out"),
    ROW("noise_refiner_#_attention_to_@", "noise_refiner_#_attention_qkv"),
    ROW("noise_refiner_#_attention_to_out_0", "noise_refiner_#_attention_out"),
    ROW("context_refiner_#_attention_to_@", "context_refiner_#_attention_qkv"),
    ROW("context_refiner_#_attention_to_out_0", "context_refiner_#_attention_out"),
    ROW("all_final_layer_2-1_*", "final_layer_*"),
    ROW("all_x_embedder_2-1", "x_embedder"),
};

#define N_ROWS (sizeof rows / sizeof rows[0])

/* What is left of a name behind '*', where the layouts have other words for it; models do not have two of the second. */
static const char *const ends[][2] = {
    {"self_attn_out_proj", "attn_out_proj"},
    {"mlp_fc1", "mlp_c_fc"},
    {"mlp_fc2", "mlp_c_proj"},
    {"conv1", "in_layers_2"},
    {"conv2", "out_layers_3"},
    {"time_emb_proj", "emb_layers_1"},
    {"conv_shortcut", "skip_connection"},
    {"net_0_proj", "0"},
    {"net_0_proj", "fc1"},
    {"net_2", "2"},
    {"net_2", "fc2"},
    {"linear_in", "0"},
    {"linear_out", "2"},
    {"linear", "lin"},
    {"linear_1", "in_layer"},
    {"linear_1", "mlp_0"},
    {"linear_1", "0"},
    {"linear_2", "out_layer"},
    {"linear_2", "mlp_2"},
    {"linear_2", "2"},
};

#define N_ENDS (sizeof ends / sizeof ends[0])

/* What a name has in the places of a pattern's signs. */
struct found {
    unsigned number[2], n_numbers;
    char letter;      /* '\0': none */
    const char *rest; /* behind '*'; NULL: none */
};

/* Whether the name is one of the pattern. */
static bool match(const char *pattern, const char *name, struct found *out)
{
    *out = (struct found){{0, 0}, 0, '\0', NULL};
    for (; *pattern != '\0' && *pattern != '*'; pattern++) {
        if (*pattern == '#') {
            unsigned digits = 0;

            for (; isdigit((unsigned char)*name) && digits < 4; name++, digits++) {
                out->number[out->n_numbers] = out->number[out->n_numbers] * 10 + (unsigned)(*name - '0');
            }
            if (digits == 0) {
                return false;
            }
            out->n_numbers++;
        } else if (*pattern == '@' && (*name == 'q' || *name == 'k' || *name == 'v')) {
            out->letter = *name++;
        } else if (*pattern != *name++) {
            return false;
        }
    }
    out->rest = *pattern == '*' ? name : NULL;
    return *pattern == '*' ? *name != '\0' : *name == '\0';
}

/* The original name of what was found, with that end. */
static bool write_name(const struct row *row, const struct found *found, const char *end, char *out, size_t room)
{
    size_t n = 0;

    for (const char *c = row->original; *c != '\0' && n < room; c++) {
        unsigned number = row->times * found->number[0] + found->number[1] + row->plus;
        const char one[] = {*c == '@' ? found->letter : *c, '\0'};

        n += (size_t)(*c == '#' ? snprintf(out + n, room - n, "%u", number)
                                : snprintf(out + n, room - n, "%s", *c == '*' ? end : one));
    }
    return n < room;
}

/* Each row with each of its ends, the name's own last. */
bool vc_lora_original(const char *name, size_t *next, char *out, size_t room, enum vc_lora_part *part)
{
    for (; *next < N_ROWS * (N_ENDS + 1); (*next)++) {
        const struct row *row = &rows[*next / (N_ENDS + 1)];
        size_t end = *next % (N_ENDS + 1);
        struct found found;

        if (row->diffusers[0] != name[0] || !match(row->diffusers, name, &found)) { /* most end at once */
            *next += N_ENDS - end;
            continue;
        }
        if (end < N_ENDS && (found.rest == NULL || strcmp(found.rest, ends[end][0]) != 0)) {
            continue;
        }
        if (write_name(row, &found, end < N_ENDS ? ends[end][1] : found.rest, out, room)) {
            *part = row->part;
            if (found.letter != '\0' && strchr(row->original, '@') == NULL) {
                *part = found.letter == 'q' ? VC_LORA_QUERY : VC_LORA_VALUE;
                *part = found.letter == 'k' ? VC_LORA_KEY : *part;
            }
            (*next)++;
            return true;
        }
    }
    return false;
}
