/* fuzz_onnx.c - any bytes as an ONNX file: read as fuzz_npz.c does for npz; then, where that works, a quantization and
 * a dequantization are planned and run without a file, which takes the graph apart and puts it together again. Inputs
 * that do not begin like one get a version in front. Readers see a file through a window, which most inputs fit into:
 *
 *     ff | u16 at, little-endian | fields
 *
 * is a file with a field of zeros that nobody knows, and its fields behind that, so that the first window ends in them,
 * `at` (10 bits) bytes behind their start. */
#include <stddef.h>
#include <stdint.h>

#include "core/base/checked.h"
#include "formats/io/protobuf_wire.h"
#include "fuzz_target.h"

#define MAX_BYTES  ((size_t)1 << 20)
#define MAX_FIELDS 4096 /* behind the field of zeros */

static void both(const uint8_t *data, size_t n)
{
    fuzz_one(data, n, VC_DTYPE_RAW);
    if (fuzz_ctx()->status == VC_OK) {
        fuzz_job(fuzz_file(data, n), true, false, NULL);
        fuzz_job(fuzz_file(data, n), false, n % 2 == 1, NULL);
    }
}

static void across_windows(size_t at, const uint8_t *fields, size_t n)
{
    static const uint8_t start[5] = {0x08, 0x08, 0x7a, 0, 0}; /* version 8; field 15 */
    static uint8_t file[VC_WIRE_WINDOW_BYTES + MAX_FIELDS];
    size_t n_zeros = VC_WIRE_WINDOW_BYTES - at - sizeof start;

    n = n < MAX_FIELDS ? n : MAX_FIELDS;
    memset(file, 0, sizeof file);
    memcpy(file, start, sizeof start);
    file[3] = (uint8_t)(0x80 | n_zeros);
    file[4] = (uint8_t)(n_zeros >> 7);
    memcpy(file + sizeof start + n_zeros, fields, n);
    both(file, sizeof start + n_zeros + n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t start[2] = {0x08, 0x08};

    if (n > 3 && data[0] == 0xff) {
        across_windows(vc_le16(data + 1) & 0x3ff, data + 3, n - 3);
        return 0;
    }
    fuzz_begin_with(start, sizeof start, 1, data, n, MAX_BYTES, both);
    return 0;
}
