/* distill_test.h - a teacher, a student and rows in files of the test's folder, and a run over them: for the tests of
 * what surrounds training. Included once by each test. */
#pragma once

#include "graph/build.h"
#include "scratch.h"
#include "support.h"

#include <stdlib.h>

#include "core/model/memory_model.h"
#include "distill/data/identity.h"

#define ROWS  20
#define STEPS 12

static struct vc_ctx *ctx;
static const char layers[] = "input x [batch, 5]\nlinear a 8\nrelu\nlinear b 3\n";

static inline void numbers(uint32_t seed, size_t n, double *out)
{
    uint64_t state = seed;

    for (size_t i = 0; i < n; i++) {
        state = (state * 1103515245u + 12345u) % 2147483648u;
        out[i] = (double)(state >> 7) / 8388608.0 - 1;
    }
}

/* Writes tensors to a file of the folder. */
static inline void write_file_as(const char *name, const struct vc_memory_tensor *tensors, size_t n,
                                 enum vc_deflate deflate)
{
    struct vc_write_options write;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;

    vc_write_defaults(&write);
    write.path = in_folder(name);
    write.force = true;
    write.deflate = deflate;
    assert_int_equal(vc_memory_model_create(ctx, tensors, n, &model), VC_OK);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_plan(ctx, job, &write), VC_OK);
    assert_int_equal(vc_job_run(ctx, job), VC_OK);
    vc_job_free(job);
    vc_model_close(model);
}

static inline void write_file(const char *name, const struct vc_memory_tensor *tensors, size_t n)
{
    write_file_as(name, tensors, n, VC_DEFLATE_NONE);
}

#define MOST_SEALED 40

/* Writes them with the digest of all of them, in place of an older one: as files of answers have it. */
static inline void write_sealed(const char *name, const struct vc_memory_tensor *tensors, size_t n)
{
    static const uint64_t digits = VC_SHA256_HEX_BYTES - 1;
    struct vc_memory_tensor sealed[MOST_SEALED];
    char hex[VC_SHA256_HEX_BYTES];
    struct vc_model *model = NULL;
    size_t k = 0;

    assert_true(n < MOST_SEALED);
    for (size_t i = 0; i < n; i++) {
        sealed[k] = tensors[i];
        k += strcmp(tensors[i].name, VC_DIGEST_NAME) != 0;
    }
    assert_int_equal(vc_memory_model_create(ctx, sealed, k, &model), VC_OK);
    assert_int_equal(vc_identity_content(ctx, model, hex), VC_OK);
    vc_model_close(model);
    sealed[k++] = (struct vc_memory_tensor){VC_DIGEST_NAME, VC_DTYPE_U8, 1, &digits, hex};
    write_file(name, sealed, k);
}

/* Calls look(user) with the file as it is but for one bit of every second byte. */
static inline void flip_bits(const char *name, void (*look)(void *user, size_t byte), void *user)
{
    struct bytes file = load(name);

    for (size_t i = 0; i < file.n; i += 2 * TEST_STRIDE) {
        uint8_t bit = (uint8_t)(1U << (5 * i + i / 8) % 8);

        file.p[i] ^= bit;
        (void)save(name, &file);
        look(user, i);
        file.p[i] ^= bit;
    }
    (void)save(name, &file);
    bytes_release(&file);
}

static const uint64_t shape_a[2] = {8, 5};
static const uint64_t shape_b[2] = {3, 8};
static const uint64_t shape_x[2] = {ROWS, 5};

static inline void write_net(const char *name, uint32_t seed)
{
    double a[40], a_bias[8], b[24], b_bias[3];
    const struct vc_memory_tensor tensors[] = {
        {"a.weight", VC_DTYPE_F64, 2, shape_a, a},
        {"a.bias", VC_DTYPE_F64, 1, shape_a, a_bias},
        {"b.weight", VC_DTYPE_F64, 2, shape_b, b},
        {"b.bias", VC_DTYPE_F64, 1, shape_b, b_bias},
    };

    numbers(seed, 40, a);
    numbers(seed + 1, 8, a_bias);
    numbers(seed + 2, 24, b);
    numbers(seed + 3, 3, b_bias);
    write_file(name, tensors, 4);
}

static inline void write_rows(const char *name, int64_t last_label)
{
    double x[ROWS * 5];
    int64_t y[ROWS];
    const struct vc_memory_tensor tensors[] = {{"x", VC_DTYPE_F64, 2, shape_x, x}, {"y", VC_DTYPE_I64, 1, shape_x, y}};

    numbers(7, (size_t)ROWS * 5, x);
    for (int64_t i = 0; i < ROWS; i++) {
        y[i] = i % 3;
    }
    y[ROWS - 1] = last_label;
    write_file(name, tensors, 2);
}

static inline int begin(void **state)
{
    if (scratch_make(state) != 0) {
        return -1;
    }
    ctx = test_ctx();
    write_net("teacher.npz", 100);
    write_net("student.npz", 200);
    write_rows("rows.npz", 1);
    (void)save_text("net.txt", layers);
    return 0;
}

static inline int end(void **state)
{
    vc_ctx_free(ctx);
    return scratch_clear(state);
}

/* ---- a run ---- */

