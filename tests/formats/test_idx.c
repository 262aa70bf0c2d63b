/* test_idx.c - files with one array for data: idx files, plain and packed by gzip, every type, every cut, every changed
 * byte; files of nothing but tokens. Values are compared with what was put in; gzip's side is zlib. */
#include "formats_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "core/model/source.h"
#include "formats/formats.h"
#include "formats/idx/idx.h"

/* An array [2, 3] of that type, whose elements are the bytes 1, 2, 3, ... as they lie in the file. */
static size_t make_idx(unsigned char type, size_t size, unsigned char *out)
{
    static const unsigned char dims[] = {0, 0, 0, 2, 0, 0, 0, 3};
    const unsigned char prefix[] = {0, 0, type, 2};
    size_t n = 12;

    memcpy(out, prefix, sizeof prefix);
    memcpy(out + 4, dims, sizeof dims);
    for (size_t i = 0; i < 6 * size; i++) {
        out[n++] = (unsigned char)(i + 1);
    }
    return n;
}

/* The bytes as gzip packs them, with all that its header may have where it is asked for. */
static size_t pack(const unsigned char *data, size_t n, bool named, unsigned char *out, size_t room)
{
    gz_header header = {.os = 3,
                        .extra = (Bytef *)(uintptr_t) "ab",
                        .extra_len = 2,
                        .name = (Bytef *)(uintptr_t) "images",
                        .comment = (Bytef *)(uintptr_t) "of digits",
                        .hcrc = 1};
    z_stream z;

    memset(&z, 0, sizeof z);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    if (named) {
        assert_int_equal(deflateSetHeader(&z, &header), Z_OK);
    }
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    n = room - z.avail_out;
    (void)deflateEnd(&z);
    return n;
}

static const struct {
    unsigned char code;
    enum vc_dtype dtype;
    size_t size;
} types[] = {{0x08, VC_DTYPE_U8, 1},  {0x09, VC_DTYPE_I8, 1},  {0x0b, VC_DTYPE_I16, 2},
             {0x0c, VC_DTYPE_I32, 4}, {0x0d, VC_DTYPE_F32, 4}, {0x0e, VC_DTYPE_F64, 8}};

/* The elements, with the bytes of each reversed. */
static void expect_values(const unsigned char *data, size_t n, enum vc_dtype dtype, size_t size)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    unsigned char values[48];
    char path[256];
    int fd = walk_file_open(data, n, path, sizeof path);

    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_OK);
    assert_string_equal(model->format_name, "idx");
    assert_int_equal(model->n_tensors, 1);
    assert_string_equal(model->tensors[0].name, "arr_0");
    assert_true(model->tensors[0].dtype == dtype && model->tensors[0].n_dims == 2 && model->tensors[0].shape[0] == 2 &&
                model->tensors[0].shape[1] == 3);
    assert_int_equal(vc_model_read(ctx, model, 0, 0, 6, values, sizeof values), VC_OK);
    for (size_t i = 0; i < 6 * size; i++) {
        assert_int_equal(values[i], i / size * size + (size - i % size));
    }
    vc_model_close(model);
    walk_file_close(fd, path);
    test_ctx_done(ctx);
}

static void test_types(void **unused)
{
    unsigned char plain[64], packed[256];

    (void)unused;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        size_t n = make_idx(types[k].code, types[k].size, plain);

        expect_good("plain", plain, n);
        expect_values(plain, n, types[k].dtype, types[k].size);
        for (unsigned named = 0; named < 2; named++) {
            size_t n_packed = pack(plain, n, named == 1, packed, sizeof packed);

            expect_good("packed", packed, n_packed);
            expect_values(packed, n_packed, types[k].dtype, types[k].size);
        }
    }
}

/* A file that ends early, or goes on, is refused; one that begins like nothing is none of ours. */
static void test_cuts(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned char plain[64] = {0};
    unsigned char packed[256];
    size_t n = make_idx(0x0d, 4, plain);
    size_t n_packed = pack(plain, n, true, packed, sizeof packed);

    (void)unused;
    for (size_t cut = 1; cut < n; cut++) {
        assert_int_not_equal(walk_bytes(ctx, plain, cut, NULL), VC_OK);
    }
    for (size_t cut = 1; cut < n_packed; cut++) {
        assert_int_not_equal(walk_bytes(ctx, packed, cut, NULL), VC_OK);
    }
    expect_bad("a byte more", plain, n + 1, "holds 25 bytes of data, but its shape and type need 24");
    expect_bad("a byte less", plain, n - 1, "holds 23 bytes of data, but its shape and type need 24");
    expect_bad("the header", plain, 8, "ends inside the idx header: 8 bytes, 2 dimensions");
    packed[n_packed] = 0;
    expect_bad("packed, a byte more", packed, n_packed + 1, "arr_0");
    test_ctx_done(ctx);
}

