/* context.h - what every call shares: the last error, memory, threads, the device, progress and cancelling.
 *
 * A context belongs to one thread at a time. Only vc_ctx_cancel may be called from elsewhere (a signal handler too).
 * Two contexts are independent of each other.
 *
 * A context outlives everything that was made with it: models, jobs, inspections, verifications, differences and lists
 * of devices are freed first, since their memory is the context's. Texts for vc_text_free are not. */
#ifndef VCOMPRESS_CONTEXT_H
#define VCOMPRESS_CONTEXT_H

#include <stdint.h>
#include <stdio.h>

#include <vcompress/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vc_ctx;

/* Creates a context with the defaults: all processors this process may use, a quarter of the free memory, device
 * "auto", every CPU level that this processor has (or what the environment variable VC_CPU_MASK allows). On failure
 * *out is NULL (no memory) or a context that holds the sentence (VC_CPU_MASK names no level); free it either way. */
VC_API enum vc_status vc_ctx_create(struct vc_ctx **out);
VC_API void vc_ctx_free(struct vc_ctx *ctx); /* accepts NULL */

/* The sentence of the last failure: names file, tensor, what was found and what was expected. "" after success.
 * Borrowed; valid until the next call with this context. */
VC_API const char *vc_ctx_message(const struct vc_ctx *ctx);

/* No output of this context replaces that file, under whatever name, even with `force`: for files that the program
 * reads itself, or names to the library later. Files that the library has open are kept anyway. One that is not there
 * is none to keep. */
VC_API enum vc_status vc_ctx_keep_file(struct vc_ctx *ctx, const char *path);

/* 0 = every processor this process may use (affinity and cgroup quota respected). At most 256. */
VC_API enum vc_status vc_ctx_set_threads(struct vc_ctx *ctx, unsigned n_threads);
VC_API unsigned vc_ctx_threads(const struct vc_ctx *ctx);

/* Upper bound in bytes for all memory that the library takes with this context, its models and jobs together. What
 * would need more fails with VC_E_NOMEM, and nothing else is harmed; a larger limit may be set then. 0 = a quarter of
 * the memory that is free now (64 MiB at least), which is also what a new context has: it is looked at once, then, and
 * does not change with what is free later. Not counted: the code, threads' stacks, and what jansson and the codecs take
 * for a moment. */
VC_API enum vc_status vc_ctx_set_max_memory(struct vc_ctx *ctx, uint64_t bytes);
VC_API uint64_t vc_ctx_max_memory(const struct vc_ctx *ctx);

/* Highest CPU level to use: "ref", "base", "avx2", "avx512", "neon" or "all". The output never depends on it. */
VC_API enum vc_status vc_ctx_set_cpu_mask(struct vc_ctx *ctx, const char *level);
VC_API const char *vc_ctx_cpu_level(const struct vc_ctx *ctx); /* the level in use; a static string */

/* "auto", "cpu", "cuda" or "cuda:N". "auto" takes a CUDA device only where that is expected to be faster; today that
 * is never for plain passes, because moving the weights costs more than converting them (docs/performance.md).
 * "cuda" fails with VC_E_DEVICE and the reason at the first use. The output never depends on it. */
VC_API enum vc_status vc_ctx_set_device(struct vc_ctx *ctx, const char *device);
VC_API const char *vc_ctx_device(const struct vc_ctx *ctx); /* borrowed; until it is set again */

struct vc_progress {
    const char *what;     /* "quantize", "verify", ... */
    const char *tensor;   /* name of a tensor in work; "" in the last report */
    uint64_t done, total; /* bytes of source weights; done is never more than total */
};

/* Called from the thread that called into the library, at most some 10 times a second, and once more at the end of
 * every part of the work that ended well, with done == total; *progress and its strings are valid during the call. fn
 * NULL: none, which is the default. */
VC_API void vc_ctx_set_progress(struct vc_ctx *ctx, void (*fn)(void *user, const struct vc_progress *progress),
                                void *user);

/* How sentences name the options of the caller's own interface. A sentence of the library that speaks of an option says
 * the name of the field: "max_bytes allows 1024 bytes". A program whose users do not see the structures gives a
 * function that turns such a name into what they know: "--max-bytes". It gets the name of a field of an options
 * structure, or of what a vc_ctx_set_ call sets: "min_sqnr_db", "max_memory" "field=value" where a program may have a
 * name for that alone: "target=f16", "include=false" (of a vc_rule) and returns a static string, or NULL to leave the
 * name as it is. It is called from any thread, so it must not change anything. NULL: the names of the fields, which is
 * the default. */
VC_API void vc_ctx_set_option_names(struct vc_ctx *ctx, const char *(*name)(const char *field));

/* Ends the running call with VC_E_CANCELLED at its next tile or tensor. Where no call is running, or it is over before
 * it notices, the next one that opens a model, plans, or reads or writes values ends so: a signal between two calls is
 * not lost. Calls after that one are not affected. Safe in a signal handler and from any thread. */
VC_API void vc_ctx_cancel(struct vc_ctx *ctx);

/* Prints what the memory pool holds and held at its peak, by purpose, on host and device. */
VC_API void vc_ctx_print_memory(const struct vc_ctx *ctx, FILE *to);
VC_API uint64_t vc_ctx_peak_bytes(const struct vc_ctx *ctx);

/* "0.1.0"; a static string. */
VC_API const char *vc_version(void);

/* What this build and this machine have, one part per line: the codecs with their versions, the CPU levels. Loads
 * nothing and starts nothing. A static string. */
VC_API const char *vc_features(void);

#ifdef __cplusplus
}
#endif
#endif
