/* forward.c - the reference forward pass: the values that are wanted, computed node by node, each kept
 * until its last use. Callers know where parameters and inputs come from (struct vc_run_calls).
 *
 *     begin     which nodes are needed, backwards from what is wanted; inputs; sizes checked for this run
 *     run_node  for each needed node in order: load parameters, run the operator's loop, check shapes, give wanted values;
 *               not what leads only to the other side of a choice (lazy.h)
 *     end       free what is left, also after a failure
 *
 * A chain x - conv - relu - fc - y, with y wanted:
 *
 *     uses       x 1, conv.w 1, conv 1, relu 1, fc.w 1, fc 1 (the node that reads it)
 *     conv       conv.w is read from the file; x and conv.w are freed behind the node
 *     relu       conv is freed
 *     fc         fc.w is read, relu and fc.w are freed; y is given to the caller, then freed
 *
 * The most that is in memory at once is therefore what the largest node reads and makes, beside values that
 * are used again later.
 *
 * It is the definition of what a graph computes: slow, in one fixed order, in f32 or f64. The engine's
 * programs are compared with it. */
#include "graph/forward.h"

#include "graph/lazy.h"
#include "graph/ops/ops.h"
#include "graph/sizes.h"

/* One run. Lists have an element for each value or node of the graph. */
struct forward {
    struct vc_ctx *ctx;
    struct vc_graph *graph;
    enum vc_precision precision;
    const struct vc_run_calls *calls;
    struct vc_run_value *values;      /* one per value of the graph */
    const struct vc_run_value *feeds; /* the same: values that are known already; may be NULL */
    uint32_t *uses;                   /* that are still to come */
    bool *needed;                     /* nodes */
    uint32_t *guards;                 /* of nodes: lazy.h */
    bool *wanted;                     /* values */
};

/* ---- the walk over the graph ---- */

/* Bytes of one element in memory: 4 or 8 of a float, by the precision; 8 of an integer or truth value. */
static size_t element_bytes(const struct forward *f, bool is_real)
{
    return is_real && f->precision == VC_PRECISION_F32 ? sizeof(float) : 8;
}

/* The elements of a constant, of which the graph has floats as double. */
static enum vc_status load_constant(struct forward *f, const struct vc_graph_value *value, struct vc_run_value *to)
{
    if (to->is_real && f->precision == VC_PRECISION_F32) {
        for (size_t k = 0; k < to->n; k++) {
            ((float *)to->data)[k] = (float)((const double *)value->data)[k];
        }
    } else {
        memcpy(to->data, value->data, 8 * to->n);
    }
    return VC_OK;
}

/* True if the caller knows the value already (vc_graph_forward_from): it is neither computed nor freed here. */
static bool is_fed(const struct forward *f, uint32_t v)
{
    return f->feeds != NULL && f->feeds[v].data != NULL;
}

/* The elements of a value, wherever they are. */
static const struct vc_run_value *value_of(const struct forward *f, uint32_t v)
{
    return is_fed(f, v) ? &f->feeds[v] : &f->values[v];
}

/* Makes a parameter or constant ready in values[v], if it is not there. Parameters are read at their first use and
 * not before, so that only those alive at the same time are in memory. */
static enum vc_status load(struct forward *f, uint32_t v)
{
    const struct vc_graph_value *value = &f->graph->values[v];
    struct vc_run_value *to = &f->values[v];

    if (to->data != NULL || is_fed(f, v) || value->kind == VC_VALUE_RESULT || value->kind == VC_VALUE_INPUT) {
        return VC_OK;
    }
    to->n_dims = value->n_dims;
    to->is_real = value->dtype == VC_DTYPE_F32;
    to->n = 1;
    for (unsigned k = 0; k < value->n_dims; k++) { /* numbers all: parameters and constants depend on nothing */
        to->shape[k] = value->shape[k].size;
        VC_REFUSE_IF(!vc_mul_size(to->n, (size_t)to->shape[k], &to->n), f->ctx, VC_E_FORMAT, "%s: the size overflows",
                     value->name);
    }
    to->data = vc_alloc_array(f->ctx, VC_TAG_TILES, to->n != 0 ? to->n : 1, element_bytes(f, to->is_real));
    VC_CALL_ALLOC(to->data);
    return value->kind == VC_VALUE_CONSTANT
               ? load_constant(f, value, to)
               : f->calls->param(f->ctx, f->calls->user, &f->graph->params[value->param], to->data);
}

/* Frees the elements, if there are some. */
static void drop(struct forward *f, uint32_t v)
{
    vc_free(f->ctx, vc_give(&f->values[v].data));
}

