/* test_programs.c - what a GGUF file, a config.json and a folder say their model computes, as records
 * (core/model/program.h): keys of every kind, texts that are too long, files that are damaged or change, failing
 * allocations and reads. Of ONNX: test_onnx_program.c. */
#include "formats_test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/findings.h"
#include "core/model/program.h"
#include "folder_builder.h"
#include "formats/huggingface/hf_program.h"
#include "formats/io/infile.h"
#include "gguf_builder.h"
#include "tasks.h"

/* ---- GGUF ---- */

static const struct vc_program_key *key_of(const struct vc_program *p, const char *name)
{
    for (size_t k = 0; k < p->n_keys; k++) {
        if (strcmp(p->keys[k].key, name) == 0) {
            return &p->keys[k];
        }
    }
    fail_msg("there is no key %s", name);
    return NULL;
}

static void expect_integer(const struct vc_program *p, const char *name, int64_t value)
{
    const struct vc_program_key *key = key_of(p, name);

    assert_true(key->is_number && key->is_integer && !key->is_text);
    assert_int_equal(key->integer, value);
    assert_true(key->number == (double)value);
}

static void expect_real(const struct vc_program *p, const char *name, double value)
{
    const struct vc_program_key *key = key_of(p, name);

    assert_true(key->is_number && !key->is_integer && !key->is_text);
    assert_true(key->number == value);
}

/* An array of n items of a kind, all bytes of which are `byte`. */
static void add_array(struct gguf_builder *g, const char *name, uint32_t kind, uint64_t n, size_t item_bytes, int byte)
{
    gguf_pair(g, name, 9, NULL, 0);
    bytes_u32(&g->pairs, kind);
    bytes_u64(&g->pairs, n);
    bytes_fill(&g->pairs, byte, (size_t)n * item_bytes);
}

static void add_pairs(struct gguf_builder *g)
{
    static const char *const words[] = {"a", "", "bcd"};
    static const uint64_t dims[] = {4, 4};

    gguf_pair_string(g, "general.architecture", "llama");
    gguf_pair_string(g, "a.empty", "");
    gguf_pair(g, "a.u8", 0, "\377", 1);
    gguf_pair(g, "a.i8", 1, "\377", 1);
    gguf_pair(g, "a.u16", 2, "\377\377", 2);
    gguf_pair(g, "a.i16", 3, "\376\377", 2);
    gguf_pair(g, "a.u32", 4, "\377\377\377\377", 4);
    gguf_pair(g, "a.i32", 5, "\375\377\377\377", 4);
    gguf_pair(g, "a.f32", 6, "\0\0\200\277", 4);
    gguf_pair(g, "a.bool", 7, "\1", 1);
    gguf_pair(g, "a.u64", 10, "\1\0\0\0\1\0\0\0", 8);
    gguf_pair(g, "a.large", 10, "\0\0\0\0\0\0\0\200", 8);
    gguf_pair(g, "a.i64", 11, "\374\377\377\377\377\377\377\377", 8);
    gguf_pair(g, "a.f64", 12, "\0\0\0\0\0\0\370\77", 8);
    gguf_pair_strings(g, "a.words", words, 3);
    add_array(g, "a.i32s", 5, 2, 4, 0xff);
    add_array(g, "a.bools", 7, 3, 1, 1);
    add_array(g, "a.none", 5, 0, 4, 0);
    add_array(g, "a.floats", 6, 2, 4, 0);
    add_array(g, "a.most", 0, 1 << 14, 1, 7);
    add_array(g, "a.many", 0, (1 << 14) + 1, 1, 7);
    gguf_tensor(g, "w", 0, 2, dims, 64);
}

