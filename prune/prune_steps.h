/* prune_steps.h - the steps of pruning, of which there is one kind per file: what prune.c hands to them, and what
 * these share. */
#pragma once

#include <vcompress/prune.h>

#include "core/values/fraction.h"
#include "passes/nonfinite.h"
#include "passes/statistics/calibration.h"
#include "passes/statistics/compensate.h"
#include "prune/bands.h"
#include "prune/lamp.h"
#include "prune/mask_part.h"

/* A rule of options.sets, parsed. */
struct vc_prune_set {
    const char *glob;
    struct vc_fraction share;
};

/* prune_options.c: rules in an arena; as text, "a*=0.8,b*=0", NULL if memory is short. */
enum vc_status vc_prune_sets_copy(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_sparsity_rule *rules,
                                  size_t n, struct vc_prune_set **out);
const char *vc_prune_sets_text(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_prune_set *sets, size_t n);

/* State of a step. */
struct vc_prune_state {
    struct vc_policy policy; /* first: its functions are the step's calibrate and explain, or are called by them */
    const struct vc_prune_options *options;
    struct vc_keys keys; /* of elements, or of blocks */
    enum vc_key_type key_type;
    struct vc_lamp *lamp; /* scores decide, not magnitudes; NULL: these */

    uint32_t *tile_ties; /* per tile, elements that equal the threshold: made by the scan, then those before it that
                            may go */
    uint64_t n_tiles;

    struct vc_bands bands;             /* groups of rows that end inside of tiles */
    uint8_t *mask;                     /* of all elements, or of all blocks; between begin and end */
    uint8_t *ties;                     /* of all blocks: those that equal the threshold */
    struct vc_mask_part part;          /* the mask as an output, where one is wanted */
    const struct vc_model *given_from; /* a given mask: the model that it lies in ... */
    size_t given;                      /* ... and its number there */
    const struct vc_prune_state *also; /* of the step before, with the mask of a pair: what it removes is removed here,
                                          too; NULL: none */
    uint64_t n_len, n_inner;           /* N of M: elements along the input axis, and apart from each other */
    struct vc_calibration calibration; /* scores of Wanda: the statistics of the tensor's inputs */
    float *importance;                 /* ... sqrt(E[x^2]) of each column; between begin and end */
    struct vc_compensation *compensation; /* scores of SparseGPT: U, ... */
    float *fitted;                        /* ... what the weights that stay become; between begin and end */
    size_t first_row;                     /* ... and the row that is looked at */
    bool refitted;                        /* what stays changes (reconstruct.c), by ... */
    float *moments;                       /* ... these; between begin and end */
    struct vc_fraction share;             /* ... of each row that goes */
    _Atomic uint64_t n_checked;           /* ... and groups whose mask was looked at */
};

/* The state of a new step on item->desc, plain floats: added with its policy, the flags of `ops` and the report's words
 * set. `scheme` lives in the arena. */
enum vc_status vc_prune_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_step_ops *ops,
                                 const struct vc_prune_options *options, const char *scheme,
                                 struct vc_prune_state **state, struct vc_step **step);

/* A vc_step_ops.end for all steps: what begin allocated, and of keys the round. A vc_step_ops.forget. */
void vc_prune_end(struct vc_ctx *ctx, struct vc_step *step);
void vc_prune_forget(struct vc_ctx *ctx, struct vc_step *step);

/* The steps. `limit`: elements (or blocks) of which so many may go. Steps whose keys have to be found calibrate. */
enum vc_status vc_magnitude_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                                enum vc_key_type type, uint64_t limit, const char *scheme);
enum vc_status vc_n_of_m_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                             const char *scheme);
enum vc_status vc_blocks_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                             uint64_t limit, const char *scheme);

/* Scores of Wanda or of SparseGPT. *reason: why the item is kept, a few words; NULL: it has the step. */
enum vc_status vc_wanda_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_prune_options *options,
                            struct vc_fraction share, const char *scheme, const char **reason);
