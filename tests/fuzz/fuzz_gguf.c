/* fuzz_gguf.c - any bytes as a GGUF file, as fuzz_npz.c does for npz. Inputs that do not begin like one get the first
 * eight bytes in front. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"

#define MAX_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char start[8] = {'G', 'G', 'U', 'F', 3};
    unsigned char *copy;

    if (n >= 4 && memcmp(data, start, 4) == 0) {
        fuzz_one(data, n, VC_DTYPE_RAW);
    } else if (n < MAX_BYTES) {
        copy = malloc(sizeof start + n);
        if (copy == NULL) {
            return 0;
        }
        memcpy(copy, start, sizeof start);
        if (n > 0) {
            memcpy(copy + sizeof start, data, n);
        }
        fuzz_one(copy, sizeof start + n, VC_DTYPE_RAW);
        free(copy);
    }
    return 0;
}
