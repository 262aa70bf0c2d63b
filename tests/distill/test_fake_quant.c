/* test_fake_quant.c - fake quantization in training: quantizing what was written changes no value, what is judged
 * is what the written file answers, a student with codes stays one with codes; with masks, interrupted runs, memory,
 * refusals. */
#include "fake_quant_test.h"

#include "core/base/pool.h"

#define N_A 40
#define N_B 24

static const char *const kept_names[] = {"a.weight", "b.weight"};
static const size_t kept_sizes[] = {N_A, N_B};

static const struct scheme schemes[] = {
    {VC_TARGET_INT8, VC_GRANULARITY_TENSOR, 0, VC_AXIS_OUTPUT, false},
    {VC_TARGET_INT8, VC_GRANULARITY_CHANNEL, 0, VC_AXIS_OUTPUT, false},
    {VC_TARGET_INT8, VC_GRANULARITY_CHANNEL, 0, 1, false},
    {VC_TARGET_INT8, VC_GRANULARITY_GROUP, 4, VC_AXIS_OUTPUT, false}, /* rows of 5 have a short last group */
    {VC_TARGET_INT8, VC_GRANULARITY_GROUP, 1, VC_AXIS_OUTPUT, false},
    {VC_TARGET_F16, VC_GRANULARITY_CHANNEL, 0, VC_AXIS_OUTPUT, false},
    {VC_TARGET_BF16, VC_GRANULARITY_CHANNEL, 0, VC_AXIS_OUTPUT, false},
    {VC_TARGET_INT8, VC_GRANULARITY_TENSOR, 0, VC_AXIS_OUTPUT, true},
    {VC_TARGET_INT8, VC_GRANULARITY_CHANNEL, 0, 1, true},
    {VC_TARGET_INT8, VC_GRANULARITY_GROUP, 3, VC_AXIS_OUTPUT, true},
};
#define N_SCHEMES   (sizeof schemes / sizeof schemes[0])
#define N_SYMMETRIC 7

static bool learned; /* scales are, of the schemes that have them */

/* Two files have the same values of both weights, as floats. */
static void expect_same_values(const char *one, const char *other)
{
    float x[N_A];
    float y[N_A];

    for (unsigned i = 0; i < 2; i++) {
        read_floats(one, kept_names[i], x, kept_sizes[i]);
        read_floats(other, kept_names[i], y, kept_sizes[i]);
        assert_memory_equal(x, y, kept_sizes[i] * sizeof *x);
    }
}

/* The student in single precision: files that a program of today would have. */
static void write_f32(const char *name, uint32_t seed, enum vc_dtype dtype)
{
    double values[N_A + 8 + N_B + 3];
    float floats[N_A + 8 + N_B + 3];
    uint16_t halves[N_A + 8 + N_B + 3];
    bool f32 = dtype == VC_DTYPE_F32;
    const struct vc_memory_tensor tensors[] = {
        {"a.weight", dtype, 2, shape_a, f32 ? (void *)floats : halves},
        {"a.bias", VC_DTYPE_F32, 1, shape_a, floats + N_A},
        {"b.weight", dtype, 2, shape_b, f32 ? (void *)(floats + N_A + 8) : halves + N_A + 8},
        {"b.bias", VC_DTYPE_F32, 1, shape_b, floats + N_A + 8 + N_B},
    };

    numbers(seed, N_A + 8 + N_B + 3, values);
    for (size_t i = 0; i < N_A + 8 + N_B + 3; i++) {
        floats[i] = (float)values[i];
        halves[i] = (uint16_t)(0x3c00u + i);
    }
    write_file(name, tensors, 4);
}

static void open_fake_quant(struct run *run, const struct scheme *scheme, struct vc_quantize_options *fake_quant)
{
    double x[ROWS * 5];
    const struct vc_memory_tensor data[] = {{"x", VC_DTYPE_F64, 2, shape_x, x}};

    numbers(7, (size_t)ROWS * 5, x);
    write_file("rows.npz", data, 1); /* without labels */
    open_run(run);
    set_quantize(scheme, fake_quant);
    run->options.precision.fake_quant = fake_quant;
    run->options.precision.learn_scales = learned && scheme->target == VC_TARGET_INT8;
    run->options.eval.rows = &run->data;
    run->options.optimizer.lr = 0.02;
    run->options.tell = NULL;
}

/* ---- a float student ---- */

