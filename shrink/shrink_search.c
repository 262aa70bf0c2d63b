/* shrink_search.c - the order of the work: what is there, candidates in a fixed order, training of the
 * best, the proof.
 *
 *     begin                options, limits, names, graph; refuses a model that is within the limits already
 *     journal, rows        the work folder is locked; statistics of the rows to train
 *     vc_shrink_list       all candidates, counted from headers
 *     choose               without data: the least harmful, or a mixture of types
 *                          with data: every candidate is measured, then some are trained
 *     vc_shrink_make       the file, if it is not there from training
 *     vc_shrink_prove      read back, verified, judged on rows that steered nothing; then it gets its name
 *
 * With data:
 *
 *     try_from             each candidate that may be within the limits: its file, its loss on the rows to choose
 *     list_layers          candidates without the layers that lost least alone
 *     train_best           the three best, each a twelfth of the steps
 *       or train_smallest  where only the loss is limited: the front, by halving
 *     try_trained          the best of all, all steps; it stays only if it is better
 *
 * Candidates are only ever added, and each has its number from the beginning: an interrupted search goes on
 * with the same list, and the journal says what is known of number k.
 *
 * With a limit of time each part of the work has its own end (s->until), so that trying many candidates
 * cannot take the time that training needs. What is under way at the end of all (vc_shrink_end), or of training at the end of
 * its part, ends as a cancelled call does (vc_shrink_set_end), also where a loaded machine is slower than it was measured. */
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/option_struct.h"
#include "core/job/scoped.h"
#include "shrink/shrink_inside.h"

#include <math.h>

#define USUAL_STEPS  2400
#define ROWS_OF_STEP (4 * 64) /* a usual batch, forward and backward */
#define FIRST_SHARE  12       /* candidates for the winner are trained a twelfth of the steps */
#define N_FINALISTS  3
#define STATS_SHARE  0.4 /* of options.seconds: for statistics */
#define SEARCH_SHARE 0.4 /* the same for all candidates; until FIRST_UNTIL for training the first ones */
#define FIRST_UNTIL  0.65
#define MIXED_BETTER 0.7071 /* 3 dB less error than a uniform choice: docs/decisions.md */

/* Notes are joined by "; ". */
VC_PRINTF(2, 3) static enum vc_status add_note(struct vc_shrinking *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const char *note = vc_arena_vprintf(s->ctx, &s->arena, format, args);
    va_end(args);
    if (note != NULL && s->result.note != NULL) {
        note = vc_arena_printf(s->ctx, &s->arena, "%s; %s", s->result.note, note);
    }
    VC_CALL_ALLOC(note);
    s->result.note = note;
    return VC_OK;
}

/* ---- what is there ---- */

/* What can be refused without opening anything. A number that is NaN fails `>= 0` and counts as no limit. */
static enum vc_status check_options(struct vc_shrinking *s)
{
    const struct vc_shrink_options *o = &s->options;
    struct vc_ctx *ctx = s->ctx;
    struct vc_metric_miss miss;

    VC_REFUSE_IF(o->model == NULL || o->write == NULL || o->write->path == NULL || strcmp(o->write->path, "-") == 0,
                 ctx, VC_E_ARGUMENT, "a model and a path for the output are needed");
    VC_REFUSE_IF(o->write->n_emit != 0 || o->write->writer != NULL || o->write->n_shards != 0, ctx, VC_E_ARGUMENT,
                 "the output is one file or folder of this computer");
    VC_REFUSE_IF(o->max_bytes == 0 && o->ratio == 0 && !(o->max_loss >= 0) && o->gpu == NULL && o->visible_bytes == 0,
                 ctx, VC_E_ARGUMENT, "there is no limit: %s, %s, %s or a device", vc_option(ctx, "max_bytes"),
                 vc_option(ctx, "ratio"), vc_option(ctx, "max_loss"));
    VC_REFUSE_IF(!isfinite(o->ratio) || (o->ratio != 0 && o->ratio < 1), ctx, VC_E_ARGUMENT, "%s: %g is below 1",
                 vc_option(ctx, "ratio"), o->ratio);
    VC_REFUSE_IF(o->loss > VC_TEACHER_LOSS_HUBER, ctx, VC_E_ARGUMENT, "%s has no such value", vc_option(ctx, "loss"));
    VC_REFUSE_IF(vc_word(VC_WORDS_NET_TASK, (unsigned)o->net_task) == NULL || o->metric > VC_METRIC_EXACT_MATCH, ctx,
                 VC_E_ARGUMENT, "%s has no such value",
                 vc_option(ctx, o->metric > VC_METRIC_EXACT_MATCH ? "metric" : "net_task"));
    VC_REFUSE_IF(o->max_loss >= 0 && o->data == NULL, ctx, VC_E_ARGUMENT, "%s is measured on rows: it needs %s",
                 vc_option(ctx, "max_loss"), vc_option(ctx, "data"));
    VC_REFUSE_IF((o->min_accuracy > 0 || vc_metric_missed(NULL, &o->limits, &miss)) && o->data == NULL, ctx,
                 VC_E_ARGUMENT, "%s is measured on rows: it needs %s",
                 vc_option(ctx, o->min_accuracy > 0 ? "min_accuracy" : miss.field), vc_option(ctx, "data"));
    VC_REFUSE_IF(o->eval != NULL && o->data == NULL, ctx, VC_E_ARGUMENT, "rows to prove need %s, too",
                 vc_option(ctx, "data"));
    return VC_OK;
}

