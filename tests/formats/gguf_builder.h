/* gguf_builder.h - makes small GGUF files in memory, right or wrong in one place. Not part of the library. */
#pragma once

#include "zip_builder.h"

struct gguf_builder {
    uint32_t version;      /* 0: 3 */
    uint32_t align;        /* of the data and between tensors; 0: 32. Does not write the pair */
    uint64_t more_pairs;   /* announced and not there */
    uint64_t more_tensors; /* likewise */
    struct bytes pairs, entries, data;
    uint64_t n_pairs, n_tensors;
};

/* Numbers of kinds and types are those of the format. */
void gguf_pair(struct gguf_builder *g, const char *key, uint32_t kind, const void *value, size_t n);
void gguf_pair_u32(struct gguf_builder *g, const char *key, uint32_t v);
void gguf_pair_string(struct gguf_builder *g, const char *key, const char *v);
void gguf_pair_strings(struct gguf_builder *g, const char *key, const char *const *v, size_t n);

/* An entry as it is told; nothing is checked, no data is added. */
void gguf_entry(struct gguf_builder *g, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                uint64_t offset);
/* An entry behind the others with n bytes of data, counting up. dims: the fastest first. */
void gguf_tensor(struct gguf_builder *g, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                 size_t n);

/* The file; the builder is empty afterwards. */
struct bytes gguf_finish(struct gguf_builder *g);
