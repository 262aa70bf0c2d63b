/* test_infolder.c - a checkpoint that is a folder: its index, config.json beside it, links, what else lies there;
 * every cut and many flips of the index and config.json do no harm; failing allocations leave no output. The folder is
 * folder_builder.c's; tests/judge/test_shards.py has the command's side. */
#include "formats_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder_builder.h"
#include "formats/huggingface/infolder.h"
#include "tasks.h"

static void write_text(const char *name, const char *text)
{
    (void)save_text(name, text);
}

/* The folder, and the index in it. */
static void expect_status(enum vc_status status, const char *needle)
{
    const char *const paths[] = {scratch_folder(), in_folder(FOLDER_INDEX)};
    size_t i;

    for (i = 0; i < 2; i++) {
        struct vc_ctx *ctx = test_ctx();

        if (walk_path(ctx, paths[i], NULL) != status || strstr(vc_ctx_message(ctx), needle) == NULL ||
            strchr(vc_ctx_message(ctx), '\n') != NULL) {
            fail_msg("%s, \"%s\": expected %s and \"%s\"", vc_status_name(ctx->status), vc_ctx_message(ctx),
                     vc_status_name(status), needle);
        }
        test_ctx_done(ctx);
    }
}

static void expect_index(const char *index, enum vc_status status, const char *needle)
{
    write_text(FOLDER_INDEX, index);
    expect_status(status, needle);
}

#define MAPPED(more) "{\"weight_map\": {" more FOLDER_MAP "}}"

static void test_index(void **state)
{
    char name[300];
    char text[4096];

    (void)state;
    expect_index(FOLDER_MAPPED, VC_OK, "");
    expect_index("{\"weight_map\": {}}", VC_OK, "");
    expect_index(MAPPED(""), VC_OK, "");
    expect_index("{\"metadata\": {\"total_size\": 302.0}, \"more\": [], \"weight_map\": {" FOLDER_MAP "}}", VC_OK, "");
    expect_index("", VC_E_FORMAT, "is empty");
    expect_index("{", VC_E_FORMAT, "no valid JSON");
    expect_index(FOLDER_MAPPED "x", VC_E_FORMAT, "no valid JSON");
    expect_index("[]", VC_E_FORMAT, "no object \"weight_map\"");
    expect_index("{\"weight_map\": []}", VC_E_FORMAT, "no object \"weight_map\"");
    expect_index(MAPPED("\"w\": \"a.safetensors\", "), VC_E_FORMAT, "w: " FOLDER_INDEX " has it twice");
    expect_index(MAPPED("\"x\": 1, "), VC_E_FORMAT, "x: its file in \"weight_map\" is no string");
    expect_index(MAPPED("\"x\": \"sub/a.safetensors\", "), VC_E_FORMAT, "without folders");
    expect_index(MAPPED("\"x\": \"/etc/passwd\", "), VC_E_FORMAT, "without folders");
    expect_index(MAPPED("\"x\": \"..\", "), VC_E_FORMAT, "without folders");
    expect_index(MAPPED("\"x\": \"\", "), VC_E_FORMAT, "without folders");
    expect_index(MAPPED("\"x\": \"a.safetensors\\u0000b\", "), VC_E_FORMAT, "no valid JSON");
    expect_index(MAPPED("\"x\": \"a.safetensors\", "), VC_E_FORMAT, "a.safetensors, which does not hold it");
    expect_index(MAPPED("\"x\": \"gone.safetensors\", "), VC_E_FORMAT, "is not there");
    expect_index(MAPPED("\"x\": \"" FOLDER_INDEX "\", "), VC_E_UNSUPPORTED, "JSON text");
    expect_index("{\"weight_map\": {\"w\": \"a.safetensors\", \"w.scale\": \"a.safetensors\"}}", VC_E_FORMAT,
                 "does not have it");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(text, sizeof text, "{\"weight_map\": {\"x\": \"%s\", " FOLDER_MAP "}}", name);
    expect_index(text, VC_E_FORMAT, "is not there");
}

static void expect_note(const char *index, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    size_t i;
    bool found = false;

    write_text(FOLDER_INDEX, index);
    assert_int_equal(vc_model_open(ctx, scratch_folder(), NULL, &model), VC_OK);
    assert_int_equal(vc_model_facts(model)->n_tensors, FOLDER_TENSORS);
    for (i = 0; i < model->n_facts; i++) {
        found = found || (strcmp(model->facts[i].key, VC_FACT_NOTE) == 0 &&
                          (needle == NULL || strstr(model->facts[i].value, needle) != NULL));
    }
    assert_int_equal(found, needle != NULL);
    vc_model_close(model);
    test_ctx_done(ctx);
}

