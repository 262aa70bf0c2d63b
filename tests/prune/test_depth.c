/* test_depth.c - layers that are left out: which tensors they are, what is refused, second names across layers, what
 * later passes and the report see. Models lie in memory; files are tested by tests/judge/test_depth.py. */
#include "support.h"

#include <vcompress/depth.h>
#include <vcompress/prune.h>

#include "core/job/job_state.h"
#include "core/model/memory_model.h"
#include "prune/depth_lists.h"

#define MOST 24

static const uint64_t two[] = {2, 4};
static const uint64_t wide[] = {4, 4};
static float values[16];

struct net {
    size_t n;
    const char *names[MOST];
};

static struct vc_model *model_of(struct vc_ctx *ctx, const struct net *net)
{
    struct vc_memory_tensor tensors[MOST];
    struct vc_model *model = NULL;
    size_t i;

    for (i = 0; i < net->n; i++) {
        /* "!" begins the name of a wider one */
        bool is_wide = net->names[i][0] == '!';

        tensors[i] = (struct vc_memory_tensor){net->names[i] + is_wide, VC_DTYPE_F32, 2, is_wide ? wide : two, values};
    }
    assert_int_equal(vc_memory_model_create(ctx, tensors, net->n, &model), VC_OK);
    return model;
}

static const struct net plain = {
    8,
    {"embed", "m.layers.0.a", "m.layers.0.b", "m.layers.1.a", "m.layers.1.b", "m.layers.2.a", "m.layers.2.b", "head"}};

/* ---- lists ---- */

