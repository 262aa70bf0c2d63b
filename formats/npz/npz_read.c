/* npz_read.c - opens an npz (a zip of npy arrays) as a model: one tensor per member, in the order of the directory.
 *
 *     member "fc1.weight.npy"  -> tensor "fc1.weight"
 *     member "notes", no npy   -> tensor "notes" of VC_DTYPE_RAW, carried over as it is
 *     member "c.npy", of text  -> tensor "c" of VC_DTYPE_RAW: header and data are its bytes
 *     member "a", an npy       -> tensor "a" (NumPy's rule: the content decides)
 *     member "vcompress.json"  -> the manifest, no tensor
 *
 *     local header | "fc1.weight.npy" | extra | 93 'N' 'U' 'M' 'P' 'Y' ... | values     the member in the file
 *     ^ zip_read.h                              ^ npy.h, read here          ^ npz_data.c
 *
 * Only headers are read here: of a stored member its first bytes, of a deflated one as much as inflates to the npy
 * header. formats.c opens the archive and asks npz last, so any zip that no other format knows comes here. */

#include "core/base/array.h"
#include "core/base/findings.h"
#include "formats/dialects/dialects.h"
#include "formats/dialects/manifest/manifest.h"
#include "formats/npz/npz.h"
#include "formats/npz/npz_internal.h"
#include "formats/npz/npz_write.h"

#define MAGIC_BYTES  6
#define SUFFIX       ".npy"
#define SUFFIX_BYTES ((size_t)4)

/* What a member's header says; kept until the table of tensors is made. */
struct tensor_head {
    enum vc_dtype dtype;
    unsigned n_dims;
    uint64_t n_elems;
    const char *kept_as; /* what it is, if no array of numbers */
};

/* State of the walk over the members. */
struct opening {
    struct npz *self;
    enum vc_dtype void_as;
    size_t n_shapes, max_shapes; /* of self->shapes */
    size_t *shape_at;            /* by member: where its shape starts in self->shapes */
    struct tensor_head *heads;   /* by member */
    size_t manifest;             /* member, or VC_NO_TENSOR */
    size_t n_arrays;             /* members that are npys */
    uint64_t unlisted_bytes;     /* vc_model.unlisted_bytes */
};

/* The bytes begin an npy array. */
static bool is_magic(const unsigned char *data, size_t n)
{
    static const unsigned char magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

    return n >= MAGIC_BYTES && memcmp(data, magic, MAGIC_BYTES) == 0;
}

/* The member's name ends in ".npy". */
static bool has_suffix(const struct vc_zip_entry *entry)
{
    return entry->name_bytes >= SUFFIX_BYTES &&
           memcmp(entry->name + entry->name_bytes - SUFFIX_BYTES, SUFFIX, SUFFIX_BYTES) == 0;
}

/* ------------------------------------------------------------------------------------------------ member headers */

/* Puts a shape behind those of the members before. Pointers into self->shapes are made once it does not grow any more.
 */
static enum vc_status append_shape(struct vc_ctx *ctx, struct opening *o, size_t member, const uint64_t *shape,
                                   unsigned n_dims)
{
    VC_CALL(VC_GROW(ctx, VC_TAG_NAMES, o->self->shapes, o->max_shapes, o->n_shapes + n_dims + 1));
    o->shape_at[member] = o->n_shapes;
    if (n_dims > 0) {
        memcpy(o->self->shapes + o->n_shapes, shape, n_dims * sizeof *shape);
    }
    o->n_shapes += n_dims;
    return VC_OK;
}

/* A member that is no array of numbers, but `what`: one dimension of bytes, all that it has. */
static enum vc_status carry_bytes(struct vc_ctx *ctx, struct opening *o, size_t index, const char *what)
{
    struct npz_member *member = &o->self->members[index];

    member->kind = NPZ_RAW;
    o->heads[index] =
        (struct tensor_head){.dtype = VC_DTYPE_RAW, .n_dims = 1, .n_elems = member->entry->size_bytes, .kept_as = what};
    return append_shape(ctx, o, index, &member->entry->size_bytes, 1);
}

