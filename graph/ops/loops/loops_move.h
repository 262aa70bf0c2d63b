/* loops_move.h - part of op_loops.h: elements in other places.
 *
 * All but Concat and Pad are a view (run.h): which element of the input each element of the output is, as a
 * base and strides.
 *
 *     x [2, 3], places 0 1 2 / 3 4 5
 *     Transpose              shape [3, 2], steps {1, 3}            0 3 / 1 4 / 2 5
 *     Slice [:, ::-1]        shape [2, 3], base 2, steps {3, -1}   2 1 0 / 5 4 3
 *     Expand to [2, 2, 3]    shape [2, 2, 3], steps {0, 3, 1}      0 1 2 / 3 4 5 / 0 1 2 / 3 4 5
 *     Tile {1, 2}            shape [1, 2, 2, 3], steps {0, 3, 0, 1}   0 1 2 0 1 2 / 3 4 5 3 4 5
 */

/* The elements of x that the view finds, in the view's order, to `to`.
 * An odometer: a step along the last dimension, and where it is at its end, back to its beginning and a
 * step along the one before. */
static void copy_view(const struct vc_run_value *x, const struct vc_run_view *view, size_t n, void *to)
{
    int64_t at[2 * VC_GRAPH_MAX_DIMS] = {0};
    int64_t place = view->base;

    for (size_t i = 0; i < n; i++) {
        if (x->is_real) {
            ((REAL *)to)[i] = ((const REAL *)x->data)[place];
        } else {
            ((int64_t *)to)[i] = ((const int64_t *)x->data)[place];
        }
        for (unsigned k = view->n_dims; k-- > 0;) {
            at[k]++;
            place += view->step[k];
            if (at[k] < view->shape[k]) {
                break;
            }
            place -= view->step[k] * view->shape[k];
            at[k] = 0;
        }
    }
}

/* Output k of that shape with the elements that the view finds in input 0. */
static void out_of_view(struct vc_run *run, unsigned k, const struct vc_run_view *view, const int64_t *shape,
                        unsigned n_dims)
{
    void *out = vc_run_out(run, k, run->in[0]->is_real, shape, n_dims);

    if (out != NULL) {
        copy_view(run->in[0], view, run->out[k].n, out);
    }
}

/* y[i, j, ...] = x[..., in the order perm] */
RUN(transpose)
{
    struct vc_run_view of = vc_run_view_of(run->in[0]);
    struct vc_run_view view = of;
    size_t n;
    const int64_t *perm = vc_run_ints(run, "perm", &n);

    for (unsigned k = 0; k < of.n_dims; k++) {
        unsigned from = perm != NULL ? (unsigned)perm[k] : of.n_dims - 1 - k;

        view.shape[k] = of.shape[from];
        view.step[k] = of.step[from];
    }
    out_of_view(run, 0, &view, view.shape, view.n_dims);
}

/* Copies rows of all inputs in turn; a row is the axis and what lies behind it.
 * The sum of the sizes along the axis may overflow for inputs without elements in other axes. */
RUN(concat)
{
    const struct vc_run_value *x = run->in[0];
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", 0), x->n_dims);
    int64_t shape[VC_GRAPH_MAX_DIMS];
    size_t at = 0;

    memcpy(shape, x->shape, sizeof shape);
    for (unsigned v = 1; v < run->n_in; v++) {
        for (unsigned k = 0; k < x->n_dims; k++) {
            if (k != axis && run->in[v]->shape[k] != shape[k]) {
                vc_run_fail(run, "the inputs have %lld and %lld in dimension %u", (long long)shape[k],
                            (long long)run->in[v]->shape[k], k);
            }
        }
        if (__builtin_add_overflow(shape[axis], run->in[v]->shape[axis], &shape[axis])) {
            vc_run_fail(run, "the output's size overflows");
        }
    }
    char *out = vc_run_out(run, 0, x->is_real, shape, x->n_dims);
    size_t row = out != NULL ? vc_run_count(&run->out[0], axis, x->n_dims) : 0;
    for (unsigned v = 0; out != NULL && row != 0 && v < run->n_in; v++) {
        size_t part = vc_run_count(run->in[v], axis, x->n_dims);

        for (size_t r = 0; part != 0 && r < run->out[0].n / row; r++) {
            memcpy(out + (r * row + at) * element_bytes(x),
                   (const char *)run->in[v]->data + r * part * element_bytes(x), part * element_bytes(x));
        }
        at += part;
    }
}

