/* arch_family.c - see arch_family.h. To add a family: a row of `families`, with rules for the names of its tensors where they
 * differ from those of all; docs/formats.md has how close llama.cpp comes to transformers in each. */
#include "arch/arch_rules.h"

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
#define MAMBA_RULES(at)                                                                         \
    IN(at "in_proj", "ssm_in", "zH"), IN_AS(at "conv1d", "ssm_conv1d", "cL", ALL, CHANNELS),    \
        IN(at "dt_bias", "ssm_dt.bias", "v"), IN_AS(at "A_log", "ssm_a", "v1", ALL, LOGARITHM), \
        IN_AS(at "D", "ssm_d", "v1", ALL, FLAT), IN_AS(at "norm", "ssm_norm", "Kx", ALL, FLAT), \
        IN(at "out_proj", "ssm_out", "Hi")
#define MAMBA_SIZES "mamba_n_heads|mamba_d_head|mamba_d_state|mamba_n_groups|mamba_d_conv|mamba_expand"
#define MAMBA_1     "attn_norm ssm_in ssm_conv1d ssm_x ssm_dt ssm_dt.bias ssm_a ssm_d ssm_out"
#define CONVOLUTION "shortconv.conv.weight shortconv.in_proj.weight shortconv.out_proj.weight"
#define MAMBA       "ssm_in ssm_conv1d ssm_dt.bias ssm_a ssm_d ssm_norm ssm_out"

/* Experts that all tokens use, as one matrix of the sizes of all of them. */
#define SHARED_RULES SHARED_MATRICES("mlp.shared_experts.")

/* Norms before and behind attention and the feed-forward part. */
#define FOUR_NORMS                                                                                                \
    IN("post_attention_layernorm", "post_attention_norm", "H"), IN("pre_feedforward_layernorm", "ffn_norm", "H"), \
        IN("post_feedforward_layernorm", "post_ffw_norm", "H")

/* Layers have an input of their own beside the states. */
#define LAYER_INPUTS                                                                                               \
    TO("embed_tokens_per_layer", "per_layer_token_embd", "VJ"),                                                    \
        TO("per_layer_model_projection", "per_layer_model_proj", "JH"),                                            \
        TO("per_layer_projection_norm", "per_layer_proj_norm", "I"), IN("per_layer_input_gate", "inp_gate", "IH"), \
        IN("per_layer_projection", "proj", "HI"), IN("post_per_layer_input_norm", "post_norm", "H")

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
    TO("embed_tokens", "token_embd", "VH"), TO("norm", "output_norm", "H"), TO("lm_head", "output", "VH"),
    /* attention */
    IN("input_layernorm", "attn_norm", "H"), IN("self_attn.q_proj", "attn_q", "qH"),
    IN("self_attn.k_proj", "attn_k", "kH"), IN("self_attn.v_proj", "attn_v", "kH"),
    IN("self_attn.o_proj", "attn_output", "Hq"), IN("self_attn.q_norm", "attn_q_norm", "d"),
    IN("self_attn.k_norm", "attn_k_norm", "d"), IN("post_attention_layernorm", "ffn_norm", "H"),
    /* the feed-forward part */
    MATRICES("mlp.", "gate_proj", "up_proj", "down_proj"),
    /* a router and its experts: a matrix for each, or those of all in one, gate and up joined */
    IN("mlp.gate.weight", "ffn_gate_inp.weight", "EH"),
    EXPERT_MATRICES("mlp.experts.*.", "gate_proj", "up_proj", "down_proj"), STACKED("mlp.experts.", STRAIGHT),
    /* the expert that all tokens use */
    SHARED_MATRICES("mlp.shared_expert."), IN("mlp.shared_expert_gate", "ffn_gate_inp_shexp", "1H"),
    /* what is added to the router's numbers before it chooses */
    IN("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", "E"), LAST};

/* Norms before and behind attention and the feed-forward part. */
static const struct vc_arch_name four_norms[] = {FOUR_NORMS, LAST};

