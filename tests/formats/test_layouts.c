/* test_layouts.c - int8 as compressed-tensors and bitsandbytes have it: files written and read back, carried through
 * other formats, left alone where something is missing, refused where it contradicts. */
#include "formats_test.h"

#include <stdlib.h>

#include "core/base/checked.h"
#include "kernels/arith.h"
#include "tasks.h"

/* ---- files ---- */

static struct bytes st(const char *header, size_t n)
{
    struct bytes b = {NULL, 0, 0};
    size_t i;

    bytes_u64(&b, strlen(header));
    bytes_add(&b, header, strlen(header));
    for (i = 0; i < n; i++) {
        bytes_fill(&b, (int)(i & 0x3f), 1);
    }
    return b;
}

static struct task with_layout(struct task task, const char *layout)
{
    task.write.layout = layout;
    return task;
}

static struct task int8_as(const char *layout)
{
    return with_layout(task_int8(), layout);
}

static const struct vc_tensor *tensor(const struct vc_model *model, const char *name)
{
    const struct vc_tensor *t = vc_model_tensor(model, vc_model_find(model, name));

    if (t == NULL) {
        fail_msg("no tensor %s", name);
    }
    return t;
}

static void has_text(const char *name, const char *text)
{
    struct bytes b = load(name);
    size_t n = (size_t)vc_le64(b.p);

    bytes_fill(&b, 0, 1);
    b.p[8 + n] = '\0';
    if (strstr((const char *)b.p + 8, text) == NULL) {
        fail_msg("the header has no %s:\n%s", text, (const char *)b.p + 8);
    }
    bytes_release(&b);
}

/* Two linear layers with rows of 8 and 7, an embedding, a head, a norm, something of three dimensions. */
#define MODEL(type, size)                                                                                              \
    "{\"a.weight\":{\"dtype\":\"" type "\",\"shape\":[6,8],\"data_offsets\":[0," size(                                 \
        48) "]},"                                                                                                      \
            "\"b.c.weight\":{\"dtype\":\"" type "\",\"shape\":[5,7],\"data_offsets\":[" size(48) "," size(             \
                83) "]},"                                                                                              \
                    "\"lm_head.weight\":{\"dtype\":\"" type "\",\"shape\":[2,8],\"data_offsets\":[" size(83) "," size( \
                        99) "]},"                                                                                      \
                            "\"embed.weight\":{\"dtype\":\"" type                                                      \
                            "\",\"shape\":[2,8],\"data_offsets\":[" size(99) "," size(                                 \
                                115) "]},"                                                                             \
                                     "\"norm.weight\":{\"dtype\":\"" type                                              \
                                     "\",\"shape\":[8],\"data_offsets\":[" size(115) "," size(                         \
                                         123) "]},"                                                                    \
                                              "\"e.weight\":{\"dtype\":\"" type                                        \
                                              "\",\"shape\":[1,1,8],\"data_offsets\":[" size(123) "," size(131) "]}}"
#define N_VALUES 131
#define TWO(n)   TWO_##n
#define TWO_48   "96"
#define TWO_83   "166"
#define TWO_99   "198"
#define TWO_115  "230"
#define TWO_123  "246"
#define TWO_131  "262"
#define FOUR(n)  FOUR_##n
#define FOUR_48  "192"
#define FOUR_83  "332"
#define FOUR_99  "396"
#define FOUR_115 "460"
#define FOUR_123 "492"
#define FOUR_131 "524"

static float value_of(size_t i)
{
    return (float)((int)(i * 2654435761u % 2001) - 1000) / 1024.0f;
}

