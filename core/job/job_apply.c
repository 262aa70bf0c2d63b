/* job_apply.c - one tensor through its steps by vc_fetch, into the caller's memory. See job_apply.h. */
#include "core/job/job_apply.h"

#include <string.h>

#include "core/chain/fetch.h"
#include "core/job/job_state.h"

/* All tiles of the result, or all pieces of one of its parts, into dst. */
static enum vc_status collect(struct vc_ctx *ctx, struct vc_fetch *fetch, size_t part, char *dst)
{
    const struct vc_desc *desc = fetch->item->desc;
    enum vc_status status = VC_OK;

    for (;;) {
        struct vc_tile_result result;
        struct vc_part_view view;
        struct vc_tile tile;
        bool more = false;

        VC_TRY(vc_fetch_next(ctx, fetch, &tile, &result, &more));
        if (!more) {
            break;
        }
        if (part == SIZE_MAX) {
            memcpy(dst + vc_dtype_bytes(desc->dtype, tile.first), result.data,
                   (size_t)vc_dtype_bytes(desc->dtype, tile.n_elems));
            continue;
        }
        view = vc_fetch_view(fetch, part);
        if (view.write && view.n != 0) {
            memcpy(dst + vc_dtype_bytes(desc->parts[part].dtype, view.first), view.data,
                   (size_t)vc_dtype_bytes(desc->parts[part].dtype, view.n));
        }
    }
out:
    return status;
}

static enum vc_status apply(struct vc_ctx *ctx, struct vc_item *item, enum vc_part_role role, void *dst, size_t n_bytes)
{
    size_t part = role == VC_PART_CODES ? SIZE_MAX : vc_desc_find_part(item->desc, role);
    struct vc_room room = {0};
    struct vc_buffers buffers = {0};
    struct vc_fetch fetch = {0};
    enum vc_status status = VC_OK;
    uint64_t needed;

    if (role != VC_PART_CODES && (part == SIZE_MAX || item->desc->parts[part].maker == NULL)) {
        return vc_fail(ctx, VC_E_ARGUMENT, "the passes make no such part of it");
    }
    needed = part == SIZE_MAX ? vc_dtype_bytes(item->desc->dtype, item->desc->n_elems)
                              : vc_dtype_bytes(item->desc->parts[part].dtype, item->desc->parts[part].n_elems);
    if (needed != n_bytes) {
        return vc_fail(ctx, VC_E_ARGUMENT, "it takes %llu bytes, not %zu", (unsigned long long)needed, n_bytes);
    }
    vc_room_add(&room, item);
    VC_TRY(vc_buffers_alloc(ctx, &room, &buffers));
    VC_TRY(vc_fetch_open(ctx, item, &buffers, &fetch));
    VC_TRY(collect(ctx, &fetch, part, dst));
out:
    vc_fetch_close(ctx, &fetch);
    vc_buffers_release(ctx, &buffers);
    return status;
}

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
    status = apply(ctx, &job->plan.items[root], role, dst, n_bytes);
    if (status != VC_OK) {
        (void)vc_context(ctx, "%s", job->model->tensors[index].name);
    }
    return vc_call_end(ctx, status);
}
