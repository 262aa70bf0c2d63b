/* test_protobuf_wire.c - fields of protocol buffers: every wire type and every length gives the field that the
 * bytes, written by hand, stand for; and what is no field is refused. */
#include "formats_test.h"

#include <stdlib.h>

#include "formats/io/infile.h"
#include "formats/io/protobuf_wire.h"
#include "onnx_builder.h"

/* ---- varints ---- */

static void test_varints(void **state)
{
    static const uint64_t values[] = {
        0, 1, 127, 128, 300, 16383, 16384, UINT32_MAX, UINT64_MAX, (uint64_t)1 << 63, INT64_MAX, 0x0123456789abcdef};
    struct vc_ctx *ctx = test_ctx();
    size_t i;
    size_t n;

    (void)state;
    for (i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct vc_text text;
        uint64_t back = 0;

        vc_text_init(&text, ctx);
        vc_wire_put_varint(&text, values[i]);
        assert_int_equal(vc_wire_decode((unsigned char *)text.data, text.n, &back), text.n);
        assert_true(back == values[i]);
        for (n = 0; n < text.n; n++) {
            assert_int_equal(vc_wire_decode((unsigned char *)text.data, n, &back), 0);
        }
        vc_text_release(&text);
    }
    {
        static const unsigned char long_one[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
        static const unsigned char too_large[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
        static const unsigned char padded[] = {0x81, 0x80, 0};
        uint64_t v = 7;

        assert_int_equal(vc_wire_decode(long_one, sizeof long_one, &v), 0);
        assert_int_equal(vc_wire_decode(too_large, sizeof too_large, &v), 0);
        assert_int_equal(vc_wire_decode(padded, sizeof padded, &v), 3);
        assert_int_equal(v, 1);
    }
    test_ctx_done(ctx);
}

/* ---- files ---- */

struct opened {
    char path[512];
    int fd;
    struct vc_infile *file;
    struct vc_wire wire;
    struct vc_span rest;
};

static void open_bytes(struct vc_ctx *ctx, const struct bytes *b, struct opened *o)
{
    o->fd = walk_file_open(b->p, b->n, o->path, sizeof o->path);
    assert_int_equal(vc_infile_open(ctx, o->path, &o->file), VC_OK);
    assert_int_equal(vc_wire_open(ctx, o->file, &o->wire), VC_OK);
    o->rest = (struct vc_span){0, b->n};
}

static void close_bytes(struct vc_ctx *ctx, struct opened *o)
{
    vc_wire_close(&o->wire);
    vc_wire_close(&o->wire); /* twice is fine */
    vc_infile_close(ctx, o->file);
    walk_file_close(o->fd, o->path);
}

static void test_fields(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = {NULL, 0, 0};
    struct bytes large = {NULL, 0, 0};
    struct opened o;
    struct vc_field f;

    (void)state;
    bytes_fill(&large, 'x', 3 * VC_WIRE_WINDOW_BYTES + 1);
    pb_int(&b, 1, 300);
    bytes_add(&b, "\x11\1\2\3\4\5\6\7\x88", 9); /* field 2, 8 bytes */
    pb_data(&b, 3, large.p, large.n);
    bytes_add(&b, "\x25\1\2\3\4", 5);                  /* field 4, 4 bytes */
    bytes_add(&b, "\x2b\x08\1\x33\x0a\1x\x34\x2c", 9); /* field 5: a group with a number and a group */
    bytes_add(&b, "\xfa\xff\xff\xff\x0f\0", 6);        /* field 2^29 - 1 */
    open_bytes(ctx, &b, &o);

    assert_int_equal(vc_wire_field(&o.wire, &o.rest, &f), VC_OK);
    assert_true(f.number == 1 && f.type == VC_WIRE_VARINT && f.value == 300 && f.all.at == 0 && f.all.n == 3);
    assert_int_equal(vc_wire_expect(&o.wire, &f, VC_WIRE_VARINT, "it"), VC_OK);
    assert_int_equal(vc_wire_expect(&o.wire, &f, VC_WIRE_BYTES, "it"), VC_E_FORMAT);
    assert_string_equal(vc_ctx_message(ctx), "it (at offset 0) has wire type 0, expected 2");
    assert_int_equal(vc_wire_field(&o.wire, &o.rest, &f), VC_OK);
    assert_true(f.number == 2 && f.type == VC_WIRE_FIXED64 && f.value == 0x8807060504030201);
    assert_int_equal(vc_wire_field(&o.wire, &o.rest, &f), VC_OK);
    assert_true(f.number == 3 && f.type == VC_WIRE_BYTES && f.data.n == large.n && f.data.at + f.data.n == o.rest.at);
    assert_int_equal(vc_wire_field(&o.wire, &o.rest, &f), VC_OK);
    assert_true(f.number == 4 && f.type == VC_WIRE_FIXED32 && f.value == 0x04030201);
    assert_int_equal(vc_wire_field(&o.wire, &o.rest, &f), VC_OK);
    assert_true(f.number == 5 && f.type == VC_WIRE_GROUP && f.all.n == 9 && f.data.n == 7);
    assert_int_equal(vc_wire_field(&o.wire, &o.rest, &f), VC_OK);
    assert_true(f.number == ((uint32_t)1 << 29) - 1 && f.data.n == 0 && o.rest.n == 0);
    {
        unsigned char back[VC_WIRE_WINDOW_BYTES];

        assert_int_equal(vc_wire_read(&o.wire, 20, back, sizeof back), VC_OK);
        assert_memory_equal(back, large.p, sizeof back);
        assert_int_equal(vc_wire_read(&o.wire, b.n - 1, back, 2), VC_E_FORMAT);
        assert_int_equal(vc_wire_read(&o.wire, b.n + 1, back, 1), VC_E_FORMAT);
    }
    close_bytes(ctx, &o);
    bytes_release(&large);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void expect_no_field(const char *bytes, size_t n, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = {NULL, 0, 0};
    struct opened o;
    struct vc_field f;

    bytes_add(&b, bytes, n);
    bytes_add(&b, "\x08\1\x08\1\x08\1\x08\1\x08\1\x08\1", 12); /* what a field must not reach into */
    open_bytes(ctx, &b, &o);
    o.rest.n = n;
    assert_int_equal(vc_wire_field(&o.wire, &o.rest, &f), VC_E_FORMAT);
    if (strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", vc_ctx_message(ctx), needle);
    }
    close_bytes(ctx, &o);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void test_no_fields(void **state)
{
    char deep[2 * VC_WIRE_MAX_GROUPS + 2];

    (void)state;
    expect_no_field("\x08", 1, "no number that ends in time");
    expect_no_field("\x88", 1, "no number that ends in time");
    expect_no_field("\0\1", 2, "its number would be 0");
    expect_no_field("\x80\x80\x80\x80\x20\1", 6, "its number would be 1073741824");
    expect_no_field("\x0e\1", 2, "wire type 6");
    expect_no_field("\x0f\1", 2, "wire type 7");
    expect_no_field("\x0c\1", 2, "wire type 4");
    expect_no_field("\x0a\2x", 3, "a field of 2 bytes starts where only 1 are left");
    expect_no_field("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11, "18446744073709551615 bytes");
    expect_no_field("\x09\1\1\1\1\1\1\1", 8, "a field of 8 bytes");
    expect_no_field("\x0d\1\1\1", 4, "a field of 4 bytes");
    expect_no_field("\x0b\x08\1", 3, "has no end");
    expect_no_field("\x0b\x14", 2, "ends as another one");
    expect_no_field("\x0b\x13\x0c", 3, "ends as another one");
    memset(deep, 0x0b, sizeof deep);
    expect_no_field(deep, sizeof deep, "more than 32 levels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varints),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_no_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
