/* prune.c - the pass behind `vcompress prune`: checks the options, chooses the tensors and gives reasons for the
 * others, finds the thresholds from what the steps counted, writes the recipe. The steps are in magnitude.c, n_of_m.c,
 * blocks.c and given.c.
 *
 * The life of the pass (struct vc_pass_ops):
 *
 *     plan_begin    checks what is about the model as a whole: shards, statistics, masks
 *     plan          for each tensor: keep it for a reason, or add a step that prunes it
 *     plan_end      one threshold for all tensors is set up (vc_prune_share)
 *     decide        after each round of counting (prune_decide.c), until every step knows what goes
 *     report        the zeros (prune_report.c) */

#include "core/base/option_struct.h"
#include "core/job/job_passes.h"
#include "core/model/masked_pairs.h"
#include "core/text/glob.h"
#include "passes/decode.h"
#include "passes/select.h"
#include "prune/given.h"
#include "prune/prune_pass.h"

/* ---- which tensors ---- */

/* The sparsity of that tensor: that of the last rule of `sets` whose glob matches (*own), else that of the options.
 * False: none is asked for. */
static bool sparsity_of(const struct vc_prune *p, const char *name, struct vc_fraction *out, bool *own)
{
    bool found = p->options.sparsity != NULL;

    *own = false;
    *out = p->sparsity;
    for (size_t i = 0; i < p->options.n_sets; i++) {
        if (vc_glob_match(p->sets[i].glob, name)) {
            *out = p->sets[i].share;
            *own = true;
            found = true;
        }
    }
    return found;
}

/* Codes with scales, or blocks of GGUF. */
static bool is_quantized(const struct vc_desc *desc)
{
    return desc->quant != NULL || vc_dtype_is_quantized(desc->dtype);
}

/* Keeps tensors that cannot be pruned, whatever the rules say. *kept: it was kept, with its reason. */
static enum vc_status check_possible(struct vc_ctx *ctx, const struct vc_prune *p, struct vc_item *item, bool *kept)
{
    const struct vc_tensor *t = &item->set->model->tensors[item->source];
    const struct vc_desc *desc = item->desc;

    *kept = true;
    if (t->undecoded != NULL) {
        return vc_item_keep_as(ctx, item, VC_SKIP_QUANTIZED);
    }
    if (!vc_decode_can(desc) && !(p->options.dequantize && vc_decode_is_f8(desc))) {
        return vc_item_keep_as(ctx, item, desc->dtype == VC_DTYPE_RAW ? "no array" : vc_dtype_name(desc->dtype));
    }
    if (desc->n_elems == 0) {
        return vc_item_keep_as(ctx, item, "empty");
    }
    if ((p->options.pattern == VC_PATTERN_N_OF_M || p->options.pattern == VC_PATTERN_BLOCK) && desc->n_dims < 2) {
        return vc_item_keep(ctx, item, "%u-D", desc->n_dims);
    }
    if (p->options.pattern == VC_PATTERN_N_OF_M && vc_input_axis(t) == VC_NO_INPUTS) {
        return vc_item_keep_as(ctx, item, t->inputs_reason);
    }
    *kept = false;
    return VC_OK;
}

/* Keeps what is usually left alone, where no rule asks for it. Biases and norms (fewer than two axes), embeddings and
 * heads (vc_prune_skip), small tensors. */
static enum vc_status check_default(struct vc_ctx *ctx, const struct vc_prune *p, struct vc_item *item, bool *kept)
{
    const struct vc_desc *desc = item->desc;
    const char *skip = vc_prune_skip(item->set->model, item->source);

    *kept = true;
    if (desc->n_dims < 2) {
        return vc_item_keep(ctx, item, "%u-D", desc->n_dims);
    }
    if (skip != NULL) {
        return vc_item_keep_as(ctx, item, skip);
    }
    if (desc->n_elems < p->options.min_elems) {
        return vc_item_keep(ctx, item, "fewer than %llu elements", (unsigned long long)p->options.min_elems);
    }
    *kept = false;
    return VC_OK;
}

