/* tokens_read.c - opens a file of nothing but tokens, as nanoGPT, llm.c and their like write them, as a model with one
 * tensor, "input_ids": rows of as many tokens as the caller asks for (vc_open_options.row_tokens). What is left behind
 * the last whole row is not read. There is no writer, and no file is recognised as one: the caller says that it is.
 *
 *     offset  bytes  what
 *          0      n  tokens, u16 or u32, little-endian       nanoGPT, Megatron and others
 *
 *          0   1024  256 numbers i32: 20240520, 1, tokens    llm.c; 20240801, 7: the tokens are u32
 *       1024      n  tokens */
#include <inttypes.h>
#include <string.h>

#include "core/base/checked.h"
#include "formats/dialects/dialects.h"
#include "formats/formats.h"
#include "formats/tokens/tokens.h"

#define TENSOR       "input_ids"
#define HEADER_BYTES 1024

/* `self` of the model. */
struct tokens_file {
    struct vc_infile *file;
    uint64_t first_byte; /* of the tokens */
    uint64_t shape[2];
};

/* The header of llm.c: which tokens they are, and how many. */
static enum vc_status read_header(struct vc_ctx *ctx, struct tokens_file *self, enum vc_dtype *dtype, uint64_t *n)
{
    uint64_t size = self->file->size_bytes;
    unsigned char head[12] = {0};
    enum vc_status status;
    uint32_t magic;

    VC_TRY(vc_infile_read(ctx, self->file, 0, head, (size_t)vc_min_u64(sizeof head, size)));
    if (memcmp(head, "PK\3\4", 4) == 0) {
        return vc_fail(ctx, VC_E_FORMAT, "is a zip archive; %s is for a file of nothing but tokens",
                       vc_option(ctx, "length"));
    }
    magic = vc_le32(head);
    if (size < HEADER_BYTES ||
        !((magic == 20240520 && vc_le32(head + 4) == 1) || (magic == 20240801 && vc_le32(head + 4) == 7))) {
        return VC_OK;
    }
    *dtype = magic == 20240520 ? VC_DTYPE_U16 : VC_DTYPE_U32;
    *n = vc_le32(head + 8);
    self->first_byte = HEADER_BYTES;
    if (size - HEADER_BYTES != *n * vc_dtype_size(*dtype)) {
        status =
            vc_fail(ctx, VC_E_FORMAT, "holds %" PRIu64 " bytes of tokens, but its header says %" PRIu64 " of %zu bytes",
                    size - HEADER_BYTES, *n, vc_dtype_size(*dtype));
    }
out:
    return status;
}

static enum vc_status read_shape(struct vc_ctx *ctx, struct tokens_file *self, const struct vc_open_options *options,
                                 struct vc_tensor *tensor)
{
    enum vc_dtype dtype = options->token_bits == 32 ? VC_DTYPE_U32 : VC_DTYPE_U16;
    uint64_t n = self->file->size_bytes / vc_dtype_size(dtype);
    enum vc_status status;

    VC_TRY(read_header(ctx, self, &dtype, &n));
    if (self->first_byte == 0 && self->file->size_bytes % vc_dtype_size(dtype) != 0) {
        return vc_fail(ctx, VC_E_FORMAT, "holds %" PRIu64 " bytes, which are no whole tokens of %zu bytes",
                       self->file->size_bytes, vc_dtype_size(dtype));
    }
    if (n < options->row_tokens) {
        return vc_fail(ctx, VC_E_FORMAT, "holds %" PRIu64 " tokens, less than one row of %" PRIu64, n,
                       options->row_tokens);
    }
    self->shape[0] = n / options->row_tokens;
    self->shape[1] = options->row_tokens;
    *tensor = (struct vc_tensor){.name = TENSOR,
                                 .dtype = dtype,
                                 .n_dims = 2,
                                 .shape = self->shape,
                                 .n_elems = self->shape[0] * self->shape[1],
                                 .size_bytes = self->shape[0] * self->shape[1] * vc_dtype_size(dtype),
                                 .file_bytes = self->file->size_bytes,
                                 .part_of = VC_NO_TENSOR,
                                 .alias_of = VC_NO_TENSOR};
out:
    return status;
}

/* vc_source_ops.read */
static enum vc_status tokens_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct tokens_file *self = model->self;
    uint64_t size = model->tensors[tensor].size_bytes;
    enum vc_status status;

    (void)form;
    (void)check; /* there is no checksum */
    if (offset > size || n_bytes > size - offset) {
        return vc_fail(ctx, VC_E_INTERNAL, "%s: a read beyond the tensor", TENSOR);
    }
    status = vc_infile_read(ctx, self->file, self->first_byte + offset, dst, n_bytes);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", TENSOR);
}

/* vc_source_ops.ahead */
static void tokens_ahead(const struct vc_model *model, size_t tensor, uint64_t offset, uint64_t n_bytes)
{
    const struct tokens_file *self = model->self;

    (void)tensor;
    vc_infile_ahead(self->file, self->first_byte + offset, n_bytes);
}

static void tokens_close(struct vc_model *model)
{
    struct tokens_file *self = model->self;

    vc_infile_close(model->ctx, self->file);
    vc_free(model->ctx, self);
    vc_free(model->ctx, model->tensors);
    vc_free(model->ctx, model->io);
}

static const struct vc_source_ops tokens_ops = {.read = tokens_read, .ahead = tokens_ahead, .close = tokens_close};

/* vc_format.open. */
static enum vc_status tokens_open(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                                  struct vc_model *model)
{
    struct tokens_file *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);
    enum vc_status status = VC_OK;

    if (self == NULL) {
        vc_infile_close(ctx, file);
        return VC_E_NOMEM;
    }
    self->file = file;
    model->self = self;
    model->ops = &tokens_ops; /* from here on vc_model_close frees everything */
    model->tensors = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *model->tensors);
    VC_TRY_ALLOC(model->tensors);
    model->io = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *model->io);
    VC_TRY_ALLOC(model->io);
    VC_TRY(read_shape(ctx, self, options, model->tensors));
    model->n_tensors = 1;
out:
    return status;
}

const struct vc_format vc_format_tokens = {.name = "tokens",
                                           .title = "tokens",
                                           .extensions = (const char *const[]){".bin", NULL},
                                           .open = tokens_open,
                                           .dialect = &vc_dialect_plain};
