/* test_verify_config.c - verify on folders: what config.json says of quantized modules against the tensors of the
 * folder, and parts of packed weights that contradict each other. Judge: the list of findings, written by hand for each
 * folder. */
#include "verify_support.h"

#include <unistd.h>

#include "core/base/checked.h"
#include "kernels/kernels.h"
#include "torch_files.h"

#define PACKED_HEADER                                  \
    ENTRY("a.q.weight_packed", "I32", "[4,8]", 0, 128) \
    "," ENTRY("a.q.weight_scale", "F32", "[4,2]", 128, 160) "," ENTRY("a.q.weight_shape", "I64", "[2]", 160, 176)

/* a.q: packed codes of shape [4, n], with two scales a row. a.p: plain. */
static struct bytes model_file(uint64_t n_rows, uint64_t n, const char *more)
{
    char header[2000];
    struct bytes b;
    int i;

    (void)snprintf(header, sizeof header,
                   "{" PACKED_HEADER "," ENTRY("a.p.weight", "F32", "[2,2]", 176,
                                               192) "," ENTRY("m.embed_tokens.weight", "F32", "[2,2]", 192, 208) "%s}",
                   more);
    b = st_zeros(header, 128);
    for (i = 0; i < 8; i++) {
        bytes_u32(&b, 0x3f800000); /* 1 */
    }
    bytes_u64(&b, n_rows);
    bytes_u64(&b, n);
    bytes_fill(&b, 0, 32);
    bytes_fill(&b, 1, more[0] == '\0' ? 0 : 16);
    return b;
}

static void save_config(const char *text)
{
    (void)save_text("config.json", text);
}

#define CONFIG(targets, weights, ignore)                                                                 \
    "{\"x\":1,\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"quantization_status\":" \
    "\"compressed\",\"config_groups\":{\"g\":{\"targets\":[" targets "],\"weights\":{" weights           \
    "}}},\"ignore\":[" ignore "]}}"
#define INT8 "\"num_bits\":8,\"symmetric\":true,\"group_size\":16"

struct config_case {
    const char *config, *wanted;
};

