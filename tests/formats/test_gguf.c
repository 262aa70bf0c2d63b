/* test_gguf.c - GGUF as a model and as an output. Files are built by gguf_builder.c, right or wrong in one place:
 * good ones have the tensors and facts that were put in, wrong ones are refused with the right sentence, every cut and
 * many flipped bits do no harm. Copies are the same bytes, metadata is kept or replaced as the builder would write it,
 * failing allocations leave no output. tests/judge/test_gguf.py has other readers as judges. */
#include "formats_test.h"

#include <stdlib.h>

#include "core/base/checked.h"
#include "formats/formats.h"
#include "formats/gguf/gguf.h"
#include "gguf_builder.h"
#include "tasks.h"

#define DIMS(...)      \
    (const uint64_t[]) \
    {                  \
        __VA_ARGS__    \
    }

static void good(struct gguf_builder *g, const char *what)
{
    struct bytes b = gguf_finish(g);

    expect_good(what, b.p, b.n);
    bytes_release(&b);
}

static void bad(struct gguf_builder *g, const char *needle)
{
    struct bytes b = gguf_finish(g);

    expect_bad(needle, b.p, b.n, needle);
    bytes_release(&b);
}

static struct vc_model *open_bytes(struct vc_ctx *ctx, const struct bytes *b)
{
    struct vc_model *model = NULL;
    char path[512];
    int fd = walk_file_open(b->p, b->n, path, sizeof path);

