/* test_verify.c - verify on files with several faults at once: each is found, with its severity, id and tensor;
 * nothing is found twice; and the readers refuse the same files at the first. Also the figures of values, comparison
 * with a source, and failing allocations. Files are written by hand, so that the test knows every fault. */
#include "verify_support.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vcompress/experimental.h>

#include "core/base/checked.h"
#include "kernels/kernels.h"

/* ---- headers ---- */

static void test_safetensors(void **state)
{
    struct bytes b = st_zeros("{\"__metadata__\":{\"n\":1,\"ok\":\"x\"}," ENTRY("a", "F32", "[2]", 0, 8) "," ENTRY(
                                  "b", "F31", "[2]", 8, 16) "," ENTRY("c", "F32", "[3]", 16, 24) "," //
                              ENTRY("d", "F32", "[2]", 20, 28) "," ENTRY("e", "F32", "[-1]", 32, 36) "," ENTRY(
                                  "far", "F32", "[2]", 36, 9999) ",\"odd\":3," ENTRY("f", "F32", "[1]", 36, 40) "}",
                              44);

    (void)state;
    expect(&b, headers(),
           "error metadata|error dtype b|error size c|error shape e|error offsets far|error entry odd|error overlap d|"
           "error hole e");
    expect_bad("the reader", b.p, b.n, "which is no string");
    bytes_release(&b);

    b = st_zeros("{" ENTRY("a", "F32", "[1]", 0, 4) "," ENTRY("b", "F32", "[1]", 4, 8) "," ENTRY(
                     "a", "F32", "[1]", 8, 12) "," ENTRY("b", "F32", "[1]", 12, 16) "}",
                 20);
    expect(&b, headers(), "error size|error duplicate a|error duplicate b");
    expect_bad("the reader", b.p, b.n, "has 20 bytes of data");
    bytes_release(&b);

    b = st_zeros("{" ENTRY("a", "F32", "[1]", 0, 4) "}", 4);
    expect(&b, with_data(), "");
    bytes_release(&b);
}