/* Tables and matrices with a part for each layer; experts beside the dense feed-forward part, gate and up joined. */
static const struct vc_arch_name rules_of_gemma4[] = {FOUR_NORMS,
                                                      LAYER_INPUTS,
                                                      IN("layer_scalar", "layer_output_scale.weight", "1"),
                                                      IN("pre_feedforward_layernorm_2", "pre_ffw_norm_2", "H"),
                                                      IN("post_feedforward_layernorm_1", "post_ffw_norm_1", "H"),
                                                      IN("post_feedforward_layernorm_2", "post_ffw_norm_2", "H"),
                                                      IN("experts.gate_up_proj", "ffn_gate_up_exps.weight", "EgH"),
                                                      IN("experts.down_proj", "ffn_down_exps.weight", "EHe"),
                                                      IN("router.proj", "ffn_gate_inp", "EH"),
                                                      IN("router.scale", "ffn_gate_inp.scale", "H"),
                                                      IN("router.per_expert_scale", "ffn_down_exps.scale", "E"),
                                                      LAST};

/* Several copies of the states ("altup"), of which attention changes one and all are predicted and corrected; a path of
 * low rank beside attention ("laurel"). */
static const struct vc_arch_name rules_of_gemma3n[] = {
    FOUR_NORMS,
    LAYER_INPUTS,
    TO("altup_projections.*", "altup_proj", "CHH"),
    TO("altup_unembed_projections.*", "altup_unembd_proj", "CHH"),
    IN("altup.correct_output_scale", "altup_correct_scale.weight", "H"),
    IN("altup.correction_coefs", "altup_correct_coef", "tt"),
    IN("altup.prediction_coefs", "altup_predict_coef", "Ut"),
    IN("altup.modality_router", "altup_router", "tH"),
    IN("altup.router_norm", "altup_router_norm", "H"),
    IN("laurel.linear_left", "laurel_l", "lH"),
    IN("laurel.linear_right", "laurel_r", "Hl"),
    IN("laurel.post_laurel_norm", "laurel_post_norm", "H"),
    LAST};

/* Norms behind them alone; those of queries and keys go over all heads together. */
static const struct vc_arch_name rules_of_olmo2[] = {
    IN("post_attention_layernorm", "post_attention_norm", "H"), IN("post_feedforward_layernorm", "post_ffw_norm", "H"),
    IN("self_attn.q_norm", "attn_q_norm", "q"), IN("self_attn.k_norm", "attn_k_norm", "k"), LAST};

/* The norms of queries and keys alone. */
#define rules_of_olmoe (rules_of_olmo2 + 2)

/* Joined matrices stay joined. */
static const struct vc_arch_name rules_of_phi3[] = {IN("self_attn.qkv_proj", "attn_qkv", "QH"),
                                                    IN("mlp.gate_up_proj", "ffn_up", "GH"), LAST};

/* Norms of queries and keys go over all heads together; a number is added to the router's before it chooses. Experts are
 * called by numbers: w1 is the gate, w3 goes up, w2 down. */
static const struct vc_arch_name rules_of_minimax[] = {
    IN("self_attn.q_norm", "attn_q_norm", "q"),
    IN("self_attn.k_norm", "attn_k_norm", "k"),
    IN("block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", "E"),
    IN("block_sparse_moe.gate.weight", "ffn_gate_inp.weight", "EH"),
    EXPERT_MATRICES("block_sparse_moe.experts.*.", "w1", "w3", "w2"),
    LAST};

/* The experts alone. */
#define rules_of_mixtral (rules_of_minimax + 3)

/* Experts in one tensor, gate and up as its halves. */
static const struct vc_arch_name rules_of_granitemoe[] = {
    IN("block_sparse_moe.router.layer.weight", "ffn_gate_inp.weight", "EH"),
    HALVES("block_sparse_moe.input_linear.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight", "EeH", STRAIGHT),
    IN("block_sparse_moe.output_linear.weight", "ffn_down_exps.weight", "EHe"),
    HALVES("shared_mlp.input_linear.weight", "ffn_gate_shexp.weight", "ffn_up_shexp.weight", "sH", STRAIGHT),
    IN("shared_mlp.output_linear.weight", "ffn_down_shexp.weight", "Hs"),
    MAMBA_RULES("mamba."),
    LAST};

/* The same without experts: what all tokens use is the feed-forward part. */
static const struct vc_arch_name rules_of_granitehybrid[] = {
    HALVES("shared_mlp.input_linear.weight", "ffn_gate.weight", "ffn_up.weight", "FH", STRAIGHT),
    IN("shared_mlp.output_linear.weight", "ffn_down.weight", "HF"), MAMBA_RULES("mamba."), LAST};

