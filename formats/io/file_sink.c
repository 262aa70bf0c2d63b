/* file_sink.c - see file_sink.h. */
#include "formats/io/file_sink.h"

/* The first member of self. */
static struct vc_outfile **file_of(struct vc_sink *sink)
{
    return sink->self;
}

enum vc_status vc_file_sink_new(struct vc_ctx *ctx, const struct vc_model *model,
                                const struct vc_write_options *options, const struct vc_sink *like, size_t self_bytes,
                                struct vc_sink **out)
{
    struct vc_sink *sink = vc_alloc(ctx, VC_TAG_IO, sizeof *sink);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_CALL_ALLOC(sink);
    *sink = *like;
    VC_TRY_ALLOC(sink->self = vc_calloc_array(ctx, VC_TAG_IO, 1, self_bytes));
    if (options->path != NULL && !options->dry_run) {
        VC_TRY(vc_outfile_open(ctx, options, model, file_of(sink)));
    }
    *out = sink;
    return VC_OK;
out:
    VC_FREE_ALL(ctx, sink->self, sink);
    return status;
}

enum vc_status vc_file_sink_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    return vc_outfile_begin(ctx, *file_of(sink));
}

enum vc_status vc_file_sink_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    return vc_outfile_commit(ctx, *file_of(sink));
}

void vc_file_sink_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    vc_outfile_free(ctx, *file_of(sink));
    VC_FREE_ALL(ctx, sink->self, sink);
}
