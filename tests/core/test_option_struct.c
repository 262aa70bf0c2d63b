/* test_option_struct.c - structures of options between a program and a library of another version: every public one as
 * an older, shorter program lays it out, as a newer, longer one does, and not made by its function of defaults at all.
 */
#include "support.h"

#include <stdlib.h>

#include "core/base/option_struct.h"
#include "graph/builder/builder.h"
#include "scratch.h"

static struct vc_ctx *ctx;
static struct vc_model *model;
static struct vc_diff *difference;

/* Of 64 each: fewer elements than the default of vc_quantize_options.min_elems, so that it is kept. */
#define ROWS 63

static int set_up(void **state)
{
    static const char head[] = "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (63, 64), }";
    struct bytes b = {NULL, 0, 0};

    if (scratch_make(state) != 0) {
        return -1;
    }
    bytes_add(&b, head, sizeof head - 1);
    bytes_fill(&b, ' ', 127 - b.n);
    bytes_add(&b, "\n", 1);
    bytes_fill(&b, 0, (size_t)ROWS * 64 * 4);
    (void)save_own("a.npy", b);
    ctx = test_ctx();
    assert_int_equal(vc_model_open(ctx, in_folder("a.npy"), NULL, &model), VC_OK);
    assert_int_equal(vc_diff_models(ctx, model, model, &difference), VC_OK);
    return 0;
}

static int tear_down(void **state)
{
    vc_result_free(difference);
    vc_model_close(model);
    vc_ctx_free(ctx);
    return scratch_clear(state);
}

/* ---- the rules, with a structure of the test's own ---- */

struct vc_test_options {
    size_t struct_size;
    uint64_t first, second;
};

static const struct vc_test_options test_defaults = {.first = 11, .second = 22};
static const struct vc_options_kind test_kind = {"vc_test_options", "vc_test_defaults", &test_defaults,
                                                 sizeof test_defaults};

/* What an older program has of it, and a newer one. */
struct shorter {
    size_t struct_size;
    uint64_t first;
};

struct longer {
    size_t struct_size;
    uint64_t first, second, third;
};

static void test_fill(void **unused)
{
    struct vc_test_options same = {0};
    struct longer longer;
    struct {
        struct shorter options;
        uint64_t behind;
    } shorter = {.behind = 5};
    unsigned char tiny = 7;

    (void)unused;
    vc_options_fill(&test_kind, &same, sizeof same);
    assert_true(same.struct_size == sizeof same && same.first == 11 && same.second == 22);
    memset(&longer, 0xff, sizeof longer);
    vc_options_fill(&test_kind, &longer, sizeof longer);
    assert_true(longer.struct_size == sizeof longer && longer.first == 11 && longer.second == 22);
    assert_int_equal(longer.third, 0);
    vc_options_fill(&test_kind, &shorter.options, sizeof shorter.options);
    assert_true(shorter.options.struct_size == sizeof shorter.options && shorter.options.first == 11);
    assert_int_equal(shorter.behind, 5);
    vc_options_fill(&test_kind, &tiny, sizeof tiny);
    assert_int_equal(tiny, 7);
}

static void test_read(void **unused)
{
    struct vc_test_options own = {0};
    struct vc_test_options same = {sizeof same, 1, 2};
    struct longer longer = {sizeof longer, 1, 2, 0};
    struct shorter shorter = {sizeof shorter, 1};

    (void)unused;
    assert_int_equal(vc_options_read(ctx, &test_kind, NULL, &own), VC_OK);
    assert_true(own.struct_size == sizeof own && own.first == 11 && own.second == 22);
    assert_int_equal(vc_options_read(ctx, &test_kind, &same, &own), VC_OK);
    assert_true(own.struct_size == sizeof own && own.first == 1 && own.second == 2);
    assert_int_equal(vc_options_read(ctx, &test_kind, &shorter, &own), VC_OK);
    assert_true(own.struct_size == sizeof own && own.first == 1 && own.second == 22);
    assert_int_equal(vc_options_read(ctx, &test_kind, &longer, &own), VC_OK);
    assert_true(own.struct_size == sizeof own && own.first == 1 && own.second == 2);
    longer.third = 1;
    own.first = 9;
    assert_false(vc_options_take(&test_kind, &longer, &own));
    assert_int_equal(own.first, 9);
    assert_int_equal(vc_options_read(ctx, &test_kind, &longer, &own), VC_E_ARGUMENT);
    expect_says(ctx, "struct vc_test_options sets an option that vcompress ");
}

/* ---- the public structures ---- */

