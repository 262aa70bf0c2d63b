/* cuda_sums.cu - diff_*: the difference of two arrays; values_*: counts and sums over the values of one. Both by the
 * walk over chunks (cuda_chunks.h); the histogram has a kernel of its own. */
#include <math.h>
#include <string.h>

#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

#define BINS 256

/* ---- diff ---- */

enum { DIFFERENT, NONFINITE_PAIRS };

/* What a thread loads of both arrays. */
template <class T> struct pair {
    T x, y;
};

/* One pair of elements, as diff_add of kernel_ref.c. */
template <class T> struct diff_op {
    enum { N_SUMS = 4 };
    typedef pair<T> value;

    const T *x;
    const T *y;

    __device__ __forceinline__ value load(uint32_t flat) const
    {
        value v = {x[flat], y[flat]};

        return v;
    }

    __device__ __forceinline__ void visit(value v, uint32_t, uint32_t, uint32_t, double *sums,
                                          struct vc_cuda_tally *tally) const
    {
        double a = v.x;
        double b = v.y;
        double e = a - b;
        bool equal = a == b || (a != a && b != b);

        tally->count[DIFFERENT] += !equal;
        if (!vc_cuda_finite(a) || !vc_cuda_finite(b)) {
            tally->count[NONFINITE_PAIRS] += !equal;
            return;
        }
        sums[0] = sums[0] + a * a;
        sums[1] = sums[1] + e * e;
        sums[2] = sums[2] + b * b;
        sums[3] = sums[3] + a * b;
        vc_cuda_raise(&tally->peak[0], vc_cuda_f64_magnitude(e));
    }
};

template <class T> static void launch_diff(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    diff_op<T> op = {(const T *)unit->device[0], (const T *)unit->device[1]};

    vc_cuda_launch_chunks(op, unit, (double *)unit->device[2], (struct vc_cuda_totals *)unit->device[3]);
}

/* vc_cuda_call.totals: adds the counts of one unit. */
static void diff_totals(void *user, const void *unit_totals)
{
    struct vc_diff_sums *sums = (struct vc_diff_sums *)user;
    const struct vc_cuda_totals *totals = (const struct vc_cuda_totals *)unit_totals;

    sums->different += totals->count[DIFFERENT];
    sums->nonfinite_pairs += totals->count[NONFINITE_PAIRS];
    if (vc_bits_f64(totals->peak[0]) > sums->max_abs_error) {
        sums->max_abs_error = vc_bits_f64(totals->peak[0]);
    }
}