/* Experts as transformers writes them, [E, 2 e, H], and as the first files have them, [E, H, 2 e]: by their shapes. */
static const struct vc_arch_name rules_of_qwen3_vl[] = {STACKED("mlp.experts.", STRAIGHT),
                                                        STACKED("mlp.experts.", TURNED), LAST};

/* Keys and values come of a vector of few elements, `r`, and a part that is rotated: llama.cpp has the matrices that make
 * keys and values of it head by head, that of the keys turned. So do queries, or they are made at once. */
static const struct vc_arch_name rules_of_mistral4[] = {
    STACKED("mlp.experts.", STRAIGHT),
    IN("self_attn.q_proj", "attn_q", "mH"),
    IN("self_attn.q_a_proj", "attn_q_a", "RH"),
    IN("self_attn.q_a_layernorm", "attn_q_a_norm", "R"),
    IN("self_attn.q_b_proj", "attn_q_b", "mR"),
    IN("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", "MH"),
    IN("self_attn.kv_a_layernorm", "attn_kv_a_norm", "r"),
    IN_AS("self_attn.kv_b_proj.weight", "attn_k_b.weight", "Arn", HEAD_KEYS, TURNED),
    IN_AS("self_attn.kv_b_proj.weight", "attn_v_b.weight", "AWr", HEAD_VALUES, STRAIGHT),
    IN("self_attn.o_proj", "attn_output", "Hw"),
    IN("self_attn.indexer.wq_b", "indexer.attn_q_b", "7R"),
    IN("self_attn.indexer.wk", "indexer.attn_k", "6H"),
    IN("self_attn.indexer.k_norm", "indexer.k_norm", "6"),
    IN("self_attn.indexer.weights_proj", "indexer.proj", "5H"),
    SHARED_RULES,
    LAST};

/* DeepSeek's files have a matrix for each expert: without the first three. */
#define rules_of_deepseek (rules_of_mistral4 + 3)

/* Recurrent layers whose queries, keys, values and gates are one matrix, key head by key head. */
static const struct vc_arch_name rules_of_qwen3_next[] = {
    IN("post_attention_layernorm", "post_attention_norm", "H"),
    IN("self_attn.q_proj", "attn_q", "pH"),
    IN_AS("linear_attn.in_proj_qkvz.weight", "attn_qkv.weight", "cH", QKV, STRAIGHT),
    IN_AS("linear_attn.in_proj_qkvz.weight", "attn_gate.weight", "iH", GATE, STRAIGHT),
    IN("linear_attn.in_proj_ba", "ssm_ba", "bH"),
    IN_AS("linear_attn.conv1d", "ssm_conv1d", "cL", ALL, CHANNELS),
    IN_AS("linear_attn.A_log", "ssm_a", "v", ALL, LOGARITHM),
    IN("linear_attn.dt_bias", "ssm_dt.bias", "v"),
    IN("linear_attn.norm", "ssm_norm", "u"),
    IN("linear_attn.out_proj", "ssm_out", "Hi"),
    LAST};

/* Layers of a short convolution between those of attention. llama.cpp's "token_embd_norm" is the last norm. */
static const struct vc_arch_name rules_of_lfm2[] = {TO("embedding_norm", "token_embd_norm", "H"),
                                                    IN("operator_norm", "attn_norm", "H"),
                                                    IN("ffn_norm", "ffn_norm", "H"),
                                                    IN_AS("conv.conv", "shortconv.conv", "HL", ALL, CHANNELS),
                                                    IN("conv.in_proj", "shortconv.in_proj", "3H"),
                                                    IN("conv.out_proj", "shortconv.out_proj", "HH"),
                                                    IN("self_attn.q_layernorm", "attn_q_norm", "d"),
                                                    IN("self_attn.k_layernorm", "attn_k_norm", "d"),
                                                    IN("self_attn.out_proj", "attn_output", "Hq"),
                                                    MATRICES("feed_forward.", "w1", "w3", "w2"),
                                                    IN("feed_forward.gate.weight", "ffn_gate_inp.weight", "EH"),
                                                    IN("feed_forward.expert_bias", "exp_probs_b.bias", "E"),
                                                    EXPERT_MATRICES("feed_forward.experts.*.", "w1", "w3", "w2"),
                                                    LAST};

