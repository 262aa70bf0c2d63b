/* test_streams.c - where a file ends that comes through a pipe: its headers tell as soon as they are there, and what
 * goes on after that is refused and not copied. */
#define _GNU_SOURCE
#include "formats_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/formats.h"
#include "formats/gguf/gguf.h"
#include "formats/npz/npz.h"
#include "formats/onnx/onnx.h"
#include "formats/safetensors/safetensors.h"
#include "formats/zip/zip_read.h"
#include "gguf_builder.h"
#include "onnx_builder.h"
#include "scratch.h"
#include "support_options.h"

static struct bytes make_safetensors(void)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[16,16],\"data_offsets\":[1024,2048]},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[16,16],\"data_offsets\":[0,1024]}}";
    struct bytes b = {NULL, 0, 0};

    bytes_u64(&b, sizeof header - 1);
    bytes_add(&b, header, sizeof header - 1);
    bytes_fill(&b, 0, 2048);
    return b;
}

static struct bytes make_gguf(void)
{
    static const uint64_t dims[] = {16, 16};
    struct gguf_builder g = {0};

    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_tensor(&g, "a", 0, 2, dims, 1024);
    gguf_tensor(&g, "b", 0, 2, dims, 1024);
    return gguf_finish(&g);
}

static struct bytes make_onnx(void)
{
    struct onnx_builder g = {0};

    onnx_weights(&g, "w", 16, 16);
    onnx_op(&g, "MatMul", "x w", "y");
    onnx_info(&g, 11, "x");
    onnx_info(&g, 12, "y");
    return onnx_finish(&g);
}

static struct bytes make_zip(const struct member_options *options, enum zip_end end, size_t n_comment)
{
    struct zip_builder z = {0};
    struct bytes out = {NULL, 0, 0};

    zip_add_bytes(&z, "a.npy", npy_matrix(16, 16), options);
    zip_add_bytes(&z, "b.npy", npy_matrix(3, 5), options);
    zip_finish(&z, end, n_comment);
    bytes_add(&out, z.out.p, z.out.n);
    zip_release(&z);
    return out;
}

/* A stored member that holds an archive of its own, descriptors and all, between signatures; the last of them begins at
 * the end of the first piece that is searched. */
static struct bytes make_nested(void)
{
    static const struct member_options behind = {.descriptor = DESCRIPTOR_32};
    static const unsigned char signature[4] = {0x50, 0x4b, 0x07, 0x08};
    struct zip_builder z = {0};
    struct bytes inside = make_zip(&behind, ZIP_END_PLAIN, 0);
    struct bytes out = {NULL, 0, 0};

    for (int i = 0; i < 9; i++) {
        bytes_add(&inside, signature, sizeof signature);
    }
    bytes_fill(&inside, 7, 100000);
    for (size_t n = 1022; n < inside.n; n += 65533) {
        memcpy(inside.p + n, signature, sizeof signature);
    }
    zip_add_bytes(&z, "a.zip", inside, &behind);
    zip_add(&z, "empty", "", 0, &behind);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    bytes_add(&out, z.out.p, z.out.n);
    zip_release(&z);
    return out;
}

/* Every beginning of the file is asked once, and the file is asked as it comes in pieces. Until its end is known
 * nothing is refused, and then it is the right one. never: it does not tell. */
