/* prune_decide.c - from what the steps counted to thresholds: of each tensor by itself, or one for all of them. Called
 * between rounds of calibration.
 *
 * In rounds: the steps count weights by ranges of magnitudes (passes/scores/keys.h), the range with the threshold is
 * divided further, until it is one magnitude and the number of those equal to it is known. A tensor of f16 needs one
 * round, f32 and f64 need more. */

#include "prune/prune_pass.h"

/* Magnitudes as unsigned integers have the order of the floats: 15, 31 or 63 bits. */
enum vc_key_type vc_prune_key_type(const struct vc_desc *desc)
{
    return desc->dtype == VC_DTYPE_F64                                   ? VC_KEY_F64
           : desc->dtype == VC_DTYPE_F16 || desc->dtype == VC_DTYPE_BF16 ? VC_KEY_U16
                                                                         : VC_KEY_F32;
}

/* The last step of the item, which is that of this pass. */
static struct vc_step *last_step(const struct vc_item *item)
{
    return item->chain->steps[item->chain->n_steps - 1];
}

static struct vc_keys *keys_of(const struct vc_plan *plan, size_t index)
{
    return &((struct vc_prune_state *)last_step(&plan->items[index])->state)->keys;
}

/* A tensor with a common threshold, while the list is sorted. */
struct named {
    const char *name;
    size_t index;
};

/* By name, as ties go: of equal magnitudes those of the first name. qsort has no argument for the model, so names are
 * compared through `named`. */
static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static enum vc_status sort_shared(struct vc_ctx *ctx, struct vc_prune *p, const struct vc_plan *plan)
{
    struct named *list = vc_alloc_array(ctx, VC_TAG_MISC, p->n_shared, sizeof *list);

    VC_CALL_ALLOC(list);
    for (size_t i = 0; i < p->n_shared; i++) {
        list[i] = (struct named){plan->model->tensors[p->shared[i]].name, p->shared[i]};
    }
    qsort(list, p->n_shared, sizeof *list, by_name);
    for (size_t i = 0; i < p->n_shared; i++) {
        p->shared[i] = list[i].index;
    }
    vc_free(ctx, list);
    return VC_OK;
}

/* The keys of tensors with a common threshold must have one order: 16-bit floats only if all are of one type. f16 and
 * bf16 have different orders of bits, so a mixture is compared as f32. */
static enum vc_key_type common_type(const struct vc_prune *p, const struct vc_plan *plan)
{
    enum vc_dtype first = plan->items[p->shared[0]].desc->dtype;
    enum vc_key_type type = vc_prune_key_type(plan->items[p->shared[0]].desc);

    for (size_t i = 1; i < p->n_shared; i++) {
        const struct vc_desc *desc = plan->items[p->shared[i]].desc;

        if (desc->dtype == VC_DTYPE_F64) {
            return VC_KEY_F64;
        }
        type = desc->dtype != first && type == VC_KEY_U16 ? VC_KEY_F32 : type;
        type = vc_prune_key_type(desc) == VC_KEY_F32 && type == VC_KEY_U16 ? VC_KEY_F32 : type;
    }
    return type;
}

/* Sets up one threshold for all: the keys of every tensor, how many weights each may lose (limit, by min_keep), and how
 * many go in all (p->k, a floor of sparsity times all weights). */
enum vc_status vc_prune_share(struct vc_ctx *ctx, struct vc_prune *p, const struct vc_plan *plan)
{
    bool blocks = p->options.pattern == VC_PATTERN_BLOCK;
    enum vc_key_type type = common_type(p, plan);
    uint64_t total = 0;
    uint64_t most = 0;

    VC_CALL(vc_model_need_all(ctx, plan->model, "one threshold for all tensors, unlike one for each, needs all files"));
    VC_CALL(sort_shared(ctx, p, plan));
    for (size_t i = 0; i < p->n_shared; i++) {
        struct vc_keys *keys = keys_of(plan, p->shared[i]);

        if (!blocks) {
            vc_magnitude_set_type(last_step(&plan->items[p->shared[i]]), type);
        }
        if (p->options.score == VC_SCORE_LAMP) {
            VC_CALL(vc_magnitude_set_lamp(ctx, last_step(&plan->items[p->shared[i]])));
        }
        last_step(&plan->items[p->shared[i]])->calibrate = true;
        last_step(&plan->items[p->shared[i]])->calibrate_all = true;
        keys->shared = true;
        keys->limit = keys->n - vc_fraction_ceil(p->min_keep, keys->n);
        total += keys->n;
        most += keys->limit;
    }
    p->k = vc_fraction_floor(p->sparsity, total);
    VC_REFUSE_IF(p->k > most, ctx, VC_E_ARGUMENT,
                 "%s of %llu is %llu, but %s leaves %llu that may become zero; lower one of them, or give %s tensor",
                 p->options.sparsity, (unsigned long long)total, (unsigned long long)p->k, vc_option(ctx, "min_keep"),
                 (unsigned long long)most, vc_option(ctx, "scope"));
    return VC_OK;
}

/* ---- deciding ---- */

/* Under the policy "keep" a tensor with NaN or Inf is left alone; under "error" it is refused. *kept: it is left alone,
 * and its step is gone. */
static enum vc_status check_finite(struct vc_ctx *ctx, struct vc_item *item, bool *kept)
{
    struct vc_step *step = last_step(item);
    const struct vc_prune_state *s = step->state;
    bool calibrate = step->calibrate;

