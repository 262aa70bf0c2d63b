/* plan_search.c - tries what can be changed, in every combination that makes sense, and keeps those that need less than
 * all that do less harm.
 *
 *     forms        the weights: as stored, half precision, int8, codes, with neurons removed (plan_forms.c)
 *     levers       batch, context, cache, accumulation, recomputation, optimizer, devices: each may be ruled out
 *     choices      every combination that makes sense, with the memory it takes and whether that fits
 *     recipes      those that no other choice beats, in order, with words and a command (plan_words) */
#include <math.h>

#include "core/base/array.h"
#include "core/base/option_struct.h"
#include "graph/sizes.h"
#include "memory/estimate.h"
#include "memory/fit/fit_written.h"
#include "search/recipes/plan_inside.h"

#define LEAST_CONTEXT 256
#define MAX_CHOICES   4096
#define MAX_PARTS     64
#define MAX_DEVICES   1024

/* Whether the caller lets this lever be used. */
static bool may(const struct vc_planning *p, enum vc_lever lever)
{
    return (p->options.without & (unsigned)lever) == 0;
}

/* ---- one choice ---- */

/* What passes leave of the weights; NULL: those of the model. */
static const struct vc_planned_weights *weights_of(const struct vc_weights_form *form)
{
    return form->made != NULL ? &form->made->weights : form->written.n != 0 ? &form->written : NULL;
}

/* 0: the graph has no such symbol, or none with a size. */
static uint64_t bound_size(const struct vc_graph *graph, const char *symbol)
{
    int64_t size = vc_graph_size(graph, symbol);

    return size > 0 ? (uint64_t)size : 0;
}

/* Sets the batch in the graph: sizes of values follow. */
static enum vc_status bind(const struct vc_planning *p, struct vc_graph *graph, uint64_t batch)
{
    return p->batch_symbol == NULL || batch == 0 ? VC_OK
                                                 : vc_graph_bind(p->ctx, graph, p->batch_symbol, (int64_t)batch);
}

/* Whether recomputation is asked for, and not within how much. */
static bool seeks_budget(const struct vc_planning *p, const struct vc_memory_options *memory)
{
    return memory->recompute == VC_RECOMPUTE_AUTO && p->memory.budget_bytes == 0;
}

/* As vc_fit_decide has it; windows of images that are copied depend on the batch. Recomputation without a budget, which is
 * about the model as it is, gets the room on the device. */
static enum vc_status judge(const struct vc_planning *p, struct vc_choice *choice)
{
    struct vc_fit_options fit;

    vc_fit_defaults(&fit);
    fit = p->fit != NULL ? *p->fit : fit;
    fit.ideal = fit.ideal || choice->ideal;
    if (p->memory.im2col_images != 0) {
        fit.workspace_bytes = choice->report.components[VC_MEMORY_WORKSPACE].bytes;
    }
    VC_CALL(
        vc_fit_decide(p->ctx, &choice->report, &choice->memory, p->options.visible_bytes, &fit, &choice->recipe.fit));
    if (!seeks_budget(p, &choice->memory)) {
        return VC_OK;
    }
    return vc_fit_budget(p->ctx, p->graph, p->model, &choice->memory, &fit, &choice->report, &choice->recipe.fit);
}

/* Counts the memory of a choice and adds it to the list. One whose sizes overflow, or that cannot be divided so, is left out. */
static enum vc_status try_choice(struct vc_planning *p, struct vc_choice choice)
{
    if (p->n_choices == MAX_CHOICES) {
        return VC_OK;
    }
    VC_CALL(bind(p, choice.form->graph, choice.recipe.batch));
    if (p->options.usual_positions) {
        VC_CALL(vc_memory_bind_positions(p->ctx, choice.form->graph, &choice.memory, p->positions));
    }
    if (seeks_budget(p, &choice.memory)) {
        choice.memory.budget_bytes = INT64_MAX; /* everything is kept, to begin with */
    }
    enum vc_status status = vc_memory_estimate_written(p->ctx, choice.form->graph, choice.form->model, &choice.memory,
                                                       weights_of(choice.form), &choice.report);
    if (p->n_choices != 0 && vc_is_refusal(status)) {
        return vc_without_refusal(p->ctx, status);
    }
    VC_CALL(status);
    VC_CALL(judge(p, &choice));
    choice.number = p->n_choices;
    p->choices[p->n_choices++] = choice;
    return VC_OK;
}

