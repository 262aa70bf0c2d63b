/* npz_data.c - reads members of an open npz: stored ones by range from any thread, deflated ones front to back.
 *
 * CRC without order: the CRC of a member is the XOR of what its pieces contribute (vc_crc32_place), so pieces may be
 * read in any order by any thread; whoever completes the form compares. A member in Fortran order is read in too many
 * small pieces for that: it is read once more, in one go, when it is complete. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/checked.h"
#include "formats/npz_internal.h"

/* Small enough that the bytes are still in the cache when the CRC is taken. */
#define BLOCK_BYTES ((size_t)128 << 10)

struct vc_source_stream {
    const struct vc_model *model;
    const struct npz_member *member;
    size_t tensor;
    enum vc_form form;
    struct vc_inflate *inflate;
    struct npz_fill fill;
    uint64_t left; /* bytes of the form that were not read yet */
    uint32_t crc;
    unsigned char buffer[BLOCK_BYTES];
};

/* ------------------------------------------------------------------------------------------------ inflate */

enum vc_status npz_fill_next(struct vc_ctx *ctx, void *user, const unsigned char **data, size_t *n)
{
    struct npz_fill *fill = user;
    enum vc_status status = VC_OK;

    *data = fill->head;
    *n = fill->n_head;
    if (fill->n_head > 0) {
        fill->n_head = 0;
        return VC_OK;
    }
    *n = (size_t)vc_min_u64(fill->left, fill->buffer_bytes);
    *data = fill->buffer;
    VC_TRY(vc_infile_read(ctx, fill->file, fill->offset, fill->buffer, *n));
    fill->offset += *n;
    fill->left -= *n;
out:
    return status;
}

enum vc_status npz_compare_crc(struct vc_ctx *ctx, const struct vc_zip_entry *entry, uint32_t crc)
{
    if (crc != entry->crc) {
        return vc_fail(ctx, VC_E_FORMAT,
                       "the data is damaged: its CRC-32 is %08" PRIx32 ", the directory says %08" PRIx32, crc,
                       entry->crc);
    }
    return VC_OK;
}

enum vc_status npz_inflate_finish(struct vc_ctx *ctx, struct vc_inflate *inflate, const struct npz_fill *fill,
                                  const struct vc_zip_entry *entry, uint32_t crc)
{
    size_t n_unused = 0;
    enum vc_status status;

    VC_TRY(vc_inflate_end(ctx, inflate, &n_unused));
    if (n_unused != 0 || fill->n_head != 0 || fill->left != 0) {
        return vc_fail(ctx, VC_E_FORMAT, "%" PRIu64 " stray bytes after the deflated data",
                       n_unused + fill->n_head + fill->left);
    }
    VC_TRY(npz_compare_crc(ctx, entry, crc));
out:
    return status;
}

enum vc_status npz_read_member(struct vc_ctx *ctx, const struct vc_infile *file, const struct vc_zip_entry *entry,
                               unsigned char *dst)
{
    size_t n = (size_t)entry->size_bytes;
    struct vc_inflate *inflate = NULL;
    struct npz_fill fill = {
        .file = file, .offset = entry->data_offset, .left = entry->packed_bytes, .buffer_bytes = BLOCK_BYTES};
    enum vc_status status;

    if (entry->method == VC_ZIP_STORED) {
        VC_TRY(vc_infile_read(ctx, file, entry->data_offset, dst, n));
        VC_TRY(npz_compare_crc(ctx, entry, vc_crc32(0, dst, n)));
        goto out;
    }
    fill.buffer = vc_alloc(ctx, VC_TAG_IO, BLOCK_BYTES);
    VC_TRY_ALLOC(fill.buffer);
    VC_TRY(vc_inflate_open(ctx, npz_fill_next, &fill, &inflate));
    VC_TRY(vc_inflate_read(ctx, inflate, dst, n));
    VC_TRY(npz_inflate_finish(ctx, inflate, &fill, entry, vc_crc32(0, dst, n)));
out:
    vc_inflate_close(ctx, inflate);
    vc_free(ctx, fill.buffer);
    return status;
}

/* ------------------------------------------------------------------------------------------------ spool */

static enum vc_status spool_write(struct vc_ctx *ctx, struct npz *self, const unsigned char *data, size_t n)
{
    while (n > 0) {
        ssize_t got = pwrite(self->spool.fd, data, n, (off_t)self->spool_end);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return vc_fail_errno(ctx, errno, "cannot write to a temporary file (TMPDIR)");
        }
        data += got;
        self->spool_end += (uint64_t)got;
        n -= (size_t)got;
    }
    return VC_OK;
}