/* Experts are matrices of [in, out], the gate before the other part. */
static const struct vc_arch_name rules_of_llama4[] = {MATRICES("feed_forward.", "gate_proj", "up_proj", "down_proj"),
                                                      IN("feed_forward.router.weight", "ffn_gate_inp.weight", "EH"),
                                                      STACKED("feed_forward.experts.", TURNED),
                                                      SHARED_MATRICES("feed_forward.shared_expert."), LAST};

/* Each layer is one of attention, a recurrent one, or a feed-forward part, and is called "mixer" in any case. */
static const struct vc_arch_name rules_of_nemotron_h[] = {
    IN("mixer.q_proj", "attn_q", "qH"),
    IN("mixer.k_proj", "attn_k", "kH"),
    IN("mixer.v_proj", "attn_v", "kH"),
    IN("mixer.o_proj", "attn_output", "Hq"),
    IN("mixer.up_proj", "ffn_up", "FH"),
    IN("mixer.down_proj", "ffn_down", "HF"),
    IN("mixer.gate.weight", "ffn_gate_inp.weight", "EH"),
    IN("mixer.gate.e_score_correction_bias", "exp_probs_b.bias", "E"),
    IN("mixer.experts.*.up_proj", "ffn_up_exps", "EeH"),
    IN("mixer.experts.*.down_proj", "ffn_down_exps", "EHe"),
    IN("mixer.shared_experts.up_proj", "ffn_up_shexp", "sH"),
    IN("mixer.shared_experts.down_proj", "ffn_down_shexp", "Hs"),
    TO("embeddings", "token_embd", "VH"),
    TO("norm_f", "output_norm", "H"),
    IN("norm", "attn_norm", "H"),
    MAMBA_RULES("mixer."),
    LAST};

/* Recurrent layers alone. */
#define rules_of_mamba2 (rules_of_nemotron_h + 12)

/* A feed-forward part, and the last norm, of hybrids. */
#define HYBRID_RULES \
    TO("final_layernorm", "output_norm", "H"), MATRICES("feed_forward.", "gate_proj", "up_proj", "down_proj")

/* Attention and a recurrent part side by side in each layer; llama.cpp calls a norm without ".weight". */
static const struct vc_arch_name rules_of_falcon_h1[] = {IN("pre_ff_layernorm.weight", "ffn_norm", "H"), HYBRID_RULES,
                                                         MAMBA_RULES("mamba."), LAST};

/* Layers have one of both, as Granite's hybrids. */
static const struct vc_arch_name rules_of_bamba[] = {IN("pre_ff_layernorm", "ffn_norm", "H"), HYBRID_RULES,
                                                     MAMBA_RULES("mamba."), LAST};

/* A recurrent layer of Mamba 1; `at` stands in front of its names. */
#define MAMBA_1_RULES(at)                                                                    \
    IN(at "in_proj", "ssm_in", "jH"), IN_AS(at "conv1d", "ssm_conv1d", "iL", ALL, CHANNELS), \
        IN(at "x_proj", "ssm_x", "Xi"), IN(at "dt_proj", "ssm_dt", "iD"),                    \
        IN_AS(at "A_log", "ssm_a", "iN", ALL, LOGARITHM), IN(at "D", "ssm_d", "i"), IN(at "out_proj", "ssm_out", "Hi")

static const struct vc_arch_name rules_of_mamba[] = {TO("embeddings", "token_embd", "VH"),
                                                     TO("norm_f", "output_norm", "H"), IN("norm", "attn_norm", "H"),
                                                     MAMBA_1_RULES("mixer."), LAST};

/* Such layers, with norms inside, between those of attention; some have experts. */
static const struct vc_arch_name rules_of_jamba[] = {
    IN("pre_ff_layernorm", "ffn_norm", "H"),
    HYBRID_RULES,
    MAMBA_1_RULES("mamba."),
    IN("mamba.dt_layernorm", "ssm_dt_norm", "D"),
    IN("mamba.b_layernorm", "ssm_b_norm", "N"),
    IN("mamba.c_layernorm", "ssm_c_norm", "N"),
    IN("feed_forward.router.weight", "ffn_gate_inp.weight", "EH"),
    EXPERT_MATRICES("feed_forward.experts.*.", "gate_proj", "up_proj", "down_proj"),
    LAST};

