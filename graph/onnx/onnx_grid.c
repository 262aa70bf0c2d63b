/* onnx_grid.c - GridSample and AffineGrid in words of the graph: places among the elements of x, along each axis, and the
 * elements around them, each times its weight.
 *
 *     y = GridSample (x [n, c, h, w], grid [n, ho, wo, 2])
 *     rows = Reshape (Transpose (x), [n*h*w, c])                    i = floor (place), v = place - i of both axes
 *     y = Transpose (Gather (rows, (n*h + i0)*w + i1) * (1-v0) * (1-v1) + ... of four corners; of sixteen, cubic)
 *
 *     grid = AffineGrid (theta [n, 2, 3], size [4])    of an affine map, the places of a picture of that size
 *     grid = theta[:, :, 0] * x + theta[:, :, 1] * y + theta[:, :, 2]
 *
 * So that rows, gradients of x, of the grid and of theta, couplings of channels and devices are those of these operators.
 * Called by onnx_same.c. */

#include "graph/onnx/onnx_build.h"

#include "core/text/text.h"

/* A node on its way, with what all its axes share. */
struct grid {
    struct vc_onnx_build *b;
    unsigned n_axes; /* that are sampled: 2 of pictures */
    bool aligned, nearest, cubic, zeros, reflects;
    uint32_t x, grid, shape; /* of x */
};

/* Elements [from, to) of the shape of x. */
static uint32_t sizes(const struct grid *g, unsigned from, unsigned to)
{
    struct vc_graph *graph = g->b->graph;
    const int64_t ends[2] = {from, to};
    uint32_t in[3] = {g->shape, vc_graph_add_ints(graph, ends, 1), vc_graph_add_ints(graph, ends + 1, 1)};

    return vc_onnx_add_one(g->b, "Slice", NULL, in, 3, NULL, 0);
}

static uint32_t two(const struct grid *g, const char *op, uint32_t x, uint32_t y)
{
    return vc_onnx_two_in(g->b, op, x, y);
}

static uint32_t with_real(const struct grid *g, const char *op, uint32_t x, double number)
{
    return two(g, op, x, vc_graph_add_float(g->b->graph, number));
}

static uint32_t to_real(const struct grid *g, uint32_t x)
{
    return vc_onnx_cast(g->b, x, VC_ONNX_FLOAT);
}

/* The greatest integer that is not above x: x without its fraction, less 1 where that is more. Integers, through which no
 * gradient goes. */
static uint32_t floor_of(const struct grid *g, uint32_t x)
{
    uint32_t whole = vc_onnx_cast(g->b, x, VC_ONNX_INT64);
    uint32_t above = vc_onnx_cast(g->b, two(g, "Greater", to_real(g, whole), x), VC_ONNX_INT64);

    return two(g, "Sub", whole, above);
}

/* The nearest integer, of two the even one: floor + 1 where the fraction is above a half, or a half behind an odd one. */
static uint32_t nearest_of(const struct grid *g, uint32_t x)
{
    struct vc_graph *graph = g->b->graph;
    uint32_t low = floor_of(g, x);
    uint32_t half = floor_of(g, with_real(g, "Mul", to_real(g, low), 0.5));
    uint32_t odd = two(g, "Sub", low, two(g, "Mul", half, vc_graph_add_int(graph, 2)));
    uint32_t fraction = two(g, "Sub", x, to_real(g, low));
    uint32_t above = vc_onnx_cast(g->b, with_real(g, "Greater", fraction, 0.5), VC_ONNX_INT64);
    uint32_t tie = vc_onnx_cast(g->b, with_real(g, "Equal", fraction, 0.5), VC_ONNX_INT64);

    return two(g, "Add", low, two(g, "Add", above, two(g, "Mul", tie, odd)));
}

/* Back and forth between the middles of the outer elements (aligned) or their edges: a wave of that period.
 *     low + range - | t - range |,   t = |p - low| without its whole periods of 2 range */
static uint32_t reflect(const struct grid *g, uint32_t p, uint32_t last)
{
    double low = g->aligned ? 0 : -0.5;
    uint32_t range = g->aligned ? with_real(g, "Max", last, 1) : with_real(g, "Add", last, 1);
    uint32_t period = with_real(g, "Mul", range, 2);
    uint32_t t = vc_onnx_one_in(g->b, "Abs", with_real(g, "Sub", p, low));

    t = two(g, "Sub", t, two(g, "Mul", to_real(g, floor_of(g, two(g, "Div", t, period))), period));
    t = vc_onnx_one_in(g->b, "Abs", two(g, "Sub", t, range));
    return with_real(g, "Add", two(g, "Sub", range, t), low);
}

