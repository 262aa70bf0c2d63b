/* formats_test.h - what every test of a reader asks: good files open, bad ones are refused with one sentence that says
 * the right thing. */
#pragma once

#include "model_walk.h"
#include "support.h"
#include "zip_builder.h"

static inline void expect_good(const char *what, const void *data, size_t n)
{
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = walk_bytes(ctx, data, n, NULL);

    if (status != VC_OK) {
        fail_msg("%s: refused: %s", what, vc_ctx_message(ctx));
    }
    test_ctx_done(ctx);
}

/* Refused as damaged or unsupported, with one line that has `needle` in it. */
static inline void expect_bad(const char *what, const void *data, size_t n, const char *needle)
{
    struct vc_ctx *ctx = test_ctx();
    enum vc_status status = walk_bytes(ctx, data, n, NULL);
    const char *message = vc_ctx_message(ctx);

    if (status != VC_E_FORMAT && status != VC_E_UNSUPPORTED) {
        fail_msg("%s: status %s, not refused: %s", what, vc_status_name(status), message);
    }
    if (strstr(message, needle) == NULL || strchr(message, '\n') != NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\" in one line", what, message, needle);
    }
    test_ctx_done(ctx);
}

/* Either answer is fine, a crash is not; what is refused has a sentence. */
static inline void expect_calm(struct vc_ctx *ctx, const void *data, size_t n)
{
    enum vc_status status = walk_bytes(ctx, data, n, NULL);

    assert_true(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED);
    assert_true((status == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'));
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
}
