/* test_gguf_folder.c - a folder as the GGUF model that llama.cpp runs, where things fail: every allocation, read and
 * write; a file that is changed meanwhile; every cut and many flips of config.json and of the tokenizers. What comes
 * out when nothing fails is tests/cli/test_gguf_folder.py's. */
#include "formats_test.h"

#include <unistd.h>

#include "folder_builder.h"
#include "gguf_builder.h"
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
    assert_string_equal(vc_model_facts(model)->format, "gguf");
    assert_int_equal(vc_model_facts(model)->n_tensors, 13);
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
    for (size_t i = 0; i < vc_model_facts(model)->n_tensors; i++) {
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
    assert_int_equal(vc_model_facts(again)->n_tensors, vc_model_facts(there)->n_tensors);
    for (size_t i = 0; i < vc_model_facts(there)->n_tensors; i++) {
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

/* ---- codes of blocks ---- */

/* A layer of llama in blocks: hidden size 128, two heads. Scales count up from 0x0100, and codes, too. */
static void write_blocks(void)
{
    static const struct {
        const char *name;
        uint32_t type; /* F32, Q4_0, Q8_0, MXFP4, NVFP4 */
        uint32_t n_dims;
        uint64_t dims[2];
        size_t n;
    } tensors[] = {
        {"token_embd.weight", 0, 2, {128, 3}, 3 * 512},       {"output_norm.weight", 0, 1, {128, 1}, 512},
        {"blk.0.attn_norm.weight", 0, 1, {128, 1}, 512},      {"blk.0.ffn_norm.weight", 0, 1, {128, 1}, 512},
        {"blk.0.attn_q.weight", 2, 2, {128, 128}, 128 * 72},  {"blk.0.attn_k.weight", 8, 2, {128, 128}, 128 * 136},
        {"blk.0.attn_v.weight", 39, 2, {128, 128}, 128 * 68}, {"blk.0.attn_output.weight", 40, 2, {128, 128}, 128 * 72},
        {"blk.0.attn_output.scale", 0, 1, {1, 1}, 4},         {"blk.0.ffn_gate.weight", 40, 2, {128, 64}, 64 * 72},
        {"blk.0.ffn_up.weight", 2, 2, {128, 64}, 64 * 72},    {"blk.0.ffn_down.weight", 2, 2, {64, 128}, 128 * 36}};
    const float epsilon = 1e-5F;
    struct gguf_builder g = {.version = 0};
    struct bytes file;

    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_pair_u32(&g, "llama.block_count", 1);
    gguf_pair_u32(&g, "llama.context_length", 16);
    gguf_pair_u32(&g, "llama.embedding_length", 128);
    gguf_pair_u32(&g, "llama.feed_forward_length", 64);
    gguf_pair_u32(&g, "llama.attention.head_count", 2);
    gguf_pair(&g, "llama.attention.layer_norm_rms_epsilon", 6, &epsilon, sizeof epsilon);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        gguf_tensor(&g, tensors[i].name, tensors[i].type, tensors[i].n_dims, tensors[i].dims, tensors[i].n);
    }
    file = gguf_finish(&g);
    folder_write(scratch_folder(), "blocks.gguf", file.p, file.n);
    bytes_release(&file);
}

/* Element i of a block of that type as its file has it: the code, without what Q4_0 adds. */
static unsigned code_of(enum vc_scheme scheme, const unsigned char *block, size_t i)
{
    size_t half = scheme == VC_SCHEME_NVFP4 ? 8 : 16;
    size_t first = scheme == VC_SCHEME_NVFP4 ? 4 : scheme == VC_SCHEME_MXFP4 ? 1 : 2;
    unsigned code = block[first + (scheme == VC_SCHEME_INT8 ? i : i / (2 * half) * half + i % half)];

    return scheme == VC_SCHEME_INT8
               ? code
               : ((i % (2 * half) < half ? code : code >> 4) & 15U) ^ (scheme == VC_SCHEME_INT4 ? 8U : 0U);
}

/* The codes and scales of a tensor against the blocks of the file, whose bytes count up to 63; then parts of each from
 * any byte on. permuted: rows 0, 32, 1, 33, ... of each head are 0, 1, 2, ... in the file. */
static void check_codes(struct vc_ctx *ctx, const struct vc_model *model, const char *name, bool permuted)
{
    static unsigned char codes[128 * 128];
    static unsigned char scales[128 * 8];
    unsigned char part[256];
    size_t index = vc_model_find(model, name);
    const struct vc_tensor *t = vc_model_tensor(model, index);
    const struct vc_quant *q = t->quant;
    size_t elems = q->scheme == VC_SCHEME_NVFP4 ? 64 : 32;
    size_t n_scales = q->scheme == VC_SCHEME_NVFP4 ? 4 : q->scheme == VC_SCHEME_MXFP4 ? 1 : 2;
    size_t n_block = n_scales + (q->scheme == VC_SCHEME_INT8 ? 32 : elems / 2);
    size_t in_row = (size_t)t->shape[1] / elems;
    size_t scale = vc_quant_scale(q);
    const struct vc_tensor *s = vc_model_tensor(model, scale);

    assert_int_equal(vc_model_read(ctx, model, index, 0, t->n_elems, codes, sizeof codes), VC_OK);
    assert_int_equal(vc_model_read(ctx, model, scale, 0, s->n_elems, scales, sizeof scales), VC_OK);
    for (size_t r = 0; r < t->shape[0]; r++) {
        size_t from = permuted ? r / 64 * 64 + r % 64 % 32 * 2 + r % 64 / 32 : r;

        for (size_t b = 0; b < in_row; b++) {
            unsigned char block[36];

            for (size_t i = 0; i < n_block; i++) {
                block[i] = (unsigned char)(((from * in_row + b) * n_block + i) & 0x3f);
            }
            assert_memory_equal(scales + (r * in_row + b) * n_scales, block, n_scales);
            for (size_t i = 0; i < elems; i++) {
                size_t at = (r * in_row + b) * elems + i;
                unsigned code = q->scheme == VC_SCHEME_INT8 ? codes[at] : codes[at / 2] >> at % 2 * 4 & 15U;

                assert_int_equal(code, code_of(q->scheme, block, i));
            }
        }
    }
    for (uint64_t first = 0; first + 200 < s->n_elems; first += 7) {
        size_t size = (size_t)(s->size_bytes / s->n_elems);

        assert_int_equal(vc_model_read(ctx, model, scale, first, 100, part, sizeof part), VC_OK);
        assert_memory_equal(part, scales + first * size, 100 * size);
    }
    for (uint64_t first = 0; first + 200 < t->n_elems; first += 14) {
        size_t per = q->scheme == VC_SCHEME_INT8 ? 1 : 2;

        assert_int_equal(vc_model_read(ctx, model, index, first, 150, part, sizeof part), VC_OK);
        assert_memory_equal(part, codes + first / per, 150 / per);
    }
}

static void test_codes(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = as_folder(task_copy());
    struct vc_model *model;
    float number;

    (void)state;
    write_blocks();
    task.open.gguf_no_vocab = true;
    assert_int_equal(vc_model_open(ctx, in_folder("blocks.gguf"), &task.open, &model), VC_OK);
    check_codes(ctx, model, "model.layers.0.self_attn.q_proj.weight", true);
    check_codes(ctx, model, "model.layers.0.self_attn.k_proj.weight", true);
    check_codes(ctx, model, "model.layers.0.self_attn.v_proj.weight", false);
    check_codes(ctx, model, "model.layers.0.self_attn.o_proj.weight", false);
    check_codes(ctx, model, "model.layers.0.mlp.gate_proj.weight", false);
    check_codes(ctx, model, "model.layers.0.mlp.down_proj.weight", false);
    assert_int_equal(vc_model_read(ctx, model, vc_model_find(model, "model.layers.0.mlp.gate_proj.weight_global_scale"),
                                   0, 1, &number, sizeof number),
                     VC_OK);
    assert_true(number == 1.0F); /* there is no number beside the blocks */
    vc_model_close(model);
    fail_each_allocation(ctx, in_folder("blocks.gguf"), back(), task, 100);
    fail_each_read(ctx, in_folder("blocks.gguf"), back(), task, 5);
    remove_path(back());
    damage_each_byte(ctx, in_folder("blocks.gguf"), in_folder("blocks.gguf"), back(), task, 97);
    remove_path(back());
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
        cmocka_unit_test_setup_teardown(test_codes, set_up, scratch_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
