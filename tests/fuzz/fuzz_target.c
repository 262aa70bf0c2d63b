/* fuzz_target.c - see fuzz_target.h. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz_target.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vcompress/experimental.h>

#include "core/base/checked.h"
#include "folder_builder.h"
#include "kernels/kernels.h"
#include "model_walk.h"
#include "support_options.h"

static uint64_t kept_bytes; /* the table of kernels, which stays with the context */

struct vc_ctx *fuzz_ctx(void)
{
    static struct vc_ctx *ctx;

    if (ctx == NULL) {
        if (vc_ctx_create(&ctx) != VC_OK || vc_ctx_set_max_memory(ctx, (uint64_t)256 << 20) != VC_OK ||
            vc_ctx_set_threads(ctx, 1) != VC_OK || vc_kernels_get(ctx) == NULL) {
            abort();
        }
        kept_bytes = vc_pool_in_use(ctx->shared->pool);
    }
    return ctx;
}

uint64_t fuzz_in_use(void)
{
    return vc_pool_in_use(fuzz_ctx()->shared->pool) - kept_bytes;
}

int fuzz_memory(void)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd < 0) {
        abort();
    }
    return fd;
}

int fuzz_file_in(const char *folder, const char *name)
{
    char path[512];
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        abort();
    }
    return fd;
}

void fuzz_folder(char *path, size_t capacity)
{
    if (access("/dev/shm", W_OK) == 0) {
        (void)setenv("TMPDIR", "/dev/shm", 1);
    }
    folder_make(path, capacity);
}

void fuzz_store(int fd, const uint8_t *data, size_t n)
{
    if (ftruncate(fd, 0) != 0 || (n > 0 && pwrite(fd, data, n, 0) != (ssize_t)n)) {
        abort();
    }
}

/* One memory file for the whole run: making one for each input costs more than all the rest. */
const char *fuzz_file(const uint8_t *data, size_t n)
{
    static char path[64];
    static int fd = -1;

    if (fd < 0) {
        fd = fuzz_memory();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    fuzz_store(fd, data, n);
    return path;
}

void fuzz_begin_with(const void *start, size_t n_start, size_t n_known, const uint8_t *data, size_t n, size_t max_bytes,
                     void (*each)(const uint8_t *data, size_t n))
{
    uint8_t *copy;

    if (n >= n_known && memcmp(data, start, n_known) == 0) {
        each(data, n);
    } else if (n < max_bytes) {
        copy = malloc(n_start + n);
        if (copy == NULL) {
            return;
        }
        memcpy(copy, start, n_start);
        if (n > 0) {
            memcpy(copy + n_start, data, n);
        }
        each(copy, n_start + n);
        free(copy);
    }
}

void fuzz_safetensors(const uint8_t *data, size_t n, size_t max_bytes, void (*each)(const uint8_t *data, size_t n))
{
    size_t n_header = n;
    unsigned char *copy;

    if (n > 8 && data[8] == '{') {
        each(data, n);
    } else if (n > 1 && data[0] == '{' && n < max_bytes) {
        copy = malloc(8 + n);
        if (copy == NULL) {
            return;
        }
        while (n_header > 1 && data[n_header - 1] != '}') {
            n_header--;
        }
        vc_put_le64(copy, n_header);
        memcpy(copy + 8, data, n);
        each(copy, 8 + n);
        free(copy);
    }
}

void fuzz_promise(bool kept, const char *what, const struct vc_ctx *ctx)
{
    if (!kept) {
        fprintf(stderr, "broken promise: %s (%s)\n", what, vc_ctx_message(ctx));
        abort();
    }
}

static void common_promises(enum vc_status status, const struct vc_ctx *ctx)
{
    const char *message = vc_ctx_message(ctx);
    bool missing = status == VC_E_IO && strstr(message, "has its values in '") != NULL; /* ONNX looks for other files */

    fuzz_promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED || status == VC_E_NOMEM ||
                     missing,
                 vc_status_name(status), ctx);
    fuzz_promise((status == VC_OK) == (message[0] == '\0'), "a sentence with every failure, and only then", ctx);
    fuzz_promise(strchr(message, '\n') == NULL, "one line", ctx);
    fuzz_promise(fuzz_in_use() == 0, "all memory is given back", ctx);
}

