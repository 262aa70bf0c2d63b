/* npz_internal.h - what npz_read.c (opening) and npz_data.c (reading) share. */
#ifndef VC_FORMATS_NPZ_INTERNAL_H
#define VC_FORMATS_NPZ_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/source.h"
#include "formats/codec.h"
#include "formats/npy_data.h"
#include "formats/zip_read.h"

enum npz_kind { NPZ_ARRAY, NPZ_RAW, NPZ_MANIFEST };

struct npz_member {
    const struct vc_zip_entry *entry;
    enum npz_kind kind;
    size_t header_bytes; /* of the npy header; 0 for raw members */
    uint32_t header_crc;
    struct vc_npy_data data; /* arrays: where and how the values lie; for `spool` in the spool file */
    bool spool;              /* deflated in Fortran order: inflated into a temporary file first */
    _Atomic bool spooled;
};

struct npz {
    struct vc_infile *file;
    struct vc_zip zip;
    struct npz_member *members; /* by tensor */
    size_t n_members;
    uint64_t *shapes;
    pthread_mutex_t spool_lock;
    struct vc_infile spool; /* unnamed; fd -1 until needed; of no fixed size, so that readers need no lock */
    uint64_t spool_end;     /* under the lock */
};

/* Compressed bytes of a member for vc_inflate: first those in memory, then from the file. */
struct npz_fill {
    const struct vc_infile *file;
    const unsigned char *head;
    size_t n_head;
    uint64_t offset, left; /* of what is in the file after the head */
    unsigned char *buffer;
    size_t buffer_bytes;
};

enum vc_status npz_fill_next(struct vc_ctx *ctx, void *user, const unsigned char **data, size_t *n);

/* After vc_inflate_read of everything: the stream must end where the member does, and its CRC must be right. */
enum vc_status npz_inflate_finish(struct vc_ctx *ctx, struct vc_inflate *inflate, const struct npz_fill *fill,
                                  const struct vc_zip_entry *entry, uint32_t crc);

enum vc_status npz_compare_crc(struct vc_ctx *ctx, const struct vc_zip_entry *entry, uint32_t crc);

/* The whole member, uncompressed and checked, to dst of entry->size_bytes. */
enum vc_status npz_read_member(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_zip_entry *entry,
                               unsigned char *dst);

enum vc_status npz_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                        uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check);
enum vc_status npz_stream_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                               struct vc_source_stream **out);
enum vc_status npz_stream_read(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n_bytes);
enum vc_status npz_stream_close(struct vc_ctx *ctx, struct vc_source_stream *stream, bool finished);
size_t npz_stream_bytes(const struct vc_model *model, size_t tensor);

#endif
