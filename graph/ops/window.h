/* window.h - what convolutions and pools share, and Pad: a window of `kernel` elements, `dilation` apart, that moves
 * over the spatial dimensions by `stride`, with `pads` around the input.
 *
 *     in 5, kernel 3, dilation 1, stride 2, pads 1 and 1:   . 0 1 2 3 4 .   windows at -1, 1, 3: three outputs */
#pragma once

#include "graph/ops/ops.h"
#include "graph/ops/run.h"

#define VC_WINDOW_DIMS 3

/* The attributes of a node, checked; [k] is spatial dimension k, height before width. */
struct vc_window_attrs {
    unsigned n; /* spatial dimensions */
    int64_t kernel[VC_WINDOW_DIMS], stride[VC_WINDOW_DIMS], dilation[VC_WINDOW_DIMS];
    int64_t before[VC_WINDOW_DIMS], behind[VC_WINDOW_DIMS]; /* pads, if auto_pad is NOTSET */
    enum vc_pad { VC_PAD_NOTSET, VC_PAD_VALID, VC_PAD_SAME_UPPER, VC_PAD_SAME_LOWER } pad;
};

/* Fails for attributes that are wrong or not supported. `kernel`: what the weights say; NULL: the attribute does. */
bool vc_infer_window(struct vc_infer *in, unsigned n, const struct vc_dim *kernel, struct vc_window_attrs *w);
/* How many windows there are along dimension k. `ceil`: also one that begins within the input and ends beyond it. */
struct vc_dim vc_window_count(struct vc_dims *dims, const struct vc_window_attrs *w, unsigned k, struct vc_dim size,
                              bool ceil);

/* The sizes of one run. Three spatial dimensions always; missing ones come first and have size 1, so that one loop
 * serves Conv1d, Conv2d and Conv3d. */
struct vc_window {
    int64_t in[VC_WINDOW_DIMS], out[VC_WINDOW_DIMS], kernel[VC_WINDOW_DIMS];
    int64_t stride[VC_WINDOW_DIMS], dilation[VC_WINDOW_DIMS];
    int64_t before[VC_WINDOW_DIMS]; /* elements of padding before the first one */
    int64_t behind[VC_WINDOW_DIMS];
};

/* For input 0. Fails where no window fits. `kernel`: the sizes of the weights, or NULL. */
bool vc_run_window(struct vc_run *run, const int64_t *kernel, bool ceil, struct vc_window *w);
/* The same for ConvTranspose, where `in` and `out` change places: in[k] windows make out[k] elements. */
bool vc_run_window_transposed(struct vc_run *run, const int64_t *kernel, struct vc_window *w);

/* Where element `at` of window `o` is along dimension k; -1: in the padding. */
static inline int64_t vc_window_place(const struct vc_window *w, unsigned k, int64_t o, int64_t at)
{
    int64_t i = o * w->stride[k] - w->before[k] + at * w->dilation[k];

    return i >= 0 && i < w->in[k] ? i : -1;
}

/* The elements of window `o` along dimension k that lie in the input: `at` from *first to before *end. Loops over
 * them need no test for padding. */
static inline void vc_window_inside(const struct vc_window *w, unsigned k, int64_t o, int64_t *first, int64_t *end)
{
    int64_t begin = o * w->stride[k] - w->before[k];
    int64_t room = w->in[k] - begin; /* up to the end of the input */

    *first = begin >= 0 ? 0 : (-begin - 1) / w->dilation[k] + 1;
    *end = room <= 0 ? 0 : (room - 1) / w->dilation[k] + 1;
    *end = *end > w->kernel[k] ? w->kernel[k] : *end;
}

/* Pad: which element of a dimension of `size` stands at place `at` of the padded dimension; -1: a constant.
 *     size 4, at -2 .. 5    edge     0 0 | 0 1 2 3 | 3 3
 *                           reflect  2 1 | 0 1 2 3 | 2 1        the border element is not repeated
 *                           wrap     2 3 | 0 1 2 3 | 0 1
 */
static inline int64_t vc_padded_from(int64_t at, int64_t size, const char *mode)
{
    if (at >= 0 && at < size) {
        return at;
    }
    if (*mode == 'c') { /* constant */
        return -1;
    }
    if (*mode == 'e') { /* edge */
        return at < 0 ? 0 : size - 1;
    }
    if (*mode == 'w') { /* wrap */
        return at % size < 0 ? at % size + size : at % size;
    }
    if (size == 1) {
        return 0;
    }
    at = (at < 0 ? -at : at) % (2 * (size - 1)); /* reflect: there and back */
    return at < size ? at : 2 * (size - 1) - at;
}
