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

static const struct vc_graph_file_options file_defaults = {.precision = VC_GRAPH_F32};
static const struct vc_options_kind file_kind = {"vc_graph_file_options", "vc_graph_file_defaults", &file_defaults,
                                                 sizeof file_defaults};

struct graph_files {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    struct vc_graph_file_options options;
    struct vc_model *data;
    struct vc_arena arena; /* of names, shapes and elements */
    struct vc_graph_array *inputs;
    struct vc_memory_tensor *taken;
    size_t n_inputs, n_taken, capacity;
};

void vc_graph_file_defaults_sized(struct vc_graph_file_options *options, size_t struct_size)
{
    vc_options_fill(&file_kind, options, struct_size);
}

/* ---- inputs ---- */

/* The array that was given for the input by hand; NULL: none was. */
static const char *array_for(const struct graph_files *f, const char *input)
{
    size_t n = strlen(input);

    for (size_t k = 0; k < f->options.n_arrays; k++) {
        if (strncmp(f->options.arrays[k], input, n) == 0 && f->options.arrays[k][n] == '=') {
            return f->options.arrays[k] + n + 1;
        }
    }
    return NULL;
}

/* Every "x=array" names an input. */
static enum vc_status check_arrays(const struct graph_files *f)
{
    for (size_t k = 0; k < f->options.n_arrays; k++) {
        const char *equals = strchr(f->options.arrays[k], '=');
        bool known = false;

        for (uint32_t i = 0; equals != NULL && i < vc_graph_input_count(f->graph); i++) {
            const char *name = vc_graph_value(f->graph, vc_graph_input(f->graph, i))->name;

            known |= strlen(name) == (size_t)(equals - f->options.arrays[k]) &&
                     strncmp(name, f->options.arrays[k], strlen(name)) == 0;
        }
        if (!known) {
            return vc_fail(f->ctx, VC_E_ARGUMENT, "%s: '%s' is not INPUT=ARRAY for an input of the graph",
                           vc_option(f->ctx, "arrays"), f->options.arrays[k]);
        }
    }
    return VC_OK;
}

/* Integers where the graph wants floats: as double. */
static enum vc_status make_floats(const struct graph_files *f, struct vc_graph_array *array)
{
    double *to = vc_alloc_array(f->ctx, VC_TAG_TILES, (size_t)array->n_elems + 1, sizeof *to);
    const void *from = array->data;
    size_t n = (size_t)array->n_elems;

    if (to == NULL) {
        return VC_E_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        switch (array->dtype) {
        case VC_DTYPE_I8:
            to[i] = ((const int8_t *)from)[i];
            break;
        case VC_DTYPE_U16:
            to[i] = ((const uint16_t *)from)[i];
            break;
        case VC_DTYPE_I16:
            to[i] = ((const int16_t *)from)[i];
            break;
        case VC_DTYPE_U32:
            to[i] = ((const uint32_t *)from)[i];
            break;
        case VC_DTYPE_I32:
            to[i] = ((const int32_t *)from)[i];
            break;
        case VC_DTYPE_U64:
            to[i] = (double)((const uint64_t *)from)[i];
            break;
        case VC_DTYPE_I64:
            to[i] = (double)((const int64_t *)from)[i];
            break;
        default:
            to[i] = ((const uint8_t *)from)[i]; /* u8, bool */
            break;
        }
    }
    vc_free(f->ctx, (void *)(uintptr_t)array->data);
    array->data = to;
    array->dtype = VC_DTYPE_F64;
    return VC_OK;
}

/* No other input has to be given. */
static bool is_only_one(const struct graph_files *f, const char *input)
{
    for (uint32_t k = 0; k < vc_graph_input_count(f->graph); k++) {
        const struct vc_graph_value *value = vc_graph_value(f->graph, vc_graph_input(f->graph, k));

        if (value->optional == (strcmp(value->name, input) == 0)) {
            return false;
        }
    }
    return true;
}

