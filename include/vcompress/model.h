/* model.h - a checkpoint: an ordered list of named tensors.
 *
 * Opening reads headers only; values are read on request, by range. Names, shapes and descriptions that these calls
 * return are borrowed from the model and valid until vc_model_close. A model may be read from several threads, each
 * with a context of its own; the one that it was opened with outlives it. The numbers of all enums here are stable. */
#ifndef VCOMPRESS_MODEL_H
#define VCOMPRESS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/context.h>
#include <vcompress/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VC_MAX_DIMS  64
#define VC_NO_TENSOR ((size_t)-1)
#define VC_NO_INPUTS ((unsigned)-1)

enum vc_granularity {
    VC_GRANULARITY_TENSOR = 0,  /* one scale */
    VC_GRANULARITY_CHANNEL = 1, /* one scale per index of `axis` */
    VC_GRANULARITY_GROUP = 2    /* one per `group_size` consecutive elements of an index of axis 0; the last may be
                                   short */
};

enum vc_scheme {
    VC_SCHEME_NONE = 0,
    VC_SCHEME_INT8 = 1 /* value = (float)(code - zero_point) * scale; docs/numerics.md */
};

/* What a part of a quantized weight is. The codes are the tensor that has the weight's name; the other parts are
 * tensors of their own beside it. VC_PART_ROLES is their count, which grows. */
enum vc_part_role {
    VC_PART_CODES = 0,
    VC_PART_SCALE = 1,        /* value = code * scale */
    VC_PART_ABSMAX = 2,       /* largest magnitudes in place of scales: scale = absmax / 127 (bitsandbytes) */
    VC_PART_ZERO_POINT = 3,   /* the code that stands for 0 */
    VC_PART_GLOBAL_SCALE = 4, /* one number for all scales of the tensor */
    VC_PART_CODEBOOK = 5,     /* the value of each code */
    VC_PART_SCALE_SCALE = 6,  /* scales of scales that are codes themselves */
    VC_PART_SCALE_OFFSET = 7, /* what is added to scales that are codes themselves */
    VC_PART_ORDER = 8,        /* which group an input channel belongs to */
    VC_PART_MASK = 9,         /* one bit per value: 1 = kept */
    VC_PART_ROLES = 10
};

struct vc_quant_part {
    enum vc_part_role role;
    size_t tensor; /* its index in the model */
};

/* How a quantized tensor's codes become values. A role occurs at most once among the parts. */
struct vc_quant {
    enum vc_scheme scheme;
    enum vc_granularity granularity;
    unsigned axis;
    uint64_t group_size;
    bool symmetric;
    enum vc_dtype source_dtype; /* what the weights were before; VC_DTYPE_F32 where the file does not tell */
    unsigned n_parts;           /* beside the codes */
    struct vc_quant_part parts[VC_PART_ROLES];
};

/* "scale"; never NULL. */
VC_API const char *vc_part_role_name(enum vc_part_role role);

/* The tensor that is the part of that role, or VC_NO_TENSOR. */
VC_API size_t vc_quant_find(const struct vc_quant *quant, enum vc_part_role role);
/* The part that scales come from, VC_PART_SCALE or VC_PART_ABSMAX: f32, f16 or bf16. */
VC_API size_t vc_quant_scale(const struct vc_quant *quant);

/* What a tensor is for. Only weights are worked on; the others are kept, or dropped on request. */
enum vc_role {
    VC_ROLE_WEIGHT = 0,
    VC_ROLE_OPTIMIZER = 1, /* moments and the like of a training checkpoint */
    VC_ROLE_OTHER = 2      /* random states, counters, baggage */
};

struct vc_tensor {
    const char *name; /* UTF-8, unique in the model */
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems;
    uint64_t size_bytes;          /* of the values, uncompressed */
    uint64_t file_bytes;          /* what it takes in the file: its compressed bytes and its own headers */
    const struct vc_quant *quant; /* NULL: the values are the weights */
    size_t companion_of;          /* scales and zero points: the tensor they belong to; else VC_NO_TENSOR */
    size_t alias_of;     /* an earlier tensor that is the same values in the same bytes of the file (tied weights): same
                            type and shape; file_bytes is 0 here. Else VC_NO_TENSOR */
    const char *kept_as; /* what it is, where its format tells and that is a reason to leave it alone unless it is asked
                            for by name ("bias"); NULL: nothing speaks against it */
    enum vc_role role;
    unsigned channel_axis; /* the output channels, where the format tells (ONNX: 1 for the right side of MatMul) or the
                              name does (kernels of Flax and Keras); else 0 */
    unsigned inputs; /* 1 + the axis that products sum over, which N:M goes along, where format or name tells; 0: the
                        axis beside channel_axis; VC_NO_INPUTS: there is none, or it is not known */
    bool compressed; /* in the file */
    const char *axis_reason;   /* why that axis, a few words, where the name tells; NULL: it does not */
    const char *inputs_reason; /* of VC_NO_INPUTS: why, a few words */
};

