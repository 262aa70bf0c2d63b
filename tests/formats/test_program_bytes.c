/* test_program_bytes.c - models behind functions of the program, and outputs that go there: the same bytes as files;
 * what fails there ends the call with a sentence; nothing beside a name is looked for. */
#include "formats/formats.h"
#include "formats_test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "bytes.h"
#include "gguf_builder.h"
#include "scratch.h"
#include "support_options.h"

/* What the program gives and takes; call number `fails` of its functions fails (from 1 on). */
struct store {
    struct bytes in;
    struct vc_memory *out;
    atomic_uint calls;
    unsigned fails;
    uint64_t announced;
    bool committed;
};

static bool works(struct store *s)
{
    return ++s->calls != s->fails;
}

static bool store_read(void *user, uint64_t offset, void *dst, size_t n)
{
    struct store *s = user;

    assert_true(offset <= s->in.n && n <= s->in.n - offset);
    memcpy(dst, s->in.p + offset, n);
    return works(s);
}

static bool store_begin(void *user, uint64_t size_bytes)
{
    struct store *s = user;
    const struct vc_writer *to = &s->out->writer;

    s->announced = size_bytes;
    return to->begin(to->user, size_bytes) && works(s);
}

static bool store_write(void *user, uint64_t offset, const void *data, size_t n)
{
    struct store *s = user;
    const struct vc_writer *to = &s->out->writer;

    return to->write(to->user, offset, data, n) && works(s);
}

static bool store_commit(void *user)
{
    struct store *s = user;
    const struct vc_writer *to = &s->out->writer;

    s->committed = works(s);
    return s->committed && to->commit(to->user);
}

static struct vc_reader reader_of(struct store *s)
{
    return (struct vc_reader){NULL, s->in.n, store_read, s};
}

static struct vc_writer writer_of(struct store *s)
{
    return (struct vc_writer){store_begin, store_write, store_commit, s};
}

/* Two matrices of random numbers, stored or deflated. */
static struct bytes make_npz(void)
{
    struct zip_builder z = {0};
    struct bytes out = {NULL, 0, 0};

