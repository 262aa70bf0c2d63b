/* test_npy.c - the header of npy files, and files of one array. Judge: headers as NumPy's documentation has them, by
 * hand, with arrays whose values the test knows, also big-endian and in Fortran order; every cut and every changed byte
 * does no harm. */
#include "formats_test.h"

#include <stdlib.h>

#include "formats/npz/npy.h"
#include "formats/npz/npy_data.h"
#include "support_options.h"

#define F4_3x4 48 /* bytes of data of shape (3, 4), f4 */

static const unsigned char zeros[4096];

/* ------------------------------------------------------------------------------------------------ header text */

struct good_text {
    const char *text;
    size_t n_data;
};

static const struct good_text good_texts[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n", F4_3x4},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}", F4_3x4},
    {"{\"shape\": (3, 4), \"fortran_order\": False, \"descr\": \"<f4\"}   \n", F4_3x4},
    {"{ 'descr' :\t'<f4' ,\n'fortran_order':\tFalse , 'shape' : ( 3 ,4 , ) }  ", F4_3x4},
    {"  {'descr':'<f4','fortran_order':False,'shape':(3,4)}\n", F4_3x4},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L), }\n", F4_3x4},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }\n", F4_3x4},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }\n", F4_3x4},
    {"{'descr': '=f4', 'fortran_order': False, 'shape': (3, 4), }\n", F4_3x4},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", 8},
    {"{'descr': '<i8', 'fortran_order': False, 'shape': (0,), }\n", 0},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 0, 7), }\n", 0},
    {"{'descr': '|b1', 'fortran_order': False, 'shape': (5,), }\n", 5},
    {"{'descr': '|i1', 'fortran_order': False, 'shape': (5,), }\n", 5},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n", 5},
    {"{'descr': '<i1', 'fortran_order': False, 'shape': (5,), }\n", 5},
    {"{'descr': '<f2', 'fortran_order': False, 'shape': (5,), }\n", 10},
    {"{'descr': '<u2', 'fortran_order': False, 'shape': (5,), }\n", 10},
    {"{'descr': '<i2', 'fortran_order': False, 'shape': (5,), }\n", 10},
    {"{'descr': '<u4', 'fortran_order': False, 'shape': (5,), }\n", 20},
    {"{'descr': '<u8', 'fortran_order': False, 'shape': (5,), }\n", 40},
    {"{'descr': '>c8', 'fortran_order': False, 'shape': (5,), }\n", 40},
    {"{'descr': '<c16', 'fortran_order': False, 'shape': (5,), }\n", 80},
    {"{'descr': '|V2', 'fortran_order': False, 'shape': (5,), }\n", 10},
    {"{'descr': '<V3', 'fortran_order': False, 'shape': (5,), }\n", 15},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': "
     "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
     "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }\n",
     4},
};

static void test_good_texts(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof good_texts / sizeof good_texts[0]; i++) {
        struct bytes b = npy_text(good_texts[i].text, zeros, good_texts[i].n_data);

        expect_good(good_texts[i].text, b.p, b.n);
        bytes_release(&b);
    }
}

struct bad_text {
    const char *text;
    const char *needle;
};

#define HEAD "{'descr': '<f4', 'fortran_order': False, 'shape': "