static void look_at_keys(const struct vc_program *p)
{
    const struct vc_program_key *key;

    assert_int_equal(p->kind, VC_PROGRAM_KEYS);
    assert_int_equal(p->n_keys, 21);
    assert_true(key_of(p, "general.architecture")->is_text);
    assert_string_equal(key_of(p, "general.architecture")->text, "llama");
    assert_string_equal(key_of(p, "a.empty")->text, "");
    expect_integer(p, "a.u8", 255);
    expect_integer(p, "a.i8", -1);
    expect_integer(p, "a.u16", 65535);
    expect_integer(p, "a.i16", -2);
    expect_integer(p, "a.u32", UINT32_MAX);
    expect_integer(p, "a.i32", -3);
    expect_real(p, "a.f32", -1.0);
    expect_integer(p, "a.bool", 1);
    expect_integer(p, "a.u64", ((int64_t)1 << 32) + 1);
    expect_real(p, "a.large", 9223372036854775808.0); /* is none of an int64 */
    expect_integer(p, "a.i64", -4);
    expect_real(p, "a.f64", 1.5);
    key = key_of(p, "a.words");
    assert_true(!key->is_text && !key->is_number && key->integers == NULL);
    assert_int_equal(key->n, 3);
    key = key_of(p, "a.i32s");
    assert_int_equal(key->n, 2);
    assert_int_equal(key->integers[1], -1);
    key = key_of(p, "a.bools");
    assert_int_equal(key->integers[2], 1);
    assert_int_equal(key_of(p, "a.none")->n, 0);
    key = key_of(p, "a.floats");
    assert_int_equal(key->n, 2);
    assert_null(key->integers);
    key = key_of(p, "a.most");
    assert_int_equal(key->n, 1 << 14);
    assert_int_equal(key->integers[key->n - 1], 7);
    key = key_of(p, "a.many"); /* counted only */
    assert_int_equal(key->n, (1 << 14) + 1);
    assert_null(key->integers);
}

/* The program of an open model has to be there; looked at, and given back. */
static void expect_program(struct vc_ctx *ctx, const char *name, void (*look)(const struct vc_program *p))
{
    struct vc_model *model = must_open(ctx, name);
    struct vc_arena arena = {0};
    struct vc_program program;

    if (vc_model_program(ctx, model, &arena, &program) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    look(&program);
    vc_arena_release(ctx, &arena);
    vc_model_close(model);
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
}

static void gguf_keys(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};

    (void)state;
    add_pairs(&g);
    save_own("in.gguf", gguf_finish(&g));
    expect_program(ctx, "in.gguf", look_at_keys);
    test_ctx_done(ctx);
    empty_folder();
}

static void look_at_long(const struct vc_program *p)
{
    assert_int_equal(p->n_keys, 3);
    assert_int_equal(strlen(key_of(p, "a.most")->text), 1 << 16);
    assert_true(key_of(p, "a.more")->is_text);
    assert_string_equal(key_of(p, "a.more")->text, "");
    expect_integer(p, "a.behind", 5);
}

/* A text of more than 64 KiB means nothing to a graph, and is not kept. */
static void long_texts(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};
    char *text = malloc((1 << 16) + 2);

    (void)state;
    assert_non_null(text);
    memset(text, 'x', (1 << 16) + 1);
    text[(1 << 16) + 1] = '\0';
    gguf_pair_string(&g, "a.most", text + 1);
    gguf_pair_string(&g, "a.more", text);
    gguf_pair_u32(&g, "a.behind", 5);
    free(text);
    save_own("in.gguf", gguf_finish(&g));
    expect_program(ctx, "in.gguf", look_at_long);
    test_ctx_done(ctx);
    empty_folder();
}

/* A file that is cut or written over after it was opened: an answer, and no read behind its end. */
static void changed_file(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};
    struct vc_model *model;
    struct bytes b;
    unsigned n_refused = 0;
    int fd;

    (void)state;
    add_pairs(&g);
    b = gguf_finish(&g);
    save("in.gguf", &b);
    fd = open(in_folder("in.gguf"), O_WRONLY);
    assert_true(fd >= 0);
    model = must_open(ctx, "in.gguf");
    for (size_t at = 24; at < 1000; at++) {
        struct vc_arena arena = {0};
        struct vc_program program;
        enum vc_status status;

        assert_int_equal(pwrite(fd, "\377\377\377\377\377\377\377\377", 8, (off_t)at), 8);
        status = vc_model_program(ctx, model, &arena, &program);
        assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_IO || status == VC_E_NOMEM);
        n_refused += status != VC_OK;
        vc_clear_error(ctx);
        vc_arena_release(ctx, &arena);
        assert_int_equal(pwrite(fd, b.p + at, 8, (off_t)at), 8);
    }
    assert_true(n_refused > 100);
    (void)close(fd);
    vc_model_close(model);
    bytes_release(&b);
    test_ctx_done(ctx);
    empty_folder();
}

