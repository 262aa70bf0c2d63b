/* zip_write.h - the records of a zip file, as bytes. Knows nothing of npy or of files.
 *
 * Fixed, so that the same members give the same bytes: date 1980-01-01, made by "Unix, 4.5", mode 0644, no comments, no
 * data descriptors. Extra fields: zip64 where a number needs it, and in local headers one that pads, so that data
 * starts at a multiple of VC_ZIP_ALIGN. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VC_ZIP_ALIGN          ((uint64_t)64)
#define VC_ZIP_MAX_NAME       ((size_t)65535)
#define VC_ZIP_METHOD_STORED  0
#define VC_ZIP_METHOD_DEFLATE 8

/* Sizes of records without the name. */
#define VC_ZIP_LOCAL_MAX ((size_t)30 + 20 + 6 + 64)
#define VC_ZIP_END_MAX   ((size_t)56 + 20 + 22)

/* A member of an archive that is being written; filled by its writer (zip_sink.h). */
struct vc_zip_member {
    const char *name; /* UTF-8 */
    size_t name_bytes;
    uint16_t method;
    bool zip64; /* of the local header: decided before the sizes are known, from the largest they can become */
    uint32_t crc;
    uint64_t size_bytes;   /* uncompressed */
    uint64_t packed_bytes; /* in the file */
    uint64_t local_offset, data_offset;
};

/* Places a member at `offset`: sets local_offset, data_offset and zip64, given the largest that size and packed size
 * can be. False when the offsets do not fit into 64 bits. */
bool vc_zip_place(struct vc_zip_member *member, uint64_t offset, uint64_t largest_bytes);

/* Exactly data_offset - local_offset bytes. */
void vc_zip_put_local(const struct vc_zip_member *member, unsigned char *dst);

size_t vc_zip_central_bytes(const struct vc_zip_member *member);
/* Returns vc_zip_central_bytes. */
size_t vc_zip_put_central(const struct vc_zip_member *member, unsigned char *dst);

size_t vc_zip_end_bytes(uint64_t n_members, uint64_t directory_offset, uint64_t directory_bytes);
/* Returns vc_zip_end_bytes. */
size_t vc_zip_put_end(uint64_t n_members, uint64_t directory_offset, uint64_t directory_bytes, unsigned char *dst);