static void expect_end(const char *what, vc_end_fn *find_end, struct bytes b, bool never)
{
    struct vc_ctx *ctx = test_ctx();
    const char *path = save(what, &b);
    struct vc_infile file = {.fd = open(path, O_RDONLY), .path = path};
    struct vc_stream_end whole = {.need = 0};
    uint64_t n = VC_HEAD_BYTES;

    assert_true(file.fd >= 0);
    for (; file.size_bytes < b.n; n += 7) {
        struct vc_stream_end end = {.need = 0};

        file.size_bytes = n = n < b.n ? n : b.n;
        if (find_end(ctx, &file, &end) != VC_OK) {
            fail_msg("%s: %llu bytes: %s", what, (unsigned long long)n, vc_ctx_message(ctx));
        }
        if (end.end != 0 ? end.end != b.n : end.need <= n) {
            fail_msg("%s: %llu bytes of %zu end at %llu, or need %llu", what, (unsigned long long)n, b.n,
                     (unsigned long long)end.end, (unsigned long long)end.need);
        }
        if (whole.end == 0 && n >= whole.need) {
            assert_int_equal(find_end(ctx, &file, &whole), VC_OK);
        }
    }
    if (never) {
        assert_int_equal(whole.end, 0);
        assert_true(whole.need > b.n);
    } else if (find_end != vc_format_onnx.stream_end) { /* which has to see what follows */
        if (whole.end != b.n) {
            fail_msg("%s: %zu bytes end at %llu, or need %llu", what, b.n, (unsigned long long)whole.end,
                     (unsigned long long)whole.need);
        }
    }
    close(file.fd);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_ends(void **state)
{
    static const struct member_options deflate = {.deflate = true, .level = -1};
    static const struct member_options local64 = {.local64 = true};
    static const struct member_options behind = {.descriptor = DESCRIPTOR_32};
    static const struct member_options behind64 = {.deflate = true, .level = 0, .descriptor = DESCRIPTOR_64};
    static const struct member_options no_signature = {.descriptor = DESCRIPTOR_PLAIN_32};
    static const struct member_options gap = {.gap = 5};
    static float values[1024];

    (void)state;
    expect_end("a.safetensors", vc_format_safetensors.stream_end, make_safetensors(), false);
    expect_end("a.gguf", vc_format_gguf.stream_end, make_gguf(), false);
    expect_end("a.onnx", vc_format_onnx.stream_end, make_onnx(), false);
    expect_end("a.npy", vc_format_npy.stream_end, npy_array("<f4", false, "(32, 32)", values, sizeof values), false);
    expect_end("a.npz", vc_zip_stream_end, make_zip(NULL, ZIP_END_PLAIN, 0), false);
    expect_end("b.npz", vc_zip_stream_end, make_zip(&deflate, ZIP_END_PLAIN, 600), false);
    expect_end("c.npz", vc_zip_stream_end, make_zip(&local64, ZIP_END_64, 0), false);
    expect_end("d.npz", vc_zip_stream_end, make_zip(&behind, ZIP_END_PLAIN, 0), false);
    expect_end("f.npz", vc_zip_stream_end, make_zip(&behind64, ZIP_END_64, 7), false);
    expect_end("g.npz", vc_zip_stream_end, make_zip(&no_signature, ZIP_END_PLAIN, 0), true);
    expect_end("h.npz", vc_zip_stream_end, make_nested(), false);
    expect_end("e.npz", vc_zip_stream_end, make_zip(&gap, ZIP_END_PLAIN, 0), true);
}

/* What a stream's headers say of it is refused before the rest has come. */
static void expect_early(const char *what, vc_end_fn *find_end, struct bytes b, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    const char *path = save(what, &b);
    struct vc_infile file = {.fd = open(path, O_RDONLY), .path = path, .size_bytes = VC_HEAD_BYTES};
    struct vc_stream_end end = {.need = 0};
    enum vc_status status;

    status = find_end(ctx, &file, &end);
    if (status != VC_E_FORMAT && status != VC_E_UNSUPPORTED) {
        fail_msg("%s: %s", what, vc_status_name(status));
    }
    expect_says(ctx, words);
    close(file.fd);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_early(void **state)
{
    static const struct member_options stray = {.local_extra = "abcdefgh", .n_local_extra = 8};
    static float values[1024];
    struct bytes b = make_safetensors();

    (void)state;
    memcpy(b.p + 8, "[1]", 3);
    expect_early("a.safetensors", vc_format_safetensors.stream_end, b, "is no valid JSON");
    b = make_safetensors();
    b.p[7] = 1;
    expect_early("b.safetensors", vc_format_safetensors.stream_end, b, "are allowed");
    b = make_gguf();
    b.p[24 + 8] = 0xff; /* in a key */
    expect_early("a.gguf", vc_format_gguf.stream_end, b, "");
    expect_early("a.npy", vc_format_npy.stream_end, npy_array("<x9", false, "(32, 32)", values, sizeof values), "");
    b = make_zip(&stray, ZIP_END_PLAIN, 0);
    memset(b.p + 18, 0xff, 4); /* the size is in the extra field, which is damaged */
    expect_early("a.npz", vc_zip_stream_end, b, "longer than the extra field");
}

/* A process that writes the file into a pipe, and zeros behind it as long as somebody reads. Returns the pipe's end. */
static int endless(const struct bytes *b, pid_t *child)
{
    static const char zeros[4096];
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    *child = fork();
    assert_true(*child >= 0);
    if (*child == 0) {
        size_t at = 0;

        (void)signal(SIGPIPE, SIG_DFL);
        (void)close(ends[0]);
        while (at < b->n) {
            ssize_t n = write(ends[1], b->p + at, b->n - at);

            at += n > 0 ? (size_t)n : 0;
        }
        for (at = 0; at < (size_t)4 << 30; at += sizeof zeros) {
            (void)!write(ends[1], zeros, sizeof zeros);
        }
        _exit(0);
    }
    (void)close(ends[1]);
    return ends[0];
}

/* Opens or verifies the stream, as standard input; the writer has to be told that nobody reads any more. */
static void expect_refused(struct bytes b, bool verify, const char *words)
{
    struct vc_ctx *ctx = test_ctx();
    int saved = dup(STDIN_FILENO);
    struct vc_verify_options options = support_verify(false);
    struct vc_verification *found = NULL;
    struct vc_model *model = NULL;
    pid_t child;
    int fd = endless(&b, &child);
    int how = 0;

    (void)dup2(fd, STDIN_FILENO);
    (void)close(fd);
    if (verify) {
        assert_int_equal(vc_verify(ctx, "-", &options, &found), VC_OK);
        assert_int_equal(found->n_errors, 1);
        assert_non_null(strstr(found->findings[0].sentence, words));
        vc_result_free(found);
    } else {
        assert_int_equal(vc_model_open(ctx, "-", NULL, &model), VC_E_FORMAT);
        expect_says(ctx, words);
    }
    (void)dup2(saved, STDIN_FILENO);
    (void)close(saved);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGPIPE);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_endless(void **state)
{
    static const struct member_options behind = {.descriptor = DESCRIPTOR_32};
    static float values[1024];
    struct bytes b = make_safetensors();
    char words[64];

    (void)state;
    snprintf(words, sizeof words, "goes on after the %zu bytes", b.n);
    expect_refused(b, false, words);
    expect_refused(make_safetensors(), true, words);
    expect_refused(make_gguf(), false, "goes on after the ");
    expect_refused(make_gguf(), true, "goes on after the ");
    expect_refused(make_onnx(), false, "goes on after the ");
    expect_refused(npy_array("<f4", false, "(32, 32)", values, sizeof values), false, "goes on after the ");
    expect_refused(make_zip(NULL, ZIP_END_PLAIN, 0), false, "goes on after the ");
    expect_refused(make_zip(NULL, ZIP_END_PLAIN, 0), true, "goes on after the ");
    expect_refused(make_zip(&behind, ZIP_END_PLAIN, 0), false, "goes on after the ");
}

/* With findings, entries that are broken do not tell where the data ends: the stream is read to its end, and each of
 * them is found once. */
static void test_broken(void **state)
{
    struct bytes b = make_safetensors();
    struct vc_ctx *ctx = test_ctx();
    struct vc_verify_options options = support_verify(false);
    struct vc_verification *found = NULL;
    int saved = dup(STDIN_FILENO);
    int ends[2];

    (void)state;
    memcpy(strstr((char *)b.p + 8, "F32"), "F99", 3); /* of b */
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], b.p, b.n), b.n);
    (void)close(ends[1]);
    (void)dup2(ends[0], STDIN_FILENO);
    (void)close(ends[0]);
    assert_int_equal(vc_verify(ctx, "-", &options, &found), VC_OK);
    (void)dup2(saved, STDIN_FILENO);
    (void)close(saved);
    assert_int_equal(found->n_errors, 1);
    assert_non_null(strstr(found->findings[0].sentence, "F99"));
    vc_result_free(found);
    bytes_release(&b);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_ends, scratch_make, scratch_clear),
                                       cmocka_unit_test_setup_teardown(test_early, scratch_make, scratch_clear),
                                       cmocka_unit_test(test_endless), cmocka_unit_test(test_broken)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
