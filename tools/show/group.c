/* group.c - grouping by name pattern: layers.0.w and layers.1.w are layers.*.w. A hash table of pattern and kind finds
 * the group of a name, so that ten thousand tensors take no time.
 *
 *     list     groups in the order of their first members
 *     slots    open addressing: the number of a group + 1, or 0; a power of two, at most half full */
#include "tools/show/group.h"

#include <stdlib.h>
#include <string.h>

#include <vcompress/model.h>

void groups_init(struct groups *groups)
{
    *groups = (struct groups){0};
}

/* Ready for the next table afterwards. */
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

/* ---- kinds ---- */

/* A kind that does not fit is cut: two that differ only behind that would share a line, which is harmless. */
static void add_bytes(struct group_kind *kind, const void *bytes, size_t n)
{
    size_t room = sizeof(kind->bytes) - kind->n;

    n = n < room ? n : room;
    memcpy(kind->bytes + kind->n, bytes, n);
    kind->n += n;
}

/* A kind is the bytes of all that has to be equal within a group, such as type and shape. */
void group_kind_begin(struct group_kind *kind)
{
    kind->n = 0;
}

void group_kind_number(struct group_kind *kind, uint64_t number)
{
    add_bytes(kind, &number, sizeof(number));
}

/* With its NUL, so that "a" and "bc" are not "ab" and "c". */
void group_kind_text(struct group_kind *kind, const char *text)
{
    add_bytes(kind, text, strlen(text) + 1);
}

/* What separates the parts of a name. */
static bool is_joint(char c)
{
    return c == '.' || c == '/' || c == '_' || c == '-' || c == ':' || c == '\0';
}

/* Writes the pattern of a name to `to`: "layers.*.w" for layers.0.w, layers.1.w and so on. Each part of the name that
 * is digits only becomes '*'; "conv1" stays. Writes at most `room` bytes with the NUL; strlen(name) + 1 bytes are
 * always enough. Returns the length. */
static size_t name_pattern(const char *name, char *to, size_t room)
{
    char before = '\0';
    size_t n = 0;

    while (*name != '\0' && n + 1 < room) {
        size_t digits = *name >= '0' && *name <= '9' && is_joint(before) ? strspn(name, "0123456789") : 0;

        if (digits > 0 && is_joint(name[digits])) {
            before = '*';
            name += digits;
        } else {
            before = *name++;
        }
        to[n++] = before;
    }
    if (room != 0) {
        to[n] = '\0';
    }
    return n;
}

/* ---- groups ---- */

/* The key of a group: the pattern, a NUL, the kind. Made in scratch memory, since most names have a group already.
 * NULL: no memory.
 *
 *     layers.*.w \0 kind          n_pattern + 1 + n_kind bytes */
static char *make_key(struct groups *groups, const char *name, const struct group_kind *kind, bool apart, size_t *n_key)
{
    size_t n_kind = kind != NULL ? kind->n : 0;
    size_t n_name = strlen(name);
    size_t need = n_name + 1 + n_kind;
    size_t n_pattern = n_name;

    if (need > groups->n_scratch) {
        char *grown = realloc(groups->scratch, 2 * need);

        if (grown == NULL) {
            return NULL;
        }
        groups->scratch = grown;
        groups->n_scratch = 2 * need;
    }
    if (apart) {
        memcpy(groups->scratch, name, n_name + 1);
    } else {
        n_pattern = name_pattern(name, groups->scratch, groups->n_scratch);
    }
    if (n_kind != 0) {
        memcpy(groups->scratch + n_pattern + 1, kind->bytes, n_kind);
    }
    *n_key = n_pattern + 1 + n_kind;
    return groups->scratch;
}

/* Eight bytes at a time: every tensor's key is hashed. Multiplication by the golden ratio mixes upwards, the shift
 * brings it down again. */
static uint64_t hash_key(const char *key, size_t n)
{
    uint64_t h = n;

    for (; n != 0;) {
        uint64_t word = 0;
        size_t step = n < sizeof(word) ? n : sizeof(word);

        memcpy(&word, key, step);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
        key += step;
        n -= step;
    }
    return h ^ h >> 32;
}

/* The slot where key is, or would be. There is always an empty slot. */
static size_t find_slot(const struct groups *groups, const char *key, size_t n_key)
{
    size_t mask = groups->n_slots - 1;
    size_t at = (size_t)hash_key(key, n_key) & mask;

    for (; groups->slots[at] != 0; at = (at + 1) & mask) {
        const struct group *group = &groups->list[groups->slots[at] - 1];

        if (group->n_key == n_key && memcmp(group->key, key, n_key) == 0) {
            break;
        }
    }
    return at;
}

/* Doubles list and table together; the table is never more than half full. Groups without a key (groups_add_alone) are
 * not in the table. False: no memory, and everything is as it was. */
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
            slots[find_slot(groups, list[i].key, list[i].n_key)] = i + 1;
        }
    }
    return true;
}

/* `apart`: the name is kept whole, so that only tensors of that name share the group. NO_GROUP: no memory. */
size_t groups_add(struct groups *groups, size_t index, const char *name, const struct group_kind *kind, bool apart)
{
    size_t n_key;
    char *key = make_key(groups, name, kind, apart, &n_key);

    if (key == NULL || (groups->n == groups->capacity && !grow(groups))) {
        return NO_GROUP;
    }
    size_t at = find_slot(groups, key, n_key);
    if (groups->slots[at] != 0) {
        groups->list[groups->slots[at] - 1].count++;
        return groups->slots[at] - 1;
    }
    char *copy = malloc(n_key);
    if (copy == NULL) {
        return NO_GROUP;
    }
    memcpy(copy, key, n_key);
    groups->slots[at] = ++groups->n;
    groups->list[groups->n - 1] =
        (struct group){.key = copy, .n_key = n_key, .pattern = copy, .name = name, .first = index, .count = 1};
    return groups->n - 1;
}

/* A group that nothing else joins, since it is in no slot. */
size_t groups_add_alone(struct groups *groups, size_t index, const char *name)
{
    if (groups->n == groups->capacity && !grow(groups)) {
        return NO_GROUP;
    }
    groups->list[groups->n] = (struct group){.pattern = name, .name = name, .first = index, .count = 1};
    return groups->n++;
}

/* 40 bytes are room for the sign and any number. */
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
