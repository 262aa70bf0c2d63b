/* test_fake_quant_codes.c - fake quantization to codes whose scales are searched: the weights of the forward pass are
 * what quantize and dequantize make of the masters, bit for bit; the written codes say the weights that were judged.
 * Students of floats and of codes, in jobs of several passes, masks, threads, interrupted runs, memory, refusals. */
#include "fake_quant_test.h"

#include "core/base/pool.h"
#include "core/model/code_schemes.h"
#include "distill/update/fake_quant_codes.h"

static const struct scheme schemes[] = {
    {VC_TARGET_INT4, VC_GRANULARITY_GROUP, 8, VC_AXIS_OUTPUT, false},
    {VC_TARGET_INT4, VC_GRANULARITY_GROUP, 15, VC_AXIS_OUTPUT, false}, /* rows of 40 have a short last group */
    {VC_TARGET_INT4, VC_GRANULARITY_CHANNEL, 0, VC_AXIS_OUTPUT, false},
    {VC_TARGET_NF4, VC_GRANULARITY_GROUP, 16, VC_AXIS_OUTPUT, false},
    {VC_TARGET_FP4, VC_GRANULARITY_GROUP, 64, VC_AXIS_OUTPUT, false},
    {VC_TARGET_MXFP4, VC_GRANULARITY_GROUP, 32, VC_AXIS_OUTPUT, false},
    {VC_TARGET_MXFP8, VC_GRANULARITY_GROUP, 32, VC_AXIS_OUTPUT, false},
    {VC_TARGET_NVFP4, VC_GRANULARITY_GROUP, 16, VC_AXIS_OUTPUT, false},
    {VC_TARGET_FP8, VC_GRANULARITY_CHANNEL, 0, VC_AXIS_OUTPUT, false},
    {VC_TARGET_INT2, VC_GRANULARITY_GROUP, 8, VC_AXIS_OUTPUT, false},
    {VC_TARGET_INT3, VC_GRANULARITY_GROUP, 15, VC_AXIS_OUTPUT, false},
    {VC_TARGET_INT5, VC_GRANULARITY_CHANNEL, 0, VC_AXIS_OUTPUT, false},
    {VC_TARGET_INT6, VC_GRANULARITY_GROUP, 16, VC_AXIS_OUTPUT, false},
    {VC_TARGET_TERNARY, VC_GRANULARITY_GROUP, 8, VC_AXIS_OUTPUT, false},
};
#define N_SCHEMES (sizeof schemes / sizeof schemes[0])
#define INT4      (&schemes[1])
#define NVFP4     (&schemes[7])

/* Two layers that runtimes join, so that nvfp4 gives them one global scale. */
static const char text[] = "input x [batch, 40]\nlinear m.q_proj 24\nrelu\nlinear m.k_proj 3\n";
static const char *const names[] = {"m.q_proj.weight", "m.k_proj.weight"};
static const uint64_t shapes[2][2] = {{24, 40}, {3, 24}};
static const size_t sizes[] = {24 * 40, 3 * 24};
#define MOST (24 * 40)

static enum vc_scheme code_of(const struct scheme *scheme)
{
    static const enum vc_scheme of[] = {[VC_TARGET_INT4] = VC_SCHEME_INT4,   [VC_TARGET_FP8] = VC_SCHEME_FP8,
                                        [VC_TARGET_MXFP8] = VC_SCHEME_MXFP8, [VC_TARGET_MXFP4] = VC_SCHEME_MXFP4,
                                        [VC_TARGET_NVFP4] = VC_SCHEME_NVFP4, [VC_TARGET_NF4] = VC_SCHEME_NF4,
                                        [VC_TARGET_FP4] = VC_SCHEME_FP4,     [VC_TARGET_INT2] = VC_SCHEME_INT2,
                                        [VC_TARGET_INT3] = VC_SCHEME_INT3,   [VC_TARGET_INT5] = VC_SCHEME_INT5,
                                        [VC_TARGET_INT6] = VC_SCHEME_INT6,   [VC_TARGET_TERNARY] = VC_SCHEME_TERNARY};

