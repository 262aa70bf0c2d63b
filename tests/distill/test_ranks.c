/* test_ranks.c - several ranks train what one process trains, to the last bit: losses, weights, running statistics,
 * answers, control, checkpoints. One that fails or dies ends all with a sentence. The ranks are threads here. */
#include "distill_test.h"
#include "graph/build.h"
#include "same_figures.h"
#include "thread_ranks.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/builder/builder.h"

#define BATCH 4
#define ACCUM 4

enum net { PLAIN, SPARSE, NORM, DROP, WIDE };

/* A run on one rank, and what came of it. */
struct part {
    enum net net;
    void (*change)(struct vc_distill_options *o, unsigned rank);
    const char *out, *checkpoint, *resume; /* names in the folder; NULL: none */
    uint64_t stop_at;                      /* steps, after which rank 0 is cancelled; 0: never */
    uint64_t lose_at;                      /* ... the folder "disk" is gone */
    struct vc_ctx *ctx;
    enum vc_status status, agreed;
    char text[VC_MESSAGE_BYTES];
    double losses[2][STEPS + 1];
    struct vc_quality after, control;
    double gain, gain_error, best_step;
    uint64_t resumed, planned, peak, n_unsaved;
};

/* in_folder is for one thread. */
static const char *path_of(char path[256], const char *name)
{
    (void)snprintf(path, 256, "%s/%s", scratch_folder(), name);
    return path;
}

static void hear(void *user, const struct vc_distill_step *step)
{
    struct part *part = user;

    if (step->eval == NULL) {
        part->losses[step->control][step->step] = step->loss;
        if (step->step == part->stop_at && !step->control) {
            vc_ctx_cancel(part->ctx);
        }
        if (step->step == part->lose_at && !step->control) {
            char file[256], folder[256];

            (void)unlink(path_of(file, part->checkpoint));
            (void)rmdir(path_of(folder, "disk"));
        }
    }
}

/* ---- networks, each in the context of its rank ---- */

static const char norm_text[] = "input x [batch, 5]\nlinear a 8 bias=no\nbatchnorm n\nrelu\nlinear b 3\n";
static const char wide_text[] = "input x [batch, 5]\nlinear a 30000\nrelu\nlinear b 3\n";

static struct vc_graph *dropping(struct vc_ctx *c)
{
    static const uint64_t shape_w[2] = {5, 3};
    const struct vc_param_spec param = {.tensor = "w", .index = 0, .n_dims = 2, .shape = shape_w};
    struct vc_dim shape[2] = {vc_dim_number(BATCH), vc_dim_number(5)};
    struct vc_graph *graph = NULL;
    uint32_t x, p;

    if (vc_graph_create(c, &graph) != VC_OK) {
        return NULL;
    }
    x = vc_graph_add_input(graph, "x", VC_DTYPE_F32, shape, 2);
    p = vc_graph_add_param(graph, "w", &param);
    x = vc_graph_add(graph, "Dropout", "dropped", (uint32_t[]){x, vc_graph_add_float(graph, 0.5)}, 2);
    vc_graph_add_output(graph, vc_graph_add(graph, "MatMul", "y", (uint32_t[]){x, p}, 2));
    return vc_graph_finish(graph, &graph) == VC_OK ? graph : NULL;
}

static enum vc_status open_on(struct vc_ctx *c, const char *file, const char *text, struct vc_network *net)
{
    struct vc_model *model = NULL;
    struct vc_graph_options options;
    enum vc_status status =
        file != NULL ? vc_model_open(c, file, NULL, &model) : vc_network_init_weights(c, text, 5, &model);

    vc_graph_defaults(&options);
    options.weights = model;
    net->weights = model;
    return status == VC_OK ? vc_graph_read_text(c, text, &options, &net->graph) : status;
}

static enum vc_status open_student(struct vc_ctx *c, enum net kind, struct vc_network *net)
{
    static const char *const files[] = {"student.npz", "sparse.npz", NULL, "drop.npz", NULL};
    static const char *const texts[] = {"net.txt", "net.txt", "norm.txt", NULL, "wide.txt"};
    struct vc_model *model = NULL;
    char file[256], text[256];
    enum vc_status status;

