/* lora_names.c - which tensor of a model a module of an adapter is about. Three ways of naming meet here:
 *
 *     PEFT, diffusers   model.layers.0.self_attn.q_proj      the model's own names, perhaps with a prefix more or less
 *     pipelines         unet.mid_block.attentions.0.proj_in  a model of the pipeline, then its names
 *     kohya             lora_unet_mid_block_attentions_0_proj_in   the part, then names with '_' for '.'
 */
#include <stdlib.h>

#include "core/base/array.h"
#include "merge/lora.h"

#define NAME_BYTES 512

/* ---- names with dots ---- */

/* What is left out at the beginning of a module's name, and what stands there in its place. */
struct prefix {
    const char *without;
    size_t n_without;
    const char *with;
    size_t n_with;
};

/* Classes of transformers call these parts otherwise than the files that they load. */
static const struct {
    const char *module, *file;
} renamed[] = {
    {"model.language_model.", "language_model.model."},
    {"model.language_model.", "model."},
    {"model.visual.", "visual."},
    {"model.vision_tower.", "vision_tower."},
    {"model.multi_modal_projector.", "multi_modal_projector."},
};

/* The tensor called "<with><name>.weight", or without the end for one that is whole. Names that are too
 * long are not found. */
static size_t find(const struct vc_model *model, const char *with, size_t n_with, const char *name, bool whole)
{
    char text[NAME_BYTES];
    int n = snprintf(text, sizeof text, "%.*s%s%s", (int)n_with, with, name, whole ? "" : ".weight");

    return n > 0 && (size_t)n < sizeof text ? vc_model_find(model, text) : VC_NO_TENSOR;
}

static bool is_whole(const struct vc_lora_module *module)
{
    return module->tensors[VC_LORA_WHOLE] != VC_NO_TENSOR;
}

/* By its own name, that of files, or with the prefix. */
static size_t find_dotted(const struct vc_model *model, const struct vc_lora_module *module,
                          const struct prefix *prefix)
{
    size_t found = find(model, "", 0, module->name, is_whole(module));

    for (size_t i = 0; found == VC_NO_TENSOR && i < sizeof renamed / sizeof renamed[0]; i++) {
        size_t n = strlen(renamed[i].module);

        if (strncmp(module->name, renamed[i].module, n) == 0) {
            found = find(model, renamed[i].file, strlen(renamed[i].file), module->name + n, is_whole(module));
        }
    }
    if (found == VC_NO_TENSOR && prefix != NULL && strncmp(module->name, prefix->without, prefix->n_without) == 0) {
        found = find(model, prefix->with, prefix->n_with, module->name + prefix->n_without, is_whole(module));
    }
    return found;
}

/* "unet.down_blocks.0..." of a pipeline, whose tensors are called "unet/down_blocks.0...". */
static size_t find_in_pipeline(const struct vc_model *model, const struct vc_lora_module *module)
{
    const char *dot = strchr(module->name, '.');
    char text[NAME_BYTES];

    if (dot == NULL || model->n_components == 0 ||
        snprintf(text, sizeof text, "%.*s/", (int)(dot - module->name), module->name) >= (int)sizeof text) {
        return VC_NO_TENSOR;
    }
    return find(model, text, strlen(text), dot + 1, is_whole(module));
}

/* How many modules are found with this prefix, of those with dots. */
static size_t count_found(const struct vc_lora_list *list, const struct vc_model *model, const struct prefix *prefix)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++) {
        n += !list->modules[i].flat && find_dotted(model, &list->modules[i], prefix) != VC_NO_TENSOR;
    }
    return n;
}

/* The better of two prefixes; *twice: both find as many modules, so that the names do not tell. */
static void take_better(const struct vc_lora_list *list, const struct vc_model *model, struct prefix prefix,
                        struct prefix *best, size_t *n_best, bool *twice)
{
    size_t n = count_found(list, model, &prefix);

    if (n > *n_best) {
        *best = prefix;
        *n_best = n;
        *twice = false;
    } else if (n != 0 && n == *n_best) {
        *twice = true;
    }
}

/* The prefix with which most modules are found, of those with which the first missing one is: some of its own name left
 * out, or something put in front of it. */
