/* arch_keys.c - what sizes and other numbers of a model are called in a config.json and in GGUF's metadata: see arch_family.h. */

#include "arch/arch_family.h"
#include "core/text/text.h"

/* In config.json, of all classes: the first is that of most. */
#define HIDDEN       "hidden_size|n_embd|d_model|dim|model_dim|word_embed_proj_dim"
#define INTERMEDIATE "intermediate_size|n_inner|ffn_dim|d_ff|hidden_dim|ffn_hidden_size"
#define EXPERT       "moe_intermediate_size|expert_intermediate_size"
#define SHARED       "shared_expert_intermediate_size|shared_intermediate_size"
#define LAYERS       "num_hidden_layers|n_layer|num_layers|n_layers|depth"
#define HEADS        "num_attention_heads|n_head|num_heads|n_heads|encoder_attention_heads|decoder_attention_heads"
#define KEY_HEADS    "num_key_value_heads|n_head_kv|num_kv_heads|n_kv_heads|multi_query_group_num"
#define HEAD         "head_dim|d_kv|kv_channels"
#define VOCABULARY   "vocab_size|padded_vocab_size"

/* The sizes that edits change: there, and behind the architecture in GGUF. */
static const struct {
    const char *config, *gguf;
} edited[VC_EDIT_KEYS] = {
    [VC_EDIT_HIDDEN] = {HIDDEN, "embedding_length"},
    [VC_EDIT_INTERMEDIATE] = {INTERMEDIATE, "feed_forward_length"},
    [VC_EDIT_EXPERT] = {EXPERT, "expert_feed_forward_length"},
    [VC_EDIT_SHARED] = {SHARED, "expert_shared_feed_forward_length"},
    [VC_EDIT_ENCODER] = {"encoder_ffn_dim", "encoder.feed_forward_length"},
    [VC_EDIT_DECODER] = {"decoder_ffn_dim", "decoder.feed_forward_length"},
    [VC_EDIT_LAYERS] = {LAYERS, "block_count"},
    [VC_EDIT_HEADS] = {HEADS, "attention.head_count"},
    [VC_EDIT_KV_HEADS] = {KEY_HEADS, "attention.head_count_kv"},
    [VC_EDIT_HEAD_SIZE] = {HEAD, "attention.key_length|attention.value_length"},
    [VC_EDIT_EXPERTS] = {"num_local_experts|num_experts|n_routed_experts|moe_num_experts", "expert_count"},
    [VC_EDIT_VOCABULARY] = {VOCABULARY, "vocab_size"},
};

const char *vc_arch_config_names(enum vc_edit_key size)
{
    return edited[size].config;
}

const char *vc_arch_gguf_names(enum vc_edit_key size)
{
    return edited[size].gguf;
}

/* Architectures of llama.cpp that have something in common: norms with a mean; no rotary positions; keys and values that
 * are decompressed; layers without experts in front of those with some; experts that all tokens use, counted; the weights
 * of the chosen experts are said to be sigmoids; recurrent layers of Mamba's kind. */
#define MEANS                                                                                                        \
    "gpt2|starcoder|gptneox|starcoder2|command-r|cohere2|bloom|phi2|stablelm|nemotron|falcon|nemotron_h|nemotron_h_" \
    "moe|modern-bert|cohere2moe|jais2"
#define T5       "t5|t5encoder"
#define NO_ROPE  "gpt2|starcoder|bloom|jamba|mamba|mamba2|" T5
#define LATENT   VC_ARCH_LATENT
#define LEADING  LATENT "|glm4moe|dots1|lfm2moe|ernie4_5-moe|exaone-moe|cohere2moe"
#define COUNTED  LATENT "|glm4moe|dots1|ernie4_5-moe|exaone-moe|nemotron_h_moe|cohere2moe"
#define WEIGHED  LATENT "|glm4moe|dots1|exaone-moe|nemotron_h_moe"
#define SIGMOIDS "glm4moe|dots1|lfm2moe|minimax-m2|exaone-moe"
#define MAMBAS   "jamba|granitehybrid|nemotron_h|nemotron_h_moe|mamba|mamba2"
#define GRANITES "granite|granitemoe|granitehybrid"

