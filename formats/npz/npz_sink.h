/* npz_sink.h - what npz_write.c (stored members) and npz_deflate.c (compressed members) share: npz_members.c. */
#pragma once

#include "core/chain/pass.h"
#include "core/text/text.h"
#include "formats/zip/zip_sink.h"

/* How a member is written; with --deflate that is decided on its first piece. */
enum npz_packing { NPZ_UNDECIDED, NPZ_STORED, NPZ_DEFLATED };

/* What deflating needs of a member, by number of the output tensor. */
struct npz_deflated {
    uint32_t own_header; /* of raw members, which bring their npy header, so long, where they are arrays */
    bool started;
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
    struct vc_zip_archive archive; /* of the outputs and, if there is one, the manifest; fronts are npy headers */
    const struct npz *source;      /* the reader's state where the model is an npz; else NULL */
    enum vc_deflate deflate;
    const struct vc_out_list *outs;
    char *names;
    struct vc_text manifest; /* empty: there is none */
    uint64_t file_bytes;

    /* Deflate. */
    struct npz_deflated *deflated; /* outs->n */
    pthread_mutex_t mutex;         /* of packing and strategy of every member, and of interrupted */
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

/* The npy header of a member that needs one, front_bytes long; VC_NPY_WRITE_MAX have room for any. */
void vc_npz_make_header(const struct npz_sink *self, size_t out, unsigned char *dst);

/* Checks that every byte has come, sets the CRC, writes the local header and, if `with_header`, the npy header behind
 * it. */
enum vc_status vc_npz_complete_member(struct vc_ctx *ctx, struct npz_sink *self, size_t out, bool with_header);

/* Of both layouts: names of all members, the manifest, and a place for each member as if it were stored: one behind the
 * other. */
enum vc_status vc_npz_place(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs);

/* Manifest, directory, end records; then the disk. `offset`: end of the other members. */
enum vc_status vc_npz_sink_close_archive(struct vc_ctx *ctx, struct npz_sink *self, uint64_t offset,
                                         uint64_t *file_bytes);
/* Entries of both tables. */
void vc_npz_sink_free(struct vc_ctx *ctx, struct vc_sink *sink);
bool vc_npz_sink_can_hold(const struct vc_sink *sink, enum vc_dtype dtype);

/* npz_deflate.c */
extern const struct vc_sink_ops vc_npz_deflate_ops;
