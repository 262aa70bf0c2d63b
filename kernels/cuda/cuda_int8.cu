/* cuda_int8.cu - int8 codes from weights, and weights from codes; the arithmetic is that of kernels/arith.h.
 *
 * int8_rows reads every element once where a group can stay in registers between its maximum and its codes:
 *
 *     rows of up to 1,024, groups of 16 to 1,024 in rows    own_kernel     4 to 32 threads take a row, or the groups of a chunk
 *     other rows of up to 32,768                            block_kernel   a block takes a row
 *     everything else                                       the maximum, the scales and the codes in three kernels over a
 *                                                           unit, which is small enough to stay in the L2 cache
 *
 * Given scales are the third of these alone. The two kernels compute by cuda_exact.h; groups with Inf or NaN and those with
 * tiny scales go the plain way, `encode`, as all codes with given scales do. */
#include <string.h>

#include "kernels/cuda/cuda_absmax.h"
#include "kernels/cuda/cuda_chunks.h"
#include "kernels/cuda/cuda_kernels.h"

#define MOST_LANES    16 /* of the tree that one thread has then */
#define BLOCK_TEAMS   8  /* teams of 64 threads, one chunk each */
#define BLOCK_ROW     (BLOCK_TEAMS * VC_CHUNK_ELEMS)
#define PER_TEAM_LANE ((uint32_t)(VC_CHUNK_ELEMS / 64))
#define TOGETHER      8u /* elements of a thread of a block that are taken together */

/* Code of x; adds it, compared with what it will be decoded to, to sums and tally. zero NULL: symmetric. The clamp is
 * watched as in kernel_ref.c (clamp_changes). */
static __device__ __forceinline__ int8_t encode(float x, float s, const int8_t *zero, double *sums,
                                                struct vc_cuda_tally *tally)
{
    float t = rintf(x / s);
    int z = 0;
    int8_t q;
    bool clipped;

    if (zero == NULL) {
        q = vc_int8_encode(x, s);
        clipped = t > 127.0f || t < -127.0f;
    } else {
        z = *zero;
        q = vc_int8_encode_asym(x, s, *zero);
        t = t + (float)z;
        clipped = t > 127.0f || t < -128.0f;
    }
    vc_cuda_compare(x, vc_int8_decode(q, s, z), clipped, sums, tally);
    return q;
}

/* ---- groups in registers ---- */

/* Arguments of the two kernels: device pointers, sizes of the unit. */
struct row_args {
    const float *x;
    uint32_t *bits;
    float *scale;
    int8_t *q;
    double *chunk_sums; /* NULL: no statistics */
    struct vc_cuda_totals *totals;
    uint32_t n_rows, row_len;
    uint32_t group, per_row; /* groups of a row */
    unsigned width;          /* threads that share a group: 16, or 4 and 8 for groups of 16 and 32 */
};

/* What a thread's elements of one group come to on the plain way. */
struct part {
    double sums[2 * MOST_LANES];
    struct vc_cuda_tally tally;
};

/* A thread's elements one after the other: `each` neighbours, `stride` apart, up to `n` of them and to `left` from the first
 * one. `lanes` of them are lanes of the tree; then the lanes begin again. */
static __device__ VC_CUDA_RARE void encode_plainly(const float *x, uint32_t n, uint32_t left, uint32_t each,
                                                   uint32_t stride, uint32_t lanes, float s, int8_t *q,
                                                   struct part *part)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i / each * stride + i % each;

        if (at < left) {
            q[at] = encode(x[at], s, NULL, part->sums + 2 * (i % lanes), &part->tally);
        }
    }
}

/* One element, by the quotient that is as good (vc_cuda_divides): a number whose low byte is the code. */
static __device__ __forceinline__ uint32_t encode_exact(float x, float s, float r, double *sums,
                                                        struct vc_cuda_tally *tally)
{
    float m = vc_cuda_quotient(x, s, r) + VC_CUDA_ROUNDER;

    vc_cuda_compare_exact(x, (m - VC_CUDA_ROUNDER) * s, sums, tally);
    return vc_f32_bits(m);
}

