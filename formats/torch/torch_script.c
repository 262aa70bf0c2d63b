/* torch_script.c - TorchScript output: the archive of the source with other values in its tensors, for torch.jit.load.
 *
 *     m/data/0 | m/data.pkl | m/code/__torch__.py | m/constants.pkl | m/version ...      the source
 *     m/data/0'| m/data.pkl | m/code/__torch__.py | m/constants.pkl | m/version ...      the output
 *
 * Members keep their order, names and bytes (deflated ones stay deflated), but for storages in which a tensor has new
 * values. The program of the archive goes by types and shapes, and data.pkl, which names storages, offsets and strides,
 * stays as it is: tensors that have another type or shape, or became codes, are refused; so are new values of tensors
 * that show the same bytes of a storage, or that do not lie in C order there.
 *
 * Bytes of a storage that no tensor shows are copied. Checksums are put together from those of the pieces. */

#include "core/base/array.h"
#include "formats/dialects/dialects.h"
#include "formats/torch/torch.h"
#include "formats/zip/zip_sink.h"

#define COPY_BYTES ((size_t)128 << 10)

/* Where the bytes of an output lie. */
struct script_place {
    size_t out, entry; /* the member of its storage */
    uint64_t begin, end;
};

/* `self` of the sink. */
struct script_sink {
    struct vc_zip_archive archive; /* its members are those of the source's zip */
    const struct vc_model *model;
    const struct torch *source;
    const struct vc_out_list *outs;
    bool *changed;               /* by member: a storage with new values, written stored */
    struct script_place *places; /* of outputs that are no aliases, by member, then by place */
    size_t n_places;
    size_t *place_of; /* by output; SIZE_MAX: an alias */
};

static const struct vc_zip_entry *entry_at(const struct script_sink *self, size_t index)
{
    return &self->source->zip.entries[index];
}

/* ---- layout ---- */

static enum vc_status refuse(struct vc_ctx *ctx, const struct vc_out_tensor *out, const char *what)
{
    return vc_fail(
        ctx, VC_E_UNSUPPORTED,
        "%s: %s, but the input is a TorchScript archive, whose program goes by the types and shapes that its "
        "tensors have (prune without a change of shape works); an output that ends in .safetensors gets the "
        "weights alone",
        out->name, what);
}

/* The output has the type, shape and name of its tensor in the source. */
static enum vc_status check_out(struct vc_ctx *ctx, const struct script_sink *self, const struct vc_out_tensor *out)
{
    const struct vc_tensor *t = &self->model->tensors[out->source];

    if (out->role != VC_PART_CODES || out->quant != NULL || out->dtype != t->dtype) {
        return refuse(ctx, out, "gets another type");
    }
    if (out->n_dims != t->n_dims || memcmp(out->shape, t->shape, t->n_dims * sizeof *t->shape) != 0) {
        return refuse(ctx, out, "gets another shape");
    }
    return strcmp(out->name, t->name) == 0 ? VC_OK : refuse(ctx, out, "gets another name");
}

static int by_place(const void *a, const void *b)
{
    const struct script_place *x = a;
    const struct script_place *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->entry, y->entry), VC_ORDER(x->begin, y->begin), VC_ORDER(x->out, y->out));
}

/* Lists where outputs lie, and marks the members of which some change. */
static enum vc_status list_places(struct vc_ctx *ctx, struct script_sink *self)
{
    for (size_t i = 0; i < self->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(self->outs, i);
        const struct torch_tensor *t = &self->source->found[out.source].tensor;
        struct script_place *place = &self->places[self->n_places];

        VC_CALL(check_out(ctx, self, &out));
        if (out.alias) {
            continue;
        }
        place->out = i;
        place->entry = (size_t)(self->source->storages[t->storage].entry - self->source->zip.entries);
        place->begin = t->offset * t->dtype->item_bytes;
        place->end = place->begin + out.size_bytes;
        self->changed[place->entry] |= !out.kept;
        self->n_places++;
    }
    qsort(self->places, self->n_places, sizeof *self->places, by_place);
    return VC_OK;
}

