/* safetensors_kept.c - headers of input files that are gone, in the output's folder: see safetensors.h.
 *
 *     out/.shard-headers/model-00002-of-00003.safetensors     the first bytes of the input file, up to its data
 *
 * A worker whose machine has only its own shards needs the names and shapes of the others; each worker leaves them
 * here, and `vcompress index` removes the folder. */
#include <fcntl.h>

#include "formats/huggingface/hf_carry.h"
#include "formats/io/temporary.h"
#include "formats/safetensors/safetensors.h"

#define FOLDER ".shard-headers"

/* *there false: no worker has left it yet. */
enum vc_status vc_safetensors_open_kept(struct vc_ctx *ctx, struct vc_arena *arena, const char *out, const char *name,
                                        bool *there, struct vc_infile **file)
{
    const char *path = vc_arena_printf(ctx, arena, "%s/" FOLDER "/%s", out, name);
    struct stat st;

    VC_CALL_ALLOC(path);
    VC_CALL(vc_hf_look(ctx, path, &st, there));
    return *there ? vc_infile_open(ctx, path, file) : VC_OK;
}

/* Prefix and header, byte for byte. */
enum vc_status vc_safetensors_keep_header(struct vc_ctx *ctx, const struct safetensors_shard *from,
                                          struct vc_outfolder *folder)
{
    char name[PATH_MAX];
    VC_SCOPED char *bytes = vc_alloc(ctx, VC_TAG_IO, (size_t)from->data_offset);

    VC_CALL_ALLOC(bytes);
    (void)snprintf(name, sizeof name, FOLDER "/%s", from->name);
    VC_CALL(vc_infile_read(ctx, from->file, 0, bytes, (size_t)from->data_offset));
    return vc_hf_write_text(ctx, folder, name, bytes, (size_t)from->data_offset);
}

bool vc_safetensors_has_kept(const char *out)
{
    char path[PATH_MAX];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/" FOLDER, out);
    return stat(path, &st) == 0;
}

void vc_safetensors_remove_kept(const char *out)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/" FOLDER, out);
    vc_temporary_remove_tree(AT_FDCWD, path);
}
