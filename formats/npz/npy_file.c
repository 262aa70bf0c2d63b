/* npy_file.c - opens a single .npy file (npy.h has the bytes) as a model with one tensor, "arr_0", the name that
 * np.savez gives to an array without a name. The format has no checksum, and its data is read by range. */

#include "core/base/findings.h"
#include "formats/dialects/dialects.h"
#include "formats/io/byte_order.h"
#include "formats/io/one_tensor.h"
#include "formats/npz/npy_data.h"
#include "formats/npz/npy_write.h"
#include "formats/npz/npz.h"

#define VC_NPY_TENSOR "arr_0"

/* `self` of the model. */
struct npy_file {
    struct vc_one_tensor one; /* first; of it the file alone is used */
    struct vc_npy_data data;
    uint64_t shape[VC_MAX_DIMS];
};

/* vc_source_ops.read. RAW is the file as it is, header included, so that a kept array can be copied bit for bit; VALUES
 * come in C order and little-endian. */
static enum vc_status npy_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                               uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    struct npy_file *self = model->self;
    enum vc_status status = VC_OK;

    if (form == VC_FORM_RAW) {
        VC_TRY(vc_infile_read(ctx, self->one.file, offset, dst, n_bytes));
    } else {
        VC_REFUSE_IF(offset > self->data.size_bytes || n_bytes > self->data.size_bytes - offset, ctx, VC_E_INTERNAL,
                     "%s: a read beyond the tensor", model->tensors[tensor].name);
        VC_TRY(vc_npy_data_read(ctx, &self->data, offset, dst, n_bytes));
        vc_bytes_swap(dst, n_bytes, self->data.swap_bytes);
    }
out:
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->tensors[tensor].name);
}

/* vc_source_ops.ahead */
static void npy_ahead(const struct vc_model *model, size_t tensor, uint64_t offset, uint64_t n_bytes)
{
    const struct npy_file *self = model->self;

    if (!self->data.gather) {
        vc_infile_ahead(self->one.file, self->data.offset + offset, n_bytes);
    }
}

/* vc_source_ops.stream_bytes: the window for Fortran order. */
static size_t npy_stream_bytes(const struct vc_model *model, size_t tensor)
{
    const struct npy_file *self = model->self;

    return self->data.gather ? VC_NPY_WINDOW_BYTES : 0;
}

static const struct vc_source_ops npy_ops = {
    .read = npy_read, .ahead = npy_ahead, .stream_bytes = npy_stream_bytes, .close = vc_one_tensor_close};

/* vc_format.probe. Files that are shorter than the magic count as well, if they begin like it: the reader says what is
 * missing. */
static int npy_probe(const unsigned char *head, size_t n, uint64_t file_bytes)
{
    static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

    return memcmp(head, magic, n < sizeof magic ? n : sizeof magic) == 0 ? 100 : 0;
}

/* Bytes of the header, as the first of them say. */
static enum vc_status header_bytes(struct vc_ctx *ctx, const struct vc_infile *file, size_t *n)
{
    unsigned char prefix[VC_NPY_PREFIX_BYTES];
    size_t part = (size_t)vc_min_u64(sizeof prefix, file->size_bytes);

    VC_CALL(vc_infile_read(ctx, file, 0, prefix, part));
    return vc_npy_header_bytes(ctx, prefix, part, n);
}

/* Reads and parses the header of n bytes. */
static enum vc_status parse_header(struct vc_ctx *ctx, const struct vc_infile *file, size_t n,
                                   struct vc_npy_header *header)
{
    VC_SCOPED unsigned char *text = vc_alloc(ctx, VC_TAG_NAMES, n);

    VC_CALL_ALLOC(text);
    VC_CALL(vc_infile_read(ctx, file, 0, text, n));
    VC_CALL(vc_npy_parse(ctx, text, n, header));
    if (header->other != NULL) {
        VC_CALL(vc_npy_refuse_other(ctx, header));
    }
    return VC_OK;
}

/* The file has to end where the data does. */
static enum vc_status read_header(struct vc_ctx *ctx, const struct vc_infile *file, struct vc_npy_header *header)
{
    size_t n = 0;

    VC_CALL(header_bytes(ctx, file, &n));
    VC_REFUSE_IF(n > file->size_bytes, ctx, VC_E_FORMAT, "ends inside the npy header: %" PRIu64 " bytes of %zu",
                 file->size_bytes, n);
    VC_CALL(parse_header(ctx, file, n, header));
    VC_REFUSE_IF(file->size_bytes - n != header->data_bytes, ctx, VC_E_FORMAT,
                 "holds %" PRIu64 " bytes of data, but its shape and dtype need %" PRIu64, file->size_bytes - n,
                 header->data_bytes);
    return VC_OK;
}

/* vc_format.stream_end: the header and what its shape needs. */
static enum vc_status npy_stream_end(struct vc_ctx *ctx, const struct vc_infile *so_far, struct vc_stream_end *end)
{
    struct vc_npy_header header;
    size_t n = 0;

    VC_CALL(header_bytes(ctx, so_far, &n));
    end->need = n;
    if (so_far->size_bytes >= n) {
        VC_CALL(parse_header(ctx, so_far, n, &header));
        end->end = vc_add_u64(n, header.data_bytes, &end->end) ? end->end : UINT64_MAX;
    }
    return VC_OK;
}

/* The only tensor of the model. */
static void fill_tensor(struct vc_model *model, struct npy_file *self, const struct vc_npy_header *header,
                        const struct vc_open_options *options)
{
    struct vc_tensor *tensor = &model->tensors[0];

    tensor->name = VC_NPY_TENSOR;
    tensor->dtype = vc_npy_meaning(header, options->void_as);
    tensor->n_dims = header->n_dims;
    memcpy(self->shape, header->shape, sizeof self->shape);
    tensor->shape = self->shape;
    tensor->n_elems = header->n_elems;
    tensor->size_bytes = header->data_bytes;
    tensor->file_bytes = self->one.file->size_bytes;
    tensor->part_of = VC_NO_TENSOR;
    tensor->alias_of = VC_NO_TENSOR;
    model->io[0].sequential = false;
    model->io[0].raw_bytes = self->one.file->size_bytes;
    model->n_tensors = 1;
}

/* vc_format.open. */
static enum vc_status npy_open(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                               struct vc_model *model)
{
    struct vc_npy_header header;
    struct npy_file *self;

    VC_CALL(vc_one_tensor_begin(ctx, file, sizeof *self, &npy_ops, model));
    self = model->self;
    enum vc_status status = read_header(ctx, file, &header);
    if (status != VC_OK) { /* with findings: a file without a tensor */
        return vc_collect(ctx, status, "header", VC_NPY_TENSOR);
    }
    VC_CALL(vc_npy_data_init(ctx, &self->data, &header));
    fill_tensor(model, self, &header, options);
    self->data.file = file;
    self->data.offset = header.header_bytes;
    self->data.shape = self->shape;
    return VC_OK;
}

const struct vc_format vc_format_npy = {.name = "npy",
                                        .title = "npy",
                                        .extensions = (const char *const[]){".npy", NULL},
                                        .probe = npy_probe,
                                        .open = npy_open,
                                        .stream_end = npy_stream_end,
                                        .create_sink = vc_npy_sink_create,
                                        .dialect = &vc_dialect_plain};
