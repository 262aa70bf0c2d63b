/* test_distill.c - vc_distill on a small network: losses and weights against figures of PyTorch (make_goldens.py), rows
 * from files, what memory it takes and gives back, and every allocation that can fail. */
#include "distill_test.h"

#include <math.h>

struct golden {
    enum vc_optimizer optimizer;
    double lr, weight_decay;
    bool nesterov, mse;
    double alpha, temperature;
    double losses[STEPS], weights[24];
};

#include "goldens.h"
#include "graph/build.h"

static void test_goldens(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < sizeof goldens / sizeof *goldens; k++) {
        const struct golden *g = &goldens[k];
        struct vc_distillation *d = NULL;
        double weights[24];
        struct run run;

        open_run(&run);
        run.options.optimizer.kind = g->optimizer;
        run.options.optimizer.lr = g->lr;
        run.options.optimizer.weight_decay = g->weight_decay;
        run.options.optimizer.decay_1d = true;
        run.options.optimizer.nesterov = g->nesterov;
        run.options.loss.alpha = g->alpha;
        run.options.loss.temperature = g->temperature;
        run.options.loss.kind = g->mse ? VC_TEACHER_LOSS_MSE : VC_TEACHER_LOSS_KD;
        assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
        assert_int_equal(run.n_losses, STEPS);
        for (size_t i = 0; i < STEPS; i++) {
            assert_true(fabs(run.losses[i] - g->losses[i]) < 1e-13);
        }
        assert_true(d->n_steps == STEPS && d->n_rows == ROWS && d->n_weights == 75 && d->n_tensors == 4);
        assert_true(d->least_bytes <= d->arena_bytes && d->arena_bytes <= d->naive_bytes);
        vc_result_free(d);
        read_doubles("out.npz", "b.weight", weights, 24);
        for (size_t i = 0; i < 24; i++) {
            assert_true(fabs(weights[i] - g->weights[i]) < 1e-13);
        }
        close_run(&run);
    }
}

/* The student's own loss and figures are those of vc_evaluate on what was written. */
static void test_judged(void **unused)
{
    struct vc_evaluate_options evaluate;
    struct vc_distillation *d = NULL;
    struct vc_quality quality;
    struct vc_network out = {.graph = NULL};
    struct run run;

    (void)unused;
    open_run(&run);
    run.options.eval.rows = &run.data;
    run.options.eval.control = true;
    run.options.optimizer.lr = 0.01;
    run.options.tell = NULL;
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
    open_net("out.npz", &out);
    vc_evaluate_defaults(&evaluate);
    evaluate.network = out;
    evaluate.teacher = run.teacher;
    evaluate.data = &run.data;
    evaluate.batch = 7;
    evaluate.precision = VC_GRAPH_F64;
    assert_int_equal(vc_evaluate(ctx, &evaluate, &quality), VC_OK);
    assert_true(quality.n_rows == ROWS && quality.n_labels == ROWS);
    assert_true(quality.accuracy == d->after.accuracy && quality.agreement == d->after.agreement);
    assert_true(fabs(quality.ce - d->after.ce) < 1e-12 && fabs(quality.kd - d->after.kd) < 1e-12);
    assert_true(d->after.kd < d->before.kd && d->has_control && d->control.ce < d->before.ce);
    assert_true(fabs(d->gain - (d->after.accuracy - d->control.accuracy)) < 1e-15 && d->gain_error >= 0);
    assert_true(d->teacher.agreement == 1 && d->teacher.kd == 0);
    vc_result_free(d);
    close_net(&out);
    close_run(&run);
}

