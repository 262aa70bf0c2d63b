/* npz_members.c - what stored and deflated archives share: names and places of the members, their headers, the manifest,
 * the directory. npz_write.c and npz_deflate.c have the two sinks.
 *
 *     local header | npy header | values | local header | ... | manifest | central directory | end records
 *                  ^ at a multiple of 64
 *
 * Places of stored members are known before anything is written (vc_npz_place), so that any thread can write any tile;
 * deflated members get theirs as they are written (npz_deflate.c). */

#include "core/base/checked.h"
#include "formats/dialects/dialects.h"
#include "formats/dialects/manifest/manifest.h"
#include "formats/npz/npz_internal.h"
#include "formats/npz/npz_sink.h"

#define VC_DIRECTORY_BUFFER_BYTES ((size_t)128 << 10) /* more than the largest record */

/* At that offset of the output, from any thread. */
enum vc_status vc_npz_put(struct vc_ctx *ctx, struct npz_sink *self, uint64_t offset, const void *data, size_t n)
{
    return vc_outfile_write(ctx, self->file, offset, data, n);
}

/* ---- names ---- */

/* True for a member that does not get ".npy" behind its name: no array, or one that is copied as it is and had none.
 * Text and the like are no arrays here, but their members may have had it. */
static bool has_bare_name(const struct npz_sink *self, struct vc_out_tensor out)
{
    const struct npz_member *from = self->source != NULL ? &self->source->members[out.source] : NULL;

    if (out.dtype == VC_DTYPE_RAW) {
        return from == NULL || from->kind != NPZ_RAW || from->bare_name;
    }
    return out.form == VC_FORM_RAW && from != NULL && from->bare_name;
}

/* Names of all members, one after the other in one block. */
static enum vc_status name_members(struct vc_ctx *ctx, struct npz_sink *self)
{
    const struct vc_out_list *outs = self->outs;
    size_t total = 0;

    for (size_t i = 0; i < outs->n; i++) {
        VC_CALL(vc_check_cancelled(ctx));
        total += strlen(vc_out_at(outs, i).name) + sizeof ".npy";
    }
    VC_CALL_ALLOC(self->names = vc_alloc(ctx, VC_TAG_NAMES, total));
    char *at = self->names;
    for (size_t i = 0; i < outs->n; i++) {
        struct vc_zip_member *zip = &self->members[i].zip;
        size_t n = strlen(vc_out_at(outs, i).name);

        memcpy(at, vc_out_at(outs, i).name, n);
        memcpy(at + n, ".npy", sizeof ".npy");
        VC_REFUSE_IF(n == 0, ctx, VC_E_UNSUPPORTED, "tensor %zu has an empty name, which an npz cannot hold", i);
        n += has_bare_name(self, vc_out_at(outs, i)) ? 0 : 4;
        at[n] = '\0';
        VC_REFUSE_IF(n > VC_ZIP_MAX_NAME, ctx, VC_E_UNSUPPORTED, "the name of tensor %zu has %zu bytes; zip allows %zu",
                     i, n, VC_ZIP_MAX_NAME);
        zip->name = at;
        zip->name_bytes = n;
        at += n + 1;
    }
    return VC_OK;
}

/* Two members of one name: "w" and "w.scale" are in the source, and "w" is quantized, which gives a second "w.scale".
 */
static enum vc_status refuse_same_names(struct vc_ctx *ctx, struct npz_sink *self)
{
    size_t n = self->outs->n;
    VC_SCOPED const char **names = vc_alloc_array(ctx, VC_TAG_NAMES, n + 1, sizeof *names);
    size_t twice;

    VC_CALL_ALLOC(names);
    for (size_t i = 0; i < n; i++) {
        names[i] = self->members[i].zip.name;
    }
    if (self->manifest.n != 0) {
        names[n++] = self->manifest_zip.name;
    }
    VC_CALL(vc_names_unique(ctx, VC_NAME_LIST(names, sizeof *names), n, &twice));
    VC_REFUSE_IF(twice != SIZE_MAX, ctx, VC_E_UNSUPPORTED, "the output would hold two members named %s", names[twice]);
    return VC_OK;
}

/* ---- places ---- */

/* The npy header of an output. Returns its length; writes it where dst is not NULL. */
static size_t write_header(const struct vc_out_tensor *out, unsigned char *dst, size_t capacity)
{
    uint64_t bytes[2];

    return vc_plain_is_bytes(out, bytes) ? vc_npy_write(dst, capacity, VC_DTYPE_U8, 2, bytes)
                                         : vc_npy_write(dst, capacity, vc_plain_type(out), out->n_dims, out->shape);
}

