/* consumer.c - a program of somebody else: opens a checkpoint and names its tensors. Also compiled as C++. */
#include <stdio.h>

#include <vcompress/vcompress.h>

int main(int argc, char **argv)
{
    struct vc_ctx *ctx = NULL;
    struct vc_model *model = NULL;
    struct vc_open_options open;
    int result = 1;

    vc_open_defaults(&open);
    open.void_as = VC_DTYPE_BF16;
    if (argc == 2 && vc_ctx_create(&ctx) == VC_OK && vc_model_open(ctx, argv[1], &open, &model) == VC_OK) {
        printf("vcompress %s: %u tensors\n", vc_version(), (unsigned)vc_model_facts(model)->n_tensors);
        result = 0;
    }
    vc_model_close(model);
    vc_ctx_free(ctx);
    return result;
}
