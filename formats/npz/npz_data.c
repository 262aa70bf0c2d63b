/* npz_data.c - reads members of an open npz: stored ones by range from any thread, deflated ones front to back.
 *
 * CRC without order: the CRC of a member is the XOR of what its pieces contribute (vc_crc32_place), so pieces may be
 * read in any order by any thread; whoever completes the form compares. A member in Fortran order is read in too many
 * small pieces for that: it is read once more, in one go, when it is complete. */

#include "formats/io/byte_order.h"
#include "formats/npz/npz_internal.h"

/* A deflated member that is being read front to back. */
struct vc_source_stream {
    const struct vc_model *model;
    const struct npz_member *member;
    size_t tensor;
    enum vc_form form;
    struct vc_inflate *inflate;
    struct vc_zip_fill fill;
    uint64_t left; /* bytes of the form that were not read yet */
    uint32_t crc;
    unsigned char buffer[VC_ZIP_BLOCK_BYTES];
};

/* ------------------------------------------------------------------------------------------------ checks */

/* Bytes of a form: the values are the member without its npy header. */
static uint64_t form_bytes(const struct npz_member *member, enum vc_form form)
{
    return form == VC_FORM_VALUES && member->kind == NPZ_ARRAY ? member->data.size_bytes : member->entry->size_bytes;
}

/* Counts a piece of a form that was read; the one that completes it compares the CRC, and counting starts again. crc is
 * of the piece, which ends n_after bytes before the end of the member. A member in a spool was checked when it was
 * inflated. */
static enum vc_status note_piece(struct vc_ctx *ctx, const struct npz *self, const struct npz_member *member,
                                 enum vc_form form, struct vc_check *check, size_t n, uint64_t n_after, uint32_t crc)
{
    uint64_t total = form_bytes(member, form);
    bool by_pieces = form == VC_FORM_RAW || !member->data.gather;

    if (member->spool) {
        return VC_OK; /* was checked while it was inflated */
    }
    if (by_pieces) {
        crc = vc_crc32_place(crc, n_after);
    }
    if (n != total) {
        if (by_pieces) {
            atomic_fetch_xor_explicit(&check->crc, crc, memory_order_relaxed);
        }
        if (atomic_fetch_add_explicit(&check->n_bytes, n, memory_order_acq_rel) + n != total) {
            return VC_OK;
        }
        crc = atomic_exchange_explicit(&check->crc, 0, memory_order_relaxed);
        atomic_store_explicit(&check->n_bytes, 0, memory_order_relaxed);
    }
    if (!by_pieces) {
        return vc_zip_check_member(ctx, self->file, member->entry, NULL);
    }
    if (form == VC_FORM_VALUES) {
        crc ^= vc_crc32_place(member->header_crc, total);
    }
    return vc_zip_compare_crc(ctx, member->entry, crc);
}

/* ------------------------------------------------------------------------------------------------ by range */

/* Reads bytes of a file in blocks that stay in the cache, with their CRC where that is wanted. */
static enum vc_status read_run(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t offset, unsigned char *dst,
                               size_t n, bool check, uint32_t *crc)
{
    *crc = 0;
    while (n > 0) {
        size_t part = n < VC_ZIP_BLOCK_BYTES ? n : VC_ZIP_BLOCK_BYTES;

        VC_CALL(vc_infile_read(ctx, file, offset, dst, part));
        if (check) {
            *crc = vc_crc32(*crc, dst, part);
        }
        offset += part;
        dst += part;
        n -= part;
    }
    return VC_OK;
}

/* A range of a stored or spooled member: finds where it lies, reads or gathers it, counts it, puts numbers into
 * little-endian order. The CRC is taken before the bytes are swapped. */
static enum vc_status read_form(struct vc_ctx *ctx, struct npz *self, struct npz_member *member, enum vc_form form,
                                uint64_t offset, unsigned char *dst, size_t n, struct vc_check *check)
{
    const struct vc_infile *file = self->file;
    uint64_t total = form_bytes(member, form);
    uint64_t base = member->entry->data_offset;
    bool values = form == VC_FORM_VALUES && member->kind == NPZ_ARRAY;
    uint32_t crc = 0;

    VC_REFUSE_IF(offset > total || n > total - offset, ctx, VC_E_INTERNAL, "a read beyond the end of the tensor");
    if (n == 0) {
        return VC_OK;
    }
    if (member->spool) {
        VC_CALL(vc_spool_need(ctx, &self->spool, self->file, member->entry, member->header_bytes, &member->spooled,
                              &member->data.offset, NULL));
        file = &self->spool.file;
        base = member->data.offset - member->header_bytes;
    }
    if (values && member->data.gather) {
        VC_CALL(vc_npy_data_read(ctx, &member->data, offset, dst, n));
    } else {
        VC_CALL(read_run(ctx, file, base + (values ? member->header_bytes : 0) + offset, dst, n, check != NULL, &crc));
    }
    if (check != NULL) {
        VC_CALL(note_piece(ctx, self, member, form, check, n, total - offset - n, crc));
    }
    if (values) {
        vc_bytes_swap(dst, n, member->data.swap_bytes);
    }
    return VC_OK;
}

