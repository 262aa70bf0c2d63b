/* outfolder.c - see outfolder.h. The life of an output folder; outfolder_name.c looks at its name.
 *
 * Two kinds of folders take different ways through this file:
 *
 *     whole    members are placed in one hidden folder beside the output, which gets the output's name at commit
 *     shared   members appear one by one in the folder itself; kept ones wait in a hidden folder inside of it
 *
 * A part (vc_outfolder_part) hands all calls to its whole. */
#define _GNU_SOURCE /* renameat2 */
#include "formats/io/outfolder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include "formats/io/outfile_internal.h"
#include "formats/io/outfolder_internal.h"
#include "formats/io/stale_outputs.h"
#include "formats/io/temporary.h"

/* force_foreign includes force. */
enum vc_outfolder_force vc_outfolder_force_of(const struct vc_write_options *options)
{
    if (options->force_foreign != 0) {
        return VC_OUTFOLDER_FOREIGN;
    }
    return options->force ? VC_OUTFOLDER_OWN : VC_OUTFOLDER_NEW;
}

/* Only looks; the hidden folder is made when the first file is kept, or at commit. */
enum vc_status vc_outfolder_create(struct vc_ctx *ctx, const char *path, enum vc_outfolder_force force, bool shared,
                                   const struct vc_model *input, struct vc_outfolder **out)
{
    struct vc_outfolder *folder = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *folder);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(folder);
    *folder = (struct vc_outfolder){.ctx = ctx,
                                    .force = force != VC_OUTFOLDER_NEW,
                                    .foreign = force == VC_OUTFOLDER_FOREIGN,
                                    .shared = shared,
                                    .input = input,
                                    .parent = -1,
                                    .hidden = {-1, -1}};
    folder->last = &folder->members;
    VC_TRY_ALLOC(folder->path = vc_strdup(ctx, VC_TAG_NAMES, path));
    VC_TRY(vc_outfolder_resolve(ctx, folder));
    *out = folder;
    return VC_OK;
out:
    vc_outfolder_free(ctx, folder);
    return status;
}

/* path of a part: its name, one step. */
enum vc_status vc_outfolder_part(struct vc_ctx *ctx, struct vc_outfolder *whole, const char *name,
                                 struct vc_outfolder **out)
{
    struct vc_outfolder *part = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *part);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(part);
    *part = (struct vc_outfolder){.whole = whole, .parent = -1, .hidden = {-1, -1}};
    VC_TRY_ALLOC(part->path = vc_strdup(ctx, VC_TAG_NAMES, name));
    *out = part;
    return VC_OK;
out:
    vc_outfolder_free(ctx, part);
    return status;
}

/* ---- hidden folders ---- */

/* The temporary name is not ours any more. The folder itself stays where it is. */
static void leave(struct vc_outfolder_hidden *hidden)
{
    if (hidden->fd >= 0) {
        (void)close(hidden->fd);
    }
    if (hidden->slot >= 0) {
        vc_temporary_forget(hidden->slot);
    }
    *hidden = (struct vc_outfolder_hidden){-1, -1};
}

/* Makes a folder under a new temporary name and holds it. 0, or an errno: EEXIST where the name, or the folder, was
 * lost to somebody else. A lock on the folder tells other runs that it is in use. */