    if (vc_model_open(ctx, path, NULL, &model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    walk_file_close(fd, path);
    return model;
}

/* Every kind of value; blocks, a scalar, an empty tensor. */
static struct bytes sample(void)
{
    static const char *const words[] = {"<s>", "", "\xff\xfe", "word"};
    struct gguf_builder g = {0};

    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_pair(&g, "a.u8", 0, "\1", 1);
    gguf_pair(&g, "a.i16", 3, "\1\2", 2);
    gguf_pair_u32(&g, "general.file_type", 1);
    gguf_pair(&g, "a.bool", 7, "\1", 1);
    gguf_pair_string(&g, "general.name", "a \"name\"\nin two lines");
    gguf_pair_strings(&g, "tokenizer.ggml.tokens", words, 4);
    gguf_pair(&g, "a.floats", 9, "\6\0\0\0\2\0\0\0\0\0\0\0abcdefgh", 20);
    gguf_pair(&g, "a.f64", 12, "12345678", 8);
    gguf_tensor(&g, "w", 0, 2, DIMS(8, 4), 128);
    gguf_tensor(&g, "q", 8, 2, DIMS(64, 3), 204);
    gguf_tensor(&g, "half", 1, 2, DIMS(32, 2), 128);
    gguf_tensor(&g, "k", 12, 2, DIMS(256, 2), 288);
    gguf_tensor(&g, "opaque", 16, 2, DIMS(256, 1), 66);
    gguf_tensor(&g, "empty", 0, 2, DIMS(0, 3), 0);
    gguf_tensor(&g, "h", 30, 1, DIMS(5), 10);
    gguf_tensor(&g, "one", 27, 0, NULL, 8);
    gguf_tensor(&g, "deep", 24, 4, DIMS(3, 2, 1, 2), 12);
    return gguf_finish(&g);
}

/* ---- reading ---- */

static void test_good(void **state)
{
    struct gguf_builder g = {0};
    struct bytes b = sample();

    (void)state;
    expect_good("the sample", b.p, b.n);
    b.n -= 20; /* the padding of the last tensor may be missing */
    expect_good("without the last padding", b.p, b.n);
    b.n -= 1;
    expect_bad("a byte of the last tensor", b.p, b.n, "ends inside its tensors: they need");
    b.n += 21;
    bytes_fill(&b, 0, 1);
    expect_bad("a byte more", b.p, b.n, "has 1 bytes behind its last tensor");
    bytes_release(&b);
    good(&g, "nothing at all");
    gguf_pair_u32(&g, "k", 0);
    good(&g, "a pair alone");
    g.version = 2;
    gguf_tensor(&g, "", 0, 1, DIMS(1), 4);
    good(&g, "version 2, no name");
    g.align = 8;
    gguf_pair_u32(&g, "general.alignment", 8);
    gguf_tensor(&g, "a", 0, 1, DIMS(3), 12);
    gguf_tensor(&g, "b", 0, 1, DIMS(3), 12);
    good(&g, "alignment 8");
    gguf_tensor(&g, "name of sixty-three bytes: 012345678901234567890123456789012345", 0, 1, DIMS(1), 4);
    good(&g, "63 bytes");
    gguf_tensor(&g, "\xc3\xa4", 0, 4, DIMS(1, 0, (uint64_t)1 << 40, 1), 0);
    good(&g, "UTF-8 and no elements");
}

static void test_tensors(void **state)
{
    static const struct {
        const char *name;
        enum vc_dtype dtype;
        unsigned n_dims;
        uint64_t shape[4], bytes;
    } want[] = {{"w", VC_DTYPE_F32, 2, {4, 8}, 128},
                {"q", VC_DTYPE_Q8_0, 2, {3, 64}, 204},
                {"half", VC_DTYPE_F16, 2, {2, 32}, 128},
                {"k", VC_DTYPE_Q4_K, 2, {2, 256}, 288},
                {"opaque", VC_DTYPE_IQ2_XXS, 2, {1, 256}, 66},
                {"empty", VC_DTYPE_F32, 2, {3, 0}, 0},
                {"h", VC_DTYPE_BF16, 1, {5}, 10},
                {"one", VC_DTYPE_I64, 0, {0}, 8},
                {"deep", VC_DTYPE_I8, 4, {2, 1, 2, 3}, 12}};
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = sample();
    struct vc_model *model = open_bytes(ctx, &b);
    unsigned char got[34];
    size_t i;

    (void)state;
    assert_string_equal(vc_model_facts(model)->format, "gguf");
    assert_int_equal(vc_model_facts(model)->n_tensors, sizeof want / sizeof want[0]);
    for (i = 0; i < sizeof want / sizeof want[0]; i++) {
        const struct vc_tensor *t = vc_model_tensor(model, i);

        assert_string_equal(t->name, want[i].name);
        assert_int_equal(t->dtype, want[i].dtype);
        assert_int_equal(t->n_dims, want[i].n_dims);
        assert_memory_equal(t->shape, want[i].shape, t->n_dims * sizeof *t->shape);
        assert_int_equal(t->size_bytes, want[i].bytes);
        assert_null(t->quant);
    }
    assert_int_equal(vc_model_read(ctx, model, 1, 32, 32, got, sizeof got), VC_OK);
    assert_int_equal(got[0], 34);
    assert_int_equal(vc_model_read(ctx, model, 1, 1, 32, got, sizeof got), VC_E_ARGUMENT); /* part of a block */
    vc_model_close(model);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static const char *fact(const struct vc_model *model, const char *key)
{
    const struct vc_fact *f;
    size_t i;

    for (i = 0; i < vc_model_facts(model)->n_facts; i++) {
        f = &vc_model_facts(model)->facts[i];
        if (strcmp(f->key, key) == 0) {
            return f->value;
        }
    }
    return "";
}

static void test_facts(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = sample();
    struct vc_model *model = open_bytes(ctx, &b);

    (void)state;
    assert_string_equal(fact(model, "architecture"), "llama");
    assert_string_equal(fact(model, "name"), "a \"name\"?in two lines");
    assert_string_equal(fact(model, "file type"), "mostly F16");
    assert_string_equal(fact(model, "metadata"), "9 pairs");
    vc_model_close(model);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_bad_header(void **state)
{
    struct gguf_builder g = {0};
    struct bytes b = {NULL, 0, 0};

    (void)state;
    g.version = 1;
    bad(&g, "is a GGUF file of version 1; 2 and 3 can be read");
    g.version = 4;
    bad(&g, "version 4");
    g.version = 0x03000000;
    bad(&g, "is a big-endian GGUF file");
    b = gguf_finish(&g);
    memset(b.p + 4, 0, 4);
    expect_bad("version 0", b.p, b.n, "version 0: its header was not written to the end");
    memset(b.p, 0, b.n);
    expect_bad("zeros", b.p, b.n, "llama.cpp's quantizer writes it last");
    bytes_release(&b);
    g.more_pairs = 1;
    bad(&g, "ends inside metadata pair 1 of 1");
    g.more_pairs = 65537;
    bad(&g, "announces 65537 pairs of metadata; 65536 are allowed");
    g.more_tensors = UINT64_MAX;
    bad(&g, "ends inside tensor entry 1 of 18446744073709551615");
}

static void test_bad_metadata(void **state)
{
    static const unsigned char huge[] = {8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const unsigned char many[] = {5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x40};
    struct gguf_builder g = {0};

    (void)state;
    gguf_pair_u32(&g, "", 1);
    bad(&g, "metadata pair 1 of 1: its key has 0 bytes");
    gguf_pair_u32(&g, "\xc0\xaf", 1);
    bad(&g, "its key is no UTF-8");
    gguf_pair_u32(&g, "a", 1);
    gguf_pair_u32(&g, "b", 1);
    gguf_pair_u32(&g, "a", 2);
    bad(&g, "metadata key 'a' occurs twice");
    gguf_pair(&g, "a", 13, "1234", 4);
    bad(&g, "metadata key 'a': is of kind 13, which does not exist");
    gguf_pair(&g, "a", 9, "\15\0\0\0\1\0\0\0\0\0\0\0", 12);
    bad(&g, "metadata key 'a': is an array of kind 13, which does not exist");
    gguf_pair(&g, "a", 9, "\11\0\0\0\0\0\0\0\0\0\0\0", 12);
    bad(&g, "is an array of arrays");
    gguf_pair(&g, "a", 9, huge, sizeof huge);
    bad(&g, "ends inside metadata key 'a'");
    gguf_pair(&g, "a", 9, many, sizeof many);
    bad(&g, "ends inside metadata key 'a'");
    gguf_pair(&g, "a", 8, "\377\377\377\377\377\377\377\377", 8);
    bad(&g, "ends inside metadata key 'a'");
    gguf_pair_u32(&g, "general.alignment", 0);
    bad(&g, "is 0, expected a power of two");
    gguf_pair_u32(&g, "general.alignment", 48);
    bad(&g, "is 48, expected a power of two");
    gguf_pair(&g, "general.alignment", 10, "\40\0\0\0\0\0\0\0", 8);
    bad(&g, "is of kind 10, expected 4 (u32)");
}

static void bad_entry(uint32_t type, uint32_t n_dims, const uint64_t *dims, uint64_t offset, const char *needle)
{
    struct gguf_builder g = {0};

    gguf_entry(&g, "a", type, n_dims, dims, offset);
    bad(&g, needle);
}

static void test_bad_entries(void **state)
{
    static const uint32_t types[] = {4, 5, 31, 33, 36, 38, 43, 255, UINT32_MAX};
    struct gguf_builder g = {0};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof types / sizeof types[0]; i++) {
        bad_entry(types[i], 1, DIMS(256), 0, "which is not known");
    }
    bad_entry(0, 6, DIMS(1, 1, 1, 1, 1, 1), 0, "a: has 6 dimensions; 5 are allowed");
    bad_entry(0, 1, DIMS((uint64_t)1 << 63), 0, "2^63 elements or more");
    bad_entry(0, 2, DIMS((uint64_t)1 << 32, (uint64_t)1 << 32), 0, "2^63 elements or more");
    bad_entry(28, 1, DIMS((uint64_t)1 << 61), 0, "2^63 bytes or more");
    bad_entry(8, 2, DIMS(48, 2), 0, "a: its rows have 48 elements; q8_0 has blocks of 32");
    bad_entry(12, 1, DIMS(128), 0, "a: its rows have 128 elements; q4_k has blocks of 256");
    bad_entry(2, 0, NULL, 0, "rows have 1 elements");
    bad_entry(0, 1, DIMS(1), 32, "starts at byte 32 of the data, expected 0 (there is a hole before it)");
    bad_entry(0, 1, DIMS(1), 0, "ends inside its tensors: they need 4 bytes");
    gguf_tensor(&g, "a", 0, 1, DIMS(1), 4);
    gguf_entry(&g, "b", 0, 1, DIMS(1), 4);
    bad(&g, "b: starts at byte 4 of the data, expected 32 (it overlaps the tensor before it)");
    gguf_tensor(&g, "a", 0, 1, DIMS(1), 4);
    gguf_tensor(&g, "a", 0, 1, DIMS(1), 4);
    bad(&g, "tensor 'a' occurs twice");
    gguf_tensor(&g,
                "0123456789012345678901234567890123456789012345678901234567890123"
                "0123456789012345678901234567890123456789012345678901234567890123",
                0, 1, DIMS(1), 4);
    bad(&g, "tensor entry 1 of 1: its name has 128 bytes; 127 are allowed");
    gguf_tensor(&g, "\xff", 0, 1, DIMS(1), 4);
    bad(&g, "its name is no UTF-8");
    gguf_entry(&g, "a", 28, 1, DIMS(((uint64_t)1 << 60) - 8), 0);
    gguf_entry(&g, "b", 24, 1, DIMS((uint64_t)1 << 7), ((uint64_t)1 << 63) - 64);
    bad(&g, "b: ends behind byte 2^63 of the data");
}

static void test_cuts_and_flips(void **state)
{
    static const unsigned char masks[] = {0x01, 0x20, 0x80, 0xff};
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = sample();
    size_t i;
    size_t k;

    (void)state;
    for (i = 1; i < b.n; i++) {
        enum vc_status status = walk_bytes(ctx, b.p, i, NULL);

        assert_int_equal(status == VC_OK, i >= b.n - 20);
        assert_int_equal(status == VC_OK, vc_ctx_message(ctx)[0] == '\0');
        for (k = 0; k < sizeof masks; k++) {
            b.p[i] ^= masks[k];
            expect_calm(ctx, b.p, b.n);
            b.p[i] ^= masks[k];
        }
    }
    bytes_release(&b);
    test_ctx_done(ctx);
}

/* ---- writing ---- */

/* Blocks of Q8_0, also of what is quantized already. */
static struct task q8_0(void)
{
    struct task task = task_int8();

    task.quantize.requantize = true;
    return task;
}

/* A copy is the file again, whatever it holds; without its last padding, that comes back. */
static void test_copy(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = sample();
    struct bytes cut = {b.p, b.n - 20, 0};
    struct bytes got;

    (void)state;
    (void)save("in.gguf", &cut);
    must_run(ctx, "in.gguf", "out.gguf", task_copy());
    got = load("out.gguf");
    assert_int_equal(got.n, b.n);
    assert_memory_equal(got.p, b.p, b.n);
    bytes_release(&got);
    bytes_release(&b);
    remove_path("in.gguf");
    remove_path("out.gguf");
    test_ctx_done(ctx);
}

/* The pairs that have to change do so where they stand, whatever kind they had; the others keep their bytes. */
static void test_metadata(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};
    struct bytes b;
    struct bytes want;
    struct bytes got;

    (void)state;
    gguf_pair_string(&g, "first", "1");
    gguf_pair(&g, "general.file_type", 10, "\0\0\0\0\0\0\0\0", 8);
    gguf_pair_string(&g, "last", "2");
    gguf_tensor(&g, "w", 0, 2, DIMS(4, 2), 32);
    b = gguf_finish(&g);
    (void)save("in.gguf", &b);
    must_run(ctx, "in.gguf", "out.gguf", task_fp16());
    got = load("out.gguf");
    gguf_pair_string(&g, "first", "1");
    gguf_pair_u32(&g, "general.file_type", 1);
    gguf_pair_string(&g, "last", "2");
    gguf_tensor(&g, "w", 1, 2, DIMS(4, 2), 16);
    want = gguf_finish(&g);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.p, want.p, want.n - 32); /* but for the data */
    bytes_release(&want);
    bytes_release(&got);
    bytes_release(&b);
    gguf_tensor(&g, "w", 0, 2, DIMS(4, 2), 32); /* no metadata before: it comes behind the others */
    b = gguf_finish(&g);
    (void)save("in.gguf", &b);
    must_run(ctx, "in.gguf", "out.gguf", task_fp16());
    got = load("out.gguf");
    gguf_pair_u32(&g, "general.file_type", 1);
    gguf_tensor(&g, "w", 1, 2, DIMS(4, 2), 16);
    want = gguf_finish(&g);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.p, want.p, want.n - 32);
    bytes_release(&want);
    bytes_release(&got);
    bytes_release(&b);
    remove_path("in.gguf");
    remove_path("out.gguf");
    vc_ctx_free(ctx);
}

static void put_f32(struct bytes *b, float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof u);
    bytes_u32(b, u);
}

