/* llm_tensors.c - which tensors of the source become which of the GGUF model.
 *
 *     model.layers.0.self_attn.q_proj.weight        blk.0.attn_q.weight           rows of each head in another order
 *     model.layers.0.mlp.experts.7.up_proj.weight   blk.0.ffn_up_exps.weight      piece 7 of it
 *     model.layers.0.input_layernorm.weight         blk.0.attn_norm.weight        f32, and plus 1 in some families
 *
 * llama.cpp loads a file only where it has each tensor of its graph and no other, so each name has to be known, each
 * tensor there and of the right shape.
 *
 * Stages of vc_llm_tensors_plan, at the end of the file: each tensor of the source is matched with the rules of names
 * (struct match); matches are sorted by the name that they get; all matches of one name become one tensor of the plan
 * (64 experts, one stacked tensor); last, the plan is compared with the list of tensors that the family's row says
 * llama.cpp asks for. */
#include "formats/gguf_folder/llm_parts.h"

#include <math.h>
#include <stdlib.h>

#define NAME_BYTES    256
#define COMPARE_BYTES ((size_t)1 << 20)
/* What the inputs and outputs of a matrix of a vision tower are clipped to. */
#define BOUNDS "|.input_max|.input_min|.output_max|.output_min"

/* A tensor of the source under the name that it gets. */
struct match {
    const char *name;
    int64_t layer, expert; /* -1: none */
    size_t source;
    const struct vc_arch_name *rule;
};

/* State of one vc_llm_tensors_plan. `sizes` gets the vocabulary; the other sizes are read only. */
struct planning {
    struct vc_ctx *ctx;
    const struct vc_model *source;
    const struct llm_config *config;
    const struct vc_arch_family *family;
    struct vc_arch_sizes *sizes;
    struct llm_plan *plan;
    struct match *matches; /* the pool's */
    size_t n, capacity;
    bool vision;     /* of the vision tower, else of that for text */
    bool any_type;   /* types of values are not checked, and none is read: on the way back */
    bool tied, bare; /* bare: a model without a head, as embeddings have them */
    size_t n_other;  /* tensors of other parts */
    size_t n_heads;  /* ... of heads that llama.cpp has not */
    size_t beyond;   /* a matrix of a layer behind the last; VC_NO_TENSOR if there is none */
    bool predicts;   /* such a layer is a head that predicts more tokens */
};

/* ---- names ---- */

/* Whether the tensor belongs to a vision or audio tower, or to a head that predicts more than the next token; vision: to
 * any but the vision tower. The names are found anywhere, because wrappers differ: "vision_tower.", "model.visual.",
 * "thinker.audio_tower.". */
static bool is_other_part(const char *name, bool vision)
{
    static const char *const parts[] = {"audio",      "vision",      "visual",     "multi_modal_projector",
                                        "projector.", "patch_embed", "connector.", "mlp1."};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(name, parts[i]) != NULL) {
            return i == 0 || !vision;
        }
    }
    return vision || strncmp(name, "mtp.", 4) == 0 || strstr(name, ".mtp.") != NULL;
}

