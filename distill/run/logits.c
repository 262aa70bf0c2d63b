/* logits.c - vc_logits: what a network answers to every row, in a file. teacher_file.h has its arrays.
 *
 *     rows --> network, batch by batch --> logits [rows, classes]        all of them
 *                                      --> k largest of each, their classes, the sum of the others
 *
 * The network is run as a trainer's student that only judges. The file is planned before anything is
 * computed; its arrays lie in memory and are filled batch by batch.
 *
 * A student that is trained with such a file needs no teacher while it trains. The digests of the inputs
 * are in the file, so that answers cannot be taken for those of other rows. */

#include "core/base/option_struct.h"
#include "core/model/memory_model.h"
#include "distill/data/identity.h"
#include "distill/math/real.h"
#include "distill/run/trainer.h"
#include "kernels/functions.h"
#include "kernels/kernels.h"

#define FIXED_ARRAYS \
    9 /* logits, classes, rest, temperature, n_classes, values, outputs, teacher, digest; then the inputs' */

/* The trainer, the arrays of the file, and room for one position. */
struct answers {
    struct vc_trainer t;
    struct vc_logits_options options;
    size_t positions; /* of a row, each with logits of its own */
    size_t width;     /* logits of a position: all, or the k largest */
    void *logits;
    int32_t *classes;
    double *rest;
    int64_t n_classes, values;
    double temperature;
    uint64_t shape[3], rows, one, digits, n_outputs;
    char teacher[VC_SHA256_HEX_BYTES], digest[VC_SHA256_HEX_BYTES];
    char (*inputs)[VC_SHA256_HEX_BYTES];
    struct vc_memory_tensor *tensors;
    size_t n_tensors;
    struct vc_arena arena;
    /* Of one position. */
    double *largest;
    int32_t *which;
    struct vc_tally tally; /* how well the network answers where there are labels */
};

/* ---- one position of a row: `row` counts positions through all rows ---- */

/* Stores a logit in the type of the file. VC_E_UNSUPPORTED: it is too large for that. */
static enum vc_status put(struct answers *a, uint64_t row, size_t i, double x)
{
    size_t at = (size_t)row * a->width + i;

    if (a->options.dtype == VC_DTYPE_F64) {
        ((double *)a->logits)[at] = x;
        return VC_OK;
    }
    if (a->options.dtype == VC_DTYPE_F32) {
        ((float *)a->logits)[at] = (float)x;
        return isfinite((float)x) ? VC_OK : VC_E_UNSUPPORTED;
    }
    ((uint16_t *)a->logits)[at] = vc_f64_to_f16(x);
    return isfinite(vc_f16_to_f32(((uint16_t *)a->logits)[at])) ? VC_OK : VC_E_UNSUPPORTED;
}

/* The logit as it will be read again. */
static double stored(const struct answers *a, uint64_t row, size_t i)
{
    return vc_number_at(a->options.dtype, a->logits, (size_t)row * a->width + i);
}

/* Logit i of one position. */
static double logit_of(const struct answers *a, const void *logits, size_t i)
{
    return a->t.student.f64 ? ((const double *)logits)[i] : (double)((const float *)logits)[i];
}

/* The k largest logits of a row, the largest first, of equal ones the first class first. */
static void find_largest(struct answers *a, const void *logits)
{
    size_t n = 0;

    for (size_t c = 0; c < a->t.student.net.n_classes; c++) {
        double x = logit_of(a, logits, c);
        size_t at = n;

        if (n == a->width && x <= a->largest[n - 1]) {
            continue;
        }
        n += n < a->width;
        for (at = at < n ? at : n - 1; at > 0 && a->largest[at - 1] < x; at--) {
            a->largest[at] = a->largest[at - 1];
            a->which[at] = a->which[at - 1];
        }
        a->largest[at] = x;
        a->which[at] = (int32_t)c;
    }
}

