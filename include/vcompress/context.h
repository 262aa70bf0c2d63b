/* context.h - the state that all calls share: last error, memory, threads, device, progress and cancelling.
 *
 * One thread uses a context at a time. Only vc_ctx_cancel may be called from other threads and from signal handlers.
 * Two contexts are independent of each other.
 *
 * Free models, jobs, inspections, verifications, differences and lists of devices before their context, which owns
 * their memory. Texts for vc_text_free may outlive the context. */
#ifndef VCOMPRESS_CONTEXT_H
#define VCOMPRESS_CONTEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <vcompress/status.h>

VC_BEGIN_C

struct vc_ctx;

/* Creates a context with the defaults: all processors that this process may use, a quarter of the free memory, device
 * "auto", every CPU level of this processor (or the levels that the environment variable VC_CPU_MASK allows).
 *
 * On failure: *out is NULL if memory is short; if VC_CPU_MASK names an unknown level, *out is a context with the
 * sentence. Call vc_ctx_free in both cases. */
VC_API enum vc_status vc_ctx_create(struct vc_ctx **out);
VC_API void vc_ctx_free(struct vc_ctx *ctx); /* accepts NULL */

/* The sentence of the last failure. The sentence names the file, the tensor, what was found and what was expected. ""
 * after success. Borrowed; valid until the next call with this context. */
VC_API const char *vc_ctx_message(const struct vc_ctx *ctx);

/* Protects the file at `path`: no output of this context replaces the file, under any name, even with `force`. For
 * files that the program reads itself or passes to the library later. Files that the library has open are always
 * protected. Does nothing if the file does not exist. */
VC_API enum vc_status vc_ctx_keep_file(struct vc_ctx *ctx, const char *path);

/* Number of threads, at most 256. 0: every processor that this process may use (affinity and cgroup quota respected).
 */
VC_API enum vc_status vc_ctx_set_threads(struct vc_ctx *ctx, unsigned n_threads);

/* Upper bound in bytes for all memory that the library allocates with this context, its models and jobs together. A
 * call that needs more returns VC_E_NOMEM; the context stays usable, with a larger limit for example. 0: a quarter of
 * the memory that is free at this call, at least 64 MiB. A new context has the same limit. Not counted: code, stacks of
 * threads, and short allocations of jansson and of the codecs. */
VC_API enum vc_status vc_ctx_set_max_memory(struct vc_ctx *ctx, uint64_t bytes);

/* Highest CPU level to use: "ref", "base", "avx2", "avx512", "neon" or "all". The output never depends on it. */
VC_API enum vc_status vc_ctx_set_cpu_mask(struct vc_ctx *ctx, const char *level);

/* "auto", "cpu", "cuda" or "cuda:N". "auto" lets the first CUDA device encode weights where it is expected to
 * be faster than the processors (docs/performance.md); vc_report.device_reason says why it does not. "cuda" without a usable device fails with VC_E_DEVICE and the reason, at the first use. The
 * output never depends on the device. */
VC_API enum vc_status vc_ctx_set_device(struct vc_ctx *ctx, const char *device);

/* For graphs that are built from now on: the input of a single number, or the size that inputs leave open, that is
 * called `name` is `value` in every run. The graph has a number there and no input, so that an If is one of its branches
 * and a Loop has its steps. A name that a graph does not have changes nothing. VC_E_NOMEM. */
VC_API enum vc_status vc_ctx_set_known(struct vc_ctx *ctx, const char *name, int64_t value);

struct vc_progress {
    const char *what;     /* "quantize", "verify", ... */
    const char *tensor;   /* name of a tensor in work; "" in the last call */
    uint64_t done, total; /* bytes of source weights; done <= total */
};

/* Sets a function that the library calls with its progress: from the thread that called the library, at most about 10
 * times a second, and with done == total at the end of every part that succeeded. *progress and its strings are valid
 * during the call. fn NULL (the default): no progress. */
VC_API void vc_ctx_set_progress(struct vc_ctx *ctx, void (*fn)(void *user, const struct vc_progress *progress),
                                void *user);

/* Sets how sentences name options. By default a sentence uses the name of the field: "max_bytes allows 1024 bytes".
 * With a function `name`, a program shows its users their own word instead: "--max-bytes".
 *
 * The argument of `name` is a field of an options structure or a setting of a vc_ctx_set_ call ("min_sqnr_db",
 * "max_memory"), or "field=value" where a program may have a word for one value ("target=f16", "include=false" of a
 * vc_rule). The result is a static string, or NULL to keep the field's name. Any thread may call `name`, so `name` must
 * not change anything. NULL (the default): the names of the fields. */
VC_API void vc_ctx_set_option_names(struct vc_ctx *ctx, const char *(*name)(const char *field));

/* Ends the running call with VC_E_CANCELLED at its next tile or tensor. If no call is running, or the call ends before
 * noticing, the next call that opens a model, plans, or reads or writes values ends with VC_E_CANCELLED: a signal
 * between two calls is not lost. Later calls are not affected. Safe in a signal handler and from any thread. */
VC_API void vc_ctx_cancel(struct vc_ctx *ctx);

/* Prints the bytes of the memory pool, now and at the peak, by purpose, on host and device. */
VC_API void vc_ctx_print_memory(const struct vc_ctx *ctx, FILE *to);

/* What a context uses. Strings are static, or valid as long as the context. */
struct vc_ctx_facts {
    unsigned threads;      /* at least 1 */
    uint64_t max_memory;   /* the limit of vc_ctx_set_max_memory, bytes */
    uint64_t peak_bytes;   /* most bytes of the memory pool at once, so far */
    const char *cpu_level; /* the level in use, "avx2" */
    /* A name of vc_ctx_set_known that changed no graph built so far, the one said last of several: no graph has such an
     * input or open size, or the value is below 1 and it is a size. NULL: every name changed one. */
    const char *unused_known;
};

/* The facts of this moment. */
VC_API void vc_ctx_look(const struct vc_ctx *ctx, struct vc_ctx_facts *out);

/* Frees a result (vc_devices, vc_verification, and what experimental headers say), with all that its members point to,
 * before the context; accepts NULL. */
VC_API void vc_result_free(void *result);

/* Makes a structure of options: the defaults of the fields that the program and the library know, then zeros. structure:
 * its name, "vc_write_options"; struct_size: its size in the program. In C and C++ the inline functions vc_..._defaults of
 * the headers call this function. A structure with another name becomes zeros, which every function refuses. */
VC_API void vc_options_defaults(const char *structure, void *options, size_t struct_size);

/* "0.1.0"; a static string. */
VC_API const char *vc_version(void);

/* The parts of this build and this machine, one per line: codecs with their versions, CPU levels. Loads nothing and
 * starts nothing. A static string. */
VC_API const char *vc_features(void);

VC_END_C
#endif
