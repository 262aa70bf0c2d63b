/* torch_write.c - PyTorch output: a zip archive as torch.save() makes them, stored, storages aligned to 64 bytes.
 *
 *     archive/data.pkl | archive/byteorder | archive/data/0 ... | archive/version | archive/.data/vcompress.json
 *
 * All sizes are known before the first weight is read, so a tile goes straight to its place from any thread; checksums
 * are put together from those of the pieces. There is no .format_version: it would promise that storages lie where
 * PyTorch's own writer puts them, which some loaders compute instead of looking. */

#include "core/base/checked.h"
#include "formats/dialects/dialects.h"
#include "formats/dialects/manifest/manifest.h"
#include "formats/io/outfile.h"
#include "formats/torch/torch.h"
#include "formats/zip/zip_write.h"

#define ROOT       "archive/"
#define NAME_BYTES ((size_t)40) /* "archive/data/18446744073709551615" */

/* Members that are not storages; the first N_FRONT lie before the storages, the others behind. */
enum fixed { FIXED_PICKLE, FIXED_BYTEORDER, FIXED_VERSION, FIXED_MANIFEST, FIXED_KEY, FIXED_COUNT };

#define N_FRONT 2

/* A storage of the output, by number of the output tensor. */
struct torch_out {
    struct vc_zip_member zip;
    atomic_uint crc; /* XOR of what the pieces contribute */
    atomic_uint_fast64_t got;
};

/* `self` of the sink. */
struct torch_sink {
    const struct vc_model *model;
    const struct torch *source; /* NULL: the model is of another format */
    struct vc_outfile *file;    /* NULL: nothing is written */
    bool sizes_only;            /* nor will be: texts are counted, and members are not kept */
    const struct vc_out_list *outs;
    struct torch_out *members; /* by output; aliases have none. NULL: they are not kept, nor are their names */
    size_t *keys;              /* by output: number of its storage */
    char *names;               /* of the members */
    struct vc_arena arena;
    const char **out_names; /* by output: what it is called in the dict */
    struct vc_text pickle, manifest, note;
    struct vc_zip_member fixed[FIXED_COUNT]; /* no name: not there */
    uint64_t directory_offset, directory_bytes, n_members, file_bytes;
};

/* Writes; nothing where only sizes are wanted. */
static enum vc_status put(struct vc_ctx *ctx, const struct torch_sink *self, uint64_t offset, const void *data,
                          size_t n)
{
    return vc_outfile_write(ctx, self->file, offset, data, n);
}

/* ---- layout ---- */

/* The bytes of a member that is no storage. */
static const char *fixed_data(const struct torch_sink *self, enum fixed member)
{
    switch (member) {
    case FIXED_PICKLE:
        return self->pickle.data;
    case FIXED_BYTEORDER:
        return "little";
    case FIXED_VERSION:
        return "3\n";
    case FIXED_MANIFEST:
        return self->manifest.data;
    case FIXED_KEY:
    case FIXED_COUNT:
        break;
    }
    return self->source->key;
}

/* Such a member is in the archive: its name, size and CRC. */
static void name_fixed(struct torch_sink *self, enum fixed member, const char *name, size_t n_bytes)
{
    struct vc_zip_member *zip = &self->fixed[member];

    zip->name = name;
    zip->name_bytes = strlen(name);
    zip->method = VC_ZIP_METHOD_STORED;
    zip->size_bytes = n_bytes;
    zip->packed_bytes = n_bytes;
    zip->crc = self->sizes_only ? 0 : vc_crc32(0, fixed_data(self, member), n_bytes);
}

/* Makes the texts of these members: pickle, manifest, the --key that names are relative to. */
static enum vc_status make_fixed(struct vc_ctx *ctx, struct torch_sink *self)
{
    VC_CALL(vc_plain_name_outs(ctx, &self->arena, self->outs, self->out_names));
    VC_CALL(vc_torch_pickle_make(ctx, self->model, self->source, self->outs, self->out_names, &self->pickle, self->keys,
                                 &self->note));
    VC_CALL(vc_manifest_write_quantized(ctx, self->outs, NULL, self->out_names, &self->manifest));
    VC_CALL(self->manifest.status);
    name_fixed(self, FIXED_PICKLE, ROOT "data.pkl", self->pickle.n);
    name_fixed(self, FIXED_BYTEORDER, ROOT "byteorder", strlen("little"));
    name_fixed(self, FIXED_VERSION, ROOT "version", strlen("3\n"));
    if (self->manifest.n != 0) {
        name_fixed(self, FIXED_MANIFEST, ROOT TORCH_MANIFEST, self->manifest.n);
        if (self->source != NULL && self->source->key_given) { /* its names are those below that key */
            name_fixed(self, FIXED_KEY, ROOT TORCH_KEY, strlen(self->source->key));
        }
    }
    return VC_OK;
}

/* The member's place at *end, which moves behind it; false when the file would be larger than 2^63 bytes. A member
 * without a name is left out. */
