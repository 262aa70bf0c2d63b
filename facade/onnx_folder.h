/* onnx_folder.h - a folder of Hugging Face as an ONNX model: formats/ reads the folder and makes the file, graph/ knows
 * what the model computes. */
#pragma once

#include "core/model/source.h"

/* vc_open_options.as_onnx: opens the path; what is no folder with a config.json is opened as it is. *out is NULL after
 * a failure. */
enum vc_status vc_onnx_folder_open(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options,
                                   struct vc_model **out);
