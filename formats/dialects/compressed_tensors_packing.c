/* compressed_tensors_packing.c - how codes and zero points of compressed-tensors lie side by side: what reading and
 * writing share. */
#include "core/model/code_schemes.h"
#include "formats/dialects/compressed_tensors.h"

/* Codes of fewer than 8 bits lie side by side already. */
struct vc_packed vc_ct_packed(enum vc_scheme scheme, uint64_t n_rows, uint64_t row)
{
    const struct vc_code_scheme *codes = vc_code_scheme(scheme);

    return (struct vc_packed){.packing = &vc_packing_rows,
                              .bits = 8,
                              .turned = vc_code_bits(codes),
                              .n_rows = n_rows,
                              .row = vc_dtype_bytes(codes->codes, row)};
}

struct vc_packed vc_ct_packed_zeros(enum vc_scheme scheme, uint64_t n_rows, uint64_t n_groups)
{
    unsigned bits = vc_code_bits(vc_code_scheme(scheme));

    return (struct vc_packed){.packing = &vc_packing_across,
                              .bits = bits,
                              .n_rows = n_rows,
                              .row = n_groups,
                              .across = VC_ACROSS_WORDS,
                              .add = -(1 << (bits - 1))};
}
