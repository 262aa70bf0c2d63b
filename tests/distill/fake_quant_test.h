/* fake_quant_test.h - what tests of fake quantization share: files that quantize makes, and what a run tells of its
 * student beside what the written file answers. Included once by each test. */
#pragma once

#include "distill_test.h"

#include <math.h>

/* What one case asks for. */
struct scheme {
    enum vc_target target;
    enum vc_granularity granularity;
    uint64_t group;
    int axis;
    bool asymmetric;
};

static const struct vc_rule weights_only[] = {{"*", false}, {"*.weight", true}};

static inline void set_quantize(const struct scheme *scheme, struct vc_quantize_options *o)
{
    vc_quantize_defaults(o);
    o->target = scheme->target;
    o->granularity = scheme->granularity;
    o->granularity_given = true;
    o->group_size = scheme->group != 0 ? scheme->group : o->group_size;
    o->axis = scheme->axis;
    o->asymmetric = scheme->asymmetric;
    o->rules = weights_only;
    o->n_rules = 2;
}

/* Quantizes one file of the folder into another one. */
static inline void quantize(const char *from, const char *to, const struct vc_quantize_options *options)
{
    struct vc_write_options write;
    struct vc_model *model = NULL;
    struct vc_job *job = NULL;

    vc_write_defaults(&write);
    write.path = in_folder(to);
    write.force = true;
    assert_int_equal(vc_model_open(ctx, in_folder(from), NULL, &model), VC_OK);
    assert_int_equal(vc_job_create(ctx, model, &job), VC_OK);
    assert_int_equal(vc_job_add_quantize(ctx, job, options), VC_OK);
    if (vc_job_plan(ctx, job, &write) != VC_OK || vc_job_run(ctx, job) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
    vc_job_free(job);
    vc_model_close(model);
}

static inline void read_floats(const char *file, const char *name, float *out, size_t n)
{
    struct vc_model *model = NULL;

    assert_int_equal(vc_model_open(ctx, in_folder(file), NULL, &model), VC_OK);
    assert_int_equal(vc_tensor_read_f32(ctx, model, vc_model_find(model, name), out, n), VC_OK);
    vc_model_close(model);
}

static inline void distill(struct run *run, struct vc_distillation **d)
{
    if (vc_distill(ctx, &run->options, d) != VC_OK) {
        fail_msg("%s", vc_ctx_message(ctx));
    }
}

/* What a file answers is what the run has told of its student, to the last bit. */
static inline void expect_judged(const struct run *run, const char *file, const struct vc_quality *told)
{
    struct vc_evaluate_options options;
    struct vc_network net = {.graph = NULL};
    struct vc_quality q;

    open_net(file, &net);
    vc_evaluate_defaults(&options);
    options.network = net;
    options.teacher = run->options.teacher;
    options.data = &run->data;
    options.batch = run->options.training.batch;
    options.precision = run->options.precision.kind;
    assert_int_equal(vc_evaluate(ctx, &options, &q), VC_OK);
    assert_true(q.kd == told->kd && q.agreement == told->agreement && !isnan(q.kd));
    close_net(&net);
}

static inline enum vc_status run_coded(struct run *run, const struct vc_quantize_options *quantize, struct vc_job **job)
{
    struct vc_write_options write;
    enum vc_status status;

    vc_write_defaults(&write);
    write.path = run->chain;
    write.force = true;
    status = vc_job_create(ctx, run->student.weights, job);
    status = status == VC_OK ? vc_job_add_quantize(ctx, *job, quantize) : status;
    status = status == VC_OK ? vc_job_add_distill(ctx, *job, &run->options) : status;
    status = status == VC_OK ? vc_job_plan(ctx, *job, &write) : status;
    return status == VC_OK ? vc_job_run(ctx, *job) : status;
}

static inline void cancel(void *user, const struct vc_distill_step *step)
{
    (void)user;
    if (step->eval == NULL && step->step == 5) {
        vc_ctx_cancel(ctx);
    }
}
