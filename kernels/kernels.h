/* kernels.h - arrays to arrays: the table of kernels, and the contract of each. Knows no model and no file.
 *
 * A pass or a scan asks its context for the table once per tile and calls an entry on the tile's arrays:
 *
 *     const struct vc_kernels *k = vc_kernels_get(ctx);
 *     VC_KERNEL_TRY(k->int8_rows(x, tile->n_rows, tile->row_len, group, bits, scale, q, &stats));
 *
 * Every entry has a plain reference loop (kernel_ref*.c), which is its definition; every other variant gives the same
 * bits. All return 0, except the CUDA variants, which return a nonzero code when the device failed (vc_kernels_error
 * tells the sentence). Inputs are never changed; inputs and outputs do not overlap. Arrays are the caller's, in host
 * memory; kernels allocate nothing and keep no pointer. They may be called from any number of threads at once.
 *
 * Names of parameters: x weights, y values in f32, h 16-bit floats, q int8 codes, blocks GGUF blocks; scale and zero
 * (points) belong to codes; bits, pos and neg are magnitudes as integers (vc_f32_magnitude).
 *
 * Shapes
 *   A tile is n_rows x row_len elements, contiguous. *_rows kernels have one scale per `group` consecutive elements of
 *   a row (group == row_len: one per row; the last group of a row may be short), so n_rows * ceil(row_len / group)
 *   scales in row order. group >= 1; with row_len == 0 or n_rows == 0 nothing happens.
 *   *_axis kernels take the scale of channel (map->first + i) / map->inner % map->n_channels for element i.
 *
 * absmax_rows    bits[g] = max over the group of (bits of x) & 0x7fffffff; 0 for an empty group. Overwrites.
 * absmax_axis    bits[channel] = max(bits[channel], ...). Accumulates: the caller clears.
 * range_rows     pos[g], neg[g]: the same maximum over the elements with sign bit 0 and 1. Overwrites; 0 if none.
 * range_axis     accumulates.
 * int8_rows      absmax, scale (vc_int8_scale), codes (vc_int8_encode) and statistics of each group, in one pass over
 *                the data. bits as absmax_rows. Where a group is not finite (bits[g] >= 0x7f800000) its scale is 1, its
 *                codes and the statistics of its chunks are unspecified: the caller looks at bits first.
 * int8_rows_given, int8_axis_given
 *                codes for given scales, and zero points if zero != NULL (vc_int8_encode_asym); statistics. x finite.
 * int8_decode_*  y = vc_int8_decode(q, scale, zero or 0).
 * cast_*         h = the conversion of arith.h; statistics. NaN and Inf are converted, and left out of the sums.
 * f64_to_f32     y = vc_f64_to_f32(x): round to nearest even.
 * q8_0_rows      blocks of 32 elements each (f16 step, then 32 codes; kernels/blocks.h), in row order, bits of each as
 *                absmax_rows, and statistics. row_len is a multiple of 32. Where a block is not finite its bytes and
 *                the statistics of its chunk are unspecified. A step beyond f16 is stored as Inf: the caller looks at
 *                bits (VC_Q8_0_TOO_LARGE_BITS).
 * <type>_to_f32  y = what element i of its block stands for (kernels/blocks.h); n is a multiple of the block. A type
 *                for each row of block_types.inc.
 * <type>_blocks  the blocks of each row in turn, as `how` says (block_encode.h, block_best.h). row_len is a multiple of
 *                the block; x finite. A step beyond f16 is stored as Inf or NaN: the caller decodes and looks.
 *
 * Given scales are > 0. Scales, zero points and bits are arrays like the others: they may be unaligned too; chunk_sums
 * is aligned.
 *
 * Statistics (struct vc_tile_stats, core/values/tile.h), with y the decoded output, all in f64:
 *   chunk_sums     per chunk of up to 4096 elements of a row (chunks in row order): the sum of x*x, then of e*e,
 *                  e = x - y, by the fixed tree below. For int8 from f64 weights x is the f32 that was quantized.
 *   max_abs_error  max |e|; 0 for an empty tile
 *   zeros_before   x == 0;  zeros_after  y == 0
 *   clipped        int8: codes that the clamp changed (rint(x / s) [+ zero] outside the range). casts: finite x whose
 *                  result is Inf.
 *   Every field is overwritten. An element whose x or y is not finite adds +0 to the sums and nothing to the maximum.
 *   stats may be NULL: then no statistics.
 *
 * The tree: 64 lanes; lane l adds elements l, l + 64, l + 128, ... of the chunk in ascending order (acc = acc + v, from
 * +0.0; a missing element adds nothing); then for k = 32, 16, 8, 4, 2, 1: lane[l] = lane[l] + lane[l + k] for l < k.
 * lane[0] is the sum. Products are rounded before they are added (no fused multiply-add).
 *
 * diff_*         chunk_sums per chunk: sum x*x, e*e, y*y, x*y (tree), e = x - y in f64; max |e|; and `different`, the
 *                number of elements whose bits differ with NaN == NaN and +0 == -0 counted as equal. Pairs where either
 *                is not finite are left out of sums and maximum; unless both are equal they count in `different` and in
 *                nonfinite_pairs.
 * values_*       counts by class (subnormals of x's own type), minimum and maximum over the finite values (a zero is
 *                +0), histogram of the exponent bits of (float)x for finite x (an f64 beyond f32: bin 255),
 *                chunk_sums: sum x and sum x*x over the finite values (tree).
 *                Every field is overwritten. Sums over f64 may overflow to Inf or NaN: callers look.
 *
 * Pruning. The key of an element is its bits without the sign, as an unsigned integer: 15 bits of a 16-bit float, 31 of
 * an f32, 63 of an f64. Keys have the order of the magnitudes. A mask has a bit per element, 1 = kept: bit i % 8 of
 * byte i / 8, as np.unpackbits(bitorder='little') reads it. Bits behind the last element are 0.
 *
 * magnitude_bins_*  bins[(key - first) >> shift] += 1 for keys of at least `first` whose bin is below n_bins. _u16 has
 *                   32768 bins, one per key. Accumulates; a bin takes 2^32 - 1 elements.
 * mask_above_*      bit = key > threshold, or key == threshold where n_ties earlier elements of the array have that key
 *                   already: so the first n_ties of equal ones are pruned. Bits are written from bit 0 on.
 * mask_n_of_m_*     x is [n_blocks, len, inner]; groups of `group` elements follow each other along len, at each place
 *                   of inner. Of each group the `keep` largest keys are kept, of equal keys the one with the lower
 *                   index; the last group may be short. 1 <= keep <= group.
 * mask_apply_*      y = x where the bit is 1, else +0. The bit of element i is number first + i of the mask. Statistics
 *                   as above, e = x where it is pruned. y may be NULL: statistics only. mask_apply_u16 has none.
 * block_squares_*   the tile as blocks of block_rows x block_cols, in row order, the last ones of a row and a column
 *                   short: scores = sum of x * x in f64, by rows, each row from the left, from +0.0; no tree.
 * row_sums_*        one sum per chunk of each row: of |x| (power 1), or of x * x (power 2), in f64 (tree).
 * column_sums_*     one sum per column, of the same, in f64: the rows from the first on, from +0.0; no tree. Not
 *                   touched where there are no rows.
 *
 * group_codes_rows  for each group its scale, codes and what these stand for, as `how` says (grid_codes.h). bits: of
 *                   each group as absmax_rows gives them. how->weights: of each of the row_len columns, finite and at
 *                   least 0; NULL: all alike. q and y may be NULL, both: scales only. x finite.
 * grid_decode_*     y = vc_grid_decode(vc_float_code_value(grid, q), scale).
 *
 * Empty tiles: the numbers in the statistics are set (0; min +Inf, max -Inf), arrays are not touched. */