static void test_float_student(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < 2 * N_SYMMETRIC; k++) {
        struct vc_quantize_options fake_quant;
        struct vc_distillation *d = NULL;
        struct run run;

        if (learned && schemes[k / 2].target != VC_TARGET_INT8) {
            continue; /* it has no scales */
        }
        write_f32("student.npz", 200, VC_DTYPE_F32);
        open_fake_quant(&run, &schemes[k / 2], &fake_quant);
        run.options.precision.kind = k % 2 == 0 ? VC_GRAPH_F32 : VC_GRAPH_F64;
        quantize("student.npz", "begun.npz", &fake_quant);
        distill(&run, &d);
        assert_true(d->n_fake_quant_tensors == 2 && d->n_fake_quant_weights == N_A + N_B && d->fake_quant != NULL);
        assert_true(run.options.precision.learn_scales ? d->fake_quant_share < 1 && d->fake_quant_share > 0.5
                                                       : isnan(d->fake_quant_share));
        assert_int_equal(d->peak_bytes, d->planned_bytes);
        quantize("out.npz", "codes.npz", &fake_quant);
        expect_same_values("out.npz", "codes.npz");
        expect_judged(&run, "out.npz", &d->after);
        expect_judged(&run, "codes.npz", &d->after);
        expect_judged(&run, "begun.npz", &d->before); /* it begins as quantize alone would leave it */
        vc_result_free(d);
        close_run(&run);
    }
    write_net("student.npz", 200);
}

/* ---- a student with codes ---- */

static void expect_quant(const char *file, const struct scheme *scheme)
{
    struct vc_model *model = NULL;
    const struct vc_quant *quant;

    assert_int_equal(vc_model_open(ctx, in_folder(file), NULL, &model), VC_OK);
    quant = model->tensors[vc_model_find(model, "a.weight")].quant;
    assert_non_null(quant);
    assert_true(quant->granularity == scheme->granularity && quant->symmetric == !scheme->asymmetric);
    assert_true(scheme->granularity != VC_GRANULARITY_GROUP || quant->group_size == scheme->group);
    assert_true(scheme->granularity != VC_GRANULARITY_CHANNEL || quant->axis == (scheme->axis == 1 ? 1 : 0));
    vc_model_close(model);
}

static void test_coded_student(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < 2 * N_SCHEMES; k++) {
        const struct scheme *scheme = &schemes[k / 2];
        struct vc_quantize_options fake_quant;
        struct vc_distillation *d = NULL;
        struct run run;

        if (scheme->target != VC_TARGET_INT8) {
            continue;
        }
        write_f32("plain.npz", 200, VC_DTYPE_F32);
        set_quantize(scheme, &fake_quant);
        quantize("plain.npz", "student.npz", &fake_quant);
        open_fake_quant(&run, scheme, &fake_quant);
        run.options.precision.fake_quant = NULL; /* its file says it */
        run.options.precision.kind = k % 2 == 0 ? VC_GRAPH_F32 : VC_GRAPH_F64;
        run.options.eval.every = k % 4 < 2 ? 3 : 0;
        distill(&run, &d);
        assert_true(d->n_fake_quant_tensors == 2 && d->last_loss < d->first_loss);
        assert_int_equal(d->peak_bytes, d->planned_bytes);
        expect_judged(&run, "student.npz", &d->before);
        expect_judged(&run, "out.npz", &d->after);
        expect_quant("out.npz", scheme);
        vc_result_free(d);
        close_run(&run);
    }
    write_net("student.npz", 200);
}

