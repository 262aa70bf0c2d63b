/* test_gguf_split.c - a GGUF model in several files: any of them opens all; what their metadata has to say; damage
 * to each; copies, divided and joined, are the bytes that gguf_builder.c makes; failing allocations.
 * tests/judge/test_gguf.py has the command's side. */
#include "formats/formats.h"
#include "formats_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder_builder.h"
#include "gguf_builder.h"
#include "tasks.h"

#define N_FILES 3

static const char *shard_name(unsigned i)
{
    static char names[4][64];
    static unsigned next;
    char *name = names[next++ % 4];

    snprintf(name, sizeof names[0], "m-%05u-of-%05u.gguf", i + 1, N_FILES);
    return name;
}

static void add_split(struct gguf_builder *g, unsigned no, unsigned count, unsigned n_tensors)
{
    unsigned char v[4] = {(unsigned char)no, 0, 0, 0};

    gguf_pair(g, "split.no", 2, v, 2);
    v[0] = (unsigned char)count;
    gguf_pair(g, "split.count", 2, v, 2);
    v[0] = (unsigned char)n_tensors;
    gguf_pair(g, "split.tensors.count", 5, v, 4);
}

/* Two tensors each, but none in the first, as llama.cpp's tool can write it. */
static struct bytes make_shard(unsigned i, unsigned no, unsigned count, unsigned n_tensors)
{
    static const uint64_t dims[] = {32, 4};
    struct gguf_builder g = {0};
    char name[32];
    unsigned k;

    if (i == 0) {
        gguf_pair_string(&g, "general.architecture", "llama");
        gguf_pair_u32(&g, "general.file_type", 0);
    }
    add_split(&g, no, count, n_tensors);
    for (k = 0; k < 2 && i != 0; k++) {
        snprintf(name, sizeof name, "blk.%u.w%u.weight", i, k);
        gguf_tensor(&g, name, 0, 2, dims, 512);
    }
    return gguf_finish(&g);
}

static void write_shard(unsigned i, unsigned no, unsigned count, unsigned n_tensors)
{
    struct bytes b = make_shard(i, no, count, n_tensors);

    folder_write(scratch_folder(), shard_name(i), b.p, b.n);
    bytes_release(&b);
}

static int set_up(void **state)
{
    int failed = scratch_make(state);
    unsigned i;

    for (i = 0; i < N_FILES && failed == 0; i++) {
        write_shard(i, i, N_FILES, 4);
    }
    return failed;
}

static const char *fact(const struct vc_model *model, const char *key)
{
    size_t i;

    for (i = 0; i < model->n_facts; i++) {
        if (strcmp(model->facts[i].key, key) == 0) {
            return model->facts[i].value;
        }
    }
    return "";
}

