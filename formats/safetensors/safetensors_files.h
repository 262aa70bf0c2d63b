/* safetensors_files.h - which tensor of the output lies in which file: names of files and headers.
 *
 * One file, or a folder of shards. Shards are those of the source, or runs of tensors up to a size; a tensor's scales
 * stay with it. */
#pragma once

#include "formats/safetensors/safetensors_outs.h"

struct safetensors_file {
    const char *name;        /* in the folder; NULL for a single file */
    struct vc_outfile *file; /* NULL: nothing is written. In a folder it is the folder's */
    size_t n_records;        /* 0: the file is not made */
    size_t n_all;            /* the same, with those of other workers */
    struct vc_text header;   /* with its length in front; its size alone where nothing is written */
    uint64_t data_bytes;
    atomic_uint_fast64_t got;
};

struct safetensors_files {
    struct vc_arena arena;
    size_t n;
    struct safetensors_file *files;
    const char *note; /* what cannot be kept, for the report; NULL: nothing */
};

struct safetensors_plan {
    const struct vc_out_list *outs;
    const struct vc_model *model;
    const struct safetensors *source;    /* NULL: the model is of another format */
    struct safetensors_records *records; /* get their files and offsets */
    const char *prefix;                  /* of the names of new files: "model" */
    const char *layout;                  /* name of the sink's dialect */
    bool in_folder;
    bool sizes_only; /* headers are counted, and not made */
    uint64_t max_shard_bytes;
};

/* Assigns the records to files and makes the headers. Release also after a failure. */
enum vc_status vc_safetensors_files_make(struct vc_ctx *ctx, const struct safetensors_plan *plan,
                                         struct safetensors_files *out);
void vc_safetensors_files_release(struct vc_ctx *ctx, struct safetensors_files *files);

/* What a file of several says of the job that made them all; size_only: a text of that length. */
void vc_safetensors_job_text(const struct vc_out_list *outs, const struct vc_model *model, const char *layout,
                             bool size_only, struct vc_text *text);
