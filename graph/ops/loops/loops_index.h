/* loops_index.h - part of op_loops.h: elements that are looked up by numbers, and elements made from
 * numbers.
 *
 * Indices come from the caller or from other nodes, so each of them is tested before it is used (place_of):
 * 0 to size - 1, or -size to -1 from the end. The first one outside ends the run with its value in the
 * message.
 *
 * Places are computed in two ways. Where whole blocks are copied (Gather, GatherND) the elements behind the
 * axis lie together, and one memcpy moves `inner` of them:
 *
 *     x [2, 4, 3], axis 1, two indices     for each of the 2 leading rows i, for each index j:
 *                                              3 elements of x from (i * 4 + at[j]) * 3 on
 *                                          y [2, 2, 3]
 *
 * Where single elements are named (GatherElements, Scatter) a walk over the shape of the indices keeps its
 * position in each axis, and the place is the sum of position times stride, with the index in the place of
 * the axis's own position. */

/* y[a..., i..., b...] = x[a..., at[i...], b...]
 * The index may have any rank; it is read once for each leading row. `from` is tested there, or in the
 * second loop where x has no elements. */
RUN(gather)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_run_value *at = run->in[1];
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", 0), x->n_dims);
    unsigned behind = axis + at->n_dims;
    unsigned n_dims = x->n_dims + at->n_dims - 1;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    size_t inner = vc_run_count(x, axis + 1, x->n_dims) * element_bytes(x);
    size_t size = (size_t)x->shape[axis];

    for (unsigned k = 0; k < n_dims; k++) {
        shape[k] = k < axis ? x->shape[k] : k < behind ? at->shape[k - axis] : x->shape[k - at->n_dims + 1];
    }
    char *out = vc_run_out(run, 0, x->is_real, shape, n_dims);
    for (size_t i = 0; out != NULL && run->out[0].n != 0 && i < vc_run_count(x, 0, axis); i++) {
        for (size_t j = 0; j < at->n; j++) {
            int64_t from = place_of(run, ((const int64_t *)at->data)[j], (int64_t)size);

            if (from < 0) {
                return;
            }
            memcpy(out + (i * at->n + j) * inner, (const char *)x->data + (i * size + (size_t)from) * inner, inner);
        }
    }
    for (size_t j = 0; out != NULL && x->n == 0 && j < at->n; j++) { /* nothing to copy: still an index that is wrong */
        place_of(run, ((const int64_t *)at->data)[j], (int64_t)size);
    }
}

/* The shape of `at` must not exceed the shape of x, apart from the axis: else places behind the end of x would
 * be read. Fewer are allowed. */
static bool within_shape(struct vc_run *run, const struct vc_run_value *x, const struct vc_run_value *at, unsigned axis)
{
    for (unsigned k = 0; k < x->n_dims; k++) {
        if (k != axis && at->shape[k] > x->shape[k]) {
            vc_run_fail(run, "the indices have %lld in dimension %u; the input has %lld", (long long)at->shape[k], k,
                        (long long)x->shape[k]);
            return false;
        }
    }
    return true;
}

/* y[i, j, ...] = x[i, at[i, j, ...], ...] along the axis, where at[i, j, ...] stands for j.
 *     x [[1, 2], [3, 4]], at [[0, 0], [1, 0]], axis 1     y = [[1, 1], [4, 3]]
 */
RUN(gather_elements)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_run_value *at = run->in[1];
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", 0), x->n_dims);
    struct vc_run_view view = vc_run_view_of(x);
    struct vc_run_walk walk = {.n_dims = at->n_dims};

    memcpy(walk.shape, at->shape, sizeof walk.shape);
    void *out = within_shape(run, x, at, axis) ? vc_run_out(run, 0, x->is_real, at->shape, at->n_dims) : NULL;
    for (size_t i = 0; out != NULL && i < at->n; i++, vc_run_walk_next(&walk)) {
        int64_t from = place_of(run, ((const int64_t *)at->data)[i], x->shape[axis]);
        int64_t place = from * view.step[axis];

        if (from < 0) {
            return;
        }
        for (unsigned k = 0; k < x->n_dims; k++) {
            place += k != axis ? walk.at[k] * view.step[k] : 0;
        }
        copy_element(x, (size_t)place, out, i);
    }
}

