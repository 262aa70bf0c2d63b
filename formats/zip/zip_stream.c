/* zip_stream.c - see vc_zip_stream_end: goes from record to record, each of which tells where the next one begins.
 *
 *     50 4b 03 04 | ... | packed size | ... | name | extra | data      30 bytes and what they tell of
 *     50 4b 01 02 | ...                                                46
 *     50 4b 06 06 | bytes that follow (8)                              12
 *     50 4b 06 07                                                      20
 *     50 4b 05 06 | ... | bytes of the comment                         22: the last one
 *
 * A member of a writer that cannot go back (torch.save, Python's zipfile on a pipe) has its sizes behind its data:
 *
 *     50 4b 03 04 | flags: 0x0008 | ... | data | 50 4b 07 08 | CRC | packed size | size | 50 4b ..
 *
 * Its descriptor is where the packed size is the distance from the first byte of the data, and where another record
 * follows. Data that look so by accident would have to match in 12 bytes or more. */
#define _GNU_SOURCE /* memmem */

#include "formats/zip/zip_internal.h"

#define CENTRAL         0x02014b50
#define END64           0x06064b50
#define LOCATOR         0x07064b50
#define END             0x06054b50
#define RECORD_BYTES    46 /* of the longest fixed part */
#define FLAG_DESCRIPTOR 0x0008
#define SEARCH_BYTES    ((size_t)64 << 10) /* of data that are searched at a time; of a member's first ones a few */
#define FIRST_BYTES     1024
#define NEEDED_BYTES    28 /* of the longest descriptor and the magic number behind it */
#define MARK            UINT32_MAX

/* The packed size in the zip64 field of a local header; UINT64_MAX: it has none. */
static enum vc_status size_in_extra(struct vc_ctx *ctx, const unsigned char *extra, size_t n, uint64_t *packed)
{
    struct vc_zip_extra field;
    size_t at = 0;

    *packed = UINT64_MAX;
    while (at < n && *packed == UINT64_MAX) {
        VC_CALL(vc_zip_extra_next(ctx, extra, n, &at, &field));
        if (field.data != NULL && field.id == VC_ZIP_EXTRA_64 && field.n >= 16) {
            *packed = vc_le64(field.data + 8);
        }
    }
    return VC_OK;
}

/* Bytes of the member whose local header, with its sizes, begins at `at`, and of which the file has all; UINT64_MAX:
 * not told. */
static enum vc_status member_bytes(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t at,
                                   const unsigned char *header, uint64_t *n_bytes)
{
    size_t n_name = vc_le16(header + 26);
    size_t n_extra = vc_le16(header + 28);
    uint64_t packed = vc_le32(header + 18);
    VC_SCOPED unsigned char *extra = NULL;

    if (packed == MARK && n_extra != 0) {
        VC_CALL_ALLOC(extra = vc_alloc(ctx, VC_TAG_IO, n_extra));
        VC_CALL(vc_infile_read(ctx, file, at + VC_ZIP_LOCAL_BYTES + n_name, extra, n_extra));
        VC_CALL(size_in_extra(ctx, extra, n_extra, &packed));
    }
    if (!vc_add_u64(packed, VC_ZIP_LOCAL_BYTES + n_name + n_extra, n_bytes)) {
        *n_bytes = UINT64_MAX;
    }
    return VC_OK;
}

/* Bytes of a record's fixed part; 0: there is no such record. */
static size_t fixed_bytes(uint32_t magic)
{
    switch (magic) {
    case VC_ZIP_LOCAL_MAGIC:
        return VC_ZIP_LOCAL_BYTES;
    case CENTRAL:
        return 46;
    case END64:
        return 12;
    case LOCATOR:
        return 20;
    case END:
        return 22;
    default:
        return 0;
    }
}

/* Bytes of the record at `at` whose fixed part is p. */
static enum vc_status record_bytes(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t at,
                                   const unsigned char *p, uint64_t *n_bytes)
{
    uint32_t magic = vc_le32(p);

    *n_bytes = fixed_bytes(magic);
    switch (magic) {
    case VC_ZIP_LOCAL_MAGIC:
        return member_bytes(ctx, file, at, p, n_bytes);
    case CENTRAL:
        *n_bytes += (uint64_t)vc_le16(p + 28) + vc_le16(p + 30) + vc_le16(p + 32);
        return VC_OK;
    case END64:
        *n_bytes = vc_add_u64(*n_bytes, vc_le64(p + 4), n_bytes) ? *n_bytes : UINT64_MAX;
        return VC_OK;
    case END:
        *n_bytes += vc_le16(p + 20);
        return VC_OK;
    default:
        return VC_OK;
    }
}

/* Bytes of the descriptor that begins at p and belongs to `distance` bytes of data; 0 if the bytes there are not one. Its
 * sizes have 32 or 64 bits: those that fit decide. */