/* ---- several devices ---- */

/* Whether there are devices that can share the model so; what was asked for stays as it is. */
static bool can_spread(const struct vc_planning *p, enum vc_spread spread)
{
    const struct vc_memory_options *m = &p->memory;
    uint64_t n = p->options.n_devices;
    bool trains = m->mode != VC_MEMORY_INFER;

    if (spread == VC_SPREAD_NONE) {
        return true;
    }
    return may(p, VC_LEVER_DEVICES) && p->graph != NULL && n > 1 && n <= MAX_DEVICES && m->dp < 2 && m->tp < 2 &&
           m->pp < 2 && (trains || spread >= VC_SPREAD_PRODUCTS) &&
           (spread != VC_SPREAD_STAGES || n <= VC_MEMORY_STAGES);
}

/* What a spread over devices means for the options of the estimate. Stages take the parts of a batch one after the
 * other. */
static void put_spread(const struct vc_planning *p, enum vc_spread spread, struct vc_choice *choice)
{
    struct vc_memory_options *m = &choice->memory;
    unsigned n = (unsigned)p->options.n_devices;

    choice->spread = spread;
    if (spread == VC_SPREAD_PRODUCTS) {
        m->tp = n;
    } else if (spread == VC_SPREAD_STAGES) {
        m->pp = n;
        m->micro_batches = (unsigned)choice->recipe.accumulate;
    } else if (spread != VC_SPREAD_NONE) {
        m->dp = n;
        m->zero = (unsigned)spread;
    }
}

/* ---- inference ---- */

/* Bytes of the type, or `otherwise` where none is said. */
static unsigned width_of(enum vc_dtype dtype, unsigned otherwise)
{
    return dtype == VC_DTYPE_NONE ? otherwise : (unsigned)vc_dtype_size(dtype);
}

/* Types of keys and values: as they are, then narrower ones. Returns how many. */
static size_t list_caches(const struct vc_planning *p, const struct vc_weights_form *form, enum vc_dtype *types,
                          double *errors)
{
    enum vc_dtype type = form->type != VC_DTYPE_NONE ? form->type : vc_memory_float_type(p->graph, p->model);
    unsigned values = type == VC_DTYPE_F16 || type == VC_DTYPE_BF16 || type == VC_DTYPE_I8 ? 2 : 4;
    unsigned width = width_of(p->memory.cache, width_of(p->memory.activations, values));
    bool blocks = (form->program == VC_RUN_BY_COUNT ? p->memory.program : form->program) == VC_RUN_BY_LLAMA_CPP;

    width = blocks && p->memory.cache == VC_DTYPE_NONE ? 2 : width;
    size_t n = 0;

    types[n] = p->memory.cache;
    errors[n++] = 0;
    if (p->memory.context_tokens == 0 || !may(p, VC_LEVER_CACHE)) {
        return n;
    }
    if (width > 2 && !blocks) { /* which has f16 anyway */
        types[n] = VC_DTYPE_F16;
        errors[n++] = vc_search_half(false)->error;
    }
    if (width > 1) {
        types[n] = blocks ? VC_DTYPE_Q8_0 : VC_DTYPE_I8;
        errors[n++] = vc_search_eight(false)->error;
    }
    return n;
}

