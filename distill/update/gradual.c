/* gradual.c - see gradual.h. Thresholds are found as `prune` finds them (passes/scores/keys.h): among the
 * weights that are left, so that masks only grow, and exactly, ties in the order of the elements.
 *
 *     zeros at a step = begun + (end - begun) * (1 - left^3)     left: from 1 at `first` down to 0 at `last`
 *
 *     of the way       0      1/4    1/2    3/4    1
 *     of the zeros     0      0.58   0.88   0.98   1             most go early, and the last steps only train
 */
#include "distill/update/gradual.h"

#include "core/base/option_struct.h"
#include "core/values/fraction.h"
#include "distill/update/device_step.h"
#include "distill/update/fake_quant.h"
#include "kernels/kernels.h"
#include "passes/scores/keys.h"
#include "passes/select.h"

#define DEFAULT_TIMES 20 /* that masks grow where no schedule is given */

/* A tensor that is pruned.
 * keys: what finding a threshold needs of it; the same as in the prune pass. */
struct part {
    size_t entry;   /* of the student's weights */
    uint64_t begun; /* weights that were 0 in the student's file, or that a mask took */
    struct vc_keys keys;
};

struct vc_gradual {
    struct vc_prune_options options;
    struct vc_fraction sparsity, min_keep;
    bool global;
    uint64_t first, last, every;
    size_t n;
    struct part *parts;
    struct vc_keys **together; /* of parts that share a threshold */
    void *room;                /* between steps: the place of what finding thresholds takes */
};

/* ---- options ---- */

/* The options of the prune pass, without what a run cannot do while it trains. */
static enum vc_status read_options(struct vc_learner *l, struct vc_gradual *g)
{
    const struct vc_prune_options *o = &g->options;

    VC_CALL(vc_options_read(l->ctx, VC_OPTIONS(prune), l->options->sparsity.prune, &g->options));
    VC_REFUSE_IF(o->sparsity == NULL, l->ctx, VC_E_ARGUMENT, "nothing says how much to prune: %s",
                 vc_option(l->ctx, "sparsity"));
    VC_REFUSE_IF((unsigned)o->scope > VC_PRUNE_GLOBAL || o->pattern != VC_PATTERN_NONE ||
                     o->score != VC_SCORE_MAGNITUDE || o->mask != NULL || o->mask_path != NULL || o->n_sets != 0,
                 l->ctx, VC_E_UNSUPPORTED,
                 "while it trains, a student is pruned by magnitude and without patterns, scores, masks and "
                 "shares for single tensors (vc_prune_options)");
    VC_REFUSE_IF(o->min_keep != NULL && o->scope != VC_PRUNE_GLOBAL, l->ctx, VC_E_ARGUMENT,
                 "%s goes with one threshold for all tensors only: %s", vc_option(l->ctx, "min_keep"),
                 vc_option(l->ctx, "scope"));
    VC_CALL(vc_share_read(l->ctx, "sparsity", o->sparsity, &g->sparsity));
    g->min_keep = (struct vc_fraction){1, 100};
    if (o->min_keep != NULL) {
        VC_CALL(vc_share_read(l->ctx, "min_keep", o->min_keep, &g->min_keep));
    }
    g->global = o->scope == VC_PRUNE_GLOBAL;
    return VC_OK;
}

/* Without a schedule the masks grow over the first three quarters of the steps.
 *     1000 steps and no schedule: first 0, last 750, every 37
 */
static enum vc_status choose_schedule(struct vc_learner *l, uint64_t n_steps, struct vc_gradual *g)
{
    const struct vc_distill_options *o = l->options;
    bool given = o->sparsity.prune_first != 0 || o->sparsity.prune_last != 0 || o->sparsity.prune_every != 0;

    g->first = o->sparsity.prune_first;
    g->last = given ? o->sparsity.prune_last : n_steps - vc_ceil_div_u64(n_steps, 4);
    g->every = given ? o->sparsity.prune_every : vc_max_u64(1, g->last / DEFAULT_TIMES);
    VC_REFUSE_IF(g->every == 0 || g->first > g->last, l->ctx, VC_E_ARGUMENT,
                 "%s %llu:%llu:%llu: expected FIRST:LAST:EVERY, FIRST at most LAST",
                 vc_option(l->ctx, "sparsity.prune_first"), (unsigned long long)g->first, (unsigned long long)g->last,
                 (unsigned long long)g->every);
    VC_REFUSE_IF(g->last >= n_steps, l->ctx, VC_E_ARGUMENT,
                 "%s: the run has %llu steps, and none is left behind step %llu to train with the last mask",
                 vc_option(l->ctx, "sparsity.prune_first"), (unsigned long long)n_steps, (unsigned long long)g->last);
    return VC_OK;
}