static enum vc_status use_open(void *options)
{
    struct vc_model *opened = NULL;
    enum vc_status status = vc_model_open(ctx, in_folder("a.npy"), options, &opened);

    assert_int_equal(opened != NULL, status == VC_OK);
    vc_model_close(opened);
    return status;
}

static enum vc_status use_name(void *options)
{
    char *name = NULL;
    enum vc_status status;

    ((struct vc_name_options *)options)->tag = "int8";
    status = vc_model_output_name(ctx, model, options, &name);
    assert_int_equal(name != NULL, status == VC_OK);
    vc_text_free(name);
    return status;
}

static enum vc_status use_verify(void *options)
{
    struct vc_verification *v = NULL;
    enum vc_status status = vc_verify(ctx, in_folder("a.npy"), options, &v);

    assert_int_equal(v != NULL, status == VC_OK);
    assert_false(v != NULL && v->data);
    vc_result_free(v);
    return status;
}

/* One job per use; a plan that measures and writes nothing. *kept: the one tensor is. */
static enum vc_status plan(const struct vc_quantize_options *quantize, const struct vc_dequantize_options *back,
                           const struct vc_write_options *write, bool *kept)
{
    struct vc_job *job = NULL;
    enum vc_status status = vc_job_create(ctx, model, &job);

    if (status == VC_OK && quantize != NULL) {
        status = vc_job_add_quantize(ctx, job, quantize);
    }
    if (status == VC_OK && back != NULL) {
        status = vc_job_add_dequantize(ctx, job, back);
    }
    if (status == VC_OK) {
        status = vc_job_plan(ctx, job, write);
    }
    *kept = status == VC_OK && vc_job_report(job)->totals.n_kept == 1;
    vc_job_free(job);
    return status;
}

static enum vc_status use_write(void *options)
{
    bool kept;

    return plan(NULL, NULL, options, &kept);
}

static enum vc_status use_quantize(void *options)
{
    bool kept;
    enum vc_status status = plan(options, NULL, NULL, &kept);

    assert_int_equal(kept, status == VC_OK);
    return status;
}

static enum vc_status use_dequantize(void *options)
{
    bool kept;

    return plan(NULL, options, NULL, &kept);
}

/* The model is no adapter: that is what a structure that is read right is refused for. */
static enum vc_status use_merge(void *options)
{
    struct vc_merge_options *merge = options;
    struct vc_lora lora = {.adapter = model, .weight = 1.0};
    struct vc_job *job = NULL;
    enum vc_status status = vc_job_create(ctx, model, &job);

    merge->loras = &lora;
    merge->n_loras = 1;
    status = status == VC_OK ? vc_job_add_merge(ctx, job, merge) : status;
    vc_job_free(job);
    return status == VC_E_UNSUPPORTED ? VC_OK : status;
}

/* The defaults say nothing about how much to prune, which is refused; so a pattern is set. */
static enum vc_status use_prune(void *options)
{
    struct vc_prune_options *prune = options;
    struct vc_job *job = NULL;
    enum vc_status status = vc_job_create(ctx, model, &job);

    prune->pattern = VC_PATTERN_N_OF_M;
    status = status == VC_OK ? vc_job_add_prune(ctx, job, prune) : status;
    status = status == VC_OK ? vc_job_plan(ctx, job, NULL) : status;
    vc_job_free(job);
    return status;
}

/* One of two fields has to be set. That the model has no layers, is told when the job is planned. */
static enum vc_status use_depth(void *options)
{
    struct vc_depth_options *depth = options;
    struct vc_job *job = NULL;
    enum vc_status status = vc_job_create(ctx, model, &job);

    depth->drop = "0";
    status = status == VC_OK ? vc_job_add_depth(ctx, job, depth) : status;
    vc_job_free(job);
    return status;
}

static enum vc_status use_structured(void *options)
{
    struct vc_structured_options *structured = options;
    struct vc_job *job = NULL;
    enum vc_status status = vc_job_create(ctx, model, &job);

    structured->share = "0.5";
    status = status == VC_OK ? vc_job_add_structured(ctx, job, structured) : status;
    vc_job_free(job);
    return status;
}

static enum vc_status use_sensitivity(void *options)
{
    struct vc_sensitivity *sensitivity = NULL;
    enum vc_status status = vc_model_sensitivity(ctx, model, options, &sensitivity);

    assert_int_equal(sensitivity != NULL, status == VC_OK);
    if (sensitivity != NULL) {
        assert_int_equal(sensitivity->n_measured, 1);
    }
    vc_result_free(sensitivity);
    return status;
}