/* Not every GGUF file is one of llama.cpp's: the architecture says whose. */
static void test_programs(void **state)
{
    static const char *const programs[][2] = {{"llama", "llama.cpp"},
                                              {"flux", "stable-diffusion.cpp or ComfyUI-GGUF"},
                                              {"clip", "llama.cpp (--mmproj, beside the model for text)"},
                                              {"unknown", "only a program that knows its names"},
                                              {"nobody's", "only a program that knows its names"}};

    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        struct vc_ctx *ctx = test_ctx();
        struct gguf_builder g = {0};
        struct vc_model *model = NULL;
        struct bytes b;

        gguf_pair_string(&g, "general.architecture", programs[i][0]);
        gguf_tensor(&g, "w", 0, 1, DIMS(5), 5);
        b = gguf_finish(&g);
        (void)save("in.gguf", &b);
        assert_int_equal(vc_model_open(ctx, in_folder("in.gguf"), NULL, &model), VC_OK);
        assert_string_equal(model->loader.program, programs[i][1]);
        vc_model_close(model);
        bytes_release(&b);
        remove_path("in.gguf");
        test_ctx_done(ctx);
    }
}

/* Blocks that were worked out by hand, and back. */
static void test_q8_0(void **state)
{
    static const float values[2][32] = {{127.0f, 0.5f, -0.5f, 2.5f, -2.5f, 0.49f}, {-0.25f, 0.125f}};
    static const unsigned char codes[2][34] = {{0x00, 0x3c, 127, 1, 255, 3, 253, 0}, {0x08, 0x18, 129, 64}};
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};
    struct vc_model *model = NULL;
    struct bytes b;
    struct bytes got;
    float back[64];
    size_t i;

    (void)state;
    gguf_pair_string(&g, "general.architecture", "llama");
    gguf_entry(&g, "w", 0, 2, DIMS(32, 2), 0);
    for (i = 0; i < 64; i++) {
        put_f32(&g.data, values[i / 32][i % 32]);
    }
    b = gguf_finish(&g);
    (void)save("in.gguf", &b);
    must_run(ctx, "in.gguf", "q.gguf", q8_0());
    got = load("q.gguf");
    assert_int_equal(got.n % 32, 0);
    assert_memory_equal(got.p + got.n - 96, codes, sizeof codes);
    assert_int_equal(vc_model_open(ctx, in_folder("q.gguf"), NULL, &model), VC_OK);
    assert_int_equal(vc_model_tensor(model, 0)->dtype, VC_DTYPE_Q8_0);
    assert_string_equal(fact(model, "file type"), "mostly Q8_0");
    assert_string_equal(fact(model, "metadata"), "3 pairs");
    assert_int_equal(vc_tensor_read_f32(ctx, model, 0, back, 64), VC_OK);
    assert_true(back[0] == 127.0f && back[1] == 1.0f && back[4] == -3.0f && back[6] == 0.0f);
    vc_model_close(model);
    must_run(ctx, "q.gguf", "f.npz", task_back());
    assert_int_equal(vc_model_open(ctx, in_folder("f.npz"), NULL, &model), VC_OK);
    assert_int_equal(vc_model_tensor(model, 0)->dtype, VC_DTYPE_F32);
    vc_model_close(model);
    bytes_release(&got);
    bytes_release(&b);
    remove_path("in.gguf");
    remove_path("q.gguf");
    remove_path("f.npz");
    vc_ctx_free(ctx);
}

