/* test_bin_folder.c - a Hugging Face folder of PyTorch files: one file or shards with an index, what becomes of names,
 * parts and tensors with two names; damage. tests/cli/cases/bin_folder.test has the command's side. */
#include <sys/stat.h>
#include <unistd.h>

#include "folder_builder.h"
#include "formats/formats.h"
#include "torch_files.h"

#define BIN_INDEX "pytorch_model.bin.index.json"
#define SHARD_1   "pytorch_model-00001-of-00002.bin"
#define SHARD_2   "pytorch_model-00002-of-00002.bin"
#define MAP       "\"emb\": \"" SHARD_1 "\", \"head\": \"" SHARD_1 "\", \"l.w\": \"" SHARD_2 "\""
#define MAPPED    "{\"metadata\": {\"total_size\": 33024}, \"weight_map\": {" MAP "}}"

static const size_t weight_bytes[] = {16384};

/* {"emb": f32 (64, 64), "head": the same storage} */
static struct bytes embeddings(void)
{
    struct bytes b = {NULL, 0, 0};

    pk_start(&b);
    pk_raw(&b, "}(");
    entry(&b, "emb", "FloatStorage", "0", 4096, "64,64", "64,1");
    entry(&b, "head", "FloatStorage", "0", 4096, "64,64", "64,1");
    pk_raw(&b, "u.");
    return b;
}

static struct bytes layer(void)
{
    struct bytes b = {NULL, 0, 0};

    pk_start(&b);
    pk_raw(&b, "}(");
    entry(&b, "l.w", "FloatStorage", "0", 64, "8,8", "8,1");
    pk_raw(&b, "u.");
    return b;
}

static void save_pickle(const char *name, struct bytes pickle, const size_t *sizes)
{
    (void)save_own(name, torch_archive(&pickle, "little", sizes, 1, NULL));
    bytes_release(&pickle);
}

static void save_shards(void)
{
    static const size_t small[] = {256};

    save_pickle(SHARD_1, embeddings(), weight_bytes);
    save_pickle(SHARD_2, layer(), small);
    (void)save_text(BIN_INDEX, MAPPED);
}

static int set_up(void **state)
{
    int failed = scratch_make(state);

    if (failed == 0) {
        save_shards();
        (void)save_text("config.json", "{\"model_type\": \"llama\", \"tie_word_embeddings\": true}");
        (void)save_text("tokenizer.json", "{}");
        (void)save_text("training_args.bin", "a pickle of another kind");
    }
    return failed;
}

/* The folder and the index in it: refused with this sentence, "" where they are not. */
static void expect_both(const char *needle)
{
    const char *const paths[] = {scratch_folder(), in_folder(BIN_INDEX)};
    size_t i;

    for (i = 0; i < 2; i++) {
        struct vc_ctx *ctx = test_ctx();
        enum vc_status status = walk_path(ctx, paths[i], NULL);

        if ((status == VC_OK) != (needle[0] == '\0') || strstr(vc_ctx_message(ctx), needle) == NULL) {
            fail_msg("%s, \"%s\": expected \"%s\"", vc_status_name(status), vc_ctx_message(ctx), needle);
        }
        test_ctx_done(ctx);
    }
}

static void test_shards(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = must_open(ctx, scratch_folder());
    unsigned char got[16];

    (void)state;
    assert_string_equal(vc_model_facts(model)->format, "torch");
    assert_string_equal(vc_model_extension(model), "");
    assert_int_equal(vc_model_facts(model)->n_tensors, 3);
    assert_string_equal(vc_model_tensor(model, 2)->name, "l.w");
    assert_int_equal(vc_model_tensor(model, 1)->alias_of, 0);
    assert_int_equal(vc_model_find(model, "l.w"), 2);
    assert_int_equal(vc_model_read(ctx, model, 2, 0, 4, got, sizeof got), VC_OK);
    assert_memory_equal(got, "\0\1\2\3", 4); /* storages count up */
    vc_model_close(model);
    test_ctx_done(ctx);
    expect_both("");
}

