/* npz_deflate.c - npz output with compressed members: pieces are compressed on any thread and appended in order.
 *
 *     npy header | sync flush | values of tile 0 | sync flush | tile 1 | sync flush | ... | last tile, end of stream
 *     one member                                                           sizes go into its local header after it
 *
 * Pieces are the tiles of the values, whether these are made, copied with their header from the source, or parts that
 * waited in a spool: a chain of passes then gives the bytes of one after the other.
 *
 * How a member is compressed is decided on its first piece; the packs of its later pieces wait for that, so the result
 * does not depend on timing. Where the first piece does not shrink, the member is stored. Scales and zero points arrive
 * between the pieces of their tensor and wait in a spool until it is complete. */
#include <errno.h>
#include <unistd.h>

#include "formats/io/infile.h"
#include "formats/npz/npy_write.h"
#include "formats/npz/npz_sink.h"
#include "formats/zip/codec.h"

#define VC_SPOOL_MEMORY_BYTES ((size_t)1 << 20)

/* ---- buffers ---- */

/* A packet buffer holds the encoder's memory, then the compressed npy header and piece. */
static size_t pack_bound(const struct vc_sink *sink, size_t n_bytes)
{
    uint64_t bytes = vc_deflate_work_bytes() + vc_deflate_bound(VC_NPY_WRITE_MAX) + vc_deflate_bound(n_bytes);

    (void)vc_round_up_u64(bytes, VC_POOL_ALIGN, &bytes);
    return (size_t)bytes;
}

/* Called by the layout: how large the spools in memory are, and what begin will allocate. */
static size_t plan_buffers(struct npz_sink *self)
{
    uint64_t largest = 0;
    size_t n_parts = 0;

    self->n_spools = 0;
    self->part_bytes = 0;
    for (size_t i = 0; i < self->outs->n; i++) {
        const struct vc_out_tensor t = vc_out_at(self->outs, i);

        n_parts = t.role != VC_PART_CODES ? n_parts + 1 : 0;
        self->n_spools = n_parts > self->n_spools ? n_parts : self->n_spools;
        if (n_parts != 0) {
            uint64_t tile = vc_min_u64(t.size_bytes, vc_dtype_bytes(t.dtype, VC_TILE_ELEMS));

            largest = vc_max_u64(largest, t.size_bytes);
            self->part_bytes = (size_t)vc_max_u64(self->part_bytes, tile);
        }
    }
    self->spool_bytes = (size_t)vc_min_u64(largest, VC_SPOOL_MEMORY_BYTES);
    return self->n_spools * self->spool_bytes + self->part_bytes + pack_bound(NULL, self->part_bytes);
}

/* Bytes of the npy header that a raw member brings. What is in front of the values: the member's size without the bytes
 * of its elements. */
static uint32_t own_header_bytes(const struct vc_out_tensor *out)
{
    uint64_t n = 1;

    if (out->form != VC_FORM_RAW || out->dtype == VC_DTYPE_RAW || out->dtype == VC_DTYPE_VOID) {
        return 0;
    }
    for (unsigned d = 0; d < out->n_dims; d++) {
        n *= out->shape[d];
    }
    n = vc_dtype_bytes(out->dtype, n);
    return n < out->size_bytes && out->size_bytes - n <= UINT32_MAX ? (uint32_t)(out->size_bytes - n) : 0;
}

/* vc_sink_ops.layout. The size of the file is not known before: *file_bytes is 0. */
static enum vc_status deflate_layout(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_out_list *outs,
                                     uint64_t *file_bytes)
{
    struct npz_sink *self = sink->self;

    VC_CALL(vc_npz_place(ctx, sink, outs));
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, self->deflated, outs->n));
    for (size_t i = 0; i < outs->n; i++) {
        const struct vc_out_tensor out = vc_out_at(outs, i);

        self->deflated[i].own_header = own_header_bytes(&out);
    }
    sink->memory_bytes += plan_buffers(sink->self);
    *file_bytes = 0;
    return VC_OK;
}

