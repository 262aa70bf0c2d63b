/* hf_genai.h - genai_config.json, by which onnxruntime-genai finds its way in a folder with the ONNX file of a decoder:
 * sizes, names of inputs and outputs, tokens that begin and end a text. */
#pragma once

#include "core/text/text.h"

#define VC_HF_GENAI_NAME "genai_config.json"

/* What the graph tells; the rest is in the config.json and the generation_config.json of the folder. */
struct vc_hf_genai {
    const char *file; /* "model.onnx" */
    uint64_t n_layers, n_heads, n_kv_heads, head_size, vocabulary;
};

/* Adds the text to `out`. VC_E_FORMAT: one of the two files is no JSON. */
enum vc_status vc_hf_genai_write(struct vc_ctx *ctx, const char *folder, const struct vc_hf_genai *sizes,
                                 struct vc_text *out);