/* The program that runs the form, with what follows from it. */
static void put_program(const struct vc_planning *p, const struct vc_weights_form *form, struct vc_choice *choice)
{
    struct vc_memory_options *m = &choice->memory;

    if (form->program != VC_RUN_BY_COUNT && !p->options.runtime_given) {
        vc_memory_set_program(m, form->program, NULL);
        m->allocator = p->options.allocator_given ? m->allocator : vc_memory_program_facts(form->program)->allocator;
    }
    m->runtime = form->runtime;
    m->activations = m->activations == VC_DTYPE_NONE ? form->activations : m->activations;
    if (form->ask != NULL && form->program == VC_RUN_BY_ANY) { /* as --runtime native has it */
        choice->ideal = true;
        m->attention = m->attention == VC_ATTENTION_AUTO ? VC_ATTENTION_FUSED : m->attention;
    }
}

/* The same choice with the experts of as few layers on the host as make it fit, or of all: llama.cpp's --n-cpu-moe. */
static enum vc_status try_experts(struct vc_planning *p, struct vc_choice choice)
{
    const struct vc_weights_form *form = choice.form;
    uint64_t least, layers;
    bool fits;

    if (!may(p, VC_LEVER_EXPERTS) || p->memory.cpu_moe_layers != 0) {
        return VC_OK;
    }
    VC_CALL(vc_fit_cpu_moe_written(p->ctx, form->graph, form->model, weights_of(form), &choice.memory,
                                   p->options.visible_bytes, p->fit, &least, &layers, &fits));
    choice.memory.cpu_moe_layers = least;
    choice.experts = true;
    return layers != 0 ? try_choice(p, choice) : VC_OK;
}

/* All forms with all types of keys and values, for one batch and context. */
static enum vc_status try_forms(struct vc_planning *p, uint64_t batch, uint64_t context, unsigned less)
{

    for (size_t f = 0; f < p->n_forms; f++) {
        const struct vc_weights_form *form = &p->forms[f];
        enum vc_dtype types[3];
        double errors[3];
        size_t n = list_caches(p, form, types, errors);

        for (size_t k = 0; k < n; k++) {
            struct vc_choice choice = {.form = form,
                                       .memory = p->memory,
                                       .recipe = {.batch = batch, .accumulate = 1, .time = 1},
                                       .less = less,
                                       .rank = errors[k] > 0 ? 1 : 0};

            choice.recipe.error = sqrt(form->error * form->error + errors[k] * errors[k]);
            choice.narrow_cache = k != 0;
            choice.memory.weights = form->type;
            choice.memory.cache = types[k];
            choice.memory.context_tokens = context;
            if (form->dtype != NULL) {
                choice.memory.scheme = form->dtype;
            }
            put_program(p, form, &choice);
            const size_t first = p->n_choices; /* without other devices */
            for (enum vc_spread spread = VC_SPREAD_NONE; spread <= VC_SPREAD_STAGES; spread++) {
                struct vc_choice one = choice;

                if (can_spread(p, spread)) {
                    put_spread(p, spread, &one);
                    VC_CALL(try_choice(p, one));
                }
            }
            if (p->n_choices != first && !vc_search_has_room(&p->choices[first].recipe.fit)) {
                VC_CALL(try_experts(p, choice));
            }
        }
    }
    return VC_OK;
}

/* Whether something was found already: less of batch and context need not be tried then. */
static bool one_fits(const struct vc_planning *p)
{
    for (size_t k = 0; k < p->n_choices; k++) {
        if (vc_search_has_room(&p->choices[k].recipe.fit)) {
            return true;
        }
    }
    return false;
}

/* First with the batch and the context that were asked for; then half the batch, and so on, then half the context. */
static enum vc_status search_inference(struct vc_planning *p)
{
    uint64_t batch = p->batch;
    uint64_t context = p->memory.context_tokens;

    VC_CALL(try_forms(p, batch, context, 0));
    for (unsigned less = 1; !one_fits(p) && p->choices[0].report.unknown == NULL; less++) {
        if (may(p, VC_LEVER_BATCH) && batch > 1) {
            batch /= 2;
        } else if (may(p, VC_LEVER_CONTEXT) && context / 2 >= LEAST_CONTEXT) {
            context /= 2;
        } else {
            break;
        }
        VC_CALL(try_forms(p, batch, context, less));
    }
    return VC_OK;
}

/* ---- training ---- */

