/* compressed_tensors.h - what writing and reading of compressed-tensors share. */
#pragma once

#include "formats/dialects/search.h"

/* What the parts are called in place of "weight". */
#define VC_CT_PACKED       "weight_packed"
#define VC_CT_SCALE        "weight_scale"
#define VC_CT_SHAPE        "weight_shape"
#define VC_CT_GLOBAL_SCALE "weight_global_scale"
#define VC_CT_ZERO_POINT   "weight_zero_point"

/* 8 bits a code, stored without sign, in words along the rows. */
struct vc_packed vc_ct_packed(enum vc_scheme scheme, uint64_t n_rows, uint64_t row);

/* Zero points, as many for each row: side by side along the columns, each plus 2^(bits-1) as codes are. */
struct vc_packed vc_ct_packed_zeros(enum vc_scheme scheme, uint64_t n_rows, uint64_t n_groups);

/* struct vc_dialect_file has what they do. */
enum vc_status vc_ct_find_packed(struct vc_search *search, size_t tensor, bool *found);
enum vc_status vc_ct_find_codes(struct vc_search *search, size_t tensor, bool *found);

/* Two codes of E2M1 in a byte, also of another dialect: the number of the tensor is called <name><global_tail>. n_name:
 * length of the weight's name; all of the codes' name where that is the weight's: then the number multiplies. */
enum vc_status vc_ct_find_packed_floats(struct vc_search *search, size_t codes, size_t n_name, const char *global_tail,
                                        bool *found);

/* What loaders keep beside a weight for its inputs goes with it. */
void vc_ct_claim_inputs(const struct vc_search *search, size_t codes, size_t n_stem);
