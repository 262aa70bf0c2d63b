/* page_groups.h - tensors of a model in groups: those whose names differ in numbers alone, and that are alike in a kind
 * that the caller gives, are one line of a table. There are at most VC_PAGE_GROUPS; what comes when all are taken
 * shares the last one, so that a page and its making stay small whatever the model is. */
#ifndef VC_REPORT_PAGE_GROUPS_H
#define VC_REPORT_PAGE_GROUPS_H

#include "core/base/arena.h"
#include "core/base/ctx.h"
#include "core/base/hash_table.h"

#define VC_PAGE_GROUPS      160 /* that are told apart */
#define VC_PAGE_GROUP_LINES 40  /* of a table; the rest is told as a sum */
#define VC_PAGE_CELLS       256 /* of a strip */

struct vc_page_group {
    const char *label; /* "layers.*.w", or the name where it is one; NULL: what has no group of its own */
    size_t n;          /* members */
    size_t first;      /* index of the first one */
    uint64_t weight;   /* what is added to it decides which lines are shown: bytes */
};

struct vc_page_groups {
    struct vc_ctx *ctx;
    struct vc_arena arena;
    size_t n;
    struct vc_page_group groups[VC_PAGE_GROUPS + 1];
    const char *keys[VC_PAGE_GROUPS];
    struct vc_hash_table by_key;
    size_t order[VC_PAGE_GROUPS + 1]; /* vc_page_groups_sort: the heaviest first, then as they came */
    enum vc_status status;
};

void vc_page_groups_init(struct vc_page_groups *groups, struct vc_ctx *ctx);
void vc_page_groups_release(struct vc_page_groups *groups);
/* The group of a tensor, by number: 0 to VC_PAGE_GROUPS. */
size_t vc_page_groups_add(struct vc_page_groups *groups, size_t index, const char *name, const char *kind,
                          uint64_t weight);
/* The group that a tensor was added to. */
size_t vc_page_groups_find(const struct vc_page_groups *groups, const char *name, const char *kind);
void vc_page_groups_sort(struct vc_page_groups *groups);

#endif