/* Places along an axis, 0 to last, from -1 to 1 of the grid. Beyond the element outside (cubic: the third), all is 0, or the
 * outermost element. */
static uint32_t places(const struct grid *g, unsigned axis, uint32_t last)
{
    const struct vc_graph_attr end = vc_attr_int("axis", -1);
    const double outside = g->cubic ? 3 : g->zeros ? 1 : 0;
    uint32_t in[2] = {g->grid, vc_graph_add_int(g->b->graph, g->n_axes - 1 - axis)};
    uint32_t p = with_real(g, "Add", vc_onnx_add_one(g->b, "Gather", NULL, in, 2, &end, 1), 1);

    p = with_real(g, "Mul", two(g, "Mul", p, g->aligned ? last : with_real(g, "Add", last, 1)), 0.5);
    p = g->aligned ? p : with_real(g, "Sub", p, 0.5);
    p = g->reflects ? reflect(g, p, last) : p;
    p = with_real(g, "Max", p, -outside);
    return two(g, "Min", p, outside != 0 ? with_real(g, "Add", last, outside) : last);
}

/* What is the same for all corners of a place: its element, and how far behind that it is. */
struct along {
    uint32_t size, last, at, behind;
};

static struct along along_axis(const struct grid *g, unsigned axis)
{
    struct along a = {.size = sizes(g, axis + 2, axis + 3)};

    a.last = two(g, "Sub", a.size, vc_graph_add_int(g->b->graph, 1));
    uint32_t p = places(g, axis, to_real(g, a.last));
    a.at = g->nearest ? nearest_of(g, p) : floor_of(g, p);
    a.behind = g->nearest ? VC_NO_VALUE : two(g, "Sub", p, to_real(g, a.at));
    return a;
}

/* Elements along an axis that a place takes part of. */
static unsigned taps(const struct grid *g)
{
    return g->nearest ? 1 : g->cubic ? 4 : 2;
}

/* What a place takes of element a->at + step: linear, or by distance d the cubic of Keys (1981) with -3/4, as PyTorch has it:
 *     (5/4 d - 9/4) d d + 1 up to 1,   ((-3/4 d + 15/4) d - 6) d + 3 up to 2 */
static uint32_t share_of(const struct grid *g, const struct along *a, int step)
{
    const bool outer = step < 0 || step > 1;
    uint32_t d = step <= 0 ? a->behind : two(g, "Sub", vc_graph_add_float(g->b->graph, step), a->behind);

    if (!g->cubic) {
        return step != 0 ? a->behind : two(g, "Sub", vc_graph_add_float(g->b->graph, 1), a->behind);
    }
    d = step < 0 ? with_real(g, "Add", d, 1) : d;
    uint32_t y = with_real(g, "Add", with_real(g, "Mul", d, outer ? -0.75 : 1.25), outer ? 3.75 : -2.25);
    y = two(g, "Mul", y, d);
    y = two(g, "Mul", outer ? with_real(g, "Sub", y, 6) : y, d);
    return with_real(g, "Add", y, outer ? 3 : 1);
}

/* The weight of a corner so far times that along one axis, and 0 outside; *index: the corner's row so far. */
static uint32_t turn(const struct grid *g, const struct along *a, int step, uint32_t weight, uint32_t *index)
{
    struct vc_graph *graph = g->b->graph;
    uint32_t at = step != 0 ? two(g, "Add", a->at, vc_graph_add_int(graph, step)) : a->at;

    if (g->cubic && g->reflects) { /* the place is inside, what is around it may not be */
        at = vc_onnx_cast(g->b, reflect(g, to_real(g, at), to_real(g, a->last)), VC_ONNX_INT64);
    }
    uint32_t within = two(g, "Max", two(g, "Min", at, a->last), vc_graph_add_int(graph, 0));

    *index = two(g, "Add", two(g, "Mul", *index, a->size), within);
    if (!g->nearest) {
        uint32_t share = share_of(g, a, step);
        weight = weight == VC_NO_VALUE ? share : two(g, "Mul", weight, share);
    }
    if (g->zeros) {
        uint32_t inside = to_real(g, two(g, "Equal", at, within));
        weight = weight == VC_NO_VALUE ? inside : two(g, "Mul", weight, inside);
    }
    return weight;
}

