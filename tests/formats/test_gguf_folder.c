/* test_gguf_folder.c - a folder as the GGUF model that llama.cpp runs, where things fail: every allocation, read and
 * write; a file that is changed meanwhile; every cut and many flips of config.json and of the tokenizers. What comes
 * out when nothing fails is tests/cli/test_gguf_folder.py's. */
#include "formats_test.h"

#include <unistd.h>

#include "folder_builder.h"
#include "llm_builder.h"
#include "tasks.h"

static int set_up(void **state)
{
    int rc = scratch_make(state);

    llm_fill(scratch_folder());
    folder_write(scratch_folder(), "config.json", LLM_CONFIG, strlen(LLM_CONFIG));
    folder_write(scratch_folder(), "tokenizer.json", LLM_TOKENIZER, strlen(LLM_TOKENIZER));
    return rc;
}

static struct task as_gguf(struct task task)
{
    vc_open_defaults(&task.open);
    task.open.as_gguf = true;
    return task;
}

static const char *output(void)
{
    static char to[300];

    (void)snprintf(to, sizeof to, "%s.gguf", scratch_folder());
    return to;
}

/* The output is a GGUF model with all tensors: the made one, too. */
static void test_model(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;

    (void)state;
    must_run(ctx, scratch_folder(), output(), as_gguf(task_copy()));
    assert_int_equal(vc_model_open(ctx, output(), NULL, &model), VC_OK);
    assert_string_equal(vc_model_format(model), "gguf");
    assert_int_equal(vc_model_tensor_count(model), 13);
    assert_int_not_equal(vc_model_find(model, "rope_freqs.weight"), VC_NO_TENSOR);
    assert_int_equal(vc_model_tensor(model, vc_model_find(model, "blk.0.attn_k.bias"))->n_elems, 2);
    vc_model_close(model);
    remove_path(output());
    vc_ctx_free(ctx); /* keeps the kernels */
}

