/* zip_data.c - see zip_data.h.
 *
 * Stored members are read where they lie. Deflated ones can be read from the front only: into memory
 * (vc_zip_read_member), through (vc_zip_check_member), or once into a temporary file, the spool, which is then read by
 * range (vc_spool_need). Each of the three compares the CRC of the directory. */
#include "formats/zip/zip_data.h"

#include <unistd.h>

#include "formats/io/outfile.h"

/* ------------------------------------------------------------------------------------------------ inflate */

/* First the bytes that were read with the header, then blocks of the file up to the member's end. */
enum vc_status vc_zip_fill_next(struct vc_ctx *ctx, void *user, const unsigned char **data, size_t *n)
{
    struct vc_zip_fill *fill = user;

    *data = fill->head;
    *n = fill->n_head;
    if (fill->n_head > 0) {
        fill->n_head = 0;
        return VC_OK;
    }
    *n = (size_t)vc_min_u64(fill->left, fill->buffer_bytes);
    *data = fill->buffer;
    VC_CALL(vc_infile_read(ctx, fill->file, fill->offset, fill->buffer, *n));
    fill->offset += *n;
    fill->left -= *n;
    return VC_OK;
}

/* CRC-32 of the bytes before they were deflated. */
enum vc_status vc_zip_compare_crc(struct vc_ctx *ctx, const struct vc_zip_entry *entry, uint32_t crc)
{
    VC_REFUSE_IF(crc != entry->crc, ctx, VC_E_FORMAT,
                 "the data is damaged: its CRC-32 is %08" PRIx32 ", the directory says %08" PRIx32, crc, entry->crc);
    return VC_OK;
}

/* A stream that ends before its member does would leave bytes that another reader might look at. */
enum vc_status vc_zip_inflate_finish(struct vc_ctx *ctx, struct vc_inflate *inflate, const struct vc_zip_fill *fill,
                                     const struct vc_zip_entry *entry, uint32_t crc)
{
    size_t n_unused = 0;

    VC_CALL(vc_inflate_end(ctx, inflate, &n_unused));
    VC_REFUSE_IF(n_unused != 0 || fill->n_head != 0 || fill->left != 0, ctx, VC_E_FORMAT,
                 "%" PRIu64 " stray bytes after the deflated data", n_unused + fill->n_head + fill->left);
    return vc_zip_compare_crc(ctx, entry, crc);
}

/* The checksum that the rest goes on with: a wrong one is either noted here, or left to be an error. crc_wrong NULL: an
 * error. Else verify hears of it, and goes on with the data. */
static uint32_t note_crc(const struct vc_zip_entry *entry, uint32_t crc, bool *crc_wrong)
{
    if (crc_wrong == NULL) {
        return crc;
    }
    *crc_wrong = crc != entry->crc;
    return entry->crc;
}

/* Into memory at once: for small members (manifests, pickles) and those that are needed whole. */
enum vc_status vc_zip_read_member(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_zip_entry *entry,
                                  unsigned char *dst, bool *crc_wrong)
{
    size_t n = (size_t)entry->size_bytes;
    struct vc_inflate *inflate = NULL;
    struct vc_zip_fill fill = {
        .file = file, .offset = entry->data_offset, .left = entry->packed_bytes, .buffer_bytes = VC_ZIP_BLOCK_BYTES};
    enum vc_status status;

    if (entry->method == VC_ZIP_STORED) {
        VC_TRY(vc_infile_read(ctx, file, entry->data_offset, dst, n));
        VC_TRY(vc_zip_compare_crc(ctx, entry, note_crc(entry, vc_crc32(0, dst, n), crc_wrong)));
        goto out;
    }
    VC_TRY_ALLOC(fill.buffer = vc_alloc(ctx, VC_TAG_IO, VC_ZIP_BLOCK_BYTES));
    VC_TRY(vc_inflate_open(ctx, vc_zip_fill_next, &fill, &inflate));
    VC_TRY(vc_inflate_read(ctx, inflate, dst, n));
    VC_TRY(vc_zip_inflate_finish(ctx, inflate, &fill, entry, note_crc(entry, vc_crc32(0, dst, n), crc_wrong)));
out:
    vc_inflate_close(ctx, inflate);
    vc_free(ctx, fill.buffer);
    return status;
}

/* ------------------------------------------------------------------------------------------------ spool */

/* The file is opened when the first member is unpacked. Its size is said to be endless, so that readers need no lock to
 * look at it. */
void vc_spool_init(struct vc_spool *spool)
{
    (void)pthread_mutex_init(&spool->lock, NULL);
    spool->file = (struct vc_infile){.fd = -1, .size_bytes = INT64_MAX};
    spool->end = 0;
}

void vc_spool_release(struct vc_spool *spool)
{
    if (spool->file.fd >= 0) {
        close(spool->file.fd);
    }
    (void)pthread_mutex_destroy(&spool->lock);
}

