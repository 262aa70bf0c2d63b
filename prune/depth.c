/* depth.c - the pass that leaves out whole layers: `vcompress prune --drop-layers 8,9,10`. It adds no step to any
 * tensor: those of the layers leave the output, those of the layers behind get new names, and the number of layers of
 * the model's configuration is an edit. Which tensors are layers is found by depth_lists.c.
 *
 *     model.layers.0.mlp.w    stays
 *     model.layers.1.mlp.w    left out                   --drop-layers 1
 *     model.layers.2.mlp.w    becomes model.layers.1.mlp.w
 *     config.json             num_hidden_layers 3 -> 2   (vc_plan_edit) */
#include <vcompress/depth.h>

#include "core/base/option_struct.h"
#include "core/job/job_passes.h"
#include "prune/depth_lists.h"

#define MOST_LAYERS ((uint64_t)1 << 30)

/* The pass: its options are copies in the arena. */
struct depth {
    struct vc_pass pass;
    struct vc_arena arena;
    struct vc_depth_options options;
    struct vc_recipe_entry recipe[2];
};

/* ---- which layers ---- */

/* A number below 2^30 at *at, which moves behind it. */
static bool take_number(const char **at, uint64_t *number)
{
    const char *c = *at;

    for (*number = 0; *c >= '0' && *c <= '9' && *number < MOST_LAYERS; c++) {
        *number = 10 * *number + (uint64_t)(*c - '0');
    }
    if (c == *at || (*c >= '0' && *c <= '9')) {
        return false;
    }
    *at = c;
    return true;
}

/* The next number or range of "3,5-7" at *at, which moves behind it. False if there is none. */
static bool take_range(const char **at, uint64_t *first, uint64_t *last)
{
    if (!take_number(at, first)) {
        return false;
    }
    *last = *first;
    if (**at == '-') {
        ++*at;
        if (!take_number(at, last)) {
            return false;
        }
    }
    if (**at == ',' && (*at)[1] != '\0') {
        ++*at;
    } else if (**at != '\0') {
        return false;
    }
    return *first <= *last;
}

/* Both commands that have it call it --keep-layers; the --keep of distill is another one. */
static const char *keep_name(const struct vc_ctx *ctx)
{
    const char *name = vc_option(ctx, "keep_layers");

    return name[0] == '-' ? name : "keep";
}

/* For the command: --drop-layers or --keep-layers. */
static const char *word_of(const struct depth *d)
{
    return d->options.drop != NULL ? "drop" : "keep";
}

/* The option that was given, as sentences call it. */
static const char *option_of(const struct vc_ctx *ctx, const struct depth *d)
{
    return d->options.drop != NULL ? vc_option(ctx, "drop") : keep_name(ctx);
}

/* The list as the user has given it: of layers that go, or of those that stay. */
static const char *numbers_of(const struct depth *d)
{
    return d->options.drop != NULL ? d->options.drop : d->options.keep;
}

/* The list is parsed here to its end, so that choose_layers can rely on its form. */
static enum vc_status check_options(struct vc_ctx *ctx, const struct depth *d)
{
    const char *text = numbers_of(d);
    uint64_t first, last;

    VC_REFUSE_IF((d->options.drop != NULL) == (d->options.keep != NULL), ctx, VC_E_ARGUMENT,
                 "layers are given by one of %s and %s", vc_option(ctx, "drop"), keep_name(ctx));
    do {
        VC_REFUSE_IF(!take_range(&text, &first, &last), ctx, VC_E_ARGUMENT,
                     "%s: '%s' is no list of layers: numbers from 0 on and ranges, such as "
                     "3,5-7",
                     option_of(ctx, d), numbers_of(d));
    } while (*text != '\0');
    return VC_OK;
}

/* Marks which of the list's layers go: gone[] has an entry for each. *n_gone: how many. All of them may not go, and a
 * number that is not there is refused. */
