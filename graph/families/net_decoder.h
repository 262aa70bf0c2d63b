/* net_decoder.h - what the files of decoders share: net_decoder.c builds their layers as the row of the family says
 * (arch/arch_family.h), net_experts.c the experts that some have in place of an MLP. */
#pragma once

#include "arch/arch_family.h"
#include "graph/families/net.h"

struct vc_decoder {
    struct vc_net *net;
    const struct vc_arch_family *family;
    const struct vc_arch *usual;      /* what its class takes where config.json does not say */
    const struct vc_arch_list *kinds; /* how it makes the list of windows; NULL: it makes none */
    /* config.json: hidden_size 4096, num_hidden_layers 32, num_attention_heads 32, num_key_value_heads 8, head_dim 128,
     * intermediate_size 14336, vocab_size 128256 */
    int64_t hidden, layers, heads, kv_heads, head_dim, inner, vocabulary;
    int64_t window, first_window; /* with VC_WINDOW_BEFORE the first layer that has none */
    int64_t pattern;              /* of `kinds` */
    double epsilon, scale, score_cap, logit_cap, clip;
    double embedding_factor, added_factor, logit_factor; /* Granite's multipliers; 1: nothing */
    double dropout, score_dropout;                       /* in training */
    bool qkv_bias, output_bias, mlp_bias, tied;
    bool parallel;                    /* attention and MLP read the same norm */
    const json_t *turned;             /* "no_rope_layers" */
    const struct vc_arch_list *turns; /* how the class makes that; NULL: all layers are rotated */
    int64_t turn_interval;            /* of `turns` */
    const char *act_key, *act;
    const json_t *layer_types;
    struct vc_net_rope rope, local_rope;
    uint32_t padding; /* true where a position is padding, not a token: [batch, 1, 1, sequence] */
    uint32_t mask;    /* of layers with a window: that, and what it lets through; made for the first one */
    uint32_t ones;    /* the scale of VC_NORM_PLAIN */
    int64_t experts, chosen, expert_inner, shared_inner, sparse_step;
    bool sum_is_1; /* weights of the chosen experts */
    const json_t *mlp_layers;
};

/* down(act(gate(x)) * up(x)) with matrices of these names, of which gate and up are one if `packed` is its name. gate NULL:
 * down(act(up(x))). */
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

/* Whether a layer has experts of that kind. */
static inline bool vc_decoder_is_mixtral(const struct vc_decoder *d)
{
    return !vc_arch_has(d->family, VC_ARCH_EXPERT_SIZE);
}
