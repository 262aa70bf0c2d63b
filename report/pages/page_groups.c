/* page_groups.c - see page_groups.h. */
#include "report/pages/page_groups.h"

#include <string.h>

#include "report/pages/page_write.h"

#define KEY_BYTES 1024

void vc_page_groups_init(struct vc_page_groups *groups, struct vc_ctx *ctx)
{
    memset(groups, 0, sizeof *groups);
    groups->ctx = ctx;
}

void vc_page_groups_release(struct vc_page_groups *groups)
{
    vc_arena_release(groups->ctx, &groups->arena);
    vc_hash_release(groups->ctx, &groups->by_key);
}

/* "layers.*.w", 0x1f, kind: longer ones are cut. */
static size_t make_key(char *key, const char *name, const char *kind)
{
    size_t n = vc_name_pattern(name, key, KEY_BYTES / 2);
    size_t n_kind = strlen(kind);

    n_kind = n_kind < KEY_BYTES / 2 - 2 ? n_kind : KEY_BYTES / 2 - 2;
    key[n] = '\x1f';
    memcpy(key + n + 1, kind, n_kind);
    key[n + 1 + n_kind] = '\0';
    return n;
}

struct key {
    const struct vc_page_groups *groups;
    const char *text;
};

static bool is_same(const void *user, size_t number)
{
    const struct key *key = user;

    return strcmp(key->groups->keys[number], key->text) == 0;
}

static uint64_t hash_of(const void *groups, size_t number)
{
    return vc_hash_text(((const struct vc_page_groups *)groups)->keys[number]);
}

/* The number of the key's group; SIZE_MAX: there is none. */
static size_t find(const struct vc_page_groups *groups, const char *text)
{
    const struct key key = {groups, text};

    return vc_hash_find(&groups->by_key, vc_hash_text(text), is_same, &key);
}

static size_t join(struct vc_page_groups *groups, size_t number, size_t index, uint64_t weight)
{
    struct vc_page_group *group = &groups->groups[number];

    if (group->n++ == 0) {
        group->first = index;
    }
    group->weight += weight;
    return number;
}

size_t vc_page_groups_add(struct vc_page_groups *groups, size_t index, const char *name, const char *kind,
                          uint64_t weight)
{
    char key[KEY_BYTES];
    size_t n_pattern = make_key(key, name, kind);
    size_t number = find(groups, key);
    const char *own;

    if (number != SIZE_MAX) {
        if (groups->groups[number].n == 1) { /* its label was the only name */
            char *label = vc_arena_copy(groups->ctx, &groups->arena, key, n_pattern);

            groups->status = label == NULL ? VC_E_NOMEM : groups->status;
            groups->groups[number].label = label != NULL ? label : groups->groups[number].label;
        }
        return join(groups, number, index, weight);
    }
    if (groups->n == VC_PAGE_GROUPS || groups->status != VC_OK) {
        return join(groups, VC_PAGE_GROUPS, index, weight);
    }
    own = vc_arena_copy(groups->ctx, &groups->arena, key, strlen(key));
    groups->keys[groups->n] = own;
    groups->groups[groups->n].label = vc_arena_copy(groups->ctx, &groups->arena, name, strnlen(name, KEY_BYTES));
    if (own == NULL || groups->groups[groups->n].label == NULL ||
        vc_hash_grow(groups->ctx, &groups->by_key, groups->n, hash_of, groups) != VC_OK) {
        groups->status = VC_E_NOMEM;
        return join(groups, VC_PAGE_GROUPS, index, weight);
    }
    vc_hash_add(&groups->by_key, vc_hash_text(own), groups->n);
    return join(groups, groups->n++, index, weight);
}

size_t vc_page_groups_find(const struct vc_page_groups *groups, const char *name, const char *kind)
{
    char key[KEY_BYTES];
    size_t number;

    (void)make_key(key, name, kind);
    number = find(groups, key);
    return number != SIZE_MAX ? number : VC_PAGE_GROUPS;
}

void vc_page_groups_sort(struct vc_page_groups *groups)
{
    for (size_t i = 0; i < groups->n; i++) {
        size_t at = i;

        while (at > 0 && groups->groups[groups->order[at - 1]].weight < groups->groups[i].weight) {
            groups->order[at] = groups->order[at - 1];
            at--;
        }
        groups->order[at] = i;
    }
}

void vc_page_group_name(struct vc_page *page, const struct vc_page_group *group)
{
    vc_page_add(page, "<span class=\"name\">");
    vc_svg_add_text(&page->text, group->label != NULL ? group->label : "others", 64);
    vc_page_add(page, "</span>");
    if (group->n > 1) {
        vc_page_add(page, " <span class=\"sub\">&#215;%s</span>", vc_figure_count(group->n).s);
    }
}
