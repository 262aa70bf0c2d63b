/* support.c - see support.h. */
#include "support.h"

struct vc_ctx *test_ctx(void)
{
    struct vc_ctx *ctx = NULL;

    assert_int_equal(vc_ctx_create(&ctx), VC_OK);
    return ctx;
}

void test_ctx_done(struct vc_ctx *ctx)
{
    assert_int_equal(vc_pool_in_use(ctx->shared->pool), 0);
    vc_ctx_free(ctx);
}

void expect_says(const struct vc_ctx *ctx, const char *words)
{
    const char *message = vc_ctx_message(ctx);

    if (strstr(message, words) == NULL || strchr(message, '\n') != NULL) {
        fail_msg("\"%s\" does not say \"%s\" in one line", message, words);
    }
}
