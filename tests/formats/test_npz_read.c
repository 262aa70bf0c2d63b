/* test_npz_read.c - npz as a model: which members become which tensors, and with which values in every storage
 * (stored, deflated, any order of the axes). Archives are zip_builder.c's. Every damaged byte of a member is noticed by
 * its checksum, every wrong header is refused. */
#include "formats_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/checked.h"
#include "formats/dialects/manifest/manifest.h"

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

/* ------------------------------------------------------------------------------------------------ members */

static void test_members(void **state)
{
    static const char json[] = "{\"schema\": \"vcompress.manifest/1\", \"tensors\": {}}";
    static const struct member_options utf8 = {.utf8 = true};
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    struct zip_builder z;
    const struct vc_tensor *t;
    char text[16];

    (void)state;
    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "layer/0.weight.npy", npy_matrix(3, 4), &deflated);
    zip_add(&z, VC_MANIFEST_NAME, json, sizeof json - 1, NULL);
    zip_add(&z, "notes.txt", "some notes", 10, NULL);
    zip_add(&z, "notes2", "more notes", 10, &deflated);
    zip_add_bytes(&z, "plain", npy_matrix(5, 2), NULL); /* an npy without the suffix */
    zip_add(&z, "empty", "", 0, NULL);
    zip_add(&z, "empty2", "", 0, &deflated);
    zip_add_bytes(&z, "gewicht\xc3\xa4.npy", npy_array("<i8", false, "()", "\5\0\0\0\0\0\0\0", 8), &utf8);
    zip_add_bytes(&z, "none.npy", npy_array("<f4", false, "(0, 7)", "", 0), NULL);
    zip_add_bytes(&z, "none2.npy", npy_array("<f4", false, "(0, 7)", "", 0), &deflated);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    model = open_bytes(ctx, &z.out);
    assert_string_equal(vc_model_facts(model)->format, "npz");
    assert_int_equal(vc_model_facts(model)->file_bytes, z.out.n);
    assert_int_equal(vc_model_facts(model)->n_tensors, 9);
    assert_int_equal(vc_model_find(model, VC_MANIFEST_NAME), VC_NO_TENSOR);
    t = vc_model_tensor(model, 0);
    assert_string_equal(t->name, "layer/0.weight");
    assert_int_equal(t->dtype, VC_DTYPE_F32);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[1], 4);
    assert_int_equal(t->size_bytes, 48);
    assert_true(t->compressed);
    assert_int_equal(t->file_bytes, z.members[0].packed + 30 + 18 + 46 + 18);
    t = vc_model_tensor(model, 1);
    assert_string_equal(t->name, "notes.txt");
    assert_int_equal(t->dtype, VC_DTYPE_RAW);
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->shape[0], 10);
    assert_int_equal(vc_model_read(ctx, model, 1, 0, 10, text, sizeof text), VC_OK);
    assert_memory_equal(text, "some notes", 10);
    assert_int_equal(vc_model_read(ctx, model, 2, 5, 5, text, sizeof text), VC_OK);
    assert_memory_equal(text, "notes", 5);
    t = vc_model_tensor(model, 3);
    assert_string_equal(t->name, "plain");
    assert_int_equal(t->dtype, VC_DTYPE_F32);
    assert_int_equal(vc_model_tensor(model, 4)->n_elems, 0);
    t = vc_model_tensor(model, 6);
    assert_string_equal(t->name, "gewicht\xc3\xa4");
    assert_int_equal(t->n_dims, 0);
    assert_int_equal(t->n_elems, 1);
    assert_int_equal(vc_model_tensor(model, 7)->n_elems, 0);
    assert_int_equal(vc_model_tensor(model, 7)->shape[1], 7);
    if (walk_model(ctx, model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    vc_model_close(model);
    zip_release(&z);
    test_ctx_done(ctx);
}

/* Two members, stored or deflated, refused with this sentence. */
static void refuse_members(const char *name_a, struct bytes a, const char *name_b, struct bytes b, const char *needle)
{
    int k;

    for (k = 0; k < 2; k++) {
        struct zip_builder z;

        memset(&z, 0, sizeof z);
        zip_add(&z, name_a, a.p, a.n, k == 0 ? NULL : &deflated);
        zip_add(&z, name_b, b.p, b.n, k == 0 ? NULL : &deflated);
        zip_finish(&z, ZIP_END_PLAIN, 0);
        expect_bad(needle, z.out.p, z.out.n, needle);
        zip_release(&z);
    }
    bytes_release(&a);
    bytes_release(&b);
}

static struct bytes text_bytes(const char *s)
{
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, s, strlen(s));
    return b;
}

