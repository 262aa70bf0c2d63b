/* llm_back_config.c - config.json from the metadata of a GGUF model: the rows of llm_keys.c backwards, and what
 * llama.cpp takes for granted where transformers has a choice.
 *
 *     qwen3.block_count u32 28            "num_hidden_layers": 28
 *     no output.weight                    "tie_word_embeddings": true
 *     rope_freqs.weight f32 [64]          "rope_scaling": {"rope_type": "llama3", ...} that gives these divisors
 *
 * Order matters: rows first, because later functions ask b->config by said() for what the rows wrote (head size,
 * context). jansson's failures are collected in b->failed, and refused once at the end; a NULL that json_pack or
 * vc_back_set gets is such a failure. */
#include <math.h>
#include <stdlib.h>

#include "arch/arch_rope.h"
#include "core/base/checked.h"
#include "formats/gguf_folder/llm_back.h"
#include "formats/huggingface/infolder.h"

/* The context before it was stretched, in "rope_scaling". */
#define ORIGINAL "original_max_position_embeddings"

json_t *vc_back_find(const struct llm_back *b, const char *name)
{
    char key[160];

    (void)snprintf(key, sizeof key, "%s%s", name[0] == '.' ? b->family->gguf : "", name);
    return json_object_get(b->pairs, key);
}

const char *vc_back_text(const struct llm_back *b, const char *name)
{
    return json_string_value(vc_back_find(b, name));
}

void vc_back_set(struct llm_back *b, json_t *object, const char *name, json_t *value)
{
    b->failed = json_object_set_new(object, name, value) != 0 || b->failed;
}

/* The member of a row: the first of its names. */
static void set_row(struct llm_back *b, const struct vc_arch_pair *key, json_t *value)
{
    b->failed = json_object_setn_new(b->config, key->names, strcspn(key->names, "|"), value) != 0 || b->failed;
}

/* The number of few digits that is this f32. 6 to 9 digits: 9 always give an f32 back. 1e-06 stays "1e-06", and does
 * not become 9.9999999747524271e-07. */
static json_t *real(double x)
{
    char text[32];
    int digits = 5;

    do {
        (void)snprintf(text, sizeof text, "%.*g", ++digits, x);
    } while (digits < 9 && (float)strtod(text, NULL) != (float)x);
    return json_real(strtod(text, NULL));
}

/* A number that is in b->config already; 0 where it is not. */
static json_int_t said(const struct llm_back *b, const char *name)
{
    return json_integer_value(json_object_get(b->config, name));
}

/* Of a head; where nothing says it, heads fill the hidden size. */
static json_int_t head_size(const struct llm_back *b)
{
    json_int_t heads = said(b, "num_attention_heads");

    return said(b, "head_dim") != 0 ? said(b, "head_dim") : said(b, "hidden_size") / (heads != 0 ? heads : 1);
}

static enum vc_status refuse(const struct llm_back *b, const char *key, const char *why)
{
    return vc_fail(b->ctx, VC_E_UNSUPPORTED, "metadata key '%s%s': %s", key[0] == '.' ? b->family->gguf : "", key, why);
}

static bool has_tensor(const struct llm_back *b, const char *name)
{
    return vc_model_find(b->source, name) != VC_NO_TENSOR;
}

/* ---- rows ---- */

/* What llama.cpp takes where the file has no such key; 0: nothing. */
static json_int_t default_of(const struct llm_back *b, const struct vc_arch_pair *key)
{
    size_t embedding = vc_model_find(b->source, "token_embd.weight");

    if (key->source == VC_FROM_HEAD_SIZE || key->source == VC_FROM_ROTATED) {
        return head_size(b);
    }
    if (key->source == VC_FROM_VOCABULARY && embedding != VC_NO_TENSOR && b->source->tensors[embedding].n_dims == 2) {
        return (json_int_t)b->source->tensors[embedding].shape[0];
    }
    if (key->field == offsetof(struct vc_arch_sizes, key_heads) && key->source == VC_FROM_SIZE) {
        return said(b, "num_attention_heads");
    }
    if (key->field == offsetof(struct vc_arch_sizes, feed_forward) && key->source == VC_FROM_SIZE) {
        /* No layer is without experts. */
        return json_integer_value(vc_back_find(b, ".expert_feed_forward_length"));
    }
    return 0;
}

/* Sets a size. A share of rotated elements n / size has to give n again when transformers computes (int)(size * share):
 * where n / size is rounded below, a quarter more is. A window of 0 is null. */
static enum vc_status take_number(struct llm_back *b, const struct vc_arch_pair *key, json_int_t n)
{
    double size = (double)head_size(b);
    double share = (double)n / size;

    bool may_be_0 =
        key->source == VC_FROM_WINDOW || key->source == VC_FROM_COUNT || key->source == VC_FROM_COUNT_IF_ANY;

    if (key->source == VC_FROM_ROTATED && vc_arch_is_latent(b->family)) {
        vc_back_set(b, b->config, "qk_rope_head_dim", json_integer(n));
        return VC_OK;
    }
    VC_RETURN_IF(n > INT32_MAX || n < !may_be_0, refuse(b, key->gguf, "is no size, or is missing"));
    if (key->source == VC_FROM_ROTATED && strcmp(b->family->gguf, "gemma4") == 0) {
        return VC_OK; /* rope_freqs.weight says which pairs turn */
    }
    if (key->source == VC_FROM_ROTATED) {
        if (share > 1 || (share != 1 && !vc_arch_has(b->family, VC_ARCH_PARTIAL))) {
            return refuse(b, key->gguf, "all elements of a head are rotated in such a model of transformers");
        }
        share = (json_int_t)(size * share) == n ? share : ((double)n + 0.25) / size;
    }
    if (key->source != VC_FROM_ROTATED || vc_arch_has(b->family, VC_ARCH_PARTIAL)) {
        json_t *value = n == 0 && key->source == VC_FROM_WINDOW ? json_null() : json_integer(n);

        if (key->source == VC_FROM_ROTATED) {
            json_decref(value);
            value = json_real(share);
        }
        set_row(b, key, value);
    }
    return VC_OK;
}

