/* test_safetensors.c - safetensors as a model and as an output. Headers are written by hand: good ones give their
 * tensors, each kind of damage is refused with the right sentence, every cut and many flipped bits do no harm. Output
 * goes to npz and back, metadata and types that are only carried stay, failing allocations leave no output.
 * tests/judge/test_safetensors.py has other readers as judges. */
#include "formats_test.h"

#include <stdlib.h>

#include "core/base/checked.h"
#include "formats/formats.h"
#include "formats/safetensors/safetensors.h"
#include "tasks.h"

/* A file with this header and n bytes of data: 0, 1, 2, ... */
static struct bytes st_raw(const char *header, size_t n_header, size_t n)
{
    struct bytes b = {NULL, 0, 0};
    size_t i;

    bytes_u64(&b, n_header);
    bytes_add(&b, header, n_header);
    for (i = 0; i < n; i++) {
        bytes_fill(&b, (int)(i & 0x3f), 1);
    }
    return b;
}

static struct bytes st(const char *header, size_t n)
{
    return st_raw(header, strlen(header), n);
}

static void good(const char *header, size_t n)
{
    struct bytes b = st(header, n);

    expect_good(header, b.p, b.n);
    bytes_release(&b);
}

static void bad(const char *header, size_t n, const char *needle)
{
    struct bytes b = st(header, n);

    expect_bad(header, b.p, b.n, needle);
    bytes_release(&b);
}

#define A4 "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"

static struct vc_model *open_bytes(struct vc_ctx *ctx, const struct bytes *b)
{
    struct vc_model *model = NULL;
    char path[512];
    int fd = walk_file_open(b->p, b->n, path, sizeof path);

    if (vc_model_open(ctx, path, NULL, &model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    walk_file_close(fd, path);
    return model;
}

/* ---- reading ---- */

static void test_good(void **state)
{
    (void)state;
    good("{}", 0);
    good("{}      ", 0);
    good("{\"__metadata__\":null}", 0);
    good("{\"__metadata__\":{}}", 0);
    good("{\"__metadata__\":{\"format\":\"pt\"}," A4 "}", 4);
    good("{" A4 ",\"__metadata__\":{\"k\":\"\"}}   ", 4);
    good("{\"\":{\"dtype\":\"BF16\",\"shape\":[2,0],\"data_offsets\":[0,0],\"more\":[{\"x\":-1.5}]}}", 0);
    good("{\"\\u00e4\\ud83d\\ude00/\\n\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}", 1);
    good("{" A4 ",\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"y\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[4,7]},"
         "\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[7,7]}}",
         7);
    good("{\"a\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", 3);
    good("{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3);
}

/* Names, shapes and values; order is that of the data. */
static void test_tensors(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = st("{\"b\":{\"dtype\":\"F4\",\"shape\":[2,4],\"data_offsets\":[6,10]},"
                        "\"a\":{\"dtype\":\"I16\",\"shape\":[1,3],\"data_offsets\":[0,6]},"
                        "\"e\":{\"dtype\":\"F8_E5M2\",\"shape\":[0,2],\"data_offsets\":[6,6]}} ",
                        10);
    struct vc_model *model = open_bytes(ctx, &b);
    const struct vc_tensor *t;
    unsigned char got[4];

    (void)state;
    assert_string_equal(vc_model_facts(model)->format, "safetensors");
    assert_int_equal(vc_model_facts(model)->n_tensors, 3);
    t = vc_model_tensor(model, 0);
    assert_string_equal(t->name, "a");
    assert_int_equal(t->dtype, VC_DTYPE_I16);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[1], 3);
    assert_false(t->compressed);
    assert_int_equal(vc_model_read(ctx, model, 0, 1, 2, got, sizeof got), VC_OK);
    assert_memory_equal(got, "\2\3\4\5", 4);
    t = vc_model_tensor(model, 1);
    assert_string_equal(t->name, "e");
    assert_int_equal(t->dtype, VC_DTYPE_F8_E5M2);
    assert_int_equal(t->n_elems, 0);
    t = vc_model_tensor(model, 2);
    assert_string_equal(t->name, "b");
    assert_int_equal(t->dtype, VC_DTYPE_F4_E2M1);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->n_elems, 8);
    assert_int_equal(vc_model_read(ctx, model, 2, 1, 4, got, sizeof got), VC_E_ARGUMENT); /* half a byte */
    assert_int_equal(vc_model_read(ctx, model, 2, 0, 8, got, sizeof got), VC_OK);
    assert_memory_equal(got, "\6\7\10\11", 4);
    vc_model_close(model);
    bytes_release(&b);
    test_ctx_done(ctx);
}

