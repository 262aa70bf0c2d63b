/* test_families.c - what loaders do with families of models: the table is well formed, config.json finds its rows,
 * names of modules change as loaders change them, lists of modules name these and no others, and rules of layouts ask
 * the rows. tests/judge/kinds.py asks the loaders themselves. */
#include "formats_test.h"

#include <stdlib.h>

#include "core/text/text.h"
#include "formats/dialects/dialects.h"
#include "formats/dialects/module_names.h"
#include "formats/huggingface/config/hf_json.h"
#include "formats/huggingface/families.h"

/* ---- the table ---- */

static void check_words(const char *words, const char *needed)
{
    const char *word;
    size_t at = 0;
    size_t n;

    while ((word = vc_family_word(words, &at, &n)) != NULL) {
        assert_in_range(n, 2, 95);
        if (needed != NULL) {
            assert_non_null(memchr(word, needed[0], n));
        }
    }
}

static void test_table(void **state)
{
    const struct vc_family_row *row;
    size_t i;
    int k;

    (void)state;
    for (i = 0; (row = vc_family_row(i)) != NULL; i++) {
        bool says = row->asked || row->heads != NULL || row->renames != NULL || row->tables != NULL;

        assert_non_null(row->types);
        check_words(row->types, NULL);
        check_words(row->heads, NULL);
        check_words(row->renames, "=");
        check_words(row->tables, NULL);
        for (k = 0; k < VC_LOADS_COUNT; k++) {
            check_words(row->loads[k].keeps, NULL);
            assert_true((row->loads[k].keeps == NULL) == (row->loads[k].why == NULL));
            says = says || row->loads[k].refused != NULL || row->loads[k].keeps != NULL || row->loads[k].needs != NULL;
        }
        assert_true(says);
    }
    assert_true(i > 20);
}

static void find(const char *text, struct vc_family *family)
{
    struct vc_ctx *ctx = test_ctx();
    struct hf_json json;

    assert_int_equal(vc_hf_json_look(ctx, text, strlen(text), &json), VC_OK);
    vc_family_find(json.root, family);
    vc_hf_json_free(&json);
    test_ctx_done(ctx);
}

static void test_find(void **state)
{
    struct vc_family family;

    (void)state;
    find("{", &family);
    assert_int_equal(family.n, 0);
    find("{\"model_type\": 1}", &family);
    assert_string_equal(family.type, "");
    find("{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"]}", &family);
    assert_string_equal(family.type, "llama");
    assert_int_equal(family.n, 0);
    assert_true(family.speaks && !family.nested && !vc_family_changes_names(&family));
    find("{\"model_type\": \"wav2vec2\", \"architectures\": [\"Wav2Vec2ForCTC\"]}", &family);
    assert_false(family.speaks);
    assert_non_null(vc_family_needs(&family, VC_LOADS_COMPRESSED_TENSORS));
    assert_null(vc_family_needs(&family, VC_LOADS_BITSANDBYTES));
    assert_true(family.asked && !family.diffusers);
    find("{\"model_type\": \"nobody_knows\"}", &family);
    assert_false(family.asked);
    find("{\"_class_name\": \"UNet2DConditionModel\"}", &family);
    assert_true(family.diffusers);
    find("{\"model_type\": \"paligemma\", \"vision_config\": {\"model_type\": \"siglip_vision_model\"}}", &family);
    assert_true(family.nested && vc_family_changes_names(&family));
    assert_non_null(vc_family_needs(&family, VC_LOADS_COMPRESSED_TENSORS));
    find("{\"model_type\": \"clip\", \"text_config\": {}}", &family);
    assert_true(family.nested);
    find("{\"model_type\": \"bert\"}", &family);
    assert_true(vc_family_has_head(&family, "cls.predictions.decoder.weight", strlen("cls.predictions.decoder")));
    assert_false(vc_family_has_head(&family, "cls.predictions", strlen("cls.predictions")));
    find("{\"model_type\": \"mt5\"}", &family);
    assert_non_null(vc_family_keeps(&family, VC_LOADS_BITSANDBYTES, "a.wo.weight"));
    assert_null(vc_family_keeps(&family, VC_LOADS_BITSANDBYTES, "a.wi.weight"));
    assert_null(vc_family_keeps(&family, VC_LOADS_COMPRESSED_TENSORS, "a.wo.weight"));
    assert_null(vc_family_keeps(NULL, VC_LOADS_BITSANDBYTES, "a.wo.weight"));
    assert_null(vc_family_refused(NULL, VC_LOADS_BITSANDBYTES));
}