/* log of the sum of vc_exp_f64(x / T) over all classes, where the k largest count as they are stored. */
static double sum_all(const struct answers *a, const void *logits, uint64_t row)
{
    double t = a->options.temperature;
    double max = a->largest[0] / t;
    double sum = 0;

    for (size_t c = 0; c < a->t.student.net.n_classes; c++) {
        sum += vc_exp_f64(logit_of(a, logits, c) / t - max);
    }
    for (size_t i = 0; i < a->width; i++) {
        sum += vc_exp_f64(stored(a, row, i) / t - max) - vc_exp_f64(a->largest[i] / t - max);
    }
    return max + vc_log_f64(sum);
}

/* One position into the arrays: all logits, or the k largest with their classes and the sum of all. */
static enum vc_status take_row(struct answers *a, uint64_t row, const void *logits)
{
    if (a->options.topk != 0) {
        find_largest(a, logits);
        memcpy(a->classes + row * a->width, a->which, a->width * sizeof *a->which);
    }
    for (size_t i = 0; i < a->width; i++) {
        double x = a->options.topk != 0 ? a->largest[i] : logit_of(a, logits, i);

        VC_REFUSE_IF(put(a, row, i, x) != VC_OK, a->t.ctx, VC_E_UNSUPPORTED,
                     "row %llu: the logit of class %zu is %g, beyond the largest %s; %s has a larger range",
                     (unsigned long long)(row / a->positions), a->options.topk != 0 ? (size_t)a->which[i] : i, x,
                     vc_dtype_name(a->options.dtype), vc_option(a->t.ctx, "dtype"));
    }
    if (a->options.topk != 0) {
        a->rest[row] = sum_all(a, logits, row);
    }
    return VC_OK;
}

/* ---- all rows ---- */

/* n rows from row `first` on. */
static enum vc_status batch(struct answers *a, uint64_t first, size_t n, uint64_t *numbers)
{
    const struct vc_engine_pass pass = {.norm_share = -1};
    const struct vc_teacher_rows none = {.logits = NULL};
    struct vc_trainer *t = &a->t;
    const struct vc_engine_value *logits;
    struct vc_engine *engine;
    size_t classes = t->student.net.n_classes;

    for (size_t i = 0; i < n; i++) {
        numbers[i] = first + i;
    }
    vc_batch_gather(&t->batch, &t->eval.rows, t->student.f64, numbers, n);
    VC_CALL(vc_net_engine(&t->student.net, n, false, &engine));
    VC_CALL(vc_net_forward(&t->student.net, engine, &t->eval.student, numbers, n, &pass, &logits));
    for (size_t i = 0; i < n * a->positions; i++) {
        const char *row = (const char *)logits->data + i * classes * vc_real_bytes(t->options.precision.kind);
        size_t bad = vc_first_nonfinite(t->student.f64, row, classes);

        VC_REFUSE_IF(bad != classes, t->ctx, VC_E_FORMAT,
                     "%s: row %llu: the network's logit of class %zu is NaN or infinite", t->eval.rows.model->path,
                     (unsigned long long)vc_rows_in_file(&t->eval.rows, first + i / a->positions), bad);
        VC_CALL(take_row(a, first * a->positions + i, row));
    }
    VC_CALL(vc_tally_add(t, &t->options.student, numbers, n, logits->data, &none, &a->tally, NULL));
    return vc_check_cancelled(t->ctx);
}

/* All rows, in order. */
static enum vc_status answer_all(struct answers *a)
{
    VC_SCOPED uint64_t *numbers =
        vc_alloc_array(a->t.ctx, VC_TAG_MISC, (size_t)a->t.options.training.batch, sizeof *numbers);
    uint64_t n;

    VC_CALL_ALLOC(numbers);
    for (uint64_t first = 0; first < a->rows; first += n) {
        n = vc_min_u64(a->t.options.training.batch, a->rows - first);
        VC_CALL(batch(a, first, (size_t)n, numbers));
        vc_rows_tell(&a->t.eval.student, "logits", first + n, a->rows);
    }
    return VC_OK;
}

/* ---- the file ---- */

/* Options that nothing has to be opened for. */
static enum vc_status check_options(struct vc_ctx *ctx, const struct vc_logits_options *o)
{
    const char *wrong = vc_trainer_wrong_option(o->batch, o->temperature, o->precision, o->loss, o->net_task);

