/* lora_names.c - which tensor of a model a module of an adapter is about. Three ways of naming meet here:
 *
 *     PEFT, diffusers   model.layers.0.self_attn.q_proj      the model's own names, perhaps with a prefix more or less
 *     pipelines         unet.mid_block.attentions.0.proj_in  a model of the pipeline, then its names
 *     kohya             lora_unet_mid_block_attentions_0_proj_in   the part, then names with '_' for '.'
 */

#include "core/base/array.h"
#include "core/text/text.h"
#include "merge/lora.h"
#include "merge/lora_originals.h"

#define NAME_BYTES 512
#define IN_PROJ    ".attn.in_proj_weight" /* of OpenCLIP: queries, keys and values */
#define OF_TEXT    "text_model_"
#define OF_COMFY   "diffusion_model."

/* ---- names with dots ---- */

/* What is left out at the beginning of a module's name, and what stands there in its place. */
struct prefix {
    const char *without;
    size_t n_without;
    const char *with;
    size_t n_with;
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

/* Classes of transformers call these parts otherwise than the files that they load, also those without a config.json. */
static const struct {
    const char *module, *file;
} renamed[] = {{"model.language_model.", "language_model.model."}, {"model.language_model.", "model."}, {"model.", ""}};

/* By its own name, that of files, or with the prefix. */
static size_t find_dotted(const struct vc_model *model, const char *name, bool whole, const struct prefix *prefix)
{
    size_t found = find(model, "", 0, name, whole);

    for (size_t i = 0; found == VC_NO_TENSOR && i < sizeof renamed / sizeof renamed[0]; i++) {
        size_t n = strlen(renamed[i].module);

        if (strncmp(name, renamed[i].module, n) == 0) {
            found = find(model, renamed[i].file, strlen(renamed[i].file), name + n, whole);
        }
    }
    return found == VC_NO_TENSOR && prefix != NULL && strncmp(name, prefix->without, prefix->n_without) == 0
               ? find(model, prefix->with, prefix->n_with, name + prefix->n_without, whole)
               : found;
}

/* "unet.down_blocks.0..." of a pipeline, whose tensors are called "unet/down_blocks.0...". */
static size_t find_in_pipeline(const struct vc_model *model, const char *name, bool whole)
{
    const char *dot = strchr(name, '.');
    char text[NAME_BYTES];

    if (dot == NULL || model->n_components == 0 ||
        snprintf(text, sizeof text, "%.*s/", (int)(dot - name), name) >= (int)sizeof text) {
        return VC_NO_TENSOR;
    }
    return find(model, text, strlen(text), dot + 1, whole);
}

/* How many modules are found with this prefix, of those with dots. */
static size_t count_found(const struct vc_lora_list *list, const struct vc_model *model, const struct prefix *prefix)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++) {
        const struct vc_lora_module *m = &list->modules[i];

        n += !m->flat && find_dotted(model, m->name, is_whole(m), prefix) != VC_NO_TENSOR;
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

/* The prefix with which most modules are found, of those with which the first missing one is that can be found so: some
 * of its own name left out, or something put in front of it. What holds parameters has no weight of its own name. */
static enum vc_status find_prefix(struct vc_ctx *ctx, const struct vc_lora_list *list, const struct vc_model *model,
                                  struct prefix *best)
{
    size_t n_found = count_found(list, model, NULL);
    size_t n_best = n_found;
    bool twice = false;

    for (size_t m = 0; n_best == n_found && m < list->n; m++) {
        const char *own = list->modules[m].name;

        if (list->modules[m].flat || is_whole(&list->modules[m]) ||
            find_dotted(model, own, false, NULL) != VC_NO_TENSOR) {
            continue;
        }
        for (const char *dot = strchr(own, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
            if (find(model, "", 0, dot + 1, false) != VC_NO_TENSOR) {
                take_better(list, model, (struct prefix){own, (size_t)(dot + 1 - own), "", 0}, best, &n_best, &twice);
            }
        }
        for (size_t i = 0; i < model->n_tensors; i++) {
            const char *name = model->tensors[i].name;
            size_t n = strlen(name);
            size_t k = strlen(own) + strlen(".weight");

            if (n > k && name[n - k - 1] == '.' && strncmp(name + n - k, own, strlen(own)) == 0 &&
                strcmp(name + n - strlen(".weight"), ".weight") == 0) {
                take_better(list, model, (struct prefix){"", 0, name, n - k}, best, &n_best, &twice);
            }
        }
        VC_REFUSE_IF(twice, ctx, VC_E_UNSUPPORTED,
                     "%s: %s is the name of a module in several parts of %s, and nothing says which is meant",
                     list->adapter->path, own, model->path);
    }
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
     {"text_encoder/", "conditioner.embedders.0.transformer.", "text_encoders.clip_l.transformer.",
      "cond_stage_model.transformer.", ""}},
    {"lora_te2_",
     "text_encoder_2.",
     {"text_encoder_2/", "conditioner.embedders.1.model.", "text_encoders.clip_g.transformer.",
      "text_encoders.t5xxl.transformer.", ""}},
    {"lora_te3_", "text_encoder_3.", {"text_encoder_3/", "text_encoder_2/", "text_encoders.t5xxl.transformer.", ""}},
    {"lora_te_", "text_encoder.", {"text_encoder/", "cond_stage_model.transformer.", "cond_stage_model.model.", ""}},
};

#define N_PARTS   (sizeof parts / sizeof parts[0])
#define NETWORKS  2       /* so many first parts are no text encoders: adapters of these have no other layout's names */
#define IN_MEMORY N_PARTS /* the part of whole names, with dots, as the model's loader calls tensors in memory */

/* A weight of the model by its part and its name with '_' for '.', or by the name that it has in original files. */
struct flat {
    size_t part, tensor;
    const char *name;
    bool original;
    enum vc_lora_part rows; /* original: which ones of the tensor of that name it has */
};

/* Entries of one name: the file's own first, then the rows of an original tensor in their order; tensors whose names are
 * equal with '_' for '.' in that of the file. */
static int compare_flat(const void *a, const void *b)
{
    const struct flat *p = a;
    const struct flat *q = b;

    return VC_FIRST_ORDER(VC_ORDER(p->part, q->part), strcmp(p->name, q->name), VC_ORDER(p->original, q->original),
                          VC_ORDER(p->rows, q->rows), VC_ORDER(p->tensor, q->tensor));
}

/* What names are looked up in. */
struct lookup {
    const struct vc_model *model;
    struct prefix prefix;
    struct flat *flat; /* sorted */
    size_t n_flat, room_flat;
};

/* What a name is in a model: a tensor or rows of it, or tensors that have the module's rows. */
struct hit {
    size_t tensor;
    enum vc_lora_part rows;
    const struct flat *pieces; /* the first of them; NULL: there is one tensor */
};

static const struct hit no_hit = {.tensor = VC_NO_TENSOR};

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

/* CLIP's names have this in front, or not: transformers 5 writes none. */
static const char *of_text(const char *name)
{
    const size_t n = strlen(OF_TEXT);

    return strncmp(name, OF_TEXT, n) == 0 ? name + n : name;
}

static void flatten(char *name)
{
    for (; *name != '\0'; name++) {
        *name = *name == '.' ? '_' : *name;
    }
}

static enum vc_status add_flat(struct vc_ctx *ctx, struct vc_arena *arena, struct lookup *to, struct flat flat)
{
    VC_CALL_ALLOC(flat.name);
    VC_CALL(VC_ARENA_GROW(ctx, arena, to->flat, to->room_flat, to->n_flat + 1));
    to->flat[to->n_flat++] = flat;
    return VC_OK;
}

/* All weights of the model under each part that a name of kohya's may begin with, sorted for a binary
 * search. Names with '_' for '.' cannot be turned back, since names have '_' of their own; so the model's
 * names are turned instead. What diffusers calls so stands there under the names of original files, too. */
static enum vc_status list_flat(struct vc_ctx *ctx, struct vc_arena *arena, struct lookup *to)
{
    const struct vc_model *model = to->model;
    char original[NAME_BYTES];

    for (size_t p = 0; p < N_PARTS; p++) {
        const char *begin = beginning(model, p);

        for (size_t i = 0; i < model->n_tensors; i++) {
            const char *name = model->tensors[i].name;
            size_t length = strlen(name);
            struct flat flat = {.part = p, .tensor = i};

            if (strncmp(name, begin, strlen(begin)) != 0 || length < strlen(".weight") + strlen(begin) ||
                !(vc_ends_in(name, ".weight") || vc_ends_in(name, IN_PROJ))) {
                continue;
            }
            char *copy = vc_arena_copy(ctx, arena, name + strlen(begin), length - strlen(begin) - strlen(".weight"));
            VC_CALL_ALLOC(copy);
            flatten(copy);
            flat.name = copy;
            VC_CALL(add_flat(ctx, arena, to, flat));
            flat.original = true;
            for (size_t k = 0; p < NETWORKS && vc_lora_original(copy, &k, original, sizeof original, &flat.rows);) {
                flat.name = vc_arena_copy(ctx, arena, original, strlen(original));
                VC_CALL(add_flat(ctx, arena, to, flat));
            }
        }
    }
    for (size_t i = 0; model->module_name != NULL && i < model->n_tensors; i++) {
        const char *name = model->module_name(ctx, arena, model, model->tensors[i].name);

        VC_CALL(add_flat(ctx, arena, to, (struct flat){.part = IN_MEMORY, .tensor = i, .name = name}));
    }
    if (to->n_flat != 0) {
        qsort(to->flat, to->n_flat, sizeof *to->flat, compare_flat);
    }
    return VC_OK;
}

/* The first entry of that name, by a binary search: the model's own name, or else, unless `own`, the original one of what
 * it has. */
static struct hit find_flat(const struct lookup *l, size_t part, const char *name, bool own)
{
    size_t begin = 0;

    for (size_t end = l->n_flat; begin < end;) {
        size_t middle = begin + (end - begin) / 2;
        const struct flat *f = &l->flat[middle];

        if (VC_FIRST_ORDER(VC_ORDER(f->part, part), strcmp(f->name, name)) < 0) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    const struct flat *f = begin < l->n_flat ? &l->flat[begin] : NULL;
    if (f == NULL || f->part != part || strcmp(f->name, name) != 0 || (own && f->original)) {
        return no_hit;
    }
    bool one = f->rows == VC_LORA_ALL || f->rows == VC_LORA_HALVES;
    return (struct hit){f->tensor, f->rows, one ? NULL : f};
}

/* By the model's own name, then with CLIP's word or without, then by that of original files. The first part
 * that fits the name decides: no other begins with the same. */
static struct hit find_kohya(const struct lookup *l, const char *name)
{
    char text[NAME_BYTES];
    size_t p = 0;

    while (p < N_PARTS && strncmp(name, parts[p].part, strlen(parts[p].part)) != 0) {
        p++;
    }
    if (p == N_PARTS) {
        return no_hit;
    }
    const char *bare = of_text(name + strlen(parts[p].part));
    struct hit hit = find_flat(l, p, name + strlen(parts[p].part), false);
    if (hit.tensor == VC_NO_TENSOR && snprintf(text, sizeof text, OF_TEXT "%s", bare) < (int)sizeof text) {
        hit = find_flat(l, p, text, false);
    }
    hit = hit.tensor == VC_NO_TENSOR ? find_flat(l, p, bare, false) : hit;
    enum vc_lora_part rows = VC_LORA_ALL;
    for (size_t k = 0; hit.tensor == VC_NO_TENSOR && vc_lora_original(bare, &k, text, sizeof text, &rows);) {
        hit = find_flat(l, p, text, true);
        hit.rows = rows;
    }
    return hit;
}

/* A name in the other layout, as kohya would write it; without a part, or with ComfyUI's word for all parts, it is the
 * UNet's.
 *     unet.down_blocks.1.attentions.0.proj_in   ->   lora_unet_down_blocks_1_attentions_0_proj_in */
static struct hit find_diffusers(const struct lookup *l, const char *name)
{
    struct hit hit = no_hit;
    char text[NAME_BYTES];

    name += strncmp(name, OF_COMFY, strlen(OF_COMFY)) == 0 ? strlen(OF_COMFY) : 0;
    for (size_t p = 0; hit.tensor == VC_NO_TENSOR && p <= N_PARTS; p++) {
        const char *dotted = p < N_PARTS ? parts[p].dotted : "";
        size_t k = strlen(dotted);

        if (strncmp(name, dotted, k) == 0 &&
            snprintf(text, sizeof text, "%s%s", parts[p % N_PARTS].part, name + k) < (int)sizeof text) {
            flatten(text);
            hit = find_kohya(l, text);
        }
    }
    return hit;
}

/* ---- all ---- */

/* A name with dots: as the file has it, as the loader calls it in memory, then in original files. */
static struct hit look_up(const struct lookup *l, const char *name, bool whole)
{
    struct hit hit = {.tensor = find_in_pipeline(l->model, name, whole)};
    char text[NAME_BYTES];

    hit.tensor = hit.tensor == VC_NO_TENSOR ? find_dotted(l->model, name, whole, &l->prefix) : hit.tensor;
    if (hit.tensor == VC_NO_TENSOR &&
        snprintf(text, sizeof text, "%s%s", name, whole ? "" : ".weight") < (int)sizeof text) {
        hit = find_flat(l, IN_MEMORY, text, true);
    }
    return hit.tensor == VC_NO_TENSOR && !whole ? find_diffusers(l, name) : hit;
}

/* Places of a list that grows. */
struct places {
    struct vc_lora_place *list;
    size_t n, capacity;
};

static enum vc_status add_place(struct vc_ctx *ctx, struct vc_arena *arena, struct places *to,
                                struct vc_lora_place place)
{
    VC_CALL(VC_ARENA_GROW(ctx, arena, to->list, to->capacity, to->n + 1));
    to->list[to->n++] = place;
    return VC_OK;
}

/* The places of a module in tensors that have its rows one behind the other. */
static enum vc_status add_pieces(struct vc_ctx *ctx, struct vc_arena *arena, const struct lookup *l,
                                 const struct flat *first, struct vc_lora_place place, struct places *to)
{
    size_t begin = to->n;
    enum vc_lora_part next = VC_LORA_QUERY;

    for (const struct flat *f = first;
         f < l->flat + l->n_flat && f->rows == next && f->part == first->part && strcmp(f->name, first->name) == 0;
         f++, next++) {
        place.tensor = f->tensor;
        place.n_rows = l->model->tensors[f->tensor].shape[0];
        VC_CALL(add_place(ctx, arena, to, place));
        place.from += place.n_rows;
    }
    for (size_t i = begin; i < to->n; i++) {
        to->list[i].outputs = place.from;
    }
    return VC_OK;
}

/* The places of what was found: a whole tensor, rows of one, two halves turned over, or several tensors. None where the
 * tensor cannot have such rows. */
static enum vc_status add_hit(struct vc_ctx *ctx, struct vc_arena *arena, const struct lookup *l, struct hit hit,
                              struct vc_lora_place place, struct places *to)
{
    if (hit.tensor == VC_NO_TENSOR || hit.pieces != NULL) {
        return hit.pieces != NULL ? add_pieces(ctx, arena, l, hit.pieces, place, to) : VC_OK;
    }
    const struct vc_tensor *t = &l->model->tensors[place.tensor = hit.tensor];
    uint64_t rows = t->n_dims == 2 ? t->shape[0] : 0;
    uint64_t width = t->n_dims == 2 ? t->shape[1] : 0;

    if (hit.rows == VC_LORA_ALL || (hit.rows == VC_LORA_HALVES && (rows != 2 * width || rows == 0))) {
        return add_place(ctx, arena, to, place);
    }
    place.outputs = place.n_rows = hit.rows == VC_LORA_REST && rows > 3 * width ? rows - 3 * width : width;
    if (hit.rows == VC_LORA_HALVES) {
        place.outputs = rows;
        place.to = width;
        VC_CALL(add_place(ctx, arena, to, place));
        place.from = width;
        place.to = 0;
    } else {
        place.to = (hit.rows - VC_LORA_QUERY) * width;
    }
    return place.n_rows != 0 && place.to + place.n_rows <= rows ? add_place(ctx, arena, to, place) : VC_OK;
}

/* ---- parameters of experts ---- */

/* How files cut a parameter: a matrix for each expert, of its outputs one part behind the other. */
static const struct {
    const char *parameter, *cuts[2];
} cut[] = {{"gate_up_proj", {"gate_proj", "up_proj"}},
           {"gate_up_proj", {"w1", "w3"}},
           {"down_proj", {"down_proj", NULL}},
           {"down_proj", {"w2", NULL}}};

/* The matrices of all experts in the place of "<holder>.<parameter>"; none where the file has no such. */
static enum vc_status add_cut(struct vc_ctx *ctx, struct vc_arena *arena, const struct lookup *l, const char *holder,
                              const char *parameter, struct vc_lora_place place, struct places *to)
{
    char name[NAME_BYTES];

    for (size_t c = 0; c < sizeof cut / sizeof cut[0]; c++) {
        size_t begin = to->n;

        if (strcmp(cut[c].parameter, parameter) != 0) {
            continue;
        }
        for (place.expert = 0, place.tensor = 0; place.tensor != VC_NO_TENSOR; place.expert++) {
            place.from = 0;
            for (size_t k = 0; k < 2 && cut[c].cuts[k] != NULL && place.tensor != VC_NO_TENSOR; k++) {
                int n =
                    snprintf(name, sizeof name, "%s.%llu.%s", holder, (unsigned long long)place.expert, cut[c].cuts[k]);

                place.tensor = n < (int)sizeof name ? look_up(l, name, false).tensor : VC_NO_TENSOR;
                if (place.tensor != VC_NO_TENSOR) {
                    place.n_rows = l->model->tensors[place.tensor].shape[0];
                    VC_CALL(add_place(ctx, arena, to, place));
                    place.from += place.n_rows;
                }
            }
        }
        for (size_t i = begin; i < to->n; i++) {
            const struct vc_lora_place *last = &to->list[to->n - 1];

            to->list[i].n_experts = last->expert + 1;
            to->list[i].outputs = last->from + last->n_rows;
        }
    }
    return VC_OK;
}

/* Whether the factors can be those of the parameter at these places: outputs and inputs of B and A. */
static bool fits(const struct vc_lora_list *list, const struct vc_lora_module *module, const struct vc_model *model,
                 const struct vc_lora_place *places, size_t n)
{
    const struct vc_tensor *a = &list->adapter->tensors[module->tensors[VC_LORA_DOWN]];
    const struct vc_tensor *b = &list->adapter->tensors[module->tensors[VC_LORA_UP]];
    const struct vc_tensor *t = n != 0 ? &model->tensors[places[n - 1].tensor] : NULL;

    if (n == 0 || t->n_dims < 2 || a->n_dims != 2 || b->n_dims != 2 || places->n_experts == 0 ||
        a->shape[0] % places->n_experts != 0) {
        return false;
    }
    uint64_t rows = t->shape[t->n_dims - 2] + places[n - 1].from;
    uint64_t columns = t->shape[t->n_dims - 1];

    return (rows == b->shape[0] && columns == a->shape[1]) ||
           (t->n_dims == 3 && rows == a->shape[1] && columns == b->shape[0]);
}

/* The places of the parameter that the module is about. PEFT calls a module after what holds the parameter, a second one
 * of the same holder with ".base_layer" behind it: which is which is told by the shapes. */
static enum vc_status add_parameter(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_lora_list *list,
                                    const struct lookup *l, size_t number, struct places *to)
{
    const struct vc_lora_module *module = &list->modules[number];
    const char *base = strstr(module->name, ".base_layer");
    size_t n_holder = base != NULL ? (size_t)(base - module->name) : strlen(module->name);
    size_t end = to->n;
    char holder[NAME_BYTES];
    char name[NAME_BYTES];

    for (size_t p = 0; p < list->said.n_parameters && n_holder < sizeof holder; p++) {
        struct vc_lora_place place = {.module = number, .n_experts = 1};
        const char *said = list->said.parameters[p];
        const char *dot = strrchr(said, '.');
        const char *last = dot != NULL ? dot + 1 : said;
        size_t begin = to->n;
        size_t n = strlen(said);

        (void)snprintf(holder, sizeof holder, "%.*s", (int)n_holder, module->name);
        int k = snprintf(name, sizeof name, "%s.%s", holder, last);
        if (k >= (int)sizeof name || (size_t)k < n || strcmp(name + (size_t)k - n, said) != 0 ||
            ((size_t)k > n && name[(size_t)k - n - 1] != '.')) {
            continue;
        }
        VC_CALL_ALLOC(place.parameter = vc_arena_copy(ctx, arena, name, (size_t)k));
        place.tensor = look_up(l, name, true).tensor;
        if (place.tensor != VC_NO_TENSOR) {
            const struct vc_tensor *t = &l->model->tensors[place.tensor];

            place.n_experts = t->n_dims == 3 ? t->shape[0] : 1;
            VC_CALL(add_place(ctx, arena, to, place));
        } else {
            VC_CALL(add_cut(ctx, arena, l, holder, last, place, to));
        }
        if (!fits(list, module, l->model, to->list + begin, to->n - begin)) {
            to->n = begin;
        }
        VC_REFUSE_IF(to->n != begin && begin != end, ctx, VC_E_UNSUPPORTED,
                     "%s: %s has the shapes of several of target_parameters", list->adapter->path, module->name);
    }
    return VC_OK;
}

/* ---- tied tensors ---- */

/* Whether a whole tensor that was not found has the values of one that was: it is the second name of a tied one. */
static enum vc_status find_twin(struct vc_ctx *ctx, const struct vc_lora_list *list, struct places *found,
                                size_t module, bool *twin)
{
    const struct vc_model *adapter = list->adapter;
    size_t own = list->modules[module].tensors[VC_LORA_WHOLE];
    char pieces[2][8192];

    for (size_t i = 0; !*twin && i < found->n; i++) {
        size_t other = list->modules[found->list[i].module].tensors[VC_LORA_WHOLE];

        if (other == VC_NO_TENSOR || adapter->tensors[own].dtype != adapter->tensors[other].dtype ||
            adapter->tensors[own].n_elems != adapter->tensors[other].n_elems) {
            continue;
        }
        *twin = true;
        for (uint64_t at = 0; *twin && at < adapter->tensors[own].size_bytes; at += sizeof pieces[0]) {
            size_t n = (size_t)vc_min_u64(sizeof pieces[0], adapter->tensors[own].size_bytes - at);

            VC_CALL(vc_source_read_any(ctx, adapter, own, VC_FORM_VALUES, at, pieces[0], n));
            VC_CALL(vc_source_read_any(ctx, adapter, other, VC_FORM_VALUES, at, pieces[1], n));
            *twin = memcmp(pieces[0], pieces[1], n) == 0;
        }
        found->list[i].twice = found->list[i].twice || *twin;
    }
    return VC_OK;
}

/* One prefix is looked for over all modules, so that a single name that fits by chance decides nothing. Whole tensors come
 * last in the list: those that are not found may be others by a second name. */
enum vc_status vc_lora_names(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_lora_list *list,
                             const struct vc_model *model, struct vc_lora_place **places, size_t *n_places,
                             size_t *first_missing, size_t *n_missing)
{
    struct lookup l = {.model = model, .prefix = {"", 0, "", 0}};
    struct places found = {NULL, 0, 0};
    VC_SCOPED bool *missing = NULL;

    VC_CALL(VC_ZEROS(ctx, VC_TAG_NAMES, missing, list->n + 1));
    if (model->n_components == 0) {
        VC_CALL(find_prefix(ctx, list, model, &l.prefix));
    }
    VC_CALL(list_flat(ctx, arena, &l));
    for (size_t i = 0; i < list->n; i++) {
        const struct vc_lora_module *module = &list->modules[i];
        struct vc_lora_place place = {.module = i, .n_experts = 1};
        size_t n = found.n;

        if (list->said.n_parameters != 0 && module->tensors[VC_LORA_DOWN] != VC_NO_TENSOR) {
            VC_CALL(add_parameter(ctx, arena, list, &l, i, &found));
        }
        if (found.n == n) {
            struct hit hit = module->flat ? find_kohya(&l, module->name) : look_up(&l, module->name, is_whole(module));

            if (hit.tensor == VC_NO_TENSOR && module->tensors[VC_LORA_DOWN] == VC_NO_TENSOR && !module->flat) {
                hit = look_up(&l, module->name, true); /* a difference of what is no weight: "blocks.0.modulation" */
            }
            VC_CALL(add_hit(ctx, arena, &l, hit, place, &found));
        }
        missing[i] = found.n == n;
    }
    *first_missing = list->n;
    *n_missing = 0;
    for (size_t i = list->n; i-- > 0;) {
        bool twin = false;

        if (missing[i] && is_whole(&list->modules[i])) {
            VC_CALL(find_twin(ctx, list, &found, i, &twin));
        }
        *n_missing += missing[i] && !twin;
        *first_missing = missing[i] && !twin ? i : *first_missing;
    }
    *places = found.list;
    *n_places = found.n;
    return VC_OK;
}
