/* pool.h - all memory of the library: tagged, counted, limited, reused.
 *
 * Blocks of at least VC_POOL_REUSE_MIN bytes go to a free list when they are freed and are handed out again, because
 * the first touch of fresh pages costs ten times a touch of reused ones; but not tables, which are as large as the
 * model has tensors, and whose sizes rarely come twice. Thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <vcompress/status.h>

struct vc_ctx;

/* What a block is for; vc_ctx_print_memory shows one line each. */
enum vc_tag {
    VC_TAG_MISC = 0,
    VC_TAG_NAMES,   /* tensor tables, names, headers */
    VC_TAG_TILES,   /* tile buffers of the workers */
    VC_TAG_SCALES,  /* scales and zero points held in memory */
    VC_TAG_SCRATCH, /* statistics and temporaries of the kernels */
    VC_TAG_IO,      /* inflate, deflate and copy buffers */
    VC_TAG_REPORT,
    VC_TAG_DEVICE, /* device memory and pinned staging, counted apart */
    VC_TAG_COUNT
};

#define VC_POOL_REUSE_MIN  ((size_t)64 << 10)
#define VC_POOL_ALIGN      64
#define VC_POOL_ALIGNED(n) (((n) + VC_POOL_ALIGN - 1) / VC_POOL_ALIGN * VC_POOL_ALIGN) /* up to whole lines */

struct vc_pool;

struct vc_pool *vc_pool_create(void); /* NULL: no memory */
void vc_pool_destroy(struct vc_pool *pool);

/* Aligned to VC_POOL_ALIGN, contents undefined; size 0 gives a valid pointer. NULL when out of memory or beyond the
 * limit. Prefer vc_alloc, which sets the error. */
void *vc_pool_alloc(struct vc_pool *pool, enum vc_tag tag, size_t size);
void vc_pool_free(struct vc_pool *pool, void *p); /* accepts NULL */

void vc_pool_set_end(void *p, void (*end)(void *p)); /* what vc_result_free calls before it frees the block */

/* A block that goes to the caller of the library, as a text for vc_text_free does: the pool counts it until it is freed,
 * and may be destroyed before. */
void vc_pool_give(struct vc_pool *pool, void *p);
void *vc_pool_new_given(size_t size); /* zeros, of no pool, for what knows no context; NULL: no memory */
void vc_pool_free_given(void *p);     /* accepts NULL */

/* What a block of that size takes from the limit: large ones are rounded up. */
size_t vc_pool_block_bytes(size_t size);

void vc_pool_set_limit(struct vc_pool *pool, uint64_t bytes);
uint64_t vc_pool_limit(const struct vc_pool *pool);
uint64_t vc_pool_in_use(const struct vc_pool *pool);
uint64_t vc_pool_reserved(const struct vc_pool *pool); /* in use and kept for reuse */
/* Gives back what is kept for reuse, so that blocks to come take what they are asked for and no more. */
void vc_pool_trim(struct vc_pool *pool);
uint64_t vc_pool_peak(const struct vc_pool *pool); /* of bytes in use and kept for reuse together */

/* Memory that is not the pool's own but counts in its summary (device memory): adds or, negative, takes away. */
void vc_pool_account(struct vc_pool *pool, enum vc_tag tag, int64_t bytes);

/* Tests: the n-th allocation from now on fails (1 = the next), and with `forever` all after it; 0 = none. Until then
 * vc_pool_fails is true: arenas ask for a block for each piece, so that each of them can fail. */
void vc_pool_fail_at(struct vc_pool *pool, uint64_t n, int forever);
bool vc_pool_fails(const struct vc_pool *pool);
uint64_t vc_pool_alloc_count(const struct vc_pool *pool);

void vc_pool_print(const struct vc_pool *pool, FILE *to);

/* Bytes that something else allocates (a JSON tree) and that count as the pool's until they are given back. */
void vc_pool_count(struct vc_pool *pool, uint64_t bytes);
void vc_pool_uncount(struct vc_pool *pool, uint64_t bytes);

