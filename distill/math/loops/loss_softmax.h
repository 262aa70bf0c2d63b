/* loss_softmax.h - the softened answers of a row, from which losses of classes are made. Part of loss_loops.h. No probability
 * is stored: each is computed where it is needed from the row's largest logit and the sum beside it. loss_kd.h keeps the
 * exponentials. */

#define PART 256 /* elements that are computed before they are added; a multiple of LANES */

/* The softened answers of a row: x times 1 / t, what is largest of that, the sum of exp(x / t - max) and its log. near: no
 * exponential needs bounds. */
struct NAME(soft) {
    double by, max, sum, log_sum;
    bool near;
};

/* The largest x, and the least one. NaN is passed over: it makes the sum of exponentials NaN. */
static REAL NAME(largest)(const REAL *x, size_t n, REAL *smallest)
{
    NAME(reals) high = (NAME(reals)){0} - (REAL)INFINITY;
    NAME(reals) low = (NAME(reals)){0} + (REAL)INFINITY;
    size_t beside = sizeof high / sizeof *x, i = 0;

    for (; i + beside <= n; i += beside) {
        const NAME(reals) v = *(const NAME(reals) *)(x + i);

        high = CHOSEN(v > high, v, high);
        low = CHOSEN(v < low, v, low);
    }
    REAL most = -(REAL)INFINITY, least = (REAL)INFINITY;
    for (size_t k = 0; k < beside; k++) {
        most = high[k] > most ? high[k] : most;
        least = low[k] < least ? low[k] : least;
    }
    for (; i < n; i++) {
        most = x[i] > most ? x[i] : most;
        least = x[i] < least ? x[i] : least;
    }
    *smallest = least;
    return most;
}

/* The largest is taken away before the exponential, so that none overflows: softmax(x) = softmax(x - max). */
static struct NAME(soft) NAME(soft_begin)(const REAL *x, size_t n, double t)
{
    struct NAME(soft) s = {.by = 1 / t};
    REAL least;

    s.max = (double)NAME(largest)(x, n, &least) * s.by;
    s.near = (double)least * s.by - s.max >= -VC_EXP_NEAR_F64;
    return s;
}

/* exp(x / t - max) of m elements, at most PART. An exponential is a long chain of operations that wait for each other: cut
 * into three loops, more chains than one fit between what a processor has begun and what it has finished. */
static void NAME(exponentials)(const struct NAME(soft) * s, const REAL *x, size_t m, double *restrict e)
{
    const double by = s->by, max = s->max;
    double r[PART], p[PART];

    if (s->near) {
        for (size_t i = 0; i < m; i++) {
            e[i] = vc_exp_near_begin_f64((double)x[i] * by - max, &r[i]);
        }
    } else {
        for (size_t i = 0; i < m; i++) {
            e[i] = vc_exp_begin_f64((double)x[i] * by - max, &r[i]);
        }
    }
    for (size_t i = 0; i < m; i++) {
        p[i] = vc_expm1_upper_f64(r[i]);
    }
    if (s->near) {
        for (size_t i = 0; i < m; i++) {
            e[i] = vc_exp_near_end_f64(p[i], r[i], e[i]);
        }
        return;
    }
    for (size_t i = 0; i < m; i++) {
        e[i] = vc_exp_end_f64(p[i], r[i], e[i]);
    }
}

/* kept: room for the exponentials of all n, or NULL. */
static struct NAME(soft) NAME(soft_of)(const REAL *x, size_t n, double t, double *kept)
{
    struct NAME(soft) s = NAME(soft_begin)(x, n, t);
    double lane[LANES] = {0};

    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double part[PART];
        double *e = kept != NULL ? kept + first : part;

        NAME(exponentials)(&s, x + first, m, e);
        NAME(add_terms)(e, m, lane);
    }
    s.sum = NAME(sum_of)(lane);
    s.log_sum = vc_log_f64(s.sum);
    return s;
}

/* log of the probability of a class with logit x. */
static double NAME(log_p)(const struct NAME(soft) * s, REAL x)
{
    return (double)x * s->by - s->max - s->log_sum;
}

/* p (log p - log q); 0 where p is 0. */
static double NAME(divergence)(double log_p, double log_q)
{
    double p = vc_exp_f64(log_p);

    return p == 0 ? 0 : p * (log_p - log_q);
}
