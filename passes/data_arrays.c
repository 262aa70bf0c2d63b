/* data_arrays.c - see data_arrays.h. */
#include "passes/data_arrays.h"

#include "passes/graph_params.h"

/* The name ends at the "=", so an input "x" does not take the entry of an input "x2". */
const char *vc_array_named(struct vc_array_names names, const char *name)
{
    size_t n = strlen(name);

    for (size_t k = 0; k < names.n; k++) {
        if (strncmp(names.list[k], name, n) == 0 && names.list[k][n] == '=') {
            return names.list[k] + n + 1;
        }
    }
    return NULL;
}

/* The graph has an input or output with these n letters as its name. */
static bool is_value_of(const struct vc_graph *graph, const char *name, size_t n)
{
    uint32_t n_inputs = graph == NULL ? 0 : vc_graph_input_count(graph);
    uint32_t all = graph == NULL ? 0 : n_inputs + vc_graph_output_count(graph);

    for (uint32_t i = 0; i < all; i++) {
        uint32_t v = i < n_inputs ? vc_graph_input(graph, i) : vc_graph_output(graph, i - n_inputs);
        const char *own = vc_graph_value(graph, v)->name;

        if (strlen(own) == n && strncmp(name, own, n) == 0) {
            return true;
        }
    }
    return false;
}

/* The names of the inputs, as far as there is room. */
static void list_inputs(const struct vc_graph *graph, char *text, size_t room)
{
    size_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; graph != NULL && i < vc_graph_input_count(graph) && n < room; i++) {
        n += (size_t)snprintf(text + n, room - n, "%s%s", i != 0 ? ", " : "",
                              vc_graph_value(graph, vc_graph_input(graph, i))->name);
    }
}

/* A wrong name would otherwise be left unread without a word. */
enum vc_status vc_array_names_check(struct vc_ctx *ctx, struct vc_array_names names,
                                    const struct vc_graph *const *graphs, size_t n_graphs)
{
    for (size_t k = 0; k < names.n; k++) {
        const char *array = names.list[k];
        const char *equals = strchr(array, '=');
        size_t n = equals != NULL ? (size_t)(equals - array) : 0;
        bool known = (n == 1 && array[0] == 'y') || (n == 4 && strncmp(array, "mask", 4) == 0);

        for (size_t g = 0; g < n_graphs; g++) {
            known = known || is_value_of(graphs[g], array, n);
        }
        if (equals == NULL || !known) {
            char inputs[256];

            list_inputs(graphs[0], inputs, sizeof inputs);
            return vc_fail(ctx, VC_E_ARGUMENT,
                           "%s: '%s' is not NAME=ARRAY for an input of the graph (%s), an output, y or mask",
                           vc_option(ctx, "arrays"), array, inputs);
        }
    }
    return VC_OK;
}

enum vc_status vc_array_find(struct vc_ctx *ctx, const struct vc_model *data, struct vc_array_names names,
                             const char *name, size_t *out)
{
    const char *given = vc_array_named(names, name);

    *out = vc_model_find(data, given != NULL ? given : name);
    return *out != VC_NO_TENSOR || given == NULL
               ? VC_OK
               : vc_fail(ctx, VC_E_ARGUMENT, "%s: there is no array '%s'", data->path, given);
}

/* The one array that is neither y nor mask; VC_NO_TENSOR: there are several. */
static size_t find_only(const struct vc_model *data, struct vc_array_names names)
{
    const char *y = vc_array_named(names, "y");
    const char *mask = vc_array_named(names, "mask");
    size_t found = VC_NO_TENSOR;

    for (size_t i = 0; i < data->n_tensors; i++) {
        const char *name = vc_model_tensor(data, i)->name;

        if (strcmp(name, y != NULL ? y : "y") == 0 || strcmp(name, mask != NULL ? mask : "mask") == 0) {
            continue;
        }
        if (found != VC_NO_TENSOR) {
            return VC_NO_TENSOR;
        }
        found = i;
    }
    return found;
}

/* The graph has no other input that has to be given. */
static bool is_only_needed(const struct vc_graph *graph, const struct vc_graph_value *input)
{
    for (uint32_t k = 0; k < vc_graph_input_count(graph); k++) {
        const struct vc_graph_value *value = vc_graph_value(graph, vc_graph_input(graph, k));

        if (value->optional == (strcmp(value->name, input->name) == 0)) {
            return false;
        }
    }
    return true;
}

/* Refuses with the option that would name the array. */
enum vc_status vc_array_of_input(struct vc_ctx *ctx, const struct vc_model *data, struct vc_array_names names,
                                 const struct vc_graph *graph, const struct vc_graph_value *input, size_t *out)
{
    VC_CALL(vc_array_find(ctx, data, names, input->name, out));
    if (*out == VC_NO_TENSOR && is_only_needed(graph, input)) {
        *out = find_only(data, names);
    }
    VC_REFUSE_IF(*out == VC_NO_TENSOR && !input->optional, ctx, VC_E_ARGUMENT,
                 "%s: there is no array for the input %s of the graph; %s %s=NAME says which it is", data->path,
                 input->name, vc_option(ctx, "arrays"), input->name);
    return VC_OK;
}

enum vc_status vc_array_check_type(struct vc_ctx *ctx, const struct vc_model *data, const struct vc_tensor *array,
                                   const struct vc_graph_value *input)
{
    bool real = input->dtype == VC_DTYPE_F32;
    bool floats = array->dtype >= VC_DTYPE_F16 && array->dtype <= VC_DTYPE_F64;

    VC_REFUSE_IF(array->dtype == VC_DTYPE_RAW, ctx, VC_E_ARGUMENT, "%s: %s has no numbers, but objects or raw bytes",
                 data->path, array->name);
    VC_REFUSE_IF(array->quant != NULL || !(vc_is_integer(array->dtype) || (floats && real)), ctx, VC_E_ARGUMENT,
                 "%s: %s is of type %s; the input %s takes %s", data->path, array->name, vc_dtype_name(array->dtype),
                 input->name, real ? "numbers" : "integers");
    return VC_OK;
}

/* "[8, 16]". */
static void shape_text(const struct vc_tensor *t, char *text, size_t n)
{
    size_t at = (size_t)snprintf(text, n, "[");

    for (unsigned k = 0; k < t->n_dims && at < n; k++) {
        at += (size_t)snprintf(text + at, n - at, "%s%llu", k != 0 ? ", " : "", (unsigned long long)t->shape[k]);
    }
    if (at < n) {
        (void)snprintf(text + at, n - at, "]");
    }
}

enum vc_status vc_array_refuse_shape(struct vc_ctx *ctx, const struct vc_model *data, const struct vc_tensor *array,
                                     const struct vc_graph *graph, const struct vc_graph_value *input)
{
    char has[128], wants[128], dim[32];
    size_t at = (size_t)snprintf(wants, sizeof wants, "[");

    shape_text(array, has, sizeof has);
    for (unsigned k = 0; k < input->n_dims && at < sizeof wants; k++) {
        at += (size_t)snprintf(wants + at, sizeof wants - at, "%s%s", k != 0 ? ", " : "",
                               vc_graph_dim_text(graph, input->shape[k], dim, sizeof dim));
    }
    return vc_fail(ctx, VC_E_ARGUMENT, "%s: %s is %s; the input %s of the graph is %s]", data->path, array->name, has,
                   input->name, wants);
}
