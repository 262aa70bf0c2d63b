/* test_checkpoint.c - a run that is interrupted and resumed is the run that was not, to the last bit: every optimizer
 * in f32 and f64, running statistics, masks, dropout, the control run. What belongs to another run is refused. */
#include "distill_test.h"

#include <math.h>

#include "graph/build.h"
#include "graph/builder/builder.h"

#define STOP_AT 5

/* What one test changes, and what a run has told. */
struct told {
    uint64_t stop_at; /* steps, after which it is cancelled; 0: never */
    bool stop_control;
    double losses[2][STEPS + 1]; /* by number of the step, of run and control */
    unsigned n_evals;
};

static void listen(void *user, const struct vc_distill_step *step)
{
    struct told *told = user;

    if (step->eval != NULL) {
        told->n_evals++;
        return;
    }
    told->losses[step->control][step->step] = step->loss;
    if (step->step == told->stop_at && step->control == told->stop_control) {
        vc_ctx_cancel(ctx);
    }
}

/* The run to its end, then interrupted and resumed: the same losses, and the same bytes of the output. */
static void compare_runs(struct run *run, bool stop_control)
{
    static char full[256], again[256], file[256];
    struct told whole = {.stop_at = 0};
    struct told first = {.stop_at = STOP_AT, .stop_control = stop_control};
    struct told rest = {.stop_at = 0};
    struct vc_distillation *d = NULL;

    (void)snprintf(full, sizeof full, "%s", in_folder("full.npz"));
    (void)snprintf(again, sizeof again, "%s", in_folder("again.npz"));
    (void)snprintf(file, sizeof file, "%s", in_folder("run.npz"));
    remove_path("run.npz");
    run->options.tell = listen;
    run->options.user = &whole;
    run->write.path = full;
    if (vc_distill(ctx, &run->options, &d) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    vc_result_free(d);

    run->options.user = &first;
    run->options.checkpoint.path = file;
    run->write.path = again;
    remove_path("again.npz");
    assert_int_equal(vc_distill(ctx, &run->options, &d), VC_E_CANCELLED);
    expect_says(ctx, stop_control ? "interrupted after 5 steps of the control run; checkpoint.resume"
                                  : "interrupted after 5 steps; checkpoint.resume");
    assert_false(exists("again.npz"));

    run->options.user = &rest;
    run->options.checkpoint.resume = file;
    if (vc_distill(ctx, &run->options, &d) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_int_equal(d->resumed, stop_control ? 0 : STOP_AT);
    vc_result_free(d);
    for (unsigned c = 0; c < (run->options.eval.control ? 2 : 1); c++) {
        uint64_t n_before = c == 1 && !stop_control ? STEPS : c == stop_control ? STOP_AT : 0;

        for (uint64_t k = 1; k <= STEPS; k++) {
            double loss = k <= n_before ? first.losses[c][k] : rest.losses[c][k];

            assert_true(loss == whole.losses[c][k] && loss != 0);
        }
        assert_true(n_before == STEPS || rest.losses[c][n_before] == 0); /* nothing was done again */
    }
    expect_same("full.npz", "again.npz");
    run->options.checkpoint.path = NULL;
    run->options.checkpoint.resume = NULL;
}

static void test_optimizers(void **unused)
{
    static const enum vc_optimizer optimizers[] = {VC_OPTIMIZER_SGD, VC_OPTIMIZER_MOMENTUM, VC_OPTIMIZER_ADAM,
                                                   VC_OPTIMIZER_ADAMW};

    (void)unused;
    for (size_t k = 0; k < 8; k++) {
        struct run run;

        open_run(&run);
        run.options.optimizer.kind = optimizers[k % 4];
        run.options.optimizer.nesterov = optimizers[k % 4] == VC_OPTIMIZER_MOMENTUM;
        run.options.precision.kind = k < 4 ? VC_GRAPH_F32 : VC_GRAPH_F64;
        run.options.training.order = VC_ORDER_SHUFFLED;
        run.options.training.seed = 3;
        run.options.training.accum = 2;
        run.options.schedule.kind = VC_SCHEDULE_COSINE;
        run.options.schedule.warmup = 2;
        run.options.loss.alpha = 0.5;
        run.options.optimizer.lr = 0.01;
        compare_runs(&run, false);
        close_run(&run);
    }
}

/* The run that is interrupted may be the control, or the one behind it. */
static void test_control(void **unused)
{
    (void)unused;
    for (unsigned k = 0; k < 2; k++) {
        struct vc_distillation *d = NULL;
        struct vc_quality control[2];
        double gain[2];
        struct run run;

        open_run(&run);
        run.options.eval.rows = &run.data;
        run.options.eval.control = true;
        run.options.loss.alpha = 0.5;
        run.options.optimizer.lr = 0.01;
        compare_runs(&run, k == 1);
        for (unsigned i = 0; i < 2; i++) { /* the figures of the control come out of the file, too */
            struct told told = {.stop_at = i == 0 ? 0 : STOP_AT};
            char file[256];

            (void)snprintf(file, sizeof file, "%s", in_folder("control.npz"));
            run.options.user = &told;
            run.options.checkpoint.path = i == 0 ? NULL : file;
            if (i == 1) {
                assert_int_equal(vc_distill(ctx, &run.options, &d), VC_E_CANCELLED);
                run.options.checkpoint.resume = file;
                told.stop_at = 0;
            }
            assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
            control[i] = d->control;
            gain[i] = d->gain;
            vc_result_free(d);
        }
        assert_memory_equal(&control[0], &control[1], sizeof control[0]);
        assert_true(gain[0] == gain[1]);
        remove_path("control.npz");
        close_run(&run);
    }
}

/* Batch normalization's running statistics, and weights that stay 0. */
static void test_statistics(void **unused)
{
    static const uint64_t shape_w[2] = {8, 5}, shape_v[2] = {3, 8}, eight = 8;
    static const char text[] = "input x [batch, 5]\nlinear a 8 bias=no\nbatchnorm n\nrelu\nlinear b 3 bias=no\n";
    double w[40], v[24], ones[8], zeros[8] = {0};
    const struct vc_memory_tensor tensors[] = {
        {"a.weight", VC_DTYPE_F64, 2, shape_w, w},        {"n.weight", VC_DTYPE_F64, 1, &eight, ones},
        {"n.bias", VC_DTYPE_F64, 1, &eight, zeros},       {"n.running_mean", VC_DTYPE_F64, 1, &eight, zeros},
        {"n.running_var", VC_DTYPE_F64, 1, &eight, ones}, {"b.weight", VC_DTYPE_F64, 2, shape_v, v}};
    struct vc_graph_options graph;
    struct vc_network net;
    struct vc_model *model = NULL;
    double mean[8];
    struct run run;

    (void)unused;
    numbers(31, 40, w);
    numbers(32, 24, v);
    for (size_t i = 0; i < 8; i++) {
        ones[i] = 1;
        w[5 * i] = 0;
    }
    write_file("norm.npz", tensors, 6);
    (void)save_text("norm.txt", text);
    open_run(&run);
    assert_int_equal(vc_model_open(ctx, in_folder("norm.npz"), NULL, &model), VC_OK);
    vc_graph_defaults(&graph);
    graph.weights = model;
    assert_int_equal(vc_graph_read_text(ctx, in_folder("norm.txt"), &graph, &net.graph), VC_OK);
    net.weights = model;
    net.beside = NULL;
    run.options.student = net;
    run.options.sparsity.keep = true;
    run.options.optimizer.lr = 0.01;
    compare_runs(&run, false);
    read_doubles("again.npz", "n.running_mean", mean, 8);
    read_doubles("again.npz", "a.weight", w, 40);
    for (size_t i = 0; i < 8; i++) {
        assert_true(mean[i] != 0 && w[5 * i] == 0 && w[5 * i + 1] != 0);
    }
    close_run(&run);
    vc_graph_close(net.graph);
    vc_model_close(model);
}

/* Dropped elements are a function of the step: graphs of files have none, this one is built by hand. */
static void test_dropout(void **unused)
{
    static const uint64_t shape_w[2] = {5, 3};
    struct vc_dim shape[2] = {vc_dim_number(4), vc_dim_number(5)};
    double w[15];
    const struct vc_memory_tensor tensor = {"w", VC_DTYPE_F64, 2, shape_w, w};
    const struct vc_param_spec param = {.tensor = "w", .index = 0, .n_dims = 2, .shape = shape_w};
    struct vc_graph *graph = NULL;
    struct vc_model *model = NULL;
    double losses[2];
    struct run run;
    uint32_t x, p;

    (void)unused;
    numbers(41, 15, w);
    write_file("drop.npz", &tensor, 1);
    assert_int_equal(vc_model_open(ctx, in_folder("drop.npz"), NULL, &model), VC_OK);
    assert_int_equal(vc_graph_create(ctx, &graph), VC_OK);
    x = vc_graph_add_input(graph, "x", VC_DTYPE_F32, shape, 2);
    p = vc_graph_add_param(graph, "w", &param);
    x = vc_graph_add(graph, "Dropout", "dropped", (uint32_t[]){x, vc_graph_add_float(graph, 0.5)}, 2);
    vc_graph_add_output(graph, vc_graph_add(graph, "MatMul", "y", (uint32_t[]){x, p}, 2));
    assert_int_equal(vc_graph_finish(graph, &graph), VC_OK);
    open_run(&run);
    run.options.student = (struct vc_network){.graph = graph, .weights = model};
    run.options.training.batch = 4;
    run.options.optimizer.lr = 0.01;
    compare_runs(&run, false);
    for (unsigned k = 0; k < 2; k++) { /* and of the seed */
        struct told told = {.stop_at = 0};
        struct vc_distillation *d = NULL;

        run.options.training.seed = k;
        run.options.user = &told;
        assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
        losses[k] = told.losses[0][1];
        vc_result_free(d);
    }
    assert_true(losses[0] != losses[1]);
    close_run(&run);
    vc_graph_close(graph);
    vc_model_close(model);
}

/* Evaluations on the way: the best weights lie in the checkpoint, too, whatever step it is of. */
static void test_evaluations(void **unused)
{
    struct vc_distillation *d = NULL;
    struct run run;

    (void)unused;
    for (unsigned k = 0; k < 4; k++) {
        struct told told = {.stop_at = 0};

        open_run(&run);
        run.options.eval.rows = &run.data;
        run.options.eval.every = k < 2 ? 2 : STOP_AT;
        run.options.eval.keep = k % 2 == 0 ? VC_KEEP_BEST : VC_KEEP_LAST;
        run.options.eval.control = k == 0;
        run.options.loss.alpha = 0.5;
        run.options.optimizer.kind = VC_OPTIMIZER_SGD;
        run.options.optimizer.lr = 2; /* so large that the last weights are not the best */
        compare_runs(&run, false);
        run.options.user = &told;
        assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
        assert_int_equal(d->n_evals, k < 2 ? STEPS / 2 : 3);
        assert_true(d->best_step != 0 && !d->stopped && told.n_evals == d->n_evals * (k == 0 ? 2 : 1));
        for (uint64_t i = 0; i < d->n_evals; i++) {
            bool is_best = d->evals[i].step == d->best_step;

            assert_true(d->evals[i].quality.accuracy <= d->after.accuracy || k % 2 == 1);
            assert_true(!is_best || k % 2 == 1 || d->evals[i].quality.ce == d->after.ce);
            assert_true(d->evals[i].step != STEPS || k % 2 == 0 || d->evals[i].quality.ce == d->after.ce);
        }
        vc_result_free(d);
        close_run(&run);
    }
}

/* ---- what is refused ---- */

static void interrupt(struct run *run, const char *name, char *file, size_t room)
{
    struct told told = {.stop_at = STOP_AT};
    struct vc_distillation *d = NULL;

    (void)snprintf(file, room, "%s", in_folder(name));
    remove_path(name);
    run->options.tell = listen;
    run->options.user = &told;
    run->options.checkpoint.path = file;
    assert_int_equal(vc_distill(ctx, &run->options, &d), VC_E_CANCELLED);
    run->options.checkpoint.path = NULL;
    run->options.tell = NULL;
    run->options.checkpoint.resume = file;
}

/* A batch larger than the data is cut to all rows; the checkpoint has the number that was asked for. */
static void test_large_batch(void **unused)
{
    struct vc_distillation *d;
    struct run run;
    char file[256];

    (void)unused;
    open_run(&run);
    run.options.training.batch = 1000;
    run.options.training.accum = 1;
    interrupt(&run, "run.npz", file, sizeof file);
    run.options.training.batch = 10;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made with training.batch 1000; this run has 10");
    run.options.training.batch = 1000;
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_OK);
    vc_result_free(d);
    close_run(&run);
}

/* Masks of a file are in the checkpoint: those of another file, or none, are those of another run. */
static void test_other_mask(void **unused)
{
    uint8_t kept[40];
    const struct vc_memory_tensor mask = {"a.weight.mask", VC_DTYPE_U8, 2, shape_a, kept};
    struct vc_model *masks[2] = {NULL, NULL};
    struct run run;
    char file[256];

    (void)unused;
    memset(kept, 1, sizeof kept);
    for (int k = 0; k < 2; k++) {
        kept[3 + k] = 0;
        write_file(k == 0 ? "mask.npz" : "more.npz", &mask, 1);
        assert_int_equal(vc_model_open(ctx, in_folder(k == 0 ? "mask.npz" : "more.npz"), NULL, &masks[k]), VC_OK);
    }
    open_run(&run);
    run.options.write = NULL;
    run.options.sparsity.mask = masks[0];
    interrupt(&run, "run.npz", file, sizeof file);
    run.options.sparsity.mask = masks[1];
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made by a run with another sparsity.mask");
    run.options.sparsity.mask = NULL;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made by a run with another sparsity.mask");
    close_run(&run);
    vc_model_close(masks[0]);
    vc_model_close(masks[1]);
}

static void test_other_run(void **unused)
{
    const char *freeze[] = {"b.bias"};
    struct vc_network student;
    struct run run;
    char file[256];

    (void)unused;
    open_run(&run);
    remove_path("out.npz");
    interrupt(&run, "run.npz", file, sizeof file);
    run.options.optimizer.lr = 0.5;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made with optimizer.lr 0.001; this run has 0.5");
    run.options.optimizer.lr = 0.001;
    run.options.training.seed = 1;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made with training.seed 0; this run has 1");
    run.options.training.seed = 0;
    run.options.optimizer.kind = VC_OPTIMIZER_ADAM;
    run.options.optimizer.weight_decay = 0.01;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made by a run with another optimizer");
    run.options.optimizer.kind = VC_OPTIMIZER_ADAMW;
    run.options.trained.freeze = freeze;
    run.options.trained.n_freeze = 1;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made by a run with another trained.freeze");
    run.options.trained.n_freeze = 0;
    student = run.options.student;
    run.options.student = run.options.teacher;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made by a run with another student");
    run.options.student = student;
    run.data.n_rows = 10;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made by a run with another data");
    run.data.n_rows = 0;
    run.options.training.steps = 3;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: has 5 steps behind it; this run has 3");
    run.options.training.steps = STEPS;
    run.options.checkpoint.path = run.rows;
    expect_refused(&run, VC_E_ARGUMENT, "rows.npz: is another file of this run");
    run.options.checkpoint.path = NULL;
    run.options.checkpoint.resume = run.rows;
    expect_refused(&run, VC_E_FORMAT, "rows.npz: is no checkpoint of this run: version is not i64 with 1 elements");
    run.options.checkpoint.resume = NULL;
    run.options.checkpoint.every = 2;
    expect_refused(&run, VC_E_ARGUMENT, "checkpoint.every needs checkpoint");
    run.options.checkpoint.every = 0;
    run.options.checkpoint.path = file;
    run.write.force = false;
    expect_refused(&run, VC_E_ARGUMENT, "run.npz: exists already");
    assert_false(exists("out.npz"));
    close_run(&run);
}

/* What a run came to that went on from a file. */
struct resumed {
    struct run *run;
    struct told told;
    struct vc_quality after;
    size_t n_same, n_refused;
};

static void resume_from(void *user, size_t byte)
{
    struct resumed *r = user;
    struct told told = {.stop_at = 0};
    struct vc_distillation *d = NULL;
    enum vc_status status;

    r->run->options.user = &told;
    status = vc_distill(ctx, &r->run->options, &d);
    assert_int_equal(d != NULL, status == VC_OK);
    if (status == VC_OK && r->n_same == 0) {
        r->told = told;
        r->after = d->after;
    }
    if (status == VC_OK && (memcmp(r->told.losses, told.losses, sizeof told.losses) != 0 ||
                            r->told.n_evals != told.n_evals || d->after.kd != r->after.kd)) {
        fail_msg("byte %zu: another run", byte);
    }
    if (status != VC_OK && status != VC_E_FORMAT && status != VC_E_UNSUPPORTED && status != VC_E_ARGUMENT) {
        fail_msg("byte %zu: %s", byte, vc_ctx_message(ctx));
    }
    r->n_same += status == VC_OK;
    r->n_refused += status != VC_OK;
    vc_result_free(d);
}

/* The student of half zeros. */
static void write_sparse(const char *name)
{
    static const uint64_t eight = 8, three = 3;
    double a[40], a_bias[8], b[24], b_bias[3];
    const struct vc_memory_tensor tensors[] = {{"a.weight", VC_DTYPE_F64, 2, shape_a, a},
                                               {"a.bias", VC_DTYPE_F64, 1, &eight, a_bias},
                                               {"b.weight", VC_DTYPE_F64, 2, shape_b, b},
                                               {"b.bias", VC_DTYPE_F64, 1, &three, b_bias}};

    numbers(200, 40, a);
    numbers(201, 8, a_bias);
    numbers(202, 24, b);
    numbers(203, 3, b_bias);
    for (size_t i = 0; i < 40; i += 2) {
        a[i] = 0;
    }
    write_file(name, tensors, 4);
}

/* One bit of every byte of the file, in both formats: a sentence, or the run as it would have been. */
static void test_damaged(void **unused)
{
    static const char *const files[] = {"run.npz", "run.safetensors"};
    struct vc_network sparse = {.graph = NULL};

    (void)unused;
    write_sparse("sparse.npz");
    open_net("sparse.npz", &sparse);
    for (size_t k = 0; k < 2; k++) {
        struct resumed r = {.n_same = 0};
        struct run run;
        char file[256];

        open_run(&run);
        r.run = &run;
        run.options.student = sparse;
        run.options.write = NULL;
        run.options.eval.rows = &run.data;
        run.options.eval.every = 2;
        run.options.precision.kind = VC_GRAPH_F32;
        run.options.training.steps = STOP_AT + 2;
        interrupt(&run, files[k], file, sizeof file);
        run.options.tell = listen;
        resume_from(&r, 0);
        assert_int_equal(r.n_same, 1);
        flip_bits(files[k], resume_from, &r);
        assert_true(r.n_refused > 1000 / TEST_STRIDE); /* most bytes are content */
        close_run(&run);
    }
    close_net(&sparse);
}

/* The file again as less.npz, without one array, or with another first byte of it. */
static void copy_but(const struct vc_model *model, size_t but, const char *first)
{
    struct vc_memory_tensor tensors[MOST_SEALED];
    size_t n = 0;

    for (size_t k = 0; k < model->n_tensors; k++) {
        const struct vc_tensor *t = &model->tensors[k];
        char *data = malloc((size_t)t->size_bytes + 1);

        assert_non_null(data);
        assert_int_equal(vc_model_read(ctx, model, k, 0, t->n_elems, data, (size_t)t->size_bytes), VC_OK);
        if (k == but && first != NULL) {
            data[0] = *first;
        }
        if (k == but && first == NULL) {
            free(data);
        } else {
            tensors[n++] = (struct vc_memory_tensor){t->name, t->dtype, t->n_dims, t->shape, data};
        }
    }
    write_sealed("less.npz", tensors, n);
    for (size_t k = 0; k < n; k++) {
        free((void *)(uintptr_t)tensors[k].data);
    }
}

/* Every array of the file that is left out, and values that no run has, with a digest that fits. */
static void test_missing(void **unused)
{
    struct vc_model *model = NULL;
    struct vc_network sparse = {.graph = NULL};
    struct run run;
    char file[256];
    size_t n;

    (void)unused;
    write_sparse("sparse.npz");
    open_net("sparse.npz", &sparse);
    open_run(&run);
    run.options.student = sparse;
    run.options.write = NULL;
    interrupt(&run, "run.npz", file, sizeof file);
    assert_int_equal(vc_model_open(ctx, file, NULL, &model), VC_OK);
    n = model->n_tensors;
    assert_true(vc_model_find(model, "keep.a.weight") != VC_NO_TENSOR && n < MOST_SEALED);
    for (size_t k = 0; k < n; k++) {
        if (strcmp(model->tensors[k].name, VC_DIGEST_NAME) != 0) {
            copy_but(model, k, NULL);
            run.options.checkpoint.resume = in_folder("less.npz");
            expect_refused(&run, VC_E_FORMAT, "less.npz: is no checkpoint of this run: ");
            run.options.checkpoint.resume = file;
        }
    }
    copy_but(model, vc_model_find(model, "keep.a.weight"), "\2");
    run.options.checkpoint.resume = in_folder("less.npz");
    expect_refused(&run, VC_E_FORMAT,
                   "less.npz: is no checkpoint of this run: keep.a.weight has a value that no run has");
    copy_but(model, vc_model_find(model, "weight.a.weight"), "\1"); /* the first one is masked */
    expect_refused(&run, VC_E_FORMAT,
                   "less.npz: is no checkpoint of this run: weight.a.weight has a value that no run has");
    vc_model_close(model);
    close_run(&run);
    close_net(&sparse);
}

/* A run whose allocation number n fails. True: it had all, and its file is there. *unsaved counts runs that came to their end
 * without their file. */
static bool fail_once(const struct run *run, uint64_t n, uint64_t *unsaved)
{
    struct vc_distillation *d = NULL;
    enum vc_status status;
    bool whole;

    remove_path("next.npz");
    vc_pool_fail_at(ctx->shared->pool, n, 0);
    status = vc_distill(ctx, &run->options, &d);
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    if (status != VC_E_NOMEM && status != VC_OK) {
        fail_msg("allocation %llu: %s", (unsigned long long)n, vc_ctx_message(ctx));
    }
    whole = status == VC_OK && d->n_unsaved == 0;
    assert_true(whole ? exists("next.npz") : status != VC_OK || (d->unsaved != NULL && !exists("next.npz")));
    *unsaved += status == VC_OK && !whole;
    vc_result_free(d);
    return whole;
}

/* Each allocation fails once, of a run that resumes and writes. One that fails while the file is written costs that
 * file alone; these are few and last, so that a stride may miss them. */
static void test_no_memory(void **unused)
{
    uint64_t unsaved = 0;
    uint64_t n = 1;
    struct run run;
    char file[256], next[256];

    (void)unused;
    open_run(&run);
    interrupt(&run, "run.npz", file, sizeof file);
    (void)snprintf(next, sizeof next, "%s", in_folder("next.npz"));
    run.options.write = NULL;
    run.options.checkpoint.path = next;
    run.options.checkpoint.every = STEPS;
    while (!fail_once(&run, n, &unsaved)) {
        n += TEST_STRIDE;
    }
    assert_true(n > 50);
    while (unsaved == 0 && n-- > 50) {
        (void)fail_once(&run, n, &unsaved);
    }
    assert_true(unsaved > 0);
    close_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizers), cmocka_unit_test(test_control),     cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_dropout),    cmocka_unit_test(test_evaluations), cmocka_unit_test(test_large_batch),
        cmocka_unit_test(test_other_mask), cmocka_unit_test(test_other_run),   cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_missing),    cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
