/* test_hf_config.c - config.json of a model's folder: one member is changed and every other byte stays, as a text
 * that the test wrote by hand shows; which quantization_config belongs to which outputs; what cannot be joined is
 * refused. */
#include "formats_test.h"

#include "formats/dialects/dialects.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/families.h"
#include "formats/json/json_member.h"

#include <jansson.h>
#include <stdlib.h>

/* ---- members of a text ---- */

static char *edited(const char *text, size_t index, const char *name, const char *value)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_text out;
    char *copy;

    vc_text_init(&out, ctx);
    if (name != NULL) {
        vc_json_member_append(text, strlen(text), name, value, &out);
    } else {
        vc_json_member_replace(text, strlen(text), index, value, &out);
    }
    assert_int_equal(out.status, VC_OK);
    copy = malloc(out.n + 1);
    assert_non_null(copy);
    memcpy(copy, out.data, out.n + 1);
    vc_text_release(&out);
    test_ctx_done(ctx);
    return copy;
}

static void expect_edit(const char *text, size_t index, const char *name, const char *value, const char *want)
{
    char *got = edited(text, index, name, value);

    assert_string_equal(got, want);
    free(got);
}

static void test_members(void **state)
{
    static const char text[] = "{\"a\" : 1e-05 , \"b\\\"}\":\"x\\\\\", \"c\": [1, {\"d\": \"]\"}],\n \"e\":null\n}\n";

    (void)state;
    expect_edit(text, 0, NULL, "2", "{\"a\" : 2 , \"b\\\"}\":\"x\\\\\", \"c\": [1, {\"d\": \"]\"}],\n \"e\":null\n}\n");
    expect_edit(text, 1, NULL, "2", "{\"a\" : 1e-05 , \"b\\\"}\":2, \"c\": [1, {\"d\": \"]\"}],\n \"e\":null\n}\n");
    expect_edit(text, 2, NULL, "2", "{\"a\" : 1e-05 , \"b\\\"}\":\"x\\\\\", \"c\": 2,\n \"e\":null\n}\n");
    expect_edit(text, 3, NULL, "2",
                "{\"a\" : 1e-05 , \"b\\\"}\":\"x\\\\\", \"c\": [1, {\"d\": \"]\"}],\n \"e\":2\n}\n");
    expect_edit(text, 0, NULL, NULL, "{\"b\\\"}\":\"x\\\\\", \"c\": [1, {\"d\": \"]\"}],\n \"e\":null\n}\n");
    expect_edit(text, 1, NULL, NULL, "{\"a\" : 1e-05, \"c\": [1, {\"d\": \"]\"}],\n \"e\":null\n}\n");
    expect_edit(text, 2, NULL, NULL, "{\"a\" : 1e-05 , \"b\\\"}\":\"x\\\\\",\n \"e\":null\n}\n");
    expect_edit(text, 3, NULL, NULL, "{\"a\" : 1e-05 , \"b\\\"}\":\"x\\\\\", \"c\": [1, {\"d\": \"]\"}]\n}\n");
    expect_edit(text, 4, NULL, NULL, text);
    expect_edit("{\n  \"a\": 1\n}\n", 0, "q", "2", "{\n  \"a\": 1,\n  \"q\": 2\n}\n");
    expect_edit("{}", 0, "q", "2", "{\n  \"q\": 2\n}");
    expect_edit(" { }", 0, "q", "2", " {\n  \"q\": 2\n }");
    expect_edit("{\"a\":{}}", 0, "q", "2", "{\"a\":{},\n  \"q\": 2}");
    expect_edit("{\"a\":1}", 0, NULL, NULL, "{}");
    expect_edit("{\"a\":1,\"b\":true}", 1, NULL, NULL, "{\"a\":1}");
    expect_edit("{\"a\":[],\"b\":true}", 0, NULL, NULL, "{\"b\":true}");
}

/* ---- a job that never ran ---- */

enum { Q, Q_SCALE, HEAD, EMBED, ODD, NORM, N_OUTS };

