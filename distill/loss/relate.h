/* relate.h - how the rows of a batch lie to each other inside the student and inside the teacher, and the gradient of
 * the difference (relations.inc). Doubles in, doubles out; match.c brings the arrays of the networks into this form.
 *
 * A row is all numbers of a value for one row of data, as one point: the widths of both sides may differ, since only
 * relations are compared. With fewer than two rows a term is 0. */
#pragma once

#include <vcompress/distill.h>

struct vc_relation {
    size_t n, width, teacher_width;
    const double *student, *teacher; /* [n][width], [n][teacher_width] */
    double by;                       /* the gradient is that of `by` times the result */
    double *gradient;                /* [n][width], of the student: zeros before */
    double *room;                    /* as vc_relate_room says */
};

#define VC_RELATION(KIND, word)                           \
    double vc_relate_##word(const struct vc_relation *r); \
    uint64_t vc_relate_##word##_room(uint64_t n, uint64_t width, uint64_t teacher_width);
#include "distill/loss/relations.inc"
#undef VC_RELATION

/* The kind compares rows of a batch, not points of a row. */
bool vc_relate_is(enum vc_match_kind kind);
double vc_relate(enum vc_match_kind kind, const struct vc_relation *r);
/* Doubles that vc_relation.room has to have. */
uint64_t vc_relate_room(enum vc_match_kind kind, uint64_t n, uint64_t width, uint64_t teacher_width);

/* Smooth L1 of an error, linear from 1 on, and its slope: torch.nn.functional.smooth_l1_loss. */
static inline double vc_relate_smooth(double error, double *slope)
{
    double size = error < 0 ? -error : error;

    *slope = size < 1 ? error : error < 0 ? -1 : 1;
    return size < 1 ? 0.5 * error * error : size - 0.5;
}

static inline double vc_relate_dot(const double *x, const double *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}