/* A file with two tensors, codes with scales, and these entries of the metadata. */
static const char *codes_name = "w"; /* or "w.int8" */

static struct bytes with_names(const char *metadata)
{
    char header[1024];

    snprintf(header, sizeof header,
             "{\"__metadata__\":{%s}," A4 ",\"%s\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[4,10]},"
             "\"w.scale\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[10,18]}}",
             metadata, codes_name);
    return st(header, 18);
}

static void expect_names(const char *metadata, size_t n_tensors)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = with_names(metadata);
    struct vc_model *model = open_bytes(ctx, &b);

    expect_good(metadata, b.p, b.n);
    assert_int_equal(vc_model_facts(model)->n_tensors, n_tensors);
    if (vc_model_find(model, "v") != VC_NO_TENSOR) {
        const struct vc_tensor *v = vc_model_tensor(model, vc_model_find(model, "v"));

        assert_int_equal(v->alias_of, vc_model_find(model, "w"));
        assert_int_equal(v->file_bytes, 0);
        assert_int_equal(vc_quant_scale(v->quant), vc_model_find(model, "v.scale"));
        assert_int_equal(vc_model_tensor(model, vc_quant_scale(v->quant))->alias_of, vc_model_find(model, "w.scale"));
    }
    vc_model_close(model);
    bytes_release(&b);
    test_ctx_done(ctx);
}

#define NAMES(text) "\"vcompress.names\":\"{" text "}\""

/* Second names: only those of our own list, and only where all names are unique then. */
static void check_second_names(void)
{
    struct bytes b;

    expect_names("", 3);
    expect_names("\"b\":\"a\"", 3);
    expect_names(NAMES(""), 3);
    expect_names("\"b\":\"a\"," NAMES("\\\"b\\\":\\\"a\\\""), 4);
    expect_names(NAMES("\\\"v\\\":\\\"w\\\""), 5);
    expect_names(NAMES("\\\"b\\\":\\\"a\\\",\\\"c\\\":\\\"a\\\",\\\"v\\\":\\\"w\\\""), 7);
    expect_names(NAMES("\\\"b\\\":\\\"gone\\\",\\\"c\\\":1,\\\"__metadata__\\\":\\\"a\\\""), 3);
    expect_names(NAMES("\\\"b\\\":\\\"w.scale\\\""), 3);
    expect_names(NAMES("\\\"w\\\":\\\"a\\\",\\\"b\\\":\\\"a\\\""), 3);
    expect_names(NAMES("\\\"v\\\":\\\"w\\\",\\\"v.scale\\\":\\\"a\\\""), 3);
    b = with_names(NAMES("\\\"b\\\""));
    expect_bad("names", b.p, b.n, "its metadata entry 'vcompress.names'");
    bytes_release(&b);
    b = with_names(NAMES("\\\"b\\\":\\\"a\\\",\\\"b\\\":\\\"a\\\""));
    expect_bad("names", b.p, b.n, "its metadata entry 'vcompress.names'");
    bytes_release(&b);
}

static void test_names(void **state)
{
    (void)state;
    codes_name = "w";
    check_second_names();
    codes_name = "w.int8";
    check_second_names();
    codes_name = "w";
}

static void bad_dim(const char *dim, const char *needle)
{
    char header[600];

    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[0,4]}}", dim);
    bad(header, 4, needle);
}

