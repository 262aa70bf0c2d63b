/* llm_families.c - the families of models that llama.cpp runs, a row each: the name of the architecture there, what
 * becomes of tensors. What transformers takes where config.json does not say: arch/arch.h. To add a family: a row, and its rules for
 * names where they differ from those of all. docs/formats.md has how close llama.cpp comes to transformers in each. */
#include "formats/gguf_folder/llm_parts.h"

#include <stdio.h>
#include <string.h>

#define ATTENTION "attn_norm attn_q attn_k attn_v attn_output "
#define DENSE     ATTENTION "ffn_norm ffn_gate ffn_up ffn_down"
#define EXPERTS   ATTENTION "ffn_norm ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps"
#define QK_NORMS  " attn_q_norm attn_k_norm"

#define QKV_BIASES "attn_q.bias attn_k.bias attn_v.bias"
#define ALL_BIASES QKV_BIASES " attn_output.bias ffn_gate.bias ffn_up.bias ffn_down.bias"

#define BERT                                                                                                  \
    "attn_q attn_q.bias attn_k attn_k.bias attn_v attn_v.bias attn_output attn_output.bias attn_output_norm " \
    "attn_output_norm.bias ffn_up ffn_up.bias ffn_down ffn_down.bias layer_output_norm layer_output_norm.bias"

#define EXPERTS_OF_GPT_OSS                                                                                        \
    ATTENTION "attn_q.bias attn_k.bias attn_v.bias attn_output.bias attn_sinks post_attention_norm ffn_gate_inp " \
              "ffn_gate_inp.bias ffn_gate_exps ffn_gate_exps.bias ffn_up_exps ffn_up_exps.bias ffn_down_exps "    \
              "ffn_down_exps.bias"

/* Layers of Qwen3.5: of full attention, with a gate behind the queries of each head; and recurrent ones. */
#define GATED     "attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm"
#define RECURRENT "attn_qkv attn_gate ssm_conv1d ssm_dt.bias ssm_a ssm_alpha ssm_beta ssm_norm ssm_out"
#define SHARED    " ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp ffn_down_shexp"

#define GEMMA4 \
    "attn_norm attn_q attn_output attn_q_norm post_attention_norm ffn_norm ffn_gate ffn_up ffn_down post_ffw_norm"
#define MAYBE_GEMMA4 "attn_k attn_k_norm attn_v layer_output_scale inp_gate proj post_norm"

#define SILU "silu|swish"
#define TANH "gelu_pytorch_tanh"

const struct llm_rule vc_llm_rules[] = {
    {.from = "embed_tokens", .to = "token_embd", .shape = "VH"},
    {.from = "norm", .to = "output_norm", .shape = "H"},
    {.from = "lm_head", .to = "output", .shape = "VH"},
    {.from = "layers.#.input_layernorm", .to = "blk.#.attn_norm", .shape = "H"},
    {.from = "layers.#.self_attn.q_proj", .to = "blk.#.attn_q", .shape = "qH"},
    {.from = "layers.#.self_attn.k_proj", .to = "blk.#.attn_k", .shape = "kH"},
    {.from = "layers.#.self_attn.v_proj", .to = "blk.#.attn_v", .shape = "kH"},
    {.from = "layers.#.self_attn.o_proj", .to = "blk.#.attn_output", .shape = "Hq"},
    {.from = "layers.#.self_attn.q_norm", .to = "blk.#.attn_q_norm", .shape = "d"},
    {.from = "layers.#.self_attn.k_norm", .to = "blk.#.attn_k_norm", .shape = "d"},
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.ffn_norm", .shape = "H"},
    {.from = "layers.#.mlp.gate_proj", .to = "blk.#.ffn_gate", .shape = "FH"},
    {.from = "layers.#.mlp.up_proj", .to = "blk.#.ffn_up", .shape = "FH"},
    {.from = "layers.#.mlp.down_proj", .to = "blk.#.ffn_down", .shape = "HF"},
    {.from = "layers.#.mlp.gate.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {.from = "layers.#.mlp.experts.*.gate_proj", .to = "blk.#.ffn_gate_exps", .shape = "EeH"},
    {.from = "layers.#.mlp.experts.*.up_proj", .to = "blk.#.ffn_up_exps", .shape = "EeH"},
    {.from = "layers.#.mlp.experts.*.down_proj", .to = "blk.#.ffn_down_exps", .shape = "EHe"},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", "EeH", LLM_FIRST_HALF, LLM_STRAIGHT},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", "EeH", LLM_SECOND_HALF, LLM_STRAIGHT},
    {.from = "layers.#.mlp.experts.down_proj", .to = "blk.#.ffn_down_exps.weight", .shape = "EHe"},
    {.from = "layers.#.mlp.shared_expert.gate_proj", .to = "blk.#.ffn_gate_shexp", .shape = "sH"},
    {.from = "layers.#.mlp.shared_expert.up_proj", .to = "blk.#.ffn_up_shexp", .shape = "sH"},
    {.from = "layers.#.mlp.shared_expert.down_proj", .to = "blk.#.ffn_down_shexp", .shape = "Hs"},
    {.from = "layers.#.mlp.shared_expert_gate", .to = "blk.#.ffn_gate_inp_shexp", .shape = "1H"},
    {.from = NULL},
};

