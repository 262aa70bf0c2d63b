/* gguf.h - what the reader (gguf_read.c, gguf_metadata.c, gguf_split.c) and the writer (gguf_write.c, gguf_files.c) of
 * GGUF share. The format in words: docs/formats.md.
 *
 *     offset  bytes  what                        a file with one pair and one f32 tensor "w" of shape (2, 3)
 *          0      4  "GGUF"                      47 47 55 46
 *          4      4  u32 version                 03 00 00 00
 *          8      8  u64 number of tensors       01 00 00 00 00 00 00 00
 *         16      8  u64 number of pairs         01 00 00 00 00 00 00 00
 *         24      .  pairs                       u64 5, "a.key", u32 4 (kind u32), u32 7
 *          .      .  tensor entries              u64 1, "w", u32 2 dims, u64 3, u64 2, u32 0 (f32), u64 0 (offset)
 *          .      .  padding                     zeros up to a multiple of general.alignment (default 32)
 *          .      .  data                        24 bytes of values, each tensor padded to the alignment, too
 *
 * All numbers are little-endian. Dimensions come fastest first, so (2, 3) of NumPy is written 3, 2. There is no
 * checksum. */
#pragma once

#include "core/model/program.h"
#include "formats/formats.h"

/* The row of this format in the table of formats. */
#define VC_FORMAT_GGUF "gguf" /* of the format, in reports */

extern const struct vc_format vc_format_gguf;
extern const struct vc_format vc_format_imatrix; /* imatrix_read.c */

#define VC_GGUF_HEADER_BYTES     24
#define VC_GGUF_VERSION          3
#define VC_GGUF_ALIGN            32 /* unless the metadata says otherwise */
#define VC_GGUF_MAX_NAME         63 /* of ggml; readers of networks for pictures take ..._OF_PICTURES */
#define VC_GGUF_NAME_OF_PICTURES 127
#define VC_GGUF_MAX_KEY          65535
#define VC_GGUF_MAX_PAIRS        ((uint64_t)65536)
#define VC_GGUF_MAX_DIMS         4
#define VC_GGUF_DIMS_OF_PICTURES 5
#define VC_GGUF_QUANTIZATION     2 /* general.quantization_version of every block type of today */
#define VC_GGUF_KEY_ALIGNMENT    "general.alignment"
#define VC_GGUF_KEY_ARCHITECTURE "general.architecture"
#define VC_GGUF_KEY_SHAPE        "comfy.gguf.orig_shape." /* and the name of a tensor: what it was, i32 */

/* Kinds of metadata values, by their numbers in the file. Strings are a u64 length and the bytes; arrays a u32 kind, a
 * u64 count and the values. */
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

/* Bytes of a value of that kind; 0 for strings, arrays and what is no kind. */
size_t vc_gguf_kind_bytes(uint32_t kind);

/* The integer of that kind whose bytes are the first of `bytes`, with zeros behind it. */
int64_t vc_gguf_integer(uint32_t kind, const unsigned char bytes[8]);

/* The element types of the format, by their number in it; VC_DTYPE_NONE where there is none. */
enum vc_dtype vc_gguf_dtype(uint32_t type);
/* The number of a type; false when the format has none. */
bool vc_gguf_type(enum vc_dtype dtype, uint32_t *type);

/* What llama.cpp calls a number of general.file_type, "Q4_K_M"; NULL where the number is not known. */
const char *vc_gguf_file_type_name(uint64_t number);
/* The number of general.file_type that llama.cpp calls by that name, "Q4_K_M"; false if there is none. */
bool vc_gguf_file_type(const char *name, uint32_t *number);

/* Whether some tensor has a type that models with that number of general.file_type have. */
bool vc_gguf_file_type_fits(const struct vc_model *model, uint64_t number);

/* Where a pair lies in the file, from its key's length to the end of its value; end 0: the file has no such pair. */
struct gguf_place {
    uint64_t begin, end;
};

/* Pairs that speak of the tensors, so that a writer replaces or drops them. All others are copied as they are. */
enum gguf_known {
    GGUF_FILE_TYPE,
    GGUF_QUANTIZER,
    GGUF_SPLIT_NO,      /* of a file of several, from 0 on */
    GGUF_SPLIT_COUNT,   /* how many there are */
    GGUF_SPLIT_TENSORS, /* how many tensors they have together */
    GGUF_KNOWN_COUNT
};

/* What a reader keeps of the pairs. The pairs themselves stay in the file: the writer copies begin..end from there. */
struct gguf_metadata {
    uint64_t begin, end; /* in the file */
    uint64_t n_pairs;
    uint32_t alignment;
    struct gguf_place known[GGUF_KNOWN_COUNT];
    uint64_t values[GGUF_KNOWN_COUNT]; /* of those that are whole numbers; 0 for others */
    bool has_shapes;                   /* pairs of VC_GGUF_KEY_SHAPE */
};

/* One file of a model that has one or several. */
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
    struct vc_arena arena; /* their paths, shapes */
    uint64_t *offsets;     /* of the tensors in the data of their files */
    char *names;
};

