/* byte_order.h - numbers of a big-endian file become little-endian ones, in place. Readers call it on what they hand
 * out.
 *
 *     unit 4:  3f 80 00 00 | 40 00 00 00  ->  00 00 80 3f | 00 00 00 40      (1.0f, 2.0f) */
#pragma once

#include <stddef.h>

/* Reverses each group of unit (2, 4 or 8) bytes; n is a multiple of it. unit 0: nothing to do. */
void vc_bytes_swap(void *data, size_t n, unsigned unit);