/* Bytes of the npy header that we write before an array; raw outputs bring their own. */
static enum vc_status measure_header(struct vc_ctx *ctx, const struct vc_out_tensor *out, size_t *header_bytes)
{
    *header_bytes = 0;
    if (out->form == VC_FORM_RAW || out->dtype == VC_DTYPE_RAW) {
        return VC_OK;
    }
    *header_bytes = write_header(out, NULL, 0);
    return vc_npy_has_type(ctx, out->name, out->dtype, *header_bytes);
}

/* Bytes of the npy header that a raw member brings. What is in front of the values: the member's size without the bytes
 * of its elements. */
static uint32_t own_header_bytes(const struct vc_out_tensor *out)
{
    uint64_t n = 1;

    if (out->form != VC_FORM_RAW || out->dtype == VC_DTYPE_RAW || out->dtype == VC_DTYPE_VOID) {
        return 0;
    }
    for (unsigned d = 0; d < out->n_dims; d++) {
        n *= out->shape[d];
    }
    n = vc_dtype_bytes(out->dtype, n);
    return n < out->size_bytes && out->size_bytes - n <= UINT32_MAX ? (uint32_t)(out->size_bytes - n) : 0;
}

/* Gives each member its place: one behind the other, the npy header of each at a multiple of 64. *end: behind the last.
 */
static enum vc_status place_members(struct vc_ctx *ctx, struct npz_sink *self, uint64_t *end)
{
    *end = 0;
    for (size_t i = 0; i < self->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(self->outs, i);
        struct npz_out *member = &self->members[i];

        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(measure_header(ctx, &out, &member->header_bytes));
        member->own_header = own_header_bytes(&out);
        VC_REFUSE_IF(!vc_add_u64(out.size_bytes, member->header_bytes, &member->zip.size_bytes) ||
                         !vc_zip_place(&member->zip, *end, member->zip.size_bytes) ||
                         !vc_add_u64(member->zip.data_offset, member->zip.size_bytes, end) || *end > INT64_MAX,
                     ctx, VC_E_UNSUPPORTED, "%s: the output would be larger than 2^63 bytes", out.name);
        member->zip.method = VC_ZIP_METHOD_STORED;
        member->zip.packed_bytes = member->zip.size_bytes;
    }
    return VC_OK;
}

/* The manifest is the last member; its text is known already, so its CRC is, too. */
static void place_manifest(struct npz_sink *self, uint64_t *end)
{
    struct vc_zip_member *zip = &self->manifest_zip;

    if (self->manifest.n == 0) {
        return;
    }
    zip->method = VC_ZIP_METHOD_STORED;
    zip->size_bytes = self->manifest.n;
    zip->packed_bytes = self->manifest.n;
    zip->crc = vc_crc32(0, self->manifest.data, self->manifest.n);
    (void)vc_zip_place(zip, *end, zip->size_bytes); /* far below 2^64 */
    *end = zip->data_offset + zip->size_bytes;
}

/* Bytes of directory and end records, when members end at `offset`. The end records grow where offset or number need
 * zip64. */
static uint64_t closing_bytes(const struct npz_sink *self, uint64_t offset)
{
    uint64_t directory = 0;

    for (size_t i = 0; i < self->outs->n; i++) {
        directory += vc_zip_central_bytes(&self->members[i].zip);
    }
    if (self->manifest.n != 0) {
        directory += vc_zip_central_bytes(&self->manifest_zip);
    }
    return directory + vc_zip_end_bytes(self->outs->n + (self->manifest.n != 0), offset, directory);
}

/* vc_sink_ops.layout of both sinks up to the places. *end: behind the last member. */
enum vc_status vc_npz_place(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs, uint64_t *end)
{
    struct npz_sink *self = sink->self;

    self->outs = outs;
    vc_plain_note_outs(outs, &sink->loader);
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->members, outs->n));
    VC_CALL(name_members(ctx, self));
    VC_CALL(vc_manifest_write(ctx, outs, &self->manifest));
    VC_CALL(self->manifest.status);
    self->manifest_zip.name = VC_MANIFEST_NAME;
    self->manifest_zip.name_bytes = strlen(VC_MANIFEST_NAME);
    VC_CALL(refuse_same_names(ctx, self));
    VC_CALL(place_members(ctx, self, end));
    sink->memory_bytes = VC_DIRECTORY_BUFFER_BYTES;
    return VC_OK;
}

/* The size of the file whose members end there. */
uint64_t vc_npz_archive_bytes(struct npz_sink *self, uint64_t end)
{
    place_manifest(self, &end);
    return end + closing_bytes(self, end);
}

/* ---- headers and directory ---- */

/* Raw members bring their header themselves: header_bytes is 0, and nothing is made. */
void vc_npz_make_header(const struct npz_sink *self, size_t out, unsigned char *dst)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);

    if (self->members[out].header_bytes != 0) {
        (void)write_header(&t, dst, self->members[out].header_bytes);
    }
}

