/* torch_storage.c - where the bytes of each storage are.
 *
 * An archive has a member "<root>/data/<key>" for each; a legacy file has them in the order of its list of keys, each
 * with its number of elements (u64, little-endian) in front. What the persistent ids say about one key must agree, and
 * the sizes must be exactly those. */

#include "core/base/findings.h"
#include "formats/torch/torch.h"

/* The order that storages are sorted in, by key. */
static int compare_bytes(const struct vc_pickle_bytes *a, const struct vc_pickle_bytes *b)
{
    int order = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);

    return order != 0 ? order : a->n < b->n ? -1 : a->n > b->n;
}

static int compare_storages(const void *a, const void *b)
{
    return compare_bytes(&((const struct torch_storage *)a)->key, &((const struct torch_storage *)b)->key);
}

/* The storage of that key, once they are sorted; NULL if there is none. */
static struct torch_storage *find_storage(const struct torch *self, const struct vc_pickle_bytes *key)
{
    size_t low = 0;
    size_t high = self->n_storages;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_bytes(&self->storages[middle].key, key);

        if (order == 0) {
            return &self->storages[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

/* ---- which storages there are ---- */

/* What a persistent id says of a storage. */
static enum vc_status add_storage(struct vc_ctx *ctx, const struct torch_storage_id *id, struct torch_storage *out)
{
    uint64_t n_bytes;

    VC_REFUSE_IF(!vc_mul_u64(id->numel, id->dtype == NULL ? 1 : id->dtype->item_bytes, &n_bytes) || n_bytes > INT64_MAX,
                 ctx, VC_E_FORMAT, "a storage of more than 2^63 bytes");
    out->key = vc_pickle_item(id->id, 2)->u.text;
    out->dtype = id->dtype;
    out->numel = id->numel;
    out->n_bytes = n_bytes;
    return VC_OK;
}

/* Lists the storages, some of them several times. An archive: those that readable tensors need. A legacy file: all,
 * because each tells where the next one is. */
static enum vc_status collect(struct vc_ctx *ctx, struct torch *self, bool all)
{
    enum vc_status status = VC_OK;

    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, self->storages, self->pickle.n_persids));
    for (size_t i = 0; i < self->n_found; i++) {
        if (self->found[i].refusal == NULL) {
            self->found[i].tensor.id->busy = true;
        }
    }
    for (const struct vc_pickle_node *node = self->pickle.persids; node != NULL; node = node->u.persid.before) {
        struct torch_storage_id id;

        if (!all && !node->u.persid.id->busy) {
            continue;
        }
        VC_TRY(vc_torch_storage_parse(ctx, node, &id));
        VC_TRY(add_storage(ctx, &id, &self->storages[self->n_storages++]));
    }
out:
    for (size_t i = 0; i < self->n_found; i++) {
        if (self->found[i].refusal == NULL) {
            self->found[i].tensor.id->busy = false;
        }
    }
    return status;
}

/* Sorts the storages and leaves one of each key; what was said of it twice has to agree. */
static enum vc_status unify(struct vc_ctx *ctx, struct torch *self)
{
    size_t n = 0;

    if (self->n_storages > 1) {
        qsort(self->storages, self->n_storages, sizeof *self->storages, compare_storages);
    }
    for (size_t i = 0; i < self->n_storages; i++) {
        const struct torch_storage *s = &self->storages[i];
        const struct torch_storage *last = n == 0 ? NULL : &self->storages[n - 1];

        if (last == NULL || compare_storages(last, s) != 0) {
            memmove(&self->storages[n++], s, sizeof *s); /* no thread reads them yet */
        } else if (last->dtype != s->dtype || last->numel != s->numel) {
            return vc_fail(ctx, VC_E_FORMAT, "storage '%.*s' is described in two ways", (int)s->key.n, s->key.p);
        }
    }
    self->n_storages = n;
    return VC_OK;
}

/* ---- where they are ---- */

static struct vc_name_list names_of(const struct vc_zip *zip)
{
    return VC_NAME_LIST(zip->entries, sizeof *zip->entries);
}

/* Finds the member of a storage, whose size has to be exactly that of its elements. */
static enum vc_status place_member(struct vc_ctx *ctx, const struct torch *self, const struct vc_name_table *members,
                                   struct torch_storage *s)
{
    char name[1500];

