/* net_config.c - config.json as families read it: each key once, with its bounds; and keys that nothing
 * read.
 *
 *     vc_net_size(net, "n_embd|hidden_size", VC_NET_REQUIRED)     the first spelling that is there; both count as asked for
 *     vc_net_check_keys(net)                                      a key of `changing` that was not asked for has to be neutral
 *
 * Everything in a config.json is a stranger's text: kinds and bounds are checked before a size is used, and
 * a mistake stops the building (net->failed), since graphs of wrong sizes would give a hundred problems. */

#include "arch/arch_config.h"
#include "core/text/text.h"
#include "graph/families/net.h"

#define LARGEST_SIZE 2147483647.0

/* Whether a family read the key, by this or another spelling. */
static bool was_asked(const struct vc_net *net, const char *key)
{
    size_t k = 0;

    while (k < net->n_asked && !vc_is_one_of(key, net->asked[k])) {
        k++;
    }
    return k < net->n_asked;
}

/* keys "n_embd|hidden_size": all spellings are noted as asked for, so that none of them counts as unknown. */
const json_t *vc_net_get(struct vc_net *net, const char *keys)
{
    size_t k = 0;

    while (k < net->n_asked && strcmp(net->asked[k], keys) != 0) {
        k++;
    }
    if (k == net->n_asked && k < VC_NET_MAX_KEYS) {
        net->asked[net->n_asked++] = keys;
    }
    return vc_config_find(net->config, keys);
}

/* The first 64 bytes of a JSON text that jansson gives in pieces: for sentences, since a value may be
 * megabytes long. */
struct beginning {
    char text[64];
    size_t n;
    bool more;
};

/* json_dump_callback */
static int add_piece(const char *piece, size_t n, void *user)
{
    struct beginning *b = user;
    size_t room = sizeof b->text - b->n;

    memcpy(b->text + b->n, piece, n < room ? n : room);
    b->n += n < room ? n : room;
    b->more = b->more || n > room;
    return 0;
}

/* A value as it stands in the text, cut off. */
static const char *shown(struct vc_net *net, const json_t *value)
{
    struct beginning b = {.n = 0};

    (void)json_dump_callback(value, add_piece, &b, JSON_ENCODE_ANY | JSON_COMPACT);
    return vc_net_print(net, "%.*s%s", (int)b.n, b.text, b.more ? "..." : "");
}

/* "config.json: hidden_act is "gelu_10", none of gelu, ..." or "... is missing". */
void vc_net_refuse(struct vc_net *net, const char *key, const char *why)
{
    const json_t *value = json_object_get(net->config, key);

    if (value == NULL) {
        vc_graph_complain(net->graph, "config.json: %s is missing%s%s", key, *why != '\0' ? "; " : "", why);
    } else {
        vc_graph_complain(net->graph, "config.json: %s is %s, %s", key, shown(net, value), why);
    }
    net->failed = true;
}

/* The same of the spelling that is there, else of the first. */
static void refuse_first(struct vc_net *net, const char *keys, const char *why)
{
    size_t n;
    const char *key = vc_config_key(net->config, keys, &n);

    vc_net_refuse(net, vc_net_print(net, "%.*s", (int)n, key), why);
}

/* Whether there is a value of the right kind; one of another is refused: `why` says what it is not. */
static bool fits(struct vc_net *net, const char *keys, const json_t *value, bool right, const char *why)
{
    if (value != NULL && !right) {
        refuse_first(net, keys, why);
    }
    return value != NULL && right;
}

/* A whole number from `least` to `most`; 12.0 counts. A fault returns 1, with which shapes stay harmless. */
static int64_t whole(struct vc_net *net, const char *keys, int64_t otherwise, int64_t least, double most)
{
    const json_t *value = vc_net_get(net, keys);
    double x = json_is_integer(value) ? (double)json_integer_value(value) : json_real_value(value);

    if (value == NULL && otherwise != VC_NET_REQUIRED) {
        return otherwise;
    }
    if (value == NULL) {
        refuse_first(net, keys, "");
        return 1;
    }
    if (!json_is_number(value) || x < (double)least || x > most || x != (double)(int64_t)x) {
        refuse_first(net, keys, vc_net_print(net, "not a whole number from %d to %.0f", (int)least, most));
        return 1;
    }
    return (int64_t)x;
}

int64_t vc_net_size(struct vc_net *net, const char *keys, int64_t otherwise)
{
    return whole(net, keys, otherwise, 1, LARGEST_SIZE);
}

int64_t vc_net_layers(struct vc_net *net, const char *keys)
{
    return whole(net, keys, VC_NET_REQUIRED, 0, VC_NET_MAX_LAYERS);
}

int64_t vc_net_count(struct vc_net *net, const char *keys, int64_t otherwise)
{
    return whole(net, keys, otherwise, 0, LARGEST_SIZE);
}

double vc_net_real(struct vc_net *net, const char *keys, double otherwise)
{
    const json_t *value = vc_net_get(net, keys);

    return fits(net, keys, value, json_is_number(value), "not a number") ? json_number_value(value) : otherwise;
}

