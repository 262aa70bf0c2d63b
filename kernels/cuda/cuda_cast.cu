/* cuda_cast.cu - conversions between float types, with statistics (cast_*: the walk over chunks) and without (one
 * thread per element); the arithmetic is that of kernels/arith.h. */
#include <string.h>

#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

/* A conversion as a class: apply makes a `to` of a `from`; back says what a `to` stands for. */
#define CONVERSION(name, from_type, to_type, convert, decode)        \
    struct name {                                                    \
        typedef from_type from;                                      \
        typedef to_type to;                                          \
        static __device__ __forceinline__ to_type apply(from_type x) \
        {                                                            \
            return convert(x);                                       \
        }                                                            \
        static __device__ __forceinline__ float back(to_type h)      \
        {                                                            \
            return decode(h);                                        \
        }                                                            \
    };

#define SAME(x) (x)
CONVERSION(f32_f16, float, uint16_t, vc_f32_to_f16, vc_f16_to_f32)
CONVERSION(f32_bf16, float, uint16_t, vc_f32_to_bf16, vc_bf16_to_f32)
CONVERSION(f64_f16, double, uint16_t, vc_f64_to_f16, vc_f16_to_f32)
CONVERSION(f64_bf16, double, uint16_t, vc_f64_to_bf16, vc_bf16_to_f32)
CONVERSION(f64_f32, double, float, vc_f64_to_f32, SAME)
CONVERSION(f16_f32, uint16_t, float, vc_f16_to_f32, SAME)
CONVERSION(bf16_f32, uint16_t, float, vc_bf16_to_f32, SAME)

/* ---- with statistics ---- */

/* One element: converted, stored, compared (cuda_chunks.h). A finite value that became infinite is `clipped`. */
template <class C> struct cast_op {
    enum { N_SUMS = 2 };
    typedef typename C::from value;

    const typename C::from *x;
    typename C::to *h;

    __device__ __forceinline__ value load(uint32_t flat) const
    {
        return x[flat];
    }

    __device__ __forceinline__ void visit(value v, uint32_t, uint32_t, uint32_t flat, double *sums,
                                          struct vc_cuda_tally *tally) const
    {
        typename C::to r = C::apply(v);
        double y = C::back(r);

        h[flat] = r;
        vc_cuda_compare(v, y, vc_cuda_finite(v) && !vc_cuda_finite(y), sums, tally);
    }
};

/* Arrays: x, h and, with statistics, chunk sums and totals. */
template <class C> static void launch_cast(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    bool stats = call->n_arrays > 2;
    cast_op<C> op = {(const typename C::from *)unit->device[0], (typename C::to *)unit->device[1]};

    vc_cuda_launch_chunks(op, unit, stats ? (double *)unit->device[2] : NULL,
                          stats ? (struct vc_cuda_totals *)unit->device[3] : NULL);
}

/* The call of a cast with figures of its tile. */
template <class C>
static int cast(const typename C::from *x, size_t n_rows, size_t row_len, typename C::to *h,
                struct vc_tile_stats *stats)
{
    struct vc_cuda_call call = {};

    vc_cuda_stats_clear(stats);
    call.n_rows = n_rows;
    call.row_len = row_len;
    call.launch = launch_cast<C>;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, h, sizeof *h, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    vc_cuda_add_stats(&call, stats);
    return vc_cuda_run(&call);
}

int vc_cuda_cast_f32_f16(const float *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    return cast<f32_f16>(x, n_rows, row_len, h, stats);
}

int vc_cuda_cast_f32_bf16(const float *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    return cast<f32_bf16>(x, n_rows, row_len, h, stats);
}

int vc_cuda_cast_f64_f16(const double *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    return cast<f64_f16>(x, n_rows, row_len, h, stats);
}

int vc_cuda_cast_f64_bf16(const double *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    return cast<f64_bf16>(x, n_rows, row_len, h, stats);
}

int vc_cuda_cast_f64_f32(const double *x, size_t n_rows, size_t row_len, float *y, struct vc_tile_stats *stats)
{
    return cast<f64_f32>(x, n_rows, row_len, y, stats);
}

/* ---- without ---- */

template <class C>
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    convert_kernel(const typename C::from *__restrict__ x, uint32_t n, typename C::to *__restrict__ y)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        y[i] = C::apply(x[i]);
    }
}

template <class C> static void launch_convert(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    VC_CUDA_LAUNCH(convert_kernel<C>, vc_cuda_grid(unit->n_elems / (VC_CUDA_THREADS * 4) + 1),
                   vc_cuda_block(unit->n_elems), unit->stream, (const typename C::from *)unit->device[0], unit->n_elems,
                   (typename C::to *)unit->device[1]);
}

/* The call of a conversion, element by element. */
template <class C> static int convert(const typename C::from *x, size_t n, typename C::to *y)
{
    struct vc_cuda_call call = {};

    call.n_rows = 1;
    call.row_len = n;
    call.launch = launch_convert<C>;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

int vc_cuda_f16_to_f32(const uint16_t *h, size_t n, float *y)
{
    return convert<f16_f32>(h, n, y);
}

int vc_cuda_bf16_to_f32(const uint16_t *h, size_t n, float *y)
{
    return convert<bf16_f32>(h, n, y);
}

int vc_cuda_f64_to_f32(const double *x, size_t n, float *y)
{
    return convert<f64_f32>(x, n, y);
}