/* Why two halves of a pair are two tensors here, as far as it is easily told. */
static const char *why_not_joined(const struct vc_model *model, const char *name)
{
    size_t n = strlen(name) - strlen("_orig");

    return vc_model_find_bytes(model, name, n) != VC_NO_TENSOR
               ? "there is a tensor of the name that they would have"
               : "the model was opened without that, they lie in a graph, have a second name, or differ in shape";
}

/* Pairs that torch.nn.utils.prune leaves until its masks are made permanent: the weight is orig * mask, so what becomes
 * of one half alone is no pruned weight. The first half is refused, the other one kept. */
static enum vc_status check_pair(struct vc_ctx *ctx, struct vc_item *item, bool *kept)
{
    const struct vc_model *model = item->set->model;
    const char *name = model->tensors[item->source].name;
    size_t other;

    VC_CALL(vc_find_beside(ctx, model, name, "_orig", "_mask", &other));
    VC_REFUSE_IF(other != VC_NO_TENSOR, ctx, VC_E_UNSUPPORTED,
                 "is pruned by torch.nn.utils.prune, with the mask %s, and the two are not joined: %s; make the mask "
                 "permanent with torch's function remove before the model is saved (%s keeps the tensor as it is)",
                 model->tensors[other].name, why_not_joined(model, name), vc_option(ctx, "include=false"));
    VC_CALL(vc_find_beside(ctx, model, name, "_mask", "_orig", &other));
    if (other != VC_NO_TENSOR) {
        *kept = true;
        return vc_item_keep_as(ctx, item, "the mask of another tensor");
    }
    return VC_OK;
}

/* Whether the pass works on the item: what is possible, then the rules, then the defaults. A rule of `sets`, or a mask,
 * asks for a tensor as --include does. *mask: its number in options.mask. */
static enum vc_status choose(struct vc_ctx *ctx, const struct vc_prune *p, struct vc_item *item, size_t *mask,
                             bool *kept)
{
    const char *name = item->set->model->tensors[item->source].name;
    const char *glob = NULL;
    struct vc_fraction sparsity;
    bool own;

    VC_CALL(check_possible(ctx, p, item, kept));
    if (*kept) {
        return VC_OK;
    }
    /* the user's rules, then what the pattern says, then the defaults */
    enum vc_choice choice = vc_rules_choose(p->options.rules, p->options.n_rules, name, &glob);
    if (choice == VC_CHOICE_EXCLUDE) {
        *kept = true;
        return vc_item_keep(ctx, item, "excluded by '%s'", glob);
    }
    if (p->options.pattern == VC_PATTERN_PAIRS) {
        VC_CALL(check_pair(ctx, item, kept));
        *kept = true;
        return vc_item_keep_as(ctx, item, "no mask");
    }
    if (p->options.pattern == VC_PATTERN_GIVEN) {
        VC_CALL(vc_given_find(ctx, p->options.mask, item, mask));
        *kept = *mask == VC_NO_TENSOR;
        return *kept ? vc_item_keep_as(ctx, item, "no mask") : VC_OK;
    }
    if (p->options.pattern != VC_PATTERN_N_OF_M && !sparsity_of(p, name, &sparsity, &own)) {
        *kept = true;
        return vc_item_keep_as(ctx, item, "no sparsity given");
    }
    if (choice == VC_CHOICE_DEFAULT && (p->options.pattern == VC_PATTERN_N_OF_M || !own)) {
        VC_CALL(check_default(ctx, p, item, kept));
    }
    if (!*kept) {
        VC_CALL(check_pair(ctx, item, kept));
    }
    return VC_OK;
}

/* ---- planning ---- */

/* The word of the report: "50%", "50% of all" (one threshold), "2:4", "90%/4x4", "mask". */
static const char *scheme_text(struct vc_ctx *ctx, const struct vc_prune *p, struct vc_item *item,
                               struct vc_fraction sparsity, bool shared)
{
    const struct vc_prune_options *o = &p->options;
    double percent = 100.0 * (double)sparsity.n / (double)sparsity.d;