/* A wrong total is a note, one that is no number nothing. */
static void test_total(void **state)
{
    (void)state;
    expect_note(FOLDER_MAPPED, NULL);
    expect_note("{\"metadata\": {\"total_size\": 301}, \"weight_map\": {" FOLDER_MAP "}}", "301, but");
    expect_note("{\"metadata\": {\"total_size\": -1}, \"weight_map\": {" FOLDER_MAP "}}", "-1, but");
    expect_note("{\"metadata\": {\"total_size\": \"302\"}, \"weight_map\": {" FOLDER_MAP "}}", NULL);
    expect_note("{\"metadata\": null, \"weight_map\": {" FOLDER_MAP "}}", NULL);
}

static bool is_codes(const char *path, const char *config)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = NULL;
    bool found;

    write_text("config.json", config);
    if (vc_model_open(ctx, path, NULL, &model) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    found = vc_model_find(model, "m.weight") != VC_NO_TENSOR;
    vc_model_close(model);
    test_ctx_done(ctx);
    return found;
}

/* One word a row can be four codes or eight: config.json of that folder says which, however it is named. */
static void test_config(void **state)
{
    char inside[512];

    (void)state;
    write_text(FOLDER_INDEX, FOLDER_MAPPED);
    snprintf(inside, sizeof inside, "%s/", scratch_folder());
    assert_true(is_codes(scratch_folder(), FOLDER_CONFIG));
    assert_true(is_codes(inside, FOLDER_CONFIG));
    assert_true(is_codes(in_folder(FOLDER_INDEX), FOLDER_CONFIG));
    assert_true(is_codes(in_folder("b.safetensors"), FOLDER_CONFIG));
    assert_false(is_codes(scratch_folder(), "{}"));
    assert_false(is_codes(scratch_folder(), "{"));
    assert_false(is_codes(scratch_folder(), ""));
    (void)unlink(in_folder("config.json"));
}

