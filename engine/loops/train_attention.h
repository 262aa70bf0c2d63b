/* train_attention.h - part of train_products.h: attention, a tile of queries at a time.
 *
 *     forward    s = softcap(scale q k') + mask;  p = exp(s - most) / sum;  y = p v;  kept: most + log(sum) of each row
 *     backward   p = exp(s - kept);  dv += p' dy;  dp = dy v';  ds = p (dp - dy . y) scale;  dq += ds k;  dk += ds' q
 *
 * Probabilities are computed again in the backward pass instead of being kept: [queries, keys] numbers for
 * each head (Dao et al. 2022, "FlashAttention", has both ideas). A block forward is a tile of one head; a
 * block backward is all heads that share one head of keys, so that only one block adds to dk and dv. */

/* One tile of scores. */
struct scores {
    const struct vc_args_attention *args;
    size_t batch, head, first, rows; /* queries from `first` on */
    size_t n;                        /* keys that any of them may see */
    REAL *s;                         /* [rows, keys] */
    REAL *slope;                     /* of softcap, the same shape; NULL: none */
    REAL *scratch;
};

/* The first row of a head. */
static const REAL *head_of(const void *base, const struct vc_heads *is, size_t batch, size_t head)
{
    return (const REAL *)base + (int64_t)batch * is->batch + (int64_t)head * is->head;
}

/* How many keys the query of row i may see: causal, none behind it. */
static size_t seen_by(const struct scores *t, size_t i)
{
    return t->args->causal ? VC_AT_MOST(t->first + i + 1, t->n) : t->n;
}

/* Adds the mask to row i of the tile, or puts -infinity where a key may not be seen; causal: keys behind
 * the query. */
static void mask_scores(const struct scores *t, const void *mask, size_t i, REAL *s)
{
    const struct vc_args_attention *args = t->args;
    const int64_t *step = args->mask_step;
    int64_t at = (int64_t)t->batch * step[0] + (int64_t)t->head * step[1] + (int64_t)(t->first + i) * step[2];
    size_t seen = seen_by(t, i);

    for (size_t j = 0; args->mask == VC_MASK_TRUTH && j < seen; j++) {
        s[j] = ((const int64_t *)mask)[at + (int64_t)j * step[3]] != 0 ? s[j] : -(REAL)INFINITY;
    }
    for (size_t j = 0; args->mask == VC_MASK_ADDED && j < seen; j++) {
        s[j] += ((const REAL *)mask)[at + (int64_t)j * step[3]];
    }
    for (size_t j = seen; j < t->n; j++) {
        s[j] = -(REAL)INFINITY;
    }
}

/* softcap(scale q k') + mask */
static void make_scores(const struct scores *t, const struct vc_train_call *call)
{
    const struct vc_args_attention *args = t->args;
    size_t kv = t->head / (size_t)(args->heads / args->kv_heads);
    size_t keys = (size_t)args->keys;
    REAL cap = (REAL)args->softcap;

    multiply(t->rows, t->n, (size_t)args->size,
             head_of(call->p[0], &args->q, t->batch, t->head) + (int64_t)t->first * args->q.row,
             (struct vc_matrix){args->q.row, 1}, head_of(call->p[1], &args->k, t->batch, kv),
             (struct vc_matrix){1, args->k.row}, t->s, keys, false, (REAL)args->scale, t->scratch);
    for (size_t i = 0; i < t->rows; i++) {
        REAL *s = t->s + i * keys;

        for (size_t j = 0; cap > 0 && j < t->n; j++) {
            REAL v = FN(vc_tanh)(s[j] / cap);

            s[j] = cap * v;
            if (t->slope != NULL) {
                t->slope[i * keys + j] = 1 - v * v;
            }
        }
        mask_scores(t, call->p[3], i, s);
    }
}

/* s becomes e^(s - most), and the sum of that is returned. From `seen` on s is -infinity, whose exponential is 0 and changes
 * no sum, unless `most` is NaN. */
static REAL exponentials(REAL *s, size_t n, size_t seen, REAL most)
{
    REAL lanes[LANES] = {0};
    REAL sum = 0;
    size_t whole = n / LANES * LANES;
    size_t some = most == most ? VC_AT_MOST((seen + LANES - 1) / LANES * LANES, whole) : whole;
    size_t j = 0;

    for (; j < some; j += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            s[j + l] = FN(vc_exp)(s[j + l] - most);
            lanes[l] += s[j + l];
        }
    }
    for (; j < whole; j++) {
        s[j] = 0;
    }
    for (size_t l = 0; l < LANES; l++) {
        sum += lanes[l];
    }
    for (; j < n; j++) {
        s[j] = FN(vc_exp)(s[j] - most);
        sum += s[j];
    }
    return sum;
}

