/* comparer.c - see comparer.h: decodes both ends of a chain and compares them with the
 * kernels that `diff` uses, so that the report of a chain says what `diff` says of its source and its result. Each end
 * is an item of its own, whose steps are those that decoding takes. */
#include "passes/comparer.h"

#include "kernels/kernels.h"
#include "passes/decode.h"

/* The comparison of one item: of what enters the chain, and of what leaves it. */
struct comparison {
    struct vc_compare base; /* first: this is what core has */
    struct vc_arena arena;
    struct vc_item_set set;
    struct vc_item before, after; /* their steps decode what enters the chain, and what leaves it */
    bool is_f64;
};

static struct comparison *own(struct vc_compare *compare)
{
    return (struct comparison *)(void *)compare;
}

static void release(struct vc_ctx *ctx, struct comparison *c)
{
    vc_item_release(ctx, &c->before);
    vc_item_release(ctx, &c->after);
    vc_arena_release(ctx, &c->arena);
    vc_free(ctx, c);
}

static void compare_free(struct vc_ctx *ctx, struct vc_compare *compare)
{
    release(ctx, own(compare));
}

/* Parts that a step makes come tile by tile, and only those of the chain's end reach compare_tile. */
static bool needs_made_parts(const struct vc_desc *desc)
{
    size_t i = 0;

    while (i < desc->n_parts && (desc->parts[i].maker == NULL || desc->parts[i].apart)) {
        i++;
    }
    return i < desc->n_parts;
}

/* Floats, or what stands for some. */
static bool has_values(const struct vc_desc *desc)
{
    return vc_decode_can(desc) || vc_decode_is_f8(desc);
}

/* *out stays NULL where one of the ends has no values. If one side is f64, both are compared as f64. */
static enum vc_status compare_create(struct vc_ctx *ctx, const struct vc_item *item, size_t from,
                                     struct vc_compare **out)
{
    const struct vc_desc *first = vc_item_desc(item, from);
    struct comparison *c;
    enum vc_status status = VC_OK;

    *out = NULL;
    if (!has_values(first) || !has_values(item->desc) || needs_made_parts(first)) {
        return VC_OK; /* no values to compare */
    }
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, c, 1));
    c->base.ops = &vc_comparer_decoding;
    c->set = (struct vc_item_set){.model = item->set->model, .arena = &c->arena};
    vc_item_from(&c->set, item->source, first, &c->before);
    vc_item_from(&c->set, item->source, item->desc, &c->after);
    VC_TRY(vc_decode_add(ctx, &c->before, false));
    VC_TRY(vc_decode_add(ctx, &c->after, false));
    c->is_f64 = c->before.desc->dtype == VC_DTYPE_F64 || c->after.desc->dtype == VC_DTYPE_F64;
    if (c->is_f64 && c->before.desc->dtype == VC_DTYPE_F32) {
        VC_TRY(vc_decode_add_f64(ctx, &c->before));
    }
    if (c->is_f64 && c->after.desc->dtype == VC_DTYPE_F32) {
        VC_TRY(vc_decode_add_f64(ctx, &c->after));
    }
    *out = &c->base;
    return VC_OK;
out:
    if (c != NULL) {
        release(ctx, c);
    }
    return status;
}

/* Memory of the item's steps while a tensor is in work. */
static size_t state_bytes(const struct vc_item *item)
{
    size_t bytes = 0;

    for (size_t k = 0; k < item->chain->n_steps; k++) {
        bytes += item->chain->steps[k]->state_bytes;
    }
    return bytes;
}

/* Adds the buffers that decoding takes; returns the memory of both decoders. */
static size_t compare_sizes(struct vc_compare *compare, struct vc_buffer_sizes *before, struct vc_buffer_sizes *after)
{
    struct comparison *c = own(compare);
    struct vc_tile tile;

    vc_buffer_sizes_add(before, &c->before);
    vc_buffer_sizes_add(after, &c->after);
    before->in = 0; /* the tiles that are decoded lie in the buffers of the chain */
    after->in = 0;
    vc_desc_first_tile(c->before.first, &tile);
    size_t sums = 4 * sizeof(double) * vc_tile_chunks(&tile);
    after->sums = after->sums > sums ? after->sums : sums;
    return state_bytes(&c->before) + state_bytes(&c->after);
}

