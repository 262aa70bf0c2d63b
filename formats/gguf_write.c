/* gguf_write.c - GGUF output: header, metadata, tensor entries, then the tensors, each padded to the alignment.
 *
 * Everything is known before the first weight is read, so a tile goes straight to its place, from any thread. The
 * metadata of a GGUF source is copied from it byte for byte; the two pairs that would be wrong afterwards are replaced
 * where they stood. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/checked.h"
#include "core/text.h"
#include "formats/formats.h"
#include "formats/gguf.h"
#include "formats/outfile.h"

#define COPY_BYTES ((size_t)64 << 10)
#define MAX_PARTS  8

/* A piece of the metadata: bytes of the source file, or of self->fresh. */
struct part {
    bool from_source;
    uint64_t begin, end;
};

struct gguf_sink {
    struct vc_outfile *file;   /* NULL: nothing is written */
    const struct gguf *source; /* NULL: the model is of another format */
    const struct vc_out_list *outs;
    uint64_t *offsets; /* by output, from the start of the file */
    uint32_t alignment;
    struct vc_text fresh; /* pairs that the source does not have like this */
    struct part parts[MAX_PARTS];
    size_t n_parts;
    uint64_t n_pairs;
    struct vc_text entries; /* ends in the padding before the data */
    uint64_t metadata_bytes;
    uint64_t value_bytes; /* of all tensors, without padding */
    uint64_t values_end;  /* in the file; what follows is padding */
    uint64_t file_bytes;
    atomic_uint_fast64_t got;
};

/* ---- metadata ---- */

static void add_u32(struct vc_text *text, uint32_t v)
{
    unsigned char bytes[4];

    vc_put_le32(bytes, v);
    vc_text_add_bytes(text, (const char *)bytes, sizeof bytes);
}

static void add_u64(struct vc_text *text, uint64_t v)
{
    unsigned char bytes[8];

    vc_put_le64(bytes, v);
    vc_text_add_bytes(text, (const char *)bytes, sizeof bytes);
}

static void add_string(struct vc_text *text, const char *s)
{
    add_u64(text, strlen(s));
    vc_text_add_bytes(text, s, strlen(s));
}

static void add_part(struct gguf_sink *self, bool from_source, uint64_t begin, uint64_t end)
{
    if (begin != end) {
        self->parts[self->n_parts++] = (struct part){from_source, begin, end};
        self->metadata_bytes += end - begin;
    }
}

static void add_u32_pair(struct gguf_sink *self, const char *key, uint32_t v)
{
    uint64_t begin = self->fresh.n;

    add_string(&self->fresh, key);
    add_u32(&self->fresh, GGUF_U32);
    add_u32(&self->fresh, v);
    add_part(self, false, begin, self->fresh.n);
}

/* general.file_type: what most elements are; UINT32_MAX where that is a type this program does not make. */
static uint32_t file_type(const struct vc_out_list *outs)
{
    static const struct {
        enum vc_dtype dtype;
        uint32_t number;
    } numbers[] = {{VC_DTYPE_F32, 0}, {VC_DTYPE_F16, 1}, {VC_DTYPE_Q8_0, 7}, {VC_DTYPE_BF16, 32}};
    uint64_t n_bytes[VC_DTYPE_COUNT] = {0};
    size_t most = 0;
    size_t i;

    for (i = 0; i < outs->n; i++) {
        uint64_t n = 1;
        unsigned d;

        for (d = 0; d < outs->tensors[i].n_dims; d++) {
            n *= outs->tensors[i].shape[d];
        }
        n_bytes[outs->tensors[i].dtype] += n;
    }
    for (i = 0; i < VC_DTYPE_COUNT; i++) {
        most = n_bytes[i] > n_bytes[most] ? i : most;
    }
    for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].dtype == (enum vc_dtype)most) {
            return numbers[i].number;
        }
    }
    return UINT32_MAX;
}

