/* fuzz_npz.c - any bytes as an npz: opening and reading every tensor in both forms must not crash, leak or hang.
 *
 * Entry point of libFuzzer; regress.c calls it for the files of the corpus where there is no libFuzzer. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    /* Other first bytes are the business of the npy target and of test_formats. */
    if (n >= 4 && memcmp(data, "PK", 2) == 0) {
        fuzz_one(data, n, n > 0 && data[n - 1] & 1 ? VC_DTYPE_BF16 : VC_DTYPE_RAW);
    }
    return 0;
}