/* Of max_bytes and ratio the smaller number counts. A device that is given as a number of bytes becomes one
 * whose driver has as many. */
static void set_limits(struct vc_shrinking *s)
{
    struct vc_shrinkage *r = &s->result;

    r->input_bytes = vc_model_facts(s->given)->file_bytes;
    r->limit_bytes = s->options.max_bytes;
    if (s->options.ratio > 0) {
        uint64_t by_ratio = vc_max_u64((uint64_t)((double)r->input_bytes / s->options.ratio), 1); /* 0: no limit */
        r->limit_bytes = r->limit_bytes == 0 || by_ratio < r->limit_bytes ? by_ratio : r->limit_bytes;
    }
    s->gpu = s->options.gpu;
    if (s->options.visible_bytes != 0) {
        s->device = (struct vc_gpu){.name = "the device",
                                    .count = 1,
                                    .driver_bytes = s->options.visible_bytes,
                                    .visible_bytes = s->options.visible_bytes};
        s->gpu = &s->device;
    }
    s->budget = (struct vc_search_budget){r->limit_bytes, s->gpu != NULL};
}

/* Of an architecture that is not known, without data: what stands in for it with the sizes of its configuration, as fit and
 * plan count it; the weights alone where it states none. */
static enum vc_status open_sizes(struct vc_shrinking *s, bool says_none)
{
    const char *why = says_none ? "" : vc_arena_printf(s->ctx, &s->arena, ": %s", vc_ctx_message(s->ctx));
    enum vc_status status = vc_graph_build_sizes(s->ctx, s->given, NULL, &s->sized);

    VC_CALL_ALLOC(why);
    if (status == VC_OK) {
        VC_CALL(vc_memory_bind_usual(s->ctx, s->sized, vc_model_layout(s->given), vc_model_facts(s->given)->format));
        return add_note(s, "no graph is known: the sizes that the configuration states count%s", why);
    }
    vc_graph_close(s->sized);
    s->sized = NULL;
    VC_CALL(vc_without_refusal(s->ctx, status));
    return add_note(s, "no graph is known: weights alone count%s", why);
}

/* The graph, where the model or a file says it. Without data a model may go without.
 * It is opened twice: the teacher's graph keeps its open sizes for evaluation, and the second has usual
 * ones for estimates of memory and for couplings. */
static enum vc_status open_graph(struct vc_shrinking *s)
{
    VC_SCOPED_MODEL struct vc_model *beside = NULL;

    s->teacher.model = s->given;
    VC_REFUSE_IF(s->options.data != NULL && vc_shrink_weights(s->options.graph_path, s->given) == NULL, s->ctx,
                 VC_E_ARGUMENT, "%s: a configuration alone computes no rows: it has to be in the folder of the model",
                 vc_option(s->ctx, "graph"));
    enum vc_status status = vc_shrink_open(s->ctx, NULL, s->options.graph_path, &s->teacher);
    if (vc_is_refusal(status) && s->options.data == NULL && s->options.graph_path == NULL) {
        bool says_none = status == VC_E_UNSUPPORTED && s->teacher.graph == NULL;

        vc_graph_close(s->teacher.graph);
        s->teacher.graph = NULL;
        return open_sizes(s, says_none);
    }
    VC_CALL(status);
    VC_CALL(vc_graph_open(s->ctx, s->options.graph_path, vc_shrink_weights(s->options.graph_path, s->given), false,
                          &beside, &s->sized));
    VC_CALL(vc_memory_bind_usual(s->ctx, s->sized, vc_model_layout(s->given), vc_model_facts(s->given)->format));
    return vc_couplings_of_graph(s->ctx, s->sized, &s->couplings);
}

