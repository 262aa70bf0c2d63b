/* graph_inputs.c - see graph_inputs.h.
 *
 * What an array of the file goes through, in this order:
 *
 *     found (data_arrays.h) --> cut to the first rows --> read --> ids checked --> fit to the shape
 *                                                                      --> floats: doubles, scaled and normalized
 *
 * A later step sees what the earlier ones made. The copy is this file's own, so each step may replace it. */
#include "measure/graph_inputs.h"

#include <math.h>

#include "core/job/scoped.h"
#include "core/model/memory_model.h"
#include "core/values/tile.h"
#include "graph/ids.h"
#include "passes/data_arrays.h"
#include "passes/graph_params.h"
#include "passes/normalize.h"

/* ---- arrays of a file ---- */

/* One call of vc_graph_inputs_read: what is asked for and what is filled in. */
struct reading {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    const struct vc_graph_inputs_from *from;
    struct vc_graph_inputs *to;
    struct vc_normalize normalize;
    const struct vc_graph_value *first; /* the first input with rows, and how many the file has of it */
    uint64_t n_rows;
};

static struct vc_array_names names_of(const struct reading *f)
{
    return (struct vc_array_names){f->from->arrays, f->from->n_arrays};
}

/* Reads an array of floats of any width into f32 or f64, by the code that reads a tensor of a model: the
 * array is made into a model of one tensor. So f16 and bf16 inputs are decoded in one place only. */
static enum vc_status read_float_input(struct vc_ctx *ctx, const struct vc_graph_array *given, bool f64, void *elements)
{
    struct vc_memory_tensor tensor = {.name = given->name,
                                      .dtype = given->dtype,
                                      .n_dims = given->n_dims,
                                      .shape = given->shape,
                                      .data = given->data};
    struct vc_place place = vc_place_whole();
    VC_SCOPED_MODEL struct vc_model *model = NULL;

    VC_CALL(vc_memory_model_create(ctx, &tensor, 1, &model));
    return vc_place_values(ctx, model, 0, &place, f64, elements);
}

/* Makes an input of floats doubles, with scale, mean and deviation. Doubles hold every integer up to 2^53 exactly (images
 * of bytes); larger ones are rounded. Means and deviations are by channel, which is axis 1; element i lies in channel
 * i / plane % channels. The old elements are freed.
 *
 *     [rows, channels, h, w]      plane = h * w
 *     [rows, channels]            plane = 1
 *     [rows]                      one channel of all
 */
static enum vc_status normalize(const struct reading *f, const char *input, struct vc_graph_array *array)
{
    size_t channels = array->n_dims > 1 ? (size_t)array->shape[1] : 1;
    size_t n = (size_t)array->n_elems;
    size_t plane =
        array->n_dims > 1 && array->shape[0] != 0 && channels != 0 ? n / (size_t)array->shape[0] / channels : n;
    double *x;

    VC_CALL(vc_normalize_check(f->ctx, &f->normalize, channels, input));
    VC_CALL_ALLOC(x = vc_alloc_array(f->ctx, VC_TAG_TILES, n + 1, sizeof *x));
    for (size_t i = 0; i < n; i++) {
        x[i] = vc_normalize_number(&f->normalize, i / plane % channels, vc_number_at(array->dtype, array->data, i));
    }
    vc_free(f->ctx, (void *)(uintptr_t)array->data);
    array->data = x;
    array->dtype = VC_DTYPE_F64;
    return VC_OK;
}

/* Gives the array the shape of the input where both differ by axes of size 1 alone, behind the first axis.
 * An array that fits in no way stays as it is, and the run says so.
 *
 *     array [n, 28, 28]        input [n, 1, 28, 28]       becomes [n, 1, 28, 28]
 *     array [n, 28, 28, 1]     input [n, 784]             stays: 784 is no axis of the array
 *
 * Only the shape changes, which is a copy in the arena; elements lie in the same order. */
static enum vc_status fit_shape(const struct reading *f, const struct vc_graph_value *input,
                                struct vc_graph_array *array)
{
    uint64_t shape[VC_GRAPH_MAX_DIMS] = {0};
    unsigned k = 1;

    if (array->n_dims == input->n_dims || array->n_dims == 0 || input->n_dims == 0) {
        return VC_OK;
    }
    shape[0] = array->shape[0];
    for (unsigned d = 1; d < input->n_dims; d++) {
        bool is_one = input->shape[d].size == 1;

        while (!is_one && k < array->n_dims && array->shape[k] == 1) {
            k++;
        }
        if (is_one && (k >= array->n_dims || array->shape[k] != 1)) {
            shape[d] = 1;
            continue;
        }
        if (k >= array->n_dims) {
            return VC_OK;
        }
        shape[d] = array->shape[k++];
    }
    while (k < array->n_dims && array->shape[k] == 1) {
        k++;
    }
    if (k == array->n_dims) {
        uint64_t *fitted = vc_arena_alloc(f->ctx, &f->to->arena, sizeof shape);

        VC_CALL_ALLOC(fitted);
        memcpy(fitted, shape, sizeof shape);
        array->shape = fitted;
        array->n_dims = input->n_dims;
    }
    return VC_OK;
}