/* vc_source_ops.read: any thread, any range. */
enum vc_status vc_npz_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                           uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    struct npz *self = model->self;
    enum vc_status status = read_form(ctx, self, &self->members[tensor], form, offset, dst, n_bytes, check);

    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->tensors[tensor].name);
}

/* vc_source_ops.ahead: stored members whose values lie as they are given out, one after the other. */
void vc_npz_ahead(const struct vc_model *model, size_t tensor, uint64_t offset, uint64_t n_bytes)
{
    const struct npz *self = model->self;
    const struct npz_member *member = &self->members[tensor];

    if (!member->spool && !(member->kind == NPZ_ARRAY && member->data.gather)) {
        vc_infile_ahead(self->file, member->entry->data_offset + member->header_bytes + offset, n_bytes);
    }
}

/* ------------------------------------------------------------------------------------------------ streams */

/* vc_source_ops.stream_bytes: what reading this tensor takes beside its destination. */
size_t vc_npz_stream_bytes(const struct vc_model *model, size_t tensor)
{
    const struct npz *self = model->self;
    const struct npz_member *member = &self->members[tensor];

    if (member->spool) {
        return vc_spool_bytes();
    }
    if (member->kind == NPZ_ARRAY && member->data.gather) {
        return VC_ZIP_BLOCK_BYTES; /* to compare the CRC; a window is smaller */
    }
    return model->io[tensor].sequential ? sizeof(struct vc_source_stream) + vc_inflate_bytes() : 0;
}

/* Inflates the npy header and drops it; its bytes count for the CRC. */
static enum vc_status skip_header(struct vc_ctx *ctx, struct vc_source_stream *stream)
{
    unsigned char skipped[512];
    size_t left = stream->member->header_bytes;

    while (left > 0) {
        size_t n = left < sizeof skipped ? left : sizeof skipped;

        VC_CALL(vc_inflate_read(ctx, stream->inflate, skipped, n));
        stream->crc = vc_crc32(stream->crc, skipped, n);
        left -= n;
    }
    return VC_OK;
}

/* vc_source_ops.stream_open; the stream stands at the first byte of the form. */
enum vc_status vc_npz_stream_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  struct vc_source_stream **out)
{
    struct npz *self = model->self;
    const struct npz_member *member = &self->members[tensor];
    struct vc_source_stream *stream = vc_alloc(ctx, VC_TAG_IO, sizeof *stream);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(stream);
    stream->model = model;
    stream->member = member;
    stream->tensor = tensor;
    stream->form = form;
    stream->inflate = NULL;
    stream->left = form_bytes(member, form);
    stream->crc = 0;
    stream->fill = (struct vc_zip_fill){.file = self->file,
                                        .offset = member->entry->data_offset,
                                        .left = member->entry->packed_bytes,
                                        .buffer = stream->buffer,
                                        .buffer_bytes = sizeof stream->buffer};
    VC_TRY(vc_inflate_open(ctx, vc_zip_fill_next, &stream->fill, &stream->inflate));
    if (form == VC_FORM_VALUES) {
        VC_TRY(skip_header(ctx, stream));
    }
    *out = stream;
    return VC_OK;
out:
    if (stream != NULL) {
        vc_inflate_close(ctx, stream->inflate);
        vc_free(ctx, stream);
    }
    return vc_context(ctx, "%s", model->tensors[tensor].name);
}

/* The next n bytes. Whole elements where bytes have to be swapped. */
static enum vc_status stream_read(struct vc_ctx *ctx, struct vc_source_stream *stream, unsigned char *dst, size_t n)
{
    unsigned unit = stream->form == VC_FORM_VALUES ? stream->member->data.swap_bytes : 0;

    VC_REFUSE_IF(n > stream->left || (unit != 0 && n % unit != 0), ctx, VC_E_INTERNAL,
                 "a read beyond the end of the tensor, or of a part of an element");
    stream->left -= n;
    while (n > 0) {
        size_t part = n < VC_ZIP_BLOCK_BYTES ? n : VC_ZIP_BLOCK_BYTES;

        VC_CALL(vc_inflate_read(ctx, stream->inflate, dst, part));
        stream->crc = vc_crc32(stream->crc, dst, part);
        vc_bytes_swap(dst, part, unit);
        dst += part;
        n -= part;
    }
    return VC_OK;
}

enum vc_status vc_npz_stream_read(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n_bytes)
{
    enum vc_status status = stream_read(ctx, stream, dst, n_bytes);

    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", stream->model->tensors[stream->tensor].name);
}

/* vc_source_ops.stream_close: a stream that was read to its end has to end there, and with the right CRC. */
enum vc_status vc_npz_stream_close(struct vc_ctx *ctx, struct vc_source_stream *stream, bool finished)
{
    enum vc_status status = VC_OK;

    if (finished && stream->left != 0) {
        status = vc_fail(ctx, VC_E_INTERNAL, "%" PRIu64 " bytes were not read", stream->left);
    } else if (finished) {
        status = vc_zip_inflate_finish(ctx, stream->inflate, &stream->fill, stream->member->entry, stream->crc);
    }
    if (status != VC_OK) {
        vc_context(ctx, "%s", stream->model->tensors[stream->tensor].name);
    }
    vc_inflate_close(ctx, stream->inflate);
    vc_free(ctx, stream);
    return status;
}
