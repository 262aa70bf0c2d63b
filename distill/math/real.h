/* real.h - the functions of step_math.h for arrays whose type is known when the program runs. */
#pragma once

#include "distill/math/step_math.h"

static inline size_t vc_answer(bool f64, const void *logits, size_t row, size_t n_classes)
{
    return f64 ? vc_answer_f64((const double *)logits + row * n_classes, n_classes)
               : vc_answer_f32((const float *)logits + row * n_classes, n_classes);
}

static inline void vc_scale(bool f64, void *x, size_t n, double by)
{
    if (f64) {
        vc_scale_f64(x, n, by);
    } else {
        vc_scale_f32(x, n, by);
    }
}

static inline void vc_add(bool f64, void *to, const void *x, size_t n)
{
    if (f64) {
        vc_add_f64(to, x, n);
    } else {
        vc_add_f32(to, x, n);
    }
}

static inline void vc_move_statistics(bool f64, void *running, const void *of_batch, size_t n, double share)
{
    if (f64) {
        vc_move_statistics_f64(running, of_batch, n, share);
    } else {
        vc_move_statistics_f32(running, of_batch, n, share);
    }
}

static inline size_t vc_first_nonfinite(bool f64, const void *x, size_t n)
{
    return f64 ? vc_first_nonfinite_f64(x, n) : vc_first_nonfinite_f32(x, n);
}
