/* dialects.h - the table of dialects, and what formats ask a row of it. core/model/dialect.h says what a dialect is,
 * and has the questions of core and the passes.
 *
 * A new dialect is a file in this folder that defines vc_dialect_<name>, and a line in VC_DIALECTS. */
#pragma once

#include "core/run/sink.h"
#include "core/text/text.h"
#include "formats/dialects/family.h"
#include "formats/dialects/packing.h"

/* Names of rows that sentences of other rows have. */
#define VC_LAYOUT_PLAIN        "plain"
#define VC_LAYOUT_BITSANDBYTES "bitsandbytes"

/* The rows, in the order in which programs list them: vc_dialect_<name> is defined in the file of that dialect. */
#define VC_DIALECTS(ROW)    \
    ROW(plain)              \
    ROW(compressed_tensors) \
    ROW(w8a8)               \
    ROW(bitsandbytes)       \
    ROW(gptq)               \
    ROW(awq)                \
    ROW(fp8)                \
    ROW(modelopt)           \
    ROW(gguf)               \
    ROW(onnx)               \
    ROW(onnx_qdq)           \
    ROW(comfy)              \
    ROW(hqq)                \
    ROW(quanto)             \
    ROW(mlx)

#define VC_DIALECT_DECLARE(name) extern const struct vc_dialect vc_dialect_##name;
VC_DIALECTS(VC_DIALECT_DECLARE)

struct json_t;
struct vc_foreign;
struct vc_config_weights;
struct vc_search;

/* The version of transformers with which the rows' loaders were tried. */
#define VC_TRIED_TRANSFORMERS "transformers 5.24.0"

#define VC_MAX_LAID 4

/* A tensor of the file that holds a part of a weight. */
struct vc_laid {
    const char *name;
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_bytes;
    struct vc_packed packed; /* of codes */
    const void *constant;    /* NULL: the part's bytes come from the job; else these n_bytes, which no part brings */
    size_t period;           /* of a constant whose bytes are repeated: how many there are; 0: all n_bytes are */
    uint64_t index_of;       /* not 0: i32 numbers that no part brings, i / index_of for number i: groups of columns */
    int times;               /* not 0: the floats of the first one times this, a power of two or less 0; see below */
};

/* What vc_laid.times makes of n_bytes of floats, little-endian: exact, but for results beyond the type: false. */
bool vc_laid_times(enum vc_dtype dtype, int times, const void *floats, size_t n_bytes, void *out);

/* Bytes at, at + 1, ... of what no part brings; false: the job brings them. */
bool vc_laid_constant(const struct vc_laid *laid, uint64_t at, size_t n, void *out);

/* One part of a weight, to be laid into a file. */
struct vc_laying {
    struct vc_ctx *ctx;
    struct vc_arena *arena;            /* for names, shapes and constants */
    const struct vc_out_tensor *codes; /* the weight */
    const struct vc_out_tensor *part;  /* the part: the codes themselves, or the output that holds the scales, ... */
    enum vc_part_role role;            /* of the part */
    size_t n;
    struct vc_laid laid[VC_MAX_LAID]; /* the first one holds the part; those behind it are constants */
};

/* Sizes of a language model in config.json. */
enum vc_size { VC_SIZE_HIDDEN, VC_SIZE_INNER, VC_SIZE_HEADS, VC_SIZE_KV_HEADS, VC_SIZE_WORDS, VC_SIZES };

enum vc_words { VC_WORDS_NONE = 0, VC_WORDS_GPTQ, VC_WORDS_AWQ };

/* What a configuration says about codes where shapes alone could mean two things. 0: it does not say. */
struct vc_dialect_hint {
    uint64_t num_bits, group_size;
    uint64_t block[2];   /* rows and columns that share a scale */
    enum vc_words words; /* whose words hold codes of several rows */
    bool zeros_less_one; /* ... with zero points that are one less than they mean */
    bool whole_rows;     /* ... with one scale for each row */
    bool along_rows;     /* ... whose codes are of one row, after all */
    const char *unread; /* ... in an order that is not read, as a sentence goes on behind a name; NULL: they are read */
    const char *wrong;  /* a member that no loader takes, "a weight_block_size that ..."; NULL: nothing */
    const struct vc_foreign *foreign; /* the layout of another program that it names; NULL: none (foreign.h) */
    const char *layers;               /* what the metadata of the file say of layers (comfy.h); NULL: nothing */
    struct json_t *mlx;               /* the "quantization" of MLX, which the hint holds; NULL if there is none */
    uint64_t sizes[VC_SIZES];         /* heads: times their size */
    bool quantized;                   /* there is a "quantization_config", or what MLX has in its place */
    bool conv1d; /* the type of model has Conv1D in place of linear layers: matrices of [in, out] */
};

/* To be called for every hint that was filled. */
void vc_dialect_hint_release(struct vc_dialect_hint *hint);

/* What a dialect is to formats whose files can hold several: safetensors, and the config.json beside it. Every pointer
 * may be NULL, but for `fits` and `lay`, which belong together. */
struct vc_dialect_file {
    /* ---- writing ---- */

    /* Whether a weight that is quantized already can be laid. Those that passes made for this dialect can. */
    bool (*fits)(const struct vc_out_tensor *codes);

    /* Fills laid and n. Called for the codes of every weight, and for each of its parts. Tensors follow in the order of
     * the calls, which is that of the job's outputs. */
    enum vc_status (*lay)(struct vc_laying *laying);

