/* teacher_file.c - see teacher_file.h.
 *
 * What is checked before answers are believed, from the cheapest to the dearest:
 *
 *     shapes     a row for each row of the data, positions and classes as the student has them
 *     content    the digest of the file itself: it is not damaged
 *     inputs     the digest of each input that the teacher has read: the same rows in the same order
 *     labels     it answers better than chance: else its rows are others than these
 */
#include "distill/data/teacher_file.h"

#include "distill/data/identity.h"
#include "distill/math/real.h"
#include "kernels/functions.h"

#define FEW_LABELS 50 /* of fewer rows chance may look like anything */

/* Whether a file is one of logits: three arrays that no other file has together. */
bool vc_logits_is(const struct vc_model *model)
{
    return vc_model_find(model, "logits") != VC_NO_TENSOR && vc_model_find(model, "n_classes") != VC_NO_TENSOR &&
           vc_model_find(model, "teacher") != VC_NO_TENSOR;
}

/* ---- opening ---- */

/* [rows, positions, columns], without the last two where they are 0.
 * [n, 0, 0] is a list, [n, 0, k] are rows of k, and [n, p, k] rows of p positions of k. */
struct shape {
    uint64_t rows, positions, columns;
};

/* The array has exactly that shape and type. */
static bool has_shape(const struct vc_tensor *t, enum vc_dtype dtype, struct shape shape)
{
    unsigned n = 1U + (shape.positions != 0) + (shape.columns != 0);

    return t->quant == NULL && t->dtype == dtype && t->n_dims == n && t->shape[0] == shape.rows &&
           (shape.positions == 0 || t->shape[1] == shape.positions) &&
           (shape.columns == 0 || t->shape[n - 1] == shape.columns);
}

/* The single element of an array, as a double. VC_E_FORMAT if the array has another number of elements. */
static enum vc_status read_one(struct vc_ctx *ctx, const struct vc_model *model, const char *name, enum vc_dtype dtype,
                               double *out)
{
    size_t tensor = vc_model_find(model, name);
    unsigned char element[8];

    *out = 0;
    VC_REFUSE_IF(tensor == VC_NO_TENSOR || !has_shape(&model->tensors[tensor], dtype, (struct shape){1, 0, 0}), ctx,
                 VC_E_FORMAT, "%s: is no file of logits: %s is not %s [1]", model->path, name, vc_dtype_name(dtype));
    VC_CALL(vc_model_read(ctx, model, tensor, 0, 1, element, sizeof element));
    *out = vc_number_at(dtype, element, 0);
    return VC_OK;
}

/* An array with a row for each row of logits. */
static enum vc_status open_array(struct vc_ctx *ctx, const struct vc_model *model, const char *name,
                                 enum vc_dtype dtype, struct shape shape, struct vc_row_array *array)
{
    size_t tensor = vc_model_find(model, name);

    VC_REFUSE_IF(tensor == VC_NO_TENSOR || !has_shape(&model->tensors[tensor], dtype, shape), ctx, VC_E_FORMAT,
                 "%s: is no file of logits: there is no %s with a row for each of logits", model->path, name);
    return vc_row_array_open(ctx, model, tensor, array);
}

/* The k largest: their classes, and what the others sum to at the temperature that they were written for. */
static enum vc_status open_largest(struct vc_ctx *ctx, struct vc_teacher_file *file, struct shape shape,
                                   double temperature)
{
    const struct vc_model *model = file->model;
    double made_for;

    VC_CALL(read_one(ctx, model, "temperature", VC_DTYPE_F64, &made_for));
    VC_REFUSE_IF(made_for != temperature, ctx, VC_E_ARGUMENT,
                 "%s: has the %zu largest logits of each row, and the sum of all at the temperature %g; %s is %g",
                 model->path, file->k, made_for, vc_option(ctx, "temperature"), temperature);
    shape.columns = file->k;
    VC_CALL(open_array(ctx, model, "classes", VC_DTYPE_I32, shape, &file->classes));
    shape.columns = 0;
    return open_array(ctx, model, "rest", VC_DTYPE_F64, shape, &file->rest);
}

