/* bytes.h - a growing array of bytes, of which tests build files. {NULL, 0, 0} is an empty one; what does not fit into
 * memory ends the program. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bytes {
    unsigned char *p;
    size_t n, capacity;
};

void bytes_add(struct bytes *b, const void *data, size_t n);
void bytes_fill(struct bytes *b, int value, size_t n);
/* Little-endian. */
void bytes_u16(struct bytes *b, unsigned v);
void bytes_u32(struct bytes *b, uint32_t v);
void bytes_u64(struct bytes *b, uint64_t v);
/* Frees the memory; the array itself must be set anew before it is used again. */
void bytes_release(struct bytes *b);
