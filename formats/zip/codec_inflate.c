/* codec_inflate.c - raw DEFLATE, front to back, bytes pulled through a callback.
 *
 * ISA-L where it was found (about 1.4 times zlib's speed on weights), else zlib. Neither accepts a zlib or gzip header
 * or a preset dictionary here. Both refuse and accept the same streams, but for one thing: ISA-L takes a Huffman code
 * of distances that leaves bit patterns unused, as long as none of these occurs. What the checksum says about the bytes
 * is the caller's business. */
#include <zlib.h>

#include "formats/zip/codec.h"

#if VC_HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif

/* A stream that is being inflated; one of the two libraries does the work. */
struct vc_inflate {
    vc_inflate_fill_fn *fill;
    void *user;
    bool done;
#if VC_HAVE_ISAL
    struct inflate_state state;
#else
    struct vc_ctx *ctx; /* for zlib's allocations */
    z_stream state;
#endif
};

/* Sizes are handed to the libraries in 32 bits. */
#define VC_STEP_BYTES ((size_t)1 << 30)

/* Gets more input unless there is some. */
static enum vc_status refill(struct vc_ctx *ctx, struct vc_inflate *self)
{
    const unsigned char *data = NULL;
    size_t n = 0;
    enum vc_status status = self->fill(ctx, self->user, &data, &n);

    if (status != VC_OK) {
        return status;
    }
    VC_REFUSE_IF(n == 0, ctx, VC_E_FORMAT, "the compressed data ends too early");
    VC_REFUSE_IF(n > UINT32_MAX, ctx, VC_E_INTERNAL, "%zu compressed bytes at once are too many", n);
    self->state.avail_in = (uint32_t)n;
    memcpy(&self->state.next_in, &data, sizeof data); /* only read, but not const in every version */
    return VC_OK;
}

#if VC_HAVE_ISAL

static enum vc_status library_open(struct vc_ctx *ctx, struct vc_inflate *self)
{
    isal_inflate_init(&self->state);
    self->state.crc_flag = ISAL_DEFLATE;
    return VC_OK;
}

/* What ISA-L's code means, for the sentence. */
static const char *library_complaint(int rc)
{
    switch (rc) {
    case ISAL_INVALID_BLOCK:
        return "an invalid block";
    case ISAL_INVALID_SYMBOL:
        return "an invalid symbol";
    case ISAL_INVALID_LOOKBACK:
        return "a distance too far back";
    default:
        return "an error";
    }
}

/* One step: consumes input, produces output. */
static enum vc_status library_step(struct vc_ctx *ctx, struct vc_inflate *self)
{
    int rc = isal_inflate(&self->state);

    VC_REFUSE_IF(rc != ISAL_DECOMP_OK && rc != ISAL_END_INPUT, ctx, VC_E_FORMAT, "the compressed data has %s (%d)",
                 library_complaint(rc), rc);
    self->done = self->state.block_state == ISAL_BLOCK_FINISH;
    return VC_OK;
}

/* Whole bytes that it took ahead into its bit buffer count as unused. */
static size_t library_unused(const struct vc_inflate *self)
{
    int32_t ahead = self->state.read_in_length / 8;

    return (size_t)self->state.avail_in + (size_t)(ahead > 0 ? ahead : 0);
}

static void library_close(struct vc_inflate *self)
{
}

size_t vc_inflate_bytes(void)
{
    return sizeof(struct vc_inflate);
}

#else

/* zlib's memory comes from the pool, like all other. */
static void *zlib_alloc(void *opaque, unsigned n, unsigned size)
{
    struct vc_inflate *self = opaque;

    return vc_alloc_array(self->ctx, VC_TAG_IO, n, size);
}

static void zlib_free(void *opaque, void *p)
{
    struct vc_inflate *self = opaque;

    vc_free(self->ctx, p);
}