    if (o->pattern == VC_PATTERN_N_OF_M) {
        return vc_arena_printf(ctx, item->set->arena, "%u:%u", o->keep, o->group);
    }
    if (o->pattern == VC_PATTERN_GIVEN) {
        return "mask";
    }
    if (o->pattern == VC_PATTERN_BLOCK) {
        return vc_arena_printf(ctx, item->set->arena, "%g%%/%ux%u", percent, o->block_rows, o->block_cols);
    }
    return vc_arena_printf(ctx, item->set->arena, shared ? "%g%% of all" : "%g%%", percent);
}

/* A quantized tensor that nobody said to decode: zeroing its values would move the scales of its groups. */
static enum vc_status refuse_codes(struct vc_ctx *ctx, const struct vc_item *item)
{
    return vc_fail(ctx, VC_E_UNSUPPORTED,
                   "is quantized (%s); its codes cannot be pruned one by one (%s makes floats of them first, %s keeps "
                   "it)",
                   item->desc->quant != NULL ? vc_scheme_name(item->desc->quant->scheme)
                                             : vc_dtype_name(item->desc->dtype),
                   vc_option(ctx, "dequantize"), vc_option(ctx, "include=false"));
}

/* One file of several of a model, by its name (x-00001-of-00003.safetensors), that is read without the others. Parts of
 * a GGUF file are found by the first. The name is taken apart from its end: ".safetensors", five digits, "-of-", five
 * digits, a dash. One file of one ("-of-00001") is whole. */
static bool is_lone_shard(const char *path)
{
    const char *dot = strrchr(path, '.');
    const char *of = dot;

    while (of != NULL && of > path && of[-1] >= '0' && of[-1] <= '9') {
        of--;
    }
    return of != NULL && dot - of == 5 && of - path > 10 && strncmp(of - 4, "-of-", 4) == 0 &&
           strspn(of - 9, "0123456789") == 5 && of[-10] == '-' && strncmp(of, "00001", 5) != 0 &&
           strcmp(dot, ".gguf") != 0;
}

/* A plan may be made again for the same pass, so that lists of the one before are freed. */
static enum vc_status prune_plan_begin(struct vc_ctx *ctx, struct vc_pass *pass, const struct vc_plan *plan)
{
    struct vc_prune *p = pass->self;

    vc_free(ctx, vc_give(&p->shared));
    VC_REFUSE_IF(p->options.scope == VC_PRUNE_GLOBAL && is_lone_shard(plan->model->path), ctx, VC_E_UNSUPPORTED,
                 "is one of several files of a model, and one threshold for all tensors needs the others, too: give "
                 "the folder, or %s tensor",
                 vc_option(ctx, "scope"));
    VC_CALL(vc_calibration_check(ctx, p->options.calibration, plan->model, p->options.calibration_anyway, plan->arena,
                                 &p->measured));
    if (p->options.mask != NULL) {
        VC_CALL(vc_given_check(ctx, p->options.mask, plan->model));
    }
    VC_REFUSE_IF(p->options.pattern == VC_PATTERN_PAIRS && plan->model->pair_masks == NULL, ctx, VC_E_UNSUPPORTED,
                 "has no pairs of torch.nn.utils.prune, such as weight_orig and weight_mask, so there is nothing "
                 "to make permanent");
    p->n_shared = p->n_scored = p->n_unscored = 0;
    p->shared = vc_alloc_array(ctx, VC_TAG_MISC, plan->n_items, sizeof *p->shared);
    return p->shared == NULL ? VC_E_NOMEM : VC_OK;
}

/* A step before the pruning that makes f32 of codes. f16, bf16, f32 and f64 are pruned in their own type. */
static enum vc_status add_decode(struct vc_ctx *ctx, struct vc_item *item)
{
    return is_quantized(item->desc) || (item->desc->dtype != VC_DTYPE_F16 && item->desc->dtype != VC_DTYPE_BF16)
               ? vc_decode_add(ctx, item, false)
               : VC_OK;
}

