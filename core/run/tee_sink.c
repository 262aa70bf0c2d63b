/* tee_sink.c - see tee_sink.h. A packet of this sink carries a packet of each output in its buffer.
 *
 * Files appear one by one, after all of them are complete and on the disk: what can still go wrong between the first
 * and the last name is a name that somebody else took meanwhile, or a disk that fails at that moment. Standard output
 * goes first, because a pipe whose reader left is the likeliest of these. */
#include "core/run/tee_sink.h"

#include "core/run/tee_parts.h"

struct tee {
    size_t n;
    struct vc_sink **sinks;
    struct vc_report_output *outputs;
    struct tee_parts *parts; /* NULL: every output gets everything */
};

/* ---- sizes and places ---- */

static bool gets_parts(const struct tee *tee, size_t i)
{
    return tee->parts != NULL && i + 1 == tee->n;
}

/* What all outputs together are. A layout may change it: an npy that has to become an npz. */
static void join(struct vc_sink *sink)
{
    struct tee *tee = sink->self;

    sink->format = tee->sinks[0]->format;
    sink->dialect = tee->sinks[0]->dialect;
    sink->accepts_raw = true;
    sink->aliases = true;
    sink->ordered = false;
    sink->memory_bytes = 0;
    for (size_t i = 0; i < tee->n; i++) {
        tee->outputs[i].format = tee->sinks[i]->format;
        sink->memory_bytes += tee->sinks[i]->memory_bytes;
        if (gets_parts(tee, i)) {
            sink->ordered = sink->ordered || tee->sinks[i]->ordered;
            continue;
        }
        sink->dialect = vc_dialect_common(sink->dialect, tee->sinks[i]->dialect);
        sink->accepts_raw = sink->accepts_raw && tee->sinks[i]->accepts_raw;
        sink->aliases = sink->aliases && tee->sinks[i]->aliases;
        sink->ordered = sink->ordered || tee->sinks[i]->ordered;
    }
}

static enum vc_status tee_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                 uint64_t *file_bytes)
{
    struct tee *tee = sink->self;

    if (tee->parts != NULL) {
        VC_CALL(vc_tee_parts_divide(ctx, tee->parts, outs));
    }
    for (size_t i = 0; i < tee->n; i++) {
        const struct vc_out_list *own = tee->parts == NULL ? outs : vc_tee_parts_list(tee->parts, gets_parts(tee, i));

        VC_CALL(tee->sinks[i]->ops->layout(ctx, tee->sinks[i], own, &tee->outputs[i].file_bytes));
    }
    join(sink);
    *file_bytes = tee->outputs[0].file_bytes;
    return VC_OK;
}

static enum vc_status tee_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct tee *tee = sink->self;

    for (size_t i = 0; i < tee->n; i++) {
        VC_CALL(tee->sinks[i]->ops->begin(ctx, tee->sinks[i]));
    }
    return VC_OK;
}

/* ---- pieces ---- */

static size_t tee_pack_bound(const struct vc_sink *sink, size_t n_bytes)
{
    const struct tee *tee = sink->self;
    size_t total = VC_POOL_ALIGNED(tee->n * sizeof(struct vc_packet));

    for (size_t i = 0; i < tee->n; i++) {
        total += VC_POOL_ALIGNED(vc_sink_pack_bound(tee->sinks[i], n_bytes));
    }
    return total;
}

static enum vc_status tee_pack(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet)
{
    struct tee *tee = sink->self;
    struct vc_packet *packets = packet->buffer;
    char *at = (char *)packet->buffer + VC_POOL_ALIGNED(tee->n * sizeof(struct vc_packet));
    size_t n_bytes = packet->n_bytes;

    VC_REFUSE_IF(tee_pack_bound(sink, n_bytes) > packet->buffer_bytes, ctx, VC_E_INTERNAL,
                 "a packet of %zu bytes needs more room than was planned", n_bytes);
    for (size_t i = 0; i < tee->n; i++) {
        size_t room = VC_POOL_ALIGNED(vc_sink_pack_bound(tee->sinks[i], n_bytes));

        size_t out = tee->parts == NULL ? packet->out : vc_tee_parts_out(tee->parts, packet->out, gets_parts(tee, i));

        packets[i] = (struct vc_packet){.out = out, .buffer = room != 0 ? at : NULL, .buffer_bytes = room};
        if (out == SIZE_MAX) {
            continue;
        }
        VC_CALL(vc_sink_pack(ctx, tee->sinks[i], out, packet->offset, packet->data, n_bytes, &packets[i]));
        at += room;
    }
    return VC_OK;
}

static enum vc_status tee_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct tee *tee = sink->self;
    const struct vc_packet *packets = packet->buffer;

    for (size_t i = 0; i < tee->n; i++) {
        if (packets[i].out != SIZE_MAX) {
            VC_CALL(tee->sinks[i]->ops->emit(ctx, tee->sinks[i], &packets[i]));
        }
    }
    return VC_OK;
}

/* ---- the end ---- */

static enum vc_status tee_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct tee *tee = sink->self;

    for (size_t i = 0; i < tee->n; i++) {
        VC_CALL(tee->sinks[i]->ops->finish(ctx, tee->sinks[i], &tee->outputs[i].file_bytes));
    }
    *file_bytes = tee->outputs[0].file_bytes;
    return VC_OK;
}

