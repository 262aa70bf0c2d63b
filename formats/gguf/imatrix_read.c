/* imatrix_read.c - opens importance matrices as llama-imatrix wrote them before GGUF ("imatrix.dat"), as a model with
 * the arrays that its GGUF files have, for --calibration. There is no writer.
 *
 *     i32    n_entries                  all numbers little-endian
 *     i32    n                          for each entry: length of the name
 *     n      "blk.0.attn_q.weight"      without a zero byte
 *     i32    calls                      ->  blk.0.attn_q.weight.counts   f32 [1]
 *     i32    n_values
 *     f32    values [n_values]          ->  blk.0.attn_q.weight.in_sum2  f32 [n_values]: mean of squares * calls
 *     i32    chunks                     in newer ones; and, in the newest, behind it: i32 n, n bytes, the data's name
 */

#include "formats/dialects/dialects.h"
#include "formats/gguf/gguf.h"

#define MOST_NAME 250 /* bytes */

/* `self` of the model: tensor 2 k is the sums of entry k, 2 k + 1 its counts. */
struct imatrix {
    struct vc_infile *file;
    struct vc_arena arena;
    uint64_t *offsets; /* of each tensor's bytes */
};

/* vc_format.probe: a number of entries, the length of a name, and a name. Files of tokens and others may look alike. */
static int imatrix_probe(const unsigned char *head, size_t n, uint64_t file_bytes)
{
    uint64_t name_bytes = n < 12 ? 0 : vc_le32(head + 4);

    if (name_bytes < 3 || name_bytes > MOST_NAME || vc_le32(head) == 0 || vc_le32(head) > file_bytes / 16) {
        return 0;
    }
    for (uint64_t i = 0; i < vc_min_u64(name_bytes, n - 8); i++) {
        if (head[8 + i] <= ' ' || head[8 + i] > '~') {
            return 0;
        }
    }
    return 15;
}

static enum vc_status take_i32(struct vc_ctx *ctx, const struct imatrix *self, uint64_t *at, uint64_t *number)
{
    unsigned char bytes[4];

    VC_REFUSE_IF(*at + sizeof bytes > self->file->size_bytes, ctx, VC_E_FORMAT,
                 "ends inside an importance matrix: %" PRIu64 " bytes", self->file->size_bytes);
    VC_CALL(vc_infile_read(ctx, self->file, *at, bytes, sizeof bytes));
    *at += sizeof bytes;
    *number = vc_le32(bytes);
    VC_REFUSE_IF(*number > INT32_MAX, ctx, VC_E_FORMAT, "has a negative number at byte %" PRIu64, *at - sizeof bytes);
    return VC_OK;
}

/* An f32 array [n] whose bytes begin there. */
static enum vc_status add(struct vc_ctx *ctx, struct vc_model *model, const char *name, const char *tail, uint64_t at,
                          uint64_t n)
{
    struct imatrix *self = model->self;
    uint64_t *shape = vc_arena_alloc(ctx, &self->arena, sizeof *shape);
    const char *whole = vc_arena_printf(ctx, &self->arena, "%s%s", name, tail);

    VC_CALL_ALLOC(shape);
    VC_CALL_ALLOC(whole);
    *shape = n;
    self->offsets[model->n_tensors] = at;
    model->tensors[model->n_tensors++] = (struct vc_tensor){.name = whole,
                                                            .dtype = VC_DTYPE_F32,
                                                            .n_dims = 1,
                                                            .shape = shape,
                                                            .n_elems = n,
                                                            .size_bytes = 4 * n,
                                                            .file_bytes = 4 * n,
                                                            .part_of = VC_NO_TENSOR,
                                                            .alias_of = VC_NO_TENSOR};
    return VC_OK;
}

static enum vc_status take_entry(struct vc_ctx *ctx, struct vc_model *model, uint64_t *at)
{
    struct imatrix *self = model->self;
    char name[MOST_NAME + 1];
    uint64_t n, calls_at;