static enum vc_status find_prefix(struct vc_ctx *ctx, const struct vc_lora_list *list, const struct vc_model *model,
                                  struct prefix *best)
{
    const struct vc_lora_module *first = NULL;
    size_t n_best = count_found(list, model, NULL);
    bool twice = false;

    for (size_t i = 0; first == NULL && i < list->n; i++) {
        const struct vc_lora_module *m = &list->modules[i];

        first = !m->flat && !is_whole(m) && find_dotted(model, m, NULL) == VC_NO_TENSOR ? m : NULL;
    }
    if (first == NULL) {
        return VC_OK;
    }
    for (const char *dot = strchr(first->name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        if (find(model, "", 0, dot + 1, false) != VC_NO_TENSOR) {
            take_better(list, model, (struct prefix){first->name, (size_t)(dot + 1 - first->name), "", 0}, best,
                        &n_best, &twice);
        }
    }
    for (size_t i = 0; i < model->n_tensors; i++) {
        const char *name = model->tensors[i].name;
        size_t n = strlen(name);
        size_t k = strlen(first->name) + strlen(".weight");

        if (n > k && name[n - k - 1] == '.' && strncmp(name + n - k, first->name, strlen(first->name)) == 0 &&
            strcmp(name + n - strlen(".weight"), ".weight") == 0) {
            take_better(list, model, (struct prefix){"", 0, name, n - k}, best, &n_best, &twice);
        }
    }
    VC_REFUSE_IF(twice, ctx, VC_E_UNSUPPORTED,
                 "%s: %s is the name of a module in several parts of %s, and nothing says which is meant",
                 list->adapter->path, first->name, model->path);
    return VC_OK;
}

/* ---- names of kohya ---- */

/* The parts of a pipeline in names of kohya and of diffusers, and how tensors of that part begin: in a pipeline's folder,
 * in single files as stable-diffusion and ComfyUI have them; "": the file is that part alone. */
static const struct {
    const char *part, *dotted;
    const char *begins[5];
} parts[] = {
    {"lora_unet_", "unet.", {"unet/", "transformer/", "model.diffusion_model.", "diffusion_model.", ""}},
    {"lora_transformer_", "transformer.", {"transformer/", "model.diffusion_model.", "diffusion_model.", ""}},
    {"lora_te1_",
     "text_encoder.",
     {"text_encoder/", "conditioner.embedders.0.transformer.", "text_encoders.clip_l.transformer.", ""}},
    {"lora_te2_",
     "text_encoder_2.",
     {"text_encoder_2/", "text_encoders.clip_g.transformer.", "text_encoders.t5xxl.transformer.", ""}},
    {"lora_te3_", "text_encoder_3.", {"text_encoder_3/", "text_encoders.t5xxl.transformer.", ""}},
    {"lora_te_", "text_encoder.", {"text_encoder/", "cond_stage_model.transformer.", ""}},
};

#define N_PARTS (sizeof parts / sizeof parts[0])

/* A weight of the model by its part and its name with '_' for '.'. */
struct flat {
    size_t part, tensor;
    const char *name;
};

static int compare_flat(const void *a, const void *b)
{
    const struct flat *p = a;
    const struct flat *q = b;

    return p->part != q->part ? (p->part < q->part ? -1 : 1) : strcmp(p->name, q->name);
}

/* How tensors of that part begin in this model: the first that one does. */
static const char *beginning(const struct vc_model *model, size_t part)
{
    for (size_t b = 0;; b++) {
        const char *text = parts[part].begins[b];

        for (size_t i = 0; text[0] != '\0' && i < model->n_tensors; i++) {
            if (strncmp(model->tensors[i].name, text, strlen(text)) == 0) {
                return text;
            }
        }
        if (text[0] == '\0') {
            return text;
        }
    }
}

/* Ends of resnets' names, in diffusers and in stable-diffusion's own files. */
static const char *resnet_end(const char *end)
{
    static const char *const pairs[][2] = {{"conv1", "in_layers_2"},
                                           {"conv2", "out_layers_3"},
                                           {"time_emb_proj", "emb_layers_1"},
                                           {"conv_shortcut", "skip_connection"}};

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (strcmp(end, pairs[i][0]) == 0) {
            return pairs[i][1];
        }
    }
    return end;
}