static void expect_model(const char *name, size_t n_tensors, const char *shards)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;

    if (vc_model_open(ctx, in_folder(name), NULL, &model) != VC_OK || walk_model(ctx, model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_int_equal(vc_model_facts(model)->n_tensors, n_tensors);
    assert_string_equal(fact(model, "shards"), shards);
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void expect_refused(enum vc_status status, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();

    if (walk_path(ctx, in_folder(shard_name(1)), NULL) != status || strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("%s, \"%s\" does not say \"%s\"", vc_status_name(ctx->status), vc_ctx_message(ctx), needle);
    }
    test_ctx_done(ctx);
}

static void expect_refused_file(const char *name, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();

    if (walk_path(ctx, in_folder(name), NULL) != VC_E_FORMAT || strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("%s, \"%s\" does not say \"%s\"", vc_status_name(ctx->status), vc_ctx_message(ctx), needle);
    }
    test_ctx_done(ctx);
}

static void test_any_opens_all(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    unsigned i;

    (void)state;
    for (i = 0; i < N_FILES; i++) {
        expect_model(shard_name(i), 4, "3 files");
    }
    assert_int_equal(vc_model_open(ctx, in_folder(shard_name(2)), NULL, &model), VC_OK);
    assert_string_equal(vc_model_tensor(model, 0)->name, "blk.1.w0.weight");
    assert_string_equal(vc_model_tensor(model, 3)->name, "blk.2.w1.weight");
    assert_string_equal(fact(model, "architecture"), "llama");
    assert_string_equal(vc_model_extension(model), "");
    vc_model_close(model);
    test_ctx_done(ctx);
}

/* Alone: by its name, or by its metadata. */
static void test_alone(void **state)
{
    struct bytes b = make_shard(2, 2, N_FILES, 4);

    (void)state;
    folder_write(scratch_folder(), "lone.gguf", b.p, b.n);
    expect_refused_file("lone.gguf", "lone.gguf: is number 3 of 3 files (split.no, split.count)");
    folder_write(scratch_folder(), "m-00004-of-00003.gguf", b.p, b.n);
    expect_refused_file("m-00004-of-00003.gguf", "is number 3 of 3 files");
    bytes_release(&b);
    b = make_shard(0, 0, N_FILES, 4); /* the first, which has all metadata and is most easily taken for the whole */
    folder_write(scratch_folder(), "first.gguf", b.p, b.n);
    expect_refused_file("first.gguf", "such as model-00001-of-00003.gguf, beside the others");
    bytes_release(&b);
    b = make_shard(2, 0, 1, 2);
    folder_write(scratch_folder(), "x-00001-of-00002.gguf", b.p, b.n);
    expect_model("x-00001-of-00002.gguf", 2, "");
    bytes_release(&b);
}

static void test_refused(void **state)
{
    struct bytes b;

    (void)state;
    write_shard(2, 1, N_FILES, 4);
    expect_refused(VC_E_FORMAT, "m-00003-of-00003.gguf: its split.no is 1 and its split.count 3, expected 2 and 3");
    write_shard(2, 2, 4, 4);
    expect_refused(VC_E_FORMAT, "its split.count 4");
    write_shard(2, 2, N_FILES, 4);
    write_shard(0, 0, N_FILES, 5);
    expect_refused(VC_E_FORMAT, "has 4 tensors in 3 files, but its split.tensors.count is 5");
    write_shard(0, 0, N_FILES, 4);
    write_shard(1, 1, 2, 4);
    expect_refused(VC_E_FORMAT, "its name says that it is one of 3 files, its metadata of 2");
    write_shard(1, 1, N_FILES, 4);
    folder_write(scratch_folder(), shard_name(2), "GGUF", 4);
    expect_refused(VC_E_FORMAT, "m-00003-of-00003.gguf: ends inside");
    folder_write(scratch_folder(), shard_name(2), "version https://git-lfs.github.com/spec/v1\n", 43);
    expect_refused(VC_E_UNSUPPORTED, "m-00003-of-00003.gguf: is a Git LFS pointer");
    write_shard(1, 2, N_FILES, 4);
    assert_int_equal(rename(in_folder(shard_name(1)), in_folder(shard_name(2))), 0);
    write_shard(2, 2, N_FILES, 4);
    expect_refused(VC_E_IO, "cannot open");
    write_shard(1, 1, N_FILES, 4);
    assert_int_equal(unlink(in_folder(shard_name(2))), 0);
    expect_refused(VC_E_FORMAT, "m-00003-of-00003.gguf: is not there, but m-00002-of-00003.gguf names it");
    assert_int_equal(symlink("m-00002-of-00003.gguf", in_folder(shard_name(2))), 0);
    expect_refused(VC_E_FORMAT, "m-00003-of-00003.gguf: its split.no is 1");
    remove_path(shard_name(2));
    b = make_shard(1, 2, N_FILES, 4);
    folder_write(scratch_folder(), shard_name(2), b.p, b.n);
    bytes_release(&b);
    expect_refused(VC_E_FORMAT, "tensor 'blk.1.w0.weight' occurs twice");
}

static void test_cuts_and_flips(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned i;

    (void)state;
    for (i = 0; i < N_FILES; i++) {
        struct bytes b = make_shard(i, i, N_FILES, 4);
        size_t head = b.n < 400 ? b.n : 400;
        size_t at;

        for (at = 0; at < head; at++) {
            folder_write(scratch_folder(), shard_name(i), b.p, at);
            (void)walk_path(ctx, in_folder(shard_name(1)), NULL);
            assert_true(ctx->status == VC_E_FORMAT || ctx->status == VC_E_UNSUPPORTED || (i == 0 && at > 100));
            b.p[at] ^= (unsigned char)(1U << at % 8);
            folder_write(scratch_folder(), shard_name(i), b.p, b.n);
            (void)walk_path(ctx, in_folder(shard_name(1)), NULL);
            assert_true(ctx->status == VC_OK || ctx->status == VC_E_FORMAT || ctx->status == VC_E_UNSUPPORTED);
            b.p[at] ^= (unsigned char)(1U << at % 8);
            assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        }
        folder_write(scratch_folder(), shard_name(i), b.p, b.n);
        bytes_release(&b);
    }
    test_ctx_done(ctx);
}

/* All that is wrong at once, and the rest is looked at. */
static void test_verify(void **state)
{
    struct vc_verify_options options = support_verify(true);
    struct vc_ctx *ctx = test_ctx();
    struct vc_verification *v = NULL;

    (void)state;
    assert_int_equal(vc_verify(ctx, in_folder(shard_name(1)), &options, &v), VC_OK);
    assert_int_equal(v->n_errors, 0);
    vc_result_free(v);
    remove_path(shard_name(0));
    folder_write(scratch_folder(), shard_name(2), "GGUF", 4);
    assert_int_equal(vc_verify(ctx, in_folder(shard_name(1)), &options, &v), VC_OK);
    assert_true(v->n_errors >= 2);
    assert_string_equal(v->findings[0].id, "shard");
    vc_result_free(v);
    vc_ctx_free(ctx);
}

/* The first of the files, or the folder where the division is to change. */
static const char *source(uint64_t max_shard_bytes)
{
    return max_shard_bytes != 0 ? scratch_folder() : shard_name(1);
}

static struct task divided(bool int8, uint64_t max_shard_bytes)
{
    struct task task = int8 ? task_int8() : task_copy();

    task.write.force = false;
    task.write.max_shard_bytes = max_shard_bytes;
    return task;
}

static enum vc_status convert(struct vc_ctx *ctx, const char *to, bool int8, uint64_t max_shard_bytes)
{
    const struct task task = divided(int8, max_shard_bytes);

    return run_task(ctx, source(max_shard_bytes), to, &task);
}

/* Not whole: the file may be longer, by the padding that one without tensors can do without. */
static void expect_bytes(const char *path, const struct bytes *want, bool whole)
{
    FILE *f = fopen(path, "rb");
    unsigned char *got = malloc(want->n + 1);

    assert_non_null(f);
    assert_non_null(got);
    assert_true(fread(got, 1, want->n + 1, f) == want->n || !whole);
    assert_memory_equal(got, want->p, want->n);
    fclose(f);
    free(got);
}

/* A copy has the same files; in one file the pairs of the division are gone. */
static void test_copy(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    char to[300];
    unsigned i;

    (void)state;
    snprintf(to, sizeof to, "%s/m", scratch_folder()); /* so that they have the same names */
    if (convert(ctx, to, false, 0) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    for (i = 0; i < N_FILES; i++) {
        struct bytes b = make_shard(i, i, N_FILES, 4);
        char path[400];

        snprintf(path, sizeof path, "%s/%s", to, shard_name(i));
        expect_bytes(path, &b, i != 0);
        bytes_release(&b);
    }
    remove_path(to);
    assert_int_equal(convert(ctx, in_folder("one.gguf"), false, 0), VC_OK);
    assert_int_equal(vc_model_open(ctx, in_folder("one.gguf"), NULL, &model), VC_OK);
    assert_int_equal(vc_model_facts(model)->n_tensors, 4);
    assert_string_equal(fact(model, "metadata"), "2 pairs");
    vc_model_close(model);
    assert_int_equal(convert(ctx, in_folder("a-00001-of-00002.gguf"), false, 0), VC_E_ARGUMENT);
    assert_int_equal(convert(ctx, scratch_folder(), false, 0), VC_E_ARGUMENT);
    test_ctx_done(ctx);
}

/* The files of one worker of two. */
static enum vc_status run_worker(struct vc_ctx *ctx, const char *to, unsigned shard, enum vc_nonfinite nonfinite)
{
    struct vc_write_options write = support_write(to);
    struct vc_quantize_options quantize = support_quantize();
    struct vc_model *model = must_open(ctx, shard_name(1));
    struct vc_job *job = NULL;
    enum vc_status status;

    write.shard = shard;
    write.n_shards = 2;
    quantize.nonfinite = nonfinite;
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(vc_job_add_quantize(ctx, job, &quantize));
    VC_TRY(vc_job_plan(ctx, job, &write));
    VC_TRY(vc_job_run(ctx, job));
out:
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

/* Two workers, the first and the third file for one: together the files of one run. */
static void test_workers(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    char whole[300];
    char parts[300];
    unsigned i;

    (void)state;
    snprintf(whole, sizeof whole, "%s/m", scratch_folder()); /* so that they have the same names */
    snprintf(parts, sizeof parts, "%s/p/m", scratch_folder());
    assert_int_equal(mkdir(in_folder("p"), 0700), 0);
    must_run(ctx, shard_name(1), whole, divided(true, 0));
    for (i = 2; i != 0; i--) {
        if (run_worker(ctx, parts, i, VC_NONFINITE_ERROR) != VC_OK) {
            fail_msg("worker %u: %s", i, vc_ctx_message(ctx));
        }
    }
    for (i = 0; i < N_FILES; i++) {
        char path[400];
        char other[400];

        snprintf(path, sizeof path, "%s/%s", whole, shard_name(i));
        snprintf(other, sizeof other, "%s/%s", parts, shard_name(i));
        expect_same(path, other);
    }
    remove_path(parts);
    assert_int_equal(run_worker(ctx, parts, 1, VC_NONFINITE_KEEP), VC_E_UNSUPPORTED);
    assert_non_null(strstr(vc_ctx_message(ctx), "not known before other workers' weights"));
    vc_ctx_free(ctx);
}

/* The n-th allocation fails, for every n, as divided and divided anew (then the folder is given). */
static void test_allocations(void **state)
{
    static const uint64_t sizes[] = {0, 200};
    struct vc_ctx *ctx = test_ctx();
    char to[300];
    size_t i;

    (void)state;
    folder_write(scratch_folder(), "notes.bin", "weights of another kind", 23);
    snprintf(to, sizeof to, "%s.out", scratch_folder());
    for (i = 0; i < 2; i++) {
        fail_each_allocation(ctx, source(sizes[i]), to, divided(true, sizes[i]), 50);
        remove_path(to);
    }
    vc_ctx_free(ctx);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, scratch_clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_any_opens_all), TEST(test_alone), TEST(test_refused), TEST(test_cuts_and_flips),
        TEST(test_verify),        TEST(test_copy),  TEST(test_workers), TEST(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
