/* hash_table.h - finds one of up to millions of items by what it is: a hash table of their numbers. The items stay
 * where they are; the caller hashes what it looks for, and says whether an item is that.
 *
 *     struct key key = {list, name};
 *     size_t at = vc_hash_find(&table, hash, is_same, &key);
 *     if (at == SIZE_MAX) {
 *         VC_TRY(vc_hash_grow(ctx, &table, list->n, hash_of, list));
 *         vc_hash_add(&table, hash, list->n++);
 *     } */
#pragma once

#include "core/base/ctx.h"

/* ---- hashes ---- */

static inline uint64_t vc_hash_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static inline uint64_t vc_hash_bytes(uint64_t h, const void *data, size_t n)
{
    const char *at = data;
    uint64_t word;

    h ^= n;
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        h = vc_hash_mix(h, word);
    }
    word = 0;
    memcpy(&word, at, n);
    return vc_hash_mix(vc_hash_mix(h, word), h >> 32);
}

/* What hashes of names begin with: it depends on the process, so that no file can be made whose names fall together. */
uint64_t vc_hash_seed(void);

static inline uint64_t vc_hash_text(const char *text)
{
    return vc_hash_bytes(vc_hash_seed(), text, strlen(text));
}

/* ---- the table ---- */

/* Starts as zeros: empty, without room. */
struct vc_hash_table {
    uint32_t *slots; /* 0: free; else a number and 1 in the low bits, bits of its hash above them */
    size_t n_slots;
    size_t room;     /* for numbers below that */
    unsigned n_bits; /* of a number */
};

/* Whether item `number` is what is looked for. */
typedef bool vc_hash_same_fn(const void *key, size_t number);
/* The hash of item `number`. */
typedef uint64_t vc_hash_of_fn(const void *user, size_t number);

/* An empty table for numbers below n, in place of the one that is there. */
enum vc_status vc_hash_make(struct vc_ctx *ctx, size_t n, struct vc_hash_table *table);
void vc_hash_release(struct vc_ctx *ctx, struct vc_hash_table *table);

/* Room for item `number`: where there is none, the table becomes twice as large. VC_E_NOMEM: it is as it was. */
enum vc_status vc_hash_grow(struct vc_ctx *ctx, struct vc_hash_table *table, size_t number, vc_hash_of_fn *of,
                            const void *user);

/* The number of the item; SIZE_MAX: it is not there. */
size_t vc_hash_find(const struct vc_hash_table *table, uint64_t hash, vc_hash_same_fn *same, const void *key);

/* Adds an item that is not there. There is room for it. */
void vc_hash_add(struct vc_hash_table *table, uint64_t hash, size_t number);