/* Buffers that old versions of transformers saved with the weights: they follow from the configuration. */
static bool is_buffer(const char *name)
{
    static const char *const ends[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias",
                                       "position_ids"};
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t k = strlen(ends[i]);

        if (n >= k && strcmp(name + n - k, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The name without what wraps the language model: "model.language_model.layers.0" -> "layers.0". False: it is longer
 * than any known. `to` has room for NAME_BYTES. */
static bool strip(const char *name, char *to)
{
    static const char inner[] = "language_model.";
    static const char *const outer[] = {"model.",       "text_model.", "bert.",         "roberta.",
                                        "transformer.", "gpt_neox.",   "backbone.",     "distilbert.",
                                        "nomic_bert.",  "visual.",     "vision_tower.", "vision_model."};
    const char *at = strstr(name, inner);
    int n = at != NULL ? snprintf(to, NAME_BYTES, "%.*s%s", (int)(at - name), name, at + sizeof inner - 1)
                       : snprintf(to, NAME_BYTES, "%s", name);

    if (n < 0 || n >= NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < sizeof outer / sizeof outer[0]; i++) {
        size_t k = strlen(outer[i]);

        if (strncmp(to, outer[i], k) == 0) {
            memmove(to, to + k, strlen(to + k) + 1);
        }
    }
    return true;
}

/* Of an encoder: what makes answers of other kinds than the embeddings. */
static bool is_head(const char *name)
{
    return strncmp(name, "pooler.", 7) == 0 || strncmp(name, "cls.", 4) == 0 || strncmp(name, "lm_head.", 8) == 0 ||
           strncmp(name, "vocab_", 6) == 0 || strncmp(name, "head.", 5) == 0 || strncmp(name, "decoder.", 8) == 0 ||
           strncmp(name, "classifier.", 11) == 0;
}

/* Whether the rule's names are whole: nothing follows. */
static bool is_whole(const struct vc_arch_name *rule)
{
    return vc_arch_name_is_whole(rule->to) || vc_ends_in(rule->from, ".weight");
}

/* Whether the name begins as the rule's; *rest: what follows, ".weight" for example. Sets layer and expert of the
 * match. */
static bool fits(const struct vc_arch_name *rule, const char *name, struct match *match, const char **rest)
{
    return vc_arch_name_fits(rule->from, name, &match->layer, &match->expert, rest);
}

/* "blk.#.attn_q" -> "blk.12.attn_q.weight", in the arena. Returns NULL if memory is short. */
static const char *make_name(struct planning *p, const struct match *match, const char *rest)
{
    const char *to = match->rule->to;
    const char *number = strchr(to, '#');

    return number == NULL ? vc_arena_printf(p->ctx, p->plan->arena, "%s%s", to, rest)
                          : vc_arena_printf(p->ctx, p->plan->arena, "%.*s%" PRId64 "%s%s", (int)(number - to), to,
                                            match->layer, number + 1, rest);
}

/* Appends to p->matches, which has room for three per tensor of the source: more no rule makes. */
static enum vc_status add_match(struct planning *p, struct match *match, const char *rest)
{
    VC_CALL_ALLOC(match->name = make_name(p, match, rest));
    VC_REFUSE_IF(strlen(match->name) > VC_GGUF_MAX_NAME, p->ctx, VC_E_UNSUPPORTED, "%s: its name is too long for GGUF",
                 match->name);
    p->matches[p->n++] = *match;
    return VC_OK;
}

/* Whether another of these rules makes the same tensor of a matrix of the other form, and the shape of this one says that
 * it is of that: experts of both forms have their last letter, [E, e, H], in the last dimension, or turned in the one
 * before. A square one says nothing: then the other one does, [E, 2 e, H] or [E, H, e], which is not square, too. */
static bool lies_otherwise(const struct planning *p, const struct vc_arch_name *rules, const struct vc_arch_name *rule,
                           size_t source)
{
    const struct vc_tensor *t = &p->source->tensors[source];
    char letter = rule->shape[strlen(rule->shape) - 1];
    bool both = false;

    for (size_t i = 0; t->n_dims == 3 && t->shape[1] == t->shape[2] && i < p->source->n_tensors; i++) {
        const struct vc_tensor *other = &p->source->tensors[i];
        bool gates = vc_ends_in(other->name, ".experts.gate_up_proj");

        if ((gates || vc_ends_in(other->name, ".experts.down_proj")) && other->n_dims == 3 &&
            other->shape[1] != other->shape[2]) {
            t = other;
            letter = gates ? 'H' : 'e';
        }
    }
    for (const struct vc_arch_name *other = rules; other->from != NULL; other++) {
        both = both || (other->to != NULL && rule->to != NULL && other->form != rule->form &&
                        strcmp(other->from, rule->from) == 0 && strcmp(other->to, rule->to) == 0);
    }
    return both && t->n_dims == 3 && strlen(rule->shape) == 3 && rule->form != VC_MATRIX_BLOCKS &&
           t->shape[rule->form == VC_MATRIX_TURNED ? 1 : 2] != vc_arch_size_of(p->sizes, letter);
}

static bool of_decoder(const char *name)
{
    return name != NULL && strncmp(name, "dec.blk.", 8) == 0;
}

/* Here, not in llm_vision.c, which calls this file: "deepstack_visual_indexes": [8, 16, 24]. */
int64_t vc_llm_deepstack(const struct llm_config *vision, size_t index)
{
    const json_t *layer = json_array_get(vc_llm_find(vision, "deepstack_visual_indexes"), index);

    return json_is_integer(layer) && json_integer_value(layer) >= 0 ? json_integer_value(layer) : INT64_MAX;
}

/* Adds what the name becomes by these rules; *known: some of them fit. A name may fit several rules: "gate_up_proj"
 * becomes a gate of its first rows, and "up" of its last rows. The head of a tied model is dropped here, because
 * llama.cpp then computes with the embedding. */
static enum vc_status match_rules(struct planning *p, const struct vc_arch_name *rules, const char *name, size_t source,
                                  bool *known)
{
    for (const struct vc_arch_name *rule = rules; rule != NULL && rule->from != NULL; rule++) {
        struct match match = {.source = source, .rule = rule};
        const char *rest;

        if (fits(rule, name, &match, &rest) && rule->to == NULL) { /* goes with another tensor, or nothing reads it */
            *known = *known || rest[0] == '\0' || vc_ends_in(rule->from, ".");
            continue;
        }
        if (!fits(rule, name, &match, &rest) ||
            (is_whole(rule) ? rest[0] != '\0'
                            : !vc_is_one_of(rest, p->vision ? ".weight|.bias" BOUNDS : ".weight|.bias"))) {
            continue;
        }
        *known = true;
        if (lies_otherwise(p, rules, rule, source)) {
            continue;
        }
        if (strncmp(rule->to, "v.deepstack.", 12) == 0) {
            match.layer = vc_llm_deepstack(p->config, (size_t)match.layer);
        }
        if (match.layer >= (int64_t)(of_decoder(rule->to) ? p->sizes->decoder_layers : p->sizes->layers)) {
            p->n_other++;
            p->beyond = p->source->tensors[source].n_dims > 1 ? source : p->beyond;
        } else if (strcmp(rule->to, "output") != 0 || !p->tied || strcmp(rest, ".weight") != 0) {
            VC_CALL(add_match(p, &match, rest));
        }
    }
    return VC_OK;
}

/* "layers.61.eh_proj.weight" of a model with 61 layers: of a head that predicts more tokens. */
static bool is_beyond(const struct planning *p, const char *name)
{
    int64_t layer, expert;
    const char *rest;

    return vc_arch_name_fits("layers.#", name, &layer, &expert, &rest) && layer >= (int64_t)p->sizes->layers;
}

/* "LayerNorm.gamma" and "beta", as the first BERT models have them. */
static void rename_norm(char *name)
{
    size_t n = strlen(name);

    if (vc_ends_in(name, "LayerNorm.gamma") && n + 2 < NAME_BYTES) {
        memcpy(name + n - 5, "weight", sizeof "weight");
    } else if (vc_ends_in(name, "LayerNorm.beta")) {
        memcpy(name + n - 4, "bias", sizeof "bias");
    }
}

/* Matches one tensor of the source, or counts it among those that are left out, or refuses it. Names are compared
 * without what wraps the language model. Rules of the family come before the rules of all families, and shadow them. */
static enum vc_status match_tensor(struct planning *p, size_t source)
{
    const struct vc_tensor *t = &p->source->tensors[source];
    char name[NAME_BYTES];
    bool known = false;

    if (is_buffer(t->name) || t->part_of != VC_NO_TENSOR) { /* parts go with their codes, or these are refused */
        return VC_OK;
    }
    bool other = is_other_part(t->name, p->vision);
    if (other || (strip(t->name, name) && is_beyond(p, name))) {
        p->n_other++;
        p->beyond = other || t->n_dims < 2 ? p->beyond : source;
        p->predicts = p->predicts || (!other && strstr(name, ".eh_proj.") != NULL);
        return VC_OK;
    }
    if (strip(t->name, name)) {
        if (vc_llm_is_encoder(p->family) && is_head(name)) {
            p->n_heads++;
            return VC_OK;
        }
        rename_norm(name);
        VC_CALL(match_rules(p, p->family->rules, name, source, &known));
        if (!known && !p->vision) {
            VC_CALL(match_rules(p, vc_arch_names, name, source, &known));
        }
    }
    VC_REFUSE_IF(!known, p->ctx, VC_E_UNSUPPORTED, "%s: llama.cpp has no such tensor in a model of the kind '%s'",
                 t->name, p->family->gguf);
    return VC_OK;
}

/* All tensors. Layers behind the last are left out where one of them joins an embedding and a state ("eh_proj"), as heads
 * do that predict more tokens; else they are the model's own, and config.json has fewer. */
static enum vc_status match_all(struct planning *p)
{
    for (size_t i = 0; i < p->source->n_tensors; i++) {
        VC_CALL(match_tensor(p, i));
    }
    VC_REFUSE_IF(p->beyond != VC_NO_TENSOR && !p->predicts, p->ctx, VC_E_UNSUPPORTED,
                 "%s: config.json has %" PRIu64 " layers, and this is of another one",
                 p->source->tensors[p->beyond].name, p->sizes->layers);
    return VC_OK;
}

/* ---- tensors ---- */

/* Whether llama.cpp wants the tensor in f32, whatever type the source has: vectors, norms, biases, and matrices whose
 * operator has no other kernel there (the router of experts, tables of positions and token types, convolutions,
 * divisors of rotary embeddings). */
static bool needs_f32(const char *name, unsigned n_dims)
{
    static const char *const parts[] = {"ffn_gate_inp",       "position_embd",     "token_types", "ssm_conv1d",
                                        "shortconv.conv",     "attn_rel_b",        "rope_freqs",  "rope_factors_",
                                        "altup_correct_coef", "altup_predict_coef"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(name, parts[i]) != NULL) {
            return true;
        }
    }
    return n_dims < 2 || vc_ends_in(name, "_norm.weight") || !vc_ends_in(name, ".weight");
}

/* Matrices of a vision tower which llama.cpp takes in f16 or f32. */
static bool needs_halves(const char *name)
{
    return strncmp(name, "v.patch_embd.weight", 19) == 0 ||
           vc_is_one_of(name, "mm.patch_merger.weight|mm.input_projection.weight");
}

/* At most four dimensions are shown. */
static enum vc_status refuse_shape(const struct planning *p, const struct match *match, const uint64_t *wanted,
                                   unsigned n)
{
    const struct vc_tensor *t = &p->source->tensors[match->source];
    char found[96], text[96];

    return vc_fail(p->ctx, VC_E_UNSUPPORTED, "%s: its shape is (%s), expected (%s) by config.json", t->name,
                   vc_shape_text(t->shape, t->n_dims < 4 ? t->n_dims : 4, found, sizeof found),
                   vc_shape_text(wanted, n, text, sizeof text));
}

/* Rules that take half of the rows of the source's matrix: the first, the second, the even or the odd ones. */
static bool takes_half(const struct vc_arch_name *rule)
{
    return rule->rows >= VC_ROWS_FIRST_HALF && rule->rows <= VC_ROWS_ODD;
}

static bool takes_third(const struct vc_arch_name *rule)
{
    return rule->rows >= VC_ROWS_FIRST_THIRD;
}

/* Whether the source's matrix lies on its side; vectors have none. Those of the biases of experts, [E, e], are the
 * vectors of all of them. */
static bool is_turned(const struct vc_arch_name *rule, const struct llm_tensor *to)
{
    return rule->form == VC_MATRIX_TURNED && to->n_dims > 1;
}

static bool is_list(const struct vc_arch_name *rule, const struct llm_tensor *to)
{
    return is_turned(rule, to) && to->n_dims == 2 && rule->shape[0] == 'E';
}

struct llm_units vc_llm_units_of(const struct vc_arch_sizes *s, const struct vc_arch_name *rule)
{
    uint64_t each = s->key_units != 0 ? s->value_units / s->key_units : 1;

    return rule->shape[0] == 'Q' ? (struct llm_units){s->head_size, s->key_heads, {s->heads / s->key_heads, 1, 1, 0}}
                                 : (struct llm_units){s->unit, s->key_units, {1, 1, each, each}};
}

/* The first row of the source of unit i of a tensor: all queries, then all keys, then all values; or the gates. */
static uint64_t row_of_unit(const struct llm_units *parts, enum vc_arch_rows rows, uint64_t i)
{
    uint64_t all = parts->each[0] + parts->each[1] + parts->each[2] + parts->each[3];
    unsigned k = rows == VC_ROWS_GATE ? 3 : 0;
    uint64_t before = k == 3 ? all - parts->each[3] : 0;

    while (i >= parts->groups * parts->each[k]) {
        i -= parts->groups * parts->each[k];
        before += parts->each[k++];
    }
    return (i / parts->each[k] * all + before + i % parts->each[k]) * parts->unit;
}

/* The shape of a tensor of the source that is all of this one, or an expert of it, or has twice as many rows. Returns
 * the number of its dimensions.
 *
 *     blk.0.attn_q.weight [2048, 1024]       q_proj.weight [2048, 1024]
 *     blk.0.ffn_up_exps.weight [64, 768, H]  ...experts.7.up_proj.weight [768, H]: without the dimension of the experts
 *     half of the rows [F, H]                gate_up_proj.weight [2 F, H]
 *     turned [E, F, H]                       gate_up_proj [E, H, 2 F]
 *     blocks [E, F, H]                       ..._blocks u8 [E, F, H / 32, 16]
 *     keys and values of heads [A, n, r]     kv_b_proj [A (n + W), r]
 *     frames [H, f, S, S]                    patch_embed.proj.weight [H, f, 2, S, S]
 *     patches [H, f, S, S]                   patch_embedding.weight [H, S x S x f]
 *     flat [K, x]                            norm [K x] */
static unsigned wanted_shape(const struct planning *p, const struct match *match, const struct llm_tensor *to,
                             uint64_t wanted[5])
{
    const struct vc_arch_name *rule = match->rule;
    unsigned begin = match->expert >= 0 ? 1 : 0;
    unsigned n = to->n_dims - begin;
    unsigned last = n - 1;

    for (unsigned d = 0; d < n; d++) {
        wanted[d] = to->shape[begin + d];
    }
    if (rule->rows == VC_ROWS_BEHIND) {
        wanted[0] += p->sizes->skipped;
    }
    wanted[0] = to->rows_there != 0 ? to->rows_there : wanted[0];
    wanted[0] *= takes_third(rule) ? 3 : 1;
    if (rule->form == VC_MATRIX_PATCHES) {
        wanted[1] *= wanted[2] * wanted[3];
        return 2;
    }
    if (rule->form == VC_MATRIX_FRAMES) {
        wanted[n] = wanted[last];
        wanted[2] = 2;
        return n + 1;
    }
    if (rule->rows == VC_ROWS_HEAD_KEYS || rule->rows == VC_ROWS_HEAD_VALUES) {
        wanted[0] = p->sizes->heads * (p->sizes->plain + p->sizes->value_head);
        wanted[1] = p->sizes->rank;
        return 2;
    }
    if (rule->rows == VC_ROWS_QKV || rule->rows == VC_ROWS_GATE) {
        struct llm_units parts = vc_llm_units_of(p->sizes, rule);

        wanted[0] = parts.groups * (parts.each[0] + parts.each[1] + parts.each[2] + parts.each[3]) * parts.unit;
        return n;
    }
    if (rule->form == VC_MATRIX_FLAT || (rule->form == VC_MATRIX_LOGARITHM && wanted[last] == 1)) {
        wanted[0] *= n > 1 ? wanted[1] : 1;
        return 1;
    }
    if (is_turned(rule, to) && n == 2 && !is_list(rule, to)) {
        wanted[0] = to->shape[begin + 1];
        wanted[1] = to->shape[begin];
    } else if (is_turned(rule, to)) {
        uint64_t rows = n == 3 ? wanted[1] : wanted[last];

        wanted[n - 2] = n == 3 ? wanted[last] : wanted[n - 2];
        wanted[last] = rows * (takes_half(rule) ? 2 : 1);
    } else if (takes_half(rule)) {
        wanted[n - 2] *= 2;
    }
    if (rule->form == VC_MATRIX_BLOCKS) {
        wanted[last] /= 32;
        wanted[n++] = 16;
    } else if (rule->form == VC_MATRIX_CHANNELS && n > 1) {
        wanted[n++] = wanted[last];
        wanted[last] = 1;
    }
    return n;
}

/* Whether t has these n dimensions exactly. */
static bool has_shape(const struct vc_tensor *t, const uint64_t *shape, unsigned n)
{
    bool same = t->n_dims == n || (t->n_dims == 0 && n == 1 && shape[0] == 1);

    for (unsigned d = 0; d < t->n_dims && same; d++) {
        same = t->shape[d] == shape[d];
    }
    return same;
}

/* Refuses a tensor of the source whose shape or type the rule cannot take. Codes are taken where a type of blocks has
 * the same codes, rows stay rows, and llama.cpp does not want f32; all pieces of a tensor have one type, because a GGUF
 * tensor has one. */
static enum vc_status check_source(const struct planning *p, const struct match *match, const struct llm_tensor *to)
{
    const struct vc_tensor *t = &p->source->tensors[match->source];
    uint64_t wanted[5] = {1, 1, 1, 1, 1};
    unsigned n = wanted_shape(p, match, to, wanted);

    VC_RETURN_IF(!has_shape(t, wanted, n), refuse_shape(p, match, wanted, n));
    if (vc_llm_blocks_of(p->source, t) != VC_DTYPE_NONE && match->rule->form == VC_MATRIX_STRAIGHT &&
        match->rule->rows != VC_ROWS_HEAD_COLUMNS && !needs_f32(to->name, to->n_dims) && t->dtype == to->from) {
        return VC_OK;
    }
    VC_REFUSE_IF(
        t->quant != NULL || t->part_of != VC_NO_TENSOR, p->ctx, VC_E_UNSUPPORTED,
        "%s: is quantized, and its codes have no place in GGUF: %s; dequantize the folder first, or quantize it to "
        "GGUF's types with %s",
        t->name, vc_llm_why_no_blocks(p->source, t), vc_option(p->ctx, "requantize"));
    VC_REFUSE_IF(!p->any_type && match->rule->form == VC_MATRIX_BLOCKS && t->dtype != VC_DTYPE_U8, p->ctx,
                 VC_E_UNSUPPORTED, "%s: has type %s, expected u8", t->name, vc_dtype_name(t->dtype));
    VC_REFUSE_IF(!p->any_type && match->rule->form != VC_MATRIX_BLOCKS && t->dtype != VC_DTYPE_F32 &&
                     t->dtype != VC_DTYPE_F16 && t->dtype != VC_DTYPE_BF16,
                 p->ctx, VC_E_UNSUPPORTED, "%s: has type %s, expected f32, f16 or bf16", t->name,
                 vc_dtype_name(t->dtype));
    VC_REFUSE_IF(t->dtype != to->from && !p->any_type, p->ctx, VC_E_UNSUPPORTED,
                 "%s: has type %s, and other experts of its layer have %s", t->name, vc_dtype_name(t->dtype),
                 vc_dtype_name(to->from));
    return VC_OK;
}

/* Blocks "..._blocks" have their scales in "..._scales". The layout is that of gpt_oss: 16 bytes of codes for 32
 * elements, one E8M0 byte of scale. */
static enum vc_status find_scales(const struct planning *p, size_t blocks, struct llm_tensor *to)
{
    const struct vc_tensor *t = &p->source->tensors[blocks];
    size_t n = strlen(t->name) - strlen("blocks");
    char *name = vc_arena_printf(p->ctx, p->plan->arena, "%.*sscales", (int)n, t->name);

    VC_CALL_ALLOC(name);
    VC_REFUSE_IF(to->row_elems % 32 != 0, p->ctx, VC_E_UNSUPPORTED, "%s: blocks of 32 do not divide rows of %" PRIu64,
                 t->name, to->row_elems);
    to->scales = vc_model_find(p->source, name);
    VC_REFUSE_IF(to->scales == VC_NO_TENSOR || p->source->tensors[to->scales].dtype != VC_DTYPE_U8 ||
                     !has_shape(&p->source->tensors[to->scales], t->shape, t->n_dims - 1),
                 p->ctx, VC_E_UNSUPPORTED, "%s: there is no '%s' of type u8 with a scale for each block", t->name,
                 name);
    return VC_OK;
}

/* Gemma's norms multiply by 1 + weight, llama.cpp's by the weight, which is therefore stored with 1 added. The norm
 * inside a recurrent layer of Qwen3-Next is an ordinary one. */
bool vc_llm_has_one_more(const struct vc_arch_family *family, const char *tail)
{
    return vc_arch_has(family, VC_ARCH_FROM_1) && vc_ends_in(tail, "norm.weight") &&
           strcmp(tail, "ssm_norm.weight") != 0;
}

/* The order of value heads: llama.cpp has the first of each key head, then the second of each. Head h of value_units
 * belongs to key head h / each. Two key heads with three value heads each: 0 1 2 | 3 4 5 becomes 0 3 1 4 2 5. Where
 * columns are in that order, a row is cut into pieces of `unit` elements, which then move like rows. */
void vc_llm_order_heads(const struct vc_arch_sizes *s, const struct vc_arch_name *rule, struct llm_tensor *to)
{
    struct llm_order *order = &to->order;

    if (rule->rows < VC_ROWS_HEADS || rule->rows > VC_ROWS_HEAD_COLUMNS || s->value_units == s->key_units) {
        return;
    }
    *order = (struct llm_order){.groups = s->key_units, .each = s->value_units / s->key_units};
    order->first = rule->rows == VC_ROWS_LAST_HEADS ? 2 * s->key_units * s->unit : 0;
    order->unit = rule->rows == VC_ROWS_HEAD_COLUMNS ? 1 : (to->piece_rows - order->first) / s->value_units;
    if (rule->rows == VC_ROWS_HEAD_COLUMNS) {
        to->row_elems = s->unit;
        to->piece_rows *= s->value_units;
    }
}

/* T5 and UMT5: transformers multiplies what the head reads by 1 / sqrt(d_model), in older files where the head is tied. */
static bool scales_head(const struct planning *p)
{
    return strcmp(p->family->gguf, "t5") == 0 && strcmp(p->config->model_type, "mt5") != 0 &&
           vc_llm_flag(p->config, "scale_decoder_outputs", vc_llm_flag(p->config, "tie_word_embeddings", true));
}

/* llama.cpp computes with the embedding where there is no head, but in these families. */
static bool wants_head(const struct planning *p)
{
    return vc_arch_has(p->family, VC_ARCH_OWN_HEAD) || scales_head(p);
}

/* Falcon-H1 multiplies what goes into its matrices, or comes out of them, by numbers that llama.cpp has in the matrices;
 * those of ssm_in are of its parts: gate, x, B, C and steps. */
static enum vc_status multiply(const struct planning *p, const char *tail, struct llm_tensor *to)
{
    static const struct {
        const char *tail, *keys[2];
        size_t entry; /* of the first key, a list */
    } rows[] = {{"attn_q.weight", {"attention_in_multiplier"}, 0},
                {"attn_k.weight", {"attention_in_multiplier", "key_multiplier"}, 0},
                {"attn_v.weight", {"attention_in_multiplier"}, 0},
                {"attn_k.bias", {"key_multiplier"}, 0},
                {"attn_output.weight", {"attention_out_multiplier"}, 0},
                {"ffn_gate.weight", {"mlp_multipliers"}, 0},
                {"ffn_down.weight", {"mlp_multipliers"}, 1},
                {"ssm_in.weight", {"ssm_in_multiplier"}, 0},
                {"ssm_out.weight", {"ssm_out_multiplier"}, 0},
                {"token_embd.weight", {"embedding_multiplier"}, 0},
                {"output.weight", {"lm_head_multiplier"}, 0}};
    const json_t *parts = vc_llm_find(p->config, "ssm_multipliers");
    const uint64_t inner = vc_arch_size_of(p->sizes, 'i');
    const uint64_t states = p->sizes->key_units * p->sizes->state;
    const uint64_t ends[] = {inner, 2 * inner, 2 * inner + states, 2 * inner + 2 * states};
    double factor = 1.0;
    float *each;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t k = 0; k < 2 && strcmp(rows[i].tail, tail) == 0 && rows[i].keys[k] != NULL; k++) {
            const json_t *list = vc_llm_find(p->config, rows[i].keys[k]);

            factor *= json_is_array(list) ? json_number_value(json_array_get(list, rows[i].entry))
                                          : vc_llm_real(p->config, rows[i].keys[k], 1.0);
        }
    }
    to->scale = (float)factor;
    if (strcmp(tail, "ssm_in.weight") == 0 && json_array_size(parts) == 5) {
        VC_CALL_ALLOC(each = vc_arena_alloc(p->ctx, p->plan->arena, (size_t)to->shape[0] * sizeof *each));
        to->row_scales = each;
        for (uint64_t i = 0, part = 0; i < to->shape[0]; i++) {
            part += part < 4 && i == ends[part];
            each[i] = (float)json_number_value(json_array_get(parts, (size_t)part));
        }
    }
    to->dtype = to->scale != 1.0F || to->row_scales != NULL ? VC_DTYPE_F32 : to->dtype;
    return VC_OK;
}

