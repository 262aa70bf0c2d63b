/* cuda_cast.cu - conversions between float types, with statistics (cast_*: the walk over chunks) and without (one
 * thread per element); the arithmetic is that of kernels/arith.h. */
#include <cuda_fp16.h>
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
CONVERSION(f64_f16, double, uint16_t, vc_f64_to_f16, vc_f16_to_f32)
CONVERSION(f64_bf16, double, uint16_t, vc_f64_to_bf16, vc_bf16_to_f32)
CONVERSION(f64_f32, double, float, vc_f64_to_f32, SAME)
CONVERSION(f16_f32, uint16_t, float, vc_cuda_f16_value, SAME)
CONVERSION(bf16_f32, uint16_t, float, vc_bf16_to_f32, SAME)
CONVERSION(plain_f16, float, uint16_t, vc_f32_to_f16, vc_f16_to_f32)
CONVERSION(plain_bf16, float, uint16_t, vc_f32_to_bf16, vc_bf16_to_f32)

/* Those of f32 with a way for two numbers below TOO_LARGE, from which on results are infinite or NaN: `pair` has the first
 * one in its low half; `low` and `high` are what the halves stand for. */
struct f32_f16 : plain_f16 {
    enum { TOO_LARGE = 0x477ff000 }; /* 65520 */
    static __device__ __forceinline__ uint32_t pair(float a, float b)
    {
        __half2 h = __floats2half2_rn(a, b);
        uint32_t u;

        memcpy(&u, &h, sizeof u);
        return u;
    }
    static __device__ __forceinline__ float2 both(uint32_t pair)
    {
        __half2 h;

        memcpy(&h, &pair, sizeof h);
        return __half22float2(h);
    }
};

struct f32_bf16 : plain_bf16 {
    enum { TOO_LARGE = 0x7f7f8000 };
    static __device__ __forceinline__ uint32_t rounded(float x)
    {
        uint32_t u = vc_f32_bits(x);

        return u + 0x7fffu + (u >> 16 & 1u);
    }
    static __device__ __forceinline__ uint32_t pair(float a, float b)
    {
        return __byte_perm(rounded(a), rounded(b), 0x7632);
    }
    static __device__ __forceinline__ float2 both(uint32_t pair)
    {
        return make_float2(vc_bits_f32(pair << 16), vc_bits_f32(pair & 0xffff0000u));
    }
};

/* ---- with statistics ---- */

/* One element: converted, stored, compared (cuda_chunks.h). A finite value that became infinite is `clipped`. */
template <class C> struct cast_op {
    enum { N_SUMS = 2, FAST = 0, BINS = 0 };
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

/* From f32, four at once. */
template <class C> struct quick_cast_op : cast_op<C> {
    enum { FAST = 1, TOO_LARGE = C::TOO_LARGE };
    typedef vc_cuda_quad<float> quad;

    template <bool WHOLE> __device__ __forceinline__ quad load_quad(uint32_t flat, uint32_t n) const
    {
        return vc_cuda_load<WHOLE>(this->x + flat, n);
    }

    __device__ __forceinline__ uint32_t most(const quad &q) const
    {
        return vc_cuda_most(q);
    }

    template <bool WHOLE>
    __device__ __forceinline__ void take(const quad &q, uint32_t flat, double *sums, struct vc_cuda_tally *tally) const
    {
        uint32_t pairs[2] = {C::pair(q.v[0], q.v[1]), C::pair(q.v[2], q.v[3])};
        vc_cuda_quad<uint16_t> halves;

        VC_CUDA_UNROLL
        for (unsigned k = 0; k < 4; k += 2) {
            float2 y = C::both(pairs[k / 2]);

            vc_cuda_compare_exact(q.v[k], y.x, sums + 2 * k, tally);
            vc_cuda_compare_exact(q.v[k + 1], y.y, sums + 2 * k + 2, tally);
            tally->count[VC_CUDA_ZEROS_AFTER] += (y.x == 0.0f) + (y.y == 0.0f);
        }
        memcpy(&halves, pairs, sizeof halves);
        vc_cuda_store<WHOLE>(this->h + flat, halves);
    }
};

/* Arrays: x, h and, with statistics, chunk sums and totals. */
template <class Op> static void launch_cast(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    Op op;

    op.x = (decltype(op.x))unit->device[0];
    op.h = (decltype(op.h))unit->device[1];
    vc_cuda_launch_stats(op, call, unit, 2);
}

/* The call of a cast with figures of its tile. */
template <class Op, class From, class To>
static int cast(const From *x, size_t n_rows, size_t row_len, To *h, struct vc_tile_stats *stats)
{
    vc_cuda_stats_clear(stats);
    struct vc_cuda_call call = vc_cuda_call_of(launch_cast<Op>, NULL, n_rows, row_len);
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, h, sizeof *h, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    vc_cuda_add_stats(&call, stats);
    return vc_cuda_run(&call);
}

int vc_cuda_cast_f32_f16(const float *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    return cast<quick_cast_op<f32_f16>>(x, n_rows, row_len, h, stats);
}

int vc_cuda_cast_f32_bf16(const float *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    return cast<quick_cast_op<f32_bf16>>(x, n_rows, row_len, h, stats);
}

int vc_cuda_cast_f64_f16(const double *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    return cast<cast_op<f64_f16>>(x, n_rows, row_len, h, stats);
}

int vc_cuda_cast_f64_bf16(const double *x, size_t n_rows, size_t row_len, uint16_t *h, struct vc_tile_stats *stats)
{
    return cast<cast_op<f64_bf16>>(x, n_rows, row_len, h, stats);
}

int vc_cuda_cast_f64_f32(const double *x, size_t n_rows, size_t row_len, float *y, struct vc_tile_stats *stats)
{
    return cast<cast_op<f64_f32>>(x, n_rows, row_len, y, stats);
}

/* ---- without ---- */

template <class C> struct convert_op {
    typedef typename C::from from;
    typedef typename C::to to;

    const from *x;

    __device__ __forceinline__ to of(uint32_t, from v) const
    {
        return C::apply(v);
    }
};

template <class C> static void launch_convert(const struct vc_cuda_call *, const struct vc_cuda_unit *unit)
{
    convert_op<C> op = {(const typename C::from *)unit->device[0]};

    vc_cuda_launch_each(op, unit, (typename C::to *)unit->device[1]);
}

/* The call of a conversion, element by element. */
template <class C> static int convert(const typename C::from *x, size_t n, typename C::to *y)
{
    struct vc_cuda_call call = vc_cuda_call_of(launch_convert<C>, NULL, 1, n);
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