/* Where a slice begins or ends, in the elements that there are: low to high. An end of INT32_MAX or INT64_MAX
 * means "to the last element", for a slice that goes backwards, too, as in onnxruntime.
 * `low` is -1 for the end of a slice that goes backwards. */
static int64_t within(int64_t at, int64_t size, int64_t low, int64_t high)
{
    at = at < 0 ? (at < -size ? low : at + size) : at;
    return at < low ? low : at > high ? high : at;
}

/* Same bounds as slice_bound in ops_move.c, now with numbers. A single element keeps the old stride, since step *
 * stride could overflow for steps like INT64_MAX.
 *     size 10, start 8, end -11, step -3     first 8, behind -1, length 9, 3 elements: 8, 5, 2
 */
RUN(slice)
{
    const struct vc_run_value *x = run->in[0];
    const int64_t *starts = run->in[1]->data;
    const int64_t *ends = run->in[2]->data;
    const int64_t *axes = run->n_in > 3 && run->in[3] != NULL ? run->in[3]->data : NULL;
    const int64_t *steps = run->n_in > 4 && run->in[4] != NULL ? run->in[4]->data : NULL;
    struct vc_run_view view = vc_run_view_of(x);

    for (size_t k = 0; k < run->in[1]->n; k++) {
        unsigned axis = axes != NULL ? vc_run_axis(axes[k], x->n_dims) : (unsigned)k;
        int64_t size = x->shape[axis];
        int64_t step = steps != NULL ? steps[k] : 1;
        int64_t first = within(starts[k], size, 0, step < 0 ? size - 1 : size);
        int64_t behind = step < 0 && (ends[k] == INT32_MAX || ends[k] == INT64_MAX)
                             ? -1
                             : within(ends[k], size, step < 0 ? -1 : 0, size);
        int64_t length = step > 0 ? behind - first : first - behind;
        int64_t stride = step > 0 ? step : -step;

        view.base += first * view.step[axis];
        view.shape[axis] = length <= 0 ? 0 : (length - 1) / stride + 1;
        view.step[axis] *= view.shape[axis] > 1 ? step : 1; /* no step of one element leaves the numbers there are */
    }
    out_of_view(run, 0, &view, view.shape, view.n_dims);
}

/* The parts have to make up the dimension exactly: `size - at` bounds each of them. */
RUN(split)
{
    const struct vc_run_value *x = run->in[0];
    const int64_t *sizes = run->n_in > 1 && run->in[1] != NULL ? run->in[1]->data : NULL;
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", 0), x->n_dims);
    int64_t n = run->node->n_outputs;
    int64_t size = x->shape[axis];
    int64_t chunk = size / n + (size % n != 0);
    struct vc_run_view view = vc_run_view_of(x);
    int64_t at = 0;

    for (int64_t k = 0; k < n; k++) {
        int64_t part = sizes != NULL ? sizes[k] : k + 1 < n ? chunk : size - at;

        VC_LEAVE_IF(part < 0 || part > size - at || (k + 1 == n && at + part != size),
                    vc_run_fail(run, "the parts do not make up the dimension of %lld", (long long)size));
        view.shape[axis] = part;
        view.base = at * view.step[axis];
        out_of_view(run, (unsigned)k, &view, view.shape, view.n_dims);
        at += part;
    }
}

/* Dimensions that are repeated have step 0. */
RUN(expand)
{
    const struct vc_run_value *x = run->in[0];
    struct vc_run_value to = {.n_dims = (unsigned)run->in[1]->n};
    const struct vc_run_value *pair[2] = {x, &to};
    struct vc_run_view view = {0};
    struct vc_run_walk walk;

    memcpy(to.shape, run->in[1]->data, to.n_dims * sizeof *to.shape);
    if (!vc_run_walk_begin(run, &walk, pair, 2)) {
        return;
    }
    view.n_dims = walk.n_dims;
    for (unsigned k = 0; k < walk.n_dims; k++) {
        view.shape[k] = walk.shape[k];
        view.step[k] = (int64_t)walk.step[0][k];
    }
    out_of_view(run, 0, &view, view.shape, view.n_dims);
}

