/* int8.h - shared by the files of the scheme int8: int8.c (the step), int8_scan.c (scales of several tiles), and by all
 * schemes of codes: code_scales.c (how elements map to scales, scratch), int8_clean.c (NaN and Inf). The row of the
 * table is vc_scheme_int8. Functions that take a tile are called from many threads at once, each with scratch of its
 * own; only vc_int8_scan changes the state then, under its mutex. */
#pragma once

#include "kernels/kernels.h"
#include "passes/nonfinite.h"
#include "quantize/schemes/schemes.h"

/* How the scales of one tensor are found and applied. */
struct vc_int8_state {
    struct vc_policy policy; /* first: its functions are the step's calibrate and explain */
    const struct vc_scheme_row *row;
    const struct vc_quantize_options *options; /* the pass's */
    enum vc_granularity granularity;           /* of this tensor */
    unsigned axis;
    uint64_t group;      /* rows, blocks: elements of a row per scale */
    uint64_t group_rows; /* blocks: rows per scale */
    uint64_t row_len;    /* of axis 0 */
    uint64_t n_groups;   /* scales per row of axis 0, when granularity is by rows; per row of blocks */
    uint64_t inner; /* not by rows: elements from one channel to the next; element i has scale i / inner % n_scales */
    uint64_t n_scales;
    enum vc_dtype scale_dtype; /* of the stored scales; narrower than f32 under a layout only */
    bool absmax;               /* absolute maxima are stored, not scales */
    bool by_rows;              /* scales belong to rows of axis 0 (channel of axis 0, groups); else an axis map */
    bool scan;                 /* scales need more than one tile: found by a scan, kept in memory */
    const float *given;        /* scales that are known, n_scales; NULL: they come from the values */
    bool zeros;                /* symmetric codes, with zero points of 0: loaders of codes beside codes ask for them */

    /* With scan, from begin to end. */
    pthread_mutex_t mutex;
    bool has_mutex;
    bool has_nonfinite;
    uint32_t *pos; /* symmetric: largest magnitude; asymmetric: of the positive values */
    uint32_t *neg; /* asymmetric: of the negative values */
    float *scale;
    uint16_t *stored; /* the scales as f16 or bf16, where scale_dtype is that */
    int8_t *zero;     /* asymmetric */
};

/* From absolute maxima (bits, finite) to the scales that codes are made with; in `stored` the same as f16 or bf16 where
 * the scales are of that type. */
void vc_int8_scales(const struct vc_int8_state *s, const uint32_t *bits, size_t n, float *scale, uint16_t *stored);

/* The same with zero points, from the largest magnitudes of both signs. */
void vc_int8_asym_scales(const struct vc_int8_state *s, const uint32_t *pos, const uint32_t *neg, size_t n,
                         float *scale, uint16_t *stored, int8_t *zero);

/* ---- code_scales.c ---- */
/* The channel axis for that item: what the options say, or where its output channels are. May not fit its shape. */
int vc_int8_axis(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                 const struct vc_item *item);

/* Whether scales of the scheme are shared by several rows of the item: blocks, or groups along axis 0. */
bool vc_int8_in_blocks(const struct vc_scheme_row *row, const struct vc_quantize_options *options,
                       const struct vc_item *item);

/* Adds a step whose state `s` begins with struct vc_int8_state: from options and shape how elements map to scales, the
 * label, what the output's descriptor says, the parts. `s` came from vc_calloc_array and is the step's from then on,
 * also after a failure. The caller sets scan, scratch_bytes and state_bytes. */
enum vc_status vc_int8_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_scheme_row *row,
                                const struct vc_step_ops *ops, const struct vc_quantize_options *options,
                                enum vc_dtype weights, struct vc_int8_state *s, struct vc_step **out);

/* ---- int8.c ---- */

/* int8 by scales that are known, one for each index of the channel axis or one for all: the pass owns them, longer than
 * the step. No value is larger than 127 of them. */
enum vc_status vc_int8_add_given(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                                 const float *scale);

/* ---- bias_codes.c ---- */

/* The same of a bias, as codes of 32 bits. */
enum vc_status vc_bias_codes_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_quantize_options *options,
                                 const float *scale);

/* ---- fp8_tensor.c ---- */

/* Adds the step of fp8 with one scale for the tensor. */
enum vc_status vc_fp8_tensor_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_scheme_row *row,
                                 const struct vc_quantize_options *options, enum vc_dtype weights);

/* ---- block_codes.c ---- */

/* Adds the step of fp8 or int4 whose scales belong to several rows (vc_int8_in_blocks). */
enum vc_status vc_block_codes_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_scheme_row *row,
                                  const struct vc_quantize_options *options, enum vc_dtype weights);

/* The operations of the step in int8_scan.c. */
enum vc_status vc_int8_begin(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item);
enum vc_status vc_int8_scan(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item,
                            const struct vc_tile *tile, const struct vc_tile_in *in, void *scratch);
enum vc_status vc_int8_scan_end(struct vc_ctx *ctx, struct vc_step *step, const struct vc_item *item);
void vc_int8_end(struct vc_ctx *ctx, struct vc_step *step);

