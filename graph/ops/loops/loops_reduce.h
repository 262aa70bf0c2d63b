/* loops_reduce.h - part of op_loops.h: fewer elements along axes, and running sums along one.
 *
 *     ReduceX       elements along the marked axes become one        reduce_begin, then a walk over the input
 *     ArgMax/Min    the place of the largest or smallest             comes_before
 *     TopK          the k largest in order, with their places        comes_before
 *     CumSum        running sums                                     one row after the other
 *
 * A walk over the input in C order keeps the place in the output: the stride of a marked axis is 0, so that
 * all elements along it meet at one place.
 *
 *     x [2, 3], axis 1     strides of the output {1, 0}     places 0 0 0 1 1 1
 *     x [2, 3], axis 0     strides {0, 1}                   places 0 1 2 0 1 2
 *
 * Rows along an axis in the middle are found without a walk: element k of row i begins at i / inner * inner
 * * size + i % inner, and its elements are `inner` apart, where inner is the product of the dimensions
 * behind the axis.
 *
 * NaN wins everywhere (maximum, minimum, TopK's largest), as in NumPy, so that it cannot get lost on the
 * way. */

/* What becomes of the elements. MEAN is SUM with a last step. */
enum reduction { RED_SUM, RED_PROD, RED_MAX, RED_MIN, RED_MEAN };

/* NaN wins in a maximum or minimum (x != x is true for NaN only), as in NumPy. */
static REAL reduce_real(enum reduction how, REAL sum, REAL x)
{
    switch (how) {
    case RED_PROD:
        return sum * x;
    case RED_MAX:
        return x > sum || x != x ? x : sum;
    case RED_MIN:
        return x < sum || x != x ? x : sum;
    default:
        return sum + x;
    }
}

/* The same of integers, which wrap around. */
static int64_t reduce_integer(enum reduction how, int64_t sum, int64_t x)
{
    switch (how) {
    case RED_PROD:
        return (int64_t)((uint64_t)sum * (uint64_t)x);
    case RED_MAX:
        return x > sum ? x : sum;
    case RED_MIN:
        return x < sum ? x : sum;
    default:
        return (int64_t)((uint64_t)sum + (uint64_t)x);
    }
}

/* Output 0 without the axes that input 1 lists, and in `walk` the elements of input 0 with the place of each in it.
 * *count: elements of the input for each of the output. NULL: failed.
 * No list of axes means all of them, or none with noop_with_empty_axes. */
static void *reduce_begin(struct vc_run *run, struct vc_run_walk *walk, size_t *count)
{
    const struct vc_run_value *x = run->in[0];
    bool keep = vc_node_int(run->node, "keepdims", 1) != 0;
    bool nothing = vc_node_int(run->node, "noop_with_empty_axes", 0) != 0;
    bool marked[VC_GRAPH_MAX_DIMS];
    size_t n_axes = vc_run_axes(run, 1, x->n_dims, marked);
    int64_t shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims = 0;
    size_t step = 1;

    *walk = (struct vc_run_walk){.n_dims = x->n_dims};
    *count = 1;
    for (unsigned k = 0; k < x->n_dims; k++) {
        marked[k] = n_axes == 0 ? !nothing : marked[k];
        walk->shape[k] = x->shape[k];
        if (!marked[k] || keep) {
            shape[n_dims++] = marked[k] ? 1 : x->shape[k];
        }
        *count *= marked[k] ? (size_t)x->shape[k] : 1;
    }
    void *out = vc_run_out(run, 0, x->is_real, shape, n_dims);
    for (unsigned k = x->n_dims; k-- > 0;) {
        walk->step[0][k] = marked[k] ? 0 : step;
        step *= marked[k] ? 1 : (size_t)x->shape[k];
    }
    return out;
}

/* Each output is made of its elements in their order. An axis of 0 elements leaves the first value: 0, 1, -inf,
 * +inf. The mean is 0 / 0 then, a NaN. An f32 sum is one long chain of additions here, whose error grows with
 * its length. */
