/* arch_vision.c - see arch_vision.h. To add a vision tower: a row of `vision`, with rules for its names. */
#include "arch/arch_vision.h"

#include <string.h>

#include "arch/arch_rules.h"
#include "core/text/text.h"

/* Patches of two pictures of a film: a convolution of two tensors. */
#define PATCHES_OF_TWO(name)                                                              \
    {name ".weight", "v.patch_embd.weight", "HfSS", VC_ROWS_EVEN, VC_MATRIX_FRAMES},      \
        {name ".weight", "v.patch_embd.weight.1", "HfSS", VC_ROWS_ODD, VC_MATRIX_FRAMES}, \
        TO(name ".bias", "v.patch_embd.bias", "H")

/* A layer by its names: behind `at`, what stands in front of the projections, that of the output, and norms. */
#define LAYER(at, attention, output, norm_1, norm_2)                                                           \
    TO(at attention ".q_proj", "v.blk.#.attn_q", "HH"), TO(at attention ".k_proj", "v.blk.#.attn_k", "HH"),    \
        TO(at attention ".v_proj", "v.blk.#.attn_v", "HH"), TO(at attention output, "v.blk.#.attn_out", "HH"), \
        TO(at norm_1, "v.blk.#.ln1", "H"), TO(at norm_2, "v.blk.#.ln2", "H")
#define TWO_MATRICES(at, up, down) \
    TO(at "mlp." up, "v.blk.#.ffn_up", "FH"), TO(at "mlp." down, "v.blk.#.ffn_down", "HF")

/* Queries, keys and values in one matrix. */
#define THIRDS(name)                                                 \
    TO_AS(name, "v.blk.#.attn_q", "HH", FIRST_THIRD, STRAIGHT),      \
        TO_AS(name, "v.blk.#.attn_k", "HH", SECOND_THIRD, STRAIGHT), \
        TO_AS(name, "v.blk.#.attn_v", "HH", LAST_THIRD, STRAIGHT)

/* What Qwen's have in common. */
#define QWEN                                                                                \
    PATCHES_OF_TWO("patch_embed.proj"), TO("blocks.#.attn.proj", "v.blk.#.attn_out", "HH"), \
        TO("blocks.#.norm1", "v.blk.#.ln1", "H"), TO("blocks.#.norm2", "v.blk.#.ln2", "H")

/* Queries, keys and values are one matrix, of which llama.cpp wants three; the first generation has fc1 and fc2, the
 * next one a gate. */
static const struct vc_arch_name rules_of_qwen[] = {QWEN,
                                                    THIRDS("blocks.#.attn.qkv"),
                                                    TWO_MATRICES("blocks.#.", "fc1", "fc2"),
                                                    TWO_MATRICES("blocks.#.", "up_proj", "down_proj"),
                                                    TO("blocks.#.mlp.gate_proj", "v.blk.#.ffn_gate", "FH"),
                                                    TO("merger.ln_q", "v.post_ln", "H"),
                                                    TO("merger.mlp.0", "mm.0", "OO"),
                                                    TO("merger.mlp.2", "mm.2", "YO"),
                                                    LAST};

/* With a table of positions, and features of layers in between ("deepstack"). */
static const struct vc_arch_name rules_of_qwen3[] = {
    QWEN,
    TO("pos_embed", "v.position_embd", "PH"),
    TO("blocks.#.attn.qkv", "v.blk.#.attn_qkv", "3H"),
    TWO_MATRICES("blocks.#.", "linear_fc1", "linear_fc2"),
    TO("merger.norm", "v.post_ln", "H"),
    TO("merger.linear_fc1", "mm.0", "OO"),
    TO("merger.linear_fc2", "mm.2", "YO"),
    TO("deepstack_merger_list.#.norm", "v.deepstack.#.norm", "O"),
    TO("deepstack_merger_list.#.linear_fc1", "v.deepstack.#.fc1", "OO"),
    TO("deepstack_merger_list.#.linear_fc2", "v.deepstack.#.fc2", "YO"),
    LAST};

