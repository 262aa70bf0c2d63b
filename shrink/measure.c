/* measure.c - what a candidate takes and loses: size and memory from headers, the error of the weights from a job, the
 * loss from the answers of the file that the job wrote. */
#include <math.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/job/job_state.h"
#include "core/job/scoped.h"
#include "core/text/text.h"
#include "search/recipes/slim.h"
#include "shrink/shrink_inside.h"

#define LEAST_STEPS 20 /* fewer bring nothing back */

/* ---- networks ---- */

const struct vc_model *vc_shrink_weights(const char *graph_path, const struct vc_model *model)
{
    return graph_path != NULL && vc_ends_in(graph_path, ".json") && !vc_ends_in(graph_path, ".index.json") ? NULL
                                                                                                           : model;
}

/* A checkpoint and its graph. A model that is given stays the caller's. */
enum vc_status vc_shrink_open(struct vc_ctx *ctx, const char *path, const char *graph_path, struct vc_shrink_net *net)
{
    enum vc_status status = net->model == NULL ? vc_model_open(ctx, path, NULL, &net->model) : VC_OK;

    return status == VC_OK ? vc_graph_open(ctx, graph_path, vc_shrink_weights(graph_path, net->model), false,
                                           &net->beside, &net->graph)
                           : status;
}

void vc_shrink_close(struct vc_shrink_net *net)
{
    vc_graph_close(net->graph);
    vc_model_close(net->beside);
    vc_model_close(net->model);
    *net = (struct vc_shrink_net){NULL, NULL, NULL};
}

/* The model of that path, or with NULL the given one, judged on the rows against the given one as teacher.
 * With NULL the figures say what the model itself comes to. */
enum vc_status vc_shrink_quality(struct vc_shrinking *s, const char *path, const struct vc_data_options *rows,
                                 struct vc_quality *parts, struct vc_quality *out)
{
    VC_SCOPED_NET struct vc_shrink_net net = {NULL, NULL, NULL};
    struct vc_evaluate_options options;

    vc_evaluate_defaults(&options);
    options.data = rows;
    options.loss = vc_shrink_compares(s);
    options.net_task = vc_shrink_task(s);
    options.parts = parts;
    options.network = (struct vc_network){s->teacher.graph, s->given, s->teacher.beside};
    options.teacher = options.network;
    if (path != NULL) {
        VC_CALL(vc_shrink_open(s->ctx, path, s->options.graph_path, &net));
        options.network = (struct vc_network){net.graph, net.model, net.beside};
    }
    return vc_evaluate(s->ctx, &options, out);
}

/* Of a figure that is not known, for a sentence. */
static const char *why_not_measured(const struct vc_quality *q)
{
    if (q->undefined != NULL) {
        return q->undefined;
    }
    if (q->n_targets != 0) {
        return "y has floats";
    }
    return q->n_labels != 0 ? "y has classes" : "there is no y";
}

/* By the task, where the option leaves it open (vc_metric_figure). */
enum vc_status vc_shrink_choose_metric(struct vc_shrinking *s)
{
    struct vc_metric_value figure = vc_metric_figure(&s->whole, (enum vc_metric)s->options.metric);
    enum vc_metric metric = figure.metric;
    struct vc_metric_miss miss;

    VC_REFUSE_IF(metric != VC_METRIC_AUTO && isnan(figure.value), s->ctx, VC_E_ARGUMENT,
                 "%s: %s of the model is not measured on these rows: %s", vc_option(s->ctx, "metric"),
                 vc_word(VC_WORDS_METRIC, metric), why_not_measured(&s->whole));
    VC_REFUSE_IF(s->options.min_accuracy > 0 && isnan(s->whole.accuracy), s->ctx, VC_E_ARGUMENT,
                 "%s: these rows have no labels of classes, which accuracy is measured by",
                 vc_option(s->ctx, "min_accuracy"));
    VC_REFUSE_IF(vc_metric_missed(&s->whole, &s->options.limits, &miss) && isnan(miss.value), s->ctx, VC_E_ARGUMENT,
                 "%s: these rows have no %s: %s", vc_option(s->ctx, miss.field), vc_word(VC_WORDS_METRIC, miss.metric),
                 why_not_measured(&s->whole));
    s->result.metric = metric;
    return VC_OK;
}

/* By how much that figure is worse, 0 where it is better. */
static double loss_by(enum vc_metric metric, const struct vc_quality *whole, const struct vc_quality *now)
{
    struct vc_metric_value is = vc_metric_figure(now, metric);
    double loss = is.value - vc_metric_figure(whole, metric).value;

    loss = is.rises ? -loss : loss;
    return loss <= 0 ? 0 : loss; /* no -0 */
}

