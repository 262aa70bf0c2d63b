/* torch_archive.c - the members of a PyTorch archive that are no storages: version, byte order, the pickle.
 *
 *     <root>/data.pkl      the object: a pickle, read as a tree and never run
 *     <root>/byteorder     "little" or "big"; missing: little
 *     <root>/version       1 to 10
 *     <root>/data/<key>    one storage each
 *     <root>/.data/...     ours: the manifest of what was quantized */

#include "core/base/findings.h"
#include "formats/torch/torch.h"

/* Bytes that a deflated pickle may be larger than it is in the file: so many in all, and so many per byte. */
#define FREE_PICKLE ((uint64_t)8 << 20)
#define MAX_RATIO   ((uint64_t)16)

/* The entry is called root (n_root bytes) and name. */
static bool is_member(const struct vc_zip_entry *entry, const char *root, size_t n_root, const char *name)
{
    return entry->name_bytes == n_root + strlen(name) && memcmp(entry->name, root, n_root) == 0 &&
           strcmp(entry->name + n_root, name) == 0;
}

/* Bytes of the first member's first folder, with its '/'; 0: it is in none. */
size_t vc_torch_root_bytes(const struct vc_zip *zip)
{
    const char *slash = zip->n == 0 ? NULL : strchr(zip->entries[0].name, '/');

    return slash == NULL ? 0 : (size_t)(slash - zip->entries[0].name) + 1;
}

/* Used by vc_format.probe_zip: a data.pkl in the folder that the first member lies in. */
bool vc_torch_is_archive(const struct vc_zip *zip)
{
    size_t n = vc_torch_root_bytes(zip);

    for (size_t i = 0; n != 0 && i < zip->n; i++) {
        if (is_member(&zip->entries[i], zip->entries[0].name, n, TORCH_PICKLE)) {
            return true;
        }
    }
    return false;
}

/* The entry of that name below the root; NULL if there is none. */
static const struct vc_zip_entry *find_member(const struct torch *self, const char *name)
{
    for (size_t i = 0; i < self->zip.n; i++) {
        if (is_member(&self->zip.entries[i], self->zip.entries[0].name, self->root_bytes, name)) {
            return &self->zip.entries[i];
        }
    }
    return NULL;
}

/* A wrong CRC is a note and no failure, since PyTorch can be told to write none. */
static enum vc_status note_checksum(struct vc_ctx *ctx, struct torch *self, const char *name)
{
    static const char sentence[] = "does not match its checksum";

    if (vc_collecting(ctx)) {
        return vc_findings_has(ctx->findings, name) ? VC_OK
                                                    : vc_find(ctx, VC_SEVERITY_WARNING, "checksum", name,
                                                              "%s; PyTorch can be told to write none", sentence);
    }
    vc_text_add(&self->note, "%s%s %s", self->note.n == 0 ? "" : "; ", name, sentence);
    return self->note.status;
}

/* For members that are small, and looked at as a whole. NUL-terminated, so that texts among them can be compared. */
enum vc_status vc_torch_read_member(struct vc_ctx *ctx, struct torch *self, const char *name, size_t most,
                                    unsigned char **out, size_t *n)
{
    const struct vc_zip_entry *entry = find_member(self, name);
    bool wrong = false;
    enum vc_status status = VC_OK;

    *out = NULL;
    *n = 0;
    if (entry == NULL) {
        return VC_OK;
    }
    if (entry->broken) {
        VC_TRY(vc_fail(ctx, VC_E_FORMAT, "is damaged, so nothing can be said of the rest"));
    }
    if (entry->size_bytes > most) {
        VC_TRY(vc_fail(ctx, VC_E_UNSUPPORTED, "%" PRIu64 " bytes; %zu are allowed", entry->size_bytes, most));
    }
    VC_TRY_ALLOC(*out = vc_alloc(ctx, VC_TAG_NAMES, (size_t)entry->size_bytes + 1));
    *n = (size_t)entry->size_bytes;
    (*out)[*n] = '\0';
    VC_TRY(vc_zip_read_member(ctx, self->file, entry, *out, &wrong));
    if (wrong) {
        VC_TRY(note_checksum(ctx, self, name));
    }
out:
    if (status != VC_OK) {
        vc_free(ctx, vc_give(out));
        return vc_context(ctx, "member '%s'", entry->name);
    }
    return status;
}

/* Versions 1 to 10 have the layout that is read here. */
static enum vc_status check_version(struct vc_ctx *ctx, struct torch *self)
{
    VC_SCOPED unsigned char *text = NULL;
    size_t n = 0;

    VC_CALL(vc_torch_read_member(ctx, self, "version", TORCH_MAX_SMALL, &text, &n));
    if (text != NULL) {
        char *end = NULL;
        unsigned long version = text[0] >= '0' && text[0] <= '9' ? strtoul((char *)text, &end, 10) : 0;

        VC_REFUSE_IF(version < 1 || version > 10 || (*end != '\0' && strcmp(end, "\n") != 0), ctx, VC_E_UNSUPPORTED,
                     "version '%.20s' of PyTorch's archives is not known (1 to 10 are)", (char *)text);
    }
    return VC_OK;
}

/* "little" or "big", without a newline. */
static enum vc_status read_byte_order(struct vc_ctx *ctx, struct torch *self)
{
    VC_SCOPED unsigned char *text = NULL;
    size_t n = 0;

