/* test_hf_loader.c - which layout `auto` gives int8 weights, by the files beside the model, or why none; and which
 * layers loaders join. Judge: a table written by hand. */
#include "formats_test.h"

#include <unistd.h>

#include "formats/huggingface/hf_loader.h"
#include "formats/huggingface/joined_layers.h"
#include "tasks.h"

static const struct {
    const char *config;
    bool to_folder;
    const struct vc_dialect *dialect; /* where it is not refused */
    const char *words;                /* of the refusal; NULL: there is none */
} cases[] = {
    {"{\"model_type\": \"bert\"}", true, &vc_dialect_compressed_tensors, NULL},
    {"{\"model_type\": \"bert\"}", false, &vc_dialect_plain, "the model's folder has to become a folder"},
    {"{\"model_type\": \"gpt2\"}", true, &vc_dialect_bitsandbytes, NULL},
    {"{\"model_type\": \"dinov2\"}", true, &vc_dialect_bitsandbytes, NULL},
    {"{\"model_type\": \"bert\", \"x\": NaN}", true, &vc_dialect_compressed_tensors, NULL},
    {"{\"_class_name\": \"UNet2DConditionModel\"}", true, &vc_dialect_plain, "diffusers loads codes on a GPU only"},
    {"{\"pretrained_cfg\": {}, \"model_type\": \"x\"}", true, &vc_dialect_plain, "timm loads no codes"},
    {"{\"quantization_config\": {}, \"model_type\": \"bert\"}", true, &vc_dialect_plain,
     "has a quantization_config already"},
    {"{\"model_type\": 7}", true, &vc_dialect_plain, NULL},
    {"{}", true, &vc_dialect_plain, NULL},
    {"[]", false, &vc_dialect_plain, NULL},
    {"{", true, &vc_dialect_plain, NULL},
};

static void check(const char *path, bool to_folder, const struct vc_dialect *dialect, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_hf_loader loader;

    assert_int_equal(vc_hf_loader_find(ctx, path, to_folder, false, &loader), VC_OK);
    assert_true((loader.refusal == NULL) == (words == NULL));
    assert_true(words == NULL || strstr(loader.refusal, words) != NULL);
    assert_ptr_equal(loader.dialect, dialect);
    assert_string_equal(vc_ctx_message(ctx), "");
    test_ctx_done(ctx);
}

/* Where passes decode the weights, their quantization_config refuses nothing. */
static void check_decoded(const char *path)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_hf_loader loader;

    assert_int_equal(vc_hf_loader_find(ctx, path, true, true, &loader), VC_OK);
    assert_true(loader.refusal == NULL || strstr(loader.refusal, "quantization_config") == NULL);
    test_ctx_done(ctx);
}

static void check_loader_note(const char *path, bool to_folder, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_hf_loader loader;

    assert_int_equal(vc_hf_loader_find(ctx, path, to_folder, false, &loader), VC_OK);
    assert_true((loader.note == NULL) == (words == NULL));
    assert_true(words == NULL || strstr(loader.note, words) != NULL);
    test_ctx_done(ctx);
}

static void test_loaders(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)save_text("config.json", cases[i].config);
        check(scratch_folder(), cases[i].to_folder, cases[i].dialect, cases[i].words);
        check(in_folder("model.safetensors"), cases[i].to_folder, cases[i].dialect, cases[i].words);
        check_decoded(scratch_folder());
    }
    (void)save_text("adapter_config.json", "{}");
    check(scratch_folder(), true, &vc_dialect_plain, "it is an adapter (adapter_config.json)");
    empty_folder();
    check(scratch_folder(), true, &vc_dialect_plain, NULL);
    check_loader_note(scratch_folder(), true, "there is no config.json of a model");
    check_loader_note(scratch_folder(), false, NULL);
    (void)save_text("config.json", "{\"port\": 8080}");
    check_loader_note(scratch_folder(), true, "there is no config.json of a model");
    (void)save_text("config.json", "{\"model_type\": ");
    check_loader_note(scratch_folder(), true, "its config.json is no valid JSON");
    check_loader_note(scratch_folder(), false, NULL);
    (void)save_text("config.json", "{\"hidden_size\": 64}");
    check_loader_note(scratch_folder(), true, NULL);
    empty_folder();
    assert_int_equal(symlink("gone", in_folder("config.json")), 0);
    check(scratch_folder(), true, &vc_dialect_plain, "is a link that leads nowhere");
    assert_int_equal(unlink(in_folder("config.json")), 0);
    check("-", false, &vc_dialect_plain, NULL);
}