/* Of several files of which the first is missing, as verify opens them. */
static void first_file_missing(void **state)
{
    struct vc_findings findings = {.n = 0};
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};
    struct vc_model *model = NULL;
    struct vc_arena arena = {0};
    struct vc_program program;
    static const uint64_t dims[] = {4, 4};

    (void)state;
    gguf_pair(&g, "split.no", 2, "\1", 2);
    gguf_pair(&g, "split.count", 2, "\2", 2);
    gguf_tensor(&g, "w", 0, 2, dims, 64);
    save_own("m-00002-of-00002.gguf", gguf_finish(&g));
    ctx->findings = &findings;
    assert_int_equal(vc_model_open(ctx, in_folder("m-00002-of-00002.gguf"), NULL, &model), VC_OK);
    ctx->findings = NULL;
    assert_true(findings.n_errors != 0);
    assert_int_equal(vc_model_program(ctx, model, &arena, &program), VC_OK);
    assert_int_equal(program.kind, VC_PROGRAM_NONE);
    vc_arena_release(ctx, &arena);
    vc_model_close(model);
    vc_findings_release(ctx, &findings);
    test_ctx_done(ctx);
    empty_folder();
}

/* ---- config.json ---- */

static void look_at_config(const struct vc_program *p)
{
    assert_int_equal(p->kind, VC_PROGRAM_CONFIG);
    assert_string_equal(p->config, "{\"model_type\":\"llama\",\"limit\":0}"); /* NaN is none for readers of ours */
    assert_int_equal(p->config_bytes, strlen(p->config));
    assert_string_equal(p->config_path, "config.json");
}

static void look_at_nothing(const struct vc_program *p)
{
    assert_int_equal(p->kind, VC_PROGRAM_NONE);
}

static const char config[] = "{ \"model_type\": \"llama\",\n \"limit\": NaN }\n";

static void save_weights(const char *name)
{
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    struct bytes b = {NULL, 0, 0};

    bytes_u64(&b, strlen(header));
    bytes_add(&b, header, strlen(header));
    bytes_add(&b, "abcd", 4);
    save_own(name, b);
}

/* Of a folder, beside a file, and of a folder or text by itself. */
static void config_texts(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_arena arena = {0};
    struct vc_program program;
    const char *const paths[] = {scratch_folder(), in_folder("config.json")};

    (void)state;
    save_weights("model.safetensors");
    expect_program(ctx, "model.safetensors", look_at_nothing);
    save_text("config.json", config);
    expect_program(ctx, "model.safetensors", look_at_config);
    expect_program(ctx, scratch_folder(), look_at_config);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(vc_hf_program_read(ctx, paths[k], &arena, &program), VC_OK);
        look_at_config(&program);
    }
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
    empty_folder();
}

static void refused_configs(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"{", "config.json: is no valid JSON: line 1"},
        {" ", "config.json: is no valid JSON: line 1"},
        {"{\"a\": 1, \"a\": 2}", "config.json: is no valid JSON: line 1: duplicate object key"},
        {"{\"a\": \"\xff\"}", "config.json: is no valid JSON: line 1: unable to decode"},
    };
    struct vc_ctx *ctx = test_ctx();
    struct vc_arena arena = {0};
    struct vc_program program;

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct vc_model *model;

        save_weights("model.safetensors");
        model = must_open(ctx, "model.safetensors");
        save_text("config.json", cases[k].text);
        assert_int_equal(vc_model_program(ctx, model, &arena, &program), VC_E_FORMAT);
        expect_says(ctx, cases[k].words);
        vc_model_close(model);
        assert_int_equal(vc_hf_program_read(ctx, in_folder("config.json"), &arena, &program), VC_E_FORMAT);
        expect_says(ctx, cases[k].words);
    }
    empty_folder();
    assert_int_equal(vc_hf_program_read(ctx, scratch_folder(), &arena, &program), VC_E_IO);
    expect_says(ctx, "cannot open: ");
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
}

