/* source.h - the reading side of a format, and the inside of struct vc_model.
 *
 * A format's reader fills a vc_model when it opens a file and then serves bytes. Bytes come in one of two forms:
 *   VC_FORM_VALUES  the tensor's elements in C order, little-endian: what passes work on
 *   VC_FORM_RAW     the member exactly as the file has it, with its own header: how a kept tensor is copied within
 *                   the same format
 * Tensors that are `sequential` (compressed) are read front to back through a stream, which verifies the checksum at
 * its end; others by range, from any thread, with a vc_check that collects the checksum piece by piece. */
#pragma once

#include "core/base/arena.h"
#include "core/model/dialect.h"
#include "core/text/name_table.h"

/* The path of a model with a reader, and of an output with a writer, is in angle brackets. */
#define VC_WRITER_PATH "<memory>"

/* Standard input or output, or a reader or writer of the program: nothing lies beside it. */
static inline bool vc_is_stream(const char *path)
{
    size_t n = strlen(path);

    return strcmp(path, "-") == 0 || (n > 2 && path[0] == '<' && path[n - 1] == '>' && strchr(path, '/') == NULL);
}

enum vc_form { VC_FORM_VALUES, VC_FORM_RAW };

/* Takes bytes, piece by piece. */
typedef void vc_see_fn(void *user, const void *data, size_t n);

struct vc_format; /* a row of the table in formats/; core compares pointers to it and looks no further */
struct vc_infile;
struct vc_infolder;
struct vc_family;
struct vc_source_stream;
struct vc_program;
struct vc_adapter;

/* What one walk over a form of a tensor has seen, in any order, from any threads. It belongs to whoever walks, so that
 * a walk that is broken off, or another one at the same time, cannot spoil it. Starts as zeros. */
struct vc_check {
    _Atomic uint64_t n_bytes;
    _Atomic uint32_t crc; /* combined from the pieces in an order-free way */
};

/* Where the graph of a file has a place for codes of four bits with a scale per group along the input channels. */
struct vc_code_places {
    bool product;        /* in the nodes that multiply by the weight */
    bool as_floats;      /* in a node that makes floats of them */
    enum vc_dtype scale; /* of the scales */
    const char *why;     /* there is neither, a few words */
};

struct vc_source_ops {
    /* n_bytes from offset of that form; random access tensors only. check may be NULL; with it, every byte of the form
     * must be read exactly once: the read that completes it compares the checksum, fails with VC_E_FORMAT if that is
     * wrong, and sets *check back to zeros. Sentences start with the tensor's name; the file's is added outside. */
    enum vc_status (*read)(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                           uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check);

    /* n_bytes of VALUES from `offset` on will be read soon; random access tensors only. Waits for nothing and cannot
     * fail. May be NULL: they are fetched when they are read. */
    void (*ahead)(const struct vc_model *model, size_t tensor, uint64_t offset, uint64_t n_bytes);

    /* Sequential tensors only. stream_close with `finished` false gives up early; with true everything must have been
     * read, and the end of the compressed data and its checksum are verified. */
    enum vc_status (*stream_open)(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  struct vc_source_stream **out);
    enum vc_status (*stream_read)(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n_bytes);
    enum vc_status (*stream_close)(struct vc_ctx *ctx, struct vc_source_stream *stream, bool finished);

    /* Memory that reading takes beside the destination (an open stream, a window), for the plan. May be NULL: none. */
    size_t (*stream_bytes)(const struct vc_model *model, size_t tensor);

    /* What a tensor is called in the file that it is made from, where all of its rows are those of one tensor there;
     * NULL: they are not. May be NULL: nothing is made from another file. */
    const char *(*source_name)(const struct vc_model *model, size_t tensor);

    /* Of n elements from `first` on of a tensor of tokens: the bytes that each covers of the text it was made of. May be
     * NULL: no text is behind them. */
    enum vc_status (*text_bytes)(struct vc_ctx *ctx, const struct vc_model *model, uint64_t first, size_t n,
                                 uint32_t *to);

    void (*close)(struct vc_model *model); /* frees `self`, tensors and names */

    /* With findings: reads what no tensor's values are in, and notes what is wrong with it. May be NULL: nothing. */
    enum vc_status (*check_rest)(struct vc_ctx *ctx, const struct vc_model *model);

    /* After reading: what turned up meanwhile that the user should know; "" for nothing. May be NULL. */
    void (*late_note)(const struct vc_model *model, char *buffer, size_t n);

