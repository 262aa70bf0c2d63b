/* safetensors_header.c - the header of a safetensors file: its entries, in the order of the data, and its metadata.
 *
 * It is strict JSON (jansson: keys once, UTF-8, bounded depth), taken apart member by member. Every statement in it is
 * checked: sizes against shapes, offsets against each other and the file. The format has no checksum.
 *
 *     {"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[24,32]},
 *      "w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}       entries: w at 0, b at 24
 *
 * Two ways lead through an entry: text that looks as nearly every writer makes it is taken without jansson
 * (safetensors_plain_entry), anything else by jansson; both end in the same checks (set_dtype, set_shape, set_offsets,
 * check_size). Entries of all shards lie in one array, self->entries, each shard's behind the ones before it. With
 * findings a broken entry is noted and left out, so that verify sees the others. */

#include "core/base/array.h"
#include "core/model/shapes.h"
#include "formats/dialects/manifest/manifest.h"
#include "formats/json/json_walk.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/safetensors_entry.h"

/* Name in the file, bits of an element, type. An entry holds the number of its row. */
const struct safetensors_dtype vc_safetensors_dtypes[] = {
    {"BOOL", 8, VC_DTYPE_BOOL},
    {"U8", 8, VC_DTYPE_U8},
    {"I8", 8, VC_DTYPE_I8},
    {"U16", 16, VC_DTYPE_U16},
    {"I16", 16, VC_DTYPE_I16},
    {"U32", 32, VC_DTYPE_U32},
    {"I32", 32, VC_DTYPE_I32},
    {"U64", 64, VC_DTYPE_U64},
    {"I64", 64, VC_DTYPE_I64},
    {"F16", 16, VC_DTYPE_F16},
    {"BF16", 16, VC_DTYPE_BF16},
    {"F32", 32, VC_DTYPE_F32},
    {"F64", 64, VC_DTYPE_F64},
    {"C64", 64, VC_DTYPE_C64},
    {"F8_E4M3", 8, VC_DTYPE_F8_E4M3},
    {"F8_E5M2", 8, VC_DTYPE_F8_E5M2},
    {"F8_E4M3FNUZ", 8, VC_DTYPE_F8_E4M3FNUZ},
    {"F8_E5M2FNUZ", 8, VC_DTYPE_F8_E5M2FNUZ},
    {"F8_E8M0", 8, VC_DTYPE_F8_E8M0},
    {"F6_E2M3", 6, VC_DTYPE_F6_E2M3},
    {"F6_E3M2", 6, VC_DTYPE_F6_E3M2},
    {"F4", 4, VC_DTYPE_F4_E2M1},
};
const size_t vc_safetensors_n_dtypes = sizeof vc_safetensors_dtypes / sizeof vc_safetensors_dtypes[0];

/* The offset of an entry whose place is not known; it sorts behind all others. */
#define VC_UNPLACED UINT64_MAX

/* While the header is taken apart. */
struct parsing {
    struct vc_ctx *ctx;
    struct safetensors *self;
    struct safetensors_shard *shard;
    uint64_t data_bytes;
    size_t n;                /* entries of the shard so far */
    bool metadata_known;     /* that member was there */
    bool minus_zero;         /* ... and was told */
    struct vc_shapes shapes; /* in the shard's arena */
};

/* ---- one entry ---- */

