/* json_walk.h - the members of a large JSON object one after the other, each a tree of its own: jansson checks every
 * byte as if it had the text whole, but never more than one member is in memory as a tree.
 *
 * Texts of more than 1,000 levels are refused, and those whose tree would be far larger than honest ones: lists of
 * millions of empty objects.
 *
 * Names that occur twice are noticed within a member only; the caller has to look at its own. What a tree takes is
 * counted in the pool. */
#pragma once

#include <jansson.h>

#include "core/base/ctx.h"

/* A walk; zeros before begin. The text is put back as it was after each step. */
struct json_walk {
    char *text; /* the caller's; changed during a step, and put back */
    size_t n;
    size_t begin; /* the bracket that opens the object */
    size_t at;    /* the bracket or comma before the next member; n: no more */
    json_t *member;
    uint64_t counted; /* bytes of `member` in the pool's figures */
    /* What of a member is needed where its tree would be large (vc_json_trim, which then changes the text for good);
     * NULL: all of it. Set it after begin. */
    const char *const *wanted;
    bool minus_zero; /* a number "-0" was among them, which jansson takes for the integer 0 */
};

/* Behind the object whose opening bracket is at `at`, by counting brackets; n: it does not end. */
size_t vc_json_object_end(const char *text, size_t n, size_t at);

/* The text is the caller's, and changed for a moment during each step. */
void vc_json_walk_begin(struct json_walk *walk, char *text, size_t n);

/* The same for an object inside the text, whose brackets are at `begin` and before n. */
void vc_json_walk_inside(struct json_walk *walk, char *text, size_t begin, size_t n);

/* If the next member is an object of that name, steps over it without a look inside, which is left to a walk of its
 * own: *begin is its opening bracket, *end is behind its closing one. */
bool vc_json_walk_over(struct json_walk *walk, const char *name, size_t *begin, size_t *end);

/* The next member: *name and *value are the walk's until the next step; *value NULL: there are no more. VC_E_FORMAT:
 * the text is no object; the sentence says where and begins with "byte". VC_E_NOMEM: the tree would not fit. */
enum vc_status vc_json_walk_next(struct vc_ctx *ctx, struct json_walk *walk, const char **name, json_t **value);

void vc_json_walk_end(struct vc_ctx *ctx, struct json_walk *walk);

/* A whole text, where all of it is needed at once: refused and counted in the same way. *counted is for
 * vc_json_tree_free. */
enum vc_status vc_json_tree_load(struct vc_ctx *ctx, const char *text, size_t n, json_t **root, uint64_t *counted);
/* The same for a caller that makes the tree itself. */
enum vc_status vc_json_tree_charge(struct vc_ctx *ctx, const char *text, size_t n, uint64_t *counted);
/* A tree of that size is about to be made from n bytes at `at`: it is charged to the pool, or refused. */
enum vc_status vc_json_tree_count(struct vc_ctx *ctx, size_t at, size_t n, uint64_t bytes, uint64_t *counted);
/* Before either of them: where the tree would be large, what is not wanted is taken out of the text (vc_json_trim). */
enum vc_status vc_json_tree_trim(struct vc_ctx *ctx, char *text, size_t n, const char *const *wanted);
void vc_json_tree_free(struct vc_ctx *ctx, json_t *root, uint64_t counted); /* accepts NULL */

/* The member `key` of the object is that text. */
bool vc_json_says(const json_t *object, const char *key, const char *text);
/* A whole number that is greater than 0; what is no such number gives 0. */
uint64_t vc_json_count(const json_t *value);
