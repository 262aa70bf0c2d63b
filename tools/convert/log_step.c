/* log_step.c - see log_step.h.
 *
 *     {"step": 1, "loss": 0.81, "kd": 0.81, "ce": null, "grad_norm": 2.1, "lr": 0.001, "scale": null, "host_bytes": ...}
 *     {"step": 50, "accuracy": 0.95, "cross_entropy": 0.16, "agreement": 0.97, "divergence": 0.02}
 *
 * The second form is an evaluation. Each line is flushed, so that programs can follow the file. */
#include "tools/convert/log_step.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* A member with all digits of a double (17), so that two logs can be compared bit for bit; null for NaN and Inf, which
 * JSON does not have. */
static void log_number(FILE *to, const char *name, double x)
{
    if (isfinite(x)) {
        fprintf(to, ", \"%s\": %.17g", name, x);
    } else {
        fprintf(to, ", \"%s\": null", name);
    }
}

/* The terms of --match, in their order; nothing where there are none. */
static void log_matches(FILE *to, const struct vc_distill_step *step)
{
    for (size_t k = 0; k < step->n_matches; k++) {
        char name[32];

        snprintf(name, sizeof(name), "match.%zu", k);
        log_number(to, name, step->matches[k]);
    }
}

/* One line: of a step, or of an evaluation. */
static void add_step(FILE *to, const struct vc_distill_step *step)
{
    fprintf(to, "{\"step\": %llu", (unsigned long long)step->step);
    if (step->eval != NULL) {
        log_number(to, "accuracy", step->eval->accuracy);
        log_number(to, "cross_entropy", step->eval->ce);
        log_number(to, "agreement", step->eval->agreement);
        log_number(to, "divergence", step->eval->kd);
        fputs("}\n", to);
        return;
    }
    log_number(to, "loss", step->loss);
    log_number(to, "kd", step->kd);
    log_number(to, "ce", step->ce);
    log_matches(to, step);
    log_number(to, "grad_norm", step->grad_norm);
    log_number(to, "lr", step->lr);
    log_number(to, "scale", step->scale);
    if (step->skipped) {
        fputs(", \"skipped\": true", to);
    }
    if (!isnan(step->sparsity)) {
        log_number(to, "sparsity", step->sparsity);
    }
    fprintf(to, ", \"host_bytes\": %llu, \"device_bytes\": %llu", (unsigned long long)step->host_bytes,
            (unsigned long long)step->device_bytes);
    fprintf(to, ", \"reserved_bytes\": %llu, \"peak_bytes\": %llu}\n", (unsigned long long)step->reserved_bytes,
            (unsigned long long)step->peak_bytes);
}

/* Opened for appending in any case: whether older lines go is decided by the first step. */
bool log_open(struct step_log *log, const char *path, bool goes_on)
{
    *log = (struct step_log){.path = path, .goes_on = goes_on, .is_new = access(path, F_OK) != 0};
    log->to = fopen(path, "a");
    return log->to != NULL;
}

/* Empties the file where it is replaced. An older file stays as it is until there is something to replace it. */
static void empty(struct step_log *log)
{
    struct stat st;

    if (!log->goes_on && fstat(fileno(log->to), &st) == 0 && S_ISREG(st.st_mode) &&
        ftruncate(fileno(log->to), 0) != 0) {
        log->error = errno;
    }
    log->begun = true;
}

/* After the first failure nothing more is written; log_close reports it. */
void log_step(struct step_log *log, const struct vc_distill_step *step)
{
    if (log->to == NULL || log->error != 0) {
        return;
    }
    if (!log->begun) {
        empty(log);
    }
    add_step(log->to, step);
    if (fflush(log->to) != 0 || ferror(log->to) != 0) {
        log->error = log->error != 0 ? log->error : errno;
    }
}

/* A file that this run has created and not written to is removed. */
int log_close(struct step_log *log, bool done)
{
    if (log->to == NULL) {
        return 0;
    }
    if (done && !log->begun) {
        empty(log);
    }
    if (fclose(log->to) != 0 && log->error == 0) {
        log->error = errno;
    }
    log->to = NULL;
    if (!log->begun && log->is_new) {
        (void)unlink(log->path);
    }
    return log->error;
}
