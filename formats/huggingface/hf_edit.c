/* hf_edit.c - see hf_edit.h.
 *
 *     edit: intermediate size 11008 -> 8192            {"hidden_size": 4096, "intermediate_size": 11008, ...}
 *     becomes                                          {"hidden_size": 4096, "intermediate_size": 8192, ...}
 *
 * Families of models call the same size by different names. All names are tried, and a number is replaced only where it
 * says what it was before, so that a name which means something else in another family does no harm. Models of text and
 * pictures have the sizes of their text part one level down. */
#include "formats/huggingface/hf_edit.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "formats/huggingface/hf_config.h"
#include "formats/huggingface/hf_json.h"
#include "formats/io/json_member.h"

static const char *const key_names[VC_EDIT_KEYS][8] = {
    [VC_EDIT_HIDDEN] = {"hidden_size", "n_embd", "d_model", "dim", "model_dim", "word_embed_proj_dim"},
    [VC_EDIT_INTERMEDIATE] = {"intermediate_size", "moe_intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim",
                              "ffn_hidden_size"},
    [VC_EDIT_LAYERS] = {"num_hidden_layers", "n_layer", "num_layers", "n_layers"},
    [VC_EDIT_HEADS] = {"num_attention_heads", "n_head", "num_heads", "n_heads"},
    [VC_EDIT_KV_HEADS] = {"num_key_value_heads", "n_head_kv", "num_kv_heads", "n_kv_heads", "multi_query_group_num"},
    [VC_EDIT_HEAD_SIZE] = {"head_dim", "d_kv", "kv_channels"},
    [VC_EDIT_EXPERTS] = {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"},
    [VC_EDIT_VOCABULARY] = {"vocab_size", "padded_vocab_size"}};

/* Lists with an entry per layer, and lists of numbers of layers. */
static const char *const by_layer[] = {"layer_types",   "mlp_layer_types", "layers_block_type",
                                       "block_configs", "no_rope_layers",  "attention_layers"};
static const char *const of_layers[] = {"mlp_only_layers", "cross_attention_layers", "full_attn_idxs"};

/* Objects that hold the sizes of the part that works on text. */
static const char *const sections[] = {"text_config", "llm_config", "language_config"};

struct editing {
    struct vc_ctx *ctx;
    const struct vc_edit *edits;
    size_t n;
    const struct vc_edit *edit; /* the one that is made */
    size_t n_named;             /* keys of that meaning, whatever they say */
    size_t n_made;
};

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    size_t i = 0;

    while (i < n && names[i] != NULL && strcmp(names[i], name) != 0) {
        i++;
    }
    return i < n && names[i] != NULL;
}

#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof(names)[0])

static bool says(const json_t *value, uint64_t number)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 && (uint64_t)json_integer_value(value) == number;
}

/* The text without a list's entries of dropped layers, in place of member `index`. */
static enum vc_status drop_layers(const struct editing *e, struct vc_text *now, size_t index)
{
    struct json_member m;
    struct vc_text list;
    struct vc_text next;

    vc_text_init(&list, e->ctx);
    vc_text_init(&next, e->ctx);
    if (vc_json_member_find(now->data, now->n, index, &m)) {
        vc_json_list_drop(now->data + m.value, m.end - m.value, e->edit->dropped, e->edit->n_dropped, &list);
    }
    if (list.status == VC_OK) {
        vc_json_member_replace(now->data, now->n, index, list.data, &next);
    }
    next.status = list.status != VC_OK ? list.status : next.status;
    vc_text_release(&list);
    vc_text_release(now);
    *now = next;
    return now->status;
}

static enum vc_status replace_number(const struct editing *e, struct vc_text *now, size_t index)
{
    struct vc_text next;
    char number[24];

    (void)snprintf(number, sizeof number, "%" PRIu64, e->edit->after);
    vc_text_init(&next, e->ctx);
    vc_json_member_replace(now->data, now->n, index, number, &next);
    vc_text_release(now);
    *now = next;
    return now->status;
}

/* Makes the edit in one member of an object. */
static enum vc_status edit_member(struct editing *e, const char *name, const json_t *value, size_t index,
                                  struct vc_text *now)
{
    const struct vc_edit *edit = e->edit;
    enum vc_status status = VC_OK;

    if (is_one_of(name, key_names[edit->key], sizeof key_names[0] / sizeof key_names[0][0])) {
        e->n_named += !json_is_null(value);
        if (says(value, edit->before)) {
            e->n_made++;
            VC_TRY(replace_number(e, now, index));
        }
    }
    if (edit->n_dropped != 0 && IS_ONE_OF(name, by_layer) && json_array_size(value) == edit->before) {
        VC_TRY(drop_layers(e, now, index));
    }
    if (edit->n_dropped != 0 && IS_ONE_OF(name, of_layers) && json_array_size(value) != 0) {
        status = vc_fail(e->ctx, VC_E_UNSUPPORTED,
                         VC_HF_CONFIG_NAME ": '%s' has numbers of layers, and layers are left out", name);
    }
out:
    return status;
}