static const uint64_t shape_q[] = {64, 64}, shape_scale[] = {64, 1};

struct setting {
    struct vc_model model;
    struct vc_tensor tensors[N_OUTS];
    struct vc_out_tensor outs[N_OUTS];
    struct vc_quant quant, made, made_other;
    bool told[N_OUTS];
    struct vc_out_list list;
    struct vc_hf_change change;
};

static void set_one(struct setting *s, size_t i, const char *name, unsigned n_dims, enum vc_dtype dtype)
{
    s->tensors[i] =
        (struct vc_tensor){.name = name, .dtype = dtype, .n_dims = n_dims, .shape = shape_q, .part_of = VC_NO_TENSOR};
    s->outs[i] = (struct vc_out_tensor){
        .name = name, .dtype = dtype, .n_dims = n_dims, .shape = shape_q, .form = VC_FORM_RAW, .source = i};
}

/* One layer becomes codes; a head, an embedding, another layer and a norm are kept. */
static struct setting *make(struct setting *s, const struct vc_dialect *dialect)
{
    memset(s, 0, sizeof *s);
    set_one(s, Q, "model.layers.0.q.weight", 2, VC_DTYPE_BF16);
    set_one(s, HEAD, "lm_head.weight", 2, VC_DTYPE_BF16);
    set_one(s, EMBED, "model.embed_tokens.weight", 2, VC_DTYPE_BF16);
    set_one(s, ODD, "model.layers.0.\"odd\".weight", 2, VC_DTYPE_BF16);
    set_one(s, NORM, "model.norm.weight", 1, VC_DTYPE_BF16);
    set_one(s, Q_SCALE, "model.layers.0.q.weight.scale", 2, VC_DTYPE_BF16);
    s->outs[Q_SCALE].shape = shape_scale;
    s->outs[Q_SCALE].source = Q;
    s->outs[Q].form = VC_FORM_VALUES;
    s->outs[Q].dtype = VC_DTYPE_I8;
    s->made = (struct vc_quant){.scheme = VC_SCHEME_INT8,
                                .granularity = VC_GRANULARITY_CHANNEL,
                                .symmetric = true,
                                .n_parts = 1,
                                .parts = {{VC_PART_SCALE, Q_SCALE}}};
    s->made_other = s->made;
    s->outs[Q].quant = &s->made;
    s->told[Q] = dialect != &vc_dialect_plain;
    s->model = (struct vc_model){.n_tensors = N_OUTS, .tensors = s->tensors};
    s->list = (struct vc_out_list){.n = N_OUTS, .tensors = s->outs};
    s->change = (struct vc_hf_change){.model = &s->model, .outs = &s->list, .told = s->told, .dialect = dialect};
    return s;
}

/* The source was quantized already; the job copies the codes, or (copied false) makes floats of them. */
static struct setting *make_kept(struct setting *s, const struct vc_dialect *dialect, bool copied)
{
    make(s, dialect);
    s->quant = s->made;
    s->tensors[Q].quant = &s->quant;
    s->outs[Q].form = copied ? VC_FORM_RAW : VC_FORM_VALUES;
    s->told[Q] = copied;
    if (!copied) {
        s->outs[Q].quant = NULL;
        s->outs[Q].dtype = VC_DTYPE_F32;
    }
    return s;
}

static char *rewritten(const char *text, struct setting *s)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_text out;
    char *copy = NULL;
    struct hf_json json;

    vc_text_init(&out, ctx);
    if (vc_hf_quantization_rewrite(ctx, text, strlen(text), &s->change, &out) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    copy = malloc(out.n + 1);
    assert_non_null(copy);
    memcpy(copy, out.data, out.n + 1);
    assert_int_equal(vc_hf_json_load(ctx, copy, strlen(copy), true, &json), VC_OK);
    vc_hf_json_free(&json);
    vc_text_release(&out);
    test_ctx_done(ctx);
    return copy;
}

static void expect_text(const char *text, struct setting *s, const char *want)
{
    char *got = rewritten(text, s);

    assert_string_equal(got, want);
    free(got);
}