/* The same seed for all three, so that the parts do not overlap: 60, 20 and 20 % of the rows, or 80 and 20
 * where the rows to prove are a file of their own. */
static void divide_rows(struct vc_shrinking *s)
{
    bool own = s->options.eval == NULL;

    s->train = s->choose = s->prove = *s->options.data;
    s->train.part_seed = s->choose.part_seed = s->prove.part_seed = s->options.seed;
    s->train.part_from = 0;
    s->train.part_to = s->choose.part_from = own ? 60 : 80;
    s->choose.part_to = s->prove.part_from = own ? 80 : 100;
    s->prove.part_to = 100;
    if (!own) {
        s->prove = *s->options.eval;
    }
    for (size_t i = 0; i < 3; i++) { /* candidates of other formats have no tokenizer beside them */
        struct vc_data_options *rows[] = {&s->train, &s->choose, &s->prove};

        rows[i]->tokenizer = rows[i]->tokenizer != NULL ? rows[i]->tokenizer : vc_model_facts(s->given)->path;
    }
}

/* Plans what prune would refuse where it can refit no tensor, of f64 or without second moments.
 * The plan reads headers only. Whether weights that stay can make up for those that go is asked once, not
 * for each candidate. */
static enum vc_status try_refit(struct vc_shrinking *s)
{
    struct vc_prune_options options;
    struct vc_write_options write = s->write;
    VC_SCOPED_JOB struct vc_job *job = NULL;

    vc_prune_defaults(&options);
    options.sparsity = "0.5";
    options.reconstruct = true;
    options.calibration = s->stats;
    write.dry_run = true;
    VC_CALL(vc_shrink_job(s, &job));
    VC_CALL(vc_job_add_prune(s->ctx, job, &options));
    enum vc_status status = vc_job_plan(s->ctx, job, &write);
    s->refits = status == VC_OK;
    return vc_without_refusal(s->ctx, status);
}

/* Statistics of the rows to train: with products of all pairs of columns, where memory allows these.
 * A network without such products is searched without statistics: codes are rounded to the nearest then. */
static enum vc_status take_statistics(struct vc_shrinking *s)
{
    struct vc_calibrate_options options;
    struct vc_calibration_report *report = NULL;
    struct vc_write_options write;

    vc_calibrate_defaults(&options);
    vc_write_defaults(&write);
    write.path = s->stats_path;
    write.force = true;
    options.network = (struct vc_network){s->teacher.graph, s->given, s->teacher.beside};
    options.data = &s->train;
    options.write = &write;
    options.second_moments = true;
    vc_shrink_set_end(s, STATS_SHARE * s->options.seconds);
    enum vc_status status = vc_calibrate(s->ctx, &options, &report);
    vc_result_free(report);
    if (vc_shrink_has_ended(s, status)) {
        return VC_OK;
    }
    if (status == VC_E_UNSUPPORTED || status == VC_E_NOMEM) { /* no product of the graph, or too many columns */
        vc_clear_error(s->ctx);
        return VC_OK;
    }
    VC_CALL(status);
    VC_CALL(vc_model_open(s->ctx, s->stats_path, NULL, &s->stats));
    return try_refit(s);
}

/* ---- choosing ---- */

/* Nothing limits size and memory: the smallest within max_loss is wanted. Else the best within the limits.
 * A limit of max_loss is then the only one. */
static bool wants_smallest(const struct vc_shrinking *s)
{
    return s->result.limit_bytes == 0 && s->gpu == NULL;
}

/* How much the candidate loses: divergence with data, else the error of the weights. */
static double cost(const struct vc_shrinking *s, size_t k)
{
    return s->options.data != NULL ? s->candidates[k].kd : s->candidates[k].error;
}

/* Whether it was tried, and what it loses is known. */
static bool is_measured(const struct vc_shrinking *s, size_t k)
{
    return s->candidates[k].reason == NULL && !isnan(cost(s, k));
}

/* Whether a rule looks at a candidate, and what it compares, the least first, the weightiest first. */
struct rating {
    bool counts;
    double by[4];
};