/* Statistics of the rows, and nothing else: against sums over the rows of what the first layer gives. */
static void test_recalibrated(void **unused)
{
    static const uint64_t shape_w[2] = {8, 5}, shape_v[2] = {3, 8}, eight = 8;
    double w[40], v[24], ones[8], zeros[8] = {0}, x[ROWS * 5], mean[8], variance[8], same[40];
    const struct vc_memory_tensor tensors[] = {
        {"a.weight", VC_DTYPE_F64, 2, shape_w, w},        {"n.weight", VC_DTYPE_F64, 1, &eight, ones},
        {"n.bias", VC_DTYPE_F64, 1, &eight, zeros},       {"n.running_mean", VC_DTYPE_F64, 1, &eight, zeros},
        {"n.running_var", VC_DTYPE_F64, 1, &eight, ones}, {"b.weight", VC_DTYPE_F64, 2, shape_v, v}};
    struct vc_distillation *d = NULL;
    struct vc_graph_options graph;
    struct vc_network net = {.beside = NULL};
    struct vc_model *model = NULL;
    struct run run;

    (void)unused;
    numbers(31, 40, w);
    numbers(32, 24, v);
    numbers(7, (size_t)ROWS * 5, x);
    for (size_t i = 0; i < 8; i++) {
        ones[i] = 1;
    }
    write_file("norm.npz", tensors, 6);
    (void)save_text("norm.txt", "input x [batch, 5]\nlinear a 8 bias=no\nbatchnorm n\nrelu\nlinear b 3 bias=no\n");
    open_run(&run);
    assert_int_equal(vc_model_open(ctx, in_folder("norm.npz"), NULL, &model), VC_OK);
    vc_graph_defaults(&graph);
    graph.weights = model;
    assert_int_equal(vc_graph_read_text(ctx, in_folder("norm.txt"), &graph, &net.graph), VC_OK);
    net.weights = model;
    run.options.student = net;
    run.options.teacher = (struct vc_network){.graph = NULL};
    run.options.task = VC_TASK_RECALIBRATE;
    run.options.training.batch = ROWS;
    run.options.tell = NULL;
    if (vc_distill(ctx, &run.options, &d) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_true(d->n_tensors == 0 && d->gradient_bytes == 0 && d->state_bytes == 0);
    vc_result_free(d);
    read_doubles("out.npz", "n.running_mean", mean, 8);
    read_doubles("out.npz", "n.running_var", variance, 8);
    read_doubles("out.npz", "a.weight", same, 40);
    assert_memory_equal(same, w, sizeof w);
    for (size_t c = 0; c < 8; c++) {
        double sum = 0;
        double squares = 0;

        for (size_t r = 0; r < ROWS; r++) {
            double y = 0;

            for (size_t k = 0; k < 5; k++) {
                y += w[c * 5 + k] * x[r * 5 + k];
            }
            sum += y;
            squares += y * y;
        }
        assert_true(fabs(mean[c] - sum / ROWS) < 1e-14);
        assert_true(fabs(variance[c] - (squares - sum * sum / ROWS) / (ROWS - 1)) < 1e-13);
    }
    run.options.training.batch = 7; /* the mean of means by their rows is the mean */
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
    vc_result_free(d);
    read_doubles("out.npz", "n.running_mean", variance, 8);
    for (size_t c = 0; c < 8; c++) {
        assert_true(fabs(mean[c] - variance[c]) < 1e-14);
    }
    run.options.trained.frozen_norm = true;
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_E_ARGUMENT);
    expect_says(ctx, "task trains nothing: trained.frozen_norm belongs to a run");
    run.options.trained.frozen_norm = false;
    run.options.student = run.student;
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_E_ARGUMENT);
    expect_says(ctx, "task: the student has no batch normalization with running statistics");
    close_run(&run);
    vc_graph_close(net.graph);
    vc_model_close(model);
}

static void test_refused(void **unused)
{
    const char *array[] = {"x=nothing"};
    struct run run;

    (void)unused;
    open_run(&run);
    remove_path("out.npz");
    write_rows("wrong.npz", 3);
    run.data.path = in_folder("wrong.npz");
    expect_refused(&run, VC_E_ARGUMENT, "wrong.npz: row 19 has the label 3; there are 3 classes, 0 to 2");
    run.data.path = run.rows;
    run.data.arrays = array;
    run.data.n_arrays = 1;
    expect_refused(&run, VC_E_ARGUMENT, "there is no array 'nothing'");
    run.data.n_arrays = 0;
    run.data.mean = "1,x";
    expect_refused(&run, VC_E_ARGUMENT, "is no list of numbers");
    run.data.mean = NULL;
    run.options.loss.alpha = NAN;
    expect_refused(&run, VC_E_ARGUMENT, "alpha: nan");
    run.options.loss.alpha = 1;
    run.options.optimizer.beta2 = 1;
    expect_refused(&run, VC_E_ARGUMENT, "beta2");
    run.options.optimizer.beta2 = 0.999;
    run.options.training.batch = 0;
    expect_refused(&run, VC_E_ARGUMENT, "batch: a number from 1 to 4294967296");
    run.options.training.batch = 8;
    run.options.optimizer.kind = VC_OPTIMIZER_ADAFACTOR;
    expect_refused(&run, VC_E_ARGUMENT, "optimizer.kind has no such value");
    run.options.optimizer.kind = VC_OPTIMIZER_ADAM;
    run.options.optimizer.lr = 1e-300;
    expect_refused(&run, VC_E_ARGUMENT, "the student did not change in 12 steps");
    assert_false(exists("out.npz"));
    close_run(&run);
}

