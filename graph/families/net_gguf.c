/* net_gguf.c - GGUF's llama family by its metadata: the keys become the members of a config.json that they stand for,
 * and the names of tensors those of transformers.
 *
 *     llama.embedding_length 16        ->  "hidden_size": 16
 *     blk.0.attn_q.weight              ->  layers.0.self_attn.q_proj.weight
 *     blk.0.ffn_gate_exps.weight       ->  layers.0.mlp.experts.gate_proj.weight
 *
 * In files of the architecture llama the rows of q and k are in the order of neighbouring pairs, so rotary positions
 * are interleaved; in the others they lie as transformers has them. */
#include "graph/families/families_build.h"
#include "graph/families/net.h"

#include <stdio.h>
#include <string.h>

static const struct architecture {
    const char *name;
    const char *type, *sparse_type; /* model_type, without experts and with them; NULL: not known */
    bool interleaved;
    bool sum_is_1; /* weights of experts: "norm_topk_prob" */
} architectures[] = {
    {"llama", "llama", "mixtral", true, true},    {"qwen2", "qwen2", NULL, false, false},
    {"qwen3", "qwen3", NULL, false, false},       {"qwen2moe", NULL, "qwen2_moe", false, false},
    {"qwen3moe", NULL, "qwen3_moe", false, true},
};

#define N_ARCHITECTURES (sizeof architectures / sizeof *architectures)

/* Keys behind "llama."; what each stands for. */
static const struct {
    const char *key, *member;
} members[] = {
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"context_length", "max_position_embeddings"},
    {"rope.freq_base", "rope_theta"},
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
};

/* The same, of "rope.scaling."; and those that say nothing here. */
static const struct {
    const char *key, *member;
} scaling_members[] = {
    {"type", "rope_type"},
    {"factor", "factor"},
    {"original_context_length", "original_max_position_embeddings"},
    {"yarn_beta_fast", "beta_fast"},
    {"yarn_beta_slow", "beta_slow"},
    {"finetuned", NULL},
};

/* Keys that change nothing, or nothing in what is built. */
static const char *const harmless[] = {"vocab_size", "attention.value_length", NULL};

/* Names of tensors: of transformers without the prefix, and of GGUF. */
static const struct {
    const char *ours, *theirs;
} plain_names[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

static const struct {
    const char *ours, *theirs;
} layer_names[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"mlp.experts.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
};

/* Of experts one by one, as early files of Mixtral have them: "block_sparse_moe.experts.3.w1" */
static const struct {
    char ours;
    const char *theirs;
} expert_names[] = {{'1', "ffn_gate"}, {'2', "ffn_down"}, {'3', "ffn_up"}};

/* vc_net.rename */
static const char *rename_tensor(struct vc_net *net, const char *name)
{
    unsigned layer;
    unsigned expert;
    char letter = '\0';
    int n = 0;

    for (size_t k = 0; k < sizeof plain_names / sizeof *plain_names; k++) {
        if (strcmp(plain_names[k].ours, name) == 0) {
            return plain_names[k].theirs;
        }
    }
    if (sscanf(name, "model.layers.%u.%n", &layer, &n) != 1 || n == 0) {
        return name;
    }
    if (sscanf(name + n, "block_sparse_moe.experts.%u.w%c", &expert, &letter) == 2) {
        for (size_t k = 0; k < sizeof expert_names / sizeof *expert_names; k++) {
            if (expert_names[k].ours == letter) {
                return vc_net_print(net, "blk.%u.%s.%u.weight", layer, expert_names[k].theirs, expert);
            }
        }
    }
    for (size_t k = 0; k < sizeof layer_names / sizeof *layer_names; k++) {
        size_t length = strlen(layer_names[k].ours);

        if (strncmp(name + n, layer_names[k].ours, length) == 0 && name[(size_t)n + length] == '.') {
            return vc_net_print(net, "blk.%u.%s%s", layer, layer_names[k].theirs, name + (size_t)n + length);
        }
    }
    return name;
}

static const struct vc_program_key *find_key(const struct vc_program *program, const char *name)
{
    for (size_t k = 0; k < program->n_keys; k++) {
        if (strcmp(program->keys[k].key, name) == 0) {
            return &program->keys[k];
        }
    }
    return NULL;
}

static bool is_harmless(const char *key)
{
    for (const char *const *h = harmless; *h != NULL; h++) {
        if (strcmp(*h, key) == 0) {
            return true;
        }
    }
    return false;
}

static json_t *json_of(const struct vc_program_key *key)
{
    return key->is_text      ? json_string(key->text)
           : key->is_integer ? json_integer((json_int_t)key->integer)
                             : json_real(key->number);
}

/* "rope.scaling.NAME". A kind that is called otherwise than transformers does is refused with the others. */
static bool put_scaling(struct vc_net *net, const char *name, const struct vc_program_key *key)
{
    json_t *scaling = json_object_get(net->config, "rope_scaling");

    for (size_t k = 0; k < sizeof scaling_members / sizeof *scaling_members; k++) {
        if (strcmp(scaling_members[k].key, name) != 0) {
            continue;
        }
        if (scaling_members[k].member == NULL) {
            return true;
        }
        if (scaling == NULL) {
            scaling = json_object();
            (void)json_object_set_new(net->config, "rope_scaling", scaling);
        }
        (void)json_object_set_new(scaling, scaling_members[k].member, json_of(key));
        return true;
    }
    return strcmp(name, "attn_factor") == 0 && key->is_number && key->number == 1;
}

/* False: it stands for nothing that is known. */
static bool put_key(struct vc_net *net, const char *name, const struct vc_program_key *key, int64_t *rotary)
{
    if (is_harmless(name)) {
        return true;
    }
    if (strncmp(name, "rope.scaling.", 13) == 0) {
        return put_scaling(net, name + 13, key);
    }
    if (strcmp(name, "rope.dimension_count") == 0 && key->is_integer) {
        *rotary = (int64_t)key->integer;
        return true;
    }
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        if (strcmp(members[k].key, name) == 0 && key->is_number) {
            (void)json_object_set_new(net->config, members[k].member, json_of(key));
            return true;
        }
    }
    return false;
}