/* The teacher's classes and the student's.
 * In the order of the sentences: other classes at all; fewer of the teacher where outputs are compared; the
 * sum over classes that the student does not have. */
static enum vc_status check_classes(struct vc_ctx *ctx, const struct vc_teacher_file *file,
                                    const struct vc_teacher_question *question)
{
    const char *path = file->model->path;
    size_t teacher = file->n_classes;
    size_t student = question->n_classes;

    if (teacher == student) {
        return VC_OK;
    }
    VC_REFUSE_IF(!question->common, ctx, VC_E_ARGUMENT,
                 "%s: has logits of %zu classes; the student has %zu; where the last ones pad one vocabulary, %s "
                 "common compares the others",
                 path, teacher, student, vc_option(ctx, "loss.classes"));
    VC_REFUSE_IF(teacher < student && question->outputs, ctx, VC_E_ARGUMENT,
                 "%s: has logits of %zu classes; the student has %zu: without the teacher's values of the others "
                 "outputs cannot be compared by %s mse or cosine",
                 path, teacher, student, vc_option(ctx, "loss.kind"));
    return teacher > student && file->k != 0
               ? vc_fail(ctx, VC_E_ARGUMENT,
                         "%s: has the %zu largest logits of each row, and the sum of all %zu classes; the student has "
                         "%zu, and what the others are in that sum is not known: a file of all logits says it",
                         path, file->k, teacher, student)
               : VC_OK;
}

/* Values that Softmax, or Sigmoid, makes are compared with no logits. A plain output is both. */
static enum vc_status check_kind(struct vc_ctx *ctx, const struct vc_model *model,
                                 const struct vc_teacher_question *question)
{
    return question->values || vc_model_find(model, VC_TEACHER_VALUES) == VC_NO_TENSOR
               ? VC_OK
               : vc_fail(ctx, VC_E_ARGUMENT,
                         "%s: has values of an output, and the student answers with logits: %s mse or cosine compares "
                         "values",
                         model->path, vc_option(ctx, "loss.kind"));
}

/* Answers of several outputs lie side by side: the same outputs, in the same order. */
static enum vc_status check_outputs(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_teacher_question *question)
{
    size_t tensor = vc_model_find(model, VC_TEACHER_OUTPUTS);
    uint64_t n = tensor != VC_NO_TENSOR ? model->tensors[tensor].n_elems : 0;
    char text[4096] = "";
    const char *has = n < sizeof text ? text : "other outputs";

    VC_REFUSE_IF(tensor != VC_NO_TENSOR &&
                     (n == 0 || !has_shape(&model->tensors[tensor], VC_DTYPE_U8, (struct shape){n, 0, 0})),
                 ctx, VC_E_FORMAT, "%s: is no file of logits: %s is no text", model->path, VC_TEACHER_OUTPUTS);
    if (n != 0 && n < sizeof text) {
        VC_CALL(vc_model_read(ctx, model, tensor, 0, (size_t)n, text, sizeof text - 1));
    }
    VC_REFUSE_IF(n != strlen(question->parts) || strcmp(text, question->parts) != 0, ctx, VC_E_ARGUMENT,
                 "%s: has answers of %s for each row, the student has %s: the same outputs, in the same order, have a "
                 "task in both (%s)",
                 model->path, n == 0 ? "one output" : has, question->parts[0] != '\0' ? question->parts : "one output",
                 vc_option(ctx, "net_task"));
    return VC_OK;
}

/* Opens one file and checks all of it but its inputs' digests.
 * k = 0 stands for all logits. */
