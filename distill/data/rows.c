/* rows.c - see rows.h.
 *
 * Which arrays of a file are what, where it has those names; `arrays` of the options gives them others:
 *
 *     x, input_ids, ...   inputs: by name, or the only array left for the only input that is needed
 *     y                   labels (integers) or targets (floats); or the single array of a file of labels
 *     start_positions,    where there is no y: the two labels of a row, first and last position of a span
 *     end_positions
 *     mask                rows, or positions of rows, that count
 *
 * A part of the rows is a list of their numbers in the file; everything beside the inputs is moved together
 * when it is read. */
#include "distill/data/rows.h"

#include "core/base/option_struct.h"
#include "distill/math/step_math.h"
#include "passes/random.h"

#include <float.h>

#define PART_STREAM ((uint64_t)1 << 33) /* of random numbers, apart from the streams of epochs */

/* ---- which array ---- */

/* A file that cannot be read, and whose name is one that tokens have: says what it would take. */
static enum vc_status hint_tokens(const struct vc_rows *rows)
{
    const char *point = strrchr(rows->options.path, '.');
    char before[VC_MESSAGE_BYTES];

    if (point == NULL || strcmp(point, ".bin") != 0) {
        return rows->ctx->status;
    }
    (void)snprintf(before, sizeof before, "%s", rows->ctx->message);
    return vc_fail(rows->ctx, rows->ctx->status,
                   "%s; where it is nothing but tokens, %s says how many tokens are a row", before,
                   vc_option(rows->ctx, "length"));
}

/* The tensor of the data file for that name; VC_NO_TENSOR if there is none. */
static enum vc_status find_array(const struct vc_rows *rows, const char *name, size_t *out)
{
    return vc_array_find(rows->ctx, rows->model, vc_rows_names(rows), name, out);
}

/* ---- labels, mask, means ---- */

/* All integers of a tensor: one for each row, or *width of them. */
static enum vc_status read_numbers(const struct vc_rows *rows, const struct vc_model *model, size_t tensor,
                                   int64_t **out, size_t *width)
{
    const struct vc_tensor *t = &model->tensors[tensor];
    struct vc_place place = vc_place_whole();
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_REFUSE_IF(!vc_is_integer(t->dtype) || t->n_dims == 0, rows->ctx, VC_E_ARGUMENT,
                 "%s: %s has %llu elements of type %s; one integer for each row is "
                 "needed",
                 model->path, t->name, (unsigned long long)t->n_elems, vc_dtype_name(t->dtype));
    *width = (size_t)(t->n_elems / t->shape[0]);
    VC_TRY(VC_ARRAY(rows->ctx, VC_TAG_TILES, *out, (size_t)t->n_elems + 1));
    VC_TRY(vc_place_integers(rows->ctx, model, tensor, &place, *out));
    for (size_t i = 0; t->dtype == VC_DTYPE_U64 && status == VC_OK && i < t->n_elems; i++) {
        if ((*out)[i] < 0) { /* 2^63 and more: as i64 it would be ignored like -1 */
            status = vc_fail(rows->ctx, VC_E_FORMAT, "row %zu of %s has %llu; labels are below 2^63", i / *width,
                             t->name, (unsigned long long)(*out)[i]);
        }
    }
out:
    return status == VC_OK || *out == NULL ? status : vc_context(rows->ctx, "%s", model->path);
}

/* Labels and mask must have as many rows as the inputs. */
static enum vc_status expect_rows(const struct vc_rows *rows, const struct vc_model *model, size_t tensor)
{
    const struct vc_tensor *t = &model->tensors[tensor];

    VC_REFUSE_IF(t->dtype == VC_DTYPE_RAW, rows->ctx, VC_E_ARGUMENT,
                 "%s: %s has no numbers, but objects or raw bytes; integers are needed", model->path, t->name);
    VC_REFUSE_IF(t->n_dims == 0, rows->ctx, VC_E_ARGUMENT, "%s: %s is one number, without rows; the input has %llu",
                 model->path, t->name, (unsigned long long)rows->n_all);
    return t->shape[0] == rows->n_all
               ? VC_OK
               : vc_fail(rows->ctx, VC_E_ARGUMENT, "%s: %s has %llu rows, the input has %llu", model->path, t->name,
                         (unsigned long long)t->shape[0], (unsigned long long)rows->n_all);
}

