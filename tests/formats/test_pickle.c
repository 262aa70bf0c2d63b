/* test_pickle.c - the machine that makes trees of pickles. Pickles are written opcode by opcode, and the test knows
 * the tree; every way to be wrong is refused, all cuts and many flips do no harm, failing allocations leave nothing.
 * That nothing is ever imported or called no test can show: the code has no way to do it. */
#include "formats_test.h"

#include "core/base/ctx.h"
#include "formats/torch/pickle.h"
#include "torch_builder.h"

static struct bytes ops(const char *text, size_t n)
{
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, text, n);
    return b;
}

/* "\x80\2" is put in front and "." behind. */
#define PICKLE(text) ops("\x80\2" text ".", sizeof("\x80\2" text ".") - 1)

/* Parses it; the tree is the caller's to release, and so are the bytes. */
static const struct vc_pickle_node *good(struct vc_ctx *ctx, const struct bytes *b, struct vc_pickle *out)
{
    if (vc_pickle_parse(ctx, b->p, b->n, out, NULL) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_int_equal(out->n_bytes, b->n);
    return out->root;
}

static void bad_bytes(struct bytes b, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_pickle pickle;
    enum vc_status status = vc_pickle_parse(ctx, b.p, b.n, &pickle, NULL);

    if (status == VC_OK || strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\"", vc_status_name(status), vc_ctx_message(ctx), needle);
    }
    assert_true(status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
    assert_null(pickle.root);
    bytes_release(&b);
    test_ctx_done(ctx);
}

#define BAD(text, needle) bad_bytes(PICKLE(text), needle)

static void expect_kind(struct bytes b, enum vc_pickle_kind kind, size_t n_items)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_pickle pickle;
    const struct vc_pickle_node *root = good(ctx, &b, &pickle);

    assert_int_equal(root->kind, kind);
    assert_int_equal(root->n_items, n_items);
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void expect_int(struct bytes b, int64_t value)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_pickle pickle;
    const struct vc_pickle_node *root = good(ctx, &b, &pickle);

    assert_int_equal(root->kind, VC_PICKLE_INT);
    assert_true(root->u.integer == value);
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void expect_text(struct bytes b, enum vc_pickle_kind kind, const char *text)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_pickle pickle;
    const struct vc_pickle_node *root = good(ctx, &b, &pickle);

    assert_int_equal(root->kind, kind);
    assert_true(vc_pickle_bytes_are(&root->u.text, text));
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_values(void **state)
{
    (void)state;
    expect_int(PICKLE("K\xff"), 255);
    expect_int(PICKLE("M\1\2"), 513);
    expect_int(PICKLE("J\xff\xff\xff\xff"), -1);
    expect_int(PICKLE("\x8a\0"), 0);
    expect_int(PICKLE("\x8a\1\x80"), -128);
    expect_int(PICKLE("\x8a\2\x80\0"), 128);
    expect_int(PICKLE("\x8a\x08\0\0\0\0\0\0\0\x80"), INT64_MIN);
    expect_int(PICKLE("\x8b\1\0\0\0\x05"), 5);
    expect_kind(PICKLE("\x8a\x09\0\0\0\0\0\0\0\x80\0"), VC_PICKLE_LONG, 0);
    expect_kind(PICKLE("N"), VC_PICKLE_NONE, 0);
    expect_kind(PICKLE("\x88"), VC_PICKLE_BOOL, 0);
    expect_text(PICKLE("X\3\0\0\0abc"), VC_PICKLE_STRING, "abc");
    expect_text(PICKLE("U\3abc"), VC_PICKLE_STRING, "abc");
    expect_text(PICKLE("T\3\0\0\0abc"), VC_PICKLE_STRING, "abc");
    expect_text(PICKLE("\x8c\3"
                       "abc"),
                VC_PICKLE_STRING, "abc");
    expect_text(PICKLE("\x8d\1\0\0\0\0\0\0\0z"), VC_PICKLE_STRING, "z");
    expect_text(PICKLE("B\1\0\0\0z"), VC_PICKLE_BYTES, "z");
    expect_text(PICKLE("C\1z"), VC_PICKLE_BYTES, "z");
    expect_text(PICKLE("\x8e\1\0\0\0\0\0\0\0z"), VC_PICKLE_BYTES, "z");
    expect_text(PICKLE("\x96\1\0\0\0\0\0\0\0z"), VC_PICKLE_BYTES, "z");
}

static void test_float(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = PICKLE("G\x3f\xf8\0\0\0\0\0\0");
    struct vc_pickle pickle;

    (void)state;
    assert_true(good(ctx, &b, &pickle)->u.real == 1.5);
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_containers(void **state)
{
    (void)state;
    expect_kind(PICKLE(")"), VC_PICKLE_TUPLE, 0);
    expect_kind(PICKLE("N\x85"), VC_PICKLE_TUPLE, 1);
    expect_kind(PICKLE("NN\x86"), VC_PICKLE_TUPLE, 2);
    expect_kind(PICKLE("NNN\x87"), VC_PICKLE_TUPLE, 3);
    expect_kind(PICKLE("(NNNNt"), VC_PICKLE_TUPLE, 4);
    expect_kind(PICKLE("(t"), VC_PICKLE_TUPLE, 0);
    expect_kind(PICKLE("](NNeNa(e"), VC_PICKLE_LIST, 3);
    expect_kind(PICKLE("}(K\1NK\2NuK\3Ns(u"), VC_PICKLE_DICT, 6);
    expect_kind(PICKLE("\x8f(NN\x90"), VC_PICKLE_SET, 2);
    expect_kind(PICKLE("(NN\x91"), VC_PICKLE_SET, 2);
    expect_kind(PICKLE("ca\nb\n"), VC_PICKLE_GLOBAL, 0);
    expect_kind(PICKLE("U\1aU\1b\x93"), VC_PICKLE_GLOBAL, 0);
    expect_kind(PICKLE("ca\nb\n)R"), VC_PICKLE_CALL, 0);
    expect_kind(PICKLE("ca\nb\n)\x81"), VC_PICKLE_CALL, 0);
    expect_kind(PICKLE("ca\nb\n)}\x92"), VC_PICKLE_CALL, 0);
    expect_kind(PICKLE("ca\nb\n)R}b"), VC_PICKLE_CALL, 0);
    expect_kind(PICKLE("ca\nb\n)R(K\1Nu"), VC_PICKLE_CALL, 2);
    expect_kind(PICKLE("ca\nb\n)R(NNe"), VC_PICKLE_CALL, 2);
    expect_kind(PICKLE("ccollections\nOrderedDict\n](]U\1aa"
                       "Na](U\1bNee\x85R"),
                VC_PICKLE_CALL, 4); /* as Python 2 makes it */
    expect_kind(PICKLE("U\1xQ"), VC_PICKLE_PERSID, 0);
    expect_kind(PICKLE("N(K\1K\2"
                       "1"),
                VC_PICKLE_NONE, 0); /* POP_MARK */
    expect_kind(PICKLE("NK\1"
                       "0"),
                VC_PICKLE_NONE, 0); /* POP */
    expect_kind(PICKLE("N(0"), VC_PICKLE_NONE, 0);
    expect_kind(PICKLE("N2\x86"), VC_PICKLE_TUPLE, 2); /* DUP */
    expect_kind(PICKLE("]q\0(Nh\0e"), VC_PICKLE_LIST, 2);
    expect_kind(PICKLE("]r\1\0\0\0j\1\0\0\0\x86"), VC_PICKLE_TUPLE, 2);
    expect_kind(PICKLE("]\x94h\0\x86"), VC_PICKLE_TUPLE, 2);
    expect_kind(PICKLE("\x95\2\0\0\0\0\0\0\0NN\x86"), VC_PICKLE_TUPLE, 2);
}

static void test_wrong(void **state)
{
    struct bytes b = {NULL, 0, 0};

    (void)state;
    bad_bytes(ops("", 0), "is empty");
    bad_bytes(ops("N.", 2), "does not begin with its protocol");
    bad_bytes(ops("\x80\6N.", 4), "protocol 6");
    bad_bytes(ops("\x80\1N.", 4), "protocol 1");
    bad_bytes(ops("\x80\2N", 3), "ends without the opcode");
    BAD("", "other than one value");
    BAD("NN", "other than one value");
    BAD("N(", "other than one value");
    BAD("\xff", "no opcode");
    BAD("I1\n", "protocol 0");
    BAD("(cos\nsystem\no", "protocol 0");
    BAD("S'a'\n", "protocol 0");
    BAD("\x82\1", "extension");
    BAD("\x97", "not in the pickle");
    BAD("t", "no mark");
    BAD("N\x86", "too few values");
    BAD("(N\x86", "too few values");
    BAD("Na", "too few values");
    BAD("NNa", "takes none of this kind");
    BAD("]K\1Ns", "takes none of this kind");
    BAD("}(Nu", "odd number");
    BAD("(N\x91(N\x90", "takes none of this kind");
    BAD("h\0", "never set");
    BAD("Nq\1h\2", "never set");
    BAD("Nr\xff\xff\xff\xff", "memo slot 4294967295");
    BAD("NNR", "no tuple");
    BAD("ccollections\nOrderedDict\n](Ne\x85R", "no pair");
    BAD("N}b", "no object");
    BAD("NN\x93", "no string");
    BAD("X\xff\xff\xff\xff", "4294967295 bytes");
    BAD("X\x10\0\0\0abc", "needs 16 bytes");
    BAD("\x8b\xff\xff\xff\xff", "4294967295 bytes");
    BAD("\x95\0\0\0\0\0\0\0\x80", "frame");
    BAD("\x95\x20\0\0\0\0\0\0\0N", "needs 32 bytes");
    BAD("ca", "ends inside the name");
    pk_start(&b);
    pk_raw(&b, "c");
    bytes_fill(&b, 'a', 5000);
    pk_raw(&b, "\nb\n.");
    bad_bytes(b, "too long");
}

/* The memo lets a list contain itself: a tree all the same, for who looks at `busy`. */
static void test_cycles(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = PICKLE("]q\0h\0a");
    struct vc_pickle pickle;
    const struct vc_pickle_node *root = good(ctx, &b, &pickle);

    (void)state;
    assert_ptr_equal(vc_pickle_item(root, 0), root);
    assert_null(vc_pickle_item(root, 1));
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
}

/* Numbers are few different ones, and a tuple needs no more than its items: a tensor's sizes and strides are such. */
static void test_small(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = {NULL, 0, 0};
    struct vc_pickle pickle;
    const struct vc_pickle_node *root;
    unsigned i;

    (void)state;
    pk_start(&b);
    pk_raw(&b, "](");
    for (i = 0; i < 1000; i++) {
        pk_raw(&b, "K\1K\2\x86)\x86");
    }
    pk_raw(&b, "e.");
    root = good(ctx, &b, &pickle);
    assert_int_equal(root->n_items, 1000);
    assert_ptr_equal(vc_pickle_item(vc_pickle_item(root, 3), 1), vc_pickle_item(vc_pickle_item(root, 7), 1));
    assert_ptr_not_equal(vc_pickle_item(root, 3), vc_pickle_item(root, 7));
    assert_true(vc_pool_in_use(ctx->shared->pool) < 1000 * (size_t)(2 * 32 + 8) + 40000);
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
}

/* Tuples of the same few numbers are one node, whatever other tuples come between them; any other tuple is its own. */
static void test_equal_tuples(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = PICKLE("](K\2K\4\x86K\4K\2\x86K\2K\4\x86K\2\x85K\2K\4K\2\x87(K\2K\4K\2K\4K\2t(K\2K\4K\2K\4K\2t"
                            "\x88K\4\x86\x88K\4\x86K\4K\2\x86"
                            "e");
    struct vc_pickle pickle;
    const struct vc_pickle_node *root = good(ctx, &b, &pickle);
    size_t i;
    size_t k;

    (void)state;
    assert_int_equal(root->n_items, 10);
    for (i = 0; i < 10; i++) {
        for (k = 0; k < i; k++) {
            bool same = (i == 2 && k == 0) || (i == 9 && k == 1);

            assert_true(same == (vc_pickle_item(root, i) == vc_pickle_item(root, k)));
        }
    }
    assert_int_equal(vc_pickle_item(vc_pickle_item(root, 2), 1)->u.integer, 4);
    assert_int_equal(vc_pickle_item(vc_pickle_item(root, 9), 1)->u.integer, 2);
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
}

/* One list of pairs, made into OrderedDicts by a few bytes each. */
static void test_bomb(void **state)
{
    struct bytes b = {NULL, 0, 0};
    unsigned i;

    (void)state;
    pk_start(&b);
    pk_raw(&b, "ccollections\nOrderedDict\nq\1]q\2(K\1K\2\x86q\3");
    for (i = 0; i < 50; i++) {
        pk_raw(&b, "h\3");
    }
    pk_raw(&b, "e");
    for (i = 0; i < 50; i++) {
        pk_raw(&b, "h\1h\2\x85R");
    }
    pk_raw(&b, ".");
    bad_bytes(b, "more pairs are made items of OrderedDicts than there are bytes");
}

/* What Python refuses as a key or in a set: lists, dicts, sets, bytearrays, and tuples with such in them. */
static void test_unhashable(void **state)
{
    (void)state;
    BAD("}]Ns", "Python cannot hash");
    BAD("}(K\1N}Nu", "Python cannot hash");
    BAD("}]\x85\x85Ns", "Python cannot hash");
    BAD("}\x8fNs", "Python cannot hash");
    BAD("}\x96\0\0\0\0\0\0\0\0Ns", "Python cannot hash");
    BAD("}ccollections\nOrderedDict\n)RNs", "Python cannot hash");
    BAD("ccollections\nOrderedDict\n)R]Ns", "Python cannot hash");
    BAD("ccollections\nOrderedDict\n](]]aNae\x85R", "Python cannot hash");
    BAD("c__builtin__\nset\n](]e\x85R", "Python cannot hash");
    BAD("\x8f(]\x90", "Python cannot hash");
    BAD("(}\x91", "Python cannot hash");
    expect_kind(PICKLE("}(N\x91Ns"), VC_PICKLE_DICT, 2);    /* a frozen set */
    expect_kind(PICKLE("}ca\nb\n)RNs"), VC_PICKLE_DICT, 2); /* an object of any class, by default */
    expect_kind(PICKLE("ca\nb\n)R]Ns"), VC_PICKLE_CALL, 2); /* what the class makes of it is not known */
    expect_kind(PICKLE("}K\1K\2\x86]s"), VC_PICKLE_DICT, 2);
}

/* What no checkpoint has: marks that nothing closes, towers of tuples, slots of the memo that are far away. Each is
 * refused before it takes much. */
static void expect_flood(const char *what, size_t n, const char *needle, uint64_t most_bytes)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = {NULL, 0, 0};
    struct vc_pickle pickle;
    size_t i;

    pk_start(&b);
    pk_raw(&b, "N");
    for (i = 0; i < n; i++) {
        pk_raw(&b, what);
    }
    pk_raw(&b, ".");
    assert_int_not_equal(vc_pickle_parse(ctx, b.p, b.n, &pickle, NULL), VC_OK);
    if (strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", vc_ctx_message(ctx), needle);
    }
    if (vc_pool_peak(ctx->shared->pool) > most_bytes) {
        fail_msg("%s: %zu bytes took %llu", needle, b.n, (unsigned long long)vc_pool_peak(ctx->shared->pool));
    }
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_floods(void **state)
{
    (void)state;
    expect_flood("(", 1000000, "more than 65536 marks", (uint64_t)2 << 20);
    expect_flood("\x85", 2000000, "far more than", (uint64_t)44 << 20);
    expect_flood("r\xff\xff\x0f", 1, "memo slot", (uint64_t)1 << 20);
    expect_flood("}", 2000000, "far more than", (uint64_t)92 << 20);
    expect_flood("\x88", 3000000, "one value on the stack", (uint64_t)66 << 20);
}

/* A value that is taken from the memo, or doubled, is known to be in more than one place. */
static void test_shared(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = PICKLE("(U\1aq\0h\0h\0U\1b2t");
    struct vc_pickle pickle;
    const struct vc_pickle_node *root = good(ctx, &b, &pickle);

    (void)state;
    assert_int_equal(root->n_items, 5);
    assert_int_equal(pickle.n_shared, 2);
    assert_false(root->shared);
    assert_true(vc_pickle_item(root, 0)->shared && vc_pickle_item(root, 3)->shared);
    vc_pickle_release(ctx, &pickle);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static struct bytes sample(void)
{
    static const char tail[] =
        "K\1\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19q\7G\x3f\xf8\0\0\0\0\0\0h\7N]h\7aK\2}u.";
    struct bytes b = {NULL, 0, 0};
    unsigned i;

    pk_start(&b);
    pk_raw(&b, "}(");
    for (i = 0; i < 3; i++) {
        char key[] = {'k', (char)('a' + i), '\0'};

        pk_string(&b, key);
        pk_tensor(&b, "FloatStorage", "0", 12, 0, "3,4", "4,1");
    }
    bytes_add(&b, tail, sizeof tail - 1);
    return b;
}

static void test_cuts_and_flips(void **state)
{
    static const unsigned char masks[] = {0x01, 0x20, 0x80, 0xff};
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = sample();
    struct vc_pickle pickle;
    bool cut;
    size_t i;
    size_t k;

    (void)state;
    (void)good(ctx, &b, &pickle);
    vc_pickle_release(ctx, &pickle);
    for (i = 0; i < b.n; i++) {
        assert_int_equal(vc_pickle_parse(ctx, b.p, i, &pickle, &cut), VC_E_FORMAT);
        assert_true(cut);
        for (k = 0; k < sizeof masks; k++) {
            enum vc_status status;

            b.p[i] ^= masks[k];
            status = vc_pickle_parse(ctx, b.p, b.n, &pickle, NULL);
            assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
            vc_pickle_release(ctx, &pickle);
            b.p[i] ^= masks[k];
        }
    }
    bytes_release(&b);
    test_ctx_done(ctx);
}

/* What lies on the stack before the opcode: nothing, marks, values of every kind, objects, a memo. */
static const struct {
    const char *text;
    size_t n;
} stacks[] = {
#define STACK(text)            \
    {                          \
        text, sizeof(text) - 1 \
    }
    STACK(""),
    STACK("("),
    STACK("N"),
    STACK("NN"),
    STACK("N("),
    STACK("(N"),
    STACK("K\1"),
    STACK("U\1a"),
    STACK("]"),
    STACK("](N"),
    STACK("}"),
    STACK("}(U\1aN"),
    STACK("}(N"),
    STACK("}U\1aN"),
    STACK("\x8f"),
    STACK("\x8f(N"),
    STACK("\x8f(]"),
    STACK(")"),
    STACK("cm\nf\n"),
    STACK("cm\nf\n)"),
    STACK("cm\nf\n)}"),
    STACK("cm\nf\n)R}"),
    STACK("cm\nf\n)R(NN}\x86"),
    STACK("ccollections\nOrderedDict\n)R"),
    STACK("ccollections\nOrderedDict\n]R"),
    STACK("ccollections\nOrderedDict\n](]U\1aNee\x85"),
    STACK("ccollections\nOrderedDict\n]]U\1aaNaa\x85"),
    STACK("U\1mU\1f"),
    STACK("Nq\1"),
    STACK("N\x94"),
};

/* Every opcode on each of these stacks, with arguments that are there or cut: refused with a sentence, or a tree; the
 * same where an allocation fails. */
static void test_opcodes(void **state)
{
    static const char arguments[] = "\1\0\0\0\0\0\0\0\nx\n";
    static const size_t lengths[] = {0, 1, 2, 4, 8, sizeof arguments - 1};
    struct vc_ctx *ctx = test_ctx();
    unsigned op;
    size_t i, k;
    uint64_t fail;

    (void)state;
    for (op = 0; op < 256; op++) {
        for (i = 0; i < sizeof stacks / sizeof stacks[0]; i++) {
            for (k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
                unsigned char byte = (unsigned char)op;
                struct bytes b = {NULL, 0, 0};

                bytes_add(&b, "\x80\4", 2);
                bytes_add(&b, stacks[i].text, stacks[i].n);
                bytes_add(&b, &byte, 1);
                bytes_add(&b, arguments, lengths[k]);
                bytes_add(&b, ".", 1);
                for (fail = 0; fail < (k == 1 ? 4U : 1U); fail++) {
                    struct vc_pickle pickle;
                    enum vc_status status;

                    vc_pool_fail_at(ctx->shared->pool, fail, 0);
                    status = vc_pickle_parse(ctx, b.p, b.n, &pickle, NULL);
                    vc_pool_fail_at(ctx->shared->pool, 0, 0);
                    assert_int_equal(pickle.root != NULL, status == VC_OK);
                    assert_int_equal(vc_ctx_message(ctx)[0] != '\0', status != VC_OK);
                    assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED ||
                                (fail != 0 && status == VC_E_NOMEM));
                    vc_pickle_release(ctx, &pickle);
                    assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
                    vc_clear_error(ctx);
                }
                bytes_release(&b);
            }
        }
    }
    vc_ctx_free(ctx);
}

static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = sample();
    struct vc_pickle pickle;
    enum vc_status status = VC_E_NOMEM;
    uint64_t n;

    (void)state;
    for (n = 1; status != VC_OK; n++) {
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_pickle_parse(ctx, b.p, b.n, &pickle, NULL);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        vc_pickle_release(ctx, &pickle);
    }
    assert_true(n > 3);
    bytes_release(&b);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),       cmocka_unit_test(test_float),       cmocka_unit_test(test_containers),
        cmocka_unit_test(test_wrong),        cmocka_unit_test(test_cycles),      cmocka_unit_test(test_cuts_and_flips),
        cmocka_unit_test(test_opcodes),      cmocka_unit_test(test_allocations), cmocka_unit_test(test_small),
        cmocka_unit_test(test_equal_tuples), cmocka_unit_test(test_bomb),        cmocka_unit_test(test_unhashable),
        cmocka_unit_test(test_floods),       cmocka_unit_test(test_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
