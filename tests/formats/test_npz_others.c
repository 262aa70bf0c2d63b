/* test_npz_others.c - arrays of no numbers in an npz (text, dates, objects, structures): carried as their member is,
 * never unpickled; headers of them that are damaged are errors as those of numbers are. */
#include "formats_test.h"

static const struct member_options deflated = {.deflate = true, .level = 6};

static struct vc_model *open_bytes(struct vc_ctx *ctx, const struct bytes *b)
{
    struct vc_model *model = NULL;
    char path[512];
    int fd = walk_file_open(b->p, b->n, path, sizeof path);

    if (vc_model_open(ctx, path, NULL, &model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    walk_file_close(fd, path); /* an open file can be read after its name is gone */
    return model;
}

/* An array of no numbers: what it is called, and the type that its header has. */
static const struct {
    const char *descr, *shape, *kept_as;
    size_t n; /* bytes of data */
} others[] = {
    {"'<U3'", "(2,)", "text", 24},
    {"'>U3'", "(2,)", "text", 24},
    {"'|S5'", "(1, 2)", "text", 10},
    {"'<U0'", "(3,)", "text", 0},
    {"'|S0'", "(2, 3)", "text", 0},
    {"'<U7'", "(0,)", "text", 0},
    {"'|V0'", "(3,)", "elements without bytes", 0},
    {"'<M8[ns]'", "(2,)", "dates or times", 16},
    {"'<m8[25s]'", "(2,)", "dates or times", 16},
    {"'<M8'", "()", "dates or times", 8},
    {"'|O'", "(2,)", "objects", 77},
    {"'<f16'", "(2,)", "long doubles", 32},
    {"'<c32'", "(1,)", "long doubles", 32},
    {"[]", "(2,)", "structured", 0},
    {"[('a', '<f4')]", "(3,)", "structured", 12},
    {"[('a', '<f4'), ('', '|V3'), ('b', '<i2', (3, 2)), ('c', [('x', '|u1'), ('y', '<f8')]),]", "(2,)", "structured",
     56},
    {"[(('a title', 'it\\'s'), '<U2')]", "(1,)", "structured", 8},
    {"[('a', '|O'), ('b', '<f4')]", "(2,)", "structured", 31},
};

static struct bytes other_array(const char *descr, const char *shape, size_t n)
{
    char text[256];
    unsigned char data[128];
    size_t i;

    snprintf(text, sizeof text, "{'descr': %s, 'fortran_order': False, 'shape': %s, }\n", descr, shape);
    for (i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i + n);
    }
    return npy_text(text, data, n);
}

/* Text, dates, objects and structures are carried as their member is, header and all. */
static void test_others(void **state)
{
    enum { N = sizeof others / sizeof others[0] };
    int k;

    (void)state;
    for (k = 0; k < 2; k++) {
        struct vc_ctx *ctx = test_ctx();
        struct zip_builder z;
        struct vc_model *model;
        size_t i;

        memset(&z, 0, sizeof z);
        for (i = 0; i < N; i++) {
            char name[16];

            snprintf(name, sizeof name, i == 3 ? "c%zu" : "c%zu.npy", i);
            zip_add_bytes(&z, name, other_array(others[i].descr, others[i].shape, others[i].n),
                          k == 0 ? NULL : &deflated);
        }
        zip_finish(&z, ZIP_END_PLAIN, 0);
        model = open_bytes(ctx, &z.out);
        assert_int_equal(vc_model_facts(model)->n_tensors, N);
        for (i = 0; i < N; i++) {
            struct bytes want = other_array(others[i].descr, others[i].shape, others[i].n);
            const struct vc_tensor *t = vc_model_tensor(model, i);
            unsigned char got[512];
            char name[16];

            snprintf(name, sizeof name, "c%zu", i);
            assert_string_equal(t->name, name);
            assert_string_equal(t->kept_as, others[i].kept_as);
            assert_int_equal(t->role, VC_ROLE_OTHER);
            assert_int_equal(t->dtype, VC_DTYPE_RAW);
            assert_int_equal(t->n_elems, want.n);
            assert_int_equal(vc_model_read(ctx, model, i, 0, want.n, got, sizeof got), VC_OK);
            assert_memory_equal(got, want.p, want.n);
            bytes_release(&want);
        }
        assert_int_equal(walk_model(ctx, model), VC_OK);
        vc_model_close(model);
        zip_release(&z);
        test_ctx_done(ctx);
    }
}

/* An npz with a matrix and that array, stored and deflated: refused with this sentence. */
static void refuse(struct bytes array, const char *needle)
{
    int k;

    for (k = 0; k < 2; k++) {
        struct bytes matrix = npy_matrix(3, 4);
        struct zip_builder z;

        memset(&z, 0, sizeof z);
        zip_add_bytes(&z, "a.npy", matrix, NULL);
        zip_add(&z, "w.npy", array.p, array.n, k == 0 ? NULL : &deflated);
        zip_finish(&z, ZIP_END_PLAIN, 0);
        expect_bad(needle, z.out.p, z.out.n, needle);
        zip_release(&z);
    }
    bytes_release(&array);
}

static void test_refused(void **state)
{
    (void)state;
    refuse(npy_array("<U", false, "(2,)", "123456", 6), "'<U'");
    refuse(npy_array("<U03", false, "(2,)", "123456", 6), "'<U03'");
    refuse(npy_array("<M4[s]", false, "(2,)", "12345678", 8), "'<M4[s]'");
    refuse(npy_array("<M8[s", false, "(1,)", "12345678", 8), "'<M8[s'");
    refuse(npy_array("<f4[s]", false, "(2,)", "12345678", 8), "'<f4[s]'");
    refuse(npy_array("<U4294967295", false, "(2,)", "1", 1), "'<U429");
    refuse(other_array("'<U3'", "(2,)", 23), "holds 23 bytes");
    refuse(other_array("'<U0'", "(2,)", 1), "holds 1 bytes");
    refuse(other_array("'<U3'", "(-1,)", 24), "is negative");
    refuse(other_array("'<U9'", "(4294967296, 4294967296)", 4), "overflows");
    refuse(other_array("('<f4', (2,))", "(1,)", 8), "sub-array");
    refuse(other_array("[('a', '<f4')]", "(3,)", 11), "holds 11 bytes");
    refuse(other_array("[('a', '<f4'), 'b']", "(3,)", 12), "before a field");
    refuse(other_array("[('a' '<f4')]", "(3,)", 12), "the name of a field");
    refuse(other_array("[('a', '<f5')]", "(3,)", 12), "'<f5'");
    refuse(other_array("[('a', '<f4', 3)]", "(3,)", 12), "after a field");
    refuse(other_array("[(('a', 'b', '<f4')]", "(3,)", 12), "name of a field");
    refuse(other_array("[(('a' 'b'), '<f4')]", "(3,)", 12), "after the title");
    refuse(other_array("[('a', '<f4') ('b', '<f4')]", "(1,)", 8), "after a field");
    refuse(other_array("[('a', '<f4', (9999999999,))]", "(1,)", 8), "2^31");
    refuse(other_array("[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',[('a',"
                       "[('a',[('a',[('a',[",
                       "(1,)", 8),
           "inside each other");
}

/* Every byte of the header of a structured array changed: an answer, and no crash. */
static void test_damaged(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    size_t i;

    (void)state;
    for (i = 0; i < 120; i++) {
        struct bytes array = other_array("[(('t', 'n'), '<f4', (1,)), ('c', [('x', '<U1')])]", "(3,)", 24);
        struct zip_builder z;

        memset(&z, 0, sizeof z);
        array.p[i % array.n] ^= (unsigned char)(1 + i % 7);
        zip_add_bytes(&z, "w.npy", array, NULL);
        zip_finish(&z, ZIP_END_PLAIN, 0);
        expect_calm(ctx, z.out.p, z.out.n);
        zip_release(&z);
    }
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
