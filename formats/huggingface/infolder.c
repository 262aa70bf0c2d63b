/* infolder.c - see infolder.h. Symbolic links to files are followed (caches are made of them). What goes along has to
 * lie in the folder, or in the cache that it is part of (formats/io/links.h); shards are looked into before they are
 * taken for what they say they are, and may lie anywhere. */
#define _GNU_SOURCE /* DT_*, strcasestr */
#include "formats/huggingface/infolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/findings.h"
#include "formats/huggingface/families.h"
#include "formats/huggingface/weight_index.h"
#include "formats/io/links.h"
#include "formats/io/numbered_name.h"

#define VC_FOLDER_MAX_FILES 100000
#define VC_FOLDER_MAX_DEPTH 2

struct names {
    size_t n, capacity;
    const char **names;
};

struct vc_infolder {
    struct vc_arena arena;
    const char *path;        /* of the folder */
    const char *index;       /* name of the index; NULL: none */
    const char *gguf;        /* path of the GGUF file that the folder is there for; NULL: none */
    struct weight_index map; /* what is in it */
    struct names weights, indices, left, shards;
    struct names bins, bin_indices; /* PyTorch files that are called like weights */
    bool has_bins;                  /* the shards are some of these */
    const char *out_index;          /* as in an output */
    struct vc_family family;
    struct names out_shards;
    struct names odd; /* "config.json: is a link that leads nowhere": would go along, and cannot */
    size_t n_carried, carried_capacity;
    struct vc_carried *carried;
};

/* ---- names ---- */

static bool ends_in(const char *name, const char *suffix)
{
    size_t n = strlen(name);
    size_t k = strlen(suffix);

    return n >= k && strcasecmp(name + n - k, suffix) == 0;
}

