/* sha256.c - see sha256.h. The only file that knows nettle. */
#include "passes/sha256.h"

#if VC_HAVE_NETTLE

#include <nettle/sha2.h>
#include <nettle/version.h>
#include <stdint.h>

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(struct vc_sha256), "room for nettle's state");

bool vc_sha256_built_in(void)
{
    return true;
}

void vc_sha256_begin(struct vc_sha256 *sha)
{
    sha256_init((struct sha256_ctx *)(void *)sha->state);
}

void vc_sha256_add(struct vc_sha256 *sha, const void *data, size_t n)
{
    sha256_update((struct sha256_ctx *)(void *)sha->state, n, data);
}

void vc_sha256_end(struct vc_sha256 *sha, char hex[VC_SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_SIZE];

#if NETTLE_VERSION_MAJOR >= 4 /* always the whole digest */
    sha256_digest((struct sha256_ctx *)(void *)sha->state, digest);
#else
    sha256_digest((struct sha256_ctx *)(void *)sha->state, sizeof digest, digest);
#endif
    for (size_t i = 0; i < sizeof digest; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[2 * sizeof digest] = '\0';
}

#else

bool vc_sha256_built_in(void)
{
    return false;
}

void vc_sha256_begin(struct vc_sha256 *sha)
{
}

void vc_sha256_add(struct vc_sha256 *sha, const void *data, size_t n)
{
}

void vc_sha256_end(struct vc_sha256 *sha, char hex[VC_SHA256_HEX_BYTES])
{
    hex[0] = '\0';
}

#endif
