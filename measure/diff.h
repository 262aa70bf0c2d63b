/* diff.h - the parts of a comparison of two models: for all of it (diff.c), and for what a file was made from
 * (verify_against.c). */
#pragma once

#include <vcompress/measure.h>

#include "core/run/executor.h"

/* A tensor of each model with the same name. */
struct vc_diff_pair {
    size_t a, b; /* tensors; VC_NO_TENSOR where absent */
};

/* Pairs every tensor of a with the one of that name in b, then come those only in b. Parts of quantized tensors are not
 * listed. `pairs` has room for the tensors of both; *n becomes how many they are. */
enum vc_status vc_diff_pairs(struct vc_ctx *ctx, const struct vc_model *a, const struct vc_model *b,
                             struct vc_diff_pair *pairs, size_t *n);

/* Room of each of the two sets of buffers that vc_diff_pair needs. */
void vc_diff_sizes(const struct vc_model *a, const struct vc_model *b, struct vc_buffer_sizes *sizes);

/* Reads and compares one pair, with two sets of buffers: fills *row. From any thread. */
enum vc_status vc_diff_pair(struct vc_ctx *ctx, const struct vc_model *model_a, const struct vc_model *model_b,
                            const struct vc_diff_pair *pair, struct vc_diff_row *row, struct vc_buffers *buffers);
