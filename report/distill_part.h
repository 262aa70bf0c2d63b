/* distill_part.h - what a distillation did, as members of an object: of its own document (distill_json.c), and of the
 * report of a job that trains (report_json.c). */
#ifndef VC_REPORT_DISTILL_PART_H
#define VC_REPORT_DISTILL_PART_H

#include <vcompress/distill.h>

#include "core/text/json_write.h"

/* "student", "teacher", "data", "output": by their paths; the output may be NULL. */
void vc_write_distill_files(struct vc_json *json, const struct vc_distill_options *o, const char *output);
/* An object of its figures. */
void vc_write_quality(struct vc_json *json, const char *key, const struct vc_quality *q);
/* "options", "run", "memory", "eval", "missed" */
void vc_write_distill_part(struct vc_json *json, const struct vc_distill_options *o, const struct vc_distillation *d);

#endif