/* Without a graph, which is told after the options. */
static enum vc_status use_sensitivity_data(void *options)
{
    struct vc_sensitivity *sensitivity = NULL;
    enum vc_status status = vc_model_sensitivity(ctx, model, NULL, &sensitivity);

    assert_int_equal(status, VC_OK);
    status = vc_sensitivity_measure(ctx, sensitivity, options);
    vc_result_free(sensitivity);
    return strstr(vc_ctx_message(ctx), "graph has to be set") != NULL ? VC_OK : status;
}

/* Without a model, which is told after the options. */
static enum vc_status use_shrink(void *options)
{
    struct vc_shrinkage *result = NULL;
    enum vc_status status = vc_shrink(ctx, options, &result);

    assert_null(result);
    return strstr(vc_ctx_message(ctx), "a model and a path for the output are needed") != NULL ? VC_OK : status;
}

static enum vc_status use_limits(void *options)
{
    const struct vc_diff_row other = {.name = "x", .kind = VC_DIFF_VALUES, .numeric = true, .max_abs_error = 1};
    char *text = NULL;
    enum vc_status status = vc_document_json(
        ctx,
        &(struct vc_document){.kind = VC_DOCUMENT_DIFF, .of = difference, .a = model, .b = model, .limits = options},
        &text);

    assert_int_equal(text != NULL, status == VC_OK);
    assert_int_equal(vc_diff_within(options, &other), status == VC_OK);
    vc_text_free(text);
    return status;
}

static enum vc_status take_nothing(void *user, const struct vc_graph_array *array)
{
    (void)user;
    (void)array;
    return VC_OK;
}

/* A graph of one parameter, which nothing is computed from. */
static enum vc_status use_graph_run(void *options)
{
    struct vc_graph_run_options *run = options;
    const uint64_t shape[2] = {ROWS, 64};
    struct vc_graph *graph;
    enum vc_status status;

    assert_int_equal(vc_graph_create(ctx, &graph), VC_OK);
    vc_graph_add_output(
        graph, vc_graph_add_param(
                   graph, "w",
                   &(struct vc_param_spec){.tensor = vc_model_tensor(model, 0)->name, .n_dims = 2, .shape = shape}));
    assert_int_equal(vc_graph_finish(graph, &graph), VC_OK);
    run->take = take_nothing;
    status = vc_graph_run(ctx, graph, model, NULL, 0, run);
    vc_graph_close(graph);
    return status;
}

/* An npz says nothing about what its model computes; that is told after the options. */
static enum vc_status use_graph(void *options)
{
    struct vc_graph *graph = NULL;
    enum vc_status status = vc_graph_build(ctx, model, options, &graph);

    assert_null(graph);
    return status == VC_E_UNSUPPORTED ? VC_OK : status;
}

static enum vc_status use_memory(void *options)
{
    struct vc_memory_report report;

    return vc_memory_estimate(ctx, NULL, model, options, &report);
}

static enum vc_status use_fit(void *options)
{
    const struct vc_memory_options memory = {.mode = VC_MEMORY_INFER};
    const struct vc_memory_report report = {.peak_at = ""};
    struct vc_fit fit;

    return vc_fit_decide(ctx, &report, &memory, 1 << 20, options, &fit);
}

static enum vc_status use_recipe(void *options)
{
    struct vc_memory_options whole;
    struct vc_recipes *recipes = NULL;
    enum vc_status status;

    vc_memory_defaults(&whole);
    ((struct vc_recipe_options *)options)->visible_bytes = 1 << 30;
    status = vc_recipes_make(ctx, NULL, model, &whole, NULL, options, &recipes);
    assert_int_equal(recipes != NULL, status == VC_OK);
    vc_result_free(recipes);
    return status;
}

/* Without data, which is told after the options. */
static enum vc_status use_distill(void *options)
{
    struct vc_distillation *d;
    enum vc_status status = vc_distill(ctx, options, &d);

    return strstr(vc_ctx_message(ctx), "there are no data") != NULL ? VC_OK : status;
}

static enum vc_status use_evaluate(void *options)
{
    enum vc_status status = vc_evaluate(ctx, options, &(struct vc_quality){0});

    return strstr(vc_ctx_message(ctx), "there are no data") != NULL ? VC_OK : status;
}

/* Without an output, which is told after the options. */
static enum vc_status use_logits(void *options)
{
    enum vc_status status = vc_logits(ctx, options, &(struct vc_quality){0});

    return strstr(vc_ctx_message(ctx), "there is no output") != NULL ? VC_OK : status;
}

/* Rows for a graph without inputs, which is told after the options. */
static enum vc_status use_data(void *options)
{
    struct vc_evaluate_options evaluate;
    enum vc_status status;

