/* safetensors_index.c - the index of a folder of finished files: the last step of workers that share a checkpoint. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "formats/infolder.h"
#include "formats/outfile.h"
#include "formats/safetensors.h"
#include "formats/safetensors_files.h"

/* Names that say how many files there are have to be as many. */
static enum vc_status check_count(struct vc_ctx *ctx, const struct vc_infolder *folder)
{
    size_t n = vc_infolder_shard_count(folder);
    size_t i;

    for (i = 0; i < n; i++) {
        const char *name = vc_infolder_shard(folder, i);
        const char *of = strstr(name, "-of-");
        unsigned long count = 0;

        if (of != NULL && sscanf(of, "-of-%9lu.", &count) == 1 && count != n) {
            return vc_fail(ctx, VC_E_UNSUPPORTED, "%s says that there are %lu files, but the folder has %zu", name,
                           count, n);
        }
    }
    return VC_OK;
}

static enum vc_status make_text(struct vc_ctx *ctx, const struct vc_model *model, struct vc_text *text,
                                struct vc_index_summary *out)
{
    const struct safetensors *self = model->self;
    struct vc_index_entry *entries = vc_alloc_array(ctx, VC_TAG_NAMES, self->n_entries, sizeof *entries);
    enum vc_status status = VC_OK;
    size_t i;

    VC_TRY_ALLOC(entries);
    for (i = 0; i < self->n_entries; i++) {
        entries[i] = (struct vc_index_entry){self->entries[i].name, self->shards[self->entries[i].shard].name};
        out->total_size += self->entries[i].n_bytes;
    }
    out->n_tensors = self->n_entries;
    out->n_files = self->n_shards;
    VC_TRY(safetensors_index_text(ctx, out->total_size, self->n_entries, entries, text));
out:
    vc_free(ctx, entries);
    return status;
}

static enum vc_status write_text(struct vc_ctx *ctx, const struct vc_infolder *folder, const struct vc_text *text)
{
    struct vc_outfile *file = NULL;
    size_t n = strlen(vc_infolder_path(folder)) + sizeof "/" VC_INDEX_NAME;
    char *path = vc_alloc(ctx, VC_TAG_NAMES, n);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(path);
    (void)snprintf(path, n, "%s/%s", vc_infolder_path(folder), VC_INDEX_NAME);
    VC_TRY(vc_outfile_create(ctx, path, true, NULL, &file));
    VC_TRY(vc_outfile_begin(ctx, file));
    VC_TRY(vc_outfile_write(ctx, file, 0, text->data, text->n));
    VC_TRY(vc_outfile_sync(ctx, file));
    VC_TRY(vc_outfile_commit(ctx, file));
out:
    vc_outfile_free(ctx, file);
    vc_free(ctx, path);
    return status;
}

enum vc_status vc_index_write(struct vc_ctx *ctx, const char *path, struct vc_index_summary *out)
{
    struct vc_infolder *folder = NULL;
    bool taken = false; /* the model has the folder */
    struct vc_model model = {.ctx = ctx};
    struct vc_text text;
    enum vc_status status = VC_OK;

    vc_clear_error(ctx);
    *out = (struct vc_index_summary){.name = VC_INDEX_NAME};
    vc_text_init(&text, ctx);
    VC_TRY(vc_infolder_scan_all(ctx, path, &folder));
    VC_TRY(check_count(ctx, folder));
    taken = true;
    VC_TRY(vc_safetensors_open_folder(ctx, folder, &model));
    VC_TRY(make_text(ctx, &model, &text, out));
    VC_TRY(write_text(ctx, folder, &text));
out:
    vc_text_release(&text);
    if (model.ops != NULL) {
        model.ops->close(&model);
    } else if (!taken) {
        vc_infolder_close(ctx, folder);
    }
    vc_free(ctx, model.by_name);
    vc_free(ctx, model.quants);
    vc_free(ctx, model.recipe);
    return status == VC_OK ? VC_OK : vc_context(ctx, "%s", path);
}
