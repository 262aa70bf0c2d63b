/* zip_builder.h - makes small npy and zip files in memory for the tests, and remembers where every part lies so that a
 * test can damage exactly one field. Not part of the library; uses malloc and stops the test where that fails. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes.h"

/* A version 1 header of `text` as it is (no padding), then n bytes of data. */
struct bytes npy_text(const char *text, const void *data, size_t n);
/* The usual header, padded to 64. shape as Python writes it: "(3, 4)". */
struct bytes npy_array(const char *descr, bool fortran, const char *shape, const void *data, size_t n);
/* f32 values 0, 1, 2, ... scaled, shape (rows, cols). */
struct bytes npy_matrix(unsigned rows, unsigned cols);

enum descriptor { DESCRIPTOR_NONE, DESCRIPTOR_32, DESCRIPTOR_64, DESCRIPTOR_PLAIN_32, DESCRIPTOR_PLAIN_64 };

#define SATURATE_SIZE   1
#define SATURATE_PACKED 2
#define SATURATE_OFFSET 4
#define SATURATE_DISK   8

struct member_options {
    bool deflate;
    int level, strategy; /* of zlib; level 0 is stored blocks, use -1 for the default */
    enum descriptor descriptor;
    unsigned central64; /* SATURATE_*: fields that go to the central zip64 extra */
    bool local64;       /* both sizes in the local zip64 extra */
    size_t gap;         /* unused bytes before the member, unless it is the first */
    const void *local_extra, *central_extra;
    size_t n_local_extra, n_central_extra;
    bool utf8; /* flag bit 11 */
};

struct zip_member {
    size_t local, data, packed, size, end; /* offsets; packed and size are lengths */
    size_t central;
    uint32_t crc;
    uint16_t flags, method;
    char *name;
    struct member_options options;
};

struct zip_builder {
    struct bytes out;
    struct zip_member *members;
    size_t n, capacity;
    size_t directory, end64, locator, end; /* offsets, set by zip_finish; 0 where absent */
};

/* Takes no ownership of data. options may be NULL (stored). */
void zip_add(struct zip_builder *z, const char *name, const void *data, size_t n, const struct member_options *options);
/* zip_add of bytes, which are released. */
void zip_add_bytes(struct zip_builder *z, const char *name, struct bytes data, const struct member_options *options);

enum zip_end { ZIP_END_PLAIN, ZIP_END_64, ZIP_END_64_PLAIN /* zip64 records, the plain one filled in as well */ };
void zip_finish(struct zip_builder *z, enum zip_end end, size_t n_comment);
void zip_release(struct zip_builder *z);

/* Two stored matrices "a" (3 x 4) and "b" (5 x 2), finished. */
void zip_simple(struct zip_builder *z, const struct member_options *options);