static enum vc_status names_add(struct vc_ctx *ctx, struct vc_infolder *folder, struct names *to, const char *name)
{
    const char *copy = vc_arena_printf(ctx, &folder->arena, "%s", name);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(copy);
    if (to->n == to->capacity) {
        size_t capacity = to->capacity == 0 ? 16 : 2 * to->capacity;
        const char **grown = vc_alloc_array(ctx, VC_TAG_NAMES, capacity, sizeof *grown);

        VC_TRY_ALLOC(grown);
        if (to->n != 0) {
            memcpy(grown, to->names, to->n * sizeof *grown);
        }
        vc_free(ctx, to->names);
        to->names = grown;
        to->capacity = capacity;
    }
    to->names[to->n++] = copy;
out:
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void names_sort(struct names *names)
{
    if (names->n > 1) {
        qsort(names->names, names->n, sizeof *names->names, compare_names);
    }
}

static int compare_carried(const void *a, const void *b)
{
    return strcmp(((const struct vc_carried *)a)->name, ((const struct vc_carried *)b)->name);
}

static enum vc_status carried_add(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name,
                                  const struct stat *st)
{
    const char *copy = vc_arena_printf(ctx, &folder->arena, "%s", name);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(copy);
    if (folder->n_carried == folder->carried_capacity) {
        size_t capacity = folder->carried_capacity == 0 ? 16 : 2 * folder->carried_capacity;
        struct vc_carried *grown = vc_alloc_array(ctx, VC_TAG_NAMES, capacity, sizeof *grown);

        VC_TRY_ALLOC(grown);
        if (folder->n_carried != 0) {
            memcpy(grown, folder->carried, folder->n_carried * sizeof *grown);
        }
        vc_free(ctx, folder->carried);
        folder->carried = grown;
        folder->carried_capacity = capacity;
    }
    folder->carried[folder->n_carried++] = (struct vc_carried){copy, (uint64_t)st->st_size, st->st_mtim};
out:
    return status;
}

/* ---- what lies in the folder ---- */

/* Weights in other formats than ours: never carried along. */
static bool is_other_weights(const char *name)
{
    static const char *const suffixes[] = {".bin",     ".pt",   ".pth",  ".ckpt",      ".gguf",   ".h5",
                                           ".msgpack", ".onnx", ".ot",   ".tflite",    ".npz",    ".npy",
                                           ".pb",      ".pkl",  ".data", ".onnx_data", ".mlmodel"};
    size_t i;

    for (i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (ends_in(name, suffixes[i])) {
            return true;
        }
    }
    return ends_in(name, ".index.json") || strstr(name, ".safetensors.index.") != NULL;
}

/* A PyTorch file that is called as those of weights are, sharded or not; others (training_args.bin, optimizer.bin) are
 * none. */
static bool is_bin(const char *name)
{
    static const char *const stems[] = {"pytorch_model", "diffusion_pytorch_model", "adapter_model"};
    size_t i;

    for (i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        size_t n = strlen(stems[i]);

        if (strncmp(name, stems[i], n) == 0 && (name[n] == '.' || name[n] == '-')) {
            return ends_in(name, ".bin");
        }
    }
    return false;
}

/* Why a file cannot go along; NULL: it can. `error`: of stat, 0 where st holds what it found. */
static const char *why_odd(const struct vc_infolder *folder, const char *name, bool is_link, int error,
                           const struct stat *st)
{
    if (error != 0) {
        return error == ENOENT || error == ELOOP || error == ENOTDIR ? "is a link that leads nowhere"
                                                                     : "is a link that cannot be followed";
    }
    if (!S_ISREG(st->st_mode)) {
        return S_ISFIFO(st->st_mode) ? "is a pipe" : S_ISSOCK(st->st_mode) ? "is a socket" : "is a device";
    }
    return is_link && !vc_links_stay(folder->path, name) ? "is a link that leads out of the folder" : NULL;
}

/* What is called like weights or an index is one, whatever it is: opening it says what is wrong with it. */
static enum vc_status sort_in(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name, unsigned depth,
                              bool is_link, int error, const struct stat *st)
{
    const char *why;
    const char *sentence;

    if (depth == 0 && ends_in(name, ".safetensors")) {
        return names_add(ctx, folder, &folder->weights, name);
    }
    if (depth == 0 && ends_in(name, VC_INDEX_SUFFIX)) {
        return names_add(ctx, folder, &folder->indices, name);
    }
    if (depth == 0 && is_bin(name)) {
        return names_add(ctx, folder, &folder->bins, name);
    }
    if (depth == 0 && ends_in(name, VC_BIN_INDEX_SUFFIX)) {
        return names_add(ctx, folder, &folder->bin_indices, name);
    }
    if (ends_in(name, ".safetensors") || is_other_weights(name)) {
        return names_add(ctx, folder, &folder->left, name);
    }
    why = why_odd(folder, name, is_link, error, st);
    if (why == NULL) {
        return carried_add(ctx, folder, name, st);
    }
    sentence = vc_arena_printf(ctx, &folder->arena, "%s: %s", name, why);
    return sentence == NULL ? VC_E_NOMEM : names_add(ctx, folder, &folder->odd, sentence);
}

static enum vc_status scan_level(struct vc_ctx *ctx, struct vc_infolder *folder, int parent, const char *name,
                                 const char *prefix, unsigned depth);

/* Hidden files and folders belong to version control and caches. Links to files are followed, links to folders are not:
 * those can lead anywhere, and in circles. */
static enum vc_status scan_entry(struct vc_ctx *ctx, struct vc_infolder *folder, int fd, const char *name,
                                 const char *prefix, unsigned depth)
{
    const char *whole = vc_arena_printf(ctx, &folder->arena, "%s%s", prefix, name);
    const char *slashed;
    struct stat st;
    struct stat link;
    enum vc_status status = VC_OK;
    int error;

    VC_TRY_ALLOC(whole);
    if (name[0] == '.' || fstatat(fd, name, &link, AT_SYMLINK_NOFOLLOW) != 0) {
        return VC_OK; /* hidden, or removed a moment ago */
    }
    error = fstatat(fd, name, &st, 0) == 0 ? 0 : errno;
    if (error == 0 && S_ISDIR(st.st_mode)) {
        if (depth < VC_FOLDER_MAX_DEPTH && !S_ISLNK(link.st_mode)) {
            return scan_level(ctx, folder, fd, name, whole, depth + 1);
        }
        slashed = vc_arena_printf(ctx, &folder->arena, "%s/", whole);
        return slashed == NULL ? VC_E_NOMEM : names_add(ctx, folder, &folder->left, slashed);
    }
    VC_TRY(sort_in(ctx, folder, whole, depth, S_ISLNK(link.st_mode), error, &st));
out:
    return status;
}

static enum vc_status scan_level(struct vc_ctx *ctx, struct vc_infolder *folder, int parent, const char *name,
                                 const char *prefix, unsigned depth)
{
    const char *slashed = vc_arena_printf(ctx, &folder->arena, "%s%s", prefix, prefix[0] != '\0' ? "/" : "");
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    enum vc_status status = VC_OK;
    struct dirent *entry;

    VC_TRY_ALLOC(slashed);
    if (dir == NULL) {
        status = prefix[0] == '\0' ? vc_fail_errno(ctx, errno, "cannot be read as a folder")
                                   : vc_fail_errno(ctx, errno, "cannot read the folder %s in it", prefix);
        goto out;
    }
    while ((entry = readdir(dir)) != NULL) {
        VC_TRY(scan_entry(ctx, folder, dirfd(dir), entry->d_name, slashed, depth));
        if (folder->n_carried + folder->left.n + folder->odd.n + folder->weights.n + folder->bins.n >
            VC_FOLDER_MAX_FILES) {
            VC_TRY(vc_fail(ctx, VC_E_UNSUPPORTED, "is a folder of more than %d files", VC_FOLDER_MAX_FILES));
        }
    }
out:
    if (dir != NULL) {
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

/* ---- the index ---- */

static enum vc_status read_index(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    struct vc_infile *file = NULL;
    enum vc_status status = VC_OK;
    size_t i;

    VC_TRY(vc_infolder_open(ctx, folder, folder->index, &file));
    VC_TRY(vc_weight_index_read(ctx, file, &folder->map));
    VC_TRY(vc_infile_check(ctx, file));
    for (i = 0; i < folder->map.n_files; i++) {
        VC_TRY(names_add(ctx, folder, &folder->shards, folder->map.files[i]));
    }
out:
    vc_infile_close(ctx, file);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", folder->index);
}

enum vc_status vc_infolder_check_index(struct vc_ctx *ctx, struct vc_infolder *folder, const bool *lost,
                                       struct vc_model *model)
{
    enum vc_status status = VC_OK;

    if (folder->map.text != NULL) {
        status = vc_weight_index_check(ctx, &folder->map, folder->index, lost, model);
        vc_weight_index_forget(ctx, &folder->map);
    }
    return status;
}

/* ---- choosing ---- */

/* Of sorted names. */
static bool has_name(const struct names *names, const char *name)
{
    return names->n != 0 && bsearch(&name, names->names, names->n, sizeof *names->names, compare_names) != NULL;
}

static enum vc_status refuse_weights(struct vc_ctx *ctx, const struct vc_infolder *folder)
{
    size_t i;

    if (folder->weights.n > 1) {
        return vc_fail(
            ctx, VC_E_UNSUPPORTED,
            "is a folder with %zu safetensors files and no index; give one of them, or make an index with %s",
            folder->weights.n, vc_option(ctx, "vc_index_write"));
    }
    for (i = 0; i < folder->left.n; i++) {
        if (is_other_weights(folder->left.names[i])) {
            return vc_fail(ctx, VC_E_UNSUPPORTED,
                           "is a folder without safetensors or GGUF files; give the file itself (%s?)",
                           folder->left.names[i]);
        }
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "is a folder without safetensors or GGUF files");
}

/* The index among those there are, unless one was given: the only one, or the one with the usual name. */
static enum vc_status choose_index(struct vc_ctx *ctx, struct vc_infolder *folder, const struct names *indices,
                                   const char *usual)
{
    if (folder->index != NULL || indices->n == 0) {
        return VC_OK; /* given, or none */
    }
    folder->index = indices->n == 1 ? indices->names[0] : usual;
    return has_name(indices, folder->index)
               ? VC_OK
               : vc_fail(ctx, VC_E_UNSUPPORTED, "is a folder with %zu indices; give one of them", indices->n);
}

/* Adds all of these to the shards. */
static enum vc_status take_all(struct vc_ctx *ctx, struct vc_infolder *folder, const struct names *files)
{
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < files->n; i++) {
        VC_TRY(names_add(ctx, folder, &folder->shards, files->names[i]));
    }
out:
    return status;
}

/* Every safetensors file. */
static enum vc_status choose_all(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    if (folder->weights.n == 0) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "is a folder without safetensors files");
    }
    return take_all(ctx, folder, &folder->weights);
}

