/* arch_family.c - see arch_family.h. To add a family: a row of `families`, with rules for the names of its tensors where they
 * differ from those of all; docs/formats.md has how close llama.cpp comes to transformers in each. */
#include "arch/arch_family.h"

#include <stdlib.h>
#include <string.h>

#include "core/text/text.h"

/* ---- names of tensors ---- */

/* Tensors of a layer as llama.cpp calls them, without "blk.#." in front and ".weight" behind: vc_arch_family.layer has
 * those that every layer has, .maybe those that it may have. */
#define ATTENTION "attn_norm attn_q attn_k attn_v attn_output "
#define DENSE     ATTENTION "ffn_norm ffn_gate ffn_up ffn_down"
#define EXPERTS   ATTENTION "ffn_norm ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps"
#define QK_NORMS  " attn_q_norm attn_k_norm"

/* Biases of models that have them by an option of their configuration. */
#define QKV_BIASES "attn_q.bias attn_k.bias attn_v.bias"
#define ALL_BIASES QKV_BIASES " attn_output.bias ffn_gate.bias ffn_up.bias ffn_down.bias"

/* An encoder: norms behind attention and the feed-forward part, biases everywhere. */
#define BERT                                                                                                  \
    "attn_q attn_q.bias attn_k attn_k.bias attn_v attn_v.bias attn_output attn_output.bias attn_output_norm " \
    "attn_output_norm.bias ffn_up ffn_up.bias ffn_down ffn_down.bias layer_output_norm layer_output_norm.bias"

/* Each head has a sink beside its keys, and experts have biases. */
#define EXPERTS_OF_GPT_OSS                                                                                        \
    ATTENTION "attn_q.bias attn_k.bias attn_v.bias attn_output.bias attn_sinks post_attention_norm ffn_gate_inp " \
              "ffn_gate_inp.bias ffn_gate_exps ffn_gate_exps.bias ffn_up_exps ffn_up_exps.bias ffn_down_exps "    \
              "ffn_down_exps.bias"

/* Layers of Qwen3.5: of full attention, with a gate behind the queries of each head; and recurrent ones. */
#define GATED     "attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm"
#define RECURRENT "attn_qkv attn_gate ssm_conv1d ssm_dt.bias ssm_a ssm_alpha ssm_beta ssm_norm ssm_out"
#define SHARED    " ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp ffn_down_shexp"

/* Layers that read the keys and values of others have no attn_k and attn_v; inp_gate, proj and post_norm are there
 * where layers have an input of their own. */
#define GEMMA4 \
    "attn_norm attn_q attn_output attn_q_norm post_attention_norm ffn_norm ffn_gate ffn_up ffn_down post_ffw_norm"
#define MAYBE_GEMMA4 "attn_k attn_k_norm attn_v layer_output_scale inp_gate proj post_norm"

/* No norms before attention and the feed-forward part: they are behind. */
#define OLMO "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down post_attention_norm post_ffw_norm" QK_NORMS

/* Words of config.json for the activation function; '|' stands between words for one. */
#define SILU "silu|swish"
#define TANH "gelu_pytorch_tanh"

/* A recurrent layer of Mamba 2; `at` stands in front of its names. */
#define MAMBA_RULES(at)                                                                       \
    {.from = "layers.#." at "in_proj", .to = "blk.#.ssm_in", .shape = "zH"},                  \
        {"layers.#." at "conv1d", "blk.#.ssm_conv1d", "cL", VC_ROWS_ALL, VC_MATRIX_CHANNELS}, \
        {.from = "layers.#." at "dt_bias", .to = "blk.#.ssm_dt.bias", .shape = "v"},          \
        {"layers.#." at "A_log", "blk.#.ssm_a", "v1", VC_ROWS_ALL, VC_MATRIX_LOGARITHM},      \
        {"layers.#." at "D", "blk.#.ssm_d", "v1", VC_ROWS_ALL, VC_MATRIX_FLAT},               \
        {"layers.#." at "norm", "blk.#.ssm_norm", "Kx", VC_ROWS_ALL, VC_MATRIX_FLAT},         \
    {                                                                                         \
        .from = "layers.#." at "out_proj", .to = "blk.#.ssm_out", .shape = "Hi"               \
    }
#define MAMBA_SIZES "mamba_n_heads|mamba_d_head|mamba_d_state|mamba_n_groups|mamba_d_conv|mamba_expand"
#define MAMBA_1     "attn_norm ssm_in ssm_conv1d ssm_x ssm_dt ssm_dt.bias ssm_a ssm_d ssm_out"
#define CONVOLUTION "shortconv.conv.weight shortconv.in_proj.weight shortconv.out_proj.weight"
#define MAMBA       "ssm_in ssm_conv1d ssm_dt.bias ssm_a ssm_d ssm_norm ssm_out"

/* Experts that all tokens use, as one matrix of the sizes of all of them. */
#define SHARED_RULES                                                                                 \
    {.from = "layers.#.mlp.shared_experts.gate_proj", .to = "blk.#.ffn_gate_shexp", .shape = "sH"},  \
        {.from = "layers.#.mlp.shared_experts.up_proj", .to = "blk.#.ffn_up_shexp", .shape = "sH"},  \
    {                                                                                                \
        .from = "layers.#.mlp.shared_experts.down_proj", .to = "blk.#.ffn_down_shexp", .shape = "Hs" \
    }

/* Norms before and behind attention and the feed-forward part. */
#define FOUR_NORMS                                                                                  \
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"}, \
        {.from = "layers.#.pre_feedforward_layernorm", .to = "blk.#.ffn_norm", .shape = "H"},       \
    {                                                                                               \
        .from = "layers.#.post_feedforward_layernorm", .to = "blk.#.post_ffw_norm", .shape = "H"    \
    }

/* Layers have an input of their own beside the states. */
#define LAYER_INPUTS                                                                         \
    {.from = "embed_tokens_per_layer", .to = "per_layer_token_embd", .shape = "VJ"},         \
        {.from = "per_layer_model_projection", .to = "per_layer_model_proj", .shape = "JH"}, \
        {.from = "per_layer_projection_norm", .to = "per_layer_proj_norm", .shape = "I"},    \
        {.from = "layers.#.per_layer_input_gate", .to = "blk.#.inp_gate", .shape = "IH"},    \
        {.from = "layers.#.per_layer_projection", .to = "blk.#.proj", .shape = "HI"},        \
    {                                                                                        \
        .from = "layers.#.post_per_layer_input_norm", .to = "blk.#.post_norm", .shape = "H"  \
    }

/* Parts of lists of tensors. */
#define QKVO       "attn_q attn_k attn_v attn_output"
#define MLP        "ffn_gate ffn_up ffn_down"
#define MOE        "ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps"
#define MOE_SHARED "ffn_gate_shexp ffn_up_shexp ffn_down_shexp"
#define LATENT     "attn_norm attn_kv_a_mqa attn_kv_a_norm attn_k_b attn_v_b attn_output ffn_norm"
#define MAYBE_LATENT                          \
    "attn_q attn_q_a attn_q_a_norm attn_q_b " \
    "exp_probs_b.bias " MOE_SHARED
#define INDEXER \
    " indexer.attn_q_b.weight indexer.attn_k.weight indexer.k_norm.weight indexer.k_norm.bias indexer.proj.weight"
/* Norms with a mean, and biases of all matrices. */
#define NORM_BIASES   "attn_norm attn_norm.bias ffn_norm ffn_norm.bias"
#define JOINED        "attn_qkv attn_output ffn_up ffn_down"
#define JOINED_BIASES "attn_qkv.bias attn_output.bias ffn_up.bias ffn_down.bias"
#define LAST_NORM     "output_norm output_norm.bias"
#define T5_LAYER(at) \
    at "attn_norm " at "attn_q " at "attn_k " at "attn_v " at "attn_o " at "ffn_norm " at "ffn_up " at "ffn_down"

/* Rules of all families; those of a family come before them. The order is that of a model: the embedding, the last
 * norm, the head, then what a layer has. */
const struct vc_arch_name vc_arch_names[] = {
    {.from = "embed_tokens", .to = "token_embd", .shape = "VH"},
    {.from = "norm", .to = "output_norm", .shape = "H"},
    {.from = "lm_head", .to = "output", .shape = "VH"},
    /* attention */
    {.from = "layers.#.input_layernorm", .to = "blk.#.attn_norm", .shape = "H"},
    {.from = "layers.#.self_attn.q_proj", .to = "blk.#.attn_q", .shape = "qH"},
    {.from = "layers.#.self_attn.k_proj", .to = "blk.#.attn_k", .shape = "kH"},
    {.from = "layers.#.self_attn.v_proj", .to = "blk.#.attn_v", .shape = "kH"},
    {.from = "layers.#.self_attn.o_proj", .to = "blk.#.attn_output", .shape = "Hq"},
    {.from = "layers.#.self_attn.q_norm", .to = "blk.#.attn_q_norm", .shape = "d"},
    {.from = "layers.#.self_attn.k_norm", .to = "blk.#.attn_k_norm", .shape = "d"},
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.ffn_norm", .shape = "H"},
    /* the feed-forward part */
    {.from = "layers.#.mlp.gate_proj", .to = "blk.#.ffn_gate", .shape = "FH"},
    {.from = "layers.#.mlp.up_proj", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "layers.#.mlp.down_proj", .to = "blk.#.ffn_down", .shape = "HF"},
    /* a router and its experts: a matrix for each, or those of all in one, gate and up joined */
    {.from = "layers.#.mlp.gate.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {.from = "layers.#.mlp.experts.*.gate_proj", .to = "blk.#.ffn_gate_exps", .shape = "EeH"},
    {.from = "layers.#.mlp.experts.*.up_proj", .to = "blk.#.ffn_up_exps", .shape = "EeH"},
    {.from = "layers.#.mlp.experts.*.down_proj", .to = "blk.#.ffn_down_exps", .shape = "EHe"},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", "EeH", VC_ROWS_FIRST_HALF, VC_MATRIX_STRAIGHT},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", "EeH", VC_ROWS_SECOND_HALF, VC_MATRIX_STRAIGHT},
    {.from = "layers.#.mlp.experts.down_proj", .to = "blk.#.ffn_down_exps.weight", .shape = "EHe"},
    /* the expert that all tokens use */
    {.from = "layers.#.mlp.shared_expert.gate_proj", .to = "blk.#.ffn_gate_shexp", .shape = "sH"},
    {.from = "layers.#.mlp.shared_expert.up_proj", .to = "blk.#.ffn_up_shexp", .shape = "sH"},
    {.from = "layers.#.mlp.shared_expert.down_proj", .to = "blk.#.ffn_down_shexp", .shape = "Hs"},
    {.from = "layers.#.mlp.shared_expert_gate", .to = "blk.#.ffn_gate_inp_shexp", .shape = "1H"},
    /* what is added to the router's numbers before it chooses */
    {.from = "layers.#.mlp.gate.e_score_correction_bias", .to = "blk.#.exp_probs_b.bias", .shape = "E"},
    {.from = NULL},
};

/* Norms before and behind attention and the feed-forward part. */
static const struct vc_arch_name four_norms[] = {FOUR_NORMS, {.from = NULL}};

/* Tables and matrices with a part for each layer; experts beside the dense feed-forward part, gate and up joined. */
static const struct vc_arch_name rules_of_gemma4[] = {
    FOUR_NORMS,
    LAYER_INPUTS,
    {.from = "layers.#.layer_scalar", .to = "blk.#.layer_output_scale.weight", .shape = "1"},
    {.from = "layers.#.pre_feedforward_layernorm_2", .to = "blk.#.pre_ffw_norm_2", .shape = "H"},
    {.from = "layers.#.post_feedforward_layernorm_1", .to = "blk.#.post_ffw_norm_1", .shape = "H"},
    {.from = "layers.#.post_feedforward_layernorm_2", .to = "blk.#.post_ffw_norm_2", .shape = "H"},
    {.from = "layers.#.experts.gate_up_proj", .to = "blk.#.ffn_gate_up_exps.weight", .shape = "EgH"},
    {.from = "layers.#.experts.down_proj", .to = "blk.#.ffn_down_exps.weight", .shape = "EHe"},
    {.from = "layers.#.router.proj", .to = "blk.#.ffn_gate_inp", .shape = "EH"},
    {.from = "layers.#.router.scale", .to = "blk.#.ffn_gate_inp.scale", .shape = "H"},
    {.from = "layers.#.router.per_expert_scale", .to = "blk.#.ffn_down_exps.scale", .shape = "E"},
    {.from = NULL},
};

