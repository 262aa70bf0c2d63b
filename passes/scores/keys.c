/* keys.c - see keys.h.
 *
 * Each round cuts the range that has the k-th key into at most 2^16 bins and counts; the next round is at
 * one of them:
 *
 *     32-bit keys    1st round  bins of 2^16 keys        2nd round  bins of one key
 *
 * Between rounds the counts are kept as a list of those bins that are not empty, count and bin in one
 * number. */
#include "passes/scores/keys.h"

#define BIN_BITS 16

void vc_keys_init(struct vc_keys *keys, unsigned bits, uint64_t n, uint64_t limit)
{
    unsigned shift = bits > BIN_BITS ? bits - BIN_BITS : 0;

    *keys = (struct vc_keys){.bits = bits, .n = n, .limit = limit};
    keys->range = (struct vc_bin_range){.first = 0, .shift = shift, .n_bins = (size_t)1 << (bits - shift)};
}

size_t vc_keys_bytes(const struct vc_keys *keys)
{
    return (keys->few ? (size_t)keys->n : keys->range.n_bins) * sizeof *keys->bins;
}

/* A round begins with empty bins. */
enum vc_status vc_keys_begin(struct vc_ctx *ctx, struct vc_keys *keys)
{
    vc_free(ctx, vc_give(&keys->list));
    keys->n_list = 0;
    if (!keys->has_mutex) {
        VC_REFUSE_IF(pthread_mutex_init(&keys->mutex, NULL) != 0, ctx, VC_E_NOMEM, "cannot create a mutex");
        keys->has_mutex = true;
    }
    VC_CALL(VC_ZEROS(ctx, VC_TAG_SCRATCH, keys->bins, keys->few ? (size_t)keys->n : keys->range.n_bins));
    return VC_OK;
}

/* Counts of a tile, from any thread. */
void vc_keys_add(struct vc_keys *keys, const uint32_t *counts)
{
    (void)pthread_mutex_lock(&keys->mutex);
    for (size_t i = 0; i < keys->range.n_bins; i++) {
        keys->bins[i] += counts[i];
    }
    (void)pthread_mutex_unlock(&keys->mutex);
}

uint64_t vc_key_at(unsigned bits, const void *values, size_t i)
{
    uint16_t half;
    uint32_t word;
    uint64_t wide;

    switch (bits) {
    case 15:
        memcpy(&half, (const char *)values + i * sizeof half, sizeof half);
        return half & 0x7fffu;
    case 31:
        memcpy(&word, (const char *)values + i * sizeof word, sizeof word);
        return word & 0x7fffffffu;
    default:
        memcpy(&wide, (const char *)values + i * sizeof wide, sizeof wide);
        return wide & 0x7fffffffffffffffULL;
    }
}

/* The bins of those in the range, in any order. */
void vc_keys_add_few(struct vc_keys *keys, const void *values, size_t n)
{
    const struct vc_bin_range *range = &keys->range;

    (void)pthread_mutex_lock(&keys->mutex);
    for (size_t i = 0; i < n; i++) {
        uint64_t key = vc_key_at(keys->bits, values, i);

        if (key >= range->first && (key - range->first) >> range->shift < range->n_bins) {
            keys->bins[keys->n_list++] = (key - range->first) >> range->shift;
        }
    }
    (void)pthread_mutex_unlock(&keys->mutex);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

void vc_keys_sort(uint64_t *keys, size_t n)
{
    qsort(keys, n, sizeof *keys, ascending);
}

/* The bins of few keys become the list where they lie. */
static void list_few(struct vc_keys *keys)
{
    size_t n = keys->n_list;

    vc_keys_sort(keys->bins, n);
    keys->list = vc_give(&keys->bins);
    keys->n_list = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t bin = keys->list[i];

        if (keys->n_list == 0 || vc_keys_bin(keys->list[keys->n_list - 1]) != bin) {
            keys->list[keys->n_list++] = bin;
        }
        keys->list[keys->n_list - 1] += (uint64_t)1 << BIN_BITS;
    }
}

