/* fuzz_onnx.c - any bytes as an ONNX file: read as fuzz_npz.c does for npz; then, where that works, a quantization and
 * a dequantization are planned and run without a file, which takes the graph apart and puts it together again. Inputs
 * that do not begin like one get a version in front. */
#include <stddef.h>
#include <stdint.h>

#include "fuzz_target.h"

#define MAX_BYTES ((size_t)1 << 20)

static void both(const uint8_t *data, size_t n)
{
    fuzz_one(data, n, VC_DTYPE_RAW);
    if (fuzz_ctx()->status == VC_OK) {
        fuzz_job(fuzz_file(data, n), true, false, NULL);
        fuzz_job(fuzz_file(data, n), false, n % 2 == 1, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t start[2] = {0x08, 0x08};

    fuzz_begin_with(start, sizeof start, 1, data, n, MAX_BYTES, both);
    return 0;
}