static bool is_stdout(const struct vc_report_output *output)
{
    return strcmp(output->path, "-") == 0;
}

/* A name could not be given: says which files have theirs already. */
static enum vc_status tell_written(struct vc_ctx *ctx, const struct tee *tee, enum vc_status status)
{
    char message[VC_MESSAGE_BYTES];
    char written[VC_MESSAGE_BYTES / 2] = "";
    size_t n = 0;

    for (size_t i = 0; i < tee->n; i++) {
        if (tee->outputs[i].written && n + strlen(tee->outputs[i].path) + 4 < sizeof written) {
            memcpy(written + n, n == 0 ? "" : ", ", n == 0 ? 1 : 3);
            n += n == 0 ? 0 : 2;
            memcpy(written + n, tee->outputs[i].path, strlen(tee->outputs[i].path) + 1);
            n += strlen(tee->outputs[i].path);
        }
    }
    if (n == 0) {
        return status;
    }
    memcpy(message, ctx->message, sizeof message);
    return vc_fail(ctx, status, "%.480s; already complete: %.480s", message, written);
}

static enum vc_status tee_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct tee *tee = sink->self;
    enum vc_status status = VC_OK;

    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < tee->n; i++) {
            if (is_stdout(&tee->outputs[i]) == (round == 0)) {
                status = tee->sinks[i]->ops->commit(ctx, tee->sinks[i]);
                if (status != VC_OK) {
                    return tell_written(ctx, tee, status);
                }
                tee->outputs[i].written = true;
            }
        }
    }
    return status;
}

static void tee_interrupt(struct vc_sink *sink)
{
    struct tee *tee = sink->self;

    for (size_t i = 0; i < tee->n; i++) {
        vc_sink_interrupt(tee->sinks[i]);
    }
}

static void tee_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct tee *tee = sink->self;

    for (size_t i = 0; tee != NULL && tee->sinks != NULL && i < tee->n; i++) {
        if (tee->sinks[i] != NULL) {
            tee->sinks[i]->ops->free(ctx, tee->sinks[i]);
        }
    }
    if (tee != NULL) {
        vc_free(ctx, tee->sinks);
        vc_tee_parts_free(ctx, tee->parts);
    }
    VC_FREE_ALL(ctx, tee, sink);
}

/* Of several outputs that get the same, what holds for all of them: the tee itself says it. */
static const struct vc_sink *tee_of_tensor(const struct vc_sink *sink, size_t tensor)
{
    const struct tee *tee = sink->self;
    bool only = tee->n == 1 || (tee->n == 2 && gets_parts(tee, 1));

    return only ? vc_sink_of_tensor(tee->sinks[0], tensor) : sink;
}

static bool tee_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    return vc_sink_refusing(sink, dtype) == NULL;
}

static const struct vc_sink_ops tee_ops = {.layout = tee_layout,
                                           .begin = tee_begin,
                                           .pack_bound = tee_pack_bound,
                                           .pack = tee_pack,
                                           .emit = tee_emit,
                                           .finish = tee_finish,
                                           .commit = tee_commit,
                                           .interrupt = tee_interrupt,
                                           .free = tee_free,
                                           .of_tensor = tee_of_tensor,
                                           .can_hold = tee_can_hold};

const struct vc_sink *vc_sink_refusing(const struct vc_sink *sink, enum vc_dtype dtype)
{
    const struct tee *tee = sink->self;

    if (sink->ops != &tee_ops) {
        return sink->ops->can_hold(sink, dtype) ? NULL : sink;
    }
    for (size_t i = 0; i < tee->n; i++) {
        if (!gets_parts(tee, i) && !tee->sinks[i]->ops->can_hold(tee->sinks[i], dtype)) {
            return tee->sinks[i];
        }
    }
    return NULL;
}

const struct vc_sink *vc_sink_of_output(const struct vc_sink *sink, size_t index)
{
    const struct tee *tee = sink->self;

    return sink->ops == &tee_ops ? tee->sinks[index] : sink;
}

/* ---- creating ---- */

enum vc_status vc_tee_create(struct vc_ctx *ctx, const struct vc_writers *writers, const struct vc_model *model,
                             const struct vc_write_options *options, struct vc_report_output *outputs, size_t n,
                             const struct vc_part_file *apart, struct vc_sink **out)
{
    struct vc_sink *sink = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *sink);
    struct tee *tee = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(sink);
    sink->ops = &tee_ops;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, tee, 1));
    sink->self = tee;
    tee->n = n;
    tee->outputs = outputs;
    VC_TRY_ALLOC(tee->sinks = vc_calloc_array(ctx, VC_TAG_IO, n, sizeof(struct vc_sink *)));
    for (size_t i = 0; i < n; i++) {
        struct vc_write_options own = *options;

        own.path = options->path != NULL ? outputs[i].path : NULL;
        if (apart != NULL && i + 1 == n) {
            VC_TRY(vc_tee_parts_create(ctx, writers, model, &own, apart, &tee->parts, &tee->sinks[i]));
        } else {
            VC_TRY(writers->create(ctx, model, &own, &tee->sinks[i]));
        }
    }
    join(sink);
    *out = sink;
    return VC_OK;
out:
    if (sink != NULL) {
        tee_free(ctx, sink);
    }
    return status;
}