/* LANES partial maxima; NaN is not looked for: comparisons with it are false. */
static REAL largest(const REAL *s, size_t n)
{
    REAL lanes[LANES];
    REAL most = s[0];
    size_t j = 0;

    for (size_t l = 0; l < LANES; l++) {
        lanes[l] = s[0];
    }
    for (; j + LANES <= n; j += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            lanes[l] = s[j + l] > lanes[l] ? s[j + l] : lanes[l];
        }
    }
    for (size_t l = 0; l < LANES; l++) {
        most = lanes[l] > most ? lanes[l] : most;
    }
    for (; j < n; j++) {
        most = s[j] > most ? s[j] : most;
    }
    return most;
}

/* Scores of a row become probabilities. Returns most + log(sum), which is kept; if no key may be seen, all
 * are 0 and infinity is returned, so that exp(s - infinity) is 0 in the backward pass, too. */
static REAL probabilities(REAL *s, size_t n, size_t seen)
{
    REAL most = largest(s, n);

    if (most == -(REAL)INFINITY) {
        memset(s, 0, n * sizeof *s);
        return (REAL)INFINITY;
    }
    REAL sum = exponentials(s, n, seen, most);
    for (size_t j = 0; j < n; j++) {
        s[j] /= sum;
    }
    return most + FN(vc_log)(sum);
}

/* Causal tiles need only the keys up to their last query. */
static struct scores tile_of(const struct vc_args_attention *args, size_t batch, size_t head, size_t first,
                             REAL *scratch)
{
    struct scores t = {.args = args, .batch = batch, .head = head, .first = first, .scratch = scratch};

    t.rows = VC_AT_MOST((size_t)args->tile, (size_t)args->queries - first);
    t.n = args->causal ? VC_AT_MOST(first + t.rows, (size_t)args->keys) : (size_t)args->keys;
    t.s = scratch + args->scores;
    return t;
}

/* p: q, k, v, mask, y, kept sums (NULL without training), scratch */
LOOP_FN(attention)
{
    const struct vc_args_attention *args = call->args;
    size_t tiles = (size_t)((args->queries + args->tile - 1) / args->tile);
    size_t head = block / tiles % (size_t)args->heads;
    size_t batch = block / tiles / (size_t)args->heads;
    size_t kv = head / (size_t)(args->heads / args->kv_heads);
    struct scores t = tile_of(args, batch, head, block % tiles * (size_t)args->tile,
                              (REAL *)call->p[6] + worker * (size_t)args->scratch);
    REAL *sums = call->p[5];
    REAL *y = (REAL *)call->p[4] + (int64_t)batch * args->y.batch + (int64_t)head * args->y.head +
              (int64_t)t.first * args->y.row;

    make_scores(&t, call);
    for (size_t i = 0; i < t.rows; i++) {
        REAL sum = probabilities(t.s + i * (size_t)args->keys, t.n, seen_by(&t, i));

        if (sums != NULL) {
            sums[(batch * (size_t)args->heads + head) * (size_t)args->queries + t.first + i] = sum;
        }
    }
    multiply(t.rows, (size_t)args->v_size, t.n, t.s, (struct vc_matrix){(int64_t)args->keys, 1},
             head_of(call->p[2], &args->v, batch, kv), (struct vc_matrix){args->v.row, 1}, y, (size_t)args->y.row,
             false, 1, t.scratch);
}

/* ds in the place of dp: p (dp - sum of dy y) scale, and the slope of softcap; without these two, in dmask, too. */
static void score_gradients(const struct scores *t, const REAL *y, const REAL *dy, const REAL *p, REAL *dp, REAL *dmask)
{
    const struct vc_args_attention *args = t->args;
    size_t keys = (size_t)args->keys;

    for (size_t i = 0; i < t->rows; i++) {
        REAL sum = norm_dot(y + (int64_t)i * args->y.row, 0, dy + (int64_t)i * args->y.row, 0, (size_t)args->v_size);
        const REAL *restrict of = p + i * keys;
        REAL *restrict d = dp + i * keys;

        for (size_t j = 0; j < t->n; j++) {
            d[j] = of[j] * (d[j] - sum);
        }
        if (dmask != NULL) {
            memcpy(dmask + i * keys, d, t->n * sizeof *d);
            memset(dmask + i * keys + t->n, 0, (keys - t->n) * sizeof *d);
        }
        for (size_t j = 0; j < t->n; j++) {
            d[j] *= (REAL)args->scale;
        }
        for (size_t j = 0; t->slope != NULL && j < t->n; j++) {
            d[j] *= t->slope[i * keys + j];
        }
    }
}

