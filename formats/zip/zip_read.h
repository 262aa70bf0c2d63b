/* zip_read.h - the directory of a zip file, checked so strictly that every reader would see the same members.
 *
 *     local header | name | extra | data | [descriptor]      once per member; gaps between them are tolerated
 *                                                            where they hold no other member
 *     central record | name | extra | comment                once per member: "the directory"
 *     [zip64 end record] [zip64 locator] end record [comment] up to the last byte of the file
 *
 *     offset in      local  central     bytes  what
 *                        0        0         4  50 4b 03 04 (local), 50 4b 01 02 (central)
 *                        -        4         2  made by
 *                        4        6         2  version needed
 *                        6        8         2  flags: 0x0008 sizes behind the data, 0x0800 the name is UTF-8
 *                        8       10         2  method: 0 stored, 8 deflated
 *                       10       12         4  time and date
 *                       14       16         4  CRC-32 of the plain bytes
 *                       18       20         4  packed size; ff ff ff ff: in the zip64 field
 *                       22       24         4  size
 *                       26       28         2  bytes of the name
 *                       28       30         2  bytes of the extra field
 *                        -       32        10  bytes of the comment, disk, attributes
 *                        -       42         4  offset of the local header
 *                       30       46         .  name, extra field
 *
 * Stored (0) and deflated (8) members only, no encryption. Member data is not read here. Names may repeat: the caller
 * knows what a name means to it. formats.c opens every archive with this, then the npz or the PyTorch reader goes on.
 */
#pragma once

#include "formats/io/infile.h"

#define VC_ZIP_STORED   0
#define VC_ZIP_DEFLATED 8

/* DEFLATE cannot expand by more. */
#define VC_DEFLATE_MAX_RATIO 1032

/* How many of a member's first (compressed) bytes the visitor is sure to get, if there are so many. */
#define VC_ZIP_HEAD_BYTES 192

/* A member, as its record in the directory says. */
struct vc_zip_entry {
    char *name; /* NUL-terminated, valid UTF-8, not empty */
    uint32_t name_bytes;
    uint32_t central_bytes; /* of its record in the directory */
    uint16_t flags, method;
    uint32_t crc;
    uint64_t packed_bytes; /* in the file */
    uint64_t size_bytes;   /* uncompressed */
    uint64_t local_offset;
    uint64_t data_offset; /* set by vc_zip_visit */
    uint64_t end_offset;  /* past the data and its descriptor; set by vc_zip_visit */
    bool broken;          /* only while findings are collected: it is not visited */
};

/* An open archive: its members. The file stays the caller's. */
struct vc_zip {
    size_t n;
    struct vc_zip_entry *entries; /* in the order of the directory */
    char *names;
    uint64_t directory_offset;
    bool incomplete; /* only while findings are collected: there are members that are not in the list */
};

/* The first n bytes are those of a zip archive: of a member's local header, or of the end record of an empty one. */
bool vc_zip_probe(const unsigned char *head, size_t n);

/* Reads end records and directory. Sentences do not name the file. On failure nothing is left allocated. */
enum vc_status vc_zip_open(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_zip *zip);
/* With findings, after vc_zip_open failed: the members whose local headers and data are whole, from the file's first
 * byte on. On failure nothing is left allocated. */
enum vc_status vc_zip_recover(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_zip *zip);
/* Where an archive ends that comes as a stream, by the local headers and the directory. A member whose sizes stand
 * behind its data ends at the descriptor that fits; one without the signature 50 4b 07 08, and gaps between members,
 * leave the end unknown. */
enum vc_status vc_zip_stream_end(struct vc_ctx *ctx, const struct vc_infile *so_far, struct vc_stream_end *end);
void vc_zip_close(struct vc_ctx *ctx, struct vc_zip *zip);

/* As vc_collect, about a member (an array without its .npy), which is broken then. */
enum vc_status vc_zip_collect(struct vc_ctx *ctx, enum vc_status status, const char *id, struct vc_zip_entry *entry);

/* Checks every local header (and descriptor) against the directory, and that no two members overlap, in the order of
 * the file. `visit` sees each member's first bytes: at least VC_ZIP_HEAD_BYTES of them or all. Reads nearby headers
 * together. */
typedef enum vc_status vc_zip_visit_fn(struct vc_ctx *ctx, void *user, size_t entry, const unsigned char *head,
                                       size_t n);
enum vc_status vc_zip_visit(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_zip *zip,
                            vc_zip_visit_fn *visit, void *user);
