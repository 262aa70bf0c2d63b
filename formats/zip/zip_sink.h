/* zip_sink.h - an output archive whose members' bytes come in pieces, from any thread and in any order: what the sinks
 * of npz and of PyTorch's two kinds of archives share. The records: zip_write.h.
 *
 *     lay      a place for each member, from its size
 *     emit     a piece goes straight to its place with one pwrite
 *     finish   local headers (now with CRC), then directory and end record
 *
 * CRC-32 is linear: that of a member is the XOR of its pieces' CRCs, each moved to its place (vc_crc32_place), so
 * nothing is read back. */
#pragma once

#include "formats/io/file_sink.h"
#include "formats/zip/zip_write.h"

#define VC_ZIP_DIRECTORY_BUFFER ((size_t)128 << 10) /* more than the largest record and the end */

/* A member of the output. */
struct vc_zip_out {
    struct vc_zip_member zip; /* no name: it is not in the archive */
    size_t front_bytes;       /* at the beginning of its data, not of the pieces: an npy header */
    atomic_uint crc;          /* XOR of what the pieces contribute */
    atomic_uint_fast64_t got; /* bytes of the pieces */
};

/* `self` of a sink begins with this one, and it with the file (file_sink.h). */
struct vc_zip_archive {
    struct vc_outfile *file;
    struct vc_zip_out *members; /* in the order of the file */
    size_t n;
    size_t first; /* the member of the job's first output; the others follow */

    uint64_t n_laid, end, directory_bytes; /* of the members that were laid */
};

/* Places a stored member, or one of packed_bytes, behind those that were laid. False: the file would be larger than 2^63
 * bytes. */
bool vc_zip_lay(struct vc_zip_archive *archive, struct vc_zip_member *zip);
/* Of an archive of the members that were laid. */
uint64_t vc_zip_archive_bytes(const struct vc_zip_archive *archive);

/* The local header, and the first n bytes of the data behind it. */
enum vc_status vc_zip_put_head(struct vc_ctx *ctx, const struct vc_zip_archive *archive,
                               const struct vc_zip_member *zip, const void *data, size_t n);
/* A stored member whose data is there as a whole. */
enum vc_status vc_zip_put_whole(struct vc_ctx *ctx, const struct vc_zip_archive *archive, struct vc_zip_member *zip,
                                const void *data);
/* A member whose pieces have come: checks that all have, sets the CRC. `front` has front_bytes. `name`: of the tensor.
 */
enum vc_status vc_zip_check_pieces(struct vc_ctx *ctx, struct vc_zip_out *member, const void *front, const char *name);

/* Directory and end record of members that end at `offset`, then the disk. The directory goes through a buffer, because
 * there may be a million members. */
enum vc_status vc_zip_put_directory(struct vc_ctx *ctx, const struct vc_zip_archive *archive, uint64_t offset,
                                    uint64_t *file_bytes);

/* Entries of vc_sink_ops for stored members: what a piece contributes to the CRC, and the piece to its place. */
enum vc_status vc_zip_sink_pack(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet);
enum vc_status vc_zip_sink_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet);
