/* zip_read.c - end records and central directory of a zip file; zip_local.c checks the members' own headers. The bytes
 * of the records: zip_read.h.
 *
 *     50 4b 05 06 | disk | disk | members here | members | bytes of the directory | its offset | bytes of the comment | comment
 *     0             4      6      8              10        12                       16           20                     22
 *
 * The end record is looked for from the end of the file: its comment has to reach the last byte exactly.
 *
 * vc_zip_open: locate() finds the directory by the end records, read_records() takes its records one by one. Everything
 * is believed only where it agrees with everything else: two places that say the same thing have to say the same
 * number, because another reader may look at the other place. */
#include "formats/zip/zip_read.h"

#include "core/base/findings.h"
#include "core/text/text.h"
#include "formats/zip/codec.h"
#include "formats/zip/zip_internal.h"

/* Bytes of records without names, extra fields and comments. */
#define END_BYTES       22
#define LOCATOR_BYTES   20
#define END64_BYTES     56
#define CENTRAL_BYTES   46
#define MAX_COMMENT     65535
#define FLAG_ENCRYPTED  0x0001 /* bits of the general purpose flags, APPNOTE 4.4.4 */
#define FLAG_PATCHED    0x0020
#define FLAG_STRONG     0x0040
#define FLAG_UTF8       0x0800
#define FLAG_MASKED     0x2000
#define EXTRA_UTF8_NAME 0x7075 /* Info-ZIP's second name */

/* What the end records say about the directory. */
struct directory {
    uint64_t n, offset, n_bytes;
};

/* A local header, or the end record of an empty archive. */
bool vc_zip_probe(const unsigned char *head, size_t n)
{
    return n >= 4 && (vc_le32(head) == 0x04034b50 || vc_le32(head) == 0x06054b50);
}

/* ------------------------------------------------------------------------------------------------ end records */

/* Where in tail[0..n) the end record starts whose comment reaches the end of the file exactly. A comment may hold the
 * signature, so every place is tried, from the last one on; two that fit are two readings of one file, and refused. */
static enum vc_status find_end(struct vc_ctx *ctx, const unsigned char *tail, size_t n, size_t *at)
{
    bool signature = false;
    bool found = false;

    for (size_t i = n >= END_BYTES ? n - END_BYTES + 1 : 0; i-- > 0;) {
        if (tail[i] != 'P' || vc_le32(tail + i) != 0x06054b50) {
            continue;
        }
        signature = true;
        if (n - i - END_BYTES != vc_le16(tail + i + 20)) {
            continue;
        }
        VC_REFUSE_IF(found, ctx, VC_E_FORMAT, "zip: two end records reach the end of the file");
        found = true;
        *at = i;
    }
    VC_REFUSE_IF(!found, ctx, VC_E_FORMAT,
                 signature ? "zip: the end record does not reach the end of the file exactly (cut, or bytes "
                             "were added)"
                           : "zip: no end record: the file is cut or no zip");
    return VC_OK;
}

/* A field of the plain record agrees with the zip64 record, or holds the mark "too large". */
static bool agrees(uint64_t plain, uint64_t mark, uint64_t value)
{
    return plain == mark || plain == value;
}

/* The zip64 end record, whose place its locator tells. *limit becomes the place where the end records begin, which is
 * where the directory has to end. The record's own size does not count its first 12 bytes. */
static enum vc_status read_end64(struct vc_ctx *ctx, const struct vc_infile *file, const unsigned char *locator,
                                 uint64_t locator_offset, const unsigned char *end, struct directory *out,
                                 uint64_t *limit)
{
    unsigned char record[END64_BYTES];
    uint64_t offset = vc_le64(locator + 8);

    VC_REFUSE_IF(vc_le32(locator + 4) != 0 || vc_le32(locator + 16) > 1, ctx, VC_E_UNSUPPORTED,
                 "zip: the archive is split over several files");
    VC_REFUSE_IF(offset > locator_offset || locator_offset - offset < END64_BYTES, ctx, VC_E_FORMAT,
                 "zip64 locator points to offset %" PRIu64 ", where no end record fits", offset);
    VC_CALL(vc_infile_read(ctx, file, offset, record, sizeof record));
    uint64_t size = vc_le64(record + 4);
    VC_REFUSE_IF(vc_le32(record) != 0x06064b50 || size != locator_offset - offset - 12, ctx, VC_E_FORMAT,
                 "zip64 end record at offset %" PRIu64 " is damaged", offset);
    VC_REFUSE_IF(vc_le32(record + 16) != 0 || vc_le32(record + 20) != 0 || vc_le64(record + 24) != vc_le64(record + 32),
                 ctx, VC_E_UNSUPPORTED, "zip64 end record: the archive is split over several files");
    out->n = vc_le64(record + 32);
    out->n_bytes = vc_le64(record + 40);
    out->offset = vc_le64(record + 48);
    VC_REFUSE_IF(!agrees(vc_le16(end + 4), 0xffff, 0) || !agrees(vc_le16(end + 6), 0xffff, 0) ||
                     !agrees(vc_le16(end + 8), 0xffff, out->n) || !agrees(vc_le16(end + 10), 0xffff, out->n) ||
                     !agrees(vc_le32(end + 12), 0xffffffff, out->n_bytes) ||
                     !agrees(vc_le32(end + 16), 0xffffffff, out->offset),
                 ctx, VC_E_FORMAT, "zip: end record and zip64 end record disagree");
    *limit = offset;
    return VC_OK;
}

