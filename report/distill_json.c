/* distill_json.c - the report of a distillation as JSON, schema vcompress.distill/1; its members are in distill.inc and training.inc. */
#include <math.h>

#include "core/values/fraction.h"
#include "report/document_json.h"
#include "report/document_parts.h"

/* The share as a double: "1/3" is a fraction of two integers until here. */
double vc_student_width(const struct vc_distill_options *o)
{
    struct vc_fraction width;

    if (o->derive.width == NULL || !vc_fraction_parse(o->derive.width, &width)) {
        return (double)NAN;
    }
    return (double)width.n / (double)width.d;
}

/* The first file of answers stands for all (teacher_files has the others). */
const char *vc_teacher_path(const struct vc_distill_options *o)
{
    if (o->teacher.weights != NULL) {
        return vc_model_facts(o->teacher.weights)->path;
    }
    return o->n_logits != 0 ? vc_model_facts(o->logits[0])->path : NULL;
}

#define TRAINING
#include "report/rows_write.inc"

#include "report/quality.inc"

#include "report/distill.inc"

enum vc_status vc_write_distill(struct vc_ctx *ctx, const struct vc_document *d, char **text)
{
    const struct vc_distillation *r = d->of;
    const struct vc_distill_options *o = r->options;

    return document_distill(ctx, text, o, r, r->written != NULL && o->write != NULL ? o->write->path : NULL);
}
