/* test_half.c - training with values of 16 bits: what the program rounds, and to what, bit by bit; the scale of the
 * loss as GradScaler moves it; that a step which is left out leaves no trace. */
#include "distill_test.h"

#include <math.h>

#include "engine/train_loops.h"
#include "engine_test.h"
#include "kernels/kernels.h"

/* ---- what is rounded ---- */

#define N    40
#define NEAR 16 /* last digits of the largest result: a few operators, and what they amplify */

static uint32_t bits_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

/* x as the kernels of the casts leave it. */
static void cast(struct vc_ctx *c, bool f16, const float *x, size_t n, float *out)
{
    const struct vc_kernels *k = vc_kernels_get(c);
    uint16_t h[N];

    assert_true(n <= N);
    assert_int_equal(f16 ? k->cast_f32_f16(x, 1, n, h, NULL) : k->cast_f32_bf16(x, 1, n, h, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        out[i] = f16 ? vc_f16_to_f32(h[i]) : vc_bf16_to_f32(h[i]);
    }
}

/* Ties, what lies beside them, the smallest and largest of both types, and what is no number. */
static const uint32_t patterns[N] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, /* bf16's ties */
    0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, 0xbf801000, 0xbf803000,                         /* f16's */
    0x33000000, 0x33000001, 0x33800000, 0x387fc000, 0x38800000, 0x387fe000, 0x387fffff, /* subnormals of f16 */
    0x477fe000, 0x477fefff, 0x477ff000, 0x47800000, 0xc77ff000,                         /* its end */
    0x7f7f0000, 0x7f7f7fff, 0x7f7f8000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, /* that of bf16 */
    0x7fc00000, 0xffc00000, 0x7f800001, 0x00000001, 0x00008000, 0x007fffff, 0x42f6e979};

static void the_loops_are_the_casts(void **state)
{
    struct vc_ctx *c = test_ctx();
    const enum vc_cpu_level levels[] = {VC_CPU_BASE, VC_CPU_AVX2, VC_CPU_AVX512};
    const struct vc_engine_pass pass = {.norm_share = -1};
    float x[N], y[N], wanted[N];
    double wide[N], wide_y[N];

    (void)state;
    memcpy(x, patterns, sizeof x);
    for (size_t k = 0; k < 8; k++) {
        bool f16 = k % 2 != 0;
        struct vc_args_unary args = {.kind = f16 ? VC_UNARY_ROUND_F16 : VC_UNARY_ROUND_BF16, .n = N};
        struct vc_train_call call = {.p = {x, y}, .args = &args};

        cast(c, f16, x, N, wanted);
        if (k / 2 < 3) {
            const vc_train_loop *table = vc_train_table(VC_GRAPH_F32, levels[k / 2]);

            if (table == NULL || c->shared->cpu_level < levels[k / 2]) {
                continue;
            }
            table[VC_LOOP_unary](&call, &pass, 0, 0);
        } else { /* doubles that are floats */
            for (size_t i = 0; i < N; i++) {
                wide[i] = (double)x[i];
            }
            call.p[0] = wide;
            call.p[1] = wide_y;
            vc_train_table(VC_GRAPH_F64, VC_CPU_BASE)[VC_LOOP_unary](&call, &pass, 0, 0);
            for (size_t i = 0; i < N; i++) {
                y[i] = (float)wide_y[i];
            }
        }
        for (size_t i = 0; i < N; i++) {
            if (bits_of(y[i]) != bits_of(wanted[i]) && wanted[i] == wanted[i]) {
                fail_msg("%08x becomes %08x, not %08x", patterns[i], bits_of(y[i]), bits_of(wanted[i]));
            }
            assert_true((y[i] == y[i]) == (wanted[i] == wanted[i]));
        }
    }
    vc_ctx_free(c);
}

static float once(struct net *net, bool f16, float x)
{
    float y;

    cast(net->ctx, f16, &x, 1, &y);
    return y;
}

