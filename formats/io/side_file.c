/* side_file.c - see side_file.h. Compares real paths: all links resolved, those in the folder's own path, too. */
#include "formats/io/side_file.h"

#include <errno.h>

#include "core/base/real_path.h"
#include "formats/io/mounts.h"

#define SNAPSHOTS "/snapshots/"
#define BLOBS     "/blobs/"

/* `path` lies below the folder. */
static bool lies_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || folder[n - 1] == '/');
}

/* Hugging Face's caches: <cache>/snapshots/<revision>/... is the folder, and its files are links into <cache>/blobs/.
 * Both are real paths. The last "/snapshots/" counts, since a cache may lie below another one. */
static bool lies_in_cache(const char *path, const char *folder)
{
    const char *at = strstr(folder, SNAPSHOTS);

    while (at != NULL && strstr(at + 1, SNAPSHOTS) != NULL) {
        at = strstr(at + 1, SNAPSHOTS);
    }
    if (at == NULL) {
        return false;
    }
    size_t n = (size_t)(at - folder);
    return strncmp(path, folder, n) == 0 && strncmp(path + n, BLOBS, sizeof BLOBS - 1) == 0;
}

/* *stay false also where the path is too long, or leads nowhere. */
enum vc_status vc_links_stay(struct vc_ctx *ctx, const char *folder, const char *name, bool *stay)
{
    char path[PATH_MAX], base[PATH_MAX], real[PATH_MAX], mounted[PATH_MAX];

    folder = vc_mount_path(folder, mounted);
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    *stay = n >= 0 && (size_t)n < sizeof path;
    if (*stay) {
        VC_CALL(vc_real_path(ctx, folder, base, stay));
    }
    if (*stay) {
        VC_CALL(vc_real_path(ctx, path, real, stay));
    }
    *stay = *stay && (lies_below(real, base) || lies_in_cache(real, base));
    return VC_OK;
}

/* What it is, for a sentence. */
static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode)) {
        return "is a folder, not a file";
    }
    if (S_ISFIFO(mode)) {
        return "is a pipe";
    }
    if (S_ISSOCK(mode)) {
        return "is a socket";
    }
    return "is a device";
}

/* *found: NULL: it is a file that may be read; "": it is not there; else why it is odd. A name with folders in it may
 * pass a link on its way, so its real path is looked at, too. *st: of what a link leads to. */
static enum vc_status why_odd(struct vc_ctx *ctx, const char *folder, const char *name, struct stat *st,
                              const char **found)
{
    char path[PATH_MAX], mounted[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", vc_mount_path(folder, mounted), name);
    struct stat own;
    bool stay = true;

    *found = "";
    if (n < 0 || (size_t)n >= sizeof path) {
        return VC_OK;
    }
    if (lstat(path, &own) != 0) {
        return vc_is_absence(errno) ? VC_OK : vc_fail_errno(ctx, errno, "%s: cannot be looked at", path);
    }
    if (stat(path, st) != 0) {
        *found = "is a link that leads nowhere";
        return vc_is_absence(errno) ? VC_OK : vc_fail_errno(ctx, errno, "%s: cannot be looked at", path);
    }
    *found = NULL;
    if (!S_ISREG(st->st_mode)) {
        *found = kind_of(st->st_mode);
    } else if (S_ISLNK(own.st_mode) || strchr(name, '/') != NULL) {
        VC_CALL(vc_links_stay(ctx, folder, name, &stay));
    }
    if (!stay) {
        *found = "is a link that leads out of the folder";
    }
    return VC_OK;
}

enum vc_status vc_side_look(struct vc_ctx *ctx, const char *folder, const char *name, enum vc_side_kind *kind,
                            struct stat *st, const char **why)
{
    struct stat own;
    const char *odd;

    VC_CALL(why_odd(ctx, folder, name, st != NULL ? st : &own, &odd));
    *kind = odd == NULL ? VC_SIDE_FILE : VC_SIDE_ODD;
    if (odd != NULL && odd[0] == '\0') {
        *kind = VC_SIDE_ABSENT;
    }
    if (why != NULL) {
        *why = *kind == VC_SIDE_ODD ? odd : NULL;
    }
    return VC_OK;
}

enum vc_status vc_side_check(struct vc_ctx *ctx, const char *folder, const char *name, bool *there)
{
    const char *why;
    enum vc_side_kind kind;

    VC_CALL(vc_side_look(ctx, folder, name, &kind, NULL, &why));
    *there = kind == VC_SIDE_FILE;
    return kind == VC_SIDE_ODD ? vc_fail(ctx, VC_E_UNSUPPORTED,
                                         "%s: %s; only files of the model's folder, and of the cache of Hugging Face's "
                                         "that it is part of, are read",
                                         name, why)
                               : VC_OK;
}