    /* What the file says about what the model computes: core/model/program.h. May be NULL: nothing. */
    enum vc_status (*program)(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                              struct vc_program *out);

    /* May be NULL: the file has no graph. */
    struct vc_code_places (*code_places)(const struct vc_model *model, size_t tensor);
};

/* Per tensor, beside the public part. */
struct vc_tensor_io {
    uint64_t raw_bytes; /* of VC_FORM_RAW; 0 where the format has no such form */
    unsigned shard;     /* which of several files it lies in */
    bool sequential;
};

/* The shape of a tensor whose blocks lie in rows of another length than the tensor has. */
struct vc_unfolded {
    unsigned n_dims;
    uint64_t shape[];
};

#define VC_MAX_FACTS 32

struct vc_recipe_entry {
    const char *key, *value; /* "granularity", "channel": goes to the manifest, so no paths and no times */
};

/* A tensor of a file that is not there: the index says no more of it. */
struct vc_unseen {
    const char *name, *file;
};

/* A tensor of the file that cannot be read, so that it is in no list: jobs refuse unless its role is dropped. */
struct vc_refused {
    const char *name;
    enum vc_role role;
    const char *why; /* "is a sparse tensor": follows the name */
};

/* One of the models that a pipeline is made of. The pipeline's tensors have its name and a slash in front of theirs. */
struct vc_component {
    const char *name; /* "unet" */
    const struct vc_model *model;
    size_t first; /* its first tensor in the whole; the others follow */
};

struct vc_model {
    union {
        struct vc_model_info public; /* what programs read: the same members */
        struct {
            const char *path;        /* the pool's */
            const char *format_name; /* of `format`, for sentences and reports; never compared */
            uint64_t file_bytes;
            size_t n_tensors;
            size_t n_parts;
            const struct vc_part *parts; /* the reader's own */
            size_t n_facts;
            const struct vc_fact *facts; /* `own_facts` */
        };
    };
    struct vc_ctx *ctx; /* its pool owns everything below */
    const struct vc_source_ops *ops;
    void *self;                     /* the reader's own */
    const struct vc_format *format; /* who read it: only that format's own code may look into `self` */
    const char *left_behind;        /* for the report: what an output of another format does not get; NULL: nothing */
    struct vc_tensor *tensors;
    struct vc_tensor_io *io;
    struct vc_name_table names; /* for vc_model_find */
    const size_t *pair_masks;   /* core/model/masked_pairs.h; NULL: no pairs are joined */
    struct vc_arena arena;      /* names that are not the file's; released by vc_model_close */
    struct vc_quant *quants;    /* what the tensors' `quant` point into; freed by vc_model_close */
    size_t n_recipe;
    struct vc_recipe_entry *recipe; /* of a manifest; one block with its strings, freed by vc_model_close */
    const struct vc_infile *input;  /* the reader's open file, so that a writer knows it again; may be NULL */
    size_t n_inputs; /* a checkpoint of several files: all of them, then `input` is NULL, or all others beside it */
    const struct vc_infile **inputs;
    size_t n_shards; /* 0: a format without shards */
    /* By shard: the name of a file that is not there (vc_open_options.n_shards); at most its header is, so that its
     * tensors have no values. NULL: all are there. */
    const char **absent;
    size_t n_unseen; /* what the index says of files without even a header, sorted by name */
    struct vc_unseen *unseen;
    struct vc_infolder *folder; /* the folder that was opened, closed by close_folder; NULL: a file was */
    void (*close_folder)(struct vc_ctx *ctx, struct vc_infolder *folder); /* set with it, called by vc_model_close */
    /* How quantized weights lie, and what loads the file. A reader whose format has several dialects says which, and
     * the loader where it knows better than the row; formats.c fills what is left and makes `layout` of both. */
    const struct vc_dialect *dialect;
    struct vc_loader loader;
    struct vc_layout layout;
    /* What loaders are known to do with such models (formats/dialects/family.h); NULL: nothing is known. The reader's
     * own. */
    const struct vc_family *family;
    bool conv1d; /* weights of that name (names.h) are [in, out], as the model's configuration says */
    /* Refuses a file that is not of that format as what it is: a Git LFS pointer, an HTML page, another format, ... For
     * readers of checkpoints that have several files; set before they open. */
    enum vc_status (*expect)(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_format *format);
    /* Every input is as it was when it was opened; VC_E_FORMAT names the one that is not. Set by vc_model_open; NULL:
     * nothing can change. Called by vc_model_unchanged alone. */
    enum vc_status (*check_unchanged)(struct vc_ctx *ctx, const struct vc_model *model);
    /* Gives `see` every byte of all files that the model lies in, and of what goes with the weights, each time in the
     * same order: for a digest. Set by vc_model_open; NULL: no file is behind the model. */
    enum vc_status (*bytes)(struct vc_ctx *ctx, const struct vc_model *model, vc_see_fn *see, void *user);
    /* By tensor, NULL for one that is as it was; the format's. NULL: so are all. */
    const struct vc_unfolded **unfolded;
    bool merged;                    /* adapters are in its values already: vc_open_options.merge */
    const struct vc_model *made_of; /* whose files these are, where the model is another form of one; NULL: its own */
    /* The config.json beside it as a program. Set by vc_model_open; NULL: no file is behind the model. Called by
     * vc_model_program alone. */
    enum vc_status (*program_beside)(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                     struct vc_program *out);