/* One use less; after the last one the value goes.
 * A value that one node reads twice has two uses. */
static void release(struct forward *f, uint32_t v)
{
    f->uses[v]--;
    if (f->uses[v] == 0) {
        drop(f, v);
    }
}

/* Gives the value to the caller, once: wanted[v] is cleared then. */
static enum vc_status take_if_wanted(struct forward *f, uint32_t v)
{
    if (f->wanted[v]) {
        VC_CALL(load(f, v));
        VC_CALL(f->calls->take(f->ctx, f->calls->user, v, value_of(f, v)));
        f->wanted[v] = false;
    }
    return VC_OK;
}

/* Compares what the node made with what was inferred, for the sizes of this run. While the graph was built, a
 * symbol that met a number was taken to be that number, and a slice to lie within its input: here such an
 * assumption shows. A difference of rank or type can only be our own fault.
 * A size that still depends on nothing known (stated < 0) is not compared. */
static enum vc_status check_output(struct forward *f, const struct vc_graph_node *node, uint32_t v,
                                   const struct vc_run_value *made)
{
    const struct vc_graph_value *value = &f->graph->values[v];
    bool same = made->n_dims == value->n_dims && made->is_real == (value->dtype == VC_DTYPE_F32);

    VC_REFUSE_IF(!same, f->ctx, VC_E_INTERNAL, "%s '%s': %u dimensions or the type are not what was inferred", node->op,
                 value->name, made->n_dims);
    for (unsigned k = 0; same && k < value->n_dims; k++) {
        int64_t stated = vc_dim_value(&f->graph->dims, value->shape[k]);

        same = stated == made->shape[k] || stated < 0;
    }
    return same ? VC_OK : vc_graph_refuse_sizes(f->ctx, f->graph, v, made->shape);
}

/* Loads the inputs, runs the loop of the operator, and moves its outputs into values. Outputs that cannot be kept
 * are freed before the status is looked at, so that a failing operator leaks nothing. */
static enum vc_status run_node(struct forward *f, uint32_t index)
{
    const struct vc_graph_node *node = &f->graph->nodes[index];
    const struct vc_op_row *row = node->row;
    struct vc_run run = {
        .ctx = f->ctx, .graph = f->graph, .node = node, .n_in = node->n_inputs, .real_bytes = element_bytes(f, true)};
    enum vc_status status = VC_OK;

    VC_TRY(VC_ZEROS(f->ctx, VC_TAG_MISC, run.in, node->n_inputs + (size_t)1));
    VC_TRY(VC_ZEROS(f->ctx, VC_TAG_MISC, run.out, node->n_outputs + (size_t)1));
    for (unsigned k = 0; k < node->n_inputs; k++) {
        if (node->inputs[k] != VC_NO_VALUE) {
            VC_TRY(load(f, node->inputs[k]));
            run.in[k] = value_of(f, node->inputs[k]);
        }
    }
    for (unsigned k = 1; vc_node_is(node, VC_OP_where) && k < 3; k++) { /* a side that is not chosen */
        run.in[k] = run.in[k]->data == NULL ? run.in[3 - k] : run.in[k];
    }
    (f->precision == VC_PRECISION_F32 ? row->run_f32 : row->run_f64)(&run);
    for (unsigned k = 0; k < node->n_outputs; k++) { /* kept or freed in any case */
        if (node->outputs[k] != VC_NO_VALUE && f->values[node->outputs[k]].data == NULL) {
            f->values[node->outputs[k]] = run.out[k];
        } else {
            vc_free(f->ctx, run.out[k].data);
        }
    }
    VC_TRY(run.status);
    for (unsigned k = 0; k < node->n_outputs; k++) {
        uint32_t v = node->outputs[k];

        if (v != VC_NO_VALUE) {
            if (f->values[v].data != NULL) {
                VC_TRY(check_output(f, node, v, &f->values[v]));
            }
            VC_TRY(take_if_wanted(f, v));
            if (f->uses[v] == 0) {
                drop(f, v);
            }
        }
    }
out:
    VC_FREE_ALL(f->ctx, run.in, run.out);
    return status;
}

/* vc_guard_holds. */
static bool is_true(const void *user, uint32_t choice)
{
    const struct forward *f = user;

    return *(const int64_t *)value_of(f, f->graph->nodes[choice].inputs[0])->data != 0;
}

/* Runs the node, unless a choice leaves it out; its inputs have one use less. */
static enum vc_status pass_node(struct forward *f, uint32_t index)
{
    const struct vc_graph_node *node = &f->graph->nodes[index];

