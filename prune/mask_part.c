/* mask_part.c - see mask_part.h. The mask of a tensor is an output of u8, a bit for each weight. Tiles may end inside
 * of a byte, so that two tiles have bits of it:
 *
 *     tile 0: weights 0..20      byte 2: bits 0..4 are of tile 0, bits 5..7 of tile 1
 *     tile 1: weights 21..       written by the tile that brings its last bits */
#include "prune/mask_part.h"

/* At most one byte for each tile can be open. */
enum vc_status vc_mask_part_add(struct vc_ctx *ctx, struct vc_item *item, struct vc_step *step,
                                struct vc_mask_part *part, uint64_t n_tiles)
{
    uint64_t *shape = vc_arena_alloc(ctx, item->set->arena, sizeof *shape);

    VC_CALL_ALLOC(shape);
    part->room = (size_t)n_tiles + 2;
    VC_CALL(VC_ARRAY(ctx, VC_TAG_MISC, part->open, part->room));
    (void)pthread_mutex_init(&part->mutex, NULL);
    part->made = true;
    *shape = vc_ceil_div_u64(step->in.n_elems, 8);
    return vc_step_add_part(ctx, item, step, VC_PART_MASK, VC_DTYPE_U8, 1, shape);
}

void vc_mask_part_release(struct vc_ctx *ctx, struct vc_mask_part *part)
{
    if (part->made) {
        (void)pthread_mutex_destroy(&part->mutex);
    }
    vc_free(ctx, part->open);
    *part = (struct vc_mask_part){0};
}

/* Adds bits to a byte that other tiles have bits of, too. True: that completes it, and *bits is the byte. seen: the
 * bits of this tile; wanted: all bits of the byte that exist. *full: no room, which would be a fault. */
static bool complete(struct vc_mask_part *part, uint64_t place, uint8_t seen, uint8_t wanted, uint8_t *bits, bool *full)
{
    size_t i = 0;

    (void)pthread_mutex_lock(&part->mutex);
    while (i < part->n_open && part->open[i].place != place) {
        i++;
    }
    *full = i == part->room;
    if (*full) {
        (void)pthread_mutex_unlock(&part->mutex);
        return false;
    }
    if (i == part->n_open) {
        part->open[part->n_open++] = (struct vc_shared_byte){.place = place};
    }
    part->open[i].seen |= seen;
    part->open[i].bits |= *bits;
    bool done = part->open[i].seen == wanted;
    if (done) {
        *bits = part->open[i].bits;
        part->open[i] = part->open[--part->n_open];
    }
    (void)pthread_mutex_unlock(&part->mutex);
    return done;
}

/* n bits from bit `from` of src, as the bits from `at` (below 8) of dst on; the others of its bytes are 0. */
static void place_bits(const uint8_t *src, uint64_t from, size_t n, unsigned at, uint8_t *dst)
{
    size_t n_bytes = (at + n + 7) / 8;

    memset(dst, 0, n_bytes);
    if (from % 8 == at) {
        memcpy(dst, src + from / 8, n_bytes);
        dst[0] &= (uint8_t)(0xffu << at);
        dst[n_bytes - 1] &= (uint8_t)(0xffu >> (n_bytes * 8 - at - n));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        dst[(at + i) / 8] |= (uint8_t)(((unsigned)src[(from + i) / 8] >> (from + i) % 8 & 1u) << (at + i) % 8);
    }
}

/* The view has the bytes that are complete; bytes at both ends that are not are left to other tiles. */
enum vc_status vc_mask_part_give(struct vc_ctx *ctx, struct vc_mask_part *part, uint64_t n_elems,
                                 const struct vc_tile *tile, const uint8_t *mask, uint64_t from, uint8_t *scratch,
                                 struct vc_part_view *view)
{
    uint64_t end = tile->first + tile->n_elems;
    uint64_t first = tile->first / 8;
    size_t n = (size_t)(vc_ceil_div_u64(end, 8) - first);
    unsigned at = (unsigned)(tile->first % 8);
    size_t begin = 0;

    /* bits at their places within bytes */
    place_bits(mask, from, tile->n_elems, at, scratch);
    for (size_t k = 0; k<n; k += n> 1 ? n - 1 : 1) { /* the first and the last byte */
        uint64_t low = (first + k) * 8;
        uint64_t high = vc_min_u64(low + 8, n_elems);
        uint64_t own_low = low > tile->first ? low : tile->first;
        uint64_t own_high = vc_min_u64(high, end);
        uint8_t wanted = (uint8_t)(0xffu >> (8 - (high - low)));
        uint8_t seen = (uint8_t)((0xffu >> (8 - (own_high - own_low))) << (own_low - low));
        bool full = false;

        if (seen != wanted && !complete(part, first + k, seen, wanted, &scratch[k], &full)) {
            VC_REFUSE_IF(full, ctx, VC_E_INTERNAL, "more bytes of a mask are open than there are tiles");
            if (k == 0) {
                begin = 1;
            }
            if (k == n - 1) {
                n--;
                break;
            }
        }
    }
    if (n > begin) {
        *view = (struct vc_part_view){.data = scratch + begin, .first = first + begin, .n = n - begin, .write = true};
    }
    return VC_OK;
}
