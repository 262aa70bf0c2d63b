/* test_index.c - the index of files that are there: its name and text, files that are missing or do not belong
 * together, workers of one job and of two; failing allocations and disks leave the older index. */
#include "formats_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder_builder.h"
#include "formats/io/outfile.h"
#include "tasks.h"

/* A file with one tensor of that name and these metadata. */
static void write_one(const char *file, const char *tensor, const char *metadata)
{
    struct bytes b = {NULL, 0, 0};
    char header[512];

    snprintf(header, sizeof header,
             "{\"__metadata__\":{%s},\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", metadata,
             tensor);
    bytes_u64(&b, strlen(header));
    bytes_add(&b, header, strlen(header));
    bytes_add(&b, "\0\0\0\0", 4);
    save_own(file, b);
}

static struct vc_index_summary good(const char *name)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_index_summary summary;

    if (vc_index_write(ctx, scratch_folder(), &summary) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_string_equal(summary.name, name);
    assert_true(exists(name));
    test_ctx_done(ctx);
    return summary;
}

static void bad(enum vc_status status, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_index_summary summary;
    enum vc_status got = vc_index_write(ctx, scratch_folder(), &summary);

    if (got != status || strstr(vc_ctx_message(ctx), words) == NULL) {
        fail_msg("%s, \"%s\": expected \"%s\"", vc_status_name(got), vc_ctx_message(ctx), words);
    }
    assert_non_null(strstr(vc_ctx_message(ctx), scratch_folder()));
    test_ctx_done(ctx);
}

static void test_names(void **state)
{
    struct vc_index_summary summary;

    (void)state;
    bad(VC_E_UNSUPPORTED, "without safetensors files");
    write_one("x-00001-of-00002.safetensors", "b", "");
    bad(VC_E_UNSUPPORTED, "x-00001-of-00002.safetensors: its name says that there are 2 files, but the folder has 1");
    write_one("x-00002-of-00002.safetensors", "a", "");
    summary = good("x.safetensors.index.json");
    assert_int_equal(summary.n_tensors, 2);
    assert_int_equal(summary.n_files, 2);
    assert_int_equal(summary.total_size, 8);
    assert_true(holds("x.safetensors.index.json", "\"a\": \"x-00002-of-00002.safetensors\",\n    \"b\": \"x-00001"));
    (void)good("x.safetensors.index.json"); /* over the one that is there */
    write_one("x-00003-of-00003.safetensors", "c", "");
    bad(VC_E_UNSUPPORTED, "its name says that there are 2 files, but the folder has 3");
    remove_path("x-00003-of-00003.safetensors");
    write_one("x-00002-of-00002.safetensors", "b", "");
    bad(VC_E_FORMAT, "b");
    empty_folder();
    write_one("x-00000-of-00001.safetensors", "a", "");
    bad(VC_E_UNSUPPORTED, "its name says that there are 1 files");
    empty_folder();
    write_one("x-00002-of-00001.safetensors", "a", "");
    bad(VC_E_UNSUPPORTED, "its name says that there are 1 files");
    empty_folder();
    write_one("x-00001-of-00002.safetensors", "a", "");
    write_one("y-00002-of-00002.safetensors", "b", "");
    (void)good("model.safetensors.index.json"); /* two prefixes */
    write_one("x-00001-of-00002.safetensors", "a", "");
    remove_path("y-00002-of-00002.safetensors");
    write_one("xy-00002-of-00002.safetensors", "b", "");
    (void)good("model.safetensors.index.json");
    empty_folder();
    write_one("a.safetensors", "a", "");
    (void)good("model.safetensors.index.json");
    save_text("a.safetensors", "no weights");
    bad(VC_E_FORMAT, "a.safetensors");
    empty_folder();
}

#define JOB(text) "\"vcompress.job\":\"" text "\""

static void test_jobs(void **state)
{
    (void)state;
    write_one("a.safetensors", "a", JOB("scheme=int8; layout=plain; tensors=2 01"));
    write_one("b.safetensors", "b", JOB("scheme=int8; layout=plain; tensors=2 01"));
    (void)good("model.safetensors.index.json");
    remove_path("model.safetensors.index.json");
    write_one("b.safetensors", "b", JOB("scheme=fp16; layout=plain; tensors=2 01"));
    bad(VC_E_UNSUPPORTED,
        "b.safetensors: was made with scheme=fp16, a.safetensors with scheme=int8: they are not of one");
    write_one("b.safetensors", "b", JOB("scheme=int8; layout=plain; tensors=2 02"));
    bad(VC_E_UNSUPPORTED, "b.safetensors: was made with tensors=2 02, a.safetensors with tensors=2 01:");
    write_one("b.safetensors", "b", JOB("scheme=int8; layout=plain"));
    bad(VC_E_UNSUPPORTED, "b.safetensors: was made with layout=plain, a.safetensors with layout=plain");
    write_one("b.safetensors", "b", JOB(""));
    bad(VC_E_UNSUPPORTED, "b.safetensors: was made with , a.safetensors with scheme=int8");
    write_one("b.safetensors", "b", "");
    bad(VC_E_UNSUPPORTED, "b.safetensors: does not say which job made it, as a.safetensors does");
    write_one("a.safetensors", "a", "");
    write_one("c.safetensors", "c", JOB("scheme=int8"));
    bad(VC_E_UNSUPPORTED, "a.safetensors: does not say which job made it, as c.safetensors does");
    assert_false(exists("model.safetensors.index.json"));
    empty_folder();
}

