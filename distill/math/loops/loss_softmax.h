/* loss_softmax.h - the softened answers of a row, from which losses of classes are made. Part of loss_loops.h. No probability
 * is stored: each is computed where it is needed from the row's largest logit and the sum beside it. loss_kd.h keeps the
 * exponentials. */

#define PART 256 /* elements that are computed before they are added; a multiple of LANES */

/* The softened answers of a row: x times 1 / t, what is largest of that, the sum of exp(x / t - max) and its log. */
struct NAME(soft) {
    double by, max, sum, log_sum;
};

#define BESIDE 64 /* maxima that are kept side by side: each waits for the one before it in its place alone */

/* The largest x. NaN is passed over: it makes the sum of exponentials NaN. */
static REAL NAME(largest)(const REAL *x, size_t n)
{
    REAL most[BESIDE];
    size_t lanes = n < BESIDE ? 1 : BESIDE, i = 0;

    for (size_t k = 0; k < lanes; k++) {
        most[k] = -(REAL)INFINITY;
    }
    for (; i + BESIDE <= n; i += BESIDE) {
        for (size_t k = 0; k < BESIDE; k++) {
            most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
        }
    }
    for (; i < n; i++) {
        most[0] = x[i] > most[0] ? x[i] : most[0];
    }
    for (size_t k = 1; k < lanes; k++) {
        most[0] = most[k] > most[0] ? most[k] : most[0];
    }
    return most[0];
}

/* The largest is taken away before the exponential, so that none overflows: softmax(x) = softmax(x - max). */
static struct NAME(soft) NAME(soft_begin)(const REAL *x, size_t n, double t)
{
    return (struct NAME(soft)){.by = 1 / t, .max = (double)NAME(largest)(x, n) * (1 / t)};
}

/* exp(x / t - max) of m elements, at most PART. An exponential is a long chain of operations that wait for each other: cut
 * into three loops, more chains than one fit between what a processor has begun and what it has finished. */
static void NAME(exponentials)(const struct NAME(soft) * s, const REAL *x, size_t m, double *restrict e)
{
    const double by = s->by, max = s->max;
    double r[PART], p[PART];

    for (size_t i = 0; i < m; i++) {
        e[i] = vc_exp_begin_f64((double)x[i] * by - max, &r[i]);
    }
    for (size_t i = 0; i < m; i++) {
        p[i] = vc_expm1_upper_f64(r[i]);
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