/* y = x a + b: inputs, weights, both results, and the gradients of values are rounded; those of weights are not. */
static void what_is_rounded(void **state)
{
    (void)state;
    for (unsigned f16 = 0; f16 < 2; f16++) {
        const struct vc_engine_options options = {.train = true,
                                                  .threads = 1,
                                                  .input_grads = true,
                                                  .rounding = f16 != 0 ? VC_UNARY_ROUND_F16 : VC_UNARY_ROUND_BF16};
        const struct vc_engine_pass pass = {.training = true, .norm_share = -1};
        struct net net =
            net_begin("(float[40] x, float[40] pa, float[40] pb) => (float[40] y) { m = Mul(x, pa)  y = Add(m, pb) }",
                      VC_GRAPH_F32, &options);
        const float *a = net.weights->items[0].data;
        const float *b = net.weights->items[1].data;
        const float *da = net.weights->items[0].grad;
        const float *db = net.weights->items[1].grad;
        float before[2][N];
        unsigned rounded = 0;

        memcpy(before[0], a, sizeof before[0]);
        memcpy(before[1], b, sizeof before[1]);
        net_forward(&net, &pass);
        for (size_t i = 0; i < N; i++) {
            float m = once(&net, f16, once(&net, f16, (float)net.inputs[i]) * once(&net, f16, a[i]));
            float y = m + once(&net, f16, b[i]);

            assert_true(((const float *)vc_engine_output(net.engine, 0)->data)[i] == once(&net, f16, y));
            rounded += y != once(&net, f16, y);
        }
        assert_true(rounded > N / 4);
        vc_weights_clear(net.weights);
        net_backward(&net);
        rounded = 0;
        for (size_t i = 0; i < N; i++) {
            float dy = once(&net, f16, (float)net.cotangents[i]);
            float product = dy * once(&net, f16, (float)net.inputs[i]);

            assert_true(((const float *)vc_engine_input(net.engine, 0)->grad)[i] ==
                        once(&net, f16, dy * once(&net, f16, a[i])));
            assert_true(db[i] == dy && da[i] == product);
            rounded += product != once(&net, f16, product);
        }
        assert_true(rounded > N / 4);
        assert_memory_equal(before[0], a, sizeof before[0]); /* the masters stay */
        assert_memory_equal(before[1], b, sizeof before[1]);
        net_drop(&net);
        vc_ctx_free(net.ctx);
    }
}

static const char *const cases[] = {
#include "engine_cases.inc"
};

/* 0, or of the type. */
static bool is_half(struct net *net, bool f16, const void *x, size_t n)
{
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        all = all && ((const float *)x)[i] == once(net, f16, ((const float *)x)[i]);
    }
    return all;
}

/* Every operator: results and gradients of inputs are of the type, and results are near those of doubles. */
static void all_operators(void **state)
{
    const struct vc_engine_pass pass = {.step = 3, .norm_share = -1};

    (void)state;
    for (size_t c = 0; c < 2 * (sizeof cases / sizeof *cases); c++) {
        bool f16 = c % 2 != 0;
        struct vc_engine_options options = {.train = true, .threads = 2, .seed = 7, .input_grads = true};
        struct net exact = net_begin(cases[c / 2], VC_GRAPH_F64, &options);
        struct net net;

        options.rounding = f16 ? VC_UNARY_ROUND_F16 : VC_UNARY_ROUND_BF16;
        net = net_begin(cases[c / 2], VC_GRAPH_F32, &options);
        net_forward(&exact, &pass);
        net_forward(&net, &pass);
        for (size_t k = 0; k < vc_engine_output_count(net.engine); k++) {
            const struct vc_engine_value *y = vc_engine_output(net.engine, k);
            const double *wanted = vc_engine_output(exact.engine, k)->data;
            double most = 1;

            for (size_t i = 0; !y->integers && i < y->n; i++) {
                most = fmax(most, fabs(wanted[i]));
            }
            for (size_t i = 0; !y->integers && i < y->n; i++) {
                double distance = fabs((double)((const float *)y->data)[i] - wanted[i]);

                if (!(distance <= NEAR * (f16 ? 0x1p-11 : 0x1p-8) * most)) {
                    fail_msg("%s: element %zu is %g and should be near %g", cases[c / 2], i,
                             (double)((const float *)y->data)[i], wanted[i]);
                }
            }
            if (!y->integers && !is_half(&net, f16, y->data, y->n)) {
                fail_msg("%s: output %zu is not rounded", cases[c / 2], k);
            }
        }
        net_backward(&net);
        for (size_t k = 0; k < vc_engine_input_count(net.engine); k++) {
            const struct vc_engine_value *x = vc_engine_input(net.engine, k);

            if (x->grad != NULL && !is_half(&net, f16, x->grad, x->n)) {
                fail_msg("%s: the gradient of input %zu is not rounded", cases[c / 2], k);
            }
        }
        net_end(&exact);
        net_drop(&net);
        vc_ctx_free(net.ctx);
    }
}