/* In the unit of the figure, 0 where it became better: accuracy 0.91 against 0.93 is a loss of 0.02. */
double vc_shrink_loss(const struct vc_shrinking *s, const struct vc_quality *whole, const struct vc_quality *now)
{
    double loss, most = 0;

    if (whole->n_parts != 0 && s->result.metric == VC_METRIC_AUTO) { /* each by its own figure */
        for (size_t k = 0; k < whole->n_parts && k < now->n_parts; k++) {
            loss = loss_by(vc_metric_figure(&whole->parts[k], VC_METRIC_AUTO).metric, &whole->parts[k], &now->parts[k]);
            most = !isnan(most) && !(loss <= most) ? loss : most; /* one that is not known stays so */
        }
        return most;
    }
    return loss_by(s->result.metric, whole, now);
}

/* ---- time ---- */

bool vc_shrink_is_late(const struct vc_shrinking *s)
{
    return s->options.seconds > 0 && vc_shrink_seconds(s) >= s->until;
}

double vc_shrink_end(const struct vc_shrinking *s)
{
    return fmax(s->options.seconds - 2 * s->longest, s->until);
}

void vc_shrink_set_end(const struct vc_shrinking *s, double until)
{
    s->ctx->shared->deadline = until > 0 ? s->started - s->used + until : 0;
}

bool vc_shrink_has_ended(struct vc_shrinking *s, enum vc_status status)
{
    bool ended = status == VC_E_CANCELLED && s->options.seconds > 0 && atomic_load(&s->ctx->shared->cancelled) == 0;

    vc_shrink_set_end(s, 0);
    if (ended) {
        s->result.out_of_time = true;
        vc_clear_error(s->ctx);
    }
    return ended;
}

/* ---- candidates ---- */

/* Its figures are NaN until they are known. */
enum vc_status vc_shrink_add(struct vc_shrinking *s, const struct vc_shrink_chain *chain, size_t *k)
{
    size_t n = s->result.n_candidates;

    *k = n < VC_SHRINK_MOST ? n : VC_NO_CANDIDATE;
    if (*k == VC_NO_CANDIDATE) {
        return VC_OK;
    }
    s->chains[n] = *chain;
    s->candidates[n] =
        (struct vc_shrink_candidate){.error = NAN, .loss = NAN, .agreement = NAN, .kd = NAN, .accuracy = NAN};
    VC_CALL(vc_chain_describe(s, &s->chains[n], &s->candidates[n]));
    s->result.n_candidates++;
    return VC_OK;
}

/* Takes the sentence of a refusal as the reason why the candidate is left out; other failures stay. */
static enum vc_status take_refusal(struct vc_shrinking *s, size_t k, enum vc_status status)
{
    const char *sentence = vc_ctx_message(s->ctx);

    if (!vc_is_refusal(status)) {
        return status;
    }
    s->candidates[k].reason = vc_arena_copy(s->ctx, &s->arena, sentence, strlen(sentence));
    s->candidates[k].within = false;
    vc_clear_error(s->ctx);
    return s->candidates[k].reason != NULL ? VC_OK : VC_E_NOMEM;
}

/* Size and memory by the report of a job.
 * The size of a deflated file is 0 in a plan; such a candidate may be within until it is written. */
static enum vc_status take_sizes(struct vc_shrinking *s, size_t k, const struct vc_job *job)
{
    const struct vc_report *report = vc_job_report(job);
    struct vc_shrink_candidate *c = &s->candidates[k];
    struct vc_fit_change change = {.gpu = s->gpu, .count = 1};
    VC_CLEANUP(vc_planned_free) struct vc_planned_model slim = {.ctx = s->ctx};

    c->file_bytes = report->totals.file_after;
    c->need_bytes = report->totals.host_after;
    bool open = c->file_bytes == 0 && c->deflate && !s->write.dry_run;
    if (s->gpu != NULL) {
        if (s->sized != NULL && (s->chains[k].share != NULL || s->chains[k].drop != NULL)) {
            enum vc_status status = vc_slim_graph(s->ctx, job, s->sized, &slim);

            VC_RETURN_IF(status == VC_E_NOMEM, status);
            change.graph_after = status == VC_OK ? slim.graph : NULL; /* else that of the source, which takes no less */
        }
        VC_CALL(vc_fit_of_report(s->ctx, report, s->given, s->sized, NULL, &change));
        const struct vc_fit *fit = s->options.native ? &change.native : &change.after;
        s->counted = *fit;
        c->need_bytes = fit->need_bytes;
    }
    c->within = vc_search_within(&s->budget, open ? 1 : c->file_bytes, &s->counted);
    return VC_OK;
}