struct vc_model;

/* What a file holds beside or around its weights: an entry at the top of a PyTorch checkpoint. */
struct vc_part {
    const char *name; /* its key, UTF-8; "" for all of the file */
    const char *what; /* "dict of 7", "argparse.Namespace, opaque", "int 12" */
    enum vc_role role;
    bool chosen;         /* the tensors of role VC_ROLE_WEIGHT are from here */
    size_t n_tensors;    /* those that can be read */
    uint64_t size_bytes; /* of their values, each storage once */
};

/* Strings are read during the call of vc_model_open only. */
struct vc_open_options {
    size_t struct_size;    /* set by vc_open_defaults */
    enum vc_dtype void_as; /* what NumPy's raw void elements of the same size mean (VC_DTYPE_BF16); 0: leave them */
    const char *key;       /* PyTorch files: the dict whose tensors are the weights, "ema" or "nets.0"; NULL: the usual
                              names are tried. Other formats do not look at it */
    bool pairs; /* what torch.nn.utils.prune has made two tensors of, c.weight_orig and c.weight_mask, is one: c.weight,
                   which wants prune as its first pass, to apply the mask. Not of ONNX, whose graph does it */
    /* Not 0: the file is nothing but tokens, which are rows of so many of them: the tensor input_ids. They have 16 or
     * 32 bits (0: 16); a header of llm.c, which is skipped, says which. */
    uint64_t row_tokens, token_bits;
};

VC_API void vc_open_defaults_sized(struct vc_open_options *options, size_t struct_size);

/* Nothing is asked for: what options NULL means, too. */
static inline void vc_open_defaults(struct vc_open_options *options)
{
    vc_open_defaults_sized(options, sizeof *options);
}

/* Opens the checkpoint at `path`: a file, a folder with safetensors or PyTorch files as Hugging Face lays them out or
 * with one GGUF model, the index in such a folder, or any of several GGUF files that belong together; "-" reads
 * standard input into an unnamed temporary file first. The format is found by content. options may be NULL. Errors:
 * VC_E_IO, VC_E_FORMAT, VC_E_UNSUPPORTED, VC_E_NOMEM. */
VC_API enum vc_status vc_model_open(struct vc_ctx *ctx, const char *path, const struct vc_open_options *options,
                                    struct vc_model **out);
VC_API void vc_model_close(struct vc_model *model); /* accepts NULL */

VC_API const char *vc_model_path(const struct vc_model *model);
VC_API const char *vc_model_format(const struct vc_model *model); /* "npz" */
/* ".npz": what the name of a file of this format ends in: as this one's does, where the format knows several. "" for a
 * checkpoint that is a folder, or one of several GGUF files. */
VC_API const char *vc_model_extension(const struct vc_model *model);

/* The format that a name ending in a known extension asks for: "npz", a static string; NULL: none. */
VC_API const char *vc_format_of_name(const char *path);
/* Extension number `index`, ".npz", of the formats that can be written, the usual one of each, a static string; NULL
 * behind the last. */
VC_API const char *vc_format_extension(size_t index);
/* Its name, "npz", as vc_model_format and vc_write_options.format have it. */
VC_API const char *vc_format_name(size_t index);

/* What is at the path is a checkpoint of several files, and what is made from it is a folder unless its name asks for a
 * file: a folder, the index in one, or one of several GGUF files. Goes by the name where it is no folder. */
VC_API bool vc_path_is_divided(const char *path);

struct vc_name_options {
    size_t struct_size; /* set by vc_name_defaults */
    const char *tag;    /* what is done with the model: "int8" makes model.int8.npz from model.npz, "" model.npz */
    const char
        *input; /* the path as the user knows it; NULL: vc_model_path, which is the file where a folder holds one */
    bool more_tensors;  /* the output has more tensors than the model, as codes with their scales: .npy becomes .npz */
    bool folder;        /* the output is divided into files whatever the model is (vc_write_options.max_shard_bytes) */
    const char *format; /* of the output (vc_write_options.format); NULL: that of the model */
    const char *into;   /* a folder, in place of the one that the input is in; NULL: that one */
};