/* Parts of a row, from any element on. */
static void test_ranges(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_open_options options;
    struct vc_model *model;
    float whole[32];
    float part[32];

    (void)state;
    vc_open_defaults(&options);
    options.as_gguf = true;
    assert_int_equal(vc_model_open(ctx, scratch_folder(), &options, &model), VC_OK);
    for (size_t i = 0; i < vc_model_tensor_count(model); i++) {
        uint64_t n = vc_model_tensor(model, i)->n_elems;

        assert_int_equal(vc_model_read(ctx, model, i, 0, n, whole, sizeof whole), VC_OK);
        for (uint64_t first = 0; first < n; first++) {
            for (uint64_t k = 1; first + k <= n; k++) {
                assert_int_equal(vc_model_read(ctx, model, i, first, k, part, sizeof part), VC_OK);
                assert_memory_equal(part, whole + first, k * sizeof *part);
            }
        }
    }
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void test_failures(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    fail_each_allocation(ctx, scratch_folder(), output(), as_gguf(task_int8()), 100);
    fail_each_read(ctx, scratch_folder(), output(), as_gguf(task_copy()), 10);
    fail_each_write(ctx, scratch_folder(), output(), as_gguf(task_copy()), 10);
    (void)unlink(in_folder("tokenizer.json"));
    folder_write(scratch_folder(), "tokenizer.model", LLM_PIECES, sizeof LLM_PIECES - 1);
    fail_each_allocation(ctx, scratch_folder(), output(), as_gguf(task_copy()), 100);
    fail_each_read(ctx, scratch_folder(), output(), as_gguf(task_copy()), 10);
    remove_path(output());
    vc_ctx_free(ctx);
}

static void test_changed(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    change_each_byte(ctx, scratch_folder(), in_folder("model.safetensors"), output(), as_gguf(task_copy()), 37);
    vc_ctx_free(ctx);
}

/* Every cut and some flips: an answer, and all memory back. */
static void damage(const char *name, const char *text, size_t n)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_open_options options;
    char copy[2048];

    vc_open_defaults(&options);
    options.as_gguf = true;
    for (size_t i = 0; i < 2 * n; i++) {
        struct vc_model *model;
        size_t at = i / 2;
        enum vc_status status;

        memcpy(copy, text, n);
        copy[at] = (char)(copy[at] ^ (i % 3 == 0 ? 1 : i % 3 == 1 ? 4 : 0x80));
        folder_write(scratch_folder(), name, copy, i % 2 == 0 ? at : n);
        status = vc_model_open(ctx, scratch_folder(), &options, &model);
        if (status != VC_OK && status != VC_E_FORMAT && status != VC_E_UNSUPPORTED) {
            fail_msg("%s, byte %zu: %s", name, at, vc_ctx_message(ctx));
        }
        vc_model_close(model);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    test_ctx_done(ctx);
}

static void test_damage(void **state)
{
    (void)state;
    damage("config.json", LLM_CONFIG, strlen(LLM_CONFIG));
    folder_write(scratch_folder(), "config.json", LLM_CONFIG, strlen(LLM_CONFIG));
    damage("tokenizer.json", LLM_TOKENIZER, strlen(LLM_TOKENIZER));
    (void)unlink(in_folder("tokenizer.json"));
    damage("tokenizer.model", LLM_PIECES, sizeof LLM_PIECES - 1);
}

/* ---- the way back ---- */

static struct task as_folder(struct task task)
{
    vc_open_defaults(&task.open);
    task.open.as_folder = true;
    return task;
}

static const char *back(void)
{
    static char to[300];

    (void)snprintf(to, sizeof to, "%s.back", scratch_folder());
    return to;
}

/* The folder has the tensors that the first one had, and leads to the same model. */
static void test_back(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *there;
    struct vc_model *again;

    (void)state;
    must_run(ctx, scratch_folder(), output(), as_gguf(task_copy()));
    must_run(ctx, output(), back(), as_folder(task_copy()));
    assert_int_equal(vc_model_open(ctx, scratch_folder(), NULL, &there), VC_OK);
    assert_int_equal(vc_model_open(ctx, back(), NULL, &again), VC_OK);
    assert_int_equal(vc_model_tensor_count(again), vc_model_tensor_count(there));
    for (size_t i = 0; i < vc_model_tensor_count(there); i++) {
        const struct vc_tensor *t = vc_model_tensor(there, i);
        size_t k = vc_model_find(again, t->name);
        float a[32];
        float b[32];

        assert_int_not_equal(k, VC_NO_TENSOR);
        assert_int_equal(vc_model_tensor(again, k)->n_elems, t->n_elems);
        assert_int_equal(vc_model_read(ctx, there, i, 0, t->n_elems, a, sizeof a), VC_OK);
        assert_int_equal(vc_model_read(ctx, again, k, 0, t->n_elems, b, sizeof b), VC_OK);
        assert_memory_equal(a, b, t->n_elems * sizeof *a);
    }
    vc_model_close(again);
    vc_model_close(there);
    remove_path(back());
    remove_path(output());
    vc_ctx_free(ctx);
}

static void fail_back(struct vc_ctx *ctx)
{
    must_run(ctx, scratch_folder(), output(), as_gguf(task_copy()));
    fail_each_allocation(ctx, output(), back(), as_folder(task_copy()), 100);
    fail_each_read(ctx, output(), back(), as_folder(task_copy()), 5);
    fail_each_write(ctx, output(), back(), as_folder(task_copy()), 10);
    remove_path(back());
    damage_each_byte(ctx, output(), output(), back(), as_folder(task_copy()), 7);
    remove_path(output());
}

static void test_back_failures(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    fail_back(ctx);
    (void)unlink(in_folder("tokenizer.json"));
    folder_write(scratch_folder(), "tokenizer.model", LLM_PIECES, sizeof LLM_PIECES - 1);
    fail_back(ctx);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_model, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_ranges, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_failures, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_changed, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_damage, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_back, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_back_failures, set_up, scratch_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
