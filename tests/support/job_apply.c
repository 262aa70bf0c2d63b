/* job_apply.c - one tensor through its steps by vc_tile_reader, into the caller's memory. See job_apply.h. */
#include "job_apply.h"

#include "core/chain/tile_reader.h"
#include "core/job/job_state.h"

enum vc_status job_apply(struct vc_ctx *ctx, struct vc_job *job, size_t index, enum vc_part_role role, void *dst,
                         size_t n_bytes)
{
    size_t root = vc_job_root(job, index)->source; /* steps are planned for the first of several names */
    enum vc_status status;

    vc_call_begin(ctx);
    status = vc_tile_reader_all(ctx, &job->plan.items[root], role, dst, n_bytes);
    return vc_call_end(ctx, status);
}
