/* torch_files.h - small PyTorch files in a folder of their own: what the tests of reading and of writing share. */
#pragma once

#include "formats_test.h"
#include "tasks.h"
#include "torch_builder.h"

/* Stops the test where it cannot be opened. */
struct vc_model *open_saved(struct vc_ctx *ctx, const char *name, const char *key);

/* A key and a tensor. */
void entry(struct bytes *b, const char *key, const char *storage, const char *number, int64_t numel, const char *size,
           const char *stride);

/* {"w": f32 (8, 64), "b": i64 (3,)} */
struct bytes plain_pickle(void);
extern const size_t plain_sizes[2];

/* A training checkpoint: the model with a tied tensor, an optimizer, and what scripts save beside them. */
struct bytes training_pickle(void);
extern const size_t training_sizes[4];
void save_training(const char *name);
