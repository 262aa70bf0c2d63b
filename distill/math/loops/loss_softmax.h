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

static void NAME(soft_end)(struct NAME(soft) * s, const double *lane)
{
    s->sum = NAME(sum_of)(lane);
    s->log_sum = vc_log_f64(s->sum);
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

        for (size_t i = 0; i < m; i++) {
            e[i] = vc_exp_f64((double)x[first + i] * s.by - s.max);
        }
        NAME(add_terms)(e, m, lane);
    }
    NAME(soft_end)(&s, lane);
    return s;
}

/* Two rows in one loop, since an exponential is a long chain of operations that wait for each other, and two fill the
 * time. Both keep their exponentials. */
static void NAME(soft_of_both)(const REAL *x, const REAL *y, size_t n, double t, double *of_x, double *of_y,
                               struct NAME(soft) s[2])
{
    double lane[2][LANES] = {{0}};

    s[0] = NAME(soft_begin)(x, n, t);
    s[1] = NAME(soft_begin)(y, n, t);
    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        const double by = s[0].by, x_max = s[0].max, y_max = s[1].max;
        double *restrict e = of_x + first;
        double *restrict d = of_y + first;

        for (size_t i = 0; i < m; i++) {
            e[i] = vc_exp_f64((double)x[first + i] * by - x_max);
            d[i] = vc_exp_f64((double)y[first + i] * by - y_max);
        }
        NAME(add_terms)(e, m, lane[0]);
        NAME(add_terms)(d, m, lane[1]);
    }
    NAME(soft_end)(&s[0], lane[0]);
    NAME(soft_end)(&s[1], lane[1]);
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