/* Without safetensors: the only GGUF file, or the first of the only ones that belong together. */
static enum vc_status choose_gguf(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    struct vc_numbered_name name;
    size_t n = 0;
    size_t i;
    enum vc_status status = VC_OK;

    for (i = 0; folder->weights.n == 0 && i < folder->left.n; i++) {
        const char *file = folder->left.names[i];

        if (ends_in(file, ".gguf") && strchr(file, '/') == NULL &&
            (!vc_numbered_name_parse(file, ".gguf", &name) || name.number == 1)) {
            n++;
            folder->gguf = vc_arena_printf(ctx, &folder->arena, "%s/%s", folder->path, file);
            VC_TRY_ALLOC(folder->gguf);
        }
    }
    if (n > 1) {
        return vc_fail(ctx, VC_E_UNSUPPORTED, "is a folder with %zu GGUF models; give one of them", n);
    }
    VC_TRY(n == 0 ? refuse_weights(ctx, folder) : VC_OK);
out:
    return status;
}

/* The files that the index names. With findings, files speak for themselves where it cannot be read. */
static enum vc_status choose_by_index(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    enum vc_status status = read_index(ctx, folder);

    if (status != VC_OK) {
        VC_TRY(vc_collect(ctx, status, "index", NULL));
        vc_weight_index_release(ctx, &folder->map);
        VC_TRY(folder->has_bins ? take_all(ctx, folder, &folder->bins) : choose_all(ctx, folder));
    }
out:
    return status;
}

