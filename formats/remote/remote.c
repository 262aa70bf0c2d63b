/* remote.c - a remote model as a folder: its names, the list of its files, and the folder that stands for it.
 *
 *     hf:owner/net@rev     GET <endpoint>/api/models/owner/net/revision/rev?blobs=true    {"sha": "4f1c..", "siblings":
 *                              [{"rfilename": "config.json", "size": 659}, ...]}
 *                          each file: <endpoint>/owner/net/resolve/4f1c../config.json, of that commit
 *     https://h/d/x.gguf   the file, whose first request tells its length; of safetensors and of an index config.json
 *                          beside it, too, and of an index its shards
 *
 * A question that config.json answers leaves files of weights out where there are many (vc_remote_open, most_weights).
 *
 *     $TMPDIR/vcompress-a1b2c3/net/config.json, model-00001-of-00030.safetensors, ...     lengths, no bytes: holes */
#define _GNU_SOURCE /* mkdtemp */

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "core/base/array.h"
#include "formats/io/mounts.h"
#include "formats/remote/environment.h"
#include "formats/remote/windows.h"

#define MOST_LIST  ((size_t)64 << 20) /* bytes of a list of files, or of an index */
#define MOST_FILES 20000
#define INDEX_TAIL ".index.json"

/* A file of the folder. Its first members are what the lists of mounts.h and windows.h want. */
struct entry {
    struct vc_virtual_file virtual; /* first: the reader gets a pointer to it */
    struct vc_remote_file file;
    struct vc_remote *remote;
    const char *name; /* in the folder */
    bool there;       /* in the list of virtual files */
    bool left_out;    /* a file of weights, or their index, that the folder does without */
};

struct vc_remote {
    struct vc_remote_info facts; /* first: what programs read */
    struct vc_ctx *ctx;
    struct vc_arena arena;
    struct vc_fetcher fetcher;
    struct vc_remote_windows windows;
    struct vc_mount mount;
    bool mounted;
    char *top;          /* "/tmp/vcompress-a1b2c3"; NULL: not made */
    const char *folder; /* the one in it */
    size_t most_weights;
    const char *config; /* the name of config.json, once it has said that weights may be left out */
    size_t n, capacity;
    struct entry **entries; /* in the arena: lists point to them */
};

/* ---- names ---- */

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

bool vc_remote_is(const char *name)
{
    return begins(name, "hf:") || begins(name, "https://") || begins(name, "http://");
}

/* A part of a path that leads nowhere else, and that a file system can have. */
static bool is_plain_part(const char *part, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)part[i] < ' ' || part[i] == '\\' || part[i] == 0x7f) {
            return false;
        }
    }
    return n != 0 && n < 256 && !(n == 1 && part[0] == '.') && !(n == 2 && memcmp(part, "..", 2) == 0);
}

static bool is_plain_path(const char *path)
{
    while (*path != '\0') {
        size_t n = strcspn(path, "/");

        if (!is_plain_part(path, n) || (path[n] == '/' && path[n + 1] == '\0')) {
            return false;
        }
        path += path[n] == '/' ? n + 1 : n;
    }
    return true;
}

/* The path with what URLs keep for themselves as %20, but `kept`. NULL: no memory. */
static const char *escaped(struct vc_remote *r, const char *path, size_t n, const char *kept)
{
    static const char digits[] = "0123456789ABCDEF";
    char *to = vc_arena_alloc(r->ctx, &r->arena, 3 * n + 1);
    char *at = to;

    for (size_t i = 0; to != NULL && i < n; i++) {
        unsigned char c = (unsigned char)path[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c != '\0' && (strchr("-._~", c) != NULL || strchr(kept, c) != NULL));

        if (plain) {
            *at++ = (char)c;
        } else {
            *at++ = '%';
            *at++ = digits[c >> 4];
            *at++ = digits[c & 15];
        }
    }
    if (to != NULL) {
        *at = '\0';
    }
    return to;
}

/* ---- the list ---- */

static enum vc_status read_virtual(struct vc_ctx *ctx, const struct vc_virtual_file *file, uint64_t offset, void *dst,
                                   size_t n)
{
    struct entry *entry = (struct entry *)(uintptr_t)file; /* its first member */

    return vc_remote_read(ctx, &entry->remote->windows, &entry->file, offset, dst, n);
}

/* name, url: of the arena. *out is the new one. */
static enum vc_status add_entry(struct vc_remote *r, const char *name, const char *url, uint64_t size,
                                struct entry **out)
{
    struct entry *entry = vc_arena_alloc(r->ctx, &r->arena, sizeof *entry);

