/* torch_write.c - PyTorch output: a zip archive as torch.save() makes them, stored, storages aligned to 64 bytes.
 *
 *     archive/data.pkl | archive/byteorder | archive/data/0 ... | archive/version | archive/.data/vcompress.json
 *
 * All sizes are known before the first weight is read, so a tile goes straight to its place from any thread; checksums
 * are put together from those of the pieces. There is no .format_version: it would promise that storages lie where
 * PyTorch's own writer puts them, which some loaders compute instead of looking. */

#include "formats/dialects/dialects.h"
#include "formats/dialects/manifest/manifest.h"
#include "formats/torch/torch.h"
#include "formats/zip/zip_sink.h"

#define ROOT       "archive/"
#define NAME_BYTES ((size_t)40) /* "archive/data/18446744073709551615" */

/* Members that are not storages; the first N_FRONT lie before the storages, the others behind. */
enum fixed { FIXED_PICKLE, FIXED_BYTEORDER, FIXED_VERSION, FIXED_MANIFEST, FIXED_KEY, FIXED_COUNT };

#define N_FRONT 2

/* Such a member. */
struct torch_fixed {
    const char *name; /* NULL: not there */
    const char *data;
    size_t n_bytes;
};

/* `self` of the sink. */
struct torch_sink {
    struct vc_zip_archive archive; /* storages are by output; aliases have none */
    const struct vc_model *model;
    const struct torch *source; /* NULL: the model is of another format */
    bool sizes_only;            /* nothing will be written: texts are counted, and members and their names not kept */
    const struct vc_out_list *outs;
    size_t *keys; /* by output: number of its storage */
    char *names;  /* of the members */
    struct vc_arena arena;
    const char **out_names; /* by output: what it is called in the dict */
    struct vc_text pickle, manifest, note;
    struct torch_fixed fixed[FIXED_COUNT];
};

/* ---- layout ---- */

/* Makes the texts of these members: pickle, manifest, the --key that names are relative to. */
static enum vc_status make_fixed(struct vc_ctx *ctx, struct torch_sink *self)
{
    VC_CALL(vc_plain_name_outs(ctx, &self->arena, self->outs, self->out_names));
    VC_CALL(vc_torch_pickle_make(ctx, self->model, self->source, self->outs, self->out_names, &self->pickle, self->keys,
                                 &self->note));
    VC_CALL(vc_manifest_write_quantized(ctx, self->outs, NULL, self->out_names, &self->manifest));
    VC_CALL(self->manifest.status);
    self->fixed[FIXED_PICKLE] = (struct torch_fixed){ROOT "data.pkl", self->pickle.data, self->pickle.n};
    self->fixed[FIXED_BYTEORDER] = (struct torch_fixed){ROOT "byteorder", "little", strlen("little")};
    self->fixed[FIXED_VERSION] = (struct torch_fixed){ROOT "version", "3\n", strlen("3\n")};
    if (self->manifest.n != 0) {
        self->fixed[FIXED_MANIFEST] = (struct torch_fixed){ROOT TORCH_MANIFEST, self->manifest.data, self->manifest.n};
        if (self->source != NULL && self->source->key_given) { /* its names are those below that key */
            self->fixed[FIXED_KEY] = (struct torch_fixed){ROOT TORCH_KEY, self->source->key, strlen(self->source->key)};
        }
    }
    return VC_OK;
}

/* The member at that place of the archive, where it is no storage; else NULL. */
static const struct torch_fixed *fixed_at(const struct torch_sink *self, size_t at)
{
    return at < N_FRONT ? &self->fixed[at] : at < N_FRONT + self->outs->n ? NULL : &self->fixed[at - self->outs->n];
}

/* The name of a storage's member, of NAME_BYTES; tells its length. */
static size_t name_storage(char *name, size_t key)
{
    char *end = stpcpy(name, ROOT "data/");

    end += vc_put_uint(end, key);
    *end = '\0';
    return (size_t)(end - name);
}

/* Places of all members. */
static enum vc_status place_all(struct vc_ctx *ctx, struct torch_sink *self)
{
    struct vc_zip_member passing = {.name = NULL};
    char passing_name[NAME_BYTES];