    VC_CALL(vc_torch_read_member(ctx, self, "byteorder", TORCH_MAX_SMALL, &text, &n));
    if (text != NULL && strcmp((char *)text, "little") != 0) {
        self->big_endian = strcmp((char *)text, "big") == 0;
        VC_REFUSE_IF(!self->big_endian, ctx, VC_E_FORMAT, "byte order '%.20s', expected little or big", (char *)text);
    }
    return VC_OK;
}

/* The walk over the members checks their headers; nothing else is wanted of it. */
static enum vc_status visit_nothing(struct vc_ctx *ctx, void *user, size_t entry, const unsigned char *head, size_t n)
{
    return VC_OK;
}

/* Pickles of checkpoints deflate to a fourth, or a sixth. A small file must not become a large one. */
static enum vc_status check_pickle_ratio(struct vc_ctx *ctx, const struct torch *self)
{
    const struct vc_zip_entry *entry = find_member(self, TORCH_PICKLE);
    uint64_t packed = entry == NULL ? 0 : vc_min_u64(entry->packed_bytes, VC_PICKLE_MAX_BYTES);

    VC_REFUSE_IF(entry != NULL && entry->size_bytes > FREE_PICKLE + MAX_RATIO * packed, ctx, VC_E_UNSUPPORTED,
                 "member '%s': %" PRIu64 " bytes deflated to %" PRIu64 ", which no checkpoint's values do", entry->name,
                 entry->size_bytes, entry->packed_bytes);
    return VC_OK;
}

/* torch.load() takes apart every persistent id, and raises where it is no ('storage', class, key, location, size). */
static enum vc_status check_persistent_ids(struct vc_ctx *ctx, const struct torch *self)
{
    for (const struct vc_pickle_node *node = self->pickle.persids; node != NULL; node = node->u.persid.before) {
        const struct vc_pickle_node *id = node->u.persid.id;

        VC_REFUSE_IF(id->kind != VC_PICKLE_TUPLE || id->n_items != 5 ||
                         !vc_pickle_is_string(vc_pickle_item(id, 0), "storage"),
                     ctx, VC_E_FORMAT,
                     TORCH_PICKLE " of a PyTorch archive: a persistent id that is no ('storage', class, key, "
                                  "location, size)");
    }
    return VC_OK;
}

/* Reads and parses data.pkl, which has to end where the pickle does. */
static enum vc_status read_pickle(struct vc_ctx *ctx, struct torch *self)
{
    size_t n = 0;

    VC_CALL(check_pickle_ratio(ctx, self));
    VC_CALL(vc_torch_read_member(ctx, self, TORCH_PICKLE, VC_PICKLE_MAX_BYTES, &self->text, &n));
    if (vc_pickle_parse(ctx, self->text, n, &self->pickle, NULL) != VC_OK) {
        return vc_context(ctx, TORCH_PICKLE " of a PyTorch archive");
    }
    VC_REFUSE_IF(self->pickle.n_bytes != n, ctx, VC_E_FORMAT,
                 TORCH_PICKLE " of a PyTorch archive: %zu bytes after its end", n - self->pickle.n_bytes);
    return check_persistent_ids(ctx, self);
}

/* With findings, a pickle that is damaged leaves a model without tensors, whose storages can still be checked. */
enum vc_status vc_torch_archive_read(struct vc_ctx *ctx, struct torch *self)
{
    VC_CALL(vc_zip_visit(ctx, self->file, &self->zip, visit_nothing, NULL));
    VC_CALL(vc_collect(ctx, check_version(ctx, self), "member", "version"));
    VC_CALL(vc_collect(ctx, read_byte_order(ctx, self), "member", "byteorder"));
    enum vc_status status = read_pickle(ctx, self);
    self->blind = status != VC_OK;
    VC_CALL(vc_collect(ctx, status, "header", TORCH_PICKLE));
    self->script = find_member(self, "constants.pkl") != NULL;
    if (self->script) {
        vc_text_add(&self->note, "%sa TorchScript archive: its weights are read, its code is not",
                    self->note.n == 0 ? "" : "; ");
        VC_CALL(self->note.status);
    }
    return VC_OK;
}

/* ---- verify ---- */

/* With findings: the data of a member can be inflated, and its CRC is right. */
static enum vc_status check_member(struct vc_ctx *ctx, struct torch *self, const struct vc_zip_entry *entry)
{
    const char *name = entry->name + vc_min_u64(self->root_bytes, entry->name_bytes);
    bool wrong = false;

    VC_CALL(vc_collect(ctx, vc_zip_check_member(ctx, self->file, entry, &wrong), "data", name));
    return wrong ? note_checksum(ctx, self, name) : VC_OK;
}

/* Only for verify, after the tensors were read: every member that is no storage of one. */
enum vc_status vc_torch_check_rest(struct vc_ctx *ctx, const struct vc_model *model)
{
    struct torch *self = model->self;
    VC_SCOPED bool *checked = vc_calloc_array(ctx, VC_TAG_IO, self->zip.n, sizeof *checked);

    VC_CALL_ALLOC(checked);
    for (size_t i = 0; i < self->n_storages; i++) {
        if (self->storages[i].entry != NULL) {
            checked[self->storages[i].entry - self->zip.entries] = true;
        }
    }
    for (size_t i = 0; i < self->zip.n; i++) {
        if (!checked[i] && !self->zip.entries[i].broken) { /* those that were read at once, too: they are small */
            VC_CALL(check_member(ctx, self, &self->zip.entries[i]));
        }
    }
    return VC_OK;
}