/* The element that a tuple of numbers names, in dimensions from `first` on; -1, with the failure set: there is none.
 * A tuple shorter than the rank of x names a block, and the place is that of its first element. */
static int64_t tuple_place(struct vc_run *run, const struct vc_run_value *x, unsigned first, const int64_t *tuple,
                           unsigned n)
{
    struct vc_run_view view = vc_run_view_of(x);
    int64_t place = 0;

    for (unsigned k = 0; k < n; k++) {
        int64_t at = place_of(run, tuple[k], x->shape[first + k]);

        if (at < 0) {
            return -1;
        }
        place += at * view.step[first + k];
    }
    return place;
}

/* y[a, i...] = x[a, at[a, i...][0], at[a, i...][1], ...], with a the batch_dims dimensions that both have.
 * `i / per_batch` is the number of the batch that tuple i is in, and `block` the elements of x in one
 * batch. */
RUN(gather_nd)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_run_value *at = run->in[1];
    unsigned batch = (unsigned)vc_node_int(run->node, "batch_dims", 0);
    unsigned tuple = (unsigned)at->shape[at->n_dims - 1];
    unsigned n_dims = at->n_dims - 1;
    int64_t shape[2 * VC_GRAPH_MAX_DIMS];
    size_t inner = vc_run_count(x, batch + tuple, x->n_dims);

    for (unsigned k = 0; k < batch; k++) {
        VC_LEAVE_IF(x->shape[k] != at->shape[k], vc_run_fail(run, "the batch dimensions %lld and %lld differ",
                                                             (long long)x->shape[k], (long long)at->shape[k]));
    }
    memcpy(shape, at->shape, n_dims * sizeof *shape);
    for (unsigned k = batch + tuple; k < x->n_dims; k++) {
        shape[n_dims++] = x->shape[k];
    }
    char *out = vc_run_out(run, 0, x->is_real, shape, n_dims);
    size_t per_batch = vc_run_count(at, batch, at->n_dims - 1);
    size_t block = vc_run_count(x, batch, x->n_dims);
    for (size_t i = 0; out != NULL && x->n != 0 && i < at->n / tuple; i++) {
        int64_t from = tuple_place(run, x, batch, (const int64_t *)at->data + i * tuple, tuple);

        if (from < 0) {
            return;
        }
        memcpy(out + i * inner * element_bytes(x),
               (const char *)x->data + (i / per_batch * block + (size_t)from) * element_bytes(x),
               inner * element_bytes(x));
    }
    if (out != NULL && x->n == 0 && run->out[0].n != 0) {
        vc_run_fail(run, "there is nothing to choose from");
    }
}

/* Puts element `from` of the updates to element `to`: in its place, or as the reduction says.
 * The letters tell the names apart: none, add, and by the second letter mul, min, max. Integers wrap
 * around, as unsigned numbers do; signed overflow would be undefined. A NaN among the updates is not put
 * into min or max. */
static void scatter_element(const char *how, const struct vc_run_value *updates, size_t from, void *out, size_t to)
{
    if (*how == 'n') { /* none */
        copy_element(updates, from, out, to);
    } else if (updates->is_real) {
        REAL b = ((const REAL *)updates->data)[from];
        REAL *a = (REAL *)out + to;

        if (*how == 'a') {
            *a = *a + b;
        } else if (how[1] == 'u') {
            *a = *a * b;
        } else if (how[1] == 'i') {
            *a = b < *a ? b : *a;
        } else if (b > *a) {
            *a = b;
        }
    } else {
        int64_t b = ((const int64_t *)updates->data)[from];
        int64_t *a = (int64_t *)out + to;

        if (*how == 'a') {
            *a = (int64_t)((uint64_t)*a + (uint64_t)b);
        } else if (how[1] == 'u') {
            *a = (int64_t)((uint64_t)*a * (uint64_t)b);
        } else if (how[1] == 'i') {
            *a = b < *a ? b : *a;
        } else if (b > *a) {
            *a = b;
        }
    }
}

