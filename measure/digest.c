/* digest.c - SHA-256 of the files that a job has written, read back from the disk: what a pipeline compares
 * later with sha256sum; and of the files of a model, by which what is kept of it is known again. (verify.h
 * has digests of tensors, which are the same in every format.) */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/job/job_state.h"
#include "passes/sha256.h"

#define BLOCK_BYTES ((size_t)1 << 20)
#define MAX_DEPTH   8 /* of folders in an output that is one */

/* The files found so far. */
struct list {
    struct vc_ctx *ctx;
    struct vc_job *job;
    struct vc_report_file *files; /* in the job's arena */
    size_t n, capacity;
    void *block;
};

/* Notes a file; its digest comes later, when all files are known. */
static enum vc_status add_file(struct list *list, const char *path, uint64_t size_bytes)
{
    if (VC_ARENA_GROW(list->ctx, &list->job->arena, list->files, list->capacity, list->n + 1) != VC_OK) {
        return VC_E_NOMEM;
    }
    list->files[list->n++] = (struct vc_report_file){.path = path, .size_bytes = size_bytes};
    return VC_OK;
}

/* ---- which files ---- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* Adds a file, or all files of a folder in the order of their names, so that two runs list them alike. A
 * folder deeper than MAX_DEPTH is left out, which ends a loop of links. */
static enum vc_status list_files(struct list *list, const char *path, unsigned depth)
{
    struct dirent **entries = NULL;
    enum vc_status status = VC_OK;
    struct stat st;
    int n = 0;

    if (stat(path, &st) != 0) {
        return vc_fail_errno(list->ctx, errno, "%s: cannot be read back", path);
    }
    if (S_ISREG(st.st_mode)) {
        return add_file(list, path, (uint64_t)st.st_size);
    }
    if (!S_ISDIR(st.st_mode) || depth == MAX_DEPTH) {
        return VC_OK; /* a device or a pipe: nothing that could be read again */
    }
    n = scandir(path, &entries, is_entry, by_name);
    if (n < 0) {
        return vc_fail_errno(list->ctx, errno, "%s: cannot be read back", path);
    }
    for (int i = 0; status == VC_OK && i < n; i++) {
        const char *name = vc_arena_printf(list->ctx, &list->job->arena, "%s/%s", path, entries[i]->d_name);

        status = name == NULL ? VC_E_NOMEM : list_files(list, name, depth + 1);
    }
    for (int i = 0; i < n; i++) {
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* ---- their digests ---- */

/* Reads to the end, a block at a time, and notes how many bytes it were. The call can be cancelled between
 * blocks. */
static enum vc_status read_all(struct list *list, int fd, struct vc_report_file *file)
{
    struct vc_sha256 sha;
    uint64_t n_read = 0;
    ssize_t n;

    vc_sha256_begin(&sha);
    do {
        VC_CALL(vc_check_cancelled(list->ctx));
        n = read(fd, list->block, BLOCK_BYTES);
        if (n < 0 && errno == EINTR) {
            n = 1; /* once more */
            continue;
        }
        if (n < 0) {
            return vc_fail_errno(list->ctx, errno, "%s: cannot be read back", file->path);
        }
        vc_sha256_add(&sha, list->block, (size_t)n);
        n_read += (uint64_t)n;
    } while (n > 0);
    vc_sha256_end(&sha, file->sha256);
    file->size_bytes = n_read;
    return VC_OK;
}

/* A file that was written is opened again and read from its begin: the digest is of what lies on the disk.
 * A file that was removed meanwhile is an error that names it. */
static enum vc_status hash_file(struct list *list, struct vc_report_file *file)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return vc_fail_errno(list->ctx, errno, "%s: cannot be read back", file->path);
    }
    enum vc_status status = read_all(list, fd, file);
    (void)close(fd);
    return status;
}

/* Files of all outputs, and of what lies beside them, such as a configuration. An output that went to a
 * stream cannot be read back. */
static enum vc_status digest(struct vc_ctx *ctx, struct vc_job *job)
{
    struct list list = {.ctx = ctx, .job = job};
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(!vc_sha256_built_in(), ctx, VC_E_UNSUPPORTED, "this build has no SHA-256");
    VC_REFUSE_IF(!job->report.written, ctx, VC_E_ARGUMENT, "the job has written nothing that could have a digest");
    VC_TRY_ALLOC(list.block = vc_alloc_array(ctx, VC_TAG_IO, BLOCK_BYTES, 1));
    for (size_t i = 0; i < job->report.n_outputs; i++) {
        const char *path = job->report.outputs[i].path;

        if (!vc_is_stream(path)) {
            VC_TRY(list_files(&list, path, 0));
        }
        path = job->beside[i];
        if (path != NULL) {
            VC_TRY(list_files(&list, path, 0));
        }
    }
    for (size_t i = 0; i < list.n; i++) {
        VC_TRY(hash_file(&list, &list.files[i]));
    }
    job->report.files = list.files;
    job->report.n_files = list.n;
out:
    vc_free(ctx, list.block);
    return status;
}

/* vc_sha256_add with the type that a model's `bytes` calls. */
static void add(void *sha, const void *data, size_t n)
{
    vc_sha256_add(sha, data, n);
}

/* The model's format says which bytes belong to it, in which order. `hex` is written also after a failure,
 * and then means nothing. */
enum vc_status vc_model_digest(struct vc_ctx *ctx, const struct vc_model *model, char hex[VC_DIGEST_BYTES])
{
    struct vc_sha256 sha;

    vc_call_begin(ctx);
    if (!vc_sha256_built_in() || model->bytes == NULL) {
        return vc_call_end(ctx, vc_fail(ctx, VC_E_UNSUPPORTED, "%s: %s", model->path,
                                        model->bytes != NULL ? "this build has no SHA-256" : "no file is behind it"));
    }
    vc_sha256_begin(&sha);
    enum vc_status status = model->bytes(ctx, model, add, &sha);
    status = vc_model_unchanged(ctx, model, status);
    vc_sha256_end(&sha, hex);
    return vc_call_end(ctx, status);
}

enum vc_status vc_job_digest(struct vc_ctx *ctx, struct vc_job *job)
{
    vc_call_begin(ctx);
    return vc_call_end(ctx, digest(ctx, job));
}
