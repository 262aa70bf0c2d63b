/* cuda_groups.cu - the kernels for codes with a scale per group; the arithmetic is that of kernels/grid_codes.h.
 *
 * A warp takes a group. Each thread runs trials of the search, all of them over the same elements, which the warp reads
 * at once; the least error wins, of equal ones the first. Then the threads share the elements of the group. */
#include <string.h>

#include "kernels/cpu/group_loop.h"
#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

/* ---- codes from weights ---- */

/* Arguments: device pointers, sizes of the unit. The groups lie in rows of row_len elements. */
struct group_args {
    struct vc_group_codes how; /* weights: of `period` columns, which element 0 of the unit begins at `first` of */
    const float *x;
    const uint32_t *bits;
    struct vc_float_scale *scale;
    uint8_t *q; /* NULL: scales only */
    float *y;
    uint32_t n_groups, row_len, group, per_row;
    uint32_t first, period;
};

/* The scale of a group by the threads of a warp. Whole warps must call it. */
template <enum vc_grid GRID>
static __device__ __forceinline__ struct vc_float_scale find_scale(const struct vc_group_codes *c, const float *x,
                                                                   uint32_t n, uint32_t bits)
{
    const struct vc_scale_trials t = vc_scale_trials_of(c, x, n, vc_bits_f32(bits));
    struct vc_float_scale scale;
    double error = vc_bits_f64(VC_CUDA_F64_INF_BITS); /* the least so far, with the trial and its scale */
    int number = INT32_MAX;
    float value = 0.0f;

    for (int i = (int)(threadIdx.x % 32); i < t.n; i += 32) {
        double e;

        if (vc_trial_run(GRID, c, &t, i, x, n, &scale, &e) && e < error) {
            error = e;
            number = i;
            value = scale.value;
        }
    }
    for (int k = 16; k > 0; k /= 2) {
        double e = __shfl_xor_sync(VC_CUDA_WARP_MASK, error, k);
        int i = __shfl_xor_sync(VC_CUDA_WARP_MASK, number, k);
        float v = __shfl_xor_sync(VC_CUDA_WARP_MASK, value, k);

        if (e < error || (e == error && i < number)) {
            error = e;
            number = i;
            value = v;
        }
    }
    if (number == INT32_MAX) {
        return vc_scale_of_nothing(c);
    }
    scale = vc_trial_begin(c, &t, number);
    scale.value = value;
    return scale;
}

/* NULL for q: only scales are asked for. One for each grid, with weights and without, whose loops know both. */
template <enum vc_grid GRID, bool WEIGHTS>
static __global__ void __launch_bounds__(VC_CUDA_THREADS) groups_kernel(struct group_args a)
{
    size_t warps = blockDim.x / 32;
    uint32_t lane = threadIdx.x % 32;

    for (size_t g = blockIdx.x * warps + threadIdx.x / 32; g < a.n_groups; g += gridDim.x * warps) {
        uint32_t col = (uint32_t)(g % a.per_row) * a.group;
        uint32_t at = (uint32_t)(g / a.per_row) * a.row_len + col;
        uint32_t n = a.row_len - col < a.group ? a.row_len - col : a.group;
        struct vc_group_codes own = a.how;
        struct vc_float_scale scale;

        own.grid = GRID;
        own.weights = WEIGHTS ? a.how.weights + (a.first + at) % a.period : NULL;
        scale = GRID == VC_GRID_E4M3 ? vc_e4m3_scale(&own, vc_bits_f32(a.bits[g]))
                                     : find_scale<GRID>(&own, a.x + at, n, a.bits[g]);
        if (lane == 0) {
            a.scale[g] = scale;
        }
        for (uint32_t i = lane; a.q != NULL && i < n; i += 32) {
            vc_group_encode(&own, &scale, a.x + at + i, 1, a.q + at + i, a.y + at + i);
        }
    }
}

template <enum vc_grid GRID>
static void launch_grid(unsigned grid, unsigned block, cudaStream_t stream, const struct group_args &a)
{
    if (a.how.weights != NULL) {
        VC_CUDA_LAUNCH((groups_kernel<GRID, true>), grid, block, stream, a);
    } else {
        VC_CUDA_LAUNCH((groups_kernel<GRID, false>), grid, block, stream, a);
    }
}