/* The CRC of a member is that of its npy header, moved past the values, XOR what the pieces contributed. CRC-32 is
 * linear: the CRC of a whole is the XOR of its pieces' CRCs, each moved to its place (vc_crc32_place), so that pieces
 * may come in any order. with_header: stored members; the headers of deflated ones are in their data. */
enum vc_status vc_npz_complete_member(struct vc_ctx *ctx, struct npz_sink *self, size_t out, uint64_t packed_bytes,
                                      bool with_header)
{
    struct npz_out *member = &self->members[out];
    const struct vc_out_tensor t = vc_out_at(self->outs, out);
    size_t local_bytes = (size_t)(member->zip.data_offset - member->zip.local_offset);
    VC_SCOPED unsigned char *block = NULL;

    VC_REFUSE_IF(atomic_load(&member->got) != t.size_bytes, ctx, VC_E_INTERNAL,
                 "%s: %" PRIu64 " of %" PRIu64 " bytes were written", t.name, (uint64_t)atomic_load(&member->got),
                 t.size_bytes);
    VC_CALL_ALLOC(block = vc_alloc(ctx, VC_TAG_IO, local_bytes + member->header_bytes));
    vc_npz_make_header(self, out, block + local_bytes);
    member->zip.size_bytes = t.size_bytes + member->header_bytes;
    member->zip.packed_bytes = packed_bytes;
    member->zip.crc = atomic_load(&member->crc) ^
                      vc_crc32_place(vc_crc32(0, block + local_bytes, member->header_bytes), t.size_bytes);
    vc_zip_put_local(&member->zip, block);
    VC_CALL(
        vc_npz_put(ctx, self, member->zip.local_offset, block, local_bytes + (with_header ? member->header_bytes : 0)));
    return VC_OK;
}

static enum vc_status write_manifest(struct vc_ctx *ctx, struct npz_sink *self)
{
    const struct vc_zip_member *zip = &self->manifest_zip;
    unsigned char local[VC_ZIP_LOCAL_MAX + sizeof VC_MANIFEST_NAME];

    vc_zip_put_local(zip, local);
    VC_CALL(vc_npz_put(ctx, self, zip->local_offset, local, (size_t)(zip->data_offset - zip->local_offset)));
    return vc_npz_put(ctx, self, zip->data_offset, self->manifest.data, self->manifest.n);
}

/* Manifest, directory, end records; the directory goes through a buffer, because there may be a million members. */
enum vc_status vc_npz_sink_close_archive(struct vc_ctx *ctx, struct npz_sink *self, uint64_t offset,
                                         uint64_t *file_bytes)
{
    VC_SCOPED unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, VC_DIRECTORY_BUFFER_BYTES);
    uint64_t n_members = self->outs->n + (self->manifest.n != 0);
    uint64_t start, at;
    size_t n = 0;

    VC_CALL_ALLOC(buffer);
    place_manifest(self, &offset);
    if (self->manifest.n != 0) {
        VC_CALL(write_manifest(ctx, self));
    }
    start = offset;
    at = offset;
    for (uint64_t i = 0; i < n_members; i++) {
        const struct vc_zip_member *zip = i < self->outs->n ? &self->members[i].zip : &self->manifest_zip;

        if (n + vc_zip_central_bytes(zip) + VC_ZIP_END_MAX > VC_DIRECTORY_BUFFER_BYTES) {
            VC_CALL(vc_npz_put(ctx, self, at, buffer, n));
            at += n;
            n = 0;
        }
        n += vc_zip_put_central(zip, buffer + n);
    }
    n += vc_zip_put_end(n_members, start, at + n - start, buffer + n);
    VC_CALL(vc_npz_put(ctx, self, at, buffer, n));
    *file_bytes = at + n;
    return vc_outfile_sync(ctx, self->file);
}

/* ---- entries of both sinks ---- */

enum vc_status vc_npz_sink_commit(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct npz_sink *self = sink->self;

    return vc_outfile_commit(ctx, self->file);
}

void vc_npz_sink_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct npz_sink *self = sink->self;

    (void)pthread_cond_destroy(&self->decided);
    (void)pthread_mutex_destroy(&self->mutex);
    vc_outfile_free(ctx, self->file);
    vc_text_release(&self->manifest);
    vc_free(ctx, self->names);
    vc_free(ctx, self->members);
    vc_free(ctx, self);
    vc_free(ctx, sink);
}

/* vc_sink_ops.can_hold: what NumPy has, and members that are no arrays. */
bool vc_npz_sink_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_RAW || vc_npy_has(dtype);
}
