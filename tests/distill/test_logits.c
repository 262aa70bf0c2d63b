/* test_logits.c - answers of a teacher in a file: a run that learns from the file is the run that learns from the
 * network; of the k largest; of several files; what does not fit is refused; every allocation that can fail. */
#include "distill_test.h"

#include <math.h>

static enum vc_status write_answers(const struct vc_network *net, uint64_t topk, enum vc_dtype dtype, const char *to)
{
    struct vc_logits_options options;
    struct vc_data_options data;
    struct vc_write_options write;
    struct vc_quality quality;
    char rows[256];
    enum vc_status status;

    (void)snprintf(rows, sizeof rows, "%s", in_folder("rows.npz"));
    vc_data_defaults(&data);
    data.path = rows;
    vc_write_defaults(&write);
    write.path = in_folder(to);
    write.force = true;
    vc_logits_defaults(&options);
    options.network = *net;
    options.data = &data;
    options.write = &write;
    options.batch = 7;
    options.topk = topk;
    options.dtype = dtype;
    options.precision = VC_GRAPH_F64;
    status = vc_logits(ctx, &options, &quality);
    if (status == VC_OK) {
        assert_true(quality.n_rows == ROWS && quality.n_labels == ROWS && quality.ce > 0 && isnan(quality.kd));
    }
    return status;
}

static enum vc_status write_logits(const char *net_name, uint64_t topk, enum vc_dtype dtype, const char *to)
{
    struct vc_network net = {.graph = NULL};
    enum vc_status status;

    open_net(net_name, &net);
    status = write_answers(&net, topk, dtype, to);
    close_net(&net);
    return status;
}

