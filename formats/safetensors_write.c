/* safetensors_write.c - safetensors output: the header from the layout, tensors in the order of the job.
 *
 * Everything is known before the first weight is read, so a tile goes straight to its place with one pwrite, from any
 * thread. The header ends in spaces, so that the data starts at a multiple of 64; between tensors the format allows no
 * padding. Never compressed. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/checked.h"
#include "formats/formats.h"
#include "formats/manifest.h"
#include "formats/outfile.h"
#include "formats/safetensors.h"

#define VC_SAFETENSORS_ALIGN ((size_t)64)

struct safetensors_sink {
    struct vc_outfile *file;          /* NULL: nothing is written */
    const struct safetensors *source; /* NULL: the model is of another format */
    const struct vc_out_list *outs;
    uint64_t *offsets;     /* by output, from the start of the file */
    struct vc_text header; /* with its length in front */
    uint64_t data_bytes;
    atomic_uint_fast64_t got;
};

/* ---- the header ---- */

static const char *dtype_name(enum vc_dtype dtype)
{
    size_t i;

    for (i = 0; i < safetensors_n_dtypes; i++) {
        if (safetensors_dtypes[i].dtype == dtype) {
            return safetensors_dtypes[i].name;
        }
    }
    return NULL;
}

/* The source's own entries first, as they were. */
static enum vc_status add_metadata(struct vc_ctx *ctx, struct safetensors_sink *self)
{
    struct vc_text *text = &self->header;
    struct vc_text manifest;
    enum vc_status status;

    vc_text_init(&manifest, ctx);
    vc_text_add(text, "{\"%s\":{", VC_SAFETENSORS_METADATA);
    if (self->source != NULL && self->source->metadata.n != 0) {
        vc_text_add_bytes(text, self->source->metadata.data, self->source->metadata.n);
    }
    if (self->source == NULL || !self->source->has_format) {
        vc_text_add(text, "%s\"format\":\"pt\"",
                    self->source != NULL && self->source->metadata.n != 0 ? "," : ""); /* loaders ask for it */
    }
    VC_TRY(vc_manifest_write_quantized(ctx, self->outs, &manifest));
    if (manifest.n != 0) {
        vc_text_add(text, ",\"%s\":", VC_MANIFEST_NAME);
        vc_text_add_json_string(text, manifest.data);
    }
    vc_text_add(text, "}");
    status = text->status;
out:
    vc_text_release(&manifest);
    return status;
}

static void add_shape(struct vc_text *text, unsigned n_dims, const uint64_t *shape)
{
    unsigned d;

    vc_text_add(text, "\"shape\":[");
    for (d = 0; d < n_dims; d++) {
        vc_text_add(text, "%s%" PRIu64, d == 0 ? "" : ",", shape[d]);
    }
    vc_text_add(text, "]");
}

/* offset: of the tensor in the data. */
static enum vc_status add_entry(struct vc_ctx *ctx, struct safetensors_sink *self, const struct vc_out_tensor *out,
                                uint64_t offset)
{
    const char *dtype = dtype_name(out->dtype);
    struct vc_text *text = &self->header;

    if (dtype == NULL) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: safetensors cannot hold elements of type %s", out->name,
                       vc_dtype_name(out->dtype));
    }
    if (strcmp(out->name, VC_SAFETENSORS_METADATA) == 0) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: safetensors keeps this name for its metadata", out->name);
    }
    vc_text_add(text, ",");
    vc_text_add_json_string(text, out->name);
    vc_text_add(text, ":{\"dtype\":\"%s\",", dtype);
    if (out->dtype == VC_DTYPE_VOID) { /* elements of less than a byte have another shape here than in the file */
        const struct safetensors_entry *entry = &self->source->entries[out->source];

        add_shape(text, entry->n_dims, entry->shape);
    } else {
        add_shape(text, out->n_dims, out->shape);
    }
    vc_text_add(text, ",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset, offset + out->size_bytes);
    return text->status;
}

/* Closes the header, pads it and puts its length in front. */
static enum vc_status complete_header(struct vc_ctx *ctx, struct safetensors_sink *self)
{
    struct vc_text *text = &self->header;
    enum vc_status status;

    vc_text_add(text, "}");
    vc_text_add(text, "%*s", (int)((VC_SAFETENSORS_ALIGN - text->n % VC_SAFETENSORS_ALIGN) % VC_SAFETENSORS_ALIGN), "");
    VC_TRY(text->status);
    if (text->n - VC_SAFETENSORS_PREFIX_BYTES > VC_SAFETENSORS_MAX_HEADER) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "the safetensors header would have %zu bytes; %" PRIu64 " are allowed",
                       text->n - VC_SAFETENSORS_PREFIX_BYTES, VC_SAFETENSORS_MAX_HEADER);
    }
    vc_put_le64((unsigned char *)text->data, text->n - VC_SAFETENSORS_PREFIX_BYTES);
out:
    return status;
}

static enum vc_status safetensors_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                         uint64_t *file_bytes)
{
    static const char prefix[VC_SAFETENSORS_PREFIX_BYTES] = {0};
    struct safetensors_sink *self = sink->self;
    enum vc_status status = VC_OK;
    size_t i;