/* How a team of threads shares groups of 64 STEPS elements, in registers. A thread has LANES lanes of the tree, as packs of VEC
 * neighbours: STEPS = 2, LANES = 8, VEC = 4 is a team of 8 threads, of which thread 1 has the packs
 *
 *     4 .. 7 | 36 .. 39 | 68 .. 71 | 100 .. 103        32 apart: lanes 4 .. 7 and 36 .. 39, twice
 *
 * AHEAD: when a thread asks for its elements of the next group: 0 behind this one, 1 a pack for each that it has encoded,
 * 2 all before this one (in registers of their own). WHOLE_ROWS: groups are rows of up to 64 STEPS elements; each is a chunk
 * with sums of its own. BLOCKS a multiprocessor: what the registers are to suffice for. */
template <int STEPS, int LANES_, int VEC_, int AHEAD_, bool WHOLE_ROWS_> struct own {
    enum : uint32_t {
        GROUP = 64 * STEPS,
        LANES = LANES_,
        VEC = VEC_,
        TEAM = 64 / LANES,
        VALUES = STEPS * LANES,
        STRIDE = VEC * TEAM,
        AHEAD = AHEAD_,
        WHOLE_ROWS = WHOLE_ROWS_
    };
    static_assert(VALUES % 4 == 0 && LANES <= MOST_LANES, "codes are stored from words of four");

    struct alignas(4 * VEC_) pack {
        float v[VEC_];
    };

    /* Where a thread is: the first chunk of its block, its own first element and how many there are from it to the end of the
     * chunk, its group, how far the chunk is done and how far its warp goes. */
    struct place {
        uint32_t base, first, left, group, done, end;
    };

    /* Threads that share a group: parts of 64 can be groups of 16 or 32. */
    static __device__ __forceinline__ unsigned width(const struct row_args &args)
    {
        return GROUP == 64 && LANES == 4 ? args.width : (unsigned)TEAM;
    }

    static __device__ __forceinline__ struct place begin(const struct row_args &args, uint32_t base)
    {
        uint32_t per_row = WHOLE_ROWS ? 1 : (args.row_len + (uint32_t)VC_CHUNK_ELEMS - 1) / (uint32_t)VC_CHUNK_ELEMS;
        uint32_t chunk = base + threadIdx.x / TEAM;
        uint32_t row = per_row == 1 ? chunk : chunk / per_row;
        uint32_t col = (chunk - row * per_row) * (uint32_t)VC_CHUNK_ELEMS;
        uint32_t end = args.row_len - col < VC_CHUNK_ELEMS ? args.row_len - col : (uint32_t)VC_CHUNK_ELEMS;
        uint32_t mine = threadIdx.x % TEAM * VEC;
        struct place at = {
            base, row * args.row_len + col + mine, chunk < args.n_rows * per_row && end > mine ? end - mine : 0, row, 0,
            GROUP};

        if (!WHOLE_ROWS) {
            at.group =
                row * args.per_row + (GROUP == 64 ? col / args.group + threadIdx.x % TEAM / width(args) : col / GROUP);
            at.end = per_row == 1 ? end
                                  : vc_cuda_warp_max(end, 32); /* all of a warp go on together: they meet in shuffles */
        }
        return at;
    }

    /* The next group, of this chunk or of the next one of the team. */
    static __device__ __forceinline__ struct place next(const struct row_args &args, struct place at)
    {
        if (WHOLE_ROWS || at.done + GROUP >= at.end) {
            return begin(args, at.base + gridDim.x * (blockDim.x / TEAM));
        }
        at.first += GROUP;
        at.left = at.left > GROUP ? at.left - GROUP : 0;
        at.group += TEAM / width(args);
        at.done += GROUP;
        return at;
    }

    static __device__ __forceinline__ void load(const struct row_args &args, const struct place &at, uint32_t n,
                                                struct pack *p)
    {
        struct pack none = {};

        *p = at.left > STRIDE * n ? *(const struct pack *)(args.x + at.first + STRIDE * n) : none;
    }

    /* Maximum, scale and codes of the elements of one group that a thread has; its team calls it together. Loads those of
     * `after` where AHEAD does so. */
    static __device__ __forceinline__ void encode(const struct row_args &args, struct pack *packs,
                                                  const struct place &at, const struct place &after, double *sums,
                                                  struct vc_cuda_tally *tally)
    {
        uint32_t most = 0;
        float s;

        VC_CUDA_FOR(i, VALUES)
        {
            uint32_t m = vc_f32_magnitude(packs[i / VEC].v[i % VEC]);

            most = m > most ? m : most;
        }
        most = vc_cuda_warp_max(most, width(args));
        s = vc_cuda_int8_scale(most);
        if (at.left != 0 && threadIdx.x % width(args) == 0) {
            args.bits[at.group] = most;
            args.scale[at.group] = s;
        }
        if (vc_cuda_divides(most, s)) {
            float r = 1.0f / s;
            uint32_t mine = at.left < GROUP ? (at.left + STRIDE - 1) / STRIDE * VEC : (uint32_t)VALUES;
            uint32_t steps = (args.row_len + 63) / 64; /* of a row; behind them packs by 1 need not be looked at */
            uint32_t taken = VEC == 1 && steps * LANES < VALUES ? (steps * LANES + 3) / 4 * 4 : (uint32_t)VALUES;

            VC_CUDA_UNROLL
            for (uint32_t i = 0; i < VALUES; i += 4) {
                uint32_t codes[4];
                uint32_t word;

                if (VEC == 1 && i >= taken) {
                    break;
                }
                VC_CUDA_FOR(k, 4)
                {
                    codes[k] =
                        encode_exact(packs[(i + k) / VEC].v[(i + k) % VEC], s, r, sums + 2 * ((i + k) % LANES), tally);
                }
                word = vc_cuda_low_bytes(codes);
                VC_CUDA_UNROLL
                for (uint32_t k = 0; k < 4; k += VEC) {
                    uint32_t n = (i + k) / VEC;

                    if (at.left > STRIDE * n) {
                        store_codes(args.q + at.first + STRIDE * n, word >> 8 * k);
                    }
                    if (AHEAD == 1) {
                        load(args, after, n, &packs[n]);
                    }
                }
                tally->count[VC_CUDA_ZEROS_AFTER] -= vc_cuda_nonzero_bytes(word); /* of all that are counted below */
            }
            /* What is beyond the end was counted as zeros. */
            tally->count[VC_CUDA_ZEROS_AFTER] += mine;
            tally->count[VC_CUDA_ZEROS_BEFORE] -= taken - mine;
        } else {
            struct part part = {};

            VC_CUDA_FOR(k, 2 * LANES)
            {
                part.sums[k] = sums[k];
            }
            encode_plainly(args.x + at.first, VALUES, at.left, VEC, STRIDE, LANES, s, args.q + at.first, &part);
            VC_CUDA_FOR(k, 2 * LANES)
            {
                sums[k] = part.sums[k];
            }
            vc_cuda_join(tally, &part.tally);
            VC_CUDA_UNROLL
            for (uint32_t n = 0; AHEAD == 1 && n < VALUES / VEC; n++) {
                load(args, after, n, &packs[n]);
            }
        }
    }

    /* VEC codes, the low bytes of a word. */
    static __device__ __forceinline__ void store_codes(int8_t *q, uint32_t word)
    {
        if (VEC == 4) {
            *(uint32_t *)q = word;
        } else if (VEC == 2) {
            *(uint16_t *)q = (uint16_t)word;
        } else {
            *q = (int8_t)word;
        }
    }

    /* The tree over the team: the sum of x x in its lower half, that of e e in the upper one. */
    static __device__ __forceinline__ double tree(double *sums)
    {
        VC_CUDA_UNROLL
        for (uint32_t half = LANES / 2; half >= VEC; half /= 2) {
            VC_CUDA_FOR(k, LANES) /* a constant: sums would be in local memory else */
            {
                sums[k] = k < 2 * half ? sums[k] + sums[2 * half + k] : sums[k];
            }
        }
        return vc_cuda_team_tree<TEAM, VEC>(sums, sums + 1, 2);
    }
};

