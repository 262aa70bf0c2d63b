/* one_tensor.h - models of files that are one array and nothing else: idx, npy, tokens.
 *
 *     first_byte                              header, then the elements in C order
 *     swap 4: 00 00 01 02  ->  02 01 00 00    bytes of an element are reversed */
#pragma once

#include "core/model/source.h"
#include "formats/io/infile.h"

/* What `self` of such a model begins with. */
struct vc_one_tensor {
    struct vc_infile *file;
    uint64_t first_byte; /* of the elements */
    unsigned swap;       /* bytes of each element that are reversed; 0: none */
};

/* Makes `self`, zeros of that size, and room for the tensor; takes over the file. From then on vc_model_close frees
 * everything, also after a failure. */
enum vc_status vc_one_tensor_begin(struct vc_ctx *ctx, struct vc_infile *file, size_t self_bytes,
                                   const struct vc_source_ops *ops, struct vc_model *model);

/* vc_source_ops.read, .ahead and .close; there is no checksum. */
enum vc_status vc_one_tensor_read(struct vc_ctx *ctx, const struct vc_model *model, size_t tensor, enum vc_form form,
                                  uint64_t offset, void *dst, size_t n_bytes, struct vc_check *check);
void vc_one_tensor_ahead(const struct vc_model *model, size_t tensor, uint64_t offset, uint64_t n_bytes);
void vc_one_tensor_close(struct vc_model *model);
