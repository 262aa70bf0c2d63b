/* pack.c - buffers with lifetimes in one arena: large ones first, each into the smallest gap between those that live
 * with it. Every buffer is compared with every one before it, so beyond MAX_SEARCHED buffers the small ones are stacked
 * on top, each with memory of its own. */
#include "core/base/pack.h"

#include "core/base/array.h"

#define MAX_SEARCHED ((size_t)16384)

/* A buffer becomes live, or is dead from that step on. */
struct edge {
    uint64_t step;
    uint64_t bytes;
    bool dies;
};

/* A buffer to place: its size rounded up. */
struct piece {
    uint64_t bytes, first, last, offset;
    size_t buffer;
};

static int by_step(const void *a, const void *b)
{
    const struct edge *x = a;
    const struct edge *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->step, y->step),
                          VC_ORDER(y->dies, x->dies)); /* what died is gone before anything new comes */
}

/* Large ones first; of equal ones the one that lives longer, then the earlier one. */
static int by_size(const void *a, const void *b)
{
    const struct piece *x = a;
    const struct piece *y = b;

    return VC_FIRST_ORDER(VC_ORDER(y->bytes, x->bytes), VC_ORDER(y->last - y->first, x->last - x->first),
                          VC_ORDER(x->buffer, y->buffer));
}

static enum vc_status find_peak(struct vc_ctx *ctx, const struct piece *pieces, size_t n, struct vc_buffer_plan *out)
{
    struct edge *edges = vc_alloc_array(ctx, VC_TAG_MISC, n, 2 * sizeof *edges);
    uint64_t live = 0;

    VC_CALL_ALLOC(edges);
    for (size_t i = 0; i < n; i++) {
        edges[2 * i] = (struct edge){pieces[i].first, pieces[i].bytes, false};
        edges[2 * i + 1] = (struct edge){pieces[i].last + 1, pieces[i].bytes, true};
    }
    qsort(edges, 2 * n, sizeof *edges, by_step);
    for (size_t i = 0; i < 2 * n; i++) {
        live = edges[i].dies ? live - edges[i].bytes : live + edges[i].bytes;
        if (live > out->live_bytes) {
            out->live_bytes = live;
            out->peak_step = edges[i].step;
        }
    }
    vc_free(ctx, edges);
    return VC_OK;
}

/* The smallest gap that takes it, of several the lowest; behind everything that lives with it, if there is none. placed
 * is sorted by offset. */
static uint64_t find_gap(const struct piece *piece, struct piece *const *placed, size_t n)
{
    uint64_t best = UINT64_MAX;
    uint64_t best_gap = UINT64_MAX;
    uint64_t end = 0;

    for (size_t i = 0; i < n; i++) {
        const struct piece *other = placed[i];

        if (other->first > piece->last || other->last < piece->first) {
            continue;
        }
        if (other->offset > end && other->offset - end >= piece->bytes && other->offset - end < best_gap) {
            best_gap = other->offset - end;
            best = end;
        }
        end = vc_max_u64(end, other->offset + other->bytes);
    }
    return best != UINT64_MAX ? best : end;
}

static void put_in_order(struct piece *piece, struct piece **placed, size_t n)
{
    size_t low;

    VC_BISECT(low, n, k, placed[k]->offset <= piece->offset);
    memmove(placed + low + 1, placed + low, (n - low) * sizeof *placed);
    placed[low] = piece;
}

static enum vc_status place(struct vc_ctx *ctx, struct piece *pieces, size_t n, struct piece **placed,
                            struct vc_buffer_plan *out)
{
    for (size_t i = 0; i < n; i++) {
        bool searched = i < MAX_SEARCHED;

        if (i % 256 == 0 && vc_check_cancelled(ctx) != VC_OK) {
            return VC_E_CANCELLED;
        }

        pieces[i].offset = searched ? find_gap(&pieces[i], placed, i) : out->arena_bytes;
        if (searched) {
            put_in_order(&pieces[i], placed, i);
        }
        out->arena_bytes = vc_max_u64(out->arena_bytes, pieces[i].offset + pieces[i].bytes);
    }
    return VC_OK;
}

static enum vc_status make_pieces(struct vc_ctx *ctx, const struct vc_buffer *buffers, size_t n, uint64_t align,
                                  struct piece *pieces)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        pieces[i] = (struct piece){.first = buffers[i].first, .last = buffers[i].last, .buffer = i};
        VC_REFUSE_IF(buffers[i].last < buffers[i].first || buffers[i].last == UINT64_MAX, ctx, VC_E_ARGUMENT,
                     "buffer %zu is needed from step %llu to step %llu", i, (unsigned long long)buffers[i].first,
                     (unsigned long long)buffers[i].last);
        VC_REFUSE_IF(!vc_round_up_u64(buffers[i].size_bytes, align, &pieces[i].bytes) ||
                         !vc_add_u64(sum, pieces[i].bytes, &sum),
                     ctx, VC_E_ARGUMENT, "the sizes of %zu buffers overflow 64 bits", n);
    }
    return VC_OK;
}

enum vc_status vc_buffers_pack(struct vc_ctx *ctx, struct vc_buffer *buffers, size_t n, uint64_t align,
                               struct vc_buffer_plan *out)
{
    VC_SCOPED struct piece *pieces = NULL;
    VC_SCOPED struct piece **placed = NULL;

    vc_clear_error(ctx);
    *out = (struct vc_buffer_plan){.arena_bytes = 0};
    VC_REFUSE_IF(align == 0 || (align & (align - 1)) != 0, ctx, VC_E_ARGUMENT,
                 "an alignment of %llu is no power of two", (unsigned long long)align);
    pieces = vc_alloc_array(ctx, VC_TAG_MISC, n, sizeof *pieces);
    placed = vc_alloc_array(ctx, VC_TAG_MISC, n < MAX_SEARCHED ? n : MAX_SEARCHED, sizeof(struct piece *));
    if (pieces == NULL || placed == NULL) {
        return VC_E_NOMEM;
    }
    VC_CALL(make_pieces(ctx, buffers, n, align, pieces));
    VC_CALL(find_peak(ctx, pieces, n, out));
    qsort(pieces, n, sizeof *pieces, by_size);
    VC_CALL(place(ctx, pieces, n, placed, out));
    for (size_t i = 0; i < n; i++) {
        buffers[pieces[i].buffer].offset = pieces[i].offset;
    }
    return VC_OK;
}