/* Teams take chunks by turns, group after group. */
template <class OWN, int BLOCKS>
static __global__ void __launch_bounds__(VC_CUDA_THREADS, BLOCKS) own_kernel(struct row_args args)
{
    uint32_t n_chunks =
        args.n_rows * (OWN::WHOLE_ROWS ? 1 : (args.row_len + (uint32_t)VC_CHUNK_ELEMS - 1) / (uint32_t)VC_CHUNK_ELEMS);
    struct vc_cuda_tally tally = {};
    typename OWN::place at = OWN::begin(args, blockIdx.x * (blockDim.x / OWN::TEAM));
    typename OWN::pack packs[OWN::VALUES / OWN::VEC];
    double sums[2 * OWN::LANES] = {};

    VC_CUDA_FOR(n, OWN::VALUES / OWN::VEC)
    {
        OWN::load(args, at, n, &packs[n]);
    }
    while (at.base < n_chunks) {
        typename OWN::place after = OWN::next(args, at);
        typename OWN::pack ahead[OWN::VALUES / OWN::VEC];

        VC_CUDA_UNROLL
        for (uint32_t n = 0; OWN::AHEAD == 2 && n < OWN::VALUES / OWN::VEC; n++) {
            OWN::load(args, after, n, &ahead[n]);
        }
        OWN::encode(args, packs, at, after, sums, &tally);
        VC_CUDA_UNROLL
        for (uint32_t n = 0; OWN::AHEAD != 1 && n < OWN::VALUES / OWN::VEC; n++) {
            if (OWN::AHEAD == 2) {
                packs[n] = ahead[n];
            } else {
                OWN::load(args, after, n, &packs[n]);
            }
        }
        if (OWN::WHOLE_ROWS || after.base != at.base) {
            uint32_t chunk = at.base + threadIdx.x / OWN::TEAM;
            double sum = args.chunk_sums != NULL ? OWN::tree(sums) : 0;

            if (args.chunk_sums != NULL && threadIdx.x % (OWN::TEAM / 2) == 0 && chunk < n_chunks) {
                args.chunk_sums[2 * (size_t)chunk + threadIdx.x / (OWN::TEAM / 2) % 2] = sum;
            }
            VC_CUDA_FOR(k, 2 * OWN::LANES)
            {
                sums[k] = 0;
            }
        }
        at = after;
    }
    if (args.chunk_sums != NULL) {
        vc_cuda_publish(&tally, args.totals);
    }
}