/* vc_sink_ops.begin. Everything that the writer needs in memory is allocated before the first tile, so that it cannot
 * run out of memory later. */
static enum vc_status deflate_begin(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct npz_sink *self = sink->self;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_IO, self->spools, self->n_spools));
    for (size_t i = 0; i < self->n_spools; i++) {
        self->spools[i].fd = -1;
    }
    for (size_t i = 0; i < self->n_spools; i++) {
        VC_CALL_ALLOC(self->spools[i].memory = vc_alloc(ctx, VC_TAG_IO, self->spool_bytes));
    }
    if (self->n_spools != 0) {
        VC_CALL_ALLOC(self->piece = vc_alloc(ctx, VC_TAG_IO, self->part_bytes));
        VC_CALL_ALLOC(self->packed = vc_alloc(ctx, VC_TAG_IO, pack_bound(NULL, self->part_bytes)));
    }
    return vc_file_sink_begin(ctx, sink);
}

/* vc_sink_ops.free */
static void deflate_free(struct vc_ctx *ctx, struct vc_sink *sink)
{
    struct npz_sink *self = sink->self;

    for (size_t i = 0; self->spools != NULL && i < self->n_spools; i++) {
        if (self->spools[i].fd >= 0) {
            (void)close(self->spools[i].fd);
        }
        vc_free(ctx, self->spools[i].memory);
    }
    VC_FREE_ALL(ctx, self->spools, self->piece, self->packed, self->deflated);
    vc_npz_sink_free(ctx, sink);
}

/* ---- compressing a piece ---- */

/* The decision about a member is made: packs of its later pieces may go on. */
static void publish(struct npz_sink *self, size_t out, enum npz_packing packing, enum vc_strategy strategy)
{
    (void)pthread_mutex_lock(&self->mutex);
    self->deflated[out].packing = packing;
    self->deflated[out].strategy = (int)strategy;
    self->archive.members[out].zip.method = packing == NPZ_DEFLATED ? VC_ZIP_METHOD_DEFLATE : VC_ZIP_METHOD_STORED;
    (void)pthread_cond_broadcast(&self->decided);
    (void)pthread_mutex_unlock(&self->mutex);
}

/* Waits until the first piece of the member has decided. Tiles start in order, so the first piece is always under way;
 * an interrupt ends the wait when another worker has failed. */
static enum vc_status wait_decided(struct vc_ctx *ctx, struct npz_sink *self, size_t out, enum npz_packing *packing)
{
    const struct npz_deflated *member = &self->deflated[out];

    (void)pthread_mutex_lock(&self->mutex);
    while (member->packing == NPZ_UNDECIDED && !self->interrupted) {
        (void)pthread_cond_wait(&self->decided, &self->mutex);
    }
    *packing = member->packing;
    (void)pthread_mutex_unlock(&self->mutex);
    return *packing != NPZ_UNDECIDED ? VC_OK : vc_fail(ctx, VC_E_CANCELLED, "an earlier part failed");
}

/* The first piece of a member: chooses the strategy by its values, compresses npy header and values, and says whether
 * that was worth it. A raw member brings its header. */
static enum vc_status pack_first(struct vc_ctx *ctx, struct npz_sink *self, bool last, struct vc_packet *packet)
{
    size_t own_header = self->deflated[packet->out].own_header;
    unsigned char made[VC_NPY_WRITE_MAX];
    const unsigned char *header = own_header != 0 ? packet->data : made;
    const unsigned char *values = (const unsigned char *)packet->data + own_header;
    size_t n_values = packet->n_plain - own_header;
    size_t n_header = own_header + self->archive.members[packet->out].front_bytes; /* one of them is 0 */
    unsigned char *work = packet->buffer;
    unsigned char *dst = work + vc_deflate_work_bytes();
    size_t room = packet->buffer_bytes - vc_deflate_work_bytes();
    enum vc_strategy strategy = VC_STRATEGY_ISAL;
    size_t n_packed = 0;
    size_t n = 0;