/* The numbers of its activation are tensors, of which llama.cpp has lists in its metadata. */
static const struct vc_arch_name rules_of_apertus[] = {IN("attention_layernorm", "attn_norm", "H"),
                                                       IN("feedforward_layernorm", "ffn_norm", "H"),
                                                       LEFT("layers.#.mlp.act_fn.alpha_n"),
                                                       LEFT("layers.#.mlp.act_fn.alpha_p"),
                                                       LEFT("layers.#.mlp.act_fn.beta"),
                                                       LEFT("layers.#.mlp.act_fn.eps"),
                                                       LAST};

/* Norms of queries and keys have names of their own. */
static const struct vc_arch_name rules_of_hunyuan_moe[] = {
    IN("mlp.gate.wg.weight", "ffn_gate_inp.weight", "EH"), SHARED_MATRICES("mlp.shared_mlp."),
    IN("self_attn.query_layernorm", "attn_q_norm", "d"), IN("self_attn.key_layernorm", "attn_k_norm", "d"), LAST};

/* ... without experts. */
#define rules_of_hunyuan (rules_of_hunyuan_moe + 4)

static const struct vc_arch_name rules_of_exaone_moe[] = {
    IN("mlp.e_score_correction_bias", "exp_probs_b.bias", "E"),
    IN("mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", "1E"), SHARED_RULES, LAST};

/* The same from the second or third on. */
#define rules_of_ernie_moe (rules_of_exaone_moe + 1)
#define rules_of_dots1     (rules_of_exaone_moe + 2)

/* llama.cpp calls the norm before the feed-forward part as if it were behind attention. */
static const struct vc_arch_name rules_of_glm4_moe[] = {IN("post_attention_layernorm", "post_attention_norm", "H"),
                                                        SHARED_RULES, LAST};

/* Norms behind attention and the feed-forward part, and of each head. */
static const struct vc_arch_name rules_of_exaone4[] = {IN("post_feedforward_layernorm", "post_ffw_norm", "H"),
                                                       IN("post_attention_layernorm", "post_attention_norm", "H"),
                                                       LAST};

/* The norm before the feed-forward part is called as if it were behind attention, and llama.cpp does so too. */
#define rules_of_seed_oss (rules_of_exaone4 + 1)

static const struct vc_arch_name rules_of_starcoder2[] = {IN("mlp.c_fc", "ffn_up", "FH"),
                                                          IN("mlp.c_proj", "ffn_down", "HF"), LAST};

/* Of GPT-2's kind: the order of the names is that of its layers. */
#define GPT2_RULES                                                                                   \
    TO("wte", "token_embd", "VH"), TO("wpe", "position_embd", "PH"), TO("ln_f", "output_norm", "H"), \
        TO("h.#.ln_1", "blk.#.attn_norm", "H"), TO("h.#.ln_2", "blk.#.ffn_norm", "H")

static const struct vc_arch_name rules_of_gpt_bigcode[] = {GPT2_RULES,
                                                           TO("h.#.attn.c_attn", "blk.#.attn_qkv", "QH"),
                                                           TO("h.#.attn.c_proj", "blk.#.attn_output", "HH"),
                                                           TO("h.#.mlp.c_fc", "blk.#.ffn_up", "FH"),
                                                           TO("h.#.mlp.c_proj", "blk.#.ffn_down", "HF"),
                                                           LAST};

/* Matrices are [in, out]. */
static const struct vc_arch_name rules_of_gpt2[] = {GPT2_RULES,
                                                    TO_AS("h.#.attn.c_attn", "blk.#.attn_qkv", "3H", ALL, TURNED),
                                                    TO_AS("h.#.attn.c_proj", "blk.#.attn_output", "HH", ALL, TURNED),
                                                    TO_AS("h.#.mlp.c_fc", "blk.#.ffn_up", "FH", ALL, TURNED),
                                                    TO_AS("h.#.mlp.c_proj", "blk.#.ffn_down", "HF", ALL, TURNED),
                                                    LAST};

/* Queries, keys and values are one matrix, head by head. */
static const struct vc_arch_name rules_of_gpt_neox[] = {
    TO("embed_in", "token_embd", "VH"),
    TO("final_layer_norm", "output_norm", "H"),
    TO("embed_out", "output", "VH"),
    IN("input_layernorm", "attn_norm", "H"),
    IN_AS("attention.query_key_value", "attn_qkv", "QH", QKV, STRAIGHT),
    IN("attention.dense", "attn_output", "Hq"),
    IN("mlp.dense_h_to_4h", "ffn_up", "FH"),
    IN("mlp.dense_4h_to_h", "ffn_down", "HF"),
    LAST};