/* Divisors of the batch, from 1 to MAX_PARTS: in so many parts it can be computed. Returns how many. */
static size_t list_parts(const struct vc_planning *p, uint64_t *parts)
{
    size_t n = 0;

    for (uint64_t k = 1; k <= vc_min_u64(p->batch, MAX_PARTS); k++) {
        if (p->batch % k == 0) {
            parts[n++] = k;
        }
        if (!may(p, VC_LEVER_ACCUMULATE)) {
            break;
        }
    }
    if (n == 0) {
        parts[n++] = 1;
    }
    return n;
}

/* Each with harm of its own: no change of the result, but of the time; other roundings; states of fewer bits. */
enum { RANK_PARTS = 1, RANK_DEVICES = 2, RANK_RECOMPUTE = 4, RANK_AMP = 8, RANK_OPTIMIZER = 16 };

/* Bits of RANK: what this one changes. False: it is not possible. */
static bool change(const struct vc_planning *p, unsigned bits, struct vc_choice *choice)
{
    struct vc_memory_options *m = &choice->memory;

    choice->rank = bits;
    if ((bits & RANK_RECOMPUTE) != 0) {
        if (!may(p, VC_LEVER_RECOMPUTE) || m->recompute != VC_RECOMPUTE_NONE) {
            return false;
        }
        choice->recipe.time = 4.0 / 3;
    }
    if ((bits & RANK_AMP) != 0) {
        if (!may(p, VC_LEVER_AMP) || m->amp != VC_AMP_NONE ||
            (m->weights != VC_DTYPE_NONE ? m->weights : vc_memory_float_type(p->graph, p->model)) != VC_DTYPE_F32) {
            return false;
        }
        m->amp = VC_AMP_AUTOCAST;
    }
    if ((bits & RANK_OPTIMIZER) != 0) {
        if (!may(p, VC_LEVER_OPTIMIZER) || (m->optimizer != VC_OPTIMIZER_ADAM && m->optimizer != VC_OPTIMIZER_ADAMW)) {
            return false;
        }
        m->optimizer = VC_OPTIMIZER_ADAM8BIT;
    }
    return true;
}

/* One combination for training. `bits` are the levers, by rank; recomputation is tried in two kinds. */
static enum vc_status try_training(struct vc_planning *p, unsigned bits, uint64_t parts, enum vc_spread spread)
{
    static const enum vc_recompute kinds[] = {VC_RECOMPUTE_LAYER, VC_RECOMPUTE_SQRT};
    struct vc_choice choice = {.form = &p->forms[0],
                               .memory = p->memory,
                               .recipe = {.batch = p->batch / parts, .accumulate = parts, .time = 1}};

    choice.memory.weights = choice.form->type;
    if (!change(p, bits, &choice)) {
        return VC_OK;
    }
    put_spread(p, spread, &choice);
    choice.rank |= (parts > 1 ? RANK_PARTS : 0) | (spread != VC_SPREAD_NONE ? RANK_DEVICES : 0);
    if ((bits & RANK_RECOMPUTE) == 0) {
        return try_choice(p, choice);
    }
    for (size_t k = 0; k < 2; k++) {
        choice.memory.recompute = kinds[k];
        VC_CALL(try_choice(p, choice));
    }
    return VC_OK;
}

/* All sets of recomputation, autocast and the optimizer's states, each with every way to accumulate and to spread. */
static enum vc_status search_training(struct vc_planning *p)
{
    uint64_t parts[MAX_PARTS];
    size_t n = list_parts(p, parts);

    for (unsigned bits = 0; bits < 2 * RANK_OPTIMIZER; bits += RANK_RECOMPUTE) {
        for (size_t k = 0; k < n; k++) {
            for (enum vc_spread spread = VC_SPREAD_NONE; spread <= VC_SPREAD_STAGES; spread++) {
                if (can_spread(p, spread)) {
                    VC_CALL(try_training(p, bits, parts[k], spread));
                }
            }
        }
    }
    return VC_OK;
}

/* ---- choosing ---- */