/* The array is what the caller names for something else: --array OUTPUT=y. */
static bool is_given(const struct vc_rows *rows, const char *array)
{
    for (size_t k = 0; k < rows->options.n_arrays; k++) {
        if (strcmp(strchr(rows->options.arrays[k], '=') + 1, array) == 0) {
            return true;
        }
    }
    return false;
}

/* The array y of the file, or the single one of the file for labels. */
static enum vc_status find_labels(struct vc_rows *rows, const struct vc_model **model, size_t *tensor)
{
    *model = rows->model;
    if (rows->options.labels == NULL && vc_array_named(vc_rows_names(rows), "y") == NULL && is_given(rows, "y")) {
        *tensor = VC_NO_TENSOR;
        return VC_OK;
    }
    if (rows->options.labels == NULL) {
        return find_array(rows, "y", tensor);
    }
    VC_CALL(vc_model_open(rows->ctx, rows->options.labels, NULL, &rows->labels_model));
    *model = rows->labels_model;
    *tensor = 0;
    return (*model)->n_tensors == 1 ? VC_OK
                                    : vc_fail(rows->ctx, VC_E_ARGUMENT, "%s: has %zu arrays; labels are a single one",
                                              (*model)->path, (*model)->n_tensors);
}

/* All floats of y, *width for each row. */
static enum vc_status read_targets(struct vc_rows *rows, const struct vc_model *model, size_t tensor)
{
    const struct vc_tensor *t = &model->tensors[tensor];
    struct vc_place place = vc_place_whole();
    enum vc_status status = VC_OK;

    rows->target_width = (size_t)(t->n_elems / t->shape[0]);
    VC_CALL(VC_ARRAY(rows->ctx, VC_TAG_TILES, rows->targets, (size_t)t->n_elems + 1));
    status = vc_place_values(rows->ctx, model, tensor, &place, true, rows->targets);
    if (status != VC_OK) {
        return vc_context(rows->ctx, "%s", model->path);
    }
    for (uint64_t i = 0; rows->part != NULL && i < rows->n; i++) {
        memmove(&rows->targets[i * rows->target_width], &rows->targets[rows->part[i] * rows->target_width],
                rows->target_width * sizeof *rows->targets);
    }
    for (uint64_t i = 0; i < rows->n * rows->target_width; i++) {
        /* answers are f32: what is larger can be learned by none, and its square is infinite in sums of errors */
        VC_REFUSE_IF(!(fabs(rows->targets[i]) <= (double)FLT_MAX), rows->ctx, VC_E_FORMAT,
                     "%s: row %llu of %s has a NaN or infinite value, or one beyond f32", model->path,
                     (unsigned long long)vc_rows_in_file(rows, i / rows->target_width), t->name);
    }
    return VC_OK;
}

/* Labels below 0 are none. */
static void count_labels(struct vc_rows *rows)
{
    bool some = false;

    rows->has_labels = true;
    for (uint64_t i = 0; i < rows->n * rows->label_width; i++) {
        rows->labels[i] =
            rows->labels[i] < 0 || rows->labels[i] == rows->options.ignored_label ? VC_NO_LABEL : rows->labels[i];
        rows->max_label = rows->labels[i] > rows->max_label ? rows->labels[i] : rows->max_label;
        some = some || rows->labels[i] != VC_NO_LABEL;
    }
    if (!some) {
        vc_free(rows->ctx, vc_give(&rows->labels));
    }
}

/* Two arrays of an integer for each row, as transformers names them, are the labels of spans. */
static enum vc_status read_ends(struct vc_rows *rows)
{
    static const char *const names[] = {"start_positions", "end_positions"};
    VC_SCOPED int64_t *ends = NULL;
    size_t tensors[2];

    for (size_t e = 0; e < 2; e++) {
        tensors[e] = vc_model_find(rows->model, names[e]);
        if (tensors[e] == VC_NO_TENSOR) {
            return VC_OK;
        }
    }
    VC_CALL(VC_ARRAY(rows->ctx, VC_TAG_TILES, rows->labels, (size_t)rows->n * 2 + 1));
    for (size_t e = 0; e < 2; e++) {
        VC_CALL(expect_rows(rows, rows->model, tensors[e]));
        VC_CALL(read_numbers(rows, rows->model, tensors[e], &ends, &rows->label_width));
        VC_REFUSE_IF(rows->label_width != 1, rows->ctx, VC_E_ARGUMENT, "%s: %s has %zu integers for each row, not one",
                     rows->model->path, names[e], rows->label_width);
        for (uint64_t i = 0; i < rows->n; i++) {
            rows->labels[2 * i + e] = ends[vc_rows_in_file(rows, i)];
        }
        vc_free(rows->ctx, vc_give(&ends));
    }
    rows->label_width = 2;
    count_labels(rows);
    return VC_OK;
}

