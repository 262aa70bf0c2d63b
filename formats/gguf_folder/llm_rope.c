/* llm_rope.c - how rotary embeddings are stretched to longer texts, as llama.cpp says it: by keys, or by a tensor with
 * a divisor for each frequency.
 *
 *     linear     .rope.scaling.type "linear", .factor
 *     yarn       .rope.scaling.type "yarn", .factor, .original_context_length, .attn_factor where it is unusual
 *     llama3     rope_freqs.weight
 *     proportional   rope_freqs.weight: 1, then 1e30 for what is not rotated
 *     longrope   rope_factors_long.weight, rope_factors_short.weight, .rope.scaling.attn_factor; llama and granite: the
 *                type, too
 *
 * llama.cpp divides frequency i by rope_freqs[i]; transformers computes the frequencies themselves. arch/arch_rope.h
 * has the formulas of both, each with its source. `type` is in config.json's words. */
#include "formats/gguf_folder/llm_parts.h"

#include "arch/arch_rope.h"
#include "formats/huggingface/config/hf_config.h"

struct scaling {
    struct vc_ctx *ctx;
    const struct llm_config *config;
    const struct vc_arch_family *family;
    const struct llm_rope *rope;
    double factor, original; /* original: context */
    uint64_t rotated;        /* elements of a head */
    uint64_t context;
    struct llm_plan *plan;
    struct llm_pairs *pairs;
};

/* "config.json: rotary embeddings of type 'yarn' need ..." */
static enum vc_status refuse(const struct scaling *s, const char *why)
{
    return vc_fail(s->ctx, VC_E_UNSUPPORTED, "config.json: rotary embeddings of type '%s' %s", s->rope->type, why);
}

/* A number of the block that says how they are scaled. */
static double real(const struct scaling *s, const char *name, double otherwise)
{
    return vc_llm_real_of(s->config, s->rope->block, name, otherwise);
}

/* The context that the model was first trained with, in tokens. */
static void put_original(const struct scaling *s)
{
    vc_llm_put_u32(s->pairs, ".rope.scaling.original_context_length", (uint64_t)s->original);
}

/* Room for a divisor of each frequency. rotated / 2 of them; one more, so that no allocation is empty. */
static enum vc_status make_values(const struct scaling *s, float **values)
{
    *values = vc_arena_alloc(s->ctx, s->plan->arena, (size_t)(s->rotated / 2 + 1) * sizeof **values);
    return *values != NULL ? VC_OK : VC_E_NOMEM;
}

/* Low frequencies are divided by the factor, high ones stay, between them is a ramp. Formula: vc_rope_llama3_divisor.
 * Llama 3.1: factor 8, bounds 1 and 4, context 8192. */
static enum vc_status put_llama3(const struct scaling *s)
{
    double low = real(s, "low_freq_factor", 1.0);
    double high = real(s, "high_freq_factor", 4.0);
    float *values;

    VC_RETURN_IF(!vc_arch_has(s->family, VC_ARCH_FREQS), refuse(s, "are not known to llama.cpp in such a model"));
    VC_RETURN_IF(!(low > 0 && high > low), refuse(s, "need \"high_freq_factor\" above \"low_freq_factor\""));
    VC_CALL(make_values(s, &values));
    for (uint64_t i = 0; i < s->rotated / 2; i++) {
        values[i] =
            (float)vc_rope_llama3_divisor(s->rope->theta, (double)s->rotated, s->factor, low, high, s->original, i);
    }
    return vc_llm_plan_add_values(s->ctx, s->plan, "rope_freqs.weight", values, s->rotated / 2);
}

/* The ramp of yarn as llama.cpp's keys cannot say it: not rounded, or between other dimensions. The divisors contain
 * the factor, so no type is written beside them. */
static enum vc_status put_ramp(const struct scaling *s, double fast, double slow, bool truncate)
{
    struct vc_rope_ramp ramp = vc_rope_yarn_ramp(s->rope->theta, (double)s->rotated, s->original, fast, slow, truncate);
    float *values;

    VC_CALL(make_values(s, &values));
    for (uint64_t i = 0; i < s->rotated / 2; i++) {
        values[i] = (float)vc_rope_yarn_divisor(&ramp, s->factor, i);
    }
    return vc_llm_plan_add_values(s->ctx, s->plan, "rope_freqs.weight", values, s->rotated / 2);
}

/* `attention` is what transformers multiplies cos and sin by: 0.1 ln(factor) + 1, or a quotient of two such with
 * "mscale" and "mscale_all_dim", or "attention_factor". llama.cpp computes `usual` itself from the factor; .attn_factor
 * multiplies that. Beside tensors of divisors it computes nothing, so .attn_factor is the whole number. */