static const struct bad_text bad_texts[] = {
    {"['descr', '<f4']\n", "expected '{'"},
    {"", "expected '{'"},
    {"                            \n", "expected '{'"},
    {"{'fortran_order': False, 'shape': (3, 4), }\n", "'descr' is missing"},
    {"{'descr': '<f4', 'shape': (3, 4), }\n", "'fortran_order' is missing"},
    {"{'descr': '<f4', 'fortran_order': False, }\n", "'shape' is missing"},
    {HEAD "(3, 4), 'shape': (2, 4), }\n", "'shape' occurs twice"},
    {HEAD "(3, 4), 'extra': 1, }\n", "unknown key 'extra'"},
    {HEAD "(3, 4), } x\n", "nothing after the dict"},
    {HEAD "(3, 4), }{}\n", "nothing after the dict"},
    {HEAD "(3, 4), } # note\n", "nothing after the dict"},
    {HEAD "(3, 4), \n", "a key"},
    {HEAD "(3, 4) 'a': 1}\n", "',' or '}'"},
    {HEAD "(3, 4),, }\n", "a key"},
    {"{'descr': '<f4, 'fortran_order\n", "'<f4, '"},
    {"{'descr': '<f4\n", "plain character"},
    {"{'descr: <f4", "the end of the string"},
    {"{'descr' '<f4', 'fortran_order': False, 'shape': (3, 4), }\n", "':' after the key"},
    {"{'de\\163cr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n", "plain character"},
    {"{'descr': '<f4', 'fortran_order': None, 'shape': (3, 4), }\n", "True or False"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4), }\n", "True or False"},
    {HEAD "(3*1, 4), }\n", "',' after the first dimension"},
    {HEAD "(3, 4*1), }\n", "',' or ')'"},
    {HEAD "tuple([3, 4]), }\n", "tuple of dimensions"},
    {HEAD "[3, 4], }\n", "tuple of dimensions"},
    {HEAD "12, }\n", "tuple of dimensions"},
    {HEAD "None, }\n", "tuple of dimensions"},
    {HEAD "'(3, 4)', }\n", "tuple of dimensions"},
    {HEAD "((3, 4)), }\n", "a dimension"},
    {HEAD "((((((((((((((((((((((((((((3, 4", "a dimension"},
    {HEAD "(12), }\n", "',' after the first dimension"},
    {HEAD "(,), }\n", "a dimension"},
    {HEAD "(3.0, 4), }\n", "',' after"},
    {HEAD "(True, 4), }\n", "a dimension"},
    {HEAD "(03, 4), }\n", "leading zeros"},
    {HEAD "(3_0, 4), }\n", "',' after"},
    {HEAD "(+3, 4), }\n", "a dimension"},
    {HEAD "(3,\v4), }\n", "found byte 0x0b"},
    {HEAD "(-3, 4), }\n", "negative"},
    {HEAD "(3, -4), }\n", "negative"},
    {HEAD "(-9223372036854775808,), }\n", "negative"},
    {HEAD "(9223372036854775808,), }\n", "above 2^63"},
    {HEAD "(18446744073709551617,), }\n", "above 2^63"},
    {HEAD "(4294967296, 4294967296), }\n", "overflows"},
    {HEAD "(3, 6148914691236517206, 2), }\n", "overflows"},
    {HEAD "(0, 4294967296, 4294967296, 4), }\n", "overflows"},
    {HEAD "(4611686018427387904,), }\n", "overflows"},
    {HEAD "(2305843009213693952,), }\n", "overflows"},
    {"{'descr': '<f3', 'fortran_order': False, 'shape': (3, 4), }\n", "'<f3'"},
    {"{'descr': '<q4', 'fortran_order': False, 'shape': (3, 4), }\n", "'<q4'"},
    {"{'descr': '', 'fortran_order': False, 'shape': (3, 4), }\n", "''"},
    {"{'descr': '<', 'fortran_order': False, 'shape': (3, 4), }\n", "'<'"},
    {"{'descr': '<f', 'fortran_order': False, 'shape': (3, 4), }\n", "'<f'"},
    {"{'descr': '<f-4', 'fortran_order': False, 'shape': (3, 4), }\n", "'<f-4'"},
    {"{'descr': '<f04', 'fortran_order': False, 'shape': (3, 4), }\n", "'<f04'"},
    {"{'descr': '<f44444444444444444444', 'fortran_order': False, 'shape': (3, 4), }\n", "not a type"},
    {"{'descr': '<f4 ', 'fortran_order': False, 'shape': (3, 4), }\n", "'<f4 '"},
    {"{'descr': '!f4', 'fortran_order': False, 'shape': (3, 4), }\n", "'!f4'"},
    {"{'descr': '|f4', 'fortran_order': False, 'shape': (3, 4), }\n", "byte order"},
    {"{'descr': '<f16', 'fortran_order': False, 'shape': (3, 4), }\n", "long doubles"},
    {"{'descr': '|V0', 'fortran_order': False, 'shape': (3, 4), }\n", "without bytes"},
    {"{'descr': '<V9999999999', 'fortran_order': False, 'shape': (3, 4), }\n", "'<V9999999999'"},
    {"{'descr': 4, 'fortran_order': False, 'shape': (3, 4), }\n", "string for 'descr'"},
    {"{'descr': None, 'fortran_order': False, 'shape': (3, 4), }\n", "string for 'descr'"},
    {"{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (3,), }\n", "structured"},
    {"{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (3,), }\n", "sub-array"},
    {"{'descr': '<U4', 'fortran_order': False, 'shape': (3,), }\n", "text"},
    {"{'descr': '|S4', 'fortran_order': False, 'shape': (3,), }\n", "text"},
    {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (3,), }\n", "dates"},
    {"{'descr': '<m8', 'fortran_order': False, 'shape': (3,), }\n", "dates"},
    {"{'descr': [('a', '<f4', (1000, 1000, 1000))], 'fortran_order': False, 'shape': (3,), }\n", "2^31 - 1"},
    {"{'descr': [('a', '<f4', (4294967296, 4294967296, 4294967296))], 'fortran_order': False, 'shape': (3,), }\n",
     "2^31 - 1"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }\n", "pickled"},
};