/* Arrays: x, bits, weights if any, scales and, where they are wanted, codes and values. How: call->user. */
static void launch_groups(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    unsigned out = call->n_bins != 0 ? 3 : 2;
    bool codes = call->n_arrays > out + 1;
    struct group_args a = {*(const struct vc_group_codes *)call->user,
                           (const float *)unit->device[0],
                           (const uint32_t *)unit->device[1],
                           (struct vc_float_scale *)unit->device[out],
                           codes ? (uint8_t *)unit->device[out + 1] : NULL,
                           codes ? (float *)unit->device[out + 2] : NULL,
                           (uint32_t)unit->n_groups,
                           unit->row_len,
                           (uint32_t)call->group,
                           unit->index.per_row,
                           call->n_bins != 0 ? (uint32_t)(unit->first % call->n_bins) : 0,
                           (uint32_t)call->n_bins};
    unsigned block = unit->n_groups < VC_CUDA_THREADS / 32 ? (unsigned)unit->n_groups * 32 : VC_CUDA_THREADS;

    a.how.weights = out == 3 ? (const float *)unit->device[2] : NULL;
    unsigned grid = vc_cuda_grid((unit->n_groups * 32 + block - 1) / block);
    switch (a.how.grid) {
    case VC_GRID_E4M3:
        launch_grid<VC_GRID_E4M3>(grid, block, unit->stream, a);
        break;
    case VC_GRID_E2M1:
        launch_grid<VC_GRID_E2M1>(grid, block, unit->stream, a);
        break;
    case VC_GRID_NF4:
        launch_grid<VC_GRID_NF4>(grid, block, unit->stream, a);
        break;
    case VC_GRID_FP4:
        launch_grid<VC_GRID_FP4>(grid, block, unit->stream, a);
        break;
    default:
        launch_grid<VC_GRID_NONE>(grid, block, unit->stream, a);
    }
}

/* A unit is whole groups: rows of one group each where groups fill rows, else whole rows. The host takes those that do
 * not fit into an arena. */
int vc_cuda_group_codes_rows(const float *x, size_t n_rows, size_t row_len, size_t group,
                             const struct vc_group_codes *how, const uint32_t *bits, struct vc_float_scale *scale,
                             uint8_t *q, float *y)
{
    struct vc_cuda_call call = vc_cuda_call_of(launch_groups, how, n_rows, row_len, group);

    if (n_rows == 0 || row_len == 0) {
        return 0;
    }
    call.row_len = row_len % call.group == 0 ? call.group : row_len;
    call.n_rows = n_rows * (row_len / call.row_len);
    call.keep_rows = true;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_in(&call, bits, sizeof *bits, VC_CUDA_PER_GROUP);
    if (how->weights != NULL) {
        call.n_bins = row_len;
        vc_cuda_add_in(&call, how->weights, sizeof *how->weights, VC_CUDA_PER_BIN);
    }
    vc_cuda_add_out(&call, scale, sizeof *scale, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
    if (q != NULL) {
        vc_cuda_add_out(&call, q, sizeof *q, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
        vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    }
    if (!vc_cuda_rows_fit(&call)) {
        return vc_groups_walk(x, n_rows, row_len, group, how, bits, scale, q, y, vc_group_plain);
    }
    return vc_cuda_run(&call);
}

/* ---- values from codes ---- */

/* What codes stand for. */
struct grid_decode_op {
    typedef uint8_t from;
    typedef float to;

    const uint8_t *x;
    struct vc_cuda_index index;
    enum vc_grid grid;
    const float *scale;

    __device__ __forceinline__ float of(uint32_t i, uint8_t q) const
    {
        return vc_grid_decode(vc_float_code_value(grid, q), scale[vc_cuda_scale_of_flat(&index, i)]);
    }
};

/* Which grid: call->user. */
static void launch_decode(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    struct grid_decode_op op = {(const uint8_t *)unit->device[0], unit->index, *(const enum vc_grid *)call->user,
                                (const float *)unit->device[1]};

    vc_cuda_launch_each(op, unit, (float *)unit->device[2]);
}

/* group 0: along the axis of `map`. */
static int decode(const uint8_t *q, size_t n_rows, size_t row_len, size_t group, const struct vc_axis_map *map,
                  enum vc_grid grid, const float *scale, float *y)
{
    struct vc_cuda_call call = vc_cuda_call_of(launch_decode, &grid, n_rows, row_len, group);
    call.map = map;
    vc_cuda_add_in(&call, q, sizeof *q, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_in(&call, scale, sizeof *scale, map != NULL ? VC_CUDA_PER_CHANNEL : VC_CUDA_PER_GROUP);
    vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

int vc_cuda_grid_decode_rows(const uint8_t *q, size_t n_rows, size_t row_len, size_t group, enum vc_grid grid,
                             const float *scale, float *y)
{
    return decode(q, n_rows, row_len, group, NULL, grid, scale, y);
}

int vc_cuda_grid_decode_axis(const uint8_t *q, size_t n, const struct vc_axis_map *map, enum vc_grid grid,
                             const float *scale, float *y)
{
    return decode(q, 1, n, 0, map, grid, scale, y);
}