    if (vc_guard_holds(f->guards, f->guards[index], is_true, f)) {
        VC_CALL(run_node(f, index));
    }
    for (unsigned k = 0; k < node->n_inputs; k++) {
        if (node->inputs[k] != VC_NO_VALUE) {
            release(f, node->inputs[k]);
        }
    }
    return VC_OK;
}

/* Checks the shape of an input against the graph. A dimension that is a single symbol without a size gets the size
 * that the input has; each later input has to agree: "the input 'mask' has size 12 in dimension 1; the model takes
 * sequence". */
static enum vc_status bind_input(struct forward *f, uint32_t v)
{
    const struct vc_graph_value *value = &f->graph->values[v];
    const struct vc_run_value *input = &f->values[v];

    VC_REFUSE_IF(input->n_dims != value->n_dims, f->ctx, VC_E_ARGUMENT,
                 "the input '%s' has %u dimensions; the model takes %u", value->name, input->n_dims, value->n_dims);
    for (unsigned k = 0; k < value->n_dims; k++) {
        char text[128];
        int64_t size = vc_dim_value(&f->graph->dims, value->shape[k]);

        vc_dim_text(&f->graph->dims, value->shape[k], text, sizeof text);
        if (size < 0 && vc_dim_bind(&f->graph->dims, text, input->shape[k])) {
            continue;
        }
        VC_REFUSE_IF(size != input->shape[k], f->ctx, VC_E_ARGUMENT,
                     "the input '%s' has size %lld in dimension %u; the model takes %s", value->name,
                     (long long)input->shape[k], k, text);
    }
    return VC_OK;
}

/* Sizes of an earlier run, or of the caller, do not hold for these inputs.
 * Quotients are known or not by the same flag, and vc_dim_bind sets them anew. */
static void forget_bindings(struct vc_dims *dims)
{
    for (uint32_t k = 0; k < dims->n_atoms; k++) {
        dims->atoms[k].known = false;
    }
}

/* An optional input that was not given: an array of its default value (1 for attention_mask) in the shape that the
 * sizes of the other inputs give. */
static enum vc_status fill_option(struct forward *f, uint32_t v)
{
    const struct vc_graph_value *value = &f->graph->values[v];
    struct vc_run_value *to = &f->values[v];

    if (to->data != NULL) {
        return VC_OK;
    }
    to->n_dims = value->n_dims;
    to->is_real = value->dtype == VC_DTYPE_F32;
    to->n = 1;
    for (unsigned k = 0; k < value->n_dims; k++) {
        to->shape[k] = vc_dim_value(&f->graph->dims, value->shape[k]);
        VC_REFUSE_IF(!(to->shape[k] >= 0 && vc_mul_size(to->n, (size_t)to->shape[k], &to->n)), f->ctx, VC_E_ARGUMENT,
                     "the input '%s' is missing: no other input tells its size", value->name);
    }
    to->data = vc_alloc_array(f->ctx, VC_TAG_TILES, to->n != 0 ? to->n : 1, element_bytes(f, to->is_real));
    VC_CALL_ALLOC(to->data);
    for (size_t i = 0; i < to->n; i++) {
        if (!to->is_real) {
            ((int64_t *)to->data)[i] = value->otherwise;
        } else if (f->precision == VC_PRECISION_F32) {
            ((float *)to->data)[i] = (float)value->otherwise;
        } else {
            ((double *)to->data)[i] = (double)value->otherwise;
        }
    }
    return VC_OK;
}

/* Reads the inputs that are needed, in two walks: the first reads those that are given and binds symbols, the
 * second fills optional ones, whose shapes need the symbols. With feeds the inputs are known and symbols have their
 * sizes. */
static enum vc_status read_inputs(struct forward *f)
{
    if (f->feeds != NULL) {
        return VC_OK;
    }
    forget_bindings(&f->graph->dims);
    for (uint32_t k = 0; k < f->graph->n_inputs; k++) {
        uint32_t v = f->graph->inputs[k];

        if (f->uses[v] == 0 && !f->wanted[v]) {
            continue; /* nothing that is wanted needs it */
        }
        VC_CALL(f->calls->input(f->ctx, f->calls->user, k, &f->values[v]));
        if (f->values[v].data != NULL) {
            VC_CALL(bind_input(f, v));
        }
    }
    for (uint32_t k = 0; k < f->graph->n_inputs; k++) { /* of sizes that the others have */
        uint32_t v = f->graph->inputs[k];

        if (f->uses[v] != 0 || f->wanted[v]) {
            VC_CALL(fill_option(f, v));
        }
    }
    return VC_OK;
}

