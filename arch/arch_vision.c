/* arch_vision.c - see arch_vision.h. To add a vision tower: a row of `vision`, with rules for its names. */
#include "arch/arch_vision.h"

#include <string.h>

#include "core/text/text.h"

/* Patches of two pictures of a film: a convolution of two tensors. */
#define PATCHES_OF_TWO(name)                                                              \
    {name ".weight", "v.patch_embd.weight", "HfSS", VC_ROWS_EVEN, VC_MATRIX_FRAMES},      \
        {name ".weight", "v.patch_embd.weight.1", "HfSS", VC_ROWS_ODD, VC_MATRIX_FRAMES}, \
    {                                                                                     \
        .from = name ".bias", .to = "v.patch_embd.bias", .shape = "H"                     \
    }

/* A layer by its names: behind `at`, what stands in front of the projections, that of the output, and norms. */
#define LAYER(at, attention, output, norm_1, norm_2)                             \
    {.from = at attention ".q_proj", .to = "v.blk.#.attn_q", .shape = "HH"},     \
        {.from = at attention ".k_proj", .to = "v.blk.#.attn_k", .shape = "HH"}, \
        {.from = at attention ".v_proj", .to = "v.blk.#.attn_v", .shape = "HH"}, \
        {.from = at attention output, .to = "v.blk.#.attn_out", .shape = "HH"},  \
        {.from = at norm_1, .to = "v.blk.#.ln1", .shape = "H"},                  \
    {                                                                            \
        .from = at norm_2, .to = "v.blk.#.ln2", .shape = "H"                     \
    }
#define TWO_MATRICES(at, up, down)                                      \
    {.from = at "mlp." up, .to = "v.blk.#.ffn_up", .shape = "FH"},      \
    {                                                                   \
        .from = at "mlp." down, .to = "v.blk.#.ffn_down", .shape = "HF" \
    }

/* Queries, keys and values in one matrix. */
#define THIRDS(name)                                                                         \
    {.from = name, .to = "v.blk.#.attn_q", .shape = "HH", .rows = VC_ROWS_FIRST_THIRD},      \
        {.from = name, .to = "v.blk.#.attn_k", .shape = "HH", .rows = VC_ROWS_SECOND_THIRD}, \
    {                                                                                        \
        .from = name, .to = "v.blk.#.attn_v", .shape = "HH", .rows = VC_ROWS_LAST_THIRD      \
    }

/* What Qwen's have in common. */
#define QWEN                                                                                                     \
    PATCHES_OF_TWO("patch_embed.proj"), {.from = "blocks.#.attn.proj", .to = "v.blk.#.attn_out", .shape = "HH"}, \
        {.from = "blocks.#.norm1", .to = "v.blk.#.ln1", .shape = "H"},                                           \
    {                                                                                                            \
        .from = "blocks.#.norm2", .to = "v.blk.#.ln2", .shape = "H"                                              \
    }

/* Queries, keys and values are one matrix, of which llama.cpp wants three; the first generation has fc1 and fc2, the
 * next one a gate. */
static const struct vc_arch_name rules_of_qwen[] = {
    QWEN,
    THIRDS("blocks.#.attn.qkv"),
    TWO_MATRICES("blocks.#.", "fc1", "fc2"),
    TWO_MATRICES("blocks.#.", "up_proj", "down_proj"),
    {.from = "blocks.#.mlp.gate_proj", .to = "v.blk.#.ffn_gate", .shape = "FH"},
    {.from = "merger.ln_q", .to = "v.post_ln", .shape = "H"},
    {.from = "merger.mlp.0", .to = "mm.0", .shape = "OO"},
    {.from = "merger.mlp.2", .to = "mm.2", .shape = "YO"},
    {.from = NULL},
};

/* With a table of positions, and features of layers in between ("deepstack"). */
static const struct vc_arch_name rules_of_qwen3[] = {
    QWEN,
    {.from = "pos_embed", .to = "v.position_embd", .shape = "PH"},
    {.from = "blocks.#.attn.qkv", .to = "v.blk.#.attn_qkv", .shape = "3H"},
    TWO_MATRICES("blocks.#.", "linear_fc1", "linear_fc2"),
    {.from = "merger.norm", .to = "v.post_ln", .shape = "H"},
    {.from = "merger.linear_fc1", .to = "mm.0", .shape = "OO"},
    {.from = "merger.linear_fc2", .to = "mm.2", .shape = "YO"},
    {.from = "deepstack_merger_list.#.norm", .to = "v.deepstack.#.norm", .shape = "O"},
    {.from = "deepstack_merger_list.#.linear_fc1", .to = "v.deepstack.#.fc1", .shape = "OO"},
    {.from = "deepstack_merger_list.#.linear_fc2", .to = "v.deepstack.#.fc2", .shape = "YO"},
    {.from = NULL},
};

