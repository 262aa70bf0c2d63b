/* decode_range.c - see decode_range.h. A decoder is an item with the step that `dequantize` adds, or with other steps, which have begun; a
 * range is cut into tiles for it: runs of whole rows, or a piece of a row that begins with a whole byte. */
#include "passes/decode_range.h"

#include "core/chain/tile_reader.h"
#include "kernels/kernels.h"
#include "passes/decode.h"

#define UNIT 256 /* codes that begin with a whole byte, whatever their bits are, and with a whole block */

/* A tensor as an item of a pass, and its rows. */
struct vc_range_decoder {
    struct vc_arena arena;
    struct vc_item_set set;
    struct vc_item item;
    uint64_t n_rows, row_len;
};

#define PIECE_ELEMS ((uint64_t)1 << 14)

void vc_range_close(struct vc_ctx *ctx, struct vc_range_decoder *d)
{
    if (d != NULL) {
        if (d->item.set != NULL) {
            vc_steps_end(ctx, &d->item);
            vc_item_release(ctx, &d->item);
        }
        vc_arena_release(ctx, &d->arena);
        vc_free(ctx, d);
    }
}

/* Begins the steps. Those that look at all values first do that now, tile by tile. */
static enum vc_status begin(struct vc_ctx *ctx, struct vc_range_decoder *d)
{
    struct vc_tile_reader reader = {.item = NULL};
    struct vc_buffer_sizes sizes = {.in = 0};
    struct vc_buffers buffers = {.block = NULL};
    bool scans = false;

    for (size_t k = 0; k < d->item.chain->n_steps; k++) {
        scans = scans || d->item.chain->steps[k]->scan;
    }
    if (!scans) {
        return vc_steps_begin(ctx, &d->item, d->item.chain->n_steps);
    }
    vc_buffer_sizes_add(&sizes, &d->item);
    VC_CALL(vc_buffers_alloc(ctx, &sizes, &buffers));
    enum vc_status status = vc_tile_reader_open(ctx, &d->item, &buffers, &reader);
    vc_source_reader_stop(ctx, &reader.reader); /* not closed: the steps have begun */
    vc_buffers_release(ctx, &buffers);
    return status;
}

/* A decoder of one tensor for readers that want elements from anywhere: its steps are begun once, and each
 * call of read makes the tiles that its range touches. */
enum vc_status vc_range_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, vc_range_add_fn *add,
                             const void *user, struct vc_range_decoder **out)
{
    struct vc_range_decoder *d = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *d);
    enum vc_status status = VC_OK;

    VC_CALL_ALLOC(d);
    VC_TRY(vc_kernels_get(ctx) != NULL ? VC_OK : ctx->status);
    d->set = (struct vc_item_set){.model = model, .arena = &d->arena};
    VC_TRY(vc_item_make(ctx, &d->set, tensor, &d->item));
    vc_rows_of(d->item.desc->shape, d->item.desc->n_dims, &d->n_rows, &d->row_len);
    VC_TRY(add(ctx, &d->item, user));
    VC_TRY(begin(ctx, d));
    *out = d;
    return VC_OK;
out:
    vc_range_close(ctx, d);
    return status;
}

static enum vc_status add_decoder(struct vc_ctx *ctx, struct vc_item *item, const void *user)
{
    return vc_decode_add_codes(ctx, item, VC_OVERFLOW_ERROR, true);
}

static enum vc_status range_open(struct vc_ctx *ctx, const struct vc_range_decoding *how, const struct vc_model *model,
                                 size_t tensor, struct vc_range_decoder **out)
{
    return vc_range_open(ctx, model, tensor, add_decoder, NULL, out);
}

/* The tile that has value number `first`, with no more than n behind its start there. *skip: values of it in front. */
static struct vc_tile tile_at(const struct vc_range_decoder *d, uint64_t first, uint64_t n, size_t *skip)
{
    uint64_t column = first % d->row_len;
    uint64_t begin = column - column % UNIT;
    uint64_t rows = vc_min_u64(n, PIECE_ELEMS) / d->row_len;
    struct vc_tile tile = {.first = first, .row0 = first / d->row_len};

