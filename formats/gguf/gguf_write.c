/* gguf_write.c - the writer of GGUF: one file, or a folder of several. gguf_files.c plans what stands where; this
 * writes it.
 *
 *     0                 header (24 bytes)      gguf_finish, when all values are there
 *     24                metadata, entries      copied from the source or made by gguf_files.c; gguf_finish
 *     data offset       values                 gguf_emit, at their places, from any thread in any order
 *     behind each       padding                holes of the file, which read as zeros; the last one is written
 *
 * Everything is known before the first weight is read, so a tile goes straight to its place, and a file that is not
 * complete has no header. */

#include "arch/arch_family.h"
#include "arch/arch_pictures.h"
#include "formats/dialects/dialects.h"
#include "formats/gguf/gguf_files.h"
#include "formats/io/numbered_name.h"
#include "formats/io/outfolder.h"

#define COPY_BYTES ((size_t)64 << 10)

/* `self` of the sink. file and folder are both NULL where only sizes are wanted (--dry-run). */
struct gguf_sink {
    struct vc_outfile *file;     /* a single file that is written */
    struct vc_outfolder *folder; /* a folder that is written; neither: sizes only */
    bool share;                  /* other workers write the rest of the folder */
    struct gguf_plan plan;
    struct vc_arena arena; /* the prefix */
    struct gguf_files files;
};

/* The bytes that this worker writes. */
static uint64_t file_bytes_of(const struct gguf_sink *self)
{
    uint64_t total = 0;

    for (size_t i = 0; i < self->files.n; i++) {
        total += self->files.files[i].in_other_shard ? 0 : self->files.files[i].file_bytes;
    }
    return total;
}

/* Gives each file of the plan its output: a file in the folder, or the only one. With --shard, files of other workers
 * have none. */
static enum vc_status add_files(struct vc_ctx *ctx, struct gguf_sink *self)
{
    if (self->file != NULL) {
        self->files.files[0].file = self->file;
    }
    for (size_t i = 0; self->folder != NULL && i < self->files.n; i++) {
        if (!self->files.files[i].in_other_shard) {
            VC_CALL(vc_outfolder_add(ctx, self->folder, self->files.files[i].name, &self->files.files[i].file));
        }
    }
    return VC_OK;
}

/* vc_sink_ops.layout: plans files, metadata and places from the list of outputs, and looks whether the disk has room.
 * With --shard nothing is created yet, since a shared folder stays once it is made. */
static enum vc_status gguf_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                  uint64_t *file_bytes)
{
    struct gguf_sink *self = sink->self;

    VC_REFUSE_IF(
        self->share && outs->other_shards_unsure, ctx, VC_E_UNSUPPORTED,
        "the metadata says what most weights are, and with %s=keep that is not known before other workers' weights "
        "are read; leave out one of that and %s",
        vc_option(ctx, "nonfinite"), vc_option(ctx, "shard"));
    self->plan.outs = outs;
    self->plan.sizes_only = self->file == NULL && self->folder == NULL;
    VC_CALL(vc_gguf_files_make(ctx, &self->plan, &self->files));
    sink->note = self->files.note != NULL ? self->files.note : sink->note;
    for (size_t i = 0; self->folder != NULL && i < self->files.n; i++) { /* those of other workers, too */
        VC_CALL(vc_outfolder_expect(ctx, self->folder, self->files.files[i].name));
    }
    if (self->folder != NULL) {
        VC_CALL(vc_outfolder_check_old(ctx, self->folder));
    }
    if (!self->share) {
        VC_CALL(add_files(ctx, self));
    }
    *file_bytes = file_bytes_of(self);
    return self->folder != NULL ? vc_outfolder_need(ctx, self->folder, *file_bytes)
                                : vc_outfile_need(ctx, self->file, *file_bytes);
}

/* ---- the sink ---- */

/* vc_sink_ops.begin: opens the files. */
static enum vc_status gguf_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct gguf_sink *self = sink->self;

    if (self->share) { /* makes the folder, so only once nothing else is wrong */
        VC_CALL(add_files(ctx, self));
    }
    vc_outfolder_sweep(self->folder);
    for (size_t i = 0; i < self->files.n; i++) {
        if (self->folder != NULL) {
            VC_CALL(vc_outfolder_begin(ctx, self->folder, self->files.files[i].file));
        } else {
            VC_CALL(vc_outfile_begin(ctx, self->files.files[i].file));
        }
    }
    return VC_OK;
}

/* vc_sink_ops.emit: a piece of a tensor, at its place. Called from any thread. */
static enum vc_status gguf_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct gguf_sink *self = sink->self;
    struct gguf_file *file = &self->files.files[self->files.file_of[packet->out]];

    atomic_fetch_add_explicit(&file->got, packet->n_plain, memory_order_relaxed);
    return vc_outfile_write(ctx, file->file, self->files.offsets[packet->out] + packet->offset, packet->data,
                            packet->n_bytes);
}

