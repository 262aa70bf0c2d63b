/* fuzz_onnx.c - any bytes as an ONNX file: read as fuzz_npz.c does for npz; then, where that works, a quantization and
 * a dequantization are planned and run without a file, which takes the graph apart and puts it together again. Inputs
 * that do not begin like one get a version in front. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"

#define MAX_BYTES ((size_t)1 << 20)

static void both(const uint8_t *data, size_t n)
{
    fuzz_one(data, n, VC_DTYPE_RAW);
    if (fuzz_ctx()->status == VC_OK) {
        fuzz_job(fuzz_file(data, n), true, false, VC_LAYOUT_AUTO);
        fuzz_job(fuzz_file(data, n), false, n % 2 == 1, VC_LAYOUT_AUTO);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t start[2] = {0x08, 0x08};
    uint8_t *copy;

    if (n >= 2 && data[0] == start[0]) {
        both(data, n);
    } else if (n < MAX_BYTES) {
        copy = malloc(sizeof start + n);
        if (copy == NULL) {
            return 0;
        }
        memcpy(copy, start, sizeof start);
        if (n > 0) {
            memcpy(copy + sizeof start, data, n);
        }
        both(copy, sizeof start + n);
        free(copy);
    }
    return 0;
}