/* Inflates the whole member to the end of the spool file and checks it. */
static enum vc_status inflate_to_spool(struct vc_ctx *ctx, struct npz *self, const struct npz_member *member)
{
    const struct vc_zip_entry *entry = member->entry;
    struct npz_fill fill = {
        .file = self->file, .offset = entry->data_offset, .left = entry->packed_bytes, .buffer_bytes = BLOCK_BYTES};
    struct vc_inflate *inflate = NULL;
    unsigned char *plain = NULL;
    uint64_t left = entry->size_bytes;
    uint32_t crc = 0;
    enum vc_status status;

    fill.buffer = vc_alloc(ctx, VC_TAG_IO, BLOCK_BYTES);
    VC_TRY_ALLOC(fill.buffer);
    plain = vc_alloc(ctx, VC_TAG_IO, BLOCK_BYTES);
    VC_TRY_ALLOC(plain);
    VC_TRY(vc_inflate_open(ctx, npz_fill_next, &fill, &inflate));
    while (left > 0) {
        size_t n = (size_t)vc_min_u64(left, BLOCK_BYTES);

        VC_TRY(vc_check_cancelled(ctx));
        VC_TRY(vc_inflate_read(ctx, inflate, plain, n));
        crc = vc_crc32(crc, plain, n);
        VC_TRY(spool_write(ctx, self, plain, n));
        left -= n;
    }
    VC_TRY(npz_inflate_finish(ctx, inflate, &fill, entry, crc));
out:
    vc_inflate_close(ctx, inflate);
    vc_free(ctx, plain);
    vc_free(ctx, fill.buffer);
    return status;
}

static enum vc_status need_spool(struct vc_ctx *ctx, struct npz *self, struct npz_member *member)
{
    uint64_t start;
    enum vc_status status = VC_OK;

    if (atomic_load_explicit(&member->spooled, memory_order_acquire)) {
        return VC_OK;
    }
    pthread_mutex_lock(&self->spool_lock);
    if (atomic_load_explicit(&member->spooled, memory_order_acquire)) {
        goto out;
    }
    if (self->spool.fd < 0) {
        self->spool.fd = vc_tempfile_open(ctx);
        if (self->spool.fd < 0) {
            status = VC_E_IO;
            goto out;
        }
    }
    start = self->spool_end;
    status = inflate_to_spool(ctx, self, member);
    if (status != VC_OK) {
        self->spool_end = start;
        goto out;
    }
    member->data.offset = start + member->header_bytes;
    atomic_store_explicit(&member->spooled, true, memory_order_release);
out:
    pthread_mutex_unlock(&self->spool_lock);
    return status;
}

/* ------------------------------------------------------------------------------------------------ checks */

static uint64_t form_bytes(const struct npz_member *member, enum vc_form form)
{
    return form == VC_FORM_VALUES && member->kind == NPZ_ARRAY ? member->data.size_bytes : member->entry->size_bytes;
}

static enum vc_status check_whole_file(struct vc_ctx *ctx, const struct npz *self, const struct npz_member *member)
{
    unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, BLOCK_BYTES);
    uint64_t left = member->entry->size_bytes;
    uint64_t at = member->entry->data_offset;
    uint32_t crc = 0;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(buffer);
    while (left > 0) {
        size_t n = (size_t)vc_min_u64(left, BLOCK_BYTES);

        VC_TRY(vc_infile_read(ctx, self->file, at, buffer, n));
        crc = vc_crc32(crc, buffer, n);
        at += n;
        left -= n;
    }
    VC_TRY(npz_compare_crc(ctx, member->entry, crc));
out:
    vc_free(ctx, buffer);
    return status;
}

/* Counts a piece of a form; when that completes it, the CRC is compared and counting starts again. crc: of the piece,
 * which ends n_after bytes before the end of the member. */
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
        return check_whole_file(ctx, self, member);
    }
    if (form == VC_FORM_VALUES) {
        crc ^= vc_crc32_place(member->header_crc, total);
    }
    return npz_compare_crc(ctx, member->entry, crc);
}

/* ------------------------------------------------------------------------------------------------ by range */

/* A run of bytes of the file, with its CRC where that is wanted. */
static enum vc_status read_run(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t offset, unsigned char *dst,
                               size_t n, bool check, uint32_t *crc)
{
    enum vc_status status = VC_OK;

    *crc = 0;
    while (n > 0) {
        size_t part = n < BLOCK_BYTES ? n : BLOCK_BYTES;

        VC_TRY(vc_infile_read(ctx, file, offset, dst, part));
        if (check) {
            *crc = vc_crc32(*crc, dst, part);
        }
        offset += part;
        dst += part;
        n -= part;
    }
out:
    return status;
}