static enum vc_status library_open(struct vc_ctx *ctx, struct vc_inflate *self)
{
    self->ctx = ctx;
    self->state.zalloc = zlib_alloc;
    self->state.zfree = zlib_free;
    self->state.opaque = self;
    int rc = inflateInit2(&self->state, -15);
    if (rc == Z_MEM_ERROR) {
        return VC_E_NOMEM; /* the sentence was set by the pool */
    }
    return rc == Z_OK ? VC_OK : vc_fail(ctx, VC_E_INTERNAL, "zlib cannot start to inflate (%d)", rc);
}

static enum vc_status library_step(struct vc_ctx *ctx, struct vc_inflate *self)
{
    self->ctx = ctx;
    int rc = inflate(&self->state, Z_NO_FLUSH);
    if (rc == Z_MEM_ERROR) {
        return VC_E_NOMEM;
    }
    VC_REFUSE_IF(rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR, ctx, VC_E_FORMAT,
                 "the compressed data has an error (%s)", self->state.msg != NULL ? self->state.msg : "unknown");
    self->done = rc == Z_STREAM_END;
    return VC_OK;
}

static size_t library_unused(const struct vc_inflate *self)
{
    return self->state.avail_in;
}

static void library_close(struct vc_inflate *self)
{
    (void)inflateEnd(&self->state);
}

size_t vc_inflate_bytes(void)
{
    return sizeof(struct vc_inflate) + ((size_t)48 << 10); /* state and window */
}

#endif

enum vc_status vc_inflate_open(struct vc_ctx *ctx, vc_inflate_fill_fn *fill, void *user, struct vc_inflate **out)
{
    struct vc_inflate *self = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *self);

    *out = NULL;
    VC_CALL_ALLOC(self);
    self->fill = fill;
    self->user = user;
    enum vc_status status = library_open(ctx, self);
    if (status != VC_OK) {
        vc_free(ctx, self);
        return status;
    }
    *out = self;
    return VC_OK;
}

/* Up to n bytes; fewer only at the end of the stream. */
static enum vc_status produce(struct vc_ctx *ctx, struct vc_inflate *self, unsigned char *dst, size_t n, size_t *got)
{
    self->state.next_out = dst;
    self->state.avail_out = (uint32_t)n;
    while (!self->done && self->state.avail_out != 0) {
        uint32_t room = (uint32_t)self->state.avail_out;
        uint32_t input = (uint32_t)self->state.avail_in;

        /* The first step may go without new input: the library may hold output or bits back. */
        VC_CALL(library_step(ctx, self));
        if (self->done || self->state.avail_out != room || self->state.avail_in != input) {
            continue;
        }
        VC_REFUSE_IF(input != 0, ctx, VC_E_FORMAT, "the compressed data cannot be decoded");
        VC_CALL(refill(ctx, self));
    }
    *got = n - self->state.avail_out;
    return VC_OK;
}

/* In steps that fit into the libraries' 32 bits. */
enum vc_status vc_inflate_read(struct vc_ctx *ctx, struct vc_inflate *self, void *dst, size_t n)
{
    unsigned char *to = dst;

    while (n != 0) {
        size_t step = n < VC_STEP_BYTES ? n : VC_STEP_BYTES;
        size_t got;

        VC_CALL(produce(ctx, self, to, step, &got));
        VC_REFUSE_IF(got != step, ctx, VC_E_FORMAT, "the compressed data ends %zu bytes too early", n - got);
        to += got;
        n -= got;
    }
    return VC_OK;
}

/* Asks for one more byte: the stream has to end instead of giving it. */
enum vc_status vc_inflate_end(struct vc_ctx *ctx, struct vc_inflate *self, size_t *n_unused)
{
    unsigned char beyond;
    size_t got = 0;

    if (!self->done) {
        VC_CALL(produce(ctx, self, &beyond, 1, &got));
    }
    VC_REFUSE_IF(got != 0, ctx, VC_E_FORMAT, "the compressed data gives more bytes than the size that is declared");
    *n_unused = library_unused(self);
    return VC_OK;
}

void vc_inflate_close(struct vc_ctx *ctx, struct vc_inflate *self)
{
    if (self != NULL) {
        library_close(self);
        vc_free(ctx, self);
    }
}
