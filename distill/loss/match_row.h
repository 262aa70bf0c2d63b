/* match_row.h - how far two arrays inside a teacher and a student are apart, for one row of data, and the gradient of
 * that. Doubles in, doubles out; match.c brings the arrays of the networks into this form.
 *
 * An array is points of a width: the one hidden state of a row, the tokens of a sequence, or the pixels of a map, each
 * with its channels. s and t are the student's and the teacher's, for all points p whose mask is not 0:
 *
 *     mse         sum over p of the mean over the width of (s - t)^2
 *     cosine      sum over p of 1 - s t / (|s| |t|); 1 where one of them is 0
 *     attention   F_p = sum over the width of s^2, Q = F / |F|:  |Q_s - Q_t|^2      (the widths may differ)
 *
 * Definitions: docs/distillation.md. */
#pragma once

#include <vcompress/distill.h>

struct vc_match_row {
    enum vc_match_kind kind;
    size_t n_points, width, teacher_width; /* of mse and cosine both widths are the same */
    const double *student, *teacher;       /* [n_points][width] */
    const uint8_t *mask;                   /* [n_points]; NULL: all points count */
    double by;                             /* the gradient is that of `by` times the result */
    double *gradient;                      /* [n_points][width], of the student: all of it is written */
    double *maps;                          /* attention: room for 2 * n_points */
};

double vc_match_row(const struct vc_match_row *row);