    snprintf(name, sizeof name, "%.*sdata/%.*s", (int)self->root_bytes, self->zip.entries[0].name, (int)s->key.n,
             s->key.p);
    size_t found = vc_name_table_find(members, names_of(&self->zip), name, strlen(name));
    VC_REFUSE_IF(found == SIZE_MAX, ctx, VC_E_FORMAT, "the storage '%.*s' is missing: there is no member '%s'",
                 (int)s->key.n, s->key.p, name);
    s->entry = &self->zip.entries[found];
    if (s->entry->broken) { /* a finding has said why */
        s->entry = NULL;
        s->lost = true;
        return VC_OK;
    }
    s->offset = s->entry->data_offset;
    s->file_bytes = s->entry->end_offset - s->entry->local_offset + s->entry->central_bytes;
    VC_REFUSE_IF(s->entry->size_bytes != s->n_bytes, ctx, VC_E_FORMAT,
                 "member '%s' has %" PRIu64 " bytes, but its storage of %" PRIu64 " elements has %" PRIu64, name,
                 s->entry->size_bytes, s->numel, s->n_bytes);
    return VC_OK;
}

/* Places all storages of an archive. No member may occur twice. */
static enum vc_status place_members(struct vc_ctx *ctx, struct torch *self)
{
    struct vc_name_table members = {0};
    enum vc_status status;

    VC_TRY(vc_name_table_make(ctx, self->zip.n, &members));
    for (size_t i = 0; i < self->zip.n; i++) {
        if (vc_name_table_add(&members, names_of(&self->zip), i) != SIZE_MAX) {
            status = vc_fail(ctx, VC_E_FORMAT, "member '%s' occurs twice", self->zip.entries[i].name);
            VC_TRY(vc_collect(ctx, status, "duplicate", self->zip.entries[i].name));
        }
    }
    for (size_t i = 0; i < self->n_storages; i++) {
        struct torch_storage *s = &self->storages[i];

        status = place_member(ctx, self, &members, s);
        s->lost = s->lost || status != VC_OK;
        VC_TRY(vc_collect(ctx, status, "storage", NULL));
    }
out:
    vc_name_table_release(ctx, &members);
    return status;
}

/* Places the storages of a legacy file: one behind the other, from `at` on, in the order of the list of keys; the file
 * ends with the last one. */
static enum vc_status place_legacy(struct vc_ctx *ctx, struct torch *self, const struct vc_pickle_node *keys,
                                   uint64_t at)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(keys);
    const struct vc_pickle_node *key;
    size_t n = 0;

    while ((key = vc_pickle_next(&iter)) != NULL) {
        struct torch_storage *s = key->kind == VC_PICKLE_STRING ? find_storage(self, &key->u.text) : NULL;
        unsigned char count[8];

        VC_REFUSE_IF(s == NULL || s->offset != 0, ctx, VC_E_FORMAT, "key %zu of the list of storages is %s", n,
                     s == NULL ? "of no storage" : "there twice");
        VC_REFUSE_IF(self->file->size_bytes - at < sizeof count ||
                         s->n_bytes > self->file->size_bytes - at - sizeof count,
                     ctx, VC_E_FORMAT, "ends inside storage %zu of %zu", n + 1, (size_t)keys->n_items);
        VC_CALL(vc_infile_read(ctx, self->file, at, count, sizeof count));
        VC_REFUSE_IF(vc_le64(count) != s->numel, ctx, VC_E_FORMAT,
                     "storage '%.*s' has %" PRIu64 " elements, expected %" PRIu64, (int)s->key.n, s->key.p,
                     vc_le64(count), s->numel);
        s->offset = at + sizeof count;
        s->file_bytes = s->n_bytes + sizeof count;
        at = s->offset + s->n_bytes;
        n++;
    }
    VC_REFUSE_IF(n != self->n_storages, ctx, VC_E_FORMAT, "%zu storages are listed, but %zu are needed", n,
                 self->n_storages);
    VC_REFUSE_IF(at != self->file->size_bytes, ctx, VC_E_FORMAT, "%" PRIu64 " bytes after the last storage",
                 self->file->size_bytes - at);
    return VC_OK;
}

/* Storages are found first, then each tensor looks up its own. */
enum vc_status vc_torch_storages_make(struct vc_ctx *ctx, struct torch *self, const struct vc_pickle_node *keys,
                                      uint64_t data)
{
    VC_CALL(collect(ctx, self, keys != NULL));
    VC_CALL(unify(ctx, self));
    if (keys != NULL) {
        VC_CALL(place_legacy(ctx, self, keys, data));
    } else {
        VC_CALL(place_members(ctx, self));
    }
    for (size_t i = 0; i < self->n_found; i++) {
        struct torch_found *found = &self->found[i];

        if (found->refusal == NULL) {
            found->tensor.storage =
                (size_t)(find_storage(self, &vc_pickle_item(found->tensor.id, 2)->u.text) - self->storages);
            found->refusal = self->storages[found->tensor.storage].lost ? "its storage cannot be read" : NULL;
        }
    }
    return VC_OK;
}
