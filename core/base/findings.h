/* findings.h - how a reader that refuses the first violation lists all of them instead.
 *
 * The checks are the reader's own. While ctx->findings is set (by vc_verify), it hands each refusal that it can survive
 * to vc_collect: VC_OK means that it was noted, and the reader goes on without the tensor, member or entry. Otherwise
 * vc_collect passes the failure on unchanged. */
#pragma once

#include <vcompress/verify.h>

#include "core/base/arena.h"
#include "core/base/hash_table.h"

struct vc_findings {
    struct vc_arena arena; /* of the strings */
    struct vc_finding *list;
    size_t n, capacity;
    size_t n_errors, n_warnings;
    const char **names; /* that something was found about, those beyond VC_MAX_FINDINGS too */
    size_t n_names, names_capacity;
    struct vc_hash_table by_name;
    const char *part; /* the model of a pipeline that is being looked at, in front of names; NULL: none */
    bool muted;       /* a second walk over what was reported already */
};

void vc_findings_release(struct vc_ctx *ctx, struct vc_findings *findings);

static inline bool vc_collecting(const struct vc_ctx *ctx)
{
    return ctx->findings != NULL;
}

/* Notes the failure that is set in ctx, an error with that id, and clears it: VC_OK. Failures that are not about the
 * file's content, and all of them when nobody collects, are returned as they are. tensor may be NULL; what the sentence
 * says before "<tensor>: " is left out. */
enum vc_status vc_collect(struct vc_ctx *ctx, enum vc_status status, const char *id, const char *tensor);

/* The same where a file of several is missing or cannot be opened: VC_E_IO counts as well. */
enum vc_status vc_collect_missing(struct vc_ctx *ctx, enum vc_status status, const char *id, const char *tensor);

/* Notes what no reader refuses. VC_OK, also when nobody collects. */
enum vc_status vc_find(struct vc_ctx *ctx, enum vc_severity severity, const char *id, const char *tensor,
                       const char *format, ...) VC_PRINTF(5, 6);

/* Between these, findings are dropped. */
void vc_findings_mute(struct vc_ctx *ctx, bool muted);

/* Between this and a call with NULL, names of tensors and files are those of a model in a pipeline: "part/name". */
void vc_findings_about(struct vc_ctx *ctx, const char *part);

/* Something was found about the tensor already. Takes the same time however much was found. */
bool vc_findings_has(const struct vc_findings *findings, const char *tensor);
