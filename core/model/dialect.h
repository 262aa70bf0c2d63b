/* dialect.h - how a quantized weight lies in a file, so that a given loader finds it there.
 *
 * int8 weights, for example, are `w` and `w.scale` to our own reader, `m.weight_packed`, `m.weight_scale` and
 * `m.weight_shape` to compressed-tensors, and one tensor of Q8_0 blocks to GGUF. Each of these ways is a dialect: a row
 * with its name, the rules of its loader, and the types in which it stores the parts of a weight.
 *
 * This header is what core and the passes see of a dialect. They hold a pointer to the row of the output and put
 * questions to it; they never ask which row it is. The rows are in formats/dialects/, one file each, and so is the part
 * that only formats need: names, packing, the loader's configuration, reading (formats/dialects/dialects.h). */
#pragma once

#include <vcompress/model.h>

#include "core/base/ctx.h"

/* What a pass wants to make of the weights it works on. */
struct vc_dialect_request {
    const char *scheme; /* "int8" */
    enum vc_granularity granularity;
    bool granularity_given; /* by the user; else it is the scheme's default, and the dialect may have another one */
    bool axis_given;        /* by the user; else the scales follow the output channels */
    int axis;               /* of the scales, where it is given */
    uint64_t group_size;    /* VC_GRANULARITY_GROUP */
    bool symmetric;
    bool double_quant;            /* scales are codes themselves */
    const struct vc_model *model; /* whose weights these are; NULL: of no file */
};

/* A tensor that the pass would work on. */
struct vc_dialect_tensor {
    const char *name;
    unsigned n_dims;
    const uint64_t *shape;
    unsigned channel_axis;       /* where its output channels are: vc_tensor.channel_axis */
    enum vc_dtype weights_dtype; /* what the weights are, or were before they were quantized for the first time */
    bool included;               /* a rule of the user asks for it by name */
    size_t index;                /* of vc_dialect_request.model */
};

/* What loads files of a dialect, for the report. Short: each of them stands in a line of 80 columns. */
struct vc_loader {
    const char *program; /* "transformers"; NULL: none loads such a file as the model it was */
    const char *tried;   /* "transformers 5.24.0, compressed-tensors 0.20.0": only what was run; NULL: nothing */
    const char *needs;   /* what has to be passed to it, or else be done with the file; NULL: nothing */
};

struct vc_dialect_file; /* formats/dialects/dialects.h */

struct vc_dialect {
    const char *name; /* "compressed-tensors": how users ask for it, and how sentences call it */
    bool is_choice;   /* there are formats that can have this dialect or another: programs list it for their users */
    bool takes_codes; /* weights that are quantized already can be written in it; whether each of them fits is the
                         writer's question. False: they have to be dequantized first */
    /* The schemes whose codes it has a place for, "int8", with NULL at the end. NULL: those of every scheme. */
    const char *const *schemes;
    const char *instead;  /* what else can be done for codes that it has no place for; NULL: nothing to say */
    bool groups_depend;   /* whether a scale per group fits depends on the file: aims do not try groups */
    bool blocks;          /* codes and scales are blocks of types of kernels/block_types.inc */
    bool rows_only;       /* scales lie along axis 0, wherever the source has its output channels */
    bool activations;     /* of a graph, whose values can become codes, too */
    bool zero_points;     /* its loaders of linear layers take codes with zero points */
    bool coded_scales;    /* has a place for scales that are codes themselves */
    bool parts_of_module; /* a new part takes the place of the weight's name: x.scale beside x.weight */
    bool whole_groups;    /* groups divide the rows: smaller ones are taken where those of the options do not */
    /* Each layer of codes says so itself: floats of 8 bits beside them are no codes without a scale. */
    bool marks_layers;
    bool positive_scales; /* new codes get scales above 0: not every loader was seen with others */
    bool power_global; /* the scale of a tensor of nvfp4 is a power of two, which multiplies the others: the same values
                             as one that divides them, exactly (vc_quant.global_multiplies) */
    /* Schemes whose weights get one scale for the tensor where the user asks for no granularity, with NULL at the end;
     * NULL: none. */
    const char *const *whole_tensors;
    uint64_t usual_group; /* the group of codes whose scheme would have a scale per row where the user asks for no
                             granularity, since its loaders take groups alone; 0: rows are taken */
    /* The scheme beside whose codes it has a place for one scale of all inputs of the layer, "int8"; NULL: none. */
    const char *input_scales;

