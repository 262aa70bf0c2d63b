/* outfolder.c - see outfolder.h. */
#define _GNU_SOURCE /* renameat2 */
#include "formats/outfolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/checked.h"
#include "formats/outfile_internal.h"

#define VC_REMOVE_MAX_DEPTH 32

struct member {
    char *name;
    struct vc_outfile *file;
    struct member *next;
};

struct vc_outfolder {
    char *path; /* as given, without slashes at the end */
    const char *base;
    bool force, shared;
    const struct vc_model *input;
    int parent; /* the folder that it lies in; -1: shared */
    struct member *members;
    struct member **last;
};

/* ---- looking at the name ---- */

static enum vc_status open_parent(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    size_t n = (size_t)(folder->base - folder->path);
    char *name = vc_alloc(ctx, VC_TAG_NAMES, n + 2);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(name);
    memcpy(name, folder->path, n);
    memcpy(name + n, n == 0 ? "." : "", n == 0 ? 2 : 1);
    folder->parent = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->parent < 0) {
        status = vc_fail_errno(ctx, errno, "%s: cannot use the folder %s", folder->path, name);
    }
out:
    vc_free(ctx, name);
    return status;
}

/* The input lies in the folder or below it. */
static bool holds_input(const struct vc_outfolder *folder)
{
    char target[PATH_MAX];
    char source[PATH_MAX];
    size_t n;

    if (folder->input == NULL || folder->input->path == NULL || realpath(folder->path, target) == NULL ||
        realpath(folder->input->path, source) == NULL) {
        return false;
    }
    n = strlen(target);
    return strncmp(source, target, n) == 0 && (source[n] == '/' || source[n] == '\0');
}

/* Whether the folder is empty, and whether it holds weights. */
static enum vc_status look_inside(struct vc_ctx *ctx, const struct vc_outfolder *folder, bool *empty, bool *weights)
{
    DIR *dir = opendir(folder->path);
    struct dirent *entry;

    *empty = true;
    *weights = false;
    if (dir == NULL) {
        return vc_fail_errno(ctx, errno, "%s: cannot look into this folder", folder->path);
    }
    while ((entry = readdir(dir)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');

        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            *empty = false;
            *weights = *weights || (dot != NULL && strcmp(dot, ".safetensors") == 0);
        }
    }
    (void)closedir(dir);
    return VC_OK;
}

static enum vc_status check_place(struct vc_ctx *ctx, const struct vc_outfolder *folder)
{
    struct stat st;
    bool empty;
    bool weights;
    enum vc_status status = VC_OK;

    if (lstat(folder->path, &st) != 0) {
        return errno == ENOENT ? VC_OK : vc_fail_errno(ctx, errno, "%s: cannot be the output", folder->path);
    }
    if (S_ISLNK(st.st_mode)) {
        return vc_fail(ctx, VC_E_ARGUMENT, "%s: is a link; name the folder itself", folder->path);
    }
    if (!S_ISDIR(st.st_mode)) {
        return vc_fail(ctx, VC_E_ARGUMENT, "%s: is a file, but the output is a folder", folder->path);
    }
    if (holds_input(folder)) {
        return vc_fail(ctx, VC_E_ARGUMENT, "%s: holds the input, which is never overwritten", folder->path);
    }
    if (folder->shared) {
        return VC_OK;
    }
    if (!folder->force) {
        return vc_fail(ctx, VC_E_ARGUMENT, "%s: exists already and is replaced only with --force", folder->path);
    }
    VC_TRY(look_inside(ctx, folder, &empty, &weights));
    if (!empty && !weights) {
        return vc_fail(ctx, VC_E_ARGUMENT,
                       "%s: is a folder without safetensors files; it is not replaced, not even with --force",
                       folder->path);
    }
out:
    return status;
}

