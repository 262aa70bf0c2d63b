/* folder_index.c - the index of a folder of finished files: the last step of workers that share a checkpoint.
 *
 *     x-00001-of-00002.safetensors   worker 1    vcompress index DIR    x.safetensors.index.json
 *     x-00002-of-00002.safetensors   worker 2
 *
 * Reads all headers, refuses what does not belong together, writes the index as one file that appears whole. */

#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/infolder.h"
#include "formats/huggingface/weight_index.h"
#include "formats/io/numbered_name.h"
#include "formats/safetensors/safetensors.h"

#define EXTENSION ".safetensors"

/* Where the names of files say how many there are (x-00001-of-00003), so many have to be there. A worker that is still
 * running shows here. */
static enum vc_status check_count(struct vc_ctx *ctx, const struct vc_infolder *folder)
{
    size_t n = vc_infolder_shard_count(folder);
    struct vc_numbered_name numbered;

    for (size_t i = 0; i < n; i++) {
        const char *name = vc_infolder_shard(folder, i);

        VC_REFUSE_IF(vc_numbered_name_parse(name, EXTENSION, &numbered) &&
                         (numbered.count != n || numbered.number < 1 || numbered.number > n),
                     ctx, VC_E_UNSUPPORTED, "%s: its name says that there are %lu files, but the folder has %zu", name,
                     numbered.count, n);
    }
    return VC_OK;
}

/* Workers did without the files of others: the last of them has written config.json. .shard-headers is where workers
 * leave the headers of their files for each other (safetensors_kept.c). */
static enum vc_status check_config(struct vc_ctx *ctx, const struct vc_infolder *folder)
{
    for (size_t i = 0; i < vc_infolder_carried_count(folder); i++) {
        if (strcmp(vc_infolder_carried(folder, i)->name, VC_HF_CONFIG_NAME) == 0) {
            return VC_OK;
        }
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "has no config.json: no worker has found the headers of all other files in .shard-headers, because "
                   "some ran at the same time; run one of them again");
}

/* The name of the index: x.safetensors.index.json where the files are called x-00001-of-00003.safetensors, else the
 * usual one. n_prefix is 0 as soon as one name differs. *out belongs to the pool. */
static enum vc_status name_index(struct vc_ctx *ctx, const struct vc_infolder *folder, char **out)
{
    size_t n = vc_infolder_shard_count(folder);
    const char *first = vc_infolder_shard(folder, 0);
    size_t n_prefix = 0;
    struct vc_numbered_name numbered;
    size_t i;

    for (i = 0; i < n && vc_numbered_name_parse(vc_infolder_shard(folder, i), EXTENSION, &numbered); i++) {
        if (i != 0 && (numbered.n_prefix != n_prefix || strncmp(first, vc_infolder_shard(folder, i), n_prefix) != 0)) {
            break;
        }
        n_prefix = numbered.n_prefix;
    }
    n_prefix = i == n ? n_prefix : 0;
    size_t n_bytes = n_prefix + sizeof VC_INDEX_NAME;
    VC_CALL_ALLOC(*out = vc_alloc(ctx, VC_TAG_NAMES, n_bytes));
    (void)snprintf(*out, n_bytes, "%.*s%s", (int)n_prefix, first, n_prefix != 0 ? VC_INDEX_SUFFIX : VC_INDEX_NAME);
    return VC_OK;
}

/* total_size counts bytes of data, as Hugging Face's own indices do. */
static enum vc_status make_text(struct vc_ctx *ctx, const struct vc_model *model, struct vc_text *text,
                                struct vc_index_summary *out)
{
    const struct safetensors *self = model->self;
    VC_SCOPED struct weight_index_entry *entries = vc_alloc_array(ctx, VC_TAG_NAMES, self->n_entries, sizeof *entries);

    VC_CALL_ALLOC(entries);
    for (size_t i = 0; i < self->n_entries; i++) {
        const struct safetensors_entry entry = vc_safetensors_entry(self, i);

        entries[i] = (struct weight_index_entry){entry.name, self->shards[model->io[i].shard].name};
        out->total_size += entry.n_bytes;
    }
    out->n_tensors = self->n_entries;
    out->n_files = self->n_shards;
    return vc_weight_index_text(out->total_size, self->n_entries, entries, text);
}

/* The folder as a model of all its files, whatever index it has. */
static enum vc_status open_all(struct vc_ctx *ctx, const char *path, struct vc_model **out)
{
    struct vc_model *model = vc_calloc_array(ctx, VC_TAG_MISC, 1, sizeof *model);
    struct vc_infolder *folder = NULL;

    *out = model;
    VC_CALL_ALLOC(model);
    model->ctx = ctx;
    VC_CALL(vc_infolder_scan_all(ctx, path, &folder));
    model->expect = vc_format_expect;
    model->folder = folder;
    model->close_folder = vc_infolder_close;
    VC_CALL(check_count(ctx, folder));
    VC_CALL(vc_safetensors_open_folder(ctx, NULL, model));
    VC_CALL(vc_safetensors_check_job(ctx, model->self));
    return vc_safetensors_has_kept(vc_infolder_path(folder)) ? check_config(ctx, folder) : VC_OK;
}

/* Headers of workers go once the index is there. *out: what the command prints. */
enum vc_status vc_index_write(struct vc_ctx *ctx, const char *path, struct vc_index_summary *out)
{
    struct vc_model *model = NULL;
    VC_SCOPED_TEXT struct vc_text text = {.ctx = ctx};
    char *name = NULL;
    enum vc_status status;

    vc_clear_error(ctx);
    *out = (struct vc_index_summary){.n_files = 0};
    VC_TRY(open_all(ctx, path, &model));
    VC_TRY(name_index(ctx, model->folder, &name));
    VC_TRY(make_text(ctx, model, &text, out));
    VC_TRY(vc_outfile_replace(ctx, vc_infolder_path(model->folder), name, &text));
    vc_safetensors_remove_kept(vc_infolder_path(model->folder));
    (void)snprintf(out->name, sizeof out->name, "%s", name);
out:
    vc_free(ctx, name);
    vc_model_close(model);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", path);
}
