/* npy_write.c - the sink for single .npy files; npy_header.c writes the header.
 *
 *     0     header, version 1.0, a multiple of 64 bytes     npy_finish
 *     .     the array in C order, little-endian             npy_emit, at its place, from any thread
 *
 * A .npy holds one array and nothing else, so quantized output (codes and scales) and bf16 (which needs the manifest)
 * become an npz, unless the name that was asked for says .npy: then the user hears what to do. */
#include "formats/npz/npy_write.h"

#include "formats/dialects/dialects.h"
#include "formats/npz/npy.h"
#include "formats/npz/npz_sink.h"
#include "formats/npz/npz_write.h"

/* ---- the sink ---- */

/* `self` of the sink. */
struct npy_sink {
    struct vc_outfile *file; /* NULL: nothing is written */
    const struct vc_model *model;
    struct vc_write_options options;
    struct vc_out_tensor out;
    size_t header_bytes;
    atomic_uint_fast64_t got;
};

/* Why the output has to be an npz; NULL if an npy will do. */
static const char *needs_npz(const struct npy_sink *self, const struct vc_out_list *outs)
{
    if (outs->n != 1) {
        return outs->n != 0 && vc_out_at(outs, 0).quant != NULL ? "codes and scales are several arrays"
                                                                : "an npy is exactly one array";
    }
    if (vc_out_at(outs, 0).dtype == VC_DTYPE_BF16) {
        return "NumPy has no bf16, so it needs a manifest";
    }
    if (self->options.deflate != VC_DEFLATE_NONE) {
        return "an npy is never compressed";
    }
    return NULL;
}

/* Turns the sink, in place, into one of npz, which goes on with the output file that this one has opened, and is made
 * without one. */
static enum vc_status become_npz(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                 uint64_t *file_bytes)
{
    struct npy_sink *self = sink->self;
    struct vc_write_options options = self->options;
    struct vc_sink *made;

    options.path = NULL;
    VC_CALL(vc_npz_sink_create(ctx, self->model, &options, &made));
    ((struct npz_sink *)made->self)->archive.file = self->file;
    *sink = *made;
    VC_FREE_ALL(ctx, made, self);
    return sink->ops->layout(ctx, sink, outs, file_bytes);
}

/* vc_sink_ops.layout: npy or npz, header, size, room on the disk. */
static enum vc_status npy_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                 uint64_t *file_bytes)
{
    struct npy_sink *self = sink->self;
    const char *why = needs_npz(self, outs);
    const char *path = self->options.path;

    VC_REFUSE_IF(why != NULL && path != NULL && vc_path_ends_in(path, ".npy"), ctx, VC_E_ARGUMENT,
                 "%s: cannot be an .npy (%s); let its name end in .npz", path, why);
    VC_REFUSE_IF(why != NULL && self->options.format != NULL, ctx, VC_E_ARGUMENT,
                 "the output cannot be npy (%s); npz can hold it", why);
    if (why != NULL) {
        return become_npz(ctx, sink, outs, file_bytes);
    }
    self->out = vc_out_at(outs, 0);
    if (self->out.form == VC_FORM_VALUES) {
        self->header_bytes = vc_npy_write(NULL, 0, self->out.dtype, self->out.n_dims, self->out.shape);
        VC_CALL(vc_npy_has_type(ctx, self->out.name, self->out.dtype, self->header_bytes));
    }
    VC_REFUSE_IF(!vc_add_u64(self->out.size_bytes, self->header_bytes, file_bytes) || *file_bytes > INT64_MAX, ctx,
                 VC_E_UNSUPPORTED, "%s: the output would be larger than 2^63 bytes", self->out.name);
    return vc_outfile_need(ctx, self->file, *file_bytes);
}

/* vc_sink_ops.emit. */
static enum vc_status npy_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct npy_sink *self = sink->self;

    atomic_fetch_add_explicit(&self->got, packet->n_plain, memory_order_relaxed);
    return vc_outfile_write(ctx, self->file, self->header_bytes + packet->offset, packet->data, packet->n_bytes);
}

/* vc_sink_ops.finish: the header comes last, so that a file that is not complete does not look like one. Raw output
 * brought its own header. */
static enum vc_status npy_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct npy_sink *self = sink->self;
    unsigned char header[VC_NPY_WRITE_MAX];

    VC_REFUSE_IF(atomic_load(&self->got) != self->out.size_bytes, ctx, VC_E_INTERNAL,
                 "%s: %" PRIu64 " of %" PRIu64 " bytes were written", self->out.name, (uint64_t)atomic_load(&self->got),
                 self->out.size_bytes);
    *file_bytes = self->header_bytes + self->out.size_bytes;
    if (self->header_bytes != 0) {
        (void)vc_npy_write(header, sizeof header, self->out.dtype, self->out.n_dims, self->out.shape);
    }
    VC_CALL(vc_outfile_write(ctx, self->file, 0, header, self->header_bytes));
    return vc_outfile_sync(ctx, self->file);
}

/* vc_sink_ops.can_hold. bf16 is decided by the layout: it may make the output an npz. */
static bool npy_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    return vc_npy_has(dtype);
}

static const struct vc_sink_ops npy_ops = {.layout = npy_layout,
                                           .begin = vc_file_sink_begin,
                                           .emit = npy_emit,
                                           .finish = npy_finish,
                                           .commit = vc_file_sink_commit,
                                           .free = vc_file_sink_free,
                                           .can_hold = npy_can_hold};

enum vc_status vc_npy_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                  const struct vc_write_options *options, struct vc_sink **out)
{
    const struct vc_sink sink = {.ops = &npy_ops, .format = "npy", .dialect = &vc_dialect_plain, .accepts_raw = true};

    VC_CALL(vc_file_sink_new(ctx, model, options, &sink, sizeof(struct npy_sink), out));
    struct npy_sink *self = (*out)->self;
    self->model = model;
    self->options = *options;
    return VC_OK;
}
