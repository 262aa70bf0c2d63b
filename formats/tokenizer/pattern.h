/* pattern.h - the regular expressions by which tokenizers cut texts: what the known ones are made of, no more.
 *
 *     a|b   (?:..)  (..)  (?i:..)  (?i)     * + ? {n,m}, lazy with ? behind, possessive with +; {n,m} is only greedy
 *     (?=..)  (?!..)  (?>..)  (?<=c)  (?<!c) with one character     ^ $ \A \z
 *     .  \s \S \d \D \w \W \h \r \n \t \f \v \0 \xHH \x{H} \uHHHH  \p{L} \P{N} \p{^L} \p{Han}  [..] [^..] [a-z&&[^b]]
 *
 * The order of tries is that of Oniguruma (backtracking, the first alternative that fits), which the library tokenizers
 * uses. A class of one character that is repeated is one instruction, so that long runs take no stack. */
#pragma once

#include "core/base/arena.h"

struct vc_pattern;

/* Memory of one search after the other: zeros at first, the pool's; vc_pattern_work_release. */
struct vc_pattern_work {
    struct vc_pattern_frame *frames;
    size_t n, capacity;
    uint64_t steps; /* of the search so far */
};

/* The expression in the arena. VC_E_UNSUPPORTED names the part that is not known. */
enum vc_status vc_pattern_compile(struct vc_ctx *ctx, struct vc_arena *arena, const char *text,
                                  struct vc_pattern **out);

/* The first match in s[from .. n) that is not empty; nothing before s or behind n is looked at. *begin == n if there is none.
 * The text is valid UTF-8. VC_E_UNSUPPORTED: it takes more steps than any text that the known expressions are for. */
enum vc_status vc_pattern_find(struct vc_ctx *ctx, const struct vc_pattern *pattern, struct vc_pattern_work *work,
                               const char *s, size_t n, size_t from, size_t *begin, size_t *end);
void vc_pattern_work_release(struct vc_ctx *ctx, struct vc_pattern_work *work);
