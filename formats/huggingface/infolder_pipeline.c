/* infolder_pipeline.c - a folder whose models lie in folders below it, a pipeline of diffusers.
 *
 *     model_index.json      names the parts
 *     unet/                 with a config.json, or with weights: a model, a component of the pipeline
 *     scheduler/            neither: goes along
 *     old/                  in no part: its small files go along, its weights stay behind
 *
 * Every part has to be there, as a folder and not as a link to one, because loaders look for it.
 *
 * Each component is opened later as a folder of its own (formats/pipeline.c). Here only names are looked at, and
 * model_index.json is read. */
#define _GNU_SOURCE /* strcasestr */
#include <errno.h>

#include "core/base/findings.h"
#include "core/text/glob.h"
#include "formats/huggingface/config/hf_config.h"
#include "formats/huggingface/infolder_internal.h"
#include "formats/huggingface/model_index.h"

/* The file lies in the folder of that name. */
static bool is_below(const char *file, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(file, folder, n) == 0 && file[n] == '/';
}

/* carried is in the order of the scan here, not sorted yet. */
static bool has_file(const struct vc_infolder *folder, const char *name)
{
    size_t i = 0;

    while (i < folder->n_carried && strcmp(folder->carried[i].name, name) != 0) {
        i++;
    }
    return i < folder->n_carried;
}

static bool is_weights(const char *name)
{
    return vc_infolder_ends_in(name, ".safetensors") || vc_infolder_is_other_weights(name);
}

bool vc_infolder_is_pipeline(const struct vc_infolder *folder)
{
    size_t i = 0;

    while (i < folder->left.n && (strchr(folder->left.names[i], '/') == NULL || !is_weights(folder->left.names[i]))) {
        i++;
    }
    return i < folder->left.n && has_file(folder, VC_MODEL_INDEX_NAME);
}

/* Parts of model_index.json, in the folder's arena; *n is 0 after a failure. */
static enum vc_status read_parts(struct vc_ctx *ctx, struct vc_infolder *folder, struct vc_pipeline_part **parts,
                                 size_t *n)
{
    struct vc_infile *file = NULL;
    char *text = NULL;
    enum vc_status status;

    *parts = NULL;
    *n = 0;
    VC_TRY(vc_infolder_open(ctx, folder, VC_MODEL_INDEX_NAME, &file));
    VC_TRY(vc_infile_text(ctx, file, VC_MODEL_INDEX_MAX_BYTES, &text));
    VC_TRY(vc_model_index_parse(ctx, &folder->arena, text, (size_t)file->size_bytes, parts, n));
    VC_TRY(vc_infile_check(ctx, file));
out:
    vc_free(ctx, text);
    vc_infile_close(ctx, file);
    *n = status == VC_OK ? *n : 0;
    return status == VC_OK ? VC_OK : vc_context(ctx, VC_MODEL_INDEX_NAME);
}

/* There is a folder for the part. lstat: a link to a folder is refused, too. */
static enum vc_status check_part(struct vc_ctx *ctx, struct vc_infolder *folder, const struct vc_pipeline_part *part)
{
    const char *path = vc_arena_printf(ctx, &folder->arena, "%s/%s", folder->path, part->name);
    char real[PATH_MAX];
    struct stat st;

    VC_CALL_ALLOC(path);
    if (lstat(vc_mount_path(path, real), &st) != 0) {
        return errno == ENOENT ? vc_fail(ctx, VC_E_FORMAT,
                                         "%s: " VC_MODEL_INDEX_NAME " names this part (%s of %s), and there is no such "
                                         "folder",
                                         part->name, part->class_name, part->library)
                               : vc_fail_errno(ctx, errno, "%s: cannot be looked at", part->name);
    }
    VC_REFUSE_IF(!S_ISDIR(st.st_mode), ctx, VC_E_UNSUPPORTED, "%s: is %s, and has to be a folder of the pipeline",
                 part->name, S_ISLNK(st.st_mode) ? "a link" : "a file");
    return VC_OK;
}

/* Parts that have a configuration called like that of a model, and no weights. The classes of transformers and
 * diffusers for them end in these words. */
static bool is_no_model(const struct vc_pipeline_part *part)
{
    static const char *const globs[] = {"*Tokenizer*", "*Processor*", "*Extractor*", "*Scheduler*"};
    size_t i = 0;

    while (i < sizeof globs / sizeof globs[0] && !vc_glob_match(globs[i], part->class_name)) {
        i++;
    }
    return i < sizeof globs / sizeof globs[0];
}

/* Whether the part is a model. One without weights is refused: what is made of it could not be loaded. */
static enum vc_status look_at_part(struct vc_ctx *ctx, struct vc_infolder *folder, const struct vc_pipeline_part *part,
                                   bool *is_model)
{
    const char *config = vc_arena_printf(ctx, &folder->arena, "%s/" VC_HF_CONFIG_NAME, part->name);

    *is_model = false;
    VC_CALL_ALLOC(config);
    VC_CALL(check_part(ctx, folder, part));
    for (size_t i = 0; i < folder->left.n; i++) {
        const char *name = folder->left.names[i];

        *is_model = *is_model || (is_below(name, part->name) && is_weights(name));
    }
    VC_REFUSE_IF(!*is_model && !is_no_model(part) && has_file(folder, config), ctx, VC_E_FORMAT,
                 "%s: has a " VC_HF_CONFIG_NAME " and no weights", part->name);
    return VC_OK;
}

/* Whether the file lies below the folder of a component. */
static bool is_of_component(const struct vc_infolder *folder, const char *file)
{
    size_t i = 0;

    while (i < folder->n_components && !is_below(file, folder->components[i].name)) {
        i++;
    }
    return i < folder->n_components;
}

static void forget_names(const struct vc_infolder *folder, struct infolder_names *names)
{
    size_t n = 0;

    for (size_t i = 0; i < names->n; i++) {
        if (!is_of_component(folder, names->names[i])) {
            names->names[n++] = names->names[i];
        }
    }
    names->n = n;
}

/* Files below the components are theirs. */
static void forget_files(struct vc_infolder *folder)
{
    size_t n = 0;

    for (size_t i = 0; i < folder->n_carried; i++) {
        if (!is_of_component(folder, folder->carried[i].name)) {
            folder->carried[n++] = folder->carried[i];
        }
    }
    folder->n_carried = n;
    forget_names(folder, &folder->left);
    forget_names(folder, &folder->odd);
}

/* components overwrites parts in place: its number never passes theirs. With findings, a part that is wrong is left
 * out, and the others are looked at. */
enum vc_status vc_infolder_find_components(struct vc_ctx *ctx, struct vc_infolder *folder)
{
    struct vc_pipeline_part *parts = NULL;
    size_t n = 0;

    folder->has_models = true;
    VC_CALL(vc_collect(ctx, read_parts(ctx, folder, &parts, &n), "index", NULL));
    folder->components = parts;
    for (size_t i = 0; i < n; i++) {
        bool is_model = false;
        enum vc_status status = look_at_part(ctx, folder, &parts[i], &is_model);

        VC_CALL(vc_collect(ctx, status, "part", parts[i].name));
        if (is_model) {
            folder->components[folder->n_components++] = parts[i];
        }
    }
    VC_REFUSE_IF(
        folder->n_components == 0 && !(vc_collecting(ctx) && ctx->findings->n_errors != 0), ctx, VC_E_UNSUPPORTED,
        "is a pipeline (" VC_MODEL_INDEX_NAME ") of no models that can be read; give the folders of its weights "
        "themselves");
    forget_files(folder);
    return VC_OK;
}
