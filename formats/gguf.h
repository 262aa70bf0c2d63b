/* gguf.h - what reader and writer of GGUF share. Layout: docs/formats.md.
 *
 *     "GGUF" | u32 version | u64 tensors | u64 pairs | pairs | tensor entries | padding | data, each tensor padded */
#ifndef VC_FORMATS_GGUF_H
#define VC_FORMATS_GGUF_H

#include "core/sink.h"
#include "core/source.h"
#include "formats/infile.h"

#define VC_GGUF_HEADER_BYTES     24
#define VC_GGUF_VERSION          3
#define VC_GGUF_ALIGN            32 /* unless the metadata says otherwise */
#define VC_GGUF_MAX_NAME         63
#define VC_GGUF_MAX_KEY          65535
#define VC_GGUF_MAX_PAIRS        ((uint64_t)65536)
#define VC_GGUF_MAX_DIMS         4
#define VC_GGUF_QUANTIZATION     2 /* general.quantization_version of every block type of today */
#define VC_GGUF_KEY_ALIGNMENT    "general.alignment"
#define VC_GGUF_KEY_FILE_TYPE    "general.file_type"
#define VC_GGUF_KEY_QUANTIZER    "general.quantization_version"
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

/* What the metadata was read for. */
struct gguf_metadata {
    uint64_t begin, end; /* in the file */
    uint64_t n_pairs;
    uint32_t alignment;
    struct gguf_place file_type, quantizer; /* pairs that a writer replaces */
};

/* `self` of a model that was read from a GGUF file. */
struct gguf {
    struct vc_infile *file;
    struct gguf_metadata metadata;
    uint64_t data_offset;
    uint64_t *offsets; /* of the tensors in the data */
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

enum vc_status gguf_cursor_init(struct vc_ctx *ctx, const struct vc_infile *file, struct gguf_cursor *cursor);
void gguf_cursor_release(struct gguf_cursor *cursor);
/* VC_E_FORMAT "ends inside <where>" when the file has no n bytes more. */
enum vc_status gguf_take(struct gguf_cursor *cursor, void *dst, size_t n);
enum vc_status gguf_take_u32(struct gguf_cursor *cursor, uint32_t *v);
enum vc_status gguf_take_u64(struct gguf_cursor *cursor, uint64_t *v);

/* Reads the pairs that begin at the cursor: checks all of them, adds the facts of the model and leaves the cursor
 * behind them. */
enum vc_status vc_gguf_read_metadata(struct gguf_cursor *cursor, struct vc_model *model, uint64_t n_pairs,
                                     struct gguf_metadata *metadata);

/* options->path NULL or dry_run: sizes only. The model may be of any format. */
enum vc_status vc_gguf_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                   const struct vc_write_options *options, struct vc_sink **out);

#endif
