/* test_contradictions.c - random graphs whose sizes contradict each other (random_graph.h), for batches of several
 * sizes, through evaluate, logits, distill and sensitivity. What they say is what the plain loops of graph/ compute
 * from the same rows, or they refuse; under the sanitizers nothing is read that is not there.
 *
 *     test_contradictions [GRAPHS [FIRST SEED [FOLDER]]]     300, 1; into FOLDER go the graphs as texts, with their
 *                                                            weights and rows, for tests/judge/test_contradictions.py
 */
#include <math.h>
#include <stdlib.h>

#include "core/model/memory_model.h"
#include "graph/build.h"
#include "random_graph.h"
#include "scratch.h"
#include "support.h"

#define ROWS 12

static struct {
    struct vc_ctx *ctx;
    double x[ROWS * 6], z[ROWS * 6], weights[RANDOM_WIDEST + 1][RANDOM_WIDEST * RANDOM_CLASSES];
    int64_t t[ROWS * 3], y[ROWS];
    char names[RANDOM_WIDEST + 1][16], rows[256], out[256], logits[256];
    uint64_t shapes[RANDOM_WIDEST + 1][2];
    /* Of all graphs and batches. */
    unsigned long graphs, unbuilt, runs, answered, refused_runs, trained, measured, could;
} all;

static unsigned long n_graphs = 300, first_seed = 1;
static const char *folder;

/* One graph for one size of batch. */
struct graph_run {
    struct vc_graph *graph;
    struct vc_model *model;
    uint64_t batch, seed;
    const char *text;
    bool right; /* the plain loops computed a row for each row */
    double answers[ROWS * RANDOM_CLASSES];
};

#define CHECK(a, condition)                                                                          \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fail_msg("seed %llu, batch %llu: " #condition "\n%s\n%s", (unsigned long long)(a)->seed, \
                     (unsigned long long)(a)->batch, (a)->text, vc_ctx_message(all.ctx));            \
        }                                                                                            \
    } while (0)

/* ---- what all have in common ---- */

static double number(size_t k)
{
    return sin((double)k * 12.9898) * 1.5;
}