static enum vc_status put_yarn(const struct scaling *s, struct vc_model *model)
{
    double usual = vc_rope_yarn_scale(s->factor, 1.0);
    double scale = real(s, "mscale", 0.0);
    double scale_all = real(s, "mscale_all_dim", 0.0);
    double attention = usual;
    double fast = real(s, "beta_fast", 32.0);
    double slow = real(s, "beta_slow", 1.0);
    bool truncate = !json_is_false(json_object_get(s->rope->block, "truncate"));
    bool freqs = vc_arch_has(s->family, VC_ARCH_FREQS);
    bool other_ramp = fast != 32.0 || slow != 1.0;

    if (scale != 0 && scale_all != 0) {
        attention = vc_rope_yarn_scale(s->factor, scale) / vc_rope_yarn_scale(s->factor, scale_all);
    }
    attention = real(s, "attention_factor", attention);
    if (strcmp(s->family->gguf, "mistral3") == 0) { /* has keys of its own */
        vc_llm_put_f32(s->pairs, ".rope.scaling.yarn_beta_fast", fast);
        vc_llm_put_f32(s->pairs, ".rope.scaling.yarn_beta_slow", slow);
        usual /= vc_rope_yarn_scale(s->factor, scale_all);
        if ((float)attention != (float)usual) {
            return refuse(s,
                          "need \"mscale\" 1 where there is an \"mscale_all_dim\", which llama.cpp takes for granted");
        }
        attention = usual;
        other_ramp = freqs = false;
    }
    if (vc_arch_is_latent(s->family)) { /* the scores, too, are multiplied, by the square of that of all */
        if (scale != scale_all || scale == 0.0 || json_object_get(s->rope->block, "attention_factor") != NULL) {
            return refuse(s, "need \"mscale\" and \"mscale_all_dim\" alike, and no \"attention_factor\"");
        }
        vc_llm_put_f32(s->pairs, ".rope.scaling.yarn_log_multiplier", 0.1 * scale_all);
        vc_llm_put_f32(s->pairs, ".rope.scaling.yarn_beta_fast", fast);
        vc_llm_put_f32(s->pairs, ".rope.scaling.yarn_beta_slow", slow);
        attention = usual;
    }
    if (freqs && (other_ramp || !truncate)) {
        VC_CALL(put_ramp(s, fast, slow, truncate));
        vc_llm_put_f32(s->pairs, ".rope.scaling.attn_factor", attention);
        return VC_OK;
    }
    if (other_ramp) {
        return refuse(s, "with other \"beta_fast\" and \"beta_slow\" than 32 and 1 are not known to llama.cpp");
    }
    if (!truncate && model != NULL) {
        VC_CALL(vc_model_add_fact(s->ctx, model, VC_FACT_NOTE,
                                  "llama.cpp rounds where the rotary embeddings begin to be stretched, the source does "
                                  "not (\"truncate\": false): answers differ"));
    }
    vc_llm_put_text(s->pairs, ".rope.scaling.type", "yarn");
    vc_llm_put_f32(s->pairs, ".rope.scaling.factor", s->factor);
    if (strcmp(s->family->gguf, "phi3") != 0) { /* it always has the key */
        put_original(s);
    }
    if ((float)(attention / usual) != 1.0F) {
        vc_llm_put_f32(s->pairs, ".rope.scaling.attn_factor", attention / usual);
    }
    return VC_OK;
}

/* Gemma 4: the first of them are divided by the factor, the others do not turn. 1e30 makes an angle of 0 in f32 for
 * every position. Type "default" turns all pairs. */
static enum vc_status put_proportional(const struct scaling *s)
{
    bool plain = strcmp(s->rope->type, "default") == 0;
    uint64_t turning_pairs = plain ? s->rotated / 2 : (uint64_t)(s->rope->share * (double)s->rotated / 2);
    float *values;

    if (strcmp(s->family->gguf, "gemma4") != 0 || (!plain && strcmp(s->rope->type, "proportional") != 0)) {
        return refuse(s, "are not known to llama.cpp in such a model");
    }
    VC_CALL(make_values(s, &values));
    for (uint64_t i = 0; i < s->rotated / 2; i++) {
        values[i] = i < turning_pairs ? (float)s->factor : 1e30F;
    }
    return vc_llm_plan_add_values(s->ctx, s->plan, "rope_freqs.weight", values, s->rotated / 2);
}

/* "short_factor" or "long_factor" as a tensor. */
static enum vc_status put_factors(const struct scaling *s, const char *key, const char *tensor)
{
    const json_t *list = json_object_get(s->rope->block, key);
    float *values;