/* What a tile adds to the gradients of queries, keys and values. */
static void attention_tile(const struct vc_train_call *call, const struct scores *t, size_t kv, REAL *dp)
{
    const struct vc_args_attention *args = call->args;
    size_t row = (t->batch * (size_t)args->heads + t->head) * (size_t)args->queries + t->first;
    const REAL *sums = (const REAL *)call->p[6] + row;
    REAL *dmask = call->p[11] != NULL ? (REAL *)call->p[11] + row * (size_t)args->keys : NULL;
    const REAL *y = head_of(call->p[4], &args->y, t->batch, t->head) + (int64_t)t->first * args->y.row;
    const REAL *dy = head_of(call->p[5], &args->y, t->batch, t->head) + (int64_t)t->first * args->y.row;
    struct vc_matrix dy_is = {args->y.row, 1};
    struct vc_matrix s_is = {(int64_t)args->keys, 1};
    struct vc_matrix turned = {1, (int64_t)args->keys};
    size_t size = (size_t)args->size;

    make_scores(t, call);
    for (size_t i = 0; i < t->rows; i++) {
        (void)exponentials(t->s + i * (size_t)args->keys, t->n, seen_by(t, i), sums[i]);
    }
    if (call->p[9] != NULL) {
        multiply(t->n, (size_t)args->v_size, t->rows, t->s, turned, dy, dy_is,
                 (REAL *)call->p[9] + (int64_t)t->batch * args->v.batch + (int64_t)kv * args->v.head,
                 (size_t)args->v.row, true, 1, t->scratch);
    }
    if (call->p[7] == NULL && call->p[8] == NULL && dmask == NULL) {
        return;
    }
    multiply(t->rows, t->n, (size_t)args->v_size, dy, dy_is, head_of(call->p[2], &args->v, t->batch, kv),
             (struct vc_matrix){1, args->v.row}, dp, (size_t)args->keys, false, 1, t->scratch);
    score_gradients(t, y, dy, t->s, dp, dmask);
    if (call->p[7] != NULL) {
        multiply(t->rows, size, t->n, dp, s_is, head_of(call->p[1], &args->k, t->batch, kv),
                 (struct vc_matrix){args->k.row, 1},
                 (REAL *)call->p[7] + (int64_t)t->batch * args->q.batch + (int64_t)t->head * args->q.head +
                     (int64_t)t->first * args->q.row,
                 (size_t)args->q.row, true, 1, t->scratch);
    }
    if (call->p[8] != NULL) {
        multiply(t->n, size, t->rows, dp, turned,
                 head_of(call->p[0], &args->q, t->batch, t->head) + (int64_t)t->first * args->q.row,
                 (struct vc_matrix){args->q.row, 1},
                 (REAL *)call->p[8] + (int64_t)t->batch * args->k.batch + (int64_t)kv * args->k.head,
                 (size_t)args->k.row, true, 1, t->scratch);
    }
}

/* The first gradient of a value is written: its rows are 0 before tiles add to them. */
static void clear_head(void *base, const struct vc_heads *is, size_t batch, size_t head, size_t rows, size_t n)
{
    REAL *x = (REAL *)base + (int64_t)batch * is->batch + (int64_t)head * is->head;

    for (size_t i = 0; base != NULL && i < rows; i++) {
        memset(x + (int64_t)i * is->row, 0, n * sizeof *x);
    }
}

/* p: q, k, v, mask, y, dy, kept sums, dq, dk, dv, scratch, dmask */
LOOP_FN(attention_backward)
{
    const struct vc_args_attention *args = call->args;
    size_t group = (size_t)(args->heads / args->kv_heads);
    size_t kv = block % (size_t)args->kv_heads;
    size_t batch = block / (size_t)args->kv_heads;
    REAL *scratch = (REAL *)call->p[10] + worker * (size_t)args->scratch;
    size_t tile = (size_t)(args->tile * args->keys);

    for (size_t g = 0; args->clear_q && g < group; g++) {
        clear_head(call->p[7], &args->q, batch, kv * group + g, (size_t)args->queries, (size_t)args->size);
    }
    if (args->clear_k) {
        clear_head(call->p[8], &args->k, batch, kv, (size_t)args->keys, (size_t)args->size);
    }
    if (args->clear_v) {
        clear_head(call->p[9], &args->v, batch, kv, (size_t)args->keys, (size_t)args->v_size);
    }
    for (size_t g = 0; g < group; g++) {
        for (size_t first = 0; first < (size_t)args->queries; first += (size_t)args->tile) {
            struct scores t = tile_of(args, batch, kv * group + g, first, scratch);

            t.slope = args->softcap > 0 ? t.s + 2 * tile : NULL;
            attention_tile(call, &t, kv, t.s + tile);
        }
    }
}