#define SIGLIP                                                                                   \
    TO("embeddings.position_embedding", "v.position_embd", "PH"),                                \
        LAYER("encoder.layers.#.", "self_attn", ".out_proj", "layer_norm1", "layer_norm2"),      \
        TWO_MATRICES("encoder.layers.#.", "fc1", "fc2"), TO("post_layernorm", "v.post_ln", "H"), \
        LEFT("head.") /* which makes one vector of a picture */

/* SigLIP 2, whose patches are rows of a matrix, colours last. */
static const struct vc_arch_name rules_of_siglip2[] = {
    TO_AS("embeddings.patch_embedding.weight", "v.patch_embd.weight", "HfSS", ALL, PATCHES),
    TO("embeddings.patch_embedding.bias", "v.patch_embd.bias", "H"),
    SIGLIP,
    TO("multi_modal_projector.layer_norm", "mm.input_norm", "O"),
    TO("multi_modal_projector.linear_1", "mm.1", "ZO"),
    TO("multi_modal_projector.linear_2", "mm.2", "YZ"),
    LAST};

/* Gemma 4's own: norms around both parts of a layer, two tables of positions, matrices whose inputs and outputs may have
 * bounds ("attn_q.input_max"). */
#define BOUNDED(at, name, letters) \
    {.from = "encoder.layers.#." at ".linear", .to = name, .shape = letters}, TO("encoder.layers.#." at, name, "1")
static const struct vc_arch_name rules_of_gemma4[] = {
    TO_AS("patch_embedder.input_proj.weight", "v.patch_embd.weight", "HfSS", ALL, PATCHES),
    TO("patch_embedder.position_embedding_table", "v.position_embd.weight", "TPH"),
    BOUNDED("self_attn.q_proj", "v.blk.#.attn_q", "HH"),
    BOUNDED("self_attn.k_proj", "v.blk.#.attn_k", "HH"),
    BOUNDED("self_attn.v_proj", "v.blk.#.attn_v", "HH"),
    BOUNDED("self_attn.o_proj", "v.blk.#.attn_out", "HH"),
    BOUNDED("mlp.gate_proj", "v.blk.#.ffn_gate", "FH"),
    BOUNDED("mlp.up_proj", "v.blk.#.ffn_up", "FH"),
    BOUNDED("mlp.down_proj", "v.blk.#.ffn_down", "HF"),
    TO("encoder.layers.#.self_attn.q_norm", "v.blk.#.attn_q_norm", "d"),
    TO("encoder.layers.#.self_attn.k_norm", "v.blk.#.attn_k_norm", "d"),
    TO("encoder.layers.#.input_layernorm", "v.blk.#.ln1", "H"),
    TO("encoder.layers.#.post_attention_layernorm", "v.blk.#.attn_post_norm", "H"),
    TO("encoder.layers.#.pre_feedforward_layernorm", "v.blk.#.ln2", "H"),
    TO("encoder.layers.#.post_feedforward_layernorm", "v.blk.#.ffn_post_norm", "H"),
    TO("std_bias", "v.std_bias", "H"),
    TO("std_scale", "v.std_scale", "H"),
    TO("embed_vision.embedding_projection", "mm.input_projection", "YH"),
    LAST};

/* SigLIP, behind which Gemma 3 has the mean of neighbours and a matrix that lies on its side, Idefics 3 another one. */
static const struct vc_arch_name rules_of_siglip[] = {
    TO("embeddings.patch_embedding", "v.patch_embd", "HfSS"),
    SIGLIP,
    TO("multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight", "HY"),
    TO("multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm", "H"),
    TO("connector.modality_projection.proj", "mm.model.fc", "YO"),
    LAST};

/* InternVL as transformers has it, and as the first files do: a vector of the whole picture in front, whose position
 * llama.cpp has behind the others; factors behind both parts of a layer. */