#define SIGLIP                                                                                                        \
    {.from = "embeddings.position_embedding", .to = "v.position_embd", .shape = "PH"},                                \
        LAYER("encoder.layers.#.", "self_attn", ".out_proj", "layer_norm1", "layer_norm2"),                           \
        TWO_MATRICES("encoder.layers.#.", "fc1", "fc2"), {.from = "post_layernorm", .to = "v.post_ln", .shape = "H"}, \
    {                                                                                                                 \
        .from = "head." /* which makes one vector of a picture */                                                     \
    }

/* SigLIP 2, whose patches are rows of a matrix, colours last. */
static const struct vc_arch_name rules_of_siglip2[] = {
    {"embeddings.patch_embedding.weight", "v.patch_embd.weight", "HfSS", VC_ROWS_ALL, VC_MATRIX_PATCHES},
    {.from = "embeddings.patch_embedding.bias", .to = "v.patch_embd.bias", .shape = "H"},
    SIGLIP,
    {.from = "multi_modal_projector.layer_norm", .to = "mm.input_norm", .shape = "O"},
    {.from = "multi_modal_projector.linear_1", .to = "mm.1", .shape = "ZO"},
    {.from = "multi_modal_projector.linear_2", .to = "mm.2", .shape = "YZ"},
    {.from = NULL},
};

/* Gemma 4's own: norms around both parts of a layer, two tables of positions, matrices whose inputs and outputs may have
 * bounds ("attn_q.input_max"). */
#define BOUNDED(at, name, letters)                                            \
    {.from = "encoder.layers.#." at ".linear", .to = name, .shape = letters}, \
    {                                                                         \
        .from = "encoder.layers.#." at, .to = name, .shape = "1"              \
    }
static const struct vc_arch_name rules_of_gemma4[] = {
    {"patch_embedder.input_proj.weight", "v.patch_embd.weight", "HfSS", VC_ROWS_ALL, VC_MATRIX_PATCHES},
    {.from = "patch_embedder.position_embedding_table", .to = "v.position_embd.weight", .shape = "TPH"},
    BOUNDED("self_attn.q_proj", "v.blk.#.attn_q", "HH"),
    BOUNDED("self_attn.k_proj", "v.blk.#.attn_k", "HH"),
    BOUNDED("self_attn.v_proj", "v.blk.#.attn_v", "HH"),
    BOUNDED("self_attn.o_proj", "v.blk.#.attn_out", "HH"),
    BOUNDED("mlp.gate_proj", "v.blk.#.ffn_gate", "FH"),
    BOUNDED("mlp.up_proj", "v.blk.#.ffn_up", "FH"),
    BOUNDED("mlp.down_proj", "v.blk.#.ffn_down", "HF"),
    {.from = "encoder.layers.#.self_attn.q_norm", .to = "v.blk.#.attn_q_norm", .shape = "d"},
    {.from = "encoder.layers.#.self_attn.k_norm", .to = "v.blk.#.attn_k_norm", .shape = "d"},
    {.from = "encoder.layers.#.input_layernorm", .to = "v.blk.#.ln1", .shape = "H"},
    {.from = "encoder.layers.#.post_attention_layernorm", .to = "v.blk.#.attn_post_norm", .shape = "H"},
    {.from = "encoder.layers.#.pre_feedforward_layernorm", .to = "v.blk.#.ln2", .shape = "H"},
    {.from = "encoder.layers.#.post_feedforward_layernorm", .to = "v.blk.#.ffn_post_norm", .shape = "H"},
    {.from = "std_bias", .to = "v.std_bias", .shape = "H"},
    {.from = "std_scale", .to = "v.std_scale", .shape = "H"},
    {.from = "embed_vision.embedding_projection", .to = "mm.input_projection", .shape = "YH"},
    {.from = NULL},
};

/* SigLIP, behind which Gemma 3 has the mean of neighbours and a matrix that lies on its side, Idefics 3 another one. */
static const struct vc_arch_name rules_of_siglip[] = {
    {.from = "embeddings.patch_embedding", .to = "v.patch_embd", .shape = "HfSS"},
    SIGLIP,
    {.from = "multi_modal_projector.mm_input_projection_weight", .to = "mm.input_projection.weight", .shape = "HY"},
    {.from = "multi_modal_projector.mm_soft_emb_norm", .to = "mm.soft_emb_norm", .shape = "H"},
    {.from = "connector.modality_projection.proj", .to = "mm.model.fc", .shape = "YO"},
    {.from = NULL},
};

