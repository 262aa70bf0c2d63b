/* candidates.c - the list of candidates, in the order in which they are tried.
 *
 *     1. types alone, the least harmful first
 *     2. without data, for a device: codes that bitsandbytes keeps, then recipes of plan with removed units
 *     with data; 3 to 5 each with a type of about 8 and one of about 4 bits:
 *     3. 2 of 4 weights, where the device computes with them
 *     4. 0.25, 0.5, 0.75 of the units; 0.25 and 0.5 of heads and of experts
 *     5. single weights, where the output is deflated                   0.95 first: see is_worth_trying
 *     6. a mixture of types for the limit of bytes
 *     7. each layer removed alone, which also tells what layers are worth
 *
 * When all were tried, vc_shrink_list_layers adds those without an eighth, a quarter and half of the
 * layers. */
#include "shrink/shrink_inside.h"

#include <math.h>

#define MOST_LAYERS 64 /* that are measured one by one */

/* Adds the candidate and counts it. Beyond VC_SHRINK_MOST candidates are left out without a word. */
static enum vc_status add(struct vc_shrinking *s, const struct vc_shrink_chain *chain)
{
    size_t k;

    VC_CALL(vc_shrink_add(s, chain, &k));
    return k != VC_NO_CANDIDATE ? vc_shrink_count(s, k) : VC_OK;
}

/* The same, but one that the passes refuse is taken off the list again. *added: it is there; not in a full list. */
static enum vc_status add_unless_refused(struct vc_shrinking *s, const struct vc_shrink_chain *chain, bool *added)
{
    size_t n = s->result.n_candidates;

    VC_CALL(add(s, chain));
    *added = s->result.n_candidates != n && s->candidates[n].reason == NULL;
    s->result.n_candidates = n + *added;
    return VC_OK;
}

/* The types to try, for the format of the output. */
static struct vc_search_place place_of(const struct vc_shrinking *s)
{
    return (struct vc_search_place){.kinds = vc_shrink_is_gguf(s) ? VC_SEARCH_GGUF
                                                                  : VC_SEARCH_PLAIN | VC_SEARCH_FLOAT_CODES};
}

/* A type of about 8 and one of about 4 bits for what pruning leaves. */
static enum vc_status add_pruned(struct vc_shrinking *s, struct vc_shrink_chain chain)
{
    const struct vc_search_place place = place_of(s);

    for (size_t at = 0; (chain.scheme = vc_search_next(&place, &at)) != NULL;) {
        if (chain.scheme->after_pruning) {
            VC_CALL(add(s, &chain));
        }
    }
    return VC_OK;
}

/* One of removed units, in the order of plan. */
static enum vc_status add_recipe(struct vc_shrinking *s, const struct vc_recipe *recipe)
{
    struct vc_shrink_chain chain = {.share = vc_arena_printf(s->ctx, &s->arena, "%.9g", recipe->pruned)};

    VC_CALL_ALLOC(chain.share);
    chain.harm = vc_search_harm(recipe->error, true);
    if (recipe->n_passes == 2) {
        chain.scheme = recipe->more_tensors ? vc_search_eight(vc_shrink_is_gguf(s)) : vc_search_half(false);
    }
    return add(s, &chain);
}

/* Without data, for a device: what plan offers with removed units; and what it is that plan finds, for programs and formats
 * that are not those of the output, too. */
static enum vc_status add_recipes(struct vc_shrinking *s, bool removes)
{
    const struct vc_layout *layout = vc_model_layout(s->given);
    struct vc_recipe_options options;
    struct vc_memory_options memory;
    struct vc_fit_options fit;
    VC_SCOPED_RESULT struct vc_recipes *recipes = NULL;
    const struct vc_recipe *recipe, *best;

    vc_recipe_defaults(&options);
    vc_memory_defaults(&memory);
    vc_fit_defaults(&fit);
    fit.weights_only = s->sized == NULL;
    vc_memory_set_program(&memory, vc_memory_program(layout, vc_model_facts(s->given)->format, &memory), layout);
    memory.allocator = vc_memory_program_facts(memory.program)->allocator;
    options.visible_bytes = s->gpu->visible_bytes;
    options.usual_positions = true;
    options.without = ~(unsigned)(VC_LEVER_WEIGHTS | VC_LEVER_PRUNE) & ((1U << VC_LEVERS) - 1);
    VC_CALL(vc_recipes_make(s->ctx, s->sized, s->given, &memory, &fit, &options, &recipes));
    best = vc_recipe(recipes, vc_recipes_best(recipes));
    if (best != NULL && vc_recipes_best(recipes) != 0) { /* 0: as it is */
        VC_CALL_ALLOC(s->plans = vc_arena_copy(s->ctx, &s->arena, best->what, strlen(best->what)));
    }
    for (size_t i = 0; removes && (recipe = vc_recipe(recipes, i)) != NULL; i++) {
        if (recipe->pruned != 0 && recipe->n_passes != 0) {
            VC_CALL(add_recipe(s, recipe));
        }
    }
    return VC_OK;
}