    if (column == 0 && rows > 0) {
        tile.n_rows = (size_t)rows;
        tile.row_len = (size_t)d->row_len;
    } else { /* up to a whole byte, or the end of the row */
        uint64_t end = vc_min_u64(column + n, begin + PIECE_ELEMS);

        tile.n_rows = 1;
        tile.first -= column - begin;
        tile.col0 = begin;
        tile.row_len = (size_t)(vc_min_u64(d->row_len, (end + UNIT - 1) / UNIT * UNIT) - begin);
    }
    tile.n_elems = tile.n_rows * tile.row_len;
    tile.whole_rows = tile.row_len == d->row_len;
    *skip = (size_t)(first - tile.first);
    return tile;
}

/* Room of one call: a tile as it is read and as each step leaves it, in turns; scratch; sums of figures. */
struct room {
    unsigned char *block;
    unsigned char *tile[2];
    unsigned char *scratch;
    double *sums;
};

static enum vc_status make_room(struct vc_ctx *ctx, const struct vc_range_decoder *d, struct room *room)
{
    size_t tile = PIECE_ELEMS * 4 + 64;
    size_t scratch = 0;

    for (size_t k = 0; k < d->item.chain->n_steps; k++) {
        size_t own = (d->item.chain->steps[k]->scratch_bytes + 63) & ~(size_t)63;

        scratch = own > scratch ? own : scratch;
    }
    VC_CALL_ALLOC(room->block = vc_alloc(ctx, VC_TAG_IO, 2 * tile + scratch + PIECE_ELEMS * 2 * sizeof(double)));
    room->tile[0] = room->block;
    room->tile[1] = room->block + tile;
    room->scratch = room->tile[1] + tile;
    room->sums = (double *)(void *)(room->scratch + scratch);
    return VC_OK;
}

/* One tile through all steps; *values: what the last one made. */
static enum vc_status make_tile(struct vc_ctx *ctx, const struct vc_range_decoder *d, const struct vc_tile *tile,
                                const struct room *room, const unsigned char **values)
{
    enum vc_dtype dtype = d->item.first->dtype;

    VC_CALL(vc_source_read_any(ctx, d->set.model, d->item.source, VC_FORM_VALUES, vc_dtype_bytes(dtype, tile->first),
                               room->tile[0], (size_t)vc_dtype_bytes(dtype, tile->n_elems)));
    for (size_t k = 0; k < d->item.chain->n_steps; k++) {
        struct vc_step *step = d->item.chain->steps[k];
        const struct vc_tile_in in = {.data = room->tile[k % 2]};
        struct vc_tile_stats stats = {.chunk_sums = room->sums};
        struct vc_tile_out out = {.data = room->tile[(k + 1) % 2], .stats = &stats};

        VC_CALL(step->ops->apply(ctx, step, &d->item, tile, &in, room->scratch, &out));
    }
    *values = room->tile[d->item.chain->n_steps % 2];
    return VC_OK;
}

/* Elements first to first + n - 1. Tiles are made whole, and the range's part of them is copied. */
enum vc_status vc_range_read(struct vc_ctx *ctx, const struct vc_range_decoder *d, uint64_t first, uint64_t n,
                             void *dst)
{
    size_t size = vc_dtype_size(d->item.desc->dtype);
    struct room room = {.block = NULL};
    unsigned char *to = dst;
    enum vc_status status = VC_OK;

    VC_TRY(make_room(ctx, d, &room));
    while (n != 0) {
        const unsigned char *values;
        size_t skip;
        struct vc_tile tile = tile_at(d, first, n, &skip);
        uint64_t taken = vc_min_u64(n, tile.n_elems - skip);

        VC_TRY(make_tile(ctx, d, &tile, &room, &values));
        memcpy(to, values + skip * size, (size_t)taken * size);
        to += taken * size;
        first += taken;
        n -= taken;
    }
out:
    vc_free(ctx, room.block);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", d->set.model->tensors[d->item.source].name);
}

/* Codes with their scales, or blocks that have them inside. */
static bool is_code(const struct vc_range_decoding *how, const struct vc_model *model, size_t tensor)
{
    return model->tensors[tensor].quant != NULL || vc_dtype_is_quantized(model->tensors[tensor].dtype);
}

const struct vc_range_decoding vc_decode_ranges = {
    .takes = is_code, .open = range_open, .read = vc_range_read, .close = vc_range_close};
