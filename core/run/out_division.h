/* out_division.h - the outputs of a job as several lists, for sinks that stand behind one.
 *
 *     outs     0 a   1 a.scale   2 b   3 c   4 c.scale        of the job
 *     list 0   0 a   1 a.scale         2 c   3 c.scale
 *     list 1                     0 b
 *
 * A weight, its parts and its second names are in one list, in which the numbers of outputs are its own. */
#pragma once

#include "core/run/sink.h"

struct vc_out_division {
    size_t n;
    struct vc_out_list *lists;
    struct vc_out_tensor **tensors; /* of each list: what its `tensors` is, to be changed before the list is used */
    const size_t *list_of;          /* by output of the job: its list; SIZE_MAX: none */
    size_t *place;                  /* its number there; SIZE_MAX: none */
};

/* list_of has a list for each output, and lives in the arena, as everything that is made here. What a list says beside
 * its tensors is what outs says. */
enum vc_status vc_out_divide(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_out_list *outs, size_t n,
                             const size_t *list_of, struct vc_out_division *out);