/* Without safetensors: PyTorch files by their index, the one with the usual name, or the only one. */
static enum vc_status choose_bins(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    static const char usual[] = "pytorch_model.bin";
    enum vc_status status = VC_OK;

    folder->has_bins = true;
    VC_TRY(choose_index(ctx, folder, &folder->bin_indices, VC_BIN_INDEX_NAME));
    if (folder->index != NULL) {
        return choose_by_index(ctx, folder);
    }
    if (folder->bins.n > 1 && !has_name(&folder->bins, usual)) {
        return vc_fail(ctx, VC_E_UNSUPPORTED,
                       "is a folder with %zu PyTorch files (%s, ...) and no index; give one of them", folder->bins.n,
                       folder->bins.names[0]);
    }
    VC_TRY(names_add(ctx, folder, &folder->shards, folder->bins.n == 1 ? folder->bins.names[0] : usual));
out:
    return status;
}

/* The first folder in the path of weights; 0 bytes: they lie in none, or are no weights. */
static size_t folder_bytes(const char *name)
{
    const char *slash = strchr(name, '/');
    const char *base = strrchr(name, '/');

    return slash != NULL && (ends_in(base, ".safetensors") || is_bin(base + 1)) ? (size_t)(slash - name) : 0;
}

/* A pipeline of diffusers has a model in each of several folders, which are models of their own with a layout each. To
 * make something of the whole, or of a file beside them, would leave some of them behind. */