/* InternVL as transformers has it, and as the first files do: a vector of the whole picture in front, whose position
 * llama.cpp has behind the others; factors behind both parts of a layer. */
#define PROJECTOR(one, two, three)                                                                             \
    {.from = one, .to = "mm.model.mlp.0", .shape = "O"}, {.from = two, .to = "mm.model.mlp.1", .shape = "YO"}, \
    {                                                                                                          \
        .from = three, .to = "mm.model.mlp.3", .shape = "YY"                                                   \
    }
#define SCALES(at, attention, one, two)                                              \
    {.from = at attention ".q_norm", .to = "v.blk.#.attn_q_norm", .shape = "H"},     \
        {.from = at attention ".k_norm", .to = "v.blk.#.attn_k_norm", .shape = "H"}, \
        {.from = at one, .to = "v.blk.#.ls1.weight", .shape = "H"},                  \
    {                                                                                \
        .from = at two, .to = "v.blk.#.ls2.weight", .shape = "H"                     \
    }
static const struct vc_arch_name rules_of_internvl[] = {
    {.from = "embeddings.cls_token", .to = "v.class_embd", .shape = "11H"},
    {.from = "embeddings.class_embedding", .to = "v.class_embd", .shape = "11H"},
    {"embeddings.position_embeddings", "v.position_embd.weight", "1PH", VC_ROWS_FIRST_LAST, VC_MATRIX_STRAIGHT},
    {"embeddings.position_embedding", "v.position_embd.weight", "1PH", VC_ROWS_FIRST_LAST, VC_MATRIX_STRAIGHT},
    {.from = "embeddings.patch_embeddings.projection", .to = "v.patch_embd", .shape = "HfSS"},
    {.from = "embeddings.patch_embedding", .to = "v.patch_embd", .shape = "HfSS"},
    LAYER("encoder.layer.#.", "attention", ".projection_layer", "layernorm_before", "layernorm_after"),
    SCALES("encoder.layer.#.", "attention", "lambda_1", "lambda_2"),
    TWO_MATRICES("encoder.layer.#.", "fc1", "fc2"),
    THIRDS("encoder.layers.#.attn.qkv"),
    {.from = "encoder.layers.#.attn.proj", .to = "v.blk.#.attn_out", .shape = "HH"},
    {.from = "encoder.layers.#.norm1", .to = "v.blk.#.ln1", .shape = "H"},
    {.from = "encoder.layers.#.norm2", .to = "v.blk.#.ln2", .shape = "H"},
    SCALES("encoder.layers.#.", "attn", "ls1", "ls2"),
    TWO_MATRICES("encoder.layers.#.", "fc1", "fc2"),
    PROJECTOR("multi_modal_projector.layer_norm", "multi_modal_projector.linear_1", "multi_modal_projector.linear_2"),
    PROJECTOR("mlp1.0", "mlp1.1", "mlp1.3"),
    {.from = NULL},
};

/* Pixtral, behind which Mistral 3 joins neighbours. */
static const struct vc_arch_name rules_of_pixtral[] = {
    {.from = "patch_conv", .to = "v.patch_embd", .shape = "HfSS"},
    {.from = "ln_pre", .to = "v.pre_ln", .shape = "H"},
    LAYER("transformer.layers.#.", "attention", ".o_proj", "attention_norm", "ffn_norm"),
    {.from = "transformer.layers.#.feed_forward.gate_proj", .to = "v.blk.#.ffn_gate", .shape = "FH"},
    {.from = "transformer.layers.#.feed_forward.up_proj", .to = "v.blk.#.ffn_up", .shape = "FH"},
    {.from = "transformer.layers.#.feed_forward.down_proj", .to = "v.blk.#.ffn_down", .shape = "HF"},
    {.from = "multi_modal_projector.norm", .to = "mm.input_norm", .shape = "H"},
    {.from = "multi_modal_projector.patch_merger.merging_layer", .to = "mm.patch_merger", .shape = "HO"},
    {.from = "multi_modal_projector.linear_1", .to = "mm.1", .shape = "YH"},
    {.from = "multi_modal_projector.linear_2", .to = "mm.2", .shape = "YY"},
    {.from = NULL},
};

