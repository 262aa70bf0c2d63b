/* array_loops.h - what a step seldom needs, for one type of numbers; of no level. Part of step_f32.c and step_f64.c. */

/* A row with a NaN has no answer; the first of equal ones is it. */
size_t NAME(vc_answer)(const REAL *logits, size_t n_classes)
{
    size_t best = 0;

    for (size_t c = 0; c < n_classes; c++) {
        if (isnan(logits[c])) {
            return n_classes;
        }
        best = logits[c] > logits[best] ? c : best;
    }
    return best;
}

/* Each product is rounded once; a power of two rounds nothing. */
void NAME(vc_scale)(REAL *x, size_t n, double by)
{
    REAL s = (REAL)by;

    for (size_t i = 0; i < n; i++) {
        x[i] *= s;
    }
}

/* Element by element. */
void NAME(vc_add)(REAL *to, const REAL *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += x[i];
    }
}

/* As batch normalization moves its own behind a batch. */
void NAME(vc_move_statistics)(REAL *running, const REAL *of_batch, size_t n, double share)
{
    REAL s = (REAL)share;

    for (size_t i = 0; i < n; i++) {
        running[i] = running[i] * (1 - s) + of_batch[i] * s;
    }
}

/* n: all are finite. */
size_t NAME(vc_first_nonfinite)(const REAL *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return i;
        }
    }
    return n;
}
