/* net_llama.c - the families of decoders of the form of Llama: a row each, which says what it does otherwise. */
#include "graph/families/net_decoder.h"

/* Classes beside Model and ForCausalLM that transformers has. */
#define SEQUENCE VC_NET_SEQUENCE
#define TOKEN    (VC_NET_SEQUENCE | VC_NET_TOKEN)
#define QUESTION (VC_NET_SEQUENCE | VC_NET_TOKEN | VC_NET_QUESTION)
static const char *const unused[] = {"*rotary_emb.inv_freq", NULL};

#define FAMILY(id, type_name, class, more_heads, ...) FAMILY_AS(id, type_name, class, NULL, more_heads, __VA_ARGS__)
/* base: what classes without a head of language begin with, if not with `class`. */
#define FAMILY_AS(id, type_name, class, base, more_heads, ...)                                     \
    static void build_##id(struct vc_net *net)                                                     \
    {                                                                                              \
        static const struct vc_decoder_traits traits = {__VA_ARGS__};                              \
                                                                                                   \
        vc_decoder_build(net, &traits);                                                            \
    }                                                                                              \
    const struct vc_net_family vc_net_##id = {.type = type_name,                                   \
                                              .class_name = class,                                 \
                                              .base_class = base,                                  \
                                              .prefix = "model.",                                  \
                                              .probe = "embed_tokens.weight",                      \
                                              .heads = VC_NET_BASE | VC_NET_CAUSAL | (more_heads), \
                                              .usual = VC_NET_CAUSAL,                              \
                                              .unused = unused,                                    \
                                              .build = build_##id}

FAMILY(llama, "llama", "Llama", QUESTION, .attention_bias = true, .mlp_bias = true, .theta = 10000, .epsilon = 1e-6);
FAMILY(mistral, "mistral", "Mistral", QUESTION, .windows = VC_WINDOW_ALL, .theta = 10000, .epsilon = 1e-6,
       .kv_heads = 8, .window_size = 4096);
FAMILY(qwen2, "qwen2", "Qwen2", QUESTION, .qkv_bias = true, .windows = VC_WINDOW_BEHIND, .theta = 10000,
       .epsilon = 1e-6, .kv_heads = 32);
FAMILY(qwen3, "qwen3", "Qwen3", QUESTION, .attention_bias = true, .qk_norm = VC_QK_NORM_HEAD,
       .windows = VC_WINDOW_BEHIND, .theta = 10000, .epsilon = 1e-6, .kv_heads = 32, .head_dim = 128);
FAMILY(phi3, "phi3", "Phi3", TOKEN, .packed = true, .drops_branches = true, .windows = VC_WINDOW_ALL, .theta = 10000,
       .epsilon = 1e-5);

/* ---- experts ---- */

FAMILY(mixtral, "mixtral", "Mixtral", QUESTION, .experts = VC_EXPERTS_MIXTRAL, .n_experts = 8, .n_chosen = 2,
       .windows = VC_WINDOW_ALL, .theta = 1e6, .epsilon = 1e-5, .kv_heads = 8);
FAMILY(qwen2_moe, "qwen2_moe", "Qwen2Moe", QUESTION, .qkv_bias = true, .experts = VC_EXPERTS_QWEN, .n_experts = 60,
       .n_chosen = 4, .expert_inner = 1408, .shared_inner = 5632, .windows = VC_WINDOW_BEFORE, .theta = 10000,
       .epsilon = 1e-6, .kv_heads = 16);
FAMILY(qwen3_moe, "qwen3_moe", "Qwen3Moe", QUESTION, .attention_bias = true, .qk_norm = VC_QK_NORM_HEAD,
       .experts = VC_EXPERTS_QWEN, .n_experts = 128, .n_chosen = 8, .expert_inner = 768, .windows = VC_WINDOW_USED,
       .theta = 10000, .epsilon = 1e-6, .kv_heads = 4);

/* ---- other norms ---- */

#define GEMMA_TRAITS                                                                                              \
    .norm = VC_NORM_RMS_FROM_1, .attention_bias = true, .scaled_embeddings = true, .tied = true, .epsilon = 1e-6, \
    .head_dim = 256, .act = "gelu_pytorch_tanh"

FAMILY(gemma, "gemma", "Gemma", TOKEN, GEMMA_TRAITS, .gelu = "gelu_pytorch_tanh", .theta = 10000, .kv_heads = 16);
FAMILY(gemma2, "gemma2", "Gemma2", TOKEN, GEMMA_TRAITS, .places = VC_NORMS_AROUND, .act_key = "hidden_activation",
       .query_scalar = true, .caps_scores = true, .caps_logits = true, .score_cap = 50, .logit_cap = 30,
       .windows = VC_WINDOW_PATTERN, .pattern = 2, .theta = 10000, .kv_heads = 4);
FAMILY_AS(gemma3_text, "gemma3_text", "Gemma3", "Gemma3Text", SEQUENCE, GEMMA_TRAITS, .places = VC_NORMS_AROUND,
          .qk_norm = VC_QK_NORM_HEAD, .act_key = "hidden_activation", .query_scalar = true, .caps_logits = true,
          .windows = VC_WINDOW_PATTERN, .pattern = 6, .local_rope = true, .theta = 1e6, .kv_heads = 4);
FAMILY(olmo, "olmo", "Olmo", SEQUENCE, .norm = VC_NORM_PLAIN, .attention_bias = true, .clipped = true, .theta = 10000);
FAMILY(olmo2, "olmo2", "Olmo2", SEQUENCE, .places = VC_NORMS_BEHIND, .qk_norm = VC_QK_NORM_ALL, .attention_bias = true,
       .theta = 10000, .epsilon = 1e-5);