/* ---- other names ---- */

static void expect_renamed(const char *type, const char *path, const char *want)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_arena arena = {NULL, 0, 0};
    struct vc_family family;
    char text[200];

    (void)snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", type);
    find(text, &family);
    assert_string_equal(vc_family_rename(ctx, &arena, &family, path), want);
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
}

static void test_rename(void **state)
{
    (void)state;
    expect_renamed("llama", "model.layers.0.mlp.gate_proj", "model.layers.0.mlp.gate_proj");
    expect_renamed("vit", "vit.encoder.layer.11.attention.attention.query", "vit.layers.11.attention.q_proj");
    expect_renamed("vit", "vit.encoder.layer.0.attention.output.dense", "vit.layers.0.attention.o_proj");
    expect_renamed("vit", "vit.encoder.layer.0.output.dense", "vit.layers.0.mlp.fc2");
    expect_renamed("vit", "vit.encoder.layers.0.output.dense_1", "vit.encoder.layers.0.output.dense_1");
    expect_renamed("segformer", "segformer.encoder.block.2.13.mlp.dense1", "segformer.stages.2.blocks.13.mlp.fc1");
    expect_renamed("segformer", "decode_head.dense1", "decode_head.fc1");
    expect_renamed("d_fine", "model.decoder.layers.3.fc2", "model.decoder.layers.3.mlp.layers.1");
    expect_renamed("lfm3", "model.layers.0.self_attn.gate_proj", "model.layers.0.self_attn.g_proj");
    expect_renamed("axk2", "model.layers.0.input_layernorm.W_down", "model.layers.0.input_layernorm.mlp.fc1");
    expect_renamed("phimoe", "l.0.block_sparse_moe.gate", "l.0.mlp.router");
    expect_renamed("siglip_vision_model", "vision_model.encoder.layers.0.mlp.fc1", "encoder.layers.0.mlp.fc1");
    expect_renamed("gpt_neox", "embed_out", "lm_head");
}

/* ---- lists of modules ---- */

static void expect_list(enum vc_names_form form, const char *type, const char *listed, const char *others,
                        const char *want)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_module modules[16];
    struct vc_module_list list = {.form = form, .modules = modules};
    struct vc_family family;
    const char *const words[] = {listed, others};
    struct vc_text text;
    char config[200];
    bool first = true;
    size_t i;

    (void)snprintf(config, sizeof config, "{\"model_type\": \"%s\"%s}", type,
                   strcmp(type, "llava") == 0 ? ", \"text_config\": {}" : "");
    find(config, &family);
    list.family = &family;
    for (i = 0; i < 2; i++) {
        const char *word;
        size_t at = 0;
        size_t n;

        while ((word = vc_family_word(words[i], &at, &n)) != NULL) {
            modules[list.n++] = (struct vc_module){.path = word, .n = n, .listed = i == 0};
        }
    }
    vc_text_init(&text, ctx);
    assert_int_equal(vc_module_names_add(ctx, &list, &first, &text), VC_OK);
    assert_string_equal(text.data, want);
    vc_text_release(&text);
    test_ctx_done(ctx);
}

