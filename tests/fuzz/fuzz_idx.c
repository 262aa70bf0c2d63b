/* fuzz_idx.c - any bytes as an idx file, as fuzz_npz.c does for npz: as they are, and packed by gzip. What does not
 * begin like one gets the first four bytes in front. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "fuzz_target.h"

#define MAX_BYTES ((size_t)1 << 16)

static void both(const uint8_t *data, size_t n)
{
    static unsigned char packed[2 * MAX_BYTES];
    z_stream z;

    fuzz_one(data, n, VC_DTYPE_RAW);
    memset(&z, 0, sizeof z);
    if (deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return;
    }
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)n;
    z.next_out = packed;
    z.avail_out = sizeof packed;
    if (deflate(&z, Z_FINISH) == Z_STREAM_END) {
        fuzz_one(packed, sizeof packed - z.avail_out, VC_DTYPE_RAW);
    }
    (void)deflateEnd(&z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char start[4] = {0, 0, 8, 2};

    if (n >= 2 && data[0] == 0x1f && data[1] == 0x8b) {
        fuzz_one(data, n, VC_DTYPE_RAW);
        return 0;
    }
    fuzz_begin_with(start, sizeof start, 2, data, n, MAX_BYTES, both);
    return 0;
}