/* The error of the weights, as the search of shrink counts it for zeros and for codes. */
static double harm_of(const struct vc_choice *choice)
{
    double harm = vc_search_harm(choice->recipe.error, choice->form->share != NULL);

    harm = choice->experts ? fmax(harm, VC_SEARCH_ON_HOST) : harm;
    return choice->form->other_format ? fmax(harm, VC_SEARCH_OTHER_FORMAT) : harm;
}

/* The model as it is, then the least harm first; docs/memory-model.md says what comes before what. */
static int by_harm(const void *a, const void *b)
{
    const struct vc_choice *x = a;
    const struct vc_choice *y = b;

    return VC_FIRST_ORDER(VC_ORDER(x->number != 0, y->number != 0), VC_ORDER(x->less, y->less),
                          VC_ORDER(harm_of(x), harm_of(y)), VC_ORDER(x->rank, y->rank),
                          VC_ORDER(x->memory.cpu_moe_layers, y->memory.cpu_moe_layers),
                          VC_ORDER(x->recipe.time, y->recipe.time),
                          VC_ORDER(x->recipe.accumulate, y->recipe.accumulate), VC_ORDER(x->spread, y->spread),
                          VC_ORDER(x->recipe.fit.need_bytes, y->recipe.fit.need_bytes), VC_ORDER(x->number, y->number));
}

/* The text in the arena of the recipes; NULL stays NULL. */
static enum vc_status copy_text(struct vc_planning *p, const char **text)
{
    if (*text == NULL) {
        return VC_OK;
    }
    *text = vc_arena_copy(p->ctx, &p->out->arena, *text, strlen(*text));
    return *text == NULL ? VC_E_NOMEM : VC_OK;
}

/* Makes a recipe of the choice. The first one that fits is the best: choices come in the order of their harm. */
static enum vc_status keep(struct vc_planning *p, const struct vc_choice *choice)
{
    struct vc_recipes *out = p->out;
    const struct vc_weights_form *form = choice->form;
    struct vc_recipe *recipe = &out->list.recipes[out->list.n];
    struct vc_memory_options *memory = vc_arena_alloc(p->ctx, &out->arena, sizeof *memory);
    struct vc_memory_report *report = vc_arena_alloc(p->ctx, &out->arena, sizeof *report);

    VC_CALL_ALLOC(memory);
    VC_CALL_ALLOC(report);
    *memory = choice->memory;
    *report = choice->report;
    VC_CALL(copy_text(p, &report->peak_at)); /* graphs of forms end with the planning */
    VC_CALL(copy_text(p, &report->eager_at));
    VC_CALL(copy_text(p, &report->unknown_name));
    *recipe = choice->recipe;
    recipe->what = vc_plan_words(p, choice);
    recipe->n_passes = form->passes[0] == NULL ? 0 : form->passes[1] == NULL ? 1 : 2;
    recipe->passes = form->passes;
    recipe->tag = form->tag;
    recipe->more_tensors = form->scheme != NULL && form->scheme->target != VC_TARGET_F16;
    recipe->format = form->kept && form->scheme->gguf != NULL ? "gguf" : NULL;
    recipe->ask = form->ask;
    recipe->memory = memory;
    recipe->report = report;
    recipe->batch = p->batch_symbol == NULL ? 0 : recipe->batch;
    recipe->pruned = form->share == NULL ? 0 : strtod(form->share, NULL);
    recipe->measured = form->measured && recipe->error == form->error;
    recipe->does_less = choice->less != 0;
    VC_CALL_ALLOC(recipe->what);
    if (out->list.best == VC_NO_RECIPE && vc_search_has_room(&choice->recipe.fit)) {
        out->list.best = out->list.n;
    }
    out->list.n++;
    return VC_OK;
}

/* Those that need less than all that come before them in the order of harm. */
static enum vc_status choose(struct vc_planning *p, struct vc_search_point *points)
{
    struct vc_recipes *out = p->out;

