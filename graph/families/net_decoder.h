/* net_decoder.h - what the files of decoders share: net_decoder.c builds their layers, net_llama.c has the rows of
 * families, net_experts.c the experts that some have in place of an MLP. */
#ifndef VC_GRAPH_NET_DECODER_H
#define VC_GRAPH_NET_DECODER_H

#include "graph/families/net.h"

enum vc_decoder_norm {
    VC_NORM_RMS,
    VC_NORM_RMS_FROM_1, /* the scale is 1 + weight */
    VC_NORM_PLAIN       /* a layer norm with nothing to learn */
};

/* Where a layer has its norms. */
enum vc_decoder_places {
    VC_NORMS_BEFORE, /* attention and MLP: input_layernorm, post_attention_layernorm */
    VC_NORMS_BEHIND, /* them: post_attention_layernorm, post_feedforward_layernorm */
    VC_NORMS_AROUND  /* them: these three, and pre_feedforward_layernorm */
};

/* Norms of q and k. */
enum vc_decoder_qk_norm {
    VC_QK_NORM_NONE,
    VC_QK_NORM_HEAD, /* each head by itself */
    VC_QK_NORM_ALL   /* all heads as one vector */
};

/* Which layers have a sliding window, where "layer_types" does not say it. */
enum vc_decoder_windows {
    VC_WINDOW_NONE,
    VC_WINDOW_ALL,    /* all, if "sliding_window" is a number */
    VC_WINDOW_USED,   /* all, if "use_sliding_window" is true */
    VC_WINDOW_BEHIND, /* the same, from number "max_window_layers" on */
    VC_WINDOW_BEFORE, /* the same, numbers 0, 2, 4, ... before it */
    VC_WINDOW_PATTERN /* all but every "sliding_window_pattern"-th */
};

enum vc_decoder_experts { VC_EXPERTS_NONE, VC_EXPERTS_MIXTRAL, VC_EXPERTS_QWEN };

/* What a family does otherwise than Llama. Numbers are what is meant where config.json has no such key. */
struct vc_decoder_traits {
    enum vc_decoder_norm norm;
    enum vc_decoder_places places;
    enum vc_decoder_qk_norm qk_norm;
    enum vc_decoder_windows windows;
    bool attention_bias;           /* "attention_bias": of all four projections */
    bool qkv_bias;                 /* "qkv_bias", true: of q, k and v */
    bool mlp_bias;                 /* "mlp_bias" */
    bool packed;                   /* qkv_proj and gate_up_proj */
    bool clipped;                  /* "clip_qkv" */
    bool scaled_embeddings;        /* times sqrt(hidden) */
    bool local_rope;               /* layers with a window have rotary positions of their own */
    bool tied;                     /* "tie_word_embeddings" */
    bool drops_branches;           /* "resid_pdrop" behind attention and MLP */
    bool query_scalar;             /* "query_pre_attn_scalar", 256, in place of the size of a head */
    bool caps_scores, caps_logits; /* "attn_logit_softcapping", "final_logit_softcapping" */
    double score_cap, logit_cap;   /* 0: none */
    const char *act_key, *act;     /* NULL: "hidden_act", "silu" */
    const char *gelu;              /* what the word "gelu" means; NULL: that */
    double theta, epsilon;         /* epsilon 0: 1e-5, without a key */
    int64_t kv_heads, head_dim;    /* 0: as many as heads, hidden / heads */
    int64_t window_size, pattern;  /* 0: none */
    enum vc_decoder_experts experts;
    int64_t n_experts, n_chosen, expert_inner;
    int64_t shared_inner; /* of the expert that all tokens have; 0: there is none */
};

struct vc_decoder {
    struct vc_net *net;
    const struct vc_decoder_traits *traits;
    int64_t hidden, layers, heads, kv_heads, head_dim, inner, vocabulary;
    int64_t window, first_window; /* with VC_WINDOW_BEFORE the first layer that has none */
    int64_t pattern;
    double epsilon, scale, score_cap, logit_cap, clip;
    double dropout, score_dropout; /* in training */
    bool qkv_bias, output_bias, mlp_bias, tied;
    const char *act_key, *act;
    const json_t *layer_types;
    struct vc_net_rope rope, local_rope;
    uint32_t padding; /* true where a token is none: [batch, 1, 1, sequence] */
    uint32_t mask;    /* of layers with a window: that, and what it lets through; made for the first one */
    uint32_t ones;    /* the scale of VC_NORM_PLAIN */
    int64_t experts, chosen, expert_inner, shared_inner, sparse_step;
    bool sum_is_1; /* weights of the chosen experts */
    const json_t *mlp_layers;
};

/* down(act(gate(x)) * up(x)) with matrices of these names, of which gate and up are one if `packed` is its name. */
struct vc_decoder_mlp {
    const char *gate, *up, *down, *packed;
    int64_t inner;
    bool bias;
};
uint32_t vc_decoder_mlp(struct vc_decoder *d, uint32_t x, const char *module, const struct vc_decoder_mlp *mlp);
/* act(gate) * up */
uint32_t vc_decoder_gate(struct vc_decoder *d, const char *module, uint32_t gate, uint32_t up);

/* net_experts.c: the keys; whether a layer has experts; and they, for x [batch, sequence, hidden]. layer: "layers.3" */
void vc_decoder_read_experts(struct vc_decoder *d);
bool vc_decoder_has_experts(const struct vc_decoder *d, int64_t layer);
uint32_t vc_decoder_experts(struct vc_decoder *d, uint32_t x, const char *layer);

/* All of a graph. */
void vc_decoder_build(struct vc_net *net, const struct vc_decoder_traits *traits);

#endif
