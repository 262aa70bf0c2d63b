/* windows.c - see windows.h. */
#include "formats/remote/windows.h"

#define FIRST_STEP ((size_t)256 << 10)

/* What of the range a run of bytes has: the number of bytes, or 0. */
static size_t copy_part(const unsigned char *bytes, uint64_t begin, size_t n_bytes, uint64_t offset, void *dst,
                        size_t n)
{
    if (bytes == NULL || offset < begin || offset - begin >= n_bytes) {
        return 0;
    }
    size_t part = (size_t)vc_min_u64(n, n_bytes - (offset - begin));
    memcpy(dst, bytes + (offset - begin), part);
    return part;
}

enum vc_status vc_remote_windows_make(struct vc_ctx *ctx, struct vc_fetcher *fetcher, struct vc_remote_windows *w)
{
    uint64_t share = ctx->shared->max_memory / 16;

    *w = (struct vc_remote_windows){.fetcher = fetcher};
    (void)pthread_mutex_init(&w->mutex, NULL);
    w->most_heads = (size_t)vc_min_u64(share, VC_REMOTE_HEADS);
    w->capacity = (size_t)vc_max_u64(vc_min_u64(share / VC_REMOTE_WINDOWS, VC_REMOTE_WINDOW), VC_REMOTE_LEAST);
    for (size_t i = 0; i < VC_REMOTE_WINDOWS; i++) {
        VC_CALL_ALLOC(w->windows[i].bytes = vc_alloc(ctx, VC_TAG_IO, w->capacity));
    }
    return VC_OK;
}

/* Fills the window that was used longest ago: with twice as much as before where the file is read on from there.
 * n: at most the capacity. */
static enum vc_status load_window(struct vc_ctx *ctx, struct vc_remote_windows *w, struct vc_remote_file *file,
                                  uint64_t offset, size_t n)
{
    bool on = offset == file->next && file->step != 0;
    uint64_t step = vc_max_u64(on ? 2 * file->step : FIRST_STEP, n);
    struct vc_remote_window *window = &w->windows[0];

    for (size_t i = 1; i < VC_REMOTE_WINDOWS; i++) {
        window = w->windows[i].used < window->used ? &w->windows[i] : window;
    }
    step = vc_min_u64(vc_min_u64(step, w->capacity), file->at.size - offset);
    window->file = NULL;
    VC_CALL(vc_fetch_range(ctx, w->fetcher, &file->at, offset, window->bytes, (size_t)step));
    window->file = file;
    window->begin = offset;
    window->n = (size_t)step;
    window->used = ++w->clock;
    file->next = offset + step;
    file->step = (size_t)step;
    return VC_OK;
}

/* The beginning of the file, which stays. */
static enum vc_status load_head(struct vc_ctx *ctx, struct vc_remote_windows *w, struct vc_remote_file *file)
{
    size_t n = (size_t)vc_min_u64(VC_REMOTE_HEAD, file->at.size);
    unsigned char *bytes = vc_alloc(ctx, VC_TAG_IO, n);

    VC_CALL_ALLOC(bytes);
    enum vc_status status = vc_fetch_range(ctx, w->fetcher, &file->at, 0, bytes, n);
    if (status != VC_OK) {
        vc_free(ctx, bytes);
        return status;
    }
    file->head = bytes;
    file->n_head = n;
    file->next = n;
    file->step = n;
    w->n_heads += n;
    return VC_OK;
}

static size_t copy_kept(struct vc_remote_windows *w, const struct vc_remote_file *file, uint64_t offset, void *dst,
                        size_t n)
{
    size_t part = copy_part(file->head, 0, file->n_head, offset, dst, n);

    for (size_t i = 0; part == 0 && i < VC_REMOTE_WINDOWS; i++) {
        struct vc_remote_window *window = &w->windows[i];

        if (window->file == file) {
            part = copy_part(window->bytes, window->begin, window->n, offset, dst, n);
            window->used = part != 0 ? ++w->clock : window->used;
        }
    }
    return part;
}

static enum vc_status read_all(struct vc_ctx *ctx, struct vc_remote_windows *w, struct vc_remote_file *file,
                               uint64_t offset, unsigned char *to, size_t n)
{
    while (n != 0) {
        size_t part = copy_kept(w, file, offset, to, n);

        VC_CALL(vc_check_cancelled(ctx));
        if (part == 0 && n >= w->capacity) { /* straight to where it goes */
            part = (size_t)vc_min_u64(n, VC_REMOTE_WINDOW);
            VC_CALL(vc_fetch_range(ctx, w->fetcher, &file->at, offset, to, part));
        } else if (part == 0) {
            bool head = file->head == NULL && offset < VC_REMOTE_HEAD && w->n_heads < w->most_heads;

            if (head) {
                VC_CALL(load_head(ctx, w, file));
            } else {
                VC_CALL(load_window(ctx, w, file, offset, n));
            }
        }
        to += part;
        offset += part;
        n -= part;
    }
    return VC_OK;
}

enum vc_status vc_remote_read(struct vc_ctx *ctx, struct vc_remote_windows *w, struct vc_remote_file *file,
                              uint64_t offset, void *dst, size_t n)
{
    (void)pthread_mutex_lock(&w->mutex);
    enum vc_status status = read_all(ctx, w, file, offset, dst, n);
    (void)pthread_mutex_unlock(&w->mutex);
    return status;
}

void vc_remote_windows_release(struct vc_ctx *ctx, struct vc_remote_windows *w)
{
    for (size_t i = 0; i < VC_REMOTE_WINDOWS; i++) {
        vc_free(ctx, w->windows[i].bytes);
        w->windows[i] = (struct vc_remote_window){.file = NULL};
    }
    (void)pthread_mutex_destroy(&w->mutex);
}