/* Sizes that are numbers are those of the array. With a batch the first one is rows, and the run says what does not fit
 * (a state [2, n, 128] has its rows elsewhere). */
static enum vc_status check_shape(const struct reading *f, const struct vc_tensor *tensor,
                                  const struct vc_graph_value *input, const struct vc_graph_array *array)
{
    bool same = f->from->batch != 0 || array->n_dims == input->n_dims;

    for (unsigned d = 0; f->from->batch == 0 && d < input->n_dims && same; d++) {
        same = input->shape[d].size < 0 || (uint64_t)input->shape[d].size == array->shape[d];
    }
    return same ? VC_OK : vc_array_refuse_shape(f->ctx, f->to->data, tensor, f->graph, input);
}

/* What measures: it needs rows, and numbers in them. */
static enum vc_status check_finite(const struct reading *f, const struct vc_graph_array *array, const char *name)
{
    bool floats = array->dtype >= VC_DTYPE_F16 && array->dtype <= VC_DTYPE_F64;

    VC_REFUSE_IF(array->n_elems == 0, f->ctx, VC_E_ARGUMENT, "%s: %s has no rows", f->to->data->path, name);
    for (uint64_t i = 0; floats && i < array->n_elems; i++) {
        VC_REFUSE_IF(!isfinite(vc_number_at(array->dtype, array->data, i)), f->ctx, VC_E_FORMAT,
                     "%s: row %llu of %s has a NaN or infinite value", f->to->data->path,
                     (unsigned long long)(array->n_dims == 0 ? 0 : i / (array->n_elems / array->shape[0])), name);
    }
    return VC_OK;
}

/* Keeps the first n_rows rows of an input that has rows: its first size is open, or a batch says that it is
 * rows. Rows lie one behind the other, so a shorter first size and fewer elements are all it takes. Also
 * notes how many rows there are: as many of each input with that size. */
static enum vc_status cut_rows(struct reading *f, const struct vc_tensor *tensor, const struct vc_graph_value *input,
                               struct vc_graph_array *array)
{
    uint64_t *shape;

    if (array->n_dims == 0 || input->n_dims == 0 || (input->shape[0].size >= 0 && f->from->batch == 0)) {
        return VC_OK;
    }
    f->n_rows = f->first == NULL ? array->shape[0] : f->n_rows;
    f->first = f->first == NULL ? input : f->first;
    VC_RETURN_IF(vc_dim_equal(f->first->shape[0], input->shape[0]) && array->shape[0] != f->n_rows,
                 vc_array_refuse_shape(f->ctx, f->to->data, tensor, f->graph, input));
    if (f->from->n_rows != 0 && array->shape[0] > f->from->n_rows) {
        VC_CALL_ALLOC(shape = vc_arena_alloc(f->ctx, &f->to->arena, array->n_dims * sizeof *shape));
        memcpy(shape, array->shape, array->n_dims * sizeof *shape);
        shape[0] = f->from->n_rows;
        array->n_elems = array->n_elems / array->shape[0] * shape[0];
        array->shape = shape;
    }
    f->to->n_rows = vc_max_u64(f->to->n_rows, array->shape[0]);
    return VC_OK;
}

/* Refuses tokens that their table has no row for. The sentence names the row and the place in it, so that
 * the user finds it in the file. Arrays that are used as no ids pass. */
static enum vc_status check_ids(struct vc_ctx *ctx, const struct vc_graph *graph, uint32_t k, const char *path,
                                const struct vc_graph_array *array, uint64_t n, const char *name)
{
    struct vc_ids ids = vc_graph_ids(graph, vc_graph_input(graph, k));
    uint64_t rows = array->n_dims != 0 ? array->shape[0] : 1;

    for (uint64_t i = 0; ids.table != NULL && vc_is_integer(array->dtype) && i < n; i++) {
        uint64_t per_row = n / rows;

        VC_CALL(vc_graph_check_id(ctx, &ids, path, name, vc_integer_at(array->dtype, array->data, i), i / per_row,
                                  i % per_row));
    }
    return VC_OK;
}

