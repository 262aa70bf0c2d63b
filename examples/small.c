/* small.c - the shortest program: a checkpoint in 8 bits by one call.
 *
 *     small IN OUT
 *
 * The same as `vcompress quantize --int8 IN -o OUT`, with one line for a report; an OUT that is there already stays. Of
 * digits/digits.npz:
 *
 *     646918 -> 176646 bytes, 42.6 dB
 *
 * shrink.c does the same by a job, which has more to say and to choose. Compiles as C11 and as C++17. */
#include <inttypes.h>
#include <stdio.h>

#include <vcompress/vcompress.h>

int main(int argc, char **argv)
{
    struct vc_ctx *ctx = NULL;
    struct vc_quantized result;

    if (argc != 3) {
        fprintf(stderr, "usage: small IN OUT\n");
        return 2;
    }
    enum vc_status status = vc_ctx_create(&ctx);
    if (status == VC_OK) {
        status = vc_quantize_file(ctx, argv[1], argv[2], NULL, &result);
    }
    if (status == VC_OK) {
        printf("%" PRIu64 " -> %" PRIu64 " bytes, %.1f dB\n", result.bytes_before, result.bytes_after, result.sqnr_db);
    } else {
        fprintf(stderr, "small: %s\n", ctx == NULL ? "no memory" : vc_ctx_message(ctx));
    }
    vc_ctx_free(ctx);
    return status == VC_OK ? 0 : 1;
}
