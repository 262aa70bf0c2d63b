/* gpus.h - a catalogue of GPUs: names, memory that a program sees, types that the GPU computes with.
 *
 * "The memory of a card" has three meanings (docs/memory-model.md): the vendor's number (24 GB), the driver's number
 * (24,564 MiB), and the memory that a CUDA program gets (24,210 MiB). vc_gpu.visible_bytes is the third number, or
 * a safe estimate. No GPU is needed.
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_GPUS_H
#define VCOMPRESS_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/context.h>
#include <vcompress/word.h>

VC_BEGIN_C

/* Types that matrix units compute with, as bits; VC_GPU_2_4: 2:4 sparsity. Numbers are stable. */
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

/* Source of vc_gpu.visible_bytes. Numbers are stable. */
enum vc_gpu_source {
    VC_GPU_FROM_CUDA = 0,   /* reported to a CUDA program */
    VC_GPU_FROM_DRIVER = 1, /* the driver's number less the driver's own use */
    /* The vendor's number less an estimate of the driver's own use and of ECC. */
    VC_GPU_FROM_NAME = 2
};

struct vc_gpu {
    const char *name; /* "GeForce RTX 3060 12GB"; a cloud instance: "p4d.24xlarge" */
    size_t n_aliases;
    const char *const *aliases;
    const char *vendor, *architecture, *memory_type; /* "" for an instance */
    int major, minor;                                /* compute capability; 0.0: none */
    double memory_gb;                                /* the vendor's number */
    uint64_t driver_bytes, cuda_bytes;               /* 0: not known */
    double bandwidth_gb_s;                           /* memory bandwidth, 10^9 bytes per second; 0: unknown */
    unsigned types, types_unsure;                    /* enum vc_gpu_type */
    const char *note;                                /* "" */
    const struct vc_gpu *of;                         /* an instance: the GPU inside; else NULL */
    unsigned count;                                  /* an instance: number of GPUs, each with its own memory; else 1 */
    uint64_t visible_bytes; /* what a program sees before its first allocation; 0 for an instance */
    enum vc_gpu_source visible_from;
    double nvlink_gb_s; /* NVLink to other GPUs, both directions together, 10^9 bytes per second; 0: none, or unknown */
};

struct vc_gpus;

/* Opens the catalogue. path NULL, or a CSV file with more rows in the format of vc_gpus_csv; the columns `name` and
 * `memory_gb` (or `of`) are enough. A row replaces an existing row of the same name. VC_E_FORMAT if a line is wrong;
 * the sentence has the line. Free *out with vc_result_free. */
VC_API enum vc_status vc_gpus_open(struct vc_ctx *ctx, const char *path, struct vc_gpus **out);

/* What a catalogue begins with, for reading. An index behind the end gives NULL. */
struct vc_gpu_list {
    size_t n;
    struct vc_gpu **rows;
};

static inline size_t vc_gpus_count(const struct vc_gpus *gpus)
{
    return ((const struct vc_gpu_list *)(const void *)gpus)->n;
}
static inline const struct vc_gpu *vc_gpu(const struct vc_gpus *gpus, size_t index)
{
    return index < vc_gpus_count(gpus) ? ((const struct vc_gpu_list *)(const void *)gpus)->rows[index] : NULL;
}

/* Finds a GPU and the number of GPUs by a text: "RTX 3060", "a100-sxm4-80gb:8", "p4d.24xlarge". Case, spaces, hyphens
 * and the vendor's name do not matter. The memory size may be omitted if the GPU has only one size. *gpu is never an
 * instance. VC_E_ARGUMENT if no GPU or several GPUs match; the sentence lists similar names. */
VC_API enum vc_status vc_gpus_find(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *text,
                                   const struct vc_gpu **gpu, unsigned *count);

/* True if name, aliases or architecture contain all words of the text. For lists. */
VC_API bool vc_gpu_matches(const struct vc_gpu *gpu, const char *text);

/* Whether ECC takes a sixteenth of the memory (GDDR only; HBM has extra bits for ECC). Numbers are stable. */
enum vc_gpu_ecc { VC_GPU_ECC_AS_LISTED = 0, VC_GPU_ECC_ON = 1, VC_GPU_ECC_OFF = 2 };

/* Of vc_gpu.visible_bytes what a program sees of `part` of `of` slices of the GPU (MIG), a little less than part / of of the memory. 1 of 1: the whole
 * GPU. */
VC_API uint64_t vc_gpu_part_bytes(const struct vc_gpu *gpu, enum vc_gpu_ecc ecc, unsigned part, unsigned of);

/* Renders the catalogue as CSV with a line of titles. `match`: as for vc_gpu_matches; NULL: all GPUs. Free *text with
 * vc_text_free. */
VC_API enum vc_status vc_gpus_csv(struct vc_ctx *ctx, const struct vc_gpus *gpus, const char *match, char **text);

VC_END_C
#endif