    /* Passes make the same parts for the other one, whose row has no such pointer: one run can write both. May be NULL.
     * ONNX has i8 codes and f32 scales as the plain dialect has, and gives them shapes of its own as it writes. */
    const struct vc_dialect *same_parts_as;

    /* Refuses, with a sentence, what the dialect has no place for in any tensor, of the schemes that it takes. NULL:
     * everything has one. */
    enum vc_status (*check)(struct vc_ctx *ctx, const struct vc_dialect_request *request);

    /* Why a loader would not find codes for this tensor, a few words for the report: "embedding". NULL: it would. The
     * pointer itself may be NULL: no tensor is left out. */
    const char *(*reason)(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor);

    /* The type in which the part of that role is stored; VC_DTYPE_RAW: the dialect has no such part. `usual` is what
     * the scheme would store, and the answer where the dialect does not mind. tensor is NULL where the question is
     * about all of them (VC_PART_CODES only). NULL: always `usual`. */
    enum vc_dtype (*part_type)(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor,
                               enum vc_part_role role, enum vc_dtype usual);

    /* Whether loaders want this tensor of floats in the type that it has, where it gets no codes: f32 norms of GGUF.
     * NULL: no tensor. */
    bool (*keeps_type)(const struct vc_dialect_tensor *tensor);

    /* Whether groups of that tensor run along axis 0, a scale for `group_size` rows of a column, because the program
     * that computes with the codes sums along it. NULL: groups run along the rows. */
    bool (*down_columns)(const struct vc_dialect_request *request, const struct vc_dialect_tensor *tensor);

    /* Weights of a model that its loaders take as codes of one kind, all of them: experts, or all weights where they
     * are decoded as they are loaded. NULL: no weight. */
    bool (*of_one_kind)(const struct vc_model *model, const char *weight);

    struct vc_loader loader; /* of its files; a format or a kind of model may have another one (vc_sink.loader) */

    /* For formats; NULL: a single format has this dialect and its writer makes it. */
    const struct vc_dialect_file *file;
};

/* Whether the dialect has a place for codes of the scheme, "nf4". */
bool vc_dialect_takes(const struct vc_dialect *dialect, const char *scheme);

/* The questions to a row that may lack the answer. The dialect may be NULL, where no output says how weights have to
 * lie: then nothing is refused and everything is stored as usual. */
enum vc_status vc_dialect_check(struct vc_ctx *ctx, const struct vc_dialect *dialect,
                                const struct vc_dialect_request *request);
const char *vc_dialect_reason(const struct vc_dialect *dialect, const struct vc_dialect_request *request,
                              const struct vc_dialect_tensor *tensor);
enum vc_dtype vc_dialect_part_type(const struct vc_dialect *dialect, const struct vc_dialect_request *request,
                                   const struct vc_dialect_tensor *tensor, enum vc_part_role role, enum vc_dtype usual);
bool vc_dialect_keeps_type(const struct vc_dialect *dialect, const struct vc_dialect_tensor *tensor);

/* The public form: the dialect's name and the loader, with "" where they have NULL. */
struct vc_layout vc_dialect_layout(const struct vc_dialect *dialect, const struct vc_loader *loader);

/* The dialect that passes have to make for outputs of both; NULL: no run can write both. Either may be NULL. */
const struct vc_dialect *vc_dialect_common(const struct vc_dialect *a, const struct vc_dialect *b);