/* The values that change: file type and quantization version, UINT32_MAX for one that does not. */
static void find_changes(const struct gguf_sink *self, uint32_t values[2])
{
    const struct vc_out_list *outs = self->outs;
    bool changed = self->source == NULL;
    bool blocks = false;
    size_t i;

    for (i = 0; i < outs->n; i++) {
        changed |= outs->tensors[i].dtype != outs->tensors[i].source_dtype;
        blocks |= vc_dtype_size(outs->tensors[i].dtype) == 0;
    }
    values[0] = changed ? file_type(outs) : UINT32_MAX;
    values[1] = changed && blocks ? VC_GGUF_QUANTIZATION : UINT32_MAX;
}

/* The source's pairs, with the new values where the old ones stood, or behind everything. */
static enum vc_status lay_out_metadata(struct gguf_sink *self)
{
    static const char *const keys[2] = {VC_GGUF_KEY_FILE_TYPE, VC_GGUF_KEY_QUANTIZER};
    struct gguf_metadata none = {.n_pairs = 0};
    const struct gguf_metadata *metadata = self->source != NULL ? &self->source->metadata : &none;
    struct gguf_place places[2] = {metadata->file_type, metadata->quantizer};
    uint64_t at = metadata->begin;
    uint32_t values[2];
    size_t i;

    find_changes(self, values);
    self->n_pairs = metadata->n_pairs;
    if (self->source == NULL) {
        uint64_t begin = self->fresh.n;

        add_string(&self->fresh, VC_GGUF_KEY_ARCHITECTURE);
        add_u32(&self->fresh, GGUF_STRING);
        add_string(&self->fresh, "unknown");
        add_part(self, false, begin, self->fresh.n);
        self->n_pairs++;
    }
    for (i = 0; i < 2; i++) { /* in the order in which they stand in the file */
        size_t k = places[0].begin <= places[1].begin ? i : 1 - i;

        if (values[k] != UINT32_MAX && places[k].end != 0) {
            add_part(self, true, at, places[k].begin);
            add_u32_pair(self, keys[k], values[k]);
            at = places[k].end;
        }
    }
    add_part(self, true, at, metadata->end);
    for (i = 0; i < 2; i++) {
        if (values[i] != UINT32_MAX && places[i].end == 0) {
            add_u32_pair(self, keys[i], values[i]);
            self->n_pairs++;
        }
    }
    return self->fresh.status;
}

/* ---- tensor entries ---- */

static enum vc_status check_out(struct vc_ctx *ctx, const struct vc_out_tensor *out, uint32_t *type)
{
    if (!vc_gguf_type(out->dtype, type)) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: gguf cannot hold elements of type %s", out->name,
                       vc_dtype_name(out->dtype));
    }
    if (strlen(out->name) > VC_GGUF_MAX_NAME) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: its name has %zu bytes; GGUF allows %d", out->name,
                       strlen(out->name), VC_GGUF_MAX_NAME);
    }
    if (out->n_dims > VC_GGUF_MAX_DIMS) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: has %u dimensions; GGUF allows %d", out->name, out->n_dims,
                       VC_GGUF_MAX_DIMS);
    }
    return VC_OK;
}

/* `at`: the tensor's offset in the data; moves behind it and its padding. */
static enum vc_status add_entry(struct vc_ctx *ctx, struct gguf_sink *self, size_t index, uint64_t *at)
{
    const struct vc_out_tensor *out = &self->outs->tensors[index];
    struct vc_text *text = &self->entries;
    uint32_t type = 0;
    uint64_t end;
    enum vc_status status;
    unsigned d;

    VC_TRY(check_out(ctx, out, &type));
    if (!vc_add_u64(*at, out->size_bytes, &end) || !vc_round_up_u64(end, self->alignment, &end) ||
        end > INT64_MAX / 2) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: the output would be larger than 2^62 bytes", out->name);
    }
    add_string(text, out->name);
    add_u32(text, out->n_dims);
    for (d = out->n_dims; d-- > 0;) {
        add_u64(text, out->shape[d]);
    }
    add_u32(text, type);
    add_u64(text, *at);
    self->offsets[index] = *at;
    self->value_bytes += out->size_bytes;
    self->values_end = out->size_bytes != 0 ? *at + out->size_bytes : self->values_end;
    *at = end;
    status = text->status;
