/* torch_open.c - opens a PyTorch file as a model: an archive, handed over by the zip reader, or a legacy file.
 *
 *     <root>/data.pkl      the object: a pickle, read as a tree and never run
 *     <root>/byteorder     "little" or "big"; missing: little
 *     <root>/version       1 to 10
 *     <root>/data/<key>    one storage each
 *     <root>/.data/...     ours: the manifest of what was quantized
 *
 * Values are read by torch_data.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/findings.h"
#include "formats/formats.h"
#include "formats/manifest.h"
#include "formats/torch.h"

#define MAX_SMALL ((size_t)4096) /* bytes of version, byteorder and the like */

/* ---- members of an archive ---- */

static bool is_member(const struct vc_zip_entry *entry, const char *root, size_t n_root, const char *name)
{
    return entry->name_bytes == n_root + strlen(name) && memcmp(entry->name, root, n_root) == 0 &&
           strcmp(entry->name + n_root, name) == 0;
}

/* Bytes of the first member's first folder, with its '/'; 0: it is in none. */
static size_t root_of(const struct vc_zip *zip)
{
    const char *slash = zip->n == 0 ? NULL : strchr(zip->entries[0].name, '/');

    return slash == NULL ? 0 : (size_t)(slash - zip->entries[0].name) + 1;
}

bool vc_torch_is_archive(const struct vc_zip *zip)
{
    size_t n = root_of(zip);
    size_t i;

    for (i = 0; n != 0 && i < zip->n; i++) {
        if (is_member(&zip->entries[i], zip->entries[0].name, n, TORCH_PICKLE)) {
            return true;
        }
    }
    return false;
}

static const struct vc_zip_entry *find_member(const struct torch *self, const char *name)
{
    size_t i;

    for (i = 0; i < self->zip.n; i++) {
        if (is_member(&self->zip.entries[i], self->zip.entries[0].name, self->root_bytes, name)) {
            return &self->zip.entries[i];
        }
    }
    return NULL;
}

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

/* The whole member, NUL-terminated, freed by the caller; *out stays NULL where there is none. */
static enum vc_status read_member(struct vc_ctx *ctx, struct torch *self, const char *name, size_t most,
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
    *out = vc_alloc(ctx, VC_TAG_NAMES, (size_t)entry->size_bytes + 1);
    VC_TRY_ALLOC(*out);
    *n = (size_t)entry->size_bytes;
    (*out)[*n] = '\0';
    VC_TRY(vc_zip_read_member(ctx, self->file, entry, *out, &wrong));
    VC_TRY(wrong ? note_checksum(ctx, self, name) : VC_OK);
out:
    if (status != VC_OK) {
        vc_free(ctx, *out);
        *out = NULL;
        return vc_context(ctx, "member '%s'", entry->name);
    }
    return status;
}

static enum vc_status check_version(struct vc_ctx *ctx, struct torch *self)
{
    unsigned char *text = NULL;
    size_t n = 0;
    enum vc_status status;

    VC_TRY(read_member(ctx, self, "version", MAX_SMALL, &text, &n));
    if (text != NULL) {
        char *end = NULL;
        unsigned long version = text[0] >= '0' && text[0] <= '9' ? strtoul((char *)text, &end, 10) : 0;

        if (version < 1 || version > 10 || (*end != '\0' && strcmp(end, "\n") != 0)) {
            status = vc_fail(ctx, VC_E_UNSUPPORTED, "version '%.20s' of PyTorch's archives is not known (1 to 10 are)",
                             (char *)text);
        }
    }
out:
    vc_free(ctx, text);
    return status;
}

static enum vc_status read_byte_order(struct vc_ctx *ctx, struct torch *self)
{
    unsigned char *text = NULL;
    size_t n = 0;
    enum vc_status status;

    VC_TRY(read_member(ctx, self, "byteorder", MAX_SMALL, &text, &n));
    if (text != NULL && strcmp((char *)text, "little") != 0) {
        self->big_endian = strcmp((char *)text, "big") == 0;
        if (!self->big_endian) {
            status = vc_fail(ctx, VC_E_FORMAT, "byte order '%.20s', expected little or big", (char *)text);
        }
    }
out:
    vc_free(ctx, text);
    return status;
}