#pragma once

#include <vcompress/status.h>

#include "core/values/grids.h"
#include "core/values/tile.h"

VC_BEGIN_C

struct vc_ctx;

/* For q8_0_rows: magnitudes (as bits) whose step has no finite f16, from 8321040 on, which gives a step of 65520. */
#define VC_Q8_0_TOO_LARGE_BITS 0x4afdf020u

/* Which channel an element of a tile belongs to, where scales lie along any axis. Example: shape [2, 3, 5] with scales
 * along axis 1 has n_channels 3 and inner 5; a tile that starts at element 7 has first 7. */
struct vc_axis_map {
    uint64_t first; /* flat index of element 0 in its tensor */
    uint64_t inner; /* elements of one channel that follow each other: product of the dimensions after the axis */
    uint64_t n_channels;
};

/* How <type>_blocks chooses scales. */
struct vc_block_how {
    bool best;               /* lowest error (block_best.h); false: as llama.cpp's quantizers (block_encode.h) */
    const float *importance; /* of each of the row_len columns, >= 0: how much its errors count; NULL: all alike */
};

/* Which keys magnitude_bins_* count, and in which bin. */
struct vc_bin_range {
    uint64_t first;
    unsigned shift; /* 0 to 62 */
    size_t n_bins;
};

/* What mask_above_* keep. */
struct vc_mask_cut {
    uint64_t threshold;
    uint64_t n_ties; /* of the elements whose key is the threshold, so many go, from the first on */
};