static void expect_has(const char *text, struct setting *s, const char *needle)
{
    char *got = rewritten(text, s);

    if (strstr(got, needle) == NULL) {
        fail_msg("no %s in %s", needle, got);
    }
    free(got);
}

static void expect_refused(const char *text, struct setting *s, enum vc_status status, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_text out;

    vc_text_init(&out, ctx);
    assert_int_equal(vc_hf_quantization_rewrite(ctx, text, strlen(text), &s->change, &out), status);
    if (strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", vc_ctx_message(ctx), needle);
    }
    vc_text_release(&out);
    test_ctx_done(ctx);
}

#define CONFIG "{\n  \"rms_norm_eps\": 1e-05,\n  \"rope_theta\": 10000.0,\n  \"vocab_size\": 32000"
#define CT                                                                                                         \
    ",\n  \"quantization_config\": {\n    \"quant_method\": \"compressed-tensors\",\n    \"version\": \"0.15.0\"," \
    "\n    \"format\": \"pack-quantized\",\n    \"quantization_status\": \"compressed\",\n    \"config_groups\": " \
    "{\n      \"group_0\": {\n        \"targets\": [\"Linear\"],\n        \"format\": \"pack-quantized\",\n"       \
    "        \"weights\": {\"num_bits\": 8, \"type\": \"int\", \"symmetric\": true, \"strategy\": \"channel\", "   \
    "\"group_size\": null, \"dynamic\": false},\n        \"input_activations\": null,\n"                           \
    "        \"output_activations\": null\n      }\n    },\n    \"ignore\": [\"lm_head\", "                        \
    "\"model.layers.0.\\\"odd\\\"\"],\n    \"kv_cache_scheme\": null\n  }"

static void test_forms(void **state)
{
    struct setting s;

    (void)state;
    expect_text(CONFIG "\n}\n", make(&s, &vc_dialect_compressed_tensors), CONFIG CT "\n}\n");
    /* a second time: the same */
    expect_text(CONFIG CT "\n}\n", make(&s, &vc_dialect_compressed_tensors), CONFIG CT "\n}\n");
    expect_text(CONFIG "\n}\n", make(&s, &vc_dialect_bitsandbytes),
                CONFIG ",\n  \"quantization_config\": {\n    \"quant_method\": \"bitsandbytes\",\n"
                       "    \"load_in_8bit\": true,\n    \"llm_int8_threshold\": 6.0,\n"
                       "    \"llm_int8_skip_modules\": [\"lm_head\", \"model.layers.0.\\\"odd\\\"\"]\n  }\n}\n");
    expect_text(CONFIG "\n}\n", make(&s, &vc_dialect_plain), CONFIG "\n}\n");
    make(&s, &vc_dialect_compressed_tensors);
    s.made.granularity = VC_GRANULARITY_GROUP;
    s.made.group_size = 128;
    expect_has("{}", &s, "\"strategy\": \"group\", \"group_size\": 128,");
    /* two ways of sharing scales: targets by name */
    s.told[ODD] = true;
    s.outs[ODD].quant = &s.made_other;
    expect_has("{}", &s, "\"targets\": [\"model.layers.0.q\"],");
    expect_has("{}", &s, "\"targets\": [\"model.layers.0.\\\"odd\\\"\"],");
    expect_has("{}", &s, "\"group_1\": {");
    expect_has("{}", &s, "\"ignore\": [\"lm_head\"],");
    /* a head that is codes is not left out; one that is tied to the embedding is */
    make(&s, &vc_dialect_compressed_tensors);
    s.told[HEAD] = true;
    s.outs[HEAD].quant = s.outs[Q].quant;
    expect_has("{}", &s, "\"ignore\": [\"model.layers.0.\\\"odd\\\"\"],");
    make(&s, &vc_dialect_compressed_tensors);
    set_one(&s, HEAD, "other", 1, VC_DTYPE_F32);
    expect_has("{}", &s, "\"ignore\": [\"model.layers.0.\\\"odd\\\"\", \"lm_head\"],");
}