/* Several copies of the states ("altup"), of which attention changes one and all are predicted and corrected; a path of
 * low rank beside attention ("laurel"). */
static const struct vc_arch_name rules_of_gemma3n[] = {
    FOUR_NORMS,
    LAYER_INPUTS,
    {.from = "altup_projections.*", .to = "altup_proj", .shape = "CHH"},
    {.from = "altup_unembed_projections.*", .to = "altup_unembd_proj", .shape = "CHH"},
    {.from = "layers.#.altup.correct_output_scale", .to = "blk.#.altup_correct_scale.weight", .shape = "H"},
    {.from = "layers.#.altup.correction_coefs", .to = "blk.#.altup_correct_coef", .shape = "tt"},
    {.from = "layers.#.altup.prediction_coefs", .to = "blk.#.altup_predict_coef", .shape = "Ut"},
    {.from = "layers.#.altup.modality_router", .to = "blk.#.altup_router", .shape = "tH"},
    {.from = "layers.#.altup.router_norm", .to = "blk.#.altup_router_norm", .shape = "H"},
    {.from = "layers.#.laurel.linear_left", .to = "blk.#.laurel_l", .shape = "lH"},
    {.from = "layers.#.laurel.linear_right", .to = "blk.#.laurel_r", .shape = "Hl"},
    {.from = "layers.#.laurel.post_laurel_norm", .to = "blk.#.laurel_post_norm", .shape = "H"},
    {.from = NULL},
};

/* Norms behind them alone; those of queries and keys go over all heads together. */
static const struct vc_arch_name rules_of_olmo2[] = {
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.post_feedforward_layernorm", .to = "blk.#.post_ffw_norm", .shape = "H"},
    {.from = "layers.#.self_attn.q_norm", .to = "blk.#.attn_q_norm", .shape = "q"},
    {.from = "layers.#.self_attn.k_norm", .to = "blk.#.attn_k_norm", .shape = "k"},
    {.from = NULL},
};

/* The norms of queries and keys alone. */
#define rules_of_olmoe (rules_of_olmo2 + 2)

/* Joined matrices stay joined. */
static const struct vc_arch_name rules_of_phi3[] = {
    {.from = "layers.#.self_attn.qkv_proj", .to = "blk.#.attn_qkv", .shape = "QH"},
    {.from = "layers.#.mlp.gate_up_proj", .to = "blk.#.ffn_up", .shape = "GH"},
    {.from = NULL},
};

/* Norms of queries and keys go over all heads together; a number is added to the router's before it chooses. Experts are
 * called by numbers: w1 is the gate, w3 goes up, w2 down. */
static const struct vc_arch_name rules_of_minimax[] = {
    {.from = "layers.#.self_attn.q_norm", .to = "blk.#.attn_q_norm", .shape = "q"},
    {.from = "layers.#.self_attn.k_norm", .to = "blk.#.attn_k_norm", .shape = "k"},
    {.from = "layers.#.block_sparse_moe.e_score_correction_bias", .to = "blk.#.exp_probs_b.bias", .shape = "E"},
    {.from = "layers.#.block_sparse_moe.gate.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {.from = "layers.#.block_sparse_moe.experts.*.w1", .to = "blk.#.ffn_gate_exps", .shape = "EeH"},
    {.from = "layers.#.block_sparse_moe.experts.*.w3", .to = "blk.#.ffn_up_exps", .shape = "EeH"},
    {.from = "layers.#.block_sparse_moe.experts.*.w2", .to = "blk.#.ffn_down_exps", .shape = "EHe"},
    {.from = NULL},
};

/* The experts alone. */
#define rules_of_mixtral (rules_of_minimax + 3)

/* Experts in one tensor, gate and up as its halves. */
static const struct vc_arch_name rules_of_granitemoe[] = {
    {.from = "layers.#.block_sparse_moe.router.layer.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {"layers.#.block_sparse_moe.input_linear.weight", "blk.#.ffn_gate_exps.weight", "EeH", VC_ROWS_FIRST_HALF,
     VC_MATRIX_STRAIGHT},
    {"layers.#.block_sparse_moe.input_linear.weight", "blk.#.ffn_up_exps.weight", "EeH", VC_ROWS_SECOND_HALF,
     VC_MATRIX_STRAIGHT},
    {.from = "layers.#.block_sparse_moe.output_linear.weight", .to = "blk.#.ffn_down_exps.weight", .shape = "EHe"},
    {"layers.#.shared_mlp.input_linear.weight", "blk.#.ffn_gate_shexp.weight", "sH", VC_ROWS_FIRST_HALF,
     VC_MATRIX_STRAIGHT},
    {"layers.#.shared_mlp.input_linear.weight", "blk.#.ffn_up_shexp.weight", "sH", VC_ROWS_SECOND_HALF,
     VC_MATRIX_STRAIGHT},
    {.from = "layers.#.shared_mlp.output_linear.weight", .to = "blk.#.ffn_down_shexp.weight", .shape = "Hs"},
    MAMBA_RULES("mamba."),
    {.from = NULL},
};

/* The same without experts: what all tokens use is the feed-forward part. */
static const struct vc_arch_name rules_of_granitehybrid[] = {
    {"layers.#.shared_mlp.input_linear.weight", "blk.#.ffn_gate.weight", "FH", VC_ROWS_FIRST_HALF, VC_MATRIX_STRAIGHT},
    {"layers.#.shared_mlp.input_linear.weight", "blk.#.ffn_up.weight", "FH", VC_ROWS_SECOND_HALF, VC_MATRIX_STRAIGHT},
    {.from = "layers.#.shared_mlp.output_linear.weight", .to = "blk.#.ffn_down.weight", .shape = "HF"},
    MAMBA_RULES("mamba."),
    {.from = NULL},
};

/* Experts as transformers writes them, [E, 2 e, H], and as the first files have them, [E, H, 2 e]: by their shapes. */
static const struct vc_arch_name rules_of_qwen3_vl[] = {
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", "EeH", VC_ROWS_FIRST_HALF, VC_MATRIX_STRAIGHT},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", "EeH", VC_ROWS_SECOND_HALF, VC_MATRIX_STRAIGHT},
    {.from = "layers.#.mlp.experts.down_proj", .to = "blk.#.ffn_down_exps.weight", .shape = "EHe"},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", "EeH", VC_ROWS_FIRST_HALF, VC_MATRIX_TURNED},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", "EeH", VC_ROWS_SECOND_HALF, VC_MATRIX_TURNED},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", "EHe", VC_ROWS_ALL, VC_MATRIX_TURNED},
    {.from = NULL},
};

/* Keys and values come of a vector of few elements, `r`, and a part that is rotated: llama.cpp has the matrices that make
 * keys and values of it head by head, that of the keys turned. So do queries, or they are made at once. */
static const struct vc_arch_name rules_of_mistral4[] = {
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", "EeH", VC_ROWS_FIRST_HALF, VC_MATRIX_STRAIGHT},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", "EeH", VC_ROWS_SECOND_HALF, VC_MATRIX_STRAIGHT},
    {.from = "layers.#.mlp.experts.down_proj", .to = "blk.#.ffn_down_exps.weight", .shape = "EHe"},
    {.from = "layers.#.self_attn.q_proj", .to = "blk.#.attn_q", .shape = "mH"},
    {.from = "layers.#.self_attn.q_a_proj", .to = "blk.#.attn_q_a", .shape = "RH"},
    {.from = "layers.#.self_attn.q_a_layernorm", .to = "blk.#.attn_q_a_norm", .shape = "R"},
    {.from = "layers.#.self_attn.q_b_proj", .to = "blk.#.attn_q_b", .shape = "mR"},
    {.from = "layers.#.self_attn.kv_a_proj_with_mqa", .to = "blk.#.attn_kv_a_mqa", .shape = "MH"},
    {.from = "layers.#.self_attn.kv_a_layernorm", .to = "blk.#.attn_kv_a_norm", .shape = "r"},
    {"layers.#.self_attn.kv_b_proj.weight", "blk.#.attn_k_b.weight", "Arn", VC_ROWS_HEAD_KEYS, VC_MATRIX_TURNED},
    {"layers.#.self_attn.kv_b_proj.weight", "blk.#.attn_v_b.weight", "AWr", VC_ROWS_HEAD_VALUES, VC_MATRIX_STRAIGHT},
    {.from = "layers.#.self_attn.o_proj", .to = "blk.#.attn_output", .shape = "Hw"},
    {.from = "layers.#.self_attn.indexer.wq_b", .to = "blk.#.indexer.attn_q_b", .shape = "7R"},
    {.from = "layers.#.self_attn.indexer.wk", .to = "blk.#.indexer.attn_k", .shape = "6H"},
    {.from = "layers.#.self_attn.indexer.k_norm", .to = "blk.#.indexer.k_norm", .shape = "6"},
    {.from = "layers.#.self_attn.indexer.weights_proj", .to = "blk.#.indexer.proj", .shape = "5H"},
    SHARED_RULES,
    {.from = NULL},
};

/* DeepSeek's files have a matrix for each expert: without the first three. */
#define rules_of_deepseek (rules_of_mistral4 + 3)

/* Recurrent layers whose queries, keys, values and gates are one matrix, key head by key head. */
static const struct vc_arch_name rules_of_qwen3_next[] = {
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.self_attn.q_proj", .to = "blk.#.attn_q", .shape = "pH"},
    {"layers.#.linear_attn.in_proj_qkvz.weight", "blk.#.attn_qkv.weight", "cH", VC_ROWS_QKV, VC_MATRIX_STRAIGHT},
    {"layers.#.linear_attn.in_proj_qkvz.weight", "blk.#.attn_gate.weight", "iH", VC_ROWS_GATE, VC_MATRIX_STRAIGHT},
    {.from = "layers.#.linear_attn.in_proj_ba", .to = "blk.#.ssm_ba", .shape = "bH"},
    {"layers.#.linear_attn.conv1d", "blk.#.ssm_conv1d", "cL", VC_ROWS_ALL, VC_MATRIX_CHANNELS},
    {"layers.#.linear_attn.A_log", "blk.#.ssm_a", "v", VC_ROWS_ALL, VC_MATRIX_LOGARITHM},
    {.from = "layers.#.linear_attn.dt_bias", .to = "blk.#.ssm_dt.bias", .shape = "v"},
    {.from = "layers.#.linear_attn.norm", .to = "blk.#.ssm_norm", .shape = "u"},
    {.from = "layers.#.linear_attn.out_proj", .to = "blk.#.ssm_out", .shape = "Hi"},
    {.from = NULL},
};

