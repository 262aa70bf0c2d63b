/* infile.c - opens an input file, reads it by range; unnamed temporary files.
 *
 * Sentences made here do not name the file: vc_model_open and the readers put the path in front.
 *
 * An infile is one of four things, and all readers see them alike: a file (fd, or a path that is opened again for each
 * read where descriptors are few), a copy of standard input without a name, bytes of the pool, bytes or a callback of
 * the program. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "formats/io/infile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define VC_COPY_BYTES ((size_t)256 << 10) /* of standard input at a time */

static atomic_uint_fast64_t n_calls, failing_call;

void vc_infile_fail_at(uint64_t n)
{
    atomic_store(&failing_call, n == 0 ? 0 : atomic_load(&n_calls) + n);
}

uint64_t vc_infile_call_count(void)
{
    return atomic_load(&n_calls);
}

/* For tests, as vc_outfile_injected: counts calls that read or look, and is asked before each. True sets errno to EIO,
 * and the caller acts as if the call had failed. */
static bool injected(void)
{
    uint64_t n = atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed) + 1;

    if (n != atomic_load_explicit(&failing_call, memory_order_relaxed)) {
        return false;
    }
    errno = EIO;
    return true;
}

/* Where temporary files go. */
static const char *temp_folder(void)
{
    const char *folder = getenv("TMPDIR");

    return folder != NULL && folder[0] != '\0' ? folder : "/tmp";
}

/* Unnamed where the file system can do that; elsewhere a name for a moment, so a process that is killed leaves nothing.
 * Returns a descriptor, or -1 with the error set. */
int vc_tempfile_open(struct vc_ctx *ctx)
{
    const char *folder = temp_folder();
    char name[PATH_MAX];
    int fd = -1;
    int n;

#ifdef O_TMPFILE
    fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) {
        return fd;
    }
#endif
    /* File systems without O_TMPFILE: a name for a moment. */
    n = snprintf(name, sizeof name, "%s/vcompress-XXXXXX", folder);
    if (n > 0 && (size_t)n < sizeof name) {
        fd = mkstemp(name);
    } else {
        errno = ENAMETOOLONG;
    }
    if (fd < 0) {
        vc_fail_errno(ctx, errno, "cannot make a temporary file in %s (TMPDIR)", folder);
        return -1;
    }
    unlink(name);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

/* write may take less than it was given; it is repeated until all is written. */
static enum vc_status write_all(struct vc_ctx *ctx, int fd, const unsigned char *data, size_t n)
{
    while (n > 0) {
        ssize_t got = write(fd, data, n);

        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            return vc_fail_errno(ctx, errno, "cannot write to the temporary file in %s (TMPDIR)", temp_folder());
        }
        data += got;
        n -= (size_t)got;
    }
    return VC_OK;
}

/* Reads until there are n bytes, or the end: *got tells. */
static enum vc_status read_stdin(struct vc_ctx *ctx, unsigned char *buffer, size_t n, size_t *got)
{
    *got = 0;
    while (*got < n) {
        ssize_t piece = read(STDIN_FILENO, buffer + *got, n - *got);

        VC_CALL(vc_check_cancelled(ctx));
        if (piece < 0 && errno == EINTR) {
            continue;
        }
        VC_RETURN_IF(piece < 0, vc_fail_errno(ctx, errno, "cannot read"));
        if (piece == 0) {
            break;
        }
        *got += (size_t)piece;
    }
    return VC_OK;
}

/* More has come of the stream. Once its end is known, nothing may follow. find_end may ask for more bytes first
 * (end->need), so it is called again as they come. */
static enum vc_status check_end(struct vc_ctx *ctx, const struct vc_infile *so_far, const struct vc_stream *stream,
                                struct vc_stream_end *end)
{
    if (stream->find_end != NULL && end->end == 0 && so_far->size_bytes >= end->need) {
        VC_CALL(stream->find_end(ctx, so_far, end));
    }
    VC_REFUSE_IF(end->end != 0 && so_far->size_bytes > end->end, ctx, VC_E_FORMAT,
                 "goes on after the %" PRIu64 " bytes that its headers tell of", end->end);
    return VC_OK;
}

/* A pipe cannot be read by range, so all of it goes to a temporary file first; but not what nobody can read, or what
 * goes on where it should end: that may have no end (/dev/zero).
 *
 *     512 bytes -> look: which format -> written; then 256 KiB at a time -> written -> check_end; ...
 *
 * A stream shorter than 512 bytes is not looked at before it is copied: it ends by itself. */
