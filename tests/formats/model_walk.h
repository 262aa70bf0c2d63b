/* model_walk.h - opens bytes as a model and reads every tensor in both forms: what the reader tests and the fuzz
 * targets do with each input. */
#pragma once

#include "core/model/source.h"

/* A temporary file with these bytes in $TMPDIR (default /tmp); its path goes to `path`. walk_file_close removes it. */
int walk_file_open(const void *data, size_t n, char *path, size_t capacity);
void walk_file_close(int fd, const char *path);

/* Reads all tensors of an open model, in pieces, with checksums. */
enum vc_status walk_model(struct vc_ctx *ctx, struct vc_model *model);

/* Opens, walks, closes. */
enum vc_status walk_path(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options);
enum vc_status walk_bytes(struct vc_ctx *ctx, const void *data, size_t n, const struct vc_open_options *options);