    VC_CALL(take_i32(ctx, self, at, &n));
    VC_REFUSE_IF(n == 0 || n > MOST_NAME || n > self->file->size_bytes - *at, ctx, VC_E_FORMAT,
                 "has a name of %" PRIu64 " bytes at byte %" PRIu64, n, *at);
    VC_CALL(vc_infile_read(ctx, self->file, *at, name, (size_t)n));
    name[n] = '\0';
    *at += n;
    calls_at = *at;
    VC_CALL(take_i32(ctx, self, at, &n));
    VC_CALL(take_i32(ctx, self, at, &n));
    VC_REFUSE_IF(n > (self->file->size_bytes - *at) / 4, ctx, VC_E_FORMAT, "ends inside '%s': %" PRIu64 " values", name,
                 n);
    VC_CALL(add(ctx, model, name, VC_SUMS_TAIL, *at, n));
    VC_CALL(add(ctx, model, name, ".counts", calls_at, 1));
    *at += 4 * n;
    return VC_OK;
}

/* Behind the entries. */
static enum vc_status check_end(struct vc_ctx *ctx, const struct imatrix *self, uint64_t at)
{
    uint64_t size = self->file->size_bytes;
    uint64_t n = 0;

    if (at < size) {
        VC_CALL(take_i32(ctx, self, &at, &n));
    }
    n = 0;
    if (at < size) {
        VC_CALL(take_i32(ctx, self, &at, &n));
    }
    VC_REFUSE_IF(n != size - at, ctx, VC_E_FORMAT, "has %" PRIu64 " bytes behind its last entry", size - at);
    return VC_OK;
}

/* vc_source_ops.read. Counts are whole numbers in the file. */
static enum vc_status imatrix_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                   uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    const struct imatrix *self = model->self;
    const struct vc_tensor *t = &model->tensors[tensor];
    unsigned char bytes[4];
    enum vc_status status;

    VC_REFUSE_IF(offset > t->size_bytes || n_bytes > t->size_bytes - offset, ctx, VC_E_INTERNAL,
                 "%s: a read beyond the tensor", t->name);
    if (tensor % 2 == 0) {
        VC_TRY(vc_infile_read(ctx, self->file, self->offsets[tensor] + offset, dst, n_bytes));
    } else {
        VC_TRY(vc_infile_read(ctx, self->file, self->offsets[tensor], bytes, sizeof bytes));
        float count = (float)vc_le32(bytes);
        memcpy(dst, (const char *)&count + offset, n_bytes);
    }
out:
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", t->name);
}

static void imatrix_close(struct vc_model *model)
{
    struct imatrix *self = model->self;

    vc_infile_close(model->ctx, self->file);
    vc_arena_release(model->ctx, &self->arena);
    VC_FREE_ALL(model->ctx, self->offsets, self, model->tensors, model->io);
}

static const struct vc_source_ops imatrix_ops = {.read = imatrix_read, .close = imatrix_close};

/* vc_format.open. */
static enum vc_status imatrix_open(struct vc_ctx *ctx, struct vc_infile *file, const struct vc_open_options *options,
                                   struct vc_model *model)
{
    struct imatrix *self = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *self);
    uint64_t at = 0;
    uint64_t n;

    if (self == NULL) {
        vc_infile_close(ctx, file);
        return VC_E_NOMEM;
    }
    self->file = file;
    model->self = self;
    model->ops = &imatrix_ops; /* from here on vc_model_close frees everything */
    VC_CALL(take_i32(ctx, self, &at, &n));
    VC_REFUSE_IF(n > file->size_bytes / 16, ctx, VC_E_FORMAT,
                 "is too short for an importance matrix of %" PRIu64 " entries", n);
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, 2 * (size_t)n));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, model->io, 2 * (size_t)n));
    VC_CALL(VC_ARRAY(ctx, VC_TAG_NAMES, self->offsets, 2 * (size_t)n));
    for (uint64_t k = 0; k < n; k++) {
        VC_CALL(take_entry(ctx, model, &at));
    }
    return check_end(ctx, self, at);
}

const struct vc_format vc_format_imatrix = {.name = "imatrix",
                                            .title = "imatrix",
                                            .extensions = (const char *const[]){".imatrix", NULL},
                                            .probe = imatrix_probe,
                                            .open = imatrix_open,
                                            .dialect = &vc_dialect_plain};
