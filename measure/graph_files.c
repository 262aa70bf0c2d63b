/* graph_files.c - vc_graph_run_files: the inputs of a graph from a file, its values into another one.
 *
 *     data.npz --inputs--> arrays --batches of rows--> graph --take--> values of all rows --job--> outputs.npz
 *
 * With a batch, the values of each run are laid behind those before it, so that the file looks as if there
 * had been one run over all rows. */
#include <unistd.h>

#include "core/base/option_struct.h"
#include "core/job/scoped.h"
#include "core/model/memory_model.h"
#include "engine/answers/answers.h"
#include "measure/graph_inputs.h"
#include "measure/graph_run.h"

/* The call: options, inputs, and the values that were taken so far. */
struct graph_files {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    struct vc_graph_file_options options;
    struct vc_graph_inputs inputs;
    struct vc_arena arena; /* of shapes */
    struct vc_memory_tensor *taken;
    size_t n_taken, capacity;
    uint64_t n_rows, first, n; /* with a batch: all, and those that are computed */
    bool rowless;              /* then: a value has other rows than the inputs */
};

/* ---- outputs ---- */

/* Room for a value, with a batch for all of its rows: the last batch may be smaller, so the room is made of
 * the first one.
 *     batches of 32 rows, 100 rows in all: logits [32, 10] get room for [100, 10]
 */
static enum vc_status make_room(struct graph_files *f, const struct vc_graph_array *array,
                                struct vc_memory_tensor *tensor)
{
    uint64_t *shape = vc_arena_alloc(f->ctx, &f->arena, (array->n_dims + 1) * sizeof *shape);
    uint64_t n = array->n_elems;

    if (shape == NULL || f->n_taken == f->capacity) {
        return VC_E_NOMEM;
    }
    if (array->n_dims != 0) {
        memcpy(shape, array->shape, array->n_dims * sizeof *shape);
    }
    if (f->options.batch != 0) {
        n = n / f->n * f->n_rows; /* n is f->n rows */
        shape[0] = f->n_rows;
    }
    void *data = vc_alloc(f->ctx, VC_TAG_TILES, (size_t)vc_dtype_bytes(array->dtype, n) + 1);
    VC_CALL_ALLOC(data);
    *tensor = (struct vc_memory_tensor){
        .name = array->name, .dtype = array->dtype, .n_dims = array->n_dims, .shape = shape, .data = data};
    f->n_taken++;
    return VC_OK;
}

/* The value has a row for each row of the inputs, and rows of the same shape as in the batches before. A
 * mean over the batch has none, and cannot be put together. */
static bool has_rows(const struct graph_files *f, const struct vc_graph_array *array,
                     const struct vc_memory_tensor *tensor)
{
    return array->n_dims != 0 && array->shape[0] == f->n &&
           (tensor == NULL ||
            (tensor->n_dims == array->n_dims &&
             memcmp(tensor->shape + 1, array->shape + 1, (array->n_dims - 1) * sizeof *array->shape) == 0));
}

/* vc_graph_run_options.take: a copy of the value, behind its rows of the batches before.
 * The name tells which value it is. Its rows begin at f->first. */
static enum vc_status take(void *user, const struct vc_graph_array *array)
{
    struct graph_files *f = user;
    size_t n_bytes = (size_t)vc_dtype_bytes(array->dtype, array->n_elems);
    struct vc_memory_tensor *tensor = NULL;
    size_t at = 0;

    for (size_t k = 0; k < f->n_taken; k++) {
        tensor = strcmp(f->taken[k].name, array->name) == 0 ? &f->taken[k] : tensor;
    }
    if (f->options.batch != 0 && !has_rows(f, array, tensor)) {
        f->rowless = true;
        return VC_E_ARGUMENT;
    }
    if (tensor == NULL) {
        tensor = &f->taken[f->n_taken];
        VC_CALL(make_room(f, array, tensor));
    }
    at = f->n == 0 ? 0 : n_bytes / (size_t)f->n * (size_t)f->first;
    memcpy((char *)(uintptr_t)tensor->data + at, array->data, n_bytes);
    return VC_OK;
}

/* Writes what was taken as a model in memory is written: by the format that the name of the file ends in. */
static enum vc_status write_outputs(struct graph_files *f)
{
    struct vc_write_options write;
    VC_SCOPED_MODEL struct vc_model *model = NULL;
    VC_SCOPED_JOB struct vc_job *job = NULL;

    vc_write_defaults(&write);
    write.path = f->options.outputs;
    write.force = f->options.force;
    VC_CALL(vc_memory_model_create(f->ctx, f->taken, f->n_taken, &model));
    VC_CALL(vc_job_create(f->ctx, model, &job));
    VC_CALL(vc_job_plan(f->ctx, job, &write));
    return vc_job_run(f->ctx, job);
}