    self->outs = outs;
    self->offsets = vc_calloc_array(ctx, VC_TAG_NAMES, outs->n, sizeof *self->offsets);
    VC_TRY_ALLOC(self->offsets);
    vc_text_add_bytes(&self->header, prefix, sizeof prefix);
    VC_TRY(add_metadata(ctx, self));
    for (i = 0; i < outs->n; i++) {
        const struct vc_out_tensor *out = &outs->tensors[i];
        uint64_t end;

        self->offsets[i] = self->data_bytes;
        if (!vc_add_u64(self->data_bytes, out->size_bytes, &end) || end > INT64_MAX - 2 * VC_SAFETENSORS_MAX_HEADER) {
            return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: the output would be larger than 2^63 bytes", out->name);
        }
        VC_TRY(add_entry(ctx, self, out, self->data_bytes));
        self->data_bytes = end;
    }
    VC_TRY(complete_header(ctx, self));
    for (i = 0; i < outs->n; i++) {
        self->offsets[i] += self->header.n;
    }
    *file_bytes = self->header.n + self->data_bytes;
    if (self->file != NULL) {
        VC_TRY(vc_outfile_need(ctx, self->file, *file_bytes));
    }
out:
    return status;
}

/* ---- the sink ---- */

static enum vc_status safetensors_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct safetensors_sink *self = sink->self;
    enum vc_status status = VC_OK;

    if (self->file != NULL) {
        VC_TRY(vc_outfile_begin(ctx, self->file));
        /* For standard output: its folder is known now. */
        VC_TRY(vc_outfile_need(ctx, self->file, self->header.n + self->data_bytes));
    }
out:
    return status;
}

static size_t safetensors_pack_bound(const struct vc_sink *sink, size_t n_bytes)
{
    (void)sink;
    (void)n_bytes;
    return 0;
}

static enum vc_status safetensors_pack(struct vc_ctx *ctx, struct vc_sink *sink, size_t out, uint64_t offset,
                                       const void *data, size_t n_bytes, struct vc_packet *packet)
{
    (void)ctx;
    (void)sink;
    packet->out = out;
    packet->offset = offset;
    packet->data = data;
    packet->n_bytes = n_bytes;
    packet->n_plain = n_bytes;
    return VC_OK;
}

static enum vc_status safetensors_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct safetensors_sink *self = sink->self;

    atomic_fetch_add_explicit(&self->got, packet->n_plain, memory_order_relaxed);
    return self->file == NULL ? VC_OK
                              : vc_outfile_write(ctx, self->file, self->offsets[packet->out] + packet->offset,
                                                 packet->data, packet->n_bytes);
}

static enum vc_status safetensors_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct safetensors_sink *self = sink->self;
    uint64_t got = atomic_load(&self->got);
    enum vc_status status = VC_OK;

    if (got != self->data_bytes) {
        return vc_fail(ctx, VC_E_INTERNAL, "%" PRIu64 " of %" PRIu64 " bytes were written", got, self->data_bytes);
    }
    *file_bytes = self->header.n + self->data_bytes;
    if (self->file != NULL) {
        VC_TRY(vc_outfile_write(ctx, self->file, 0, self->header.data, self->header.n));
        VC_TRY(vc_outfile_sync(ctx, self->file));
    }
out:
    return status;
}

static enum vc_status safetensors_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct safetensors_sink *self = sink->self;

    return self->file == NULL ? VC_OK : vc_outfile_commit(ctx, self->file);
}

static void safetensors_interrupt(struct vc_sink *sink)
{
    (void)sink; /* nobody waits */
}

static void safetensors_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct safetensors_sink *self = sink->self;

    vc_outfile_free(ctx, self->file);
    vc_text_release(&self->header);
    vc_free(ctx, self->offsets);
    vc_free(ctx, self);
    vc_free(ctx, sink);
}

static bool safetensors_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    (void)sink;
    return dtype_name(dtype) != NULL;
}

static const struct vc_sink_ops safetensors_sink_ops = {.layout = safetensors_layout,
                                                        .begin = safetensors_begin,
                                                        .pack_bound = safetensors_pack_bound,
                                                        .pack = safetensors_pack,
                                                        .emit = safetensors_emit,
                                                        .finish = safetensors_finish,
                                                        .commit = safetensors_commit,
                                                        .interrupt = safetensors_interrupt,
                                                        .free = safetensors_free,
                                                        .can_hold = safetensors_can_hold};

enum vc_status vc_safetensors_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                          const struct vc_write_options *options, struct vc_sink **out)
{
    struct safetensors_sink *self = NULL;
    struct vc_sink *sink = NULL;
    enum vc_status status = VC_OK;
    bool same = strcmp(model->format, vc_format_safetensors.name) == 0;

    *out = NULL;
    if (options->deflate != VC_DEFLATE_NONE) {
        return vc_fail(ctx, VC_E_ARGUMENT,
                       "safetensors is never compressed; leave --deflate out, or let the output's name end in .npz");
    }
    sink = vc_alloc(ctx, VC_TAG_IO, sizeof *sink);
    VC_TRY_ALLOC(sink);
    self = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *self);
    VC_TRY_ALLOC(self);
    self->source = same ? model->self : NULL;
    vc_text_init(&self->header, ctx);
    if (options->path != NULL && !options->dry_run) {
        VC_TRY(vc_outfile_create(ctx, options->path, options->force, model, &self->file));
    }
    *sink = (struct vc_sink){.ops = &safetensors_sink_ops,
                             .self = self,
                             .format = vc_format_safetensors.name,
                             .layout = VC_LAYOUT_PLAIN,
                             .accepts_raw = same};
    *out = sink;
    return VC_OK;
out:
    vc_free(ctx, self);
    vc_free(ctx, sink);
    return status;
}
