/* arch_keys.c - what sizes and other numbers of a model are called in a config.json and in GGUF's metadata: see arch_family.h. */
#include <stddef.h>

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

/* Where a number comes from: a size, the head size, or a real number with a default. */
#define SIZE(name)      .source = VC_FROM_SIZE, .field = offsetof(struct vc_arch_sizes, name)
#define HEAD_SIZE       .source = VC_FROM_HEAD_SIZE, .field = offsetof(struct vc_arch_sizes, head_size)
#define REAL(value)     .source = VC_FROM_REAL, .otherwise = (value)
#define OF(names_there) .architectures = (names_there)

/* GGUF's key behind the architecture, the names of config.json, and who has it: families with a trait, without one, or
 * of some architectures. */
const struct vc_arch_pair vc_arch_pairs[] = {
    /* sizes */
    {".block_count", LAYERS, SIZE(layers)},
    {".context_length", "max_position_embeddings|n_positions|n_ctx", SIZE(context)},
    {".embedding_length", HIDDEN, SIZE(hidden)},
    {".feed_forward_length", INTERMEDIATE "|" EXPERT, SIZE(feed_forward)},
    {".attention.head_count", HEADS, SIZE(heads)},
    {".attention.head_count_kv", KEY_HEADS, SIZE(key_heads), .has_not = VC_ARCH_ENCODER},
    {".attention.key_length", HEAD, HEAD_SIZE, .has_not = VC_ARCH_ENCODER | VC_ARCH_NO_HEAD_SIZE},
    {".attention.value_length", HEAD, HEAD_SIZE, .has_not = VC_ARCH_ENCODER | VC_ARCH_NO_HEAD_SIZE},
    /* norms and rotary positions */
    {".attention.layer_norm_rms_epsilon", "rms_norm_eps|norm_eps", VC_FROM_EPSILON, .otherwise = 1e-6,
     .has_not = VC_ARCH_ENCODER},
    {".attention.layer_norm_epsilon", "layer_norm_eps", VC_FROM_EPSILON, .otherwise = 1e-6, .has = VC_ARCH_ENCODER},
    {".vocab_size", VOCABULARY, VC_FROM_VOCABULARY, .has_not = VC_ARCH_ENCODER},
    {".rope.freq_base", "rope_theta", VC_FROM_THETA, .has_not = VC_ARCH_ENCODER},
    {".rope.dimension_count", "partial_rotary_factor|rotary_pct", VC_FROM_ROTATED, .has_not = VC_ARCH_ENCODER},
    /* experts */
    {".expert_count", "num_experts|num_local_experts", SIZE(experts), .has = VC_ARCH_EXPERTS,
     OF("qwen2moe|qwen3moe|qwen3vlmoe|qwen35moe|gemma4|olmoe")},
    {".expert_count", "num_local_experts|num_experts", SIZE(experts), .has = VC_ARCH_EXPERTS,
     OF("llama|gpt-oss|granitemoe|minimax-m2")},
    {".expert_used_count", "num_experts_per_tok|top_k_experts", SIZE(experts_used), .has = VC_ARCH_EXPERTS},
    {".expert_feed_forward_length", EXPERT "|intermediate_size", SIZE(expert_size), .has = VC_ARCH_EXPERT_SIZE},
    /* numbers of single families */
    {".attn_logit_softcapping", "attn_logit_softcapping", REAL(0.0), .has = VC_ARCH_CAPS_SCORES},
    {".final_logit_softcapping", "final_logit_softcapping", REAL(0.0), .has = VC_ARCH_CAPS_SCORES},
    {".rope.freq_base_swa", "rope_local_base_freq", VC_FROM_LOCAL_THETA, .has = VC_ARCH_LOCAL_ROPE},
    {".final_logit_softcapping", "final_logit_softcapping", REAL(0.0), OF("gemma4")},
    {".final_logit_softcapping", "final_logit_softcapping", VC_FROM_REAL_IF_SAID, .has = VC_ARCH_CAPS_LOGITS,
     .has_not = VC_ARCH_CAPS_SCORES},
    {".attention.scale", "attention_multiplier", REAL(1.0), OF("granite|granitemoe")},
    {".embedding_scale", "embedding_multiplier", REAL(1.0), OF("granite|granitemoe")},
    {".residual_scale", "residual_multiplier", REAL(1.0), OF("granite|granitemoe")},
    {".logit_scale", "logits_scaling", REAL(1.0), OF("granite|granitemoe")},
    {".attention.sliding_window", "sliding_window", VC_FROM_WINDOW, OF("phi3")},
    {".expert_shared_feed_forward_length", SHARED, SIZE(shared_size), .has = VC_ARCH_SHARED_EXPERT},
    /* recurrent layers */
    {".ssm.conv_kernel", "linear_conv_kernel_dim", SIZE(kernel), .has = VC_ARCH_RECURRENT},
    {".ssm.state_size", "linear_key_head_dim", SIZE(unit), .has = VC_ARCH_RECURRENT},
    {".ssm.group_count", "linear_num_key_heads", SIZE(key_units), .has = VC_ARCH_RECURRENT},
    {".ssm.time_step_rank", "linear_num_value_heads", SIZE(value_units), .has = VC_ARCH_RECURRENT},
    {.names = NULL},
};

bool vc_arch_knows_pair(const struct vc_arch_family *family, const struct vc_arch_pair *pair)
{
    return (family->traits & pair->has) == pair->has &&
           (pair->architectures == NULL || vc_is_one_of(family->gguf, pair->architectures));
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