/* ---- runs ---- */

#define MOST 2100

struct told {
    double scales[MOST], losses[MOST], norms[MOST];
    bool skipped[MOST];
    size_t n;
    uint64_t stop_at; /* steps, after which the run is cancelled; 0: never */
};

static void listen(void *user, const struct vc_distill_step *step)
{
    struct told *told = user;

    if (step->eval == NULL && !step->control) {
        assert_true(told->n < MOST);
        told->scales[told->n] = step->scale;
        told->losses[told->n] = step->loss;
        told->norms[told->n] = step->grad_norm;
        told->skipped[told->n++] = step->skipped;
        if (step->step == told->stop_at) {
            vc_ctx_cancel(ctx);
        }
    }
}

/* A student whose last weights are `times` as large, so that gradients inside are, too. */
static void write_large(const char *name, double times)
{
    double a[40], a_bias[8], b[24], b_bias[3];
    const struct vc_memory_tensor tensors[] = {
        {"a.weight", VC_DTYPE_F64, 2, shape_a, a},
        {"a.bias", VC_DTYPE_F64, 1, shape_a, a_bias},
        {"b.weight", VC_DTYPE_F64, 2, shape_b, b},
        {"b.bias", VC_DTYPE_F64, 1, shape_b, b_bias},
    };

    numbers(200, 40, a);
    numbers(201, 8, a_bias);
    numbers(202, 24, b);
    numbers(203, 3, b_bias);
    for (size_t i = 0; i < 24; i++) {
        b[i] *= times;
    }
    write_file(name, tensors, 4);
}

/* A run with labels alone; every step has all rows. */
static void open_half(struct run *run, struct told *told, double times, enum vc_half half)
{
    write_large("student.npz", times);
    open_run(run);
    told->n = 0;
    run->options.precision.kind = VC_GRAPH_F32;
    run->options.precision.half = half;
    run->options.loss.alpha = 0;
    run->options.training.batch = ROWS;
    run->options.optimizer.lr = 1e-3;
    run->options.tell = listen;
    run->options.user = told;
}

