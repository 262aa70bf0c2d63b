/* gpu_rows.h - the catalogue between its files: gpus.c (rows, files), gpu_find.c (names), gpu_csv.c. */
#pragma once

#include <vcompress/gpus.h>

#include "core/base/arena.h"

enum gpu_column {
    GPU_NAME,
    GPU_ALIASES, /* several: separated by ';' */
    GPU_VENDOR,
    GPU_ARCHITECTURE,
    GPU_CAPABILITY,
    GPU_MEMORY_GB,
    GPU_MEMORY_TYPE,
    GPU_NVML_MIB,
    GPU_CUDA_MIB,
    GPU_BANDWIDTH,
    GPU_TYPE_LIST, /* separated by spaces; a question mark behind one that is not sure */
    GPU_OF,
    GPU_NOTE,
    GPU_NVLINK,
    GPU_COLUMNS
};

extern const char *const vc_gpu_columns[GPU_COLUMNS];

struct vc_gpus {
    struct vc_gpu_list list; /* first: what programs read */
    struct vc_ctx *ctx;
    struct vc_arena arena;
    size_t capacity;
};

/* The row with that name or alias, compared as vc_gpus_find does; NULL: none. */
struct vc_gpu *vc_gpus_row(const struct vc_gpus *gpus, const char *name);