/* prune, distill, prune on the student's file. */
static enum vc_status run_chain(struct run *run, struct vc_job **job)
{
    struct vc_write_options write;
    struct vc_prune_options prune;
    enum vc_status status = vc_job_create(ctx, run->student.weights, job);

    vc_write_defaults(&write);
    write.path = run->chain;
    write.force = true;
    vc_prune_defaults(&prune);
    prune.sparsity = "0.5";
    prune.scope = VC_PRUNE_GLOBAL;
    status = status == VC_OK ? vc_job_add_prune(ctx, *job, &prune) : status;
    status = status == VC_OK ? vc_job_add_distill(ctx, *job, &run->options) : status;
    prune.sparsity = "0.75";
    status = status == VC_OK ? vc_job_add_prune(ctx, *job, &prune) : status;
    status = status == VC_OK ? vc_job_plan(ctx, *job, &write) : status;
    return status == VC_OK ? vc_job_run(ctx, *job) : status;
}

static size_t count_zeros(const char *file)
{
    double weights[24];
    size_t n = 0;

    read_doubles(file, "b.weight", weights, 24);
    for (size_t i = 0; i < 24; i++) {
        n += weights[i] == 0;
    }
    return n;
}

/* Passes before and behind a training see what it gets and what it leaves; without a run nothing is trained. */
static void test_chain(void **unused)
{
    const struct vc_report *report;
    struct vc_write_options dry;
    struct vc_job *job = NULL;
    struct run run;

    (void)unused;
    open_run(&run);
    run.options.graph_path = run.layers;
    run.options.sparsity.keep = true;
    run.options.eval.rows = &run.data;
    assert_int_equal(run_chain(&run, &job), VC_OK);
    report = vc_job_report(job);
    assert_int_equal(report->n_distillations, 1);
    assert_true(report->distillations[0]->n_masked == 32 && report->distillations[0]->n_steps == STEPS);
    assert_true(report->distillations[0]->options->training.steps == STEPS &&
                report->distillations[0]->written == NULL);
    assert_string_equal(report->command,
                        "prune --sparsity 0.5 --scope global + distill + prune --sparsity 0.75 --scope global");
    assert_int_equal(run.n_losses, STEPS);
    vc_job_free(job);
    assert_true(count_zeros("chain.npz") >= 12);
    run.n_losses = 0;
    vc_write_defaults(&dry);
    dry.path = in_folder("dry.npz");
    dry.dry_run = true;
    assert_int_equal(vc_job_create(ctx, run.student.weights, &job), VC_OK);
    assert_int_equal(vc_job_add_distill(ctx, job, &run.options), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &dry), VC_OK);
    assert_true(run.n_losses == 0 && vc_job_report(job)->distillations[0]->n_steps == 0);
    assert_true(vc_job_report(job)->distillations[0]->arena_bytes != 0);
    vc_job_free(job);
    close_run(&run);
}

/* A gate of the training is a gate of the job. */
static void test_chain_gate(void **unused)
{
    struct vc_job *job = NULL;
    struct run run;

    (void)unused;
    open_run(&run);
    remove_path("chain.npz");
    run.options.graph_path = run.layers;
    run.options.eval.rows = &run.data;
    run.options.gates.min_accuracy = 1;
    assert_int_equal(run_chain(&run, &job), VC_E_GATE);
    expect_says(ctx, "is below gates.min_accuracy 1");
    assert_string_equal(vc_job_report(job)->gate_missed, vc_job_report(job)->distillations[0]->missed);
    assert_int_equal(vc_job_run(ctx, job), VC_E_ARGUMENT);
    vc_job_free(job);
    run.options.gates.min_accuracy = 0;
    run.options.graph_path = in_folder("nowhere.txt");
    assert_int_equal(run_chain(&run, &job), VC_E_IO);
    vc_job_free(job);
    assert_false(exists("chain.npz"));
    close_run(&run);
}

static void test_chain_no_memory(void **unused)
{
    struct vc_job *job = NULL;
    struct run run;
    unsigned in_row = 0;
    uint64_t n;

    (void)unused;
    open_run(&run);
    remove_path("chain.npz");
    run.options.graph_path = run.layers;
    run.options.training.steps = 1;
    run.options.tell = NULL;
    for (n = 1; n < 100000; n += TEST_STRIDE) {
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = run_chain(&run, &job);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        vc_job_free(job);
        if (status != VC_OK && status != VC_E_NOMEM) {
            fail_msg("allocation %llu: %s", (unsigned long long)n, vc_ctx_message(ctx));
        }
        in_row = status == VC_OK ? in_row + 1 : 0; /* fewer workers do without some */
        if (in_row == 100 / TEST_STRIDE) {
            break;
        }
        assert_true((status == VC_OK) == exists("chain.npz"));
        remove_path("chain.npz");
    }
    assert_true(n > 200 && n < 100000);
    close_run(&run);
}