    return of[scheme->target];
}

/* A network of that text, its weights of one type; the first layer has the larger numbers. Its first group of 15 gets
 * the codes 1 and 6 of int4, and a search over the values of these codes finds another scale. */
static void write_joined(const char *name, uint32_t seed, enum vc_dtype dtype)
{
    static const double unstable[] = {0.125, 0.6125}; /* 14 times, once */
    static double wide[2][MOST];
    static float floats[2][MOST];
    static uint16_t halves[2][MOST];
    float bias[24] = {0};
    struct vc_memory_tensor tensors[4];

    for (unsigned k = 0; k < 2; k++) {
        numbers(seed + k, sizes[k], wide[k]);
        for (size_t i = 0; i < sizes[k]; i++) {
            wide[k][i] = k == 0 && i < 15 ? unstable[i / 14] : wide[k][i] * (k == 0 ? 0.5 : 0.25);
            floats[k][i] = (float)wide[k][i];
            halves[k][i] = vc_f32_to_bf16(floats[k][i]);
        }
        tensors[k] = (struct vc_memory_tensor){names[k], dtype, 2, shapes[k],
                                               dtype == VC_DTYPE_F64    ? (void *)wide[k]
                                               : dtype == VC_DTYPE_BF16 ? (void *)halves[k]
                                                                        : floats[k]};
    }
    tensors[2] = (struct vc_memory_tensor){"m.q_proj.bias", VC_DTYPE_F32, 1, &shapes[0][0], bias};
    tensors[3] = (struct vc_memory_tensor){"m.k_proj.bias", VC_DTYPE_F32, 1, &shapes[1][0], bias};
    write_file(name, tensors, 4);
}

static int begin_joined(void **state)
{
    int result = begin(state);

    if (result == 0) {
        (void)save_text("net.txt", text);
        write_joined("teacher.npz", 100, VC_DTYPE_F32);
    }
    return result;
}

static void open_joined(struct run *run, const struct scheme *scheme, struct vc_quantize_options *fake_quant)
{
    static const uint64_t shape[2] = {ROWS, 40};
    static double x[ROWS * 40];
    const struct vc_memory_tensor data[] = {{"x", VC_DTYPE_F64, 2, shape, x}};

    numbers(7, (size_t)ROWS * 40, x);
    write_file("rows.npz", data, 1);
    open_run(run);
    set_quantize(scheme, fake_quant);
    run->options.precision.fake_quant = fake_quant;
    run->options.precision.kind = VC_GRAPH_F32;
    run->options.eval.rows = &run->data;
    run->options.optimizer.lr = 0.02;
    run->options.tell = NULL;
}

/* The written weights are codes of that scheme, made of weights of that type. */
static void expect_codes(const char *file, const struct scheme *scheme, enum vc_dtype source)
{
    struct vc_model *model = NULL;

    assert_int_equal(vc_model_open(ctx, in_folder(file), NULL, &model), VC_OK);
    for (unsigned k = 0; k < 2; k++) {
        const struct vc_quant *quant = model->tensors[vc_model_find(model, names[k])].quant;

        assert_non_null(quant);
        assert_int_equal(quant->scheme, code_of(scheme));
        assert_int_equal(quant->granularity, scheme->granularity);
        assert_true(scheme->granularity != VC_GRANULARITY_GROUP || quant->group_size == scheme->group);
        assert_int_equal(quant->source_dtype, source);
    }
    vc_model_close(model);
}

/* ---- values ---- */

/* Weights of every size: groups of zeros, one that stands out, numbers that are no normal floats, large ones.
 * The second tensor begins with large values: beside those of the first, smaller ones would all be 0 in nvfp4. */
