/* npy_descr.h - 'descr' of an npy header: what the elements of the array are. Called by npy.c. */
#pragma once

#include "formats/npz/npy.h"
#include "formats/npz/npy_text.h"

/* Parses the value of 'descr' and goes past it: sets dtype, item_bytes and big_endian of *out, or `other` and `pickled`
 * where the elements are no numbers. VC_E_UNSUPPORTED: a type that NumPy does not write. */
enum vc_status vc_npy_take_descr(struct vc_npy_text *text, struct vc_npy_header *out);