/* Both sides: the values before the passes, and those behind them. */
static enum vc_status compare_begin(struct vc_ctx *ctx, struct vc_compare *compare)
{
    struct comparison *c = own(compare);
    enum vc_status status;

    VC_TRY(vc_steps_begin(ctx, &c->before, c->before.chain->n_steps));
    VC_TRY(vc_steps_begin(ctx, &c->after, c->after.chain->n_steps));
out:
    return status; /* end undoes what was begun */
}

static void compare_end(struct vc_ctx *ctx, struct vc_compare *compare)
{
    struct comparison *c = own(compare);

    vc_steps_end(ctx, &c->before);
    vc_steps_end(ctx, &c->after);
}

/* x: f32 or f64. Values that are 0 or -0. Counted by the bits, 2^16 at a time, which compilers vectorize. */
static uint64_t count_zeros(const char *x, size_t n, bool is_f64)
{
    uint64_t zeros = 0;

    while (n != 0) {
        size_t m = n < 0x10000 ? n : 0x10000;
        uint32_t some = 0;

        for (size_t i = 0; !is_f64 && i < m; i++) {
            uint32_t bits;

            memcpy(&bits, x + 4 * i, sizeof bits);
            some += (bits << 1) == 0;
        }
        for (size_t i = 0; is_f64 && i < m; i++) {
            uint64_t bits;

            memcpy(&bits, x + 8 * i, sizeof bits);
            some += (bits << 1) == 0;
        }
        zeros += some;
        x += m * (is_f64 ? 8 : 4);
        n -= m;
    }
    return zeros;
}

/* Decodes the tile's source and result, and leaves the sums as steps do: two doubles for each chunk. */
static enum vc_status compare_tile(struct vc_ctx *ctx, struct vc_compare *compare, const struct vc_tile *tile,
                                   const struct vc_tile_in *source, const struct vc_tile_in *result,
                                   struct vc_buffers *before, struct vc_buffers *after, struct vc_tile_stats *stats)
{
    struct comparison *c = own(compare);
    const struct vc_kernels *k = vc_kernels_get(ctx);
    struct vc_diff_sums sums = {.chunk_sums = after->sums};
    struct vc_tile_result x;
    struct vc_tile_result y;

    VC_CALL_FOUND(ctx, k);
    VC_CALL(vc_steps_apply(ctx, &c->before, 0, c->before.chain->n_steps, tile, source, before, &x));
    VC_CALL(vc_steps_apply(ctx, &c->after, 0, c->after.chain->n_steps, tile, result, after, &y));
    VC_KERNEL_CALL(c->is_f64 ? k->diff_f64(x.data, y.data, tile->n_rows, tile->row_len, &sums)
                             : k->diff_f32(x.data, y.data, tile->n_rows, tile->row_len, &sums));
    for (size_t i = 0; i < vc_tile_chunks(tile); i++) { /* of four sums the first two: x * x and e * e */
        after->sums[2 * i] = sums.chunk_sums[4 * i];
        after->sums[2 * i + 1] = sums.chunk_sums[4 * i + 1];
    }
    *stats = (struct vc_tile_stats){.chunk_sums = after->sums,
                                    .max_abs_error = sums.max_abs_error,
                                    .zeros_before = count_zeros(x.data, tile->n_elems, c->is_f64)};
    return VC_OK;
}

const struct vc_comparer vc_comparer_decoding = {.create = compare_create,
                                                 .free = compare_free,
                                                 .sizes = compare_sizes,
                                                 .begin = compare_begin,
                                                 .end = compare_end,
                                                 .tile = compare_tile};