out:
    return status;
}

static void pad(struct vc_text *text, uint64_t n)
{
    static const char zeros[512] = {0};

    for (; n != 0 && text->status == VC_OK; n -= vc_min_u64(n, sizeof zeros)) {
        vc_text_add_bytes(text, zeros, (size_t)vc_min_u64(n, sizeof zeros));
    }
}

static enum vc_status gguf_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                  uint64_t *file_bytes)
{
    struct gguf_sink *self = sink->self;
    uint64_t data_bytes = 0;
    uint64_t data_offset;
    uint64_t head;
    enum vc_status status = VC_OK;
    size_t i;

    self->outs = outs;
    self->offsets = vc_calloc_array(ctx, VC_TAG_NAMES, outs->n, sizeof *self->offsets);
    VC_TRY_ALLOC(self->offsets);
    VC_TRY(lay_out_metadata(self));
    for (i = 0; i < outs->n; i++) {
        VC_TRY(add_entry(ctx, self, i, &data_bytes));
    }
    head = VC_GGUF_HEADER_BYTES + self->metadata_bytes + self->entries.n;
    data_offset = (head + self->alignment - 1) & ~(uint64_t)(self->alignment - 1);
    pad(&self->entries, data_offset - head);
    VC_TRY(self->entries.status);
    for (i = 0; i < outs->n; i++) {
        self->offsets[i] += data_offset;
    }
    self->values_end += data_offset;
    self->file_bytes = data_offset + data_bytes;
    *file_bytes = self->file_bytes;
    VC_TRY(vc_outfile_need(ctx, self->file, *file_bytes));
out:
    return status;
}

/* ---- the sink ---- */

static enum vc_status gguf_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct gguf_sink *self = sink->self;

    return vc_outfile_begin(ctx, self->file);
}

static enum vc_status gguf_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct gguf_sink *self = sink->self;

    atomic_fetch_add_explicit(&self->got, packet->n_plain, memory_order_relaxed);
    return vc_outfile_write(ctx, self->file, self->offsets[packet->out] + packet->offset, packet->data,
                            packet->n_bytes);
}

static enum vc_status copy_from_source(struct vc_ctx *ctx, const struct gguf_sink *self, const struct part *part,
                                       uint64_t to, char *buffer)
{
    enum vc_status status = VC_OK;
    uint64_t at;

    for (at = part->begin; at < part->end; at += COPY_BYTES) {
        size_t n = (size_t)vc_min_u64(COPY_BYTES, part->end - at);

        VC_TRY(vc_infile_read(ctx, self->source->file, at, buffer, n));
        VC_TRY(vc_outfile_write(ctx, self->file, to + (at - part->begin), buffer, n));
    }
out:
    return status;
}

/* Everything before the data, and the padding behind it, which nothing else would write. */
static enum vc_status write_head(struct vc_ctx *ctx, const struct gguf_sink *self)
{
    unsigned char head[VC_GGUF_HEADER_BYTES] = {'G', 'G', 'U', 'F', VC_GGUF_VERSION};
    char *buffer = vc_calloc_array(ctx, VC_TAG_IO, 1, COPY_BYTES);
    uint64_t at;
    enum vc_status status = VC_OK;
    size_t i;

    VC_TRY_ALLOC(buffer);
    for (at = self->values_end; at < self->file_bytes; at += vc_min_u64(COPY_BYTES, self->file_bytes - at)) {
        VC_TRY(vc_outfile_write(ctx, self->file, at, buffer, (size_t)vc_min_u64(COPY_BYTES, self->file_bytes - at)));
    }
    vc_put_le64(head + 8, self->outs->n);
    vc_put_le64(head + 16, self->n_pairs);
    VC_TRY(vc_outfile_write(ctx, self->file, 0, head, sizeof head));
    at = sizeof head;
    for (i = 0; i < self->n_parts; i++) {
        const struct part *part = &self->parts[i];

        if (part->from_source) {
            VC_TRY(copy_from_source(ctx, self, part, at, buffer));
        } else {
            VC_TRY(vc_outfile_write(ctx, self->file, at, self->fresh.data + part->begin,
                                    (size_t)(part->end - part->begin)));
        }
        at += part->end - part->begin;
    }
    if (self->entries.n != 0) {
        VC_TRY(vc_outfile_write(ctx, self->file, at, self->entries.data, self->entries.n));
    }
out:
    vc_free(ctx, buffer);
    return status;
}