/* Blocks of GGUF files, whose scales are f16. */
static void test_blocks(void **unused)
{
    static const uint64_t shape[2] = {3, 32}, rows[2] = {ROWS, 32};
    double values[3 * 32], x[ROWS * 32];
    float floats[3 * 32], bias[3] = {0};
    const struct vc_memory_tensor tensors[] = {{"b.weight", VC_DTYPE_F32, 2, shape, floats},
                                               {"b.bias", VC_DTYPE_F32, 1, shape, bias}};
    const struct vc_memory_tensor data[] = {{"x", VC_DTYPE_F64, 2, rows, x}};
    struct vc_quantize_options options;
    struct vc_distillation *d = NULL;
    struct vc_model *model = NULL;
    struct run run;

    (void)unused;
    numbers(9, (size_t)ROWS * 32, x);
    write_file("rows.npz", data, 1);
    (void)save_text("net.txt", "input x [batch, 32]\nlinear b 3\n");
    for (uint32_t seed = 1; seed < 3; seed++) {
        numbers(seed, (size_t)3 * 32, values);
        for (size_t i = 0; i < (size_t)3 * 32; i++) {
            floats[i] = (float)values[i];
        }
        write_file(seed == 1 ? "teacher.npz" : "student.npz", tensors, 2);
    }
    vc_quantize_defaults(&options);
    options.rules = weights_only;
    options.n_rules = 2;
    quantize("student.npz", "student.gguf", &options);
    open_run(&run);
    close_net(&run.student);
    open_net("student.gguf", &run.student);
    run.options.student = run.student;
    run.options.precision.kind = VC_GRAPH_F32;
    run.options.eval.rows = &run.data;
    run.options.optimizer.lr = 0.02;
    run.options.precision.learn_scales = learned;
    (void)snprintf(run.out, sizeof run.out, "%s", in_folder("out.gguf"));
    distill(&run, &d);
    assert_true(d->n_fake_quant_tensors == 1 && strcmp(d->fake_quant, "q8_0") == 0);
    assert_true(learned ? d->fake_quant_share < 1 : isnan(d->fake_quant_share));
    assert_int_equal(d->peak_bytes, d->planned_bytes);
    expect_judged(&run, "student.gguf", &d->before);
    expect_judged(&run, "out.gguf", &d->after);
    assert_int_equal(vc_model_open(ctx, run.out, NULL, &model), VC_OK);
    assert_int_equal(model->tensors[vc_model_find(model, "b.weight")].dtype, VC_DTYPE_Q8_0);
    vc_model_close(model);
    vc_result_free(d);
    close_run(&run);

    write_net("teacher.npz", 100);
    write_net("student.npz", 200);
    (void)save_text("net.txt", layers);
}

/* ---- chains and masks ---- */

/* prune, distill with fake quantization, quantize as one job: zeros stay, and the codes say what was judged. */
static void test_chain(void **unused)
{
    struct vc_prune_options prune;
    struct vc_quantize_options fake_quant;
    struct vc_write_options write;
    struct vc_job *job = NULL;
    const struct vc_report *report;
    struct run run;
    float before[N_A], after[N_A];

    (void)unused;
    write_f32("student.npz", 200, VC_DTYPE_F32);
    open_fake_quant(&run, &schemes[0], &fake_quant);
    run.options.precision.kind = VC_GRAPH_F32;
    run.options.sparsity.keep = true;
    run.options.write = NULL;
    run.options.graph_path = run.layers;
    run.options.student = (struct vc_network){.graph = NULL};
    vc_prune_defaults(&prune);
    prune.sparsity = "0.5";
    vc_write_defaults(&write);
    write.path = run.chain;
    write.force = true;
    assert_int_equal(vc_job_create(ctx, run.student.weights, &job), VC_OK);
    assert_int_equal(vc_job_add_prune(ctx, job, &prune), VC_OK);
    assert_int_equal(vc_job_add_distill(ctx, job, &run.options), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, &fake_quant), VC_OK);
    if (vc_job_plan(ctx, job, &write) != VC_OK || vc_job_run(ctx, job) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    report = vc_job_report(job);
    assert_int_equal(report->n_distillations, 1);
    expect_judged(&run, "chain.npz", &report->distillations[0]->after);
    vc_job_free(job);
    read_floats("chain.npz", "a.weight", after, N_A);
    read_floats("student.npz", "a.weight", before, N_A);
    for (unsigned i = 0, n = 0; i < N_A; i++) { /* the 20 smallest of the student are 0 */
        unsigned smaller = 0;

        for (unsigned j = 0; j < N_A; j++) {
            smaller += fabsf(before[j]) < fabsf(before[i]);
        }
        assert_true(smaller >= N_A / 2 || after[i] == 0);
        n += after[i] == 0;
        assert_true(i != N_A - 1 || n >= N_A / 2);
    }
    close_run(&run);
    write_net("student.npz", 200);
}