static void train(struct run *run, struct vc_distillation **d)
{
    if (vc_distill(ctx, &run->options, d) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
}

/* Steps that are left out leave no trace: what follows is a run that begins with the scale that they led to. */
static void skipped_steps(void **unused)
{
    static struct told told, later;
    struct vc_distillation *d = NULL;
    struct run run;
    size_t skipped = 0;

    (void)unused;
    open_half(&run, &told, 300, VC_HALF_F16);
    run.write.path = run.chain;
    train(&run, &d);
    while (told.skipped[skipped]) {
        assert_true(told.scales[skipped] == 65536 / pow(2, (double)skipped) && !isfinite(told.norms[skipped]));
        assert_true(told.losses[skipped] == told.losses[0]);
        skipped++;
    }
    assert_in_range(skipped, 2, 8);
    for (size_t k = skipped; k < STEPS; k++) {
        assert_true(!told.skipped[k] && told.scales[k] == 65536 / pow(2, (double)skipped) && isfinite(told.norms[k]));
    }
    assert_true(told.n == STEPS && d->n_steps == STEPS && d->n_skipped == skipped &&
                d->loss_scale == told.scales[skipped]);
    assert_int_equal(d->peak_bytes, d->planned_bytes);
    vc_result_free(d);
    close_run(&run);

    open_half(&run, &later, 300, VC_HALF_F16);
    run.options.training.steps = STEPS - skipped;
    run.options.precision.loss_scale = told.scales[skipped];
    train(&run, &d);
    for (size_t k = 0; k < STEPS - skipped; k++) {
        assert_true(later.losses[k] == told.losses[k + skipped] && later.norms[k] == told.norms[k + skipped]);
    }
    assert_int_equal(d->n_skipped, 0);
    expect_same("chain.npz", "out.npz");
    vc_result_free(d);
    close_run(&run);
}

/* 2000 good steps in a row double the scale; where that is too much, the next step halves it again. */
static void growth(void **unused)
{
    static struct told told;
    struct run run;

    (void)unused;
    for (unsigned k = 0; k < 2; k++) {
        struct vc_distillation *d = NULL;
        size_t skipped = 0;
        double scale;

        open_half(&run, &told, k == 0 ? 1 : 50, VC_HALF_F16);
        run.options.training.steps = 2010;
        run.options.optimizer.lr = 1e-7;
        train(&run, &d);
        while (told.skipped[skipped]) {
            skipped++;
        }
        assert_true((skipped != 0) == (k == 1));
        scale = 65536 / pow(2, (double)skipped);
        for (size_t i = skipped; i < 2000 + skipped; i++) {
            assert_true(told.scales[i] == scale && !told.skipped[i]);
        }
        assert_true(told.scales[2000 + skipped] == 2 * scale && told.skipped[2000 + skipped] == (k == 1));
        assert_true(told.scales[2001 + skipped] == (k == 1 ? scale : 2 * scale));
        assert_int_equal(d->n_skipped, skipped + k);
        vc_result_free(d);
        close_run(&run);
    }
}

/* Gradients without the scale are near those of floats, also those of values inside and of the map between two widths.
 * bf16 needs no scale. */
static void near_floats(void **unused)
{
    static const struct vc_match matches[] = {{"a", "a", VC_MATCH_MSE, 0.5, 0}, {"a", "b", VC_MATCH_MSE, 2, 0}};
    static struct told exact, bf16, f16;
    struct told *all[] = {&exact, &bf16, &f16};
    struct run run;

    (void)unused;
    for (unsigned k = 0; k < 6; k++) {
        const unsigned half = k % 3;
        const double u = half == VC_HALF_NONE ? 0 : half == VC_HALF_BF16 ? 0x1p-8 : 0x1p-11;
        struct vc_distillation *d = NULL;

        open_half(&run, all[half], 1, (enum vc_half)half);
        run.options.loss.alpha = 1;
        run.options.loss.matches = matches;
        run.options.loss.n_matches = k < 3 ? 0 : 2;
        train(&run, &d);
        assert_true(k < 3 || d->matches[1].projected);
        assert_int_equal(d->n_skipped, 0);
        assert_int_equal(d->peak_bytes, d->planned_bytes);
        assert_true(d->loss_scale == (half == VC_HALF_F16 ? 65536 : 1) && all[half]->scales[0] == d->loss_scale);
        for (size_t i = 0; i < STEPS; i++) {
            assert_true(fabs(all[half]->norms[i] - exact.norms[i]) <= 16 * u * exact.norms[i]);
            assert_true(half == VC_HALF_NONE || all[half]->losses[i] != exact.losses[i]);
        }
        vc_result_free(d);
        close_run(&run);
    }
}

/* Neither the number of threads nor recomputation changes a bit. */
static void same_bits(void **unused)
{
    static struct told told, other;
    struct run run;

    (void)unused;
    for (unsigned k = 0; k < 8; k++) {
        struct vc_distillation *d = NULL;

        open_half(&run, k % 4 == 0 ? &told : &other, 20, k < 4 ? VC_HALF_BF16 : VC_HALF_F16);
        assert_int_equal(vc_ctx_set_threads(ctx, k % 4 == 1 ? 3 : 1), VC_OK);
        run.options.memory.recompute = k % 4 == 2   ? VC_RECOMPUTE_SQRT
                                       : k % 4 == 3 ? VC_RECOMPUTE_EVERY
                                                    : VC_RECOMPUTE_NONE;
        run.options.memory.recompute_every = 1;
        run.options.loss.alpha = 0.5;
        run.options.training.batch = 8;
        run.options.training.accum = 2;
        run.write.path = k % 4 == 0 ? run.chain : run.out;
        train(&run, &d);
        if (k % 4 != 0) {
            assert_memory_equal(other.losses, told.losses, STEPS * sizeof *told.losses);
            expect_same("chain.npz", "out.npz");
        }
        vc_result_free(d);
        close_run(&run);
    }
}

/* Resumed in the middle of the steps that are left out, and behind them: the run that was not interrupted. */
static void resumed(void **unused)
{
    static struct told whole, rest;
    static char file[256];
    struct run run;

    (void)unused;
    (void)snprintf(file, sizeof file, "%s", in_folder("run.npz"));
    for (uint64_t stop_at = 0; stop_at < 8; stop_at += stop_at == 0 ? 1 : 6) {
        struct vc_distillation *d = NULL;

        open_half(&run, &whole, 300, VC_HALF_F16);
        run.write.path = run.chain;
        train(&run, &d);
        assert_true(whole.skipped[1] && !whole.skipped[6]);
        vc_result_free(d);
        run.options.user = &rest;
        run.options.checkpoint.path = file;
        run.write.path = run.out;
        rest.n = 0;
        rest.stop_at = stop_at + 1;
        assert_int_equal(vc_distill(ctx, &run.options, &d), VC_E_CANCELLED);
        rest.stop_at = 0;
        run.options.checkpoint.resume = file;
        run.options.precision.half = VC_HALF_BF16;
        expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made by a run with another precision");
        run.options.precision.half = VC_HALF_F16;
        run.options.precision.loss_scale = 1024;
        expect_refused(&run, VC_E_ARGUMENT, "run.npz: was made by a run with another precision.loss_scale");
        run.options.precision.loss_scale = 0;
        train(&run, &d);
        assert_true(rest.n == STEPS && d->resumed == stop_at + 1);
        assert_memory_equal(rest.scales, whole.scales, STEPS * sizeof *whole.scales);
        assert_memory_equal(rest.losses, whole.losses, STEPS * sizeof *whole.losses);
        assert_memory_equal(rest.skipped, whole.skipped, STEPS * sizeof *whole.skipped);
        expect_same("chain.npz", "out.npz");
        vc_result_free(d);
        close_run(&run);
        remove_path("run.npz");
    }
}

/* ---- what is refused ---- */

static void overflow(void **unused)
{
    static struct told told;
    struct run run;

    (void)unused;
    open_half(&run, &told, 1e6, VC_HALF_F16); /* beyond 65504 already */
    expect_diverged(&run, "step 1: the loss is NaN: values inside the student are beyond 65504");
    close_run(&run);

    open_half(&run, &told, 3e4, VC_HALF_F16);
    run.options.loss.alpha = 1;
    run.options.loss.kind = VC_TEACHER_LOSS_MSE;
    run.options.training.steps = 40;
    expect_diverged(&run, "step 17: the gradient of a.weight is NaN or infinite at element");
    assert_int_equal(told.n, 16);
    assert_true(told.scales[15] == 2 && told.skipped[15]);
    run.options.training.steps = 3;
    expect_refused(&run, VC_E_ARGUMENT, "the student did not change: all 3 steps were left out");
    run.options.precision.loss_scale = 1024;
    expect_refused(&run, VC_E_ARGUMENT, "gradients times precision.loss_scale 1024 are beyond 65504, where fp16 ends");
    close_run(&run);

    open_half(&run, &told, 1e6, VC_HALF_BF16); /* which has the range of floats */
    run.options.dry_run = false;
    {
        struct vc_distillation *d = NULL;

        train(&run, &d);
        vc_result_free(d);
    }
    close_run(&run);
}

/* The checkpoint once more, with another scale. */
static void write_scale(const char *from, const char *to, const double scale[3])
{
    struct vc_memory_tensor tensors[64];
    struct vc_model *model = NULL;
    size_t n;

    assert_int_equal(vc_model_open(ctx, in_folder(from), NULL, &model), VC_OK);
    n = vc_model_facts(model)->n_tensors;
    assert_true(n < 64);
    for (size_t k = 0; k < n; k++) {
        const struct vc_tensor *t = vc_model_tensor(model, k);
        size_t bytes = (size_t)vc_dtype_bytes(t->dtype, t->n_elems);
        void *data = malloc(bytes + 1);

        assert_int_equal(vc_model_read(ctx, model, k, 0, t->n_elems, data, bytes), VC_OK);
        tensors[k] = (struct vc_memory_tensor){t->name, t->dtype, t->n_dims, t->shape,
                                               strcmp(t->name, "scale") == 0 ? memcpy(data, scale, bytes) : data};
    }
    write_sealed(to, tensors, n);
    for (size_t k = 0; k < n; k++) {
        free((void *)(uintptr_t)tensors[k].data);
    }
    vc_model_close(model);
}

/* A scale that no run comes to. */
static void damaged_scale(void **unused)
{
    static const double scales[][3] = {{65536, 7, 0},
                                       {3, 0, 0},
                                       {0.5, 0, 0},
                                       {0, 0, 0},
                                       {1024, -1, 0},
                                       {1024, 2000, 0},
                                       {1024, 0, 9},
                                       {1024, 0, -1},
                                       {(double)NAN, 0, 0},
                                       {(double)INFINITY, 0, 0},
                                       {1024, (double)NAN, 0},
                                       {1024, 0, (double)NAN}};
    static struct told told;
    static char file[256], damaged[256];
    struct vc_distillation *d = NULL;
    struct run run;

    (void)unused;
    (void)snprintf(file, sizeof file, "%s", in_folder("run.npz"));
    (void)snprintf(damaged, sizeof damaged, "%s", in_folder("damaged.npz"));
    open_half(&run, &told, 1, VC_HALF_F16);
    run.options.checkpoint.path = file;
    told.stop_at = 8;
    assert_int_equal(vc_distill(ctx, &run.options, &d), VC_E_CANCELLED);
    told.stop_at = 0;
    run.options.checkpoint.path = NULL;
    run.options.checkpoint.resume = damaged;
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        write_scale("run.npz", "damaged.npz", scales[k]);
        if (k != 0) {
            expect_refused(&run, VC_E_FORMAT, "damaged.npz: is no checkpoint of this run: scale has none of a loss");
            continue;
        }
        train(&run, &d);
        assert_int_equal(d->resumed, 8);
        vc_result_free(d);
    }
    close_run(&run);
}