/* y = x, then y[at[i...][0], at[i...][1], ...] = updates[i...] in the order of i.
 * Where several tuples name one place, the last one stays, or all are reduced: the order is that of the
 * updates, so that results do not depend on threads.
 *
 *     x = {1, 2, 3, 4}, at = {{1}, {1}}, updates = {10, 20}     none: {1, 20, 3, 4}     add: {1, 32, 3, 4}
 */
RUN(scatter_nd)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_run_value *at = run->in[1];
    const struct vc_run_value *updates = run->in[2];
    const char *how = vc_node_string(run->node, "reduction", "none");
    unsigned tuple = (unsigned)at->shape[at->n_dims - 1];
    size_t inner = vc_run_count(x, tuple, x->n_dims);

    for (unsigned k = 0; k < updates->n_dims; k++) {
        VC_LEAVE_IF(updates->shape[k] != (k < at->n_dims - 1 ? at->shape[k] : x->shape[k - (at->n_dims - 1) + tuple]),
                    vc_run_fail(run, "the updates have %lld in dimension %u", (long long)updates->shape[k], k));
    }
    reshaped(run, x->shape, x->n_dims);
    for (size_t i = 0; run->status == VC_OK && updates->n != 0 && i < at->n / tuple; i++) {
        int64_t to = tuple_place(run, x, 0, (const int64_t *)at->data + i * tuple, tuple);

        for (size_t k = 0; to >= 0 && k < inner; k++) {
            scatter_element(how, updates, i * inner + k, run->out[0].data, (size_t)to + k);
        }
    }
}

/* y = x, then y[i, at[i, j, ...], ...] = updates[i, j, ...] in the order of the elements. */
RUN(scatter_elements)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_run_value *at = run->in[1];
    const char *how = vc_node_string(run->node, "reduction", "none");
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", 0), x->n_dims);
    struct vc_run_view view = vc_run_view_of(x);
    struct vc_run_walk walk = {.n_dims = at->n_dims};

    memcpy(walk.shape, at->shape, sizeof walk.shape);
    if (memcmp(at->shape, run->in[2]->shape, at->n_dims * sizeof *at->shape) != 0) {
        vc_run_fail(run, "the updates and the indices have different shapes");
    }
    if (!within_shape(run, x, at, axis) || run->status != VC_OK) {
        return;
    }
    reshaped(run, x->shape, x->n_dims);
    for (size_t i = 0; run->status == VC_OK && i < at->n; i++, vc_run_walk_next(&walk)) {
        int64_t to = place_of(run, ((const int64_t *)at->data)[i], x->shape[axis]);
        int64_t place = to * view.step[axis];

        if (to < 0) {
            return;
        }
        for (unsigned k = 0; k < x->n_dims; k++) {
            place += k != axis ? walk.at[k] * view.step[k] : 0;
        }
        scatter_element(how, run->in[2], i, run->out[0].data, (size_t)place);
    }
}

/* y[i..., k, j...] = on where k is the number at[i..., j...] (from the end if it is negative), else off.
 * Numbers outside of -depth to depth - 1 give a row that is off everywhere, as ONNX says, and are no error. */