static void test_lists(void **state)
{
    (void)state;
    /* names as they are */
    expect_list(VC_NAMES_EXACT, "llama", "lm_head l.0.q", "l.1.q", "\"lm_head\", \"l.0.q\"");
    /* the end of the name in memory that no other module has; the same end once */
    expect_list(VC_NAMES_EXACT, "vit", "vit.encoder.layer.0.output.dense classifier",
                "vit.encoder.layer.1.output.dense", //
                "\"vit.encoder.layer.0.output.dense\", \"classifier\", \"re:(.*\\\\.)?0\\\\.mlp\\\\.fc2$\", "
                "\"re:(.*\\\\.)?classifier$\"");
    expect_list(VC_NAMES_EXACT, "llava", "v.0.fc v.1.fc", "t.0.q", "\"v.0.fc\", \"v.1.fc\", \"re:(.*\\\\.)?fc$\"");
    expect_list(VC_NAMES_EXACT, "llava", "v.0.q", "t.0.q t.v", "\"v.0.q\", \"re:(.*\\\\.)?v\\\\.0\\\\.q$\"");
    /* a model by itself, too, whose modules have more in front in memory: model.stages.0.fc */
    expect_list(VC_NAMES_EXACT, "dinov3_convnext", "stages.0.fc", "stages.1.fc",
                "\"stages.0.fc\", \"re:(.*\\\\.)?0\\\\.fc$\"");
    /* no end of its own: the name alone */
    expect_list(VC_NAMES_EXACT, "llava", "q", "t.q", "\"q\"");
    /* parts of names are whole */
    expect_list(VC_NAMES_EXACT, "llava", "a.q", "b.kq b.q-x b.xq", "\"a.q\", \"re:(.*\\\\.)?q$\"");
    /* ends and beginnings */
    expect_list(VC_NAMES_ENDS, "llama", "l.0.q", "l.1.q", "\"l.0.q\"");
    expect_list(VC_NAMES_ENDS, "distilbert", "classifier", "pre_classifier", "\"^classifier$\"");
    expect_list(VC_NAMES_ENDS, "distilbert", "a.b", "x.a.b", "\"^a\\\\.b$\"");
    expect_list(VC_NAMES_ENDS, "vit", "vit.encoder.layer.0.output.dense", "vit.encoder.layer.1.output.dense",
                "\"vit.encoder.layer.0.output.dense\", \"vit.layers.0.mlp.fc2\", \".0.mlp.fc2\"");
}

/* ---- the rules of layouts ---- */

static void expect_reason(const struct vc_dialect *dialect, const char *type, const char *name, const char *want)
{
    static const uint64_t shape[] = {64, 64};
    struct vc_family family;
    struct vc_tensor tensors[] = {{.name = "head.attention.in_proj_weight"}, {.name = name}};
    struct vc_model model = {.n_tensors = 2, .tensors = tensors, .family = &family};
    const struct vc_dialect_request request = {
        .scheme = "int8", .granularity = VC_GRANULARITY_CHANNEL, .symmetric = true, .model = &model};
    const struct vc_dialect_tensor tensor = {.name = name, .n_dims = 2, .shape = shape, .weights_dtype = VC_DTYPE_F32};
    struct vc_ctx *ctx = test_ctx();
    char text[100];
    const char *got;

    (void)snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", type);
    find(text, &family);
    assert_int_equal(vc_model_index_names(ctx, &model), VC_OK);
    got = vc_dialect_reason(dialect, &request, &tensor);
    if (want == NULL) {
        assert_null(got);
    } else {
        assert_non_null(got);
        assert_string_equal(got, want);
    }
    vc_name_table_release(ctx, &model.names);
    test_ctx_done(ctx);
}