static void make_values(size_t n, uint32_t seed, float *x)
{
    static const float factors[] = {1, 0, 1e-39f, 1e30f, 1e-3f, 1e-42f, 17, 1e-6f};
    static double random[MOST];

    numbers(seed, n, random);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)random[i] * factors[(i / 64 + 3 * (seed % 10)) % 8] * (i % 37 == 5 ? 9.0f : 1.0f);
    }
}

/* The forward pass alone: no file, no network. */
static void round_all(const struct scheme *scheme, bool f64, float x[2][MOST], float y[2][MOST])
{
    static double wide[4][MOST];
    static float narrow[4][MOST];
    const struct vc_quant quant = {
        .scheme = code_of(scheme), .granularity = scheme->granularity, .group_size = scheme->group, .symmetric = true};
    const struct vc_searched codes = {vc_code_scheme(quant.scheme), &quant,
                                      vc_code_groups(vc_code_scheme(quant.scheme), VC_DTYPE_F32, NULL)};
    struct vc_weight items[2];
    struct vc_weights all = {.n = 2, .items = items};
    struct vc_fake_quant tensors[2];
    struct vc_fake_quants fake_quants = {.n = 2, .items = tensors};
    struct vc_learner l = {.f64 = f64, .net = {.weights = &all}, .fake_quants = &fake_quants};

    for (unsigned k = 0; k < 2; k++) {
        items[k] = (struct vc_weight){.name = names[k],
                                      .n_dims = 2,
                                      .shape = shapes[k],
                                      .n = sizes[k],
                                      .coded = true,
                                      .data = f64 ? (void *)wide[k] : narrow[k]};
        tensors[k] = (struct vc_fake_quant){.entry = k, .master = f64 ? (void *)wide[2 + k] : narrow[2 + k]};
        for (size_t i = 0; i < sizes[k]; i++) {
            narrow[2 + k][i] = x[k][i];
            wide[2 + k][i] = (double)x[k][i];
        }
        vc_fake_quant_set(&l, &tensors[k], &codes);
    }
    vc_fake_quant_join(&l);
    vc_fake_quant_search(&l, false, NULL);
    for (unsigned k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizes[k]; i++) {
            y[k][i] = f64 ? (float)wide[k][i] : narrow[k][i];
        }
    }
}

static void test_values(void **unused)
{
    static float x[2][MOST], y[2][MOST], wanted[MOST];

    (void)unused;
    for (size_t k = 0; k < 4 * N_SCHEMES; k++) {
        const struct scheme *scheme = &schemes[k / 4];
        struct vc_quantize_options options;
        struct vc_memory_tensor tensors[2];

        if (!TEST_TURN(k, 4)) {
            continue;
        }
        for (unsigned t = 0; t < 2; t++) {
            make_values(sizes[t], (uint32_t)(10 * k + t), x[t]);
            tensors[t] = (struct vc_memory_tensor){names[t], VC_DTYPE_F32, 2, shapes[t], x[t]};
        }
        write_file("plain.npz", tensors, 2);
        set_quantize(scheme, &options);
        quantize("plain.npz", "codes.npz", &options);
        round_all(scheme, k % 2 == 1, x, y);
        for (unsigned t = 0; t < 2; t++) {
            read_floats("codes.npz", names[t], wanted, sizes[t]);
            assert_memory_equal(y[t], wanted, sizes[t] * sizeof *wanted);
        }
    }
}

/* A weight that is no number makes its group NaN, so that the loss tells; the other groups are as before. */
static void test_not_finite(void **unused)
{
    static float x[2][MOST], y[2][MOST], before[2][MOST];

    (void)unused;
    make_values(sizes[0], 1, x[0]);
    make_values(sizes[1], 2, x[1]);
    round_all(INT4, false, x, before);
    x[0][40 + 16] = NAN; /* of the second row the second group of 15 */
    x[1][23] = INFINITY; /* ... of the first row the last one, which has 9 */
    round_all(INT4, false, x, y);
    for (unsigned t = 0; t < 2; t++) {
        for (size_t i = 0; i < sizes[t]; i++) {
            bool lost = t == 0 ? i >= 40 + 15 && i < 40 + 30 : i >= 15 && i < 24;

            assert_true(lost ? isnan(y[t][i]) : memcmp(&y[t][i], &before[t][i], sizeof y[t][i]) == 0);
        }
    }
}

