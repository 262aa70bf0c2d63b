/* fuzz_npy.c - any bytes as an npy file, as fuzz_npz.c does for npz; also the header parser alone on every cut of its
 * input, because it promises to need no more than it is given. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "formats/npz/npy.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vc_npy_header header;

    fuzz_one(data, n, n > 0 && data[n - 1] & 1 ? VC_DTYPE_BF16 : VC_DTYPE_RAW);
    if (n > 0) {
        /* A copy of exactly this size, so that a read beyond it is seen. */
        size_t cut = n - data[n - 1] % n;
        unsigned char *copy = malloc(cut);

        if (copy != NULL) {
            struct vc_ctx *ctx = fuzz_ctx();

            memcpy(copy, data, cut);
            (void)vc_npy_parse(ctx, copy, cut, &header);
            free(copy);
        }
    }
    return 0;
}