static enum vc_status refuse_pipeline(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    const char *list = "";
    const char *last = "";
    bool pipeline = false;
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < folder->n_carried; i++) {
        pipeline = pipeline || strcmp(folder->carried[i].name, "model_index.json") == 0;
    }
    names_sort(&folder->left);
    for (i = 0; pipeline && i < folder->left.n && strlen(list) < 400; i++) {
        const char *name = folder->left.names[i];
        size_t n = folder_bytes(name);

        if (n != 0 && (strncmp(last, name, n) != 0 || last[n] != '/')) {
            list = vc_arena_printf(ctx, &folder->arena, "%s%s%.*s", list, list[0] != '\0' ? ", " : "", (int)n, name);
            VC_TRY_ALLOC(list);
            last = name;
        }
    }
    if (list[0] != '\0') {
        return vc_fail(ctx, VC_E_UNSUPPORTED,
                       "is a pipeline of several models (model_index.json); give their folders one by one: %s", list);
    }
out:
    return status;
}

/* The files of the model: those of the index, or the only one. */
static enum vc_status choose(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    enum vc_status status;

    if (folder->index != NULL && ends_in(folder->index, VC_BIN_INDEX_SUFFIX)) {
        return choose_bins(ctx, folder);
    }
    VC_TRY(folder->index == NULL ? refuse_pipeline(ctx, folder) : VC_OK);
    VC_TRY(choose_index(ctx, folder, &folder->indices, VC_INDEX_NAME));
    if (folder->index != NULL) {
        VC_TRY(choose_by_index(ctx, folder));
    } else if (folder->weights.n == 1) {
        VC_TRY(names_add(ctx, folder, &folder->shards, folder->weights.names[0]));
    } else if (has_name(&folder->weights, "model.safetensors")) {
        VC_TRY(names_add(ctx, folder, &folder->shards, "model.safetensors"));
    } else if (folder->weights.n == 0 && folder->bins.n + folder->bin_indices.n != 0) {
        VC_TRY(choose_bins(ctx, folder));
    } else {
        VC_TRY(choose_gguf(ctx, folder));
    }
out:
    return status;
}

/* A PyTorch file's name as the safetensors file that is made of it has it; others stay.
 *
 *     pytorch_model-00001-of-00002.bin -> model-00001-of-00002.safetensors */
static const char *out_name(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name, const char *suffix,
                            const char *out_suffix)
{
    static const char prefix[] = "pytorch_";
    const char *from = strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
    size_t n = strlen(from);

    return !folder->has_bins || !ends_in(from, suffix)
               ? name
               : vc_arena_printf(ctx, &folder->arena, "%.*s%s", (int)(n - strlen(suffix)), from, out_suffix);
}

static enum vc_status name_outputs(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    enum vc_status status = VC_OK;
    size_t i;

    for (i = 0; i < folder->shards.n; i++) {
        const char *name = out_name(ctx, folder, folder->shards.names[i], ".bin", ".safetensors");

        VC_TRY_ALLOC(name);
        VC_TRY(names_add(ctx, folder, &folder->out_shards, name));
    }
    if (folder->index != NULL) {
        folder->out_index = out_name(ctx, folder, folder->index, VC_BIN_INDEX_SUFFIX, VC_INDEX_SUFFIX);
        VC_TRY_ALLOC(folder->out_index);
    }
out:
    return status;
}

