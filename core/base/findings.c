/* findings.c - see findings.h. */
#include "core/base/findings.h"
#include "core/base/array.h"

void vc_findings_release(struct vc_ctx *ctx, struct vc_findings *findings)
{
    VC_FREE_ALL(ctx, findings->list, (void *)findings->names);
    vc_hash_release(ctx, &findings->by_name);
    vc_arena_release(ctx, &findings->arena);
    memset(findings, 0, sizeof *findings);
}

/* ---- names ---- */

/* A name in two pieces: "front/name"; front NULL: the name alone. */
struct key {
    const struct vc_findings *findings;
    const char *front, *name;
};

/* Character by character, so that a name in two pieces has the hash of the whole. */
static uint64_t hash_on(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = vc_hash_mix(hash, (unsigned char)*text);
    }
    return hash;
}

static uint64_t hash_of_key(const struct key *key)
{
    uint64_t hash = vc_hash_seed();

    return hash_on(key->front != NULL ? hash_on(hash_on(hash, key->front), "/") : hash, key->name);
}

static uint64_t hash_of(const void *findings, size_t number)
{
    return hash_on(vc_hash_seed(), ((const struct vc_findings *)findings)->names[number]);
}

static bool is_same(const void *user, size_t number)
{
    const struct key *key = user;
    const char *there = key->findings->names[number];
    size_t n = key->front != NULL ? strlen(key->front) : 0;

    return key->front == NULL
               ? strcmp(there, key->name) == 0
               : strncmp(there, key->front, n) == 0 && there[n] == '/' && strcmp(there + n + 1, key->name) == 0;
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
    const struct key key = {findings, NULL, name};

    *out = "";
    VC_CALL_ALLOC(name);
    if (name[0] == '\0') {
        return VC_OK;
    }
    size_t at = vc_hash_find(&findings->by_name, hash_of_key(&key), is_same, &key);
    if (at == SIZE_MAX) {
        at = findings->n_names;
        VC_CALL(VC_GROW(ctx, VC_TAG_REPORT, findings->names, findings->names_capacity, at + 1));
        VC_CALL(vc_hash_grow(ctx, &findings->by_name, at, hash_of, findings));
        VC_CALL_ALLOC(findings->names[at] = vc_arena_printf(ctx, &findings->arena, "%s", name));
        vc_hash_add(&findings->by_name, hash_of_key(&key), at);
        findings->n_names++;
    }
    *out = findings->names[at];
    return VC_OK;
}

bool vc_findings_has(const struct vc_findings *findings, const char *tensor)
{
    const struct key key = {findings, findings->part, tensor};

    return vc_hash_find(&findings->by_name, hash_of_key(&key), is_same, &key) != SIZE_MAX;
}

/* ---- findings ---- */

/* Counts it and remembers its name; *room: it is to be listed, too. */
static enum vc_status count(struct vc_ctx *ctx, enum vc_severity severity, const char *tensor, const char **name,
                            bool *room)
{
    struct vc_findings *findings = ctx->findings;

    VC_CALL(keep_name(ctx, findings, tensor, name));
    findings->n_errors += severity == VC_SEVERITY_ERROR;
    findings->n_warnings += severity == VC_SEVERITY_WARNING;
    *room = findings->n < VC_MAX_FINDINGS;
    return VC_OK;
}

/* name: kept; sentence: the arena's, or NULL when there was no memory for it. */
static enum vc_status add(struct vc_ctx *ctx, enum vc_severity severity, const char *id, const char *name,
                          const char *sentence)
{
    struct vc_findings *findings = ctx->findings;

    VC_CALL_ALLOC(sentence);
    VC_CALL(VC_GROW(ctx, VC_TAG_REPORT, findings->list, findings->capacity, findings->n + 1));
    findings->list[findings->n++] = (struct vc_finding){severity, id, name, sentence};
    return VC_OK;
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
    VC_CALL(count(ctx, VC_SEVERITY_ERROR, tensor, &name, &room));
    if (room) {
        VC_CALL(add(ctx, VC_SEVERITY_ERROR, id, name,
                    vc_arena_printf(ctx, &ctx->findings->arena, "%s", after_name(message, tensor))));
    }
    return VC_OK;
}

enum vc_status vc_collect_missing(struct vc_ctx *ctx, enum vc_status status, const char *id, const char *tensor)
{
    return vc_collect(ctx, vc_collecting(ctx) && status == VC_E_IO ? VC_E_FORMAT : status, id, tensor);
}

enum vc_status vc_find(struct vc_ctx *ctx, enum vc_severity severity, const char *id, const char *tensor,
                       const char *format, ...)
{
    const char *name;
    bool room = false;
    va_list args;

    if (!vc_collecting(ctx) || ctx->findings->muted) {
        return VC_OK;
    }
    VC_CALL(count(ctx, severity, tensor, &name, &room));
    if (!room) {
        return VC_OK;
    }
    va_start(args, format);
    const char *sentence = vc_arena_vprintf(ctx, &ctx->findings->arena, format, args);
    va_end(args);
    return add(ctx, severity, id, name, sentence);
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
