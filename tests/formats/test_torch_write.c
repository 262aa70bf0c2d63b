/* test_torch_write.c - PyTorch output: the tree is written again, with its tied tensors, drops and keys; the way
 * through other formats and back gives the same tensors; failing allocations leave no output. The reader is the judge
 * here; tests/judge/test_torch.py has PyTorch. */
#include "torch_files.h"

#include <unistd.h>

#include "formats/torch/torch.h"
#include "job_apply.h"
#include "support_options.h"
#include "zip_builder.h"

/* What the tests here ask for, in one line. */
struct how {
    bool int8, drop_optimizer, drop_other;
    const char *key;
};

static struct task task_of(struct how how)
{
    struct task task = how.int8 ? task_int8() : task_copy();

    task.open.key = how.key;
    task.drop_optimizer = how.drop_optimizer;
    task.drop_other = how.drop_other;
    return task;
}

static void must_convert(struct vc_ctx *ctx, const char *from, const char *to, struct how how)
{
    must_run(ctx, from, to, task_of(how));
}

static void expect_tensor(const struct vc_model *model, const char *name, enum vc_dtype dtype, enum vc_role role)
{
    size_t index = vc_model_find(model, name);

    if (index == VC_NO_TENSOR) {
        fail_msg("%s is missing", name);
    }
    assert_int_equal(model->tensors[index].dtype, dtype);
    assert_int_equal(model->tensors[index].role, role);
}

/* The tree survives; the optimizer too, and "args" cannot. */
static void test_round_trip(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    uint64_t in_use;
    size_t w;

    (void)state;
    save_training("t.pt");
    must_convert(ctx, "t.pt", "q.pt", (struct how){.int8 = true});
    in_use = vc_pool_in_use(ctx->shared->pool); /* the kernels, which the context keeps */
    model = open_saved(ctx, "q.pt", NULL);
    assert_int_equal(vc_model_facts(model)->n_tensors, 7);
    expect_tensor(model, "w", VC_DTYPE_I8, VC_ROLE_WEIGHT);
    expect_tensor(model, "w.scale", VC_DTYPE_F32, VC_ROLE_WEIGHT);
    expect_tensor(model, "tied", VC_DTYPE_I8, VC_ROLE_WEIGHT);
    expect_tensor(model, "tied.scale", VC_DTYPE_F32, VC_ROLE_WEIGHT);
    expect_tensor(model, "optimizer.state.5.exp_avg", VC_DTYPE_F32, VC_ROLE_OPTIMIZER);
    w = vc_model_find(model, "w");
    assert_non_null(model->tensors[w].quant);
    assert_int_equal(model->tensors[vc_model_find(model, "tied")].alias_of, w);
    assert_string_equal(vc_model_facts(model)->parts[0].what, "int 7");
    assert_string_equal(vc_model_facts(model)->parts[1].name, "model_state_dict");
    assert_int_equal(vc_model_facts(model)->n_parts, 4);
    vc_model_close(model);
    must_convert(ctx, "q.pt", "c.pt", (struct how){.int8 = false}); /* a copy of a quantized file */
    must_convert(ctx, "c.pt", "d.pt", (struct how){.int8 = false});
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), in_use);
    {
        FILE *a = fopen(in_folder("c.pt"), "rb");
        FILE *b = fopen(in_folder("d.pt"), "rb");
        int x;

        do {
            x = fgetc(a);
            assert_int_equal(x, fgetc(b));
        } while (x != EOF);
        (void)fclose(a);
        (void)fclose(b);
    }
    remove_path("t.pt");
    remove_path("q.pt");
    remove_path("c.pt");
    remove_path("d.pt");
    vc_ctx_free(ctx);
}