/* Backwards from what is wanted: a node is needed if one of its outputs is used or wanted, and then it uses its
 * inputs. uses[v] becomes the number of needed nodes that read v; run_node counts it down. */
static void mark(struct forward *f)
{
    const struct vc_graph *graph = f->graph;

    for (uint32_t k = graph->n_nodes; k-- > 0;) {
        const struct vc_graph_node *node = &graph->nodes[k];

        for (unsigned i = 0; i < node->n_outputs; i++) {
            uint32_t v = node->outputs[i];

            f->needed[k] |= v != VC_NO_VALUE && !is_fed(f, v) && (f->uses[v] != 0 || f->wanted[v]);
        }
        for (unsigned i = 0; f->needed[k] && i < node->n_inputs; i++) {
            if (node->inputs[i] != VC_NO_VALUE) {
                f->uses[node->inputs[i]]++;
            }
        }
    }
}

/* With feeds, sizes were checked by the run that made them (vc_graph_read_inputs). */
static enum vc_status begin(struct forward *f, const uint32_t *wanted, size_t n_wanted)
{
    size_t n = f->graph->n_values + (size_t)1;

    VC_CALL(VC_ZEROS(f->ctx, VC_TAG_MISC, f->values, n));
    VC_CALL(VC_ZEROS(f->ctx, VC_TAG_MISC, f->uses, n));
    VC_CALL(VC_ZEROS(f->ctx, VC_TAG_MISC, f->needed, f->graph->n_nodes + (size_t)1));
    VC_CALL(VC_ZEROS(f->ctx, VC_TAG_MISC, f->wanted, n));
    for (size_t k = 0; k < n_wanted; k++) {
        f->wanted[wanted[k]] = true;
    }
    mark(f);
    VC_CALL(vc_graph_find_guards(f->ctx, f->graph, f->wanted, &f->guards));
    VC_CALL(read_inputs(f));
    return f->feeds == NULL ? vc_graph_check_sizes(f->ctx, f->graph, wanted, n_wanted) : VC_OK;
}

/* Accepts what is half made. */
static void end(struct forward *f)
{
    for (uint32_t v = 0; f->values != NULL && v < f->graph->n_values; v++) {
        vc_free(f->ctx, f->values[v].data);
    }
    VC_FREE_ALL(f->ctx, f->values, f->uses, f->needed, f->guards, f->wanted);
}

/* All of it from inputs and parameters. */
enum vc_status vc_graph_forward(struct vc_ctx *ctx, struct vc_graph *graph, enum vc_precision precision,
                                const struct vc_run_calls *calls, const uint32_t *wanted, size_t n_wanted)
{
    return vc_graph_forward_from(ctx, graph, precision, calls, NULL, wanted, n_wanted);
}

/* begin() reads inputs into its own array; they move to the caller's `values`, also after a failure, so that the
 * caller has one place to free. */
enum vc_status vc_graph_read_inputs(struct vc_ctx *ctx, struct vc_graph *graph, enum vc_precision precision,
                                    const struct vc_run_calls *calls, const uint32_t *wanted, size_t n_wanted,
                                    struct vc_run_value *values)
{
    struct forward f = {.ctx = ctx, .graph = graph, .precision = precision, .calls = calls};
    enum vc_status status = begin(&f, wanted, n_wanted);

    for (uint32_t k = 0; f.values != NULL && k < graph->n_inputs; k++) {
        uint32_t v = graph->inputs[k];

        if (f.values[v].data != NULL) {
            values[v] = f.values[v];
            f.values[v].data = NULL;
        }
    }
    end(&f);
    return status;
}

/* Inputs that are wanted are given first, results when they are there, parameters and constants last. */
enum vc_status vc_graph_forward_from(struct vc_ctx *ctx, struct vc_graph *graph, enum vc_precision precision,
                                     const struct vc_run_calls *calls, const struct vc_run_value *feeds,
                                     const uint32_t *wanted, size_t n_wanted)
{
    struct forward f = {.ctx = ctx, .graph = graph, .precision = precision, .calls = calls, .feeds = feeds};
    enum vc_status status = VC_OK;

    VC_TRY(begin(&f, wanted, n_wanted));
    for (uint32_t k = 0; k < graph->n_inputs; k++) {
        VC_TRY(take_if_wanted(&f, graph->inputs[k]));
    }
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        if (f.needed[k]) {
            VC_TRY(vc_check_cancelled(ctx));
            VC_TRY(pass_node(&f, k));
        }
    }
    for (uint32_t v = 0; v < graph->n_values; v++) { /* parameters and constants that were asked for */
        VC_TRY(take_if_wanted(&f, v));
    }
out:
    end(&f);
    return status;
}