/* A student that is made of its teacher: half of the eight neurons, with their weights. */
static void test_width(void **unused)
{
    struct vc_distillation *d = NULL;
    struct run run;
    uint64_t n;

    (void)unused;
    open_run(&run);
    run.options.student = (struct vc_network){.graph = NULL};
    run.options.graph_path = run.layers;
    run.options.derive.width = "0.5";
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
    assert_true(d->n_weights == 4 * 5 + 4 + 3 * 4 + 3 && strcmp(d->options->derive.width, "0.5") == 0);
    assert_true(d->written->removal->groups[0].n_after == 4);
    vc_result_free(d);
    run.options.derive.width = "1";
    expect_refused(&run, VC_E_ARGUMENT, "width: 1 is not above 0 and below 1");
    run.options.derive.width = "0.5";
    run.options.student = run.student;
    expect_refused(&run, VC_E_ARGUMENT, "width makes the student of the teacher, and another student is given");
    run.options.student = (struct vc_network){.graph = NULL};
    run.options.teacher = run.options.student;
    expect_refused(&run, VC_E_ARGUMENT, "there is no network to make a student of");
    run.options.teacher = run.teacher;
    remove_path("out.npz");
    run.options.training.steps = 1;
    run.options.tell = NULL;
    for (n = 1; n < 100000; n += 3 * TEST_STRIDE) { /* some of the allocations, which are many */
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_distill(ctx, &run.options, &d);
        vc_pool_fail_at(ctx->shared->pool, 0, 0);
        if (status == VC_OK) {
            break;
        }
        assert_int_equal(status, VC_E_NOMEM);
        assert_true(d == NULL && !exists("out.npz"));
    }
    assert_true(n > 100 && n < 100000);
    vc_result_free(d);
    close_run(&run);
}

/* Each allocation fails once: a sentence, no output, and nothing is lost. */
static void test_no_memory(void **unused)
{
    struct vc_distillation *d = NULL;
    struct run run;
    uint64_t n;

    (void)unused;
    open_run(&run);
    remove_path("out.npz");
    run.options.training.steps = 1;
    run.options.eval.rows = &run.data;
    run.options.eval.control = true;
    run.options.sparsity.keep = true;
    run.options.tell = NULL;
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

/* A walk that is cancelled ends at the next step. */
static void cancel(void *user, const struct vc_distill_step *step)
{
    (void)user;
    assert_true(step->step <= 3);
    if (step->step == 3) {
        vc_ctx_cancel(ctx);
    }
}

static void test_cancelled(void **unused)
{
    struct run run;

    (void)unused;
    open_run(&run);
    remove_path("out.npz");
    run.options.tell = cancel;
    expect_refused(&run, VC_E_CANCELLED, "");
    assert_false(exists("out.npz"));
    close_run(&run);
}

/* Vocabularies that are padded differently: of a wider teacher the run is the one with the teacher of the first
 * classes; a wider student learns never to answer with what the teacher has not. */
static void test_classes(void **unused)
{
    struct vc_distillation *d = NULL;
    struct vc_network wide = {.graph = NULL};
    double losses[STEPS];
    struct run run;

    (void)unused;
    open_run(&run);
    run.options.write = NULL;
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
    vc_result_free(d);
    memcpy(losses, run.losses, sizeof losses);
    open_wide(&wide, 5);
    run.options.teacher = wide;
    expect_refused(&run, VC_E_ARGUMENT,
                   "the teacher has 5 classes, the student has 3; where the last ones pad one vocabulary");
    run.options.loss.classes = VC_CLASSES_COMMON;
    run.n_losses = 0;
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
    vc_result_free(d);
    assert_memory_equal(losses, run.losses, sizeof losses);

    run.options.teacher = run.teacher;
    run.options.student = wide;
    run.n_losses = 0;
    run.options.optimizer.lr = 0.05;
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
    assert_true(isfinite(run.losses[0]) && run.losses[STEPS - 1] < run.losses[0]);
    vc_result_free(d);
    run.options.loss.kind = VC_TEACHER_LOSS_MSE;
    expect_refused(&run, VC_E_ARGUMENT, "cannot be compared by loss.kind mse or cosine");
    close_net(&wide);
    close_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),    cmocka_unit_test(test_goldens),         cmocka_unit_test(test_judged),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_recalibrated),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_cancelled),  cmocka_unit_test(test_chain),           cmocka_unit_test(test_width),
        cmocka_unit_test(test_chain_gate), cmocka_unit_test(test_chain_no_memory),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