static void test_bad_texts(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad_texts / sizeof bad_texts[0]; i++) {
        struct bytes b = npy_text(bad_texts[i].text, zeros, F4_3x4);

        expect_bad(bad_texts[i].text, b.p, b.n, bad_texts[i].needle);
        bytes_release(&b);
    }
}

/* What stands between the quotes of 'descr': types that NumPy has, and what only looks like one. */
static void test_types(void **state)
{
    static const struct {
        const char *descr, *needle;
    } types[] = {
        {"|O8", "pickled"},       {"|O[x]", "not a type"},   {"a5", "text"},           {"|S", "not a type"},
        {"|S4[x]", "not a type"}, {"<U", "not a type"},      {"<U4[x]", "not a type"}, {"<U2000000000", "not a type"},
        {"<M8[25s]", "dates"},    {"<M8[]", "not a type"},   {"<M8[s", "not a type"},  {"<M4", "not a type"},
        {"<m8[", "not a type"},   {"|V", "not a type"},      {"|V0[x]", "not a type"}, {"|V4[x]", "not a type"},
        {"<f12", "long doubles"}, {"<f12[x]", "not a type"}, {"<f20", "not a type"},   {"<c24", "long doubles"},
        {"<c32", "long doubles"}, {"<c32[x]", "not a type"}, {"<c64", "not a type"},   {"<f4[x]", "not a type"},
        {"<i4s", "not a type"},   {"=", "not a type"},       {"<f00", "not a type"},   {"<i429496730", "not a type"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof types / sizeof types[0]; i++) {
        char text[100];
        struct bytes b;

        (void)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }", types[i].descr);
        b = npy_text(text, zeros, 24);
        expect_bad(text, b.p, b.n, types[i].needle);
        bytes_release(&b);
    }
}

static void test_nul_in_text(void **state)
{
    struct bytes b = npy_matrix(3, 4);

    (void)state;
    b.p[30] = 0;
    expect_bad("NUL", b.p, b.n, "npy header");
    bytes_release(&b);
}

/* ------------------------------------------------------------------------------------------------ prefix and size */

static void test_prefix(void **state)
{
    struct bytes b = npy_matrix(3, 4);
    struct bytes big = {NULL, 0, 0};

    (void)state;
    b.p[0] = 0x92;
    expect_bad("magic", b.p, b.n, "starts with bytes 92 4e 55");
    b.p[0] = 0x93;
    b.p[6] = 4;
    expect_bad("version 4.0", b.p, b.n, "version 4.0");
    b.p[6] = 1;
    b.p[7] = 1;
    expect_bad("version 1.1", b.p, b.n, "version 1.1");
    b.p[7] = 0;
    b.p[8] = 40; /* ends inside the dict */
    expect_bad("short header", b.p, b.n, "npy header");
    b.p[8] = 118;
    bytes_add(&b, zeros, 4);
    expect_bad("long file", b.p, b.n, "52 bytes of data");
    b.n -= 5;
    expect_bad("short file", b.p, b.n, "47 bytes of data");
    bytes_release(&b);

    bytes_add(&big, "\x93NUMPY\2\0\0\0\0\x80", 12); /* 2 GiB: negative as a signed int */
    expect_bad("2 GiB header", big.p, big.n, "2147483648 bytes");
    bytes_release(&big);
}