/* Maximum over the block of up to TEAMS * 64 threads, in every thread. The whole block must call it. */
template <unsigned TEAMS> static __device__ __forceinline__ uint32_t block_max(uint32_t v)
{
    VC_CUDA_SHARED(uint32_t, of_warp, TEAMS * 2);

    v = vc_cuda_warp_max(v, 32);
    if (threadIdx.x % 32 == 0) {
        of_warp[threadIdx.x / 32] = v;
    }
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : 0;
    __syncthreads(); /* of_warp may be used again */
    return vc_cuda_warp_max(v, 32);
}

/* The tree over each team of 64 threads, of which each has one lane of two sums; valid in the first thread of each team.
 * The first level crosses warps, so it goes through shared memory. The whole block must call it. */
template <unsigned TEAMS> static __device__ __forceinline__ void block_trees(double *sums)
{
    VC_CUDA_SHARED(double, half, 2 * TEAMS * 32);
    unsigned lane = threadIdx.x % 64;
    unsigned at = threadIdx.x / 64 * 32 + lane % 32;

    for (unsigned k = 0; lane >= 32 && k < 2; k++) {
        half[k * TEAMS * 32 + at] = sums[k];
    }
    __syncthreads();
    for (unsigned k = 0; k < 2; k++) {
        sums[k] = vc_cuda_warp_tree(lane < 32 ? sums[k] + half[k * TEAMS * 32 + at] : 0);
    }
    __syncthreads(); /* `half` may be used again */
}

/* What a thread has of a row of up to so many chunks as its block has teams of 64 threads: one lane of its team's chunk. */
struct share {
    uint32_t begin; /* its first element in the row */
    uint32_t left;  /* from it to the end of the chunk: every 64th is the thread's */
    uint32_t steps; /* elements to look at, with some beyond the end: as many for all of a team */
    uint32_t mine;  /* of these the thread's */
};

static __device__ __forceinline__ struct share share_of(const struct row_args &args)
{
    uint32_t chunk = threadIdx.x / 64 * (uint32_t)VC_CHUNK_ELEMS;
    uint32_t lane = threadIdx.x % 64;
    uint32_t end = args.row_len - chunk < VC_CHUNK_ELEMS ? args.row_len - chunk : (uint32_t)VC_CHUNK_ELEMS;
    uint32_t left = lane < end ? end - lane : 0;
    struct share my = {chunk + lane, left, (end + 64 * TOGETHER - 1) / (64 * TOGETHER) * TOGETHER, (left + 63) / 64};

    return my;
}

/* The scale of a row, in all threads of its block. */
template <unsigned TEAMS>
static __device__ __forceinline__ float block_scale(const struct row_args &args, uint32_t row, uint32_t *most)
{
    float s;

    *most = block_max<TEAMS>(*most);
    s = vc_cuda_int8_scale(*most);
    if (threadIdx.x == 0) {
        args.bits[row] = *most;
        args.scale[row] = s;
    }
    return s;
}