/* The values as that type; row 1 of a.weight is zeros. */
static void save_model(const char *name, enum vc_dtype dtype)
{
    size_t size = vc_dtype_size(dtype);
    struct bytes b = st(dtype == VC_DTYPE_F32   ? MODEL("F32", FOUR)
                        : dtype == VC_DTYPE_F16 ? MODEL("F16", TWO)
                                                : MODEL("BF16", TWO),
                        N_VALUES * size);
    unsigned char *p = b.p + b.n - N_VALUES * size;
    size_t i;

    for (i = 0; i < N_VALUES; i++) {
        float x = i >= 8 && i < 16 ? 0.0f : value_of(i);

        if (dtype == VC_DTYPE_F32) {
            vc_put_le32(p + 4 * i, vc_f32_bits(x));
        } else {
            vc_put_le16(p + 2 * i, dtype == VC_DTYPE_F16 ? vc_f32_to_f16(x) : vc_f32_to_bf16(x));
        }
    }
    (void)save(name, &b);
    bytes_release(&b);
}

static void remove_all(void)
{
    static const char *const names[] = {"in.safetensors",    "q.safetensors", "copy.safetensors", "back.safetensors",
                                        "again.safetensors", "x.npz",         "config.json"};
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        remove_path(names[i]);
    }
}

/* Every range of the codes is that of the whole. */
static void check_ranges(struct vc_ctx *ctx, const struct vc_model *model, const char *name)
{
    const struct vc_tensor *t = tensor(model, name);
    size_t index = vc_model_find(model, name);
    size_t n = (size_t)t->n_elems;
    signed char *all = malloc(n);
    signed char *part = malloc(n + 1);
    size_t from;
    size_t to;

    assert_true(all != NULL && part != NULL);
    assert_int_equal(vc_model_read(ctx, model, index, 0, n, all, n), VC_OK);
    for (from = 0; from < n; from++) {
        for (to = from + 1; to <= n; to++) {
            part[to - from] = 77;
            assert_int_equal(vc_model_read(ctx, model, index, from, to - from, part, to - from), VC_OK);
            assert_memory_equal(part, all + from, to - from);
            assert_int_equal(part[to - from], 77);
        }
    }
    free(all);
    free(part);
}

/* Codes and scales are the definition's, the scale rounded before the codes are made. */
static void check_codes(struct vc_ctx *ctx, const struct vc_model *model, const char *name, enum vc_dtype dtype,
                        size_t first)
{
    const struct vc_tensor *t = tensor(model, name);
    size_t row = (size_t)t->shape[1];
    size_t r;
    size_t c;

    assert_non_null(t->quant);
    for (r = 0; r < t->shape[0]; r++) {
        signed char codes[16];
        unsigned char raw[4] = {0};
        uint32_t absmax = 0;
        float s;

        for (c = 0; c < row; c++) {
            size_t i = first + r * row + c;
            float x = i >= 8 && i < 16 ? 0.0f : value_of(i);

            x = dtype == VC_DTYPE_F16 ? vc_f16_to_f32(vc_f32_to_f16(x)) : x;
            x = dtype == VC_DTYPE_BF16 ? vc_bf16_to_f32(vc_f32_to_bf16(x)) : x;
            absmax = vc_f32_magnitude(x) > absmax ? vc_f32_magnitude(x) : absmax;
        }
        s = vc_int8_scale(absmax);
        s = dtype == VC_DTYPE_F16 && vc_quant_find(t->quant, VC_PART_ABSMAX) == VC_NO_TENSOR
                ? vc_f16_to_f32(vc_f32_to_f16(s))
                : s;
        s = dtype == VC_DTYPE_BF16 && vc_quant_find(t->quant, VC_PART_ABSMAX) == VC_NO_TENSOR
                ? vc_bf16_to_f32(vc_f32_to_bf16(s))
                : s;
        assert_int_equal(vc_model_read(ctx, model, vc_quant_scale(t->quant), r, 1, raw, sizeof raw), VC_OK);
        if (vc_quant_find(t->quant, VC_PART_ABSMAX) != VC_NO_TENSOR) {
            assert_int_equal(vc_le32(raw), absmax);
        } else if (dtype == VC_DTYPE_F32) {
            assert_int_equal(vc_le32(raw), vc_f32_bits(s));
        } else {
            assert_int_equal(vc_le16(raw), dtype == VC_DTYPE_F16 ? vc_f32_to_f16(s) : vc_f32_to_bf16(s));
        }
        assert_int_equal(vc_model_read(ctx, model, vc_model_find(model, name), r * row, row, codes, row), VC_OK);
        for (c = 0; c < row; c++) {
            size_t i = first + r * row + c;
            float x = i >= 8 && i < 16 ? 0.0f : value_of(i);

            x = dtype == VC_DTYPE_F16 ? vc_f16_to_f32(vc_f32_to_f16(x)) : x;
            x = dtype == VC_DTYPE_BF16 ? vc_bf16_to_f32(vc_f32_to_bf16(x)) : x;
            assert_int_equal(codes[c], vc_int8_encode(x, s));
        }
    }
}

