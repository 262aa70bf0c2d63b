/* infolder.c - see infolder.h. Symbolic links to files are followed (caches are made of them). What goes along has to
 * lie in the folder, or in the cache that it is part of (formats/io/side_file.h); shards are looked into before they are
 * taken for what they say they are, and may lie anywhere.
 *
 * scan() is the order of the work: the path is split, all levels are read into lists of names (sort_in), the model's
 * files are chosen from the lists (infolder_choose.c), what is left is sorted into carried, skipped and odd files, and
 * outputs get names. No file but the index and model_index.json is read.
 *
 *     weights, bins          safetensors and PyTorch files at the top, candidates for shards
 *     indices, bin_indices   their indices
 *     carried                goes along: config.json, tokenizer, images, whatever is small or not known
 *     left                   stays behind: other weights, files below the second level
 *     odd                    would go along and cannot: a sentence for each */
#define _GNU_SOURCE /* DT_*, strcasestr */
#include "formats/huggingface/infolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/findings.h"
#include "formats/huggingface/infolder_internal.h"
#include "formats/io/numbered_name.h"
#include "formats/io/side_file.h"

#define VC_FOLDER_MAX_FILES 100000
#define VC_FOLDER_MAX_DEPTH 2 /* levels of folders below the top that are looked into */

/* ---- names ---- */

/* By bytes, so that the order does not depend on the file system or the locale. */
static void names_sort(struct infolder_names *names)
{
    if (names->n > 1) {
        qsort(names->names, names->n, sizeof *names->names, vc_compare_texts);
    }
}

/* The same for files that go along. */
static int compare_carried(const void *a, const void *b)
{
    return strcmp(((const struct vc_carried *)a)->name, ((const struct vc_carried *)b)->name);
}

/* Size and time of the file are kept, so that a change before the copy is noticed (vc_infolder_open_carried). */
static enum vc_status carried_add(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name,
                                  const struct stat *st)
{
    const char *copy = vc_arena_printf(ctx, &folder->arena, "%s", name);

    VC_CALL_ALLOC(copy);
    VC_CALL(VC_GROW(ctx, VC_TAG_NAMES, folder->carried, folder->carried_capacity, folder->n_carried + 1));
    folder->carried[folder->n_carried++] =
        (struct vc_carried){.name = copy, .size_bytes = (uint64_t)st->st_size, .modified = st->st_mtim};
    return VC_OK;
}

/* ---- what lies in the folder ---- */

/* A PyTorch file that is called as those of weights are, sharded or not; others (training_args.bin, optimizer.bin) are
 * none. */
static bool is_bin(const char *name)
{
    static const char *const stems[] = {"pytorch_model", "diffusion_pytorch_model", "adapter_model"};

    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        size_t n = strlen(stems[i]);

        if (strncmp(name, stems[i], n) == 0 && (name[n] == '.' || name[n] == '-')) {
            return vc_infolder_ends_in(name, ".bin");
        }
    }
    return false;
}

/* Asked before the scan, because sort_in needs the answer for files that may come first. */
static enum vc_status find_modules(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    const char *path = vc_arena_printf(ctx, &folder->arena, "%s/modules.json", folder->path);
    char real[PATH_MAX];
    struct stat st;

    VC_CALL_ALLOC(path);
    folder->has_modules = stat(vc_mount_path(path, real), &st) == 0 && S_ISREG(st.st_mode);
    return VC_OK;
}

/* A file of a module of sentence-transformers, "2_Dense/model.safetensors": the model's own weights lie at the top, and
 * these belong to what comes behind it. */
static bool is_of_module(const struct vc_infolder *folder, const char *name)
{
    size_t n = strspn(name, "0123456789");

    return folder->has_modules && n != 0 && name[n] == '_' && strchr(name, '/') != NULL &&
           (vc_infolder_ends_in(name, "/model.safetensors") || vc_infolder_ends_in(name, "/pytorch_model.bin"));
}

/* What is called like weights or an index is one, whatever it is: opening it says what is wrong with it. Only the top
 * level (depth 0) can hold shards and indices. The order of the questions matters: a safetensors file below the top is
 * weights of something else, and stays behind. */
