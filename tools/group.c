/* group.c - grouping by name pattern: layers.0.w and layers.1.w are layers.*.w. A hash table of "pattern\nkind" finds
 * the group of a name, so that ten thousand tensors take no time. */
#include "tools/group.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/model.h>

void groups_init(struct groups *groups)
{
    *groups = (struct groups){0};
}

void groups_release(struct groups *groups)
{
    for (size_t i = 0; i < groups->n; i++) {
        free(groups->list[i].key);
    }
    free(groups->list);
    free(groups->slots);
    free(groups->scratch);
    groups_init(groups);
}

/* The key of a group: the pattern, a NUL, the kind. Made in scratch memory, since most names have a group already.
 * NULL: no memory. */
static char *make_key(struct groups *groups, const char *name, const char *kind, bool apart, size_t *n_pattern)
{
    size_t n_kind = strlen(kind);
    size_t need = strlen(name) + n_kind + 2;

    if (need > groups->n_scratch) {
        char *grown = realloc(groups->scratch, 2 * need);

        if (grown == NULL) {
            return NULL;
        }
        groups->scratch = grown;
        groups->n_scratch = 2 * need;
    }
    if (apart) {
        *n_pattern = strlen(name);
        memcpy(groups->scratch, name, *n_pattern + 1);
    } else {
        *n_pattern = vc_name_pattern(name, groups->scratch, groups->n_scratch);
    }
    memcpy(groups->scratch + *n_pattern + 1, kind, n_kind + 1);
    return groups->scratch;
}

static uint64_t add_text(uint64_t h, const char *text)
{
    for (; *text != '\0'; text++) {
        h = (h ^ (unsigned char)*text) * 0x100000001b3u; /* FNV-1a */
    }
    return h * 0x100000001b3u;
}

static bool same_key(const char *a, const char *b)
{
    return strcmp(a, b) == 0 && strcmp(a + strlen(a) + 1, b + strlen(b) + 1) == 0;
}

/* The slot where key is, or would be. */
static size_t find_slot(const struct groups *groups, const char *key)
{
    uint64_t h = add_text(add_text(0xcbf29ce484222325u, key), key + strlen(key) + 1);
    size_t mask = groups->n_slots - 1;
    size_t at = (size_t)(h ^ h >> 32) & mask;

    while (groups->slots[at] != 0 && !same_key(groups->list[groups->slots[at] - 1].key, key)) {
        at = (at + 1) & mask;
    }
    return at;
}

/* Doubles list and table together; the table is never more than half full. */
static bool grow(struct groups *groups)
{
    size_t capacity = groups->capacity == 0 ? 64 : groups->capacity * 2;
    struct group *list = realloc(groups->list, capacity * sizeof(*list));
    size_t *slots;

    if (list == NULL) {
        return false;
    }
    groups->list = list;
    slots = calloc(capacity * 2, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    free(groups->slots);
    groups->slots = slots;
    groups->n_slots = capacity * 2;
    groups->capacity = capacity;
    for (size_t i = 0; i < groups->n; i++) {
        if (list[i].key != NULL) {
            slots[find_slot(groups, list[i].key)] = i + 1;
        }
    }
    return true;
}

size_t groups_add(struct groups *groups, size_t index, const char *name, const char *kind, bool apart)
{
    size_t n_pattern;
    char *key = make_key(groups, name, kind, apart, &n_pattern);
    size_t n_key;
    size_t at;
    char *copy;

    if (key == NULL || (groups->n == groups->capacity && !grow(groups))) {
        return NO_GROUP;
    }
    at = find_slot(groups, key);
    if (groups->slots[at] != 0) {
        groups->list[groups->slots[at] - 1].count++;
        return groups->slots[at] - 1;
    }
    n_key = n_pattern + 1 + strlen(key + n_pattern + 1) + 1;
    copy = malloc(n_key);
    if (copy == NULL) {
        return NO_GROUP;
    }
    memcpy(copy, key, n_key);
    groups->slots[at] = ++groups->n;
    groups->list[groups->n - 1] =
        (struct group){.key = copy, .pattern = copy, .name = name, .first = index, .count = 1};
    return groups->n - 1;
}

size_t groups_add_alone(struct groups *groups, size_t index, const char *name)
{
    if (groups->n == groups->capacity && !grow(groups)) {
        return NO_GROUP;
    }
    groups->list[groups->n] = (struct group){.pattern = name, .name = name, .first = index, .count = 1};
    return groups->n++;
}

char *group_label(const struct group *group, const char *times)
{
    const char *name = group->count == 1 ? group->name : group->pattern;
    size_t n = strlen(name) + 40;
    char *label = malloc(n);

    if (label != NULL && group->count == 1) {
        snprintf(label, n, "%s", name);
    } else if (label != NULL) {
        snprintf(label, n, "%s %s%zu", name, times, group->count);
    }
    return label;
}
