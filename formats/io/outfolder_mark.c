/* outfolder_mark.c - the mark of an output folder: the program wrote this folder, and these are its files.
 *
 *     out/.vcompress.json     {"schema": "vcompress.folder/1", "tool": "vcompress 0.1.0", "files": [
 *                             "config.json",
 *                             "model.safetensors"
 *                             ]}
 *
 * One file per line, sorted, as JSON strings. Loaders and readers of model folders skip hidden files. The mark decides
 * what `force` replaces: files that it lists, and nothing else. Names are compared in their written form, so that nothing
 * of a mark is decoded. A mark that cannot be read is no mark. */
#define _GNU_SOURCE /* memmem */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/array.h"
#include "formats/io/outfile_internal.h"
#include "formats/io/outfolder_internal.h"

#define MARK_BEGIN     "{\"schema\": \"vcompress.folder/"
#define MARK_MAX_BYTES ((off_t)16 << 20)
#define HEAD_BYTES     ((size_t)64 << 10)

/* ---- reading ---- */

/* pread that a signal does not end. */
static ssize_t read_at(int fd, char *buffer, size_t n, off_t at)
{
    ssize_t got;

    do {
        got = pread(fd, buffer, n, at);
    } while (got < 0 && errno == EINTR);
    return got;
}

/* The text of the mark in the folder; "": it has none. A link, a device or a file of more than MARK_MAX_BYTES is
 * none. */
static enum vc_status read_text(struct vc_ctx *ctx, int folder, struct vc_text *text)
{
    int fd = openat(folder, VC_FOLDER_MARK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char buffer[4096];
    struct stat st;
    ssize_t n = 0;
    int error = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= MARK_MAX_BYTES) {
        for (off_t at = 0; at <= MARK_MAX_BYTES && text->status == VC_OK; at += n) {
            n = read_at(fd, buffer, sizeof buffer, at);
            if (n <= 0) {
                break;
            }
            vc_text_add_bytes(text, buffer, (size_t)n);
        }
        error = n < 0 ? errno : 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    VC_RETURN_IF(error != 0, vc_fail_errno(ctx, error, "%s: cannot be read", VC_FOLDER_MARK));
    return text->status;
}

/* Cuts the text into the lines of the files. Lines that begin with a quote, without the comma behind them; they point
 * into mark->text. */
static enum vc_status list_files(struct vc_ctx *ctx, struct vc_outfolder_mark *mark)
{
    size_t capacity = 0;
    char *line = mark->text.data;

    for (char *end = strchr(line, '\n'); end != NULL; end = strchr(line, '\n')) {
        *end = '\0';
        if (end > line && end[-1] == ',') {
            end[-1] = '\0';
        }
        if (line[0] == '"') {
            VC_CALL(VC_GROW(ctx, VC_TAG_NAMES, mark->files, capacity, mark->n + 1));
            mark->files[mark->n++] = line;
        }
        line = end + 1;
    }
    if (mark->n > 1) {
        qsort(mark->files, mark->n, sizeof *mark->files, vc_compare_texts);
    }
    return VC_OK;
}

/* Any version of the schema counts: the list of files has one form. */
enum vc_status vc_outfolder_mark_read(struct vc_ctx *ctx, int folder, struct vc_outfolder_mark *mark)
{
    *mark = (struct vc_outfolder_mark){.there = false};
    vc_text_init(&mark->text, ctx);
    VC_CALL(read_text(ctx, folder, &mark->text));
    mark->there = mark->text.n != 0 && strncmp(mark->text.data, MARK_BEGIN, sizeof MARK_BEGIN - 1) == 0;
    return mark->there ? list_files(ctx, mark) : VC_OK;
}

void vc_outfolder_mark_release(struct vc_ctx *ctx, struct vc_outfolder_mark *mark)
{
    vc_text_release(&mark->text);
    vc_free(ctx, vc_give(&mark->files));
}

/* path becomes its written form, "\"unet/config.json\"". For a folder the quote at the end is cut, so that it is the
 * beginning of its files' forms. */
enum vc_status vc_outfolder_mark_lists(struct vc_ctx *ctx, const struct vc_outfolder_mark *mark, const char *path,
                                       bool *lists)
{
    bool is_folder = vc_ends_in(path, "/");
    VC_SCOPED_TEXT struct vc_text name = {.ctx = ctx};
    size_t at;

    vc_text_add_json_string(&name, path);
    VC_CALL(name.status);
    name.data[name.n - 1] = is_folder ? '\0' : '"'; /* a folder: what files in it begin with */
    VC_BISECT(at, mark->n, k, strcmp(mark->files[k], name.data) < 0);
    *lists = at < mark->n && (is_folder ? strncmp(mark->files[at], name.data, name.n - 1) == 0
                                        : strcmp(mark->files[at], name.data) == 0);
    return VC_OK;
}

/* ---- folders of before ---- */

/* The header of a safetensors file begins with metadata of ours: "vcompress.json":"{... A quote inside of a text has a
 * backslash before it, so that no text looks like this name. */
static bool has_manifest(int folder, const char *name, char *buffer)
{
    static const char key[] = "\"vcompress.json\":\"{";
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    ssize_t n = -1;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        n = read_at(fd, buffer, HEAD_BYTES, 0);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return n > 0 && memmem(buffer, (size_t)n, key, sizeof key - 1) != NULL;
}

/* depth: of folders below that are looked into, for pipelines. Hidden entries are skipped. */
static bool any_manifest(int parent, const char *name, unsigned depth, char *buffer)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    bool found = false;

    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        if (vc_ends_in(entry->d_name, ".safetensors")) {
            found = has_manifest(fd, entry->d_name, buffer);
        } else if (depth > 0 && entry->d_name[0] != '.') {
            found = any_manifest(fd, entry->d_name, depth - 1, buffer);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return found;
}

enum vc_status vc_outfolder_is_older(struct vc_ctx *ctx, int folder, bool *is)
{
    char *buffer = vc_alloc(ctx, VC_TAG_IO, HEAD_BYTES);

