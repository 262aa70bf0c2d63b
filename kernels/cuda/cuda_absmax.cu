/* cuda_absmax.cu - absmax_* and range_*: largest magnitudes per group or channel, as integers on the bits of the
 * weights.
 *
 * Two kernels: short groups get a team of lanes each; long groups and channels are walked flat, a warp taking 256
 * neighbours, which nearly always belong together and then cost one atomic operation. */
#include "kernels/cuda/cuda_absmax.h"

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_reduce.h"

#define SHORT_GROUP 1024 /* up to here one team per group */
#define SEGMENT     256  /* elements a warp takes at once when walking flat */

/* Joins |x| to *neg where signs are split and x has its sign bit set, else to *pos. */
static __device__ __forceinline__ void widen(float x, bool split, uint32_t *pos, uint32_t *neg)
{
    uint32_t m = vc_f32_magnitude(x);

    if (split && vc_f32_bits(x) >> 31) {
        *neg = m > *neg ? m : *neg;
    } else {
        *pos = m > *pos ? m : *pos;
    }
}

/* Short groups: `team` lanes (a power of two up to 32) per group. neg NULL: magnitudes of both signs in pos. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    range_groups_kernel(const float *__restrict__ x, uint32_t n_groups, uint32_t row_len, struct vc_cuda_index index,
                        unsigned team, uint32_t *__restrict__ pos, uint32_t *__restrict__ neg)
{
    size_t teams = blockDim.x / team;
    bool split = neg != NULL;

    for (size_t base = blockIdx.x * teams; base < n_groups; base += gridDim.x * teams) {
        size_t g = base + threadIdx.x / team;
        uint32_t p = 0;
        uint32_t n = 0;

        if (g < n_groups) {
            uint32_t row = (uint32_t)g / index.per_row;
            uint32_t k = (uint32_t)g % index.per_row;
            size_t first = k == 0 ? 0 : index.head + (size_t)(k - 1) * index.step;
            size_t end = index.head + (size_t)k * index.step;

            end = end < row_len ? end : row_len;
            for (size_t i = first + threadIdx.x % team; i < end; i += team) {
                widen(x[(size_t)row * row_len + i], split, &p, &n);
            }
        }
        p = vc_cuda_warp_max(p, team);
        n = split ? vc_cuda_warp_max(n, team) : 0;
        if (g < n_groups && threadIdx.x % team == 0) {
            pos[g] = p;
            if (split) {
                neg[g] = n;
            }
        }
    }
}

/* Number of the scale of an element, by its index in the unit. */
static __device__ __forceinline__ uint32_t scale_of_flat(const struct vc_cuda_index *index, uint32_t row_len,
                                                         uint32_t flat)
{
    return vc_cuda_scale_of(index, flat / row_len, flat % row_len, flat);
}

/* Long groups and channels: a warp takes SEGMENT neighbours. Where all have the same scale it takes their maximum and
 * joins that once, otherwise every element is joined for itself. pos and neg must be 0 before; neg NULL as above. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    range_flat_kernel(const float *__restrict__ x, uint32_t n_elems, uint32_t row_len, struct vc_cuda_index index,
                      uint32_t *__restrict__ pos, uint32_t *__restrict__ neg)
{
    size_t warps = blockDim.x / 32;
    bool split = neg != NULL;

    for (size_t base = (blockIdx.x * warps + threadIdx.x / 32) * SEGMENT; base < n_elems;
         base += gridDim.x * warps * SEGMENT) {
        size_t end = n_elems - base < SEGMENT ? n_elems : base + SEGMENT;
        uint32_t first_scale = scale_of_flat(&index, row_len, (uint32_t)base);
        /* Scales come in ascending order except where channels start again, and a segment inside of one run cannot
         * contain that unless every element belongs to the same channel. */
        bool together = index.n_channels == 1 ||
                        (end - base <= index.step && scale_of_flat(&index, row_len, (uint32_t)end - 1) == first_scale);
        uint32_t p = 0;
        uint32_t n = 0;

        for (size_t i = base + threadIdx.x % 32; i < end; i += 32) {
            uint32_t one_p = 0;
            uint32_t one_n = 0;

            widen(x[i], split, &one_p, &one_n);
            if (together) {
                p = one_p > p ? one_p : p;
                n = one_n > n ? one_n : n;
            } else {
                uint32_t scale = scale_of_flat(&index, row_len, (uint32_t)i);

                if (one_p != 0) {
                    atomicMax(&pos[scale], one_p);
                }
                if (one_n != 0) {
                    atomicMax(&neg[scale], one_n);
                }
            }
        }
        if (together) { /* the same for the whole warp */
            p = vc_cuda_warp_max(p, 32);
            n = split ? vc_cuda_warp_max(n, 32) : 0;
            if (threadIdx.x % 32 == 0) {
                if (p != 0) {
                    atomicMax(&pos[first_scale], p);
                }
                if (n != 0) {
                    atomicMax(&neg[first_scale], n);
                }
            }
        }
    }
}

/* A team has about one lane per eight elements, so that a lane has some work and neighbouring lanes read neighbouring
 * elements. */
void vc_cuda_launch_range(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit, const float *x,
                          uint32_t *pos, uint32_t *neg)
{
    if (call->map == NULL && call->group <= SHORT_GROUP) {
        unsigned team = 1;

        while (team < 32 && team * 8 < call->group) {
            team *= 2;
        }
        VC_CUDA_LAUNCH(range_groups_kernel, vc_cuda_grid(unit->n_groups * team / VC_CUDA_THREADS + 1),
                       vc_cuda_block(unit->n_groups * team), unit->stream, x, (uint32_t)unit->n_groups, unit->row_len,
                       unit->index, team, pos, neg);
    } else {
        VC_CUDA_LAUNCH(range_flat_kernel, vc_cuda_grid(unit->n_elems / (VC_CUDA_THREADS / 32 * SEGMENT) + 1),
                       vc_cuda_block(unit->n_elems / (SEGMENT / 32) + 1), unit->stream, x, unit->n_elems, unit->row_len,
                       unit->index, pos, neg);
    }
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
    struct vc_cuda_call call = {};

    call.n_rows = n_rows;
    call.row_len = row_len;
    call.group = group < row_len ? group : row_len;
    call.map = map;
    call.launch = launch;
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