static struct rating rate(const struct vc_shrinking *s, size_t k, enum vc_shrink_rule rule)
{
    const struct vc_shrink_candidate *c = &s->candidates[k];
    const size_t chosen = s->result.chosen;
    bool known = c->file_bytes != 0;
    bool within = is_measured(s, k) && c->within;
    bool holds = c->loss <= s->options.max_loss;
    double size = (double)c->file_bytes;
    double harm = s->chains[k].harm;
    double most = chosen != VC_NO_CANDIDATE ? s->chains[chosen].harm : 0;
    const struct rating rules[] = {
        [VC_PICK_BEST] = {within, {cost(s, k), size}},
        [VC_PICK_SMALLEST] = {within, {holds ? 0 : 1, holds ? size : 0, cost(s, k), size}},
        [VC_PICK_GENTLEST] = {c->within, {harm}},
        [VC_PICK_FIRST] = {c->within && known && c->steps == 0, {0}},
        [VC_PICK_NEAREST_FILE] = {known, {size}},
        [VC_PICK_NEAREST_DEVICE] = {c->need_bytes != 0, {(double)c->need_bytes}},
        [VC_PICK_NEXT_BETTER] = {!c->within && harm > 0 && harm < most, {-harm}},
        [VC_PICK_CHEAPEST] = {is_measured(s, k), {cost(s, k)}},
    };

    return rules[rule];
}

size_t vc_shrink_pick(const struct vc_shrinking *s, enum vc_shrink_rule rule, const bool *skipped)
{
    struct rating best = {.counts = false};
    size_t found = VC_NO_CANDIDATE;

    for (size_t k = 0; k < s->result.n_candidates; k++) {
        struct rating r = rate(s, k, rule);
        const double *by = best.by;

        if (s->candidates[k].reason != NULL || !r.counts || (skipped != NULL && skipped[k])) {
            continue;
        }
        if (!best.counts || VC_FIRST_ORDER(VC_ORDER(r.by[0], by[0]), VC_ORDER(r.by[1], by[1]), VC_ORDER(r.by[2], by[2]),
                                           VC_ORDER(r.by[3], by[3])) < 0) {
            best = r;
            found = k;
        }
    }
    return found;
}

/* By which rule a measured candidate is taken. */
static enum vc_shrink_rule rule_of(const struct vc_shrinking *s)
{
    return wants_smallest(s) ? VC_PICK_SMALLEST : VC_PICK_BEST;
}

/* The measured candidates than which no other is both at most as large and at most as costly, the smallest first. Returns how
 * many. */
static size_t find_front(const struct vc_shrinking *s, struct vc_search_point *points)
{
    size_t n = 0;

    for (size_t k = 0; k < s->result.n_candidates; k++) {
        if (is_measured(s, k)) {
            points[n++] = (struct vc_search_point){(uint32_t)k, s->candidates[k].file_bytes, cost(s, k), 0};
        }
    }
    return vc_search_front(points, n);
}

static void mark_front(struct vc_shrinking *s)
{
    struct vc_search_point points[VC_SHRINK_MOST];
    size_t n = find_front(s, points);

    while (n-- > 0) {
        s->candidates[points[n].number].front = true;
    }
}

/* ---- searching ---- */

/* Whether the candidate may be within the limits, or tells what a layer is worth. Sizes of deflated outputs are known
 * when they are written: where one with more zeros is too large, those with fewer are.
 *     sparsity 0.95, int8: 4.2 MB, over the limit of 4 MB     sparsity 0.9, 0.8, ... with int8 are left out
 */
static bool is_worth_trying(const struct vc_shrinking *s, size_t k)
{
    bool one_layer = s->chains[k].drop != NULL && s->chains[k].scheme == NULL;

    for (size_t i = 0; s->candidates[k].deflate && i < k; i++) {
        if (s->candidates[i].deflate && s->chains[i].scheme == s->chains[k].scheme && !s->candidates[i].within) {
            return false;
        }
    }
    return s->candidates[k].reason == NULL && (s->candidates[k].within || one_layer);
}

/* Those that are not tried yet, the training that is planned, and the output, which is made, verified and judged. A step
 * of training is taken to be four passes over its rows until one was measured. */
double vc_shrink_rest(const struct vc_shrinking *s)
{
    double left = s->options.seconds > 0 ? fmax(s->options.seconds - vc_shrink_seconds(s), 0) : (double)INFINITY;
    double step = s->step_seconds > 0 ? s->step_seconds : s->row_seconds * ROWS_OF_STEP;
    double done = 0;
    size_t n_done = 0;
    size_t n = 0;

    for (size_t k = 0; k < s->result.n_candidates; k++) {
        bool tried = s->candidates[k].seconds > 0 && s->candidates[k].steps == 0;

        done += tried ? s->candidates[k].seconds : 0;
        n_done += tried;
        n += !tried && s->candidates[k].steps == 0 && is_worth_trying(s, k);
    }
    double each = n_done != 0 ? done / (double)n_done : 0;
    return fmin((double)(s->tried_all ? 0 : n) * each + (double)s->steps_ahead * step + 2 * each, left);
}