    VC_CALL_ALLOC(name);
    VC_CALL_ALLOC(url);
    VC_CALL_ALLOC(entry);
    VC_REFUSE_IF(r->n == MOST_FILES, r->ctx, VC_E_UNSUPPORTED, "more than %d files", MOST_FILES);
    *entry = (struct entry){
        .virtual = {.read = read_virtual}, .file = {.at = {.url = url, .size = size}}, .remote = r, .name = name};
    VC_CALL(VC_GROW(r->ctx, VC_TAG_NAMES, r->entries, r->capacity, r->n + 1));
    r->entries[r->n++] = entry;
    *out = entry;
    return VC_OK;
}

/* Fills the list from what the hub says. base: "<endpoint>/owner/net/resolve/". */
static enum vc_status take_list(struct vc_remote *r, const char *text, size_t n, const char *base, const char *revision)
{
    json_auto_t *root = json_loadb(text, n, 0, NULL);
    json_t *list = json_object_get(root, "siblings");
    const char *sha = json_string_value(json_object_get(root, "sha"));

    VC_REFUSE_IF(!json_is_array(list), r->ctx, VC_E_FORMAT, "the hub's answer has no list of files");
    sha = sha != NULL && is_plain_part(sha, strlen(sha)) && strchr(sha, '/') == NULL ? sha : revision;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(item, "rfilename"));
        const json_t *size = json_object_get(item, "size");
        struct entry *entry;

        if (name == NULL || !is_plain_path(name)) {
            VC_CALL(vc_fail(r->ctx, VC_E_FORMAT, "the hub's list has a file whose name leads elsewhere"));
        }
        if (!json_is_integer(size) || json_integer_value(size) < 0) {
            VC_CALL(vc_fail(r->ctx, VC_E_FORMAT, "the hub's list has no size of '%.200s'", name));
        }
        const char *path = escaped(r, name, strlen(name), "/");
        VC_CALL_ALLOC(path);
        VC_CALL(add_entry(r, vc_arena_copy(r->ctx, &r->arena, name, strlen(name)),
                          vc_arena_printf(r->ctx, &r->arena, "%s%s/%s", base, sha, path),
                          (uint64_t)json_integer_value(size), &entry));
    }
    return VC_OK;
}

/* Whether `n` files of weights may be left out: there are more than were asked for, and config.json says which model it
 * is. It does not say all of codes. */
static enum vc_status may_leave_out(struct vc_remote *r, size_t n, bool *leave)
{
    struct entry *config = NULL;
    VC_SCOPED char *text = NULL;
    json_auto_t *root = NULL;

    for (size_t i = 0; i < r->n; i++) {
        config = strcmp(r->entries[i]->name, "config.json") == 0 ? r->entries[i] : config;
    }
    *leave = false;
    if (r->most_weights == 0 || n <= r->most_weights || config == NULL || config->file.at.size > MOST_LIST) {
        return VC_OK;
    }
    VC_CALL_ALLOC(text = vc_alloc(r->ctx, VC_TAG_IO, (size_t)config->file.at.size));
    VC_CALL(vc_remote_read(r->ctx, &r->windows, &config->file, 0, text, (size_t)config->file.at.size));
    root = json_loadb(text, (size_t)config->file.at.size, 0, NULL);
    *leave =
        json_is_string(json_object_get(root, "model_type")) && json_object_get(root, "quantization_config") == NULL;
    VC_CALL_ALLOC(r->config = vc_arena_printf(r->ctx, &r->arena, "%s/config.json", r->mount.name));
    return VC_OK;
}

/* In the list of the hub: marks what is left out. */
static enum vc_status leave_out(struct vc_remote *r)
{
    size_t n = 0;
    bool leave;

    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < r->n; i++) {
            struct entry *entry = r->entries[i];
            bool weights = vc_ends_in(entry->name, ".safetensors") || vc_ends_in(entry->name, ".bin");

            entry->left_out = pass == 1 && (weights || vc_ends_in(entry->name, INDEX_TAIL));
            n += pass == 0 && weights && strchr(entry->name, '/') == NULL;
        }
        if (pass == 0) {
            VC_CALL(may_leave_out(r, n, &leave));
            VC_RETURN_IF(!leave, VC_OK);
        }
    }
    r->facts.n_left_out = n;
    return VC_OK;
}

/* What is behind "hf:" or "hf://". */
static const char *behind_scheme(const char *name)
{
    name += strlen("hf:");
    return begins(name, "//") ? name + 2 : name;
}

