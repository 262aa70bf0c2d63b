/* outfolder_old.c - what lies in a folder that is to be replaced: only what an earlier run of the output can have
 * written goes.
 *
 *     out/.vcompress.json                       the mark: its list of files decides
 *
 * Without a mark (a version of before, or another program's folder and `force_foreign`) names decide:
 *
 *     out/model-00003-of-00008.safetensors      weights of one pattern, here of a run with other sizes
 *     out/config.json, out/1_Pooling/x.json     what this run writes, too
 *     out/tokenizer.model                       what goes along with models, by its name
 *     out/notes.txt, out/other/, a link         foreign: the folder is not replaced
 *
 * The same rules decide when the old folder is removed, entry by entry: what appears in it at the last moment stays,
 * and so does the folder, under its temporary name. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/text/glob.h"
#include "formats/io/numbered_name.h"
#include "formats/io/outfile_internal.h"
#include "formats/io/outfolder_internal.h"

#define VC_NAMED_FOREIGN 3
#define VC_INDEX_TAIL    ".index.json"

/* A name of weights, or of their index: "model", ".safetensors", 8 for model-00003-of-00008.safetensors. */
struct weights_name {
    const char *prefix; /* not terminated */
    size_t n_prefix;
    const char *extension;
    unsigned long count; /* 0: no number in it */
};

/* What the weights of one folder have in common, without those that this run writes, too. */
struct pattern {
    bool own; /* some are called as those of this run are */
    bool several;
    char first[NAME_MAX + 1]; /* an example of the names */
    unsigned long count;
};

struct walk {
    const struct vc_outfolder *folder;
    struct vc_outfolder_mark mark; /* of the old folder */
    bool remove;
    size_t n_foreign;
    char foreign[VC_NAMED_FOREIGN][96];
    size_t n_stayed;       /* that could not be removed */
    int error;             /* a folder that cannot be looked into */
    enum vc_status status; /* VC_E_NOMEM: what is foreign is not known */
};

/* ---- names ---- */

/* False if the name is not one of a file of weights. An index counts as weights of the name in front of it. */
static bool parse_weights(const char *name, struct weights_name *out)
{
    static const char *const extensions[] = {".safetensors", ".gguf"};
    struct vc_numbered_name numbered;
    size_t n = strlen(name);

    if (n > sizeof VC_INDEX_TAIL - 1 && strcmp(name + n - (sizeof VC_INDEX_TAIL - 1), VC_INDEX_TAIL) == 0) {
        n -= sizeof VC_INDEX_TAIL - 1;
    }
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        size_t k = strlen(extensions[i]);

        if (name[n] == '\0' && vc_numbered_name_parse(name, extensions[i], &numbered)) {
            *out = (struct weights_name){name, numbered.n_prefix, extensions[i], numbered.count};
            return true;
        }
        if (n > k && strncmp(name + n - k, extensions[i], k) == 0) {
            *out = (struct weights_name){name, n - k, extensions[i], 0};
            return true;
        }
    }
    return false;
}

/* Same prefix and extension; numbers may differ. */
static bool same_pattern(const struct weights_name *a, const struct weights_name *b)
{
    return a->n_prefix == b->n_prefix && strncmp(a->prefix, b->prefix, a->n_prefix) == 0 &&
           strcmp(a->extension, b->extension) == 0;
}

/* The first name of this run that is not less than the text. */
static size_t lower_bound(const struct vc_outfolder *folder, const char *text)
{
    size_t low;

    VC_BISECT(low, folder->n_names, k, strcmp(folder->names[k], text) < 0);
    return low;
}

/* This run writes a file of that path. Names are sorted. */
static bool is_written(const struct vc_outfolder *folder, const char *path)
{
    size_t at = lower_bound(folder, path);

    return at < folder->n_names && strcmp(folder->names[at], path) == 0;
}

/* This run writes something into that folder; path ends in '/'. */
static bool is_entered(const struct vc_outfolder *folder, const char *path)
{
    size_t at = lower_bound(folder, path);

    return at < folder->n_names && strncmp(folder->names[at], path, strlen(path)) == 0;
}

/* This run writes weights of that name, with another number in it or none. n: bytes of the path before the name. */
static bool is_own_pattern(const struct vc_outfolder *folder, const char *path, size_t n,
                           const struct weights_name *name)
{
    char begin[PATH_MAX];
    struct weights_name other;

    (void)snprintf(begin, sizeof begin, "%.*s", (int)(n + name->n_prefix), path);
    for (size_t at = lower_bound(folder, begin); at < folder->n_names; at++) {
        const char *written = folder->names[at];

        if (strncmp(written, begin, n + name->n_prefix) != 0) {
            break;
        }
        if (parse_weights(written + n, &other) && same_pattern(&other, name)) {
            return true;
        }
    }
    return false;
}