static enum vc_status open_file(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_rows *rows,
                                const struct vc_teacher_question *question, struct vc_teacher_file *file)
{
    size_t tensor = vc_model_find(model, "logits");
    const struct vc_tensor *t = tensor != VC_NO_TENSOR ? &model->tensors[tensor] : NULL;
    struct shape shape = {rows->n, rows->positions > 1 ? rows->positions : 0, 0};
    uint64_t positions, width;
    double classes;

    file->model = model;
    VC_CALL(read_one(ctx, model, "n_classes", VC_DTYPE_I64, &classes));
    VC_REFUSE_IF(t == NULL || t->n_dims < 2 || t->n_dims > 3 || t->quant != NULL || t->dtype < VC_DTYPE_F16 ||
                     t->dtype > VC_DTYPE_F64 || t->shape[t->n_dims - 1] == 0 ||
                     (double)t->shape[t->n_dims - 1] > classes,
                 ctx, VC_E_FORMAT, "%s: is no file of logits: logits are no rows of floats", model->path);
    positions = t->n_dims == 3 ? t->shape[1] : 1;
    width = t->shape[t->n_dims - 1];
    file->n_classes = (size_t)classes;
    file->k = width < file->n_classes ? (size_t)width : 0;
    VC_CALL(check_outputs(ctx, model, question));
    VC_CALL(check_kind(ctx, model, question));
    VC_CALL(check_classes(ctx, file, question));
    VC_REFUSE_IF(t->shape[0] != rows->n, ctx, VC_E_ARGUMENT, "%s: has answers to %llu rows; %s has %llu%s", model->path,
                 (unsigned long long)t->shape[0], rows->model->path, (unsigned long long)rows->n,
                 rows->n < rows->n_all ? " that are taken" : "");
    VC_REFUSE_IF(positions != rows->positions, ctx, VC_E_ARGUMENT,
                 "%s: has answers to %llu positions of each row; the student answers for %zu", model->path,
                 (unsigned long long)positions, rows->positions);
    VC_CALL(vc_identity_content_check(ctx, model));
    if (file->k != 0) {
        VC_CALL(open_largest(ctx, file, shape, question->temperature));
    }
    return vc_row_array_open(ctx, model, tensor, &file->logits);
}

/* ---- alignment ---- */

/* The digest in the array of that name; "" where there is none. */
static enum vc_status read_digest(struct vc_ctx *ctx, const struct vc_model *model, const char *name,
                                  char hex[VC_SHA256_HEX_BYTES])
{
    size_t tensor = vc_model_find(model, name);

    memset(hex, 0, VC_SHA256_HEX_BYTES);
    return tensor == VC_NO_TENSOR ||
                   !has_shape(&model->tensors[tensor], VC_DTYPE_U8, (struct shape){VC_SHA256_HEX_BYTES - 1, 0, 0})
               ? VC_OK
               : vc_model_read(ctx, model, tensor, 0, VC_SHA256_HEX_BYTES - 1, hex, VC_SHA256_HEX_BYTES);
}

/* Every input of the student that the teacher has read, too, has the rows that it has read. */
static enum vc_status check_data(struct vc_ctx *ctx, const struct vc_teacher_file *file,
                                 const struct vc_rows_view *view, const char *const *digests)
{
    const struct vc_rows *rows = view->rows;
    char hex[VC_SHA256_HEX_BYTES], name[256];
    size_t n = 0;

    for (size_t k = 0; k < view->n; k++) {
        (void)snprintf(name, sizeof name, VC_TEACHER_DATA "%s", view->inputs[k].name);
        VC_CALL(read_digest(ctx, file->model, name, hex));
        n += hex[0] != '\0';
        VC_REFUSE_IF(hex[0] != '\0' && strcmp(hex, digests[k]) != 0, ctx, VC_E_ARGUMENT,
                     "%s: has answers to other rows than those of %s in %s, or to the same in another order, or "
                     "normalized in another way",
                     file->model->path,
                     view->inputs[k].tensor != VC_NO_TENSOR ? rows->model->tensors[view->inputs[k].tensor].name
                                                            : view->inputs[k].name,
                     rows->model->path);
    }
    VC_REFUSE_IF(n == 0, ctx, VC_E_ARGUMENT, "%s: does not say which rows it answers: there is no %s%s",
                 file->model->path, VC_TEACHER_DATA, view->n != 0 ? view->inputs[0].name : "");
    return VC_OK;
}

/* Digests of the inputs are made once for all files, as they read all rows. */
static enum vc_status check_digests(struct vc_teacher_files *files, const struct vc_rows_view *view)
{
    VC_SCOPED_ARENA struct vc_arena arena = {NULL, 0, 0};
    const char **digests = vc_arena_alloc(files->ctx, &arena, (view->n + 1) * sizeof *digests);
    char hex[VC_SHA256_HEX_BYTES];