/* The end record of an archive without zip64. */
static enum vc_status read_end(struct vc_ctx *ctx, const unsigned char *end, struct directory *out)
{
    VC_REFUSE_IF(vc_le16(end + 4) != 0 || vc_le16(end + 6) != 0 || vc_le16(end + 8) != vc_le16(end + 10), ctx,
                 VC_E_UNSUPPORTED, "zip end record: the archive is split over several files");
    out->n = vc_le16(end + 10);
    out->n_bytes = vc_le32(end + 12);
    out->offset = vc_le32(end + 16);
    return VC_OK;
}

/* Finds the directory and checks that it ends where the end records start: nothing can hide between them. A directory
 * has at least CENTRAL_BYTES for each member: this bounds the memory for entries by the size of the file. */
static enum vc_status locate(struct vc_ctx *ctx, const struct vc_infile *file, struct directory *out)
{
    size_t n = (size_t)vc_min_u64(file->size_bytes, END_BYTES + LOCATOR_BYTES + MAX_COMMENT);
    uint64_t tail_offset = file->size_bytes - n;
    VC_SCOPED unsigned char *tail = vc_alloc(ctx, VC_TAG_IO, n);
    size_t at = 0;

    VC_CALL_ALLOC(tail);
    VC_CALL(vc_infile_read(ctx, file, tail_offset, tail, n));
    VC_CALL(find_end(ctx, tail, n, &at));
    uint64_t limit = tail_offset + at;
    if (at >= LOCATOR_BYTES && vc_le32(tail + at - LOCATOR_BYTES) == 0x07064b50) {
        VC_CALL(read_end64(ctx, file, tail + at - LOCATOR_BYTES, limit - LOCATOR_BYTES, tail + at, out, &limit));
    } else {
        VC_CALL(read_end(ctx, tail + at, out));
    }
    VC_REFUSE_IF(out->n_bytes > limit || out->offset != limit - out->n_bytes, ctx, VC_E_FORMAT,
                 "zip end record: a directory of %" PRIu64 " bytes at offset %" PRIu64 " does not end at %" PRIu64
                 ", where the end records start",
                 out->n_bytes, out->offset, limit);
    VC_REFUSE_IF(out->n > out->n_bytes / CENTRAL_BYTES, ctx, VC_E_FORMAT,
                 "zip end record: %" PRIu64 " members do not fit into a directory of %" PRIu64 " bytes", out->n,
                 out->n_bytes);
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ extra fields */

/* A sub-field is a u16 id, a u16 length and as many bytes. out->data NULL if there is none any more. */
enum vc_status vc_zip_extra_next(struct vc_ctx *ctx, const unsigned char *extra, size_t n, size_t *at,
                                 struct vc_zip_extra *out)
{
    size_t left = n - *at;