    qsort(p->choices, p->n_choices, sizeof *p->choices, by_harm);
    for (size_t k = 0; k < p->n_choices; k++) {
        points[k] = (struct vc_search_point){(uint32_t)k, p->choices[k].recipe.fit.need_bytes, (double)k, 0};
    }
    size_t n = vc_search_front(points, p->n_choices);
    VC_CALL_ALLOC(out->list.recipes = vc_arena_alloc(p->ctx, &out->arena, (n + 1) * sizeof *out->list.recipes));
    while (n-- > 0) {
        VC_CALL(keep(p, &p->choices[points[n].number]));
    }
    return VC_OK;
}

/* ---- the call ---- */

/* The graph is the caller's: its symbols have their sizes again at the end. */
static enum vc_status make(struct vc_planning *p)
{
    VC_SCOPED struct vc_search_point *points = NULL;
    const char *batch = p->graph != NULL ? vc_graph_lists(p->graph)->batch : NULL; /* which --batch of fit sets */
    enum vc_status status = VC_OK;

    p->batch = batch != NULL ? bound_size(p->graph, batch) : 0;
    p->batch_symbol = p->batch != 0 ? batch : NULL;
    p->positions = bound_size(p->graph, "sequence");
    if (p->options.scan && p->model != NULL) {
        VC_TRY(vc_model_sensitivity(p->ctx, p->model, NULL, &p->scan));
    }
    VC_TRY(vc_plan_forms(p));
    VC_TRY(VC_ARRAY(p->ctx, VC_TAG_MISC, p->choices, MAX_CHOICES));
    if (p->memory.mode != VC_MEMORY_INFER) {
        VC_TRY(search_training(p));
    } else {
        VC_TRY(search_inference(p));
    }
    VC_TRY(VC_ARRAY(p->ctx, VC_TAG_MISC, points, p->n_choices));
    VC_TRY(choose(p, points));
out:
    (void)bind(p, p->graph, p->batch);
    if (p->options.usual_positions && p->positions != 0) {
        (void)vc_graph_bind(p->ctx, p->graph, "sequence", (int64_t)p->positions);
    }
    vc_plan_forms_release(p);
    vc_free(p->ctx, p->choices);
    return status;
}

static void end(void *result)
{
    struct vc_recipes *recipes = result;

    vc_arena_release(recipes->ctx, &recipes->arena);
}

/* The planning ends with the call; the recipes and what they point to stay. */
enum vc_status vc_recipes_make(struct vc_ctx *ctx, struct vc_graph *graph, const struct vc_model *model,
                               const struct vc_memory_options *memory, const struct vc_fit_options *fit,
                               const struct vc_recipe_options *options, struct vc_recipes **out)
{
    struct vc_planning p = {.ctx = ctx, .graph = graph, .model = model, .memory = *memory, .fit = fit};
    enum vc_status status;

    *out = NULL;
    vc_call_begin(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(recipe), options, &p.options));
    if (p.options.visible_bytes == 0) {
        VC_TRY(vc_fail(ctx, VC_E_ARGUMENT, "a recipe is for a device: vc_recipe_options.visible_bytes"));
    }
    VC_TRY(VC_RESULT(ctx, VC_TAG_REPORT, p.out, end));
    p.out->ctx = ctx;
    p.out->list.best = VC_NO_RECIPE;
    VC_TRY_ALLOC(p.forms = vc_arena_alloc(ctx, &p.out->arena, VC_MAX_FORMS * sizeof *p.forms));
    VC_TRY(make(&p));
    *out = vc_give(&p.out);
out:
    vc_result_free(p.out);
    vc_result_free(p.scan);
    return vc_call_end(ctx, status);
}

/* The best one is then the first of those that are left. */
void vc_recipes_refuse(struct vc_recipes *recipes, size_t index)
{
    recipes->list.recipes[index].refused = true;
    recipes->list.best = VC_NO_RECIPE;
    for (size_t k = recipes->list.n; k-- > 0;) {
        if (vc_search_has_room(&recipes->list.recipes[k].fit) && !recipes->list.recipes[k].refused) {
            recipes->list.best = k;
        }
    }
}