/* Figures that are added to are cleared first; the sums of chunks are written. */
template <class T> static int diff(const T *x, const T *y, size_t n_rows, size_t row_len, struct vc_diff_sums *sums)
{
    struct vc_cuda_call call = {};

    sums->max_abs_error = 0;
    sums->different = sums->nonfinite_pairs = 0;
    call.n_rows = n_rows;
    call.row_len = row_len;
    call.launch = launch_diff<T>;
    call.totals = diff_totals;
    call.user = sums;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_in(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, sums->chunk_sums, 4 * sizeof(double), VC_CUDA_PER_CHUNK, VC_CUDA_OUT);
    vc_cuda_add_out(&call, NULL, sizeof(struct vc_cuda_totals), VC_CUDA_PER_UNIT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

int vc_cuda_diff_f32(const float *x, const float *y, size_t n_rows, size_t row_len, struct vc_diff_sums *sums)
{
    return diff(x, y, n_rows, row_len, sums);
}

int vc_cuda_diff_f64(const double *x, const double *y, size_t n_rows, size_t row_len, struct vc_diff_sums *sums)
{
    return diff(x, y, n_rows, row_len, sums);
}

/* ---- values ---- */

enum { NANS, INFS, ZEROS, SUBNORMALS };
enum { LARGEST, SMALLEST }; /* peaks: the key of the maximum, and the complement of the key of the minimum */

/* What a unit of values_* reports. */
struct value_totals {
    struct vc_cuda_totals totals;
    unsigned long long histogram[BINS];
};

/* An integer in the order of the doubles, negative ones included, so that minimum and maximum can be taken with
 * atomicMax. No finite x has the key 0 or ~0, so a peak of 0 means that there was none. */
static __device__ __forceinline__ unsigned long long order_key(double x)
{
    unsigned long long u = vc_f64_bits(x);

    return u >> 63 ? ~u : u | 1ull << 63;
}

/* The number of a key whose order as an integer is that of the numbers. */
static double from_order_key(unsigned long long key)
{
    return vc_bits_f64(key >> 63 ? key & ~(1ull << 63) : ~key);
}

/* Neither 0 nor as large as the smallest normal number. */
static __device__ __forceinline__ bool subnormal(float x)
{
    return vc_f32_magnitude(x) - 1u < VC_F32_MIN_NORMAL_BITS - 1u;
}

static __device__ __forceinline__ bool subnormal(double x)
{
    return vc_cuda_f64_magnitude(x) - 1u < 0x0010000000000000ull - 1u;
}

/* One element, as values_add of kernel_ref.c, but for the histogram. */
template <class T> struct values_op {
    enum { N_SUMS = 2 };
    typedef T value;

    const T *x;

    __device__ __forceinline__ T load(uint32_t flat) const
    {
        return x[flat];
    }

    __device__ __forceinline__ void visit(T v, uint32_t, uint32_t, uint32_t, double *sums,
                                          struct vc_cuda_tally *tally) const
    {
        double d = v;

        if (!vc_cuda_finite(d)) {
            tally->count[NANS] += d != d;
            tally->count[INFS] += d == d;
            return;
        }
        tally->count[ZEROS] += d == 0;
        tally->count[SUBNORMALS] += subnormal(v);
        sums[0] = sums[0] + d;
        sums[1] = sums[1] + d * d;
        d = d == 0 ? 0 : d; /* a zero is +0 */
        vc_cuda_raise(&tally->peak[LARGEST], order_key(d));
        vc_cuda_raise(&tally->peak[SMALLEST], ~order_key(d));
    }
};

/* Counts exponents of (float)x, finite values only. Each block counts in shared memory, and adds its bins once. */
template <class T>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    histogram_kernel(const T *__restrict__ x, uint32_t n, unsigned long long *__restrict__ histogram)
{
    VC_CUDA_SHARED(unsigned, bins, BINS);

    for (unsigned k = threadIdx.x; k < BINS; k += blockDim.x) {
        bins[k] = 0;
    }
    __syncthreads();
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        if (vc_cuda_finite(x[i])) {
            atomicAdd(&bins[vc_f32_magnitude((float)x[i]) >> 23], 1u);
        }
    }
    __syncthreads();
    for (unsigned k = threadIdx.x; k < BINS; k += blockDim.x) {
        if (bins[k] != 0) {
            atomicAdd(&histogram[k], (unsigned long long)bins[k]);
        }
    }
}

template <class T> static void launch_values(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    values_op<T> op = {(const T *)unit->device[0]};
    struct value_totals *totals = (struct value_totals *)unit->device[2];

    vc_cuda_launch_chunks(op, unit, (double *)unit->device[1], &totals->totals);
    VC_CUDA_LAUNCH(histogram_kernel<T>, vc_cuda_grid(unit->n_elems / (VC_CUDA_THREADS * 8) + 1),
                   vc_cuda_block(unit->n_elems), unit->stream, (const T *)unit->device[0], unit->n_elems,
                   totals->histogram);
}

/* vc_cuda_call.totals: adds what one unit found. */
static void values_totals(void *user, const void *unit_totals)
{
    struct vc_value_counts *counts = (struct vc_value_counts *)user;
    const struct value_totals *unit = (const struct value_totals *)unit_totals;

    counts->nans += unit->totals.count[NANS];
    counts->infs += unit->totals.count[INFS];
    counts->zeros += unit->totals.count[ZEROS];
    counts->subnormals += unit->totals.count[SUBNORMALS];
    if (unit->totals.peak[LARGEST] != 0) {
        double most = from_order_key(unit->totals.peak[LARGEST]);
        double least = from_order_key(~unit->totals.peak[SMALLEST]);

        counts->max = most > counts->max ? most : counts->max;
        counts->min = least < counts->min ? least : counts->min;
    }
    for (unsigned k = 0; k < BINS; k++) {
        counts->histogram[k] += unit->histogram[k];
    }
}

/* As diff, with minimum and maximum that any value replaces. */
template <class T> static int values(const T *x, size_t n_rows, size_t row_len, struct vc_value_counts *counts)
{
    struct vc_cuda_call call = {};

    counts->nans = counts->infs = counts->zeros = counts->subnormals = 0;
    counts->min = HUGE_VAL;
    counts->max = -HUGE_VAL;
    memset(counts->histogram, 0, sizeof counts->histogram);
    call.n_rows = n_rows;
    call.row_len = row_len;
    call.launch = launch_values<T>;
    call.totals = values_totals;
    call.user = counts;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, counts->chunk_sums, 2 * sizeof(double), VC_CUDA_PER_CHUNK, VC_CUDA_OUT);
    vc_cuda_add_out(&call, NULL, sizeof(struct value_totals), VC_CUDA_PER_UNIT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

int vc_cuda_values_f32(const float *x, size_t n_rows, size_t row_len, struct vc_value_counts *counts)
{
    return values(x, n_rows, row_len, counts);
}

int vc_cuda_values_f64(const double *x, size_t n_rows, size_t row_len, struct vc_value_counts *counts)
{
    return values(x, n_rows, row_len, counts);
}
