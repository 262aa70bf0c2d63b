/* torch_builder.c - see torch_builder.h. */
#include "torch_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pk_raw(struct bytes *b, const char *ops)
{
    bytes_add(b, ops, strlen(ops));
}

void pk_start(struct bytes *b)
{
    bytes_add(b, "\x80\x02", 2);
}

void pk_string(struct bytes *b, const char *s)
{
    pk_raw(b, "X");
    bytes_u32(b, (uint32_t)strlen(s));
    bytes_add(b, s, strlen(s));
}

void pk_int(struct bytes *b, int64_t v)
{
    if (v >= INT32_MIN && v <= INT32_MAX) {
        pk_raw(b, "J");
        bytes_u32(b, (uint32_t)(int32_t)v);
    } else {
        bytes_add(b, "\x8a\x08", 2);
        bytes_u64(b, (uint64_t)v);
    }
}

void pk_global(struct bytes *b, const char *module, const char *name)
{
    pk_raw(b, "c");
    pk_raw(b, module);
    pk_raw(b, "\n");
    pk_raw(b, name);
    pk_raw(b, "\n");
}

void pk_dims(struct bytes *b, const char *dims)
{
    pk_raw(b, "(");
    while (*dims != '\0') {
        char *end;

        pk_int(b, strtoll(dims, &end, 10));
        dims = *end == ',' ? end + 1 : end;
    }
    pk_raw(b, "t");
}

void pk_tensor_by(struct bytes *b, const char *function, const char *storage, const char *key, int64_t numel,
                  int64_t offset, const char *size, const char *stride)
{
    pk_global(b, "torch._utils", function);
    pk_raw(b, "((");
    pk_string(b, "storage");
    pk_global(b, "torch", storage);
    pk_string(b, key);
    pk_string(b, "cpu");
    pk_int(b, numel);
    pk_raw(b, "tQ");
    pk_int(b, offset);
    pk_dims(b, size);
    pk_dims(b, stride);
    bytes_add(b, "\x89", 1);
    pk_global(b, "collections", "OrderedDict");
    pk_raw(b, ")RtR");
}

void pk_tensor(struct bytes *b, const char *storage, const char *key, int64_t numel, int64_t offset, const char *size,
               const char *stride)
{
    pk_tensor_by(b, "_rebuild_tensor_v2", storage, key, numel, offset, size, stride);
}

static void fill(struct bytes *b, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        bytes_fill(b, (int)(i % 251), 1);
    }
}

struct bytes torch_archive(const struct bytes *pickle, const char *byteorder, const size_t *sizes, size_t n,
                           const struct member_options *options)
{
    struct zip_builder z;
    struct bytes out;
    size_t i;

    memset(&z, 0, sizeof z);
    zip_add(&z, "archive/data.pkl", pickle->p, pickle->n, options);
    if (byteorder != NULL) {
        zip_add(&z, "archive/byteorder", byteorder, strlen(byteorder), options);
    }
    for (i = 0; i < n; i++) {
        struct bytes data = {NULL, 0, 0};
        char name[40];

        snprintf(name, sizeof name, "archive/data/%zu", i);
        fill(&data, sizes[i]);
        zip_add_bytes(&z, name, data, options);
    }
    zip_add(&z, "archive/version", "3\n", 2, options);
    zip_finish(&z, ZIP_END_PLAIN, 0);
    out = z.out;
    z.out = (struct bytes){NULL, 0, 0};
    zip_release(&z);
    return out;
}

struct bytes torch_legacy(const struct bytes *pickle, const size_t *numels, const size_t *items, size_t n)
{
    struct bytes b = {NULL, 0, 0};
    size_t i;

    bytes_add(&b, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    bytes_add(&b, "\x80\x02M\xe9\x03.", 6);
    pk_start(&b);
    pk_raw(&b, "}(");
    pk_string(&b, "little_endian");
    pk_raw(&b, "\x88u.");
    bytes_add(&b, pickle->p, pickle->n);
    pk_start(&b);
    pk_raw(&b, "](");
    for (i = 0; i < n; i++) {
        char key[24];

        snprintf(key, sizeof key, "%zu", i);
        pk_string(&b, key);
    }
    pk_raw(&b, "e.");
    for (i = 0; i < n; i++) {
        bytes_u64(&b, numels[i]);
        fill(&b, numels[i] * items[i]);
    }
    return b;
}