    if (texts[kind] != NULL) {
        return open_on(c, files[kind] != NULL ? path_of(file, files[kind]) : NULL, path_of(text, texts[kind]), net);
    }
    status = vc_model_open(c, path_of(file, files[kind]), NULL, &model);
    net->weights = model;
    net->graph = dropping(c);
    return status;
}

/* ---- a run ---- */

static void keep_figures(struct part *part, const struct vc_distillation *d)
{
    part->after = d->after;
    part->control = d->control;
    part->gain = d->gain;
    part->gain_error = d->gain_error;
    part->best_step = (double)d->best_step;
    part->resumed = d->resumed;
    part->n_unsaved = d->n_unsaved;
    part->planned = d->planned_bytes;
    part->peak = d->peak_bytes;
}

/* For on_ranks, and for one process with ranks NULL. */
static void train(struct vc_ctx *c, struct vc_ranks *ranks, unsigned rank, void *user)
{
    struct part *part = user;
    struct vc_network teacher = {.graph = NULL};
    struct vc_network student = {.graph = NULL};
    struct vc_distillation *d = NULL;
    struct vc_distill_options o;
    struct vc_data_options data;
    struct vc_write_options write;
    char paths[6][256];

    part->ctx = c;
    vc_data_defaults(&data);
    data.path = path_of(paths[0], "rows.npz");
    vc_write_defaults(&write);
    write.path = part->out != NULL ? path_of(paths[1], part->out) : NULL;
    write.force = true;
    vc_distill_defaults(&o);
    o.data = o.eval.rows = &data;
    o.write = &write;
    o.training.steps = STEPS;
    o.training.batch = BATCH;
    o.training.accum = ACCUM;
    o.optimizer.lr = 0.02;
    o.loss.alpha = 0.5;
    o.optimizer.clip = 0.5;
    o.training.seed = 3;
    o.eval.every = 5;
    o.eval.control = true;
    o.tell = hear;
    o.user = part;
    o.parallel.ranks = ranks;
    o.checkpoint.path = part->checkpoint != NULL ? path_of(paths[2], part->checkpoint) : NULL;
    o.checkpoint.every = part->lose_at != 0 ? 2 : 0;
    o.checkpoint.resume = part->resume != NULL ? path_of(paths[3], part->resume) : NULL;
    part->status = open_on(c, path_of(paths[4], "teacher.npz"), path_of(paths[5], "net.txt"), &teacher);
    if (part->status == VC_OK) {
        part->status = open_student(c, part->net, &student);
    }
    o.teacher = teacher;
    o.student = student;
    if (part->change != NULL) {
        part->change(&o, rank);
    }
    if (part->status == VC_OK) {
        part->status = vc_distill(c, &o, &d);
    }
    part->agreed = vc_ranks_agree(c, ranks, part->status, NULL);
    (void)snprintf(part->text, sizeof part->text, "%s", vc_ctx_message(c));
    if (d != NULL) {
        keep_figures(part, d);
    }
    vc_result_free(d);
    vc_graph_close(student.graph);
    vc_graph_close(teacher.graph);
    vc_model_close((struct vc_model *)(uintptr_t)student.weights);
    vc_model_close((struct vc_model *)(uintptr_t)teacher.weights);
}

static void train_alone(struct part *part)
{
    struct vc_ctx *c = test_ctx();

    assert_int_equal(vc_ctx_set_threads(c, 1), VC_OK);
    train(c, NULL, 0, part);
    if (part->status != VC_OK && part->stop_at == 0) {
        fail_msg("%s", part->text);
    }
    vc_ctx_free(c);
}

static void fill(struct part *parts, unsigned n, const struct part *like)
{
    for (unsigned k = 0; k < n; k++) {
        parts[k] = *like;
    }
}

static void expect_same_run(const struct part *a, const struct part *b)
{
    for (unsigned c = 0; c < 2; c++) {
        for (unsigned k = 1; k <= STEPS; k++) {
            assert_true(a->losses[c][k] == b->losses[c][k] && a->losses[c][k] != 0);
        }
    }
    expect_same_quality(&a->after, &b->after);
    expect_same_quality(&a->control, &b->control);
    assert_true(a->gain == b->gain && a->gain_error == b->gain_error && a->best_step == b->best_step);
}