/* [n, c, ...] of [n, ..., c]: back, or the other way round. */
static struct vc_graph_attr turned(const struct grid *g, bool back, int64_t *order)
{
    int64_t last = g->n_axes + 1;

    order[0] = 0;
    for (int64_t k = 1; k <= last; k++) {
        order[k] = back ? (k == 1 ? last : k - 1) : k % last + 1;
    }
    return vc_attr_ints("perm", order, g->n_axes + 2);
}

static bool sample(const struct grid *g, struct vc_onnx_node *node)
{
    struct vc_onnx_build *b = g->b;
    struct along axes[VC_GRAPH_MAX_DIMS];
    int64_t order[VC_GRAPH_MAX_DIMS], ones[VC_GRAPH_MAX_DIMS] = {-1};
    const int64_t end = -1;
    const struct vc_graph_attr first = vc_attr_int("axis", 0), to_rows = turned(g, false, order);
    uint32_t sum = VC_NO_VALUE;
    unsigned n_corners = 1;
    uint32_t in[3] = {vc_graph_add_ints(b->graph, &end, 1), sizes(g, 1, 2), VC_NO_VALUE};
    uint32_t rows = vc_onnx_add_one(b, "Transpose", NULL, &g->x, 1, &to_rows, 1);

    rows = two(g, "Reshape", rows, vc_onnx_add_one(b, "Concat", NULL, in, 2, &first, 1));
    for (unsigned k = 0; k < g->n_axes; k++) {
        axes[k] = along_axis(g, k);
        ones[k + 1] = 1;
        n_corners *= taps(g);
    }
    in[0] = vc_graph_add_int(b->graph, 0);
    in[1] = vc_onnx_one_in(b, "Squeeze", sizes(g, 0, 1));
    in[2] = vc_graph_add_int(b->graph, 1);
    uint32_t number = vc_onnx_add_one(b, "Range", NULL, in, 3, NULL, 0);
    number = vc_onnx_with_ints(b, "Reshape", number, ones, g->n_axes + 1);
    for (unsigned corner = 0; corner < n_corners; corner++) {
        uint32_t weight = VC_NO_VALUE;
        unsigned left = corner;

        in[0] = rows;
        in[1] = number;
        for (unsigned k = 0; k < g->n_axes; k++, left /= taps(g)) {
            weight = turn(g, &axes[k], (int)(left % taps(g)) - (g->cubic ? 1 : 0), weight, &in[1]);
        }
        in[0] = vc_onnx_add_one(b, "Gather", NULL, in, 2, &first, 1);
        if (weight != VC_NO_VALUE) {
            in[0] = two(g, "Mul", in[0], vc_onnx_with_ints(b, "Unsqueeze", weight, &end, 1));
        }
        sum = sum == VC_NO_VALUE ? in[0] : two(g, "Add", sum, in[0]);
    }
    const struct vc_graph_attr back = turned(g, true, order);
    return vc_onnx_ends_in(b, node, "Transpose", &sum, 1, &back, 1);
}

static const char *word_of(const struct vc_onnx_node *node, const char *name, const char *otherwise)
{
    const struct vc_graph_attr *attr = vc_onnx_attr(node, name);

    return attr == NULL ? otherwise : attr->kind == VC_ATTR_STRING ? attr->s : "";
}

bool vc_onnx_take_grid(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *x = vc_onnx_input(b, node, 0);
    const struct vc_graph_value *at = vc_onnx_input(b, node, 1);
    const char *mode = word_of(node, "mode", "linear");
    const char *padding = word_of(node, "padding_mode", "zeros");

    if (x == NULL || at == NULL) {
        return true;
    }
    VC_RETURN_IF(node->n_inputs != 2 || x->n_dims < 3 || at->n_dims != x->n_dims || x->dtype != VC_DTYPE_F32 ||
                     at->dtype != VC_DTYPE_F32 || !vc_dim_equal(at->shape[x->n_dims - 1], vc_dim_number(x->n_dims - 2)),
                 vc_onnx_refuse(b, node, "it needs floats [n, channels, h, w] and a grid [n, ho, wo, 2]"));
    VC_RETURN_IF(
        !vc_is_one_of(mode, "linear bilinear nearest cubic bicubic") ||
            !vc_is_one_of(padding, "zeros border reflection") || (x->n_dims > 4 && strstr(mode, "cubic") != NULL),
        vc_onnx_refuse(b, node,
                       "its mode or padding_mode is not supported (linear, nearest, up to two axes cubic; zeros, "
                       "border, reflection)"));
    const struct grid g = {.b = b,
                           .n_axes = x->n_dims - 2,
                           .aligned = vc_onnx_int(node, "align_corners", 0) != 0,
                           .nearest = strcmp(mode, "nearest") == 0,
                           .cubic = strstr(mode, "cubic") != NULL,
                           .zeros = strcmp(padding, "zeros") == 0,
                           .reflects = strcmp(padding, "reflection") == 0,
                           .x = node->inputs[0],
                           .grid = node->inputs[1],
                           .shape = vc_onnx_one_in(b, "Shape", node->inputs[0])};
    return sample(&g, node);
}

