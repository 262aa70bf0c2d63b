/* null_sink.c - see null_sink.h. */
#include "core/run/null_sink.h"

static enum vc_status null_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                  uint64_t *file_bytes)
{
    *file_bytes = 0;
    return VC_OK;
}

static enum vc_status null_step(struct vc_ctx *ctx, struct vc_sink *sink)
{
    return VC_OK;
}

static enum vc_status null_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    return VC_OK;
}

static enum vc_status null_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    *file_bytes = 0;
    return VC_OK;
}

static void null_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    vc_free(ctx, sink);
}

static bool null_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    return true;
}

static const struct vc_sink_ops null_ops = {.layout = null_layout,
                                            .begin = null_step,
                                            .emit = null_emit,
                                            .finish = null_finish,
                                            .commit = null_step,
                                            .free = null_free,
                                            .can_hold = null_can_hold};

bool vc_sink_is_null(const struct vc_sink *sink)
{
    return sink->ops == &null_ops;
}

enum vc_status vc_null_sink_create(struct vc_ctx *ctx, struct vc_sink **out)
{
    struct vc_sink *sink = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *sink);

    *out = sink;
    VC_CALL_ALLOC(sink);
    *sink = (struct vc_sink){.ops = &null_ops, .format = ""};
    return VC_OK;
}