static void test_npz(void **state)
{
    static const char manifest[] = "{\"schema\":\"vcompress.manifest/1\",\"tensors\":{\"gone\":{\"dtype\":\"bf16\"},"
                                   "\"a\":{\"dtype\":\"bf16\"},\"b\":{\"scheme\":\"int9\"}}}";
    struct bytes cut = npy_matrix(3, 4);
    struct zip_builder z;

    (void)state;
    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.npy", npy_matrix(2, 2), NULL);
    zip_add(&z, "cut.npy", cut.p, cut.n - 4, NULL);
    zip_add(&z, "text.npy", "no array", 8, NULL);
    zip_add_bytes(&z, "b.npy", npy_matrix(2, 2), NULL);
    zip_add_bytes(&z, "b", npy_matrix(2, 2), NULL);
    zip_add_bytes(&z, "date.npy", npy_array("<M4[s]", false, "()", "12345678", 8), NULL);
    zip_add(&z, "vcompress.json", manifest, sizeof manifest - 1, NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect(&z.out, headers(),
           "error header cut|error header text|error header date|error duplicate b|error manifest gone|error manifest "
           "a|error manifest b");
    z.out.p[z.members[0].data + 130] ^= 1; /* a value of "a": its checksum */
    z.out.p[z.members[3].local + 20] ^= 1; /* a size in the local header of b.npy */
    expect(&z.out, with_data(),
           "error header cut|error header text|error member b|error header date|error manifest gone|error manifest "
           "a|error manifest b|error data a");
    bytes_release(&cut);
    zip_release(&z);
}

/* What no reader refuses: parts of quantized weights by their names. */
static void test_names(void **state)
{
    struct bytes b = st_zeros("{" ENTRY("l.weight_packed", "I32", "[2,2]", 0, 16) "," //
                              ENTRY("m.weight", "I8", "[2,2]", 16, 20) ","            //
                              ENTRY("n.weight_scale", "F32", "[2,1]", 20, 28) ","     //
                              ENTRY("o.weight", "I8", "[2,2]", 28, 32) ","            //
                              ENTRY("o.weight.scale", "F32", "[3]", 32, 44) ","       //
                              ENTRY("q.weight", "I8", "[4,2]", 44, 52) ","            //
                              ENTRY("q.weight.scale", "F32", "[4,1]", 52, 68) ","     //
                              ENTRY("q.weight.zero_point", "U8", "[4,1]", 68, 72) "," //
                              ENTRY("p.weight_packed", "I32", "[2,2]", 72, 88) ","    //
                              ENTRY("p.weight", "F32", "[2,2]", 88, 104) "}",
                              104);

    (void)state;
    expect(&b, headers(),
           "error twice p.weight_packed|error companion l.weight_packed|error companion l.weight_packed|error orphan "
           "n.weight_scale|error companion p.weight_packed|error companion p.weight_packed|warning companion m.weight|"
           "warning scale-shape o.weight|warning scale-shape q.weight");
    bytes_release(&b);

    b = st_zeros(
        "{\"__metadata__\":{\"vcompress.json\":\"{\\\"schema\\\":\\\"vcompress.manifest/1\\\",\\\"tensors\\\":{"
        "\\\"w\\\":{\\\"scheme\\\":\\\"int8\\\",\\\"granularity\\\":\\\"tensor\\\",\\\"symmetric\\\":true,"
        "\\\"scale\\\":\\\"w.scale\\\"}}}\"}," ENTRY("w", "I8", "[2]", 0, 2) "," ENTRY(
            "w.zero_point", "I8", "[1]", 2, 3) "," ENTRY("w.scale", "F32", "[1]", 3, 7) "}",
        7);
    expect(&b, headers(), "error zero-point w");
    bytes_release(&b);
}

/* Numbers of weight_shape, behind what has the header's other tensors. */
static struct bytes st_shaped(const char *header, size_t n_before, const int64_t *numbers, size_t n, size_t n_behind)
{
    struct bytes b = st_zeros(header, n_before);

    bytes_add(&b, numbers, 8 * n);
    bytes_fill(&b, 0, n_behind);
    return b;
}

/* Packed codes of other widths than 8 bits, which no reader takes apart: codes, shape and scales have to fit. */
static void test_packed(void **state)
{
    static const struct {
        const char *codes, *scale; /* shapes */
        size_t n_codes, n_scale;   /* bytes */
        int64_t shape[2];
        const char *wanted;
    } cases[] = {
        {"[4,2]", "[4,1]", 32, 16, {4, 16}, "warning parts l.weight_packed"},   /* 4 bits, a scale per row */
        {"[4,2]", "[4,2]", 32, 32, {4, 16}, "warning parts l.weight_packed"},   /* groups */
        {"[4,2]", "[1]", 32, 4, {4, 16}, "warning parts l.weight_packed"},      /* one for all */
        {"[4,2]", "[4,2,2]", 32, 64, {4, 16}, "warning parts l.weight_packed"}, /* no matrix of scales */
        {"[4,2]", "[3,1]", 32, 12, {4, 16}, "warning parts l.weight_packed"},
        {"[4,2]", "[4,17]", 32, 272, {4, 16}, "warning parts l.weight_packed"},
        {"[4,2]", "[2]", 32, 8, {4, 16}, "warning parts l.weight_packed"},
        {"[4,2]", "[4,1]", 32, 16, {5, 16}, "error parts l.weight_packed"},
        {"[4,2]", "[4,1]", 32, 16, {4, 99}, "error parts l.weight_packed"},
        {"[4,2]", "[4,1]", 32, 16, {4, -1}, "error parts l.weight_packed"},
        {"[8]", "[4,1]", 32, 16, {4, 16}, "error parts l.weight_packed"}, /* codes that are no matrix */
    };
    char header[600];

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t at = cases[k].n_codes + 16;
        struct bytes b;

        snprintf(header, sizeof header,
                 "{\"l.weight_packed\":{\"dtype\":\"I32\",\"shape\":%s,\"data_offsets\":[0,%zu]},"
                 "\"l.weight_shape\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[%zu,%zu]},"
                 "\"l.weight_scale\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}}",
                 cases[k].codes, cases[k].n_codes, cases[k].n_codes, at, cases[k].scale, at, at + cases[k].n_scale);
        b = st_shaped(header, cases[k].n_codes, cases[k].shape, 2, cases[k].n_scale);
        expect(&b, headers(), cases[k].wanted);
        bytes_release(&b);
    }
}

