/* sha256.h - SHA-256 of bytes that come piece by piece. By nettle, where it was found at build time. */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>

#define VC_SHA256_HEX_BYTES 65 /* with its NUL */

struct vc_sha256 {
    alignas(16) unsigned char state[256];
};

/* False: this build has none, and the others must not be called. */
bool vc_sha256_built_in(void);

void vc_sha256_begin(struct vc_sha256 *sha);
void vc_sha256_add(struct vc_sha256 *sha, const void *data, size_t n);
/* The digest as lower-case digits. */
void vc_sha256_end(struct vc_sha256 *sha, char hex[VC_SHA256_HEX_BYTES]);
