/* couple_attention.c - rules of attention and of rotary positions.
 *
 * Grouped-query attention has n[0] heads of queries and n[1] of keys and values: the heads of queries are
 * product(n[1], n[0] / n[1]), where the inner factor is fixed. So units are heads of keys with all their queries,
 * and a head that goes takes rows of q, k and v and columns of o with it. Sizes of heads are fixed. */
#include "graph/couple/couple_rules.h"

static const char head_size[] = "has heads of that size";

/* Joins the axes of input k, [n, length, heads * size] or [n, heads, length, size], with heads and size. The length
 * is fixed: every query looks at every key. */
static void join_heads(struct vc_couple *c, unsigned k, uint32_t heads, uint32_t size)
{
    const struct vc_graph_value *in = vc_couple_in(c, k);
    uint32_t pair[2] = {heads, size};

    if (in->n_dims == 4) {
        vc_axes_join(&c->axes, vc_couple_axis(c, k, 1), heads);
        vc_axes_join(&c->axes, vc_couple_axis(c, k, 3), size);
    } else {
        vc_axes_join(&c->axes, vc_couple_axis(c, k, 2), vc_axes_product(&c->axes, pair, 2));
    }
    vc_couple_fix(c, vc_couple_axis(c, k, in->n_dims - 2), "looks at all of it");
}

/* Number and size of the heads of input k. False if they depend on inputs of the graph: the rule then fixes
 * everything. */
static bool heads_of(struct vc_couple *c, unsigned k, const char *attribute, int64_t *heads, int64_t *size)
{
    const struct vc_graph_value *in = vc_couple_in(c, k);
    struct vc_dim n = in->shape[in->n_dims == 4 ? 1 : 2];

    if (!vc_dim_is_number(n) || !vc_dim_is_number(in->shape[in->n_dims - 1])) {
        return false;
    }
    *heads = in->n_dims == 4 ? n.size : vc_couple_int(c, attribute, 0);
    *size = in->n_dims == 4 ? in->shape[3].size : *heads < 1 ? 0 : n.size / *heads;
    return *heads >= 1;
}

/* A mask with a row for each head loses the row with the head; its other axes stay. */
static void join_mask(struct vc_couple *c, uint32_t heads)
{
    const struct vc_graph_value *mask = vc_couple_in(c, 3);

    for (unsigned k = 0; mask != NULL && k < mask->n_dims; k++) {
        if (k + 3 == mask->n_dims) {
            vc_axes_join(&c->axes, vc_couple_axis(c, 3, k), heads);
        } else {
            vc_couple_fix(c, vc_couple_axis(c, 3, k), "looks at all of it");
        }
    }
}

/* Stages: terms for heads and sizes; axes of q, k, v, mask and past are joined with them; then the outputs'
 * axes, and the attributes with numbers of heads that a file states. */
void vc_couple_attention(struct vc_couple *c)
{
    const struct vc_graph_value *q = vc_couple_in(c, 0);
    uint32_t pair[2];
    int64_t n[3], sizes[3];

    VC_LEAVE_IF(!heads_of(c, 0, "q_num_heads", &n[0], &sizes[0]) || !heads_of(c, 1, "kv_num_heads", &n[1], &sizes[1]) ||
                    !heads_of(c, 2, "kv_num_heads", &n[2], &sizes[2]) || n[0] % n[1] != 0,
                vc_couple_mixes(c));
    uint32_t kv = pair[0] = vc_axes_atom(&c->axes, vc_dim_number(n[1]));
    pair[1] = vc_axes_atom(&c->axes, vc_dim_number(n[0] / n[1]));
    vc_couple_fix(c, pair[1], "has that many queries for each key");
    uint32_t heads = vc_axes_product(&c->axes, pair, 2);
    uint32_t size = vc_axes_atom(&c->axes, vc_dim_number(sizes[0]));
    uint32_t v_size = vc_axes_atom(&c->axes, vc_dim_number(sizes[2]));
    vc_couple_fix(c, size, head_size);
    vc_couple_fix(c, v_size, head_size);
    vc_axes_set_unit(&c->axes, kv, VC_UNIT_HEADS);
    join_heads(c, 0, heads, size);
    join_heads(c, 1, kv, size);
    join_heads(c, 2, kv, v_size);
    join_mask(c, heads);
    for (unsigned k = 4; k < 6; k++) { /* of before, and joined with those of now */
        if (vc_couple_in(c, k) != NULL) {
            join_heads(c, k, kv, k == 4 ? size : v_size);
        }
        vc_couple_set(c, k - 3, 0, vc_couple_axis(c, 0, 0));
        vc_couple_set(c, k - 3, 1, kv);
        vc_couple_set(c, k - 3, 3, k == 4 ? size : v_size);
    }
    vc_couple_pass(c);
    if (q->n_dims == 4) {
        vc_couple_set(c, 0, 3, v_size);
        return;
    }
    pair[0] = heads;
    pair[1] = v_size;
    vc_couple_set(c, 0, 2, vc_axes_product(&c->axes, pair, 2));
    vc_couple_state(c, "q_num_heads", heads);
    vc_couple_state(c, "kv_num_heads", kv);
}

/* Heads may go; elements of a head are rotated in pairs by tables of their size and stay. */
void vc_couple_rotary(struct vc_couple *c)
{
    const struct vc_graph_value *x = vc_couple_in(c, 0);
    int64_t n = 0;
    int64_t size = 0;

    VC_LEAVE_IF(!heads_of(c, 0, "num_heads", &n, &size), vc_couple_mixes(c));
    uint32_t heads = vc_axes_atom(&c->axes, vc_dim_number(n));
    uint32_t of_head = vc_axes_atom(&c->axes, vc_dim_number(size));
    vc_couple_fix(c, of_head, head_size);
    join_heads(c, 0, heads, of_head);
    for (unsigned k = 1; k < 4; k++) {
        vc_couple_fix_input(c, k, "takes it for a position");
    }
    vc_couple_pass(c);
    if (x->n_dims == 3) {
        vc_couple_state(c, "num_heads", heads);
    }
}
