/* codec_deflate.c - raw DEFLATE encoders, zlib in four strategies and ISA-L; which one suits a tensor. Called by
 * npz_deflate.c.
 *
 *     piece 0 | 00 00 ff ff | piece 1 | 00 00 ff ff | last piece (its last block is marked)      one stream
 *
 * A tensor is compressed in pieces that know nothing of each other, on any thread; a sync flush ends every piece but
 * the last on a byte border (an empty stored block, 00 00 ff ff), so the pieces in a row are one stream. */
#include <zlib.h>

#include "formats/zip/codec.h"

#if VC_HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif

/* Level of VC_STRATEGY_LEVEL. On values with repeats (bf16 held in f32) level 4 comes within 3 % of level 6 at five
 * times its speed; on all others match search gains nothing. */
#define VC_DEFLATE_LEVEL 4

/* Level of VC_STRATEGY_ZEROS: pruned weights. The few values between runs of zeros have short repeats, which level 9
 * finds and level 4 does not: 2 to 6 % smaller at 90 % zeros. Tried where most bytes are zero only: elsewhere it gains
 * less than it costs. */
#define VC_DEFLATE_ZEROS_LEVEL 9

/* The largest memory level: Huffman tables over 32 Ki symbols; measured smaller and not slower than the default. */
#define VC_DEFLATE_MEMORY 9

/* What deflateInit2 takes: state, window, two hash tables, pending output. Rounding included. */
#define VC_ZLIB_WORK_BYTES ((size_t)400 << 10)

/* More than either library can need for n bytes, its headers and the sync flush included. */
size_t vc_deflate_bound(size_t n)
{
    return n + (n >> 3) + (n >> 6) + 256;
}

/* ---- zlib, with its memory cut from the caller's block ---- */

/* What is left of the caller's block, which zlib's allocations are cut from. Nothing is freed singly. */
struct arena {
    unsigned char *at;
    size_t left;
};

/* zlib's allocator: the next aligned bytes of the block, NULL when it is used up. */
static void *arena_alloc(void *opaque, unsigned n, unsigned size)
{
    struct arena *arena = opaque;
    size_t bytes = ((size_t)n * size + VC_POOL_ALIGN - 1) & ~(size_t)(VC_POOL_ALIGN - 1);
    void *p = arena->at;

    if (bytes > arena->left) {
        return NULL;
    }
    arena->at += bytes;
    arena->left -= bytes;
    return p;
}

static void arena_free(void *opaque, void *p)
{
}

/* One piece, with a compressor of its own; -15 means raw DEFLATE. */
static enum vc_status zlib_piece(struct vc_ctx *ctx, enum vc_strategy strategy, bool last, const void *src, size_t n,
                                 void *work, void *dst, size_t capacity, size_t *n_out)
{
    static const struct {
        int level, strategy;
    } settings[] = {[VC_STRATEGY_HUFFMAN] = {1, Z_HUFFMAN_ONLY},
                    [VC_STRATEGY_RLE] = {1, Z_RLE},
                    [VC_STRATEGY_LEVEL] = {VC_DEFLATE_LEVEL, Z_DEFAULT_STRATEGY},
                    [VC_STRATEGY_ZEROS] = {VC_DEFLATE_ZEROS_LEVEL, Z_DEFAULT_STRATEGY}};
    struct arena arena = {work, VC_ZLIB_WORK_BYTES};
    z_stream z = {.zalloc = arena_alloc, .zfree = arena_free, .opaque = &arena};
    int rc =
        deflateInit2(&z, settings[strategy].level, Z_DEFLATED, -15, VC_DEFLATE_MEMORY, settings[strategy].strategy);

    VC_REFUSE_IF(rc != Z_OK, ctx, VC_E_INTERNAL, "zlib cannot start to deflate (%d)", rc);
    memcpy(&z.next_in, &src, sizeof src); /* only read, but not const in every zlib */
    z.avail_in = (uInt)n;
    z.next_out = dst;
    z.avail_out = (uInt)capacity;
    rc = deflate(&z, last ? Z_FINISH : Z_SYNC_FLUSH);
    bool complete = last ? rc == Z_STREAM_END : rc == Z_OK && z.avail_in == 0 && z.avail_out != 0;
    *n_out = capacity - z.avail_out;
    (void)deflateEnd(&z);
    return complete ? VC_OK
                    : vc_fail(ctx, VC_E_INTERNAL, "zlib did not deflate %zu bytes into %zu (%d)", n, capacity, rc);
}

/* ---- ISA-L ---- */

#if VC_HAVE_ISAL

#define VC_ISAL_WORK_BYTES (sizeof(struct isal_zstream) + ISAL_DEF_LVL1_DEFAULT + VC_POOL_ALIGN)

/* ISA-L's loops for x86 (2.30 to 2.32) begin a stream with a mistake: once the first byte is out, they hash the address
 * of the stream in place of the next bytes (.write_first_byte of igzip_icf_body_h1_gr_bt.asm), so that a match is found
 * or missed by chance. Its other loop, for the ends of streams, begins rightly. It alone runs where no more than 16
 * bytes are there, and it counts a stream as begun from 4 bytes on; so the first 8 go through it, with a flush behind
 * them, which costs about 9 bytes in each piece. */