static const struct vc_arch_name rules_of_bloom[] = {
    TO("word_embeddings", "token_embd", "VH"),
    TO("word_embeddings_layernorm", "token_embd_norm", "H"),
    TO("ln_f", "output_norm", "H"),
    TO("h.#.input_layernorm", "blk.#.attn_norm", "H"),
    TO("h.#.ln_attn", "blk.#.attn_norm_2", "H"), /* of larger Falcons */
    TO("h.#.ln_mlp", "blk.#.attn_norm", "H"),
    TO_AS("h.#.self_attention.query_key_value", "blk.#.attn_qkv", "QH", QKV, STRAIGHT),
    TO("h.#.self_attention.dense", "blk.#.attn_output", "Hq"),
    TO("h.#.post_attention_layernorm", "blk.#.ffn_norm", "H"),
    TO("h.#.mlp.dense_h_to_4h", "blk.#.ffn_up", "FH"),
    TO("h.#.mlp.dense_4h_to_h", "blk.#.ffn_down", "HF"),
    LAST};

static const struct vc_arch_name rules_of_phi[] = {
    TO("final_layernorm", "output_norm", "H"), IN("self_attn.dense", "attn_output", "Hq"),
    IN("mlp.fc1", "ffn_up", "FH"), IN("mlp.fc2", "ffn_down", "HF"), LAST};

/* Norms before and behind, and gate and up joined. */
static const struct vc_arch_name rules_of_glm4[] = {IN("post_self_attn_layernorm", "post_attention_norm", "H"),
                                                    IN("post_mlp_layernorm", "post_ffw_norm", "H"),
                                                    IN("mlp.gate_up_proj", "ffn_up", "GH"), LAST};

/* Recurrent layers have value heads in another order in llama.cpp (vc_arch_rows). In layers of full attention q_proj
 * has a gate for each element, so twice the rows. */
static const struct vc_arch_name rules_of_qwen3_5[] = {
    IN("post_attention_layernorm", "post_attention_norm", "H"),
    IN("self_attn.q_proj", "attn_q", "pH"),
    IN_AS("linear_attn.in_proj_qkv", "attn_qkv", "cH", LAST_HEADS, STRAIGHT),
    IN_AS("linear_attn.in_proj_z", "attn_gate", "iH", HEADS, STRAIGHT),
    IN_AS("linear_attn.in_proj_a", "ssm_alpha", "vH", HEADS, STRAIGHT),
    IN_AS("linear_attn.in_proj_b", "ssm_beta", "vH", HEADS, STRAIGHT),
    IN_AS("linear_attn.conv1d", "ssm_conv1d", "cL", LAST_HEADS, CHANNELS),
    IN_AS("linear_attn.A_log", "ssm_a", "v", HEADS, LOGARITHM),
    IN_AS("linear_attn.dt_bias", "ssm_dt.bias", "v", HEADS, STRAIGHT),
    IN("linear_attn.norm", "ssm_norm", "u"),
    IN_AS("linear_attn.out_proj", "ssm_out", "Hi", HEAD_COLUMNS, STRAIGHT),
    LAST};

/* The first positions of RoBERTa belong to no token. */
static const struct vc_arch_name rules_of_bert[] = {
    TO("embeddings.word_embeddings", "token_embd", "VH"),
    TO_AS("embeddings.position_embeddings", "position_embd", "PH", BEHIND, STRAIGHT),
    TO("embeddings.token_type_embeddings", "token_types", "TH"),
    TO("embeddings.LayerNorm", "token_embd_norm", "H"),
    TO("encoder.layer.#.attention.self.query", "blk.#.attn_q", "HH"),
    TO("encoder.layer.#.attention.self.key", "blk.#.attn_k", "HH"),
    TO("encoder.layer.#.attention.self.value", "blk.#.attn_v", "HH"),
    TO("encoder.layer.#.attention.output.dense", "blk.#.attn_output", "HH"),
    TO("encoder.layer.#.attention.output.LayerNorm", "blk.#.attn_output_norm", "H"),
    TO("encoder.layer.#.intermediate.dense", "blk.#.ffn_up", "FH"),
    TO("encoder.layer.#.output.dense", "blk.#.ffn_down", "HF"),
    TO("encoder.layer.#.output.LayerNorm", "blk.#.layer_output_norm", "H"),
    LAST};

