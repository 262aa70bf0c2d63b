/* ctx.h - inside of the context: the error slot of one thread, and what all threads share.
 *
 * The executor gives each worker a context of its own (vc_ctx_fork): same pool, own error. So a function just fails
 * into the context it was given, and the executor picks the error of the earliest tile: the message does not depend
 * on timing. */
#pragma once

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <vcompress/context.h>

#include "core/base/checked.h"
#include "core/base/compiler.h"
#include "core/base/pool.h"

#define VC_MESSAGE_BYTES 1024

enum vc_cpu_level {
    VC_CPU_REF = 0, /* the definition: plain loops, no vectorization */
    VC_CPU_BASE,    /* the compiler's baseline for this architecture */
    VC_CPU_AVX2,    /* x86-64-v3: AVX2, F16C, FMA, BMI */
    VC_CPU_AVX512,  /* x86-64-v4: AVX-512 F, BW, CD, DQ, VL */
    VC_CPU_NEON,    /* aarch64 */
    VC_CPU_COUNT
};

/* Files that no output replaces; kept_files.h. */
struct vc_kept {
    pthread_mutex_t mutex;
    struct vc_kept_file *first;
    struct vc_kept_named *named; /* those of vc_ctx_keep_file */
};

struct vc_shared {
    struct vc_pool *pool;
    unsigned n_threads;          /* 0: all */
    uint64_t max_memory;         /* of the pool, and of what else is planned with it */
    bool default_memory;         /* a quarter of what was free: the program has set none */
    enum vc_cpu_level cpu_level; /* highest one allowed and present */
    char device[32];             /* "auto", "cpu", "cuda", "cuda:N" */
    void (*progress)(void *user, const struct vc_progress *progress);
    void *progress_user;
    const char *(*option_name)(const char *field); /* vc_ctx_set_option_names; NULL: none */
    struct vc_known_input *known;                  /* vc_ctx_set_known: a list */
    atomic_int cancelled;
    double deadline; /* vc_seconds() from which on work counts as cancelled; 0: none. Set between jobs alone */
    /* The kernel table chosen for this context; owned by kernels/, which sets it at first use. */
    void *kernels;
    void (*kernels_free)(struct vc_ctx *ctx, void *kernels);
    char device_name[128]; /* what the report says: "cpu (avx2)" */
    /* Device "auto" and a network that is trained (distill/run/train_auto.c): what is expected of the processors and of a card; 0:
     * nobody asked. by_card: the card has it; else `why` it has not. */
    struct {
        double cpu_seconds, card_seconds;
        bool by_card;
        char why[256];
    } training;
    struct vc_kept kept;
};

struct vc_known_input {
    struct vc_known_input *next;
    int64_t value;
    atomic_bool used; /* some graph has such an input or size */
    char name[];
};

struct vc_findings;

struct vc_ctx {
    struct vc_shared *shared;
    struct vc_findings *findings; /* NULL: the first violation is a failure; core/base/findings.h */
    enum vc_status status;
    bool on_cpu; /* what this thread computes now is not for a card: too little, or nothing that a card is faster at */
    unsigned depth; /* public calls that are under way: one may use another */
    char message[VC_MESSAGE_BYTES];
};

/* Around the work of a public call that may take long. begin forgets the last error; end, of the outermost one, forgets
 * the wish to cancel once it was granted. end returns `status`. */
void vc_call_begin(struct vc_ctx *ctx);
enum vc_status vc_call_end(struct vc_ctx *ctx, enum vc_status status);

/* Sets status and sentence (control characters in arguments become '?'); returns status. An error that is already set
 * is replaced: call it once, where the failure is found. */
enum vc_status vc_fail(struct vc_ctx *ctx, enum vc_status status, const char *format, ...) VC_PRINTF(3, 4);

/* As vc_fail with VC_E_IO and ": strerror(error_number)" appended. */
enum vc_status vc_fail_errno(struct vc_ctx *ctx, int error_number, const char *format, ...) VC_PRINTF(3, 4);

/* Puts "text: " before the sentence while unwinding, if it does not begin so; returns the status that is set. */
enum vc_status vc_context(struct vc_ctx *ctx, const char *format, ...) VC_PRINTF(2, 3);

void vc_clear_error(struct vc_ctx *ctx);

