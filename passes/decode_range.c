/* decode_range.c - see decode_range.h. A decoder is an item with the step that `dequantize` adds, which has begun; a
 * range is cut into tiles for it: runs of whole rows, or a piece of a row that begins with a whole byte. */
#include "passes/decode_range.h"

#include <string.h>

#include "core/base/checked.h"
#include "core/chain/steps.h"
#include "kernels/kernels.h"
#include "passes/decode.h"

#define UNIT 256 /* codes that begin with a whole byte, whatever their bits are, and with a whole block */

/* A tensor as an item of a pass with one step, and its rows. */
struct vc_range_decoder {
    struct vc_arena arena;
    struct vc_item_set set;
    struct vc_item item;
    uint64_t n_rows, row_len;
};

#define PIECE_ELEMS ((uint64_t)1 << 14)

static void range_close(struct vc_ctx *ctx, struct vc_range_decoder *d)
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

/* A decoder of one tensor for readers that want elements from anywhere: its steps are begun once, and each
 * call of read decodes the tiles that its range touches. */
static enum vc_status range_open(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor,
                                 struct vc_range_decoder **out)
{
    struct vc_range_decoder *d = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *d);
    enum vc_status status = VC_OK;

    VC_CALL_ALLOC(d);
    VC_TRY(vc_kernels_get(ctx) != NULL ? VC_OK : ctx->status);
    d->set = (struct vc_item_set){.model = model, .arena = &d->arena};
    VC_TRY(vc_item_make(ctx, &d->set, tensor, &d->item));
    vc_rows_of(d->item.desc->shape, d->item.desc->n_dims, &d->n_rows, &d->row_len);
    VC_TRY(vc_decode_add_codes(ctx, &d->item, VC_OVERFLOW_ERROR, true));
    VC_TRY(vc_steps_begin(ctx, &d->item, d->item.chain->n_steps));
    *out = d;
    return VC_OK;
out:
    range_close(ctx, d);
    return status;
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

/* One tile into room for it, behind the codes and the step's scratch in `buffer`. */
static enum vc_status decode_tile(struct vc_ctx *ctx, const struct vc_range_decoder *d, const struct vc_tile *tile,
                                  unsigned char *buffer, float *values)
{
    struct vc_step *step = d->item.chain->steps[0];
    const struct vc_tile_in in = {.data = buffer};
    struct vc_tile_stats stats;
    struct vc_tile_out out = {.data = values, .stats = &stats};
    uint64_t before = vc_dtype_bytes(step->in.dtype, tile->first);
    uint64_t n_bytes = vc_dtype_bytes(step->in.dtype, tile->n_elems);

    memset(&stats, 0, sizeof stats);
    VC_CALL(vc_source_read_any(ctx, d->set.model, d->item.source, VC_FORM_VALUES, before, buffer, (size_t)n_bytes));
    return step->ops->apply(ctx, step, &d->item, tile, &in, buffer + PIECE_ELEMS * 4 + 64, &out);
}

/* Elements first to first + n - 1 as f32. Tiles are decoded whole, and the range's part of them is copied. */
static enum vc_status range_read(struct vc_ctx *ctx, const struct vc_range_decoder *d, uint64_t first, uint64_t n,
                                 void *dst)
{
    struct vc_step *step = d->item.chain->steps[0];
    size_t room = PIECE_ELEMS * 4 + 64;
    unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, 2 * room + step->scratch_bytes + 64);
    unsigned char *to = dst;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(buffer);
    float *values = (float *)(void *)(buffer + room + ((step->scratch_bytes + 63) & ~(size_t)63));
    while (n != 0) {
        size_t skip;
        struct vc_tile tile = tile_at(d, first, n, &skip);
        uint64_t taken = vc_min_u64(n, tile.n_elems - skip);

        VC_TRY(decode_tile(ctx, d, &tile, buffer, values));
        memcpy(to, values + skip, (size_t)taken * sizeof *values);
        to += taken * sizeof *values;
        first += taken;
        n -= taken;
    }
out:
    vc_free(ctx, buffer);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", d->set.model->tensors[d->item.source].name);
}

const struct vc_range_decoding vc_decode_ranges = {.open = range_open, .read = range_read, .close = range_close};
