/* document_parts.h - functions and words that rows of several documents need: of training.inc (distill_json.c), and the roles of tensors. */
#pragma once

#include <vcompress/distill.h>
#include <vcompress/report.h>

#include "report/document_rows.h"

/* For training.inc: the share of the teacher's units, NaN if the student has all; where the teacher is, or NULL. */
double vc_student_width(const struct vc_distill_options *o);
const char *vc_teacher_path(const struct vc_distill_options *o);

/* Names of the documents, "report", from index 0 on; NULL behind the last. */
const char *vc_schema_name(size_t index);

#define ROLES "weight|optimizer|other" /* of enum vc_role */
