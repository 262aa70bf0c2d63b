/* outfolder_name.c - what an output folder's name stands for, and whether it may become one.
 *
 * Refusals protect three things: the input (check_input), folders of other programs and of users (check_old), and names
 * that are no folder. They are asked before the work, and again at commit, because hours may lie between. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <strings.h>

#include "core/base/real_path.h"
#include "formats/io/infile.h"
#include "formats/io/outfolder_internal.h"

/* A file that we write folders of; a pipeline has its weights in folders below. */
static bool is_weights(const char *name)
{
    const char *dot = strrchr(name, '.');

    return strcmp(name, "model_index.json") == 0 ||
           (dot != NULL && (strcasecmp(dot, ".safetensors") == 0 || strcasecmp(dot, ".gguf") == 0));
}

/* The path is the name of a file of that format, or a stream. */
static bool names_file(const char *path, const char *extension)
{
    size_t n = strlen(path);
    size_t k = strlen(extension);

    return vc_is_stream(path) || (n > k && strcasecmp(path + n - k, extension) == 0);
}

/* The output's name says most: a file's name means one file, whatever the source was. */
enum vc_status vc_outfolder_choose(struct vc_ctx *ctx, const struct vc_write_options *options, const char *extension,
                                   bool from_several, size_t n_files, bool *in_folder)
{
    bool to_file = options->path != NULL && names_file(options->path, extension);

    *in_folder = (from_several || options->max_shard_bytes != 0) && !to_file;
    VC_REFUSE_IF(to_file && options->max_shard_bytes != 0, ctx, VC_E_ARGUMENT,
                 "%s: names a file, but %s makes a folder of them", options->path, vc_option(ctx, "max_shard_bytes"));
    VC_REFUSE_IF(options->n_shards != 0 && (!*in_folder || n_files < 2), ctx, VC_E_ARGUMENT,
                 "%s divides the files of a checkpoint in a folder; this one has one file", vc_option(ctx, "shard"));
    VC_REFUSE_IF(options->n_shards != 0 && options->max_shard_bytes != 0, ctx, VC_E_ARGUMENT,
                 "%s keeps the files as they are divided; leave %s out", vc_option(ctx, "shard"),
                 vc_option(ctx, "max_shard_bytes"));
    return VC_OK;
}

/* The folder that the output's folder lies in, which stays open: all further names are relative to it. */
static enum vc_status open_parent(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    size_t n = (size_t)(folder->base - folder->path);

    VC_CALL_ALLOC(folder->parent_name = vc_alloc(ctx, VC_TAG_NAMES, n + 2));
    memcpy(folder->parent_name, folder->path, n);
    memcpy(folder->parent_name + n, n == 0 ? "." : "", n == 0 ? 2 : 1);
    folder->parent = open(folder->parent_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->parent < 0) {
        return vc_fail_errno(ctx, errno, "%s: cannot use the folder %s", folder->path, folder->parent_name);
    }
    return VC_OK;
}

/* path is the folder or lies in it; both are real paths. */
static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0' || folder[n - 1] == '/');
}

/* The folder of an input that is one, with links resolved, also where its index was given. *found false: the input is a
 * single file, or in memory. */
static enum vc_status find_input(struct vc_ctx *ctx, const struct vc_model *input, char real[PATH_MAX], bool *found)
{
    char path[PATH_MAX];
    struct stat st;

    *found = false;
    if (input == NULL || input->path == NULL || input->input != NULL) {
        return VC_OK;
    }
    if (stat(input->path, &st) != 0) {
        return vc_is_absence(errno) ? VC_OK : vc_fail_errno(ctx, errno, "%s: cannot be looked at", input->path);
    }
    size_t n = strlen(input->path);
    if (S_ISDIR(st.st_mode) || n >= sizeof path) {
        return vc_real_path(ctx, input->path, real, found);
    }
    memcpy(path, input->path, n + 1);
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        slash[1] = '\0';
    }
    return vc_real_path(ctx, slash != NULL ? path : ".", real, found);
}

struct holding {
    struct vc_ctx *ctx;
    const char *target;
    enum vc_status *status;
};

/* A file that is read lies, links followed, in the folder that is there; or that cannot be known. */
static bool holds(const char *path, const void *user)
{
    const struct holding *h = user;
    char real[PATH_MAX];
    bool there;

    *h->status = vc_real_path(h->ctx, path, real, &there);
    return *h->status != VC_OK || (there && is_below(real, h->target));
}

/* An output in the folder of the input, or around one of its files, would change the input. Real paths on both sides:
 * links and ".." are resolved. Kept files are all that any model of this context reads. */
static enum vc_status check_input(struct vc_ctx *ctx, const struct vc_outfolder *folder)
{
    const struct vc_model *input = folder->input;
    enum vc_status status = VC_OK;
    bool from_folder, there;
    char source[PATH_MAX], target[PATH_MAX];
    const struct holding holding = {ctx, target, &status};