/* The name of a UNet's module in stable-diffusion's own files, where adapters have that of diffusers. A block of three
 * (two layers and what changes the size) is one list there:
 *
 *     down_blocks_1_attentions_0_proj_in   ->   input_blocks_4_1_proj_in          4 = 3 * 1 + 0 + 1
 *     up_blocks_2_resnets_1_conv1          ->   output_blocks_7_0_in_layers_2     7 = 3 * 2 + 1
 *
 * False for other names. `other`: a block that changes the size stands behind an attention or not. */
static bool to_original(const char *name, bool other, char *out, size_t room)
{
    static const char *const single[][2] = {{"conv_in", "input_blocks_0_0"},
                                            {"conv_out", "out_2"},
                                            {"time_embedding_linear_1", "time_embed_0"},
                                            {"time_embedding_linear_2", "time_embed_2"},
                                            {"add_embedding_linear_1", "label_emb_0_0"},
                                            {"add_embedding_linear_2", "label_emb_0_2"}};
    unsigned i, j;
    int end = 0;

    for (size_t k = 0; k < sizeof single / sizeof single[0]; k++) {
        if (strcmp(name, single[k][0]) == 0) {
            return snprintf(out, room, "%s", single[k][1]) > 0;
        }
    }
    if (sscanf(name, "down_blocks_%3u_attentions_%3u_%n", &i, &j, &end) == 2 && end != 0) {
        (void)snprintf(out, room, "input_blocks_%u_1_%s", 3 * i + j + 1, name + end);
    } else if (sscanf(name, "down_blocks_%3u_resnets_%3u_%n", &i, &j, &end) == 2 && end != 0) {
        (void)snprintf(out, room, "input_blocks_%u_0_%s", 3 * i + j + 1, resnet_end(name + end));
    } else if (sscanf(name, "down_blocks_%3u_downsamplers_0_conv%n", &i, &end) == 1 && end != 0) {
        (void)snprintf(out, room, "input_blocks_%u_0_op", 3 * i + 3);
    } else if (sscanf(name, "mid_block_attentions_%3u_%n", &i, &end) == 1 && end != 0) {
        (void)snprintf(out, room, "middle_block_%u_%s", 2 * i + 1, name + end);
    } else if (sscanf(name, "mid_block_resnets_%3u_%n", &i, &end) == 1 && end != 0) {
        (void)snprintf(out, room, "middle_block_%u_%s", 2 * i, resnet_end(name + end));
    } else if (sscanf(name, "up_blocks_%3u_attentions_%3u_%n", &i, &j, &end) == 2 && end != 0) {
        (void)snprintf(out, room, "output_blocks_%u_1_%s", 3 * i + j, name + end);
    } else if (sscanf(name, "up_blocks_%3u_resnets_%3u_%n", &i, &j, &end) == 2 && end != 0) {
        (void)snprintf(out, room, "output_blocks_%u_0_%s", 3 * i + j, resnet_end(name + end));
    } else if (sscanf(name, "up_blocks_%3u_upsamplers_0_conv%n", &i, &end) == 1 && end != 0) {
        (void)snprintf(out, room, "output_blocks_%u_%u_conv", 3 * i + 2, other ? 1u : 2u);
    } else {
        return false;
    }
    return true;
}

/* All weights of the model under each part that a name of kohya's may begin with, sorted for a binary
 * search. Names with '_' for '.' cannot be turned back, since names have '_' of their own; so the model's
 * names are turned instead. Modules of diffusers' UNets stand there under the names of stable-diffusion's own files, too. */
static enum vc_status list_flat(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_model *model,
                                struct flat **out, size_t *n_out)
{
    struct flat *list = vc_arena_alloc(ctx, arena, ((N_PARTS + 2) * model->n_tensors + 1) * sizeof *list);
    char original[NAME_BYTES];
    size_t n = 0;