static enum vc_status sort_in(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name, unsigned depth)
{
    const char *variant;
    const char *why;
    enum vc_side_kind kind;
    struct stat own;
    size_t n_variant;

    if (depth == 0 && vc_infolder_ends_in(name, ".safetensors")) {
        return vc_infolder_add_name(ctx, folder, &folder->weights, name);
    }
    if (depth == 0 && vc_infolder_names_index(name, VC_INDEX_SUFFIX, &variant, &n_variant)) {
        return vc_infolder_add_name(ctx, folder, &folder->indices, name);
    }
    if (depth == 0 && is_bin(name)) {
        return vc_infolder_add_name(ctx, folder, &folder->bins, name);
    }
    if (depth == 0 && vc_infolder_names_index(name, VC_BIN_INDEX_SUFFIX, &variant, &n_variant)) {
        return vc_infolder_add_name(ctx, folder, &folder->bin_indices, name);
    }
    if (!is_of_module(folder, name) &&
        (vc_infolder_ends_in(name, ".safetensors") || vc_infolder_is_other_weights(name))) {
        return vc_infolder_add_name(ctx, folder, &folder->left, name);
    }
    VC_CALL(vc_side_look(ctx, folder->path, name, &kind, &own, &why));
    if (kind == VC_SIDE_FILE) {
        return carried_add(ctx, folder, name, &own);
    }
    if (kind == VC_SIDE_ABSENT) {
        return VC_OK; /* removed a moment ago */
    }
    const char *sentence = vc_arena_printf(ctx, &folder->arena, "%s: %s", name, why);
    return sentence == NULL ? VC_E_NOMEM : vc_infolder_add_name(ctx, folder, &folder->odd, sentence);
}

static enum vc_status scan_level(struct vc_ctx *ctx, struct vc_infolder *folder, int parent, const char *name,
                                 const char *prefix, unsigned depth);

/* A name that only files have: a folder of this name is in the place of one. */
static bool is_read_as_file(const char *name)
{
    return vc_infolder_ends_in(name, ".json") || vc_infolder_ends_in(name, ".jinja");
}

/* Hidden files and folders belong to version control and caches. Links to files are followed, links to folders are not:
 * those can lead anywhere, and in circles. */
static enum vc_status scan_entry(struct vc_ctx *ctx, struct vc_infolder *folder, int fd, const char *name,
                                 const char *prefix, unsigned depth)
{
    const char *whole = vc_arena_printf(ctx, &folder->arena, "%s%s", prefix, name);
    struct stat st;

    VC_CALL_ALLOC(whole);
    if (name[0] == '.') {
        return VC_OK;
    }
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? VC_OK /* removed a moment ago */
                               : vc_fail_errno(ctx, errno, "cannot look at the file %s in it", whole);
    }
    bool is_link = S_ISLNK(st.st_mode);
    if ((!is_link || fstatat(fd, name, &st, 0) == 0) && S_ISDIR(st.st_mode) && !is_read_as_file(whole)) {
        if (depth < VC_FOLDER_MAX_DEPTH && !is_link) {
            return scan_level(ctx, folder, fd, name, whole, depth + 1);
        }
        const char *slashed = vc_arena_printf(ctx, &folder->arena, "%s/", whole);
        return slashed == NULL ? VC_E_NOMEM : vc_infolder_add_name(ctx, folder, &folder->left, slashed);
    }
    return sort_in(ctx, folder, whole, depth);
}

/* Reads one level through a descriptor of it, so that a folder that is renamed meanwhile is still the same. prefix: the
 * path below the top, "" at the top. errno tells the end of a folder from a failure of readdir. */