/* A run whose teacher is a file, or the network where there is none. */
static void run_with(const char *const *files, size_t n, double temperature, double *losses, double *weights)
{
    struct vc_model *models[2] = {NULL, NULL};
    struct vc_distillation *d = NULL;
    struct run run;

    open_run(&run);
    for (size_t k = 0; k < n; k++) {
        assert_int_equal(vc_model_open(ctx, in_folder(files[k]), NULL, &models[k]), VC_OK);
        assert_true(vc_logits_is(models[k]));
    }
    if (n != 0) {
        run.options.teacher = (struct vc_network){.graph = NULL};
        run.options.logits = (const struct vc_model *const *)models;
        run.options.n_logits = n;
        run.options.eval.logits = (const struct vc_model *const *)models;
        run.options.eval.n_logits = n;
    }
    run.options.eval.rows = &run.data;
    run.options.loss.temperature = temperature;
    run.options.optimizer.lr = 0.01;
    run.options.training.order = VC_ORDER_SHUFFLED;
    if (vc_distill(ctx, &run.options, &d) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    assert_true(isnan(d->teacher_accuracy) == (n == 0));
    assert_true(d->evaluated && d->teacher.agreement == 1 && d->teacher.kd == 0 && (d->teacher_bytes == 0) == (n != 0));
    memcpy(losses, run.losses, sizeof run.losses);
    vc_result_free(d);
    read_doubles("out.npz", "b.weight", weights, 24);
    close_run(&run);
    vc_model_close(models[0]);
    vc_model_close(models[1]);
}

static void test_as_the_network(void **unused)
{
    const char *const all[] = {"all.npz"};
    const char *const two[] = {"all.npz", "all.npz"};
    const char *const largest[] = {"largest.npz"};
    double losses[4][STEPS], weights[4][24];

    (void)unused;
    assert_int_equal(write_logits("teacher.npz", 0, VC_DTYPE_F64, "all.npz"), VC_OK);
    assert_int_equal(write_logits("teacher.npz", 2, VC_DTYPE_F64, "largest.npz"), VC_OK);
    run_with(NULL, 0, 2, losses[0], weights[0]);
    run_with(all, 1, 2, losses[1], weights[1]);
    run_with(two, 2, 2, losses[2], weights[2]);
    run_with(largest, 1, 2, losses[3], weights[3]); /* of 3 classes: the rest is one class, so nothing is lost */
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
    for (size_t k = 2; k < 4; k++) {
        for (size_t i = 0; i < STEPS; i++) {
            assert_true(fabs(losses[k][i] - losses[0][i]) < 1e-12);
        }
        for (size_t i = 0; i < 24; i++) {
            assert_true(fabs(weights[k][i] - weights[0][i]) < 1e-10);
        }
    }
}

/* Several teachers: the softmax of what is learnt from is the mean of their probabilities, and judged as such. */
static void test_mean(void **unused)
{
    const char *const both[] = {"all.npz", "other.npz"};
    double x[2][ROWS * 3], losses[STEPS], weights[24], mean[ROWS * 3];
    const uint64_t shape[2] = {ROWS, 3};
    const uint64_t one = 1;
    const uint64_t digits = 64;
    const int64_t classes = 3;
    unsigned char teacher[64], data[64];
    const struct vc_memory_tensor tensors[] = {{"logits", VC_DTYPE_F64, 2, shape, mean},
                                               {"n_classes", VC_DTYPE_I64, 1, &one, &classes},
                                               {"teacher", VC_DTYPE_U8, 1, &digits, teacher},
                                               {"data.x", VC_DTYPE_U8, 1, &digits, data}};
    const char *const by_hand[] = {"hand.npz"};
    double again[STEPS], again_weights[24];
    struct vc_model *model = NULL;

    (void)unused;
    assert_int_equal(write_logits("teacher.npz", 0, VC_DTYPE_F64, "all.npz"), VC_OK);
    assert_int_equal(write_logits("student.npz", 0, VC_DTYPE_F64, "other.npz"), VC_OK);
    read_doubles("all.npz", "logits", x[0], (size_t)ROWS * 3);
    read_doubles("other.npz", "logits", x[1], (size_t)ROWS * 3);
    for (size_t r = 0; r < ROWS; r++) {
        double sum[2] = {0, 0};

        for (size_t k = 0; k < 6; k++) {
            sum[k / 3] += exp(x[k / 3][r * 3 + k % 3] / 3);
        }
        for (size_t c = 0; c < 3; c++) {
            mean[r * 3 + c] = 3 * log((exp(x[0][r * 3 + c] / 3) / sum[0] + exp(x[1][r * 3 + c] / 3) / sum[1]) / 2);
        }
    }
    assert_int_equal(vc_model_open(ctx, in_folder("all.npz"), NULL, &model), VC_OK);
    assert_int_equal(vc_model_read(ctx, model, vc_model_find(model, "teacher"), 0, 64, teacher, 64), VC_OK);
    assert_int_equal(vc_model_read(ctx, model, vc_model_find(model, "data.x"), 0, 64, data, 64), VC_OK);
    vc_model_close(model);
    write_sealed("hand.npz", tensors, 4);
    run_with(both, 2, 3, losses, weights);
    run_with(by_hand, 1, 3, again, again_weights);
    for (size_t i = 0; i < STEPS; i++) {
        assert_true(fabs(losses[i] - again[i]) < 1e-12);
    }
    for (size_t i = 0; i < 24; i++) {
        assert_true(fabs(weights[i] - again_weights[i]) < 1e-10);
    }
}

/* The k largest, the largest first, and the sum of all. */
static void test_largest(void **unused)
{
    double all[ROWS * 3], largest[ROWS * 2], rest[ROWS];
    struct vc_model *model = NULL;
    int32_t classes[ROWS * 2];

    (void)unused;
    assert_int_equal(write_logits("teacher.npz", 0, VC_DTYPE_F64, "all.npz"), VC_OK);
    assert_int_equal(write_logits("teacher.npz", 2, VC_DTYPE_F64, "largest.npz"), VC_OK);
    read_doubles("all.npz", "logits", all, (size_t)ROWS * 3);
    read_doubles("largest.npz", "logits", largest, (size_t)ROWS * 2);
    read_doubles("largest.npz", "rest", rest, ROWS);
    assert_int_equal(vc_model_open(ctx, in_folder("largest.npz"), NULL, &model), VC_OK);
    assert_int_equal(
        vc_model_read(ctx, model, vc_model_find(model, "classes"), 0, (uint64_t)ROWS * 2, classes, sizeof classes),
        VC_OK);
    vc_model_close(model);
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0;

        assert_true(largest[r * 2] >= largest[r * 2 + 1]);
        for (size_t i = 0; i < 2; i++) {
            assert_true(all[r * 3 + (size_t)classes[r * 2 + i]] == largest[r * 2 + i]);
        }
        for (size_t c = 0; c < 3; c++) {
            assert_true(all[r * 3 + c] <= largest[r * 2 + 1] || (int32_t)c == classes[r * 2] ||
                        (int32_t)c == classes[r * 2 + 1]);
            sum += exp(all[r * 3 + c] / 2);
        }
        assert_true(fabs(rest[r] - log(sum)) < 1e-14);
    }
}