/* ---- the same bits ---- */

static void as_f64(struct vc_distill_options *o, unsigned rank)
{
    (void)rank;
    o->precision.kind = VC_GRAPH_F64;
    o->optimizer.kind = VC_OPTIMIZER_MOMENTUM;
    o->sparsity.keep = true;
}

static void as_f32(struct vc_distill_options *o, unsigned rank)
{
    (void)rank;
    o->sparsity.keep = true;
}

static void as_fp16(struct vc_distill_options *o, unsigned rank)
{
    (void)rank;
    o->precision.half = VC_HALF_F16;
    o->loss.alpha = 0.5;
}

/* Masks that grow, and fake quantization to int8. */
static void as_codes(struct vc_distill_options *o, unsigned rank)
{
    static const struct vc_rule all = {"*", true};
    static struct vc_prune_options prune[MAX_RANKS];
    static struct vc_quantize_options fake_quant[MAX_RANKS];

    vc_prune_defaults(&prune[rank]);
    prune[rank].sparsity = "0.4";
    prune[rank].scope = VC_PRUNE_GLOBAL;
    vc_quantize_defaults(&fake_quant[rank]);
    fake_quant[rank].granularity = VC_GRANULARITY_TENSOR;
    fake_quant[rank].rules = &all;
    fake_quant[rank].n_rules = 1;
    o->precision.kind = VC_GRAPH_F64;
    o->sparsity.prune = &prune[rank];
    o->sparsity.prune_first = 1;
    o->sparsity.prune_last = 7;
    o->sparsity.prune_every = 3;
    o->precision.fake_quant = &fake_quant[rank];
}

/* 1, 2, 3 and 4 ranks, of which three have a round that is not full, and all have steps of one batch. Under
 * AddressSanitizer 2, 3 and 4 by turns, and each network with two of the four kinds. */
static void test_same_bits(void **unused)
{
    (void)unused;
    for (enum net net = PLAIN; net <= WIDE; net++) {
        for (unsigned i = 0; i < 4; i++) {
            void (*const changes[])(struct vc_distill_options *, unsigned) = {as_f32, as_f64, as_codes, as_fp16};
            struct part like = {.net = net, .change = changes[i], .out = "one.npz"};
            struct part one = like;

            if (TEST_STRIDE > 1 && (net + i) % 2 != 0) {
                continue;
            }
            train_alone(&one);
            assert_int_equal(one.planned >= one.peak && one.peak != 0, 1);
            like.out = "many.npz";
            for (unsigned n = 2; n <= 4; n++) {
                struct part many[MAX_RANKS];

                if (TEST_STRIDE > 1 && n != 2 + (net + i / 2) % 3) {
                    continue;
                }

                fill(many, n, &like);
                remove_path("many.npz");
                on_ranks(n, 0, 0, train, many, sizeof many[0]);
                for (unsigned k = 0; k < n; k++) {
                    if (many[k].agreed != VC_OK) {
                        fail_msg("net %d, rank %u of %u: %s", (int)net, k, n, many[k].text);
                    }
                    expect_same_quality(&many[k].after, &one.after);
                    assert_true(k == 0 || many[k].losses[0][1] == 0); /* the others are quiet */
                    assert_true(many[k].planned >= many[k].peak);
                }
                expect_same_run(&one, &many[0]);
                expect_same("one.npz", "many.npz");
            }
        }
    }
}

/* A run of two ranks that is interrupted goes on with four, with one, and is the run that was not. */
static void test_resume(void **unused)
{
    static const unsigned sizes[] = {4, 1, 3};
    struct part whole = {.net = NORM, .out = "one.npz"};
    struct part first = {.net = NORM, .out = "many.npz", .checkpoint = "run.npz", .stop_at = 5};
    struct part many[MAX_RANKS];

    (void)unused;
    train_alone(&whole);
    fill(many, 2, &first);
    remove_path("many.npz");
    on_ranks(2, 0, 0, train, many, sizeof many[0]);
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(many[k].agreed, VC_E_CANCELLED);
    }
    assert_non_null(strstr(many[0].text, "interrupted after 5 steps; checkpoint.resume"));
    assert_false(exists("many.npz"));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct part rest = {.net = NORM, .out = "many.npz", .resume = "run.npz"};

        fill(many, sizes[i], &rest);
        if (sizes[i] == 1) {
            train_alone(&many[0]);
        } else {
            on_ranks(sizes[i], 0, 0, train, many, sizeof many[0]);
        }
        assert_int_equal(many[0].agreed, VC_OK);
        assert_int_equal(many[0].resumed, 5);
        expect_same("one.npz", "many.npz");
        remove_path("many.npz");
    }
}