static enum vc_status scan_level(struct vc_ctx *ctx, struct vc_infolder *folder, int parent, const char *name,
                                 const char *prefix, unsigned depth)
{
    const char *slashed = vc_arena_printf(ctx, &folder->arena, "%s%s", prefix, prefix[0] != '\0' ? "/" : "");
    char real[PATH_MAX];
    int fd = openat(parent, vc_mount_path(name, real), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    enum vc_status status = VC_OK;
    struct dirent *entry;

    VC_TRY_ALLOC(slashed);
    if (dir == NULL) {
        status = prefix[0] == '\0' ? vc_fail_errno(ctx, errno, "cannot be read as a folder")
                                   : vc_fail_errno(ctx, errno, "cannot read the folder %s in it", prefix);
        goto out;
    }
    for (errno = 0; (entry = readdir(dir)) != NULL; errno = 0) {
        VC_TRY(scan_entry(ctx, folder, dirfd(dir), entry->d_name, slashed, depth));
        if (folder->n_carried + folder->left.n + folder->odd.n + folder->weights.n + folder->bins.n >
            VC_FOLDER_MAX_FILES) {
            VC_TRY(vc_fail(ctx, VC_E_UNSUPPORTED, "is a folder of more than %d files", VC_FOLDER_MAX_FILES));
        }
    }
    if (errno != 0) {
        status = vc_fail_errno(ctx, errno, "cannot read the folder %sin it to its end", slashed);
    }
out:
    if (dir != NULL) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

/* The shards are known: what else is there. Weights, indices and PyTorch files that are no shards stay behind; a
 * safetensors file among them gets a finding, because it may be a shard that the index forgot. Odd files become
 * findings of verify. */
static enum vc_status sort_rest(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    const char *name;
    size_t n = 0;

    for (size_t i = 0; i < folder->weights.n; i++) {
        if (!vc_infolder_has_name(&folder->shards, folder->weights.names[i])) {
            VC_CALL(vc_infolder_add_name(ctx, folder, &folder->left, folder->weights.names[i]));
            VC_CALL(vc_find(ctx, VC_SEVERITY_WARNING, "orphan", folder->weights.names[i], "%s",
                            folder->index != NULL ? "lies beside the shards, but the index names no tensor in it"
                                                  : "lies beside the model, and nothing says that it belongs to it"));
        }
    }
    for (size_t i = 0; i < folder->indices.n; i++) {
        if (folder->index == NULL || strcmp(folder->index, folder->indices.names[i]) != 0) {
            VC_CALL(vc_infolder_add_name(ctx, folder, &folder->left, folder->indices.names[i]));
        }
    }
    for (size_t i = 0; i < folder->bins.n; i++) {
        if (!vc_infolder_has_name(&folder->shards, folder->bins.names[i])) {
            VC_CALL(vc_infolder_add_name(ctx, folder, &folder->left, folder->bins.names[i]));
        }
    }
    for (size_t i = 0; i < folder->bin_indices.n; i++) {
        if (folder->index == NULL || strcmp(folder->index, folder->bin_indices.names[i]) != 0) {
            VC_CALL(vc_infolder_add_name(ctx, folder, &folder->left, folder->bin_indices.names[i]));
        }
    }
    for (size_t i = 0; i < folder->n_carried; i++) { /* shards may have any name */
        if (!vc_infolder_has_name(&folder->shards, folder->carried[i].name)) {
            folder->carried[n++] = folder->carried[i];
        }
    }
    folder->n_carried = n;
    names_sort(&folder->left);
    names_sort(&folder->odd);
    for (size_t i = 0; i < folder->odd.n; i++) {
        const char *sentence = folder->odd.names[i];
        const char *why = strrchr(sentence, ':'); /* none of them has another one */

        VC_CALL_ALLOC(name = vc_arena_printf(ctx, &folder->arena, "%.*s", (int)(why - sentence), sentence));
        VC_CALL(vc_find(ctx, VC_SEVERITY_ERROR, "link", name, "%s", why + 2));
    }
    if (n > 1) {
        qsort(folder->carried, n, sizeof *folder->carried, compare_carried);
    }
    return VC_OK;
}

/* ---- open, close ---- */

/* The path ends in the name of an index, but for those of variants, which are found in their folders. */
static bool is_index(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *variant;
    size_t n;

    return (vc_infolder_names_index(name, VC_INDEX_SUFFIX, &variant, &n) ||
            vc_infolder_names_index(name, VC_BIN_INDEX_SUFFIX, &variant, &n)) &&
           n == 0;
}

/* A folder, or the index of one. */
bool vc_infolder_is(const char *path)
{
    char real[PATH_MAX];
    struct stat st;

    return strcmp(path, "-") != 0 && stat(vc_mount_path(path, real), &st) == 0 &&
           (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && is_index(path)));
}

/* "dir/model.safetensors.index.json" -> folder "dir", index given; "model.safetensors.index.json" -> "."; "dir//" ->
 * "dir". */
static enum vc_status split_path(struct vc_ctx *ctx, struct vc_infolder *folder, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = strlen(path);

    if (is_index(path)) {
        VC_CALL_ALLOC(folder->index = vc_arena_printf(ctx, &folder->arena, "%s", slash == NULL ? path : slash + 1));
        n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    }
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    folder->path = vc_arena_printf(ctx, &folder->arena, "%.*s", (int)(n == 0 ? 1 : n), n == 0 ? "." : path);
    VC_CALL_ALLOC(folder->path);
    return VC_OK;
}

/* chooser: vc_infolder_choose, or vc_infolder_choose_all for commands that make an index. */
static enum vc_status scan(struct vc_ctx *ctx, const char *path,
                           enum vc_status (*chooser)(struct vc_ctx *ctx, struct vc_infolder *folder),
                           struct vc_infolder **out)
{
    struct vc_infolder *folder = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *folder);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(folder);
    VC_TRY(split_path(ctx, folder, path));
    VC_TRY(find_modules(ctx, folder));
    VC_TRY(scan_level(ctx, folder, AT_FDCWD, folder->path, "", 0));
    names_sort(&folder->weights);
    names_sort(&folder->indices);
    names_sort(&folder->bins);
    names_sort(&folder->bin_indices);
    VC_TRY(chooser(ctx, folder));
    VC_TRY(sort_rest(ctx, folder));
    VC_TRY(vc_infolder_name_outputs(ctx, folder));
    *out = folder;
    return VC_OK;
out:
    vc_infolder_close(ctx, folder);
    return status;
}