/* An element, and its code where it is not beyond the end (it is 0 then). */
static __device__ __forceinline__ void encode_own(bool there, float x, float s, float r, int8_t *q, double *sums,
                                                  struct vc_cuda_tally *tally)
{
    uint32_t code = encode_exact(x, s, r, sums, tally);

    if (there) {
        *q = (int8_t)code;
    }
    tally->count[VC_CUDA_ZEROS_AFTER] += (code & 0xff) == 0;
}

/* The same for all of them, from memory. */
static __device__ __forceinline__ void encode_rest(const struct share &my, const float *x, float s, int8_t *q,
                                                   double *sums, struct vc_cuda_tally *tally)
{
    struct part part = {};

    encode_plainly(x, PER_TEAM_LANE, my.left, 1, 64, 1, s, q, &part);
    sums[0] = part.sums[0];
    sums[1] = part.sums[1];
    vc_cuda_join(tally, &part.tally);
}

/* Sums of the chunks of a row. The whole block must call it. */
template <unsigned TEAMS>
static __device__ __forceinline__ void block_sums(const struct row_args &args, uint32_t row, double *sums)
{
    uint32_t per_row = (args.row_len + (uint32_t)VC_CHUNK_ELEMS - 1) / (uint32_t)VC_CHUNK_ELEMS;

    if (args.chunk_sums != NULL) {
        block_trees<TEAMS>(sums);
        if (threadIdx.x % 64 == 0) {
            args.chunk_sums[2 * (row * per_row + threadIdx.x / 64)] = sums[0];
            args.chunk_sums[2 * (row * per_row + threadIdx.x / 64) + 1] = sums[1];
        }
    }
}

/* A block takes a row, each thread its elements in registers; the next row's are asked for when all of this row's have been
 * encoded. One by one, and shared memory in place of registers, were slower on an H200 (docs/gpu-results.md). */
static __global__ void __launch_bounds__(BLOCK_TEAMS * 64, 1) block_kernel(struct row_args args)
{
    struct share my = share_of(args);
    const float *next = args.x + blockIdx.x * args.row_len + my.begin;
    uint32_t left_there = blockIdx.x < args.n_rows ? my.left : 0;
    struct vc_cuda_tally tally = {};
    float values[PER_TEAM_LANE];

    VC_CUDA_FOR(j, PER_TEAM_LANE)
    {
        values[j] = 64 * j < left_there ? next[64 * j] : 0;
    }
    for (uint32_t row = blockIdx.x; row < args.n_rows; row += gridDim.x) {
        const float *x = next;
        int8_t *q = args.q + row * args.row_len + my.begin;
        double sums[2] = {};
        uint32_t most = 0;
        float s;

        VC_CUDA_FOR(j, PER_TEAM_LANE)
        {
            uint32_t m = vc_f32_magnitude(values[j]);

            most = m > most ? m : most;
        }
        s = block_scale<BLOCK_TEAMS>(args, row, &most);
        next = args.x + (row + gridDim.x) * args.row_len + my.begin;
        left_there = row + gridDim.x < args.n_rows ? my.left : 0;
        if (vc_cuda_divides(most, s)) {
            float r = 1.0f / s;

            VC_CUDA_UNROLL
            for (uint32_t j = 0; j < PER_TEAM_LANE; j += TOGETHER) {
                if (j < my.steps) {
                    VC_CUDA_UNROLL
                    for (uint32_t k = j; k < j + TOGETHER; k++) {
                        encode_own(64 * k < my.left, values[k], s, r, q + 64 * k, sums, &tally);
                    }
                }
            }
            tally.count[VC_CUDA_ZEROS_BEFORE] -= my.steps - my.mine; /* beyond the end */
            tally.count[VC_CUDA_ZEROS_AFTER] -= my.steps - my.mine;
        } else {
            encode_rest(my, x, s, q, sums, &tally);
        }
        VC_CUDA_FOR(j, PER_TEAM_LANE)
        {
            values[j] = 64 * j < left_there ? next[64 * j] : 0;
        }
        block_sums<BLOCK_TEAMS>(args, row, sums);
    }
    if (args.chunk_sums != NULL) {
        vc_cuda_publish(&tally, args.totals);
    }
}

/* ---- codes for scales that are there ---- */

/* One element with a given scale (cuda_chunks.h). */
struct encode_op {
    enum { N_SUMS = 2, FAST = 0, BINS = 0 };
    typedef float value;

    const float *x;
    const float *scale;
    const int8_t *zero; /* NULL: symmetric */
    int8_t *q;
    struct vc_cuda_index index;

