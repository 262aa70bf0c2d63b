/* stale_outputs.c - see stale_outputs.h. Nothing here fails: what is not removed now is left for another run. */
#define _GNU_SOURCE /* flock */
#include "formats/io/stale_outputs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/io/temporary.h"

/* Opens what nobody holds, and holds it; -1: it stays. Between the look and the lock its run may have given it its
 * name, so the name is looked at again. */
static int take(int folder, const char *name, struct stat *st)
{
    struct stat named;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) {
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, st) == 0 && st->st_uid == geteuid() &&
        fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == st->st_dev &&
        named.st_ino == st->st_ino) {
        return fd;
    }
    (void)close(fd);
    return -1;
}

/* Files are removed here, folders by fn, which knows what may go. fn NULL: folders stay. Entries of other users are
 * left alone (take). */
void vc_stale_outputs_sweep(int folder, const char *output, vc_stale_output_fn *fn, void *user)
{
    int at = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = at < 0 ? NULL : fdopendir(at);
    struct dirent *entry;

    if (dir == NULL) {
        if (at >= 0) {
            (void)close(at);
        }
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        bool aside = vc_temporary_is(entry->d_name, VC_TEMPORARY_ASIDE, output);
        struct stat st;

        if (!aside && !vc_temporary_is(entry->d_name, VC_TEMPORARY_FILE, output)) {
            continue;
        }
        int fd = take(folder, entry->d_name, &st);
        if (fd >= 0 && S_ISREG(st.st_mode)) {
            (void)unlinkat(folder, entry->d_name, 0);
        } else if (fd >= 0 && S_ISDIR(st.st_mode) && fn != NULL) {
            fn(user, entry->d_name, aside);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    (void)closedir(dir);
}