/* Candidates from number k on. */
static enum vc_status try_from(struct vc_shrinking *s, size_t k)
{
    for (; k < s->result.n_candidates; k++) {
        bool end = vc_shrink_seconds(s) >= vc_shrink_end(s) || vc_shrink_pick(s, rule_of(s), NULL) != VC_NO_CANDIDATE;

        if (vc_shrink_is_late(s) && end) { /* one that is measured is worth the time of training */
            s->result.out_of_time = true;
            break;
        }
        if (is_worth_trying(s, k)) {
            VC_CALL(vc_shrink_try(s, k));
        }
    }
    return VC_OK;
}

/* The same candidate, trained. *made: its number, or VC_NO_CANDIDATE if it was not trained.
 * A mixture of types is left out. */
static enum vc_status try_trained(struct vc_shrinking *s, size_t k, uint64_t steps, size_t *made)
{
    struct vc_shrink_chain chain = s->chains[k];

    *made = VC_NO_CANDIDATE;
    s->steps_ahead -= vc_min_u64(s->steps_ahead, steps);
    if (chain.aim_bytes != 0) { /* training knows one type of codes */
        return VC_OK;
    }
    if (vc_shrink_is_late(s)) {
        s->result.out_of_time = true;
        return VC_OK;
    }
    chain.steps = steps;
    VC_CALL(vc_shrink_add(s, &chain, made));
    if (*made != VC_NO_CANDIDATE) {
        VC_CALL(vc_shrink_try(s, *made));
        s->has_trained = s->has_trained || is_measured(s, *made);
    }
    return VC_OK;
}

/* Halves the front until the smallest candidate that training brings within max_loss is found.
 *     the front by size: 8 MB, 5 MB, 3 MB, 2 MB; 8 and 5 hold untrained
 *     3 MB trained: holds     2 MB trained: does not     the smallest is 3 MB
 *
 * Larger candidates are taken to be at least as good after training, which halving needs. */
static enum vc_status train_smallest(struct vc_shrinking *s, uint64_t steps)
{
    struct vc_search_point points[VC_SHRINK_MOST];
    size_t n = find_front(s, points);
    size_t high = n; /* from here on training does not help, the largest first */
    size_t low = 0;  /* what is before holds */

    while (low < high && s->candidates[points[n - 1 - low].number].loss <= s->options.max_loss) {
        low++;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        size_t made;

        VC_CALL(try_trained(s, points[n - 1 - middle].number, steps, &made));
        if (made == VC_NO_CANDIDATE) {
            break;
        }
        if (is_measured(s, made) && s->candidates[made].loss <= s->options.max_loss) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return VC_OK;
}

/* Trains the candidates that lose least before training. */
static enum vc_status train_best(struct vc_shrinking *s, uint64_t steps)
{
    bool done[VC_SHRINK_MOST];
    size_t n = s->result.n_candidates;

    for (size_t k = 0; k < VC_SHRINK_MOST; k++) { /* training knows one type; what it makes comes behind n */
        done[k] = k >= n || s->chains[k].aim_bytes != 0;
    }
    for (int round = 0; round < N_FINALISTS; round++) {
        size_t found = vc_shrink_pick(s, rule_of(s), done);
        size_t made;

        if (found == VC_NO_CANDIDATE) {
            break;
        }
        done[found] = true;
        VC_CALL(try_trained(s, found, steps, &made));
    }
    return VC_OK;
}

/* With data: the loss of every candidate, then training. */
static enum vc_status search_by_data(struct vc_shrinking *s)
{
    uint64_t steps = s->options.steps != 0 ? s->options.steps : USUAL_STEPS;
    uint64_t first = steps / FIRST_SHARE != 0 ? steps / FIRST_SHARE : 1;
    double began = vc_seconds();

