/* hf_path.c - files beside a model, by name: "llama/" or "llama/model.safetensors" and "tokenizer.json" give
 * "llama/tokenizer.json". See hf_config.h; no other file of this folder is asked, since all ask this one. */
#include <errno.h>

#include "formats/huggingface/config/hf_config.h"
#include "formats/io/mounts.h"

/* *there false: nothing is there. Other failures of the system are failures of the call. */
enum vc_status vc_hf_look(struct vc_ctx *ctx, const char *path, struct stat *st, bool *there)
{
    char real[PATH_MAX];

    *there = stat(vc_mount_path(path, real), st) == 0;
    return *there || errno == ENOENT || errno == ENOTDIR || errno == ELOOP
               ? VC_OK
               : vc_fail_errno(ctx, errno, "cannot look at %s", path);
}

/* The path of `name` in the folder `path`, or beside the file of that path. NULL: failed. */
char *vc_hf_path_beside(struct vc_ctx *ctx, const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    bool is_folder;

    if (vc_hf_look(ctx, path, &st, &is_folder) != VC_OK) {
        return NULL;
    }
    is_folder = is_folder && S_ISDIR(st.st_mode);
    size_t n = is_folder ? strlen(path) : slash != NULL ? (size_t)(slash + 1 - path) : 0;
    size_t n_bytes = n + strlen(name) + 2;
    char *beside = vc_alloc(ctx, VC_TAG_NAMES, n_bytes);
    if (beside != NULL) {
        (void)snprintf(beside, n_bytes, "%.*s%s%s", (int)n, path, is_folder ? "/" : "", name);
    }
    return beside;
}