    for (size_t at = 0; at < FIXED_COUNT + self->outs->n; at++) {
        const struct torch_fixed *fixed = fixed_at(self, at);
        const struct vc_out_tensor out =
            fixed == NULL ? vc_out_at(self->outs, at - N_FRONT) : (struct vc_out_tensor){0};
        struct vc_zip_member *zip = self->sizes_only ? &passing : &self->archive.members[at].zip;

        if (fixed == NULL ? out.alias : fixed->name == NULL) {
            continue;
        }
        if (fixed != NULL) {
            zip->name = fixed->name;
            zip->name_bytes = strlen(fixed->name);
        } else {
            char *name = self->sizes_only ? passing_name : self->names + (at - N_FRONT) * NAME_BYTES;

            zip->name = name;
            zip->name_bytes = name_storage(name, self->keys[at - N_FRONT]);
        }
        zip->method = VC_ZIP_METHOD_STORED;
        zip->size_bytes = fixed != NULL ? fixed->n_bytes : out.size_bytes;
        zip->packed_bytes = zip->size_bytes;
        VC_REFUSE_IF(!vc_zip_lay(&self->archive, zip), ctx, VC_E_UNSUPPORTED,
                     "%s: the output would be larger than 2^63 bytes", fixed != NULL ? fixed->name : out.name);
    }
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
        self->archive.n = FIXED_COUNT + outs->n;
        self->archive.first = N_FRONT;
        VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->archive.members, self->archive.n));
        VC_CALL_ALLOC(self->names = vc_alloc_array(ctx, VC_TAG_NAMES, outs->n, NAME_BYTES));
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->keys, outs->n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->out_names, outs->n));
    VC_CALL(make_fixed(ctx, self));
    VC_CALL(place_all(ctx, self));
    sink->memory_bytes = VC_ZIP_DIRECTORY_BUFFER;
    sink->note = self->note.data;
    *file_bytes = vc_zip_archive_bytes(&self->archive);
    return vc_outfile_need(ctx, self->archive.file, *file_bytes);
}

/* ---- writing ---- */

/* vc_sink_ops.finish: local headers, now that CRCs are known, the data of members that are no storages, the directory. */
static enum vc_status torch_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct torch_sink *self = sink->self;

    for (size_t at = 0; at < self->archive.n; at++) {
        struct vc_zip_out *member = &self->archive.members[at];
        const struct torch_fixed *fixed = fixed_at(self, at);

        if (member->zip.name == NULL) {
            continue;
        }
        if (fixed != NULL) {
            VC_CALL(vc_zip_put_whole(ctx, &self->archive, &member->zip, fixed->data));
        } else {
            VC_CALL(vc_zip_check_pieces(ctx, member, NULL, vc_out_at(self->outs, at - N_FRONT).name));
            VC_CALL(vc_zip_put_head(ctx, &self->archive, &member->zip, NULL, 0));
        }
    }
    return vc_zip_put_directory(ctx, &self->archive, self->archive.end, file_bytes);
}

/* ---- the sink ---- */

static void torch_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct torch_sink *self = sink->self;

    vc_text_release(&self->pickle);
    vc_text_release(&self->manifest);
    vc_text_release(&self->note);
    VC_FREE_ALL(ctx, self->archive.members, self->keys, self->names, self->out_names);
    vc_arena_release(ctx, &self->arena);
    vc_file_sink_free(ctx, sink);
}

/* vc_sink_ops.can_hold. Elements of no known meaning (VOID) can only be written as what the source called them. */
static bool torch_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    const struct torch_sink *self = sink->self;

    return vc_torch_dtype_of(dtype) != NULL || (dtype == VC_DTYPE_VOID && self->source != NULL);
}

static const struct vc_sink_ops torch_sink_ops = {.layout = torch_layout,
                                                  .begin = vc_file_sink_begin,
                                                  .pack = vc_zip_sink_pack,
                                                  .emit = vc_zip_sink_emit,
                                                  .finish = torch_finish,
                                                  .commit = vc_file_sink_commit,
                                                  .free = torch_free,
                                                  .can_hold = torch_can_hold};

enum vc_status vc_torch_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                    const struct vc_write_options *options, struct vc_sink **out)
{
    const struct vc_sink sink = {
        .ops = &torch_sink_ops, .format = VC_FORMAT_TORCH, .dialect = &vc_dialect_plain, .aliases = true};
    bool same = vc_format_writes(model, vc_torch_sink_create);

    *out = NULL;
    VC_REFUSE_IF(options->deflate != VC_DEFLATE_NONE, ctx, VC_E_ARGUMENT,
                 "PyTorch files are written stored; leave %s out, or let the output's name end in .npz",
                 vc_option(ctx, "deflate"));
    if (same && ((const struct torch *)model->self)->script) {
        return vc_torch_script_sink_create(ctx, model, options, out);
    }
    VC_CALL(vc_file_sink_new(ctx, model, options, &sink, sizeof(struct torch_sink), out));
    struct torch_sink *self = (*out)->self;
    self->model = model;
    self->source = same ? model->self : NULL;
    vc_text_init(&self->pickle, ctx);
    vc_text_init(&self->manifest, ctx);
    vc_text_init(&self->note, ctx);
    self->sizes_only = options->dry_run;
    self->pickle.counting = self->sizes_only;
    return VC_OK;
}
