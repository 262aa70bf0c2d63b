/* test_torch.c - PyTorch files as models: names, roles and parts, views and byte order, the legacy format, what is
 * refused, every kind of damage. */
#include "torch_files.h"

#include <unistd.h>

#include <vcompress/measure.h>

/* An archive of one dict around the pickle's inside. */
static struct bytes archive_of(void (*make)(struct bytes *b), const size_t *sizes, size_t n)
{
    struct bytes pickle = {NULL, 0, 0};
    struct bytes out;

    pk_start(&pickle);
    make(&pickle);
    pk_raw(&pickle, ".");
    out = torch_archive(&pickle, NULL, sizes, n, NULL);
    bytes_release(&pickle);
    return out;
}

/* One tensor "w" of a float storage of 12 elements, as the arguments say; refused with the needle, or fine (NULL). */
static void one(const char *function, const char *storage, int64_t numel, int64_t offset, const char *size,
                const char *stride, const char *needle)
{
    static const size_t sizes[] = {48};
    struct bytes pickle = {NULL, 0, 0};
    struct bytes b;

    pk_start(&pickle);
    pk_raw(&pickle, "}");
    pk_string(&pickle, "w");
    pk_tensor_by(&pickle, function, storage, "0", numel, offset, size, stride);
    pk_raw(&pickle, "s.");
    b = torch_archive(&pickle, "little", sizes, 1, NULL);
    if (needle == NULL) {
        expect_good(size, b.p, b.n);
    } else {
        expect_bad(size, b.p, b.n, needle);
    }
    bytes_release(&b);
    bytes_release(&pickle);
}

#define V2 "_rebuild_tensor_v2"

/* ---- reading ---- */

static void test_plain(void **state)
{
    static const struct member_options deflated = {.deflate = true, .level = 6};
    static const struct member_options descriptors = {.descriptor = DESCRIPTOR_64, .local64 = true};
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = plain_pickle();
    struct vc_model *model;
    unsigned i;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct bytes b = torch_archive(&pickle, i == 1 ? NULL : "little", plain_sizes, 2,
                                       i == 0   ? NULL
                                       : i == 1 ? &deflated
                                                : &descriptors);
        const struct vc_tensor *t;
        int64_t values[2];

        save("a.pt", &b);
        expect_good("archive", b.p, b.n);
        model = open_saved(ctx, "a.pt", NULL);
        assert_string_equal(vc_model_format(model), "torch");
        assert_string_equal(vc_model_extension(model), ".pt");
        assert_int_equal(vc_model_tensor_count(model), 2);
        t = vc_model_tensor(model, 0);
        assert_string_equal(t->name, "w");
        assert_int_equal(t->dtype, VC_DTYPE_F32);
        assert_int_equal(t->n_dims, 2);
        assert_int_equal(t->shape[1], 64);
        assert_int_equal(t->role, VC_ROLE_WEIGHT);
        assert_int_equal(t->alias_of, VC_NO_TENSOR);
        assert_int_equal(t->compressed, i == 1);
        assert_int_equal(vc_model_read(ctx, model, 1, 1, 2, values, sizeof values), VC_OK);
        assert_memory_equal(values, "\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17", 16);
        vc_model_close(model);
        bytes_release(&b);
    }
    bytes_release(&pickle);
    (void)unlink(in_folder("a.pt"));
    test_ctx_done(ctx);
}

static void test_big_endian(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = plain_pickle();
    struct bytes b = torch_archive(&pickle, "big", plain_sizes, 2, NULL);
    struct vc_model *model;
    unsigned char got[8];

    (void)state;
    save("a.pt", &b);
    model = open_saved(ctx, "a.pt", NULL);
    assert_int_equal(vc_model_read(ctx, model, 0, 1, 2, got, sizeof got), VC_OK);
    assert_memory_equal(got, "\7\6\5\4\x0b\x0a\x09\x08", 8);
    vc_model_close(model);
    bytes_release(&b);
    b = torch_archive(&pickle, "middle", plain_sizes, 2, NULL);
    expect_bad("byte order", b.p, b.n, "byte order 'middle'");
    bytes_release(&b);
    bytes_release(&pickle);
    (void)unlink(in_folder("a.pt"));
    test_ctx_done(ctx);
}