    VC_CALL(find_input(ctx, input, source, &from_folder));
    VC_CALL(vc_real_path(ctx, folder->path, target, &there));
    if (there) {
        bool held = (from_folder && is_below(source, target)) || vc_any_kept(ctx, holds, &holding);

        VC_CALL(status);
        VC_REFUSE_IF(held, ctx, VC_E_ARGUMENT, "%s: holds the input, which is never overwritten", folder->path);
    }
    VC_CALL(vc_real_path(ctx, folder->parent_name, target, &there));
    VC_REFUSE_IF(from_folder && there && is_below(target, source), ctx, VC_E_ARGUMENT,
                 "%s: lies in the folder of the input, which is never changed", folder->path);
    return VC_OK;
}

/* What lies in a folder that may have to go. */
struct content {
    bool any, weights, repository;
    bool ours; /* by its mark, or by metadata of a version that wrote no marks */
};

/* Fills *content from the names in the folder, and its mark. */
static enum vc_status look_inside(struct vc_ctx *ctx, const struct vc_outfolder *folder, struct content *content)
{
    DIR *dir = opendir(folder->path);
    struct vc_outfolder_mark mark;
    struct dirent *entry;

    *content = (struct content){.any = false};
    VC_RETURN_IF(dir == NULL, vc_fail_errno(ctx, errno, "%s: cannot look into this folder", folder->path));
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            content->any = true;
            content->weights = content->weights || is_weights(entry->d_name);
            content->repository = content->repository || strcmp(entry->d_name, ".git") == 0;
        }
    }
    enum vc_status status = vc_outfolder_mark_read(ctx, dirfd(dir), &mark);
    content->ours = mark.there;
    if (status == VC_OK && !content->ours) {
        status = vc_outfolder_is_older(ctx, dirfd(dir), &content->ours);
    }
    vc_outfolder_mark_release(ctx, &mark);
    (void)closedir(dir);
    return status;
}

/* Whatever is in a folder goes when it is replaced, so only an earlier output is, or what looks like one if asked for.
 * A Git repository is refused first: it is never an output of ours. */
static enum vc_status check_old(struct vc_ctx *ctx, const struct vc_outfolder *folder)
{
    struct content content;

    VC_CALL(look_inside(ctx, folder, &content));
    VC_REFUSE_IF(content.repository && !folder->shared, ctx, VC_E_ARGUMENT,
                 "%s: is a Git repository; it is not replaced, not even with %s", folder->path,
                 vc_option(ctx, "force"));
    if (!content.any || content.ours) {
        return VC_OK;
    }
    VC_REFUSE_IF(!content.weights && !folder->shared, ctx, VC_E_ARGUMENT,
                 "%s: is a folder without safetensors or GGUF files; it is not replaced, not even with %s",
                 folder->path, vc_option(ctx, "force"));
    VC_REFUSE_IF(!folder->foreign, ctx, VC_E_ARGUMENT,
                 "%s: was not written by vcompress (it has no " VC_FOLDER_MARK
                 "); %s replaces an older output only, %s also a model's folder of another program",
                 folder->path, vc_option(ctx, "force"), vc_option(ctx, "force_foreign"));
    return VC_OK;
}

/* Called before the work and again at commit. */
enum vc_status vc_outfolder_check_place(struct vc_ctx *ctx, const struct vc_outfolder *folder)
{
    struct stat st;

    VC_CALL(check_input(ctx, folder));
    if (lstat(folder->path, &st) != 0) {
        return errno == ENOENT ? VC_OK : vc_fail_errno(ctx, errno, "%s: cannot be the output", folder->path);
    }
    VC_REFUSE_IF(S_ISLNK(st.st_mode), ctx, VC_E_ARGUMENT, "%s: is a link; name the folder itself", folder->path);
    VC_REFUSE_IF(!S_ISDIR(st.st_mode), ctx, VC_E_ARGUMENT, "%s: is a file, but the output is a folder", folder->path);
    if (folder->shared && !folder->force) {
        return VC_OK;
    }
    VC_REFUSE_IF(!folder->force, ctx, VC_E_ARGUMENT, "%s: exists already and is replaced only with %s", folder->path,
                 vc_option(ctx, "force"));
    return check_old(ctx, folder);
}

/* Cuts slashes at the end and finds the last part of the path. */
static enum vc_status split(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    size_t n = strlen(folder->path);

    while (n > 1 && folder->path[n - 1] == '/') {
        folder->path[--n] = '\0';
    }
    const char *slash = strrchr(folder->path, '/');
    folder->base = slash == NULL ? folder->path : slash + 1;
    VC_REFUSE_IF(folder->base[0] == '\0' || strcmp(folder->base, ".") == 0 || strcmp(folder->base, "..") == 0, ctx,
                 VC_E_ARGUMENT, "%s: is no name for a new folder", n == 0 ? "the output" : folder->path);
    return VC_OK;
}

/* A parent that does not exist is refused, and not made. */
enum vc_status vc_outfolder_resolve(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    VC_CALL(split(ctx, folder));
    VC_CALL(open_parent(ctx, folder));
    return vc_outfolder_check_place(ctx, folder);
}

const char *vc_outfolder_whole_name(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name)
{
    return vc_arena_printf(ctx, &folder->arena, "%s/%s", folder->path, name);
}
