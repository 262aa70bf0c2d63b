/* gptq.h - what reading and writing of GPTQ and AWQ share. */
#pragma once

#include "formats/dialects/search.h"

/* struct vc_dialect_file has what they do. */
bool vc_gptq_read_config(const struct json_t *config, struct vc_dialect_hint *out);
bool vc_awq_read_config(const struct json_t *config, struct vc_dialect_hint *out);
enum vc_status vc_gptq_find(struct vc_search *search, size_t tensor, bool *found);
enum vc_status vc_awq_find(struct vc_search *search, size_t tensor, bool *found);
