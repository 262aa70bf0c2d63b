/* zip_data.h - the data of zip members: read whole, inflated front to back, or unpacked once into a temporary file
 * where they have to be read in another order. */
#pragma once

#include "formats/zip/codec.h"
#include "formats/zip/zip_read.h"

/* Small enough that the bytes are still in the cache when the CRC is taken. */
#define VC_ZIP_BLOCK_BYTES ((size_t)128 << 10)

/* Compressed bytes of a member for vc_inflate: first those in memory, then from the file. */
struct vc_zip_fill {
    const struct vc_infile *file;
    const unsigned char *head;
    size_t n_head;
    uint64_t offset, left; /* of what is in the file after the head */
    unsigned char *buffer;
    size_t buffer_bytes;
};

/* vc_inflate_fill_fn for a struct vc_zip_fill. */
enum vc_status vc_zip_fill_next(struct vc_ctx *ctx, void *user, const unsigned char **data, size_t *n);

/* After vc_inflate_read of everything: the stream must end where the member does, and its CRC must be right. */
enum vc_status vc_zip_inflate_finish(struct vc_ctx *ctx, struct vc_inflate *inflate, const struct vc_zip_fill *fill,
                                     const struct vc_zip_entry *entry, uint32_t crc);

enum vc_status vc_zip_compare_crc(struct vc_ctx *ctx, const struct vc_zip_entry *entry, uint32_t crc);

/* The whole member, uncompressed, to dst of entry->size_bytes. *crc_wrong tells about its checksum; NULL: a wrong one
 * is VC_E_FORMAT. */
enum vc_status vc_zip_read_member(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_zip_entry *entry,
                                  unsigned char *dst, bool *crc_wrong);

/* Reads a member of any size and keeps nothing of it. crc_wrong: as above. */
enum vc_status vc_zip_check_member(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_zip_entry *entry,
                                   bool *crc_wrong);

/* Members unpacked one after the other into an unnamed file in $TMPDIR. */
struct vc_spool {
    pthread_mutex_t lock;
    struct vc_infile file; /* fd -1 until needed; of no fixed size, so that readers need no lock */
    uint64_t end;          /* under the lock */
};

void vc_spool_init(struct vc_spool *spool);
void vc_spool_release(struct vc_spool *spool);

/* Unpacks the member unless *done; *offset becomes its place in spool->file, plus skip, before *done does. Thread-safe.
 * crc_wrong: as above; untouched when it was unpacked before. */
enum vc_status vc_spool_need(struct vc_ctx *ctx, struct vc_spool *spool, const struct vc_infile *file,
                             const struct vc_zip_entry *entry, uint64_t skip, _Atomic bool *done, uint64_t *offset,
                             bool *crc_wrong);

/* Memory that vc_spool_need takes for a moment. */
size_t vc_spool_bytes(void);