/* Numbers that Python writes and JSON lacks stay in the text. */
static void test_python_numbers(void **state)
{
    static const char odd[] = "{\"limits\": [0.0, Infinity, -Infinity, NaN], \"text\": \"NaN \\\" Infinity \\\\\"";
    static const char *const bad[] = {"{\"a\": NaNa}",       "{\"a\": Infinit}", "{\"a\": -I}",
                                      "{\"a\": N}",          "{\"a\": 1} NaN",   "{\"a\": 1eNaN}",
                                      "{\"a\": 1-Infinity}", "{NaN: 1}",         "{\"a\": \"\\\"}"};
    static const char text[] = "{\"a\": [-Infinity,NaN], \"NaN\": \"\\\\\\\"NaN\", \"b\": NaN}";
    struct vc_ctx *ctx = test_ctx();
    struct hf_json json;
    struct setting s;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(vc_hf_json_load(ctx, bad[i], strlen(bad[i]), true, &json), VC_E_FORMAT);
        expect_says(ctx, "is no valid JSON: line 1: ");
        vc_hf_json_free(&json);
        assert_int_equal(vc_hf_json_look(ctx, bad[i], strlen(bad[i]), &json), VC_OK);
        assert_null(json.root);
        assert_string_equal(vc_ctx_message(ctx), "");
    }
    assert_int_equal(vc_hf_json_load(ctx, text, strlen(text), true, &json), VC_OK);
    assert_int_equal(json_object_size(json.root), 3);
    assert_string_equal(json_string_value(json_object_get(json.root, "NaN")), "\\\"NaN");
    assert_true(json_equal(json_array_get(json_object_get(json.root, "a"), 0), json_object_get(json.root, "b")));
    vc_hf_json_free(&json);
    test_ctx_done(ctx);
    make(&s, &vc_dialect_compressed_tensors);
    {
        char before[200], after[1200];

        (void)snprintf(before, sizeof before, "%s\n}\n", odd);
        (void)snprintf(after, sizeof after, "%s%s\n}\n", odd, CT);
        expect_text(before, &s, after);
    }
}

static void find_family(const char *text, struct vc_family *family)
{
    struct vc_ctx *ctx = test_ctx();
    struct hf_json json;

    assert_int_equal(vc_hf_json_look(ctx, text, strlen(text), &json), VC_OK);
    vc_family_find(json.root, family);
    vc_hf_json_free(&json);
    test_ctx_done(ctx);
}

/* Names that no tensor tells of, names that change, lists that are not needed; experts of which some are kept. */
static void test_families(void **state)
{
    static const char *const bert = "{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"]}";
    static const char *const ctc = "{\"model_type\": \"wav2vec2\", \"architectures\": [\"Wav2Vec2ForCTC\"]}";
    struct vc_family family;
    struct setting s;

    (void)state;
    make(&s, &vc_dialect_compressed_tensors);
    s.model.family = &family;
    find_family(bert, &family);
    expect_has("{}", &s, "\"ignore\": [\"lm_head\", \"model.layers.0.\\\"odd\\\"\", \"cls.predictions.decoder\"],");
    family.nested = true;
    expect_has("{}", &s, "\"cls.predictions.decoder\"],");
    expect_has("{}", &s, "\"re:(.*\\\\.)?lm_head$\"");

    make(&s, &vc_dialect_bitsandbytes);
    s.model.family = &family;
    expect_has("{}", &s, "\"llm_int8_skip_modules\": [\"lm_head\", ");
    set_one(&s, ODD, "model.layers.0.odd", 2, VC_DTYPE_BF16);
    expect_has("{}", &s, "\"llm_int8_skip_modules\": [\"lm_head\", ");
    family.nested = false;
    expect_has("{}", &s, "\"llm_int8_skip_modules\": null");
    set_one(&s, HEAD, "cls.predictions.decoder.weight", 2, VC_DTYPE_BF16);
    expect_has("{}", &s, "\"llm_int8_skip_modules\": null");
    set_one(&s, HEAD, "other.weight", 2, VC_DTYPE_BF16);
    expect_has("{}", &s, "\"llm_int8_skip_modules\": [\"other\", \"cls.predictions.decoder\", \"lm_head\"]");
    set_one(&s, HEAD, "lm_head.weight", 2, VC_DTYPE_BF16);
    find_family(ctc, &family);
    expect_has("{}", &s, "\"llm_int8_skip_modules\": [\"lm_head\"]");

    make(&s, &vc_dialect_compressed_tensors);
    set_one(&s, ODD, "model.layers.0.mlp.experts.0.w1.weight", 2, VC_DTYPE_BF16);
    expect_refused("{}", &s, VC_E_UNSUPPORTED, "model.layers.0.mlp.experts.0.w1.weight stays as it is");
    s.told[ODD] = true;
    s.outs[ODD].quant = s.outs[Q].quant;
    expect_has("{}", &s, "\"ignore\": [\"lm_head\"],");
}

