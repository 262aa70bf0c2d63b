/* net_gguf.c - a GGUF model by its metadata: the keys become the members of a config.json that they stand for, and the
 * names of tensors those of transformers, as the rows of arch/arch_family.h have them.
 *
 *     llama.embedding_length 16        ->  "hidden_size": 16
 *     blk.0.attn_q.weight              ->  layers.0.self_attn.q_proj.weight
 *     blk.0.ffn_gate_exps.weight       ->  layers.0.mlp.experts.gate_proj.weight
 *
 * Values are as llama.cpp has them: where it rotates neighbours, rows of q and k are in that order, so that rotary
 * positions are interleaved; and norms that multiply by 1 + weight have the sum.
 *
 * The way: the row of arch by general.architecture (find_row); each key becomes a member (put_key) or a
 * problem; members that follow from several keys or from tensors (put_rest); then vc_net_build as for a
 * config.json. */
#include <ctype.h>

#include "arch/arch_family.h"
#include "core/text/text.h"
#include "graph/families/families_build.h"
#include "graph/families/net.h"

/* Keys of "rope.scaling." and what each stands for; "": it says nothing here. */
static const struct {
    const char *key, *member;
} scaling_members[] = {
    {"type", "rope_type"},
    {"factor", "factor"},
    {"original_context_length", "original_max_position_embeddings"},
    {"yarn_beta_fast", "beta_fast"},
    {"yarn_beta_slow", "beta_slow"},
    {"finetuned", ""},
};

/* Keys that change nothing, or nothing in what is built. llama.cpp reads the window of phi3, and does not use it. */
static const char harmless[] = "vocab_size|attention.value_length|attention.causal|pooling_type";

/* ---- names of tensors ---- */

/* The rule of arch that gives llama.cpp's name for a name of transformers. Only rules that keep a tensor
 * whole count: renamed, not cut, stacked or transposed. */
static const struct vc_arch_name *find_rule(const struct vc_arch_name *rules, const char *name, int64_t *layer,
                                            int64_t *expert, const char **rest)
{
    for (; rules != NULL && rules->from != NULL; rules++) {
        if (rules->to == NULL || (rules->rows != VC_ROWS_ALL && rules->rows != VC_ROWS_BEHIND) ||
            rules->form != VC_MATRIX_STRAIGHT || !vc_arch_name_fits(rules->from, name, layer, expert, rest)) {
            continue;
        }
        if (vc_arch_name_is_whole(rules->to) ? **rest == '\0'
                                             : strcmp(*rest, ".weight") == 0 || strcmp(*rest, ".bias") == 0) {
            return rules;
        }
    }
    return NULL;
}

/* vc_net.rename: the name of the tensor in the file. All experts are one tensor there, "blk.0.ffn_up_exps";
 * early files of Mixtral have one for each expert, "blk.0.ffn_up.3.weight". Names without a rule stay. */
static const char *rename_tensor(struct vc_net *net, const char *name)
{
    static const char experts[] = ".experts.";
    const char *own = strncmp(name, "model.", 6) == 0 ? name + 6 : name;
    const char *at = strstr(own, experts);
    bool stacked = at != NULL && !isdigit((unsigned char)at[sizeof experts - 1]);
    int64_t layer, expert;
    const char *rest;
    const char *number;

    if (stacked) {
        at += sizeof experts - 1;
        own = vc_net_print(net, "%.*s0.%s", (int)(at - own), own, at);
    }
    const struct vc_arch_name *rule = find_rule(net->gguf->rules, own, &layer, &expert, &rest);
    rule = rule != NULL ? rule : find_rule(vc_arch_names, own, &layer, &expert, &rest);
    if (rule == NULL) {
        return name;
    }
    number = strchr(rule->to, '#');
    if (number == NULL) {
        return vc_net_print(net, "%s%s", rule->to, rest);
    }
    if (expert >= 0 && !stacked) {
        return vc_net_print(net, "blk.%lld%.*s.%lld%s", (long long)layer, (int)(strlen(number + 1) - strlen("_exps")),
                            number + 1, (long long)expert, rest);
    }
    return vc_net_print(net, "blk.%lld%s%s", (long long)layer, number + 1, rest);
}