    /* What diffusers says of an adapter in the file's metadata (JSON), the reader's; NULL: nothing. */
    const char *adapter_note;
    /* What adapter_config.json beside it says, where the model is an adapter (core/model/adapter.h). Set by vc_model_open;
     * NULL: no file is behind the model. */
    enum vc_status (*adapter_beside)(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                     struct vc_adapter *out);
    /* What its loader calls the module of that path in memory, in the arena, or `path` itself; NULL: no memory. Set by
     * vc_model_open, as is the next. */
    const char *(*module_name)(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_model *model,
                               const char *path);
    bool (*is_tied)(const struct vc_model *model); /* its output is its embedding, and no tensor of its own */

    /* A pipeline: models of their own, each with a loader of its own. */
    size_t n_components;
    const struct vc_component *components;

    /* The reader's own; none of them is the rule. */
    const struct vc_refused *refused;
    size_t n_refused;
    /* Values that are in no list and that jobs carry over as they are: their bytes, and what of them has a size that
     * the file does not tell ("a sparse tensor"; NULL: nothing). */
    uint64_t unlisted_bytes;
    const char *unlisted;
    struct vc_fact own_facts[VC_MAX_FACTS]; /* values are the pool's, freed by vc_model_close; keys are literals */
    /* What estimates of memory have counted of the model (memory/made_as.c), freed by vc_model_close. */
    void *counted;
    void (*free_counted)(void *counted);
    const struct vc_fact *wrong_name; /* the one of them that says that the file's name promises another format;
                                         * NULL: the name promises nothing, or the truth */
};

/* The component that the tensor lies in; NULL: the model is no pipeline. */
const struct vc_component *vc_model_component(const struct vc_model *model, size_t tensor);

/* The model that the tensor's loader sees: the component, or the model itself. *own: the tensor there, under the name
 * that it has for that loader. What names and families say is asked of these two. */
const struct vc_model *vc_model_of(const struct vc_model *model, size_t tensor, const struct vc_tensor **own);

/* Name of a role, "scale"; never NULL. */
const char *vc_part_role_name(enum vc_part_role role);

/* Name of a scheme, "int8"; "none" for VC_SCHEME_NONE; never NULL. */
const char *vc_scheme_name(enum vc_scheme scheme);

/* Index of the tensor that scales come from (f32, f16 or bf16; bytes for MXFP8, MXFP4
 * and NVFP4): the part VC_PART_SCALE or VC_PART_ABSMAX. */
size_t vc_quant_scale(const struct vc_quant *quant);

/* The model gets another path, which is the pool's, in place of the one that it has. Returns it. */
const char *vc_model_set_path(struct vc_ctx *ctx, struct vc_model *model, char *path);

/* Adds a fact that `inspect` shows; `key` is a literal. Beyond VC_MAX_FACTS nothing happens. */
enum vc_status vc_model_add_fact(struct vc_ctx *ctx, struct vc_model *model, const char *key, const char *format, ...)
    VC_PRINTF(4, 5);

/* For whoever has read values, once the last one is there and before anything is made of them. `status` is what reading
 * gave. VC_E_FORMAT where an input was changed meanwhile, also in place of a failure about its content or of one that
 * cannot be: that it was changed says more than that it looks damaged. Other failures are returned as they are, their
 * sentence too. To be called last: the sentence names the file and needs no context. */
enum vc_status vc_model_unchanged(struct vc_ctx *ctx, const struct vc_model *model, enum vc_status status);