/* What is called an embedding and has a bias is a layer, and on the list; and so is what multiplies patches. */
static void test_tables(void **state)
{
    struct setting s;

    (void)state;
    make(&s, &vc_dialect_compressed_tensors);
    set_one(&s, ODD, "model.relative_embeddings.weight", 2, VC_DTYPE_BF16);
    expect_has("{}", &s, "\"ignore\": [\"lm_head\"],");
    set_one(&s, NORM, "model.relative_embeddings.bias", 1, VC_DTYPE_BF16);
    expect_has("{}", &s, "\"ignore\": [\"lm_head\", \"model.relative_embeddings\"],");
    set_one(&s, ODD, "model.pos_emb.weight", 2, VC_DTYPE_BF16);
    expect_has("{}", &s, "\"ignore\": [\"lm_head\"],");
    set_one(&s, ODD, "model.patch_embedding.weight", 2, VC_DTYPE_BF16);
    expect_has("{}", &s, "\"ignore\": [\"lm_head\", \"model.patch_embedding\"],");
}

static void test_what_was_quantized(void **state)
{
    static const char fp8[] = "{\"quantization_config\": {\"quant_method\": \"fp8\"}, \"a\": 1}";
    struct setting s;

    (void)state;
    /* all copied, all dequantized, some of both */
    expect_text(CONFIG CT "\n}\n", make_kept(&s, &vc_dialect_compressed_tensors, true), CONFIG CT "\n}\n");
    expect_text(CONFIG CT "\n}\n", make_kept(&s, &vc_dialect_compressed_tensors, false), CONFIG "\n}\n");
    expect_text(fp8, make_kept(&s, &vc_dialect_compressed_tensors, false), "{\"a\": 1}");
    expect_text(CONFIG "\n}\n", make_kept(&s, &vc_dialect_compressed_tensors, false), CONFIG "\n}\n");
    make_kept(&s, &vc_dialect_compressed_tensors, true);
    s.tensors[HEAD].quant = &s.quant; /* ... which is a float now */
    expect_text(CONFIG "\n}\n", &s, CONFIG CT "\n}\n");
    expect_text(CONFIG CT "\n}\n", &s, CONFIG CT "\n}\n");
    expect_refused(fp8, &s, VC_E_UNSUPPORTED, "quantization_config (fp8)");
    s.change.dialect = &vc_dialect_bitsandbytes;
    expect_refused(CONFIG CT "\n}\n", &s, VC_E_UNSUPPORTED, "quantization_config (compressed-tensors)");

    /* FP8 weights that stay: nothing can be joined with them */
    make(&s, &vc_dialect_compressed_tensors);
    s.tensors[NORM].name = "model.layers.1.q.weight_scale_inv";
    expect_refused(fp8, &s, VC_E_UNSUPPORTED, "quantization_config (fp8)");
    s.told[Q] = false;
    expect_text(fp8, &s, fp8);

    /* ours, but for other bits */
    make_kept(&s, &vc_dialect_compressed_tensors, true);
    s.tensors[HEAD].quant = &s.quant;
    expect_refused(
        "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\", "
        "\"config_groups\": {\"g\": {\"weights\": {\"num_bits\": 7, \"type\": \"int\", \"symmetric\": true}}}}}",
        &s, VC_E_UNSUPPORTED, "cannot be joined");
}

