/* outfolder.c - see outfolder.h. The life of an output folder; outfolder_name.c looks at its name. */
#define _GNU_SOURCE /* renameat2 */
#include "formats/io/outfolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/checked.h"
#include "formats/io/outfile_internal.h"
#include "formats/io/outfolder_internal.h"

#define VC_REMOVE_MAX_DEPTH 32

enum vc_status vc_outfolder_create(struct vc_ctx *ctx, const char *path, bool force, bool shared,
                                   const struct vc_model *input, struct vc_outfolder **out)
{
    struct vc_outfolder *folder = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *folder);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(folder);
    *folder = (struct vc_outfolder){.force = force, .shared = shared, .input = input, .parent = -1};
    folder->last = &folder->members;
    folder->path = vc_strdup(ctx, VC_TAG_NAMES, path);
    VC_TRY_ALLOC(folder->path);
    VC_TRY(vc_outfolder_resolve(ctx, folder));
    *out = folder;
    return VC_OK;
out:
    vc_outfolder_free(ctx, folder);
    return status;
}

/* ---- files ---- */

static enum vc_status make_member(struct vc_ctx *ctx, struct vc_outfolder *folder, struct vc_outfolder_member *member)
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
    struct vc_outfolder_member *member = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *member);
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

enum vc_status vc_outfolder_check(struct vc_ctx *ctx, const struct vc_outfolder *folder, const char *name)
{
    size_t n = strlen(folder->path) + strlen(name) + 2;
    char *path;
    struct stat st;
    enum vc_status status = VC_OK;

    if (!folder->shared || folder->force) {
        return VC_OK;
    }
    path = vc_alloc(ctx, VC_TAG_NAMES, n);
    VC_TRY_ALLOC(path);
    (void)snprintf(path, n, "%s/%s", folder->path, name);
    if (lstat(path, &st) == 0) {
        status = vc_fail(ctx, VC_E_ARGUMENT, "%s: exists already and is replaced only with --force", path);
    }
out:
    vc_free(ctx, path);
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
static enum vc_status place(struct vc_ctx *ctx, const struct vc_outfolder *folder, int fd,
                            struct vc_outfolder_member *member)
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

/* The folder of a member, which is in the one at fd: its names are on the disk. */
static enum vc_status sync_folder(struct vc_ctx *ctx, const struct vc_outfolder *folder, int fd, const char *name)
{
    int at = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    enum vc_status status = VC_OK;

    if (at < 0) {
        return vc_fail_errno(ctx, errno, "%s: cannot use the folder %s in it", folder->path, name);
    }
    if ((vc_outfile_injected() || fsync(at) != 0) && errno != EINVAL && errno != EROFS) {
        status = vc_fail_errno(ctx, errno, "%s: cannot be brought to the disk", folder->path);
    }
    (void)close(at);
    return status;
}

static enum vc_status sync_folders(struct vc_ctx *ctx, const struct vc_outfolder *folder, int fd)
{
    enum vc_status status = VC_OK;
    struct vc_outfolder_member *member;

    for (member = folder->members; member != NULL; member = member->next) {
        char *slash = strrchr(member->name, '/');

        if (slash != NULL) {
            *slash = '\0';
            status = sync_folder(ctx, folder, fd, member->name);
            *slash = '/';
            VC_TRY(status);
        }
    }
    VC_TRY(sync_folder(ctx, folder, fd, "."));
out:
    return status;
}

static enum vc_status fill(struct vc_ctx *ctx, const struct vc_outfolder *folder, const char *name)
{
    int fd = openat(folder->parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum vc_status status = VC_OK;
    struct vc_outfolder_member *member;

    if (fd < 0) {
        return vc_fail_errno(ctx, errno, "%s: cannot use its temporary folder", folder->path);
    }
    for (member = folder->members; member != NULL; member = member->next) {
        VC_TRY(place(ctx, folder, fd, member));
    }
    VC_TRY(sync_folders(ctx, folder, fd));
out:
    (void)close(fd);
    return status;
}

/* The old folder steps aside under another temporary name and comes back if the new one cannot take its place. For file
 * systems that cannot exchange names; 0 or an errno. */
static int step_aside(const struct vc_outfolder *folder, const char *name)
{
    int slot = vc_outfile_temporary_take(folder->parent, true);
    const char *aside;
    int error = 0;

    if (slot < 0) {
        return errno;
    }
    aside = vc_outfile_temporary_name(slot);
    if (vc_outfile_injected() || renameat(folder->parent, folder->base, folder->parent, aside) != 0) {
        error = errno;
    } else if (vc_outfile_injected() || renameat(folder->parent, name, folder->parent, folder->base) != 0) {
        error = errno;
        (void)renameat(folder->parent, aside, folder->parent, folder->base);
    } else {
        remove_tree(folder->parent, aside, 0);
    }
    vc_outfile_temporary_forget(slot);
    return error;
}

/* The finished folder gets its name; *old: what was there before has the temporary one now. 0 or an errno. */
static int swap_in(const struct vc_outfolder *folder, const char *name, bool *old)
{
    struct stat st;
    bool plain = vc_outfile_no_exchange();

    *old = false;
    if (vc_outfile_injected()) {
        return errno;
    }
    if (!plain && renameat2(folder->parent, name, folder->parent, folder->base, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (!plain && errno == EEXIST && folder->force) {
        *old = renameat2(folder->parent, name, folder->parent, folder->base, RENAME_EXCHANGE) == 0;
        if (*old) {
            return 0;
        }
    }
    if (!plain && errno != EINVAL && errno != ENOSYS) {
        return errno;
    }
    /* A file system without such renames: this one replaces empty folders at most. */
    if (renameat(folder->parent, name, folder->parent, folder->base) == 0) {
        return 0;
    }
    if (folder->force && fstatat(folder->parent, folder->base, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
        return step_aside(folder, name);
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
    VC_TRY(vc_outfolder_check_place(ctx, folder)); /* what has appeared there meanwhile */
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
    struct vc_outfolder_member *member;
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
        struct vc_outfolder_member *member = folder->members;

        folder->members = member->next;
        vc_outfile_free(ctx, member->file);
        vc_free(ctx, member->name);
        vc_free(ctx, member);
    }
    if (folder->parent >= 0) {
        (void)close(folder->parent);
    }
    vc_free(ctx, folder->parent_name);
    vc_free(ctx, folder->path);
    vc_free(ctx, folder);
}
