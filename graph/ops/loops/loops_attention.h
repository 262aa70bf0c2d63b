/* loops_attention.h - part of op_loops.h: attention and rotary positions.
 *
 *     for each batch, head and query:
 *     row[j] = scale * q . k[j]  -softcap, mask, causal->  softmax  ->  y = sum of row[j] * v[j]
 */

/* Queries, keys or values as [batch, heads, length, size], wherever they lie: of four dimensions, or [batch, length,
 * heads * size]. */
struct heads {
    const REAL *data;
    int64_t batch, heads, length, size;
    int64_t step[3]; /* of batch, head and place, in elements */
};

/* False, with the failure set, where the input cannot be divided into so many heads. */
static bool heads_of(struct vc_run *run, const struct vc_run_value *x, int64_t heads, struct heads *h)
{
    struct vc_run_view view = vc_run_view_of(x);

    h->data = x->data;
    h->batch = x->shape[0];
    if (x->n_dims == 4) {
        h->heads = x->shape[1];
        h->length = x->shape[2];
        h->size = x->shape[3];
        memcpy(h->step, view.step, sizeof h->step);
        return true;
    }
    VC_LEAVE_WITH(
        x->shape[2] % heads != 0,
        vc_run_fail(run, "%lld elements cannot be divided into %lld heads", (long long)x->shape[2], (long long)heads),
        false);
    h->heads = heads;
    h->length = x->shape[1];
    h->size = x->shape[2] / heads;
    h->step[0] = view.step[0];
    h->step[1] = h->size;
    h->step[2] = view.step[1];
    return true;
}

static const REAL *head_row(const struct heads *h, int64_t batch, int64_t head, int64_t at)
{
    return h->data + batch * h->step[0] + head * h->step[1] + at * h->step[2];
}

/* Output k: the input `past`, then the keys or values of this call. h then points into the output. Without a past
 * nothing is copied, unless the output is asked for. */
static bool join_past(struct vc_run *run, unsigned k, unsigned past, struct heads *h)
{
    const struct vc_run_value *x = past < run->n_in ? run->in[past] : NULL;
    int64_t before = x != NULL ? x->shape[2] : 0;
    int64_t shape[4] = {h->batch, h->heads, h->length + before, h->size};

    if (x == NULL && k >= run->node->n_outputs) { /* nothing to join, and nobody asks */
        return true;
    }
    VC_LEAVE_WITH(x != NULL && (x->shape[0] != h->batch || x->shape[1] != h->heads || x->shape[3] != h->size),
                  vc_run_fail(run, "what is kept of before has another shape"), false);
    VC_LEAVE_WITH(
        k >= run->node->n_outputs,
        vc_run_fail(run, "keys and values of before are given, and the outputs with those of now are missing"), false);
    REAL *out = vc_run_out(run, k, true, shape, 4);
    if (out == NULL) {
        return false;
    }
    for (int64_t i = 0; h->size != 0 && i < shape[0] * shape[1] * shape[2]; i++) {
        int64_t at = i % shape[2];
        int64_t head = i / shape[2] % shape[1];
        int64_t batch = i / shape[2] / shape[1];

        memcpy(out + i * h->size,
               at < before ? (const REAL *)x->data + ((batch * shape[1] + head) * before + at) * h->size
                           : head_row(h, batch, head, at - before),
               (size_t)h->size * sizeof(REAL));
    }
    h->data = out;
    h->length = shape[2];
    h->step[0] = shape[1] * shape[2] * shape[3];
    h->step[1] = shape[2] * shape[3];
    h->step[2] = shape[3];
    return true;
}

/* What a run of attention needs to know besides queries, keys and values. */
struct attention {
    struct heads q, k, v;
    const struct vc_run_value *mask; /* NULL: none */
    int64_t mask_step[4];            /* of batch, head, query and key; 0 where the mask has size 1 */
    bool causal;
    int64_t before; /* keys of before: query i sees keys up to i + before */
    REAL scale, softcap;
};