    __device__ __forceinline__ float load(uint32_t flat) const
    {
        return x[flat];
    }

    __device__ __forceinline__ void visit(float v, uint32_t row, uint32_t col, uint32_t flat, double *sums,
                                          struct vc_cuda_tally *tally) const
    {
        uint32_t k = vc_cuda_scale_of(&index, row, col, flat);

        q[flat] = encode(v, scale[k], zero == NULL ? NULL : &zero[k], sums, tally);
    }
};

/* Scales from magnitudes, between the maximum and the codes. */
static __global__ void __launch_bounds__(VC_CUDA_THREADS)
    scales_kernel(const uint32_t *__restrict__ bits, uint32_t n, float *__restrict__ scale)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        scale[i] = vc_cuda_int8_scale(bits[i]);
    }
}

/* ---- int8_rows ---- */

/* What a kernel is for: rows, by whether 4 divides their length, or groups of rows that 4 divides. */
enum { EVEN_ROWS = 1, ODD_ROWS = 2, EVEN_GROUPS = 4 };

/* A kernel that keeps groups of up to `most` elements in registers. */
struct row_kernel {
    size_t most;
    void (*kernel)(struct row_args args);
    unsigned team; /* threads of a row, or group; 0: a block, of 64 for each chunk */
    unsigned of;   /* sum of the above */
};

#define OWN(of, steps, lanes, vec, ahead, blocks)                                                            \
    {                                                                                                        \
        64 * (steps), own_kernel<own<steps, lanes, vec, ahead, of != EVEN_GROUPS>, blocks>, 64 / (lanes), of \
    }

static const struct row_kernel row_kernels[] =
    {/* the fastest of bench_device's variants on an H200; groups of 128 as predicted */
     OWN(EVEN_ROWS, 1, 4, 4, 0, 4),   OWN(EVEN_ROWS, 2, 4, 4, 1, 4),
     OWN(EVEN_ROWS, 4, 4, 4, 2, 3),   OWN(EVEN_ROWS, 6, 4, 4, 2, 2),
     OWN(EVEN_ROWS, 8, 4, 4, 2, 2),   OWN(EVEN_ROWS, 12, 2, 2, 2, 2),
     OWN(EVEN_ROWS, 16, 2, 2, 1, 2),  OWN(ODD_ROWS, 1, 4, 1, 1, 4),
     OWN(ODD_ROWS, 4, 4, 1, 1, 3),    OWN(ODD_ROWS, 8, 4, 1, 0, 3),
     OWN(ODD_ROWS, 16, 2, 1, 0, 3),   {BLOCK_ROW, block_kernel, 0, EVEN_ROWS + ODD_ROWS},
     OWN(EVEN_GROUPS, 1, 4, 4, 2, 3), OWN(EVEN_GROUPS, 2, 8, 4, 2, 2),
     OWN(EVEN_GROUPS, 4, 4, 4, 2, 3), OWN(EVEN_GROUPS, 8, 4, 4, 0, 2),
     OWN(EVEN_GROUPS, 16, 4, 4, 0, 2)};
#undef OWN

/* The kernel for rows of up to its length, or groups of exactly that (16 and 32 are parts of 64); NULL if there is none. */
static const struct row_kernel *kernel_for(size_t row_len, size_t group)
{
    unsigned rows = row_len % 4 == 0 ? EVEN_ROWS : ODD_ROWS;

    for (size_t k = 0; k < sizeof row_kernels / sizeof *row_kernels; k++) {
        const struct row_kernel *kernel = &row_kernels[k];
        bool exact = group == kernel->most || (kernel->most == 64 && (group == 16 || group == 32));

        if (group == row_len ? (kernel->of & rows) != 0 && group <= kernel->most
                             : kernel->of == EVEN_GROUPS && rows == EVEN_ROWS && exact) {
            return kernel;
        }
    }
    return NULL;
}

static void launch_row_kernel(const struct row_kernel *kernel, const struct row_args *args,
                              const struct vc_cuda_unit *unit)
{
    unsigned block = kernel->team == 0 ? (unsigned)((args->row_len + VC_CHUNK_ELEMS - 1) / VC_CHUNK_ELEMS) * 64
                                       : vc_cuda_team_block(unit->n_chunks, kernel->team);
    size_t teams = kernel->team == 0 ? 1 : block / kernel->team;
    size_t needed = ((kernel->team == 0 ? unit->n_rows : unit->n_chunks) + teams - 1) / teams;

    VC_CUDA_LAUNCH(kernel->kernel, vc_cuda_grid_of((const void *)kernel->kernel, block, needed), block, unit->stream,
                   *args);
}