static struct bytes longer(struct bytes b, size_t n)
{
    bytes_fill(&b, 1, n);
    return b;
}

static struct bytes shorter(struct bytes b, size_t n)
{
    b.n -= n;
    return b;
}

static void test_bad_members(void **state)
{
    struct bytes huge = npy_array("<f4", false, "(4294967296, 4294967296)", "1234", 4);

    (void)state;
    refuse_members("a.npy", npy_matrix(3, 4), "a", npy_matrix(3, 4), "'a' occurs twice");
    refuse_members("a.npy", npy_matrix(3, 4), "a", text_bytes("x"), "'a' occurs twice");
    refuse_members("a.npy", npy_matrix(3, 4), "a.npy", npy_matrix(3, 4), "'a' occurs twice");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", text_bytes("hello"), "member 'w.npy': is no npy array");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", text_bytes(""), "member 'w.npy': is empty");
    refuse_members("a.npy", npy_matrix(3, 4), ".npy", npy_matrix(3, 4), "no name");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", longer(npy_matrix(3, 4), 4), "'w.npy': holds 52 bytes");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", shorter(npy_matrix(3, 4), 16), "'w.npy': holds 32 bytes");
    refuse_members("a.npy", npy_matrix(3, 4), "w", longer(npy_matrix(3, 4), 4), "'w': holds 52 bytes");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", shorter(npy_matrix(3, 4), 60), "ends inside the npy header");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", text_bytes("\x93NUMPY"), "ends inside the npy header");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", text_bytes("\x93NUMPY\1"), "ends inside the npy header");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", npy_text("", "", 0), "expected '{'");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", npy_text("{", "", 0), "a key");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", npy_array("<f3", false, "(2,)", "123456", 6), "'<f3'");
    refuse_members("a.npy", npy_matrix(3, 4), "w.npy", huge, "overflows");
    refuse_members(VC_MANIFEST_NAME, text_bytes("{}"), VC_MANIFEST_NAME, text_bytes("{}"), "occurs twice");
    refuse_members("a.npy", npy_matrix(3, 4), VC_MANIFEST_NAME, text_bytes(""), "member 'vcompress.json'");
}