/* Names of files that go along with models everywhere: an earlier run from another source can have written them. */
static bool goes_along(const char *name)
{
    static const char globs[] =
        "*config.json tokenizer*.json tokenizer*.model special_tokens_map.json added_tokens.json vocab*.json "
        "vocab*.txt merges.txt spiece.model sentencepiece*.model *.spm chat_template.* normalizer.json modules.json "
        "model_index.json params.json LICENSE* NOTICE*";

    return vc_glob_any(globs, name);
}

/* ---- one folder ---- */

/* Adds the weights of a name that this run does not write to what is known of the others. Two prefixes, or two counts
 * (-of-00003 and -of-00008), are `several`: two models, of which one may be somebody's. */
static void join_pattern(struct pattern *pattern, const char *name, const struct weights_name *weights)
{
    struct weights_name first;

    if (pattern->first[0] == '\0') {
        (void)snprintf(pattern->first, sizeof pattern->first, "%s", name);
    }
    (void)parse_weights(pattern->first, &first);
    pattern->several = pattern->several || !same_pattern(&first, weights) ||
                       (weights->count != 0 && pattern->count != 0 && weights->count != pattern->count);
    pattern->count = weights->count != 0 ? weights->count : pattern->count;
}

/* Which of the weights in a folder belong together: those called as this run calls its own, or those of the only other
 * pattern. path: of the folder, n bytes, with a '/' behind it if there are any. Round 0 learns whether any weights are
 * called as this run's; round 1 joins those of the same kind. */
static void find_pattern(const struct walk *walk, DIR *dir, char path[PATH_MAX], size_t n, struct pattern *pattern)
{
    struct weights_name weights;
    struct dirent *entry;

    *pattern = (struct pattern){.count = 0};
    for (int round = 0; round < 2; round++) {
        rewinddir(dir);
        while ((entry = readdir(dir)) != NULL) {
            if (!parse_weights(entry->d_name, &weights) || n + strlen(entry->d_name) >= PATH_MAX) {
                continue;
            }
            memcpy(path + n, entry->d_name, strlen(entry->d_name) + 1);
            bool own = is_own_pattern(walk->folder, path, n, &weights);
            if (round == 0) {
                pattern->own = pattern->own || own;
            } else if (own == pattern->own && !is_written(walk->folder, path)) {
                join_pattern(pattern, entry->d_name, &weights);
            }
        }
    }
    rewinddir(dir);
    path[n] = '\0';
}

/* The mark lists the file, or files of the folder (path ends in '/'). Without memory for that it seems so, and nothing is
 * removed. */
static bool is_listed(struct walk *walk, const char *path)
{
    bool lists = true;
    enum vc_status status = vc_outfolder_mark_lists(walk->folder->ctx, &walk->mark, path, &lists);

    walk->status = status != VC_OK ? status : walk->status;
    return lists;
}

/* A file of the folder can be one of an earlier run. Weights of another name are expected at the top only. */
static bool is_ours(struct walk *walk, const char *path, size_t n, const struct pattern *pattern)
{
    struct weights_name weights;

    if (strcmp(path, VC_FOLDER_MARK) == 0) {
        return true;
    }
    if (walk->mark.there) {
        return is_listed(walk, path);
    }
    if (is_written(walk->folder, path)) {
        return true;
    }
    if (parse_weights(path + n, &weights)) {
        return !pattern->several && (pattern->own || n == 0) &&
               is_own_pattern(walk->folder, path, n, &weights) == pattern->own;
    }
    return goes_along(path + n);
}

/* Counts all, names the first VC_NAMED_FOREIGN. tail: " (a link)", or "". */
static void note_foreign(struct walk *walk, const char *path, const char *tail)
{
    if (walk->n_foreign < VC_NAMED_FOREIGN) {
        (void)snprintf(walk->foreign[walk->n_foreign], sizeof walk->foreign[0], "%.80s%s", path, tail);
    }
    walk->n_foreign++;
}

static void walk_folder(struct walk *walk, int parent, const char *name, char path[PATH_MAX], size_t n);

/* path: with the entry's name behind n bytes. A folder that nothing is listed in, or written to, is foreign as a whole,
 * and not entered. */
static void walk_entry(struct walk *walk, int fd, const char *name, char path[PATH_MAX], size_t n,
                       const struct pattern *pattern)
{
    struct stat st;
    size_t n_path = strlen(path);

    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return; /* removed meanwhile */
    }
    if (S_ISDIR(st.st_mode) && n_path + 2 < PATH_MAX) {
        memcpy(path + n_path, "/", 2);
        if (walk->mark.there ? is_listed(walk, path) : is_entered(walk->folder, path)) {
            walk_folder(walk, fd, name, path, n_path + 1);
        } else {
            note_foreign(walk, path, "");
        }
        path[n_path] = '\0';
        return;
    }
    if (!S_ISREG(st.st_mode) || !is_ours(walk, path, n, pattern)) {
        note_foreign(walk, path, S_ISLNK(st.st_mode) ? " (a link)" : "");
        return;
    }
    if (walk->remove && (walk->status != VC_OK || vc_outfile_injected() || unlinkat(fd, name, 0) != 0)) {
        walk->n_stayed++;
    }
}