/* ---- keys ---- */

static void set(struct vc_net *net, const char *member, json_t *value)
{
    (void)json_object_set_new(net->config, member, value);
}

static json_t *json_of(const struct vc_program_key *key)
{
    return key->is_text      ? json_string(key->text)
           : key->is_integer ? json_integer((json_int_t)key->integer)
                             : json_real(key->number);
}

/* "rope.scaling.NAME". A kind that transformers names differently is refused when the scaling is read. */
static bool put_scaling(struct vc_net *net, const char *name, const struct vc_program_key *key)
{
    json_t *scaling = json_object_get(net->config, "rope_scaling");

    for (size_t k = 0; k < sizeof scaling_members / sizeof *scaling_members; k++) {
        if (strcmp(scaling_members[k].key, name) != 0) {
            continue;
        }
        if (scaling == NULL) {
            scaling = json_object();
            set(net, "rope_scaling", scaling);
        }
        if (scaling_members[k].member[0] != '\0') {
            (void)json_object_set_new(scaling, scaling_members[k].member, json_of(key));
        }
        return true;
    }
    return strcmp(name, "attn_factor") == 0 && key->is_number && key->number == 1;
}

/* Which layers slide: a list with an entry for each layer, or a period. */
static bool put_pattern(struct vc_net *net, const struct vc_program_key *key)
{
    if (key->is_integer) {
        set(net, "sliding_window_pattern", json_integer((json_int_t)key->integer));
        return true;
    }
    if (key->integers == NULL) {
        return false;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < key->n; i++) {
        (void)json_array_append_new(list, json_string(key->integers[i] != 0 ? "sliding_attention" : "full_attention"));
    }
    set(net, "layer_types", list);
    return true;
}

/* Keys that have a row in vc_arch_pairs, the table that both directions between folders and GGUF use. */
static bool put_pair(struct vc_net *net, const char *name, const struct vc_program_key *key, int64_t *rotary)
{
    const struct vc_arch_pair *pair = vc_arch_pairs;

    while (pair->names != NULL && !(vc_arch_knows_pair(net->gguf, pair) && strcmp(pair->gguf + 1, name) == 0)) {
        pair++;
    }
    if (pair->names == NULL || !key->is_number) {
        return false;
    }
    if (pair->source == VC_FROM_ROTATED) {
        *rotary = (int64_t)key->integer;
    } else if (pair->source == VC_FROM_FLAG) {
        set(net, pair->names, json_boolean(key->integer != 0));
    } else if (pair->source != VC_FROM_WINDOW) { /* llama.cpp reads that, and does not use it */
        set(net, vc_net_print(net, "%.*s", (int)strcspn(pair->names, "|"), pair->names), json_of(key));
    }
    return true;
}

/* One key without its architecture's name. False: it stands for nothing that is known, a problem. */
static bool put_key(struct vc_net *net, const char *name, const struct vc_program_key *key, int64_t *rotary)
{
    if (vc_is_one_of(name, harmless) || (strncmp(name, "expert_", 7) == 0 && key->is_number && key->number == 0)) {
        return true;
    }
    if (strncmp(name, "rope.scaling.", 13) == 0) {
        return put_scaling(net, name + 13, key);
    }
    if (vc_arch_slides(net->gguf) && strcmp(name, "attention.sliding_window_pattern") == 0) {
        return put_pattern(net, key);
    }
    if (vc_arch_slides(net->gguf) && strcmp(name, "attention.sliding_window") == 0 && key->is_integer) {
        set(net, "sliding_window", json_of(key));
        return true;
    }
    return put_pair(net, name, key, rotary);
}

/* ---- what follows from several keys, or from the tensors that are there ---- */

static const struct vc_tensor *tensor_of(const struct vc_net *net, const char *name)
{
    size_t i = vc_model_find(net->model, name);

    return i != VC_NO_TENSOR ? &net->model->tensors[i] : NULL;
}

static int64_t number_of(const struct vc_net *net, const char *member)
{
    return json_integer_value(json_object_get(net->config, member));
}