static void test_compressed_tensors(void **state)
{
    static const enum vc_dtype dtypes[] = {VC_DTYPE_F32, VC_DTYPE_F16, VC_DTYPE_BF16};
    static const char *const scales[] = {"\"a.weight_scale\":{\"dtype\":\"F32\",\"shape\":[6,1],",
                                         "\"a.weight_scale\":{\"dtype\":\"F16\",\"shape\":[6,1],",
                                         "\"a.weight_scale\":{\"dtype\":\"BF16\",\"shape\":[6,1],"};
    struct vc_ctx *ctx = test_ctx();
    size_t i;

    (void)state;
    for (i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        struct vc_model *model;
        const struct vc_tensor *t;
        uint64_t stated[2];

        save_model("in.safetensors", dtypes[i]);
        must_run(ctx, "in.safetensors", "q.safetensors", int8_as("compressed-tensors"));
        has_text("q.safetensors", "{\"format\":\"pt\"}");
        has_text("q.safetensors", "\"a.weight_packed\":{\"dtype\":\"I32\",\"shape\":[6,2],");
        has_text("q.safetensors", "\"b.c.weight_packed\":{\"dtype\":\"I32\",\"shape\":[5,2],");
        has_text("q.safetensors", "\"b.c.weight_shape\":{\"dtype\":\"I64\",\"shape\":[2],");
        has_text("q.safetensors", scales[i]);
        model = must_open(ctx, "q.safetensors");
        t = tensor(model, "a.weight");
        assert_int_equal(t->dtype, VC_DTYPE_I8);
        assert_int_equal(t->quant->granularity, VC_GRANULARITY_CHANNEL);
        assert_int_equal(t->quant->source_dtype, dtypes[i]);
        assert_int_equal(tensor(model, "b.c.weight")->shape[1], 7);
        assert_int_equal(tensor(model, "b.c.weight_shape")->part_of, vc_model_find(model, "b.c.weight"));
        assert_int_equal(vc_model_read(ctx, model, vc_model_find(model, "b.c.weight_shape"), 0, 2, stated, 16), VC_OK);
        assert_int_equal(vc_le64((unsigned char *)stated), 5);
        assert_int_equal(vc_le64((unsigned char *)(stated + 1)), 7);
        assert_null(tensor(model, "lm_head.weight")->quant);
        assert_null(tensor(model, "embed.weight")->quant);
        assert_null(tensor(model, "e.weight")->quant);
        check_codes(ctx, model, "a.weight", dtypes[i], 0);
        check_codes(ctx, model, "b.c.weight", dtypes[i], 48);
        check_ranges(ctx, model, "a.weight");
        check_ranges(ctx, model, "b.c.weight");
        vc_model_close(model);

        must_run(ctx, "q.safetensors", "copy.safetensors", task_copy());
        expect_same("q.safetensors", "copy.safetensors");
        must_run(ctx, "q.safetensors", "x.npz", task_copy());
        must_run(ctx, "x.npz", "copy.safetensors", with_layout(task_copy(), "compressed-tensors"));
        expect_same("q.safetensors", "copy.safetensors");
        must_run(ctx, "q.safetensors", "back.safetensors", task_back());
        must_run(ctx, "x.npz", "again.safetensors", task_back());
        expect_same("back.safetensors", "again.safetensors");
        model = must_open(ctx, "back.safetensors");
        assert_int_equal(vc_model_facts(model)->n_tensors, 6);
        assert_int_equal(tensor(model, "b.c.weight")->dtype, VC_DTYPE_F32);
        vc_model_close(model);
    }
    remove_all();
    vc_ctx_free(ctx);
}