/* Norms before and behind attention and the feed-forward part. */
static const struct llm_rule four_norms[] = {
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.pre_feedforward_layernorm", .to = "blk.#.ffn_norm", .shape = "H"},
    {.from = "layers.#.post_feedforward_layernorm", .to = "blk.#.post_ffw_norm", .shape = "H"},
    {.from = NULL},
};

/* Tables and matrices with a part for each layer; experts beside the dense feed-forward part, gate and up joined. */
static const struct llm_rule rules_of_gemma4[] = {
    {.from = "embed_tokens_per_layer", .to = "per_layer_token_embd", .shape = "VJ"},
    {.from = "per_layer_model_projection", .to = "per_layer_model_proj", .shape = "JH"},
    {.from = "per_layer_projection_norm", .to = "per_layer_proj_norm", .shape = "I"},
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.pre_feedforward_layernorm", .to = "blk.#.ffn_norm", .shape = "H"},
    {.from = "layers.#.post_feedforward_layernorm", .to = "blk.#.post_ffw_norm", .shape = "H"},
    {.from = "layers.#.layer_scalar", .to = "blk.#.layer_output_scale.weight", .shape = "1"},
    {.from = "layers.#.per_layer_input_gate", .to = "blk.#.inp_gate", .shape = "IH"},
    {.from = "layers.#.per_layer_projection", .to = "blk.#.proj", .shape = "HI"},
    {.from = "layers.#.post_per_layer_input_norm", .to = "blk.#.post_norm", .shape = "H"},
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

/* Norms behind them alone; those of queries and keys go over all heads together. */
static const struct llm_rule rules_of_olmo2[] = {
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.post_feedforward_layernorm", .to = "blk.#.post_ffw_norm", .shape = "H"},
    {.from = "layers.#.self_attn.q_norm", .to = "blk.#.attn_q_norm", .shape = "q"},
    {.from = "layers.#.self_attn.k_norm", .to = "blk.#.attn_k_norm", .shape = "k"},
    {.from = NULL},
};

static const struct llm_rule rules_of_mixtral[] = {
    {.from = "layers.#.block_sparse_moe.gate.weight", .to = "blk.#.ffn_gate_inp.weight", .shape = "EH"},
    {.from = "layers.#.block_sparse_moe.experts.*.w1", .to = "blk.#.ffn_gate_exps", .shape = "EeH"},
    {.from = "layers.#.block_sparse_moe.experts.*.w3", .to = "blk.#.ffn_up_exps", .shape = "EeH"},
    {.from = "layers.#.block_sparse_moe.experts.*.w2", .to = "blk.#.ffn_down_exps", .shape = "EHe"},
    {.from = NULL},
};

/* Joined matrices stay joined. */
static const struct llm_rule rules_of_phi3[] = {
    {.from = "layers.#.self_attn.qkv_proj", .to = "blk.#.attn_qkv", .shape = "QH"},
    {.from = "layers.#.mlp.gate_up_proj", .to = "blk.#.ffn_up", .shape = "GH"},
    {.from = NULL},
};

static const struct llm_rule rules_of_glm4[] = {
    {.from = "layers.#.post_self_attn_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.post_mlp_layernorm", .to = "blk.#.post_ffw_norm", .shape = "H"},
    {.from = "layers.#.mlp.gate_up_proj", .to = "blk.#.ffn_up", .shape = "GH"},
    {.from = NULL},
};

static const struct llm_rule rules_of_seed_oss[] = {
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = NULL},
};

