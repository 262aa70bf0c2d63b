/* zip_write.c - local headers, directory and end records of zip (PKWARE APPNOTE 4.3 and 4.5.3). The offsets:
 * zip_read.h.
 *
 *     50 4b 03 04 14 00 00 00 00 00 00 00 21 00 | crc | packed | size | 05 00 | 1d 00 | w.npy | 35 d9 19 00 40 00 00 ...
 *     local header, version 2.0, stored, 1980-01-01                     name    extra   name    padding up to 64
 *
 *     local    PK\3\4 needed flags method time date crc packed size name_len extra_len | name | [zip64] [padding]
 *     central  PK\1\2 made_by needed flags method time date crc packed size name_len extra_len comment_len disk
 *              internal external offset | name | [zip64]
 *     end      [PK\6\6 zip64 end record] [PK\6\7 its locator] PK\5\6 */
#include "formats/zip/zip_write.h"

#include <string.h>

#include "core/base/checked.h"

#define VC_LIMIT32 UINT32_MAX /* this value says "see the zip64 field" */
#define VC_LIMIT16 UINT16_MAX

#define VC_LOCAL_BYTES     30
#define VC_CENTRAL_BYTES   46
#define VC_EXTRA_64        0x0001
#define VC_EXTRA_PADDING   0xD935 /* u16 alignment, then zeros */
#define VC_PADDING_MIN     6      /* id, length, alignment */
#define VC_LOCAL_64_BYTES  20     /* id, length, size, packed size */
#define VC_VERSION_PLAIN   20
#define VC_VERSION_64      45
#define VC_MADE_BY         (3 << 8 | VC_VERSION_64)
#define VC_FLAG_UTF8       0x0800
#define VC_DATE_1980_01_01 0x0021
#define VC_MODE_FILE       ((uint32_t)0100644 << 16)

/* Names in ASCII need no flag, and get none: older readers look at it. */
static bool is_ascii(const struct vc_zip_member *member)
{
    size_t i = 0;

    while (i < member->name_bytes && (unsigned char)member->name[i] < 0x80) {
        i++;
    }
    return i == member->name_bytes;
}

/* The value for a field of 32 bits, or the mark that it is in the zip64 field. */
static uint32_t or_limit32(uint64_t x)
{
    return x < VC_LIMIT32 ? (uint32_t)x : VC_LIMIT32;
}

static uint16_t or_limit16(uint64_t x)
{
    return x < VC_LIMIT16 ? (uint16_t)x : VC_LIMIT16;
}

/* A padding field has at least 6 bytes, so a gap that is shorter is made a whole 64 longer. */
bool vc_zip_place(struct vc_zip_member *member, uint64_t offset, uint64_t largest_bytes)
{
    uint64_t at;

    member->local_offset = offset;
    member->zip64 = largest_bytes >= VC_LIMIT32;
    uint64_t header = VC_LOCAL_BYTES + member->name_bytes + (member->zip64 ? VC_LOCAL_64_BYTES : 0);
    if (!vc_add_u64(offset, header, &at)) {
        return false;
    }
    if (at % VC_ZIP_ALIGN != 0 && !vc_add_u64(at, VC_PADDING_MIN, &at)) {
        return false;
    }
    return vc_round_up_u64(at, VC_ZIP_ALIGN, &member->data_offset);
}

/* What is the same in local and central headers: flags, method, time, date, crc. */
static void put_common(const struct vc_zip_member *member, unsigned char *dst)
{
    vc_put_le16(dst, is_ascii(member) ? 0 : VC_FLAG_UTF8);
    vc_put_le16(dst + 2, member->method);
    vc_put_le16(dst + 4, 0);
    vc_put_le16(dst + 6, VC_DATE_1980_01_01);
    vc_put_le32(dst + 8, member->crc);
}

/* Header, name, zip64 field, padding field: up to data_offset. */
void vc_zip_put_local(const struct vc_zip_member *member, unsigned char *dst)
{
    size_t total = (size_t)(member->data_offset - member->local_offset);
    size_t at = VC_LOCAL_BYTES + member->name_bytes;

    memset(dst, 0, total);
    vc_put_le32(dst, 0x04034b50);
    vc_put_le16(dst + 4, member->zip64 ? VC_VERSION_64 : VC_VERSION_PLAIN);
    put_common(member, dst + 6);
    vc_put_le32(dst + 18, member->zip64 ? VC_LIMIT32 : (uint32_t)member->packed_bytes);
    vc_put_le32(dst + 22, member->zip64 ? VC_LIMIT32 : (uint32_t)member->size_bytes);
    vc_put_le16(dst + 26, (uint16_t)member->name_bytes);
    vc_put_le16(dst + 28, (uint16_t)(total - at));
    memcpy(dst + VC_LOCAL_BYTES, member->name, member->name_bytes);
    if (member->zip64) {
        vc_put_le16(dst + at, VC_EXTRA_64);
        vc_put_le16(dst + at + 2, VC_LOCAL_64_BYTES - 4);
        vc_put_le64(dst + at + 4, member->size_bytes);
        vc_put_le64(dst + at + 12, member->packed_bytes);
        at += VC_LOCAL_64_BYTES;
    }
    if (at != total) {
        vc_put_le16(dst + at, VC_EXTRA_PADDING);
        vc_put_le16(dst + at + 2, (uint16_t)(total - at - 4));
        vc_put_le16(dst + at + 4, (uint16_t)VC_ZIP_ALIGN);
    }
}