/* Reads input k of the graph, if the file has it; see the top of this file for the steps. The array counts
 * from the moment that it has elements, so vc_graph_inputs_release frees it after a later failure. */
static enum vc_status read_input(struct reading *f, uint32_t k)
{
    const struct vc_graph_value *input = vc_graph_value(f->graph, vc_graph_input(f->graph, k));
    struct vc_graph_array *array = &f->to->arrays[f->to->n];
    size_t index;
    void *data;

    enum vc_status status = vc_array_of_input(f->ctx, f->to->data, names_of(f), f->graph, input, &index);
    if (status != VC_OK && index == VC_NO_TENSOR && (f->from->some || input->n_uses == 0) &&
        vc_array_named(names_of(f), input->name) == NULL) {
        vc_clear_error(f->ctx); /* the run says so if it needs the input */
        return VC_OK;
    }
    VC_CALL(status);
    if (index == VC_NO_TENSOR) {
        return VC_OK;
    }
    const struct vc_tensor *tensor = vc_model_tensor(f->to->data, index);
    VC_CALL(vc_array_check_type(f->ctx, f->to->data, tensor, input));
    VC_REFUSE_IF(tensor->size_bytes > SIZE_MAX / 2, f->ctx, VC_E_NOMEM, "%s: %s does not fit into memory",
                 f->to->data->path, tensor->name);
    *array = (struct vc_graph_array){.name = input->name,
                                     .dtype = tensor->dtype,
                                     .n_dims = tensor->n_dims,
                                     .shape = tensor->shape,
                                     .n_elems = tensor->n_elems};
    VC_CALL(cut_rows(f, tensor, input, array));
    size_t n_bytes = (size_t)vc_dtype_bytes(tensor->dtype, array->n_elems);
    VC_CALL_ALLOC(data = vc_alloc(f->ctx, VC_TAG_TILES, n_bytes + 1));
    array->data = data;
    f->to->n++;
    VC_CALL(vc_model_read(f->ctx, f->to->data, index, 0, array->n_elems, data, n_bytes));
    VC_CALL(check_ids(f->ctx, f->graph, k, f->to->data->path, array, array->n_elems, tensor->name));
    if (f->from->measured) {
        VC_CALL(check_finite(f, array, tensor->name));
    }
    VC_CALL(fit_shape(f, input, array));
    VC_CALL(check_shape(f, tensor, input, array));
    bool as_it_is = !vc_is_integer(tensor->dtype) && vc_normalize_is_none(&f->normalize);
    return input->dtype == VC_DTYPE_F32 && !as_it_is ? normalize(f, input->name, array) : VC_OK;
}

/* With a batch all inputs must have the same number of rows, since one batch takes the same rows of each. */
static enum vc_status check_rows(const struct reading *f)
{
    for (size_t k = 0; f->from->batch != 0 && k < f->to->n; k++) {
        const struct vc_graph_array *array = &f->to->arrays[k];

        VC_REFUSE_IF(array->n_dims == 0 || array->shape[0] != f->to->n_rows, f->ctx, VC_E_ARGUMENT,
                     "%s: the array for the input %s has %llu rows, and others have %llu", vc_option(f->ctx, "batch"),
                     array->name, (unsigned long long)(array->n_dims == 0 ? 0 : array->shape[0]),
                     (unsigned long long)f->to->n_rows);
    }
    return VC_OK;
}

/* No element is copied: each array begins `first` rows further on. check_rows has made sure that all have
 * rows. */
enum vc_status vc_graph_inputs_rows(struct vc_ctx *ctx, struct vc_graph_inputs *inputs, uint64_t first, uint64_t n,
                                    struct vc_graph_array *rows)
{
    for (size_t k = 0; k < inputs->n; k++) {
        const struct vc_graph_array *all = &inputs->arrays[k];
        uint64_t one = all->n_elems / all->shape[0];
        uint64_t *shape = vc_arena_alloc(ctx, &inputs->arena, all->n_dims * sizeof *shape);

        VC_CALL_ALLOC(shape);
        memcpy(shape, all->shape, all->n_dims * sizeof *shape);
        shape[0] = n;
        rows[k] = *all;
        rows[k].shape = shape;
        rows[k].n_elems = n * one;
        rows[k].data = (const char *)all->data + vc_dtype_bytes(all->dtype, first * one);
    }
    return VC_OK;
}

/* Options are checked before the file is opened. At the end the file must not have changed while it was
 * read. */
enum vc_status vc_graph_inputs_read(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_graph_inputs_from *from,
                                    struct vc_graph_inputs *to)
{
    struct reading f = {.ctx = ctx, .graph = graph, .from = from, .to = to};
    uint32_t n = vc_graph_input_count(graph);

    struct vc_open_options file;