/* Tensors without elements at the end: the padding before them is still written. */
static void test_empty_tail(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};
    struct bytes b;
    struct bytes got;

    (void)state;
    gguf_tensor(&g, "a", 24, 1, DIMS(5), 5);
    gguf_tensor(&g, "b", 0, 1, DIMS(0), 0);
    b = gguf_finish(&g);
    (void)save("in.gguf", &b);
    must_run(ctx, "in.gguf", "out.gguf", task_copy());
    got = load("out.gguf");
    assert_int_equal(got.n, b.n);
    assert_memory_equal(got.p, b.p, b.n);
    bytes_release(&got);
    bytes_release(&b);
    remove_path("in.gguf");
    remove_path("out.gguf");
    test_ctx_done(ctx);
}

/* From npz and back: shapes turn round twice, values stay. */
static void test_through_npz(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = npy_matrix(3, 5);
    struct vc_model *model = NULL;
    struct bytes got;

    (void)state;
    (void)save("in.npy", &b);
    must_run(ctx, "in.npy", "x.gguf", task_copy());
    assert_int_equal(vc_model_open(ctx, in_folder("x.gguf"), NULL, &model), VC_OK);
    assert_int_equal(vc_model_tensor(model, 0)->shape[0], 3);
    assert_int_equal(vc_model_tensor(model, 0)->shape[1], 5);
    assert_string_equal(fact(model, "architecture"), "unknown");
    assert_string_equal(fact(model, "file type"), "mostly F32");
    vc_model_close(model);
    got = load("x.gguf");
    assert_int_equal(got.n % 32, 0);
    bytes_release(&got);
    must_run(ctx, "x.gguf", "out.npy", task_copy());
    got = load("out.npy");
    assert_int_equal(got.n, b.n);
    assert_memory_equal(got.p, b.p, b.n);
    bytes_release(&got);
    bytes_release(&b);
    remove_path("in.npy");
    remove_path("x.gguf");
    remove_path("out.npy");
    test_ctx_done(ctx);
}

