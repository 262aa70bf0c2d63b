/* test_model_sizes.c - what a configuration states about sizes (vc_program_says) and what it will state once sizes have
 * changed (vc_program_edit): of a config.json, of the keys of GGUF, and of programs that state none. */
#include "support.h"

#include "formats/gguf/gguf.h"
#include "formats/huggingface/hf_program.h"

static const int64_t inner[] = {8, 8, 16, 8};
static const int64_t turns[] = {1, 2, 3, 4};
static const struct vc_program_key pairs[] = {
    {.key = "unnamed", .is_number = true, .is_integer = true, .integer = 4, .number = 4},
    {.key = "general.name", .is_text = true, .text = "4"},
    {.key = "llama.block_count", .is_number = true, .is_integer = true, .integer = 4, .number = 4},
    {.key = "llama.leading_dense_block_count", .is_number = true, .is_integer = true, .integer = 3, .number = 3},
    {.key = "llama.feed_forward_length", .n = 4, .integers = inner},
    {.key = "llama.rope.sections", .n = 4, .integers = turns},
    {.key = "llama.expert_count", .is_number = true, .is_integer = true, .integer = -1, .number = -1},
};

static const char config[] = "{\"num_hidden_layers\": 4, \"intermediate_size\": 8}";
static const uint64_t dropped[] = {1, 2};
static const struct vc_edit edits[] = {
    {.key = VC_EDIT_LAYERS, .before = 4, .after = 2, .n_dropped = 2, .dropped = dropped},
    {.key = VC_EDIT_INTERMEDIATE, .before = 8, .after = 6},
};

static struct vc_program of_keys(void)
{
    return (struct vc_program){.kind = VC_PROGRAM_KEYS,
                               .n_keys = sizeof pairs / sizeof pairs[0],
                               .keys = pairs,
                               .sizes = &vc_gguf_program_sizes};
}

static struct vc_program of_config(void)
{
    return (struct vc_program){
        .kind = VC_PROGRAM_CONFIG, .config = config, .config_bytes = sizeof config - 1, .sizes = &vc_hf_program_sizes};
}

static bool says(struct vc_program program, enum vc_edit_key key, uint64_t number)
{
    struct vc_ctx *ctx = test_ctx();
    bool found = true;

    assert_int_equal(vc_program_says(ctx, &program, key, number, &found), VC_OK);
    test_ctx_done(ctx);
    return found;
}

static void test_says(void **unused)
{
    struct vc_program none = {.kind = VC_PROGRAM_NONE};

    (void)unused;
    assert_true(says(of_config(), VC_EDIT_LAYERS, 4));
    assert_false(says(of_config(), VC_EDIT_LAYERS, 8));
    assert_true(says(of_config(), VC_EDIT_INTERMEDIATE, 8));
    assert_true(says(of_keys(), VC_EDIT_LAYERS, 4));
    assert_false(says(of_keys(), VC_EDIT_LAYERS, 3));
    assert_true(says(of_keys(), VC_EDIT_INTERMEDIATE, 16)); /* of some layers */
    assert_false(says(of_keys(), VC_EDIT_INTERMEDIATE, 4));
    assert_false(says(of_keys(), VC_EDIT_EXPERTS, UINT64_MAX));
    assert_false(says(of_keys(), VC_EDIT_HIDDEN, 4));
    assert_false(says(none, VC_EDIT_LAYERS, 4));
}

static void check_keys(const struct vc_program *program)
{
    assert_int_equal(program->n_keys, sizeof pairs / sizeof pairs[0]);
    assert_int_equal(program->keys[0].integer, 4);
    assert_string_equal(program->keys[1].text, "4");
    assert_int_equal(program->keys[2].integer, 2);
    assert_true(program->keys[2].number == 2.0);
    assert_int_equal(program->keys[3].integer, 1); /* of the first three one is left */
    assert_int_equal(program->keys[4].n, 2);
    assert_int_equal(program->keys[4].integers[0], 6);
    assert_int_equal(program->keys[4].integers[1], 6);
    assert_int_equal(program->keys[5].n, 4); /* not by layer */
    assert_int_equal(program->keys[5].integers[3], 4);
    assert_int_equal(program->keys[6].integer, -1);
}

/* With each allocation failing in turn, and then with none. */
static void test_edit(void **unused)
{
    unsigned kind;

    (void)unused;
    for (kind = 0; kind < 2; kind++) {
        enum vc_status status = VC_E_NOMEM;
        uint64_t n;

        for (n = 1; status != VC_OK; n++) {
            struct vc_ctx *ctx = test_ctx();
            struct vc_program program = kind == 0 ? of_keys() : of_config();
            struct vc_arena arena = {0};

            vc_pool_fail_at(ctx->shared->pool, n, 0);
            status = vc_program_edit(ctx, edits, 2, &arena, &program);
            vc_pool_fail_at(ctx->shared->pool, 0, 0);
            assert_true(status == VC_OK || status == VC_E_NOMEM);
            if (status == VC_OK && kind == 0) {
                check_keys(&program);
            } else if (status == VC_OK) {
                assert_string_equal(program.config, "{\"num_hidden_layers\": 2, \"intermediate_size\": 6}");
                assert_int_equal(program.config_bytes, sizeof config - 1);
            }
            vc_arena_release(ctx, &arena);
            test_ctx_done(ctx);
        }
        assert_true(n > 2);
    }
}

static void test_others(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_program none = {.kind = VC_PROGRAM_NONE};
    struct vc_program other = of_config();
    struct vc_arena arena = {0};
    const struct vc_edit wrong = {.key = VC_EDIT_INTERMEDIATE, .before = 7, .after = 6};

    (void)unused;
    assert_int_equal(vc_program_edit(ctx, edits, 2, &arena, &none), VC_OK);
    assert_int_equal(none.kind, VC_PROGRAM_NONE);
    assert_int_equal(vc_program_edit(ctx, &wrong, 1, &arena, &other), VC_E_UNSUPPORTED);
    expect_says(ctx, "7");
    assert_ptr_equal(other.config, config);
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_says), cmocka_unit_test(test_edit),
                                       cmocka_unit_test(test_others)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