static void find(const struct net *net, const char *name, const char *list, uint64_t n_layers, const char *odd)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = model_of(ctx, net);
    struct vc_arena arena = {0};
    struct vc_layer_list found;

    if (vc_layers_find(ctx, model, name, &arena, &found) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_string_equal(found.name, list);
    assert_int_equal(found.n_layers, n_layers);
    assert_string_equal(found.odd != NULL ? found.odd->name : "", odd);
    vc_free(ctx, found.tensors);
    vc_arena_release(ctx, &arena);
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void find_none(const struct net *net, const char *name, const char *sentence)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = model_of(ctx, net);
    struct vc_arena arena = {0};
    struct vc_layer_list found;

    assert_int_equal(vc_layers_find(ctx, model, name, &arena, &found), VC_E_UNSUPPORTED);
    assert_string_equal(vc_ctx_message(ctx), sentence);
    vc_free(ctx, found.tensors);
    vc_arena_release(ctx, &arena);
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void test_lists(void **state)
{
    (void)state;
    find(&plain, NULL, "m.layers", 3, "");
    find(&plain, "m.layers", "m.layers", 3, "");
    find(&(struct net){4, {"blk.0.w", "blk.1.w", "blk.2x.w", "my.blk.0"}}, "blk", "blk", 2, "");
}

static void test_odd(void **state)
{
    (void)state;
    find(&(struct net){3, {"h.0.a", "h.1.a", "h.1.b"}}, NULL, "h", 2, "h.1.b");
    find(&(struct net){3, {"h.0.a", "h.0.b", "h.1.a"}}, NULL, "h", 2, "h.0.b");
    find(&(struct net){4, {"h.0.a", "h.0.c", "h.1.b", "h.1.c"}}, NULL, "h", 2, "h.0.a");
    find(&(struct net){2, {"h.0.a", "!h.1.a"}}, NULL, "h", 2, "h.0.a");
    /* Numbers of other things in front, behind and inside. */
    find(&(struct net){4,
                       {"0.enc.layer.0.experts.0.w", "0.enc.layer.0.experts.1.w", "0.enc.layer.1.experts.0.w",
                        "0.enc.layer.1.experts.1.w"}},
         NULL, "0.enc.layer", 2, "");
    find(&(struct net){2, {"enc/layers/0/w", "enc/layers/1/w"}}, NULL, "enc/layers", 2, "");
    find(&(struct net){2, {"stages.0.w", "!stages.1.w"}}, "stages", "stages", 2, "stages.0.w");
}

static void test_no_lists(void **state)
{
    (void)state;
    find_none(&(struct net){2, {"stages.0.w", "stages.1.w"}}, NULL,
              "has no list of layers that the names of its tensors tell, such as model.layers.0.x; layers names one");
    find_none(&(struct net){2, {"layers.01.w", "layers.x.w"}}, NULL,
              "has no list of layers that the names of its tensors tell, such as model.layers.0.x; layers names one");
    find_none(&plain, "m.layer", "layers: no tensor is called 'm.layer.0' and so on");
    find_none(&(struct net){3, {"e.layers.0.w", "d.layers.0.w", "d.layers.1.w"}}, NULL,
              "has 2 lists of layers: d.layers, e.layers; layers says which");
    find_none(&(struct net){2, {"h.0.w", "h.2.w"}}, NULL, "h: there is no layer 1, but a layer 2");
    find_none(&(struct net){1, {"h.1.w"}}, NULL, "h: there is no layer 0, but a layer 1");
    find_none(&(struct net){8, {"a.h.0", "b.h.0", "c.h.0", "d.h.0", "e.h.0", "f.h.0", "g.h.0", "i.h.0"}}, NULL,
              "has 8 lists of layers: a.h, b.h, c.h, d.h, e.h, f.h, ...; layers says which");
}

/* ---- options ---- */

static enum vc_status plan(struct vc_ctx *ctx, const struct vc_model *model, const char *drop, const char *keep,
                           const char *layers, struct vc_job **job)
{
    struct vc_depth_options options;
    enum vc_status status;

    vc_depth_defaults(&options);
    options.drop = drop;
    options.keep = keep;
    options.layers = layers;
    VC_TRY(vc_job_create(ctx, model, job));
    VC_TRY(vc_job_add_depth(ctx, *job, &options));
    VC_TRY(vc_job_plan(ctx, *job, NULL));
out:
    return status;
}

/* What is left, by the names of the output: "embed a b". */
static void expect_names(const struct net *net, const char *drop, const char *keep, const char *layers,
                         const char *want)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = model_of(ctx, net);
    struct vc_job *job = NULL;
    char got[512] = "";
    size_t i;

    if (plan(ctx, model, drop, keep, layers, &job) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    for (i = 0; i < job->outs.n; i++) {
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i == 0 ? "" : " ", vc_out_at(&job->outs, i).name);
    }
    assert_string_equal(got, want);
    vc_job_free(job);
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void refuse(const struct net *net, const char *drop, const char *keep, const char *layers, const char *sentence)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = model_of(ctx, net);
    struct vc_job *job = NULL;

    assert_int_not_equal(plan(ctx, model, drop, keep, layers, &job), VC_OK);
    expect_says(ctx, sentence);
    vc_job_free(job);
    vc_model_close(model);
    test_ctx_done(ctx);
}

static void test_numbers(void **state)
{
    (void)state;
    expect_names(&plain, "1", NULL, NULL, "embed m.layers.0.a m.layers.0.b m.layers.1.a m.layers.1.b head");
    expect_names(&plain, "0", NULL, NULL, "embed m.layers.0.a m.layers.0.b m.layers.1.a m.layers.1.b head");
    expect_names(&plain, "2,0", NULL, NULL, "embed m.layers.0.a m.layers.0.b head");
    expect_names(&plain, "1-2,1", NULL, NULL, "embed m.layers.0.a m.layers.0.b head");
    expect_names(&plain, NULL, "2", NULL, "embed m.layers.0.a m.layers.0.b head");
    expect_names(&plain, NULL, "0-2", NULL,
                 "embed m.layers.0.a m.layers.0.b m.layers.1.a m.layers.1.b m.layers.2.a m.layers.2.b head");
    refuse(&plain, NULL, NULL, NULL, "layers are given by one of drop and keep");
    refuse(&plain, "1", "0", NULL, "layers are given by one of drop and keep");
    refuse(&plain, "", NULL, NULL, "drop: '' is no list of layers: numbers from 0 on and ranges, such as 3,5-7");
    refuse(&plain, "1,", NULL, NULL, "drop: '1,' is no list of layers");
    refuse(&plain, NULL, "1 2", NULL, "keep: '1 2' is no list of layers");
    refuse(&plain, "-1", NULL, NULL, "drop: '-1' is no list of layers");
    refuse(&plain, "2-1", NULL, NULL, "drop: '2-1' is no list of layers");
    refuse(&plain, "1-", NULL, NULL, "drop: '1-' is no list of layers");
    refuse(&plain, "99999999999999999999", NULL, NULL, "drop: '99999999999999999999' is no list of layers");
    refuse(&plain, "3", NULL, NULL, "drop: there is no layer 3: m.layers has 3, numbered from 0 on");
    refuse(&plain, "0-2", NULL, NULL, "drop: no layer of m.layers would be left");
}