    if (wrong == NULL && o->dtype != VC_DTYPE_F16 && o->dtype != VC_DTYPE_F32 && o->dtype != VC_DTYPE_F64) {
        wrong = "dtype";
    }
    VC_REFUSE_IF(wrong != NULL, ctx, VC_E_ARGUMENT, "%s is out of range", vc_option(ctx, wrong));
    VC_REFUSE_IF(o->write == NULL || o->write->path == NULL, ctx, VC_E_ARGUMENT, "there is no output to write to");
    return VC_OK;
}

/* Memory for all answers; the sentence of a failure names the option that needs less. */
static enum vc_status take_memory(struct answers *a)
{
    struct vc_ctx *ctx = a->t.ctx;
    size_t n, n_points;

    VC_REFUSE_IF(!vc_mul_size((size_t)a->rows, a->positions, &n_points) || !vc_mul_size(n_points, a->width, &n), ctx,
                 VC_E_NOMEM, "the logits of %llu rows are too many", (unsigned long long)a->rows);
    a->logits = vc_alloc_array(ctx, VC_TAG_TILES, n, vc_dtype_size(a->options.dtype));
    if (a->logits == NULL) {
        return vc_context(ctx, "the logits of %llu rows (%s keeps the largest)", (unsigned long long)a->rows,
                          vc_option(ctx, "topk"));
    }
    if (a->options.topk != 0) {
        VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, a->classes, n));
        VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, a->rest, n_points));
    }
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, a->largest, a->width));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, a->which, a->width));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, a->inputs, a->t.eval.student.n + 1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, a->tensors, a->t.eval.student.n + FIXED_ARRAYS));
    return VC_OK;
}

/* An array of the file. */
static void add_array(struct answers *a, const char *name, enum vc_dtype dtype, unsigned n_dims, const uint64_t *shape,
                      const void *data)
{
    a->tensors[a->n_tensors++] =
        (struct vc_memory_tensor){.name = name, .dtype = dtype, .n_dims = n_dims, .shape = shape, .data = data};
}

/* The arrays of the file; what they hold is computed later. */
static enum vc_status lay_out(struct answers *a)
{
    const struct vc_rows_view *view = &a->t.eval.student;
    unsigned n_dims = a->positions > 1 ? 2 : 1; /* without classes */

    a->shape[0] = a->rows;
    a->shape[1] = a->positions;
    a->shape[n_dims] = a->width;
    a->one = 1;
    a->digits = VC_SHA256_HEX_BYTES - 1;
    a->n_classes = (int64_t)a->t.student.net.n_classes;
    a->temperature = a->options.temperature;
    add_array(a, "logits", a->options.dtype, n_dims + 1, a->shape, a->logits);
    if (a->options.topk != 0) {
        add_array(a, "classes", VC_DTYPE_I32, n_dims + 1, a->shape, a->classes);
        add_array(a, "rest", VC_DTYPE_F64, n_dims, a->shape, a->rest);
        add_array(a, "temperature", VC_DTYPE_F64, 1, &a->one, &a->temperature);
    }
    add_array(a, "n_classes", VC_DTYPE_I64, 1, &a->one, &a->n_classes);
    a->values = 1;
    if (a->t.student.net.answers == VC_ANSWERS_VALUES) {
        add_array(a, VC_TEACHER_VALUES, VC_DTYPE_I64, 1, &a->one, &a->values);
    }
    if (a->t.student.net.n_heads != 0) {
        const char *outputs = vc_net_outputs_text(&a->t.student.net, &a->arena);

        VC_CALL_ALLOC(outputs);
        a->n_outputs = strlen(outputs);
        add_array(a, VC_TEACHER_OUTPUTS, VC_DTYPE_U8, 1, &a->n_outputs, outputs);
    }
    add_array(a, "teacher", VC_DTYPE_U8, 1, &a->digits, a->teacher);
    add_array(a, VC_DIGEST_NAME, VC_DTYPE_U8, 1, &a->digits, a->digest);
    for (size_t k = 0; k < view->n; k++) {
        const char *name = vc_arena_printf(a->t.ctx, &a->arena, VC_TEACHER_DATA "%s", view->inputs[k].name);

        VC_CALL_ALLOC(name);
        add_array(a, name, VC_DTYPE_U8, 1, &a->digits, a->inputs[k]);
    }
    return VC_OK;
}