static bool has_tensor(const struct vc_net *net, const char *name)
{
    return vc_model_find(net->model, name) != VC_NO_TENSOR;
}

static int64_t number_of(const struct vc_net *net, const char *member)
{
    return json_integer_value(json_object_get(net->config, member));
}

/* A factor without a kind is linear; "none" is none. */
static void finish_scaling(struct vc_net *net)
{
    json_t *scaling = json_object_get(net->config, "rope_scaling");
    const char *kind = json_string_value(json_object_get(scaling, "rope_type"));

    if (scaling != NULL && json_object_get(scaling, "rope_type") == NULL) {
        (void)json_object_set_new(scaling, "rope_type", json_string("linear"));
    } else if (kind != NULL && strcmp(kind, "none") == 0) {
        (void)json_object_del(net->config, "rope_scaling");
    }
}

/* What follows from several keys, or from the tensors that are there. */
static void put_rest(struct vc_net *net, int64_t rotary)
{
    size_t embedding = vc_model_find(net->model, "token_embd.weight");
    int64_t heads = number_of(net, "num_attention_heads");
    int64_t head_dim = number_of(net, "head_dim");

    if (embedding != VC_NO_TENSOR && net->model->tensors[embedding].n_dims == 2) {
        (void)json_object_set_new(net->config, "vocab_size",
                                  json_integer((json_int_t)net->model->tensors[embedding].shape[0]));
    }
    if (!has_tensor(net, "output.weight")) {
        (void)json_object_set_new(net->config, "tie_word_embeddings", json_true());
    }
    if (has_tensor(net, "blk.0.attn_output.bias")) {
        (void)json_object_set_new(net->config, "attention_bias", json_true());
    }
    if (json_object_get(net->config, "rope_theta") == NULL) {
        (void)json_object_set_new(net->config, "rope_theta", json_real(10000));
    }
    head_dim = head_dim == 0 && heads > 0 ? number_of(net, "hidden_size") / heads : head_dim;
    if (rotary > 0 && head_dim > 0 && rotary != head_dim) {
        (void)json_object_set_new(net->config, "partial_rotary_factor", json_real((double)rotary / (double)head_dim));
    }
    net->rope_factors = has_tensor(net, "rope_freqs.weight") ? "/rope_freqs.weight" : NULL;
}

static void put_keys(struct vc_net *net, const struct vc_program *program, const struct architecture *architecture)
{
    size_t n = strlen(architecture->name);
    int64_t rotary = 0;
    bool sparse;

    for (size_t k = 0; k < program->n_keys; k++) {
        const struct vc_program_key *key = &program->keys[k];

        if (strncmp(key->key, architecture->name, n) == 0 && key->key[n] == '.' &&
            !put_key(net, key->key + n + 1, key, &rotary)) {
            vc_graph_complain(net->graph, "the metadata key '%s'%s%s is not supported", key->key,
                              key->is_text ? " with the value " : "", key->is_text ? key->text : "");
        }
    }
    sparse = number_of(net, "num_local_experts") > 0;
    if (!sparse) {
        (void)json_object_del(net->config, "num_local_experts");
        (void)json_object_del(net->config, "num_experts_per_tok");
    } else if (architecture->sum_is_1) {
        (void)json_object_set_new(net->config, "norm_topk_prob", json_true());
    }
    if ((sparse ? architecture->sparse_type : architecture->type) == NULL) {
        vc_graph_complain(net->graph, "the architecture '%s' is not known %s experts", architecture->name,
                          sparse ? "with" : "without");
        net->failed = true;
    } else {
        (void)json_object_set_new(net->config, "model_type",
                                  json_string(sparse ? architecture->sparse_type : architecture->type));
    }
    (void)json_object_set_new(net->config, "sliding_window", json_null());
    finish_scaling(net);
    put_rest(net, rotary);
}

enum vc_status vc_families_build_keys(const struct vc_graph_source *source, struct vc_graph *graph)
{
    struct vc_net net = {.ctx = source->ctx,
                         .graph = graph,
                         .model = source->model,
                         .stated = source->stated,
                         .arena = source->arena,
                         .rename = rename_tensor};
    const struct vc_program_key *key = find_key(source->program, "general.architecture");
    const char *name = key != NULL && key->is_text ? key->text : "";
    const char *known = "";
    enum vc_status status = VC_OK;

    for (size_t k = 0; k < N_ARCHITECTURES; k++) {
        if (strcmp(architectures[k].name, name) == 0) {
            net.config = json_object();
            net.interleaved = architectures[k].interleaved;
            VC_TRY_ALLOC(net.config);
            put_keys(&net, source->program, &architectures[k]);
            if (!net.failed) {
                VC_TRY(vc_net_build(&net));
            }
            goto out;
        }
        known = vc_net_print(&net, "%s%s%s", known, k == 0 ? "" : ", ", architectures[k].name);
    }
    vc_graph_complain(graph, "the architecture '%s' is not known; known are %s", name, known);
out:
    json_decref(net.config);
    return status;
}