/* Codes that only one loader knows have its layout. */
const char *vc_shrink_layout(const struct vc_shrinking *s, size_t k)
{
    const struct vc_search_scheme *scheme = s->chains[k].scheme;

    return scheme != NULL && scheme->layout != NULL ? scheme->layout : s->write.layout;
}

/* A candidate before that one whose weights are the same, tensor by tensor, where a type falls back to another: the mixtures
 * of blocks that do not divide a row. VC_NO_CANDIDATE: none is. */
static size_t same_before(struct vc_shrinking *s, size_t k, const struct vc_report *report)
{
    struct vc_shrink_chain *own = &s->chains[k];
    struct vc_report_row row;
    const char *layout = vc_shrink_layout(s, k);

    own->written = vc_hash_bytes(1, layout != NULL ? layout : "", layout != NULL ? strlen(layout) : 0);
    for (size_t i = 0; vc_report_get_row(report, i, &row); i++) {
        own->written = vc_hash_bytes(own->written, row.scheme, strlen(row.scheme));
        own->written = vc_hash_bytes(own->written, &row.bytes_after, sizeof row.bytes_after);
    }
    for (size_t i = 0; i < k; i++) {
        const struct vc_shrink_chain *c = &s->chains[i];

        if (c->written == own->written && c->sparsity == own->sparsity && c->share == own->share &&
            c->drop == own->drop && c->two_four == own->two_four && c->unit == own->unit &&
            c->aim_bytes == own->aim_bytes && c->steps == own->steps && s->candidates[i].reason == NULL &&
            s->candidates[i].deflate == s->candidates[k].deflate) {
            return i;
        }
    }
    return VC_NO_CANDIDATE;
}

/* A job of the model without passes: what every job of the search begins with. */
enum vc_status vc_shrink_job(struct vc_shrinking *s, struct vc_job **job)
{
    VC_CALL(vc_job_create(s->ctx, s->given, job));
    if (s->options.drop_optimizer) {
        VC_CALL(vc_job_drop(s->ctx, *job, VC_ROLE_OPTIMIZER));
    }
    return s->options.drop_other ? vc_job_drop(s->ctx, *job, VC_ROLE_OTHER) : VC_OK;
}

/* The job of the whole chain, planned. Its sizes alone are asked for in a dry run of codes whose scale of the tensor is found
 * by reading it. */
static enum vc_status plan_chain(struct vc_shrinking *s, size_t k, struct vc_write_options write, struct vc_job **job)
{
    const struct vc_search_scheme *scheme = s->chains[k].scheme;

    write.layout = vc_shrink_layout(s, k);
    write.deflate = s->candidates[k].deflate ? VC_DEFLATE_AUTO : s->write.deflate;
    VC_CALL(vc_shrink_job(s, job));
    (*job)->sizes_only = s->write.dry_run && scheme != NULL && scheme->target == VC_TARGET_NVFP4;
    VC_CALL(vc_chain_add(s, &s->chains[k], *job));
    return vc_job_plan(s->ctx, *job, &write);
}

/* A plan of the whole chain: nothing is read but headers. */
enum vc_status vc_shrink_count(struct vc_shrinking *s, size_t k)
{
    struct vc_write_options write = s->write;
    struct vc_job *job = NULL;
    enum vc_status status;

    write.dry_run = true;
    VC_TRY(plan_chain(s, k, write, &job));
    VC_TRY(take_sizes(s, k, job));
    size_t same = same_before(s, k, vc_job_report(job));
    if (same != VC_NO_CANDIDATE) {
        status = vc_fail(s->ctx, VC_E_UNSUPPORTED, "the same weights as '%s'", s->candidates[same].name);
    }
out:
    vc_job_free(job);
    return status == VC_OK ? VC_OK : take_refusal(s, k, status);
}

/* The norm of the change of all weights, over the norm of the weights. */
static double error_of(const struct vc_report *report)
{
    struct vc_report_row row;
    double x2 = 0.0;
    double e2 = 0.0;

    for (size_t i = 0; vc_report_get_row(report, i, &row); i++) {
        x2 += row.measured ? row.sum_x2 : 0.0;
        e2 += row.measured ? row.sum_e2 : 0.0;
    }
    return e2 == 0.0 ? 0.0 : sqrt(e2 / x2);
}

/* Runs the chain once; path NULL: measures the error of the weights only. */
static enum vc_status make(struct vc_shrinking *s, size_t k, const char *path)
{
    struct vc_shrink_candidate *c = &s->candidates[k];
    struct vc_write_options write = s->write;
    VC_SCOPED_JOB struct vc_job *job = NULL;

