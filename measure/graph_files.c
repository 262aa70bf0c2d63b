/* graph_files.c - vc_graph_run_files: the inputs of a graph from a file, its values into another one. */
#include <string.h>
#include <unistd.h>

#include <vcompress/graph.h>
#include <vcompress/job.h>

#include "core/base/arena.h"
#include "core/base/checked.h"
#include "core/base/option_struct.h"
#include "core/model/memory_model.h"
#include "core/model/source.h"
#include "measure/graph_inputs.h"

static const struct vc_graph_file_options file_defaults = {.precision = VC_GRAPH_F32};
static const struct vc_options_kind file_kind = {"vc_graph_file_options", "vc_graph_file_defaults", &file_defaults,
                                                 sizeof file_defaults};

struct graph_files {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    struct vc_graph_file_options options;
    struct vc_graph_inputs inputs;
    struct vc_arena arena; /* of shapes */
    struct vc_memory_tensor *taken;
    size_t n_taken, capacity;
};

void vc_graph_file_defaults_sized(struct vc_graph_file_options *options, size_t struct_size)
{
    vc_options_fill(&file_kind, options, struct_size);
}

/* ---- outputs ---- */

/* vc_graph_run_options.take: a copy of the value. */
static enum vc_status take(void *user, const struct vc_graph_array *array)
{
    struct graph_files *f = user;
    size_t n_bytes = (size_t)vc_dtype_bytes(array->dtype, array->n_elems);
    struct vc_memory_tensor *tensor = &f->taken[f->n_taken];
    uint64_t *shape = vc_arena_alloc(f->ctx, &f->arena, (array->n_dims + 1) * sizeof *shape);
    void *data = vc_alloc(f->ctx, VC_TAG_TILES, n_bytes + 1);

    if (shape == NULL || data == NULL || f->n_taken == f->capacity) {
        vc_free(f->ctx, data);
        return VC_E_NOMEM;
    }
    if (array->n_dims != 0) {
        memcpy(shape, array->shape, array->n_dims * sizeof *shape);
    }
    memcpy(data, array->data, n_bytes);
    *tensor = (struct vc_memory_tensor){
        .name = array->name, .dtype = array->dtype, .n_dims = array->n_dims, .shape = shape, .data = data};
    f->n_taken++;
    return VC_OK;
}

static enum vc_status write_outputs(struct graph_files *f)
{
    struct vc_write_options write;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;
    enum vc_status status = VC_OK;

    vc_write_defaults(&write);
    write.path = f->options.outputs;
    write.force = f->options.force;
    VC_TRY(vc_memory_model_create(f->ctx, f->taken, f->n_taken, &model));
    VC_TRY(vc_job_create(f->ctx, model, &job));
    VC_TRY(vc_job_plan(f->ctx, job, &write));
    VC_TRY(vc_job_run(f->ctx, job));
out:
    vc_job_free(job);
    vc_model_close(model);
    return status;
}

/* What can be refused before anything is computed. */
static enum vc_status check(const struct graph_files *f)
{
    if (f->options.outputs == NULL) {
        return vc_fail(f->ctx, VC_E_ARGUMENT, "%s has to be set: where the values go", vc_option(f->ctx, "outputs"));
    }
    if (vc_format_of_name(f->options.outputs) == NULL) {
        return vc_fail(f->ctx, VC_E_ARGUMENT, "%s: the name ends in no known extension, such as .npz",
                       f->options.outputs);
    }
    if (!f->options.force && access(f->options.outputs, F_OK) == 0) { /* the job would say so after the work */
        return vc_fail(f->ctx, VC_E_ARGUMENT, "%s: exists already and is replaced only with %s", f->options.outputs,
                       vc_option(f->ctx, "force"));
    }
    return VC_OK;
}

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

static enum vc_status run(struct graph_files *f, const struct vc_model *model)
{
    const struct vc_graph_inputs_from from = {
        .path = f->options.data, .arrays = f->options.arrays, .n_arrays = f->options.n_arrays};
    struct vc_graph_run_options options;
    enum vc_status status = VC_OK;

    VC_TRY(check(f));
    VC_TRY(vc_graph_inputs_read(f->ctx, f->graph, &from, &f->inputs));
    f->capacity = f->options.n_values != 0 ? f->options.n_values : vc_graph_output_count(f->graph);
    f->taken = vc_calloc_array(f->ctx, VC_TAG_MISC, f->capacity + 1, sizeof *f->taken);
    VC_TRY_ALLOC(f->taken);
    vc_graph_run_defaults(&options);
    options.precision = f->options.precision;
    options.values = f->options.values;
    options.n_values = f->options.n_values;
    options.weights = f->options.weights;
    options.take = take;
    options.user = f;
    VC_TRY(vc_graph_run(f->ctx, f->graph, model, f->inputs.arrays, f->inputs.n, &options));
    VC_TRY(write_outputs(f));
    tell(f);
out:
    return status;
}

enum vc_status vc_graph_run_files(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                                  const struct vc_graph_file_options *options)
{
    struct graph_files f = {.ctx = ctx, .graph = graph};
    enum vc_status status = VC_OK;

    vc_call_begin(ctx);
    VC_TRY(vc_options_read(ctx, &file_kind, options, &f.options));
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
