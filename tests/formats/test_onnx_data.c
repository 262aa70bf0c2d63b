/* test_onnx_data.c - ONNX files with values in other files: found, confined to the folder of the model, moved and
 * written; also beside outputs of other formats. Files are onnx_builder.c's, copies have to be the same bytes, and
 * whatever fails leaves nothing behind. */
#define _GNU_SOURCE /* symlink */
#include "onnx_jobs.h"

#include <unistd.h>

#include "formats/io/outfile.h"
#include "formats/onnx/onnx.h"

static void test_external(void **state)
{
    struct bytes b;
    struct bytes data;

    (void)state;
    save_external();
    must_convert("in.onnx", "out.onnx", COPY);
    assert_non_null(strstr(last_report.note, "out.onnx.data"));
    data = load("w.bin");
    b = load("out.onnx.data");
    assert_int_equal(b.n, 4096 + 16);
    assert_memory_equal(b.p, data.p + 16, 1600);
    assert_memory_equal(b.p + 4096, data.p, 16);
    bytes_release(&b);
    bytes_release(&data);
    assert_true(holds("out.onnx", "out.onnx.data"));
    assert_false(holds("out.onnx", "w.bin"));
    assert_false(holds("out.onnx", "checksum"));
    must_convert("out.onnx", "x.npz", COPY);
    must_convert("in.onnx", "y.npz", COPY);
    expect_same("x.npz", "y.npz");
    must_convert("in.onnx", "q.onnx", INT8); /* small now: all of it fits into the model */
    assert_false(exists("q.onnx.data"));
    empty_folder();
}

/* A model that would be too large has its weights in a second file, whatever they were before. */
static void test_limit(void **state)
{
    struct onnx_builder g = {.ir = 0};
    struct bytes t;
    uint64_t dims[] = {20, 20};

    (void)state;
    onnx_weights(&g, "w", 20, 20);
    t = onnx_tensor_header("packed", 1, 2, dims);
    {
        struct bytes values = counting(1600);

        pb_text(&t, 12, "a note");
        pb_message(&t, 4, &values);
    }
    pb_message(&g.graph, 5, &t);
    onnx_weights(&g, "small", 4, 4);
    save_own("in.onnx", onnx_finish(&g));
    vc_onnx_set_embed_limit(3000);
    must_convert("in.onnx", "out.onnx", COPY);
    {
        struct bytes model = load("out.onnx");
        struct bytes data = load("out.onnx.data");

        assert_true(model.n < 1000);
        assert_int_equal(data.n, 4096 + 1600);
        bytes_release(&model);
        bytes_release(&data);
    }
    assert_true(holds("out.onnx", "a note"));
    must_convert("out.onnx", "x.npz", COPY);
    must_convert("in.onnx", "y.npz", COPY);
    expect_same("x.npz", "y.npz");
    must_convert("in.onnx", "h.onnx", INT8); /* that makes it small enough */
    assert_false(exists("h.onnx.data"));
    must_convert("h.onnx", "b.onnx", BACK); /* ... and this too large again */
    assert_true(exists("b.onnx.data"));
    must_convert("b.onnx", "b.npz", COPY);
    must_convert("h.onnx", "h.npz", BACK);
    expect_same("b.npz", "h.npz");
    vc_onnx_set_embed_limit(100);
    must_not_convert("in.onnx", "no.onnx", COPY, "bytes without its weights; readers allow 100");
    vc_onnx_set_embed_limit(0);
    empty_folder();
}