    VC_CALL(vc_shrink_quality(s, NULL, &s->choose, s->parts[0], &s->whole));
    s->longest = vc_seconds() - began; /* measuring alone */
    s->row_seconds = s->longest / (double)vc_max_u64(s->whole.n_rows, 1);
    VC_CALL(vc_shrink_choose_metric(s));
    s->steps_ahead = N_FINALISTS * first + steps;
    s->until = SEARCH_SHARE * s->options.seconds;
    VC_CALL(try_from(s, 0));
    size_t k = s->result.n_candidates;
    VC_CALL(vc_shrink_list_layers(s));
    VC_CALL(try_from(s, k));
    s->tried_all = true;
    s->until = FIRST_UNTIL * s->options.seconds;
    if (wants_smallest(s)) {
        VC_CALL(train_smallest(s, first));
    } else {
        VC_CALL(train_best(s, first));
    }
    s->until = vc_shrink_end(s);
    k = vc_shrink_pick(s, rule_of(s), NULL);
    /* all steps are worth their time only where few helped, or none were made */
    if (k != VC_NO_CANDIDATE && (s->chains[k].steps != 0 || !s->has_trained)) {
        VC_CALL(try_trained(s, k, steps, &k));
    }
    return VC_OK;
}

/* The mixture n or the uniform type k. Where the mixture's error is less, the rule is told.
 * Errors of weights only order candidates well where they differ a lot. */
static enum vc_status choose_mixed(struct vc_shrinking *s, size_t k, size_t n)
{
    const struct vc_shrink_candidate *mixed = &s->candidates[n];
    const struct vc_shrink_candidate *uniform = &s->candidates[k];

    if (!mixed->within || !(mixed->error < uniform->error)) {
        return VC_OK;
    }
    bool better = mixed->error < MIXED_BETTER * uniform->error;
    s->result.chosen = better ? n : k;
    return add_note(
        s, "'%s' has less error of the weights (%.2f %%)%s '%s' (%.2f %%)%s", mixed->name, 100 * mixed->error,
        better ? ", and is taken: it is more than 3 dB less than" : ", but not 3 dB less than", uniform->name,
        100 * uniform->error, better ? "" : ": a type for all weights is the safer choice then, and is taken");
}

/* Without data: the least harmful type within the limits; and for a limit of bytes a mixture of
 * types, where its error is so much less that it cannot be an accident of weights that matter little. */
static enum vc_status search_by_weights(struct vc_shrinking *s)
{
    struct vc_shrink_chain mixed = {.aim_bytes = s->result.limit_bytes};
    size_t k = vc_shrink_pick(s, VC_PICK_GENTLEST, NULL); /* by headers */
    size_t n;

    s->result.chosen = k;
    if (k == 0 || k == VC_NO_CANDIDATE || mixed.aim_bytes == 0 || vc_shrink_is_gguf(s) || s->write.dry_run) {
        return VC_OK;
    }
    /* Making what is chosen, and proving it, take about as long again as measuring it, each. */
    s->until = s->longest = s->options.seconds / 3;
    s->tried_all = true; /* but for the mixture */
    VC_CALL(vc_shrink_try(s, k));
    s->longest = s->candidates[k].seconds;
    s->until = vc_shrink_end(s);
    s->result.out_of_time = s->result.out_of_time || vc_shrink_is_late(s);
    if (s->result.out_of_time) {
        return VC_OK;
    }
    VC_CALL(vc_shrink_add(s, &mixed, &n));
    if (n == VC_NO_CANDIDATE) {
        return VC_OK;
    }
    vc_shrink_set_end(s, s->until);
    enum vc_status status = vc_shrink_count(s, n);
    if (vc_shrink_has_ended(s, status)) {
        return VC_OK;
    }
    VC_CALL(status);
    if (s->candidates[n].within) {
        VC_CALL(vc_shrink_try(s, n));
    }
    return choose_mixed(s, k, n);
}

/* A candidate that was never made, and whose size headers do not tell, is not within a limit of bytes. */
static void forget_unknown(struct vc_shrinking *s)
{
    for (size_t k = 0; s->result.limit_bytes != 0 && k < s->result.n_candidates; k++) {
        s->candidates[k].within = s->candidates[k].within && s->candidates[k].file_bytes != 0;
    }
}

/* "; 33,024 bytes are ..."; nothing without states of an optimizer. */
static void add_states(const struct vc_shrinking *s, struct vc_text *text)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < vc_model_facts(s->given)->n_tensors; i++) {
        const struct vc_tensor *tensor = vc_model_tensor(s->given, i);

        bytes += tensor->role == VC_ROLE_OPTIMIZER && tensor->alias_of == VC_NO_TENSOR ? tensor->size_bytes : 0;
    }
    if (bytes != 0 && !s->options.drop_optimizer) {
        vc_text_add(text, "; %llu bytes are an optimizer's states, which %s optimizer leaves out",
                    (unsigned long long)bytes, vc_option(s->ctx, "vc_job_drop"));
    }
}

/* Notes why the chosen candidate is preferred to the others. */
static enum vc_status say_why(struct vc_shrinking *s)
{
    size_t k = s->result.chosen;
    size_t other = vc_shrink_pick(s, VC_PICK_NEXT_BETTER, NULL);
    const char *name = s->candidates[k].name;
    double harm = 100 * s->chains[k].harm;