/* Floats become targets, integers labels. Both are cut to the part that is taken. */
static enum vc_status read_y(struct vc_rows *rows, const struct vc_model *model, size_t tensor)
{
    const struct vc_tensor *t = &model->tensors[tensor];
    bool floats = t->dtype >= VC_DTYPE_F16 && t->dtype <= VC_DTYPE_F64 && t->quant == NULL && t->n_elems != 0;

    VC_REFUSE_IF(
        !floats && !vc_is_integer(t->dtype), rows->ctx, VC_E_ARGUMENT,
        "%s: %s has %s%s, which no task takes: classes, tokens, maps and spans take integers, labels, regression "
        "and embeddings integers or floats",
        model->path, t->name, t->dtype == VC_DTYPE_RAW ? "text, objects or raw bytes" : "numbers of type ",
        t->dtype == VC_DTYPE_RAW ? "" : vc_dtype_name(t->dtype));
    VC_CALL(expect_rows(rows, model, tensor));
    rows->y_model = model;
    rows->y_tensor = tensor;
    if (floats) {
        return read_targets(rows, model, tensor);
    }
    VC_CALL(read_numbers(rows, model, tensor, &rows->labels, &rows->label_width));
    for (uint64_t i = 0; rows->part != NULL && i < rows->n; i++) {
        memmove(&rows->labels[i * rows->label_width], &rows->labels[rows->part[i] * rows->label_width],
                rows->label_width * sizeof *rows->labels);
    }
    count_labels(rows);
    return VC_OK;
}

/* y, or the ends of spans. */
static enum vc_status read_labels(struct vc_rows *rows)
{
    const struct vc_model *model;
    size_t tensor;

    VC_CALL(find_labels(rows, &model, &tensor));
    if (tensor == VC_NO_TENSOR) {
        return read_ends(rows);
    }
    return read_y(rows, model, tensor);
}

/* Integers of y become floats, since the task is about values: those below 0, too, which are no labels. */
enum vc_status vc_rows_take_values(struct vc_rows *rows)
{
    VC_SCOPED int64_t *numbers = NULL;

    if (rows->labels == NULL || rows->targets != NULL || rows->y_model == NULL) {
        return VC_OK;
    }
    VC_CALL(read_numbers(rows, rows->y_model, rows->y_tensor, &numbers, &rows->target_width));
    VC_CALL(VC_ARRAY(rows->ctx, VC_TAG_TILES, rows->targets, (size_t)rows->n * rows->target_width + 1));
    for (uint64_t i = 0; i < rows->n * rows->target_width; i++) {
        uint64_t row = vc_rows_in_file(rows, i / rows->target_width);

        rows->targets[i] = (double)numbers[row * rows->target_width + i % rows->target_width];
    }
    vc_free(rows->ctx, vc_give(&rows->labels));
    rows->max_label = -1;
    return VC_OK;
}

/* Floats of y become integers if all are whole numbers from 0 to `most`; else nothing changes. */
enum vc_status vc_rows_take_labels(struct vc_rows *rows, int64_t most, bool *taken)
{
    size_t n = (size_t)rows->n * rows->target_width;

    *taken = false;
    for (size_t i = 0; i < n; i++) {
        if (!(rows->targets[i] >= 0 && rows->targets[i] <= (double)most) ||
            rows->targets[i] != floor(rows->targets[i])) {
            return VC_OK;
        }
    }
    VC_CALL(VC_ARRAY(rows->ctx, VC_TAG_TILES, rows->labels, n + 1));
    for (size_t i = 0; i < n; i++) {
        rows->labels[i] = (int64_t)rows->targets[i];
    }
    rows->label_width = rows->target_width;
    vc_free(rows->ctx, vc_give(&rows->targets));
    count_labels(rows);
    *taken = true;
    return VC_OK;
}

