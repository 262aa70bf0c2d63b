/* train_gather.h - part of train_elements.h: rows by numbers, and choices between two arrays. */

/* Notes an index that is out of range; of several, the first one of the first node. */
static void note_fault(struct vc_engine_fault *fault, uint32_t node, uint64_t at, int64_t index, uint64_t size)
{
    while (atomic_flag_test_and_set_explicit(&fault->lock, memory_order_acquire)) {
    }
    if (!fault->set || node < fault->node || (node == fault->node && at < fault->at)) {
        fault->set = true;
        fault->node = node;
        fault->at = at;
        fault->index = index;
        fault->size = (int64_t)size;
    }
    atomic_flag_clear_explicit(&fault->lock, memory_order_release);
}

/* The row that an index means; `size`: none. */
static inline uint64_t gather_row(int64_t index, uint64_t size)
{
    int64_t row = index < 0 ? index + (int64_t)size : index;

    return row < 0 || row >= (int64_t)size ? size : (uint64_t)row;
}

/* A block is some of the indices, of one outer index. A row that is out of range becomes zeros: the pass
 * fails in any case, and what is behind it must not read undefined numbers. */
LOOP_FN(gather)
{
    const struct vc_args_gather *args = call->args;
    uint64_t parts = (args->n + args->per_block - 1) / args->per_block;
    uint64_t outer = block / parts;
    uint64_t first = block % parts * args->per_block;
    uint64_t end = VC_AT_MOST(first + args->per_block, args->n);
    const int64_t *indices = call->p[1];
    size_t inner = (size_t)args->inner;

    for (uint64_t i = first; i < end; i++) {
        uint64_t row = gather_row(indices[i], args->size);
        REAL *y = (REAL *)call->p[2] + (outer * args->n + i) * inner;

        if (row == args->size) {
            note_fault(args->fault, args->node, i, indices[i], args->size);
            memset(y, 0, inner * sizeof *y);
        } else {
            memcpy(y, (const REAL *)call->p[0] + (outer * args->size + row) * inner, inner * sizeof *y);
        }
    }
}

/* A block is some of the rows of the table. It walks over all indices and adds up those that mean its rows. */
LOOP_FN(gather_backward)
{
    const struct vc_args_gather *args = call->args;
    uint64_t parts = (args->size + args->rows_per_block - 1) / args->rows_per_block;
    uint64_t outer = block / parts;
    uint64_t first = block % parts * args->rows_per_block;
    uint64_t end = VC_AT_MOST(first + args->rows_per_block, args->size);
    const REAL *dy = (const REAL *)call->p[0] + outer * args->n * args->inner;
    const int64_t *indices = call->p[1];
    REAL *dx = (REAL *)call->p[2] + outer * args->size * args->inner;
    size_t inner = (size_t)args->inner;

    if (!call->add) {
        memset(dx + first * inner, 0, (size_t)(end - first) * inner * sizeof *dx);
    }
    for (uint64_t i = 0; i < args->n; i++) {
        uint64_t row = gather_row(indices[i], args->size);

        if (row >= first && row < end) {
            for (size_t k = 0; k < inner; k++) {
                dx[row * inner + k] += dy[i * inner + k];
            }
        }
    }
}

/* ---- Where ---- */

/* n elements of a row, whose operands are step[k] apart. */
static void where_run(const int64_t *which, const REAL *a, const REAL *b, const int64_t *step, size_t n, REAL *y)
{
    for (size_t i = 0; i < n; i++) {
        REAL yes = a[(int64_t)i * step[1]];
        REAL no = b[(int64_t)i * step[2]];

        y[i] = which[(int64_t)i * step[0]] != 0 ? yes : no;
    }
}

/* Row by row along the last dimension, so that places are worked out once for each row. */
LOOP_FN(where)
{
    const struct vc_args_where *args = call->args;
    uint64_t first = block * (uint64_t)VC_ELEMENTS_PER_BLOCK;
    uint64_t end = VC_AT_MOST(first + VC_ELEMENTS_PER_BLOCK, args->n);
    unsigned last = args->n_dims == 0 ? 0 : args->n_dims - 1;
    uint64_t row = args->n_dims == 0 ? 1 : (uint64_t)args->shape[last];

    for (uint64_t i = first, n; i < end; i += n) {
        uint64_t rest = i;
        int64_t at[3] = {0};
        int64_t step[3] = {0};

        n = VC_AT_MOST(row - i % row, end - i);
        for (unsigned k = args->n_dims; k-- > 0;) {
            int64_t index = (int64_t)(rest % (uint64_t)args->shape[k]);

            rest /= (uint64_t)args->shape[k];
            for (unsigned v = 0; v < 3; v++) {
                at[v] += index * args->step[v][k];
                step[v] = k == last ? args->step[v][k] : step[v];
            }
        }
        where_run((const int64_t *)call->p[0] + at[0], (const REAL *)call->p[1] + at[1],
                  (const REAL *)call->p[2] + at[2], step, (size_t)n, (REAL *)call->p[3] + i);
    }
}

/* The gradient where this input was chosen, of the whole output; else 0. */
LOOP_FN(where_backward)
{
    const struct vc_args_where *args = call->args;
    uint64_t first = block * (uint64_t)VC_ELEMENTS_PER_BLOCK;
    uint64_t end = VC_AT_MOST(first + VC_ELEMENTS_PER_BLOCK, args->n);
    const REAL *dy = call->p[1];
    REAL *d = call->p[2];

    for (uint64_t i = first; i < end; i++) {
        uint64_t rest = i;
        int64_t at = 0;

        for (unsigned k = args->n_dims; k-- > 0;) {
            at += (int64_t)(rest % (uint64_t)args->shape[k]) * args->step[0][k];
            rest /= (uint64_t)args->shape[k];
        }
        REAL v = (((const int64_t *)call->p[0])[at] != 0) == args->which ? dy[i] : 0;
        d[i] = call->add ? d[i] + v : v;
    }
}