static void test_reasons(void **state)
{
    (void)state;
    expect_reason(&vc_dialect_bitsandbytes, "t5", "x.wo.weight", "the loader wants f32 here");
    expect_reason(&vc_dialect_compressed_tensors, "t5", "x.wo.weight", NULL);
    /* What the model asks for its type: bytes of codes would be taken for the type of what the layer reads. */
    expect_reason(&vc_dialect_bitsandbytes, "longt5", "x.wo.weight", "the model casts to its type");
    expect_reason(&vc_dialect_bitsandbytes, "switch_transformers", "x.wo.weight", "the model casts to its type");
    expect_reason(&vc_dialect_bitsandbytes, "longt5", "x.wi.weight", NULL);
    expect_reason(&vc_dialect_compressed_tensors, "longt5", "x.wo.weight", NULL);
    expect_reason(&vc_dialect_bitsandbytes, "deepseek_v32", "x.indexer.weights_proj.weight",
                  "the loader wants f32 here");
    expect_reason(&vc_dialect_bitsandbytes, "llama", "x.wo.weight", NULL);
    expect_reason(&vc_dialect_bitsandbytes, "mixtral", "m.experts.0.w1.weight", "experts that the loader joins");
    expect_reason(&vc_dialect_compressed_tensors, "mixtral", "m.experts.0.w1.weight", NULL);
    expect_reason(&vc_dialect_bitsandbytes, "mixtral", "m.experts.w1.weight", NULL);
    expect_reason(&vc_dialect_compressed_tensors, "siglip", "head.attention.out_proj.weight", "attention of PyTorch");
    expect_reason(&vc_dialect_compressed_tensors, "siglip", "other.attention.out_proj.weight", NULL);
    expect_reason(&vc_dialect_compressed_tensors, "bert", "cls.predictions.decoder.weight", "output head");
    expect_reason(&vc_dialect_compressed_tensors, "llama", "cls.predictions.decoder.weight", NULL);
    expect_reason(&vc_dialect_compressed_tensors, "ctrl", "transformer.w.weight", "no weight of a linear layer");
    expect_reason(&vc_dialect_bitsandbytes, "ctrl", "w.weight", "no weight of a linear layer");
    expect_reason(&vc_dialect_compressed_tensors, "granite_speech5_ctc", "m.encoder.out.weight",
                  "several layers have it");
    expect_reason(&vc_dialect_bitsandbytes, "granite_speech5_ctc", "encoder.out.weight", "several layers have it");
    expect_reason(&vc_dialect_compressed_tensors, "phimoe", "l.0.block_sparse_moe.gate.weight",
                  "the loader finds no codes here");
    expect_reason(&vc_dialect_compressed_tensors, "ctrl", "transformer.h.0.ffn.0.weight", NULL);
    expect_reason(&vc_dialect_compressed_tensors, "llama", "transformer.w.weight", NULL);
    expect_reason(&vc_dialect_compressed_tensors, "llama", "encoder.pos_emb.weight", "embedding");
}

static void expect_checked(const struct vc_dialect *dialect, const char *type, const char *sentence)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_family family;
    struct vc_model model = {.family = &family};
    const struct vc_dialect_request request = {
        .scheme = "int8", .granularity = VC_GRANULARITY_CHANNEL, .symmetric = true, .model = &model};
    char text[100];

    (void)snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", type);
    find(text, &family);
    assert_int_equal(vc_dialect_check(ctx, dialect, &request), sentence == NULL ? VC_OK : VC_E_UNSUPPORTED);
    assert_string_equal(vc_ctx_message(ctx), sentence == NULL ? "" : sentence);
    test_ctx_done(ctx);
}

static void test_refused(void **state)
{
    struct vc_family family;

    (void)state;
    expect_checked(&vc_dialect_compressed_tensors, "llama", NULL);
    expect_checked(&vc_dialect_bitsandbytes, "dinov2", NULL);
    expect_checked(
        &vc_dialect_compressed_tensors, "dinov2",
        "models of type dinov2 cannot be loaded in the layout compressed-tensors: transformers 5 cuts layers "
        "in pieces as it loads them, which it cannot do with codes; layout bitsandbytes can be made");
    expect_checked(&vc_dialect_compressed_tensors, "lfm3", NULL);
    expect_checked(&vc_dialect_compressed_tensors, "sarvam_moe",
                   "models of type sarvam_moe cannot be loaded in the layout compressed-tensors: transformers 5 cuts "
                   "layers in pieces as it loads them, which it cannot do with codes; layout plain can be made");
    expect_checked(&vc_dialect_bitsandbytes, "falcon",
                   "models of type falcon cannot be loaded in the layout bitsandbytes: its layers are of a kind of "
                   "their own, and bitsandbytes takes none of them; layout compressed-tensors can be made");
    expect_checked(&vc_dialect_bitsandbytes, "llama4",
                   "models of type llama4 cannot be loaded in the layout bitsandbytes: transformers wants a layer for "
                   "each expert there, and the file has all experts in one tensor; layout plain can be made");
    /* what a folder becomes where nothing is asked for */
    assert_ptr_equal(vc_dialect_usual_in_folders(NULL), &vc_dialect_compressed_tensors);
    find("{\"model_type\": \"dinov2\"}", &family);
    assert_ptr_equal(vc_dialect_usual_in_folders(&family), &vc_dialect_bitsandbytes);
    find("{\"model_type\": \"llama4\"}", &family);
    assert_ptr_equal(vc_dialect_usual_in_folders(&family), &vc_dialect_compressed_tensors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table), cmocka_unit_test(test_find),    cmocka_unit_test(test_rename),
        cmocka_unit_test(test_lists), cmocka_unit_test(test_reasons), cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
