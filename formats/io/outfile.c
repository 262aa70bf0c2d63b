/* outfile.c - writes a temporary file and gives it the output's name once all of it is on the disk.
 *
 * Order at the end: write everything, fsync, close (each checked), name it (a link where nothing is there, else a
 * rename over the old file), fsync the folder. What goes wrong before the naming leaves no trace.
 *
 *     state                fd    link_fd   name
 *     begun, unnamed       open  -         none (O_TMPFILE)
 *     begun, named         open  -         .vcompress-<digest><random> in the folder, held by a lock
 *     synced               -     open      as before; the second descriptor keeps an unnamed file alive
 *     held, at rest        -     -         a number in the outfolder's hidden folder (held_in, held_as)
 *     committed            -     -         its own */
#define _GNU_SOURCE /* O_TMPFILE */
#include "formats/io/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/text/text.h"
#include "formats/io/infile.h"
#include "formats/io/outfile_internal.h"
#include "formats/io/stale_outputs.h"
#include "formats/io/temporary.h"

#define VC_STDOUT_COPY_BYTES ((size_t)256 << 10)

/* ---- faults, for tests ---- */

static atomic_uint_fast64_t n_calls, failing_call;
static atomic_bool no_unnamed;

void vc_outfile_fail_at(uint64_t n)
{
    atomic_store(&failing_call, n == 0 ? 0 : atomic_load(&n_calls) + n);
}

uint64_t vc_outfile_call_count(void)
{
    return atomic_load(&n_calls);
}

void vc_outfile_no_unnamed(bool on)
{
    atomic_store(&no_unnamed, on);
}

bool vc_outfile_no_exchange(void)
{
    return atomic_load(&no_unnamed);
}

/* Tests let one system call after the other fail with this: it counts calls, and is asked before each. True sets errno
 * to EIO, and the caller acts as if the call had failed. */
bool vc_outfile_injected(void)
{
    uint64_t n = atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed) + 1;

    if (n != atomic_load_explicit(&failing_call, memory_order_relaxed)) {
        return false;
    }
    errno = EIO;
    return true;
}

enum vc_status vc_tempfile_write(struct vc_ctx *ctx, int fd, uint64_t offset, const void *data, size_t n)
{
    const char *from = data;

    while (n > 0) {
        ssize_t done = vc_outfile_injected() ? -1 : pwrite(fd, from, n, (off_t)offset);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        VC_RETURN_IF(done < 0, vc_fail_errno(ctx, errno, "cannot write to a temporary file (TMPDIR)"));
        from += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    return VC_OK;
}

/* ---- the place before the name ---- */

/* Where the finished file, or the one that is being written, lies under a name that is not its own yet. *folder: the
 * descriptor that the name is relative to. */
static const char *temporary_place(const struct vc_outfile *file, int *folder)
{
    *folder = file->held_in >= 0 ? file->held_in : file->folder;
    return file->held_in >= 0 ? file->held_as : vc_temporary_name(file->temporary);
}

/* The file has another name, or is not wanted any more. Without any temporary name it does nothing. */
static void temporary_drop(struct vc_outfile *file, bool unlink_it)
{
    int folder;

    if (file->temporary < 0 && file->held_in < 0) {
        return;
    }
    const char *name = temporary_place(file, &folder);
    if (unlink_it) {
        (void)unlinkat(folder, name, 0);
    }
    if (file->temporary >= 0) {
        vc_temporary_forget(file->temporary);
    }
    file->temporary = -1;
    file->held_in = -1;
}

/* ---- creating ---- */

/* As given; "standard output" for "-". */
static const char *path_of(const struct vc_outfile *file)
{
    return file->to_stdout ? "standard output" : file->path;
}

/* What standard output is: no terminal, and not the input. */
static enum vc_status check_stdout(struct vc_ctx *ctx, const struct vc_outfile *file)
{
    struct stat st;