/* jansson's integers are signed; 2^63 and more are no integers to it. */
static bool is_size(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* The type with that name of n bytes. */
static enum vc_status set_dtype(const struct parsing *p, const char *name, size_t n, struct safetensors_entry *entry)
{
    for (size_t i = 0; i < vc_safetensors_n_dtypes; i++) {
        if (strncmp(vc_safetensors_dtypes[i].name, name, n) == 0 && vc_safetensors_dtypes[i].name[n] == '\0') {
            entry->type = (uint8_t)i;
            return VC_OK;
        }
    }
    return vc_fail(p->ctx, VC_E_UNSUPPORTED, "%s: dtype '%.*s' is not known", entry->name, (int)(n < 40 ? n : 40),
                   name);
}

/* read_...: by jansson; set_...: the value itself, for both ways. */
static enum vc_status read_dtype(const struct parsing *p, const json_t *json, struct safetensors_entry *entry)
{
    const char *name = json_string_value(json_object_get(json, "dtype"));

    VC_REFUSE_IF(name == NULL, p->ctx, VC_E_FORMAT, "%s: has no \"dtype\" that is a string", entry->name);
    return set_dtype(p, name, strlen(name), entry);
}

/* Equal shapes of neighbours share memory (vc_shapes_keep): layers repeat them. */
static enum vc_status set_shape(struct parsing *p, const uint64_t *shape, size_t n, struct safetensors_entry *entry)
{
    entry->shape = vc_shapes_keep(p->ctx, &p->shard->arena, &p->shapes, shape, n);
    entry->n_dims = (uint8_t)n;
    return entry->shape != NULL ? VC_OK : VC_E_NOMEM;
}

static enum vc_status read_shape(struct parsing *p, const json_t *json, struct safetensors_entry *entry)
{
    const json_t *shape = json_object_get(json, "shape");
    size_t n = json_array_size(shape);
    uint64_t dims[VC_MAX_DIMS];

    VC_REFUSE_IF(!json_is_array(shape), p->ctx, VC_E_FORMAT, "%s: has no \"shape\" that is an array", entry->name);
    VC_REFUSE_IF(n > VC_MAX_DIMS, p->ctx, VC_E_UNSUPPORTED, "%s: has %zu dimensions; %d are allowed", entry->name, n,
                 VC_MAX_DIMS);
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);

        VC_REFUSE_IF(!is_size(dim), p->ctx, VC_E_FORMAT, "%s: dimension %zu is no whole number from 0 on", entry->name,
                     i);
        dims[i] = (uint64_t)json_integer_value(dim);
    }
    return set_shape(p, dims, n, entry);
}

/* Offsets count from the first byte of the data. */
static enum vc_status set_offsets(const struct parsing *p, uint64_t first, uint64_t last,
                                  struct safetensors_entry *entry)
{
    VC_REFUSE_IF(first > last || last > p->data_bytes, p->ctx, VC_E_FORMAT,
                 "%s: lies at bytes %" PRIu64 " to %" PRIu64 " of the data, which has %" PRIu64, entry->name, first,
                 last, p->data_bytes);
    entry->offset = first;
    entry->n_bytes = last - first;
    return VC_OK;
}

static enum vc_status read_offsets(const struct parsing *p, const json_t *json, struct safetensors_entry *entry)
{
    const json_t *offsets = json_object_get(json, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);

    VC_REFUSE_IF(!json_is_array(offsets) || json_array_size(offsets) != 2 || !is_size(begin) || !is_size(end), p->ctx,
                 VC_E_FORMAT, "%s: \"data_offsets\" are not two whole numbers from 0 on", entry->name);
    return set_offsets(p, (uint64_t)json_integer_value(begin), (uint64_t)json_integer_value(end), entry);
}

/* Shape and type must need exactly the bytes that the offsets give. n_bits below 2^64 means fewer than 2^61 bytes;
 * types of 4 and 6 bits have to fill whole bytes together. */
static enum vc_status check_size(const struct parsing *p, const struct safetensors_entry *entry)
{
    uint64_t n = 1;
    uint64_t n_bits;

    for (unsigned d = 0; d < entry->n_dims; d++) {
        VC_REFUSE_IF(!vc_mul_u64(n, entry->shape[d], &n), p->ctx, VC_E_FORMAT,
                     "%s: its shape has more than 2^64 elements", entry->name);
    }
    VC_REFUSE_IF(!vc_mul_u64(n, vc_safetensors_dtypes[entry->type].n_bits, &n_bits), p->ctx, VC_E_FORMAT,
                 "%s: its shape needs more than 2^61 bytes", entry->name);
    VC_REFUSE_IF(n_bits % 8 != 0, p->ctx, VC_E_FORMAT, "%s: %" PRIu64 " elements of type %s end inside a byte",
                 entry->name, n, vc_safetensors_dtypes[entry->type].name);
    VC_REFUSE_IF(n_bits / 8 != entry->n_bytes, p->ctx, VC_E_FORMAT,
                 "%s: its offsets give it %" PRIu64 " bytes, but its shape and dtype need %" PRIu64, entry->name,
                 entry->n_bytes, n_bits / 8);
    return VC_OK;
}

