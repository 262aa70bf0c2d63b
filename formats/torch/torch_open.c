/* torch_open.c - opens a PyTorch file as a model: an archive that formats.c has opened (torch_archive.c), or a legacy
 * file (torch_legacy.c). From the pickle on they are the same:
 *
 *     pickle -> torch_tree.c: names, roles, parts -> torch_storage.c: where the bytes are -> torch_list.c: the tensors
 *
 * Values are read by torch_data.c. */

#include "core/base/findings.h"
#include "formats/dialects/dialects.h"
#include "formats/dialects/manifest/manifest.h"
#include "formats/torch/torch.h"

/* What of it is quantized: our manifest where it speaks of the dict that was chosen, else the names tell. wanted: the
 * --key of the user; key: the one that the manifest is about (NULL: the dict that is found without). */
static enum vc_status find_quantized(struct vc_ctx *ctx, struct torch *self, struct vc_model *model, const char *wanted,
                                     const char *key)
{
    VC_SCOPED unsigned char *manifest = NULL;
    enum vc_status status = VC_OK;
    size_t n = 0;
    bool same = wanted == NULL || (key != NULL && strcmp(wanted, key) == 0);

    if (!self->legacy && same) {
        VC_CALL(vc_torch_read_member(ctx, self, TORCH_MANIFEST, VC_MANIFEST_MAX_BYTES, &manifest, &n));
    }
    if (manifest == NULL) {
        status = vc_manifest_infer(ctx, model, true);
    } else if (vc_manifest_apply(ctx, (char *)manifest, n, model) != VC_OK) {
        status = vc_collect(ctx, vc_context(ctx, "member '%s'", TORCH_MANIFEST), "manifest", NULL);
    }
    VC_CALL(status);
    return vc_plain_name_weights(ctx, model);
}

/* ---- open, close ---- */

/* vc_source_ops.close. */
static void torch_close(struct vc_model *model)
{
    struct vc_ctx *ctx = model->ctx;
    struct torch *self = model->self;

    vc_spool_release(&self->spool);
    vc_infile_close(ctx, self->file);
    vc_zip_close(ctx, &self->zip);
    vc_pickle_release(ctx, &self->pickle);
    vc_text_release(&self->note);
    vc_arena_release(ctx, &self->keep.arena);
    VC_FREE_ALL(ctx, self->text, self->found, self->storages, self->parts, self->refused, self, model->tensors,
                model->io);
}

/* vc_source_ops.late_note: storages whose CRC turned out to be wrong while they were read. */
static void torch_late_note(const struct vc_model *model, char *buffer, size_t n)
{
    struct torch *self = model->self;
    unsigned n_bad = atomic_load(&self->n_bad);

    buffer[0] = '\0';
    if (n_bad != 0) {
        snprintf(buffer, n, "%u storage%s not match %s checksum; PyTorch can be told to write none", n_bad,
                 n_bad == 1 ? " does" : "s do", n_bad == 1 ? "its" : "their");
    }
}

static const struct vc_source_ops torch_ops = {.read = vc_torch_read,
                                               .stream_bytes = vc_torch_stream_bytes,
                                               .close = torch_close,
                                               .late_note = torch_late_note,
                                               .check_rest = vc_torch_check_rest};

/* Makes the reader's state. Takes over file and zip (NULL: a legacy file), also when it fails. */
static enum vc_status begin(struct vc_ctx *ctx, struct vc_infile *file, struct vc_zip *zip, struct vc_model *model)
{
    struct torch *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);

    if (self == NULL) {
        vc_infile_close(ctx, file);
        if (zip != NULL) {
            vc_zip_close(ctx, zip);
        }
        return VC_E_NOMEM;
    }
    self->ctx = ctx;
    self->file = file;
    self->legacy = zip == NULL;
    if (zip != NULL) {
        self->zip = *zip;
        self->root_bytes = vc_torch_root_bytes(zip);
        memset(zip, 0, sizeof *zip);
    }
    vc_spool_init(&self->spool);
    vc_text_init(&self->note, ctx);
    model->self = self;
    model->ops = &torch_ops; /* from here on vc_model_close frees everything */
    return VC_OK;
}

