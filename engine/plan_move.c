/* plan_move.c - operators that put elements elsewhere.
 *
 *     Transpose, Expand, Slice    one part: sizes to walk, steps and begin in both arrays
 *     Concat, Split               a part for each input or output
 *     Pad, Resize (nearest)       for each dimension a list: index of the output -> index of the input, or -1
 *     Resize (linear, cubic)      for each dimension that changes a sparse matrix: index of the output -> some of the input
 *
 * The first two groups are strided copies, and their gradients the same copies the other way. Lists are
 * made when the program is: the loop that reads them knows nothing of modes. */

#include "engine/plan_ops.h"
#include "graph/ops/resize.h"
#include "graph/ops/window.h"

/* ---- copies of a part of one array into a part of another ---- */

/* A part of the input and where it goes: sizes that are walked, and steps and begin in both arrays.
 * Transpose permutes in_step, Slice sets in_base and signs, Expand has steps of 0.
 *     x [2, 3] transposed to y [3, 2]: shape {3, 2}, in_step {1, 3}, out_step {2, 1}
 *     y[:, 1:3] of y [2, 4] from x [2, 2]: shape {2, 2}, in_step {2, 1}, out_step {4, 1}, out_base 1
 */
struct part {
    unsigned n_dims;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    int64_t in_step[VC_GRAPH_MAX_DIMS], out_step[VC_GRAPH_MAX_DIMS];
    int64_t in_base, out_base;
};

/* All of x, in its order. */
static struct part part_of(const struct vc_plan_value *x)
{
    struct part p = {.n_dims = x->n_dims};
    int64_t all = 1;

    for (unsigned k = x->n_dims; k-- > 0;) {
        p.shape[k] = x->shape[k];
        p.in_step[k] = all;
        p.out_step[k] = all;
        all *= x->shape[k];
    }
    return p;
}

/* One strided instruction from the input's part to the output's. */
static void copy_part(struct vc_engine *e, uint32_t node, const struct part *p, struct vc_ref from, struct vc_ref to)
{
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = p->n_dims, .refs = {to, from}};

    memcpy(s.shape, p->shape, sizeof s.shape);
    memcpy(s.step[0], p->out_step, sizeof s.step[0]);
    memcpy(s.step[1], p->in_step, sizeof s.step[1]);
    s.base[0] = p->out_base;
    s.base[1] = p->in_base;
    vc_plan_strided(e, node, &s, false);
}

/* The other way, for gradients: from output k into input j. Elements of the input that no part contains get
 * 0 first; elements that were repeated (step 0) sum up.
 *     Slice     the elements outside get 0: they had no part in the output
 *     Expand    step 0: what was repeated n times gets n gradients, added up
 */
static void give_back(struct vc_engine *e, uint32_t node, const struct part *p, unsigned k, unsigned j)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, j);
    struct vc_strided s = {.kind = VC_SUM_A, .scale = 1, .n_dims = p->n_dims};
    uint64_t n = 1;
    bool add;

    s.refs[1] = vc_plan_grad(e, node, k);
    if (!x->trained || s.refs[1].kind == VC_REF_NONE) {
        return;
    }
    s.refs[0] = vc_plan_grad_to(e, node, j, false, &add);
    for (unsigned d = 0; d < p->n_dims; d++) {
        n *= (uint64_t)p->shape[d];
        s.reduced[d] = p->in_step[d] == 0 && p->shape[d] != 1; /* it comes several times */
        n /= s.reduced[d] ? (uint64_t)p->shape[d] : 1;
    }
    if (!add && n != x->n) {
        vc_plan_fill(e, node, s.refs[0], x->n, 0);
        add = true;
    }
    memcpy(s.shape, p->shape, sizeof s.shape);
    memcpy(s.step[0], p->in_step, sizeof s.step[0]);
    memcpy(s.step[1], p->out_step, sizeof s.step[1]);
    s.base[0] = p->in_base;
    s.base[1] = p->out_base;
    vc_plan_strided(e, node, &s, add);
}