/* The shards are known: what else is there. */
static enum vc_status sort_rest(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    enum vc_status status = VC_OK;
    const char *name;
    size_t n = 0;
    size_t i;

    for (i = 0; i < folder->weights.n; i++) {
        if (!has_name(&folder->shards, folder->weights.names[i])) {
            VC_TRY(names_add(ctx, folder, &folder->left, folder->weights.names[i]));
            VC_TRY(vc_find(ctx, VC_SEVERITY_WARNING, "orphan", folder->weights.names[i], "%s",
                           folder->index != NULL ? "lies beside the shards, but the index names no tensor in it"
                                                 : "lies beside the model, and nothing says that it belongs to it"));
        }
    }
    for (i = 0; i < folder->indices.n; i++) {
        if (folder->index == NULL || strcmp(folder->index, folder->indices.names[i]) != 0) {
            VC_TRY(names_add(ctx, folder, &folder->left, folder->indices.names[i]));
        }
    }
    for (i = 0; i < folder->bins.n; i++) {
        VC_TRY(has_name(&folder->shards, folder->bins.names[i])
                   ? VC_OK
                   : names_add(ctx, folder, &folder->left, folder->bins.names[i]));
    }
    for (i = 0; i < folder->bin_indices.n; i++) {
        VC_TRY(folder->index != NULL && strcmp(folder->index, folder->bin_indices.names[i]) == 0
                   ? VC_OK
                   : names_add(ctx, folder, &folder->left, folder->bin_indices.names[i]));
    }
    for (i = 0; i < folder->n_carried; i++) { /* shards may have any name */
        if (!has_name(&folder->shards, folder->carried[i].name)) {
            folder->carried[n++] = folder->carried[i];
        }
    }
    folder->n_carried = n;
    names_sort(&folder->left);
    names_sort(&folder->odd);
    for (i = 0; i < folder->odd.n; i++) {
        const char *sentence = folder->odd.names[i];
        const char *why = strrchr(sentence, ':'); /* none of them has another one */

        name = vc_arena_printf(ctx, &folder->arena, "%.*s", (int)(why - sentence), sentence);
        VC_TRY_ALLOC(name);
        VC_TRY(vc_find(ctx, VC_SEVERITY_ERROR, "link", name, "%s", why + 2));
    }
    if (n > 1) {
        qsort(folder->carried, n, sizeof *folder->carried, compare_carried);
    }
out:
    return status;
}

/* ---- open, close ---- */

bool vc_infolder_is(const char *path)
{
    struct stat st;

    return strcmp(path, "-") != 0 && stat(path, &st) == 0 &&
           (S_ISDIR(st.st_mode) ||
            (S_ISREG(st.st_mode) && (ends_in(path, VC_INDEX_SUFFIX) || ends_in(path, VC_BIN_INDEX_SUFFIX))));
}

static enum vc_status split_path(struct vc_ctx *ctx, struct vc_infolder *folder, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = strlen(path);
    enum vc_status status = VC_OK;

    if (ends_in(path, VC_INDEX_SUFFIX) || ends_in(path, VC_BIN_INDEX_SUFFIX)) {
        folder->index = vc_arena_printf(ctx, &folder->arena, "%s", slash == NULL ? path : slash + 1);
        VC_TRY_ALLOC(folder->index);
        n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    }
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    folder->path = vc_arena_printf(ctx, &folder->arena, "%.*s", (int)(n == 0 ? 1 : n), n == 0 ? "." : path);
    VC_TRY_ALLOC(folder->path);
out:
    return status;
}

static enum vc_status scan(struct vc_ctx *ctx, const char *path,
                           enum vc_status (*chooser)(struct vc_ctx *ctx, struct vc_infolder *folder),
                           struct vc_infolder **out)
{
    struct vc_infolder *folder = vc_calloc_array(ctx, VC_TAG_NAMES, 1, sizeof *folder);
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(folder);
    VC_TRY(split_path(ctx, folder, path));
    VC_TRY(scan_level(ctx, folder, AT_FDCWD, folder->path, "", 0));
    names_sort(&folder->weights);
    names_sort(&folder->indices);
    names_sort(&folder->bins);
    names_sort(&folder->bin_indices);
    VC_TRY(chooser(ctx, folder));
    VC_TRY(sort_rest(ctx, folder));
    VC_TRY(name_outputs(ctx, folder));
    *out = folder;
    return VC_OK;
out:
    vc_infolder_close(ctx, folder);
    return status;
}

