/* fail.c - the one error that a context holds: its status and its sentence. */
#include "core/base/ctx.h"

#include <errno.h>

const char *vc_option(const struct vc_ctx *ctx, const char *field)
{
    const char *name = ctx->shared->option_name != NULL ? ctx->shared->option_name(field) : NULL;

    return name != NULL ? name : field;
}

/* Sentences are one line, whatever names contain. */
static void clean(char *s)
{
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f) {
            *s = '?';
        }
    }
}

/* Sets the message to a text of any length. Of one that is too long the middle is left out: names come first and may
 * have any length, but what is wrong comes last. */
static void fit_message(struct vc_ctx *ctx, const char *text, size_t n)
{
    static const char gap[] = " ... ";
    size_t room = sizeof ctx->message - 1;
    size_t head = room / 4;
    size_t tail = room - head - (sizeof gap - 1);

    if (n <= room) {
        memcpy(ctx->message, text, n + 1);
        return;
    }
    while (head > 0 && ((unsigned char)text[head] & 0xc0) == 0x80) {
        head--; /* characters stay whole */
    }
    while (tail > 0 && ((unsigned char)text[n - tail] & 0xc0) == 0x80) {
        tail--;
    }
    memcpy(ctx->message, text, head);
    memcpy(ctx->message + head, gap, sizeof gap - 1);
    memcpy(ctx->message + head + sizeof gap - 1, text + n - tail, tail + 1);
}

static void VC_PRINTF(2, 0) set_message(struct vc_ctx *ctx, const char *format, va_list args)
{
    va_list again;

    va_copy(again, args);
    int n = vsnprintf(ctx->message, sizeof ctx->message, format, args);
    if (n >= (int)sizeof ctx->message) {
        char *whole = vc_pool_alloc(ctx->shared->pool, VC_TAG_NAMES, (size_t)n + 1);
        if (whole != NULL) {
            (void)vsnprintf(whole, (size_t)n + 1, format, again);
            fit_message(ctx, whole, (size_t)n);
            vc_pool_free(ctx->shared->pool, whole);
        } else { /* then the beginning has to do */
            (void)vsnprintf(ctx->message, sizeof ctx->message, format, again);
        }
    }
    va_end(again);
    clean(ctx->message);
}

enum vc_status vc_fail(struct vc_ctx *ctx, enum vc_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_message(ctx, format, args);
    va_end(args);
    ctx->status = status;
    return status;
}

enum vc_status vc_fail_errno(struct vc_ctx *ctx, int error_number, const char *format, ...)
{
    va_list args;
    char reason[128], text[VC_MESSAGE_BYTES + sizeof reason + 2];

    va_start(args, format);
    set_message(ctx, format, args);
    va_end(args);
    if (strerror_r(error_number, reason, sizeof reason) != 0) {
        (void)snprintf(reason, sizeof reason, "error %d", error_number);
    }
    fit_message(ctx, text, (size_t)snprintf(text, sizeof text, "%s: %s", ctx->message, reason));
    ctx->status = error_number == ENOMEM ? VC_E_NOMEM : VC_E_IO;
    return ctx->status;
}

enum vc_status vc_context(struct vc_ctx *ctx, const char *format, ...)
{
    char text[2 * VC_MESSAGE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, VC_MESSAGE_BYTES - 2, format, args);
    va_end(args);
    clean(text);
    size_t n = strlen(text);
    if (strncmp(ctx->message, text, n) == 0 && ctx->message[n] == ':') {
        return ctx->status; /* a room below has said it */
    }
    n += (size_t)snprintf(text + n, sizeof text - n, ": %s", ctx->message);
    fit_message(ctx, text, n);
    return ctx->status;
}

void vc_clear_error(struct vc_ctx *ctx)
{
    ctx->status = VC_OK;
    ctx->message[0] = '\0';
}

bool vc_is_refusal(enum vc_status status)
{
    return status == VC_E_ARGUMENT || status == VC_E_UNSUPPORTED || status == VC_E_FORMAT || status == VC_E_GATE;
}

enum vc_status vc_without_refusal(struct vc_ctx *ctx, enum vc_status status)
{
    VC_RETURN_IF(!vc_is_refusal(status), status);
    vc_clear_error(ctx);
    return VC_OK;
}
