/* fuzz_safetensors.c - any bytes as a safetensors file, as fuzz_npz.c does for npz. Inputs that do not begin like one
 * are given a length in front, so that the JSON is what the fuzzer works on. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "fuzz_target.h"

#define MAX_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n > 8 && data[8] == '{') {
        fuzz_one(data, n, VC_DTYPE_RAW);
    } else if (n > 1 && data[0] == '{' && n < MAX_BYTES) {
        /* The header ends at the last '}'; what follows is data. */
        size_t n_header = n;
        unsigned char *copy = malloc(8 + n);

        if (copy == NULL) {
            return 0;
        }
        while (n_header > 1 && data[n_header - 1] != '}') {
            n_header--;
        }
        vc_put_le64(copy, n_header);
        memcpy(copy + 8, data, n);
        fuzz_one(copy, 8 + n, VC_DTYPE_RAW);
        free(copy);
    }
    return 0;
}
