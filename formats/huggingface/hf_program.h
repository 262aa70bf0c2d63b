/* hf_program.h - the text of config.json as a program (core/model/program.h), for graph/. */
#pragma once

#include "core/model/program.h"

extern const struct vc_program_sizes vc_hf_program_sizes;

/* That of the folder of the model, or beside its file; VC_PROGRAM_NONE where there is none. */
enum vc_status vc_hf_program_beside(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                    struct vc_program *out);

/* Reads a config.json, or the one in a folder: VC_PROGRAM_CONFIG. */
enum vc_status vc_hf_program_read(struct vc_ctx *ctx, const char *path, struct vc_arena *arena, struct vc_program *out);