/* ---- runs ---- */

/* Students of floats of each type become codes. */
static void test_float_student(void **unused)
{
    static const enum vc_dtype files[] = {VC_DTYPE_F32, VC_DTYPE_F64, VC_DTYPE_BF16};

    (void)unused;
    for (size_t k = 0; k < 6 * N_SCHEMES; k++) {
        const struct scheme *scheme = &schemes[k / 6];
        struct vc_quantize_options fake_quant;
        struct vc_distillation *d = NULL;
        struct run run;

        if (!TEST_TURN(k, 6)) {
            continue;
        }
        write_joined("student.npz", 200, files[k % 3]);
        open_joined(&run, scheme, &fake_quant);
        run.options.precision.kind = k % 6 < 3 ? VC_GRAPH_F32 : VC_GRAPH_F64;
        run.options.eval.every = k % 2 == 0 ? 5 : 0;
        quantize("student.npz", "begun.npz", &fake_quant);
        distill(&run, &d);
        assert_true(d->n_fake_quant_tensors == 2 && d->n_fake_quant_weights == sizes[0] + sizes[1]);
        assert_int_equal(strncmp(d->fake_quant, vc_scheme_name(code_of(scheme)), 3), 0);
        assert_true(d->last_loss < d->first_loss);
        assert_int_equal(d->peak_bytes, d->planned_bytes);
        expect_codes("out.npz", scheme, files[k % 3]);
        expect_judged(&run, "out.npz", &d->after);
        expect_judged(&run, "begun.npz", &d->before); /* the run begins as quantize alone would leave the student */
        vc_result_free(d);
        close_run(&run);
    }
}

static void test_coded_student(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < 2 * N_SCHEMES; k++) {
        const struct scheme *scheme = &schemes[k / 2];
        struct vc_quantize_options codes;
        struct vc_distillation *d = NULL;
        struct run run;

        if (!TEST_TURN(k, 2)) {
            continue;
        }
        write_joined("plain.npz", 200, VC_DTYPE_F32);
        set_quantize(scheme, &codes);
        quantize("plain.npz", "student.npz", &codes);
        open_joined(&run, scheme, &codes);
        run.options.precision.fake_quant = NULL; /* its file says it */
        run.options.precision.kind = k % 2 == 0 ? VC_GRAPH_F32 : VC_GRAPH_F64;
        distill(&run, &d);
        assert_true(d->n_fake_quant_tensors == 2 && d->last_loss < d->first_loss);
        expect_codes("out.npz", scheme, VC_DTYPE_F32);
        expect_judged(&run, "student.npz", &d->before);
        expect_judged(&run, "out.npz", &d->after);
        vc_result_free(d);
        close_run(&run);
    }
}

/* quantize, then distill, as one job; distill alone as one job. What is written is what the two commands write. */
static void test_jobs(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < 2 * N_SCHEMES; k++) {
        const struct scheme *scheme = &schemes[k / 2];
        bool after = k % 2 == 1; /* behind quantize */
        struct vc_quantize_options codes;
        struct vc_distillation *d = NULL;
        struct vc_write_options write;
        struct vc_job *job = NULL;
        struct run run;

        if (!TEST_TURN(k, 2)) {
            continue;
        }
        write_joined("student.npz", 200, VC_DTYPE_F32);
        open_joined(&run, scheme, &codes);
        if (after) {
            quantize("student.npz", "codes.npz", &codes);
            close_net(&run.student);
            open_net("codes.npz", &run.student);
            run.options.student = run.student;
        }
        run.options.precision.fake_quant = after ? NULL : &codes;
        distill(&run, &d);
        vc_result_free(d);
        close_net(&run.student);
        open_net("student.npz", &run.student);
        run.options.write = NULL;
        run.options.graph_path = run.layers;
        run.options.student = (struct vc_network){.graph = NULL};
        vc_write_defaults(&write);
        write.path = run.chain;
        write.force = true;
        if (after) {
            assert_int_equal(run_coded(&run, &codes, &job), VC_OK);
        } else {
            assert_int_equal(vc_job_create(ctx, run.student.weights, &job), VC_OK);
            assert_int_equal(vc_job_add_distill(ctx, job, &run.options), VC_OK);
            assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
            assert_int_equal(vc_job_run(ctx, job), VC_OK);
        }
        vc_job_free(job);
        expect_same("chain.npz", "out.npz");
        close_run(&run);
    }
}

