/* cuda_load.c - the library's side of the plug-in: where it is looked for, whether it fits (backend.h), which of its
 * kernels are used, and the one device that is open. Knows no CUDA header; device_list.c shows the same to users.
 *
 * State of the process, all in `plugin`: the plug-in, loaded once and kept; the device, open while a context uses it;
 * and the contexts that do, of which the first one's pool counts the device's memory. Contexts come and go from any
 * thread. */
#include "kernels/device/cuda_load.h"

#define RESULT_NOMEM 2 /* cudaErrorMemoryAllocation */

static const struct vc_plugin_kind cuda_plugin = {"VCOMPRESS_BACKEND_PATH", VC_BACKEND_FILE, VC_BACKEND_SYMBOL, false};

/* A context that uses the device, known by its pool. What the device takes is counted in the pool of the first one. */
struct user {
    struct user *next;
    struct vc_pool *pool;
};

static struct {
    pthread_mutex_t mutex;            /* guards plug-in and device */
    const struct vc_backend *backend; /* NULL: not loaded */
    char path[4096];                  /* where it was found */
    void *handle;                     /* of the open device; NULL: none is open */
    int device;                       /* its number */
    const char *label;                /* of the device that was opened last; NULL before */

    pthread_mutex_t account_mutex; /* guards what follows; taken inside of the other one */
    struct user *users;
    int64_t bytes; /* device and pinned memory that is held now */
} plugin = {.mutex = PTHREAD_MUTEX_INITIALIZER, .account_mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- does it fit? ---- */

/* The plug-in's table as one of ours: what it lacks is NULL, what only it knows is left out. */
static void read_kernels(const struct vc_backend *backend, struct vc_kernels *theirs)
{
    memset(theirs, 0, sizeof *theirs);
    memcpy(theirs, backend->kernels, backend->kernels_size < sizeof *theirs ? backend->kernels_size : sizeof *theirs);
}

/* Replaces the entries of *table that the plug-in has a kernel for, and leaves the others; returns how many it had. */
static unsigned take_kernels(const struct vc_backend *backend, struct vc_kernels *table)
{
    struct vc_kernels theirs;
    unsigned n = 0;

    read_kernels(backend, &theirs);
#define VC_KERNEL(name, result, params) \
    if (theirs.name != NULL) {          \
        table->name = theirs.name;      \
        n++;                            \
    }
#include "kernels/kernels.inc"
#undef VC_KERNEL
    return n;
}

/* A table holds pointers only: the device's name, then one kernel at least. */
static bool kernels_size_fits(size_t bytes)
{
    const size_t entry = sizeof(void (*)(void));

    return bytes >= offsetof(struct vc_kernels, absmax_rows) + entry && bytes <= VC_BACKEND_MAX_BYTES &&
           bytes % entry == 0;
}

static bool members_set(const struct vc_backend *b)
{
    return b->kernels != NULL && b->runtime != NULL && b->device_count != NULL && b->device_info != NULL &&
           b->open != NULL && b->close != NULL && b->label != NULL && b->error != NULL;
}

/* Whether this library can use it; otherwise the reason is in outcome. Nothing behind a size that does not fit is
 * looked at. */
static bool backend_fits(const struct vc_backend *backend, char outcome[256])
{
    struct vc_kernels unused;

    if (backend == NULL || backend->abi != VC_BACKEND_ABI) {
        (void)snprintf(outcome, 256, "it was made for another version (ABI %u, this program needs %u)",
                       backend == NULL ? 0 : (unsigned)backend->abi, VC_BACKEND_ABI);
    } else if (backend->struct_size < VC_BACKEND_MIN_BYTES || backend->struct_size > VC_BACKEND_MAX_BYTES) {
        (void)snprintf(outcome, 256, "it is damaged: a description of %u bytes, expected %u or more",
                       (unsigned)backend->struct_size, (unsigned)VC_BACKEND_MIN_BYTES);
    } else if (!kernels_size_fits(backend->kernels_size)) {
        (void)snprintf(outcome, 256, "it is damaged: a table of kernels of %zu bytes", backend->kernels_size);
    } else if (!members_set(backend)) {
        vc_plugin_outcome(outcome, "", "it is damaged: a function is missing");
    } else if (take_kernels(backend, &unused) == 0) {
        vc_plugin_outcome(outcome, "", "it has none of the kernels that this program uses");
    } else {
        return true;
    }
    return false;
}

/* "loaded", and how many kernels run on the CPU all the same, if any do. */
static void set_loaded(char outcome[256], const struct vc_backend *backend)
{
    struct vc_kernels unused;
    unsigned n = take_kernels(backend, &unused);

    if (n == VC_KERNEL_ID_COUNT) {
        vc_plugin_outcome(outcome, "", "loaded");
    } else {
        (void)snprintf(outcome, 256, "loaded; it lacks %u of %u kernels, which run on the CPU", VC_KERNEL_ID_COUNT - n,
                       VC_KERNEL_ID_COUNT);
    }
}

/* What the file at path offers, if this library can use it; else NULL with the reason in outcome, and it is unloaded
 * again. */
static const struct vc_backend *try_place(const char *path, char outcome[256])
{
    vc_backend_entry_fn *entry;
    void *symbol;
    void *library = vc_plugin_load(&cuda_plugin, path, &symbol, outcome);

    if (library == NULL) {
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof entry); /* POSIX: a function pointer fits into void *, ISO C has no cast for it */
    const struct vc_backend *backend = entry();
    if (!backend_fits(backend, outcome)) {
        vc_plugin_unload(library);
        return NULL;
    }
    set_loaded(outcome, backend);
    return backend;
}

/* The plug-in, loaded now or before; NULL when no place has one that fits. *search tells what was found where. With
 * the mutex held. */
static const struct vc_backend *find_plugin(struct vc_plugin_search *search)
{
    unsigned i;

    if (plugin.backend != NULL) {
        search->n_places = 0;
        vc_plugin_add_place(search, plugin.path, "");
        set_loaded(search->places[0].outcome, plugin.backend);
        return plugin.backend;
    }
    vc_plugin_list(&cuda_plugin, search);
    for (i = 0; i < search->n_places; i++) {
        plugin.backend = try_place(search->places[i].path, search->places[i].outcome);
        if (plugin.backend != NULL) {
            (void)snprintf(plugin.path, sizeof plugin.path, "%s", search->places[i].path);
            search->n_places = i + 1;
            return plugin.backend;
        }
    }
    return NULL;
}

const struct vc_backend *vc_cuda_plugin(struct vc_plugin_search *search)
{
    (void)pthread_mutex_lock(&plugin.mutex);
    const struct vc_backend *backend = find_plugin(search);
    (void)pthread_mutex_unlock(&plugin.mutex);
    return backend;
}

/* The sentence for a plug-in that was not found: every place with its outcome. */
static enum vc_status fail_search(struct vc_ctx *ctx, const struct vc_plugin_search *search)
{
    char tried[VC_MESSAGE_BYTES];

    vc_plugin_tried(&cuda_plugin, search, tried, sizeof tried);
    return vc_fail(ctx, VC_E_DEVICE, "cuda: the plug-in " VC_BACKEND_FILE " could not be loaded: %s", tried);
}

/* ---- accounting ---- */

/* The plug-in tells of memory that it takes or gives back, from any thread: it counts in the first user's pool. */
static void account(void *unused, int64_t bytes)
{
    (void)pthread_mutex_lock(&plugin.account_mutex);
    plugin.bytes += bytes;
    if (plugin.users != NULL) {
        vc_pool_account(plugin.users->pool, VC_TAG_DEVICE, bytes);
    }
    (void)pthread_mutex_unlock(&plugin.account_mutex);
}

/* Appends a user; with the list empty it becomes the one who counts. */
static void attach(struct user *user, struct vc_pool *pool)
{
    struct user **at = &plugin.users;

    user->next = NULL;
    user->pool = pool;
    (void)pthread_mutex_lock(&plugin.account_mutex);
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = user;
    (void)pthread_mutex_unlock(&plugin.account_mutex);
}

/* Takes a user of that pool out of the list; if it was the one who counts, the next one takes over. */
static struct user *detach(struct vc_pool *pool)
{
    struct user **at = &plugin.users;

    (void)pthread_mutex_lock(&plugin.account_mutex);
    while (*at != NULL && (*at)->pool != pool) {
        at = &(*at)->next;
    }
    struct user *user = *at;
    if (user != NULL) {
        bool counted = user == plugin.users;

        *at = user->next;
        if (counted) {
            vc_pool_account(pool, VC_TAG_DEVICE, -plugin.bytes);
            if (plugin.users != NULL) {
                vc_pool_account(plugin.users->pool, VC_TAG_DEVICE, plugin.bytes);
            }
        }
    }
    (void)pthread_mutex_unlock(&plugin.account_mutex);
    return user;
}

/* ---- the device ---- */

/* Opens that device, or finds it open. The context's threads, and a quarter of its memory limit, bound what the device takes: pinned
 * memory is the host's. Whatever the limit, there is room for one thread. With the mutex held and the caller attached, so that the first allocations are counted. */
static enum vc_status open_device(struct vc_ctx *ctx, int device, const struct vc_backend *backend)
{
    uint64_t limit = vc_ctx_max_memory(ctx) / 4 / VC_BACKEND_THREAD_BYTES;
    char why[256] = "unknown reason";

    if (plugin.handle != NULL) {
        if (plugin.device == device) {
            return VC_OK;
        }
        return vc_fail(ctx, VC_E_DEVICE, "cuda:%d: cuda:%d is in use by this process, and one device at a time is all",
                       device, plugin.device);
    }
    limit = limit < vc_ctx_threads(ctx) ? limit : vc_ctx_threads(ctx);
    limit = (limit == 0 ? 1 : limit) * VC_BACKEND_THREAD_BYTES;
    plugin.handle = backend->open(device, limit, account, NULL, why, sizeof why);
    VC_REFUSE_IF(plugin.handle == NULL, ctx, VC_E_DEVICE, "cuda:%d: %s", device, why);
    plugin.device = device;
    plugin.label = backend->label(plugin.handle);
    return VC_OK;
}

enum vc_status vc_cuda_load(struct vc_ctx *ctx, int device, struct vc_kernels *table, unsigned *n_kernels)
{
    struct vc_plugin_search *search = vc_alloc(ctx, VC_TAG_MISC, sizeof *search);
    struct user *user = vc_alloc(ctx, VC_TAG_MISC, sizeof *user);
    enum vc_status status = VC_OK;

    (void)pthread_mutex_lock(&plugin.mutex);
    VC_TRY_ALLOC(search);
    VC_TRY_ALLOC(user);
    const struct vc_backend *backend = find_plugin(search);
    if (backend == NULL) {
        status = fail_search(ctx, search);
        goto out;
    }
    attach(user, ctx->shared->pool);
    user = NULL; /* the list has it */
    status = open_device(ctx, device, backend);
    if (status != VC_OK) {
        user = detach(ctx->shared->pool);
        goto out;
    }
    table->device = plugin.label;
    *n_kernels = take_kernels(backend, table);
out:
    (void)pthread_mutex_unlock(&plugin.mutex);
    vc_free(ctx, user);
    vc_free(ctx, search);
    return status;
}

/* All that this library calls is there. */
static bool trains(const struct vc_train_backend *t)
{
    return t != NULL && t->abi == VC_TRAIN_BACKEND_ABI && t->struct_size >= sizeof *t &&
           t->struct_size <= VC_BACKEND_MAX_BYTES;
}

enum vc_status vc_cuda_train(struct vc_ctx *ctx, const struct vc_train_backend **out)
{
    const struct vc_backend *backend;

    *out = NULL;
    if (strncmp(ctx->shared->device, "cuda", 4) != 0 && !ctx->shared->training.by_card) {
        return VC_OK;
    }
    (void)pthread_mutex_lock(&plugin.mutex);
    backend = plugin.backend;
    bool has = backend != NULL && backend->struct_size >= offsetof(struct vc_backend, train) + sizeof backend->train &&
               trains(backend->train);
    *out = has ? backend->train : NULL;
    (void)pthread_mutex_unlock(&plugin.mutex);
    return has ? VC_OK
               : vc_fail(ctx, VC_E_UNSUPPORTED,
                         "%s: the plug-in " VC_BACKEND_FILE " is of a build that does not train on a device, or does "
                         "so in another way than this program",
                         ctx->shared->device);
}

uint64_t vc_cuda_free_bytes(void)
{
    struct vc_backend_device info = {.free_bytes = 0};
    char why[256];

    (void)pthread_mutex_lock(&plugin.mutex);
    if (plugin.handle != NULL && plugin.backend->device_info(plugin.device, &info, why, sizeof why) != 0) {
        info.free_bytes = 0;
    }
    (void)pthread_mutex_unlock(&plugin.mutex);
    return info.free_bytes;
}

void vc_cuda_unload(struct vc_ctx *ctx)
{
    (void)pthread_mutex_lock(&plugin.mutex);
    if (plugin.users != NULL && plugin.users->next == NULL && plugin.handle != NULL) {
        plugin.backend->close(plugin.handle);
        plugin.handle = NULL;
    }
    struct user *user = detach(ctx->shared->pool);
    (void)pthread_mutex_unlock(&plugin.mutex);
    vc_free(ctx, user);
}

enum vc_status vc_cuda_fail(struct vc_ctx *ctx, int result)
{
    enum vc_status status = result == RESULT_NOMEM ? VC_E_NOMEM : VC_E_DEVICE;

    return vc_fail(ctx, status, "%s: %s", plugin.label != NULL ? plugin.label : "cuda",
                   plugin.backend != NULL ? plugin.backend->error(result) : "no device is open");
}
