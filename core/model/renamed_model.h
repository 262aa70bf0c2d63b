/* renamed_model.h - a model under other names, while a job is planned: what it is once passes have taken tensors out
 * and given others new names.
 *
 *     the source          a job that drops layer 1 shows its later passes
 *     h.0.w               h.0.w
 *     h.1.w               h.1.w   which no name finds any more
 *     h.2.w               h.1.w
 *
 * Tensors keep their numbers, and everything but names and aliases is the source's: values are read by the same
 * functions from the same files. So whoever goes by names (rules, masks, dialects) sees those of the output, as if the
 * earlier passes had written a file. The source stays as it is, and has to outlive this. */
#pragma once

#include "core/model/source.h"

/* The model with the names `names[i]`, where that is not NULL, and without those of tensors that are gone[i]; a tensor
 * that was another name of a gone one is a first name now. An earlier *out is made anew in its place. VC_E_UNSUPPORTED:
 * two tensors would have one name. */
enum vc_status vc_renamed_model_make(struct vc_ctx *ctx, const struct vc_model *source, const char *const *names,
                                     const bool *gone, struct vc_model **out);

void vc_renamed_model_free(struct vc_ctx *ctx, struct vc_model *model); /* accepts NULL */

/* A name that follows that of a tensor which is called `after` instead of `before`: where it begins with the part of
 * `before` that changed, it gets the new one; else it stays.
 *
 *     before "h.10.w", after "h.9.w":   "h.10.w_packed" becomes "h.9.w_packed"
 *
 * NULL: no memory. The result is `name` itself, or lies in the arena. */
const char *vc_name_follow(struct vc_ctx *ctx, struct vc_arena *arena, const char *name, const char *before,
                           const char *after);