/* llama.cpp turns neighbours, transformers halves of what is rotated of a head (PERMUTES), or the other way round. The
 * inverse has its two factors exchanged. */
struct llm_order vc_llm_order_turned(const struct vc_arch_family *family, const struct vc_arch_sizes *sizes,
                                     const char *tail, bool back)
{
    const uint64_t turned = sizes->rotated != 0 ? sizes->rotated : sizes->head_size;
    const bool sorts = vc_arch_has(family, VC_ARCH_SORTS);

    if ((!sorts && !vc_arch_has(family, VC_ARCH_PERMUTES)) ||
        !vc_is_one_of(tail, "attn_q.weight|attn_q.bias|attn_k.weight|attn_k.bias")) {
        return (struct llm_order){.groups = 0};
    }
    return (struct llm_order){.unit = 1,
                              .groups = sorts != back ? turned / 2 : 2,
                              .each = sorts != back ? 2 : turned / 2,
                              .head = turned != sizes->head_size ? sizes->head_size : 0};
}

/* The numbers that change a tensor's values. A factor of the attention scores goes into the norm of the queries where
 * the family has one, else into the projection of the queries: scores are linear in both. Its product is stored as f32,
 * where f16 would round twice. */
static void set_values(const struct planning *p, const char *tail, struct llm_tensor *to)
{
    double factor = vc_llm_attention_factor(p->config, p->family, p->sizes);
    bool queries = strcmp(tail, "attn_q.weight") == 0 || strcmp(tail, "attn_q.bias") == 0;
    bool norms_queries = strstr(p->family->layer, "attn_q_norm") != NULL;

    to->order = vc_llm_order_turned(p->family, p->sizes, tail, false);
    to->add = vc_llm_has_one_more(p->family, tail) ? 1.0F : 0.0F;
    to->scale = 1.0F;
    if (strcmp(tail, "output.weight") == 0 && scales_head(p)) {
        to->scale = (float)(1.0 / sqrt((double)p->sizes->hidden));
        to->dtype = VC_DTYPE_F32;
    }
    if (factor != 1.0 && (norms_queries ? strcmp(tail, "attn_q_norm.weight") == 0 : queries)) {
        to->scale = (float)factor;
        to->dtype = VC_DTYPE_F32; /* so that the product is not rounded again */
    }
}