static const char *container(const struct torch *self)
{
    if (self->legacy) {
        return "legacy file (before PyTorch 1.6)";
    }
    return self->script ? "TorchScript archive" : "zip archive";
}

/* From the pickle to the tensors. keys: of a legacy file, whose storages begin at `data`; NULL for an archive. */
static enum vc_status finish(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model *model,
                             const struct vc_pickle_node *keys, uint64_t data)
{
    struct torch *self = model->self;
    const char *wanted = options->key;
    VC_SCOPED unsigned char *key = NULL; /* of our own output: the choice, unless the user has another one */
    size_t n_key = 0;

    if (!self->legacy) {
        VC_CALL(vc_torch_read_member(ctx, self, TORCH_KEY, TORCH_MAX_SMALL, &key, &n_key));
    }
    VC_CALL(vc_torch_tree_make(ctx, self, wanted != NULL ? wanted : (const char *)key));
    VC_CALL(vc_torch_storages_make(ctx, self, keys, data));
    VC_CALL(vc_torch_split_refused(ctx, self));
    VC_CALL(vc_torch_list_tensors(ctx, self, model));
    VC_CALL(find_quantized(ctx, self, model, wanted, (const char *)key));
    VC_CALL(vc_model_add_fact(ctx, model, "container", "%s, %s-endian, pickle protocol %u, not run", container(self),
                              self->big_endian ? "big" : "little", self->pickle.protocol));
    if (self->note.n != 0) {
        VC_CALL(vc_model_add_fact(ctx, model, VC_FACT_NOTE, "%s", self->note.data));
    }
    return VC_OK;
}

/* vc_format.open_zip. */
static enum vc_status torch_open_zip(struct vc_ctx *ctx, struct vc_infile *file, struct vc_zip *zip,
                                     const struct vc_open_options *options, struct vc_model *model)
{
    VC_CALL(begin(ctx, file, zip, model));
    VC_CALL(vc_torch_archive_read(ctx, model->self));
    return ((const struct torch *)model->self)->blind ? VC_OK : finish(ctx, options, model, NULL, 0);
}

/* vc_format.open: what torch_probe knows is a legacy file. */
static enum vc_status torch_open_legacy(struct vc_ctx *ctx, struct vc_infile *file,
                                        const struct vc_open_options *options, struct vc_model *model)
{
    struct vc_pickle keys;
    uint64_t data = 0;
    enum vc_status status;

    memset(&keys, 0, sizeof keys);
    VC_TRY(begin(ctx, file, NULL, model));
    VC_TRY(vc_torch_legacy_read(ctx, model->self, &keys, &data));
    VC_TRY(finish(ctx, options, model, keys.root, data));
out:
    vc_pickle_release(ctx, &keys);
    return status;
}

/* vc_format.probe_zip. */
static int torch_probe_zip(const struct vc_zip *zip)
{
    return vc_torch_is_archive(zip) ? 90 : 0;
}

/* vc_format.probe: the long integer that a legacy file begins with; from protocol 4 on it is in a frame of 13 bytes.
 *
 *     80 02 8a 0a 6c fc 9c 46 f9 20 6a a8 50 19 2e */
static int torch_probe(const unsigned char *head, size_t n, uint64_t file_bytes)
{
    static const unsigned char frame[] = {0x95, 13, 0, 0, 0, 0, 0, 0, 0};
    static const unsigned char magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20};
    size_t at = 2;

    if (n < at + sizeof frame + sizeof magic || head[0] != 0x80 || head[1] < 2 || head[1] > 5) {
        return 0;
    }
    at += memcmp(head + at, frame, sizeof frame) == 0 ? sizeof frame : 0;
    return memcmp(head + at, magic, sizeof magic) == 0 ? 95 : 0;
}

const struct vc_format vc_format_torch = {.name = VC_FORMAT_TORCH,
                                          .title = "PyTorch",
                                          .extensions = (const char *const[]){".pt", ".pth", ".bin", NULL},
                                          .probe = torch_probe,
                                          .probe_zip = torch_probe_zip,
                                          .open = torch_open_legacy,
                                          .open_zip = torch_open_zip,
                                          .create_sink = vc_torch_sink_create,
                                          .dialect = &vc_dialect_plain};
