/* bin_folder.c - a Hugging Face folder whose weights are PyTorch files, as one model.
 *
 *     pytorch_model.bin, config.json, tokenizer.json, ...                                       one file
 *     pytorch_model-00001-of-00002.bin, ..., pytorch_model.bin.index.json, config.json, ...     shards and their index
 *
 * Each file is opened as if it had been given (vc_model_open), and they are joined (core/model/joined_model.h). What is
 * made of such a folder is a folder of safetensors, which is what loaders want: so the row has the writer of those, and
 * no name asks for it. It belongs to no room, because it needs two of them. */
#include "formats/bin_folder.h"

#include "core/model/joined_model.h"
#include "formats/huggingface/infolder.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/torch.h"

static const char *const no_extensions[] = {NULL};

/* The writer of safetensors, under a name of its own: a model of this row is not what the reader of safetensors made
 * (vc_format_writes). */
static enum vc_status folder_sink_create(struct vc_ctx *ctx, const struct vc_model *model,
                                         const struct vc_write_options *options, struct vc_sink **out)
{
    return vc_safetensors_sink_create(ctx, model, options, out);
}

static const struct vc_format vc_format_bin_folder = {.name = "torch",
                                                      .extensions = no_extensions,
                                                      .create_sink = folder_sink_create,
                                                      .divides = true,
                                                      .dialect = &vc_dialect_plain};

/* One file. With findings also one that is missing is the folder's fault, and the others are looked at: *out is NULL
 * then. */
static enum vc_status open_file(struct vc_ctx *ctx, vc_open_fn *open_model, const struct vc_infolder *folder,
                                const char *name, const struct vc_open_options *options, struct vc_model **out)
{
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    const char *path = vc_arena_printf(ctx, &arena, "%s/%s", vc_infolder_path(folder), name);
    struct vc_infile *file = NULL;
    enum vc_status status = VC_OK;

    *out = NULL;
    VC_CALL_ALLOC(path);
    if (vc_infolder_index(folder) != NULL) { /* says of a file that is not there who names it */
        status = vc_infile_open_other(ctx, path, vc_infolder_index(folder), &file);
        vc_infile_close(ctx, file);
    }
    status = status == VC_OK ? open_model(ctx, path, options, out) : status;
    if (status == VC_OK && (*out)->format != &vc_format_torch) {
        status = vc_fail(ctx, VC_E_FORMAT, "is %s by its content, expected torch", (*out)->format_name);
        vc_model_close(*out);
        *out = NULL;
    }
    return status == VC_OK ? VC_OK : vc_collect_missing(ctx, vc_context(ctx, "%s", name), "shard", name);
}

/* Every tensor is in the index at its file, and nothing else is. */
static enum vc_status check_index(struct vc_ctx *ctx, struct vc_infolder *folder, struct vc_model **parts, size_t n,
                                  struct vc_model *model)
{
    VC_SCOPED bool *lost = vc_calloc_array(ctx, VC_TAG_NAMES, n, sizeof *lost);

    VC_CALL_ALLOC(lost);
    for (size_t i = 0; i < n; i++) {
        lost[i] = parts[i] == NULL;
    }
    return vc_infolder_check_index(ctx, folder, lost, model);
}

enum vc_status vc_bin_folder_open(struct vc_ctx *ctx, vc_open_fn *open_model, const struct vc_open_options *options,
                                  struct vc_model *model)
{
    struct vc_infolder *folder = model->folder;
    size_t n = vc_infolder_shard_count(folder);
    struct vc_model **parts;
    enum vc_status status = VC_OK;

    vc_model_set_format(model, &vc_format_bin_folder);
    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, parts, n));
    for (size_t i = 0; i < n && status == VC_OK; i++) {
        status = open_file(ctx, open_model, folder, vc_infolder_shard(folder, i), options, &parts[i]);
    }
    if (status != VC_OK) {
        for (size_t i = 0; i < n; i++) {
            vc_model_close(parts[i]);
        }
        vc_free(ctx, parts);
        return status;
    }
    VC_CALL(vc_joined_model_make(ctx, parts, n, NULL, model));
    VC_CALL(check_index(ctx, folder, parts, n, model));
    return vc_infolder_family(ctx, folder, &model->family);
}