/* By the index, if there is one. */
enum vc_status vc_infolder_scan(struct vc_ctx *ctx, const char *path, struct vc_infolder **out)
{
    return scan(ctx, path, vc_infolder_choose, out);
}

/* Every safetensors file is a shard, whatever an index says. */
enum vc_status vc_infolder_scan_all(struct vc_ctx *ctx, const char *path, struct vc_infolder **out)
{
    return scan(ctx, path, vc_infolder_choose_all, out);
}

/* Names of shards as Hugging Face has them: model-00001-of-00002.safetensors. *out is set before anything can fail, so
 * that the model's close frees it. */
enum vc_status vc_infolder_make(struct vc_ctx *ctx, const char *path, size_t n_shards, struct vc_infolder **out)
{
    struct vc_infolder *folder = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *folder);
    char name[64];

    *out = folder;
    VC_CALL_ALLOC(folder);
    VC_CALL_ALLOC(folder->path = vc_arena_printf(ctx, &folder->arena, "%s", path));
    folder->out_prefix = "model";
    folder->out_index = VC_INDEX_NAME;
    for (size_t i = 0; i < n_shards; i++) {
        (void)snprintf(name, sizeof name, VC_NUMBERED_FORMAT, 5, "model", (unsigned long)i + 1, (unsigned long)n_shards,
                       ".safetensors");
        VC_CALL(vc_infolder_add_name(ctx, folder, &folder->out_shards, n_shards == 1 ? "model.safetensors" : name));
    }
    return VC_OK;
}

/* A file that goes along without being in the folder: its text was made here. */
enum vc_status vc_infolder_add_made(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name, const char *bytes,
                                    size_t n)
{
    const struct stat st = {.st_size = (off_t)n};
    char *copy = vc_arena_copy(ctx, &folder->arena, bytes, n);

    VC_CALL_ALLOC(copy);
    VC_CALL(carried_add(ctx, folder, name, &st));
    folder->carried[folder->n_carried - 1].made = copy;
    return VC_OK;
}

/* NULL: the file is one of the folder. */
const char *vc_infolder_made(const struct vc_infolder *folder, const char *name, size_t *n)
{
    for (size_t i = 0; i < folder->n_carried; i++) {
        if (strcmp(folder->carried[i].name, name) == 0) {
            *n = (size_t)folder->carried[i].size_bytes;
            return folder->carried[i].made;
        }
    }
    return NULL;
}

