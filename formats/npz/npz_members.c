/* npz_members.c - what stored and deflated archives share: names and places of the members, their headers, the manifest,
 * the directory. npz_write.c and npz_deflate.c have the two sinks.
 *
 *     local header | npy header | values | local header | ... | manifest | central directory | end records
 *                  ^ at a multiple of 64
 *
 * Places of stored members are known before anything is written (vc_npz_place), so that any thread can write any tile;
 * deflated members get theirs as they are written (npz_deflate.c). */

#include "formats/dialects/dialects.h"
#include "formats/dialects/manifest/manifest.h"
#include "formats/npz/npy_write.h"
#include "formats/npz/npz_internal.h"
#include "formats/npz/npz_sink.h"

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
        struct vc_zip_member *zip = &self->archive.members[i].zip;
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
    size_t n = self->archive.n;
    VC_SCOPED const char **names = vc_alloc_array(ctx, VC_TAG_NAMES, n + 1, sizeof *names);
    size_t twice;

    VC_CALL_ALLOC(names);
    for (size_t i = 0; i < n; i++) {
        names[i] = self->archive.members[i].zip.name;
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

/* Gives each member its place: one behind the other, the npy header of each at a multiple of 64. */
static enum vc_status place_members(struct vc_ctx *ctx, struct npz_sink *self)
{
    for (size_t i = 0; i < self->outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(self->outs, i);
        struct vc_zip_out *member = &self->archive.members[i];
        struct vc_zip_member *zip = &member->zip;
        bool fits;

        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(measure_header(ctx, &out, &member->front_bytes));
        fits = vc_add_u64(out.size_bytes, member->front_bytes, &zip->size_bytes);
        zip->method = VC_ZIP_METHOD_STORED;
        zip->packed_bytes = zip->size_bytes;
        VC_REFUSE_IF(!fits || !vc_zip_lay(&self->archive, zip), ctx, VC_E_UNSUPPORTED,
                     "%s: the output would be larger than 2^63 bytes", out.name);
    }
    return VC_OK;
}

/* vc_sink_ops.layout of both sinks up to the places. */
enum vc_status vc_npz_place(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs)
{
    struct npz_sink *self = sink->self;

    self->outs = outs;
    vc_plain_note_outs(outs, &sink->loader);
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->archive.members, outs->n + 1));
    VC_CALL(name_members(ctx, self));
    VC_CALL(vc_manifest_write(ctx, outs, &self->manifest));
    VC_CALL(self->manifest.status);
    self->archive.n = outs->n + (self->manifest.n != 0);
    self->archive.members[outs->n].zip = (struct vc_zip_member){.name = VC_MANIFEST_NAME,
                                                                .name_bytes = strlen(VC_MANIFEST_NAME),
                                                                .method = VC_ZIP_METHOD_STORED,
                                                                .size_bytes = self->manifest.n,
                                                                .packed_bytes = self->manifest.n};
    VC_CALL(refuse_same_names(ctx, self));
    VC_CALL(place_members(ctx, self));
    sink->memory_bytes = VC_ZIP_DIRECTORY_BUFFER;
    return VC_OK;
}

/* ---- headers and directory ---- */

/* Raw members bring their header themselves: front_bytes is 0, and nothing is made. */
void vc_npz_make_header(const struct npz_sink *self, size_t out, unsigned char *dst)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);

    if (self->archive.members[out].front_bytes != 0) {
        (void)write_header(&t, dst, self->archive.members[out].front_bytes);
    }
}

/* with_header: stored members; the headers of deflated ones are in their data. */
enum vc_status vc_npz_complete_member(struct vc_ctx *ctx, struct npz_sink *self, size_t out, bool with_header)
{
    struct vc_zip_out *member = &self->archive.members[out];
    unsigned char header[VC_NPY_WRITE_MAX];

    vc_npz_make_header(self, out, header);
    VC_CALL(vc_zip_check_pieces(ctx, member, header, vc_out_at(self->outs, out).name));
    return vc_zip_put_head(ctx, &self->archive, &member->zip, header, with_header ? member->front_bytes : 0);
}

/* The manifest is the last member. */
enum vc_status vc_npz_sink_close_archive(struct vc_ctx *ctx, struct npz_sink *self, uint64_t offset,
                                         uint64_t *file_bytes)
{
    struct vc_zip_member *zip = &self->archive.members[self->outs->n].zip;

    if (self->manifest.n != 0) {
        (void)vc_zip_place(zip, offset, zip->size_bytes); /* far below 2^64 */
        VC_CALL(vc_zip_put_whole(ctx, &self->archive, zip, self->manifest.data));
        offset = zip->data_offset + zip->size_bytes;
    }
    return vc_zip_put_directory(ctx, &self->archive, offset, file_bytes);
}

/* ---- entries of both sinks ---- */

void vc_npz_sink_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct npz_sink *self = sink->self;

    (void)pthread_cond_destroy(&self->decided);
    (void)pthread_mutex_destroy(&self->mutex);
    vc_text_release(&self->manifest);
    VC_FREE_ALL(ctx, self->names, self->archive.members);
    vc_file_sink_free(ctx, sink);
}

/* vc_sink_ops.can_hold: what NumPy has, and members that are no arrays. */
bool vc_npz_sink_can_hold(const struct vc_sink *sink, enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_RAW || vc_npy_has(dtype);
}