/* ---- a tile: code_scales.c, int8_clean.c ---- */

/* Scratch of one tile, carved from the executor's. */
struct vc_int8_scratch {
    float *x;         /* the values as f32, when the input is another type */
    float *clean;     /* with NONFINITE_ZERO: a copy without NaN and Inf */
    float *scale;     /* of the tile's own groups */
    uint16_t *stored; /* ... as f16 or bf16, where that is stored */
    uint32_t *pos;
    uint32_t *neg;
    int8_t *zero;
};

/* Scales that one tile of a step of vc_int8_add_step can touch at most; of blocks 0. */
size_t vc_int8_local_scales(const struct vc_step *step, const struct vc_int8_state *s);
size_t vc_int8_scratch_bytes(const struct vc_step *step, const struct vc_int8_state *s);
void vc_int8_scratch_carve(const struct vc_step *step, const struct vc_int8_state *s, void *memory,
                           struct vc_int8_scratch *out);

/* The tile's values as f32: `in` itself or converted into scratch. */
enum vc_status vc_int8_widen(struct vc_ctx *ctx, const struct vc_step *step, const struct vc_tile *tile, const void *in,
                             struct vc_int8_scratch *scratch, const float **x);

/* How element i of the tile maps to the tile's scales: local numbers from 0, and where they begin in the tensor's. */
struct vc_int8_tile_map {
    bool rows; /* rows x groups; else `axis` */
    size_t group;
    struct vc_axis_map axis;
    size_t n_local;       /* scales the tile touches */
    uint64_t first_scale; /* tensor's number of local scale 0 */
};

void vc_int8_map_tile(const struct vc_int8_state *s, const struct vc_tile *tile, struct vc_int8_tile_map *map);

/* NaN -> 0; +-Inf -> 0 when pos is NULL, else the largest finite magnitude of its scale with its sign (neg NULL: pos
 * serves both). Returns how many were replaced. */
uint64_t vc_int8_sanitize(const float *x, const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                          const uint32_t *pos, const uint32_t *neg, float *clean);

/* One of n magnitudes as bits is NaN or infinite. bits may be NULL. */
bool vc_int8_any_nonfinite(const uint32_t *bits, size_t n);

/* Magnitudes of the tile's groups without NaN and Inf, and a copy of the tile in which they are replaced. */
enum vc_status vc_int8_clean_tile(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_tile *tile,
                                  const struct vc_int8_tile_map *map, struct vc_int8_scratch *t, bool asymmetric,
                                  const float **x, uint64_t *replaced);

/* The largest magnitude of each of the tile's groups, in t->pos. NaN and Inf among *x are refused, or replaced in
 * t->clean, which is *x then; *replaced is how many. */
enum vc_status vc_int8_magnitudes(struct vc_ctx *ctx, const struct vc_kernels *k, const struct vc_int8_state *s,
                                  const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                                  struct vc_int8_scratch *t, const float **x, uint64_t *replaced);

/* Figures of a tile whose codes (out->data) were made from a clean copy of x: sums, largest error and zeros_before
 * again, for the finite values of x alone. scale and zero are the tile's own; y has room for the tile. */
enum vc_status vc_int8_measure(struct vc_ctx *ctx, const struct vc_tile *tile, const struct vc_int8_tile_map *map,
                               const float *x, const float *scale, const int8_t *zero, float *y,
                               struct vc_tile_out *out);

/* Figures of a tile whose values x became y: sums, largest error, zeros before and after. Nothing counts as clipped:
 * searches choose what to clip. */
enum vc_status vc_int8_measure_values(struct vc_ctx *ctx, const struct vc_tile *tile, const float *x, const float *y,
                                      struct vc_tile_stats *stats);

/* The bits of the largest finite magnitude of n values, which may be unaligned. */
uint32_t vc_int8_largest(const float *x, size_t n);
/* The largest of magnitudes as bits, which are in the order of the floats; NaN and Inf are the largest. */
uint32_t vc_int8_most(const uint32_t *bits, size_t n);

/* For types of blocks, which lie along the rows: the tile without NaN and Inf, which become 0 and the largest finite
 * magnitude of their block; *replaced is how many. bits: room for a magnitude of each block. */
enum vc_status vc_int8_clean_blocks(struct vc_ctx *ctx, const struct vc_kernels *k, size_t block,
                                    const struct vc_tile *tile, const float *x, uint32_t *bits, float *clean,
                                    uint64_t *replaced);

/* Adds a step that makes such a type. Its state begins with `policy` (vc_policy_add_step). */
enum vc_status vc_blocks_add_step(struct vc_ctx *ctx, struct vc_item *item, const struct vc_step_ops *ops,
                                  const struct vc_quantize_options *options, enum vc_dtype type,
                                  struct vc_policy *policy, struct vc_step **out);

/* The short sentence for a tile with NaN or Inf, VC_E_UNSUPPORTED: explain replaces it by which, where, how many. */
enum vc_status vc_int8_refuse(struct vc_ctx *ctx);
