/* gguf_folder.h - a model in Hugging Face's layout becomes the GGUF model that llama.cpp runs: its names, shapes and
 * values of tensors, its metadata, its vocabulary.
 *
 *     qwen3/config.json, model.safetensors, tokenizer.json       model.layers.0.self_attn.q_proj.weight
 *     a GGUF model in memory                                     blk.0.attn_q.weight, qwen3.block_count 28, ...
 *
 * The model that comes out is one of the format GGUF: passes and the writer treat it as a file of that kind. Values are
 * read from the source by range, and changed on the way. */
#pragma once

#include "core/model/source.h"

/* The model of a folder that has a config.json, and is no pipeline: what vc_open_options.as_gguf is about. */
enum vc_status vc_gguf_folder_fits(struct vc_ctx *ctx, const struct vc_model *source, bool *fits);

/* Fills model (all but ctx, path, and what vc_format_open sets), takes over source. VC_E_UNSUPPORTED names what
 * llama.cpp would compute in another way, or what has no place in a GGUF file; no weight is read before. */
enum vc_status vc_gguf_folder_open(struct vc_ctx *ctx, const struct vc_open_options *options, struct vc_model *source,
                                   struct vc_model *model);

/* ---- the way back (llm_back.c) ---- */

/* A GGUF model: what vc_open_options.as_folder is about. */
bool vc_gguf_back_fits(const struct vc_model *source);

/* As vc_gguf_folder_open: the model has the names, shapes and values of transformers, and a folder in memory with
 * config.json and the tokenizer, whose weights the writer of the format makes. */
enum vc_status vc_gguf_back_open(struct vc_ctx *ctx, const struct vc_open_options *options,
                                 const struct vc_format *format, struct vc_model *source, struct vc_model *model);
