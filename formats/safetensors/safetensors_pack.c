/* safetensors_pack.c - see safetensors_pack.h. */
#include "formats/safetensors/safetensors_pack.h"

#include <string.h>

#include "core/base/checked.h"

static void turn_over(const unsigned char *from, size_t n, unsigned char *to)
{
    size_t i;

    for (i = 0; i < n; i++) {
        to[i] = from[i] ^ 0x80;
    }
}

size_t vc_safetensors_pack_bound(uint64_t min_row, size_t n)
{
    return min_row == 0 ? n : n + 3 * (n / (size_t)min_row + 1);
}

size_t vc_safetensors_pack(uint64_t row, uint64_t at, const void *codes, size_t n, void *packed)
{
    const unsigned char *from = codes;
    size_t n_padding = (size_t)(safetensors_packed_row(row) - row);
    unsigned char *to = packed;

    while (n != 0) {
        uint64_t left = row - at % row;
        size_t run = (size_t)vc_min_u64(n_padding == 0 ? n : left, n);

        turn_over(from, run, to);
        from += run;
        to += run;
        n -= run;
        at += run;
        if (run == left) {
            memset(to, 0, n_padding);
            to += n_padding;
        }
    }
    return (size_t)(to - (unsigned char *)packed);
}

size_t vc_safetensors_unpack(uint64_t row, uint64_t at, void *packed, size_t n)
{
    uint64_t packed_row = safetensors_packed_row(row);
    const unsigned char *from = packed;
    unsigned char *to = packed;
    size_t i;

    for (i = 0; row == packed_row && i < n; i++) {
        to[i] ^= 0x80;
    }
    if (row == packed_row) {
        return n;
    }
    while (n != 0) {
        uint64_t column = at % packed_row;
        size_t run = (size_t)vc_min_u64(packed_row - column, n);
        size_t n_codes = column < row ? (size_t)vc_min_u64(row - column, run) : 0;

        for (i = 0; i < n_codes; i++) {
            to[i] = from[i] ^ 0x80; /* `to` is never ahead of `from` */
        }
        to += n_codes;
        from += run;
        at += run;
        n -= run;
    }
    return (size_t)(to - (unsigned char *)packed);
}
