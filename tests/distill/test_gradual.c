/* test_gradual.c - pruning on the way: the share of each step by its formula, masks that only grow, exact counts in the
 * written file, the weights that `prune` chooses, states of 0, evaluations, interrupted runs, memory, refusals. */
#include "distill_test.h"

#include <math.h>

#include "core/base/pool.h"

#define N_A 40
#define N_B 24

/* What a run has told. */
struct shares {
    double by_step[STEPS + 1]; /* number of the step, from 1 */
    double losses[STEPS + 1];
    uint64_t stop_at, n_evals;
};

static void listen(void *user, const struct vc_distill_step *step)
{
    struct shares *shares = user;

    if (step->eval != NULL) {
        shares->n_evals++;
        return;
    }
    shares->by_step[step->step] = step->sparsity;
    shares->losses[step->step] = step->loss;
    if (step->step == shares->stop_at) {
        vc_ctx_cancel(ctx);
    }
}

static void open_pruned(struct run *run, struct vc_prune_options *prune, struct shares *shares)
{
    open_run(run);
    vc_prune_defaults(prune);
    prune->sparsity = "0.7";
    *shares = (struct shares){.stop_at = 0};
    run->options.sparsity.prune = prune;
    run->options.sparsity.prune_first = 1;
    run->options.sparsity.prune_last = 9;
    run->options.sparsity.prune_every = 2;
    run->options.optimizer.lr = 0.01;
    run->options.tell = listen;
    run->options.user = shares;
}