/* In a storage that changes each tensor has bytes of its own. */
static enum vc_status check_places(struct vc_ctx *ctx, struct script_sink *self)
{
    for (size_t i = 0; i < self->outs->n; i++) {
        self->place_of[i] = SIZE_MAX;
    }
    for (size_t k = 0; k < self->n_places; k++) {
        const struct script_place *place = &self->places[k];
        const struct script_place *before = k != 0 && place[-1].entry == place->entry ? &place[-1] : NULL;
        const struct vc_out_tensor out = vc_out_at(self->outs, place->out);
        bool own = !self->source->found[out.source].tensor.gather && (before == NULL || before->end <= place->begin);

        self->place_of[place->out] = k;
        if (self->changed[place->entry] && !own) {
            return refuse(ctx, &out, "gets new values where tensors show the same bytes or lie in another order");
        }
    }
    return VC_OK;
}

/* Places of all members, in the source's order, and of the directory. */
static enum vc_status place_members(struct vc_ctx *ctx, struct script_sink *self)
{
    for (size_t i = 0; i < self->archive.n; i++) {
        const struct vc_zip_entry *entry = entry_at(self, i);
        struct vc_zip_member *zip = &self->archive.members[i].zip;

        zip->name = entry->name;
        zip->name_bytes = entry->name_bytes;
        zip->method = self->changed[i] ? VC_ZIP_METHOD_STORED : entry->method;
        zip->crc = entry->crc;
        zip->size_bytes = entry->size_bytes;
        zip->packed_bytes = self->changed[i] ? entry->size_bytes : entry->packed_bytes;
        VC_REFUSE_IF(!vc_zip_lay(&self->archive, zip), ctx, VC_E_UNSUPPORTED,
                     "the output would be larger than 2^63 bytes");
    }
    return VC_OK;
}

/* vc_sink_ops.layout. */
static enum vc_status script_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                    uint64_t *file_bytes)
{
    struct script_sink *self = sink->self;

    self->outs = outs;
    VC_REFUSE_IF(self->source->big_endian, ctx, VC_E_UNSUPPORTED,
                 "a TorchScript archive of a big-endian machine; an output that ends in .safetensors gets the "
                 "weights alone");
    self->archive.n = self->source->zip.n;
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->archive.members, self->archive.n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->changed, self->archive.n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->places, outs->n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->place_of, outs->n));
    VC_CALL(list_places(ctx, self));
    VC_CALL(check_places(ctx, self));
    VC_CALL(place_members(ctx, self));
    sink->memory_bytes = VC_ZIP_DIRECTORY_BUFFER + COPY_BYTES;
    sink->note = "the output is a TorchScript archive with the code and the constants of the input, for torch.jit.load";
    *file_bytes = vc_zip_archive_bytes(&self->archive);
    return vc_outfile_need(ctx, self->archive.file, *file_bytes);
}

/* ---- writing ---- */

/* n bytes at `at` of a member that changes. Runs on any thread. */
static enum vc_status put(struct vc_ctx *ctx, struct script_sink *self, size_t entry, uint64_t at, const void *data,
                          size_t n)
{
    struct vc_zip_out *member = &self->archive.members[entry];
    uint32_t part = vc_crc32_place(vc_crc32(0, data, n), member->zip.size_bytes - at - n);

    atomic_fetch_xor_explicit(&member->crc, part, memory_order_relaxed);
    return vc_outfile_write(ctx, self->archive.file, member->zip.data_offset + at, data, n);
}

/* vc_sink_ops.emit. What lies in a storage that does not change is copied with it. The checksum is taken here, where the
 * place is known. */
static enum vc_status script_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct script_sink *self = sink->self;
    const struct script_place *place = &self->places[self->place_of[packet->out]];

    return self->changed[place->entry]
               ? put(ctx, self, place->entry, place->begin + packet->offset, packet->data, packet->n_bytes)
               : VC_OK;
}