/* ---- tensors ---- */

/* As `prune` chooses: what rules say, then what is usually left alone. */
static bool is_chosen(const struct vc_learner *l, const struct vc_gradual *g, const struct vc_weight *item)
{
    const struct vc_model *model = l->options->student.weights;
    size_t tensor = vc_model_find(model, item->name);
    const char *glob = NULL;
    enum vc_choice choice = vc_rules_choose(g->options.rules, g->options.n_rules, item->name, &glob);

    if (!item->trained || item->n == 0 || tensor == VC_NO_TENSOR || choice == VC_CHOICE_EXCLUDE) {
        return false;
    }
    return choice == VC_CHOICE_INCLUDE ||
           (item->n_dims >= 2 && item->n >= g->options.min_elems && vc_prune_skip(model, tensor) == NULL);
}

/* Weights that may go. */
static uint64_t limit_of(const struct vc_gradual *g, uint64_t n)
{
    return g->global ? n - vc_fraction_ceil(g->min_keep, n) : n;
}

/* The tensors that are pruned, and whether so many of their weights may go. */
static enum vc_status choose_tensors(struct vc_learner *l, struct vc_gradual *g)
{
    const struct vc_weights *w = l->net.weights;
    uint64_t total = 0;
    uint64_t most = 0;

    VC_CALL(VC_ZEROS(l->ctx, VC_TAG_MISC, g->parts, w->n + 1));
    VC_CALL(VC_ZEROS(l->ctx, VC_TAG_MISC, g->together, w->n + 1));
    for (size_t k = 0; k < w->n; k++) {
        if (is_chosen(l, g, &w->items[k])) {
            g->together[g->n] = &g->parts[g->n].keys;
            g->parts[g->n++].entry = k;
            total += w->items[k].n;
            most += limit_of(g, w->items[k].n);
        }
    }
    VC_REFUSE_IF(g->n == 0, l->ctx, VC_E_ARGUMENT,
                 "%s: there is no tensor to prune: those that are trained have one dimension, or prune leaves "
                 "them alone",
                 vc_option(l->ctx, "sparsity"));
    VC_REFUSE_IF(g->global && vc_fraction_floor(g->sparsity, total) > most, l->ctx, VC_E_ARGUMENT,
                 "%s of %llu is %llu, but %s leaves %llu that may become zero; lower one of them", g->options.sparsity,
                 (unsigned long long)total, (unsigned long long)vc_fraction_floor(g->sparsity, total),
                 vc_option(l->ctx, "min_keep"), (unsigned long long)most);
    l->report->prune_weights = total;
    return VC_OK;
}

/* Nothing where no pruning was asked for. */
enum vc_status vc_gradual_open(struct vc_learner *l, uint64_t n_steps)
{
    struct vc_gradual *g;

    if (l->options->sparsity.prune == NULL) {
        return l->options->sparsity.prune_last == 0 && l->options->sparsity.prune_every == 0
                   ? VC_OK
                   : vc_fail(l->ctx, VC_E_ARGUMENT, "%s needs %s", vc_option(l->ctx, "sparsity.prune_first"),
                             vc_option(l->ctx, "sparsity"));
    }
    VC_CALL(VC_ZEROS(l->ctx, VC_TAG_MISC, g, 1));
    l->gradual = g;
    VC_CALL(read_options(l, g));
    VC_REFUSE_IF(l->options->task != VC_TASK_TRAIN, l->ctx, VC_E_ARGUMENT, "%s trains nothing: %s belongs to a run",
                 vc_option(l->ctx, "task"), vc_option(l->ctx, "sparsity"));
    VC_CALL(choose_schedule(l, n_steps, g));
    VC_CALL(choose_tensors(l, g));
    l->report->prune_first = g->first;
    l->report->prune_last = g->last;
    l->report->prune_every = g->every;
    return VC_OK;
}