static void reduce(struct vc_run *run, enum reduction how)
{
    const struct vc_run_value *x = run->in[0];
    struct vc_run_walk walk;
    size_t count;
    void *out = reduce_begin(run, &walk, &count);
    REAL real = 0; /* what an output is before the first element */
    int64_t integer = 0;

    if (how == RED_PROD) {
        real = 1;
        integer = 1;
    } else if (how == RED_MAX) {
        real = -(REAL)INFINITY;
        integer = INT64_MIN;
    } else if (how == RED_MIN) {
        real = (REAL)INFINITY;
        integer = INT64_MAX;
    }
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        if (x->is_real) {
            ((REAL *)out)[i] = real;
        } else {
            ((int64_t *)out)[i] = integer;
        }
    }
    for (size_t i = 0; out != NULL && i < x->n; i++, vc_run_walk_next(&walk)) {
        if (x->is_real) {
            REAL *to = (REAL *)out + walk.place[0];

            *to = reduce_real(how, *to, ((const REAL *)x->data)[i]);
        } else {
            int64_t *to = (int64_t *)out + walk.place[0];

            *to = reduce_integer(how, *to, ((const int64_t *)x->data)[i]);
        }
    }
    for (size_t i = 0; out != NULL && how == RED_MEAN && i < run->out[0].n; i++) {
        ((REAL *)out)[i] /= (REAL)count;
    }
}

/* One operator for each. */
RUN(reduce_sum)
{
    reduce(run, RED_SUM);
}

RUN(reduce_prod)
{
    reduce(run, RED_PROD);
}

RUN(reduce_max)
{
    reduce(run, RED_MAX);
}

RUN(reduce_min)
{
    reduce(run, RED_MIN);
}

RUN(reduce_mean)
{
    reduce(run, RED_MEAN);
}

/* log(sum of exp(x)) = m + log(sum of exp(x - m)), with m the largest; m itself where that is infinite.
 * Without the shift exp(x) would overflow from 89 on in f32. Two walks: the largest of each output, then
 * the sums. */
RUN(reduce_log_sum_exp)
{
    const struct vc_run_value *x = run->in[0];
    struct vc_run_walk walk;
    size_t count;
    REAL *out = reduce_begin(run, &walk, &count);
    REAL *most;

    if (out == NULL) {
        return;
    }
    most = vc_alloc_array(run->ctx, VC_TAG_TILES, run->out[0].n + 1, sizeof *most);
    VC_LEAVE_IF(most == NULL, run->status = VC_E_NOMEM);
    for (size_t i = 0; i < run->out[0].n; i++) {
        most[i] = -(REAL)INFINITY;
        out[i] = 0;
    }
    struct vc_run_walk again = walk;
    for (size_t i = 0; i < x->n; i++, vc_run_walk_next(&walk)) {
        most[walk.place[0]] = reduce_real(RED_MAX, most[walk.place[0]], ((const REAL *)x->data)[i]);
    }
    for (size_t i = 0; i < x->n; i++, vc_run_walk_next(&again)) {
        out[again.place[0]] += OF(exp, ((const REAL *)x->data)[i] - most[again.place[0]]);
    }
    for (size_t i = 0; i < run->out[0].n; i++) {
        out[i] = isinf(most[i]) ? most[i] : most[i] + OF(log, out[i]);
    }
    vc_free(run->ctx, most);
}

/* ---- places of elements ---- */

/* Element i comes before element j where the larger ones come first, or the smaller ones; of equal ones the first. What
 * is not a number counts as the largest.
 * It orders all elements: of two different ones exactly one comes before the other. */
static bool comes_before(const struct vc_run_value *x, size_t i, size_t j, bool largest)
{
    if (x->is_real) {
        REAL a = ((const REAL *)x->data)[i];
        REAL b = ((const REAL *)x->data)[j];
        int order = (a > b) - (a < b);

        if (a != a || b != b) {
            order = (a != a) - (b != b);
        }

        return order == 0 ? i < j : (order > 0) == largest;
    } else {
        int64_t a = ((const int64_t *)x->data)[i];
        int64_t b = ((const int64_t *)x->data)[j];

        return a == b ? i < j : (a > b) == largest;
    }
}

/* The first of equal elements, or the last with select_last_index.
 * comes_before never prefers a later one of equal elements, which the test for `last` then does. */