/* A position in a file that is read front to back through a buffer; `where` goes into the sentence when the file ends
 * too early. vc_gguf_cursor_release frees the buffer. */
struct gguf_cursor {
    struct vc_ctx *ctx;
    const struct vc_infile *file;
    uint64_t at;
    uint64_t start; /* of what the buffer holds */
    size_t n;
    unsigned char *buffer;
    char where[160]; /* what is being read: "metadata key 'general.name'"; or, said only when it is asked for: */
    uint64_t entry, n_entries; /* tensor entry number `entry`; 0: none */
    const char *tensor;        /* ... of that name; NULL: it is not known yet */
    bool cut;                  /* the file has ended too early */
};

/* What is being read. */
const char *vc_gguf_where(struct gguf_cursor *cursor);

enum vc_status vc_gguf_cursor_init(struct vc_ctx *ctx, const struct vc_infile *file, struct gguf_cursor *cursor);
void vc_gguf_cursor_release(struct gguf_cursor *cursor);
#define VC_SCOPED_CURSOR VC_CLEANUP(vc_gguf_cursor_release) /* before a cursor that ends with its scope */
/* VC_E_FORMAT "ends inside <where>" when the file has no n bytes more. */
enum vc_status vc_gguf_take(struct gguf_cursor *cursor, void *dst, size_t n);
enum vc_status vc_gguf_take_u32(struct gguf_cursor *cursor, uint32_t *v);
enum vc_status vc_gguf_take_u64(struct gguf_cursor *cursor, uint64_t *v);
/* Goes n bytes on; the file has them. */
enum vc_status vc_gguf_skip(struct gguf_cursor *cursor, uint64_t n);

/* Header and pairs of one file, from its first byte on. Adds the facts that `inspect` shows to the model (NULL: to
 * none) and leaves the cursor at the first tensor entry. Used by the reader for each file, and by gguf_split.c to learn
 * whether a file is one of several. */
enum vc_status vc_gguf_read_head(struct gguf_cursor *cursor, struct vc_model *model, uint64_t *n_tensors,
                                 struct gguf_metadata *metadata);

/* Fills self->shards: the given file alone, or, where its name is "<prefix>-00001-of-00003.gguf" and its metadata
 * agrees, all files of the model. self closes `file` and all others, also after a failure. */
enum vc_status vc_gguf_open_files(struct vc_ctx *ctx, struct vc_infile *file, struct gguf *self,
                                  struct vc_model *model);
/* Puts the name of one of several files before the sentence of a failure; with findings the failure becomes one of
 * them, VC_OK is returned, and the reader goes on with the next file. */
enum vc_status vc_gguf_in_shard(struct vc_ctx *ctx, const struct gguf_shard *shard, enum vc_status status);
/* Called when the metadata of all files has been read and n_tensors were found in them: split.no, split.count and
 * split.tensors.count have to be right. */
/* Numbers beside blocks of NVFP4 become parts of them (gguf_scales.c). */
enum vc_status vc_gguf_attach_scales(struct vc_ctx *ctx, struct vc_model *model);

enum vc_status vc_gguf_check_split(struct vc_ctx *ctx, const struct gguf *self, uint64_t n_tensors);

/* What loads a file with the names of another format: not llama.cpp, which wants its own. */
extern const struct vc_loader vc_gguf_other_loader;

/* vc_source_ops.program (gguf_program.c). */
enum vc_status vc_gguf_program(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                               struct vc_program *out);

/* The pairs of a file as a JSON object (gguf_json.c); a value that is no UTF-8, or not finite, is null.
 * vc_json_tree_free in any case. */
struct json_t;
enum vc_status vc_gguf_json(struct vc_ctx *ctx, const struct gguf_shard *shard, struct json_t **out, uint64_t *counted);

/* Of tensors that lie as rows of 256 in that file, by its pairs of VC_GGUF_KEY_SHAPE: floats get their shape again, and of
 * blocks model->unfolded has it, for outputs that are none. Pairs that fit no tensor say nothing. The names are indexed. */
enum vc_status vc_gguf_restore_shapes(struct vc_ctx *ctx, const struct gguf_shard *shard, struct vc_arena *arena,
                                      struct vc_model *model);

/* "general.file_type" and so on. */
extern const char *const vc_gguf_known_keys[GGUF_KNOWN_COUNT];

/* The writer (create_sink of the row in gguf_read.c). options->path NULL or dry_run: only sizes are planned. The model
 * may be of any format. */
enum vc_status vc_gguf_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                   const struct vc_write_options *options, struct vc_sink **out);

extern const struct vc_program_sizes vc_gguf_program_sizes;
/* gguf_edit.c: whether a key of that meaning states that number. */
bool vc_gguf_says(const struct vc_program *program, enum vc_edit_key key, uint64_t number);
/* The keys as the edits will make them, in the arena. */
enum vc_status vc_gguf_edit_keys(struct vc_ctx *ctx, const struct vc_edit *edits, size_t n, struct vc_arena *arena,
                                 struct vc_program *program);