#define PROJECTOR(one, two, three) \
    TO(one, "mm.model.mlp.0", "O"), TO(two, "mm.model.mlp.1", "YO"), TO(three, "mm.model.mlp.3", "YY")
#define SCALES(at, attention, one, two)                                                                             \
    TO(at attention ".q_norm", "v.blk.#.attn_q_norm", "H"), TO(at attention ".k_norm", "v.blk.#.attn_k_norm", "H"), \
        TO(at one, "v.blk.#.ls1.weight", "H"), TO(at two, "v.blk.#.ls2.weight", "H")
static const struct vc_arch_name rules_of_internvl[] = {
    TO("embeddings.cls_token", "v.class_embd", "11H"),
    TO("embeddings.class_embedding", "v.class_embd", "11H"),
    TO_AS("embeddings.position_embeddings", "v.position_embd.weight", "1PH", FIRST_LAST, STRAIGHT),
    TO_AS("embeddings.position_embedding", "v.position_embd.weight", "1PH", FIRST_LAST, STRAIGHT),
    TO("embeddings.patch_embeddings.projection", "v.patch_embd", "HfSS"),
    TO("embeddings.patch_embedding", "v.patch_embd", "HfSS"),
    LAYER("encoder.layer.#.", "attention", ".projection_layer", "layernorm_before", "layernorm_after"),
    SCALES("encoder.layer.#.", "attention", "lambda_1", "lambda_2"),
    TWO_MATRICES("encoder.layer.#.", "fc1", "fc2"),
    THIRDS("encoder.layers.#.attn.qkv"),
    TO("encoder.layers.#.attn.proj", "v.blk.#.attn_out", "HH"),
    TO("encoder.layers.#.norm1", "v.blk.#.ln1", "H"),
    TO("encoder.layers.#.norm2", "v.blk.#.ln2", "H"),
    SCALES("encoder.layers.#.", "attn", "ls1", "ls2"),
    TWO_MATRICES("encoder.layers.#.", "fc1", "fc2"),
    PROJECTOR("multi_modal_projector.layer_norm", "multi_modal_projector.linear_1", "multi_modal_projector.linear_2"),
    PROJECTOR("mlp1.0", "mlp1.1", "mlp1.3"),
    LAST};

/* Pixtral, behind which Mistral 3 joins neighbours. */
static const struct vc_arch_name rules_of_pixtral[] = {
    TO("patch_conv", "v.patch_embd", "HfSS"),
    TO("ln_pre", "v.pre_ln", "H"),
    LAYER("transformer.layers.#.", "attention", ".o_proj", "attention_norm", "ffn_norm"),
    TO("transformer.layers.#.feed_forward.gate_proj", "v.blk.#.ffn_gate", "FH"),
    TO("transformer.layers.#.feed_forward.up_proj", "v.blk.#.ffn_up", "FH"),
    TO("transformer.layers.#.feed_forward.down_proj", "v.blk.#.ffn_down", "HF"),
    TO("multi_modal_projector.norm", "mm.input_norm", "H"),
    TO("multi_modal_projector.patch_merger.merging_layer", "mm.patch_merger", "HO"),
    TO("multi_modal_projector.linear_1", "mm.1", "YH"),
    TO("multi_modal_projector.linear_2", "mm.2", "YY"),
    LAST};

/* Patches are rows of a matrix; a vector of the whole picture has the last position. */
static const struct vc_arch_name rules_of_llama4[] = {
    TO("patch_embedding.linear", "v.patch_embd", "Ho"),
    TO("class_embedding", "v.class_embd", "H"),
    TO("positional_embedding_vlm", "v.position_embd.weight", "PH"),
    TO("layernorm_pre", "v.pre_ln", "H"),
    TO("layernorm_post", "v.post_ln", "H"),
    LAYER("model.layers.#.", "self_attn", ".o_proj", "input_layernorm", "post_attention_layernorm"),
    TWO_MATRICES("model.layers.#.", "fc1", "fc2"),
    TO("vision_adapter.mlp.fc1", "mm.model.mlp.1", "ZF"),
    TO("vision_adapter.mlp.fc2", "mm.model.mlp.2", "ZZ"),
    TO("multi_modal_projector.linear_1", "mm.model.fc", "YZ"),
    LAST};

