/* features.c - what this build and this machine have, as text for --version. Loads nothing, starts nothing. */

#include "core/base/cpu.h"
#include "formats/zip/codec.h"

#if VC_HAVE_NETTLE /* passes/ */
#define SHA256_TEXT ", nettle"
#else
#define SHA256_TEXT ""
#endif

static char features[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void describe(void)
{
    size_t n = (size_t)snprintf(features, sizeof features, "%s" SHA256_TEXT "\ncpu levels:", vc_codec_describe());

    for (int level = VC_CPU_REF; level < VC_CPU_COUNT && n < sizeof features; level++) {
        if (vc_cpu_has((enum vc_cpu_level)level)) {
            n +=
                (size_t)snprintf(features + n, sizeof features - n, " %s", vc_cpu_level_name((enum vc_cpu_level)level));
        }
    }
}

const char *vc_features(void)
{
    (void)pthread_once(&once, describe);
    return features;
}