/* Bytes of a revision: up to a slash, but for those of the hub that have slashes, refs/pr/1 and refs/convert/parquet. */
static size_t revision_bytes(const char *at)
{
    size_t n = strcspn(at, "/");

    if (begins(at, "refs/pr/") || begins(at, "refs/convert/")) {
        n = (size_t)(strchr(at + strlen("refs/"), '/') + 1 - at);
        n += strcspn(at + n, "/");
    }
    return n;
}

/* hf:owner/net[@revision][/...]: the length of what names the model. 0: it is no such name. */
static size_t model_bytes(const char *name)
{
    const char *owner = behind_scheme(name);
    size_t n_owner = strcspn(owner, "/");
    const char *net = owner + n_owner + (owner[n_owner] == '/');
    size_t n_plain = strcspn(net, "/@");
    const char *revision = net + n_plain + 1;
    size_t n = net[n_plain] == '@' ? revision_bytes(revision) : 0;

    return owner[n_owner] == '/' && is_plain_part(owner, n_owner) && is_plain_part(net, n_plain) &&
                   (net[n_plain] != '@' || is_plain_part(revision, n))
               ? (size_t)(net - name) + n_plain + (net[n_plain] == '@' ? n + 1 : 0)
               : 0;
}

static enum vc_status list_hub(struct vc_remote *r, const char *endpoint)
{
    const char *model = behind_scheme(r->mount.name);
    const char *at = strchr(model, '@');
    const char *revision = at != NULL ? at + 1 : "main";
    const char *id = escaped(r, model, at != NULL ? (size_t)(at - model) : strlen(model), "/");
    const char *part = escaped(r, revision, strlen(revision), "%"); /* what the user wrote as feature%2Fx is that */
    const char *url, *base;
    VC_SCOPED_TEXT struct vc_text text = {.ctx = r->ctx};

    VC_CALL_ALLOC(id);
    VC_CALL_ALLOC(part);
    url = vc_arena_printf(r->ctx, &r->arena, "%s/api/models/%s/revision/%s?blobs=true", endpoint, id, part);
    base = vc_arena_printf(r->ctx, &r->arena, "%s/%s/resolve/", endpoint, id);
    VC_CALL_ALLOC(url);
    VC_CALL_ALLOC(base);
    VC_CALL(vc_fetch_text(r->ctx, &r->fetcher, url, MOST_LIST, &text));
    return take_list(r, text.data != NULL ? text.data : "", text.n, base, part);
}

/* A file that a server has at that URL; its first bytes come with the first request. optional: it may be missing. `url`
 * may be NULL: no memory. */
static enum vc_status probe(struct vc_remote *r, const char *url, const char *name, bool optional)
{
    struct entry *entry = NULL;
    VC_SCOPED unsigned char *bytes = NULL;
    size_t got = 0;

    VC_CALL(add_entry(r, name, url, VC_FETCH_UNKNOWN, &entry));
    VC_CALL_ALLOC(bytes = vc_alloc(r->ctx, VC_TAG_IO, VC_REMOTE_HEAD));
    enum vc_status status = vc_fetch_head(r->ctx, &r->fetcher, &entry->file.at, bytes, VC_REMOTE_HEAD, &got);
    if (status == VC_E_IO && optional) {
        vc_clear_error(r->ctx);
        r->n--;
        return VC_OK;
    }
    if (status != VC_OK) {
        return vc_context(r->ctx, "%s", name);
    }
    entry->file.head = bytes;
    entry->file.n_head = got;
    entry->file.next = got;
    entry->file.step = got;
    r->windows.n_heads += got;
    bytes = NULL;
    return VC_OK;
}

/* The shards that an index names, once each, in the arena: *n of them. */
static enum vc_status list_shards(struct vc_remote *r, struct entry *index, const char ***out, size_t *n)
{
    size_t n_bytes = (size_t)vc_min_u64(index->file.at.size, MOST_LIST + 1);
    VC_SCOPED char *text = vc_alloc(r->ctx, VC_TAG_IO, n_bytes);
    size_t capacity = 0;
    json_auto_t *root = NULL;
    const char *tensor;
    json_t *value;

    VC_CALL_ALLOC(text);
    VC_REFUSE_IF(n_bytes > MOST_LIST, r->ctx, VC_E_FORMAT, "%s: is too long for an index", index->name);
    VC_CALL(vc_remote_read(r->ctx, &r->windows, &index->file, 0, text, n_bytes));
    root = json_loadb(text, n_bytes, 0, NULL);
    json_object_foreach(json_object_get(root, "weight_map"), tensor, value)
    {
        const char *name = json_string_value(value);
        bool known = name == NULL || !is_plain_part(name, strlen(name)) || strchr(name, '/') != NULL;

        for (size_t i = 0; i < *n && !known; i++) {
            known = strcmp((*out)[i], name) == 0;
        }
        if (!known) {
            VC_CALL(VC_ARENA_GROW(r->ctx, &r->arena, *out, capacity, *n + 1));
            VC_CALL_ALLOC((*out)[*n] = vc_arena_copy(r->ctx, &r->arena, name, strlen(name)));
            *n += 1;
        }
    }
    return VC_OK;
}