/* The mask of a joined pair (core/model/masked_pairs.h) is applied whatever the rules say: the weights have no other
 * values than that. `more`: they are pruned further. mask: the number of the tensor with the mask. */
static enum vc_status apply_pair(struct vc_ctx *ctx, const struct vc_prune *p, struct vc_item *item, size_t mask,
                                 bool more)
{
    for (size_t k = 0; k < item->chain->n_steps; k++) {
        if (item->chain->steps[k]->action == VC_ACTION_PRUNED) { /* an earlier prune has done it */
            return VC_OK;
        }
    }
    VC_REFUSE_IF(item->chain->n_steps != 0, ctx, VC_E_UNSUPPORTED,
                 "is pruned by torch.nn.utils.prune, with the mask %s, which comes before everything else: prune "
                 "has to be the first pass",
                 item->set->model->tensors[mask].name);
    VC_CALL(add_decode(ctx, item));
    return vc_given_add(ctx, item, more ? &p->pair_first : &p->pair_alone, item->set->model, mask, "mask");
}

/* One tensor. A step is added by the score and the pattern; steps of a common threshold get their limit in plan_end. */
static enum vc_status prune_plan(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_item *item)
{
    struct vc_prune *p = pass->self;
    const struct vc_prune_options *o = &p->options;
    struct vc_fraction sparsity = {0, 1};
    const char *reason;
    size_t pair = vc_pairs_mask(item->set->model, item->source);
    size_t mask = VC_NO_TENSOR;
    bool kept = false;
    bool own = false;

    /* a joined pair loses what its mask removes even where nothing else is pruned */
    VC_CALL(choose(ctx, p, item, &mask, &kept));
    if (pair != VC_NO_TENSOR) {
        VC_CALL(apply_pair(ctx, p, item, pair, !kept));
    }
    if (kept) {
        return VC_OK;
    }
    VC_RETURN_IF(is_quantized(item->desc) && !o->dequantize, refuse_codes(ctx, item));
    VC_CALL(add_decode(ctx, item));
    (void)sparsity_of(p, item->set->model->tensors[item->source].name, &sparsity, &own);
    bool shared = o->scope == VC_PRUNE_GLOBAL && !own;
    const char *scheme = scheme_text(ctx, p, item, sparsity, shared);
    /* the step, by the score and the pattern */
    if (o->score >= VC_SCORE_WANDA) {
        VC_CALL(vc_wanda_add(ctx, item, o, sparsity, scheme, &reason));
        p->n_scored += reason == NULL;
        p->n_unscored += reason == vc_no_moments;
        return VC_OK;
    }
    if (o->pattern == VC_PATTERN_N_OF_M) {
        return vc_n_of_m_add(ctx, item, o, scheme);
    }
    if (o->pattern == VC_PATTERN_GIVEN) {
        return vc_given_add(ctx, item, o, o->mask, mask, scheme);
    }
    if (shared) {
        p->shared[p->n_shared++] = item->source;
    }
    if (o->pattern == VC_PATTERN_BLOCK) {
        return vc_blocks_add(ctx, item, o, vc_fraction_floor(sparsity, vc_blocks_count(o, item->desc)), scheme);
    }
    return vc_magnitude_add(ctx, item, o, vc_prune_key_type(item->desc),
                            vc_fraction_floor(sparsity, item->desc->n_elems), scheme);
}

/* Refuses `reconstruct` where it changes none of the tensors that are pruned; of one shard without the others it cannot
 * be told. */
static enum vc_status check_reconstructed(struct vc_ctx *ctx, const struct vc_prune *p, const struct vc_plan *plan)
{
    const char *name = NULL;
    const char *why = NULL;
    bool gathers = false;

