/* values.h - one tensor as an item that can be fetched (core/chain/tile_reader.h) as the floats that it stands for,
 * outside of a job. What `stats`, `diff` and `verify` read with. One thread at a time. */
#pragma once

#include "core/chain/tile_reader.h"
#include "core/run/executor.h"

/* An item whose steps decode the tensor to f32, or leave f64 as it is; types that are no floats are left as they are
 * too. Release with vc_values_release. */
struct vc_values {
    struct vc_arena arena;
    struct vc_item_set set;
    struct vc_item item;
};

enum vc_status vc_values_init(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                              struct vc_values *values);
/* The same, cut into tiles as `like` is, which has as many elements; the tensor has no scales elsewhere. */
enum vc_status vc_values_init_like(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                   const struct vc_tensor *like, struct vc_values *values);
/* The same without steps: the tensor as it is stored. */
enum vc_status vc_values_init_raw(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                  struct vc_values *values);
/* As vc_values_init, of codes and blocks, with what `dequantize` refuses unless it is told otherwise: scales that are
 * not finite, values beyond f32. */
enum vc_status vc_values_init_strict(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                     struct vc_values *values);
bool vc_values_numeric(const struct vc_tensor *tensor);

/* From f32 on to f64, to be compared with one that is. */
enum vc_status vc_values_to_f64(struct vc_ctx *ctx, struct vc_values *values);
void vc_values_release(struct vc_ctx *ctx, struct vc_values *values);

/* Room for any tensor of the model decoded (at most to f64), with n_sums sums per chunk. */
void vc_values_sizes(const struct vc_model *model, size_t n_sums, struct vc_buffer_sizes *sizes);

/* Calls `one` (vc_exec_each) for every tensor of the model, with one set of buffers for any of them and two sums per chunk.
 * The largest come first: whole tensors are shared among threads, and a long one must not be left for the end. */
enum vc_status vc_values_each(struct vc_ctx *ctx, const struct vc_model *model, vc_each_fn *one, void *user);
