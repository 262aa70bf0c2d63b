/* zip_recover.c - the members of a zip file whose directory is lost (a download that was cut), by their local headers:
 * a verification looks at those that are whole. Ends at the first byte that begins no such header, and at a member
 * whose size is not in front of its data. */

#include "core/base/findings.h"
#include "core/text/text.h"
#include "formats/zip/zip_internal.h"

#define FLAGS_UNSURE 0x2069 /* encrypted, sizes behind the data, a patch, masked */

/* A walk over local headers, from the first byte of the file on. */
struct walk {
    struct vc_ctx *ctx;
    const struct vc_infile *file;
    unsigned char *buffer; /* a header with its name and extra field */
    uint64_t at;
};

/* Sizes of 64 bits, where the header has the mark for them. */
static bool take_sizes(const struct walk *w, const unsigned char *extra, size_t n, struct vc_zip_entry *entry)
{
    struct vc_zip_extra found;
    size_t at = 0;

    if (entry->size_bytes != 0xffffffff && entry->packed_bytes != 0xffffffff) {
        return true;
    }
    while (at < n && vc_zip_extra_next(w->ctx, extra, n, &at, &found) == VC_OK && found.data != NULL) {
        if (found.id == VC_ZIP_EXTRA_64 && found.n >= 16) {
            entry->size_bytes = vc_le64(found.data);
            entry->packed_bytes = vc_le64(found.data + 8);
            return true;
        }
    }
    vc_clear_error(w->ctx);
    return false;
}

/* The header can be believed without a directory. */
static bool is_sane(const struct vc_zip_entry *entry)
{
    return (entry->flags & FLAGS_UNSURE) == 0 && entry->name_bytes != 0 &&
           vc_utf8_valid(entry->name, entry->name_bytes) &&
           (entry->method == VC_ZIP_STORED
                ? entry->packed_bytes == entry->size_bytes
                : entry->method == VC_ZIP_DEFLATED && entry->size_bytes / VC_DEFLATE_MAX_RATIO <= entry->packed_bytes);
}

/* The member at w->at, which moves behind it; *found false if there is none. Its name is in the buffer. */
static enum vc_status take_member(struct walk *w, struct vc_zip_entry *entry, bool *found)
{
    uint64_t left = w->file->size_bytes - w->at;
    unsigned char *p = w->buffer;
    enum vc_status status = VC_OK;

    *found = false;
    if (left < VC_ZIP_LOCAL_BYTES) {
        return VC_OK;
    }
    VC_CALL(vc_infile_read(w->ctx, w->file, w->at, p, VC_ZIP_LOCAL_BYTES));
    *entry = (struct vc_zip_entry){.name = (char *)p + VC_ZIP_LOCAL_BYTES,
                                   .name_bytes = vc_le16(p + 26),
                                   .flags = vc_le16(p + 6),
                                   .method = vc_le16(p + 8),
                                   .crc = vc_le32(p + 14),
                                   .packed_bytes = vc_le32(p + 18),
                                   .size_bytes = vc_le32(p + 22),
                                   .local_offset = w->at};
    size_t n_extra = vc_le16(p + 28);
    uint64_t n = (uint64_t)VC_ZIP_LOCAL_BYTES + entry->name_bytes + n_extra;
    if (vc_le32(p) != VC_ZIP_LOCAL_MAGIC || n > left) {
        return VC_OK;
    }
    VC_CALL(vc_infile_read(w->ctx, w->file, w->at, p, (size_t)n));
    *found = take_sizes(w, p + VC_ZIP_LOCAL_BYTES + entry->name_bytes, n_extra, entry);
    p[VC_ZIP_LOCAL_BYTES + entry->name_bytes] = '\0'; /* over the extra field */
    *found = *found && is_sane(entry);
    if (*found && entry->packed_bytes > left - n) {
        *found = false;
        status = vc_fail(w->ctx, VC_E_FORMAT, "ends inside its data: that has %" PRIu64 " bytes, the file %" PRIu64,
                         entry->packed_bytes, left - n);
        VC_CALL(vc_zip_collect(w->ctx, status, "member", entry));
    }
    w->at += *found ? n + entry->packed_bytes : 0;
    return VC_OK;
}

/* Counts the members, or stores them where there is room. */
static enum vc_status walk_members(struct walk *w, struct vc_zip *zip, size_t *n, size_t *name_bytes)
{
    struct vc_zip_entry entry;
    bool found = true;
    size_t room = zip->n;

    *n = 0;
    *name_bytes = 0;
    w->at = 0;
    while (zip->entries == NULL || *n < room) {
        VC_CALL(vc_check_cancelled(w->ctx));
        VC_CALL(take_member(w, &entry, &found));
        if (!found) {
            break;
        }
        if (zip->entries != NULL) {
            memcpy(zip->names + *name_bytes, entry.name, entry.name_bytes + (size_t)1);
            entry.name = zip->names + *name_bytes;
            zip->entries[*n] = entry;
        }
        *name_bytes += entry.name_bytes + (size_t)1;
        ++*n;
    }
    return VC_OK;
}

/* Two walks: the first counts, the second stores; findings are muted in the second. */
enum vc_status vc_zip_recover(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_zip *zip)
{
    struct walk w = {.ctx = ctx, .file = file};
    size_t name_bytes = 0;
    enum vc_status status = VC_OK;

    memset(zip, 0, sizeof *zip);
    zip->incomplete = true;
    VC_TRY_ALLOC(w.buffer = vc_alloc(ctx, VC_TAG_IO, VC_ZIP_LOCAL_BYTES + 2 * (size_t)UINT16_MAX + 1));
    VC_TRY(walk_members(&w, zip, &zip->n, &name_bytes));
    zip->directory_offset = w.at;
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, zip->entries, zip->n));
    VC_TRY_ALLOC(zip->names = vc_alloc(ctx, VC_TAG_NAMES, name_bytes));
    vc_findings_mute(ctx, true);
    status = walk_members(&w, zip, &zip->n, &name_bytes);
    vc_findings_mute(ctx, false);
out:
    vc_free(ctx, w.buffer);
    if (status != VC_OK) {
        vc_zip_close(ctx, zip);
    }
    return status;
}
