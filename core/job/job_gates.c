/* job_gates.c - the gates of a job: limits that the output has to keep, or nothing is written. The report has each with
 * its limit and what was found; the first that is missed has a sentence, too. */
#include <math.h>

#include "core/job/job_state.h"

#define MAX_GATES 7

enum vc_status vc_job_list_gates(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_write_options *options = &job->options;
    struct vc_report_gate *gates = vc_arena_alloc(ctx, &job->arena, MAX_GATES * sizeof *gates);
    size_t n = 0;

    VC_CALL_ALLOC(gates);
    if (options->max_bytes != 0) {
        gates[n++] = (struct vc_report_gate){"max_bytes", (double)options->max_bytes, (double)NAN, false, false};
    }
    if (options->min_sqnr_db > 0.0) {
        gates[n++] = (struct vc_report_gate){"min_sqnr_db", options->min_sqnr_db, (double)NAN, false, false};
    }
    if (job->plan.aim_bytes != 0) {
        gates[n++] = (struct vc_report_gate){"aim_bytes", (double)job->plan.aim_bytes, (double)NAN, false, false};
    }
    if (options->expect_sparsity > 0.0) {
        gates[n++] = (struct vc_report_gate){"expect_sparsity", options->expect_sparsity, (double)NAN, false, false};
    }
    if (options->min_ratio > 0.0) {
        gates[n++] = (struct vc_report_gate){"min_ratio", options->min_ratio, (double)NAN, false, false};
    }
    if (options->baseline_bytes != 0) {
        gates[n++] = (struct vc_report_gate){"max_growth", options->max_growth, (double)NAN, false, false};
    }
    if (options->max_sqnr_drop_db > 0.0) {
        gates[n++] = (struct vc_report_gate){"max_sqnr_drop_db", options->max_sqnr_drop_db, (double)NAN, false, false};
    }
    job->gates = gates;
    job->report.gates = gates;
    job->report.n_gates = n;
    return VC_OK;
}

/* Puts down what was found. A gate that the job does not have is passed over. */
static void judge(struct vc_job *job, const char *id, double value, bool passed)
{
    for (size_t i = 0; i < job->report.n_gates; i++) {
        if (strcmp(job->gates[i].id, id) == 0) {
            job->gates[i].value = value;
            job->gates[i].judged = true;
            job->gates[i].passed = passed;
        }
    }
}

static enum vc_status miss(struct vc_ctx *ctx, struct vc_job *job, const char *sentence)
{
    VC_CALL_ALLOC(sentence);
    job->report.gate_missed = sentence;
    return vc_fail(ctx, VC_E_GATE, "%s", sentence);
}

/* The largest output. *known: all have their size already, and not only after the run. NULL: there are no outputs. */
static const struct vc_report_output *largest_output(const struct vc_job *job, bool *known)
{
    const struct vc_report_output *largest = NULL;

    *known = true;
    for (size_t i = 0; i < job->report.n_outputs; i++) {
        const struct vc_report_output *output = &job->outputs[i];

        *known = *known && output->file_bytes != 0;
        largest = largest == NULL || output->file_bytes > largest->file_bytes ? output : largest;
    }
    return largest;
}

/* option: whose number `allowed` is. */
static enum vc_status check_size(struct vc_ctx *ctx, struct vc_job *job, const char *id, const char *option,
                                 uint64_t allowed)
{
    bool several = job->report.n_outputs > 1;
    bool known;
    const struct vc_report_output *largest = largest_output(job, &known);

    if (allowed == 0 || largest == NULL || (!known && largest->file_bytes <= allowed)) {
        return VC_OK; /* no gate, or it is judged after the run */
    }
    judge(job, id, (double)largest->file_bytes, largest->file_bytes <= allowed);
    if (largest->file_bytes <= allowed) {
        return VC_OK;
    }
    return miss(ctx, job,
                vc_arena_printf(ctx, &job->arena, "the output %s%s%llu bytes, %s allows %llu",
                                several ? largest->path : "", several ? " has " : "has ",
                                (unsigned long long)largest->file_bytes, vc_option(ctx, option),
                                (unsigned long long)allowed));
}