VC_API void vc_name_defaults_sized(struct vc_name_options *options, size_t struct_size);

/* No tag, which has to be set; the model's own path, everything else off. */
static inline void vc_name_defaults(struct vc_name_options *options)
{
    vc_name_defaults_sized(options, sizeof *options);
}

/* A name for what is made from the model, beside it: for programs whose users do not have to give one. It may be taken.
 * *name is freed with vc_text_free. VC_E_ARGUMENT for standard input, or without a tag. */
VC_API enum vc_status vc_model_output_name(struct vc_ctx *ctx, const struct vc_model *model,
                                           const struct vc_name_options *options, char **name);

VC_API uint64_t vc_model_file_bytes(const struct vc_model *model);
/* Parts of the file, in its order; none where the format knows no such thing. NULL beyond the last. */
VC_API size_t vc_model_part_count(const struct vc_model *model);
VC_API const struct vc_part *vc_model_part(const struct vc_model *model, size_t index);
VC_API size_t vc_model_tensor_count(const struct vc_model *model);
VC_API const struct vc_tensor *vc_model_tensor(const struct vc_model *model, size_t index);

/* How the quantized weights of a file lie in it, and what loads the file as it is. "": none, or nothing. */
struct vc_layout {
    const char *name;   /* "compressed-tensors", as vc_write_options.layout calls it; "gguf", "onnx" */
    const char *loader; /* the program that loads it: "transformers"; "": no program loads it as the model it was */
    const char *tried;  /* with which versions that was tried: "transformers 5.23.0, compressed-tensors 0.20.0" */
    const char *needs;  /* what has to be passed to the loader, or done to the file: an expression, a command */
};

/* That of the model; NULL where nothing is quantized, or no file is behind it. Valid as long as the model. */
VC_API const struct vc_layout *vc_model_layout(const struct vc_model *model);

/* Something the file says about itself, or that its user should know: "architecture", "llama". Keys may repeat. */
struct vc_fact {
    const char *key;   /* lower case, a word or two */
    const char *value; /* one line, as the file has it: not necessarily UTF-8 */
};

/* The key of facts that every user of the file should hear of; reports repeat them. */
#define VC_FACT_NOTE "note"

/* Fact number `index` from 0 on, in the order in which the reader found them; NULL behind the last one. */
VC_API const struct vc_fact *vc_model_fact(const struct vc_model *model, size_t index);

/* Index of the tensor with that name, or VC_NO_TENSOR. */
VC_API size_t vc_model_find(const struct vc_model *model, const char *name);

/* Copies n_elems values from element `first` on (C order, little-endian, as stored: codes if quantized) to dst, which
 * holds capacity_bytes. Elements of block types come in whole blocks. A whole stored or compressed member that is read
 * is checked against its checksum. */
VC_API enum vc_status vc_model_read(struct vc_ctx *ctx, const struct vc_model *model, size_t index, uint64_t first,
                                    uint64_t n_elems, void *dst, size_t capacity_bytes);

/* Writes to `to` what the name is in a list that has one line for layers.0.w, layers.1.w and so on: "layers.*.w". Each
 * run of digits that is a whole part of the name becomes '*'; "conv1" stays. At most `room` bytes with the NUL, of
 * which the length of the name and one are enough. Returns the length. */
VC_API size_t vc_name_pattern(const char *name, char *to, size_t room);

struct vc_index_summary {
    char name[256]; /* of the index in the folder */
    size_t n_files, n_tensors;
    uint64_t total_size; /* bytes of all tensors */
};

/* Writes the index of a folder of safetensors files, in place of the one that is there: which tensor lies in which
 * file. It is called model.safetensors.index.json, or as the files are: x-00001-of-00003.safetensors makes
 * x.safetensors.index.json. Reads headers only. VC_E_FORMAT when a tensor occurs twice, VC_E_UNSUPPORTED when by the
 * numbers in their names (-00001-of-00003) files are missing, or files say that they were made by different jobs. */
VC_API enum vc_status vc_index_write(struct vc_ctx *ctx, const char *folder, struct vc_index_summary *out);

#ifdef __cplusplus
}
#endif
#endif
