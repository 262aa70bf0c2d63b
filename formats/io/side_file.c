/* side_file.c - see side_file.h. Compares real paths: all links resolved, those in the folder's own path, too. */
#define _GNU_SOURCE /* realpath */
#include "formats/io/side_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SNAPSHOTS "/snapshots/"
#define BLOBS     "/blobs/"

/* `path` lies below the folder. */
static bool lies_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || folder[n - 1] == '/');
}

/* Hugging Face's caches: <cache>/snapshots/<revision>/... is the folder, and its files are links into <cache>/blobs/.
 */
static bool lies_in_cache(const char *path, const char *folder)
{
    const char *at = strstr(folder, SNAPSHOTS);
    size_t n;

    while (at != NULL && strstr(at + 1, SNAPSHOTS) != NULL) {
        at = strstr(at + 1, SNAPSHOTS);
    }
    if (at == NULL) {
        return false;
    }
    n = (size_t)(at - folder);
    return strncmp(path, folder, n) == 0 && strncmp(path + n, BLOBS, sizeof BLOBS - 1) == 0;
}

bool vc_links_stay(const char *folder, const char *name)
{
    char path[PATH_MAX];
    char base[PATH_MAX];
    char real[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);

    if (n < 0 || (size_t)n >= sizeof path || realpath(folder, base) == NULL || realpath(path, real) == NULL) {
        return false;
    }
    return lies_below(real, base) || lies_in_cache(real, base);
}

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "is a folder, not a file"
           : S_ISFIFO(mode) ? "is a pipe"
           : S_ISSOCK(mode) ? "is a socket"
                            : "is a device";
}

/* NULL: it is a file that may be read; "": it is not there. */
static const char *why_odd(const char *folder, const char *name, struct stat *st)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    struct stat own;

    if (n < 0 || (size_t)n >= sizeof path) {
        return "";
    }
    if (lstat(path, &own) != 0) {
        return errno == ENOENT || errno == ENOTDIR ? "" : "cannot be looked at";
    }
    if (stat(path, st) != 0) {
        return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? "is a link that leads nowhere"
                                                                     : "is a link that cannot be followed";
    }
    if (!S_ISREG(st->st_mode)) {
        return kind_of(st->st_mode);
    }
    if (S_ISREG(own.st_mode) && strchr(name, '/') == NULL) {
        return NULL; /* no link is on the way */
    }
    return vc_links_stay(folder, name) ? NULL : "is a link that leads out of the folder";
}

enum vc_side_kind vc_side_look(const char *folder, const char *name, struct stat *st, const char **why)
{
    struct stat own;
    const char *odd = why_odd(folder, name, st != NULL ? st : &own);
    bool is_odd = odd != NULL && odd[0] != '\0';

    if (why != NULL) {
        *why = is_odd ? odd : NULL;
    }
    if (is_odd) {
        return VC_SIDE_ODD;
    }
    return odd == NULL ? VC_SIDE_FILE : VC_SIDE_ABSENT;
}

enum vc_status vc_side_check(struct vc_ctx *ctx, const char *folder, const char *name, bool *there)
{
    const char *why;
    enum vc_side_kind kind = vc_side_look(folder, name, NULL, &why);

    *there = kind == VC_SIDE_FILE;
    return kind == VC_SIDE_ODD ? vc_fail(ctx, VC_E_UNSUPPORTED,
                                         "%s: %s; only files of the model's folder, and of the cache of Hugging Face's "
                                         "that it is part of, are read",
                                         name, why)
                               : VC_OK;
}