/* Layers of a short convolution between those of attention. llama.cpp's "token_embd_norm" is the last norm. */
static const struct vc_arch_name rules_of_lfm2[] = {
    {.from = "embedding_norm", .to = "token_embd_norm", .shape = "H"},
    {.from = "layers.#.operator_norm", .to = "blk.#.attn_norm", .shape = "H"},
    {.from = "layers.#.ffn_norm", .to = "blk.#.ffn_norm", .shape = "H"},
    {"layers.#.conv.conv", "blk.#.shortconv.conv", "HL", VC_ROWS_ALL, VC_MATRIX_CHANNELS},
    {.from = "layers.#.conv.in_proj", .to = "blk.#.shortconv.in_proj", .shape = "3H"},
    {.from = "layers.#.conv.out_proj", .to = "blk.#.shortconv.out_proj", .shape = "HH"},
    {.from = "layers.#.self_attn.q_layernorm", .to = "blk.#.attn_q_norm", .shape = "d"},
    {.from = "layers.#.self_attn.k_layernorm", .to = "blk.#.attn_k_norm", .shape = "d"},
    {.from = "layers.#.self_attn.out_proj", .to = "blk.#.attn_output", .shape = "Hq"},
    {.from = "layers.#.feed_forward.w1", .to = "blk.#.ffn_gate", .shape = "FH"},
    {.from = "layers.#.feed_forward.w3", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "layers.#.feed_forward.w2", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = "layers.#.feed_forward.gate.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {.from = "layers.#.feed_forward.expert_bias", .to = "blk.#.exp_probs_b.bias", .shape = "E"},
    {.from = "layers.#.feed_forward.experts.*.w1", .to = "blk.#.ffn_gate_exps", .shape = "EeH"},
    {.from = "layers.#.feed_forward.experts.*.w3", .to = "blk.#.ffn_up_exps", .shape = "EeH"},
    {.from = "layers.#.feed_forward.experts.*.w2", .to = "blk.#.ffn_down_exps", .shape = "EHe"},
    {.from = NULL},
};

/* Experts are matrices of [in, out], the gate before the other part. */
static const struct vc_arch_name rules_of_llama4[] = {
    {.from = "layers.#.feed_forward.gate_proj", .to = "blk.#.ffn_gate", .shape = "FH"},
    {.from = "layers.#.feed_forward.up_proj", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "layers.#.feed_forward.down_proj", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = "layers.#.feed_forward.router.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {"layers.#.feed_forward.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", "EeH", VC_ROWS_FIRST_HALF,
     VC_MATRIX_TURNED},
    {"layers.#.feed_forward.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", "EeH", VC_ROWS_SECOND_HALF,
     VC_MATRIX_TURNED},
    {"layers.#.feed_forward.experts.down_proj", "blk.#.ffn_down_exps.weight", "EHe", VC_ROWS_ALL, VC_MATRIX_TURNED},
    {.from = "layers.#.feed_forward.shared_expert.gate_proj", .to = "blk.#.ffn_gate_shexp", .shape = "sH"},
    {.from = "layers.#.feed_forward.shared_expert.up_proj", .to = "blk.#.ffn_up_shexp", .shape = "sH"},
    {.from = "layers.#.feed_forward.shared_expert.down_proj", .to = "blk.#.ffn_down_shexp", .shape = "Hs"},
    {.from = NULL},
};

/* Each layer is one of attention, a recurrent one, or a feed-forward part, and is called "mixer" in any case. */
static const struct vc_arch_name rules_of_nemotron_h[] = {
    {.from = "layers.#.mixer.q_proj", .to = "blk.#.attn_q", .shape = "qH"},
    {.from = "layers.#.mixer.k_proj", .to = "blk.#.attn_k", .shape = "kH"},
    {.from = "layers.#.mixer.v_proj", .to = "blk.#.attn_v", .shape = "kH"},
    {.from = "layers.#.mixer.o_proj", .to = "blk.#.attn_output", .shape = "Hq"},
    {.from = "layers.#.mixer.up_proj", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "layers.#.mixer.down_proj", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = "layers.#.mixer.gate.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {.from = "layers.#.mixer.gate.e_score_correction_bias", .to = "blk.#.exp_probs_b.bias", .shape = "E"},
    {.from = "layers.#.mixer.experts.*.up_proj", .to = "blk.#.ffn_up_exps", .shape = "EeH"},
    {.from = "layers.#.mixer.experts.*.down_proj", .to = "blk.#.ffn_down_exps", .shape = "EHe"},
    {.from = "layers.#.mixer.shared_experts.up_proj", .to = "blk.#.ffn_up_shexp", .shape = "sH"},
    {.from = "layers.#.mixer.shared_experts.down_proj", .to = "blk.#.ffn_down_shexp", .shape = "Hs"},
    {.from = "embeddings", .to = "token_embd", .shape = "VH"},
    {.from = "norm_f", .to = "output_norm", .shape = "H"},
    {.from = "layers.#.norm", .to = "blk.#.attn_norm", .shape = "H"},
    MAMBA_RULES("mixer."),
    {.from = NULL},
};

/* Recurrent layers alone. */
#define rules_of_mamba2 (rules_of_nemotron_h + 12)

/* A feed-forward part, and the last norm, of hybrids. */
#define HYBRID_RULES                                                                        \
    {.from = "final_layernorm", .to = "output_norm", .shape = "H"},                         \
        {.from = "layers.#.feed_forward.gate_proj", .to = "blk.#.ffn_gate", .shape = "FH"}, \
        {.from = "layers.#.feed_forward.up_proj", .to = "blk.#.ffn_up", .shape = "FH"},     \
    {                                                                                       \
        .from = "layers.#.feed_forward.down_proj", .to = "blk.#.ffn_down", .shape = "HF"    \
    }

/* Attention and a recurrent part side by side in each layer; llama.cpp calls a norm without ".weight". */
static const struct vc_arch_name rules_of_falcon_h1[] = {
    {.from = "layers.#.pre_ff_layernorm.weight", .to = "blk.#.ffn_norm", .shape = "H"},
    HYBRID_RULES,
    MAMBA_RULES("mamba."),
    {.from = NULL},
};

/* Layers have one of both, as Granite's hybrids. */
static const struct vc_arch_name rules_of_bamba[] = {
    {.from = "layers.#.pre_ff_layernorm", .to = "blk.#.ffn_norm", .shape = "H"},
    HYBRID_RULES,
    MAMBA_RULES("mamba."),
    {.from = NULL},
};

/* A recurrent layer of Mamba 1; `at` stands in front of its names. */
#define MAMBA_1_RULES(at)                                                                     \
    {.from = "layers.#." at "in_proj", .to = "blk.#.ssm_in", .shape = "jH"},                  \
        {"layers.#." at "conv1d", "blk.#.ssm_conv1d", "iL", VC_ROWS_ALL, VC_MATRIX_CHANNELS}, \
        {.from = "layers.#." at "x_proj", .to = "blk.#.ssm_x", .shape = "Xi"},                \
        {.from = "layers.#." at "dt_proj", .to = "blk.#.ssm_dt", .shape = "iD"},              \
        {"layers.#." at "A_log", "blk.#.ssm_a", "iN", VC_ROWS_ALL, VC_MATRIX_LOGARITHM},      \
        {.from = "layers.#." at "D", .to = "blk.#.ssm_d", .shape = "i"},                      \
    {                                                                                         \
        .from = "layers.#." at "out_proj", .to = "blk.#.ssm_out", .shape = "Hi"               \
    }

static const struct vc_arch_name rules_of_mamba[] = {
    {.from = "embeddings", .to = "token_embd", .shape = "VH"},
    {.from = "norm_f", .to = "output_norm", .shape = "H"},
    {.from = "layers.#.norm", .to = "blk.#.attn_norm", .shape = "H"},
    MAMBA_1_RULES("mixer."),
    {.from = NULL},
};

/* Such layers, with norms inside, between those of attention; some have experts. */
static const struct vc_arch_name rules_of_jamba[] = {
    {.from = "layers.#.pre_ff_layernorm", .to = "blk.#.ffn_norm", .shape = "H"},
    HYBRID_RULES,
    MAMBA_1_RULES("mamba."),
    {.from = "layers.#.mamba.dt_layernorm", .to = "blk.#.ssm_dt_norm", .shape = "D"},
    {.from = "layers.#.mamba.b_layernorm", .to = "blk.#.ssm_b_norm", .shape = "N"},
    {.from = "layers.#.mamba.c_layernorm", .to = "blk.#.ssm_c_norm", .shape = "N"},
    {.from = "layers.#.feed_forward.router.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {.from = "layers.#.feed_forward.experts.*.gate_proj", .to = "blk.#.ffn_gate_exps", .shape = "EeH"},
    {.from = "layers.#.feed_forward.experts.*.up_proj", .to = "blk.#.ffn_up_exps", .shape = "EeH"},
    {.from = "layers.#.feed_forward.experts.*.down_proj", .to = "blk.#.ffn_down_exps", .shape = "EHe"},
    {.from = NULL},
};

/* The numbers of its activation are tensors, of which llama.cpp has lists in its metadata. */
static const struct vc_arch_name rules_of_apertus[] = {
    {.from = "layers.#.attention_layernorm", .to = "blk.#.attn_norm", .shape = "H"},
    {.from = "layers.#.feedforward_layernorm", .to = "blk.#.ffn_norm", .shape = "H"},
    {.from = "layers.#.mlp.act_fn.alpha_n"},
    {.from = "layers.#.mlp.act_fn.alpha_p"},
    {.from = "layers.#.mlp.act_fn.beta"},
    {.from = "layers.#.mlp.act_fn.eps"},
    {.from = NULL},
};

/* Norms of queries and keys have names of their own. */
static const struct vc_arch_name rules_of_hunyuan_moe[] = {
    {.from = "layers.#.mlp.gate.wg.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {.from = "layers.#.mlp.shared_mlp.gate_proj", .to = "blk.#.ffn_gate_shexp", .shape = "sH"},
    {.from = "layers.#.mlp.shared_mlp.up_proj", .to = "blk.#.ffn_up_shexp", .shape = "sH"},
    {.from = "layers.#.mlp.shared_mlp.down_proj", .to = "blk.#.ffn_down_shexp", .shape = "Hs"},
    {.from = "layers.#.self_attn.query_layernorm", .to = "blk.#.attn_q_norm", .shape = "d"},
    {.from = "layers.#.self_attn.key_layernorm", .to = "blk.#.attn_k_norm", .shape = "d"},
    {.from = NULL},
};

/* ... without experts. */
#define rules_of_hunyuan (rules_of_hunyuan_moe + 4)

static const struct vc_arch_name rules_of_exaone_moe[] = {
    {.from = "layers.#.mlp.e_score_correction_bias", .to = "blk.#.exp_probs_b.bias", .shape = "E"},
    {.from = "layers.#.mlp.moe_statics.e_score_correction_bias", .to = "blk.#.exp_probs_b.bias", .shape = "1E"},
    SHARED_RULES,
    {.from = NULL},
};

/* The same from the second or third on. */
#define rules_of_ernie_moe (rules_of_exaone_moe + 1)
#define rules_of_dots1     (rules_of_exaone_moe + 2)

/* llama.cpp calls the norm before the feed-forward part as if it were behind attention. */
static const struct vc_arch_name rules_of_glm4_moe[] = {
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    SHARED_RULES,
    {.from = NULL},
};

/* Norms behind attention and the feed-forward part, and of each head. */
static const struct vc_arch_name rules_of_exaone4[] = {
    {.from = "layers.#.post_feedforward_layernorm", .to = "blk.#.post_ffw_norm", .shape = "H"},
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = NULL},
};

/* The norm before the feed-forward part is called as if it were behind attention, and llama.cpp does so too. */
#define rules_of_seed_oss (rules_of_exaone4 + 1)

static const struct vc_arch_name rules_of_starcoder2[] = {
    {.from = "layers.#.mlp.c_fc", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "layers.#.mlp.c_proj", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = NULL},
};

/* Of GPT-2's kind: the order of the names is that of its layers. */
#define GPT2_RULES                                                                                             \
    {.from = "wte", .to = "token_embd", .shape = "VH"}, {.from = "wpe", .to = "position_embd", .shape = "PH"}, \
        {.from = "ln_f", .to = "output_norm", .shape = "H"},                                                   \
        {.from = "h.#.ln_1", .to = "blk.#.attn_norm", .shape = "H"},                                           \
    {                                                                                                          \
        .from = "h.#.ln_2", .to = "blk.#.ffn_norm", .shape = "H"                                               \
    }

static const struct vc_arch_name rules_of_gpt_bigcode[] = {
    GPT2_RULES,
    {.from = "h.#.attn.c_attn", .to = "blk.#.attn_qkv", .shape = "QH"},
    {.from = "h.#.attn.c_proj", .to = "blk.#.attn_output", .shape = "HH"},
    {.from = "h.#.mlp.c_fc", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "h.#.mlp.c_proj", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = NULL},
};

/* Matrices are [in, out]. */
static const struct vc_arch_name rules_of_gpt2[] = {
    GPT2_RULES,
    {"h.#.attn.c_attn", "blk.#.attn_qkv", "3H", VC_ROWS_ALL, VC_MATRIX_TURNED},
    {"h.#.attn.c_proj", "blk.#.attn_output", "HH", VC_ROWS_ALL, VC_MATRIX_TURNED},
    {"h.#.mlp.c_fc", "blk.#.ffn_up", "FH", VC_ROWS_ALL, VC_MATRIX_TURNED},
    {"h.#.mlp.c_proj", "blk.#.ffn_down", "HF", VC_ROWS_ALL, VC_MATRIX_TURNED},
    {.from = NULL},
};

/* Queries, keys and values are one matrix, head by head. */
static const struct vc_arch_name rules_of_gpt_neox[] = {
    {.from = "embed_in", .to = "token_embd", .shape = "VH"},
    {.from = "final_layer_norm", .to = "output_norm", .shape = "H"},
    {.from = "embed_out", .to = "output", .shape = "VH"},
    {.from = "layers.#.input_layernorm", .to = "blk.#.attn_norm", .shape = "H"},
    {.from = "layers.#.attention.query_key_value", .to = "blk.#.attn_qkv", .shape = "QH", .rows = VC_ROWS_QKV},
    {.from = "layers.#.attention.dense", .to = "blk.#.attn_output", .shape = "Hq"},
    {.from = "layers.#.mlp.dense_h_to_4h", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "layers.#.mlp.dense_4h_to_h", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = NULL},
};

static const struct vc_arch_name rules_of_bloom[] = {
    {.from = "word_embeddings", .to = "token_embd", .shape = "VH"},
    {.from = "word_embeddings_layernorm", .to = "token_embd_norm", .shape = "H"},
    {.from = "ln_f", .to = "output_norm", .shape = "H"},
    {.from = "h.#.input_layernorm", .to = "blk.#.attn_norm", .shape = "H"},
    {.from = "h.#.ln_attn", .to = "blk.#.attn_norm_2", .shape = "H"}, /* of larger Falcons */
    {.from = "h.#.ln_mlp", .to = "blk.#.attn_norm", .shape = "H"},
    {.from = "h.#.self_attention.query_key_value", .to = "blk.#.attn_qkv", .shape = "QH", .rows = VC_ROWS_QKV},
    {.from = "h.#.self_attention.dense", .to = "blk.#.attn_output", .shape = "Hq"},
    {.from = "h.#.post_attention_layernorm", .to = "blk.#.ffn_norm", .shape = "H"},
    {.from = "h.#.mlp.dense_h_to_4h", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "h.#.mlp.dense_4h_to_h", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = NULL},
};

static const struct vc_arch_name rules_of_phi[] = {
    {.from = "final_layernorm", .to = "output_norm", .shape = "H"},
    {.from = "layers.#.self_attn.dense", .to = "blk.#.attn_output", .shape = "Hq"},
    {.from = "layers.#.mlp.fc1", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "layers.#.mlp.fc2", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = NULL},
};

/* Norms before and behind, and gate and up joined. */
static const struct vc_arch_name rules_of_glm4[] = {
    {.from = "layers.#.post_self_attn_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.post_mlp_layernorm", .to = "blk.#.post_ffw_norm", .shape = "H"},
    {.from = "layers.#.mlp.gate_up_proj", .to = "blk.#.ffn_up", .shape = "GH"},
    {.from = NULL},
};

/* Recurrent layers have value heads in another order in llama.cpp (vc_arch_rows). In layers of full attention q_proj
 * has a gate for each element, so twice the rows. */
static const struct vc_arch_name rules_of_qwen3_5[] = {
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.self_attn.q_proj", .to = "blk.#.attn_q", .shape = "pH"},
    {.from = "layers.#.linear_attn.in_proj_qkv", .to = "blk.#.attn_qkv", .shape = "cH", .rows = VC_ROWS_LAST_HEADS},
    {.from = "layers.#.linear_attn.in_proj_z", .to = "blk.#.attn_gate", .shape = "iH", .rows = VC_ROWS_HEADS},
    {.from = "layers.#.linear_attn.in_proj_a", .to = "blk.#.ssm_alpha", .shape = "vH", .rows = VC_ROWS_HEADS},
    {.from = "layers.#.linear_attn.in_proj_b", .to = "blk.#.ssm_beta", .shape = "vH", .rows = VC_ROWS_HEADS},
    {"layers.#.linear_attn.conv1d", "blk.#.ssm_conv1d", "cL", VC_ROWS_LAST_HEADS, VC_MATRIX_CHANNELS},
    {"layers.#.linear_attn.A_log", "blk.#.ssm_a", "v", VC_ROWS_HEADS, VC_MATRIX_LOGARITHM},
    {.from = "layers.#.linear_attn.dt_bias", .to = "blk.#.ssm_dt.bias", .shape = "v", .rows = VC_ROWS_HEADS},
    {.from = "layers.#.linear_attn.norm", .to = "blk.#.ssm_norm", .shape = "u"},
    {.from = "layers.#.linear_attn.out_proj", .to = "blk.#.ssm_out", .shape = "Hi", .rows = VC_ROWS_HEAD_COLUMNS},
    {.from = NULL},
};

/* The first positions of RoBERTa belong to no token. */
static const struct vc_arch_name rules_of_bert[] = {
    {.from = "embeddings.word_embeddings", .to = "token_embd", .shape = "VH"},
    {.from = "embeddings.position_embeddings", .to = "position_embd", .shape = "PH", .rows = VC_ROWS_BEHIND},
    {.from = "embeddings.token_type_embeddings", .to = "token_types", .shape = "TH"},
    {.from = "embeddings.LayerNorm", .to = "token_embd_norm", .shape = "H"},
    {.from = "encoder.layer.#.attention.self.query", .to = "blk.#.attn_q", .shape = "HH"},
    {.from = "encoder.layer.#.attention.self.key", .to = "blk.#.attn_k", .shape = "HH"},
    {.from = "encoder.layer.#.attention.self.value", .to = "blk.#.attn_v", .shape = "HH"},
    {.from = "encoder.layer.#.attention.output.dense", .to = "blk.#.attn_output", .shape = "HH"},
    {.from = "encoder.layer.#.attention.output.LayerNorm", .to = "blk.#.attn_output_norm", .shape = "H"},
    {.from = "encoder.layer.#.intermediate.dense", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "encoder.layer.#.output.dense", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = "encoder.layer.#.output.LayerNorm", .to = "blk.#.layer_output_norm", .shape = "H"},
    {.from = NULL},
};

/* The same with other names, and without types of tokens. */
static const struct vc_arch_name rules_of_distilbert[] = {
    {.from = "embeddings.word_embeddings", .to = "token_embd", .shape = "VH"},
    {.from = "embeddings.position_embeddings", .to = "position_embd", .shape = "PH"},
    {.from = "embeddings.LayerNorm", .to = "token_embd_norm", .shape = "H"},
    {.from = "layer.#.attention.q_lin", .to = "blk.#.attn_q", .shape = "HH"},
    {.from = "layer.#.attention.k_lin", .to = "blk.#.attn_k", .shape = "HH"},
    {.from = "layer.#.attention.v_lin", .to = "blk.#.attn_v", .shape = "HH"},
    {.from = "layer.#.attention.out_lin", .to = "blk.#.attn_output", .shape = "HH"},
    {.from = "layer.#.sa_layer_norm", .to = "blk.#.attn_output_norm", .shape = "H"},
    {.from = "layer.#.ffn.lin1", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "layer.#.ffn.lin2", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = "layer.#.output_layer_norm", .to = "blk.#.layer_output_norm", .shape = "H"},
    {.from = NULL},
};

/* The same with rotary positions and a gate. */
static const struct vc_arch_name rules_of_nomic_bert[] = {
    {.from = "embeddings.word_embeddings", .to = "token_embd", .shape = "VH"},
    {.from = "embeddings.token_type_embeddings", .to = "token_types", .shape = "TH"},
    {.from = "emb_ln", .to = "token_embd_norm", .shape = "H"},
    {.from = "encoder.layers.#.attn.Wqkv", .to = "blk.#.attn_qkv", .shape = "3H"},
    {.from = "encoder.layers.#.attn.out_proj", .to = "blk.#.attn_output", .shape = "HH"},
    {.from = "encoder.layers.#.norm1", .to = "blk.#.attn_output_norm", .shape = "H"},
    {.from = "encoder.layers.#.mlp.fc11", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "encoder.layers.#.mlp.fc12", .to = "blk.#.ffn_gate", .shape = "FH"},
    {.from = "encoder.layers.#.mlp.fc2", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = "encoder.layers.#.norm2", .to = "blk.#.layer_output_norm", .shape = "H"},
    {.from = NULL},
};

/* A stack of T5, its feed-forward part in layer `ff` of a block: one matrix goes up, or a gate (wi_0) and another one. */
#define T5_STACK(stack, to_stack, ff)                                                                                 \
    {.from = stack ".final_layer_norm", .to = to_stack ".output_norm", .shape = "H"},                                 \
        {.from = stack ".block.#.layer.0.layer_norm", .to = to_stack ".blk.#.attn_norm", .shape = "H"},               \
        {.from = stack ".block.#.layer.0.SelfAttention.q", .to = to_stack ".blk.#.attn_q", .shape = "qH"},            \
        {.from = stack ".block.#.layer.0.SelfAttention.k", .to = to_stack ".blk.#.attn_k", .shape = "qH"},            \
        {.from = stack ".block.#.layer.0.SelfAttention.v", .to = to_stack ".blk.#.attn_v", .shape = "qH"},            \
        {.from = stack ".block.#.layer.0.SelfAttention.o", .to = to_stack ".blk.#.attn_o", .shape = "Hq"},            \
        {.from = stack ".block.#.layer.0.SelfAttention.relative_attention_bias",                                      \
         .to = to_stack ".blk.#.attn_rel_b",                                                                          \
         .shape = "BA"},                                                                                              \
        {.from = stack ".block.#.layer." ff ".layer_norm", .to = to_stack ".blk.#.ffn_norm", .shape = "H"},           \
        {.from = stack ".block.#.layer." ff ".DenseReluDense.wi", .to = to_stack ".blk.#.ffn_up", .shape = "FH"},     \
        {.from = stack ".block.#.layer." ff ".DenseReluDense.wi_0", .to = to_stack ".blk.#.ffn_gate", .shape = "FH"}, \
        {.from = stack ".block.#.layer." ff ".DenseReluDense.wi_1", .to = to_stack ".blk.#.ffn_up", .shape = "FH"},   \
        {.from = stack ".block.#.layer." ff ".DenseReluDense.wo", .to = to_stack ".blk.#.ffn_down", .shape = "HF"},   \
    {                                                                                                                 \
        .from = stack ".embed_tokens.weight"                                                                          \
    }

static const struct vc_arch_name rules_of_t5[] = {
    {.from = "shared", .to = "token_embd", .shape = "VH"},
    T5_STACK("encoder", "enc", "1"),
    T5_STACK("decoder", "dec", "2"),
    {.from = "decoder.block.#.layer.1.layer_norm", .to = "dec.blk.#.cross_attn_norm", .shape = "H"},
    {.from = "decoder.block.#.layer.1.EncDecAttention.q", .to = "dec.blk.#.cross_attn_q", .shape = "qH"},
    {.from = "decoder.block.#.layer.1.EncDecAttention.k", .to = "dec.blk.#.cross_attn_k", .shape = "qH"},
    {.from = "decoder.block.#.layer.1.EncDecAttention.v", .to = "dec.blk.#.cross_attn_v", .shape = "qH"},
    {.from = "decoder.block.#.layer.1.EncDecAttention.o", .to = "dec.blk.#.cross_attn_o", .shape = "Hq"},
    {.from =
         "decoder.block.#.layer.1.EncDecAttention.relative_attention_bias.weight"}, /* of old files; nothing reads it */
    {.from = NULL},
};

/* An encoder with rotary positions, windows, and norms before; gate and the other part are joined, and stay so. */
static const struct vc_arch_name rules_of_modernbert[] = {
    {.from = "embeddings.tok_embeddings", .to = "token_embd", .shape = "VH"},
    {.from = "embeddings.norm", .to = "token_embd_norm", .shape = "H"},
    {.from = "final_norm", .to = "output_norm", .shape = "H"},
    {.from = "layers.#.attn_norm", .to = "blk.#.attn_norm", .shape = "H"}, /* the first layer has none */
    {.from = "layers.#.attn.Wqkv", .to = "blk.#.attn_qkv", .shape = "3H"},
    {.from = "layers.#.attn.Wo", .to = "blk.#.attn_output", .shape = "HH"},
    {.from = "layers.#.mlp_norm", .to = "blk.#.ffn_norm", .shape = "H"},
    {.from = "layers.#.mlp.Wi", .to = "blk.#.ffn_up", .shape = "GH"},
    {.from = "layers.#.mlp.Wo", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = NULL},
};

/* Experts are matrices of [in, out], in which rows of the gate and of the other part take turns; or blocks of MXFP4. */
static const struct vc_arch_name rules_of_gpt_oss[] = {
    {.from = "layers.#.self_attn.sinks", .to = "blk.#.attn_sinks.weight", .shape = "A"},
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.mlp.router", .to = "blk.#.ffn_gate_inp", .shape = "EH"},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", "EeH", VC_ROWS_EVEN, VC_MATRIX_TURNED},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", "EeH", VC_ROWS_ODD, VC_MATRIX_TURNED},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", "EHe", VC_ROWS_ALL, VC_MATRIX_TURNED},
    {"layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_gate_exps.bias", "Ee", VC_ROWS_EVEN, VC_MATRIX_TURNED},
    {"layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_up_exps.bias", "Ee", VC_ROWS_ODD, VC_MATRIX_TURNED},
    {.from = "layers.#.mlp.experts.down_proj_bias", .to = "blk.#.ffn_down_exps.bias", .shape = "EH"},
    {"layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_gate_exps.weight", "EeH", VC_ROWS_EVEN, VC_MATRIX_BLOCKS},
    {"layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_up_exps.weight", "EeH", VC_ROWS_ODD, VC_MATRIX_BLOCKS},
    {"layers.#.mlp.experts.down_proj_blocks", "blk.#.ffn_down_exps.weight", "EHe", VC_ROWS_ALL, VC_MATRIX_BLOCKS},
    {.from = "layers.#.mlp.experts.gate_up_proj_scales"},
    {.from = "layers.#.mlp.experts.down_proj_scales"},
    {.from = NULL},
};

/* Digits as a number, or false: none, or more than a file of ours has layers. */
static bool take_number(const char **at, int64_t *out)
{
    size_t n = strspn(*at, "0123456789");

    if (n == 0 || n > 9) {
        return false;
    }
    *out = strtol(*at, NULL, 10);
    *at += n;
    return true;
}

/* A pattern may be a beginning only: what follows is the caller's matter. */
bool vc_arch_name_fits(const char *pattern, const char *name, int64_t *layer, int64_t *expert, const char **rest)
{
    *layer = *expert = -1;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '#' || *pattern == '*') {
            if (!take_number(&name, *pattern == '#' ? layer : expert)) {
                return false;
            }
        } else if (*pattern != *name++) {
            return false;
        }
    }
    *rest = name;
    return true;
}

bool vc_arch_name_is_whole(const char *to)
{
    return vc_ends_in(to, ".weight") || vc_ends_in(to, ".bias") || vc_ends_in(to, ".scale") ||
           vc_ends_in(to, ".ssm_a") || vc_ends_in(to, ".ssm_d") || vc_ends_in(to, ".weight.1") ||
           vc_ends_in(to, ".class_embd") || vc_ends_in(to, "v.std_bias") || vc_ends_in(to, "v.std_scale");
}

/* The table of letters is in arch_family.h. */
uint64_t vc_arch_size_of(const struct vc_arch_sizes *s, char letter)
{
    const uint64_t q = s->heads * s->head_size;
    const uint64_t k = s->key_heads * s->head_size;
    const uint64_t inner = s->value_units * s->unit;
    const uint64_t sizes[128] = {['H'] = s->hidden,
                                 ['q'] = q,
                                 ['k'] = k,
                                 ['d'] = s->head_size,
                                 ['F'] = s->feed_forward,
                                 ['V'] = s->vocabulary,
                                 ['E'] = s->experts,
                                 ['e'] = s->expert_size,
                                 ['s'] = s->shared_size,
                                 ['Q'] = q + 2 * k,
                                 ['G'] = 2 * s->feed_forward,
                                 ['A'] = s->heads,
                                 ['P'] = s->context,
                                 ['T'] = s->types,
                                 ['p'] = 2 * q,
                                 ['u'] = s->unit,
                                 ['v'] = s->value_units,
                                 ['i'] = inner,
                                 ['c'] = 2 * s->key_units * s->state + inner,
                                 ['L'] = s->kernel,
                                 ['g'] = 2 * s->expert_size,
                                 ['I'] = s->input,
                                 ['J'] = s->input * s->layers,
                                 ['3'] = 3 * s->hidden,
                                 ['a'] = s->context + s->skipped,
                                 ['N'] = s->state,
                                 ['K'] = s->key_units,
                                 ['x'] = s->key_units != 0 ? inner / s->key_units : 0,
                                 ['z'] = 2 * (s->key_units * s->state + inner) + s->value_units,
                                 ['b'] = 2 * s->value_units,
                                 ['j'] = 2 * inner,
                                 ['D'] = s->step_rank,
                                 ['X'] = s->step_rank + 2 * s->state,
                                 ['r'] = s->rank,
                                 ['M'] = s->rank + s->head_size,
                                 ['n'] = s->plain,
                                 ['W'] = s->value_head,
                                 ['w'] = s->heads * s->value_head,
                                 ['R'] = s->query_rank,
                                 ['m'] = s->heads * (s->plain + s->head_size),
                                 ['y'] = s->plain + s->head_size,
                                 ['h'] = s->key_heads,
                                 ['5'] = s->index_heads,
                                 ['6'] = s->index_size,
                                 ['7'] = s->index_heads * s->index_size,
                                 ['B'] = s->buckets,
                                 ['C'] = s->copies != 0 ? s->copies - 1 : 0,
                                 ['t'] = s->copies,
                                 ['U'] = s->copies * s->copies,
                                 ['l'] = s->laurel,
                                 ['S'] = s->patch,
                                 ['f'] = 3,
                                 ['o'] = 3 * s->patch * s->patch,
                                 ['O'] = s->hidden * s->merge * s->merge,
                                 ['Y'] = s->text,
                                 ['Z'] = s->adapter,
                                 ['1'] = 1};

    return sizes[(unsigned char)letter % 128];
}

/* ---- families ---- */

#define ON(trait)    VC_ARCH_##trait
#define BUILD(build) VC_BUILD_##build
#define COHERE       (BUILD(MEANS) | BUILD(WIDE) | BUILD(PARALLEL) | BUILD(NEIGHBOURS) | BUILD(LOGIT_SCALE))
/* Of decoders of the form of Llama in llama.cpp: neighbours are rotated, and rope_freqs.weight is read. */
#define AS_LLAMA (ON(PERMUTES) | ON(FREQS))
#define FEW      VC_ARCH_OF_SEQUENCES
#define SOME     (VC_ARCH_OF_SEQUENCES | VC_ARCH_OF_TOKENS)
#define MOST     (VC_ARCH_OF_SEQUENCES | VC_ARCH_OF_TOKENS | VC_ARCH_OF_QUESTIONS)
#define GEMMA    ON(GRAPH) | ON(FROM_1) | ON(BIASES) | ON(SCALED)

/* For each family: types of config.json, the class of transformers and that of its text where it is another,
 * llama.cpp's architecture, traits, more classes, norms; then what differs. */
static const struct vc_arch_family families[] = {
    /* decoders of Llama's form, and those with experts */
    {"llama", "Llama", NULL, "llama", ON(GRAPH) | AS_LLAMA | ON(BIASES) | ON(MLP_BIAS), MOST, .layer = DENSE,
     .maybe = ALL_BIASES, .activation = SILU},
    {"mistral", "Mistral", NULL, "llama", ON(GRAPH) | AS_LLAMA, MOST, .windows = VC_WINDOW_ALL, .layer = DENSE,
     .activation = SILU},
    {"mixtral", "Mixtral", NULL, "llama", ON(GRAPH) | AS_LLAMA | ON(EXPERTS) | ON(SUM_IS_1), MOST,
     .windows = VC_WINDOW_ALL, .layer = EXPERTS, .activation = SILU, .rules = rules_of_mixtral},
    {"qwen2", "Qwen2", NULL, "qwen2", ON(GRAPH) | ON(HEADS_FILL) | ON(QKV_BIAS), MOST, .windows = VC_WINDOW_BEHIND,
     .layer = DENSE, .maybe = QKV_BIASES, .activation = SILU},
    {"qwen2_moe", "Qwen2Moe", NULL, "qwen2moe",
     ON(GRAPH) | ON(HEADS_FILL) | ON(QKV_BIAS) | ON(EXPERTS) | ON(EXPERT_SIZE) | ON(SUM_KEY) | ON(SHARED_EXPERT) |
         ON(OWN_HEAD),
     MOST, .windows = VC_WINDOW_BEFORE, .layer = EXPERTS SHARED, .maybe = QKV_BIASES, .activation = SILU},
    {"qwen3", "Qwen3", NULL, "qwen3", ON(GRAPH) | ON(BIASES), MOST, .qk_norm = VC_QK_NORM_HEAD,
     .windows = VC_WINDOW_BEHIND, .layer = DENSE QK_NORMS, .maybe = QKV_BIASES, .activation = SILU},
    {"qwen3_moe", "Qwen3Moe", NULL, "qwen3moe",
     ON(GRAPH) | ON(BIASES) | ON(EXPERTS) | ON(EXPERT_SIZE) | ON(SUM_KEY) | ON(SUM_IS_1), MOST,
     .qk_norm = VC_QK_NORM_HEAD, .windows = VC_WINDOW_USED, .layer = EXPERTS QK_NORMS, .maybe = QKV_BIASES,
     .activation = SILU},
    /* text of models that also see: their positions of pictures are sections of the rotated pairs */
    {"qwen2_5_vl_text|qwen2_5_vl|qwen2_vl_text|qwen2_vl", "Qwen2_5_VL", NULL, "qwen2vl", ON(HEADS_FILL) | ON(SECTIONS),
     .windows = VC_WINDOW_BEHIND, .layer = DENSE, .maybe = QKV_BIASES, .activation = SILU, .plain = "qwen2"},
    {"qwen3_vl_text|qwen3_vl", "Qwen3VL", NULL, "qwen3vl", ON(SECTIONS), .qk_norm = VC_QK_NORM_HEAD,
     .layer = DENSE QK_NORMS, .maybe = QKV_BIASES, .activation = SILU, .plain = "qwen3"},
    {"qwen3_vl_moe_text|qwen3_vl_moe", "Qwen3VLMoe", NULL, "qwen3vlmoe",
     ON(SECTIONS) | ON(EXPERTS) | ON(EXPERT_SIZE) | ON(SUM_IS_1), .qk_norm = VC_QK_NORM_HEAD, .layer = EXPERTS QK_NORMS,
     .maybe = QKV_BIASES, .activation = SILU, .rules = rules_of_qwen3_vl, .plain = "qwen3_moe"},
    /* recurrent layers between those of attention */
    {"qwen3_5_text|qwen3_5", "Qwen3_5", NULL, "qwen35", ON(FROM_1) | ON(RECURRENT) | ON(PARTIAL),
     .layer = "attn_norm post_attention_norm ffn_gate ffn_up ffn_down", .first = GATED, .second = RECURRENT,
     .activation = SILU, .rules = rules_of_qwen3_5},
    {"qwen3_5_moe_text|qwen3_5_moe", "Qwen3_5Moe", NULL, "qwen35moe",
     ON(FROM_1) | ON(RECURRENT) | ON(PARTIAL) | ON(EXPERTS) | ON(EXPERT_SIZE) | ON(SHARED_EXPERT),
     .layer = "attn_norm post_attention_norm ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps" SHARED,
     .first = GATED, .second = RECURRENT, .activation = SILU, .rules = rules_of_qwen3_5},
    /* Gemma, of four generations */
    {"gemma", "Gemma", NULL, "gemma", GEMMA | ON(GELU_IS_TANH) | ON(NO_HEAD), SOME, .layer = DENSE,
     .activation = TANH "|gelu"},
    {"gemma2", "Gemma2", NULL, "gemma2", GEMMA | ON(CAPS_SCORES) | ON(CAPS_LOGITS) | ON(OWN_ACT_KEY) | ON(NO_HEAD),
     SOME, VC_NORMS_AROUND, .windows = VC_WINDOW_PATTERN, .largest = 46,
     .layer = DENSE " post_attention_norm post_ffw_norm", .activation = TANH, .rules = four_norms},
    {"gemma3_text|gemma3", "Gemma3", "Gemma3Text", "gemma3", GEMMA | ON(CAPS_LOGITS) | ON(OWN_ACT_KEY) | ON(LOCAL_ROPE),
     FEW, VC_NORMS_AROUND, VC_QK_NORM_HEAD, VC_WINDOW_PATTERN, .largest = 62,
     .layer = DENSE QK_NORMS " post_attention_norm post_ffw_norm", .activation = TANH, .rules = four_norms},
    /* the same class in a model that makes a vector of a text: llama.cpp has a name of its own for it */
    {"gemma3_text", "Gemma3", "Gemma3Text", "gemma-embedding", 0, .windows = VC_WINDOW_PATTERN},
    {"gemma3n_text|gemma3n", "Gemma3n", NULL, "gemma3n", ON(LOCAL_ROPE) | ON(CAPS_LOGITS) | ON(NO_HEAD),
     .windows = VC_WINDOW_PATTERN,
     .layer = DENSE QK_NORMS " post_attention_norm post_ffw_norm inp_gate proj post_norm altup_correct_coef "
                             "altup_correct_scale altup_predict_coef altup_router altup_router_norm laurel_l laurel_r "
                             "laurel_post_norm",
     .whole = "output_norm per_layer_token_embd per_layer_model_proj per_layer_proj_norm altup_proj altup_unembd_proj",
     .activation = TANH, .rules = rules_of_gemma3n, .keeps = "vocab_size_per_layer_input"},
    {"gemma4_text|gemma4", "Gemma4", NULL, "gemma4", ON(NO_HEAD_SIZE) | ON(PARTIAL) | ON(LOCAL_ROPE) | ON(OWN_ACT_KEY),
     .windows = VC_WINDOW_PATTERN, .layer = GEMMA4, .maybe = MAYBE_GEMMA4, .activation = TANH,
     .rules = rules_of_gemma4},
    {"gemma4_text+experts", "Gemma4", NULL, "gemma4",
     ON(NO_HEAD_SIZE) | ON(PARTIAL) | ON(LOCAL_ROPE) | ON(OWN_ACT_KEY) | ON(EXPERTS) | ON(EXPERT_SIZE),
     .windows = VC_WINDOW_PATTERN,
     .layer = GEMMA4 " ffn_gate_inp ffn_gate_inp.scale ffn_gate_up_exps ffn_down_exps ffn_down_exps.scale "
                     "pre_ffw_norm_2 post_ffw_norm_1 post_ffw_norm_2",
     .maybe = MAYBE_GEMMA4, .activation = TANH, .rules = rules_of_gemma4},
    /* others, each with something of its own */
    {"phi3", "Phi3", NULL, "phi3", ON(GRAPH) | ON(PACKED) | ON(DROPS) | ON(HEADS_FILL) | ON(PARTIAL), SOME,
     .windows = VC_WINDOW_ALL, .layer = "attn_norm attn_qkv attn_output ffn_norm ffn_up ffn_down", .activation = SILU,
     .rules = rules_of_phi3},
    {"smollm3", "SmolLM3", NULL, "smollm3", ON(GRAPH) | ON(PERMUTES) | ON(BIASES) | ON(MLP_BIAS), MOST,
     .builds = BUILD(ROTATES_SOME), .windows = VC_WINDOW_USED, .layer = DENSE, .maybe = QKV_BIASES, .activation = SILU},
    {"granite", "Granite", NULL, "granite",
     ON(GRAPH) | AS_LLAMA | ON(BIASES) | ON(MLP_BIAS) | ON(HEADS_FILL) | ON(NO_HEAD_SIZE), .builds = BUILD(FACTORS),
     .layer = DENSE, .maybe = ALL_BIASES, .activation = SILU},
    {"olmo", "Olmo", NULL, "olmo",
     ON(GRAPH) | ON(PLAIN_NORM) | ON(BIASES) | ON(CLIPPED) | ON(PERMUTES) | ON(HEADS_FILL), FEW, .layer = QKVO " " MLP,
     .whole = "", .activation = SILU},
    {"olmo2", "Olmo2", NULL, "olmo2", ON(GRAPH) | ON(BIASES) | ON(HEADS_FILL) | ON(OWN_HEAD), FEW, VC_NORMS_BEHIND,
     VC_QK_NORM_ALL, .layer = OLMO, .activation = SILU, .rules = rules_of_olmo2},
    {"olmo3", "Olmo3", NULL, "olmo2", ON(HEADS_FILL) | ON(OWN_HEAD), 0, VC_NORMS_BEHIND, VC_QK_NORM_ALL,
     VC_WINDOW_PATTERN, .layer = OLMO, .activation = SILU, .rules = rules_of_olmo2},
    {"glm", "Glm", NULL, "chatglm", ON(PARTIAL) | ON(HEADS_FILL), .layer = ATTENTION "ffn_norm ffn_up ffn_down",
     .maybe = QKV_BIASES, .activation = SILU, .rules = rules_of_phi3},
#define GLM4                                                                                              \
    .layer = ATTENTION "post_attention_norm ffn_norm ffn_up ffn_down post_ffw_norm", .maybe = QKV_BIASES, \
    .activation = SILU, .rules = rules_of_glm4
    {"glm4", "Glm4", NULL, "glm4", ON(PARTIAL), GLM4},
    {"glm4v_text|glm4v|glm_ocr_text|glm_ocr", "Glm4v", NULL, "glm4", ON(PARTIAL) | ON(SECTIONS) | ON(SORTS), GLM4,
     .plain = "glm4"},
    {"seed_oss", "SeedOss", NULL, "seed_oss", 0, .layer = ATTENTION "post_attention_norm ffn_gate ffn_up ffn_down",
     .maybe = QKV_BIASES, .activation = SILU, .rules = rules_of_seed_oss},
    {"gpt_oss", "GptOss", NULL, "gpt-oss", ON(EXPERTS) | ON(EXPERT_SIZE) | ON(OWN_HEAD), .windows = VC_WINDOW_PATTERN,
     .layer = EXPERTS_OF_GPT_OSS, .activation = SILU, .rules = rules_of_gpt_oss},
    {"ministral3", "Ministral3", NULL, "mistral3", AS_LLAMA, .windows = VC_WINDOW_ALL, .layer = DENSE,
     .activation = SILU},
    {"granitemoe", "GraniteMoe", NULL, "granitemoe",
     AS_LLAMA | ON(HEADS_FILL) | ON(NO_HEAD_SIZE) | ON(EXPERTS) | ON(SUM_IS_1), .layer = EXPERTS,
     .maybe = QKV_BIASES " attn_output.bias", .activation = SILU, .rules = rules_of_granitemoe},
    {"granitemoeshared", "GraniteMoeShared", NULL, "granitemoe",
     AS_LLAMA | ON(HEADS_FILL) | ON(NO_HEAD_SIZE) | ON(EXPERTS) | ON(SUM_IS_1) | ON(SHARED_EXPERT),
     .layer = EXPERTS " " MOE_SHARED, .maybe = QKV_BIASES " attn_output.bias", .activation = SILU,
     .rules = rules_of_granitemoe},
    {"granitemoehybrid", "GraniteMoeHybrid", NULL, "granitehybrid",
     AS_LLAMA | ON(HEADS_FILL) | ON(NO_HEAD_SIZE) | ON(RECURRENT), .layer = "attn_norm ffn_norm " MLP, .first = QKVO,
     .second = MAMBA, .maybe = "ssm_conv1d.bias attn_output.bias " QKV_BIASES, .activation = SILU,
     .rules = rules_of_granitehybrid,
     .keeps = "position_embedding_type|max_position_embeddings|intermediate_size|mamba_expand"},
    /* without recurrent layers it is a Granite */
    {"granitemoehybrid+attention", "GraniteMoeHybrid", NULL, "granite", AS_LLAMA | ON(HEADS_FILL) | ON(NO_HEAD_SIZE),
     .layer = DENSE, .maybe = QKV_BIASES " attn_output.bias", .activation = SILU, .rules = rules_of_granitehybrid,
     .keeps = MAMBA_SIZES},
    {"granitemoehybrid+attention+experts", "GraniteMoeHybrid", NULL, "granitemoe",
     AS_LLAMA | ON(HEADS_FILL) | ON(NO_HEAD_SIZE) | ON(EXPERTS) | ON(SUM_IS_1) | ON(SHARED_EXPERT),
     .layer = EXPERTS " " MOE_SHARED, .maybe = QKV_BIASES " attn_output.bias", .activation = SILU,
     .rules = rules_of_granitemoe, .keeps = MAMBA_SIZES},
    {"granitemoehybrid+experts", "GraniteMoeHybrid", NULL, "granitehybrid",
     AS_LLAMA | ON(HEADS_FILL) | ON(NO_HEAD_SIZE) | ON(RECURRENT) | ON(EXPERTS) | ON(SUM_IS_1) | ON(SHARED_EXPERT),
     .layer = "attn_norm ffn_norm " MOE " " MOE_SHARED, .first = QKVO, .second = MAMBA,
     .maybe = "ssm_conv1d.bias attn_output.bias " QKV_BIASES, .activation = SILU, .rules = rules_of_granitemoe,
     .keeps = "position_embedding_type|max_position_embeddings|mamba_expand"},
    {"bamba", "Bamba", NULL, "granitehybrid",
     AS_LLAMA | ON(HEADS_FILL) | ON(NO_HEAD_SIZE) | ON(RECURRENT) | ON(PARTIAL), .layer = "attn_norm ffn_norm " MLP,
     .first = QKVO, .second = MAMBA, .maybe = "ssm_conv1d.bias attn_output.bias " QKV_BIASES, .activation = SILU,
     .rules = rules_of_bamba},
    {"jamba", "Jamba", NULL, "jamba", ON(HEADS_FILL) | ON(NO_HEAD_SIZE) | ON(RECURRENT) | ON(EXPERTS),
     .layer = "attn_norm ffn_norm", .first = QKVO,
     .second = MAMBA_1 " ssm_conv1d.bias ssm_dt_norm ssm_b_norm ssm_c_norm", .dense = MLP, .sparse = MOE,
     .activation = SILU, .rules = rules_of_jamba},
/* keys and values that are decompressed */
#define LATENT_EXPERTS ON(NO_HEAD_SIZE) | ON(EXPERTS) | ON(EXPERT_SIZE), .dense = MLP, .sparse = MOE, .activation = SILU
#define AS_DEEPSEEK    LATENT_EXPERTS, .rules = rules_of_deepseek
    {"deepseek_v3|kimi_k2", "DeepseekV3", NULL, "deepseek2", AS_DEEPSEEK, .layer = LATENT, .maybe = MAYBE_LATENT,
     .keeps = "scoring_func|topk_method|rope_interleave"},
    {"deepseek_v2", "DeepseekV2", NULL, "deepseek2", AS_DEEPSEEK, .layer = LATENT, .maybe = MAYBE_LATENT,
     .keeps = "scoring_func|topk_method"},
    {"deepseek_v32", "DeepseekV32", NULL, "deepseek32", AS_DEEPSEEK, .layer = LATENT INDEXER, .maybe = MAYBE_LATENT},
    {"glm_moe_dsa", "GlmMoeDsa", NULL, "glm-dsa", AS_DEEPSEEK, .layer = LATENT, .maybe = MAYBE_LATENT INDEXER,
     .keeps = "indexer_types"},
    {"youtu", "Youtu", NULL, "deepseek2", ON(NO_HEAD_SIZE) | ON(EXPERT_SIZE), .layer = LATENT " " MLP,
     .maybe = MAYBE_LATENT, .activation = SILU, .rules = rules_of_deepseek, .keeps = "rope_interleave"},
    {"mistral4", "Mistral4", NULL, "mistral4", LATENT_EXPERTS, .rules = rules_of_mistral4, .layer = LATENT,
     .maybe = MAYBE_LATENT, .keeps = "rope_interleave"},
    {"glm4_moe_lite", "Glm4MoeLite", NULL, "deepseek2", AS_DEEPSEEK, .layer = LATENT, .maybe = MAYBE_LATENT,
     .keeps = "rope_interleave"},
/* experts with numbers that are added before they are chosen */
#define GLM4_MOE                                                                                        \
    .layer = "attn_norm " QKVO " post_attention_norm", .dense = MLP, .sparse = MOE " exp_probs_b.bias", \
    .maybe = QKV_BIASES " attn_q_norm attn_k_norm " MOE_SHARED, .activation = SILU, .rules = rules_of_glm4_moe
    {"glm4_moe|solar_open", "Glm4Moe", NULL, "glm4moe", ON(PARTIAL) | ON(EXPERTS) | ON(EXPERT_SIZE), GLM4_MOE},
    {"glm4v_moe_text|glm4v_moe", "Glm4vMoe", NULL, "glm4moe",
     ON(PARTIAL) | ON(SECTIONS) | ON(EXPERTS) | ON(EXPERT_SIZE), GLM4_MOE, .plain = "glm4_moe"},
    {"dots1", "Dots1", NULL, "dots1", ON(EXPERTS) | ON(EXPERT_SIZE) | ON(OWN_HEAD), .qk_norm = VC_QK_NORM_HEAD,
     .layer = ATTENTION "ffn_norm" QK_NORMS, .dense = MLP, .sparse = MOE " exp_probs_b.bias", .maybe = MOE_SHARED,
     .activation = SILU, .rules = rules_of_dots1},
    {"exaone_moe", "ExaoneMoe", NULL, "exaone-moe", ON(EXPERTS) | ON(EXPERT_SIZE), .qk_norm = VC_QK_NORM_HEAD,
     .windows = VC_WINDOW_PATTERN, .layer = ATTENTION "ffn_norm" QK_NORMS, .dense = MLP,
     .sparse = MOE " exp_probs_b.bias", .maybe = MOE_SHARED, .activation = SILU, .rules = rules_of_exaone_moe},
    {"ernie4_5_moe", "Ernie4_5_Moe", NULL, "ernie4_5-moe", ON(EXPERTS) | ON(EXPERT_SIZE), .layer = ATTENTION "ffn_norm",
     .dense = MLP, .sparse = MOE " exp_probs_b.bias", .maybe = MOE_SHARED, .activation = SILU,
     .rules = rules_of_ernie_moe},
    {"hunyuan_v1_moe", "HunYuanMoEV1", NULL, "hunyuan-moe", ON(EXPERTS) | ON(EXPERT_SIZE), .qk_norm = VC_QK_NORM_HEAD,
     .layer = EXPERTS QK_NORMS " " MOE_SHARED, .activation = SILU, .rules = rules_of_hunyuan_moe},
    {"qwen3_next", "Qwen3Next", NULL, "qwen3next",
     ON(FROM_1) | ON(RECURRENT) | ON(PARTIAL) | ON(EXPERTS) | ON(EXPERT_SIZE) | ON(SHARED_EXPERT),
     .layer = "attn_norm post_attention_norm " MOE SHARED, .first = GATED,
     .second = "attn_qkv attn_gate ssm_conv1d ssm_dt.bias ssm_a ssm_ba ssm_norm ssm_out", .activation = SILU,
     .rules = rules_of_qwen3_next},
    {"lfm2", "Lfm2", NULL, "lfm2", ON(RECURRENT) | ON(HEADS_FILL), .qk_norm = VC_QK_NORM_HEAD,
     .layer = "attn_norm ffn_norm " MLP, .first = QKVO QK_NORMS, .second = CONVOLUTION, .whole = "token_embd_norm",
     .activation = SILU, .rules = rules_of_lfm2},
    {"lfm2_moe", "Lfm2Moe", NULL, "lfm2moe", ON(RECURRENT) | ON(HEADS_FILL) | ON(EXPERTS) | ON(EXPERT_SIZE),
     .qk_norm = VC_QK_NORM_HEAD, .layer = "attn_norm ffn_norm", .first = QKVO QK_NORMS, .second = CONVOLUTION,
     .dense = MLP, .sparse = MOE " exp_probs_b.bias", .whole = "token_embd_norm", .activation = SILU,
     .rules = rules_of_lfm2},
    {"llama4_text|llama4", "Llama4", NULL, "llama4", ON(FREQS) | ON(EXPERTS) | ON(EXPERT_SIZE),
     .layer = ATTENTION "ffn_norm", .dense = MLP, .sparse = MOE " " MOE_SHARED, .activation = SILU,
     .rules = rules_of_llama4, .windows = VC_WINDOW_CHUNKS, .window = 8192, .keeps = "use_qk_norm"},
    {"nemotron_h", "NemotronH", NULL, "nemotron_h", ON(RECURRENT) | ON(PERMUTES), .layer = "attn_norm", .first = QKVO,
     .second = MAMBA, .maybe = "ssm_conv1d.bias attn_output.bias " QKV_BIASES, .dense = "ffn_up ffn_down",
     .activation = "relu2", .rules = rules_of_nemotron_h, .prefix = "backbone.", .keeps = "max_position_embeddings"},
    {"nemotron_h+experts", "NemotronH", NULL, "nemotron_h_moe",
     ON(RECURRENT) | ON(PERMUTES) | ON(EXPERTS) | ON(EXPERT_SIZE) | ON(SHARED_EXPERT), .layer = "attn_norm",
     .first = QKVO, .second = MAMBA, .maybe = "ssm_conv1d.bias attn_output.bias " QKV_BIASES,
     .sparse = "ffn_gate_inp ffn_up_exps ffn_down_exps exp_probs_b.bias ffn_up_shexp ffn_down_shexp",
     .activation = "relu2", .rules = rules_of_nemotron_h, .prefix = "backbone.", .keeps = "max_position_embeddings"},
    {"falcon_h1", "FalconH1", NULL, "falcon-h1", ON(OWN_HEAD),
     .layer = "attn_norm " QKVO " " MLP " ssm_in ssm_conv1d ssm_dt.bias ssm_a ssm_d ssm_out",
     .maybe = "ffn_norm ssm_norm ssm_conv1d.bias " QKV_BIASES, .activation = SILU, .rules = rules_of_falcon_h1},
    /* older ones */
    {"cohere", "Cohere", NULL, "command-r", ON(GRAPH) | ON(BIASES) | ON(NO_HEAD) | ON(HEADS_FILL), .builds = COHERE,
     .layer = "attn_norm " QKVO " " MLP, .activation = SILU},
    {"cohere2", "Cohere2", NULL, "cohere2", ON(GRAPH) | ON(BIASES) | ON(NO_HEAD) | ON(HEADS_FILL),
     .builds = COHERE | BUILD(ROTATES_SLIDING), .windows = VC_WINDOW_PATTERN, .layer = "attn_norm " QKVO " " MLP,
     .activation = SILU},
    {"cohere2_moe", "Cohere2Moe", NULL, "cohere2moe", ON(EXPERTS) | ON(EXPERT_SIZE), .windows = VC_WINDOW_PATTERN,
     .layer = "attn_norm " QKVO, .dense = MLP, .sparse = MOE, .maybe = MOE_SHARED, .activation = SILU,
     .rules = rules_of_dots1, .keeps = "prefix_dense_sliding_window_pattern"},
    {"exaone4", "Exaone4", NULL, "exaone4", ON(FREQS) | ON(HEADS_FILL), .qk_norm = VC_QK_NORM_HEAD,
     .windows = VC_WINDOW_PATTERN, .layer = QKVO " post_attention_norm " MLP " post_ffw_norm" QK_NORMS,
     .activation = SILU, .rules = rules_of_exaone4},
    {"starcoder2", "Starcoder2", NULL, "starcoder2", ON(GRAPH) | ON(DROPS) | ON(HEADS_FILL), SOME,
     .builds = BUILD(MEANS) | BUILD(SHIFTS) | BUILD(NO_GATE) | BUILD(USE_BIAS),
     .modules = {.up = "c_fc", .down = "c_proj"}, .windows = VC_WINDOW_ALL,
     .layer = NORM_BIASES " " QKVO " " QKV_BIASES " attn_output.bias ffn_up ffn_up.bias ffn_down ffn_down.bias",
     .whole = LAST_NORM, .activation = TANH, .rules = rules_of_starcoder2},
    {"gpt2", "GPT2", NULL, "gpt2", ON(NO_HEAD_SIZE) | ON(HEADS_FILL), .layer = NORM_BIASES " " JOINED " " JOINED_BIASES,
     .whole = LAST_NORM " position_embd", .activation = "gelu_new|gelu_pytorch_tanh", .rules = rules_of_gpt2,
     .prefix = "transformer."},
    {"gpt_bigcode", "GPTBigCode", NULL, "starcoder", ON(NO_HEAD_SIZE) | ON(HEADS_FILL),
     .layer = NORM_BIASES " " JOINED " " JOINED_BIASES, .whole = LAST_NORM " position_embd",
     .activation = "gelu_pytorch_tanh|gelu_new", .rules = rules_of_gpt_bigcode, .prefix = "transformer."},
    {"gpt_neox", "GPTNeoX", NULL, "gptneox", ON(PARTIAL) | ON(HEADS_FILL) | ON(OWN_HEAD),
     .layer = NORM_BIASES " " JOINED " " JOINED_BIASES, .whole = LAST_NORM, .activation = "gelu",
     .rules = rules_of_gpt_neox, .prefix = "gpt_neox."},
    {"bloom", "Bloom", NULL, "bloom", ON(NO_HEAD_SIZE) | ON(HEADS_FILL),
     .layer = NORM_BIASES " " JOINED " " JOINED_BIASES, .whole = LAST_NORM " token_embd_norm token_embd_norm.bias",
     .rules = rules_of_bloom, .prefix = "transformer."},
    {"falcon", "Falcon", NULL, "falcon", ON(HEADS_FILL), .layer = "attn_norm attn_norm.bias " JOINED,
     .maybe = "attn_norm_2 attn_norm_2.bias", .whole = LAST_NORM, .activation = "gelu", .rules = rules_of_bloom,
     .prefix = "transformer."},
    {"phi", "Phi", NULL, "phi2", ON(GRAPH) | ON(DROPS) | ON(PARTIAL) | ON(HEADS_FILL) | ON(OWN_HEAD), SOME,
     .builds = BUILD(MEANS) | BUILD(SHIFTS) | BUILD(NO_GATE) | BUILD(PARALLEL) | BUILD(USE_BIAS) | BUILD(HEAD_BIAS) |
               BUILD(PARTS),
     .modules = {"dense", "fc1", "fc2", "final_layernorm"},
     .layer =
         "attn_norm attn_norm.bias " QKVO " " QKV_BIASES " attn_output.bias ffn_up ffn_up.bias ffn_down ffn_down.bias",
     .whole = LAST_NORM " output.bias", .activation = "gelu_new|gelu_pytorch_tanh", .rules = rules_of_phi},
    {"stablelm", "StableLm", NULL, "stablelm", ON(GRAPH) | ON(PARTIAL) | ON(HEADS_FILL) | ON(OWN_HEAD), SOME,
     .builds = BUILD(MEANS) | BUILD(SHIFTS) | BUILD(USE_QKV_BIAS) | BUILD(USE_PARALLEL) | BUILD(PARTS),
     .layer = "attn_norm attn_norm.bias " QKVO " " MLP, .maybe = "ffn_norm ffn_norm.bias " QKV_BIASES,
     .whole = LAST_NORM, .activation = SILU},
    {"nemotron", "Nemotron", NULL, "nemotron",
     ON(GRAPH) | ON(BIASES) | ON(MLP_BIAS) | ON(PARTIAL) | ON(HEADS_FILL) | ON(FROM_1) | ON(OWN_HEAD), MOST,
     .builds = BUILD(MEANS) | BUILD(SHIFTS) | BUILD(NO_GATE), .layer = NORM_BIASES " " QKVO " ffn_up ffn_down",
     .maybe = QKV_BIASES " attn_output.bias ffn_up.bias ffn_down.bias", .whole = LAST_NORM, .activation = "relu2"},
    {"mamba", "Mamba", NULL, "mamba", ON(NO_HEAD_SIZE), .layer = MAMBA_1, .maybe = "ssm_conv1d.bias",
     .activation = SILU, .rules = rules_of_mamba, .prefix = "backbone."},
    {"falcon_mamba", "FalconMamba", NULL, "mamba", ON(NO_HEAD_SIZE), .layer = MAMBA_1, .maybe = "ssm_conv1d.bias",
     .activation = SILU, .rules = rules_of_mamba, .prefix = "backbone."},
    {"mamba2", "Mamba2", NULL, "mamba2", ON(NO_HEAD_SIZE), .layer = "attn_norm " MAMBA, .maybe = "ssm_conv1d.bias",
     .activation = SILU, .rules = rules_of_mamba2, .prefix = "backbone."},
    {"olmoe", "Olmoe", NULL, "olmoe", ON(HEADS_FILL) | ON(EXPERTS) | ON(SUM_KEY) | ON(OWN_HEAD),
     .qk_norm = VC_QK_NORM_ALL, .layer = EXPERTS QK_NORMS, .activation = SILU, .rules = rules_of_olmoe},
    {"minimax_m2", "MiniMaxM2", NULL, "minimax-m2",
     ON(EXPERTS) | ON(EXPERT_SIZE) | ON(SUM_IS_1) | ON(PARTIAL) | ON(OWN_HEAD), .qk_norm = VC_QK_NORM_ALL,
     .layer = EXPERTS QK_NORMS " exp_probs_b.bias", .activation = SILU, .rules = rules_of_minimax},
    {"ernie4_5", "Ernie4_5", NULL, "ernie4_5", 0, .layer = DENSE, .maybe = QKV_BIASES " attn_output.bias",
     .activation = SILU},
    {"hunyuan_v1_dense", "HunYuanDenseV1", NULL, "hunyuan-dense", 0, .qk_norm = VC_QK_NORM_HEAD,
     .layer = DENSE QK_NORMS, .activation = SILU, .rules = rules_of_hunyuan},
    {"apertus", "Apertus", NULL, "apertus", ON(FREQS) | ON(OWN_HEAD), .qk_norm = VC_QK_NORM_HEAD,
     .layer = ATTENTION "ffn_norm ffn_up ffn_down" QK_NORMS, .maybe = QKV_BIASES " attn_output.bias",
     .activation = "xielu", .rules = rules_of_apertus},
    {"arcee", "Arcee", NULL, "arcee", ON(GRAPH) | AS_LLAMA | ON(BIASES) | ON(MLP_BIAS), MOST, .builds = BUILD(NO_GATE),
     .layer = ATTENTION "ffn_norm ffn_up ffn_down", .activation = "relu2"},
    /* an encoder */
    {"bert|roberta|xlm-roberta|camembert", "Bert", NULL, "bert", ON(ENCODER) | ON(HEADS_FILL), .layer = BERT,
     .prefix = "", .whole = "token_embd_norm token_embd_norm.bias position_embd token_types", .activation = "gelu",
     .rules = rules_of_bert},
    {"distilbert", "DistilBert", NULL, "bert", ON(ENCODER) | ON(HEADS_FILL), .layer = BERT, .prefix = "",
     .whole = "token_embd_norm token_embd_norm.bias position_embd", .activation = "gelu", .rules = rules_of_distilbert},
    {"eurobert", "EuroBert", NULL, "eurobert", ON(HEADS_FILL) | ON(NO_HEAD_SIZE), .layer = DENSE, .prefix = "",
     .activation = SILU},
    {"modernbert", "ModernBert", NULL, "modern-bert",
     ON(HEADS_FILL) | ON(NO_HEAD_SIZE) | ON(LOCAL_ROPE) | ON(OWN_ACT_KEY), .windows = VC_WINDOW_PATTERN, .prefix = "",
     .layer = "attn_qkv attn_output ffn_norm ffn_up ffn_down", .maybe = "attn_norm",
     .whole = "token_embd_norm output_norm", .activation = "gelu|silu", .rules = rules_of_modernbert},
    /* two stacks, "enc/" and "dec/"; the second list is that of the decoder */
    {"t5|mt5|umt5", "T5", NULL, "t5", 0, .prefix = "", .keeps = "model_type", .layer = T5_LAYER("enc/"),
     .second =
         T5_LAYER("dec/") " dec/cross_attn_norm dec/cross_attn_q dec/cross_attn_k dec/cross_attn_v dec/cross_attn_o",
     .maybe = "enc/attn_rel_b enc/ffn_gate dec/attn_rel_b dec/ffn_gate",
     .whole = "enc.output_norm.weight dec.output_norm.weight", .rules = rules_of_t5},
    {"t5+encoder", "T5", NULL, "t5encoder", ON(NO_HEAD), .prefix = "", .keeps = "model_type", .layer = T5_LAYER("enc/"),
     .maybe = "enc/attn_rel_b enc/ffn_gate", .whole = "enc.output_norm.weight", .rules = rules_of_t5},
    {"nomic_bert", "NomicBert", NULL, "nomic-bert", ON(ENCODER) | ON(HEADS_FILL), .prefix = "",
     .layer =
         "attn_qkv attn_output attn_output_norm attn_output_norm.bias " MLP " layer_output_norm layer_output_norm.bias",
     .whole = "token_embd_norm token_embd_norm.bias token_types", .activation = "silu|swiglu",
     .rules = rules_of_nomic_bert},
};

const struct vc_arch_family *vc_arch_family_at(size_t index)
{
    return index < sizeof families / sizeof families[0] ? &families[index] : NULL;
}

const struct vc_arch_family *vc_arch_family(const char *model_type)
{
    const struct vc_arch_family *f;
    size_t i = 0;

    while ((f = vc_arch_family_at(i)) != NULL && !(model_type != NULL && vc_is_one_of(model_type, f->types))) {
        i++;
    }
    return f;
}

/* Several families may have one architecture in llama.cpp: experts and windows tell them apart. */
const struct vc_arch_family *vc_arch_family_of_gguf(const char *architecture, bool has_experts, bool slides)
{
    const struct vc_arch_family *found = NULL;
    const struct vc_arch_family *f;

    for (size_t i = 0; (f = vc_arch_family_at(i)) != NULL; i++) {
        bool same = strcmp(f->gguf, architecture) == 0 && vc_arch_has(f, VC_ARCH_EXPERTS) == has_experts &&
                    (slides || !vc_arch_slides(f));

        found = same && (found == NULL || vc_arch_slides(f)) ? f : found;
    }
    for (size_t i = 0; found == NULL && (f = vc_arch_family_at(i)) != NULL; i++) { /* exaone4 has both kinds */
        found = strcmp(f->gguf, architecture) == 0 && strcmp(architecture, "exaone4") == 0 ? f : NULL;
    }
    return found;
}

bool vc_arch_is_latent(const struct vc_arch_family *family)
{
    return vc_is_one_of(family->gguf, VC_ARCH_LATENT);
}

const char *vc_arch_family_type(const struct vc_arch_family *family, char *type)
{
    (void)snprintf(type, VC_ARCH_TYPE_BYTES, "%.*s", (int)strcspn(family->types, "|+"), family->types);
    return type;
}

const struct vc_arch *vc_arch_family_class(const struct vc_arch_family *family)
{
    char type[VC_ARCH_TYPE_BYTES];

    return vc_arch_find_text(vc_arch_family_type(family, type));
}

/* llama.cpp knows the period of a family by heart; it is that of the class in transformers. */
uint64_t vc_arch_gguf_period(const char *architecture)
{
    const struct vc_arch_family *f;
    const struct vc_arch_list *list;
    char type[VC_ARCH_TYPE_BYTES];

    for (size_t i = 0; (f = vc_arch_family_at(i)) != NULL; i++) {
        for (size_t k = 0;
             strcmp(f->gguf, architecture) == 0 && (list = vc_arch_list(vc_arch_family_type(f, type), k)) != NULL;
             k++) {
            if (list->rule != VC_ARCH_UNKNOWN && list->rule != VC_ARCH_BEHIND && list->number > 1) {
                return list->number;
            }
        }
    }
    return 0;
}

/* The family of that architecture with windows layer by layer; NULL if there is none. */
static const struct vc_arch_family *family_with_windows(const char *architecture)
{
    const struct vc_arch_family *f;
    size_t i = 0;

    while ((f = vc_arch_family_at(i)) != NULL &&
           !(strcmp(f->gguf, architecture) == 0 && f->windows >= VC_WINDOW_PATTERN)) {
        i++;
    }
    return f;
}

bool vc_arch_gguf_slides(const char *architecture, uint64_t layer, uint64_t layers)
{
    const struct vc_arch_family *f = family_with_windows(architecture);
    const struct vc_arch_list *list;
    char type[VC_ARCH_TYPE_BYTES];

    for (size_t k = 0; f != NULL && (list = vc_arch_list(vc_arch_family_type(f, type), k)) != NULL; k++) {
        if (strcmp(list->list, "layer_types") == 0) {
            return !vc_arch_list_other(list, list->number, layer, layers);
        }
    }
    return false;
}

uint64_t vc_arch_gguf_window(const char *architecture)
{
    const struct vc_arch_family *f = family_with_windows(architecture);

    return f != NULL ? f->window : 0;
}

/* ---- programs ---- */

/* Architectures of gguf 0.19 beside those of the families; and those that ComfyUI-GGUF writes for models that make pictures. */
static const char of_llama_cpp[] = "afmoe arctic arwkv7 baichuan bailingmoe bailingmoe2 bitnet chameleon codeshell "
                                   "cogvlm dbrx deci deepseek deepseek2-ocr dream "
                                   "exaone grok grovemoe hunyuan_vl internlm2 jais jais2 jina-bert-v2 jina-bert-v3 "
                                   "kimi-linear llada llada-moe llama-embed maincoder "
                                   " mimo2 minicpm minicpm3 mistral4 mpt neo-bert "
                                   "nomic-bert-moe openelm orion paddleocr pangu-embedded phimoe plamo plamo2 "
                                   "plamo3 plm qwen refact rnd1 rwkv6 rwkv6qwen2 rwkv7 smallthinker "
                                   " step35 wavtokenizer-dec xverse";
static const char of_pictures[] = "flux flux2 sd1 sd2 sd3 sdxl aura auraflow hidream cosmos ltxv hyvid wan lumina2 "
                                  "qwen_image pixart chroma mochi pig";

bool vc_arch_gguf_is_picture(const char *architecture)
{
    return vc_is_one_of(architecture, of_pictures);
}

const char *vc_arch_gguf_program(const char *architecture)
{
    const struct vc_arch_family *f;

    if (vc_arch_gguf_is_picture(architecture)) { /* sd1, sdxl: rows of 256, whose shapes only ComfyUI-GGUF reads */
        return strncmp(architecture, "sd", 2) == 0 && architecture[2] != '3' ? "ComfyUI-GGUF"
                                                                             : "stable-diffusion.cpp or ComfyUI-GGUF";
    }
    if (strcmp(architecture, "clip") == 0) {
        return "llama.cpp (--mmproj, beside the model for text)";
    }
    for (size_t i = 0; (f = vc_arch_family_at(i)) != NULL; i++) {
        if (strcmp(f->gguf, architecture) == 0) {
            return "llama.cpp";
        }
    }
    return vc_is_one_of(architecture, of_llama_cpp) ? "llama.cpp" : NULL;
}
