/* idx_read.c - opens an idx file, as MNIST and its like have them, as a model with one tensor, "arr_0"; also one that
 * gzip has packed, which is inflated as it is read. There is no writer.
 *
 *     offset  bytes  what                     60,000 images of 28 x 28 bytes
 *          0      2  zero                     00 00
 *          2      1  type                     08               u8
 *          3      1  dimensions               03
 *          4      4  each, big-endian         00 00 ea 60  00 00 00 1c  00 00 00 1c
 *         16         elements, big-endian     C order
 *
 *     type  08 u8   09 i8   0b i16   0c i32   0d f32   0e f64
 *
 * A gzip file (RFC 1952) has a header of its own in front, and behind the deflated bytes their CRC-32 and number.
 *
 * A plain file is read by range (io/one_tensor.h). A packed one can be read from its front only: the model's tensor is
 * `sequential`, and a pass opens a stream, reads it to its end, and closes it, which compares the checksum. */

#include "core/base/findings.h"
#include "formats/dialects/dialects.h"
#include "formats/idx/idx.h"
#include "formats/io/byte_order.h"
#include "formats/io/one_tensor.h"
#include "formats/zip/zip_data.h"

#define VC_IDX_TENSOR "arr_0"
#define VC_IDX_PREFIX 4                                 /* zeros, type, number of dimensions */
#define VC_IDX_HEADER (VC_IDX_PREFIX + 4 * VC_MAX_DIMS) /* at most */
#define VC_GZ_HEADER  10                                /* without name, comment and extra field */
#define VC_GZ_TRAILER 8                                 /* CRC-32, then the number of bytes modulo 2^32 */
#define VC_GZ_MOST    1032                              /* bytes that one deflated byte can stand for */
#define VC_GZ_NAMES   (1 << 16)                         /* bytes of a gzip header, more than any has */

/* `self` of the model. */
struct idx_file {
    struct vc_one_tensor one; /* first */
    bool packed;
    uint64_t packed_offset; /* of the deflated bytes */
    uint64_t shape[VC_MAX_DIMS];
};

/* A reader of a packed file; several may be open at a time. */
struct vc_source_stream {
    const struct vc_model *model;
    struct vc_inflate *inflate;
    struct vc_zip_fill fill;
    uint64_t n_bytes, left; /* of the whole stream; of the elements */
    uint32_t crc;
    unsigned char buffer[VC_ZIP_BLOCK_BYTES];
};

/* ---- the header ---- */

/* Big-endian. */
static uint32_t big32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* VC_DTYPE_NONE: no type has that code. */
static enum vc_dtype type_of(unsigned char code)
{
    switch (code) {
    case 0x08:
        return VC_DTYPE_U8;
    case 0x09:
        return VC_DTYPE_I8;
    case 0x0b:
        return VC_DTYPE_I16;
    case 0x0c:
        return VC_DTYPE_I32;
    case 0x0d:
        return VC_DTYPE_F32;
    case 0x0e:
        return VC_DTYPE_F64;
    default:
        return VC_DTYPE_NONE;
    }
}

/* The first bytes are those of an idx file. */
static bool is_idx(const unsigned char *head, size_t n)
{
    return n >= VC_IDX_PREFIX && head[0] == 0 && head[1] == 0 && type_of(head[2]) != VC_DTYPE_NONE && head[3] != 0 &&
           head[3] <= VC_MAX_DIMS;
}