/* What diff_* report about a tile (above). chunk_sums is the caller's array, 8-byte aligned. */
struct vc_diff_sums {
    double *chunk_sums; /* 4 per chunk */
    double max_abs_error;
    uint64_t different;
    uint64_t nonfinite_pairs;
};

/* What values_* report about a tile (above). chunk_sums is the caller's array, 8-byte aligned. */
struct vc_value_counts {
    double *chunk_sums; /* 2 per chunk */
    uint64_t nans, infs, zeros, subnormals;
    double min, max; /* over the finite values; +Inf and -Inf when there are none */
    uint64_t histogram[256];
};

/* The table: one pointer per line of kernels.inc, in that order. */
struct vc_kernels {
    const char *device; /* "cpu" or "cuda:0 NAME" */
#define VC_KERNEL(name, result, params) result(*name) params;
#include "kernels/kernels.inc"
#undef VC_KERNEL
};

/* A number for each kernel, in the order of kernels.inc. */
enum vc_kernel_id {
#define VC_KERNEL(name, result, params) VC_KERNEL_ID_##name,
#include "kernels/kernels.inc"
#undef VC_KERNEL
    VC_KERNEL_ID_COUNT
};

const char *vc_kernel_name(enum vc_kernel_id id); /* "int8_rows" */

/* The table of this context, every entry set: CPU variants up to its level, and over them the CUDA plug-in's where the
 * device says so (entries that the plug-in lacks stay the CPU's). A ctx that is `on_cpu` gets the CPU's alone. NULL with
 * VC_E_DEVICE set when CUDA was asked for and cannot be had. Owned by the context; ask again for each piece of work, since a card
 * that is being opened comes into it later. */
const struct vc_kernels *vc_kernels_get(struct vc_ctx *ctx);

/* Begins to open the device that the context was told to use ("cuda"), on a thread of its own, so that headers are read
 * meanwhile; vc_kernels_get waits for it and tells what failed. Does nothing for "auto" and "cpu", and may be called again. */
void vc_kernels_prepare(struct vc_ctx *ctx);

/* For "auto": begins to open the first card. From when it is open on, the context's table has the kernels that search for codes
 * from there (group_codes_rows and those of blocks); until then, and where it cannot be opened, all run on the CPU. Nothing
 * fails. */
void vc_kernels_card_begin(struct vc_ctx *ctx);
/* Waits until it is open or has failed: NULL, or the sentence why there is none, which the context owns. NULL, too, where nothing
 * was begun. */
const char *vc_kernels_card_end(struct vc_ctx *ctx);

/* The result of a kernel as a status; where that is a failure, with the sentence set: VC_E_NOMEM when the device's
 * memory ran out, else VC_E_DEVICE. CPU kernels never fail. */
enum vc_status vc_kernels_error(struct vc_ctx *ctx, int result);

/* The CPU table of exactly that enum vc_cpu_level (levels without an own variant of a kernel inherit the one below);
 * for tests. */
void vc_kernels_fill(struct vc_kernels *table, int level);

/* Calls a kernel: VC_CALL and VC_TRY of its status. */
#define VC_KERNEL_CALL(call) VC_CALL(vc_kernels_error(ctx, (call)))
#define VC_KERNEL_TRY(call)  VC_TRY(vc_kernels_error(ctx, (call)))

VC_END_C