/* A round ends: the bins become the list. */
enum vc_status vc_keys_end(struct vc_ctx *ctx, struct vc_keys *keys)
{
    enum vc_status status = VC_OK;
    size_t n = 0;

    if (keys->few) {
        list_few(keys);
        return VC_OK;
    }
    for (size_t i = 0; keys->bins != NULL && i < keys->range.n_bins; i++) {
        n += keys->bins[i] != 0;
    }
    if (n != 0) {
        VC_TRY(VC_ARRAY(ctx, VC_TAG_SCRATCH, keys->list, n));
        for (size_t i = 0; i < keys->range.n_bins; i++) {
            if (keys->bins[i] != 0) {
                keys->list[keys->n_list++] = keys->bins[i] << BIN_BITS | i;
            }
        }
    }
out:
    vc_free(ctx, vc_give(&keys->bins));
    return status;
}

static void forget_list(struct vc_ctx *ctx, struct vc_keys *keys)
{
    vc_free(ctx, vc_give(&keys->list));
    keys->n_list = 0;
}

/* The answer: keys below the threshold go, and of the n_equal that equal it the first n_ties. */
static void settle(struct vc_keys *keys, uint64_t threshold, uint64_t n_ties, uint64_t n_equal)
{
    keys->done = true;
    keys->cut = (struct vc_mask_cut){.threshold = threshold, .n_ties = n_ties};
    keys->n_equal = n_equal;
}

/* The next round is at that bin alone. */
static void enter(struct vc_keys *keys, size_t bin)
{
    struct vc_bin_range *range = &keys->range;
    unsigned shift = range->shift > BIN_BITS ? range->shift - BIN_BITS : 0;

    range->first += (uint64_t)bin << range->shift;
    range->n_bins = (size_t)1 << (range->shift - shift);
    range->shift = shift;
}

/* Keys in bins before `bin`, and in it. */
static uint64_t count_before(const struct vc_keys *keys, size_t bin, uint64_t *in_bin)
{
    uint64_t before = 0;

    *in_bin = 0;
    for (size_t i = 0; i < keys->n_list && vc_keys_bin(keys->list[i]) <= bin; i++) {
        if (vc_keys_bin(keys->list[i]) == bin) {
            *in_bin = vc_keys_count(keys->list[i]);
        } else {
            before += vc_keys_count(keys->list[i]);
        }
    }
    return before;
}

/* One tensor by itself: finds the bin with the k-th key. The answer is known when the whole bin goes, or
 * when it is one key. */
void vc_keys_narrow(struct vc_ctx *ctx, struct vc_keys *keys)
{
    uint64_t k = keys->limit - keys->below;
    uint64_t before = 0;
    size_t i = 0;

    while (i < keys->n_list && before + vc_keys_count(keys->list[i]) < k) {
        before += vc_keys_count(keys->list[i++]);
    }
    if (k == 0 || i == keys->n_list) {
        settle(keys, keys->range.first, 0, 0);
    } else if (before + vc_keys_count(keys->list[i]) == k) { /* the whole bin goes */
        settle(keys, keys->range.first + ((uint64_t)(vc_keys_bin(keys->list[i]) + 1) << keys->range.shift), 0, 0);
    } else if (keys->range.shift == 0) {
        settle(keys, keys->range.first + vc_keys_bin(keys->list[i]), k - before, vc_keys_count(keys->list[i]));
    } else {
        keys->below += before;
        enter(keys, vc_keys_bin(keys->list[i]));
    }
    forget_list(ctx, keys);
}

/* The bin in which the k-th key of all is; those beyond a tensor's limit do not count. *before: keys in bins before it.
 * `totals` is room for VC_KEY_BINS. VC_KEY_BINS where there are fewer than k. */
