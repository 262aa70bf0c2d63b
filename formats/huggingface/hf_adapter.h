/* hf_adapter.h - PEFT's adapter_config.json as facts of an adapter (core/model/adapter.h). */
#pragma once

#include "core/model/adapter.h"
#include "core/model/source.h"

#define VC_HF_ADAPTER_NAME "adapter_config.json"
#define VC_HF_ADAPTER_NOTE "lora_adapter_metadata" /* the entry of a safetensors file that vc_model.adapter_note is */

/* vc_model.adapter_beside: that of the folder of the model, or beside a file that is called as PEFT calls its own,
 * adapter_model.safetensors; other files in such a folder are not what it speaks of, and say it in their metadata. VC_E_FORMAT: it is no JSON object. What
 * `out` points to is the arena's. */
enum vc_status vc_hf_adapter_beside(struct vc_ctx *ctx, const struct vc_model *model, struct vc_arena *arena,
                                    struct vc_adapter *out);