#define VC_ISAL_FIRST_BYTES 8
#define VC_ISAL_SHORT_BYTES 16

/* The next n bytes, all of them: false where not everything was compressed and written. */
static bool isal_next(struct isal_zstream *z, bool last, const unsigned char *src, size_t n)
{
    z->flush = last ? NO_FLUSH : SYNC_FLUSH;
    z->end_of_stream = last;
    memcpy(&z->next_in, &src, sizeof src); /* only read */
    z->avail_in = (uint32_t)n;
    return isal_deflate(z) == COMP_OK && z->avail_in == 0 && z->avail_out != 0 &&
           z->internal_state.state == (last ? ZSTATE_END : ZSTATE_NEW_HDR);
}

/* The same with ISA-L at level 1. */
static enum vc_status isal_piece(struct vc_ctx *ctx, bool last, const void *src, size_t n, void *work, void *dst,
                                 size_t capacity, size_t *n_out)
{
    struct isal_zstream *z = work;
    const unsigned char *bytes = src;
    size_t n_first = n > VC_ISAL_SHORT_BYTES ? VC_ISAL_FIRST_BYTES : 0;

    isal_deflate_init(z);
    z->level = 1;
    z->level_buf = (unsigned char *)work + ((sizeof *z + VC_POOL_ALIGN - 1) & ~(size_t)(VC_POOL_ALIGN - 1));
    z->level_buf_size = ISAL_DEF_LVL1_DEFAULT;
    z->next_out = dst;
    z->avail_out = (uint32_t)capacity;
    bool complete = n_first == 0 || isal_next(z, false, bytes, n_first);
    complete = complete && isal_next(z, last, bytes + n_first, n - n_first);
    *n_out = capacity - z->avail_out;
    return complete ? VC_OK : vc_fail(ctx, VC_E_INTERNAL, "ISA-L did not deflate %zu bytes into %zu", n, capacity);
}

#else

#define VC_ISAL_WORK_BYTES ((size_t)0)

static enum vc_status isal_piece(struct vc_ctx *ctx, bool last, const void *src, size_t n, void *work, void *dst,
                                 size_t capacity, size_t *n_out)
{
    *n_out = 0;
    return vc_fail(ctx, VC_E_UNSUPPORTED, "this build has no ISA-L");
}

#endif

/* ---- both ---- */

size_t vc_deflate_work_bytes(void)
{
    return VC_ZLIB_WORK_BYTES > VC_ISAL_WORK_BYTES ? VC_ZLIB_WORK_BYTES : VC_ISAL_WORK_BYTES;
}

/* Both libraries count in 32 bits. */
enum vc_status vc_deflate_piece(struct vc_ctx *ctx, enum vc_strategy strategy, bool last, const void *src, size_t n,
                                void *work, void *dst, size_t capacity, size_t *n_out)
{
    VC_REFUSE_IF(n > UINT32_MAX || capacity > UINT32_MAX, ctx, VC_E_INTERNAL,
                 "a piece of %zu bytes is too large to deflate", n);
    return strategy == VC_STRATEGY_ISAL ? isal_piece(ctx, last, src, n, work, dst, capacity, n_out)
                                        : zlib_piece(ctx, strategy, last, src, n, work, dst, capacity, n_out);
}

/* Whether three of four bytes are zero, as in weights that were pruned to a quarter or less. */
static bool is_mostly_zeros(const unsigned char *sample, size_t n)
{
    size_t zeros = 0;

    for (size_t i = 0; i < n; i++) {
        zeros += sample[i] == 0;
    }
    return zeros >= n - n / 4;
}

/* Strategies are numbered from the fastest on, so the first one that is nearly as small as the smallest wins. Of pruned
 * weights the smallest wins: their size is what they were pruned for. */
enum vc_status vc_deflate_choose(struct vc_ctx *ctx, const void *sample, size_t n, bool isal, void *work, void *scratch,
                                 enum vc_strategy *out)
{
    size_t packed[VC_STRATEGY_ISAL + 1]; /* of zlib's, fastest first; then ISA-L, faster than all of them */
    size_t least = SIZE_MAX;
    unsigned i;

    n = n < VC_SAMPLE_BYTES ? n : VC_SAMPLE_BYTES;
    bool zeros = is_mostly_zeros(sample, n);
    for (i = 0; i <= VC_STRATEGY_ISAL; i++) {
        packed[i] = SIZE_MAX;
        if ((i == VC_STRATEGY_ZEROS && !zeros) || (i == VC_STRATEGY_ISAL && !(isal && vc_codec_has_isal()))) {
            continue;
        }
        VC_CALL(vc_deflate_piece(ctx, (enum vc_strategy)i, true, sample, n, work, scratch, vc_deflate_bound(n),
                                 &packed[i]));
        least = packed[i] < least ? packed[i] : least;
    }
    if (packed[VC_STRATEGY_ISAL] != SIZE_MAX &&
        packed[VC_STRATEGY_ISAL] - (zeros ? 0 : packed[VC_STRATEGY_ISAL] / 100) <= least + 4) {
        *out = VC_STRATEGY_ISAL;
        return VC_OK;
    }
    for (i = 0; packed[i] > least + (zeros ? 0 : least / 200) + 4; i++) {
    }
    *out = (enum vc_strategy)i;
    return VC_OK;
}