static void distill(struct run *run, struct vc_distillation **d)
{
    if (vc_distill(ctx, &run->options, d) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
}

static size_t count_zeros(const char *file, const char *tensor, double *values, size_t n)
{
    size_t zeros = 0;

    read_doubles(file, tensor, values, n);
    for (size_t i = 0; i < n; i++) {
        zeros += values[i] == 0;
    }
    return zeros;
}

/* A student of which some weights are 0 already: the first n of b. */
static void write_sparse(const char *name, size_t n_zeros)
{
    double a[N_A], a_bias[8], b[N_B], b_bias[3];
    const struct vc_memory_tensor tensors[] = {
        {"a.weight", VC_DTYPE_F64, 2, shape_a, a},
        {"a.bias", VC_DTYPE_F64, 1, shape_a, a_bias},
        {"b.weight", VC_DTYPE_F64, 2, shape_b, b},
        {"b.bias", VC_DTYPE_F64, 1, shape_b, b_bias},
    };

    numbers(200, N_A, a);
    numbers(201, 8, a_bias);
    numbers(202, N_B, b);
    numbers(203, 3, b_bias);
    for (size_t i = 0; i < n_zeros; i++) {
        b[i] = 0;
    }
    write_file(name, tensors, 4);
}

/* ---- counts ---- */

/* Zeros of a tensor while step number `step` is made, with FIRST 1, LAST 9, EVERY 2. */
static uint64_t wanted(uint64_t step, uint64_t n, uint64_t begun, uint64_t end)
{
    uint64_t done = step - 1;                                            /* steps behind it */
    uint64_t at = done < 1 ? 0 : done >= 9 ? 9 : 1 + (done - 1) / 2 * 2; /* when masks grew last */
    double left = at == 0 ? 1 : 1 - (double)(at - 1) / 8;

    assert_true(end <= n);
    return end - (uint64_t)ceil((double)(end - begun) * left * left * left);
}

static void test_counts(void **unused)
{
    (void)unused;
    for (unsigned k = 0; k < 4; k++) {
        bool global = k & 1;
        struct vc_prune_options prune;
        struct vc_distillation *d = NULL;
        struct shares shares;
        struct run run;
        double a[N_A], b[N_B];
        size_t zeros;

        write_sparse("student.npz", 6);
        open_pruned(&run, &prune, &shares);
        prune.scope = global ? VC_PRUNE_GLOBAL : VC_PRUNE_TENSOR;
        run.options.precision.kind = k < 2 ? VC_GRAPH_F64 : VC_GRAPH_F32;
        distill(&run, &d);
        for (uint64_t step = 1; step <= STEPS; step++) {
            uint64_t n = global ? wanted(step, N_A + N_B, 6, 44) : wanted(step, N_A, 0, 28) + wanted(step, N_B, 6, 16);

            assert_true(shares.by_step[step] == (double)n / (N_A + N_B));
            assert_true(step == 1 || shares.by_step[step] >= shares.by_step[step - 1]);
        }
        zeros = count_zeros("out.npz", "a.weight", a, N_A);
        if (global) {
            assert_int_equal(zeros + count_zeros("out.npz", "b.weight", b, N_B), 44); /* floor(0.7 * 64) */
        } else {
            assert_int_equal(zeros, 28);
            assert_int_equal(count_zeros("out.npz", "b.weight", b, N_B), 16);
        }
        read_doubles("out.npz", "b.weight", b, N_B);
        for (size_t i = 0; i < 6; i++) {
            assert_true(b[i] == 0);
        }
        assert_true(d->prune_weights == N_A + N_B && d->prune_begin == 6 && d->prune_end == 44);
        assert_true(d->n_masked == 44 && d->prune_first == 1 && d->prune_last == 9 && d->prune_every == 2);
        assert_true(d->peak_bytes <= d->planned_bytes);
        vc_result_free(d);
        close_run(&run);
        write_net("student.npz", 200);
    }
}

/* With one moment of pruning before the first step and no learning rate to speak of, the zeros are those of `prune`. */
static void test_as_prune(void **unused)
{
    static const char *const shares_of[] = {"0.5", "0.83", "0.05"};

    (void)unused;
    for (unsigned k = 0; k < 6; k++) {
        struct vc_rule rules[] = {{"a.bias", true}, {"b.*", false}};
        struct vc_prune_options prune;
        struct vc_distillation *d = NULL;
        struct vc_job *job = NULL;
        struct vc_write_options write;
        struct shares shares;
        struct run run;
        double ours[N_A], theirs[N_A];

        open_pruned(&run, &prune, &shares);
        prune.sparsity = shares_of[k / 2];
        prune.scope = k & 1 ? VC_PRUNE_GLOBAL : VC_PRUNE_TENSOR;
        prune.min_keep = k & 1 ? "0.3" : NULL;
        prune.rules = rules;
        prune.n_rules = k == 4 || k == 5 ? 2 : 0;
        run.options.sparsity.prune_first = run.options.sparsity.prune_last = 0;
        run.options.sparsity.prune_every = 1;
        run.options.optimizer.lr = 1e-12;
        run.options.optimizer.weight_decay = 0;
        if (k / 2 == 1 && (k & 1) == 1) { /* more than min_keep allows */
            expect_refused(&run, VC_E_ARGUMENT, "0.83 of 64 is 53, but min_keep leaves 44");
            close_run(&run);
            continue;
        }
        distill(&run, &d);
        vc_result_free(d);

        vc_write_defaults(&write);
        write.path = in_folder("pruned.npz");
        write.force = true;
        assert_int_equal(vc_job_create(ctx, run.student.weights, &job), VC_OK);
        assert_int_equal(vc_job_add_prune(ctx, job, &prune), VC_OK);
        assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
        assert_int_equal(vc_job_run(ctx, job), VC_OK);
        vc_job_free(job);
        for (unsigned t = 0; t < 3; t++) {
            const char *name = t == 0 ? "a.weight" : t == 1 ? "b.weight" : "a.bias";
            size_t n = t == 0 ? N_A : t == 1 ? N_B : 8;

            read_doubles("out.npz", name, ours, n);
            read_doubles("pruned.npz", name, theirs, n);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(ours[i] == 0, theirs[i] == 0);
                assert_true(fabs(ours[i] - theirs[i]) < 1e-9);
            }
        }
        close_run(&run);
    }
}

/* Of weights with one magnitude the first ones go. */
static void test_ties(void **unused)
{
    double a[N_A], a_bias[8], b[N_B], b_bias[3];
    const struct vc_memory_tensor tensors[] = {
        {"a.weight", VC_DTYPE_F64, 2, shape_a, a},
        {"a.bias", VC_DTYPE_F64, 1, shape_a, a_bias},
        {"b.weight", VC_DTYPE_F64, 2, shape_b, b},
        {"b.bias", VC_DTYPE_F64, 1, shape_b, b_bias},
    };
    struct vc_prune_options prune;
    struct vc_distillation *d = NULL;
    struct shares shares;
    struct run run;

    (void)unused;
    numbers(203, 3, b_bias);
    for (size_t i = 0; i < 8; i++) { /* no unit is dead */
        a_bias[i] = 5;
    }
    for (size_t i = 0; i < N_A; i++) {
        a[i] = i % 2 == 0 ? 0.5 : -0.5;
    }
    for (size_t i = 0; i < N_B; i++) {
        b[i] = i < 4 ? 0.25 : 0.5;
    }
    write_file("student.npz", tensors, 4);
    for (unsigned k = 0; k < 2; k++) {
        open_pruned(&run, &prune, &shares);
        prune.sparsity = "0.6";
        prune.scope = k == 1 ? VC_PRUNE_GLOBAL : VC_PRUNE_TENSOR;
        run.options.precision.kind = VC_GRAPH_F32;
        run.options.sparsity.prune_first = run.options.sparsity.prune_last = 0;
        run.options.sparsity.prune_every = 1;
        run.options.optimizer.lr = 1e-6;
        run.options.optimizer.weight_decay = 0;
        distill(&run, &d);
        vc_result_free(d);
        (void)count_zeros("out.npz", "a.weight", a, N_A);
        (void)count_zeros("out.npz", "b.weight", b, N_B);
        for (size_t i = 0; i < N_A; i++) { /* together: 4 of b below the threshold, then those of a, in their order */
            assert_int_equal(a[i] == 0, i < (k == 1 ? 34 : 24));
        }
        for (size_t i = 0; i < N_B; i++) {
            assert_int_equal(b[i] == 0, i < (k == 1 ? 4 : 14));
        }
        close_run(&run);
    }
    write_net("student.npz", 200);
}