/* Version 2 and 3 with a header longer than 64 KiB would allow in version 1. */
static void test_versions(void **state)
{
    struct bytes one = npy_matrix(3, 4);
    struct bytes b = {NULL, 0, 0};
    unsigned char version;

    (void)state;
    for (version = 2; version <= 3; version++) {
        unsigned char prefix[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', version, 0, 118, 0, 0, 0};

        b.n = 0;
        bytes_add(&b, prefix, sizeof prefix);
        bytes_add(&b, one.p + 10, one.n - 10);
        expect_good("version 2 or 3", b.p, b.n);
    }
    b.n = 0;
    bytes_add(&b, "\x93NUMPY\2\0\x60\xea\0\0", 12); /* 60,000 brackets */
    bytes_fill(&b, '(', 60000);
    expect_bad("deep", b.p, b.n, "expected '{'");
    bytes_release(&b);
    bytes_release(&one);
}

/* ------------------------------------------------------------------------------------------------ values */

static void expect_values(const char *what, struct bytes *file, const void *expected, size_t n_elems, size_t item,
                          enum vc_dtype void_as, enum vc_dtype dtype)
{
    struct vc_open_options options = support_open();
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    unsigned char *got = malloc(n_elems * item + 1);
    char path[512];
    int fd = walk_file_open(file->p, file->n, path, sizeof path);
    size_t first;
    size_t n;

    options.void_as = void_as;
    assert_non_null(got);
    if (vc_model_open(ctx, path, &options, &model) != VC_OK) {
        fail_msg("%s: %s", what, vc_ctx_message(ctx));
    }
    assert_int_equal(vc_model_facts(model)->n_tensors, 1);
    assert_string_equal(vc_model_tensor(model, 0)->name, "arr_0");
    assert_string_equal(vc_model_facts(model)->format, "npy");
    assert_int_equal(vc_model_tensor(model, 0)->dtype, dtype);
    assert_int_equal(vc_model_tensor(model, 0)->n_elems, n_elems);
    assert_int_equal(vc_model_tensor(model, 0)->file_bytes, file->n);
    for (first = 0; first < n_elems; first += n_elems / 7 + 1) {
        for (n = 0; first + n <= n_elems; n += n_elems / 5 + 1) {
            if (vc_model_read(ctx, model, 0, first, n, got, n * item) != VC_OK) {
                fail_msg("%s: %s", what, vc_ctx_message(ctx));
            }
            assert_memory_equal(got, (const unsigned char *)expected + first * item, n * item);
        }
    }
    assert_int_equal(vc_model_read(ctx, model, 0, 0, n_elems, got, n_elems * item), VC_OK);
    assert_memory_equal(got, expected, n_elems * item);
    assert_int_not_equal(vc_model_read(ctx, model, 0, 1, n_elems, got, n_elems * item), VC_OK);
    assert_int_equal(vc_source_read_any(ctx, model, 0, VC_FORM_RAW, 0, got, n_elems * item), VC_OK);
    assert_memory_equal(got, file->p, n_elems * item);
    vc_model_close(model);
    walk_file_close(fd, path);
    free(got);
    test_ctx_done(ctx);
}

static void reverse(unsigned char *p, size_t n)
{
    size_t i;

    for (i = 0; i < n / 2; i++) {
        unsigned char t = p[i];

        p[i] = p[n - 1 - i];
        p[n - 1 - i] = t;
    }
}

static void test_big_endian(void **state)
{
    static const struct {
        const char *descr;
        enum vc_dtype dtype;
        size_t item, unit;
    } kinds[] = {{">f2", VC_DTYPE_F16, 2, 2},    {">i4", VC_DTYPE_I32, 4, 4}, {">f4", VC_DTYPE_F32, 4, 4},
                 {">f8", VC_DTYPE_F64, 8, 8},    {">u8", VC_DTYPE_U64, 8, 8}, {">c8", VC_DTYPE_C64, 8, 4},
                 {">c16", VC_DTYPE_C128, 16, 8}, {">u1", VC_DTYPE_U8, 1, 1},  {">V3", VC_DTYPE_VOID, 3, 0}};
    unsigned char data[16 * 15];
    size_t k;
    size_t i;

    (void)state;
    for (k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t n = 15 * kinds[k].item;
        struct bytes b;

        for (i = 0; i < n; i++) {
            data[i] = (unsigned char)(i * 37 + 11);
        }
        b = npy_array(kinds[k].descr, false, "(3, 5)", data, n);
        for (i = 0; kinds[k].unit != 0 && i < n; i += kinds[k].unit) {
            reverse(data + i, kinds[k].unit);
        }
        expect_values(kinds[k].descr, &b, data, 15, kinds[k].item, 0, kinds[k].dtype);
        bytes_release(&b);
    }
}

/* A Fortran-order file of a shape against the same values in C order. */
static void check_fortran(const uint64_t *shape, unsigned n_dims, size_t item)
{
    struct bytes c = {NULL, 0, 0};
    struct bytes f = {NULL, 0, 0};
    struct bytes file;
    char text[256] = "(";
    size_t n = 1;
    size_t i;
    unsigned d;

    for (d = 0; d < n_dims; d++) {
        char one[32];

        n *= (size_t)shape[d];
        snprintf(one, sizeof one, "%d,", (int)shape[d]);
        strcat(text, one);
    }
    strcat(text, ")");
    bytes_fill(&c, 0, n * item);
    bytes_fill(&f, 0, n * item);
    for (i = 0; i < n; i++) {
        size_t left = i;
        size_t at = 0;
        size_t step = n;
        size_t k;

        /* i counts in Fortran order: dimension 0 runs fastest. */
        for (d = 0; d < n_dims; d++) {
            step /= (size_t)shape[d];
            at += left % (size_t)shape[d] * step;
            left /= (size_t)shape[d];
        }
        for (k = 0; k < item; k++) {
            f.p[i * item + k] = c.p[at * item + k] = (unsigned char)((i * 2654435761u) >> (8 * (k % 4)));
        }
    }
    snprintf(text + 200, 8, "|V%d", (int)item);
    file = npy_array(item == 4 ? "<i4" : text + 200, true, text, f.p, f.n);
    expect_values(text, &file, c.p, n, item, 0, item == 4 ? VC_DTYPE_I32 : VC_DTYPE_VOID);
    bytes_release(&file);
    bytes_release(&c);
    bytes_release(&f);
}

static void test_fortran(void **state)
{
    static const struct {
        unsigned n_dims;
        uint64_t shape[6];
    } shapes[] = {{2, {3, 4}},     {2, {4, 3}},     {3, {2, 3, 4}},          {4, {5, 1, 3, 2}}, {2, {1, 9}},
                  {2, {9, 1}},     {1, {7}},        {6, {2, 3, 1, 2, 4, 3}}, {2, {700, 130}},   {2, {130, 700}},
                  {2, {40000, 3}}, {2, {3, 40000}}, {3, {20000, 2, 2}},      {3, {2, 150, 300}}};
    static const size_t items[] = {4, 1, 2, 3, 8, 16};
    size_t i;
    size_t k;

    (void)state;
    for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (k = 0; k < (i < 8 ? sizeof items / sizeof items[0] : 1); k++) {
            check_fortran(shapes[i].shape, shapes[i].n_dims, items[k]);
        }
    }
}