/* A part of the source's metadata, byte for byte, to offset `to` of the output. */
static enum vc_status copy_from_source(struct vc_ctx *ctx, const struct gguf_file *file, const struct gguf_part *part,
                                       uint64_t to, char *buffer)
{
    for (uint64_t at = part->begin; at < part->end; at += COPY_BYTES) {
        size_t n = (size_t)vc_min_u64(COPY_BYTES, part->end - at);

        VC_CALL(vc_infile_read(ctx, file->from->file, at, buffer, n));
        VC_CALL(vc_outfile_write(ctx, file->file, to + (at - part->begin), buffer, n));
    }
    return VC_OK;
}

/* Everything before the data, and the padding behind the last value. The padding between tensors is never written: a
 * hole in a file reads as zeros. At the end of the file there would be no hole, only a shorter file. */
static enum vc_status write_head(struct vc_ctx *ctx, const struct gguf_file *file)
{
    unsigned char head[VC_GGUF_HEADER_BYTES] = {'G', 'G', 'U', 'F', VC_GGUF_VERSION};
    VC_SCOPED char *buffer = vc_calloc_array(ctx, VC_TAG_IO, 1, COPY_BYTES);
    uint64_t at;

    VC_CALL_ALLOC(buffer);
    for (at = file->values_end; at < file->file_bytes; at += vc_min_u64(COPY_BYTES, file->file_bytes - at)) {
        VC_CALL(vc_outfile_write(ctx, file->file, at, buffer, (size_t)vc_min_u64(COPY_BYTES, file->file_bytes - at)));
    }
    vc_put_le64(head + 8, file->n_tensors);
    vc_put_le64(head + 16, file->n_pairs);
    VC_CALL(vc_outfile_write(ctx, file->file, 0, head, sizeof head));
    at = sizeof head;
    for (size_t i = 0; i < file->n_parts; i++) {
        const struct gguf_part *part = &file->parts[i];

        if (part->from_source) {
            VC_CALL(copy_from_source(ctx, file, part, at, buffer));
        } else {
            VC_CALL(vc_outfile_write(ctx, file->file, at, file->fresh.data + part->begin,
                                     (size_t)(part->end - part->begin)));
        }
        at += part->end - part->begin;
    }
    if (file->entries.n != 0) {
        VC_CALL(vc_outfile_write(ctx, file->file, at, file->entries.data, file->entries.n));
    }
    return VC_OK;
}

/* vc_sink_ops.finish: checks that every byte of every tensor came, completes each file and brings it to the disk. */
static enum vc_status gguf_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct gguf_sink *self = sink->self;

    for (size_t i = 0; i < self->files.n; i++) {
        struct gguf_file *file = &self->files.files[i];
        uint64_t got = atomic_load(&file->got);

        VC_REFUSE_IF(got != file->value_bytes, ctx, VC_E_INTERNAL, "%" PRIu64 " of %" PRIu64 " bytes were written", got,
                     file->value_bytes);
        if (file->file != NULL) {
            VC_CALL(write_head(ctx, file));
            VC_CALL(vc_outfile_sync(ctx, file->file));
        }
    }
    *file_bytes = file_bytes_of(self);
    return VC_OK;
}

/* vc_sink_ops.commit: the output gets its name. */
static enum vc_status gguf_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct gguf_sink *self = sink->self;

    return vc_output_commit(ctx, self->folder, self->file, &sink->late_note);
}

/* vc_sink_ops.free: also removes what was not committed. */
static void gguf_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct gguf_sink *self = sink->self;

    vc_outfile_free(ctx, self->file);
    vc_outfolder_free(ctx, self->folder);
    vc_gguf_files_release(ctx, &self->files);
    vc_arena_release(ctx, &self->arena);
    VC_FREE_ALL(ctx, self, sink);
}

/* vc_sink_ops.can_hold: what the format has a number for. */
static bool gguf_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    uint32_t type;

    return vc_gguf_type(dtype, &type);
}

static const struct vc_sink_ops gguf_sink_ops = {.layout = gguf_layout,
                                                 .begin = gguf_begin,
                                                 .emit = gguf_emit,
                                                 .finish = gguf_finish,
                                                 .commit = gguf_commit,
                                                 .free = gguf_free,
                                                 .can_hold = gguf_can_hold};

/* Refuses options that mean nothing for GGUF, with what to do instead. */
static enum vc_status check_options(struct vc_ctx *ctx, const struct vc_write_options *options)
{
    const struct vc_dialect *asked = NULL;