static enum vc_status choose_layers(struct vc_ctx *ctx, const struct depth *d, const struct vc_layer_list *list,
                                    bool *gone, uint64_t *n_gone)
{
    const char *text = numbers_of(d);
    bool named = d->options.drop != NULL;
    uint64_t first, last, i;

    /* all go but those that are named, or the other way round */
    memset(gone, !named, (size_t)list->n_layers);
    while (*text != '\0' && take_range(&text, &first, &last)) {
        VC_REFUSE_IF(last >= list->n_layers, ctx, VC_E_ARGUMENT,
                     "%s: there is no layer %llu: %s has %llu, numbered from 0 on", option_of(ctx, d),
                     (unsigned long long)last, list->name, (unsigned long long)list->n_layers);
        memset(gone + first, named, (size_t)(last - first + 1));
    }
    *n_gone = 0;
    for (i = 0; i < list->n_layers; i++) {
        *n_gone += gone[i];
    }
    VC_REFUSE_IF(*n_gone == list->n_layers, ctx, VC_E_ARGUMENT, "%s: no layer of %s would be left", option_of(ctx, d),
                 list->name);
    return VC_OK;
}

/* ---- what cannot be ---- */

/* Models of which something could not follow: pipelines, shards, states of an optimizer. */
static enum vc_status check_model(struct vc_ctx *ctx, const struct vc_plan *plan)
{
    size_t i = 0;

    VC_REFUSE_IF(plan->model->n_components != 0, ctx, VC_E_UNSUPPORTED,
                 "is a pipeline of several models, whose configurations stay; leave out layers of one of them");
    VC_CALL(vc_model_need_all(ctx, plan->model, "the numbers of layers need all files"));
    while (i < plan->n_items && (plan->model->tensors[i].role != VC_ROLE_OPTIMIZER || plan->items[i].dropped)) {
        i++;
    }
    return i == plan->n_items
               ? VC_OK
               : vc_fail(ctx, VC_E_UNSUPPORTED,
                         "%s: is optimizer state, which belongs to all layers; it is left out by %s optimizer",
                         plan->model->tensors[i].name, vc_option(ctx, "vc_job_drop"));
}

/* Layers that differ may do different things, so whoever drops them says which list is meant. A hybrid model (attention
 * in some layers, a state space in others) works without any of them only if its author says so. */
static enum vc_status check_alike(struct vc_ctx *ctx, const struct depth *d, const struct vc_layer_list *list)
{
    if (list->odd == NULL || d->options.layers != NULL) {
        return VC_OK;
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "the layers of %s are not alike: %s %s; %s %s says that any of them can go, if they can", list->name,
                   list->odd->name,
                   list->other != NULL ? "has another shape in other layers" : "is not there in every layer",
                   vc_option(ctx, "layers"), list->name);
}

/* By the name behind the number, then by layer: all layers' tensors of one kind come together. */
static int compare_rests(const void *x, const void *y)
{
    const struct vc_layer_tensor *a = x;
    const struct vc_layer_tensor *b = y;
    int order = strcmp(a->rest, b->rest);

    return order != 0 ? order : (a->layer > b->layer) - (a->layer < b->layer);
}

/* The tensors of a layer begin at the place that is returned. */
static size_t first_of(const struct vc_layer_list *list, uint64_t layer)
{
    size_t i = 0;

    while (list->tensors[i].layer != layer) {
        i++;
    }
    return i;
}

/* Whether layer a has every tensor of layer b; both are sorted. */
static bool has_all(const struct vc_layer_list *list, uint64_t a, uint64_t b)
{
    size_t i = first_of(list, a);

    for (size_t k = first_of(list, b); k < list->n && list->tensors[k].layer == b; k++) {
        if (list->tensors[k].beside) {
            continue;
        }
        while (i < list->n && list->tensors[i].layer == a && strcmp(list->tensors[i].rest, list->tensors[k].rest) < 0) {
            i++;
        }
        if (i == list->n || list->tensors[i].layer != a || strcmp(list->tensors[i].rest, list->tensors[k].rest) != 0) {
            return false;
        }
    }
    return true;
}

