/* changed_model.h - a model as the passes of a job leave it, while the job is planned: some of its tensors have other
 * shapes, types and values, which lie in memory; all others are the base's, and are read from there.
 *
 *     base (a file)         changes               this model
 *     fc1.weight [784,128]  f32 [784,64], bytes   fc1.weight [784,64], read from memory
 *     fc1.bias   [128]      none                  fc1.bias [128], read from the file
 *     fc2.weight [128,10]   int8 codes, scale     fc2.weight, codes, and one tensor more behind all of the base: its scale
 *
 * So a pass that computes with the whole model (training) sees what a file that was written in between would hold. */
#pragma once

#include "core/model/source.h"

/* A part of codes: scales, zero points. */
struct vc_change_part {
    enum vc_part_role role;
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems;
    const void *data;
};

/* What a tensor has become: values, or codes with their parts. */
struct vc_change {
    bool changed; /* false: the tensor is as the base has it, and the rest is not looked at */
    enum vc_dtype dtype;
    unsigned n_dims;
    const uint64_t *shape;
    uint64_t n_elems;
    const void *data;             /* C order, little-endian */
    const struct vc_quant *quant; /* how codes become values, but for its list of parts; NULL: these are the values */
    size_t n_parts;               /* at most VC_PART_ROLES */
    struct vc_change_part *parts;
};

/* changes: one for each tensor of the base. The base, the changes and what they point to outlive the model, which
 * vc_changed_model_free ends; vc_model_close is not for it. */
enum vc_status vc_changed_model_make(struct vc_ctx *ctx, const struct vc_model *base, const struct vc_change *changes,
                                     struct vc_model **out);
void vc_changed_model_free(struct vc_ctx *ctx, struct vc_model *model); /* accepts NULL */
