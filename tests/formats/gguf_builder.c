/* gguf_builder.c - see gguf_builder.h. */
#include "gguf_builder.h"

#include <string.h>

static void add_string(struct bytes *b, const char *s)
{
    bytes_u64(b, strlen(s));
    bytes_add(b, s, strlen(s));
}

void gguf_pair(struct gguf_builder *g, const char *key, uint32_t kind, const void *value, size_t n)
{
    add_string(&g->pairs, key);
    bytes_u32(&g->pairs, kind);
    bytes_add(&g->pairs, value, n);
    g->n_pairs++;
}

void gguf_pair_u32(struct gguf_builder *g, const char *key, uint32_t v)
{
    gguf_pair(g, key, 4, NULL, 0);
    bytes_u32(&g->pairs, v);
}

void gguf_pair_string(struct gguf_builder *g, const char *key, const char *v)
{
    gguf_pair(g, key, 8, NULL, 0);
    add_string(&g->pairs, v);
}

void gguf_pair_strings(struct gguf_builder *g, const char *key, const char *const *v, size_t n)
{
    gguf_pair(g, key, 9, NULL, 0);
    bytes_u32(&g->pairs, 8);
    bytes_u64(&g->pairs, n);
    for (size_t i = 0; i < n; i++) {
        add_string(&g->pairs, v[i]);
    }
}

void gguf_entry(struct gguf_builder *g, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                uint64_t offset)
{
    add_string(&g->entries, name);
    bytes_u32(&g->entries, n_dims);
    for (uint32_t d = 0; d < n_dims; d++) {
        bytes_u64(&g->entries, dims[d]);
    }
    bytes_u32(&g->entries, type);
    bytes_u64(&g->entries, offset);
    g->n_tensors++;
}

static size_t padding(const struct gguf_builder *g, size_t n)
{
    size_t align = g->align == 0 ? 32 : g->align;

    return (align - n % align) % align;
}

void gguf_tensor(struct gguf_builder *g, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                 size_t n)
{
    gguf_entry(g, name, type, n_dims, dims, g->data.n);
    for (size_t i = 0; i < n; i++) {
        bytes_fill(&g->data, (int)(i & 0x3f), 1);
    }
    bytes_fill(&g->data, 0, padding(g, g->data.n));
}

struct bytes gguf_finish(struct gguf_builder *g)
{
    struct bytes b = {NULL, 0, 0};

    bytes_add(&b, "GGUF", 4);
    bytes_u32(&b, g->version == 0 ? 3 : g->version);
    bytes_u64(&b, g->n_tensors + g->more_tensors);
    bytes_u64(&b, g->n_pairs + g->more_pairs);
    bytes_add(&b, g->pairs.p, g->pairs.n);
    bytes_add(&b, g->entries.p, g->entries.n);
    bytes_fill(&b, 0, g->n_tensors == 0 ? 0 : padding(g, b.n));
    bytes_add(&b, g->data.p, g->data.n);
    bytes_release(&g->pairs);
    bytes_release(&g->entries);
    bytes_release(&g->data);
    memset(g, 0, sizeof *g);
    return b;
}