    if (n_values == 0) { /* as a tensor without elements that a step made */
        publish(self, packet->out, NPZ_STORED, strategy);
        return VC_OK;
    }
    if (self->deflate != VC_DEFLATE_ISAL) {
        VC_CALL(vc_deflate_choose(ctx, values, n_values, self->deflate == VC_DEFLATE_AUTO, work, dst, &strategy));
    }
    if (n_header != 0) {
        vc_npz_make_header(self, packet->out, made);
        VC_CALL(vc_deflate_piece(ctx, strategy, false, header, n_header, work, dst, room, &n_packed));
    }
    VC_CALL(vc_deflate_piece(ctx, strategy, last, values, n_values, work, dst + n_packed, room - n_packed, &n));
    if (n_packed + n < n_header + n_values) {
        packet->data = dst;
        packet->n_bytes = n_packed + n;
        publish(self, packet->out, NPZ_DEFLATED, strategy);
    } else {
        publish(self, packet->out, NPZ_STORED, strategy);
    }
    return VC_OK;
}

/* A later piece: compressed as the first one was, or left as it is. */
static enum vc_status pack_next(struct vc_ctx *ctx, struct npz_sink *self, bool last, struct vc_packet *packet)
{
    unsigned char *work = packet->buffer;
    unsigned char *dst = work + vc_deflate_work_bytes();
    enum npz_packing packing;

    VC_CALL(wait_decided(ctx, self, packet->out, &packing));
    if (packing == NPZ_DEFLATED) {
        VC_CALL(vc_deflate_piece(ctx, (enum vc_strategy)self->deflated[packet->out].strategy, last, packet->data,
                                 packet->n_plain, work, dst, packet->buffer_bytes - vc_deflate_work_bytes(),
                                 &packet->n_bytes));
        packet->data = dst;
    }
    return VC_OK;
}

/* Which of the two a packet is. The last piece ends the stream. */
static enum vc_status pack_piece(struct vc_ctx *ctx, struct npz_sink *self, struct vc_packet *packet)
{
    bool last = packet->offset + packet->n_plain == vc_out_at(self->outs, packet->out).size_bytes;

    return packet->offset == 0 ? pack_first(ctx, self, last, packet) : pack_next(ctx, self, last, packet);
}

/* vc_sink_ops.pack. Parts are not compressed here: their pieces are too small, and come in between. */
static enum vc_status deflate_pack(struct vc_ctx *ctx, struct vc_sink *sink, struct vc_packet *packet)
{
    struct npz_sink *self = sink->self;
    const struct vc_out_tensor t = vc_out_at(self->outs, packet->out);
    uint64_t n_after = t.size_bytes - packet->offset - packet->n_plain;

    packet->check = vc_crc32_place(vc_crc32(0, packet->data, packet->n_plain), n_after);
    return t.role != VC_PART_CODES ? VC_OK : pack_piece(ctx, self, packet);
}

/* ---- appending ---- */

/* The member begins at the end of what is written. Its compressed size is not known: zip64 fields are kept wherever it
 * could become too large for 32 bits. */
static enum vc_status start_member(struct vc_ctx *ctx, struct npz_sink *self, size_t out)
{
    struct vc_zip_member *zip = &self->archive.members[out].zip;
    uint64_t plain = zip->size_bytes; /* checked by the layout */

    self->deflated[out].started = true;
    VC_REFUSE_IF(plain > UINT64_MAX / 2 || !vc_zip_place(zip, self->position, plain + (plain >> 2) + 1024), ctx,
                 VC_E_UNSUPPORTED, "%s: the output would be too large", vc_out_at(self->outs, out).name);
    self->position = zip->data_offset;
    return VC_OK;
}

/* Writes at the end of the output. */
static enum vc_status append(struct vc_ctx *ctx, struct npz_sink *self, const void *data, size_t n)
{
    enum vc_status status = vc_outfile_write(ctx, self->archive.file, self->position, data, n);

