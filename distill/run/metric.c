/* metric.c - the figures that networks are judged by, a row each: whether larger ones are better, where
 * they stand in struct vc_quality, and their gate. */
#include <math.h>

#include <vcompress/distill.h>

#define NO_LIMIT     SIZE_MAX, NULL /* accuracy, which is the exact match of spans, has a gate of its own */
#define LIMIT(field) offsetof(struct vc_metric_limits, field), "limits." #field

static const struct metric {
    bool rises;
    size_t at, limit_at;
    const char *field;
} metrics[] = {
    [VC_METRIC_ACCURACY] = {true, offsetof(struct vc_quality, accuracy), NO_LIMIT},
    [VC_METRIC_AGREEMENT] = {true, offsetof(struct vc_quality, agreement), LIMIT(min_agreement)},
    [VC_METRIC_CROSS_ENTROPY] = {false, offsetof(struct vc_quality, ce), LIMIT(max_cross_entropy)},
    [VC_METRIC_F1] = {true, offsetof(struct vc_quality, f1), LIMIT(min_f1)},
    [VC_METRIC_R2] = {true, offsetof(struct vc_quality, r2), LIMIT(min_r2)},
    [VC_METRIC_MAE] = {false, offsetof(struct vc_quality, absolute_error), LIMIT(max_mae)},
    [VC_METRIC_MSE] = {false, offsetof(struct vc_quality, squared_error), LIMIT(max_mse)},
    [VC_METRIC_IOU] = {true, offsetof(struct vc_quality, iou), LIMIT(min_iou)},
    [VC_METRIC_COSINE] = {true, offsetof(struct vc_quality, cosine), LIMIT(min_cosine)},
    [VC_METRIC_EXACT_MATCH] = {true, offsetof(struct vc_quality, exact_match), NO_LIMIT},
};

/* The figure that a task is judged by; without labels or targets, agreement with the teacher. */
static enum vc_metric metric_of_task(const struct vc_quality *q)
{
    if (q->n_parts != 0) {
        return VC_METRIC_AUTO;
    }
    switch (q->task) {
    case VC_NET_TASK_LABELS:
        return q->n_targets != 0 ? VC_METRIC_F1 : VC_METRIC_AGREEMENT;
    case VC_NET_TASK_REGRESSION:
        return VC_METRIC_R2;
    case VC_NET_TASK_EMBEDDINGS:
        return VC_METRIC_COSINE;
    case VC_NET_TASK_SPANS:
        return q->n_labels != 0 ? VC_METRIC_EXACT_MATCH : VC_METRIC_AGREEMENT;
    case VC_NET_TASK_MAPS:
        if (q->n_labels != 0 && !isnan(q->iou)) {
            return VC_METRIC_IOU;
        }
        return q->n_labels != 0 ? VC_METRIC_ACCURACY : VC_METRIC_AGREEMENT;
    default:
        return q->n_labels != 0 ? VC_METRIC_ACCURACY : VC_METRIC_AGREEMENT;
    }
}

/* The member of the struct that the row names; of several outputs the worst one. */
static double value_of(const struct vc_quality *q, enum vc_metric metric)
{
    bool rises = metrics[metric].rises;

    if (q->n_parts != 0) {
        double worst = (double)NAN;

        for (size_t k = 0; k < q->n_parts; k++) {
            double is = value_of(&q->parts[k], metric);

            worst = isnan(worst) || (rises ? is < worst : is > worst) ? is : worst;
        }
        return worst;
    }
    if (q->n_targets == 0 && metric == VC_METRIC_R2) { /* of the teacher's outputs */
        return q->teacher_r2;
    }
    if (q->n_targets == 0 && metric == VC_METRIC_COSINE) {
        return q->loss == VC_TEACHER_LOSS_COSINE ? 1 - q->kd : (double)NAN;
    }
    return *(const double *)(const void *)((const char *)q + metrics[metric].at);
}

struct vc_metric_value vc_metric_figure(const struct vc_quality *q, enum vc_metric metric)
{
    struct vc_metric_value figure = {.metric = metric, .value = (double)NAN, .rises = true};

    if (metric == VC_METRIC_AUTO) {
        figure.metric = metric_of_task(q);
    }
    if (vc_word(VC_WORDS_METRIC, figure.metric) != NULL) {
        figure.value = value_of(q, figure.metric);
        figure.rises = metrics[figure.metric].rises;
    }
    return figure;
}

bool vc_metric_missed(const struct vc_quality *q, const struct vc_metric_limits *limits, struct vc_metric_miss *out)
{
    bool missed = false;

    for (size_t k = VC_METRIC_ACCURACY; k < sizeof metrics / sizeof *metrics; k++) {
        struct vc_metric_miss now = {.metric = (enum vc_metric)k, .value = (double)NAN, .field = metrics[k].field};
        bool rises = metrics[k].rises;

        if (now.field != NULL) {
            now.limit = *(const double *)(const void *)((const char *)limits + metrics[k].limit_at);
        }
        if (q != NULL) {
            now.value = value_of(q, now.metric);
        }
        if (now.limit != 0 && !(rises ? now.value >= now.limit : now.value <= now.limit) &&
            (!missed || isnan(now.value))) {
            *out = now;
            missed = true;
        }
    }
    return missed;
}
