/* distill_words.h - values of options that fill several fields, of vcompress distill and of others. false, or NULL: the
 * word is none. */
#ifndef VC_TOOLS_DISTILL_WORDS_H
#define VC_TOOLS_DISTILL_WORDS_H

#include <stdbool.h>

#include <vcompress/experimental.h>

/* "int8", "int8/tensor", "int8/channel", "int4/group:64", "nvfp4", "fp16"; whether the scheme has scales of that kind
 * is the library's question. Returns the name of the scheme, static. */
const char *scheme_word(const char *value, struct vc_quantize_options *o);

#define PRECISION_WORDS "f32|f64|bf16|fp16"
bool precision_word(const char *value, enum vc_graph_precision *precision, enum vc_half *half);

#endif