/* Where the rows of a tensor are in the source: those of piece i. n == 1: all pieces lie in one stacked tensor of the
 * source, else piece i is expert i's tensor. */
static void set_piece(const struct planning *p, const struct match *matches, size_t n, const struct llm_tensor *t,
                      size_t i, struct llm_piece *piece)
{
    const struct vc_arch_name *rule = matches[0].rule;
    uint64_t rows = t->columns != 0 ? t->row_elems : t->piece_rows * (takes_half(rule) ? 2 : 1);

    piece->source = matches[n == 1 ? 0 : i].source;
    piece->first = n == 1 ? i * rows : 0;
    if (rule->rows == VC_ROWS_HEAD_KEYS || rule->rows == VC_ROWS_HEAD_VALUES) {
        piece->first =
            i * (p->sizes->plain + p->sizes->value_head) + (rule->rows == VC_ROWS_HEAD_VALUES ? p->sizes->plain : 0);
    } else if (rule->rows == VC_ROWS_QKV || rule->rows == VC_ROWS_GATE) {
        struct llm_units parts = vc_llm_units_of(p->sizes, rule);

        piece->first = row_of_unit(&parts, rule->rows, i);
    }
    if (t->columns == 0 && rule->rows == VC_ROWS_SECOND_HALF) {
        piece->first += t->piece_rows;
    } else if (t->columns == 0 && rule->rows == VC_ROWS_ODD) {
        piece->first += 1;
    } else if (t->columns == 0 && rule->rows == VC_ROWS_BEHIND) {
        piece->first += p->sizes->skipped;
    } else if (rule->rows == VC_ROWS_FIRST_LAST) {
        piece->first += 1;
    } else if (takes_third(rule)) {
        piece->first += t->piece_rows * (unsigned)(rule->rows - VC_ROWS_FIRST_THIRD);
    }
}

