/* test_torch_refused.c - what of PyTorch files is refused: views beyond their storage, trees that are none, pickles
 * that would take very long, tensors that cannot be read and are set apart. Each is an archive by hand with one thing
 * wrong and the sentence that names it. */
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

/* ---- tensors ---- */

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

/* ---- trees ---- */

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

/* A persistent id of six, beside a tensor that is fine. */
static void make_id_of_six(struct bytes *b)
{
    pk_raw(b, "}(");
    entry(b, "w", "FloatStorage", "0", 12, "12", "1");
    pk_string(b, "s");
    pk_raw(b, "(");
    pk_string(b, "storage");
    pk_global(b, "torch", "FloatStorage");
    pk_raw(b, "U\0010U\3cpuK\014NtQu");
}

static void make_id_of_text(struct bytes *b)
{
    pk_raw(b, "}(");
    entry(b, "w", "FloatStorage", "0", 12, "12", "1");
    pk_raw(b, "K\1U\0010Qu");
}

static void make_list_key(struct bytes *b)
{
    pk_raw(b, "}]");
    pk_tensor(b, "FloatStorage", "0", 12, 0, "12", "1");
    pk_raw(b, "s");
}

static void test_bad_trees(void **state)
{
    static const struct {
        void (*make)(struct bytes *b);
        const char *needle;
    } cases[] = {
        {make_twice, "'w' occurs twice"},
        {make_self, "contains itself"},
        {make_doubling, "so often"},
        {make_deep, "more than 200 levels"},
        {make_nothing, "without any tensor"},
        {make_two_ways, "storage '0' is described in two ways"},
        {make_not_utf8, "no UTF-8"},
        {make_missing, "no member 'archive/data/17'"},
        {make_key_path, "is no plain name"},
        {make_objects, "so often"},
        {make_modules, "so often"},
        {make_id_of_six, "a persistent id that is no"},
        {make_id_of_text, "a persistent id that is no"},
        {make_list_key, "Python cannot hash"},
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
    (void)save("a.pt", &b);
    model = open_saved(ctx, "a.pt", NULL);
    assert_int_equal(vc_model_facts(model)->n_tensors, 1);
    assert_string_equal(vc_model_facts(model)->facts[1].value,
                        "3 tensors cannot be read: a, b (is a conjugated view; resolve_conj() it first), c (is a "
                        "negated view; resolve_neg() it first)");
    assert_int_equal(vc_diff_models(ctx, model, model, &diff), VC_E_UNSUPPORTED);
    assert_non_null(strstr(vc_ctx_message(ctx), "a.pt: a: is a conjugated view"));
    assert_null(diff);
    vc_model_close(model);
    bytes_release(&b);
    bytes_release(&pickle);
    remove_path("a.pt");
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_views), cmocka_unit_test(test_bad_trees),
                                       cmocka_unit_test(test_refused_names)};

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
