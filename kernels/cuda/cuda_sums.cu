/* cuda_sums.cu - diff_*: the difference of two arrays; values_*: counts and sums over the values of one, with a histogram.
 * Both by the walk over chunks (cuda_chunks.h). */
#include <math.h>
#include <string.h>

#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

#define EXPONENTS 256

/* ---- diff ---- */

enum { DIFFERENT, NONFINITE_PAIRS };

/* What a thread loads of both arrays. */
template <class T> struct pair {
    T x, y;
};

/* One pair of elements, as diff_add of kernel_ref.c. */
template <class T> struct diff_op {
    enum { N_SUMS = 4, FAST = sizeof(T) == sizeof(float), TOO_LARGE = VC_F32_INF_BITS, BINS = 0 };
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

    /* ---- f32, finite ---- */

    struct quad {
        vc_cuda_quad<float> x, y;
    };

    template <bool WHOLE> __device__ __forceinline__ quad load_quad(uint32_t flat, uint32_t n) const
    {
        quad q = {vc_cuda_load<WHOLE>(x + flat, n), vc_cuda_load<WHOLE>(y + flat, n)};

        return q;
    }

    __device__ __forceinline__ uint32_t most(const quad &q) const
    {
        uint32_t of_x = vc_cuda_most(q.x);
        uint32_t of_y = vc_cuda_most(q.y);

        return of_x > of_y ? of_x : of_y;
    }

    template <bool WHOLE>
    __device__ __forceinline__ void take(const quad &q, uint32_t, double *sums, struct vc_cuda_tally *tally) const
    {
        VC_CUDA_FOR(k, 4)
        {
            double a = q.x.v[k];
            double b = q.y.v[k];
            double e = a - b;

            tally->count[DIFFERENT] += q.x.v[k] != q.y.v[k];
            vc_cuda_add_product(&sums[4 * k], a, a);
            sums[4 * k + 1] = sums[4 * k + 1] + e * e;
            vc_cuda_add_product(&sums[4 * k + 2], b, b);
            vc_cuda_add_product(&sums[4 * k + 3], a, b);
            vc_cuda_raise(&tally->peak[0], vc_cuda_f64_magnitude(e));
        }
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
    sums->max_abs_error = 0;
    sums->different = sums->nonfinite_pairs = 0;
    struct vc_cuda_call call = vc_cuda_call_of(launch_diff<T>, sums, n_rows, row_len);
    call.totals = diff_totals;
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
    unsigned long long histogram[EXPONENTS];
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
static __device__ __forceinline__ bool subnormal(double x)
{
    return vc_cuda_f64_magnitude(x) - 1u < 0x0010000000000000ull - 1u;
}

/* Counts the exponent of an f32 in the lane's column. */
static __device__ __forceinline__ void count_exponent(unsigned *bins, uint32_t magnitude)
{
    atomicAdd(&bins[(magnitude >> 23) * VC_CUDA_BIN_COLUMNS | threadIdx.x % 32], 1u);
}

/* One element, as values_add of kernel_ref.c. Subnormal f32 are those of exponent 0 that are not zero, which the host
 * makes of the histogram. */
template <class T> struct values_op {
    enum { N_SUMS = 2, FAST = sizeof(T) == sizeof(float), TOO_LARGE = VC_F32_INF_BITS, BINS = EXPONENTS };
    typedef T value;
    typedef vc_cuda_quad<float> quad;

    const T *x;

    __device__ __forceinline__ T load(uint32_t flat) const
    {
        return x[flat];
    }

    /* The range of finite values; a zero is +0. */
    __device__ __forceinline__ void widen(double least, double most, struct vc_cuda_tally *tally) const
    {
        vc_cuda_raise(&tally->peak[LARGEST], order_key(most == 0 ? 0 : most));
        vc_cuda_raise(&tally->peak[SMALLEST], ~order_key(least == 0 ? 0 : least));
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
        tally->count[SUBNORMALS] += !FAST && subnormal(d);
        sums[0] = sums[0] + d;
        sums[1] = sums[1] + d * d;
        widen(d, d, tally);
        count_exponent(tally->bins, vc_f32_magnitude((float)v));
    }

    template <bool WHOLE> __device__ __forceinline__ quad load_quad(uint32_t flat, uint32_t n) const
    {
        return vc_cuda_load<WHOLE>(x + flat, n);
    }

    __device__ __forceinline__ uint32_t most(const quad &q) const
    {
        return vc_cuda_most(q);
    }

    template <bool WHOLE>
    __device__ __forceinline__ void take(const quad &q, uint32_t, double *sums, struct vc_cuda_tally *tally) const
    {
        VC_CUDA_FOR(k, 4)
        {
            double d = q.v[k];

            tally->count[ZEROS] += q.v[k] == 0.0f;
            sums[2 * k] = sums[2 * k] + d;
            vc_cuda_add_product(&sums[2 * k + 1], d, d);
            tally->least = fminf(tally->least, q.v[k]);
            tally->greatest = fmaxf(tally->greatest, q.v[k]);
            count_exponent(tally->bins, vc_f32_magnitude(q.v[k]));
        }
    }
};

template <class T> static void launch_values(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    values_op<T> op = {(const T *)unit->device[0]};
    struct value_totals *totals = (struct value_totals *)unit->device[2];

    vc_cuda_launch_chunks(op, unit, (double *)unit->device[1], &totals->totals, totals->histogram);
}

/* vc_cuda_call.totals: adds what one unit found. */
template <class T> static void values_totals(void *user, const void *unit_totals)
{
    struct vc_value_counts *counts = (struct vc_value_counts *)user;
    const struct value_totals *unit = (const struct value_totals *)unit_totals;

    counts->nans += unit->totals.count[NANS];
    counts->infs += unit->totals.count[INFS];
    counts->zeros += unit->totals.count[ZEROS];
    counts->subnormals +=
        values_op<T>::FAST ? unit->histogram[0] - unit->totals.count[ZEROS] : unit->totals.count[SUBNORMALS];
    if (unit->totals.peak[LARGEST] != 0) {
        double most = from_order_key(unit->totals.peak[LARGEST]);
        double least = from_order_key(~unit->totals.peak[SMALLEST]);

        counts->max = most > counts->max ? most : counts->max;
        counts->min = least < counts->min ? least : counts->min;
    }
    for (unsigned k = 0; k < EXPONENTS; k++) {
        counts->histogram[k] += unit->histogram[k];
    }
}

/* As diff, with minimum and maximum that any value replaces. */
template <class T> static int values(const T *x, size_t n_rows, size_t row_len, struct vc_value_counts *counts)
{
    counts->nans = counts->infs = counts->zeros = counts->subnormals = 0;
    counts->min = HUGE_VAL;
    counts->max = -HUGE_VAL;
    memset(counts->histogram, 0, sizeof counts->histogram);
    struct vc_cuda_call call = vc_cuda_call_of(launch_values<T>, counts, n_rows, row_len);
    call.totals = values_totals<T>;
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