/* What was left out may have been all. */
void vc_rows_leave_beyond(struct vc_rows *rows, int64_t most)
{
    for (uint64_t i = 0; rows->labels != NULL && i < rows->n * rows->label_width; i++) {
        rows->labels[i] = rows->labels[i] > most ? VC_NO_LABEL : rows->labels[i];
    }
    if (rows->labels != NULL) {
        rows->max_label = -1;
        count_labels(rows);
    }
}

/* A mask of zeros alone is refused: nothing would be learned. */
static enum vc_status read_mask(struct vc_rows *rows)
{
    VC_SCOPED int64_t *numbers = NULL;
    bool some = false;
    size_t tensor;

    VC_CALL(find_array(rows, "mask", &tensor));
    if (tensor == VC_NO_TENSOR) {
        return VC_OK;
    }
    VC_CALL(expect_rows(rows, rows->model, tensor));
    VC_CALL(read_numbers(rows, rows->model, tensor, &numbers, &rows->mask_width));
    VC_CALL_ALLOC(rows->mask = vc_alloc(rows->ctx, VC_TAG_TILES, (size_t)rows->n * rows->mask_width + 1));
    for (uint64_t i = 0; i < rows->n * rows->mask_width; i++) {
        uint64_t at = vc_rows_in_file(rows, i / rows->mask_width) * rows->mask_width + i % rows->mask_width;

        rows->mask[i] = numbers[at] != 0;
        some = some || numbers[at] != 0;
    }
    VC_REFUSE_IF(!some, rows->ctx, VC_E_ARGUMENT, "%s: the mask leaves no row", rows->model->path);
    return VC_OK;
}

/* ---- several outputs ---- */

/* y of one output, from the array of its name; without one a teacher is what it learns from. */
static enum vc_status open_output(struct vc_rows *rows, const struct vc_output_task *task)
{
    struct vc_rows_output *output = &rows->outputs[rows->n_outputs];
    size_t tensor;

    output->task = *task;
    VC_CALL(VC_ZEROS(rows->ctx, VC_TAG_MISC, output->rows, 1));
    rows->n_outputs++;
    *output->rows = *rows;
    output->rows->n_outputs = 0;
    VC_CALL(find_array(rows, task->output, &tensor));
    return tensor != VC_NO_TENSOR ? read_y(output->rows, rows->model, tensor) : VC_OK;
}

/* Those that the caller names; else, where there is no y, those that have an array. */
static enum vc_status open_outputs(struct vc_rows *rows, const struct vc_graph *graph)
{
    bool has_y = rows->labels != NULL || rows->targets != NULL;

    VC_REFUSE_IF(rows->options.n_outputs > VC_MOST_OUTPUTS, rows->ctx, VC_E_ARGUMENT, "%s: more than %d outputs",
                 vc_option(rows->ctx, "net_task"), VC_MOST_OUTPUTS);
    VC_REFUSE_IF(rows->options.n_outputs != 0 && has_y, rows->ctx, VC_E_ARGUMENT,
                 "%s: y belongs to a network with one output; of several each has the array of its name, which %s can "
                 "say (OUTPUT=y)",
                 rows->model->path, vc_option(rows->ctx, "arrays"));
    for (size_t k = 0; k < rows->options.n_outputs; k++) {
        const struct vc_output_task *task = &rows->options.outputs[k];

        VC_REFUSE_IF(task->output == NULL || !(task->weight > 0) || !(task->weight_end >= 0) ||
                         !isfinite(task->weight + task->weight_end),
                     rows->ctx, VC_E_ARGUMENT, "%s: an output needs a name, and a weight above 0",
                     vc_option(rows->ctx, "net_task"));
        VC_CALL(open_output(rows, task));
    }
    for (uint32_t k = 0; !has_y && rows->options.n_outputs == 0 && k < vc_graph_output_count(graph); k++) {
        const struct vc_graph_value *value = vc_graph_value(graph, vc_graph_output(graph, k));
        const struct vc_output_task task = {.output = value->name, .weight = 1};
        size_t tensor;

        VC_CALL(find_array(rows, value->name, &tensor));
        if (tensor != VC_NO_TENSOR && value->dtype == VC_DTYPE_F32) {
            VC_REFUSE_IF(rows->n_outputs == VC_MOST_OUTPUTS, rows->ctx, VC_E_ARGUMENT,
                         "%s: has arrays for more than %d outputs of the graph; %s says which of them are meant",
                         rows->model->path, VC_MOST_OUTPUTS, vc_option(rows->ctx, "net_task"));
            VC_CALL(open_output(rows, &task));
        }
    }
    return VC_OK;
}