/* Patches are rows of a matrix; a vector of the whole picture has the last position. */
static const struct vc_arch_name rules_of_llama4[] = {
    {.from = "patch_embedding.linear", .to = "v.patch_embd", .shape = "Ho"},
    {.from = "class_embedding", .to = "v.class_embd", .shape = "H"},
    {.from = "positional_embedding_vlm", .to = "v.position_embd.weight", .shape = "PH"},
    {.from = "layernorm_pre", .to = "v.pre_ln", .shape = "H"},
    {.from = "layernorm_post", .to = "v.post_ln", .shape = "H"},
    LAYER("model.layers.#.", "self_attn", ".o_proj", "input_layernorm", "post_attention_layernorm"),
    TWO_MATRICES("model.layers.#.", "fc1", "fc2"),
    {.from = "vision_adapter.mlp.fc1", .to = "mm.model.mlp.1", .shape = "ZF"},
    {.from = "vision_adapter.mlp.fc2", .to = "mm.model.mlp.2", .shape = "ZZ"},
    {.from = "multi_modal_projector.linear_1", .to = "mm.model.fc", .shape = "YZ"},
    {.from = NULL},
};

#define JOINED "v/attn_out v/ln1 v/ln2 v/ffn_up v/ffn_down"
#define BLOCK  "v/attn_q v/attn_k v/attn_v " JOINED
#define OTHERS " v/attn_out.bias v/ffn_up.bias v/ffn_down.bias"
#define BIASES " v/attn_q.bias v/attn_k.bias v/attn_v.bias" OTHERS
#define NORMED " v/ln1.bias v/ln2.bias"
#define PAIR   " mm.0.weight mm.0.bias mm.2.weight mm.2.bias"
#define MERGED ".vision.spatial_merge_size"
#define SCALED ".vision.projector.scale_factor"
#define AS_QWEN \
    "num_heads=16 patch_size=14 spatial_merge_size=2 temporal_patch_size=2 layer_norm_eps=1e-6 image_size=560 "
#define OF_QWEN .gguf = VC_ARCH_CLIP, .rules = rules_of_qwen
#define AS_CLIP .gguf = VC_ARCH_CLIP

