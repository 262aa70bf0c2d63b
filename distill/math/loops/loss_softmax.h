/* loss_softmax.h - the softened answers of a row, from which losses of classes are made. Part of loss_loops.h. No probability
 * is stored: each is computed where it is needed from the row's largest logit and the sum beside it. */

#define PART 256 /* elements that are computed before they are added; a multiple of LANES */

/* The softened answers of a row: x times 1 / t, what is largest of that, and the log of the sum of exp(x / t - max). */
struct NAME(soft) {
    double by, max, log_sum;
};

/* The largest x. NaN is passed over: it makes the sum of exponentials NaN. */
static REAL NAME(largest)(const REAL *x, size_t n)
{
    REAL most[LANES];
    size_t i = 0;

    for (size_t k = 0; k < LANES; k++) {
        most[k] = -(REAL)INFINITY;
    }
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
        }
    }
    for (; i < n; i++) {
        most[0] = x[i] > most[0] ? x[i] : most[0];
    }
    for (size_t k = 1; k < LANES; k++) {
        most[0] = most[k] > most[0] ? most[k] : most[0];
    }
    return most[0];
}

/* The largest is taken away before the exponential, so that none overflows: softmax(x) = softmax(x - max). */
static struct NAME(soft) NAME(soft_of)(const REAL *x, size_t n, double t)
{
    struct NAME(soft) s = {.by = 1 / t};
    double lane[LANES] = {0};

    s.max = (double)NAME(largest)(x, n) * s.by;
    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double e[PART];

        for (size_t i = 0; i < m; i++) {
            e[i] = vc_exp_f64((double)x[first + i] * s.by - s.max);
        }
        NAME(add_terms)(e, m, lane);
    }
    s.log_sum = vc_log_f64(NAME(sum_of)(lane));
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
