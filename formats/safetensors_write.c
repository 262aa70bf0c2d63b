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
#include "formats/safetensors_outs.h"
#include "formats/safetensors_pack.h"

#define VC_SAFETENSORS_ALIGN ((size_t)64)

struct safetensors_sink {
    struct vc_outfile *file;          /* NULL: nothing is written */
    const struct safetensors *source; /* NULL: the model is of another format */
    const struct vc_out_list *outs;
    struct safetensors_records records;
    uint64_t *offsets;     /* by record, from the start of the file */
    struct vc_text header; /* with its length in front */
    uint64_t data_bytes;
    atomic_uint_fast64_t got;
};

/* ---- the header ---- */

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
    VC_TRY(vc_manifest_write_quantized(ctx, self->outs, self->records.told, &manifest));
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
static void add_entry(struct vc_text *text, const struct safetensors_record *record, uint64_t offset)
{
    vc_text_add(text, ",");
    vc_text_add_json_string(text, record->name);
    vc_text_add(text, ":{\"dtype\":\"%s\",", record->dtype);
    add_shape(text, record->n_dims, record->shape);
    vc_text_add(text, ",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset, offset + record->n_bytes);
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
    VC_TRY(safetensors_records_make(ctx, outs, self->source, sink->layout, &self->records));
    self->offsets = vc_calloc_array(ctx, VC_TAG_NAMES, self->records.n, sizeof *self->offsets);
    VC_TRY_ALLOC(self->offsets);
    vc_text_add_bytes(&self->header, prefix, sizeof prefix);
    VC_TRY(add_metadata(ctx, self));
    for (i = 0; i < self->records.n; i++) {
        const struct safetensors_record *record = &self->records.records[i];
        uint64_t end;

        self->offsets[i] = self->data_bytes;
        if (!vc_add_u64(self->data_bytes, record->n_bytes, &end) || end > INT64_MAX - 2 * VC_SAFETENSORS_MAX_HEADER) {
            return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: the output would be larger than 2^63 bytes", record->name);
        }
        add_entry(&self->header, record, self->data_bytes);
        self->data_bytes = end;
    }
    VC_TRY(complete_header(ctx, self));
    for (i = 0; i < self->records.n; i++) {
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

/* Only codes that are packed need room; other pieces are stored from where they are. */
static size_t pack_bound(const struct vc_sink *sink, size_t n_bytes)
{
    const struct safetensors_sink *self = sink->self;

    return self->records.any_packed ? safetensors_pack_bound(self->records.min_padded_row, n_bytes) : 0;
}

static enum vc_status pack(struct vc_ctx *ctx, struct vc_sink *sink, size_t out, uint64_t offset, const void *data,
                           size_t n_bytes, struct vc_packet *packet)
{
    const struct safetensors_sink *self = sink->self;
    const struct safetensors_record *record = &self->records.records[self->records.of_out[out]];

    (void)ctx;
    packet->out = out;
    packet->offset = offset;
    packet->data = data;
    packet->n_bytes = n_bytes;
    packet->n_plain = n_bytes;
    if (record->packed_row != 0) {
        packet->offset = safetensors_packed_at(record->packed_row, offset);
        packet->data = packet->buffer;
        packet->n_bytes = safetensors_pack(record->packed_row, offset, data, n_bytes, packet->buffer);
    }
    return VC_OK;
}

/* A run of bytes of a record. */
static enum vc_status store(struct vc_ctx *ctx, struct safetensors_sink *self, size_t record, uint64_t offset,
                            const void *data, size_t n_bytes)
{
    atomic_fetch_add_explicit(&self->got, n_bytes, memory_order_relaxed);
    return self->file == NULL ? VC_OK
                              : vc_outfile_write(ctx, self->file, self->offsets[record] + offset, data, n_bytes);
}

static enum vc_status safetensors_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct safetensors_sink *self = sink->self;

    return store(ctx, self, self->records.of_out[packet->out], packet->offset, packet->data, packet->n_bytes);
}

/* What no output brings: shapes and the like. */
static enum vc_status store_constants(struct vc_ctx *ctx, struct safetensors_sink *self)
{
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < self->records.n; i++) {
        const struct safetensors_record *record = &self->records.records[i];

        if (record->out == VC_NO_TENSOR) {
            VC_TRY(store(ctx, self, i, 0, record->constant, (size_t)record->n_bytes));
        }
    }
out:
    return status;
}

static enum vc_status safetensors_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct safetensors_sink *self = sink->self;
    enum vc_status status = VC_OK;
    uint64_t got;

    VC_TRY(store_constants(ctx, self));
    got = atomic_load(&self->got);
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
    safetensors_records_release(ctx, &self->records);
    vc_free(ctx, self->offsets);
    vc_free(ctx, self);
    vc_free(ctx, sink);
}

static bool safetensors_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    (void)sink;
    return safetensors_dtype_name(dtype) != NULL;
}

static const struct vc_sink_ops safetensors_sink_ops = {.layout = safetensors_layout,
                                                        .begin = safetensors_begin,
                                                        .pack_bound = pack_bound,
                                                        .pack = pack,
                                                        .emit = safetensors_emit,
                                                        .finish = safetensors_finish,
                                                        .commit = safetensors_commit,
                                                        .interrupt = safetensors_interrupt,
                                                        .free = safetensors_free,
                                                        .can_hold = safetensors_can_hold};

/* AUTO: int8 stays in the layout that the source has it in. */
static enum vc_layout choose_layout(const struct safetensors *source, enum vc_layout asked)
{
    if (asked != VC_LAYOUT_AUTO) {
        return asked;
    }
    return source != NULL ? source->modules.layout : VC_LAYOUT_PLAIN;
}

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
    if ((unsigned)options->layout > VC_LAYOUT_BITSANDBYTES) {
        return vc_fail(ctx, VC_E_ARGUMENT, "that layout is none of safetensors");
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
                             .layout = choose_layout(self->source, options->layout),
                             .accepts_raw = same};
    *out = sink;
    return VC_OK;
out:
    vc_free(ctx, self);
    vc_free(ctx, sink);
    return status;
}
