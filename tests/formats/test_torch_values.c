/* test_torch_values.c - what stands beside the weights of a training checkpoint: values of every kind that Python has.
 * What `inspect` calls them, which of them an output has, and that outputs written again are the same, byte for byte.
 * Judge: the words and the kinds, written by hand. */
#include "torch_files.h"

#define NUMPY "numpy.core.multiarray"

/* A value under a key of the checkpoint. */
struct value {
    const char *name;
    const char *ops;
    size_t n;
    const char *what;  /* of the source */
    const char *again; /* of the output; NULL: it is left out */
};

#define VALUE(name, ops, what, again)           \
    {                                           \
        name, ops, sizeof(ops) - 1, what, again \
    }
#define SAME(name, ops, what) VALUE(name, ops, what, what)

#define BYTES_40 "0123456789012345678901234567890123456789"

static const struct value values[] = {
    SAME("none", "N", "None"),
    SAME("true", "\x88", "bool True"),
    SAME("false", "\x89", "bool False"),
    SAME("small", "K\5", "int 5"),
    SAME("word", "M\0\2", "int 512"),
    SAME("minus", "J\xff\xff\xff\xff", "int -1"),
    SAME("long", "\x8a\x05\0\0\0\0\1", "int 4294967296"),
    SAME("low", "\x8a\x06\0\0\0\0\0\xff", "int -1099511627776"),
    SAME("huge", "\x8a\x09\0\0\0\0\0\0\0\0\1", "int of 9 bytes"),
    SAME("lr", "G\x3f\xf8\0\0\0\0\0\0", "float 1.5"),
    SAME("text", "X\3\0\0\0a'b", "str 'a'b'"),
    SAME("longer", "X\x2c\0\0\0" BYTES_40 "more", "str '" BYTES_40 "'..."),
    SAME("cut", "X\x2a\0\0\0" BYTES_40 "\xc3\xa4", "str '" BYTES_40 "'..."),
    SAME("between",
         "X\x2a\0\0\0"
         "012345678901234567890123456789012345678\xc3\xa4.",
         "str '012345678901234567890123456789012345678'..."),
    VALUE("broken", "X\2\0\0\0\xff\xfe", "str of 2 bytes", NULL),
    VALUE("bytes", "C\3abc", "3 bytes", "bytes"),
    VALUE("above", "C\2\xff\x80", "2 bytes", "bytes"),
    SAME("tuple", "(K\1K\2t", "tuple of 2"),
    SAME("pair", "K\1K\2\x86", "tuple of 2"),
    SAME("single", "K\1\x85", "tuple of 1"),
    SAME("three", "K\1K\2K\3\x87", "tuple of 3"),
    SAME("nothing", ")", "tuple of 0"),
    SAME("list", "](K\1X\1\0\0\0xe", "list of 2"),
    SAME("dict", "}(K\1K\2\x88N\x89\x88u", "dict of 3"),
    VALUE("set", "\x8f(K\1K\2\x90", "set of 2", "set of 2"),
    SAME("old-set", "cbuiltins\nset\n](K\1K\2e\x85R", "set of 2"),
    SAME("encoded", "c_codecs\nencode\nX\1\0\0\0xX\6\0\0\0latin1\x86R", "bytes"),
    SAME("dtype", "ctorch\nfloat32\n", "torch.float32"),
    VALUE("class", "cmine\nNet\n", "mine.Net", NULL),
    VALUE("odd-class", "cm\xff\nNet\n", "a class", NULL),
    SAME("size", "ctorch\nSize\n(K\2K\3t\x85R", "torch.Size, opaque"),
    SAME("device", "ctorch\ndevice\nX\3\0\0\0cpu\x85R", "torch.device, opaque"),
    VALUE("args", "cargparse\nNamespace\n)\x81}X\1\0\0\0aK\1sb", "argparse.Namespace, opaque", NULL),
    VALUE("odd", "cm\xff\nNet\n)R", "an object, opaque", NULL),
    SAME("ordered", "ccollections\nOrderedDict\n)R(X\1\0\0\0aK\1u", "dict of 1"),
    VALUE("number",
          "c" NUMPY "\nscalar\n(cnumpy\ndtype\n(X\2\0\0\0f8\x89\x88tR(K\3X\1\0\0\0<tbC\x08\0\0\0\0\0\0\xf8\x3ftR",
          "float 1.5 (NumPy)", "float 1.5"),
    VALUE("truth", "c" NUMPY "\nscalar\n(cnumpy\ndtype\n(X\2\0\0\0b1\x89\x88tR(K\3X\1\0\0\0|tbC\1\1tR",
          "bool True (NumPy)", "bool True"),
    VALUE("odd-number", "c" NUMPY "\nscalar\n(cnumpy\ndtype\n(X\2\0\0\0f2\x89\x88tR(K\3X\1\0\0\0<tbC\2\0\0tR",
          "NumPy number, not read", NULL),
    VALUE("array", "c" NUMPY "\n_reconstruct\n(cnumpy\nndarray\nK\0\205C\1btR", "NumPy array, not read", NULL),
    SAME("partial", "](cmine\nNet\nK\1e", "list of 2"),
};
#define N_VALUES (sizeof values / sizeof values[0])

/* {"model": {"w": f32 (8, 64)}, and the values} */
static void save_values(const char *name)
{
    static const size_t sizes[] = {2048};
    struct bytes b = {NULL, 0, 0};
    size_t i;

    bytes_add(&b, "\x80\x04", 2);
    pk_raw(&b, "}(");
    pk_string(&b, "model");
    pk_raw(&b, "}(");
    entry(&b, "w", "FloatStorage", "0", 512, "8,64", "64,1");
    pk_raw(&b, "u");
    for (i = 0; i < N_VALUES; i++) {
        pk_string(&b, values[i].name);
        bytes_add(&b, values[i].ops, values[i].n);
    }
    pk_raw(&b, "u.");
    (void)save_own(name, torch_archive(&b, "little", sizes, 1, NULL));
    bytes_release(&b);
}

