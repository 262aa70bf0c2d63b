/* job_gates.c - the gates of a job: limits that the output has to keep, or nothing is written. The report has each with
 * its limit and what was found; the first that is missed has a sentence, too. */
#include <math.h>
#include <string.h>

#include "core/job/job_state.h"

#define MAX_GATES 4

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

/* option: whose number `allowed` is. */
static enum vc_status check_size(struct vc_ctx *ctx, struct vc_job *job, const char *id, const char *option,
                                 uint64_t allowed)
{
    const struct vc_report_output *largest = NULL;
    bool several = job->report.n_outputs > 1;
    bool known = true;

    for (size_t i = 0; allowed != 0 && i < job->report.n_outputs; i++) {
        const struct vc_report_output *output = &job->outputs[i];

        known = known && output->file_bytes != 0;
        largest = largest == NULL || output->file_bytes > largest->file_bytes ? output : largest;
    }
    if (largest == NULL || (!known && largest->file_bytes <= allowed)) {
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

enum vc_status vc_job_check_size(struct vc_ctx *ctx, struct vc_job *job)
{
    enum vc_status status = check_size(ctx, job, "max_bytes", "max_bytes", job->options.max_bytes);

    return status == VC_OK ? check_size(ctx, job, "aim_bytes", job->plan.aim_option, job->plan.aim_bytes) : status;
}

enum vc_status vc_job_check_quality(struct vc_ctx *ctx, struct vc_job *job)
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
    struct zeros zeros;
    double sparsity;

    if (!(limit > 0.0)) {
        return VC_OK;
    }
    zeros = count_zeros(job, limit);
    if (zeros.n_tensors == 0) {
        judge(job, "expect_sparsity", 0.0, false);
        return miss(ctx, job,
                    vc_arena_printf(ctx, &job->arena, "no tensor is pruned, %s asks for %g %% zeros",
                                    vc_option(ctx, "expect_sparsity"), 100.0 * limit));
    }
    if (!zeros.measured) {
        return VC_OK; /* it is judged after the run */
    }
    sparsity = zeros.n_weights == 0 ? 0.0 : (double)zeros.found / (double)zeros.n_weights;
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
