/* fuzz_imatrix.c - any bytes as an importance matrix of before GGUF, as fuzz_npz.c does for npz. What does not begin
 * with the number of entries 1 or 2 gets an entry's first twelve bytes in front. */
#include <stddef.h>
#include <stdint.h>

#include "fuzz_target.h"

static void one(const uint8_t *data, size_t n)
{
    fuzz_one(data, n, VC_DTYPE_RAW);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char start[12] = {1, 0, 0, 0, 4, 0, 0, 0, 'a', '.', 'w', 't'};

    if (n >= 4 && data[0] == 2 && data[1] == 0) {
        one(data, n);
        return 0;
    }
    fuzz_begin_with(start, sizeof start, 4, data, n, 1 << 16, one);
    return 0;
}