    vc_evaluate_defaults(&evaluate);
    ((struct vc_data_options *)options)->path = in_folder("a.npy");
    evaluate.data = options;
    assert_int_equal(vc_graph_create(ctx, &evaluate.network.graph), VC_OK);
    evaluate.network.weights = model;
    status = vc_evaluate(ctx, &evaluate, &(struct vc_quality){0});
    vc_graph_close(evaluate.network.graph);
    return strstr(vc_ctx_message(ctx), "the graph has no inputs") != NULL ? VC_OK : status;
}

static const struct public_options {
    const char *name, *maker;
    size_t size;
    size_t first_fields; /* the size of a structure that ends after some of today's fields */
    enum vc_status (*use)(void *options);
} all[] = {
    {"vc_open_options", "vc_open_defaults", sizeof(struct vc_open_options), offsetof(struct vc_open_options, key),
     use_open},
    {"vc_name_options", "vc_name_defaults", sizeof(struct vc_name_options), offsetof(struct vc_name_options, input),
     use_name},
    {"vc_verify_options", "vc_verify_defaults", sizeof(struct vc_verify_options),
     offsetof(struct vc_verify_options, min_sqnr_db), use_verify},
    {"vc_write_options", "vc_write_defaults", sizeof(struct vc_write_options),
     offsetof(struct vc_write_options, layout), use_write},
    {"vc_quantize_options", "vc_quantize_defaults", sizeof(struct vc_quantize_options),
     offsetof(struct vc_quantize_options, rules), use_quantize},
    {"vc_dequantize_options", "vc_dequantize_defaults", sizeof(struct vc_dequantize_options),
     offsetof(struct vc_dequantize_options, rules), use_dequantize},
    {"vc_prune_options", "vc_prune_defaults", sizeof(struct vc_prune_options),
     offsetof(struct vc_prune_options, block_rows), use_prune},
    {"vc_merge_options", "vc_merge_defaults", sizeof(struct vc_merge_options),
     offsetof(struct vc_merge_options, partial), use_merge},
    {"vc_depth_options", "vc_depth_defaults", sizeof(struct vc_depth_options), offsetof(struct vc_depth_options, keep),
     use_depth},
    {"vc_structured_options", "vc_structured_defaults", sizeof(struct vc_structured_options),
     offsetof(struct vc_structured_options, couplings), use_structured},
    {"vc_sensitivity_options", "vc_sensitivity_defaults", sizeof(struct vc_sensitivity_options),
     offsetof(struct vc_sensitivity_options, rules), use_sensitivity},
    {"vc_sensitivity_data_options", "vc_sensitivity_data_defaults", sizeof(struct vc_sensitivity_data_options),
     offsetof(struct vc_sensitivity_data_options, n_rows), use_sensitivity_data},
    {"vc_diff_limits", "vc_diff_limits_defaults", sizeof(struct vc_diff_limits),
     offsetof(struct vc_diff_limits, by_sqnr), use_limits},
    {"vc_graph_run_options", "vc_graph_run_defaults", sizeof(struct vc_graph_run_options),
     offsetof(struct vc_graph_run_options, user), use_graph_run},
    {"vc_graph_options", "vc_graph_defaults", sizeof(struct vc_graph_options),
     offsetof(struct vc_graph_options, weights), use_graph},
    {"vc_memory_options", "vc_memory_defaults", sizeof(struct vc_memory_options),
     offsetof(struct vc_memory_options, context_tokens), use_memory},
    {"vc_fit_options", "vc_fit_defaults", sizeof(struct vc_fit_options), offsetof(struct vc_fit_options, used_bytes),
     use_fit},
    {"vc_recipe_options", "vc_recipe_defaults", sizeof(struct vc_recipe_options),
     offsetof(struct vc_recipe_options, without), use_recipe},
    {"vc_data_options", "vc_data_defaults", sizeof(struct vc_data_options), offsetof(struct vc_data_options, mean),
     use_data},
    {"vc_distill_options", "vc_distill_defaults", sizeof(struct vc_distill_options),
     offsetof(struct vc_distill_options, optimizer), use_distill},
    {"vc_evaluate_options", "vc_evaluate_defaults", sizeof(struct vc_evaluate_options),
     offsetof(struct vc_evaluate_options, batch), use_evaluate},
    {"vc_logits_options", "vc_logits_defaults", sizeof(struct vc_logits_options),
     offsetof(struct vc_logits_options, topk), use_logits},
    {"vc_shrink_options", "vc_shrink_defaults", sizeof(struct vc_shrink_options),
     offsetof(struct vc_shrink_options, native), use_shrink},
};
#define N_ALL (sizeof all / sizeof all[0])

