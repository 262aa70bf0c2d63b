/* bin_folder.h - a Hugging Face folder whose weights are PyTorch files. Called by formats.c. */
#pragma once

#include "formats/formats.h"

/* Opens the PyTorch files of model->folder as one model. */
enum vc_status vc_bin_folder_open(struct vc_ctx *ctx, vc_open_fn *open_model, const struct vc_open_options *options,
                                  struct vc_model *model);