static enum vc_status visit_nothing(struct vc_ctx *ctx, void *user, size_t entry, const unsigned char *head, size_t n)
{
    (void)ctx;
    (void)user;
    (void)entry;
    (void)head;
    (void)n;
    return VC_OK;
}

static enum vc_status read_pickle(struct vc_ctx *ctx, struct torch *self)
{
    size_t n = 0;
    enum vc_status status;

    VC_TRY(read_member(ctx, self, TORCH_PICKLE, VC_PICKLE_MAX_BYTES, &self->text, &n));
    if (vc_pickle_parse(ctx, self->text, n, &self->pickle, NULL) != VC_OK) {
        return vc_context(ctx, TORCH_PICKLE " of a PyTorch archive");
    }
    if (self->pickle.n_bytes != n) {
        VC_TRY(vc_fail(ctx, VC_E_FORMAT, TORCH_PICKLE " of a PyTorch archive: %zu bytes after its end",
                       n - self->pickle.n_bytes));
    }
out:
    return status;
}

static enum vc_status read_archive(struct vc_ctx *ctx, struct torch *self)
{
    enum vc_status status;

    VC_TRY(vc_zip_visit(ctx, self->file, &self->zip, visit_nothing, NULL));
    VC_TRY(vc_collect(ctx, check_version(ctx, self), "member", "version"));
    VC_TRY(vc_collect(ctx, read_byte_order(ctx, self), "member", "byteorder"));
    status = read_pickle(ctx, self);
    self->blind = status != VC_OK;
    VC_TRY(vc_collect(ctx, status, "header", TORCH_PICKLE));
    self->script = find_member(self, "constants.pkl") != NULL;
    if (self->script) {
        vc_text_add(&self->note, "%sa TorchScript archive: its weights are read, its code is not",
                    self->note.n == 0 ? "" : "; ");
        VC_TRY(self->note.status);
    }
out:
    return status;
}

/* ---- tensors ---- */

#define MAX_NAMED 20

/* "2 tensors cannot be read: a, b (is a sparse tensor; to_dense() it first)" */
static void note_refused(struct torch *self)
{
    size_t n = self->n_refused;
    size_t i;

    vc_text_add(&self->note, "%s%zu tensor%s cannot be read: ", self->note.n == 0 ? "" : "; ", n, n == 1 ? "" : "s");
    for (i = 0; i < n && i < MAX_NAMED; i++) {
        const struct vc_refused *r = &self->refused[i];
        bool same = i + 1 < n && i + 1 < MAX_NAMED && strcmp(r->why, r[1].why) == 0; /* one reason for all of a run */

        vc_text_add(&self->note, "%s%s", i == 0 ? "" : ", ", r->name);
        if (!same) {
            vc_text_add(&self->note, " (%s)", r->why);
        }
    }
    if (n > MAX_NAMED) {
        vc_text_add(&self->note, " and %zu more, which verify lists", n - MAX_NAMED);
    }
}

/* What is refused leaves the list. */
static enum vc_status split_refused(struct vc_ctx *ctx, struct torch *self)
{
    size_t n = 0;
    size_t i;
    enum vc_status status = VC_OK;

    self->refused = vc_alloc_array(ctx, VC_TAG_NAMES, self->n_found, sizeof *self->refused);
    VC_TRY_ALLOC(self->refused);
    for (i = 0; i < self->n_found; i++) {
        const struct torch_found *found = &self->found[i];

        if (found->refusal != NULL) {
            self->refused[self->n_refused++] =
                (struct vc_refused){.name = found->name, .role = found->role, .why = found->refusal};
        } else {
            memmove(&self->found[n++], found, sizeof *found);
        }
    }
    self->n_found = n;
    if (n == 0 && self->n_refused != 0) {
        status = vc_fail(ctx, VC_E_UNSUPPORTED, "%s: %s", self->refused[0].name, self->refused[0].why);
        return vc_collect(ctx, status, "refused", self->refused[0].name);
    }
    if (n == 0 && (!vc_collecting(ctx) || ctx->findings->n_errors == 0)) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "is a PyTorch file%s without any tensor",
                       self->legacy ? " of the legacy format (before 1.6)" : "");
    }
    if (self->n_refused != 0 && !vc_collecting(ctx)) { /* findings have each of them */
        note_refused(self);
        status = self->note.status;
    }
