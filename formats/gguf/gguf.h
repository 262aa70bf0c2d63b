/* gguf.h - what reader and writer of GGUF share. Layout: docs/formats.md.
 *
 *     "GGUF" | u32 version | u64 tensors | u64 pairs | pairs | tensor entries | padding | data, each tensor padded */
#ifndef VC_FORMATS_GGUF_H
#define VC_FORMATS_GGUF_H

#include "core/base/arena.h"
#include "core/model/source.h"
#include "core/run/sink.h"
#include "formats/io/infile.h"

#define VC_GGUF_HEADER_BYTES     24
#define VC_GGUF_VERSION          3
#define VC_GGUF_ALIGN            32 /* unless the metadata says otherwise */
#define VC_GGUF_MAX_NAME         63
#define VC_GGUF_MAX_KEY          65535
#define VC_GGUF_MAX_PAIRS        ((uint64_t)65536)
#define VC_GGUF_MAX_DIMS         4
#define VC_GGUF_QUANTIZATION     2 /* general.quantization_version of every block type of today */
#define VC_GGUF_KEY_ALIGNMENT    "general.alignment"
#define VC_GGUF_KEY_ARCHITECTURE "general.architecture"

/* Kinds of metadata values. */
enum gguf_kind {
    GGUF_U8 = 0,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KIND_COUNT
};

/* The element types of the format, by their number in it; VC_DTYPE_COUNT where there is none. */
enum vc_dtype vc_gguf_dtype(uint32_t type);
/* The number of a type; false when the format has none. */
bool vc_gguf_type(enum vc_dtype dtype, uint32_t *type);

/* Where a pair lies in the file, key included; end 0: there is none. */
struct gguf_place {
    uint64_t begin, end;
};

/* Pairs that a writer replaces. */
enum gguf_known {
    GGUF_FILE_TYPE,
    GGUF_QUANTIZER,
    GGUF_SPLIT_NO,      /* of a file of several, from 0 on */
    GGUF_SPLIT_COUNT,   /* how many there are */
    GGUF_SPLIT_TENSORS, /* how many tensors they have together */
    GGUF_KNOWN_COUNT
};

/* What the metadata was read for. */
struct gguf_metadata {
    uint64_t begin, end; /* in the file */
    uint64_t n_pairs;
    uint32_t alignment;
    struct gguf_place known[GGUF_KNOWN_COUNT];
    uint64_t values[GGUF_KNOWN_COUNT]; /* of those that are whole numbers; 0 for others */
};

/* One file. */
struct gguf_shard {
    const char *path;       /* NULL: the only one, as it was given */
    struct vc_infile *file; /* NULL: it cannot be read, and findings are collected */
    struct gguf_metadata metadata;
    uint64_t data_offset;
};

/* `self` of a model that was read from a GGUF file, or several. */
struct gguf {
    size_t n_shards;
    struct gguf_shard *shards;
    struct vc_arena arena; /* their paths */
    uint64_t *offsets;     /* of the tensors in the data of their files */
    char *names;
    uint64_t *shapes;
};

/* A position in the file, read through a buffer. The pool owns the buffer: gguf_cursor_release. */
struct gguf_cursor {
    struct vc_ctx *ctx;
    const struct vc_infile *file;
    uint64_t at;
    uint64_t start; /* of what the buffer holds */
    size_t n;
    unsigned char *buffer;
    char where[160]; /* what is being read: "metadata key 'general.name'" */
};

enum vc_status vc_gguf_cursor_init(struct vc_ctx *ctx, const struct vc_infile *file, struct gguf_cursor *cursor);
void vc_gguf_cursor_release(struct gguf_cursor *cursor);
/* VC_E_FORMAT "ends inside <where>" when the file has no n bytes more. */
enum vc_status vc_gguf_take(struct gguf_cursor *cursor, void *dst, size_t n);
enum vc_status vc_gguf_take_u32(struct gguf_cursor *cursor, uint32_t *v);
enum vc_status vc_gguf_take_u64(struct gguf_cursor *cursor, uint64_t *v);

/* Reads the pairs that begin at the cursor: checks all of them, adds the facts of the model, which may be NULL, and
 * leaves the cursor behind them. */
enum vc_status vc_gguf_read_metadata(struct gguf_cursor *cursor, struct vc_model *model, uint64_t n_pairs,
                                     struct gguf_metadata *metadata);

/* The header and the pairs; the cursor is at the first entry then, of n_tensors. */
enum vc_status vc_gguf_read_head(struct gguf_cursor *cursor, struct vc_model *model, uint64_t *n_tensors,
                                 struct gguf_metadata *metadata);

/* The files of the model: one, or where the name of the given one is that of a file of several, and its metadata
 * agrees, all of them. The model has its path; `file` and all others are self's, also after a failure. */
enum vc_status vc_gguf_open_files(struct vc_ctx *ctx, struct vc_infile *file, struct gguf *self,
                                  struct vc_model *model);
/* Puts the name of one of several files before a failure; where findings are collected it becomes one of them. */
enum vc_status vc_gguf_in_shard(struct vc_ctx *ctx, const struct gguf_shard *shard, enum vc_status status);
/* The metadata of all files has been read, and so many tensors were found. */
enum vc_status vc_gguf_check_split(struct vc_ctx *ctx, const struct gguf *self, uint64_t n_tensors);

/* The key of a known pair. */
extern const char *const vc_gguf_known_keys[GGUF_KNOWN_COUNT];

/* options->path NULL or dry_run: sizes only. The model may be of any format. */
enum vc_status vc_gguf_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                   const struct vc_write_options *options, struct vc_sink **out);

#endif