static void test_bad_json(void **state)
{
    char digits[401];
    struct bytes b;

    (void)state;
    bad("{", 0, "no valid JSON");
    bad("{" A4, 4, "no valid JSON");
    bad("{'a':1}", 0, "no valid JSON");
    bad("{" A4 "} x", 4, "no valid JSON");
    bad("{\"\\q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no valid JSON");
    bad("{\"\\u0000\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no valid JSON");
    bad("{\"\xc0\xaf\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no valid JSON");
    bad("{\"\\ud800\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no valid JSON");
    bad("{" A4 "," A4 "}", 4, "this tensor twice");
    bad("{" A4 ",\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "'a' occurs twice");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no valid JSON");
    bad("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "no valid JSON");
    bad("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "two members \"__metadata__\"");
    bad("{," A4 "}", 4, "no valid JSON");
    bad("{" A4 ",}", 4, "no valid JSON");
    bad("{" A4 ",  ," A4 "}", 4, "no valid JSON");
    bad("{" A4 "},{}", 4, "no valid JSON");
    bad("{" A4 "]," A4 "}", 4, "no valid JSON");
    bad("{\"x\":[" A4 "]}", 4, "no valid JSON");
    bad("{\"x,y\":{\"dtype\":\"F32\" \"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no valid JSON");
    b = st_raw("{}\0\0\0", 5, 0);
    expect_bad("NUL padding", b.p, b.n, "no valid JSON");
    b.n = 0;
    bytes_u64(&b, 100000);
    bytes_fill(&b, '{', 100000);
    expect_bad("depth", b.p, b.n, "no valid JSON");
    bytes_release(&b);
    memset(digits, '9', 400);
    digits[400] = '\0';
    bad_dim(digits, "no valid JSON");
    bad_dim("18446744073709551616", "no valid JSON");
    bad_dim("01", "no valid JSON");
    bad_dim("+1", "no valid JSON");
    bad_dim("0x1", "no valid JSON");
    bad_dim("NaN", "no valid JSON");
    bad_dim("-1", "dimension 0");
    bad_dim("-0", "the number -0");
    bad("{\"a\\\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,-0 ]}}", 0, "the number -0");
    good("{\"-0 \\\"-0\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":[-0.0,-0e1,-1]}}", 0);
    bad_dim("1.5", "dimension 0");
    bad_dim("1.0", "dimension 0");
    bad_dim("1e0", "dimension 0");
    bad_dim("true", "dimension 0");
    bad_dim("1,\"1\"", "dimension 1");
    bad_dim("1,null", "dimension 1");
    bad_dim("[1]", "dimension 0");
}

static void test_bad_entries(void **state)
{
    char header[1000];
    size_t n;
    int i;

    (void)state;
    bad("{\"a\":null}", 0, "a: its header entry is no object");
    bad("{\"a\":[]}", 0, "a: its header entry is no object");
    bad("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no \"dtype\"");
    bad("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no \"dtype\"");
    bad("{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype 'f32' is not known");
    bad("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no \"shape\"");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, "no \"shape\"");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "\"data_offsets\"");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":4}}", 4, "\"data_offsets\"");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "\"data_offsets\"");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, "\"data_offsets\"");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "\"data_offsets\"");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}}", 4, "\"data_offsets\"");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "lies at bytes 4 to 0");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,5]}}", 4, "lies at bytes 0 to 5");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551612,18446744073709551615]}}", 4,
        "no valid JSON");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
        "4 bytes, but its shape and dtype need 8");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8,
        "8 bytes, but its shape and dtype need 4");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,0]}}", 0, "0 bytes, but");
    bad("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "end inside a byte");
    bad("{\"a\":{\"dtype\":\"F6_E3M2\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "end inside a byte");
    bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "more than 2^64");
    bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}", 0, "more than 2^64");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "more than 2^61");
    bad("{\"a\":{\"dtype\":\"F4\",\"shape\":[4611686018427387905],\"data_offsets\":[0,2]}}", 2, "more than 2^61");
    n = (size_t)snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1");
    for (i = 0; i < VC_MAX_DIMS; i++) {
        n += (size_t)snprintf(header + n, sizeof header - n, ",1");
    }
    snprintf(header + n, sizeof header - n, "],\"data_offsets\":[0,4]}}");
    bad(header, 4, "65 dimensions");
    bad("{\"__metadata__\":[]}", 0, "\"__metadata__\" is no object");
    bad("{\"__metadata__\":{\"k\":1}}", 0, "'k', which is no string");
    bad("{\"__metadata__\":{\"k\":null}}", 0, "'k', which is no string");
    bad("{\"__metadata__\":{\"vcompress.json\":\"{\"}}", 0, "metadata entry 'vcompress.json'");
    bad("{\"__metadata__\":{\"vcompress.json\":\"{\\\"schema\\\":\\\"vcompress.manifest/"
        "1\\\",\\\"tensors\\\":{\\\"w\\\""
        ":{}}}\"}}",
        0, "tensor 'w' is not in the file");
}

