/* test_lifetimes.c - what the headers say about what outlives what: all that a call was given is overwritten and freed
 * after it, and what was returned is still right. AddressSanitizer sees what this does not. */
#include "support.h"

#include <stdlib.h>

#include "scratch.h"

static void save_npy(const char *name)
{
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (4, 8), }";
    const float ones[32] = {1, 1, 1, 1};
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, head, sizeof head - 1);
    bytes_fill(&b, ' ', 127 - b.n);
    bytes_add(&b, "\n", 1);
    bytes_add(&b, ones, sizeof ones);
    (void)save_own(name, b);
}

/* A copy that `forget` overwrites before it frees it. */
static char *own(const char *text)
{
    char *copy = malloc(strlen(text) + 1);

    assert_non_null(copy);
    return strcpy(copy, text);
}

static void forget(char *text)
{
    memset(text, '?', strlen(text));
    free(text);
}

static struct vc_model *open_model(struct vc_ctx *ctx, const char *name)
{
    struct vc_open_options options;
    struct vc_model *model = NULL;
    char *path = own(in_folder(name));
    char *key = own("none");

    vc_open_defaults(&options);
    options.key = key;
    assert_int_equal(vc_model_open(ctx, path, &options, &model), VC_OK);
    memset(&options, 0xff, sizeof options);
    forget(path);
    forget(key);
    assert_string_equal(vc_model_facts(model)->path, in_folder(name));
    return model;
}

static void add_quantize(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_quantize_options options;
    char *glob = own("*");
    struct vc_rule rule = {.glob = glob, .include = true};

    vc_quantize_defaults(&options);
    options.rules = &rule;
    options.n_rules = 1;
    assert_int_equal(vc_job_add_quantize(ctx, job, &options), VC_OK);
    memset(&options, 0xff, sizeof options);
    memset(&rule, 0xff, sizeof rule);
    forget(glob);
}

/* To the two files. */
static void plan(struct vc_ctx *ctx, struct vc_job *job, const char *first, const char *second)
{
    struct vc_write_options options;
    char *path = own(in_folder(first));
    char *other = own(in_folder(second));
    char *layout = own("plain");
    const char *emit[] = {other};

    vc_write_defaults(&options);
    options.path = path;
    options.emit = emit;
    options.n_emit = 1;
    options.layout = layout;
    assert_int_equal(vc_job_plan(ctx, job, &options), VC_OK);
    memset(&options, 0xff, sizeof options);
    emit[0] = NULL;
    forget(path);
    forget(other);
    forget(layout);
}

static void test_job(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_job *job = NULL;
    struct vc_model *model;
    const struct vc_report *report;
    char device[128];

    (void)unused;
    save_npy("a.npy");
    model = open_model(ctx, "a.npy");
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    add_quantize(ctx, job);
    plan(ctx, job, "b.npz", "c.npz");
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    report = vc_job_report(job);
    (void)snprintf(device, sizeof device, "%s", report->device);
    assert_int_equal(strncmp(device, "cpu (", 5), 0);
    assert_int_equal(vc_ctx_set_device(ctx, "cpu"), VC_OK);
    assert_string_equal(report->device, device);
    assert_int_equal(report->totals.n_changed, 1);
    assert_string_equal(report->outputs[0].path, in_folder("b.npz"));
    assert_string_equal(report->outputs[1].path, in_folder("c.npz"));
    assert_true(exists("b.npz") && exists("c.npz"));
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

/* Texts belong to the caller, whatever becomes of the context. */
static void test_text(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    char *text = NULL;

    (void)unused;
    assert_int_equal(vc_document_json(ctx,
                                      &(struct vc_document){.kind = VC_DOCUMENT_ERROR,
                                                            .of = "vcompress.report/1",
                                                            .failure = VC_E_IO,
                                                            .missed = "full"},
                                      &text),
                     VC_OK);
    vc_ctx_free(ctx);
    assert_non_null(strstr(text, "\"full\""));
    vc_text_free(text);
}

/* A report before a plan and after one that failed is all 0. */
static void test_no_report(void **unused)
{
    static const struct vc_report none;
    struct vc_ctx *ctx = test_ctx();
    struct vc_job *job = NULL;
    struct vc_write_options options;
    struct vc_model *model;

    (void)unused;
    save_npy("a.npy");
    model = open_model(ctx, "a.npy");
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_memory_equal(vc_job_report(job), &none, sizeof none);
    vc_write_defaults(&options);
    options.path = in_folder("d.npz");
    options.layout = "no such layout";
    assert_int_equal(vc_job_plan(ctx, job, &options), VC_E_ARGUMENT);
    assert_memory_equal(vc_job_report(job), &none, sizeof none);
    options.layout = NULL;
    assert_int_equal(vc_job_plan(ctx, job, &options), VC_OK);
    assert_int_equal(vc_job_report(job)->n_outputs, 1);
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_no_report),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
