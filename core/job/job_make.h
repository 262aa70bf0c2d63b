/* job_make.h - a job from what core does not have itself: the table of formats, what compares both ends of a chain, and what
 * chooses the device. vc_job_create (facade/) calls it with those of the library. */
#pragma once

#include <vcompress/job.h>

struct vc_writers;
struct vc_comparer;
struct vc_plan;

/* Where a job is expected to be done sooner. */
struct vc_device_choice {
    double cpu_seconds, card_seconds; /* what the run is expected to take; 0: nobody asked, the device was named */
    const char *why; /* the CPU computes: the reason; "": a card does, or the device was named. Lives as long
                                         as the context, or its next device */
};

struct vc_chooser {
    /* The job is planned: for the device "auto" says how long n_threads processors take, and these with a card; where the card is
     * expected to be sooner, begins to open it, and with `wait` waits for it. `file_bytes`: read and written. Sets items[].on_cpu
     * for every device. */
    void (*choose)(struct vc_ctx *ctx, const struct vc_plan *plan, uint64_t file_bytes, unsigned n_threads, bool wait,
                   struct vc_device_choice *choice);
    /* The run is over: whether the card came. */
    void (*end)(struct vc_ctx *ctx, struct vc_device_choice *choice);
};

/* The tables outlive the job. Ends with vc_job_free. */
enum vc_status vc_job_make(struct vc_ctx *ctx, const struct vc_model *model, const struct vc_writers *writers,
                           const struct vc_comparer *comparer, const struct vc_chooser *chooser, struct vc_job **out);
