/* findings.c - see findings.h. */
#include "core/findings.h"

#include <string.h>

void vc_findings_release(struct vc_ctx *ctx, struct vc_findings *findings)
{
    vc_free(ctx, findings->list);
    vc_arena_release(ctx, &findings->arena);
    memset(findings, 0, sizeof *findings);
}

static enum vc_status grow(struct vc_ctx *ctx, struct vc_findings *findings)
{
    size_t capacity = findings->capacity == 0 ? 16 : 2 * findings->capacity;
    struct vc_finding *list;

    if (findings->n < findings->capacity) {
        return VC_OK;
    }
    list = vc_alloc_array(ctx, VC_TAG_REPORT, capacity, sizeof *list);
    if (list == NULL) {
        return VC_E_NOMEM;
    }
    if (findings->n != 0) {
        memcpy(list, findings->list, findings->n * sizeof *list);
    }
    vc_free(ctx, findings->list);
    findings->list = list;
    findings->capacity = capacity;
    return VC_OK;
}

/* sentence: the arena's, or NULL when there was no memory for it. */
static enum vc_status add(struct vc_ctx *ctx, enum vc_severity severity, const char *id, const char *tensor,
                          const char *sentence)
{
    struct vc_findings *findings = ctx->findings;
    const char *name = tensor == NULL ? "" : vc_arena_printf(ctx, &findings->arena, "%s", tensor);
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(name);
    VC_TRY_ALLOC(sentence);
    VC_TRY(grow(ctx, findings));
    findings->list[findings->n++] = (struct vc_finding){severity, id, name, sentence};
out:
    return status;
}

/* Counts; true when there is room for it. */
static bool counted(struct vc_findings *findings, enum vc_severity severity)
{
    findings->n_errors += severity == VC_SEVERITY_ERROR;
    findings->n_warnings += severity == VC_SEVERITY_WARNING;
    return findings->n < VC_MAX_FINDINGS;
}

/* "path: name: what is wrong" without what the finding says elsewhere. */
static const char *after_name(const char *sentence, const char *tensor)
{
    size_t n = tensor == NULL ? 0 : strlen(tensor);
    const char *at = n == 0 ? NULL : strstr(sentence, tensor);

    return at != NULL && at[n] == ':' && at[n + 1] == ' ' ? at + n + 2 : sentence;
}

enum vc_status vc_collect(struct vc_ctx *ctx, enum vc_status status, const char *id, const char *tensor)
{
    char message[VC_MESSAGE_BYTES];

    if ((status != VC_E_FORMAT && status != VC_E_UNSUPPORTED) || !vc_collecting(ctx)) {
        return status;
    }
    memcpy(message, ctx->message, sizeof message);
    vc_clear_error(ctx);
    if (ctx->findings->muted || !counted(ctx->findings, VC_SEVERITY_ERROR)) {
        return VC_OK;
    }
    return add(ctx, VC_SEVERITY_ERROR, id, tensor,
               vc_arena_printf(ctx, &ctx->findings->arena, "%s", after_name(message, tensor)));
}

enum vc_status vc_collect_missing(struct vc_ctx *ctx, enum vc_status status, const char *id, const char *tensor)
{
    return vc_collect(ctx, vc_collecting(ctx) && status == VC_E_IO ? VC_E_FORMAT : status, id, tensor);
}

enum vc_status vc_find(struct vc_ctx *ctx, enum vc_severity severity, const char *id, const char *tensor,
                       const char *format, ...)
{
    const char *sentence;
    va_list args;

    if (!vc_collecting(ctx) || ctx->findings->muted || !counted(ctx->findings, severity)) {
        return VC_OK;
    }
    va_start(args, format);
    sentence = vc_arena_vprintf(ctx, &ctx->findings->arena, format, args);
    va_end(args);
    return add(ctx, severity, id, tensor, sentence);
}

void vc_findings_mute(struct vc_ctx *ctx, bool muted)
{
    if (vc_collecting(ctx)) {
        ctx->findings->muted = muted;
    }
}

bool vc_findings_has(const struct vc_findings *findings, const char *tensor)
{
    size_t i = 0;

    while (i < findings->n && strcmp(findings->list[i].tensor, tensor) != 0) {
        i++;
    }
    return i < findings->n;
}