static void test_bad_places(void **state)
{
    struct bytes b = {NULL, 0, 0};

    (void)state;
    bad("{}", 16, "has 16 bytes of data, but its tensors end at byte 0");
    bad("{" A4 "}", 5, "has 5 bytes of data");
    bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "there is a hole");
    bad("{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5,9]}}", 9, "b: starts at byte 5");
    bad("{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6, "overlaps");
    bad("{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "overlaps");
    bad("{" A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[2,2]}}", 4, "overlaps");
    bytes_u64(&b, 100000001);
    bytes_add(&b, "{\"a\":1}", 7);
    expect_bad("limit", b.p, b.n, "100000001 bytes; 100000000 are allowed");
    vc_put_le64(b.p, 8);
    expect_bad("past the end", b.p, b.n, "ends inside the safetensors header");
    vc_put_le64(b.p, 0);
    expect_bad("zero", b.p, b.n, "no valid JSON");
    bytes_release(&b);
}

#define SAMPLE                                                                  \
    "{\"__metadata__\":{\"format\":\"np\",\"a \\\"key\\\"\":\"a\\nvalue\"},"    \
    "\"w\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[0,128]},"       \
    "\"e\":{\"dtype\":\"F8_E4M3\",\"shape\":[3,2],\"data_offsets\":[128,134]}," \
    "\"f\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[134,137]},"      \
    "\"h\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[137,141]},"      \
    "\"n\":{\"dtype\":\"C64\",\"shape\":[],\"data_offsets\":[141,149]}}   "

static void test_cuts_and_flips(void **state)
{
    static const unsigned char masks[] = {0x01, 0x20, 0x80, 0xff};
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = st(SAMPLE, 149);
    size_t i;
    size_t k;

    (void)state;
    expect_good("the sample", b.p, b.n);
    for (i = 0; i < b.n; i++) {
        if (i != 0) {
            assert_int_not_equal(walk_bytes(ctx, b.p, i, NULL), VC_OK);
            assert_string_not_equal(vc_ctx_message(ctx), "");
        }
        for (k = 0; k < sizeof masks && i < b.n - 149; k++) {
            b.p[i] ^= masks[k];
            expect_calm(ctx, b.p, b.n);
            b.p[i] ^= masks[k];
        }
    }
    bytes_add(&b, "x", 1);
    expect_bad("one byte more", b.p, b.n, "150 bytes of data");
    bytes_release(&b);
    test_ctx_done(ctx);
}

/* ---- writing ---- */

/* The header of a written file as text. */
static char *header_of(const struct bytes *b)
{
    size_t n = (size_t)vc_le64(b->p);
    char *text = malloc(n + 1);

    assert_non_null(text);
    assert_int_equal((n + 8) % 64, 0);
    memcpy(text, b->p + 8, n);
    text[n] = '\0';
    return text;
}

