/* work_folder.c - the work folder beside the output: who works there, what lies there, how it goes.
 *
 *     small.npz.shrink/lock           locked by the search at work; its process number, for sentences
 *                      journal        journal.c
 *                      stats.npz      statistics of the rows to train, made by every call
 *                      3/small.npz    the trained file of candidate 3
 *                      recipe         on its way to its name
 *
 * The lock is flock's: it ends with its process, so a killed search keeps nobody out. Where the file system has no such
 * locks, two searches are not kept apart. Nothing else is ever removed from the folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "shrink/shrink_inside.h"

#define MAX_PATH_BYTES 4096
#define MAX_TRIES      100 /* another search may remove the folder between two calls */

/* ---- what lies there ---- */

/* A search writes a file or folder of that name; those of candidates are numbers. Writers that have no unnamed files use
 * hidden ones. */
static bool is_ours(const char *name)
{
    return vc_is_one_of(name, ". .. lock journal stats.npz recipe") || name[strspn(name, "0123456789")] == '\0' ||
           strncmp(name, ".vcompress-", strlen(".vcompress-")) == 0;
}

/* Removes what lies in a folder of a candidate, or, of the work folder itself (`whole` false), all of ours but the
 * lock; then the folder, if it is `whole`. */
static void remove_from(const char *path, bool whole)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char inside[MAX_PATH_BYTES];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        struct stat info;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            (!whole && (!is_ours(name) || strcmp(name, "lock") == 0)) ||
            snprintf(inside, sizeof inside, "%s/%s", path, name) >= (int)sizeof inside) {
            continue;
        }
        if (lstat(inside, &info) == 0 && S_ISDIR(info.st_mode)) {
            remove_from(inside, true);
        } else {
            (void)unlink(inside);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    if (whole) {
        (void)rmdir(path);
    }
}

void vc_remove_folder(const char *path)
{
    remove_from(path, true);
}

/* Refuses a folder in which something lies that no search wrote. */
static enum vc_status check_content(struct vc_shrinking *s)
{
    DIR *dir = opendir(s->work);
    struct dirent *entry;
    enum vc_status status = VC_OK;

    while (status == VC_OK && dir != NULL && (entry = readdir(dir)) != NULL) {
        if (!is_ours(entry->d_name)) {
            status = vc_fail(s->ctx, VC_E_ARGUMENT,
                             "%s: is the work folder of this output, and has a file that no "
                             "search wrote: %s",
                             s->work, entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return status;
}

/* ---- the lock ---- */

/* The number in the file is for the sentence alone; the lock counts. */
static enum vc_status refuse_second(struct vc_shrinking *s)
{
    char number[24] = "";
    bool known = pread(s->lock, number, sizeof number - 1, 0) > 0;

    vc_work_leave(s);
    number[strcspn(number, "\n")] = '\0';
    return vc_fail(s->ctx, VC_E_ARGUMENT, "%s: another search is at work there%s%s%s", s->work,
                   known ? " (process " : "", number, known ? ")" : "");
}

/* The file that was locked is still the one in the folder: the search that had it may have removed both. */
static bool is_there(const struct vc_shrinking *s, const char *path)
{
    struct stat ours;
    struct stat there;

    return fstat(s->lock, &ours) == 0 && stat(path, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

/* Tells the process number to those who find the folder locked. */
static void write_number(const struct vc_shrinking *s)
{
    char number[24];
    int n = snprintf(number, sizeof number, "%ld\n", (long)getpid());

    if (ftruncate(s->lock, 0) != 0 || pwrite(s->lock, number, (size_t)n, 0) != n) {
        (void)ftruncate(s->lock, 0); /* a sentence without a number will do */
    }
}

/* Between mkdir and flock another search may end and remove the folder or the file: then it begins again. */
enum vc_status vc_work_open(struct vc_shrinking *s)
{
    const char *path = s->lock_path = vc_arena_printf(s->ctx, &s->arena, "%s/lock", s->work);

    VC_CALL_ALLOC(path);
    for (int i = 0; i < MAX_TRIES; i++) {
        if (mkdir(s->work, 0777) != 0) {
            if (errno != EEXIST) {
                return vc_fail_errno(s->ctx, errno, "%s: cannot be made", s->work);
            }
            VC_CALL(check_content(s));
        } else {
            s->ours = true;
        }
        s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (s->lock < 0 && errno == ENOENT) {
            continue;
        }
        if (s->lock < 0) {
            return vc_fail_errno(s->ctx, errno, "%s: cannot be written", path);
        }
        VC_RETURN_IF(flock(s->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK, refuse_second(s));
        if (is_there(s, path)) {
            write_number(s);
            return VC_OK;
        }
        vc_work_leave(s);
    }
    return vc_fail(s->ctx, VC_E_ARGUMENT, "%s: another search makes and removes it", s->work);
}

void vc_work_clear(const struct vc_shrinking *s)
{
    remove_from(s->work, false);
}

void vc_work_leave(struct vc_shrinking *s)
{
    if (s->lock >= 0) {
        (void)close(s->lock);
        s->lock = -1;
    }
}

/* The lock goes last, so that no other search begins while files are removed. */
void vc_work_remove(struct vc_shrinking *s)
{
    if (s->lock >= 0) {
        vc_work_clear(s);
        (void)unlink(s->lock_path);
        (void)rmdir(s->work); /* not while another search, which has just come, has its lock in there */
        vc_work_leave(s);
    }
}

double vc_shrink_seconds(const struct vc_shrinking *s)
{
    return s->used + vc_seconds() - s->started;
}

const char *vc_shrink_file(struct vc_shrinking *s, size_t k)
{
    return vc_arena_printf(s->ctx, &s->arena, "%s/%zu/%s", s->work, k, s->name);
}