/* Rows, pieces and types of a tensor. `stacked`: the experts of a layer, a piece each. `columns` is not 0 where the
 * source's matrix lies on its side: then a row here is a column there, and read_turned gathers it. */
static enum vc_status set_rows(struct planning *p, const struct match *matches, size_t n, struct llm_tensor *t)
{
    const struct vc_arch_name *rule = matches[0].rule;
    enum vc_dtype blocks = vc_llm_blocks_of(p->source, &p->source->tensors[matches[0].source]);
    bool turned = is_turned(rule, t);
    bool list = is_list(rule, t);
    bool units = rule->rows == VC_ROWS_QKV || rule->rows == VC_ROWS_GATE;
    struct llm_piece *pieces;

    if (rule->form == VC_MATRIX_BLOCKS) {
        t->dtype = VC_DTYPE_MXFP4;
    } else if (needs_halves(t->name)) {
        t->dtype = t->from == VC_DTYPE_F16 ? VC_DTYPE_F16 : VC_DTYPE_F32;
    } else if (needs_f32(t->name, t->n_dims)) {
        t->dtype = VC_DTYPE_F32;
    } else if (blocks != VC_DTYPE_NONE) {
        t->dtype = blocks;
    } else {
        t->dtype = t->from;
    }
    t->row_elems = t->n_dims == 1 || list ? 1 : t->shape[t->n_dims - 1];
    t->piece_rows = t->shape[t->n_dims > 2 || list ? 1 : 0];
    t->n_pieces = t->n_dims == 3 || list ? (size_t)t->shape[0] : 1;
    if (t->n_dims == 4) { /* of a convolution: a row is a kernel */
        t->row_elems *= t->shape[2];
        t->piece_rows *= t->shape[0];
    }
    if (rule->form == VC_MATRIX_PATCHES) { /* an element is a row */
        t->piece_rows *= t->row_elems;
        t->row_elems = 1;
    }
    if (units) {
        t->piece_rows = vc_llm_units_of(p->sizes, rule).unit;
        t->n_pieces = (size_t)(t->shape[0] / t->piece_rows);
    }
    t->step = rule->rows == VC_ROWS_EVEN || rule->rows == VC_ROWS_ODD ? 2 : 1;
    t->columns = turned ? t->piece_rows * (takes_half(rule) ? 2 : 1) : 0;
    t->column = rule->rows == VC_ROWS_ODD;
    if (turned && rule->rows == VC_ROWS_SECOND_HALF) {
        t->column = t->piece_rows;
    }
    VC_CALL_ALLOC(pieces = vc_arena_alloc(p->ctx, p->plan->arena, t->n_pieces * sizeof *pieces));
    t->pieces = pieces;
    for (size_t i = 0; i < t->n_pieces; i++) {
        set_piece(p, matches, n, t, i, &pieces[i]);
    }
    return rule->form == VC_MATRIX_BLOCKS ? find_scales(p, matches[0].source, t) : VC_OK;
}

/* One tensor of all matches with a name. */
static enum vc_status add_tensor(struct planning *p, const struct match *matches, size_t n)
{
    const struct vc_arch_name *rule = matches[0].rule;
    const char *tail = vc_llm_tail(matches[0].name);
    bool bias = vc_ends_in(matches[0].name, ".bias") && !is_whole(rule);
    struct llm_tensor t = {.name = matches[0].name,
                           .layer = matches[0].layer,
                           .from = p->source->tensors[matches[0].source].dtype,
                           .n_dims = bias ? 1 : (unsigned)strlen(rule->shape)};
    struct vc_arch_sizes sizes = *p->sizes;