bool vc_net_flag(struct vc_net *net, const char *key, bool otherwise)
{
    const json_t *value = vc_net_get(net, key);

    return fits(net, key, value, json_is_boolean(value), "neither true nor false") ? json_is_true(value) : otherwise;
}

double vc_net_probability(struct vc_net *net, const char *keys, double otherwise)
{
    const json_t *value = vc_net_get(net, keys);

    return json_is_number(value) ? json_number_value(value) : otherwise;
}

const char *vc_net_word(struct vc_net *net, const char *key, const char *otherwise)
{
    const json_t *value = vc_net_get(net, key);

    return fits(net, key, value, json_is_string(value), "not a string") ? json_string_value(value) : otherwise;
}

int64_t vc_net_labels(struct vc_net *net)
{
    const json_t *labels = vc_net_get(net, "id2label");

    return json_is_object(labels) && json_object_size(labels) != 0 ? (int64_t)json_object_size(labels)
                                                                   : vc_net_size(net, "num_labels", 2);
}

int64_t vc_net_share(struct vc_net *net, const char *what, int64_t all, int64_t parts)
{
    if (parts < 1 || all % parts != 0) {
        vc_graph_complain(net->graph, "config.json: %s: %lld cannot be divided into %lld", what, (long long)all,
                          (long long)parts);
        net->failed = true;
        return 1;
    }
    return all / parts;
}

/* ---- what nobody asked for ---- */

/* Keys by which some family computes something else, each with the value that means nothing. */
static const struct {
    const char *key, *neutral; /* as JSON; NULL: any value but null is more than nothing */
} changing[] = {
    {"activation_sparsity_pattern", NULL},
    {"add_cross_attention", "false"},
    {"alibi", "false"},
    {"attention_bias", "false"},
    {"attention_chunk_size", NULL},
    {"attention_k_eq_v", "false"},
    {"attention_multiplier", "1.0"},
    {"attn_logit_softcapping", NULL},
    {"attn_temperature_tuning", "false"},
    {"clip_qkv", NULL},
    {"conv_bias", "false"},
    {"embedding_multiplier", "1.0"},
    {"embedding_size", NULL},
    {"encoder_no_repeat_ngram_size", "0"},
    {"final_logit_softcapping", NULL},
    {"first_k_dense_replace", "0"},
    {"is_decoder", "false"},
    {"is_encoder_decoder", "false"},
    {"kv_lora_rank", NULL},
    {"layer_types", NULL},
    {"logit_scale", "1.0"},
    {"logits_scaling", "1.0"},
    {"mlp_bias", "false"},
    {"mlp_only_layers", "[]"},
    {"moe_intermediate_size", NULL},
    {"n_routed_experts", NULL},
    {"n_shared_experts", NULL},
    {"no_rope_layers", NULL},
    {"num_experts", NULL},
    {"num_local_experts", NULL},
    {"parallel_attn", "false"},
    {"partial_rotary_factor", "1.0"},
    {"position_embedding_type", "\"absolute\""},
    {"pruned_heads", "{}"},
    {"q_lora_rank", NULL},
    {"qk_layernorm", "false"},
    {"qk_norm", "false"},
    {"query_pre_attn_scalar", NULL},
    {"residual_multiplier", "1.0"},
    {"rope_parameters", NULL},
    {"rope_scaling", NULL},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"scale_attn_weights", "true"},
    {"sliding_window", NULL},
    {"token_classification_bias", "true"},
    {"use_bias", "false"},
    {"use_bidirectional_attention", "false"},
    {"use_cross_attention", "false"},
    {"use_parallel_residual", "false"},
    {"use_qk_norm", "false"},
    {"use_qkv_bias", "false"},
    {"use_sliding_window", "false"},
};

/* Numbers are compared as numbers (1 and 1.0), null is always neutral. */
static bool is_neutral(const json_t *value, const char *neutral)
{
    json_t *other = neutral == NULL ? NULL : json_loads(neutral, JSON_DECODE_ANY, NULL);
    bool same = json_is_number(value) && json_is_number(other)
                    ? json_number_value(value) == json_number_value(other)
                    : json_is_null(value) || (other != NULL && json_equal(value, other) == 1);

    json_decref(other);
    return same;
}

/* Refuses what would change the result and is not computed here: a graph that silently differs from
 * transformers would judge weights wrongly. */
void vc_net_check_keys(struct vc_net *net)
{
    for (size_t k = 0; k < sizeof changing / sizeof *changing; k++) {
        const json_t *value = json_object_get(net->config, changing[k].key);

        if (value != NULL && !was_asked(net, changing[k].key) && !is_neutral(value, changing[k].neutral)) {
            vc_net_refuse(net, changing[k].key,
                          vc_net_print(net, "which is not supported for models of the type %s", net->family->type));
        }
    }
}

const char *vc_net_print(struct vc_net *net, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const char *text = vc_arena_vprintf(net->ctx, net->arena, format, args);
    va_end(args);
    VC_LEAVE_WITH(text == NULL, net->graph->status = VC_E_NOMEM, "");
    return text;
}
