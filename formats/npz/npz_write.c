/* npz_write.c - npz output with stored members, in any order, and the choice between this sink and the one of
 * npz_deflate.c. Names, places and directory: npz_members.c.
 *
 *     layout   sizes and places of all members, from their shapes alone
 *     emit     a tile goes straight to its place with one pwrite, from any thread and without a lock
 *     finish   local headers (now with size and CRC), npy headers, manifest, directory, end record, fsync
 *
 * The CRC of a member is put together from those of its pieces in any order (vc_crc32_place), so nothing is read back.
 */
#include "formats/npz/npz_write.h"

#include "formats/dialects/dialects.h"
#include "formats/npz/npz.h"
#include "formats/npz/npz_sink.h"
#include "formats/zip/codec.h"

/* ---- stored pieces ---- */

/* vc_sink_ops.layout */
static enum vc_status stored_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                    uint64_t *file_bytes)
{
    struct npz_sink *self = sink->self;
    uint64_t end;

    VC_CALL(vc_npz_place(ctx, sink, outs, &end));
    self->file_bytes = vc_npz_archive_bytes(self, end);
    *file_bytes = self->file_bytes;
    return vc_outfile_need(ctx, self->file, self->file_bytes);
}

/* vc_sink_ops.begin */
static enum vc_status stored_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct npz_sink *self = sink->self;

    return vc_outfile_begin(ctx, self->file);
}

/* vc_sink_ops.pack: what the piece contributes to the CRC of its member. Runs on any thread. */
static enum vc_status stored_pack(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet)
{
    const struct npz_sink *self = sink->self;
    uint64_t n_after = vc_out_at(self->outs, packet->out).size_bytes - packet->offset - packet->n_bytes;

    packet->check = self->file == NULL ? 0 : vc_crc32_place(vc_crc32(0, packet->data, packet->n_bytes), n_after);
    return VC_OK;
}

/* vc_sink_ops.emit: counts the piece and writes it at its place. Runs on any thread. */
static enum vc_status stored_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct npz_sink *self = sink->self;
    struct npz_out *member = &self->members[packet->out];

    atomic_fetch_xor_explicit(&member->crc, (unsigned)packet->check, memory_order_relaxed);
    atomic_fetch_add_explicit(&member->got, packet->n_plain, memory_order_relaxed);
    return vc_npz_put(ctx, self, member->zip.data_offset + member->header_bytes + packet->offset, packet->data,
                      packet->n_bytes);
}

/* vc_sink_ops.finish: headers of all members, then the end of the archive. The size has to be the one that was
 * promised. */
static enum vc_status stored_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct npz_sink *self = sink->self;
    uint64_t end = 0;

    for (size_t i = 0; i < self->outs->n; i++) {
        VC_CALL(vc_npz_complete_member(ctx, self, i, self->members[i].zip.packed_bytes, true));
        end = self->members[i].zip.data_offset + self->members[i].zip.packed_bytes;
    }
    VC_CALL(vc_npz_sink_close_archive(ctx, self, end, file_bytes));
    VC_REFUSE_IF(*file_bytes != self->file_bytes, ctx, VC_E_INTERNAL,
                 "the output has %" PRIu64 " bytes, but %" PRIu64 " were planned", *file_bytes, self->file_bytes);
    return VC_OK;
}

/* ---- the sink ---- */

static const struct vc_sink_ops stored_ops = {.layout = stored_layout,
                                              .begin = stored_begin,
                                              .pack = stored_pack,
                                              .emit = stored_emit,
                                              .finish = stored_finish,
                                              .commit = vc_npz_sink_commit,
                                              .free = vc_npz_sink_free,
                                              .can_hold = vc_npz_sink_can_hold};

const struct vc_loader vc_npz_loader = {
    .program = "NumPy", .tried = "NumPy 2.4.6", .needs = "w * w.scale, or (w - w.zero_point) * w.scale"};

/* Stored and deflated output have a structure in common; what deflating needs stays 0 in the other. */
enum vc_status vc_npz_sink_init(struct vc_ctx *ctx, const struct vc_model *model,
                                const struct vc_write_options *options, struct vc_outfile *file, struct vc_sink *sink)
{
    struct npz_sink *self;

    VC_REFUSE_IF(options->deflate == VC_DEFLATE_ISAL && !vc_codec_has_isal(), ctx, VC_E_UNSUPPORTED,
                 "this build has no ISA-L to deflate with; use zlib");
    VC_CALL(VC_ZEROS(ctx, VC_TAG_IO, self, 1));
    self->source = vc_format_writes(model, vc_npz_sink_create) ? model->self : NULL;
    self->file = file;
    self->deflate = options->deflate;
    vc_text_init(&self->manifest, ctx);
    (void)pthread_mutex_init(&self->mutex, NULL);
    (void)pthread_cond_init(&self->decided, NULL);
    *sink = (struct vc_sink){.ops = options->deflate == VC_DEFLATE_NONE ? &stored_ops : &vc_npz_deflate_ops,
                             .self = self,
                             .format = "npz",
                             .ordered = options->deflate != VC_DEFLATE_NONE,
                             .dialect = &vc_dialect_plain,
                             .accepts_raw = true,
                             .loader = vc_npz_loader};
    return VC_OK;
}

enum vc_status vc_npz_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_write_options *options, struct vc_sink **out)
{
    struct vc_sink *sink = vc_alloc(ctx, VC_TAG_IO, sizeof *sink);
    struct vc_outfile *file = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(sink);
    if (options->path != NULL && !options->dry_run) {
        VC_TRY(vc_outfile_open(ctx, options, model, &file));
    }
    VC_TRY(vc_npz_sink_init(ctx, model, options, file, sink));
    *out = sink;
    return VC_OK;
out:
    vc_outfile_free(ctx, file);
    vc_free(ctx, sink);
    return status;
}