out:
    return status;
}

static void fill_tensor(struct torch *self, struct torch_found *found, struct vc_tensor *tensor)
{
    const struct torch_tensor *t = &found->tensor;
    struct torch_storage *s = &self->storages[t->storage];

    *tensor = (struct vc_tensor){.name = found->name,
                                 .dtype = t->dtype->dtype,
                                 .n_dims = t->n_dims,
                                 .shape = t->shape,
                                 .n_elems = t->n_elems,
                                 .size_bytes = t->n_elems * t->dtype->item_bytes,
                                 .file_bytes = s->file_bytes,
                                 .compressed = s->entry != NULL && s->entry->method != VC_ZIP_STORED,
                                 .companion_of = VC_NO_TENSOR,
                                 .alias_of = VC_NO_TENSOR,
                                 .role = found->role};
    s->file_bytes = 0; /* the others of this storage cost nothing more */
}

struct place {
    const struct torch_tensor *tensor;
    size_t index;
};

/* By what they are, not by their number: 0 for aliases. */
static int compare_places(const struct torch_tensor *a, const struct torch_tensor *b)
{
    unsigned d;

    if (a->storage != b->storage) {
        return a->storage < b->storage ? -1 : 1;
    }
    if (a->offset != b->offset) {
        return a->offset < b->offset ? -1 : 1;
    }
    if (a->dtype != b->dtype) {
        return a->dtype < b->dtype ? -1 : 1;
    }
    if (a->n_dims != b->n_dims) {
        return a->n_dims < b->n_dims ? -1 : 1;
    }
    for (d = 0; d < a->n_dims; d++) {
        if (a->shape[d] != b->shape[d]) {
            return a->shape[d] < b->shape[d] ? -1 : 1;
        }
        if (a->shape[d] > 1 && a->strides[d] != b->strides[d]) {
            return a->strides[d] < b->strides[d] ? -1 : 1;
        }
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int order = compare_places(x->tensor, y->tensor);

    return order != 0 ? order : x->index < y->index ? -1 : 1;
}

static enum vc_status find_aliases(struct vc_ctx *ctx, const struct torch *self, struct vc_model *model)
{
    struct place *places = vc_alloc_array(ctx, VC_TAG_NAMES, self->n_found, sizeof *places);
    size_t first = 0; /* of those that are the same */
    size_t i;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(places);
    for (i = 0; i < self->n_found; i++) {
        places[i] = (struct place){&self->found[i].tensor, i};
    }
    qsort(places, self->n_found, sizeof *places, by_place);
    for (i = 1; i < self->n_found; i++) {
        if (compare_places(places[first].tensor, places[i].tensor) != 0) {
            first = i;
        } else if (places[i].tensor->n_elems != 0) {
            model->tensors[places[i].index].alias_of = places[first].index;
        }
    }
out:
    vc_free(ctx, places);
    return status;
}

static void count_parts(struct torch *self, struct vc_model *model)
{
    size_t i;

    for (i = 0; i < self->n_found; i++) {
        struct vc_part *part = &self->parts[self->found[i].part];

        part->n_tensors++;
        part->size_bytes += model->tensors[i].alias_of == VC_NO_TENSOR ? model->tensors[i].size_bytes : 0;
    }
    model->parts = self->parts;
    model->n_parts = self->n_parts;
    model->refused = self->refused;
    model->n_refused = self->n_refused;
}

static enum vc_status make_tensors(struct vc_ctx *ctx, struct torch *self, struct vc_model *model)
{
    size_t i;
    enum vc_status status = VC_OK;

    model->tensors = vc_calloc_array(ctx, VC_TAG_NAMES, self->n_found, sizeof *model->tensors);
    VC_TRY_ALLOC(model->tensors);
    model->io = vc_calloc_array(ctx, VC_TAG_NAMES, self->n_found, sizeof *model->io); /* no form but the values */
    VC_TRY_ALLOC(model->io);
    for (i = 0; i < self->n_found; i++) {
        fill_tensor(self, &self->found[i], &model->tensors[i]);
    }
    model->n_tensors = self->n_found;
    VC_TRY(find_aliases(ctx, self, model));
    VC_TRY(vc_model_index_names(ctx, model));
    count_parts(self, model);
out:
    return status;
}

/* What of it is quantized: our manifest where it speaks of the dict that was chosen, else the names tell. key: that the
 * manifest is about; NULL: the one that is found without. */
static enum vc_status find_quantized(struct vc_ctx *ctx, struct torch *self, struct vc_model *model, const char *wanted,
                                     const char *key)
{
    unsigned char *manifest = NULL;
    size_t n = 0;
    bool same = wanted == NULL || (key != NULL && strcmp(wanted, key) == 0);
    enum vc_status status = VC_OK;

    if (!self->legacy && same) {
        VC_TRY(read_member(ctx, self, TORCH_MANIFEST, VC_MANIFEST_MAX_BYTES, &manifest, &n));
    }
    if (manifest == NULL) {
        status = vc_manifest_infer(ctx, model);
    } else if (vc_manifest_apply(ctx, (const char *)manifest, n, model) != VC_OK) {
        status = vc_collect(ctx, vc_context(ctx, "member '%s'", TORCH_MANIFEST), "manifest", NULL);
    }
out:
    vc_free(ctx, manifest);
    return status;
}

/* ---- open, close ---- */

static void torch_close(struct vc_model *model)
{
    struct vc_ctx *ctx = model->ctx;
    struct torch *self = model->self;

    vc_spool_release(&self->spool);
    vc_infile_close(ctx, self->file);
    vc_zip_close(ctx, &self->zip);
    vc_pickle_release(ctx, &self->pickle);
    vc_text_release(&self->note);
    vc_arena_release(ctx, &self->arena);
    vc_free(ctx, self->text);
    vc_free(ctx, self->found);
    vc_free(ctx, self->storages);
    vc_free(ctx, self->parts);
    vc_free(ctx, self->refused);
    vc_free(ctx, self);
    vc_free(ctx, model->tensors);
    vc_free(ctx, model->io);
}

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

static enum vc_status check_member(struct vc_ctx *ctx, struct torch *self, const struct vc_zip_entry *entry)
{
    const char *name = entry->name + vc_min_u64(self->root_bytes, entry->name_bytes);
    bool wrong = false;
    enum vc_status status;

    VC_TRY(vc_collect(ctx, vc_zip_check_member(ctx, self->file, entry, &wrong), "data", name));
    VC_TRY(wrong ? note_checksum(ctx, self, name) : VC_OK);
out:
    return status;
}

/* Storages were checked with their tensors. Of a damaged pickle, whether they are whole can still be told. */
static enum vc_status torch_check_rest(struct vc_ctx *ctx, const struct vc_model *model)
{
    struct torch *self = model->self;
    bool *checked = vc_calloc_array(ctx, VC_TAG_IO, self->zip.n, sizeof *checked);
    enum vc_status status = VC_OK;
    size_t i;

    VC_TRY_ALLOC(checked);
    for (i = 0; i < self->n_storages; i++) {
        if (self->storages[i].entry != NULL) {
            checked[self->storages[i].entry - self->zip.entries] = true;
        }
    }
    for (i = 0; i < self->zip.n; i++) {
        if (!checked[i] && !self->zip.entries[i].broken) { /* those that were read at once, too: they are small */
            VC_TRY(check_member(ctx, self, &self->zip.entries[i]));
        }
    }
out:
    vc_free(ctx, checked);
    return status;
}

static const struct vc_source_ops torch_ops = {.read = torch_read,
                                               .stream_bytes = torch_stream_bytes,
                                               .close = torch_close,
                                               .late_note = torch_late_note,
                                               .check_rest = torch_check_rest,
                                               .create_sink = vc_format_create_sink};

/* Takes over file and zip (NULL: none). */
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
        self->root_bytes = root_of(zip);
        memset(zip, 0, sizeof *zip);
    }
    vc_spool_init(&self->spool);
    vc_text_init(&self->note, ctx);
    model->format = vc_format_torch.name;
    model->self = self;
    model->ops = &torch_ops; /* from here on vc_model_close frees everything */
    return VC_OK;
}