static size_t find_bin(struct vc_keys *const *keys, size_t n, uint64_t k, uint64_t *totals, uint64_t *before)
{
    size_t bin = 0;

    memset(totals, 0, VC_KEY_BINS * sizeof *totals);
    for (size_t t = 0; t < n; t++) {
        uint64_t left = keys[t]->own || keys[t]->done ? 0 : keys[t]->limit - keys[t]->below;

        for (size_t i = 0; left != 0 && i < keys[t]->n_list; i++) {
            uint64_t count = vc_keys_count(keys[t]->list[i]) < left ? vc_keys_count(keys[t]->list[i]) : left;

            totals[vc_keys_bin(keys[t]->list[i])] += count;
            left -= count;
        }
    }
    *before = 0;
    while (bin < VC_KEY_BINS && *before + totals[bin] < k) {
        *before += totals[bin++];
    }
    return bin;
}

/* One tensor, once the common bin is known. *ties: of the keys that equal the threshold, what is left to go. */
static void follow(struct vc_ctx *ctx, struct vc_keys *keys, size_t bin, bool whole, uint64_t *ties)
{
    uint64_t in_bin;
    uint64_t before = count_before(keys, bin, &in_bin);
    uint64_t room = keys->limit - keys->below;

    if (before >= room || (whole && before + in_bin > room)) { /* its limit comes first */
        keys->own = true;
        vc_keys_narrow(ctx, keys);
        return;
    }
    room -= before;
    if (whole || in_bin == 0) {
        settle(keys, keys->range.first + ((uint64_t)(bin + whole) << keys->range.shift), 0, 0);
    } else if (keys->range.shift == 0) {
        uint64_t most = room < in_bin ? room : in_bin;
        uint64_t go = most < *ties ? most : *ties;

        settle(keys, keys->range.first + bin, go, in_bin);
        *ties -= go;
    } else {
        keys->below += before;
        enter(keys, bin);
    }
    forget_list(ctx, keys);
}

/* Several tensors with one threshold, of which *k keys go in all. A tensor that reaches its own limit first
 * goes on by itself. *k becomes what is left to find in the bin of the next round. */
enum vc_status vc_keys_narrow_together(struct vc_ctx *ctx, struct vc_keys *const *keys, size_t n, uint64_t *k)
{
    uint64_t *totals = vc_alloc_array(ctx, VC_TAG_SCRATCH, VC_KEY_BINS, sizeof *totals);
    uint64_t before;

    VC_CALL_ALLOC(totals);
    size_t bin = find_bin(keys, n, *k, totals, &before);
    bool whole = *k == 0 || bin == VC_KEY_BINS || before + totals[bin] == *k;
    uint64_t ties = *k - before;
    for (size_t t = 0; t < n; t++) {
        if (keys[t]->done) {
            continue;
        }
        if (keys[t]->own || bin == VC_KEY_BINS) {
            vc_keys_narrow(ctx, keys[t]);
        } else if (*k == 0) {
            settle(keys[t], keys[t]->range.first, 0, 0);
            forget_list(ctx, keys[t]);
        } else {
            follow(ctx, keys[t], bin, whole, &ties);
        }
    }
    *k -= whole ? *k : before;
    vc_free(ctx, totals);
    return VC_OK;
}

/* The next round begins in the middle of the list, where another rule has put the threshold. */
void vc_keys_enter(struct vc_ctx *ctx, struct vc_keys *keys, size_t first, uint64_t n_keys, unsigned shift)
{
    for (size_t i = 0; i < first; i++) {
        keys->below += vc_keys_count(keys->list[i]);
    }
    keys->range.first += (uint64_t)vc_keys_bin(keys->list[first]) << keys->range.shift;
    keys->range.n_bins = (size_t)(n_keys >> shift);
    keys->range.shift = shift;
    forget_list(ctx, keys);
}

void vc_keys_release(struct vc_ctx *ctx, struct vc_keys *keys)
{
    if (keys->has_mutex) {
        (void)pthread_mutex_destroy(&keys->mutex);
        keys->has_mutex = false;
    }
    vc_free(ctx, vc_give(&keys->bins));
    forget_list(ctx, keys);
}
