/* safetensors.h - what reader and writer of safetensors share. Layout: docs/formats.md.
 *
 *     u64 LE n | n bytes of JSON, may end in spaces | data to the end of the file, without holes
 *
 * A checkpoint is one such file, or a folder of them (shards) with an index. */
#pragma once

#include "formats/dialects/search.h"
#include "formats/formats.h"
#include "formats/io/outfolder.h"
#include "formats/safetensors/safetensors_notes.h"

/* The row of this format in the table of formats. */
#define VC_FORMAT_SAFETENSORS "safetensors" /* of the format, in reports */

extern const struct vc_format vc_format_safetensors;

#define VC_SAFETENSORS_PREFIX_BYTES 8
#define VC_SAFETENSORS_UNPACK_BYTES ((size_t)32 << 10) /* on the stack of a reader */
#define VC_SAFETENSORS_MAX_HEADER   ((uint64_t)100000000)
#define VC_SAFETENSORS_METADATA     "__metadata__"

/* The element types of the format. */
struct safetensors_dtype {
    const char *name;
    unsigned n_bits;
    enum vc_dtype dtype;
};

extern const struct safetensors_dtype vc_safetensors_dtypes[];
extern const size_t vc_safetensors_n_dtypes;

/* A tensor as its header entry has it; its shard is in the model's io. */
struct safetensors_entry {
    const char *name;
    const uint64_t *shape;
    uint64_t offset, n_bytes; /* in the data of its shard */
    uint32_t order;           /* in the header */
    uint8_t n_dims;
    uint8_t type; /* its number in vc_safetensors_dtypes */
    bool broken;  /* only while findings are collected: it is left out */
};

/* One file. */
struct safetensors_shard {
    char *name; /* in the folder; NULL for a single file */
    struct vc_infile *file;
    uint64_t data_offset;
    size_t first, n;                /* its entries */
    struct vc_arena arena;          /* names and shapes of the entries, the notes */
    struct safetensors_notes notes; /* the metadata without our manifest */
    bool lost;                      /* not all of its entries are known: broken ones among findings, or it is absent */
    bool header_only;               /* the file ends behind the header */
    char *manifest;                 /* our own entry; NULL if there is none. Freed once it has been applied */
    char *names;                    /* our list of second names; NULL if there is none */
    char *job;                      /* which job made the file; NULL if it does not say */
};

/* `self` of a model that was read from safetensors. */
struct safetensors {
    size_t n_shards;
    struct safetensors_shard *shards;
    const struct vc_model *model;
    size_t n_entries, capacity;
    /* By tensor; behind these there are second names of some. Once the model is open: NULL where all tensors are shown
     * as the header has them, so that no more than these two are needed. vc_safetensors_entry asks. */
    struct safetensors_entry *entries;
    uint64_t *offsets;       /* in the data of their shards */
    uint8_t *types;          /* their numbers in vc_safetensors_dtypes */
    struct vc_finds finds;   /* weights of dialects */
    struct vc_family family; /* what loaders do with such a model, by the config.json beside it */
};

/* Reads the header of the shard's file: its entries come behind those of the shards before it, sorted by their places,
 * and its metadata. While findings are collected, what is wrong is left out. */
enum vc_status vc_safetensors_read_header(struct vc_ctx *ctx, struct safetensors *self,
                                          struct safetensors_shard *shard);

/* Frees what that has made beside the entries. */
void vc_safetensors_release_header(struct vc_ctx *ctx, struct safetensors_shard *shard);

/* vc_format.stream_end: the header, and the last byte that it gives to a tensor. */
enum vc_status vc_safetensors_stream_end(struct vc_ctx *ctx, const struct vc_infile *so_far, struct vc_stream_end *end);

/* What the header says of a tensor, whatever the model shows it as. */
struct safetensors_entry vc_safetensors_entry(const struct safetensors *self, size_t tensor);

/* All shards were made by one job, or none says what made it. VC_E_UNSUPPORTED names two that were not, and how their
 * jobs differ. */
enum vc_status vc_safetensors_check_job(struct vc_ctx *ctx, const struct safetensors *self);

/* Opens the shards that the index of model->folder names, or its only file, as one model. options NULL: all have to be
 * there. */
enum vc_status vc_safetensors_open_folder(struct vc_ctx *ctx, const struct vc_open_options *options,
                                          struct vc_model *model);

/* Headers of input files that are gone. A worker of several (--shard) that does not have the files of the others leaves
 * the header of its own input in the output's folder, where the workers after it find what they need to know of its
 * tensors. The worker that knows all headers writes what goes along with the weights.
 *
 *     out/model-00001-of-00003.safetensors                    what the worker made
 *     out/.shard-headers/model-00001-of-00003.safetensors     the header of its input, until the index is made
 *
 * Opens such a header in the output folder `out`; *there false: none lies there. The arena keeps the path. */
enum vc_status vc_safetensors_open_kept(struct vc_ctx *ctx, struct vc_arena *arena, const char *out, const char *name,
                                        bool *there, struct vc_infile **file);

/* Adds the header of the input to the output's folder. */
enum vc_status vc_safetensors_keep_header(struct vc_ctx *ctx, const struct safetensors_shard *from,
                                          struct vc_outfolder *folder);

/* Whether the output folder has such headers. */
bool vc_safetensors_has_kept(const char *out);

/* Removes them, as far as that is possible: the last step. */
void vc_safetensors_remove_kept(const char *out);

/* options->path NULL or dry_run: sizes only. The model may be of any format. */
enum vc_status vc_safetensors_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                          const struct vc_write_options *options, struct vc_sink **out);

/* The same for a model in a pipeline, whose path is a folder: writes into the folder `name` of the whole, which
 * outlives the sink, and is NULL where nothing is written. options->path is that folder's. */
enum vc_status vc_safetensors_sink_create_part(struct vc_ctx *ctx, const struct vc_model *model,
                                               const struct vc_write_options *options, struct vc_outfolder *whole,
                                               const char *name, struct vc_sink **out);