/* The losses of a run of `run`, whose teacher is the files, or the network where there are none. */
static void learn(struct run *run, const char *const *names, size_t n, double losses[STEPS])
{
    struct vc_distill_options options = run->options;
    struct vc_model *models[2] = {NULL, NULL};
    struct vc_distillation *d = NULL;

    for (size_t k = 0; k < n; k++) {
        assert_int_equal(vc_model_open(ctx, in_folder(names[k]), NULL, &models[k]), VC_OK);
    }
    if (n != 0) {
        options.teacher = (struct vc_network){.graph = NULL};
        options.logits = (const struct vc_model *const *)models;
        options.n_logits = n;
    }
    options.write = NULL;
    run->n_losses = 0;
    if (vc_distill(ctx, &options, &d) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    memcpy(losses, run->losses, sizeof run->losses);
    vc_result_free(d);
    vc_model_close(models[0]);
    vc_model_close(models[1]);
}

static void refuse(struct run *run, const char *file, const char *words)
{
    struct vc_model *model = NULL;
    const struct vc_model *const *list = (const struct vc_model *const *)&model;

    assert_int_equal(vc_model_open(ctx, in_folder(file), NULL, &model), VC_OK);
    run->options.teacher = (struct vc_network){.graph = NULL};
    run->options.logits = list;
    run->options.n_logits = 1;
    expect_refused(
        run, strstr(words, "no file of logits") != NULL || strstr(words, "row 3") != NULL ? VC_E_FORMAT : VC_E_ARGUMENT,
        words);
    vc_model_close(model);
}

/* The file again, with one array replaced by another, or left out where `with` has no name. */
static void damage(const char *from, const char *to, const char *array, const struct vc_memory_tensor *with)
{
    struct vc_memory_tensor tensors[MOST_SEALED];
    struct vc_model *model = NULL;
    size_t n = 0;

    assert_int_equal(vc_model_open(ctx, in_folder(from), NULL, &model), VC_OK);
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct vc_tensor *t = &model->tensors[i];
        void *data = malloc((size_t)t->size_bytes);

        assert_non_null(data);
        assert_int_equal(vc_model_read(ctx, model, i, 0, t->n_elems, data, (size_t)t->size_bytes), VC_OK);
        tensors[n++] = (struct vc_memory_tensor){t->name, t->dtype, t->n_dims, t->shape, data};
        if (strcmp(t->name, array) == 0) {
            free(data);
            n -= with->name == NULL;
            if (with->name != NULL) {
                tensors[n - 1] = *with;
            }
        }
    }
    write_sealed(to, tensors, n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(tensors[i].name, array) != 0) {
            free((void *)(uintptr_t)tensors[i].data);
        }
    }
    vc_model_close(model);
}

