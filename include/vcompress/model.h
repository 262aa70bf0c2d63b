/* model.h - a checkpoint: an ordered list of named tensors.
 *
 * vc_model_open reads headers only; vc_model_read reads values by range. Names, shapes and descriptions that these
 * calls return are borrowed from the model and valid until vc_model_close. Several threads may read one model, each
 * with its own context. The context that opened the model must outlive the model. The numbers of all enums here are
 * stable. */
#ifndef VCOMPRESS_MODEL_H
#define VCOMPRESS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/context.h>
#include <vcompress/dtype.h>
#include <vcompress/stream.h>

VC_BEGIN_C

#define VC_MAX_DIMS  64
#define VC_NO_TENSOR ((size_t)-1)
#define VC_NO_INPUTS ((unsigned)-1)

enum vc_granularity {
    VC_GRANULARITY_TENSOR = 0,  /* one scale */
    VC_GRANULARITY_CHANNEL = 1, /* one scale per index of `axis` */
    /* one scale per `group_size` elements along an index of axis 0; the last group may be short */
    VC_GRANULARITY_GROUP = 2,
    /* one scale per `group_rows` rows and `group_size` columns of a matrix; blocks at the ends may be smaller */
    VC_GRANULARITY_BLOCK = 3
};

enum vc_scheme {
    VC_SCHEME_NONE = 0,
    VC_SCHEME_INT8 = 1, /* value = (float)(code - zero_point) * scale; docs/numerics.md */
    VC_SCHEME_INT4 = 2, /* as INT8, with codes of type i4, from -8 to 7 */
    /* value = grid[code] * scale, with a grid of floats: */
    VC_SCHEME_FP8 = 3,   /* codes of type f8_e4m3 */
    VC_SCHEME_MXFP8 = 4, /* f8_e4m3; a scale of type f8_e8m0 (a power of two) for 32 elements */
    VC_SCHEME_MXFP4 = 5, /* f4_e2m1; a scale of type f8_e8m0 for 32 elements */
    VC_SCHEME_NVFP4 = 6, /* f4_e2m1; a scale of type f8_e4m3 for 16 elements, divided by VC_PART_GLOBAL_SCALE */
    VC_SCHEME_NF4 = 7,   /* u4: numbers of the 16 values of NF4 (QLoRA); the first code in the high half of a byte */
    VC_SCHEME_FP4 = 8,   /* u4: the same with bitsandbytes' FP4 */
    /* as INT4, with codes of other widths: */
    VC_SCHEME_INT2 = 9,     /* i2, from -2 to 1 */
    VC_SCHEME_INT3 = 10,    /* i3, from -4 to 3 */
    VC_SCHEME_INT5 = 11,    /* i5, from -16 to 15 */
    VC_SCHEME_INT6 = 12,    /* i6, from -32 to 31 */
    VC_SCHEME_TERNARY = 13, /* i2, from -1 to 1 */
    VC_SCHEME_INT32 = 14    /* i32: biases of products on codes; value = (float)code * scale */
};

/* The parts of a quantized weight. The tensor with the weight's name holds the codes; every other part is a separate
 * tensor. VC_PART_ROLES is the number of roles, which grows. */
enum vc_part_role {
    VC_PART_CODES = 0,
    VC_PART_SCALE = 1,        /* value = code * scale */
    VC_PART_ABSMAX = 2,       /* largest magnitudes instead of scales: scale = absmax / 127 (bitsandbytes) */
    VC_PART_ZERO_POINT = 3,   /* the code that stands for 0 */
    VC_PART_GLOBAL_SCALE = 4, /* one number for all scales of the tensor */
    VC_PART_CODEBOOK = 5,     /* the value of each code */
    VC_PART_SCALE_SCALE = 6,  /* scales of the scales, where the scales are codes */
    VC_PART_SCALE_OFFSET = 7, /* offset added to the scales, where the scales are codes */
    VC_PART_ORDER = 8,        /* which group an input channel belongs to */
    VC_PART_MASK = 9,         /* one bit per value: 1 = kept */
    VC_PART_OFFSET = 10,      /* a float beside each scale: enum vc_offset_rule */
    VC_PART_ROLES = 11
};

