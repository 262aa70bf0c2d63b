/* plan_define.c - nodes that no gradient goes through and that have no loops of their own: masks and
 * indices from token ids, mostly. Each is one instruction of one block, which runs the definition of graph/
 * on the engine's memory.
 *
 *     Range, CumSum, Equal, Where, Trilu, Cast to integers, ...
 *
 *     when the program is made     shapes of inputs and outputs are described (struct define), memory is planned
 *     when it runs                 pointers are set, row->run_f32 or row->run_f64 computes
 *
 * The sizes are known when the program is made, so that an output of another size cannot come out;
 * definitions that fail (an index out of range) leave a status and a message in e->define_ctx.
 *
 * The instruction has no kernel for devices. An engine on a device fetches what it reads and sends what it
 * makes (engine_device.c). */
#include "engine/train_program.h"
#include "graph/ops/run.h"

/* What a definition is run with: values as graph/ has them, whose data are set at each run. */
struct define {
    struct vc_engine *e;
    uint32_t node;
    unsigned n_in, n_out;
    struct vc_run_value *in, *out;   /* shapes */
    const struct vc_run_value **ins; /* NULL: not given */
    void **places;                   /* memory of outputs */
};

/* Sets the pointers and runs the definition. Its failure is noted, and the pass ends with it.
 * Definitions allocate an output that has no place; it is freed at once, since nobody reads it. */
static void run_define(const struct vc_train_call *call, const struct vc_engine_pass *pass, unsigned worker,
                       size_t block)
{
    const struct define *d = call->args;
    struct vc_engine *e = d->e;
    const struct vc_op_row *row = vc_plan_node(e, d->node)->row;
    struct vc_run run = {.ctx = &e->define_ctx,
                         .graph = e->graph,
                         .node = vc_plan_node(e, d->node),
                         .n_in = d->n_in,
                         .in = d->ins,
                         .out = d->out,
                         .places = d->places,
                         .real_bytes = vc_real_bytes(e->weights->precision)};
    unsigned at = 0;

    for (unsigned k = 0; k < d->n_in; k++) {
        if (d->ins[k] != NULL) {
            d->in[k].data = call->p[at++];
        }
    }
    for (unsigned k = 0; k < d->n_out; k++) {
        d->places[k] = call->p[at++];
    }
    (e->weights->precision == VC_GRAPH_F64 ? row->run_f64 : row->run_f32)(&run);
    for (unsigned k = 0; k < d->n_out; k++) { /* what nobody reads has no memory of the engine's */
        if (d->places[k] == NULL) {
            vc_free(run.ctx, d->out[k].data);
        }
        d->out[k].data = NULL;
    }
    if (run.status != VC_OK && e->define_status == VC_OK) {
        e->define_status = run.status;
    }
}

/* A value as graph/ has it, without data. */
static struct vc_run_value describe(const struct vc_plan_value *x)
{
    struct vc_run_value value = {.n_dims = x->n_dims, .n = (size_t)x->n, .is_real = x->real};

    for (unsigned k = 0; k < x->n_dims; k++) {
        value.shape[k] = x->shape[k];
    }
    return value;
}

/* Loops of the engine compute floats: a node with another result needs its definition. Views move no
 * elements and have neither. */
bool vc_plan_makes_integers(const struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);

    for (unsigned k = 0; k < n->n_outputs && !vc_node_is_view(n); k++) {
        if (n->outputs[k] != VC_NO_VALUE && e->graph->values[n->outputs[k]].dtype != VC_DTYPE_F32) {
            return true;
        }
    }
    return false;
}

/* False where a gradient goes through an output, since definitions have none: such a node needs loops or is
 * refused. */
bool vc_plan_is_defined(const struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);

    if (n->row == NULL || vc_node_is_view(n)) {
        return false;
    }
    for (unsigned k = 0; k < n->n_outputs; k++) {
        const struct vc_plan_value *y = vc_plan_out(e, node, k);

        if (y != NULL && y->trained) {
            return false;
        }
    }
    return vc_train_op_of(n) == NULL || vc_plan_makes_integers(e, node) || vc_plan_asks_definition(e, node);
}

/* Refs are in the order in which run_define takes pointers: inputs that are given, then all outputs. */
void vc_plan_define(struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    struct define *d = vc_plan_args(e, sizeof *d);
    struct vc_ref refs[VC_REFS];
    unsigned n_refs = 0;

    if (d == NULL || vc_plan_codes(e, node)) {
        return;
    }
    *d = (struct define){.e = e, .node = node, .n_in = n->n_inputs, .n_out = n->n_outputs};
    d->in = vc_plan_args(e, (d->n_in + (size_t)1) * sizeof *d->in);
    d->out = vc_plan_args(e, (d->n_out + (size_t)1) * sizeof *d->out);
    d->ins = vc_plan_args(e, (d->n_in + (size_t)1) * sizeof *d->ins);
    d->places = vc_plan_args(e, (d->n_out + (size_t)1) * sizeof *d->places);
    if (e->status != VC_OK) {
        return;
    }
    if (d->n_in + d->n_out > VC_REFS) {
        vc_plan_fail(e, node, "it has %u inputs and outputs, more than %u", d->n_in + d->n_out, VC_REFS);
        return;
    }
    for (unsigned k = 0; k < d->n_in; k++) {
        if (vc_plan_in(e, node, k) != NULL) {
            d->in[k] = describe(vc_plan_in(e, node, k));
            d->ins[k] = &d->in[k];
            refs[n_refs++] = vc_plan_data(e, node, k);
        }
    }
    for (unsigned k = 0; k < d->n_out; k++) {
        const struct vc_plan_value *y = vc_plan_out(e, node, k);

        d->out[k] = y != NULL ? describe(y) : (struct vc_run_value){0};
        refs[n_refs++] = y != NULL && y->made ? vc_plan_make(e, node, k, false) : (struct vc_ref){0};
    }
    vc_plan_emit_run(e, node, run_define, d, refs, n_refs, d->n_out);
}