    VC_CALL_ALLOC(list);
    for (size_t p = 0; p < N_PARTS; p++) {
        const char *begin = beginning(model, p);

        for (size_t i = 0; i < model->n_tensors; i++) {
            const char *name = model->tensors[i].name;
            size_t length = strlen(name);

            if (strncmp(name, begin, strlen(begin)) != 0 || length < strlen(".weight") + strlen(begin) ||
                strcmp(name + length - strlen(".weight"), ".weight") != 0) {
                continue;
            }
            char *copy = vc_arena_copy(ctx, arena, name + strlen(begin), length - strlen(begin) - strlen(".weight"));
            VC_CALL_ALLOC(copy);
            for (char *c = copy; *c != '\0'; c++) {
                *c = *c == '.' ? '_' : *c;
            }
            list[n++] = (struct flat){.part = p, .tensor = i, .name = copy};
            for (unsigned other = 0; p == 0 && other < 2; other++) {
                if (to_original(copy, other != 0, original, sizeof original)) {
                    const char *own = vc_arena_copy(ctx, arena, original, strlen(original));

                    VC_CALL_ALLOC(own);
                    list[n++] = (struct flat){.part = p, .tensor = i, .name = own};
                }
            }
        }
    }
    qsort(list, n, sizeof *list, compare_flat);
    *out = list;
    *n_out = n;
    return VC_OK;
}

/* A binary search in that list. */
static size_t find_flat(const struct flat *list, size_t n, size_t part, const char *name)
{
    struct flat key = {.part = part, .name = name};
    const struct flat *found = bsearch(&key, list, n, sizeof *list, compare_flat);

    return found != NULL ? found->tensor : VC_NO_TENSOR;
}

/* By the model's own name, then by that of stable-diffusion's own files. The first part that fits the name
 * decides: no other begins with the same. */
static size_t find_kohya(const struct flat *list, size_t n, const char *name)
{
    char original[NAME_BYTES];
    size_t found = VC_NO_TENSOR;

    for (size_t p = 0; p < N_PARTS; p++) {
        size_t k = strlen(parts[p].part);

        if (strncmp(name, parts[p].part, k) != 0) {
            continue;
        }
        found = find_flat(list, n, p, name + k);
        for (unsigned other = 0; found == VC_NO_TENSOR && other < 2; other++) {
            if (to_original(name + k, other != 0, original, sizeof original)) {
                found = find_flat(list, n, p, original);
            }
        }
        return found;
    }
    return found;
}

/* A name of diffusers in a file of stable-diffusion's own, as kohya would write it; without a part it is the UNet's.
 *     unet.down_blocks.1.attentions.0.proj_in   ->   lora_unet_down_blocks_1_attentions_0_proj_in */
static size_t find_diffusers(const struct flat *list, size_t n, const char *name)
{
    size_t found = VC_NO_TENSOR;
    char text[NAME_BYTES];

    for (size_t p = 0; found == VC_NO_TENSOR && p <= N_PARTS; p++) {
        const char *dotted = p < N_PARTS ? parts[p].dotted : "";
        size_t k = strlen(dotted);

        if (strncmp(name, dotted, k) == 0 &&
            snprintf(text, sizeof text, "%s%s", parts[p % N_PARTS].part, name + k) < (int)sizeof text) {
            for (char *c = text; *c != '\0'; c++) {
                *c = *c == '.' ? '_' : *c;
            }
            found = find_kohya(list, n, text);
        }
    }
    return found;
}

/* ---- all ---- */

/* One prefix is looked for over all modules, so that a single name that fits by chance decides nothing. */
enum vc_status vc_lora_names(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_lora_list *list,
                             const struct vc_model *model, size_t **tensors, size_t *first_missing)
{
    struct prefix prefix = {"", 0, "", 0};
    struct flat *flat = NULL;
    size_t n_flat = 0;
    size_t *out = vc_arena_alloc(ctx, arena, (list->n + 1) * sizeof *out);

    VC_CALL_ALLOC(out);
    if (model->n_components == 0) {
        VC_CALL(find_prefix(ctx, list, model, &prefix));
    }
    *first_missing = list->n;
    for (size_t i = 0; i < list->n; i++) {
        const struct vc_lora_module *module = &list->modules[i];

        out[i] = module->flat ? VC_NO_TENSOR : find_in_pipeline(model, module);
        if (out[i] == VC_NO_TENSOR && !module->flat) {
            out[i] = find_dotted(model, module, &prefix);
        }
        if (out[i] == VC_NO_TENSOR && !is_whole(module)) {
            if (flat == NULL) {
                VC_CALL(list_flat(ctx, arena, model, &flat, &n_flat));
            }
            out[i] = module->flat ? find_kohya(flat, n_flat, module->name) : find_diffusers(flat, n_flat, module->name);
        }
        if (out[i] == VC_NO_TENSOR && *first_missing == list->n) {
            *first_missing = i;
        }
    }
    *tensors = out;
    return VC_OK;
}