/* Memory of a structure that is `size` bytes for the program; what lies behind it is not the library's to read. */
static void *made(const struct public_options *o, size_t size)
{
    void *options = malloc(size);

    assert_non_null(options);
    vc_options_defaults(o->name, options, size);
    assert_memory_equal(options, &size, sizeof size);
    return options;
}

static void test_same_size(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < N_ALL; i++) {
        void *options = made(&all[i], all[i].size);

        assert_int_equal(all[i].use(options), VC_OK);
        free(options);
    }
}

/* A program that was compiled before the last fields were added. */
static void test_shorter(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < N_ALL; i++) {
        void *options = made(&all[i], all[i].first_fields);

        assert_true(all[i].first_fields < all[i].size);
        assert_int_equal(all[i].use(options), VC_OK);
        free(options);
    }
}

/* A program that was compiled with two more fields. */
static void test_longer(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < N_ALL; i++) {
        size_t size = all[i].size + 16;
        unsigned char *options = made(&all[i], size);
        char words[128];

        assert_int_equal(all[i].use(options), VC_OK);
        (void)snprintf(words, sizeof words, "struct %s sets an option that vcompress %s does not know", all[i].name,
                       vc_version());
        for (size_t at = all[i].size; at < size; at++) {
            options[at] = 1;
            assert_int_equal(all[i].use(options), VC_E_ARGUMENT);
            expect_says(ctx, words);
            options[at] = 0;
        }
        assert_int_equal(all[i].use(options), VC_OK);
        free(options);
    }
}

/* A program that has filled the structure by itself, or not at all. */
static void test_not_made(void **unused)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, sizeof(size_t) + 1, 1 << 20, SIZE_MAX - 7, SIZE_MAX};

    (void)unused;
    for (size_t i = 0; i < N_ALL; i++) {
        void *options = made(&all[i], all[i].size);
        char words[128];

        (void)snprintf(words, sizeof words, "struct %s was not made by %s", all[i].name, all[i].maker);
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            memcpy(options, &sizes[k], sizeof sizes[k]);
            assert_int_equal(all[i].use(options), VC_E_ARGUMENT);
            expect_says(ctx, words);
        }
        free(options);
    }
}

/* ---- the layout of today ---- */

/* Fields are never moved: programs have their offsets compiled in. A new field is a new line behind the last of its
 * structure. */
#if UINTPTR_MAX == UINT64_MAX && defined(__linux__)
#define AT(name, field, offset)                                \
    {                                                          \
#name "." #field, offsetof(struct name, field), offset \
    }
static const struct {
    const char *field;
    size_t is, was;
} layout[] = {
#include "option_layout.inc"
};
#endif

static void test_layout(void **unused)
{
    (void)unused;
#ifdef AT
    for (size_t i = 0; i < sizeof layout / sizeof layout[0]; i++) {
        if (layout[i].is != layout[i].was) {
            fail_msg("%s lies at %zu, programs have it at %zu", layout[i].field, layout[i].is, layout[i].was);
        }
    }
#else
    skip();
#endif
}

/* Numbers that programs may have stored: a value that is put before others would move the last. */
static void test_numbers(void **unused)
{
    (void)unused;
    assert_int_equal(VC_DTYPE_F32, 13);
    assert_int_equal(VC_DTYPE_Q2_0, 53);
    assert_int_equal(VC_PART_MASK, 9);
    assert_int_equal(VC_SCHEME_INT8, 1);
    assert_int_equal(VC_GRANULARITY_GROUP, 2);
    assert_int_equal(VC_ROLE_OTHER, 2);
    assert_int_equal(VC_TARGET_F32, 3);
    assert_int_equal(VC_NONFINITE_ZERO, 2);
    assert_int_equal(VC_OVERFLOW_SATURATE, 2);
    assert_int_equal(VC_DEFLATE_AUTO, 3);
    assert_int_equal(VC_ACTION_TIED, 5);
    assert_int_equal(VC_DIFF_ONLY_B, 4);
    assert_int_equal(VC_SEVERITY_WARNING, 1);
    assert_int_equal(VC_E_GATE, 9);
    assert_int_equal(vc_dtype_from_name("f33"), VC_DTYPE_NONE);
    assert_string_equal(vc_dtype_name(VC_DTYPE_NONE), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill),    cmocka_unit_test(test_read),    cmocka_unit_test(test_same_size),
        cmocka_unit_test(test_shorter), cmocka_unit_test(test_longer),  cmocka_unit_test(test_not_made),
        cmocka_unit_test(test_layout),  cmocka_unit_test(test_numbers),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