void vc_infolder_close(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    if (folder == NULL) {
        return;
    }
    vc_infolder_forget_index(ctx, folder);
    vc_weight_index_release(ctx, &folder->map);
    VC_FREE_ALL(ctx, folder->weights.names, folder->indices.names, folder->left.names, folder->odd.names,
                folder->shards.names, folder->bins.names, folder->bin_indices.names, folder->out_shards.names,
                folder->carried);
    vc_arena_release(ctx, &folder->arena);
    vc_free(ctx, folder);
}

size_t vc_infolder_shard_count(const struct vc_infolder *folder)
{
    return folder->shards.n;
}

const char *vc_infolder_shard(const struct vc_infolder *folder, size_t index)
{
    return folder->shards.names[index];
}

/* False: the index names it, and it is not there. */
bool vc_infolder_has_shard(const struct vc_infolder *folder, size_t index)
{
    return vc_infolder_has_name(&folder->weights, folder->shards.names[index]);
}

const char *vc_infolder_index(const struct vc_infolder *folder)
{
    return folder->index;
}

bool vc_infolder_has_bins(const struct vc_infolder *folder)
{
    return folder->has_bins;
}

/* A PyTorch file beside other weights, which is not read; NULL: none. */
const char *vc_infolder_other_bin(const struct vc_infolder *folder)
{
    return !folder->has_bins && folder->lone == NULL && folder->bins.n != 0 ? folder->bins.names[0] : NULL;
}

/* The family lives as long as the folder. */
enum vc_status vc_infolder_family(struct vc_ctx *ctx, struct vc_infolder *folder, const struct vc_family **out)
{
    *out = &folder->family;
    return vc_family_find_beside(ctx, folder->path, &folder->family);
}

const char *vc_infolder_out_shard(const struct vc_infolder *folder, size_t index)
{
    return folder->out_shards.names[index];
}

const char *vc_infolder_out_index(const struct vc_infolder *folder)
{
    return folder->out_index;
}

const char *vc_infolder_out_prefix(const struct vc_infolder *folder)
{
    return folder->out_prefix;
}

bool vc_infolder_has_models(const struct vc_infolder *folder)
{
    return folder->has_models;
}

size_t vc_infolder_component_count(const struct vc_infolder *folder)
{
    return folder->n_components;
}

const struct vc_pipeline_part *vc_infolder_component(const struct vc_infolder *folder, size_t index)
{
    return &folder->components[index];
}

const char *vc_infolder_path(const struct vc_infolder *folder)
{
    return folder->path;
}

const char *vc_infolder_lone(const struct vc_infolder *folder, size_t *n)
{
    *n = folder->n_lone;
    return folder->lone;
}

size_t vc_infolder_carried_count(const struct vc_infolder *folder)
{
    return folder->n_carried;
}

const struct vc_carried *vc_infolder_carried(const struct vc_infolder *folder, size_t index)
{
    return &folder->carried[index];
}

size_t vc_infolder_odd_count(const struct vc_infolder *folder)
{
    return folder->odd.n;
}

const char *vc_infolder_odd(const struct vc_infolder *folder, size_t index)
{
    return folder->odd.names[index];
}

/* Names the first two; more would not be read. */
enum vc_status vc_infolder_check_whole(struct vc_ctx *ctx, const struct vc_infolder *folder)
{
    char more[64] = "";
    size_t n = folder->odd.n;

    if (n == 0) {
        return VC_OK;
    }
    if (n > 2) {
        (void)snprintf(more, sizeof more, "; and %zu more", n - 2);
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "%s%s%s%s; what goes along with the weights has to be there as files",
                   folder->odd.names[0], n > 1 ? "; " : "", n > 1 ? folder->odd.names[1] : "", more);
}

size_t vc_infolder_skipped_count(const struct vc_infolder *folder)
{
    return folder->left.n;
}

const char *vc_infolder_skipped(const struct vc_infolder *folder, size_t index)
{
    return folder->left.names[index];
}