/* Arrays: x, bits, scale, q and, with statistics, chunk sums and totals. */
static struct row_args row_args_of(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    bool stats = call->n_arrays > 4;
    struct row_args args = {(const float *)unit->device[0],
                            (uint32_t *)unit->device[1],
                            (float *)unit->device[2],
                            (int8_t *)unit->device[3],
                            stats ? (double *)unit->device[4] : NULL,
                            stats ? (struct vc_cuda_totals *)unit->device[5] : NULL,
                            unit->n_rows,
                            unit->row_len,
                            (uint32_t)call->group,
                            unit->index.per_row,
                            call->group == 16 || call->group == 32 ? (unsigned)call->group / 4 : 16u};

    return args;
}

static void launch_rows(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    struct row_args args = row_args_of(call, unit);
    const struct row_kernel *kernel = kernel_for(call->row_len, call->group);

    if (kernel != NULL) {
        launch_row_kernel(kernel, &args, unit);
    } else {
        struct encode_op op = {args.x, args.scale, NULL, args.q, unit->index};

        vc_cuda_launch_range(call, unit, args.x, args.bits, NULL);
        VC_CUDA_LAUNCH(scales_kernel, vc_cuda_grid(unit->n_groups / VC_CUDA_THREADS + 1), vc_cuda_block(unit->n_groups),
                       unit->stream, args.bits, (uint32_t)unit->n_groups, args.scale);
        vc_cuda_launch_chunks(op, unit, args.chunk_sums, args.totals);
    }
}

/* int8_rows for rows that do not fit into an arena: the maximum first, then the codes, each in pieces of rows. The
 * scales are made on the host in between. */
static int long_rows(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits, float *scale,
                     int8_t *q, struct vc_tile_stats *stats)
{
    size_t n_groups = n_rows * (row_len / group + (row_len % group != 0));
    int result = vc_cuda_absmax_rows(x, n_rows, row_len, group, bits);

    if (result != 0) {
        return result;
    }
    for (size_t g = 0; g < n_groups; g++) {
        uint32_t b;
        float s;

        memcpy(&b, (const char *)bits + g * sizeof b, sizeof b); /* the caller's arrays may be unaligned */
        s = b < VC_F32_INF_BITS ? vc_int8_scale(b) : 1.0f;
        memcpy((char *)scale + g * sizeof s, &s, sizeof s);
    }
    return vc_cuda_int8_rows_given(x, n_rows, row_len, group, scale, NULL, q, stats);
}

/* Rows have to lie in one unit, since their largest magnitude is that of all elements; longer ones go through
 * long_rows. */
