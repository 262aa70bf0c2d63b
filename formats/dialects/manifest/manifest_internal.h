/* manifest_internal.h - what manifest.c (read) and manifest_infer.c (guessed where certain) share. */
#pragma once

#include "formats/dialects/manifest/manifest.h"

bool vc_manifest_same_shape(const struct vc_tensor *a, const struct vc_tensor *b);

/* A shape of one per tensor, one per index of `axis`, or rows x groups, as quant says. */
bool vc_manifest_scale_fits(const struct vc_tensor *t, const struct vc_tensor *scale, const struct vc_quant *quant);

/* Makes it so: the tensor is quantized, scale and zero point are its parts. */
enum vc_status vc_manifest_attach(struct vc_ctx *ctx, struct vc_model *model, size_t tensor,
                                  const struct vc_quant *quant);
