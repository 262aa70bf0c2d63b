/* safetensors_entry.h - members of a safetensors header as writers make them, read without a tree. */
#pragma once

#include <vcompress/model.h>

/* What such a member says; strings point into the text and end with their lengths. */
struct safetensors_plain_entry {
    const char *name, *dtype;
    size_t n_name, n_dtype;
    size_t n_dims;
    uint64_t shape[VC_MAX_DIMS];
    uint64_t ends[2]; /* data_offsets */
};

/* Reads the member behind the bracket or comma at `at` of a header of n bytes; *end: the comma behind it, or n. False:
 * it looks different in any way, or is wrong; nothing is known then, and a JSON parser has to look at it. */
bool vc_safetensors_plain_entry(const char *text, size_t n, size_t at, struct safetensors_plain_entry *out,
                                size_t *end);