/* Whether a layer that stays may read what only `layer` has: it has nothing else than that one. */
static bool is_read(const struct vc_layer_list *list, const bool *gone, uint64_t layer)
{
    uint64_t i = 0;

    while (i < list->n_layers && (gone[i] || !has_all(list, layer, i))) {
        i++;
    }
    return i < list->n_layers;
}

/* The first tensor that only layers which go have, and that others may read; NULL if there is none. */
static const struct vc_layer_tensor *find_lost(const struct vc_layer_list *list, const struct vc_layer_tensor *by_rest,
                                               const bool *gone)
{
    size_t first, end;

    for (first = 0; first < list->n; first = end) {
        bool stays = by_rest[first].beside;

        for (end = first; end < list->n && strcmp(by_rest[end].rest, by_rest[first].rest) == 0; end++) {
            stays = stays || !gone[by_rest[end].layer];
        }
        if (!stays && is_read(list, gone, by_rest[first].layer)) {
            return &by_rest[first];
        }
    }
    return NULL;
}

/* A layer may have what the others read, too: the position biases of T5 are in layer 0, the block that Zamba2's hybrid
 * layers share is in the first of them. It has a tensor then that no layer has which stays, beside all that one of
 * these has. Where layers are of different kinds, each has something else. */
static enum vc_status check_shared(struct vc_ctx *ctx, const struct vc_layer_list *list, const bool *gone)
{
    VC_SCOPED struct vc_layer_tensor *by_rest = vc_alloc_array(ctx, VC_TAG_MISC, list->n, sizeof *by_rest);

    VC_CALL_ALLOC(by_rest);
    memcpy(by_rest, list->tensors, list->n * sizeof *by_rest);
    qsort(by_rest, list->n, sizeof *by_rest, compare_rests);
    const struct vc_layer_tensor *lost = find_lost(list, by_rest, gone);
    VC_REFUSE_IF(lost != NULL, ctx, VC_E_UNSUPPORTED,
                 "%s: no other layer has it, and the others may read it: layer %llu has to stay", lost->name,
                 (unsigned long long)lost->layer);
    return VC_OK;
}

/* ---- the pass ---- */

/* "model.layers" 10 -> 8, ".mlp.w": its new name. */
static enum vc_status rename_tensor(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_layer_tensor *t,
                                    uint64_t layer)
{
    const char *name = vc_arena_printf(ctx, plan->arena, "%.*s%c%llu%s", (int)t->n_list, t->name, t->name[t->n_list],
                                       (unsigned long long)layer, t->rest);

    return name != NULL ? vc_plan_rename(ctx, plan, t->index, name) : VC_E_NOMEM;
}

/* Tensors of layers that go are dropped; others get the number of layers that stay before theirs. */
static enum vc_status edit_names(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_layer_list *list,
                                 const bool *gone)
{
    uint64_t below = 0; /* layers that stay, before this one */

    for (size_t i = 0; i < list->n; i++) {
        const struct vc_layer_tensor *t = &list->tensors[i];

        below += i != 0 && t->layer != t[-1].layer && !gone[t[-1].layer];
        if (gone[t->layer]) {
            VC_CALL(vc_plan_drop(ctx, plan, t->index, "its layer is left out"));
        } else if (below != t->layer) {
            VC_CALL(rename_tensor(ctx, plan, t, below));
        }
    }
    return VC_OK;
}

/* The edit has the numbers that go, so that writers can cut lists that have an entry for each layer. */
static enum vc_status edit_count(struct vc_ctx *ctx, struct vc_plan *plan, const struct vc_layer_list *list,
                                 const bool *gone, uint64_t n_gone)
{
    struct vc_edit edit = {.key = VC_EDIT_LAYERS,
                           .before = list->n_layers,
                           .after = list->n_layers - n_gone,
                           .n_dropped = (size_t)n_gone,
                           .list = list->name};
    uint64_t *numbers = vc_arena_alloc(ctx, plan->arena, (size_t)n_gone * sizeof *numbers);
    size_t n = 0;

    VC_CALL_ALLOC(numbers);
    for (uint64_t i = 0; i < list->n_layers; i++) {
        if (gone[i]) {
            numbers[n++] = i;
        }
    }
    edit.dropped = numbers;
    return vc_plan_edit(ctx, plan, &edit);
}