/* Of a list with an entry for each layer, 0 for those that have no such part, the largest. */
static const json_t *largest(const json_t *value)
{
    const json_t *found = value;

    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);

        found = i == 0 || json_integer_value(entry) > json_integer_value(found) ? entry : found;
    }
    return found;
}

/* One row of arch/arch_keys.c: its number in the file, or what llama.cpp takes without it. 10000 is the base of rotary
 * embeddings that llama.cpp takes. */
static enum vc_status take_row(struct llm_back *b, const struct vc_arch_pair *key)
{
    const json_t *found = largest(vc_back_find(b, key->gguf));
    bool rotates = key->source == VC_FROM_THETA || key->source == VC_FROM_LOCAL_THETA;
    bool is_real =
        rotates || key->source == VC_FROM_REAL || key->source == VC_FROM_REAL_IF_SAID || key->source == VC_FROM_EPSILON;

    if (key->source == VC_FROM_LETTER || key->source == VC_FROM_CONSTANT || key->names[0] == '\0') {
        return VC_OK; /* it follows from others, or the class knows it */
    }
    if (key->source == VC_FROM_FLAG) {
        VC_RETURN_IF(found != NULL && !json_is_boolean(found), refuse(b, key->gguf, "is no truth value"));
        set_row(b, key, json_boolean(json_is_true(found)));
        return VC_OK;
    }
    if (found == NULL && key->source == VC_FROM_COUNT_IF_ANY) {
        bool groups = key->field != offsetof(struct vc_arch_sizes, query_rank); /* without them all experts are one */

        set_row(b, key, groups ? json_integer(1) : json_null());
        return VC_OK;
    }
    if (found == NULL && (key->source == VC_FROM_REAL_IF_SAID ||
                          (key->source == VC_FROM_HEAD_SIZE && vc_arch_number(b->arch, "head_dim", 0) == 0))) {
        return VC_OK; /* transformers takes the same as llama.cpp */
    }
    if (!is_real && (found == NULL || json_is_integer(found))) {
        return take_number(b, key, found != NULL ? json_integer_value(found) : default_of(b, key));
    }
    if (!json_is_number(found) && !(found == NULL && rotates)) {
        return refuse(b, key->gguf, "is no number of its kind, or is missing");
    }
    set_row(b, key, real(found != NULL ? json_number_value(found) : 10000.0));
    return VC_OK;
}

/* ---- rotary embeddings ---- */

/* The values of a tensor of one dimension, as numbers in a list. At most INT16_MAX of them, which is more than any head
 * has; others, NaN and numbers that are not above 0 are refused. */
static enum vc_status read_factors(struct llm_back *b, const char *name, json_t *list)
{
    size_t i = vc_model_find(b->source, name);
    const struct vc_tensor *t = &b->source->tensors[i];
    enum vc_status status = VC_OK;

    for (uint64_t k = 0; k < t->n_elems && status == VC_OK; k++) {
        float x = 0;

        if (t->dtype == VC_DTYPE_F32 && t->n_elems <= INT16_MAX) {
            VC_TRY(vc_llm_value_read(b->ctx, b->source, i, k, &x));
        }
        status =
            isfinite(x) && x > 0 ? VC_OK : vc_fail(b->ctx, VC_E_UNSUPPORTED, "%s: expected factors of type f32", name);
        b->failed = json_array_append_new(list, real(x)) != 0 || b->failed;
    }
out:
    return status;
}

/* Finds the block of type "llama3" from its divisors. The bounds of the ramp, 1 and 4, are those of all Llama models.
 * The factor is the largest divisor, that of the lowest frequencies. The original context is not in the file: powers of
 * 2 up to 2^24 are tried until all divisors agree within 1e-4. */
static enum vc_status make_llama3(struct llm_back *b, json_t **out)
{
    json_auto_t *list = json_array();
    double theta = json_number_value(json_object_get(b->config, "rope_theta"));
    double original = 1;
    double factor = 0;
    size_t same = 0;

    VC_CALL(read_factors(b, "rope_freqs.weight", list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        factor = fmax(factor, json_number_value(json_array_get(list, i)));
    }
    while (same < json_array_size(list) && original < 0x1p24) {
        original *= 2;
        for (same = 0; same < json_array_size(list); same++) {
            double n = (double)json_array_size(list);
            double wanted = vc_rope_llama3_divisor(theta, 2 * n, factor, 1.0, 4.0, original, same);

            if (fabs(json_number_value(json_array_get(list, same)) - wanted) > 1e-4 * wanted) {
                break;
            }
        }
    }
    VC_REFUSE_IF(
        same != json_array_size(list) || same == 0, b->ctx, VC_E_UNSUPPORTED,
        "rope_freqs.weight: these are not the divisors of rotary embeddings of type 'llama3' with bounds 1 and 4");
    *out = json_pack("{s:s, s:o, s:f, s:f, s:I}", "rope_type", "llama3", "factor", real(factor), "low_freq_factor", 1.0,
                     "high_freq_factor", 4.0, ORIGINAL, (json_int_t)original);
    return VC_OK;
}

/* By what scores are multiplied, where the file says another number than transformers would compute; else NULL. unit:
 * what llama.cpp's number is multiplied by, 1 or yarn's own factor. Compared as f32, which the file has. */
static json_t *attention_factor(const struct llm_back *b, double usual, double unit)
{
    const json_t *found = vc_back_find(b, ".rope.scaling.attn_factor");
    double factor = found != NULL ? json_number_value(found) * unit : unit;

    return (float)factor != (float)usual ? json_real(factor) : NULL;
}

/* Older versions of transformers want these three members of phi3, whose context stands outside, and no other. *out
 * owns both lists before they are filled, so that a refusal leaks nothing. */
static enum vc_status make_longrope(struct llm_back *b, double original, json_t **out)
{
    double share = (double)said(b, "max_position_embeddings") / original;
    double usual = vc_rope_longrope_scale(share, original);
    json_t *shorter = json_array();
    json_t *longer = json_array();