/* A file beside that of the address, of the same server. */
static const char *beside(struct vc_remote *r, const char *name)
{
    const char *part = escaped(r, name, strlen(name), "/");

    return part != NULL ? vc_arena_printf(r->ctx, &r->arena, "%s/%s", r->mount.name, part) : NULL;
}

/* One file at a URL, and what belongs to it. What stands behind '?' is sent for the file itself. */
static enum vc_status list_url(struct vc_remote *r, const char *url)
{
    const char *name = url + strlen(r->mount.name) + 1;
    const char **shards = NULL;
    size_t n = 0;
    bool leave = false;

    VC_CALL_ALLOC(name = vc_arena_copy(r->ctx, &r->arena, name, strcspn(name, "?#")));
    VC_REFUSE_IF(!is_plain_part(name, strlen(name)), r->ctx, VC_E_UNSUPPORTED,
                 "the address does not end in the name of a file");
    VC_CALL(probe(r, vc_arena_copy(r->ctx, &r->arena, url, strcspn(url, "#")), name, false));
    if (vc_ends_in(name, INDEX_TAIL)) {
        VC_CALL(list_shards(r, r->entries[0], &shards, &n));
    }
    if (vc_ends_in(name, INDEX_TAIL) || vc_ends_in(name, ".safetensors")) {
        VC_CALL(probe(r, beside(r, "config.json"), "config.json", true));
    }
    VC_CALL(may_leave_out(r, n, &leave));
    for (size_t i = 0; i < n && !leave; i++) {
        VC_CALL(probe(r, beside(r, shards[i]), shards[i], false));
    }
    r->entries[0]->left_out = leave;
    r->facts.n_left_out = leave ? n : 0;
    return VC_OK;
}

/* ---- the folder ---- */

/* Makes the folders of the path below the folder. */
static enum vc_status make_folders(struct vc_remote *r, const char *name, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/%s", r->folder, name);

    VC_REFUSE_IF(n < 0 || n >= PATH_MAX, r->ctx, VC_E_UNSUPPORTED, "%.200s: is too long for a path", name);
    for (char *slash = path + strlen(r->folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            return vc_fail_errno(r->ctx, errno, "cannot make a temporary folder (TMPDIR)");
        }
        *slash = '/';
    }
    return VC_OK;
}

/* A file of that length without bytes. */
static enum vc_status make_hole(struct vc_remote *r, struct entry *entry)
{
    char path[PATH_MAX];
    struct stat st;
    enum vc_status status = VC_OK;

