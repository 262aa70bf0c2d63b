/* gpus.h - a catalogue of GPUs: how much memory a program sees there, what it is called, what it computes with.
 *
 * Three numbers go by "the memory of a card" (docs/memory-model.md): what the vendor names it by (24 GB), what the
 * driver reports (24,564 MiB), and what a CUDA program gets of it (24,210 MiB). vc_gpu_visible_bytes is the last one,
 * or the most that is certain about it. No GPU is needed, and none is asked.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_GPUS_H
#define VCOMPRESS_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types that matrix units compute with, as bits; 2:4 is sparsity. Numbers are stable. */
enum vc_gpu_type {
    VC_GPU_FP16 = 1,
    VC_GPU_BF16 = 2,
    VC_GPU_TF32 = 4,
    VC_GPU_INT8 = 8,
    VC_GPU_INT4 = 16,
    VC_GPU_FP8 = 32,
    VC_GPU_FP4 = 64,
    VC_GPU_2_4 = 128
};
#define VC_GPU_TYPES 8

/* Where the memory that a program sees is known from. Numbers are stable. */
enum vc_gpu_source {
    VC_GPU_FROM_CUDA = 0,   /* a CUDA program was told */
    VC_GPU_FROM_DRIVER = 1, /* what the driver reports, less what it keeps */
    VC_GPU_FROM_NAME = 2    /* what it is sold with, less what the driver would keep of it, and ECC */
};

struct vc_gpu {
    const char *name; /* "GeForce RTX 3060 12GB"; of a cloud instance: "p4d.24xlarge" */
    size_t n_aliases;
    const char *const *aliases;
    const char *vendor, *architecture, *memory_type; /* "" where it is an instance */
    int major, minor;                                /* compute capability; 0.0: none */
    double memory_gb;                                /* as it is sold */
    uint64_t driver_bytes, cuda_bytes;               /* 0: not known */
    double bandwidth_gb_s;                           /* of its memory, 10^9 bytes a second; 0: not known */
    unsigned types, types_unsure;                    /* enum vc_gpu_type */
    const char *note;                                /* "" */
    const struct vc_gpu *of;                         /* an instance: of these ... */
    unsigned count;                                  /* ... it has so many, each with memory of its own; else 1 */
};

struct vc_gpus;

/* The catalogue, and the rows of the file behind it, if there is one: CSV as vc_gpus_csv gives it, of which the columns
 * `name` and `memory_gb` are enough (or `of`). A row with a name that is there already replaces it. VC_E_FORMAT: with
 * the line. */
VC_API enum vc_status vc_gpus_open(struct vc_ctx *ctx, const char *path, struct vc_gpus **out);
VC_API void vc_gpus_close(struct vc_gpus *gpus); /* accepts NULL */

VC_API size_t vc_gpus_count(const struct vc_gpus *gpus);
VC_API const struct vc_gpu *vc_gpu(const struct vc_gpus *gpus, size_t index);

/* The GPU that the text means, and how many: "RTX 3060", "a100-sxm4-80gb:8", "p4d.24xlarge". Case, spaces, hyphens and
 * the vendor's name do not matter; a memory size may be left out where there is only one. *gpu is never an instance.
 * VC_E_ARGUMENT: nothing has that name, or several have; the sentence lists what is near. */
VC_API enum vc_status vc_gpus_find(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *text,
                                   const struct vc_gpu **gpu, unsigned *count);

/* True when all words of the text are in its name, its aliases or its architecture: for lists. */
VC_API bool vc_gpu_matches(const struct vc_gpu *gpu, const char *text);

/* Bytes that a program sees before it has taken any. `source` may be NULL. 0 for an instance. */
VC_API uint64_t vc_gpu_visible_bytes(const struct vc_gpu *gpu, enum vc_gpu_source *source);

/* Whether the memory checks itself, where that takes a sixteenth of it (GDDR; HBM has bits of its own for that).
 * Numbers are stable. */
enum vc_gpu_ecc { VC_GPU_ECC_AS_LISTED = 0, VC_GPU_ECC_ON = 1, VC_GPU_ECC_OFF = 2 };

/* The same of a part of it: `part` of `of` slices (MIG), which is a little less than that share; 1 of 1: all. */
VC_API uint64_t vc_gpu_part_bytes(const struct vc_gpu *gpu, enum vc_gpu_ecc ecc, unsigned part, unsigned of);

/* "fp16"; bit: one of enum vc_gpu_type. */
VC_API const char *vc_gpu_type_name(enum vc_gpu_type bit);

/* The catalogue as CSV with a line of titles, and as a JSON document, schema vcompress.gpus/1. *text is freed with
 * vc_text_free. `match` as for vc_gpu_matches; NULL: all. */
VC_API enum vc_status vc_gpus_csv(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *match, char **text);
VC_API enum vc_status vc_gpus_json(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *match, char **text);

#ifdef __cplusplus
}
#endif
#endif
