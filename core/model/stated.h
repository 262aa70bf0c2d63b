/* stated.h - what a configuration states about the sizes of one part of a model, asked by passes that change one.
 * Beside vc_program_says, which asks about the whole. */
#pragma once

#include "core/model/program.h"

/* Whether an edit of that key, from that number, would be about a tensor of that name. False where no key states the
 * number; where the tensor is of a part that another object of config.json describes (vision_config); and where it
 * cannot be told which of several numbers is meant: its name tells no part and another object states the number, too,
 * or, of widths, a key does that nobody here knows ("intermediate_size_mlp"). */
enum vc_status vc_program_states(struct vc_ctx *ctx, const struct vc_program *program, enum vc_edit_key key,
                                 uint64_t number, const char *tensor, bool *states);

/* How many experts each token goes through beside those that are chosen for it; 0: nothing is said. */
enum vc_status vc_program_shared_experts(struct vc_ctx *ctx, const struct vc_program *program, uint64_t *n);