/* ---- evaluations, interruptions ---- */

/* Weights of an evaluation before the last mask are never the best ones, and no reason to stop. */
static void test_best(void **unused)
{
    struct vc_prune_options prune;
    struct vc_distillation *d = NULL;
    struct shares shares;
    struct run run;
    double a[N_A];

    (void)unused;
    open_pruned(&run, &prune, &shares);
    run.options.eval.rows = &run.data;
    run.options.eval.every = 1;
    run.options.eval.early_stop = 2;
    run.options.student = run.teacher; /* it begins as the best that can be */
    run.options.optimizer.lr = 1e-5;
    distill(&run, &d);
    assert_true(d->best_step > 9 && d->n_evals > 9);
    assert_true(d->evals[0].quality.agreement > d->after.agreement || d->evals[0].quality.agreement == 1);
    assert_int_equal(count_zeros("out.npz", "a.weight", a, N_A), 28);
    vc_result_free(d);
    close_run(&run);
}

/* The run to its end, and interrupted and resumed at any step: the same bytes. States of masked weights are 0. */
static void test_resumed(void **unused)
{
    static char full[256], again[256], file[256];

    (void)unused;
    (void)snprintf(full, sizeof full, "%s", in_folder("full.npz"));
    (void)snprintf(again, sizeof again, "%s", in_folder("again.npz"));
    (void)snprintf(file, sizeof file, "%s", in_folder("run.npz"));
    for (uint64_t stop = 1; stop < STEPS; stop++) {
        struct vc_prune_options prune;
        struct vc_distillation *d = NULL;
        struct shares whole, rest;
        struct run run;
        double a[N_A], keep_a[N_A], states[2 * N_A];
        struct vc_model *model = NULL;
        uint8_t keep[N_A];

        open_pruned(&run, &prune, &whole);
        prune.scope = stop % 2 == 0 ? VC_PRUNE_GLOBAL : VC_PRUNE_TENSOR;
        run.write.path = full;
        distill(&run, &d);
        vc_result_free(d);

        remove_path("run.npz");
        rest = (struct shares){.stop_at = stop};
        run.options.user = &rest;
        run.options.checkpoint.path = file;
        run.write.path = again;
        assert_int_equal(vc_distill(ctx, &run.options, &d), VC_E_CANCELLED);

        assert_int_equal(vc_model_open(ctx, file, NULL, &model), VC_OK);
        assert_int_equal(vc_model_read(ctx, model, vc_model_find(model, "keep.a.weight"), 0, N_A, keep, N_A), VC_OK);
        assert_int_equal(vc_model_read(ctx, model, vc_model_find(model, "weight.a.weight"), 0, N_A, keep_a, sizeof a),
                         VC_OK);
        assert_int_equal(
            vc_model_read(ctx, model, vc_model_find(model, "states"), 0, sizeof states, states, sizeof states),
            VC_OK); /* m and v of the first tensor, whose size is a multiple of 64 */
        vc_model_close(model);
        for (size_t i = 0; i < N_A; i++) {
            assert_true(keep[i] != 0 || (keep_a[i] == 0 && states[i] == 0 && states[N_A + i] == 0));
            assert_true(keep[i] == 0 || (keep_a[i] != 0 && states[i] != 0 && states[N_A + i] != 0));
        }

        rest.stop_at = 0;
        run.options.checkpoint.resume = file;
        distill(&run, &d);
        assert_true(d->resumed == stop && d->prune_end == 44 && d->prune_begin == 0);
        vc_result_free(d);
        assert_memory_equal(rest.losses, whole.losses, sizeof rest.losses);
        assert_memory_equal(rest.by_step, whole.by_step, sizeof rest.by_step);
        expect_same("full.npz", "again.npz");
        if (stop == 5) { /* a checkpoint of another schedule */
            run.options.sparsity.prune_last = 10;
            expect_refused(&run, VC_E_ARGUMENT, "was made by a run with another sparsity.prune_first");
            run.options.sparsity.prune_last = 9;
            prune.sparsity = "0.71";
            expect_refused(&run, VC_E_ARGUMENT, "was made by a run with another sparsity");
        }
        close_run(&run);
    }
}