    *to = (struct vc_graph_inputs){.n = 0};
    VC_CALL(vc_normalize_read(ctx, &to->arena, from->scale, from->mean, from->deviation, &f.normalize));
    VC_CALL(vc_normalize_check_used(ctx, &f.normalize, (const struct vc_graph *const[]){graph}, 1));
    VC_REFUSE_IF(from->token_bits != 0 && from->length == 0, ctx, VC_E_ARGUMENT,
                 "%s needs %s: how many tokens are a row", vc_option(ctx, "token_bits"), vc_option(ctx, "length"));
    vc_open_defaults(&file);
    file.row_tokens = from->length;
    file.token_bits = from->token_bits;
    file.tokenizer = from->tokenizer;
    file.most_rows = from->n_rows;
    VC_CALL(vc_array_names_check(ctx, names_of(&f), (const struct vc_graph *const[]){graph}, 1));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_MISC, to->arrays, n + (size_t)1));
    if (from->path != NULL) {
        VC_CALL(vc_model_open(ctx, from->path, &file, &to->data));
        for (uint32_t k = 0; k < n; k++) {
            VC_CALL(read_input(&f, k));
        }
        VC_CALL(check_rows(&f));
        VC_CALL(vc_model_unchanged(ctx, to->data, VC_OK));
    }
    return VC_OK;
}

void vc_graph_inputs_release(struct vc_ctx *ctx, struct vc_graph_inputs *inputs)
{
    for (size_t k = 0; k < inputs->n; k++) {
        vc_free(ctx, (void *)(uintptr_t)inputs->arrays[k].data);
    }
    vc_free(ctx, inputs->arrays);
    vc_model_close(inputs->data);
    vc_arena_release(ctx, &inputs->arena);
}

/* ---- as values of a run ---- */

/* Copies an array into a value of a run: floats as f32 or f64, everything else as 64-bit integers, which is
 * what the loops of a graph compute with. */
static enum vc_status copy_input(struct vc_ctx *ctx, const struct vc_graph_array *given, bool f64,
                                 struct vc_run_value *to)
{
    to->n_dims = given->n_dims;
    to->n = 1;
    for (unsigned k = 0; k < given->n_dims; k++) {
        VC_REFUSE_IF(given->shape[k] > INT64_MAX || !vc_mul_size(to->n, (size_t)given->shape[k], &to->n), ctx,
                     VC_E_ARGUMENT, "the input '%s' is too large", given->name);
        to->shape[k] = (int64_t)given->shape[k];
    }
    to->data = vc_alloc_array(ctx, VC_TAG_TILES, to->n != 0 ? to->n : 1, to->is_real && !f64 ? sizeof(float) : 8);
    VC_CALL_ALLOC(to->data);
    if (to->is_real && to->n != 0) {
        VC_CALL(read_float_input(ctx, given, f64, to->data));
    }
    for (size_t i = 0; !to->is_real && i < to->n; i++) {
        ((int64_t *)to->data)[i] = vc_integer_at(given->dtype, given->data, i);
    }
    return VC_OK;
}

/* Looks the array up by name, checks its type against the graph, and copies it. Of two arrays with the name
 * the last one counts. The checks of tokens come last since they read the elements. */
enum vc_status vc_graph_input_value(struct vc_ctx *ctx, const struct vc_graph *graph,
                                    const struct vc_graph_array *arrays, size_t n, uint32_t k, bool f64,
                                    struct vc_run_value *value)
{
    const struct vc_graph_value *input = vc_graph_value(graph, vc_graph_input(graph, k));
    const struct vc_graph_array *given = NULL;

    for (size_t i = 0; i < n; i++) {
        given = strcmp(arrays[i].name, input->name) == 0 ? &arrays[i] : given;
    }
    if (given == NULL && input->optional) {
        return VC_OK;
    }
    VC_REFUSE_IF(given == NULL, ctx, VC_E_ARGUMENT, "the input '%s' is missing", input->name);
    value->is_real = input->dtype == VC_DTYPE_F32;
    VC_REFUSE_IF(given->n_dims > VC_GRAPH_MAX_DIMS ||
                     (value->is_real ? given->dtype < VC_DTYPE_F16 || given->dtype > VC_DTYPE_F64
                                     : !vc_is_integer(given->dtype)),
                 ctx, VC_E_ARGUMENT, "the input '%s' is of type %s and has %u dimensions; the model takes %s",
                 given->name, vc_dtype_name(given->dtype), given->n_dims, value->is_real ? "floats" : "integers");
    VC_CALL(copy_input(ctx, given, f64, value));
    return check_ids(ctx, graph, k, NULL, given, value->n, given->name);
}
