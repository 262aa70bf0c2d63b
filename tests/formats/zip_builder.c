/* zip_builder.c - see zip_builder.h. */
#include "zip_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/checked.h"

static void *must(void *p)
{
    if (p == NULL) {
        abort();
    }
    return p;
}

struct bytes npy_text(const char *text, const void *data, size_t n)
{
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, "\x93NUMPY\1\0", 8);
    bytes_u16(&b, (unsigned)strlen(text));
    bytes_add(&b, text, strlen(text));
    bytes_add(&b, data, n);
    return b;
}

struct bytes npy_array(const char *descr, bool fortran, const char *shape, const void *data, size_t n)
{
    char text[1024];
    int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr,
                        fortran ? "True" : "False", shape);
    size_t total = (10 + (size_t)used + 1 + 63) / 64 * 64 - 10;

    memset(text + used, ' ', total - (size_t)used);
    text[total - 1] = '\n';
    text[total] = '\0';
    return npy_text(text, data, n);
}

struct bytes npy_matrix(unsigned rows, unsigned cols)
{
    struct bytes data = {NULL, 0, 0};
    struct bytes b;
    char shape[64];
    unsigned i;

    for (i = 0; i < rows * cols; i++) {
        float v = (float)i * 0.25f - 1.0f;

        bytes_add(&data, &v, sizeof v);
    }
    snprintf(shape, sizeof shape, "(%u, %u)", rows, cols);
    b = npy_array("<f4", false, shape, data.p, data.n);
    bytes_release(&data);
    return b;
}

static struct bytes deflated(const void *data, size_t n, int level, int strategy)
{
    struct bytes b = {NULL, 0, 0};
    union {
        const void *c;
        void *m;
    } in = {.c = data};
    z_stream s;

    memset(&s, 0, sizeof s);
    if (deflateInit2(&s, level, Z_DEFLATED, -15, 8, strategy) != Z_OK) {
        abort();
    }
    b.capacity = deflateBound(&s, n) + 64;
    b.p = must(malloc(b.capacity));
    s.next_in = in.m;
    s.avail_in = (unsigned)n;
    s.next_out = b.p;
    s.avail_out = (unsigned)b.capacity;
    if (deflate(&s, Z_FINISH) != Z_STREAM_END) {
        abort();
    }
    b.n = s.total_out;
    deflateEnd(&s);
    return b;
}

static void add_descriptor(struct bytes *out, const struct zip_member *m)
{
    enum descriptor kind = m->options.descriptor;

    if (kind == DESCRIPTOR_32 || kind == DESCRIPTOR_64) {
        bytes_u32(out, 0x08074b50);
    }
    bytes_u32(out, m->crc);
    if (kind == DESCRIPTOR_32 || kind == DESCRIPTOR_PLAIN_32) {
        bytes_u32(out, (uint32_t)m->packed);
        bytes_u32(out, (uint32_t)m->size);
    } else {
        bytes_u64(out, m->packed);
        bytes_u64(out, m->size);
    }
}

static void add_local(struct bytes *out, const struct zip_member *m)
{
    const struct member_options *o = &m->options;
    bool later = o->descriptor != DESCRIPTOR_NONE;

    bytes_u32(out, 0x04034b50);
    bytes_u16(out, o->local64 ? 45 : 20);
    bytes_u16(out, m->flags);
    bytes_u16(out, m->method);
    bytes_u16(out, 0);
    bytes_u16(out, 0x21);
    bytes_u32(out, later ? 0 : m->crc);
    bytes_u32(out, o->local64 ? 0xffffffff : (later ? 0 : (uint32_t)m->packed));
    bytes_u32(out, o->local64 ? 0xffffffff : (later ? 0 : (uint32_t)m->size));
    bytes_u16(out, (unsigned)strlen(m->name));
    bytes_u16(out, (unsigned)(o->n_local_extra + (o->local64 ? 20 : 0)));
    bytes_add(out, m->name, strlen(m->name));
    if (o->local64) {
        bytes_u16(out, 1);
        bytes_u16(out, 16);
        bytes_u64(out, later ? 0 : m->size);
        bytes_u64(out, later ? 0 : m->packed);
    }
    bytes_add(out, o->local_extra, o->n_local_extra);
}

void zip_add(struct zip_builder *z, const char *name, const void *data, size_t n, const struct member_options *options)
{
    static const struct member_options plain = {.level = 6};
    struct bytes packed = {NULL, 0, 0};
    struct zip_member *m;

    if (z->n == z->capacity) {
        z->capacity = 2 * z->capacity + 8;
        z->members = must(realloc(z->members, z->capacity * sizeof *z->members));
    }
    m = &z->members[z->n++];
    memset(m, 0, sizeof *m);
    m->options = options != NULL ? *options : plain;
    m->name = must(malloc(strlen(name) + 1));
    memcpy(m->name, name, strlen(name) + 1);
    m->crc = (uint32_t)crc32(0, data, (unsigned)n);
    m->size = n;
    m->method = m->options.deflate ? 8 : 0;
    m->flags = (uint16_t)((m->options.descriptor != DESCRIPTOR_NONE ? 8 : 0) | (m->options.utf8 ? 0x800 : 0));
    if (m->options.deflate) {
        packed = deflated(data, n, m->options.level, m->options.strategy);
    } else {
        bytes_add(&packed, data, n);
    }
    m->packed = packed.n;
    bytes_fill(&z->out, 0xee, z->out.n > 0 ? m->options.gap : 0);
    m->local = z->out.n;
    add_local(&z->out, m);
    m->data = z->out.n;
    bytes_add(&z->out, packed.p, packed.n);
    if (m->options.descriptor != DESCRIPTOR_NONE) {
        add_descriptor(&z->out, m);
    }
    m->end = z->out.n;
    bytes_release(&packed);
}

