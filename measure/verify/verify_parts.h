/* verify_parts.h - what the parts of a verification share: the file (verify.c), its graph (verify_codes.c), its values
 * (verify_data.c, verify_pattern.c), and what it was made from (verify_against.c). */
#pragma once

#include "core/base/findings.h"
#include "core/model/source.h"

/* One verification. Rows are there only if values are read. */
struct verify {
    struct vc_verification result; /* first: what the caller sees */
    struct vc_ctx *ctx;
    struct vc_findings findings;
    struct vc_model *model;
    struct vc_model *source; /* NULL: none */
    struct vc_verify_row *rows;
    struct vc_verify_dtype dtypes[VC_DTYPE_COUNT];
    struct vc_verify_options options;
};

/* Reads every tensor: fills its row, notes what is wrong with it. */
enum vc_status vc_verify_data(struct vc_ctx *ctx, struct verify *v);

/* What a graph says of codes: their scales and zero points. */
enum vc_status vc_verify_codes(struct vc_ctx *ctx, struct verify *v);

/* Looks for the pattern options.pattern in every weight that prune would choose. VC_E_ARGUMENT if it is not one. */
enum vc_status vc_verify_pattern(struct vc_ctx *ctx, struct verify *v);

/* Compares every tensor with the source's. After verify_data. */
enum vc_status vc_verify_against(struct vc_ctx *ctx, struct verify *v);

/* For a worker that must not stop at a file's fault: takes the failure that is set, if it is about the content, into
 * *sentence (the pool's) and returns VC_OK; passes others on. */
enum vc_status vc_verify_take(struct vc_ctx *ctx, enum vc_status status, char **sentence);