static void test_refused(void **unused)
{
    double x[ROWS * 3] = {0};
    int32_t far[ROWS * 2] = {0};
    int64_t four = 4;
    const uint64_t shape[2] = {ROWS, 3};
    const uint64_t short_shape[2] = {ROWS - 1, 3};
    const uint64_t shape_2[2] = {ROWS, 2};
    const uint64_t one = 1;
    const uint64_t digits = 64;
    const struct vc_memory_tensor none = {.name = NULL};
    const struct vc_memory_tensor fewer = {"logits", VC_DTYPE_F64, 2, short_shape, x};
    const struct vc_memory_tensor no_number = {"logits", VC_DTYPE_F64, 2, shape, x};
    const struct vc_memory_tensor wrong_classes = {"n_classes", VC_DTYPE_I64, 1, &one, &four};
    const struct vc_memory_tensor wrong_class = {"classes", VC_DTYPE_I32, 2, shape_2, far};
    const struct vc_memory_tensor wrong_data = {"data.x", VC_DTYPE_U8, 1, &digits,
                                                "0123456789abcdef0123456789abcdef"
                                                "0123456789abcdef0123456789abcdef"};
    struct run run;

    (void)unused;
    assert_int_equal(write_logits("teacher.npz", 0, VC_DTYPE_F64, "all.npz"), VC_OK);
    assert_int_equal(write_logits("teacher.npz", 2, VC_DTYPE_F32, "largest.npz"), VC_OK);
    open_run(&run);
    damage("all.npz", "bad.npz", "logits", &fewer);
    refuse(&run, "bad.npz", "bad.npz: has answers to 19 rows");
    damage("all.npz", "bad.npz", "n_classes", &wrong_classes);
    refuse(&run, "bad.npz", "bad.npz: has logits of 4 classes; the student has 3");
    damage("all.npz", "bad.npz", "n_classes", &none);
    refuse(&run, "bad.npz", "bad.npz: is no file of logits: n_classes");
    damage("all.npz", "bad.npz", "data.x", &wrong_data);
    refuse(&run, "bad.npz", "bad.npz: has answers to other rows than those of x");
    damage("all.npz", "bad.npz", "data.x", &none);
    refuse(&run, "bad.npz", "bad.npz: does not say which rows it answers");
    x[3 * 3 + 1] = (double)INFINITY;
    damage("all.npz", "bad.npz", "logits", &no_number);
    refuse(&run, "bad.npz", "bad.npz: row 3 of logits has a NaN or infinite value");
    damage("largest.npz", "bad.npz", "rest", &none);
    refuse(&run, "bad.npz", "bad.npz: is no file of logits: there is no rest");
    far[3 * 2] = 3;
    damage("largest.npz", "bad.npz", "classes", &wrong_class);
    refuse(&run, "bad.npz", "bad.npz: row 3 of classes has 3; there are 3");
    run.options.loss.kind = VC_TEACHER_LOSS_MSE;
    refuse(&run, "largest.npz", "largest.npz: has the 2 largest logits of each row; loss.kind mse compares all");
    run.options.loss.kind = VC_TEACHER_LOSS_KD;
    run.options.loss.temperature = 3;
    refuse(&run, "largest.npz", "the sum of all at the temperature 2; temperature is 3");
    close_run(&run);
    assert_int_equal(write_logits("teacher.npz", 3, VC_DTYPE_F32, "no.npz"), VC_E_ARGUMENT);
    expect_says(ctx, "topk 3: there are 3 classes");
    assert_false(exists("no.npz"));
}

/* The divergence of the first step, 8 rows, from the two largest answers of three: the other class and those of the
 * student alone are one. By the files of both. */
static double of_two_largest(void)
{
    double z[ROWS * 5], t[ROWS * 3];
    double sum = 0;

    read_doubles("five.npz", "logits", z, (size_t)ROWS * 5);
    read_doubles("narrow.npz", "logits", t, (size_t)ROWS * 3);
    for (size_t r = 0; r < 8; r++) {
        double *mine = z + r * 5, *theirs = t + r * 3;
        double of_mine = 0, of_theirs = 0, p_rest = 1, q_rest = 1;
        size_t least = 0;

        for (size_t c = 0; c < 5; c++) {
            of_mine += exp(mine[c] / 2);
            of_theirs += c < 3 ? exp(theirs[c] / 2) : 0;
            least = c < 3 && theirs[c] < theirs[least] ? c : least;
        }
        for (size_t c = 0; c < 3; c++) {
            double p = exp(theirs[c] / 2) / of_theirs, q = exp(mine[c] / 2) / of_mine;

            sum += c != least ? p * log(p / q) : 0;
            p_rest -= c != least ? p : 0;
            q_rest -= c != least ? q : 0;
        }
        sum += p_rest * log(p_rest / q_rest);
    }
    return 4 * sum / 8;
}