/* Whether the graph has units of this kind that can be removed. */
static bool has_unit(const struct vc_shrinking *s, enum vc_unit unit)
{
    for (size_t k = 0; s->couplings != NULL && k < vc_couplings_count(s->couplings); k++) {
        const struct vc_coupling *c = vc_coupling(s->couplings, k);

        if (c->unit == unit && c->fixed == NULL) {
            return true;
        }
    }
    return false;
}

/* Each layer removed alone, from the first on, to measure what it is worth. A model without a list of layers, or one
 * whose graph is another file, refuses layer 0. */
static enum vc_status add_layers(struct vc_shrinking *s)
{
    bool added = s->options.graph_path == NULL;

    for (unsigned layer = 0; added && layer < MOST_LAYERS; layer++) {
        struct vc_shrink_chain chain = {.drop = vc_arena_printf(s->ctx, &s->arena, "%u", layer)};

        VC_CALL_ALLOC(chain.drop);
        VC_CALL(add_unless_refused(s, &chain, &added));
    }
    return VC_OK;
}

/* The layers that lost least alone are removed together. That is a guess, since layers make up for each
 * other: each of the candidates is measured. */
enum vc_status vc_shrink_list_layers(struct vc_shrinking *s)
{
    bool others[VC_SHRINK_MOST];
    const char *drop = NULL;
    size_t n_layers = 0;

    for (size_t k = 0; k < s->result.n_candidates; k++) {
        others[k] = s->chains[k].drop == NULL;
        n_layers += !others[k];
    }
    for (size_t n = 1; n <= n_layers / 2; n++) { /* an eighth, a quarter and half of the layers */
        size_t k = vc_shrink_pick(s, VC_PICK_CHEAPEST, others);

        if (k == VC_NO_CANDIDATE) {
            break;
        }
        others[k] = true;
        drop = drop == NULL ? s->chains[k].drop : vc_arena_printf(s->ctx, &s->arena, "%s,%s", drop, s->chains[k].drop);
        VC_CALL_ALLOC(drop);
        if (n == (n_layers + 7) / 8 || n == (n_layers + 3) / 4 || n == n_layers / 2) {
            VC_CALL(add_pruned(s, (struct vc_shrink_chain){.drop = drop}));
        }
    }
    return VC_OK;
}

/* The order is fixed, so that candidate k is the same in a search that goes on. */
enum vc_status vc_shrink_list(struct vc_shrinking *s)
{
    static const char *const shares[] = {"0.25", "0.5", "0.75"};
    static const char *const sparsities[] = {"0.95", "0.9", "0.8", "0.7", "0.5"};
    struct vc_search_place place = place_of(s);
    struct vc_shrink_chain chain = {.share = NULL};
    bool added;

    if (s->options.data == NULL) { /* what is measured has to be worth the time */
        place.kinds |= vc_shrink_is_gguf(s) ? (unsigned)VC_SEARCH_GGUF_LEAST : 0U;
        place.kinds |= s->gpu != NULL && s->write.layout == NULL ? (unsigned)VC_SEARCH_BITSANDBYTES : 0U;
    }
    if (vc_shrink_is_gguf(s) && vc_memory_float_type(NULL, s->given) == VC_DTYPE_F32) { /* its list has no halves */
        chain.scheme = vc_search_half(false);
        chain.harm = chain.scheme->error;
        VC_CALL(add_unless_refused(s, &chain, &added));
    }
    for (size_t at = 0; (chain.scheme = vc_search_next(&place, &at)) != NULL;) {
        chain.harm = chain.scheme->error;
        enum vc_status status = chain.scheme->layout != NULL ? add_unless_refused(s, &chain, &added) : add(s, &chain);
        VC_CALL(status);
    }
    if (s->options.data == NULL) {
        return s->gpu != NULL ? add_recipes(s, s->couplings != NULL) : VC_OK;
    }
    if (s->gpu != NULL && (s->gpu->types & VC_GPU_2_4) != 0) {
        VC_CALL(add_pruned(s, (struct vc_shrink_chain){.two_four = true}));
    }
    for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
        VC_CALL(add_pruned(s, (struct vc_shrink_chain){.share = shares[k]}));
    }
    for (size_t k = 0; k < 2; k++) { /* a quarter and half of the heads, of the experts */
        for (enum vc_unit unit = VC_UNIT_HEADS; unit <= VC_UNIT_EXPERTS; unit++) {
            if (has_unit(s, unit)) {
                VC_CALL(add_pruned(s, (struct vc_shrink_chain){.share = shares[k], .unit = unit}));
            }
        }
    }
    for (size_t k = 0; s->zeros && k < sizeof sparsities / sizeof sparsities[0]; k++) {
        VC_CALL(add_pruned(s, (struct vc_shrink_chain){.sparsity = sparsities[k]}));
    }
    if (s->result.limit_bytes != 0 && !vc_shrink_is_gguf(s) && !s->onnx) {
        VC_CALL(add(s, &(struct vc_shrink_chain){.aim_bytes = s->result.limit_bytes}));
    }
    return add_layers(s);
}