static void test_groups(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task job = int8_as("compressed-tensors");
    struct vc_model *model;

    (void)state;
    job.quantize.granularity = VC_GRANULARITY_GROUP;
    job.quantize.group_size = 4;
    save_model("in.safetensors", VC_DTYPE_BF16);
    must_run(ctx, "in.safetensors", "q.safetensors", job);
    has_text("q.safetensors", "\"a.weight_scale\":{\"dtype\":\"BF16\",\"shape\":[6,2],");
    has_text("q.safetensors", "\"b.c.weight\":{\"dtype\":\"BF16\""); /* 7 is no multiple of 4 */
    model = must_open(ctx, "q.safetensors");
    assert_int_equal(tensor(model, "a.weight")->quant->granularity, VC_GRANULARITY_GROUP);
    assert_int_equal(tensor(model, "a.weight")->quant->group_size, 4);
    vc_model_close(model);
    remove_all();
    vc_ctx_free(ctx);
}

static void test_bitsandbytes(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;

    (void)state;
    save_model("in.safetensors", VC_DTYPE_F16);
    must_run(ctx, "in.safetensors", "q.safetensors", int8_as("bitsandbytes"));
    has_text("q.safetensors", "\"a.weight\":{\"dtype\":\"I8\",\"shape\":[6,8],");
    has_text("q.safetensors", "\"b.c.SCB\":{\"dtype\":\"F32\",\"shape\":[5],");
    has_text("q.safetensors", "\"b.c.weight_format\":{\"dtype\":\"U8\",\"shape\":[],");
    model = must_open(ctx, "q.safetensors");
    assert_true(vc_quant_find(tensor(model, "a.weight")->quant, VC_PART_ABSMAX) != VC_NO_TENSOR);
    assert_int_equal(tensor(model, "a.weight_format")->part_of, vc_model_find(model, "a.weight"));
    check_codes(ctx, model, "a.weight", VC_DTYPE_F16, 0);
    check_codes(ctx, model, "b.c.weight", VC_DTYPE_F16, 48);
    vc_model_close(model);
    must_run(ctx, "q.safetensors", "copy.safetensors", task_copy());
    expect_same("q.safetensors", "copy.safetensors");
    must_run(ctx, "q.safetensors", "x.npz", task_copy());
    must_run(ctx, "x.npz", "copy.safetensors", with_layout(task_copy(), "bitsandbytes"));
    expect_same("q.safetensors", "copy.safetensors");
    must_run(ctx, "q.safetensors", "back.safetensors", task_back());
    must_run(ctx, "x.npz", "again.safetensors", task_back());
    expect_same("back.safetensors", "again.safetensors");
    remove_all();
    vc_ctx_free(ctx);
}

/* Another layout than that of the source only by quantizing again. */
static void test_refusals(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task job = int8_as("compressed-tensors");

    (void)state;
    save_model("in.safetensors", VC_DTYPE_F32);
    must_refuse(ctx, "in.safetensors", "x.npz", job, "npz output cannot have the layout 'compressed-tensors'");
    job = int8_as("w8a8");
    job.quantize.asymmetric = true;
    must_refuse(ctx, "in.safetensors", "q.safetensors", job, "the layout w8a8 takes no zero points");
    job = int8_as("compressed-tensors");
    job.quantize.axis = 1;
    must_refuse(ctx, "in.safetensors", "q.safetensors", job, "axis 0 only");
    job = int8_as("compressed-tensors");
    job.quantize.granularity = VC_GRANULARITY_TENSOR;
    must_refuse(ctx, "in.safetensors", "q.safetensors", job, "not per tensor");
    job = int8_as("bitsandbytes");
    job.quantize.granularity = VC_GRANULARITY_GROUP;
    job.quantize.group_size = 4;
    must_refuse(ctx, "in.safetensors", "q.safetensors", job, "no groups");
    job.write.layout = "gguf";
    must_refuse(ctx, "in.safetensors", "q.safetensors", job, "safetensors has no such layout");

    job = int8_as("plain");
    job.quantize.asymmetric = true;
    must_run(ctx, "in.safetensors", "x.npz", job);
    must_refuse(ctx, "x.npz", "q.safetensors", with_layout(task_copy(), "w8a8"),
                "cannot hold; vcompress run pass dequantize pass \"quantize target=int8\" layout w8a8 goes through");
    must_run(ctx, "in.safetensors", "q.safetensors", int8_as("compressed-tensors"));
    job = int8_as(NULL);
    job.quantize.requantize = true;
    must_run(ctx, "q.safetensors", "again.safetensors", job); /* the source's layout */
    has_text("again.safetensors", "\"a.weight_packed\"");
    job.write.layout = "plain";
    must_run(ctx, "q.safetensors", "again.safetensors", job);
    has_text("again.safetensors", "\"a.weight.scale\"");
    remove_all();
    vc_ctx_free(ctx);
}