/* The tensor of the data file that is the input; VC_NO_TENSOR: there is none, which vc_graph_run says if it needs it.
 */
static enum vc_status find_array(const struct graph_files *f, const char *input, size_t *out)
{
    const char *name = array_for(f, input);

    *out = vc_model_find(f->data, name != NULL ? name : input);
    if (*out == VC_NO_TENSOR && name != NULL) {
        return vc_fail(f->ctx, VC_E_ARGUMENT, "%s: there is no array '%s'", vc_model_path(f->data), name);
    }
    if (*out == VC_NO_TENSOR && vc_model_tensor_count(f->data) == 1 && is_only_one(f, input)) {
        *out = 0;
    }
    return VC_OK;
}

static enum vc_status read_input(struct graph_files *f, uint32_t k)
{
    const struct vc_graph_value *input = vc_graph_value(f->graph, vc_graph_input(f->graph, k));
    struct vc_graph_array *array = &f->inputs[f->n_inputs];
    const struct vc_tensor *tensor;
    size_t index;
    void *data;
    enum vc_status status = VC_OK;

    VC_TRY(find_array(f, input->name, &index));
    if (index == VC_NO_TENSOR) {
        return VC_OK;
    }
    tensor = vc_model_tensor(f->data, index);
    if (tensor->size_bytes > SIZE_MAX / 2) {
        return vc_fail(f->ctx, VC_E_NOMEM, "%s: %s does not fit into memory", vc_model_path(f->data), tensor->name);
    }
    data = vc_alloc(f->ctx, VC_TAG_TILES, (size_t)tensor->size_bytes + 1);
    VC_TRY_ALLOC(data);
    *array = (struct vc_graph_array){.name = input->name,
                                     .dtype = tensor->dtype,
                                     .n_dims = tensor->n_dims,
                                     .shape = tensor->shape,
                                     .n_elems = tensor->n_elems,
                                     .data = data};
    f->n_inputs++;
    VC_TRY(vc_model_read(f->ctx, f->data, index, 0, tensor->n_elems, data, (size_t)tensor->size_bytes));
    if (input->dtype == VC_DTYPE_F32 && tensor->dtype >= VC_DTYPE_BOOL && tensor->dtype <= VC_DTYPE_I64) {
        VC_TRY(make_floats(f, array));
    }
out:
    return status;
}

static enum vc_status read_inputs(struct graph_files *f)
{
    uint32_t n = vc_graph_input_count(f->graph);
    enum vc_status status = VC_OK;

    VC_TRY(check_arrays(f));
    f->inputs = vc_calloc_array(f->ctx, VC_TAG_MISC, n + (size_t)1, sizeof *f->inputs);
    VC_TRY_ALLOC(f->inputs);
    if (f->options.data != NULL) {
        VC_TRY(vc_model_open(f->ctx, f->options.data, NULL, &f->data));
        for (uint32_t k = 0; k < n; k++) {
            VC_TRY(read_input(f, k));
        }
        VC_TRY(vc_model_unchanged(f->ctx, f->data, VC_OK));
    }
out:
    return status;
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
    struct vc_graph_run_options options;
    enum vc_status status = VC_OK;

    VC_TRY(check(f));
    VC_TRY(read_inputs(f));
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
    VC_TRY(vc_graph_run(f->ctx, f->graph, model, f->inputs, f->n_inputs, &options));
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
    for (size_t k = 0; k < f.n_inputs; k++) {
        vc_free(ctx, (void *)(uintptr_t)f.inputs[k].data);
    }
    for (size_t k = 0; k < f.n_taken; k++) {
        vc_free(ctx, (void *)(uintptr_t)f.taken[k].data);
    }
    vc_free(ctx, f.inputs);
    vc_free(ctx, f.taken);
    vc_model_close(f.data);
    vc_arena_release(ctx, &f.arena);
    return vc_call_end(ctx, status);
}
