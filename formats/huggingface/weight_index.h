/* weight_index.h - the index of a checkpoint in several files: which tensor lies in which of them.
 *
 *     {"metadata": {"total_size": bytes of all tensors}, "weight_map": {tensor: file name, ...}} */
#pragma once

#include "core/model/source.h"
#include "core/text/text.h"
#include "formats/io/infile.h"

#define VC_INDEX_MAX_BYTES ((uint64_t)100 << 20)

/* An index has as many entries as the model has tensors. No tree of it is made, and its text is not kept: it is read
 * again, piece by piece, when it is checked. */
struct weight_index {
    struct vc_arena arena;
    const struct vc_infile *file; /* NULL: forgotten */
    size_t map, map_n;            /* where the object "weight_map" lies in it */
    bool has_total;               /* "total_size" is there, and is a whole number: */
    long long total_size;
    bool listed; /* the files were found with the map */
    size_t last; /* the file of the entry that was read last */
    size_t n_files, files_capacity;
    const char **files;           /* sorted */
    struct vc_name_table numbers; /* of files */
};

/* Reads the index; the names of files in it are plain ones. Sentences do not name it. Release also after a failure. The
 * file stays open until the index is forgotten. */
enum vc_status vc_weight_index_read(struct vc_ctx *ctx, const struct vc_infile *file, struct weight_index *out);

/* The model has the tensors of all files, under the names they have there, and io[].shard counts index->files. Every
 * one is in the index at its file, and nothing else is; of files that are `lost`
 * what they hold is not known: without findings, their entries become model->unseen. A wrong total size becomes a note
 * of the model. Sentences begin with the tensor's name and call the index `name`. */
enum vc_status vc_weight_index_check(struct vc_ctx *ctx, const struct weight_index *index, const char *name,
                                     const bool *lost, struct vc_model *model);

/* Frees all but the names of the files. */
void vc_weight_index_forget(struct vc_ctx *ctx, struct weight_index *index);
void vc_weight_index_release(struct vc_ctx *ctx, struct weight_index *index);

struct weight_index_entry {
    const char *tensor, *file;
};

/* The text of an index as Hugging Face writes it: indented by two, tensors sorted. Sorts the entries. */
enum vc_status vc_weight_index_text(uint64_t total_size, size_t n, struct weight_index_entry *entries,
                                    struct vc_text *text);