/* A violation in one entry. Refused, or with findings noted; the entry is then left out of the model. */
static enum vc_status note(const struct parsing *p, struct safetensors_entry *entry, const char *id,
                           enum vc_status status)
{
    entry->broken = entry->broken || status != VC_OK;
    return vc_collect(p->ctx, status, id, entry->name);
}

/* Makes room for n entries more. A checkpoint may have many shards, so there is room for more than these entries; the
 * room is not touched before it is used. */
static enum vc_status grow_entries(struct parsing *p, size_t n)
{
    struct safetensors *self = p->self;
    size_t total, room;

    VC_REFUSE_IF(!vc_add_size(p->shard->first + p->n, n, &total) ||
                     !vc_add_size(total, self->n_shards > 1 ? total / 4 : 0, &room) || total > INT32_MAX,
                 p->ctx, VC_E_NOMEM, "too many tensors");
    return total <= self->capacity ? VC_OK : VC_RESERVE(p->ctx, VC_TAG_NAMES, self->entries, self->capacity, room);
}

/* The next entry, with nothing but its name of n bytes. NULL: no memory. The pointer is valid until the next entry is
 * added. */
static struct safetensors_entry *add_entry(struct parsing *p, const char *name, size_t n)
{
    const char *copy = vc_arena_copy(p->ctx, &p->shard->arena, name, n);

    if (copy == NULL || (p->shard->first + p->n == p->self->capacity && grow_entries(p, p->n / 2 + 16) != VC_OK)) {
        return NULL;
    }
    struct safetensors_entry *entry = &p->self->entries[p->shard->first + p->n];
    *entry = (struct safetensors_entry){.name = copy, .order = (uint32_t)p->n++, .offset = VC_UNPLACED};
    return entry;
}

/* One tensor whose entry looks as usual (safetensors_entry.h). */
static enum vc_status read_plain_entry(struct parsing *p, const struct safetensors_plain_entry *plain)
{
    struct safetensors_entry *entry = add_entry(p, plain->name, plain->n_name);

    VC_CALL_ALLOC(entry);
    VC_CALL(note(p, entry, "dtype", set_dtype(p, plain->dtype, plain->n_dtype, entry)));
    VC_CALL(note(p, entry, "shape", set_shape(p, plain->shape, plain->n_dims, entry)));
    VC_CALL(note(p, entry, "offsets", set_offsets(p, plain->ends[0], plain->ends[1], entry)));
    return entry->broken ? VC_OK : note(p, entry, "size", check_size(p, entry));
}

/* One tensor: its type, shape and place, checked against each other and the size of the file. */
static enum vc_status read_entry(struct parsing *p, const char *name, const json_t *json)
{
    struct safetensors_entry *entry = add_entry(p, name, strlen(name));
    enum vc_status status = VC_OK;

    VC_CALL_ALLOC(entry);
    if (!json_is_object(json)) {
        status = vc_fail(p->ctx, VC_E_FORMAT, "%s: its header entry is no object", name);
        return note(p, entry, "entry", status);
    }
    VC_CALL(note(p, entry, "dtype", read_dtype(p, json, entry)));
    VC_CALL(note(p, entry, "shape", read_shape(p, json, entry)));
    VC_CALL(note(p, entry, "offsets", read_offsets(p, json, entry)));
    return entry->broken ? VC_OK : note(p, entry, "size", check_size(p, entry));
}

/* A violation in the header as a whole. Findings call a shard by its name. */
static enum vc_status note_header(const struct parsing *p, const char *id, enum vc_status status)
{
    return vc_collect(p->ctx, status, id, p->shard->name);
}

/* The strings of __metadata__: our own ones are kept apart, all others become notes. */
static enum vc_status read_metadata(struct parsing *p, json_t *json)
{
    enum vc_status status = VC_OK;
    const char *key;
    json_t *value;
    char **own;