    if (s->result.out_of_time && !is_measured(s, k)) {
        return add_note(s,
                        "%s ended before a candidate within the limits was measured: the first of the list is taken, "
                        "'%s'",
                        vc_option(s->ctx, "seconds"), name);
    }
    if (s->options.data != NULL && !s->write.dry_run) {
        return add_note(s, "'%s' is taken: %s (divergence %.3g)", name,
                        wants_smallest(s) ? "the smallest that loses little enough"
                                          : "of those within the limits it loses least on the rows to choose by",
                        cost(s, k));
    }
    if (harm <= 0) {
        return VC_OK;
    }
    VC_CALL(add_note(s, "'%s' is taken: of those within the limits it changes weights least (%.2g %% is usual)", name,
                     harm));
    return other == VC_NO_CANDIDATE ? VC_OK
                                    : add_note(s, "'%s' changes less (%.2g %%), and is not within them",
                                               s->candidates[other].name, 100 * s->chains[other].harm);
}

/* No candidate is within the limits: says what is nearest, which is taken if the caller wants it all the same. */
static enum vc_status say_missed(struct vc_shrinking *s)
{
    struct vc_shrinkage *r = &s->result;
    bool by_file = r->limit_bytes != 0 || s->gpu == NULL;
    size_t k = vc_shrink_pick(s, by_file ? VC_PICK_NEAREST_FILE : VC_PICK_NEAREST_DEVICE, NULL);
    struct vc_text text;

    VC_REFUSE_IF(k == VC_NO_CANDIDATE, s->ctx, VC_E_UNSUPPORTED, "no candidate can be made: %s",
                 r->n_candidates != 0 && s->candidates[0].reason != NULL ? s->candidates[0].reason : "there is none");
    r->nearest = s->candidates[k].name;
    r->chosen = s->options.keep_going ? k : VC_NO_CANDIDATE;
    vc_text_init(&text, s->ctx);
    vc_text_add(&text, "no candidate is within the limits; the nearest is '%s' with %llu bytes%s", r->nearest,
                (unsigned long long)(by_file ? s->candidates[k].file_bytes : s->candidates[k].need_bytes),
                by_file ? "" : " on the device");
    if (s->plans != NULL) {
        vc_text_add(&text, "; a plan for the device has '%s', for another program or format", s->plans);
    }
    if (r->out_of_time) {
        vc_text_add(&text, "; %s ended the search before all were tried", vc_option(s->ctx, "seconds"));
    }
    add_states(s, &text);
    return vc_text_take(&text, &s->arena, &r->missed);
}

/* Sets r->chosen, or says in r->missed what was nearest to the limits. */
static enum vc_status choose(struct vc_shrinking *s)
{
    struct vc_shrinkage *r = &s->result;

    if (s->options.data == NULL || s->write.dry_run) {
        VC_CALL(search_by_weights(s));
    } else {
        VC_CALL(search_by_data(s));
        r->chosen = vc_shrink_pick(s, rule_of(s), NULL);
    }
    if (r->chosen == VC_NO_CANDIDATE && r->out_of_time) {
        r->chosen = vc_shrink_pick(s, VC_PICK_FIRST, NULL);
    }
    forget_unknown(s);
    mark_front(s);
    return r->chosen != VC_NO_CANDIDATE ? say_why(s) : say_missed(s);
}

/* ---- the call ---- */

/* What the model would take in a file without what the caller drops; its size as it is where that is not known by headers. */
static enum vc_status bytes_without(struct vc_shrinking *s, uint64_t *bytes)
{
    struct vc_write_options write = s->write;
    VC_SCOPED_JOB struct vc_job *job = NULL;

    *bytes = s->result.input_bytes;
    if (!s->options.drop_optimizer && !s->options.drop_other) {
        return VC_OK;
    }
    write.layout = NULL;
    write.dry_run = true;
    VC_CALL(vc_shrink_job(s, &job));
    enum vc_status status = vc_job_plan(s->ctx, job, &write);
    if (status == VC_OK && vc_job_report(job)->totals.file_after != 0) {
        *bytes = vc_job_report(job)->totals.file_after;
    }
    return vc_without_refusal(s->ctx, status);
}

/* Refuses a model that needs no change, or no other one than what a conversion drops. */
static enum vc_status check_need(struct vc_shrinking *s)
{
    struct vc_fit fit = {.verdict = VC_FITS};
    uint64_t bytes;

