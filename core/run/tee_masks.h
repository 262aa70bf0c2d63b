/* tee_masks.h - divides the tensors of an output between the files of a tee: masks that go apart to one, everything
 * else to the others.
 *
 *     outs   0 a   1 a.mask   2 b   3 b.scale   4 b.mask        the tee's
 *     main   0 a              1 b   2 b.scale                   of each other file
 *     masks        0 a.mask                     1 b.mask */
#ifndef VC_CORE_TEE_MASKS_H
#define VC_CORE_TEE_MASKS_H

#include "core/run/sink.h"

struct tee_masks;

/* The division, and the sink of the masks. `own`: the options of the tee, whose path is NULL where nothing is written;
 * the format is that of `name`. */
enum vc_status vc_tee_masks_create(struct vc_ctx *ctx, const struct vc_writers *writers, const struct vc_model *model,
                                   const struct vc_write_options *own, const char *name, struct tee_masks **masks,
                                   struct vc_sink **sink);
void vc_tee_masks_free(struct vc_ctx *ctx, struct tee_masks *masks); /* accepts NULL; after its sink */

/* Once: makes both lists. Masks of second names are in neither. */
enum vc_status vc_tee_masks_divide(struct vc_ctx *ctx, struct tee_masks *masks, const struct vc_out_list *outs);
const struct vc_out_list *vc_tee_masks_list(const struct tee_masks *masks, bool of_masks);
/* The number of the tee's output tensor in that list; SIZE_MAX: it is not there. */
size_t vc_tee_masks_out(const struct tee_masks *masks, size_t out, bool of_masks);

#endif
