/* gguf_files.h - which tensor of a GGUF output lies in which file, and what stands before the data of each: one file,
 * or several that belong together ("<prefix>-00001-of-00003.gguf"), each whole for itself. Knows sizes; writes nothing.
 */
#pragma once

#include "core/text/text.h"
#include "formats/gguf/gguf.h"
#include "formats/io/outfile.h"

#define VC_GGUF_EXTENSION   ".gguf"
#define VC_GGUF_MAX_FILES   65535 /* split.count has 16 bits */
#define VC_GGUF_MAX_PATCHES 88    /* values of a file's metadata that are replaced */
#define VC_GGUF_MAX_GIVEN   64    /* entries that a caller gives */
#define VC_GGUF_MAX_PARTS   (2 * (GGUF_KNOWN_COUNT + VC_GGUF_MAX_PATCHES) + 2)

/* A piece of a file's metadata: bytes begin..end of the source's file, or of `fresh`. The pieces in a row are the
 * metadata. */
struct gguf_part {
    bool from_source;
    uint64_t begin, end;
};

/* A value of the source's metadata that is replaced by bytes begin..end of `fresh`. */
struct gguf_patch {
    struct gguf_place place; /* of the value alone, in the source's file */
    uint64_t begin, end;
};

/* One file of the output. */
struct gguf_file {
    const char *name;              /* in the folder; NULL for a single file */
    struct vc_outfile *file;       /* NULL: nothing is written. In a folder it is the folder's */
    bool in_other_shard;           /* another worker makes it */
    const struct gguf_shard *from; /* whose pairs are copied; NULL: none are */
    uint32_t alignment;
    struct vc_text fresh; /* pairs that the source does not have like this */
    struct gguf_part parts[VC_GGUF_MAX_PARTS];
    size_t n_parts;
    struct gguf_patch patches[VC_GGUF_MAX_PATCHES]; /* in the order of the file */
    size_t n_patches;
    uint64_t given_begin, given_end; /* of `fresh`: pairs that a caller gives, and no other file has */
    uint64_t n_pairs, n_tensors;
    struct vc_text entries; /* ends in the padding before the data; its size alone where nothing is written */
    uint64_t metadata_bytes;
    uint64_t value_bytes; /* of all tensors, without padding */
    uint64_t values_end;  /* in the file; what follows is padding */
    uint64_t file_bytes;
    atomic_uint_fast64_t got;
};

/* The plan: which output tensor goes to which file, and at which offset. */
struct gguf_files {
    struct vc_arena arena;
    size_t n;
    struct gguf_file *files;
    uint32_t *file_of; /* by output */
    size_t *shard_of;  /* by file, where they are those of the source: which one; NULL: they are not */
    uint64_t *offsets; /* by output, from the start of its file */
    const char *note;  /* what cannot be kept, for the report; NULL: nothing */
};

/* What the plan is made from; filled by gguf_write.c. */
struct gguf_plan {
    const char *picture; /* general.architecture of a network for pictures (gguf_write.c); NULL: another model */
    const struct vc_out_list *outs;
    const struct vc_model *model;
    const struct gguf *source; /* NULL: the model is of another format */
    const char *prefix;        /* of the names of files: "model" */
    bool in_folder;
    bool sizes_only; /* entries are counted, and not made */
    uint64_t max_shard_bytes;
    unsigned shard, n_shards; /* as in vc_write_options */
};

/* Called by the sink's layout. Refuses what GGUF cannot say (names above 63 bytes, more than 4 dimensions, types
 * without a number; of networks for pictures above 127 bytes and 5 dimensions). Release also after a failure. */
enum vc_status vc_gguf_files_make(struct vc_ctx *ctx, const struct gguf_plan *plan, struct gguf_files *out);
void vc_gguf_files_release(struct vc_ctx *ctx, struct gguf_files *files);

/* gguf_given.c: appends the kind of value (u32) and the value that a caller gives, "u32:7"; a value without a kind is of
 * the kind `there`, that of the pair it replaces (GGUF_KIND_COUNT if there is none, and it is a text). VC_E_ARGUMENT if
 * the value is not of that kind; arrays are not replaced. */
enum vc_status vc_gguf_given_value(struct vc_ctx *ctx, const struct vc_metadata_entry *entry, uint32_t there,
                                   struct vc_text *to);

/* gguf_edit.c: fills the file's patches with what the edits of outs change. VC_E_UNSUPPORTED where the metadata of the
 * first file does not state a number that an edit changes. */
enum vc_status vc_gguf_edit(struct vc_ctx *ctx, const struct vc_out_list *outs, struct gguf_file *file, bool first);