#define JOINED     "v/attn_out v/ln1 v/ln2 v/ffn_up v/ffn_down"
#define BLOCK      "v/attn_q v/attn_k v/attn_v " JOINED
#define OTHERS     " v/attn_out.bias v/ffn_up.bias v/ffn_down.bias"
#define BIASES     " v/attn_q.bias v/attn_k.bias v/attn_v.bias" OTHERS
#define NORMED     " v/ln1.bias v/ln2.bias"
#define POSITIONED "v.patch_embd.weight v.patch_embd.bias v.position_embd.weight v.post_ln.weight v.post_ln.bias "
#define PAIR       " mm.0.weight mm.0.bias mm.2.weight mm.2.bias"
#define MERGED     ".vision.spatial_merge_size"
#define SCALED     ".vision.projector.scale_factor"
#define BASE       "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 "
#define AS_QWEN \
    "num_heads=16 patch_size=14 spatial_merge_size=2 temporal_patch_size=2 layer_norm_eps=1e-6 image_size=560 "
/* clip.projector_type, the type of "vision_config", the key of the patches that become one and what they are without it,
 * the class's type and numbers; then what it has of a family. */
#define TOWER(file, kind, key, usual, class_type, numbers, ...)                                         \
    {                                                                                                   \
        {.gguf = VC_ARCH_CLIP, .types = __VA_ARGS__}, kind, file, {class_type, "", numbers}, key, usual \
    }

