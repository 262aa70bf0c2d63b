/* loops_share.h - part of op_loops.h: functions that several families of operators use. */

static size_t element_bytes(const struct vc_run_value *x)
{
    return x->is_real ? sizeof(REAL) : sizeof(int64_t);
}

/* Copies element `from` of x to element `at` of `to`, which has the type of x. */
static void copy_element(const struct vc_run_value *x, size_t from, void *to, size_t at)
{
    memcpy((char *)to + at * element_bytes(x), (const char *)x->data + from * element_bytes(x), element_bytes(x));
}

/* Element k as a float; x holds floats or integers. */
static REAL as_real(const struct vc_run_value *x, size_t k)
{
    return x->is_real ? ((const REAL *)x->data)[k] : (REAL)((const int64_t *)x->data)[k];
}

/* The float truncated to an integer. Values out of range become the nearest int64; NaN becomes 0. */
static int64_t to_integer(REAL x)
{
    if (!(x == x)) {
        return 0;
    }
    if (x >= (REAL)9223372036854775808.0) {
        return INT64_MAX;
    }
    if (x <= (REAL)-9223372036854775808.0) {
        return INT64_MIN;
    }
    return (int64_t)x;
}

/* Makes output 0: the elements of input 0 in another shape with the same number of elements. */
static void reshaped(struct vc_run *run, const int64_t *shape, unsigned n_dims)
{
    const struct vc_run_value *x = run->in[0];
    void *out = vc_run_out(run, 0, x->is_real, shape, n_dims);

    if (out != NULL && run->out[0].n != x->n) {
        vc_run_fail(run, "%zu elements do not have the shape asked for", x->n);
    } else if (out != NULL && x->n != 0) {
        memcpy(out, x->data, x->n * element_bytes(x));
    }
}

/* The index in a dimension of `size`, from 0; negative indices count from the end. Returns -1 and sets the failure if
 * the index is out of range. */
static int64_t place_of(struct vc_run *run, int64_t at, int64_t size)
{
    VC_LEAVE_WITH(
        at < -size || at >= size,
        vc_run_fail(run, "the index %lld is outside of the dimension of %lld", (long long)at, (long long)size), -1);
    return at < 0 ? at + size : at;
}

/* Longer sums are split into two halves (pairwise summation). The rounding error of one long f32 sum grows with the
 * length; the error of a tree of sums grows with the logarithm of the length. */
#define SUMMED_FIRST 16

/* The sum of n elements, `step` elements apart, by pairwise summation. */
static REAL sum_of(const REAL *x, size_t n, size_t step)
{
    REAL sum = 0;

    if (n > SUMMED_FIRST) {
        return sum_of(x, n / 2, step) + sum_of(x + n / 2 * step, n - n / 2, step);
    }
    for (size_t k = 0; k < n; k++) {
        sum += x[k * step];
    }
    return sum;
}

static void add_rows(REAL *to, const REAL *part, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        to[k] += part[k];
    }
}

/* Softmax of n elements from x on, `step` apart: y = exp(x - m) / sum of exp(x - m), with m the largest element; or the
 * logarithm, y = x - m - log(sum). */
static void softmax_row(const REAL *x, REAL *y, size_t n, size_t step, bool logarithm)
{
    REAL most = x[0];

    for (size_t k = 1; k < n; k++) {
        most = x[k * step] > most ? x[k * step] : most;
    }
    for (size_t k = 0; k < n; k++) {
        y[k * step] = OF(exp, x[k * step] - most);
    }
    REAL sum = sum_of(y, n, step);
    for (size_t k = 0; k < n; k++) {
        y[k * step] = logarithm ? x[k * step] - most - OF(log, sum) : y[k * step] / sum;
    }
}

/* Elements of three spatial dimensions. */
static size_t volume(const int64_t *size)
{
    return (size_t)size[0] * (size_t)size[1] * (size_t)size[2];
}

/* The output's shape: batch, channels, and the last n_dims - 2 of three spatial dimensions. */
static REAL *out_of_window(struct vc_run *run, int64_t channels, const int64_t *size)
{
    unsigned n_dims = run->in[0]->n_dims;
    int64_t shape[VC_GRAPH_MAX_DIMS] = {run->in[0]->shape[0], channels};

    for (unsigned k = 2; k < n_dims; k++) {
        shape[k] = size[VC_WINDOW_DIMS - n_dims + k];
    }
    return vc_run_out(run, 0, true, shape, n_dims);
}