struct run {
    struct vc_network teacher, student;
    struct vc_data_options data;
    struct vc_write_options write;
    struct vc_distill_options options;
    double losses[STEPS];
    size_t n_losses;
    char rows[256], out[256], layers[256], chain[256]; /* paths */
};

static inline void open_net(const char *name, struct vc_network *net)
{
    struct vc_graph_options options;
    struct vc_model *model = NULL;

    assert_int_equal(vc_model_open(ctx, in_folder(name), NULL, &model), VC_OK);
    vc_graph_defaults(&options);
    options.weights = model;
    assert_int_equal(vc_graph_read_text(ctx, in_folder("net.txt"), &options, &net->graph), VC_OK);
    net->weights = model;
}

/* A teacher of `rows` classes, the first three of which are those of teacher.npz, over its own list of layers. */
static inline void open_wide(struct vc_network *net, uint64_t rows)
{
    static const uint64_t eight = 8;
    const uint64_t shape[2] = {rows, 8};
    double a[40], a_bias[8], b[40], b_bias[5];
    const struct vc_memory_tensor tensors[] = {{"a.weight", VC_DTYPE_F64, 2, shape_a, a},
                                               {"a.bias", VC_DTYPE_F64, 1, &eight, a_bias},
                                               {"b.weight", VC_DTYPE_F64, 2, shape, b},
                                               {"b.bias", VC_DTYPE_F64, 1, shape, b_bias}};
    struct vc_graph_options options;
    struct vc_model *model = NULL;
    char text[128];

    numbers(100, 40, a);
    numbers(101, 8, a_bias);
    numbers(7, 40, b);
    numbers(8, 5, b_bias);
    numbers(102, 24, b);
    numbers(103, 3, b_bias);
    (void)snprintf(text, sizeof text, "input x [batch, 5]\nlinear a 8\nrelu\nlinear b %u\n", (unsigned)rows);
    (void)save_text("wide.txt", text);
    write_file("wide.npz", tensors, 4);
    assert_int_equal(vc_model_open(ctx, in_folder("wide.npz"), NULL, &model), VC_OK);
    vc_graph_defaults(&options);
    options.weights = model;
    assert_int_equal(vc_graph_read_text(ctx, in_folder("wide.txt"), &options, &net->graph), VC_OK);
    net->weights = model;
    net->beside = NULL;
}

static inline void close_net(struct vc_network *net)
{
    vc_graph_close(net->graph);
    vc_model_close((struct vc_model *)(uintptr_t)net->weights);
}

static inline void tell(void *user, const struct vc_distill_step *step)
{
    struct run *run = user;

    assert_true(run->n_losses < STEPS && step->step == run->n_losses + 1);
    run->losses[run->n_losses++] = step->loss;
}

static inline void open_run(struct run *run)
{
    memset(run, 0, sizeof *run);
    open_net("teacher.npz", &run->teacher);
    open_net("student.npz", &run->student);
    vc_data_defaults(&run->data);
    (void)snprintf(run->rows, sizeof run->rows, "%s", in_folder("rows.npz"));
    (void)snprintf(run->out, sizeof run->out, "%s", in_folder("out.npz"));
    (void)snprintf(run->layers, sizeof run->layers, "%s", in_folder("net.txt"));
    (void)snprintf(run->chain, sizeof run->chain, "%s", in_folder("chain.npz"));
    run->data.path = run->rows;
    vc_write_defaults(&run->write);
    run->write.path = run->out;
    run->write.force = true;
    vc_distill_defaults(&run->options);
    run->options.teacher = run->teacher;
    run->options.student = run->student;
    run->options.data = &run->data;
    run->options.write = &run->write;
    run->options.training.steps = STEPS;
    run->options.training.batch = 8;
    run->options.training.order = VC_ORDER_FILE;
    run->options.precision.kind = VC_GRAPH_F64;
    run->options.tell = tell;
    run->options.user = run;
}

static inline void close_run(struct run *run)
{
    close_net(&run->teacher);
    close_net(&run->student);
}

static inline void read_doubles(const char *file, const char *tensor, double *out, size_t n)
{
    struct vc_model *model = NULL;

    assert_int_equal(vc_model_open(ctx, in_folder(file), NULL, &model), VC_OK);
    assert_int_equal(vc_model_read(ctx, model, vc_model_find(model, tensor), 0, n, out, n * sizeof *out), VC_OK);
    vc_model_close(model);
}

/* The run diverges: nothing is written, and the report has the reason. */
static inline void expect_diverged(struct run *run, const char *words)
{
    struct vc_distillation *d = NULL;

    assert_int_equal(vc_distill(ctx, &run->options, &d), VC_E_GATE);
    assert_true(d != NULL && d->missed != NULL && d->options != NULL);
    if (strstr(d->missed, words) == NULL) {
        fail_msg("'%s' does not say '%s'", d->missed, words);
    }
    vc_result_free(d);
}

static inline void expect_refused(struct run *run, enum vc_status wanted, const char *words)
{
    struct vc_distillation *d = NULL;

    assert_int_equal(vc_distill(ctx, &run->options, &d), wanted);
    assert_null(d);
    expect_says(ctx, words);
}