/* quantize, then distill, as one job: the codes are trained. Whichever allocation fails, nothing is written. */
static void test_coded_chain(void **unused)
{
    struct vc_quantize_options codes;
    struct vc_job *job = NULL;
    struct run run;
    uint64_t n;

    (void)unused;
    write_f32("student.npz", 200, VC_DTYPE_F32);
    open_fake_quant(&run, &schemes[8], &codes);
    run.options.precision.fake_quant = NULL;
    run.options.eval.rows = NULL;
    run.options.precision.kind = VC_GRAPH_F32;
    run.options.write = NULL;
    run.options.graph_path = run.layers;
    run.options.student = (struct vc_network){.graph = NULL};
    assert_int_equal(run_coded(&run, &codes, &job), VC_OK);
    assert_true(vc_job_report(job)->distillations[0]->n_fake_quant_tensors == 2);
    vc_job_free(job);
    expect_quant("chain.npz", &schemes[8]);
    remove_path("chain.npz");
    run.options.training.steps = 1;
    for (n = 1; n < 100000; n += (1 + n / 64) * TEST_STRIDE) {
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        job = NULL;
        status = run_coded(&run, &codes, &job);
        vc_job_free(job);
        if (status == VC_OK) {
            break;
        }
        assert_int_equal(status, VC_E_NOMEM);
        assert_false(exists("chain.npz"));
    }
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    assert_true(n > 100 && n < 100000);
    close_run(&run);
    write_net("student.npz", 200);
}

/* Masks that grow on a student with codes: exactly the share asked for, and codes of that. */
static void test_gradual(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < N_SCHEMES; k++) {
        struct vc_prune_options prune;
        struct vc_quantize_options fake_quant;
        struct vc_distillation *d = NULL;
        struct run run;
        float a[N_A];
        size_t zeros = 0;

        if (schemes[k].target != VC_TARGET_INT8) {
            continue;
        }
        write_f32("plain.npz", 200, VC_DTYPE_F32);
        set_quantize(&schemes[k], &fake_quant);
        quantize("plain.npz", "student.npz", &fake_quant);
        open_fake_quant(&run, &schemes[k], &fake_quant);
        run.options.precision.fake_quant = NULL;
        run.options.precision.kind = VC_GRAPH_F32;
        vc_prune_defaults(&prune);
        prune.sparsity = "0.6";
        run.options.sparsity.prune = &prune;
        run.options.sparsity.prune_last = 8;
        run.options.sparsity.prune_every = 2;
        distill(&run, &d);
        expect_judged(&run, "out.npz", &d->after);
        assert_true(d->prune_end == 24 + 14);
        assert_int_equal(d->peak_bytes, d->planned_bytes);
        read_floats("out.npz", "a.weight", a, N_A);
        for (size_t i = 0; i < N_A; i++) {
            zeros += a[i] == 0;
        }
        assert_true(zeros >= 24);
        vc_result_free(d);
        close_run(&run);
    }
    write_net("student.npz", 200);
}

/* ---- interruptions and memory ---- */

static void test_resumed(void **unused)
{
    static char full[256], again[256], file[256];

    (void)unused;
    (void)snprintf(full, sizeof full, "%s", in_folder("full.npz"));
    (void)snprintf(again, sizeof again, "%s", in_folder("again.npz"));
    (void)snprintf(file, sizeof file, "%s", in_folder("run.npz"));
    for (size_t k = 0; k < N_SCHEMES; k++) {
        bool coded = schemes[k].target == VC_TARGET_INT8;
        struct vc_quantize_options fake_quant;
        struct vc_distillation *d = NULL;
        struct run run;

        if (learned && !coded) {
            continue;
        }
        write_f32(coded ? "plain.npz" : "student.npz", 200, VC_DTYPE_F32);
        set_quantize(&schemes[k], &fake_quant);
        if (coded) {
            quantize("plain.npz", "student.npz", &fake_quant);
        }
        open_fake_quant(&run, &schemes[k], &fake_quant);
        run.options.precision.fake_quant = coded ? NULL : &fake_quant;
        run.options.precision.kind = VC_GRAPH_F32;
        run.options.eval.every = k % 2 == 0 ? 2 : 0;
        run.options.tell = NULL;
        run.write.path = full;
        distill(&run, &d);
        vc_result_free(d);
        remove_path("run.npz");
        run.options.tell = cancel;
        run.options.checkpoint.path = file;
        run.write.path = again;
        assert_int_equal(vc_distill(ctx, &run.options, &d), VC_E_CANCELLED);
        run.options.tell = NULL;
        run.options.checkpoint.resume = file;
        distill(&run, &d);
        assert_int_equal(d->resumed, 5);
        vc_result_free(d);
        expect_same("full.npz", "again.npz");
        close_run(&run);
    }
    write_net("student.npz", 200);
}

