/* rest.h - the rest of a model: f32 and f64 tensors that the pass leaves as they are (embeddings, heads, norms, biases,
 * small ones), which --rest casts, too. */
#pragma once

#include "quantize/schemes/schemes.h"

/* The row that options->rest asks for, "fp16" or "bf16"; NULL in *row for "keep". VC_E_ARGUMENT for another word. */
enum vc_status vc_rest_choose(struct vc_ctx *ctx, const struct vc_quantize_options *options,
                              const struct vc_scheme_row **row);

/* Whether a cast of the rest takes the item, which the pass has no steps for and no rule of the user excludes. */
bool vc_rest_takes(const struct vc_item *item, const char *skip);

/* Adds the cast. Its reason in the report is that of the item: "the rest: embedding". Nobody has asked for that tensor
 * by name, so one with values that do not fit, such as a mask of -3.4e38, stays as it is: its values are looked at. */
enum vc_status vc_rest_add(struct vc_ctx *ctx, struct vc_item *item, const struct vc_scheme_row *row,
                           const struct vc_quantize_options *options);

/* What the pass leaves: what casts of the rest would save, and with --rest the tensors that have the other type of two
 * bytes. */
struct vc_rest_left {
    uint64_t saved_bytes, half_bytes;
    size_t n_half;
};

/* A note on what a cast of the rest would save, where that is more than a tenth of the output, or behind a cast (a row
 * without codes) a fiftieth, from the items as they are planned; NULL in *note where it is less. In the arena. */
enum vc_status vc_rest_note(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_plan *plan,
                            const struct vc_rest_left *left, const struct vc_scheme_row *scheme, const char **note);
/* The same on the tensors that --rest (`word`) leaves because they have two bytes already, where they are more than a
 * tenth. */
enum vc_status vc_rest_note_half(struct vc_ctx *ctx, struct vc_arena *arena, const struct vc_plan *plan,
                                 const struct vc_rest_left *left, const char *word, const char **note);
