/* couple_rules.c - what rules are made of: axes of the node's values as terms, reasons, and what the file states
 * about sizes. Which rule an operator has: couple_table.c. */
#include "graph/couple/couple_rules.h"

/* ---- for rules ---- */

const struct vc_graph_node *vc_couple_node(const struct vc_couple *c)
{
    return &c->graph->nodes[c->node];
}

const struct vc_graph_value *vc_couple_in(const struct vc_couple *c, unsigned k)
{
    const struct vc_graph_node *node = vc_couple_node(c);

    return k < node->n_inputs && node->inputs[k] != VC_NO_VALUE ? &c->graph->values[node->inputs[k]] : NULL;
}

const struct vc_graph_value *vc_couple_out(const struct vc_couple *c, unsigned k)
{
    const struct vc_graph_node *node = vc_couple_node(c);

    return k < node->n_outputs && node->outputs[k] != VC_NO_VALUE ? &c->graph->values[node->outputs[k]] : NULL;
}

uint32_t vc_couple_axis(const struct vc_couple *c, unsigned k, unsigned axis)
{
    return c->axis[c->first[vc_couple_node(c)->inputs[k]] + axis];
}

uint32_t vc_couple_out_axis(const struct vc_couple *c, unsigned axis)
{
    return c->axis[c->first[vc_couple_node(c)->outputs[0]] + axis];
}

/* Values that became constants keep the terms of constants. */
void vc_couple_set(struct vc_couple *c, unsigned k, unsigned axis, uint32_t term)
{
    const struct vc_graph_value *out = vc_couple_out(c, k);

    if (out != NULL && axis < out->n_dims && out->kind == VC_VALUE_RESULT) {
        c->axis[c->first[vc_couple_node(c)->outputs[k]] + axis] = term;
    }
}

void vc_couple_pass(struct vc_couple *c)
{
    for (unsigned k = 0; k < vc_couple_in(c, 0)->n_dims; k++) {
        vc_couple_set(c, 0, k, vc_couple_axis(c, 0, k));
    }
}

void vc_couple_broadcast(struct vc_couple *c, unsigned k)
{
    const struct vc_graph_value *in = vc_couple_in(c, k);
    unsigned n = vc_couple_out(c, 0)->n_dims;
    const uint32_t *out = c->axis + c->first[vc_couple_node(c)->outputs[0]];

    for (unsigned i = 0; in != NULL && i < in->n_dims && i < n; i++) {
        vc_axes_join(&c->axes, vc_couple_axis(c, k, in->n_dims - 1 - i), out[n - 1 - i]);
    }
}

/* "goes through TopK, which %s" */
static const char *goes_through(struct vc_couple *c, const char *what)
{
    const char *text = vc_arena_printf(c->ctx, c->arena, "goes through %s, which %s", vc_couple_node(c)->op, what);

    if (text == NULL) {
        c->axes.status = VC_E_NOMEM;
    }
    return text != NULL ? text : "";
}

/* The sentence is only made if an atom can still take it: graphs fix the same axis in every layer. */
void vc_couple_fix(struct vc_couple *c, uint32_t term, const char *what)
{
    uint32_t at = vc_axes_resolve(&c->axes, term);

    if (at != VC_AXIS_ONE &&
        (vc_axes_term(&c->axes, at)->kind != VC_TERM_ATOM || vc_axes_term(&c->axes, at)->fixed == NULL)) {
        vc_axes_fix(&c->axes, at, goes_through(c, what));
    }
}

void vc_couple_set_fixed(struct vc_couple *c, unsigned k, unsigned axis, const char *what)
{
    const struct vc_graph_value *out = vc_couple_out(c, k);

    if (out != NULL) {
        uint32_t term = vc_axes_atom(&c->axes, out->shape[axis]);
        vc_couple_fix(c, term, what);
        vc_couple_set(c, k, axis, term);
    }
}

void vc_couple_fix_input(struct vc_couple *c, unsigned k, const char *what)
{
    const struct vc_graph_value *in = vc_couple_in(c, k);

    for (unsigned i = 0; in != NULL && i < in->n_dims; i++) {
        vc_couple_fix(c, vc_couple_axis(c, k, i), what);
    }
}

void vc_couple_makes(struct vc_couple *c, unsigned k, unsigned axis)
{
    const struct vc_graph_value *in = vc_couple_in(c, k);

    if (in != NULL && in->kind == VC_VALUE_PARAMETER) {
        c->makes[in->param] |= (uint8_t)(1u << axis);
    }
}