/* Vocabularies that are padded differently: answers in a file are compared as those of the network, whoever has more
 * classes. */
static void test_classes(void **unused)
{
    const char *const narrow[] = {"narrow.npz"};
    const char *const wide[] = {"five.npz", "narrow.npz"};
    const char *const largest[] = {"largest.npz"};
    const uint64_t shape[2] = {ROWS, 2};
    int32_t far[ROWS * 2] = {0};
    const struct vc_memory_tensor wrong_class = {"classes", VC_DTYPE_I32, 2, shape, far};
    double network[STEPS], file[STEPS];
    struct vc_network net = {.graph = NULL};
    struct run run;

    (void)unused;
    open_run(&run);
    open_wide(&net, 5);
    assert_int_equal(write_answers(&net, 0, VC_DTYPE_F64, "five.npz"), VC_OK);
    assert_int_equal(write_answers(&net, 2, VC_DTYPE_F64, "five2.npz"), VC_OK);
    assert_int_equal(write_answers(&run.teacher, 0, VC_DTYPE_F64, "narrow.npz"), VC_OK);
    assert_int_equal(write_answers(&run.teacher, 2, VC_DTYPE_F64, "largest.npz"), VC_OK);

    /* The student has three classes, the teacher five. */
    refuse(&run, "five.npz",
           "five.npz: has logits of 5 classes; the student has 3; where the last ones pad one vocabulary, loss.classes "
           "common compares the others");
    run.options.logits = NULL;
    run.options.n_logits = 0;
    run.options.loss.classes = VC_CLASSES_COMMON;
    for (int loss = VC_TEACHER_LOSS_KD; loss <= VC_TEACHER_LOSS_COSINE; loss++) {
        run.options.loss.kind = (enum vc_teacher_loss)loss;
        run.options.teacher = net;
        learn(&run, NULL, 0, network);
        learn(&run, wide, 1, file);
        assert_memory_equal(network, file, sizeof network);
        learn(&run, wide, 2, file); /* the mean of it and of a teacher with three, whose answers are the same */
        for (size_t i = 0; i < STEPS; i++) {
            assert_true(fabs(network[i] - file[i]) < 1e-12);
        }
    }
    run.options.loss.kind = VC_TEACHER_LOSS_KD;
    refuse(&run, "five2.npz",
           "five2.npz: has the 2 largest logits of each row, and the sum of all 5 classes; the "
           "student has 3, and what the others are in that sum is not known");

    /* The student has five classes, the teacher three. */
    run.options.logits = NULL;
    run.options.n_logits = 0;
    run.options.student = net;
    run.options.teacher = run.teacher;
    learn(&run, NULL, 0, network);
    learn(&run, narrow, 1, file);
    assert_memory_equal(network, file, sizeof network);
    learn(&run, largest, 1, file);
    assert_true(fabs(file[0] - of_two_largest()) < 1e-12);
    far[3 * 2] = 3; /* a class of the student that the teacher has not */
    damage("largest.npz", "bad.npz", "classes", &wrong_class);
    refuse(&run, "bad.npz", "bad.npz: row 3 of classes has 3; there are 3");
    run.options.loss.kind = VC_TEACHER_LOSS_MSE;
    refuse(&run, "narrow.npz",
           "narrow.npz: has logits of 3 classes; the student has 5: without the teacher's values of the others outputs "
           "cannot be compared by loss.kind mse or cosine");
    close_net(&net);
    close_run(&run);
}

/* What a run has told that learnt from a file. */
struct learnt {
    struct run *run;
    const char *file;
    double losses[STEPS];
    size_t n_same, n_refused;
};