    if (t.layer >= 0) {
        sizes = vc_llm_layer_sizes(p->config, p->family, p->sizes, (uint64_t)t.layer);
    }
    for (unsigned d = 0; d < t.n_dims; d++) {
        t.shape[d] = vc_arch_size_of(&sizes, rule->shape[d]);
    }
    t.rows_there =
        strcmp(rule->to, "per_layer_token_embd") == 0 && sizes.input_rows < t.shape[0] ? sizes.input_rows : 0;
    VC_REFUSE_IF(n != 1 && (matches[0].expert < 0 || n != t.shape[0]), p->ctx, VC_E_UNSUPPORTED,
                 "%s: %zu tensors of the folder become it, expected %" PRIu64, t.name, n,
                 matches[0].expert < 0 ? 1 : t.shape[0]);
    for (size_t i = 0; i < n; i++) {
        VC_REFUSE_IF(n != 1 && (uint64_t)matches[i].expert != i, p->ctx, VC_E_UNSUPPORTED,
                     "%s: expert %zu of its layer is missing", t.name, i);
        VC_CALL(check_source(p, &matches[i], &t));
    }
    VC_CALL(set_rows(p, matches, n, &t));
    set_values(p, tail, &t);
    t.rows_there = rule->rows == VC_ROWS_FIRST_LAST ? t.piece_rows : t.rows_there;
    if (rule->form == VC_MATRIX_PATCHES) {
        t.order = (struct llm_order){.unit = 1, .groups = t.shape[2] * t.shape[3], .each = t.shape[1]};
    }
    if (strcmp(p->family->gguf, "falcon-h1") == 0) {
        VC_CALL(multiply(p, tail, &t));
    }
    vc_llm_order_heads(p->sizes, rule, &t);
    t.function = rule->form == VC_MATRIX_LOGARITHM ? LLM_MINUS_EXP : LLM_LINEAR;
    p->plan->tensors[p->plan->n++] = t;
    return p->source->tensors[matches[0].source].quant != NULL && !p->any_type
               ? vc_llm_plan_add_scale(p->ctx, p->source, p->plan, &t)
               : VC_OK;
}

/* By layer, name, expert: equal names stand together, their experts in order 0, 1, 2, ... */
static int compare_matches(const void *a, const void *b)
{
    const struct match *x = a;
    const struct match *y = b;
    int names = strcmp(x->name, y->name);

    if (x->layer != y->layer) {
        return x->layer < y->layer ? -1 : 1;
    }
    if (names != 0) {
        return names;
    }
    if (x->expert != y->expert) {
        return x->expert < y->expert ? -1 : 1;
    }
    return 0;
}

/* By layer, then name: what vc_llm_plan_sort sorts by, and has_tensor looks by. */
static int compare_tensors(const void *a, const void *b)
{
    const struct llm_tensor *x = a;
    const struct llm_tensor *y = b;

    return x->layer != y->layer ? (x->layer < y->layer ? -1 : 1) : strcmp(x->name, y->name);
}

void vc_llm_plan_sort(struct llm_plan *plan)
{
    qsort(plan->tensors, plan->n, sizeof *plan->tensors, compare_tensors);
}

/* ---- what has to be there ---- */

/* Needs a sorted plan. */
static bool has_tensor(const struct llm_plan *plan, int64_t layer, const char *name)
{
    const struct llm_tensor key = {.name = name, .layer = layer};

    return bsearch(&key, plan->tensors, plan->n, sizeof key, compare_tensors) != NULL;
}

static enum vc_status refuse_missing(const struct planning *p, const char *name)
{
    return vc_fail(p->ctx, VC_E_UNSUPPORTED,
                   "no tensor of the folder becomes '%s', which llama.cpp needs in a model of "
                   "the kind '%s'",
                   name, p->family->gguf);
}

/* The lists of tensors that a layer of these kinds has beside those of all; "" for the others. */
static const char *list_of(const struct planning *p, unsigned kinds, enum llm_kind kind)
{
    const struct vc_arch_family *f = p->family;
    const char *list = kind == LLM_DENSE ? f->dense : f->sparse;

    if (kind == LLM_FIRST || kind == LLM_SECOND) {
        list = kind == LLM_FIRST ? f->first : f->second;
    }
    return (kinds & kind) != 0 && list != NULL ? list : "";
}

/* "attn_q attn_k": each of them in that layer, or in the whole model. A word without a point means its weight: "attn_q"
 * asks for "blk.3.attn_q.weight", "attn_q.bias" for that name. "ssm_a" and "ssm_d" have no ".weight" in llama.cpp. */
static enum vc_status check_there(const struct planning *p, const char *at, int64_t layer)
{
    char prefix[32] = "";
    char name[128];

    while (*at != '\0') {
        size_t n = strcspn(at, " /");
        size_t stack = at[n] == '/' ? n : 0; /* "enc/attn_q", "v/attn_q" */

        if (layer >= 0) {
            (void)snprintf(prefix, sizeof prefix, "%.*s%sblk.%" PRId64 ".", (int)stack, at, stack != 0 ? "." : "",
                           layer);
        }
        at += stack != 0 ? stack + 1 : 0;
        n = strcspn(at, " ");

        (void)snprintf(name, sizeof name, "%s%.*s%s", prefix, (int)n, at,
                       memchr(at, '.', n) != NULL ||
                               (n == 5 && (strncmp(at, "ssm_a", n) == 0 || strncmp(at, "ssm_d", n) == 0))
                           ? ""
                           : ".weight");
        VC_RETURN_IF(!has_tensor(p->plan, layer, name), refuse_missing(p, name));
        at += n + strspn(at + n, " ");
    }
    return VC_OK;
}

/* Refuses a tensor of the plan that no word of the family's row names: llama.cpp stops at a file with a tensor too
 * many. Tensors that this program computed (no pieces) are in the row by construction. `whole`: the words of the
 * model's own tensors. */
static enum vc_status check_asked(const struct planning *p, const struct llm_tensor *t, const char *whole)
{
    const char *tail = vc_llm_tail(t->name);
    char word[64];
    size_t n = strlen(tail) - (vc_ends_in(tail, ".weight") ? strlen(".weight") : 0);
    const char *maybe = p->family->maybe != NULL ? p->family->maybe : "";
    unsigned kinds = t->layer >= 0 ? vc_llm_kinds(p->config, p->family, p->sizes, (uint64_t)t->layer) : 0;
    bool stacked = t->layer >= 0 && strncmp(t->name, "blk.", 4) != 0; /* "enc.blk.0.attn_q": "enc/attn_q" */

    (void)snprintf(word, sizeof word, "%.*s%s%.*s", stacked ? 3 : 0, t->name, stacked ? "/" : "", (int)n, tail);
    if (t->layer < 0 && strchr(word, '.') != NULL) { /* "enc.output_norm.weight" */
        (void)snprintf(word, sizeof word, "%s", t->name);
    }
    bool asked = t->n_pieces == 0 || vc_is_one_of(word, t->layer >= 0 ? p->family->layer : whole) ||
                 vc_is_one_of(word, t->layer >= 0 ? maybe : "token_embd output") ||
                 (t->layer >= 0 && (vc_is_one_of(tail, p->family->layer) || vc_is_one_of(tail, maybe))) ||
                 (of_decoder(t->name) && vc_is_one_of(word, p->family->second));
    for (unsigned kind = LLM_FIRST; kind <= LLM_SPARSE && !asked; kind *= 2) {
        asked = vc_is_one_of(word, list_of(p, kinds, kind)) || vc_is_one_of(tail, list_of(p, kinds, kind));
    }
    return asked ? VC_OK
                 : vc_fail(p->ctx, VC_E_UNSUPPORTED, "%s: llama.cpp has no '%s' in a model of the kind '%s'",
                           p->source->tensors[t->pieces[0].source].name, t->name, p->family->gguf);
}