/* One input and one output. */
#define MOVE(id, find)                                                     \
    void vc_train_forward_##id(struct vc_engine *e, uint32_t node)         \
    {                                                                      \
        struct part p;                                                     \
                                                                           \
        if (reals(e, node) && find(e, node, &p)) {                         \
            struct vc_ref from = vc_plan_data(e, node, 0);                 \
                                                                           \
            copy_part(e, node, &p, from, vc_plan_make(e, node, 0, false)); \
        }                                                                  \
    }                                                                      \
    void vc_train_backward_##id(struct vc_engine *e, uint32_t node)        \
    {                                                                      \
        struct part p;                                                     \
                                                                           \
        if (find(e, node, &p)) {                                           \
            give_back(e, node, &p, 0, 0);                                  \
        }                                                                  \
    }

/* Codes and indices move only where they are known when the program is made. */
static bool reals(struct vc_engine *e, uint32_t node)
{
    if (!vc_plan_in(e, node, 0)->real) {
        vc_plan_fail(e, node, "it is computed from integers, which is not supported");
        return false;
    }
    return true;
}

/* Walks over the output; its dimension k has the step that dimension perm[k] has in the input. */
static bool find_transpose(struct vc_engine *e, uint32_t node, struct part *p)
{
    const struct vc_graph_attr *perm = vc_node_attr(vc_plan_node(e, node), "perm");
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct part x = part_of(vc_plan_in(e, node, 0));

    *p = part_of(y);
    for (unsigned k = 0; k < p->n_dims; k++) {
        p->in_step[k] = x.in_step[perm != NULL ? (unsigned)perm->ints[k] : p->n_dims - 1 - k];
    }
    return true;
}

/* Walks over the output; dimensions that are repeated have a step of 0 in the input. */
static bool find_expand(struct vc_engine *e, uint32_t node, struct part *p)
{
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);

    *p = part_of(y);
    vc_plan_steps(vc_plan_in(e, node, 0), y->n_dims, p->in_step);
    return true;
}

/* Where a slice begins or ends, in the elements that there are: low to high. */
static int64_t within(int64_t at, int64_t size, int64_t low, int64_t high)
{
    at = at < 0 ? (at < -size ? low : at + size) : at;
    return at < low ? low : at > high ? high : at;
}

/* Walks over the output; a step of the slice multiplies that of the dimension, and a start moves the begin.
 * The shape of the output is known, so that only places are computed here. */
static bool find_slice(struct vc_engine *e, uint32_t node, struct part *p)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    int64_t ints[4][VC_GRAPH_MAX_DIMS];
    size_t n[4];
    struct part of = part_of(x);

    *p = part_of(y);
    memcpy(p->in_step, of.in_step, sizeof p->in_step);
    for (unsigned k = 0; k < 4; k++) {
        if (!vc_plan_ints(e, node, k + 1, ints[k], VC_GRAPH_MAX_DIMS, &n[k])) {
            vc_plan_fail(e, node, "where it begins and ends is computed from values; constants are needed");
            return false;
        }
    }
    for (size_t k = 0; k < n[0]; k++) {
        unsigned axis = n[2] != 0 ? vc_plan_axis(ints[2][k], x->n_dims) : (unsigned)k;
        int64_t step = n[3] != 0 ? ints[3][k] : 1;
        int64_t size = x->shape[axis];

        p->in_base += within(ints[0][k], size, 0, step < 0 ? size - 1 : size) * of.in_step[axis];
        p->in_step[axis] *= step;
    }
    return true;
}