/* Data, types that are only carried, and metadata survive. */
static void test_copy(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = st(SAMPLE, 149);
    const char *from = save("in.safetensors", &b);
    const char *to = in_folder("out.safetensors");
    struct bytes got;
    char *header;

    (void)state;
    must_run(ctx, from, to, task_copy());
    got = load(to);
    header = header_of(&got);
    assert_memory_equal(got.p + got.n - 149, b.p + b.n - 149, 149);
    assert_non_null(strstr(header, "{\"__metadata__\":{\"format\":\"np\",\"a \\\"key\\\"\":\"a\\u000avalue\"},"));
    assert_non_null(strstr(header, "\"f\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[134,137]}"));
    assert_non_null(strstr(header, "\"e\":{\"dtype\":\"F8_E4M3\",\"shape\":[3,2],\"data_offsets\":[128,134]}"));
    assert_non_null(strstr(header, "\"n\":{\"dtype\":\"C64\",\"shape\":[],\"data_offsets\":[141,149]}}"));
    assert_null(strstr(header, "vcompress.json"));
    expect_good("the copy", got.p, got.n);
    free(header);
    /* A copy of the copy is the copy. */
    must_run(ctx, to, in_folder("out2.safetensors"), task_copy());
    bytes_release(&b);
    b = load("out2.safetensors");
    assert_int_equal(b.n, got.n);
    assert_memory_equal(b.p, got.p, b.n);
    bytes_release(&b);
    bytes_release(&got);
    remove_path("out2.safetensors");
    remove_path("out.safetensors");
    remove_path("in.safetensors");
    test_ctx_done(ctx);
}

#define PLAIN                                                              \
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[4,8],\"data_offsets\":[0,128]}," \
    "\"h\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[128,132]}," \
    "\"i\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[132,140]}}"

/* int8 and back through npz gives the same file as without the way round, and the codes are known as codes. */
static void test_through_npz(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = st(PLAIN, 140);
    uint64_t in_use;
    struct vc_model *model = NULL;
    struct bytes got, want;
    char *header;

    (void)state;
    (void)save("in.safetensors", &b);
    must_run(ctx, "in.safetensors", "q.safetensors", task_int8());
    in_use = vc_pool_in_use(ctx->shared->pool); /* the kernels, which the context keeps */
    want = load("q.safetensors");
    header = header_of(&want);
    assert_non_null(strstr(header, "{\"__metadata__\":{\"format\":\"pt\",\"vcompress.json\":\"{\\u000a"));
    assert_non_null(strstr(header, "\"w.int8\":{\"dtype\":\"I8\",\"shape\":[4,8],\"data_offsets\":[0,32]},"
                                   "\"w.scale\":{\"dtype\":\"F32\",\"shape\":[4,1],\"data_offsets\":[32,48]}"));
    assert_null(strstr(header, "\\\"h\\\"")); /* bf16 needs no manifest here */
    free(header);
    assert_int_equal(vc_model_open(ctx, in_folder("q.safetensors"), NULL, &model), VC_OK);
    assert_non_null(model->tensors[vc_model_find(model, "w")].quant);
    assert_int_equal(model->tensors[vc_model_find(model, "w.scale")].part_of, vc_model_find(model, "w"));
    vc_model_close(model);
    must_run(ctx, "in.safetensors", "x.npz", task_copy());
    assert_int_equal(vc_model_open(ctx, in_folder("x.npz"), NULL, &model), VC_OK);
    assert_string_equal(vc_model_facts(model)->format, "npz");
    assert_int_equal(model->tensors[1].dtype, VC_DTYPE_BF16);
    vc_model_close(model);
    must_run(ctx, "x.npz", "q2.safetensors", task_int8());
    got = load("q2.safetensors");
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.p, want.p, got.n);
    bytes_release(&got);
    bytes_release(&want);
    bytes_release(&b);
    remove_path("q2.safetensors");
    remove_path("q.safetensors");
    remove_path("in.safetensors");
    remove_path("x.npz");
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
    vc_ctx_free(ctx);
}

