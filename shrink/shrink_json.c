/* shrink_json.c - the result of a search as JSON: vcompress.shrink/1 (shrink-1.schema.json). */
#include <math.h>

#include "core/text/json_write.h"
#include "shrink/shrink_inside.h"

static void write_lines(struct vc_json *json, const struct vc_shrink_candidate *c)
{
    vc_json_begin(json, "passes", '[', true);
    for (size_t k = 0; k < c->n_lines; k++) {
        vc_json_string(json, NULL, c->lines[k]);
    }
    vc_json_end(json, ']');
}

static void write_candidate(struct vc_json *json, const struct vc_shrinkage *r, const struct vc_shrink_candidate *c)
{
    vc_json_begin(json, NULL, '{', true);
    vc_json_string(json, "name", c->name);
    vc_json_known(json, "file_bytes", c->file_bytes);
    vc_json_known(json, "need_bytes", c->need_bytes);
    if (c->file_bytes == 0 && c->reason == NULL && r->limit_bytes != 0) {
        vc_json_null(json, "within");
    } else {
        vc_json_bool(json, "within", c->within);
    }
    vc_json_bool(json, "front", c->front);
    vc_json_bool(json, "deflate", c->deflate);
    vc_json_uint(json, "steps", c->steps);
    vc_json_line(json);
    vc_json_real(json, "error", c->error);
    vc_json_real(json, "loss", c->loss);
    vc_json_real(json, "divergence", c->kd);
    vc_json_real(json, "agreement", c->agreement);
    vc_json_real(json, "accuracy", c->accuracy);
    vc_json_real(json, "seconds", c->seconds);
    vc_json_string(json, "reason", c->reason);
    vc_json_line(json);
    write_lines(json, c);
    vc_json_end(json, '}');
}

static void write_quality(struct vc_json *json, const char *key, const struct vc_quality *q)
{
    vc_json_begin(json, key, '{', true);
    vc_json_uint(json, "labels", q->n_labels);
    vc_json_real(json, "accuracy", q->accuracy);
    vc_json_real(json, "agreement", q->agreement);
    vc_json_real(json, "divergence", q->kd);
    vc_json_uint(json, "targets", q->n_targets);
    vc_json_real(json, "squared_error", q->squared_error);
    vc_json_real(json, "r2", q->r2);
    vc_json_real(json, "teacher_r2", q->teacher_r2);
    vc_json_end(json, '}');
}

static void write_proof(struct vc_json *json, const struct vc_shrinkage *r)
{
    if (!r->proved) {
        vc_json_null(json, "proof");
        return;
    }
    vc_json_begin(json, "proof", '{', false);
    vc_json_uint(json, "output_bytes", r->output_bytes);
    vc_json_uint(json, "errors", r->n_errors);
    vc_json_uint(json, "warnings", r->n_warnings);
    vc_json_known(json, "need_bytes", r->fit.need_bytes);
    vc_json_string(json, "verdict", r->fit.need_bytes != 0 ? vc_fit_word(&r->fit) : NULL);
    vc_json_known(json, "rows", r->quality.n_rows);
    vc_json_real(json, "loss", r->loss);
    if (r->quality.n_rows != 0) {
        vc_json_string(json, "compared_by", vc_teacher_loss_measure(r->quality.loss));
        vc_json_string(json, "answers", vc_answer_kind_name(r->quality.answers));
        write_quality(json, "teacher", &r->teacher);
        write_quality(json, "output", &r->quality);
    }
    vc_json_end(json, '}');
}

static void write_limits(struct vc_json *json, const struct vc_shrinkage *r)
{
    const struct vc_shrink_options *o = r->options;

    vc_json_begin(json, "limits", '{', true);
    vc_json_known(json, "bytes", r->limit_bytes);
    vc_json_real(json, "max_loss", o->max_loss >= 0 ? o->max_loss : NAN);
    vc_json_string(json, "gpu", o->gpu != NULL ? o->gpu->name : NULL);
    vc_json_known(json, "visible_bytes", o->gpu != NULL ? vc_gpu_visible_bytes(o->gpu, NULL) : o->visible_bytes);
    vc_json_real(json, "seconds", o->seconds > 0 ? o->seconds : NAN);
    vc_json_end(json, '}');
}

enum vc_status vc_shrink_json(struct vc_ctx *ctx, const struct vc_shrinkage *r, char **text)
{
    struct vc_text document;
    struct vc_json json;

    vc_json_open(&json, &document, ctx, '{', "vcompress.shrink/1");
    vc_json_string(&json, "version", vc_version());
    vc_json_string(&json, "model", vc_model_path(r->options->model));
    vc_json_uint(&json, "input_bytes", r->input_bytes);
    vc_json_string(&json, "output", r->options->write->path);
    vc_json_bool(&json, "dry_run", r->options->write->dry_run);
    vc_json_bool(&json, "written", r->written);
    vc_json_bool(&json, "weights_only", r->weights_only);
    vc_json_bool(&json, "out_of_time", r->out_of_time);
    vc_json_string(&json, "note", r->note);
    vc_json_string(&json, "missed", r->missed);
    write_limits(&json, r);
    vc_json_uint_if(&json, "chosen", r->chosen != VC_NO_CANDIDATE, r->chosen);
    vc_json_begin(&json, "candidates", '[', r->n_candidates == 0);
    for (size_t k = 0; k < r->n_candidates; k++) {
        write_candidate(&json, r, &r->candidates[k]);
    }
    vc_json_end(&json, ']');
    write_proof(&json, r);
    vc_json_string(&json, "recipe", r->recipe);
    vc_json_real(&json, "seconds", r->seconds);
    vc_json_end(&json, '}');
    vc_text_add(&document, "\n");
    return vc_json_finish(&json, text);
}