    self->position += n;
    return status;
}

/* The npy header of a member that is stored. */
static enum vc_status append_header(struct vc_ctx *ctx, struct npz_sink *self, size_t out)
{
    unsigned char header[VC_NPY_WRITE_MAX];

    vc_npz_make_header(self, out, header);
    return append(ctx, self, header, self->archive.members[out].front_bytes);
}

/* A packet of the current member. Only the emitting thread gets here, after the member was decided. */
static enum vc_status append_packet(struct vc_ctx *ctx, struct npz_sink *self, const struct vc_packet *packet)
{
    enum npz_packing packing;

    VC_CALL(wait_decided(ctx, self, packet->out, &packing));
    if (!self->deflated[packet->out].started) {
        VC_CALL(start_member(ctx, self, packet->out));
        if (packing == NPZ_STORED) {
            VC_CALL(append_header(ctx, self, packet->out));
        }
    }
    atomic_fetch_add(&self->archive.members[packet->out].got, packet->n_plain);
    return append(ctx, self, packet->data, packet->n_bytes);
}

/* ---- parts ---- */

/* Which spool the part uses: the number of parts between it and its main tensor. */
static size_t spool_of(const struct npz_sink *self, size_t out)
{
    size_t n = 0;

    while (vc_out_at(self->outs, out).role != VC_PART_CODES && vc_out_at(self->outs, out - n).role != VC_PART_CODES) {
        n++;
    }
    return n - 1;
}

static enum vc_status spool_io_failed(struct vc_ctx *ctx, const struct npz_sink *self, size_t out, const char *what)
{
    return vc_fail_errno(ctx, errno, "%s: cannot %s a temporary file (TMPDIR)", vc_out_at(self->outs, out).name, what);
}

/* A piece of a part: into memory, or into a temporary file where the part is larger than the memory for it. */
static enum vc_status spool_store(struct vc_ctx *ctx, struct npz_sink *self, const struct vc_packet *packet)
{
    struct npz_spool *spool = &self->spools[spool_of(self, packet->out)];
    const unsigned char *from = packet->data;
    size_t done = 0;

    atomic_fetch_add(&self->archive.members[packet->out].got, packet->n_plain);
    if (vc_out_at(self->outs, packet->out).size_bytes <= self->spool_bytes) {
        memcpy(spool->memory + packet->offset, packet->data, packet->n_plain);
        return VC_OK;
    }
    if (spool->fd < 0) {
        spool->fd = vc_tempfile_open(ctx);
        if (spool->fd < 0) {
            return VC_E_IO;
        }
    }
    while (done < packet->n_plain) {
        ssize_t n = pwrite(spool->fd, from + done, packet->n_plain - done, (off_t)(packet->offset + done));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return spool_io_failed(ctx, self, packet->out, "write");
        }
        done += (size_t)n;
    }
    return VC_OK;
}

/* *data: n bytes of a part from `offset` on, in memory or read back. */
static enum vc_status spool_fetch(struct vc_ctx *ctx, struct npz_sink *self, size_t out, uint64_t offset, size_t n,
                                  const void **data)
{
    struct npz_spool *spool = &self->spools[spool_of(self, out)];
    size_t done = 0;

    if (vc_out_at(self->outs, out).size_bytes <= self->spool_bytes) {
        *data = spool->memory + offset;
        return VC_OK;
    }
    while (done < n) {
        ssize_t got = pread(spool->fd, self->piece + done, n - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            errno = got < 0 ? errno : EIO;
            return spool_io_failed(ctx, self, out, "read");
        }
        done += (size_t)got;
    }
    *data = self->piece;
    return VC_OK;
}

/* The main tensor is complete: its part is compressed and appended, tile by tile. */
static enum vc_status append_part(struct vc_ctx *ctx, struct npz_sink *self, size_t out)
{
    const struct vc_out_tensor t = vc_out_at(self->outs, out);
    uint64_t got = atomic_load(&self->archive.members[out].got);
    uint64_t n_rows, row_len;