/* Each dimension becomes two: how often it comes, and its own elements. */
RUN(tile)
{
    const struct vc_run_value *x = run->in[0];
    const int64_t *repeats = run->in[1]->data;
    struct vc_run_view of = vc_run_view_of(x);
    struct vc_run_view view = {.n_dims = 2 * of.n_dims};
    int64_t shape[VC_GRAPH_MAX_DIMS];

    for (unsigned k = 0; k < of.n_dims; k++) {
        view.shape[2 * k] = repeats[k];
        view.shape[2 * k + 1] = of.shape[k];
        view.step[2 * k + 1] = of.step[k];
        VC_LEAVE_IF(repeats[k] < 0 || __builtin_mul_overflow(repeats[k], of.shape[k], &shape[k]),
                    vc_run_fail(run, "cannot be repeated %lld times", (long long)repeats[k]));
    }
    out_of_view(run, 0, &view, shape, of.n_dims);
}

/* ---- Pad ---- */

/* How many of a dimension's elements are left where negative numbers of padding cut some off.
 *     5 elements, pads -2 and 1: 3 are left
 */
static int64_t kept_of(int64_t size, int64_t first, int64_t last)
{
    int64_t cut_first = first < 0 ? -first : 0;
    int64_t cut_last = last < 0 ? -last : 0;

    return cut_first > size || cut_last > size ? 0 : size - cut_first - cut_last;
}

/* Reflect, edge and wrap repeat what negative pads leave; at least one element has to be left of each such
 * dimension.
 * In mode constant an index outside of the input is -1 (vc_padded_from) and gets the value; the other modes
 * always find an element. */
RUN(pad)
{
    const struct vc_run_value *x = run->in[0];
    const int64_t *pads = run->in[1]->data;
    const struct vc_run_value *value = run->n_in > 2 ? run->in[2] : NULL;
    const struct vc_run_value *axes = run->n_in > 3 ? run->in[3] : NULL;
    const char *mode = vc_node_string(run->node, "mode", "constant");
    size_t n_axes = run->in[1]->n / 2;
    struct vc_run_view of = vc_run_view_of(x);
    struct vc_run_walk walk = {.n_dims = x->n_dims};
    int64_t before[VC_GRAPH_MAX_DIMS] = {0};
    int64_t kept[VC_GRAPH_MAX_DIMS]; /* elements that are repeated: negative numbers cut off first */
    void *out;

    memcpy(walk.shape, x->shape, sizeof walk.shape);
    memcpy(kept, x->shape, sizeof kept);
    for (size_t k = 0; k < n_axes; k++) {
        unsigned axis = axes != NULL ? vc_run_axis(((const int64_t *)axes->data)[k], x->n_dims) : (unsigned)k;

        before[axis] = pads[k];
        VC_LEAVE_IF(
            __builtin_add_overflow(walk.shape[axis], pads[k], &walk.shape[axis]) ||
                __builtin_add_overflow(walk.shape[axis], pads[k + n_axes], &walk.shape[axis]) || walk.shape[axis] < 0 ||
                pads[k] == INT64_MIN || pads[k + n_axes] == INT64_MIN ||
                (*mode != 'c' && walk.shape[axis] != 0 && kept_of(x->shape[axis], pads[k], pads[k + n_axes]) < 1),
            vc_run_fail(run, "a dimension of %lld cannot be padded by %lld and %lld", (long long)x->shape[axis],
                        (long long)pads[k], (long long)pads[k + n_axes]));
        if (*mode != 'c') {
            kept[axis] = kept_of(x->shape[axis], pads[k], pads[k + n_axes]);
            of.base += pads[k] < 0 ? -pads[k] * of.step[axis] : 0;
            before[axis] = pads[k] < 0 ? 0 : pads[k];
        }
    }
    out = vc_run_expect(run, 2, "padding's value", 1) ? vc_run_out(run, 0, x->is_real, walk.shape, x->n_dims) : NULL;
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++, vc_run_walk_next(&walk)) {
        int64_t place = of.base;
        bool inside = true;

        for (unsigned k = 0; k < x->n_dims; k++) {
            int64_t from = vc_padded_from(walk.at[k] - before[k], kept[k], mode);

            inside = inside && from >= 0;
            place += inside ? from * of.step[k] : 0;
        }
        if (x->is_real) {
            ((REAL *)out)[i] = inside ? ((const REAL *)x->data)[place] : value != NULL ? *(const REAL *)value->data : 0;
        } else {
            ((int64_t *)out)[i] = inside          ? ((const int64_t *)x->data)[place]
                                  : value != NULL ? *(const int64_t *)value->data
                                                  : 0;
        }
    }
}

