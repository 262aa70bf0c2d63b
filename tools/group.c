/* group.c - grouping by name pattern: layers.0.w and layers.1.w are layers.*.w. A hash table of "pattern\nkind" finds
 * the group of a name, so that ten thousand tensors take no time. */
#include "tools/group.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void groups_init(struct groups *groups)
{
    *groups = (struct groups){0};
}

void groups_release(struct groups *groups)
{
    for (size_t i = 0; i < groups->n; i++) {
        free(groups->list[i].key);
        free(groups->list[i].pattern);
    }
    free(groups->list);
    free(groups->slots);
    groups_init(groups);
}

/* What separates the parts of a name. */
static bool is_joint(char c)
{
    return c == '.' || c == '/' || c == '_' || c == '-' || c == ':' || c == '\0';
}

/* Replaces each run of digits that is a whole part of the name ("layers.12.w", not "conv1") by '*'. */
static char *make_pattern(const char *name, bool apart)
{
    char *pattern = malloc(strlen(name) + 1);
    char *p = pattern;
    char before = '\0';

    if (pattern == NULL) {
        return NULL;
    }
    for (const char *s = name; *s != '\0';) {
        size_t digits = strspn(s, "0123456789");

        if (!apart && digits > 0 && is_joint(before) && is_joint(s[digits])) {
            *p++ = '*';
            s += digits;
            before = '*';
        } else {
            before = *s;
            *p++ = *s++;
        }
    }
    *p = '\0';
    return pattern;
}

/* The key of a group: no name has a line break, so two different pairs never give the same text. */
static char *join(const char *a, const char *b)
{
    size_t n = strlen(a);
    size_t m = strlen(b);
    char *key = malloc(n + m + 2);

    if (key != NULL) {
        memcpy(key, a, n);
        key[n] = '\n';
        memcpy(key + n + 1, b, m + 1);
    }
    return key;
}

static size_t hash(const char *key)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (; *key != '\0'; key++) {
        h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    }
    return (size_t)(h ^ h >> 32);
}

/* The slot where key is, or would be. */
static size_t find_slot(const struct groups *groups, const char *key)
{
    size_t mask = groups->n_slots - 1;
    size_t at = hash(key) & mask;

    while (groups->slots[at] != 0 && strcmp(groups->list[groups->slots[at] - 1].key, key) != 0) {
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
        slots[find_slot(groups, list[i].key)] = i + 1;
    }
    return true;
}

size_t groups_add(struct groups *groups, size_t index, const char *name, const char *kind, bool apart)
{
    char *pattern = make_pattern(name, apart);
    char *key = pattern != NULL ? join(pattern, kind) : NULL;
    size_t result = NO_GROUP;
    size_t at;

    if (key == NULL || (groups->n == groups->capacity && !grow(groups))) {
        goto out;
    }
    at = find_slot(groups, key);
    if (groups->slots[at] != 0) {
        result = groups->slots[at] - 1;
        groups->list[result].count++;
        goto out;
    }
    result = groups->n++;
    groups->slots[at] = groups->n;
    groups->list[result] = (struct group){.key = key, .pattern = pattern, .name = name, .first = index, .count = 1};
    return result;
out:
    free(key);
    free(pattern);
    return result;
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