/* What can be refused before anything is computed. */
static enum vc_status check(const struct graph_files *f)
{
    VC_REFUSE_IF(f->options.outputs == NULL, f->ctx, VC_E_ARGUMENT, "%s has to be set: where the values go",
                 vc_option(f->ctx, "outputs"));
    VC_REFUSE_IF(vc_format_of_name(f->options.outputs) == NULL, f->ctx, VC_E_ARGUMENT,
                 "%s: the name ends in no known extension, such as .npz", f->options.outputs);
    if (!f->options.force && access(f->options.outputs, F_OK) == 0) { /* the job would say so after the work */
        return vc_fail(f->ctx, VC_E_ARGUMENT, "%s: exists already and is replaced only with %s", f->options.outputs,
                       vc_option(f->ctx, "force"));
    }
    return VC_OK;
}

/* Tells the caller of each array that was written, without its values being read. */
static void tell(const struct graph_files *f)
{
    for (size_t k = 0; f->options.tell != NULL && k < f->n_taken; k++) {
        const struct vc_memory_tensor *tensor = &f->taken[k];
        const struct vc_graph_array array = {.name = tensor->name,
                                             .dtype = tensor->dtype,
                                             .n_dims = tensor->n_dims,
                                             .shape = tensor->shape,
                                             .data = tensor->data};

        f->options.tell(f->options.user, &array);
    }
}

/* All rows, a batch of them at a time, in one series: programs are made for two sizes at most, that of a
 * batch and that of the rest. */
static enum vc_status run_batches(struct graph_files *f, const struct vc_model *model,
                                  const struct vc_graph_run_options *options)
{
    struct vc_graph_array *rows = vc_alloc_array(f->ctx, VC_TAG_MISC, f->inputs.n + 1, sizeof *rows);
    struct vc_answers_series *series = NULL;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(rows);
    f->n_rows = f->inputs.n_rows;
    for (f->first = 0; f->first < f->n_rows; f->first += f->n) {
        f->n = vc_min_u64(f->options.batch, f->n_rows - f->first);
        VC_TRY(vc_graph_inputs_rows(f->ctx, &f->inputs, f->first, f->n, rows));
        VC_TRY(vc_graph_run_in_series(f->ctx, f->graph, model, rows, f->inputs.n, options, &series));
    }
    if (f->n_taken == 0) {
        status = vc_fail(f->ctx, VC_E_ARGUMENT, "%s: the inputs have no rows", vc_option(f->ctx, "batch"));
    }
out:
    if (f->rowless) { /* "the value 'y' was not taken" */
        status = vc_context(f->ctx, "%s: it has not one row for each row of the inputs", vc_option(f->ctx, "batch"));
    }
    vc_answers_series_free(series);
    vc_free(f->ctx, rows);
    return status;
}

/* Everything that can be refused is refused before the inputs are read. */
static enum vc_status run(struct graph_files *f, const struct vc_model *model)
{
    const struct vc_graph_inputs_from from = {.path = f->options.data,
                                              .arrays = f->options.arrays,
                                              .n_arrays = f->options.n_arrays,
                                              .scale = f->options.scale,
                                              .mean = f->options.mean,
                                              .deviation = f->options.deviation,
                                              .length = f->options.length,
                                              .token_bits = f->options.token_bits,
                                              .tokenizer = model != NULL ? model->path : NULL,
                                              .some = f->options.n_values != 0,
                                              .batch = f->options.batch};
    struct vc_graph_run_options options;

    VC_CALL(check(f));
    VC_CALL(vc_graph_inputs_read(f->ctx, f->graph, &from, &f->inputs));
    f->capacity = f->options.n_values != 0 ? f->options.n_values : vc_graph_output_count(f->graph);
    VC_CALL(VC_ZEROS(f->ctx, VC_TAG_MISC, f->taken, f->capacity + 1));
    vc_graph_run_defaults(&options);
    options.precision = f->options.precision;
    options.values = f->options.values;
    options.n_values = f->options.n_values;
    options.weights = f->options.weights;
    options.take = take;
    options.user = f;
    if (f->options.batch != 0) {
        VC_CALL(run_batches(f, model, &options));
    } else {
        VC_CALL(vc_graph_run(f->ctx, f->graph, model, f->inputs.arrays, f->inputs.n, &options));
    }
    VC_CALL(write_outputs(f));
    tell(f);
    return VC_OK;
}

/* One call from files to files: inputs are read, the graph runs, and values are written. */
enum vc_status vc_graph_run_files(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                  const struct vc_graph_file_options *options)
{
    struct graph_files f = {.ctx = ctx, .graph = graph};
    enum vc_status status = VC_OK;

    vc_call_begin(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(graph_file), options, &f.options));
    VC_TRY(run(&f, model));
out:
    for (size_t k = 0; k < f.n_taken; k++) {
        vc_free(ctx, (void *)(uintptr_t)f.taken[k].data);
    }
    vc_free(ctx, f.taken);
    vc_graph_inputs_release(ctx, &f.inputs);
    vc_arena_release(ctx, &f.arena);
    return vc_call_end(ctx, status);
}
