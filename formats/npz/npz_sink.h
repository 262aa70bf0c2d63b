/* npz_sink.h - what npz_write.c (stored members) and npz_deflate.c (compressed members) share: npz_members.c. */
#pragma once

#include "core/chain/pass.h"
#include "core/run/sink.h"
#include "core/text/text.h"
#include "formats/io/outfile.h"
#include "formats/zip/zip_write.h"

/* How a member is written; with --deflate that is decided on its first piece. */
enum npz_packing { NPZ_UNDECIDED, NPZ_STORED, NPZ_DEFLATED };

/* A member of the output, by number of the output tensor. */
struct npz_out {
    struct vc_zip_member zip;
    size_t header_bytes; /* of the npy header that is ours to write; 0 for raw members, which bring theirs ... */
    atomic_uint crc;     /* XOR of what the pieces contribute */
    uint32_t own_header; /* ... so long, where they are arrays */
    atomic_uint_fast64_t got;

    bool started; /* deflate only, from here on */
    enum npz_packing packing;
    int strategy;
};

/* The bytes of one part (scales, say) until its tensor is complete. */
struct npz_spool {
    unsigned char *memory; /* room for spool_bytes */
    int fd;                /* for those that are larger; -1: none */
};

struct npz;

/* `self` of both sinks, the stored and the deflated one. */
struct npz_sink {
    const struct npz *source; /* the reader's state where the model is an npz; else NULL */
    struct vc_outfile *file;  /* NULL: nothing is written */
    enum vc_deflate deflate;
    const struct vc_out_list *outs;
    struct npz_out *members; /* outs->n */
    char *names;
    struct vc_text manifest; /* empty: there is none */
    struct vc_zip_member manifest_zip;
    uint64_t file_bytes;

    /* Deflate. */
    pthread_mutex_t mutex; /* of packing and strategy of every member, and of interrupted */
    pthread_cond_t decided;
    bool interrupted;
    size_t current;    /* the member being written; those before are complete */
    uint64_t position; /* end of what is written */
    size_t spool_bytes;
    size_t n_spools; /* the most parts that a tensor has */
    struct npz_spool *spools;
    size_t part_bytes;     /* the largest tile of a part */
    unsigned char *piece;  /* part_bytes: what is read back from a spool file */
    unsigned char *packed; /* packet buffer for parts */
};

/* Writes n bytes at that offset of the output; does nothing where only sizes are wanted. */
enum vc_status vc_npz_put(struct vc_ctx *ctx, struct npz_sink *self, uint64_t offset, const void *data, size_t n);

/* The npy header of a member that needs one, header_bytes long. */
void vc_npz_make_header(const struct npz_sink *self, size_t out, unsigned char *dst);

/* Checks that every byte has come, sets size and CRC, writes the local header and, if `with_header`, the npy header
 * behind it. packed_bytes: of the data in the file. */
enum vc_status vc_npz_complete_member(struct vc_ctx *ctx, struct npz_sink *self, size_t out, uint64_t packed_bytes,
                                      bool with_header);

/* Of both layouts: names of all members, the manifest, and a place for each member as if it were stored: one behind the
 * other. *end: behind the last. */
enum vc_status vc_npz_place(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs, uint64_t *end);
/* Size of the archive whose members end there; the manifest gets its place. */
uint64_t vc_npz_archive_bytes(struct npz_sink *self, uint64_t end);

/* Manifest, directory, end records; then the disk. `offset`: end of the members. */
enum vc_status vc_npz_sink_close_archive(struct vc_ctx *ctx, struct npz_sink *self, uint64_t offset,
                                         uint64_t *file_bytes);
/* Entries of both tables. */
enum vc_status vc_npz_sink_commit(struct vc_ctx *ctx, struct vc_sink *sink);
void vc_npz_sink_free(struct vc_ctx *ctx, struct vc_sink *sink);
bool vc_npz_sink_can_hold(const struct vc_sink *sink, enum vc_dtype dtype);

/* npz_deflate.c */
extern const struct vc_sink_ops vc_npz_deflate_ops;