/* Walks over the repeats and the elements of each dimension; repeats have a step of 0 in the input. */
static bool find_tile(struct vc_engine *e, uint32_t node, struct part *p)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct part in = part_of(x);
    struct part out = part_of(y);

    *p = (struct part){.n_dims = 0};
    for (unsigned k = 0; k < x->n_dims; k++) {
        int64_t times = x->shape[k] == 0 ? 1 : y->shape[k] / x->shape[k];

        for (unsigned repeats = times == 1 ? 0 : 2; repeats != 1; repeats = repeats == 2 ? 0 : 1) {
            if (p->n_dims == VC_GRAPH_MAX_DIMS) {
                vc_plan_fail(e, node, "too many of its dimensions are repeated");
                return false;
            }
            p->shape[p->n_dims] = repeats != 0 ? times : x->shape[k];
            p->in_step[p->n_dims] = repeats != 0 ? 0 : in.in_step[k];
            p->out_step[p->n_dims++] = out.in_step[k] * (repeats != 0 ? x->shape[k] : 1);
        }
    }
    return true;
}

/* DepthToSpace and SpaceToDepth: [n, c, h, b1, w, b2] of the places of blocks, which are [n, b1, b2, c, h, w] of channels, or
 * with the mode CRD [n, c, b1, b2, h, w]. */
static bool find_blocks(struct vc_engine *e, uint32_t node, struct part *p)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    bool to_space = vc_node_is(n, VC_OP_depth_to_space);
    bool crd = strcmp(vc_node_string(n, "mode", "DCR"), "CRD") == 0;
    const struct vc_plan_value *deep = to_space ? vc_plan_in(e, node, 0) : vc_plan_out(e, node, 0);
    int64_t b = vc_node_int(n, "blocksize", 1);
    int64_t c = deep->shape[1] / (b * b), place = deep->shape[2] * deep->shape[3];
    const int64_t shape[6] = {deep->shape[0], c, deep->shape[2], b, deep->shape[3], b};
    int64_t outer = crd ? b * b : 1, inner = crd ? 1 : c; /* channels of a place of the block, between its places */
    const int64_t step[6] = {c * b * b * place, place * outer, deep->shape[3], place * b * inner, 1, place * inner};
    int64_t all = 1;

    *p = (struct part){.n_dims = 6};
    for (unsigned k = 6; k-- > 0; all *= shape[k]) {
        p->shape[k] = shape[k];
        p->in_step[k] = to_space ? step[k] : all;
        p->out_step[k] = to_space ? all : step[k];
    }
    return true;
}

MOVE(tile, find_tile)
MOVE(depth_to_space, find_blocks)
MOVE(space_to_depth, find_blocks)
MOVE(transpose, find_transpose)
MOVE(expand, find_expand)
MOVE(slice, find_slice)

/* ---- Concat and Split: a part for each input or output ---- */

/* Part k of y along the axis, as x. */
static struct part part_along(const struct vc_plan_value *whole, const struct vc_plan_value *piece, unsigned axis,
                              int64_t at)
{
    struct part p = part_of(piece);
    struct part of = part_of(whole);

    memcpy(p.out_step, of.in_step, sizeof p.out_step);
    p.out_base = at * of.in_step[axis];
    return p;
}

/* Both ways: the parts of all inputs lie one behind the other along the axis. */
static void concat(struct vc_engine *e, uint32_t node, bool backward)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    unsigned axis = vc_plan_axis(vc_node_int(n, "axis", 0), y->n_dims);
    struct vc_ref out = {0};
    int64_t at = 0;

    if (!backward && !reals(e, node)) {
        return;
    }
    if (!backward) {
        out = vc_plan_make(e, node, 0, false);
    }
    for (unsigned k = 0; k < n->n_inputs; k++) {
        const struct vc_plan_value *x = vc_plan_in(e, node, k);
        struct part p = part_along(y, x, axis, at);

        at += x->shape[axis];
        if (backward) {
            give_back(e, node, &p, 0, k);
        } else {
            struct vc_ref from = vc_plan_data(e, node, k);

            copy_part(e, node, &p, from, out);
        }
    }
}