/* The same with other names, and without types of tokens. */
static const struct vc_arch_name rules_of_distilbert[] = {
    TO("embeddings.word_embeddings", "token_embd", "VH"),
    TO("embeddings.position_embeddings", "position_embd", "PH"),
    TO("embeddings.LayerNorm", "token_embd_norm", "H"),
    TO("layer.#.attention.q_lin", "blk.#.attn_q", "HH"),
    TO("layer.#.attention.k_lin", "blk.#.attn_k", "HH"),
    TO("layer.#.attention.v_lin", "blk.#.attn_v", "HH"),
    TO("layer.#.attention.out_lin", "blk.#.attn_output", "HH"),
    TO("layer.#.sa_layer_norm", "blk.#.attn_output_norm", "H"),
    TO("layer.#.ffn.lin1", "blk.#.ffn_up", "FH"),
    TO("layer.#.ffn.lin2", "blk.#.ffn_down", "HF"),
    TO("layer.#.output_layer_norm", "blk.#.layer_output_norm", "H"),
    LAST};

/* The same with rotary positions and a gate. */
static const struct vc_arch_name rules_of_nomic_bert[] = {
    TO("embeddings.word_embeddings", "token_embd", "VH"),
    TO("embeddings.token_type_embeddings", "token_types", "TH"),
    TO("emb_ln", "token_embd_norm", "H"),
    TO("encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv", "3H"),
    TO("encoder.layers.#.attn.out_proj", "blk.#.attn_output", "HH"),
    TO("encoder.layers.#.norm1", "blk.#.attn_output_norm", "H"),
    TO("encoder.layers.#.mlp.fc11", "blk.#.ffn_up", "FH"),
    TO("encoder.layers.#.mlp.fc12", "blk.#.ffn_gate", "FH"),
    TO("encoder.layers.#.mlp.fc2", "blk.#.ffn_down", "HF"),
    TO("encoder.layers.#.norm2", "blk.#.layer_output_norm", "H"),
    LAST};

/* A stack of T5, its feed-forward part in layer `ff` of a block: one matrix goes up, or a gate (wi_0) and another one. */
#define T5_STACK(stack, to_stack, ff)                                                                           \
    TO(stack ".final_layer_norm", to_stack ".output_norm", "H"),                                                \
        TO(stack ".block.#.layer.0.layer_norm", to_stack ".blk.#.attn_norm", "H"),                              \
        TO(stack ".block.#.layer.0.SelfAttention.q", to_stack ".blk.#.attn_q", "qH"),                           \
        TO(stack ".block.#.layer.0.SelfAttention.k", to_stack ".blk.#.attn_k", "qH"),                           \
        TO(stack ".block.#.layer.0.SelfAttention.v", to_stack ".blk.#.attn_v", "qH"),                           \
        TO(stack ".block.#.layer.0.SelfAttention.o", to_stack ".blk.#.attn_o", "Hq"),                           \
        TO(stack ".block.#.layer.0.SelfAttention.relative_attention_bias", to_stack ".blk.#.attn_rel_b", "BA"), \
        TO(stack ".block.#.layer." ff ".layer_norm", to_stack ".blk.#.ffn_norm", "H"),                          \
        TO(stack ".block.#.layer." ff ".DenseReluDense.wi", to_stack ".blk.#.ffn_up", "FH"),                    \
        TO(stack ".block.#.layer." ff ".DenseReluDense.wi_0", to_stack ".blk.#.ffn_gate", "FH"),                \
        TO(stack ".block.#.layer." ff ".DenseReluDense.wi_1", to_stack ".blk.#.ffn_up", "FH"),                  \
        TO(stack ".block.#.layer." ff ".DenseReluDense.wo", to_stack ".blk.#.ffn_down", "HF"),                  \
        LEFT(stack ".embed_tokens.weight")