/* Parts whose weight is plain, or has another name; zero points without scales; names of other programs. */
static void test_other_names(void **state)
{
    struct bytes b =
        st_zeros("{" ENTRY("a.weight", "F16", "[2,2]", 0, 8) "," ENTRY("a.weight_scale", "F32", "[2,1]", 8, 16) "," //
                 ENTRY("b.zero_point", "I8", "[2]", 16, 18) ","                                                     //
                 ENTRY("c.weight", "I8", "[2,2]", 18, 22) ","                                                       //
                 ENTRY("c.weight_zero_point", "I8", "[2]", 22, 24) ","                                              //
                 ENTRY("d.weight", "I8", "[2,2]", 24, 28) ","                                                       //
                 ENTRY("d.weight_scale", "F32", "[3]", 28, 40) ","                                                  //
                 ENTRY("e.weight", "I8", "[4]", 40, 44) ","                                                         //
                 ENTRY("f.weight_shape", "I64", "[2]", 44, 60) ","                                                  //
                 ENTRY("weight_scale", "F32", "[1]", 60, 64) ","                                                    //
                 ENTRY("g.weight", "BF16", "[2]", 64, 68) ","                                                       //
                 ENTRY("g.weight_zero_point", "I8", "[2]", 68, 70) ","                                              //
                 ENTRY("h.weight", "I64", "[1]", 70, 78) ","                                                        //
                 ENTRY("h.weight_scale", "F32", "[1]", 78, 82) "}",
                 82);

    (void)state;
    expect(&b, headers(),
           "error parts d.weight|error orphan a.weight_scale|error orphan b.zero_point|error companion c.weight|error "
           "orphan f.weight_shape|error orphan g.weight_zero_point|error parts c.weight_zero_point|error parts "
           "weight_scale|error parts h.weight_scale");
    bytes_release(&b);
}

/* A file of several may have the scales in another one. Its own name says that, not the folder that it lies in. */
static void test_names_of_parts(void **state)
{
    static const char whole[] = "error companion l.weight_packed|error companion l.weight_packed";
    static const char part[] = "warning companion l.weight_packed|warning companion l.weight_packed";
    static const struct {
        const char *name, *wanted;
    } cases[] = {{"m.safetensors", whole},
                 {"m-00001-of-00001.safetensors", whole},
                 {"one-of-two.safetensors", whole},
                 {"m-00001-of-00002.safetensors", part},
                 {"m-00002-of-00002.fp16.safetensors", part}};
    struct bytes b = st_zeros("{" ENTRY("l.weight_packed", "I32", "[2,2]", 0, 16) "}", 16);
    char name[128];

    (void)state;
    assert_int_equal(mkdir(in_folder("1-of-2"), 0700), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(name, sizeof name, "1-of-2/%s", cases[i].name);
        expect_at(save(name, &b), headers(), cases[i].wanted);
        remove_path(name);
    }
    remove_path("1-of-2");
    bytes_release(&b);
}