/* What VC_PART_OFFSET is to codes that count from 0: n is the code + 2^(bits - 1). Such codes are read, not written. */
enum vc_offset_rule {
    VC_OFFSET_NONE = 0,
    VC_OFFSET_BEFORE = 1, /* value = (n - offset) * scale (HQQ) */
    VC_OFFSET_AFTER = 2,  /* value = n * scale + offset (MLX) */
    VC_OFFSET_MINUS = 3   /* value = n * scale - offset (quanto) */
};

struct vc_quant_part {
    enum vc_part_role role;
    size_t tensor; /* its index in the model */
};

/* How the codes of a quantized tensor become values. Each role occurs at most once among the parts. */
struct vc_quant {
    enum vc_scheme scheme;
    enum vc_granularity granularity;
    unsigned axis;
    uint64_t group_size;
    bool symmetric;
    enum vc_dtype source_dtype; /* type before quantization; VC_DTYPE_F32 if unknown */
    unsigned n_parts;           /* without the codes */
    struct vc_quant_part parts[VC_PART_ROLES];
    /* Scales that are codes themselves (bitsandbytes' double quantization): scale i is
     * codebook[code] * scale_scale[i / scale_group] + scale_offset. scale_group 0: they are not. */
    uint64_t scale_group;
    float scale_offset;
    uint64_t group_rows;    /* VC_GRANULARITY_BLOCK */
    bool global_multiplies; /* VC_PART_GLOBAL_SCALE: scales are multiplied by it (ModelOpt), not divided */
    float input_scale;      /* outputs: what its loader makes codes of all inputs of the layer with; 0: nothing */
    enum vc_offset_rule offset_rule; /* NONE: there is no VC_PART_OFFSET */
    /* Scales that follow no rows: element i, counted row by row, has scale i / scale_run % (number of scales). 0: the
     * granularity says which. */
    uint64_t scale_run;
};

/* Index of the tensor that has this role. Returns VC_NO_TENSOR if no part has the role. */
VC_API size_t vc_quant_find(const struct vc_quant *quant, enum vc_part_role role);
/* What a tensor is for. Passes change weights only; other tensors are copied, or dropped on request (vc_job_drop). */
enum vc_role {
    VC_ROLE_WEIGHT = 0,
    VC_ROLE_OPTIMIZER = 1, /* optimizer states of a training checkpoint, such as Adam's moments */
    VC_ROLE_OTHER = 2      /* anything else: random states, counters */
};

/* What the model does with a tensor, as its readers in the file's graph say (ONNX), or its name where there is no graph.
 * It decides what is a weight; type, rank and size do not. */
enum vc_use {
    VC_USE_UNKNOWN = 0, /* nothing says so */
    VC_USE_PRODUCT = 1, /* a factor of a sum of products: MatMul, Conv, LSTM */
    VC_USE_ROWS = 2,    /* rows that indices choose: an embedding */
    VC_USE_NORM = 3,    /* scale, offset, mean or variance of a normalization */
    VC_USE_BIAS = 4,    /* a bias, an initial state, peephole weights */
    VC_USE_CODES = 5,   /* codes of an operator on codes */
    VC_USE_INDEX = 6,   /* indices, axes, sizes */
    VC_USE_TABLE = 7,   /* any other constant: masks, anchors, angles */
    VC_USE_SCALE = 8    /* scales, zero points and the like of an operator on codes */
};