static void refuse_member(struct vc_ctx *ctx, const char *name, struct bytes member, const char *needle)
{
    struct zip_builder z;

    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.npy", npy_matrix(3, 4), NULL);
    zip_add_bytes(&z, name, member, NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("in.npz", &z.out);
    must_refuse(ctx, "in.npz", "o.gguf", task_copy(), needle);
    remove_path("in.npz");
    zip_release(&z);
}

static void test_refusals(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes text = {NULL, 0, 0};
    struct bytes b = sample();
    char name[70];

    (void)state;
    bytes_add(&text, "text", 4);
    refuse_member(ctx, "notes.txt", text, "notes.txt: gguf cannot hold elements of type raw");
    refuse_member(ctx, "u.npy", npy_array("|u1", false, "(2,)", "12", 2), "u: gguf cannot hold elements of type u8");
    refuse_member(ctx, "d.npy", npy_array("|i1", false, "(1,1,1,1,1)", "1", 1), "d: has 5 dimensions; GGUF allows 4");
    memset(name, 'n', 64);
    memcpy(name + 64, ".npy", 5);
    refuse_member(ctx, name, npy_matrix(1, 1), "its name has 64 bytes; GGUF allows 63");
    (void)save("in.gguf", &b);
    must_refuse(ctx, "in.gguf", "o.npz", task_copy(), "q: npz cannot hold elements of type q8_0");
    must_refuse(ctx, "in.gguf", "o.safetensors", task_copy(), "q: safetensors cannot hold");
    must_refuse(ctx, "in.gguf", "o.gguf", task_fp16(), "q: is quantized to q8_0 already");
    must_refuse(ctx, "in.gguf", "o.npz", task_back(), "opaque: npz cannot hold elements of type iq2_xxs");
    remove_path("in.gguf");
    bytes_release(&b);
    vc_ctx_free(ctx);
}

/* The n-th allocation fails, for every n, in reading and writing. */
static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = sample();

    (void)state;
    (void)save("in.gguf", &b);
    fail_each_allocation(ctx, "in.gguf", "q.gguf", q8_0(), 30);
    bytes_release(&b);
    remove_path("q.gguf");
    remove_path("in.gguf");
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_tensors),      cmocka_unit_test(test_facts),
        cmocka_unit_test(test_bad_header),     cmocka_unit_test(test_bad_metadata), cmocka_unit_test(test_bad_entries),
        cmocka_unit_test(test_cuts_and_flips), cmocka_unit_test(test_copy),         cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_through_npz),    cmocka_unit_test(test_q8_0),         cmocka_unit_test(test_empty_tail),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_programs),     cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
