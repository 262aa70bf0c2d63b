/* cuda_absmax.cu - absmax_* and range_*: largest magnitudes per group or channel, as integers on the bits of the
 * weights.
 *
 * Elements form runs with one scale each (struct vc_cuda_index). A team of lanes takes a piece of a run; where a run is one
 * piece its maximum is stored, else joined. Runs that are too short for that are along an axis: a thread takes an element. */
#include "kernels/cuda/cuda_absmax.h"

#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

#define PIECE      4096u /* elements of a run that a team takes at most */
#define BATCH      4u    /* quads that a lane has in flight */
#define SHORT_AXIS 16u   /* below it a channel's run is no work for a team */

/* Joins x. As signed integers numbers of the other sign are below 0. Not split: magnitudes of both signs in *pos. */
static __device__ __forceinline__ void widen(float x, bool split, uint32_t *pos, uint32_t *neg)
{
    int32_t p = (int32_t)(split ? vc_f32_bits(x) : vc_f32_magnitude(x));
    int32_t n = (int32_t)(vc_f32_bits(x) ^ 0x80000000u);

    *pos = p > (int32_t)*pos ? (uint32_t)p : *pos;
    if (split) {
        *neg = n > (int32_t)*neg ? (uint32_t)n : *neg;
    }
}

/* What the kernels get: device pointers, and how the unit is cut. */
struct range_args {
    const float *x;
    uint32_t *pos, *neg; /* 0 before; neg NULL: magnitudes of both signs in pos */
    struct vc_cuda_index index;
    uint32_t row_len;                       /* along an axis the unit is one row */
    uint32_t n_pieces;                      /* of the unit */
    struct vc_cuda_divisor pieces, per_row; /* of a run; runs of a row */
    unsigned team;                          /* lanes of a piece: a power of two */
};

/* Teams take pieces by turns, all of a warp as often. WHOLE: quads are aligned, and whole or not there. */
template <bool WHOLE> static __global__ void __launch_bounds__(VC_CUDA_THREADS) range_kernel(struct range_args a)
{
    uint32_t teams = blockDim.x / a.team;
    bool split = a.neg != NULL;

    for (uint32_t base = blockIdx.x * teams; base < a.n_pieces; base += gridDim.x * teams) {
        uint32_t piece = base + threadIdx.x / a.team;
        uint32_t run = vc_cuda_divide(piece, &a.pieces);
        uint32_t row = vc_cuda_divide(run, &a.per_row);
        uint32_t k = run - row * a.per_row.by;
        uint32_t first = k == 0 ? 0 : a.index.head + (k - 1) * a.index.step.by;
        uint32_t end = a.index.head < a.row_len ? a.index.head + k * a.index.step.by : a.row_len;
        const float *x = a.x + row * a.row_len;
        uint32_t p = 0;
        uint32_t n = 0;

        first += (piece - run * a.pieces.by) * PIECE;
        end = end < a.row_len ? end : a.row_len;
        end = end < first + PIECE ? end : first + PIECE;
        end = piece < a.n_pieces ? end : 0;
        for (uint32_t i = first + threadIdx.x % a.team * 4; i < end; i += BATCH * 4 * a.team) {
            vc_cuda_quad<float> quads[BATCH];

            VC_CUDA_FOR(b, BATCH)
            {
                uint32_t at = i + b * 4 * a.team;

                quads[b] = vc_cuda_load<WHOLE>(x + at, at < end ? end - at : 0);
            }
            VC_CUDA_FOR(b, BATCH * 4)
            {
                widen(quads[b / 4].v[b % 4], split, &p, &n);
            }
        }
        p = vc_cuda_warp_max(p, a.team);
        n = split ? vc_cuda_warp_max(n, a.team) : 0;
        if (piece < a.n_pieces && threadIdx.x % a.team == 0) {
            if (a.index.per_row == 0) {
                run -= vc_cuda_divide(run, &a.index.n_channels) * a.index.n_channels.by;
            }
            if (a.index.per_row != 0 && a.pieces.by == 1) {
                a.pos[run] = p;
            } else {
                atomicMax(&a.pos[run], p);
            }
            if (split && a.index.per_row != 0 && a.pieces.by == 1) {
                a.neg[run] = n;
            } else if (split) {
                atomicMax(&a.neg[run], n);
            }
        }
    }
}

