/* schemes.h - the table of schemes: what `quantize` can make of floats. Adding a scheme is a file and a row.
 *
 * quantize.c chooses the tensors and asks the row; the row's file (int8.c, group_codes.c, q8_0.c, cast.c) adds the
 * steps and knows the arithmetic; it asks nothing of the table. Rows are constant and may be used from any thread. */
#pragma once

#include <vcompress/quantize.h>

#include "core/chain/pass.h"

/* A granularity with which the scheme is a candidate. */
struct vc_scheme_granularity {
    enum vc_granularity granularity;
    uint64_t group_size; /* VC_GRANULARITY_GROUP */
};

struct vc_scheme_row {
    enum vc_target target; /* the option that asks for it */
    const char *name;      /* in recipes: "int8" */
    const char *flag;      /* in the report's command: "--int8" */
    enum vc_dtype result;  /* the type of the values or codes: a tensor of that type is "... already" */
    enum vc_scheme scheme; /* of codes with parts beside them; NONE: values, or blocks with their scales inside */
    bool codes;            /* with scales: granularity, axis and symmetry mean something */
    bool own_granularity;  /* ... but it has one of its own, which is not an option */
    bool rows_only;        /* symmetric codes, a scale per row of axis 0 or per group of one: no other options ... */
    bool zero_points;      /* ... but codes with zero points, ... */
    bool whole_tensors;    /* ... or one scale for the tensor */
    bool statistics;       /* options.calibration means something */
    bool no_aim;           /* aims do not try it */
    /* Floats that loaders of pictures cast back, in the layers that become codes, too; nobody tries it by itself. */
    bool of_layers;
    size_t n_granularities; /* with codes and without a granularity of its own */
    const struct vc_scheme_granularity *granularities;

    /* Why the scheme has no place for tensors of that shape, a few words for the report; NULL: it has, and the pointer
     * itself may be NULL. */
    const char *(*reason)(const struct vc_quantize_options *options, const struct vc_desc *desc);

    /* Adds the step to an item of floats. NULL: the pass chooses a type for each tensor (mixture.h), and the row is no
     * candidate. `weights`: the type of the weights when the pass got them. The options live as long as the step. */
    enum vc_status (*add)(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                          enum vc_dtype weights);
};

/* Row number `index` of the table; NULL behind the last. */
const struct vc_scheme_row *vc_scheme_row_at(size_t index);

/* Plans the row's step on the item, and before it what makes floats of a tensor that is quantized. */
enum vc_status vc_scheme_add(struct vc_ctx *ctx, const struct vc_scheme_row *row, struct vc_item *item,
                             const struct vc_quantize_options *options);

/* Adds only the steps that make floats of a quantized tensor; for a tensor of floats it adds nothing. */
enum vc_status vc_scheme_decode(struct vc_ctx *ctx, const struct vc_scheme_row *row, struct vc_item *item);

/* The first row for that target: what is true of all of them (name, flag, codes). NULL: `quantize` makes no such
 * thing. */
const struct vc_scheme_row *vc_scheme_of_target(enum vc_target target);

/* The row with that flag, without its dashes: "fp16". NULL if there is none. */
const struct vc_scheme_row *vc_scheme_of_flag(const char *word);

/* What a candidate is called, in the arena: "int8/group:128", or the type where there is nothing to choose. */
const char *vc_scheme_candidate_name(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_scheme_row *row,
                                     const struct vc_quantize_options *options);

/* The row whose codes the descriptor has. NULL: no row makes such. */
const struct vc_scheme_row *vc_scheme_of_codes(const struct vc_desc *desc);

/* What the user has left to the scheme: the size of its groups. */
void vc_scheme_settle(struct vc_quantize_options *options);

/* The names of all targets, "int8, f16 or bf16". */
void vc_scheme_list(char *text, size_t n_bytes);

/* Refuses what the dialect of the output, or that of a model in it, has no place for. */
enum vc_status vc_scheme_check(struct vc_ctx *ctx, const struct vc_scheme_row *row,
                               const struct vc_quantize_options *options, const struct vc_plan *plan);

/* The row for these options in an output of that dialect; NULL: none makes the codes that the dialect stores. */
const struct vc_scheme_row *vc_scheme_choose(const struct vc_quantize_options *options,
                                             const struct vc_dialect *dialect);

/* What the scheme asks the dialect of the output about: with these options, in a model as its loader sees it, and of
 * one tensor. `weights`: the type of the weights; `included`: a rule asks for the tensor by name. */
struct vc_dialect_request vc_scheme_request(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                                            const struct vc_model *model);
struct vc_dialect_request vc_scheme_request_for(const struct vc_scheme_row *row,
                                                const struct vc_quantize_options *options, const struct vc_item *item);

/* Whether the loader takes such weights of the model as codes of one kind, all of them. */
bool vc_scheme_of_one_kind(const struct vc_item *item);

/* Elements that share a scale in the item's rows: options.group_size, or what divides the rows where the dialect of the
 * output wants that. Weights of one kind, and all with zero points, have that of the options, which are made for them
 * (vc_scheme_common_group). */
uint64_t vc_scheme_group(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                         const struct vc_item *item);
/* The same for all items together that want the same. */
uint64_t vc_scheme_common_group(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                                const struct vc_plan *plan);

struct vc_dialect_tensor vc_scheme_tensor(const struct vc_item *item, enum vc_dtype weights, bool included);

/* The rows, each in the file of its scheme. */
extern const struct vc_scheme_row vc_scheme_int8;
extern const struct vc_scheme_row vc_scheme_q8_0;
extern const struct vc_scheme_row vc_scheme_groups[]; /* group_codes.c: a row of core/model/code_schemes.inc each ... */
extern const size_t vc_scheme_n_groups;               /* ... so many */
extern const struct vc_scheme_row vc_scheme_f16;
extern const struct vc_scheme_row vc_scheme_bf16;
extern const struct vc_scheme_row vc_scheme_f8_e4m3; /* cast_f8.c */
extern const struct vc_scheme_row vc_scheme_f8_e5m2; /* cast_f8.c */
extern const struct vc_scheme_row vc_scheme_gguf;    /* encode_blocks.c */

/* ---- for the steps of schemes ---- */

/* Elements of the largest tile. */
static inline size_t vc_tile_elems(const struct vc_step *step)
{
    return (size_t)vc_min_u64(step->in.n_elems, VC_TILE_ELEMS);
}

/* Bytes up to the next array in scratch. */
static inline size_t vc_scratch_room(size_t n_bytes)
{
    return (n_bytes + 63) & ~(size_t)63;
}