    out->data = NULL;
    if (left < 4) {
        /* Some tools align data with up to three zero bytes. */
        while (*at < n) {
            VC_REFUSE_IF(extra[(*at)++] != 0, ctx, VC_E_FORMAT, "zip: stray bytes in the extra field");
        }
        return VC_OK;
    }
    out->id = vc_le16(extra + *at);
    out->n = vc_le16(extra + *at + 2);
    VC_REFUSE_IF(out->n > left - 4, ctx, VC_E_FORMAT,
                 "zip: extra sub-field 0x%04x of %zu bytes is longer than the extra field", (unsigned)out->id, out->n);
    out->data = extra + *at + 4;
    *at += 4 + out->n;
    return VC_OK;
}

/* An Info-ZIP "Unicode path" field is a second name that other readers would believe, so it has to be the same one. Its
 * data: version, CRC-32 of the name in the record, name. */
static enum vc_status check_other_name(struct vc_ctx *ctx, const struct vc_zip_extra *extra, const char *name, size_t n)
{
    if (extra->n < 5 || vc_le32(extra->data + 1) != vc_crc32(0, name, n)) {
        return VC_OK; /* readers ignore it then */
    }
    VC_REFUSE_IF(extra->n - 5 != n || memcmp(extra->data + 5, name, n) != 0, ctx, VC_E_FORMAT,
                 "zip: the member has a second, different name");
    return VC_OK;
}

/* A zip64 field with more in it than the marks ask for: some readers look at it nevertheless, in the order size, size
 * in the file, offset. What it says has to be what the record says. */
static enum vc_status check_unasked(struct vc_ctx *ctx, const struct vc_zip_extra *extra,
                                    const struct vc_zip_entry *entry)
{
    const uint64_t values[] = {entry->size_bytes, entry->packed_bytes, entry->local_offset};

    for (size_t i = 0; i < 3 && extra->n >= 8 * (i + 1); i++) {
        uint64_t value = vc_le64(extra->data + 8 * i);

        VC_REFUSE_IF(value != values[i], ctx, VC_E_FORMAT,
                     "zip64 extra field and record disagree: %" PRIu64 " and %" PRIu64 " bytes or offset", value,
                     values[i]);
    }
    return VC_OK;
}

/* Sizes and offset that did not fit into the record: they are in the field in this order, only those that have the
 * mark. The mark is 0xffffffff. */
static enum vc_status take64(struct vc_ctx *ctx, const struct vc_zip_extra *extra, struct vc_zip_entry *entry,
                             bool has_disk)
{
    uint64_t *const fields[] = {&entry->size_bytes, &entry->packed_bytes, &entry->local_offset};
    size_t at = 0;

    for (size_t i = 0; i < 3; i++) {
        if (*fields[i] != 0xffffffff) {
            continue;
        }
        VC_REFUSE_IF(extra->n - at < 8, ctx, VC_E_FORMAT, "zip64 extra field of %zu bytes is too short", extra->n);
        *fields[i] = vc_le64(extra->data + at);
        at += 8;
    }
    VC_REFUSE_IF(has_disk && extra->n - at < 4, ctx, VC_E_FORMAT, "zip64 extra field of %zu bytes is too short",
                 extra->n);
    VC_REFUSE_IF(has_disk && vc_le32(extra->data + at) != 0, ctx, VC_E_UNSUPPORTED,
                 "zip64 extra field: the archive is split over several files");
    at += has_disk ? 4 : 0;
    return at < extra->n ? check_unasked(ctx, extra, entry) : VC_OK;
}

/* The extra field of a record. has_disk: the number of the member's disk is in the zip64 field. */
static enum vc_status read_extras(struct vc_ctx *ctx, const unsigned char *data, size_t n, bool has_disk,
                                  struct vc_zip_entry *entry)
{
    struct vc_zip_extra extra;
    bool seen64 = false;
    size_t at = 0;

