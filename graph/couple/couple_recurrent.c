/* couple_recurrent.c - the rule of RNN, GRU and LSTM.
 *
 *     W [directions, gates * hidden, in]    axis 1 is product(gates, hidden): a unit has a row in every gate ...
 *     R [directions, gates * hidden, hidden]   ... and a column, which its own state is multiplied with
 *     B [directions, 2 * gates * hidden], P [directions, 3 * hidden], states and outputs [.., hidden]
 *
 * So a hidden unit goes with its rows and columns of all gates, its biases, peepholes and initial states, and with the
 * columns of what reads the outputs. Both directions have one hidden_size and lose the same units. */
#include "graph/couple/couple_rules.h"
#include "graph/ops/recurrent.h"

/* Axis 1 of input k, if that is given, is n lists of all hidden units, one behind the other. */
static void join_lists(struct vc_couple *c, unsigned k, int64_t n, uint32_t hidden)
{
    uint32_t pair[2];

    if (vc_couple_in(c, k) != NULL) {
        pair[0] = vc_axes_atom(&c->axes, vc_dim_number(n));
        pair[1] = hidden;
        vc_couple_fix(c, pair[0], "has that many gates");
        vc_axes_join(&c->axes, vc_couple_axis(c, k, 1), vc_axes_product(&c->axes, pair, 2));
        vc_axes_join(&c->axes, vc_couple_axis(c, k, 0), vc_couple_axis(c, 2, 0));
    }
}

/* States [directions, rows, hidden], with rows first [rows, directions, hidden]. */
static void join_state(struct vc_couple *c, unsigned k, bool rows_first, uint32_t rows, uint32_t hidden)
{
    if (vc_couple_in(c, k) != NULL) {
        vc_axes_join(&c->axes, vc_couple_axis(c, k, rows_first ? 0 : 1), rows);
        vc_axes_join(&c->axes, vc_couple_axis(c, k, rows_first ? 1 : 0), vc_couple_axis(c, 2, 0));
        vc_axes_join(&c->axes, vc_couple_axis(c, k, 2), hidden);
    }
}

void vc_couple_recurrent(struct vc_couple *c)
{
    const struct vc_graph_value *r = vc_couple_in(c, 2);
    int64_t gates = vc_recurrent_gates(vc_couple_node(c));
    bool rows_first = vc_couple_int(c, "layout", 0) != 0;
    uint32_t steps = vc_couple_axis(c, 0, rows_first ? 1 : 0);
    uint32_t rows = vc_couple_axis(c, 0, rows_first ? 0 : 1);
    uint32_t directions = vc_couple_axis(c, 2, 0);
    uint32_t hidden = vc_couple_axis(c, 2, 2);

    VC_LEAVE_IF(!vc_dim_is_number(r->shape[0]) || !vc_dim_is_number(r->shape[2]), vc_couple_mixes(c));
    vc_couple_fix(c, steps, "goes from step to step");
    vc_couple_fix(c, directions, "has that many directions");
    join_lists(c, 1, gates, hidden);
    join_lists(c, 2, gates, hidden);
    join_lists(c, 3, 2 * gates, hidden);
    join_lists(c, 7, 3, hidden);
    vc_axes_join(&c->axes, vc_couple_axis(c, 0, 2), vc_couple_axis(c, 1, 2));
    if (vc_couple_in(c, 4) != NULL) {
        vc_axes_join(&c->axes, vc_couple_axis(c, 4, 0), rows);
    }
    join_state(c, 5, rows_first, rows, hidden);
    join_state(c, 6, rows_first, rows, hidden);
    vc_couple_makes(c, 1, 1);
    vc_couple_makes(c, 2, 1);
    for (unsigned k = 1; k < 3; k++) {
        if (vc_couple_depends(c, k)) {
            vc_couple_fix_input(c, k, "computes with it");
        }
    }
    vc_couple_set(c, 0, 0, rows_first ? rows : steps);
    vc_couple_set(c, 0, 1, rows_first ? steps : directions);
    vc_couple_set(c, 0, 2, rows_first ? directions : rows);
    vc_couple_set(c, 0, 3, hidden);
    for (unsigned k = 1; k < vc_couple_node(c)->n_outputs; k++) {
        vc_couple_set(c, k, 0, rows_first ? rows : directions);
        vc_couple_set(c, k, 1, rows_first ? directions : rows);
        vc_couple_set(c, k, 2, hidden);
    }
    vc_couple_state(c, "hidden_size", hidden);
}