enum vc_status vc_outfolder_create(struct vc_ctx *ctx, const char *path, bool force, bool shared,
                                   const struct vc_model *input, struct vc_outfolder **out)
{
    struct vc_outfolder *folder = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *folder);
    enum vc_status status = VC_OK;
    size_t n = strlen(path);
    const char *slash;

    *out = NULL;
    VC_TRY_ALLOC(folder);
    *folder = (struct vc_outfolder){.force = force, .shared = shared, .input = input, .parent = -1};
    folder->last = &folder->members;
    folder->path = vc_strdup(ctx, VC_TAG_NAMES, path);
    VC_TRY_ALLOC(folder->path);
    while (n > 1 && folder->path[n - 1] == '/') {
        folder->path[--n] = '\0';
    }
    slash = strrchr(folder->path, '/');
    folder->base = slash == NULL ? folder->path : slash + 1;
    if (folder->base[0] == '\0' || strcmp(folder->base, ".") == 0 || strcmp(folder->base, "..") == 0) {
        VC_TRY(vc_fail(ctx, VC_E_ARGUMENT, "%s: is no name for a new folder", path));
    }
    VC_TRY(check_place(ctx, folder));
    VC_TRY(open_parent(ctx, folder));
    *out = folder;
    return VC_OK;
out:
    vc_outfolder_free(ctx, folder);
    return status;
}

/* ---- files ---- */

static enum vc_status make_member(struct vc_ctx *ctx, struct vc_outfolder *folder, struct member *member)
{
    size_t n = strlen(folder->path) + strlen(member->name) + 2;
    char *shown = vc_alloc(ctx, VC_TAG_NAMES, n);
    char *slash;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(shown);
    (void)snprintf(shown, n, "%s/%s", folder->path, member->name);
    if (!folder->shared) {
        VC_TRY(vc_outfile_create_at(ctx, folder->parent, shown, &member->file));
        goto out;
    }
    for (slash = shown + strlen(folder->path); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(shown, 0777) != 0 && errno != EEXIST) {
            VC_TRY(vc_fail_errno(ctx, errno, "%s: cannot make this folder", shown));
        }
        *slash = '/';
    }
    VC_TRY(vc_outfile_create(ctx, shown, folder->force, folder->input, &member->file));
out:
    vc_free(ctx, shown);
    return status;
}

enum vc_status vc_outfolder_add(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name,
                                struct vc_outfile **out)
{
    struct member *member = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *member);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(member);
    *folder->last = member;
    folder->last = &member->next;
    member->name = vc_strdup(ctx, VC_TAG_NAMES, name);
    VC_TRY_ALLOC(member->name);
    VC_TRY(make_member(ctx, folder, member));
    *out = member->file;
out:
    return status;
}

enum vc_status vc_outfolder_need(struct vc_ctx *ctx, const struct vc_outfolder *folder, uint64_t bytes)
{
    return folder->members == NULL || folder->members->file == NULL
               ? VC_OK
               : vc_outfile_need(ctx, folder->members->file, bytes);
}

/* ---- commit ---- */