/* A member that is no npy. Refused where its name promises one. */
static enum vc_status note_raw(struct vc_ctx *ctx, struct opening *o, size_t index)
{
    struct npz_member *member = &o->self->members[index];

    VC_REFUSE_IF(has_suffix(member->entry), ctx, VC_E_FORMAT,
                 member->entry->size_bytes == 0 ? "is empty (0 bytes), but its name ends in .npy"
                                                : "is no npy array (it does not start with \\x93NUMPY), but its name "
                                                  "ends in .npy");
    return carry_bytes(ctx, o, index, "no array");
}

/* Records, long doubles, objects: what is in them may be weights, of as many bytes or fewer. Text and dates are none.
 */
static bool may_hold_weights(const struct vc_npy_header *header)
{
    return strcmp(header->other, "text") != 0 && strcmp(header->other, "dates or times") != 0;
}

/* text is the whole npy header, n bytes. Text, objects and the like are carried as they are, header and all. An array
 * in Fortran order that is deflated cannot be gathered from a stream, so its values will be inflated into a temporary
 * file first (`spool`). */
static enum vc_status note_array(struct vc_ctx *ctx, struct opening *o, size_t index, const unsigned char *text,
                                 size_t n)
{
    struct npz_member *member = &o->self->members[index];
    const struct vc_zip_entry *entry = member->entry;
    struct vc_npy_header header;

    VC_CALL(vc_npy_parse(ctx, text, n, &header));
    VC_REFUSE_IF(!header.pickled && entry->size_bytes - n != header.data_bytes, ctx, VC_E_FORMAT,
                 "holds %" PRIu64 " bytes of data, but its shape and dtype need %" PRIu64, entry->size_bytes - n,
                 header.data_bytes);
    if (header.other != NULL) {
        o->n_arrays++;
        o->unlisted_bytes += may_hold_weights(&header) ? entry->size_bytes - n : 0;
        return carry_bytes(ctx, o, index, header.other);
    }
    VC_CALL(vc_npy_data_init(ctx, &member->data, &header));
    member->kind = NPZ_ARRAY;
    member->header_bytes = n;
    member->header_crc = vc_crc32(0, text, n);
    member->spool = member->data.gather && entry->method == VC_ZIP_DEFLATED;
    member->data.file = member->spool ? &o->self->spool.file : o->self->file;
    member->data.offset = entry->data_offset + n;
    o->n_arrays++;
    o->heads[index] = (struct tensor_head){
        .dtype = vc_npy_meaning(&header, o->void_as), .n_dims = header.n_dims, .n_elems = header.n_elems};
    return append_shape(ctx, o, index, header.shape, header.n_dims);
}

/* How long the npy header is; it has to lie inside the member. */
static enum vc_status header_bytes(struct vc_ctx *ctx, const struct vc_zip_entry *entry, const unsigned char *prefix,
                                   size_t n, size_t *bytes)
{
    VC_CALL(vc_npy_header_bytes(ctx, prefix, n, bytes));
    VC_REFUSE_IF(*bytes > entry->size_bytes, ctx, VC_E_FORMAT, "ends inside the npy header: %" PRIu64 " bytes of %zu",
                 entry->size_bytes, *bytes);
    return VC_OK;
}

/* A stored member. head: its first n_head bytes, which the walk has read anyway; a longer header is read again whole.
 */
static enum vc_status open_stored(struct vc_ctx *ctx, struct opening *o, size_t index, const unsigned char *head,
                                  size_t n_head)
{
    const struct vc_zip_entry *entry = o->self->members[index].entry;
    VC_SCOPED unsigned char *text = NULL;
    size_t n = 0;

    if (!is_magic(head, n_head)) {
        VC_CALL(note_raw(ctx, o, index));
    } else {
        VC_CALL(header_bytes(ctx, entry, head, n_head, &n));
        if (n > n_head) {
            VC_CALL_ALLOC(text = vc_alloc(ctx, VC_TAG_IO, n));
            VC_CALL(vc_infile_read(ctx, o->self->file, entry->data_offset, text, n));
            head = text;
        }
        VC_CALL(note_array(ctx, o, index, head, n));
    }
    /* Nothing is left to read later, so this is the moment for the CRC. */
    if (n == entry->size_bytes) {
        VC_CALL(vc_zip_compare_crc(ctx, entry, vc_crc32(0, head, n)));
    }
    return VC_OK;
}