static const struct llm_rule rules_of_qwen3_5[] = {
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.self_attn.q_proj", .to = "blk.#.attn_q", .shape = "pH"},
    {.from = "layers.#.linear_attn.in_proj_qkv", .to = "blk.#.attn_qkv", .shape = "cH", .rows = LLM_LAST_HEADS},
    {.from = "layers.#.linear_attn.in_proj_z", .to = "blk.#.attn_gate", .shape = "iH", .rows = LLM_HEADS},
    {.from = "layers.#.linear_attn.in_proj_a", .to = "blk.#.ssm_alpha", .shape = "vH", .rows = LLM_HEADS},
    {.from = "layers.#.linear_attn.in_proj_b", .to = "blk.#.ssm_beta", .shape = "vH", .rows = LLM_HEADS},
    {"layers.#.linear_attn.conv1d", "blk.#.ssm_conv1d", "cL", LLM_LAST_HEADS, LLM_CHANNELS},
    {"layers.#.linear_attn.A_log", "blk.#.ssm_a", "v", LLM_HEADS, LLM_LOGARITHM},
    {.from = "layers.#.linear_attn.dt_bias", .to = "blk.#.ssm_dt.bias", .shape = "v", .rows = LLM_HEADS},
    {.from = "layers.#.linear_attn.norm", .to = "blk.#.ssm_norm", .shape = "u"},
    {.from = "layers.#.linear_attn.out_proj", .to = "blk.#.ssm_out", .shape = "Hi", .rows = LLM_HEAD_COLUMNS},
    {.from = NULL},
};

/* The first positions of RoBERTa belong to no token. */
static const struct llm_rule rules_of_bert[] = {
    {.from = "embeddings.word_embeddings", .to = "token_embd", .shape = "VH"},
    {.from = "embeddings.position_embeddings", .to = "position_embd", .shape = "PH", .rows = LLM_BEHIND},
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

/* Experts are matrices of [in, out], in which rows of the gate and of the other part take turns; or blocks of MXFP4. */
static const struct llm_rule rules_of_gpt_oss[] = {
    {.from = "layers.#.self_attn.sinks", .to = "blk.#.attn_sinks.weight", .shape = "A"},
    {.from = "layers.#.post_attention_layernorm", .to = "blk.#.post_attention_norm", .shape = "H"},
    {.from = "layers.#.mlp.router", .to = "blk.#.ffn_gate_inp", .shape = "EH"},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", "EeH", LLM_EVEN, LLM_TURNED},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", "EeH", LLM_ODD, LLM_TURNED},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", "EHe", LLM_ALL, LLM_TURNED},
    {"layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_gate_exps.bias", "Ee", LLM_EVEN, LLM_TURNED},
    {"layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_up_exps.bias", "Ee", LLM_ODD, LLM_TURNED},
    {.from = "layers.#.mlp.experts.down_proj_bias", .to = "blk.#.ffn_down_exps.bias", .shape = "EH"},
    {"layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_gate_exps.weight", "EeH", LLM_EVEN, LLM_BLOCKS},
    {"layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_up_exps.weight", "EeH", LLM_ODD, LLM_BLOCKS},
    {"layers.#.mlp.experts.down_proj_blocks", "blk.#.ffn_down_exps.weight", "EHe", LLM_ALL, LLM_BLOCKS},
    {.from = "layers.#.mlp.experts.gate_up_proj_scales"},
    {.from = "layers.#.mlp.experts.down_proj_scales"},
    {.from = NULL},
};