/* Accepts one that was opened in part. */
void vc_gradual_close(struct vc_learner *l)
{
    struct vc_gradual *g = l->gradual;

    if (g != NULL) {
        for (size_t i = 0; g->parts != NULL && i < g->n; i++) {
            vc_keys_release(l->ctx, &g->parts[i].keys);
        }
        VC_FREE_ALL(l->ctx, g->parts, g->together, g->room, g);
        l->gradual = NULL;
    }
}

/* The entry is one of those. */
bool vc_gradual_has(const struct vc_learner *l, size_t entry)
{
    for (size_t i = 0; l->gradual != NULL && i < l->gradual->n; i++) {
        if (l->gradual->parts[i].entry == entry) {
            return true;
        }
    }
    return false;
}

/* Bins while one tensor is looked at, the counts of a piece of it, the sums of tensors with one threshold, and the
 * lists of all tensors that share it. */
uint64_t vc_gradual_bytes(const struct vc_learner *l)
{
    const struct vc_gradual *g = l->gradual;
    const struct vc_weights *w = l->net.weights;
    uint64_t bytes =
        2 * vc_pool_block_bytes(VC_KEY_BINS * sizeof(uint64_t)) + vc_pool_block_bytes(VC_KEY_BINS * sizeof(uint32_t));
    uint64_t lists = 0;

    for (size_t i = 0; g != NULL && i < g->n; i++) {
        uint64_t list = vc_min_u64(VC_KEY_BINS, w->items[g->parts[i].entry].n) * sizeof(uint64_t);

        list = vc_pool_block_bytes((size_t)list);
        lists = g->global ? lists + list : vc_max_u64(lists, list);
    }
    return g != NULL ? bytes + lists : 0;
}

void **vc_gradual_room(struct vc_learner *l)
{
    return &l->gradual->room;
}

/* ---- a run ---- */

static bool is_zero(const struct vc_learner *l, const struct vc_weight *item, uint64_t i)
{
    return l->f64 ? ((const double *)item->data)[i] == 0 : ((const float *)item->data)[i] == 0;
}

/* Weight i becomes 0. */
static void set_zero(const struct vc_learner *l, void *weights, uint64_t i)
{
    if (l->f64) {
        ((double *)weights)[i] = 0;
    } else {
        ((float *)weights)[i] = 0;
    }
}

/* The bits of the magnitude, which as integers have the order of the values. */
static uint64_t key_of(const struct vc_learner *l, const void *weights, uint64_t i)
{
    uint64_t wide;
    uint32_t bits;

    if (l->f64) {
        memcpy(&wide, (const double *)weights + i, sizeof wide);
        return wide & (UINT64_MAX >> 1);
    }
    memcpy(&bits, (const float *)weights + i, sizeof bits);
    return bits & (UINT32_MAX >> 1);
}

/* Masks at the beginning: what is 0 in the file stays 0. */
enum vc_status vc_gradual_begin(struct vc_learner *l)
{
    struct vc_gradual *g = l->gradual;
    uint64_t begun = 0;

    for (size_t p = 0; g != NULL && p < g->n; p++) {
        const struct vc_weight *item = &l->net.weights->items[g->parts[p].entry];
        struct vc_weight_state *state = &l->optimizer.states[g->parts[p].entry];
        uint64_t n = 0;

        if (state->keep == NULL) {
            VC_CALL_ALLOC(state->keep = vc_alloc(l->ctx, VC_TAG_TILES, (size_t)item->n));
        }
        for (uint64_t i = 0; i < item->n; i++) {
            state->keep[i] = !is_zero(l, item, i); /* also where a mask has set it to 0 */
            n += state->keep[i] == 0;
        }
        l->report->n_masked += n - state->n_masked;
        state->n_masked = n;
        g->parts[p].begun = n;
        begun += n;
    }
    l->report->prune_begin = begun;
    return VC_OK;
}

static bool is_due(const struct vc_gradual *g, uint64_t step)
{
    return step >= g->first && step <= g->last && (step == g->last || (step - g->first) % g->every == 0);
}