/* What a member needs while it is unpacked: two blocks and the inflater. */
size_t vc_spool_bytes(void)
{
    return 2 * VC_ZIP_BLOCK_BYTES + vc_inflate_bytes();
}

/* Appends to the spool file. */
static enum vc_status spool_write(struct vc_ctx *ctx, struct vc_spool *spool, const unsigned char *data, size_t n)
{
    VC_CALL(vc_tempfile_write(ctx, spool->file.fd, spool->end, data, n));
    spool->end += n;
    return VC_OK;
}

/* Inflates the whole member to the end of the spool file (NULL: to nowhere) and checks it. */
static enum vc_status inflate_to_spool(struct vc_ctx *ctx, struct vc_spool *spool, const struct vc_infile *file,
                                       const struct vc_zip_entry *entry, bool *crc_wrong)
{
    struct vc_zip_fill fill = {
        .file = file, .offset = entry->data_offset, .left = entry->packed_bytes, .buffer_bytes = VC_ZIP_BLOCK_BYTES};
    struct vc_inflate *inflate = NULL;
    unsigned char *plain = NULL;
    uint64_t left = entry->size_bytes;
    uint32_t crc = 0;
    enum vc_status status;

    VC_TRY_ALLOC(fill.buffer = vc_alloc(ctx, VC_TAG_IO, VC_ZIP_BLOCK_BYTES));
    VC_TRY_ALLOC(plain = vc_alloc(ctx, VC_TAG_IO, VC_ZIP_BLOCK_BYTES));
    VC_TRY(vc_inflate_open(ctx, vc_zip_fill_next, &fill, &inflate));
    while (left > 0) {
        size_t n = (size_t)vc_min_u64(left, VC_ZIP_BLOCK_BYTES);

        VC_TRY(vc_check_cancelled(ctx));
        VC_TRY(vc_inflate_read(ctx, inflate, plain, n));
        crc = vc_crc32(crc, plain, n);
        if (spool != NULL) {
            VC_TRY(spool_write(ctx, spool, plain, n));
        }
        left -= n;
    }
    VC_TRY(vc_zip_inflate_finish(ctx, inflate, &fill, entry, note_crc(entry, crc, crc_wrong)));
out:
    vc_inflate_close(ctx, inflate);
    VC_FREE_ALL(ctx, plain, fill.buffer);
    return status;
}

/* Reads a stored member through and compares its CRC. */
static enum vc_status check_stored(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_zip_entry *entry,
                                   bool *crc_wrong)
{
    VC_SCOPED unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, VC_ZIP_BLOCK_BYTES);
    uint64_t left = entry->size_bytes;
    uint64_t at = entry->data_offset;
    uint32_t crc = 0;

    VC_CALL_ALLOC(buffer);
    while (left > 0) {
        size_t n = (size_t)vc_min_u64(left, VC_ZIP_BLOCK_BYTES);

        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(vc_infile_read(ctx, file, at, buffer, n));
        crc = vc_crc32(crc, buffer, n);
        at += n;
        left -= n;
    }
    return vc_zip_compare_crc(ctx, entry, note_crc(entry, crc, crc_wrong));
}

/* A deflated member is inflated to nowhere. */
enum vc_status vc_zip_check_member(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_zip_entry *entry,
                                   bool *crc_wrong)
{
    return entry->method == VC_ZIP_STORED ? check_stored(ctx, file, entry, crc_wrong)
                                          : inflate_to_spool(ctx, NULL, file, entry, crc_wrong);
}

/* The lock is held while the member is inflated: others that want the same one wait, and find it done. *done is set
 * last, with release order: who sees it true may read at *offset without the lock. skip: bytes of the member in front
 * of the array. After a failure the spool's end goes back, so that the next member lies over what was written. */
enum vc_status vc_spool_need(struct vc_ctx *ctx, struct vc_spool *spool, const struct vc_infile *file,
                             const struct vc_zip_entry *entry, uint64_t skip, _Atomic bool *done, uint64_t *offset,
                             bool *crc_wrong)
{
    enum vc_status status = VC_OK;

    if (atomic_load_explicit(done, memory_order_acquire)) {
        return VC_OK;
    }
    (void)pthread_mutex_lock(&spool->lock);
    if (atomic_load_explicit(done, memory_order_acquire)) {
        goto out;
    }
    if (spool->file.fd < 0) {
        spool->file.fd = vc_tempfile_open(ctx);
        if (spool->file.fd < 0) {
            status = VC_E_IO;
            goto out;
        }
    }
    uint64_t start = spool->end;
    status = inflate_to_spool(ctx, spool, file, entry, crc_wrong);
    if (status != VC_OK) {
        spool->end = start;
        goto out;
    }
    *offset = start + skip;
    atomic_store_explicit(done, true, memory_order_release);
out:
    (void)pthread_mutex_unlock(&spool->lock);
    return status;
}