    *out = json_pack("{s:s, s:o, s:o, s:o*}", "type", "longrope", "short_factor", shorter, "long_factor", longer,
                     "attention_factor", attention_factor(b, usual, 1.0));
    if (strcmp(b->family->gguf, "phi3") != 0) {
        vc_back_set(b, *out, ORIGINAL, json_integer((json_int_t)original));
    }
    VC_CALL(read_factors(b, "rope_factors_short.weight", shorter));
    return read_factors(b, "rope_factors_long.weight", longer);
}

/* The number of a key, or another. */
static json_t *number(const struct llm_back *b, const char *name, double otherwise)
{
    const json_t *found = vc_back_find(b, name);

    return real(json_is_number(found) ? json_number_value(found) : otherwise);
}

/* linear and yarn, which llama.cpp has keys for. */
static enum vc_status make_keyed(struct llm_back *b, const char *type, json_int_t original, json_t **out)
{
    bool yarn = strcmp(type, "yarn") == 0;
    double factor = json_number_value(vc_back_find(b, ".rope.scaling.factor"));
    double usual = vc_rope_yarn_scale(factor, 1.0);

    if ((strcmp(type, "linear") != 0 && !yarn) || !(factor > 0)) {
        return refuse(b, ".rope.scaling.type", "expected linear or yarn, and a factor above 0");
    }
    *out = json_pack("{s:s, s:o, s:o*, s:o*}", "rope_type", type, "factor", real(factor), ORIGINAL,
                     yarn ? json_integer(original) : NULL, "attention_factor",
                     yarn ? attention_factor(b, usual, usual) : NULL);
    if (strcmp(b->family->gguf, "gpt-oss") == 0) {
        vc_back_set(b, *out, "truncate", json_false()); /* of all such models; llama.cpp rounds */
    }
    if (strcmp(b->family->gguf, "mistral3") == 0) {
        vc_back_set(b, *out, "beta_fast", number(b, ".rope.scaling.yarn_beta_fast", 32.0));
        vc_back_set(b, *out, "beta_slow", number(b, ".rope.scaling.yarn_beta_slow", 1.0));
        vc_back_set(b, *out, "mscale", json_real(1.0)); /* what llama.cpp takes for granted */
        vc_back_set(b, *out, "mscale_all_dim", number(b, ".rope.scaling.yarn_log_multiplier", 0.0));
        vc_back_set(b, *out, "llama_4_scaling_beta", number(b, ".attention.temperature_scale", 0.0));
    }
    return VC_OK;
}

/* Pairs of a head that a dimension of a picture turns. */
static json_int_t section(const struct llm_back *b, size_t i)
{
    return json_integer_value(json_array_get(vc_back_find(b, ".rope.dimension_sections"), i));
}

/* What the file keeps of the configuration that it was made of. What it says otherwise shows on the way there. */
static bool take_rest(struct llm_back *b)
{
    bool rope = false;
    const char *key;
    json_t *kept;

    for (size_t i = 0; vc_llm_rest[i] != NULL; i++) {
        json_t *value = json_object_get(b->rest, vc_llm_rest[i]);

        if (value != NULL && strcmp(vc_llm_rest[i], "model_type") != 0) { /* which chose the row (llm_back.c) */
            vc_back_set(b, b->config, vc_llm_rest[i], json_incref(value));
            rope = rope || strncmp(vc_llm_rest[i], "rope_", 5) == 0;
        }
    }
    json_object_foreach(b->rest, key, kept)
    {
        if (b->family->keeps != NULL && vc_is_one_of(key, b->family->keeps)) {
            vc_back_set(b, b->config, key, json_incref(kept));
        }
    }
    return rope;
}

/* Gemma 4, whose full layers turn the pairs that have another divisor than 1e30. */
static enum vc_status make_proportional(struct llm_back *b)
{
    json_auto_t *list = json_array();
    size_t turning = 0;