/* Runs of a few elements along an axis. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS) range_elements_kernel(struct range_args a)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.row_len; i += gridDim.x * blockDim.x) {
        uint32_t scale = vc_cuda_scale_of_flat(&a.index, i);
        uint32_t p = 0;
        uint32_t n = 0;

        widen(a.x[i], a.neg != NULL, &p, &n);
        if (p != 0) {
            atomicMax(&a.pos[scale], p);
        }
        if (n != 0) {
            atomicMax(&a.neg[scale], n);
        }
    }
}

/* A lane has a batch of quads, where a run has that many. */
void vc_cuda_launch_range(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit, const float *x,
                          uint32_t *pos, uint32_t *neg)
{
    bool axis = call->map != NULL;
    const struct vc_cuda_index *index = &unit->index;
    uint32_t row_len = axis ? unit->n_elems : unit->row_len;
    uint32_t runs =
        !axis ? index->per_row : 1 + (index->head < row_len ? (row_len - index->head - 1) / index->step.by + 1 : 0);
    uint32_t longest = index->step.by < row_len ? index->step.by : row_len;
    uint32_t pieces = (longest + PIECE - 1) / PIECE;
    struct range_args a = {x,
                           pos,
                           neg,
                           *index,
                           row_len,
                           (axis ? 1 : unit->n_rows) * runs * pieces,
                           vc_cuda_divisor_of(pieces),
                           vc_cuda_divisor_of(runs),
                           1};
    bool whole = row_len % 4 == 0 && (runs == 1 || (index->step.by % 4 == 0 && index->head % 4 == 0));
    void (*kernel)(struct range_args) = whole ? range_kernel<true> : range_kernel<false>;
    unsigned block;

    if (axis && index->step.by < SHORT_AXIS) {
        VC_CUDA_LAUNCH(range_elements_kernel, vc_cuda_grid(row_len / (VC_CUDA_THREADS * 8) + 1), vc_cuda_block(row_len),
                       unit->stream, a);
        return;
    }
    while (a.team < 32 && a.team * BATCH * 4 < longest) {
        a.team *= 2;
    }
    block = vc_cuda_team_block(a.n_pieces, a.team);
    VC_CUDA_LAUNCH(kernel,
                   vc_cuda_grid_of((const void *)kernel, block, ((size_t)a.n_pieces * a.team + block - 1) / block),
                   block, unit->stream, a);
}

/* Arrays: x, pos and, for ranges, neg. */
static void launch(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    vc_cuda_launch_range(call, unit, (const float *)unit->device[0], (uint32_t *)unit->device[1],
                         call->n_arrays > 2 ? (uint32_t *)unit->device[2] : NULL);
}

/* The four kernels of this file. neg NULL: absmax; map NULL: by groups of rows. */
static int run(const float *x, size_t n_rows, size_t row_len, size_t group, const struct vc_axis_map *map,
               uint32_t *pos, uint32_t *neg)
{
    enum vc_cuda_per per = map != NULL ? VC_CUDA_PER_CHANNEL : VC_CUDA_PER_GROUP;

    struct vc_cuda_call call = vc_cuda_call_of(launch, NULL, n_rows, row_len, group);
    call.map = map;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, pos, sizeof *pos, per, VC_CUDA_OUT_MAX);
    if (neg != NULL) {
        vc_cuda_add_out(&call, neg, sizeof *neg, per, VC_CUDA_OUT_MAX);
    }
    return vc_cuda_run(&call);
}

/* By groups of rows; by channels of an axis below. */
int vc_cuda_absmax_rows(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits)
{
    return run(x, n_rows, row_len, group, NULL, bits, NULL);
}

int vc_cuda_range_rows(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *pos, uint32_t *neg)
{
    return run(x, n_rows, row_len, group, NULL, pos, neg);
}

int vc_cuda_absmax_axis(const float *x, size_t n, const struct vc_axis_map *map, uint32_t *bits)
{
    return run(x, 1, n, 0, map, bits, NULL);
}

int vc_cuda_range_axis(const float *x, size_t n, const struct vc_axis_map *map, uint32_t *pos, uint32_t *neg)
{
    return run(x, 1, n, 0, map, pos, neg);
}
