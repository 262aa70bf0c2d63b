/* net_gguf.c - GGUF's llama family by its metadata: the keys become the members of a config.json that they stand for,
 * and the names of tensors those of transformers.
 *
 *     llama.embedding_length 16        ->  "hidden_size": 16
 *     blk.0.attn_q.weight              ->  layers.0.self_attn.q_proj.weight
 *
 * In files of the architecture llama the rows of q and k are in the order of neighbouring pairs, so rotary positions
 * are interleaved; in the others they lie as transformers has them. */
#include "graph/families/families_build.h"
#include "graph/families/net.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *architecture;
    bool interleaved;
} architectures[] = {{"llama", true}, {"qwen2", false}, {"qwen3", false}};

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
};

/* Keys that change nothing, or nothing in what is built. */
static const char *const harmless[] = {"vocab_size", "attention.value_length", "rope.dimension_count", NULL};

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
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

/* vc_net.rename */
static const char *rename_tensor(struct vc_net *net, const char *name)
{
    unsigned layer;
    int n = 0;

    for (size_t k = 0; k < sizeof plain_names / sizeof *plain_names; k++) {
        if (strcmp(plain_names[k].ours, name) == 0) {
            return plain_names[k].theirs;
        }
    }
    if (sscanf(name, "model.layers.%u.%n", &layer, &n) != 1 || n == 0) {
        return name;
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

/* False: it stands for nothing that is known. */
static bool put_key(struct vc_net *net, const char *name, const struct vc_program_key *key)
{
    if (is_harmless(name)) {
        return true;
    }
    if (strcmp(name, "rope.scaling.type") == 0) {
        return key->is_text && strcmp(key->text, "none") == 0;
    }
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        if (strcmp(members[k].key, name) == 0 && key->is_number) {
            (void)json_object_set_new(net->config, members[k].member,
                                      key->is_integer ? json_integer((json_int_t)key->integer)
                                                      : json_real(key->number));
            return true;
        }
    }
    return false;
}

static void put_keys(struct vc_net *net, const struct vc_program *program, const char *architecture)
{
    size_t n = strlen(architecture);
    size_t embedding = vc_model_find(net->model, "token_embd.weight");

    for (size_t k = 0; k < program->n_keys; k++) {
        const struct vc_program_key *key = &program->keys[k];

        if (strncmp(key->key, architecture, n) == 0 && key->key[n] == '.' && !put_key(net, key->key + n + 1, key)) {
            vc_graph_complain(net->graph, "the metadata key '%s'%s%s is not supported", key->key,
                              key->is_text ? " with the value " : "", key->is_text ? key->text : "");
        }
    }
    (void)json_object_set_new(net->config, "model_type", json_string(architecture));
    if (embedding != VC_NO_TENSOR && net->model->tensors[embedding].n_dims == 2) {
        (void)json_object_set_new(net->config, "vocab_size",
                                  json_integer((json_int_t)net->model->tensors[embedding].shape[0]));
    }
    if (vc_model_find(net->model, "output.weight") == VC_NO_TENSOR) {
        (void)json_object_set_new(net->config, "tie_word_embeddings", json_true());
    }
    if (vc_model_find(net->model, "blk.0.attn_output.bias") != VC_NO_TENSOR) {
        (void)json_object_set_new(net->config, "attention_bias", json_true());
    }
}

enum vc_status vc_families_build_keys(const struct vc_graph_source *source, struct vc_graph *graph)
{
    struct vc_net net = {
        .ctx = source->ctx, .graph = graph, .model = source->model, .arena = source->arena, .rename = rename_tensor};
    const struct vc_program_key *key = find_key(source->program, "general.architecture");
    const char *name = key != NULL && key->is_text ? key->text : "";
    enum vc_status status = VC_OK;

    for (size_t k = 0; k < sizeof architectures / sizeof *architectures; k++) {
        if (strcmp(architectures[k].architecture, name) == 0) {
            net.config = json_object();
            net.interleaved = architectures[k].interleaved;
            VC_TRY_ALLOC(net.config);
            put_keys(&net, source->program, name);
            VC_TRY(vc_net_build(&net));
            goto out;
        }
    }
    vc_graph_complain(graph, "the architecture '%s' is not known; known are llama, qwen2, qwen3", name);
out:
    json_decref(net.config);
    return status;
}