/* ---- memory ---- */

static void test_memory(void **unused)
{
    struct vc_distillation *d = NULL;
    struct vc_prune_options prune;
    struct shares shares;
    struct run run;
    uint64_t n;

    (void)unused;
    for (unsigned k = 0; k < 2; k++) { /* what the plan says is what there is; all tensors have masks here */
        open_pruned(&run, &prune, &shares);
        prune.scope = k == 1 ? VC_PRUNE_GLOBAL : VC_PRUNE_TENSOR;
        distill(&run, &d);
        assert_int_equal(d->peak_bytes, d->planned_bytes);
        vc_result_free(d);
        close_run(&run);
    }
    open_pruned(&run, &prune, &shares);
    remove_path("out.npz");
    prune.scope = VC_PRUNE_GLOBAL;
    run.options.training.steps = 3;
    run.options.sparsity.prune_last = 2;
    run.options.sparsity.prune_every = 1;
    for (n = 1; n < 100000; n += TEST_STRIDE) {
        enum vc_status status;

        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_distill(ctx, &run.options, &d);
        if (status == VC_OK) {
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

/* ---- refusals ---- */

static void expect_no(uint64_t first, uint64_t last, uint64_t every, const char *words)
{
    struct vc_prune_options prune;
    struct shares shares;
    struct run run;

    open_pruned(&run, &prune, &shares);
    run.options.sparsity.prune_first = first;
    run.options.sparsity.prune_last = last;
    run.options.sparsity.prune_every = every;
    expect_refused(&run, VC_E_ARGUMENT, words);
    close_run(&run);
}

static void test_refused(void **unused)
{
    struct vc_rule all = {"*", false};
    struct vc_prune_options prune;
    struct vc_distillation *d = NULL;
    struct shares shares;
    struct run run;

    (void)unused;
    expect_no(0, STEPS, 1, "prune_first: the run has 12 steps, and none is left behind step 12");
    expect_no(5, 4, 1, "prune_first 5:4:1: expected FIRST:LAST:EVERY");
    expect_no(0, 4, 0, "prune_first 0:4:0: expected");
    open_pruned(&run, &prune, &shares);
    prune.sparsity = "1.1";
    expect_refused(&run, VC_E_ARGUMENT, "sparsity: '1.1' is no share: a decimal from 0 to 1");
    prune.sparsity = NULL;
    expect_refused(&run, VC_E_ARGUMENT, "nothing says how much to prune");
    prune.sparsity = "0.5";
    prune.min_keep = "0.1";
    expect_refused(&run, VC_E_ARGUMENT, "min_keep goes with one threshold");
    prune.min_keep = NULL;
    prune.pattern = VC_PATTERN_N_OF_M;
    expect_refused(&run, VC_E_UNSUPPORTED, "without patterns");
    prune.pattern = VC_PATTERN_NONE;
    prune.rules = &all;
    prune.n_rules = 1;
    expect_refused(&run, VC_E_ARGUMENT, "sparsity: there is no tensor to prune");
    prune.n_rules = 0;
    run.options.sparsity.prune = NULL;
    expect_refused(&run, VC_E_ARGUMENT, "prune_first needs sparsity");
    run.options.sparsity.prune = &prune;
    run.options.sparsity.prune_first = run.options.sparsity.prune_last = run.options.sparsity.prune_every = 0;
    run.options.dry_run = true; /* the schedule that is taken where none is given */
    distill(&run, &d);
    assert_true(d->prune_first == 0 && d->prune_last == 9 && d->prune_every == 1 && d->prune_weights == N_A + N_B);
    vc_result_free(d);
    close_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),  cmocka_unit_test(test_as_prune), cmocka_unit_test(test_ties),
        cmocka_unit_test(test_best),    cmocka_unit_test(test_resumed),  cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