/* What one worker of several writes is what one alone would have written. */
static void test_other_workers(void **state)
{
    struct vc_out_tensor others[2];
    struct setting s;
    struct setting whole;
    char *want = rewritten(CONFIG "\n}\n", make(&whole, &vc_dialect_compressed_tensors));
    char *kept = rewritten(CONFIG CT "\n}\n", make_kept(&whole, &vc_dialect_compressed_tensors, true));

    (void)state;
    /* the head and the odd layer are another worker's */
    make(&s, &vc_dialect_compressed_tensors);
    others[0] = s.outs[HEAD];
    others[1] = s.outs[ODD];
    s.outs[HEAD] = s.outs[EMBED];
    s.outs[EMBED] = s.outs[NORM];
    s.list.n = ODD;
    s.list.other_shards = others;
    s.list.n_other_shards = 2;
    expect_text(CONFIG "\n}\n", &s, want);
    s.list.other_shards_unsure = true;
    expect_refused(CONFIG "\n}\n", &s, VC_E_UNSUPPORTED, "with nonfinite=keep");

    /* the codes are: made there, or copied there */
    make(&s, &vc_dialect_compressed_tensors);
    others[0] = s.outs[Q];
    s.made.n_parts = 0;
    s.list =
        (struct vc_out_list){.n = N_OUTS - HEAD, .tensors = s.outs + HEAD, .n_other_shards = 1, .other_shards = others};
    s.change.told = s.told + HEAD;
    expect_text(CONFIG "\n}\n", &s, want);
    make_kept(&s, &vc_dialect_compressed_tensors, true);
    others[0] = s.outs[Q];
    s.tensors[Q_SCALE].name = "model.layers.0.q.weight_scale";
    s.list =
        (struct vc_out_list){.n = N_OUTS - HEAD, .tensors = s.outs + HEAD, .n_other_shards = 1, .other_shards = others};
    s.change.told = s.told + HEAD;
    expect_text(CONFIG CT "\n}\n", &s, kept);
    free(want);
    free(kept);
}

static bool takes_int8(const char *text)
{
    struct vc_ctx *ctx = test_ctx();
    struct hf_json json;
    bool takes;

    assert_int_equal(vc_hf_json_look(ctx, text, strlen(text), &json), VC_OK);
    takes = vc_hf_config_takes_int8(json.root);
    vc_hf_json_free(&json);
    test_ctx_done(ctx);
    return takes;
}

static void test_takes_int8(void **state)
{
    static const char *const no[] = {
        "", "[]", "{}", "{\"model_type\": 1}", "{\"model_type\": \"gpt2\"}", "{\"model_type\": \"bert\""};
    static const char *const yes[] = {"{\"architectures\": [\"BertModel\"], \"model_type\": \"bert\"}",
                                      "{\"model_type\": \"bert\", \"quantization_config\": {}}"};

    (void)state;
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        assert_false(takes_int8(no[i]));
    }
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        assert_true(takes_int8(yes[i]));
    }
}

static void test_refused(void **state)
{
    struct setting s;

    (void)state;
    expect_refused("{", make(&s, &vc_dialect_compressed_tensors), VC_E_FORMAT, "config.json: is no valid JSON: line 1");
    expect_refused("[]", make(&s, &vc_dialect_compressed_tensors), VC_E_FORMAT, "config.json: is no JSON object");
    expect_refused("{\"a\":1,\"a\":2}", make(&s, &vc_dialect_compressed_tensors), VC_E_FORMAT, "duplicate");
    expect_refused("{\"model_type\": \"gpt2\"}", make(&s, &vc_dialect_compressed_tensors), VC_E_UNSUPPORTED,
                   "models of type gpt2 keep their matrices transposed");
    expect_text("{\"model_type\": \"gpt2\"}", make(&s, &vc_dialect_plain), "{\"model_type\": \"gpt2\"}");
}