    VC_REFUSE_IF(options->deflate != VC_DEFLATE_NONE, ctx, VC_E_ARGUMENT,
                 "GGUF is never compressed; leave %s out, or let the output's name end in .npz",
                 vc_option(ctx, "deflate"));
    VC_CALL(vc_dialect_asked(ctx, options, &asked));
    VC_REFUSE_IF(asked != NULL && asked != &vc_dialect_gguf, ctx, VC_E_ARGUMENT,
                 "a GGUF file holds int8 weights in blocks of its own; leave %s out", vc_option(ctx, "layout"));
    return VC_OK;
}

/* Files are called as their folder is: "out/tiny/" gives "tiny", and so "tiny-00001-of-00003.gguf". No output: "model".
 */
static const char *make_prefix(struct vc_ctx *ctx, struct gguf_sink *self, const char *path)
{
    size_t n = path != NULL ? strlen(path) : 0;
    size_t begin;

    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    for (begin = n; begin > 0 && path[begin - 1] != '/'; begin--) {
    }
    return vc_arena_printf(ctx, &self->arena, "%.*s", (int)(n == 0 ? 5 : n - begin), n == 0 ? "model" : path + begin);
}

/* One file or a folder, from the options and from how the source is divided; and what is wrong with the output's name.
 */
static enum vc_status choose_form(struct vc_ctx *ctx, const struct vc_write_options *options, struct gguf_sink *self)
{
    size_t n_files = self->plan.source != NULL ? self->plan.source->n_shards : 1;
    struct vc_numbered_name name;

    self->share = options->n_shards != 0;
    self->plan.max_shard_bytes = options->max_shard_bytes;
    self->plan.shard = options->shard;
    self->plan.n_shards = options->n_shards;
    VC_CALL(vc_outfolder_choose(ctx, options, VC_GGUF_EXTENSION, n_files > 1, n_files, &self->plan.in_folder));
    VC_REFUSE_IF(
        n_files > 1 && options->path != NULL && vc_numbered_name_parse(options->path, VC_GGUF_EXTENSION, &name), ctx,
        VC_E_ARGUMENT, "%s: is the name of one of several files; name a folder for all of them, or a single file",
        options->path);
    VC_CALL_ALLOC(self->plan.prefix = make_prefix(ctx, self, options->path));
    if (options->path == NULL || options->dry_run) {
        return VC_OK;
    }
    return self->plan.in_folder ? vc_outfolder_create(ctx, options->path, vc_outfolder_force_of(options), self->share,
                                                      self->plan.model, &self->folder)
                                : vc_outfile_open(ctx, options, self->plan.model, &self->file);
}

/* general.architecture of a network that makes pictures or films, by its tensors, or by what the GGUF file says; NULL:
 * another model. */
static const char *picture_of(const struct vc_model *model)
{
    const char *prefix;

    for (size_t i = 0; vc_format_writes(model, vc_gguf_sink_create) && i < model->n_facts; i++) {
        if (strcmp(model->facts[i].key, "architecture") == 0) {
            return vc_arch_gguf_is_picture(model->facts[i].value) ? model->facts[i].value : NULL;
        }
    }
    const struct vc_arch_picture *row = vc_arch_picture_find(model, &prefix);
    return row != NULL ? row->gguf : NULL;
}

const struct vc_loader vc_gguf_other_loader = {.program = "only a program that knows its names"};

enum vc_status vc_gguf_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                   const struct vc_write_options *options, struct vc_sink **out)
{
    struct gguf_sink *self = NULL;
    struct vc_sink *sink = NULL;
    enum vc_status status = VC_OK;
    bool same = vc_format_writes(model, vc_gguf_sink_create);

    *out = NULL;
    VC_TRY(check_options(ctx, options));
    VC_TRY_ALLOC(sink = vc_alloc(ctx, VC_TAG_IO, sizeof *sink));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, self, 1));
    self->plan.model = model;
    self->plan.source = same ? model->self : NULL;
    self->plan.picture = picture_of(model);
    VC_TRY(choose_form(ctx, options, self));
    *sink = (struct vc_sink){.ops = &gguf_sink_ops,
                             .self = self,
                             .format = VC_FORMAT_GGUF,
                             .dialect = &vc_dialect_gguf,
                             .accepts_raw = same,
                             .memory_bytes = COPY_BYTES,
                             .note = same || self->plan.picture != NULL
                                         ? NULL
                                         : "general.architecture is \"unknown\", and names are kept: only programs "
                                           "that know them have a model to run it with, which llama.cpp has not",
                             .loader = same ? model->loader
                                       : self->plan.picture != NULL
                                           ? (struct vc_loader){.program = vc_arch_gguf_program(self->plan.picture)}
                                           : vc_gguf_other_loader};
    *out = sink;
    return VC_OK;
out:
    if (self != NULL) {
        vc_arena_release(ctx, &self->arena);
    }
    VC_FREE_ALL(ctx, self, sink);
    return status;
}