/* Layers that differ go where the list is named; what others may read stays. */
static void test_kinds(void **state)
{
    static const struct net kinds = {6, {"h.0.a", "h.0.x", "h.1.a", "h.1.y", "h.2.a", "h.2.y"}};
    static const struct net shared = {4, {"h.0.a", "h.0.bias", "h.1.a", "h.2.a"}};
    static const struct net hybrid = {6, {"h.0.a", "h.1.b", "h.1.shared", "h.2.a", "h.3.b", "h.4.b"}};

    (void)state;
    refuse(&kinds, "1", NULL, NULL, "the layers of h are not alike: h.0.x is not there in every layer; layers h says");
    refuse(&(struct net){2, {"h.0.a", "!h.1.a"}}, "1", NULL, NULL,
           "the layers of h are not alike: h.0.a has another shape in other layers; layers h says");
    expect_names(&kinds, "0", NULL, "h", "h.0.a h.0.y h.1.a h.1.y");
    expect_names(&kinds, "1", NULL, "h", "h.0.a h.0.x h.1.a h.1.y");
    refuse(&shared, "0", NULL, "h", "h.0.bias: no other layer has it, and the others may read it: layer 0 has to stay");
    expect_names(&shared, "1", NULL, "h", "h.0.a h.0.bias h.1.a");
    refuse(&hybrid, "1", NULL, "h",
           "h.1.shared: no other layer has it, and the others may read it: layer 1 has to stay");
    expect_names(&hybrid, "3", NULL, "h", "h.0.a h.1.b h.1.shared h.2.a h.3.b");
}

static void test_roles(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = model_of(ctx, &plain);
    struct vc_job *job = NULL;

    (void)state;
    model->tensors[7].role = VC_ROLE_OPTIMIZER;
    assert_int_equal(plan(ctx, model, "1", NULL, NULL, &job), VC_E_UNSUPPORTED);
    expect_says(ctx, "head: is optimizer state, which belongs to all layers; it is left out by vc_job_drop optimizer");
    assert_int_equal(vc_job_drop(ctx, job, VC_ROLE_OPTIMIZER), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, NULL), VC_OK);
    vc_job_free(job);
    vc_model_close(model);
    test_ctx_done(ctx);
}

/* ---- the report, and what other passes see ---- */

static void test_report(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = model_of(ctx, &plain);
    const struct vc_report *report;
    struct vc_report_row row;
    struct vc_job *job = NULL;

    (void)state;
    assert_int_equal(plan(ctx, model, "0", NULL, NULL, &job), VC_OK);
    report = vc_job_report(job);
    assert_string_equal(report->command, "prune --drop-layers 0");
    assert_string_equal(report->note, "");
    assert_string_equal(report->layers->list, "m.layers");
    assert_int_equal(report->layers->before, 3);
    assert_int_equal(report->layers->after, 2);
    assert_int_equal(report->layers->n_left_out, 1);
    assert_int_equal(report->layers->left_out[0], 0);
    assert_int_equal(report->totals.n_params, 64);
    assert_int_equal(report->n_params_after, 48);
    assert_true(report->totals.bits_per_weight == 32.0);
    assert_int_equal(report->totals.n_dropped, 2);
    assert_int_equal(report->totals.host_after, 192);
    assert_true(vc_report_get_row(report, 1, &row) && row.action == VC_ACTION_DROPPED);
    assert_string_equal(row.reason, "its layer is left out");
    assert_true(vc_report_get_row(report, 0, &row) && row.name_after == NULL);
    assert_true(vc_report_get_row(report, 1, &row) && row.name_after == NULL);
    assert_true(vc_report_get_row(report, 7, &row) && row.name_after == NULL);
    assert_false(vc_report_get_row(report, 8, &row));
    assert_true(vc_report_get_row(report, 3, &row) && row.action == VC_ACTION_KEPT);
    assert_string_equal(row.name, "m.layers.1.a");
    assert_string_equal(row.name_after, "m.layers.0.a");
    vc_job_free(job);
    vc_model_close(model);
    test_ctx_done(ctx);
}

