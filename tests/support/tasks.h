/* tasks.h - jobs from one file to another, as a test says them in a line: what is done, and with which options. */
#pragma once

#include "scratch.h"
#include "support_options.h"

enum task_work { TASK_COPY, TASK_QUANTIZE, TASK_DEQUANTIZE };

struct task {
    enum task_work work;
    struct vc_open_options open;
    struct vc_write_options write; /* run_task sets the path */
    struct vc_quantize_options quantize;
    struct vc_dequantize_options dequantize;
    bool drop_optimizer, drop_other;
    bool over_older; /* fail_each_...: an output of before lies there, and is whole whatever fails */
    enum vc_status (*add)(struct vc_ctx *ctx, struct vc_job *job); /* adds a pass of the test's own; NULL: none */
    void (*opened)(void); /* called once the model is open; NULL: nothing happens in between */
};

/* They replace an older output and work on tensors of any size. */
struct task task_copy(void);
struct task task_int8(void);
struct task task_fp16(void);
struct task task_back(void); /* dequantize to f32 */

/* What the report of the last run_task that came as far as planning said. */
struct last_report {
    char note[256];
    uint64_t file_before, file_after;
};
extern struct last_report last_report;

enum vc_status run_task(struct vc_ctx *ctx, const char *from, const char *to, const struct task *task);

/* These stop the test: where it does not work; where it does, or the sentence says something else, or there is an
 * output that was not there before. */
void must_run(struct vc_ctx *ctx, const char *from, const char *to, struct task task);
void must_refuse(struct vc_ctx *ctx, const char *from, const char *to, struct task task, const char *words);

/* Stops the test where the file cannot be opened; vc_model_close. */
struct vc_model *must_open(struct vc_ctx *ctx, const char *name);

/* Runs the task with the n-th allocation failing, n from 1 on, until none fails: each time there is a sentence, no
 * output, and all memory is back. Leaves the output of the last run. The context gets one thread. */
void fail_each_allocation(struct vc_ctx *ctx, const char *from, const char *to, struct task task, unsigned at_least);

/* The same with the n-th read of the input failing, and the n-th call that writes: VC_E_IO. Some of the latter have
 * another way, and where the last ones fail the output is complete already: what is there can be opened. */
void fail_each_read(struct vc_ctx *ctx, const char *from, const char *to, struct task task, unsigned at_least);
void fail_each_write(struct vc_ctx *ctx, const char *from, const char *to, struct task task, unsigned at_least);

/* The same with a file of the input that somebody changes once the model is open: another byte at each offset, and the
 * file cut there. Every time the job fails with a sentence that names the file, and there is no output. file: that of
 * the model, or one in its folder. step: from one offset to the next. */
void change_each_byte(struct vc_ctx *ctx, const char *from, const char *file, const char *to, struct task task,
                      size_t step);

/* A file of the input that was damaged before: at each offset one byte is another one, in several ways, or the file
 * ends. Either the job says so and leaves nothing, or there is an output that can be opened. */
void damage_each_byte(struct vc_ctx *ctx, const char *from, const char *file, const char *to, struct task task,
                      size_t step);
