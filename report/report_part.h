/* report_part.h - what the documents of a conversion and of inspect share (report_json.c). */
#ifndef VC_REPORT_REPORT_PART_H
#define VC_REPORT_REPORT_PART_H

#include <vcompress/report.h>

#include "core/text/json_write.h"

const char *vc_role_name(enum vc_role role); /* "weight" */
/* "layout": {"name": "plain", ...}, or null for NULL. */
void vc_write_layout(struct vc_json *json, const struct vc_layout *layout);

#endif