    VC_CALL(make_folders(r, entry->name, path));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || entry->file.at.size > INT64_MAX || ftruncate(fd, (off_t)entry->file.at.size) != 0 ||
        fstat(fd, &st) != 0) {
        status = vc_fail_errno(r->ctx, entry->file.at.size > INT64_MAX ? EFBIG : errno,
                               "%.200s: cannot make its place in a temporary folder (TMPDIR)", entry->name);
    } else {
        entry->virtual.device = st.st_dev;
        entry->virtual.inode = st.st_ino;
        vc_virtual_add(&entry->virtual);
        entry->there = true;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

static enum vc_status make_folder(struct vc_remote *r)
{
    const char *tmp = getenv("TMPDIR");
    const char *slash = strrchr(r->mount.name, '/');
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/vcompress-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");

    VC_REFUSE_IF(n < 0 || (size_t)n >= sizeof path, r->ctx, VC_E_IO, "TMPDIR is too long");
    VC_RETURN_IF(mkdtemp(path) == NULL, vc_fail_errno(r->ctx, errno, "cannot make a temporary folder in %s (TMPDIR)",
                                                      tmp != NULL ? tmp : "/tmp"));
    r->top = vc_arena_copy(r->ctx, &r->arena, path, strlen(path));
    if (r->top == NULL) {
        (void)rmdir(path);
        return VC_E_NOMEM;
    }
    VC_CALL_ALLOC(r->folder = vc_arena_printf(r->ctx, &r->arena, "%s/%s", r->top, slash != NULL ? slash + 1 : "model"));
    VC_RETURN_IF(mkdir(r->folder, 0700) != 0, vc_fail_errno(r->ctx, errno, "cannot make a temporary folder (TMPDIR)"));
    for (size_t i = 0; i < r->n; i++) {
        if (!r->entries[i]->left_out) {
            VC_CALL(make_hole(r, r->entries[i]));
        }
    }
    r->mount.folder = r->folder;
    vc_mount_add(&r->mount);
    r->mounted = true;
    return VC_OK;
}

/* Removes the files, and the folders that they leave empty, the innermost first. */
static void remove_folder(struct vc_remote *r)
{
    char path[PATH_MAX];

    for (size_t i = 0; r->folder != NULL && i < r->n; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", r->folder, r->entries[i]->name);

        if (n < 0 || (size_t)n >= sizeof path) {
            continue;
        }
        (void)unlink(path);
        for (char *slash; (slash = strrchr(path, '/')) > path + strlen(r->folder);) {
            *slash = '\0';
            if (rmdir(path) != 0) {
                break;
            }
        }
    }
    if (r->folder != NULL) {
        (void)rmdir(r->folder);
    }
    if (r->top != NULL) {
        (void)rmdir(r->top);
    }
}

/* ---- open, close ---- */

/* Bytes of the name that sentences have: what stands behind '?' of an address may be a secret. */
static size_t shown_bytes(const char *name)
{
    return begins(name, "hf:") ? strlen(name) : strcspn(name, "?#");
}

static enum vc_status open_remote(struct vc_remote *r, const char *name)
{
    char endpoint[1024];

    if (begins(name, "hf:")) {
        size_t n = model_bytes(name);
        VC_REFUSE_IF(n == 0, r->ctx, VC_E_ARGUMENT,
                     "a model of the hub is hf:OWNER/NAME, hf:OWNER/NAME@REVISION or "
                     "hf:OWNER/NAME/FILE");
        VC_CALL_ALLOC(r->mount.name = vc_arena_copy(r->ctx, &r->arena, name, n));
        VC_CALL(vc_hub_endpoint(r->ctx, endpoint, sizeof endpoint));
        VC_CALL(vc_fetcher_open(r->ctx, endpoint, &r->facts, &r->fetcher));
        VC_CALL(list_hub(r, endpoint));
        if (name[n] == '\0') { /* not one file or folder of it */
            VC_CALL(leave_out(r));
        }
    } else {
        size_t n = shown_bytes(name);

        VC_CALL(vc_fetch_check_url(r->ctx, name));
        while (name[n] != '/') {
            n--;
        }
        VC_REFUSE_IF(name + n < strstr(name, "://") + 3, r->ctx, VC_E_UNSUPPORTED,
                     "the address does not end in the name of a file");
        VC_CALL_ALLOC(r->mount.name = vc_arena_copy(r->ctx, &r->arena, name, n));
        bool hub = vc_hub_endpoint(r->ctx, endpoint, sizeof endpoint) == VC_OK;
        vc_clear_error(r->ctx); /* offline, other hosts are asked all the same */
        VC_CALL(vc_fetcher_open(r->ctx, hub && vc_fetch_same_origin(name, endpoint) ? endpoint : NULL, &r->facts,
                                &r->fetcher));
        VC_CALL(list_url(r, name));
    }
    return make_folder(r);
}

static void end(void *result)
{
    struct vc_remote *r = result;

    if (r->mounted) {
        vc_mount_drop(&r->mount);
    }
    for (size_t i = 0; i < r->n; i++) {
        if (r->entries[i]->there) {
            vc_virtual_drop(&r->entries[i]->virtual);
        }
        VC_FREE_ALL(r->ctx, r->entries[i]->file.head, r->entries[i]->file.at.target);
    }
    remove_folder(r);
    vc_fetcher_close(r->ctx, &r->fetcher);
    vc_remote_windows_release(r->ctx, &r->windows);
    vc_free(r->ctx, r->entries);
    vc_arena_release(r->ctx, &r->arena);
}

enum vc_status vc_remote_open(struct vc_ctx *ctx, const char *name, size_t most_weights, struct vc_remote **out)
{
    struct vc_remote *r = vc_result_new(ctx, VC_TAG_IO, sizeof *r, end);

    *out = NULL;
    vc_clear_error(ctx);
    VC_CALL_ALLOC(r);
    r->ctx = ctx;
    r->most_weights = most_weights;
    if (vc_remote_windows_make(ctx, &r->fetcher, &r->windows) != VC_OK || open_remote(r, name) != VC_OK) {
        (void)vc_context(ctx, "%.*s", (int)vc_min_u64(shown_bytes(name), 300), name);
        vc_result_free(r);
        return ctx->status;
    }
    r->facts.config = r->facts.n_left_out != 0 ? r->config : NULL;
    *out = r;
    return VC_OK;
}