static void test_many(void **state)
{
    struct bytes header = {NULL, 0, 0};
    struct vc_ctx *ctx = test_ctx();
    struct vc_verification *v;
    struct bytes b;
    int i;

    (void)state;
    bytes_add(&header, "{", 1);
    for (i = 0; i < 2500; i++) {
        char entry[100];
        int n = snprintf(entry, sizeof entry, "%s\"t%d\":{\"dtype\":\"X\",\"shape\":[],\"data_offsets\":[0,0]}",
                         i == 0 ? "" : ",", i);

        bytes_add(&header, entry, (size_t)n);
    }
    bytes_add(&header, "}", 2);
    b = st_zeros((const char *)header.p, 0);
    v = verify_bytes(ctx, &b, headers());
    assert_int_equal(v->n_errors, 2500);
    assert_int_equal(v->n_findings, VC_MAX_FINDINGS);
    assert_int_equal(v->n_tensors, 0);
    vc_result_free(v);
    bytes_release(&header);
    bytes_release(&b);
    test_ctx_done(ctx);
}

/* ---- values ---- */

enum { ROWS = 4, ROW = 300 };

/* w: int8 per channel. x and y: the same floats. */
static struct bytes quantized_file(const float *scales, int8_t code, float x)
{
    static const char header[] = "{" ENTRY("w", "I8", "[4,300]", 0, 1200) "," ENTRY(
        "w.scale", "F32", "[4,1]", 1200, 1216) "," ENTRY("x", "F32", "[4,300]", 1216, 6016) "," //
        ENTRY("y", "F32", "[4,300]", 6016, 10816) "}";
    int8_t codes[ROWS * ROW];
    float values[ROWS * ROW];
    struct bytes b = st_file(header, "", 0);
    int i;

    for (i = 0; i < ROWS * ROW; i++) {
        codes[i] = (int8_t)(i % 255 - 127);
        values[i] = (float)(i * 37 % 101) - 50.0F;
    }
    codes[7] = code;
    bytes_add(&b, codes, sizeof codes);
    bytes_add(&b, scales, ROWS * sizeof *scales);
    bytes_add(&b, values, sizeof values);
    values[11] = x;
    bytes_add(&b, values, sizeof values);
    return b;
}

static void test_values(void **state)
{
    static const float good[ROWS] = {1, 2, 3, 4};
    static const float bad[][ROWS] = {{1, 0, 1, 1}, {1, 1, -1, 1}, {NAN, 1, 1, 1}, {1, 1, 1, INFINITY}};
    struct bytes b = quantized_file(good, 5, 1);
    size_t i;

    (void)state;
    expect(&b, with_data(), "");
    bytes_release(&b);
    b = quantized_file(good, -128, (float)NAN);
    expect(&b, headers(), "");
    expect(&b, with_data(), "error range w|warning nonfinite y");
    bytes_release(&b);
    b = quantized_file(good, 5, 407 % 101 - 50.0F); /* what is there in x */
    expect(&b, with_data(), "warning tied y");
    bytes_release(&b);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        b = quantized_file(bad[i], 5, 1);
        expect(&b, with_data(), i < 2 ? "error scale w.scale" : "error data w|error scale w.scale"); /* decodes */
        bytes_release(&b);
    }
}

/* Three tensors, the outer ones equal; the middle one has the same values in another order, or in another shape. */
static void expect_outer_tied(const char *header, bool turned)
{
    static float x[3][2048];
    struct bytes b;

    for (size_t i = 0; i < 2048; i++) {
        x[0][i] = x[2][i] = (float)(i * 37 % 2048) - 100;
        x[1][turned ? 2047 - i : i] = x[0][i];
    }
    b = st_file(header, x, sizeof x);
    expect(&b, with_data(), "warning tied z");
    bytes_release(&b);
}

static void test_tied_apart(void **state)
{
    (void)state;
    expect_outer_tied("{" ENTRY("x", "F32", "[2048]", 0, 8192) "," ENTRY("y", "F32", "[2048]", 8192, 16384) "," ENTRY(
                          "z", "F32", "[2048]", 16384, 24576) "}",
                      true);
    expect_outer_tied("{" ENTRY("x", "F32", "[64,32]", 0, 8192) "," ENTRY("y", "F32", "[32,64]", 8192, 16384) "," ENTRY(
                          "z", "F32", "[64,32]", 16384, 24576) "}",
                      false);
    expect_outer_tied("{" ENTRY("x", "BF16", "[4096]", 0, 8192) "," ENTRY("y", "BF16", "[4096]", 8192, 16384) "," ENTRY(
                          "z", "BF16", "[4096]", 16384, 24576) "}",
                      true);
}