/* The largest output beside the input: input 600 KiB, output 200 KiB: a ratio of 3. */
static enum vc_status check_ratio(struct vc_ctx *ctx, struct vc_job *job)
{
    double limit = job->options.min_ratio;
    double before = (double)job->report.totals.file_before;
    bool known;
    const struct vc_report_output *largest = largest_output(job, &known);

    if (!(limit > 0.0) || largest == NULL || !known) {
        return VC_OK;
    }
    double ratio = before / (double)largest->file_bytes;
    judge(job, "min_ratio", ratio, ratio >= limit);
    if (ratio >= limit) {
        return VC_OK;
    }
    return miss(ctx, job,
                vc_arena_printf(ctx, &job->arena, "the output %s%sis %.4g times smaller than the input, %s asks for %g",
                                job->report.n_outputs > 1 ? largest->path : "", job->report.n_outputs > 1 ? " " : "",
                                ratio, vc_option(ctx, "min_ratio"), limit));
}

/* The largest output beside that of an earlier run: 102 bytes after 100: a growth of 0.02. */
static enum vc_status check_growth(struct vc_ctx *ctx, struct vc_job *job)
{
    uint64_t before = job->options.baseline_bytes;
    double limit = job->options.max_growth;
    bool known;
    const struct vc_report_output *largest = largest_output(job, &known);

    if (before == 0 || largest == NULL || !known) {
        return VC_OK;
    }
    double growth = ((double)largest->file_bytes - (double)before) / (double)before;
    bool passed = (double)largest->file_bytes <= (double)before * (1.0 + limit);
    judge(job, "max_growth", growth, passed);
    if (passed) {
        return VC_OK;
    }
    return miss(ctx, job,
                vc_arena_printf(ctx, &job->arena,
                                "the output has %llu bytes, %.4g %% more than the %llu of %s, %s allows %g %%",
                                (unsigned long long)largest->file_bytes, 100.0 * growth, (unsigned long long)before,
                                vc_option(ctx, "baseline_bytes"), vc_option(ctx, "max_growth"), 100.0 * limit));
}

enum vc_status vc_job_check_size(struct vc_ctx *ctx, struct vc_job *job)
{
    VC_CALL(check_size(ctx, job, "max_bytes", "max_bytes", job->options.max_bytes));
    VC_CALL(check_size(ctx, job, "aim_bytes", job->plan.aim_option, job->plan.aim_bytes));
    VC_CALL(check_ratio(ctx, job));
    return check_growth(ctx, job);
}

/* The SQNR over all changed tensors beside that of an earlier run: 41.5 dB after 42: a loss of 0.5 dB. */
static enum vc_status check_loss(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_report_totals *totals = &job->report.totals;
    double limit = job->options.max_sqnr_drop_db;
    double loss = job->options.baseline_sqnr_db - totals->sqnr_db;

    if (!(limit > 0.0)) {
        return VC_OK;
    }
    if (!totals->measured) { /* nothing changed */
        judge(job, "max_sqnr_drop_db", (double)NAN, true);
        return VC_OK;
    }
    judge(job, "max_sqnr_drop_db", loss, loss <= limit);
    if (loss <= limit) {
        return VC_OK;
    }
    return miss(ctx, job,
                vc_arena_printf(ctx, &job->arena,
                                "the SQNR is %.2f dB, %.2f dB below the %.2f dB of %s, %s allows %g dB",
                                totals->sqnr_db, loss, job->options.baseline_sqnr_db, vc_option(ctx, "baseline_bytes"),
                                vc_option(ctx, "max_sqnr_drop_db"), limit));
}