static enum vc_status read_form(struct vc_ctx *ctx, struct npz *self, struct npz_member *member, enum vc_form form,
                                uint64_t offset, unsigned char *dst, size_t n, struct vc_check *check)
{
    const struct vc_infile *file = self->file;
    uint64_t total = form_bytes(member, form);
    uint64_t base = member->entry->data_offset;
    bool values = form == VC_FORM_VALUES && member->kind == NPZ_ARRAY;
    uint32_t crc = 0;
    enum vc_status status = VC_OK;

    if (offset > total || n > total - offset) {
        return vc_fail(ctx, VC_E_INTERNAL, "a read beyond the end of the tensor");
    }
    if (n == 0) {
        return VC_OK;
    }
    if (member->spool) {
        VC_TRY(need_spool(ctx, self, member));
        file = &self->spool;
        base = member->data.offset - member->header_bytes;
    }
    if (values && member->data.gather) {
        VC_TRY(vc_npy_data_read(ctx, &member->data, offset, dst, n));
    } else {
        VC_TRY(read_run(ctx, file, base + (values ? member->header_bytes : 0) + offset, dst, n, check != NULL, &crc));
    }
    if (check != NULL) {
        VC_TRY(note_piece(ctx, self, member, form, check, n, total - offset - n, crc));
    }
    if (values) {
        vc_npy_swap(dst, n, member->data.swap_bytes);
    }
out:
    return status;
}

enum vc_status npz_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                        uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check)
{
    struct npz *self = model->self;
    enum vc_status status = read_form(ctx, self, &self->members[tensor], form, offset, dst, n_bytes, check);

    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", model->tensors[tensor].name);
}

/* ------------------------------------------------------------------------------------------------ streams */

size_t npz_stream_bytes(const struct vc_model *model, size_t tensor)
{
    const struct npz *self = model->self;
    const struct npz_member *member = &self->members[tensor];

    if (member->spool) {
        return 2 * BLOCK_BYTES + vc_inflate_bytes();
    }
    if (member->kind == NPZ_ARRAY && member->data.gather) {
        return BLOCK_BYTES; /* to compare the CRC; a window is smaller */
    }
    return model->io[tensor].sequential ? sizeof(struct vc_source_stream) + vc_inflate_bytes() : 0;
}

static enum vc_status skip_header(struct vc_ctx *ctx, struct vc_source_stream *stream)
{
    unsigned char skipped[512];
    size_t left = stream->member->header_bytes;
    enum vc_status status = VC_OK;

    while (left > 0) {
        size_t n = left < sizeof skipped ? left : sizeof skipped;

        VC_TRY(vc_inflate_read(ctx, stream->inflate, skipped, n));
        stream->crc = vc_crc32(stream->crc, skipped, n);
        left -= n;
    }
out:
    return status;
}

enum vc_status npz_stream_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
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
    stream->fill = (struct npz_fill){.file = self->file,
                                     .offset = member->entry->data_offset,
                                     .left = member->entry->packed_bytes,
                                     .buffer = stream->buffer,
                                     .buffer_bytes = sizeof stream->buffer};
    VC_TRY(vc_inflate_open(ctx, npz_fill_next, &stream->fill, &stream->inflate));
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

static enum vc_status stream_read(struct vc_ctx *ctx, struct vc_source_stream *stream, unsigned char *dst, size_t n)
{
    unsigned unit = stream->form == VC_FORM_VALUES ? stream->member->data.swap_bytes : 0;
    enum vc_status status = VC_OK;

    if (n > stream->left || (unit != 0 && n % unit != 0)) {
        return vc_fail(ctx, VC_E_INTERNAL, "a read beyond the end of the tensor, or of a part of an element");
    }
    stream->left -= n;
    while (n > 0) {
        size_t part = n < BLOCK_BYTES ? n : BLOCK_BYTES;

        VC_TRY(vc_inflate_read(ctx, stream->inflate, dst, part));
        stream->crc = vc_crc32(stream->crc, dst, part);
        vc_npy_swap(dst, part, unit);
        dst += part;
        n -= part;
    }
out:
    return status;
}

enum vc_status npz_stream_read(struct vc_ctx *ctx, struct vc_source_stream *stream, void *dst, size_t n_bytes)
{
    enum vc_status status = stream_read(ctx, stream, dst, n_bytes);

    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", stream->model->tensors[stream->tensor].name);
}

enum vc_status npz_stream_close(struct vc_ctx *ctx, struct vc_source_stream *stream, bool finished)
{
    enum vc_status status = VC_OK;

    if (finished && stream->left != 0) {
        status = vc_fail(ctx, VC_E_INTERNAL, "%" PRIu64 " bytes were not read", stream->left);
    } else if (finished) {
        status = npz_inflate_finish(ctx, stream->inflate, &stream->fill, stream->member->entry, stream->crc);
    }
    if (status != VC_OK) {
        vc_context(ctx, "%s", stream->model->tensors[stream->tensor].name);
    }
    vc_inflate_close(ctx, stream->inflate);
    vc_free(ctx, stream);
    return status;
}
