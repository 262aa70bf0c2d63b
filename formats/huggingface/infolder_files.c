/* infolder_files.c - lists of names of files in a folder, what a name says, and how the files are opened. */
#include "core/base/array.h"
#include "formats/huggingface/infolder_internal.h"
#include "formats/io/side_file.h"
#include <errno.h>
#include <strings.h>

/* File systems and users mix capitals: MODEL.SAFETENSORS. */
bool vc_infolder_ends_in(const char *name, const char *suffix)
{
    size_t n = strlen(name);
    size_t k = strlen(suffix);

    return n >= k && strcasecmp(name + n - k, suffix) == 0;
}

/* Appends a copy of the name to one of the folder's lists. */
enum vc_status vc_infolder_add_name(struct vc_ctx *ctx, struct vc_infolder *folder, struct infolder_names *to,
                                    const char *name)
{
    const char *copy = vc_arena_printf(ctx, &folder->arena, "%s", name);

    VC_CALL_ALLOC(copy);
    VC_CALL(VC_GROW(ctx, VC_TAG_NAMES, to->names, to->capacity, to->n + 1));
    to->names[to->n++] = copy;
    return VC_OK;
}

/* `at` is behind the last point before ".json": the variant of "model.safetensors.index.fp16.json". A name that is
 * nothing but the suffix is no index. */
bool vc_infolder_names_index(const char *name, const char *suffix, const char **variant, size_t *n_variant)
{
    static const char end[] = ".json";
    size_t n_kind = strlen(suffix) - (sizeof end - 1); /* ".safetensors.index" */
    size_t n = strlen(name);
    const char *at;

    *variant = "";
    *n_variant = 0;
    if (vc_infolder_ends_in(name, suffix)) {
        return n > strlen(suffix);
    }
    if (n <= strlen(suffix) || !vc_infolder_ends_in(name, end)) {
        return false;
    }
    for (at = name + n - (sizeof end - 1); at > name && at[-1] != '.'; at--) {
    }
    if (at <= name + n_kind + 1 || strncasecmp(at - 1 - n_kind, suffix, n_kind) != 0) {
        return false;
    }
    *variant = at;
    *n_variant = n - (sizeof end - 1) - (size_t)(at - name);
    return true;
}

/* Weights and indices of other kinds: never carried along, because a folder with two sets of weights would have an old
 * one. */
bool vc_infolder_is_other_weights(const char *name)
{
    static const char *const suffixes[] = {".bin",     ".pt",   ".pth",  ".ckpt",      ".gguf",   ".h5",
                                           ".msgpack", ".onnx", ".ot",   ".tflite",    ".npz",    ".npy",
                                           ".pb",      ".pkl",  ".data", ".onnx_data", ".mlmodel"};

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (vc_infolder_ends_in(name, suffixes[i])) {
            return true;
        }
    }
    return vc_infolder_ends_in(name, ".index.json") || strstr(name, ".safetensors.index.") != NULL ||
           strstr(name, ".bin.index.") != NULL;
}

/* A file that is made in memory (vc_infolder_add_made), as an input; its bytes are copied, because the infile frees
 * them. */
static enum vc_status open_made(struct vc_ctx *ctx, const struct vc_carried *carried, struct vc_infile **out)
{
    unsigned char *bytes = vc_alloc(ctx, VC_TAG_IO, (size_t)carried->size_bytes);

    VC_CALL_ALLOC(bytes);
    memcpy(bytes, carried->made, (size_t)carried->size_bytes);
    return vc_infile_of_bytes(ctx, bytes, carried->size_bytes, carried->name, out);
}

/* A file that the index names and that is not there is a fault of the index: VC_E_FORMAT. */
enum vc_status vc_infolder_open(struct vc_ctx *ctx, struct vc_infolder *folder, const char *name,
                                struct vc_infile **out)
{
    const char *path = vc_arena_printf(ctx, &folder->arena, "%s/%s", folder->path, name);

    *out = NULL;
    VC_CALL_ALLOC(path);
    if (vc_infolder_ends_in(name, ".json")) { /* an index; links of weights may lead anywhere */
        bool there;

        VC_CALL(vc_side_check(ctx, folder->path, name, &there));
    }
    if (folder->index != NULL) {
        return vc_infile_open_other(ctx, path, folder->index, out);
    }
    return vc_infile_open(ctx, path, out);
}

/* Size and time have to be those of the scan. */
enum vc_status vc_infolder_open_carried(struct vc_ctx *ctx, struct vc_infolder *folder,
                                        const struct vc_carried *carried, struct vc_infile **out)
{
    const char *path;
    char real[PATH_MAX];
    struct stat st;

    *out = NULL;
    if (carried->made != NULL) {
        return open_made(ctx, carried, out);
    }
    VC_CALL_ALLOC(path = vc_arena_printf(ctx, &folder->arena, "%s/%s", folder->path, carried->name));
    VC_RETURN_IF(stat(vc_mount_path(path, real), &st) != 0, vc_fail_errno(ctx, errno, "cannot open"));
    VC_REFUSE_IF((uint64_t)st.st_size != carried->size_bytes || st.st_mtim.tv_sec != carried->modified.tv_sec ||
                     st.st_mtim.tv_nsec != carried->modified.tv_nsec,
                 ctx, VC_E_FORMAT, "was changed while it was read");
    return carried->size_bytes != 0 ? vc_infile_open(ctx, path, out) : VC_OK;
}

/* Of sorted names. */
bool vc_infolder_has_name(const struct infolder_names *names, const char *name)
{
    return names->n != 0 && bsearch(&name, names->names, names->n, sizeof *names->names, vc_compare_texts) != NULL;
}