static void test_drop(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_write_options write = support_write(in_folder("d.pt"));
    const struct vc_report *report;
    struct vc_model *model;
    struct vc_job *job;

    (void)state;
    save_training("t.pt");
    assert_int_equal(vc_model_open(ctx, in_folder("t.pt"), NULL, &model), VC_OK);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_drop(ctx, job, VC_ROLE_OPTIMIZER), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    report = vc_job_report(job);
    assert_int_equal(report->totals.n_dropped, 1);
    assert_int_equal(report->totals.n_tied, 1);
    assert_int_equal(report->totals.optimizer_before, 2048);
    assert_int_equal(report->totals.optimizer_after, 0);
    assert_int_equal(report->totals.other_after, 5);
    assert_int_equal(report->totals.host_before, 2048 + 24 + 2048 + 5);
    assert_int_equal(report->totals.host_after, 2048 + 24 + 5);
    assert_int_equal(report->totals.n_params, 512 + 3);
    assert_int_equal(report->rows[3].action, VC_ACTION_DROPPED);
    assert_string_equal(report->rows[3].reason, "optimizer state");
    assert_int_equal(report->rows[1].action, VC_ACTION_TIED);
    assert_non_null(strstr(report->note, "args (argparse.Namespace)"));
    vc_job_free(job);
    vc_model_close(model);
    model = open_saved(ctx, "d.pt", NULL);
    assert_int_equal(vc_model_facts(model)->n_tensors, 4);
    assert_int_equal(vc_model_facts(model)->n_parts, 3);
    vc_model_close(model);
    must_convert(ctx, "t.pt", "d.pt", (struct how){.drop_optimizer = true, .drop_other = true});
    model = open_saved(ctx, "d.pt", NULL);
    assert_int_equal(vc_model_facts(model)->n_tensors, 3);
    assert_int_equal(vc_model_facts(model)->n_parts, 1);
    vc_model_close(model);
    remove_path("t.pt");
    remove_path("d.pt");
    test_ctx_done(ctx);
}

/* A key that was given is remembered beside the manifest, whose names are those below it. */
static void test_key_is_kept(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;
    unsigned i;

    (void)state;
    save_training("t.pt");
    must_convert(ctx, "t.pt", "q.pt", (struct how){.int8 = true, .key = "optimizer"});
    for (i = 0; i < 2; i++) {
        model = open_saved(ctx, "q.pt", i == 0 ? "optimizer" : NULL);
        assert_non_null(model->tensors[vc_model_find(model, "state.5.exp_avg")].quant);
        vc_model_close(model);
    }
    model = open_saved(ctx, "q.pt", "model_state_dict");
    expect_tensor(model, "w", VC_DTYPE_F32, VC_ROLE_WEIGHT);
    expect_tensor(model, "optimizer.state.5.exp_avg", VC_DTYPE_I8, VC_ROLE_OPTIMIZER);
    vc_model_close(model);
    remove_path("t.pt");
    remove_path("q.pt");
    vc_ctx_free(ctx);
}

/* What stands behind the chosen one in a list keeps its name, and so its values. */
static void test_key_in_list(void **state)
{
    static const size_t sizes[] = {48};
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = {NULL, 0, 0};
    struct bytes b;
    struct vc_model *model;

    (void)state;
    pk_start(&pickle);
    pk_raw(&pickle, "}(");
    pk_string(&pickle, "nets");
    pk_raw(&pickle, "](}");
    entry(&pickle, "w", "FloatStorage", "0", 12, "6", "1");
    pk_raw(&pickle, "s}");
    entry(&pickle, "w", "FloatStorage", "0", 12, "12", "1");
    pk_raw(&pickle, "se");
    pk_string(&pickle, "last");
    pk_raw(&pickle, "}");
    entry(&pickle, "w", "FloatStorage", "0", 12, "4", "1");
    pk_raw(&pickle, "su.");
    b = torch_archive(&pickle, NULL, sizes, 1, NULL);
    (void)save("a.pt", &b);
    must_convert(ctx, "a.pt", "o.pt", (struct how){.key = "nets.0"});
    model = open_saved(ctx, "o.pt", "last");
    assert_int_equal(vc_model_facts(model)->n_tensors, 3);
    assert_int_equal(model->tensors[vc_model_find(model, "w")].n_elems, 4);
    assert_int_equal(model->tensors[vc_model_find(model, "nets.0.w")].n_elems, 6);
    assert_int_equal(model->tensors[vc_model_find(model, "nets.1.w")].n_elems, 12);
    vc_model_close(model);
    bytes_release(&b);
    bytes_release(&pickle);
    remove_path("a.pt");
    remove_path("o.pt");
    vc_ctx_free(ctx);
}