enum vc_status vc_infolder_scan(struct vc_ctx *ctx, const char *path, struct vc_infolder **out)
{
    return scan(ctx, path, choose, out);
}

enum vc_status vc_infolder_scan_all(struct vc_ctx *ctx, const char *path, struct vc_infolder **out)
{
    return scan(ctx, path, choose_all, out);
}

void vc_infolder_close(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    if (folder == NULL) {
        return;
    }
    vc_weight_index_release(ctx, &folder->map);
    vc_free(ctx, folder->weights.names);
    vc_free(ctx, folder->indices.names);
    vc_free(ctx, folder->left.names);
    vc_free(ctx, folder->odd.names);
    vc_free(ctx, folder->shards.names);
    vc_free(ctx, folder->bins.names);
    vc_free(ctx, folder->bin_indices.names);
    vc_free(ctx, folder->out_shards.names);
    vc_free(ctx, folder->carried);
    vc_arena_release(ctx, &folder->arena);
    vc_free(ctx, folder);
}

enum vc_status vc_infolder_open(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name,
                                struct vc_infile **out)
{
    const char *path = vc_arena_printf(ctx, &folder->arena, "%s/%s", folder->path, name);

    *out = NULL;
    if (path == NULL) {
        return VC_E_NOMEM;
    }
    if (folder->index != NULL) {
        return vc_infile_open_other(ctx, path, folder->index, out);
    }
    return vc_infile_open(ctx, path, out);
}

size_t vc_infolder_shard_count(const struct vc_infolder *folder)
{
    return folder->shards.n;
}

const char *vc_infolder_shard(const struct vc_infolder *folder, size_t index)
{
    return folder->shards.names[index];
}

const char *vc_infolder_index(const struct vc_infolder *folder)
{
    return folder->index;
}

bool vc_infolder_has_bins(const struct vc_infolder *folder)
{
    return folder->has_bins;
}

const char *vc_infolder_other_bin(const struct vc_infolder *folder)
{
    return !folder->has_bins && folder->gguf == NULL && folder->bins.n != 0 ? folder->bins.names[0] : NULL;
}

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

const char *vc_infolder_path(const struct vc_infolder *folder)
{
    return folder->path;
}

const char *vc_infolder_gguf(const struct vc_infolder *folder)
{
    return folder->gguf;
}

size_t vc_infolder_carried_count(const struct vc_infolder *folder)
{
    return folder->n_carried;
}

const struct vc_carried *vc_infolder_carried(const struct vc_infolder *folder, size_t index)
{
    return &folder->carried[index];
}

enum vc_status vc_infolder_open_carried(struct vc_ctx *ctx, struct vc_infolder *folder,
                                        const struct vc_carried *carried, struct vc_infile **out)
{
    const char *path = vc_arena_printf(ctx, &folder->arena, "%s/%s", folder->path, carried->name);
    struct stat st;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_TRY_ALLOC(path);
    if (stat(path, &st) != 0) {
        return vc_fail_errno(ctx, errno, "cannot open");
    }
    if ((uint64_t)st.st_size != carried->size_bytes || st.st_mtim.tv_sec != carried->modified.tv_sec ||
        st.st_mtim.tv_nsec != carried->modified.tv_nsec) {
        return vc_fail(ctx, VC_E_FORMAT, "was changed while it was read");
    }
    VC_TRY(carried->size_bytes != 0 ? vc_infile_open(ctx, path, out) : VC_OK);
out:
    return status;
}

size_t vc_infolder_odd_count(const struct vc_infolder *folder)
{
    return folder->odd.n;
}

const char *vc_infolder_odd(const struct vc_infolder *folder, size_t index)
{
    return folder->odd.names[index];
}

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

size_t vc_infolder_left_count(const struct vc_infolder *folder)
{
    return folder->left.n;
}

const char *vc_infolder_left(const struct vc_infolder *folder, size_t index)
{
    return folder->left.names[index];
}