/* A prefix of a text, and each of its bytes changed: read calmly, and refused unless the text still says the same. */
static void damage(const char *name, const char *text)
{
    struct vc_ctx *ctx = test_ctx();
    size_t n = strlen(text);
    char *copy = malloc(n + 1);
    size_t i;
    unsigned k;

    assert_non_null(copy);
    memcpy(copy, text, n + 1);
    for (i = 0; i < n; i++) {
        folder_write(scratch_folder(), name, text, i);
        (void)walk_path(ctx, scratch_folder(), NULL);
        assert_true(ctx->status == VC_OK || ctx->status == VC_E_FORMAT || ctx->status == VC_E_UNSUPPORTED);
        assert_true(ctx->status != VC_OK || strcmp(name, FOLDER_INDEX) != 0);
        for (k = 0; k < 2; k++) {
            copy[i] = (char)(text[i] ^ (k == 0 ? 1 : 0x80));
            folder_write(scratch_folder(), name, copy, n);
            (void)walk_path(ctx, scratch_folder(), NULL);
            assert_true(ctx->status == VC_OK || ctx->status == VC_E_FORMAT || ctx->status == VC_E_UNSUPPORTED);
            assert_true((ctx->status == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'));
        }
        copy[i] = text[i];
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    }
    free(copy);
    test_ctx_done(ctx);
}

static void test_cuts_and_flips(void **state)
{
    (void)state;
    write_text(FOLDER_INDEX, FOLDER_MAPPED);
    damage("config.json", FOLDER_CONFIG);
    write_text("config.json", FOLDER_CONFIG);
    damage(FOLDER_INDEX, FOLDER_MAPPED);
    (void)unlink(in_folder("config.json"));
}

/* Links are followed wherever they lead, names never. */
static void test_links(void **state)
{
    char other[256];
    char target[512];

    (void)state;
    folder_make(other, sizeof other);
    assert_int_equal(unlink(in_folder("a.safetensors")), 0);
    snprintf(target, sizeof target, "%s/a.safetensors", other);
    assert_int_equal(symlink(target, in_folder("a.safetensors")), 0);
    assert_int_equal(symlink(other, in_folder("linked")), 0);
    expect_index(FOLDER_MAPPED, VC_OK, "");
    folder_remove(other);
    expect_status(VC_E_FORMAT, "is not there");
    assert_int_equal(unlink(in_folder("a.safetensors")), 0);
    assert_int_equal(symlink("a.safetensors", in_folder("a.safetensors")), 0); /* a circle */
    expect_status(VC_E_IO, "a.safetensors");
    assert_int_equal(unlink(in_folder("a.safetensors")), 0);
    assert_int_equal(unlink(in_folder("linked")), 0);
    assert_int_equal(mkdir(in_folder("a.safetensors"), 0700), 0);
    expect_status(VC_E_UNSUPPORTED, "a.safetensors: is a folder");
    assert_int_equal(rmdir(in_folder("a.safetensors")), 0);
}

/* Writes a folder of this one; expects these words of the sentence, and nothing written; "": that it works. */
static void expect_written(const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_int8();
    char to[300];
    enum vc_status status;

    task.quantize.requantize = true;
    snprintf(to, sizeof to, "%s.out", scratch_folder());
    status = run_task(ctx, scratch_folder(), to, &task);
    if ((status == VC_OK) != (needle[0] == '\0') || strstr(vc_ctx_message(ctx), needle) == NULL) {
        fail_msg("%s, \"%s\": expected \"%s\"", vc_status_name(status), vc_ctx_message(ctx), needle);
    }
    assert_int_equal(exists(to), status == VC_OK);
    remove_path(to);
    vc_ctx_free(ctx);
}

/* What goes along is never dropped without a word: links that lead nowhere or elsewhere, pipes, sockets, devices. */
static void test_odd_parts(void **state)
{
    static const char *const targets[][2] = {{"gone", "config.json: is a link that leads nowhere"},
                                             {"config.json", "config.json: is a link that leads nowhere"},
                                             {"/etc/passwd", "config.json: is a link that leads out of the folder"},
                                             {"/dev/null", "config.json: is a device"}};
    struct vc_verification *found = NULL;
    struct vc_ctx *ctx;
    size_t i;

    (void)state;
    write_text(FOLDER_INDEX, FOLDER_MAPPED);
    for (i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        assert_int_equal(symlink(targets[i][0], in_folder("config.json")), 0);
        expect_written(targets[i][1]);
        expect_status(VC_OK, "");
        ctx = test_ctx();
        assert_int_equal(vc_verify(ctx, scratch_folder(), NULL, &found), VC_OK);
        assert_true(found->n_errors >= 1);
        assert_string_equal(found->findings[0].id, "link");
        assert_string_equal(found->findings[0].tensor, "config.json");
        assert_string_equal(found->findings[0].sentence, targets[i][1] + strlen("config.json: "));
        vc_result_free(found);
        test_ctx_done(ctx);
        assert_int_equal(unlink(in_folder("config.json")), 0);
    }
    assert_int_equal(mkfifo(in_folder("tokenizer.json"), 0600), 0);
    expect_written("tokenizer.json: is a pipe; what goes along");
    write_text("real", FOLDER_CONFIG);
    assert_int_equal(symlink("real", in_folder("config.json")), 0); /* in the folder */
    expect_written("tokenizer.json: is a pipe; what goes along");
    assert_int_equal(symlink("gone", in_folder("z")), 0);
    expect_written("tokenizer.json: is a pipe; z: is a link that leads nowhere; what goes along");
    assert_int_equal(symlink("gone", in_folder("y")), 0);
    expect_written("is a pipe; y: is a link that leads nowhere; and 1 more; what goes along");
    assert_int_equal(unlink(in_folder("tokenizer.json")), 0);
    assert_int_equal(unlink(in_folder("y")), 0);
    assert_int_equal(unlink(in_folder("z")), 0);
    assert_int_equal(symlink("gone", in_folder("pytorch_model.bin")), 0); /* never goes along */
    expect_written("");
}

/* The n-th allocation fails, for every n, in reading the folder and writing another one. */
static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_int8();
    char to[300];

    (void)state;
    write_text(FOLDER_INDEX, FOLDER_MAPPED);
    write_text("config.json", FOLDER_CONFIG);
    write_text("notes.h5", "weights of another kind");
    write_text("tokenizer.json", "{}");
    snprintf(to, sizeof to, "%s.out", scratch_folder());
    task.quantize.requantize = true;
    task.write.max_shard_bytes = 100;
    fail_each_allocation(ctx, scratch_folder(), to, task, 100);
    remove_path(to);
    vc_ctx_free(ctx);
}

static int set_up(void **state)
{
    int failed = scratch_make(state);

    if (failed == 0) {
        folder_fill(scratch_folder());
    }
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_index, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_total, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_config, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_cuts_and_flips, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_links, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_odd_parts, set_up, scratch_clear),
        cmocka_unit_test_setup_teardown(test_allocations, set_up, scratch_clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
