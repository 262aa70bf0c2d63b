/* outfile_name.c - what an output's name stands for, and whether it may become one. */
#define _GNU_SOURCE /* O_PATH */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/text/text.h"
#include "formats/io/infile.h"
#include "formats/io/outfile_internal.h"

#define VC_MAX_LINKS 40 /* as the kernel */

/* What is read, or what the model was made of that its reader keeps open no more. Compared by device and inode: a
 * second name of the input is the input. */
bool vc_outfile_is_input(struct vc_ctx *ctx, const struct vc_outfile *file, const struct stat *st)
{
    struct stat source;

    return vc_is_kept(ctx, st) ||
           (file->input != NULL && file->input->path != NULL && stat(file->input->path, &source) == 0 &&
            source.st_dev == st->st_dev && source.st_ino == st->st_ino);
}

/* Replaces *path, a symbolic link, by what it points to; a relative target counts from the link's folder. *path belongs
 * to the pool, before and after. */
static enum vc_status follow_link(struct vc_ctx *ctx, const struct vc_outfile *file, char **path)
{
    char link[PATH_MAX];
    size_t n_folder = (size_t)(vc_base_name(*path) - *path);
    ssize_t n = readlink(*path, link, sizeof link);

    VC_RETURN_IF(n < 0, vc_fail_errno(ctx, errno, "%s: cannot read this link", file->path));
    VC_RETURN_IF((size_t)n >= sizeof link, vc_fail_errno(ctx, ENAMETOOLONG, "%s: cannot follow this link", file->path));
    n_folder = n > 0 && link[0] == '/' ? 0 : n_folder;
    char *next = vc_alloc(ctx, VC_TAG_NAMES, n_folder + (size_t)n + 1);
    VC_CALL_ALLOC(next);
    memcpy(next, *path, n_folder);
    memcpy(next + n_folder, link, (size_t)n);
    next[n_folder + (size_t)n] = '\0';
    vc_free(ctx, *path);
    *path = next;
    return VC_OK;
}

/* file->target becomes the file behind all links, so that a link to an output stays one. The file behind need not
 * exist. */
static enum vc_status resolve_links(struct vc_ctx *ctx, struct vc_outfile *file)
{
    struct stat st;
    int n = 0;

    while (lstat(file->target, &st) == 0 && S_ISLNK(st.st_mode)) {
        VC_RETURN_IF(++n > VC_MAX_LINKS, vc_fail_errno(ctx, ELOOP, "%s: cannot follow this link", file->path));
        VC_CALL(follow_link(ctx, file, &file->target));
    }
    return VC_OK;
}

/* The folder of the target. One that may be entered and not read can hold the output, but cannot be synced. */
static enum vc_status open_folder(struct vc_ctx *ctx, struct vc_outfile *file)
{
    size_t n = (size_t)(file->base - file->target);
    VC_SCOPED char *name = vc_alloc(ctx, VC_TAG_NAMES, n + 2);

    VC_CALL_ALLOC(name);
    memcpy(name, file->target, n);
    memcpy(name + n, n == 0 ? "." : "", n == 0 ? 2 : 1);
    file->folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    file->folder_syncable = file->folder >= 0;
#ifdef O_PATH
    if (file->folder < 0 && errno == EACCES) {
        file->folder = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
#endif
    VC_RETURN_IF(file->folder < 0, vc_fail_errno(ctx, errno, "%s: cannot use the folder %s", file->path, name));
    return VC_OK;
}

/* What is there is no file. */
static enum vc_status refuse_kind(struct vc_ctx *ctx, const struct vc_outfile *file, mode_t mode)
{
    VC_REFUSE_IF(S_ISDIR(mode), ctx, VC_E_ARGUMENT, "%s: is a folder, not a name for the output", file->path);
    return vc_fail(ctx, VC_E_ARGUMENT, "%s: is a %s, and only files are written ('-' writes to standard output)",
                   file->path,
                   S_ISFIFO(mode)   ? "pipe"
                   : S_ISSOCK(mode) ? "socket"
                                    : "device");
}

/* Called before the work and again when the name is given: somebody may have put a file there in between. */
enum vc_status vc_outfile_check_target(struct vc_ctx *ctx, const struct vc_outfile *file)
{
    struct stat st;

    if (fstatat(file->folder, file->base, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? VC_OK : vc_fail_errno(ctx, errno, "%s: cannot be the output", file->path);
    }
    VC_REFUSE_IF(S_ISLNK(st.st_mode), ctx, VC_E_IO, "%s: has become a link", file->path);
    VC_RETURN_IF(!S_ISREG(st.st_mode), refuse_kind(ctx, file, st.st_mode));
    VC_REFUSE_IF(vc_outfile_is_input(ctx, file, &st), ctx, VC_E_ARGUMENT,
                 "%s: is the input itself, which is never overwritten", file->path);
    VC_REFUSE_IF(!file->force, ctx, VC_E_ARGUMENT, "%s: exists already and is replaced only with %s", file->path,
                 vc_option(ctx, "force"));
    return VC_OK;
}

/* Names for streams that are open already, whatever they lead to. */
static bool is_stream(const char *path)
{
    return strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
}

/* Name, links, folder, what is there: in this order, each with a sentence of its own. */
enum vc_status vc_outfile_resolve(struct vc_ctx *ctx, struct vc_outfile *file)
{
    size_t n = strlen(file->path);

    VC_REFUSE_IF(n == 0, ctx, VC_E_ARGUMENT, "the name of the output is empty");
    VC_REFUSE_IF(is_stream(file->path), ctx, VC_E_ARGUMENT,
                 "%s: is a stream, and only files are written; '-' writes to standard output", file->path);
    VC_CALL_ALLOC(file->target = vc_strdup(ctx, VC_TAG_NAMES, file->path));
    VC_CALL(resolve_links(ctx, file));
    file->base = vc_base_name(file->target);
    file->output = file->base;
    VC_REFUSE_IF(file->base[0] == '\0', ctx, VC_E_ARGUMENT, "%s: ends in '/', so it names a folder, not a file",
                 file->path);
    VC_RETURN_IF(strcmp(file->base, ".") == 0 || strcmp(file->base, "..") == 0, refuse_kind(ctx, file, S_IFDIR));
    VC_CALL(open_folder(ctx, file));
    return vc_outfile_check_target(ctx, file);
}