/* Inflates the npy header of a deflated member; `prefix` holds its first n_prefix bytes already. *crc and *n are of the
 * header, for a member that ends with it. */
static enum vc_status inflate_header(struct vc_ctx *ctx, struct opening *o, size_t index, struct vc_inflate *inflate,
                                     const unsigned char *prefix, size_t n_prefix, uint32_t *crc, size_t *n)
{
    VC_SCOPED unsigned char *text = NULL;

    VC_CALL(header_bytes(ctx, o->self->members[index].entry, prefix, n_prefix, n));
    if (*n < n_prefix) {
        return vc_npy_parse(ctx, prefix, n_prefix, &(struct vc_npy_header){0}); /* too short to be right: says why */
    }
    VC_CALL_ALLOC(text = vc_alloc(ctx, VC_TAG_IO, *n));
    memcpy(text, prefix, n_prefix);
    VC_CALL(vc_inflate_read(ctx, inflate, text + n_prefix, *n - n_prefix));
    *crc = vc_crc32(0, text, *n);
    return note_array(ctx, o, index, text, *n);
}

/* A deflated member: inflates its beginning from `head` and, where that is not enough, from the file. */
static enum vc_status open_deflated(struct vc_ctx *ctx, struct opening *o, size_t index, const unsigned char *head,
                                    size_t n_head)
{
    const struct vc_zip_entry *entry = o->self->members[index].entry;
    unsigned char prefix[VC_NPY_PREFIX_BYTES];
    unsigned char buffer[1024];
    size_t n_prefix = (size_t)vc_min_u64(sizeof prefix, entry->size_bytes);
    size_t n = 0;
    struct vc_zip_fill fill = {.file = o->self->file,
                               .head = head,
                               .n_head = n_head,
                               .offset = entry->data_offset + n_head,
                               .left = entry->packed_bytes - n_head,
                               .buffer = buffer,
                               .buffer_bytes = sizeof buffer};
    struct vc_inflate *inflate = NULL;
    uint32_t crc = 0;
    enum vc_status status;

    VC_TRY(vc_inflate_open(ctx, vc_zip_fill_next, &fill, &inflate));
    VC_TRY(vc_inflate_read(ctx, inflate, prefix, n_prefix));
    if (is_magic(prefix, n_prefix)) {
        VC_TRY(inflate_header(ctx, o, index, inflate, prefix, n_prefix, &crc, &n));
    } else {
        VC_TRY(note_raw(ctx, o, index));
    }
    if (n == entry->size_bytes) {
        VC_TRY(vc_zip_inflate_finish(ctx, inflate, &fill, entry, crc));
    }
out:
    vc_inflate_close(ctx, inflate);
    return status;
}

/* Decides what a member is. */
static enum vc_status read_member(struct vc_ctx *ctx, struct opening *o, size_t index, const unsigned char *head,
                                  size_t n)
{
    struct npz_member *member = &o->self->members[index];

    if (strcmp(member->entry->name, VC_MANIFEST_NAME) == 0) {
        VC_REFUSE_IF(o->manifest != VC_NO_TENSOR, ctx, VC_E_FORMAT, "occurs twice");
        o->manifest = index;
        member->kind = NPZ_MANIFEST;
        return VC_OK;
    }
    VC_REFUSE_IF(has_suffix(member->entry) && member->entry->name_bytes == SUFFIX_BYTES, ctx, VC_E_FORMAT,
                 "has no name before .npy");
    return member->entry->method == VC_ZIP_STORED ? open_stored(ctx, o, index, head, n)
                                                  : open_deflated(ctx, o, index, head, n);
}