    VC_REFUSE_IF(isatty(STDOUT_FILENO) && !file->force, ctx, VC_E_ARGUMENT,
                 "standard output is a terminal; binary goes there only with %s", vc_option(ctx, "force"));
    VC_RETURN_IF(fstat(STDOUT_FILENO, &st) != 0, vc_fail_errno(ctx, errno, "cannot write to standard output"));
    VC_REFUSE_IF(S_ISREG(st.st_mode) && vc_outfile_is_input(ctx, file, &st), ctx, VC_E_ARGUMENT,
                 "standard output is the input itself, which is never overwritten");
    return VC_OK;
}

/* An output that has neither name nor descriptor yet. */
static struct vc_outfile *make_file(struct vc_ctx *ctx, const char *path)
{
    struct vc_outfile *file = vc_calloc_array(ctx, VC_TAG_IO, 1, sizeof *file);

    if (file == NULL) {
        return NULL;
    }
    file->folder = -1;
    file->fd = -1;
    file->link_fd = -1;
    file->temporary = -1;
    file->held_in = -1;
    file->path = vc_strdup(ctx, VC_TAG_NAMES, path);
    if (file->path == NULL) {
        vc_free(ctx, file);
        return NULL;
    }
    return file;
}

/* The folder is the outfolder's, and has been looked at by it. */
enum vc_status vc_outfile_create_at(struct vc_ctx *ctx, int folder, const char *output, const char *shown,
                                    struct vc_outfile **out)
{
    VC_CALL_ALLOC(*out = make_file(ctx, shown));
    (*out)->folder = folder;
    (*out)->output = output;
    (*out)->folder_borrowed = true;
    return VC_OK;
}

/* Everything that is wrong with the name is found before any work is done. */
enum vc_status vc_outfile_create(struct vc_ctx *ctx, const char *path, bool force, const struct vc_model *input,
                                 struct vc_outfile **out)
{
    struct vc_outfile *file = make_file(ctx, path);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_CALL_ALLOC(file);
    file->force = force;
    file->to_stdout = strcmp(path, "-") == 0;
    file->input = input;
    if (file->to_stdout) {
        VC_TRY(check_stdout(ctx, file));
    } else {
        VC_TRY(vc_outfile_resolve(ctx, file));
    }
    *out = file;
    return VC_OK;
out:
    vc_outfile_free(ctx, file);
    return status;
}

enum vc_status vc_outfile_open(struct vc_ctx *ctx, const struct vc_write_options *options, const struct vc_model *input,
                               struct vc_outfile **out)
{
    if (options->writer == NULL) {
        return vc_outfile_create(ctx, options->path, options->force, input, out);
    }
    VC_CALL_ALLOC(*out = make_file(ctx, options->path));
    (*out)->writer = *options->writer;
    return VC_OK;
}

static bool to_writer(const struct vc_outfile *file)
{
    return file->writer.write != NULL;
}

static enum vc_status refused(struct vc_ctx *ctx, const struct vc_outfile *file, bool accepted)
{
    return accepted ? VC_OK : vc_fail(ctx, VC_E_IO, "%s: the program refuses the output", file->path);
}

/* False with what is free when that is less than the file needs. True also where the file system does not say. */
static bool has_room(const struct vc_outfile *file, uint64_t *available)
{
    struct statvfs fs;
    int fd = file->to_stdout ? file->fd : file->folder;

    /* No answer, or a file system without a size: writing will tell. */
    return fd < 0 || fstatvfs(fd, &fs) != 0 || fs.f_blocks == 0 ||
           !vc_mul_u64(fs.f_bavail, fs.f_frsize != 0 ? fs.f_frsize : fs.f_bsize, available) ||
           *available >= file->needed;
}

/* Refuses an output that the disk has no room for. */
static enum vc_status check_room(struct vc_ctx *ctx, const struct vc_outfile *file)
{
    uint64_t available;

