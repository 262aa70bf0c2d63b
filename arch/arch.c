/* arch.c - see arch.h. To make the tables of another version of transformers: scripts/architectures.py arch.
 *
 *     VC_ARCH("gemma3_text", "", "head_dim=256 ...")              what the class takes where config.json says nothing
 *     VC_ARCH_LIST("gemma3_text", "layer_types", LAST, 6, ...)    every sixth layer is of another kind */
#include "arch/arch.h"

#include <stdlib.h>
#include <string.h>

#include "core/text/text.h"

/* A file with rows of both tables, read once for each. */
#define VC_ARCH(type_name, text_type, words) {.type = type_name, .text = text_type, .defaults = words},
#define VC_ARCH_LIST(...)
static const struct vc_arch types[] = {
#include "arch/arch_classes.inc"
};

#undef VC_ARCH
#undef VC_ARCH_LIST
#define VC_ARCH(...)
#define VC_ARCH_LIST(type_name, name, by_rule, by_number, number_key, usual_entry, other_entry, but_not, or_by) \
    {type_name, name, VC_ARCH_##by_rule, by_number, number_key, usual_entry, other_entry, but_not, or_by},
static const struct vc_arch_list lists[] = {
#include "arch/arch_classes.inc"
};

/* ---- defaults ---- */

const struct vc_arch *vc_arch_find(const char *type)
{
    for (size_t i = 0; type != NULL && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].type, type) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

/* A model of several parts has a type of its own for its text: "gemma3" has "gemma3_text". */
const struct vc_arch *vc_arch_find_text(const char *type)
{
    const struct vc_arch *arch = vc_arch_find(type);

    return arch != NULL && arch->text[0] != '\0' ? vc_arch_find(arch->text) : arch;
}

/* The defaults are words "key=value" with blanks between them. */
bool vc_arch_default(const struct vc_arch *arch, size_t index, struct vc_arch_default *out)
{
    const char *at = arch != NULL ? arch->defaults : "";

    for (; index > 0 && *at != '\0'; index--) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    out->key = at;
    out->n_key = strcspn(at, "=");
    out->value = at + out->n_key + (at[out->n_key] == '=');
    out->n_value = strcspn(out->value, " ");
    return *at != '\0';
}

/* The default of that key. */
static bool find_default(const struct vc_arch *arch, const char *key, struct vc_arch_default *out)
{
    for (size_t i = 0; vc_arch_default(arch, i, out); i++) {
        if (out->n_key == strlen(key) && strncmp(out->key, key, out->n_key) == 0) {
            return true;
        }
    }
    return false;
}

double vc_arch_number(const struct vc_arch *arch, const char *key, double otherwise)
{
    struct vc_arch_default found;

    return find_default(arch, key, &found) ? strtod(found.value, NULL) : otherwise;
}

bool vc_arch_is(const struct vc_arch *arch, const char *key, const char *word)
{
    struct vc_arch_default found;

    return find_default(arch, key, &found) && found.n_value == strlen(word) &&
           strncmp(found.value, word, found.n_value) == 0;
}

const char *vc_arch_text(const struct vc_arch *arch, const char *key)
{
    struct vc_arch_default found;

    return find_default(arch, key, &found) ? found.value : NULL;
}

bool vc_arch_flag(const struct vc_arch *arch, const char *key)
{
    return vc_arch_is(arch, key, "true");
}

/* ---- lists ---- */

const struct vc_arch_list *vc_arch_list(const char *type, size_t index)
{
    for (size_t i = 0; type != NULL && i < sizeof lists / sizeof lists[0]; i++) {
        if (strcmp(lists[i].type, type) == 0 && index-- == 0) {
            return &lists[i];
        }
    }
    return NULL;
}

/* Layer i of n: whether it is of the other kind. */
bool vc_arch_list_other(const struct vc_arch_list *list, uint64_t number, uint64_t i, uint64_t n)
{
    bool ends = list->rule == VC_ARCH_LAST_AND_END || list->rule == VC_ARCH_LAST_ENDS;

    switch (list->rule) {
    case VC_ARCH_LAST:
    case VC_ARCH_LAST_AND_END:
    case VC_ARCH_LAST_ENDS:
        return (number != 0 && (i + 1) % number == 0) || (ends && i + 1 == n);
    case VC_ARCH_FIRST:
        return number != 0 && i % number == 0;
    case VC_ARCH_BEHIND:
        return i >= number;
    default:
        return false;
    }
}

/* ---- keys ---- */

/* As transformers' configurations call them. */
static const struct {
    enum vc_arch_key kind;
    const char *names;
    const char *list;
} keys[] = {
    /* an entry for each layer */
    {VC_ARCH_KEY_BY_LAYER,
     "layer_types mlp_layer_types indexer_types layers_block_type block_configs no_rope_layers attention_layers "
     "attention_window attention_windows attn_type_list hybrid_layer_pattern hybrid_override_pattern moe_layer_freq "
     "num_query_heads ffn_multipliers num_attention_heads_per_layer num_key_value_heads_per_layer "
     "activation_sparsity_pattern layer_rope_theta swiglu_limits swiglu_limits_shared",
     NULL},
    /* numbers of layers, which change when layers in front of them go */
    {VC_ARCH_KEY_NUMBERS,
     "mlp_only_layers cross_attention_layers full_attn_idxs moe_layers attn_layer_indices hybrid_layer_ids "
     "local_layer_ids rope_scaling_layers window_block_indexes",
     NULL},
    {VC_ARCH_KEY_NUMBERS_STAY, "deepstack_visual_indexes intermediate_layers_indices", NULL},
    {VC_ARCH_KEY_FEATURE, "vision_feature_layer mm_vision_select_layer", NULL},
    /* how many layers at the beginning */
    {VC_ARCH_KEY_FIRST,
     "first_k_dense_replace num_dense_layers max_window_layers moe_layer_start_index num_hash_layers dense_mlp_idx",
     NULL},
    /* what depends on the number of a layer in some other way */
    {VC_ARCH_KEY_BY_NUMBER,
     "num_kv_shared_layers hidden_size_per_layer_input moe_layer_end_index scale_attn_by_inverse_layer_idx stage_names "
     "depths moe_layers_enum kv_source_layers per_layer_config aligner_num_add_layers index_topk_pattern "
     "num_first_full_attention_layers num_last_full_attention_layers",
     NULL},
    /* every how many layers; `list`: the list that says the same */
    {VC_ARCH_KEY_PERIOD, "sliding_window_pattern global_attn_every_n_layers full_attention_interval layer_group_size",
     "layer_types"},
    {VC_ARCH_KEY_PERIOD, "attn_layer_period", "layers_block_type"},
    {VC_ARCH_KEY_PERIOD, "no_rope_layer_interval", "no_rope_layers"},
    {VC_ARCH_KEY_PERIOD, "interleave_moe_layer_step", "moe_layers"},
    {VC_ARCH_KEY_PERIOD, "index_topk_freq", "indexer_types"},
    {VC_ARCH_KEY_PERIOD,
     "decoder_sparse_step encoder_sparse_step moe_layer_freq moe_layer_interval expert_layer_period "
     "cross_attention_freq cross_attention_frequency n_layers_per_attn_res_block",
     NULL},
};

bool vc_arch_key_is(const char *key, enum vc_arch_key kind)
{
    size_t i = 0;

    while (i < sizeof keys / sizeof keys[0] && !(keys[i].kind == kind && vc_is_one_of(key, keys[i].names))) {
        i++;
    }
    return i < sizeof keys / sizeof keys[0];
}

/* The last row has no list, and stands for keys that are none. */
const char *vc_arch_period_list(const char *key)
{
    size_t i = 0;

    while (i + 1 < sizeof keys / sizeof keys[0] &&
           !(keys[i].kind == VC_ARCH_KEY_PERIOD && vc_is_one_of(key, keys[i].names))) {
        i++;
    }
    return keys[i].list;
}

/* MiniMax: how fast a linear layer forgets follows from its number and from how many there are. Recurrent Gemma: the kinds
 * of "block_types" repeat. */
bool vc_arch_by_number(const char *type)
{
    return type != NULL && vc_is_one_of(type, "minimax recurrent_gemma");
}

/* ModernBERT's has no norm in front of attention; RWKV's has a norm more. */
bool vc_arch_first_stays(const char *type)
{
    return type != NULL && vc_is_one_of(type, "modernbert rwkv");
}