/* Of keys and values that are decompressed, queries may be, too; and tensors of experts that all tokens use. */
static enum vc_status check_sizes(const struct planning *p, uint64_t layer)
{
    unsigned kinds = vc_llm_kinds(p->config, p->family, p->sizes, layer);

    if (layer != 0 && strcmp(p->family->gguf, "modern-bert") == 0) {
        VC_CALL(check_there(p, "attn_norm", (int64_t)layer));
    }
    if (p->sizes->rank != 0) {
        VC_CALL(
            check_there(p, p->sizes->query_rank != 0 ? "attn_q_a attn_q_a_norm attn_q_b" : "attn_q", (int64_t)layer));
    }
    return p->sizes->shared != 0 && (kinds & LLM_SPARSE) != 0 &&
                   vc_is_one_of("ffn_up_shexp", p->family->maybe != NULL ? p->family->maybe : "")
               ? check_there(p, "ffn_gate_shexp ffn_up_shexp ffn_down_shexp", (int64_t)layer)
               : VC_OK;
}

/* T5: the first layer of a stack has the table of distances; all feed-forward parts have a gate, or none has. */
static enum vc_status check_stacks(const struct planning *p)
{
    bool gated = strcmp(vc_llm_word(p->config, "feed_forward_proj", "relu"), "relu") != 0;
    uint64_t parts = gated ? p->sizes->layers + p->sizes->decoder_layers : 0;
    uint64_t gates = 0;

    if (p->sizes->buckets == 0) {
        return VC_OK;
    }
    VC_CALL(check_there(p, p->sizes->decoder_layers != 0 ? "enc/attn_rel_b dec/attn_rel_b" : "enc/attn_rel_b", 0));
    for (uint64_t i = 0; i < p->sizes->decoder_layers; i++) {
        VC_CALL(check_there(p, p->family->second, (int64_t)i));
    }
    for (size_t i = 0; i < p->plan->n; i++) {
        gates += vc_ends_in(p->plan->tensors[i].name, ".ffn_gate.weight");
    }
    VC_REFUSE_IF(gates != parts, p->ctx, VC_E_UNSUPPORTED,
                 "%" PRIu64 " tensors of the folder are gates, expected %" PRIu64
                 " by \"feed_forward_proj\" of config.json",
                 gates, parts);
    return VC_OK;
}

/* Gemma 4: layers have keys, and values beside them, or use those of other layers; and an input of their own. */
static enum vc_status check_parts(const struct planning *p, uint64_t layer)
{
    char values[64];
    bool own_values =
        vc_llm_is_second(p->config, p->family, layer) || !vc_llm_flag(p->config, "attention_k_eq_v", false);

    if (strcmp(p->family->gguf, "gemma4") != 0) {
        return VC_OK;
    }
    (void)snprintf(values, sizeof values, "blk.%" PRIu64 ".attn_v.weight", layer);
    VC_REFUSE_IF(!own_values && has_tensor(p->plan, (int64_t)layer, values), p->ctx, VC_E_UNSUPPORTED,
                 "%s: is there, and config.json says \"attention_k_eq_v\"", values);
    if (layer < p->sizes->owners) {
        VC_CALL(check_there(p, own_values ? "attn_k attn_k_norm attn_v" : "attn_k attn_k_norm", (int64_t)layer));
    }
    return p->sizes->input != 0 ? check_there(p, "inp_gate proj post_norm", (int64_t)layer) : VC_OK;
}

/* Both directions: all that llama.cpp asks for is in the plan, and nothing else is. An encoder, a tied model and a
 * class whose name ends in "Model" need no head. */
static enum vc_status check_whole(const struct planning *p)
{
    const char *whole = p->family->whole != NULL ? p->family->whole : "output_norm";
    bool headless = vc_llm_is_encoder(p->family) || p->tied || p->bare || p->vision;
    bool head = has_tensor(p->plan, -1, "output.weight");

    if (p->family->whole == NULL && p->sizes->input != 0) {
        whole = "output_norm per_layer_token_embd per_layer_model_proj per_layer_proj_norm";
    }
    VC_CALL(check_there(p, whole, -1));
    VC_RETURN_IF(!head && (wants_head(p) || !headless), refuse_missing(p, "output.weight"));
    for (size_t i = 0; i < p->plan->n && !p->vision; i++) { /* rules of a vision tower name what is asked for alone */
        VC_CALL(check_asked(p, &p->plan->tensors[i], whole));
    }
    for (uint64_t i = 0; i < p->sizes->layers; i++) {
        VC_CALL(check_there(p, p->family->layer, (int64_t)i));
        for (unsigned kind = LLM_FIRST; kind <= LLM_SPARSE; kind *= 2) {
            VC_CALL(check_there(p, list_of(p, vc_llm_kinds(p->config, p->family, p->sizes, i), kind), (int64_t)i));
        }
        VC_CALL(check_sizes(p, i));
        VC_CALL(check_parts(p, i));
    }
    return check_stacks(p);
}

/* ---- the head ---- */

/* The rule that makes a tensor of the whole model; the rules of all families have one for each that is asked for. */
static const struct vc_arch_name *rule_to(const struct planning *p, const char *to)
{
    const struct vc_arch_name *rule = p->family->rules;

    while (rule != NULL && rule->from != NULL && !(rule->to != NULL && strcmp(rule->to, to) == 0)) {
        rule++;
    }
    if (rule == NULL || rule->from == NULL) {
        for (rule = vc_arch_names; strcmp(rule->to, to) != 0; rule++) {
        }
    }
    return rule;
}

/* The weight in the source that has that name, whatever wraps it. */
static size_t find_source(const struct planning *p, const char *from)
{
    char wanted[NAME_BYTES], name[NAME_BYTES];
    size_t i = 0;

    (void)snprintf(wanted, sizeof wanted, "%s.weight", from);

    while (i < p->source->n_tensors &&
           !(p->source->tensors[i].part_of == VC_NO_TENSOR && !is_other_part(p->source->tensors[i].name, false) &&
             strip(p->source->tensors[i].name, name) && strcmp(name, wanted) == 0)) {
        i++;
    }
    return i < p->source->n_tensors ? i : VC_NO_TENSOR;
}

/* config.json says that the head is the embedding: at its top, as transformers asks it; what it takes there where
 * nothing is said; or in the part for text. The order matters: a wrapper's own word wins over its text part, which wins
 * over the default of the class. */
static bool says_tied(const struct llm_config *config)
{
    const char *type = json_string_value(json_object_get(config->root, "model_type"));
    const json_t *top = json_object_get(config->root, "tie_word_embeddings");
    bool usual = vc_arch_flag(vc_arch_find(type), "tie_word_embeddings");

    if (json_is_boolean(top)) {
        return json_is_true(top);
    }
    if (config->part != config->root) {
        return usual || vc_llm_flag(config, "tie_word_embeddings", vc_arch_flag(config->arch, "tie_word_embeddings"));
    }
    return usual || vc_arch_flag(config->arch, "tie_word_embeddings");
}

/* Whether both have the same bytes: a saved head may be a copy of the embedding, and transformers takes another one for
 * what it is. Reads both tensors in pieces of COMPARE_BYTES, and stops at the first difference. */