/* A changed byte is told by the checksum where it is in the deflated data or the trailer. */
static void test_changes(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned char plain[64], packed[256];
    size_t n = make_idx(0x0c, 4, plain);
    size_t n_packed = pack(plain, n, false, packed, sizeof packed);

    (void)unused;
    for (size_t at = 0; at < n_packed; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            packed[at] ^= (unsigned char)(1u << bit);
            expect_calm(ctx, packed, n_packed);
            if (at >= 10 && at != n_packed - 9) { /* the last deflated byte has bits that stand for nothing */
                assert_int_not_equal(walk_bytes(ctx, packed, n_packed, NULL), VC_OK);
            }
            packed[at] ^= (unsigned char)(1u << bit);
        }
    }
    for (size_t at = 0; at < n; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            plain[at] ^= (unsigned char)(1u << bit);
            expect_calm(ctx, plain, n);
            plain[at] ^= (unsigned char)(1u << bit);
        }
    }
    test_ctx_done(ctx);
}

/* Where an array ends that comes as a stream: asked of the first n bytes. */
static enum vc_status find_end(struct vc_ctx *ctx, const unsigned char *data, size_t n, struct vc_stream_end *end)
{
    char path[256];
    int fd = walk_file_open(data, n, path, sizeof path);
    const struct vc_infile file = {.fd = fd, .path = path, .size_bytes = n};
    enum vc_status status;

    *end = (struct vc_stream_end){.need = 0};
    status = vc_format_idx.stream_end(ctx, &file, end);
    walk_file_close(fd, path);
    return status;
}

static void test_stream_end(void **unused)
{
    static const unsigned char gzip[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    struct vc_ctx *ctx = test_ctx();
    struct vc_infile closed = {.fd = -1, .path = "closed", .size_bytes = 100};
    struct vc_stream_end end;
    unsigned char plain[64];
    size_t n = make_idx(0x0d, 4, plain);

    (void)unused;
    assert_int_equal(find_end(ctx, plain, 3, &end), VC_OK);
    assert_true(end.need == 4 && end.end == 0);
    assert_int_equal(find_end(ctx, plain, 7, &end), VC_OK);
    assert_true(end.need == 12 && end.end == 0);
    assert_int_equal(find_end(ctx, plain, 12, &end), VC_OK);
    assert_true(end.end == n);
    assert_int_equal(find_end(ctx, gzip, sizeof gzip, &end), VC_OK);
    assert_true(end.need == UINT64_MAX && end.end == 0);
    memset(plain + 4, 0xff, 8);
    plain[2] = 0x0e;
    assert_int_equal(find_end(ctx, plain, 12, &end), VC_E_FORMAT);
    assert_int_not_equal(vc_format_idx.stream_end(ctx, &closed, &end), VC_OK);
    test_ctx_done(ctx);
}

/* Reads that no caller should make, and a file that becomes shorter after it was opened. */
static void test_reads(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct vc_source_stream *stream = NULL;
    unsigned char plain[64], packed[256], values[64];
    size_t n = make_idx(0x0d, 4, plain);
    size_t n_packed = pack(plain, n, true, packed, sizeof packed);
    char path[256];
    int fd = walk_file_open(plain, n, path, sizeof path);

    (void)unused;
    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_OK);
    assert_int_equal(model->ops->stream_bytes(model, 0), 0);
    assert_int_equal(model->ops->read(ctx, model, 0, VC_FORM_VALUES, 25, values, 0, NULL), VC_E_INTERNAL);
    assert_int_equal(model->ops->read(ctx, model, 0, VC_FORM_VALUES, 4, values, 24, NULL), VC_E_INTERNAL);
    assert_int_equal(ftruncate(fd, 20), 0);
    assert_int_not_equal(model->ops->read(ctx, model, 0, VC_FORM_VALUES, 0, values, 24, NULL), VC_OK);
    vc_model_close(model);
    walk_file_close(fd, path);
    fd = walk_file_open(packed, n_packed, path, sizeof path);
    assert_int_equal(vc_model_open(ctx, path, NULL, &model), VC_OK);
    assert_true(model->ops->stream_bytes(model, 0) > 0);
    assert_int_equal(model->ops->stream_open(ctx, model, 0, VC_FORM_VALUES, &stream), VC_OK);
    assert_int_equal(model->ops->stream_read(ctx, stream, values, 28), VC_E_INTERNAL);
    assert_int_equal(model->ops->stream_read(ctx, stream, values, 3), VC_E_INTERNAL);
    assert_int_equal(model->ops->stream_read(ctx, stream, values, 8), VC_OK);
    assert_int_equal(model->ops->stream_close(ctx, stream, true), VC_E_INTERNAL);
    assert_int_equal(model->ops->stream_open(ctx, model, 0, VC_FORM_VALUES, &stream), VC_OK);
    assert_int_equal(model->ops->stream_read(ctx, stream, values, 24), VC_OK);
    assert_int_equal(ftruncate(fd, (off_t)n_packed - 1), 0);
    assert_int_not_equal(model->ops->stream_close(ctx, stream, true), VC_OK);
    assert_int_equal(ftruncate(fd, 4), 0);
    assert_int_not_equal(model->ops->stream_open(ctx, model, 0, VC_FORM_VALUES, &stream), VC_OK);
    vc_model_close(model);
    walk_file_close(fd, path);
    test_ctx_done(ctx);
}