/* Everything below a folder, and the folder: best effort. */
static void remove_tree(int parent, const char *name, unsigned depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (unlinkat(dirfd(dir), entry->d_name, 0) != 0 && depth < VC_REMOVE_MAX_DEPTH) {
            remove_tree(dirfd(dir), entry->d_name, depth + 1);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    (void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* Makes the folders that a name leads through and puts the file there. */
static enum vc_status place(struct vc_ctx *ctx, const struct vc_outfolder *folder, int fd, struct member *member)
{
    char *slash;

    for (slash = strchr(member->name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        int rc;

        *slash = '\0';
        rc = vc_outfile_injected() ? -1 : mkdirat(fd, member->name, 0777);
        if (rc != 0 && errno != EEXIST) {
            return vc_fail_errno(ctx, errno, "%s: cannot make the folder %s in it", folder->path, member->name);
        }
        *slash = '/';
    }
    return vc_outfile_place(ctx, member->file, fd, member->name);
}

static enum vc_status fill(struct vc_ctx *ctx, const struct vc_outfolder *folder, const char *name)
{
    int fd = openat(folder->parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum vc_status status = VC_OK;
    struct member *member;

    if (fd < 0) {
        return vc_fail_errno(ctx, errno, "%s: cannot use its temporary folder", folder->path);
    }
    for (member = folder->members; member != NULL; member = member->next) {
        VC_TRY(place(ctx, folder, fd, member));
    }
    if ((vc_outfile_injected() || fsync(fd) != 0) && errno != EINVAL && errno != EROFS) {
        status = vc_fail_errno(ctx, errno, "%s: cannot be brought to the disk", folder->path);
    }
out:
    (void)close(fd);
    return status;
}

/* The finished folder gets its name; what was there before gets the temporary one. 0 or an errno. */
static int swap_in(const struct vc_outfolder *folder, const char *name, bool *old)
{
    if (vc_outfile_injected()) {
        return errno;
    }
    *old = false;
    if (renameat2(folder->parent, name, folder->parent, folder->base, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno == EEXIST && folder->force) {
        *old = renameat2(folder->parent, name, folder->parent, folder->base, RENAME_EXCHANGE) == 0;
        return *old ? 0 : errno;
    }
    if (errno == EINVAL ||
        errno == ENOSYS) { /* a file system without such renames: rename replaces empty folders only */
        return renameat(folder->parent, name, folder->parent, folder->base) == 0 ? 0 : errno;
    }
    return errno;
}

static enum vc_status make_whole(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    int slot = vc_outfile_temporary_take(folder->parent, true);
    enum vc_status status = VC_OK;
    const char *name;
    bool old = false;
    int error;

    if (slot < 0) {
        return vc_fail_errno(ctx, errno, "%s: cannot be made", folder->path);
    }
    name = vc_outfile_temporary_name(slot);
    if (vc_outfile_injected() || mkdirat(folder->parent, name, 0777) != 0) {
        status = vc_fail_errno(ctx, errno, "%s: cannot make a folder beside it", folder->path);
        vc_outfile_temporary_forget(slot);
        return status;
    }
    VC_TRY(fill(ctx, folder, name));
    VC_TRY(check_place(ctx, folder)); /* what has appeared there meanwhile */
    error = swap_in(folder, name, &old);
    if (error != 0) {
        VC_TRY(vc_fail_errno(ctx, error, "%s: cannot be given its name", folder->path));
    }
    if ((vc_outfile_injected() || fsync(folder->parent) != 0) && errno != EINVAL && errno != EROFS) {
        status =
            vc_fail_errno(ctx, errno, "%s: is complete, but its folder cannot be brought to the disk", folder->path);
    }
    if (old) {
        remove_tree(folder->parent, name, 0);
    }
    vc_outfile_temporary_forget(slot);
    return status;
out:
    remove_tree(folder->parent, name, 0);
    vc_outfile_temporary_forget(slot);
    return status;
}

enum vc_status vc_outfolder_commit(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    enum vc_status status = VC_OK;
    struct member *member;
    sigset_t all;
    sigset_t before;

    if (folder->shared) {
        for (member = folder->members; member != NULL; member = member->next) {
            VC_TRY(vc_outfile_commit(ctx, member->file));
        }
        return VC_OK;
    }
    /* A handler could remove an empty temporary folder, but not a half-filled one: it waits these milliseconds. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    status = make_whole(ctx, folder);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
out:
    return status;
}

void vc_outfolder_free(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    if (folder == NULL) {
        return;
    }
    while (folder->members != NULL) {
        struct member *member = folder->members;

        folder->members = member->next;
        vc_outfile_free(ctx, member->file);
        vc_free(ctx, member->name);
        vc_free(ctx, member);
    }
    if (folder->parent >= 0) {
        (void)close(folder->parent);
    }
    vc_free(ctx, folder->path);
    vc_free(ctx, folder);
}