static void test_no_memory(void **unused)
{
    struct vc_quantize_options fake_quant;
    struct vc_distillation *d = NULL;
    struct run run;
    uint64_t n;

    (void)unused;
    write_f32("student.npz", 200, VC_DTYPE_F32);
    for (unsigned k = learned; k < 2; k++) { /* a float student if no scales are learned; one with codes */
        set_quantize(&schemes[k], &fake_quant);
        if (k == 1) {
            quantize("student.npz", "codes.npz", &fake_quant);
            write_f32("student.npz", 200, VC_DTYPE_F32);
        }
        open_fake_quant(&run, &schemes[k], &fake_quant);
        if (k == 1) {
            close_net(&run.student);
            open_net("codes.npz", &run.student);
            run.options.student = run.student;
            run.options.precision.fake_quant = NULL;
        }
        run.options.training.steps = 1;
        run.options.tell = NULL;
        remove_path("out.npz");
        for (n = 1; n < 100000; n += TEST_STRIDE) {
            enum vc_status status;

            vc_pool_fail_at(ctx->shared->pool, n, 0);
            status = vc_distill(ctx, &run.options, &d);
            if (status == VC_OK || status == VC_E_GATE) {
                break;
            }
            if (status != VC_E_NOMEM) {
                fail_msg("allocation %llu: %s", (unsigned long long)n, vc_ctx_message(ctx));
            }
            assert_null(d);
            assert_false(exists("out.npz"));
        }
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        assert_true(n > 50 && n < 100000);
        vc_result_free(d);
        close_run(&run);
    }
    write_net("student.npz", 200);
}

/* ---- learned scales ---- */

/* What holds of scales by the largest magnitudes holds of a share of them. */
static void test_learned(void **unused)
{
    learned = true;
    test_float_student(unused);
    test_coded_student(unused);
    test_blocks(unused);
    test_chain(unused);
    test_gradual(unused);
    test_resumed(unused);
    test_no_memory(unused);
    learned = false;
}

/* One seed, any number of threads: the same file. */
static void test_learned_threads(void **unused)
{
    (void)unused;
    for (unsigned n = 1; n < 4; n += 2) {
        struct vc_quantize_options fake_quant;
        struct vc_distillation *d = NULL;
        struct run run;

        write_f32("student.npz", 200, VC_DTYPE_F32);
        open_fake_quant(&run, &schemes[3], &fake_quant);
        run.options.precision.learn_scales = true;
        (void)snprintf(run.out, sizeof run.out, "%s", in_folder(n == 1 ? "one.npz" : "three.npz"));
        assert_int_equal(vc_ctx_set_threads(ctx, n), VC_OK);
        distill(&run, &d);
        vc_result_free(d);
        close_run(&run);
    }
    expect_same("one.npz", "three.npz");
    assert_int_equal(vc_ctx_set_threads(ctx, 1), VC_OK);
    write_net("student.npz", 200);
}

/* ---- refusals ---- */

static void test_refused(void **unused)
{
    struct vc_quantize_options fake_quant;
    struct run run;

    (void)unused;
    write_f32("student.npz", 200, VC_DTYPE_F32);
    open_fake_quant(&run, &schemes[0], &fake_quant);
    fake_quant.n_rules = 0; /* all are small */
    expect_refused(&run, VC_E_ARGUMENT, "precision.fake_quant: quantize would work on no tensor that is trained");
    fake_quant.n_rules = 2;
    fake_quant.asymmetric = true;
    expect_refused(&run, VC_E_UNSUPPORTED, "precision.fake_quant: values on an asymmetric grid");
    fake_quant.asymmetric = false;
    fake_quant.rest = "fp16";
    expect_refused(&run, VC_E_UNSUPPORTED, "precision.fake_quant: what is trained lies on the grid of one scheme");
    close_run(&run);
    open_fake_quant(&run, &schemes[5], &fake_quant); /* f16 */
    run.options.precision.learn_scales = true;
    expect_refused(&run, VC_E_ARGUMENT,
                   "learn_scales: no tensor that is trained has codes with scales: int8 and Q8_0 do");
    run.options.precision.fake_quant = NULL;
    expect_refused(&run, VC_E_ARGUMENT,
                   "learn_scales: no tensor that is trained has codes with scales: int8 and Q8_0 do");
    close_run(&run);
    write_f32("student.npz", 200, VC_DTYPE_F16);
    open_fake_quant(&run, &schemes[0], &fake_quant);
    expect_refused(&run, VC_E_UNSUPPORTED, "a.weight: is f16 in the student's file");
    close_run(&run);
    write_net("student.npz", 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_student),   cmocka_unit_test(test_coded_student), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_chain),           cmocka_unit_test(test_gradual),       cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_no_memory),       cmocka_unit_test(test_refused),       cmocka_unit_test(test_learned),
        cmocka_unit_test(test_learned_threads), cmocka_unit_test(test_coded_chain),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
