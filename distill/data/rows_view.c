/* rows_view.c - the inputs of a graph from rows of a file: which array each is, whether its shape fits, and
 * its elements. See rows.h.
 *
 *     array x [60000, 28, 28], u8          input x [batch, 1, 28, 28]         fits: dimensions of 1 do not count
 *     array input_ids [5000, 128], i64     input [batch, sequence]            sequence becomes 128
 *     no array attention_mask              optional input                     its elements are all 1
 *
 * Integers of the file become numbers of an input of floats, scaled and normalized by channel; floats never
 * become integers. */

#include "distill/data/rows.h"

/* ---- shapes ---- */

/* The symbol that the dimension is; NULL: it is a number, or more than a symbol. */
static const char *symbol_of(const struct vc_graph *graph, struct vc_dim dim)
{
    char text[128];
    const char *symbol;

    if (dim.size >= 0) {
        return NULL;
    }
    vc_graph_dim_text(graph, dim, text, sizeof text);
    for (uint32_t k = 0; (symbol = vc_graph_symbol(graph, k, NULL)) != NULL; k++) {
        if (strcmp(symbol, text) == 0) {
            return symbol;
        }
    }
    return NULL;
}

/* Whether an input has a symbol, or 1, as its first size. */
static bool is_first(const struct vc_graph *graph, bool symbols)
{
    for (uint32_t k = 0; k < vc_graph_input_count(graph); k++) {
        const struct vc_graph_value *input = vc_graph_value(graph, vc_graph_input(graph, k));

        if (input->n_dims != 0 && (symbols ? symbol_of(graph, input->shape[0]) != NULL : input->shape[0].size == 1)) {
            return true;
        }
    }
    return false;
}

/* The dimension of an input that is the rows: the first one, but for a state [2, n, 128] beside an input [n, 576]: a
 * number of layers, then the only symbol, or the only 1, as the first size of another input is one. */
static unsigned row_axis(const struct vc_graph *graph, const struct vc_graph_value *input)
{
    bool symbols = is_first(graph, true);
    unsigned axis = 0;
    unsigned n = 0;

    for (unsigned d = 0; d < input->n_dims; d++) {
        bool here = symbols ? symbol_of(graph, input->shape[d]) != NULL : input->shape[d].size == 1;

        axis = here && n == 0 ? d : axis;
        n += here;
    }
    return n == 1 && (symbols || is_first(graph, false)) ? axis : 0;
}

/* Dimensions beside that of the rows: of both, those of 1 do not count, so that images without a channel fit. Symbols get
 * the sizes that the array has. */
static enum vc_status fit_shape(const struct vc_rows *rows, struct vc_graph *graph, const struct vc_graph_value *input,
                                const struct vc_tensor *t)
{
    unsigned axis = row_axis(graph, input);
    unsigned k = 1;

    for (unsigned d = 0; d < input->n_dims; d++) {
        const char *symbol = d == axis ? NULL : symbol_of(graph, input->shape[d]);
        int64_t size = vc_graph_dim_value(graph, input->shape[d]);

        if (d == axis) {
            continue;
        }
        if (size == 1 && symbol == NULL && (k >= t->n_dims || t->shape[k] != 1)) {
            continue;
        }
        while (size != 1 && k < t->n_dims && t->shape[k] == 1 && symbol == NULL) {
            k++;
        }
        if (k >= t->n_dims || t->shape[k] > INT64_MAX || (symbol == NULL && size != (int64_t)t->shape[k])) {
            return vc_array_refuse_shape(rows->ctx, rows->model, t, graph, input);
        }
        if (symbol != NULL && vc_graph_bind(rows->ctx, graph, symbol, (int64_t)t->shape[k]) != VC_OK) {
            return vc_array_refuse_shape(rows->ctx, rows->model, t, graph, input);
        }
        k++;
    }
    while (k < t->n_dims && t->shape[k] == 1) {
        k++;
    }
    return k == t->n_dims ? VC_OK : vc_array_refuse_shape(rows->ctx, rows->model, t, graph, input);
}

/* ---- inputs ---- */

/* Inputs that are left out have the sizes that the others tell. */
static enum vc_status size_left_out(struct vc_rows_view *view, const struct vc_graph *graph)
{
    for (size_t k = 0; k < view->n; k++) {
        struct vc_rows_input *to = &view->inputs[k];
        const struct vc_graph_value *input = vc_graph_value(graph, to->value);

        to->n_elems = to->tensor == VC_NO_TENSOR ? 1 : to->n_elems;
        for (unsigned d = 0; to->tensor == VC_NO_TENSOR && d < input->n_dims; d++) {
            int64_t size = d == row_axis(graph, input) ? 1 : vc_graph_dim_value(graph, input->shape[d]);

            VC_REFUSE_IF(size < 1, view->rows->ctx, VC_E_ARGUMENT,
                         "%s: there is no array for the input %s, whose size no other one tells",
                         view->rows->model->path, input->name);
            to->n_elems *= (size_t)size;
        }
    }
    return VC_OK;
}

