/* job_apply.c - one tensor through its steps by vc_tile_reader, into the caller's memory. See job_apply.h. */
#include "core/job/job_apply.h"

#include "core/chain/tile_reader.h"
#include "core/job/job_state.h"

enum vc_status vc_job_apply(struct vc_ctx *ctx, struct vc_job *job, size_t index, enum vc_part_role role, void *dst,
                            size_t n_bytes)
{
    enum vc_status status;
    size_t root;

    vc_call_begin(ctx);
    if (job->sink == NULL || index >= job->plan.n_items) {
        status = vc_fail(ctx, VC_E_ARGUMENT, "the job is not planned, or has no tensor %zu", index);
        return vc_call_end(ctx, status);
    }
    if (job->plan.gone != NULL && job->plan.gone[index]) {
        status = vc_fail(ctx, VC_E_ARGUMENT, "%s: the passes leave it out", job->model->tensors[index].name);
        return vc_call_end(ctx, status);
    }
    root = vc_job_root(job, index)->source; /* steps are planned for the first of several names */
    status = vc_tile_reader_all(ctx, &job->plan.items[root], role, dst, n_bytes);
    if (status != VC_OK) {
        (void)vc_context(ctx, "%s", job->model->tensors[index].name);
    }
    return vc_call_end(ctx, status);
}