/* Two of these reasons. */
extern const char *const vc_no_moments;
extern const char *const vc_weights_turned;

/* sparsegpt.c, for wanda.c: bytes between begin and end, a part of begin, the scan that makes s->mask and s->fitted. */
size_t vc_sparse_state(const struct vc_prune_state *s, uint64_t n_elems);
enum vc_status vc_sparse_begin(struct vc_ctx *ctx, struct vc_prune_state *s, uint64_t n_elems);
enum vc_status vc_sparse_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                              const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch);
enum vc_status vc_sparse_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item);

struct vc_low_score {
    float value;
    size_t at;
};

/* The n_go lowest of n scores lose their bits of the mask, of equal ones the first. They are put into order. */
void vc_mask_lowest(struct vc_low_score *scores, size_t n, size_t n_go, uint8_t *mask);

/* Looks whether the mask that is applied to n elements has the pattern, and counts its groups: whole groups, s->n_len
 * elements along the input axis, n_inner apart. */
enum vc_status vc_n_of_m_check(struct vc_ctx *ctx, struct vc_prune_state *s, const uint8_t *mask, uint64_t n);

/* Blocks of the tensor, of which the shape is that of the descriptor. */
uint64_t vc_blocks_count(const struct vc_prune_options *options, const struct vc_desc *desc);

/* The keys become of that type, before the first round. */
void vc_magnitude_set_type(struct vc_step *step, enum vc_key_type type);

/* Scores decide: before the first round, after the type is set. VC_E_NOMEM. */
enum vc_status vc_magnitude_set_lamp(struct vc_ctx *ctx, struct vc_step *step);

/* After the keys of a step are known: whether it has to scan. */
void vc_magnitude_settled(struct vc_step *step);
void vc_blocks_settled(struct vc_step *step);

/* ---- reconstruct.c ---- */

/* Whether the weights of the step that stay change; step->why if not. Called by vc_prune_add_step. */
enum vc_status vc_reconstruct_plan(struct vc_ctx *ctx, const struct vc_item *item, struct vc_step *step);
/* Bytes between begin and end, and of scratch, beside the step's own. */
size_t vc_reconstruct_state(const struct vc_step *step);
size_t vc_reconstruct_scratch(const struct vc_step *step);
/* In the step's own begin, once it is known what goes. */
enum vc_status vc_reconstruct_begin(struct vc_ctx *ctx, struct vc_step *step);
/* The tile again, behind vc_prune_apply, with its figures. values: f32, before. */
enum vc_status vc_reconstruct(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile,
                              const float *values, const uint8_t *mask, uint64_t first, char *scratch,
                              struct vc_tile_out *out);

/* ---- prune_tile.c ---- */

/* Elements of the largest tile of the step. Bytes of a part of scratch. */
static inline size_t vc_prune_tile(const struct vc_step *step)
{
    return (size_t)vc_min_u64(step->in.n_elems, VC_TILE_ELEMS);
}

/* Scratch that vc_prune_values, vc_prune_apply and bins take together, beside what a step wants for itself. */
size_t vc_prune_scratch(const struct vc_step *step, size_t own);

/* n elements as f32, or as f64 where they are; *scratch moves behind what that took. */
enum vc_status vc_prune_values(struct vc_ctx *ctx, enum vc_dtype dtype, const void *data, size_t n, char **scratch,
                               const void **values);

/* Writes the tile where the mask has 1, zeros elsewhere, with statistics; bit `first` of the mask is the first
 * element's. */
enum vc_status vc_prune_apply(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile,
                              const void *data, const uint8_t *mask, uint64_t first, char *scratch,
                              struct vc_tile_out *out);

/* Refuses a tile with NaN or Inf; vc_policy_explain makes the sentence. */
enum vc_status vc_prune_refuse(struct vc_ctx *ctx);

/* Copies n bits from bit 0 of src to bit `at` of dst. */
void vc_bits_copy(uint8_t *dst, uint64_t at, const uint8_t *src, size_t n);