/* The symbol of an input's rows; NULL: it has no dimensions, or a number of rows. */
const char *vc_rows_symbol(const struct vc_graph *graph, const struct vc_graph_value *input)
{
    return input->n_dims != 0 ? symbol_of(graph, input->shape[row_axis(graph, input)]) : NULL;
}

/* How many rows the graph takes: exporters give each input a symbol of its own for them, all of which are the rows, but
 * a number in one input that is read binds all. */
static enum vc_status count_rows(const struct vc_rows *rows, const struct vc_graph *graph, const char **batch,
                                 int64_t *fixed)
{
    const struct vc_graph_value *by = NULL;

    *batch = NULL;
    *fixed = -1;
    for (uint32_t k = 0; k < vc_graph_input_count(graph); k++) {
        const struct vc_graph_value *input = vc_graph_value(graph, vc_graph_input(graph, k));
        int64_t size = input->n_dims != 0 ? input->shape[row_axis(graph, input)].size : -1;

        *batch = *batch == NULL ? vc_rows_symbol(graph, input) : *batch;
        if (size < 0 || input->n_uses == 0) {
            continue;
        }
        VC_REFUSE_IF(by != NULL && *fixed != size, rows->ctx, VC_E_UNSUPPORTED,
                     "the inputs %s and %s of the graph have %lld and %lld rows", by->name, input->name,
                     (long long)*fixed, (long long)size);
        by = input;
        *fixed = size;
    }
    *batch = by != NULL ? NULL : *batch;
    return VC_OK;
}

/* Finds the array of one input, fits its shape, and opens it, if no other network has. */
static enum vc_status add_input(struct vc_rows_view *view, struct vc_graph *graph, uint32_t k)
{
    const struct vc_rows *rows = view->rows;
    const struct vc_graph_value *input = vc_graph_value(graph, vc_graph_input(graph, k));
    struct vc_rows_input *to = &view->inputs[view->n];

    VC_REFUSE_IF(
        input->n_dims == 0 && !input->optional, rows->ctx, VC_E_ARGUMENT,
        "%s: the input %s of the graph is a single number, and rows have an element of each input; %s %s=N says "
        "what it is in all rows",
        rows->model->path, input->name, vc_option(rows->ctx, "known"), input->name);
    VC_CALL(vc_array_of_input(rows->ctx, rows->model, vc_rows_names(rows), graph, input, &to->tensor));
    to->name = input->name;
    to->value = vc_graph_input(graph, k);
    to->integers = input->dtype != VC_DTYPE_F32;
    if (to->tensor == VC_NO_TENSOR) { /* left out */
        to->otherwise = input->otherwise;
        view->n++;
        return VC_OK;
    }
    const struct vc_tensor *t = &rows->model->tensors[to->tensor];
    VC_CALL(vc_array_check_type(rows->ctx, rows->model, t, input));
    VC_RETURN_IF(t->n_dims == 0 || t->shape[0] != rows->n_all,
                 vc_array_refuse_shape(rows->ctx, rows->model, t, graph, input));
    VC_CALL(fit_shape(rows, graph, input, t));
    to->ids = vc_graph_ids(graph, to->value);
    to->n_elems = (size_t)(t->n_elems / t->shape[0]);
    to->axis = row_axis(graph, input);
    to->before = 1;
    for (unsigned d = 0; d < to->axis; d++) {
        to->before *= (size_t)vc_graph_dim_value(graph, input->shape[d]);
    }
    to->channels = input->n_dims > 1 && to->before == 1 ? (size_t)vc_graph_dim_value(graph, input->shape[1]) : 1;
    if (!to->integers) {
        VC_CALL(vc_normalize_check(rows->ctx, &rows->normalize, to->channels, input->name));
    }
    to->plane = to->channels != 0 ? to->n_elems / to->channels : 0;
    if (rows->arrays[to->tensor].model == NULL) {
        VC_CALL(vc_row_array_open(rows->ctx, rows->model, to->tensor, &rows->arrays[to->tensor]));
    }
    view->n++;
    return VC_OK;
}

/* Inputs that are left out come last, since their sizes follow from the others. */
enum vc_status vc_rows_view_make(const struct vc_rows *rows, struct vc_graph *graph, struct vc_rows_view *view,
                                 const char **batch, int64_t *fixed)
{
    uint32_t n = vc_graph_input_count(graph);

    *view = (struct vc_rows_view){.rows = rows};
    VC_CALL(VC_ZEROS(rows->ctx, VC_TAG_MISC, view->inputs, n + (size_t)1));
    VC_CALL(count_rows(rows, graph, batch, fixed));
    for (uint32_t k = 0; k < n; k++) {
        VC_CALL(add_input(view, graph, k));
    }
    return size_left_out(view, graph);
}

