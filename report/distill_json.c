/* distill_json.c - the report of a distillation as JSON, schema vcompress.distill/1 (distill-1.schema.json). */
#include <math.h>

#include "core/values/fraction.h"
#include "report/document_parts.h"

void vc_write_quality(struct vc_json *json, const char *key, const struct vc_quality *q)
{
    vc_json_begin(json, key, '{', true);
    vc_json_uint(json, "rows", q->n_rows);
    vc_json_uint(json, "labels", q->n_labels);
    vc_json_real(json, "accuracy", q->accuracy);
    vc_json_real(json, "cross_entropy", q->ce);
    vc_json_real(json, "agreement", q->agreement);
    vc_json_real(json, "divergence", q->kd);
    vc_json_uint(json, "targets", q->n_targets);
    vc_json_real(json, "squared_error", q->squared_error);
    vc_json_real(json, "r2", q->r2);
    vc_json_real(json, "teacher_r2", q->teacher_r2);
    vc_json_end(json, '}');
}

/* Evaluations on the way, a line each. */
static void write_steps(struct vc_json *json, const struct vc_distillation *d)
{
    vc_json_begin(json, "steps", '[', false);
    for (uint64_t k = 0; k < d->n_evals; k++) {
        const struct vc_quality *q = &d->evals[k].quality;

        vc_json_begin(json, NULL, '{', true);
        vc_json_uint(json, "step", d->evals[k].step);
        vc_json_real(json, "accuracy", q->accuracy);
        vc_json_real(json, "cross_entropy", q->ce);
        vc_json_real(json, "agreement", q->agreement);
        vc_json_real(json, "divergence", q->kd);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
    vc_json_uint(json, "best_step", d->best_step);
    vc_json_bool(json, "stopped", d->stopped);
}

static void write_options(struct vc_json *json, const struct vc_distill_options *o)
{
    static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw", "adafactor", "adam8bit"};
    static const char *const schedules[] = {"constant", "cosine", "linear", "step"};
    static const char *const losses[] = {"kd", "mse", "cosine", "auto"};
    static const char *const orders[] = {"shuffled", "file"};
    static const char *const precisions[] = {"f32", "f64"};
    static const char *const halves[] = {NULL, "bf16", "fp16"};
    struct vc_fraction width;

    vc_json_begin(json, "options", '{', true);
    vc_json_string(json, "optimizer", optimizers[o->optimizer.kind]);
    vc_json_real(json, "lr", o->optimizer.lr);
    vc_json_string(json, "schedule", schedules[o->schedule.kind]);
    vc_json_uint(json, "warmup", o->schedule.warmup);
    vc_json_real(json, "clip", o->optimizer.clip);
    vc_json_line(json);
    vc_json_string(json, "loss", losses[o->loss.kind]);
    vc_json_string(json, "classes", o->loss.classes == VC_CLASSES_COMMON ? "common" : "same");
    vc_json_real(json, "temperature", o->loss.temperature);
    vc_json_real(json, "alpha", o->loss.alpha);
    vc_json_uint(json, "seed", o->training.seed);
    vc_json_string(json, "order", orders[o->training.order]);
    vc_json_string(json, "precision",
                   o->precision.half != VC_HALF_NONE ? halves[o->precision.half] : precisions[o->precision.kind]);
    vc_json_line(json);
    vc_json_bool(json, "keep_sparsity", o->sparsity.keep);
    vc_json_bool(json, "refill", o->sparsity.refill);
    vc_json_bool(json, "frozen_norm", o->trained.frozen_norm);
    vc_json_bool(json, "allow_tied", o->trained.allow_tied);
    vc_json_bool(json, "recalibrate_bn", o->task == VC_TASK_RECALIBRATE);
    vc_json_bool(json, "dry_run", o->dry_run);
    vc_json_real(json, "width",
                 o->derive.width != NULL && vc_fraction_parse(o->derive.width, &width)
                     ? (double)width.n / (double)width.d
                     : (double)NAN);
    vc_json_string(json, "keep_layers", o->derive.keep_layers);
    vc_json_end(json, '}');
}

static void write_memory(struct vc_json *json, const struct vc_distillation *d)
{
    vc_json_begin(json, "memory", '{', true);
    vc_json_uint(json, "arena", d->arena_bytes);
    vc_json_uint(json, "least", d->least_bytes);
    vc_json_uint(json, "naive", d->naive_bytes);
    vc_json_uint(json, "weights", d->weight_bytes);
    vc_json_uint(json, "gradients", d->gradient_bytes);
    vc_json_uint(json, "states", d->state_bytes);
    vc_json_uint(json, "teacher", d->teacher_bytes);
    vc_json_uint(json, "copies", d->copy_bytes);
    vc_json_line(json);
    vc_json_uint(json, "planned", d->planned_bytes);
    vc_json_uint(json, "peak", d->peak_bytes);
    vc_json_uint(json, "evaluation", d->eval_bytes);
    vc_json_uint(json, "macs_again", d->macs_again);
    vc_json_uint(json, "macs_forward", d->macs_forward);
    vc_json_uint(json, "device_planned", d->device_planned_bytes);
    vc_json_uint(json, "device_peak", d->device_peak_bytes);
    vc_json_end(json, '}');
}

static void write_pruning(struct vc_json *json, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    vc_json_begin(json, "pruning", '{', true);
    vc_json_string(json, "sparsity", o->sparsity.prune->sparsity);
    vc_json_string(json, "scope", o->sparsity.prune->scope == VC_PRUNE_GLOBAL ? "global" : "tensor");
    vc_json_uint(json, "first", d->prune_first);
    vc_json_uint(json, "last", d->prune_last);
    vc_json_uint(json, "every", d->prune_every);
    vc_json_uint(json, "weights", d->prune_weights);
    vc_json_uint_if(json, "zeros_before", !o->dry_run, d->prune_begin);
    vc_json_uint_if(json, "zeros_after", !o->dry_run, d->prune_end);
    vc_json_end(json, '}');
}

static void write_matches(struct vc_json *json, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    static const char *const kinds[] = {"mse", "attention", "cosine"};

    vc_json_begin(json, "matches", '[', false);
    for (size_t k = 0; k < d->n_matches; k++) {
        const struct vc_match *m = &o->loss.matches[k];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "teacher", m->teacher);
        vc_json_string(json, "student", m->student);
        vc_json_string(json, "kind", kinds[m->kind]);
        vc_json_real(json, "weight", m->weight);
        vc_json_bool(json, "projected", d->matches[k].projected);
        vc_json_real(json, "first", d->matches[k].first);
        vc_json_real(json, "last", d->matches[k].last);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

/* Tensors that came with zeros. */
static void write_zeros(struct vc_json *json, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    vc_json_begin(json, "zeros", '[', false);
    for (size_t k = 0; k < d->n_zeros; k++) {
        const struct vc_distill_zeros *z = &d->zeros[k];

        vc_json_begin(json, NULL, '{', true);
        vc_json_string(json, "tensor", z->name);
        vc_json_uint(json, "weights", z->n);
        vc_json_uint(json, "before", z->before);
        vc_json_uint_if(json, "after", !o->dry_run, z->after);
        vc_json_bool(json, "kept", z->kept);
        vc_json_end(json, '}');
    }
    vc_json_end(json, ']');
}

static void write_run(struct vc_json *json, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    vc_json_begin(json, "run", '{', true);
    vc_json_uint(json, "rows", d->n_rows);
    vc_json_uint(json, "steps", d->n_steps);
    vc_json_real(json, "epochs", d->epochs);
    vc_json_uint(json, "batch", d->batch);
    vc_json_uint(json, "accum", d->accum);
    vc_json_uint(json, "ranks", vc_ranks_size(o->parallel.ranks));
    if (d->all_reduce != NULL) {
        vc_json_string(json, "all_reduce", d->all_reduce);
    }
    vc_json_uint(json, "tensors", d->n_tensors);
    vc_json_uint(json, "weights", d->n_weights);
    vc_json_uint(json, "masked", d->n_masked);
    if (d->note != NULL) {
        vc_json_string(json, "note", d->note);
    }
    if (d->unscaled != NULL) {
        vc_json_string(json, "unscaled", d->unscaled);
    }
    if (d->heads_kept != NULL) {
        vc_json_string(json, "heads_kept", d->heads_kept);
    }
    vc_json_uint(json, "frozen", d->n_frozen);
    vc_json_uint(json, "unread", d->n_unread);
    vc_json_string(json, "answers", vc_answer_kind_name(d->answers));
    vc_json_line(json);
    vc_json_real(json, "first_loss", o->dry_run ? (double)NAN : d->first_loss);
    vc_json_real(json, "last_loss", o->dry_run ? (double)NAN : d->last_loss);
    vc_json_real(json, "teacher_accuracy", d->teacher_accuracy);
    vc_json_real(json, "kd_gradient", d->kd_gradient);
    vc_json_real(json, "ce_gradient", d->ce_gradient);
    vc_json_real(json, "seconds", d->seconds);
    vc_json_uint(json, "resumed", d->resumed);
    vc_json_uint(json, "unsaved_checkpoints", d->n_unsaved);
    if (o->precision.half == VC_HALF_F16) {
        vc_json_uint(json, "skipped_steps", d->n_skipped);
        vc_json_real(json, "loss_scale", d->loss_scale);
    }
    vc_json_end(json, '}');
    if (d->fake_quant != NULL) {
        vc_json_begin(json, "grid", '{', true);
        vc_json_string(json, "scheme", d->fake_quant);
        vc_json_uint(json, "tensors", d->n_fake_quant_tensors);
        vc_json_uint(json, "weights", d->n_fake_quant_weights);
        vc_json_uint(json, "bytes", d->fake_quant_bytes);
        if (o->precision.learn_scales) {
            vc_json_real(json, "share", d->fake_quant_share);
        }
        vc_json_end(json, '}');
    }
    if (d->n_zeros != 0) {
        write_zeros(json, o, d);
    }
    if (d->prune_weights != 0) {
        write_pruning(json, o, d);
    }
    if (d->n_matches != 0) {
        write_matches(json, o, d);
    }
}

static void write_eval(struct vc_json *json, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    if (!d->evaluated) {
        vc_json_null(json, "eval");
        return;
    }
    vc_json_begin(json, "eval", '{', false);
    if (o->teacher.graph != NULL || o->eval.n_logits != 0) {
        vc_write_quality(json, "teacher", &d->teacher);
    } else {
        vc_json_null(json, "teacher");
    }
    vc_write_quality(json, "before", &d->before);
    vc_write_quality(json, "after", &d->after);
    if (d->has_control) {
        vc_write_quality(json, "control", &d->control);
        vc_json_real(json, "gain", d->gain);
        vc_json_real(json, "gain_error", d->gain_error);
    } else {
        vc_json_null(json, "control");
        vc_json_string(json, "control_reason", d->control_reason);
    }
    if (d->best_step != 0) {
        write_steps(json, d);
    }
    vc_json_end(json, '}');
}

void vc_write_distill_files(struct vc_json *json, const struct vc_distill_options *o, const char *output)
{
    vc_json_string(json, "student", vc_model_path(o->student.weights));
    vc_json_string(json, "teacher",
                   o->teacher.weights != NULL ? vc_model_path(o->teacher.weights)
                   : o->n_logits != 0         ? vc_model_path(o->logits[0])
                                              : NULL);
    if (o->n_logits != 0) {
        vc_json_begin(json, "teacher_files", '[', true);
        for (size_t k = 0; k < o->n_logits; k++) {
            vc_json_string(json, NULL, vc_model_path(o->logits[k]));
        }
        vc_json_end(json, ']');
    }
    vc_json_string(json, "data", o->data->path);
    vc_json_string(json, "output", output);
}

void vc_write_distill_part(struct vc_json *json, const struct vc_distill_options *o, const struct vc_distillation *d)
{
    vc_json_string(json, "teacher_sha256", d->teacher_sha256);
    vc_json_string(json, "data_sha256", d->data_sha256);
    write_options(json, o);
    write_run(json, o, d);
    write_memory(json, d);
    write_eval(json, o, d);
    vc_json_string(json, "missed", d->missed);
}

enum vc_status vc_distill_json(struct vc_ctx *ctx, const struct vc_distill_options *o, const struct vc_distillation *d,
                               char **text)
{
    struct vc_text out;
    struct vc_json json;

    vc_clear_error(ctx);
    vc_json_open(&json, &out, ctx, '{', "vcompress.distill/1");
    vc_json_string(&json, "version", vc_version());
    vc_write_distill_files(&json, o, d->written != NULL && o->write != NULL ? o->write->path : NULL);
    vc_write_distill_part(&json, o, d);
    vc_json_end(&json, '}');
    return vc_json_finish(&json, text);
}