static const struct vc_arch_name rules_of_t5[] = {
    TO("shared", "token_embd", "VH"),
    T5_STACK("encoder", "enc", "1"),
    T5_STACK("decoder", "dec", "2"),
    TO("decoder.block.#.layer.1.layer_norm", "dec.blk.#.cross_attn_norm", "H"),
    TO("decoder.block.#.layer.1.EncDecAttention.q", "dec.blk.#.cross_attn_q", "qH"),
    TO("decoder.block.#.layer.1.EncDecAttention.k", "dec.blk.#.cross_attn_k", "qH"),
    TO("decoder.block.#.layer.1.EncDecAttention.v", "dec.blk.#.cross_attn_v", "qH"),
    TO("decoder.block.#.layer.1.EncDecAttention.o", "dec.blk.#.cross_attn_o", "Hq"),
    LEFT("decoder.block.#.layer.1.EncDecAttention.relative_attention_bias.weight"), /* of old files; nothing reads it */
    LAST};

/* An encoder with rotary positions, windows, and norms before; gate and the other part are joined, and stay so. */
static const struct vc_arch_name rules_of_modernbert[] = {
    TO("embeddings.tok_embeddings", "token_embd", "VH"),
    TO("embeddings.norm", "token_embd_norm", "H"),
    TO("final_norm", "output_norm", "H"),
    IN("attn_norm", "attn_norm", "H"), /* the first layer has none */
    IN("attn.Wqkv", "attn_qkv", "3H"),
    IN("attn.Wo", "attn_output", "HH"),
    IN("mlp_norm", "ffn_norm", "H"),
    IN("mlp.Wi", "ffn_up", "GH"),
    IN("mlp.Wo", "ffn_down", "HF"),
    LAST};

/* Experts are matrices of [in, out], in which rows of the gate and of the other part take turns; or blocks of MXFP4. */
static const struct vc_arch_name rules_of_gpt_oss[] = {
    IN("self_attn.sinks", "attn_sinks.weight", "A"),
    IN("post_attention_layernorm", "post_attention_norm", "H"),
    IN("mlp.router", "ffn_gate_inp", "EH"),
    IN_AS("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", "EeH", EVEN, TURNED),
    IN_AS("mlp.experts.gate_up_proj", "ffn_up_exps.weight", "EeH", ODD, TURNED),
    IN_AS("mlp.experts.down_proj", "ffn_down_exps.weight", "EHe", ALL, TURNED),
    IN_AS("mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", "Ee", EVEN, TURNED),
    IN_AS("mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", "Ee", ODD, TURNED),
    IN("mlp.experts.down_proj_bias", "ffn_down_exps.bias", "EH"),
    IN_AS("mlp.experts.gate_up_proj_blocks", "ffn_gate_exps.weight", "EeH", EVEN, BLOCKS),
    IN_AS("mlp.experts.gate_up_proj_blocks", "ffn_up_exps.weight", "EeH", ODD, BLOCKS),
    IN_AS("mlp.experts.down_proj_blocks", "ffn_down_exps.weight", "EHe", ALL, BLOCKS),
    LEFT("layers.#.mlp.experts.gate_up_proj_scales"),
    LEFT("layers.#.mlp.experts.down_proj_scales"),
    LAST};

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
     .layer = DENSE QK_NORMS
     " post_attention_norm post_ffw_norm inp_gate proj post_norm altup_correct_coef altup_correct_scale "
     "altup_predict_coef altup_router altup_router_norm laurel_l laurel_r laurel_post_norm",
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
    {"jais2", "Jais2", NULL, "jais2", ON(BIASES) | ON(MLP_BIAS),
     .layer = NORM_BIASES " " QKVO " " QKV_BIASES " attn_output.bias ffn_up ffn_up.bias ffn_down ffn_down.bias",
     .whole = LAST_NORM, .activation = "relu2"},
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
static const char of_llama_cpp[] =
    "afmoe arctic arwkv7 baichuan bailingmoe bailingmoe2 bitnet chameleon codeshell cogvlm dbrx deci deepseek "
    "deepseek2-ocr dream exaone grok grovemoe hunyuan_vl internlm2 jais jina-bert-v2 jina-bert-v3 kimi-linear llada "
    "llada-moe llama-embed maincoder  mimo2 minicpm minicpm3 mistral4 mpt neo-bert nomic-bert-moe openelm orion "
    "paddleocr pangu-embedded phimoe plamo plamo2 plamo3 plm qwen refact rnd1 rwkv6 rwkv6qwen2 rwkv7 smallthinker  "
    "step35 wavtokenizer-dec xverse";
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
