/* torch_data.c - values of an open PyTorch file by range, from any thread, in C order and little-endian.
 *
 * Deflated storages are unpacked once into a temporary file, because tensors are views of them in any order. The CRC of
 * a storage is compared where one tensor is all of it and is read whole; a wrong one is only noted, since PyTorch can
 * be told to write none. */
#include "formats/io/byte_order.h"
#include "formats/io/strided.h"
#include "formats/torch/torch.h"

/* vc_source_ops.stream_bytes: inflating a storage, and the window for strides. */
size_t vc_torch_stream_bytes(const struct vc_model *model, size_t tensor)
{
    const struct torch *self = model->self;
    const struct torch_tensor *t = &self->found[tensor].tensor;
    const struct torch_storage *s = &self->storages[t->storage];

    return (s->entry != NULL && s->entry->method != VC_ZIP_STORED ? vc_spool_bytes() : 0) +
           (t->gather ? VC_STRIDED_WINDOW_BYTES : 0);
}

/* Counts a storage with a wrong CRC, once. */
static void note_bad(struct torch *self, struct torch_storage *s)
{
    if (!atomic_exchange(&s->bad, true)) {
        atomic_fetch_add(&self->n_bad, 1);
    }
}

/* Counts a piece of the values; the one that completes them compares the CRC. n_after: bytes of the storage behind the
 * piece. */
static void check_piece(struct torch *self, struct torch_storage *s, struct vc_check *check, const void *data, size_t n,
                        uint64_t n_after)
{
    uint32_t crc = vc_crc32_place(vc_crc32(0, data, n), n_after);

    atomic_fetch_xor_explicit(&check->crc, crc, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&check->n_bytes, n, memory_order_acq_rel) + n == s->n_bytes) {
        crc = atomic_exchange_explicit(&check->crc, 0, memory_order_relaxed);
        atomic_store_explicit(&check->n_bytes, 0, memory_order_relaxed);
        if (crc != s->entry->crc) {
            note_bad(self, s);
        }
    }
}

/* Inflates the storage into the temporary file, unless another thread has done so. */
static enum vc_status need_unpacked(struct vc_ctx *ctx, struct torch *self, struct torch_storage *s)
{
    bool wrong = false;
    enum vc_status status = vc_spool_need(ctx, &self->spool, self->file, s->entry, 0, &s->spooled, &s->offset, &wrong);

    if (status == VC_OK && wrong) {
        note_bad(self, s);
    }
    return status;
}

/* A range of a tensor's values: plain, or gathered by strides; numbers in little-endian order. */
static enum vc_status read_values(struct vc_ctx *ctx, struct torch *self, const struct torch_tensor *t, uint64_t offset,
                                  void *dst, size_t n, struct vc_check *check)
{
    struct torch_storage *s = &self->storages[t->storage];
    bool deflated = s->entry != NULL && s->entry->method != VC_ZIP_STORED;
    const struct vc_infile *file = deflated ? &self->spool.file : self->file;
    uint64_t total = t->n_elems * t->dtype->item_bytes;

    VC_REFUSE_IF(offset > total || n > total - offset || offset % t->dtype->item_bytes != 0 ||
                     n % t->dtype->item_bytes != 0,
                 ctx, VC_E_INTERNAL, "a read beyond the end of the tensor, or of a part of an element");
    if (n == 0) {
        return VC_OK;
    }
    if (deflated) {
        VC_CALL(need_unpacked(ctx, self, s));
    }
    if (t->gather) {
        const struct vc_strided array = {.file = file,
                                         .offset = s->offset,
                                         .n_bytes = s->n_bytes,
                                         .first = t->offset,
                                         .item_bytes = t->dtype->item_bytes,
                                         .n_dims = t->n_dims,
                                         .shape = t->shape,
                                         .strides = t->strides};

        VC_CALL(vc_strided_read(ctx, &array, offset / t->dtype->item_bytes, n / t->dtype->item_bytes, dst));
    } else {
        VC_CALL(vc_infile_read(ctx, file, s->offset + t->offset * t->dtype->item_bytes + offset, dst, n));
        if (check != NULL && s->entry != NULL && !deflated && total == s->n_bytes) {
            check_piece(self, s, check, dst, n, total - offset - n);
        }
    }
    vc_bytes_swap(dst, n, self->big_endian ? t->dtype->swap_bytes : 0);
    return VC_OK;
}

/* vc_source_ops.read. There is no raw form: a kept tensor is written as a storage of its own, whatever it was a view
 * of. */
enum vc_status vc_torch_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                             uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    struct torch *self = model->self;

    /* both forms are the values */
    enum vc_status status = read_values(ctx, self, &self->found[tensor].tensor, offset, dst, n_bytes, check);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->tensors[tensor].name);
}