    *kept = s->policy.specials.nonfinite != 0 && s->policy.nonfinite == VC_NONFINITE_KEEP;
    if (vc_policy_decide(ctx, step, item) != VC_OK) {
        return vc_context(ctx, "%s", item->set->model->tensors[item->source].name);
    }
    if (!*kept) {
        step->calibrate = calibrate;
    }
    return VC_OK;
}

/* After the first round: takes items that are kept out of the common order, which then has fewer weights. p->k is
 * counted anew for the weights that are left. */
static enum vc_status drop_kept(struct vc_ctx *ctx, struct vc_prune *p, struct vc_plan *plan)
{
    bool any = false;
    bool kept;
    size_t n = 0;

    for (size_t i = 0; i < plan->n_items; i++) {
        struct vc_item *item = &plan->items[i];

        if (vc_item_calibrates(item)) {
            VC_CALL(check_finite(ctx, item, &kept));
            any = any || kept;
        }
    }
    for (size_t i = 0; any && i < p->n_shared; i++) {
        if (plan->items[p->shared[i]].chain->n_steps > plan->items[p->shared[i]].chain->pass_first) {
            p->shared[n++] = p->shared[i];
        }
    }
    if (any && p->n_shared != 0) {
        p->n_shared = n;
        p->k = 0;
        for (size_t i = 0; i < n; i++) {
            p->k += keys_of(plan, p->shared[i])->n;
        }
        p->k = vc_fraction_floor(p->sparsity, p->k);
    }
    return VC_OK;
}

static struct vc_lamp *lamp_of(const struct vc_plan *plan, size_t index)
{
    return ((struct vc_prune_state *)last_step(&plan->items[index])->state)->lamp;
}

/* One round of LAMP: every tensor with its keys and sums. */
static enum vc_status narrow_scores(struct vc_ctx *ctx, struct vc_prune *p, const struct vc_plan *plan)
{
    VC_SCOPED struct vc_lamp_keys *list = vc_alloc_array(ctx, VC_TAG_MISC, p->n_shared, sizeof *list);

    VC_CALL_ALLOC(list);
    for (size_t i = 0; i < p->n_shared; i++) {
        list[i] = (struct vc_lamp_keys){.name = plan->model->tensors[p->shared[i]].name,
                                        .keys = keys_of(plan, p->shared[i]),
                                        .lamp = lamp_of(plan, p->shared[i])};
    }
    return vc_lamp_narrow(ctx, list, p->n_shared, &p->k);
}

/* One round of a common threshold by magnitude. */
static enum vc_status narrow_shared(struct vc_ctx *ctx, struct vc_prune *p, struct vc_plan *plan)
{
    VC_SCOPED struct vc_keys **list = vc_alloc_array(ctx, VC_TAG_MISC, p->n_shared, sizeof *list);

    VC_CALL_ALLOC(list);
    for (size_t i = 0; i < p->n_shared; i++) {
        list[i] = keys_of(plan, p->shared[i]);
    }
    return vc_keys_narrow_together(ctx, list, p->n_shared, &p->k);
}

/* A round of calibration that had no memory for its counts. */
static enum vc_status check_counted(struct vc_ctx *ctx, const struct vc_plan *plan)
{
    for (size_t i = 0; i < plan->n_items; i++) {
        VC_REFUSE_IF(vc_item_calibrates(&plan->items[i]) && keys_of(plan, i)->failed, ctx, VC_E_NOMEM,
                     "%s: no memory for the counts of its weights", plan->model->tensors[i].name);
    }
    return VC_OK;
}

/* What follows for a step from what is known of its keys: another round, or none. */
static void follow_keys(struct vc_ctx *ctx, const struct vc_prune *p, struct vc_step *step)
{
    struct vc_prune_state *s = step->state;

    if (!s->keys.shared && !s->keys.done) {
        vc_keys_narrow(ctx, &s->keys);
    }
    step->calibrate = !s->keys.done && (s->lamp == NULL || !s->lamp->waits);
    if (s->keys.done && p->options.pattern == VC_PATTERN_BLOCK) {
        vc_blocks_settled(step);
    } else if (s->keys.done) {
        vc_magnitude_settled(step);
    }
}

/* N of M and given masks calibrate for NaN and Inf only; steps with keys do until these are known. */
enum vc_status vc_prune_decide(struct vc_ctx *ctx, struct vc_pass *pass, struct vc_plan *plan, size_t round)
{
    struct vc_prune *p = pass->self;

    if (round == 0) {
        VC_CALL(drop_kept(ctx, p, plan));
    }
    /* nothing to decide: NaN and Inf were all that was looked for */
    if (vc_prune_says_itself(&p->options)) {
        for (size_t i = 0; i < plan->n_items; i++) {
            if (vc_item_calibrates(&plan->items[i])) {
                last_step(&plan->items[i])->calibrate = false;
            }
        }
        return VC_OK;
    }
    VC_CALL(check_counted(ctx, plan));
    for (size_t i = 0; i < plan->n_items;
         i++) { /* those of a common threshold follow below: some may not have looked */
        if (vc_item_calibrates(&plan->items[i]) && !keys_of(plan, i)->shared) {
            follow_keys(ctx, p, last_step(&plan->items[i]));
        }
    }
    /* one threshold for all */
    if (p->n_shared != 0) {
        if (p->options.score == VC_SCORE_LAMP) {
            VC_CALL(narrow_scores(ctx, p, plan));
        } else {
            VC_CALL(narrow_shared(ctx, p, plan));
        }
    }
    for (size_t i = 0; i < p->n_shared; i++) {
        struct vc_step *step = last_step(&plan->items[p->shared[i]]);

        if (step->calibrate || p->options.score == VC_SCORE_LAMP) {
            follow_keys(ctx, p, step);
        }
    }
    return VC_OK;
}