/* For a model that is another form of `source`: its files are the model's, so that a writer knows them again and they
 * may not change; so are its notes. Sets inputs (which the model's reader frees), input, file_bytes and made_of. */
enum vc_status vc_model_take_inputs(struct vc_ctx *ctx, const struct vc_model *source, struct vc_model *model);

/* n_elems from element `first` on will be read soon (vc_model_read): the format may have the system fetch them. Both
 * are whole blocks of the tensor's type. */
void vc_model_ahead(const struct vc_model *model, size_t index, uint64_t first, uint64_t n_elems);

/* Names the tensor that is the part of that role; VC_NO_TENSOR if there is none. */
void vc_quant_set(struct vc_quant *quant, enum vc_part_role role, size_t tensor);

/* Codes of other programs that go another way than granularity and zero point say, and that no layout has a place for
 * but the file's own: floats beside the scales, groups in an order of their own, scales across rows, NVFP4 without a
 * scale of the tensor. */
bool vc_quant_is_special(const struct vc_quant *quant);

/* Bytes of the first n elements of a tensor's values; n is a multiple of the block, or all of them. */
static inline uint64_t vc_tensor_bytes(const struct vc_tensor *tensor, uint64_t n_elems)
{
    return tensor->dtype == VC_DTYPE_VOID ? n_elems * (tensor->size_bytes / tensor->n_elems)
                                          : vc_dtype_bytes(tensor->dtype, n_elems);
}

/* Makes model->names; VC_E_FORMAT naming the tensor when a name occurs twice. */
enum vc_status vc_model_index_names(struct vc_ctx *ctx, struct vc_model *model);

/* Room for the longest name of a tensor with `more` bytes behind it, its NUL among them, which vc_free frees; NULL: no memory. */
char *vc_model_name_room(struct vc_ctx *ctx, const struct vc_model *model, size_t more);

/* As vc_model_find, for a name of n characters that need not end there. */
size_t vc_model_find_bytes(const struct vc_model *model, const char *name, size_t n);

/* The file that has the values of the tensor of that name and is not there; NULL: they are there, or no file has such a
 * tensor. */
const char *vc_model_absent(const struct vc_model *model, const char *name);

/* VC_E_UNSUPPORTED if a file of the model (NULL: none) is not there: "<what>, and model-00001-of-00003.safetensors is
 * not there". */
enum vc_status vc_model_need_all(struct vc_ctx *ctx, const struct vc_model *model, const char *what);

/* What statistics of the inputs of a tensor are called behind its name: sums of squares, which every file of statistics
 * has, and importance matrices of llama.cpp. */
#define VC_SUMS_TAIL ".in_sum2"

/* VC_E_FORMAT if the file holds statistics of tensors that it does not have: it is no model. */
enum vc_status vc_model_need_weights(struct vc_ctx *ctx, const struct vc_model *model);

/* The indices of all tensors, sorted by name (bytewise). *order is freed with vc_free. */
enum vc_status vc_model_sort_names(struct vc_ctx *ctx, const struct vc_model *model, size_t **order);

/* Sets channel_axis, inputs, use and the reasons of tensors whose names tell (names.h). Called when a model is open, unless
 * its format knows better. */
void vc_model_name_axes(struct vc_model *model);

/* Floats of 8 bits that are decoded: plain values, or codes whose scale is a tensor beside them. */
static inline bool vc_is_float8(enum vc_dtype dtype)
{
    return dtype == VC_DTYPE_F8_E4M3 || dtype == VC_DTYPE_F8_E5M2;
}

/* Belongs to an operator on codes, which wants it as it is: passes leave it alone whatever rules say. */
static inline bool vc_is_of_codes(const struct vc_tensor *tensor)
{
    return tensor->use == VC_USE_CODES || tensor->use == VC_USE_SCALE;
}

/* The axis of the input channels of a weight of two or more axes; VC_NO_INPUTS: none of them is known to be that. */
static inline unsigned vc_input_axis(const struct vc_tensor *tensor)
{
    unsigned output = tensor->channel_axis;

    if (tensor->inputs != 0) {
        return tensor->inputs == VC_NO_INPUTS ? VC_NO_INPUTS : tensor->inputs - 1;
    }
    return output == 0 ? 1 : output == tensor->n_dims - 1 ? output - 1 : 0;
}

/* n_bytes from `offset` of either kind of tensor: the slow general way, used for small reads (opens a stream and skips
 * where needed). */
enum vc_status vc_source_read_any(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  uint64_t offset, void *dst, size_t n_bytes);
