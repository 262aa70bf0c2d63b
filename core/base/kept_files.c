/* kept_files.c - see kept_files.h. */
#include "core/base/kept_files.h"

/* A file of vc_ctx_keep_file: the context's own. */
struct vc_kept_named {
    struct vc_kept_file file;
    struct vc_kept_named *next;
    char path[];
};

void vc_kept_add(struct vc_ctx *ctx, struct vc_kept_file *file)
{
    struct vc_kept *kept = &ctx->shared->kept;

    (void)pthread_mutex_lock(&kept->mutex);
    file->previous = NULL;
    file->next = kept->first;
    if (file->next != NULL) {
        file->next->previous = file;
    }
    kept->first = file;
    (void)pthread_mutex_unlock(&kept->mutex);
}

void vc_kept_drop(struct vc_ctx *ctx, struct vc_kept_file *file)
{
    struct vc_kept *kept = &ctx->shared->kept;

    (void)pthread_mutex_lock(&kept->mutex);
    if (file->next != NULL) {
        file->next->previous = file->previous;
    }
    if (file->previous != NULL) {
        file->previous->next = file->next;
    } else {
        kept->first = file->next;
    }
    (void)pthread_mutex_unlock(&kept->mutex);
}

static bool is_that(const struct vc_kept_file *file, const struct stat *st)
{
    return file->device == st->st_dev && file->inode == st->st_ino;
}

bool vc_is_kept(struct vc_ctx *ctx, const struct stat *st)
{
    struct vc_kept *kept = &ctx->shared->kept;
    const struct vc_kept_file *file;

    (void)pthread_mutex_lock(&kept->mutex);
    for (file = kept->first; file != NULL; file = file->next) {
        if (is_that(file, st) && !file->given_up) {
            break;
        }
    }
    (void)pthread_mutex_unlock(&kept->mutex);
    return file != NULL;
}

void vc_kept_give_up(struct vc_ctx *ctx, const char *path)
{
    struct vc_kept *kept = &ctx->shared->kept;
    struct stat st;

    if (stat(path, &st) != 0) {
        return;
    }
    (void)pthread_mutex_lock(&kept->mutex);
    for (struct vc_kept_file *file = kept->first; file != NULL; file = file->next) {
        file->given_up = file->given_up || is_that(file, &st);
    }
    (void)pthread_mutex_unlock(&kept->mutex);
}

bool vc_any_kept(struct vc_ctx *ctx, bool (*test)(const char *path, const void *user), const void *user)
{
    struct vc_kept *kept = &ctx->shared->kept;
    bool any = false;

    (void)pthread_mutex_lock(&kept->mutex);
    for (const struct vc_kept_file *file = kept->first; file != NULL && !any; file = file->next) {
        any = file->path != NULL && test(file->path, user);
    }
    (void)pthread_mutex_unlock(&kept->mutex);
    return any;
}

enum vc_status vc_ctx_keep_file(struct vc_ctx *ctx, const char *path)
{
    struct vc_kept_named *named;
    struct stat st;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
        return VC_OK; /* whoever opens it says what is wrong */
    }
    named = malloc(sizeof *named + strlen(path) + 1); /* of the context, which outlives all that the pool counts */
    VC_REFUSE_IF(named == NULL, ctx, VC_E_NOMEM, "%s: not enough memory for its name", path);
    memcpy(named->path, path, strlen(path) + 1);
    named->file = (struct vc_kept_file){.device = st.st_dev, .inode = st.st_ino, .path = named->path};
    named->next = ctx->shared->kept.named;
    ctx->shared->kept.named = named;
    vc_kept_add(ctx, &named->file);
    return VC_OK;
}

void vc_kept_free(struct vc_ctx *ctx)
{
    struct vc_kept *kept = &ctx->shared->kept;

    while (kept->named != NULL) {
        struct vc_kept_named *named = kept->named;

        kept->named = named->next;
        vc_kept_drop(ctx, &named->file);
        free(named);
    }
    (void)pthread_mutex_destroy(&kept->mutex);
}