/* ---- blocks of pixels to channels and back ---- */

/* [n, c * b * b, h, w] to [n, c, h * b, w * b]. The channels are [b, b, c] (DCR) or [c, b, b] (CRD). */
RUN(depth_to_space)
{
    const struct vc_run_value *x = run->in[0];
    int64_t b = vc_node_int(run->node, "blocksize", 1);
    bool dcr = strcmp(vc_node_string(run->node, "mode", "DCR"), "DCR") == 0;
    struct vc_run_view of = vc_run_view_of(x);
    int64_t c = x->shape[1] / (b * b);
    int64_t shape[4] = {x->shape[0], c, 0, 0};
    struct vc_run_view view = {.n_dims = 6};

    VC_LEAVE_IF(
        x->shape[1] % (b * b) != 0 || __builtin_mul_overflow(x->shape[2], b, &shape[2]) ||
            __builtin_mul_overflow(x->shape[3], b, &shape[3]),
        vc_run_fail(run, "%lld channels cannot be divided into blocks of %lld", (long long)x->shape[1], (long long)b));
    view.shape[0] = x->shape[0];
    view.step[0] = of.step[0];
    view.shape[1] = c;
    view.step[1] = (dcr ? 1 : b * b) * of.step[1];
    view.shape[2] = x->shape[2];
    view.step[2] = of.step[2];
    view.shape[3] = b;
    view.step[3] = (dcr ? b * c : b) * of.step[1];
    view.shape[4] = x->shape[3];
    view.step[4] = of.step[3];
    view.shape[5] = b;
    view.step[5] = (dcr ? c : 1) * of.step[1];
    out_of_view(run, 0, &view, shape, 4);
}

/* [n, c, h, w] to [n, b * b * c, h / b, w / b]. The channels are [b, b, c] (DCR) or [c, b, b] (CRD). */
RUN(space_to_depth)
{
    const struct vc_run_value *x = run->in[0];
    int64_t b = vc_node_int(run->node, "blocksize", 1);
    struct vc_run_view of = vc_run_view_of(x);
    bool dcr = strcmp(vc_node_string(run->node, "mode", "DCR"), "DCR") == 0;
    int64_t shape[4] = {x->shape[0], 0, x->shape[2] / b, x->shape[3] / b};
    unsigned row = dcr ? 1 : 2; /* where the view has the rows of a block, behind which are its columns */
    unsigned channel = dcr ? 3 : 1;
    struct vc_run_view view = {.n_dims = 6};

    VC_LEAVE_IF(x->shape[2] % b != 0 || x->shape[3] % b != 0 || __builtin_mul_overflow(x->shape[1], b * b, &shape[1]),
                vc_run_fail(run, "%lld x %lld pixels cannot be divided into blocks of %lld", (long long)x->shape[2],
                            (long long)x->shape[3], (long long)b));
    view.shape[0] = x->shape[0];
    view.step[0] = of.step[0];
    view.shape[row] = b;
    view.step[row] = of.step[2];
    view.shape[row + 1] = b;
    view.step[row + 1] = of.step[3];
    view.shape[channel] = x->shape[1];
    view.step[channel] = of.step[1];
    view.shape[4] = shape[2];
    view.step[4] = b * of.step[2];
    view.shape[5] = shape[3];
    view.step[5] = b * of.step[3];
    out_of_view(run, 0, &view, shape, 4);
}