void vc_train_forward_concat(struct vc_engine *e, uint32_t node)
{
    concat(e, node, false);
}

void vc_train_backward_concat(struct vc_engine *e, uint32_t node)
{
    concat(e, node, true);
}

/* Both ways: parts are those of Concat, turned around. Outputs that nobody reads are not copied. */
static void split(struct vc_engine *e, uint32_t node, bool backward)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    unsigned axis = vc_plan_axis(vc_node_int(n, "axis", 0), x->n_dims);
    int64_t at = 0;

    if (!backward && !reals(e, node)) {
        return;
    }
    for (unsigned k = 0; k < n->n_outputs; k++) {
        const struct vc_plan_value *y = vc_plan_out(e, node, k);

        if (y == NULL) {
            vc_plan_fail(e, node, "an output of it has no name");
            return;
        }
        struct part p = part_along(x, y, axis, at);
        at += y->shape[axis];
        if (!backward && !y->made) {
            continue;
        }
        struct part turned = p;
        memcpy(turned.in_step, p.out_step, sizeof turned.in_step);
        memcpy(turned.out_step, p.in_step, sizeof turned.out_step);
        turned.in_base = p.out_base;
        turned.out_base = 0;
        if (backward) {
            give_back(e, node, &turned, k, 0);
        } else {
            struct vc_ref from = vc_plan_data(e, node, 0);

            copy_part(e, node, &turned, from, vc_plan_make(e, node, k, false));
        }
    }
}

void vc_train_forward_split(struct vc_engine *e, uint32_t node)
{
    split(e, node, false);
}

void vc_train_backward_split(struct vc_engine *e, uint32_t node)
{
    split(e, node, true);
}

/* ---- Pad and Resize: for each dimension, where an index of the output is in the input ---- */

/* Lists that map every index to itself; operators replace those of dimensions that they change. */
static struct vc_args_mapped *map_begin(struct vc_engine *e, uint32_t node)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    struct vc_args_mapped *args = vc_plan_args(e, sizeof *args);

    if (args == NULL) {
        return NULL;
    }
    args->n_dims = x->n_dims;
    args->n_in = x->n;
    args->n_out = y->n;
    for (unsigned k = 0; k < x->n_dims; k++) {
        int64_t *map = vc_plan_args(e, (size_t)y->shape[k] * sizeof *map);

        if (map == NULL) {
            return NULL;
        }
        args->in[k] = x->shape[k];
        args->out[k] = y->shape[k];
        for (int64_t i = 0; i < y->shape[k]; i++) {
            map[i] = i;
        }
        args->map[k] = map;
    }
    return args;
}

/* The lists of places from the maps, for the backward loop: which indices of the output came from each of
 * the input, in their order. A sort by counting, whose steps are as many as both sizes together:
 *
 *     map     0 0 2 -1 2 2         counted     2 0 3
 *                                  ends        2 2 5 5
 *     first   0 2 2 5              list        0 1 | | 2 4 5       filled from the last index down
 */
static bool map_back(struct vc_engine *e, struct vc_args_mapped *args)
{
    for (unsigned k = 0; k < args->n_dims; k++) {
        int64_t *first = vc_plan_args(e, ((size_t)args->in[k] + 1) * sizeof *first);
        int64_t *list = vc_plan_args(e, (size_t)args->out[k] * sizeof *list);

        if (first == NULL || list == NULL) {
            return false;
        }
        for (int64_t i = 0; i < args->out[k]; i++) {
            if (args->map[k][i] >= 0) {
                first[args->map[k][i]]++;
            }
        }
        for (int64_t at = 1; at <= args->in[k]; at++) {
            first[at] += first[at - 1];
        }
        for (int64_t i = args->out[k]; i-- > 0;) {
            if (args->map[k][i] >= 0) {
                list[--first[args->map[k][i]]] = i;
            }
        }
        args->back[k] = first;
        args->back_list[k] = list;
    }
    return true;
}