static size_t descriptor_bytes(const unsigned char *p, uint64_t distance, bool stored)
{
    bool fits32 = vc_le32(p + 8) == distance && (!stored || vc_le32(p + 12) == distance);
    bool fits64 = vc_le64(p + 8) == distance && (!stored || vc_le64(p + 16) == distance);
    uint32_t next = vc_le32(p + 16);

    if (fits32 && (next == VC_ZIP_LOCAL_MAGIC || next == CENTRAL)) {
        return 16;
    }
    next = vc_le32(p + 24);
    return fits64 && (next == VC_ZIP_LOCAL_MAGIC || next == CENTRAL) ? 24 : 0;
}

/* The descriptor in the n bytes at `from` of a member whose data begin at `data`: returns its end, or 0, and *from is
 * where the search goes on once there are more bytes. */
static uint64_t search(const unsigned char *buffer, size_t n, uint64_t data, bool stored, uint64_t *from)
{
    static const unsigned char signature[4] = {0x50, 0x4b, 0x07, 0x08};
    const unsigned char *p = buffer;

    while ((p = memmem(p, n - (size_t)(p - buffer), signature, sizeof signature)) != NULL) {
        uint64_t at = *from + (uint64_t)(p - buffer);

        if (n - (size_t)(p - buffer) < NEEDED_BYTES) {
            *from = at;
            return 0;
        }
        size_t found = descriptor_bytes(p, at - data, stored);
        if (found != 0) {
            return at + found;
        }
        p += sizeof signature;
    }
    *from += n - (sizeof signature - 1);
    return 0;
}

/* The member at end->at, whose header is p, has its sizes behind its data: goes past its descriptor if that is there,
 * or sets end->need. */
static enum vc_status find_descriptor(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_stream_end *end,
                                      const unsigned char *p)
{
    uint64_t data = end->at + VC_ZIP_LOCAL_BYTES + vc_le16(p + 26) + vc_le16(p + 28);
    bool stored = vc_le16(p + 8) == VC_ZIP_STORED;
    VC_SCOPED unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, SEARCH_BYTES);
    size_t piece = FIRST_BYTES;
    uint64_t past = 0;

    VC_CALL_ALLOC(buffer);
    end->searched = end->searched < data ? data : end->searched;
    while (past == 0 && file->size_bytes >= end->searched + NEEDED_BYTES) {
        size_t n = (size_t)vc_min_u64(piece, file->size_bytes - end->searched);

        VC_CALL(vc_infile_read(ctx, file, end->searched, buffer, n));
        past = search(buffer, n, data, stored, &end->searched);
        piece = SEARCH_BYTES;
    }
    end->at = past != 0 ? past : end->at;
    end->need = past != 0 ? past : end->searched + NEEDED_BYTES;
    return VC_OK;
}

/* The part of the record at end->at that is needed to know its length is there; otherwise sets end->need. */
static enum vc_status take_record(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_stream_end *end,
                                  unsigned char *p, bool *whole)
{
    uint64_t left = file->size_bytes - end->at;

    *whole = false;
    end->need = end->at + 4;
    if (left < 4) {
        return VC_OK;
    }
    VC_CALL(vc_infile_read(ctx, file, end->at, p, (size_t)vc_min_u64(left, RECORD_BYTES)));
    size_t n = fixed_bytes(vc_le32(p));
    end->need = n == 0 ? UINT64_MAX : end->at + n;
    if (n == VC_ZIP_LOCAL_BYTES && left >= n) {
        end->need += (uint64_t)vc_le16(p + 26) + vc_le16(p + 28); /* its name and extra field */
    }
    *whole = file->size_bytes >= end->need;
    return VC_OK;
}

enum vc_status vc_zip_stream_end(struct vc_ctx *ctx, const struct vc_infile *so_far, struct vc_stream_end *end)
{
    unsigned char p[RECORD_BYTES];
    uint64_t n_bytes = 0;
    bool whole = true;

    end->need = end->at;
    while (end->end == 0 && so_far->size_bytes >= end->need) {
        VC_CALL(take_record(ctx, so_far, end, p, &whole));
        if (!whole) {
            continue;
        }
        if (vc_le32(p) == VC_ZIP_LOCAL_MAGIC && (vc_le16(p + 6) & FLAG_DESCRIPTOR) != 0) {
            VC_CALL(find_descriptor(ctx, so_far, end, p));
            continue;
        }
        VC_CALL(record_bytes(ctx, so_far, end->at, p, &n_bytes));
        if (!vc_add_u64(end->at, n_bytes, &end->at)) {
            end->need = UINT64_MAX;
            break;
        }
        end->need = end->at;
        end->end = vc_le32(p) == END ? end->at : 0;
    }
    return VC_OK;
}