struct vc_tensor {
    const char *name; /* UTF-8, unique in the model */
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems;
    uint64_t size_bytes;          /* of the values, uncompressed */
    uint64_t file_bytes;          /* bytes in the file: the compressed values and the tensor's own headers */
    const struct vc_quant *quant; /* NULL: the values are the weights */
    size_t part_of;               /* scales and zero points: index of the tensor with the codes; else VC_NO_TENSOR */
    /* Tied weights: index of an earlier tensor of the same type and shape that shares these bytes of the file;
     * file_bytes is then 0 here. Else VC_NO_TENSOR. */
    size_t alias_of;
    /* Why passes skip this tensor unless a rule names it, from what the format states: "bias". NULL: no reason. Set for
     * each `use` from VC_USE_NORM on. */
    const char *kept_as;
    enum vc_role role;
    /* Axis of the output channels, if the format states the axis (ONNX: 1 for the right side of MatMul) or the name
     * does (kernels of Flax and Keras); else 0. */
    unsigned channel_axis;
    /* Axis of the input channels (products sum over this axis, N:M patterns go along it) plus 1, if the format or the
     * name states it. 0: the axis beside channel_axis. VC_NO_INPUTS: there is no such axis, or the axis is unknown. */
    unsigned inputs;
    bool compressed; /* in the file */
    /* Part of codes, and of all others of the file: a mark without which a loader takes none of them for codes. */
    bool of_all_codes;
    const char *axis_reason;   /* why channel_axis, a few words, if the name decided; else NULL */
    const char *inputs_reason; /* why VC_NO_INPUTS, a few words */
    enum vc_use use;
    /* Codes, or a part of codes, that cannot be decoded: why, as a sentence goes on behind the name, "is codes of AQLM,
     * which are not decoded here". Passes leave the tensor as it is, and dequantize refuses. NULL if it is not one. */
    const char *undecoded;
};

struct vc_model;

/* A part of a file: an entry at the top of a PyTorch checkpoint, such as "model" or "optimizer". */
struct vc_part {
    const char *name; /* its key, UTF-8; "" for all of the file */
    const char *what; /* "dict of 7", "argparse.Namespace, opaque", "int 12" */
    enum vc_role role;
    bool chosen;         /* the tensors of role VC_ROLE_WEIGHT come from this part */
    size_t n_tensors;    /* readable tensors */
    uint64_t size_bytes; /* bytes of their values; each storage counts once */
};

/* A fact that the file states, or that the user should know: key "architecture", value "llama". Keys may repeat. */
struct vc_fact {
    const char *key;   /* lower case, a word or two */
    const char *value; /* one line, copied from the file: not necessarily UTF-8 */
};

/* Key of facts that every user of the file should know; reports repeat them. */
#define VC_FACT_NOTE "note"

/* What is known of a model as a whole. Later versions may add members at the end. */
struct vc_model_info {
    const char *path;            /* as it was opened: "llama/", "-" */
    const char *format;          /* "npz" */
    uint64_t file_bytes;         /* of all its files */
    size_t n_tensors;            /* numbers of vc_model_tensor are below it */
    size_t n_parts;              /* 0 if the format has no parts */
    const struct vc_part *parts; /* in file order */
    size_t n_facts;
    const struct vc_fact *facts; /* in the order in which the reader found the facts */
};

/* Strings are read during the call of vc_model_open only. */
struct vc_merge_options;