    if (json_is_null(json)) {
        return VC_OK; /* as the reference reader takes it */
    }
    if (!json_is_object(json)) {
        status = vc_fail(p->ctx, VC_E_FORMAT, "its \"%s\" is no object", VC_SAFETENSORS_METADATA);
        return note_header(p, "metadata", status);
    }
    json_object_foreach(json, key, value)
    {
        if (!json_is_string(value)) {
            status =
                vc_fail(p->ctx, VC_E_FORMAT, "its \"%s\" has '%s', which is no string", VC_SAFETENSORS_METADATA, key);
            VC_CALL(note_header(p, "metadata", status));
            continue;
        }
        if (strcmp(key, VC_MANIFEST_NAME) == 0) {
            own = &p->shard->manifest;
        } else if (strcmp(key, VC_SAFETENSORS_NAMES) == 0) {
            own = &p->shard->names;
        } else if (strcmp(key, VC_SAFETENSORS_JOB) == 0) {
            own = &p->shard->job;
        } else {
            own = NULL;
        }
        if (own != NULL) {
            VC_CALL_ALLOC(*own = vc_strdup(p->ctx, VC_TAG_IO, json_string_value(value)));
            continue;
        }
        VC_CALL(vc_safetensors_notes_add(p->ctx, &p->shard->arena, &p->shard->notes, key, json_string_value(value)));
    }
    return VC_OK;
}

/* ---- the header ---- */

/* A tensor, or the metadata, which may be there once. */
static enum vc_status read_member(struct parsing *p, const char *name, json_t *value)
{
    if (strcmp(name, VC_SAFETENSORS_METADATA) != 0) {
        return read_entry(p, name, value);
    }
    if (p->metadata_known) {
        enum vc_status status = vc_fail(p->ctx, VC_E_FORMAT, "its safetensors header has two members \"%s\"", name);

        return note_header(p, "duplicate", status);
    }
    p->metadata_known = true;
    return read_metadata(p, value);
}

/* The header stops being JSON somewhere. With findings the entries before that place are used. */
static enum vc_status refuse_json(struct parsing *p, enum vc_status status)
{
    (void)vc_context(p->ctx, "its safetensors header%s", status == VC_E_FORMAT ? " is no valid JSON" : "");
    p->shard->lost = true;
    return note_header(p, "header", status);
}

static bool is_metadata(const struct safetensors_plain_entry *plain)
{
    return plain->n_name == strlen(VC_SAFETENSORS_METADATA) &&
           memcmp(plain->name, VC_SAFETENSORS_METADATA, plain->n_name) == 0;
}

/* About as many entries as there are: each is an object. */
static size_t count_braces(const char *text, size_t n)
{
    const char *end = text + n;
    size_t count = 0;

    while ((text = memchr(text, '{', (size_t)(end - text))) != NULL) {
        count++;
        text++;
    }
    return count;
}

/* jansson would keep "shape" and "data_offsets" of an entry whole, however long; other lists are cut where they are
 * large. */
static enum vc_status read_members(struct parsing *p, char *text, size_t n)
{
    static const char *const wanted[] = {"shape", "data_offsets", NULL};
    struct json_walk walk;
    enum vc_status status;
    const char *name;
    json_t *value;

    vc_json_walk_begin(&walk, text, n);
    walk.wanted = wanted;
    p->shard->first = p->self->n_entries;
    VC_TRY(grow_entries(p, count_braces(text, n)));
    do {
        struct safetensors_plain_entry plain;
        size_t end;

        VC_TRY(vc_check_cancelled(p->ctx));
        if (vc_safetensors_plain_entry(text, n, walk.at, &plain, &end) && !is_metadata(&plain)) {
            walk.at = end;
            VC_TRY(read_plain_entry(p, &plain));
            name = end < n ? "" : NULL;
            continue;
        }
        status = vc_json_walk_next(p->ctx, &walk, &name, &value);
        if (status != VC_OK) {
            VC_TRY(refuse_json(p, status));
        }
        if (walk.minus_zero && !p->minus_zero) {
            p->minus_zero = true;
            status = vc_fail(p->ctx, VC_E_FORMAT, "its safetensors header has the number -0");
            VC_TRY(note_header(p, "header", status));
        }
        if (name != NULL) {
            VC_TRY(read_member(p, name, value));
        }
    } while (name != NULL);
    p->shard->n = p->n;
    p->self->n_entries += p->n;
out:
    vc_json_walk_end(p->ctx, &walk);
    return status;
}