/* path: of the folder, n bytes, with a '/' behind it if there are any. With `remove` the folder goes, too, once it is
 * empty. path is one buffer for the whole walk: each level writes behind the n bytes of its folder, and cuts there
 * again. */
static void walk_folder(struct walk *walk, int parent, const char *name, char path[PATH_MAX], size_t n)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct pattern pattern;
    struct dirent *entry;

    if (dir == NULL) {
        walk->error = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    find_pattern(walk, dir, path, n, &pattern);
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (n + strlen(entry->d_name) >= PATH_MAX) {
            note_foreign(walk, entry->d_name, "");
            continue;
        }
        memcpy(path + n, entry->d_name, strlen(entry->d_name) + 1);
        walk_entry(walk, dirfd(dir), entry->d_name, path, n, &pattern);
        path[n] = '\0';
    }
    (void)closedir(dir);
    if (walk->remove && (vc_outfile_injected() || unlinkat(parent, name, AT_REMOVEDIR) != 0)) {
        walk->n_stayed++;
    }
}

void vc_outfolder_remove_numbered(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[strspn(entry->d_name, "0123456789")] == '\0') {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

/* ---- the whole ---- */

enum vc_status vc_outfolder_expect(struct vc_ctx *ctx, struct vc_outfolder *folder, const char *name)
{
    const char *copy = folder->whole != NULL ? vc_outfolder_whole_name(ctx, folder, name)
                                             : vc_arena_printf(ctx, &folder->arena, "%s", name);

    VC_CALL_ALLOC(copy);
    if (folder->whole != NULL) {
        return vc_outfolder_expect(ctx, folder->whole, copy);
    }
    VC_CALL(VC_GROW(ctx, VC_TAG_NAMES, folder->names, folder->names_capacity, folder->n_names + 1));
    folder->names[folder->n_names++] = copy;
    folder->sorted = false;
    return VC_OK;
}

/* Names in the sentence are in the order of the folder, so the first ones may differ from run to run: they are sorted.
 */
static enum vc_status refuse_foreign(struct vc_ctx *ctx, const struct walk *walk)
{
    const struct vc_outfolder *folder = walk->folder;
    const char *names[VC_NAMED_FOREIGN] = {"", "", ""};
    char more[48] = "";
    size_t n = walk->n_foreign < VC_NAMED_FOREIGN ? walk->n_foreign : VC_NAMED_FOREIGN;

    for (size_t i = 0; i < n; i++) {
        names[i] = walk->foreign[i];
    }
    qsort(names, n, sizeof *names, vc_compare_texts);
    if (walk->n_foreign > n) {
        (void)snprintf(more, sizeof more, " and %zu more", walk->n_foreign - n);
    }
    return vc_fail(ctx, VC_E_ARGUMENT,
                   "%s: holds %s%s%s%s%s%s, which no run for this output has written; %s replaces an older output only",
                   folder->path, names[0], n > 1 ? ", " : "", names[1], n > 2 ? ", " : "", names[2], more,
                   vc_option(ctx, "force"));
}

/* The folder of that name in the parent, with its mark. */
static enum vc_status walk_old(struct vc_ctx *ctx, struct walk *walk, int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char path[PATH_MAX] = "";

    if (fd < 0) {
        walk->error = errno;
        return VC_OK;
    }
    enum vc_status status = vc_outfolder_mark_read(ctx, fd, &walk->mark);
    if (status == VC_OK) {
        walk_folder(walk, parent, name, path, 0);
    }
    vc_outfolder_mark_release(ctx, &walk->mark);
    (void)close(fd);
    return status != VC_OK ? status : walk->status;
}

/* Only looks. walk.n_foreign decides. */
enum vc_status vc_outfolder_check_old(struct vc_ctx *ctx, struct vc_outfolder *folder)
{
    struct walk walk = {.folder = folder};
    struct stat st;

    if (folder->whole != NULL || folder->shared || !folder->force ||
        fstatat(folder->parent, folder->base, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return VC_OK;
    }
    vc_outfolder_sort_names(folder);
    VC_CALL(walk_old(ctx, &walk, folder->parent, folder->base));
    VC_RETURN_IF(walk.error != 0, vc_fail_errno(ctx, walk.error, "%s: cannot look into this folder", folder->path));
    return walk.n_foreign != 0 ? refuse_foreign(ctx, &walk) : VC_OK;
}

/* Removes what check_old would let pass; a note says if something stays. Never fails. */
void vc_outfolder_remove_old(struct vc_outfolder *folder, const char *name)
{
    struct walk walk = {.folder = folder, .remove = true};
    struct stat st;

    if (fstatat(folder->parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return; /* there was none */
    }
    vc_outfolder_sort_names(folder);
    if (walk_old(folder->ctx, &walk, folder->parent, name) != VC_OK) {
        vc_clear_error(folder->ctx); /* no memory for the mark: the folder stays */
    }
    if (fstatat(folder->parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        (void)snprintf(folder->note, sizeof folder->note,
                       "not all of an older output could be removed: the rest is %.*s%s",
                       (int)(folder->base - folder->path), folder->path, name);
    }
}