/* Rules of a pass behind it are about the names that are left, and layers go again by their new numbers. */
static void test_chain(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = model_of(ctx, &plain);
    const struct vc_rule rules[] = {{"m.layers.0.*", true}, {"*", false}};
    const struct vc_report *report;
    struct vc_prune_options prune;
    struct vc_depth_options depth;
    struct vc_report_row row;
    struct vc_job *job = NULL;

    (void)state;
    vc_depth_defaults(&depth);
    vc_prune_defaults(&prune);
    prune.sparsity = "0.5";
    prune.rules = rules;
    prune.n_rules = 1;
    depth.drop = "0";
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_depth(ctx, job, &depth), VC_OK);
    depth.drop = "1";
    assert_int_equal(vc_job_add_depth(ctx, job, &depth), VC_OK);
    prune.rules = rules;
    prune.n_rules = 2;
    assert_int_equal(vc_job_add_prune(ctx, job, &prune), VC_OK);
    if (vc_job_plan(ctx, job, NULL) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    report = vc_job_report(job);
    assert_int_equal(report->layers->before, 3);
    assert_int_equal(report->layers->after, 1);
    assert_int_equal(report->layers->left_out[1], 2);
    assert_true(vc_report_get_row(report, 3, &row) && row.action == VC_ACTION_KEPT); /* the last rule that matches */
    assert_string_equal(row.reason, "excluded by '*'");
    assert_string_equal(row.name_after, "m.layers.0.a");
    assert_true(vc_report_get_row(report, 5, &row) && row.action == VC_ACTION_DROPPED);
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx); /* which has the kernels */
}

/* A second name outlives the layer whose tensor it was; steps of an earlier pass would be lost with that. */
static void test_second_names(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = model_of(ctx, &plain);
    struct vc_prune_options prune;
    struct vc_depth_options depth;
    struct vc_job *job = NULL;

    (void)state;
    model->tensors[5].alias_of = 1; /* m.layers.2.a is m.layers.0.a */
    assert_int_equal(plan(ctx, model, "0", NULL, NULL, &job), VC_OK);
    assert_int_equal(job->outs.n, 6);
    assert_string_equal(vc_out_at(&job->outs, 3).name, "m.layers.1.a");
    assert_false(vc_out_at(&job->outs, 3).alias);
    vc_job_free(job);

    vc_prune_defaults(&prune);
    vc_depth_defaults(&depth);
    prune.sparsity = "0.5";
    depth.drop = "0";
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_prune(ctx, job, &prune), VC_OK);
    assert_int_equal(vc_job_add_depth(ctx, job, &depth), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, NULL), VC_OK); /* outputs of memory have no second names */
    vc_job_free(job);
    vc_model_close(model);
    vc_ctx_free(ctx); /* which has the kernels */
}

static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model = model_of(ctx, &plain);
    uint64_t before = vc_pool_in_use(ctx->shared->pool);
    enum vc_status status = VC_E_NOMEM;
    uint64_t n;

    (void)state;
    for (n = 1; status != VC_OK; n++) {
        struct vc_job *job = NULL;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = plan(ctx, model, "1", NULL, "m.layers", &job);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        vc_job_free(job);
        assert_true(status == VC_OK || status == VC_E_NOMEM);
        assert_int_equal(vc_pool_in_use(ctx->shared->pool), before);
    }
    assert_true(n > 15);
    vc_model_close(model);
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),       cmocka_unit_test(test_odd),   cmocka_unit_test(test_no_lists),
        cmocka_unit_test(test_numbers),     cmocka_unit_test(test_kinds), cmocka_unit_test(test_roles),
        cmocka_unit_test(test_report),      cmocka_unit_test(test_chain), cmocka_unit_test(test_second_names),
        cmocka_unit_test(test_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