/* ---- what belongs together, and what does not ---- */

#define ENTRY(name, type, shape, from, to) \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

/* One row of 8 codes in two words, one f32 scale; the values of the shape are `stated`. */
static struct bytes packed_file(const char *header, uint64_t rows, uint64_t row)
{
    struct bytes b = st(header, 64);
    unsigned char *p = b.p + b.n - 64;

    vc_put_le64(p, rows); /* the shape comes first */
    vc_put_le64(p + 8, row);
    b.n = (size_t)(p - b.p);
    while (strstr(header, "\"end\"") != NULL && b.n < (size_t)(p - b.p) + 64) {
        b.n++;
    }
    return b;
}

#define SHAPE ENTRY("m.weight_shape", "I64", "2", "0", "16")
#define END   ENTRY("end", "U8", "36", "28", "64")
#define SCALE ENTRY("m.weight_scale", "F32", "1,1", "24", "28")
#define CODES ENTRY("m.weight_packed", "I32", "1,2", "16", "24")

static void expect_kind(const char *header, uint64_t rows, uint64_t row, bool quantized)
{
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = packed_file(header, rows, row);
    struct vc_model *model;

    (void)save("in.safetensors", &b);
    expect_good(header, b.p, b.n);
    model = must_open(ctx, "in.safetensors");
    if ((vc_model_find(model, "m.weight") != VC_NO_TENSOR && tensor(model, "m.weight")->quant != NULL) != quantized) {
        fail_msg("%s [%d, %d]: %s", header, (int)rows, (int)row, quantized ? "stays plain" : "does not stay plain");
    }
    vc_model_close(model);
    bytes_release(&b);
    test_ctx_done(ctx);
}

static void expect_damage(const char *header, uint64_t rows, uint64_t row, const char *needle)
{
    struct bytes b = packed_file(header, rows, row);

    expect_bad(header, b.p, b.n, needle);
    bytes_release(&b);
}