static enum vc_status is_copy(const struct planning *p, size_t a, size_t b, bool *same)
{
    const struct vc_tensor *x = &p->source->tensors[a];
    const struct vc_tensor *y = &p->source->tensors[b];
    VC_SCOPED unsigned char *bytes = NULL;

    *same = x->quant == NULL && y->quant == NULL && x->dtype == y->dtype && x->size_bytes == y->size_bytes;
    if (!*same || x->alias_of == b || y->alias_of == a) {
        return VC_OK;
    }
    VC_CALL_ALLOC(bytes = vc_alloc(p->ctx, VC_TAG_IO, 2 * COMPARE_BYTES));
    for (uint64_t at = 0; at < x->size_bytes && *same; at += COMPARE_BYTES) {
        size_t n = x->size_bytes - at < COMPARE_BYTES ? (size_t)(x->size_bytes - at) : COMPARE_BYTES;

        VC_CALL(vc_source_read_any(p->ctx, p->source, a, VC_FORM_VALUES, at, bytes, n));
        VC_CALL(vc_source_read_any(p->ctx, p->source, b, VC_FORM_VALUES, at, bytes + COMPARE_BYTES, n));
        *same = memcmp(bytes, bytes + COMPARE_BYTES, n) == 0;
    }
    return VC_OK;
}

/* Whether the embedding is the head; a head of its own needs a place in llama.cpp. Sets p->tied. A head that is there
 * and differs from the embedding is a head of its own, whatever config.json says. */
static enum vc_status find_head(struct planning *p)
{
    size_t head = find_source(p, rule_to(p, "output")->from);
    size_t embedding = find_source(p, rule_to(p, "token_embd")->from);

    if (p->vision) {
        return VC_OK;
    }
    p->tied = says_tied(p->config);
    if (head == VC_NO_TENSOR || embedding == VC_NO_TENSOR || vc_arch_has(p->family, VC_ARCH_ENCODER)) {
        return VC_OK;
    }
    if (p->tied || vc_arch_has(p->family, VC_ARCH_NO_HEAD)) {
        p->tied = false;
        if (!p->any_type) {
            VC_CALL(is_copy(p, head, embedding, &p->tied));
        }
    }
    VC_REFUSE_IF(vc_arch_has(p->family, VC_ARCH_NO_HEAD) && !p->tied, p->ctx, VC_E_UNSUPPORTED,
                 "%s: is not the embedding, and llama.cpp has no other head in a model of the kind '%s'",
                 p->source->tensors[head].name, p->family->gguf);
    return VC_OK;
}

/* Where llama.cpp wants a head in any case, the embedding is it, too. */
static enum vc_status add_tied_head(struct planning *p)
{
    size_t embedding = find_source(p, rule_to(p, "token_embd")->from);
    struct match match = {.layer = -1, .expert = -1, .source = embedding};

    if (!p->tied || !wants_head(p) || embedding == VC_NO_TENSOR) {
        return VC_OK;
    }
    match.rule = rule_to(p, "output");
    return add_match(p, &match, ".weight");
}

/* llama.cpp asks for keys and values of layers that use those of others, and reads them nowhere. Where the folder has
 * none, they are those of the last layer that has some. */
static enum vc_status add_unread(struct planning *p)
{
    size_t n = p->n;

    for (size_t i = 0; i < n && strcmp(p->family->gguf, "gemma3n") == 0; i++) {
        struct match match = p->matches[i];

        if (match.layer + 1 != (int64_t)p->sizes->owners || strncmp(strchr(match.rule->to, '#'), "#.attn_", 7) != 0 ||
            !vc_is_one_of(match.rule->to + 11, "k v k_norm")) {
            continue;
        }
        for (match.layer++; match.layer < (int64_t)p->sizes->layers && p->n < p->capacity; match.layer++) {
            size_t k = 0;

            while (k < n && !(p->matches[k].layer == match.layer && p->matches[k].rule == match.rule)) {
                k++;
            }
            if (k == n) {
                VC_CALL(add_match(p, &match, ".weight"));
            }
        }
    }
    return VC_OK;
}

/* The rows of the embedding are the vocabulary's size, whatever the configuration says. */
static enum vc_status find_vocabulary(struct planning *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct vc_tensor *t = &p->source->tensors[p->matches[i].source];

        if (strcmp(p->matches[i].name, "token_embd.weight") == 0 && t->n_dims == 2 && t->shape[0] <= INT32_MAX) {
            p->sizes->vocabulary = t->shape[0];
            return VC_OK;
        }
    }
    return p->vision ? VC_OK : refuse_missing(p, "token_embd.weight");
}

void vc_llm_plan_release(struct vc_ctx *ctx, struct llm_plan *plan)
{
    vc_free(ctx, plan->tensors);
    *plan = (struct llm_plan){.n = 0};
}

#define MADE_TENSORS 4 /* at most: the scaling of rotary embeddings, or a row of them */

enum vc_status vc_llm_tensors_plan(struct vc_ctx *ctx, const struct vc_model *source, const struct llm_config *config,
                                   const struct vc_arch_family *family, struct vc_arch_sizes *sizes, bool any_type,
                                   struct vc_model *model, struct llm_plan *plan)
{
    const char *class_name = json_string_value(json_array_get(vc_llm_find(config, "architectures"), 0));
    struct planning p = {.ctx = ctx,
                         .source = source,
                         .config = config,
                         .family = family,
                         .sizes = sizes,
                         .plan = plan,
                         .vision = vc_arch_is_vision(family),
                         .any_type = any_type,
                         .beyond = VC_NO_TENSOR};
    size_t end;
    enum vc_status status = VC_OK;

    p.bare = class_name != NULL && vc_ends_in(class_name, "Model");
    /* Match, then sort, so that tensors with one name stand together. */
    p.capacity = 3 * source->n_tensors; /* rules make at most three of one */
    VC_TRY_ALLOC(p.matches = vc_alloc_array(ctx, VC_TAG_NAMES, p.capacity + 1, sizeof *p.matches));
    VC_TRY(find_head(&p));
    VC_TRY(match_all(&p));
    VC_TRY(add_tied_head(&p));
    VC_TRY(add_unread(&p));
    VC_TRY(find_vocabulary(&p));
    qsort(p.matches, p.n, sizeof *p.matches, compare_matches);
    plan->capacity = 2 * p.n + MADE_TENSORS; /* each may have a scale beside it */
    VC_TRY_ALLOC(plan->tensors = vc_alloc_array(ctx, VC_TAG_NAMES, plan->capacity, sizeof *plan->tensors));
    /* One tensor of the plan for each run of equal names. */
    for (size_t i = 0; i < p.n; i = end) {
        for (end = i + 1; end < p.n && strcmp(p.matches[i].name, p.matches[end].name) == 0; end++) {
        }
        VC_TRY(add_tensor(&p, p.matches + i, end - i));
    }
    vc_llm_plan_sort(plan);
    VC_TRY(check_whole(&p));
    if (p.n_heads != 0) {
        VC_TRY(vc_model_add_fact(ctx, model, VC_FACT_NOTE,
                                 "%zu tensors of heads are left out: the model gives embeddings", p.n_heads));
    }
    if (p.n_other != 0 && !p.vision) {
        VC_TRY(vc_model_add_fact(ctx, model, VC_FACT_NOTE,
                                 "%zu tensors of vision and audio towers or heads for further tokens are left out",
                                 p.n_other));
    }
out:
    vc_free(ctx, p.matches);
    return status;
}