static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = VC_E_NOMEM;
    uint64_t n;

    (void)state;
    (void)save_text("config.json", cases[0].config);
    for (n = 1; status != VC_OK; n++) {
        struct vc_hf_loader loader;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_hf_loader_find(ctx, scratch_folder(), true, false, &loader);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    assert_true(n > 4);
    assert_int_equal(unlink(in_folder("config.json")), 0);
    assert_int_equal(symlink("gone", in_folder("config.json")), 0);
    for (n = 1, status = VC_E_NOMEM; status != VC_OK; n++) {
        struct vc_hf_loader loader;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_hf_loader_find(ctx, scratch_folder(), true, false, &loader);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
    }
    assert_true(n > 3);
    empty_folder();
    test_ctx_done(ctx);
}

/* ---- layers that are joined ---- */

static const uint64_t shape[] = {64, 64};
static const struct vc_quant int8 = {.scheme = VC_SCHEME_INT8};

/* Names with blanks between them, those with '*' behind them become int8. The note has these words, or is none. */
static void check_note(const char *names, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_tensor tensors[8];
    struct vc_out_tensor outs[8];
    struct vc_arena arena = {0};
    struct vc_model model = {.tensors = tensors};
    struct vc_out_list list = {.tensors = outs};
    bool told[8] = {false};
    char copy[200];
    char *rest = NULL;
    char *name;
    const char *note;

    snprintf(copy, sizeof copy, "%s", names);
    for (name = strtok_r(copy, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
        size_t i = model.n_tensors++;
        size_t n = strlen(name);

        told[i] = name[n - 1] == '*';
        name[n - told[i]] = '\0';
        tensors[i] = (struct vc_tensor){
            .name = name, .dtype = VC_DTYPE_F32, .n_dims = 2, .shape = shape, .part_of = VC_NO_TENSOR};
        outs[i] = (struct vc_out_tensor){
            .name = name, .quant = told[i] ? &int8 : NULL, .n_dims = 2, .shape = shape, .source = i};
    }
    list.n = model.n_tensors;
    model.ctx = ctx;
    assert_int_equal(vc_model_index_names(ctx, &model), VC_OK);
    assert_int_equal(vc_joined_note(ctx, &model, &list, told, "vLLM", &arena, &note), VC_OK);
    if ((note == NULL) != (words == NULL) || (words != NULL && strcmp(note, words) != 0)) {
        fail_msg("%s: %s", names, note != NULL ? note : "no note");
    }
    vc_arena_release(ctx, &arena);
    vc_name_table_release(ctx, &model.names);
    test_ctx_done(ctx);
}

static void test_joined(void **state)
{
    (void)state;
    check_note("l.q_proj.weight* l.k_proj.weight* l.v_proj.weight*", NULL);
    check_note("l.q_proj.weight* l.k_proj.weight l.v_proj.weight*",
               "l.q_proj.weight becomes int8 and k_proj beside it does not: vLLM joins the two, and refuses that");
    check_note("gate_proj.weight up_proj.weight*",
               "up_proj.weight becomes int8 and gate_proj beside it does not: vLLM joins the two, and refuses that");
    check_note("a.key.weight* b.query.weight", NULL);
    check_note("a.key.weight* a.query.bias", NULL);
    check_note("a.other.weight* a.query.weight", NULL);
    check_note("a.query* a.key", NULL);
    check_note("weight* x", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loaders),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_joined),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