    if (has_tensor(b, "rope_freqs.weight")) {
        VC_CALL(read_factors(b, "rope_freqs.weight", list));
    }
    while (json_number_value(json_array_get(list, turning)) > 0 &&
           json_number_value(json_array_get(list, turning)) < 1e29) {
        turning++;
    }
    json_t *factor = json_number_value(json_array_get(list, 0)) != 1.0 ? json_array_get(list, 0) : NULL;
    double n = (double)json_array_size(list);
    double share = (double)turning / n;
    share = share * n == (double)turning ? share : ((double)turning + 0.25) / n;
    vc_back_set(b, b->config, "rope_parameters",
                json_pack("{s:{s:s, s:O, s:o*, s:O*}, s:{s:s, s:O}}", "full_attention", "rope_type",
                          n > 0 ? "proportional" : "default", "rope_theta", json_object_get(b->config, "rope_theta"),
                          "partial_rotary_factor", n > 0 ? json_real(share) : NULL, "factor", factor,
                          "sliding_attention", "rope_type", "default", "rope_theta",
                          json_object_get(b->config, "rope_local_base_freq")));
    return VC_OK;
}

/* The block of scaled rotary embeddings. Where this program wrote the file, VC_LLM_REST has the block as it was. Else
 * the type comes from a key (linear, yarn), from two tensors (longrope), or from one tensor (llama3). */
static enum vc_status set_scaling(struct llm_back *b)
{
    const char *type = vc_back_text(b, ".rope.scaling.type");
    json_int_t original = json_integer_value(vc_back_find(b, ".rope.scaling.original_context_length"));
    bool longer = has_tensor(b, "rope_factors_long.weight") && has_tensor(b, "rope_factors_short.weight");
    bool keyed = type != NULL && strcmp(type, "none") != 0 && !longer;
    json_t *scaling = NULL;
    enum vc_status status = VC_OK;

    original = original > 1 ? original : said(b, "max_position_embeddings");
    if (strcmp(b->family->gguf, "phi3") == 0) {
        vc_back_set(b, b->config, ORIGINAL, json_integer(original));
    }
    if (vc_llm_says_recurrent(b->family)) {
        vc_back_set(b, b->config, "linear_value_head_dim", json_integer(said(b, "linear_key_head_dim")));
    }
    if (take_rest(b)) {
        return VC_OK;
    }
    if (strcmp(b->family->gguf, "gemma4") == 0) {
        return make_proportional(b);
    }
    if (!keyed && vc_back_find(b, ".rope.dimension_sections") != NULL) {
        vc_back_set(b, b->config, "rope_scaling",
                    json_pack("{s:s, s:b, s:[I, I, I]}", "rope_type", "default", "mrope_interleaved", 1,
                              "mrope_section", section(b, 0), section(b, 1), section(b, 2)));
        return VC_OK;
    }
    json_t *other = attention_factor(b, 1.0, 1.0);
    json_decref(other);
    if (!keyed && !longer && other != NULL) {
        return refuse(b, ".rope.scaling.attn_factor",
                      "says how rotary embeddings are scaled, and nothing says by which type");
    }
    if (!keyed && (vc_arch_is(b->arch, "rope_type", "yarn") ||
                   (vc_arch_is(b->arch, "rope_type", "llama3") &&
                    !has_tensor(b, "rope_freqs.weight")))) { /* which transformers takes where nothing is said */
        scaling = json_pack("{s:s}", "rope_type", "default");
        vc_back_set(b, b->config, "rope_scaling", scaling);
        return VC_OK;
    }
    if (keyed || longer || has_tensor(b, "rope_freqs.weight")) {
        status = keyed    ? make_keyed(b, type, original, &scaling)
                 : longer ? make_longrope(b, (double)original, &scaling)
                          : make_llama3(b, &scaling);
        vc_back_set(b, b->config, "rope_scaling", scaling);
    }
    return status;
}

/* ---- the rest ---- */

/* The layers that slide, or are recurrent: a list, a period, or what llama.cpp takes where the file has neither. period
 * 6: layers 0 to 4 slide, 5 is full. */
static enum vc_status set_kinds(struct llm_back *b)
{
    bool recurrent = vc_arch_has(b->family, VC_ARCH_RECURRENT);
    const char *key = recurrent ? ".attention.recurrent_layers" : ".attention.sliding_window";
    const json_t *pattern = vc_back_find(b, recurrent ? key : ".attention.sliding_window_pattern");
    const json_t *interval = vc_back_find(b, ".full_attention_interval");
    json_int_t window = recurrent ? 1 : json_integer_value(vc_back_find(b, ".attention.sliding_window"));
    json_int_t layers = said(b, "num_hidden_layers");
    json_int_t period =
        json_is_integer(pattern) ? json_integer_value(pattern) : (json_int_t)vc_arch_gguf_period(b->family->gguf);
    json_t *list = json_array();

