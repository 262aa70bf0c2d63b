/* tokens_read.c - opens a file of nothing but tokens, as nanoGPT, llm.c and their like write them, as a model with one
 * tensor, "input_ids": rows of as many tokens as the caller asks for (vc_open_options.row_tokens). What is left behind
 * the last whole row is not read. There is no writer, and no file is recognised as one: the caller says that it is.
 *
 *     offset  bytes  what
 *          0      n  tokens, u16 or u32, little-endian       nanoGPT, Megatron and others
 *
 *          0   1024  256 numbers i32: 20240520, 1, tokens    llm.c; 20240801, 7: the tokens are u32
 *       1024      n  tokens */

#include "formats/dialects/dialects.h"
#include "formats/io/one_tensor.h"
#include "formats/tokens/tokens.h"

#define TENSOR       "input_ids"
#define HEADER_BYTES 1024

/* `self` of the model. */
struct tokens_file {
    struct vc_one_tensor one; /* first */
    uint64_t shape[2];
};

/* The first bytes are those of a text, whose pairs would be taken for tokens: "He" for 25928. Tokens of real texts have
 * bytes below 32 everywhere; fewer than 64 bytes may have none, if they are whole tokens. */
static enum vc_status refuse_text(struct vc_ctx *ctx, const struct vc_infile *file)
{
    unsigned char head[512];
    size_t n = (size_t)vc_min_u64(sizeof head, file->size_bytes);
    size_t i = 0;

    VC_CALL(vc_infile_read(ctx, file, 0, head, n));
    while (i < n && (head[i] >= ' ' || head[i] == '\n' || head[i] == '\r' || head[i] == '\t')) {
        i++;
    }
    VC_REFUSE_IF((n >= 64 || n % 2 != 0) && i == n, ctx, VC_E_FORMAT,
                 "is a text, not a file of tokens; texts are read by names that end in .txt or .jsonl");
    return VC_OK;
}

/* The header of llm.c: which tokens they are, and how many. */
static enum vc_status read_header(struct vc_ctx *ctx, struct tokens_file *self, enum vc_dtype *dtype, uint64_t *n)
{
    uint64_t size = self->one.file->size_bytes;
    unsigned char head[12] = {0};

    VC_CALL(vc_infile_read(ctx, self->one.file, 0, head, (size_t)vc_min_u64(sizeof head, size)));
    VC_REFUSE_IF(memcmp(head, "PK\3\4", 4) == 0, ctx, VC_E_FORMAT,
                 "is a zip archive; %s is for a file of nothing but tokens", vc_option(ctx, "length"));
    uint32_t magic = vc_le32(head);
    if (size < HEADER_BYTES ||
        !((magic == 20240520 && vc_le32(head + 4) == 1) || (magic == 20240801 && vc_le32(head + 4) == 7))) {
        return VC_OK;
    }
    *dtype = magic == 20240520 ? VC_DTYPE_U16 : VC_DTYPE_U32;
    *n = vc_le32(head + 8);
    self->one.first_byte = HEADER_BYTES;
    VC_REFUSE_IF(size - HEADER_BYTES != *n * vc_dtype_size(*dtype), ctx, VC_E_FORMAT,
                 "holds %" PRIu64 " bytes of tokens, but its header says %" PRIu64 " of %zu bytes", size - HEADER_BYTES,
                 *n, vc_dtype_size(*dtype));
    return VC_OK;
}

static enum vc_status read_shape(struct vc_ctx *ctx, struct tokens_file *self, const struct vc_open_options *options,
                                 struct vc_tensor *tensor)
{
    enum vc_dtype dtype = options->token_bits == 32 ? VC_DTYPE_U32 : VC_DTYPE_U16;
    uint64_t n = self->one.file->size_bytes / vc_dtype_size(dtype);

    VC_CALL(read_header(ctx, self, &dtype, &n));
    VC_CALL(refuse_text(ctx, self->one.file));
    VC_REFUSE_IF(self->one.first_byte == 0 && self->one.file->size_bytes % vc_dtype_size(dtype) != 0, ctx, VC_E_FORMAT,
                 "holds %" PRIu64 " bytes, which are no whole tokens of %zu bytes", self->one.file->size_bytes,
                 vc_dtype_size(dtype));
    VC_REFUSE_IF(n < options->row_tokens, ctx, VC_E_FORMAT, "holds %" PRIu64 " tokens, less than one row of %" PRIu64,
                 n, options->row_tokens);
    self->shape[0] = n / options->row_tokens;
    self->shape[1] = options->row_tokens;
    *tensor = (struct vc_tensor){.name = TENSOR,
                                 .dtype = dtype,
                                 .n_dims = 2,
                                 .shape = self->shape,
                                 .n_elems = self->shape[0] * self->shape[1],
                                 .size_bytes = self->shape[0] * self->shape[1] * vc_dtype_size(dtype),
                                 .file_bytes = self->one.file->size_bytes,
                                 .part_of = VC_NO_TENSOR,
                                 .alias_of = VC_NO_TENSOR};
    return VC_OK;
}

static const struct vc_source_ops tokens_ops = {
    .read = vc_one_tensor_read, .ahead = vc_one_tensor_ahead, .close = vc_one_tensor_close};

/* vc_format.open. */
static enum vc_status tokens_open(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                                  struct vc_model *model)
{
    VC_CALL(vc_one_tensor_begin(ctx, file, sizeof(struct tokens_file), &tokens_ops, model));
    VC_CALL(read_shape(ctx, model->self, options, model->tensors));
    model->n_tensors = 1;
    return VC_OK;
}

const struct vc_format vc_format_tokens = {.name = "tokens",
                                           .title = "tokens",
                                           .extensions = (const char *const[]){".bin", NULL},
                                           .open = tokens_open,
                                           .dialect = &vc_dialect_plain};