/* How many of n weights, of which `begun` were 0, are 0 from now on. */
static uint64_t goal_of(const struct vc_gradual *g, uint64_t step, uint64_t n, uint64_t begun)
{
    uint64_t end = vc_max_u64(begun, vc_fraction_floor(g->sparsity, n));
    double left = step == g->last ? 0 : 1 - (double)(step - g->first) / (double)(g->last - g->first);

    return end - (uint64_t)ceil((double)(end - begun) * left * left * left);
}

/* Counts the keys of a tensor. Weights that are 0 by their mask are not counted: their keys are 0, in the first bin. */
static enum vc_status count_keys(struct vc_learner *l, const struct part *p, struct vc_keys *keys, uint32_t *counts)
{
    struct vc_ctx *ctx = l->ctx;
    const struct vc_kernels *k = vc_kernels_get(ctx);
    const struct vc_weight *item = &l->net.weights->items[p->entry];
    const void *weights = vc_learner_master(l, p->entry);

    VC_CALL_FOUND(ctx, k);
    VC_CALL(vc_keys_begin(ctx, keys));
    for (uint64_t first = 0; first < item->n; first += VC_TILE_ELEMS) {
        size_t n = (size_t)vc_min_u64(VC_TILE_ELEMS, item->n - first);

        memset(counts, 0, keys->range.n_bins * sizeof *counts);
        VC_KERNEL_CALL(l->f64 ? k->magnitude_bins_f64((const double *)weights + first, n, &keys->range, counts)
                              : k->magnitude_bins_f32((const float *)weights + first, n, &keys->range, counts));
        vc_keys_add(keys, counts);
    }
    if (keys->range.first == 0) {
        keys->bins[0] -= l->optimizer.states[p->entry].n_masked;
    }
    return vc_keys_end(ctx, keys);
}

static void init_keys(const struct vc_learner *l, struct part *p, uint64_t limit)
{
    const struct vc_weight *item = &l->net.weights->items[p->entry];

    vc_keys_init(&p->keys, l->f64 ? 63 : 31, item->n - l->optimizer.states[p->entry].n_masked, limit);
}

/* The threshold of one tensor, of whose weights `more` go. */
static enum vc_status find_one(struct vc_learner *l, struct part *p, uint64_t more, uint32_t *counts)
{
    init_keys(l, p, more);
    while (!p->keys.done) {
        VC_CALL(count_keys(l, p, &p->keys, counts));
        vc_keys_narrow(l->ctx, &p->keys);
    }
    return VC_OK;
}

/* One threshold for all tensors, of whose weights `more` go together. */
static enum vc_status find_together(struct vc_learner *l, uint64_t more, uint32_t *counts)
{
    struct vc_gradual *g = l->gradual;
    bool done = false;

    for (size_t i = 0; i < g->n; i++) {
        uint64_t limit = limit_of(g, l->net.weights->items[g->parts[i].entry].n);
        uint64_t masked = l->optimizer.states[g->parts[i].entry].n_masked;

        init_keys(l, &g->parts[i], limit - vc_min_u64(limit, masked));
    }
    while (!done) {
        done = true;
        for (size_t i = 0; i < g->n; i++) {
            if (!g->parts[i].keys.done) {
                VC_CALL(count_keys(l, &g->parts[i], &g->parts[i].keys, counts));
            }
        }
        VC_CALL(vc_keys_narrow_together(l->ctx, g->together, g->n, &more));
        for (size_t i = 0; i < g->n; i++) {
            done = done && g->parts[i].keys.done;
        }
    }
    return VC_OK;
}

/* The mask grows by what is below the threshold. */
static void apply(struct vc_learner *l, struct part *p)
{
    const struct vc_weight *item = &l->net.weights->items[p->entry];
    struct vc_weight_state *state = &l->optimizer.states[p->entry];
    struct vc_mask_cut cut = p->keys.cut;
    void *weights = vc_learner_master(l, p->entry);

    for (uint64_t i = 0; i < item->n; i++) {
        uint64_t key = key_of(l, weights, i);
        bool tie = key == cut.threshold && cut.n_ties != 0;

        if (state->keep[i] == 0 || (key >= cut.threshold && !tie)) {
            continue;
        }
        cut.n_ties -= tie;
        state->keep[i] = 0;
        state->n_masked++;
        l->report->n_masked++;
        set_zero(l, weights, i);
    }
    vc_keys_release(l->ctx, &p->keys);
}