    period = recurrent && json_is_integer(interval) ? json_integer_value(interval) : period;
    bool encoder = strcmp(b->family->gguf, "modern-bert") == 0; /* the first of a period is full; both sides are seen */
    const char *name = encoder ? "local_attention" : "sliding_window";
    vc_back_set(b, b->config, recurrent ? "full_attention_interval" : name, json_integer(recurrent ? period : window));
    vc_back_set(b, b->config, "layer_types", list);
    if (window <= 0 || window > INT32_MAX || period <= 0 || layers > INT16_MAX ||
        (json_is_array(pattern) && json_array_size(pattern) != (size_t)layers)) {
        return refuse(b, key, "expected a number of tokens, and a pattern for all layers");
    }
    for (json_int_t i = 0; i < layers; i++) {
        bool slides =
            json_is_array(pattern) ? json_is_true(json_array_get(pattern, (size_t)i)) : (i + !encoder) % period != 0;

        (void)json_array_append_new(list, json_string(!slides     ? "full_attention"
                                                      : recurrent ? "linear_attention"
                                                                  : "sliding_attention"));
    }
    return VC_OK;
}

/* Jamba: layers with attention, and those with experts, are each so many from another one on. */
static void set_periods(struct llm_back *b)
{
    static const char *const names[][2] = {{"attn_layer_offset", "attn_layer_period"},
                                           {"expert_layer_offset", "expert_layer_period"}};
    const json_t *keys = vc_back_find(b, ".attention.head_count_kv");
    json_int_t layers = said(b, "num_hidden_layers") < INT16_MAX ? said(b, "num_hidden_layers") : 0;
    char name[64];

    for (size_t k = 0; k < 2; k++) {
        json_int_t first = layers;
        json_int_t period = layers + 1;

        for (json_int_t i = 0; i < layers && period > layers; i++) {
            (void)snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", (int)i);
            if (k == 0 ? json_integer_value(json_array_get(keys, (size_t)i)) != 0 : has_tensor(b, name)) {
                period = first < layers ? i - first : period;
                first = first < layers ? first : i;
            }
        }
        vc_back_set(b, b->config, names[k][0], json_integer(first));
        vc_back_set(b, b->config, names[k][1], json_integer(period));
    }
}

/* The kinds of layers by their key heads, of which recurrent ones have none; Nemotron-H's others are known by the sizes
 * of their feed-forward parts. */
static void set_kinds_by_keys(struct llm_back *b)
{
    const json_t *keys = vc_back_find(b, ".attention.head_count_kv");
    const json_t *parts = vc_back_find(b, ".feed_forward_length");
    bool nemotron = vc_is_one_of(b->family->gguf, "nemotron_h|nemotron_h_moe");
    bool conv = vc_is_one_of(b->family->gguf, "lfm2|lfm2moe");
    bool numbers = strcmp(b->family->types, "bamba") == 0;
    json_t *list = json_array();

    vc_back_set(b, b->config, nemotron ? "layers_block_type" : numbers ? "attn_layer_indices" : "layer_types", list);
    for (json_int_t i = 0; i < said(b, "num_hidden_layers") && i < INT16_MAX; i++) {
        const char *word = conv ? "conv" : "linear_attention";

        if (nemotron && json_integer_value(json_array_get(parts, (size_t)i)) != 0) {
            word = vc_arch_has(b->family, VC_ARCH_EXPERTS) ? "moe" : "mlp";
        }
        if (!json_is_array(keys) || json_integer_value(json_array_get(keys, (size_t)i)) != 0) {
            word = numbers ? NULL : "full_attention";
        }
        if (!numbers || word == NULL) {
            b->failed = json_array_append_new(list, numbers ? json_integer(i) : json_string(word)) != 0 || b->failed;
        }
    }
}

/* Whether some layer has such a tensor: of several kinds of layers, the first may have none. */
static bool any_ends_in(const struct llm_back *b, const char *end)
{
    size_t i = 0;

    while (i < b->source->n_tensors && !vc_ends_in(b->source->tensors[i].name, end)) {
        i++;
    }
    return i < b->source->n_tensors;
}

/* Rows of a matrix; null: it is not there. */
static json_t *rows_of(const struct llm_back *b, const char *name)
{
    size_t i = vc_model_find(b->source, name);

    return i != VC_NO_TENSOR && b->source->tensors[i].n_dims == 2
               ? json_integer((json_int_t)b->source->tensors[i].shape[0])
               : json_null();
}

/* Layers of two sizes of heads. Where values are keys, the key heads of full layers are of another number; layers that
 * use the keys of others may have a feed-forward part of twice the size. */
static void set_gemma4(struct llm_back *b)
{
    const json_t *keys = vc_back_find(b, ".attention.head_count_kv");
    const json_t *parts = vc_back_find(b, ".feed_forward_length");
    json_int_t owners = said(b, "num_hidden_layers") - said(b, "num_kv_shared_layers");
    json_int_t shared = -1; /* a layer whose values are its keys */
    char name[64];

    for (json_int_t i = 0; shared < 0 && i < owners && i < INT16_MAX; i++) {
        (void)snprintf(name, sizeof name, "blk.%d.attn_v.weight", (int)i);
        shared = has_tensor(b, name) ? -1 : i;
    }
    vc_back_set(b, b->config, "head_dim", json_incref(vc_back_find(b, ".attention.key_length_swa")));
    vc_back_set(b, b->config, "global_head_dim", json_incref(vc_back_find(b, ".attention.key_length")));
    vc_back_set(b, b->config, "attention_k_eq_v", json_boolean(shared >= 0));
    vc_back_set(b, b->config, "num_global_key_value_heads",
                shared >= 0 && json_is_array(keys) ? json_incref(json_array_get(keys, (size_t)shared)) : json_null());
    vc_back_set(b, b->config, "enable_moe_block", json_boolean(vc_arch_has(b->family, VC_ARCH_EXPERTS)));
    vc_back_set(b, b->config, "hidden_size_per_layer_input",
                json_integer(json_integer_value(vc_back_find(b, ".embedding_length_per_layer_input"))));
    if (json_is_array(parts)) {
        vc_back_set(b, b->config, "intermediate_size", json_incref(json_array_get(parts, 0)));
    }
    vc_back_set(b, b->config, "use_double_wide_mlp",
                json_boolean(json_integer_value(largest(parts)) > said(b, "intermediate_size")));
    if (json_number_value(json_object_get(b->config, "final_logit_softcapping")) == 0.0) {
        vc_back_set(b, b->config, "final_logit_softcapping", json_null());
    }
}

/* Members of encoders, and of models with two stacks or several copies of the states; other names of some classes. */
static void set_others(struct llm_back *b)
{
    const char *gguf = b->family->gguf;
    json_int_t key_heads = json_integer_value(vc_back_find(b, ".attention.head_count_kv"));
    json_t *sparse;

    static const struct {
        const char *class_name, *usual, *own;
    } names[] = {{"T5", "hidden_size", "d_model"},
                 {"T5", "head_dim", "d_kv"},
                 {"T5", "intermediate_size", "d_ff"},
                 {"T5", "num_hidden_layers", "num_layers"},
                 {"T5", "num_attention_heads", "num_heads"},
                 {"Gemma4", "num_experts_per_tok", "top_k_experts"},
                 {"DistilBert", "hidden_size", "dim"},
                 {"DistilBert", "intermediate_size", "hidden_dim"},
                 {"DistilBert", "num_hidden_layers", "n_layers"},
                 {"DistilBert", "num_attention_heads", "n_heads"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *value = json_object_get(b->config, names[i].usual);

        if (value != NULL && strcmp(b->family->class_name, names[i].class_name) == 0) {
            vc_back_set(b, b->config, names[i].own, json_incref(value));
        }
    }
    if (vc_arch_has(b->family, VC_ARCH_ENCODER)) {
        vc_back_set(b, b->config, "vocab_size", rows_of(b, "token_embd.weight"));
        vc_back_set(b, b->config, "type_vocab_size", rows_of(b, "token_types.weight"));
    } else if (strcmp(gguf, "modern-bert") == 0) {
        vc_back_set(b, b->config, "global_rope_theta", json_incref(json_object_get(b->config, "rope_theta")));
        vc_back_set(b, b->config, "local_rope_theta", json_incref(json_object_get(b->config, "rope_local_base_freq")));
        (void)json_object_del(b->config, "rope_theta"); /* which its class would take for both */
    } else if (vc_is_one_of(gguf, "t5|t5encoder")) {
        bool gate = any_ends_in(b, ".ffn_gate.weight");

        vc_back_set(b, b->config, "feed_forward_proj", json_string(gate ? "gated-gelu" : "relu"));
        vc_back_set(b, b->config, "scale_decoder_outputs",
                    json_false()); /* a factor is in the head, where there is one */
    } else if (strcmp(gguf, "falcon") == 0) {
        bool grouped = has_tensor(b, "blk.0.attn_norm_2.weight");

        vc_back_set(b, b->config, "num_kv_heads", json_integer(key_heads));
        vc_back_set(b, b->config, "multi_query", json_boolean(!grouped && key_heads == 1));
        vc_back_set(b, b->config, "new_decoder_architecture", json_boolean(grouped));
    } else if (strcmp(gguf, "gemma3n") == 0) {
        sparse = json_array();
        for (json_int_t i = 0; i < said(b, "num_hidden_layers") && i < INT16_MAX; i++) {
            b->failed = json_array_append_new(sparse, json_real(i < 10 ? 0.95 : 0.0)) != 0 || b->failed;
        }
        vc_back_set(b, b->config, "activation_sparsity_pattern", sparse);
    }
    if (vc_is_one_of(gguf, "gemma3n|gemma4")) {
        bool inputs = has_tensor(b, "per_layer_token_embd.weight");

        vc_back_set(b, b->config, "num_kv_shared_layers",
                    json_integer(json_integer_value(vc_back_find(b, ".attention.shared_kv_layers"))));
        vc_back_set(b, b->config, "vocab_size_per_layer_input",
                    rows_of(b, inputs ? "per_layer_token_embd.weight" : "token_embd.weight"));
    }
    if (strcmp(gguf, "gemma4") == 0) {
        set_gemma4(b);
    }
}

/* Members that follow from several keys, or from which tensors there are, family by family. */
static void set_implied(struct llm_back *b)
{
    const char *gguf = b->family->gguf;
    json_int_t inner = json_integer_value(vc_back_find(b, ".ssm.inner_size"));
    json_int_t heads = json_integer_value(vc_back_find(b, ".ssm.time_step_rank"));
    json_int_t unit = inner / (heads != 0 ? heads : 1);
    bool conv_bias = any_ends_in(b, ".ssm_conv1d.bias");

    if (vc_arch_is_latent(b->family)) {
        vc_back_set(b, b->config, "num_key_value_heads", json_integer(said(b, "num_attention_heads")));
        json_int_t whole = json_integer_value(vc_back_find(b, ".attention.key_length_mla"));
        json_int_t turned = said(b, "qk_rope_head_dim");
        bool mistral = strcmp(gguf, "mistral4") == 0; /* its class takes the rotated share of all of a head */

        vc_back_set(b, b->config, "head_dim", json_integer(mistral ? whole : turned));
        if (mistral && whole > 0) {
            vc_back_set(b, b->config, "partial_rotary_factor", json_real((double)turned / (double)whole));
        }
        vc_back_set(b, b->config, "qk_nope_head_dim",
                    json_integer(json_integer_value(vc_back_find(b, ".attention.key_length_mla")) -
                                 said(b, "qk_rope_head_dim")));
    } else if (vc_is_one_of(b->family->class_name, "Bamba|Jamba")) {
        vc_back_set(b, b->config, "mamba_d_head", json_integer(unit));
        vc_back_set(b, b->config, "mamba_expand", json_integer(2)); /* of all that llama.cpp loads */
        vc_back_set(b, b->config, "mamba_conv_bias", json_boolean(conv_bias));
    } else if (strcmp(gguf, "cohere2moe") == 0) {
        bool softmax = json_integer_value(vc_back_find(b, ".expert_gating_func")) == 3;

        vc_back_set(b, b->config, "expert_selection_fn", json_string(softmax ? "softmax" : "sigmoid"));
    } else if (strcmp(b->family->class_name, "GraniteMoeHybrid") == 0) {
        bool rotates = strcmp(gguf, "granitehybrid") != 0 || json_is_true(vc_back_find(b, ".rope.scaling.finetuned"));

        vc_back_set(b, b->config, "position_embedding_type", rotates ? json_string("rope") : json_null());
        if (vc_arch_has(b->family, VC_ARCH_RECURRENT)) {
            vc_back_set(b, b->config, "mamba_d_head", json_integer(unit));
            vc_back_set(b, b->config, "mamba_expand",
                        json_integer(inner / (said(b, "hidden_size") != 0 ? said(b, "hidden_size") : 1)));
            vc_back_set(b, b->config, "mamba_conv_bias", json_boolean(conv_bias));
        } else { /* sizes that the class wants all the same: any that divide the inner size */
            vc_back_set(b, b->config, "mamba_n_heads", json_integer(said(b, "num_attention_heads")));
            set_kinds_by_keys(b);
        }
        if (!vc_arch_has(b->family, VC_ARCH_EXPERTS)) {
            vc_back_set(b, b->config, "num_local_experts", json_integer(0));
            vc_back_set(b, b->config, "num_experts_per_tok", json_integer(0));
            vc_back_set(b, b->config, "shared_intermediate_size", json_integer(said(b, "intermediate_size")));
        }
    } else if (strcmp(gguf, "falcon-h1") == 0) { /* its numbers are in the matrices */
        vc_back_set(b, b->config, "mamba_d_ssm", json_integer(inner));
        vc_back_set(b, b->config, "mamba_d_head", json_integer(unit));
        vc_back_set(b, b->config, "mamba_conv_bias", json_boolean(conv_bias));
        vc_back_set(b, b->config, "mamba_rms_norm", json_boolean(any_ends_in(b, ".ssm_norm.weight")));
        vc_back_set(b, b->config, "mamba_norm_before_gate", json_false());
    } else if (vc_is_one_of(gguf, "nemotron_h|nemotron_h_moe")) {
        vc_back_set(b, b->config, "mamba_head_dim", json_integer(unit));
        vc_back_set(b, b->config, "use_conv_bias", json_boolean(conv_bias));
    } else if (vc_is_one_of(gguf, "mamba|mamba2")) {
        if (strcmp(gguf, "mamba2") == 0) {
            vc_back_set(b, b->config, "head_dim", json_integer(unit));
        } else {
            vc_back_set(b, b->config, "intermediate_size", json_integer(inner));
        }
        vc_back_set(b, b->config, "expand",
                    json_integer(inner / (said(b, "hidden_size") != 0 ? said(b, "hidden_size") : 1)));
        vc_back_set(b, b->config, "use_conv_bias", json_boolean(conv_bias));
    } else if (strcmp(gguf, "lfm2") == 0) {
        vc_back_set(b, b->config, "intermediate_size", json_integer(said(b, "block_ff_dim")));
        vc_back_set(b, b->config, "block_auto_adjust_ff_dim", json_false());
    } else if (strcmp(gguf, "llama4") == 0) { /* llama.cpp knows it by the experts */
        vc_back_set(b, b->config, "use_qk_norm", json_boolean(said(b, "num_local_experts") != 128));
    } else if (strcmp(gguf, "minimax-m2") == 0) {
        vc_back_set(b, b->config, "rotary_dim", json_incref(vc_back_find(b, ".rope.dimension_count")));
    } else if (strcmp(gguf, "glm4moe") == 0) {
        vc_back_set(b, b->config, "use_qk_norm", json_boolean(has_tensor(b, "blk.0.attn_q_norm.weight")));
    } else if (strcmp(gguf, "stablelm") == 0) {
        vc_back_set(b, b->config, "use_qkv_bias", json_boolean(has_tensor(b, "blk.0.attn_q.bias")));
    } else if (strcmp(gguf, "exaone4") == 0 && vc_back_find(b, ".attention.sliding_window") == NULL) {
        vc_back_set(b, b->config, "sliding_window", json_null());
        set_kinds_by_keys(b);
    }
}

/* What llama.cpp's graph of the architecture does without a key. Biases and a tied head are known by the tensors that
 * are there. */
static json_t *make_family(const struct llm_back *b)
{
    const struct vc_arch_family *f = b->made;
    bool largest = said(b, "num_hidden_layers") == (json_int_t)f->largest;
    bool own_biases = vc_arch_has(f, VC_ARCH_QKV_BIAS) && vc_arch_has(f, VC_ARCH_EXPERTS);
    const char *activation = vc_back_text(b, ".hidden_activation");
    json_int_t scalar = largest ? said(b, "hidden_size") / said(b, "num_attention_heads") : head_size(b);
    const char *activation_key = vc_arch_has(f, VC_ARCH_OWN_ACT_KEY) ? "hidden_activation" : "hidden_act";
    bool sum_is_1 = vc_arch_has(f, VC_ARCH_SUM_KEY) && vc_arch_has(f, VC_ARCH_SUM_IS_1);

    /* "query_pre_attn_scalar": transformers scales as llama.cpp does. */
    if (vc_is_one_of(f->gguf, "gpt2|nemotron_h|nemotron_h_moe")) {
        activation_key = strcmp(f->gguf, "gpt2") == 0 ? "activation_function" : "mlp_hidden_act";
    }
    return json_pack("{s:o*, s:b, s:b, s:b, s:o*, s:o*}", activation_key,
                     activation != NULL      ? json_string(activation)
                     : f->activation != NULL ? json_stringn(f->activation, strcspn(f->activation, "|"))
                                             : NULL,
                     own_biases ? "qkv_bias" : "attention_bias",
                     any_ends_in(b, ".attn_q.bias") || any_ends_in(b, ".attn_qkv.bias"), "mlp_bias",
                     has_tensor(b, "blk.0.ffn_up.bias"), "tie_word_embeddings", !has_tensor(b, "output.weight"),
                     "query_pre_attn_scalar", f->largest != 0 ? json_integer(scalar) : NULL, "norm_topk_prob",
                     sum_is_1 ? json_true() : NULL);
}

/* llama.cpp's words differ from transformers': "unknown", "padding", "eot". */
bool vc_back_token(const struct llm_back *b, const char *word, uint64_t *id)
{
    char name[64];

    (void)snprintf(name, sizeof name, "tokenizer.ggml.%s_token_id", word);
    const json_t *key = vc_back_find(b, name);
    *id = (uint64_t)json_integer_value(key);
    return json_is_integer(key) && *id < (uint64_t)said(b, "vocab_size");
}

/* The id, or null; of encoders, whose classes want a number, 0. */
static json_t *token(const struct llm_back *b, const char *word)
{
    uint64_t id;
    bool found = vc_back_token(b, word, &id);

    if (!found && !vc_llm_is_encoder(b->family)) {
        return json_null();
    }
    return json_integer(found ? (json_int_t)id : 0);
}

/* The type that most elements of matrices have; NULL: they are blocks whose codes are not kept. Scales of codes need
 * one that holds them: f16 of Q4_0 and Q8_0, f32 beside bf16; transformers makes bf16 of MXFP4 and NVFP4. */
static const char *most_common_type(const struct llm_back *b)
{
    static const char *const names[] = {NULL, "float32", "float16", "bfloat16"};
    static const enum vc_dtype types[] = {VC_DTYPE_NONE, VC_DTYPE_F32, VC_DTYPE_F16, VC_DTYPE_BF16};
    uint64_t n[4] = {0};
    size_t most = 0;
    bool halves = false;
    bool bytes = false;

    for (size_t i = 0; i < b->source->n_tensors; i++) {
        const struct vc_tensor *t = &b->source->tensors[i];
        size_t k = 3;
        bool layer = strncmp(t->name, "blk.", 4) == 0 && strcmp(b->family->gguf, "gpt-oss") != 0;

        while (k > 0 && t->dtype != types[k]) {
            k--;
        }
        halves = halves || (layer && (t->dtype == VC_DTYPE_Q4_0 || t->dtype == VC_DTYPE_Q8_0));
        bytes = bytes || (layer && (t->dtype == VC_DTYPE_MXFP4 || t->dtype == VC_DTYPE_NVFP4));
        n[k] += t->n_dims > 1 ? t->n_elems : 0;
        most = n[k] > n[most] ? k : most;
    }
    if (halves) {
        return names[most == 3 ? 1 : 2];
    }
    return bytes ? names[3] : names[most];
}

/* Classes, sizes, kinds of layers, scaling, then what the family takes for granted. gpt_oss with MXFP4 experts also
 * says so in "quantization_config", in the words that its own folder has. */
enum vc_status vc_back_config(struct llm_back *b)
{
    size_t gate = vc_model_find(b->source, "blk.0.ffn_gate_exps.weight");

    b->config = json_pack("{s:[s], s:o}", "architectures", b->class_name, "model_type",
                          json_stringn(b->made->types, strcspn(b->made->types, "|+")));
    for (const struct vc_arch_pair *key = vc_arch_pairs; key->gguf != NULL; key++) {
        if (vc_arch_writes_pair(b->family, key)) {
            VC_CALL(take_row(b, key));
        }
    }
    set_implied(b);
    set_others(b);
    if ((vc_arch_slides(b->family) && !json_is_array(json_object_get(b->config, "layer_types"))) ||
        vc_llm_says_recurrent(b->family)) {
        VC_CALL(set_kinds(b));
    } else if (strcmp(b->family->gguf, "jamba") == 0) {
        set_periods(b);
    } else if (vc_arch_has(b->family, VC_ARCH_RECURRENT)) {
        set_kinds_by_keys(b);
    }
    VC_CALL(set_scaling(b));
    if (gate != VC_NO_TENSOR && b->source->tensors[gate].dtype == VC_DTYPE_MXFP4 &&
        strcmp(b->family->gguf, "gpt-oss") == 0) {
        vc_back_set(b, b->config, "quantization_config",
                    json_pack("{s:s, s:[s, s, s, s]}", "quant_method", "mxfp4", "modules_to_not_convert",
                              "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                              "lm_head"));
    }
    b->failed =
        json_object_update_new(b->config, make_family(b)) != 0 ||
        json_object_update_new(b->config, json_pack("{s:s*, s:o, s:o, s:o}", "torch_dtype", most_common_type(b),
                                                    "bos_token_id", token(b, "bos"), "eos_token_id", token(b, "eos"),
                                                    "pad_token_id", token(b, "padding"))) != 0 ||
        b->failed;
    return b->failed ? vc_fail(b->ctx, VC_E_NOMEM, "cannot allocate memory for config.json") : VC_OK;
}

/* 15 digits: what real() made stays as short as it is. */
enum vc_status vc_back_add_json(struct llm_back *b, json_t *object, const char *name)
{
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    enum vc_status status = text != NULL ? vc_infolder_add_made(b->ctx, b->model->folder, name, text, strlen(text))
                                         : vc_fail(b->ctx, VC_E_NOMEM, "cannot allocate memory for %s", name);

    free(text);
    json_decref(object);
    return status;
}