/* In the order of struct llm_family: model_type, class of transformers, architecture of llama.cpp, flags, tensors that
 * each layer has and may have, activation; then what is special. */
static const struct llm_family families[] = {
    {"llama", "LlamaForCausalLM", "llama", LLM_PERMUTES | LLM_FREQS, DENSE, ALL_BIASES, SILU, .rules = NULL},
    {"mistral", "MistralForCausalLM", "llama", LLM_PERMUTES | LLM_FREQS | LLM_WINDOW_LOST, DENSE, "", SILU,
     .rules = NULL},
    {"mixtral", "MixtralForCausalLM", "llama", LLM_PERMUTES | LLM_FREQS | LLM_WINDOW_LOST | LLM_EXPERTS, EXPERTS, "",
     SILU, .rules = rules_of_mixtral},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", LLM_HEADS_FILL | LLM_WINDOW_LOST, DENSE, QKV_BIASES, SILU, .rules = NULL},
    {"qwen2_moe", "Qwen2MoeForCausalLM", "qwen2moe",
     LLM_HEADS_FILL | LLM_WINDOW_LOST | LLM_EXPERTS | LLM_EXPERT_SIZE | LLM_OWN_HEAD, EXPERTS SHARED, QKV_BIASES, SILU,
     .rules = NULL},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", LLM_WINDOW_LOST, DENSE QK_NORMS, QKV_BIASES, SILU, .rules = NULL},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3moe", LLM_WINDOW_LOST | LLM_EXPERTS | LLM_EXPERT_SIZE, EXPERTS QK_NORMS,
     QKV_BIASES, SILU, .rules = NULL},
    {"qwen3_5_text|qwen3_5", "Qwen3_5ForCausalLM", "qwen35", LLM_PLUS_ONE | LLM_RECURRENT | LLM_PARTIAL,
     "attn_norm post_attention_norm ffn_gate ffn_up ffn_down", "", SILU, .rules = rules_of_qwen3_5, .first = GATED,
     .second = RECURRENT},
    {"qwen3_5_moe_text|qwen3_5_moe", "Qwen3_5MoeForCausalLM", "qwen35moe",
     LLM_PLUS_ONE | LLM_RECURRENT | LLM_PARTIAL | LLM_EXPERTS | LLM_EXPERT_SIZE,
     "attn_norm post_attention_norm ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps" SHARED, "", SILU,
     .rules = rules_of_qwen3_5, .first = GATED, .second = RECURRENT},
    {"gemma2", "Gemma2ForCausalLM", "gemma2", LLM_PLUS_ONE | LLM_NO_HEAD | LLM_SLIDES,
     DENSE " post_attention_norm post_ffw_norm", "", TANH, .rules = four_norms},
    {"gemma3_text|gemma3", "Gemma3ForCausalLM", "gemma3", LLM_PLUS_ONE | LLM_SLIDES,
     DENSE QK_NORMS " post_attention_norm post_ffw_norm", "", TANH, .rules = four_norms},
    {"gemma4_text|gemma4", NULL, "gemma4", LLM_SLIDES | LLM_NO_HEAD_SIZE | LLM_PARTIAL, GEMMA4, MAYBE_GEMMA4, TANH,
     .rules = rules_of_gemma4},
    {"gemma4_text+experts", NULL, "gemma4", LLM_SLIDES | LLM_NO_HEAD_SIZE | LLM_PARTIAL | LLM_EXPERTS | LLM_EXPERT_SIZE,
     GEMMA4 " ffn_gate_inp ffn_gate_inp.scale ffn_gate_up_exps ffn_down_exps ffn_down_exps.scale pre_ffw_norm_2 "
            "post_ffw_norm_1 post_ffw_norm_2",
     MAYBE_GEMMA4, TANH, .rules = rules_of_gemma4},
    {"phi3", "Phi3ForCausalLM", "phi3", LLM_HEADS_FILL | LLM_WINDOW_LOST | LLM_PARTIAL,
     "attn_norm attn_qkv attn_output ffn_norm ffn_up ffn_down", "", SILU, .rules = rules_of_phi3},
    {"smollm3", "SmolLM3ForCausalLM", "smollm3", LLM_PERMUTES | LLM_WINDOW_LOST, DENSE, QKV_BIASES, SILU,
     .rules = NULL},
    {"granite", "GraniteForCausalLM", "granite", LLM_PERMUTES | LLM_FREQS | LLM_HEADS_FILL | LLM_NO_HEAD_SIZE, DENSE,
     ALL_BIASES, SILU, .rules = NULL},
    {"olmo2", "Olmo2ForCausalLM", "olmo2", LLM_HEADS_FILL | LLM_OWN_HEAD,
     "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down post_attention_norm post_ffw_norm" QK_NORMS, "", SILU,
     .rules = rules_of_olmo2},
    {"olmo3", "Olmo3ForCausalLM", "olmo2", LLM_HEADS_FILL | LLM_OWN_HEAD | LLM_SLIDES,
     "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down post_attention_norm post_ffw_norm" QK_NORMS, "", SILU,
     .rules = rules_of_olmo2},
    {"glm4", "Glm4ForCausalLM", "glm4", LLM_PARTIAL,
     ATTENTION "post_attention_norm ffn_norm ffn_up ffn_down post_ffw_norm", QKV_BIASES, SILU, .rules = rules_of_glm4},
    {"seed_oss", "SeedOssForCausalLM", "seed_oss", 0, ATTENTION "post_attention_norm ffn_gate ffn_up ffn_down",
     QKV_BIASES, SILU, .rules = rules_of_seed_oss},
    {"gpt_oss", "GptOssForCausalLM", "gpt-oss", LLM_EXPERTS | LLM_EXPERT_SIZE | LLM_OWN_HEAD | LLM_SLIDES,
     EXPERTS_OF_GPT_OSS, "", SILU, .rules = rules_of_gpt_oss},
    {"ministral3", "Ministral3ForCausalLM", "mistral3", LLM_PERMUTES | LLM_FREQS | LLM_WINDOW_LOST, DENSE, "", SILU,
     .rules = NULL},
    {"arcee", "ArceeForCausalLM", "arcee", LLM_PERMUTES | LLM_FREQS, ATTENTION "ffn_norm ffn_up ffn_down", "", "relu2",
     .rules = NULL},
    {"bert|roberta|xlm-roberta", NULL, "bert", LLM_ENCODER | LLM_HEADS_FILL, BERT, "", "gelu", .rules = rules_of_bert,
     .whole = "token_embd_norm token_embd_norm.bias position_embd token_types"},
    {.types = NULL},
};