    for (size_t i = 0; i < plan->n_items; i++) {
        const struct vc_chain *chain = plan->items[i].chain;
        const struct vc_step *step = chain->n_steps > chain->pass_first ? chain->steps[chain->n_steps - 1] : NULL;
        const struct vc_prune_state *s = step != NULL && step->action == VC_ACTION_PRUNED ? step->state : NULL;

        /* one tensor that changes is enough */
        if (s != NULL && s->refitted) {
            return VC_OK;
        }
        if (s != NULL && s->options->reconstruct && !gathers) {
            why = step->why;
            gathers = why == vc_no_moments && (s->calibration.sums == VC_NO_TENSOR || s->calibration.n_matrices == 1);
            name = plan->model->tensors[plan->items[i].source].name;
        }
    }
    if (why == NULL || plan->model->n_unseen != 0) {
        return VC_OK;
    }
    return vc_fail(ctx, VC_E_UNSUPPORTED, "%s: %s changes none of the tensors that are pruned: %s: %s%s%s",
                   p->options.calibration->path, vc_option(ctx, "reconstruct"), name, why,
                   gathers ? ", which calibrate gathers with " : "", gathers ? vc_option(ctx, "second_moments") : "");
}

/* A note names rules that matched nothing. */
static enum vc_status prune_plan_end(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan)
{
    struct vc_prune *p = pass->self;

    for (size_t i = 0; i < plan->n_items; i++) { /* what other workers prune does not change type or shape */
        if (plan->items[i].in_other_shard && plan->items[i].chain->n_steps > plan->items[i].chain->pass_first) {
            plan->items[i].chain->steps[plan->items[i].chain->n_steps - 1]->calibrate = false;
        }
    }
    if (p->n_shared != 0) {
        VC_CALL(vc_prune_share(ctx, p, plan));
    }
    VC_REFUSE_IF(p->options.score == VC_SCORE_SPARSEGPT && p->n_scored == 0 && p->n_unscored != 0, ctx,
                 VC_E_UNSUPPORTED,
                 "%s: has no second moments of the inputs of these tensors, which %s sparsegpt needs: calibrate "
                 "with %s gathers them",
                 p->options.calibration->path, vc_option(ctx, "score"), vc_option(ctx, "second_moments"));
    VC_CALL(check_reconstructed(ctx, p, plan));
    VC_CALL(vc_rules_unmatched(ctx, &p->arena, p->options.rules, p->options.n_rules, plan->model, &pass->note));
    return vc_note_add(ctx, &p->arena, p->measured, &pass->note);
}

/* Also a pass that was made in part. */
static void prune_free(struct vc_ctx *ctx, struct vc_pass *pass)
{
    struct vc_prune *p = pass->self;

    vc_free(ctx, p->shared);
    vc_arena_release(ctx, &p->arena);
    vc_free(ctx, p);
}

static const struct vc_pass_ops prune_ops = {.name = "prune",
                                             .plan_begin = prune_plan_begin,
                                             .plan = prune_plan,
                                             .plan_end = prune_plan_end,
                                             .decide = vc_prune_decide,
                                             .report = vc_prune_report,
                                             .free = prune_free};

/* Options are checked and copied here; the caller may free what they point to, but models (mask, calibration) stay
 * open. */
enum vc_status vc_job_add_prune(struct vc_ctx *ctx, struct vc_job *job, const struct vc_prune_options *options)
{
    struct vc_prune_options own;
    struct vc_prune *p = NULL;
    enum vc_status status = VC_OK;

    vc_clear_error(ctx);
    VC_TRY(vc_options_read(ctx, VC_OPTIONS(prune), options, &own));
    VC_CALL_FOUND(ctx, vc_kernels_get(ctx));
    VC_TRY(VC_ZEROS(ctx, VC_TAG_MISC, p, 1));
    p->pass.ops = &prune_ops;
    p->pass.self = p;
    p->options = own;
    VC_TRY(vc_prune_check(ctx, p));
    VC_TRY(vc_prune_copy(ctx, p));
    VC_TRY(vc_prune_describe(ctx, p));
    return vc_job_add_pass(ctx, job, &p->pass);
out:
    if (p != NULL) {
        prune_free(ctx, &p->pass);
    }
    return status;
}
