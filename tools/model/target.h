/* target.h - --target-gpu and --must-fit: whether the model fits devices before and after a conversion, in its report.
 */
#pragma once

#include "tools/app.h"

#define MAX_TARGETS     8
#define VC_TARGET_GATES (MAX_TARGETS + 16)

struct targets {
    size_t n;
    const char *names[MAX_TARGETS]; /* as given */
    bool must[MAX_TARGETS];         /* --must-fit: it is a gate */
    const char *gpus_file;
    bool weights_only; /* the weights alone are asked about */
    const char *graph; /* --graph: what the model computes, where its own file does not say that */
    /* what they are: targets_find */
    struct vc_gpus *catalogue;
    struct vc_fit_change changes[MAX_TARGETS];
    struct vc_report_gate gates[VC_TARGET_GATES]; /* the report's, and one for each that must fit */
    char missed[512];                             /* the sentence about the first that does not */
};

/* Once there is a context, before any work. GO_ON or a status. targets_close in any case. */
int targets_find(struct app *app, struct targets *targets);
void targets_close(struct targets *targets);

/* Asks about every target, and puts the answers into the report, and its gates; report->gate_missed is the sentence
 * about the first that does not fit and has to, where no other gate was missed. GO_ON or a status. */
int targets_ask(struct app *app, struct targets *targets, const struct vc_model *model, struct vc_report *report);

/* The lines of the report: "  fit     Tesla T4: no -> yes, 1.40 GiB left". */
void print_targets(const struct app *app, const struct vc_report *report);