typedef struct vc_args_mapped *find_map(struct vc_engine *e, uint32_t node);

/* Elements of the output, each from its place. */
static void mapped_forward(struct vc_engine *e, uint32_t node, find_map *find)
{
    struct vc_args_mapped *args = reals(e, node) ? find(e, node) : NULL;
    struct vc_ref refs[2];

    if (args != NULL) {
        refs[0] = vc_plan_data(e, node, 0);
        refs[1] = vc_plan_make(e, node, 0, false);
        vc_plan_emit(e, node, VC_LOOP_mapped, vc_plan_blocks(args->n_out, VC_ELEMENTS_PER_BLOCK), args, false, refs, 2);
    }
}

/* Elements of the input, each the sum of those that came from it. */
static void mapped_backward(struct vc_engine *e, uint32_t node, find_map *find)
{
    struct vc_args_mapped *args = vc_plan_trained(e, node, 0) ? find(e, node) : NULL;
    struct vc_ref refs[2];
    bool add;

    if (args != NULL && map_back(e, args)) {
        refs[0] = vc_plan_grad(e, node, 0);
        refs[1] = vc_plan_grad_to(e, node, 0, false, &add);
        vc_plan_emit(e, node, VC_LOOP_mapped_backward, vc_plan_blocks(args->n_in, VC_ELEMENTS_PER_BLOCK), args, add,
                     refs, 2);
    }
}

#define MAPPED(id, find)                                            \
    void vc_train_forward_##id(struct vc_engine *e, uint32_t node)  \
    {                                                               \
        mapped_forward(e, node, find);                              \
    }                                                               \
    void vc_train_backward_##id(struct vc_engine *e, uint32_t node) \
    {                                                               \
        mapped_backward(e, node, find);                             \
    }

/* Where each element of a padded dimension comes from: -1 is the value of the padding; other modes repeat
 * elements. */
static struct vc_args_mapped *find_pad(struct vc_engine *e, uint32_t node)
{
    const char *mode = vc_node_string(vc_plan_node(e, node), "mode", "constant");
    struct vc_args_mapped *args = map_begin(e, node);
    int64_t pads[2 * VC_GRAPH_MAX_DIMS], axes[VC_GRAPH_MAX_DIMS];
    size_t n, n_axes;

    if (args == NULL) {
        return NULL;
    }
    if (!vc_plan_ints(e, node, 1, pads, 2 * VC_GRAPH_MAX_DIMS, &n) ||
        !vc_plan_ints(e, node, 3, axes, VC_GRAPH_MAX_DIMS, &n_axes) ||
        !vc_plan_number(e, node, 2, 0, &args->otherwise)) {
        vc_plan_fail(e, node, "its pads or the value of the padding are computed; constants are needed");
        return NULL;
    }
    for (size_t k = 0; k < n / 2; k++) {
        unsigned axis = n_axes != 0 ? vc_plan_axis(axes[k], args->n_dims) : (unsigned)k;
        int64_t *map = vc_plan_args(e, (size_t)args->out[axis] * sizeof *map);
        int64_t cut; /* elements that negative numbers take away before others are repeated */
        int64_t size;

        if (map == NULL) {
            return NULL;
        }
        if (pads[k] == INT64_MIN || pads[k + n / 2] == INT64_MIN) {
            vc_plan_fail(e, node, "its pads are out of range");
            return NULL;
        }
        cut = *mode != 'c' && pads[k] < 0 ? -pads[k] : 0;
        size = args->in[axis] - cut + (*mode != 'c' && pads[k + n / 2] < 0 ? pads[k + n / 2] : 0);
        if (size < 1) {
            vc_plan_fail(e, node, "nothing is left of dimension %u that could be repeated", axis);
            return NULL;
        }
        for (int64_t i = 0; i < args->out[axis]; i++) {
            int64_t from = vc_padded_from(i - pads[k] - cut, size, mode);

            map[i] = from < 0 ? -1 : from + cut;
        }
        args->map[axis] = map;
    }
    return args;
}