static void test_training(void **state)
{
    static const char *const names[] = {"w", "tied", "b", "optimizer.state.5.exp_avg", "rng"};
    static const enum vc_role roles[] = {VC_ROLE_WEIGHT, VC_ROLE_WEIGHT, VC_ROLE_WEIGHT, VC_ROLE_OPTIMIZER,
                                         VC_ROLE_OTHER};
    static const char *const parts[][2] = {{"epoch", "int 7"},
                                           {"model_state_dict", "dict of 3"},
                                           {"optimizer", "dict of 2"},
                                           {"args", "argparse.Namespace, opaque"},
                                           {"rng", "tensor"}};
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    size_t i;

    (void)state;
    save_training("t.pt");
    model = open_saved(ctx, "t.pt", NULL);
    assert_int_equal(vc_model_tensor_count(model), 5);
    for (i = 0; i < 5; i++) {
        assert_string_equal(vc_model_tensor(model, i)->name, names[i]);
        assert_int_equal(vc_model_tensor(model, i)->role, roles[i]);
        assert_string_equal(vc_model_part(model, i)->name, parts[i][0]);
        assert_string_equal(vc_model_part(model, i)->what, parts[i][1]);
        assert_int_equal(vc_model_part(model, i)->chosen, i == 1);
    }
    assert_null(vc_model_part(model, 5));
    assert_int_equal(vc_model_part(model, 1)->size_bytes, 2048 + 24);
    assert_int_equal(vc_model_tensor(model, 1)->alias_of, 0);
    assert_int_equal(vc_model_tensor(model, 1)->file_bytes, 0);
    vc_model_close(model);
    model = open_saved(ctx, "t.pt", "optimizer.state");
    assert_string_equal(vc_model_tensor(model, 0)->name, "5.exp_avg");
    assert_int_equal(vc_model_tensor(model, 0)->role, VC_ROLE_WEIGHT);
    assert_string_equal(vc_model_tensor(model, 1)->name, "model_state_dict.w");
    vc_model_close(model);
    assert_int_equal(vc_model_open(ctx, in_folder("t.pt"), &(struct vc_open_options){.key = "ema"}, &model),
                     VC_E_ARGUMENT);
    assert_non_null(strstr(vc_ctx_message(ctx), "no key 'ema'; it has 'epoch', 'model_state_dict'"));
    assert_int_equal(vc_model_open(ctx, in_folder("t.pt"), &(struct vc_open_options){.key = "args"}, &model),
                     VC_E_ARGUMENT);
    (void)unlink(in_folder("t.pt"));
    test_ctx_done(ctx);
}

static void make_module(struct bytes *b)
{
    pk_global(b, "my.models", "Net");
    pk_raw(b, ")\x81}(");
    pk_string(b, "_parameters");
    pk_raw(b, "}");
    pk_string(b, "_buffers");
    pk_raw(b, "}(");
    entry(b, "shown", "FloatStorage", "1", 2, "2", "1");
    entry(b, "hidden", "FloatStorage", "1", 2, "2", "1");
    pk_raw(b, "u");
    pk_string(b, "_non_persistent_buffers_set");
    pk_global(b, "__builtin__", "set");
    pk_raw(b, "](");
    pk_string(b, "hidden");
    bytes_add(b, "e\x85R", 3);
    pk_string(b, "_modules");
    pk_raw(b, "}(");
    pk_string(b, "fc");
    pk_global(b, "torch.nn", "Linear");
    pk_raw(b, ")\x81}(");
    pk_string(b, "_parameters");
    pk_raw(b, "}(");
    pk_string(b, "weight");
    pk_global(b, "torch._utils", "_rebuild_parameter");
    pk_raw(b, "(");
    pk_tensor(b, "FloatStorage", "0", 12, 0, "3,4", "4,1");
    pk_raw(b, "\x88}tR");
    pk_string(b, "bias");
    pk_raw(b, "Nu");
    pk_string(b, "_modules");
    pk_raw(b, "}ubuub");
}