/* Weights of all keys for one query: softmax(softcap(scale * q k) + mask). A query that may see no key at all gets
 * 0 for every key instead of NaN (0 / 0). */
static void attention_row(const struct attention *a, int64_t batch, int64_t head, int64_t query, REAL *row)
{
    const REAL *q = head_row(&a->q, batch, head, query);
    bool none = true;

    for (int64_t j = 0; j < a->k.length; j++) {
        const REAL *k = head_row(&a->k, batch, head / (a->q.heads / a->k.heads), j);
        REAL sum = 0;
        REAL bias = a->causal && j > query + a->before ? -(REAL)INFINITY : 0;

        for (int64_t i = 0; i < a->q.size; i++) {
            sum += q[i] * k[i];
        }
        sum *= a->scale;
        sum = a->softcap > 0 ? a->softcap * OF(tanh, sum / a->softcap) : sum;
        if (a->mask != NULL) {
            int64_t at =
                batch * a->mask_step[0] + head * a->mask_step[1] + query * a->mask_step[2] + j * a->mask_step[3];

            bias += a->mask->is_real                            ? ((const REAL *)a->mask->data)[at]
                    : ((const int64_t *)a->mask->data)[at] != 0 ? 0
                                                                : -(REAL)INFINITY;
        }
        none = none && bias == -(REAL)INFINITY;
        row[j] = sum + bias;
    }
    if (none) {
        memset(row, 0, (size_t)a->k.length * sizeof *row);
    } else {
        softmax_row(row, row, (size_t)a->k.length, 1, false);
    }
}

/* Strides of the mask over [batch, head, query, key], 0 where it broadcasts. */
static bool attention_mask(struct vc_run *run, struct attention *a)
{
    const int64_t scores[4] = {a->q.batch, a->q.heads, a->q.length, a->k.length};

    a->mask = run->n_in > 3 ? run->in[3] : NULL;
    if (a->mask == NULL) {
        return true;
    }
    struct vc_run_view view = vc_run_view_of(a->mask);
    for (unsigned k = 0; k < view.n_dims; k++) {
        unsigned at = 4 - view.n_dims + k;

        VC_LEAVE_WITH(view.shape[k] != 1 && view.shape[k] != scores[at],
                      vc_run_fail(run, "the mask has %lld in a dimension where the scores have %lld",
                                  (long long)view.shape[k], (long long)scores[at]),
                      false);
        a->mask_step[at] = view.shape[k] != 1 ? view.step[k] : 0;
    }
    return true;
}

/* y = softmax(softcap(scale * q k^T) + mask) v, for each head; several heads of queries share one of keys and values.
 */
