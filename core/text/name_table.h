/* name_table.h - finds one name among up to millions: a hash table of their numbers. The names stay where they are, in
 * an array of pointers or of structures that begin with one.
 *
 *     struct vc_name_list list = VC_NAME_LIST(model->tensors, sizeof *model->tensors);
 *     vc_name_table_make(ctx, n, &table);
 *     vc_name_table_add(&table, list, 0); ...
 *     vc_name_table_find(&table, list, "w", 1) */
#pragma once

#include "core/base/hash_table.h"

/* Name i is the string that the pointer at first + i * stride points to. */
struct vc_name_list {
    const void *first;
    size_t stride;
};

#define VC_NAME_LIST(first_name, stride_bytes) ((struct vc_name_list){(first_name), (stride_bytes)})

/* Starts as zeros. */
struct vc_name_table {
    struct vc_hash_table numbers;
};

/* An empty table with room for n names, in place of the one that is there. */
enum vc_status vc_name_table_make(struct vc_ctx *ctx, size_t n, struct vc_name_table *table);
void vc_name_table_release(struct vc_ctx *ctx, struct vc_name_table *table);

/* The same where the scope of a table ends: VC_SCOPED_NAMES struct vc_name_table names = {0}; */
#define VC_SCOPED_NAMES VC_CLEANUP(vc_name_table_end)
void vc_name_table_end(struct vc_name_table *table);

/* Room for name number i of the list, behind those that are there. */
enum vc_status vc_name_table_grow(struct vc_ctx *ctx, struct vc_name_table *table, struct vc_name_list list, size_t i);

/* Adds name number i of the list. SIZE_MAX; or the number of the same name, added before, and nothing is added. */
size_t vc_name_table_add(struct vc_name_table *table, struct vc_name_list list, size_t i);

/* The number of the name of n characters; SIZE_MAX: it is not there. */
size_t vc_name_table_find(const struct vc_name_table *table, struct vc_name_list list, const char *name, size_t n);

/* Of n names the first that occurred before, in *twice; SIZE_MAX: all are different. */
enum vc_status vc_names_unique(struct vc_ctx *ctx, struct vc_name_list list, size_t n, size_t *twice);
