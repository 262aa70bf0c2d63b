/* loss_loops.h - losses of rows of logits and their gradients, for one type of numbers. Part of step_loops.h. No
 * probability is stored: each is computed where it is needed from the row's largest logit and the sum beside it. */

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

/* The divergence of one row times T^2, and T (q - p) times `by` added to the gradient. */
static double NAME(kd_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z, const REAL *teacher, double by,
                           double *gradient)
{
    double t = spec->temperature;
    struct NAME(soft) q = NAME(soft_of)(z, n, t);
    struct NAME(soft) p = NAME(soft_of)(teacher, n, t);
    double lane[LANES] = {0};

    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double terms[PART];

        for (size_t i = 0; i < m; i++) {
            size_t c = first + i;
            double log_p = NAME(log_p)(&p, teacher[c]);
            double log_q = NAME(log_p)(&q, z[c]);

            terms[i] = NAME(divergence)(log_p, log_q);
            gradient[c] += by * t * (vc_exp_f64(log_q) - vc_exp_f64(log_p));
        }
        NAME(add_terms)(terms, m, lane);
    }
    return t * t * NAME(sum_of)(lane);
}

/* The same where k classes of the teacher are known. All others are one class, whose probability is what is left:
 *
 *     p = 1 - sum of p over the k,  q = 1 - sum of q over the k;   d / dz of the others: T (q_c - p q_c / q) */
static double NAME(top_row)(const struct vc_loss_spec *spec, size_t n, const REAL *z,
                            const struct vc_teacher_rows *teacher, size_t row, double by, double *gradient)
{
    const REAL *logits = (const REAL *)teacher->logits + row * teacher->k;
    const int32_t *classes = teacher->classes + row * teacher->k;
    double t = spec->temperature;
    struct NAME(soft) q = NAME(soft_of)(z, n, t);
    double p_rest = 1;
    double q_rest = 1;
    double sum = 0;

    for (size_t i = 0; i < teacher->k; i++) {
        double log_p = (double)logits[i] * q.by - teacher->rest[row];
        double log_q = NAME(log_p)(&q, z[classes[i]]);

        sum += NAME(divergence)(log_p, log_q);
        p_rest -= vc_exp_f64(log_p);
        q_rest -= vc_exp_f64(log_q);
    }
    p_rest = p_rest > 0 && teacher->k < n ? p_rest : 0;
    q_rest = q_rest > 0x1p-1000 ? q_rest : 0x1p-1000;
    sum += p_rest > 0 ? p_rest * (vc_log_f64(p_rest) - vc_log_f64(q_rest)) : 0;
    for (size_t c = 0; c < n; c++) {
        gradient[c] += by * t * vc_exp_f64(NAME(log_p)(&q, z[c])) * (1 - p_rest / q_rest);
    }
    for (size_t i = 0; i < teacher->k; i++) {
        double q_c = vc_exp_f64(NAME(log_p)(&q, z[classes[i]]));

        gradient[classes[i]] +=
            by * t * (q_c * p_rest / q_rest - vc_exp_f64((double)logits[i] * q.by - teacher->rest[row]));
    }
    return t * t * sum;
}

/* The mean of (z - t)^2 over the classes of a row. */
static double NAME(mse_row)(size_t n, const REAL *z, const REAL *teacher, double by, double *gradient)
{
    double lane[LANES] = {0};

    for (size_t first = 0; first < n; first += PART) {
        size_t m = n - first < PART ? n - first : PART;
        double terms[PART];

        for (size_t i = 0; i < m; i++) {
            double d = (double)z[first + i] - (double)teacher[first + i];

            terms[i] = d * d;
            gradient[first + i] += by * 2 * d / (double)n;
        }
        NAME(add_terms)(terms, m, lane);
    }
    return NAME(sum_of)(lane) / (double)n;
}

/* 1 - the cosine of both rows; where one of them is 0, so is the cosine, and its gradient. */
static double NAME(cosine_row)(size_t n, const REAL *z, const REAL *teacher, double by, double *gradient)
{
    double zt = NAME(dot)(z, teacher, n);
    double zz = NAME(dot)(z, z, n);
    double tt = NAME(dot)(teacher, teacher, n);
    double norms;

    norms = sqrt(zz) * sqrt(tt);
    if (norms == 0) {
        return 1;
    }
    for (size_t c = 0; c < n; c++) {
        gradient[c] -= by * ((double)teacher[c] / norms - (double)z[c] * (zt / norms / zz));
    }
    return 1 - zt / norms;
}

static double NAME(ce_row)(size_t n, const REAL *z, int64_t label, double by, double *gradient)
{
    struct NAME(soft) q = NAME(soft_of)(z, n, 1);

    for (size_t c = 0; c < n; c++) {
        gradient[c] += by * vc_exp_f64(NAME(log_p)(&q, z[c]));
    }
    gradient[label] -= by;
    return -NAME(log_p)(&q, z[label]);
}

OF_LEVEL struct vc_loss_sums NAME(vc_loss)(const struct vc_loss_spec *spec, size_t n_rows, size_t n_classes,
                                           const REAL *logits, const struct vc_teacher_rows *teacher,
                                           const int64_t *labels, const uint8_t *mask, double *row, REAL *gradient)
{
    struct vc_loss_sums sums = {0, 0};
    double kd_by = spec->kd_rows != 0 ? 1 / (double)spec->kd_rows : 0;
    double ce_by = spec->ce_rows != 0 ? 1 / (double)spec->ce_rows : 0;
    double scale = spec->scale != 0 ? spec->scale : 1;

    for (size_t r = 0; r < n_rows; r++) {
        const REAL *z = logits + r * n_classes;
        bool counts = mask == NULL || mask[r] != 0;

        for (size_t c = 0; c < n_classes; c++) {
            row[c] = 0;
        }
        if (counts && teacher->logits != NULL) {
            const REAL *t = (const REAL *)teacher->logits + r * n_classes;
            double by = spec->alpha * kd_by;

            if (spec->mse) {
                sums.kd += kd_by * NAME(mse_row)(n_classes, z, t, by, row);
            } else if (spec->cosine) {
                sums.kd += kd_by * NAME(cosine_row)(n_classes, z, t, by, row);
            } else if (teacher->classes == NULL) {
                sums.kd += kd_by * NAME(kd_row)(spec, n_classes, z, t, by, row);
            } else {
                sums.kd += kd_by * NAME(top_row)(spec, n_classes, z, teacher, r, by, row);
            }
        }
        if (counts && labels != NULL && labels[r] != VC_NO_LABEL) {
            sums.ce += ce_by * NAME(ce_row)(n_classes, z, labels[r], (1 - spec->alpha) * ce_by, row);
        }
        for (size_t c = 0; gradient != NULL && c < n_classes; c++) {
            gradient[r * n_classes + c] = (REAL)(row[c] * scale);
        }
    }
    return sums;
}
