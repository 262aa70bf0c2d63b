/* train_windows.h - where the windows of pools lie, for the loops of the CPU (engine/loops/train_pool.h) and of devices
 * (cuda/train/cuda_train_window.cu). Valid as C11, C++ and CUDA. */
#pragma once

#include "kernels/arith.h"
#include "kernels/train_args.h"

/* Elements of a plane or a window: three dimensions, of which unused ones are 1. */
VC_HD size_t vc_window_volume(const int64_t *size)
{
    return (size_t)(size[0] * size[1] * size[2]);
}

/* The elements of window `o` along dimension k that are in the input: from *first to before *end; returns where element
 * 0 would be.
 *     kernel 3, stride 2, one element of padding in front: window 0 begins at -1, its elements 1 and 2 are inside
 */
VC_HD int64_t vc_window_inside(const struct vc_args_window *w, unsigned k, int64_t o, int64_t *first, int64_t *end)
{
    int64_t begin = o * w->stride[k] - w->before[k];
    int64_t room = w->in[k] - begin;

    *first = begin >= 0 ? 0 : (-begin - 1) / w->dilation[k] + 1;
    *end = room <= 0 ? 0 : (room - 1) / w->dilation[k] + 1;
    *end = *end > w->kernel[k] ? w->kernel[k] : *end;
    return begin;
}

/* A byte is enough for the number of an element within its window; 3 x 3 x 28 is not. */
VC_HD bool vc_window_places_are_bytes(const struct vc_args_window *w)
{
    return vc_window_volume(w->kernel) <= 255;
}

/* The usual case, windows of 2 x 2 side by side without padding: every element of dx is in one window, or in none.
 * A last row or column of an odd plane is in no window. */
VC_HD bool vc_window_by_four(const struct vc_args_window *w)
{
    return w->kernel[0] == 1 && w->in[0] == 1 && w->kernel[1] == 2 && w->kernel[2] == 2 && w->stride[1] == 2 &&
           w->stride[2] == 2 && w->dilation[1] == 1 && w->dilation[2] == 1 && w->before[1] == 0 && w->before[2] == 0 &&
           2 * w->out[1] <= w->in[1] && 2 * w->out[2] <= w->in[2];
}

/* How many elements an average is of: those in the input; with_pads also padding, but not what hangs over its end.
 *     in 5, kernel 2, stride 2, no padding, rounded up: the last window has 1 element, and the average is of 1
 */
VC_HD double vc_window_count(const struct vc_args_window *w, const int64_t *o)
{
    double inside = 1;
    double padded = 1;

    for (unsigned k = 0; k < 3; k++) {
        int64_t first, end;
        int64_t begin = vc_window_inside(w, k, o[k], &first, &end);
        int64_t room = w->in[k] + w->behind[k] - begin;
        int64_t with_padding = room <= 0 ? 0 : (room - 1) / w->dilation[k] + 1;

        inside *= (double)(end - first);
        padded *= (double)(with_padding < w->kernel[k] ? with_padding : w->kernel[k]);
    }
    return w->with_pads ? padded : inside;
}
