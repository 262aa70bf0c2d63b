/* couple_graph.c - the couplings of a graph: terms for the axes of all values, the rule of every node, and what
 * lies in the tensors after that. Called by vc_couplings_of_graph (couplings, prune, shrink).
 *
 *     start         atoms for inputs and constants, which are fixed
 *     take_params   terms for the axes of tensors; slices of one tensor are parts of one axis
 *     apply_rules   node by node in order; then equal parts of Split; outputs of the graph are fixed
 *     say_shapes    shapes that an ONNX file declares
 *     take_work     multiply-adds as products of terms
 *     collect       each atom that lies in a tensor is a group; experts by names
 */
#include "graph/couple/couple_graph.h"

static const char is_input[] = "is an input of the graph";
static const char is_output[] = "is an output of the graph";

/* Gives each axis of the value an atom of its own. Of inputs and constants they are fixed: nothing of them can be
 * removed. */
static void take_atoms(struct vc_couple *c, uint32_t v)
{
    const struct vc_graph_value *value = &c->graph->values[v];

    for (unsigned k = 0; k < value->n_dims; k++) {
        uint32_t term = vc_axes_atom(&c->axes, value->shape[k]);

        if (value->kind != VC_VALUE_RESULT) {
            vc_axes_fix(&c->axes, term,
                        value->kind == VC_VALUE_INPUT ? is_input : "meets a constant with a number for each");
        }
        c->axis[c->first[v] + k] = term;
    }
}

/* depends[v]: the value changes with inputs of the graph; parameters and what is computed of them alone do
 * not. Parameters get their terms in vc_couple_take_params. */
static enum vc_status start(struct vc_couple *c)
{
    const struct vc_graph *graph = c->graph;
    size_t n = 0;

    VC_CALL(VC_ARRAY(c->ctx, VC_TAG_MISC, c->first, graph->n_values + (size_t)1));
    for (uint32_t v = 0; v < graph->n_values; v++) {
        c->first[v] = (uint32_t)n;
        n += graph->values[v].n_dims;
    }
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->axis, n + 1));
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->depends, graph->n_values + (size_t)1));
    VC_CALL(VC_ZEROS(c->ctx, VC_TAG_MISC, c->makes, graph->n_params + (size_t)1));
    VC_CALL(vc_axes_init(&c->axes, c->ctx, c->arena));
    for (uint32_t v = 0; v < graph->n_values && c->axes.status == VC_OK; v++) {
        c->depends[v] = graph->values[v].kind == VC_VALUE_INPUT;
        if (graph->values[v].kind == VC_VALUE_INPUT || graph->values[v].kind == VC_VALUE_CONSTANT) {
            take_atoms(c, v);
        }
    }
    return c->axes.status;
}

/* All axes of a value stay. */
static void fix_all(struct vc_couple *c, uint32_t v, const char *why)
{
    for (unsigned i = 0; i < c->graph->values[v].n_dims && c->axes.status == VC_OK; i++) {
        vc_axes_fix(&c->axes, c->axis[c->first[v] + i], why);
    }
}

/* Outputs get atoms before the rule runs, and the rule replaces those that it knows. Operators without a rule, and
 * unknown ones, mix everything: all their axes are fixed. Splits are checked last, when all joins are known. */
static enum vc_status apply_rules(struct vc_couple *c)
{
    const struct vc_graph *graph = c->graph;