static void arg(struct vc_run *run, bool largest)
{
    const struct vc_run_value *x = run->in[0];
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", 0), x->n_dims);
    bool keep = vc_node_int(run->node, "keepdims", 1) != 0;
    bool last = vc_node_int(run->node, "select_last_index", 0) != 0;
    size_t inner = vc_run_count(x, axis + 1, x->n_dims);
    int64_t shape[VC_GRAPH_MAX_DIMS];
    unsigned n_dims = 0;

    for (unsigned k = 0; k < x->n_dims; k++) {
        if (k != axis || keep) {
            shape[n_dims++] = k != axis ? x->shape[k] : 1;
        }
    }
    int64_t *out = vc_run_out(run, 0, false, shape, n_dims);
    VC_LEAVE_IF(out != NULL && x->n == 0 && run->out[0].n != 0,
                vc_run_fail(run, "there are no elements to choose from"));
    for (size_t i = 0; out != NULL && i < run->out[0].n; i++) {
        size_t first = i / inner * inner * (size_t)x->shape[axis] + i % inner;
        size_t best = first;

        for (int64_t k = 1; k < x->shape[axis]; k++) {
            size_t at = first + (size_t)k * inner;
            bool before = comes_before(x, at, best, largest);

            if (last && !before) { /* equal, if neither comes before the other by its value */
                before = x->is_real ? ((const REAL *)x->data)[at] == ((const REAL *)x->data)[best]
                                    : ((const int64_t *)x->data)[at] == ((const int64_t *)x->data)[best];
            }
            best = before ? at : best;
        }
        out[i] = (int64_t)((best - first) / inner);
    }
}

RUN(arg_max)
{
    arg(run, true);
}

RUN(arg_min)
{
    arg(run, false);
}

/* The k largest (or smallest) along the axis, in order, and their places.
 * Element i is searched among all that come after element i - 1 in the order: k * size comparisons for each
 * row and no memory. k is small where models use it (routing to experts, beams). */
RUN(top_k)
{
    const struct vc_run_value *x = run->in[0];
    unsigned axis = vc_run_axis(vc_node_int(run->node, "axis", -1), x->n_dims);
    int64_t k = run->in[1]->n == 1 ? *(const int64_t *)run->in[1]->data : -1;
    bool largest = vc_node_int(run->node, "largest", 1) != 0;
    size_t inner = vc_run_count(x, axis + 1, x->n_dims);
    int64_t shape[VC_GRAPH_MAX_DIMS];

    VC_LEAVE_IF(k < 0 || k > x->shape[axis],
                vc_run_fail(run, "k is %lld, and there are %lld elements", (long long)k, (long long)x->shape[axis]));
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = k;
    void *values = vc_run_out(run, 0, x->is_real, shape, x->n_dims);
    int64_t *places = vc_run_out(run, 1, false, shape, x->n_dims);
    for (size_t row = 0; values != NULL && k != 0 && row < run->out[0].n / (size_t)k; row++) {
        size_t first = row / inner * inner * (size_t)x->shape[axis] + row % inner;
        size_t to = row / inner * inner * (size_t)k + row % inner;
        size_t before = 0;

        for (int64_t i = 0; i < k; i++, to += inner) { /* the best of those that come after the one before it */
            size_t best = SIZE_MAX;

            for (int64_t j = 0; j < x->shape[axis]; j++) {
                size_t at = first + (size_t)j * inner;

                if ((i == 0 || comes_before(x, before, at, largest)) &&
                    (best == SIZE_MAX || comes_before(x, at, best, largest))) {
                    best = at;
                }
            }
            before = best;
            copy_element(x, best, values, to);
            if (places != NULL) {
                places[to] = (int64_t)((best - first) / inner);
            }
        }
    }
}

/* y[i] = x[0] + ... + x[i] along the axis; without x[i] if exclusive, from the end if reverse.
 *     x = {1, 2, 3}     {1, 3, 6}     exclusive {0, 1, 3}     reverse {6, 5, 3}     both {5, 3, 0}
 */
RUN(cumsum)
{
    const struct vc_run_value *x = run->in[0];
    unsigned axis = vc_run_axis(*(const int64_t *)run->in[1]->data, x->n_dims);
    bool exclusive = vc_node_int(run->node, "exclusive", 0) != 0;
    bool reverse = vc_node_int(run->node, "reverse", 0) != 0;
    size_t inner = vc_run_count(x, axis + 1, x->n_dims);
    size_t size = (size_t)x->shape[axis];
    void *out = vc_run_out(run, 0, x->is_real, x->shape, x->n_dims);

    for (size_t row = 0; out != NULL && x->n != 0 && row < x->n / size; row++) {
        size_t first = row / inner * inner * size + row % inner;
        REAL real = 0;
        uint64_t integer = 0;

        for (size_t k = 0; k < size; k++) {
            size_t at = first + (reverse ? size - 1 - k : k) * inner;

            if (x->is_real) {
                REAL next = real + ((const REAL *)x->data)[at];

                ((REAL *)out)[at] = exclusive ? real : next;
                real = next;
            } else {
                uint64_t next = integer + (uint64_t)((const int64_t *)x->data)[at];

                ((int64_t *)out)[at] = (int64_t)(exclusive ? integer : next);
                integer = next;
            }
        }
    }
}
