/* fuzz_pickle.c - any bytes as a pickle: the machine must not crash, leak or hang, and must give a sentence with every
 * failure. Good ones are described, which walks over every node once more. */
#include <stdio.h>
#include <stdlib.h>

#include "formats/torch/pickle.h"
#include "fuzz_target.h"

static void promise(bool kept, const char *what, const struct vc_ctx *ctx)
{
    if (!kept) {
        fprintf(stderr, "broken promise: %s (%s)\n", what, vc_ctx_message(ctx));
        abort();
    }
}

/* Items are as many as the node says, and none is missing. */
static void count_items(const struct vc_pickle_node *node, const struct vc_ctx *ctx)
{
    struct vc_pickle_iter iter = vc_pickle_iterate(node);
    size_t n = 0;

    while (vc_pickle_next(&iter) != NULL) {
        n++;
    }
    promise(n == node->n_items, "the number of items", ctx);
    promise(!node->busy, "nodes start unmarked", ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vc_ctx *ctx = fuzz_ctx();
    struct vc_pickle pickle;
    bool cut = false;
    enum vc_status status;

    vc_clear_error(ctx);
    status = vc_pickle_parse(ctx, data, n, &pickle, &cut);
    promise(status == VC_OK || status == VC_E_FORMAT || status == VC_E_UNSUPPORTED || status == VC_E_NOMEM,
            vc_status_name(status), ctx);
    promise((status == VC_OK) == (vc_ctx_message(ctx)[0] == '\0'), "a sentence with every failure", ctx);
    promise(!cut || status == VC_E_FORMAT, "cut is a failure", ctx);
    if (status == VC_OK) {
        promise(pickle.n_bytes <= n && pickle.n_opcodes <= n, "no more opcodes than bytes", ctx);
        count_items(pickle.root, ctx);
    }
    vc_pickle_release(ctx, &pickle);
    promise(fuzz_in_use() == 0, "all memory is given back", ctx);
    return 0;
}