static void test_parts(void **state)
{
    (void)state;
    expect_kind("{" SHAPE "," CODES "," SCALE "," END "}", 1, 8, true);
    expect_kind("{" SHAPE "," CODES "," SCALE "," END "}", 1, 5, true);
    expect_kind("{" SHAPE "," CODES "," ENTRY("m.weight_scale", "F32", "1", "24", "28") "," END "}", 1, 8, true);
    expect_kind("{" SHAPE "," CODES "," ENTRY("m.weight_scale", "F32", "", "24", "28") "," END "}", 1, 8, true);
    expect_kind("{" SHAPE "," CODES "," ENTRY("m.weight_scale", "F16", "1,2", "24", "28") "," END "}", 1, 8, true);
    /* 3 or 4 bits, 2 bits, 1 bit */
    expect_kind("{" SHAPE "," CODES "," SCALE "," END "}", 1, 16, false);
    expect_kind("{" SHAPE "," CODES "," SCALE "," END "}", 1, 32, true);
    expect_kind("{" SHAPE "," CODES "," SCALE "," END "}", 1, 64, false);
    /* one word of 4 or of 8 bits: nothing tells */
    expect_kind("{" SHAPE "," ENTRY("m.weight_packed", "I32", "2,1", "16", "24") "," SCALE "," END "}", 2, 4, false);
    /* something missing, or of another type */
    expect_kind("{" SHAPE "," CODES "," ENTRY("s", "F32", "1", "24", "28") "," END "}", 1, 8, false);
    expect_kind("{" SHAPE "," CODES "," ENTRY("m.weight_scale", "I32", "1,1", "24", "28") "," END "}", 1, 8, false);
    expect_kind("{" ENTRY("m.shape", "I64", "2", "0", "16") "," CODES "," SCALE "," END "}", 1, 8, false);
    expect_kind("{" ENTRY("m.weight_shape", "I32", "4", "0", "16") "," CODES "," SCALE "," END "}", 1, 8, false);
    expect_kind("{" SHAPE "," ENTRY("m.weight_packed", "U8", "1,8", "16", "24") "," SCALE "," END "}", 1, 8, false);
    expect_kind("{" SHAPE "," ENTRY("m.weight_packed", "I32", "2", "16", "24") "," SCALE "," END "}", 1, 8, false);
    expect_kind("{" SHAPE "," ENTRY("mweight_packed", "I32", "1,2", "16", "24") "," SCALE "," END "}", 1, 8, false);
    expect_kind("{" SHAPE "," CODES "," SCALE
                "," ENTRY("m.weight_zero_point", "I32", "9", "28",
                          "64") ",\"end\":{"
                                "\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[64,64]}}",
                1, 8, false);
    /* groups that do not divide the rows */
    expect_kind("{" SHAPE "," CODES
                "," ENTRY("m.weight_scale", "F32", "1,3", "24", "36") "," ENTRY("end", "U8", "28", "36", "64") "}",
                1, 8, false);
    /* contradictions */
    expect_damage("{" SHAPE "," CODES "," SCALE "," END "}", 2, 8, "does not fit [2, 8]");
    expect_damage("{" SHAPE "," CODES "," SCALE "," END "}", 1, 65, "does not fit [1, 65]");
    expect_damage("{" SHAPE "," CODES "," SCALE "," END "}", 1, (uint64_t)-8, "does not fit [1, -8]");
    expect_damage("{" SHAPE "," CODES "," SCALE "," END "}", (uint64_t)1 << 62, 8, "does not fit");
    expect_damage("{" SHAPE "," CODES
                  "," ENTRY("m.weight_scale", "F32", "2,1", "24", "32") "," ENTRY("end", "U8", "32", "32", "64") "}",
                  1, 8, "its scales 'm.weight_scale' fit neither");
    expect_damage("{" SHAPE "," CODES "," SCALE "," ENTRY(
                      "m.weight", "F32", "9", "28", "64") ",\"end\":{"
                                                          "\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[64,64]}}",
                  1, 8, "has a 'm.weight', too");
    remove_path("in.safetensors");
}

#define I8_CODES ENTRY("m.weight", "I8", "2,4", "16", "24")

