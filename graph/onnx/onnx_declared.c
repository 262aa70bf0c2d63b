/* onnx_declared.c - what an ONNX file says about the values between its nodes (value_info) and its outputs, against
 * what follows from the nodes; and whether it says all dimensions of a value.
 *
 *     the file says that the shape of 'h' is [batch, 64]; it is [batch, 32] */

#include "graph/onnx/onnx_build.h"

/* "[batch, 3]"; "?" where the file says nothing. */
static const char *declared_text(const struct vc_program_value *value, char *text, size_t n)
{
    size_t at = (size_t)snprintf(text, n, "[");

    for (unsigned d = 0; d < value->n_dims && at < n; d++) {
        const struct vc_program_dim *dim = &value->shape[d];

        const char *between = d != 0 ? ", " : "";

        if (dim->name == NULL && dim->size >= 0) {
            at += (size_t)snprintf(text + at, n - at, "%s%" PRId64, between, dim->size);
        } else {
            at += (size_t)snprintf(text + at, n - at, "%s%.40s", between,
                                   dim->name != NULL && *dim->name != '\0' ? dim->name : "?");
        }
    }
    if (at < n) {
        (void)snprintf(text + at, n - at, "]");
    }
    return text;
}

static const char *inferred_text(const struct vc_graph *graph, const struct vc_graph_value *value, char *text, size_t n)
{
    size_t at = (size_t)snprintf(text, n, "[");
    char dim[80];

    for (unsigned d = 0; d < value->n_dims && at < n; d++) {
        at += (size_t)snprintf(text + at, n - at, "%s%s", d != 0 ? ", " : "",
                               vc_graph_dim_text(graph, value->shape[d], dim, sizeof dim));
    }
    if (at < n) {
        (void)snprintf(text + at, n - at, "]");
    }
    return text;
}

static bool is_stated(const struct vc_program_dim *dim)
{
    return dim->name != NULL ? *dim->name != '\0' : dim->size >= 0;
}

/* A declared type or shape that differs from what the nodes make is a problem: the file was damaged or
 * edited in part. No contradictions: a shape without dimensions (many writers mean "unknown"), names of
 * dimensions (exporters give them as they like), a number where a symbol was found (exported for one size),
 * a type that the graph does not have. */
static void check_declared(struct vc_onnx_build *b, const struct vc_program_value *said)
{
    const struct vc_onnx_name *name = vc_onnx_find_name(b, said->name);
    struct vc_graph_value *value;
    enum vc_dtype kind = vc_onnx_kind(said->dtype);
    char text[2][300];

    if (name == NULL || !name->is_made || name->value == VC_NO_VALUE || b->graph->facts[name->value].unknown) {
        return;
    }
    value = &b->graph->values[name->value];
    bool same = kind == VC_DTYPE_RAW || kind == value->dtype;
    if (!same) {
        vc_graph_complain(b->graph, "the file says that '%s' has %s; it has %s", said->name, vc_onnx_kind_text(kind),
                          vc_onnx_kind_text(value->dtype));
        return;
    }
    same = said->n_dims == 0 || said->n_dims == value->n_dims;
    value->stated = said->n_dims != 0;
    for (unsigned d = 0; same && d < said->n_dims && d < value->n_dims; d++) {
        value->stated = value->stated && is_stated(&said->shape[d]);
        same = said->shape[d].name != NULL || said->shape[d].size < 0 || !vc_dim_is_number(value->shape[d]) ||
               said->shape[d].size == value->shape[d].size;
    }
    if (!same) {
        vc_graph_complain(b->graph, "the file says that the shape of '%s' is %s; it is %s", said->name,
                          declared_text(said, text[0], sizeof text[0]),
                          inferred_text(b->graph, value, text[1], sizeof text[1]));
    }
}

void vc_onnx_check_declared(struct vc_onnx_build *b)
{
    for (size_t k = 0; k < b->program->n_declared; k++) {
        check_declared(b, &b->program->declared[k]);
    }
    for (size_t k = 0; k < b->program->n_outputs; k++) {
        check_declared(b, &b->program->outputs[k]);
    }
}
