/* json_member.h - where a member lies in the text of a JSON object, so that it can be changed and the rest left alone.
 *
 * The text is valid JSON (jansson has read it) and its top is an object; members are counted as jansson lists them. */
#pragma once

#include "core/text/text.h"

/* Positions in the text, each behind or at what its name says. */
struct json_member {
    size_t key;    /* the quote that begins its name */
    size_t value;  /* the first byte of its value */
    size_t end;    /* behind its value */
    size_t before; /* behind the value of the member before it; behind the '{' for the first */
    size_t next;   /* the quote of the next one; for the last, its `end` */
};

/* Member number `index` of the object. False when it has no such member: then `before` is where one could be added. */
bool vc_json_member_find(const char *text, size_t n, size_t index, struct json_member *out);

/* Adds the text to `out` with member `index` replaced by `value` (its name stays), or without it where value is NULL.
 */
void vc_json_member_replace(const char *text, size_t n, size_t index, const char *value, struct vc_text *out);

/* Adds the text to `out` with a new last member: "name": value, indented by two. */
void vc_json_member_append(const char *text, size_t n, const char *name, const char *value, struct vc_text *out);

/* Of the text of a JSON list: adds it to `out` without the elements of these numbers (from 0 on, rising), each with
 * what stands between it and the one before it. */
void vc_json_list_drop(const char *text, size_t n, const uint64_t *numbers, size_t n_numbers, struct vc_text *out);