static bool place(struct torch_sink *self, struct vc_zip_member *zip, uint64_t *end)
{
    if (zip->name == NULL) {
        return true;
    }
    if (!vc_zip_place(zip, *end, zip->size_bytes) || !vc_add_u64(zip->data_offset, zip->size_bytes, end) ||
        *end > INT64_MAX) {
        return false;
    }
    self->n_members++;
    self->directory_bytes += vc_zip_central_bytes(zip);
    return true;
}

/* The name of a storage's member, of NAME_BYTES; tells its length. */
static size_t name_storage(char *name, size_t key)
{
    char *end = stpcpy(name, ROOT "data/");

    end += vc_put_uint(end, key);
    *end = '\0';
    return (size_t)(end - name);
}

/* Places of all members, and of the directory. */
static enum vc_status place_all(struct vc_ctx *ctx, struct torch_sink *self)
{
    struct vc_zip_member passing = {.name = NULL};
    char passing_name[NAME_BYTES];
    uint64_t end = 0;
    bool fits = true;

    for (size_t i = 0; i < N_FRONT; i++) {
        fits = fits && place(self, &self->fixed[i], &end);
    }
    for (size_t i = 0; i < self->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(self->outs, i);
        struct vc_zip_member *zip = self->sizes_only ? &passing : &self->members[i].zip;
        char *name = self->sizes_only ? passing_name : self->names + i * NAME_BYTES;

        if (out.alias) {
            continue;
        }
        zip->name = name;
        zip->name_bytes = name_storage(name, self->keys[i]);
        zip->method = VC_ZIP_METHOD_STORED;
        zip->size_bytes = out.size_bytes;
        zip->packed_bytes = out.size_bytes;
        fits = fits && place(self, zip, &end);
        VC_REFUSE_IF(!fits, ctx, VC_E_UNSUPPORTED, "%s: the output would be larger than 2^63 bytes", out.name);
    }
    for (size_t i = N_FRONT; i < FIXED_COUNT; i++) {
        (void)place(self, &self->fixed[i], &end); /* some bytes */
    }
    self->directory_offset = end;
    self->file_bytes = end + self->directory_bytes + vc_zip_end_bytes(self->n_members, end, self->directory_bytes);
    return VC_OK;
}

/* vc_sink_ops.layout. */
static enum vc_status torch_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                   uint64_t *file_bytes)
{
    struct torch_sink *self = sink->self;

    self->outs = outs;
    vc_plain_note_outs(outs, &sink->loader);
    if (!self->sizes_only) {
        VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->members, outs->n));
        VC_CALL_ALLOC(self->names = vc_alloc_array(ctx, VC_TAG_NAMES, outs->n, NAME_BYTES));
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->keys, outs->n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->out_names, outs->n));
    VC_CALL(make_fixed(ctx, self));
    VC_CALL(place_all(ctx, self));
    sink->memory_bytes = (size_t)self->directory_bytes + VC_ZIP_END_MAX;
    sink->note = self->note.data;
    *file_bytes = self->file_bytes;
    return vc_outfile_need(ctx, self->file, self->file_bytes);
}

/* ---- writing ---- */

static enum vc_status torch_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct torch_sink *self = sink->self;

    return vc_outfile_begin(ctx, self->file);
}

/* vc_sink_ops.pack: what the piece contributes to the CRC of its storage. Runs on any thread. */
static enum vc_status torch_pack(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet)
{
    const struct torch_sink *self = sink->self;
    uint64_t n_after = vc_out_at(self->outs, packet->out).size_bytes - packet->offset - packet->n_bytes;

    packet->check = self->file == NULL ? 0 : vc_crc32_place(vc_crc32(0, packet->data, packet->n_bytes), n_after);
    return VC_OK;
}

/* vc_sink_ops.emit: the piece to its place. Runs on any thread. */
static enum vc_status torch_emit_packet(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct torch_sink *self = sink->self;
    struct torch_out *member = &self->members[packet->out];

    atomic_fetch_xor_explicit(&member->crc, (unsigned)packet->check, memory_order_relaxed);
    atomic_fetch_add_explicit(&member->got, packet->n_plain, memory_order_relaxed);
    return put(ctx, self, member->zip.data_offset + packet->offset, packet->data, packet->n_bytes);
}

/* The local header of a member, and the data of those that are ours. */
static enum vc_status write_head(struct vc_ctx *ctx, const struct torch_sink *self, const struct vc_zip_member *zip,
                                 const char *data)
{
    unsigned char local[VC_ZIP_LOCAL_MAX + NAME_BYTES];

    vc_zip_put_local(zip, local);
    VC_CALL(put(ctx, self, zip->local_offset, local, (size_t)(zip->data_offset - zip->local_offset)));
    return data == NULL ? VC_OK : put(ctx, self, zip->data_offset, data, (size_t)zip->size_bytes);
}