/* y and mask, which no other rows share but a mask of the file. */
static void release_y(struct vc_rows *rows, const uint8_t *shared)
{
    VC_FREE_ALL(rows->ctx, rows->labels, rows->targets);
    if (rows->mask != shared) {
        vc_free(rows->ctx, rows->mask);
    }
}

/* ---- opening ---- */

/* Ascending. */
static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Keeps the rows of options.part_from to part_to, in per cent: a part of a random order, sorted again. With
 * one seed the part from 0 to 90 and the part from 90 to 100 have no row in common. */
static enum vc_status take_part(struct vc_rows *rows)
{
    const struct vc_data_options *o = &rows->options;

    if (o->part_to == 0) {
        return o->part_from == 0 && o->part_seed == 0
                   ? VC_OK
                   : vc_fail(rows->ctx, VC_E_ARGUMENT, "%s changes nothing without %s",
                             vc_option(rows->ctx, "part_seed"), vc_option(rows->ctx, "part_to"));
    }
    VC_REFUSE_IF(o->part_from >= o->part_to || o->part_to > 100, rows->ctx, VC_E_ARGUMENT,
                 "%s: there is no part from %llu %% to %llu %%", vc_option(rows->ctx, "part_to"),
                 (unsigned long long)o->part_from, (unsigned long long)o->part_to);
    uint64_t first = rows->n * o->part_from / 100;
    uint64_t end = rows->n * o->part_to / 100;
    VC_REFUSE_IF(first == end, rows->ctx, VC_E_ARGUMENT, "%s: of %llu rows the part from %llu %% to %llu %% has none",
                 rows->model->path, (unsigned long long)rows->n, (unsigned long long)o->part_from,
                 (unsigned long long)o->part_to);
    VC_CALL(VC_ARRAY(rows->ctx, VC_TAG_MISC, rows->part, (size_t)rows->n));
    vc_random_order(o->part_seed, PART_STREAM, rows->part, (size_t)rows->n);
    rows->n = end - first;
    memmove(rows->part, rows->part + first, (size_t)rows->n * sizeof *rows->part);
    qsort(rows->part, (size_t)rows->n, sizeof *rows->part, by_number);
    return VC_OK;
}

/* The number of rows: that of the array of the graph's first input. */
static enum vc_status count_rows(struct vc_rows *rows, const struct vc_graph *graph)
{
    size_t tensor;

    VC_REFUSE_IF(vc_graph_input_count(graph) == 0, rows->ctx, VC_E_ARGUMENT,
                 "the graph has no inputs, so it computes the same for every row");
    const struct vc_graph_value *first = vc_graph_value(graph, vc_graph_input(graph, 0));
    VC_CALL(vc_array_of_input(rows->ctx, rows->model, vc_rows_names(rows), graph, first, &tensor));
    VC_REFUSE_IF(tensor == VC_NO_TENSOR, rows->ctx, VC_E_ARGUMENT,
                 "%s: there is no array for the input %s of the graph, which says how many rows there are",
                 rows->model->path, first->name);
    const struct vc_tensor *t = &rows->model->tensors[tensor];
    VC_REFUSE_IF(t->dtype == VC_DTYPE_RAW, rows->ctx, VC_E_ARGUMENT, "%s: %s has no numbers, but objects or raw bytes",
                 rows->model->path, t->name);
    VC_REFUSE_IF(t->n_dims == 0 || t->shape[0] == 0 || t->shape[0] > SIZE_MAX / 64, rows->ctx, VC_E_ARGUMENT,
                 "%s: %s has no rows", rows->model->path, t->name);
    rows->n_all = t->shape[0];
    rows->n = rows->options.n_rows != 0 ? vc_min_u64(rows->n_all, rows->options.n_rows) : rows->n_all;
    return VC_OK;
}

/* The tokenizer of a text: what was said, or what lies beside the first weights, or beside the second. */
static void find_tokenizer(const struct vc_rows *rows, const struct vc_model *const *weights, size_t n,
                           struct vc_open_options *file)
{
    file->tokenizer = rows->options.tokenizer;
    for (size_t i = 0; rows->options.tokenizer == NULL && i < n; i++) {
        const char *path = weights[i] != NULL ? weights[i]->path : NULL;

        file->tokenizer_else = file->tokenizer != NULL && path != NULL ? path : file->tokenizer_else;
        file->tokenizer = file->tokenizer != NULL ? file->tokenizer : path;
    }
}