static bool is_no_checkpoint(const char *message)
{
    return strstr(message, "checkpoint") != NULL || strstr(message, "zero bytes") != NULL ||
           strstr(message, "is empty") != NULL;
}

/* A verification finds what the reader refuses. */
static void verify_one(struct vc_ctx *ctx, const char *path, enum vc_dtype void_as, enum vc_status walked)
{
    struct vc_verify_options options = support_verify(true);
    struct vc_verification *v = NULL;
    enum vc_status status = vc_verify(ctx, path, &options, &v);
    bool found = status != VC_OK || v->n_errors != 0;
    size_t i;

    options.void_as = void_as;
    for (i = 0; status == VC_OK && i < v->n_findings; i++) {
        fuzz_promise(v->findings[i].sentence[0] != '\0' && v->findings[i].id[0] != '\0', "a finding says what", ctx);
    }
    vc_result_free(v);
    common_promises(status, ctx);
    fuzz_promise(status == VC_E_NOMEM || walked == VC_E_NOMEM || walked == VC_OK || found, "a bad file is not fine",
                 ctx);
    fuzz_promise(status == VC_OK || status == VC_E_NOMEM || walked != VC_OK, "a good file can be verified", ctx);
    fuzz_promise(status != VC_E_FORMAT || is_no_checkpoint(vc_ctx_message(ctx)),
                 "damage to a file of a known format is a finding", ctx);
}

void fuzz_path(const char *path, enum vc_dtype void_as)
{
    struct vc_open_options options = support_open();
    struct vc_ctx *ctx = fuzz_ctx();
    enum vc_status status = walk_path(ctx, path, &options);

    options.void_as = void_as;
    common_promises(status, ctx);
    verify_one(ctx, path, void_as, status);
}

void fuzz_one(const uint8_t *data, size_t n, enum vc_dtype void_as)
{
    fuzz_path(fuzz_file(data, n), void_as);
}

/* ---- jobs ---- */

/* Its context keeps the kernels, so that it cannot be fuzz_ctx, which is checked for being empty. */
static struct vc_ctx *job_ctx(void)
{
    static struct vc_ctx *ctx;

    if (ctx == NULL && (vc_ctx_create(&ctx) != VC_OK || vc_ctx_set_max_memory(ctx, (uint64_t)256 << 20) != VC_OK ||
                        vc_ctx_set_threads(ctx, 1) != VC_OK || vc_ctx_set_device(ctx, "cpu") != VC_OK)) {
        abort();
    }
    return ctx;
}

static enum vc_status add_pass(struct vc_ctx *ctx, struct vc_job *job, bool back, bool groups)
{
    struct vc_quantize_options q = support_quantize();
    struct vc_dequantize_options d = support_dequantize();

    q.requantize = true;
    q.nonfinite = VC_NONFINITE_ZERO;
    q.granularity = groups ? VC_GRANULARITY_GROUP : VC_GRANULARITY_CHANNEL;
    q.group_size = groups ? 4 : 0;
    d.casts = true;
    return back ? vc_job_add_dequantize(ctx, job, &d) : vc_job_add_quantize(ctx, job, &q);
}

void fuzz_job(const char *path, bool back, bool groups, const char *layout)
{
    struct vc_write_options write = support_write(NULL);
    struct vc_ctx *ctx = job_ctx();
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;

    write.layout = layout;
    if (vc_model_open(ctx, path, NULL, &model) == VC_OK && vc_job_create(ctx, model, &job) == VC_OK &&
        add_pass(ctx, job, back, groups) == VC_OK && vc_job_plan(ctx, job, &write) == VC_OK) {
        (void)vc_job_run(ctx, job);
    }
    fuzz_promise(ctx->status != VC_E_INTERNAL, "no error of our own making", ctx);
    vc_job_free(job);
    vc_model_close(model);
}