    enum vc_loads loads;   /* whose facts about families count (family.h) */
    bool takes_conv1d;     /* matrices of [in, out] of such models, too, which `lay` turns */
    bool asked_only;       /* written where it is asked for by name: new codes of a source in it are in the usual one */
    bool in_config_only;   /* config.json alone says what its tensors are: written into folders that have one */
    bool config_twice;     /* config.json has the value under "quantization", too, as MLX has it */
    bool casts_nothing;    /* its loader computes with the floats beside the codes as they lie: all have one type */
    bool usual_in_folders; /* what the folder of a model becomes where nothing else is asked for */
    /* What has to be passed to the loader for these outputs. NULL: nothing. */
    const char *(*needs)(const struct vc_out_list *outs);
    const char *joined_by; /* the loader that refuses layers which it joins when some of them are quantized and some are
                              not; NULL: none does */

    /* Refuses outputs that no configuration makes loadable. NULL: none. */
    enum vc_status (*check_weights)(struct vc_ctx *ctx, const struct vc_config_weights *weights);

    /* ---- the configuration: the member "quantization_config" of config.json ---- */

    /* Writes the value of the member. */
    void (*write_config)(const struct vc_config_weights *weights, struct vc_text *text);

    /* Whether the value that is there describes weights of this dialect, so that it may be replaced by one that
     * describes them and new ones. */
    bool (*owns_config)(const struct json_t *config);

    /* What the value says, where it is this dialect's: fills *out and returns true. */
    bool (*read_config)(const struct json_t *config, struct vc_dialect_hint *out);

    /* ---- reading ---- (search.h)
     *
     * Both look at one tensor of a model and attach the quantization where its name, its type and the tensors beside it
     * leave no doubt. What is not certain stays the plain tensors it is; parts that contradict each other are
     * VC_E_FORMAT. *found: the tensor is codes, and no other dialect is asked about it. */

    /* Before our own manifest is applied: tensors that are shown with another name, type or shape. */
    enum vc_status (*find_packed)(struct vc_search *search, size_t tensor, bool *found);

    /* Afterwards: integers that nothing has been said about yet. */
    enum vc_status (*find_codes)(struct vc_search *search, size_t tensor, bool *found);
};

/* New codes of a source in the dialect are in it, too, where nothing else is asked for. */
static inline bool vc_dialect_is_followed(const struct vc_dialect *dialect)
{
    return dialect->file != NULL && dialect->file->fits != NULL && !dialect->file->asked_only;
}

/* The row that options->layout asks for; *out is NULL for "auto" or nothing, which the format's writer decides. Fails
 * for a name that no row has. */
enum vc_status vc_dialect_asked(struct vc_ctx *ctx, const struct vc_write_options *options,
                                const struct vc_dialect **out);

/* The row whose weights lie in the folder of a model, where nothing else is asked for: the usual one, or another whose
 * loader can load models of that family. Where none can it is the usual one, which says why. family may be NULL. */
const struct vc_dialect *vc_dialect_usual_in_folders(const struct vc_family *family);

/* Fills family->layouts, once its rows are known. */
void vc_dialect_list_loading(struct vc_family *family);

/* That row, or where it has no place for codes of the scheme the first that has and that programs load; the row itself
 * where none has. scheme may be NULL: any place will do. */
const struct vc_dialect *vc_dialect_for_codes(const struct vc_dialect *usual, const char *scheme);

/* Row number `index`; NULL behind the last. */
const struct vc_dialect *vc_dialect_row(size_t index);

/* Adds a tensor to what is laid, with type, dimensions, bytes, and packing or constant of `how`. It is called as the
 * codes are, or "<path of their module>.<tail>" (tail NULL: none). Its shape is that of `how`, or where that is NULL
 * [a, b], or [a] of one dimension. */
enum vc_status vc_dialect_lay(struct vc_laying *l, const char *tail, struct vc_laid how, uint64_t a, uint64_t b);

/* ---- the plain dialect: names of codes in safetensors and PyTorch files (plain.c) ---- */

/* What the codes of a weight are called there: "w.int8". The weight's own name where nothing is quantized. NULL: no
 * memory. */
const char *vc_plain_codes_name(struct vc_ctx *ctx, struct vc_arena *arena, const char *weight, enum vc_scheme scheme);

/* Length of the weight's name in that of codes of the scheme, "w.int8"; SIZE_MAX: this is no name of such codes. */
size_t vc_plain_weight_bytes(const char *name, enum vc_scheme scheme);

/* Codes that some format of the dialect has no type for lie in an array of u8, [rows, bytes of a row]: fills its shape
 * and returns true. */
bool vc_plain_is_bytes(const struct vc_out_tensor *out, uint64_t shape[2]);

/* The type of an output in formats that have no floats of 8 bits: scales of such types are bytes there. */
enum vc_dtype vc_plain_type(const struct vc_out_tensor *out);

/* Names another loader than the dialect's row, which decodes no experts with such codes; of outputs, of a model. */
void vc_ct_note_outs(const struct vc_out_list *outs, struct vc_loader *loader);
void vc_ct_note_model(const struct vc_model *model, struct vc_loader *loader);

/* What is needed to decode a file, or a model of this dialect, where there are such arrays. */
void vc_plain_note_outs(const struct vc_out_list *outs, struct vc_loader *loader);
void vc_plain_note_model(const struct vc_model *model, struct vc_loader *loader);

/* For readers, once all that is quantized is known: codes that are called "w.int8" are shown as "w", unless there is a
 * "w" or their scale is "w.int8.scale". */
enum vc_status vc_plain_name_weights(struct vc_ctx *ctx, struct vc_model *model);

/* Names of all outputs there; VC_E_UNSUPPORTED where two tensors would have one. */
enum vc_status vc_plain_name_outs(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_out_list *outs,
                                  const char **names);