/* What goes at this step: of each tensor by itself, or of all together with one threshold. */
static enum vc_status grow(struct vc_learner *l, uint64_t step, uint32_t *counts)
{
    struct vc_gradual *g = l->gradual;
    uint64_t total = 0;
    uint64_t begun = 0;
    uint64_t masked = 0;
    uint64_t goal;

    for (size_t i = 0; i < g->n; i++) {
        uint64_t n = l->net.weights->items[g->parts[i].entry].n;
        uint64_t now = l->optimizer.states[g->parts[i].entry].n_masked;

        goal = goal_of(g, step, n, g->parts[i].begun);
        total += n;
        begun += g->parts[i].begun;
        masked += now;
        if (!g->global && goal > now) {
            VC_CALL(find_one(l, &g->parts[i], goal - now, counts));
            apply(l, &g->parts[i]);
        }
    }
    goal = goal_of(g, step, total, begun);
    if (g->global && goal > masked) {
        VC_CALL(find_together(l, goal - masked, counts));
        for (size_t i = 0; i < g->n; i++) {
            apply(l, &g->parts[i]);
        }
    }
    return VC_OK;
}

/* Before a step, where one is due. Weights that are newly 0 stay 0, as the mask keeps their gradients out. */
enum vc_status vc_gradual_grow(struct vc_learner *l, uint64_t step)
{
    struct vc_gradual *g = l->gradual;
    uint32_t *counts = NULL;
    enum vc_status status = VC_OK;

    if (g == NULL || !is_due(g, step)) {
        return VC_OK;
    }
    VC_TRY(vc_device_to_host(l));
    vc_free(l->ctx, g->room); /* its place is taken by what finding thresholds takes, so that no step takes more */
    g->room = NULL;
    vc_pool_trim(l->ctx->shared->pool);
    VC_TRY(VC_ARRAY(l->ctx, VC_TAG_SCRATCH, counts, VC_KEY_BINS));
    VC_TRY(grow(l, step, counts));
    VC_TRY(vc_fake_quant_apply(l, NULL));
    vc_weights_changed(l->net.weights);
    vc_device_changed(l);
out:
    vc_free(l->ctx, counts);
    for (size_t i = 0; i < g->n; i++) {
        vc_keys_release(l->ctx, &g->parts[i].keys);
    }
    vc_pool_trim(l->ctx->shared->pool);
    if (status == VC_OK) {
        g->room = vc_alloc(l->ctx, VC_TAG_SCRATCH, (size_t)vc_gradual_bytes(l));
        status = g->room != NULL ? VC_OK : VC_E_NOMEM;
    }
    return status;
}

bool vc_gradual_done(const struct vc_learner *l, uint64_t step)
{
    return l->gradual == NULL || step > l->gradual->last;
}

/* Weights that are 0 by their masks, of all tensors that are pruned. */
uint64_t vc_gradual_masked(const struct vc_learner *l)
{
    uint64_t n = 0;

    for (size_t i = 0; l->gradual != NULL && i < l->gradual->n; i++) {
        n += l->optimizer.states[l->gradual->parts[i].entry].n_masked;
    }
    return n;
}

double vc_gradual_sparsity(const struct vc_learner *l)
{
    return l->gradual != NULL ? (double)vc_gradual_masked(l) / (double)l->report->prune_weights : (double)NAN;
}

/* ---- checkpoints ---- */

/* Lines for a checkpoint: what changes when which weights go. */
void vc_gradual_text(const struct vc_learner *l, struct vc_text *text)
{
    const struct vc_gradual *g = l->gradual;

    if (g == NULL) {
        return;
    }
    vc_text_add(text, "sparsity %s\nscope %s\nmin_keep %llu/%llu\nmin_elems %llu\nprune_first %llu:%llu:%llu\n",
                g->options.sparsity, g->global ? "global" : "tensor", (unsigned long long)g->min_keep.n,
                (unsigned long long)g->min_keep.d, (unsigned long long)g->options.min_elems,
                (unsigned long long)g->first, (unsigned long long)g->last, (unsigned long long)g->every);
    for (size_t k = 0; k < g->options.n_rules; k++) {
        vc_text_add(text, "%s %s\n", g->options.rules[k].include ? "include=true" : "include=false",
                    g->options.rules[k].glob);
    }
}