/* The rows of a table. */
static void put_rows(struct vc_net *net, const char *member, const char *tensor)
{
    const struct vc_tensor *t = tensor_of(net, tensor);

    if (t != NULL && t->n_dims == 2) {
        set(net, member, json_integer((json_int_t)t->shape[0]));
    }
}

/* A factor without a kind is linear; "none" removes the scaling, and so does a context length without a
 * factor. */
static void finish_scaling(struct vc_net *net)
{
    json_t *scaling = json_object_get(net->config, "rope_scaling");
    const char *kind = json_string_value(json_object_get(scaling, "rope_type"));
    bool none = kind != NULL ? strcmp(kind, "none") == 0 : json_object_get(scaling, "factor") == NULL;

    if (scaling != NULL && none) {
        (void)json_object_del(net->config, "rope_scaling");
    } else if (scaling != NULL && kind == NULL) {
        (void)json_object_set_new(scaling, "rope_type", json_string("linear"));
    }
}

/* head_dim and rotary part from sizes: GGUF states the number of rotated elements, config.json a fraction
 * of the head. */
static void put_heads(struct vc_net *net, int64_t rotary)
{
    const struct vc_arch_family *f = net->gguf;
    int64_t heads = number_of(net, "num_attention_heads");
    int64_t share = heads > 0 ? number_of(net, "hidden_size") / heads : 0;
    int64_t head_dim = number_of(net, "head_dim");
    bool largest = number_of(net, "num_hidden_layers") == (int64_t)f->largest;

    head_dim = head_dim == 0 ? share : head_dim;
    if (rotary > 0 && head_dim > 0 && rotary != head_dim) {
        set(net, "partial_rotary_factor", json_real((double)rotary / (double)head_dim));
    }
    if (heads > 0 && json_object_get(net->config, "num_key_value_heads") == NULL && !vc_arch_has(f, VC_ARCH_ENCODER)) {
        set(net, "num_key_value_heads", json_integer((json_int_t)heads));
    }
    if (head_dim > 0 && !vc_arch_has(f, VC_ARCH_ENCODER)) {
        set(net, "head_dim", json_integer((json_int_t)head_dim));
    }
    if (f->largest != 0) {
        set(net, "query_pre_attn_scalar", json_integer((json_int_t)(largest ? share : head_dim)));
    }
}

/* What config.json states and GGUF only shows by the tensors that are there: biases, tied embeddings, rows
 * of tables. */
static void put_rest(struct vc_net *net, int64_t rotary)
{
    const struct vc_arch_family *f = net->gguf;

    put_rows(net, "vocab_size", "token_embd.weight");
    put_rows(net, "type_vocab_size", "token_types.weight");
    if (tensor_of(net, "output.weight") == NULL && !vc_arch_has(f, VC_ARCH_ENCODER)) {
        set(net, "tie_word_embeddings", json_true());
    }
    if (tensor_of(net, "blk.0.attn_output.bias") != NULL && vc_arch_has(f, VC_ARCH_BIASES)) {
        set(net, "attention_bias", json_true());
    }
    if (tensor_of(net, "blk.0.attn_q.bias") == NULL && vc_arch_has(f, VC_ARCH_QKV_BIAS)) {
        set(net, "qkv_bias", json_false());
    }
    if (tensor_of(net, "blk.0.attn_q.bias") != NULL && (f->builds & VC_BUILD_USE_QKV_BIAS) != 0) {
        set(net, "use_qkv_bias", json_true());
    }
    if (tensor_of(net, "blk.0.ffn_up.bias") != NULL && vc_arch_has(f, VC_ARCH_MLP_BIAS)) {
        set(net, "mlp_bias", json_true());
    }
    if (json_object_get(net->config, "rope_theta") == NULL && !vc_arch_has(f, VC_ARCH_ENCODER)) {
        set(net, "rope_theta", json_real(10000));
    }
    if (vc_arch_has(f, VC_ARCH_SUM_IS_1)) {
        set(net, "norm_topk_prob", json_true());
    }
    if (json_object_get(net->config, "sliding_window") == NULL && !vc_arch_slides(f)) {
        set(net, "sliding_window", json_null());
    }
    finish_scaling(net);
    put_heads(net, rotary);
    net->rope_factors = tensor_of(net, "rope_freqs.weight") != NULL ? "/rope_freqs.weight" : NULL;
}