static void test_refused(void **unused)
{
    static const unsigned char huge[] = {0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    static const unsigned char large[] = {0, 0, 14, 2, 127, 255, 255, 255, 127, 255, 255, 255};
    static const unsigned char wide[] = {0, 0, 8, 1, 0, 255, 255, 255, 1, 2, 3};
    static const unsigned char text[] = "a text of some length that gzip has packed";
    static const unsigned char no_end[] = {0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};
    unsigned char packed[256];

    (void)unused;
    expect_bad("too many elements", huge, sizeof huge, "the shape of the idx array overflows");
    expect_bad("too many bytes", large, sizeof large, "the idx array is too large");
    expect_bad("a text", packed, pack(text, sizeof text, false, packed, sizeof packed),
               "is a gzip file of something that is no idx array; unpack it first");
    expect_bad("less than it says", packed, pack(wide, sizeof wide, false, packed, sizeof packed),
               "its shape and type need 16777215 bytes, more than");
    expect_bad("a name without an end", no_end, sizeof no_end, "the gzip header does not end");
    expect_bad("a gzip file", "\x1f\x8b\x08", 3, "ends inside the gzip header: 3 bytes");
    memcpy(packed, no_end, sizeof no_end);
    packed[2] = 9;
    expect_bad("another method", packed, sizeof no_end, "is a gzip file of a kind that is not known: method 9");
}

/* Each allocation that opening and reading makes fails once. */
static void test_no_memory(void **unused)
{
    unsigned char plain[64], packed[256];
    size_t n = pack(plain, make_idx(0x0d, 4, plain), true, packed, sizeof packed);
    enum vc_status status = VC_E_NOMEM;
    uint64_t k;

    (void)unused;
    for (k = 1; k < 1000 && status == VC_E_NOMEM; k++) {
        struct vc_ctx *ctx = test_ctx();

        vc_pool_fail_at(ctx->shared->pool, k, 0);
        status = walk_bytes(ctx, packed, n, NULL);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        test_ctx_done(ctx);
    }
    assert_true(status == VC_OK && k > 5);
}

/* ---- files of tokens ---- */

/* 11 tokens from 1 on, behind the header of llm.c where it is asked for. */
static size_t make_tokens(size_t size, bool with_header, unsigned char *out)
{
    size_t n = with_header ? 1024 : 0;
    const uint32_t header[3] = {size == 2 ? 20240520 : 20240801, size == 2 ? 1 : 7, 11};

    memset(out, 0, n + 11 * size);
    for (size_t i = 0; with_header && i < sizeof header; i++) {
        out[i] = (unsigned char)(header[i / 4] >> i % 4 * 8);
    }
    for (unsigned i = 0; i < 11; i++) {
        out[n + i * size] = (unsigned char)(i + 1);
        out[n + i * size + 1] = size == 4 ? 0 : 1; /* 257, ... */
        out[n + i * size + size - 1] |= 1;
    }
    return n + 11 * size;
}

static enum vc_status open_tokens(struct vc_ctx *ctx, const unsigned char *data, size_t n, uint64_t row, uint64_t bits,
                                  uint32_t values[12])
{
    struct vc_open_options options;
    struct vc_model *model = NULL;
    unsigned char bytes[48] = {0};
    enum vc_status status;
    char path[256];
    int fd = walk_file_open(data, n, path, sizeof path);

    vc_open_defaults(&options);
    options.row_tokens = row;
    options.token_bits = bits;
    status = vc_model_open(ctx, path, &options, &model);
    if (status == VC_OK) {
        const struct vc_tensor *t = &model->tensors[0];
        size_t size = vc_dtype_size(t->dtype);

        assert_true(model->n_tensors == 1 && t->n_dims == 2 && t->shape[0] == 11 / row && t->shape[1] == row);
        assert_string_equal(t->name, "input_ids");
        status = vc_model_read(ctx, model, 0, 0, t->n_elems, bytes, sizeof bytes);
        for (size_t i = 0; i < t->n_elems; i++) {
            values[i] = bytes[i * size] | (uint32_t)bytes[i * size + 1] << 8;
            values[i] |= size == 4 ? (uint32_t)bytes[i * size + 2] << 16 | (uint32_t)bytes[i * size + 3] << 24 : 0;
        }
    }
    vc_model_close(model);
    walk_file_close(fd, path);
    return status;
}

static void test_tokens(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned char data[1024 + 48];
    uint32_t values[12] = {0};

    (void)unused;
    for (unsigned k = 0; k < 4; k++) {
        size_t size = k % 2 == 0 ? 2 : 4;
        size_t n = make_tokens(size, k >= 2, data);

        for (uint64_t row = 1; row <= 11; row++) { /* of llm.c the header says the bits, not the caller */
            assert_int_equal(open_tokens(ctx, data, n, row, k == 1 ? 32 : 0, values), VC_OK);
            for (unsigned i = 0; i < 11 / row * row; i++) {
                assert_int_equal(values[i], i + 1 + (size == 2 ? 256u : 1u << 24));
            }
        }
        assert_int_equal(open_tokens(ctx, data, n, 12, k == 1 ? 32 : 0, values), VC_E_FORMAT);
        assert_non_null(strstr(vc_ctx_message(ctx), "holds 11 tokens, less than one row of 12"));
        for (size_t cut = k >= 2 ? 1024 : n - 1; cut < n; cut++) {
            assert_int_equal(open_tokens(ctx, data, cut, 1, k == 1 ? 32 : 0, values), VC_E_FORMAT);
        }
    }
    assert_non_null(strstr(vc_ctx_message(ctx), "holds 43 bytes of tokens, but its header says 11 of 4 bytes"));
    assert_int_equal(open_tokens(ctx, data, 0, 1, 0, values), VC_E_FORMAT);
    assert_int_equal(open_tokens(ctx, data, 8, 1, 8, values), VC_E_ARGUMENT);
    assert_int_equal(open_tokens(ctx, (const unsigned char *)"PK\3\4", 4, 1, 0, values), VC_E_FORMAT);
    test_ctx_done(ctx);
}

/* Each allocation and each read fails once; a magic number of llm.c with the version of the other one is no header. */
static void test_tokens_fail(void **unused)
{
    struct vc_ctx *ctx = test_ctx();
    unsigned char data[1024 + 48];
    size_t n = make_tokens(2, true, data);
    enum vc_status status = VC_E_NOMEM;
    uint32_t values[12] = {0};
    uint64_t k;

    (void)unused;
    for (k = 1; status == VC_E_NOMEM; k++) {
        vc_pool_fail_at(ctx->shared->pool, k, 0);
        status = open_tokens(ctx, data, n, 11, 0, values);
    }
    assert_true(status == VC_OK && k > 4);
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    status = VC_E_IO;
    for (k = 1; status == VC_E_IO; k++) {
        vc_infile_fail_at(k);
        status = open_tokens(ctx, data, n, 11, 0, values);
    }
    vc_infile_fail_at(0);
    assert_true(status == VC_OK && k > 2);
    for (k = 0; k < 2; k++) {
        n = make_tokens(k == 0 ? 2 : 4, true, data);
        data[4] = k == 0 ? 7 : 1;
        assert_int_equal(open_tokens(ctx, data, n - 1, 11, 0, values), VC_E_FORMAT);
        assert_non_null(strstr(vc_ctx_message(ctx), "no whole tokens of 2 bytes"));
    }
    test_ctx_done(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),     cmocka_unit_test(test_cuts),       cmocka_unit_test(test_changes),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_stream_end), cmocka_unit_test(test_reads),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_tokens),     cmocka_unit_test(test_tokens_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