/* An npy becomes any of the three; other names keep the format. */
static void test_extensions(void **state)
{
    static const char *const names[][2] = {{"o.npy", "npy"}, {"o.npz", "npz"},   {"o.safetensors", "safetensors"},
                                           {"o.dat", "npy"}, {"o.bin", "torch"}, {"safetensors", "npy"}};
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = npy_matrix(3, 4);
    struct vc_model *model = NULL;
    size_t i;

    (void)state;
    (void)save("in.npy", &b);
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        must_run(ctx, "in.npy", names[i][0], task_copy());
        assert_int_equal(vc_model_open(ctx, in_folder(names[i][0]), NULL, &model), VC_OK);
        assert_string_equal(vc_model_facts(model)->format, names[i][1]);
        assert_string_equal(vc_model_tensor(model, 0)->name, "arr_0");
        vc_model_close(model);
    }
    must_run(ctx, "o.safetensors", "o.npy", task_copy());
    bytes_release(&b);
    b = load("o.npy");
    assert_memory_equal(b.p, "\x93NUMPY", 6);
    bytes_release(&b);
    remove_path("in.npy");
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        remove_path(names[i][0]);
    }
    test_ctx_done(ctx);
}

static void refuse_member(struct vc_ctx *ctx, const char *name, struct bytes member, const char *needle)
{
    struct zip_builder z;

    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.npy", npy_matrix(3, 4), NULL);
    zip_add_bytes(&z, name, member, NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save("in.npz", &z.out);
    must_refuse(ctx, "in.npz", "o.safetensors", task_copy(), needle);
    remove_path("in.npz");
    zip_release(&z);
}

static void test_refusals(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task deflated = task_copy();
    struct bytes text = {NULL, 0, 0};
    struct bytes b = st(SAMPLE, 149);

    (void)state;
    deflated.write.deflate = VC_DEFLATE_ZLIB;
    bytes_add(&text, "text", 4);
    refuse_member(ctx, "notes.txt", text, "notes.txt: safetensors cannot hold elements of type raw");
    refuse_member(ctx, "v.npy", npy_array("|V2", false, "(2,)", "1234", 4), "v: safetensors cannot hold");
    refuse_member(ctx, "c.npy", npy_array("<c16", false, "()", "0123456789abcdef", 16), "c: safetensors cannot hold");
    refuse_member(ctx, "__metadata__.npy", npy_matrix(1, 1), "__metadata__: safetensors keeps this name");
    (void)save("in.safetensors", &b);
    must_refuse(ctx, "in.safetensors", "o.safetensors", deflated, "never compressed");
    must_refuse(ctx, "in.safetensors", "o.npz", task_copy(), "e: npz cannot hold");
    must_refuse(ctx, "in.safetensors", "o.npy", task_copy(), "cannot hold");
    bytes_release(&b);
    b = st("{\"\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    (void)save("in.safetensors", &b);
    must_refuse(ctx, "in.safetensors", "o.npz", task_copy(), "empty name");
    bytes_release(&b);
    b = st("{\"a\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
           4);
    (void)save("in.safetensors", &b);
    must_refuse(ctx, "in.safetensors", "o.npy", task_copy(), "exactly one array");
    bytes_release(&b);
    remove_path("in.safetensors");
    test_ctx_done(ctx);
}

/* The n-th allocation fails, for every n, in reading and writing. */
static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = st(PLAIN, 140);

    (void)state;
    (void)save("in.safetensors", &b);
    fail_each_allocation(ctx, "in.safetensors", "q.safetensors", task_int8(), 20);
    bytes_release(&b);
    remove_path("q.safetensors");
    remove_path("in.safetensors");
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),        cmocka_unit_test(test_tensors),     cmocka_unit_test(test_bad_json),
        cmocka_unit_test(test_bad_entries), cmocka_unit_test(test_bad_places),  cmocka_unit_test(test_cuts_and_flips),
        cmocka_unit_test(test_copy),        cmocka_unit_test(test_through_npz), cmocka_unit_test(test_extensions),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_allocations), cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