    VC_CALL_ALLOC(digests);
    for (size_t k = 0; k < view->n; k++) {
        VC_CALL(vc_identity_input(view, k, hex));
        VC_CALL_ALLOC(digests[k] = vc_arena_copy(files->ctx, &arena, hex, sizeof hex - 1));
    }
    for (size_t i = 0; i < files->n; i++) {
        VC_CALL(check_data(files->ctx, &files->items[i], view, digests));
    }
    return VC_OK;
}

/* The class with the largest probability. */
static size_t answer_of(const struct vc_teacher_rows *rows, size_t row, size_t n_classes)
{
    const double *x = (const double *)rows->logits + row * (rows->classes != NULL ? rows->k : n_classes);
    size_t best = vc_answer_f64(x, rows->classes != NULL ? rows->k : n_classes);

    return rows->classes == NULL ? best : best < rows->k ? (size_t)rows->classes[row * rows->k + best] : n_classes;
}

/* How many labelled rows the teacher answers rightly. As many as chance would: its rows are others than these; not
 * where labels are tokens, whose digest was the same. */
static enum vc_status check_labels(struct vc_teacher_files *files, const struct vc_rows *rows, double temperature)
{
    struct vc_teacher_rows answers;
    double chance = 1 / (double)files->n_classes;
    uint64_t n = 0;
    uint64_t right = 0;

    files->accuracy = (double)NAN;
    for (uint64_t i = 0; rows->labels != NULL && i < rows->n; i++) {
        uint64_t counted, labelled;

        vc_rows_count(rows, &i, 1, &counted, &labelled);
        if (labelled == 0) {
            continue;
        }
        VC_CALL(vc_teacher_files_read(files, true, temperature, false, &i, 1, &answers));
        for (size_t p = 0; p < rows->positions; p++) {
            int64_t label = rows->labels[i * rows->positions + p];

            right += (rows->mask == NULL || rows->mask[i * rows->positions + p] != 0) && label != VC_NO_LABEL &&
                     answer_of(&answers, p, files->n_classes) == (size_t)label;
        }
        n += labelled;
    }
    files->accuracy = n != 0 ? (double)right / (double)n : (double)NAN;
    VC_REFUSE_IF(n >= FEW_LABELS && !rows->tokens &&
                     (double)right <= (double)n * chance + 2 * sqrt((double)n * chance * (1 - chance)),
                 files->ctx, VC_E_ARGUMENT,
                 "%s: answers %llu of the %llu rows with labels rightly, as chance would among %zu classes: its "
                 "answers, or the labels of %s, lie in another order than the rows",
                 files->items[0].model->path, (unsigned long long)right, (unsigned long long)n, files->n_classes,
                 rows->model->path);
    return VC_OK;
}

/* Memory is for the largest batch. Files with the k largest logits alone cannot be averaged. */
enum vc_status vc_teacher_files_open(struct vc_ctx *ctx, const struct vc_model *const *models, size_t n,
                                     const struct vc_rows_view *view, const struct vc_teacher_question *question,
                                     struct vc_teacher_files *files)
{
    size_t positions = view->rows->positions;
    size_t n_classes = question->n_classes;
    size_t n_elems, n_points;

    *files = (struct vc_teacher_files){.ctx = ctx, .n = n, .positions = positions, .n_classes = n_classes};
    VC_REFUSE_IF(!vc_mul_size((size_t)question->batch, positions, &n_points) ||
                     !vc_mul_size(n_points, n_classes, &n_elems),
                 ctx, VC_E_NOMEM, "%s: too many rows", vc_option(ctx, "batch"));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, files->items, n));
    for (size_t i = 0; i < n; i++) {
        VC_CALL(open_file(ctx, models[i], view->rows, question, &files->items[i]));
        VC_REFUSE_IF(n > 1 && files->items[i].k != 0, ctx, VC_E_ARGUMENT,
                     "%s: has the %zu largest logits of each row; the mean of several teachers needs all",
                     models[i]->path, files->items[i].k);
    }
    files->k = files->items[0].k;
    VC_CALL_ALLOC(files->logits = vc_alloc_array(ctx, VC_TAG_TILES, n_elems + 1, sizeof(double)));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, files->classes, n_points * files->k + 1));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, files->rest, n_points + 1));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, files->row, positions * n_classes));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_TILES, files->sum, positions * n_classes));
    VC_CALL(check_digests(files, view));
    return check_labels(files, view->rows, question->temperature);
}