/* Places from -1 to 1 along an axis that has so many elements as `size` says at number k, [size, 1, ...] with `behind` ones:
 * (2 i - (size - 1)) / size, the middles of the elements, or aligned over size - 1; 0 of one element. */
static uint32_t spread(struct vc_onnx_build *b, uint32_t size, unsigned k, unsigned behind, bool aligned)
{
    const struct vc_graph_attr first = vc_attr_int("axis", 0);
    int64_t shape[VC_GRAPH_MAX_DIMS] = {-1, 1, 1, 1, 1};
    uint32_t one = vc_graph_add_int(b->graph, 1), two = vc_graph_add_int(b->graph, 2);
    uint32_t n = vc_onnx_add_one(b, "Gather", NULL, (uint32_t[]){size, vc_graph_add_int(b->graph, k)}, 2, &first, 1);
    uint32_t last = vc_onnx_two_in(b, "Sub", n, one);
    uint32_t i = vc_onnx_add_one(b, "Range", NULL, (uint32_t[]){vc_graph_add_int(b->graph, 0), n, one}, 3, NULL, 0);
    uint32_t over = aligned ? vc_onnx_two_in(b, "Max", last, one) : n;

    i = vc_onnx_cast(b, vc_onnx_two_in(b, "Sub", vc_onnx_two_in(b, "Mul", i, two), last), VC_ONNX_FLOAT);
    i = vc_onnx_two_in(b, "Div", i, vc_onnx_cast(b, over, VC_ONNX_FLOAT));
    return vc_onnx_with_ints(b, "Reshape", i, shape, behind + 1);
}

bool vc_onnx_take_affine(struct vc_onnx_build *b, struct vc_onnx_node *node)
{
    const struct vc_graph_value *theta = vc_onnx_input(b, node, 0);
    const struct vc_graph_value *size = vc_onnx_input(b, node, 1);
    const struct vc_graph_attr last = vc_attr_int("axis", 2);
    const int64_t places[] = {1, 2, 3};
    uint32_t terms[4];
    unsigned n = 2; /* axes */

    if (theta == NULL || size == NULL) {
        return true;
    }
    n += theta->n_dims == 3 && vc_dim_equal(theta->shape[1], vc_dim_number(3));
    VC_RETURN_IF(node->n_inputs != 2 || theta->n_dims != 3 || theta->dtype != VC_DTYPE_F32 || size->n_dims != 1 ||
                     !vc_dim_equal(theta->shape[1], vc_dim_number(n)) ||
                     !vc_dim_equal(theta->shape[2], vc_dim_number(n + 1)) ||
                     !vc_dim_equal(size->shape[0], vc_dim_number(n + 2)),
                 vc_onnx_refuse(b, node, "it needs floats [n, 2, 3] or [n, 3, 4], and a size of as many axes"));
    bool aligned = vc_onnx_int(node, "align_corners", 0) != 0;
    /* a column of theta is of an axis, the last one first; behind them what is added */
    for (unsigned k = 0; k <= n; k++) {
        uint32_t in[2] = {node->inputs[0], vc_graph_add_int(b->graph, k)};

        terms[k] = vc_onnx_with_ints(b, "Unsqueeze", vc_onnx_add_one(b, "Gather", NULL, in, 2, &last, 1), places, n);
        if (k < n) {
            terms[k] = vc_onnx_two_in(b, "Mul", terms[k], spread(b, node->inputs[1], n + 1 - k, k + 1, aligned));
            terms[0] = k != 0 ? vc_onnx_two_in(b, "Add", terms[0], terms[k]) : terms[0];
        }
    }
    return vc_onnx_ends_in(b, node, "Add", (uint32_t[]){terms[0], terms[n]}, 2, NULL, 0);
}
