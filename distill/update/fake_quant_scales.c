/* fake_quant_scales.c - see fake_quant_scales.h. */
#include "distill/update/fake_quant_scales.h"

#include "distill/update/fake_quant.h"

#define LEAST (1.0 / 128) /* share */
#define CODES 127         /* of one sign: the largest code, in LSQ's words Q_P */

static double real_at(const struct vc_learner *l, const void *array, uint64_t i)
{
    return l->f64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

/* Number i of an array of the run's type. */
static void set_real(const struct vc_learner *l, void *array, uint64_t i, double x)
{
    if (l->f64) {
        ((double *)array)[i] = x;
    } else {
        ((float *)array)[i] = (float)x;
    }
}

/* Adds a share for each scale to the weights, which the optimizer moves as it does others. */
enum vc_status vc_fake_quant_learn(struct vc_learner *l, struct vc_fake_quant *f)
{
    struct vc_weights *w = l->net.weights;

    if (f->codes != VC_DTYPE_I8 && f->codes != VC_DTYPE_Q8_0) {
        return VC_OK;
    }
    return vc_weights_add_shares(w, w->items[f->entry].name, f->n_scales, &f->shares);
}

/* The limits of each scale, from the largest magnitude times its share. Shares stay between 1/128 and 1. */
void vc_fake_quant_clip(struct vc_learner *l, struct vc_fake_quant *f)
{
    void *shares = f->shares != VC_NO_SHARES ? l->net.weights->items[f->shares].data : NULL;

    for (uint64_t i = 0; shares != NULL && i < f->n_scales; i++) {
        double share = real_at(l, shares, i);

        if (share > 1 || share < LEAST) {
            share = share > 1 ? 1 : LEAST;
            set_real(l, shares, i, share);
        }
        f->pos[i] = vc_f32_bits((float)(share * (double)vc_bits_f32(f->pos[i])));
        f->neg[i] = f->asymmetric ? vc_f32_bits((float)(share * (double)vc_bits_f32(f->neg[i]))) : f->pos[i];
    }
}

/* The scale of element i. */
static uint64_t scale_of(const struct vc_fake_quant *f, uint64_t i)
{
    return i / f->row_len * f->n_per_row + i % f->row_len / f->inner % f->n_per_row;
}

/* Values beyond the limits of their scale become the limit. */
void vc_fake_quant_clamp(const struct vc_fake_quant *f, uint64_t first, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t at = scale_of(f, first + i);
        float most = vc_bits_f32(f->pos[at]);
        float least = -vc_bits_f32(f->neg[at]);

        x[i] = x[i] > most ? most : x[i] < least ? least : x[i];
    }
}

/* Behind the run: the weights themselves, so that quantizing them finds these scales. */
void vc_fake_quant_cut(struct vc_learner *l, const struct vc_fake_quant *f)
{
    const struct vc_weight *item = &l->net.weights->items[f->entry];

    for (uint64_t i = 0; i < item->n; i++) {
        double was = real_at(l, item->data, i);
        float x = (float)was;
        float cut = x;

        vc_fake_quant_clamp(f, i, 1, &cut);
        set_real(l, item->data, i, cut != x ? (double)cut : was);
    }
}

/* How many weights scale number j has. */
static uint64_t count_of(const struct vc_fake_quant *f, uint64_t j)
{
    uint64_t first = j % f->n_per_row * f->inner;

    return f->inner * f->n_per_row <= f->row_len ? f->row_len / f->n_per_row : vc_min_u64(f->inner, f->row_len - first);
}

/* Scale number j, which its limits give. */
static double step_size(const struct vc_fake_quant *f, uint64_t j)
{
    double range = (double)vc_bits_f32(f->pos[j]) + (f->asymmetric ? (double)vc_bits_f32(f->neg[j]) : 0);

    return range / (f->asymmetric ? 255 : CODES);
}

/* Weights from number `first` on that share scale j: their part of its sum, and their own gradients. */
static void add_run(const struct vc_learner *l, const struct vc_fake_quant *f, uint64_t j, uint64_t first, uint64_t n)
{
    const struct vc_weight *item = &l->net.weights->items[f->entry];
    double most = (double)vc_bits_f32(f->pos[j]);
    double least = -(double)vc_bits_f32(f->neg[j]);
    double sum = f->sum[j];

    for (uint64_t i = first; i < first + n; i++) {
        double m = (double)(float)real_at(l, f->master, i); /* as it was quantized */
        bool inside = m >= least && m <= most;

        sum += real_at(l, item->grad, i) * (real_at(l, item->data, i) - (inside ? m : 0));
        if (!inside) {
            set_real(l, item->grad, i, 0);
        }
    }
    f->sum[j] = sum;
}

/* Of one tensor. */
static void gradients_of(void *user, unsigned worker, size_t block)
{
    const struct vc_learner *l = user;
    const struct vc_fake_quant *f = &l->fake_quants->items[block];
    const struct vc_weight *shares = f->shares != VC_NO_SHARES ? &l->net.weights->items[f->shares] : NULL;
    uint64_t n = l->net.weights->items[f->entry].n;

    for (uint64_t j = 0; shares != NULL && j < f->n_scales; j++) {
        f->sum[j] = 0;
    }
    for (uint64_t i = 0; shares != NULL && i < n;) {
        uint64_t in_row = i % f->row_len;
        uint64_t run = vc_min_u64(f->inner - in_row % f->inner, f->row_len - in_row);

        add_run(l, f, scale_of(f, i), i, run);
        i += run;
    }
    for (uint64_t j = 0; shares != NULL && j < f->n_scales; j++) {
        double s = step_size(f, j);
        double share = real_at(l, shares->data, j);

        set_real(l, shares->grad, j,
                 s > 0 ? f->sum[j] / s * share / s / sqrt((double)CODES * (double)count_of(f, j)) : 0);
    }
}

void vc_fake_quant_gradients(struct vc_learner *l, struct vc_engine *engine)
{
    if (l->fake_quants != NULL && l->options->precision.learn_scales) {
        vc_engine_each(engine, l->fake_quants->n, gradients_of, l);
    }
}

/* The mean of all shares, for the report; NaN where no scale is learned. */
double vc_fake_quant_mean_share(const struct vc_learner *l)
{
    double sum = 0;
    uint64_t n = 0;

    for (size_t i = 0; l->fake_quants != NULL && i < l->fake_quants->n; i++) {
        const struct vc_fake_quant *f = &l->fake_quants->items[i];

        for (uint64_t j = 0; f->shares != VC_NO_SHARES && j < f->n_scales; j++) {
            sum += real_at(l, l->net.weights->items[f->shares].data, j);
        }
        n += f->shares != VC_NO_SHARES ? f->n_scales : 0;
    }
    return n != 0 ? sum / (double)n : (double)NAN;
}