static int make_hidden(const struct vc_outfolder *folder, int parent, struct vc_outfolder_hidden *hidden)
{
    int error = 0;

    hidden->slot = vc_temporary_take(parent, VC_TEMPORARY_TREE, folder->base);
    if (hidden->slot < 0) {
        return errno;
    }
    if (vc_outfile_injected() || mkdirat(parent, vc_temporary_name(hidden->slot), 0777) != 0) {
        error = errno;
    } else {
        hidden->fd = openat(parent, vc_temporary_name(hidden->slot), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (hidden->fd >= 0 && vc_temporary_hold(hidden->fd)) {
            return 0;
        }
        error = hidden->fd >= 0 || errno == ENOENT ? EEXIST : errno; /* another worker took it for a remainder */
        (void)unlinkat(parent, vc_temporary_name(hidden->slot), AT_REMOVEDIR);
    }
    leave(hidden);
    return error;
}

/* Makes the hidden folder in the folder `parent`, unless there is one already. */
static enum vc_status hide(struct vc_ctx *ctx, const struct vc_outfolder *folder, int parent,
                           struct vc_outfolder_hidden *hidden)
{
    int error = EEXIST;

    for (int tries = 0; hidden->slot < 0 && error == EEXIST && tries < 100; tries++) {
        error = make_hidden(folder, parent, hidden);
    }
    return hidden->slot >= 0 ? VC_OK
                             : vc_fail_errno(ctx, error, "%s: cannot make a folder %s it", folder->path,
                                             folder->shared ? "in" : "beside");
}

/* Removes what it still holds under its temporary name. */
static void unhide(int parent, struct vc_outfolder_hidden *hidden)
{
    if (hidden->slot >= 0) {
        vc_temporary_remove_tree(parent, vc_temporary_name(hidden->slot));
    }
    leave(hidden);
}

/* vc_stale_output_fn for shared folders: removes what workers left, which are files under numbers. Nothing else is
 * removed. */
struct held {
    int fd;
};

static void remove_held(void *user, const char *name, bool aside)
{
    const struct held *held = user;

    if (!aside) {
        vc_outfolder_remove_numbered(held->fd, name);
        (void)unlinkat(held->fd, name, AT_REMOVEDIR);
    }
}

/* The same beside a folder: one that was to become the output, or an older output. That which stepped aside goes only
 * where another has its place. An old output whose successor never came is all that the user has: it stays, and a note
 * names it. */
static void remove_stale(void *user, const char *name, bool aside)
{
    struct vc_outfolder *folder = user;
    struct stat st;

    if (aside && fstatat(folder->parent, folder->base, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        (void)snprintf(folder->note, sizeof folder->note,
                       "a run was killed while it replaced an older output, which is still there: %.*s%s",
                       (int)(folder->base - folder->path), folder->path, name);
        return;
    }
    if (!aside) {
        vc_outfolder_remove_numbered(folder->parent, name);
    }
    vc_outfolder_remove_old(folder, name);
}

/* Hidden folders of runs that were killed. */
void vc_outfolder_sweep(struct vc_outfolder *folder)
{
    if (folder != NULL && folder->whole == NULL && !folder->shared) {
        vc_stale_outputs_sweep(folder->parent, folder->base, remove_stale, folder);
    }
}

/* ---- files ---- */

/* Shared: files that appear in one folder have one descriptor of it, the folder's. Folders are compared by device and
 * inode, so that two paths to one folder share a descriptor. A new place is swept once. */
static enum vc_status share_place(struct vc_ctx *ctx, struct vc_outfolder *folder, struct vc_outfolder_member *member)
{
    struct vc_outfile *file = member->file;
    struct vc_outfolder_place *place;
    struct stat st;

    VC_RETURN_IF(fstat(file->folder, &st) != 0, vc_fail_errno(ctx, errno, "%s: cannot use its folder", file->path));
    for (place = folder->places; place != NULL; place = place->next) {
        if (place->device == st.st_dev && place->inode == st.st_ino) {
            (void)close(file->folder);
            break;
        }
    }
    if (place == NULL) {
        VC_CALL_ALLOC(place = vc_alloc(ctx, VC_TAG_IO, sizeof *place));
        *place = (struct vc_outfolder_place){
            .fd = file->folder, .device = st.st_dev, .inode = st.st_ino, .hidden = {-1, -1}, .next = folder->places};
        folder->places = place;
        vc_stale_outputs_sweep(place->fd, folder->base, remove_held, &(struct held){place->fd});
    }
    file->folder = place->fd;
    file->folder_borrowed = true;
    member->place = place;
    return VC_OK;
}

/* The output file of a member. Shared: in its folder, which is made if it is not there, and with all refusals of a
 * single output. shown: "out/unet/model.safetensors", cut at each slash in turn while folders are made. */
static enum vc_status make_member(struct vc_ctx *ctx, struct vc_outfolder *folder, struct vc_outfolder_member *member)
{
    size_t n = strlen(folder->path) + strlen(member->name) + 2;
    VC_SCOPED char *shown = vc_alloc(ctx, VC_TAG_NAMES, n);
    char *slash;

    VC_CALL_ALLOC(shown);
    (void)snprintf(shown, n, "%s/%s", folder->path, member->name);
    if (!folder->shared) {
        VC_CALL(vc_outfile_create_at(ctx, folder->parent, folder->base, shown, &member->file));
        return VC_OK;
    }
    for (slash = shown + strlen(folder->path); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(shown, 0777) != 0 && errno != EEXIST) {
            VC_CALL(vc_fail_errno(ctx, errno, "%s: cannot make this folder", shown));
        }
        *slash = '/';
        if (!folder->marked) { /* its first file, and the first round: the folder itself is there now */
            VC_CALL(vc_outfolder_mark_shared(ctx, folder));
            folder->marked = true;
        }
    }
    VC_CALL(vc_outfile_create(ctx, shown, folder->force, folder->input, &member->file));
    return share_place(ctx, folder, member);
}

/* Members stay in the order in which they were added, which is the order of their names' appearance where the folder is
 * shared. A member that failed to be made stays in the list, and is freed with the folder. */
enum vc_status vc_outfolder_add(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name,
                                struct vc_outfile **out)
{
    struct vc_outfolder_member *member = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    if (folder->whole != NULL) {
        const char *whole = vc_outfolder_whole_name(ctx, folder, name);

        return whole == NULL ? VC_E_NOMEM : vc_outfolder_add(ctx, folder->whole, whole, out);
    }
    VC_TRY(VC_ZEROS(ctx, VC_TAG_IO, member, 1));
    VC_TRY(vc_outfolder_expect(ctx, folder, name));
    *folder->last = member;
    folder->last = &member->next;
    VC_TRY_ALLOC(member->name = vc_strdup(ctx, VC_TAG_NAMES, name));
    VC_TRY(make_member(ctx, folder, member));
    *out = member->file;
    return VC_OK;
out:
    if (member != NULL && folder->last != &member->next) {
        vc_free(ctx, member);
    }
    return status;
}

/* Makes the folders that a name leads through and puts the finished file there. The descriptor is closed with the
 * outfile, so that a folder may have more files than the process descriptors. */
static enum vc_status place(struct vc_ctx *ctx, const struct vc_outfolder *folder, struct vc_outfolder_member *member)
{
    int fd = folder->hidden.fd;
    char *slash;

    for (slash = strchr(member->name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int rc = vc_outfile_injected() ? -1 : mkdirat(fd, member->name, 0777);
        if (rc != 0 && errno != EEXIST) {
            return vc_fail_errno(ctx, errno, "%s: cannot make the folder %s in it", folder->path, member->name);
        }
        *slash = '/';
    }
    VC_CALL(vc_outfile_place(ctx, member->file, fd, member->name));
    vc_outfile_free(ctx, member->file);
    member->file = NULL;
    return VC_OK;
}

/* `file` is a member's: the loop ends. */
static struct vc_outfolder_member *member_of(struct vc_outfolder *folder, const struct vc_outfile *file)
{
    struct vc_outfolder_member *member = folder->members;

    while (member->file != file) {
        member = member->next;
    }
    return member;
}

/* A file "rests" where descriptors are few: it has a name in the hidden folder, and each write opens it. */
enum vc_status vc_outfolder_begin(struct vc_ctx *ctx, struct vc_outfolder *folder, struct vc_outfile *file)
{
    if (folder->whole != NULL) {
        return vc_outfolder_begin(ctx, folder->whole, file);
    }
    VC_CALL(vc_outfile_begin(ctx, file));
    if (!vc_outfile_should_rest(file)) {
        return VC_OK;
    }
    struct vc_outfolder_member *member = member_of(folder, file);
    if (folder->shared) {
        VC_CALL(hide(ctx, folder, member->place->fd, &member->place->hidden));
        VC_CALL(vc_outfile_rest(ctx, file, member->place->hidden.fd, member->place->n_held++));
    } else {
        VC_CALL(hide(ctx, folder, folder->parent, &folder->hidden));
        VC_CALL(vc_outfile_rest(ctx, file, folder->hidden.fd, folder->n_resting++));
    }
    return VC_OK;
}

/* Sync first: the file must not get a name of any kind before its bytes are on the disk. */
enum vc_status vc_outfolder_keep(struct vc_ctx *ctx, struct vc_outfolder *folder, struct vc_outfile *file)
{
    if (folder->whole != NULL) {
        return vc_outfolder_keep(ctx, folder->whole, file);
    }
    VC_CALL(vc_outfile_sync(ctx, file));
    struct vc_outfolder_member *member = member_of(folder, file);
    if (folder->shared) {
        VC_CALL(hide(ctx, folder, member->place->fd, &member->place->hidden));
        VC_CALL(vc_outfile_hold(ctx, file, member->place->hidden.fd, member->place->n_held++));
    } else {
        VC_CALL(hide(ctx, folder, folder->parent, &folder->hidden));
        VC_CALL(place(ctx, folder, member));
    }
    return VC_OK;
}

/* Of a shared folder, before anything is written: a member that is there is replaced only by --force. */
enum vc_status vc_outfolder_check(struct vc_ctx *ctx, const struct vc_outfolder *folder, const char *name)
{
    size_t n = strlen(folder->path) + strlen(name) + 2;
    struct stat st;

    if (!folder->shared || folder->force) {
        return VC_OK;
    }
    VC_SCOPED char *path = vc_alloc(ctx, VC_TAG_NAMES, n);
    VC_CALL_ALLOC(path);
    (void)snprintf(path, n, "%s/%s", folder->path, name);
    VC_REFUSE_IF(lstat(path, &st) == 0, ctx, VC_E_ARGUMENT, "%s: exists already and is replaced only with %s", path,
                 vc_option(ctx, "force"));
    return VC_OK;
}

/* Any member asks the file system that all of them lie on. */
enum vc_status vc_outfolder_need(struct vc_ctx *ctx, const struct vc_outfolder *folder, uint64_t bytes)
{
    return folder->whole != NULL ? vc_outfolder_need(ctx, folder->whole, bytes)
           : folder->members == NULL || folder->members->file == NULL
               ? VC_OK
               : vc_outfile_need(ctx, folder->members->file, bytes);
}

/* ---- commit ---- */

/* The folder of a member, which is in the one at fd: its names are on the disk. EINVAL and EROFS: file systems that do
 * not sync folders. */
static enum vc_status sync_folder(struct vc_ctx *ctx, const struct vc_outfolder *folder, int fd, const char *name)
{
    int at = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    enum vc_status status = VC_OK;

    VC_RETURN_IF(at < 0, vc_fail_errno(ctx, errno, "%s: cannot use the folder %s in it", folder->path, name));
    if ((vc_outfile_injected() || fsync(at) != 0) && errno != EINVAL && errno != EROFS) {
        status = vc_fail_errno(ctx, errno, "%s: cannot be brought to the disk", folder->path);
    }
    (void)close(at);
    return status;
}

/* Every folder in the hidden one is on the disk, and that one, too. Names are cut at their last slash for the moment of
 * the call. */
static enum vc_status sync_folders(struct vc_ctx *ctx, const struct vc_outfolder *folder, int fd)
{
    enum vc_status status = VC_OK;

    for (struct vc_outfolder_member *member = folder->members; member != NULL; member = member->next) {
        char *slash = strrchr(member->name, '/');

        if (slash != NULL) {
            *slash = '\0';
            status = sync_folder(ctx, folder, fd, member->name);
            *slash = '/';
            VC_CALL(status);
        }
    }
    return sync_folder(ctx, folder, fd, ".");
}

/* All files are in the hidden folder, and so their names on the disk. */
static enum vc_status fill(struct vc_ctx *ctx, const struct vc_outfolder *folder)
{
    for (struct vc_outfolder_member *member = folder->members; member != NULL; member = member->next) {
        if (member->file != NULL) {
            VC_CALL(place(ctx, folder, member));
        }
    }
    return sync_folders(ctx, folder, folder->hidden.fd);
}

/* The old folder steps aside under another temporary name and comes back if the new one cannot take its place. For file
 * systems that cannot exchange names; 0 or an errno. Between the two renames nothing has the output's name; the kind
 * VC_TEMPORARY_ASIDE tells a later run, and a signal handler, that the folder under the temporary name may be the only
 * output. */
static int step_aside(struct vc_outfolder *folder, const char *name)
{
    int slot = vc_temporary_take(folder->parent, VC_TEMPORARY_ASIDE, folder->base);
    int error = 0;

    if (slot < 0) {
        return errno;
    }
    const char *aside = vc_temporary_name(slot);
    if (vc_outfile_injected() || renameat(folder->parent, folder->base, folder->parent, aside) != 0) {
        error = errno;
    } else if (vc_outfile_injected() || renameat(folder->parent, name, folder->parent, folder->base) != 0) {
        error = errno;
        (void)renameat(folder->parent, aside, folder->parent, folder->base);
    } else {
        vc_outfolder_remove_old(folder, aside);
    }
    vc_temporary_forget(slot);
    return error;
}

/* The finished folder gets its name; what was there before has the temporary one then. 0 or an errno. RENAME_NOREPLACE,
 * then RENAME_EXCHANGE where the old folder may go; both since Linux 3.15, and only where the file system has them. */
static int swap_in(struct vc_outfolder *folder, const char *name)
{
    struct stat st;
    bool plain = vc_outfile_no_exchange();

    if (vc_outfile_injected()) {
        return errno;
    }
    if (!plain && renameat2(folder->parent, name, folder->parent, folder->base, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (!plain && errno == EEXIST && folder->force) {
        if (renameat2(folder->parent, name, folder->parent, folder->base, RENAME_EXCHANGE) == 0) {
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

/* The mark as a file of a folder that is made as a whole. */
static enum vc_status add_mark(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    const struct vc_outfolder_mark none = {.there = false};
    struct vc_outfile *file = NULL;
    VC_SCOPED_TEXT struct vc_text text = {.ctx = ctx};

    vc_outfolder_sort_names(folder);
    vc_outfolder_mark_text(&text, folder->names, folder->n_names, &none);
    VC_CALL(text.status);
    VC_CALL(vc_outfolder_add(ctx, folder, VC_FOLDER_MARK, &file));
    VC_CALL(vc_outfile_begin(ctx, file));
    VC_CALL(vc_outfile_write(ctx, file, 0, text.data, text.n));
    return vc_outfolder_keep(ctx, folder, file);
}

/* Commit of a folder that is not shared. Order: mark, all files in the hidden folder and on the disk, checks again,
 * exchange, removal of the old folder, sync of the parent. */
static enum vc_status make_whole(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    enum vc_status status = VC_OK;
    int old = -1;

    VC_TRY(add_mark(ctx, folder));
    VC_TRY(hide(ctx, folder, folder->parent, &folder->hidden));
    VC_TRY(fill(ctx, folder));
    VC_TRY(vc_outfolder_check_place(ctx, folder)); /* what has appeared there meanwhile */
    VC_TRY(vc_outfolder_check_old(ctx, folder));
    /* Held, so that no other run takes it for a remain while it has a temporary name. */
    old = openat(folder->parent, folder->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (old >= 0) {
        (void)flock(old, LOCK_EX | LOCK_NB);
    }
    /* From here on the old folder may have this name for a moment: a signal handler must not empty that. */
    vc_temporary_set_kind(folder->hidden.slot, VC_TEMPORARY_EMPTY);
    int error = swap_in(folder, vc_temporary_name(folder->hidden.slot));
    if (error != 0) {
        VC_TRY(vc_fail_errno(ctx, error, "%s: cannot be given its name", folder->path));
    }
    /* The hidden name is free now, or that of the old folder, in which something may have appeared meanwhile. */
    vc_outfolder_remove_old(folder, vc_temporary_name(folder->hidden.slot));
    leave(&folder->hidden);
    if ((vc_outfile_injected() || fsync(folder->parent) != 0) && errno != EINVAL && errno != EROFS) {
        status =
            vc_fail_errno(ctx, errno, "%s: is complete, but its folder cannot be brought to the disk", folder->path);
    }
out:
    unhide(folder->parent, &folder->hidden); /* a new folder that is not wanted */
    if (old >= 0) {
        (void)close(old);
    }
    return status;
}

/* Shared: file after file. Else all at once, with signals blocked. A handler cannot know which of two folders has which
 * name while they are exchanged, so signals wait these milliseconds. */
enum vc_status vc_outfolder_commit(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    enum vc_status status = VC_OK;
    sigset_t all;
    sigset_t before;

    if (folder->whole != NULL) {
        return VC_OK;
    }
    if (folder->shared) {
        for (struct vc_outfolder_member *member = folder->members; member != NULL; member = member->next) {
            VC_CALL(vc_outfile_commit(ctx, member->file));
        }
        return VC_OK;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    status = make_whole(ctx, folder);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

const char *vc_outfolder_note(const struct vc_outfolder *folder)
{
    return folder->note[0] != '\0' ? folder->note : NULL;
}

enum vc_status vc_output_commit(struct vc_ctx *ctx, struct vc_outfolder *folder, struct vc_outfile *file,
                                const char **note)
{
    if (folder == NULL) {
        return file != NULL ? vc_outfile_commit(ctx, file) : VC_OK;
    }
    enum vc_status status = vc_outfolder_commit(ctx, folder);
    *note = vc_outfolder_note(folder);
    return status;
}

/* Files first: what waits in a hidden folder is removed from it before the folder is closed. */
void vc_outfolder_free(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    if (folder == NULL) {
        return;
    }
    while (folder->members != NULL) {
        struct vc_outfolder_member *member = folder->members;

        folder->members = member->next;
        vc_outfile_free(ctx, member->file);
        VC_FREE_ALL(ctx, member->name, member);
    }
    while (folder->places != NULL) {
        struct vc_outfolder_place *place = folder->places;

        folder->places = place->next;
        unhide(place->fd, &place->hidden);
        (void)close(place->fd);
        vc_free(ctx, place);
    }
    unhide(folder->parent, &folder->hidden);
    if (folder->parent >= 0) {
        (void)close(folder->parent);
    }
    vc_free(ctx, folder->names);
    vc_arena_release(ctx, &folder->arena);
    VC_FREE_ALL(ctx, folder->parent_name, folder->path, folder);
}