/* ---- against a source ---- */

#define SOURCE_HEADER                                                                   \
    "{" ENTRY("f", "F32", "[4]", 0, 16) "," ENTRY("i", "I32", "[2]", 16, 24) "," ENTRY( \
        "h", "F32", "[2]", 24, 32) "," ENTRY("gone", "F32", "[1]", 32, 36) "," ENTRY("s", "F32", "[2]", 36, 44) "}"

static void expect_against(const struct bytes *b, double min_sqnr_db, const char *wanted)
{
    static const float source[11] = {1, 2, 3, 4, 0, 0, 0.5F, 1, 9, 7, 8};
    struct bytes s = st_file(SOURCE_HEADER, source, sizeof source);
    struct vc_verify_options options = support_verify(false);
    char path[512];
    int fd = walk_file_open(s.p, s.n, path, sizeof path);

    options.min_sqnr_db = min_sqnr_db;
    options.against = path;
    expect(b, options, wanted);
    walk_file_close(fd, path);
    bytes_release(&s);
}

static void test_against(void **state)
{
    static const float same[11] = {1, 2, 3, 4, 0, 0, 0.5F, 1, 9, 7, 8};
    static const float other[11] = {1, 2, 3, 4.01F, 0, 1, 0.5F, 1, 9, 7, 8};
    struct bytes b = st_file(SOURCE_HEADER, same, sizeof same);

    (void)state;
    expect_against(&b, 0, "");
    bytes_release(&b);
    b = st_file(SOURCE_HEADER, other, sizeof other);
    expect_against(&b, 0, "error changed f|error changed i");
    expect_against(&b, 40, "error changed i"); /* 54.8 dB */
    expect_against(&b, 60, "error changed f|error changed i");
    bytes_release(&b);

    /* f as f16, i as I16, h far off, gone missing, s in another shape, new */
    b = st_file("{" ENTRY("f", "F16", "[4]", 0, 8) "," ENTRY("i", "I16", "[2]", 8, 12) "," ENTRY(
                    "h", "F16", "[2]", 12, 16) "," ENTRY("s", "F32", "[1,2]", 16, 24) "," //
                ENTRY("new", "U8", "[1]", 24, 25) "}",
                "\x00\x3c\x00\x40\x00\x42\x00\x44\0\0\0\0\x00\xc0\x00\xc0\0\0\xe0\x40\0\0\x00\x41\1", 25);
    expect_against(&b, 0, "error type i|error missing gone|error shape s|error extra new|warning sqnr h");
    expect_against(&b, 30, "error type i|error sqnr h|error missing gone|error shape s|error extra new");
    bytes_release(&b);
}

static void test_figures(void **state)
{
    static const float scales[ROWS] = {1, 2, 3, 4};
    struct bytes b = quantized_file(scales, 5, 1);
    struct vc_ctx *ctx = test_ctx();
    struct vc_verify_options options = support_verify(false);
    struct vc_verification *v;
    char path[512];
    int fd = walk_file_open(b.p, b.n, path, sizeof path);

    (void)state;
    options.against = path;
    v = verify_bytes(ctx, &b, options);
    assert_int_equal(v->n_rows, 4);
    assert_true(v->data);
    assert_int_equal(v->n_compared, 3); /* scales belong to their tensor */
    assert_int_equal(v->n_identical, 2);
    assert_true(v->rows[0].compared && v->rows[0].numeric && isinf(v->rows[0].sqnr_db));
    assert_false(v->rows[1].compared);
    assert_string_equal(v->against, path);
    vc_result_free(v);
    walk_file_close(fd, path);
    bytes_release(&b);
    vc_ctx_free(ctx);
}