const char *vc_pool_tag_name(enum vc_tag tag); /* "tiles" */

/* ---- alloc.c ---- */

/* As vc_pool_alloc, with the error sentence set in ctx: "cannot allocate N bytes for tiles ...". */
void *vc_alloc(struct vc_ctx *ctx, enum vc_tag tag, size_t size);
void *vc_alloc_array(struct vc_ctx *ctx, enum vc_tag tag, size_t n, size_t size); /* overflow-checked */
void *vc_calloc_array(struct vc_ctx *ctx, enum vc_tag tag, size_t n, size_t size);
char *vc_strdup(struct vc_ctx *ctx, enum vc_tag tag, const char *s);
void vc_free(struct vc_ctx *ctx, void *p);
/* Several blocks in their order, all of which are named before the first is freed: a structure may stand behind its members.
 *
 *     VC_FREE_ALL(ctx, self->names, self->shapes, self); */
#define VC_FREE_ALL(ctx, ...) \
    vc_free_all((ctx), (void *const[]){__VA_ARGS__}, sizeof((void *const[]){__VA_ARGS__}) / sizeof(void *))
void vc_free_all(struct vc_ctx *ctx, void *const *blocks, size_t n);

/* Zeros, for a result that programs free by vc_result_free: `end` releases what the result has, the block itself follows.
 * VC_RESULT sets the pointer p to one: VC_OK, or VC_E_NOMEM and p is NULL. */
void *vc_result_new(struct vc_ctx *ctx, enum vc_tag tag, size_t size, void (*end)(void *result));
#define VC_RESULT(ctx, tag, p, end) \
    (((p) = vc_result_new((ctx), (tag), sizeof *(p), (end))) != NULL ? VC_OK : VC_E_NOMEM)

/* Before the declaration of a pointer: the block that the pointer names, if any, is freed where the scope of the variable
 * ends. A function that keeps the block sets the variable to NULL.
 *
 *     VC_SCOPED float *row = vc_alloc_array(ctx, VC_TAG_SCRATCH, n, sizeof *row);
 *
 *     VC_CALL_ALLOC(row);
 *     VC_CALL(read_row(ctx, row)); -- whichever way the function ends, row is freed */
#define VC_SCOPED VC_CLEANUP(vc_free_at)
void vc_free_at(void *variable);
/* The pointer that the variable has, which becomes NULL. So the block of a VC_SCOPED variable, or of one of its kin, outlives
 * the scope; and a member that is freed so is not freed again.
 *
 *     *out = vc_give(&model);     vc_free(ctx, vc_give(&self->rows)); */
void *vc_give(void *variable);

/* The same for a result: vc_result_free. */
#define VC_SCOPED_RESULT VC_CLEANUP(vc_result_free_at)
void vc_result_free_at(void *variable);

/* Memory that another library is about to take by itself to read `what`: counted under VC_TAG_REPORT like a
 * block until vc_uncharge, or refused beyond the limit. */
enum vc_status vc_charge(struct vc_ctx *ctx, const char *what, uint64_t bytes, uint64_t *counted);
void vc_uncharge(struct vc_ctx *ctx, uint64_t counted);

/* Sets the pointer p to an array of n items, and for VC_ZEROS of zeros: VC_OK, or VC_E_NOMEM and p is NULL.
 *
 *     VC_TRY(VC_ZEROS(ctx, VC_TAG_NAMES, model->tensors, n)); */
#define VC_ARRAY(ctx, tag, p, n) (((p) = vc_alloc_array((ctx), (tag), (n), sizeof *(p))) != NULL ? VC_OK : VC_E_NOMEM)
#define VC_ZEROS(ctx, tag, p, n) (((p) = vc_calloc_array((ctx), (tag), (n), sizeof *(p))) != NULL ? VC_OK : VC_E_NOMEM)