/* The worst tensor. */
static enum vc_status check_worst(struct vc_ctx *ctx, struct vc_job *job)
{
    const struct vc_report_totals *totals = &job->report.totals;
    double limit = job->options.min_sqnr_db;
    struct vc_report_row worst;

    if (!(limit > 0.0)) {
        return VC_OK;
    }
    if (!totals->measured) { /* nothing changed */
        judge(job, "min_sqnr_db", (double)NAN, true);
        return VC_OK;
    }
    worst = vc_job_row(job, totals->worst);
    judge(job, "min_sqnr_db", worst.sqnr_db, worst.sqnr_db >= limit);
    if (worst.sqnr_db >= limit) {
        return VC_OK;
    }
    return miss(ctx, job,
                vc_arena_printf(ctx, &job->arena, "%s has an SQNR of %.2f dB, %s asks for %.2f dB", worst.name,
                                worst.sqnr_db, vc_option(ctx, "min_sqnr_db"), limit));
}

enum vc_status vc_job_check_quality(struct vc_ctx *ctx, struct vc_job *job)
{
    VC_CALL(check_worst(ctx, job));
    return check_loss(ctx, job);
}

enum vc_status vc_job_check_passes(struct vc_ctx *ctx, struct vc_job *job)
{
    for (size_t i = 0; i < job->n_passes; i++) {
        if (job->passes[i]->gate_missed != NULL) {
            return miss(ctx, job, vc_arena_printf(ctx, &job->arena, "%s", job->passes[i]->gate_missed));
        }
    }
    return VC_OK;
}

/* Of the tensors that passes pruned: their elements, the zeros among them, and the zeros that pruning each tensor to
 * `share` makes. */
struct zeros {
    size_t n_tensors;
    uint64_t n_weights, found, wanted;
    bool measured;
};

static struct zeros count_zeros(const struct vc_job *job, double share)
{
    struct zeros zeros = {.measured = true};

    for (size_t i = 0; i < job->report.n_rows; i++) {
        const struct vc_item *item = vc_job_row_item(job, i);

        if (vc_item_has_action(item, VC_ACTION_PRUNED)) {
            const struct vc_report_row row = vc_job_row(job, i);

            zeros.n_tensors++;
            zeros.n_weights += item->desc->n_elems;
            zeros.found += row.zeros_after;
            zeros.wanted += (uint64_t)floor(share * (double)row.n_elems);
            zeros.measured = zeros.measured && row.measured;
        }
    }
    return zeros;
}

enum vc_status vc_job_check_sparsity(struct vc_ctx *ctx, struct vc_job *job)
{
    double limit = job->options.expect_sparsity;

    if (!(limit > 0.0)) {
        return VC_OK;
    }
    struct zeros zeros = count_zeros(job, limit);
    if (zeros.n_tensors == 0) {
        judge(job, "expect_sparsity", 0.0, false);
        return miss(ctx, job,
                    vc_arena_printf(ctx, &job->arena, "no tensor is pruned, %s asks for %g %% zeros",
                                    vc_option(ctx, "expect_sparsity"), 100.0 * limit));
    }
    if (!zeros.measured) {
        return VC_OK; /* it is judged after the run */
    }
    double sparsity = zeros.n_weights == 0 ? 0.0 : (double)zeros.found / (double)zeros.n_weights;
    judge(job, "expect_sparsity", sparsity, zeros.found >= zeros.wanted);
    if (zeros.found >= zeros.wanted) {
        return VC_OK;
    }
    return miss(ctx, job,
                vc_arena_printf(ctx, &job->arena,
                                "%llu of the %llu pruned weights are zero (%.2f %%), %s asks for %g %%: %llu",
                                (unsigned long long)zeros.found, (unsigned long long)zeros.n_weights, 100.0 * sparsity,
                                vc_option(ctx, "expect_sparsity"), 100.0 * limit, (unsigned long long)zeros.wanted));
}
