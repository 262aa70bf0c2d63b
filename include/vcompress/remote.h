/* remote.h - models that lie on another machine, read by ranges over HTTP, without a copy on the disk.
 *
 *     hf:OWNER/NAME, hf:OWNER/NAME@REVISION    a model of the hub that HF_ENDPOINT names (default: Hugging Face's)
 *     hf:OWNER/NAME/FILE                       one file of it
 *     hf:OWNER/NAME@refs/pr/1, @feature%2Fx    revisions with slashes
 *     https://HOST/.../model.safetensors       a file; model.safetensors.index.json: a folder of shards. ?QUERY is sent
 *                                              with the file's requests and is no part of the model's name
 *
 * While a vc_remote is open, its name is a path that vc_model_open takes, like a file's or a folder's. Headers are a few
 * hundred KB; weights come when they are read. The connection is made by a plug-in (vcompress_http.so, libcurl), so the
 * library itself opens none, and nothing listens. http:// is taken for this machine alone (localhost, 127.0.0.1).
 *
 * From the environment: HF_ENDPOINT; HF_TOKEN, or the file HF_TOKEN_PATH (default: "token" in HF_HOME), sent to
 * the endpoint's host alone; HF_HUB_DISABLE_IMPLICIT_TOKEN; HF_HUB_OFFLINE; SSL_CERT_FILE; VCOMPRESS_HTTP_TIMEOUT, seconds without a byte (60), and
 * VCOMPRESS_HTTP_RETRY, seconds before the second try (0.5).
 *
 * Experimental: see experimental.h. */
#ifndef VCOMPRESS_REMOTE_H
#define VCOMPRESS_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vcompress/context.h>

VC_BEGIN_C

struct vc_remote;

/* What a vc_remote begins with, for reading. */
struct vc_remote_info {
    /* Where files of weights were left out: the name of the model's config.json. Else NULL. */
    const char *config;
    size_t n_left_out;            /* how many they are */
    uint64_t n_requests, n_bytes; /* requests so far, redirects and tries included, and bytes of their answers */
};

static inline const struct vc_remote_info *vc_remote_facts(const struct vc_remote *remote)
{
    return (const struct vc_remote_info *)(const void *)remote;
}

/* The name begins as above. */
VC_API bool vc_remote_is(const char *name);

/* Asks for the list of files, and makes a temporary folder in $TMPDIR with a file of the right length and without bytes
 * for each. VC_E_DEVICE: the plug-in is not installed. VC_E_IO: no answer, no permission, no such model. VC_E_FORMAT: an
 * answer that contradicts itself.
 *
 * Each file of weights costs a request or two for its header. most_weights: where there are more such files, they are left
 * out if the model has a config.json without a quantization_config, which answers vc_estimate and the like as well; 0: all
 * are there. A name that is one of the files has that file. Free *out with vc_result_free, which removes
 * the folder, when all its models are closed. */
VC_API enum vc_status vc_remote_open(struct vc_ctx *ctx, const char *name, size_t most_weights, struct vc_remote **out);

VC_END_C
#endif