static void test_module(void **state)
{
    static const size_t sizes[] = {48, 8};
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = {NULL, 0, 0};
    struct bytes b;
    struct vc_model *model;

    (void)state;
    pk_start(&pickle);
    make_module(&pickle);
    pk_raw(&pickle, ".");
    b = torch_archive(&pickle, NULL, sizes, 2, NULL);
    save("m.pt", &b);
    model = open_saved(ctx, "m.pt", NULL);
    assert_int_equal(vc_model_tensor_count(model), 2);
    assert_string_equal(vc_model_tensor(model, 0)->name, "shown");
    assert_string_equal(vc_model_tensor(model, 1)->name, "fc.weight");
    vc_model_close(model);
    bytes_release(&b);
    bytes_release(&pickle);
    (void)unlink(in_folder("m.pt"));
    test_ctx_done(ctx);
}

static void test_views(void **state)
{
    (void)state;
    one(V2, "FloatStorage", 12, 0, "3,4", "4,1", NULL);
    one(V2, "FloatStorage", 12, 0, "4,3", "1,4", NULL);
    one(V2, "FloatStorage", 12, 5, "7", "1", NULL);
    one(V2, "FloatStorage", 12, 0, "3,4", "0,1", NULL);
    one(V2, "FloatStorage", 12, 0, "", "", NULL);
    one(V2, "FloatStorage", 12, 12, "0", "1", NULL);
    one(V2, "FloatStorage", 12, 99, "2,0", "7,7", NULL);
    one(V2, "FloatStorage", 12, 0, "1,1,12", "999999999999,999999999999,1", NULL);
    one(V2, "ComplexFloatStorage", 6, 0, "2,3", "1,2", NULL);
    one(V2, "BFloat16Storage", 24, 1, "2,3", "11,2", NULL);
    one("_rebuild_tensor", "DoubleStorage", 6, 0, "6", "1", NULL);
    one(V2, "FloatStorage", 12, 6, "7", "1", "w: reaches beyond its storage of 12 elements");
    one(V2, "FloatStorage", 12, 0, "3,4", "5,1", "reaches beyond");
    one(V2, "FloatStorage", 12, 0, "2", "9223372036854775807", "reaches beyond");
    one(V2, "FloatStorage", 12, 12, "1", "1", "reaches beyond");
    one(V2, "FloatStorage", 12, 9223372036854775807, "2", "1", "reaches beyond");
    one(V2, "FloatStorage", 12, -1, "3", "1", "its offset");
    one(V2, "FloatStorage", 12, 0, "-3,4", "4,1", "its sizes");
    one(V2, "FloatStorage", 12, 0, "3,4", "4,-1", "its strides");
    one(V2, "FloatStorage", 12, 0, "3,4", "4", "2 sizes, but 1 strides");
    one(V2, "FloatStorage", 12, 0, "4294967296,4294967296", "0,0", "2^64");
    one(V2, "FloatStorage", 12, 0, "1048576,1048576", "0,0", "repeats a storage");
    one(V2, "FloatStorage", 13, 0, "3", "1", "has 48 bytes, but its storage of 13 elements has 52");
    one(V2, "FloatStorage", -12, 0, "3", "1", "the size of its storage");
    one(V2, "DoubleStorage", 9223372036854775807, 0, "3", "1", "2^64 bytes");
    one(V2, "SpoonStorage", 12, 0, "3", "1", "torch.SpoonStorage, which is not known");
    one("_rebuild_nothing", "FloatStorage", 12, 0, "3", "1", "w: is made by torch._utils._rebuild_nothing");
    one("_rebuild_sparse_tensor", "FloatStorage", 12, 0, "3", "1", "w: is a sparse tensor");
    one("_rebuild_qtensor", "QInt8Storage", 48, 0, "3", "1", "w: is quantized by PyTorch");
    one("_rebuild_tensor_v3", "FloatStorage", 12, 0, "3", "1", "nothing tells the type");
}

