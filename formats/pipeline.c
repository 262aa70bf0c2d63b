/* pipeline.c - the reader of pipelines. Each component is opened as if its folder had been given, and they are joined
 * (core/model/joined_model.h); the joined model knows them as its components, of which everything is asked that a
 * loader has a say in. It belongs to no room, because components may be files of two.
 *
 *     unet/      a, b         joined model:  unet/a, unet/b, vae/c
 *     vae/       c            components:    unet from tensor 0, vae from tensor 2 */
#include "formats/pipeline.h"

#include "core/base/findings.h"
#include "core/model/joined_model.h"
#include "formats/dialects/dialects.h"
#include "formats/huggingface/infolder.h"

static const char *const no_extensions[] = {NULL};

static const struct vc_format vc_format_pipeline = {.name = "diffusers",
                                                    .title = "pipelines of diffusers",
                                                    .extensions = no_extensions,
                                                    .create_sink = vc_pipeline_sink_create,
                                                    .divides = true,
                                                    .tells_axes = true, /* the components did */
                                                    .stays = true,
                                                    .dialect = &vc_dialect_plain};

/* ---- opening ---- */

/* Refuses what is no folder with a model of safetensors or PyTorch files in it. */
static enum vc_status check_component(struct vc_ctx *ctx, const struct vc_model *model)
{
    VC_REFUSE_IF(model->n_components != 0, ctx, VC_E_UNSUPPORTED, "is a pipeline itself; give it by itself");
    VC_REFUSE_IF(model->folder == NULL, ctx, VC_E_UNSUPPORTED,
                 "is %s, but the models of a pipeline are safetensors or PyTorch files", model->format_name);
    return VC_OK;
}

/* One component. With findings also one that cannot be read is the pipeline's fault, and the others are looked at: *out
 * is NULL then. */
static enum vc_status open_component(struct vc_ctx *ctx, vc_open_fn *open_model, const struct vc_infolder *folder,
                                     const char *name, const struct vc_open_options *options, struct vc_model **out)
{
    VC_SCOPED_ARENA struct vc_arena arena = {0};
    const char *path = vc_arena_printf(ctx, &arena, "%s/%s", vc_infolder_path(folder), name);

    *out = NULL;
    VC_CALL_ALLOC(path);
    vc_findings_about(ctx, name);
    enum vc_status status = open_model(ctx, path, options, out);
    status = status == VC_OK ? check_component(ctx, *out) : status;
    if (status != VC_OK) {
        vc_model_close(*out);
        *out = NULL;
        status = vc_collect_missing(ctx, vc_context(ctx, "%s", name), "component", NULL);
    }
    vc_findings_about(ctx, NULL);
    return status;
}

/* Opens all components and joins them. parts is NULL once they belong to the joined model. A component that findings
 * explain stays NULL in the list. */
static enum vc_status open_all(struct vc_ctx *ctx, vc_open_fn *open_model, const struct vc_open_options *options,
                               struct vc_model *model)
{
    const struct vc_infolder *folder = model->folder;
    size_t n = vc_infolder_component_count(folder);
    const char **names = vc_calloc_array(ctx, VC_TAG_NAMES, n, sizeof *names);
    struct vc_model **parts = vc_calloc_array(ctx, VC_TAG_NAMES, n, sizeof *parts);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(names);
    VC_TRY_ALLOC(parts);
    for (size_t i = 0; i < n && status == VC_OK; i++) {
        names[i] = vc_infolder_component(folder, i)->name;
        status = open_component(ctx, open_model, folder, names[i], options, &parts[i]);
    }
    if (status == VC_OK) {
        status = vc_joined_model_make(ctx, parts, n, names, model); /* takes the parts, also when it fails */
        parts = NULL;
    }
out:
    for (size_t i = 0; parts != NULL && i < n; i++) {
        vc_model_close(parts[i]);
    }
    VC_FREE_ALL(ctx, parts, names);
    return status;
}

/* ---- what inspect shows ---- */

/* The part of model_index.json; every component has one. */
static const struct vc_pipeline_part *part_called(const struct vc_infolder *folder, const char *name)
{
    size_t i = 0;

    while (strcmp(vc_infolder_component(folder, i)->name, name) != 0) {
        i++;
    }
    return vc_infolder_component(folder, i);
}

/* Bytes of tensors; a second name of one adds none. */
static uint64_t own_bytes(const struct vc_model *model)
{
    uint64_t total = 0;

    for (size_t i = 0; i < model->n_tensors; i++) {
        total += model->tensors[i].alias_of == VC_NO_TENSOR ? model->tensors[i].size_bytes : 0;
    }
    return total;
}

/* The components as parts of the file. */
static enum vc_status list_parts(struct vc_ctx *ctx, struct vc_model *model)
{
    struct vc_part *parts = vc_arena_alloc(ctx, &model->arena, (model->n_components + 1) * sizeof *parts);

    VC_CALL_ALLOC(parts);
    for (size_t i = 0; i < model->n_components; i++) {
        const struct vc_component *c = &model->components[i];
        const struct vc_pipeline_part *part = part_called(model->folder, c->name);

        parts[i] =
            (struct vc_part){.name = c->name,
                             .what = vc_arena_printf(ctx, &model->arena, "%s of %s", part->class_name, part->library),
                             .role = VC_ROLE_WEIGHT,
                             .chosen = true,
                             .n_tensors = c->model->n_tensors,
                             .size_bytes = own_bytes(c->model)};
        VC_CALL_ALLOC(parts[i].what);
    }
    model->parts = parts;
    model->n_parts = model->n_components;
    return VC_OK;
}

/* "fp16" in the names of weights: their loader takes them only where it is told. */
static enum vc_status note_variant(struct vc_ctx *ctx, struct vc_model *model)
{
    const char *found = NULL;
    size_t i;

    for (i = 0; i < model->n_components && found == NULL; i++) {
        VC_CALL(vc_infolder_variant(ctx, model->components[i].model->folder, &found));
    }
    if (found != NULL) {
        VC_CALL(vc_model_add_fact(ctx, model, VC_FACT_NOTE,
                                  "weights of %s have the variant %.40s in their names: pass variant=\"%.40s\" to "
                                  "from_pretrained",
                                  model->components[i - 1].name, found, found));
    }
    return VC_OK;
}

/* The components whose weights are in codes, as one layout. */
static enum vc_status find_layout(struct vc_ctx *ctx, struct vc_model *model)
{
    struct vc_pipeline_codes *codes = vc_arena_alloc(ctx, &model->arena, (model->n_components + 1) * sizeof *codes);
    size_t n = 0;

    VC_CALL_ALLOC(codes);
    for (size_t i = 0; i < model->n_components; i++) {
        const struct vc_component *c = &model->components[i];

        if (vc_model_layout(c->model) != NULL) {
            codes[n++] = (struct vc_pipeline_codes){c->name, c->model->dialect, &c->model->loader};
        }
    }
    return n != 0 ? vc_pipeline_layout(ctx, &model->arena, codes, n, &model->dialect, &model->loader) : VC_OK;
}

/* open_model is vc_format_open, handed in because formats.c includes this room. */
enum vc_status vc_pipeline_open(struct vc_ctx *ctx, vc_open_fn *open_model, const struct vc_open_options *options,
                                struct vc_model *model)
{
    vc_model_set_format(model, &vc_format_pipeline);
    VC_CALL(open_all(ctx, open_model, options, model));
    VC_CALL(list_parts(ctx, model));
    VC_CALL(note_variant(ctx, model));
    return find_layout(ctx, model);
}