/* Bytes of a storage that no tensor shows. */
static enum vc_status copy_gap(struct vc_ctx *ctx, struct script_sink *self, size_t entry, uint64_t begin, uint64_t end,
                               unsigned char *buffer)
{
    for (uint64_t at = begin; at < end; at += COPY_BYTES) {
        size_t n = (size_t)vc_min_u64(COPY_BYTES, end - at);

        if (entry_at(self, entry)->method != VC_ZIP_STORED) {
            memset(buffer, 0, n); /* nobody sees them */
        } else {
            VC_CALL(vc_infile_read(ctx, self->source->file, entry_at(self, entry)->data_offset + at, buffer, n));
        }
        VC_CALL(put(ctx, self, entry, at, buffer, n));
    }
    return VC_OK;
}

static enum vc_status copy_gaps(struct vc_ctx *ctx, struct script_sink *self, unsigned char *buffer)
{
    for (size_t k = 0; k < self->n_places; k++) {
        const struct script_place *place = &self->places[k];
        bool first = k == 0 || place[-1].entry != place->entry;
        bool last = k + 1 == self->n_places || place[1].entry != place->entry;

        if (!self->changed[place->entry]) {
            continue;
        }
        VC_CALL(copy_gap(ctx, self, place->entry, first ? 0 : place[-1].end, place->begin, buffer));
        if (last) {
            VC_CALL(copy_gap(ctx, self, place->entry, place->end, entry_at(self, place->entry)->size_bytes, buffer));
        }
    }
    return VC_OK;
}

/* A member of the source as it is. */
static enum vc_status copy_member(struct vc_ctx *ctx, struct script_sink *self, size_t index, unsigned char *buffer)
{
    const struct vc_zip_entry *entry = entry_at(self, index);

    for (uint64_t at = 0; at < entry->packed_bytes; at += COPY_BYTES) {
        size_t n = (size_t)vc_min_u64(COPY_BYTES, entry->packed_bytes - at);

        VC_CALL(vc_infile_read(ctx, self->source->file, entry->data_offset + at, buffer, n));
        VC_CALL(
            vc_outfile_write(ctx, self->archive.file, self->archive.members[index].zip.data_offset + at, buffer, n));
    }
    return VC_OK;
}

/* Members that do not change, and the local headers of all. */
static enum vc_status write_members(struct vc_ctx *ctx, struct script_sink *self, unsigned char *buffer)
{
    for (size_t i = 0; i < self->source->zip.n; i++) {
        struct vc_zip_out *member = &self->archive.members[i];

        if (self->changed[i]) {
            member->zip.crc = atomic_load(&member->crc);
        } else {
            VC_CALL(copy_member(ctx, self, i, buffer));
        }
        VC_CALL(vc_zip_put_head(ctx, &self->archive, &member->zip, NULL, 0));
    }
    return VC_OK;
}

/* vc_sink_ops.finish. */
static enum vc_status script_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct script_sink *self = sink->self;
    VC_SCOPED unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, COPY_BYTES);

    VC_CALL_ALLOC(buffer);
    VC_CALL(copy_gaps(ctx, self, buffer));
    VC_CALL(write_members(ctx, self, buffer));
    return vc_zip_put_directory(ctx, &self->archive, self->archive.end, file_bytes);
}

/* ---- the sink ---- */

static void script_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct script_sink *self = sink->self;

    VC_FREE_ALL(ctx, self->archive.members, self->changed, self->places, self->place_of);
    vc_file_sink_free(ctx, sink);
}

/* vc_sink_ops.can_hold: what a tensor becomes is judged by layout, which knows what it was. */
static bool script_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    return vc_torch_dtype_of(dtype) != NULL || dtype == VC_DTYPE_VOID;
}

static const struct vc_sink_ops script_sink_ops = {.layout = script_layout,
                                                   .begin = vc_file_sink_begin,
                                                   .emit = script_emit,
                                                   .finish = script_finish,
                                                   .commit = vc_file_sink_commit,
                                                   .free = script_free,
                                                   .can_hold = script_can_hold};

enum vc_status vc_torch_script_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                           const struct vc_write_options *options, struct vc_sink **out)
{
    const struct vc_sink sink = {
        .ops = &script_sink_ops, .format = VC_FORMAT_TORCH, .dialect = &vc_dialect_plain, .aliases = true};

    VC_CALL(vc_file_sink_new(ctx, model, options, &sink, sizeof(struct script_sink), out));
    struct script_sink *self = (*out)->self;
    self->model = model;
    self->source = model->self;
    return VC_OK;
}
