/* test_onnx_folder.c - a folder as an ONNX model, where things fail: every allocation, read and write; a file that is
 * changed meanwhile; every cut and some flips of config.json. Values from any element on: of tensors that lie as the
 * folder has them, of turned ones, and of parts of packed ones. What the model computes is
 * tests/judge/test_onnx_folder.py's. */
#include "formats_test.h"

#include "formats/io/infile.h"
#include "formats/io/outfile.h"

#include "folder_builder.h"
#include "llm_builder.h"
#include "tasks.h"

static int set_up(void **state)
{
    int rc = scratch_make(state);

    llm_fill_packed(scratch_folder());
    folder_write(scratch_folder(), "config.json", LLM_PACKED_CONFIG, strlen(LLM_PACKED_CONFIG));
    return rc;
}

static struct task as_onnx(struct task task)
{
    vc_open_defaults(&task.open);
    task.open.as_onnx = true;
    return task;
}

static const char *output(void)
{
    static char to[300];

    (void)snprintf(to, sizeof to, "%s.onnx", scratch_folder());
    return to;
}

static void remove_output(void)
{
    char data[320];

    (void)snprintf(data, sizeof data, "%s.data", output());
    remove_path(output());
    remove_path(data);
}

static void open_made(struct vc_ctx *ctx, struct vc_model **model)
{
    struct vc_open_options options;

    vc_open_defaults(&options);
    options.as_onnx = true;
    assert_int_equal(vc_model_open(ctx, scratch_folder(), &options, model), VC_OK);
    assert_string_equal(vc_model_facts(*model)->format, "onnx");
}

/* Rows [first, first + rows) of the folder's tensor, turned if they are not: what the made one has. */
static void check_rows(struct vc_ctx *ctx, const struct vc_model *made, const char *name, const struct vc_model *folder,
                       const char *from, uint64_t first, bool turned)
{
    size_t i = vc_model_find(made, name);
    size_t k = vc_model_find(folder, from);
    const struct vc_tensor *t = vc_model_tensor(made, i);
    uint64_t rows = t->shape[turned ? 1 : 0];
    uint64_t columns = t->shape[turned ? 0 : 1];
    float a[64];
    float b[64];

    assert_int_not_equal(i, VC_NO_TENSOR);
    assert_int_equal(vc_model_tensor(folder, k)->shape[1], columns);
    assert_int_equal(vc_model_read(ctx, made, i, 0, rows * columns, a, sizeof a), VC_OK);
    assert_int_equal(vc_model_read(ctx, folder, k, first * columns, rows * columns, b, sizeof b), VC_OK);
    for (uint64_t r = 0; r < rows; r++) {
        for (uint64_t c = 0; c < columns; c++) {
            assert_true(a[turned ? c * rows + r : r * columns + c] == b[r * columns + c]);
        }
    }
}

static void test_values(void **state)
{
    static const char packed[] = "model.layers.0.self_attn.qkv_proj.weight";
    static const char halves[] = "model.layers.0.mlp.gate_up_proj.weight";
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *made;
    struct vc_model *folder;

    (void)state;
    open_made(ctx, &made);
    assert_int_equal(vc_model_open(ctx, scratch_folder(), NULL, &folder), VC_OK);
    check_rows(ctx, made, "model.embed_tokens.weight", folder, "model.embed_tokens.weight", 0, false);
    check_rows(ctx, made, "model.layers.0.self_attn.q_proj.weight", folder, packed, 0, true);
    check_rows(ctx, made, "model.layers.0.self_attn.k_proj.weight", folder, packed, 4, true);
    check_rows(ctx, made, "model.layers.0.self_attn.v_proj.weight", folder, packed, 6, true);
    check_rows(ctx, made, "model.layers.0.mlp.gate_proj.weight", folder, halves, 0, true);
    check_rows(ctx, made, "model.layers.0.mlp.up_proj.weight", folder, halves, 3, true);
    check_rows(ctx, made, "lm_head.weight", folder, "lm_head.weight", 0, true);
    vc_model_close(folder);
    vc_model_close(made);
    test_ctx_done(ctx);
}