/* More than any config.json has. */
static void large_config(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_arena arena = {0};
    struct vc_program program;
    int fd = open(save_text("config.json", config), O_WRONLY);

    (void)state;
    assert_int_equal(ftruncate(fd, ((off_t)64 << 20) + 1), 0);
    (void)close(fd);
    assert_int_equal(vc_hf_program_read(ctx, scratch_folder(), &arena, &program), VC_E_FORMAT);
    expect_says(ctx, "is too large: 67108865 bytes");
    vc_arena_release(ctx, &arena);
    test_ctx_done(ctx);
    empty_folder();
}

/* ---- failures ---- */

/* What reads a program, of the model or of the path. */
struct reading {
    const char *path;
    struct vc_model *model; /* NULL: config.json at the path */
};

static enum vc_status read_one(struct vc_ctx *ctx, const struct reading *r)
{
    struct vc_arena arena = {0};
    struct vc_program program;
    enum vc_status status = r->model != NULL ? vc_model_program(ctx, r->model, &arena, &program)
                                             : vc_hf_program_read(ctx, r->path, &arena, &program);

    vc_arena_release(ctx, &arena);
    return status;
}

/* Each allocation and each read fails in turn. */
static void fail_each(struct vc_ctx *ctx, const struct reading *r, unsigned at_least)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        uint64_t in_use = vc_pool_in_use(ctx->shared->pool);
        enum vc_status status = VC_E_IO;
        unsigned n = 0;

        while (status != VC_OK) {
            n++;
            vc_pool_fail_at(ctx->shared->pool, kind == 0 ? n : 0, 0);
            vc_infile_fail_at(kind == 1 ? n : 0);
            status = read_one(ctx, r);
            vc_pool_fail_at(ctx->shared->pool, 0, 0);
            vc_infile_fail_at(0);
            assert_true(status == VC_OK || status == (kind == 0 ? VC_E_NOMEM : VC_E_IO));
            assert_int_equal(status == VC_OK, vc_ctx_message(ctx)[0] == '\0');
            vc_clear_error(ctx);
            assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
        }
        assert_true(n > (kind == 0 ? at_least : 1));
    }
}

static void failures(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct gguf_builder g = {0};
    struct reading r = {.path = NULL};
    char name[32];

    (void)state;
    add_pairs(&g);
    for (unsigned k = 0; k < 40; k++) { /* more than the reader's window, whose border comes in each part of a pair */
        snprintf(name, sizeof name, "b.%u", k);
        add_array(&g, name, 0, 4097 + k, 1, 1);
        snprintf(name, sizeof name, "c.%u", k);
        gguf_pair_string(&g, name, "a text");
    }
    save_own("in.gguf", gguf_finish(&g));
    r.model = must_open(ctx, "in.gguf");
    fail_each(ctx, &r, 50);
    vc_model_close(r.model);
    save_weights("model.safetensors");
    save_text("config.json", config);
    r.model = must_open(ctx, "model.safetensors");
    fail_each(ctx, &r, 4);
    vc_model_close(r.model);
    r = (struct reading){.path = scratch_folder()};
    fail_each(ctx, &r, 4);
    test_ctx_done(ctx);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_keys),          cmocka_unit_test(long_texts),   cmocka_unit_test(changed_file),
        cmocka_unit_test(first_file_missing), cmocka_unit_test(config_texts), cmocka_unit_test(refused_configs),
        cmocka_unit_test(large_config),       cmocka_unit_test(failures),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