/* Makes the edit in the members of the object `now`, and one level down in the part for text. */
static enum vc_status edit_object(struct editing *e, const json_t *object, bool top, struct vc_text *now)
{
    enum vc_status status = VC_OK;
    struct json_member m;
    struct vc_text inner;
    struct vc_text next;
    const char *name;
    json_t *value;
    size_t index = 0;

    vc_text_init(&inner, e->ctx);
    vc_text_init(&next, e->ctx);
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        VC_TRY(edit_member(e, name, value, index, now));
        if (top && IS_ONE_OF(name, sections) && json_is_object(value) &&
            vc_json_member_find(now->data, now->n, index, &m)) {
            vc_text_add_bytes(&inner, now->data + m.value, m.end - m.value);
            VC_TRY(inner.status);
            VC_TRY(edit_object(e, value, false, &inner));
            vc_json_member_replace(now->data, now->n, index, inner.data, &next);
            VC_TRY(next.status);
            vc_text_release(now);
            *now = next;
            vc_text_init(&next, e->ctx);
            vc_text_release(&inner);
            vc_text_init(&inner, e->ctx);
        }
        index++;
    }
out:
    vc_text_release(&inner);
    vc_text_release(&next);
    return status;
}

static enum vc_status make_edit(struct editing *e, const json_t *root, struct vc_text *now)
{
    const struct vc_edit *edit = e->edit;
    enum vc_status status;

    e->n_named = 0;
    e->n_made = 0;
    VC_TRY(edit_object(e, root, true, now));
    if (e->n_made == 0 && !(e->n_named == 0 && vc_edit_is_implied(e->edits, e->n, edit))) {
        status = vc_fail(e->ctx, VC_E_UNSUPPORTED,
                         VC_HF_CONFIG_NAME ": no key of it says that the %s is %" PRIu64 ", which becomes %" PRIu64
                                           "; expected one such as \"%s\"",
                         vc_edit_name(edit->key), edit->before, edit->after, key_names[edit->key][0]);
    }
out:
    return status;
}

/* The number of any key of that meaning, in the part for text before the whole; 0: there is none. */
static uint64_t number_of(const json_t *root, enum vc_edit_key key)
{
    size_t i;
    size_t k;

    for (i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const json_t *section = json_object_get(root, sections[i]);
        uint64_t inner = json_is_object(section) ? number_of(section, key) : 0;

        if (inner != 0) {
            return inner;
        }
    }
    for (k = 0; k < sizeof key_names[0] / sizeof key_names[0][0] && key_names[key][k] != NULL; k++) {
        json_int_t number = json_integer_value(json_object_get(root, key_names[key][k]));

        if (number > 0) {
            return (uint64_t)number;
        }
    }
    return 0;
}

static enum vc_status check_head_size(const struct editing *e, const json_t *root)
{
    uint64_t hidden = number_of(root, VC_EDIT_HIDDEN);
    uint64_t before;
    uint64_t after;

    if (hidden == 0 || number_of(root, VC_EDIT_HEAD_SIZE) != 0 ||
        !vc_edits_change_head_size(e->edits, e->n, hidden, &before, &after)) {
        return VC_OK;
    }
    return vc_fail(e->ctx, VC_E_UNSUPPORTED,
                   VC_HF_CONFIG_NAME ": has no \"head_dim\", so that a head would be taken for one of size %" PRIu64
                                     " in place of %" PRIu64,
                   after, before);
}

enum vc_status vc_hf_edit(struct vc_ctx *ctx, const char *text, size_t n, const struct vc_edit *edits, size_t n_edits,
                          struct vc_text *out)
{
    struct editing e = {.ctx = ctx, .edits = edits, .n = n_edits};
    struct hf_json json = {NULL, 0};
    struct vc_text now;
    enum vc_status status;
    size_t i;

    vc_text_init(&now, ctx);
    vc_text_add_bytes(&now, text, n);
    VC_TRY(now.status);
    VC_TRY(vc_hf_config_parse(ctx, text, n, true, &json));
    VC_TRY(check_head_size(&e, json.root));
    for (i = 0; i < n_edits; i++) {
        e.edit = &edits[i];
        VC_TRY(make_edit(&e, json.root, &now));
    }
    vc_text_add_bytes(out, now.data, now.n);
    status = out->status;
out:
    vc_text_release(&now);
    vc_hf_json_free(ctx, &json);
    return status;
}