const struct llm_family *vc_llm_family(const char *model_type)
{
    for (const struct llm_family *f = families; f->types != NULL; f++) {
        if (vc_is_one_of(model_type, f->types)) {
            return f;
        }
    }
    return NULL;
}

const struct llm_family *vc_llm_family_back(const char *architecture, bool has_experts, bool slides)
{
    const struct llm_family *found = NULL;

    for (const struct llm_family *f = families; f->types != NULL; f++) {
        bool same = f->class_name != NULL && strcmp(f->architecture, architecture) == 0 &&
                    ((f->flags & LLM_EXPERTS) != 0) == has_experts && (slides || (f->flags & LLM_SLIDES) == 0);

        found = same && (found == NULL || (f->flags & LLM_SLIDES) != 0) ? f : found;
    }
    return found;
}

const struct vc_arch *vc_llm_family_arch(const struct llm_family *family)
{
    char type[64];

    (void)snprintf(type, sizeof type, "%.*s", (int)strcspn(family->types, "|"), family->types);
    return vc_arch_find_text(type);
}

const char *vc_llm_family_list(char *list, size_t room, bool back)
{
    size_t n = 0;

    for (const struct llm_family *f = families; f->types != NULL && n < room; f++) {
        if (!back || f->class_name != NULL) {
            n += (size_t)snprintf(list + n, room - n, "%s%s", f == families ? "" : ", ", f->types);
        }
    }
    return list;
}
