/* group.h - puts tensors with alike names together: layers.0.w and layers.1.w become layers.*.w. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What members of a group must have in common beside the pattern, as bytes: numbers and texts, one behind the other. Of
 * a million tensors each has one, which is why it is not printed into a text. */
struct group_kind {
    size_t n;
    char bytes[2048]; /* of a longer one the beginning */
};

void group_kind_begin(struct group_kind *kind);
void group_kind_number(struct group_kind *kind, uint64_t number);
void group_kind_text(struct group_kind *kind, const char *text);

struct group {
    char *key;           /* the pattern, and behind its NUL the kind; NULL: it gets no other members */
    size_t n_key;        /* bytes of both */
    const char *pattern; /* the name with its numbers replaced */
    const char *name;    /* of the first member, borrowed */
    size_t first;        /* index given with the first member */
    size_t count;
};

struct groups {
    size_t n, capacity;
    struct group *list; /* in the order of their first members */
    size_t n_slots;     /* hash table of list indices + 1; a power of two */
    size_t *slots;
    char *scratch; /* of n_scratch bytes */
    size_t n_scratch;
};

#define NO_GROUP ((size_t)-1)

void groups_init(struct groups *groups);
void groups_release(struct groups *groups);

/* Adds a tensor to the group of its pattern and `kind` (NULL: the pattern is enough). With `apart` the name itself is
 * the pattern. Returns the group's index, or NO_GROUP: no memory. */
size_t groups_add(struct groups *groups, size_t index, const char *name, const struct group_kind *kind, bool apart);

/* Adds a group of one, whose name no other has: with -v every tensor is shown. */
size_t groups_add_alone(struct groups *groups, size_t index, const char *name);

/* What to print: the only member's name, or "pattern ×24". The caller frees it; NULL: no memory. */
char *group_label(const struct group *group, const char *times);