/* From the tree to the tensors. keys: NULL for an archive. */
static enum vc_status finish(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model *model,
                             const struct vc_pickle_node *keys, uint64_t data)
{
    struct torch *self = model->self;
    const char *wanted = options->key;
    unsigned char *key = NULL; /* that our own output was made with: the choice, unless the user has another one */
    size_t n_key = 0;
    enum vc_status status = VC_OK;

    if (!self->legacy) {
        VC_TRY(read_member(ctx, self, TORCH_KEY, MAX_SMALL, &key, &n_key));
    }
    VC_TRY(torch_tree_make(ctx, self, wanted != NULL ? wanted : (const char *)key));
    VC_TRY(torch_storages_make(ctx, self, keys, data));
    VC_TRY(split_refused(ctx, self));
    VC_TRY(make_tensors(ctx, self, model));
    VC_TRY(find_quantized(ctx, self, model, wanted, (const char *)key));
    VC_TRY(vc_model_add_fact(ctx, model, "container", "%s, %s-endian, pickle protocol %u, not run",
                             self->legacy   ? "legacy file (before PyTorch 1.6)"
                             : self->script ? "TorchScript archive"
                                            : "zip archive",
                             self->big_endian ? "big" : "little", self->pickle.protocol));
    if (self->note.n != 0) {
        VC_TRY(vc_model_add_fact(ctx, model, VC_FACT_NOTE, "%s", self->note.data));
    }
out:
    vc_free(ctx, key);
    return status;
}