static void write_npz(const char *path, const struct vc_memory_tensor *tensors, size_t n)
{
    struct vc_write_options write;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;

    vc_write_defaults(&write);
    write.path = path;
    write.force = true;
    assert_int_equal(vc_memory_model_create(all.ctx, tensors, n, &model), VC_OK);
    assert_int_equal(vc_job_create(all.ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_plan(all.ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_run(all.ctx, job), VC_OK);
    vc_job_free(job);
    vc_model_close(model);
}

static size_t list_weights(const bool *uses, struct vc_memory_tensor *tensors)
{
    size_t n = 0;

    for (int k = 1; k <= RANDOM_WIDEST; k++) {
        if (uses == NULL || uses[k]) {
            tensors[n++] = (struct vc_memory_tensor){all.names[k], VC_DTYPE_F64, 2, all.shapes[k], all.weights[k]};
        }
    }
    return n;
}

static int begin(void **state)
{
    static const uint64_t shape_x[2] = {ROWS, 6}, shape_t[2] = {ROWS, 3}, shape_y[1] = {ROWS};
    const struct vc_memory_tensor rows[] = {{"x", VC_DTYPE_F64, 2, shape_x, all.x},
                                            {"z", VC_DTYPE_F64, 2, shape_x, all.z},
                                            {"t", VC_DTYPE_I64, 2, shape_t, all.t},
                                            {"y", VC_DTYPE_I64, 1, shape_y, all.y}};
    struct vc_memory_tensor weights[RANDOM_WIDEST];
    char path[512];

    if (scratch_make(state) != 0) {
        return -1;
    }
    all.ctx = test_ctx();
    for (size_t k = 0; k < ROWS * 6; k++) {
        all.x[k] = number(k);
        all.z[k] = number(k + 1000);
    }
    for (size_t k = 0; k < ROWS * 3; k++) {
        all.t[k] = (int64_t)(k * 7 % 5);
    }
    for (size_t k = 0; k < ROWS; k++) {
        all.y[k] = (int64_t)(k % RANDOM_CLASSES);
    }
    for (int k = 1; k <= RANDOM_WIDEST; k++) {
        (void)snprintf(all.names[k], sizeof all.names[k], "w%d", k);
        all.shapes[k][0] = (uint64_t)k;
        all.shapes[k][1] = RANDOM_CLASSES;
        for (int i = 0; i < k * RANDOM_CLASSES; i++) {
            all.weights[k][i] = number((size_t)(k * 200 + i)) / 2;
        }
    }
    (void)snprintf(all.rows, sizeof all.rows, "%s", in_folder("rows.npz"));
    (void)snprintf(all.out, sizeof all.out, "%s", in_folder("out.npz"));
    (void)snprintf(all.logits, sizeof all.logits, "%s", in_folder("logits.npz"));
    write_npz(all.rows, rows, 4);
    if (folder != NULL) {
        (void)snprintf(path, sizeof path, "%s/rows.npz", folder);
        write_npz(path, rows, 4);
        (void)snprintf(path, sizeof path, "%s/weights.npz", folder);
        write_npz(path, weights, list_weights(NULL, weights));
    }
    return 0;
}

static int end(void **state)
{
    vc_ctx_free(all.ctx);
    return scratch_clear(state);
}

/* ---- the reference: plain loops over batches of rows ---- */

struct taking {
    struct graph_run *a;
    uint64_t first, n;
    bool right;
};

static enum vc_status take(void *user, const struct vc_graph_array *array)
{
    struct taking *t = user;
    const double *from = array->data;

    t->right = array->n_dims == 2 && array->shape[0] == t->n && array->shape[1] == RANDOM_CLASSES;
    for (uint64_t k = 0; t->right && k < array->n_elems; k++) {
        t->a->answers[t->first * RANDOM_CLASSES + k] = from[k];
    }
    return VC_OK;
}

static bool compute_batch(struct graph_run *a, uint64_t first, uint64_t n)
{
    const uint64_t shape_x[2] = {n, 6}, shape_t[2] = {n, 3};
    const struct vc_graph_array inputs[] = {{"x", VC_DTYPE_F64, 2, shape_x, n * 6, all.x + first * 6},
                                            {"z", VC_DTYPE_F64, 2, shape_x, n * 6, all.z + first * 6},
                                            {"t", VC_DTYPE_I64, 2, shape_t, n * 3, all.t + first * 3}};
    const char *const values[] = {"y"};
    struct taking taking = {.a = a, .first = first, .n = n};
    struct vc_graph_run_options options;

    vc_graph_run_defaults(&options);
    options.precision = VC_GRAPH_F64;
    options.values = values;
    options.n_values = 1;
    options.take = take;
    options.user = &taking;
    options.weights = a->model;
    return vc_graph_run(all.ctx, a->graph, a->model, inputs, 3, &options) == VC_OK && taking.right;
}

static void compute(struct graph_run *a)
{
    a->right = true;
    for (uint64_t first = 0; a->right && first < ROWS; first += a->batch) {
        a->right = compute_batch(a, first, a->batch < ROWS - first ? a->batch : ROWS - first);
    }
}

/* ---- the commands ---- */

static struct vc_data_options data(void)
{
    struct vc_data_options options;

    vc_data_defaults(&options);
    options.path = all.rows;
    return options;
}

/* Those that say that a graph or its data cannot be used. */
static bool is_refusal(enum vc_status status)
{
    return status == VC_E_FORMAT || status == VC_E_UNSUPPORTED || status == VC_E_ARGUMENT;
}

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (1 + fabs(b));
}

/* -log softmax of the labels, as the mean of the rows. */
static double entropy(const struct graph_run *a)
{
    double sum = 0;

    for (size_t r = 0; r < ROWS; r++) {
        const double *row = a->answers + r * RANDOM_CLASSES;
        double most = fmax(row[0], fmax(row[1], row[2]));

        sum += most + log(exp(row[0] - most) + exp(row[1] - most) + exp(row[2] - most)) - row[all.y[r]];
    }
    return sum / ROWS;
}

static void check_evaluate(const struct graph_run *a)
{
    struct vc_data_options rows = data();
    struct vc_evaluate_options options;
    struct vc_quality quality;
    enum vc_status status;

    vc_evaluate_defaults(&options);
    options.network = (struct vc_network){.graph = a->graph, .weights = a->model};
    options.data = &rows;
    options.batch = a->batch;
    options.precision = VC_GRAPH_F64;
    status = vc_evaluate(all.ctx, &options, &quality);
    all.runs++;
    CHECK(a, status == VC_OK || is_refusal(status));
    CHECK(a, status != VC_OK || (a->right && quality.n_rows == ROWS && close_to(quality.ce, entropy(a))));
    all.answered += status == VC_OK;
    all.could += a->right && status != VC_OK;
}

static void check_logits(const struct graph_run *a)
{
    struct vc_data_options rows = data();
    double answers[ROWS * RANDOM_CLASSES];
    struct vc_logits_options options;
    struct vc_write_options write;
    struct vc_quality quality;
    struct vc_model *model = NULL;
    enum vc_status status;

    vc_write_defaults(&write);
    write.path = all.logits;
    write.force = true;
    vc_logits_defaults(&options);
    options.network = (struct vc_network){.graph = a->graph, .weights = a->model};
    options.data = &rows;
    options.write = &write;
    options.batch = a->batch;
    options.dtype = VC_DTYPE_F64;
    options.precision = VC_GRAPH_F64;
    status = vc_logits(all.ctx, &options, &quality);
    CHECK(a, status == VC_OK || is_refusal(status));
    CHECK(a, status != VC_OK || a->right);
    if (status != VC_OK) {
        return;
    }
    assert_int_equal(vc_model_open(all.ctx, all.logits, NULL, &model), VC_OK);
    assert_int_equal(vc_model_read(all.ctx, model, vc_model_find(model, "logits"), 0, ROWS * RANDOM_CLASSES, answers,
                                   sizeof answers),
                     VC_OK);
    vc_model_close(model);
    for (size_t k = 0; k < ROWS * RANDOM_CLASSES; k++) {
        CHECK(a, close_to(answers[k], a->answers[k]));
    }
}

struct steps {
    double most; /* of the losses */
};

static void tell(void *user, const struct vc_distill_step *step)
{
    struct steps *steps = user;

    steps->most = fmax(steps->most, step->loss);
}

/* A network that is its own teacher has nothing to learn. */
static void check_distill(const struct graph_run *a, struct vc_graph *teacher)
{
    struct vc_data_options rows = data();
    struct vc_distillation *d = NULL;
    struct vc_distill_options options;
    struct vc_write_options write;
    struct steps steps = {0};
    enum vc_status status;

    vc_write_defaults(&write);
    write.path = all.out;
    write.force = true;
    write.dry_run = true;
    vc_distill_defaults(&options);
    options.student = (struct vc_network){.graph = a->graph, .weights = a->model};
    options.teacher = (struct vc_network){.graph = teacher, .weights = a->model};
    options.data = &rows;
    options.write = &write;
    options.training.steps = 3;
    options.training.batch = a->batch;
    options.loss.alpha = 1;
    options.precision.kind = VC_GRAPH_F64;
    options.training.order = VC_ORDER_FILE;
    options.tell = tell;
    options.user = &steps;
    status = vc_distill(all.ctx, &options, &d);
    CHECK(a, status == VC_OK || is_refusal(status));
    CHECK(a, status != VC_OK || (a->right && steps.most < 1e-9));
    all.trained += status == VC_OK;
    vc_result_free(d);
}

static void check_sensitivity(const struct graph_run *a)
{
    struct vc_sensitivity_data_options options;
    struct vc_sensitivity *s = NULL;
    enum vc_status status;

    assert_int_equal(vc_model_sensitivity(all.ctx, a->model, NULL, &s), VC_OK);
    vc_sensitivity_data_defaults(&options);
    options.graph = a->graph;
    options.data = all.rows;
    options.n_rows = ROWS;
    options.batch = a->batch;
    status = vc_sensitivity_measure(all.ctx, s, &options);
    CHECK(a, status == VC_OK || is_refusal(status));
    all.measured += status == VC_OK;
    vc_result_free(s);
}

/* ---- the graphs ---- */

static void save_graph(uint64_t seed, const char *text)
{
    char path[512];
    FILE *file;

    if (folder != NULL) {
        (void)snprintf(path, sizeof path, "%s/g%llu.onnxtxt", folder, (unsigned long long)seed);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    }
}

static enum vc_status parse(const char *text, const struct vc_model *model, struct vc_graph **graph)
{
    struct vc_graph_options options;

    vc_graph_defaults(&options);
    options.weights = model;
    return vc_graph_parse_text(all.ctx, text, strlen(text), &options, graph);
}

static void try_graph(uint64_t seed)
{
    static const uint64_t batches[] = {1, 2, 3, 4, 7, 12};
    static struct random_graph r;
    struct vc_memory_tensor tensors[RANDOM_WIDEST];
    struct graph_run a = {.seed = seed, .text = r.text};
    struct vc_graph *teacher = NULL;
    enum vc_status status;

    random_graph_make(seed, &r);
    save_graph(seed, r.text);
    all.graphs++;
    assert_int_equal(vc_memory_model_create(all.ctx, tensors, list_weights(r.uses, tensors), &a.model), VC_OK);
    status = parse(r.text, a.model, &a.graph);
    CHECK(&a, status == VC_OK || status == VC_E_FORMAT);
    if (status == VC_OK) {
        assert_int_equal(parse(r.text, a.model, &teacher), VC_OK);
    }
    all.unbuilt += status != VC_OK;
    for (size_t k = 0; status == VC_OK && k < 2; k++) { /* its own batch, and another */
        a.batch = k == 0 ? (uint64_t)r.batch : batches[seed % (sizeof batches / sizeof *batches)];
        compute(&a);
        all.refused_runs += !a.right;
        check_evaluate(&a);
        check_logits(&a);
        check_distill(&a, teacher);
        if (k == seed % 2) {
            check_sensitivity(&a);
        }
    }
    vc_graph_close(a.graph);
    vc_graph_close(teacher);
    vc_model_close(a.model);
}

static void test_graphs(void **unused)
{
    (void)unused;
    for (unsigned long k = 0; k < n_graphs; k++) {
        try_graph(first_seed + k);
    }
    print_message(
        "%lu graphs, %lu of them refused when they were built; %lu times evaluated: %lu answers, and %lu where the "
        "plain loops refuse or answer other rows; %lu refused that these compute; %lu trained, %lu measured\n",
        all.graphs, all.unbuilt, all.runs, all.answered, all.refused_runs, all.could, all.trained, all.measured);
    /* The generator makes both, and only what has to be is refused. */
    assert_true(all.answered > all.runs / 5 && all.refused_runs > all.runs / 5 && all.trained > all.runs / 6);
    assert_true(all.measured > all.graphs / 6 && all.could < all.runs / 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_graphs, begin, end)};

    n_graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : n_graphs;
    first_seed = argc > 2 ? strtoul(argv[2], NULL, 10) : first_seed;
    folder = argc > 3 ? argv[3] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