bool vc_couple_depends(const struct vc_couple *c, unsigned k)
{
    return vc_couple_in(c, k) != NULL && c->depends[vc_couple_node(c)->inputs[k]];
}

/* The output by whose name the file's node is found: the first that has one there; else output 0. */
static uint32_t named_output(const struct vc_couple *c)
{
    const struct vc_graph_node *node = vc_couple_node(c);

    for (unsigned k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] != VC_NO_VALUE && c->graph->facts[node->outputs[k]].written != VC_WRITTEN_NOT) {
            return node->outputs[k];
        }
    }
    return node->outputs[0];
}

/* How the file has the node. */
static enum vc_written written(const struct vc_couple *c)
{
    uint32_t v = named_output(c);

    return v == VC_NO_VALUE ? VC_WRITTEN_NOT : c->graph->facts[v].written;
}

static const char *node_value(const struct vc_couple *c)
{
    return c->graph->values[named_output(c)].name;
}

/* The file that the graph is from has the node, so sizes that it says have to be written anew when they change. */
static bool is_written(const struct vc_couple *c)
{
    return written(c) == VC_WRITTEN_NODE || written(c) == VC_WRITTEN_ATTRS;
}

static const char in_other_words[] =
    "is one of several operators in the file, or in a function or a graph inside a node";

/* In graphs of configs and GGUF no node states sizes: their documents are edited elsewhere (c->of_file is false). */
void vc_couple_state(struct vc_couple *c, const char *attribute, uint32_t term)
{
    if (c->of_file && !is_written(c)) {
        vc_couple_fix(c, term, in_other_words);
    } else if (c->of_file) {
        vc_couple_sizes_add(&c->axes, c->sizes,
                            &(struct vc_said){.kind = VC_GRAPH_EDIT_ATTRIBUTE,
                                              .value = node_value(c),
                                              .attribute = attribute,
                                              .n = 1,
                                              .sizes = &(struct vc_size){.term = term}});
    }
}

/* Sizes in words of the file that no edit can reach (several operators, functions) fix the axes instead. */
void vc_couple_say(struct vc_couple *c, unsigned input, const char *attribute, const struct vc_size *sizes, size_t n)
{
    bool is_attribute = written(c) == VC_WRITTEN_ATTRS && attribute != NULL;

    for (size_t k = 0; k < n && c->of_file && !is_written(c); k++) {
        vc_couple_fix(c, sizes[k].term, in_other_words);
        vc_couple_fix(c, sizes[k].watch, in_other_words);
    }
    if (is_written(c)) {
        vc_couple_sizes_add(&c->axes, c->sizes,
                            &(struct vc_said){.kind = is_attribute ? VC_GRAPH_EDIT_ATTRIBUTE : VC_GRAPH_EDIT_INPUT,
                                              .value = node_value(c),
                                              .attribute = is_attribute ? attribute : NULL,
                                              .input = input,
                                              .n = n,
                                              .sizes = sizes});
    }
}

const char vc_couple_unsayable[] = "states sizes that depend on inputs beside it";

void vc_couple_say_or_fix(struct vc_couple *c, unsigned input, const struct vc_size *sizes, size_t n, bool known)
{
    if (known) {
        vc_couple_say(c, input, NULL, sizes, n);
        return;
    }
    for (size_t k = 0; k < n && c->of_file; k++) {
        vc_couple_fix(c, sizes[k].term, vc_couple_unsayable);
        vc_couple_fix(c, sizes[k].watch, vc_couple_unsayable);
    }
}

const struct vc_graph_attr *vc_couple_attr(const struct vc_couple *c, const char *name)
{
    return vc_node_attr(vc_couple_node(c), name);
}

int64_t vc_couple_int(const struct vc_couple *c, const char *name, int64_t otherwise)
{
    const struct vc_graph_attr *attr = vc_couple_attr(c, name);

    return attr != NULL && attr->kind == VC_ATTR_INT ? attr->i : otherwise;
}

unsigned vc_couple_int_axis(const struct vc_couple *c, const char *name, int64_t otherwise, unsigned n_dims)
{
    return vc_couple_place(vc_couple_int(c, name, otherwise), n_dims);
}

const struct vc_dim *vc_couple_elems(const struct vc_couple *c, unsigned k, size_t *n)
{
    const struct vc_graph_value *in = vc_couple_in(c, k);
    const struct vc_dim *elems = in == NULL ? NULL : c->graph->facts[vc_couple_node(c)->inputs[k]].elems;

    *n = elems == NULL ? 0 : in->n_dims == 0 ? 1 : (size_t)in->shape[0].size;
    return elems;
}