/* ---- other trees ---- */

static void make_twice(struct bytes *b)
{
    pk_raw(b, "}(");
    entry(b, "w", "FloatStorage", "0", 12, "12", "1");
    entry(b, "w", "FloatStorage", "0", 12, "12", "1");
    pk_raw(b, "u");
}

static void make_self(struct bytes *b)
{
    bytes_add(b, "}q\0", 3);
    pk_string(b, "me");
    bytes_add(b, "h\0s", 3);
}

static void make_doubling(struct bytes *b)
{
    unsigned i;

    pk_raw(b, "}");
    entry(b, "w", "FloatStorage", "0", 12, "12", "1");
    pk_raw(b, "s");
    for (i = 0; i < 40; i++) {
        unsigned char put[2] = {'q', (unsigned char)i};
        unsigned char get[2] = {'h', (unsigned char)i};

        bytes_add(b, put, 2);
        pk_raw(b, "0}(K\1");
        bytes_add(b, get, 2);
        pk_raw(b, "K\2");
        bytes_add(b, get, 2);
        pk_raw(b, "u");
    }
}

static void make_deep(struct bytes *b)
{
    unsigned i;

    for (i = 0; i < 1000; i++) {
        pk_raw(b, "](");
    }
    pk_raw(b, "N");
    for (i = 0; i < 1000; i++) {
        pk_raw(b, "e");
    }
}

static void make_nothing(struct bytes *b)
{
    pk_raw(b, "}(");
    pk_string(b, "epoch");
    pk_raw(b, "K\1u");
}

static void make_two_ways(struct bytes *b)
{
    pk_raw(b, "}(");
    entry(b, "a", "FloatStorage", "0", 12, "12", "1");
    entry(b, "b", "IntStorage", "0", 12, "12", "1");
    pk_raw(b, "u");
}

static void make_not_utf8(struct bytes *b)
{
    pk_raw(b, "}");
    entry(b, "w\xff", "FloatStorage", "0", 12, "12", "1");
    pk_raw(b, "s");
}

static void make_missing(struct bytes *b)
{
    pk_raw(b, "}");
    entry(b, "w", "FloatStorage", "17", 12, "12", "1");
    pk_raw(b, "s");
}

static void make_key_path(struct bytes *b)
{
    pk_raw(b, "}");
    entry(b, "w", "FloatStorage", "../version", 12, "12", "1");
    pk_raw(b, "s");
}

/* A few bytes each, and 4,000 values to look at: objects around one tuple, */
static void make_objects(struct bytes *b)
{
    size_t i;

    pk_raw(b, "](cm\nC\nq\1(");
    for (i = 0; i < 4000; i++) {
        pk_raw(b, "N");
    }
    pk_raw(b, "tq\2");
    for (i = 0; i < 4000; i++) {
        pk_raw(b, "h\1h\2R");
    }
    pk_raw(b, "e");
}

/* and modules with one state. */
static void make_modules(struct bytes *b)
{
    size_t i;

    pk_raw(b, "](cm\nC\n)R}q\2(");
    for (i = 0; i < 4000; i++) {
        pk_raw(b, "NN");
    }
    pk_string(b, "_parameters");
    pk_raw(b, "}");
    pk_string(b, "_modules");
    pk_raw(b, "}ubcm\nC\nq\1");
    for (i = 0; i < 4000; i++) {
        pk_raw(b, "h\1)Rh\2b");
    }
    pk_raw(b, "e");
}

