/* links.c - see links.h. Compares real paths: all links resolved, those in the folder's own path, too. */
#define _GNU_SOURCE /* realpath */
#include "formats/io/links.h"

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