struct vc_open_options {
    size_t struct_size; /* set by vc_open_defaults */
    /* type of NumPy's void elements of the same size (VC_DTYPE_BF16); 0: they stay VC_DTYPE_VOID */
    enum vc_dtype void_as;
    /* PyTorch files: the dict whose tensors are the weights, "ema" or "nets.0". NULL: the usual names are tried. Other
     * formats ignore this field. */
    const char *key;
    /* Join the pairs that torch.nn.utils.prune writes: c.weight_orig and c.weight_mask become c.weight. The first pass
     * of the job must then be prune, which applies the mask. Not for ONNX, whose graph applies the mask. */
    bool pairs;
    /* row_tokens not 0: the file holds only tokens, in rows of row_tokens tokens each; they become the tensor
     * input_ids. token_bits: 16 or 32 bits per token; 0 means 16. A header of llm.c is skipped and decides the number
     * of bits. */
    uint64_t row_tokens, token_bits;
    /* A folder with a config.json becomes the GGUF model that llama.cpp runs: its names, shapes and values of tensors,
     * metadata and vocabulary. VC_E_UNSUPPORTED if llama.cpp computes something else than the configuration says. Other
     * inputs ignore this field. */
    bool as_gguf;
    /* as_gguf: tokenizer.ggml.pre, the name of the way in which llama.cpp cuts texts, "qwen2". NULL: found by the
     * regular expressions of tokenizer.json. */
    const char *gguf_pre;
    bool gguf_no_vocab; /* as_gguf: without a vocabulary; callers of llama.cpp give numbers of tokens. as_folder:
                         * without the files of a tokenizer */
    /* A GGUF model that llama.cpp runs becomes the folder that transformers loads: its names, shapes and values of
     * tensors, config.json and tokenizer. Blocks of Q4_0, Q8_0, MXFP4 and NVFP4 of layers are codes with parts (struct
     * vc_quant), of which safetensors files have compressed-tensors; others stay blocks. VC_E_UNSUPPORTED if no folder
     * of that kind is known, or config.json cannot say what the metadata say. Other inputs ignore this field. */
    bool as_folder;
    /* The model is there and not in a file: `path` is only its name in sentences, "<name>". Files beside a file, such
     * as config.json and further shards, are not looked for. Copied during the call; NULL: `path` is opened. */
    const struct vc_reader *reader;
    /* For the job of worker `shard` of `n_shards` (vc_write_options): safetensors files of other workers may be missing
     * in a folder with an index and a config.json. n_shards 0: all files must be there. Jobs that need a missing tensor
     * are refused. headers: the output folder, in which finished workers leave the headers of their input files until
     * vc_index_write; NULL: all files must be there. */
    unsigned shard, n_shards;
    const char *headers;
    /* Codes and blocks are shown as the f32 numbers that they stand for, without their scales. as_gguf: so that the output
     * has the bytes of dequantize and this step after it. VC_E_UNSUPPORTED if some cannot be decoded. */
    bool decoded;
    /* A folder with a config.json becomes an ONNX model: the graph of its family (docs/graph.md), with the tensors as they
     * are used there. Of a decoder that writes text with keys and values of earlier tokens as inputs and outputs. Codes
     * are decoded to f32. VC_E_FORMAT or VC_E_UNSUPPORTED if no graph of such a model is known. Other inputs ignore this
     * field. */
    bool as_onnx;
    /* With row_tokens, a file whose name ends in .txt or .jsonl is a text. Its tokens are those of the tokenizer in this
     * folder, or in the folder of this file: tokenizer.json, or SentencePiece's tokenizer.model. A .txt file is one text;
     * each line of a .jsonl file is a JSON object whose "text" is one. Texts are joined by the end-of-text token, or by what
     * the tokenizer puts behind a text if it names no such token. A row has what the tokenizer puts in front of a text, then
     * tokens of the texts, then what it puts behind. VC_E_UNSUPPORTED: there is no tokenizer, or it has a part that is not
     * known. Tokens lie in an unnamed file in $TMPDIR, 8 bytes for each. */
    const char *tokenizer;
    const char *tokenizer_else; /* the same, where `tokenizer` has none beside it; NULL: none */
    uint64_t most_rows;         /* of a text: no more rows are made than that; 0: all */
    /* as_gguf: adapters that become part of the folder's weights first (merge.h), so that the output has the bytes of
     * `merge` and this step after it; the pass merge has nothing to do then. Adapters must outlive the model. NULL: none.
     * Inputs of which no GGUF model is made ignore this field. */
    const struct vc_merge_options *merge;
    bool gguf_mmproj; /* as_gguf: the vision tower, which llama.cpp loads beside the model for text ("--mmproj") */
    /* as_onnx: matrices of products lie as the folder has them, [out, in], each with a Transpose behind it. Codes of
     * MatMulNBits lie so, too: a job that makes these (int4) needs no memory for whole matrices, and the Transposes go. */
    bool onnx_rows;
};

/* Every option off. options NULL means the same. */
static inline void vc_open_defaults(struct vc_open_options *options)
{
    vc_options_defaults("vc_open_options", options, sizeof *options);
}

/* Opens the checkpoint at `path`. The path names a file; a folder with safetensors or PyTorch files in Hugging Face's
 * layout, or with one GGUF model, or ONNX's (model.onnx, onnx/model.onnx, ..., or the only one); the index in such a folder; or any file of a split GGUF model. "-": standard input,
 * copied to an unnamed temporary file first. The content decides the format. options may be NULL. Errors: VC_E_IO,
 * VC_E_FORMAT, VC_E_UNSUPPORTED, VC_E_NOMEM. */
