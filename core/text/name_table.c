/* name_table.c - see name_table.h. Linear probing in a table twice as large as there are names. The hash depends on
 * the process, so that no file can be made whose names all fall together. */
#include "core/text/name_table.h"

#include <string.h>
#include <sys/auxv.h>

#include "core/base/checked.h"

#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)

static const char *name_at(struct vc_name_list list, size_t i)
{
    const char *name;

    memcpy(&name, (const char *)list.first + i * list.stride, sizeof name);
    return name;
}

/* Random bytes that the kernel gives to every process; 0 where it does not. */
static uint64_t seed_of_process(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t seed = 0;

    if (random != NULL) {
        memcpy(&seed, random, sizeof seed);
    }
    return seed;
}

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * MULTIPLIER;
    return h ^ h >> 29;
}

static uint64_t hash(const struct vc_name_table *table, const char *name, size_t n)
{
    uint64_t h = table->seed ^ n;
    uint64_t word;

    for (; n >= sizeof word; n -= sizeof word, name += sizeof word) {
        memcpy(&word, name, sizeof word);
        h = mix(h, word);
    }
    word = 0;
    memcpy(&word, name, n);
    return mix(mix(h, word), h >> 32);
}

/* What a slot holds above the number. */
static uint32_t tag_of(const struct vc_name_table *table, uint64_t h)
{
    return (uint32_t)h & ~(((uint32_t)1 << table->n_bits) - 1);
}

/* The slot that holds the name, or the free one where it would be. *number: SIZE_MAX or that of the name. */
static size_t find_slot(const struct vc_name_table *table, struct vc_name_list list, const char *name, size_t n,
                        uint64_t h, size_t *number)
{
    uint32_t mask = ((uint32_t)1 << table->n_bits) - 1;
    size_t at = (size_t)((h >> 32) * table->n_slots >> 32);

    *number = SIZE_MAX;
    for (; table->slots[at] != 0; at = at + 1 < table->n_slots ? at + 1 : 0) {
        if ((table->slots[at] & ~mask) == tag_of(table, h)) {
            size_t i = (table->slots[at] & mask) - 1;
            const char *other = name_at(list, i);

            if (strncmp(other, name, n) == 0 && other[n] == '\0') {
                *number = i;
                break;
            }
        }
    }
    return at;
}

enum vc_status vc_name_table_make(struct vc_ctx *ctx, size_t n, struct vc_name_table *table)
{
    vc_name_table_release(ctx, table);
    if (n >= (size_t)1 << 30) {
        return vc_fail(ctx, VC_E_NOMEM, "%zu names are more than can be told apart", n);
    }
    table->seed = seed_of_process();
    table->n_slots = 2 * n + 1;
    for (table->n_bits = 1; n >> table->n_bits != 0; table->n_bits++) {
    }
    table->slots = vc_calloc_array(ctx, VC_TAG_NAMES, table->n_slots, sizeof *table->slots);
    return table->slots != NULL ? VC_OK : VC_E_NOMEM;
}

void vc_name_table_release(struct vc_ctx *ctx, struct vc_name_table *table)
{
    vc_free(ctx, table->slots);
    *table = (struct vc_name_table){.slots = NULL};
}

size_t vc_name_table_add(struct vc_name_table *table, struct vc_name_list list, size_t i)
{
    const char *name = name_at(list, i);
    size_t n = strlen(name);
    uint64_t h = hash(table, name, n);
    size_t same;
    size_t at = find_slot(table, list, name, n, h, &same);

    if (same == SIZE_MAX) {
        table->slots[at] = tag_of(table, h) | (uint32_t)(i + 1);
    }
    return same;
}

size_t vc_name_table_find(const struct vc_name_table *table, struct vc_name_list list, const char *name, size_t n)
{
    size_t number = SIZE_MAX;

    if (table->n_slots != 0) {
        (void)find_slot(table, list, name, n, hash(table, name, n), &number);
    }
    return number;
}

enum vc_status vc_names_unique(struct vc_ctx *ctx, struct vc_name_list list, size_t n, size_t *twice)
{
    struct vc_name_table table = {.slots = NULL};
    enum vc_status status;
    size_t i;

    *twice = SIZE_MAX;
    VC_TRY(vc_name_table_make(ctx, n, &table));
    for (i = 0; i < n && *twice == SIZE_MAX; i++) {
        *twice = vc_name_table_add(&table, list, i) != SIZE_MAX ? i : SIZE_MAX;
    }
out:
    vc_name_table_release(ctx, &table);
    return status;
}