/* Worker i of two writes its file of the folder `in` into `out`; 0: one run writes all. */
static void work(struct vc_ctx *ctx, const char *in, const char *out, struct task task, unsigned i)
{
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;

    task.quantize.requantize = true;
    task.write.path = out;
    task.write.shard = i;
    task.write.n_shards = i != 0 ? 2 : 0;
    if (vc_model_open(ctx, in, &task.open, &model) != VC_OK || vc_job_create(ctx, model, &job) != VC_OK ||
        vc_job_add_quantize(ctx, job, &task.quantize) != VC_OK || vc_job_plan(ctx, job, &task.write) != VC_OK ||
        vc_job_run(ctx, job) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    vc_job_free(job);
    vc_model_close(model);
}

static void expect_index(struct vc_ctx *ctx, const char *folder, const char *words)
{
    struct vc_index_summary summary;
    enum vc_status status = vc_index_write(ctx, folder, &summary);

    if ((words == NULL) != (status == VC_OK) || (words != NULL && strstr(vc_ctx_message(ctx), words) == NULL)) {
        fail_msg("\"%s\": expected \"%s\"", vc_ctx_message(ctx), words != NULL ? words : "no failure");
    }
}

/* What workers of one job write goes together, and is what one run writes; other options or another source do not. */
static void test_workers(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task asymmetric = task_int8();
    char in[300];
    char out[300];
    char one[300];
    char file[400];
    char same[400];

    (void)state;
    snprintf(in, sizeof in, "%s/in", scratch_folder());
    snprintf(out, sizeof out, "%s/out", scratch_folder());
    snprintf(one, sizeof one, "%s/one", scratch_folder());
    assert_int_equal(mkdir(in, 0700), 0);
    folder_fill(in);
    folder_write(in, FOLDER_INDEX, FOLDER_MAPPED, strlen(FOLDER_MAPPED));
    asymmetric.quantize.asymmetric = true;
    work(ctx, in, out, task_int8(), 1);
    work(ctx, in, out, task_int8(), 2);
    expect_index(ctx, out, NULL);
    work(ctx, in, one, task_int8(), 0);
    snprintf(file, sizeof file, "%s/b.safetensors", out);
    snprintf(same, sizeof same, "%s/b.safetensors", one);
    expect_same(file, same);
    assert_true(holds(file, "\"vcompress.job\":\"scheme=int8; "));
    work(ctx, in, out, task_fp16(), 2);
    expect_index(ctx, out, "b.safetensors: was made with scheme=f16, a.safetensors with scheme=int8: they are not");
    work(ctx, in, out, asymmetric, 2);
    expect_index(ctx, out, "b.safetensors: was made with symmetric=false, a.safetensors with symmetric=true: they");
    work(ctx, in, out, task_int8(), 2);
    expect_index(ctx, out, NULL);
    snprintf(same, sizeof same, "%s/b.safetensors", in);
    remove_path(file);
    assert_int_equal(link(same, file), 0);
    expect_index(ctx, out, "b.safetensors: does not say which job made it, as a.safetensors does");
    vc_ctx_free(ctx);
    remove_path(out);
    remove_path(one);
    remove_path(in);
}

#define PLAIN_MAPPED "{\"weight_map\":{\"l.a.weight\":\"a.safetensors\",\"l.b.weight\":\"b.safetensors\"}}"

static void write_plain(const char *folder, const char *file, const char *name)
{
    unsigned char bytes[8 + 96 + 128] = {96};

    (void)snprintf((char *)bytes + 8, 97, "%-96s",
                   "{\"l.a.weight\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[0,128]}}");
    memcpy(bytes + 10, name, strlen(name));
    memset(bytes + 8 + 96, 0x3e, 128);
    folder_write(folder, file, bytes, sizeof bytes);
}

/* Jobs that would write a file which is not there: of all workers, or of the other one. */
static void expect_refused(struct vc_ctx *ctx, const char *in, struct task task, unsigned i)
{
    for (unsigned n_shards = 0; n_shards <= 2; n_shards += 2) {
        struct vc_model *model = NULL;
        struct vc_job *job = NULL;

        task.open.shard = i;
        task.write = support_write(NULL);
        task.write.shard = n_shards != 0 ? 3 - i : 0;
        task.write.n_shards = n_shards;
        assert_int_equal(vc_model_open(ctx, in, &task.open, &model), VC_OK);
        assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
        assert_int_equal(vc_job_add_quantize(ctx, job, &task.quantize), VC_OK);
        assert_int_equal(vc_job_plan(ctx, job, &task.write), VC_E_UNSUPPORTED);
        assert_non_null(strstr(vc_ctx_message(ctx), "this worker needs all files of its own"));
        vc_job_free(job);
        vc_model_close(model);
    }
}

/* Each worker has its own file of the folder alone; the one that knows all headers writes what goes along. */
static void test_missing(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    const char *const files[] = {"a.safetensors", "b.safetensors"};
    struct task task = task_int8();
    struct vc_model *model = NULL;
    char in[300];
    char out[300];
    char one[300];
    char path[400];
    char away[400];

    (void)state;
    snprintf(in, sizeof in, "%s/in", scratch_folder());
    snprintf(out, sizeof out, "%s/out", scratch_folder());
    snprintf(one, sizeof one, "%s/one", scratch_folder());
    assert_int_equal(mkdir(in, 0700), 0);
    write_plain(in, files[0], "l.a.weight");
    write_plain(in, files[1], "l.b.weight");
    folder_write(in, FOLDER_INDEX, PLAIN_MAPPED, strlen(PLAIN_MAPPED));
    folder_write(in, "config.json", "{\"model_type\": \"llama\"}", 23);
    work(ctx, in, one, task, 0);
    task.open.headers = out;
    task.open.n_shards = 2;
    for (unsigned i = 1; i <= 2; i++) {
        snprintf(path, sizeof path, "%s/%s", in, files[2 - i]);
        snprintf(away, sizeof away, "%s/away", scratch_folder());
        assert_int_equal(rename(path, away), 0);
        task.open.shard = i;
        work(ctx, in, out, task, i);
        task.open.shard = 3 - i;
        assert_int_equal(vc_model_open(ctx, in, &task.open, &model), VC_E_FORMAT); /* the worker of the other file */
        expect_refused(ctx, in, task, i);
        assert_int_equal(rename(away, path), 0);
    }
    expect_index(ctx, out, NULL);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", out, files[i]);
        snprintf(away, sizeof away, "%s/%s", one, files[i]);
        expect_same(path, away);
    }
    snprintf(path, sizeof path, "%s/config.json", out);
    snprintf(away, sizeof away, "%s/config.json", one);
    expect_same(path, away);
    snprintf(path, sizeof path, "%s/.shard-headers", out);
    assert_int_equal(access(path, F_OK), -1);
    vc_ctx_free(ctx);
    remove_path(out);
    remove_path(one);
    remove_path(in);
}