/* Where a number comes from: a size, the head size, or a real number with a default. */
#define SIZE(name)      .source = VC_FROM_SIZE, .field = offsetof(struct vc_arch_sizes, name)
#define HEAD_SIZE       .source = VC_FROM_HEAD_SIZE, .field = offsetof(struct vc_arch_sizes, head_size)
#define REAL(value)     .source = VC_FROM_REAL, .otherwise = (value)
#define COUNT(name)     .source = VC_FROM_COUNT, .field = offsetof(struct vc_arch_sizes, name)
#define IF_ANY(name)    .source = VC_FROM_COUNT_IF_ANY, .field = offsetof(struct vc_arch_sizes, name)
#define LETTER(letter)  "", .source = VC_FROM_LETTER, .field = (letter)
#define CONSTANT(value) "", .source = VC_FROM_CONSTANT, .otherwise = (value)
#define FLAG(value)     .source = VC_FROM_FLAG, .otherwise = (value)
#define OF(names_there) .architectures = (names_there)
#define NOT(names_here) .except = (names_here)

/* GGUF's key behind the architecture, the names of config.json, and who has it: families with a trait, without one, or
 * of some architectures. */
const struct vc_arch_pair vc_arch_pairs[] = {
    /* sizes */
    {".block_count", LAYERS, SIZE(layers)},
    {".context_length", "max_position_embeddings|n_positions|n_ctx|seq_length", SIZE(context), NOT("mamba|mamba2|" T5)},
    {".context_length", "n_positions", SIZE(context), .otherwise = 512, OF(T5)},
    {".context_length", CONSTANT(1 << 20), OF("mamba|mamba2")},
    {".embedding_length", HIDDEN, SIZE(hidden)},
    {".feed_forward_length", INTERMEDIATE "|" EXPERT, SIZE(feed_forward),
     NOT("llama4|lfm2|mamba|mamba2|gpt2|starcoder|cohere2moe")},
    {".feed_forward_length", "prefix_dense_intermediate_size|intermediate_size", SIZE(feed_forward), OF("cohere2moe")},
    {".feed_forward_length", "n_inner", SIZE(feed_forward), OF("gpt2|starcoder")},
    {".feed_forward_length", "intermediate_size_mlp", SIZE(feed_forward), OF("llama4")},
    {".feed_forward_length", "block_ff_dim|intermediate_size", SIZE(feed_forward), OF("lfm2")},
    {".feed_forward_length", CONSTANT(0), OF("mamba|mamba2")},
    {".attention.head_count", HEADS, SIZE(heads), NOT("mamba|mamba2")},
    {".attention.head_count", CONSTANT(0), OF("mamba|mamba2")},
    {".attention.head_count_kv", KEY_HEADS, SIZE(key_heads), .has_not = VC_ARCH_ENCODER,
     NOT("gpt2|starcoder|gptneox|bloom|mamba|mamba2|modern-bert|falcon|" T5 "|" LATENT)},
    {".attention.head_count_kv", LETTER('h'), OF("falcon|starcoder|bloom")},
    {".attention.head_count_kv", CONSTANT(1), OF(LATENT)},
    {".attention.key_length", HEAD, HEAD_SIZE, .has_not = VC_ARCH_ENCODER | VC_ARCH_NO_HEAD_SIZE},
    {".attention.value_length", HEAD, HEAD_SIZE, .has_not = VC_ARCH_ENCODER | VC_ARCH_NO_HEAD_SIZE},
    /* keys and values that are decompressed */
    {".attention.q_lora_rank", "q_lora_rank", IF_ANY(query_rank), OF(LATENT)},
    {".attention.kv_lora_rank", "kv_lora_rank", SIZE(rank), OF(LATENT)},
    {".attention.key_length", LETTER('M'), OF(LATENT)},
    {".attention.value_length", LETTER('r'), OF(LATENT)},
    {".attention.key_length_mla", LETTER('y'), OF(LATENT)},
    {".attention.value_length_mla", "v_head_dim", SIZE(value_head), OF(LATENT)},
    {".attention.indexer.head_count", "index_n_heads", SIZE(index_heads), OF("deepseek32|glm-dsa")},
    {".attention.indexer.key_length", "index_head_dim", SIZE(index_size), OF("deepseek32|glm-dsa")},
    {".attention.indexer.top_k", "index_topk", SIZE(index_best), OF("deepseek32|glm-dsa")},
    /* norms and rotary positions */
    {".attention.layer_norm_rms_epsilon", "rms_norm_eps|norm_eps", VC_FROM_EPSILON, .otherwise = 1e-6,
     .has_not = VC_ARCH_ENCODER, NOT(MEANS "|olmo|lfm2|lfm2moe|mamba|mamba2|" T5)},
    {".attention.layer_norm_rms_epsilon", "norm_eps", VC_FROM_EPSILON, .otherwise = 1e-5, OF("lfm2|lfm2moe")},
    {".attention.layer_norm_rms_epsilon", "layer_norm_epsilon", VC_FROM_EPSILON, .otherwise = 1e-6, OF(T5)},
    {".attention.layer_norm_epsilon", "layer_norm_epsilon", VC_FROM_EPSILON, .otherwise = 1e-6, OF(T5)},
    {".attention.relative_buckets_count", "relative_attention_num_buckets", SIZE(buckets), .otherwise = 32, OF(T5)},
    {".decoder_block_count", "num_decoder_layers", SIZE(decoder_layers), OF("t5")},
    {".decoder_start_token_id", "decoder_start_token_id|pad_token_id", COUNT(start), OF("t5")},
    {".attention.layer_norm_rms_epsilon", "layer_norm_epsilon", VC_FROM_EPSILON, .otherwise = 1e-5, OF("mamba|mamba2")},
    {".attention.layer_norm_epsilon", "layer_norm_eps|layer_norm_epsilon", VC_FROM_EPSILON, .otherwise = 1e-12,
     .has = VC_ARCH_ENCODER},
    {".attention.layer_norm_epsilon", "layer_norm_eps|layer_norm_epsilon", VC_FROM_EPSILON, .otherwise = 1e-5,
     OF(MEANS), NOT("gpt2|starcoder|bloom|falcon|nemotron_h|nemotron_h_moe|starcoder2|nemotron|modern-bert")},
    {".attention.layer_norm_epsilon", "layer_norm_epsilon", VC_FROM_EPSILON, .otherwise = 1e-5,
     OF("gpt2|starcoder|bloom|falcon|nemotron_h|nemotron_h_moe")},
    {".attention.layer_norm_epsilon", "norm_epsilon", VC_FROM_EPSILON, .otherwise = 1e-5, OF("starcoder2")},
    {".attention.layer_norm_epsilon", "norm_eps", VC_FROM_EPSILON, .otherwise = 1e-5, OF("nemotron|modern-bert")},
    {".attention.layer_norm_rms_epsilon", "norm_eps", VC_FROM_EPSILON, .otherwise = 1e-5, OF("nemotron")},
    {".attention.layer_norm_rms_epsilon", "rms_norm_eps", VC_FROM_REAL_IF_SAID, OF("cohere2moe")},
    {".attention.layer_norm_epsilon", "", VC_FROM_REAL, .otherwise = 1e-5, OF("olmo")},
    {".vocab_size", VOCABULARY, VC_FROM_VOCABULARY, .has_not = VC_ARCH_ENCODER},
    {".rope.freq_base", "rope_theta", VC_FROM_THETA, .has_not = VC_ARCH_ENCODER,
     NOT(NO_ROPE "|nemotron_h|nemotron_h_moe")},
    {".rope.freq_base", "rope_theta", VC_FROM_THETA, OF("nomic-bert")},
    {".rope.dimension_count", "partial_rotary_factor|rotary_pct", VC_FROM_ROTATED, .has_not = VC_ARCH_ENCODER,
     NOT(NO_ROPE "|gptneox")},
    {".rope.dimension_count", "rotary_pct", VC_FROM_ROTATED, OF("gptneox")},
    /* experts */
    {".expert_count", "num_experts|num_local_experts", SIZE(experts), .has = VC_ARCH_EXPERTS,
     OF("qwen2moe|qwen3moe|qwen3vlmoe|qwen35moe|gemma4|olmoe|qwen3next|hunyuan-moe|lfm2moe|exaone-moe|cohere2moe|"
        "jamba")},
    {".expert_count", "num_local_experts|num_experts", SIZE(experts), .has = VC_ARCH_EXPERTS,
     OF("llama|gpt-oss|granitemoe|granitehybrid|minimax-m2|llama4")},
    {".expert_count", "n_routed_experts|num_local_experts", SIZE(experts), .has = VC_ARCH_EXPERTS, OF(WEIGHED),
     NOT("exaone-moe")},
    {".expert_count", "moe_num_experts", SIZE(experts), .has = VC_ARCH_EXPERTS, OF("ernie4_5-moe")},
    {".expert_used_count", "num_experts_per_tok|top_k_experts|moe_k|moe_topk", SIZE(experts_used),
     .has = VC_ARCH_EXPERTS, NOT("ernie4_5-moe|hunyuan-moe")},
    {".expert_used_count", "moe_k", SIZE(experts_used), OF("ernie4_5-moe")},
    {".expert_used_count", "moe_topk|num_experts_per_tok", SIZE(experts_used), OF("hunyuan-moe")},
    {".expert_feed_forward_length", EXPERT "|intermediate_size", SIZE(expert_size), .has = VC_ARCH_EXPERT_SIZE,
     NOT("llama4|hunyuan-moe|cohere2moe")},
    {".expert_feed_forward_length", "intermediate_size", SIZE(expert_size), OF("llama4|hunyuan-moe|cohere2moe")},
    {".leading_dense_block_count", "first_k_dense_replace", COUNT(dense), OF(LEADING), NOT("lfm2moe|ernie4_5-moe")},
    {".leading_dense_block_count", "num_dense_layers", COUNT(dense), OF("lfm2moe")},
    {".leading_dense_block_count", "moe_layer_start_index", COUNT(dense), OF("ernie4_5-moe")},
    {".interleave_moe_layer_step", "interleave_moe_layer_step", SIZE(step), .otherwise = 1, OF("llama4")},
    {".interleave_moe_layer_step", "moe_layer_interval", SIZE(step), .otherwise = 1, OF("ernie4_5-moe")},
    {".expert_shared_count", "n_shared_experts", COUNT(shared), OF(COUNTED), NOT("ernie4_5-moe|exaone-moe|cohere2moe")},
    {".expert_shared_count", "moe_num_shared_experts", COUNT(shared), OF("ernie4_5-moe")},
    {".expert_shared_count", "num_shared_experts", COUNT(shared), OF("exaone-moe|cohere2moe")},
    {".expert_shared_count", "num_shared_expert", COUNT(shared), .otherwise = 1, OF("hunyuan-moe")},
    {".expert_shared_feed_forward_length", LETTER('s'), OF("ernie4_5-moe|hunyuan-moe|exaone-moe|cohere2moe")},
    {".expert_weights_scale", "routed_scaling_factor", REAL(1.0), OF(WEIGHED)},
    {".expert_weights_norm", "norm_topk_prob", FLAG(0), OF(WEIGHED)},
    {".expert_weights_norm", "norm_topk_prob", FLAG(1), OF("cohere2moe")},
    {".expert_gating_func", CONSTANT(2), OF(SIGMOIDS)},
    {".expert_group_count", "n_group", IF_ANY(groups), OF(WEIGHED)},
    {".expert_group_used_count", "topk_group", IF_ANY(groups_used), OF(WEIGHED)},
    /* numbers of single families */
    {".attn_logit_softcapping", "attn_logit_softcapping", REAL(0.0), .has = VC_ARCH_CAPS_SCORES},
    {".final_logit_softcapping", "final_logit_softcapping", REAL(0.0), .has = VC_ARCH_CAPS_SCORES},
    {".rope.freq_base_swa", "rope_local_base_freq", VC_FROM_LOCAL_THETA, .has = VC_ARCH_LOCAL_ROPE},
    {".final_logit_softcapping", "final_logit_softcapping", REAL(0.0), OF("gemma4")},
    {".final_logit_softcapping", "final_logit_softcapping", VC_FROM_REAL_IF_SAID, .has = VC_ARCH_CAPS_LOGITS,
     .has_not = VC_ARCH_CAPS_SCORES},
    {".attention.scale", "attention_multiplier", REAL(1.0), .has_not = VC_ARCH_PARTIAL, OF(GRANITES)},
    {".embedding_scale", "embedding_multiplier", REAL(1.0), .has_not = VC_ARCH_PARTIAL, OF(GRANITES)},
    {".residual_scale", "residual_multiplier", REAL(1.0), .has_not = VC_ARCH_PARTIAL, OF(GRANITES)},
    {".logit_scale", "logits_scaling", REAL(1.0), .has_not = VC_ARCH_PARTIAL, OF(GRANITES)},
    {".logit_scale", "logit_scale", REAL(0.0625), OF("command-r|cohere2|cohere2moe")},
    {".attention.clamp_kqv", "clip_qkv", VC_FROM_REAL_IF_SAID, OF("olmo")},
    {".use_parallel_residual", "use_parallel_residual", FLAG(1), OF("gptneox")},
    {".use_parallel_residual", "use_parallel_residual", FLAG(0), OF("stablelm")},
    {".attention.sliding_window", "sliding_window", VC_FROM_WINDOW, OF("phi3")},
    {".expert_shared_feed_forward_length", SHARED, SIZE(shared_size), .has = VC_ARCH_SHARED_EXPERT,
     NOT(GRANITES "|nemotron_h_moe")},
    {".expert_shared_feed_forward_length", "shared_intermediate_size", SIZE(shared_size), .has = VC_ARCH_SHARED_EXPERT,
     OF(GRANITES)},
    {".expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", SIZE(shared_size),
     OF("nemotron_h_moe")},
    /* recurrent layers */
    {".ssm.conv_kernel", "linear_conv_kernel_dim", SIZE(kernel), .has = VC_ARCH_RECURRENT, NOT(MAMBAS "|lfm2|lfm2moe")},
    {".ssm.state_size", "linear_key_head_dim", SIZE(unit), .has = VC_ARCH_RECURRENT, NOT(MAMBAS "|lfm2|lfm2moe")},
    {".ssm.group_count", "linear_num_key_heads", SIZE(key_units), .has = VC_ARCH_RECURRENT,
     NOT(MAMBAS "|lfm2|lfm2moe")},
    {".ssm.time_step_rank", "linear_num_value_heads", SIZE(value_units), .has = VC_ARCH_RECURRENT,
     NOT(MAMBAS "|lfm2|lfm2moe")},
    {".ssm.conv_kernel", "mamba_d_conv", SIZE(kernel), OF("granitehybrid|falcon-h1|jamba")},
    {".ssm.state_size", "mamba_d_state", SIZE(state), OF("granitehybrid|falcon-h1|jamba")},
    {".ssm.group_count", "mamba_n_groups", SIZE(key_units), OF("granitehybrid|falcon-h1")},
    {".ssm.time_step_rank", "mamba_n_heads", SIZE(value_units), OF("granitehybrid|falcon-h1")},
    {".ssm.conv_kernel", "conv_kernel", SIZE(kernel), OF(MAMBAS), NOT("granitehybrid|jamba")},
    {".ssm.state_size", "ssm_state_size|state_size", SIZE(state), OF("nemotron_h|nemotron_h_moe")},
    {".ssm.state_size", "state_size", SIZE(state), OF("mamba|mamba2")},
    {".ssm.group_count", "n_groups", SIZE(key_units), OF("nemotron_h|nemotron_h_moe|mamba2")},
    {".ssm.time_step_rank", "mamba_num_heads", SIZE(value_units), OF("nemotron_h|nemotron_h_moe")},
    {".ssm.time_step_rank", "num_heads", SIZE(value_units), OF("mamba2")},
    {".ssm.time_step_rank", "time_step_rank", SIZE(step_rank), OF("mamba")},
    {".ssm.time_step_rank", "mamba_dt_rank", SIZE(step_rank), OF("jamba")},
    {".ssm.inner_size", LETTER('i'), OF("qwen35|qwen35moe|qwen3next|falcon-h1|" MAMBAS)},
    {".shortconv.l_cache", "conv_L_cache", SIZE(kernel), OF("lfm2|lfm2moe")},
    {.gguf = NULL},
};

bool vc_arch_knows_pair(const struct vc_arch_family *family, const struct vc_arch_pair *pair)
{
    return (family->traits & pair->has) == pair->has &&
           (pair->architectures == NULL || vc_is_one_of(family->gguf, pair->architectures)) &&
           !(pair->except != NULL && vc_is_one_of(family->gguf, pair->except));
}

/* Some are read where they are found, and not written. */
bool vc_arch_writes_pair(const struct vc_arch_family *family, const struct vc_arch_pair *pair)
{
    return vc_arch_knows_pair(family, pair) && (family->traits & pair->has_not) == 0;
}

uint64_t *vc_arch_pair_size(struct vc_arch_sizes *sizes, const struct vc_arch_pair *pair)
{
    return (uint64_t *)(void *)((char *)sizes + pair->field);
}