/* The folder `to` has exactly these files beside its weights and their index. */
static void expect_files(const char *to, const char *const *names, size_t n)
{
    char path[600];
    size_t i;

    for (i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", to, names[i]);
        if (!exists(path)) {
            fail_msg("%s is not there", path);
        }
    }
    snprintf(path, sizeof path, "%s/training_args.bin", to);
    assert_false(exists(path));
    snprintf(path, sizeof path, "%s/" SHARD_1, to);
    assert_false(exists(path));
    snprintf(path, sizeof path, "%s/" BIN_INDEX, to);
    assert_false(exists(path));
}

static size_t count_tensors(const char *path)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = must_open(ctx, path);
    size_t n = vc_model_facts(model)->n_tensors;
    size_t i;

    assert_string_equal(vc_model_facts(model)->format, "safetensors");
    for (i = n; i > 0; i--) {
        n -= vc_model_tensor(model, i - 1)->alias_of != VC_NO_TENSOR;
    }
    vc_model_close(model);
    test_ctx_done(ctx);
    return n;
}

/* Shards stay shards, under the names that loaders of safetensors look for. A tensor of two names is written once where
 * config.json ties them, twice where it says that they are two. */
static void test_outputs(void **state)
{
    static const char *const divided[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                          "model.safetensors.index.json", "config.json", "tokenizer.json"};
    static const char *const whole[] = {"model.safetensors", "config.json", "tokenizer.json"};
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_copy();
    char to[300];

    (void)state;
    snprintf(to, sizeof to, "%s.out", scratch_folder());
    must_run(ctx, scratch_folder(), to, task);
    expect_files(to, divided, 5);
    assert_int_equal(count_tensors(to), 2);
    assert_non_null(strstr(last_report.note, "left behind: training_args.bin"));
    remove_path(to);
    task.write.max_shard_bytes = 1 << 20;
    must_run(ctx, in_folder(BIN_INDEX), to, task);
    expect_files(to, whole, 3);
    remove_path(to);
    (void)save_text("config.json", "{\"model_type\": \"llama\", \"tie_word_embeddings\": false}");
    must_run(ctx, scratch_folder(), to, task_copy());
    assert_int_equal(count_tensors(to), 3);
    remove_path(to);
    snprintf(to, sizeof to, "%s.safetensors", scratch_folder());
    must_run(ctx, scratch_folder(), to, task_copy()); /* one file */
    assert_int_equal(count_tensors(to), 2);
    remove_path(to);
    vc_ctx_free(ctx);
}

static void test_one_file(void **state)
{
    static const char *const whole[] = {"model.safetensors", "config.json", "tokenizer.json"};
    struct vc_ctx *ctx = test_ctx();
    char to[300];

    (void)state;
    snprintf(to, sizeof to, "%s.out", scratch_folder());
    assert_int_equal(rename(in_folder(SHARD_1), in_folder("pytorch_model.bin")), 0);
    (void)unlink(in_folder(SHARD_2));
    (void)unlink(in_folder(BIN_INDEX));
    must_run(ctx, scratch_folder(), to, task_int8());
    expect_files(to, whole, 3);
    assert_false(exists(in_folder("model.safetensors.index.json")));
    remove_path(to);
    (void)save_text("adapter_model.bin", "nothing"); /* the usual name decides */
    assert_int_equal(walk_path(ctx, scratch_folder(), NULL), VC_OK);
    assert_int_equal(rename(in_folder("pytorch_model.bin"), in_folder("pytorch_model.ema.bin")), 0);
    must_refuse(ctx, scratch_folder(), to, task_copy(), "is a folder with 2 PyTorch files");
    assert_int_equal(rename(in_folder("pytorch_model.ema.bin"), in_folder("diffusion_pytorch_model.bin")), 0);
    must_run(ctx, scratch_folder(), to, task_copy());
    snprintf(to, sizeof to, "%s.out/diffusion_pytorch_model.safetensors", scratch_folder());
    assert_true(exists(to));
    snprintf(to, sizeof to, "%s.out", scratch_folder());
    remove_path(to);
    vc_ctx_free(ctx);
}

