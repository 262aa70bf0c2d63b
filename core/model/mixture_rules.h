/* mixture_rules.h - the mixtures of llama-quantize, such as Q4_K_M: their names, and the block type that a tensor gets by
 * its kind and its place. quantize/mixture.h finds kinds and places in a model that is quantized, memory/scheme.c in one
 * that is estimated. Source: see quantize/mixture.h. */
#pragma once

#include <vcompress/dtype.h>

struct vc_mixture {
    const char *name;   /* "Q4_K_M" */
    enum vc_dtype base; /* what most tensors get */
};

/* The mixture of that name, in letters of either case; "Q4_K" is Q4_K_M, as in llama-quantize. NULL if there is none. */
const struct vc_mixture *vc_mixture_of_name(const char *name);

/* The names of all mixtures, "Q4_0, Q4_1, ..., TQ2_0", in the order of the table. */
void vc_mixture_list(char *text, size_t n_bytes);
/* Mixture number `index` of the table; NULL behind the last. */
const struct vc_mixture *vc_mixture_at(size_t index);

/* FUSED: queries, keys and values in one matrix. DOWN: the second matrix of a feed-forward part. */
enum vc_mixture_kind {
    VC_MIXTURE_OTHER,
    VC_MIXTURE_OUTPUT,
    VC_MIXTURE_EMBEDDING,
    VC_MIXTURE_FUSED,
    VC_MIXTURE_VALUES,
    VC_MIXTURE_KEYS,
    VC_MIXTURE_ATTENTION_OUTPUT,
    VC_MIXTURE_DOWN
};

/* What a mixture asks about the model. */
struct vc_mixture_rules {
    const struct vc_mixture *mixture;
    bool pure;         /* the base type for every tensor */
    bool statistics;   /* errors are weighed by statistics of data */
    bool tied;         /* there is no output.weight: the embedding is both */
    bool falcon;       /* families that llama-quantize treats in another way */
    bool is_70b;       /* ... by their number of layers */
    uint32_t n_values; /* how many tensors are attention's values */
    uint32_t n_layers;
    uint32_t n_experts;   /* 1: none */
    uint32_t query_share; /* query heads for each head of keys; 0: not known */
};

/* ... and about a tensor of two dimensions or more. */
struct vc_mixture_tensor {
    enum vc_mixture_kind kind;
    uint32_t place; /* of values and DOWN: among those of its kind, in the order of layers */
    int layer;      /* -1: none */
    unsigned n_dims;
    const uint64_t *shape;
};

/* What the mixture wants, whatever the shape. */
enum vc_dtype vc_mixture_rule(const struct vc_mixture_rules *rules, const struct vc_mixture_tensor *tensor);

/* The type itself, or that of smaller blocks where its blocks do not divide a row (f16 where none divides it). */
enum vc_dtype vc_mixture_whole_blocks(enum vc_dtype type, uint64_t row);
