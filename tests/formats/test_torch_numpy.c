/* test_torch_numpy.c - numbers of NumPy in a pickle: which become numbers of Python, with the value that the bytes
 * stand for, and that nothing else does; and what other single nodes are. */
#include "formats_test.h"

#include "formats/torch/torch_choose.h"
#include "torch_builder.h"

/* scalar(dtype(type, False, True) with the state (3, order), bytes) */
static struct bytes number_of(const char *module, const char *type, const char *order, const void *data, size_t n)
{
    struct bytes b = {NULL, 0, 0};

    pk_start(&b);
    pk_global(&b, module, "scalar");
    pk_raw(&b, "(");
    pk_global(&b, "numpy", "dtype");
    pk_raw(&b, "(");
    pk_string(&b, type);
    bytes_add(&b, "\x89\x88tR(K\3", 7);
    pk_string(&b, order);
    pk_raw(&b, "tbC");
    bytes_fill(&b, (int)n, 1);
    bytes_add(&b, data, n);
    pk_raw(&b, "tR.");
    return b;
}

/* What it becomes; VC_PICKLE_PERSID: nothing. Takes the bytes. */
static struct vc_pickle_node read_number(struct bytes b)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_pickle_node number = {.kind = VC_PICKLE_PERSID};
    struct vc_pickle pickle;

    if (vc_pickle_parse(ctx, b.p, b.n, &pickle, NULL) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    if (!vc_torch_numpy_number(pickle.root, &number)) {
        number.kind = VC_PICKLE_PERSID;
    }
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
    return number;
}

#define CORE "numpy.core.multiarray"

static void expect_int(const char *type, const char *order, const void *data, size_t n, int64_t value)
{
    struct vc_pickle_node number = read_number(number_of(CORE, type, order, data, n));

    assert_int_equal(number.kind, type[0] == 'b' ? VC_PICKLE_BOOL : VC_PICKLE_INT);
    assert_true(number.u.integer == value);
}

static void expect_none(const char *module, const char *type, const void *data, size_t n)
{
    assert_int_equal(read_number(number_of(module, type, "<", data, n)).kind, VC_PICKLE_PERSID);
}

