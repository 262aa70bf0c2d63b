/* torch_emit.h - writes opcodes of pickle protocol 2, those alone that torch.load(weights_only=True) takes.
 *
 *     63 torch._utils \n _rebuild_tensor_v2 \n 71 00     GLOBAL, and into memo slot 0
 *     28                                                 MARK
 *       28 58 "storage" 63 torch \n FloatStorage \n 58 "0" 58 "cpu" 4b 06 74 51        the storage: a persistent id
 *       4b 00 | 28 4b 02 4b 03 74 | 28 4b 03 4b 01 74 | 89 | ...       offset, sizes, strides, no gradient
 *     74 52                                              TUPLE, REDUCE: the call that makes the tensor
 *
 * What is written goes to e->to; its status tells whether there was memory for it. */
#pragma once

#include "formats/torch/torch.h"

/* Names that occur with every tensor are written once and taken from the memo afterwards. */
enum torch_word {
    TORCH_WORD_ORDERED_DICT,
    TORCH_WORD_TENSOR_V2,
    TORCH_WORD_TENSOR_V3,
    TORCH_WORD_PARAMETER,
    TORCH_WORD_UNTYPED,
    TORCH_WORD_STORAGE,
    TORCH_WORD_CPU,
    TORCH_WORD_COUNT
};

#define TORCH_MAX_DTYPES 64

/* The pickle that is being written, and what is in its memo. */
struct torch_emit {
    struct vc_text *to;
    unsigned n_memo;
    unsigned words[TORCH_WORD_COUNT];    /* memo slot + 1; 0: not written yet */
    unsigned storages[TORCH_MAX_DTYPES]; /* by number of the element type */
    unsigned dtypes[TORCH_MAX_DTYPES];
};

void vc_torch_emit_byte(struct torch_emit *e, unsigned op);
void vc_torch_emit_le32(struct torch_emit *e, uint32_t v);
void vc_torch_emit_string(struct torch_emit *e, const char *p, size_t n);
void vc_torch_emit_int(struct torch_emit *e, int64_t value);
void vc_torch_emit_float(struct torch_emit *e, double value);
void vc_torch_emit_bytes(struct torch_emit *e,
                         const struct vc_pickle_bytes *bytes); /* through _codecs.encode, as protocol 2 */
/* An integer of more than 64 bits, as it was read. */
void vc_torch_emit_long(struct torch_emit *e, const struct vc_pickle_bytes *bytes);
void vc_torch_emit_global(struct torch_emit *e, const char *module, const char *name);
/* One of the names above, from the memo where it is there already. */
void vc_torch_emit_new_ordered_dict(struct torch_emit *e);

/* The value that was written last goes into the memo: returns its slot + 1. And that value again. */
unsigned vc_torch_emit_put(struct torch_emit *e);
void vc_torch_emit_get(struct torch_emit *e, unsigned slot);

/* The tensor in storage number `key`, which it fills. */
void vc_torch_emit_tensor(struct torch_emit *e, const struct vc_out_tensor *out, const struct torch_dtype *dtype,
                          size_t key, bool parameter, bool requires_grad);