static enum vc_status gguf_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct gguf_sink *self = sink->self;
    uint64_t got = atomic_load(&self->got);
    enum vc_status status = VC_OK;

    if (got != self->value_bytes) {
        return vc_fail(ctx, VC_E_INTERNAL, "%" PRIu64 " of %" PRIu64 " bytes were written", got, self->value_bytes);
    }
    *file_bytes = self->file_bytes;
    if (self->file != NULL) {
        VC_TRY(write_head(ctx, self));
        VC_TRY(vc_outfile_sync(ctx, self->file));
    }
out:
    return status;
}

static enum vc_status gguf_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct gguf_sink *self = sink->self;

    return vc_outfile_commit(ctx, self->file);
}

static void gguf_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct gguf_sink *self = sink->self;

    vc_outfile_free(ctx, self->file);
    vc_text_release(&self->fresh);
    vc_text_release(&self->entries);
    vc_free(ctx, self->offsets);
    vc_free(ctx, self);
    vc_free(ctx, sink);
}

static bool gguf_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    uint32_t type;

    (void)sink;
    return vc_gguf_type(dtype, &type);
}

static const struct vc_sink_ops gguf_sink_ops = {.layout = gguf_layout,
                                                 .begin = gguf_begin,
                                                 .emit = gguf_emit,
                                                 .finish = gguf_finish,
                                                 .commit = gguf_commit,
                                                 .free = gguf_free,
                                                 .can_hold = gguf_can_hold};

static enum vc_status check_options(struct vc_ctx *ctx, const struct vc_write_options *options)
{
    if (options->deflate != VC_DEFLATE_NONE) {
        return vc_fail(ctx, VC_E_ARGUMENT,
                       "GGUF is never compressed; leave --deflate out, or let the output's name end in .npz");
    }
    if (options->layout != VC_LAYOUT_AUTO && options->layout != VC_LAYOUT_GGUF) {
        return vc_fail(ctx, VC_E_ARGUMENT, "a GGUF file holds int8 weights in blocks of its own; leave --layout out");
    }
    return VC_OK;
}

enum vc_status vc_gguf_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                   const struct vc_write_options *options, struct vc_sink **out)
{
    struct gguf_sink *self = NULL;
    struct vc_sink *sink = NULL;
    enum vc_status status = VC_OK;
    bool same = strcmp(model->format, vc_format_gguf.name) == 0;

    *out = NULL;
    VC_TRY(check_options(ctx, options));
    sink = vc_alloc(ctx, VC_TAG_IO, sizeof *sink);
    VC_TRY_ALLOC(sink);
    self = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *self);
    VC_TRY_ALLOC(self);
    self->source = same ? model->self : NULL;
    self->alignment = same ? self->source->metadata.alignment : VC_GGUF_ALIGN;
    vc_text_init(&self->fresh, ctx);
    vc_text_init(&self->entries, ctx);
    if (options->path != NULL && !options->dry_run) {
        VC_TRY(vc_outfile_create(ctx, options->path, options->force, model, &self->file));
    }
    *sink = (struct vc_sink){.ops = &gguf_sink_ops,
                             .self = self,
                             .format = vc_format_gguf.name,
                             .layout = VC_LAYOUT_GGUF,
                             .accepts_raw = same,
                             .memory_bytes = COPY_BYTES,
                             .note = same ? NULL
                                          : "general.architecture is \"unknown\": llama.cpp reads such a file, but has "
                                            "no model to run it with"};
    *out = sink;
    return VC_OK;
out:
    vc_free(ctx, self);
    vc_free(ctx, sink);
    return status;
}
