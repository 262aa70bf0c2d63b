/* couple_einsum.c - the rule of Einsum: axes with one letter are the same. */
#include "graph/couple/couple_rules.h"
#include "graph/ops/einsum.h"

/* What the inputs say about a letter. */
struct letter {
    uint32_t term;      /* VC_AXIS_ONE: of no input with a size above 1 */
    unsigned n_inputs;  /* that have it */
    unsigned n_depends; /* those of them that are computed from inputs of the graph */
    bool in_output;
};

/* Joins the axes with the same letter. False if a letter comes twice in an input: a diagonal ties the axis to
 * itself. */
static bool join_letters(struct vc_couple *c, const struct vc_einsum *e, struct letter *letters)
{
    for (unsigned k = 0; k < e->n_inputs; k++) {
        for (unsigned i = 0; i < e->n_dims[k]; i++) {
            struct letter *letter = &letters[e->labels[k][i]];
            uint32_t term = vc_couple_axis(c, k, i);

            for (unsigned j = 0; j < i; j++) {
                if (e->labels[k][j] == e->labels[k][i]) {
                    return false;
                }
            }
            vc_axes_join(&c->axes, letter->term, term);
            letter->term = vc_axes_resolve(&c->axes, letter->term) == VC_AXIS_ONE ? term : letter->term;
            letter->n_inputs++;
            letter->n_depends += vc_couple_depends(c, k) ? 1 : 0;
        }
    }
    return true;
}

static bool is_number_above_one(const struct vc_couple *c, uint32_t term)
{
    struct vc_dim size = vc_axes_term(&c->axes, term)->size;

    return vc_dim_is_number(size) && size.size > 1;
}

/* Letters of the output that two computed inputs have are heads, as in attention that is written out; what only the
 * second one has is their size then. */
static void find_heads(struct vc_couple *c, const struct vc_einsum *e, const struct letter *letters)
{
    bool heads = false;

    for (unsigned k = 0; k < e->n_out; k++) {
        const struct letter *letter = &letters[e->order[k]];

        if (letter->n_depends == 2 && is_number_above_one(c, letter->term)) {
            vc_axes_set_unit(&c->axes, letter->term, VC_UNIT_HEADS);
            heads = true;
        }
    }
    for (unsigned i = 0; heads && i < e->n_dims[1]; i++) {
        const struct letter *letter = &letters[e->labels[1][i]];

        if (letter->in_output && letter->n_inputs == 1) {
            vc_couple_fix(c, letter->term, "has heads of that size");
        }
    }
}

/* Letters of the output pass on. A letter that is summed over stays, unless a weight and one computed input share
 * it: then it is the inner axis of a matrix product, which may shrink on both sides. */
void vc_couple_einsum(struct vc_couple *c)
{
    const struct vc_graph_node *node = vc_couple_node(c);
    const struct vc_graph_attr *equation = vc_couple_attr(c, "equation");
    struct vc_einsum e;
    struct letter letters[VC_EINSUM_LABELS] = {{.term = VC_AXIS_ONE}};
    unsigned n_dims[VC_EINSUM_INPUTS];

    for (unsigned k = 0; k < node->n_inputs && k < VC_EINSUM_INPUTS; k++) {
        n_dims[k] = vc_couple_in(c, k)->n_dims;
    }
    VC_LEAVE_IF(equation == NULL || equation->kind != VC_ATTR_STRING || node->n_inputs > VC_EINSUM_INPUTS ||
                    vc_einsum_parse(equation->s, node->n_inputs, n_dims, &e) != NULL || !join_letters(c, &e, letters),
                vc_couple_mixes(c));
    for (unsigned k = 0; k < e.n_labels; k++) {
        struct letter *letter = &letters[e.order[k]];

        letter->in_output = k < e.n_out;
        if (letter->in_output) {
            vc_couple_set(c, 0, k, letter->term);
        } else if (letter->n_inputs == 1 || letter->n_depends > 1) {
            vc_couple_fix(c, letter->term, "sums over it");
        }
    }
    for (unsigned k = 0; k < e.n_inputs; k++) {
        for (unsigned i = 0; i < e.n_dims[k]; i++) {
            if (letters[e.labels[k][i]].in_output && letters[e.labels[k][i]].n_depends == 0) {
                vc_couple_makes(c, k, i);
            }
        }
    }
    if (e.n_inputs == 2 && vc_couple_depends(c, 0) && vc_couple_depends(c, 1)) {
        find_heads(c, &e, letters);
    }
}