/* Opens the network and the rows, and checks what the k largest can be used for. */
static enum vc_status prepare(struct answers *a)
{
    struct vc_trainer *t = &a->t;

    VC_CALL(vc_identity_check(t->ctx));
    VC_CALL(vc_trainer_open(t));
    a->rows = t->eval.rows.n;
    a->positions = t->student.net.positions;
    a->width = a->options.topk != 0 ? (size_t)a->options.topk : t->student.net.n_classes;
    VC_REFUSE_IF(a->options.topk != 0 &&
                     (t->student.net.answers == VC_ANSWERS_VALUES || t->student.net.task == VC_NET_TASK_LABELS),
                 t->ctx, VC_E_ARGUMENT, "%s: the answers are no logits of classes: all of them are compared",
                 vc_option(t->ctx, "topk"));
    VC_REFUSE_IF(a->options.topk >= t->student.net.n_classes, t->ctx, VC_E_ARGUMENT,
                 "%s %llu: there are %zu classes; without it all are written", vc_option(t->ctx, "topk"),
                 (unsigned long long)a->options.topk, t->student.net.n_classes);
    VC_CALL(take_memory(a));
    return lay_out(a);
}

/* Plan, answer, digests, write. Neither rows nor weights may have changed meanwhile. */
static enum vc_status work(struct answers *a)
{
    struct vc_ctx *ctx = a->t.ctx;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status;

    VC_TRY(prepare(a));
    VC_TRY(vc_memory_model_create(ctx, a->tensors, a->n_tensors, &model));
    VC_TRY(vc_job_create(ctx, model, &job));
    VC_TRY(vc_job_plan(ctx, job, a->options.write)); /* what can be refused about the output */
    VC_TRY(vc_trainer_prepare(&a->t));
    VC_TRY(vc_tally_begin(&a->t, &a->tally));
    VC_TRY(vc_identity_net(&a->t.student.net, a->teacher));
    for (size_t k = 0; k < a->t.eval.student.n; k++) {
        VC_TRY(vc_identity_input(&a->t.eval.student, k, a->inputs[k]));
    }
    status = answer_all(a);
    status = vc_model_unchanged(ctx, a->t.eval.rows.model, status);
    VC_TRY(vc_model_unchanged(ctx, a->options.network.weights, status));
    VC_TRY(vc_identity_content(ctx, model, a->digest));
    VC_TRY(vc_job_run(ctx, job));
out:
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

/* The figures are those of the answers as they are computed, not as they are stored. */
enum vc_status vc_logits(struct vc_ctx *ctx, const struct vc_logits_options *options, struct vc_quality *out)
{
    struct vc_distillation report = {.n_rows = 0};
    struct answers a = {.t = {.ctx = ctx, .report = &report, .judge_only = true, .unjudged = true}};
    enum vc_status status;

    vc_call_begin(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(logits), options, &a.options));
    VC_TRY(check_options(ctx, &a.options));
    vc_distill_defaults(&a.t.options);
    a.t.options.student = a.options.network;
    a.t.options.data = a.options.data;
    a.t.options.training.batch = a.options.batch;
    a.t.options.precision.kind = a.options.precision;
    a.t.options.loss.kind = a.options.loss;
    a.t.options.answers.net_task = (enum vc_net_task)a.options.net_task;
    a.t.parts = a.options.parts;
    VC_TRY(work(&a));
    VC_TRY(vc_tally_quality(&a.t, &a.tally, out));
out:
    vc_tally_end(&a.t, &a.tally);
    vc_trainer_close(&a.t);
    VC_FREE_ALL(ctx, a.logits, a.classes, a.rest, a.largest, a.which, a.inputs, a.tensors);
    vc_arena_release(ctx, &a.arena);
    return vc_call_end(ctx, status);
}