/* Files without a digest fit every other. */
enum vc_status vc_teacher_files_agree(const struct vc_teacher_files *data, const struct vc_teacher_files *eval)
{
    struct vc_ctx *ctx = eval->ctx;
    char ours[VC_SHA256_HEX_BYTES], theirs[VC_SHA256_HEX_BYTES];

    if (data->n == 0 || eval->n == 0) {
        return VC_OK;
    }
    VC_REFUSE_IF(data->n != eval->n, ctx, VC_E_ARGUMENT,
                 "%s: %zu files of answers, where %s has %zu: the same teachers answer both",
                 vc_option(ctx, "eval.logits"), eval->n, vc_option(ctx, "teacher"), data->n);
    for (size_t i = 0; i < eval->n; i++) {
        bool found = false;

        VC_CALL(read_digest(ctx, eval->items[i].model, "teacher", ours));
        for (size_t k = 0; k < data->n && !found; k++) {
            VC_CALL(read_digest(ctx, data->items[k].model, "teacher", theirs));
            found = ours[0] == '\0' || theirs[0] == '\0' || strcmp(ours, theirs) == 0;
        }
        VC_REFUSE_IF(!found, ctx, VC_E_ARGUMENT, "%s: has answers of another network than %s, by its SHA-256",
                     eval->items[i].model->path, data->items[data->n == 1 ? 0 : i].model->path);
    }
    return VC_OK;
}

/* Accepts files that were not opened to the end. */
void vc_teacher_files_close(struct vc_teacher_files *files)
{
    for (size_t i = 0; files->items != NULL && i < files->n; i++) {
        vc_row_array_close(files->ctx, &files->items[i].logits);
        vc_row_array_close(files->ctx, &files->items[i].classes);
        vc_row_array_close(files->ctx, &files->items[i].rest);
    }
    if (files->ctx != NULL) {
        VC_FREE_ALL(files->ctx, files->items, files->logits, files->classes, files->rest, files->row, files->sum);
    }
}

/* ---- reading ---- */

/* Number i of an array of floats or doubles. */
static void put(bool f64, void *to, size_t i, double x)
{
    if (f64) {
        ((double *)to)[i] = x;
    } else {
        ((float *)to)[i] = (float)x;
    }
}

/* One row of one file, into files->row: of all logits those of the student's classes, of the k largest these. */
static enum vc_status read_logits(struct vc_teacher_files *files, const struct vc_teacher_file *file, uint64_t number)
{
    enum vc_dtype dtype = file->model->tensors[file->logits.tensor].dtype;
    size_t theirs = file->k != 0 ? file->k : file->n_classes;
    size_t ours = file->k != 0 ? file->k : files->n_classes;
    const void *raw;

    VC_CALL(vc_row_array_read(files->ctx, &file->logits, number, &raw));
    for (size_t i = 0; i < files->positions * ours; i++) {
        size_t c = i % ours;

        files->row[i] = c < theirs ? vc_number_at(dtype, raw, i / ours * theirs + c) : VC_NEVER_LOGIT;
        VC_REFUSE_IF(!isfinite(files->row[i]), files->ctx, VC_E_FORMAT,
                     "%s: row %llu of logits has a NaN or infinite value", file->model->path,
                     (unsigned long long)number);
    }
    return VC_OK;
}

/* Classes and rest of one row, which is row `at` of the batch. */
static enum vc_status read_largest(struct vc_teacher_files *files, uint64_t number, size_t at)
{
    const struct vc_teacher_file *file = &files->items[0];
    size_t n = files->positions * files->k;
    const void *raw;

