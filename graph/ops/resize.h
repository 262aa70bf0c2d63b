/* resize.h - Resize along one dimension: which elements of the input an element of the output is a sum of, and how much of
 * each. A sparse matrix of `out` rows, for the loops of graph/ and for the engine.
 *
 *     linear, 2 elements to 4, half_pixel        places  -0.25  0.25  0.75  1.25
 *                                                from     0   | 0 1 | 0 1 | 1          weight   1 | .75 .25 | .25 .75 | 1
 *     antialias, 4 to 2                          the window grows with what is left out: 8 elements of cubic, not 4
 *
 * By ONNX's definitions of mode, coordinate_transformation_mode and nearest_mode. Places are doubles in both precisions. */
#pragma once

#include "graph/ops/ops.h"

#define VC_RESIZE_LEAST (1.0 / 4096) /* the smallest scale of antialias, whose windows are that much larger */

struct vc_resize_axis {
    int64_t in, out;
    double scale, begin, end; /* tf_crop_and_resize: from begin to end of the dimension, 0 to 1 is all */
    /* Coordinates: h half_pixel, s half_pixel_symmetric, p pytorch_half_pixel, a align_corners, y asymmetric, t crop. */
    char place;
    const char *round;
    unsigned reach; /* of the kernel: 0 nearest, 1 linear, 2 cubic */
    double a;       /* of cubic */
    bool antialias, exclude, f64;
};

/* All n_dims dimensions of the node's input 0; false: *axis cannot be known, `why` says why. */
bool vc_resize_axes(const struct vc_graph *graph, const struct vc_graph_node *node, const int64_t *in,
                    const int64_t *out, unsigned n_dims, bool f64, struct vc_resize_axis *axes, const char **why);
/* The most elements that vc_resize_row gives. */
size_t vc_resize_most(const struct vc_resize_axis *axis);
/* Row `at`: rising elements, and their weights, none of them 0; a place outside of a crop has none. */
size_t vc_resize_row(const struct vc_resize_axis *axis, int64_t at, int64_t *from, double *weight);
