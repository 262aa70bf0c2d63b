/* test_onnx_write.c - ONNX output: copies are the same bytes, weights become codes behind nodes and come back, values
 * in other files are found, confined, moved and written; whatever fails, nothing is left behind. */
#define _GNU_SOURCE /* mkdtemp */
#include "formats_test.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vcompress/vcompress.h>

#include "formats/onnx.h"
#include "formats/outfile.h"
#include "onnx_builder.h"

static char folder[] = "/tmp/vcompress-onnx-XXXXXX";

static const char *in_folder(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned turn;

    turn = (turn + 1) % 8;
    (void)snprintf(paths[turn], sizeof paths[0], "%s/%s", folder, name);
    return paths[turn];
}

static const char *save(const char *name, struct bytes b)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    assert_int_equal(fclose(f), 0);
    bytes_release(&b);
    return path;
}

static struct bytes load(const char *name)
{
    struct bytes b = {NULL, 0, 0};
    FILE *f = fopen(in_folder(name), "rb");
    int c;

    assert_non_null(f);
    while ((c = fgetc(f)) != EOF) {
        bytes_fill(&b, c, 1);
    }
    (void)fclose(f);
    return b;
}

static void expect_same(const char *a, const char *b)
{
    struct bytes x = load(a);
    struct bytes y = load(b);

    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.p, y.p, x.n);
    bytes_release(&x);
    bytes_release(&y);
}

/* The file holds these bytes somewhere. */
static bool holds(const char *name, const char *text)
{
    struct bytes b = load(name);
    bool found = memmem(b.p, b.n, text, strlen(text)) != NULL;

    bytes_release(&b);
    return found;
}

static bool exists(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

static void empty_folder(void)
{
    DIR *d = opendir(folder);
    struct dirent *entry;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            assert_int_equal(unlinkat(dirfd(d), entry->d_name, 0), 0);
        }
    }
    closedir(d);
}

static unsigned count_files(void)
{
    DIR *d = opendir(folder);
    struct dirent *entry;
    unsigned n = 0;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        n += entry->d_name[0] != '.' || strncmp(entry->d_name, ".vc", 3) == 0;
    }
    closedir(d);
    return n;
}

/* ---- jobs ---- */

enum what { COPY, INT8, ASYMMETRIC, TENSORS, GROUPS, FP16, BF16, BACK };

static enum vc_status add_pass(struct vc_ctx *ctx, struct vc_job *job, enum what what)
{
    struct vc_quantize_options q;
    struct vc_dequantize_options d;

    vc_quantize_defaults(&q);
    vc_dequantize_defaults(&d);
    q.min_elems = 1;
    q.min_row = 1;
    q.requantize = true;
    q.target = what == FP16 ? VC_TARGET_F16 : what == BF16 ? VC_TARGET_BF16 : VC_TARGET_INT8;
    q.asymmetric = what == ASYMMETRIC;
    q.granularity = what == GROUPS    ? VC_GRANULARITY_GROUP
                    : what == TENSORS ? VC_GRANULARITY_TENSOR
                                      : VC_GRANULARITY_CHANNEL;
    q.group_size = what == GROUPS ? 3 : 0;
    d.casts = true;
    return what == COPY   ? VC_OK
           : what == BACK ? vc_job_add_dequantize(ctx, job, &d)
                          : vc_job_add_quantize(ctx, job, &q);
}

static char note[256];
static const char *beside; /* another output of the same run; NULL: none */

static enum vc_status convert(struct vc_ctx *ctx, const char *from, const char *to, enum what what, bool force)
{
    const char *emit = in_folder(beside != NULL ? beside : "");
    struct vc_write_options write = {
        .path = in_folder(to), .force = force, .emit = &emit, .n_emit = beside != NULL ? 1 : 0};
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    struct stat st;
    enum vc_status status;

