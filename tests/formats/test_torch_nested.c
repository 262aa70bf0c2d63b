/* test_torch_nested.c - weights deep inside: dicts, lists and tuples in each other, keys that are numbers, sets and
 * calls beside the weights. What --key finds in such a file; what becomes of the keys where layers go and the rest is
 * numbered anew; damage and failing allocations of all of it. Judge: the same file with the new keys, and the
 * sentences. */
#include "formats_test.h"

#include <stdlib.h>

#include "torch_files.h"

#include <vcompress/depth.h>

/* ---- files ---- */

/* A tensor of 4 elements in storage `number`. */
static void tensor(struct bytes *b, unsigned number)
{
    char key[12];

    (void)snprintf(key, sizeof key, "%u", number);
    pk_tensor(b, "FloatStorage", key, 4, 0, "2,2", "2,1");
}

static void save_pickle(const char *name, struct bytes *b)
{
    static const size_t sizes[] = {16, 16, 16, 16};

    pk_raw(b, ".");
    (void)save_own(name, torch_archive(b, "little", sizes, 4, NULL));
    bytes_release(b);
}

/* How layers lie in the dict: {"layers.0.w": t} or {"layers": {"0": {"w": t}}}. */
enum form { NAMES, DICTS, N_FORMS };

static void save_layers(const char *name, enum form form, const unsigned *stay, unsigned n)
{
    struct bytes b = {NULL, 0, 0};
    char key[40];
    unsigned i;

    pk_start(&b);
    pk_raw(&b, "}(");
    if (form != NAMES) {
        pk_string(&b, "layers");
        pk_raw(&b, "}(");
    }
    for (i = 0; i < n; i++) {
        (void)snprintf(key, sizeof key, form == NAMES ? "layers.%u.w" : "%u", i);
        pk_string(&b, key);
        if (form != NAMES) {
            pk_raw(&b, "}");
            pk_string(&b, "w");
        }
        tensor(&b, stay[i]);
        pk_raw(&b, form != NAMES ? "s" : "");
    }
    pk_raw(&b, form != NAMES ? "uu" : "u");
    save_pickle(name, &b);
}

static enum vc_status drop_middle(struct vc_ctx *ctx, struct vc_job *job)
{
    struct vc_depth_options depth;

    vc_depth_defaults(&depth);
    depth.drop = "1";
    return vc_job_add_depth(ctx, job, &depth);
}

/* ---- layers that go ---- */

/* The names of the model's tensors, with blanks between them; what is beside the weights may follow. */
static void expect_names(struct vc_ctx *ctx, const char *file, const char *want)
{
    struct vc_model *model = must_open(ctx, file);
    char names[500] = "";
    size_t i;
    size_t n = 0;

    for (i = 0; i < model->n_tensors; i++) {
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i == 0 ? "" : " ", model->tensors[i].name);
    }
    if (strncmp(names, want, strlen(want)) != 0) {
        fail_msg("%s: %s, not %s", file, names, want);
    }
    vc_model_close(model);
}

/* Renumbered keys where names are keys; where a name is made of several keys, it is refused, not lost. */
static void test_layers(void **state)
{
    static const unsigned all[] = {0, 1, 2};
    struct task task = task_copy();
    struct vc_ctx *ctx = test_ctx();
    unsigned form;

    (void)state;
    task.add = drop_middle;
    for (form = 0; form < N_FORMS; form++) {
        save_layers("in.pt", (enum form)form, all, 3);
        expect_names(ctx, "in.pt", "layers.0.w layers.1.w layers.2.w");
        must_run(ctx, "in.pt", "out.safetensors", task);
        expect_names(ctx, "out.safetensors", "layers.0.w layers.1.w");
        if (form == NAMES) {
            must_run(ctx, "in.pt", "out.pt", task);
            expect_names(ctx, "out.pt", "layers.0.w layers.1.w");
        } else if (run_task(ctx, "in.pt", "out.pt", &task) == VC_OK) {
            expect_names(ctx, "out.pt", "layers.0.w layers.1.w");
        } else {
            assert_true(vc_ctx_message(ctx)[0] != '\0' && !exists("out.pt"));
        }
        remove_path("out.pt");
    }
    save_layers("in.pt", NAMES, all, 3);
    fail_each_allocation(ctx, "in.pt", "out.pt", task, 20);
    fail_each_read(ctx, "in.pt", "out.pt", task, 2);
    damage_each_byte(ctx, "in.pt", "in.pt", "out.pt", task, 3);
    vc_ctx_free(ctx);
    empty_folder();
}

/* ---- keys ---- */

/* {"epoch": 1, 5: {"a.b": {"c": t}}, "list": [{"w": t}, (t, "x"), 3], "nets": {"g": {"w": t}}} */
static void save_nested(const char *name)
{
    struct bytes b = {NULL, 0, 0};

    pk_start(&b);
    pk_raw(&b, "}");
    pk_string(&b, "epoch");
    pk_int(&b, 1);
    pk_raw(&b, "s");
    pk_int(&b, 5);
    pk_raw(&b, "}");
    pk_string(&b, "a.b");
    pk_raw(&b, "}");
    pk_string(&b, "c");
    tensor(&b, 0);
    pk_raw(&b, "sss");
    pk_string(&b, "list");
    pk_raw(&b, "](}");
    pk_string(&b, "w");
    tensor(&b, 1);
    pk_raw(&b, "s");
    tensor(&b, 2);
    pk_string(&b, "x");
    pk_raw(&b, "\x86");
    pk_int(&b, 3);
    pk_raw(&b, "es");
    pk_string(&b, "nets");
    pk_raw(&b, "}");
    pk_string(&b, "g");
    pk_raw(&b, "}");
    pk_string(&b, "w");
    tensor(&b, 3);
    pk_raw(&b, "sss");
    save_pickle(name, &b);
}

static void test_keys(void **state)
{
    static const struct {
        const char *key, *names, *sentence;
    } cases[] = {
        {"list", "0.w 1.0", NULL},      {"list.0", "w", NULL},
        {"list.1", "0", NULL},          {"nets", "g.w", NULL},
        {"nets.g", "w", NULL},          {"list.7", NULL, "has no key"},
        {"list.x", NULL, "has no key"}, {"list.01234567890123456789", NULL, "has no key"},
        {"list.2", NULL, ""},           {"nets.h", NULL, "has no key 'h'; it has 'g'"},
        {".", NULL, "has no key"},      {"epoch", NULL, ""},
        {"list.1.1", NULL, ""},
    };
    struct vc_ctx *ctx = test_ctx();
    size_t i;

    (void)state;
    save_nested("in.pt");
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct task task = task_copy();

        task.open.key = cases[i].key;
        if (cases[i].names != NULL) {
            must_run(ctx, "in.pt", "out.npz", task);
            expect_names(ctx, "out.npz", cases[i].names);
            must_run(ctx, "in.pt", "out.pt", task);
        } else {
            remove_path("out.npz");
            must_refuse(ctx, "in.pt", "out.npz", task, cases[i].sentence);
        }
    }
    vc_ctx_free(ctx);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_keys),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_clear);
}