/* Only keys of the architecture count ("llama.block_count"); "general." and "tokenizer." say nothing about
 * the computation. */
static void put_keys(struct vc_net *net, const struct vc_program *program)
{
    const char *name = net->gguf->gguf;
    char type[VC_ARCH_TYPE_BYTES];
    size_t n = strlen(name);
    int64_t rotary = 0;

    for (size_t k = 0; k < program->n_keys; k++) {
        const struct vc_program_key *key = &program->keys[k];

        if (strncmp(key->key, name, n) == 0 && key->key[n] == '.' && !put_key(net, key->key + n + 1, key, &rotary)) {
            vc_graph_complain(net->graph, "the metadata key '%s'%s%s is not supported", key->key,
                              key->is_text ? " with the value " : "", key->is_text ? key->text : "");
        }
    }
    set(net, "model_type", json_string(vc_arch_family_type(net->gguf, type)));
    put_rest(net, rotary);
}

/* ---- the family ---- */

/* Graphs are built of it, and it is known what llama.cpp makes of its tensors; not where these are of two stacks ("enc/attn_q"). */
static bool is_known(const struct vc_arch_family *f)
{
    char type[VC_ARCH_TYPE_BYTES];

    return f != NULL && f->layer != NULL && strchr(f->layer, '/') == NULL && vc_net_knows(vc_arch_family_type(f, type));
}

static bool has_key(const struct vc_program *program, const char *architecture, const char *key)
{
    const struct vc_program_key *found = vc_program_key(program, architecture, key);

    return found != NULL && !(found->is_number && found->number == 0);
}

/* The family for the architecture with or without experts and windows; refusals say which of them is not
 * known. */
static bool find_row(struct vc_net *net, const struct vc_program *program, const char *name)
{
    bool experts = has_key(program, name, "expert_count");
    bool slides = has_key(program, name, "attention.sliding_window");
    const struct vc_arch_family *f = vc_arch_family_of_gguf(name, experts, slides);
    const char *known = "";
    const char *last = "";

    f = f != NULL ? f : vc_arch_family_of_gguf(name, experts, true); /* a window that llama.cpp takes for granted */
    if (is_known(f)) {
        net->gguf = f;
        return true;
    }
    VC_LEAVE_WITH(is_known(vc_arch_family_of_gguf(name, !experts, slides)),
                  vc_graph_complain(net->graph, "the architecture '%s' is not known %s experts", name,
                                    experts ? "with" : "without"),
                  false);
    VC_LEAVE_WITH(slides && is_known(vc_arch_family_of_gguf(name, experts, false)),
                  vc_graph_complain(net->graph, "the architecture '%s' is not known with sliding windows", name),
                  false);
    for (size_t i = 0; (f = vc_arch_family_at(i)) != NULL; i++) {
        if (is_known(f) && strcmp(f->gguf, last) != 0) {
            known = vc_net_print(net, "%s%s%s", known, *known == '\0' ? "" : ", ", f->gguf);
            last = f->gguf;
        }
    }
    vc_graph_complain(net->graph, "the architecture '%s' is not known; known are %s", name, known);
    return false;
}

enum vc_status vc_families_build_keys(const struct vc_graph_source *source, struct vc_graph *graph)
{
    struct vc_net net = {.ctx = source->ctx,
                         .graph = graph,
                         .model = source->model,
                         .stated = source->stated,
                         .arena = source->arena,
                         .rename = rename_tensor};
    enum vc_status status = VC_OK;

    if (!find_row(&net, source->program, vc_program_architecture(source->program))) {
        return VC_OK;
    }
    VC_TRY_ALLOC(net.config = json_object());
    put_keys(&net, source->program);
    status = vc_net_build(&net);
out:
    json_decref(net.config);
    return status;
}