/* Arrays belong to the rows, which several views may share. */
void vc_rows_view_release(struct vc_rows_view *view)
{
    if (view->rows != NULL) {
        vc_free(view->rows->ctx, view->inputs);
    }
}

/* ---- elements ---- */

/* One row of floats, normalized by channel. */
static void put_row(const struct vc_rows *rows, const struct vc_rows_input *input, enum vc_dtype dtype, const void *raw,
                    bool f64, void *to, size_t at)
{
    if (dtype == VC_DTYPE_F32 && !f64 && vc_normalize_is_none(&rows->normalize)) {
        memcpy((float *)to + at, raw, input->n_elems * sizeof(float));
        return;
    }
    for (size_t c = 0, i = 0; c < input->channels; c++) {
        for (size_t k = 0; k < input->plane; k++, i++) {
            double x = vc_normalize_number(&rows->normalize, c, vc_number_at(dtype, raw, i));

            if (f64) {
                ((double *)to)[at + i] = x;
            } else {
                ((float *)to)[at + i] = (float)x;
            }
        }
    }
}

/* Elements of an input that is left out. */
static void put_otherwise(const struct vc_rows_input *input, size_t n, bool f64, void *to)
{
    for (size_t i = 0; i < n; i++) {
        if (input->integers) {
            ((int64_t *)to)[i] = input->otherwise;
        } else if (f64) {
            ((double *)to)[i] = (double)input->otherwise;
        } else {
            ((float *)to)[i] = (float)input->otherwise;
        }
    }
}

/* Integers are checked against the table that they choose from, so that the sentence can name the row. */
enum vc_status vc_rows_read(const struct vc_rows_view *view, size_t k, const uint64_t *numbers, size_t n, bool f64,
                            void *to)
{
    const struct vc_rows_input *input = &view->inputs[k];
    const struct vc_rows *rows = view->rows;
    enum vc_dtype dtype;

    if (input->tensor == VC_NO_TENSOR) {
        put_otherwise(input, n * input->n_elems, f64, to);
        return VC_OK;
    }
    dtype = rows->model->tensors[input->tensor].dtype;
    for (size_t r = 0; r < n; r++) {
        uint64_t row = vc_rows_in_file(rows, numbers[r]);
        const void *raw;

        VC_CALL(vc_row_array_read(rows->ctx, &rows->arrays[input->tensor], row, &raw));
        for (size_t i = 0; input->integers && i < input->n_elems; i++) {
            int64_t x = vc_integer_at(dtype, raw, i);

            ((int64_t *)to)[r * input->n_elems + i] = x;
            VC_CALL(vc_graph_check_id(rows->ctx, &input->ids, rows->model->path,
                                      rows->model->tensors[input->tensor].name, x, row, i));
        }
        if (!input->integers) {
            put_row(rows, input, dtype, raw, f64, to, r * input->n_elems);
        }
    }
    return VC_OK;
}

/* [n, before, rest] becomes [before, n, rest]. */
enum vc_status vc_rows_turn(const struct vc_rows_view *view, size_t k, size_t n, bool f64, void *data)
{
    const struct vc_rows_input *input = &view->inputs[k];
    size_t before = input->before;
    size_t rest = before == 0 ? 0 : input->n_elems / before * (input->integers || f64 ? 8 : sizeof(float));

    if (before <= 1 || n <= 1) {
        return VC_OK;
    }
    unsigned char *copy = vc_alloc_array(view->rows->ctx, VC_TAG_TILES, n * before, rest);
    VC_CALL_ALLOC(copy);
    memcpy(copy, data, n * before * rest);
    for (size_t i = 0; i < n * before; i++) {
        memcpy((unsigned char *)data + (i % before * n + i / before) * rest, copy + i * rest, rest);
    }
    vc_free(view->rows->ctx, copy);
    return VC_OK;
}

/* Progress, in bytes of rows. */
void vc_rows_tell(const struct vc_rows_view *view, const char *what, uint64_t done, uint64_t rows)
{
    const struct vc_ctx *ctx = view->rows->ctx;
    struct vc_progress progress = {.what = what, .tensor = ""};
    uint64_t row = 0;

    for (size_t k = 0; k < view->n; k++) {
        row += view->inputs[k].n_elems * sizeof(float);
    }
    progress.done = done * row;
    progress.total = rows * row;
    if (ctx->shared->progress != NULL) {
        ctx->shared->progress(ctx->shared->progress_user, &progress);
    }
}

/* Rows that come next, so that the system reads them meanwhile. */
void vc_rows_ahead(const struct vc_rows *rows, const uint64_t *numbers, size_t n)
{
    for (size_t k = 0; k < rows->model->n_tensors; k++) {
        for (size_t r = 0; r < n; r++) {
            vc_row_array_ahead(&rows->arrays[k], vc_rows_in_file(rows, numbers[r]));
        }
    }
}
