/* findings.c - see findings.h. */
#include "core/base/findings.h"

#include <string.h>

void vc_findings_release(struct vc_ctx *ctx, struct vc_findings *findings)
{
    vc_free(ctx, findings->list);
    vc_free(ctx, (void *)findings->names);
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

/* ---- names ---- */

/* The hash of a text that follows the one whose hash is given. */
static uint64_t hash_on(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 1099511628211U;
    }
    return hash;
}

/* Where "front/name" is in the table, or would be; the table has a free place. front NULL: where the name is. */
static const char **place_of(const struct vc_findings *findings, const char *front, const char *name)
{
    size_t mask = findings->names_capacity - 1;
    size_t n = front != NULL ? strlen(front) + 1 : 0;
    uint64_t hash = 14695981039346656037U; /* FNV-1a */
    size_t at;

    hash = hash_on(front != NULL ? hash_on(hash_on(hash, front), "/") : hash, name);
    for (at = (size_t)(hash ^ hash >> 32) & mask; findings->names[at] != NULL; at = (at + 1) & mask) {
        const char *there = findings->names[at];

        if (n == 0 ? strcmp(there, name) == 0
                   : strncmp(there, front, n - 1) == 0 && there[n - 1] == '/' && strcmp(there + n, name) == 0) {
            break;
        }
    }
    return &findings->names[at];
}

/* At most half of the table is in use. */
static enum vc_status grow_names(struct vc_ctx *ctx, struct vc_findings *findings)
{
    struct vc_findings grown = {.names_capacity = findings->names_capacity == 0 ? 64 : 2 * findings->names_capacity};
    size_t i;

    if (findings->n_names < findings->names_capacity / 2) {
        return VC_OK;
    }
    grown.names = vc_calloc_array(ctx, VC_TAG_REPORT, grown.names_capacity, sizeof *grown.names);
    if (grown.names == NULL) {
        return VC_E_NOMEM;
    }
    for (i = 0; i < findings->names_capacity; i++) {
        if (findings->names[i] != NULL) {
            *place_of(&grown, NULL, findings->names[i]) = findings->names[i];
        }
    }
    vc_free(ctx, (void *)findings->names);
    findings->names = grown.names;
    findings->names_capacity = grown.names_capacity;
    return VC_OK;
}

/* "part/tensor", the part alone, the tensor alone, or "" for the file; a new string only where there are both. */
static const char *whole_name(struct vc_ctx *ctx, struct vc_findings *findings, const char *tensor)
{
    const char *name = tensor != NULL ? tensor : "";

    if (findings->part == NULL) {
        return name;
    }
    return name[0] == '\0' ? findings->part : vc_arena_printf(ctx, &findings->arena, "%s/%s", findings->part, name);
}

/* The findings' own copy of a name, once for all findings about it; "" for the file. */
static enum vc_status keep_name(struct vc_ctx *ctx, struct vc_findings *findings, const char *tensor, const char **out)
{
    const char *name = whole_name(ctx, findings, tensor);
    const char **place;
    enum vc_status status = VC_OK;

    *out = "";
    VC_TRY_ALLOC(name);
    if (name[0] == '\0') {
        return VC_OK;
    }
    VC_TRY(grow_names(ctx, findings));
    place = place_of(findings, NULL, name);
    if (*place == NULL) {
        *place = vc_arena_printf(ctx, &findings->arena, "%s", name);
        VC_TRY_ALLOC(*place);
        findings->n_names++;
    }
    *out = *place;
out:
    return status;
}

bool vc_findings_has(const struct vc_findings *findings, const char *tensor)
{
    return findings->n_names != 0 && *place_of(findings, findings->part, tensor) != NULL;
}

/* ---- findings ---- */

/* Counts it and remembers its name; *room: it is to be listed, too. */
static enum vc_status count(struct vc_ctx *ctx, enum vc_severity severity, const char *tensor, const char **name,
                            bool *room)
{
    struct vc_findings *findings = ctx->findings;
    enum vc_status status;

    VC_TRY(keep_name(ctx, findings, tensor, name));
    findings->n_errors += severity == VC_SEVERITY_ERROR;
    findings->n_warnings += severity == VC_SEVERITY_WARNING;
    *room = findings->n < VC_MAX_FINDINGS;
out:
    return status;
}

/* name: kept; sentence: the arena's, or NULL when there was no memory for it. */
static enum vc_status add(struct vc_ctx *ctx, enum vc_severity severity, const char *id, const char *name,
                          const char *sentence)
{
    struct vc_findings *findings = ctx->findings;
    enum vc_status status = VC_OK;

    VC_TRY_ALLOC(sentence);
    VC_TRY(grow(ctx, findings));
    findings->list[findings->n++] = (struct vc_finding){severity, id, name, sentence};
out:
    return status;
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
    const char *name;
    bool room = false;

    if ((status != VC_E_FORMAT && status != VC_E_UNSUPPORTED) || !vc_collecting(ctx)) {
        return status;
    }
    memcpy(message, ctx->message, sizeof message);
    vc_clear_error(ctx);
    if (ctx->findings->muted) {
        return VC_OK;
    }
    VC_TRY(count(ctx, VC_SEVERITY_ERROR, tensor, &name, &room));
    if (room) {
        VC_TRY(add(ctx, VC_SEVERITY_ERROR, id, name,
                   vc_arena_printf(ctx, &ctx->findings->arena, "%s", after_name(message, tensor))));
    }
out:
    return status;
}

enum vc_status vc_collect_missing(struct vc_ctx *ctx, enum vc_status status, const char *id, const char *tensor)
{
    return vc_collect(ctx, vc_collecting(ctx) && status == VC_E_IO ? VC_E_FORMAT : status, id, tensor);
}

enum vc_status vc_find(struct vc_ctx *ctx, enum vc_severity severity, const char *id, const char *tensor,
                       const char *format, ...)
{
    enum vc_status status = VC_OK;
    const char *sentence;
    const char *name;
    bool room = false;
    va_list args;

    if (!vc_collecting(ctx) || ctx->findings->muted) {
        return VC_OK;
    }
    VC_TRY(count(ctx, severity, tensor, &name, &room));
    if (!room) {
        return VC_OK;
    }
    va_start(args, format);
    sentence = vc_arena_vprintf(ctx, &ctx->findings->arena, format, args);
    va_end(args);
    VC_TRY(add(ctx, severity, id, name, sentence));
out:
    return status;
}

void vc_findings_about(struct vc_ctx *ctx, const char *part)
{
    if (vc_collecting(ctx)) {
        ctx->findings->part = part;
    }
}

void vc_findings_mute(struct vc_ctx *ctx, bool muted)
{
    if (vc_collecting(ctx)) {
        ctx->findings->muted = muted;
    }
}