    zip_add_bytes(&z, "a.npy", npy_matrix(64, 128), NULL);
    zip_add_bytes(&z, "b.npy", npy_matrix(32, 256), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    bytes_add(&out, z.out.p, z.out.n);
    zip_release(&z);
    return out;
}

static enum vc_status run(struct vc_ctx *ctx, const char *path, const struct vc_reader *from,
                          const struct vc_write_options *write)
{
    struct vc_open_options open;
    struct vc_quantize_options quantize;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    vc_open_defaults(&open);
    open.reader = from;
    vc_quantize_defaults(&quantize);
    quantize.min_elems = 1;
    status = vc_model_open(ctx, path, &open, &model);
    status = status == VC_OK ? vc_job_create(ctx, model, &job) : status;
    status = status == VC_OK ? vc_job_add_quantize(ctx, job, &quantize) : status;
    status = status == VC_OK ? vc_job_plan(ctx, job, write) : status;
    status = status == VC_OK ? vc_job_run(ctx, job) : status;
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

static void same_bytes(void **state)
{
    static const struct {
        const char *format, *name;
        enum vc_deflate deflate;
    } rows[] = {{"npz", "o.npz", VC_DEFLATE_NONE},
                {"npz", "o.npz", VC_DEFLATE_ZLIB},
                {"safetensors", "o.safetensors", VC_DEFLATE_NONE},
                {"gguf", "o.gguf", VC_DEFLATE_NONE},
                {"torch", "o.pt", VC_DEFLATE_NONE}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct vc_ctx *ctx = test_ctx();
        struct store s = {.in = make_npz(), .out = vc_memory_create()};
        struct vc_reader from = reader_of(&s);
        struct vc_reader whole = {s.in.p, s.in.n, NULL, NULL};
        struct vc_writer to = writer_of(&s);
        struct vc_write_options write;
        struct bytes want;
        const void *got;
        uint64_t n;

        (void)vc_ctx_set_threads(ctx, 4);
        save("m.npz", &s.in);
        vc_write_defaults(&write);
        write.deflate = rows[i].deflate;
        write.path = in_folder(rows[i].name);
        assert_int_equal(run(ctx, in_folder("m.npz"), NULL, &write), VC_OK);
        want = load(rows[i].name);
        write.path = NULL;
        write.format = rows[i].format;
        write.writer = &to;
        assert_int_equal(run(ctx, "m", &from, &write), VC_OK);
        got = s.out->bytes;
        n = s.out->size_bytes;
        assert_true(s.committed && n == want.n && memcmp(got, want.p, n) == 0);
        assert_true(s.announced == (rows[i].deflate != VC_DEFLATE_NONE ? 0 : n));
        write.writer = &s.out->writer; /* again, over what is there, from bytes */
        assert_int_equal(run(ctx, "m", &whole, &write), VC_OK);
        got = s.out->bytes;
        n = s.out->size_bytes;
        assert_true(n == want.n && memcmp(got, want.p, n) == 0);
        bytes_release(&want);
        bytes_release(&s.in);
        vc_memory_free(s.out);
        vc_ctx_free(ctx);
        empty_folder();
    }
}

/* Every call of the program's functions in turn. */
static void failing_functions(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct store s = {.in = make_npz(), .out = vc_memory_create()};
    struct vc_reader from = reader_of(&s);
    struct vc_writer to = writer_of(&s);
    struct vc_write_options write;
    enum vc_status status = VC_E_IO;

    (void)state;
    (void)vc_ctx_set_threads(ctx, 1);
    vc_write_defaults(&write);
    write.format = "npz";
    write.writer = &to;
    for (s.fails = 1; status != VC_OK; s.fails++) {
        s.calls = 0;
        s.committed = false;
        status = run(ctx, "m", &from, &write);
        assert_true(status == VC_OK || status == VC_E_IO);
        assert_true(status == VC_OK || strstr(vc_ctx_message(ctx), "the program ") != NULL);
        assert_true((s.out->bytes != NULL) == (status == VC_OK));
    }
    assert_true(s.fails > 10);
    bytes_release(&s.in);
    vc_memory_free(s.out);
    vc_ctx_free(ctx);
}

static void refused(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct store s = {.in = make_npz(), .out = vc_memory_create()};
    struct vc_reader from = reader_of(&s);
    struct vc_reader empty = {s.in.p, 0, NULL, NULL};
    struct vc_reader nothing = {NULL, 5, NULL, NULL};
    struct vc_reader cut = {s.in.p, s.in.n / 2, NULL, NULL};
    struct vc_writer to = writer_of(&s);
    struct vc_write_options write;
    const char *more = "x.npz";

    (void)state;
    vc_write_defaults(&write);
    write.writer = &to;
    assert_int_equal(run(ctx, "folder/m.npz", &empty, &write), VC_E_FORMAT);
    expect_says(ctx, "<m.npz>: is empty (0 bytes)");
    assert_int_equal(run(ctx, "", &nothing, &write), VC_E_FORMAT);
    expect_says(ctx, "<memory>: is empty (0 bytes)");
    assert_int_equal(run(ctx, "-", &cut, &write), VC_E_FORMAT);
    expect_says(ctx, "<->: ");
    write.path = in_folder("o.npz");
    assert_int_equal(run(ctx, "m", &from, &write), VC_E_ARGUMENT);
    expect_says(ctx, "without a path");
    write.path = NULL;
    write.emit = &more;
    write.n_emit = 1;
    assert_int_equal(run(ctx, "m", &from, &write), VC_E_ARGUMENT);
    write.n_emit = 0;
    write.max_shard_bytes = 100;
    assert_int_equal(run(ctx, "m", &from, &write), VC_E_ARGUMENT);
    write.max_shard_bytes = 0;
    to.write = NULL;
    assert_int_equal(run(ctx, "m", &from, &write), VC_E_ARGUMENT);
    expect_says(ctx, "a writer needs a function and gets");
    bytes_release(&s.in);
    vc_memory_free(s.out);
    vc_ctx_free(ctx);
}

/* A config.json in the working folder belongs to no model in memory; nor does the file of a name with a number. */
static void nothing_beside(void **state)
{
    static const uint64_t dims[] = {16, 16};
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};
    struct vc_model *model = NULL;
    struct vc_open_options open;
    struct vc_reader from = {.read = NULL};
    struct bytes b;
    char before[4096];

    (void)state;
    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_tensor(&g, "a", 0, 2, dims, 1024);
    b = gguf_finish(&g);
    from = (struct vc_reader){b.p, b.n, NULL, NULL};
    vc_open_defaults(&open);
    open.reader = &from;
    assert_non_null(getcwd(before, sizeof before));
    save_text("config.json", "{\"model_type\": ");
    assert_int_equal(chdir(scratch_folder()), 0);
    assert_int_equal(vc_model_open(ctx, "m-00001-of-00002.gguf", &open, &model), VC_OK);
    assert_string_equal(vc_model_facts(model)->path, "<m-00001-of-00002.gguf>");
    assert_string_equal(vc_model_extension(model), ".gguf");
    assert_int_equal(vc_model_facts(model)->n_tensors, 1);
    vc_model_close(model);
    assert_int_equal(chdir(before), 0);
    empty_folder();
    bytes_release(&b);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(failing_functions),
        cmocka_unit_test(refused),
        cmocka_unit_test(nothing_beside),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
