/* zip_sink.c - see zip_sink.h. */
#include "formats/zip/zip_sink.h"

#include "formats/zip/codec.h"

/* ---- layout ---- */

bool vc_zip_lay(struct vc_zip_archive *archive, struct vc_zip_member *zip)
{
    if (!vc_zip_place(zip, archive->end, vc_max_u64(zip->size_bytes, zip->packed_bytes)) ||
        !vc_add_u64(zip->data_offset, zip->packed_bytes, &archive->end) || archive->end > INT64_MAX) {
        return false;
    }
    archive->n_laid++;
    archive->directory_bytes += vc_zip_central_bytes(zip);
    return true;
}

uint64_t vc_zip_archive_bytes(const struct vc_zip_archive *archive)
{
    return archive->end + archive->directory_bytes +
           vc_zip_end_bytes(archive->n_laid, archive->end, archive->directory_bytes);
}

/* ---- members ---- */

enum vc_status vc_zip_put_head(struct vc_ctx *ctx, const struct vc_zip_archive *archive,
                               const struct vc_zip_member *zip, const void *data, size_t n)
{
    size_t local_bytes = (size_t)(zip->data_offset - zip->local_offset);
    VC_SCOPED unsigned char *block = vc_alloc(ctx, VC_TAG_IO, local_bytes + n);

    VC_CALL_ALLOC(block);
    vc_zip_put_local(zip, block);
    if (n != 0) {
        memcpy(block + local_bytes, data, n);
    }
    return vc_outfile_write(ctx, archive->file, zip->local_offset, block, local_bytes + n);
}

enum vc_status vc_zip_put_whole(struct vc_ctx *ctx, const struct vc_zip_archive *archive, struct vc_zip_member *zip,
                                const void *data)
{
    zip->crc = vc_crc32(0, data, (size_t)zip->size_bytes);
    VC_CALL(vc_zip_put_head(ctx, archive, zip, NULL, 0));
    return vc_outfile_write(ctx, archive->file, zip->data_offset, data, (size_t)zip->size_bytes);
}

enum vc_status vc_zip_check_pieces(struct vc_ctx *ctx, struct vc_zip_out *member, const void *front, const char *name)
{
    uint64_t n_bytes = member->zip.size_bytes - member->front_bytes;
    uint64_t got = atomic_load(&member->got);

    VC_REFUSE_IF(got != n_bytes, ctx, VC_E_INTERNAL, "%s: %" PRIu64 " of %" PRIu64 " bytes were written", name, got,
                 n_bytes);
    member->zip.crc = atomic_load(&member->crc) ^ vc_crc32_place(vc_crc32(0, front, member->front_bytes), n_bytes);
    return VC_OK;
}

/* ---- the end ---- */

enum vc_status vc_zip_put_directory(struct vc_ctx *ctx, const struct vc_zip_archive *archive, uint64_t offset,
                                    uint64_t *file_bytes)
{
    VC_SCOPED unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, VC_ZIP_DIRECTORY_BUFFER);
    uint64_t at = offset;
    uint64_t n_members = 0;
    size_t n = 0;

    VC_CALL_ALLOC(buffer);
    for (size_t i = 0; i < archive->n; i++) {
        const struct vc_zip_member *zip = &archive->members[i].zip;

        if (zip->name == NULL) {
            continue;
        }
        if (n + vc_zip_central_bytes(zip) + VC_ZIP_END_MAX > VC_ZIP_DIRECTORY_BUFFER) {
            VC_CALL(vc_outfile_write(ctx, archive->file, at, buffer, n));
            at += n;
            n = 0;
        }
        n += vc_zip_put_central(zip, buffer + n);
        n_members++;
    }
    n += vc_zip_put_end(n_members, offset, at + n - offset, buffer + n);
    VC_CALL(vc_outfile_write(ctx, archive->file, at, buffer, n));
    *file_bytes = at + n;
    return vc_outfile_sync(ctx, archive->file);
}

/* ---- pieces ---- */

/* The member of a packet. */
static struct vc_zip_out *member_of(const struct vc_zip_archive *archive, const struct vc_packet *packet)
{
    return &archive->members[archive->first + packet->out];
}

/* Runs on any thread. */
enum vc_status vc_zip_sink_pack(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet)
{
    const struct vc_zip_archive *archive = sink->self;
    const struct vc_zip_out *member = member_of(archive, packet);
    uint64_t n_after = member->zip.size_bytes - member->front_bytes - packet->offset - packet->n_bytes;

    packet->check = archive->file == NULL ? 0 : vc_crc32_place(vc_crc32(0, packet->data, packet->n_bytes), n_after);
    return VC_OK;
}

/* Counts the piece and writes it. Runs on any thread. */
enum vc_status vc_zip_sink_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    const struct vc_zip_archive *archive = sink->self;
    struct vc_zip_out *member = member_of(archive, packet);

    atomic_fetch_xor_explicit(&member->crc, (unsigned)packet->check, memory_order_relaxed);
    atomic_fetch_add_explicit(&member->got, packet->n_plain, memory_order_relaxed);
    return vc_outfile_write(ctx, archive->file, member->zip.data_offset + member->front_bytes + packet->offset,
                            packet->data, packet->n_bytes);
}
