/* environment.h - what remote files ask of the machine: the plug-in, and the variables that the hub's own tools read. */
#pragma once

#include "core/base/ctx.h"
#include "formats/remote/http.h"

/* VC_E_DEVICE where no place has the plug-in, with the places and how to get it. It stays loaded. */
enum vc_status vc_http_load(struct vc_ctx *ctx, const struct vc_http **out);

/* HF_ENDPOINT, without a slash at its end, in `buffer`. */
enum vc_status vc_hub_endpoint(struct vc_ctx *ctx, char *buffer, size_t room);

/* "Bearer <token>" by HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or the file HF_TOKEN_PATH, HF_HOME/token,
 * XDG_CACHE_HOME/huggingface/token, ~/.cache/huggingface/token; NULL if there is none. vc_free it. No sentence has a part
 * of it. */
enum vc_status vc_hub_token(struct vc_ctx *ctx, char **out);

/* VCOMPRESS_HTTP_TIMEOUT, VCOMPRESS_HTTP_RETRY; what is no number in their limits counts as not set. */
unsigned vc_http_timeout(void);
double vc_http_pause(void);
