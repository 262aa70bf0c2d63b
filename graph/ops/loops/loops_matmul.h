/* loops_matmul.h - part of loops.h: matrix products. */

/* One row of a product: each sum in the order of k; rows of B are read as they lie. Integers wrap. */
static void matmul_row(bool is_real, const void *x, const void *y, int64_t inner, int64_t columns, void *row)
{
    for (int64_t j = 0; j < columns; j++) {
        if (is_real) {
            ((REAL *)row)[j] = 0;
        } else {
            ((uint64_t *)row)[j] = 0;
        }
    }
    for (int64_t k = 0; k < inner; k++) {
        for (int64_t j = 0; is_real && j < columns; j++) {
            ((REAL *)row)[j] += ((const REAL *)x)[k] * ((const REAL *)y)[k * columns + j];
        }
        for (int64_t j = 0; !is_real && j < columns; j++) {
            ((uint64_t *)row)[j] += ((const uint64_t *)x)[k] * ((const uint64_t *)y)[k * columns + j];
        }
    }
}

/* MatMul of matrices, or of stacks of them that broadcast: C[..., i, j] = sum over k of A[..., i, k] * B[..., k, j]. A
 * vector on the left is a row, one on the right a column, and that dimension is left out of the result. */
RUN(matmul)
{
    const struct vc_run_value *a = run->in[0];
    const struct vc_run_value *b = run->in[1];
    struct vc_run_value left = *a;
    struct vc_run_value right = *b;
    const struct vc_run_value *pair[2] = {&left, &right};
    struct vc_run_walk walk;
    int64_t rows = a->n_dims > 1 ? a->shape[a->n_dims - 2] : 1;
    int64_t inner = a->shape[a->n_dims - 1];
    int64_t columns = b->n_dims > 1 ? b->shape[b->n_dims - 1] : 1;
    int64_t shape[VC_GRAPH_MAX_DIMS];
    size_t bytes = a->is_real ? sizeof(REAL) : sizeof(int64_t);
    size_t n_stack = 1;
    unsigned n_dims;
    char *out;

    left.n_dims = a->n_dims > 1 ? a->n_dims - 2 : 0;
    right.n_dims = b->n_dims > 1 ? b->n_dims - 2 : 0;
    if (inner != b->shape[b->n_dims > 1 ? b->n_dims - 2 : 0]) {
        vc_run_fail(run, "the inner dimensions %lld and %lld differ", (long long)inner,
                    (long long)b->shape[b->n_dims > 1 ? b->n_dims - 2 : 0]);
        return;
    }
    if (!vc_run_walk_begin(run, &walk, pair, 2)) {
        return;
    }
    n_dims = walk.n_dims;
    memcpy(shape, walk.shape, n_dims * sizeof *shape);
    for (unsigned k = 0; k < n_dims; k++) {
        n_stack *= (size_t)shape[k];
    }
    if (a->n_dims > 1) {
        shape[n_dims++] = rows;
    }
    if (b->n_dims > 1) {
        shape[n_dims++] = columns;
    }
    out = vc_run_out(run, 0, a->is_real, shape, n_dims);
    for (size_t s = 0; out != NULL && s < n_stack; s++, vc_run_walk_next(&walk)) {
        size_t x = walk.place[0] * (size_t)(rows * inner);
        size_t y = walk.place[1] * (size_t)(inner * columns);

        for (size_t i = 0; i < (size_t)rows; i++) {
            matmul_row(a->is_real, (const char *)a->data + (x + i * (size_t)inner) * bytes,
                       (const char *)b->data + y * bytes, inner, columns,
                       out + (s * (size_t)rows + i) * (size_t)columns * bytes);
        }
    }
}

/* Y = alpha * A' B' + beta * C, where A' and B' are A and B or, with transA and transB, their transposes. */
RUN(gemm)
{
    const struct vc_run_value *a = run->in[0];
    const struct vc_run_value *b = run->in[1];
    const struct vc_run_value *c = run->n_in > 2 ? run->in[2] : NULL;
    bool swap_a = vc_run_int(run, "transA", 0) != 0;
    bool swap_b = vc_run_int(run, "transB", 0) != 0;
    REAL alpha = (REAL)vc_run_float(run, "alpha", 1);
    REAL beta = (REAL)vc_run_float(run, "beta", 1);
    int64_t shape[2] = {a->shape[swap_a], b->shape[!swap_b]};
    int64_t inner = a->shape[!swap_a];
    struct vc_run_value product = {.n_dims = 2, .shape = {shape[0], shape[1]}};
    const struct vc_run_value *pair[2] = {&product, c != NULL ? c : &product};
    struct vc_run_walk walk;
    REAL *out;

    if (inner != b->shape[swap_b]) {
        vc_run_fail(run, "the inner dimensions %lld and %lld differ", (long long)inner, (long long)b->shape[swap_b]);
        return;
    }
    if (!vc_run_walk_begin(run, &walk, pair, 2)) {
        return;
    }
    if (walk.shape[0] != shape[0] || walk.shape[1] != shape[1]) {
        vc_run_fail(run, "C is larger than the product");
        return;
    }
    out = vc_run_out(run, 0, true, shape, 2);
    for (int64_t i = 0; out != NULL && i < shape[0]; i++) {
        for (int64_t j = 0; j < shape[1]; j++, vc_run_walk_next(&walk)) {
            REAL sum = 0;

            for (int64_t k = 0; k < inner; k++) {
                sum += ((const REAL *)a->data)[swap_a ? k * shape[0] + i : i * inner + k] *
                       ((const REAL *)b->data)[swap_b ? j * inner + k : k * shape[1] + j];
            }
            out[i * shape[1] + j] = alpha * sum + (c != NULL ? beta * ((const REAL *)c->data)[walk.place[1]] : 0);
        }
    }
}
