/* log_step.h - the steps of distill, and evaluations on the way, as lines of JSON: --log. */
#pragma once

#include <vcompress/distill.h>

struct step_log {
    const char *path; /* borrowed */
    FILE *to;         /* NULL if there is none */
    /* goes_on: lines are appended to older ones; is_new: this run has created the file; begun: a line was written, or the
     * file was emptied */
    bool goes_on, is_new, begun;
    int error; /* the first, an errno */
};

/* False: it cannot be written; errno says why. goes_on: behind what the file has; else that is replaced by the first
 * step, and a run that is refused before it changes nothing. */
bool log_open(struct step_log *log, const char *path, bool goes_on);
/* Writes a line. Failures are kept in log->error. */
void log_step(struct step_log *log, const struct vc_distill_step *step);
/* done: the run is over as it should be. An errno, or 0. */
int log_close(struct step_log *log, bool done);