static void expect_hint(const char *text, uint64_t num_bits, uint64_t group_size)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_dialect_hint hint;

    assert_int_equal(vc_hf_config_hint(ctx, text, strlen(text), &hint), VC_OK);
    assert_int_equal(hint.num_bits, num_bits);
    assert_int_equal(hint.group_size, group_size);
    test_ctx_done(ctx);
}

#define GROUPS(groups) \
    "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": {" groups "}}}"

static void test_hints(void **state)
{
    (void)state;
    expect_hint("", 0, 0);
    expect_hint("{}", 0, 0);
    expect_hint("[]", 0, 0);
    expect_hint(GROUPS(""), 0, 0);
    expect_hint(CONFIG CT "}", 8, 0);
    expect_hint(GROUPS("\"a\": {\"weights\": {\"num_bits\": 4, \"group_size\": 128}}"), 4, 128);
    expect_hint(GROUPS("\"a\": {\"weights\": {\"num_bits\": 4, \"group_size\": 128}},"
                       "\"b\": {\"weights\": {\"num_bits\": 4, \"group_size\": 64}}"),
                4, 0);
    expect_hint(GROUPS("\"a\": {\"weights\": {\"num_bits\": 4}}, \"b\": {\"weights\": {\"num_bits\": 8}},"
                       "\"c\": {\"weights\": {\"num_bits\": 8}}"),
                0, 0);
    expect_hint(GROUPS("\"a\": {\"weights\": {\"num_bits\": -8, \"group_size\": 1.5}}"), 0, 0);
    expect_hint("{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}", 4, 0);
    expect_hint("{\"quantization_config\": {\"quant_method\": \"aqlm\", \"bits\": 4}}", 0, 0);
}

/* The n-th allocation fails, for every n. */
static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct setting s;
    uint64_t n;

    (void)state;
    make(&s, &vc_dialect_compressed_tensors);
    for (n = 1;; n++) {
        struct vc_text out;
        enum vc_status status;

        vc_text_init(&out, ctx);
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_hf_quantization_rewrite(ctx, CONFIG "}", strlen(CONFIG "}"), &s.change, &out);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        vc_text_release(&out);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        if (status == VC_OK) {
            break;
        }
        assert_int_equal(status, VC_E_NOMEM);
    }
    assert_true(n > 3);
    vc_ctx_free(ctx);
}

/* Other programs have a config.json, too. What is no JSON may be what is left of a model's. */
static void test_whose(void **state)
{
    static const struct {
        const char *text;
        bool model;
    } texts[] = {{"{\"port\": 8080}", false},
                 {"{}", false},
                 {"[1, 2]", false},
                 {"[\"model_type\"]", false},
                 {"{\"server\": {\"model_type\": \"llama\"}}", false},
                 {"{\"model_type\": \"llama\"}", true},
                 {"{\"model_type\": \"llama\", \"hidden", true},
                 {"{\"architectures\": []}", true},
                 {"{\"d_model\": 64}", true},
                 {"{\"decoder_layers\": 2}", true},
                 {"{\"text_config\": {}}", true},
                 {"{\"quantization_config\": {}}", true}};
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bool model = !texts[i].model;

        assert_int_equal(vc_hf_config_is_model(ctx, texts[i].text, strlen(texts[i].text), &model), VC_OK);
        assert_int_equal(model, texts[i].model);
    }
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_int8),    cmocka_unit_test(test_whose),
        cmocka_unit_test(test_members),       cmocka_unit_test(test_forms),
        cmocka_unit_test(test_families),      cmocka_unit_test(test_python_numbers),
        cmocka_unit_test(test_tables),        cmocka_unit_test(test_what_was_quantized),
        cmocka_unit_test(test_other_workers), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hints),         cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