/* Through npz and safetensors and back: the same tensors; two names of one tensor become two. */
static void test_other_formats(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_model *model;

    (void)state;
    save_training("t.pt");
    must_convert(ctx, "t.pt", "t.npz", (struct how){.int8 = true, .drop_optimizer = true, .drop_other = true});
    must_convert(ctx, "t.npz", "u.pth", (struct how){.int8 = false});
    model = open_saved(ctx, "u.pth", NULL);
    assert_int_equal(vc_model_facts(model)->n_tensors, 5);
    assert_non_null(model->tensors[vc_model_find(model, "w")].quant);
    assert_non_null(model->tensors[vc_model_find(model, "tied")].quant);
    assert_int_equal(model->tensors[vc_model_find(model, "tied")].alias_of, VC_NO_TENSOR);
    vc_model_close(model);
    must_convert(ctx, "u.pth", "u.safetensors", (struct how){.int8 = false});
    must_convert(ctx, "u.safetensors", "v.bin", (struct how){.int8 = false});
    model = open_saved(ctx, "v.bin", NULL);
    assert_string_equal(vc_model_facts(model)->format, "torch");
    assert_non_null(model->tensors[vc_model_find(model, "tied")].quant);
    vc_model_close(model);
    remove_path("t.pt");
    remove_path("t.npz");
    remove_path("u.pth");
    remove_path("u.safetensors");
    remove_path("v.bin");
    vc_ctx_free(ctx);
}

/* Tensors that cannot be read stop a job, unless they are dropped; the others are listed. */
static void test_refused_tensors(void **state)
{
    static const size_t sizes[] = {48};
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = {NULL, 0, 0};
    struct bytes b;
    struct vc_model *model;

    (void)state;
    pk_start(&pickle);
    pk_raw(&pickle, "}(");
    pk_string(&pickle, "model");
    pk_raw(&pickle, "}");
    entry(&pickle, "w", "FloatStorage", "0", 12, "12", "1");
    pk_raw(&pickle, "s");
    pk_string(&pickle, "extra");
    pk_raw(&pickle, "}");
    pk_string(&pickle, "s");
    pk_tensor_by(&pickle, "_rebuild_sparse_tensor", "FloatStorage", "0", 12, 0, "12", "1");
    pk_raw(&pickle, "su.");
    b = torch_archive(&pickle, NULL, sizes, 1, NULL);
    (void)save("a.pt", &b);
    model = open_saved(ctx, "a.pt", NULL);
    assert_int_equal(vc_model_facts(model)->n_tensors, 1);
    assert_int_equal(model->n_refused, 1);
    vc_model_close(model);
    must_refuse(ctx, "a.pt", "o.pt", task_copy(), "extra.s: is a sparse tensor");
    assert_int_equal(ctx->status, VC_E_UNSUPPORTED);
    must_convert(ctx, "a.pt", "o.pt", (struct how){.drop_other = true});
    bytes_release(&b);
    bytes_release(&pickle);
    remove_path("a.pt");
    remove_path("o.pt");
    test_ctx_done(ctx);
}

/* torch._utils._rebuild_parameter(<the tensor w of storage 0>, requires_grad, OrderedDict()) */
static void add_parameter(struct bytes *b, const char *key, bool requires_grad)
{
    pk_string(b, key);
    pk_global(b, "torch._utils", "_rebuild_parameter");
    pk_raw(b, "(");
    pk_tensor(b, "FloatStorage", "0", 12, 0, "3,4", "4,1");
    pk_raw(b, requires_grad ? "\x88" : "\x89");
    pk_global(b, "collections", "OrderedDict");
    pk_raw(b, ")RtR");
}

/* Parameters stay parameters and keep what they say of gradients, in any type of floats; codes are plain tensors. A
 * number is a tensor without dimensions. */