    if (s->gpu != NULL) {
        VC_CALL(vc_shrink_fit(s, s->given, s->sized, &fit));
    }
    VC_REFUSE_IF(s->options.max_loss < 0 && vc_search_within(&s->budget, s->result.input_bytes, &fit), s->ctx,
                 VC_E_ARGUMENT, "is within the limits as it is%s: there is nothing to do",
                 s->sized != NULL && fit.weights_only
                     ? ", as far as weights alone tell (of the rest sizes of inputs are open)"
                     : "");
    VC_CALL(bytes_without(s, &bytes));
    VC_REFUSE_IF(s->options.max_loss < 0 && vc_search_within(&s->budget, bytes, &fit), s->ctx, VC_E_ARGUMENT,
                 "is within the limits with %llu bytes once what %s names is left out, which a conversion does: "
                 "no weight has to change",
                 (unsigned long long)bytes, vc_option(s->ctx, "vc_job_drop"));
    return VC_OK;
}

/* Everything that needs no search. The model is the caller's and is not changed. */
static enum vc_status begin(struct vc_shrinking *s, const struct vc_shrink_options *options)
{
    VC_CALL(vc_options_read(s->ctx, VC_OPTIONS(shrink), options, &s->options));
    VC_CALL(check_options(s));
    s->started = vc_seconds();
    s->write = *s->options.write;
    s->write.rows_on_request = true;
    s->given = (struct vc_model *)(uintptr_t)s->options.model;
    s->rest = vc_memory_float_type(NULL, s->given) == VC_DTYPE_BF16 ? "bf16" : "fp16";
    s->result = (struct vc_shrinkage){.options = &s->options,
                                      .candidates = s->candidates,
                                      .chosen = VC_NO_CANDIDATE,
                                      .weights_only = s->options.data == NULL,
                                      .loss = NAN};
    set_limits(s);
    VC_CALL(vc_shrink_names(s));
    s->zeros = vc_format_of_name(s->write.path) != NULL && strcmp(vc_format_of_name(s->write.path), "npz") == 0;
    s->onnx = strcmp(vc_model_facts(s->given)->format, "onnx") == 0;
    VC_CALL(open_graph(s));
    VC_CALL(check_need(s));
    return vc_shrink_try_output(s);
}

/* A missed limit is VC_E_GATE, with a result. The work folder stays only where an interrupted search could
 * go on. */
static enum vc_status search(struct vc_shrinking *s)
{
    enum vc_status status;

    if (!s->write.dry_run) {
        VC_TRY(vc_journal_open(s));
        VC_TRY(vc_shrink_check_names(s)); /* another search may have ended meanwhile */
    }
    if (s->options.data != NULL) {
        divide_rows(s);
        if (!s->write.dry_run) {
            VC_TRY(take_statistics(s));
        }
    }
    VC_TRY(vc_shrink_list(s));
    VC_TRY(choose(s));
    if (s->result.chosen != VC_NO_CANDIDATE && !s->write.dry_run) {
        if (s->chains[s->result.chosen].steps == 0) { /* trained ones are there */
            VC_TRY(vc_shrink_make(s, s->result.chosen));
        }
        VC_TRY(vc_shrink_prove(s, s->result.chosen));
    }
    s->result.seconds = vc_shrink_seconds(s);
    if (s->result.missed != NULL) {
        status = vc_fail(s->ctx, VC_E_GATE, "%s", s->result.missed);
    }
out:
    vc_model_close(s->stats);
    s->stats = NULL;
    vc_journal_close(s, status != VC_OK && status != VC_E_GATE && s->worth);
    return status;
}

/* The model is the caller's and stays open. */
static void end(void *result)
{
    struct vc_shrinking *s = result;

    vc_result_free(s->couplings);
    vc_graph_close(s->sized);
    vc_model_close(s->stats);
    s->teacher.model = NULL; /* the caller's */
    vc_shrink_close(&s->teacher);
    vc_arena_release(s->ctx, &s->arena);
}

/* The result is the first member of the state, so that freeing it frees all. */
enum vc_status vc_shrink(struct vc_ctx *ctx, const struct vc_shrink_options *options, struct vc_shrinkage **out)
{
    struct vc_shrinking *s;

    *out = NULL;
    vc_call_begin(ctx);
    s = vc_result_new(ctx, VC_TAG_MISC, sizeof *s, end);
    if (s == NULL) {
        return vc_call_end(ctx, VC_E_NOMEM);
    }
    s->ctx = ctx;
    s->lock = -1;
    enum vc_status status = begin(s, options);
    if (status == VC_OK) {
        status = search(s);
    }
    if (status == VC_OK || status == VC_E_GATE) {
        *out = &s->result;
    } else {
        vc_result_free(s);
    }
    return vc_call_end(ctx, status);
}