    VC_CALL_ALLOC(buffer);
    *is = any_manifest(folder, ".", 1, buffer);
    vc_free(ctx, buffer);
    return VC_OK;
}

/* ---- writing ---- */

/* Merges two sorted lists, names (written here) and more->files (written already), and leaves doubles out: `order` says
 * which of the two comes next, 0 both. */
void vc_outfolder_mark_text(struct vc_text *text, const char *const *names, size_t n,
                            const struct vc_outfolder_mark *more)
{
    VC_SCOPED_TEXT struct vc_text line = {.ctx = text->ctx};
    bool first = true;
    size_t k = 0;

    vc_text_add(text, MARK_BEGIN "1\", \"tool\": \"vcompress %s\", \"files\": [\n", vc_version());
    for (size_t i = 0; i < n || k < more->n;) {
        const char *add = k < more->n ? more->files[k] : NULL;
        int order = 1;

        if (i < n) {
            line.n = 0;
            vc_text_add_json_string(&line, names[i]);
            order = line.status != VC_OK || add == NULL ? -1 : strcmp(line.data, add);
            add = order <= 0 ? line.data : add;
        }
        vc_text_add(text, "%s%s", first ? "" : ",\n", add != NULL ? add : "");
        first = false;
        k += order >= 0;
        do {
            i += order <= 0;
        } while (order <= 0 && i < n && strcmp(names[i - 1], names[i]) == 0);
    }
    vc_text_add(text, "\n]}\n");
    text->status = line.status != VC_OK ? line.status : text->status;
}

static bool is_empty(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    bool empty = dir != NULL;

    while (empty && (entry = readdir(dir)) != NULL) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return empty;
}

/* All names that this run writes are in the mark. Then the mark need not be written again. */
static enum vc_status lists_all(struct vc_ctx *ctx, const struct vc_outfolder *folder,
                                const struct vc_outfolder_mark *mark, bool *all)
{
    *all = true;
    for (size_t i = 0; *all && i < folder->n_names; i++) {
        VC_CALL(vc_outfolder_mark_lists(ctx, mark, folder->names[i], all));
    }
    return VC_OK;
}

/* A folder that several workers fill is marked by the first of them, while it is empty; every worker knows the names of
 * all files. One with other names (its output is divided in another way) adds them. A folder of somebody else stays
 * without a mark. */
enum vc_status vc_outfolder_mark_shared(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct vc_outfolder_mark mark;
    VC_SCOPED_TEXT struct vc_text text = {.ctx = ctx};
    bool right = false;
    enum vc_status status;

    VC_RETURN_IF(fd < 0, vc_fail_errno(ctx, errno, "%s: cannot look into this folder", folder->path));
    vc_outfolder_sort_names(folder);
    VC_TRY(vc_outfolder_mark_read(ctx, fd, &mark));
    if (mark.there) {
        VC_TRY(lists_all(ctx, folder, &mark, &right));
    } else {
        right = !is_empty(fd);
    }
    if (!right) {
        vc_outfolder_mark_text(&text, folder->names, folder->n_names, &mark);
        VC_TRY(text.status);
        VC_TRY(vc_outfile_replace(ctx, folder->path, VC_FOLDER_MARK, &text));
    }
out:
    vc_outfolder_mark_release(ctx, &mark);
    (void)close(fd);
    return status;
}

void vc_outfolder_sort_names(struct vc_outfolder *folder)
{
    if (!folder->sorted && folder->n_names > 1) {
        qsort(folder->names, folder->n_names, sizeof *folder->names, vc_compare_texts);
    }
    folder->sorted = true;
}