static void test_bad_trees(void **state)
{
    static const struct {
        void (*make)(struct bytes *b);
        const char *needle;
    } cases[] = {
        {make_twice, "'w' occurs twice"},     {make_self, "contains itself"},
        {make_doubling, "so often"},          {make_deep, "more than 200 levels"},
        {make_nothing, "without any tensor"}, {make_two_ways, "storage '0' is described in two ways"},
        {make_not_utf8, "no UTF-8"},          {make_missing, "no member 'archive/data/17'"},
        {make_key_path, "is no plain name"},  {make_objects, "so often"},
        {make_modules, "so often"},
    };
    static const size_t sizes[] = {48};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes b = archive_of(cases[i].make, sizes, 1);

        expect_bad(cases[i].needle, b.p, b.n, cases[i].needle);
        bytes_release(&b);
    }
}

/* A lazy view: the bit is noted behind the arguments that every tensor has. */
static void lazy(struct bytes *b, const char *name, const char *bit)
{
    entry(b, name, "ComplexFloatStorage", "0", 6, "6", "1");
    b->n -= 2;
    pk_raw(b, "}");
    pk_string(b, bit);
    bytes_add(b, "\x88stR", 4);
}

/* All that cannot be read are named, with one reason for those in a row that share it. */
static void test_refused_names(void **state)
{
    static const size_t sizes[] = {48};
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = {NULL, 0, 0};
    struct bytes b;
    struct vc_model *model;
    struct vc_diff *diff;

    (void)state;
    pk_start(&pickle);
    pk_raw(&pickle, "}(");
    lazy(&pickle, "a", "conj");
    lazy(&pickle, "b", "conj");
    lazy(&pickle, "c", "neg");
    lazy(&pickle, "w", "other");
    pk_raw(&pickle, "u.");
    b = torch_archive(&pickle, NULL, sizes, 1, NULL);
    save("a.pt", &b);
    model = open_saved(ctx, "a.pt", NULL);
    assert_int_equal(vc_model_tensor_count(model), 1);
    assert_string_equal(vc_model_fact(model, 1)->value,
                        "3 tensors cannot be read: a, b (is a conjugated view; resolve_conj() it first), c (is a "
                        "negated view; resolve_neg() it first)");
    assert_int_equal(vc_diff_models(ctx, model, model, &diff), VC_E_UNSUPPORTED);
    assert_non_null(strstr(vc_ctx_message(ctx), "a.pt: a: is a conjugated view"));
    assert_null(diff);
    vc_model_close(model);
    bytes_release(&b);
    bytes_release(&pickle);
    (void)unlink(in_folder("a.pt"));
    test_ctx_done(ctx);
}

/* An optimizer's own file, a list, a bare tensor. */
static void test_other_tops(void **state)
{
    static const size_t sizes[] = {48};
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = {NULL, 0, 0};
    struct bytes b;
    struct vc_model *model;

    (void)state;
    pk_start(&pickle);
    pk_raw(&pickle, "}(");
    pk_string(&pickle, "state");
    pk_raw(&pickle, "}");
    entry(&pickle, "m", "FloatStorage", "0", 12, "12", "1");
    pk_raw(&pickle, "s");
    pk_string(&pickle, "param_groups");
    pk_raw(&pickle, "]u.");
    b = torch_archive(&pickle, NULL, sizes, 1, NULL);
    save("a.pt", &b);
    model = open_saved(ctx, "a.pt", NULL);
    assert_string_equal(vc_model_tensor(model, 0)->name, "state.m");
    assert_int_equal(vc_model_tensor(model, 0)->role, VC_ROLE_OPTIMIZER);
    vc_model_close(model);
    bytes_release(&b);
    pickle.n = 0;
    pk_start(&pickle);
    pk_raw(&pickle, "(N}");
    entry(&pickle, "w", "FloatStorage", "0", 12, "12", "1");
    pk_raw(&pickle, "st.");
    b = torch_archive(&pickle, NULL, sizes, 1, NULL);
    save("a.pt", &b);
    model = open_saved(ctx, "a.pt", NULL);
    assert_string_equal(vc_model_tensor(model, 0)->name, "1.w");
    vc_model_close(model);
    model = open_saved(ctx, "a.pt", "1");
    assert_string_equal(vc_model_tensor(model, 0)->name, "w");
    vc_model_close(model);
    bytes_release(&b);
    pickle.n = 0;
    pk_start(&pickle);
    pk_tensor(&pickle, "FloatStorage", "0", 12, 0, "12", "1");
    pk_raw(&pickle, ".");
    b = torch_archive(&pickle, NULL, sizes, 1, NULL);
    save("a.pt", &b);
    model = open_saved(ctx, "a.pt", NULL);
    assert_string_equal(vc_model_tensor(model, 0)->name, "tensor");
    vc_model_close(model);
    bytes_release(&b);
    bytes_release(&pickle);
    (void)unlink(in_folder("a.pt"));
    test_ctx_done(ctx);
}