void zip_add_bytes(struct zip_builder *z, const char *name, struct bytes data, const struct member_options *options)
{
    zip_add(z, name, data.p, data.n, options);
    bytes_release(&data);
}

static void add_central(struct bytes *out, const struct zip_member *m)
{
    const struct member_options *o = &m->options;
    unsigned n64 = 0;
    unsigned bit;

    for (bit = 0; bit < 3; bit++) {
        n64 += (o->central64 >> bit & 1) * 8;
    }
    n64 += (o->central64 & SATURATE_DISK) != 0 ? 4 : 0;
    bytes_u32(out, 0x02014b50);
    bytes_u16(out, 0x0314);
    bytes_u16(out, n64 != 0 ? 45 : 20);
    bytes_u16(out, m->flags);
    bytes_u16(out, m->method);
    bytes_u16(out, 0);
    bytes_u16(out, 0x21);
    bytes_u32(out, m->crc);
    bytes_u32(out, o->central64 & SATURATE_PACKED ? 0xffffffff : (uint32_t)m->packed);
    bytes_u32(out, o->central64 & SATURATE_SIZE ? 0xffffffff : (uint32_t)m->size);
    bytes_u16(out, (unsigned)strlen(m->name));
    bytes_u16(out, (unsigned)(o->n_central_extra + (n64 != 0 ? 4 + n64 : 0)));
    bytes_u16(out, 0);
    bytes_u16(out, o->central64 & SATURATE_DISK ? 0xffff : 0);
    bytes_u16(out, 0);
    bytes_u32(out, 0x01800000);
    bytes_u32(out, o->central64 & SATURATE_OFFSET ? 0xffffffff : (uint32_t)m->local);
    bytes_add(out, m->name, strlen(m->name));
    if (n64 != 0) {
        bytes_u16(out, 1);
        bytes_u16(out, n64);
        if (o->central64 & SATURATE_SIZE) {
            bytes_u64(out, m->size);
        }
        if (o->central64 & SATURATE_PACKED) {
            bytes_u64(out, m->packed);
        }
        if (o->central64 & SATURATE_OFFSET) {
            bytes_u64(out, m->local);
        }
        if (o->central64 & SATURATE_DISK) {
            bytes_u32(out, 0);
        }
    }
    bytes_add(out, o->central_extra, o->n_central_extra);
}

static void add_end64(struct zip_builder *z, uint64_t n_directory)
{
    struct bytes *out = &z->out;

    z->end64 = out->n;
    bytes_u32(out, 0x06064b50);
    bytes_u64(out, 44);
    bytes_u16(out, 45);
    bytes_u16(out, 45);
    bytes_u32(out, 0);
    bytes_u32(out, 0);
    bytes_u64(out, z->n);
    bytes_u64(out, z->n);
    bytes_u64(out, n_directory);
    bytes_u64(out, z->directory);
    z->locator = out->n;
    bytes_u32(out, 0x07064b50);
    bytes_u32(out, 0);
    bytes_u64(out, z->end64);
    bytes_u32(out, 1);
}

void zip_finish(struct zip_builder *z, enum zip_end end, size_t n_comment)
{
    struct bytes *out = &z->out;
    bool marks = end == ZIP_END_64;
    size_t n_directory;
    size_t i;

    z->directory = out->n;
    for (i = 0; i < z->n; i++) {
        z->members[i].central = out->n;
        add_central(out, &z->members[i]);
    }
    n_directory = out->n - z->directory;
    if (end != ZIP_END_PLAIN) {
        add_end64(z, n_directory);
    }
    z->end = out->n;
    bytes_u32(out, 0x06054b50);
    bytes_u16(out, 0);
    bytes_u16(out, 0);
    bytes_u16(out, marks || z->n > 0xffff ? 0xffff : (unsigned)z->n);
    bytes_u16(out, marks || z->n > 0xffff ? 0xffff : (unsigned)z->n);
    bytes_u32(out, marks ? 0xffffffff : (uint32_t)n_directory);
    bytes_u32(out, marks ? 0xffffffff : (uint32_t)z->directory);
    bytes_u16(out, (unsigned)n_comment);
    bytes_fill(out, 'c', n_comment);
}

void zip_release(struct zip_builder *z)
{
    size_t i;

    for (i = 0; i < z->n; i++) {
        free(z->members[i].name);
    }
    free(z->members);
    bytes_release(&z->out);
    memset(z, 0, sizeof *z);
}

void zip_simple(struct zip_builder *z, const struct member_options *options)
{
    memset(z, 0, sizeof *z);
    zip_add_bytes(z, "a.npy", npy_matrix(3, 4), options);
    zip_add_bytes(z, "b.npy", npy_matrix(5, 2), options);
    zip_finish(z, ZIP_END_PLAIN, 0);
}