/* ---- what goes wrong ---- */

static void other_rate(struct vc_distill_options *o, unsigned rank)
{
    o->optimizer.lr = rank == 1 ? 0.5 : 0.02;
}

static void other_optimizer(struct vc_distill_options *o, unsigned rank)
{
    o->optimizer.kind = rank == 2 ? VC_OPTIMIZER_ADAM : VC_OPTIMIZER_ADAMW;
    o->optimizer.weight_decay = 0;
}

static void other_steps(struct vc_distill_options *o, unsigned rank)
{
    o->training.steps = STEPS + rank;
    o->eval.control = false;
    o->eval.every = 0;
}

static void other_freeze(struct vc_distill_options *o, unsigned rank)
{
    static const char *const biases[] = {"*.bias"};

    o->trained.freeze = biases;
    o->trained.n_freeze = rank == 2;
}

static void bad_temperature(struct vc_distill_options *o, unsigned rank)
{
    o->loss.temperature = rank == 2 ? -1 : 2;
}

static void same_mistake(struct vc_distill_options *o, unsigned rank)
{
    (void)rank;
    o->loss.temperature = -1;
}

static void no_share(struct vc_distill_options *o, unsigned rank)
{
    (void)rank;
    o->training.accum = 2;
}

static void far_too_fast(struct vc_distill_options *o, unsigned rank)
{
    (void)rank;
    o->optimizer.lr = 1e6;
    o->precision.kind = VC_GRAPH_F32;
    o->optimizer.kind = VC_OPTIMIZER_SGD;
    o->optimizer.clip = 0;
}

/* What one rank refuses ends all, with its sentence and its number; what all refuse is said as by one process. */
static void test_refusals(void **unused)
{
    static const struct {
        void (*change)(struct vc_distill_options *o, unsigned rank);
        enum net net;
        enum vc_status status;
        const char *words;
    } cases[] = {
        {other_rate, PLAIN, VC_E_ARGUMENT, "rank 1: optimizer.lr is 0.5; rank 0 has 0.02"},
        {other_optimizer, PLAIN, VC_E_ARGUMENT, "rank 2: optimizer.kind is another one than that of rank 0"},
        {other_steps, PLAIN, VC_E_ARGUMENT, "rank 1: training.steps is 13; rank 0 has 12"},
        {other_freeze, PLAIN, VC_E_ARGUMENT, "rank 2: trained.freeze is another one than that of rank 0"},
        {bad_temperature, PLAIN, VC_E_ARGUMENT, "rank 2: loss.temperature: -1 is not above 0"},
        {same_mistake, PLAIN, VC_E_ARGUMENT, "loss.temperature: -1 is not above 0"},
        {no_share, PLAIN, VC_E_ARGUMENT,
         "3 ranks share the batches of a step, and training.accum makes 2 of them; training.accum 3"},
        {far_too_fast, WIDE, VC_E_GATE, "a smaller optimizer.lr than 1e+06"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct part like = {.net = cases[i].net, .change = cases[i].change, .out = "many.npz"};
        struct part many[MAX_RANKS];

        fill(many, 3, &like);
        on_ranks(3, 0, 0, train, many, sizeof many[0]);
        for (unsigned k = 0; k < 3; k++) {
            if (many[k].agreed != cases[i].status || strstr(many[k].text, cases[i].words) == NULL ||
                strcmp(many[k].text, many[0].text) != 0) {
                fail_msg("case %zu, rank %u: %d \"%s\" is not \"%s\"", i, k, (int)many[k].agreed, many[k].text,
                         cases[i].words);
            }
        }
        assert_true(strncmp(many[0].text, "rank", 4) == 0 || cases[i].change != bad_temperature);
        assert_true(strncmp(many[0].text, "rank", 4) != 0 || cases[i].change != same_mistake);
        assert_false(exists("many.npz"));
    }
}

/* A rank that goes without a word, before any of its exchanges: the others end with a sentence, rank 0 writes the state
 * of the last whole step, and the run goes on from there to the bits of one that was whole. */
static void test_death(void **unused)
{
    static const unsigned long at[] = {1, 2, 5, 12, 33, 60, 90, 91, 92, 93, 94, 120};
    struct part whole = {.net = NORM, .out = "one.npz"};
    unsigned n_resumed = 0;

    (void)unused;
    train_alone(&whole);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const struct part like = {.net = NORM, .out = "many.npz", .checkpoint = "run.npz"};
        struct part many[MAX_RANKS];

        fill(many, 3, &like);
        remove_path("run.npz");
        remove_path("many.npz");
        on_ranks(3, 1, at[i], train, many, sizeof many[0]);
        for (unsigned k = 0; k < 3; k += 2) {
            if (many[k].agreed != VC_E_IO ||
                strstr(many[k].text, "another rank does not answer: a thread is gone") == NULL) {
                fail_msg("rank %u: %d \"%s\"", k, (int)many[k].agreed, many[k].text);
            }
        }
        assert_false(exists("many.npz"));
        if (exists("run.npz")) {
            struct part rest = {.net = NORM, .out = "many.npz", .resume = "run.npz"};

            assert_non_null(strstr(many[0].text, "goes on behind step"));
            n_resumed++;
            train_alone(&rest);
            expect_same("one.npz", "many.npz");
            remove_path("many.npz");
        }
    }
    assert_true(n_resumed > 3 && n_resumed < sizeof at / sizeof *at);
}

