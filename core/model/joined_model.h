/* joined_model.h - a model made of several, one after the other: a checkpoint whose files are each a model of their
 * own.
 *
 *     shard 1: a, b     shard 2: c, d        ->        a, b, c, d
 *
 * or of the models of a pipeline, whose tensors are called by them:
 *
 *     unet: a, b     vae: a              ->        unet/a, unet/b, vae/a
 *
 * The parts keep what they are; the joined model has their tensors, with indices that count on, and reads through them.
 * Called by formats/bin_folder.c and formats/pipeline.c. */
#pragma once

#include "core/model/source.h"

/* Makes `model`, whose path and format are the caller's, the joined one of the n parts: vc_model_close closes them with
 * it, also after a failure. NULL among them: a part that cannot be read, while findings are collected. Tensors that are
 * compressed streams are not for it: the parts have none. VC_E_FORMAT where two parts have a tensor of the same name.
 * names: of the parts, in front of their tensors' names and of what they note; the joined model has a component for
 * each then, and they are copied. NULL: tensors keep their names. */
enum vc_status vc_joined_model_make(struct vc_ctx *ctx, struct vc_model **parts, size_t n, const char *const *names,
                                    struct vc_model *model);