/* The entries of the shard, behind those of the shards before it; NULL if there are none. */
static struct safetensors_entry *own_entries(const struct parsing *p)
{
    return p->n == 0 ? NULL : p->self->entries + p->shard->first;
}

/* By place; equal entries in the order of the header, so that the sort has one result. */
static int compare_entries(const void *a, const void *b)
{
    const struct safetensors_entry *x = a;
    const struct safetensors_entry *y = b;

    /* an empty tensor comes before the one that starts there, too */
    return VC_FIRST_ORDER(VC_ORDER(x->offset, y->offset), VC_ORDER(x->n_bytes, y->n_bytes),
                          VC_ORDER(x->order, y->order));
}

/* Entry i does not start at `expected`. Where it is there twice, that is the reason. */
static enum vc_status refuse_place(const struct parsing *p, size_t i, uint64_t expected)
{
    const struct safetensors_entry *entries = own_entries(p);
    const struct safetensors_entry *entry = &entries[i];
    bool overlap = entry->offset < expected;

    for (size_t k = 0; k < p->n && !vc_collecting(p->ctx); k++) { /* a finding of its own otherwise */
        VC_REFUSE_IF(k != i && strcmp(entries[k].name, entry->name) == 0, p->ctx, VC_E_FORMAT,
                     "%s: its safetensors header has this tensor twice", entry->name);
    }
    enum vc_status status = vc_fail(
        p->ctx, VC_E_FORMAT, "%s: starts at byte %" PRIu64 " of the data, expected %" PRIu64 " (%s)", entry->name,
        entry->offset, expected, overlap ? "it overlaps the tensor before it" : "there is a hole before it");
    return vc_collect(p->ctx, status, overlap ? "overlap" : "hole", entry->name);
}

/* Sorts the entries by their places. They have to follow each other without a hole, up to the end of the file. A file
 * whose header alone is there (header_only) has no end to compare with. */
static enum vc_status check_order(const struct parsing *p)
{
    struct safetensors_entry *entries = own_entries(p);
    enum vc_status status = VC_OK;
    uint64_t at = 0;
    size_t i;

    for (i = 1; i < p->n && compare_entries(&entries[i - 1], &entries[i]) < 0; i++) {
    }
    if (i < p->n) { /* writers list them in the order of the data, mostly */
        qsort(entries, p->n, sizeof *entries, compare_entries);
    }
    for (i = 0; i < p->n && entries[i].offset != VC_UNPLACED; i++) {
        if (entries[i].offset != at) {
            VC_CALL(refuse_place(p, i, at));
        }
        at = vc_max_u64(at, entries[i].offset + entries[i].n_bytes); /* within data_bytes */
    }
    if (at != p->data_bytes && i == p->n && !p->shard->lost && !p->shard->header_only) {
        status = vc_fail(p->ctx, VC_E_FORMAT, "has %" PRIu64 " bytes of data, but its tensors end at byte %" PRIu64,
                         p->data_bytes, at);
        VC_CALL(note_header(p, "size", status));
    }
    return VC_OK;
}

/* With findings: entries with a violation become no tensors. */
static void drop_broken(struct parsing *p)
{
    struct safetensors_entry *entries = own_entries(p); /* the last ones */
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++) {
        if (!entries[i].broken) {
            entries[n++] = entries[i];
        }
    }
    p->self->n_entries = p->shard->first + n;
    p->shard->n = n;
}

/* The first 8 bytes: how long the header is. */
static enum vc_status read_length(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t *n)
{
    unsigned char prefix[VC_SAFETENSORS_PREFIX_BYTES];

    VC_CALL(vc_infile_read(ctx, file, 0, prefix, sizeof prefix));
    *n = vc_le64(prefix);
    VC_REFUSE_IF(*n > VC_SAFETENSORS_MAX_HEADER, ctx, VC_E_FORMAT,
                 "its safetensors header would have %" PRIu64 " bytes; %" PRIu64 " are allowed", *n,
                 VC_SAFETENSORS_MAX_HEADER);
    return VC_OK;
}