static const struct vc_arch_vision vision[] = {
    TOWER("qwen2vl_merger", NULL, MERGED, 2, "qwen2_vl",
          AS_QWEN "embed_dim=1280 depth=32 mlp_ratio=4 hidden_act=quick_gelu", "qwen2_vl", .rules = rules_of_qwen,
          .layer = BLOCK BIASES NORMED, .activation = "quick_gelu",
          .whole = "v.patch_embd.weight v.patch_embd.weight.1 v.post_ln.weight v.post_ln.bias" PAIR),
    TOWER("qwen2.5vl_merger", NULL, MERGED, 2, "qwen2_5_vl",
          AS_QWEN "hidden_size=3584 depth=32 intermediate_size=3420 hidden_act=silu window_size=112", "qwen2_5_vl",
          .rules = rules_of_qwen, .layer = BLOCK BIASES " v/ffn_gate v/ffn_gate.bias", .activation = "silu",
          .whole = "v.patch_embd.weight v.patch_embd.weight.1 v.post_ln.weight" PAIR),
    TOWER("qwen3vl_merger", NULL, MERGED, 0, "qwen3_vl",
          "num_heads=16 patch_size=16 spatial_merge_size=2 temporal_patch_size=2 layer_norm_eps=1e-6 hidden_size=1152 "
          "depth=27 intermediate_size=4304 hidden_act=gelu_pytorch_tanh num_position_embeddings=2304",
          "qwen3_vl|qwen3_vl_moe|qwen3_5|qwen3_5_moe", .rules = rules_of_qwen3,
          .layer = "v/attn_qkv v/attn_qkv.bias " JOINED OTHERS NORMED, .activation = "gelu_pytorch_tanh|gelu",
          .whole = "v.patch_embd.weight v.patch_embd.weight.1 v.patch_embd.bias v.position_embd.weight "
                   "v.post_ln.weight v.post_ln.bias" PAIR),
    TOWER("gemma3", "siglip_vision_model", SCALED, 4, "siglip",
          BASE "image_size=224 patch_size=16 hidden_act=gelu_pytorch_tanh layer_norm_eps=1e-6", "gemma3",
          .traits = VC_ARCH_FROM_1, .layer = BLOCK BIASES NORMED, .rules = rules_of_siglip,
          .activation = "gelu_pytorch_tanh", .whole = POSITIONED "mm.input_projection.weight mm.soft_emb_norm.weight"),
    TOWER("idefics3", NULL, SCALED, 0, "idefics3",
          "hidden_size=1152 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=16 image_size=224 "
          "patch_size=32 hidden_act=gelu_pytorch_tanh layer_norm_eps=1e-6",
          "idefics3|smolvlm", .layer = BLOCK BIASES NORMED, .rules = rules_of_siglip, .activation = "gelu_pytorch_tanh",
          .whole = POSITIONED "mm.model.fc.weight"),
    TOWER("gemma4v", "gemma4_vision", SCALED, 3, "gemma4_vision",
          "hidden_size=768 intermediate_size=3072 num_hidden_layers=16 num_attention_heads=12 image_size=224 "
          "patch_size=16 position_embedding_size=10240 pooling_kernel_size=3 hidden_activation=gelu_pytorch_tanh "
          "rms_norm_eps=1e-6",
          "gemma4", .layer = BLOCK " v/ffn_gate v/attn_q_norm v/attn_k_norm v/attn_post_norm v/ffn_post_norm",
          .rules = rules_of_gemma4, .activation = "gelu_pytorch_tanh",
          .whole = "v.patch_embd.weight v.position_embd.weight mm.input_projection.weight"),
    TOWER("lfm2", "siglip2_vision_model", SCALED, 0, "siglip2",
          BASE "num_patches=256 patch_size=16 hidden_act=gelu_pytorch_tanh layer_norm_eps=1e-6", "lfm2_vl",
          .layer = BLOCK BIASES NORMED, .rules = rules_of_siglip2, .activation = "gelu_pytorch_tanh",
          .whole = POSITIONED "mm.1.weight mm.1.bias mm.2.weight mm.2.bias"),
    TOWER(
        "internvl", NULL, SCALED, 0, "internvl_vision",
        "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 image_size=448 "
        "patch_size=14 hidden_act=gelu layer_norm_eps=1e-6",
        "internvl|internvl_chat", .layer = BLOCK OTHERS " v/ls1 v/ls2", .rules = rules_of_internvl,
        .activation = "gelu",
        .whole =
            "v.class_embd v.position_embd.weight v.patch_embd.weight v.patch_embd.bias mm.model.mlp.0.weight "
            "mm.model.mlp.0.bias mm.model.mlp.1.weight mm.model.mlp.1.bias mm.model.mlp.3.weight mm.model.mlp.3.bias"),
    TOWER("pixtral", "pixtral", MERGED, 1, "pixtral",
          "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 image_size=1024 "
          "patch_size=16 hidden_act=gelu layer_norm_eps=1e-5",
          "llava|mistral3", .traits = VC_ARCH_PERMUTES, .layer = BLOCK " v/ffn_gate", .rules = rules_of_pixtral,
          .activation = "silu|gelu", .whole = "v.patch_embd.weight v.pre_ln.weight mm.1.weight mm.2.weight"),
    TOWER("llama4", NULL, SCALED, 0, "llama4_vision",
          "hidden_size=768 intermediate_size=5632 num_hidden_layers=34 num_attention_heads=16 image_size=448 "
          "patch_size=14 hidden_act=gelu layer_norm_eps=1e-5 pixel_shuffle_ratio=0.5 vision_output_dim=7680 "
          "projector_input_dim=4096 projector_output_dim=4096",
          "llama4", .layer = BLOCK BIASES NORMED, .rules = rules_of_llama4, .activation = "gelu",
          .whole = "v.patch_embd.weight v.class_embd v.position_embd.weight v.pre_ln.weight v.pre_ln.bias "
                   "v.post_ln.weight v.post_ln.bias mm.model.fc.weight mm.model.mlp.1.weight mm.model.mlp.2.weight")};

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