static void learn_from(void *user, size_t byte)
{
    struct learnt *l = user;
    struct vc_model *model = NULL;
    const struct vc_model *const *list = (const struct vc_model *const *)&model;
    struct vc_distillation *d = NULL;
    enum vc_status status = vc_model_open(ctx, in_folder(l->file), NULL, &model);

    l->run->options.logits = list;
    l->run->options.n_logits = 1;
    l->run->n_losses = 0;
    status = status == VC_OK ? vc_distill(ctx, &l->run->options, &d) : status;
    if (status == VC_OK && l->n_same != 0 && memcmp(l->losses, l->run->losses, sizeof l->losses) != 0) {
        fail_msg("%s: byte %zu: other losses", l->file, byte);
    }
    l->n_same += status == VC_OK;
    l->n_refused += status == VC_E_FORMAT || status == VC_E_UNSUPPORTED || status == VC_E_ARGUMENT;
    if (status != VC_OK && l->n_same + l->n_refused == 0) {
        fail_msg("%s: byte %zu: %s", l->file, byte, vc_ctx_message(ctx));
    }
    vc_result_free(d);
    vc_model_close(model);
}

/* One bit of each byte: it is refused, or nothing changes. */
static void test_damaged_bits(void **unused)
{
    static const char *const files[] = {"all.npz", "all.safetensors", "largest.safetensors"};
    struct run run;

    (void)unused;
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        struct learnt l = {&run, files[k], {0}, 0, 0};

        assert_int_equal(write_logits("teacher.npz", k == 2 ? 2 : 0, VC_DTYPE_F32, files[k]), VC_OK);
        open_run(&run);
        run.options.teacher = (struct vc_network){.graph = NULL};
        run.options.write = NULL;
        run.options.training.steps = 3;
        learn_from(&l, 0);
        assert_int_equal(l.n_same, 1);
        memcpy(l.losses, run.losses, sizeof l.losses);
        flip_bits(files[k], learn_from, &l);
        assert_true(l.n_refused > 200 / TEST_STRIDE); /* most bytes are content */
        close_run(&run);
    }
}

/* Each allocation fails once: of writing the file, and of a run that learns from it. */
static void test_no_memory(void **unused)
{
    struct vc_model *model = NULL;
    struct vc_distillation *d = NULL;
    enum vc_status status = VC_E_NOMEM;
    struct vc_network net = {.graph = NULL};
    struct vc_logits_options options;
    struct vc_write_options write;
    struct vc_quality quality;
    struct run run;
    uint64_t n;

    (void)unused;
    assert_int_equal(write_logits("teacher.npz", 2, VC_DTYPE_F32, "largest.npz"), VC_OK);
    open_run(&run);
    open_net("teacher.npz", &net);
    vc_write_defaults(&write);
    write.path = in_folder("no.npz");
    vc_logits_defaults(&options);
    options.network = net;
    options.data = &run.data;
    options.write = &write;
    options.topk = 2;
    for (n = 1; n < 100000 && status == VC_E_NOMEM; n++) {
        assert_false(exists("no.npz"));
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_logits(ctx, &options, &quality);
    }
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    assert_true(status == VC_OK && n > 50 && exists("no.npz"));
    close_net(&net);

    assert_int_equal(vc_model_open(ctx, in_folder("largest.npz"), NULL, &model), VC_OK);
    run.options.teacher = (struct vc_network){.graph = NULL};
    run.options.logits = (const struct vc_model *const *)&model;
    run.options.n_logits = 1;
    run.options.write = NULL;
    run.options.tell = NULL;
    run.options.training.steps = 1;
    status = VC_E_NOMEM;
    for (n = 1; n < 100000 && status == VC_E_NOMEM; n++) {
        vc_pool_fail_at(ctx->shared->pool, n, 0);
        status = vc_distill(ctx, &run.options, &d);
    }
    vc_pool_fail_at(ctx->shared->pool, 0, 0);
    assert_true(status == VC_OK && n > 50);
    vc_result_free(d);
    vc_model_close(model);
    close_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_network), cmocka_unit_test(test_mean),    cmocka_unit_test(test_largest),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_classes), cmocka_unit_test(test_damaged_bits),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
