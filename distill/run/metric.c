/* metric.c - the figures that networks are judged by, a row each: what they are called, whether larger ones are better, and
 * where they stand in struct vc_quality. */
#include <math.h>
#include <stddef.h>

#include <vcompress/distill.h>

static const struct metric {
    const char *name;
    bool rises;
    size_t at;
} metrics[] = {
    [VC_METRIC_ACCURACY] = {"accuracy", true, offsetof(struct vc_quality, accuracy)},
    [VC_METRIC_AGREEMENT] = {"agreement", true, offsetof(struct vc_quality, agreement)},
    [VC_METRIC_CROSS_ENTROPY] = {"cross-entropy", false, offsetof(struct vc_quality, ce)},
    [VC_METRIC_F1] = {"f1", true, offsetof(struct vc_quality, f1)},
    [VC_METRIC_R2] = {"r2", true, offsetof(struct vc_quality, r2)},
    [VC_METRIC_MAE] = {"mae", false, offsetof(struct vc_quality, absolute_error)},
    [VC_METRIC_MSE] = {"mse", false, offsetof(struct vc_quality, squared_error)},
    [VC_METRIC_IOU] = {"iou", true, offsetof(struct vc_quality, iou)},
    [VC_METRIC_COSINE] = {"cosine", true, offsetof(struct vc_quality, cosine)},
};

const char *vc_metric_name(enum vc_metric metric)
{
    return (size_t)metric < sizeof metrics / sizeof *metrics ? metrics[metric].name : NULL;
}

/* The figure that a task is judged by; without labels or targets, agreement with the teacher. */
enum vc_metric vc_metric_of_task(const struct vc_quality *q)
{
    switch (q->task) {
    case VC_NET_TASK_LABELS:
        return q->n_targets != 0 ? VC_METRIC_F1 : VC_METRIC_AGREEMENT;
    case VC_NET_TASK_REGRESSION:
        return VC_METRIC_R2;
    case VC_NET_TASK_EMBEDDINGS:
        return VC_METRIC_COSINE;
    case VC_NET_TASK_MAPS:
        if (q->n_labels != 0 && !isnan(q->iou)) {
            return VC_METRIC_IOU;
        }
        return q->n_labels != 0 ? VC_METRIC_ACCURACY : VC_METRIC_AGREEMENT;
    default:
        return q->n_labels != 0 ? VC_METRIC_ACCURACY : VC_METRIC_AGREEMENT;
    }
}

/* Reads the member of the struct that the row names. */
double vc_metric_value(const struct vc_quality *q, enum vc_metric metric, bool *rises)
{
    if (vc_metric_name(metric) == NULL) {
        return (double)NAN;
    }
    *rises = metrics[metric].rises;
    if (q->n_targets == 0 && metric == VC_METRIC_R2) { /* of the teacher's outputs */
        return q->teacher_r2;
    }
    if (q->n_targets == 0 && metric == VC_METRIC_COSINE) {
        return q->loss == VC_TEACHER_LOSS_COSINE ? 1 - q->kd : (double)NAN;
    }
    return *(const double *)(const void *)((const char *)q + metrics[metric].at);
}