    for (c->node = 0; c->node < graph->n_nodes && c->axes.status == VC_OK; c->node++) {
        const struct vc_graph_node *node = &graph->nodes[c->node];
        vc_couple_rule *rule = vc_couple_rule_of(node);
        bool depends = false;

        for (unsigned k = 0; k < node->n_inputs; k++) {
            depends = depends || vc_couple_depends(c, k);
        }
        for (unsigned k = 0; k < node->n_outputs; k++) {
            if (vc_couple_out(c, k) != NULL) {
                c->depends[node->outputs[k]] = depends;
                if (vc_couple_out(c, k)->kind == VC_VALUE_RESULT) {
                    take_atoms(c, node->outputs[k]);
                }
            }
        }
        if (rule != NULL) {
            rule(c);
        } else {
            vc_couple_mixes(c);
        }
        if (graph->dims.no_memory) {
            c->axes.status = VC_E_NOMEM;
        } else if (c->axes.status == VC_OK) {
            c->axes.status = vc_check_cancelled(c->ctx);
        }
    }
    for (c->node = 0; c->node < graph->n_nodes && c->axes.status == VC_OK; c->node++) {
        if (vc_node_is(&graph->nodes[c->node], VC_OP_split)) {
            vc_couple_check_split(c);
        }
    }
    for (uint32_t k = 0; k < graph->n_outputs; k++) {
        fix_all(c, graph->outputs[k], is_output);
    }
    for (uint32_t v = 0; v < graph->n_values; v++) {
        if (graph->facts[v].elsewhere) {
            fix_all(c, v, "is read by a branch of an If that is not computed here");
        }
    }
    return c->axes.status;
}

/* What a file declares: the shapes of values, and the bounds of slices that are parameters. */
static enum vc_status say_shapes(struct vc_couple *c)
{
    for (uint32_t v = 0; v < c->graph->n_values && c->axes.status == VC_OK; v++) {
        const struct vc_graph_value *value = &c->graph->values[v];
        struct vc_size sizes[VC_GRAPH_MAX_DIMS];

        if (c->graph->facts[v].written == VC_WRITTEN_NOT) {
            continue;
        }
        for (unsigned k = 0; k < value->n_dims; k++) {
            sizes[k] = (struct vc_size){.term = c->axis[c->first[v] + k]};
        }
        vc_couple_sizes_add(
            &c->axes, c->sizes,
            &(struct vc_said){.kind = VC_GRAPH_EDIT_SHAPE, .value = value->name, .n = value->n_dims, .sizes = sizes});
    }
    return c->axes.status;
}

static void release(struct vc_couple *c)
{
    vc_axes_release(&c->axes);
    VC_FREE_ALL(c->ctx, c->first, c->axis, c->depends, c->makes);
}

/* The terms move into couplings->sizes at the end: edits and multiply-adds are computed from them later. */
enum vc_status vc_couplings_of_graph(struct vc_ctx *ctx, struct vc_graph *graph, struct vc_couplings **out)
{
    struct vc_couple c = {.ctx = ctx, .graph = graph, .axes = {.ctx = ctx}, .of_file = graph->of_file};
    struct vc_couple_tensors tensors = {0};
    struct vc_couplings *couplings = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    vc_clear_error(ctx);
    VC_TRY(vc_couplings_create(ctx, &couplings));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, couplings->sizes, 1));
    c.arena = couplings->sizes->arena = &couplings->arena;
    couplings->sizes->axes.ctx = ctx;
    c.sizes = couplings->sizes;
    VC_TRY(start(&c));
    VC_TRY(vc_couple_take_params(&c, &tensors));
    VC_TRY(apply_rules(&c));
    VC_TRY(say_shapes(&c));
    VC_TRY(vc_couple_take_work(&c));
    vc_couple_collect_makes(&c, &tensors);
    VC_TRY(vc_couple_collect(&c, &tensors, couplings));
    if (!c.of_file) { /* nodes of a file would name tensors that are gone */
        VC_TRY(vc_couple_find_experts(&c, &tensors, couplings));
    }
    VC_TRY(vc_couplings_keep_names(couplings));
    VC_TRY(vc_couplings_finish(couplings));
    couplings->sizes->axes = c.axes;
    c.axes = (struct vc_axes){.ctx = ctx};
    *out = vc_give(&couplings);
out:
    vc_couple_tensors_release(ctx, &tensors);
    release(&c);
    vc_result_free(couplings);
    return status;
}