static void test_void_as(void **state)
{
    struct bytes b = npy_array("|V2", false, "(3,)", "abcdef", 6);

    (void)state;
    expect_values("V2", &b, "abcdef", 3, 2, 0, VC_DTYPE_VOID);
    expect_values("V2 as bf16", &b, "abcdef", 3, 2, VC_DTYPE_BF16, VC_DTYPE_BF16);
    expect_values("V2 as f32", &b, "abcdef", 3, 2, VC_DTYPE_F32, VC_DTYPE_VOID);
    bytes_release(&b);
}

/* ------------------------------------------------------------------------------------------------ damage */

static void test_cut_everywhere(void **state)
{
    struct bytes b = npy_matrix(3, 4);
    size_t n;

    (void)state;
    for (n = 0; n < b.n; n++) {
        char what[32];

        snprintf(what, sizeof what, "cut at %zu", n);
        expect_bad(what, b.p, n, "walk-");
    }
    expect_good("whole", b.p, b.n);
    bytes_release(&b);
}

static void test_flip_everywhere(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = npy_matrix(3, 4);
    size_t i;
    unsigned bit;

    (void)state;
    for (i = 0; i < 128; i++) {
        for (bit = 0; bit < 9; bit++) {
            unsigned char flip = (unsigned char)(bit < 8 ? 1 << bit : 0xff);

            b.p[i] ^= flip;
            expect_calm(ctx, b.p, b.n);
            b.p[i] ^= flip;
        }
    }
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_no_memory(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = npy_array(">f4", true, "(3, 4)", zeros, 48);
    enum vc_status status = VC_E_NOMEM;
    int forever;
    uint64_t n;

    (void)state;
    for (forever = 0; forever < 2; forever++) {
        for (n = 1, status = VC_E_NOMEM; status != VC_OK; n++) {
            assert_true(n < 100);
            vc_pool_fail_at(ctx->shared->pool, n, forever);
            status = walk_bytes(ctx, b.p, b.n, NULL);
            assert_true(status == VC_OK || status == VC_E_NOMEM);
            assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
        }
        assert_true(n > 5);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
    }
    bytes_release(&b);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_texts),      cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_nul_in_text),     cmocka_unit_test(test_types),
        cmocka_unit_test(test_prefix),          cmocka_unit_test(test_versions),
        cmocka_unit_test(test_big_endian),      cmocka_unit_test(test_fortran),
        cmocka_unit_test(test_void_as),         cmocka_unit_test(test_cut_everywhere),
        cmocka_unit_test(test_flip_everywhere), cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