/* Opens the file, counts its rows, and reads all that is not an input. Inputs are opened with their
 * networks. */
enum vc_status vc_rows_open(struct vc_ctx *ctx, const struct vc_data_options *options,
                            const struct vc_graph *const *graphs, const struct vc_model *const *weights,
                            size_t n_graphs, struct vc_rows *rows)
{
    struct vc_open_options file;

    *rows = (struct vc_rows){.ctx = ctx, .max_label = -1, .positions = 1};
    VC_CALL(vc_options_read(ctx, VC_OPTIONS(data), options, &rows->options));
    VC_REFUSE_IF(rows->options.path == NULL, ctx, VC_E_ARGUMENT, "there are no data");
    VC_REFUSE_IF(rows->options.token_bits != 0 && rows->options.length == 0, ctx, VC_E_ARGUMENT,
                 "%s needs %s: how many tokens are a row", vc_option(ctx, "token_bits"), vc_option(ctx, "length"));
    VC_CALL(vc_array_names_check(ctx, vc_rows_names(rows), graphs, n_graphs));
    vc_open_defaults(&file);
    file.row_tokens = rows->options.length;
    file.token_bits = rows->options.token_bits;
    find_tokenizer(rows, weights, n_graphs, &file);
    file.most_rows = rows->options.n_rows;
    enum vc_status status = vc_model_open(ctx, rows->options.path, &file, &rows->model);
    if ((status == VC_E_FORMAT || status == VC_E_UNSUPPORTED) && file.row_tokens == 0) {
        VC_CALL(hint_tokens(rows));
    } else {
        VC_CALL(status);
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, rows->arrays, rows->model->n_tensors + 1));
    VC_CALL(count_rows(rows, graphs[0]));
    VC_CALL(take_part(rows));
    VC_CALL(vc_normalize_read(ctx, &rows->arena, rows->options.scale, rows->options.mean, rows->options.deviation,
                              &rows->normalize));
    VC_CALL(vc_normalize_check_used(ctx, &rows->normalize, graphs, n_graphs));
    VC_CALL(read_labels(rows));
    VC_CALL(read_mask(rows));
    return open_outputs(rows, graphs[0]);
}

/* Accepts rows that were opened in part. */
void vc_rows_close(struct vc_rows *rows)
{
    for (size_t i = 0; rows->arrays != NULL && i < rows->model->n_tensors; i++) {
        vc_row_array_close(rows->ctx, &rows->arrays[i]);
    }
    VC_FREE_ALL(rows->ctx, rows->arrays, rows->part);
    for (size_t k = 0; k < rows->n_outputs; k++) {
        release_y(rows->outputs[k].rows, rows->mask);
        vc_free(rows->ctx, rows->outputs[k].rows);
    }
    release_y(rows, NULL);
    vc_model_close(rows->labels_model);
    vc_model_close(rows->model);
    vc_arena_release(rows->ctx, &rows->arena);
}

/* How many positions of these rows count, and how many of those have a label or targets. */
void vc_rows_count(const struct vc_rows *rows, const uint64_t *numbers, size_t n, uint64_t *counted, uint64_t *labelled)
{
    *counted = 0;
    *labelled = 0;
    for (size_t i = 0; i < n * rows->positions; i++) {
        uint64_t at = numbers[i / rows->positions] * rows->positions + i % rows->positions;
        bool counts = rows->mask == NULL || rows->mask[at] != 0;

        *counted += counts;
        *labelled += counts && (rows->targets != NULL || (rows->labels != NULL && rows->labels[at] != VC_NO_LABEL));
    }
}

/* Labels of a row are start and end. */
void vc_rows_count_ends(const struct vc_rows *rows, const uint64_t *numbers, size_t n, uint64_t ends[2])
{
    ends[0] = ends[1] = 0;
    for (size_t i = 0; rows->labels != NULL && i < 2 * n; i++) {
        uint64_t at = (numbers != NULL ? numbers[i / 2] : i / 2) * 2 + i % 2;

        ends[i % 2] += (rows->mask == NULL || rows->mask[at] != 0) && rows->labels[at] != VC_NO_LABEL;
    }
}