RUN(attention)
{
    const struct vc_run_value *x = run->in[0];
    struct attention a = {.causal = vc_node_int(run->node, "is_causal", 0) != 0};
    int64_t shape[4];
    bool four = x->n_dims == 4;
    REAL *row;

    if (!heads_of(run, x, vc_node_int(run->node, "q_num_heads", 1), &a.q) ||
        !heads_of(run, run->in[1], vc_node_int(run->node, "kv_num_heads", 1), &a.k) ||
        !heads_of(run, run->in[2], vc_node_int(run->node, "kv_num_heads", 1), &a.v)) {
        return;
    }
    VC_LEAVE_IF(a.k.heads == 0 || a.q.heads % a.k.heads != 0 || a.k.heads != a.v.heads || a.k.length != a.v.length ||
                    a.q.size != a.k.size || a.q.batch != a.k.batch || a.k.batch != a.v.batch,
                vc_run_fail(run, "queries, keys and values do not fit together"));
    a.before = run->n_in > 4 && run->in[4] != NULL ? run->in[4]->shape[2] : 0;
    a.scale = (REAL)vc_node_float(run->node, "scale", 1 / sqrt((double)a.q.size));
    a.softcap = (REAL)vc_node_float(run->node, "softcap", 0);
    if (!join_past(run, 1, 4, &a.k) || !join_past(run, 2, 5, &a.v) || !attention_mask(run, &a)) {
        return;
    }
    shape[0] = a.q.batch;
    shape[1] = four ? a.q.heads : a.q.length;
    shape[2] = four ? a.q.length : a.q.heads * a.v.size;
    shape[3] = a.v.size;
    REAL *out = vc_run_out(run, 0, true, shape, x->n_dims);
    row = vc_alloc_array(run->ctx, VC_TAG_TILES, (size_t)a.k.length + 1, sizeof *row);
    if (out == NULL || row == NULL) {
        run->status = run->status != VC_OK ? run->status : VC_E_NOMEM;
        vc_free(run->ctx, row);
        return;
    }
    for (int64_t i = 0; i < a.q.batch * a.q.heads * a.q.length; i++) {
        int64_t query = i % a.q.length;
        int64_t head = i / a.q.length % a.q.heads;
        int64_t batch = i / a.q.length / a.q.heads;
        REAL *y = out + (four ? i : (batch * a.q.length + query) * a.q.heads + head) * a.v.size;

        if (a.k.length != 0) {
            attention_row(&a, batch, head, query, row);
        }
        for (int64_t d = 0; d < a.v.size; d++) {
            REAL sum = 0;

            for (int64_t j = 0; j < a.k.length; j++) {
                sum += row[j] * head_row(&a.v, batch, head / (a.q.heads / a.k.heads), j)[d];
            }
            y[d] = sum;
        }
    }
    vc_free(run->ctx, row);
}

/* Pairs (a, b) of each head become (a cos - b sin, a sin + b cos): elements i and i + half, or 2i and 2i + 1 if
 * interleaved. What is behind the part that rotates stays as it is. */
RUN(rotary_embedding)
{
    const struct vc_run_value *x = run->in[0];
    const struct vc_run_value *at = run->n_in > 3 ? run->in[3] : NULL;
    const struct vc_run_value *cos_table = run->in[1];
    bool interleaved = vc_node_int(run->node, "interleaved", 0) != 0;
    int64_t rows = cos_table->shape[0] * (at == NULL ? cos_table->shape[1] : 1);
    struct heads h;
    REAL *out;

    if (!heads_of(run, x, vc_node_int(run->node, "num_heads", 1), &h)) {
        return;
    }
    int64_t part = vc_node_int(run->node, "rotary_embedding_dim", 0);
    part = part == 0 ? h.size : part;
    int64_t half = cos_table->shape[cos_table->n_dims - 1];
    VC_LEAVE_IF(part > h.size || part != 2 * half || !vc_run_expect(run, 2, "table of sines", cos_table->n) ||
                    !vc_run_expect(run, 3, "list of positions", (size_t)(h.batch * h.length)) ||
                    (at == NULL && rows != h.batch * h.length),
                vc_run_fail(run, "the tables do not fit the input"));
    reshaped(run, x->shape, x->n_dims);
    out = run->out[0].data;
    for (int64_t i = 0; run->status == VC_OK && x->n != 0 && i < h.batch * h.heads * h.length; i++) {
        int64_t place = i % h.length;
        int64_t head = i / h.length % h.heads;
        int64_t batch = i / h.length / h.heads;
        int64_t position = batch * h.length + place;
        REAL *y = out + (head_row(&h, batch, head, place) - h.data);

        position = at != NULL ? place_of(run, ((const int64_t *)at->data)[position], rows) : position;
        for (int64_t k = 0; position >= 0 && k < half; k++) {
            REAL *first = y + (interleaved ? 2 * k : k);
            REAL *second = y + (interleaved ? 2 * k + 1 : k + half);
            REAL c = ((const REAL *)cos_table->data)[position * half + k];
            REAL s = ((const REAL *)run->in[2]->data)[position * half + k];
            REAL a = *first;
            REAL b = *second;

            *first = a * c - b * s;
            *second = a * s + b * c;
        }
    }
}