static void options(void **unused)
{
    static struct told told;
    struct run run;

    (void)unused;
    open_half(&run, &told, 1, VC_HALF_F16);
    run.options.precision.kind = VC_GRAPH_F64;
    expect_refused(&run, VC_E_ARGUMENT, "precision.kind: fp16 has values of 16 bits and arithmetic in f32, not in f64");
    run.options.precision.kind = VC_GRAPH_F32;
    run.options.precision.half = (enum vc_half)3;
    expect_refused(&run, VC_E_ARGUMENT, "half has no such value");
    run.options.precision.half = VC_HALF_BF16;
    run.options.precision.loss_scale = 1024;
    expect_refused(&run, VC_E_ARGUMENT, "loss_scale is for precision.kind fp16");
    run.options.precision.half = VC_HALF_F16;
    run.options.precision.loss_scale = 1000;
    expect_refused(&run, VC_E_ARGUMENT, "loss_scale: 1000 is no power of two from 1 to 2^40, such as 65536");
    run.options.precision.loss_scale = (double)NAN;
    expect_refused(&run, VC_E_ARGUMENT, "loss_scale: nan is no power of two");
    run.options.precision.loss_scale = 0.5;
    expect_refused(&run, VC_E_ARGUMENT, "loss_scale: 0.5 is no power of two");
    run.options.precision.loss_scale = 0;
    run.options.task = VC_TASK_RECALIBRATE;
    expect_refused(&run, VC_E_ARGUMENT, "task trains nothing: precision.kind fp16 belongs to a run");
    close_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loops_are_the_casts),
        cmocka_unit_test(what_is_rounded),
        cmocka_unit_test(all_operators),
        cmocka_unit_test_setup_teardown(skipped_steps, begin, end),
        cmocka_unit_test_setup_teardown(growth, begin, end),
        cmocka_unit_test_setup_teardown(near_floats, begin, end),
        cmocka_unit_test_setup_teardown(same_bits, begin, end),
        cmocka_unit_test_setup_teardown(resumed, begin, end),
        cmocka_unit_test_setup_teardown(overflow, begin, end),
        cmocka_unit_test_setup_teardown(damaged_scale, begin, end),
        cmocka_unit_test_setup_teardown(options, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