    VC_CALL(vc_row_array_read(files->ctx, &file->classes, number, &raw));
    memcpy(files->classes + at * n, raw, n * sizeof *files->classes);
    for (size_t i = 0; i < n; i++) {
        int32_t c = files->classes[at * n + i];

        VC_REFUSE_IF(c < 0 || (size_t)c >= file->n_classes, files->ctx, VC_E_FORMAT,
                     "%s: row %llu of classes has %ld; there are %zu", file->model->path, (unsigned long long)number,
                     (long)c, file->n_classes);
    }
    VC_CALL(vc_row_array_read(files->ctx, &file->rest, number, &raw));
    memcpy(&files->rest[at * files->positions], raw, files->positions * sizeof *files->rest);
    VC_REFUSE_IF(vc_first_nonfinite(true, &files->rest[at * files->positions], files->positions) != files->positions,
                 files->ctx, VC_E_FORMAT, "%s: row %llu of rest is NaN or infinite", file->model->path,
                 (unsigned long long)number);
    return VC_OK;
}

/* log of the sum of exp(x / t) */
static double log_sum(const double *x, size_t n, double t)
{
    double max = -INFINITY;
    double sum = 0;

    for (size_t c = 0; c < n; c++) {
        max = x[c] / t > max ? x[c] / t : max;
    }
    for (size_t c = 0; c < n; c++) {
        sum += vc_exp_f64(x[c] / t - max);
    }
    return max + vc_log_f64(sum);
}

/* log of exp(a) + exp(b) */
static double log_add(double a, double b)
{
    double most = a > b ? a : b;

    return isinf(most) ? most : most + vc_log_f64(vc_exp_f64(a - most) + vc_exp_f64(b - most));
}

/* Logits whose softmax at the temperature is the mean of the files' probabilities; or the mean of their logits. */
static enum vc_status read_mean(struct vc_teacher_files *files, double t, bool of_logits, uint64_t number)
{
    size_t n = files->positions * files->n_classes;

    for (size_t c = 0; c < n; c++) {
        files->sum[c] = of_logits ? 0 : -INFINITY;
    }
    for (size_t i = 0; i < files->n; i++) {
        VC_CALL(read_logits(files, &files->items[i], number));
        for (size_t p = 0; p < n; p += files->n_classes) {
            double all = log_sum(files->row + p, files->n_classes, t);

            for (size_t c = p; c < p + files->n_classes; c++) {
                files->sum[c] =
                    of_logits ? files->sum[c] + files->row[c] : log_add(files->sum[c], files->row[c] / t - all);
            }
        }
    }
    for (size_t c = 0; c < n; c++) {
        files->row[c] =
            of_logits ? files->sum[c] / (double)files->n : t * (files->sum[c] - vc_log_f64((double)files->n));
    }
    return VC_OK;
}

/* Answers of one file, or the mean of several, for n rows. */
enum vc_status vc_teacher_files_read(struct vc_teacher_files *files, bool f64, double temperature, bool of_logits,
                                     const uint64_t *numbers, size_t n, struct vc_teacher_rows *out)
{
    size_t width = files->positions * (files->k != 0 ? files->k : files->n_classes);

    for (size_t r = 0; r < n; r++) {
        if (files->n == 1) {
            VC_CALL(read_logits(files, &files->items[0], numbers[r]));
        } else {
            VC_CALL(read_mean(files, temperature, of_logits, numbers[r]));
        }
        if (files->k != 0) {
            VC_CALL(read_largest(files, numbers[r], r));
        }
        for (size_t c = 0; c < width; c++) {
            put(f64, files->logits, r * width + c, files->row[c]);
        }
    }
    *out = (struct vc_teacher_rows){.logits = files->logits,
                                    .classes = files->k != 0 ? files->classes : NULL,
                                    .rest = files->k != 0 ? files->rest : NULL,
                                    .k = files->k};
    return VC_OK;
}

/* Rows that come next, in all files. */
void vc_teacher_files_ahead(const struct vc_teacher_files *files, const uint64_t *numbers, size_t n)
{
    for (size_t r = 0; r < files->n * n; r++) {
        const struct vc_teacher_file *file = &files->items[r / n];

        vc_row_array_ahead(&file->logits, numbers[r % n]);
        vc_row_array_ahead(&file->classes, numbers[r % n]);
        vc_row_array_ahead(&file->rest, numbers[r % n]);
    }
}