/* Checkpoints that rank 0 cannot write: the run goes on, and its report counts them. */
static void test_no_room(void **unused)
{
    const struct part like = {.net = NORM, .out = "many.npz", .checkpoint = "disk/run.npz", .lose_at = 5};
    struct part whole = {.net = NORM, .out = "one.npz"};
    struct part many[MAX_RANKS];

    (void)unused;
    train_alone(&whole);
    fill(many, 2, &like);
    assert_int_equal(mkdir(in_folder("disk"), 0700), 0);
    on_ranks(2, 0, 0, train, many, sizeof many[0]);
    for (unsigned k = 0; k < 2; k++) {
        if (many[k].agreed != VC_OK) {
            fail_msg("%s", many[k].text);
        }
    }
    assert_int_equal(many[0].n_unsaved, 4); /* behind steps 6, 8, 10 and 12 */
    expect_same("one.npz", "many.npz");
}

/* ---- files ---- */

static int prepare(void **state)
{
    static const uint64_t shape_w[2] = {5, 3};
    double w[15], a[40], a_bias[8], b[24], b_bias[3];
    const struct vc_memory_tensor drop = {"w", VC_DTYPE_F64, 2, shape_w, w};
    const struct vc_memory_tensor sparse[] = {
        {"a.weight", VC_DTYPE_F64, 2, shape_a, a},
        {"a.bias", VC_DTYPE_F64, 1, shape_a, a_bias},
        {"b.weight", VC_DTYPE_F64, 2, shape_b, b},
        {"b.bias", VC_DTYPE_F64, 1, shape_b, b_bias},
    };

    if (begin(state) != 0) {
        return -1;
    }
    numbers(41, 15, w);
    numbers(51, 40, a);
    numbers(52, 8, a_bias);
    numbers(53, 24, b);
    numbers(54, 3, b_bias);
    for (size_t i = 0; i < 40; i += 3) {
        a[i] = 0;
    }
    write_file("drop.npz", &drop, 1);
    write_file("sparse.npz", sparse, 4);
    (void)save_text("norm.txt", norm_text);
    (void)save_text("wide.txt", wide_text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_resume),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_death),     cmocka_unit_test(test_no_room),
    };

    return cmocka_run_group_tests(tests, prepare, end);
}