    write.path = path;
    if (path == NULL && write.format == NULL) { /* the format is that of the output's name all the same */
        write.format = vc_format_of_name(s->write.path);
    }
    write.force = true;
    VC_CALL(plan_chain(s, k, write, &job));
    VC_CALL(vc_job_run(s->ctx, job));
    const struct vc_report *report = vc_job_report(job);
    if (path != NULL) {
        VC_CALL(take_sizes(s, k, job));
    }
    c->error = report->totals.measured ? error_of(report) : NAN;
    return VC_OK;
}

/* Makes a candidate that is trained. When the steps would not end in time, begins again with as many as do.
 * The first steps say how long one takes (watch, chain.c). */
static enum vc_status train(struct vc_shrinking *s, size_t k, const char *path)
{
    double left = s->options.seconds > 0 ? s->until - vc_shrink_seconds(s) : 0;
    double began = vc_seconds();
    struct vc_shrink_chain *chain = &s->chains[k];
    enum vc_status status = VC_E_CANCELLED;

    s->too_slow = s->options.seconds > 0 && s->step_seconds * (double)chain->steps > left;
    s->deadline_cut = left;
    if (!s->too_slow) {
        status = make(s, k, path);
    }
    s->deadline_cut = 0;
    if (status != VC_E_CANCELLED || !s->too_slow) {
        return status;
    }
    atomic_store(&s->ctx->shared->cancelled, 0); /* our own wish */
    vc_clear_error(s->ctx);
    left = (s->until - vc_shrink_seconds(s) - (vc_seconds() - began)) * 0.9; /* pruning takes as long again */
    chain->steps = left > 0 ? (uint64_t)(left / s->step_seconds) : 0;
    VC_REFUSE_IF(chain->steps < LEAST_STEPS, s->ctx, VC_E_GATE, "there is no time to train it");
    VC_CALL(vc_chain_describe(s, chain, &s->candidates[k]));
    return make(s, k, path);
}

/* What the file in the work folder loses on the rows to choose. */
static enum vc_status judge(struct vc_shrinking *s, size_t k, const char *path)
{
    struct vc_shrink_candidate *c = &s->candidates[k];
    struct vc_quality parts[VC_MOST_OUTPUTS];
    struct vc_quality quality;

    VC_CALL(vc_shrink_quality(s, path, &s->choose, parts, &quality));
    c->kd = quality.kd;
    c->agreement = quality.agreement;
    c->accuracy = quality.accuracy;
    c->loss = vc_shrink_loss(s, &s->whole, &quality);
    return VC_OK;
}

/* Empties the folder of the candidate first, in which an interrupted search may have left a file. */
static const char *make_folder(struct vc_shrinking *s, size_t k)
{
    const char *folder = vc_arena_printf(s->ctx, &s->arena, "%s/%zu", s->work, k);

    if (folder != NULL) {
        vc_remove_folder(folder);
        (void)mkdir(folder, 0777);
    }
    return folder;
}

enum vc_status vc_shrink_make(struct vc_shrinking *s, size_t k)
{
    const char *path = vc_shrink_file(s, k);

    return path != NULL && make_folder(s, k) != NULL ? make(s, k, path) : VC_E_NOMEM;
}

/* What the journal has is not done again. A file of an untrained candidate is removed when it was measured:
 * there may be many, and it is made again if it is chosen. */
enum vc_status vc_shrink_try(struct vc_shrinking *s, size_t k)
{
    struct vc_shrink_candidate *c = &s->candidates[k];
    bool data = s->options.data != NULL;
    double began = vc_seconds();
    const char *path = vc_shrink_file(s, k);
    enum vc_status status = VC_OK;

    VC_CALL_ALLOC(path);
    if (!vc_journal_has(s, k)) {
        const char *folder = make_folder(s, k);

        VC_CALL_ALLOC(folder);
        vc_shrink_set_end(s, s->chains[k].steps != 0 ? s->until : vc_shrink_end(s));
        status = s->chains[k].steps != 0 ? train(s, k, path) : make(s, k, data ? path : NULL);
        if (status == VC_OK && data) {
            status = judge(s, k, path);
        }
        bool ended = vc_shrink_has_ended(s, status);
        if (status != VC_OK || c->steps == 0) { /* what was trained may be the output */
            vc_remove_folder(folder);
        }
        if (ended) { /* it was not measured */
            return VC_OK;
        }
        if (status != VC_OK) {
            VC_CALL(take_refusal(s, k, status));
        }
        c->seconds = vc_seconds() - began;
        VC_CALL(vc_journal_add(s, k));
    }
    c->measure = isnan(c->kd) ? NULL : vc_teacher_loss_facts(s->whole.loss)->measure;
    s->longest = c->steps == 0 && c->seconds > s->longest ? c->seconds : s->longest;
    if (s->options.tell != NULL) {
        s->options.tell(s->options.user, c, vc_shrink_rest(s));
    }
    return VC_OK;
}