/* ---- the legacy format ---- */

static struct bytes legacy_file(void)
{
    static const size_t numels[] = {512, 3};
    static const size_t items[] = {4, 8};
    struct bytes pickle = plain_pickle();
    struct bytes b = torch_legacy(&pickle, numels, items, 2);

    bytes_release(&pickle);
    return b;
}

static void test_legacy(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = legacy_file();
    struct vc_model *model;
    unsigned char got[8];
    size_t i;

    (void)state;
    save("l.bin", &b);
    model = open_saved(ctx, "l.bin", NULL);
    assert_string_equal(vc_model_format(model), "torch");
    assert_string_equal(vc_model_extension(model), ".bin");
    assert_int_equal(vc_model_read(ctx, model, 1, 0, 1, got, sizeof got), VC_OK);
    assert_memory_equal(got, "\0\1\2\3\4\5\6\7", 8);
    vc_model_close(model);
    for (i = 1; i < b.n; i++) {
        assert_int_not_equal(walk_bytes(ctx, b.p, i, NULL), VC_OK);
        assert_string_not_equal(vc_ctx_message(ctx), "");
    }
    for (i = 0; i < b.n - 2100; i++) {
        b.p[i] ^= 0x21;
        expect_calm(ctx, b.p, b.n);
        b.p[i] ^= 0x21;
    }
    bytes_add(&b, "x", 1);
    expect_bad("more", b.p, b.n, "1 bytes after the last storage");
    bytes_release(&b);
    (void)unlink(in_folder("l.bin"));
    test_ctx_done(ctx);
}

/* Its pickles may be of any protocol; from 4 on they are framed. */
static void test_legacy_protocols(void **state)
{
    struct bytes b = legacy_file();
    struct bytes framed = {NULL, 0, 0};

    (void)state;
    bytes_add(&framed, "\x80\5\x95\x0d\0\0\0\0\0\0\0", 11);
    bytes_add(&framed, b.p + 2, b.n - 2);
    expect_good("frame", framed.p, framed.n);
    b.p[1] = 3;
    expect_good("protocol 3", b.p, b.n);
    b.p[1] = 6;
    expect_bad("protocol 6", b.p, b.n, "");
    bytes_release(&framed);
    bytes_release(&b);
}

/* ---- damage ---- */

static void test_cuts_and_flips(void **state)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xff};
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = training_pickle();
    struct bytes b = torch_archive(&pickle, "little", training_sizes, 4, NULL);
    size_t i;
    size_t k;

    (void)state;
    expect_good("the sample", b.p, b.n);
    for (i = 1; i < b.n; i += 7) {
        assert_int_not_equal(walk_bytes(ctx, b.p, i, NULL), VC_OK);
    }
    for (i = 0; i < pickle.n + 100; i++) {
        for (k = 0; k < sizeof masks; k++) {
            b.p[i] ^= masks[k];
            expect_calm(ctx, b.p, b.n);
            b.p[i] ^= masks[k];
        }
    }
    bytes_release(&b);
    bytes_release(&pickle);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_big_endian),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_module),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_bad_trees),
        cmocka_unit_test(test_other_tops),
        cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_legacy_protocols),
        cmocka_unit_test(test_refused_names),
        cmocka_unit_test(test_cuts_and_flips),
    };

    return cmocka_run_group_tests(tests, torch_set_up, torch_tear_down);
}