VC_API enum vc_status vc_model_open(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options,
                                    struct vc_model **out);
VC_API void vc_model_close(struct vc_model *model); /* accepts NULL */

/* Valid until the model is closed. */
VC_API const struct vc_model_info *vc_model_facts(const struct vc_model *model);

/* The format of a name by its extension: "npz" for "a.npz", a static string. Returns NULL if the extension is unknown.
 */
VC_API const char *vc_format_of_name(const char *path);
/* True if the path is a checkpoint of several files: a folder, the index in a folder, or one file of a split GGUF
 * model. The output is then a folder unless its name asks for a file. Only the name decides for a path that is not a
 * folder. */
VC_API bool vc_path_is_divided(const char *path);

struct vc_name_options {
    size_t struct_size; /* set by vc_name_defaults */
    const char *tag;    /* word to insert: "int8" makes model.int8.npz from model.npz, "" makes model.npz */
    /* The path that the user gave. NULL: vc_model_facts.path, which names the file if a folder holds one file. */
    const char *input;
    bool more_tensors;  /* the output has more tensors than the model, such as scales: .npy becomes .npz */
    bool folder;        /* the output is a folder of files (vc_write_options.max_shard_bytes) */
    const char *format; /* of the output (vc_write_options.format); NULL: the model's format */
    const char *into;   /* folder of the output; NULL: the folder of the input */
};

/* The model's own path, everything else off. `tag` must be set. */
static inline void vc_name_defaults(struct vc_name_options *options)
{
    vc_options_defaults("vc_name_options", options, sizeof *options);
}

/* Makes a name for an output beside the model, for programs that do not require a name from their users. A file of this
 * name may exist already. Free *name with vc_text_free. VC_E_ARGUMENT if the model is standard input, or tag is NULL.
 */
VC_API enum vc_status vc_model_output_name(struct vc_ctx *ctx, const struct vc_model *model,
                                           const struct vc_name_options *options, char **name);

VC_API const struct vc_tensor *vc_model_tensor(const struct vc_model *model, size_t index);

/* Layout of the quantized weights in a file, and the program that loads the file as stored. "" where nothing is known.
 */
struct vc_layout {
    const char *name; /* "compressed-tensors", as vc_write_options.layout calls it; "gguf", "onnx" */
    /* program that loads the file: "transformers"; "": no program loads the file as the original model */
    const char *loader;
    const char *tried; /* versions that were tested: "transformers 5.24.0, compressed-tensors 0.20.0" */
    const char *needs; /* argument that the loader needs, or a command to run on the file first */
};

/* Layout of the model. Returns NULL if nothing is quantized, or the model has no file. Valid until the model is closed.
 */
VC_API const struct vc_layout *vc_model_layout(const struct vc_model *model);

/* Index of the tensor with this name. Returns VC_NO_TENSOR if no tensor has the name. */
VC_API size_t vc_model_find(const struct vc_model *model, const char *name);

/* Reads n_elems values from element `first` on to dst, which holds capacity_bytes. Values are in C order,
 * little-endian, as stored: codes if quantized. Elements of block types come in whole blocks. Reading a whole stored or
 * compressed member checks the member's checksum. */
VC_API enum vc_status vc_model_read(struct vc_ctx *ctx, const struct vc_model *model, size_t index, uint64_t first,
                                    uint64_t n_elems, void *dst, size_t capacity_bytes);

struct vc_index_summary {
    char name[256]; /* of the index in the folder */
    size_t n_files, n_tensors;
    uint64_t total_size; /* bytes of all tensors */
};

/* Writes the index of a folder of safetensors files: which tensor is in which file. An existing index is replaced. The
 * index is called model.safetensors.index.json, or by the names of the files: x-00001-of-00003.safetensors makes
 * x.safetensors.index.json. Reads headers only. VC_E_FORMAT if a tensor occurs twice. VC_E_UNSUPPORTED if the numbers
 * in the names (-00001-of-00003) show that files are missing, or the files state that different jobs made them. */
VC_API enum vc_status vc_index_write(struct vc_ctx *ctx, const char *folder, struct vc_index_summary *out);

VC_END_C
#endif
