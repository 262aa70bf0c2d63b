/* safetensors_modules.h - tensors of a safetensors checkpoint that belong together by the names that other programs
 * give them: int8 weights of compressed-tensors and bitsandbytes. docs/formats.md says which, and what is left alone.
 */
#ifndef VC_FORMATS_SAFETENSORS_MODULES_H
#define VC_FORMATS_SAFETENSORS_MODULES_H

#include "core/base/arena.h"
#include "core/model/dialect.h"
#include "core/model/source.h"

/* How a quantized tensor of the model lies in the file. */
enum safetensors_kind {
    SAFETENSORS_PLAIN = 0, /* it is no such weight, or one of our own */
    SAFETENSORS_PACKED,    /* m.weight_packed, presented as the codes of m.weight */
    SAFETENSORS_SCALED,    /* m.weight and m.weight_scale */
    SAFETENSORS_ABSMAX     /* m.weight and m.SCB */
};

struct safetensors_modules {
    struct vc_arena arena;            /* names and shapes of packed weights */
    unsigned char *kinds;             /* enum safetensors_kind, by tensor */
    const struct vc_dialect *dialect; /* that of the weights found; plain: there are none */
};

/* What a config.json beside the weights says, where shapes alone could mean two things. 0: it does not say. */
struct safetensors_hint {
    uint64_t num_bits, group_size;
};

/* The model has its tensors and their names sorted, ops->read works. Turns packed int8 weights into tensors of type i8
 * with the name and shape of the weight, their scales and shapes into companions. `hint` is asked at most once, when it
 * is needed; it may be NULL. VC_E_FORMAT for parts that contradict each other. */
enum vc_status vc_safetensors_find_packed(struct vc_ctx *ctx, struct vc_model *model,
                                          enum vc_status (*hint)(struct vc_ctx *ctx, const struct vc_model *model,
                                                                 struct safetensors_hint *out),
                                          struct safetensors_modules *out);

/* To be called once the manifest has been applied: weights of type i8 that nothing has been said about yet. */
enum vc_status vc_safetensors_find_scaled(struct vc_ctx *ctx, struct vc_model *model, struct safetensors_modules *out);

/* True when rows of that length make so many words of packed codes, densely or with whole codes in each word. bits: 1
 * to 8. */
bool vc_safetensors_words_fit(uint64_t row, unsigned bits, uint64_t n_words);

void vc_safetensors_modules_release(struct vc_ctx *ctx, struct safetensors_modules *modules);

#endif