/* Failures that are about a file or an option, and not about the machine: who asked may go on without an answer. */
bool vc_is_refusal(enum vc_status status);
/* VC_OK for such a failure, whose sentence is forgotten; else `status`. */
enum vc_status vc_without_refusal(struct vc_ctx *ctx, enum vc_status status);

/* Members of vc_ctx_facts that the library asks for. */
unsigned vc_ctx_threads(const struct vc_ctx *ctx);
uint64_t vc_ctx_max_memory(const struct vc_ctx *ctx);

/* As vc_ctx_set_device has it; borrowed until the next such call. */
const char *vc_ctx_device(const struct vc_ctx *ctx);

/* What the program that uses the library calls an option: "--max-memory" for the field "max_memory" where it is the
 * command, "max_memory" where it has set no names. For every sentence that tells the user to change an option; a value
 * is written after it: "%s=keep". The result is static, or `field` itself. */
const char *vc_option(const struct vc_ctx *ctx, const char *field);

/* What vc_ctx_set_known said of that name; NULL: nothing. */
struct vc_known_input *vc_ctx_known(const struct vc_ctx *ctx, const char *name);

/* VC_E_CANCELLED, with its sentence, from vc_ctx_cancel until the end of the call, and behind the deadline. */
enum vc_status vc_check_cancelled(struct vc_ctx *ctx);

/* A context for one worker. No allocation: `child` is the worker's own storage. */
void vc_ctx_fork(const struct vc_ctx *parent, struct vc_ctx *child);

/* Returns what expr is when that is not VC_OK: for functions that have nothing to free. */
#define VC_CALL(expr)                      \
    do {                                   \
        enum vc_status vc_called = (expr); \
        if (vc_called != VC_OK) {          \
            return vc_called;              \
        }                                  \
    } while (0)

/* Refuses where the condition holds: the function returns what vc_fail makes of (ctx, status, sentence, values ...). For
 * functions that have nothing to free.
 *
 *     VC_REFUSE_IF(n_rows == 0, ctx, VC_E_FORMAT, "%s: has no rows", name); */
#define VC_REFUSE_IF(condition, ...)     \
    do {                                 \
        if (condition) {                 \
            return vc_fail(__VA_ARGS__); \
        }                                \
    } while (0)

/* The same by a function of the file that says the sentence: VC_RETURN_IF(n == 0, refuse(b, key, "is no size")). */
#define VC_RETURN_IF(condition, refusal) \
    do {                                 \
        if (condition) {                 \
            return refusal;              \
        }                                \
    } while (0)

/* The same in a function without a status, whose sentence or status goes elsewhere (to a graph): it ends, with a value or
 * without: VC_LEAVE_IF(n == 0, vc_infer_fail(in, "is no size")), VC_LEAVE_WITH(p == NULL, graph->status = VC_E_NOMEM, NULL). */
#define VC_LEAVE_IF(condition, refusal) \
    do {                                \
        if (condition) {                \
            refusal;                    \
            return;                     \
        }                               \
    } while (0)
#define VC_LEAVE_WITH(condition, refusal, value) \
    do {                                         \
        if (condition) {                         \
            refusal;                             \
            return value;                        \
        }                                        \
    } while (0)

/* What VC_CALL does for a NULL from vc_alloc and friends. p may be the assignment itself:
 *
 *     VC_CALL_ALLOC(row->name = vc_arena_printf(ctx, arena, "%s.scale", name)); */
#define VC_CALL_ALLOC(p)       \
    do {                       \
        if ((p) == NULL) {     \
            return VC_E_NOMEM; \
        }                      \
    } while (0)

/* What VC_CALL does for a NULL from a function that said why in ctx. */
#define VC_CALL_FOUND(ctx, p)     \
    do {                          \
        if ((p) == NULL) {        \
            return (ctx)->status; \
        }                         \
    } while (0)

/* Goes to `out` when expr is not VC_OK, keeping the value in `status`, which the function declares. */
#define VC_TRY(expr)           \
    do {                       \
        status = (expr);       \
        if (status != VC_OK) { \
            goto out;          \
        }                      \
    } while (0)

/* What VC_TRY does for a NULL from vc_alloc and friends. */
#define VC_TRY_ALLOC(p)          \
    do {                         \
        if ((p) == NULL) {       \
            status = VC_E_NOMEM; \
            goto out;            \
        }                        \
    } while (0)