    VC_REFUSE_IF(json_array_size(list) != s->rotated / 2, s->ctx, VC_E_FORMAT,
                 "config.json: \"%s\" has %zu numbers, expected %llu", key, json_array_size(list),
                 (unsigned long long)(s->rotated / 2));
    VC_CALL(make_values(s, &values));
    for (size_t i = 0; i < s->rotated / 2; i++) {
        values[i] = (float)json_number_value(json_array_get(list, i));
    }
    return vc_llm_plan_add_values(s->ctx, s->plan, tensor, values, s->rotated / 2);
}

/* Divisors for short and for long texts. phi3 reads them always, llama and granite where the type says so, in place of
 * rope_freqs.weight. transformers takes the factor of the block, else how much longer the context became. .attn_factor
 * is the whole number that cos and sin are multiplied by. */
static enum vc_status put_longrope(const struct scaling *s)
{
    double stretched = real(s, "factor", (double)s->context / s->original);
    double attention = vc_rope_longrope_scale(stretched, s->original);
    bool phi3 = strcmp(s->family->gguf, "phi3") == 0;

    if (!phi3 && !vc_is_one_of(s->family->gguf, "llama|granite")) {
        return refuse(s, "are not known to llama.cpp in such a model");
    }
    if (!phi3) {
        vc_llm_put_text(s->pairs, ".rope.scaling.type", "longrope");
        put_original(s);
    }
    VC_CALL(put_factors(s, "long_factor", "rope_factors_long.weight"));
    VC_CALL(put_factors(s, "short_factor", "rope_factors_short.weight"));
    vc_llm_put_f32(s->pairs, ".rope.scaling.attn_factor", real(s, "attention_factor", attention));
    return VC_OK;
}

/* "su" is the older name of longrope; "dynamic" stretches only beyond the context, so shorter texts are the same. */
enum vc_status vc_llm_rope_put(struct vc_ctx *ctx, const struct llm_config *config, const struct vc_arch_family *family,
                               const struct vc_arch_sizes *sizes, const struct llm_rope *rope, struct llm_plan *plan,
                               struct vc_model *model, struct llm_pairs *pairs)
{
    static const char original[] = "original_max_position_embeddings";
    struct scaling s = {.ctx = ctx,
                        .config = config,
                        .family = family,
                        .rope = rope,
                        .rotated = vc_llm_rotated(sizes, rope),
                        .context = sizes->context,
                        .plan = plan,
                        .pairs = pairs};

    s.factor = real(&s, "factor", 1.0);
    s.original = real(&s, original, vc_llm_real(config, original, (double)sizes->context));
    if (strcmp(family->gguf, "phi3") == 0) {
        VC_REFUSE_IF(!(s.original >= 1), ctx, VC_E_FORMAT, "%s: \"%s\" is no number of tokens", VC_HF_CONFIG_NAME,
                     original);
        put_original(&s);
    }
    if (strcmp(family->gguf, "gemma4") == 0) {
        return put_proportional(&s);
    }
    if (strcmp(rope->type, "default") == 0) {
        return VC_OK;
    }
    VC_RETURN_IF(!(s.factor > 0 && s.original > 1 && rope->theta > 1), refuse(&s, "need a \"factor\" above 0"));
    if (strcmp(rope->type, "linear") == 0 && vc_arch_is_latent(family)) { /* it multiplies scores as yarn does */
        return refuse(&s, "are not known to llama.cpp in such a model");
    }
    if (strcmp(rope->type, "linear") == 0) {
        vc_llm_put_text(pairs, ".rope.scaling.type", "linear");
        vc_llm_put_f32(pairs, ".rope.scaling.factor", s.factor);
    } else if (strcmp(rope->type, "yarn") == 0) {
        VC_CALL(put_yarn(&s, model));
    } else if (strcmp(rope->type, "llama3") == 0) {
        VC_CALL(put_llama3(&s));
    } else if (strcmp(rope->type, "longrope") == 0 || strcmp(rope->type, "su") == 0) {
        VC_CALL(put_longrope(&s));
    } else if (strcmp(rope->type, "dynamic") == 0) {
        if (model != NULL) {
            VC_CALL(
                vc_model_add_fact(ctx, model, VC_FACT_NOTE,
                                  "the source stretches its rotary embeddings with the length of a text ('dynamic'), "
                                  "llama.cpp does not: answers are the same up to %llu tokens",
                                  (unsigned long long)sizes->context));
        }
    } else {
        return refuse(&s, "are not known");
    }
    return VC_OK;
}