static bool is_gzip(const unsigned char *head, size_t n)
{
    return n >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

/* vc_format.probe. Only a gzip file's content tells what it is, which its reader looks at. */
static int idx_probe(const unsigned char *head, size_t n, uint64_t file_bytes)
{
    return is_gzip(head, n) ? 1 : is_idx(head, n) ? 20 : 0;
}

/* Dimensions from the bytes behind the prefix. The model's tensor and `self` are what they say. head: prefix and
 * dimensions, 4 + 4 n bytes. Products of the shape are bounded, so later sums do not wrap. */
static enum vc_status take_header(struct vc_ctx *ctx, struct idx_file *self, struct vc_tensor *tensor,
                                  const unsigned char *head)
{
    tensor->dtype = type_of(head[2]);
    tensor->n_dims = head[3];
    tensor->n_elems = 1;
    for (unsigned d = 0; d < tensor->n_dims; d++) {
        self->shape[d] = big32(head + VC_IDX_PREFIX + (size_t)4 * d);
        VC_REFUSE_IF(!vc_mul_u64(tensor->n_elems, self->shape[d], &tensor->n_elems), ctx, VC_E_FORMAT,
                     "the shape of the idx array overflows");
    }
    VC_REFUSE_IF(!vc_mul_u64(tensor->n_elems, vc_dtype_size(tensor->dtype), &tensor->size_bytes) ||
                     tensor->size_bytes > INT64_MAX / 2,
                 ctx, VC_E_FORMAT, "the idx array is too large: %" PRIu64 " elements", tensor->n_elems);
    self->one.first_byte = VC_IDX_PREFIX + (uint64_t)4 * tensor->n_dims;
    self->one.swap = vc_dtype_size(tensor->dtype) > 1 ? (unsigned)vc_dtype_size(tensor->dtype) : 0;
    tensor->name = VC_IDX_TENSOR;
    tensor->shape = self->shape;
    tensor->part_of = VC_NO_TENSOR;
    tensor->alias_of = VC_NO_TENSOR;
    tensor->file_bytes = self->one.file->size_bytes;
    return VC_OK;
}

/* The file ends exactly where its array does. */
static enum vc_status read_plain(struct vc_ctx *ctx, struct idx_file *self, struct vc_tensor *tensor)
{
    unsigned char head[VC_IDX_HEADER];
    uint64_t n_bytes = self->one.file->size_bytes;

    VC_CALL(vc_infile_read(ctx, self->one.file, 0, head, (size_t)vc_min_u64(VC_IDX_PREFIX, n_bytes)));
    VC_REFUSE_IF(n_bytes < VC_IDX_PREFIX + (uint64_t)4 * head[3], ctx, VC_E_FORMAT,
                 "ends inside the idx header: %" PRIu64 " bytes, %u dimensions", n_bytes, (unsigned)head[3]);
    VC_CALL(vc_infile_read(ctx, self->one.file, VC_IDX_PREFIX, head + VC_IDX_PREFIX, (size_t)4 * head[3]));
    VC_CALL(take_header(ctx, self, tensor, head));
    VC_REFUSE_IF(n_bytes - self->one.first_byte != tensor->size_bytes, ctx, VC_E_FORMAT,
                 "holds %" PRIu64 " bytes of data, but its shape and type need %" PRIu64,
                 n_bytes - self->one.first_byte, tensor->size_bytes);
    return VC_OK;
}

/* ---- gzip ---- */

/* Behind a text that ends with a zero byte, from *at on. */
static enum vc_status skip_text(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t *at)
{
    unsigned char c = 1;

    while (c != 0) {
        VC_REFUSE_IF(*at >= file->size_bytes || *at >= VC_GZ_NAMES, ctx, VC_E_FORMAT, "the gzip header does not end");
        VC_CALL(vc_infile_read(ctx, file, (*at)++, &c, 1));
    }
    return VC_OK;
}

/* Where the deflated bytes begin: behind what the flags say that the header has.
 *
 *     1f 8b 08 flags | time (4) | 2 more | extra: u16 n, n bytes | name \0 | comment \0 | CRC-16 | deflated bytes */
static enum vc_status skip_gzip_header(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t *at)
{
    enum { CRC = 2, EXTRA = 4, NAME = 8, COMMENT = 16, RESERVED = 0xe0 };
    unsigned char head[VC_GZ_HEADER];
    unsigned char length[2];

    VC_REFUSE_IF(file->size_bytes < VC_GZ_HEADER + VC_GZ_TRAILER, ctx, VC_E_FORMAT,
                 "ends inside the gzip header: %" PRIu64 " bytes", file->size_bytes);
    VC_CALL(vc_infile_read(ctx, file, 0, head, sizeof head));
    VC_REFUSE_IF(head[2] != 8 || (head[3] & RESERVED) != 0, ctx, VC_E_UNSUPPORTED,
                 "is a gzip file of a kind that is not known: method %u, flags %u", (unsigned)head[2],
                 (unsigned)head[3]);
    *at = VC_GZ_HEADER;
    if ((head[3] & EXTRA) != 0) {
        VC_CALL(vc_infile_read(ctx, file, *at, length, sizeof length));
        *at += 2u + length[0] + ((unsigned)length[1] << 8);
    }
    if ((head[3] & NAME) != 0) {
        VC_CALL(skip_text(ctx, file, at));
    }
    if ((head[3] & COMMENT) != 0) {
        VC_CALL(skip_text(ctx, file, at));
    }
    *at += (head[3] & CRC) != 0 ? 2 : 0;
    VC_REFUSE_IF(*at > file->size_bytes - VC_GZ_TRAILER, ctx, VC_E_FORMAT,
                 "ends inside the gzip header: %" PRIu64 " bytes", file->size_bytes);
    return VC_OK;
}

/* stream NULL: there is nothing to close. */
static void close_stream(struct vc_ctx *ctx, struct vc_source_stream *stream)
{
    if (stream != NULL) {
        vc_inflate_close(ctx, stream->inflate);
        vc_free(ctx, stream);
    }
}

/* At the first deflated byte. The buffer is part of the stream, so one allocation is all of it. */
static enum vc_status open_stream(struct vc_ctx *ctx, const struct idx_file *self, struct vc_source_stream **out)
{
    struct vc_source_stream *stream = vc_alloc(ctx, VC_TAG_IO, sizeof *stream);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(stream);
    stream->inflate = NULL;
    stream->n_bytes = 0;
    stream->crc = 0;
    stream->fill = (struct vc_zip_fill){.file = self->one.file,
                                        .offset = self->packed_offset,
                                        .left = self->one.file->size_bytes - VC_GZ_TRAILER - self->packed_offset,
                                        .buffer = stream->buffer,
                                        .buffer_bytes = sizeof stream->buffer};
    VC_TRY(vc_inflate_open(ctx, vc_zip_fill_next, &stream->fill, &stream->inflate));
    *out = stream;
    return VC_OK;
out:
    close_stream(ctx, stream);
    return status;
}

/* The next n bytes of the array's file, counted and summed up. */
static enum vc_status inflate(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n)
{
    VC_CALL(vc_inflate_read(ctx, stream->inflate, dst, n));
    stream->crc = vc_crc32(stream->crc, dst, n);
    stream->n_bytes += n;
    return VC_OK;
}

/* The stream ends where the file's trailer begins, which has the CRC and the number of its bytes. */
static enum vc_status check_trailer(struct vc_ctx *ctx, const struct idx_file *self, struct vc_source_stream *stream)
{
    unsigned char t[VC_GZ_TRAILER];
    size_t unused = 0;

    VC_CALL(vc_inflate_end(ctx, stream->inflate, &unused));
    VC_REFUSE_IF(unused != 0 || stream->fill.left != 0, ctx, VC_E_FORMAT,
                 "there are bytes behind the end of the deflated data");
    VC_CALL(vc_infile_read(ctx, self->one.file, self->one.file->size_bytes - VC_GZ_TRAILER, t, sizeof t));
    VC_REFUSE_IF(vc_le32(t) != stream->crc || vc_le32(t + 4) != (uint32_t)stream->n_bytes, ctx, VC_E_FORMAT,
                 "the data is damaged: its checksum is %08" PRIx32, stream->crc);
    return VC_OK;
}

/* Inflates the header of the array alone. A shape that these deflated bytes cannot hold is refused now, not after an
 * hour. */
static enum vc_status read_packed(struct vc_ctx *ctx, struct idx_file *self, struct vc_tensor *tensor)
{
    struct vc_source_stream *stream = NULL;
    unsigned char head[VC_IDX_HEADER];
    enum vc_status status;

    VC_TRY(skip_gzip_header(ctx, self->one.file, &self->packed_offset));
    VC_TRY(open_stream(ctx, self, &stream));
    status = inflate(ctx, stream, head, VC_IDX_PREFIX);
    if (status == VC_OK && !is_idx(head, VC_IDX_PREFIX)) {
        status = vc_fail(ctx, VC_E_UNSUPPORTED, "is a gzip file of something that is no idx array; unpack it first");
    }
    VC_TRY(status);
    VC_TRY(inflate(ctx, stream, head + VC_IDX_PREFIX, (size_t)4 * head[3]));
    VC_TRY(take_header(ctx, self, tensor, head));
    if (tensor->size_bytes / VC_GZ_MOST > self->one.file->size_bytes) {
        status = vc_fail(ctx, VC_E_FORMAT,
                         "its shape and type need %" PRIu64 " bytes, more than %" PRIu64 " deflated ones can hold",
                         tensor->size_bytes, self->one.file->size_bytes);
    }
    VC_TRY(status);
    if (tensor->size_bytes == 0) { /* nobody reads it */
        VC_TRY(check_trailer(ctx, self, stream));
    }
out:
    close_stream(ctx, stream);
    return status;
}

/* vc_source_ops.stream_open: behind the header. */
static enum vc_status idx_stream_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                      enum vc_form form, struct vc_source_stream **out)
{
    const struct idx_file *self = model->self;
    unsigned char head[VC_IDX_HEADER];
    enum vc_status status;