/* The dimensions of a Resize. False: the problem is noted. */
static bool resize_axes(struct vc_engine *e, uint32_t node, struct vc_resize_axis *axes)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const char *why;

    if (!vc_resize_axes(e->graph, vc_plan_node(e, node), x->shape, vc_plan_out(e, node, 0)->shape, x->n_dims,
                        e->weights->precision == VC_GRAPH_F64, axes, &why)) {
        vc_plan_fail(e, node, "%s", why);
        return false;
    }
    return true;
}

/* Nearest: one element of the input for each of the output. */
static struct vc_args_mapped *find_nearest(struct vc_engine *e, uint32_t node)
{
    struct vc_args_mapped *args = map_begin(e, node);
    struct vc_resize_axis axes[VC_GRAPH_MAX_DIMS];
    double one;

    if (args == NULL || !resize_axes(e, node, axes)) {
        return NULL;
    }
    for (unsigned k = 0; k < args->n_dims; k++) {
        int64_t *map = vc_plan_args(e, (size_t)args->out[k] * sizeof *map);

        if (map == NULL) {
            return NULL;
        }
        for (int64_t i = 0; i < args->out[k]; i++) {
            (void)vc_resize_row(&axes[k], i, &map[i], &one);
        }
        args->map[k] = map;
    }
    return args;
}

/* Room for a matrix of n elements along dimension `axis` of x, which gets out elements there. NULL: no memory. */
static struct vc_args_blend *blend_begin(struct vc_engine *e, const int64_t *shape, unsigned n_dims, unsigned axis,
                                         int64_t out, size_t n, int64_t **first, int64_t **from, double **weight)
{
    struct vc_args_blend *args = vc_plan_args(e, sizeof *args);

    *first = vc_plan_args(e, ((size_t)out + 1) * sizeof **first);
    *from = vc_plan_args(e, n * sizeof **from);
    *weight = vc_plan_args(e, n * sizeof **weight);
    if (e->status != VC_OK) {
        return NULL;
    }
    *args = (struct vc_args_blend){.in = shape[axis],
                                   .out = out,
                                   .inner = 1,
                                   .first = *first,
                                   .from = *from,
                                   .weight = *weight,
                                   .n = (uint64_t)out};
    for (unsigned k = 0; k < n_dims; k++) {
        args->inner *= k > axis ? shape[k] : 1;
        args->n *= k != axis ? (uint64_t)shape[k] : 1;
    }
    return args;
}

/* Rows of resize.h, one behind the other: first has where each begins. */
static struct vc_args_blend *blend_forward(struct vc_engine *e, const int64_t *shape, unsigned n_dims, unsigned k,
                                           const struct vc_resize_axis *axis)
{
    size_t most = vc_resize_most(axis) * (size_t)axis->out;
    int64_t *first, *from;
    double *weight;
    struct vc_args_blend *args = blend_begin(e, shape, n_dims, k, axis->out, most, &first, &from, &weight);

    for (int64_t i = 0; args != NULL && i < axis->out; i++) {
        first[i + 1] = first[i] + (int64_t)vc_resize_row(axis, i, from + first[i], weight + first[i]);
    }
    return args;
}

/* The matrix turned, for gradients: what each element of the input gave, in the order of the output. The sort of
 * map_back. shape: of the input. */