RUN(one_hot)
{
    const struct vc_run_value *at = run->in[0];
    const struct vc_run_value *values = run->in[2];
    int64_t depth = run->in[1]->n == 1 ? *(const int64_t *)run->in[1]->data : -1;
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", -1), at->n_dims + 1);
    int64_t shape[VC_GRAPH_MAX_DIMS];
    size_t inner = vc_run_count(at, axis, at->n_dims);

    for (unsigned k = 0; k <= at->n_dims; k++) {
        shape[k] = k < axis ? at->shape[k] : k == axis ? depth : at->shape[k - 1];
    }
    void *out = vc_run_expect(run, 2, "list of off and on", 2)
                    ? vc_run_out(run, 0, values->is_real, shape, at->n_dims + 1)
                    : NULL;
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        int64_t k = (int64_t)(i / inner % (size_t)depth);
        int64_t hot = ((const int64_t *)at->data)[i / inner / (size_t)depth * inner + i % inner];

        copy_element(values, k == hot || (hot < 0 && k == hot + depth), out, i);
    }
}

/* ---- what is made from numbers ---- */

/* The attribute value has one element, a float or an integer. */
RUN(constant_of_shape)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_graph_node *node = run->node;
    bool integer = node->n_attrs != 0 && node->attrs[0].kind == VC_ATTR_INT;
    void *out = vc_run_out(run, 0, !integer, x->data, (unsigned)x->n);

    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        if (integer) {
            ((int64_t *)out)[i] = vc_node_int(run->node, "value", 0);
        } else {
            ((REAL *)out)[i] = (REAL)vc_node_float(run->node, "value", 0);
        }
    }
}

/* start, start + step, start + 2 * step, ... before limit.
 * Floats are start + k * step, each rounded once more, and no running sum, whose error would grow. How many
 * there are was decided when the graph was built (vc_range_count), from the same constants. Integers are
 * counted with unsigned arithmetic: limit - start may exceed int64_t. */
RUN(range)
{
    bool is_real = run->in[0]->is_real;
    int64_t n;

    if (is_real) {
        REAL start = *(const REAL *)run->in[0]->data;
        REAL step = *(const REAL *)run->in[2]->data;

        n = vc_dim_value(&run->graph->dims, run->graph->values[run->node->outputs[0]].shape[0]);
        REAL *out = vc_run_out(run, 0, true, &n, 1);
        for (int64_t k = 0; out != NULL && k < n; k++) {
            out[k] = start + (REAL)k * step;
        }
    } else {
        int64_t start = *(const int64_t *)run->in[0]->data;
        int64_t limit = *(const int64_t *)run->in[1]->data;
        int64_t step = *(const int64_t *)run->in[2]->data;
        bool empty = step > 0 ? limit <= start : limit >= start;
        uint64_t length = step > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
        uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;

        VC_LEAVE_IF(step == 0, vc_run_fail(run, "the step is 0"));
        n = empty ? 0 : (int64_t)((length - 1) / stride + 1);
        int64_t *out = vc_run_out(run, 0, false, &n, 1);
        for (int64_t k = 0; out != NULL && k < n; k++) {
            out[k] = (int64_t)((uint64_t)start + (uint64_t)k * (uint64_t)step);
        }
    }
}

/* The elements on and above diagonal k stay (upper), or those on and below it; the others are 0. k = 0 is the
 * main diagonal, k = 1 the one above: trilu(ones, k = 1) marks what a causal decoder must not see
 */
RUN(trilu)
{
    const struct vc_run_value *x = run->in[0];
    int64_t k = run->n_in > 1 && run->in[1] != NULL ? *(const int64_t *)run->in[1]->data : 0;
    bool upper = vc_node_int(run->node, "upper", 1) != 0;
    int64_t columns = x->shape[x->n_dims - 1];
    int64_t rows = x->shape[x->n_dims - 2];

    if (!vc_run_expect(run, 1, "diagonal", 1)) {
        return;
    }
    reshaped(run, x->shape, x->n_dims);
    for (size_t i = 0; run->status == VC_OK && i < x->n; i++) {
        int64_t row = (int64_t)(i / (size_t)columns) % rows;
        int64_t column = (int64_t)(i % (size_t)columns);
        bool above = column - row >= k; /* both are sizes: no overflow */

        if (upper ? !above : above && column - row != k) {
            memset((char *)run->out[0].data + i * element_bytes(x), 0, element_bytes(x));
        }
    }
}
