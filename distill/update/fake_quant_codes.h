/* fake_quant_codes.h - fake quantization to codes whose scales a search finds: int4, nf4, nvfp4 and the other rows of
 * core/model/code_schemes.h but int8. Scales and values come from kernels/grid_codes.h, as in quantize and dequantize:
 *
 *     masters of a group --search--> scale s --nearest codes--> w = value(code(m / s)) * s
 *
 * A search over the values w may find another scale than s. So codes are written, made of the masters, for students of
 * floats, too (vc_weight.becomes). */
#pragma once

#include "core/chain/pass.h"
#include "distill/update/fake_quant_scales.h"

/* What the codes of a tensor are, and how they are made. */
struct vc_searched {
    const struct vc_code_scheme *scheme; /* NULL: not codes of this kind, or with parts that training cannot keep */
    const struct vc_quant *quant;
    struct vc_group_codes how;
};

/* Of a tensor of a file; of a tensor as a planned pass leaves it. */
struct vc_searched vc_fake_quant_of_tensor(const struct vc_model *model, const struct vc_tensor *tensor);
struct vc_searched vc_fake_quant_of_desc(const struct vc_dialect *dialect, const struct vc_desc *desc);

/* Entry f->entry of the weights has codes of that kind. */
void vc_fake_quant_set(const struct vc_learner *l, struct vc_fake_quant *f, const struct vc_searched *codes);
/* Finds the tensors that share a global scale, as quantize does. After all of them are set. */
void vc_fake_quant_join(const struct vc_learner *l);
/* The weights of these tensors become what the codes of their masters stand for; NaN where a master of the group is NaN
 * or infinite. begin: only of tensors without codes in the student's file; the others are what their codes say. On the
 * threads of the engine; NULL: on this thread. */
void vc_fake_quant_search(const struct vc_learner *l, bool begin, struct vc_engine *engine);