static const struct config_case cases[] = {
    {CONFIG("\"Linear\"", INT8, "\"a.p\""), ""},
    {CONFIG("\"re:.*q$\"", INT8, ""), ""},
    {CONFIG("\"a.q\"", INT8, ""), ""},
    /* said to be quantized and plain: sure by its name, likely by its class */
    {CONFIG("\"Linear\"", INT8, ""), "warning config a.p.weight"},
    {CONFIG("\"a.q\",\"a.p\"", INT8, ""), "error config a.p.weight"},
    {CONFIG("\"re:^a\\\\..*\"", INT8, ""), "error config a.p.weight"},
    /* quantized and not said to be */
    {CONFIG("\"Linear\"", INT8, "\"a.q\",\"a.p\""), "error config a.q.weight"},
    {CONFIG("\"Linear\"", INT8, "\"re:a.*\""), "error config a.q.weight"},
    {CONFIG("\"b.q\"", INT8, ""), "error config a.q.weight|warning config config.json"},
    {CONFIG("\"re:a$\"", INT8, ""), "error config a.q.weight"},
    {"{\"architectures\":[]}", "error config config.json"},
    {"{\"x\":1}", ""}, /* no model's */
    {"{\"quantization_config\":null}", "error config config.json"},
    /* patterns that are more than literal text are not decided */
    {CONFIG("\"re:b[.]q\"", INT8, ""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:a\\\\.(p|x)\""), ""},
    {CONFIG("\"Conv2d\"", INT8, ""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:a.+\""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:a*p\""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:a\\\\d\""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:(.*\\\\.)?[p]$\""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:a$b\""), ""},
    /* those that are decided: a point for any character, dots with a backslash, parts of a name or none */
    {CONFIG("\"Linear\"", INT8, "\"re:a.p$\""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:^a\\\\.p$\""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:a\\\\-p\""), "warning config a.p.weight"},
    {CONFIG("\"Linear\"", INT8, "\"re:(.*\\\\.)?p$\""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:(.*\\\\.)?a\\\\.p$\""), ""},
    {CONFIG("\"Linear\"", INT8, "\"re:(.*\\\\.)?q$\""), "error config a.q.weight|warning config a.p.weight"},
    {CONFIG("\"Linear\"", INT8, "\"Embedding\",\"my.Conv\""), ""},
    /* names that are no modules; heads have their weights elsewhere */
    {CONFIG("\"a.x\",\"a.q\",\"a.b\"", INT8, "\"a.p\""), "warning config config.json|warning config config.json"},
    {CONFIG("\"a.q\"", INT8, "\"z\",\"a.p\",\"a\",\"lm_head\""), "warning config config.json"},
    {CONFIG("\"Linear\"", INT8, "\"my.Conv\""), "warning config a.p.weight|warning config config.json"},
    /* other bits, groups, zero points */
    {CONFIG("\"a.q\"", "\"num_bits\":4", ""), "error parts a.q.weight_packed|error config a.q.weight_packed"},
    {CONFIG("\"a.q\"", "\"group_size\":8", ""), "error config a.q.weight"},
    {CONFIG("\"a.q\"", "\"group_size\":20", ""), "warning group a.q.weight"},
    {CONFIG("\"a.q\"", "\"symmetric\":false", ""), "error companion a.q.weight"},
    {CONFIG("\"a.q\"", "\"num_bits\":9,\"group_size\":0,\"symmetric\":null", ""),
     "error parts a.q.weight_packed|error config a.q.weight_packed"},
    /* what compressed-tensors refuses: members that it does not know, a strategy that contradicts group_size */
    {CONFIG("\"a.q\"", INT8 ",\"x\":1", ""), "error config config.json"},
    {CONFIG("\"a.q\"],\"x\":[", INT8, ""), "error config config.json"},
    {CONFIG("\"a.q\"", INT8 ",\"strategy\":\"channel\"", ""), "error config config.json"},
    {CONFIG("\"a.q\"", "\"num_bits\":8,\"strategy\":\"group\"", ""), "error config config.json"},
    {CONFIG("\"a.q\"", INT8 ",\"strategy\":\"group\"", ""), ""},
    {CONFIG("\"a.q\"],\"weights\":{}},\"h\":{\"targets\":[\"re:.*q$\"", INT8, ""), "error config a.q.weight"},
    /* nothing that can be checked */
    {"{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"dense\"}}", ""},
    {"{\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":false}}", ""},
    {"{\"quantization_config\":{\"quant_method\":1}}", ""},
    {"{\"quantization_config\":{\"quant_method\":\"gptq\"}}", ""},
    {"{\"quantization_config\":7}", ""},
    {CONFIG("7,null,\"Linear\"", "\"num_bits\":\"x\"", "{},\"a.p\""), ""},
    {"{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"quantization_status\":\"frozen\"}}", ""},
    {"{", "error config config.json"},
};

static void test_compressed(void **state)
{
    struct bytes b = model_file(4, 32, "");
    size_t i;

    (void)state;
    (void)save("model.safetensors", &b);
    expect_at(scratch_folder(), with_data(), "");
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        save_config(cases[i].config);
        expect_at(scratch_folder(), headers(), cases[i].wanted);
    }
    bytes_release(&b);

    b = model_file(4, 32,
                   "," ENTRY("a.q.weight_zero_point", "I8", "[4,2]", 208, 216) "," ENTRY("x", "I8", "[8]", 216, 224));
    (void)save("model.safetensors", &b);
    save_config(cases[0].config);
    expect_at(scratch_folder(), headers(), "error parts a.q.weight_packed|error zero-point a.q.weight_packed");
    assert_int_equal(unlink(in_folder("config.json")), 0);
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    bytes_release(&b);
}

