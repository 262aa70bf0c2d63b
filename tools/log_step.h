/* log_step.h - a step of distill, or an evaluation on the way, as a line of JSON: --log. */
#ifndef VC_TOOLS_LOG_STEP_H
#define VC_TOOLS_LOG_STEP_H

#include <stdio.h>

#include <vcompress/distill.h>

void log_step(FILE *to, const struct vc_distill_step *step);

#endif