/* Half of the weights of a pruned student, and more as the run goes on. */
static void test_zeros(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < N_SCHEMES; k++) {
        struct vc_prune_options prune;
        struct vc_quantize_options fake_quant;
        struct vc_distillation *d = NULL;
        struct run run;
        float w[MOST];
        size_t zeros = 0;

        write_joined("student.npz", 200, VC_DTYPE_F32);
        open_joined(&run, &schemes[k], &fake_quant);
        vc_prune_defaults(&prune);
        prune.sparsity = "0.6";
        prune.rules = weights_only;
        prune.n_rules = 2;
        run.options.sparsity.prune = &prune;
        run.options.sparsity.prune_last = 8;
        run.options.sparsity.prune_every = 2;
        distill(&run, &d);
        expect_judged(&run, "out.npz", &d->after);
        assert_int_equal(d->prune_end, 576 + 43);
        vc_result_free(d);
        read_floats("out.npz", names[0], w, sizes[0]);
        for (size_t i = 0; i < sizes[0]; i++) {
            zeros += w[i] == 0;
        }
        assert_true(zeros >= 576);
        close_run(&run);
    }
}

/* Interrupted and resumed with another number of threads: the bits of one run on one thread. */
static void test_resumed(void **unused)
{
    static char full[256], again[256], file[256];

    (void)unused;
    (void)snprintf(full, sizeof full, "%s", in_folder("full.npz"));
    (void)snprintf(again, sizeof again, "%s", in_folder("again.npz"));
    (void)snprintf(file, sizeof file, "%s", in_folder("run.npz"));
    for (size_t k = 0; k < 2 * N_SCHEMES; k++) {
        struct vc_quantize_options fake_quant;
        struct vc_distillation *d = NULL;
        struct run run;

        if (!TEST_TURN(k, 2)) {
            continue;
        }
        set_quantize(&schemes[k / 2], &fake_quant);
        write_joined(k % 2 == 0 ? "student.npz" : "plain.npz", 200, VC_DTYPE_F32);
        if (k % 2 == 1) {
            quantize("plain.npz", "student.npz", &fake_quant);
        }
        open_joined(&run, &schemes[k / 2], &fake_quant);
        run.options.precision.fake_quant = k % 2 == 0 ? &fake_quant : NULL;
        run.options.eval.every = k % 4 < 2 ? 2 : 0;
        run.write.path = full;
        distill(&run, &d);
        vc_result_free(d);
        remove_path("run.npz");
        assert_int_equal(vc_ctx_set_threads(ctx, 3), VC_OK);
        run.options.tell = cancel;
        run.options.checkpoint.path = file;
        run.write.path = again;
        assert_int_equal(vc_distill(ctx, &run.options, &d), VC_E_CANCELLED);
        run.options.tell = NULL;
        run.options.checkpoint.resume = file;
        distill(&run, &d);
        assert_int_equal(d->resumed, 5);
        vc_result_free(d);
        assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
        expect_same("full.npz", "again.npz");
        close_run(&run);
    }
}