/* Safetensors are read where there are both, and a note says so. */
static void test_both(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    bool said = false;
    size_t i;

    (void)state;
    folder_fill(scratch_folder());
    (void)save_text(FOLDER_INDEX, FOLDER_MAPPED);
    (void)unlink(in_folder("config.json"));
    model = must_open(ctx, scratch_folder());
    assert_string_equal(vc_model_facts(model)->format, "safetensors");
    for (i = 0; i < vc_model_facts(model)->n_facts; i++) {
        said = said || strstr(vc_model_facts(model)->facts[i].value, "not the weights in " SHARD_1) != NULL;
    }
    assert_true(said);
    vc_model_close(model);
    model = must_open(ctx, in_folder(BIN_INDEX)); /* unless the other index is given */
    assert_string_equal(vc_model_facts(model)->format, "torch");
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void test_refused(void **state)
{
    struct bytes matrix = npy_matrix(3, 4);

    (void)state;
    (void)save_text(BIN_INDEX, "{\"weight_map\": {" MAP ", \"x\": \"" SHARD_2 "\"}}");
    expect_both("x: " BIN_INDEX " has it in " SHARD_2 ", which does not hold it");
    (void)save_text(BIN_INDEX, "{\"weight_map\": {\"emb\": \"" SHARD_1 "\", \"l.w\": \"" SHARD_2 "\"}}");
    expect_both("head: lies in " SHARD_1 ", but " BIN_INDEX " does not have it");
    (void)save_text(BIN_INDEX, "{\"weight_map\": {" MAP ", \"x\": \"../" SHARD_2 "\"}}");
    expect_both("../" SHARD_2);
    (void)save_text(BIN_INDEX, "{");
    expect_both("no valid JSON");
    (void)save_text(BIN_INDEX, MAPPED);
    save_own(SHARD_2, matrix);
    expect_both(SHARD_2 ": is npy by its content, expected torch");
    save_pickle(SHARD_2, embeddings(), weight_bytes);
    expect_both("'emb' occurs twice");
    (void)save_text(SHARD_2, "hello");
    expect_both(SHARD_2 ": is a text file");
    (void)unlink(in_folder(SHARD_2));
    expect_both(SHARD_2 ": is not there, but " BIN_INDEX " names it");
    (void)unlink(in_folder(BIN_INDEX));
}

static struct vc_verification *verify(struct vc_ctx *ctx)
{
    struct vc_verify_options options = support_verify(true);
    struct vc_verification *found = NULL;

    assert_int_equal(vc_verify(ctx, scratch_folder(), &options, &found), VC_OK);
    return found;
}

/* verify lists what is wrong with one file and looks at the other. */
static void test_findings(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_verification *found;
    struct bytes b;

    (void)state;
    found = verify(ctx);
    assert_int_equal(found->n_errors, 0);
    vc_result_free(found);
    b = load(SHARD_1);
    b.p[b.n / 2] ^= 1; /* a value */
    (void)save_own(SHARD_1, b);
    (void)unlink(in_folder(SHARD_2));
    found = verify(ctx);
    assert_int_equal(found->n_errors, 1);
    assert_string_equal(found->findings[0].id, "shard");
    assert_int_equal(found->n_warnings, 1);
    assert_string_equal(found->findings[1].id, "checksum");
    vc_result_free(found);
    vc_ctx_free(ctx); /* keeps the kernels */
}

/* Every cut and some flips of the index: an answer, and all memory back. */
static void test_cuts_and_flips(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    size_t n = strlen(MAPPED);
    size_t i;

    (void)state;
    for (i = 0; i < n; i++) {
        char copy[] = MAPPED;

        folder_write(scratch_folder(), BIN_INDEX, copy, i);
        assert_int_not_equal(walk_path(ctx, scratch_folder(), NULL), VC_OK);
        copy[i] = (char)(copy[i] ^ 1);
        folder_write(scratch_folder(), BIN_INDEX, copy, n);
        (void)walk_path(ctx, scratch_folder(), NULL);
        assert_true(ctx->status == VC_OK || ctx->status == VC_E_FORMAT || ctx->status == VC_E_UNSUPPORTED);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    test_ctx_done(ctx);
}

static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    char to[300];

    (void)state;
    snprintf(to, sizeof to, "%s.out", scratch_folder());
    fail_each_allocation(ctx, scratch_folder(), to, task_int8(), 100);
    remove_path(to);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shards, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_outputs, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_one_file, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_both, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_refused, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_findings, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_cuts_and_flips, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_allocations, set_up, scratch_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