/* Version 1, 2 and 3 headers, and one that is longer than what is read at first. */
static void test_headers(void **state)
{
    struct bytes one = npy_matrix(3, 4);
    struct bytes text = {NULL, 0, 0};
    struct zip_builder z;
    struct bytes v;
    int k;

    (void)state;
    memset(&z, 0, sizeof z);
    for (k = 0; k < 2; k++) {
        const struct member_options *o = k == 0 ? NULL : &deflated;

        v = (struct bytes){NULL, 0, 0};
        bytes_add(&v, "\x93NUMPY\2\0\x76\0\0\0", 12);
        bytes_add(&v, one.p + 10, one.n - 10);
        zip_add_bytes(&z, k == 0 ? "v2.npy" : "v2d.npy", v, o);
        v = (struct bytes){NULL, 0, 0};
        bytes_add(&v, "\x93NUMPY\3\0\x76\0\0\0", 12);
        bytes_add(&v, one.p + 10, one.n - 10);
        zip_add_bytes(&z, k == 0 ? "v3.npy" : "v3d.npy", v, o);
        text.n = 0;
        bytes_add(&text, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 59);
        bytes_fill(&text, ' ', 60000 - text.n);
        bytes_add(&text, "", 1);
        zip_add_bytes(&z, k == 0 ? "long.npy" : "longd.npy", npy_text((const char *)text.p, one.p + 128, 48), o);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_good("headers", z.out.p, z.out.n);
    zip_release(&z);
    bytes_release(&one);
    bytes_release(&text);
}

/* ------------------------------------------------------------------------------------------------ values */

/* The same 60 x 50 matrix in every storage; all must read as the same values. */
static void test_layouts(void **state)
{
    enum { ROWS = 60, COLS = 50, N = ROWS * COLS };
    static float c[N];
    static float f[N];
    static unsigned char be[2][N * 4];
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    struct zip_builder z;
    static float got[N];
    size_t i;
    size_t k;

    (void)state;
    for (i = 0; i < N; i++) {
        c[i] = (float)i * 1.5f - 100.0f;
        f[i % COLS * ROWS + i / COLS] = c[i];
    }
    for (i = 0; i < N * 4; i++) {
        be[0][i] = ((unsigned char *)c)[i ^ 3];
        be[1][i] = ((unsigned char *)f)[i ^ 3];
    }
    memset(&z, 0, sizeof z);
    for (k = 0; k < 8; k++) {
        const struct member_options *o = k & 4 ? &deflated : NULL;
        const void *data = k & 1 ? (const void *)be[k >> 1 & 1] : (k & 2 ? (const void *)f : (const void *)c);
        char name[8] = "m0.npy";

        name[1] = (char)('0' + k);
        zip_add_bytes(&z, name, npy_array(k & 1 ? ">f4" : "<f4", k & 2, "(60, 50)", data, sizeof c), o);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    model = open_bytes(ctx, &z.out);
    for (k = 0; k < 8; k++) {
        memset(got, 0, sizeof got);
        if (vc_model_read(ctx, model, k, 0, N, got, sizeof got) != VC_OK) {
            fail_msg("%s", vc_ctx_message(ctx));
        }
        assert_memory_equal(got, c, sizeof c);
        assert_int_equal(vc_model_read(ctx, model, k, 77, 1234, got, sizeof got), VC_OK);
        assert_memory_equal(got, c + 77, 1234 * sizeof *c);
    }
    if (walk_model(ctx, model) != VC_OK || walk_model(ctx, model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    vc_model_close(model);
    zip_release(&z);
    test_ctx_done(ctx);
}

/* The raw form is the member, byte for byte, whatever its order. */
static void test_raw_form(void **state)
{
    struct bytes member = npy_array(">f4", true, "(2, 3)", "aaaabbbbccccddddeeeeffff", 24);
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    struct zip_builder z;
    unsigned char got[256];
    size_t i;

    (void)state;
    memset(&z, 0, sizeof z);
    zip_add(&z, "a.npy", member.p, member.n, NULL);
    zip_add(&z, "b.npy", member.p, member.n, &deflated);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    model = open_bytes(ctx, &z.out);
    for (i = 0; i < 2; i++) {
        assert_int_equal(model->io[i].raw_bytes, member.n);
        memset(got, 0, sizeof got);
        assert_int_equal(vc_source_read_any(ctx, model, i, VC_FORM_RAW, 0, got, member.n), VC_OK);
        assert_memory_equal(got, member.p, member.n);
        assert_int_equal(vc_source_read_any(ctx, model, i, VC_FORM_RAW, 100, got, 40), VC_OK);
        assert_memory_equal(got, member.p + 100, 40);
    }
    vc_model_close(model);
    zip_release(&z);
    bytes_release(&member);
    test_ctx_done(ctx);
}

/* ------------------------------------------------------------------------------------------------ checksums */

struct reader {
    struct vc_ctx ctx;
    struct vc_model *model;
    struct vc_check *check;
    enum vc_form form;
    atomic_size_t *next;
    atomic_int *failures;
    size_t n, piece;
};

static void *read_pieces(void *user)
{
    struct reader *r = user;
    unsigned char buffer[4096];

    for (;;) {
        size_t i = atomic_fetch_add(r->next, 1);
        size_t n_pieces = (r->n + r->piece - 1) / r->piece;
        size_t at;
        size_t n;

        if (i >= n_pieces) {
            return NULL;
        }
        at = i * 7919 % n_pieces * r->piece; /* any order: 7919 is prime to the number of pieces */
        n = r->n - at < r->piece ? r->n - at : r->piece;
        if (r->model->ops->read(&r->ctx, r->model, 0, r->form, at, buffer, n, r->check) != VC_OK) {
            atomic_fetch_add(r->failures, 1);
        }
    }
}

/* Reads tensor 0 in pieces from three threads; returns how many reads failed. */
static int read_parallel(struct vc_ctx *ctx, struct vc_model *model, enum vc_form form)
{
    struct reader readers[3];
    struct vc_check check = {0, 0};
    pthread_t threads[3];
    atomic_size_t next = 0;
    atomic_int failures = 0;
    int i;

    for (i = 0; i < 3; i++) {
        readers[i] = (struct reader){.model = model,
                                     .check = &check,
                                     .form = form,
                                     .next = &next,
                                     .failures = &failures,
                                     .n = form == VC_FORM_RAW ? (size_t)model->io[0].raw_bytes
                                                              : (size_t)model->tensors[0].size_bytes,
                                     .piece = 1000};
        vc_ctx_fork(ctx, &readers[i].ctx);
        assert_int_equal(pthread_create(&threads[i], NULL, read_pieces, &readers[i]), 0);
    }
    for (i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(check.n_bytes, 0);
    assert_int_equal(check.crc, 0);
    return failures;
}

/* Every flipped byte of a stored member is noticed by exactly one read, whatever the order. */
static void test_stored_crc(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct zip_builder z;
    size_t at;
    int form;
    int fortran;

    (void)state;
    for (fortran = 0; fortran < 2; fortran++) {
        unsigned char data[2 * 61 * 53] = {0};

        memset(&z, 0, sizeof z);
        zip_add_bytes(&z, "a.npy", npy_array("<u2", fortran == 1, "(61, 53)", data, sizeof data), NULL);
        zip_finish(&z, ZIP_END_PLAIN, 0);
        for (at = z.members[0].data + 128; at <= z.members[0].end; at += 211) {
            size_t bad = at < z.members[0].end ? at : z.members[0].end - 1;
            struct vc_model *model;

            z.out.p[bad] ^= 0x10;
            model = open_bytes(ctx, &z.out);
            for (form = VC_FORM_VALUES; form <= VC_FORM_RAW; form++) {
                assert_int_equal(read_parallel(ctx, model, (enum vc_form)form), 1);
                assert_int_equal(read_parallel(ctx, model, (enum vc_form)form), 1);
            }
            assert_int_equal(walk_model(ctx, model), VC_E_FORMAT);
            assert_non_null(strstr(vc_ctx_message(ctx), "a: the data is damaged: its CRC-32"));
            vc_model_close(model);
            z.out.p[bad] ^= 0x10;
        }
        {
            struct vc_model *model = open_bytes(ctx, &z.out);

            for (form = VC_FORM_VALUES; form <= VC_FORM_RAW; form++) {
                assert_int_equal(read_parallel(ctx, model, (enum vc_form)form), 0);
                assert_int_equal(read_parallel(ctx, model, (enum vc_form)form), 0);
            }
            vc_model_close(model);
        }
        zip_release(&z);
    }
    vc_clear_error(ctx);
    test_ctx_done(ctx);
}

struct spool_reader {
    struct vc_ctx ctx;
    struct vc_model *model;
    int failures;
};

static void *read_spooled(void *user)
{
    struct spool_reader *r = user;
    uint16_t got[61 * 53];
    size_t i;

    for (i = 0; i < 6; i++) {
        if (vc_source_read_any(&r->ctx, r->model, i, VC_FORM_VALUES, 0, got, sizeof got) != VC_OK || got[5] != i) {
            r->failures++;
        }
    }
    return NULL;
}

/* Several threads need the unnamed file for different members at the same time. */
static void test_spool_threads(void **state)
{
    static uint16_t data[61 * 53];
    struct vc_ctx *ctx = test_ctx();
    struct spool_reader readers[4];
    pthread_t threads[4];
    struct vc_model *model;
    struct zip_builder z;
    size_t i;

    (void)state;
    memset(&z, 0, sizeof z);
    for (i = 0; i < 6; i++) {
        char name[] = "m0.npy";

        name[1] = (char)('0' + i);
        data[5 * 61] = (uint16_t)i; /* element (0, 5) */
        zip_add_bytes(&z, name, npy_array("<u2", true, "(61, 53)", data, sizeof data), &deflated);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    model = open_bytes(ctx, &z.out);
    for (i = 0; i < 4; i++) {
        readers[i].model = model;
        readers[i].failures = 0;
        vc_ctx_fork(ctx, &readers[i].ctx);
        assert_int_equal(pthread_create(&threads[i], NULL, read_spooled, &readers[i]), 0);
    }
    for (i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].failures, 0);
    }
    vc_model_close(model);
    zip_release(&z);
    test_ctx_done(ctx);
}

/* Damage in a header that still parses is found with the data, or at once where there is none. */
static void test_header_crc(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct zip_builder z;
    int k;

    (void)state;
    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.npy", npy_array("<f4", false, "(3,)", "123456789012", 12), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    z.out.p[z.members[0].data + 100] = '\t';
    expect_bad("header", z.out.p, z.out.n, "CRC-32");
    zip_release(&z);
    for (k = 0; k < 4; k++) {
        char path[512];
        int fd;

        if (k < 2) {
            zip_add_bytes(&z, "a.npy", npy_array("<f4", false, "(0,)", "", 0), k == 0 ? NULL : &deflated);
        } else {
            zip_add(&z, "a", "", 0, k == 2 ? NULL : &deflated);
            zip_add_bytes(&z, "b.npy", npy_matrix(1, 1), NULL);
        }
        z.members[0].crc ^= 1;
        vc_put_le32(z.out.p + z.members[0].local + 14, z.members[0].crc);
        zip_finish(&z, ZIP_END_PLAIN, 0);
        fd = walk_file_open(z.out.p, z.out.n, path, sizeof path);
        assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_E_FORMAT);
        assert_non_null(strstr(vc_ctx_message(ctx), k < 2 ? "member 'a.npy': the data is damaged" : "member 'a': the"));
        walk_file_close(fd, path);
        zip_release(&z);
    }
    vc_clear_error(ctx);
    test_ctx_done(ctx);
}

/* A stream that ends early, late, or elsewhere than its member. */
static void test_bad_deflate(void **state)
{
    struct bytes matrix = npy_matrix(100, 100);
    struct bytes zeros = npy_array("<f4", false, "(16,)", NULL, 0);
    struct zip_builder z;
    struct zip_member *m;

    (void)state;
    memset(&z, 0, sizeof z);
    zip_add(&z, "w.npy", matrix.p, matrix.n, &deflated);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    m = &z.members[0];
    z.out.p[m->data + m->packed / 2] ^= 0xff;
    expect_bad("flipped", z.out.p, z.out.n, "w");
    zip_release(&z);

    /* The stream is cut, and all sizes agree with the cut. */
    zip_add(&z, "w.npy", matrix.p, matrix.n, &deflated);
    z.members[0].packed -= 100;
    z.out.n -= 100;
    vc_put_le32(z.out.p + z.members[0].local + 18, (uint32_t)z.members[0].packed);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_bad("cut", z.out.p, z.out.n, "w");
    zip_release(&z);

    /* Bytes after the final block, counted in the size. */
    zip_add(&z, "w.npy", matrix.p, matrix.n, &deflated);
    bytes_fill(&z.out, 0, 50);
    z.members[0].packed += 50;
    vc_put_le32(z.out.p + z.members[0].local + 18, (uint32_t)z.members[0].packed);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_bad("tail", z.out.p, z.out.n, "stray bytes");
    zip_release(&z);

    /* 16 floats are declared, and the stream has 4 MiB. */
    bytes_fill(&zeros, 0, (size_t)4 << 20);
    zip_add(&z, "w.npy", zeros.p, zeros.n, &deflated);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect_bad("bomb", z.out.p, z.out.n, "shape and dtype need 64");
    m = &z.members[0];
    vc_put_le32(z.out.p + m->local + 22, 128 + 64);
    vc_put_le32(z.out.p + m->central + 24, 128 + 64);
    expect_bad("bomb that lies", z.out.p, z.out.n, "w");
    zip_release(&z);

    /* The last of many members is wrong. */
    {
        int i;

        for (i = 0; i < 41; i++) {
            char name[24];

            snprintf(name, sizeof name, "t%d.npy", i);
            zip_add(&z, name, matrix.p, matrix.n, i & 1 ? &deflated : NULL);
        }
        z.members[40].crc ^= 1;
        vc_put_le32(z.out.p + z.members[40].local + 14, z.members[40].crc);
        zip_finish(&z, ZIP_END_PLAIN, 0);
        expect_bad("last", z.out.p, z.out.n, "t40: the data is damaged");
        zip_release(&z);
    }
    bytes_release(&matrix);
    bytes_release(&zeros);
}

/* ------------------------------------------------------------------------------------------------ damage */

/* Small archives of each kind. */
static size_t make_small(struct zip_builder *z, size_t kind)
{
    struct member_options o = deflated;

    memset(z, 0, sizeof *z);
    switch (kind) {
    case 0:
        zip_simple(z, NULL);
        break;
    case 1:
        zip_simple(z, &o);
        break;
    case 2:
        o.descriptor = DESCRIPTOR_64;
        o.local64 = true;
        o.central64 = 7;
        zip_add_bytes(z, "f.npy", npy_array(">f8", true, "(2, 2)", "aaaaaaaabbbbbbbbccccccccdddddddd", 32), &o);
        zip_add(z, "n", "notes", 5, NULL);
        zip_finish(z, ZIP_END_64, 3);
        break;
    default:
        o = (struct member_options){.descriptor = DESCRIPTOR_32, .central64 = 1};
        zip_add_bytes(z, "a.npy", npy_matrix(2, 3), &o);
        zip_add(z, VC_MANIFEST_NAME, "{}", 2, NULL);
        zip_finish(z, ZIP_END_64_PLAIN, 0);
        break;
    }
    return 4;
}

static void test_cut_everywhere(void **state)
{
    struct zip_builder z;
    size_t kind;
    size_t n;

    (void)state;
    for (kind = 0; kind < make_small(&z, kind); kind++) {
        for (n = 0; n < z.out.n; n++) {
            char what[64];

            snprintf(what, sizeof what, "kind %zu cut at %zu", kind, n);
            expect_bad(what, z.out.p, n, "walk-");
        }
        zip_release(&z);
    }
    zip_release(&z);
}

static void test_flip_everywhere(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct zip_builder z;
    size_t kind;
    size_t i;
    unsigned k;

    (void)state;
    for (kind = 0; kind < make_small(&z, kind); kind++) {
        for (i = 0; i < z.out.n; i++) {
            static const unsigned char flips[] = {0x01, 0x10, 0x80, 0xff};

            for (k = 0; k < sizeof flips; k++) {
                z.out.p[i] ^= flips[k];
                expect_calm(ctx, z.out.p, z.out.n);
                z.out.p[i] ^= flips[k];
            }
        }
        zip_release(&z);
    }
    zip_release(&z);
    test_ctx_done(ctx);
}

static void test_no_memory(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct zip_builder z;
    size_t kind;
    int forever;
    uint64_t n;

    (void)state;
    for (kind = 0; kind < 3; kind++) {
        make_small(&z, kind);
        for (forever = 0; forever < 2; forever++) {
            enum vc_status status = VC_E_NOMEM;

            for (n = 1; status != VC_OK; n++) {
                assert_true(n < 500);
                vc_pool_fail_at(ctx->shared->pool, n, forever);
                status = walk_bytes(ctx, z.out.p, z.out.n, NULL);
                assert_true(status == VC_OK || status == VC_E_NOMEM);
                assert_true((status == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'));
                assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
            }
            assert_true(n > 10);
            vc_pool_fail_at(ctx->shared->pool, 0, 0);
        }
        zip_release(&z);
    }
    test_ctx_done(ctx);
}

/* The unnamed file for deflated Fortran order cannot be made. */
static void test_no_spool(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    struct zip_builder z;
    double values[4];

    (void)state;
    make_small(&z, 2);
    model = open_bytes(ctx, &z.out);
    setenv("TMPDIR", "/nowhere/at/all", 1);
    assert_int_equal(vc_model_read(ctx, model, 0, 0, 4, values, sizeof values), VC_E_IO);
    assert_non_null(strstr(vc_ctx_message(ctx), "f: cannot make a temporary file"));
    unsetenv("TMPDIR");
    assert_int_equal(vc_model_read(ctx, model, 0, 0, 4, values, sizeof values), VC_OK);
    vc_model_close(model);
    zip_release(&z);
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),         cmocka_unit_test(test_bad_members),
        cmocka_unit_test(test_headers),         cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_raw_form),        cmocka_unit_test(test_stored_crc),
        cmocka_unit_test(test_header_crc),      cmocka_unit_test(test_spool_threads),
        cmocka_unit_test(test_bad_deflate),     cmocka_unit_test(test_cut_everywhere),
        cmocka_unit_test(test_flip_everywhere), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_spool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