/* The members of the header of n bytes. */
static enum vc_status read_text(struct parsing *p, size_t n)
{
    VC_SCOPED char *text = vc_alloc(p->ctx, VC_TAG_NAMES, n);

    VC_CALL_ALLOC(text);
    VC_CALL(vc_infile_read(p->ctx, p->shard->file, VC_SAFETENSORS_PREFIX_BYTES, text, n));
    return read_members(p, text, n);
}

/*     38 01 00 00 00 00 00 00    {"__metadata__": ... }    data
 *     u64 length of the header   312 bytes                 from byte 320 on: data_offset */
enum vc_status vc_safetensors_read_header(struct vc_ctx *ctx, struct safetensors *self, struct safetensors_shard *shard)
{
    struct parsing p = {.ctx = ctx, .self = self, .shard = shard};
    const struct vc_infile *file = shard->file;
    uint64_t n = 0;

    VC_CALL(read_length(ctx, file, &n));
    VC_REFUSE_IF(n > file->size_bytes - VC_SAFETENSORS_PREFIX_BYTES, ctx, VC_E_FORMAT,
                 "ends inside the safetensors header: that has %" PRIu64 " bytes, the file has %" PRIu64 " more", n,
                 file->size_bytes - VC_SAFETENSORS_PREFIX_BYTES);
    shard->data_offset = VC_SAFETENSORS_PREFIX_BYTES + n;
    p.data_bytes = shard->header_only ? INT64_MAX : file->size_bytes - shard->data_offset;
    VC_CALL(read_text(&p, (size_t)n));
    VC_CALL(check_order(&p));
    drop_broken(&p);
    return VC_OK;
}

void vc_safetensors_release_header(struct vc_ctx *ctx, struct safetensors_shard *shard)
{
    vc_safetensors_notes_release(ctx, &shard->notes);
    vc_arena_release(ctx, &shard->arena);
    VC_FREE_ALL(ctx, shard->manifest, shard->names, shard->job);
}

/* vc_stream.find_end, for standard input: the header says how long the file is. Called first with 8 bytes, then with
 * the whole header. Where an entry is broken (findings leave it out) nothing tells where the data ends. */
enum vc_status vc_safetensors_stream_end(struct vc_ctx *ctx, const struct vc_infile *so_far, struct vc_stream_end *end)
{
    struct vc_infile file = *so_far;
    struct safetensors self = {.n_shards = 1};
    struct safetensors_shard shard = {.file = &file};
    struct parsing p = {.ctx = ctx, .self = &self, .shard = &shard, .data_bytes = INT64_MAX};
    uint64_t n = 0;
    uint64_t last;
    enum vc_status status;

    VC_TRY(read_length(ctx, so_far, &n));
    last = end->need = VC_SAFETENSORS_PREFIX_BYTES + n;
    if (so_far->size_bytes < end->need) {
        return VC_OK;
    }
    end->need = UINT64_MAX;
    VC_TRY(read_text(&p, (size_t)n));
    bool broken = shard.lost;
    for (size_t i = 0; i < p.n; i++) {
        broken = broken || self.entries[i].broken;
        last = vc_max_u64(last, VC_SAFETENSORS_PREFIX_BYTES + n + self.entries[i].offset + self.entries[i].n_bytes);
    }
    end->end = broken ? 0 : last;
out:
    vc_safetensors_release_header(ctx, &shard);
    vc_free(ctx, self.entries);
    return status;
}

/* ---- an entry, once the model is open ---- */

/* entries is NULL once the tensors say the same (pack_entries of safetensors_read.c). */
struct safetensors_entry vc_safetensors_entry(const struct safetensors *self, size_t tensor)
{
    const struct vc_tensor *t = &self->model->tensors[tensor];

    return self->entries != NULL ? self->entries[tensor]
                                 : (struct safetensors_entry){.name = t->name,
                                                              .shape = t->shape,
                                                              .offset = self->offsets[tensor],
                                                              .n_bytes = t->size_bytes,
                                                              .n_dims = (uint8_t)t->n_dims,
                                                              .type = self->types[tensor]};
}
