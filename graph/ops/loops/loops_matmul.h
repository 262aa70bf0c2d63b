/* loops_matmul.h - part of op_loops.h: matrix products.
 *
 * Sums of products are cut into SUMMED_FIRST products each, in the order of k, and these sums are added in order: a
 * long f32 row loses fewer bits, and the engine's products can be compared with it. */

/* Matrices [rows, inner] and [inner, columns], many of each one after the other. */
struct matmul {
    int64_t rows, inner, columns;
    const void *a, *b;
    void *out;
    REAL *part; /* room for a row of floats; NULL: integers */
};

/* One row of a product: sums of SUMMED_FIRST products in the order of k, and the sum of these; rows of B are read as
 * they lie. part: room for a row. */
static void matmul_row(const REAL *x, const REAL *y, int64_t inner, int64_t columns, REAL *row, REAL *part)
{
    memset(row, 0, (size_t)columns * sizeof *row);
    for (int64_t first = 0; first < inner; first += SUMMED_FIRST) {
        memset(part, 0, (size_t)columns * sizeof *part);
        for (int64_t k = first; k < inner && k < first + SUMMED_FIRST; k++) {
            for (int64_t j = 0; j < columns; j++) {
                part[j] += x[k] * y[k * columns + j];
            }
        }
        add_rows(row, part, (size_t)columns);
    }
}

/* The same of integers, which wrap. */
static void matmul_row_of_integers(const uint64_t *x, const uint64_t *y, int64_t inner, int64_t columns, uint64_t *row)
{
    memset(row, 0, (size_t)columns * sizeof *row);
    for (int64_t k = 0; k < inner; k++) {
        for (int64_t j = 0; j < columns; j++) {
            row[j] += x[k] * y[k * columns + j];
        }
    }
}

/* All rows of a product of matrices. */
static void matmul_rows(const struct matmul *m, size_t x, size_t y, size_t to)
{
    size_t rows = (size_t)m->rows;
    size_t inner = (size_t)m->inner;
    size_t columns = (size_t)m->columns;

    for (size_t i = 0; i < rows; i++) {
        size_t from = x + i * inner;

        if (m->part != NULL) {
            matmul_row((const REAL *)m->a + from, (const REAL *)m->b + y, m->inner, m->columns,
                       (REAL *)m->out + to + i * columns, m->part);
        } else {
            matmul_row_of_integers((const uint64_t *)m->a + from, (const uint64_t *)m->b + y, m->inner, m->columns,
                                   (uint64_t *)m->out + to + i * columns);
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
    struct matmul m = {.rows = a->n_dims > 1 ? a->shape[a->n_dims - 2] : 1,
                       .inner = a->shape[a->n_dims - 1],
                       .columns = b->n_dims > 1 ? b->shape[b->n_dims - 1] : 1,
                       .a = a->data,
                       .b = b->data};
    int64_t shape[VC_GRAPH_MAX_DIMS];
    size_t n_stack = 1;
    unsigned n_dims;

    left.n_dims = a->n_dims > 1 ? a->n_dims - 2 : 0;
    right.n_dims = b->n_dims > 1 ? b->n_dims - 2 : 0;
    VC_LEAVE_IF(m.inner != b->shape[b->n_dims > 1 ? b->n_dims - 2 : 0],
                vc_run_fail(run, "the inner dimensions %lld and %lld differ", (long long)m.inner,
                            (long long)b->shape[b->n_dims > 1 ? b->n_dims - 2 : 0]));
    if (!vc_run_walk_begin(run, &walk, pair, 2)) {
        return;
    }
    n_dims = walk.n_dims;
    memcpy(shape, walk.shape, n_dims * sizeof *shape);
    for (unsigned k = 0; k < n_dims; k++) {
        n_stack *= (size_t)shape[k];
    }
    if (a->n_dims > 1) {
        shape[n_dims++] = m.rows;
    }
    if (b->n_dims > 1) {
        shape[n_dims++] = m.columns;
    }
    m.out = vc_run_out(run, 0, a->is_real, shape, n_dims);
    if (m.out != NULL && a->is_real) {
        m.part = vc_alloc_array(run->ctx, VC_TAG_TILES, (size_t)m.columns + 1, sizeof *m.part);
        VC_LEAVE_IF(m.part == NULL, run->status = VC_E_NOMEM);
    }
    for (size_t s = 0; m.out != NULL && s < n_stack; s++, vc_run_walk_next(&walk)) {
        matmul_rows(&m, walk.place[0] * (size_t)(m.rows * m.inner), walk.place[1] * (size_t)(m.inner * m.columns),
                    s * (size_t)(m.rows * m.columns));
    }
    vc_free(run->ctx, m.part);
}

/* Y = alpha * A' B' + beta * C, where A' and B' are A and B or, with transA and transB, their transposes. */
RUN(gemm)
{
    const struct vc_run_value *a = run->in[0];
    const struct vc_run_value *b = run->in[1];
    const struct vc_run_value *c = run->n_in > 2 ? run->in[2] : NULL;
    bool swap_a = vc_node_int(run->node, "transA", 0) != 0;
    bool swap_b = vc_node_int(run->node, "transB", 0) != 0;
    REAL alpha = (REAL)vc_node_float(run->node, "alpha", 1);
    REAL beta = (REAL)vc_node_float(run->node, "beta", 1);
    int64_t shape[2] = {a->shape[swap_a], b->shape[!swap_b]};
    int64_t inner = a->shape[!swap_a];
    struct vc_run_value product = {.n_dims = 2, .shape = {shape[0], shape[1]}};
    const struct vc_run_value *pair[2] = {&product, c != NULL ? c : &product};
    struct vc_run_walk walk;

    VC_LEAVE_IF(inner != b->shape[swap_b], vc_run_fail(run, "the inner dimensions %lld and %lld differ",
                                                       (long long)inner, (long long)b->shape[swap_b]));
    if (!vc_run_walk_begin(run, &walk, pair, 2)) {
        return;
    }
    VC_LEAVE_IF(walk.shape[0] != shape[0] || walk.shape[1] != shape[1],
                vc_run_fail(run, "C is larger than the product"));
    REAL *out = vc_run_out(run, 0, true, shape, 2);
    for (int64_t i = 0; out != NULL && i < shape[0]; i++) {
        for (int64_t j = 0; j < shape[1]; j++, vc_run_walk_next(&walk)) {
            REAL sum = 0;
            REAL part = 0;

            for (int64_t k = 0; k < inner; k++) {
                part += ((const REAL *)a->data)[swap_a ? k * shape[0] + i : i * inner + k] *
                        ((const REAL *)b->data)[swap_b ? j * inner + k : k * shape[1] + j];
                if (k % SUMMED_FIRST == SUMMED_FIRST - 1 || k + 1 == inner) {
                    sum += part;
                    part = 0;
                }
            }
            out[i * shape[1] + j] = alpha * sum + (c != NULL ? beta * ((const REAL *)c->data)[walk.place[1]] : 0);
        }
    }
}