static void test_bitsandbytes(void **state)
{
    static const char skips[] = "{\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true,"
                                "\"llm_int8_skip_modules\":[\"%s\"]}}";
    static const struct config_case named[] = {{"a.p", ""},
                                               {"a", "error config a.q.weight"},
                                               {"b", "warning config a.p.weight|warning config config.json"},
                                               {"a.", "warning config a.p.weight|warning config config.json"},
                                               {".p", ""},
                                               {"p", ""},
                                               {".lm_head", "warning config a.p.weight"},
                                               {".a.p", "warning config a.p.weight"},
                                               {".x", "warning config a.p.weight|warning config config.json"},
                                               {"^a\\\\.p$", ""},
                                               {"^a\\\\.q$", "error config a.q.weight|warning config a.p.weight"},
                                               {"^a\\\\.$", "warning config a.p.weight|warning config config.json"}};
    struct bytes b =
        st_file("{" ENTRY("a.q.weight", "I8", "[2,2]", 0, 4) "," ENTRY("a.q.SCB", "F32", "[2]", 4, 12) "," //
                ENTRY("a.p.weight", "F32", "[2,2]", 12, 28) "}",
                "\1\2\3\4\0\0\x80\x3f\0\0\x80\x3f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 28);
    static const char *const whole[][2] = {{"[7,\"a.p\"]", ""}, {"null", ""}, {"[]", "warning config a.p.weight"}};
    char text[300];
    size_t i;

    (void)state;
    (void)save("model.safetensors", &b);
    for (i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        (void)snprintf(text, sizeof text,
                       "{\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true,"
                       "\"llm_int8_skip_modules\":%s}}",
                       whole[i][0]);
        save_config(text);
        expect_at(scratch_folder(), headers(), whole[i][1]);
    }
    for (i = 0; i < sizeof named / sizeof named[0]; i++) {
        (void)snprintf(text, sizeof text, skips, named[i].config);
        save_config(text);
        expect_at(scratch_folder(), headers(), named[i].wanted);
    }
    assert_int_equal(unlink(in_folder("config.json")), 0);
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    bytes_release(&b);
}

#define SKIPS(type, parts, names)                                                                       \
    "{\"model_type\":\"" type "\"" parts ",\"quantization_config\":{\"quant_method\":\"bitsandbytes\"," \
    "\"load_in_8bit\":true,\"llm_int8_skip_modules\":[" names "]}}"
#define LISTS(type, parts, names)                                                                             \
    "{\"model_type\":\"" type "\"" parts ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\"," \
    "\"quantization_status\":\"compressed\",\"config_groups\":{},\"ignore\":[" names "]}}"

/* Lists may have the names that the loader's program has for modules. With each allocation failing, and with none. */
static void test_other_names(void **state)
{
    static const char gate[] = "warning config m.block_sparse_moe.gate.weight";
    static const struct config_case named[] = {
        {SKIPS("mixtral", "", "\"m.mlp.gate\""), gate},
        {SKIPS("llama", "", "\"m.mlp.gate\""),
         "warning config m.block_sparse_moe.gate.weight|warning config config.json"},
        {SKIPS("mixtral", "", "\"m.block_sparse_moe.gate\""), ""},
        {SKIPS("rwkv", "", "\"head\",\"lm_head\",\"m.block_sparse_moe.gate\",\"y\""), "warning config config.json"},
        {LISTS("mixtral", "", "\"m.mlp.gate\",\"m.mlp\""), ""},
        {LISTS("mixtral", "", "\"m.mlp.gates\""), "warning config config.json"},
        /* of a model that is made of others only the end of a name is sure */
        {LISTS("llava", ",\"text_config\":{\"model_type\":\"mixtral\"}", "\"language_model.m.mlp.gate\",\"gate\""), ""},
        {LISTS("llava", ",\"text_config\":{\"model_type\":\"mixtral\"}", "\"gates\""), "warning config config.json"},
    };
    struct bytes b = st_zeros("{" ENTRY("m.block_sparse_moe.gate.weight", "F32", "[2,2]", 0, 16) "}", 16);
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = VC_E_NOMEM;
    size_t i;

    (void)state;
    (void)save("model.safetensors", &b);
    for (i = 0; i < sizeof named / sizeof named[0]; i++) {
        save_config(named[i].config);
        expect_at(scratch_folder(), headers(), named[i].wanted);
    }
    save_config(named[1].config);
    for (i = 1; status != VC_OK; i++) {
        struct vc_verification *v = NULL;

        vc_pool_fail_at(ctx->shared->pool, i, 0);
        status = vc_verify(ctx, scratch_folder(), NULL, &v);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK ? v->n_warnings == 2 : status == VC_E_NOMEM);
        vc_result_free(v);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    assert_true(i > 20);
    assert_int_equal(unlink(in_folder("config.json")), 0);
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    bytes_release(&b);
    test_ctx_done(ctx);
}

#define METHOD(more) "{\"x\":1,\"quantization_config\":{" more "}}"
#define STATE        "\"quant_type\":\"nf4\",\"blocksize\":64,\"dtype\":\"float16\",\"shape\":[1,64]"

/* a.q: 64 codes of 4 bits for bitsandbytes, whose quant_state says that; `more` tensors lie behind it. */
static void expect_state(const char *state, const char *more, const char *wanted)
{
    static const float map[16] = {-1.0f,        -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f,
                                  -0.09105004f, 0.0f,        0.0795803f,   0.1609302f,  0.2461123f,   0.33791524f,
                                  0.44070983f,  0.562617f,   0.72295684f,  1.0f};
    struct bytes b;
    char header[1500];

    (void)snprintf(
        header, sizeof header,
        "{" ENTRY("a.q.weight", "U8", "[32,1]", 0, 32) "," ENTRY("a.q.weight.absmax", "F32", "[1]", 32, 36) "," ENTRY(
            "a.q.weight.quant_map", "F32", "[16]", 36,
            100) ","
                 "\"a.q.weight.quant_state.bitsandbytes__nf4\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":"
                 "[100,%zu]}%s%zu,%zu]}}",
        strlen(state), 100 + strlen(state), more, 100 + strlen(state), 101 + strlen(state));
    b = st_zeros(header, 36);
    bytes_add(&b, map, sizeof map);
    bytes_add(&b, state, strlen(state) + 1);
    (void)save("model.safetensors", &b);
    expect_at(scratch_folder(), headers(), wanted);
    bytes_release(&b);
}

/* A file of codes in words, and one word of its data that is another. */
static void expect_word(const char *header, size_t n, size_t at, uint32_t word, const char *wanted)
{
    struct bytes b = st_zeros(header, n);

    vc_put_le32(b.p + b.n - n + at, word);
    (void)save("model.safetensors", &b);
    expect_at(scratch_folder(), with_data(), wanted);
    bytes_release(&b);
}

/* What is wrong with codes that other programs wrote. */
static void test_methods(void **state)
{
    static const char one[] = ",\"b.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[";
    static const char two[] = ",\"a.q.weight.quant_state.bitsandbytes__fp4\":{\"dtype\":\"U8\",\"shape\":[1],"
                              "\"data_offsets\":[";
    static const char words[] = "{" ENTRY("a.q.qweight", "I32", "[2,8]", 0, 64) ","                     //
        ENTRY("a.q.scales", "F16", "[1,8]", 64, 80) "," ENTRY("a.q.qzeros", "I32", "[1,1]", 80, 84) "," //
        ENTRY("a.q.g_idx", "I32", "[16]", 84, 148) "}";
    static const char packed[] = "{" ENTRY("a.q.weight_packed", "I32", "[1,3]", 0, 12) "," //
        ENTRY("a.q.weight_scale", "F16", "[1,1]", 12, 14) "," ENTRY("a.q.weight_shape", "I64", "[2]", 14, 30) "}";
    struct bytes b;

    (void)state;
    save_config(METHOD("\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true"));
    expect_state("{" STATE "}", one, "");
    expect_state("{" STATE ",\"x\":1}", one, "error parts a.q.weight");
    expect_state("{\"blocksize\":32,\"dtype\":\"float16\",\"shape\":[1,64]}", one, "error parts a.q.weight");
    expect_state("{\"quant_type\":\"nf4\",\"blocksize\":64,\"dtype\":\"float16\",\"shape\":[2,32]}", one,
                 "warning parts a.q.weight");
    expect_state("{" STATE, one, "error parts a.q.weight");
    expect_state("{" STATE "}", two, "error parts a.q.weight");
    save_config(METHOD("\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1,\"sym\":true"));
    expect_word(words, 148, 80, 0x77777777, "error scale a.q.scales");
    expect_word(words, 148, 80, 0x77777767, "error zero-point a.q.weight|error scale a.q.scales");
    expect_word(words, 148, 84, 1, "error parts a.q.qweight");
    save_config(CONFIG("\"a.q\"", "\"num_bits\":4,\"group_size\":20", ""));
    b = st_file(packed, "\0\0\0\0\0\0\0\0\xff\xff\0\x80\0\x3c\1\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0", 30);
    (void)save("model.safetensors", &b);
    expect_at(scratch_folder(), headers(), "");
    expect_at(scratch_folder(), with_data(), "error tail a.q.weight");
    b.p[b.n - 30 + 11] = 0;
    (void)save("model.safetensors", &b);
    expect_at(scratch_folder(), with_data(), "");
    bytes_release(&b);
    save_config(METHOD("\"quant_method\":\"fp8\""));
    expect_word("{" ENTRY("a.q.weight", "F8_E4M3", "[2,2]", 0, 4) "}", 4, 0, 0, "error companion a.q.weight");
    assert_int_equal(unlink(in_folder("config.json")), 0);
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
}

/* More patterns, or groups, than are looked at: what they would say is not known. */
static void test_many(void **state)
{
    struct bytes b = model_file(4, 32, "");
    struct bytes config = {NULL, 0, 0};
    char one[200];
    unsigned kind;
    unsigned i;

    (void)state;
    (void)save("model.safetensors", &b);
    for (kind = 0; kind < 2; kind++) {
        config.n = 0;
        bytes_add(&config, one,
                  (size_t)snprintf(one, sizeof one,
                                   "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
                                   "\"ignore\":["));
        for (i = 0; i < 300 && kind == 0; i++) {
            bytes_add(&config, one, (size_t)snprintf(one, sizeof one, "\"re:x%u.*\",", i));
        }
        bytes_add(&config, one, (size_t)snprintf(one, sizeof one, "\"a\"],\"config_groups\":{"));
        for (i = 0; i < 70 && kind == 1; i++) {
            bytes_add(&config, one, (size_t)snprintf(one, sizeof one, "\"g%u\":{\"targets\":[\"re:y%u.*\"]},", i, i));
        }
        bytes_add(&config, one, (size_t)snprintf(one, sizeof one, "\"g\":{\"targets\":[\"Linear\"]}}}}"));
        bytes_add(&config, "", 1);
        save_config((const char *)config.p);
        expect_at(scratch_folder(), headers(), "");
    }
    assert_int_equal(unlink(in_folder("config.json")), 0);
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    bytes_release(&config);
    bytes_release(&b);
}

/* Codes of a byte each, and layers that vLLM joins. */
static void test_plain_codes(void **state)
{
    struct bytes b =
        st_zeros("{" ENTRY("l.q_proj.weight", "I8", "[2,2]", 0, 4) "," ENTRY(
                     "l.q_proj.weight_scale", "F32", "[2,1]", 4,
                     12) "," ENTRY("l.k_proj.weight", "F32", "[2,2]", 12,
                                   28) "," ENTRY("l.up_proj.weight", "F8_E4M3", "[2,2]", 28,
                                                 32) "," ENTRY("l.up_proj.weight_scale", "F32", "[2,1]", 32, 40) "}",
                 40);
    static const char joined[] = "warning joined l.q_proj.weight";

    (void)state;
    (void)save("model.safetensors", &b);
    save_config(CONFIG("\"Linear\"", "\"num_bits\":8", "\"l.k_proj\""));
    expect_at(scratch_folder(), headers(), joined);
    save_config(CONFIG("\"Linear\"", "\"num_bits\":4", "\"l.k_proj\""));
    expect_at(scratch_folder(), headers(),
              "error config l.q_proj.weight|error config l.up_proj.weight|warning joined l.q_proj.weight");
    assert_int_equal(unlink(in_folder("config.json")), 0);
    expect_at(scratch_folder(), headers(), "");
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    bytes_release(&b);
}

/* Of weights that are left plain, too: the asymmetric ones, those of fewer bits. */
static void test_parts(void **state)
{
    static const char zeros[] =
        "," ENTRY("a.q.weight_zero_point", "I8", "[4,2]", 208, 216) "," ENTRY("x", "I8", "[8]", 216, 224);
    struct bytes b = model_file(4, 32, zeros);

    (void)state;
    expect(&b, with_data(), "error parts a.q.weight_packed"); /* zero points that are not packed */
    bytes_release(&b);
    b = model_file(4, 64, zeros); /* of 4 bits */
    expect(&b, with_data(), "error parts a.q.weight_packed");
    bytes_release(&b);
    b = model_file(4, 700, zeros);
    expect(&b, with_data(), "error parts a.q.weight_packed");
    bytes_release(&b);
    b = model_file(5, 32, zeros);
    expect(&b, with_data(), "error parts a.q.weight_packed");
    bytes_release(&b);
    b = model_file(4, 1, zeros); /* fewer columns than scales */
    expect(&b, with_data(), "error parts a.q.weight_packed");
    bytes_release(&b);
    b = model_file(4, 700, "");
    expect(&b, with_data(), "error parts a.q.weight_packed");
    b.p[b.n - 16 - 32 - 32] = 0xff; /* a scale of the weight that stayed plain: 1 becomes another number */
    b.p[b.n - 16 - 32 - 32 + 3] = 0xff;
    b.p[b.n - 16 - 32 - 32 + 2] = 0xff;
    expect(&b, with_data(), "error parts a.q.weight_packed|error scale a.q.weight_scale");
    bytes_release(&b);
}

static void test_left_over(void **state)
{
    struct zip_builder z;
    struct bytes b = st_zeros("{" ENTRY("a.weight", "F32", "[2,2]", 0, 16) "," ENTRY(
                                  "a.weight_scale", "F32", "[2,1]", 16, 24) "," ENTRY("b.weight", "F16", "[2,2]", 24,
                                                                                      32) "," //
                              ENTRY("b.qweight", "I32", "[1,2]", 32, 40) "}",
                              40);

    (void)state;
    expect(&b, headers(), "error orphan a.weight_scale|error twice b.qweight");
    bytes_release(&b);
    b = st_zeros("{" ENTRY("a.weight", "I8", "[2,2]", 0, 4) "," ENTRY("a.weight.zero_point", "I8", "[2,1]", 4, 6) "}",
                 6);
    expect(&b, headers(), "error companion a.weight");
    bytes_release(&b);
    memset(&z, 0, sizeof z);
    zip_add_bytes(&z, "a.weight_packed.npy", npy_array("<i4", false, "(1, 2)", "12345678", 8), NULL);
    zip_add_bytes(&z, "a.weight_scale.npy", npy_matrix(2, 1), NULL);
    zip_add_bytes(&z, "a.weight_shape.npy", npy_matrix(1, 2), NULL);
    zip_add_bytes(&z, "a.weight.npy", npy_matrix(2, 2), NULL);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    expect(&z.out, headers(), "error twice a.weight_packed|error orphan a.weight_scale");
    zip_release(&z);
}

/* Codes of other programs go down to -128. */
static void test_wide_codes(void **state)
{
    static const char data[] = "\x80\1\2\3\0\0\x80\x3f\0\0\x80\x3f";
    struct bytes b = st_file(
        "{" ENTRY("a.weight", "I8", "[2,2]", 0, 4) "," ENTRY("a.weight_scale", "F32", "[2,1]", 4, 12) "}", data, 12);

    (void)state;
    expect(&b, with_data(), "");
    bytes_release(&b);
    b = st_file("{" ENTRY("a.weight", "I8", "[2,2]", 0, 4) "," ENTRY("a.weight.scale", "F32", "[2,1]", 4, 12) "}", data,
                12);
    expect(&b, with_data(), "error range a.weight");
    bytes_release(&b);
}

static void test_allocations(void **state)
{
    const struct vc_verify_options options = support_verify(true);
    struct bytes b = model_file(4, 32, "");
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = VC_E_NOMEM;
    uint64_t kept;
    uint64_t n;

    (void)state;
    (void)save("model.safetensors", &b);
    save_config(CONFIG("\"Linear\",\"re:.*q\"", "\"num_bits\":8,\"group_size\":8", "\"a.x\",\"re:.*y.*\""));
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    assert_non_null(vc_kernels_get(ctx));
    kept = vc_pool_in_use(ctx->shared->pool);
    for (n = 1; status != VC_OK; n++) {
        struct vc_verification *v = NULL;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_verify(ctx, scratch_folder(), &options, &v);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_true(status != VC_OK || (v->n_errors == 1 && v->n_warnings == 2));
        assert_true(status != VC_OK || (v->n_dtypes == 3 && v->dtypes[0].n_tensors == 1));
        vc_result_free(v);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), kept);
    }
    assert_true(n > 20);
    assert_int_equal(unlink(in_folder("config.json")), 0);
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    bytes_release(&b);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compressed),  cmocka_unit_test(test_bitsandbytes), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_other_names), cmocka_unit_test(test_many),         cmocka_unit_test(test_methods),
        cmocka_unit_test(test_plain_codes), cmocka_unit_test(test_left_over),    cmocka_unit_test(test_wide_codes),
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
