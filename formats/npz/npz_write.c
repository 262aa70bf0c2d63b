/* npz_write.c - npz output with stored members, in any order, and the choice between this sink and the one of
 * npz_deflate.c. Names, places and directory: npz_members.c.
 *
 *     layout   sizes and places of all members, from their shapes alone
 *     emit     a tile goes straight to its place with one pwrite, from any thread and without a lock
 *     finish   local headers (now with size and CRC), npy headers, manifest, directory, end record, fsync
 *
 * pack and emit: zip_sink.h. */
#include "formats/npz/npz_write.h"

#include "formats/dialects/dialects.h"
#include "formats/npz/npz.h"
#include "formats/npz/npz_sink.h"
#include "formats/zip/codec.h"

/* vc_sink_ops.layout */
static enum vc_status stored_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                    uint64_t *file_bytes)
{
    struct npz_sink *self = sink->self;

    VC_CALL(vc_npz_place(ctx, sink, outs));
    if (self->manifest.n != 0) {
        (void)vc_zip_lay(&self->archive, &self->archive.members[outs->n].zip); /* far below 2^64 */
    }
    self->file_bytes = vc_zip_archive_bytes(&self->archive);
    *file_bytes = self->file_bytes;
    return vc_outfile_need(ctx, self->archive.file, self->file_bytes);
}

/* vc_sink_ops.finish: headers of all members, then the end of the archive. The size has to be the one that was
 * promised. */
static enum vc_status stored_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct npz_sink *self = sink->self;
    uint64_t end = 0;

    for (size_t i = 0; i < self->outs->n; i++) {
        VC_CALL(vc_npz_complete_member(ctx, self, i, true));
        end = self->archive.members[i].zip.data_offset + self->archive.members[i].zip.packed_bytes;
    }
    VC_CALL(vc_npz_sink_close_archive(ctx, self, end, file_bytes));
    VC_REFUSE_IF(*file_bytes != self->file_bytes, ctx, VC_E_INTERNAL,
                 "the output has %" PRIu64 " bytes, but %" PRIu64 " were planned", *file_bytes, self->file_bytes);
    return VC_OK;
}

/* ---- the sink ---- */

static const struct vc_sink_ops stored_ops = {.layout = stored_layout,
                                              .begin = vc_file_sink_begin,
                                              .pack = vc_zip_sink_pack,
                                              .emit = vc_zip_sink_emit,
                                              .finish = stored_finish,
                                              .commit = vc_file_sink_commit,
                                              .free = vc_npz_sink_free,
                                              .can_hold = vc_npz_sink_can_hold};

const struct vc_loader vc_npz_loader = {
    .program = "NumPy", .tried = "NumPy 2.4.6", .needs = "w * w.scale, or (w - w.zero_point) * w.scale"};

/* Stored and deflated output have a structure in common; what deflating needs stays 0 in the other. */
enum vc_status vc_npz_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_write_options *options, struct vc_sink **out)
{
    bool deflated = options->deflate != VC_DEFLATE_NONE;
    struct vc_sink sink = {.ops = deflated ? &vc_npz_deflate_ops : &stored_ops,
                           .format = "npz",
                           .ordered = deflated,
                           .dialect = &vc_dialect_plain,
                           .accepts_raw = true,
                           .loader = vc_npz_loader};

    *out = NULL;
    VC_REFUSE_IF(options->deflate == VC_DEFLATE_ISAL && !vc_codec_has_isal(), ctx, VC_E_UNSUPPORTED,
                 "this build has no ISA-L to deflate with; use zlib");
    VC_CALL(vc_file_sink_new(ctx, model, options, &sink, sizeof(struct npz_sink), out));
    struct npz_sink *self = (*out)->self;
    self->source = vc_format_writes(model, vc_npz_sink_create) ? model->self : NULL;
    self->deflate = options->deflate;
    vc_text_init(&self->manifest, ctx);
    (void)pthread_mutex_init(&self->mutex, NULL);
    (void)pthread_cond_init(&self->decided, NULL);
    return VC_OK;
}