static void test_parameters(void **state)
{
    static const size_t sizes[] = {48, 4};
    static const char *const outputs[] = {"c.pt", "h.pt", "q.pt"};
    struct task tasks[] = {task_copy(), task_fp16(), task_int8()};
    struct vc_ctx *ctx = test_ctx();
    struct bytes pickle = {NULL, 0, 0};
    size_t i;

    (void)state;
    pk_start(&pickle);
    pk_raw(&pickle, "}(");
    add_parameter(&pickle, "p", true);
    add_parameter(&pickle, "f", false);
    entry(&pickle, "s", "FloatStorage", "1", 1, "", "");
    pk_raw(&pickle, "u.");
    (void)save_own("p.pt", torch_archive(&pickle, NULL, sizes, 2, NULL));
    bytes_release(&pickle);
    for (i = 0; i < 3; i++) {
        struct vc_model *model;
        const struct torch *file;

        must_run(ctx, "p.pt", outputs[i], tasks[i]);
        model = open_saved(ctx, outputs[i], NULL);
        file = model->self;
        assert_int_equal(model->tensors[vc_model_find(model, "s")].n_dims, 0);
        assert_int_equal(file->found[vc_model_find(model, "p")].tensor.parameter, i != 2);
        assert_int_equal(file->found[vc_model_find(model, "p")].tensor.requires_grad, i != 2);
        assert_int_equal(file->found[vc_model_find(model, "f")].tensor.parameter, i != 2);
        assert_false(file->found[vc_model_find(model, "f")].tensor.requires_grad);
        vc_model_close(model);
        remove_path(outputs[i]);
    }
    remove_path("p.pt");
    vc_ctx_free(ctx);
}

/* The n-th allocation fails, for every n, in reading and writing. */
static void test_allocations(void **state)
{
    struct vc_ctx *ctx = test_ctx();

    (void)state;
    save_training("t.pt");
    fail_each_allocation(ctx, "t.pt", "q.pt", task_int8(), 40);
    remove_path("t.pt");
    remove_path("q.pt");
    vc_ctx_free(ctx);
}

/* The training checkpoint with NaN as the first element of "w", and so of "tied". */
static void save_training_nan(const char *name)
{
    struct bytes pickle = training_pickle();
    struct zip_builder z = {0};
    size_t i;

    zip_add(&z, "archive/data.pkl", pickle.p, pickle.n, NULL);
    for (i = 0; i < 4; i++) {
        struct bytes data = {NULL, 0, 0};
        char member[40];

        (void)snprintf(member, sizeof member, "archive/data/%zu", i);
        if (i == 0) {
            bytes_u32(&data, 0x7fc00000u);
        }
        bytes_fill(&data, 0, training_sizes[i] - data.n);
        zip_add_bytes(&z, member, data, NULL);
    }
    zip_finish(&z, ZIP_END_PLAIN, 0);
    (void)save(name, &z.out);
    zip_release(&z);
    bytes_release(&pickle);
}

/* A weight with two names that the look leaves as it is: both names keep the type of the source. */
static void test_tied_is_kept(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct task task = task_int8();
    struct vc_model *model;

    (void)state;
    save_training_nan("t.pt");
    task.quantize.nonfinite = VC_NONFINITE_KEEP;
    must_run(ctx, "t.pt", "q.pt", task);
    model = open_saved(ctx, "q.pt", NULL);
    expect_tensor(model, "w", VC_DTYPE_F32, VC_ROLE_WEIGHT);
    expect_tensor(model, "tied", VC_DTYPE_F32, VC_ROLE_WEIGHT);
    vc_model_close(model);
    remove_path("t.pt");
    remove_path("q.pt");
    vc_ctx_free(ctx);
}

/* The steps of a weight with two names are planned for the first one; both names give what they make. */
static void test_apply_tied(void **state)
{
    struct vc_ctx *ctx = test_ctx();
    struct vc_write_options write = support_write(in_folder("q.pt"));
    struct vc_quantize_options quantize = support_quantize();
    struct vc_model *model;
    struct vc_job *job;
    int8_t codes[2][512];

    (void)state;
    save_training("t.pt");
    write.dry_run = true;
    quantize.nonfinite = VC_NONFINITE_ZERO;
    assert_int_equal(vc_model_open(ctx, in_folder("t.pt"), NULL, &model), VC_OK);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &quantize), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(job_apply(ctx, job, vc_model_find(model, "w"), VC_PART_CODES, codes[0], 512), VC_OK);
    assert_int_equal(job_apply(ctx, job, vc_model_find(model, "tied"), VC_PART_CODES, codes[1], 512), VC_OK);
    assert_memory_equal(codes[0], codes[1], 512);
    vc_job_free(job);
    vc_model_close(model);
    remove_path("t.pt");
    vc_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_drop),
        cmocka_unit_test(test_key_is_kept),   cmocka_unit_test(test_key_in_list),
        cmocka_unit_test(test_other_formats), cmocka_unit_test(test_refused_tensors),
        cmocka_unit_test(test_parameters),    cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_tied_is_kept),  cmocka_unit_test(test_apply_tied),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