static enum vc_status copy_stdin(struct vc_ctx *ctx, int to, struct vc_stream *stream)
{
    VC_SCOPED unsigned char *buffer = vc_alloc(ctx, VC_TAG_IO, VC_COPY_BYTES);
    struct vc_infile so_far = {.fd = to, .path = "-"};
    struct vc_stream_end end = {.need = 0};
    size_t n = 0;

    VC_CALL_ALLOC(buffer);
    VC_CALL(read_stdin(ctx, buffer, VC_HEAD_BYTES, &n));
    if (n == VC_HEAD_BYTES) {
        VC_CALL(stream->look(ctx, stream, buffer, n));
    }
    while (n != 0) {
        VC_CALL(write_all(ctx, to, buffer, n));
        so_far.size_bytes += n;
        VC_CALL(check_end(ctx, &so_far, stream, &end));
        VC_CALL(read_stdin(ctx, buffer, VC_COPY_BYTES, &n));
    }
    return VC_OK;
}

/* Standard input that is a file, from its start, needs no copy. *fd is a descriptor of its own in both cases, 3 or
 * higher, so that closing it leaves standard input open. */
static enum vc_status open_stdin(struct vc_ctx *ctx, struct vc_stream *stream, int *fd)
{
    struct stat st;

    VC_RETURN_IF(fstat(STDIN_FILENO, &st) != 0, vc_fail_errno(ctx, errno, "cannot read"));
    if (S_ISREG(st.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
        *fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        return *fd < 0 ? vc_fail_errno(ctx, errno, "cannot read") : VC_OK;
    }
    VC_REFUSE_IF(S_ISDIR(st.st_mode), ctx, VC_E_UNSUPPORTED, "is a folder, not a checkpoint file");
    *fd = vc_tempfile_open(ctx);
    if (*fd < 0) {
        return VC_E_IO;
    }
    enum vc_status status = copy_stdin(ctx, *fd, stream);
    if (status != VC_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

/* Folders, pipes and devices are refused by name; a checkpoint of 0 bytes is, too. */
static enum vc_status check_kind(struct vc_ctx *ctx, const struct stat *st)
{
    VC_REFUSE_IF(S_ISDIR(st->st_mode), ctx, VC_E_UNSUPPORTED, "is a folder, not a checkpoint file");
    VC_REFUSE_IF(!S_ISREG(st->st_mode), ctx, VC_E_UNSUPPORTED,
                 "is a %s, not a file (a pipe is read with '-' as the input)",
                 S_ISFIFO(st->st_mode) ? "pipe" : (S_ISSOCK(st->st_mode) ? "socket" : "device"));
    VC_REFUSE_IF(st->st_size <= 0, ctx, VC_E_FORMAT, "is empty (0 bytes)");
    return VC_OK;
}

/* Device, inode, size and time are remembered: they tell later whether the file is still the same, and whether an
 * output would be the input (core's list of kept files). */
enum vc_status vc_infile_adopt(struct vc_ctx *ctx, int fd, const struct stat *st, const char *path,
                               struct vc_infile **out)
{
    struct vc_infile *file = vc_alloc(ctx, VC_TAG_MISC, sizeof *file);

    *out = file;
    if (file == NULL) {
        (void)close(fd);
        return VC_E_NOMEM;
    }
    *file = (struct vc_infile){.fd = fd,
                               .size_bytes = (uint64_t)st->st_size,
                               .kept = {.device = st->st_dev, .inode = st->st_ino, .path = path},
                               .modified = st->st_mtim,
                               .path = path,
                               .elsewhere = vc_virtual_find(st)};
    vc_kept_add(ctx, &file->kept);
    if (file->elsewhere != NULL) {
        (void)close(fd);
        file->fd = -1;
    }
    return VC_OK;
}

enum vc_status vc_infile_of_bytes(struct vc_ctx *ctx, unsigned char *bytes, uint64_t n, const char *path,
                                  struct vc_infile **out)
{
    struct vc_infile *file = vc_alloc(ctx, VC_TAG_MISC, sizeof *file);

    *out = file;
    if (file == NULL) {
        vc_free(ctx, bytes);
        return VC_E_NOMEM;
    }
    *file = (struct vc_infile){.fd = -1, .size_bytes = n, .path = path, .bytes = bytes};
    return VC_OK;
}

enum vc_status vc_infile_of_reader(struct vc_ctx *ctx, const struct vc_reader *reader, const char *path,
                                   struct vc_infile **out)
{
    *out = NULL;
    VC_REFUSE_IF(reader->size_bytes == 0 || (reader->bytes == NULL && reader->read == NULL), ctx, VC_E_FORMAT,
                 "is empty (0 bytes)");
    VC_CALL_ALLOC(*out = vc_alloc(ctx, VC_TAG_MISC, sizeof **out));
    **out = (struct vc_infile){.fd = -1, .size_bytes = reader->size_bytes, .path = path, .reader = *reader};
    return VC_OK;
}

/* Neither bytes of the pool nor of the program. */
static bool is_file(const struct vc_infile *file)
{
    return file->bytes == NULL && file->reader.size_bytes == 0;
}

/* The open file becomes an input, or is closed. Where descriptors are few, the file is closed again at once, and opened
 * for each read (take_fd). */
static enum vc_status adopt(struct vc_ctx *ctx, int fd, const char *path, struct vc_infile **out)
{
    struct stat st;
    enum vc_status status = VC_OK;

    if (fstat(fd, &st) != 0) {
        status = vc_fail_errno(ctx, errno, "cannot read its size");
        goto out;
    }
    VC_TRY(check_kind(ctx, &st));
    status = vc_infile_adopt(ctx, fd, &st, path, out);
    if (status == VC_OK && (*out)->fd >= 0 && strcmp(path, "-") != 0 && vc_descriptors_are_few(fd)) {
        (void)close(fd);
        (*out)->fd = -1;
    }
    return status;
out:
    close(fd);
    return status;
}

/* "hf://Qwen/Qwen3-0.6B", "https://host/m.npz", or "Qwen/Qwen3-0.6B" where there is no folder Qwen: what hubs call
 * models. Two parts and no folder of the first one's name; "./a/b", "~/m" and "/abs" are paths. */
static bool is_remote(const char *path)
{
    const char *scheme = strstr(path, ":/");
    const char *slash = strchr(path, '/');
    char folder[NAME_MAX + 1];

    if (scheme != NULL && scheme[2] == '/') {
        return true;
    }
    if (slash == NULL || slash == path || path[0] == '.' || path[0] == '~' || strchr(slash + 1, '/') != NULL ||
        (size_t)(slash - path) > NAME_MAX) {
        return false;
    }
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return access(folder, F_OK) != 0;
}

/* O_NONBLOCK keeps the open of a pipe without a writer from waiting for ever; check_kind refuses the pipe then. */
enum vc_status vc_infile_open(struct vc_ctx *ctx, const char *path, struct vc_infile **out)
{
    char real[PATH_MAX];
    int fd = open(vc_mount_path(path, real), O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    *out = NULL;
    VC_REFUSE_IF(
        fd < 0 && errno == ENOENT && is_remote(path), ctx, VC_E_IO,
        "cannot open: No such file or directory (hf:OWNER/NAME is read by inspect, fit, estimate, plan and graph, and "
        "where that is asked for by what writes models; others need the model on a disk)");
    return fd < 0 ? vc_fail_errno(ctx, errno, "cannot open") : adopt(ctx, fd, path, out);
}

enum vc_status vc_infile_open_stdin(struct vc_ctx *ctx, struct vc_stream *stream, struct vc_infile **out)
{
    int fd = -1;

    *out = NULL;
    VC_CALL(open_stdin(ctx, stream, &fd));
    return adopt(ctx, fd, "-", out);
}

/* More than half of the descriptors that the process may have are in use, if the kernel gives the lowest free one. */
bool vc_descriptors_are_few(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (rlim_t)fd >= limit.rlim_cur / 2;
}

/* The file's own descriptor, or a new one of the same file: release_fd closes that. -1 with the error set. Another file
 * that has the name by now is refused. */
static int take_fd(struct vc_ctx *ctx, const struct vc_infile *file)
{
    struct stat st;
    int fd;

    if (file->fd >= 0) {
        return file->fd;
    }
    fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        (void)vc_fail_errno(ctx, errno, "cannot open again");
        return -1;
    }
    if (fstat(fd, &st) != 0 || st.st_dev != file->kept.device || st.st_ino != file->kept.inode ||
        (uint64_t)st.st_size != file->size_bytes) {
        (void)vc_fail(ctx, VC_E_FORMAT, "was changed while it was read");
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void release_fd(const struct vc_infile *file, int fd)
{
    if (fd != file->fd) {
        (void)close(fd);
    }
}

/* Of the open file: what its name stands for by now does not matter, but where it is opened again, and a copy of
 * standard input has no other writer. Size and time have to be those of the opening. */
enum vc_status vc_infile_check(struct vc_ctx *ctx, const struct vc_infile *file)
{
    struct stat st;
    enum vc_status status = VC_OK;

    if (!is_file(file) || file->elsewhere != NULL) { /* each answer from there was compared with the first one */
        return VC_OK;
    }
    int fd = take_fd(ctx, file);
    if (fd < 0) {
        return ctx->status;
    }
    if (injected() || fstat(fd, &st) != 0) {
        status = vc_fail_errno(ctx, errno, "cannot read its size");
    } else if ((uint64_t)st.st_size != file->size_bytes || st.st_mtim.tv_sec != file->modified.tv_sec ||
               st.st_mtim.tv_nsec != file->modified.tv_nsec) {
        status = vc_fail(ctx, VC_E_FORMAT, "was changed while it was read");
    }
    release_fd(file, fd);
    return status;
}

enum vc_status vc_infile_open_other(struct vc_ctx *ctx, const char *path, const char *by, struct vc_infile **out)
{
    char real[PATH_MAX];

    if (access(vc_mount_path(path, real), F_OK) != 0 && (errno == ENOENT || errno == ENAMETOOLONG)) {
        *out = NULL;
        return vc_fail(ctx, VC_E_FORMAT, "is not there, but %s names it", by);
    }
    return vc_infile_open(ctx, path, out);
}

void vc_infile_close(struct vc_ctx *ctx, struct vc_infile *file)
{
    if (file != NULL) {
        if (file->fd >= 0) {
            (void)close(file->fd);
        }
        if (is_file(file)) {
            vc_kept_drop(ctx, &file->kept);
        }
        VC_FREE_ALL(ctx, file->bytes, file);
    }
}

/* pread may give less than was asked for, and may be interrupted: it is repeated until all is there. */
enum vc_status vc_infile_read(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t offset, void *dst, size_t n)
{
    unsigned char *to = dst;
    enum vc_status status = VC_OK;

    VC_REFUSE_IF(offset > file->size_bytes || n > file->size_bytes - offset, ctx, VC_E_FORMAT,
                 "%zu bytes are needed at offset %" PRIu64 ", but the file ends at %" PRIu64, n, offset,
                 file->size_bytes);
    if (file->bytes != NULL || file->reader.bytes != NULL) {
        memcpy(dst, (file->bytes != NULL ? file->bytes : (const unsigned char *)file->reader.bytes) + offset, n);
        return VC_OK;
    }
    if (file->reader.read != NULL) {
        return n == 0 || file->reader.read(file->reader.user, offset, dst, n)
                   ? VC_OK
                   : vc_fail(ctx, VC_E_IO, "the program does not give %zu bytes at offset %" PRIu64, n, offset);
    }
    if (file->elsewhere != NULL) {
        return n == 0 ? VC_OK : file->elsewhere->read(ctx, file->elsewhere, offset, dst, n);
    }
    int fd = take_fd(ctx, file);
    if (fd < 0) {
        return ctx->status;
    }
    while (n > 0) {
        ssize_t got = injected() ? -1 : pread(fd, to, n, (off_t)offset);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            status = vc_fail_errno(ctx, errno, "cannot read %zu bytes at offset %" PRIu64, n, offset);
            break;
        }
        if (got == 0) {
            status = vc_fail(ctx, VC_E_FORMAT,
                             "ends at offset %" PRIu64 " now, but had %" PRIu64 " bytes when it was opened", offset,
                             file->size_bytes);
            break;
        }
        to += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    release_fd(file, fd);
    return status;
}

enum vc_status vc_infile_text(struct vc_ctx *ctx, const struct vc_infile *file, uint64_t most, char **text)
{
    VC_SCOPED char *own = NULL;

    *text = NULL;
    VC_REFUSE_IF(file->size_bytes > most, ctx, VC_E_FORMAT,
                 "is too large: %" PRIu64 " bytes; of such a file up to %" PRIu64 " are read", file->size_bytes, most);
    VC_CALL_ALLOC(own = vc_alloc(ctx, VC_TAG_IO, (size_t)file->size_bytes + 1));
    VC_CALL(vc_infile_read(ctx, file, 0, own, (size_t)file->size_bytes));
    own[file->size_bytes] = '\0';
    *text = vc_give(&own);
    return VC_OK;
}

/* A hint for the kernel; where it is ignored nothing changes. */
void vc_infile_ahead(const struct vc_infile *file, uint64_t offset, uint64_t n)
{
#ifdef POSIX_FADV_WILLNEED
    if (file->fd >= 0 && offset < file->size_bytes && n != 0) { /* a length of 0 would be all that follows */
        (void)posix_fadvise(file->fd, (off_t)offset, (off_t)n, POSIX_FADV_WILLNEED);
    }
#else
#endif
}