/* Beside another format each file is what a run of its own writes: what is kept, too. */
static void test_beside(void **state)
{
    static const enum what whats[] = {COPY, INT8, FP16, BACK};
    struct onnx_builder g = small_graph(8, 9);
    size_t i;
    unsigned k;

    (void)state;
    save_own("first.onnx", onnx_finish(&g));
    for (k = 0; k < 3; k++) { /* weights, codes, weights in another file */
        if (k < 2) {
            must_convert("first.onnx", "in.onnx", k == 0 ? COPY : INT8);
        } else {
            save_external();
        }
        for (i = 0; i < sizeof whats / sizeof whats[0]; i++) {
            struct bytes data = {NULL, 0, 0};

            must_convert("in.onnx", "out.npz", whats[i]);
            must_convert("in.onnx", "out.onnx", whats[i]);
            assert_int_equal(rename(in_folder("out.onnx"), in_folder("one.onnx")), 0);
            if (exists("out.onnx.data")) {
                data = load("out.onnx.data");
                assert_int_equal(unlink(in_folder("out.onnx.data")), 0);
            }
            beside = "two.npz";
            must_convert("in.onnx", "out.onnx", whats[i]);
            beside = NULL;
            expect_same("one.onnx", "out.onnx");
            expect_same("out.npz", "two.npz");
            assert_int_equal(exists("out.onnx.data"), data.n != 0);
            if (data.n != 0) {
                struct bytes again = load("out.onnx.data");

                assert_int_equal(again.n, data.n);
                assert_memory_equal(again.p, data.p, data.n);
                bytes_release(&again);
                assert_int_equal(unlink(in_folder("out.onnx.data")), 0);
            }
            bytes_release(&data);
        }
    }
    empty_folder();
}

/* The same for values that move to another file only now. */
static void test_beside_limit(void **state)
{
    struct onnx_builder g = {.ir = 0};

    (void)state;
    onnx_weights(&g, "w", 20, 20);
    save_own("in.onnx", onnx_finish(&g));
    vc_onnx_set_embed_limit(1000);
    must_convert("in.onnx", "out.onnx", COPY);
    assert_int_equal(rename(in_folder("out.onnx.data"), in_folder("one.data")), 0);
    assert_int_equal(rename(in_folder("out.onnx"), in_folder("one.onnx")), 0);
    beside = "two.npz";
    must_convert("in.onnx", "out.onnx", COPY);
    beside = NULL;
    vc_onnx_set_embed_limit(0);
    expect_same("one.onnx", "out.onnx");
    expect_same("one.data", "out.onnx.data");
    empty_folder();
}

static void expect_location(const char *location, const char *needle)
{
    struct onnx_builder g = {.ir = 0};

    onnx_external(&g, "w", 2, 2, location, NULL, NULL);
    save_own("bad.onnx", onnx_finish(&g));
    must_not_convert("bad.onnx", "out.onnx", COPY, needle);
}

static void test_confined(void **state)
{
    static const char *const good[] = {".//./w.bin", "link.bin", "link/w.bin"};
    struct onnx_builder g = {.ir = 0};
    size_t i;

    (void)state;
    save_own("w.bin", counting(16));
    assert_int_equal(symlink("w.bin", in_folder("link.bin")), 0);
    assert_int_equal(symlink(".", in_folder("link")), 0);
    expect_location("../w.bin", "w: has its values in '../w.bin'; only files in the model's folder are read");
    expect_location("a/../w.bin", "only files in the model's folder");
    expect_location("..", "only files in the model's folder");
    expect_location("/etc/passwd", "only files in the model's folder");
    expect_location("w.bin/", "which cannot be opened");
    expect_location("missing", "which cannot be opened");
    expect_location("./.", "which is no file");
    expect_location("bad.onnx", "in the model itself");
    expect_location("", "does not say in which");
    expect_location(NULL, "does not say in which");
    onnx_external(&g, "w", 2, 2, "w.bin", "4", NULL);
    save_own("bad.onnx", onnx_finish(&g));
    must_not_convert("bad.onnx", "out.onnx", COPY, "needs 16 bytes from offset 4 of 'w.bin', which has 16 bytes");
    onnx_external(&g, "w", 2, 2, "w.bin", "18446744073709551616", NULL);
    save_own("bad.onnx", onnx_finish(&g));
    must_not_convert("bad.onnx", "out.onnx", COPY, "the offset of its external data is above 2^64");
    onnx_external(&g, "w", 2, 2, "w.bin", "18446744073709551615", "16");
    save_own("bad.onnx", onnx_finish(&g));
    must_not_convert("bad.onnx", "out.onnx", COPY, "from offset 18446744073709551615");
    onnx_external(&g, "w", 2, 2, "./w.bin", "0", "15");
    save_own("bad.onnx", onnx_finish(&g));
    must_not_convert("bad.onnx", "out.onnx", COPY, "w: has 15 bytes in './w.bin', but its shape and type need 16");
    assert_int_equal(symlink("/etc/passwd", in_folder("out.bin")), 0);
    expect_location("out.bin", "w: has its values in 'out.bin', a link that leads out of the model's folder");
    assert_int_equal(symlink("/etc", in_folder("out")), 0);
    expect_location("out/passwd", "a link that leads out of the model's folder");
    for (i = 0; i < sizeof good / sizeof good[0]; i++) { /* links inside the folder are followed */
        onnx_external(&g, "w", 2, 2, good[i], "0", "16");
        save_own("good.onnx", onnx_finish(&g));
        must_convert("good.onnx", "out.onnx", COPY);
    }
    empty_folder();
}