/* Called by vc_zip_visit for each member, in the order of the file. With findings, a member that cannot be read is left
 * out. */
static enum vc_status open_member(struct vc_ctx *ctx, void *user, size_t index, const unsigned char *head, size_t n)
{
    struct opening *o = user;
    enum vc_status status = read_member(ctx, o, index, head, n);

    if (status != VC_OK) {
        o->self->members[index].kind = NPZ_BROKEN;
        status = vc_zip_collect(ctx, status, "header", &o->self->zip.entries[index]);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ tensors */

/* The member becomes a tensor. The name is cut in place: the tensor has it without ".npy". */
static void fill_tensor(struct npz_member *member, const struct tensor_head *head, const uint64_t *shape,
                        struct vc_tensor *tensor, struct vc_tensor_io *io)
{
    const struct vc_zip_entry *entry = member->entry;

    member->bare_name = !has_suffix(entry);
    if (!member->bare_name) {
        entry->name[entry->name_bytes - SUFFIX_BYTES] = '\0';
    }
    member->data.shape = shape;
    tensor->name = entry->name;
    tensor->dtype = head->dtype;
    tensor->n_dims = head->n_dims;
    tensor->shape = shape;
    tensor->n_elems = head->n_elems;
    tensor->size_bytes = entry->size_bytes - member->header_bytes;
    tensor->file_bytes = entry->end_offset - entry->local_offset + entry->central_bytes;
    tensor->compressed = entry->method != VC_ZIP_STORED;
    tensor->part_of = VC_NO_TENSOR;
    tensor->alias_of = VC_NO_TENSOR;
    tensor->kept_as = head->kept_as;
    tensor->role = head->kept_as != NULL ? VC_ROLE_OTHER : VC_ROLE_WEIGHT;
    io->sequential = tensor->compressed && !member->spool;
    io->raw_bytes = entry->size_bytes;
}

/* Members become tensors, in the order of the directory; broken ones and the manifest leave the list, so that
 * afterwards member i is tensor i. Members are moved with memcpy, which is fine before any thread reads them. */
static enum vc_status make_tensors(struct vc_ctx *ctx, struct opening *o, struct vc_model *model)
{
    struct npz *self = o->self;
    bool broken = false;
    size_t n = 0;
    enum vc_status status = VC_OK;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, self->n_members));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->io, self->n_members));
    for (size_t i = 0; i < self->n_members; i++) {
        VC_CALL(vc_check_cancelled(ctx));
        broken = broken || self->members[i].kind == NPZ_BROKEN;
        if (i == o->manifest || self->members[i].kind == NPZ_BROKEN) {
            continue;
        }
        if (n != i) {
            memcpy(&self->members[n], &self->members[i], sizeof self->members[n]);
        }
        fill_tensor(&self->members[n], &o->heads[i], self->shapes + o->shape_at[i], &model->tensors[n], &model->io[n]);
        n++;
    }
    self->n_members = n;
    model->n_tensors = n;
    VC_REFUSE_IF(n > 0 && o->n_arrays == 0 && !broken, ctx, VC_E_UNSUPPORTED,
                 "is a zip archive without any npy array, so no npz checkpoint");
    status = vc_model_index_names(ctx, model);
    if (status == VC_E_FORMAT) {
        vc_context(ctx, "two members give one name");
    }
    return status;
}

/* The manifest tells which tensors are codes and which are their scales (formats/dialects/manifest/manifest.h). */
static enum vc_status read_manifest(struct vc_ctx *ctx, const struct npz *self, const struct vc_zip_entry *entry,
                                    struct vc_model *model)
{
    unsigned char *text = NULL;
    size_t n = (size_t)entry->size_bytes;
    enum vc_status status = VC_OK;