/* Parts of a tensor from any element on, and the bytes that the writer copies, from any byte on. */
static void test_ranges(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    unsigned char whole[256];
    unsigned char part[256];

    (void)state;
    open_made(ctx, &model);
    for (size_t i = 0; i < vc_model_facts(model)->n_tensors; i++) {
        const struct vc_tensor *t = vc_model_tensor(model, i);
        uint64_t n = t->size_bytes;
        uint64_t size = n / t->n_elems;

        assert_int_equal(vc_model_read(ctx, model, i, 0, t->n_elems, whole, sizeof whole), VC_OK);
        for (uint64_t first = 0; first < t->n_elems; first++) {
            for (uint64_t k = 1; first + k <= t->n_elems; k++) {
                assert_int_equal(vc_model_read(ctx, model, i, first, k, part, sizeof part), VC_OK);
                assert_memory_equal(part, whole + first * size, k * size);
            }
        }
        for (uint64_t first = 0; first < n && size == 4; first++) {
            for (uint64_t k = 1; first + k <= n; k += 3) {
                assert_int_equal(vc_source_read_any(ctx, model, i, VC_FORM_VALUES, first, part, k), VC_OK);
                assert_memory_equal(part, whole + first, k);
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
    fail_each_allocation(ctx, scratch_folder(), output(), as_onnx(task_int8()), 100);
    fail_each_read(ctx, scratch_folder(), output(), as_onnx(task_copy()), 10);
    fail_each_write(ctx, scratch_folder(), output(), as_onnx(task_copy()), 10);
    remove_output();
    vc_ctx_free(ctx);
}

/* ---- a folder as the output ---- */

static const char *made_folder(void)
{
    static char to[300];

    (void)snprintf(to, sizeof to, "%s.made", scratch_folder());
    return to;
}

static void fail_alloc(struct vc_ctx *ctx, uint64_t n)
{
    vc_pool_fail_at(ctx->shared->pool, n, 0);
}

static void fail_read(struct vc_ctx *ctx, uint64_t n)
{
    (void)ctx;
    vc_infile_fail_at(n);
}

static void fail_write(struct vc_ctx *ctx, uint64_t n)
{
    (void)ctx;
    vc_outfile_fail_at(n);
}

/* The n-th call fails, n from 1 on, until none does: a failure leaves no folder, and all memory comes back. Some calls
 * that write have another way, so that it goes on behind a success; 100 of these in a row are the end. */
static void fail_each_call(struct vc_ctx *ctx, void (*at)(struct vc_ctx *ctx, uint64_t n), enum vc_status expected)
{
    struct task task = as_onnx(task_copy());
    unsigned n_failed = 0;
    unsigned n_good = 0;
    uint64_t in_use;
    char file[400];

    (void)snprintf(file, sizeof file, "%s/model.onnx", made_folder());
    task.write.format = "onnx";
    must_run(ctx, scratch_folder(), made_folder(), task);
    in_use = vc_pool_in_use(ctx->shared->pool);
    for (uint64_t n = 1; n_good < 100; n++) {
        enum vc_status status;

        remove_path(made_folder());
        at(ctx, n);
        status = run_task(ctx, scratch_folder(), made_folder(), &task);
        at(ctx, 0);
        assert_true(status == VC_OK || status == expected);
        assert_true(status == VC_OK ? exists(made_folder()) : !exists(made_folder()) || at == fail_write);
        if (exists(made_folder())) { /* whole, also where a failure came behind its name */
            vc_model_close(must_open(ctx, file));
        }
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
        n_failed += status != VC_OK;
        n_good = status == VC_OK ? n_good + 1 : 0;
    }
    assert_true(n_failed > 10);
    remove_path(made_folder());
}

static void test_folder(void **state)
{
    static const char generation[] = "{\"eos_token_id\": [2, 4], \"bos_token_id\": 1}";
    struct vc_ctx *ctx = test_ctx();
    struct task task = as_onnx(task_copy());
    char path[400];

    (void)state;
    task.write.format = "onnx";
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    folder_write(scratch_folder(), "generation_config.json", generation, strlen(generation));
    must_run(ctx, scratch_folder(), made_folder(), task);
    (void)snprintf(path, sizeof path, "%s/genai_config.json", made_folder());
    assert_true(holds(path, "\"eos_token_id\": [2, 4]"));
    assert_true(holds(path, "\"num_key_value_heads\": 1"));
    (void)snprintf(path, sizeof path, "%s/config.json", made_folder());
    assert_true(exists(path));
    remove_path(made_folder());
    fail_each_call(ctx, fail_alloc, VC_E_NOMEM);
    fail_each_call(ctx, fail_read, VC_E_IO);
    fail_each_call(ctx, fail_write, VC_E_IO);
    folder_write(scratch_folder(), "generation_config.json", "{", 1);
    must_refuse(ctx, scratch_folder(), made_folder(), task, "generation_config.json");
    folder_write(scratch_folder(), "generation_config.json", generation, strlen(generation));
    folder_write(scratch_folder(), "genai_config.json", "{}", 2);
    must_refuse(ctx, scratch_folder(), made_folder(), task, "genai_config.json: the folder has such a file already");
    vc_ctx_free(ctx);
}

static void test_changed(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    change_each_byte(ctx, scratch_folder(), in_folder("model.safetensors"), output(), as_onnx(task_copy()), 37);
    remove_output();
    vc_ctx_free(ctx);
}

/* Every cut and some flips of config.json: an answer, and all memory back. */
static void test_damage(void **state)
{
    static const char text[] = LLM_PACKED_CONFIG;
    struct vc_ctx *ctx = test_ctx();
    struct vc_open_options options;
    char copy[sizeof text];

    (void)state;
    vc_open_defaults(&options);
    options.as_onnx = true;
    for (size_t i = 0; i < 2 * strlen(text); i++) {
        struct vc_model *model;
        size_t at = i / 2;
        enum vc_status status;

        memcpy(copy, text, sizeof text);
        copy[at] = (char)(copy[at] ^ (i % 3 == 0 ? 1 : i % 3 == 1 ? 4 : 0x80));
        folder_write(scratch_folder(), "config.json", copy, i % 2 == 0 ? at : strlen(text));
        status = vc_model_open(ctx, scratch_folder(), &options, &model);
        if (status != VC_OK && status != VC_E_FORMAT && status != VC_E_UNSUPPORTED) {
            fail_msg("byte %zu: %s", at, vc_ctx_message(ctx));
        }
        vc_model_close(model);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_ranges, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_failures, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_folder, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_changed, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_damage, set_up, scratch_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