static struct vc_args_blend *blend_backward(struct vc_engine *e, const int64_t *shape, unsigned n_dims, unsigned k,
                                            const struct vc_resize_axis *axis)
{
    const struct vc_args_blend *is = blend_forward(e, shape, n_dims, k, axis);
    int64_t turned[VC_GRAPH_MAX_DIMS], *first, *from;
    double *weight;
    struct vc_args_blend *args;

    if (is == NULL) {
        return NULL;
    }
    memcpy(turned, shape, sizeof turned);
    turned[k] = is->out;
    args = blend_begin(e, turned, n_dims, k, is->in, (size_t)is->first[is->out], &first, &from, &weight);
    if (args == NULL) {
        return NULL;
    }
    for (int64_t i = 0; i < is->first[is->out]; i++) {
        first[is->from[i]]++;
    }
    for (int64_t i = 1; i <= is->in; i++) {
        first[i] += first[i - 1];
    }
    for (int64_t i = is->out; i-- > 0;) {
        for (int64_t j = is->first[i + 1]; j-- > is->first[i];) {
            int64_t at = --first[is->from[j]];

            from[at] = i;
            weight[at] = is->weight[j];
        }
    }
    return args;
}

/* Dimension by dimension, the last one first, since sizes mostly grow: x [2, 3] to y [4, 6] by way of [2, 6], and
 * gradients the same way back. Sizes that stay need nothing; a node that changes none copies along the first. */
static void resize_blend(struct vc_engine *e, uint32_t node, bool backward)
{
    const struct vc_plan_value *x = vc_plan_in(e, node, 0);
    const struct vc_plan_value *y = vc_plan_out(e, node, 0);
    int64_t shapes[VC_GRAPH_MAX_DIMS + 1][VC_GRAPH_MAX_DIMS]; /* before each step */
    unsigned axes[VC_GRAPH_MAX_DIMS];
    struct vc_resize_axis axis[VC_GRAPH_MAX_DIMS];
    unsigned n = 0;
    struct vc_ref refs[2];

    if (!reals(e, node) || !resize_axes(e, node, axis)) {
        return;
    }
    memcpy(shapes[0], x->shape, sizeof shapes[0]);
    for (unsigned k = x->n_dims; k-- > 0;) {
        if (x->shape[k] != y->shape[k] || axis[k].scale != 1 || axis[k].place == 't' || (k == 0 && n == 0)) {
            axes[n++] = k;
            memcpy(shapes[n], shapes[n - 1], sizeof shapes[n]);
            shapes[n][k] = y->shape[k];
        }
    }
    refs[0] = backward ? vc_plan_grad(e, node, 0) : vc_plan_data(e, node, 0);
    for (unsigned step = 0; step < n; step++) {
        unsigned k = backward ? n - 1 - step : step;
        struct vc_args_blend *args =
            (backward ? blend_backward : blend_forward)(e, shapes[k], x->n_dims, axes[k], &axis[axes[k]]);
        bool add = false;

        if (args == NULL) {
            return;
        }
        refs[1] = step + 1 < n ? vc_plan_reals(e, args->n)
                  : backward   ? vc_plan_grad_to(e, node, 0, false, &add)
                               : vc_plan_make(e, node, 0, false);
        vc_plan_emit(e, node, VC_LOOP_blend, vc_plan_blocks(args->n, VC_ELEMENTS_PER_BLOCK), args, add, refs, 2);
        refs[0] = refs[1];
    }
}

/* Nearest, and no place outside of a crop: a list of elements is enough. */
static bool is_mapped(const struct vc_engine *e, uint32_t node)
{
    const struct vc_graph_node *n = vc_plan_node(e, node);

    return strcmp(vc_node_string(n, "mode", "nearest"), "nearest") == 0 &&
           strcmp(vc_node_string(n, "coordinate_transformation_mode", ""), "tf_crop_and_resize") != 0;
}

void vc_train_forward_resize(struct vc_engine *e, uint32_t node)
{
    if (is_mapped(e, node)) {
        mapped_forward(e, node, find_nearest);
    } else {
        resize_blend(e, node, false);
    }
}

void vc_train_backward_resize(struct vc_engine *e, uint32_t node)
{
    if (is_mapped(e, node)) {
        mapped_backward(e, node, find_nearest);
    } else if (vc_plan_trained(e, node, 0)) {
        resize_blend(e, node, true);
    }
}

MAPPED(pad, find_pad)