    if (entry->size_bytes > VC_MANIFEST_MAX_BYTES) {
        VC_TRY(vc_fail(ctx, VC_E_FORMAT, "%" PRIu64 " bytes, more than the %zu that are allowed", entry->size_bytes,
                       VC_MANIFEST_MAX_BYTES));
    }
    VC_TRY_ALLOC(text = vc_alloc(ctx, VC_TAG_IO, n));
    VC_TRY(vc_zip_read_member(ctx, self->file, entry, text, NULL));
    VC_TRY(vc_manifest_apply(ctx, (char *)text, n, model));
out:
    vc_free(ctx, text);
    return status == VC_OK ? VC_OK : vc_context(ctx, "member '%s'", VC_MANIFEST_NAME);
}

/* ------------------------------------------------------------------------------------------------ open, close */

/* Walks over the members, makes the tensors, then applies the manifest; without one the names tell what is quantized.
 */
static enum vc_status open_members(struct vc_ctx *ctx, struct npz *self, const struct vc_open_options *options,
                                   struct vc_model *model)
{
    struct opening o = {.self = self, .void_as = options->void_as, .manifest = VC_NO_TENSOR};
    size_t n = self->zip.n;
    enum vc_status status = VC_OK;

    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, self->members, n));
    self->n_members = n;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, o.shape_at, n));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, o.heads, n));
    for (size_t i = 0; i < n; i++) {
        self->members[i].entry = &self->zip.entries[i];
    }
    VC_TRY(vc_zip_visit(ctx, self->file, &self->zip, open_member, &o));
    VC_TRY(make_tensors(ctx, &o, model));
    model->unlisted_bytes = o.unlisted_bytes;
    if (o.manifest != VC_NO_TENSOR) {
        status = read_manifest(ctx, self, &self->zip.entries[o.manifest], model);
        VC_TRY(vc_collect(ctx, status, "manifest", NULL));
    } else {
        VC_TRY(vc_manifest_infer(ctx, model, false));
    }
out:
    VC_FREE_ALL(ctx, o.heads, o.shape_at);
    return status;
}

/* vc_source_ops.close. */
static void npz_close(struct vc_model *model)
{
    struct vc_ctx *ctx = model->ctx;
    struct npz *self = model->self;

    vc_spool_release(&self->spool);
    vc_infile_close(ctx, self->file);
    vc_zip_close(ctx, &self->zip);
    VC_FREE_ALL(ctx, self->members, self->shapes, self, model->tensors, model->io);
}

static const struct vc_source_ops npz_ops = {.read = vc_npz_read,
                                             .ahead = vc_npz_ahead,
                                             .stream_open = vc_npz_stream_open,
                                             .stream_read = vc_npz_stream_read,
                                             .stream_close = vc_npz_stream_close,
                                             .stream_bytes = vc_npz_stream_bytes,
                                             .close = npz_close};

/* vc_format.probe_zip: any archive that no other format knows. Whether there are arrays in it is told from the members'
 * own first bytes when they are read. */
static int npz_probe_zip(const struct vc_zip *zip)
{
    return 10;
}

/* vc_format.open_zip; takes over file and zip. */
static enum vc_status npz_open_zip(struct vc_ctx *ctx, struct vc_infile *file, struct vc_zip *zip,
                                   const struct vc_open_options *options, struct vc_model *model)
{
    struct npz *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);

    if (self == NULL) {
        vc_infile_close(ctx, file);
        vc_zip_close(ctx, zip);
        return VC_E_NOMEM;
    }
    self->file = file;
    self->zip = *zip;
    vc_spool_init(&self->spool);
    model->self = self;
    model->ops = &npz_ops; /* from here on vc_model_close frees everything */
    return open_members(ctx, self, options, model);
}

const struct vc_format vc_format_npz = {.name = "npz",
                                        .title = "npz",
                                        .extensions = (const char *const[]){".npz", NULL},
                                        .probe_zip = npz_probe_zip,
                                        .open_zip = npz_open_zip,
                                        .create_sink = vc_npz_sink_create,
                                        .dialect = &vc_dialect_plain,
                                        .loader = &vc_npz_loader};