/* The words for the part of that name; NULL: there is none. */
static const char *words_of(const struct vc_model *model, const char *name)
{
    size_t i = 0;

    while (i < model->n_parts && strcmp(model->parts[i].name, name) != 0) {
        i++;
    }
    return i < model->n_parts ? model->parts[i].what : NULL;
}

static void expect_words(const struct vc_model *model, const char *name, const char *want)
{
    const char *got = words_of(model, name);

    if ((got == NULL) != (want == NULL) || (want != NULL && strcmp(got, want) != 0)) {
        fail_msg("%s is %s, expected %s", name, got != NULL ? got : "not there", want != NULL ? want : "nothing");
    }
}

static void test_words(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    size_t i;

    (void)state;
    save_values("v.pt");
    model = open_saved(ctx, "v.pt", NULL);
    for (i = 0; i < N_VALUES; i++) {
        expect_words(model, values[i].name, values[i].what);
    }
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void test_written_again(void **state)
{
    static struct task (*const tasks[])(void) = {task_copy, task_int8};
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    size_t i;
    size_t k;

    (void)state;
    save_values("v.pt");
    for (k = 0; k < 2; k++) {
        must_run(ctx, "v.pt", "o.pt", tasks[k]());
        model = open_saved(ctx, "o.pt", NULL);
        for (i = 0; i < N_VALUES; i++) {
            expect_words(model, values[i].name, values[i].again);
        }
        vc_model_close(model);
        must_run(ctx, "o.pt", "p.pt", task_copy()); /* bytes are calls now, whose function and texts stand there once */
        must_run(ctx, "p.pt", "q.pt", task_copy());
        expect_same("p.pt", "q.pt");
    }
    fail_each_allocation(ctx, "v.pt", "o.pt", task_copy(), 40);
    vc_ctx_free(ctx);
}

/* Keys that are no text: numbers and truths by their names, others by their places; parts by what their keys say. */
static void test_keys(void **state)
{
    static const char *const names[] = {"True", "False", "-5", "#3", "#4", "t"};
    static const struct {
        const char *key;
        enum vc_role role;
    } parts[] = {{"OptimizerState", VC_ROLE_OPTIMIZER}, {"opt", VC_ROLE_OPTIMIZER},  {"opt_state", VC_ROLE_OPTIMIZER},
                 {"cuda_RNG", VC_ROLE_OTHER},           {"lr_sched", VC_ROLE_OTHER}, {"amp_scaler", VC_ROLE_OTHER}};
    static const char *const keys[] = {"\x88", "\x89", "J\xfb\xff\xff\xff", "N", "K\1K\2\x86"};
    static const size_t n_keys[] = {1, 1, 5, 1, 5};
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = {NULL, 0, 0};
    struct vc_model *model;
    size_t i;
    size_t k;

    (void)state;
    pk_start(&b);
    pk_raw(&b, "}(");
    pk_string(&b, "model");
    pk_raw(&b, "}(");
    for (i = 0; i < 5; i++) {
        bytes_add(&b, keys[i], n_keys[i]);
        pk_tensor(&b, "FloatStorage", "0", 512, (int64_t)i, "2,3", "3,1");
    }
    entry(&b, "t", "FloatStorage", "0", 512, "4,4", "4,1");
    pk_raw(&b, "u");
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        pk_string(&b, parts[i].key);
        pk_raw(&b, "K\1");
    }
    pk_raw(&b, "u.");
    (void)save_own("v.pt", torch_archive(&b, "little", plain_sizes, 1, NULL));
    bytes_release(&b);
    model = open_saved(ctx, "v.pt", NULL);
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (vc_model_find(model, names[i]) == VC_NO_TENSOR) {
            fail_msg("%s is not there, but %s", names[i], model->tensors[i].name);
        }
    }
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (k = 0; k < model->n_parts && strcmp(model->parts[k].name, parts[i].key) != 0; k++) {
        }
        assert_true(k < model->n_parts);
        assert_int_equal(model->parts[k].role, parts[i].role);
    }
    vc_model_close(model);
    must_run(ctx, "v.pt", "o.pt", task_copy());
    model = open_saved(ctx, "o.pt", NULL);
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_not_equal(vc_model_find(model, names[i]), VC_NO_TENSOR);
    }
    vc_model_close(model);
    vc_ctx_free(ctx);
}

/* What is left out is named. */
static void test_note(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = {NULL, 0, 0};
    static const size_t sizes[] = {2048};

    (void)state;
    pk_start(&b);
    pk_raw(&b, "}(");
    pk_string(&b, "model");
    pk_raw(&b, "}(");
    entry(&b, "w", "FloatStorage", "0", 512, "8,64", "64,1");
    pk_raw(&b, "u");
    pk_string(&b, "net");
    pk_raw(&b, "cmine\nNet\n)R");
    pk_string(&b, "odd");
    pk_raw(&b, "cm\xff\nNet\n)R");
    pk_string(&b, "best");
    pk_raw(&b, "c" NUMPY "\n_reconstruct\n(cnumpy\nndarray\nK\1\x85X\1");
    bytes_add(&b, "\0\0\0btRu.", 8);
    (void)save_own("v.pt", torch_archive(&b, "little", sizes, 1, NULL));
    must_run(ctx, "v.pt", "o.pt", task_copy());
    assert_non_null(strstr(last_report.note, "net (mine.Net), odd (?), best (NumPy array)"));
    bytes_release(&b);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_written_again),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_note),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
