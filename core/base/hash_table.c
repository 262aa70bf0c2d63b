/* hash_table.c - see hash_table.h. Linear probing in a table twice as large as there are items. */
#include "core/base/hash_table.h"

#include <sys/auxv.h>

#define FIRST_ROOM 32

/* Random bytes that the kernel gives to every process; 1 where it does not. */
uint64_t vc_hash_seed(void)
{
    static _Atomic uint64_t kept;
    uint64_t seed = atomic_load_explicit(&kept, memory_order_relaxed);

    if (seed == 0) {
        const void *random = (const void *)getauxval(AT_RANDOM);

        if (random != NULL) {
            memcpy(&seed, random, sizeof seed);
        }
        seed |= 1;
        atomic_store_explicit(&kept, seed, memory_order_relaxed);
    }
    return seed;
}

enum vc_status vc_hash_make(struct vc_ctx *ctx, size_t n, struct vc_hash_table *table)
{
    vc_hash_release(ctx, table);
    VC_REFUSE_IF(n >= (size_t)1 << 30, ctx, VC_E_NOMEM, "%zu names are more than can be told apart", n);
    table->room = n;
    table->n_slots = 2 * n + 1;
    for (table->n_bits = 1; n >> table->n_bits != 0; table->n_bits++) {
    }
    table->slots = vc_calloc_array(ctx, VC_TAG_NAMES, table->n_slots, sizeof *table->slots);
    return table->slots != NULL ? VC_OK : VC_E_NOMEM;
}

void vc_hash_release(struct vc_ctx *ctx, struct vc_hash_table *table)
{
    vc_free(ctx, table->slots);
    *table = (struct vc_hash_table){.slots = NULL};
}

static uint32_t number_mask(const struct vc_hash_table *table)
{
    return ((uint32_t)1 << table->n_bits) - 1;
}

static size_t first_slot(const struct vc_hash_table *table, uint64_t hash)
{
    return (size_t)((hash >> 32) * table->n_slots >> 32);
}

static size_t next_slot(const struct vc_hash_table *table, size_t at)
{
    return at + 1 < table->n_slots ? at + 1 : 0;
}

size_t vc_hash_find(const struct vc_hash_table *table, uint64_t hash, vc_hash_same_fn *same, const void *key)
{
    uint32_t mask = number_mask(table);

    if (table->n_slots == 0) {
        return SIZE_MAX;
    }
    for (size_t at = first_slot(table, hash); table->slots[at] != 0; at = next_slot(table, at)) {
        size_t number = (table->slots[at] & mask) - 1;

        if ((table->slots[at] & ~mask) == ((uint32_t)hash & ~mask) && same(key, number)) {
            return number;
        }
    }
    return SIZE_MAX;
}

void vc_hash_add(struct vc_hash_table *table, uint64_t hash, size_t number)
{
    size_t at = first_slot(table, hash);

    while (table->slots[at] != 0) {
        at = next_slot(table, at);
    }
    table->slots[at] = ((uint32_t)hash & ~number_mask(table)) | (uint32_t)(number + 1);
}

enum vc_status vc_hash_grow(struct vc_ctx *ctx, struct vc_hash_table *table, size_t number, vc_hash_of_fn *of,
                            const void *user)
{
    struct vc_hash_table grown = {.slots = NULL};

    if (number < table->room) {
        return VC_OK;
    }
    VC_CALL(vc_hash_make(ctx, table->room < FIRST_ROOM ? FIRST_ROOM : 2 * table->room, &grown));
    for (size_t i = 0; i < table->n_slots; i++) {
        if (table->slots[i] != 0) {
            size_t old = (table->slots[i] & number_mask(table)) - 1;

            vc_hash_add(&grown, of(user, old), old);
        }
    }
    vc_hash_release(ctx, table);
    *table = grown;
    return VC_OK;
}