    while (at < n) {
        VC_CALL(vc_zip_extra_next(ctx, data, n, &at, &extra));
        if (extra.data == NULL) {
            break;
        }
        if (extra.id == VC_ZIP_EXTRA_64) {
            VC_REFUSE_IF(seen64, ctx, VC_E_FORMAT, "zip: two zip64 extra fields");
            seen64 = true;
            VC_CALL(take64(ctx, &extra, entry, has_disk));
        } else if (extra.id == EXTRA_UTF8_NAME) {
            VC_CALL(check_other_name(ctx, &extra, entry->name, entry->name_bytes));
        }
    }
    VC_REFUSE_IF(has_disk && !seen64, ctx, VC_E_UNSUPPORTED, "the archive is split over several files");
    return VC_OK;
}

/* ------------------------------------------------------------------------------------------------ directory */

/* A member that can be read: not encrypted, stored or deflated, inside the file, of sizes that are possible.
 * VC_DEFLATE_MAX_RATIO is what DEFLATE can reach at most. */
static enum vc_status check_entry(struct vc_ctx *ctx, const struct vc_zip_entry *entry, uint64_t directory_offset)
{
    VC_REFUSE_IF((entry->flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED)) != 0, ctx, VC_E_UNSUPPORTED,
                 "the member is encrypted");
    VC_REFUSE_IF((entry->flags & FLAG_PATCHED) != 0, ctx, VC_E_UNSUPPORTED, "the member is a patch of another file");
    VC_REFUSE_IF(entry->method != VC_ZIP_STORED && entry->method != VC_ZIP_DEFLATED, ctx, VC_E_UNSUPPORTED,
                 "zip compression method %d is not supported (0, stored, and 8, deflated, are)", (int)entry->method);
    VC_REFUSE_IF(entry->local_offset > directory_offset || entry->packed_bytes > directory_offset - entry->local_offset,
                 ctx, VC_E_FORMAT,
                 "%" PRIu64 " bytes at offset %" PRIu64 " do not lie before the directory at %" PRIu64,
                 entry->packed_bytes, entry->local_offset, directory_offset);
    VC_REFUSE_IF(entry->method == VC_ZIP_STORED && entry->packed_bytes != entry->size_bytes, ctx, VC_E_FORMAT,
                 "a stored member with two different sizes, %" PRIu64 " and %" PRIu64 " bytes", entry->packed_bytes,
                 entry->size_bytes);
    /* A stored member has the bound of its own size; packed_bytes is below the file's size, so this cannot wrap. */
    uint64_t bound = entry->packed_bytes > UINT64_MAX / VC_DEFLATE_MAX_RATIO
                         ? UINT64_MAX
                         : entry->packed_bytes * VC_DEFLATE_MAX_RATIO;
    VC_REFUSE_IF(entry->size_bytes > bound, ctx, VC_E_FORMAT, "%" PRIu64 " deflated bytes cannot hold %" PRIu64,
                 entry->packed_bytes, entry->size_bytes);
    return VC_OK;
}

/* Bytes beyond ASCII need the flag: without it the standard says CP437, which NumPy follows, many writers mean UTF-8,
 * and some readers guess. */
static enum vc_status check_name(struct vc_ctx *ctx, const struct vc_zip_entry *entry)
{
    VC_REFUSE_IF(entry->name_bytes == 0 || !vc_utf8_valid(entry->name, entry->name_bytes), ctx, VC_E_FORMAT,
                 entry->name_bytes == 0 ? "a member without a name" : "a name that is not UTF-8");
    for (size_t i = 0; (entry->flags & FLAG_UTF8) == 0 && i < entry->name_bytes; i++) {
        VC_REFUSE_IF((unsigned char)entry->name[i] >= 0x80, ctx, VC_E_UNSUPPORTED,
                     "'%s' is not marked as UTF-8, so readers differ about it (NumPy takes it for CP437); write "
                     "the archive again with a tool that marks names",
                     entry->name);
    }
    return VC_OK;
}

/* One record at p, which may take up to `left` bytes. The name goes to *names and moves it on.
 *
 *     50 4b 01 02 | versions 4 | flags 8 | method 10 | time 12 | crc 16 | packed 20 | size 24
 *     name 28 | extra 30 | comment 32 | disk 34 | attributes 36 | local header 42 | 46: name, extra, comment */
static enum vc_status read_record(struct vc_ctx *ctx, const unsigned char *p, size_t left, char **names,
                                  struct vc_zip_entry *entry)
{
    VC_REFUSE_IF(left < CENTRAL_BYTES || vc_le32(p) != 0x02014b50, ctx, VC_E_FORMAT,
                 "no record where one was expected");
    size_t name_bytes = vc_le16(p + 28);
    size_t extra_bytes = vc_le16(p + 30);
    size_t total = CENTRAL_BYTES + name_bytes + extra_bytes + vc_le16(p + 32);
    VC_REFUSE_IF(total > left, ctx, VC_E_FORMAT, "a record of %zu bytes, but at most %zu are left for it", total, left);
    VC_REFUSE_IF(vc_le16(p + 34) != 0 && vc_le16(p + 34) != 0xffff, ctx, VC_E_UNSUPPORTED,
                 "the archive is split over several files");
    entry->name = *names;
    memcpy(*names, p + CENTRAL_BYTES, name_bytes);
    (*names)[name_bytes] = '\0';
    *names += name_bytes + 1;
    entry->name_bytes = (uint32_t)name_bytes;
    entry->central_bytes = (uint32_t)total;
    entry->flags = vc_le16(p + 8);
    entry->method = vc_le16(p + 10);
    entry->crc = vc_le32(p + 16);
    entry->packed_bytes = vc_le32(p + 20);
    entry->size_bytes = vc_le32(p + 24);
    entry->local_offset = vc_le32(p + 42);
    return VC_OK;
}

