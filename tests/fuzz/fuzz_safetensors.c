/* fuzz_safetensors.c - any bytes as a safetensors file, as fuzz_npz.c does for npz. Inputs that do not begin like one
 * are given a length in front, so that the JSON is what the fuzzer works on. */
#include "fuzz_target.h"

#define MAX_BYTES ((size_t)1 << 20)

static void each(const uint8_t *data, size_t n)
{
    fuzz_one(data, n, VC_DTYPE_RAW);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_safetensors(data, n, MAX_BYTES, each);
    return 0;
}