static void test_digest(void **state)
{
    static const char zeros[] = "df3f619804a92fdb4057192dc43dd748ea778adc52bc498ce80524c014b81119";
    struct bytes b = st_zeros("{" ENTRY("a", "F32", "[1]", 0, 4) "}", 4);
    struct vc_verify_options options = support_verify(false);
    struct vc_ctx *ctx = test_ctx();
    struct vc_verification *v;
    char path[512];
    int fd = walk_file_open(b.p, b.n, path, sizeof path);

    options.sha256 = true;
    (void)state;
    if (vc_verify(ctx, path, &options, &v) == VC_OK) {
        assert_true(v->data);
        assert_string_equal(v->rows[0].sha256, zeros);
        vc_result_free(v);
    } else {
        assert_non_null(strstr(vc_ctx_message(ctx), "this build has no SHA-256"));
    }
    v = verify_bytes(ctx, &b, with_data());
    assert_string_equal(v->rows[0].sha256, "");
    vc_result_free(v);
    walk_file_close(fd, path);
    bytes_release(&b);
    vc_ctx_free(ctx);
}

/* ---- failures ---- */

static void test_unreadable(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_verification *v = NULL;
    char path[512];
    int fd = walk_file_open("nothing that is known", 21, path, sizeof path);

    (void)state;
    assert_int_equal(vc_verify(ctx, path, NULL, &v), VC_E_FORMAT);
    assert_null(v);
    assert_non_null(strstr(vc_ctx_message(ctx), path));
    assert_int_equal(vc_verify(ctx, "/nowhere", NULL, &v), VC_E_IO);
    assert_null(ctx->findings);
    walk_file_close(fd, path);
    test_ctx_done(ctx);
}

/* With every allocation failing once: no leak, no finding in the place of the failure. */
static void test_allocations(void **state)
{
    static const float scales[ROWS] = {1, 0, 3, 4};
    struct bytes b = quantized_file(scales, -128, (float)NAN);
    struct bytes bad = st_zeros("{" ENTRY("a", "F31", "[2]", 0, 8) "," ENTRY("b", "F32", "[-2]", 12, 16) "," ENTRY(
                                    "b", "F32", "[2]", 12, 16) "}",
                                16);
    struct vc_ctx *ctx = test_ctx();
    char path[512];
    char bad_path[512];
    int fd = walk_file_open(b.p, b.n, path, sizeof path);
    int bad_fd = walk_file_open(bad.p, bad.n, bad_path, sizeof bad_path);
    uint64_t kept;
    int file;

    (void)state;
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    assert_non_null(vc_kernels_get(ctx));
    kept = vc_pool_in_use(ctx->shared->pool);
    for (file = 0; file < 2; file++) {
        struct vc_verify_options options = support_verify(true);
        enum vc_status status = VC_E_NOMEM;
        uint64_t n;

        options.against = file == 0 ? path : NULL;
        for (n = 1; status != VC_OK; n++) {
            struct vc_verification *v = NULL;

            vc_pool_fail_at(ctx->shared->pool, n, 0);
            status = vc_verify(ctx, file == 0 ? path : bad_path, &options, &v);
            vc_pool_fail_at(ctx->shared->pool, 0, 0);
            assert_true(status == VC_OK || status == VC_E_NOMEM);
            if (status == VC_OK) {
                assert_int_equal(v->n_errors, file == 0 ? 2 : 5);
            }
            vc_result_free(v);
            assert_int_equal(vc_pool_in_use(ctx->shared->pool), kept);
        }
        assert_true(n > 20);
    }
    walk_file_close(fd, path);
    walk_file_close(bad_fd, bad_path);
    bytes_release(&b);
    bytes_release(&bad);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_npz),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_other_names),
        cmocka_unit_test_setup_teardown(test_names_of_parts, scratch_make, scratch_remove),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_tied_apart),
        cmocka_unit_test(test_against),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