int vc_cuda_int8_rows(const float *x, size_t n_rows, size_t row_len, size_t group, uint32_t *bits, float *scale,
                      int8_t *q, struct vc_tile_stats *stats)
{
    vc_cuda_stats_clear(stats);
    if (n_rows == 0 || row_len == 0) {
        return 0;
    }
    struct vc_cuda_call call = vc_cuda_call_of(launch_rows, NULL, n_rows, row_len, group);
    call.keep_rows = true;
    vc_cuda_add_in(&call, x, sizeof *x, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_out(&call, bits, sizeof *bits, VC_CUDA_PER_GROUP, VC_CUDA_OUT_MAX);
    vc_cuda_add_out(&call, scale, sizeof *scale, VC_CUDA_PER_GROUP, VC_CUDA_OUT);
    vc_cuda_add_out(&call, q, sizeof *q, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    vc_cuda_add_stats(&call, stats);
    if (!vc_cuda_rows_fit(&call)) {
        return long_rows(x, n_rows, row_len, call.group, bits, scale, q, stats);
    }
    return vc_cuda_run(&call);
}

/* ---- given scales ---- */

/* The arrays of calls with given scales: input, scale, zero points if any, output, statistics if any. */
struct given_arrays {
    const void *in;
    const float *scale;
    const int8_t *zero;
    unsigned n_in;
};

/* Finds them in a unit: zero points are there if the third array is an input. */
static struct given_arrays arrays_of(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    bool zero = call->arrays[2].flow == VC_CUDA_IN;
    struct given_arrays arrays = {unit->device[0], (const float *)unit->device[1],
                                  zero ? (const int8_t *)unit->device[2] : NULL, zero ? 3u : 2u};

    return arrays;
}

/* With the figures of the tile, by the walk over chunks. */
static void launch_encode(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    struct given_arrays arrays = arrays_of(call, unit);
    struct encode_op op = {(const float *)arrays.in, arrays.scale, arrays.zero, (int8_t *)unit->device[arrays.n_in],
                           unit->index};

    vc_cuda_launch_stats(op, call, unit, arrays.n_in + 1);
}

/* Values from codes; zero NULL: symmetric. */
struct int8_decode_op {
    typedef int8_t from;
    typedef float to;

    const int8_t *x;
    struct vc_cuda_index index;
    const float *scale;
    const int8_t *zero;

    __device__ __forceinline__ float of(uint32_t i, int8_t q) const
    {
        uint32_t k = vc_cuda_scale_of_flat(&index, i);

        return vc_int8_decode(q, scale[k], zero == NULL ? 0 : zero[k]);
    }
};

static void launch_decode(const struct vc_cuda_call *call, const struct vc_cuda_unit *unit)
{
    struct given_arrays arrays = arrays_of(call, unit);
    struct int8_decode_op op = {(const int8_t *)arrays.in, unit->index, arrays.scale, arrays.zero};

    vc_cuda_launch_each(op, unit, (float *)unit->device[arrays.n_in]);
}

/* What encoding and decoding share. group 0: along the axis of `map`. */
static struct vc_cuda_call given_call(void (*launch)(const struct vc_cuda_call *, const struct vc_cuda_unit *),
                                      const void *in, size_t in_bytes, size_t n_rows, size_t row_len, size_t group,
                                      const struct vc_axis_map *map, const float *scale, const int8_t *zero)
{
    enum vc_cuda_per per = map != NULL ? VC_CUDA_PER_CHANNEL : VC_CUDA_PER_GROUP;
    struct vc_cuda_call call = vc_cuda_call_of(launch, NULL, n_rows, row_len, group);

    call.map = map;
    vc_cuda_add_in(&call, in, in_bytes, VC_CUDA_PER_ELEMENT);
    vc_cuda_add_in(&call, scale, sizeof *scale, per);
    if (zero != NULL) {
        vc_cuda_add_in(&call, zero, sizeof *zero, per);
    }
    return call;
}

/* Codes by scales that are known: of groups, or map, of an axis. */
static int encode_given(const float *x, size_t n_rows, size_t row_len, size_t group, const struct vc_axis_map *map,
                        const float *scale, const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    struct vc_cuda_call call = given_call(launch_encode, x, sizeof *x, n_rows, row_len, group, map, scale, zero);

    vc_cuda_stats_clear(stats);
    vc_cuda_add_out(&call, q, sizeof *q, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    vc_cuda_add_stats(&call, stats);
    return vc_cuda_run(&call);
}

/* The way back; no figures. */
static int decode_given(const int8_t *q, size_t n_rows, size_t row_len, size_t group, const struct vc_axis_map *map,
                        const float *scale, const int8_t *zero, float *y)
{
    struct vc_cuda_call call = given_call(launch_decode, q, sizeof *q, n_rows, row_len, group, map, scale, zero);

    vc_cuda_add_out(&call, y, sizeof *y, VC_CUDA_PER_ELEMENT, VC_CUDA_OUT);
    return vc_cuda_run(&call);
}

int vc_cuda_int8_rows_given(const float *x, size_t n_rows, size_t row_len, size_t group, const float *scale,
                            const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    return encode_given(x, n_rows, row_len, group, NULL, scale, zero, q, stats);
}

int vc_cuda_int8_axis_given(const float *x, size_t n_rows, size_t row_len, const struct vc_axis_map *map,
                            const float *scale, const int8_t *zero, int8_t *q, struct vc_tile_stats *stats)
{
    return encode_given(x, n_rows, row_len, 0, map, scale, zero, q, stats);
}

int vc_cuda_int8_decode_rows(const int8_t *q, size_t n_rows, size_t row_len, size_t group, const float *scale,
                             const int8_t *zero, float *y)
{
    return decode_given(q, n_rows, row_len, group, NULL, scale, zero, y);
}

int vc_cuda_int8_decode_axis(const int8_t *q, size_t n, const struct vc_axis_map *map, const float *scale,
                             const int8_t *zero, float *y)
{
    return decode_given(q, 1, n, 0, map, scale, zero, y);
}