    VC_TRY(open_stream(ctx, self, out));
    (*out)->model = model;
    (*out)->left = model->tensors[tensor].size_bytes;
    VC_TRY(inflate(ctx, *out, head, (size_t)self->one.first_byte));
    return VC_OK;
out:
    close_stream(ctx, *out);
    *out = NULL;
    return vc_context(ctx, "%s", model->tensors[tensor].name);
}

/* vc_source_ops.stream_read: whole elements, where their bytes are reversed. */
static enum vc_status idx_stream_read(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n_bytes)
{
    const struct idx_file *self = stream->model->self;
    enum vc_status status;

    VC_REFUSE_IF(n_bytes > stream->left || (self->one.swap != 0 && n_bytes % self->one.swap != 0), ctx, VC_E_INTERNAL,
                 "a read beyond the end of the tensor, or of a part of an element");
    VC_TRY(inflate(ctx, stream, dst, n_bytes));
    stream->left -= n_bytes;
    vc_bytes_swap(dst, n_bytes, self->one.swap);
out:
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", stream->model->tensors[0].name);
}

/* vc_source_ops.stream_close */
static enum vc_status idx_stream_close(struct vc_ctx *ctx, struct vc_source_stream *stream, bool finished)
{
    enum vc_status status = VC_OK;