static const struct vc_arch_vision vision[] = {
    {{"qwen2_vl", OF_QWEN, .layer = BLOCK BIASES NORMED, .activation = "quick_gelu",
      .whole = "v.patch_embd.weight v.patch_embd.weight.1 v.post_ln.weight v.post_ln.bias" PAIR},
     NULL,
     "qwen2vl_merger",
     {"qwen2_vl", "", AS_QWEN "embed_dim=1280 depth=32 mlp_ratio=4 hidden_act=quick_gelu"},
     MERGED,
     2},
    {{"qwen2_5_vl", OF_QWEN, .layer = BLOCK BIASES " v/ffn_gate v/ffn_gate.bias", .activation = "silu",
      .whole = "v.patch_embd.weight v.patch_embd.weight.1 v.post_ln.weight" PAIR},
     NULL,
     "qwen2.5vl_merger",
     {"qwen2_5_vl", "", AS_QWEN "hidden_size=3584 depth=32 intermediate_size=3420 hidden_act=silu window_size=112"},
     MERGED,
     2},
    {{"qwen3_vl|qwen3_vl_moe|qwen3_5|qwen3_5_moe", AS_CLIP, .rules = rules_of_qwen3,
      .layer = "v/attn_qkv v/attn_qkv.bias " JOINED OTHERS NORMED, .activation = "gelu_pytorch_tanh|gelu",
      .whole = "v.patch_embd.weight v.patch_embd.weight.1 v.patch_embd.bias v.position_embd.weight v.post_ln.weight "
               "v.post_ln.bias" PAIR},
     NULL,
     "qwen3vl_merger",
     {"qwen3_vl", "",
      "num_heads=16 patch_size=16 spatial_merge_size=2 temporal_patch_size=2 layer_norm_eps=1e-6 hidden_size=1152 "
      "depth=27 intermediate_size=4304 hidden_act=gelu_pytorch_tanh num_position_embeddings=2304"},
     MERGED,
     0},
    {{"gemma3", AS_CLIP, .traits = VC_ARCH_FROM_1, .layer = BLOCK BIASES NORMED, .rules = rules_of_siglip,
      .activation = "gelu_pytorch_tanh",
      .whole = "v.patch_embd.weight v.patch_embd.bias v.position_embd.weight v.post_ln.weight v.post_ln.bias "
               "mm.input_projection.weight mm.soft_emb_norm.weight"},
     "siglip_vision_model",
     "gemma3",
     {"siglip", "",
      "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 image_size=224 patch_size=16 "
      "hidden_act=gelu_pytorch_tanh layer_norm_eps=1e-6"},
     SCALED,
     4},
    {{"idefics3|smolvlm", AS_CLIP, .layer = BLOCK BIASES NORMED, .rules = rules_of_siglip,
      .activation = "gelu_pytorch_tanh",
      .whole = "v.patch_embd.weight v.patch_embd.bias v.position_embd.weight v.post_ln.weight v.post_ln.bias "
               "mm.model.fc.weight"},
     NULL,
     "idefics3",
     {"idefics3", "",
      "hidden_size=1152 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=16 image_size=224 "
      "patch_size=32 "
      "hidden_act=gelu_pytorch_tanh layer_norm_eps=1e-6"},
     SCALED,
     0},
    {{"gemma4", AS_CLIP, .layer = BLOCK " v/ffn_gate v/attn_q_norm v/attn_k_norm v/attn_post_norm v/ffn_post_norm",
      .rules = rules_of_gemma4, .activation = "gelu_pytorch_tanh",
      .whole = "v.patch_embd.weight v.position_embd.weight mm.input_projection.weight"},
     "gemma4_vision",
     "gemma4v",
     {"gemma4_vision", "",
      "hidden_size=768 intermediate_size=3072 num_hidden_layers=16 num_attention_heads=12 image_size=224 patch_size=16 "
      "position_embedding_size=10240 pooling_kernel_size=3 hidden_activation=gelu_pytorch_tanh rms_norm_eps=1e-6"},
     SCALED,
     3},
    {{"lfm2_vl", AS_CLIP, .layer = BLOCK BIASES NORMED, .rules = rules_of_siglip2, .activation = "gelu_pytorch_tanh",
      .whole = "v.patch_embd.weight v.patch_embd.bias v.position_embd.weight v.post_ln.weight v.post_ln.bias "
               "mm.1.weight mm.1.bias mm.2.weight mm.2.bias"},
     "siglip2_vision_model",
     "lfm2",
     {"siglip2", "",
      "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 num_patches=256 "
      "patch_size=16 "
      "hidden_act=gelu_pytorch_tanh layer_norm_eps=1e-6"},
     SCALED,
     0},
    {{"internvl|internvl_chat", AS_CLIP, .layer = BLOCK OTHERS " v/ls1 v/ls2", .rules = rules_of_internvl,
      .activation = "gelu",
      .whole =
          "v.class_embd v.position_embd.weight v.patch_embd.weight v.patch_embd.bias mm.model.mlp.0.weight "
          "mm.model.mlp.0.bias mm.model.mlp.1.weight mm.model.mlp.1.bias mm.model.mlp.3.weight mm.model.mlp.3.bias"},
     NULL,
     "internvl",
     {"internvl_vision", "",
      "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 image_size=448 "
      "patch_size=14 "
      "hidden_act=gelu layer_norm_eps=1e-6"},
     SCALED,
     0},
    {{"llava|mistral3", AS_CLIP, .traits = VC_ARCH_PERMUTES, .layer = BLOCK " v/ffn_gate", .rules = rules_of_pixtral,
      .activation = "silu|gelu", .whole = "v.patch_embd.weight v.pre_ln.weight mm.1.weight mm.2.weight"},
     "pixtral",
     "pixtral",
     {"pixtral", "",
      "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 image_size=1024 "
      "patch_size=16 "
      "hidden_act=gelu layer_norm_eps=1e-5"},
     MERGED,
     1},
    {{"llama4", AS_CLIP, .layer = BLOCK BIASES NORMED, .rules = rules_of_llama4, .activation = "gelu",
      .whole = "v.patch_embd.weight v.class_embd v.position_embd.weight v.pre_ln.weight v.pre_ln.bias v.post_ln.weight "
               "v.post_ln.bias mm.model.fc.weight mm.model.mlp.1.weight mm.model.mlp.2.weight"},
     NULL,
     "llama4",
     {"llama4_vision", "",
      "hidden_size=768 intermediate_size=5632 num_hidden_layers=34 num_attention_heads=16 image_size=448 patch_size=14 "
      "hidden_act=gelu layer_norm_eps=1e-5 pixel_shuffle_ratio=0.5 vision_output_dim=7680 projector_input_dim=4096 "
      "projector_output_dim=4096"},
     SCALED,
     0},
};

const struct vc_arch_vision *vc_arch_vision_at(size_t index)
{
    return index < sizeof vision / sizeof vision[0] ? &vision[index] : NULL;
}

const struct vc_arch_vision *vc_arch_vision(const char *model_type, const char *tower)
{
    const struct vc_arch_vision *row;
    size_t i = 0;

    while ((row = vc_arch_vision_at(i)) != NULL &&
           !(model_type != NULL && vc_is_one_of(model_type, row->family.types) &&
             (row->tower == NULL || (tower != NULL && vc_is_one_of(tower, row->tower))))) {
        i++;
    }
    return row;
}