/* The n-th allocation fails, and the n-th system call of writing: the older index stays, or a whole new one is there.
 */
static void test_failures(void **state)
{
    struct vc_index_summary summary;
    bool failed = true;
    unsigned n;

    (void)state;
    write_one("a.safetensors", "a", "");
    write_one("b.safetensors", "b", "");
    save_text(FOLDER_INDEX, "older");
    for (n = 1; failed; n++) {
        struct vc_ctx *ctx = test_ctx();
        uint64_t calls = vc_outfile_call_count();

        vc_outfile_fail_at(n);
        failed = vc_index_write(ctx, scratch_folder(), &summary) != VC_OK;
        failed = failed || vc_outfile_call_count() - calls >= n;
        vc_outfile_fail_at(0);
        assert_true(holds(FOLDER_INDEX, "older") || holds(FOLDER_INDEX, "\"weight_map\""));
        assert_int_equal(count_files(), 3);
        save_text(FOLDER_INDEX, "older");
        test_ctx_done(ctx);
    }
    assert_true(n > 5);
    failed = true;
    for (n = 1; failed; n++) {
        struct vc_ctx *ctx = test_ctx();

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        failed = vc_index_write(ctx, scratch_folder(), &summary) != VC_OK;
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(holds(FOLDER_INDEX, failed ? "older" : "\"weight_map\""));
        assert_int_equal(count_files(), 3);
        test_ctx_done(ctx);
    }
    assert_true(n > 10);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_jobs),     cmocka_unit_test(test_workers),
        cmocka_unit_test(test_missing), cmocka_unit_test(test_failures),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