    VC_REFUSE_IF(got != t.size_bytes, ctx, VC_E_INTERNAL, "%s: %" PRIu64 " of %" PRIu64 " bytes were written", t.name,
                 got, t.size_bytes);
    atomic_store(&self->archive.members[out].got, 0); /* now counted as they are appended */
    vc_rows_of(t.shape, t.n_dims, &n_rows, &row_len);
    uint64_t n_tiles = vc_tile_count(n_rows, row_len);
    for (uint64_t i = 0; i < n_tiles; i++) {
        struct vc_packet packet = {
            .out = out, .buffer = self->packed, .buffer_bytes = pack_bound(NULL, self->part_bytes)};
        struct vc_tile tile;

        vc_tile_get(n_rows, row_len, i, &tile);
        packet.offset = vc_dtype_bytes(t.dtype, tile.first);
        packet.n_plain = (size_t)vc_dtype_bytes(t.dtype, tile.n_elems);
        packet.n_bytes = packet.n_plain;
        VC_CALL(spool_fetch(ctx, self, out, packet.offset, packet.n_plain, &packet.data));
        VC_CALL(pack_piece(ctx, self, &packet));
        VC_CALL(append_packet(ctx, self, &packet));
    }
    return VC_OK;
}

/* ---- members in order ---- */

/* The current member is complete: its part's values come out of the spool, its local header is written. */
static enum vc_status finish_member(struct vc_ctx *ctx, struct npz_sink *self)
{
    size_t out = self->current;
    struct vc_zip_member *zip = &self->archive.members[out].zip;

    if (vc_out_at(self->outs, out).role != VC_PART_CODES) {
        VC_CALL(append_part(ctx, self, out));
    }
    if (!self->deflated[out].started) { /* without elements */
        VC_CALL(start_member(ctx, self, out));
        VC_CALL(append_header(ctx, self, out));
    }
    zip->packed_bytes = self->position - zip->data_offset;
    VC_CALL(vc_npz_complete_member(ctx, self, out, false));
    self->current++;
    return VC_OK;
}

/* vc_sink_ops.emit, one call at a time and in order. A packet of a later tensor means that those before it are
 * complete. */
static enum vc_status deflate_emit(struct vc_ctx *ctx, struct vc_sink *sink, const struct vc_packet *packet)
{
    struct npz_sink *self = sink->self;

    atomic_fetch_xor(&self->archive.members[packet->out].crc, (unsigned)packet->check);
    if (vc_out_at(self->outs, packet->out).role != VC_PART_CODES) {
        return spool_store(ctx, self, packet);
    }
    while (self->current < packet->out) {
        VC_CALL(finish_member(ctx, self));
    }
    return append_packet(ctx, self, packet);
}

static enum vc_status deflate_finish(struct vc_ctx *ctx, struct vc_sink *sink, uint64_t *file_bytes)
{
    struct npz_sink *self = sink->self;

    while (self->current < self->outs->n) {
        VC_CALL(finish_member(ctx, self));
    }
    return vc_npz_sink_close_archive(ctx, self, self->position, file_bytes);
}

/* vc_sink_ops.interrupt: whoever waits in wait_decided gives up. */
static void deflate_interrupt(struct vc_sink *sink)
{
    struct npz_sink *self = sink->self;

    (void)pthread_mutex_lock(&self->mutex);
    self->interrupted = true;
    (void)pthread_cond_broadcast(&self->decided);
    (void)pthread_mutex_unlock(&self->mutex);
}

const struct vc_sink_ops vc_npz_deflate_ops = {.layout = deflate_layout,
                                               .begin = deflate_begin,
                                               .pack_bound = pack_bound,
                                               .pack = deflate_pack,
                                               .emit = deflate_emit,
                                               .finish = deflate_finish,
                                               .commit = vc_file_sink_commit,
                                               .interrupt = deflate_interrupt,
                                               .free = deflate_free,
                                               .can_hold = vc_npz_sink_can_hold};