    if (finished && stream->left != 0) {
        status = vc_fail(ctx, VC_E_INTERNAL, "%" PRIu64 " bytes were not read", stream->left);
    } else if (finished) {
        status = check_trailer(ctx, stream->model->self, stream);
    }
    if (status != VC_OK) {
        status = vc_context(ctx, "%s", stream->model->tensors[0].name);
    }
    close_stream(ctx, stream);
    return status;
}

/* ---- opening ---- */

/* vc_source_ops.stream_bytes: memory of an open stream. */
static size_t idx_stream_bytes(const struct vc_model *model, size_t tensor)
{
    return model->io[tensor].sequential ? sizeof(struct vc_source_stream) + vc_inflate_bytes() : 0;
}

static const struct vc_source_ops idx_ops = {.read = vc_one_tensor_read,
                                             .ahead = vc_one_tensor_ahead,
                                             .stream_open = idx_stream_open,
                                             .stream_read = idx_stream_read,
                                             .stream_close = idx_stream_close,
                                             .stream_bytes = idx_stream_bytes,
                                             .close = vc_one_tensor_close};

/* vc_format.open. */
static enum vc_status idx_open(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                               struct vc_model *model)
{
    struct idx_file *self;
    unsigned char magic[2];
    enum vc_status status;

    VC_CALL(vc_one_tensor_begin(ctx, file, sizeof *self, &idx_ops, model));
    self = model->self;
    VC_CALL(vc_infile_read(ctx, file, 0, magic, sizeof magic));
    self->packed = is_gzip(magic, sizeof magic);
    status = self->packed ? read_packed(ctx, self, model->tensors) : read_plain(ctx, self, model->tensors);
    if (status != VC_OK) { /* with findings: a file without a tensor */
        return vc_collect(ctx, status, "header", VC_IDX_TENSOR);
    }
    model->io[0].sequential = self->packed;
    model->n_tensors = 1;
    return VC_OK;
}

/* vc_format.stream_end: the header and what its shape needs. What is packed does not tell. */
static enum vc_status idx_stream_end(struct vc_ctx *ctx, const struct vc_infile *so_far, struct vc_stream_end *end)
{
    struct idx_file self = {.one.file = (struct vc_infile *)(uintptr_t)so_far};
    unsigned char head[VC_IDX_HEADER];
    struct vc_tensor tensor;

    VC_CALL(vc_infile_read(ctx, so_far, 0, head, (size_t)vc_min_u64(VC_IDX_PREFIX, so_far->size_bytes)));
    if (is_gzip(head, so_far->size_bytes)) {
        end->need = UINT64_MAX;
        return VC_OK;
    }
    end->need = VC_IDX_PREFIX + (so_far->size_bytes >= VC_IDX_PREFIX ? (uint64_t)4 * head[3] : 0);
    if (so_far->size_bytes >= end->need) {
        VC_CALL(vc_infile_read(ctx, so_far, 0, head, (size_t)end->need));
        VC_CALL(take_header(ctx, &self, &tensor, head));
        end->end = self.one.first_byte + tensor.size_bytes;
    }
    return VC_OK;
}

const struct vc_format vc_format_idx = {.name = "idx",
                                        .title = "idx",
                                        .extensions =
                                            (const char *const[]){".idx", "-ubyte", ".idx.gz", "-ubyte.gz", NULL},
                                        .probe = idx_probe,
                                        .open = idx_open,
                                        .stream_end = idx_stream_end,
                                        .dialect = &vc_dialect_plain};