/* Values never change. */
static enum vc_status depth_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    return vc_item_keep(ctx, item, "copied bit for bit");
}

/* All that the pass does, once every tensor was seen: names tell more together than one by one. */
static enum vc_status depth_plan_end(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan)
{
    const struct depth *d = pass->self;
    struct vc_layer_list list = {.tensors = NULL};
    bool *gone = NULL;
    uint64_t n_gone = 0;
    enum vc_status status;

    /* what the model has, what goes, whether it may, what follows */
    VC_TRY(check_model(ctx, plan));
    VC_TRY(vc_layers_find(ctx, plan->model, d->options.layers, plan->arena, &list));
    VC_TRY(VC_ARRAY(ctx, VC_TAG_MISC, gone, (size_t)list.n_layers));
    VC_TRY(choose_layers(ctx, d, &list, gone, &n_gone));
    VC_TRY(check_alike(ctx, d, &list));
    if (n_gone != 0) {
        if (list.odd != NULL) {
            VC_TRY(check_shared(ctx, &list, gone));
        }
        VC_TRY(edit_names(ctx, plan, &list, gone));
        VC_TRY(edit_count(ctx, plan, &list, gone, n_gone));
    }
out:
    VC_FREE_ALL(ctx, gone, list.tensors);
    return status;
}

static void depth_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    struct depth *d = pass->self;

    vc_arena_release(ctx, &d->arena);
    vc_free(ctx, d);
}

static const struct vc_pass_ops depth_ops = {
    .name = "prune", .plan = depth_plan, .plan_end = depth_plan_end, .free = depth_free};

/* The pass's own copies of the options, and what is said of them. */
static enum vc_status copy_options(struct vc_ctx *ctx, struct depth *d)
{
    struct vc_depth_options *o = &d->options;
    const char **text[] = {&o->drop, &o->keep, &o->layers, &o->why};

    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        if (*text[i] != NULL) {
            VC_CALL_ALLOC(*text[i] = vc_arena_printf(ctx, &d->arena, "%s", *text[i]));
        }
    }
    d->recipe[0] = (struct vc_recipe_entry){o->drop != NULL ? "drop_layers" : "keep_layers", numbers_of(d)};
    d->recipe[1] = (struct vc_recipe_entry){"layers", o->layers};
    d->pass.note = o->why;
    d->pass.recipe = d->recipe;
    d->pass.n_recipe = o->layers != NULL ? 2 : 1;
    d->pass.command =
        o->layers == NULL
            ? vc_arena_printf(ctx, &d->arena, "prune --%s-layers %s", word_of(d), numbers_of(d))
            : vc_arena_printf(ctx, &d->arena, "prune --%s-layers %s --layers %s", word_of(d), numbers_of(d), o->layers);
    VC_CALL_ALLOC(d->pass.command);
    return VC_OK;
}

/* Which layers the numbers name is known with the model, in depth_plan. */
enum vc_status vc_job_add_depth(struct vc_ctx *ctx, struct vc_job *job, const struct vc_depth_options *options)
{
    struct vc_depth_options own;
    struct depth *d = NULL;
    enum vc_status status;

    vc_clear_error(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(depth), options, &own));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, d, 1));
    d->pass.ops = &depth_ops;
    d->pass.self = d;
    d->options = own;
    VC_TRY(check_options(ctx, d));
    VC_TRY(copy_options(ctx, d));
    return vc_job_add_pass(ctx, job, &d->pass);
out:
    if (d != NULL) {
        depth_free(ctx, &d->pass);
    }
    return status;
}