enum vc_status vc_torch_open_archive(struct vc_ctx *ctx, struct vc_infile *file, struct vc_zip *zip,
                                     const struct vc_open_options *options, struct vc_model *model)
{
    enum vc_status status;

    VC_TRY(begin(ctx, file, zip, model));
    VC_TRY(read_archive(ctx, model->self));
    VC_TRY(((const struct torch *)model->self)->blind ? VC_OK : finish(ctx, options, model, NULL, 0));
out:
    return status;
}

static enum vc_status torch_open_legacy(struct vc_ctx *ctx, struct vc_infile *file,
                                        const struct vc_open_options *options, struct vc_model *model)
{
    struct vc_pickle keys;
    uint64_t data = 0;
    enum vc_status status;

    memset(&keys, 0, sizeof keys);
    VC_TRY(begin(ctx, file, NULL, model));
    VC_TRY(torch_legacy_read(ctx, model->self, &keys, &data));
    VC_TRY(finish(ctx, options, model, keys.root, data));
out:
    vc_pickle_release(ctx, &keys);
    return status;
}

/* The long integer that a legacy file begins with; from protocol 4 on it is in a frame of 13 bytes. Archives come from
 * the reader of zip files. */
static int torch_probe(const unsigned char *head, size_t n, uint64_t file_bytes)
{
    static const unsigned char frame[] = {0x95, 13, 0, 0, 0, 0, 0, 0, 0};
    static const unsigned char magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20};
    size_t at = 2;

    (void)file_bytes;
    if (n < at + sizeof frame + sizeof magic || head[0] != 0x80 || head[1] < 2 || head[1] > 5) {
        return 0;
    }
    at += memcmp(head + at, frame, sizeof frame) == 0 ? sizeof frame : 0;
    return memcmp(head + at, magic, sizeof magic) == 0 ? 95 : 0;
}

static const char *const extensions[] = {".pt", ".pth", ".bin", NULL};

const struct vc_format vc_format_torch = {.name = "torch",
                                          .extensions = extensions,
                                          .probe = torch_probe,
                                          .open = torch_open_legacy,
                                          .create_sink = vc_torch_sink_create};