/* Local headers of all members, now that sizes and CRCs are known. */
static enum vc_status write_heads(struct vc_ctx *ctx, struct torch_sink *self)
{
    for (size_t i = 0; i < FIXED_COUNT; i++) {
        if (self->fixed[i].name != NULL) {
            VC_CALL(write_head(ctx, self, &self->fixed[i], fixed_data(self, (enum fixed)i)));
        }
    }
    for (size_t i = 0; i < self->outs->n; i++) {
        struct torch_out *member = &self->members[i];

        if (vc_out_at(self->outs, i).alias) {
            continue;
        }
        VC_REFUSE_IF(atomic_load(&member->got) != member->zip.size_bytes, ctx, VC_E_INTERNAL,
                     "%s: %" PRIu64 " of %" PRIu64 " bytes were written", vc_out_at(self->outs, i).name,
                     (uint64_t)atomic_load(&member->got), member->zip.size_bytes);
        member->zip.crc = atomic_load(&member->crc);
        VC_CALL(write_head(ctx, self, &member->zip, NULL));
    }
    return VC_OK;
}

/* Directory and end record, in one block. */
static enum vc_status write_directory(struct vc_ctx *ctx, const struct torch_sink *self)
{
    VC_SCOPED unsigned char *block = vc_alloc(ctx, VC_TAG_IO, (size_t)self->directory_bytes + VC_ZIP_END_MAX);
    size_t n = 0;

    VC_CALL_ALLOC(block);
    for (size_t i = 0; i < N_FRONT; i++) {
        n += vc_zip_put_central(&self->fixed[i], block + n);
    }
    for (size_t i = 0; i < self->outs->n; i++) {
        n += vc_out_at(self->outs, i).alias ? 0 : vc_zip_put_central(&self->members[i].zip, block + n);
    }
    for (size_t i = N_FRONT; i < FIXED_COUNT; i++) {
        n += self->fixed[i].name == NULL ? 0 : vc_zip_put_central(&self->fixed[i], block + n);
    }
    n += vc_zip_put_end(self->n_members, self->directory_offset, self->directory_bytes, block + n);
    return put(ctx, self, self->directory_offset, block, n);
}

/* vc_sink_ops.finish. */
static enum vc_status torch_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct torch_sink *self = sink->self;

    VC_CALL(write_heads(ctx, self));
    VC_CALL(write_directory(ctx, self));
    *file_bytes = self->file_bytes;
    return vc_outfile_sync(ctx, self->file);
}

/* ---- the sink ---- */

static enum vc_status torch_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct torch_sink *self = sink->self;

    return vc_outfile_commit(ctx, self->file);
}

static void torch_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct torch_sink *self = sink->self;

    vc_outfile_free(ctx, self->file);
    vc_text_release(&self->pickle);
    vc_text_release(&self->manifest);
    vc_text_release(&self->note);
    vc_free(ctx, self->members);
    vc_free(ctx, self->keys);
    vc_free(ctx, self->names);
    vc_free(ctx, self->out_names);
    vc_arena_release(ctx, &self->arena);
    vc_free(ctx, self);
    vc_free(ctx, sink);
}

/* vc_sink_ops.can_hold. Elements of no known meaning (VOID) can only be written as what the source called them. */
static bool torch_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    const struct torch_sink *self = sink->self;

    return vc_torch_dtype_of(dtype) != NULL || (dtype == VC_DTYPE_VOID && self->source != NULL);
}

static const struct vc_sink_ops torch_sink_ops = {.layout = torch_layout,
                                                  .begin = torch_begin,
                                                  .pack = torch_pack,
                                                  .emit = torch_emit_packet,
                                                  .finish = torch_finish,
                                                  .commit = torch_commit,
                                                  .free = torch_free,
                                                  .can_hold = torch_can_hold};

enum vc_status vc_torch_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_write_options *options, struct vc_sink **out)
{
    bool same = vc_format_writes(model, vc_torch_sink_create);
    struct torch_sink *self = NULL;
    struct vc_sink *sink = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_REFUSE_IF(options->deflate != VC_DEFLATE_NONE, ctx, VC_E_ARGUMENT,
                 "PyTorch files are written stored; leave %s out, or let the output's name end in .npz",
                 vc_option(ctx, "deflate"));
    if (same && ((const struct torch *)model->self)->script) {
        return vc_torch_script_sink_create(ctx, model, options, out);
    }
    VC_TRY_ALLOC(sink = vc_alloc(ctx, VC_TAG_IO, sizeof *sink));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, self, 1));
    self->model = model;
    self->source = same ? model->self : NULL;
    vc_text_init(&self->pickle, ctx);
    vc_text_init(&self->manifest, ctx);
    vc_text_init(&self->note, ctx);
    self->sizes_only = options->dry_run;
    self->pickle.counting = self->sizes_only;
    if (options->path != NULL && !options->dry_run) {
        VC_TRY(vc_outfile_open(ctx, options, model, &self->file));
    }
    *sink = (struct vc_sink){
        .ops = &torch_sink_ops, .self = self, .format = VC_FORMAT_TORCH, .dialect = &vc_dialect_plain, .aliases = true};
    *out = sink;
    return VC_OK;
out:
    vc_free(ctx, self);
    vc_free(ctx, sink);
    return status;
}