/* Bytes of the zip64 field in the directory: only the numbers that do not fit, in this order. */
static size_t central_64_bytes(const struct vc_zip_member *member)
{
    size_t n = 8 * ((size_t)(member->size_bytes >= VC_LIMIT32) + (size_t)(member->packed_bytes >= VC_LIMIT32) +
                    (size_t)(member->local_offset >= VC_LIMIT32));

    return n == 0 ? 0 : 4 + n;
}

size_t vc_zip_central_bytes(const struct vc_zip_member *member)
{
    return VC_CENTRAL_BYTES + member->name_bytes + central_64_bytes(member);
}

/* Numbers that do not fit go into a zip64 field, in this order, only those. */
size_t vc_zip_put_central(const struct vc_zip_member *member, unsigned char *dst)
{
    const uint64_t numbers[] = {member->size_bytes, member->packed_bytes, member->local_offset};
    size_t extra = central_64_bytes(member);
    size_t at = VC_CENTRAL_BYTES + member->name_bytes;

    memset(dst, 0, VC_CENTRAL_BYTES);
    vc_put_le32(dst, 0x02014b50);
    vc_put_le16(dst + 4, VC_MADE_BY);
    vc_put_le16(dst + 6, extra != 0 || member->zip64 ? VC_VERSION_64 : VC_VERSION_PLAIN);
    put_common(member, dst + 8);
    vc_put_le32(dst + 20, or_limit32(member->packed_bytes));
    vc_put_le32(dst + 24, or_limit32(member->size_bytes));
    vc_put_le16(dst + 28, (uint16_t)member->name_bytes);
    vc_put_le16(dst + 30, (uint16_t)extra);
    vc_put_le32(dst + 38, VC_MODE_FILE);
    vc_put_le32(dst + 42, or_limit32(member->local_offset));
    memcpy(dst + VC_CENTRAL_BYTES, member->name, member->name_bytes);
    if (extra == 0) {
        return at;
    }
    vc_put_le16(dst + at, VC_EXTRA_64);
    vc_put_le16(dst + at + 2, (uint16_t)(extra - 4));
    at += 4;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i] >= VC_LIMIT32) {
            vc_put_le64(dst + at, numbers[i]);
            at += 8;
        }
    }
    return at;
}

size_t vc_zip_end_bytes(uint64_t n_members, uint64_t directory_offset, uint64_t directory_bytes)
{
    bool zip64 = n_members >= VC_LIMIT16 || directory_offset >= VC_LIMIT32 || directory_bytes >= VC_LIMIT32;

    return zip64 ? 56 + 20 + 22 : 22;
}

/* The zip64 end record and its locator come first, where one of the numbers needs them. */
size_t vc_zip_put_end(uint64_t n_members, uint64_t directory_offset, uint64_t directory_bytes, unsigned char *dst)
{
    size_t total = vc_zip_end_bytes(n_members, directory_offset, directory_bytes);

    memset(dst, 0, total);
    if (total > 22) {
        vc_put_le32(dst, 0x06064b50); /* zip64 end record */
        vc_put_le64(dst + 4, 56 - 12);
        vc_put_le16(dst + 12, VC_MADE_BY);
        vc_put_le16(dst + 14, VC_VERSION_64);
        vc_put_le64(dst + 24, n_members);
        vc_put_le64(dst + 32, n_members);
        vc_put_le64(dst + 40, directory_bytes);
        vc_put_le64(dst + 48, directory_offset);
        vc_put_le32(dst + 56, 0x07064b50); /* locator */
        vc_put_le64(dst + 64, directory_offset + directory_bytes);
        vc_put_le32(dst + 72, 1);
        dst += 76;
    }
    vc_put_le32(dst, 0x06054b50);
    vc_put_le16(dst + 8, or_limit16(n_members));
    vc_put_le16(dst + 10, or_limit16(n_members));
    vc_put_le32(dst + 12, or_limit32(directory_bytes));
    vc_put_le32(dst + 16, or_limit32(directory_offset));
    return total;
}
