/* cut_onnx.c - the pass of cut_pass.h as a program, for tests in Python: cut_onnx IN OUT SCRIPT. */
#include "cut_pass.h"

#include <stdio.h>

#include <vcompress/experimental.h>

int main(int argc, char **argv)
{
    struct vc_ctx *ctx = NULL;
    enum vc_status status = argc == 4 ? vc_ctx_create(&ctx) : VC_E_ARGUMENT;

    if (status == VC_OK) {
        status = run_cut(ctx, argv[1], argv[2], NULL, argv[3]);
        if (status != VC_OK) {
            (void)fprintf(stderr, "%s: %s\n", vc_status_name(status), vc_ctx_message(ctx));
        }
    }
    vc_ctx_free(ctx);
    return status == VC_OK ? 0 : 1;
}