static void test_numbers(void **state)
{
    struct vc_pickle_node number;

    (void)state;
    expect_int("i1", "|", "\xff", 1, -1);
    expect_int("u1", "|", "\xff", 1, 255);
    expect_int("i2", "<", "\0\x80", 2, -32768);
    expect_int("i4", "<", "\1\0\0\x80", 4, INT32_MIN + 1);
    expect_int("i4", ">", "\1\2\3\4", 4, 0x01020304);
    expect_int("u4", "<", "\xff\xff\xff\xff", 4, UINT32_MAX);
    expect_int("i8", "<", "\0\0\0\0\0\0\0\x80", 8, INT64_MIN);
    expect_int("u8", "<", "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, INT64_MAX);
    expect_int("b1", "|", "\1", 1, 1);
    number = read_number(number_of("numpy._core.multiarray", "f4", "<", "\0\0\xc0\xbf", 4));
    assert_int_equal(number.kind, VC_PICKLE_FLOAT);
    assert_true(number.u.real == -1.5);
    number = read_number(number_of(CORE, "f8", ">", "\x3f\xf8\0\0\0\0\0\0", 8));
    assert_true(number.u.real == 1.5);
}

static void test_none(void **state)
{
    (void)state;
    expect_none(CORE, "f2", "\0\0", 2);
    expect_none(CORE, "c8", "\0\0\0\0\0\0\0\0", 8);
    expect_none(CORE, "u8", "\0\0\0\0\0\0\0\x80", 8);
    expect_none(CORE, "f8", "\0\0\0\0\0\0\0", 7);
    expect_none(CORE, "f8", "\0\0\0\0\0\0\0\0\0", 9);
    expect_none(CORE, "f9", "\0\0\0\0\0\0\0\0\0", 9);
    expect_none(CORE, "i3", "\0\0\0", 3);
    expect_none(CORE, "i", "\0\0\0\0", 4);
    expect_none(CORE, "i16", "\0", 1);
    expect_none("numpy.core", "i1", "\0", 1);
}

/* Protocol 2 has bytes as text: characters below 256, as many as there are bytes. */
static void test_text(void **state)
{
    static const struct {
        const char *text;
        int64_t value; /* 0: refused */
    } cases[] = {
        {"\xc2\x80\x01", 0x0180}, {"\xc3\xbf\xc3\xbf", -1}, {"a", 0}, {"abc", 0}, {"a\xc4\x80", 0}, {"a\xc2", 0},
        {"\xe2\x82\xac", 0}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes b = {NULL, 0, 0};
        struct vc_pickle_node number;

        pk_start(&b);
        pk_global(&b, CORE, "scalar");
        pk_raw(&b, "(");
        pk_global(&b, "numpy", "dtype");
        pk_raw(&b, "(");
        pk_string(&b, "i2");
        pk_raw(&b, "tR(K\3");
        pk_string(&b, "<");
        pk_raw(&b, "tb");
        pk_global(&b, "_codecs", "encode");
        pk_raw(&b, "(");
        pk_string(&b, cases[i].text);
        pk_string(&b, "latin1");
        pk_raw(&b, "tRtR.");
        number = read_number(b);
        assert_int_equal(number.kind, cases[i].value == 0 ? VC_PICKLE_PERSID : VC_PICKLE_INT);
        assert_true(cases[i].value == 0 || number.u.integer == cases[i].value);
    }
}

/* A list of objects, sets and calls; each begins with what it is. */
static struct bytes make_nodes(void)
{
    struct bytes b = {NULL, 0, 0};

    pk_start(&b);
    pk_raw(&b, "](");
    pk_global(&b, "m", "Slots"); /* 0: attributes and slots */
    pk_raw(&b, ")R(}(");
    pk_string(&b, "x");
    pk_raw(&b, "K\1uNtb");
    pk_global(&b, "m", "Three"); /* 1: a state of three */
    pk_raw(&b, ")R(}NNtb");
    pk_global(&b, "m", "List"); /* 2: a state that is no dict */
    pk_raw(&b, ")R]b");
    pk_global(&b, "__builtin__", "set"); /* 3 */
    pk_raw(&b, "(](");
    pk_string(&b, "a");
    pk_raw(&b, "K\5");
    pk_string(&b, "bc");
    pk_raw(&b, "etR\x8f("); /* 4: a set of protocol 4 */
    pk_string(&b, "a");
    pk_raw(&b, "\x90K\5");      /* 5: a number */
    pk_global(&b, "m", "make"); /* 6: made by what another call made */
    pk_raw(&b, ")R)RK\5)R}(");  /* 7: a number is called; 8: nearly the state of an optimizer */
    pk_string(&b, "state");
    pk_raw(&b, "N");
    pk_string(&b, "groups");
    pk_raw(&b, "Nu(");
    pk_string(&b, "else"); /* 9: something else outside */
    pk_raw(&b, "tQ");
    pk_global(&b, "m", "Holder"); /* 10: a storage in its state */
    pk_raw(&b, ")R}(");
    pk_string(&b, "k");
    pk_raw(&b, "(");
    pk_string(&b, "storage");
    pk_raw(&b, "tQube.");
    return b;
}

static bool has_text(const struct vc_pickle_node *items, const char *text)
{
    const struct vc_pickle_node key = {.kind = VC_PICKLE_STRING, .u.text = {text, strlen(text)}};

    return vc_torch_items_have(items, &key);
}

static void expect_sets(const struct vc_pickle_node *root)
{
    const struct vc_pickle_node *three = vc_torch_set_items(vc_pickle_item(root, 3));

    assert_non_null(three);
    assert_true(has_text(three, "a") && has_text(three, "bc") && !has_text(three, "b") && !has_text(three, "bd"));
    assert_false(vc_torch_items_have(three, vc_pickle_item(root, 5)));
    assert_ptr_equal(vc_torch_set_items(vc_pickle_item(root, 4)), vc_pickle_item(root, 4));
    assert_null(vc_torch_set_items(vc_pickle_item(root, 5)));
    assert_null(vc_torch_set_items(NULL));
}

static void test_nodes(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = make_nodes();
    struct vc_pickle pickle;
    const struct vc_pickle_node *root;
    uint64_t budget = 100;
    uint64_t nothing = 0;
    char name[64];

    (void)state;
    if (vc_pickle_parse(ctx, b.p, b.n, &pickle, NULL) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    root = pickle.root;
    assert_int_equal(root->n_items, 11);
    assert_non_null(vc_torch_dict_get(vc_torch_object_state(vc_pickle_item(root, 0)), "x"));
    assert_null(vc_torch_object_state(vc_pickle_item(root, 1)));
    assert_null(vc_torch_object_state(vc_pickle_item(root, 2)));
    expect_sets(root);
    assert_string_equal(vc_torch_class_name(vc_pickle_item(root, 6), name, sizeof name), "m.make");
    assert_string_equal(vc_torch_class_name(vc_pickle_item(root, 7), name, sizeof name), "?");
    assert_string_equal(vc_torch_class_name(NULL, name, sizeof name), "?");
    assert_false(vc_torch_is_tensor(vc_pickle_item(root, 6)) || vc_torch_is_tensor(vc_pickle_item(root, 7)));
    assert_false(vc_torch_is_optimizer(vc_pickle_item(root, 8)));
    assert_false(vc_torch_holds_storage(vc_pickle_item(root, 9), 8, &budget));
    assert_true(vc_torch_holds_storage(vc_pickle_item(root, 10), 8, &budget));
    assert_false(vc_torch_holds_storage(vc_pickle_item(root, 10), 1, &budget));
    assert_false(vc_torch_holds_storage(vc_pickle_item(root, 10), 8, &nothing));
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_none),
                                       cmocka_unit_test(test_text), cmocka_unit_test(test_nodes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
