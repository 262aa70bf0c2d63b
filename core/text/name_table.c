/* name_table.c - see name_table.h. */
#include "core/text/name_table.h"

static const char *name_at(struct vc_name_list list, size_t i)
{
    const char *name;

    memcpy(&name, (const char *)list.first + i * list.stride, sizeof name);
    return name;
}

struct key {
    struct vc_name_list list;
    const char *name;
    size_t n;
};

static bool is_same(const void *user, size_t number)
{
    const struct key *key = user;
    const char *there = name_at(key->list, number);

    return strncmp(there, key->name, key->n) == 0 && there[key->n] == '\0';
}

static uint64_t hash(const char *name, size_t n)
{
    return vc_hash_bytes(vc_hash_seed(), name, n);
}

static uint64_t hash_of(const void *list, size_t number)
{
    const char *name = name_at(*(const struct vc_name_list *)list, number);

    return hash(name, strlen(name));
}

enum vc_status vc_name_table_make(struct vc_ctx *ctx, size_t n, struct vc_name_table *table)
{
    return vc_hash_make(ctx, n, &table->numbers);
}

void vc_name_table_release(struct vc_ctx *ctx, struct vc_name_table *table)
{
    vc_hash_release(ctx, &table->numbers);
}

void vc_name_table_end(struct vc_name_table *table)
{
    vc_free_at(&table->numbers.slots);
}

enum vc_status vc_name_table_grow(struct vc_ctx *ctx, struct vc_name_table *table, struct vc_name_list list, size_t i)
{
    return vc_hash_grow(ctx, &table->numbers, i, hash_of, &list);
}

size_t vc_name_table_add(struct vc_name_table *table, struct vc_name_list list, size_t i)
{
    const char *name = name_at(list, i);
    const struct key key = {list, name, strlen(name)};
    uint64_t h = hash(name, key.n);
    size_t same = vc_hash_find(&table->numbers, h, is_same, &key);

    if (same == SIZE_MAX) {
        vc_hash_add(&table->numbers, h, i);
    }
    return same;
}

size_t vc_name_table_find(const struct vc_name_table *table, struct vc_name_list list, const char *name, size_t n)
{
    const struct key key = {list, name, n};

    return vc_hash_find(&table->numbers, hash(name, n), is_same, &key);
}

enum vc_status vc_names_unique(struct vc_ctx *ctx, struct vc_name_list list, size_t n, size_t *twice)
{
    VC_SCOPED_NAMES struct vc_name_table table = {{.slots = NULL}};

    *twice = SIZE_MAX;
    VC_CALL(vc_name_table_make(ctx, n, &table));
    for (size_t i = 0; i < n && *twice == SIZE_MAX; i++) {
        *twice = vc_name_table_add(&table, list, i) != SIZE_MAX ? i : SIZE_MAX;
    }
    return VC_OK;
}