/* A checkpoint of one scheme is not one of another, though both have codes of one type in groups of one size. */
static void test_other_scheme(void **unused)
{
    static char file[256];
    static const struct scheme other = {VC_TARGET_FP4, VC_GRANULARITY_GROUP, 16, VC_AXIS_OUTPUT, false};
    struct vc_quantize_options fake_quant;
    struct vc_distillation *d = NULL;
    struct run run;

    (void)unused;
    (void)snprintf(file, sizeof file, "%s", in_folder("run.npz"));
    write_joined("student.npz", 200, VC_DTYPE_F32);
    open_joined(&run, &schemes[3], &fake_quant);
    run.options.tell = cancel;
    run.options.checkpoint.path = file;
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_E_CANCELLED);
    close_run(&run);
    open_joined(&run, &other, &fake_quant);
    run.options.checkpoint.resume = file;
    expect_refused(&run, VC_E_ARGUMENT, "was made by a run with another precision.fake_quant");
    close_run(&run);
}

static void test_no_memory(void **unused)
{
    struct vc_quantize_options fake_quant;
    struct vc_distillation *d = NULL;
    struct run run;
    uint64_t n;

    (void)unused;
    write_joined("student.npz", 200, VC_DTYPE_F32);
    open_joined(&run, NVFP4, &fake_quant);
    run.options.training.steps = 1;
    remove_path("out.npz");
    for (n = 1; n < 100000; n++) {
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_distill(ctx, &run.options, &d);
        if (status == VC_OK || status == VC_E_GATE) {
            break;
        }
        assert_int_equal(status, VC_E_NOMEM);
        assert_null(d);
        assert_false(exists("out.npz"));
    }
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    assert_true(n > 50 && n < 100000);
    vc_result_free(d);
    close_run(&run);
}

/* ---- refusals ---- */

static void test_refused(void **unused)
{
    static char gguf[256];
    struct vc_quantize_options fake_quant;
    struct run run;

    (void)unused;
    write_joined("student.npz", 200, VC_DTYPE_F32);
    open_joined(&run, INT4, &fake_quant);
    run.options.precision.learn_scales = true;
    expect_refused(&run, VC_E_ARGUMENT,
                   "learn_scales: no tensor that is trained has codes with scales: int8 and Q8_0 do");
    run.options.precision.learn_scales = false;
    fake_quant.asymmetric = true;
    expect_refused(&run, VC_E_UNSUPPORTED, "precision.fake_quant: values on an asymmetric grid");
    fake_quant.asymmetric = false;
    fake_quant.granularity = VC_GRANULARITY_TENSOR;
    expect_refused(&run, VC_E_ARGUMENT, "int4 has codes with a scale per row of axis 0 or per group of one");
    fake_quant.granularity = VC_GRANULARITY_GROUP;
    fake_quant.target = VC_TARGET_MXFP4;
    expect_refused(&run, VC_E_ARGUMENT, "mxfp4 has groups of 32");
    fake_quant.target = VC_TARGET_GGUF;
    fake_quant.gguf = "Q4_0";
    expect_refused(&run, VC_E_UNSUPPORTED, "precision.fake_quant: what is trained lies on the grid of one scheme");
    fake_quant.gguf = NULL;
    fake_quant.target = VC_TARGET_INT4;
    fake_quant.n_rules = 0; /* all are small */
    expect_refused(&run, VC_E_ARGUMENT, "precision.fake_quant: quantize would work on no tensor that is trained");
    fake_quant.n_rules = 2;
    (void)snprintf(gguf, sizeof gguf, "%s", in_folder("out.gguf"));
    run.write.path = gguf;
    expect_refused(&run, VC_E_ARGUMENT, "the layout gguf has no place for codes of int4");
    close_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_not_finite),   cmocka_unit_test(test_float_student),
        cmocka_unit_test(test_coded_student), cmocka_unit_test(test_jobs),         cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_resumed),       cmocka_unit_test(test_other_scheme), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, begin_joined, end);
}