    VC_TRY(vc_model_open(ctx, in_folder(from), NULL, &model));
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(add_pass(ctx, job, what));
    VC_TRY(vc_job_plan(ctx, job, &write));
    (void)snprintf(note, sizeof note, "%s", vc_job_report(job)->note);
    VC_TRY(vc_job_run(ctx, job));
    if (stat(in_folder(to), &st) == 0 && !exists("out.onnx.data")) {
        assert_int_equal(vc_job_report(job)->totals.file_after, st.st_size);
    }
out:
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

static void must_convert(const char *from, const char *to, enum what what)
{
    struct vc_ctx *ctx = test_ctx();

    if (convert(ctx, from, to, what, true) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    vc_ctx_free(ctx);
}

static void must_refuse(const char *from, const char *to, enum what what, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    bool there = exists(to);

    assert_int_not_equal(convert(ctx, from, to, what, false), VC_OK);
    if (strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", vc_ctx_message(ctx), needle);
    }
    assert_int_equal(exists(to), there);
    vc_ctx_free(ctx);
}

/* ---- one file ---- */

static struct onnx_builder small_graph(uint64_t ir, uint64_t opset)
{
    struct onnx_builder g = {.ir = ir, .opset = opset};
    const uint64_t three[] = {3};
    struct bytes t = onnx_head("n", 7, 1, three);

    onnx_op(&g, "MatMul", "x w", "h");
    onnx_op(&g, "MatMul", "h v", "y");
    pb_text(&t, 12, "three numbers");
    pb_data(&t, 7, "\1\2\3", 3);
    onnx_weights(&g, "w", 4, 6);
    pb_message(&g.graph, 5, &t);
    onnx_weights(&g, "v", 6, 5);
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    onnx_info(&g, 13, "h");
    bytes_add(&g.model, "\xa3\x38\x08\1\xa4\x38", 6); /* an unknown group */
    pb_text(&g.model, 6, "the last field");
    return g;
}

static void test_copy(void **state)
{
    struct onnx_builder g = small_graph(8, 17);

    (void)state;
    save("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "out.onnx", COPY);
    expect_same("in.onnx", "out.onnx");
    empty_folder();
}

static void expect_tensor(struct vc_model *model, const char *name, enum vc_dtype dtype, bool quantized)
{
    size_t i = vc_model_find(model, name);

    if (i == VC_NO_TENSOR) {
        fail_msg("there is no '%s'", name);
    }
    assert_int_equal(vc_model_tensor(model, i)->dtype, dtype);
    assert_int_equal(vc_model_tensor(model, i)->quant != NULL, quantized);
}

/* There and back: the names stay, the nodes go. */
static void test_round_trips(void **state)
{
    static const struct {
        enum what what;
        uint64_t opset;
        enum vc_dtype dtype;
        const char *op;
    } ways[] = {{INT8, 17, VC_DTYPE_I8, "DequantizeLinear"},
                {INT8, 12, VC_DTYPE_I8, "Mul"},
                {INT8, 7, VC_DTYPE_I8, "Mul"},
                {ASYMMETRIC, 12, VC_DTYPE_I8, "Sub"},
                {ASYMMETRIC, 7, VC_DTYPE_I8, "Sub"},
                {TENSORS, 10, VC_DTYPE_I8, "DequantizeLinear"},
                {TENSORS, 9, VC_DTYPE_I8, "Mul"},
                {GROUPS, 21, VC_DTYPE_I8, "DequantizeLinear"},
                {FP16, 6, VC_DTYPE_F16, "Cast"},
                {BF16, 13, VC_DTYPE_BF16, "Cast"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct onnx_builder g = small_graph(8, ways[i].opset);
        struct vc_ctx *ctx = test_ctx();
        struct vc_model *model = NULL;

        save("in.onnx", onnx_finish(&g));
        must_convert("in.onnx", "out.onnx", ways[i].what);
        assert_true(holds("out.onnx", ways[i].op));
        assert_int_equal(strstr(note, "stays: int8 weights pass through Cast and Mul") != NULL,
                         strlen(ways[i].op) == 3);
        assert_int_equal(vc_model_open(ctx, in_folder("out.onnx"), NULL, &model), VC_OK);
        expect_tensor(model, "w", ways[i].dtype, ways[i].dtype == VC_DTYPE_I8);
        expect_tensor(model, "v", ways[i].dtype, ways[i].dtype == VC_DTYPE_I8);
        expect_tensor(model, "n", VC_DTYPE_I64, false);
        vc_model_close(model);
        vc_ctx_free(ctx);
        must_convert("out.onnx", "same.onnx", COPY);
        expect_same("out.onnx", "same.onnx");
        must_convert("out.onnx", "back.onnx", BACK);
        if (ways[i].what == FP16 || ways[i].what == BF16) { /* small whole numbers: exact */
            expect_same("in.onnx", "back.onnx");
        }
        assert_false(holds("back.onnx", "Linear"));
        assert_false(holds("back.onnx", "Cast"));
        assert_false(holds("back.onnx", "codes"));
        must_convert("back.onnx", "again.onnx", ways[i].what);
        must_convert("again.onnx", "back2.onnx", BACK);
        expect_same("back.onnx", "back2.onnx");
        empty_folder();
    }
}

static void test_names(void **state)
{
    struct onnx_builder g = small_graph(8, 17);

    (void)state;
    onnx_op(&g, "Relu", "y", "w.int8"); /* a value that has the name already */
    onnx_op(&g, "Relu", "y", "w.int8_1");
    onnx_info(&g, 11, "w"); /* a default that callers may replace: not any more */
    save("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "out.onnx", INT8);
    assert_true(holds("out.onnx", "w.int8_2"));
    assert_true(holds("out.onnx", "v.int8"));
    assert_false(holds("out.onnx", "\x5a\3\x0a\1w"));
    assert_true(holds("out.onnx", "\x5a\3\x0a\1x"));
    must_convert("out.onnx", "again.onnx", INT8); /* names of what goes are free */
    assert_true(holds("again.onnx", "w.int8_2"));
    assert_false(holds("again.onnx", "w.int8_3"));
    assert_false(holds("again.onnx", "v.int8_1"));
    empty_folder();
}

/* Old graphs list their initializers among the inputs. */
static void test_old_inputs(void **state)
{
    struct onnx_builder g = small_graph(3, 10);

    (void)state;
    onnx_info(&g, 11, "w");
    onnx_info(&g, 11, "n");
    onnx_info(&g, 11, "v");
    save("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "out.onnx", INT8);
    assert_false(holds("out.onnx", "\x5a\3\x0a\1w"));
    assert_true(holds("out.onnx", "\x5a\3\x0a\1n"));
    assert_true(holds("out.onnx", "\x5a\x18\x0a\6w.int8\x12\x0e\x0a\x0c\x08\3\x12\x08\x0a\2\x08\4\x0a\2\x08\6"));
    assert_true(holds("out.onnx", "\x5a\x19\x0a\7w.scale\x12\x0e\x0a\x0c\x08\1\x12\x08\x0a\2\x08\1\x0a\2\x08\6"));
    must_convert("out.onnx", "back.onnx", BACK);
    assert_true(holds("back.onnx", "\x0a\1w\x12"));
    assert_false(holds("back.onnx", "w.int8"));
    empty_folder();
}

static void test_refusals(void **state)
{
    struct onnx_builder g = small_graph(8, 6);
    const uint64_t conv[] = {2, 3, 4};
    struct bytes inner = {NULL, 0, 0};
    struct bytes attribute = {NULL, 0, 0};
    struct bytes node = {NULL, 0, 0};

    (void)state;
    save("in.onnx", onnx_finish(&g));
    must_refuse("in.onnx", "out.onnx", INT8, "w: int8 (codes times scales) needs opset 7, and this model has 6");
    g = small_graph(8, 12);
    save("in.onnx", onnx_finish(&g));
    must_refuse("in.onnx", "out.onnx", GROUPS, "w: a scale per group needs opset 21");
    must_refuse("in.onnx", "out.onnx", BF16, "w: bf16 (Cast) needs opset 13");
    g = small_graph(8, 5);
    save("in.onnx", onnx_finish(&g));
    must_refuse("in.onnx", "out.onnx", FP16, "w: another float type (Cast) needs opset 6");
    g = (struct onnx_builder){.opset = 21};
    onnx_raw(&g, "k", 1, 3, conv, NULL, 96);
    save("in.onnx", onnx_finish(&g));
    must_refuse("in.onnx", "out.onnx", GROUPS, "k: ONNX has groups along one axis only");
    g = small_graph(8, 17);
    pb_data(&g.model, 20, "", 0);
    save("in.onnx", onnx_finish(&g));
    must_refuse("in.onnx", "out.onnx", INT8, "w: the file holds training_info");
    must_convert("in.onnx", "out.onnx", COPY);
    expect_same("in.onnx", "out.onnx");
    g = small_graph(8, 17);
    pb_int(&inner, 14, 1);
    pb_message(&attribute, 5, &inner);
    pb_message(&node, 5, &attribute);
    pb_message(&g.graph, 1, &node);
    save("in.onnx", onnx_finish(&g));
    must_refuse("in.onnx", "out2.onnx", INT8, "a tensor inside a node has its values in another file");
    save("in.npy", npy_matrix(3, 4));
    must_refuse("in.npy", "out2.onnx", COPY, "npy has no graph: only ONNX becomes ONNX");
    empty_folder();
}

/* ---- two files ---- */

static struct bytes counting(size_t n)
{
    struct bytes b = {NULL, 0, 0};
    size_t i;

    for (i = 0; i < n / 4; i++) {
        float x = (float)(i % 251) - 100.0f;

        bytes_add(&b, &x, sizeof x);
    }
    return b;
}

static void save_external(void)
{
    struct onnx_builder g = {.ir = 0};

    onnx_elsewhere(&g, "w", 20, 20, "w.bin", "16", "1600");
    onnx_elsewhere(&g, "none", 0, 20, "w.bin", "1616", "0");
    onnx_elsewhere(&g, "tiny", 1, 4, "w.bin", NULL, "16");
    onnx_weights(&g, "here", 20, 20);
    save("in.onnx", onnx_finish(&g));
    save("w.bin", counting(1616));
}

static void test_external(void **state)
{
    struct bytes b;
    struct bytes data;

    (void)state;
    save_external();
    must_convert("in.onnx", "out.onnx", COPY);
    assert_non_null(strstr(note, "out.onnx.data"));
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
    t = onnx_head("packed", 1, 2, dims);
    {
        struct bytes values = counting(1600);

        pb_text(&t, 12, "a note");
        pb_message(&t, 4, &values);
    }
    pb_message(&g.graph, 5, &t);
    onnx_weights(&g, "small", 4, 4);
    save("in.onnx", onnx_finish(&g));
    onnx_set_embed_limit(3000);
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
    onnx_set_embed_limit(100);
    must_refuse("in.onnx", "no.onnx", COPY, "bytes without its weights; readers allow 100");
    onnx_set_embed_limit(0);
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
    save("first.onnx", onnx_finish(&g));
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
    save("in.onnx", onnx_finish(&g));
    onnx_set_embed_limit(1000);
    must_convert("in.onnx", "out.onnx", COPY);
    assert_int_equal(rename(in_folder("out.onnx.data"), in_folder("one.data")), 0);
    assert_int_equal(rename(in_folder("out.onnx"), in_folder("one.onnx")), 0);
    beside = "two.npz";
    must_convert("in.onnx", "out.onnx", COPY);
    beside = NULL;
    onnx_set_embed_limit(0);
    expect_same("one.onnx", "out.onnx");
    expect_same("one.data", "out.onnx.data");
    empty_folder();
}

static void expect_location(const char *location, const char *needle)
{
    struct onnx_builder g = {.ir = 0};

    onnx_elsewhere(&g, "w", 2, 2, location, NULL, NULL);
    save("bad.onnx", onnx_finish(&g));
    must_refuse("bad.onnx", "out.onnx", COPY, needle);
}

static void test_confined(void **state)
{
    static const char *const good[] = {".//./w.bin", "link.bin", "link/w.bin"};
    struct onnx_builder g = {.ir = 0};
    size_t i;

    (void)state;
    save("w.bin", counting(16));
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
    onnx_elsewhere(&g, "w", 2, 2, "w.bin", "4", NULL);
    save("bad.onnx", onnx_finish(&g));
    must_refuse("bad.onnx", "out.onnx", COPY, "needs 16 bytes from offset 4 of 'w.bin', which has 16 bytes");
    onnx_elsewhere(&g, "w", 2, 2, "w.bin", "18446744073709551616", NULL);
    save("bad.onnx", onnx_finish(&g));
    must_refuse("bad.onnx", "out.onnx", COPY, "the offset of its external data is above 2^64");
    onnx_elsewhere(&g, "w", 2, 2, "w.bin", "18446744073709551615", "16");
    save("bad.onnx", onnx_finish(&g));
    must_refuse("bad.onnx", "out.onnx", COPY, "from offset 18446744073709551615");
    onnx_elsewhere(&g, "w", 2, 2, "./w.bin", "0", "15");
    save("bad.onnx", onnx_finish(&g));
    must_refuse("bad.onnx", "out.onnx", COPY, "w: has 15 bytes in './w.bin', but its shape and type need 16");
    for (i = 0; i < sizeof good / sizeof good[0]; i++) { /* names are restricted, links are not */
        onnx_elsewhere(&g, "w", 2, 2, good[i], "0", "16");
        save("good.onnx", onnx_finish(&g));
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
    must_refuse("in.onnx", "w.bin", COPY, "is the input itself");
    assert_int_equal(convert(ctx, "in.onnx", "w.bin", COPY, true), VC_E_ARGUMENT);
    assert_int_equal(link(in_folder("w.bin"), in_folder("out.onnx.data")), 0);
    assert_int_equal(convert(ctx, "in.onnx", "out.onnx", COPY, true), VC_E_ARGUMENT);
    assert_non_null(strstr(vc_ctx_message(ctx), "out.onnx.data: is the input itself"));
    assert_int_equal(unlink(in_folder("out.onnx.data")), 0);
    save("out.onnx.data", counting(8));
    must_refuse("in.onnx", "out.onnx", COPY, "out.onnx.data: exists already");
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
            (void)unlink(in_folder("out.onnx"));
            (void)unlink(in_folder("out.onnx.data"));
        }
        assert_true(failures >= 10);
        empty_folder();
    }
    vc_outfile_no_unnamed(false);
    vc_ctx_free(ctx);
}

static void test_allocations(void **state)
{
    static const struct {
        const char *from;
        enum what what;
    } jobs[] = {{"in.onnx", INT8},        {"in.onnx", FP16}, {"q.onnx", BACK},
                {"old.onnx", ASYMMETRIC}, {"p.onnx", BACK},  {"ext.onnx", COPY}};
    struct onnx_builder g = small_graph(3, 13);
    struct onnx_builder old = small_graph(3, 8);
    size_t i;

    (void)state;
    save_external();
    assert_int_equal(rename(in_folder("in.onnx"), in_folder("ext.onnx")), 0);
    onnx_info(&g, 11, "w");
    save("in.onnx", onnx_finish(&g));
    must_convert("in.onnx", "q.onnx", INT8);
    save("old.onnx", onnx_finish(&old));
    must_convert("old.onnx", "p.onnx", ASYMMETRIC);
    for (i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct vc_ctx *ctx = test_ctx();
        enum vc_status status = VC_E_NOMEM;
        uint64_t in_use;
        uint64_t n;

        assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
        assert_int_equal(convert(ctx, jobs[i].from, "out.onnx", jobs[i].what, true), VC_OK);
        in_use = vc_pool_in_use(ctx->shared->pool); /* the kernels, which the context keeps */
        for (n = 1; status != VC_OK; n++) {
            (void)unlink(in_folder("out.onnx"));
            (void)unlink(in_folder("out.onnx.data"));
            vc_pool_fail_at(ctx->shared->pool, n, 0);
            status = convert(ctx, jobs[i].from, "out.onnx", jobs[i].what, false);
            vc_pool_fail_at(ctx->shared->pool, 0, 0);
            assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
            assert_true(status == VC_OK || status == VC_E_NOMEM);
            assert_int_equal(exists("out.onnx"), status == VC_OK);
            assert_int_equal(exists("out.onnx.data"), status == VC_OK && jobs[i].what == COPY);
        }
        assert_true(n > 30);
        vc_ctx_free(ctx);
    }
    empty_folder();
}

/* Whatever a damaged graph still allows to read can be written, or is refused. */
static void flip_bits(uint64_t opset, enum what what, size_t step)
{
    struct onnx_builder g = small_graph(3, opset);
    struct vc_ctx *ctx = test_ctx();
    struct bytes b;
    size_t i;

    save("first.onnx", onnx_finish(&g));
    must_convert("first.onnx", "in.onnx", what);
    b = load("in.onnx");
    for (i = 0; i < b.n; i += step) {
        struct bytes copy = {NULL, 0, 0};
        enum vc_status status;

        b.p[i] ^= (unsigned char)(1u << i / step % 8);
        bytes_add(&copy, b.p, b.n);
        save("bad.onnx", copy);
        status = convert(ctx, "bad.onnx", "out.onnx", i / step % 2 == 0 ? BACK : what, true);
        if (status == VC_OK) { /* what was written can be read */
            status = walk_path(ctx, in_folder("out.onnx"), NULL);
            if (status != VC_OK) {
                fail_msg("byte %zu: %s", i, vc_ctx_message(ctx));
            }
        }
        assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
        b.p[i] ^= (unsigned char)(1u << i / step % 8);
    }
    bytes_release(&b);
    vc_ctx_free(ctx);
    empty_folder();
}

static void test_flips(void **state)
{
    (void)state;
    flip_bits(13, INT8, 2);
    flip_bits(9, ASYMMETRIC, 3);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),        cmocka_unit_test(test_round_trips),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_old_inputs),  cmocka_unit_test(test_refusals),     cmocka_unit_test(test_external),
        cmocka_unit_test(test_limit),       cmocka_unit_test(test_beside),       cmocka_unit_test(test_beside_limit),
        cmocka_unit_test(test_confined),    cmocka_unit_test(test_not_replaced), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_allocations), cmocka_unit_test(test_flips),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