    if (has_room(file, &available)) {
        return VC_OK;
    }
    return vc_fail(ctx, VC_E_IO, "%s: needs %" PRIu64 " bytes, but %s has only %" PRIu64 " free", path_of(file),
                   file->needed, file->to_stdout ? "the temporary folder (TMPDIR)" : "its folder", available);
}

/* Remembers the size for begin and reserve. */
enum vc_status vc_outfile_need(struct vc_ctx *ctx, struct vc_outfile *file, uint64_t bytes)
{
    if (file == NULL) {
        return VC_OK;
    }
    file->needed = bytes;
    return check_room(ctx, file);
}

/* True when an unnamed file could be made in the folder and named later. /proc/self/fd is what the file is linked by
 * later, so without it an unnamed file could never get a name. */
static bool begin_unnamed(struct vc_outfile *file)
{
#ifdef O_TMPFILE
    if (atomic_load(&no_unnamed) || access("/proc/self/fd", X_OK) != 0) {
        return false;
    }
    file->fd = vc_outfile_injected() ? -1 : openat(file->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    file->unnamed = file->fd >= 0;
    return file->unnamed;
#else
    return false;
#endif
}

/* A file under a random name in the target's folder; the name is tried again if somebody has it. A lock on the file
 * tells other runs that it is in use (stale_outputs.c). Between creating and locking, another run may have swept it
 * away: then the next name is tried. errno tells the last failure. */
static bool begin_named(struct vc_outfile *file)
{
    for (int tries = 0; tries < 100; tries++) {
        file->temporary = vc_temporary_take(file->folder, VC_TEMPORARY_FILE, file->output);
        if (file->temporary < 0) {
            return false;
        }
        file->fd = vc_outfile_injected() ? -1
                                         : openat(file->folder, vc_temporary_name(file->temporary),
                                                  O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
        if (file->fd >= 0 && vc_temporary_hold(file->fd)) {
            return true;
        }
        if (file->fd >= 0) {
            (void)close(file->fd);
            file->fd = -1;
            errno = EEXIST;
        }
        temporary_drop(file, false); /* not ours */
        if (errno != EEXIST) {
            return false;
        }
    }
    return false;
}

/* Unnamed if the file system can do that and /proc is there to name the file later; else under a temporary name. */
enum vc_status vc_outfile_begin(struct vc_ctx *ctx, struct vc_outfile *file)
{
    if (file == NULL) {
        return VC_OK;
    }
    if (to_writer(file)) {
        return refused(ctx, file, file->writer.begin == NULL || file->writer.begin(file->writer.user, file->needed));
    }
    if (file->to_stdout) {
        file->fd = vc_tempfile_open(ctx);
        if (file->fd < 0) {
            return vc_context(ctx, "standard output");
        }
        return check_room(ctx, file);
    }
    if (file->base != NULL) { /* not of a folder that is made as a whole, which looks itself */
        vc_stale_outputs_sweep(file->folder, file->output, NULL, NULL);
    }
    if (!begin_unnamed(file) && !begin_named(file)) {
        return vc_fail_errno(ctx, errno, "%s: cannot create a file in its folder", file->path);
    }
    return check_room(ctx, file);
}

/* A file system that has no such call says so by one of these. */
static bool cannot_reserve(int error)
{
    return error == EOPNOTSUPP || error == EINVAL || error == ENOSYS || error == EPERM || error == ENODEV;
}

/* posix_fallocate returns its error, and does not set errno. */
enum vc_status vc_outfile_reserve(struct vc_ctx *ctx, struct vc_outfile *file)
{
    int error = EINTR;

    while (error == EINTR && file->needed != 0) {
        if (vc_check_cancelled(ctx) != VC_OK) {
            return VC_E_CANCELLED;
        }
        error = vc_outfile_injected() ? EIO : posix_fallocate(file->fd, 0, (off_t)file->needed);
    }
    return file->needed == 0 || error == 0 || cannot_reserve(error)
               ? VC_OK
               : vc_fail_errno(ctx, error, "%s: cannot hold the %" PRIu64 " bytes that it needs", path_of(file),
                               file->needed);
}

/* ---- writing ---- */

/* The file's descriptor, or of one that rests a new one. -1 with the error set. The caller closes a new one. */
static int take_fd(struct vc_ctx *ctx, const struct vc_outfile *file)
{
    int fd = file->fd;

    if (fd < 0) {
        fd = vc_outfile_injected() ? -1 : openat(file->held_in, file->held_as, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0) {
        (void)vc_fail_errno(ctx, errno, "%s: cannot be opened again", file->path);
    }
    return fd;
}

/* pwrite needs no lock: every call has a place of its own. A call that writes nothing and reports no error is taken for
 * a full disk. */
static enum vc_status write_at(struct vc_ctx *ctx, const struct vc_outfile *file, int fd, uint64_t offset,
                               const unsigned char *at, size_t n)
{
    while (n != 0) {
        ssize_t done = vc_outfile_injected() ? -1 : pwrite(fd, at, n, (off_t)offset);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return vc_fail_errno(ctx, done < 0 ? errno : ENOSPC, "%s: cannot write %zu bytes at offset %" PRIu64,
                                 path_of(file), n, offset);
        }
        at += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    return VC_OK;
}

enum vc_status vc_outfile_write(struct vc_ctx *ctx, struct vc_outfile *file, uint64_t offset, const void *data,
                                size_t n)
{
    enum vc_status status = VC_OK;

    if (file == NULL || n == 0) {
        return VC_OK;
    }
    VC_CALL(vc_check_cancelled(ctx)); /* headers of a million members are as many writes */
    VC_RETURN_IF(to_writer(file), refused(ctx, file, file->writer.write(file->writer.user, offset, data, n)));
    int fd = take_fd(ctx, file);
    if (fd < 0) {
        return ctx->status;
    }
    status = write_at(ctx, file, fd, offset, data, n);
    if (fd != file->fd && ((close(fd) != 0 && errno != EINTR) || vc_outfile_injected()) && status == VC_OK) {
        return vc_fail_errno(ctx, errno, "%s: cannot be closed", file->path);
    }
    return status;
}

/* An unnamed file needs a descriptor until it has its name, and a named one is held by it; it is a second one
 * (link_fd), so that the first can be closed and its errors seen. fsync first, then close: both may report that written
 * data were lost. */
enum vc_status vc_outfile_sync(struct vc_ctx *ctx, struct vc_outfile *file)
{
    struct stat st;

    if (file == NULL || file->to_stdout || to_writer(file)) {
        return VC_OK;
    }
    int fd = take_fd(ctx, file);
    if (fd < 0) {
        return ctx->status;
    }
    file->fd = fd; /* what fails leaves it to vc_outfile_free */
    if (fstat(fd, &st) == 0) {
        file->device = st.st_dev;
        file->inode = st.st_ino;
    }
    if (vc_outfile_injected() || fsync(fd) != 0) {
        return vc_fail_errno(ctx, errno, "%s: cannot be brought to the disk", file->path);
    }
    if (file->held_in < 0) { /* the folder that it waits in is held as a whole */
        file->link_fd = vc_outfile_injected() ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
        VC_RETURN_IF(file->link_fd < 0, vc_fail_errno(ctx, errno, "%s: cannot be finished", file->path));
    }
    file->fd = -1;
    if ((close(fd) != 0 && errno != EINTR) || vc_outfile_injected()) {
        return vc_fail_errno(ctx, errno, "%s: cannot be closed", file->path);
    }
    return VC_OK;
}

/* ---- naming ---- */

/* A second name for the finished file: 0, or an errno. Never replaces anything. An unnamed file is linked through
 * /proc, as open(2) describes for O_TMPFILE. */
static int link_as(struct vc_outfile *file, int folder, const char *name)
{
    char source[64];
    int from, rc;

    if (vc_outfile_injected()) {
        return errno;
    }
    if (file->unnamed) {
        (void)snprintf(source, sizeof source, "/proc/self/fd/%d", file->link_fd);
        rc = linkat(AT_FDCWD, source, folder, name, AT_SYMLINK_FOLLOW);
    } else {
        const char *temporary = temporary_place(file, &from);

        rc = linkat(from, temporary, folder, name, 0);
    }
    return rc == 0 ? 0 : errno;
}

/* Gives an unnamed file a temporary name, which rename needs. */
static int link_temporary(struct vc_outfile *file)
{
    int error = EEXIST;

    (void)vc_temporary_hold(file->link_fd); /* before there is a name that others see */
    for (int tries = 0; error == EEXIST && tries < 100; tries++) {
        file->temporary = vc_temporary_take(file->folder, VC_TEMPORARY_FILE, file->output);
        if (file->temporary < 0) {
            return errno;
        }
        error = link_as(file, file->folder, vc_temporary_name(file->temporary));
        if (error != 0) {
            temporary_drop(file, false);
        }
    }
    if (error == 0) {
        file->unnamed = false;
    }
    return error;
}

/* From the temporary name to that one, over whatever has it: 0, or an errno. */
static int rename_as(struct vc_outfile *file, int folder, const char *name)
{
    int from;
    const char *temporary = temporary_place(file, &from);

    if (vc_outfile_injected() || renameat(from, temporary, folder, name) != 0) {
        return errno;
    }
    temporary_drop(file, false);
    return 0;
}

/* Only names can be renamed, so an unnamed file gets a temporary one first. */
static int rename_over(struct vc_outfile *file)
{
    int error = file->unnamed ? link_temporary(file) : 0;

    return error != 0 ? error : rename_as(file, file->folder, file->base);
}

/* File systems without second names of a file. An unnamed file has no first one, so these never have those. FAT and
 * some network file systems answer so. */
static bool lacks_links(const struct vc_outfile *file, int error)
{
    return !file->unnamed && (error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK);
}

/* The name, as a link where nothing is there, else by a rename over the old file. is_new: nothing had the name before,
 * so that vc_outfile_withdraw may take it away. */
static enum vc_status give_name(struct vc_ctx *ctx, struct vc_outfile *file)
{
    int error = link_as(file, file->folder, file->base);
    struct stat st;

    if (error == 0) {
        temporary_drop(file, true); /* the other name */
        file->named = true;
        file->is_new = true;
        return VC_OK;
    }
    file->is_new = fstatat(file->folder, file->base, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    if (error == EEXIST || lacks_links(file, error)) {
        VC_CALL(vc_outfile_check_target(ctx, file)); /* also where it appeared meanwhile */
        error = rename_over(file);
        file->named = error == 0;
    }
    VC_RETURN_IF(error != 0, vc_fail_errno(ctx, error, "%s: cannot be given its name", file->path));
    return VC_OK;
}

/* A link keeps what is there; a rename would replace it. File systems without links have only the rename. */
enum vc_status vc_outfile_place(struct vc_ctx *ctx, struct vc_outfile *file, int folder, const char *name)
{
    int error = link_as(file, folder, name);

    if (error == 0) {
        temporary_drop(file, true); /* the other name */
    } else if (lacks_links(file, error)) {
        error = rename_as(file, folder, name);
    }
    VC_RETURN_IF(error != 0, vc_fail_errno(ctx, error, "%s: cannot be given its name", file->path));
    if (file->link_fd >= 0) {
        (void)close(file->link_fd); /* it has been synced, and nothing is read */
    }
    file->link_fd = -1;
    file->unnamed = false;
    return VC_OK;
}

/* Placed under that name; temporary_place knows it from now on. `name` has the size of held_as. */
static enum vc_status place_held(struct vc_ctx *ctx, struct vc_outfile *file, int folder, const char *name)
{
    VC_CALL(vc_outfile_place(ctx, file, folder, name));
    file->held_in = folder;
    memcpy(file->held_as, name, sizeof file->held_as);
    return VC_OK;
}

enum vc_status vc_outfile_hold(struct vc_ctx *ctx, struct vc_outfile *file, int folder, unsigned number)
{
    char name[sizeof file->held_as];

    (void)snprintf(name, sizeof name, "%u", number);
    return place_held(ctx, file, folder, name);
}

bool vc_outfile_should_rest(const struct vc_outfile *file)
{
    return file != NULL && !file->to_stdout && vc_descriptors_are_few(file->fd);
}

/* place closes link_fd once the file has the name. */
enum vc_status vc_outfile_rest(struct vc_ctx *ctx, struct vc_outfile *file, int folder, unsigned number)
{
    char name[sizeof file->held_as];

    file->link_fd = file->fd;
    file->fd = -1;
    (void)snprintf(name, sizeof name, ".writing-%u", number);
    return place_held(ctx, file, folder, name);
}

/* All n bytes. A signal while a pipe is full may mean that the user gives up. */
static enum vc_status write_stdout(struct vc_ctx *ctx, const unsigned char *data, size_t n)
{
    while (n != 0) {
        ssize_t done = vc_outfile_injected() ? -1 : write(STDOUT_FILENO, data, n);

        if (done < 0 && errno == EINTR) {
            VC_CALL(vc_check_cancelled(ctx)); /* the reader of a pipe may never come back */
            continue;
        }
        VC_RETURN_IF(done <= 0, vc_fail_errno(ctx, done < 0 ? errno : ENOSPC, "cannot write to standard output"));
        data += done;
        n -= (size_t)done;
    }
    return VC_OK;
}

/* The finished file goes to standard output in pieces. */
static enum vc_status copy_to_stdout(struct vc_ctx *ctx, struct vc_outfile *file)
{
    VC_SCOPED unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, VC_STDOUT_COPY_BYTES);
    off_t at = 0;

    VC_CALL_ALLOC(buffer);
    for (;;) {
        ssize_t n = pread(file->fd, buffer, VC_STDOUT_COPY_BYTES, at);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n == 0 ? VC_OK : vc_fail_errno(ctx, errno, "cannot read the temporary file for standard output");
        }
        VC_CALL(vc_check_cancelled(ctx));
        VC_CALL(write_stdout(ctx, buffer, (size_t)n));
        at += n;
    }
}

/* The folder is synced after the name is given, so that the name is on the disk, too. */
enum vc_status vc_outfile_commit(struct vc_ctx *ctx, struct vc_outfile *file)
{
    if (file == NULL) {
        return VC_OK;
    }
    if (file->to_stdout) {
        return copy_to_stdout(ctx, file);
    }
    if (to_writer(file)) {
        return refused(ctx, file, file->writer.commit == NULL || file->writer.commit(file->writer.user));
    }
    VC_CALL(give_name(ctx, file));
    if (file->folder_syncable && (vc_outfile_injected() || fsync(file->folder) != 0) && errno != EINVAL &&
        errno != EROFS) {
        return vc_fail_errno(ctx, errno, "%s: is complete, but its folder cannot be brought to the disk", file->path);
    }
    return VC_OK;
}

bool vc_outfile_is_named(const struct vc_outfile *file)
{
    return file->named;
}

/* The ONNX writer names two files; when the second one fails, the first must not stay. Device and inode tell whether
 * the file there is still the one that was named. */
void vc_outfile_withdraw(struct vc_outfile *file)
{
    struct stat st;

    if (file->named && file->is_new && fstatat(file->folder, file->base, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_dev == file->device && st.st_ino == file->inode) {
        (void)unlinkat(file->folder, file->base, 0);
        file->named = false;
    }
}

void vc_outfile_free(struct vc_ctx *ctx, struct vc_outfile *file)
{
    if (file == NULL) {
        return;
    }
    temporary_drop(file, true);
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    if (file->link_fd >= 0) {
        (void)close(file->link_fd);
    }
    if (file->folder >= 0 && !file->folder_borrowed) {
        (void)close(file->folder);
    }
    VC_FREE_ALL(ctx, file->target, file->path, file);
}

enum vc_status vc_outfile_replace(struct vc_ctx *ctx, const char *folder, const char *name, const struct vc_text *text)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = vc_alloc(ctx, VC_TAG_NAMES, n);
    struct vc_outfile *file = NULL;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(path);
    (void)snprintf(path, n, "%s/%s", folder, name);
    VC_TRY(vc_outfile_create(ctx, path, true, NULL, &file));
    VC_TRY(vc_outfile_begin(ctx, file));
    VC_TRY(vc_outfile_write(ctx, file, 0, text->data, text->n));
    VC_TRY(vc_outfile_sync(ctx, file));
    VC_TRY(vc_outfile_commit(ctx, file));
out:
    vc_outfile_free(ctx, file);
    vc_free(ctx, path);
    return status;
}