static void test_parts_of_i8(void **state)
{
    (void)state;
    /* (SHAPE is nothing here but 16 bytes) */
    expect_kind("{" SHAPE "," I8_CODES
                "," ENTRY("m.SCB", "F32", "2", "24", "32") "," ENTRY("end", "U8", "32", "32", "64") "}",
                1, 8, true);
    expect_kind("{" SHAPE "," I8_CODES "," ENTRY("m.SCB", "F16", "2", "24", "28") "," END "}", 1, 8, false);
    expect_kind("{" SHAPE "," I8_CODES "," ENTRY("m.weight_scale", "F16", "2,1", "24", "28") "," END "}", 1, 8, true);
    expect_kind("{" SHAPE "," I8_CODES "," ENTRY("m.weight_scale", "F32", "1", "24", "28") "," END "}", 1, 8, true);
    expect_kind("{" SHAPE "," I8_CODES "," ENTRY("m.weight_scale", "F16", "1,2", "24", "28") "," END "}", 1, 8, false);
    expect_kind("{" SHAPE "," I8_CODES "," ENTRY("m.weight_scale", "F16", "2,1", "24", "28") "," ENTRY(
                    "m.weight_zero_point", "I8", "2,1", "28", "30") "," ENTRY("end", "U8", "34", "30", "64") "}",
                1, 8, true);
    expect_kind("{" SHAPE "," I8_CODES "," ENTRY("m.weight_scale", "F16", "2,1", "24", "28") "," ENTRY(
                    "m.weight_zero_point", "I8", "2", "28", "30") "," ENTRY("end", "U8", "34", "30", "64") "}",
                1, 8, false);
    expect_kind("{" SHAPE "," ENTRY("m.weight", "I8", "8", "16", "24") "," ENTRY("m.weight_scale", "F32", "1", "24",
                                                                                 "28") "," END "}",
                1, 8, false);
    /* the byte 0x1e is an order of the codes that is not known */
    expect_kind("{" SHAPE "," I8_CODES "," ENTRY("m.SCB", "F32", "2", "24", "32") "," ENTRY(
                    "m.weight_format", "U8", "", "32", "33") "," ENTRY("end", "U8", "31", "33", "64") "}",
                1, 8, false);
    expect_damage("{" SHAPE "," I8_CODES "," ENTRY("m.SCB", "F32", "1", "24", "28") "," END "}", 1, 8,
                  "has 2 rows, but 'm.SCB' has 1 numbers");
    remove_path("in.safetensors");
}

static void test_cuts_and_flips(void **state)
{
    static const unsigned char masks[] = {0x01, 0x20, 0x80, 0xff};
    struct vc_ctx *ctx = test_ctx();
    struct bytes b = packed_file("{" SHAPE "," CODES "," SCALE "," END "}", 1, 8);
    size_t i;
    size_t k;

    (void)state;
    for (i = 0; i < b.n; i++) {
        if (i != 0) {
            assert_int_not_equal(walk_bytes(ctx, b.p, i, NULL), VC_OK);
        }
        for (k = 0; k < sizeof masks; k++) {
            b.p[i] ^= masks[k];
            expect_calm(ctx, b.p, b.n);
            b.p[i] ^= masks[k];
        }
    }
    bytes_release(&b);
    test_ctx_done(ctx);
}

/* A job that is planned for one layout and then for another: what a layout decides ends with its plan. */
static void test_planned_again(void **state)
{
    static const struct {
        const char *layout, *scheme;
    } plans[] = {{"comfyui", "fp8/tensor"}, {"plain", "fp8/channel"}, {"comfyui", "fp8/tensor"}};
    struct vc_quantize_options q = support_quantize();
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;

    (void)state;
    save_model("in.safetensors", VC_DTYPE_F32);
    q.target = VC_TARGET_FP8;
    assert_int_equal(vc_model_open(ctx, in_folder("in.safetensors"), NULL, &model), VC_OK);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &q), VC_OK);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        struct vc_write_options write;

        vc_write_defaults(&write);
        write.layout = plans[i].layout;
        assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
        assert_string_equal(vc_job_report(job)->rows[0].scheme, plans[i].scheme);
    }
    vc_job_free(job);
    vc_model_close(model);
    remove_all();
    vc_ctx_free(ctx);
}

/* The n-th allocation fails, for every n, there and back. */
static void test_allocations(void **state)
{
    static const char *const layouts[] = {"compressed-tensors", "bitsandbytes"};
    struct vc_ctx *ctx = test_ctx();
    size_t i;

    (void)state;
    save_model("in.safetensors", VC_DTYPE_BF16);
    for (i = 0; i < 4; i++) {
        const char *from = i < 2 ? "in.safetensors" : "copy.safetensors";
        struct task job = i < 2 ? int8_as(layouts[i]) : task_back();

        must_run(ctx, "in.safetensors", "copy.safetensors", int8_as(layouts[i % 2]));
        fail_each_allocation(ctx, from, "q.safetensors", job, 20);
    }
    remove_all();
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compressed_tensors),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_bitsandbytes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_parts_of_i8),
        cmocka_unit_test(test_cuts_and_flips),
        cmocka_unit_test(test_planned_again),
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