/* The finding is about the tensor, so ".npy" is cut off its name. entry->broken keeps other readers from the member. */
enum vc_status vc_zip_collect(struct vc_ctx *ctx, enum vc_status status, const char *id, struct vc_zip_entry *entry)
{
    char name[256];
    size_t n = entry->name_bytes;
    bool ok = vc_utf8_valid(entry->name, n);

    if (status == VC_OK) {
        return VC_OK;
    }
    entry->broken = true;
    n -= n > 4 && memcmp(entry->name + n - 4, ".npy", 4) == 0 ? 4 : 0;
    (void)snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, entry->name);
    return vc_collect(ctx, status, id, !ok ? NULL : n < sizeof name ? name : entry->name);
}

/* All records. With findings, one that cannot be read ends the list, since the place of the next one is not known. */
static enum vc_status read_records(struct vc_ctx *ctx, const unsigned char *data, size_t n, struct vc_zip *zip)
{
    char *names = zip->names;
    size_t at = 0;
    enum vc_status status = VC_OK;

    for (size_t i = 0; i < zip->n; i++) {
        struct vc_zip_entry *entry = &zip->entries[i];
        const unsigned char *p = data + at;

        VC_CALL(vc_check_cancelled(ctx));
        /* Each later record needs its fixed part, which the room for names counts on. */
        status = read_record(ctx, p, n - at - (zip->n - 1 - i) * CENTRAL_BYTES, &names, entry);
        if (status != VC_OK) { /* and the place of the next one is not known */
            (void)vc_context(ctx, "zip directory, member %zu of %zu (byte %" PRIu64 ")", i + 1, zip->n,
                             zip->directory_offset + at);
            zip->n = i;
            zip->incomplete = true;
            return vc_collect(ctx, status, "header", NULL);
        }
        at += entry->central_bytes;
        status = check_name(ctx, entry);
        if (status != VC_OK) {
            (void)vc_context(ctx, "zip directory, member %zu of %zu", i + 1, zip->n);
            VC_CALL(vc_zip_collect(ctx, status, "name", entry));
        }
        status =
            read_extras(ctx, p + CENTRAL_BYTES + entry->name_bytes, vc_le16(p + 30), vc_le16(p + 34) == 0xffff, entry);
        if (status == VC_OK) {
            status = check_entry(ctx, entry, zip->directory_offset);
        }
        if (status != VC_OK) {
            if (!vc_collecting(ctx)) {
                return vc_context(ctx, "member '%s'", entry->name);
            }
            VC_CALL(vc_zip_collect(ctx, status, "member", entry));
        }
    }
    if (at != n) {
        status = vc_fail(ctx, VC_E_FORMAT, "zip directory: %zu members end after %zu of %zu bytes", zip->n, at, n);
        VC_CALL(vc_collect(ctx, status, "size", NULL));
    }
    return VC_OK;
}

/* End records, directory, then each of its records. */
enum vc_status vc_zip_open(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_zip *zip)
{
    struct directory where = {0, 0, 0};
    unsigned char *data = NULL;
    enum vc_status status;

    memset(zip, 0, sizeof *zip);
    VC_TRY(locate(ctx, file, &where));
    /* Both fit: they are bounded by the size of the file, and n * 46 <= n_bytes. */
    size_t n = (size_t)where.n_bytes;
    zip->n = (size_t)where.n;
    zip->directory_offset = where.offset;
    VC_TRY_ALLOC(data = vc_alloc(ctx, VC_TAG_IO, n));
    VC_TRY(vc_infile_read(ctx, file, where.offset, data, n));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, zip->entries, zip->n));
    VC_TRY_ALLOC(zip->names = vc_alloc(ctx, VC_TAG_NAMES, n - zip->n * (CENTRAL_BYTES - 1)));
    VC_TRY(read_records(ctx, data, n, zip));
out:
    vc_free(ctx, data);
    if (status != VC_OK) {
        vc_zip_close(ctx, zip);
    }
    return status;
}

void vc_zip_close(struct vc_ctx *ctx, struct vc_zip *zip)
{
    VC_FREE_ALL(ctx, zip->entries, zip->names);
    memset(zip, 0, sizeof *zip);
}
