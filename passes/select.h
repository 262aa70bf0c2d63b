/* select.h - which tensors a pass works on, by the user's rules (--include, --exclude) and by what names say, and why
 * it leaves the others alone. Types and shapes are for the pass to judge. Strings in an arena live as long as that. */
#pragma once

#include <vcompress/quantize.h>

#include "core/chain/pass.h"

enum vc_choice {
    VC_CHOICE_DEFAULT, /* no rule speaks of it */
    VC_CHOICE_INCLUDE,
    VC_CHOICE_EXCLUDE
};

/* What the last matching rule says; *glob is that rule's, and unchanged where none matches. */
enum vc_choice vc_rules_choose(const struct vc_rule *rules, size_t n, const char *name, const char **glob);

#define VC_SKIP_QUANTIZED "quantized already" /* codes that cannot be decoded, and parts of these */

/* The reason why a tensor is kept by default: what the format states, else what its name says; NULL if it is not. */
const char *vc_keep_reason(const struct vc_tensor *own);

/* Its values have to stay as exact as they are, whatever type the rest gets: angles, masks, anchors, indices. */
bool vc_is_table(const struct vc_tensor *own);

/* The same as vc_keep_reason for pruning, of a tensor of the model, which leaves embeddings and output heads
 * alone, too, and what the reader wants kept. */
const char *vc_prune_skip(const struct vc_model *model, size_t tensor);

/* A deep copy of the rules in the arena, so that the caller's may go. */
enum vc_status vc_rules_copy(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_rule *rules, size_t n,
                             const struct vc_rule **out);

/* A sentence about rules whose glob matches no tensor at all (often a typo), in *note; NULL when there are none. */
enum vc_status vc_rules_unmatched(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_rule *rules, size_t n,
                                  const struct vc_model *model, const char **note);

/* One more note behind those of a pass: "a; b". more NULL if there is none. */
enum vc_status vc_note_add(struct vc_ctx *ctx, struct vc_arena *arena, const char *more, const char **note);

/* "+a*,-b*" for the recipe; "" without rules. */
const char *vc_rules_text(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_rule *rules, size_t n);

/* The tensor `name` with another end, "conv1.weight_mask" for "conv1.weight_orig"; VC_NO_TENSOR: `name` does not end in
 * `end`, or there is none. */
enum vc_status vc_find_beside(struct vc_ctx *ctx, const struct vc_model *model, const char *name, const char *end,
                              const char *other, size_t *found);