/* Neither the input's files nor others are replaced. */
static void test_not_replaced(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    save_external();
    must_not_convert("in.onnx", "w.bin", COPY, "is the input itself");
    assert_int_equal(convert(ctx, "in.onnx", "w.bin", COPY, true), VC_E_ARGUMENT);
    assert_int_equal(link(in_folder("w.bin"), in_folder("out.onnx.data")), 0);
    assert_int_equal(convert(ctx, "in.onnx", "out.onnx", COPY, true), VC_E_ARGUMENT);
    assert_non_null(strstr(vc_ctx_message(ctx), "out.onnx.data: is the input itself"));
    assert_int_equal(unlink(in_folder("out.onnx.data")), 0);
    save_own("out.onnx.data", counting(8));
    must_not_convert("in.onnx", "out.onnx", COPY, "out.onnx.data: exists already");
    must_convert("in.onnx", "out.onnx", COPY);
    vc_ctx_free(ctx);
    empty_folder();
}

/* ---- failures ---- */

/* Every system call of the output fails once: both files are there, or neither. */
static void test_faults(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned round;
    uint64_t nth;

    (void)state;
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    for (round = 0; round < 2; round++) {
        unsigned failures = 0;
        bool hit = true;

        vc_outfile_no_unnamed(round == 1);
        save_external();
        for (nth = 1; hit; nth++) {
            uint64_t before = vc_outfile_call_count();
            enum vc_status status;
            bool complete;

            vc_outfile_fail_at(nth);
            status = convert(ctx, "in.onnx", "out.onnx", COPY, false);
            vc_outfile_fail_at(0);
            hit = vc_outfile_call_count() - before >= nth;
            complete = status == VC_OK || exists("out.onnx");
            assert_true(complete || status == VC_E_IO);
            assert_int_equal(exists("out.onnx"), complete);
            assert_int_equal(exists("out.onnx.data"), complete);
            assert_int_equal(count_files(), complete ? 4 : 2);
            failures += status != VC_OK;
            remove_path("out.onnx");
            remove_path("out.onnx.data");
        }
        assert_true(failures >= 10);
        empty_folder();
    }
    vc_outfile_no_unnamed(false);
    vc_ctx_free(ctx);
}

/* --digest tells of both files of an output, and of those of other outputs. */
static void test_digest(void **state)
{
    static const char *const names[] = {"out.onnx", "out.onnx.data", "b.npz"};
    struct vc_ctx *ctx = test_ctx();
    struct vc_write_options write = support_write(in_folder("out.onnx"));
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    const char *emit = in_folder("b.npz");
    const struct vc_report *report;

    (void)state;
    if (vc_name_at(VC_NAMES_DIGESTS, 0) == NULL) {
        skip();
    }
    save_external();
    write.emit = &emit;
    write.n_emit = 1;
    model = must_open(ctx, "in.onnx");
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    assert_int_equal(vc_job_digest(ctx, job), VC_OK);
    report = vc_job_report(job);
    assert_int_equal(report->n_files, 3);
    for (size_t i = 0; i < 3; i++) {
        struct bytes b = load(names[i]);

        assert_string_equal(report->files[i].path, in_folder(names[i]));
        assert_int_equal(report->files[i].size_bytes, b.n);
        assert_int_equal(strlen(report->files[i].sha256), 64);
        bytes_release(&b);
    }
    assert_int_equal(report->outputs[0].file_bytes, report->files[0].size_bytes + report->files[1].size_bytes);
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_external),     cmocka_unit_test(test_limit),    cmocka_unit_test(test_beside),
        cmocka_unit_test(test_beside_limit), cmocka_unit_test(test_confined), cmocka_unit_test(test_not_replaced),
        cmocka_unit_test(test_faults),       cmocka_unit_test(test_digest),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
